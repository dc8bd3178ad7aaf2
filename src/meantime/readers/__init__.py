"""Readers: one module per format, each turning an input into a `Trace`.

A format is a module that implements `contract.Reader`, and a signature in `signatures`. It is
imported when an input has the signature. Installed packages add readers by entry points of the
group `meantime.readers`, which are tried when no module here recognises the input.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from meantime.additions import READERS, additions, warn_about
from meantime.errors import InputError, UsageError
from meantime.input_path import (
    format_for,
    is_clock_repair_wanted,
    is_private_wanted,
    is_scheduling_wanted,
    mapping_for,
    memory_for,
)
from meantime.readers.contract import ReadOptions
from meantime.readers.signatures import SIGNATURES
from meantime.readers.source import open_source

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from meantime.column_mapping import ColumnMapping
    from meantime.readers.contract import Reader
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace
    from meantime.units import Instant, Time

__all__ = ["open_trace", "open_without_stacks", "readers", "recognise"]

_CTF, _RECORDING = "ctf", "recording"
_OF_PROTOBUF = ("meantime.readers.pprof", "meantime.readers.otlp", "meantime.readers.perfetto")
_WITH_COLUMNS = ("table", "jsonl", "log")
_CONSOLE_EXPORTER = b'"trace_id": "0x'
# The byte order marks of UTF-16 and UTF-32 and a character that ASCII has, or a line feed.
_WIDE_MARK = re.compile(rb"\xff\xfe(?:[\t-~]\0|\0\0)|\xfe\xff\0[\t-~]|\0\0\xfe\xff")
# How JSON in 2 or 4 bytes a character may begin, without a byte order mark.
_WIDE = {
    bytes(wide)
    for bracket in b"[{"
    for rest in b'{\r\n "]'
    for wide in (
        (bracket, 0, rest, 0),
        (0, bracket, 0, rest),
        (bracket, 0, 0, 0),
        (0, 0, 0, bracket),
    )
}


def readers() -> Iterator[Reader]:
    """Yield the built-in readers, in the order in which they are tried."""
    for name in SIGNATURES:
        yield cast("Reader", import_module(name))


def _is_reader(value: Any) -> bool:
    return isinstance(getattr(value, "FORMAT", None), str) and all(
        callable(getattr(value, name, None)) for name in ("recognises", "read")
    )


def recognise(source: Source) -> Reader:
    """Return the reader that recognises an input: a built-in one, or one that a package adds.

    Raises:
        InputError: If the input is empty, or no reader recognises it, or several do.
    """
    head = _head(source)
    _refuse_ambiguous(source, head)
    for module, may_be in SIGNATURES.items():
        if not may_be(head, source.name):
            continue
        reader = cast("Reader", import_module(module))
        if reader.recognises(head, source.name) and not _is_other_json(reader, head, source.name):
            return reader
    added = []
    for addition in additions(READERS, _is_reader):
        try:
            recognised = addition.value.recognises(head, source.name)
        except Exception as error:  # noqa: BLE001 - one bad package must not stop the others
            warn_about(addition, READERS, f"fails to recognise inputs ({error!r})")
            continue
        if recognised:
            return cast("Reader", addition.value)
        added.append(addition.value.FORMAT)
    advised = _advice(head, source.name)
    if advised is not None:
        raise InputError(source.name, advised)
    from meantime.readers.unknown import unknown  # noqa: PLC0415 - only for this message

    raise InputError(source.name, unknown(head, added))


def _head(source: Source) -> bytes:
    """Return the beginning of an input.

    Raises:
        InputError: If it is empty, or text of which a character has more than one byte.
    """
    head = source.head()
    if not head:
        raise InputError(source.name, "the input is empty")
    if _WIDE_MARK.match(head) or head[:4] in _WIDE:
        raise InputError(source.name, "the text is in UTF-16 or UTF-32: save it in UTF-8")
    return head


def _refuse_ambiguous(source: Source, head: bytes) -> None:
    """Fail if the first messages of an input fit several formats of protobuf, which has no magic.

    Raises:
        InputError: If so.
    """
    if head[:1] != b"\n":
        return
    fitting = [
        module.rpartition(".")[2]
        for module in _OF_PROTOBUF
        if SIGNATURES[module](head, source.name)
        and cast("Reader", import_module(module)).recognises(head, source.name)
    ]
    if len(fitting) > 1:
        raise InputError(
            source.name,
            f"its first messages fit {' and '.join(fitting)}; choose one with --format",
        )


def _chosen(source: Source, format_: str | None, columns: ColumnMapping | None) -> Reader:
    """Return the reader of an input: the one that is named, or that recognises it.

    Raises:
        InputError: If the input is empty, or no reader recognises it, or columns are given and it
            is neither a table nor a log.
        UsageError: If there is no such format, or it is one of directories.
    """
    if format_ is None:
        return recognise(source) if columns is None else _mapped(source)
    reader = _named(format_)
    if reader is None:
        raise UsageError(f"{source.name}: the format {format_!r} is one of directories")
    if columns is not None and format_ not in _WITH_COLUMNS:
        raise InputError(
            source.name,
            f"columns and pairs apply to tables and to logs of JSON lines, not {format_}",
        )
    _head(source)
    return reader


def _named(format_: str) -> Reader | None:
    """Return the reader of a format; None for a format that only directories have.

    Raises:
        UsageError: If there is no such format.
    """
    if format_ == _CTF:
        return None
    # most modules have the name of their format, and then no other one is imported
    modules = sorted(SIGNATURES, key=lambda name: name.rpartition(".")[2] != format_)
    found = (cast("Reader", import_module(name)) for name in modules)
    if (reader := next((each for each in found if format_ == each.FORMAT), None)) is not None:
        return reader
    added = {each.value.FORMAT: each.value for each in additions(READERS, _is_reader)}
    if format_ in added:
        return cast("Reader", added[format_])
    names = sorted({_CTF, *(reader.FORMAT for reader in readers()), *added})
    raise UsageError(f"unknown format {format_!r}; choose one of {', '.join(names)}")


def _mapped(source: Source) -> Reader:
    """Return the reader of an input whose columns or fields are given.

    Raises:
        InputError: If it is neither a table nor a log.
    """
    head = _head(source)
    log = cast("Reader", import_module("meantime.readers.log"))
    if log.recognises(head, source.name):
        return log
    table = cast("Reader", import_module("meantime.readers.table"))
    if SIGNATURES[table.__name__](head, source.name) and table.recognises(head, source.name):  # type: ignore[attr-defined] # a module
        return table
    text = head.lstrip()
    first = text.split(b"\n", 1)[0].rstrip()
    if first.startswith(b"{") and first.endswith(b"}"):
        return cast("Reader", import_module("meantime.readers.jsonl"))
    if text.startswith((b"{", b"[", b"<")) or b"\0" in head[:4096]:
        raise InputError(
            source.name,
            "columns and pairs apply to tables and to logs of JSON lines; this is neither",
        )
    return table


def _is_other_json(reader: Reader, head: bytes, name: str) -> bool:
    """Whether an input is JSON of a known format that a reader accepts but cannot read."""
    if reader.FORMAT == "jsonl":
        return _CONSOLE_EXPORTER in head and _advice(head, name) is not None
    # Chrome's reader accepts any JSON object; one with these keys is its own
    if reader.FORMAT != "chrome" or b'"ph"' in head or b'"traceEvents"' in head:
        return False
    return _advice(head, name) is not None


def _advice(head: bytes, name: str) -> str | None:
    # its expressions take 3 ms to compile, and few inputs need them
    from meantime.readers.unsupported import advice  # noqa: PLC0415 - see above

    return advice(head, name)


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
        reader = _chosen(source, format_, columns)
        if not getattr(reader, "REPAIRS_CLOCKS", False):
            _check_no_repair(options, source.name, reader.FORMAT)
        trace = _read(reader, source, options)
    except BaseException:
        source.close()
        raise
    trace.input = source
    return trace


def _read(reader: Reader, source: Source, options: ReadOptions) -> Trace:
    """Return a trace that counts what is damaged in its input below any format, in the end."""
    source.is_text = getattr(reader, "TEXT", False)
    trace = reader.read(source, options)
    trace.batches = _with_damage(trace, source, trace.batches)
    return trace


def _with_damage(trace: Trace, source: Source, batches: Iterator[Batch]) -> Iterator[Batch]:
    yield from batches
    trace.anomalies.add("zero_bytes", source.zero_bytes)
    trace.anomalies.add("damaged_compression", int(source.damaged))


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
        _named(format_)
        raise UsageError(f"{path}: this is a directory; its format is {_CTF} or {_RECORDING}")
    if format_ == _CTF or (format_ is None and is_ctf(Path(path))):
        ctf = import_module("meantime.readers.ctf")
        return cast("Trace", ctf.read(Path(path), options))
    # all other directories are recordings
    reading = import_module("meantime.readers.recording")
    return cast("Trace", reading.read(path, private=options.private))


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
        reader = _chosen(source, format_for(path), columns)
        options = ReadOptions(
            lenient=lenient,
            progress=progress,
            start=start,
            end=end,
            columns=columns,
            private=is_private_wanted(path),
            scheduling=is_scheduling_wanted(path),
        )
        if reader.FORMAT != "perf":
            yield _read(reader, source, options), False
            return
        perf = import_module("meantime.readers.perf")
        source.is_text = True
        trace = perf.read(source, options, stacks=False, switches=switches)
        trace.batches = _with_damage(trace, source, trace.batches)
        yield trace, not switches
