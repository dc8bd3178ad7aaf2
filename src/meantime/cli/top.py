"""`meantime top`: show what a program is doing, in a table that refreshes."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import print_answer, table_rows
from meantime.cli.options import file_argument, json_option, limit_option, once, reject
from meantime.cli.tables import Column, more, sentence_lines, table_lines
from meantime.cli.terminal import can_redraw, is_styled, width_of
from meantime.errors import UsageError
from meantime.model.units import format_ns, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.recording.activity import Group
    from meantime.readers.recording.live import LiveActivity

__all__ = ["command"]

_NS_PER_S = 10**9
_ORDER = ("Loops", "Workers", "Threads", "Tasks", "Callbacks")
_COLUMNS = ("running", "runnable")
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command("top", epilog="Example:  meantime top app.mtr")
@file_argument("file", "NAME.mtr|PID")
@once("--every", metavar="TIME", default="1s", help="Time between refreshes.  [1s]")
@limit_option(20)
@click.option("--once", "single", is_flag=True, help="Print one table and exit.")
@json_option
def command(*, file: str, every: str, single: bool, as_json: bool) -> None:
    """Show what a program is doing, recorded or not.

    The files of a recording are read from outside. Of a process that is not recorded, the memory
    is: its threads with their stacks, and what each of its asyncio tasks waits for. Neither
    interrupts the program.
    """
    if single:
        reject(("every",), "--once")
    if as_json:
        reject(("every",), "--json, which prints once")
    every_ns = parse_duration(every)
    if every_ns <= 0:
        raise UsageError(f"--every {every!r} is not positive; write a time such as 500ms")
    shown: _Recording | _Process
    if Path(file).is_dir():
        shown = _Recording(file)
    elif file.isascii() and file.isdecimal():
        shown = _Process(int(file))
    else:
        raise UsageError(
            f"{file}: not a recording; name the directory that `meantime record` writes, or the"
            " number of a process"
        )
    if as_json:
        print_answer(shown.document())
        return
    if single or not can_redraw(sys.stdout):
        sys.stdout.writelines(f"{line}\n" for line in shown.lines(table_rows()))
        return
    rows = table_rows()
    with _second_screen(), suppress(KeyboardInterrupt):
        while True:
            lines = [*shown.lines(rows)][: get_terminal_size().lines - 1]
            sys.stdout.write(_HOME + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR)
            sys.stdout.flush()
            time.sleep(every_ns / _NS_PER_S)
            shown.update()


class _Recording:
    """A recording that may be growing."""

    def __init__(self, file: str) -> None:
        from meantime.readers.recording.live import LiveActivity  # noqa: PLC0415 - not for --help

        self._file = file
        self._following = LiveActivity(Path(file))
        self.update()

    def update(self) -> None:
        """Read what is new."""
        self._following.update()

    def document(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _document(self._following)

    def lines(self, rows: int | None) -> Iterator[str]:
        """Yield the lines of the table."""
        return _lines(self._file, self._following, rows)


class _Process:
    """A process that is not recorded."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.update()

    def update(self) -> None:
        """Look at the process again."""
        from meantime.inspection import inspect_process  # noqa: PLC0415 - not for --help

        self._found = inspect_process(self._pid)

    def document(self) -> dict[str, Any]:
        """Return the JSON object."""
        from meantime.cli import top_process  # noqa: PLC0415 - as above

        return top_process.document(self._found)

    def lines(self, rows: int | None) -> Iterator[str]:
        """Yield the lines: the process, its threads and its tasks."""
        from meantime.cli import top_process  # noqa: PLC0415 - as above

        width, styled = width_of(sys.stdout), is_styled(sys.stdout)
        return top_process.lines(self._found, rows=rows, width=width, styled=styled)


def _document(following: LiveActivity) -> dict[str, Any]:
    longest = following.longest
    return {
        "duration_ns": following.duration_ns,
        "live": following.is_live,
        "lost": following.lost,
        "longest_block": None
        if longest is None
        else {"duration_ns": longest.duration_ns, "by": longest.where()},
        "groups": [
            {
                "name": "/".join(group.name),
                "members": group.members,
                "now": group.now,
                "state_ns": group.state_ns,
                "longest_ns": group.longest_ns,
            }
            for group in following.activity.groups()
        ],
    }


@contextmanager
def _second_screen() -> Iterator[None]:
    """Use the terminal's second screen; what was there before is back at the end."""
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _lines(file: str, following: LiveActivity, rows: int | None) -> Iterator[str]:
    groups = sorted(
        following.activity.groups(),
        # groups of which nothing is active now are last
        key=lambda group: (_ORDER.index(group.name[0]), not any(group.now.values())),
    )
    shown = groups[:rows]
    ended = "" if following.is_live else ", ended"
    width = width_of(sys.stdout)
    for sentence in (f"{file}: {format_ns(following.duration_ns)}{ended}", *_said(following)):
        yield from sentence_lines(sentence, width)
    numbers = ("all", "now", "running", "runnable", "waiting", "longest")
    yield from table_lines(
        [
            Column("group"),
            *(Column(name, numeric=True) for name in numbers),
            Column("in or for"),
        ],
        [_cells(group) for group in shown],
        width=width,
        drop=("all", "runnable", "running", "longest"),
        styled=is_styled(sys.stdout),
    )
    if len(groups) > len(shown):
        yield more(len(groups), len(shown))


def _said(following: LiveActivity) -> Iterator[str]:
    if (longest := following.longest) is not None:
        waited = f" ({waits})" if (waits := longest.waits()) else ""
        yield f"longest block: {format_ns(longest.duration_ns)}{waited} by {longest.where()}"
    if following.lost:
        yield f"{following.lost:,} events could not be recorded"


def _cells(group: Group) -> list[str]:
    now = group.now
    waiting = {state: count for state, count in now.items() if state.startswith("waiting")}
    others = {state: count for state, count in now.items() if state not in _COLUMNS}
    reasons = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    one = group.name[0] != "Tasks"
    return [
        "/".join(group.name),
        *(
            f"{count:,}" if count else ""
            for count in (
                group.members,
                sum(now.values()),
                now.get("running", 0),
                now.get("runnable", 0),
                sum(waiting.values()),
            )
        ),
        format_ns(group.longest_ns) if group.longest_ns else "",
        ", ".join(
            (state.partition(":")[2] or state) + ("" if one else f" {count:,}")
            for state, count in reasons
        ),
    ]
