from __future__ import annotations

import math
import tempfile
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listed_source import listed
from version_1 import as_version_1

from meantime.history import HistoryBuilder, Interval
from meantime.history.directory.open import open_history
from meantime.history.store import Store
from meantime.model.columns import Coded
from meantime.model.units import bin_edge
from meantime.testing.strategies import changes

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.model.columns import Value
    from meantime.testing.strategies import Change

QUARKS = 5
TAGS = 3
NUMBERS_OF: dict[type, tuple[type, ...]] = {int: (float,), float: (int,)}


class Naive:
    """The definition: per quark a list of [time, value, tag], by the rules and nothing else."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[int, Value, int | None]]] = {
            quark: [] for quark in range(QUARKS)
        }
        self.replaced = 0

    def modify(self, change: Change) -> None:
        rows = self.rows[change.quark]
        last = rows[-1] if rows else (None, None, None)
        if same(last[1], change.value) and last[2] == change.tag:
            return
        if last[0] == change.time_ns:
            rows.pop()
            self.replaced += 1
        # -0.0 is taken for 0.0, which it equals
        value = change.value + 0.0 if isinstance(change.value, float) else change.value
        rows.append((change.time_ns, value, change.tag))

    def intervals(self, quark: int, start_ns: int, end_ns: int) -> list[Interval]:
        rows = self.rows[quark]
        if not rows or rows[0][0] > start_ns:
            rows = [(start_ns, None, None), *rows]
        ends = [row[0] for row in rows[1:]] + [end_ns]
        return [
            Interval(quark, row[0], end, row[1], row[2])
            for row, end in zip(rows, ends, strict=True)
        ]


def same(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def shown(intervals: object) -> list[str]:
    """NaN is unequal to itself, and 0.0 equals -0.0: compare what is written.

    Whether an interval is ongoing is left out: so are those of a history that grows.
    """
    return [repr(tuple(interval)[:5]) for interval in intervals]  # type: ignore[attr-defined]


class Pair(NamedTuple):
    history: History
    naive: Naive


KEPT = ["memory", "growing", "disk", "growing on disk", "version 1", "listed"]


def kept_as(kept: str, builder: HistoryBuilder, end_ns: int | None, folder: Path) -> History:
    """Return the history of a builder; one that grows ends with its last change."""
    if kept == "growing":
        return builder.history.snapshot()
    if kept == "growing on disk":
        builder.flush()
        return open_history(folder / "x.mth")
    history = builder.close(end_ns)
    if kept == "disk":
        return open_history(folder / "x.mth")
    if kept == "listed":
        return listed(history)
    if kept == "version 1":
        return open_history(as_version_1(folder / "x.mth", folder / "1.mth"))
    return history


@st.composite
def pairs(draw: st.DrawFn, folder: Path | None = None) -> Pair:
    script = draw(changes(quarks=QUARKS, tags=draw(st.sampled_from([0, TAGS]))))
    kept = draw(st.sampled_from(KEPT)) if folder is not None else "memory"
    assert folder is not None or kept == "memory"
    on_disk = kept not in {"memory", "growing", "listed"}
    segment_changes = draw(st.sampled_from([1, 2, 3, 8, 1000]))
    with mock.patch.object(Store.__init__, "__defaults__", (segment_changes,)):
        builder = HistoryBuilder(
            folder / "x.mth" if folder is not None and on_disk else None,
            start_ns=draw(st.sampled_from([0, 5, -100])),
        )
    naive = Naive()
    for quark in range(QUARKS):
        builder.quark(str(quark))
    for _ in range(TAGS):
        builder.tag({}, key=len(builder.contents.catalogue.tags))
    while script:
        length = draw(st.integers(1, 8))
        batch, script = script[:length], script[length:]
        for change in batch:
            naive.modify(change)
        put(builder, batch)
    end_ns = draw(st.one_of(st.none(), st.integers(-200, 200)))
    history = builder.close(end_ns) if folder is None else kept_as(kept, builder, end_ns, folder)
    return Pair(history, naive)


def put(builder: HistoryBuilder, batch: list[Change]) -> None:
    times, quarks, values, tags = (list(column) for column in zip(*batch, strict=True))
    if len(batch) == 1:
        builder.modify(times[0], quarks[0], values[0], tags[0])
        return
    strings = all(value is None or isinstance(value, str) for value in values)
    builder.modify_many(
        times,
        quarks,
        Coded.of(values) if strings else values,
        [-1 if tag is None else tag for tag in tags],
    )


@given(pairs())
@settings(max_examples=150, deadline=None)
def test_the_intervals_are_those_of_the_definition(pair: Pair) -> None:
    history, naive = pair
    if history.start_ns == history.end_ns:
        return

    for quark in range(QUARKS):
        expected = shown(naive.intervals(quark, history.start_ns, history.end_ns))

        assert shown(history.intervals([quark])) == expected
    assert history.anomalies["zero_length_state"] == naive.replaced


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_every_query_answers_what_the_intervals_say(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"):
        check_queries(data.draw(pairs(Path(folder))), data)


def check_queries(pair: Pair, data: st.DataObject) -> None:
    history, naive = pair
    if history.start_ns == history.end_ns:
        return
    times = st.integers(history.start_ns, history.end_ns - 1)
    changed = [row[0] for rows in naive.rows.values() for row in rows]
    if changed:
        times = times | st.sampled_from(changed)
    start_ns = data.draw(times)
    end_ns = data.draw(times.filter(lambda time: time >= start_ns)) + 1
    resolution_ns = data.draw(st.integers(1, 50) | st.just(2**34))
    bins = data.draw(st.integers(1, 9))
    quarks = data.draw(st.lists(st.integers(0, QUARKS - 1), unique=True))
    whole = {q: naive.intervals(q, history.start_ns, history.end_ns) for q in range(QUARKS)}
    met = [i for q in quarks for i in whole[q] if i.start_ns < end_ns and i.end_ns > start_ns]
    inside = {q: next(i for i in whole[q] if i.start_ns <= start_ns < i.end_ns) for q in whole}

    assert shown([history.state(q, start_ns) for q in whole]) == shown(inside.values())
    assert shown(history.at(start_ns)) == shown(inside.values())
    assert shown(history.intervals(quarks, start_ns, end_ns)) == shown(met)
    batches = list(history.interval_batches(quarks, start_ns, end_ns, rows=3))
    assert shown(i for batch in batches for i in batch) == shown(met)
    sampled = [i for i in met if is_sampled(i, start_ns, end_ns, resolution_ns)]
    assert shown(history.intervals(quarks, start_ns, end_ns, resolution_ns)) == shown(sampled)
    edges = [bin_edge(start_ns, end_ns, bins, index) for index in range(bins + 1)]
    check_shares(history, quarks, edges, met)
    check_operations(history, quarks, (start_ns, end_ns), whole)
    check_searches(history, quarks, (start_ns, end_ns), whole)


def overlapping(intervals: list[Interval], range_ns: tuple[int, int]) -> list[Interval]:
    return [i for i in intervals if i.start_ns < range_ns[1] and i.end_ns > range_ns[0]]


def check_operations(
    history: History,
    quarks: list[int],
    range_ns: tuple[int, int],
    whole: dict[int, list[Interval]],
) -> None:
    start_ns, end_ns = range_ns
    times = [end_ns - 1, start_ns, (start_ns + end_ns) // 2]
    rows = [(quark, time) for time in times for quark in quarks]
    held = [next(i for i in whole[q] if i.start_ns <= t < i.end_ns) for q, t in rows]
    asked = [[row[column] for row in rows] for column in (0, 1)]
    assert shown(history.states(*asked)) == shown(held)
    for quark, row in zip(quarks, history.sample(quarks, times).rows(), strict=True):
        found = [i.value for time in times for i in whole[quark] if i.start_ns <= time < i.end_ns]
        assert repr(row) == repr(found)
        after = [i for i in whole[quark] if i.end_ns > start_ns]
        before = [i for i in whole[quark] if i.start_ns <= start_ns][::-1]
        assert shown(history.iterate(quark, start_ns)) == shown(after)
        assert shown(history.iterate(quark, start_ns, backwards=True)) == shown(before)
        met = overlapping(whole[quark], range_ns)
        numbers = [i for i in met if isinstance(i.value, int)]
        if numbers and len(numbers) == sum(i.value is not None for i in met):
            values = [i.value for i in numbers if isinstance(i.value, int)]
            total = sum(
                value * (min(i.end_ns, end_ns) - max(i.start_ns, start_ns))
                for value, i in zip(values, numbers, strict=True)
            )
            assert history.maximum(quark, start_ns, end_ns) == max(values)
            assert history.minimum(quark, start_ns, end_ns) == min(values)
            assert history.average(quark, start_ns, end_ns) == total / (end_ns - start_ns)


def check_searches(
    history: History,
    quarks: list[int],
    range_ns: tuple[int, int],
    whole: dict[int, list[Interval]],
) -> None:
    start_ns = range_ns[0]
    met = {quark: overlapping(whole[quark], range_ns) for quark in quarks}
    for quark in quarks:
        some = any(each.value is not None for each in whole[quark])
        assert history.has_values([quark])[0] or not some
    assert history.estimate_count(quarks, *range_ns) >= len(quarks)
    every = [i for q in quarks for i in whole[q]]
    values: list[Any] = [..., None, "a", 1, -2.0, 2**62, "never", 99]
    for value in values:

        def matches(interval: Interval, value: Any = value) -> bool:
            if value is ...:
                return interval.value is not None
            return type(interval.value) in {type(value), *NUMBERS_OF.get(type(value), ())} and (
                interval.value == value
            )

        expected = [sum(map(matches, met[quark])) for quark in quarks]
        assert history.count(quarks, *range_ns, value=value).tolist() == expected
        later = [i for i in every if i.start_ns > start_ns and matches(i)]
        earlier = [i for i in every if i.start_ns < start_ns and matches(i)]
        nearest = min(later, key=lambda i: i.start_ns, default=None)
        latest = max(earlier, key=lambda i: i.start_ns, default=None)
        for found, wanted in (
            (history.following(quarks, start_ns, value=value), nearest),
            (history.preceding(quarks, start_ns, value=value), latest),
        ):
            assert shown([found] if found else []) == shown([wanted] if wanted else [])


def is_sampled(interval: Interval, start_ns: int, end_ns: int, resolution_ns: int) -> bool:
    if interval.start_ns <= start_ns or interval.end_ns >= end_ns:
        return True
    first = start_ns - (start_ns - interval.start_ns) // resolution_ns * resolution_ns
    return first < interval.end_ns


def check_shares(
    history: History, quarks: list[int], edges: list[int], met: list[Interval]
) -> None:
    expected: Counter[tuple[int, int, str]] = Counter()
    changed: Counter[tuple[int, int]] = Counter()
    for interval in met:
        for part, (low, high) in enumerate(pairwise(edges)):
            ns = min(interval.end_ns, high) - max(interval.start_ns, low)
            if ns > 0:
                expected[interval.quark, part, repr(interval.value)] += ns
            born = interval.value is None and interval.start_ns == history.start_ns
            if low <= interval.start_ns < high and not born:
                changed[interval.quark, part] += 1

    shares = history.shares(quarks, edges[0], edges[-1], len(edges) - 1)
    rows = list(zip(shares.quark, shares.bin, map(repr, shares.value.to_list()), strict=True))
    assert dict(zip(rows, shares.ns, strict=True)) == dict(expected)
    cells = zip(shares.changes_quark, shares.changes_bin, strict=True)
    assert dict(zip(cells, shares.changes, strict=True)) == dict(changed)
    longest: dict[tuple[int, int], tuple[str, int]] = {}
    for (quark, part, value), ns in zip(rows, shares.ns.tolist(), strict=True):
        before = longest.get((quark, part), ("None", 0))
        if ns > before[1] or (ns == before[1] and before[0] == "None"):
            longest[quark, part] = (value, ns)
    for dominant in (
        history.dominant(quarks, edges[0], edges[-1], len(edges) - 1),
        shares.dominant,
    ):
        found = zip(map(repr, dominant.value.to_list()), dominant.ns.tolist(), strict=True)
        where = zip(dominant.quark.tolist(), dominant.bin.tolist(), strict=True)
        assert dict(zip(where, found, strict=True)) == longest
        assert dominant.changes.tolist() == shares.changes.tolist()


@pytest.mark.parametrize("different", [60, 300, 5000])
@pytest.mark.parametrize("kind", [str, int, float])
def test_shares_of_many_values_are_in_their_order(different: int, kind: type) -> None:
    random = Random(different)  # noqa: S311 - the same example each time
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.contents.catalogue.strings.codes([f"{value:05}" for value in range(different)])
    numbers = [random.randrange(-different // 2, different // 2) for _ in range(3000)]
    values = [f"{n + different // 2:05}" if kind is str else kind(n * 2**40) for n in numbers]
    ends = list(accumulate(random.randrange(1, 9) for _ in values))
    for time_ns, value in zip([0, *ends], values, strict=False):
        builder.modify(time_ns, quark, value)
    history = builder.close(ends[-1])
    edges = [bin_edge(0, ends[-1], 3, index) for index in range(4)]
    expected: Counter[tuple[int, Value]] = Counter()
    for value, start, end in zip(values, [0, *ends], ends, strict=False):
        for part, (low, high) in enumerate(pairwise(edges)):
            expected[part, value] += max(0, min(end, high) - max(start, low))

    shares = history.shares([quark], bins=3)

    rows = zip(shares.bin.tolist(), shares.value.to_list(), strict=True)
    assert list(zip(rows, shares.ns.tolist(), strict=True)) == sorted((+expected).items())


@given(
    st.integers(0, 2**32),
    st.sampled_from([3, 50, 1000]),
    st.sampled_from([str, int]),
    st.integers(1, 3000),
    st.tuples(st.integers(0, 999), st.integers(1, 1000)),
)
@settings(max_examples=50, deadline=None)
def test_a_resolution_leaves_out_what_no_instant_is_in(
    seed: int, segment_changes: int, kind: type, resolution_ns: int, part: tuple[int, int]
) -> None:
    random = Random(seed)  # noqa: S311 - the same example each time
    builder = HistoryBuilder()
    builder.contents.store = Store(builder.contents.refuse, segment_changes)
    quarks = [builder.quark(name) for name in "abc"]
    for time_ns in sorted(random.randrange(5000) for _ in range(600)):
        value = kind(random.randrange(4)) if random.randrange(9) else None
        # the first attribute changes in few segments
        quark = quarks[0 if time_ns % 500 < 20 else random.randrange(1, 3)]
        builder.modify(time_ns, quark, value)
    history = builder.close(5000)
    start_ns = part[0] * 5
    end_ns = min(5000, start_ns + part[1] * 5)

    found = history.intervals(quarks, start_ns, end_ns, resolution_ns)

    every = history.intervals(quarks, start_ns, end_ns)
    expected = [i for i in every if is_sampled(i, start_ns, end_ns, resolution_ns)]
    assert shown(found) == shown(expected)
