"""Columns of pixels stack the shares of states, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels.pixel_columns import stack

LAYERS = 3


@st.composite
def rows(draw: st.DrawFn) -> list[list[tuple[int, int, dict[int, int]]]]:
    """Return rows of rectangles: start, end and the time in each state."""
    drawn = []
    for _ in range(draw(st.integers(0, 3))):
        row, time = [], 0
        for gap in draw(st.lists(st.integers(0, 9), max_size=12)):
            held = draw(st.dictionaries(st.integers(0, LAYERS - 1), st.integers(1, 30), min_size=1))
            end = time + gap + sum(held.values())
            row.append((time + gap, end, held))
            time = end
        drawn.append(row)
    return drawn


@given(
    rows(),
    st.tuples(st.integers(0, 50), st.integers(1, 400)),
    st.tuples(st.integers(1, 20), st.integers(1, 150)),
    st.permutations(range(LAYERS)),
)
def test_a_column_has_the_share_of_each_state(
    drawn: list[list[tuple[int, int, dict[int, int]]]],
    window: tuple[int, int],
    size: tuple[int, int],
    layer_of: list[int],
) -> None:
    (start_ns, span_ns), (width, tall) = window, size
    flat = [one for row in drawn for one in row]
    held = [(state, ns) for _, _, states in flat for state, ns in sorted(states.items())]
    noticed = np.array([1, 1, 0], np.uint8)

    lines = stack(
        np.cumsum([0, *map(len, drawn)]).astype(np.int64),
        np.array([one[0] for one in flat], np.int64),
        np.array([one[1] for one in flat], np.int64),
        np.cumsum([0, *(len(one[2]) for one in flat)]).astype(np.int64),
        np.array([state for state, _ in held], np.int32),
        np.array([ns for _, ns in held], np.int64),
        np.array(layer_of, np.uint8),
        noticed,
        start_ns,
        start_ns + span_ns,
        width,
        tall,
    )

    image = np.frombuffer(lines, np.uint8).reshape(len(drawn), tall, width)
    for number, row in enumerate(drawn):
        for x in range(width):
            left = start_ns + Fraction(span_ns * x, width)
            right = start_ns + Fraction(span_ns * (x + 1), width)
            shares = [Fraction(0)] * LAYERS
            for start, end, states in row:
                inside = max(Fraction(0), min(right, Fraction(end)) - max(left, Fraction(start)))
                for state, ns in states.items():
                    shares[layer_of[state]] += inside * ns / ((end - start) * (right - left))
            column = image[number, ::-1, x].tolist()
            # from the bottom up: layers in order, then no state
            shown = [each for each in column if each]
            assert shown == sorted(shown)
            assert column == shown + [0] * (tall - len(shown))
            least = -(-tall // 60)
            covered = sum(shares) * tall
            assert len(shown) <= max(least, math.ceil(covered))
            for layer, share in enumerate(shares):
                count = shown.count(layer + 1)
                # a rounding at either end, and what is taken for or by the shares that are noticed
                assert abs(count - share * tall) <= 1 + LAYERS * least
                assert not (count and not share)
                if noticed[layer] and share > Fraction(1, 10**6) and covered >= 2 * LAYERS * least:
                    assert count >= 1
