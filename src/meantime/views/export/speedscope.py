"""speedscope's JSON: an evented profile per thread, a sampled one per thread with samples.

Schema: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.samples import ALL_EVENTS
from meantime.kernels.export_rows import frame_events
from meantime.model.columns import Interner, distinct
from meantime.query.stacks import check_expansion_limit
from meantime.query.threads import thread_of
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lane_groups, steps

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.query.stacks import CallTree

__all__ = ["write", "write_tree"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NOT_HELD = (
    *("categories", "arguments", "unfinished spans, which became finished"),
    *("points", "flows", "counter series", "objects"),
)
# How many events are written at once.
_EVENTS = 1 << 16
_UNITS = {"wall": "nanoseconds", "cpu-clock": "nanoseconds", "bytes": "bytes"}


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file."""
    del version
    count_rest(history, lost, *_NOT_HELD)
    names: list[str] = []
    frames = Interner(names)
    codes = frames.codes(history.spans().name.names)
    sampled = [*_sampled(history, frames, lost)]
    profiles = chain(_evented(history, codes, lost), ([_json(profile)] for profile in sampled))
    yield from _document(history.title or "meantime", names, profiles)


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
    yield from _document(title, names, [[_json(profile)]])


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _document(
    name: str, frames: Sequence[str], profiles: Iterable[Iterable[bytes]]
) -> Iterator[bytes]:
    """Yield the file; `profiles` are the parts of the text of each."""
    document = {
        "$schema": _SCHEMA,
        "name": name,
        "exporter": "meantime",
        "shared": {"frames": [{"name": frame} for frame in frames]},
    }
    yield _json(document)[:-1] + b', "profiles": ['
    for number, parts in enumerate(profiles):
        if number:
            yield b", "
        yield from parts
    yield b"]}\n"


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


def _evented(history: History, codes: Int32s, lost: Counter[str]) -> Iterator[Iterator[bytes]]:
    """Yield the profile of each lane of a thread; `codes` are the frames of the spans' names."""
    spans = history.spans()
    # the roots of a lane have parents in others
    parent = np.where(spans.lane[spans.parent] == spans.lane, spans.parent, np.int32(-1))
    for group in lane_groups(spans):
        row, begins, time_ns = steps(spans, group.rows, parent)
        frame = codes[spans.name.codes[row]]
        bounds = (2 * group.starts).tolist()
        for index, (thread, lane) in enumerate(zip(group.thread, group.lane, strict=True)):
            # speedscope rejects a profile in which a frame closes that is not the innermost one
            if lane:
                lost["lanes of overlapping spans, which became profiles"] += 1
            name = _called(history, int(spans.threads[thread]))
            part = slice(*bounds[index : index + 2])
            yield _evented_profile(
                name + (f" (lane {lane})" if lane else ""), begins[part], frame[part], time_ns[part]
            )


def _evented_profile(
    name: str, begins: npt.NDArray[np.bool_], frame: Int32s, time_ns: Int64s
) -> Iterator[bytes]:
    head = {
        "type": "evented",
        "name": name,
        "unit": "nanoseconds",
        "startValue": int(time_ns.min()),
        "endValue": int(time_ns.max()),
    }
    yield _json(head)[:-1] + b', "events": ['
    for first in range(0, len(frame), _EVENTS):
        part = slice(first, first + _EVENTS)
        text = frame_events(begins[part].view(np.uint8), frame[part], time_ns[part])
        yield b", " + text if first else text
    yield b"]}"


def _sampled(
    history: History, frames: Interner[str], lost: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield a profile of each thread and event; speedscope refuses weights below 0."""
    samples = history.samples(event=ALL_EVENTS)
    lost["samples whose weight is negative"] += int((samples.weight < 0).sum())
    for quark in distinct(samples.thread).tolist():
        part = samples.select([quark])
        for code in distinct(part.event.codes).tolist():
            rows = np.flatnonzero((part.event.codes == code) & (part.weight >= 0))
            if not len(rows):
                continue
            stacks = [
                frames.codes(part.stacks.frames_of(int(part.stack[row]))).tolist() for row in rows
            ]
            yield _profile(
                _called(history, quark),
                _unit(part.event.names[code], samples.units),
                int(part.time_ns[rows[0]]),
                stacks,
                part.weight[rows].tolist(),
            )


def _unit(event: str, units: Mapping[str, str]) -> str:
    """Return what speedscope calls the unit of the weights of an event."""
    unit = units.get(event, "")
    return _UNITS.get(event) or ("nanoseconds" if unit == "ns" else unit or "none")


def _called(history: History, quark: int) -> str:
    whose = thread_of(history, quark)
    name = whose.name or whose.path or ""
    ids = f"{whose.process or 'process'} {whose.pid}"
    if whose.tid is not None:
        ids += f", thread {whose.tid}"
    return f"{name} ({ids})" if name else ids
