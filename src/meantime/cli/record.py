"""`meantime record`: run a command with what its tasks, loops and pools do recorded."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.options import once
from meantime.errors import MeantimeError, OutputError, UsageError
from meantime.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# the terminal sends these to the command itself
_LEFT_ALONE = (signal.SIGINT, signal.SIGQUIT)
_SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@click.command(
    "record",
    epilog="Example:  meantime record -o app.mtr -- python app.py",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--threads", is_flag=True, help="Record waits of threads for the GIL and locks.")
@once("-o", "--output", metavar="NAME.mtr", help="Where to record.  [COMMAND.mtr]")
@once(
    "--trace",
    type=click.Choice(["tasks", "workers", "both", "none"]),
    default="both",
    show_default=True,
    help="What to record: tasks, workers (event loops and pool threads), both or none.",
)
@once("--samples", type=float, metavar="HZ", help="Sample each thread so many times a second.")
@once(
    "--policy",
    type=click.Choice(["block", "drop", "ring"]),
    default="block",
    show_default=True,
    help="When the disk is too slow: block the program, drop and count; or keep a ring of the"
    " newest in memory.",
)
@once("--max-size", metavar="SIZE", help="Take the oldest away beyond this, as in 2G.")
@once("--ring-size", metavar="SIZE", default="4M", help="How much a ring holds a thread.  [4M]")
@once("--ring-time", metavar="TIME", help="Write only so much of a ring out.  [all]")
@once("--blocked", metavar="TIME", help="Write a ring out when a task blocks its loop so long.")
@once("--for", "duration", metavar="TIME", help="Stop recording after this time.")
@click.option("--no-follow", is_flag=True, help="Leave out what the command itself starts.")
@click.option("-q", "--quiet", is_flag=True, help="Print no summary at the end.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
def command(*, words: tuple[str, ...], **given: Any) -> None:
    """Run a command and record what its tasks, event loops and pools do.

    The command runs as it would by itself: a script, `python -m`, a console script, workers and
    processes that it starts. Its exit status is that of `meantime record`.
    """
    from meantime.collect import session  # noqa: PLC0415 - the recorder is not for --help
    from meantime.collect.launch import environment  # noqa: PLC0415 - as above

    options = session.Options(
        trace=given["trace"],
        policy=given["policy"],
        max_bytes=_size(given["max_size"]),
        ring_bytes=_size(given["ring_size"]),
        duration_ns=_duration(given["duration"]),
        blocked_ns=_duration(given["blocked"]),
        ring_ns=_duration(given["ring_time"]),
        threads=given["threads"],
        samples=given["samples"] or 0,
    )
    options.check()
    path = given["output"] or _free_name(words[0])
    try:
        session.create(path, list(words))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    status = _run(
        path, words, environment(path, options, follow=not given["no_follow"], base=os.environ)
    )
    if not given["quiet"]:
        from meantime.cli.summary import summary  # noqa: PLC0415 - as above

        for line in summary(path):
            click.echo(line, err=True)
    _leave(status)


def _size(text: str | None) -> int:
    if text is None:
        return 0
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    try:
        return int(float(number) * _SIZES[unit])
    except (KeyError, ValueError):
        raise UsageError(f"{text!r} is not a size: write a number and k, M, G or T") from None


def _duration(text: str | None) -> int:
    if text is None:
        return 0
    duration_ns = parse_duration(text)
    if duration_ns <= 0:
        raise UsageError(f"{text!r} is no time to wait for: write a positive one, as in 10s")
    return duration_ns


def _free_name(program: str) -> str:
    stem = Path(program).stem or "recording"
    name, number = f"{stem}.mtr", 2
    while Path(name).exists():
        name, number = f"{stem}-{number}.mtr", number + 1
    return name


def _run(path: str, words: Sequence[str], environment: dict[str, str]) -> int:
    """Run the command to its end and return its status; a signal's is negative."""
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, _: object) -> None:
        if child is not None:
            child.send_signal(number)

    before: dict[signal.Signals, Any] = {}
    for number in _LEFT_ALONE:
        before[number] = signal.signal(number, lambda *_: None)
    for number in _FORWARDED:
        before[number] = signal.signal(number, forward)
    try:
        child = subprocess.Popen(words, env=environment)  # noqa: S603 - what the user asked for
        return child.wait()
    except OSError as error:
        shutil.rmtree(path)
        raise MeantimeError(f"{words[0]}: {error.strerror}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(status: int) -> None:
    if status < 0:
        import resource  # noqa: PLC0415 - a command seldom dies of a signal

        # to end as the command did, but leave no second core file
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout.flush()
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
