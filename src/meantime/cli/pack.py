"""`meantime pack`: write a recording as one compressed file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meantime.cli.options import file_argument, json_option, output_option, strict_option
from meantime.errors import UsageError
from meantime.model.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command"]


@click.command("pack", epilog="Example:  meantime pack app.mtr")
@file_argument("recording", "NAME.mtr")
@output_option("FILE", "Output file.  [NAME.mtrz]")
@json_option
@strict_option
def command(*, recording: str, output: str | None, as_json: bool, strict: bool) -> None:
    """Pack a recording into one compressed file, which every command can read."""
    path = Path(recording)
    if not path.is_dir():
        raise UsageError(
            f"{recording}: not a recording; name the directory that `meantime record` wrote"
        )
    if as_json and output == "-":
        raise UsageError("--json and -o - are mutually exclusive")
    from meantime.cli.output import write  # noqa: PLC0415 - NumPy is not for --help
    from meantime.readers.recording.packing import Packed, pack  # noqa: PLC0415 - as above

    def chunks() -> Iterator[bytes]:
        yield from pack(path, contents)
        # raised before the file gets its name
        if strict:
            contents.anomalies.refuse(recording)

    # the name's own dots are not suffixes: app.v2.mtr becomes app.v2.mtrz
    packed = output or f"{path.parent / path.name.removesuffix('.mtr')}.mtrz"
    contents = Packed()
    write(packed, chunks(), [recording])
    for line in contents.anomalies.lines():
        click.echo(f"{recording}: {line}", err=True)
    if packed == "-":
        return
    before = sum(file.stat().st_size for file in path.iterdir())
    after = Path(packed).stat().st_size
    if as_json:
        sizes = {"output": packed, "bytes": after, "unpacked_bytes": before}
        counts = {name: getattr(contents, name) for name in ("processes", "streams", "words")}
        click.echo(json.dumps(sizes | counts | {"anomalies": dict(contents.anomalies)}))
    else:
        click.echo(f"{packed}: {format_bytes(after)} of {format_bytes(before)}", err=True)
