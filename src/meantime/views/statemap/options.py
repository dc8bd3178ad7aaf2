"""The options of a statemap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import UsageError
from meantime.query.filtering import matching

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Budget", "StatemapOptions"]

# A page of 5 million intervals has 42 MB and opens in two seconds. A merged rectangle has a time
# for each of its states, and needs about three times as many bytes.
_LOSSLESS = 5_000_000
_MERGED = 1_500_000


class Budget(NamedTuple):
    """How many rectangles a map may have.

    Attributes:
        lossless: Up to this number nothing is merged.
        merged: With more, they are merged until this number is left.
    """

    lossless: int
    merged: int


@dataclass(frozen=True, slots=True)
class StatemapOptions:
    """The content of a statemap and how it is drawn.

    Attributes:
        begin_ns: The beginning of the map in the first history's time; None is that of its bounds.
        end_ns: The end of the map; None, or 0 as in the original, is the end of the data.
        coalesce: The most rectangles of a map, as far as each run of states without a gap in a row
            can be one; in rows that entities share, a gap can be part of one. With None nothing is
            merged up to 5 million intervals in all maps.
        sort_by: The state whose total time sorts the rows, most first; `entity` (unless a state is
            called that) and None sort them by name.
        stack_sort_by: The state whose total time sorts the maps; None keeps their order.
        filter: Rows to show: an entity's name, or a regular expression that is found in names.
        packed: Let short-lived entities, such as tasks, share rows if they never overlap; otherwise
            each has a row.
        ignore_tags: Leave out the tags; states that differ in nothing else are one.
        state_height_px: The height of a row.
        offsets_ns: By index of a history but the first, its time 0 in the times of the first,
            instead of aligning their clocks.

    Raises:
        UsageError: If one of them is invalid for all histories.
    """

    begin_ns: int | None = None
    end_ns: int | None = None
    coalesce: int | None = None
    sort_by: str | None = None
    stack_sort_by: str | None = None
    filter: str | None = None
    packed: bool = True
    ignore_tags: bool = False
    state_height_px: int = 10
    offsets_ns: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.coalesce is not None and self.coalesce < 1:
            raise UsageError(f"the coalesce factor is {self.coalesce}: it must be at least 1")
        if self.state_height_px < 0:
            raise UsageError(f"the state height is {self.state_height_px}: it cannot be negative")
        if self.filter is not None:
            matching(self.filter, ())
        if 0 in self.offsets_ns:
            raise UsageError("the first map has no offset; the others are placed relative to it")

    def budget(self, maps: int) -> Budget:
        """Return the number of rectangles that each of this many maps may have."""
        if self.coalesce is not None:
            return Budget(self.coalesce, self.coalesce)
        return Budget(_LOSSLESS // maps, _MERGED // maps)
