"""Chrome Trace Event JSON, as Chrome, Perfetto, PyTorch, JAX, clang, node and VizTracer write it.

All phases of the format: complete, begun and ended spans; instants, counters, async spans, flows,
objects, metadata, samples and V8 profiles. Not shown, but counted: memory dumps (V, v), clock syncs
(c) and contexts. Arguments stay in the file: columns have their offsets and lengths.

Spans are delivered once they have ended, instants as they come. What can only be known when all is
read waits, about 50 bytes a row: async spans, flows, counters, objects, samples and metadata, and
the begins and ends of threads that go backwards in time, since they may have to be matched by
time. If a thread first does so after some of its spans were delivered, these stay matched in the
order of the file. A property test compares this with a reader that delivers everything at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meantime.errors import InputError
from meantime.kernels.chrome import ChromeScanner
from meantime.model.trace import ArgumentText
from meantime.readers.chrome.asynchronous import read_async
from meantime.readers.chrome.counters import read_counters
from meantime.readers.chrome.entities import Entities
from meantime.readers.chrome.flows import read_flows
from meantime.readers.chrome.header import SYSTEM_TRACE, read_header
from meantime.readers.chrome.metadata import read_metadata
from meantime.readers.chrome.objects import read_objects
from meantime.readers.chrome.phases import DEFAULT_ID, FAULTS, KINDS, ODDITIES
from meantime.readers.chrome.program import program_of
from meantime.readers.chrome.records import RecordRows, read_points
from meantime.readers.chrome.spans import SpanRows
from meantime.readers.chrome.text import Strings
from meantime.readers.contract import lazy_trace
from meantime.readers.file_text import BLOCK_BYTES, block_of
from meantime.readers.private_fields import PRIVATE_NAMES, leave_private_facts_out
from meantime.readers.source import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int64s
    from meantime.model.trace import Batch, Spans, Trace
    from meantime.readers.chrome.records import Records
    from meantime.readers.contract import ReadOptions
    from meantime.readers.file_text import FileText
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "chrome"
TEXT = True
# How many rows are read before those that need not wait for more are delivered.
DELIVERED_ROWS: Final = 1 << 18
_SHOWN = "iIRCbneSTpFstfNODPMXB"


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; a span is in a batch once it has ended, an instant as it comes.

    Async spans, flows, counters, objects, samples and metadata come when all is read. So do the
    spans of a thread whose begins or ends go backwards in time; those that were delivered before it
    first did are matched in the order of the file. The text is always read completely.

    Raises:
        InputError: From the batches, if the text is not a Chrome trace.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        text = source.text()
    trace.text = ArgumentText(text)
    reading = _Reading(text, trace, options)
    yield from reading.scan()
    if source.truncated:
        trace.anomalies.add("truncated")
    yield from reading.rest()


class _Reading:
    """What was scanned of a trace, and what of it was not delivered yet."""

    def __init__(self, text: FileText | memoryview, trace: Trace, options: ReadOptions) -> None:
        self._text = text
        self._trace = trace
        self._options = options
        self._scanner = ChromeScanner(
            len(text),
            kinds=KINDS,
            default_id=DEFAULT_ID,
            lenient=options.lenient,
            private=() if options.private else PRIVATE_NAMES,
        )
        # the scanner's codes of names become the trace's codes of values: no column is translated
        self._names = Strings(trace.values)
        self._categories = Strings(trace.categories)
        self._entities = Entities(trace)
        tables = (trace, self._names, self._categories, self._entities)
        self._spans = SpanRows(*tables)
        self._records = RecordRows(*tables)
        self._bounds: tuple[int, int] | None = None

    def scan(self) -> Iterator[Batch]:
        """Scan the text, and yield what need not wait for its end if there is much of it."""
        scanner, text = self._scanner, self._text
        size, more = BLOCK_BYTES, True
        try:
            while more:
                offset = scanner.position
                more = scanner.scan_block(block_of(text, offset, size), offset)
                if scanner.position == offset:
                    # a single event, or a value beside the events, is larger than the block
                    size *= 2
                self._options.report_progress(scanner.position, len(text))
                # what waits is looked at again each time
                if more and scanner.rows >= max(DELIVERED_ROWS, self._spans.rows):
                    yield from self._ended()
        except ValueError as error:
            fault, offset = error.args
            raise InputError(
                self._trace.source,
                f"{FAULTS[fault]} (byte {offset})",
                line=1 + _line_feeds(text, offset),
                offset=offset,
            ) from None
        self._options.report_progress(len(text), len(text))
        if not scanner.saw_events:
            from meantime.readers.unknown import keys_of  # noqa: PLC0415 - only for this message

            raise InputError(
                self._trace.source,
                "the trace has no list of events, a key traceEvents; its keys are"
                f" {keys_of(bytes(text[:HEAD_BYTES]))}: `meantime formats` lists what is read",
            )
        for oddity, count in zip(ODDITIES, scanner.oddities(), strict=True):
            self._trace.anomalies.add(oddity, count)

    def _ended(self) -> Iterator[Batch]:
        threads = self._take()
        self._trace.records = self._scanner.events
        for spans in self._spans.ended(threads):
            self._reach_spans(spans)
            yield spans
        if (instants := self._records.instants()) is not None:
            self._reach(instants.time_ns)
            yield from read_points(instants)

    def rest(self) -> Iterator[Batch]:
        """Yield everything that was not delivered yet."""
        trace, scanner = self._trace, self._scanner
        trace.records = scanner.events
        top = [
            (bytes(self._text[key : key + key_length]), offset, length)
            for key, key_length, offset, length in scanner.top()
        ]
        read_header(top, self._text, trace)
        threads = self._take()
        # its tables of strings may be as large as all that follows
        del self._scanner, scanner
        tables = (self._names, self._categories, self._entities)
        trace.anomalies.add("undecodable_text", sum(table.undecodable for table in tables))
        for spans in self._spans.rest(threads):
            self._reach_spans(spans)
            yield spans
        records = self._records.rest()
        # metadata first: names and sort keys apply to entities whatever their position in the file
        read_metadata(records)
        if not self._options.private:
            leave_private_facts_out(trace)
        if program := program_of(trace.facts, trace.names.values()):
            trace.facts.setdefault("program", program)
        yield from _read_records(records)
        if len(records.rows("PI")) or any(key == b"samples" for key, _, _ in top):
            from meantime.readers.chrome.profiles import read_profiles  # noqa: PLC0415 - few have one

            samples = read_profiles(records, top, self._text)
            if samples is not None:
                self._reach(samples.time_ns)
                yield samples
        # metadata may have no time, which is then stored as 0
        is_metadata = records.is_phase("M")
        self._reach(records.time_ns[~is_metadata] if is_metadata.any() else records.time_ns)
        trace.bounds = self._bounds
        for key, offset, length in top:
            raw = bytes(self._text[offset : offset + length])
            if key == SYSTEM_TRACE.encode() and raw.startswith(b'"'):
                from meantime.readers.chrome.system_trace import read_system_trace  # noqa: PLC0415 - few have one

                yield from read_system_trace(
                    raw, records, trace, trace.bounds, scheduling=self._options.scheduling
                )

    def _take(self) -> dict[str, Any]:
        """Take what was scanned since the last call; return the scanner's threads."""
        scanner = self._scanner
        threads: dict[str, Any] = scanner.threads()
        self._names.add(scanner.names(self._names.size))
        self._categories.add(scanner.categories(self._categories.size))
        self._entities.update(scanner, threads)
        self._spans.add(scanner)
        self._records.add(scanner)
        return threads

    def _reach_spans(self, spans: Spans) -> None:
        # a span without a duration still makes its instant part of the range
        self._reach(spans.start_ns)
        assert self._bounds is not None
        self._bounds = self._bounds[0], max(self._bounds[1], int(spans.end_ns.max()))

    def _reach(self, time_ns: Int64s) -> None:
        """Extend the range of all events that have a time."""
        if len(time_ns):
            first_ns, end_ns = int(time_ns.min()), int(time_ns.max()) + 1
            if self._bounds is not None:
                first_ns, end_ns = min(first_ns, self._bounds[0]), max(end_ns, self._bounds[1])
            self._bounds = first_ns, end_ns


def _line_feeds(text: FileText | memoryview, end: int) -> int:
    return sum(
        bytes(block_of(text, offset, min(BLOCK_BYTES, end - offset))).count(b"\n")
        for offset in range(0, end, BLOCK_BYTES)
    )


def _read_records(records: Records) -> Iterator[Batch]:
    """Yield the points, counters, async spans, flows and object states."""
    records.trace.anomalies.add("phase_not_shown", int((~records.is_phase(_SHOWN)).sum()))
    yield from read_points(records)
    yield from read_counters(records)
    yield from read_async(records)
    yield from read_flows(records)
    yield from read_objects(records)
