"""`meantime flame`: a flame graph or chart."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import click

from meantime.cli.inputs import expanded, import_numpy, load_joined, mapped, notify
from meantime.cli.options import (
    file_argument,
    filter_option,
    input_options,
    json_option,
    lenient_option,
    listed_names,
    of_options,
    once,
    output_option,
    provider_option,
    range_options,
    reject,
    strict_option,
)
from meantime.cli.parts import against as compared_with
from meantime.cli.progress import progress_bar
from meantime.errors import UsageError

__all__ = ["command"]

_FORMATS = ("svg", "html", "json", "txt", "folded")
# These have no title.
_LINES = ("txt", "folded")


@click.command(
    "flame", epilog="Example:  meantime flame trace.json.gz --from 1s --to 2s -o out.svg"
)
@input_options
@file_argument("files", "FILE...", nargs=-1, required=True)
@output_option("OUT", "Output file: .svg, .html, .json or .txt.")
@range_options
@filter_option
@of_options
@click.option(
    "--whole", is_flag=True, help="Count the full duration of spans that cross the range's edges."
)
@once(
    "--against",
    metavar="FROM..TO|FILE",
    help="Colour by the change of share since this range, or since another trace.",
)
@click.option(
    "--elided",
    is_flag=True,
    help="Draw only the stacks of --against that are missing in this range.",
)
@click.option("--idle", is_flag=True, help="Count samples of idle CPUs, too.")
@once("--band", metavar="FROM..TO", help="Count only samples at these offsets in every period.")
@once("--period", metavar="TIME", help="Period of --band.  [1s]")
@once("--event", metavar="NAME", help="Count only samples of this event.")
@once("--isolate", metavar="NAMES", help="Count only samples of these names, comma-separated.")
@once("--exclude", metavar="NAMES", help="Count all samples except those of these names.")
@once(
    "--by",
    type=click.Choice(["name", "thread", "process", "cpu", "event", "host"]),
    help="What --isolate and --exclude name, as in heat maps.  [name]",
)
@click.option(
    "--no-names",
    "names",
    is_flag=True,
    default=True,
    flag_value=False,
    help="Merge the stacks of samples of all threads and processes.",
)
@click.option("--chart", is_flag=True, help="Draw the spans of each thread over time.")
@once("--label-arg", metavar="NAME", help="Show the value of this argument in labels of a chart.")
@once("--title", metavar="TEXT", help="Title of the picture.")
@json_option
@provider_option
@lenient_option
@strict_option
def command(
    *,
    files: tuple[str, ...],
    output: str | None,
    from_: str | None,
    to: str | None,
    against: str | None,
    band: str | None,
    pattern: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw a flame graph, or with --chart a flame chart."""
    if as_json and options["chart"]:
        raise UsageError("--json prints the call tree; use meantime dump to print the spans")
    form = None
    if output is not None or not as_json:
        is_comparison = against is not None and not options["elided"]
        form = _form(output, is_chart=options["chart"], is_comparison=is_comparison)
    if form in _LINES:
        reject(("title",), f".{form}")
    for option in ("isolate", "exclude"):
        options[option] = listed_names(option, options[option])
    compared_to = None if against is None else compared_with(against)
    offsets = None if band is None else _offsets(band)
    import_numpy()
    from meantime.cli.output import report_lost, write  # noqa: PLC0415 - only once the command line is sound
    from meantime.view_functions.flame import flame  # noqa: PLC0415 - NumPy is not for --help

    other: Any = compared_to
    if compared_to is not None:
        other = compared_to.file or (compared_to.from_, compared_to.to)
    paths = expanded(files)
    source: Any = mapped(paths[0])
    if len(paths) > 1:
        names = ("lenient", "strict", "provider")
        reading = {name: options.pop(name) for name in names}
        source = load_joined(paths, **reading)
    view = flame(
        source,
        start=from_,
        end=to,
        filter=pattern,
        against=other,
        band=offsets,
        notify=notify,
        progress=progress_bar,
        **options,
    )
    if as_json:
        click.echo(json.dumps(view.document()))
    if output is not None and form is not None:
        sources = [*paths, compared_to and compared_to.file]
        write(output, view.render(form), sources)
        report_lost(view.lost)


def _form(output: str | None, *, is_chart: bool, is_comparison: bool) -> str:
    """Return the format to write.

    Raises:
        UsageError: If the file's name has no such suffix, or the format cannot hold the drawing.
    """
    if output is None:
        raise UsageError(
            "name the output file with -o; it ends in .svg, .html, .json or .txt; or use --json"
        )
    form = PurePath(output).suffix[1:]
    if form not in _FORMATS:
        listed = ", ".join(f".{each}" for each in _FORMATS)
        raise UsageError(f"{output!r} must end in one of {listed}")
    if is_chart and form not in {"svg", "html"}:
        raise UsageError(
            "a flame chart is written as .svg or .html; use meantime convert to write the spans"
        )
    if is_comparison and form == "json":
        raise UsageError(
            "a comparison is written as .svg, .html, .txt or .folded; --elided allows .json"
        )
    return form


def _offsets(text: str) -> tuple[str, str]:
    """Return the two offsets of FROM..TO.

    Raises:
        UsageError: If there is only one.
    """
    low, dots, high = text.partition("..")
    if not dots:
        raise UsageError(f"--band {text!r}: write two times, such as 0.25s..0.28s")
    return low, high
