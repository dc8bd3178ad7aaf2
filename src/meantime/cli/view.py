"""`meantime view`: a page on which traces are looked at."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, import_numpy, load_hosts, mapped, notify, offsets_of
from meantime.cli.options import (
    file_argument,
    hosts_options,
    input_options,
    of_options,
    once,
    options_of,
    output_option,
    reject,
    zone_option,
)
from meantime.cli.progress import progress_bar
from meantime.cli.two_sides import MaySides, has_sides, two_sides
from meantime.errors import UsageError
from meantime.model.units import parse_size
from meantime.view_functions.compare_options import CompareOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.server.view import View
    from meantime.view_functions.sources import Source

__all__ = ["command"]

_OF_HOSTS = ("assume_aligned", "jobs", "client")


@click.command(
    "view",
    cls=MaySides,
    epilog="Example:  meantime view server.mtr pg.statemap.gz --offset pg.statemap.gz=1.2s",
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
@click.option(
    "--hosts",
    is_flag=True,
    help="Show the FILEs as hosts of one history, instead of each by itself.",
)
@hosts_options
@options_of(CompareOptions)
@of_options
@zone_option
@output_option("PAGE.html", "Write the page with all data as one file, instead of serving it.")
@once("--max-size", metavar="SIZE", help="Size of that file, such as 50MB.  [100MB]")
def command(
    *,
    files: tuple[str, ...],
    demo: bool,
    port: int | None,
    browser: bool,
    follow: bool,
    hosts: bool,
    offsets: tuple[str, ...],
    assume_aligned: bool,
    jobs: int,
    client: str | None,
    output: str | None,
    max_size: str | None,
    **compared: Any,
) -> None:
    """Open traces on a page in the browser, on one time axis.

    With `BEFORE... -- AFTER...` the page compares runs as `meantime diff` does: each lane of one is
    above its counterpart.
    """
    sides = _sides(files)
    if sides is None:
        _check_files(files, demo=demo, hosts=hosts)
    paths = expanded(files) if sides is None else [path for side in sides for path in side]
    offsets_ns = offsets_of(offsets, paths)

    def opened(**options: Any) -> View:
        from meantime.server.view import view  # noqa: PLC0415 - NumPy is not for --help

        if demo:
            from meantime.server.demo import demo as shown  # noqa: PLC0415 - as above

            return shown(**options)
        if sides is not None:
            return _compared(sides, compared, options)
        if not hosts:
            sources: list[Source] = [mapped(path) for path in paths]
            return view(sources, offsets=offsets_ns, follow=follow, **options)
        joined = load_hosts(
            paths, client, offsets=offsets_ns, assume_aligned=assume_aligned, jobs=jobs
        )
        return view(joined, **options)

    if output is not None:
        reject(("port", "browser", "follow"), "a page in a file")
        _write(output, opened, max_size, paths)
        return
    if max_size is not None:
        raise UsageError("--max-size applies to a page in a file; name it with -o")
    import_numpy()
    from meantime.server.view import FIRST_PORT  # noqa: PLC0415 - NumPy is not for --help

    page = opened()
    page.serve(
        port=FIRST_PORT if port is None else port,
        browser=browser,
        notify=lambda address: click.echo(f"{address}  (Ctrl-C ends)"),
    )


def _sides(files: Sequence[str]) -> tuple[list[Any], list[Any]] | None:
    """Return the runs that are compared; None if files are not.

    Raises:
        UsageError: If an option does not apply to what is opened.
    """
    if not has_sides(files):
        reject(CompareOptions.declared, "files that are not compared; write BEFORE -- AFTER")
        return None
    reject(("demo", "follow", "hosts", "offsets", *_OF_HOSTS), "runs that are compared")
    return two_sides(files)


def _check_files(files: Sequence[str], *, demo: bool, hosts: bool) -> None:
    """Check the files that are opened, and which options apply to them.

    Raises:
        MissingParameter: If there is none.
        UsageError: If one does not apply.
    """
    if demo and files:
        raise UsageError("--demo has files of its own; leave out FILE")
    if not demo and not files:
        raise click.MissingParameter(param_type="argument", param_hint="'FILE...'")
    if demo:
        reject(("follow", "hosts", "offsets", *_OF_HOSTS), "the demo")
    if not hosts:
        reject(_OF_HOSTS, "files of their own; add --hosts")
    else:
        reject(("follow",), "hosts")


def _compared(
    sides: tuple[list[Any], list[Any]], compared: dict[str, Any], options: dict[str, Any]
) -> View:
    """Return the page of runs that are compared."""
    from meantime.server.view import view  # noqa: PLC0415 - NumPy is not for --help
    from meantime.view_functions.comparing import diff  # noqa: PLC0415 - as above

    asked = CompareOptions(**compared, intact=True, notify=notify, progress=progress_bar)
    return view(diff(*sides, **vars(asked)), **options)


def _write(
    output: str, opened: Callable[..., View], max_size: str | None, sources: Sequence[str]
) -> None:
    """Write a page, which is opened with its size, as one file.

    Raises:
        UsageError: If the output is not HTML, or the size is not one.
    """
    if output != "-" and PurePath(output).suffix not in {".html", ".htm"}:
        raise UsageError(f"{output!r} must end in .html")
    most_bytes = None if max_size is None else parse_size(max_size)
    import_numpy()
    from meantime.cli.output import write  # noqa: PLC0415 - only once the command line is sound
    from meantime.server.view import MOST_BYTES  # noqa: PLC0415 - NumPy is not for --help

    shown = opened(most_bytes=MOST_BYTES if most_bytes is None else most_bytes)
    write(output, shown.render("html"), sources)
