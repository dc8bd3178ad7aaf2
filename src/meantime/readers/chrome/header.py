"""The keys beside the events: the trace's title, clock and facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from meantime.readers.chrome.text import decode

if TYPE_CHECKING:
    from meantime.model.trace import Sliceable, Trace

__all__ = ["SYSTEM_TRACE", "read_header"]

# The key whose value is text of ftrace, as a string.
SYSTEM_TRACE: Final = "systemTraceEvents"

# Longer values are kept as text: parsing them takes long, and nothing uses their parts.
_LONGEST_READ_BYTES = 4096
_LIMIT_NS = 2**62


def read_header(top: list[tuple[bytes, int, int]], text: Sliceable, trace: Trace) -> None:
    """Store these keys as facts, and those that are known as title and clock."""
    known = set(trace.facts)
    for key, offset, length in top:
        name = decode(key)
        # the first of several traces in a file has the clock
        if name in trace.facts and name not in known:
            continue
        # read by `profiles`
        if name in {"samples", "stackFrames"}:
            continue
        raw = bytes(text[offset : offset + length])
        # read by `system_trace`
        if name == SYSTEM_TRACE and raw.startswith(b'"'):
            continue
        if length > _LONGEST_READ_BYTES and not raw.startswith(b'"'):
            trace.facts[name] = raw.decode("utf-8", "replace")
            continue
        try:
            value = json.loads(raw.decode("utf-8", "replace"), strict=False)
        except RecursionError:
            value = raw.decode("utf-8", "replace")
        except ValueError:
            trace.anomalies.add("bad_metadata")
            continue
        _store(name, value, trace)


def _store(name: str, value: Any, trace: Trace) -> None:
    """Store the value of a key as a fact, or as what it is known to be."""
    if name == "traceName" and isinstance(value, str):
        trace.title = value
    if name == "baseTimeNanoseconds" and type(value) is int and abs(value) < _LIMIT_NS:
        # the origin of PyTorch's times
        trace.clock = replace(trace.clock, kind="realtime", utc_at_origin_ns=value)
    if name == "beginningOfTime" and type(value) is int and abs(value) < _LIMIT_NS // 1000:
        # the origin of clang's times, in microseconds
        trace.clock = replace(trace.clock, kind="realtime", utc_at_origin_ns=value * 1000)
    if name == "host_name" and isinstance(value, str):
        trace.clock = replace(trace.clock, host=value)
    trace.facts[name] = value if isinstance(value, str) else json.dumps(value)
