"""Chrome Trace Event JSON, as Chrome, Perfetto, PyTorch, JAX, clang, node and VizTracer write it.

All phases of the format: complete, begun and ended spans; instants, counters, async spans, flows,
objects, metadata, samples and V8 profiles. Not shown, but counted: memory dumps (V, v), clock syncs
(c) and contexts. Arguments stay in the file: columns have their offsets and lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.kernels.chrome import ChromeScanner
from meantime.readers.chrome.entities import Entities
from meantime.readers.chrome.header import read_header
from meantime.readers.chrome.metadata import read_metadata
from meantime.readers.chrome.phases import DEFAULT_ID, FAULTS, KINDS, ODDITIES
from meantime.readers.chrome.profiles import read_profiles
from meantime.readers.chrome.program import program_of
from meantime.readers.chrome.records import Records, read_records
from meantime.readers.chrome.spans import read_spans
from meantime.readers.chrome.text import decode_all
from meantime.readers.contract import lazy_trace
from meantime.readers.file_text import BLOCK_BYTES, block_of
from meantime.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.chrome.text import Strings
    from meantime.readers.contract import ReadOptions
    from meantime.readers.file_text import FileText
    from meantime.readers.source import Source
    from meantime.trace import Batch, Samples, Spans, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "chrome"


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like a Chrome trace."""
    del name
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        inside = text[1:].lstrip()
        return not inside or inside.startswith((b"{", b"]", b","))
    # The events may follow any number of other keys, so any object may be a trace. This reader is
    # the last one asked.
    return text.startswith(b"{")


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch scans the whole text.

    The text is always read completely, since begins are matched with their ends.

    Raises:
        InputError: From the batches, if the text is not a Chrome trace.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        text = source.text()
    scanner = _scan(text, trace, options)
    if source.truncated:
        trace.anomalies.add("truncated")
    trace.text = ArgumentText(text)
    trace.records = scanner.events
    top = [
        (bytes(text[key : key + key_length]), offset, length)
        for key, key_length, offset, length in scanner.top()
    ]
    read_header(top, text, trace)
    names = _decoded(scanner.names, trace)
    categories = _decoded(scanner.categories, trace)
    # the scanner's codes of names become the trace's codes of values: no column is translated
    trace.values = names.texts
    trace.categories = categories.texts
    threads = scanner.threads()
    entities = Entities(trace, _decoded(scanner.ids, trace), threads)
    spans = read_spans(scanner, trace, names, categories, entities, threads=threads)
    if spans is not None:
        yield spans
    # metadata first: names and sort keys apply to entities whatever their position in the file
    records = Records(scanner.records(), names, categories, entities, trace)
    read_metadata(records)
    if program := program_of(trace.facts, trace.names.values()):
        trace.facts.setdefault("program", program)
    yield from read_records(records)
    samples = read_profiles(records, top, text)
    if samples is not None:
        yield samples
    trace.bounds = _bounds(spans, records, samples)


def _bounds(
    spans: Spans | None, records: Records, samples: Samples | None
) -> tuple[int, int] | None:
    """Return the range of all events that have a time; None if there are none."""
    starts, ends = [], []
    if spans is not None:
        starts.append(int(spans.start_ns.min()))
        # a span without a duration still makes its instant part of the range
        ends += [int(spans.end_ns.max()), int(spans.start_ns.max()) + 1]
    # metadata may have no time, which is then stored as 0
    times = [records.time_ns[~records.is_phase("M")]]
    if samples is not None:
        times.append(samples.time_ns)
    for time_ns in times:
        if len(time_ns):
            starts.append(int(time_ns.min()))
            ends.append(int(time_ns.max()) + 1)
    return (min(starts), max(ends)) if starts else None


def _scan(text: FileText | memoryview, trace: Trace, options: ReadOptions) -> ChromeScanner:
    scanner = ChromeScanner(len(text), kinds=KINDS, default_id=DEFAULT_ID, lenient=options.lenient)
    size, more = BLOCK_BYTES, True
    try:
        while more:
            offset = scanner.position
            more = scanner.scan_block(block_of(text, offset, size), offset)
            if scanner.position == offset:
                # a single event, or a value beside the events, is larger than the block
                size *= 2
            options.report_progress(scanner.position, len(text))
    except ValueError as error:
        fault, offset = error.args
        raise InputError(
            trace.source,
            f"{FAULTS[fault]} (byte {offset})",
            line=1 + _line_feeds(text, offset),
            offset=offset,
        ) from None
    options.report_progress(len(text), len(text))
    if not scanner.saw_events:
        raise InputError(
            trace.source, "the trace has no list of events: expected a key traceEvents"
        )
    for oddity, count in zip(ODDITIES, scanner.oddities(), strict=True):
        trace.anomalies.add(oddity, count)
    return scanner


def _line_feeds(text: FileText | memoryview, end: int) -> int:
    return sum(
        bytes(block_of(text, offset, min(BLOCK_BYTES, end - offset))).count(b"\n")
        for offset in range(0, end, BLOCK_BYTES)
    )


def _decoded(raw: list[bytes], trace: Trace) -> Strings:
    strings = decode_all(raw)
    trace.anomalies.add("undecodable_text", strings.undecodable)
    return strings
