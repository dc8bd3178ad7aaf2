"""`meantime.build`: from a trace or events, and a provider, to a history."""

from __future__ import annotations

from copy import copy
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from meantime.errors import UsageError
from meantime.history.checkpoints import build_checkpoints
from meantime.history.ingest import ingest
from meantime.model.column_mapping import mapping_of
from meantime.model.events import Event, Events
from meantime.model.input_path import NO_PROVIDER, input_path, without_scheduling
from meantime.model.trace import Trace
from meantime.opening.directory_build import build_directory, builder_for
from meantime.opening.provenance import can_be_read_again, provenance_of
from meantime.providers.loading import provider_of
from meantime.readers import open_trace
from meantime.stores import store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meantime.history import History
    from meantime.model.column_mapping import Columns
    from meantime.model.input_path import Include
    from meantime.opening.directory_build import Notify, ProgressCallback
    from meantime.providers.base import StateProvider
    from meantime.providers.loading import ProviderLike

__all__ = ["Keep", "build"]

Keep: TypeAlias = Literal["everything", "ongoing", "checkpoints"]


def build(
    trace: str | PathLike[str] | Trace | Iterable[Event],
    provider: ProviderLike = None,
    path: str | PathLike[str] | None = None,
    *,
    columns: Columns | None = None,
    format: str | None = None,  # noqa: A002 - named as on the command line
    include: Include = (),
    keep: Keep = "everything",
    lenient: bool = False,
    reorder_ns: int | None = None,
    resume: bool = False,
    notify: Notify | None = None,
    progress: ProgressCallback | None = None,
) -> History:
    """Return the history of a trace, with the states that a provider derives from its events.

    Args:
        trace: A file in any format, an open trace, or events.
        provider: A `StateProvider`, a class of it, or a TOML or Python file that defines one.
            Without a provider the history has the states of the trace itself, and those that follow
            from the events of a scheduler; with `"none"`, it is without the latter.
        path: The directory to build it in, `NAME.mth`; None builds it in memory.
        columns: Which columns of a table, or fields of a log of JSON lines, are the times and
            states; see `meantime.open`.
        format: The name of the format of a file; see `meantime.open`.
        include: What is private in a file and is copied; see `meantime.open`.
        keep: `"everything"`; or `"ongoing"`: only the current state of each attribute; or
            `"checkpoints"`: queries are answered by replaying events from the nearest checkpoint.
        lenient: Skip records that cannot be read and count them as anomalies, instead of raising at
            the first.
        reorder_ns: How late the changes of an attribute may come, instead of what the provider
            says (`StateProvider.reorder_ns`).
        resume: Resume an unfinished history in the directory if possible. The result is the same,
            byte for byte, as that of a build that was not interrupted.
        notify: Called with a sentence about whether the build is resumed, and why not.
        progress: Called with the bytes read and the bytes in all.

    Raises:
        InputError: If the trace cannot be read, or has no events for the provider.
        OutputError: If the directory exists, or cannot be written.
        ProviderError: If the provider fails, or the file that declares it is wrong.
        UsageError: If arguments exclude each other.
    """
    trace = store_url(trace)
    has_scheduling = provider != NO_PROVIDER
    chosen = provider_of(provider) if has_scheduling else None
    if reorder_ns is not None:
        chosen = _reordering(chosen, reorder_ns)
    if columns is not None or format is not None or include or not has_scheduling:
        trace = _with_choices(trace, columns, format, include, has_scheduling=has_scheduling)
    if keep not in get_args(Keep):
        raise UsageError(f"unknown keep {keep!r}; choose one of: {', '.join(get_args(Keep))}")
    if keep != "everything" and path is not None:
        raise UsageError(f"{path}: keep={keep!r} keeps the history in memory; leave out the path")
    if keep == "checkpoints":
        if chosen is None:
            raise UsageError("keep='checkpoints' needs a provider, to replay events")
        if chosen.reorder_ns:
            raise UsageError("keep='checkpoints' needs changes in order of time, not reorder_ns")
        return build_checkpoints(_reopening(trace, lenient=lenient), chosen)
    if not isinstance(trace, str | PathLike):
        opened = trace if isinstance(trace, Trace) else _trace_of(trace)
        return ingest(builder_for(chosen, path, keep=keep), opened, chosen)
    provenance = provenance_of(trace, chosen, lenient=lenient, in_memory=path is None)
    if path is not None:
        return build_directory(
            trace,
            chosen,
            Path(path),
            provenance=provenance,
            lenient=lenient,
            resume=resume,
            notify=notify,
            progress=progress,
        )
    builder = builder_for(chosen, keep=keep)
    builder.contents.catalogue.set_metadata("provenance", provenance)
    opened = open_trace(trace, lenient=lenient, progress=progress, events=chosen is not None)
    return ingest(builder, opened, chosen)


def _reordering(provider: StateProvider | None, reorder_ns: int) -> StateProvider:
    """Return a provider whose changes may be late.

    Raises:
        UsageError: If there is no provider, or the time is not possible.
    """
    if provider is None:
        raise UsageError("reorder_ns applies to the changes of a provider, and there is none")
    if reorder_ns < 0:
        raise UsageError(f"reorder_ns is {reorder_ns}: it is a number of nanoseconds, 0 or more")
    provider = copy(provider)
    provider.reorder_ns = reorder_ns
    return provider


def _with_choices(
    trace: str | PathLike[str] | Trace | Iterable[Event],
    columns: Columns | None,
    format_: str | None,
    include: Include,
    *,
    has_scheduling: bool,
) -> str | PathLike[str]:
    """Return a path with what is given about it.

    Raises:
        UsageError: If the trace is not a path, or the columns cannot be understood.
    """
    if not isinstance(trace, str | PathLike):
        raise UsageError(
            "columns, format, include and the provider 'none' apply to a file; this is an open"
            " trace, or events"
        )
    path = input_path(trace, mapping_of(columns), format_, include)
    return path if has_scheduling else without_scheduling(path)


def _reopening(
    trace: str | PathLike[str] | Trace | Iterable[Event], *, lenient: bool
) -> Callable[[Any], Trace]:
    """Return a function that opens a trace at a position; it can be called repeatedly.

    Raises:
        UsageError: If the trace can be read only once.
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
    """Return a trace of these events, sorted by time."""
    trace = Trace("events", "events", iter(()))
    ordered = list(events)
    for event in ordered:
        if not isinstance(event, Event):
            raise UsageError(
                f"{event!r} is not an event: give meantime.model.events.Event objects, or one path"
            )
    ordered.sort(key=attrgetter("time_ns"))
    if ordered:
        trace.batches = iter([Events(ordered, trace.values)])
        trace.bounds = (ordered[0].time_ns, ordered[-1].time_ns + 1)
    trace.records = len(ordered)
    return trace
