"""speedscope's JSON: an evented profile per thread, a sampled one per thread with samples.

Schema: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.query.threads import thread_of
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lanes, walk

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.history.history import History

__all__ = ["write"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NOT_HELD = (
    *("categories", "arguments", "unfinished spans, which became finished"),
    *("points", "flows", "counter series", "objects"),
)
_UNITS = {"wall": "nanoseconds", "cpu-clock": "nanoseconds", "bytes": "bytes"}


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file."""
    del version
    count_rest(history, lost, *_NOT_HELD)
    frames: dict[str, int] = {}
    profiles = [
        *_evented(history, frames, lost),
        *_sampled(history, frames),
    ]
    yield (
        json.dumps(
            {
                "$schema": _SCHEMA,
                "name": history.title or "meantime",
                "exporter": "meantime",
                "shared": {"frames": [{"name": name} for name in frames]},
                "profiles": profiles,
            }
        ).encode()
        + b"\n"
    )


def _evented(
    history: History, frames: dict[str, int], lost: Counter[str]
) -> Iterator[dict[str, Any]]:
    spans = history.spans()
    codes = np.array([frames.setdefault(name, len(frames)) for name in spans.name.names], np.int64)
    name = codes[spans.name.codes] if len(spans) else codes
    for thread, quark in enumerate(spans.threads.tolist()):
        for lane, rows in lanes(spans, thread):
            if lane:
                lost["lanes of overlapping spans, which became profiles"] += 1
            events = [
                {"type": "O" if begins else "C", "frame": int(name[row]), "at": time_ns}
                for begins, row, time_ns in walk(spans, rows)
            ]
            yield {
                "type": "evented",
                "name": _called(history, quark) + (f" (lane {lane})" if lane else ""),
                "unit": "nanoseconds",
                "startValue": min((event["at"] for event in events), default=0),
                "endValue": max((event["at"] for event in events), default=0),
                "events": events,
            }


def _sampled(history: History, frames: dict[str, int]) -> Iterator[dict[str, Any]]:
    samples = history.samples()
    for quark in np.unique(samples.thread).tolist():
        part = samples.select([quark])
        for code in np.unique(part.event.codes).tolist():
            rows = np.flatnonzero(part.event.codes == code)
            stacks = [
                [
                    frames.setdefault(name, len(frames))
                    for name in part.stacks.frames_of(int(part.stack[row]))
                ]
                for row in rows
            ]
            weights = part.weight[rows].tolist()
            start = int(part.time_ns[rows[0]])
            yield {
                "type": "sampled",
                "name": _called(history, quark),
                "unit": _UNITS.get(part.event.names[code], "none"),
                "startValue": start,
                "endValue": start + sum(weights),
                "samples": stacks,
                "weights": weights,
            }


def _called(history: History, quark: int) -> str:
    whose = thread_of(history, quark)
    name = whose.name or whose.path or ""
    place = f"{whose.process or 'process'} {whose.pid}"
    if whose.tid is not None:
        place += f", thread {whose.tid}"
    return f"{name} ({place})" if name else place
