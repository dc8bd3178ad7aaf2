"""`meantime check`: verify a history on disk, and recover a damaged one."""

from __future__ import annotations

import click

from meantime.cli.options import once

__all__ = ["command"]


@click.command("check", epilog="Example:  meantime check disks.mth")
@click.argument("history", metavar="HISTORY")
@once(
    "--salvage",
    metavar="NAME.mth",
    help="Write the intact part, up to the first damage, to this directory.",
)
def command(*, history: str, salvage: str | None) -> None:
    """Check a history on disk, or recover the intact part of a damaged one."""
    from pathlib import Path  # noqa: PLC0415 - NumPy and the core are not for --help

    from meantime.history.directory.check import check, save  # noqa: PLC0415 - as above

    if salvage is None:
        segments, changes = check(Path(history))
        click.echo(f"{history}: intact: {changes:,} changes in {segments:,} segments")
        return
    missing = save(Path(history), Path(salvage))
    for complaint in missing:
        click.echo(complaint, err=True)
    click.echo(f"{salvage}: the intact part" if missing else f"{salvage}: everything")
