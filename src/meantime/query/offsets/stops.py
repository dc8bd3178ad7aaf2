"""Stops: runs of empty cells that are too long to be chance, of one name or of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.offsets.spectrum import Float64s
    from meantime.query.ranges import Range

__all__ = ["RegularStops", "Stop", "regular_gaps", "regular_stops", "shared_stops", "stops"]

_FEWEST_BUSY = 50
# With fewer gaps their usual length is unknown.
_FEWEST_GAPS = 20
# The longest gaps, which may be stops themselves, do not count for the usual length.
_LEFT_OUT = 8
_QUANTILE = 0.95
# How improbable a gap has to be among all gaps of a name.
_CHANCE = 1e-4
# Of the cells from the first to the last busy one, how many are busy; without many gaps, most.
_BUSY, _MOSTLY_BUSY = 0.5, 0.9
# Ends of one stop differ by this part of its length from name to name, or by a few cells.
_APART, _APART_CELLS = 0.25, 3
# Stops are regular if there are as many, nearly all of them and of their cycles, and none is
# further from its place than this part of the period.
_FEWEST_REGULAR, _NEARLY_ALL, _OFF_BEAT = 4, 0.75, 0.02
# As many gaps, each of which may be chance, are regular by chance in one of many thousand names.
_FEWEST_SHORT = 6


class Stop(NamedTuple):
    """A range of cells in which some names stopped."""

    cells: Range
    names: tuple[str, ...]


def stops(numbers: Int64s, least: int) -> list[Range]:
    """Return the ranges of cells in which a name that is mostly busy stopped.

    Args:
        numbers: The busy cells, ascending.
        least: The fewest empty cells that are a stop.
    """
    if len(numbers) < _FEWEST_BUSY:
        return []
    lengths = np.diff(numbers) - 1
    ordered = np.sort(lengths[lengths > 0])
    extent = int(numbers[-1] - numbers[0]) + 1
    long = least
    if len(numbers) < extent * (_MOSTLY_BUSY if len(ordered) < _FEWEST_GAPS else _BUSY):
        return []
    if len(ordered) >= _FEWEST_GAPS:
        # The lengths of gaps between independent runs fall exponentially: their mean follows from
        # a quantile, and from it the length that chance does not reach.
        kept = ordered[: len(ordered) - min(_LEFT_OUT, len(ordered) // 4)]
        usual = float(kept[int(_QUANTILE * (len(kept) - 1))])
        mean = usual / -np.log(1 - _QUANTILE * len(kept) / len(ordered))
        long = max(least, int(np.ceil(mean * np.log(len(ordered) / _CHANCE))))
    at = np.flatnonzero(lengths >= long)
    return [(int(numbers[i]) + 1, int(numbers[i + 1])) for i in at]


class RegularStops(NamedTuple):
    """Stops that come at equal distances.

    Attributes:
        cells: Their ranges.
        period: Their distance, in cells.
        error: The error of the distance.
        phase: The middle of the first one.
    """

    cells: tuple[Range, ...]
    period: float
    error: float
    phase: float


def regular_stops(ranges: Sequence[Range], *, fewest: int = _FEWEST_REGULAR) -> RegularStops | None:
    """Return the stops at equal distances among some, if these are nearly all.

    >>> found = regular_stops([(10, 14), (60, 64), (111, 115), (130, 133), (160, 164), (210, 214)])
    >>> len(found.cells), round(found.period, 1)
    (5, 50.0)

    Args:
        ranges: The stops of a name, in order.
        fewest: The fewest that are regular.
    """
    if len(ranges) < fewest:
        return None
    middles = np.array(ranges, np.float64).mean(axis=1)
    for distance in distinct(np.quantile(np.diff(middles), [0.25, 0.5], method="nearest")):
        for anchor in middles[:3]:
            found = _regular(ranges, middles, float(distance), float(anchor), fewest)
            if found is not None:
                return found
    return None


def regular_gaps(numbers: Int64s, least: int) -> RegularStops | None:
    """Return gaps at equal distances in a name that is mostly busy, which may be short.

    Of shorter gaps there are also some by chance, so longer ones alone are tried, too.

    Args:
        numbers: The busy cells, ascending.
        least: The fewest empty cells of a gap.
    """
    if len(numbers) < _FEWEST_BUSY or len(numbers) < _BUSY * (numbers[-1] - numbers[0] + 1):
        return None
    lengths = np.diff(numbers) - 1
    longest = int(lengths.max())
    while least <= longest:
        at = np.flatnonzero(lengths >= least)
        ranges = [(int(numbers[i]) + 1, int(numbers[i + 1])) for i in at]
        found = regular_stops(ranges, fewest=_FEWEST_SHORT)
        if found is not None or len(ranges) < _FEWEST_SHORT:
            return found
        least *= 2
    return None


def _regular(
    ranges: Sequence[Range], middles: Float64s, distance: float, anchor: float, fewest: int
) -> RegularStops | None:
    """Return the stops at about this distance from one of them and from each other."""
    cycle = np.rint((middles - anchor) / distance)
    near = np.abs(middles - anchor - cycle * distance) <= _OFF_BEAT * distance
    for _ in range(2):
        if near.sum() < max(fewest, _NEARLY_ALL * len(ranges)):
            return None
        period, first = np.polyfit(cycle[near], middles[near], 1)
        left = np.abs(middles - first - cycle * period)
        near = left <= max(_APART_CELLS, _OFF_BEAT * period)
    chosen, cycles = np.flatnonzero(near), cycle[near]
    present = len(distinct(cycles))
    if present < len(cycles) or present < _NEARLY_ALL * (np.ptp(cycles) + 1):
        return None
    if len(chosen) < max(fewest, _NEARLY_ALL * len(ranges)):
        return None
    spread = float(np.sqrt((left[near] ** 2).mean() / present) / cycles.std())
    return RegularStops(
        tuple(ranges[int(at)] for at in chosen),
        float(period),
        spread + 0.5 / float(np.ptp(cycles)),
        float(first + cycles[0] * period),
    )


def shared_stops(by: Mapping[str, Iterable[Range]], whole: Sequence[Range]) -> list[Stop]:
    """Return stops of names, those of several names at a time as one, without those of all.

    Args:
        by: The stops of each name.
        whole: The stops of everything together.
    """
    shared: list[tuple[Range, list[str]]] = []
    for start, end, name in sorted((*cells, name) for name, each in by.items() for cells in each):
        if any(min(end, last) - max(start, first) >= (end - start) / 2 for first, last in whole):
            continue
        for (first, last), names in reversed(shared):
            apart = max(_APART_CELLS, _APART * (last - first))
            if abs(first - start) <= apart and abs(last - end) <= apart and name not in names:
                names.append(name)
                break
        else:
            shared.append(((start, end), [name]))
    return [Stop(cells, tuple(names)) for cells, names in shared]
