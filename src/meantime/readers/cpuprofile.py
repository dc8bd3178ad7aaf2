"""V8's .cpuprofile: samples of a tree of nodes, as Chrome's and node's profilers save them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.readers.json_file import load_object
from meantime.readers.sampling import SampleColumns
from meantime.readers.v8 import NodeTree
from meantime.stacks import StackTableBuilder
from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.readers.source import Source
    from meantime.trace import Batch

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "cpuprofile"

_NS_PER_US = 1000


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input beginning like this is a V8 CPU profile."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"{") or b'"traceEvents"' in text:
        return False
    return (b'"nodes"' in text and b'"callFrame"' in text) or name.endswith(".cpuprofile")


def read(
    source: Source,
    *,
    lenient: bool = False,
    until_ns: int | None = None,
    keep: Callable[[str], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Return the trace; its batches read the file when the first one is asked for.

    Args:
        source: An open input, nothing read of it yet.
        lenient: Not used: a profile is one record.
        until_ns: Not used: the file is read whole.
        keep: Not used, for the same reason.
        progress: Called with the bytes read so far and in all.

    Raises:
        InputError: From the batches, if it is not such a file.
    """
    del lenient, until_ns, keep
    trace = Trace(source.name, FORMAT, iter(()))
    trace.batches = _batches(source, trace, progress)
    return trace


def _batches(
    source: Source, trace: Trace, progress: Callable[[int, int], None] | None
) -> Iterator[Batch]:
    profile = load_object(source)
    if progress is not None:
        progress(1, 1)
    stacks = StackTableBuilder()
    tree = NodeTree(stacks)
    try:
        tree.add(profile["nodes"])
        nodes = [int(node) for node in profile.get("samples", [])]
        deltas = [int(delta) for delta in profile.get("timeDeltas", [])]
        start_us = int(profile.get("startTime", 0))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(
            source.name, "a CPU profile has nodes, samples and timeDeltas, this has not"
        ) from None
    if len(deltas) != len(nodes):
        raise InputError(
            source.name, f"{len(nodes):,} samples have {len(deltas):,} timeDeltas, not one each"
        )
    trace.paths.append(("Processes", "0", "Threads", "0"))
    samples = SampleColumns(trace.values)
    if nodes:
        time_ns = (np.cumsum(np.array(deltas, np.int64)) + start_us) * _NS_PER_US
        samples.add_run(0, time_ns, [tree.stack(node) for node in nodes])
        trace.stacks = stacks.build()
        yield samples.batch()
