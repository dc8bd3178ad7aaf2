"""Stops: runs of empty cells that are too long to be chance, of one name or of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.columns import Int64s
    from meantime.query.offsets.ranges import Range

__all__ = ["Stop", "shared_stops", "stops"]

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
    gaps = np.sort(lengths[lengths > 0])
    extent = int(numbers[-1] - numbers[0]) + 1
    long = least
    if len(numbers) < extent * (_MOSTLY_BUSY if len(gaps) < _FEWEST_GAPS else _BUSY):
        return []
    if len(gaps) >= _FEWEST_GAPS:
        # The lengths of gaps between independent runs fall exponentially: their mean follows from
        # a quantile, and from it the length that chance does not reach.
        kept = gaps[: len(gaps) - min(_LEFT_OUT, len(gaps) // 4)]
        usual = float(kept[int(_QUANTILE * (len(kept) - 1))])
        mean = usual / -np.log(1 - _QUANTILE * len(kept) / len(gaps))
        long = max(least, int(np.ceil(mean * np.log(len(gaps) / _CHANCE))))
    at = np.flatnonzero(lengths >= long)
    return [(int(numbers[i]) + 1, int(numbers[i + 1])) for i in at]


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
