"""`meantime.open`: from a path to a history, whatever the path names.

There are three cases: a history's directory is opened; the history of a trace is taken from the
cache, or built into it; or it is built in memory.
"""

from __future__ import annotations

from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.cache import cached_history
from meantime.errors import InputError
from meantime.history.builder import HistoryBuilder
from meantime.history.directory import open as directory
from meantime.history.ingest import ingest
from meantime.provenance import can_be_read_again
from meantime.providers.loading import provider_of
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from meantime.directory_build import Tell
    from meantime.history import History
    from meantime.providers.loading import ProviderLike

__all__ = ["open_history"]


def open_history(
    path: str | PathLike[str],
    *,
    provider: ProviderLike = None,
    cache: bool = False,
    lenient: bool = False,
    until_ns: int | None = None,
    tell: Tell | None = None,
    progress: Callable[[int, int], None] | None = None,
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
        until_ns: Leave out what is later, in formats that allow it; not with `cache`.
        tell: Called with a sentence that says why a kept history is rebuilt.
        progress: Called with the bytes read and the bytes in all.

    Raises:
        InputError: If the file cannot be read.
        ProviderError: If the provider fails, or the file it is declared in is wrong.
    """
    if directory.is_history(path):
        if provider is not None:
            raise InputError(fspath(path), "a history has no events any more for a provider")
        return directory.open_history(path)
    if (Path(path) / "segments").is_dir():
        raise InputError(
            fspath(path),
            "is a history without its manifest: its build was killed as it began, or the file is"
            " lost; build it again",
        )
    chosen = provider_of(provider)
    if cache and can_be_read_again(path):
        cached = cached_history(path, chosen, lenient=lenient, tell=tell, progress=progress)
        if cached is not None:
            return cached
    trace = open_trace(
        path, lenient=lenient, until_ns=until_ns, progress=progress, events=chosen is not None
    )
    return ingest(HistoryBuilder(), trace, chosen)
