"""Choose the rectangles to merge if there are more than are wanted.

They are those whose merging changes the picture least, at the width of a screen and at ten times
that. If one of the two pictures is then worse than the original statemap's with the same number of
rectangles, the original's choice is used, improved as long as neither picture gets worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.kernels import coalesce, rectangles
from meantime.kernels.rectangles import pixel_error
from meantime.model.columns import first_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.views.statemap.rectangle_buffer import RectangleBuffer

__all__ = ["merge"]

_WIDTHS_PX = (862, 8620)

# Of this many rectangles, the first are a sample, from which follows about how much may be lost.
# More edges than necessary are looked at in full, so that the sample need not be exact.
_SAMPLED, _SAMPLE = 1 << 16, 1 << 12
_CERTAIN = 7 / 8

# With more rectangles the accidents of the original's choice average out, and comparing costs too
# much.
_MOST_COMPARED = 1 << 17
_MOST_TRIED = 48
_MOST_WORK = 1 << 20

# Smaller differences are rounding errors of doubles.
_EXACT_PX = 1e-9

# For each rectangle, whether the edge at its start is kept, so that it is not merged with the
# rectangle before.
Kept: TypeAlias = "npt.NDArray[np.bool_]"
# For each of `_WIDTHS_PX`, how many pixels of a picture of that width are wrong.
Errors: TypeAlias = "npt.NDArray[np.float64]"


def merge(buffer: RectangleBuffer, wanted: int, *, appearance: Int32s) -> None:
    """Merge neighbours in a buffer until `wanted` rectangles are left, or none has a neighbour.

    Args:
        buffer: The rectangles.
        wanted: The number that may be left.
        appearance: By row, the rank of its entity in the order in which entities first appeared.
    """
    if buffer.count <= wanted:
        return
    buffer.add_times()
    if buffer.is_merged or buffer.count > _MOST_COMPARED:
        kept = _dearest(_worth_up_to(buffer, wanted), wanted)
    else:
        worth = coalesce.worth(0, buffer.count, buffer.columns, *buffer.window_ns)
        kept = _dearest(worth, wanted)
        if wanted > np.count_nonzero(worth == coalesce.NEVER):
            kept = _Comparison(buffer, worth).best(kept, wanted, appearance)
    buffer.gather(np.flatnonzero(kept))


def _worth_up_to(buffer: RectangleBuffer, wanted: int) -> Int64s:
    """Return what edges are worth, exactly for all but some of the `wanted` that are worth most."""
    count, columns, window_ns = buffer.count, buffer.columns, buffer.window_ns
    sample = np.concatenate(
        [
            coalesce.worth(first, min(first + _SAMPLE, count), columns, *window_ns)
            for first in range(0, count, _SAMPLED)
        ]
    )
    rank = len(sample) - 1 - int(_CERTAIN * wanted / count * len(sample))
    limit = int(np.partition(sample, rank)[rank])
    worth = coalesce.worth(0, count, columns, *window_ns, limit)
    if np.count_nonzero(worth > limit) > wanted:
        worth = coalesce.worth(0, count, columns, *window_ns)
    return worth


def _dearest(worth: Int64s, wanted: int) -> Kept:
    """Return which edges to keep: the `wanted` worth most, of equal ones the last."""
    least = np.partition(worth, len(worth) - wanted)[len(worth) - wanted]
    equal: Kept = worth == least
    if least == coalesce.NEVER:
        return equal
    kept: Kept = worth > least
    tied = np.flatnonzero(equal)
    kept[tied[np.count_nonzero(kept) - wanted :]] = True
    return kept


class _Comparison:
    """Compares ways to merge a buffer of single intervals by the errors of their pictures."""

    def __init__(self, buffer: RectangleBuffer, worth: Int64s) -> None:
        columns, count = buffer.columns, buffer.count
        self._row = columns.row[:count]
        self._start_ns = columns.start[:count]
        self._end_ns = columns.end[:count]
        self._state = columns.state_index[:count]
        self._states = int(self._state.max()) + 1
        self._open = columns.marks[:count] & np.uint8(rectangles.OPEN)
        self._window_ns = buffer.window_ns
        self._worth = worth
        self._inner = worth < coalesce.NEVER
        self._work = 0

    def best(self, kept: Kept, wanted: int, appearance: Int32s) -> Kept:
        """Return `kept`, or if the original's choice is better, one at least as good as that."""
        rivals = self._as_while_reading(wanted, appearance)
        if not rivals:
            return kept
        goal = np.min([self._errors(rival) for rival in rivals], axis=0)
        if (self._errors(kept) <= goal + _EXACT_PX).all():
            return kept
        ways = [kept, *rivals, *(self._mended(rival) for rival in rivals)]
        excess = [self._errors(way) - goal for way in ways]
        ranks = [(max(float(over.max()), _EXACT_PX), float(over.sum())) for over in excess]
        return ways[ranks.index(min(ranks))]

    def _as_while_reading(self, wanted: int, appearance: Int32s) -> list[Kept]:
        """Return the edges that the original keeps, for those of its targets that leave `wanted`.

        The original merges while it reads, and its target limits the rectangles that can still be
        merged. Those that are open at the end are not among them, nor is the only rectangle of a
        row. If `wanted` is little more than the number of rows, most are such ones, and different
        targets leave the same number.
        """
        most = wanted + 1 - int(np.count_nonzero(self._open))
        targets = {1, 2, 3, most // 2, most} if most <= len(appearance) + 1 else {most}
        number = appearance[self._row]
        order = np.lexsort((number, self._start_ns))
        row, start_ns, end_ns = self._row[order], self._start_ns[order], self._end_ns[order]
        closing = np.lexsort((number[order], end_ns))
        rivals = []
        for target in sorted(target for target in targets if target > 0):
            last_of_row = np.full(len(appearance), -1, np.int32)
            first = coalesce.merge_shortest(
                row, start_ns, end_ns, self._open[order], closing, last_of_row, target
            )
            if first.sum() <= wanted:
                rival = np.empty(len(first), np.bool_)
                rival[order] = first
                rivals.append(rival)
        return rivals

    def _mended(self, kept: Kept) -> Kept:
        """Return `kept` with edges exchanged, as long as one picture gets better and none worse."""
        kept = kept.copy()
        self._work = 0
        while self._work < _MOST_WORK and self._exchange(kept):
            pass
        return kept

    def _exchange(self, kept: Kept) -> bool:
        going = self._by_worth(np.flatnonzero(kept & self._inner))[:_MOST_TRIED]
        tried = max(_MOST_TRIED, _MOST_WORK // len(kept) ** 2)
        coming = self._by_worth(np.flatnonzero(self._inner & ~kept))[: -tried - 1 : -1]
        if not len(going) or not len(coming):
            return False
        loss = np.array([self._change(kept, [edge]) for edge in going.tolist()])
        gain = np.array([self._change(kept, [edge]) for edge in coming.tolist()])
        # the changes by two edges add up if they are far from each other, so the sum ranks pairs
        together = (loss[:, None] + gain[None]).max(axis=2)
        promising = np.argsort(together, axis=None, kind="stable")[:_MOST_TRIED]
        pairs = [(int(going[n // len(coming)]), int(coming[n % len(coming)])) for n in promising]
        for edge in going.tolist():
            near = (edge - 2, edge - 1, edge + 1, edge + 2)
            pairs += [
                (edge, other)
                for other in near
                if 0 <= other < len(kept) and self._inner[other] and not kept[other]
            ]
        for pair in pairs:
            change = self._change(kept, pair)
            if change.max() <= _EXACT_PX and change.min() < -_EXACT_PX:
                kept[list(pair)] ^= True
                return True
        return False

    def _by_worth(self, edges: Int64s) -> Int64s:
        return edges[np.argsort(self._worth[edges], kind="stable")]

    def _change(self, kept: Kept, edges: Sequence[int]) -> Errors:
        """Return how much worse the pictures get if these edges are removed or added."""
        rows = sorted({int(self._row[edge]) for edge in edges})
        parts = [slice(*first_rows(self._row, (row, row + 1)).tolist()) for row in rows]
        change = np.zeros(len(_WIDTHS_PX))
        for part in parts:
            change -= self._errors(kept, part)
        kept[list(edges)] ^= True
        for part in parts:
            change += self._errors(kept, part)
        kept[list(edges)] ^= True
        return change

    def _errors(self, kept: Kept, part: slice = slice(None)) -> Errors:
        first = np.flatnonzero(kept[part])
        self._work += len(kept[part])
        wrong = [
            pixel_error(
                self._start_ns[part],
                self._end_ns[part],
                self._row[part],
                self._state[part],
                first,
                self._states,
                *self._window_ns,
                width_px,
            )
            for width_px in _WIDTHS_PX
        ]
        return np.array(wrong)
