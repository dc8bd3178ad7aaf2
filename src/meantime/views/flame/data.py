"""The columns of a flame graph: built by `graph` and `compared`, drawn by `svg`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.query.stacks import CallTree, left_heavy
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int32s, Int64s
    from meantime.query.stacks import Difference

__all__ = ["MOST_BOXES", "Flame", "compared", "graph"]

# With more boxes most are narrower than a pixel; the narrowest are left out and counted.
MOST_BOXES = 100_000


@struct
class Flame:
    """Boxes; each comes after the box above it.

    Attributes:
        title: The title of the picture.
        unit: The unit of widths: `ns`, or what the weights of samples count.
        width: The width of the whole, in that unit.
        start: int64, the distance of each box from the left edge.
        length: int64, its width.
        own: int64, the part of its width that no box below it covers.
        count: int64, its number of calls or samples.
        row: int32, its row, counted from the top.
        parent: int32, the box of its caller; -1 without one.
        frame: int32, index into `frames`.
        frames: The names.
        left_out: How many boxes were too narrow to be drawn.
        before: int64, the part of each width from the range compared against; None without one.
        before_width: The part of `width` from that range.
        chosen: What was selected, for the subtitle.
        command: The command that draws it; None if there is none.
    """

    title: str
    unit: str
    width: int
    start: Int64s
    length: Int64s
    own: Int64s
    count: Int64s
    row: Int32s
    parent: Int32s
    frame: Int32s
    frames: Sequence[str]
    left_out: int
    before: Int64s | None = None
    before_width: int = 0
    chosen: Sequence[str] = ()
    command: str | None = None

    def __len__(self) -> int:
        return len(self.start)


def graph(tree: CallTree, *, title: str, unit: str) -> Flame:
    """Return the flame graph of a tree: callers above those they call, the heaviest leftmost.

    >>> from meantime.testing import history_from_samples
    >>> from meantime.query.stacks import sample_tree
    >>> history = history_from_samples([(0, "t", ["a", "b"], 1), (1, "t", ["a", "c"], 3)])
    >>> flame = graph(sample_tree(history.samples()), title="", unit="samples")
    >>> [flame.frames[frame] for frame in flame.frame], flame.start.tolist(), flame.width
    (['a', 'c', 'b'], [0, 0, 3], 4)
    """
    order = np.array(left_heavy(tree), np.int64)
    parent = tree.stacks.parent
    start = np.zeros(len(tree), np.int64)
    row = np.zeros(len(tree), np.int32)
    # one more than stacks: the callers of the outermost stacks are -1, the last index
    taken = np.zeros(len(tree) + 1, np.int64)
    total = tree.total.tolist()
    for node in order.tolist():
        below = int(parent[node])
        start[node] = (start[below] if below >= 0 else 0) + taken[below]
        row[node] = row[below] + 1 if below >= 0 else 0
        taken[below] += total[node]
    width = int(tree.total[parent < 0].sum())
    rows = _drawn(tree, order)
    return Flame(
        title=title,
        unit=unit,
        width=width,
        start=start[rows],
        length=tree.total[rows],
        own=tree.own[rows],
        count=tree.count[rows],
        row=row[rows],
        parent=_renumbered(parent, rows),
        frame=tree.stacks.frame[rows],
        frames=tree.stacks.frames,
        left_out=len(order) - len(rows),
    )


def compared(both: Difference, *, title: str, unit: str) -> Flame:
    """Return the flame graph of two trees, in which the width of a box is the sum of both.

    >>> from meantime.testing import history_from_samples
    >>> from meantime.query.stacks import difference, sample_tree
    >>> one = sample_tree(history_from_samples([(0, "t", ["a"], 1)]).samples())
    >>> two = sample_tree(history_from_samples([(0, "t", ["b"], 3)]).samples())
    >>> flame = compared(difference(one, two), title="", unit="samples")
    >>> [flame.frames[frame] for frame in flame.frame], flame.length.tolist(), flame.before.tolist()
    (['b', 'a'], [3, 1], [0, 1])
    """
    before, after = both.before, both.after
    tree = CallTree(
        both.stacks,
        before.own + after.own,
        before.total + after.total,
        before.count + after.count,
    )
    # the same stacks in the same order as in `graph`, which gets the same tree
    rows = _drawn(tree, np.array(left_heavy(tree), np.int64))
    return replace(
        graph(tree, title=title, unit=unit),
        before=before.total[rows],
        before_width=int(before.own.sum()),
    )


def _drawn(tree: CallTree, order: Int64s) -> Int64s:
    """Return the stacks that get a box, in order."""
    kept = order[tree.total[order] > 0]
    return kept[_widest(tree.total[kept])]


def _widest(length: Int64s) -> Int64s:
    """Return the indices of the widest, as many as are drawn, in order."""
    if len(length) <= MOST_BOXES:
        return np.arange(len(length))
    # stable, so that a caller is chosen before a callee of the same width
    chosen = np.argsort(-length, kind="stable")[:MOST_BOXES]
    # in order again: each after the box above it
    return np.sort(chosen)


def _renumbered(parent: Int32s, kept: Int64s) -> Int32s:
    """Return the parents of the kept rows as indices into these; -1 if a parent is not kept."""
    index = np.full(len(parent) + 1, -1, np.int32)
    index[kept] = np.arange(len(kept), dtype=np.int32)
    return index[parent[kept]]
