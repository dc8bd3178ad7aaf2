"""Folded stacks: a line per stack, functions from the outermost joined by `;`, a blank, a weight.

The format has no times: the time of a stack's sample is the sum of the weights before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.attribute_paths import thread_path
from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.sample_rows import SampleRows
from meantime.readers.source import HEAD_BYTES
from meantime.readers.window import lines
from meantime.stacks import StackTableBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "folded"

_LINE = re.compile(rb"(.*\S)[ \t]+(\d{1,18})(?:\.(\d+))?[ \t]*", re.DOTALL)
_LIMIT = 2**62
# How JSON begins; `[unknown]` and `{main}` are functions.
_JSON = re.compile(rb"\s*(?:\{\s*(?:[\"}]|$)|\[\s*(?:[{\"\]]|-?\d[\d.eE+-]*\s*,|$))")
_SNIFFED_LINES = 20


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with folded stacks: every line ends in a number."""
    lines = head.split(b"\n")
    # the head may end inside a line, before the weight
    if len(lines) > 1 and len(head) >= HEAD_BYTES:
        lines = lines[:-1]
    lines = [line.rstrip(b"\r") for line in lines[:_SNIFFED_LINES] if line.strip()]
    if not lines or b"\0" in head or _JSON.match(head.removeprefix(b"\xef\xbb\xbf")):
        return False
    if name.endswith((".folded", ".collapsed")):
        return True
    return all(map(_LINE.fullmatch, lines)) and any(b";" in line for line in lines)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch is read when it is requested.

    Raises:
        InputError: From the batches, if a line is not a stack with a weight.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.paths.append(thread_path(0, 0))
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    # folded stacks have no times: the stacks follow one another, each for its weight
    at = 0
    for number, line in enumerate(lines(source, options), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip(b"\r"))
        if match is None or at > _LIMIT:
            if not options.lenient:
                raise InputError(
                    source.name, "expected functions joined by ; and a weight", line=number
                )
            trace.anomalies.add("bad_record")
            continue
        functions = match[1].decode("utf-8", "replace").split(";")
        weight = int(match[2])
        if match[3] and match[3].strip(b"0"):
            # rounded to nearest, as times are
            weight += match[3][:1] >= b"5"
            trace.anomalies.add("weight_rounded")
        samples.add(0, at, stacks.add(functions), weight, "samples")
        at += weight
    trace.anomalies.add("truncated", int(source.truncated))
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()
