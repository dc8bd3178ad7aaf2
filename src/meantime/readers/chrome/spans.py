"""Complete events and matched begins as one batch of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.readers.matching import Begins, Ends, close_spans
from meantime.trace import Arguments, Spans

if TYPE_CHECKING:
    from meantime.columns import Int32s
    from meantime.kernels.chrome import ChromeScanner
    from meantime.readers.chrome.entities import Entities
    from meantime.readers.chrome.text import Strings
    from meantime.trace import ArgumentText, Trace

__all__ = ["add_end_arguments", "name_or_empty", "read_spans"]


def name_or_empty(names: Strings, column: Int32s) -> Int32s:
    """Convert a column of the scanner's names; missing names become the empty string."""
    mapped = names.map(column)
    if not len(mapped) or mapped.min() >= 0:
        return mapped
    if "" not in names.texts:
        names.texts.append("")
    return np.where(mapped < 0, np.int32(names.texts.index("")), mapped)


def read_spans(
    scanner: ChromeScanner,
    trace: Trace,
    names: Strings,
    categories: Strings,
    entities: Entities,
    *,
    threads: dict[str, Any],
) -> Spans | None:
    """Return the spans of all threads; None if there are none."""
    columns = scanner.spans()
    marks = scanner.marks()
    mark_name = names.map(marks["name"])
    # an end event need not repeat the name: -1 and the empty name match any span
    if "" in names.texts:
        mark_name = np.where(mark_name == names.texts.index(""), np.int32(-1), mark_name)
    name = name_or_empty(names, columns["name"])
    level, closed = close_spans(
        Begins(columns["start_ns"], columns["end_ns"], columns["thread"], name, columns["flags"]),
        Ends(marks["time_ns"], marks["thread"], mark_name, marks["position"]),
        last_ns=threads["last_ns"],
        backwards=threads["backwards"],
        anomalies=trace.anomalies,
    )
    if not len(name):
        return None
    arguments = Arguments(columns["args_offset"], columns["args_length"])
    add_end_arguments(
        arguments, Arguments(marks["args_offset"], marks["args_length"]), closed, trace.text
    )
    return Spans(
        start_ns=columns["start_ns"],
        end_ns=columns["end_ns"],
        thread=entities.threads(columns["thread"]),
        name=name,
        category=categories.map(columns["category"]),
        level=level,
        flags=columns["flags"],
        arguments=arguments,
    )


def add_end_arguments(
    arguments: Arguments, of_ends: Arguments, closed: Int32s, text: ArgumentText
) -> None:
    """Merge the arguments of ends into those of the spans they closed.

    If both have a key, the end's value is used.
    """
    for end in np.flatnonzero((of_ends.length > 0) & (closed >= 0)):
        span = closed[end]
        offset, length = int(of_ends.offset[end]), int(of_ends.length[end])
        if arguments.length[span]:
            first = text.read(int(arguments.offset[span]), int(arguments.length[span]))
            second = text.read(offset, length)
            if first == second:
                continue
            both = _merged(first, second)
            offset, length = text.add(both), len(both)
        arguments.offset[span] = offset
        arguments.length[span] = length


def _merged(begin: bytes, end: bytes) -> bytes:
    """Join two JSON objects, or two other values as a list.

    A key of both is repeated rather than merged, which needs no parser: decoders use the last one.
    """
    first, second = begin.strip(), end.strip()
    if not (first.startswith(b"{") and second.startswith(b"{")):
        return b"[%b,%b]" % (first, second)
    inside, more = first[1:-1].strip(), second[1:-1].strip()
    return b"{%b%b%b}" % (inside, b"," if inside and more else b"", more)
