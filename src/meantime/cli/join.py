"""`meantime join`: the histories of several hosts as one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from meantime.cli.inputs import expanded, import_numpy, load, names_of, offsets_of
from meantime.cli.options import (
    Documented,
    file_argument,
    json_option,
    lenient_option,
    offset_option,
    output_option,
    strict_option,
)
from meantime.cli.tables import Column, print_table
from meantime.errors import UsageError
from meantime.model.anomalies import check_strictness
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from os import PathLike

    from meantime.history.history import History
    from meantime.opening.joined_file import Host

__all__ = ["command"]

_RESTS_ON = {
    "first": "first: times are its own",
    "given": "--offset",
    "utc": "UTC of both",
    "clock": "one clock of one machine",
    "messages": "messages between the two",
    "start": "NOT ALIGNED: only the beginnings are the same",
}


@click.command("join", epilog="Example:  meantime join web1.mth web2.mth db.mth -o site.mtj")
@file_argument("files", "FILE...", nargs=-1, required=True)
@output_option("NAME.mtj", "File to write; it refers to the files.", required=True)
@click.option(
    "--name",
    "names",
    multiple=True,
    cls=Documented,
    metavar="FILE=NAME",
    help="Name of the host of a file. Repeatable.  [its machine, or the name of the file]",
    more="The name of the file is used if machines are unknown or the same. Names that are there"
    " twice are numbered, and reported.",
)
@offset_option
@json_option
@lenient_option
@strict_option
def command(
    *,
    files: tuple[str, ...],
    output: str,
    names: tuple[str, ...],
    offsets: tuple[str, ...],
    as_json: bool,
    lenient: bool,
    strict: bool,
) -> None:
    """Join the histories of several hosts into one, without copying them.

    The attributes of each stand under Hosts/NAME, and its times are moved so that
    all are on one axis. Every command reads the result, which needs the files: it
    has their paths, relative to its own.
    """
    check_strictness(lenient=lenient, strict=strict)
    if PurePath(output).suffix != ".mtj":
        raise UsageError(f"{output!r} must end in .mtj")
    paths = expanded(files)
    by_index, offsets_ns = names_of(names, paths), offsets_of(offsets, paths)
    given = [by_index.get(index) for index in range(len(paths))]
    import_numpy()
    from meantime.opening.joined_file import to_be_allowed  # noqa: PLC0415 - NumPy is not for --help
    from meantime.view_functions.joining import write_join  # noqa: PLC0415 - as above

    def opened(path: str | PathLike[str]) -> History:
        return load(str(path), lenient=lenient, strict=strict)

    hosts, anomalies = write_join(output, paths, given, offsets=offsets_ns, opened=opened)
    for line in anomalies.lines():
        click.echo(line, err=True)
    if needed := " ".join(f"--allow-{kind}" for kind in to_be_allowed(output)):
        click.echo(
            f"{output} refers to other places than its folder: open it with {needed}", err=True
        )
    if as_json:
        click.echo(json.dumps({"output": output, "hosts": [asdict(host) for host in hosts]}))
        return
    columns = [
        Column("host"),
        Column("offset", numeric=True),
        Column("within", numeric=True),
        Column("rests on", prose=True),
    ]
    rows = [(host.name, format_ns(host.offset_ns), _error(host), _rests_on(host)) for host in hosts]
    counted = "1 host" if len(hosts) == 1 else f"{len(hosts):,} hosts"
    print_table(f"{output}: {counted}", columns, rows)


def _rests_on(host: Host) -> str:
    how = _RESTS_ON.get(host.how, host.how)
    if host.contradicted_ns:
        how += f", which contradict its clock by {format_ns(host.contradicted_ns)}"
    if host.drift_ppt:
        from meantime.model.clocks import drift_text  # noqa: PLC0415 - not for --help

        how += f"; its clock {drift_text(host.drift_ppt)}"
    return how


def _error(host: Host) -> str:
    if host.how in {"first", "start"}:
        return ""
    return "unknown" if host.error_ns is None else format_ns(host.error_ns)
