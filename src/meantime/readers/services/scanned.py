"""Exports of OpenTelemetry of the usual form, scanned into columns.

The scanner is exact or does not answer. What it stops at is read by `services.otlp` and
`services.protobuf`, which define the format; a document that it refuses is left to them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from meantime.kernels import service_rows
from meantime.readers.file_text import BLOCK_BYTES, block_of
from meantime.readers.services.model import MALFORMED
from meantime.readers.services.otlp import resource_of, scope_name, span_of
from meantime.readers.services.protobuf import decode

if TYPE_CHECKING:
    from meantime.readers.services.collect import Collected
    from meantime.readers.services.text import DocumentText

__all__ = ["scan_message", "scan_text"]

_MESSAGES = {
    service_rows.RESOURCE: ("Resource", 2),
    service_rows.SCOPE: ("Scope", 3),
    service_rows.SPAN: ("Span", 3),
}


def scan_text(text: DocumentText, collected: Collected) -> bool:
    """Add the spans of a document of JSON; False if it has another form, and nothing is added."""
    collected.begin()
    rows = collected.rows
    at, room = text.begin, BLOCK_BYTES
    while True:
        block = block_of(text.data, at, min(room, text.end - at))
        why = rows.scan_json(block, last=at + len(block) == text.end)
        if not _answered(why, block, collected, is_message=False):
            collected.take_back()
            return False
        at += rows.position
        if why == service_rows.DOCUMENT:
            collected.finish()
            return True
        # what does not fit
        room = 2 * room if why == service_rows.MORE and not rows.position else BLOCK_BYTES


def scan_message(data: memoryview, collected: Collected) -> bool:
    """Add the spans of a message; False if it has another form, and nothing is added."""
    collected.begin(len(data))
    why = service_rows.MORE
    while why != service_rows.DOCUMENT:
        why = collected.rows.scan_message(data)
        if not _answered(why, data, collected, is_message=True):
            collected.take_back()
            return False
    collected.finish()
    return True


def _answered(why: int, block: memoryview, collected: Collected, *, is_message: bool) -> bool:
    """Read what the scanner stopped at; return whether it can go on, or is done."""
    if why in {service_rows.MORE, service_rows.DOCUMENT}:
        return True
    if why == service_rows.REFUSED:
        return False
    rows = collected.rows
    begin, end = rows.stopped
    text = bytes(block[begin:end])
    try:
        if is_message:
            value: dict[str, Any] = decode(memoryview(text), *_MESSAGES[why])
        else:
            text = text or b"{}"
            value = json.loads(text, parse_constant=str, strict=False)
        if why == service_rows.RESOURCE:
            rows.learn_resource(text, collected.resource_code(resource_of(value)))
        elif why == service_rows.SCOPE:
            rows.learn_scope(text, collected.category_code(scope_name(value)))
        else:
            collected.add(span_of(value, *collected.context, collected.anomalies))
    except (*MALFORMED, RecursionError):
        return False
    return True
