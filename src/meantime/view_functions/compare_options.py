"""The options of `meantime diff`, which are the keywords of `meantime.compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from meantime.errors import UsageError
from meantime.model.units import duration_ns
from meantime.options import FILTER, Range, option
from meantime.query.compared_by import By
from meantime.view_functions.sources import Reading

if TYPE_CHECKING:
    from meantime.model.units import Duration
    from meantime.query.counting import Counted

__all__ = ["CompareOptions", "DiffOptions"]


def _parse_share(text: str) -> float:
    """Return a share: `2%` or `0.02`."""
    number, is_percent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100 if is_percent else 1)
    except ValueError:
        raise UsageError(f"--noticeable {text!r}: write a share such as 2% or 0.02") from None
    return share


class CompareOptions(Range, Reading):
    """What is compared, and how the paths among the runs are read.

    Raises:
        UsageError: If `noticeable` is not a share.
    """

    by: By | None = option(
        "--by",
        choices=get_args(By),
        metavar="GROUPING",
        absent="name if there are spans or samples, otherwise state",
        help="Compare states by state, entity or tag, spans by name, category, thread or lane,"
        " which is a name in a thread, samples by name, both by stack, requests and tasks of"
        " recordings by request, route, function or site, or what `meantime explain` says: its"
        " budget or its conclusions.",
    )
    of: Counted | None = option(help="Compare `spans` or `samples` of traces that have both.")
    figure: str | None = option(
        "--figure",
        metavar="NAME",
        absent="the time of rows, which adds up",
        help="The figure to compare: total, self, share, count, rate, mean, median, p90, p99,"
        " shortest, longest.",
    )
    filter: str | None = FILTER
    match: str | None = option(
        "--match",
        metavar="PATTERN",
        absent="by name; numbers are left out of names that not all runs have",
        help="Match entities by their names without what this regular expression matches.",
    )
    noticeable: float = option(
        "--noticeable",
        metavar="SHARE",
        default=0.02,
        parse=_parse_share,
        write=lambda share: f"{share:.4g}",
        help="The smallest change that counts, such as 2%.",
    )

    align: str = option(
        "--align",
        metavar="start|end|NAME",
        default="start",
        help="In the picture, put at one time the start or the end of both runs, or where a state"
        " or span of this name first begins.",
    )
    title: str | None = option("--title", metavar="TEXT", help="Title of the picture.")

    def _check(self) -> None:
        if not 0 <= self.noticeable < float("inf"):
            raise UsageError(f"noticeable is a share such as 0.02, not {self.noticeable}")


class DiffOptions(CompareOptions):
    """What is compared, and what the picture has.

    Raises:
        UsageError: If `noticeable` is not a share, or `period` is not a length of time.
    """

    period: Duration | None = option(
        "--period",
        metavar="TIME",
        help="In the picture, also draw a heat map of the row that changed most: a column for each"
        " period of this length, whose cells are the difference of the means of both sides.",
    )

    def _check(self) -> None:
        super()._check()
        if self.period is not None and duration_ns(self.period) < 1:
            raise UsageError("the period is at least 1 ns")
