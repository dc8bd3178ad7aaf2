"""V8's .cpuprofile: samples of a tree of call nodes, as Chrome's and node's profilers save them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.attribute_paths import thread_path
from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object
from meantime.readers.sample_rows import SampleRows, times_of
from meantime.readers.v8 import NodeTree
from meantime.stacks import StackTableBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "cpuprofile"


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like a V8 CPU profile."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"{") or b'"traceEvents"' in text:
        return False
    return (b'"nodes"' in text and b'"callFrame"' in text) or name.endswith(".cpuprofile")


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file, a single JSON value.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    profile = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    stacks = StackTableBuilder()
    tree = NodeTree(stacks)
    try:
        tree.add(profile["nodes"])
        nodes = [int(node) for node in profile.get("samples", [])]
        deltas = [int(delta) for delta in profile.get("timeDeltas", [])]
        time_ns = times_of(int(profile.get("startTime", 0)), deltas)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise InputError(
            source.name, "not a CPU profile: nodes, samples or timeDeltas are missing or malformed"
        ) from None
    if len(deltas) != len(nodes):
        raise InputError(
            source.name, f"there are {len(nodes):,} samples but {len(deltas):,} timeDeltas"
        )
    trace.paths.append(thread_path(0, 0))
    samples = SampleRows(trace.values)
    if nodes:
        samples.add_run(0, time_ns, [tree.stack(node) for node in nodes])
        trace.stacks = stacks.build()
        yield samples.batch()
