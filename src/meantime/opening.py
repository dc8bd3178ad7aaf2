"""From a path to a history, whatever lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.history import build
from meantime.readers import open_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from meantime.history import History
    from meantime.trace import Trace

__all__ = ["Opened", "load", "open_history"]


class Opened(NamedTuple):
    """A trace, read to its end (its tables and facts are final), and the history of it."""

    trace: Trace
    history: History


def open_history(path: str | os.PathLike[str], *, lenient: bool = False) -> History:
    """Return the history of the trace in a file, of any format that is known.

    The file may be compressed, and `-` is standard input. With `lenient`, records that cannot be
    read are counted in the history's anomalies; without, the first of them is an error.

    Raises:
        InputError: If the file cannot be read.
    """
    return load(path, lenient=lenient).history


def load(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    until_ns: int | None = None,
    keep: Callable[[str], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Opened:
    """Return a trace and its history; the options are those of `open_trace`.

    Raises:
        InputError: If the file cannot be read.
    """
    trace = open_trace(path, lenient=lenient, until_ns=until_ns, keep=keep, progress=progress)
    return Opened(trace, build(trace))
