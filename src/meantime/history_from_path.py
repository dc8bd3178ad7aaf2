"""`meantime.open`: from a path to a history, whatever the path names.

There are three cases: a history's directory is opened; the history of a trace is taken from the
cache, or built into it; or it is built in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from meantime.cache import cached_history
from meantime.errors import InputError
from meantime.history.builder import HistoryBuilder
from meantime.history.directory import open as directory
from meantime.history.directory.open import is_history
from meantime.history.ingest import ingest
from meantime.provenance import can_be_read_again
from meantime.providers.loading import provider_of
from meantime.readers import open_trace
from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.directory_build import Tell
    from meantime.history import History
    from meantime.providers.loading import ProviderLike

__all__ = ["Opened", "load", "open_history"]


class Opened(NamedTuple):
    """A trace, read to its end (its tables and facts are final), and the history of it."""

    trace: Trace
    history: History


def open_history(
    path: str | os.PathLike[str],
    *,
    provider: ProviderLike = None,
    cache: bool = False,
    lenient: bool = False,
    tell: Tell | None = None,
) -> History:
    """Return the history in a directory, or of the trace in a file of any format that is known.

    The file may be compressed, and `-` is standard input.

    Args:
        path: Where it lies.
        provider: What makes states of a trace's events; see `meantime.build`.
        cache: Keep a trace's history in `$XDG_CACHE_HOME/meantime`, or `~/.cache/meantime`, and
            use it again as long as the trace, the provider and its version are the same.
        lenient: Count records that cannot be read in the history's anomalies; without, the first of
            them is an error.
        tell: Called with a sentence that says why a kept history is rebuilt.

    Raises:
        InputError: If the file cannot be read.
        ProviderError: If the provider fails, or the file it is declared in is wrong.
    """
    return load(path, provider=provider, cache=cache, lenient=lenient, tell=tell).history


def load(
    path: str | os.PathLike[str],
    *,
    provider: ProviderLike = None,
    cache: bool = False,
    lenient: bool = False,
    until_ns: int | None = None,
    keep: Callable[[str], bool] | None = None,
    tell: Tell | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Opened:
    """Return a trace and its history; the options are those of `open_history` and `open_trace`.

    A history's directory has them no more: its trace has facts and no batches.

    Raises:
        InputError: If the file cannot be read.
        ProviderError: If the provider fails, or the file it is declared in is wrong.
    """
    source = os.fspath(path)
    if is_history(path):
        if provider is not None:
            raise InputError(source, "a history has no events any more for a provider")
        history = directory.open_history(path)
        return Opened(_told_by(source, history), history)
    if (Path(path) / "segments").is_dir():
        raise InputError(
            source,
            "is a history without its manifest: its build was killed as it began, or the file is"
            " lost; build it again",
        )
    made_by = provider_of(provider)
    if cache and can_be_read_again(path):
        cached = cached_history(
            path, made_by, lenient=lenient, tell=tell or (lambda _: None), progress=progress
        )
        if cached is not None:
            return Opened(_told_by(source, cached), cached)
    trace = open_trace(
        path,
        lenient=lenient,
        until_ns=until_ns,
        keep=keep,
        progress=progress,
        events=made_by is not None,
    )
    return Opened(trace, ingest(HistoryBuilder(), trace, made_by))


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
        records=int(history.provenance.get("records", 0)),
        facts=history.facts,
        lost=list(history.lost),
    )
