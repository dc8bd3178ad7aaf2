"""`meantime formats`: what can be read, how it is recognised, and how to make one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from meantime.cli.options import json_option
from meantime.cli.tables import Column, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command"]


@click.command("formats", epilog="Example:  meantime formats")
@json_option
def command(*, as_json: bool) -> None:
    """List the formats that are read, how each is recognised, and how to make one."""
    from meantime.readers.formats import FORMATS  # noqa: PLC0415 - NumPy is not for --help
    from meantime.readers.unsupported import refused  # noqa: PLC0415 - as above

    added = list(_added())
    if as_json:
        document = {
            "read": [each._asdict() for each in FORMATS],
            "added": added,
            "refused": [{"called": called, "advice": advice} for called, advice in refused()],
        }
        click.echo(json.dumps(document))
        return
    print_table(
        "Formats that are read, also compressed with gzip, Zstandard, xz or bzip2",
        [Column("format"), Column("names"), Column("made by", prose=True)],
        [[each.format, ", ".join(each.names), each.made_by] for each in FORMATS]
        + [[name, "", "an installed package"] for name in added],
    )
    print_table(
        "Recognised by",
        [Column("format"), Column("content", prose=True)],
        [[each.format, each.begins] for each in FORMATS],
    )
    print_table(
        "Recognised and not read",
        [Column("input"), Column("what to do", prose=True)],
        [[called, advice] for called, advice in refused()],
    )


def _added() -> Iterator[str]:
    """Yield the formats of readers that installed packages add."""
    from meantime.additions import READERS, additions  # noqa: PLC0415 - not for --help

    for addition in additions(READERS, lambda value: hasattr(value, "FORMAT")):
        yield str(addition.value.FORMAT)
