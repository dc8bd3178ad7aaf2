"""`meantime view`: a page on which traces are looked at."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from meantime.cli.inputs import expanded, import_numpy, mapped, offsets_of
from meantime.cli.options import (
    file_argument,
    input_options,
    offset_option,
    once,
    output_option,
    reject,
)
from meantime.errors import UsageError
from meantime.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from meantime.server.view import View

__all__ = ["command"]


@click.command(
    "view", epilog="Example:  meantime view server.mtr pg.statemap.gz --offset pg.statemap.gz=1.2s"
)
@input_options
@file_argument("files", "FILE...", nargs=-1)
@click.option("--demo", is_flag=True, help="Open recordings of a slow request, with a tour.")
@once(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    help="First port to try; 0 for any.  [8643]",
)
@click.option(
    "--no-open", "browser", is_flag=True, default=True, flag_value=False, help="Open no browser."
)
@click.option("--follow", is_flag=True, help="Show what is added to the files.")
@offset_option
@output_option("PAGE.html", "Write the page with all data as one file, instead of serving it.")
@once("--max-size", metavar="SIZE", help="Size of that file, such as 50MB.  [100MB]")
def command(
    *,
    files: tuple[str, ...],
    demo: bool,
    port: int | None,
    browser: bool,
    follow: bool,
    offsets: tuple[str, ...],
    output: str | None,
    max_size: str | None,
) -> None:
    """Open traces on a page in the browser, on one time axis."""
    if demo and files:
        raise UsageError("--demo has files of its own; leave out FILE")
    if not demo and not files:
        raise click.MissingParameter(param_type="argument", param_hint="'FILE...'")
    if demo:
        reject(("follow", "offsets"), "the demo")
    paths = expanded(files)
    offsets_ns = offsets_of(offsets, paths)
    if output is not None:
        reject(("port", "browser", "follow"), "a page in a file")
        _write(output, paths, offsets_ns, max_size)
        return
    if max_size is not None:
        raise UsageError("--max-size applies to a page in a file; name it with -o")
    import_numpy()
    from meantime.server.view import FIRST_PORT, view  # noqa: PLC0415 - NumPy is not for --help

    page = _demo() if demo else view(_mapped(paths), offsets=offsets_ns, follow=follow)
    page.serve(
        port=FIRST_PORT if port is None else port,
        browser=browser,
        notify=lambda address: click.echo(f"{address}  (Ctrl-C ends)"),
    )


def _write(
    output: str, files: Sequence[str], offsets_ns: dict[int, int], max_size: str | None
) -> None:
    """Write the page of some files; without any, of the demo.

    Raises:
        UsageError: If the output is not HTML, or the size is not one.
    """
    if output != "-" and PurePath(output).suffix not in {".html", ".htm"}:
        raise UsageError(f"{output!r} must end in .html")
    most_bytes = None if max_size is None else parse_size(max_size)
    import_numpy()
    from meantime.cli.output import write  # noqa: PLC0415 - only once the command line is sound
    from meantime.server.onefile import MOST_BYTES  # noqa: PLC0415 - NumPy is not for --help
    from meantime.server.view import view  # noqa: PLC0415 - as above

    limit = MOST_BYTES if most_bytes is None else most_bytes
    shown = view(_mapped(files), offsets=offsets_ns, most_bytes=limit) if files else _demo(limit)
    write(output, shown.render("html"))


def _mapped(files: Sequence[str]) -> list[str | PathLike[str]]:
    return [mapped(file) for file in files]


def _demo(*most_bytes: int) -> View:
    from meantime.server.demo import demo  # noqa: PLC0415 - NumPy is not for --help

    return demo(*most_bytes)
