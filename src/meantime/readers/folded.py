"""Folded stacks: a line per stack, functions from the outermost joined by `;`, a blank, a weight.

There are no times in it: a stack's sample stands where the weights before it end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.readers.sampling import SampleColumns
from meantime.stacks import StackTableBuilder
from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.readers.source import Source
    from meantime.trace import Batch

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "folded"

_LINE = re.compile(rb"(.*\S)[ \t]+(\d{1,18})(?:\.\d+)?[ \t]*")
_LIMIT = 2**62


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input beginning like this is folded stacks: every line ends in a number."""
    lines = [line for line in head.splitlines()[:20] if line.strip()]
    if len(head) >= 2**16 and len(lines) > 1 and len(head.splitlines()) <= 20:
        lines = lines[:-1]
    if not lines or head.lstrip()[:1] in {b"{", b"["} or b"\0" in head:
        return False
    all_fit = all(_LINE.fullmatch(line) for line in lines)
    return all_fit and (name.endswith((".folded", ".collapsed")) or b";" in lines[0])


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
        lenient: Whether lines that are not a stack and a weight are counted and left out.
        until_ns: Not used: the file is read whole.
        keep: Not used, for the same reason.
        progress: Called with the bytes read so far and in all.

    Raises:
        InputError: From the batches, if a line is not a stack and a weight.
    """
    del until_ns, keep
    trace = Trace(source.name, FORMAT, iter(()))
    trace.batches = _batches(source, trace, lenient=lenient, progress=progress)
    return trace


def _batches(
    source: Source,
    trace: Trace,
    *,
    lenient: bool,
    progress: Callable[[int, int], None] | None,
) -> Iterator[Batch]:
    with source:
        text = bytes(source.whole())
    if progress is not None:
        progress(len(text), len(text))
    trace.paths.append(("Processes", "0", "Threads", "0"))
    stacks = StackTableBuilder()
    samples = SampleColumns(trace.values)
    at = 0
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip(b"\r"))
        if match is None or at > _LIMIT:
            if not lenient:
                raise InputError(
                    source.name, "a line is functions joined by ; and a whole weight", line=number
                )
            trace.anomalies.add("bad_record")
            continue
        functions = match[1].decode("utf-8", "replace").split(";")
        weight = int(match[2])
        samples.add(0, at, stacks.add(functions), weight, "samples")
        at += weight
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()
