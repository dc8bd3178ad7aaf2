"""The power of each frequency and its harmonics in the busy cells of a name (the Z^2 statistic)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int64s

__all__ = ["HARMONICS", "Float64s", "Spectrum"]

Float64s: TypeAlias = npt.NDArray[np.float64]

HARMONICS = 16
# Per cell of the signal: the frequencies of its transform are closer than the signal resolves.
_FINER = 2


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
        self.frequency = np.concatenate([np.zeros(0), *octaves])
        self.step = np.concatenate([np.zeros(0), *steps])
        self._harmonics = [
            np.rint(
                self.frequency[: np.searchsorted(self.frequency, 0.5 / times, "right")]
                * times
                * self._length
            ).astype(np.int32)
            for times in range(1, HARMONICS + 1)
        ]

    def power(self, busy: Int64s) -> Float64s:
        """Return the power of each frequency and its harmonics, about 1 per harmonic for noise."""
        signal = np.full(self._cells, -len(busy) / self._cells)
        signal[busy] += 1
        transformed = np.fft.rfft(signal, self._length)
        # Divided by the sum of squares of the signal, noise has a mean power of 1.
        spread = len(busy) * (1 - len(busy) / self._cells)
        power = (transformed.real**2 + transformed.imag**2) / spread
        summed = np.zeros(len(self.frequency))
        for at in self._harmonics:
            summed[: len(at)] += power[at]
        return summed

    def between(self, low: float, high: float) -> slice:
        """Return which frequencies are in [low, high)."""
        first, last = np.searchsorted(self.frequency, [low, high])
        return slice(int(first), int(last))


def _fast(length: int) -> int:
    """Return the least product of 2, 3 and 5 that is not less: its transform is fast."""
    candidates: Sequence[int] = [
        factor << max(0, (-(-length // factor) - 1).bit_length()) for factor in (1, 3, 5, 9, 15)
    ]
    return min(candidates)
