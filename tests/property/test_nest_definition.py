from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import nest
from meantime.trace import SpanFlag


class Span(NamedTuple):
    start_ns: int
    end_ns: int
    level: int = 0


def spans(longest: int = 12) -> st.SearchStrategy[list[Span]]:
    times = st.tuples(st.integers(0, longest), st.integers(0, 6), st.integers(0, 2))
    return st.lists(times.map(lambda t: Span(t[0], t[0] + t[1], t[2])), max_size=40)


def in_order(thread: list[Span]) -> list[Span]:
    return sorted(thread, key=lambda span: (span.start_ns, -span.end_ns))


def nested(thread: list[Span]) -> list[tuple[int, int, int]]:
    """The definition: depth, lane and parent of each span of a thread in order."""
    lanes: list[list[int]] = []
    found: list[tuple[int, int, int]] = []
    for row, span in enumerate(thread):
        chosen = None
        for number, lane in enumerate(lanes):
            while lane and thread[lane[-1]].end_ns <= span.start_ns:
                top = thread[lane[-1]]
                if top.end_ns == span.end_ns and top.level < span.level:
                    chosen = number
                    break
                lane.pop()
            if chosen is not None:
                break
        if chosen is None:
            free = [
                (-thread[lane[-1]].start_ns if lane else float("inf"), number)
                for number, lane in enumerate(lanes)
                if not lane or thread[lane[-1]].end_ns >= span.end_ns
            ]
            chosen = min(free)[1] if free else len(lanes)
        if chosen == len(lanes):
            lanes.append([])
        lane = lanes[chosen]
        found.append((len(lane), chosen, lane[-1] if lane else -1))
        lane.append(row)
    return found


def columns(thread: list[Span]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([span.start_ns for span in thread], np.int64),
        np.array([span.end_ns for span in thread], np.int64),
        np.array([span.level for span in thread], np.int32),
    )


@given(spans())
def test_nesting_is_what_its_definition_says(thread: list[Span]) -> None:
    thread = in_order(thread)
    start_ns, end_ns, level = columns(thread)

    depth, lane, parent = nest.nest(
        start_ns, end_ns, level, np.array([0, len(thread)]), np.zeros(1, np.uint8)
    )

    found = zip(depth.tolist(), lane.tolist(), parent.tolist(), strict=True)
    assert list(found) == nested(thread)


@given(spans())
def test_every_span_is_within_its_parent_and_self_times_add_up(thread: list[Span]) -> None:
    thread = in_order(thread)
    start_ns, end_ns, level = columns(thread)
    _, _, parent = nest.nest(
        start_ns, end_ns, level, np.array([0, len(thread)]), np.zeros(1, np.uint8)
    )

    self_ns = nest.self_time(start_ns, end_ns, parent)

    inside = parent >= 0
    assert np.all(start_ns[parent[inside]] <= start_ns[inside])
    assert np.all(end_ns[parent[inside]] >= end_ns[inside])
    assert np.all(self_ns >= 0)
    assert self_ns.sum() == (end_ns - start_ns)[~inside].sum()


def test_a_staircase_of_many_overlapping_spans_gets_a_lane_each() -> None:
    steps = np.arange(20_000, dtype=np.int64)

    depth, lane, parent = nest.nest(
        steps,
        steps + 20_000,
        np.zeros(20_000, np.int32),
        np.array([0, 20_000]),
        np.zeros(1, np.uint8),
    )

    assert lane.tolist() == steps.tolist()
    assert not depth.any()
    assert np.all(parent == -1)


@given(st.lists(st.tuples(st.integers(0, 3), spans(5)), max_size=4))
def test_the_order_is_by_thread_start_and_length_and_stable(
    threads: list[tuple[int, list[Span]]],
) -> None:
    rows = [(thread, span) for thread, part in threads for span in part]
    rank = np.array([2, 0, 3, 1], np.int32)
    start_ns, end_ns, _ = columns([span for _, span in rows])

    order, offsets, _ = nest.order(
        start_ns,
        end_ns,
        np.array([thread for thread, _ in rows], np.int32),
        np.zeros(len(rows), np.uint8),
        rank,
    )

    expected = sorted(
        range(len(rows)),
        key=lambda row: (rank[rows[row][0]], rows[row][1].start_ns, -rows[row][1].end_ns),
    )
    assert order.tolist() == expected
    counts = [sum(rank[thread] == place for thread, _ in rows) for place in range(4)]
    assert np.diff(offsets).tolist() == counts


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
    flags = np.full(len(begins), SpanFlag.STRUCTURED, np.uint8)
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
