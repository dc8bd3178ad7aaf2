"""Profiles of stackprof, for Ruby, as JSON: `StackProf.run(raw: true)` and `JSON.generate`.

Each sample has a stack and the time since the sample before it. Profiles of allocated objects have
no times: the stacks follow one another, each for its weight. Definition:
https://github.com/tmm1/stackprof#all-options
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object
from meantime.readers.sample_rows import SampleRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "stackprof"
TEXT = True

_NS_PER_US = 1000
_MALFORMED = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
_TIMED = ("wall", "cpu")
_FACT_CHARACTERS = 200
_FACTS = {"samples": "samples", "gc_samples": "samples of the garbage collector"} | {
    "missed_samples": "missed samples", "mode": "mode", "interval": "interval"
}  # fmt: skip


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch reads the whole file. Of the options, none is used.

    Raises:
        InputError: From the batches, if it is malformed or has no stacks.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    profile = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    if profile.get("samples") and not profile.get("raw"):
        raise InputError(
            source.name, "the profile has no stacks: record it with `StackProf.run(raw: true)`"
        )
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    try:
        _add(profile, stacks, samples)
    except _MALFORMED:
        raise InputError(
            source.name, "the profile is malformed: frames, raw or raw_timestamp_deltas"
        ) from None
    trace.paths.append(thread_path(0, 0))
    trace.facts |= {
        called: str(profile[key])[:_FACT_CHARACTERS]
        for key, called in _FACTS.items()
        if profile.get(key) is not None
    }
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()


def _add(profile: dict[str, Any], stacks: StackTableBuilder, samples: SampleRows) -> None:
    names = {
        int(key): str(frame.get("name") or "(unknown)") for key, frame in profile["frames"].items()
    }
    mode = str(profile["mode"])[:_FACT_CHARACTERS]
    interval = int(profile.get("interval") or 1)
    is_timed = mode in _TIMED
    each = interval * _NS_PER_US if is_timed else interval
    raw: list[int] = profile.get("raw") or []
    deltas: list[int] = (profile.get("raw_timestamp_deltas") or []) if is_timed else []
    times = [time_us * _NS_PER_US for time_us in accumulate(deltas)]
    at = done = time_ns = 0
    while at < len(raw):
        depth = raw[at]
        weight = raw[at + depth + 1] if depth >= 0 else -1
        if weight < 0:
            raise ValueError(weight)
        stack = stacks.add(names.get(frame, "(unknown)") for frame in raw[at + 1 : at + 1 + depth])
        at += depth + 2
        if done + weight <= len(times):
            for time_ns in times[done : done + weight]:
                samples.add(0, time_ns, stack, each, mode)
            done += weight
        else:
            samples.add(0, time_ns, stack, weight * each, mode)
            time_ns += weight * each
