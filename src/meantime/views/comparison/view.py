"""The picture of a comparison: shown by a notebook, saved to a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from meantime.errors import UsageError
from meantime.model.input_path import InputPath
from meantime.query.compare.folds import folds
from meantime.query.compare.timelines import leads_ns, timelines, typical_runs
from meantime.query.parts import Part
from meantime.views.comparison.svg import BINS, page
from meantime.views.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.query.compare import Comparison, Summary
    from meantime.query.rules import Rule, Verdict

__all__ = ["ComparisonView", "Pair"]


class Pair(NamedTuple):
    """A run of each side, those before first.

    Attributes:
        parts: The ranges of their histories.
        sources: What they were read from: paths, or histories.
        runs: Which run of its side each is.
        leads_ns: How long after its begin each is at the place that both have.
        align: What that place is.
        left_out: What is left out of names of entities, which are then the same.
        inputs: The paths of all runs of each side, each with the options it is read with, and the
            options of the comparison, as words of a command; None if a run is a range, or was not
            read from a path.
    """

    parts: tuple[Part, Part]
    sources: tuple[object, object]
    runs: tuple[int, int]
    leads_ns: tuple[int, int]
    align: str
    left_out: str | None
    inputs: tuple[list[list[str]], list[list[str]], list[str]] | None = None


class ComparisonView(Picture):
    """What changed from some runs to others, as a picture; to show or to save.

    Attributes:
        comparison: The figures.
        title: The title of the picture.
    """

    noun = "comparison"
    formats: ClassVar[tuple[str, ...]] = ("svg", "html")

    def __init__(
        self,
        comparison: Comparison,
        sides: tuple[Sequence[Part | Summary], Sequence[Part | Summary]],
        *,
        title: str,
        align: str,
        left_out: str | None,
        period_ns: int | None = None,
        words: Sequence[str] = (),
    ) -> None:
        """Prepare a picture of a comparison of these runs.

        Args:
            comparison: The figures.
            sides: The runs.
            title: The title.
            align: As `timelines` takes it.
            left_out: As `timelines` takes it.
            period_ns: How long the periods of a heat map are; None draws none.
            words: The options of `meantime diff` that compare so.

        Raises:
            UsageError: If runs are to be aligned or folded, and one is a summary, which has no
                times; or if they are to be folded, and rows are not in lanes.
        """
        if align != "start" and _parts(*sides) is None:
            raise UsageError(f"align {align!r} is for traces: a summary has no times")
        if period_ns is not None and _parts(*sides) is None:
            raise UsageError("period is for traces: a summary has no times")
        if period_ns is not None and not (
            comparison.by == "state" or (comparison.by == "name" and comparison.of == "spans")
        ):
            raise UsageError("period is for rows by state, or by the name of spans")
        self.comparison = comparison
        self.title = title
        self._sides = sides
        self._align = align
        self._left_out = left_out
        self._period_ns = period_ns
        self._words = [*words]

    @property
    def pair(self) -> Pair:
        """A run of each side to look at: those nearest to the means of their sides.

        Raises:
            UsageError: If a run is a summary, which has no times.
        """
        if (parts := _parts(*self._sides)) is None:
            raise UsageError("a summary has no times to show: compare traces")
        chosen = typical_runs(self.comparison)
        before, after = parts[0][chosen[0]], parts[1][chosen[1]]
        # those before first
        sources = [*self._sources] or [part.history for part in (*parts[0], *parts[1])]
        return Pair(
            (before, after),
            (sources[chosen[0]], sources[len(parts[0]) + chosen[1]]),
            chosen,
            leads_ns(before, after, self._align),
            self._align,
            self._left_out,
            self._inputs(parts),
        )

    def _inputs(
        self, parts: tuple[list[Part], list[Part]]
    ) -> tuple[list[list[str]], list[list[str]], list[str]] | None:
        """Return what a command reads; see `Pair`."""
        paths = [
            [os.fspath(source), *(source.options if isinstance(source, InputPath) else [])]
            for source in self._sources
            if isinstance(source, str | os.PathLike)
        ]
        every = [*parts[0], *parts[1]]
        whole = all((part.start_ns, part.end_ns) == part.history.bounds for part in every)
        if len(paths) < len(every) or not whole:
            return None
        split = len(parts[0])
        return paths[:split], paths[split:], self._words

    def verdict(self, rule: Rule) -> Verdict:
        """Return whether a rule about a change holds for these runs: see `check_change`."""
        from meantime.query.rules.changes import check_change  # noqa: PLC0415 - only for rules

        return check_change(*self._sides, rule)

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of a file in one of `formats`."""
        lanes = folded = None
        if (parts := _parts(*self._sides)) is not None:
            lanes = timelines(*parts, self.comparison, BINS, self._align, left_out=self._left_out)
            if self._period_ns is not None:
                folded = folds(*parts, self.comparison, self._period_ns, self._align)
        drawn = page(self.comparison, lanes, self.title, folded)
        return [drawn.html()] if form == "html" else drawn.parts()

    def __repr__(self) -> str:
        before, after = self.comparison.runs
        rows = len(self.comparison.rows)
        return f"<Comparison {self.title!r}: {before} and {after} runs, {rows} rows>"


def _parts(
    before: Sequence[Part | Summary], after: Sequence[Part | Summary]
) -> tuple[list[Part], list[Part]] | None:
    """Return both sides if all runs are of traces."""
    sides = [[run for run in side if isinstance(run, Part)] for side in (before, after)]
    if [*map(len, sides)] != [len(before), len(after)]:
        return None
    return sides[0], sides[1]
