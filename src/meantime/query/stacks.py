"""Call trees, of spans and of samples alike: where the time went, by who called whom.

A tree is a stack table with weights: of spans the nanoseconds that are each span's own, of samples
their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import MeantimeError
from meantime.kernels import calls, nest
from meantime.model.columns import distinct
from meantime.model.stacks import NO_STACK, StackTable
from meantime.query.duration_sums import check_sum
from meantime.query.durations import clipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "CallTree",
    "Difference",
    "Neighbour",
    "added_trees",
    "callees",
    "callers",
    "check_expansion_limit",
    "difference",
    "gone",
    "left_heavy",
    "on_shared_stacks",
    "sample_tree",
    "span_tree",
    "with_no_stack",
]

_NO_STACK_NAME = "(no stack)"
# As text these are some gigabytes.
_MOST_FRAMES = 2 * 10**8


@dataclass(frozen=True, slots=True)
class CallTree:
    """Stacks, and how much was spent in each.

    Attributes:
        stacks: The stacks; a caller's row is before those of its callees.
        own: int64, the weight of the stack itself.
        total: int64, the weight of the stack and of all that it called.
        count: int64, spans of the stack, or samples that end in it.
    """

    stacks: StackTable
    own: Int64s
    total: Int64s
    count: Int64s

    def __len__(self) -> int:
        return len(self.own)

    def __add__(self, other: CallTree) -> CallTree:
        """Return the sum of both: see `added_trees`."""
        return added_trees([self, other])


def added_trees(trees: Sequence[CallTree]) -> CallTree:
    """Return the sum of call trees, stack by stack, matched by the names of functions.

    The order of the trees makes no difference, and trees may be sums: stacks are in depth-first
    order, the callees of each in the order of their names.

    >>> from meantime.testing import history_from_samples
    >>> one = sample_tree(history_from_samples([(0, "t", ["b"], 1), (1, "t", ["a"], 2)]).samples())
    >>> two = sample_tree(history_from_samples([(0, "t", ["a", "b"], 4)]).samples())
    >>> both = one + two
    >>> [both.stacks.frames_of(row) for row in range(3)], both.total.tolist()
    ([['a'], ['a', 'b'], ['b']], [6, 4, 1])

    Raises:
        MeantimeError: If a sum may exceed 64 bits.
    """
    stacks, common_rows = _common(trees)
    sums = []
    for name in ("own", "total", "count"):
        columns = [getattr(tree, name) for tree in trees]
        check_sum(columns, "the weights of these stacks")
        total = np.zeros(len(stacks), np.int64)
        for rows, column in zip(common_rows, columns, strict=True):
            total += _moved(column, rows, len(stacks))
        sums.append(total)
    return CallTree(stacks, *sums)


def _common(trees: Sequence[CallTree]) -> tuple[StackTable, list[npt.NDArray[np.intp]]]:
    """Return the stacks of all trees, by the names of functions, and where those of each are.

    Stacks are in depth-first order, the callees of each in the order of their names.
    """
    used = [distinct(tree.stacks.frame) for tree in trees]
    frames = sorted(
        {
            tree.stacks.frames[code]
            for tree, codes in zip(trees, used, strict=True)
            for code in codes.tolist()
        }
    )
    code_of = {name: code for code, name in enumerate(frames)}
    rows: dict[int, int] = {}
    common_rows = []
    for tree, codes in zip(trees, used, strict=True):
        code = np.zeros(len(tree.stacks.frames), np.int64)
        code[codes] = [code_of[tree.stacks.frames[each]] for each in codes.tolist()]
        common: list[int] = []
        for parent, frame in zip(
            tree.stacks.parent.tolist(), code[tree.stacks.frame].tolist(), strict=True
        ):
            above = common[parent] if parent >= 0 else NO_STACK
            # the key of a stack is of its caller's row and its function, in one integer
            common.append(rows.setdefault((above + 1) * len(frames) + frame, len(rows)))
        common_rows.append(np.array(common, np.intp))
    keys = np.fromiter(rows, np.int64, len(rows))
    parent, frame = np.divmod(keys, max(len(frames), 1))
    order = _by_name(parent - 1, frame)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    # the caller of an outermost stack is in the row before the first, whatever that becomes
    parent = np.append(place, NO_STACK)[parent[order] - 1]
    stacks = StackTable(parent.astype(np.int32), frame[order].astype(np.int32), frames)
    return stacks, [place[row] for row in common_rows]


def on_shared_stacks(
    before: Sequence[CallTree], after: Sequence[CallTree], others: str
) -> list[CallTree]:
    """Return trees in which only stacks stay that both sides have, and all on the same stacks.

    What a stack of both sides calls on one side alone is one callee of it, whose name is `others`:
    its weight counts at the least common ancestor of what is called there before and after.

    >>> from meantime.testing import history_from_samples
    >>> old, new = (
    ...     sample_tree(history_from_samples([(0, "t", ["f", name, "h"], 1)]).samples())
    ...     for name in ("g", "g2")
    ... )
    >>> trees = on_shared_stacks([old], [new], "(others)")
    >>> [trees[0].stacks.frames_of(row) for row in range(2)], trees[0].own.tolist()
    ([['f'], ['f', '(others)']], [0, 1])

    Args:
        before: The trees of one side, in the order of the result.
        after: Those of the other side, which follow.
        others: The name of the callee.
    """
    trees = [*before, *after]
    stacks, places = _common(trees)
    is_there = np.zeros((2, len(stacks)), np.bool_)
    for number, (tree, place) in enumerate(zip(trees, places, strict=True)):
        used = (tree.count > 0) | (tree.own != 0)
        is_there[int(number >= len(before)), place[used]] = True
    shared = np.ones(len(stacks), np.bool_)
    for side in is_there.astype(np.int64):
        calls.spread(stacks.parent, side)
        shared &= side > 0
    # callers are before their callees, so what is not shared is all that is below it
    frames = [*stacks.frames, others]
    parent: list[int] = []
    frame: list[int] = []
    moved = np.empty(len(stacks), np.intp)
    row_of_others: dict[int, int] = {}
    for row, above in enumerate(stacks.parent.tolist()):
        if above >= 0 and not shared[above]:
            moved[row] = moved[above]
            continue
        caller = NO_STACK if above < 0 else int(moved[above])
        if not shared[row] and caller in row_of_others:
            moved[row] = row_of_others[caller]
            continue
        moved[row] = len(parent)
        if not shared[row]:
            row_of_others[caller] = len(parent)
        parent.append(caller)
        frame.append(int(stacks.frame[row]) if shared[row] else len(frames) - 1)
    table = StackTable(np.array(parent, np.int32), np.array(frame, np.int32), frames)
    found = []
    for tree, place in zip(trees, places, strict=True):
        own, count = (_moved(each, moved[place], len(table)) for each in (tree.own, tree.count))
        total = own.copy()
        calls.spread(table.parent, total)
        found.append(CallTree(table, own, total, count))
    return found


def _by_name(parent: Int64s, frame: Int64s) -> npt.NDArray[np.intp]:
    """Return the rows of stacks depth first, the callees of each in the order of their frames."""
    below: dict[int, list[int]] = {}
    # the last first, as `waiting` is popped from its end
    for row in np.argsort(-frame, kind="stable").tolist():
        below.setdefault(int(parent[row]), []).append(row)
    order, waiting = [], below.get(NO_STACK, [])
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting += below.get(row, [])
    return np.array(order, np.intp)


def span_tree(
    spans: SpanTable, *, start_ns: int | None = None, end_ns: int | None = None
) -> CallTree:
    """Return the call tree of spans, of all their threads together.

    Every instant counts once for a thread: for the open span that began last. If spans partly
    overlap, the time they share counts for the later one.

    Times are clipped to [start_ns, end_ns); the spans should be those selected for that range.

    >>> from meantime.testing import history_from_spans
    >>> history = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5), ("b", 6, 7)]})
    >>> tree = span_tree(history.spans())
    >>> [tree.stacks.frames_of(row) for row in range(2)], tree.total.tolist(), tree.own.tolist()
    ([['a'], ['a', 'b']], [10, 4], [6, 4])
    """
    starts, ends = clipped(spans, start_ns, end_ns)
    stack, parent, frame = calls.stacks(spans.parent, spans.name.codes)
    table = StackTable(parent, frame, spans.name.names)
    return _tree(table, stack, nest.innermost_time(starts, ends, spans.offsets))


def with_no_stack(samples: SampleTable) -> tuple[Int32s, StackTable]:
    """Return the stack of each sample: that of the frame `(no stack)` where there is none.

    Unless none has one.
    """
    is_bare = samples.stack < 0
    if not is_bare.any() or is_bare.all():
        return samples.stack, samples.stacks
    table = samples.stacks
    named = StackTable(
        np.append(table.parent, np.int32(NO_STACK)),
        np.append(table.frame, np.int32(len(table.frames))),
        [*table.frames, _NO_STACK_NAME],
    )
    return np.where(is_bare, np.int32(len(table)), samples.stack), named


def sample_tree(samples: SampleTable) -> CallTree:
    """Return the weighted call tree of samples, without stacks that are in no sample.

    Samples without a stack are in a function `(no stack)`, so that totals are those of all.

    >>> from meantime.testing import history_from_samples
    >>> rows = [(0, "t", ["a"], 2), (1, "t", ["a", "b"], 3), (2, "t", [], 4)]
    >>> history = history_from_samples(rows)
    >>> tree = sample_tree(history.samples())
    >>> tree.total.tolist(), tree.stacks.frames
    ([5, 3, 4], ['a', 'b', '(no stack)'])
    """
    stack, table = with_no_stack(samples)
    seen = stack >= 0
    stack = stack[seen]
    used = np.zeros(len(table), np.int64)
    used[stack] = 1
    # spread to callers: those without samples of their own are kept too
    calls.spread(table.parent, used)
    kept = used > 0
    new_row = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    parent = table.parent[kept]
    parent = np.where(parent < 0, np.int32(NO_STACK), new_row[parent])
    kept_table = StackTable(parent.astype(np.int32), table.frame[kept], table.frames)
    return _tree(kept_table, new_row[stack], samples.weight[seen])


def _tree(table: StackTable, stack: Int32s, weight: Int64s) -> CallTree:
    own = np.zeros(len(table), np.int64)
    np.add.at(own, stack, weight)
    total = own.copy()
    calls.spread(table.parent, total)
    return CallTree(table, own, total, np.bincount(stack, minlength=len(table)))


def check_expansion_limit(tree: CallTree) -> None:
    """Reject a tree whose stacks are too long to be written out one by one.

    A tree shares the frames of callers, text does not: a small but deep tree can expand to a
    text that no disk has space for.

    Raises:
        MeantimeError: If they have too many frames in total.
    """
    # callers are before their callees, so one pass in order is enough
    depths = [0]
    for parent in tree.stacks.parent.tolist():
        depths.append(depths[parent + 1] + 1)
    depth = np.array(depths[1:], np.int64)
    frames = int(depth[tree.own > 0].sum())
    if frames > _MOST_FRAMES:
        raise MeantimeError(
            f"these stacks are up to {int(depth.max()):,} deep and have"
            f" {frames:,} frames in all; draw them as .svg, or choose a smaller range"
        )


def left_heavy(tree: CallTree) -> list[int]:
    """Return the stacks depth first, the callees of each by weight, the heaviest first.

    Callees of equal weight are in the order of their names. speedscope calls this order left heavy.

    >>> from meantime.testing import history_from_samples
    >>> history = history_from_samples([(0, "t", ["a", "b"], 1), (1, "t", ["a", "c"], 3)])
    >>> left_heavy(sample_tree(history.samples()))
    [0, 2, 1]
    """
    names = tree.stacks.frames
    below: dict[int, list[int]] = {}
    for row, parent in enumerate(tree.stacks.parent.tolist()):
        below.setdefault(parent, []).append(row)
    total, frame = tree.total.tolist(), tree.stacks.frame.tolist()
    for rows in below.values():
        # reversed, as `waiting` is popped from its end
        rows.sort(key=lambda row: (-total[row], names[frame[row]]), reverse=True)
    order, waiting = [], list(below.get(NO_STACK, []))
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting += below.get(row, [])
    return order


class Neighbour(NamedTuple):
    """A caller or a callee of a function, and its weight in that call."""

    name: str | None
    total: int
    calls: int


def callers(tree: CallTree, name: str) -> list[Neighbour]:
    """Return the callers of a function, heaviest first; None is a call without a caller.

    Calls inside a call of the same function are part of the outer one.
    """
    named = _named(tree, name)
    outermost = named & ~_within(tree, named)
    parent = tree.stacks.parent
    found = [
        (None if parent[row] < 0 else int(tree.stacks.frame[parent[row]]), row)
        for row in np.flatnonzero(outermost).tolist()
    ]
    return _neighbours(tree, found)


def callees(tree: CallTree, name: str) -> list[Neighbour]:
    """Return the callees of a function, heaviest first; recursive calls are included.

    Each of nested calls of one callee counts with its full weight.
    """
    named = _named(tree, name)
    parent = tree.stacks.parent
    called = (parent >= 0) & named[parent] if len(named) else named
    rows = np.flatnonzero(called).tolist()
    return _neighbours(tree, [(int(tree.stacks.frame[row]), row) for row in rows])


def _named(tree: CallTree, name: str) -> npt.NDArray[np.bool_]:
    codes = [code for code, text in enumerate(tree.stacks.frames) if text == name]
    return np.isin(tree.stacks.frame, codes)


def _within(tree: CallTree, named: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which stacks have one of the named ones among their callers."""
    within = np.zeros(len(named), np.bool_)
    for row, parent in enumerate(tree.stacks.parent.tolist()):
        if parent >= 0:
            within[row] = within[parent] or named[parent]
    return within


def _neighbours(tree: CallTree, found: Sequence[tuple[int | None, int]]) -> list[Neighbour]:
    sums: dict[int | None, list[int]] = {}
    for frame, row in found:
        entry = sums.setdefault(frame, [0, 0])
        entry[0] += int(tree.total[row])
        entry[1] += int(tree.count[row])
    names = tree.stacks.frames
    rows = [
        Neighbour(None if frame is None else names[frame], total, count)
        for frame, (total, count) in sums.items()
    ]
    return sorted(rows, key=lambda row: (-row.total, row.name or ""))


@dataclass(frozen=True, slots=True)
class Difference:
    """Two trees on common stacks, with the weights of each tree.

    Attributes:
        stacks: All stacks of both.
        before: The first tree on these stacks.
        after: The second tree on these stacks.
    """

    stacks: StackTable
    before: CallTree
    after: CallTree


def difference(before: CallTree, after: CallTree) -> Difference:
    """Return two trees on common stacks, matched by their functions' names.

    >>> from meantime.testing import history_from_samples
    >>> one = sample_tree(history_from_samples([(0, "t", ["a", "b"], 1)]).samples())
    >>> two = sample_tree(history_from_samples([(0, "t", ["a"], 5)]).samples())
    >>> both = difference(one, two)
    >>> (both.after.total - both.before.total).tolist()
    [4, -1]
    """
    stacks, common_rows = _common([before, after])
    first, second = (
        CallTree(
            stacks,
            *(_moved(each, rows, len(stacks)) for each in (tree.own, tree.total, tree.count)),
        )
        for tree, rows in zip((before, after), common_rows, strict=True)
    )
    return Difference(stacks, first, second)


def gone(both: Difference) -> CallTree:
    """Return the tree of the weights before in stacks without any weight after.

    >>> from meantime.testing import history_from_samples
    >>> one = history_from_samples([(0, "t", ["a", "b"], 1), (1, "t", ["a"], 4)])
    >>> two = history_from_samples([(0, "t", ["a"], 5)])
    >>> left = gone(difference(sample_tree(one.samples()), sample_tree(two.samples())))
    >>> left.own.tolist(), left.total.tolist()
    ([0, 1], [1, 1])
    """
    elided = both.after.total == 0
    own = np.where(elided, both.before.own, 0)
    total = own.copy()
    calls.spread(both.stacks.parent, total)
    return CallTree(both.stacks, own, total, np.where(elided, both.before.count, 0))


def _moved(column: Int64s, common_row: npt.NDArray[np.intp], rows: int) -> Int64s:
    moved = np.zeros(rows, np.int64)
    np.add.at(moved, common_row, column)
    return moved
