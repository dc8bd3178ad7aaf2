"""speedscope's own JSON: evented profiles as spans, sampled ones as samples.

Each profile becomes a thread. The time of a sample is the profile's start plus the weights before
it; weights that are not times count as nanoseconds there.
Schema: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.kernels import nest
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import StackTableBuilder
from meantime.model.trace import SpanFlag, Spans
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object
from meantime.readers.matching import Begins, Ends, close_spans
from meantime.readers.sample_rows import SampleRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "speedscope"
TEXT = True

_NS_PER_UNIT = {
    "nanoseconds": 1,
    "microseconds": 10**3,
    "milliseconds": 10**6,
    "seconds": 10**9,
}
_LIMIT = 2**62
# Below this, a time in any unit is within the limit.
_WHOLE = _LIMIT // 10**9
# ArithmeticError: raised by decimals whose exponents are too large
_MALFORMED = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole file.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    file = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    try:
        frames = [str(frame["name"]) for frame in file["shared"]["frames"]]
        profiles = list(file["profiles"])
    except (KeyError, TypeError):
        raise InputError(
            source.name, "not a speedscope file: shared.frames or profiles are missing"
        ) from None
    trace.title = str(file["name"]) if file.get("name") else None
    trace.values += frames
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    for number, profile in enumerate(profiles):
        try:
            # the path is only added once the profile was read: a malformed one leaves no thread
            thread = len(trace.paths)
            batch = _read_profile(profile, thread, frames, trace, stacks, samples)
        except _MALFORMED:
            if not options.lenient:
                raise InputError(
                    source.name, f"profiles[{number}] is malformed, or neither evented nor sampled"
                ) from None
            trace.anomalies.add("bad_profile")
            continue
        trace.paths.append(thread_path(number, 0))
        trace.names[thread] = str(profile.get("name", ""))
        if batch is not None:
            yield batch
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()


def _read_profile(  # noqa: PLR0917 - shared by all profiles
    profile: dict[str, Any],
    thread: int,
    frames: list[str],
    trace: Trace,
    stacks: StackTableBuilder,
    samples: SampleRows,
) -> Batch | None:
    unit = str(profile.get("unit", "none"))
    scale = _NS_PER_UNIT.get(unit, 1)
    if profile["type"] == "evented":
        return _read_events(profile, thread, scale, len(frames), trace)
    if profile["type"] != "sampled":
        raise ValueError(profile["type"])
    at = _ns(profile.get("startValue", 0), scale)
    # weights in a unit of time are durations
    event = "wall" if unit in _NS_PER_UNIT else unit
    found = []
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        weight_ns = _ns(weight, scale)
        if unit not in _NS_PER_UNIT and weight_ns != weight:
            trace.anomalies.add("weight_rounded")
        found.append((at, stacks.add(frames[frame] for frame in stack), weight_ns))
        at += weight_ns
    if abs(at) > _LIMIT:
        raise ValueError(at)
    # either all samples of a profile are added, or none
    for time_ns, stack, weight_ns in found:
        samples.add(thread, time_ns, stack, weight_ns, event)
    return None


def _read_events(
    profile: dict[str, Any], thread: int, scale: int, frames: int, trace: Trace
) -> Batch | None:
    start_list: list[int] = []
    name_list: list[int] = []
    ends: list[tuple[int, int, int]] = []
    last_ns = _ns(profile.get("endValue", 0), scale)
    latest, backwards = -_LIMIT, False
    for event in profile["events"]:
        at, frame, kind = event["at"], event["frame"], event["type"]
        # whole numbers, which most are, need no decimal arithmetic
        time_ns = at * scale if type(at) is int and -_WHOLE < at < _WHOLE else _ns(at, scale)
        if type(frame) is not int:
            frame = int(frame)
        # checked here, since it becomes a code of the trace's values without a look-up
        if not 0 <= frame < frames:
            raise IndexError(frame)
        if time_ns < latest:
            backwards = True
        else:
            latest = time_ns
        if kind == "O":
            start_list.append(time_ns)
            name_list.append(frame)
        elif kind == "C":
            ends.append((time_ns, frame, len(start_list)))
        else:
            raise ValueError(kind)
    if not start_list:
        trace.anomalies.add("end_without_begin", len(ends))
        return None
    ended = np.array(ends, np.int64).reshape(-1, 3)
    rows = len(start_list)
    start_ns, name = np.array(start_list, np.int64), np.array(name_list, np.int32)
    end_ns, flags = start_ns.copy(), np.full(rows, SpanFlag.STRUCTURED | nest.OPEN, np.uint8)
    level = np.zeros(rows, np.int32)
    close_spans(
        Begins(start_ns, end_ns, np.zeros(rows, np.int32), name, flags),
        level,
        Ends(
            ended[:, 0].copy(),
            np.zeros(len(ended), np.int32),
            ended[:, 1].astype(np.int32),
            ended[:, 2].astype(np.int32),
        ),
        last_ns=np.array([max(latest, last_ns)]),
        backwards=np.array([backwards]),
        anomalies=trace.anomalies,
    )
    return Spans(
        start_ns=start_ns,
        end_ns=end_ns,
        thread=np.full(rows, thread, np.int32),
        name=name,
        category=np.full(rows, -1, np.int32),
        level=level,
        flags=flags,
    )


def _ns(value: object, scale: int) -> int:
    """Return a time rounded to the nearest nanosecond, computed without floats."""
    exact = (value if isinstance(value, Decimal) else Decimal(str(value))) * scale
    if not exact.is_finite() or abs(exact) > _LIMIT:
        raise ValueError(value)
    return int(exact.to_integral_value())
