"""The options of a statemap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meantime.errors import UsageError
from meantime.views.statemap.rows import matching

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_COALESCE", "StatemapOptions"]

DEFAULT_COALESCE = 25_000


@dataclass(frozen=True, slots=True)
class StatemapOptions:
    """The content of a statemap and how it is drawn.

    Attributes:
        begin_ns: The beginning of the map in the first history's time; None is that of its bounds.
        end_ns: The end of the map; None, or 0 as in the original, is the end of the data.
        coalesce: The most rectangles of a map, as far as each run of states without a gap in a row
            can be one.
        sort_by: The state whose total time sorts the rows, most first; `entity` (unless a state is
            called that) and None sort them by name.
        stack_sort_by: The state whose total time sorts the maps; None keeps their order.
        filter: Rows to show: an entity's name, or a regular expression that is found in names.
        ignore_tags: Leave out the tags; states that differ in nothing else are one.
        state_height_px: The height of a row.
        offsets_ns: By index of a history but the first, its time 0 in the times of the first,
            instead of aligning their clocks.

    Raises:
        UsageError: If one of them is invalid for all histories.
    """

    begin_ns: int | None = None
    end_ns: int | None = None
    coalesce: int = DEFAULT_COALESCE
    sort_by: str | None = None
    stack_sort_by: str | None = None
    filter: str | None = None
    ignore_tags: bool = False
    state_height_px: int = 10
    offsets_ns: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.coalesce < 1:
            raise UsageError(f"the coalesce factor is {self.coalesce}: it must be at least 1")
        if self.state_height_px < 0:
            raise UsageError(f"the state height is {self.state_height_px}: it cannot be negative")
        if self.filter is not None:
            matching(self.filter, ())
        if 0 in self.offsets_ns:
            raise UsageError("the first map has no offset; the others are placed relative to it")
