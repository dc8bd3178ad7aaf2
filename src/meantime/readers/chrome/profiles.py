"""Samples in a trace: V8 profiles (P events), and the keys `samples` and `stackFrames`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.readers.chrome.records import PROFILES
from meantime.readers.json_file import exact
from meantime.readers.sample_rows import SampleRows, times_of
from meantime.readers.v8 import NodeTree

if TYPE_CHECKING:
    from meantime.model.trace import Samples, Sliceable
    from meantime.readers.chrome.records import Records

__all__ = ["read_profiles"]

# ArithmeticError: raised by decimals whose exponents are too large
_MALFORMED = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)


def read_profiles(
    records: Records, top: list[tuple[bytes, int, int]], text: Sliceable
) -> Samples | None:
    """Return the samples of both kinds and set the trace's stacks; None if there are none."""
    stacks = StackTableBuilder()
    samples = SampleRows(records.trace.values)
    _read_v8(records, stacks, samples)
    _read_legacy(records, top, text, stacks, samples)
    if not samples:
        return None
    records.trace.stacks = stacks.build()
    return samples.batch()


def _read_v8(records: Records, stacks: StackTableBuilder, samples: SampleRows) -> None:
    profiles: dict[tuple[str, str], tuple[NodeTree, list[int], list[int], list[int]]] = {}
    for row in records.rows("PI").tolist():
        name = records.name_of(row)
        if name not in PROFILES:
            continue
        arguments = records.arguments_of(row)
        data = arguments.get("data") if isinstance(arguments, dict) else None
        if not isinstance(data, dict):
            records.trace.anomalies.add("bad_profile")
            continue
        thread = int(records.thread[row])
        id_ = records.entities.ids[records.id[row]] if records.id[row] >= 0 else ""
        tree, nodes, deltas, owner = profiles.setdefault(
            (records.entities.process_id(thread), id_), (NodeTree(stacks), [], [], [])
        )
        try:
            _chunk(data, tree, nodes, deltas)
            # V8 writes a Profile event with the start, then chunks under the same id, often from
            # another thread: samples belong to the thread of the former
            if name != "ProfileChunk":
                owner[:] = [thread, int(data.get("startTime", records.time_ns[row] // 1000))]
        except _MALFORMED:
            records.trace.anomalies.add("bad_profile")
    for tree, nodes, deltas, owner in profiles.values():
        if not nodes:
            continue
        if not owner or len(nodes) != len(deltas):
            records.trace.anomalies.add("bad_profile", len(nodes))
            continue
        try:
            time_ns = times_of(owner[1], deltas)
        except ValueError:
            records.trace.anomalies.add("bad_profile", len(nodes))
            continue
        samples.add_run(
            records.entities.thread(owner[0]), time_ns, [tree.stack(node) for node in nodes]
        )


def _chunk(data: dict[str, Any], tree: NodeTree, nodes: list[int], deltas: list[int]) -> None:
    profile = data.get("cpuProfile") or {}
    tree.add(profile.get("nodes") or [])
    nodes += [int(node) for node in profile.get("samples") or []]
    given = data.get("timeDeltas") or profile.get("timeDeltas") or []
    deltas += [int(delta) for delta in given]


def _read_legacy(
    records: Records,
    top: list[tuple[bytes, int, int]],
    text: Sliceable,
    stacks: StackTableBuilder,
    samples: SampleRows,
) -> None:
    found = {key: (offset, length) for key, offset, length in top}
    if b"samples" not in found:
        return
    try:
        values, frames = (
            json.loads(bytes(text[offset : offset + length]), parse_float=Decimal, strict=False)
            for offset, length in (found[b"samples"], found.get(b"stackFrames", (0, 0)))
            if length
        )
    except (ArithmeticError, RecursionError, ValueError):
        records.trace.anomalies.add("bad_profile")
        return
    # samples of this kind have a tid but usually no pid
    known: dict[str, int] = {}
    entities = records.entities
    owners = {
        entities.ids[tid]: entities.ids[pid]
        for tid, pid in zip(entities.tid.tolist(), entities.pid.tolist(), strict=True)
    }
    for sample in values if isinstance(values, list) else []:
        try:
            tid = str(sample["tid"])
            time_ns = int(exact(str(sample["ts"])) * 1000)
            frame = str(sample["sf"])
            stack = NO_STACK if frame == "-1" else _frame_stack(frame, frames, known, stacks)
            weight = int(exact(str(sample.get("weight", 1))))
            process = str(sample.get("pid", owners.get(tid, "0")))
            thread = records.entities.code(thread_path(tid, process))
            samples.add(thread, time_ns, stack, weight, str(sample.get("name", "samples")))
        except _MALFORMED:
            records.trace.anomalies.add("bad_profile")


def _frame_stack(
    frame: str, frames: dict[str, Any], known: dict[str, int], stacks: StackTableBuilder
) -> int:
    """Return the stack of a frame, following its parents."""
    chain: list[str] = []
    while frame not in known:
        chain.append(frame)
        known[frame] = NO_STACK  # a cycle of parents ends here
        parent = frames[frame].get("parent")
        if parent is None:
            break
        frame = str(parent)
    stack = known[frame]
    for code in reversed(chain):
        name = str(frames[code].get("name", ""))
        stack = known[code] = stacks.push(stack, stacks.frame(name))
    return stack
