"""OpenTelemetry traces and logs: JSON, JSON lines and protobuf, as exporters write them.

Services are processes, and concurrent spans have a lane each; see `services.collect`. Definition:
https://opentelemetry.io/docs/specs/otlp
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.services.collect import Collected
from meantime.readers.services.model import MALFORMED, reason
from meantime.readers.services.otlp import add_document
from meantime.readers.services.protobuf import decode_export
from meantime.readers.services.text import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "otlp"

_KEYS = re.compile(
    rb'"(?:resource_?[sS]pans|resource_?[lL]ogs|(?:scope|instrumentation_?[lL]ibrary)_?[sS]pans)"'
)
# A span begins with its trace's id of 16 bytes and its own of 8; no other format has both there.
_SPAN = re.compile(rb"\x0a\x10.{16}\x12\x08.{8}", re.DOTALL)
_LENGTH_BYTES = 4
_EXPORT = b"\x0a"


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like an export of traces or logs."""
    del name
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        return _KEYS.search(text) is not None and b'"traceEvents"' not in text
    return (head.startswith(_EXPORT) or _is_delimited(head)) and _SPAN.search(head) is not None


def _is_delimited(head: bytes) -> bool:
    return head[:1] == b"\0" and head[_LENGTH_BYTES : _LENGTH_BYTES + 1] == _EXPORT


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    collected = Collected(trace, private=options.private)
    head = source.head()
    is_text = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    found = _json(source, trace, options) if is_text else _protobuf(source, trace, options)
    for value, place in found:
        try:
            add_document(value, collected, trace.anomalies)
        except MALFORMED as error:
            if not options.lenient:
                raise InputError(
                    source.name,
                    f"{place} is not an export of OpenTelemetry traces ({reason(error)})",
                ) from None
            trace.anomalies.add("bad_record")
    trace.anomalies.add("truncated", int(source.truncated))
    yield from collected.batches()


def _json(source: Source, trace: Trace, options: ReadOptions) -> Iterator[tuple[Any, str]]:
    for document in documents(source, trace, options):
        yield document.value, f"line {document.line}"


def _protobuf(source: Source, trace: Trace, options: ReadOptions) -> Iterator[tuple[Any, str]]:
    with source:
        data = source.whole()
    size = len(data)
    if not _is_delimited(bytes(data[:8])):
        yield _decoded(source, data, "the message"), "the message"
        return
    at = 0
    while at < size:
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        place, begin = f"the message at byte {at}", at + _LENGTH_BYTES
        at = begin + length
        if at > size:
            trace.anomalies.add("truncated")
            return
        try:
            value = _decoded(source, data[begin:at], place)
        except InputError:
            if not options.lenient:
                raise
            trace.anomalies.add("bad_record")
            continue
        yield value, place
        options.report_progress(at * source.read_bytes // size, source.stored_bytes or 0)


def _decoded(source: Source, data: memoryview, place: str) -> dict[str, Any]:
    try:
        return decode_export(data)
    except ValueError as error:
        raise InputError(source.name, f"{place} is damaged: {error}") from None
