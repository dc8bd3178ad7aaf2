"""The power of each frequency and its harmonics in the busy cells of a name (the Z^2 statistic)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.kernels.heat import add_harmonics, squared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s

__all__ = ["FIRST_HARMONICS", "HARMONICS", "Float64s", "Power", "Spectrum"]

Float64s: TypeAlias = npt.NDArray[np.float64]

HARMONICS = 16
# Those that have some part of the power of every genuine period.
FIRST_HARMONICS = 4
# Per cell of the signal: the frequencies of its transform are closer than the signal resolves.
_FINER = 2
# As many frequencies are enough for a median.
_MOST_AROUND = 2**12


class Spectrum:
    """The frequencies at which signals of one length are examined, in periods per cell.

    A frequency f has harmonics up to two cells, at most `HARMONICS`. The more it has, the closer
    are its neighbours, as an error of f is multiplied in its harmonics: the grid is made of octaves
    of an even step each. Compared with one even step everywhere, which the lowest octaves need,
    this is a fifth of the work.

    Attributes:
        frequency: The frequencies, ascending.
        step: The distance of each from its neighbour.
    """

    def __init__(self, cells: int) -> None:
        """Prepare for signals of this many cells."""
        self._cells = cells
        self._length = _fast(_FINER * cells)
        octaves: list[Float64s] = []
        steps: list[Float64s] = []
        top = 0.5
        # From five periods in the signal to two cells a period.
        lowest = 5 / cells
        harmonics = 2
        while top > lowest:
            low = max(lowest, top / 2 if harmonics < HARMONICS else lowest)
            step = 1 / (harmonics * cells)
            numbers = np.arange(int(np.ceil(low / step)), int(np.ceil(top / step)))
            octave = numbers.astype(np.float64) * step
            octaves.insert(0, octave)
            steps.insert(0, np.full(len(octave), step))
            top, harmonics = low, min(HARMONICS, 2 * harmonics)
        self.frequency: npt.NDArray[np.float64] = np.concatenate([np.zeros(0), *octaves])
        self.step: npt.NDArray[np.float64] = np.concatenate([np.zeros(0), *steps])

    def power(self, busy: Int64s) -> Power:
        """Return the power of each frequency and its harmonics, about 1 per harmonic for noise."""
        signal = np.full(self._cells, -len(busy) / self._cells)
        signal[busy] += 1
        transformed = np.fft.rfft(signal, self._length)
        # Divided by the sum of squares of the signal, noise has a mean power of 1.
        spread = len(busy) * (1 - len(busy) / self._cells)
        return Power(squared(transformed, 1 / spread), self.frequency, self._length)

    def between(self, low: float, high: float) -> slice:
        """Return which frequencies are in [low, high), evenly spread ones if there are many."""
        first, last = (int(at) for at in np.searchsorted(self.frequency, [low, high]))
        return slice(first, last, max(1, (last - first) // _MOST_AROUND))


class Power:
    """The power of a signal at each frequency of a spectrum and its harmonics.

    Args:
        power: The power at each frequency of the transform.
        frequency: The frequencies, ascending.
        length: The length of the transform.
    """

    def __init__(self, power: Float64s, frequency: Float64s, length: int) -> None:
        self._power = power
        self._frequency = frequency
        self._length = length

    def strong(self, least: float) -> Float64s:
        """Return the power of each frequency; only the first harmonics if these have less."""
        summed = np.zeros(len(self._frequency))
        self._add(1, FIRST_HARMONICS, 0.0, self._frequency, summed)
        self._add(FIRST_HARMONICS + 1, HARMONICS, least, self._frequency, summed)
        return summed

    def within(self, part: slice) -> Float64s:
        """Return the power of some of the frequencies."""
        frequency = self._frequency[part].copy()
        summed = np.zeros(len(frequency))
        self._add(1, HARMONICS, 0.0, frequency, summed)
        return summed

    def _add(
        self, first: int, last: int, least: float, frequency: Float64s, summed: Float64s
    ) -> None:
        add_harmonics(self._power, frequency, self._length, first, last, least, summed)


def _fast(length: int) -> int:
    """Return the least product of 2, 3 and 5 that is not less: its transform is fast."""
    candidates: Sequence[int] = [
        factor << max(0, (-(-length // factor) - 1).bit_length()) for factor in (1, 3, 5, 9, 15)
    ]
    return min(candidates)
