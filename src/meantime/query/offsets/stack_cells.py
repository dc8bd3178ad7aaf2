"""The stacks of the samples, spans or states in each cell, for what a selection of cells holds."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels import calls
from meantime.model.stacks import NO_STACK, StackTable, StackTableBuilder
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int32s, Int64s
    from meantime.query.offsets.fold import Fold

__all__ = ["StackCells"]


@struct
class StackCells:
    """How much each cell has of each stack of each name, by cell, name and stack.

    Attributes:
        number: int64, the numbers of the cells.
        name: int32, indices into `names`.
        stack: int32, rows of `stacks`; -1 if there is none.
        value: int64, how much.
        names: The names that the map is grouped by.
        stacks: The stacks.
    """

    number: Int64s
    name: Int32s
    stack: Int32s
    value: Int64s
    names: tuple[str, ...]
    stacks: StackTable

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def of(
        cls,
        fold: Fold,
        time_ns: Int64s,
        name: Int64s,
        stack: Int32s,
        value: Int64s,
        *,
        names: Sequence[str],
        stacks: StackTable,
    ) -> StackCells:
        """Return the stacks of samples in the cells of a fold.

        Args:
            fold: The cells.
            time_ns: The time of each sample.
            name: Its name, an index into `names`.
            stack: Its stack, a row of `stacks`, or -1.
            value: How much it adds to its cell.
            names: The names.
            stacks: The stacks.
        """
        return cls(*_summed(fold.numbers(time_ns), name, stack, value), tuple(names), stacks)

    @classmethod
    def summed(
        cls,
        parts: Sequence[tuple[Int64s, Int64s, Int32s, Int64s]],
        names: Sequence[str],
        stacks: StackTable,
    ) -> StackCells:
        """Return what has these cells, names, stacks and values, added up.

        Args:
            parts: Columns of cell numbers, indices into `names`, rows of `stacks`, and values.
            names: The names.
            stacks: The stacks.
        """
        empty = (np.zeros(0, np.int64),) * 4
        columns = [np.concatenate(column) for column in zip(empty, *parts, strict=True)]
        return cls(*_summed(*columns), tuple(names), stacks)

    def shifted(self, cells: int) -> StackCells:
        """Return these with other numbers of cells, larger by `cells`."""
        return replace(self, number=self.number + cells)

    def numbered(self, number: Int64s) -> StackCells:
        """Return these in other cells: a number for each row, equal ones added up."""
        columns = _summed(number, self.name, self.stack, self.value)
        return StackCells(*columns, self.names, self.stacks)

    def __add__(self, other: StackCells) -> StackCells:
        """Return both together; equal names, and equal stacks, become one."""
        builder = StackTableBuilder()
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        columns = []
        for each in (self, other):
            frames = [builder.frame(name) for name in each.stacks.frames]
            row = np.full(len(each.stacks) + 1, NO_STACK, np.int32)
            for stack, (parent, frame) in enumerate(
                zip(each.stacks.parent.tolist(), each.stacks.frame.tolist(), strict=True)
            ):
                row[stack] = builder.push(int(row[parent]), frames[frame])
            index = np.array([names.index(name) for name in each.names], np.int32)
            columns.append((each.number, index[each.name], row[each.stack], each.value))
        joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
        return StackCells(*_summed(*joined), names, builder.build())

    def without_details(self, least: int) -> StackCells:
        """Return these with stacks that have less than this merged into their callers.

        >>> from meantime.query.offsets import Fold
        >>> table = StackTableBuilder()
        >>> rows = np.array([table.add("abc"), table.add("abd"), table.add("abd")], np.int32)
        >>> zeros, ones = np.zeros(3, np.int64), np.ones(3, np.int64)
        >>> found = StackCells.of(
        ...     Fold(0, 10, 2), zeros, zeros, rows, ones, names=["x"], stacks=table.build()
        ... ).without_details(2)
        >>> [found.stacks.frames_of(stack) for stack in found.stack.tolist()], found.value.tolist()
        ([['a', 'b'], ['a', 'b', 'd']], [1, 2])
        """
        table = self.stacks
        total = np.zeros(len(table), np.int64)
        has_stack = self.stack >= 0
        np.add.at(total, self.stack[has_stack], self.value[has_stack])
        calls.spread(table.parent, total)
        kept = total >= least
        new_row = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        # the last entry is for what has no stack
        nearest = np.full(len(table) + 1, NO_STACK, np.int32)
        for stack, parent in enumerate(table.parent.tolist()):
            nearest[stack] = new_row[stack] if kept[stack] else nearest[parent]
        frames, frame = np.unique(table.frame[kept], return_inverse=True)
        stacks = StackTable(
            nearest[table.parent[kept]],
            frame.astype(np.int32),
            [table.frames[each] for each in frames.tolist()],
        )
        columns = _summed(self.number, self.name, nearest[self.stack], self.value)
        return StackCells(*columns, self.names, stacks)


def _summed(
    number: Int64s, name: Int64s | Int32s, stack: Int32s, value: Int64s
) -> tuple[Int64s, Int32s, Int32s, Int64s]:
    """Return rows by cell, name and stack, those that are equal added up."""
    order = np.lexsort((stack, name, number))
    columns = [number[order], name[order], stack[order]]
    differs = np.ones(len(order), np.bool_)
    differs[1:] = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    firsts = np.flatnonzero(differs)
    values = np.add.reduceat(value[order], firsts) if len(firsts) else value[:0]
    chosen = order[firsts]
    return (
        number[chosen],
        name[chosen].astype(np.int32),
        stack[chosen].astype(np.int32),
        values.astype(np.int64),
    )
