"""The period of a name: the one whose harmonics are strongest in the name's busy cells.

Only whether a cell is busy counts, not its value. Sampling disturbs this in two ways. Cells that
are narrower than the sampling interval are sometimes empty whatever runs, with the beat of the two
as their period; so cells are joined until they are wider. And times that are multiples of the
interval have much power at small multiples of it; so these periods are excluded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.heat import middle, strengths
from meantime.model.columns import distinct
from meantime.query.offsets.spectrum import FIRST_HARMONICS, HARMONICS, Spectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.offsets.spectrum import Float64s

__all__ = ["Period", "PeriodSearch", "Sight"]

# Noise has a power of about 1 per harmonic, 16 in total.
_POWER = 80.0
_CLEAR = 6.0
# The part of the power that must be in the first harmonics.
_FIRST = 0.1
_FEWEST_CYCLES = 5
_MASKED_MULTIPLES = 10
_STEPS = (2, 3, 5, 7)
_PHASE_CYCLES = 20
_MOST_REFINED = 2**13
# As many distances of neighbouring cycles show which one is usual. Others are as far from it, or by
# so much more than most of them are, if the cycles were moved.
_FEWEST_DISTANCES = 3
_CELLS_OFF, _PART_OFF, _SPREADS_OFF, _EXACT = 1.5, 0.1, 8.0, 0.005
# From this F value on, counts of cycles differ by more than chance.
_TELLING = 8.0


class Period(NamedTuple):
    """A period.

    Attributes:
        ns: Its length.
        error_ns: The error of the length.
        phase_ns: The middle of the runs within the first cycles, from the first cell.
        score: How clear it is.
    """

    ns: float
    error_ns: float
    phase_ns: float
    score: float


class Sight(NamedTuple):
    """The resolution of the search: `cells` of `cell_ns`, each made of `joined` cells of the map.

    Attributes:
        cells: The number of cells.
        cell_ns: The length of a cell.
        joined: How many cells of the map make one cell.
        intervals_ns: The intervals at which samples were taken.
    """

    cells: int
    cell_ns: float
    joined: int
    intervals_ns: Sequence[int] = ()

    @classmethod
    def of(
        cls, cells: int, cell_ns: float, *, most: int, intervals_ns: Sequence[int] = ()
    ) -> Sight:
        """Return a sight of at most `most` cells in which every sampling interval fits."""
        joined = max(1, -(-cells // most))
        # A late sample can miss a cell that is only as long as the interval.
        longest_ns = 1.05 * max(intervals_ns, default=0)
        joined = max(joined, int(np.ceil(longest_ns / cell_ns)))
        return cls(-(-cells // joined), cell_ns * joined, joined, intervals_ns)

    def meets(self, period: float) -> bool:
        """Return whether a period, in cells, is a multiple of a sampling interval."""
        times = [period * self.cell_ns / interval_ns for interval_ns in self.intervals_ns]
        error = period**2 / self.cells * self.cell_ns
        return any(
            abs(each - round(each)) * interval_ns <= min(error, 0.1 * interval_ns)
            for each, interval_ns in zip(times, self.intervals_ns, strict=True)
        )

    def beats(self, period: float) -> bool:
        """Return whether a period, in cells, is a beat of cells and samples.

        With such a period some cells get a sample more or less than others.
        """
        for interval_ns in self.intervals_ns:
            rate = self.cell_ns / interval_ns
            apart = abs(rate - round(rate))
            # Slower beats are invisible in a recording of this length.
            times = period * apart
            if apart * self.cells > 2 and abs(times - round(times)) <= 2 * period / self.cells:
                return True
        return False

    def masked(self, period: Float64s) -> npt.NDArray[np.bool_]:
        """Return which periods, in cells, are small multiples of a sampling interval."""
        found = np.zeros(len(period), np.bool_)
        for interval_ns in self.intervals_ns:
            times = period * self.cell_ns / interval_ns
            near = np.rint(times)
            # Within the resolution of periods in a recording of this length.
            close = np.abs(times - near) * interval_ns <= (period**2 / self.cells) * self.cell_ns
            found |= close & (near <= _MASKED_MULTIPLES)
        return found


class PeriodSearch:
    """The search for the periods of names: what depends on the sight alone is computed once."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._spectrum = Spectrum(sight.cells)
        self._masked = sight.masked(1 / self._spectrum.frequency)

    def period_of(self, numbers: Int64s) -> Period | None:
        """Return the period of a name that is busy in these cells, if it has a clear one.

        Args:
            numbers: The busy cells of the map, ascending.
        """
        sight, spectrum = self._sight, self._spectrum
        busy = numbers // sight.joined
        busy = busy[np.diff(busy, prepend=-1) > 0]
        runs = np.count_nonzero(np.diff(busy) > 1) + 1
        if runs < _FEWEST_CYCLES or not len(spectrum.frequency):
            return None
        power = spectrum.power(busy)
        summed = power.strong(_FIRST * _POWER)
        summed[self._masked] = 0
        best = _longest(summed, spectrum)
        score, frequency = float(summed[best]), float(spectrum.frequency[best])
        if score < _POWER:
            return None
        near = spectrum.between(frequency / 2, 4 * frequency)
        around = power.within(near)
        around[self._masked[near]] = 0
        if score < _CLEAR * float(np.median(around)):
            return None
        return _exact(busy, 1 / frequency, float(spectrum.step[best]), score, sight)


def _exact(busy: Int64s, period: float, step: float, score: float, sight: Sight) -> Period | None:
    """Return the period near one of the grid, if it is genuine."""
    cells = sight.cells
    if 2 * len(busy) > cells:
        # The idle cells of a name that is mostly busy have the sharper edges.
        busy = np.setdiff1d(np.arange(cells), busy, assume_unique=True)
    positions = (busy + 0.5).astype(np.float64)
    period = _refined(positions, period, step)
    while (shorter := _divided(positions, period)) is not None:
        period = shorter
    while (longer := _multiplied(positions, period, sight)) is not None:
        period = longer
    agreed = _agreed(positions, *_fitted(positions, period))
    if agreed is None or not _is_sound(positions, agreed[0], sight):
        return None
    period, error = agreed
    # of the first cycles: an error of the period would add up over many
    begin = positions[positions < positions[0] + _PHASE_CYCLES * period]
    phase = _start(begin, period) + period / 2
    return Period(period * sight.cell_ns, error * sight.cell_ns, phase * sight.cell_ns, score)


def _longest(summed: Float64s, spectrum: Spectrum) -> int:
    """Return the index of the most power; of multiples of its period that tie, the longest."""
    best = int(np.argmax(summed))
    for times in range(10, 1, -1):
        middle = int(np.searchsorted(spectrum.frequency, spectrum.frequency[best] / times))
        if middle > 0:
            near = summed[max(0, middle - 2) : middle + 3]
            if near.max() >= 0.9 * summed[best]:
                return max(0, middle - 2) + int(np.argmax(near))
    return best


def _refined(positions: Float64s, period: float, step: float) -> float:
    """Return the period near this one, in cells, at which the harmonics have most power."""
    # an eighth of the distance of neighbouring frequencies, as a period
    step = period * period * step / 8
    if len(positions) > _MOST_REFINED:
        # enough to distinguish the candidates; the period is fitted to all of them afterwards
        positions = positions[:: -(-len(positions) // _MOST_REFINED)].copy()
    for _ in range(2):
        tried = period + step * np.arange(-10.0, 11.0)
        period, step = float(tried[strengths(positions, tried, HARMONICS).argmax()]), step / 10
    return period


def _divided(positions: Float64s, period: float) -> float | None:
    """Return a fraction of a period that is a period itself: all of its cycles are alike."""
    for part in _STEPS:
        shorter = period / part
        if (
            shorter >= 2
            and _strength(positions, shorter) >= 0.8 * _strength(positions, period)
            and not _are_unlike(positions, shorter, part)
        ):
            return shorter
    return None


def _multiplied(positions: Float64s, period: float, sight: Sight) -> float | None:
    """Return a multiple that is the true period: every n-th cycle is unlike the others."""
    for times in _STEPS:
        if 4 * times * period <= sight.cells and _are_unlike(positions, period, times):
            # Sampling hits runs of a sample or two in every such cycle or in none.
            runs = len(distinct(np.floor(positions / period)))
            short = period <= 2 * HARMONICS and len(positions) <= 1.5 * runs
            if short and sight.meets(times * period):
                continue
            return times * period
    return None


def _strength(positions: Float64s, period: float, harmonics: int = HARMONICS) -> float:
    return float(strengths(positions, np.array([period]), harmonics)[0])


def _are_unlike(positions: Float64s, period: float, classes: int) -> bool:
    """Return whether every n-th cycle has significantly more than the others (F-test)."""
    cycle = np.floor((positions - _start(positions, period)) / period).astype(np.int64)
    counts = np.bincount(cycle - cycle[0])
    whole = counts[: len(counts) // classes * classes].reshape(-1, classes)
    if len(whole) < 3:
        return False
    means = whole.mean(axis=0)
    if means.min() > 0.3 * means.max():
        return False
    between = len(whole) * ((means - means.mean()) ** 2).sum() / (classes - 1)
    within = ((whole - means) ** 2).sum() / (whole.size - classes)
    return bool(between >= _TELLING * max(within, 0.02 * means.mean()))


def _start(positions: Float64s, period: float) -> float:
    """Return where to divide cycles: half a period before the circular mean of positions."""
    return middle(positions, period) - period / 2


def _is_sound(positions: Float64s, period: float, sight: Sight) -> bool:
    """Return whether a period is genuine, and not caused by the sampling or by chance."""
    if sight.masked(np.array([period]))[0] or not _is_seen_often(positions, period, sight.cells):
        return False
    # One of 16 harmonics fits by chance for many periods: most power must not be in high ones.
    if _strength(positions, period, FIRST_HARMONICS) < _FIRST * _strength(positions, period):
        return False
    return not sight.beats(period) or _is_deep(positions, period)


def _is_seen_often(positions: Float64s, period: float, cells: int) -> bool:
    """Return whether there are enough runs: a few long ones always fit some long period."""
    cycle, within = np.divmod(positions - _start(positions, period), period)
    if len(distinct(cycle)) < _FEWEST_CYCLES:
        return False
    return cells / period > 3 * _FEWEST_CYCLES or float(within.std()) < 0.07 * period


def _is_deep(positions: Float64s, period: float) -> bool:
    """Return whether there is a part of the cycle in which almost nothing runs."""
    bins = int(min(16, max(2, period // 2)))
    counts = np.bincount((positions % period / period * bins).astype(np.int64), minlength=bins)
    return bool(counts.min() < 0.25 * counts.max())


def _agreed(positions: Float64s, period: float, error: float) -> tuple[float, float] | None:
    """Return the period that most distances of neighbouring cycles have, and its error.

    Most have none in common if the period is one of chance. Where cycles are only moved at some
    time, as by a change of the clock, one through all of them is the distance of none.
    """
    for _ in range(2):
        cycle = np.floor((positions - _start(positions, period)) / period).astype(np.int64)
        present, of_row = np.unique(cycle, return_inverse=True)
        middles = np.bincount(of_row, positions) / np.bincount(of_row)
        distances, apart = np.diff(middles), np.diff(present)
        if not len(apart):
            return None
        usual = int(np.median(apart))
        if usual <= 1 or 2 * np.count_nonzero(apart == usual) <= len(apart):
            break
        # most cycles are empty: what is there has a multiple of the period
        period *= usual
    near = apart == 1
    if np.count_nonzero(near) < _FEWEST_DISTANCES:
        return period, error
    mode = float(np.median(distances[near]))
    off = np.abs(distances - apart * mode)
    if 2 * np.count_nonzero(off <= max(_CELLS_OFF, _PART_OFF * mode)) <= len(off):
        return None
    spread = float(np.median(np.abs(distances[near] - mode)))
    moved = off > max(_CELLS_OFF, _SPREADS_OFF * spread)
    # of distances that differ anyway, none shows a step
    if not moved.any() or spread > max(0.5, _EXACT * mode):
        return period, error
    # without the steps between cycles, the others are fitted as before
    steps = np.where(moved, distances - apart * mode, 0.0)
    return _fitted(positions - np.append(0.0, np.cumsum(steps))[of_row], mode)


def _fitted(positions: Float64s, period: float) -> tuple[float, float]:
    """Return the period through the middles of the cycles by least squares, and its error."""
    error = period
    for _ in range(3):
        start = _start(positions, period)
        cycle = np.floor((positions - start) / period)
        within = positions - start - cycle * period
        near = np.abs(within - period / 2) <= max(
            0.05 * period, 2.5 * float(np.median(np.abs(within - period / 2)))
        )
        cycle, at = cycle[near], positions[near]
        if np.ptp(cycle) < 2:
            break
        centred = cycle - cycle.mean()
        slope = float((centred * at).sum() / (centred**2).sum())
        left = at - at.mean() - slope * centred
        runs = len(distinct(cycle))
        # The cells of one cycle are not independent, so the number of cycles counts; the second
        # term is the rounding of times to cells.
        error = float(np.sqrt((left**2).mean() / runs) / centred.std() + 0.5 / np.ptp(cycle))
        period = slope
    return period, error
