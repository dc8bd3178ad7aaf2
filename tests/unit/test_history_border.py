"""What may enter a history: times, codes and ranges are checked once, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from meantime.cli import main
from meantime.errors import InputError, QuarkError, TimeRangeError
from meantime.history import History, HistoryBuilder
from meantime.history.ingest import build
from meantime.model.attributes import PathTable
from meantime.model.columns import Coded
from meantime.model.trace import Counters, Flows, Points, Samples, Spans, StateChanges, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.model.trace import Batch

LEAST, GREATEST = -(2**63), 2**63 - 1
RANGE = r"a history's times are from -2\^63 \+ 1 to 2\^63 - 2"


def times(*times_ns: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(times_ns, np.int64)


def codes(*of: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(of, np.int32)


def trace(*batches: Batch, **facts: Any) -> Trace:
    return Trace(
        "x.trace",
        "test",
        iter(batches),
        paths=PathTable([("a",), ("b",)]),
        values=["x", "y"],
        **facts,
    )


def changes(time_ns: int, entity: int = 0, state: int = 0) -> StateChanges:
    return StateChanges(times(5, time_ns), codes(1, entity), codes(0, state), codes(-1, -1))


def spans(start_ns: int, end_ns: int, name: int = 0, category: int = -1) -> Spans:
    return Spans(
        times(start_ns),
        times(end_ns),
        codes(0),
        codes(name),
        codes(category),
        codes(0),
        np.zeros(1, np.uint8),
    )


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ("-9223372036854775808,0,a,x\n-9223372036854775808,5,b,y\n", "row 1: its start_ns"),
        ("0,4,a,x\n1,9223372036854775807,b,y\n", "row 2: its end_ns"),
    ],
)
@pytest.mark.parametrize("command", [["info"], ["stats"], ["statemap", "-n"]])
def test_a_table_with_an_impossible_time_is_one_clear_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    rows: str,
    place: str,
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("start_ns,end_ns,path,value\n" + rows)

    with pytest.raises(SystemExit) as left:
        main([*command, str(table)])

    assert left.value.code == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"meantime: {table}: {place} is not an integer of nanoseconds that fits into 64 bits"
    ]


@pytest.mark.parametrize(
    ("batch", "place"),
    [
        (changes(LEAST), "a: the time -9223372036854775808 ns"),
        (changes(GREATEST), "a: the time 9223372036854775807 ns"),
        (spans(LEAST, 5), "a: the time"),
        (spans(0, GREATEST), "a: the time"),
        (Points(times(GREATEST), codes(1), codes(0), codes(-1)), "b: the time"),
        (Flows(codes(1), times(0), codes(0), times(LEAST), codes(0)), "b: the time"),
        (Counters(times(LEAST), codes(1), np.array([0.5])), "b: the time"),
        (Samples(times(LEAST), codes(1), codes(-1), times(1), codes(0)), "b: the time"),
    ],
)
def test_an_impossible_time_is_rejected_in_every_batch(batch: Batch, place: str) -> None:
    with pytest.raises(InputError, match=rf"^x.trace: {place}.*: {RANGE}$"):
        build(trace(batch))


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        (changes(6, entity=2), "StateChanges.entity: 2 is not one of the 2 paths"),
        (changes(6, entity=-1), "StateChanges.entity: -1 is not one of the 2 paths"),
        (changes(6, state=-2), "StateChanges.state: -2 is not one of the 2 values"),
        (spans(0, 5, name=2), "Spans.name: 2 is not one of the 2 values"),
        (spans(0, 5, category=0), "Spans.category: 0 is not one of the 0 categories"),
        (spans(5, 4), "a: a span ends at 4 ns, before it starts at 5 ns"),
        (
            Flows(codes(0), times(0), codes(-1), times(1), codes(0)),
            "Flows.to_entity: -1 is not one of the 2 paths",
        ),
    ],
)
def test_codes_and_spans_that_cannot_be_are_refused(batch: Batch, what: str) -> None:
    with pytest.raises(InputError, match=rf"^x.trace: {what}$"):
        build(trace(batch))


def test_codes_of_tables_that_are_filled_last_are_checked_last() -> None:
    tagged = StateChanges(times(1), codes(0), codes(0), codes(2))

    with pytest.raises(InputError, match=r"^x.trace: 2 is not one of the 1 tags of the trace$"):
        build(trace(tagged, tags=[{"a": 1}]))


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"bounds": (LEAST, 4)}, "its bounds"),
        ({"bounds": (5, 4)}, "its bounds"),
        ({"lost": [(0, 2**63)]}, "a range of lost events"),
        ({"ends": {0: LEAST}}, "an end"),
    ],
)
def test_facts_with_impossible_times_are_rejected(facts: dict[str, Any], what: str) -> None:
    with pytest.raises(
        InputError, match=rf"^x.trace: {what}, from .* to .* ns: {RANGE}, in order$"
    ):
        build(trace(changes(6), **facts))


@pytest.mark.parametrize("bounds", [None, (-(2**62) - 2**61, 5)])
def test_times_too_far_apart_to_be_measured_are_refused(bounds: tuple[int, int] | None) -> None:
    batches = [changes(2**62 + 2**61)]
    if bounds is None:
        batches.append(changes(-(2**62) - 2**61, 1))

    with pytest.raises(InputError, match=r"^x.trace: its times are more than 292 years apart"):
        build(trace(*batches, bounds=bounds))


@pytest.mark.parametrize("time_ns", [LEAST, GREATEST])
@pytest.mark.parametrize("reorder_ns", [0, 5])
def test_a_builder_refuses_the_same_times_in_columns(time_ns: int, reorder_ns: int) -> None:
    builder = HistoryBuilder(reorder_ns=reorder_ns)
    quark = builder.quark("a")
    refused = f"^a: a change at {time_ns} ns: {RANGE}$"

    with pytest.raises(TimeRangeError, match=refused):
        builder.modify_many([time_ns], [quark], [1])
    with pytest.raises(TimeRangeError, match=refused):
        builder.modify_many(times(time_ns), codes(quark), Coded.of(["x"]))

    builder.modify_many([LEAST + 1, GREATEST - 1], [quark, quark], ["x", "y"])
    history = builder.close()
    assert [tuple(interval)[1:4] for interval in history.intervals([quark])] == [
        (LEAST + 1, GREATEST - 1, "x"),
        (GREATEST - 1, GREATEST, "y"),
    ]


EPOCH = 1_700_000_000_000_000_000


@pytest.fixture
def history() -> History:
    builder = HistoryBuilder(start_ns=EPOCH)
    quark = builder.quark("a")
    builder.modify(EPOCH, quark, 5)
    builder.modify(EPOCH + 1999, quark, 7)
    return builder.close(EPOCH + 4000)


Query = Callable[[History, Any], object]
OF_ONE_TIME: list[Query] = [
    lambda history, time_ns: history.state(0, time_ns),
    lambda history, time_ns: history.at(time_ns),
    lambda history, time_ns: next(history.iterate(0, time_ns)),
    lambda history, time_ns: history.stack_top(0, time_ns),
    lambda history, time_ns: history.intervals([0], time_ns),
    lambda history, time_ns: history.intervals([0], None, time_ns),
    lambda history, time_ns: history.intervals([0], resolution_ns=time_ns),
    lambda history, time_ns: history.interval_batches([0], time_ns),
    lambda history, time_ns: history.shares([0], time_ns),
    lambda history, time_ns: history.dominant([0], None, time_ns),
    lambda history, time_ns: history.maximum(0, time_ns, EPOCH + 3),
    lambda history, time_ns: history.minimum(0, EPOCH, time_ns),
    lambda history, time_ns: history.average(0, EPOCH, time_ns),
    lambda history, time_ns: history.spans(start_ns=time_ns),
    lambda history, time_ns: history.samples(end_ns=time_ns),
]
OF_TIMES: list[Query] = [
    lambda history, times_ns: history.states([0], times_ns),
    lambda history, times_ns: history.sample([0], times_ns),
]
OF_QUARKS: list[Query] = [
    lambda history, quarks: history.states(quarks, [EPOCH]),
    lambda history, quarks: history.sample(quarks, [EPOCH]),
    lambda history, quarks: history.intervals(quarks),
    lambda history, quarks: history.interval_batches(quarks),
    lambda history, quarks: history.shares(quarks),
    lambda history, quarks: history.dominant(quarks),
    lambda history, quarks: history.has_values(quarks),
    lambda history, quarks: history.spans(quarks),
    lambda history, quarks: history.samples(quarks),
]
OF_ONE_QUARK: list[Query] = [
    lambda history, quark: history.state(quark, EPOCH),
    lambda history, quark: next(history.iterate(quark, EPOCH)),
    lambda history, quark: history.maximum(quark, EPOCH, EPOCH + 1),
    lambda history, quark: history.average(quark, EPOCH, EPOCH + 1),
]


@pytest.mark.parametrize("query", OF_ONE_TIME)
def test_a_query_rejects_a_time_that_is_not_an_integer(history: History, query: Query) -> None:
    for bad, name in ((float(EPOCH), "float"), (np.float64(EPOCH), "float64")):
        with pytest.raises(TypeError, match=rf"^a time is an integer, and this is {name}: "):
            query(history, bad)
    with pytest.raises(TypeError, match=r"^a time is an integer, and this is datetime64\[ns\]: "):
        query(history, np.datetime64(EPOCH, "ns"))
    for far in (2**63, -(2**63) - 1):
        with pytest.raises(TimeRangeError):
            query(history, far)


@pytest.mark.parametrize("query", OF_TIMES)
def test_a_query_refuses_times_that_are_no_integers(history: History, query: Query) -> None:
    for bad in ([EPOCH + 1999.0], np.array([EPOCH + 1999.0])):
        with pytest.raises(TypeError, match=r"^a time is an integer, and these are float64$"):
            query(history, bad)
    with pytest.raises(TypeError, match=r"^a time is an integer, and these are datetime64\[ns\]$"):
        query(history, np.array([EPOCH], "M8[ns]"))
    for far in ([2**63], [-(2**63) - 1], [EPOCH, 2**64], np.array([2**63], np.uint64)):
        with pytest.raises(TimeRangeError, match=r"^a time is .*: it does not fit into 64 bits$"):
            query(history, far)
    with pytest.raises(
        TypeError, match=rf"^times are a sequence of integers, and this is {EPOCH}$"
    ):
        query(history, EPOCH)


@pytest.mark.parametrize("query", OF_QUARKS)
def test_a_query_refuses_quarks_that_are_no_integers(history: History, query: Query) -> None:
    for bad in ([0.7], np.array([0.7])):
        with pytest.raises(TypeError, match=r"^a quark is an integer, and these are float64$"):
            query(history, bad)
    with pytest.raises(TypeError, match=r"^quarks are a sequence of integers, and this is 0\.7$"):
        query(history, 0.7)
    with pytest.raises(QuarkError, match=r"^a quark is 9223372036854775808: it does not fit"):
        query(history, [2**63])


@pytest.mark.parametrize("query", OF_ONE_QUARK)
def test_a_query_rejects_a_quark_that_is_not_an_integer(history: History, query: Query) -> None:
    with pytest.raises(TypeError, match=r"^a quark is an integer, and th.* float"):
        query(history, 0.0)
    with pytest.raises(QuarkError):
        query(history, 2**63)


def test_changes_refuse_what_queries_refuse() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")

    with pytest.raises(TypeError, match=r"^a time is an integer, and this is float: 1.0$"):
        builder.modify(1.0, quark, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^a time is an integer, and these are datetime64\[ns\]$"):
        builder.modify_many(np.array([1], "M8[ns]"), [quark], [1])
    with pytest.raises(TypeError, match=r"^a time is an integer, and this is datetime64"):
        builder.modify(np.datetime64(1, "ns"), quark, 1)  # type: ignore[arg-type]


def test_integers_of_numpy_are_taken_everywhere(history: History) -> None:
    after = np.int64(EPOCH + 1999)

    assert history.state(np.int32(0), after).value == 7
    assert history.sample(np.zeros(1, np.uint8), np.array([after], np.uint64)).rows() == [[7]]
    assert history.states([0], np.array([after], object)).value.to_list() == [7]
    assert history.sample([], []).rows() == []


def whole_range() -> History:
    builder = HistoryBuilder(start_ns=LEAST + 1)
    number, name = builder.quark("n"), builder.quark("s")
    builder.modify(LEAST + 1, number, 1.0)
    builder.modify(LEAST + 1, name, "x")
    return builder.close(GREATEST)


def test_a_bin_too_wide_to_be_summed_up_is_refused() -> None:
    history = whole_range()

    for query in (history.shares, history.dominant):
        with pytest.raises(TimeRangeError, match=r"^bins of 18446744073709551614 ns are too wide"):
            query([1])
    assert history.shares([1], bins=2).ns.tolist() == [2**63 - 1, 2**63 - 1]


def history_of(numbers: list[float]) -> History:
    """Return a history of an attribute that has each of these numbers for a second."""
    builder = HistoryBuilder()
    times = [second * 10**9 for second in range(len(numbers))]
    builder.modify_many(times, [builder.quark("n")] * len(numbers), numbers)
    return builder.close(len(numbers) * 10**9)


def test_averages_exist_where_products_and_ranges_overflow() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    for second, number in enumerate((1e300, 2e300)):
        builder.modify(second * 10**9, quark, number)
    endless = builder.quark("b")
    builder.modify(0, endless, float("inf"))

    history = builder.close(2 * 10**9)

    assert history.average(quark, 0, 2 * 10**9) == 1.5e300
    assert history.average(endless, 0, 2 * 10**9) == float("inf")
    # beside a number whose product is infinite as well, with the other sign
    largest = history_of([1.7e308, float("-inf"), 1.0])
    assert largest.average(0, 0, 3 * 10**9) == float("-inf")
    small = history_of([1.0, float("-inf"), 2.0])
    assert small.counter_tile([0], 0, 3 * 10**9, 1).mean.tolist() == [[float("-inf")]]
    assert whole_range().average(0, LEAST + 1, GREATEST) == 1.0


def test_every_query_is_of_what_the_trace_covers_by_default() -> None:
    trace = Trace("x", "x", values=["off", "idle", "busy"], paths=PathTable([("disk0",)]))
    trace.bounds = 1_000, 1_030
    none = np.full(6, -1, np.int32)
    trace.batches = iter(
        [
            StateChanges(
                np.array([0, 1_000, 1_010, 1_020, 2_000, 2_900]),
                np.zeros(6, np.int32),
                np.array([0, 1, 2, -1, 0, 1], np.int32),
                none,
            )
        ]
    )
    history = build(trace)
    disk = history.quark("disk0")

    for found in (
        history.intervals("disk0"),
        next(iter(history.interval_batches("disk0"))),
        history.intervals("disk0", clip=True),
    ):
        assert found.value.to_list() == ["idle", "busy", None]
        assert found.range_ns == history.bounds
    assert history.intervals("disk0", clip=True).end_ns.tolist()[-1] == 1_030
    assert history.count("disk0").tolist() == [2]
    assert history.count("disk0", value="off").tolist() == [0]
    assert history.shares("disk0").cell(disk, 0) == {"idle": 10, "busy": 10, None: 10}
    # one time is given: the other is where the bounds are, or where the history is beyond them
    assert history.count("disk0", 1_015).tolist() == [1]
    assert history.count("disk0", end_ns=1_005).tolist() == [1]
    assert history.count("disk0", end_ns=900).tolist() == [1]
    assert history.count("disk0", 2_500).tolist() == [2]
    assert history.count("disk0", 0, 3_000, value="off").tolist() == [2]
