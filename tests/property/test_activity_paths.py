"""Paths of activities through random lanes, against a plain definition."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels.activity_paths import Lanes, at_once, stretches


class Timeline(NamedTuple):
    """Lanes as lists: where the parts of each begin, where it ends, and the ends of waits."""

    starts: list[list[int]]
    ends: list[int]
    # by lane and part: the lane and the time that ended its wait
    causes: dict[tuple[int, int], list[tuple[int, int]]]

    def kernel(self) -> Lanes:
        sizes = [len(each) for each in self.starts]
        offsets = np.cumsum([0, *sizes]).astype(np.int64)
        flat = np.array([time for each in self.starts for time in each], np.int64)
        lanes = Lanes(offsets, flat, np.array(self.ends, np.int64))
        edges, source_lane, source_ns = [0], [], []
        for lane, size in enumerate(sizes):
            for part in range(size):
                for source, time in sorted(self.causes.get((lane, part), []), key=lambda x: x[1]):
                    source_lane.append(source)
                    source_ns.append(time)
                edges.append(len(source_lane))
        lanes.connect(
            np.array(edges, np.int64),
            np.array(source_lane, np.int32),
            np.array(source_ns, np.int64),
        )
        return lanes

    def part_before(self, lane: int, time: int) -> int | None:
        starts = self.starts[lane]
        if not starts or time <= starts[0] or time > self.ends[lane]:
            return None
        return bisect_right(starts, time - 1) - 1

    def cause(self, lane: int, part: int, after: int, until: int) -> tuple[int, int] | None:
        found = [each for each in self.causes.get((lane, part), []) if after < each[1] <= until]
        return max(found, key=lambda each: each[1], default=None)

    def walk(self, lane: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return where each part begins, its lane and its part: -1 without, -2 between."""
        found = []
        stack, time = [(lane, begin)], end
        while stack:
            at, low = stack[-1]
            if time <= low:
                stack.pop()
                continue
            part = self.part_before(at, time)
            if part is None:
                since = low
                if self.starts[at] and time > self.ends[at] > low:
                    since = self.ends[at]
                found.append((since, at, -1))
                time = since
                continue
            since = max(self.starts[at][part], low)
            cause = self.cause(at, part, since, time)
            if cause is not None and cause[0] not in [each for each, _ in stack]:
                if cause[1] < time:
                    found.append((cause[1], at, -2))
                    time = cause[1]
                stack.append((cause[0], since))
                continue
            found.append((since, at, part))
            time = since
        return found[::-1]


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    starts, ends = [], []
    for _ in range(draw(st.integers(1, 4))):
        times: list[int] = draw(st.lists(st.integers(0, 60), unique=True, max_size=8))
        starts.append(sorted(times))
        ends.append(max(times, default=0) + draw(st.integers(1, 20)))
    causes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for lane, parts in enumerate(starts):
        for part in range(len(parts)):
            until = parts[part + 1] if part + 1 < len(parts) else ends[lane]
            others = [each for each in range(len(starts)) if each != lane]
            if len(others) > 0 and draw(st.booleans()):
                # times of one wait differ, so that the latest is one
                ended = draw(
                    st.lists(st.integers(parts[part] - 5, until + 5), unique=True, max_size=3)
                )
                causes[lane, part] = [(draw(st.sampled_from(others)), time) for time in ended]
    return Timeline(starts, ends, causes)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Timeline, int, int, int]:
    timeline = draw(timelines())
    lane = draw(st.integers(0, len(timeline.starts) - 1))
    begin = draw(st.integers(-5, 70))
    return timeline, lane, begin, begin + draw(st.integers(1, 80))


def _walk(timeline: Timeline, lane: int, begin: int, end: int) -> list[tuple[int, int, int]]:
    _, start_ns, lanes, part, _, _ = timeline.kernel().walk(
        np.array([lane], np.int32), np.array([begin], np.int64), np.array([end], np.int64)
    )
    first = np.cumsum([0, *map(len, timeline.starts)])
    return [
        (time, each, number if number < 0 else number - int(first[each]))
        for time, each, number in zip(start_ns.tolist(), lanes.tolist(), part.tolist(), strict=True)
    ]


@given(cases())
def test_a_path_is_as_defined_and_tiles_its_activity(
    case: tuple[Timeline, int, int, int],
) -> None:
    timeline, lane, begin, end = case

    path = _walk(timeline, lane, begin, end)

    assert path == timeline.walk(lane, begin, end)
    times = [time for time, _, _ in path]
    assert times[0] == begin
    assert times == sorted(set(times))
    assert times[-1] < end


@given(cases(), st.integers(2, 1000))
def test_a_path_scales_with_its_times(case: tuple[Timeline, int, int, int], scale: int) -> None:
    timeline, lane, begin, end = case
    longer = Timeline(
        [[scale * time for time in each] for each in timeline.starts],
        [scale * time for time in timeline.ends],
        {
            key: [(source, scale * time) for source, time in found]
            for key, found in timeline.causes.items()
        },
    )

    scaled = _walk(longer, lane, scale * begin, scale * end)

    assert scaled == [
        (scale * time, each, part) for time, each, part in _walk(timeline, lane, begin, end)
    ]


@given(cases())
def test_a_lane_that_nothing_waits_for_changes_no_path(
    case: tuple[Timeline, int, int, int],
) -> None:
    timeline, lane, begin, end = case
    more = Timeline([*timeline.starts, [0, 5, 9]], [*timeline.ends, 30], timeline.causes)

    assert _walk(more, lane, begin, end) == _walk(timeline, lane, begin, end)


@given(cases(), st.data())
def test_an_activity_is_as_long_as_it_was_unless_parts_take_no_time(
    case: tuple[Timeline, int, int, int], data: st.DataObject
) -> None:
    timeline, lane, begin, end = case
    kernel = timeline.kernel()
    activity = np.array([lane], np.int32), np.array([begin], np.int64), np.array([end], np.int64)
    size = sum(map(len, timeline.starts))
    free = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.uint8)
    more = free | np.array(
        data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.uint8
    )

    assert kernel.shortest(*activity, np.zeros(size, np.uint8)).tolist() == [end - begin]
    (shorter,) = kernel.shortest(*activity, free).tolist()
    (shortest,) = kernel.shortest(*activity, more).tolist()
    assert 0 <= shortest <= shorter <= end - begin


def test_what_another_chain_takes_is_not_saved() -> None:
    # the first lane waits from 10 to 50 for the second, which is ready until 45 and then works
    timeline = Timeline([[0, 10, 50], [0, 45]], [60, 50], {(0, 1): [(1, 50)]})
    kernel = timeline.kernel()
    whole = np.array([0], np.int32), np.array([0], np.int64), np.array([60], np.int64)

    second_is_never_ready = np.array([0, 0, 0, 1, 0], np.uint8)

    # 10 of its own work, as the wait then ends at once, and 10 after it
    assert kernel.shortest(*whole, second_is_never_ready).tolist() == [20]


_RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12)


@given(_RANGES, st.integers(0, 30), st.integers(1, 40))
def test_how_many_are_open_at_once(ranges: list[tuple[int, int]], begin: int, length: int) -> None:
    starts = np.array(sorted(start for start, _ in ranges), np.int64)
    ends = np.array(sorted(start + size for start, size in ranges), np.int64)

    found = at_once(starts, ends, begin, begin + length).tolist()

    counts = [
        sum(start <= time < start + size for start, size in ranges)
        for time in range(begin, begin + length)
    ]
    assert sum(found) == length
    assert all(found[number] == counts.count(number) for number in range(len(found)))


@given(_RANGES, st.integers(1, 4))
def test_where_at_least_so_many_are_open(ranges: list[tuple[int, int]], least: int) -> None:
    starts = np.array(sorted(start for start, _ in ranges), np.int64)
    ends = np.array(sorted(start + size for start, size in ranges), np.int64)

    begins, finishes = stretches(starts, ends, least)

    inside = [
        time
        for time in range(70)
        if sum(start <= time < start + size for start, size in ranges) >= least
    ]
    found = [
        time
        for begin, end in zip(begins.tolist(), finishes.tolist(), strict=True)
        for time in range(begin, end)
    ]
    assert found == inside
    # no gap between them is empty
    assert all(begin > end for begin, end in zip(begins[1:], finishes[:-1], strict=True))
