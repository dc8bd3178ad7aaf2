"""Binary .spall traces: versions 0, 1 and 3, and the automatic version 3.

Little endian. Version 0 and 1: a header of 32 bytes (magic 0x0BADF00D, version, microseconds a tick
as a double, 0), then records with pid, tid and a time in ticks as a double. Version 3: nanoseconds
a tick, buffers of one thread with whole ticks. Automatic version 3 (magic 0xABADF00D) has buffers
of differences; functions are addresses there, shown in hex, since the names are in the program.
Version 2 of either magic, which was never released, is not read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.kernels import gather, spall
from meantime.model.attribute_paths import process_path, thread_path
from meantime.model.trace import Arguments, ArgumentText, Points, Spans
from meantime.readers.contract import MOST_BATCH_ROWS, lazy_trace
from meantime.readers.file_text import BLOCK_BYTES, block_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from meantime.kernels.spall import SpallScanner
    from meantime.model.columns import Int32s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.file_text import FileText
    from meantime.readers.source import Source

__all__ = ["AUTO_MAGIC", "FORMAT", "MAGIC", "read"]

FORMAT = "spall"

MAGIC = 0x0BADF00D
AUTO_MAGIC = 0xABADF00D

_AUTO = 4  # the scanner's number for the automatic version 3
# in the scanner's order
_ODDITIES = (
    "end_without_begin",
    "negative_duration",
    "unfinished_span",
    "time_out_of_range",
    "bad_record",
    "record_skipped",
    "trailing_text",
    "time_went_back",
)
_HEADER = struct.Struct("<QQdQ")
_AUTO_HEADER = struct.Struct("<QQdQH")


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; a span is in a batch once it has ended, a thread's unfinished ones at last.

    Where the time of a thread went back, begins and ends do not determine how its spans are nested;
    those in earlier batches are nested by them. The file is always read completely.

    Raises:
        InputError: From the batches, if it is not a .spall trace of a supported version.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        text = source.text()
    offset, version, unit_ns = _read_header(text, trace)
    trace.text = ArgumentText(text)
    scanner = spall.SpallScanner(len(text), version, unit_ns, lenient=options.lenient)
    tables = _Tables(scanner, text, trace)
    outcome = yield from _scan(scanner, text, offset, options, tables)
    if outcome == spall.UNKNOWN and not options.lenient:
        raise InputError(
            trace.source,
            f"unknown record type {scanner.type}, or a record that does not fit into its buffer; "
            "use --lenient to read the rest",
            offset=scanner.stop_offset,
        )
    if outcome != spall.DONE:
        trace.anomalies.add("truncated" if outcome == spall.CUT else "bad_record")
        # Everything before is valid: a recorder that was killed leaves a file like this.
        trace.facts["read until byte"] = str(scanner.stop_offset)
    elif source.truncated:
        trace.anomalies.add("truncated")
    for oddity, count in zip(_ODDITIES, scanner.oddities(), strict=True):
        trace.anomalies.add(oddity, count)
    yield from tables.batches(everything=True)
    tables.name_threads()


def _scan(
    scanner: SpallScanner,
    text: FileText | memoryview,
    offset: int,
    options: ReadOptions,
    tables: _Tables,
) -> Generator[Batch, None, int]:
    """Scan all blocks, yield what has ended, and return the outcome of the last one."""
    size, outcome = BLOCK_BYTES, spall.MORE
    while outcome == spall.MORE:
        outcome = scanner.scan_block(block_of(text, offset, size), offset)
        if scanner.position == offset:
            # a single buffer is larger than the block
            size *= 2
        offset = scanner.position
        options.report_progress(offset, len(text))
        if scanner.is_full:
            yield from tables.batches(everything=False)
    scanner.close()
    options.report_progress(len(text), len(text))
    return outcome


def _read_header(text: FileText | memoryview, trace: Trace) -> tuple[int, int, float]:
    """Return the offset of the records, the scanner's number of the version, and ns per tick."""
    if len(text) < _HEADER.size:
        raise InputError(
            trace.source,
            f"the header has 32 bytes, but the file only {len(text)}",
            offset=len(text),
        )
    magic, version, unit, must_be_0 = _HEADER.unpack(text[: _HEADER.size])
    if magic not in {MAGIC, AUTO_MAGIC}:
        raise InputError(
            trace.source,
            f"a .spall trace begins with {MAGIC:#x}, but this file with {magic:#x}",
            offset=0,
        )
    known = {3} if magic == AUTO_MAGIC else {0, 1, 3}
    if version not in known:
        raise InputError(
            trace.source,
            f"unsupported version {version} (not one of {sorted(known)}): record the trace again",
            offset=8,
        )
    if not 0 < unit < float("inf"):
        raise InputError(
            trace.source, f"the duration of a tick is {unit}, not a positive number", offset=16
        )
    trace.facts["version"] = f"auto {version}" if magic == AUTO_MAGIC else str(version)
    if magic == AUTO_MAGIC:
        return _read_auto_header(text, trace)
    if must_be_0:
        trace.anomalies.add("bad_metadata")
    # versions 0 and 1 have microseconds per tick
    return _HEADER.size, version, unit if version == 3 else unit * 1000


def _read_auto_header(text: FileText | memoryview, trace: Trace) -> tuple[int, int, float]:
    if len(text) < _AUTO_HEADER.size:
        raise InputError(
            trace.source,
            f"the header has 34 bytes, but the file only {len(text)}",
            offset=len(text),
        )
    _, _, unit_ns, base_address, path_length = _AUTO_HEADER.unpack(text[: _AUTO_HEADER.size])
    offset = _AUTO_HEADER.size + path_length
    if len(text) < offset:
        raise InputError(trace.source, "the file ends inside its header", offset=len(text))
    path = bytes(text[_AUTO_HEADER.size : offset])
    trace.facts["program"] = path.decode("utf-8", "replace")
    trace.facts["base address"] = f"{base_address:#x}"
    return offset, _AUTO, unit_ns


class _Tables:
    """The names and threads of a trace, which grow while it is scanned."""

    def __init__(self, scanner: SpallScanner, text: FileText | memoryview, trace: Trace) -> None:
        self._scanner = scanner
        self._text = text
        self._trace = trace
        self._paths = trace.paths
        self._processes = 0
        # by the scanner's thread, its entity
        self._entities: Int32s = np.empty(0, np.int32)

    def batches(self, *, everything: bool) -> Iterator[Batch]:
        """Yield the spans that have ended, or all, and the instants, since the last call."""
        self._scanner.take(everything=everything)
        self._read_names()
        self._read_threads()
        spans, instants = self._scanner.spans(), self._scanner.instants()
        rows = len(spans["start_ns"])
        self._trace.records += rows
        for first in range(0, rows, MOST_BATCH_ROWS):
            yield self._spans(
                {name: column[first : first + MOST_BATCH_ROWS] for name, column in spans.items()}
            )
        rows = len(instants["time_ns"])
        for first in range(0, rows, MOST_BATCH_ROWS):
            yield self._points(
                {name: column[first : first + MOST_BATCH_ROWS] for name, column in instants.items()}
            )

    def _spans(self, columns: dict[str, Any]) -> Spans:
        return Spans(
            start_ns=columns["start_ns"],
            end_ns=columns["end_ns"],
            thread=gather.looked_up(self._entities, columns["thread"]),
            name=columns["name"],
            category=np.full(len(columns["start_ns"]), -1, np.int32),
            level=columns["level"],
            flags=columns["flags"],
            arguments=Arguments(columns["args_offset"], columns["args_length"]),
        )

    def _points(self, columns: dict[str, Any]) -> Points:
        return Points(
            time_ns=columns["time_ns"],
            entity=self._entities[columns["thread"]],
            name=columns["name"],
            target=np.full(len(columns["time_ns"]), -1, np.int32),
            arguments=Arguments(columns["args_offset"], columns["args_length"]),
        )

    def _read_names(self) -> None:
        trace = self._trace
        for raw in self._scanner.names(len(trace.values)):
            # the scanner's mark of an address, since no UTF-8 text begins with 0xff
            if raw[:1] == b"\xff" and len(raw) == 9:
                trace.values.append(hex(int.from_bytes(raw[1:], "little")))
                continue
            text = raw.decode("utf-8", "replace")
            trace.anomalies.add("undecodable_text", int("\ufffd" in text))
            trace.values.append(text)

    def _read_threads(self) -> None:
        """Number the threads that are new."""
        processes = self._scanner.processes()
        for pid, offset, length in processes[self._processes :]:
            entity = self._paths.code(process_path(pid))
            self._trace.names[entity] = _name(self._text, offset, length)
        self._processes = len(processes)
        new = self._scanner.threads(len(self._entities))
        entities = self._paths.codes(thread_path(tid, pid) for pid, tid, _, _ in new)
        self._entities = np.append(self._entities, entities)

    def name_threads(self) -> None:
        """Add the names of the threads, which may come last."""
        threads = self._scanner.threads(0)
        for entity, (_, _, offset, length) in zip(self._entities.tolist(), threads, strict=True):
            if length:
                self._trace.names[entity] = _name(self._text, offset, length)


def _name(text: FileText | memoryview, offset: int, length: int) -> str:
    return bytes(text[offset : offset + length]).decode("utf-8", "replace")
