from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import nest, seal
from meantime.kernels.span_search import parents_among
from meantime.model.trace import SpanFlag

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s


class Span(NamedTuple):
    """A span of a thread; `level` is None where the file did not begin and end it."""

    start_ns: int
    end_ns: int
    level: int | None = None


@st.composite
def threads(draw: st.DrawFn) -> list[Span]:
    """Draw the spans of a thread as a file has them: begins and ends, and complete ones."""
    spans: list[Span] = []
    open_: list[int] = []
    now = 0
    steps = st.tuples(st.sampled_from("BBEEXX"), st.integers(0, 2), st.integers(0, 6))
    for kind, passed, length in draw(st.lists(steps, max_size=40)):
        now += passed
        if kind == "X":
            start = max(0, now + draw(st.integers(-4, 4)))
            spans.append(Span(start, start + length))
        elif kind == "B":
            open_.append(len(spans))
            spans.append(Span(now, now, len(open_) - 1))
        elif open_:
            row = open_.pop()
            spans[row] = spans[row]._replace(end_ns=now)
    for row in open_:
        spans[row] = spans[row]._replace(end_ns=now)
    return spans


def in_order(thread: list[Span]) -> list[int]:
    """The definition: the rows of a thread in the order of the table.

    By start, longest first, as they came. But begun ones of one start stay as they came, so that an
    empty one, which may have ended before the next began, comes before longer ones.
    """
    begun = [row for row, span in enumerate(thread) if span.level is not None]
    complete = [row for row, span in enumerate(thread) if span.level is None]
    begun.sort(key=lambda row: thread[row].start_ns)
    complete.sort(key=lambda row: (thread[row].start_ns, -thread[row].end_ns))
    found: list[int] = []
    while begun and complete:
        first, second = thread[begun[0]], thread[complete[0]]
        if first.start_ns != second.start_ns:
            takes_begun = first.start_ns < second.start_ns
        elif first.start_ns == first.end_ns or first.end_ns > second.end_ns:
            takes_begun = True
        else:
            takes_begun = first.end_ns == second.end_ns and begun[0] < complete[0]
        found.append((begun if takes_begun else complete).pop(0))
    return found + begun + complete


def parent_of(thread: list[Span], row: int) -> int:
    """The definition: the latest span before it that holds it wholly and is open."""

    def was_begun_inside(other: int) -> bool:
        least = thread[other].level
        if least is None or thread[row].level is None:
            return False
        levels = [thread[between].level for between in range(other + 1, row + 1)]
        return all(level > least for level in levels if level is not None)

    span = thread[row]
    return max(
        (
            other
            for other in range(row)
            if thread[other].end_ns >= span.end_ns
            and (
                thread[other].end_ns > span.start_ns
                or (thread[other].end_ns == span.start_ns and was_begun_inside(other))
            )
        ),
        default=-1,
    )


class Nested(NamedTuple):
    depth: int
    lane: int
    parent: int


def nested(thread: list[Span]) -> list[Nested]:
    """The definition: depth, lane and parent of each span in order."""
    found: list[Nested] = []
    for row, span in enumerate(thread):
        parent = parent_of(thread, row)
        last_open: dict[int, int] = {}
        for other in range(row):
            if thread[other].end_ns > span.start_ns or other == parent:
                last_open[found[other].lane] = other
        lane = 0 if parent < 0 else found[parent].lane
        if last_open.get(lane, -1) != parent:
            lane = min(set(range(1, row + 2)) - set(last_open))
        depth = 0 if parent < 0 else found[parent].depth + 1
        found.append(Nested(depth, lane, parent))
    return found


class Columns(NamedTuple):
    start_ns: Int64s
    end_ns: Int64s
    level: Int32s
    flags: npt.NDArray[np.uint8]


def columns(thread: list[Span]) -> Columns:
    return Columns(
        np.array([span.start_ns for span in thread], np.int64),
        np.array([span.end_ns for span in thread], np.int64),
        np.array([span.level or 0 for span in thread], np.int32),
        np.array([0 if span.level is None else SpanFlag.STRUCTURED for span in thread], np.uint8),
    )


def nest_one(thread: list[Span]) -> list[Nested]:
    found = nest.nest(*columns(thread), np.array([0, len(thread)]))
    return [Nested(*row) for row in zip(*(column.tolist() for column in found), strict=True)]


@given(threads())
def test_nesting_agrees_with_its_definition(thread: list[Span]) -> None:
    thread = [thread[row] for row in in_order(thread)]

    assert nest_one(thread) == nested(thread)


@given(threads())
def test_spans_of_one_lane_and_depth_never_overlap(thread: list[Span]) -> None:
    thread = [thread[row] for row in in_order(thread)]

    ended: dict[tuple[int, int], int] = {}
    for span, (depth, lane, _) in zip(thread, nest_one(thread), strict=True):
        assert ended.get((lane, depth), 0) <= span.start_ns
        ended[lane, depth] = span.end_ns


def first_wrong(thread: list[Span], depth: Int32s, lane: Int32s, parent: Int32s) -> int:
    start_ns, end_ns, _, _ = columns(thread)
    return seal.nested(np.array([0, len(thread)]), start_ns, end_ns, depth, lane, parent)


@given(threads())
def test_a_nested_table_is_found_right(thread: list[Span]) -> None:
    thread = [thread[row] for row in in_order(thread)]

    found = nest.nest(*columns(thread), np.array([0, len(thread)]))

    assert first_wrong(thread, *found) == -1


@given(threads(), st.data())
def test_a_table_that_is_found_right_has_no_overlap_in_a_lane(
    thread: list[Span], data: st.DataObject
) -> None:
    thread = [thread[row] for row in in_order(thread)]
    depth, lane, parent = nest.nest(*columns(thread), np.array([0, len(thread)]))
    lane = lane.astype(np.int32)
    if thread:
        row = data.draw(st.integers(0, len(thread) - 1))
        lane[row] = data.draw(st.integers(-1, 3))
        parent[row] = data.draw(st.integers(-2, len(thread)))

    if first_wrong(thread, depth, lane, parent) == -1:
        for one, first in enumerate(thread):
            for other, second in enumerate(thread[:one]):
                if (lane[one], depth[one]) == (lane[other], depth[other]):
                    assert second.end_ns <= first.start_ns


@given(threads())
def test_self_time_is_a_spans_time_in_none_of_its_children(thread: list[Span]) -> None:
    thread = [thread[row] for row in in_order(thread)]
    start_ns, end_ns, _, _ = columns(thread)
    parent = np.array([row.parent for row in nest_one(thread)], np.int32)

    self_ns = nest.self_time(start_ns, end_ns, parent)

    for row, span in enumerate(thread):
        outside = set(range(span.start_ns, span.end_ns))
        for child in np.flatnonzero(parent == row):
            outside -= set(range(thread[child].start_ns, thread[child].end_ns))
        assert self_ns[row] == len(outside)


@given(threads(), threads())
def test_innermost_time_gives_every_instant_to_the_latest_begun_span(
    first: list[Span], second: list[Span]
) -> None:
    both = [[thread[row] for row in in_order(thread)] for thread in (first, second)]
    start_ns, end_ns, _, _ = columns(both[0] + both[1])

    found = nest.innermost_time(
        start_ns, end_ns, np.array([0, len(first), len(first) + len(second)])
    )

    expected = []
    for thread in both:
        times = [0] * len(thread)
        for time_ns in range(max([span.end_ns for span in thread], default=0)):
            open_ = [
                row for row, span in enumerate(thread) if span.start_ns <= time_ns < span.end_ns
            ]
            if open_:
                times[open_[-1]] += 1
        expected += times
    assert found.tolist() == expected


def test_a_staircase_of_many_overlapping_spans_gets_a_lane_each() -> None:
    steps = np.arange(20_000, dtype=np.int64)

    depth, lane, parent = nest.nest(
        steps,
        steps + 20_000,
        np.zeros(20_000, np.int32),
        np.zeros(20_000, np.uint8),
        np.array([0, 20_000]),
    )

    assert lane.tolist() == steps.tolist()
    assert not depth.any()
    assert np.all(parent == -1)


@given(st.lists(st.tuples(st.integers(0, 3), threads()), max_size=4))
def test_the_order_is_by_thread_and_then_that_of_its_definition(
    parts: list[tuple[int, list[Span]]],
) -> None:
    rows = [(thread, span) for thread, part in parts for span in part]
    rank = np.array([2, 0, 3, 1], np.int32)
    start_ns, end_ns, _, flags = columns([span for _, span in rows])

    order, offsets = nest.order(
        start_ns, end_ns, np.array([thread for thread, _ in rows], np.int32), flags, rank
    )

    expected, edges = [], [0]
    for thread in np.argsort(rank).tolist():
        of_thread = [row for row, (other, _) in enumerate(rows) if other == thread]
        expected += [of_thread[i] for i in in_order([rows[row][1] for row in of_thread])]
        edges.append(len(expected))
    assert order.tolist() == expected
    assert offsets.tolist() == edges


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=40, max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=6),
    st.sampled_from([None, 0]),
)
def test_few_spans_that_come_late_are_put_where_they_belong(
    steps: list[tuple[int, int]], moves: list[tuple[int, int]], level: int | None
) -> None:
    now, thread = 0, []
    for passed, length in steps:
        now += passed
        thread.append(Span(now, now + length, level))
    for source, target in moves:
        thread.insert(target % len(thread), thread.pop(source % len(thread)))
    start_ns, end_ns, _, flags = columns(thread)
    rank = np.array([-1, 0], np.int32)

    order, offsets = nest.order(start_ns, end_ns, np.ones(len(thread), np.int32), flags, rank, 1)

    assert order.tolist() == in_order(thread)
    assert offsets.tolist() == [0, len(thread)]


@given(threads(), st.data())
def test_selected_spans_are_inside_the_nearest_selected_parent(
    thread: list[Span], data: st.DataObject
) -> None:
    thread = [thread[row] for row in in_order(thread)]
    parent = [row.parent for row in nest_one(thread)]
    wanted = data.draw(
        st.lists(st.booleans(), min_size=len(thread), max_size=len(thread)), label="wanted"
    )

    kept = [row for row, is_wanted in enumerate(wanted) if is_wanted]

    found = parents_among(np.array(kept, np.int32), np.array(parent, np.int32))

    expected = []
    for row in kept:
        above = parent[row]
        while above >= 0 and not wanted[above]:
            above = parent[above]
        expected.append(kept.index(above) if above >= 0 else -1)
    assert found.tolist() == expected


class Mark(NamedTuple):
    begins: bool
    thread: int
    name: int
    time_ns: int


MARKS = st.lists(
    st.builds(Mark, st.booleans(), st.integers(0, 2), st.integers(-1, 2), st.integers(0, 30)),
    max_size=50,
)


@given(MARKS)
def test_an_end_closes_the_latest_begin_of_its_thread(marks: list[Mark]) -> None:
    begins = [mark for mark in marks if mark.begins]
    ends = [mark for mark in marks if not mark.begins]
    last_ns = np.array([max([m.time_ns for m in marks if m.thread == t] or [0]) for t in range(3)])
    end_ns = np.zeros(len(begins), np.int64)
    level = np.zeros(len(begins), np.int32)
    flags = np.full(len(begins), nest.OPEN, np.uint8)
    closed = np.full(len(ends), -1, np.int32)

    counts = nest.match(
        np.array([mark.time_ns for mark in begins], np.int64),
        end_ns,
        np.array([mark.thread for mark in begins], np.int32),
        np.array([mark.name for mark in begins], np.int32),
        level,
        flags,
        np.array([mark.time_ns for mark in ends], np.int64),
        np.array([mark.thread for mark in ends], np.int32),
        np.array([mark.name for mark in ends], np.int32),
        np.cumsum([mark.begins for mark in marks], dtype=np.int32)[
            np.array([not mark.begins for mark in marks], bool)
        ]
        if marks
        else np.empty(0, np.int32),
        closed,
        last_ns,
    )

    expected, strays, negatives, renamed = plainly_matched(marks, last_ns.tolist())
    unfinished = (flags & SpanFlag.UNFINISHED).tolist()
    assert list(zip(end_ns.tolist(), level.tolist(), unfinished, strict=True)) == expected
    assert [int(count.sum()) for count in counts] == [
        strays,
        sum(unfinished for _, _, unfinished in expected),
        negatives,
        renamed,
    ]


def plainly_matched(
    marks: list[Mark], last_ns: list[int]
) -> tuple[list[tuple[int, int, int]], int, int, int]:
    found: list[tuple[int, int, int]] = []
    begun: list[Mark] = []
    opened: dict[int, list[int]] = {0: [], 1: [], 2: []}
    strays = negatives = renamed = 0
    for mark in marks:
        stack = opened[mark.thread]
        if mark.begins:
            found.append((max(last_ns[mark.thread], mark.time_ns), len(stack), 1))
            stack.append(len(begun))
            begun.append(mark)
        elif not stack:
            strays += 1
        else:
            row = stack.pop()
            negatives += mark.time_ns < begun[row].time_ns
            renamed += mark.name not in {-1, begun[row].name}
            found[row] = (max(mark.time_ns, begun[row].time_ns), found[row][1], 0)
    return found, strays, negatives, renamed
