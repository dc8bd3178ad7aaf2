"""The options of a statemap."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import UsageError
from meantime.options import option, whole_number
from meantime.query.filtering import Filtered

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Budget", "Drawing", "StatemapOptions"]

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


class Drawing(Filtered):
    """What a statemap shows of a history, and how it is drawn.

    Raises:
        UsageError: If one is invalid for all histories.
    """

    coalesce: int | None = option(
        "-c",
        "--coalesce",
        metavar="N",
        parse=whole_number("coalesce factor"),
        absent="no merging up to 5 million intervals",
        help="Merge short states until each map has at most N rectangles; totals stay exact.",
        more="Rows never merge with each other; in rows that tasks share, gaps can be part of a"
        " rectangle. Events cannot be merged: if a map has more than N, they are left out and"
        " counted. Of more than 5 million intervals in all maps (42 MB of SVG), 1.5 million"
        " rectangles are left.",
    )
    sort_by: str | None = option(
        "-s",
        "--sortby",
        metavar="STATE",
        absent="entity",
        help="Sort rows by time in this state, or by likeness.",
        more="The row with most time is first. Unless a state is called that, `likeness` puts rows"
        " together that are in the same states at the same times, the largest kind first, and"
        " `entity` sorts by name in natural order.",
    )
    stack_sort_by: str | None = option(
        "-S", "--stacksortby", metavar="STATE", help="Sort stacked maps by time in this state."
    )
    ignore_tags: bool = option(
        "-i",
        "--ignore-tags",
        "--ignoreTags",
        default=False,
        help="Ignore all tags.",
        more="States that differ in nothing else are one.",
    )
    state_height_px: int = option(
        "-H",
        "--state-height",
        "--stateHeight",
        default=10,
        metavar="PX",
        parse=whole_number("state height"),
        help="Height of a row in pixels.",
        more="On the command line, `-h` with a number is the same.",
    )
    packed: bool = option(
        "--unpacked",
        default=True,
        help="Draw a row for each task, instead of rows that tasks share.",
        keyword="Let short-lived entities, such as tasks, share rows if they never overlap.",
    )

    def _check(self) -> None:
        if self.coalesce is not None and self.coalesce < 1:
            raise UsageError(f"the coalesce factor is {self.coalesce}: it must be at least 1")
        if self.state_height_px < 0:
            raise UsageError(f"the state height is {self.state_height_px}: it cannot be negative")


class StatemapOptions(Drawing):
    """The content of a statemap and how it is drawn.

    Raises:
        UsageError: If one of them is invalid for all histories.
    """

    begin_ns: int | None = option(
        absent="that of its bounds", help="The beginning of the map in the first history's time."
    )
    end_ns: int | None = option(
        help="The end of the map; None, or 0 as in the original, is the end of the data."
    )
    offsets_ns: Mapping[int, int] | None = option(
        help="By index of a history but the first, its time 0 in the times of the first, instead of"
        " aligning their clocks."
    )

    def _check(self) -> None:
        if 0 in (self.offsets_ns or ()):
            raise UsageError("the first map has no offset; the others are placed relative to it")

    def budget(self, maps: int) -> Budget:
        """Return the number of rectangles that each of this many maps may have."""
        if self.coalesce is not None:
            return Budget(self.coalesce, self.coalesce)
        return Budget(_LOSSLESS // maps, _MERGED // maps)
