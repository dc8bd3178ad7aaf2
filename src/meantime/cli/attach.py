"""`meantime attach`: record a program that runs already."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.options import once, output_option, reject
from meantime.cli.record import duration_of, open_page
from meantime.collect import messages
from meantime.errors import MeantimeError
from meantime.model.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command"]

_ANSWERS_WITHIN_S = 5.0
_ASKS_AGAIN_AFTER_S = 0.01
_LOOKS_EVERY_S = 0.2
_NUDGES_EVERY_S = 0.2


@click.command("attach", epilog="Example:  meantime attach 4711 --for 10s --open")
@click.argument("pid", type=click.IntRange(min=1), metavar="PID")
@output_option("NAME.mtr", "Directory to record into.  [PID.mtr]")
@once("--for", "duration", metavar="TIME", help="Record for this time.  [until Ctrl-C]")
@once("--samples", type=float, metavar="HZ", help="Samples of each thread per second.")
@once("--max-size", metavar="SIZE", help="Delete the oldest data beyond this size, such as 2G.")
@once(
    "--include",
    type=click.Choice(["command"]),
    help="Record the command line with the secrets in it.",
)
@click.option("--stop", is_flag=True, help="End a recording whose `meantime attach` was killed.")
@click.option("--open", "opens", is_flag=True, help="Open the recording in the browser.")
@click.option("-q", "--quiet", is_flag=True, help="Print no summary at the end.")
def command(*, pid: int, stop: bool, opens: bool, quiet: bool, **given: Any) -> None:
    """Record a running Python program, for a time or until Ctrl-C.

    With Python 3.14 and later, nothing needs to have been prepared. Before that, the program must
    have been started with MEANTIME=1 in its environment, or have called `meantime.enable()`; until
    now, that has cost it nothing. It runs on afterwards.
    """
    if stop:
        reject(("output", "duration", "samples", "max_size", "include", "opens"), "--stop")
        click.echo(_ask(pid, {"do": "stop"})["path"])
        return
    request: dict[str, object] = {"do": "start"}
    duration_ns = duration_of(given["duration"])
    if given["samples"]:
        request["samples"] = given["samples"]
    if given["max_size"] is not None:
        request["max_bytes"] = parse_size(given["max_size"])
    if given["include"] is not None:
        request["secrets"] = 1
    path = request["path"] = str(Path(given["output"] or _free_name(pid)).absolute())
    # like any supervisor's stop signal, this ends the recording and not only this command
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _ask(pid, request)
        with suppress(KeyboardInterrupt):
            click.echo(f"recording process {pid} into {path}", err=True)
            _wait(pid, duration_ns)
        # one that has ended has also ended its recording
        if _runs(pid):
            _ask(pid, {"do": "stop"})
    finally:
        signal.signal(signal.SIGTERM, before)
    if not quiet:
        from meantime.cli.summary import summary  # noqa: PLC0415 - NumPy is not for --help

        for line in summary(path):
            click.echo(line, err=True)
    if opens:
        open_page(path)


def _wait(pid: int, duration_ns: int) -> None:
    until_ns = time.monotonic_ns() + duration_ns
    while _runs(pid):
        left_s = (until_ns - time.monotonic_ns()) / 1e9 if duration_ns else _LOOKS_EVERY_S
        if left_s <= 0:
            return
        time.sleep(min(left_s, _LOOKS_EVERY_S))


def _runs(pid: int) -> bool:
    try:
        # a process that has ended stays until its parent asks for its status
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def _free_name(pid: int) -> str:
    name, number = f"{pid}.mtr", 2
    while Path(name).exists():
        name, number = f"{pid}-{number}.mtr", number + 1
    return name


def _ask(pid: int, request: dict[str, object]) -> dict[str, str]:
    """Send a request to a process and return its answer.

    Raises:
        MeantimeError: If there is none, or the process refuses: with the reason.
    """
    if not _runs(pid):
        raise MeantimeError(f"there is no process {pid}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.bind("")  # the kernel gives it a name, to which the answer is sent
        try:
            ours.connect(messages.address(pid))
            answers = _answers(ours, pid, request)
        except OSError:
            # it does not listen
            answers = _answers_by_script(pid, request)
        busy_with = None
        for data in answers:
            answer = messages.decoded(data)
            if "error" in answer:
                raise MeantimeError(f"process {pid}: {answer['error']}")
            busy_with = answer.get("again")
            if busy_with is None:
                return answer
            time.sleep(_ASKS_AGAIN_AFTER_S)
    if busy_with is not None:
        raise MeantimeError(
            f"process {pid} has been {busy_with} for {_ANSWERS_WITHIN_S:.0f} s: ask again once it"
            " has done that"
        )
    outcome = "nothing is" if request["do"] == "start" else "it may still be"
    raise MeantimeError(
        f"process {pid} has not answered for {_ANSWERS_WITHIN_S:.0f} s: its main thread waits, is"
        f" stopped, or is in a call into compiled code; {outcome} being recorded. `meantime top"
        f" {pid}` shows what it is doing"
    )


def _answers(ours: socket.socket, pid: int, request: dict[str, object]) -> Iterator[bytes]:
    """Yield the answers of a process that listens, as long as they may come; ask it for each."""
    until_s = time.monotonic() + _ANSWERS_WITHIN_S
    while True:
        ours.send(messages.encoded(request))
        while True:
            if (left_s := until_s - time.monotonic()) <= 0:
                return
            ours.settimeout(min(left_s, _NUDGES_EVERY_S))
            try:
                data, ancillary, *_ = ours.recvmsg(messages.MAX_BYTES, messages.ROOM)
            except TimeoutError:
                _nudge(pid)
                continue
            # anyone may have bound the name, or write to ours
            if messages.sender_of(ancillary)[0] == pid:
                break
        yield data


def _answers_by_script(pid: int, request: dict[str, object]) -> Iterator[bytes]:
    """Yield the answers of a process that was not prepared; ask it for each."""
    from meantime.cli import attach_by_script  # noqa: PLC0415 - not for processes that listen

    until_s = time.monotonic() + _ANSWERS_WITHIN_S
    while (left_s := until_s - time.monotonic()) > 0:
        try:
            answer = attach_by_script.answer_of(pid, messages.encoded(request), left_s)
        except MeantimeError as error:
            raise MeantimeError(_why_refused(pid, str(error))) from error
        if answer is not None:
            yield answer


def _nudge(pid: int) -> None:
    """Let the kernel send the process another signal.

    One that arrives just before the main thread begins to wait in a system call does not end that
    wait, and Python runs a handler only between two instructions.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nameless, suppress(OSError):
        # it has no sender that could be answered, so it is ignored
        nameless.sendto(b"", messages.address(pid))


def _why_refused(pid: int, reason: str) -> str:
    """Return why a process cannot be recorded, if it is not what was found first."""
    owner = Path(f"/proc/{pid}").stat().st_uid
    with suppress(OSError):
        if b"MEANTIME=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            reason = (
                f"process {pid} cannot be recorded: it has MEANTIME=1 in its environment, but is "
                "no Python with meantime installed, or one started with -S; call "
                "meantime.enable() in it"
            )
    if os.geteuid() not in (0, owner) and "belongs to user" not in reason:
        reason += f"; and as it belongs to user {owner}, run this as that user or as root"
    return reason
