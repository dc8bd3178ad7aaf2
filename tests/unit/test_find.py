"""What stands out in samples whose periods are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.history.samples import SampleTable
from meantime.model.columns import Coded
from meantime.model.stacks import StackTable
from meantime.query.offsets import CellsBuilder, Fold, OffsetMap, Source, find
from meantime.query.offsets.sampling_interval import sampling_interval_ns

if TYPE_CHECKING:
    from meantime.model.columns import Int64s

S = 10**9
LENGTH_S = 200
INTERVALS = {49: 20_408_163, 99: 10_101_010}


def runs(period_s: float, begin_s: float, busy_s: float) -> Int64s:
    starts = np.arange(begin_s, LENGTH_S, period_s)
    return (np.stack([starts, starts + busy_s], axis=1) * S).astype(np.int64)


def sampled(interval_ns: int, intervals: Int64s) -> Int64s:
    """Return when a clock sees something that runs in intervals, in order and apart."""
    times = np.arange(3_000_000, LENGTH_S * S, interval_ns)
    begun = np.searchsorted(intervals[:, 0], times, side="right")
    ended = np.searchsorted(intervals[:, 1], times, side="right")
    return times[begun > ended]


def mapped(interval_ns: int, rows: int, **jobs: Int64s) -> OffsetMap:
    builder = CellsBuilder(Fold(0, S, rows))
    for key, intervals in enumerate(jobs.values()):
        times = sampled(interval_ns, intervals)
        builder.add_times(times, keys=np.full(len(times), key))
    source = Source("x", ((0, LENGTH_S * S),), interval_ns=interval_ns)
    return OffsetMap.of(builder, "count", names=list(jobs), sources=[source])


def periods(found: OffsetMap) -> dict[str, float]:
    return {
        each.name: each.period_ns / S
        for each in find(found)
        if each.kind == "period" and each.period_ns
    }


@pytest.mark.parametrize("rate", [49, 99])
@pytest.mark.parametrize("rows", [49, 50, 99, 100])
def test_what_always_runs_has_no_period_whatever_the_sampling(rate: int, rows: int) -> None:
    always = np.array([[0, LENGTH_S * S]])
    random = np.random.default_rng(rows)
    starts = np.sort(random.integers(0, LENGTH_S * 100, 600)) * (S // 100)
    snow = np.stack([starts, starts + S // 50], axis=1)

    assert periods(mapped(INTERVALS[rate], rows, always=always, snow=snow)) == {}


@pytest.mark.parametrize("period_s", [0.5, 0.7, 1, 1.1, 1.3, 2, 3, 5, 7, 10])
@pytest.mark.parametrize("busy", [0.03, 0.1, 0.3])
def test_a_period_is_found_and_not_a_part_or_a_multiple_of_it(period_s: float, busy: float) -> None:
    job = runs(period_s, 0.37 * period_s, max(0.02, busy * min(period_s, 1)))

    found = periods(mapped(INTERVALS[99], 50, job=job))

    assert found == {"job": pytest.approx(period_s, rel=1e-3)}


def test_the_sentence_has_the_digits_that_are_known() -> None:
    sentences = [each.sentence for each in find(mapped(INTERVALS[99], 50, job=runs(5, 1, 0.3)))]

    assert sentences[0] == "job runs every 5s"


def test_a_few_long_runs_are_no_period() -> None:
    burst = np.array([[11, 29], [62, 80], [130, 155]]) * S

    assert periods(mapped(INTERVALS[99], 50, burst=burst)) == {}


def samples(
    time_ns: Int64s, *, event: str, weight: int, thread: Int64s | None = None
) -> SampleTable:
    code = np.zeros(len(time_ns), np.int32)
    each = code if thread is None else thread.astype(np.int32)
    return SampleTable(
        time_ns=time_ns,
        thread=each,
        stack=code - 1,
        weight=np.full(len(time_ns), weight, np.int64),
        event=Coded(code, [event]),
        name=Coded(each, ["a", "b"]),
        cpu=code - 1,
        stacks=StackTable(np.zeros(0, np.int32), np.zeros(0, np.int32), []),
    )


def test_perfs_clock_events_give_the_interval_of_their_samples() -> None:
    times = np.arange(100, dtype=np.int64) * S

    assert sampling_interval_ns(samples(times, event="cpu-clock:ppp", weight=10_101_010)) == (
        10_101_010
    )


def test_the_interval_of_other_samples_is_what_most_are_apart() -> None:
    times = np.repeat(np.arange(200, dtype=np.int64) * 10_101_010, 2)
    thread = np.tile([0, 1], 200)

    assert sampling_interval_ns(samples(times, event="cycles:u", weight=77, thread=thread)) == (
        10_101_010
    )


def test_events_that_happen_are_not_sampled() -> None:
    times = np.arange(200, dtype=np.int64) * 10_000_000
    thread = np.arange(200) % 2

    assert (
        sampling_interval_ns(samples(times, event="sched:sched_switch", weight=1, thread=thread))
        is None
    )


def test_a_lost_range_is_not_a_gap() -> None:
    builder = CellsBuilder(Fold(0, S, 10))
    builder.add_times(np.array([0, 1, 4, 7, 8]) * S + 1)
    source = Source("x", ((0, 9 * S),), lost=((2 * S, 3 * S),))

    found = find(OffsetMap.of(builder, "count", sources=[source]))

    assert [each.span_ns for each in found if each.kind == "gap"] == [(5 * S, 7 * S)]


def test_a_stray_time_hides_no_period() -> None:
    builder = CellsBuilder(Fold(0, S, 50))
    times = sampled(INTERVALS[99], runs(1.3, 0.2, 0.05))
    builder.add_times(np.append(times, 4 * 10**9 * S), keys=np.zeros(len(times) + 1, np.int64))
    source = Source("x", ((0, 4 * 10**9 * S + 1),), interval_ns=INTERVALS[99])

    assert periods(OffsetMap.of(builder, "count", names=["job"], sources=[source])) == {
        "job": pytest.approx(1.3, rel=1e-3)
    }


def test_one_thread_that_keeps_time_is_not_taken_for_sampling() -> None:
    times = np.arange(200, dtype=np.int64) * 10_000_000
    thread = (np.arange(200) == 7).astype(np.int32)

    assert sampling_interval_ns(samples(times, event="x", weight=1, thread=thread)) is None


def threads(count: int, *stopped_s: tuple[float, float]) -> dict[str, Int64s]:
    edges = [0.0, *(edge for stop in stopped_s for edge in stop), float(LENGTH_S)]
    running = (np.array(edges).reshape(-1, 2) * S).astype(np.int64)
    return {f"work{number}": running for number in range(count)}


def sentences(found: OffsetMap) -> list[str]:
    return [each.sentence for each in find(found)]


def test_a_stop_of_everything_is_found_with_its_edges() -> None:
    stalls = [(13.2, 13.6), (40.7, 41.3), (77.34, 77.6), (99.1, 101.5)]

    assert sorted(sentences(mapped(INTERVALS[99], 50, **threads(3, *stalls)))) == [
        "nothing happened for 2.4s from 99.1s",
        "nothing happened for 260ms from 77.34s",
        "nothing happened for 400ms from 13.2s",
        "nothing happened for 600ms from 40.7s",
    ]


def test_names_that_stop_together_are_one_finding() -> None:
    jobs = {**threads(3, (40.7, 41.3)), "other": np.array([[0, LENGTH_S * S]])}

    assert sentences(mapped(INTERVALS[99], 50, **jobs)) == [
        "work0, work1 and work2 stopped for 600ms from 40.7s"
    ]


def test_stops_that_come_again_and_again_are_one_period() -> None:
    stops = [(second + 0.6, second + 0.8) for second in range(2, 198, 4)]

    assert sentences(mapped(INTERVALS[99], 50, **threads(3, *stops))) == [
        "everything stops every 4s"
    ]


@pytest.mark.parametrize(("length_s", "period_s"), [(60, 10), (120, 10), (200, 10), (200, 20)])
@pytest.mark.parametrize("stop_s", [0.1, 0.3, 1.5])
@pytest.mark.parametrize("names", [1, 3])
def test_regular_stops_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, length_s: int, period_s: int, stop_s: float, names: int
) -> None:
    monkeypatch.setattr(f"{__name__}.LENGTH_S", length_s)
    stops = [(second + 2.5, second + 2.5 + stop_s) for second in range(0, length_s, period_s)]

    found = sentences(mapped(INTERVALS[99], 50, **threads(names, *stops)))

    who = "everything" if names > 1 else "work0"
    assert found == [f"{who} stops every {period_s}s"]


def test_regular_stops_are_found_among_short_gaps() -> None:
    random = np.random.default_rng(2)
    begins = np.sort(random.uniform(0, LENGTH_S, 150))
    chance = [
        (begin, begin + length)
        for begin, length in zip(begins, random.exponential(0.05, 150), strict=True)
    ]
    edges = np.zeros(LENGTH_S * 1000 + 2, np.int8)
    for begin, end in [*chance, *((second + 4.2, second + 4.8) for second in range(0, 200, 14))]:
        edges[1 + int(begin * 1000) : 1 + int(end * 1000)] = 1
    running = np.flatnonzero(np.diff(np.concatenate([[1], edges[1:-1], [1]]))).reshape(-1, 2)

    found = find(mapped(INTERVALS[99], 50, work=running * (S // 1000)))

    assert [each.sentence for each in found] == ["work stops every 14s"]


def test_a_stop_off_the_beat_is_a_gap_beside_the_period() -> None:
    stops = [(second + 2.5, second + 2.9) for second in range(0, 200, 20)]
    extra = (131.3, 132.1)

    found = sentences(mapped(INTERVALS[99], 50, **threads(3, *sorted([*stops, extra]))))

    assert found == ["everything stops every 20s", "nothing happened for 800ms from 131.3s"]


def test_names_that_run_together_are_one_period() -> None:
    jobs = {name: runs(5, begin, 0.3) for name, begin in (("a", 0.3), ("b", 0.35), ("c", 2.8))}

    periods = [each.sentence for each in find(mapped(INTERVALS[99], 50, **jobs))]
    assert sorted(periods) == ["a and b run every 5s", "c runs every 5s"]


def test_a_burst_shorter_than_a_column_is_found_with_the_name_that_made_it() -> None:
    builder = CellsBuilder(Fold(0, S, 50))
    always = sampled(INTERVALS[99], np.array([[0, LENGTH_S * S]]))
    burst = sampled(INTERVALS[99], np.array([[13_200, 13_600], [40_700, 41_300]]) * 10**6)
    for key, times in ((0, np.repeat(always, 3)), (1, np.repeat(burst, 8))):
        builder.add_times(times, keys=np.full(len(times), key))
    source = Source("x", ((0, LENGTH_S * S),), interval_ns=INTERVALS[99])
    found = find(OffsetMap.of(builder, "count", names=["always", "burst"], sources=[source]))

    spans = {each.span_ns for each in found if each.kind == "burst" and each.name == "burst"}
    edges = np.array(sorted(span for span in spans if span)) / 10**6
    # to a cell
    assert np.abs(edges - [[13_200, 13_600], [40_700, 41_300]]).max() <= 20
    assert all("times the usual load for" in each.sentence for each in found)


def test_a_burst_of_a_periodic_name_is_its_period() -> None:
    jobs = {f"job{number}": runs(20, 3, 0.5) for number in range(8)}

    kinds = {each.kind for each in find(mapped(INTERVALS[99], 50, **threads(2), **jobs))}

    assert "burst" not in kinds


def test_what_comes_and_goes_by_chance_neither_stops_nor_bursts() -> None:
    random = np.random.default_rng(3)
    alarms = 0
    for _ in range(20):
        jobs = {"steady": np.array([[0, LENGTH_S * S]])}
        for number in range(9):
            rate, length_s = 10 ** random.uniform(-1.5, 0.7), 10 ** random.uniform(-2.3, -0.3)
            waits = random.exponential(1 / rate, 400) + random.exponential(length_s, 400)
            starts = np.cumsum(waits)
            lengths = random.exponential(length_s, 400)
            ends = np.minimum(starts + lengths, np.append(starts[1:], np.inf))
            jobs[f"snow{number}"] = (np.stack([starts, ends], 1) * S).astype(np.int64)
        alarms += len(find(mapped(INTERVALS[99], 50, **jobs)))

    assert alarms <= 1


def test_empty_columns_are_gaps_only_where_they_are_unusual() -> None:
    times = np.append(np.cumsum(np.resize([1, 2, 3, 4, 5], 60)), [200, 201]) * S + 1
    builder = CellsBuilder(Fold(0, S, 10))
    builder.add_times(times)
    source = Source("x", ((0, int(times[-1]) + 1),))

    found = find(OffsetMap.of(builder, "count", sources=[source]))

    assert [each.sentence for each in found if each.kind == "gap"] == [
        "nothing happened for 19s from 181s"
    ]


def test_what_stops_with_everything_has_no_period_of_its_own() -> None:
    chance = np.random.default_rng(6)
    at = np.arange(0, 600 * S, 10_101_010)
    at = at[(at + 5 * S) % (8 * S) >= S // 2]
    names = ("most", "some", "few")
    name = chance.choice(len(names), len(at), p=(0.7, 0.2, 0.1))
    builder = CellsBuilder(Fold(0, 3 * S, 50))
    builder.add_times(at, keys=name)
    source = Source("x", ((0, 600 * S),), interval_ns=10_101_010)
    found = OffsetMap.of(builder, "count", names=list(names), sources=[source])

    sentences = [each.sentence for each in find(found) if each.kind == "period"]

    assert sentences == ["everything stops every 8s"]


def test_stops_of_a_map_without_names_are_found() -> None:
    builder = CellsBuilder(Fold(0, S, 50))
    builder.add_times(np.array([t for t in range(0, 200 * S, 10**7) if t % (8 * S) >= S // 2]))
    found = OffsetMap.of(builder, "count", sources=[Source("x", ((0, 200 * S),))])

    assert [each.sentence for each in find(found)] == ["everything stops every 8s"]
