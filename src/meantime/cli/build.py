"""`meantime build`: a trace into a history on disk."""

from __future__ import annotations

import click

from meantime.cli.inputs import load_trace
from meantime.cli.options import once
from meantime.errors import OutputError
from meantime.units import format_bytes

__all__ = ["command"]


@click.command("build", epilog="Example:  meantime build disks.statemap.gz -o disks.mth")
@click.argument("file", metavar="FILE")
@once("-o", "--output", metavar="NAME.mth", required=True, help="The directory to make.")
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(*, file: str, output: str, lenient: bool) -> None:
    """Turn a trace into a history on disk, which every command takes in its place."""
    from pathlib import Path  # noqa: PLC0415 - NumPy and the core are not for --help

    from meantime.history.build import build  # noqa: PLC0415 - as above
    from meantime.history.opening import discard_unfinished  # noqa: PLC0415 - as above

    if discard_unfinished(Path(output)):
        click.echo(f"{output}: was not finished, and a trace cannot go on: built anew", err=True)
    if Path(output).exists():
        raise OutputError(f"{output}: exists; remove it, or give another name")
    with load_trace(file, lenient=lenient) as trace:
        history = build(trace, output)
    for line in history.anomalies.lines():
        click.echo(f"{file}: {line}", err=True)
    size_bytes = sum(part.stat().st_size for part in Path(output).rglob("*") if part.is_file())
    click.echo(f"{output}: {len(history.attributes):,} attributes, {format_bytes(size_bytes)}")
