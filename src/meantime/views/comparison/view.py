"""The picture of a comparison: shown by a notebook, saved to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.compare.timelines import timelines
from meantime.views.comparison.svg import BINS, page
from meantime.views.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.query.compare import Comparison
    from meantime.query.parts import Part
    from meantime.query.rules import Rule, Verdict

__all__ = ["ComparisonView"]


class ComparisonView(Picture):
    """What changed from some runs to others, as a picture; to show or to save.

    Attributes:
        comparison: The figures.
        title: The title of the picture.
    """

    noun = "comparison"
    formats = ("svg", "html")

    def __init__(
        self,
        comparison: Comparison,
        sides: tuple[Sequence[Part], Sequence[Part]],
        *,
        title: str,
        align: str,
    ) -> None:
        """Prepare a picture of a comparison of these runs; `align` is that of `timelines`."""
        self.comparison = comparison
        self.title = title
        self._sides = sides
        self._align = align

    def verdict(self, rule: Rule) -> Verdict:
        """Return whether a rule about a change holds for these runs: see `check_change`."""
        from meantime.query.rules.changes import check_change  # noqa: PLC0415 - only for rules

        return check_change(*self._sides, rule)

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of a file in one of `formats`."""
        drawn = page(
            self.comparison, timelines(*self._sides, self.comparison, BINS, self._align), self.title
        )
        return [drawn.html()] if form == "html" else drawn.parts()

    def __repr__(self) -> str:
        before, after = self.comparison.runs
        rows = len(self.comparison.rows)
        return f"<Comparison {self.title!r}: {before} and {after} runs, {rows} rows>"
