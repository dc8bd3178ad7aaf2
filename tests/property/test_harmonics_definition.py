"""Sums over harmonics, against their definitions in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels.heat import add_harmonics, middle, squared, strengths
from meantime.query.offsets.spectrum import Spectrum

POSITIONS = st.lists(st.integers(0, 10**6), min_size=1, max_size=80, unique=True).map(
    lambda cells: np.sort(np.array(cells, np.float64)) + 0.5
)


@given(POSITIONS, st.floats(2, 10**5), st.integers(1, 16))
def test_strengths(positions: np.ndarray, period: float, harmonics: int) -> None:
    turns = np.exp(2j * np.pi / period * positions)
    expected = sum(
        abs((turns**harmonic).sum()) ** 2
        for harmonic in range(1, min(harmonics, int(period // 2)) + 1)
    )

    [found] = strengths(positions, np.array([period]), harmonics)

    # a position between two of 256 phases counts in part for each
    assert found == pytest.approx(expected, abs=0.05 * harmonics * len(positions) ** 2, rel=0.05)


@given(POSITIONS, st.floats(2, 10**5))
def test_middle(positions: np.ndarray, period: float) -> None:
    direction = np.exp(2j * np.pi / period * positions).sum()

    found = np.exp(2j * np.pi / period * middle(positions, period))

    apart = abs(found * abs(direction) - direction)
    assert apart <= 0.001 * len(positions)


@given(st.lists(st.integers(0, 299), min_size=2, max_size=100, unique=True))
def test_the_power_of_a_spectrum(cells: list[int]) -> None:
    busy = np.sort(np.array(cells))
    spectrum = Spectrum(300)
    signal = np.full(300, -len(busy) / 300)
    signal[busy] += 1
    spread = len(busy) * (1 - len(busy) / 300)
    length = 640
    power = np.abs(np.fft.rfft(signal, length)) ** 2 / spread

    expected = np.zeros(len(spectrum.frequency))
    for harmonic in range(1, 17):
        for row, frequency in enumerate(spectrum.frequency):
            if frequency * harmonic <= 0.5:
                expected[row] += power[int(frequency * harmonic * length + 0.5)]

    found = spectrum.power(busy).within(slice(None))
    strong = spectrum.power(busy).strong(8.0)

    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    complete = np.isclose(strong, found)
    assert (complete | (strong < 8)).all()
    assert (strong <= found + 1e-9).all()


def test_what_does_not_fit_is_rejected() -> None:
    with pytest.raises(ValueError, match="outside"):
        strengths(np.array([-1.0]), np.array([5.0]), 4)
    with pytest.raises(ValueError, match="outside"):
        middle(np.array([np.nan]), 5)
    with pytest.raises(ValueError, match="less than 1"):
        middle(np.array([1.0]), 0.5)
    with pytest.raises(ValueError, match="a sum for each"):
        add_harmonics(np.ones(4), np.array([0.5]), 8, 1, 2, 0, np.zeros(2))
    assert strengths(np.array([1.0]), np.array([np.nan, 0.0]), 4).tolist() == [0, 0]
    assert squared(np.array([3 + 4j]), 2.0).tolist() == [50]
