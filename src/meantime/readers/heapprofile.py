"""V8's .heapprofile: bytes that are still allocated, by the stack that allocated them.

The format has no times: the stacks follow one another, each for its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object
from meantime.readers.sample_rows import SampleRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "heapprofile"
TEXT = True

_ROOT = "(root)"


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch reads the whole file. Of the options, none is used.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    profile = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    try:
        trace.records = _add(profile["head"], stacks, samples)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        raise InputError(
            source.name, "not a heap profile: a node has no callFrame, selfSize or children"
        ) from None
    trace.paths.append(thread_path(0, 0))
    trace.sample_units["space"] = "bytes"
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()


def _add(head: dict[str, Any], stacks: StackTableBuilder, samples: SampleRows) -> int:
    """Add the nodes below one, and return how many there are."""
    waiting = [(head, NO_STACK)]
    at = nodes = 0
    while waiting:
        node, stack = waiting.pop()
        nodes += 1
        name = str(node["callFrame"].get("functionName") or "(anonymous)")
        if name != _ROOT:
            stack = stacks.push(stack, stacks.frame(name))
        size = int(node["selfSize"])
        if size < 0:
            raise ValueError(size)
        if size:
            samples.add(0, at, stack, size, "space")
            at += size
        waiting += [(child, stack) for child in reversed(node.get("children") or [])]
    return nodes
