"""The keys beside the events: when the trace was taken, and what it says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from meantime.readers.chrome.text import decode

if TYPE_CHECKING:
    from meantime.trace import Sliceable, Trace

__all__ = ["read_header"]

# What is longer is kept as it stands: reading it would take long, and nothing asks for its parts.
_LONGEST_READ_BYTES = 4096
_LIMIT_NS = 2**62


def read_header(top: list[tuple[bytes, int, int]], text: Sliceable, trace: Trace) -> None:
    """Keep these keys as the trace's facts, its title, and UTC at its origin if it says so."""
    for key, offset, length in top:
        name = decode(key)
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
        if name == "traceName" and isinstance(value, str):
            trace.title = value
        if name == "baseTimeNanoseconds" and type(value) is int and abs(value) < _LIMIT_NS:
            # what PyTorch's events count from
            trace.clock = replace(trace.clock, kind="realtime", utc_at_origin_ns=value)
        if name == "beginningOfTime" and type(value) is int and abs(value) < _LIMIT_NS // 1000:
            # what clang's count from, in microseconds
            trace.clock = replace(trace.clock, kind="realtime", utc_at_origin_ns=value * 1000)
        if name == "host_name" and isinstance(value, str):
            trace.clock = replace(trace.clock, host=value)
        trace.facts[name] = value if isinstance(value, str) else json.dumps(value)
