"""`meantime pack`: write a recording as one compressed file."""

from __future__ import annotations

from pathlib import Path

import click

from meantime.cli.options import file_argument, output_option
from meantime.errors import UsageError
from meantime.units import format_bytes

__all__ = ["command"]


@click.command("pack", epilog="Example:  meantime pack app.mtr")
@file_argument("recording", "NAME.mtr")
@output_option("FILE", "Output file.  [NAME.mtrz]")
def command(*, recording: str, output: str | None) -> None:
    """Pack a recording into one compressed file, which every command can read."""
    path = Path(recording)
    if not path.is_dir():
        raise UsageError(
            f"{recording}: not a recording; name the directory that `meantime record` wrote"
        )
    from meantime.cli.output import write  # noqa: PLC0415 - NumPy is not for --help
    from meantime.readers.recording.packing import pack  # noqa: PLC0415 - as above

    # the name's own dots are not suffixes: app.v2.mtr becomes app.v2.mtrz
    packed = output or f"{path.parent / path.name.removesuffix('.mtr')}.mtrz"
    write(packed, pack(path))
    if packed != "-":
        before = sum(file.stat().st_size for file in path.iterdir())
        after = Path(packed).stat().st_size
        click.echo(f"{packed}: {format_bytes(after)} of {format_bytes(before)}", err=True)
