"""The kernel that writes pictures and records, against plain definitions of both."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int32s, Int64s

UNITS = 40_000
PIXEL = 1000
COLORS = (0x112233, 0xFFFFFF, 0)


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Return one row: (start, end, state) in order of time, some touching."""
    time = 0
    made = []
    for gap, length, state in draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, 0, 1, 30, 4000, 9000]),
                st.sampled_from([1, 7, 300, 900, 5000, 20_000]),
                st.integers(0, len(COLORS) - 1),
            ),
            max_size=30,
        )
    ):
        made.append((time + gap, time + gap + length, state))
        time += gap + length
    return made


def columns(row: list[tuple[int, int, int]]) -> tuple[Int64s, Int64s, Int64s, Int32s]:
    table = np.array(row, np.int64).reshape(-1, 3)
    start, end, state = (table[:, column].copy() for column in range(3))
    return np.array([0, len(row)]), start, end, state.astype(np.int32)


def drawn(row: list[tuple[int, int, int]], width: int) -> bytes:
    colors = np.array(COLORS, np.uint32)
    (paths,) = text.strokes(*columns(row), colors, 0, width, UNITS, 100) or []
    return paths


def painted(paths: bytes, units: int) -> Int64s:
    """Return the colour of every unit after all paths are drawn on each other; -1 is none."""
    strip = np.full(units, -1, np.int64)
    for color, path in re.findall(rb'<path stroke="#([0-9a-f]{6})" d="([^"]*)"/>', paths):
        at = 0
        for move, length in re.findall(rb"[Mm](\d+) 0h(\d+)", path):
            left = at + int(move)
            at = left + int(length)
            strip[left:at] = int(color, 16)
    return strip


@given(rows())
def test_every_unit_of_a_row_has_the_colour_of_the_rectangle_that_covers_it(
    row: list[tuple[int, int, int]],
) -> None:
    width = max([end for _, end, _ in row], default=0) + 100

    paths = drawn(row, width)

    expected = np.full(UNITS, -1, np.int64)
    for start, end, state in row:
        left, right = ((time * UNITS + width // 2) // width for time in (start, end))
        expected[left:right] = COLORS[state]
    assert (painted(paths, UNITS) == expected).all()


def channels(strip: Int64s) -> Int64s:
    """Return the sum of every channel in each pixel, nothing as black."""
    shown = np.maximum(strip, 0)
    parts = np.stack([shown >> shift & 255 for shift in (16, 8, 0)])
    sums: Int64s = parts.reshape(3, UNITS // PIXEL, PIXEL).sum(axis=2)
    return sums


@given(rows(), st.integers(2**40, 2**62))
def test_edges_are_right_to_a_unit_in_windows_of_any_width(
    row: list[tuple[int, int, int]], stretch: int
) -> None:
    last = max([end for _, end, _ in row], default=1)
    factor = max(1, stretch // last)
    wide = [(start * factor, end * factor, state) for start, end, state in row]

    paths = drawn(wide, last * factor)
    plain = drawn(row, last)

    differ = np.abs(channels(painted(paths, UNITS)) - channels(painted(plain, UNITS)))
    assert differ.sum() <= 4 * 255 * len(row)


def varints(block: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in block:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


times = st.integers(0, 2**62)


@given(
    st.lists(
        st.lists(
            st.tuples(
                times,
                st.integers(1, 2**40),
                st.lists(
                    st.tuples(st.integers(0, 9), st.integers(1, 2**50)), min_size=1, max_size=3
                ),
                st.lists(st.tuples(st.integers(0, 300), st.integers(1, 2**50)), max_size=3),
            ),
            max_size=4,
        ),
        max_size=4,
    ),
    st.sampled_from([1, 3, 9, 768]),
)
def test_records_keep_every_number(
    drawn: list[list[tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]]]],
    piece_bytes: int,
) -> None:
    expected: list[int] = []
    start, end, offsets, states, tags = [], [], [0], [], []
    for row in drawn:
        expected.append(len(row))
        at = 0
        for gap, length, held, tagged in row:
            gap = min(gap, 2**62 // 4 - 2**41)  # noqa: PLW2901 - the sum has to fit
            expected += gap, length
            at += gap
            start.append(at)
            at += length
            end.append(at)
            states.append(held)
            tags.append(tagged)
            if len(held) == 1 and held[0][1] == length:
                expected.append(2 * held[0][0])
            else:
                expected += [2 * len(held) + 1, *(n for pair in held for n in pair)]
            if len(tagged) == 1 and tagged[0][1] == length:
                expected += [1, tagged[0][0]]
            elif tagged:
                expected += [len(tagged) + 1, *(n for pair in tagged for n in pair)]
            else:
                expected.append(0)
        offsets.append(len(start))

    records = text.Records(
        np.array(offsets, np.int64),
        np.array(start, np.int64),
        np.array(end, np.int64),
        np.cumsum([0, *map(len, states)], dtype=np.int64),
        np.array([state for held in states for state, _ in held], np.int32),
        np.array([ns for held in states for _, ns in held], np.int64),
        np.cumsum([0, *map(len, tags)], dtype=np.int64),
        np.array([tag for held in tags for tag, _ in held], np.int32),
        np.array([ns for held in tags for _, ns in held], np.int64),
        0,
        piece_bytes,
    )
    *pieces, last = [*records] or [b""]

    assert {len(piece) for piece in pieces} <= {piece_bytes}
    assert len(last) <= piece_bytes
    assert list(varints(b"".join([*pieces, last]))) == expected


def test_no_paths_are_given_when_there_would_be_too_many() -> None:
    row = [(1000 * i, 1000 * (i + 1), i) for i in range(40)]

    colors = np.arange(40, dtype=np.uint32)
    assert len(text.strokes(*columns(row), colors, 0, UNITS, UNITS, 40) or []) == 1
    assert text.strokes(*columns(row), colors, 0, UNITS, UNITS, 39) is None


@given(st.binary(max_size=100))
def test_base64(data: bytes) -> None:
    assert text.base64(data) == b64encode(data)
