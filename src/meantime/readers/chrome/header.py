"""The keys beside the events: when the trace was taken, and what it says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meantime.kernels.chrome import ChromeScanner
    from meantime.trace import Trace

__all__ = ["read_header"]

_LONGEST_FACT_BYTES = 4096


def read_header(scanner: ChromeScanner, text: memoryview, trace: Trace) -> None:
    """Keep what is short as the trace's facts, its title, and UTC at its origin if it says so."""
    for key, offset, length in scanner.top():
        name = key.decode("utf-8", "replace")
        if name in {"samples", "stackFrames"} or length > _LONGEST_FACT_BYTES:
            continue
        try:
            value = json.loads(bytes(text[offset : offset + length]), strict=False)
        except ValueError:
            trace.anomalies.add("bad_metadata")
            continue
        if name == "traceName" and isinstance(value, str):
            trace.title = value
        if name == "baseTimeNanoseconds" and isinstance(value, int):
            # what PyTorch's events count from
            trace.clock = replace(trace.clock, kind="realtime", utc_at_origin_ns=value)
        trace.facts[name] = value if isinstance(value, str) else json.dumps(value)
