"""Options that choose a part of a trace: threads, and the other side of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from meantime.cli.inputs import load
from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history.history import History
    from meantime.query.parts import Part

__all__ = ["Against", "against", "thread_option"]


class Against(NamedTuple):
    """The other side of a comparison: another trace, or another range of the same one."""

    file: str | None
    from_: str | None
    to: str | None

    def part(self, history: History, threads: tuple[str, ...], *, lenient: bool) -> Part:
        """Return the part; another trace is opened."""
        from meantime.query.parts import part_of  # noqa: PLC0415 - NumPy is not for --help

        if self.file is not None:
            history = load(self.file, lenient=lenient)
        return part_of(history, self.from_, self.to, threads)


def against(text: str) -> Against:
    """Parse the value of --against: an existing file, or two times.

    Raises:
        UsageError: If it is neither.
    """
    if Path(text).exists():
        return Against(text, None, None)
    first, dots, last = text.partition("..")
    if not (dots and first and last):
        raise UsageError(
            f"--against {text!r}: write two times, such as 10s..20s, or the path of another trace"
        )
    return Against(None, first, last)


def thread_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option that chooses threads."""
    return click.option(
        "--thread",
        "threads",
        multiple=True,
        metavar="PATTERN",
        help="Only threads with this id, name or PROCESS/THREAD (* and ? are wildcards)."
        " Repeatable.",
    )(command)
