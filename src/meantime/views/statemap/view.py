"""The statemap as Python users meet it: drawn by a call, shown by a notebook, saved to a file."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import OutputError, UsageError
from meantime.files import write_whole
from meantime.history import History
from meantime.units import format_ns
from meantime.views.statemap import document, svg
from meantime.views.statemap.assembly import build
from meantime.views.statemap.options import DEFAULT_COALESCE, StatemapOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from meantime.views.statemap.data import Statemap

__all__ = ["StatemapView", "statemap"]

_RENDERERS = {".svg": svg.render, ".json": document.render}
_NOTEBOOK_HEIGHT_PX = 640


class StatemapView:
    """A statemap, to be looked at in a notebook or saved.

    Attributes:
        data: What it shows, as columns.
    """

    def __init__(self, data: Statemap) -> None:
        self.data = data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statemap to a file, which is whole or not there.

        As a picture that is a page, if the name ends in `.svg`; as data, if it ends in `.json`.

        Raises:
            UsageError: If the name ends in something else.
            OutputError: If the file cannot be written.
        """
        target = Path(path)
        renderer = _RENDERERS.get(target.suffix)
        if renderer is None:
            raise UsageError(f"{str(path)!r}: a statemap is written as .svg or .json")
        try:
            write_whole(target, [renderer(self.data)])
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None

    def _repr_html_(self) -> str:
        # a document of its own, since a notebook runs no script that stands in its output
        file = b64encode(svg.render(self.data)).decode()
        return (
            f'<iframe src="data:image/svg+xml;base64,{file}"'
            f' style="width:100%;height:{_NOTEBOOK_HEIGHT_PX}px;border:0"></iframe>'
        )

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

    What the arguments mean is said at `StatemapOptions`.

    >>> from meantime.testing import history_from_picture
    >>> statemap(history_from_picture("disk0  aab."))
    <Statemap: 1 rows, 2 rectangles, 4ns>

    Raises:
        MeantimeError: If a history has no states, or a state to sort by or a color does not exist.
        UsageError: If an argument cannot be.
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
