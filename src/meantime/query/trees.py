"""The call tree of a part of a history, from its spans or samples; functions by weight."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.model.names import merged_names
from meantime.model.stacks import StackTable
from meantime.query.counting import what_counts
from meantime.query.idle_samples import without_idle
from meantime.query.sample_units import sample_unit
from meantime.query.stacks import CallTree, left_heavy, sample_tree, span_tree
from meantime.query.threads import thread_quarks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.query.counting import Counted
    from meantime.query.stacks import Difference

__all__ = [
    "NameWeight",
    "amount",
    "by_name",
    "call_tree",
    "compared_rows",
    "tree_rows",
]


def call_tree(
    history: History,
    quarks: Sequence[int] | Int32s | None = None,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    whole: bool = False,
    event: str | None = None,
    of: Counted | None = None,
    idle: bool = False,
) -> tuple[CallTree, str]:
    """Return the call tree of some threads in a range, and the unit of its weights.

    Args:
        history: The history of the threads.
        quarks: The threads; None selects all, without async operations.
        start_ns: The beginning of the range.
        end_ns: The end of the range.
        whole: Count the full duration of spans that cross the range's edges.
        event: Count samples of this event, also if there are spans.
        of: Count `spans`, or `samples`; None counts what `what_counts` returns.
        idle: Whether samples of idle CPUs count, too; those of threads that are all the idle task
            do.

    >>> from meantime.testing import history_from_spans
    >>> tree, unit = call_tree(history_from_spans({"main": [("a", 0, 9)]}), start_ns=4)
    >>> tree.total.tolist(), unit
    ([5], 'ns')
    """
    if event is None and what_counts(history, of) == "spans":
        chosen = thread_quarks(history) if quarks is None else quarks
        spans = history.spans(chosen, start_ns=start_ns, end_ns=end_ns)
        if whole:
            return span_tree(spans), "ns"
        return span_tree(spans, start_ns=start_ns, end_ns=end_ns), "ns"
    samples = history.samples(quarks, start_ns=start_ns, end_ns=end_ns, event=event)
    if not idle:
        samples, _ = without_idle(history, samples, is_chosen=quarks is not None)
    return sample_tree(samples), sample_unit(samples)


class NameWeight(NamedTuple):
    """The weight of a function: its own, and together with all that it called."""

    name: str
    own: int
    total: int
    calls: int


def by_name(tree: CallTree) -> list[NameWeight]:
    """Return the weight of each function, most own weight first; recursive calls count once.

    >>> from meantime.testing import history_from_samples
    >>> from meantime.query.stacks import sample_tree
    >>> history = history_from_samples([(0, "t", ["f", "f"], 2), (1, "t", ["g"], 1)])
    >>> by_name(sample_tree(history.samples()))
    [NameWeight(name='f', own=2, total=2, calls=1), NameWeight(name='g', own=1, total=1, calls=1)]
    """
    names, frame = merged_names(tree.stacks.frames, tree.stacks.frame)
    tree = replace(tree, stacks=StackTable(tree.stacks.parent, frame, names))
    own = np.zeros(len(names), np.int64)
    count = np.zeros(len(names), np.int64)
    total = np.zeros(len(names), np.int64)
    np.add.at(own, tree.stacks.frame, tree.own)
    np.add.at(count, tree.stacks.frame, tree.count)
    outermost = _outermost(tree)
    np.add.at(total, tree.stacks.frame[outermost], tree.total[outermost])
    rows = [
        NameWeight(name, *numbers)
        for name, *numbers in zip(names, own.tolist(), total.tolist(), count.tolist(), strict=True)
        if any(numbers)
    ]
    return sorted(rows, key=lambda row: (-row.own, -row.total, row.name))


def tree_rows(tree: CallTree, unit: str) -> list[dict[str, Any]]:
    """Return the stacks as JSON values, each after its caller, heaviest first.

    >>> from meantime.testing import history_from_samples
    >>> from meantime.query.stacks import sample_tree
    >>> history = history_from_samples([(0, "t", ["a", "b"], 1), (1, "t", ["a"], 3)])
    >>> for row in tree_rows(sample_tree(history.samples()), "samples"):
    ...     print(row)
    {'depth': 0, 'name': 'a', 'count': 1, 'total': 4, 'self': 3}
    {'depth': 1, 'name': 'b', 'count': 1, 'total': 1, 'self': 1}
    """
    own, total = amount("self", unit), amount("total", unit)
    return [
        {
            "depth": depth,
            "name": name,
            "count": int(tree.count[row]),
            total: int(tree.total[row]),
            own: int(tree.own[row]),
        }
        for row, depth, name in _heaviest_first(tree)
    ]


def compared_rows(both: Difference, unit: str) -> list[dict[str, Any]]:
    """Return the stacks of a comparison as JSON values, in the order of its flame graph."""
    before, after = both.before, both.after
    together = CallTree(
        both.stacks,
        before.own + after.own,
        before.total + after.total,
        before.count + after.count,
    )
    own, total = amount("self", unit), amount("total", unit)
    return [
        {
            "depth": depth,
            "name": name,
            **{
                side: {
                    "count": int(tree.count[row]),
                    total: int(tree.total[row]),
                    own: int(tree.own[row]),
                }
                for side, tree in (("before", before), ("after", after))
            },
        }
        for row, depth, name in _heaviest_first(together)
    ]


def amount(name: str, unit: str) -> str:
    """Return the key of an amount, which ends in `_ns` for nanoseconds."""
    return f"{name}_ns" if unit == "ns" else name


def _heaviest_first(tree: CallTree) -> Iterator[tuple[int, int, str]]:
    """Yield the row, the depth and the name of each stack that has any weight."""
    depth = np.zeros(len(tree), np.int64)
    for row in left_heavy(tree):
        above = int(tree.stacks.parent[row])
        depth[row] = depth[above] + 1 if above >= 0 else 0
        if tree.total[row] or tree.count[row]:
            yield row, int(depth[row]), tree.stacks.frames[tree.stacks.frame[row]]


def _outermost(tree: CallTree) -> list[int]:
    """Return the stacks whose last function does not occur in them before: not recursive calls."""
    parent, frame = tree.stacks.parent.tolist(), tree.stacks.frame.tolist()
    below: list[list[int]] = [[] for _ in parent]
    waiting: list[int] = []
    for row in range(len(parent) - 1, -1, -1):
        (below[parent[row]] if parent[row] >= 0 else waiting).append(row)
    open_: dict[int, int] = {}
    found = []
    # a row on the way down, its complement on the way up
    while waiting:
        row = waiting.pop()
        if row < 0:
            open_[frame[~row]] -= 1
            continue
        if not open_.get(frame[row]):
            found.append(row)
        open_[frame[row]] = open_.get(frame[row], 0) + 1
        waiting.append(~row)
        waiting += below[row]
    return found
