"""OpenTelemetry traces and logs: JSON, JSON lines and protobuf, as exporters write them.

Services are processes, and concurrent spans have a lane each; see `services.collect`. Definition:
https://opentelemetry.io/docs/specs/otlp
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.decompress import MAGIC_BYTES, Decompressor, compression_of
from meantime.readers.file_text import BLOCK_BYTES, block_of
from meantime.readers.services.collect import Collected
from meantime.readers.services.model import MALFORMED, reason
from meantime.readers.services.otlp import add_document
from meantime.readers.services.protobuf import decode
from meantime.readers.services.scanned import scan_message, scan_text
from meantime.readers.services.text import DocumentText, texts, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "REPAIRS_CLOCKS", "read", "recognises"]

FORMAT = "otlp"
REPAIRS_CLOCKS = True

_KEYS = re.compile(
    rb'"(?:resource_?[sS]pans|resource_?[lL]ogs|(?:scope|instrumentation_?[lL]ibrary)_?[sS]pans)"'
)
# A span begins with its trace's id of 16 bytes and its own of 8; no other format has both there.
_SPAN = re.compile(rb"\x0a\x10.{16}\x12\x08.{8}", re.DOTALL)
_LENGTH_BYTES = 4
# The first message has a resource, spans or a schema in it; that of pprof has numbers.
_EXPORT = re.compile(rb"\x0a(?:\x00\x0a|[\x80-\xff]{0,4}[\x01-\x7f][\x0a\x12\x1a\xc2])")
_FIRST_FIELD = b"\x0a"
# How the file exporter compresses each message, and how far one may expand.
_COMPRESSION = "Zstandard"
_EXPANDED_FREELY, _MOST_EXPANDED = 1 << 26, 300


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like an export of traces or logs."""
    text = head.lstrip()
    if text.startswith(b"{"):
        return _KEYS.search(text) is not None and b'"traceEvents"' not in text
    if _is_compressed(head[_LENGTH_BYTES:]):
        size = int.from_bytes(head[:_LENGTH_BYTES], "big")
        try:
            inner = _decompressed(name, head[_LENGTH_BYTES:][:size], len(head))
        except InputError:
            return False
        return not _is_delimited(inner) and recognises(inner, name)
    return (_EXPORT.match(head) is not None or _is_delimited(head)) and _SPAN.search(
        head
    ) is not None


def _is_delimited(head: bytes) -> bool:
    message = head[_LENGTH_BYTES:]
    return head[:1] == b"\0" and (_EXPORT.match(message) is not None or _is_compressed(message))


def _is_compressed(message: bytes) -> bool:
    return compression_of(message[:MAGIC_BYTES]) == _COMPRESSION


def _decompressed(name: str, message: bytes, most: int) -> bytes:
    """Return what a message was before it was compressed, up to so many bytes.

    Raises:
        InputError: If it is damaged.
    """
    pieces = iter([message])
    decompressor = Decompressor(name, _COMPRESSION, lambda: next(pieces, b""))
    found, block = bytearray(), memoryview(bytearray(BLOCK_BYTES))
    while len(found) <= most and (count := decompressor.readinto(block)):
        found += block[:count]
    return bytes(found[:most])


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    collected = Collected(trace, private=options.private, repair_clocks=options.repair_clocks)
    head = source.head()
    source.is_text = is_text = head.lstrip().startswith(b"{")
    found = _json(source, trace, options) if is_text else _protobuf(source, trace, options)
    for data, place in found:
        scanned = (
            scan_text(data, collected)
            if isinstance(data, DocumentText)
            else scan_message(data, collected)
        )
        if scanned:
            continue
        collected.begin()
        value = _value(data, place, source, trace, options)
        try:
            if value is not None:
                add_document(value, collected, collected.anomalies)
        except MALFORMED as error:
            if not options.lenient:
                raise InputError(
                    source.name,
                    f"{place} is not an export of OpenTelemetry traces ({reason(error)})",
                ) from None
            trace.anomalies.add("bad_record")
        collected.finish()
    trace.anomalies.add("truncated", int(source.truncated))
    yield from collected.batches()


def _json(
    source: Source, trace: Trace, options: ReadOptions
) -> Iterator[tuple[DocumentText | memoryview, str]]:
    del trace
    for text in texts(source, options):
        yield text, f"line {text.line}"


def _protobuf(
    source: Source, trace: Trace, options: ReadOptions
) -> Iterator[tuple[DocumentText | memoryview, str]]:
    if not _is_delimited(source.head()):
        with source:
            yield source.whole(), "the message"
        return
    with source:
        data = source.text()
    size, stored = len(data), source.stored_bytes or source.read_bytes
    at, room = 0, BLOCK_BYTES
    while at < size:
        block = block_of(data, at, room)
        done = 0
        while done + _LENGTH_BYTES <= len(block):
            begin = done + _LENGTH_BYTES
            end = begin + int.from_bytes(block[done:begin], "big")
            room = max(BLOCK_BYTES, end - done)
            if end > len(block):
                break
            place = f"the message at byte {at + done}"
            message = block[begin:end]
            done = end
            # a plain one, as most are, needs no search for what else it may be
            if message[:1] == _FIRST_FIELD or not _is_compressed(bytes(message[:MAGIC_BYTES])):
                yield message, place
                continue
            try:
                inner = _plain(source.name, bytes(message), place)
            except InputError:
                if not options.lenient:
                    raise
                trace.anomalies.add("bad_record")
                continue
            data_of = memoryview(inner)
            if inner.startswith(b"{"):
                yield DocumentText(data_of, 0, len(inner), 1, is_line=False, is_last=False), place
            else:
                yield data_of, place
        if not done and at + len(block) == size:
            trace.anomalies.add("truncated")
            return
        at += done
        options.report_progress(at * stored // size, source.stored_bytes or 0)


def _plain(name: str, message: bytes, place: str) -> bytes:
    """Return a message that the exporter compressed by itself.

    Raises:
        InputError: If it is damaged, or expands to far more than it should.
    """
    most = max(_EXPANDED_FREELY, _MOST_EXPANDED * len(message))
    inner = _decompressed(name, message, most + 1)
    if len(inner) > most:
        raise InputError(name, f"{place} expands to more than {most:,} bytes")
    return inner


def _value(
    data: DocumentText | memoryview,
    place: str,
    source: Source,
    trace: Trace,
    options: ReadOptions,
) -> dict[str, Any] | None:
    """Return a document; None if it cannot be read, and is counted."""
    if isinstance(data, DocumentText):
        document = value_of(data, source, trace, options)
        return None if document is None else document.value
    try:
        return decode(data)
    except ValueError as error:
        if not options.lenient or place == "the message":
            raise InputError(source.name, f"{place} is damaged: {error}") from None
        trace.anomalies.add("bad_record")
        return None
