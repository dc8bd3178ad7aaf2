"""`meantime record`: run a command with what its tasks, loops and pools do recorded."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.options import force_option, once, output_option, reject
from meantime.cli.output import LeftOverError, replacing, write, written_locally
from meantime.errors import (
    CommandNotFoundError,
    CommandNotRunError,
    MeantimeError,
    OutputError,
    UsageError,
)
from meantime.model.units import parse_duration, parse_size

if TYPE_CHECKING:
    from meantime.collect.session import Options

__all__ = ["command", "duration_of", "open_page"]


@click.command(
    "record",
    epilog="Example:  meantime record -o app.mtr -- python app.py",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--threads", is_flag=True, help="Record waits of threads for the GIL and locks.")
@output_option("NAME.mtr", "Directory to record into.  [COMMAND.mtr]")
@force_option
@once(
    "--trace",
    type=click.Choice(["tasks", "workers", "both", "none"]),
    default="both",
    show_default=True,
    help="What to record: tasks, workers (event loops and pool threads), both or none.",
)
@once("--samples", type=float, metavar="HZ", help="Samples of each thread per second.")
@once(
    "--policy",
    type=click.Choice(["block", "drop", "ring"]),
    default="block",
    show_default=True,
    help="If the disk is too slow, block the program, or drop and count events; ring keeps the"
    " newest events in memory.",
)
@once(
    "--max-size",
    metavar="SIZE",
    help="Delete the oldest data once the recording exceeds this size, such as 2G.",
)
@once("--ring-size", metavar="SIZE", default="4M", help="Size of the ring of a thread.  [4M]")
@once("--ring-time", metavar="TIME", help="Time before a dump that is written.  [all]")
@once(
    "--blocked",
    metavar="TIME",
    help="Record the stack of a step that blocks its loop this long, and write the ring; 0: never."
    "  [50ms]",
)
@once("--for", "duration", metavar="TIME", help="Stop recording after this time.")
@once(
    "--include",
    type=click.Choice(["command"]),
    help="Record command lines with the secrets in them.",
)
@click.option("--no-follow", is_flag=True, help="Do not record processes that the command starts.")
@click.option("--open", "opens", is_flag=True, help="Open the recording in the browser.")
@click.option("-q", "--quiet", is_flag=True, help="Print no summary, unless it is empty.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
def command(*, words: tuple[str, ...], **given: Any) -> None:
    """Run a command and record what its tasks, event loops and pools do.

    The command runs as it would by itself: a script, `python -m`, a console script, workers and
    processes that it starts. Its exit status is that of `meantime record`.
    """
    if not sys.platform.startswith("linux"):
        raise MeantimeError(f"recording is not possible on {sys.platform} yet: it needs Linux")
    from meantime.cli.child_process import leave  # noqa: PLC0415 - for Linux only
    from meantime.collect import session  # noqa: PLC0415 - the recorder is not for --help

    options = session.Options(
        trace=given["trace"],
        policy=given["policy"],
        max_bytes=0 if given["max_size"] is None else parse_size(given["max_size"]),
        ring_bytes=parse_size(given["ring_size"]),
        duration_ns=duration_of(given["duration"]),
        blocked_ns=None if given["blocked"] is None else duration_of(given["blocked"], zero=True),
        ring_ns=duration_of(given["ring_time"]),
        threads=given["threads"],
        samples=given["samples"] or 0,
        secrets=given["include"] is not None,
    )
    options.check()
    output = given["output"] or _free_name(words[0])
    if given["output"] is None:
        reject(("force",), "a recording without -o, which gets a new name")
    status = None
    try:
        with written_locally(output, "", force=given["force"], keep=True) as packed:
            # what is copied to a store is the packed recording
            path = output if packed == output else f"{Path(packed).parent / 'recording.mtr'}"
            status = _recorded(words, path, options, given)
            # an interrupt of the summary does not change the command's status
            with suppress(KeyboardInterrupt):
                from meantime.cli.summary import nothing_recorded, summary  # noqa: PLC0415 - as above

                for line in nothing_recorded(path) if given["quiet"] else summary(path):
                    click.echo(line.replace(path, output), err=True)
            if packed != output:
                _pack(path, packed)
        with suppress(KeyboardInterrupt):
            if given["opens"]:
                open_page(output)
    except MeantimeError as error:
        if status is None:
            raise
        # the command has run, and its callers need its status
        click.echo(f"meantime: {error}", err=True)
        status = status or 1
    leave(status)


def _pack(path: str, packed: str) -> None:
    """Turn the directory of a recording into one file.

    Raises:
        OutputError: If it cannot be written; the directory is left.
    """
    from meantime.readers.recording.packing import Packed, pack  # noqa: PLC0415 - for URLs

    try:
        write(packed, pack(Path(path), Packed()))
    except MeantimeError as error:
        raise OutputError(f"{error}; the recording is in {path}") from None
    _delete(path)


def _recorded(words: tuple[str, ...], path: str, options: Options, given: dict[str, Any]) -> int:
    """Run the command and record it; return its status.

    Raises:
        CommandNotFoundError: If it is not there.
        CommandNotRunError: If it cannot be executed.
        OutputError: If the directory exists, or cannot be written.
    """
    from meantime.cli.child_process import run  # noqa: PLC0415 - for Linux only
    from meantime.collect import session  # noqa: PLC0415 - the recorder is not for --help
    from meantime.collect.launch import environment  # noqa: PLC0415 - as above

    # whatever else has this name is not deleted, and refused below
    replaces = given["force"] and (Path(path) / "recording.json").is_file()
    if replaces:
        from shutil import which  # noqa: PLC0415 - imports archive formats, 4 ms

        if which(words[0]) is None:
            # before the recording that is there is lost for nothing
            is_there = which(words[0], os.F_OK) or (os.sep in words[0] and Path(words[0]).is_dir())
            kind = CommandNotRunError if is_there else CommandNotFoundError
            raise kind(f"{words[0]}: cannot be run; {path} is unchanged")
    try:
        with replacing(Path(path)) if replaces else nullcontext(path) as new:
            session.create(str(new), list(words), secrets=options.secrets)
    except LeftOverError as error:
        click.echo(f"meantime: {error}", err=True)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    try:
        return run(
            words, environment(path, options, follow=not given["no_follow"], base=os.environ)
        )
    except (CommandNotFoundError, CommandNotRunError):
        _delete(path)
        raise


def _delete(path: str) -> None:
    from shutil import rmtree  # noqa: PLC0415 - as above

    rmtree(path)


def open_page(path: str) -> None:
    """Open a recording as `meantime view` does, until Ctrl-C."""
    from meantime.cli.view import command as view  # noqa: PLC0415 - NumPy is not for --help

    view.main([path], standalone_mode=False)


def duration_of(text: str | None, *, zero: bool = False) -> int:
    """Return the nanoseconds of an option's duration, 0 if it is not given.

    It must be positive; with `zero`, `0` is one, too.
    """
    if text is None or (zero and text == "0"):
        return 0
    duration_ns = parse_duration(text)
    if duration_ns <= 0:
        raise UsageError(f"{text!r} is not a duration: write a positive one, such as 10s")
    return duration_ns


def _free_name(program: str) -> str:
    stem = Path(program).stem or "recording"
    name, number = f"{stem}.mtr", 2
    while Path(name).exists():
        name, number = f"{stem}-{number}.mtr", number + 1
    return name
