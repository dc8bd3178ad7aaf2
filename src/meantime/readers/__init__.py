"""Readers: one module per format, each turning an input into a `Trace`.

A format is a module that implements `contract.Reader`, and a declaration in `formats`, by whose
signs `recognition` chooses it; the module is imported then. Installed packages add readers by entry
points of the group `meantime.readers`.

A reader parses blocks, so its memory depends on the trace's columns and not on the file's size. A
batch has up to 2^20 rows. Sequential text is read through a `Window`, which keeps what an
unfinished record needs. The scanners of Chrome JSON and `.spall` read 1 MB at a time through
`FileText`, with `pread`: if a block cuts an event, the next block begins there; if that event is
the first in its block, the next block is larger. The readers of JSON profiles, tables and spans of
services need the whole input in memory.

Files are never mapped, since another program that truncates one would kill the process with
SIGBUS. Arguments stay in the file: a batch has their offsets, and `FileText` reads their text when
it is used, unless the file has changed. Compressed inputs and pipes of both formats are in memory
up to 64 MiB; larger ones are unpacked into a temporary file without a name.

Kernels return codes. The reader has the tables that give them a meaning: which phase of a Chrome
event is a span, which id an event without one gets, the names of anomalies and errors.
`columns.Interner` assigns the codes of values, and `attributes.PathTable` those of paths, which
are columns in a tree, as attributes of a history are. The paths of processes, threads, CPUs,
counters and async operations come from `attribute_paths`, with which queries and exports recognise
them.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError, UsageError
from meantime.model.clocks import with_utc
from meantime.model.input_path import (
    format_for,
    is_clock_repair_wanted,
    is_private_wanted,
    is_scheduling_wanted,
    mapping_for,
    memory_for,
)
from meantime.model.trace import rows_of
from meantime.readers.contract import ReadOptions
from meantime.readers.recognition import (
    Recognised,
    head_of,
    reader_named,
    readers,
    recognise,
    recognise_columns,
    takes_columns,
)
from meantime.readers.source import open_source

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from meantime.model.column_mapping import ColumnMapping
    from meantime.model.trace import Batch, Trace
    from meantime.model.units import Instant, Time
    from meantime.readers.source import Source

__all__ = ["open_trace", "open_without_stacks", "readers", "recognise"]

_CTF, _RECORDING = "ctf", "recording"
# One of them is in each text of a command, or an address, that has a secret.
_OF_COMMANDS = ("=", "--", "://")
# What is counted of an input that is cut, which may have been cut before its first record.
_OF_THE_END = ("truncated", "unclosed")


def _chosen(source: Source, format_: str | None, columns: ColumnMapping | None) -> Recognised:
    """Return the reader of an input: the one that is named, or that recognises it.

    Raises:
        InputError: If the input is empty, or no reader recognises it, or columns are given and it
            is neither a table nor a log.
        UsageError: If there is no such format, or it is one of directories.
    """
    if format_ is None:
        if columns is None:
            return recognise(source)
        return recognise_columns(source, has_pattern=bool(columns.pattern))
    reader = reader_named(format_)
    if reader is None:
        raise UsageError(f"{source.name}: the format {format_!r} is one of directories")
    if columns is not None and not takes_columns(format_):
        raise InputError(
            source.name,
            f"columns and pairs apply to tables and to logs of JSON lines, not {format_}",
        )
    if columns is not None and columns.pattern and format_ != "log":
        raise InputError(source.name, f"a pattern is of lines of text (log), not of {format_}")
    head_of(source)
    return Recognised(reader, "was given as --format")


def open_trace(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    until_ns: int | None = None,
    keep: Callable[[str], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
    position: Any = None,
    events: bool = False,
    start: Time | Instant | None = None,
    end: Time | Instant | None = None,
) -> Trace:
    """Return the trace in a file of any supported format; `-` is standard input.

    It is read while its batches are consumed, and closed when they are exhausted.

    Args:
        path: The file; a recording is a directory, or the file it was packed into. Compressed
            files (gzip, Zstandard, xz, bzip2) are recognised by their bytes. An `InputPath` may
            name the format, and says what is copied; it, or a file `PATH.columns.toml`, says what
            the columns of a table or the fields of a log are.
        lenient: Count bad records as anomalies and go on, instead of stopping at the first.
        until_ns: Leave out what is later than this, where the format allows that.
        keep: Called with each entity's name; entities for which it returns False are left out.
        progress: Called with the bytes read and the bytes in all (0 if unknown).
        position: Continue after the batch of `Events` that has this `position`.
        events: Deliver perf's tracepoints as `Events` with their fields, instead of as samples.
        start: Leave out states before this time, where the format allows that: see `ReadOptions`.
        end: Leave out states after this time, in the same way.

    Raises:
        InputError: If the file cannot be read, or no reader recognises it, or columns are given
            and it is neither a table nor a log, or clocks are to be repaired that it has not.
        UsageError: If the format that is named does not exist.
    """
    columns, format_ = mapping_for(path), format_for(path)
    options = ReadOptions(
        lenient,
        until_ns,
        keep,
        progress,
        position,
        events,
        start,
        end,
        columns,
        is_private_wanted(path),
        is_scheduling_wanted(path),
        is_clock_repair_wanted(path),
    )
    if Path(path).is_dir():
        return _in_directory(path, options, format_)
    source = open_source(path, lenient=lenient)
    source.most_memory = memory_for(path)
    # the reader closes the source from here on, unless it fails
    try:
        chosen = _chosen(source, format_, columns)
        if not getattr(chosen.reader, "REPAIRS_CLOCKS", False):
            _check_no_repair(options, source.name, chosen.reader.FORMAT)
        trace = _read(chosen, source, options)
    except BaseException:
        source.close()
        raise
    trace.input = source
    return trace


def _read(chosen: Recognised, source: Source, options: ReadOptions, **given: bool) -> Trace:
    """Return a trace with what is known of any format, unless nothing of it is used."""
    source.is_text = getattr(chosen.reader, "TEXT", False)
    source.makes_objects = getattr(chosen.reader, "OBJECTS", False)
    trace = chosen.reader.read(source, options, **given)
    trace.recognised = chosen.why
    trace.batches = _completed(trace, trace.batches, options, source)
    is_part = options.until_ns is not None or options.keep is not None
    is_part |= (options.position, options.start, options.end) != (None, None, None)
    if not is_part:
        trace.batches = _used(trace, source.name, trace.batches)
    return trace


def _used(trace: Trace, source: str, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches of a trace.

    Raises:
        InputError: In the end, if records were left out and none became anything that can be shown.
    """
    is_used = False
    for batch in batches:
        is_used = is_used or rows_of(batch) > 0
        yield batch
    if not is_used and (reasons := trace.anomalies.faults(without=_OF_THE_END)):
        raise InputError(
            source,
            f"nothing in it can be shown ({trace.format}; it {trace.recognised}):"
            f" {'; '.join(reasons)}",
        )


def _completed(
    trace: Trace, batches: Iterator[Batch], options: ReadOptions, source: Source | None = None
) -> Iterator[Batch]:
    """Yield the batches of a trace; then add what is known of any format when all is read."""
    yield from batches
    # whoever made a recording has decided that
    if not options.private and trace.format != _RECORDING:
        texts = (*trace.facts.values(), *trace.names.values())
        if any(mark in text for mark in _OF_COMMANDS for text in texts):
            import_module("meantime.readers.private_fields").hide_secrets(trace)
    if source is not None:
        trace.anomalies.add("zero_bytes", source.zero_bytes)
        trace.anomalies.add("damaged_compression", int(source.damaged))
    if trace.bounds is not None:
        # as its history does: a reader only says what its format promises
        trace.clock = with_utc(trace.clock, trace.bounds[0])


def _check_no_repair(options: ReadOptions, source: str, what: str) -> None:
    """Fail if clocks are to be repaired in a format that has none of services.

    Raises:
        InputError: If so.
    """
    if options.repair_clocks:
        raise InputError(source, f"--repair-clocks applies to traces of services; this is {what}")


def _in_directory(path: str | os.PathLike[str], options: ReadOptions, format_: str | None) -> Trace:
    if options.columns is not None:
        raise InputError(str(path), "columns apply to tables and logs; this is a directory")
    _check_no_repair(options, str(path), "a directory")
    from meantime.readers.ctf_metadata import is_ctf  # noqa: PLC0415 - only for directories

    if format_ not in {None, _CTF, _RECORDING}:
        reader_named(format_)
        raise UsageError(f"{path}: this is a directory; its format is {_CTF} or {_RECORDING}")
    if format_ == _CTF or (format_ is None and is_ctf(Path(path))):
        ctf = import_module("meantime.readers.ctf")
        return _in_folder(ctf.read(Path(path), options), options)
    # all other directories are recordings
    reading = import_module("meantime.readers.recording")
    return _in_folder(reading.read(path, private=options.private), options)


def _in_folder(trace: Trace, options: ReadOptions) -> Trace:
    trace.batches = _completed(trace, trace.batches, options)
    return trace


@contextmanager
def open_without_stacks(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    switches: bool = False,
    progress: Callable[[int, int], None] | None = None,
    start: Time | None = None,
    end: Time | None = None,
) -> Iterator[tuple[Trace, bool]]:
    """Yield the trace in a file whose stacks are not needed, closed at the block's end.

    With it, whether every batch is `Samples` that carry a name and a CPU, so that they can be
    counted while they are read. perf text is: its stacks are most of it, and are skipped.

    Args:
        path: A file, or `-`; not a directory.
        lenient: As `open_trace` takes it.
        switches: Whether states that the samples imply are needed too.
        progress: As `open_trace` takes it.
        start: As `open_trace` takes it, and so is `end`.
        end: The end of the range.

    Raises:
        InputError: If the file cannot be read, or its format is unknown.
        UsageError: If the format that is named does not exist.
    """
    columns = mapping_for(path)
    with open_source(path, lenient=lenient) as source:
        chosen = _chosen(source, format_for(path), columns)
        options = ReadOptions(
            lenient=lenient,
            progress=progress,
            start=start,
            end=end,
            columns=columns,
            private=is_private_wanted(path),
            scheduling=is_scheduling_wanted(path),
        )
        if chosen.reader.FORMAT in {"perf", "perf-data"}:
            yield _read(chosen, source, options, stacks=False, switches=switches), not switches
        else:
            yield _read(chosen, source, options), False
