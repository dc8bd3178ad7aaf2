"""The statemap of the Python API: shown by a notebook, saved to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from meantime.model.anomalies import Anomalies
from meantime.model.units import format_ns
from meantime.views.picture import Picture
from meantime.views.statemap import document, svg
from meantime.views.statemap.data import Counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.views.statemap.data import Statemap

__all__ = ["StatemapView"]


class StatemapView(Picture):
    """A statemap, to show in a notebook or to save as .svg or .json.

    Attributes:
        data: Its content, as columns.
    """

    noun = "statemap"
    formats: ClassVar[tuple[str, ...]] = ("svg", "json")

    def __init__(self, data: Statemap) -> None:
        self.data = data

    @property
    def counts(self) -> list[Counted]:
        """The number of rectangles and the anomalies of each history, in the order of these."""
        found = [Counted(0, Anomalies()) for _ in {panel.history for panel in self.data.panels}]
        for panel in self.data.panels:
            rectangles, anomalies = found[panel.history]
            anomalies.update(panel.anomalies)
            found[panel.history] = Counted(rectangles + len(panel.rectangles), anomalies)
        return found

    def render(self, form: str) -> Iterable[bytes]:
        """Return the file: `svg` is a picture that is a page in a browser, `json` is data."""
        return [document.render(self.data)] if form == "json" else svg.parts(self.data)

    def __repr__(self) -> str:
        first = self.data.panels[0]
        rows = sum(len(panel.entities) for panel in self.data.panels)
        rectangles = sum(len(panel.rectangles) for panel in self.data.panels)
        return (
            f"<Statemap: {rows:,} rows, {rectangles:,} rectangles,"
            f" {format_ns(first.end_ns - first.start_ns)}>"
        )
