"""The keys beside the events: the trace's title, clock and facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meantime.readers.chrome.text import decode

if TYPE_CHECKING:
    from meantime.trace import Sliceable, Trace

__all__ = ["read_header"]

# Longer values are kept as text: parsing them takes long, and nothing uses their parts.
_LONGEST_READ_BYTES = 4096
_LIMIT_NS = 2**62
# Text of ftrace as a string.
_SYSTEM_TRACE = "systemTraceEvents"


def read_header(top: list[tuple[bytes, int, int]], text: Sliceable, trace: Trace) -> None:
    """Store these keys as facts, and those that are known as title and clock."""
    for key, offset, length in top:
        name = decode(key)
        # read by `profiles`
        if name in {"samples", "stackFrames"}:
            continue
        raw = bytes(text[offset : offset + length])
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
    if name == _SYSTEM_TRACE and isinstance(value, str):
        lines = (line for line in value.split("\n") if line.strip())
        left_out = sum(not line.startswith("#") for line in lines)
        trace.anomalies.add("system_trace_left_out", left_out)
        return
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
