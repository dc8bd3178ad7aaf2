"""`meantime summary`: what comparing a trace needs, in a small file."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import load_joined
from meantime.cli.options import file_argument, input_options, output_option, reading_options
from meantime.errors import UsageError
from meantime.model.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.compare import Summary

__all__ = ["command"]


@click.command("summary", epilog="Example:  meantime summary run.mtr -o main.mts")
@input_options
@file_argument("files", "FILE...", nargs=-1, required=True)
@output_option("NAME.mts", "File to write.", required=True)
@reading_options
def command(*, files: tuple[str, ...], output: str, **reading: Any) -> None:
    """Write what comparing a trace needs into a small file, such as a baseline for CI.

    `diff` and `assert` take it in place of the trace: counts, sums and the longest are exact,
    quantiles within 0.4 %.
    """
    if PurePath(output).suffix != ".mts":
        raise UsageError(f"{output!r} must end in .mts")
    history = load_joined(files, **reading)
    from meantime.cli.output import write  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.compare.summary_file import encoded  # noqa: PLC0415 - as above
    from meantime.view_functions.comparing import summarize  # noqa: PLC0415 - as above

    found = summarize(history)
    write(output, [encoded(found)], files)
    for line in _left_out(found):
        click.echo(line, err=True)
    click.echo(f"{output}: {format_bytes(Path(output).stat().st_size)}", err=True)


def _left_out(found: Summary) -> Iterator[str]:
    for measure, reason in found.left_out.items():
        yield f"not in the summary: figures by {measure}: {reason}"
