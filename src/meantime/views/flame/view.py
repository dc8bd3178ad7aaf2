"""The flame graph of the Python API: shown by a notebook, saved to a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from meantime.errors import UsageError
from meantime.model.units import format_ns
from meantime.query.stacks import CallTree, Difference
from meantime.views.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.views.flame.chart import Chart
    from meantime.views.page import Page

__all__ = ["FlameView"]


class FlameView(Picture):
    """A flame graph, a comparison of two, or a flame chart; to show or to save.

    `.svg` and `.html` are pictures that are pages in a browser. A graph is also written as `.json`
    for speedscope and as `.txt` or `.folded`, a line per stack; a comparison as such lines with
    both weights.

    Attributes:
        data: Its content: the call tree, the two that are compared, or the boxes of a chart.
        title: The title of the picture.
        unit: The unit of widths: `ns`, or what the weights of samples count.
        lost: Counts of what the text that was rendered last does not represent.
    """

    noun = "flame graph"
    formats: ClassVar[tuple[str, ...]] = ("svg", "html", "json", "txt", "folded")

    def __init__(
        self,
        data: CallTree | Difference | Chart,
        *,
        title: str,
        unit: str,
        chosen: Sequence[str] = (),
        command: str | None = None,
    ) -> None:
        """Prepare a picture.

        Args:
            data: Its content.
            title: The title of the picture.
            unit: The unit of widths.
            chosen: What was selected, such as a range; the subtitle lists it.
            command: The command that draws it; the page shows it.
        """
        self.data = data
        self._chosen = chosen
        self._command = command
        self.title = title
        self.unit = unit
        self.lost: Counter[str] = Counter[str]()

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of a file in one of `formats`.

        Raises:
            UsageError: If the format cannot represent a comparison or a chart.
        """
        if form in {"svg", "html"}:
            drawn = self._page()
            return [drawn.html() if form == "html" else drawn.document()]
        self.lost = Counter[str]()
        if isinstance(self.data, CallTree):
            if form == "json":
                from meantime.views.export.speedscope import write_tree  # noqa: PLC0415 - one form

                return write_tree(self.data, title=self.title, unit=self.unit)
            from meantime.views.export.folded import folded_lines  # noqa: PLC0415 - one form

            return folded_lines(self.data, self.lost)
        if isinstance(self.data, Difference) and form != "json":
            from meantime.views.export.folded import compared_lines  # noqa: PLC0415 - one form

            return compared_lines(self.data, self.lost)
        if isinstance(self.data, Difference):
            raise UsageError("a comparison is written as .svg, .html, .txt or .folded, not .json")
        raise UsageError("a flame chart is written as .svg or .html; export the spans instead")

    def document(self) -> dict[str, Any]:
        """Return the stacks as JSON values, each after its caller, heaviest first.

        Raises:
            UsageError: If this is a chart.
        """
        from meantime.query.trees import compared_rows, tree_rows  # noqa: PLC0415 - not for pictures

        if isinstance(self.data, CallTree):
            rows = tree_rows(self.data, self.unit)
        elif isinstance(self.data, Difference):
            rows = compared_rows(self.data, self.unit)
        else:
            raise UsageError("a flame chart has no call tree; draw it without chart")
        return {
            "title": self.title,
            "selected": list(self._chosen),
            "unit": self.unit,
            "rows": rows,
        }

    def _page(self) -> Page:
        if isinstance(self.data, CallTree | Difference):
            from meantime.views.flame import svg  # noqa: PLC0415 - .json draws nothing
            from meantime.views.flame.data import compared, graph  # noqa: PLC0415 - as above

            if isinstance(self.data, CallTree):
                drawn = graph(self.data, title=self.title, unit=self.unit)
            else:
                drawn = compared(self.data, title=self.title, unit=self.unit)
            return svg.page(replace(drawn, chosen=self._chosen, command=self._command))
        from meantime.views.flame import chart_page  # noqa: PLC0415 - only for a chart

        return chart_page.page(self.data)

    def __repr__(self) -> str:
        if isinstance(self.data, CallTree):
            return f"<Flame graph {self.title!r}: {len(self.data):,} stacks, in {self.unit}>"
        if isinstance(self.data, Difference):
            stacks = len(self.data.stacks)
            return f"<Flame graph {self.title!r}: {stacks:,} stacks compared, in {self.unit}>"
        counts = [(self.data.represented("spans", "async"), "spans")]
        counts.append((self.data.represented("samples"), "samples"))
        count, noun = max(counts)
        return f"<Flame chart {self.title!r}: {count:,} {noun} over {format_ns(self.data.width)}>"
