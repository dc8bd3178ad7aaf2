"""A Chrome trace is the same however much of it is read before what has ended is delivered."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.history.ingest import build
from meantime.readers import chrome
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source

MORE: list[dict[str, Any]] = [
    {},
    {"args": {"a": 1}},
    {"args": {"b": [2]}, "cat": "c"},
    {"name": ""},
    {"name": None},
    {"name": "\u00e9"},
    {"bind_id": 1, "flow_out": True},
    {"bind_id": 1, "flow_in": True},
]
# The last of these goes backwards in time at once.
THREADS = 3


def traces(chosen: Random) -> list[dict[str, Any]]:
    """Return events of all phases; begins and ends of all threads but one are in order of time."""
    events: list[dict[str, Any]] = [
        {"ph": "B", "name": "a", "ts": 10, "tid": THREADS - 1},
        {"ph": "E", "ts": 5, "tid": THREADS - 1},
    ]
    now = [0] * THREADS
    for _ in range(chosen.randrange(60)):
        phase = chosen.choice("BBBBEEEEXXXiRIbneCMsftNOD?")
        thread, number = chosen.randrange(THREADS), chosen.randrange(4)
        event: dict[str, Any] = {
            "ph": phase,
            "name": chosen.choice("abc"),
            "ts": 6 * number,
            "tid": thread,
        }
        event |= chosen.choice(MORE)
        if phase in "BE" and thread < THREADS - 1:
            now[thread] += number // 2
            event["ts"] = now[thread]
        if phase == "X":
            event |= {"ts": now[thread] - number + 1, "dur": chosen.randrange(5)}
        elif phase in "bnestfNOD":
            event["id"] = number
        elif phase == "C":
            event["args"] = {"value": number}
        elif phase == "M":
            event |= {"name": "thread_name", "args": {"name": f"thread {number}"}}
        elif phase == "I" and number == 3:
            event |= {"name": "ProfileChunk", "args": {"data": None}}
        events.append({key: value for key, value in event.items() if value is not None})
    return events


def contents(data: bytes, rows: int) -> dict[str, Any]:
    """Return all that a trace says but the numbers of spans; so many rows are delivered at once."""
    with patch.object(chrome, "DELIVERED_ROWS", rows), patch.object(chrome, "BLOCK_BYTES", 64):
        trace = chrome.read(Source("trace.json", io.BytesIO(data)), ReadOptions())
        history = build(trace)
    spans, points, flows = history.spans(), history.points(), history.flows()
    attributes = history.attributes
    intervals = history.intervals(np.arange(len(attributes), dtype=np.int32))

    def paths(quarks: Any) -> list[Any]:
        return [attributes.path(quark) for quark in quarks.tolist()]

    return {
        "threads": (paths(spans.threads), spans.offsets.tolist()),
        "spans": [
            getattr(spans, name).tolist()
            for name in ("start_ns", "end_ns", "depth", "lane", "parent", "flags")
        ],
        "names": (spans.name.to_list(), spans.category.to_list()),
        "arguments": [spans.arguments(row) for row in range(len(spans))],
        "points": (points.time_ns.tolist(), paths(points.quark), points.name.to_list()),
        "point arguments": [points.arguments(row) for row in range(len(points))],
        "flows": (flows.from_ns.tolist(), flows.to_ns.tolist(), flows.name.to_list()),
        "states": sorted(
            zip(
                paths(intervals.quark),
                intervals.start_ns.tolist(),
                intervals.value.to_list(),
                strict=True,
            ),
            key=str,
        ),
        "called": sorted((attributes.path(q), name) for q, name in history.metadata.names.items()),
        "anomalies": sorted(dict(trace.anomalies).items()),
        "bounds": history.bounds,
    }


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_what_is_delivered_early_changes_nothing(seed: int, rows: int) -> None:
    # drawn at once, since hypothesis would try mostly short traces
    data = json.dumps(traces(Random(seed))).encode()  # noqa: S311 - no secret

    assert contents(data, rows) == contents(data, 2**30)
