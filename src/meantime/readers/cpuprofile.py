"""V8's .cpuprofile: samples of a tree of call nodes, as Chrome's and node's profilers save them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object
from meantime.readers.sample_rows import SampleRows, times_of
from meantime.readers.v8 import NodeTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "cpuprofile"
TEXT = True


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file, a single JSON value.

    A profile without times has the number of samples of each node, one after the other.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    profile = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    stacks = StackTableBuilder()
    tree = NodeTree(stacks)
    samples = SampleRows(trace.values)
    try:
        # node up to 11 and Chrome up to 57 write nodes in each other, and times instead of deltas
        nodes = tree.add_tree(profile["head"]) if "head" in profile else profile["nodes"]
        if "head" not in profile:
            tree.add(nodes)
        sampled = [int(node) for node in profile.get("samples") or ()]
        times = _times(profile)
        if times is None:
            _add_hits(nodes, tree, samples)
            trace.facts["time axis"] = "numbers of samples, as the profile has no times"
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise InputError(
            source.name,
            "not a CPU profile: head or nodes, samples or their times are missing or malformed",
        ) from None
    has_hits = times is None and bool(samples)
    if (count := 0 if times is None else len(times)) != len(sampled) and not has_hits:
        raise InputError(source.name, f"there are {len(sampled):,} samples but {count:,} times")
    trace.records = len(sampled) or len(nodes)
    trace.paths.append(thread_path(0, 0))
    if times is not None and sampled:
        samples.add_run(0, times, [tree.stack(node) for node in sampled])
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()


def _times(profile: dict[str, Any]) -> Int64s | None:
    """Return the times of samples in nanoseconds; None if the profile has none.

    Raises:
        OverflowError, TypeError, ValueError: If they are malformed.
    """
    if "timestamps" in profile:
        return np.array([1000 * int(time_us) for time_us in profile["timestamps"]], np.int64)
    if "timeDeltas" in profile:
        deltas = [int(delta) for delta in profile["timeDeltas"]]
        return times_of(int(profile.get("startTime", 0)), deltas)
    return None


def _add_hits(nodes: list[dict[str, Any]], tree: NodeTree, samples: SampleRows) -> None:
    """Add the number of samples of each node."""
    at = 0
    for node in nodes:
        if (hits := int(node.get("hitCount") or 0)) > 0:
            samples.add(0, at, tree.stack(int(node["id"])), hits, "samples")
            at += hits
