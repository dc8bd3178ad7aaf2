"""Which part of a trace is meant: a range, threads, and what it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from meantime.cli.inputs import load, resolve
from meantime.errors import TimeRangeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.columns import Int32s
    from meantime.history.history import History

__all__ = ["Against", "Part", "against", "part_of", "range_of", "thread_option"]


class Part(NamedTuple):
    """A range of a history, and the threads that count; None is all."""

    history: History
    start_ns: int
    end_ns: int
    threads: Int32s | None


class Against(NamedTuple):
    """What a part is compared with: another trace, or another range of the same one."""

    file: str | None
    from_: str | None
    to: str | None

    def part(self, history: History, threads: tuple[str, ...], *, lenient: bool) -> Part:
        """Return the part that is meant; another trace is opened."""
        if self.file is not None:
            history = load(self.file, lenient=lenient).history
        return part_of(history, self.from_, self.to, threads)


def against(text: str) -> Against:
    """Return what the value of --against means: a file that is there, or two times.

    Raises:
        UsageError: If it is neither.
    """
    if Path(text).exists():
        return Against(text, None, None)
    first, dots, last = text.partition("..")
    if not (dots and first and last):
        raise UsageError(
            f"--against {text!r}: write two times, such as 10s..20s, or the name of another trace"
        )
    return Against(None, first, last)


def part_of(history: History, from_: str | None, to: str | None, threads: tuple[str, ...]) -> Part:
    """Return the part that options mean.

    Raises:
        TimeRangeError: If it is empty.
        MeantimeError: If there is no such thread.
    """
    from meantime.query.threads import choose_threads  # noqa: PLC0415 - NumPy is not for --help

    chosen = choose_threads(history, threads) if threads else None
    return Part(history, *range_of(history, from_, to), chosen)


def range_of(history: History, from_: str | None, to: str | None) -> tuple[int, int]:
    """Return the range that two times mean; where one is missing, the history's own bound.

    Raises:
        TimeRangeError: If it is empty, or starts outside the history; one that ends after it is
            clipped.
    """
    start_ns, end_ns = history.bounds
    if from_ is not None:
        start_ns = resolve(from_, history.clock) or 0
    if to is not None:
        end_ns = resolve(to, history.clock) or 0
    if from_ is not None and not history.start_ns <= start_ns < history.end_ns:
        raise TimeRangeError(
            f"{start_ns} ns is outside the history, [{history.start_ns}, {history.end_ns})"
        )
    # a trace without any time in it has an empty range of its own
    if start_ns > end_ns or (start_ns == end_ns and (from_ is not None or to is not None)):
        raise TimeRangeError(f"the range from {start_ns} ns to {end_ns} ns is empty")
    return start_ns, min(end_ns, max(start_ns, history.end_ns))


def thread_option(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option that chooses threads."""
    return click.option(
        "--thread",
        "threads",
        multiple=True,
        metavar="PATTERN",
        help="Only threads of this id, name or PROCESS/THREAD; * and ? are wild. Repeatable.",
    )(command)
