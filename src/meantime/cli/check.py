"""`meantime check`: verify a history on disk, and recover a damaged one."""

from __future__ import annotations

import json

import click

from meantime.cli.inputs import import_numpy
from meantime.cli.options import file_argument, force_option, json_option, once, reject
from meantime.cli.output import replacing
from meantime.errors import OutputError, UsageError

__all__ = ["command"]


@click.command("check", epilog="Example:  meantime check disks.mth")
@file_argument("history", "HISTORY")
@once(
    "--salvage",
    metavar="NAME.mth",
    help="Write the intact part, up to the first damage, to this directory.",
    more="It reports what is missing.",
)
@force_option
@json_option
def command(*, history: str, salvage: str | None, force: bool, as_json: bool) -> None:
    """Check a history on disk, or recover the intact part of a damaged one."""
    import_numpy()
    from pathlib import Path  # noqa: PLC0415 - NumPy and the core are not for --help

    from meantime.history.directory import is_history  # noqa: PLC0415 - as above
    from meantime.history.directory.check import check, save  # noqa: PLC0415 - as above

    if salvage is None:
        reject(("force",), "a check without --salvage")
        segments, changes = check(Path(history))
        if as_json:
            click.echo(json.dumps({"intact": True, "changes": changes, "segments": segments}))
        else:
            click.echo(f"{history}: intact: {changes:,} changes in {segments:,} segments")
        return
    target = Path(salvage)
    if force and Path(history).resolve() == target.resolve():
        raise UsageError("--salvage names the damaged history itself; choose another name")
    if target.exists() and not (force and is_history(target)):
        hint = "" if force else ", or use --force"
        raise OutputError(f"{salvage}: already exists; choose another name{hint}")
    with replacing(target) as new:
        missing = save(Path(history), new)
    if as_json:
        click.echo(json.dumps({"salvaged": salvage, "missing": missing}))
        return
    for complaint in missing:
        click.echo(complaint, err=True)
    click.echo(f"{salvage}: the intact part" if missing else f"{salvage}: everything")
