"""`meantime serve`: keep traces open, and answer commands about them at once."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, load
from meantime.cli.options import file_argument, input_options, once, reading_options
from meantime.errors import MeantimeError, UsageError
from meantime.model.units import parse_duration
from meantime.session import SessionError, socket_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.cli.session_server import SessionServer

__all__ = ["command"]

_NS_PER_S = 10**9


@click.command(
    "serve", epilog="Example:  meantime serve app.json  and  meantime stats app.json --session"
)
@input_options
@file_argument("files", "FILE...", nargs=-1, required=True)
@once("--timeout", metavar="TIME", default="30s", help="Time that one command may take.  [30s]")
@click.option("--mcp", is_flag=True, help="Offer the commands as tools of MCP, on standard input.")
@reading_options
def command(*, files: tuple[str, ...], timeout: str, mcp: bool, **reading: Any) -> None:
    """Keep traces open: commands with --session answer about them at once.

    Only you can ask, with info, explain, findings, stats, why, assert, query, sql, dump, diff and
    flame --json; they read the FILEs and write none. With --mcp, an agent starts this itself and
    calls them as tools, which needs the extra [agent].
    """
    if not hasattr(os, "fork"):
        raise UsageError("serve needs a system that can fork processes")
    most_s = parse_duration(timeout) // _NS_PER_S
    if most_s <= 0:
        raise UsageError(f"--timeout {timeout!r} is less than a second")
    paths = expanded(files)
    if mcp:
        _serve_tools(paths, most_s, reading)
        return
    from meantime.cli.session_server import SessionServer  # noqa: PLC0415 - POSIX alone

    try:
        path = socket_path()
    except SessionError as error:
        raise MeantimeError(str(error)) from None
    server = SessionServer(path, most_s)
    _serve(server, paths, reading, f"{', '.join(paths)}: open; ask with --session, Ctrl-C ends")


def _serve(
    server: SessionServer,
    paths: Sequence[str],
    reading: dict[str, Any],
    ready: str = "",
    parent: int | None = None,
) -> None:
    """Open the files, and answer until a signal ends the process."""
    from meantime.cli import inputs  # noqa: PLC0415 - not for --help
    from meantime.cli.session_server import warm  # noqa: PLC0415 - POSIX alone

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        found = {each: inputs.Opened.of(each, load(each, **reading)) for each in paths}
        inputs.opened |= {os.path.realpath(path): each for path, each in found.items()}
        warm(paths)
        if ready:
            click.echo(ready, err=True)
        server.run(parent=parent)
    finally:
        server.close()


def _serve_tools(paths: Sequence[str], most_s: int, reading: dict[str, Any]) -> None:
    """Answer in a process of its own, which is started before there are threads."""
    from shutil import rmtree  # noqa: PLC0415 - for --mcp alone
    from tempfile import mkdtemp  # noqa: PLC0415 - as above

    from meantime.cli.mcp_tools import need_package, run_tools  # noqa: PLC0415 - as above
    from meantime.cli.session_server import SessionServer  # noqa: PLC0415 - POSIX alone

    need_package()
    folder = mkdtemp(prefix="meantime-")
    path = f"{folder}/tools.sock"
    server = SessionServer(path, most_s)
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            # the standard streams are the agent's
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            _serve(server, paths, reading, parent=parent)
        except MeantimeError as error:
            click.echo(f"meantime: {error}", err=True)
        finally:
            os._exit(0)
    server.leave()
    try:
        run_tools(path, paths)
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        rmtree(folder, ignore_errors=True)
