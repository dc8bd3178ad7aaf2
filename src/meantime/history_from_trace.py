"""`meantime.build`: from a trace or events, and a provider, to a history."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from meantime.directory_build import build_directory
from meantime.errors import UsageError
from meantime.events import Events
from meantime.history.builder import HistoryBuilder
from meantime.history.checkpoints import build_checkpoints
from meantime.history.ingest import ingest
from meantime.provenance import can_be_read_again, provenance_of
from meantime.providers.loading import provider_of
from meantime.readers import open_trace
from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meantime.directory_build import Tell
    from meantime.events import Event
    from meantime.history import History
    from meantime.providers.loading import ProviderLike

__all__ = ["Keep", "build"]

Keep: TypeAlias = Literal["everything", "ongoing", "checkpoints"]


def build(
    trace: str | PathLike[str] | Trace | Iterable[Event],
    provider: ProviderLike = None,
    path: str | PathLike[str] | None = None,
    *,
    keep: Keep = "everything",
    lenient: bool = False,
    resume: bool = False,
    tell: Tell | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Return the history of a trace, its events as a provider understands them.

    Args:
        trace: A file of any format that is known, an open trace, or events.
        provider: A `StateProvider`, the class of one, or a file that declares or holds one (TOML
            or Python). Without one the history holds what the trace itself says.
        path: The directory to keep it in, `NAME.mth`; None keeps it in memory.
        keep: `"everything"`; or `"ongoing"`: only the present, nothing is stored; or
            `"checkpoints"`: what is asked for is made anew from the nearest checkpoint.
        lenient: Count bad records as anomalies and go on, instead of stopping at the first.
        resume: Go on with an unfinished history in the directory, if that can be done. The result
            is the same, byte for byte, as that of a build that was not stopped.
        tell: Called with a sentence that says whether the build goes on, and why not.
        progress: Called with the bytes read and the bytes in all.

    Raises:
        InputError: If the trace cannot be read, or has no events for the provider.
        OutputError: If the directory exists, or cannot be written.
        ProviderError: If the provider fails, or the file it is declared in is wrong.
    """
    chosen = provider_of(provider)
    if keep not in get_args(Keep):
        raise UsageError(f"keep is {keep!r}: it is one of {', '.join(get_args(Keep))}")
    if keep != "everything" and path is not None:
        raise UsageError(f"{path}: keep={keep!r} keeps the history in memory; leave out the path")
    if keep == "checkpoints":
        if chosen is None:
            raise UsageError("keep='checkpoints' needs a provider, which is run again")
        return build_checkpoints(_reopening(trace, lenient=lenient), chosen)
    if not isinstance(trace, str | PathLike):
        opened = trace if isinstance(trace, Trace) else _trace_of(trace)
        return ingest(HistoryBuilder(path, keep=keep), opened, chosen)
    provenance = provenance_of(trace, chosen, lenient=lenient)
    if path is not None:
        return build_directory(
            trace,
            chosen,
            Path(path),
            provenance=provenance,
            lenient=lenient,
            resume=resume,
            tell=tell,
            progress=progress,
        )
    builder = HistoryBuilder(keep=keep)
    builder.contents.catalogue.set_metadata("provenance", provenance)
    opened = open_trace(trace, lenient=lenient, progress=progress, events=chosen is not None)
    return ingest(builder, opened, chosen)


def _reopening(
    trace: str | PathLike[str] | Trace | Iterable[Event], *, lenient: bool
) -> Callable[[Any], Trace]:
    """Return what opens a trace at a position, again and again.

    Raises:
        UsageError: If it can be read only once.
    """
    if isinstance(trace, Trace) or (
        isinstance(trace, str | PathLike) and not can_be_read_again(trace)
    ):
        raise UsageError("keep='checkpoints' needs a trace that can be read again: a file")
    if isinstance(trace, str | PathLike):
        return lambda position: open_trace(trace, lenient=lenient, position=position, events=True)
    events = list(trace)
    return lambda _: _trace_of(events)


def _trace_of(events: Iterable[Event]) -> Trace:
    """Return a trace of events that are at hand, in order of time."""
    trace = Trace("events", "events", iter(()))
    ordered = sorted(events, key=lambda event: event.time_ns)
    if ordered:
        trace.batches = iter([Events(ordered, trace.values)])
        trace.bounds = (ordered[0].time_ns, ordered[-1].time_ns + 1)
    trace.records = len(ordered)
    return trace
