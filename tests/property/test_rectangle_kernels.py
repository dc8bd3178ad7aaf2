"""What the kernels behind a statemap compute, against plain definitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from meantime.kernels import coalesce, rectangles
from meantime.kernels.rectangles import Columns, Tallies, Visible, pixel_error
from meantime.views.statemap import merging
from meantime.views.statemap.options import Budget
from meantime.views.statemap.rectangle_buffer import RectangleBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES, TAGS = 4, 3
Interval = tuple[int, int, int, int, int]  # row, start, end, state, tag


@st.composite
def intervals(draw: st.DrawFn, *, most: int = 25) -> list[Interval]:
    """Rows of intervals, mostly touching, the end of one row the same as the start of another."""
    scale = draw(st.sampled_from([1, 1, 100, 10**6, 2**40]))
    held: list[Interval] = []
    for row in range(draw(st.integers(1, 3))):
        time = draw(st.integers(0, 3)) * scale
        for length, gap, state, tag in draw(
            st.lists(
                st.tuples(
                    st.integers(1, 9),
                    st.sampled_from([0, 0, 0, 2]),
                    st.integers(0, STATES - 1),
                    st.integers(-1, TAGS - 1),
                ),
                min_size=1,
                max_size=most,
            )
        ):
            held.append((row, time, time + length * scale, state, tag))
            time += (length + gap) * scale
    return held


def visible(held: list[Interval]) -> Visible:
    columns = list(zip(*held, strict=True)) or [()] * 5
    row, state, tag = (np.array(columns[place], np.int32) for place in (0, 3, 4))
    start, end = np.array(columns[1], np.int64), np.array(columns[2], np.int64)
    return Visible(row, start, end, state, tag, np.zeros(len(held), np.uint8))


def tallies() -> Tallies:
    return Tallies(
        np.zeros(STATES, np.int64),
        np.empty(STATES, np.int32),
        np.zeros(TAGS, np.int64),
        np.empty(TAGS, np.int32),
    )


def room(size: int) -> Columns:
    return Columns(
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.uint8),
        np.zeros(size + 1, np.int64),
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
        np.zeros(size + 1, np.int64),
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
    )


def packed(held: list[Interval], window: tuple[int, int], level: int) -> tuple[int, Columns]:
    columns = room(len(held))
    return rectangles.pack(visible(held), *window, level, tallies(), 0, columns), columns


Plain = tuple[int, int, int, bool, dict[int, int], dict[int, int]]


def plain(count: int, columns: Columns) -> list[Plain]:
    def times(offsets: str, index: str, ns: str, place: int) -> dict[int, int]:
        part = slice(*getattr(columns, offsets)[place : place + 2].tolist())
        keys = getattr(columns, index)[part].tolist()
        assert keys == sorted(keys)
        return dict(zip(keys, getattr(columns, ns)[part].tolist(), strict=True))

    return [
        (
            int(columns.row[place]),
            int(columns.start[place]),
            int(columns.end[place]),
            bool(columns.marks[place] & rectangles.MERGED),
            times("state_offsets", "state_index", "state_ns", place),
            times("tag_offsets", "tag_index", "tag_ns", place),
        )
        for place in range(count)
    ]


def group(parts: list[Interval]) -> Plain:
    states: Counter[int] = Counter()
    tags: Counter[int] = Counter()
    for _, start, end, state, tag in parts:
        states[state] += end - start
        if tag >= 0:
            tags[tag] += end - start
    first, last = parts[0], parts[-1]
    return first[0], first[1], last[2], len(parts) > 1, dict(states), dict(tags)


def cell(window: tuple[int, int], level: int, time: int) -> int:
    length = max(1, window[1] - window[0])
    return ((time - window[0]) * (8620 << 6) // length) >> level


def grouped_by_cells(held: list[Interval], window: tuple[int, int], level: int) -> list[Plain]:
    groups: list[list[Interval]] = []
    for one in held:
        last = groups[-1] if groups else None
        if (
            last
            and last[-1][0] == one[0]
            and last[-1][2] == one[1]
            and cell(window, level, last[0][1]) == cell(window, level, one[2] - 1)
        ):
            last.append(one)
        else:
            groups.append([one])
    return [group(parts) for parts in groups]


def window_of(held: list[Interval]) -> tuple[int, int]:
    return 0, max((one[2] for one in held), default=0)


@given(intervals(), st.integers(0, rectangles.LEVELS - 1))
def test_intervals_in_one_cell_are_packed_into_one_rectangle(
    held: list[Interval], level: int
) -> None:
    window = window_of(held)

    assert plain(*packed(held, window, level)) == grouped_by_cells(held, window, level)


@given(intervals(), st.integers(0, rectangles.LEVELS - 1), st.integers(0, rectangles.LEVELS - 1))
@example([(0, 0, 3 << 40, 0, 0), (0, 3 << 40, 9 << 40, 0, 0), (0, 9 << 40, 1 << 44, 0, 0)], 0, 20)
def test_coarser_cells_make_the_same_rectangles_from_those_of_finer_ones(
    held: list[Interval], one: int, other: int
) -> None:
    window = window_of(held)
    fine, coarse = min(one, other), max(one, other)
    count, columns = packed(held, window, fine)
    pairs = np.zeros(rectangles.LEVELS, np.int64)
    rectangles.levels(count, columns, *window, pairs)
    first = np.empty(count, np.int64)

    runs = rectangles.cells(count, columns, *window, coarse, first)

    assert count - pairs[: coarse + 1].sum() == runs
    assert rectangles.gather(first[:runs], tallies(), count, columns) == runs
    assert plain(runs, columns) == grouped_by_cells(held, window, coarse)


@given(intervals(), st.data())
def test_gathered_rectangles_have_everything_that_was_put_in(
    held: list[Interval], data: st.DataObject
) -> None:
    count, columns = packed(held, window_of(held), -1)
    assert plain(count, columns) == [group([one]) for one in held]
    starts = [
        place
        for place, one in enumerate(held)
        if not place or one[0] != held[place - 1][0] or one[1] != held[place - 1][2]
    ]
    more = data.draw(st.sets(st.integers(0, max(0, count - 1)))) if count else set()
    first = sorted({*starts, *more})

    made = rectangles.gather(np.array(first, np.int64), tallies(), count, columns)

    ends = [*first[1:], count]
    assert plain(made, columns) == [
        group(held[start:end]) for start, end in zip(first, ends, strict=True)
    ]


@given(
    intervals(),
    st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)),
    st.sampled_from([True, False]),
)
def test_what_can_be_seen_is_clipped_and_joined(
    held: list[Interval],
    times: tuple[int, int, int],
    tagged: bool,  # noqa: FBT001 - hypothesis passes it by name
) -> None:
    begin, cut, last = times
    source = visible(held)
    assert source.tag is not None
    row_of_quark = np.array([2, 0, 1], np.int32)
    state_of_code = np.array([1, 0, 0, 2], np.int32)
    into = visible([(0, 0, 0, 0, 0)] * len(held))
    if not tagged:
        into = into._replace(tag=None)

    count = rectangles.clip(
        source.row,
        source.start,
        source.end,
        np.where(source.state == 3, -1, source.state).astype(np.int32),
        source.tag,
        row_of_quark,
        state_of_code,
        tagged,
        begin,
        cut,
        last,
        into,
    )

    expected: list[Interval] = []
    for quark, start, end, code, tag in held:
        since, until = max(start, begin), min(end, last) if end > cut else end
        if code == 3 or since >= until:
            continue
        what = (int(row_of_quark[quark]), int(state_of_code[code]), tag if tagged else -1)
        before = expected[-1] if expected else None
        if before and (before[0], before[3], before[4]) == what and before[2] == since:
            expected[-1] = (before[0], before[1], until, before[3], before[4])
        else:
            expected.append((what[0], since, until, what[1], what[2]))
    tags = np.full(count, -1) if into.tag is None else into.tag[:count]
    columns = (*(column[:count] for column in into[:4]), tags)
    found = zip(*(column.tolist() for column in columns), strict=True)
    assert list(found) == expected


def loss(one: Plain, other: Plain, window: tuple[int, int]) -> float:
    """What `worth` minds about merging two neighbours."""
    pixel = (float(window[1]) - float(window[0])) / 8620
    mine, its = float(one[2] - one[1]), float(other[2] - other[1])
    linear = square = 0.0
    for state in sorted(one[4].keys() | other[4].keys()):
        difference = abs(one[4].get(state, 0) * (1 / mine) - other[4].get(state, 0) * (1 / its))
        linear += difference
        square += difference * difference
    both = mine + its
    lost = mine * its / both * (0.15 * linear + 0.85 * square)
    if both <= pixel + 1 and pixel_of(window, one[1]) == pixel_of(window, other[2] - 1):
        return lost * 1e-9
    return lost * (both / (both + 2 * pixel) + both / (both + 20 * pixel))


def pixel_of(window: tuple[int, int], time: int) -> int:
    return (time - window[0]) * 8620 // (window[1] - window[0])


@given(intervals(most=12))
def test_an_edge_is_worth_the_most_that_was_lost_until_it_went(held: list[Interval]) -> None:
    window = window_of(held)
    count, columns = packed(held, window, -1)

    worth = coalesce.worth(0, count, columns, *window)

    never = np.iinfo(np.int64).max
    expected = [never] * count
    for row in range(3):
        alive = [(place, [one]) for place, one in enumerate(held) if one[0] == row]
        dearest = 0.0
        while True:
            pairs = [
                (loss(group(one[1]), group(other[1]), window), number)
                for number, (one, other) in enumerate(pairwise(alive))
                if one[1][-1][2] == other[1][0][1]
            ]
            if not pairs:
                break
            lost, number = min(pairs)
            dearest = max(dearest, lost)
            place, parts = alive.pop(number + 1)
            alive[number][1].extend(parts)
            expected[place] = int(np.float64(dearest).view(np.int64))
    ours, theirs = (np.array(column)[np.array(worth) < never] for column in (worth, expected))
    assert ((worth < never) == (np.array(expected) < never)).all()
    assert np.allclose(ours.view(np.float64), theirs.view(np.float64), rtol=1e-9, atol=0)


@given(intervals(), st.data())
def test_edges_worth_more_than_a_limit_are_not_told_apart(
    held: list[Interval], data: st.DataObject
) -> None:
    window = window_of(held)
    count, columns = packed(held, window, -1)
    worth = coalesce.worth(0, count, columns, *window)
    limit = data.draw(st.sampled_from([0, *worth.tolist()]))

    limited = coalesce.worth(0, count, columns, *window, limit)

    beyond = (worth > limit) & (worth < coalesce.NEVER)
    assert (limited == np.where(beyond, coalesce.BEYOND, worth)).all()


@given(intervals(), st.data(), st.sampled_from([1, 3, 10]), st.sampled_from([7 / 8, 2]))
def test_a_sample_makes_no_difference_to_what_is_merged(
    held: list[Interval], data: st.DataObject, sampled: int, certain: float
) -> None:
    # with the second, the limit is too low
    window = window_of(held)
    buffer = RectangleBuffer(window, budget=Budget(len(held), 1), tags=TAGS, joins=False)
    buffer.add(visible(held), states=STATES, done_ratio=1)
    buffer.add_times()
    assume(buffer.count > 1)
    wanted = data.draw(st.integers(1, int(buffer.count / max(1, certain))))
    with (
        mock.patch.object(merging, "_CERTAIN", certain),
        mock.patch.object(merging, "_SAMPLED", sampled),
        mock.patch.object(merging, "_SAMPLE", min(sampled, 2)),
    ):
        limited = merging._worth_up_to(buffer, wanted)

    worth = coalesce.worth(0, buffer.count, buffer.columns, *window)
    assert (merging._dearest(limited, wanted) == merging._dearest(worth, wanted)).all()


@settings(max_examples=60, deadline=None)
@given(intervals(most=8), st.data(), st.sampled_from([1, 7, 50]))
def test_the_error_of_a_picture_is_the_difference_of_shares_in_its_pixels(
    held: list[Interval], data: st.DataObject, width: int
) -> None:
    window = window_of(held)
    starts = {
        place
        for place, one in enumerate(held)
        if not place or one[0] != held[place - 1][0] or one[1] != held[place - 1][2]
    }
    more = data.draw(st.sets(st.integers(0, len(held) - 1))) if held else set()
    first = sorted(starts | more)
    source = visible(held)

    found = pixel_error(
        source.start,
        source.end,
        source.row,
        source.state,
        np.array(first, np.int64),
        STATES,
        *window,
        width,
    )

    wrong: defaultdict[tuple[int, int, int], Fraction] = defaultdict(Fraction)
    for start, end in pairwise([*first, len(held)]):
        row, since, until, _, states, _ = group(held[start:end])
        for _, begin, finish, state, _ in held[start:end]:
            for pixel, part in pixels(begin, finish, window[1], width):
                wrong[row, state, pixel] += part
        for state, length in states.items():
            for pixel, part in pixels(since, until, window[1], width):
                wrong[row, state, pixel] -= part * Fraction(length, until - since)
    assert abs(found - float(sum(map(abs, wrong.values())))) < 1e-6


def pixels(start: int, end: int, window_end: int, width: int) -> Iterator[tuple[int, Fraction]]:
    """The pixels that a range covers, and how much of each."""
    left, right = Fraction(start * width, window_end), Fraction(end * width, window_end)
    for pixel in range(int(left), ceil(right)):
        yield pixel, min(right, Fraction(pixel + 1)) - max(left, Fraction(pixel))
