"""The options of `meantime flame`, which are the keywords of `meantime.flame`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from meantime.errors import UsageError
from meantime.options import IDLE, WHOLE, Range, file_or_range, names_option, option, time_text
from meantime.query.filtering import Filtered
from meantime.view_functions.sources import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.units import Duration, Time
    from meantime.query.counting import Counted
    from meantime.view_functions.sources import Source

__all__ = ["FlameArguments"]


def _write_against(against: str | os.PathLike[str] | tuple[Time, Time]) -> str:
    if isinstance(against, tuple):
        return "..".join(map(time_text, against))
    return os.fspath(against)


def _parse_band(text: str) -> tuple[str, str]:
    low, dots, high = text.partition("..")
    if not dots:
        raise UsageError(f"--band {text!r}: write two times, such as 0.25s..0.28s")
    return low, high


class FlameArguments(Range, Filtered, Reading):
    """What is drawn, and how the paths among the sources are read."""

    of: Counted | None = option(
        absent="what the trace's own tool shows first",
        help="Count `spans` or `samples` of a trace that has both.",
    )
    whole: bool = WHOLE
    idle: bool = IDLE
    against: Source | tuple[Time, Time] | None = option(
        "--against",
        metavar="FROM..TO|FILE",
        parse=file_or_range("--against"),
        write=_write_against,
        help="Colour by the change of share since this range, or since another trace.",
    )
    elided: bool = option(
        "--elided",
        default=False,
        help="Draw only the stacks of --against that are missing in this range.",
    )
    band: tuple[Duration, Duration] | None = option(
        "--band",
        metavar="FROM..TO",
        parse=_parse_band,
        write=lambda band: "..".join(map(str, band)),
        help="Count only samples at these offsets in every period.",
    )
    period: Duration | None = option(
        "--period", metavar="TIME", absent="1s", help="Period of --band."
    )
    event: str | None = option("--event", metavar="NAME", help="Count only samples of this event.")
    isolate: str | Sequence[str] = names_option(
        "--isolate",
        help="Count only samples of these names, comma-separated.",
        more="The names are those of the program or thread, or what --by gives.",
    )
    exclude: str | Sequence[str] = names_option(
        "--exclude",
        help="Count all samples except those of these names.",
    )
    by: str | None = option(
        "--by",
        choices=("name", "thread", "process", "cpu", "event", "host"),
        absent="name",
        help="What --isolate and --exclude name, as in heat maps.",
    )
    names: bool = option(
        "--no-names",
        default=True,
        help="Merge the stacks of samples of all threads and processes.",
        keyword="Begin the stacks of samples with the name of the thread or process.",
    )
    chart: bool = option(
        "--chart",
        default=False,
        help="Draw the spans of each thread over time.",
        more="Of a trace without spans, the stacks that were sampled.",
    )
    label_arg: str | None = option(
        "--label-arg", metavar="NAME", help="Show the value of this argument in labels of a chart."
    )
    title: str | None = option("--title", metavar="TEXT", help="Title of the picture.")
