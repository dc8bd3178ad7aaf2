"""`meantime build`: turn a trace into a history on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from meantime.cli.inputs import import_numpy, notify
from meantime.cli.options import once, provider_option
from meantime.cli.progress import progress_bar
from meantime.errors import OutputError
from meantime.units import format_bytes

if TYPE_CHECKING:
    from meantime.history import History

__all__ = ["command", "keep_history"]


@click.command("build", epilog="Example:  meantime build disks.statemap.gz -o disks.mth")
@click.argument("trace", metavar="TRACE")
@once("-o", "--output", metavar="NAME.mth", required=True, help="Directory to create.")
@provider_option
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(*, trace: str, output: str, provider: str | None, lenient: bool) -> None:
    """Turn a trace into a history on disk, which every command can read."""
    history = keep_history(trace, output, provider=provider, lenient=lenient)
    for line in history.anomalies.lines():
        click.echo(f"{trace}: {line}", err=True)
    parts = Path(output).rglob("*")
    size_bytes = sum(part.stat().st_size for part in parts if part.is_file())
    click.echo(f"{output}: {len(history.attributes):,} attributes, {format_bytes(size_bytes)}")


def keep_history(trace: str, output: str, *, provider: str | None, lenient: bool) -> History:
    """Build the history of a trace in a directory; an interrupted build is resumed.

    Raises:
        InputError: If the trace cannot be read.
        OutputError: If the path exists and is not an interrupted build.
    """
    import_numpy()
    from meantime.history.directory.open import is_unfinished  # noqa: PLC0415 - not for --help
    from meantime.history_from_trace import build  # noqa: PLC0415 - as above

    path = Path(output)
    if path.exists() and not is_unfinished(path):
        raise OutputError(f"{output}: already exists; remove it, or choose another name")
    if not path.resolve().parent.is_dir():
        raise OutputError(f"{output}: the directory {path.parent} does not exist")
    with progress_bar(f"reading {trace}") as progress:
        return build(
            trace,
            provider,
            path,
            lenient=lenient,
            resume=True,
            notify=notify,
            progress=progress,
        )
