"""Perfetto's own small traces, against the rows that its trace_processor finds in them.

What differs on purpose is listed here with the reason.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zstd_frames
from hypothesis import given
from hypothesis import strategies as st

from meantime.model.trace import Counters, Flows, Points, Samples, SpanFlag, Spans, StateChanges
from meantime.readers import perfetto
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source

if TYPE_CHECKING:
    from meantime.model.trace import Trace

FOLDER = Path(__file__).parents[1] / "samples" / "perfetto"
# These are what programs and the kernel wrote. The other tracks of trace_processor are made of
# events that are points here (fences, requests, allocations), or of packets that are not shown.
TRACKS = {
    "thread_execution",
    "thread_track_event",
    "process_track_event",
    "global_track_event",
    "thread_merged_track_event",
    "process_merged_track_event",
    "global_merged_track_event",
    "legacy_async_global_slice",
    "legacy_async_process_slice",
    "chrome_process_instant",
    "atrace_async_slice",
    "atrace_async_slice_for_track",
}
STATES = {
    "running": "Running",
    "runnable": "R",
    "preempted": "R+",
    "blocked": "D",
    "sleeping": "S",
    "idle": "I",
    "parked": "P",
    "stopped": "T",
    "traced": "t",
    "unknown": None,  # trace_processor has no such state: it has no row, or the one before goes on
}
SLICES_DIFFER = {
    "metrics-android-android_auto_multiuser": "bundles without a CPU are those of CPU 0",
    "stdlib-android-memory-test_android_lmk": "a moment on a track of its own is on its thread",
    "metrics-memory-tests-test_cma": "allocations are two points, not a slice",
    "parser-memory-tests-test_cma_alloc_finish": "allocations are two points, not a slice",
    "parser-graphics-drm_dma_fence": "waits for fences are two points, not a slice",
    "stdlib-android-memory-test_memory_dmabuf": "binder transactions are points, not slices",
    "parser-ftrace-kprobes_tests-test_kprobes_instant": "a kprobe is called kprobe_event",
    "parser-atrace-android_b2b_async_begin": "a begin of an open id is one more span, as in text",
    "parser-track_event-tests-test_streaming_profile_timestamp_delta_overflow": "overflow",
    "parser-track_event-tests-test_track_event_delta_timestamp_addition_overflow": "overflow",
    "parser-translated_args-slice_name": "names are those of the trace, not of its translation",
}
FLOWS_DIFFER = {
    "parser-track_event-flow_events_proto_v1": "flows of phases begin and end at their events",
    "stdlib-android-memory-test_memory_dmabuf": "binder transactions are points, not slices",
}


@cache
def archive() -> dict[str, bytes]:
    packed = (FOLDER / "diff-tests.tar.zst").read_bytes()
    data = zstd_frames.decompress(packed)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {
            Path(each.name).stem: file.read()
            for each in tar.getmembers()
            if (file := tar.extractfile(each)) is not None
        }


@cache
def truth() -> dict[str, Any]:
    packed = (FOLDER / "diff-tests.truth.json.zst").read_bytes()
    found: dict[str, Any] = json.loads(zstd_frames.decompress(packed))["traces"]
    return found


def read(name: str) -> tuple[Trace, list[Any]]:
    source = Source(name, io.BytesIO(archive()[name]))
    trace = perfetto.read(source, ReadOptions())
    return trace, list(trace.batches)


def thread_of(trace: Trace, entity: int) -> int | None:
    path = trace.paths[entity]
    return int(path[path.index("Threads") + 1]) if "Threads" in path else None


def slices_of(trace: Trace, batches: list[Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        if isinstance(batch, Spans):
            for start, end, thread, name, level, flags in zip(
                batch.start_ns, batch.end_ns, batch.thread, batch.name, batch.level, batch.flags,
                strict=True,
            ):  # fmt: skip
                length = -1 if flags & SpanFlag.UNFINISHED else int(end - start)
                if trace.paths[thread][0] == "CPUs":  # an interrupt
                    continue
                where = thread_of(trace, int(thread))
                depth = int(level) if flags & SpanFlag.STRUCTURED else None
                found.append((int(start), length, trace.values[name] or None, where, depth))
        elif isinstance(batch, Points):
            for time, entity, name in zip(batch.time_ns, batch.entity, batch.name, strict=True):
                # an instant is no span, so nothing is nested in it
                where = thread_of(trace, int(entity))
                found.append((int(time), 0, trace.values[name] or None, where, None))
    return found


@pytest.mark.parametrize("name", sorted(truth()))
def test_rows_are_those_of_trace_processor(name: str) -> None:
    expected = truth()[name]
    trace, batches = read(name)
    if name not in SLICES_DIFFER:
        check_slices(expected.get("slices", []), slices_of(trace, batches))
    if name not in FLOWS_DIFFER:
        flows = Counter(
            (int(from_ns), int(to_ns))
            for batch in batches
            if isinstance(batch, Flows)
            for from_ns, to_ns, code in zip(batch.from_ns, batch.to_ns, batch.name, strict=True)
            if trace.values[code] != "wakes"
        )
        assert flows == Counter((row[0], row[2]) for row in expected.get("flows", []))
    samples = Counter(
        (int(time), thread_of(trace, int(thread)))
        for batch in batches
        if isinstance(batch, Samples)
        for time, thread in zip(batch.time_ns, batch.thread, strict=True)
    )
    assert samples == Counter((row[0], row[1]) for row in expected.get("samples", []))
    if not name.startswith("parser-generic_kernel"):
        is_exact = name != "metrics-android-android_auto_multiuser"
        check_states(expected.get("thread_state", []), trace, batches, is_exact=is_exact)


def check_slices(rows: list[list[Any]], found: list[tuple[Any, ...]]) -> None:
    """Compare times, names and threads, and the depths of spans."""
    expected = [row for row in rows if row[6] in TRACKS]
    # tracks below a thread are beside it here
    threads = {"thread_execution", "thread_track_event"}
    points = {row[:4] for row in found if row[1] == 0}
    wanted = Counter(
        (row[0], row[1], row[2], row[7] if row[6] in threads else None) for row in expected
    )
    got = Counter(row[:4] for row in found)
    assert not wanted - got
    # what is more are events of the kernel, which are points here
    assert not [row for row in (got - wanted) if row not in points]
    depth = {row[:3]: row[4] for row in found if row[4] is not None}
    for row in expected:
        assert depth.get((row[0], row[1], row[2]), row[4]) == row[4], row


def check_states(
    rows: list[list[Any]], trace: Trace, batches: list[Any], *, is_exact: bool
) -> None:
    """Compare the states of threads; what ran last did so until the end.

    Unless it is exact: where switches are missing, the threads that events name run at that moment
    here, and the others are unknown; trace_processor lets these run on until the end.
    """
    expected = {(row[0], row[1], row[2], row[3]) for row in rows}
    changes: dict[int, list[tuple[int, str | None]]] = {}
    for batch in batches:
        if not isinstance(batch, StateChanges):
            continue
        for time, entity, state in zip(batch.time_ns, batch.entity, batch.state, strict=True):
            value = trace.values[state] if state >= 0 else None
            changes.setdefault(int(entity), []).append((int(time), value))
    found = set()
    for entity, own in changes.items():
        thread = thread_of(trace, entity)
        if thread is None or trace.paths[entity][-1] != "Status":
            continue
        for (time, state), after in zip(own, [*own[1:], (None, None)], strict=True):
            length = -1 if after[0] is None else after[0] - time
            if state is not None and length:
                found.add((time, length, STATES[state], thread))
    expected = {row for row in expected if row[2] not in {"X", "Z"}}
    if is_exact:
        assert found == expected
    else:
        assert {row[1:3] for row in expected - found} <= {(-1, "Running")}


@pytest.mark.parametrize(
    ("name", "entity", "values"),
    [
        (
            "stdlib-counters-tests-test_counter_track_parent_id",
            ("Processes", "global", "Counters", "parent_track / child_counter", "value"),
            {100: 10},
        ),
        (
            "stdlib-linux-cpu-test_linux_cpu_idle_stats",
            ("Processes", "kernel", "Counters", "cpufreq", "CPU 0"),
            {200000000000: 1704000, 200005000000: 300000},
        ),
        (
            "metrics-graphics-dpu_vote_clock_bw",
            ("Processes", "237", "Counters", "dpu_vote_clock", "value"),
            {1000000: 200000, 4000000: 210000, 7000000: 210000},
        ),
    ],
)
def test_counters_have_the_values_of_trace_processor(
    name: str, entity: tuple[str, ...], values: dict[int, float]
) -> None:
    trace, batches = read(name)
    assert entity in trace.paths
    code = trace.paths.index(entity)
    found = {
        int(time): float(value)
        for batch in batches
        if isinstance(batch, Counters)
        for time, own, value in zip(batch.time_ns, batch.entity, batch.value, strict=True)
        if own == code
    }
    assert values.items() <= found.items()
    expected = {(row[0], row[1]) for row in truth()[name]["counters"]}
    assert {*found.items()} <= expected


def test_arguments_of_begin_and_end_are_json() -> None:
    trace, batches = read("parser-track_event-track_event_merged_debug_annotations")
    (spans,) = (batch for batch in batches if isinstance(batch, Spans))
    arguments = spans.arguments
    assert arguments is not None
    text = trace.text.read(int(arguments.offset[0]), int(arguments.length[0]))
    assert json.loads(text) == {
        "debug1": {"key3": 30, "key2": [22, 23]},
        "debug2": '{"key4": 40, "key2": [22, 23], "key3": {"key32": 32}}',
        "debug3": 32,
        "debug4": {"key1": 10, "key2": [20, 21]},
    }


def test_every_packet_that_is_not_shown_is_counted() -> None:
    trace, _ = read("parser-power-power_rails")
    assert trace.anomalies["packet_not_shown"] == 3
    assert trace.facts["packets_not_shown"] == "power_rails 3"


def message(number: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def test_times_of_a_sequence_that_count_from_the_packet_before() -> None:
    """A clock in microseconds, related to boot time by another clock, known only later."""
    instant = message(11, integer(9, 3), integer(11, 5))
    state = integer(10, 1)

    def clock(id_: int, time: int, *more: bytes) -> bytes:
        return message(1, integer(1, id_), integer(2, time), *more)

    data = b"".join(
        [
            message(
                1,
                state,
                integer(13, 1),
                message(6, clock(64, 10, integer(3, 1), integer(4, 1000)), clock(3, 5000)),
                message(59, integer(58, 64)),
            ),
            message(1, state, integer(8, 5), instant),
            message(1, message(6, clock(3, 4000), clock(6, 104000))),
            message(1, state, integer(8, 7), instant),
        ]
    )
    trace = perfetto.read(Source("clocks", io.BytesIO(data)), ReadOptions())
    (points,) = (batch for batch in trace.batches if isinstance(batch, Points))
    # 10 us is 5000 ns of the monotonic clock, and 105,000 of boot time
    assert points.time_ns.tolist() == [110_000, 117_000]
    assert np.array_equal(points.name, [0, 0])


def test_packets_without_their_state_are_left_out_and_counted() -> None:
    event = message(11, integer(9, 3), integer(10, 1), integer(11, 5))
    names = message(12, message(2, integer(1, 1), message(2, b"known")))
    needs = integer(10, 1) + integer(13, 2)
    data = b"".join(
        [
            message(1, needs, integer(8, 1), event),
            message(1, integer(10, 1), integer(13, 1), names),
            message(1, needs, integer(8, 2), event),
            message(1, needs, integer(42, 1), integer(8, 3), event),
            message(1, integer(10, 1), integer(13, 3), integer(8, 4), event),
        ]
    )
    trace = perfetto.read(Source("state", io.BytesIO(data)), ReadOptions())
    (points,) = (batch for batch in trace.batches if isinstance(batch, Points))
    assert points.time_ns.tolist() == [2, 4]
    assert [trace.values[code] for code in points.name] == ["known", ""]
    assert trace.anomalies["packet_without_state"] == 2
    assert trace.anomalies["undefined_number"] == 1


def test_a_thread_is_woken_after_it_leaves_another_cpu_at_that_time() -> None:
    def switch(time: int, leaving: int, state: int, coming: int) -> bytes:
        fields = integer(2, leaving), integer(4, state), integer(6, coming)
        return message(2, integer(1, time), integer(2, leaving), message(4, *fields))

    waking = message(2, integer(1, 30), integer(2, 5), message(20, integer(2, 8), integer(5, 1)))
    data = b"".join(
        [
            message(1, message(1, integer(1, 0), switch(10, 9, 1, 5), waking)),
            message(1, message(1, integer(1, 1), switch(20, 7, 1, 8), switch(30, 8, 1, 7))),
            message(1, message(1, integer(1, 1), switch(40, 7, 1, 8), switch(50, 8, 1, 7))),
        ]
    )
    trace = perfetto.read(Source("tie", io.BytesIO(data)), ReadOptions())
    found = [
        (int(time), trace.values[state])
        for batch in trace.batches
        if isinstance(batch, StateChanges)
        for time, entity, state in zip(batch.time_ns, batch.entity, batch.state, strict=True)
        if thread_of(trace, int(entity)) == 8 and state >= 0
    ]
    assert [each for each in found if each[0] in {20, 30, 40, 50}][:4] == [
        (20, "running"), (30, "sleeping"), (30, "runnable"), (40, "running"),
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2]), st.integers(-3, 10), st.integers(1, 2), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_spans_are_matched_in_order_of_time(steps: list[tuple[int, int, int, bool]]) -> None:
    data, time_ns = b"", 100
    events: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
    for kind, later_ns, track, has_argument in steps:
        time_ns += later_ns
        argument = message(4, message(10, b"key"), integer(4, 1)) if has_argument else b""
        event = message(11, integer(9, kind), integer(11, track), message(23, b"f"), argument)
        data += message(1, integer(8, time_ns), integer(10, 1), event)
        events[track].append((time_ns, kind))
    trace = perfetto.read(Source("steps", io.BytesIO(data)), ReadOptions())
    found = Counter(
        (trace.paths[thread][-1], start, end)
        for batch in trace.batches
        if isinstance(batch, Spans)
        for thread, start, end in zip(
            batch.thread.tolist(), batch.start_ns.tolist(), batch.end_ns.tolist(), strict=True
        )
    )
    expected: Counter[tuple[str, int, int]] = Counter()
    for track, own in events.items():
        begun: list[int] = []
        for at, kind in sorted(own, key=lambda each: each[0]):
            if kind == 1:
                begun.append(at)
            elif begun:
                expected[f"{track:x}", begun.pop(), at] += 1
        last_ns = max((at for at, _ in own), default=0)
        expected.update((f"{track:x}", at, last_ns) for at in begun)
    assert found == expected
