"""Results of tests in JUnit's XML: the suites, and their cases with lengths and outcomes.

A case has no start: the cases of a suite are drawn one after the other from its time stamp, which
is right for tests that ran one at a time, but for what was between them.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from meantime.errors import InputError, UsageError
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC, naive_dates
from meantime.model.metadata import SUITES_FACT
from meantime.model.units import parse_instant
from meantime.readers.contract import lazy_trace
from meantime.readers.span_rows import SpanRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "junit"
TEXT = True
OBJECTS = True

_BLOCK_BYTES = 1 << 20
_OUTCOMES = ("failure", "error", "skipped")
_LONGEST_MESSAGE = 1000
_MOST_NS = 2**62
_LAYOUT = "cases have no start: they follow each other from the time of their suite"


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    results = _Results(trace)
    parser = expat.ParserCreate()
    parser.buffer_text = False
    parser.StartElementHandler = results.start
    parser.EndElementHandler = results.end
    # entities can expand to anything, and no writer of results uses them
    parser.StartDoctypeDeclHandler = _refuse_doctype
    block = bytearray(_BLOCK_BYTES)
    try:
        with source:
            while count := source.readinto(memoryview(block)):
                options.report_progress(source.read_bytes, source.stored_bytes or 0)
                parser.Parse(bytes(memoryview(block)[:count]), False)
            parser.Parse(b"", True)
    except _DoctypeError:
        raise InputError(source.name, "the XML has a document type, which is not read") from None
    # an encoding that Python does not know is a LookupError
    except (expat.ExpatError, LookupError, ValueError) as error:
        if not options.lenient:
            line = getattr(error, "lineno", None)
            raise InputError(source.name, f"malformed XML ({error})", line=line) from None
        trace.anomalies.add("truncated")
        results.close_all()
    trace.anomalies.add("truncated", int(source.truncated))
    trace.facts["layout"] = _LAYOUT
    results.finish()
    if results.is_dated:
        trace.clock = UTC
    yield from results.spans.batches()


class _DoctypeError(Exception):
    """The input has a document type."""


def _refuse_doctype(*_: object) -> None:
    raise _DoctypeError


class _Suite:
    """A suite that is open."""

    def __init__(self, name: str, start_ns: int) -> None:
        self.name = name
        self.next_ns = start_ns


class _Results:
    """Collects the cases of a file while it is parsed."""

    def __init__(self, trace: Trace) -> None:
        self.spans = SpanRows(trace)
        self.is_dated = False
        self._trace = trace
        self._suites: list[_Suite] = []
        self._names: dict[str, int] = {}
        self._last_ns = 0
        self._suites_ns = 0
        self._case: Mapping[str, str] | None = None
        self._outcome = ""
        self._message = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Read the beginning of an element."""
        if tag == "testsuite":
            self._open_suite(attributes)
        elif tag == "testcase":
            self._case, self._outcome, self._message = attributes, "passed", ""
        elif tag in _OUTCOMES and self._case is not None and self._outcome in {"passed", "skipped"}:
            self._outcome = tag
            self._message = attributes.get("message", "")[:_LONGEST_MESSAGE]

    def end(self, tag: str) -> None:
        """Read the end of an element."""
        if tag == "testcase" and self._case is not None:
            self._close_case(self._case)
            self._case = None
        elif tag == "testsuite" and self._suites:
            self._close_suite()

    def finish(self) -> None:
        """Add what the suites say of themselves to the facts."""
        if self._suites_ns:
            self._trace.facts[SUITES_FACT] = f"{Decimal(self._suites_ns) / 10**9} s"

    def close_all(self) -> None:
        """Close what is open in a file that ends too early."""
        while self._suites:
            self._close_suite()

    def _open_suite(self, attributes: Mapping[str, str]) -> None:
        name = attributes.get("name") or "suite"
        count = self._names[name] = self._names.get(name, 0) + 1
        start_ns = self._suites[-1].next_ns if self._suites else self._last_ns
        if stamp := attributes.get("timestamp"):
            try:
                instant = parse_instant(stamp)
            except UsageError:
                self._trace.anomalies.add("bad_metadata")
            else:
                if instant.base == "utc" and 0 <= instant.ns < _MOST_NS:
                    start_ns = instant.ns
                    self.is_dated = True
                    if instant.is_naive:
                        self._trace.facts["times"] = naive_dates()
        if not self._suites and (lasted_ns := _ns(attributes.get("time", ""))):
            self._suites_ns += lasted_ns
        self._suites.append(_Suite(name if count == 1 else f"{name} {count}", start_ns))

    def _close_suite(self) -> None:
        suite = self._suites.pop()
        self._last_ns = max(self._last_ns, suite.next_ns)
        if self._suites:
            self._suites[-1].next_ns = max(self._suites[-1].next_ns, suite.next_ns)

    def _close_case(self, attributes: Mapping[str, str]) -> None:
        if not self._suites:
            self._open_suite({})
        self._trace.records += 1
        suite = self._suites[-1]
        lasted_ns = _ns(attributes.get("time", "0"))
        if lasted_ns is None or suite.next_ns + lasted_ns >= _MOST_NS:
            self._trace.anomalies.add("span_without_duration")
            lasted_ns = 0
        start_ns, end_ns = suite.next_ns, suite.next_ns + lasted_ns
        suite.next_ns = end_ns
        own, group = attributes.get("name", ""), attributes.get("classname", "")
        fields: dict[str, Any] = {"outcome": self._outcome}
        fields |= {key: attributes[key] for key in ("file", "line") if key in attributes}
        if self._message:
            fields["message"] = self._message
        path = thread_path(suite.name, "tests")
        name = f"{group}.{own}" if group else own
        self.spans.add(path, (start_ns, end_ns), name, self._outcome, fields)
        if self._outcome in {"failure", "error"}:
            self.spans.point(path, end_ns, self._outcome, fields)


def _ns(text: str) -> int | None:
    """Return a length in seconds, which may have commas between thousands."""
    try:
        exact = Decimal(text.strip().replace(",", "") or "0") * 10**9
    except InvalidOperation:
        return None
    return int(exact) if exact.is_finite() and 0 <= exact < _MOST_NS else None
