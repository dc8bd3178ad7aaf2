"""The heat map of the Python API: shown by a notebook, saved to a file."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from meantime.model.units import format_ns
from meantime.query.offsets.finder import find
from meantime.views.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.query.offsets import Finding, OffsetMap
    from meantime.views.heatmap.command import FlameCommand
    from meantime.views.heatmap.figure import Figure
    from meantime.views.heatmap.look import Look
    from meantime.views.heatmap.selection import Selection

__all__ = ["HeatmapView"]


class HeatmapView(Picture):
    """A subsecond-offset heat map, to show in a notebook or to save.

    `.svg` and `.html` are pictures that are pages in a browser, `.png` is a plain picture, which
    needs the extra `[png]`, `.json` is every cell in integers.

    Attributes:
        data: Every cell, in total and by name.
        title: The title of the picture.
    """

    noun = "heat map"
    formats = ("svg", "html", "png", "json")

    def __init__(
        self,
        data: OffsetMap,
        selection: Selection,
        look: Look,
        *,
        title: str,
        command: FlameCommand | None = None,
        ratio: str | None = None,
        idle: bool = False,
    ) -> None:
        """Prepare a picture of a map.

        Args:
            data: The map.
            selection: Which names are drawn, and how.
            look: The colours.
            title: The title of the picture.
            command: The command that draws flame graphs of the same samples, if there is one.
            ratio: `concurrency` or `utilisation`: what `.json` has instead of nanoseconds.
            idle: Whether samples of idle CPUs are drawn too.
        """
        self.data = data
        self.title = title
        self._selection = selection
        self._drawn = selection if idle else replace(selection, hidden=data.idle)
        self._look = look
        self._command = command
        self._ratio = ratio

    @cached_property
    def findings(self) -> list[Finding]:
        """Periods, stripes, gaps, bursts, and what ran in the gaps; only where rows are offsets."""
        return find(self.data) if self.data.fold.axis is None else []

    @cached_property
    def _figure(self) -> Figure:
        from meantime.views.heatmap.figure import draw  # noqa: PLC0415 - .json needs no picture

        return draw(self.data, self._drawn, self._look, title=self.title)

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of a file in one of `formats`.

        Raises:
            MissingExtraError: If it is `png` and Pillow is not installed.
        """
        if form == "json":
            from meantime.views.heatmap.document import document, text  # noqa: PLC0415 - one form

            return text(document(self.data, self._ratio, selection=self._drawn))
        if form == "png":
            from meantime.views.heatmap.image import figure_png  # noqa: PLC0415 - one form

            return [figure_png(self._figure)]
        from meantime.views.heatmap.svg import figure_page  # noqa: PLC0415 - one form

        page = figure_page(
            self._figure,
            self.data,
            self._drawn,
            self._look,
            findings=self.findings,
            command=self._command,
        )
        return [page.html() if form == "html" else page.document()]

    def terminal(self, width: int, *, color: bool) -> Iterator[bytes]:
        """Return the map as lines of text of this width, shaded or in colour."""
        from meantime.views.heatmap.terminal import terminal  # noqa: PLC0415 - one form

        return terminal(self.data, self._drawn, self._look, width=width, color=color)

    def __repr__(self) -> str:
        first, last = self.data.columns
        fold = self.data.fold
        rows = "rows" if fold.axis is None else f"rows by {fold.axis.kind}"
        return (
            f"<Heat map {self.title!r}: {last - first + 1:,} columns of {format_ns(fold.period_ns)}"
            f" in {fold.rows:,} {rows}, {len(self.data.by):,} names>"
        )
