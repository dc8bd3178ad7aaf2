"""The cells of a map, and the stacks in them, as bytes for its page."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.varints import encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meantime.query.offsets import OffsetMap, StackCells

__all__ = ["PackedStacks", "packed_cells", "packed_stacks"]

# The most that stacks add to a page, before they are written in base64.
_MOST_BYTES = 2 * 1024 * 1024


class PackedStacks(NamedTuple):
    """The blocks of a page with stacks.

    Attributes:
        blocks: Compressed columns, by name.
        least: Stacks with less than this are merged into their callers.
    """

    blocks: Mapping[str, bytes]
    least: int


def packed_stacks(found: OffsetMap, stacks: StackCells, prefix: str = "stack") -> PackedStacks:
    """Return the stacks of a map's cells, as detailed as the limit of the size allows.

    Args:
        found: The map.
        stacks: Its stacks, or its traits.
        prefix: How the names of the blocks begin.
    """
    least = 1
    while True:
        blocks = _stack_blocks(found, stacks.without_details(least), prefix)
        size = sum(map(len, blocks.values()))
        if size <= _MOST_BYTES or least > int(stacks.value.sum()):
            return PackedStacks(blocks, least)
        # a size twice the limit needs much more than half of the stacks merged
        least = max(4 * least, int(stacks.value.sum()) >> 20)


def _stack_blocks(found: OffsetMap, stacks: StackCells, prefix: str) -> dict[str, bytes]:
    base = found.columns[0] * found.fold.rows
    index = {name: number for number, name in enumerate(list(found.by) or [""])}
    # a name that has no cell, as its intervals neither start nor end there, is in no list
    name = np.array([index.get(each, len(index)) for each in stacks.names], np.int64)[stacks.name]
    follows = stacks.value != 1
    columns = np.stack(
        (
            2 * np.diff(stacks.number, prepend=base) + follows,
            name,
            stacks.stack.astype(np.int64) + 1,
            stacks.value,
        ),
        axis=1,
    )
    is_written = np.ones(columns.shape, np.bool_)
    is_written[:, 3] = follows
    table = stacks.stacks
    rows = np.arange(len(table), dtype=np.int64)
    callers = np.stack((rows - table.parent, table.frame.astype(np.int64)), axis=1)
    frames = json.dumps(list(table.frames), ensure_ascii=False)
    return {
        f"{prefix}-cells": zlib.compress(encoded(columns[is_written])),
        f"{prefix}-table": zlib.compress(encoded(callers.ravel())),
        f"{prefix}-names": zlib.compress(frames.encode("utf-8", "replace")),
    }


def packed_cells(found: OffsetMap) -> bytes:
    """Return for each name its number of cells, then each cell's distance and value, as LEB128.

    Most values of samples are 1 and are not written: a distance from the cell before is doubled,
    and is odd if a value follows.
    """
    base = found.columns[0] * found.fold.rows
    parts = []
    for cells in list(found.by.values()) or [found.total]:
        columns = np.empty((len(cells.number), 2), np.int64)
        follows = cells.value != 1
        columns[:, 0] = 2 * np.diff(cells.number, prepend=base) + follows
        columns[:, 1] = cells.value
        is_written = np.ones(columns.shape, np.bool_)
        is_written[:, 1] = follows
        parts.append(encoded(np.append(len(cells.number), columns[is_written])))
    return b"".join(parts)
