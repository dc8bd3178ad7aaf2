"""The heat map of the Python API: shown by a notebook, saved to a file."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from meantime.model.units import format_ns
from meantime.query.offsets.finder import find
from meantime.views.heatmap import refuse_ratio
from meantime.views.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.model.extent import Extent
    from meantime.query.offsets import Finding, OffsetMap
    from meantime.query.offsets.box import Against
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
    formats: ClassVar[tuple[str, ...]] = ("svg", "html", "png", "json")

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
        extent: Extent | None = None,
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
            extent: What the first input covers, in which texts become times.
        """
        self._extent = extent
        self.data = data
        self.title = title
        self._selection = selection
        self._drawn = selection if idle else replace(selection, hidden=data.idle)
        self._look = look
        self._command = command
        self._ratio = ratio

    @cached_property
    def findings(self) -> list[Finding]:
        """Periods, stripes, gaps, bursts, what ran in the gaps; or what is far from all others."""
        return find(self.data)

    def against_rest(self, *, during: str | None = None, between: str | None = None) -> Against:
        r"""Return what distinguishes the cells of some columns and rows from all others.

        >>> from meantime import heatmap
        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aabaabaa\ndisk1  abbbbaaa")
        >>> view = heatmap(history, y="duration", states="b", period=8)
        >>> found = view.against_rest(between="3ns..5ns")
        >>> found.inside, found.outside, found.differences[0].value
        (1, 2, 'disk0')

        Args:
            during: Times `FROM..TO`, or hours such as `08:00..18:00`: columns that have some of
                them. All unless given.
            between: Rows that have some of these values: `10ms..1s`, `95%..100%`, `cpu3..cpu8` or
                one name. All unless given.

        Raises:
            UsageError: If they are not in the map, its rows are offsets, or `stacks` is False.
        """
        from meantime.model.clocks import Clock  # noqa: PLC0415 - pictures need none
        from meantime.model.extent import Extent  # noqa: PLC0415 - only to compare cells
        from meantime.query.offsets.box import against_rest  # noqa: PLC0415 - only to compare cells

        recorded = self.data.recorded or ((0, 0),)
        extent = self._extent or Extent(recorded[0][0], recorded[-1][1], Clock())
        return against_rest(self.data, extent, during=during, between=between)

    @cached_property
    def _figure(self) -> Figure:
        from meantime.views.heatmap.figure import draw  # noqa: PLC0415 - .json needs no picture

        return draw(self.data, self._drawn, self._look, title=self.title)

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of a file in one of `formats`.

        Raises:
            MissingExtraError: If it is `png` and Pillow is not installed.
            UsageError: If the map has ratios, and it is not `json`.
        """
        refuse_ratio(self._ratio, form)
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
        """Return the map as lines of text of this width, shaded or in colour.

        Raises:
            UsageError: If the map has ratios.
        """
        refuse_ratio(self._ratio, "text")
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
