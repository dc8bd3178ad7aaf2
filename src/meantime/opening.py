"""From a path to a history, whatever lies there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from meantime.history import build
from meantime.history import opening as directory
from meantime.history.opening import is_history
from meantime.readers import open_trace
from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history import History

__all__ = ["Opened", "load", "open_history"]


class Opened(NamedTuple):
    """A trace, read to its end (its tables and facts are final), and the history of it."""

    trace: Trace
    history: History


def open_history(path: str | os.PathLike[str], *, lenient: bool = False) -> History:
    """Return the history in a directory, or of the trace in a file of any format that is known.

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

    A history's directory has them no more: its trace has facts and no batches.

    Raises:
        InputError: If the file cannot be read.
    """
    if is_history(path):
        history = directory.open_history(path)
        return Opened(_told_by(os.fspath(path), history), history)
    trace = open_trace(path, lenient=lenient, until_ns=until_ns, keep=keep, progress=progress)
    return Opened(trace, build(trace))


def _told_by(source: str, history: History) -> Trace:
    """Return the trace that a history was made of, as far as the history tells."""
    return Trace(
        source=source,
        format="history",
        batches=iter(()),
        tags=list(history.tags),
        lanes=[lane.declaration for lane in history.lanes],
        clock=history.clock,
        bounds=history.bounds,
        title=history.title,
        anomalies=history.anomalies,
        facts=history.facts,
        lost=list(history.lost),
    )
