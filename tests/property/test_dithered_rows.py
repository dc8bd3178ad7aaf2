"""Rows in which each pixel shows one state: which, in which proportions, and what is never lost."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.dithered_rows import dither
from meantime.views.statemap.row_images import thresholds

if TYPE_CHECKING:
    import numpy.typing as npt

WIDTH = 96
GRAIN = 2
Rows: TypeAlias = "list[list[tuple[int, int, dict[int, int]]]]"


def drawn(
    rows: Rows, *, end_ns: int, states: int, width: int = WIDTH, tall: int = 2, band: int = 1
) -> npt.NDArray[np.int32]:
    """Return the pixels of rows of (start, end, time in each state), as bands x lines x pixels."""
    flat = [each for row in rows for each in row]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    held = [sorted(in_states.items()) for _, _, in_states in flat]
    pixels = dither(
        offsets,
        np.array([start for start, _, _ in flat], np.int64),
        np.array([end for _, end, _ in flat], np.int64),
        np.cumsum([0, *map(len, held)], dtype=np.int64),
        np.array([state for each in held for state, _ in each], np.int32),
        np.array([ns for each in held for _, ns in each], np.int64),
        np.arange(states, dtype=np.int32),
        0,
        end_ns,
        width,
        tall,
        band,
        thresholds(),
    )
    return pixels.reshape(-1, tall, width)


def shares(rows: Rows, *, end_ns: int, states: int) -> npt.NDArray[np.float64]:
    """Return the part of each column that each state has of all rows together."""
    parts = np.zeros((states, WIDTH))
    edges = np.arange(WIDTH + 1) * (end_ns / WIDTH)
    for start, end, held in (each for row in rows for each in row):
        covered = np.diff(np.clip(edges, start, end)) / (end_ns / WIDTH)
        for state, ns in held.items():
            parts[state] += covered * ns / (end - start) / len(rows)
    return parts


@st.composite
def crowds(draw: st.DrawFn) -> Rows:
    """Return rows of rectangles of several states, some with gaps in them and between them."""
    rows: Rows = []
    for _ in range(draw(st.integers(1, 4))):
        time, row = 0, []
        for _ in range(draw(st.integers(0, 60))):
            time += draw(st.sampled_from([0, 0, 0, 3, 400]))
            length = draw(st.sampled_from([4, 40, 300, 2000]))
            held: dict[int, int] = {}
            left = length
            for state in draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)):
                held[state] = draw(st.integers(1, max(1, left - 2)))
                left -= held[state]
                if left < 3:
                    break
            row.append((time, time + length, held))
            time += length
        rows.append(row)
    return rows


@settings(deadline=None)
@given(crowds(), st.integers(1, 5), st.booleans())
def test_a_pixel_shows_the_state_in_whose_part_its_threshold_is_except_for_marks(
    rows: Rows,
    tall: int,
    banded: bool,  # noqa: FBT001 - hypothesis passes it
) -> None:
    end_ns = max([end for row in rows for _, end, _ in row], default=1)
    band = len(rows) if banded else 1

    pixels = drawn(rows, end_ns=end_ns, states=5, tall=tall, band=band)

    groups = [rows] if banded else [[row] for row in rows]
    marks = 0
    for number, (group, lines) in enumerate(zip(groups, pixels, strict=True)):
        parts = np.cumsum(shares(group, end_ns=end_ns, states=5), axis=0)
        for y, line in enumerate(lines):
            at = (number * tall + y) // GRAIN % 64
            limit = (thresholds()[at, np.arange(WIDTH) // GRAIN % 64] + 0.5) / 4096
            expected = (parts <= limit).sum(axis=0)  # 5 where no state is
            near = (np.abs(parts - limit) < 1e-9).any(axis=0)
            marks += int((np.where(expected == 5, 0, expected + 1)[~near] != line[~near]).sum())
        held = {state for row in group for _, _, states in row for state in states}
        # what there is is seen, and nothing else
        assert set(np.unique(lines).tolist()) - {0} == {state + 1 for state in held}
    lone = 0 if band > 1 else sum(map(len, rows))
    assert marks <= (5 * len(groups) + lone) * ((tall + 1) // 2)


@pytest.mark.parametrize("part", [0.004, 0.1, 0.37, 0.5, 0.93])
@pytest.mark.parametrize("tall", [1, 2, 3, 5])
def test_a_row_has_pixels_of_a_state_in_the_proportion_of_its_time(part: float, tall: int) -> None:
    ns = 10**9
    held = {0: round((1 - part) / 3 * ns), 1: round(part * ns)}
    held[2] = ns - held[0] - held[1]
    rows: Rows = [[(0, ns, held)]] * 128

    pixels = drawn(rows, end_ns=ns, states=3, width=1024, tall=tall)

    for state, state_ns in held.items():
        seen = pixels == state + 1
        by_row = np.abs(seen.mean(axis=(1, 2)) - state_ns / ns)
        # two thresholds of the 64 of a row, and a mark of half a column
        assert by_row.max() <= 2 / 64 + 1 / 1024
        # all lines of the matrix
        assert abs(seen.mean() - state_ns / ns) <= 1 / 4096 + 1 / 1024


def test_a_state_of_a_nanosecond_in_a_day_is_seen_in_its_row_and_in_its_band() -> None:
    day = 86_400 * 10**9
    crowd = [(n * day // 500, (n + 1) * day // 500, {n % 2: day // 500}) for n in range(500)]
    rare = (crowd[77][0], crowd[77][1], {0: day // 500 - 1, 2: 1})
    rows: Rows = [crowd, [*crowd[:77], rare, *crowd[78:]], crowd]

    alone = drawn(rows, end_ns=day, states=3, tall=1)
    together = drawn(rows, end_ns=day, states=3, tall=2, band=3)

    assert [(row == 3).sum() for row in alone] == [0, 1, 0]
    assert (together == 3).sum() == 1
    assert np.flatnonzero(alone[1] == 3).tolist() == [77 * WIDTH // 500]


@pytest.mark.parametrize("tall", [1, 2, 4])
@pytest.mark.parametrize("at", [0.02, 0.37, 0.5, 0.981])
def test_an_event_that_stands_alone_is_seen_in_half_a_column(tall: int, at: float) -> None:
    ns = 10**9
    events = [round(ns * (n + at) / 12) for n in range(12)]
    edges = [0, *(edge for event in events for edge in (event, event + 1000)), ns]
    row = [(start, end, {n % 2: end - start}) for n, (start, end) in enumerate(pairwise(edges))]

    (lines,) = drawn([row], end_ns=ns, states=2, tall=tall)

    for event in events:
        x = event * WIDTH // ns
        assert (lines[:, max(0, x - 1) : x + 2] == 2).sum() >= (tall + 1) // 2
    assert (lines == 2).sum() <= 12 * tall


def test_a_crowd_of_events_does_not_look_like_more_than_it_is() -> None:
    ns = 960_000
    row = [
        (start, end, {n % 2: end - start})
        for n, (start, end) in enumerate(
            (time + gap, time + until)
            for time in range(0, ns, 10_000)
            for gap, until in ((0, 9_900), (9_900, 10_000))
        )
    ]

    (lines,) = drawn([row], end_ns=ns, states=2)

    assert 1 <= (lines == 2).sum() <= 0.03 * lines.size


def test_a_band_of_thousands_of_states_is_drawn_a_part_of_the_width_at_a_time() -> None:
    states, width = 9_000, 1_100
    step = 1_000
    rows: Rows = [
        [(n * step, (n + 1) * step, {(7 * n + row) % states: step}) for n in range(states)]
        for row in range(2)
    ]

    (lines,) = drawn(rows, end_ns=states * step, states=states, width=width, tall=2, band=2)

    for x in range(0, width, 37):
        first, last = max(0, x - 4) * states // width, -(-(x + 5) * states // width)
        there = {
            (7 * n + row) % states + 1 for n in range(first, min(last, states)) for row in range(2)
        }
        assert set(lines[:, x].tolist()) <= there
    assert (lines > 0).all()


def test_the_thresholds_are_even_in_each_row_and_apart_from_each_other() -> None:
    matrix = thresholds().astype(int)

    assert sorted(matrix.ravel().tolist()) == list(range(4096))
    assert (np.sort(matrix, axis=1) // 64 == np.arange(64)).all()
    # blue noise: what is below any limit has hardly any slow changes
    slow = np.hypot(*np.meshgrid(np.fft.fftfreq(64), np.fft.fftfreq(64))) < 0.12
    slow[0, 0] = False
    for limit in (0.1, 0.3, 0.5, 0.8):
        power = np.abs(np.fft.fft2(matrix < limit * 4096)) ** 2
        assert power[slow].mean() < 0.2 * power.ravel()[1:].mean()
