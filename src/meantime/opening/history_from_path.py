"""`meantime.open`: from a path to a history, whatever the path names.

There are three cases: a history's directory is opened; the history of a trace is taken from the
cache, or built into it; or it is built in memory.
"""

from __future__ import annotations

import shlex
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError, UsageError
from meantime.history.directory import is_history, is_joined, is_stored_history
from meantime.model.anomalies import check_strictness
from meantime.model.extent import instant_of
from meantime.model.input_path import (
    EVENTS_NOT_FOUND,
    GUESSED,
    NO_PROVIDER,
    InputPath,
    allowed_for,
    input_path,
    reject_choices,
    without_scheduling,
)
from meantime.model.units import Instant
from meantime.stores import store_url

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.model.column_mapping import ColumnMapping, Columns
    from meantime.model.input_path import Allow, Include
    from meantime.model.units import Time
    from meantime.opening.directory_build import Notify, ProgressCallback
    from meantime.providers.base import StateProvider
    from meantime.providers.loading import ProviderLike

__all__ = ["open_history"]


def open_history(
    path: str | PathLike[str] | Any,
    *,
    columns: Columns | None = None,
    format: str | None = None,  # noqa: A002 - named as on the command line
    include: Include = (),
    repair_clocks: bool = False,
    allow: Allow = (),
    memory: int | None = None,
    provider: ProviderLike = None,
    cache: bool = False,
    lenient: bool = False,
    strict: bool = False,
    until_ns: int | None = None,
    start: Time | Instant | None = None,
    end: Time | Instant | None = None,
    notify: Notify | None = None,
    progress: ProgressCallback | None = None,
) -> History:
    """Return the history in a directory, or the history of a trace in any format.

    For questions about a part of a large trace, give `start` and `end`: what is only outside may
    then be left out while reading. Times are nanoseconds of the trace's own clock, or texts:
    `"1.5s"` counts from where the trace begins, `"2026-07-01T09:00Z"` is a date, and `"abs:1.5s"`
    is of the trace's own clock.

    Args:
        path: A history's directory, or a trace, which may be compressed; `-` is standard input. A
            URL of a store that fsspec knows, such as `s3://`, names a trace, or a history if it
            ends in `.mth`, which is copied into the cache. Or a table of pandas, polars, pyarrow or
            DuckDB: what has the Arrow C stream protocol.
        columns: Which columns of a table, or fields of a log of JSON lines, are the times, entities
            and states: `{"start": "Start", "end": "End", "entity": "Node", "state": "Job"}`, or a
            text as of the option `--columns`. What is not given is guessed from the names. With
            `pair` and `by`, events of a log become spans. Without it the file
            `PATH.columns.toml` is used, if there is one.
        format: The name of the format, as `meantime formats` lists it, for a file that is not
            recognised, or recognised as another one.
        include: `"env"` copies command lines, environment variables and headers of requests, which
            are otherwise left out and counted.
        repair_clocks: Shift the times of services whose clocks differ from those of their callers,
            in traces of OpenTelemetry, Jaeger and Zipkin.
        allow: What the file of a joined history may refer to: `"paths"` outside of its folder, and
            `"urls"` in other stores than its own. Someone else may have written it, and learn who
            opens it, or have any file copied into a page.
        memory: How many bytes a compressed input may expand to, and the objects made of JSON may
            take, whatever its size is. Otherwise what expands more than a hundred times, or needs
            more than three quarters of the memory there is, is refused.
        provider: Derives states from the events of a trace; see `meantime.build`. `"none"` leaves
            out the states of CPUs and threads that follow from the events of a scheduler.
        cache: Keep the history of a trace in `$XDG_CACHE_HOME/meantime`, or `~/.cache/meantime`,
            and use it again until the trace, the provider or its version changes.
        lenient: Skip records that cannot be read and count them as anomalies, instead of raising at
            the first. Of a history's directory, answer from the intact rest: where a segment is
            damaged, attributes have no state unless it is known, `History.lost` has the range, and
            `History.damage` the file.
        strict: Fail if the input has any anomaly.
        until_ns: Skip what is later, in formats that allow it; not with `cache`.
        start: Only states that overlap the range from this time to `end` are needed. Others are
            left out where that saves time, which is in statemaps; `history.metadata.range_ns` is
            None if all were read. A state in the range keeps its beginning and its end, and what
            is not a state is never left out.
        end: The end of that range.
        notify: Called with a sentence that gives the reason when a cached history is rebuilt, or
            says which columns were guessed.
        progress: Called with the bytes read and the bytes in all.

    Raises:
        InputError: If the file cannot be read, or `strict` and it has an anomaly.
        ProviderError: If the provider fails, or the file that declares it is wrong.
        UsageError: If it is to be read both `lenient` and `strict`, a text is not a time, or the
            columns cannot be understood, or there is no such format.
    """
    check_strictness(lenient=lenient, strict=strict)
    start, end = (
        time if time is None or isinstance(time, int | Instant) else instant_of(time)
        for time in (start, end)
    )
    mapping = None
    if columns is not None:
        from meantime.model.column_mapping import mapping_of  # noqa: PLC0415 - few files need it

        mapping = mapping_of(columns)
    if not isinstance(path, str | PathLike):
        if format is not None or include or repair_clocks:
            raise UsageError("format, include and repair_clocks apply to a path; this is a table")
        history = _of_table(path, mapping, _loaded(provider), lenient=lenient, until_ns=until_ns)
        if strict:
            history.anomalies.refuse(history.metadata.source)
        return history
    given = input_path(
        store_url(path),
        mapping,
        format,
        include,
        repair_clocks=repair_clocks,
        allow=allow,
        memory=memory,
    )
    if provider == NO_PROVIDER:
        given, provider = without_scheduling(given), None
    history = _opened(
        given,
        _loaded(provider),
        cache=cache,
        lenient=lenient,
        until_ns=until_ns,
        start=start,
        end=end,
        notify=notify,
        progress=progress,
    )
    if strict:
        history.anomalies.refuse(fspath(given))
    missing = history.facts.get(EVENTS_NOT_FOUND)
    if notify is not None and provider is not None and missing is not None:
        notify(f"{fspath(given)}: the trace has no event {missing}")
    return history


def _loaded(provider: ProviderLike) -> StateProvider | None:
    if provider is None:
        return None
    from meantime.providers.loading import provider_of  # noqa: PLC0415 - most traces need none

    return provider_of(provider)


def _of_table(
    table: Any,
    mapping: ColumnMapping | None,
    provider: StateProvider | None,
    *,
    lenient: bool,
    until_ns: int | None,
) -> History:
    """Return the history of a table of another library.

    Raises:
        UsageError: If it is none.
    """
    if not hasattr(table, "__arrow_c_stream__"):
        raise UsageError(
            f"cannot open {type(table).__name__}: give a path, or a table of pandas, polars,"
            " pyarrow or DuckDB"
        )
    if provider is not None:
        raise UsageError("a provider needs a log of events; this is a table")
    from meantime.history.ingest import build  # noqa: PLC0415 - as below
    from meantime.readers.contract import ReadOptions  # noqa: PLC0415 - as below
    from meantime.readers.table import trace_of  # noqa: PLC0415 - as below

    return build(trace_of(table, mapping, ReadOptions(lenient=lenient, until_ns=until_ns)))


def _check_directory(path: Path) -> None:
    """Check that a directory is not that of a history that cannot be opened.

    Raises:
        InputError: If it is.
    """
    from meantime.history.directory.lock import is_begun  # noqa: PLC0415 - for few directories

    if is_begun(path):
        raise InputError(
            fspath(path),
            "is a history that another process begins to build: open it again in a moment",
        )
    if (path / "segments").is_dir():
        raise InputError(
            fspath(path),
            "is a history without its manifest: its build was killed at the beginning, or the file"
            " was deleted; build it again",
        )


def _opened(
    path: str | PathLike[str],
    provider: StateProvider | None,
    *,
    cache: bool,
    lenient: bool,
    until_ns: int | None,
    start: int | Instant | None,
    end: int | Instant | None,
    notify: Notify | None,
    progress: ProgressCallback | None,
) -> History:
    source = None
    if is_stored_history(path) and provider is None and not isinstance(path, InputPath):
        from meantime.opening.cache import fetched_history  # noqa: PLC0415 - few inputs are URLs

        source = fspath(path)
        path = fetched_history(source, progress=progress)
    if is_history(path) or is_stored_history(path):
        if provider is not None:
            raise InputError(
                fspath(path), "this is a finished history; a provider needs the original trace"
            )
        reject_choices(path)
        from meantime.history.directory.open import open_history as open_directory  # noqa: PLC0415 - 5 ms, not for traces

        # one that is damaged has anomalies
        return open_directory(path, lenient=lenient, source=source)
    if is_joined(path):
        reject_choices(path)
        return _of_joined(path, provider, cache=cache, lenient=lenient, until_ns=until_ns)
    if Path(path).is_dir():
        _check_directory(Path(path))
    if cache:
        from meantime.opening.cache import cached_history  # noqa: PLC0415 - 5 ms, and few commands cache

        cached = cached_history(path, provider, lenient=lenient, notify=notify, progress=progress)
        if cached is not None:
            return cached
    # A history's directory, and one from the cache, need nothing that builds: 15 ms.
    from meantime.history.builder import HistoryBuilder  # noqa: PLC0415 - as above
    from meantime.history.ingest import ingest  # noqa: PLC0415 - as above
    from meantime.readers import open_trace  # noqa: PLC0415 - as above

    reorder_ns = 0 if provider is None else provider.reorder_ns
    trace = open_trace(
        path,
        lenient=lenient,
        until_ns=until_ns,
        progress=progress,
        events=provider is not None,
        # a provider needs the events before the range too
        start=None if provider is not None else start,
        end=None if provider is not None else end,
    )
    history = ingest(HistoryBuilder(reorder_ns=reorder_ns), trace, provider)
    if notify is not None and (guessed := trace.facts.get(GUESSED)):
        notify(f"{fspath(path)}: columns guessed: --columns {shlex.quote(guessed)}")
    return history


def _of_joined(
    path: str | PathLike[str],
    provider: StateProvider | None,
    *,
    cache: bool,
    lenient: bool,
    until_ns: int | None,
) -> History:
    from meantime.opening.joined_file import open_joined  # noqa: PLC0415 - few paths are joined histories

    if provider is not None:
        raise InputError(
            fspath(path), "this joins finished histories; a provider needs the original traces"
        )

    def open_part(part: Path | str) -> History:
        # a trace is read each time, unless it is cached
        return open_history(part, cache=cache, lenient=lenient, until_ns=until_ns)

    return open_joined(path, open_part, allowed_for(path))
