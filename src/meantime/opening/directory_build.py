"""Builds the history of a trace into a directory, or resumes a build that was interrupted there."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from meantime.errors import HistoryClosedError, InputError, OutputError, ProviderError
from meantime.files import folder_of_mode, mode_of
from meantime.history.builder import HistoryBuilder
from meantime.history.directory import is_history
from meantime.history.directory.open import open_history
from meantime.history.ingest import ingest
from meantime.opening.provenance import staleness_reason
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from pathlib import Path

    from meantime.history import History
    from meantime.providers import StateProvider

    # Called with a sentence for the user.
    Notify: TypeAlias = Callable[[str], None]
    # Called with the bytes read and the bytes in all.
    ProgressCallback: TypeAlias = Callable[[int, int], None]

__all__ = ["build_directory", "builder_for", "ignore"]


def build_directory(
    trace: str | PathLike[str],
    provider: StateProvider | None,
    path: Path,
    *,
    provenance: dict[str, str],
    lenient: bool = False,
    resume: bool = False,
    notify: Notify | None = None,
    progress: ProgressCallback | None = None,
) -> History:
    """Return the history of a trace, built in a directory; see `meantime.build`.

    Args:
        trace: The file that is read.
        provider: Derives the states; None takes those of the trace.
        path: The directory.
        provenance: What the history is built from; it is stored with it.
        lenient: Count bad records as anomalies.
        resume: Resume an unfinished history in the directory.
        notify: Called with a sentence about whether the build is resumed.
        progress: Called with the bytes read and the bytes in all.

    Raises:
        InputError: If the trace cannot be read, or has no events for the provider.
        OutputError: If the directory exists, or cannot be written.
        ProviderError: If the provider fails.
    """
    if resume and is_history(path):
        try:
            builder = _resumed(path, trace, provenance, provider, notify or ignore)
        except HistoryClosedError:
            return _finished(path, provenance, notify or ignore)
    else:
        builder = _new(path, trace, provider)
    builder.contents.catalogue.set_metadata("provenance", provenance)
    position = None if provider is None or builder.position is None else builder.position["input"]
    try:
        opened = open_trace(
            trace,
            lenient=lenient,
            progress=progress,
            position=position,
            events=provider is not None,
        )
        return ingest(builder, opened, provider)
    except (InputError, ProviderError):
        # A file would fail there again. Data that came through a pipe cannot be read again, so
        # what was built of it is left for the user.
        if "fingerprint" in provenance:
            shutil.rmtree(path)
        raise


def builder_for(
    provider: StateProvider | None,
    path: str | PathLike[str] | None = None,
    *,
    keep: Literal["everything", "ongoing"] = "everything",
) -> HistoryBuilder:
    """Return a new builder whose changes may be as late as a provider says."""
    reorder_ns = 0 if provider is None else provider.reorder_ns
    return HistoryBuilder(path, reorder_ns=reorder_ns, keep=keep)


def _new(path: Path, trace: str | PathLike[str], provider: StateProvider | None) -> HistoryBuilder:
    """Return the builder of a directory that those may read who may read the trace.

    Raises:
        OutputError: If the directory exists, or cannot be created.
    """
    # what exists is refused by the builder, and where there is no folder for it
    if path.absolute().parent.is_dir():
        with suppress(OSError):
            folder_of_mode(path, mode_of([trace]))
    return builder_for(provider, path)


def _resumed(
    path: Path,
    trace: str | PathLike[str],
    provenance: dict[str, str],
    provider: StateProvider | None,
    notify: Notify,
) -> HistoryBuilder:
    """Return a builder that resumes an unfinished history, or a new one if that cannot be done.

    Raises:
        HistoryClosedError: If the history is finished.
    """
    builder = HistoryBuilder(path, resume=True)
    reason = staleness_reason(builder.contents.catalogue.metadata.provenance, provenance)
    if reason is None and provider is not None and provider.reorder_ns:
        reason = "the changes delayed by reorder_ns are lost"
    if reason is None and builder.position is None:
        forgets = provider is not None and provider.save() is None
        reason = (
            "the provider has no save()" if forgets else "its input has no position to resume from"
        )
    if reason is None:
        notify(f"{path}: resuming the unfinished build")
        return builder
    notify(f"{path}: the build was not finished; rebuilding: {reason}")
    shutil.rmtree(path)
    return _new(path, trace, provider)


def _finished(path: Path, provenance: dict[str, str], notify: Notify) -> History:
    """Return a finished history with the same provenance.

    Raises:
        OutputError: If it has another one.
    """
    history = open_history(path)
    if (reason := staleness_reason(history.provenance, provenance)) is not None:
        raise OutputError(f"{path}: exists, and was built from something else: {reason}")
    notify(f"{path}: the build was already finished")
    # A build that was killed just after it finished left its logs.
    for log in path.glob("*.log"):
        log.unlink()
    shutil.rmtree(path / "events", ignore_errors=True)
    return history


def ignore(sentence: str) -> None:
    """Do nothing with a sentence for which there is no callback."""
    del sentence
