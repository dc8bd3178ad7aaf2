"""speedscope's JSON: an evented profile per thread, a sampled one per thread with samples.

Schema: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.columns import Interner
from meantime.history.samples import ALL_EVENTS
from meantime.query.stacks import check_expansion_limit
from meantime.query.threads import thread_of
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lanes, walk

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from meantime.history.history import History
    from meantime.query.stacks import CallTree

__all__ = ["write", "write_tree"]

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
    names: list[str] = []
    frames = Interner(names)
    profiles = [
        *_evented(history, frames, lost),
        *_sampled(history, frames),
    ]
    yield _document(history.title or "meantime", names, profiles)


def write_tree(tree: CallTree, *, title: str, unit: str) -> Iterator[bytes]:
    """Yield a call tree as one sampled profile, a sample per stack.

    Raises:
        MeantimeError: If its stacks, written out one by one, are too long for any file.
    """
    check_expansion_limit(tree)
    rows = [row for row, own in enumerate(tree.own.tolist()) if own > 0]
    names: list[str] = []
    frames = Interner(names)
    samples = [frames.codes(tree.stacks.frames_of(row)).tolist() for row in rows]
    weights = [int(tree.own[row]) for row in rows]
    profile = _profile(title, "nanoseconds" if unit == "ns" else "none", 0, samples, weights)
    yield _document(title, names, [profile])


def _document(name: str, frames: Sequence[str], profiles: list[dict[str, Any]]) -> bytes:
    document = {
        "$schema": _SCHEMA,
        "name": name,
        "exporter": "meantime",
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": profiles,
    }
    return json.dumps(document).encode() + b"\n"


def _profile(
    name: str, unit: str, start: int, samples: list[list[int]], weights: list[int]
) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": start,
        "endValue": start + sum(weights),
        "samples": samples,
        "weights": weights,
    }


def _evented(
    history: History, frames: Interner[str], lost: Counter[str]
) -> Iterator[dict[str, Any]]:
    spans = history.spans()
    codes = frames.codes(spans.name.names)
    name = codes[spans.name.codes] if len(spans) else codes
    for thread, quark in enumerate(spans.threads.tolist()):
        for lane, rows in lanes(spans, thread):
            # speedscope rejects a profile in which a frame closes that is not the innermost one
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


def _sampled(history: History, frames: Interner[str]) -> Iterator[dict[str, Any]]:
    samples = history.samples(event=ALL_EVENTS)
    for quark in np.unique(samples.thread).tolist():
        part = samples.select([quark])
        for code in np.unique(part.event.codes).tolist():
            rows = np.flatnonzero(part.event.codes == code)
            stacks = [
                frames.codes(part.stacks.frames_of(int(part.stack[row]))).tolist() for row in rows
            ]
            yield _profile(
                _called(history, quark),
                _UNITS.get(part.event.names[code], "none"),
                int(part.time_ns[rows[0]]),
                stacks,
                part.weight[rows].tolist(),
            )


def _called(history: History, quark: int) -> str:
    whose = thread_of(history, quark)
    name = whose.name or whose.path or ""
    ids = f"{whose.process or 'process'} {whose.pid}"
    if whose.tid is not None:
        ids += f", thread {whose.tid}"
    return f"{name} ({ids})" if name else ids
