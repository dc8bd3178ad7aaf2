"""The statemap of the Python API: drawn by a call, shown by a notebook, saved to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.history import History
from meantime.units import format_ns
from meantime.views.picture import Picture
from meantime.views.statemap import document, svg
from meantime.views.statemap.assembly import build
from meantime.views.statemap.options import DEFAULT_COALESCE, StatemapOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.views.statemap.data import Statemap

__all__ = ["StatemapView", "statemap"]


class StatemapView(Picture):
    """A statemap, to show in a notebook or to save as .svg or .json.

    Attributes:
        data: Its content, as columns.
    """

    noun = "statemap"
    formats = ("svg", "json")

    def __init__(self, data: Statemap) -> None:
        self.data = data

    def render(self, form: str) -> Iterable[bytes]:
        """Return the file: `svg` is a picture that is a page in a browser, `json` is data."""
        return [(document if form == "json" else svg).render(self.data)]

    def __repr__(self) -> str:
        first = self.data.panels[0]
        rows = sum(len(panel.entities) for panel in self.data.panels)
        rectangles = sum(len(panel.rectangles) for panel in self.data.panels)
        return (
            f"<Statemap: {rows:,} rows, {rectangles:,} rectangles,"
            f" {format_ns(first.end_ns - first.start_ns)}>"
        )


def statemap(
    histories: History | Sequence[History],
    *,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    coalesce: int = DEFAULT_COALESCE,
    sort_by: str | None = None,
    stack_sort_by: str | None = None,
    filter: str | None = None,  # noqa: A002 - the command's name for it
    ignore_tags: bool = False,
    state_height_px: int = 10,
    offsets_ns: Mapping[int, int] | None = None,
) -> StatemapView:
    """Return the statemap of a history, or of several, one above the other.

    The arguments are described at `StatemapOptions`.

    >>> from meantime.testing import history_from_picture
    >>> statemap(history_from_picture("disk0  aab."))
    <Statemap: 1 rows, 2 rectangles, 4ns>

    Raises:
        MeantimeError: If a history has no states, or a state to sort by or a color does not exist.
        UsageError: If an argument is invalid.
    """
    options = StatemapOptions(
        begin_ns=begin_ns,
        end_ns=end_ns,
        coalesce=coalesce,
        sort_by=sort_by,
        stack_sort_by=stack_sort_by,
        filter=filter,
        ignore_tags=ignore_tags,
        state_height_px=state_height_px,
        offsets_ns=offsets_ns or {},
    )
    return StatemapView(
        build([histories] if isinstance(histories, History) else histories, options)
    )
