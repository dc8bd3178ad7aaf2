"""`meantime heatmap`: what happens at which offset of each second."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import import_numpy, refuse_anomalies
from meantime.cli.options import once
from meantime.cli.output import write
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.query.offsets import OffsetMap
    from meantime.views.heatmap.figure import Look
    from meantime.views.heatmap.selection import Selection

__all__ = ["command"]

_SUFFIXES = (".svg", ".html", ".png", ".json")
_PALETTES = ["even", "cloud-analytics", "flamescope", "flamescope-enhanced"]
_VALUES = ["count", "ns", "weight", "starts", "ends", "concurrency", "utilisation"]


@click.command(
    "heatmap",
    epilog="Example:  meantime heatmap perf.txt.gz --highlight tick1s,tick2s -o perf.svg",
)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@once("-o", "--output", metavar="FILE", help="Write .svg, .html, .png or .json.  [the terminal]")
@once(
    "--to-format",
    "to_format",
    type=click.Choice([s[1:] for s in _SUFFIXES]),
    help="What to write, if FILE does not say.",
)
@once("--period", metavar="TIME", default="1s", help="The width of a column.  [1s]")
@once(
    "--rows",
    metavar="N",
    type=int,
    help="How many rows cut a column.  [50; 60 a minute or hour, 96 a day]",
)
@once(
    "--origin",
    metavar="TIME",
    help="Where a column begins: a time, `first`, or `wall`.  [whole periods of the clock]",
)
@once(
    "--by",
    metavar="WHAT",
    help="Take apart by name, thread, process, cpu, event, host, state or tag:FIELD.",
)
@once("--highlight", metavar="NAMES", help="Draw these names in colours of their own.")
@once("--isolate", metavar="NAMES", help="Draw these names alone.")
@once("--exclude", metavar="NAMES", help="Draw all but these names.")
@click.option("--decompose", is_flag=True, help="Draw every name in its colour.")
@click.option("--idle", is_flag=True, help="Draw the idle task too.")
@click.option(
    "--state",
    "states",
    metavar="PATTERN",
    multiple=True,
    help="Map the states that this means; may be repeated.",
)
@once("--event", metavar="NAME", help="Map samples of this event, or spans of this name.")
@once("--value", type=click.Choice(_VALUES), help="What a cell counts.  [count; ns of intervals]")
@click.option("--weight", is_flag=True, help="Count by weight: perf's period.")
@once("--from", "from_", metavar="TIME", help="Where the range begins.")
@once("--to", "to", metavar="TIME", help="Where the range ends.")
@once(
    "--color",
    type=click.Choice(["rank", "linear"]),
    default="rank",
    help="Colour by rank or in proportion.  [rank]",
)
@once("--palette", type=click.Choice(_PALETTES), default="even", help="Which colours.  [even]")
@once("--hues", metavar="DEGREES", help="Hues of the palette cloud-analytics, separated by commas.")
@once(
    "--scale",
    metavar="SCALE",
    default="auto",
    help="`lock` measures colours by all there is, a number by that.  [auto]",
)
@once("--title", metavar="TEXT", help="What the picture is called.")
@click.option(
    "--offset",
    "offsets",
    metavar="FILE=TIME",
    multiple=True,
    help="Add a time to those of an input.",
)
@click.option(
    "--assume-aligned",
    is_flag=True,
    help="Take the times of clocks that nothing aligns as they are.",
)
@once(
    "-j",
    "jobs",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    help="Read so many inputs at once.  [1]",
)
@click.option("--find", is_flag=True, help="Tell of periods, stripes, gaps, and what ran in them.")
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
@click.option("--strict", is_flag=True, help="Fail if anything was odd.")
def command(**options: Any) -> None:
    """Draw what happens at which offset of each second: a subsecond-offset heat map."""
    form = _form(options["output"], options["to_format"])
    import_numpy()
    look, selection = _look(options), _selection(options)
    from meantime.cli.heatmap_inputs import added  # noqa: PLC0415 - NumPy is not for --help
    from meantime.cli.heatmap_request import Request  # noqa: PLC0415 - as above
    from meantime.views.heatmap.selection import check  # noqa: PLC0415 - as above

    found = added(Request.of(options))
    try:
        check(found, selection)
    except UsageError as error:
        # What names there are is in the file.
        raise InputError(options["inputs"][0], str(error)) from None
    if options["strict"]:
        refuse_anomalies(options["inputs"][0], found.anomalies)
    if options["find"]:
        from meantime.cli.heatmap_findings import print_findings  # noqa: PLC0415 - as above

        print_findings(found)
        if options["output"] is None:
            return
    if form == "json":
        from meantime.views.heatmap.document import document, text  # noqa: PLC0415 - as above

        ratio = options["value"] if options["value"] in {"concurrency", "utilisation"} else None
        chunks: Iterable[bytes] = text(document(found, ratio, selection=selection))
    else:
        if not options["idle"]:
            selection = replace(selection, hidden=found.idle)
        chunks = _drawn(found, selection, look, options, form)
    write(options["output"] or "-", chunks)


def _drawn(
    found: OffsetMap, selection: Selection, look: Look, options: dict[str, Any], form: str
) -> Iterable[bytes]:
    from meantime.views.heatmap.figure import draw  # noqa: PLC0415 - as above

    if form == "terminal":
        from meantime.views.heatmap.terminal import terminal  # noqa: PLC0415 - as above

        width, _ = get_terminal_size()
        return terminal(found, selection, look, width=width, color=sys.stdout.isatty())
    figure = draw(found, selection, look, title=options["title"] or _title(options["inputs"]))
    if form == "png":
        from meantime.views.heatmap.image import figure_png  # noqa: PLC0415 - as above

        return [figure_png(figure)]
    from meantime.views.heatmap.svg import figure_page, html  # noqa: PLC0415 - as above

    page = figure_page(figure, found, selection, look, inputs=options["inputs"])
    return [html(page) if form == "html" else page.document()]


def _form(output: str | None, given: str | None) -> str:
    """Return what is to be written, by the option or the file's name.

    Raises:
        UsageError: If neither says it.
    """
    if given:
        return given
    if output is None:
        return "terminal"
    suffix = Path(output).suffix.lower()
    if suffix in _SUFFIXES:
        return suffix[1:]
    raise UsageError(
        f"{output!r} does not end in {', '.join(_SUFFIXES)}: say what to write with --to-format"
    )


def _look(options: dict[str, Any]) -> Look:
    from meantime.views.heatmap.figure import Look  # noqa: PLC0415 - as above

    scale = options["scale"]
    largest = None
    if scale not in {"auto", "lock"}:
        try:
            largest = float(scale)
        except ValueError:
            largest = 0.0
        if not 0 < largest < float("inf"):
            raise UsageError(f"{scale!r} is no scale: give auto, lock, or the largest value")
    try:
        hues = tuple(float(hue) for hue in (options["hues"] or "").split(",") if hue)
    except ValueError:
        raise UsageError(f"{options['hues']!r} are no hues: give degrees such as 21,203") from None
    return Look(options["color"], options["palette"], hues, scale == "lock", largest)


def _selection(options: dict[str, Any]) -> Selection:
    from meantime.views.heatmap.selection import Selection  # noqa: PLC0415 - as above

    modes = ("highlight", "isolate", "exclude", "decompose")
    given = [mode for mode in modes if options[mode] not in {None, False}]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} cannot be drawn together: give one")
    if not given or given == ["decompose"]:
        return Selection(mode=given[0] if given else "highlight")
    listed = re.split(r"(?<!\\),", options[given[0]])
    names = dict.fromkeys(name.replace("\\,", ",") for name in listed if name)
    if not names:
        raise UsageError(f"--{given[0]} {options[given[0]]!r} gives no name")
    return Selection(tuple(names), given[0])


def _title(inputs: Sequence[str]) -> str:
    first = "standard input" if inputs[0] == "-" else Path(inputs[0]).name
    return first if len(inputs) == 1 else f"{first} and {len(inputs) - 1} more"
