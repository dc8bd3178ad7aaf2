"""What stands apart in a map of durations or shares: few things, far from all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.query.offsets.finding import Finding, named_list

if TYPE_CHECKING:
    from meantime.query.offsets.map import OffsetMap

__all__ = ["apart"]

# Apart is what has at least as many empty rows between it and the rest, as a part of all rows too.
_FEWEST_EMPTY, _EMPTY = 3, 0.1
# And at most this part of everything.
_MOST = 0.05
_MOST_NAMES = 2000


def apart(found: OffsetMap) -> list[Finding]:
    """Return what is far above, or far below, all else in a map of durations or shares.

    Two groups of similar size are usual: what is apart has a small part of everything.
    """
    axis, cells = found.fold.axis, found.total
    if axis is None or axis.kind not in {"duration", "utilisation"} or not len(cells.number):
        return []
    rows = axis.rows
    load = np.bincount(cells.number % rows, cells.value, rows)
    busy = np.flatnonzero(load)
    gap = np.diff(busy) - 1
    wide = np.flatnonzero(gap >= max(_FEWEST_EMPTY, _EMPTY * rows))
    groups = []
    if len(wide):
        groups.append((int(busy[wide[-1] + 1]), int(busy[-1])))
        groups.append((int(busy[0]), int(busy[wide[0]])))
    total = float(load.sum())
    return [
        _finding(found, first, last, int(load[first : last + 1].sum()))
        for first, last in groups
        if load[first : last + 1].sum() <= _MOST * total
    ]


def _finding(found: OffsetMap, first: int, last: int, amount: int) -> Finding:
    axis = found.fold.y
    inside = []
    for name, cells in found.by.items() if len(found.by) <= _MOST_NAMES else ():
        row = cells.number % axis.rows
        if ((first <= row) & (row <= last)).any():
            inside.append(name)
    where = axis.words(first, last + 1)
    who = named_list(sorted(inside)) if 0 < len(inside) <= 8 else ""
    if axis.kind == "utilisation":
        text = f"{who or 'a few entities'}: {where} of the time, apart from all others"
    else:
        text = f"{amount:,} of {where}{f', {who}' if who else ''}: apart from all others"
    names = tuple(sorted(inside)) if axis.kind == "utilisation" and who else ()
    return Finding("apart", "", text, names=names, rows=(first, last), score=1.0)
