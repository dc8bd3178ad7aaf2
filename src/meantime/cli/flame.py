"""`meantime flame`: a flame graph or chart."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click

from meantime.cli.answers import print_answer
from meantime.cli.inputs import expanded, import_numpy, load_joined, notify, of_session
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    of_options,
    options_of,
    output_option,
    reject,
    session_option,
    zone_option,
)
from meantime.cli.progress import progress_bar
from meantime.errors import UsageError
from meantime.view_functions.flame_options import FlameArguments

__all__ = ["command"]

_FORMATS = ("svg", "html", "json", "txt", "folded")
# These have no title.
_LINES = ("txt", "folded")


@click.command(
    "flame", epilog="Example:  meantime flame trace.json.gz --from 1s --to 2s -o out.svg"
)
@input_options
@session_option
@file_argument("files", "FILE...", nargs=-1, required=True)
@output_option(
    "OUT",
    "Output file: .svg, .html, .json or .txt.",
    more="`.svg` and `.html` are pages with the flame graph, `.json` is a speedscope file, `.txt`"
    " and `.folded` are folded stacks.",
)
@options_of(FlameArguments)
@of_options
@zone_option
@limit_option()
@json_option
def command(
    *,
    files: tuple[str, ...],
    output: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Draw a flame graph, or with --chart a flame chart."""
    options = FlameArguments(**given, intact=True, notify=notify, progress=progress_bar)
    if as_json and options.chart:
        raise UsageError("--json prints the call tree; use meantime dump to print the spans")
    form = None
    if output is not None or not as_json:
        is_comparison = options.against is not None and not options.elided
        form = _form(output, is_chart=options.chart, is_comparison=is_comparison)
    if form in _LINES:
        reject(("title",), f".{form}")
    import_numpy()
    from meantime.cli.output import report_lost, write  # noqa: PLC0415 - only once the command line is sound
    from meantime.view_functions.flame import flame  # noqa: PLC0415 - NumPy is not for --help

    paths = expanded(files)
    [source] = of_session(paths[:1])
    if len(paths) > 1:
        reading = {name: given[name] for name in ("lenient", "strict", "provider")}
        source = load_joined(paths, **reading)
        options = options.changed(lenient=False, strict=False, provider=None)
    view = flame(source, **vars(options))
    if as_json:
        print_answer(view.document())
    if output is not None and form is not None:
        write(output, view.render(form), [*paths, options.against])
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
