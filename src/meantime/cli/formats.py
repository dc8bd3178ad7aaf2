"""`meantime formats`: what can be read, how it is recognised, and how to make one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
    from meantime.readers.refused import REFUSED, advised  # noqa: PLC0415 - as above

    added = list(_added())
    rows: list[dict[str, Any]] = [
        {
            "format": each.format,
            "called": _plain(each.uses[0].called),
            "names": each.names,
            "begins": _plain(each.content),
            "made_by": "; ".join(_plain(use.made_by) for use in each.uses),
        }
        for each in FORMATS
    ]
    refused = [{"called": each.called, "advice": advised(each)} for each in REFUSED]
    if as_json:
        click.echo(json.dumps({"read": rows, "added": added, "refused": refused}))
        return
    print_table(
        "Formats that are read, also compressed with gzip, Zstandard, xz or bzip2",
        [Column("format"), Column("names"), Column("made by", prose=True)],
        [[row["format"], ", ".join(row["names"]), row["made_by"]] for row in rows]
        + [[name, "", "an installed package"] for name in added],
    )
    print_table(
        "Recognised by",
        [Column("format"), Column("content", prose=True)],
        [[row["format"], row["begins"]] for row in rows],
    )
    print_table(
        "Recognised and not read",
        [Column("input"), Column("what to do", prose=True)],
        [[each["called"], each["advice"]] for each in refused],
    )


def _plain(text: str) -> str:
    """Return Markdown without the marks of what is typed."""
    return text.replace("`", "")


def _added() -> Iterator[str]:
    """Yield the formats of readers that installed packages add."""
    from meantime.additions import READERS, additions  # noqa: PLC0415 - not for --help

    for addition in additions(READERS, lambda value: hasattr(value, "FORMAT")):
        yield str(addition.value.FORMAT)
