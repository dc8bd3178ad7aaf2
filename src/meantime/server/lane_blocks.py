"""What a lane is, and the blocks in which tiles have lanes."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Block", "LaneKind", "LaneRow", "PackedBlock", "SpanBlock", "SpanRows"]

LaneKind: TypeAlias = Literal[
    "group", "state", "packed", "stack", "async", "counter", "density", "points"
]


class LaneRow(NamedTuple):
    """A lane as the page sees it; see `docs/reference/tiles.md`."""

    kind: LaneKind
    parent: int
    name: str
    detail: str = ""
    rows: int = 0
    block: int = 0
    quark: int = -1
    entities: int = 0
    unit: str = ""
    estimated: bool = False
    pattern: str = ""

    def in_block(self, block: int) -> LaneRow:
        """Return the same lane in a block."""
        # `_replace` takes five times as long, and there may be a million
        return LaneRow._make((*self[:_BLOCK], block, *self[_BLOCK + 1 :]))


_BLOCK = LaneRow._fields.index("block")


@struct
class Block:
    """Lanes that a tile has together.

    Attributes:
        lanes: Their numbers.
        quarks: The attribute of each.
    """

    lanes: list[int]
    quarks: Int32s


@struct
class SpanRows:
    """A table of spans, and the row of each in its block.

    Attributes:
        table: The spans, whose numbers are their indices in it.
        row: int32, by span.
        numbered: The same spans with their numbers in the history; None of those that samples show.
        samples: int32, how many samples each stands for; None of spans that were recorded.
    """

    table: SpanTable
    row: Int32s
    numbered: SpanTable | None = None
    samples: Int32s | None = None

    @property
    def numbers(self) -> Int32s | None:
        """int32, the number of each in the history; None of spans that samples show."""
        return None if self.numbered is None else self.numbered.rows


@struct
class SpanBlock:
    """Lanes of spans.

    Attributes:
        lanes: Their numbers.
        row_offsets: Lane i has the rows [row_offsets[i], row_offsets[i + 1]) of the block.
        threads: The quarks whose spans are in the block.
        spans: All spans of their kind.
        lane_threads: By lane, its quarks.
    """

    lanes: list[int]
    row_offsets: list[int]
    threads: Int32s
    spans: SpanRows
    lane_threads: list[Int32s]

    def place(self, row: int) -> tuple[int, int]:
        """Return the lane of a row of the block, and which of its rows it is."""
        index = bisect_right(self.row_offsets, row) - 1
        return self.lanes[index], row - self.row_offsets[index]


@struct
class PackedBlock:
    """Lanes of entities that share rows.

    Attributes:
        lanes: Their numbers.
        row_offsets: Lane i has the rows [row_offsets[i], row_offsets[i + 1]) of the block.
        quarks: The entities, by row, and there in order of time.
        row: The row of each in the block.
        start_ns: When each began.
        end_ns: When it ended.
        names: What each is called.
    """

    lanes: list[int]
    row_offsets: list[int]
    quarks: Int32s
    row: Int32s
    start_ns: Int64s
    end_ns: Int64s
    names: Sequence[str]

    def of_lane(self, index: int) -> Int32s:
        """Return the entities of one of the lanes."""
        first, last = self.row_offsets[index : index + 2]
        return self.quarks[(self.row >= first) & (self.row < last)]

    def place(self, row: int) -> tuple[int, int]:
        """Return the lane of a row of the block, and which of its rows it is."""
        index = bisect_right(self.row_offsets, row) - 1
        return self.lanes[index], row - self.row_offsets[index]
