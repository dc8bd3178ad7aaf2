"""What a handle names: a span, or what is at a time of a lane; and lanes chosen by patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import AttributeNotFound, UsageError
from meantime.model.attributes import format_path, parse_pattern
from meantime.model.columns import distinct
from meantime.model.extent import parse_handle
from meantime.query.parts import extent_of
from meantime.query.statistics import state_quarks
from meantime.query.threads import sampled_or_spanned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.model.columns import Int32s

__all__ = ["SPAN", "Handle", "choose_lanes", "matching_quarks", "resolve", "span_row"]

SPAN = "span "


class Handle(NamedTuple):
    """A span, or what is at a time of a lane.

    Attributes:
        path: The attribute.
        quark: Its number.
        span: The number of the span; None if it is not one.
        time_ns: The time in the handle; of a span its start.
        start_ns: Where the span or the state begins.
        end_ns: Where it ends.
    """

    path: str
    quark: int
    span: int | None
    time_ns: int
    start_ns: int
    end_ns: int


def resolve(history: History, text: str) -> Handle:
    """Return what a handle names: `span NUMBER`, or `PATH@TIME` of one lane.

    At a time of a lane of spans, it is the innermost span.

    >>> from meantime.testing import history_from_picture
    >>> resolve(history_from_picture("disk0  aabba."), "disk0@abs:3")
    Handle(path='disk0', quark=0, span=None, time_ns=3, start_ns=2, end_ns=4)

    Raises:
        AttributeNotFound: If there is no such lane.
        TimeRangeError: If the time is outside the history.
        UsageError: If there is no such span, nothing is at the time, or the path is not of one
            lane.
    """
    if text.startswith(SPAN):
        spans = history.spans()
        row = span_row(history, text.removeprefix(SPAN))
        return _span(history, row, int(spans.start_ns[row]))
    path, time = parse_handle(text)
    if not path:
        raise UsageError(f"{text!r} names no lane; write PATH@TIME or 'span NUMBER'")
    time_ns = extent_of(history).instant(time)
    quarks = matching_quarks(history, path)
    if len(quarks) > 1:
        raise UsageError(f"{path} matches {len(quarks):,} attributes; a handle needs exactly one")
    quark = int(quarks[0])
    state = history.state(quark, time_ns)
    if state.value is not None:
        path = history.attributes.text(quark)
        return Handle(path, quark, None, time_ns, state.start_ns, state.end_ns)
    spans = history.spans()
    open_spans = spans.select(quarks, start_ns=time_ns, end_ns=time_ns + 1)
    if not len(open_spans):
        raise UsageError(f"nothing is at this time of {path}; choose it with --lane and a range")
    innermost = int(np.argmax(open_spans.depth))
    return _span(history, span_row(history, str(open_spans.rows[innermost])), time_ns)


def span_row(history: History, number: str) -> int:
    """Return the row of the span with a number, which is given as text.

    Raises:
        UsageError: If there is none.
    """
    spans = history.spans()
    found = spans.row_of(int(number)) if number.isdecimal() else None
    if found is None:
        raise UsageError(f"{number!r} is not the number of a span: this history has {len(spans):,}")
    return found


def _span(history: History, row: int, time_ns: int) -> Handle:
    spans = history.spans()
    quark = spans.thread_at(row)
    start_ns, end_ns = int(spans.start_ns[row]), int(spans.end_ns[row])
    number = int(spans.rows[row])
    return Handle(history.attributes.text(quark), quark, number, time_ns, start_ns, end_ns)


def choose_lanes(history: History, patterns: Sequence[str]) -> Int32s:
    """Return the lanes of states, spans and samples that patterns of paths match.

    A pattern that matches no lane selects all lanes below what it matches.

    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("disk0  aabba.")
    >>> choose_lanes(history, ["*"]).tolist()
    [0]

    Raises:
        AttributeNotFound: If a pattern matches no attribute.
        UsageError: If a text is not a pattern, or there is no lane below what it matches.
    """
    lanes = np.union1d(state_quarks(history), sampled_or_spanned(history))
    found = [np.empty(0, np.int32)]
    for pattern in patterns:
        chosen = np.intersect1d(matching_quarks(history, pattern), lanes)
        if not len(chosen):
            chosen = np.intersect1d(history.quarks(f"{pattern}/**"), lanes)
        if not len(chosen):
            raise UsageError(f"{pattern} has no lanes of states, spans or samples")
        found.append(chosen)
    return distinct(np.concatenate(found)).astype(np.int32)


def matching_quarks(history: History, pattern: str) -> Int32s:
    """Return the attributes that match a pattern.

    Raises:
        AttributeNotFound: If none matches.
    """
    quarks = history.quarks(pattern)
    if not len(quarks) and pattern != "**":
        names = [element for element in parse_pattern(pattern) if isinstance(element, str)]
        if format_path(names) == pattern:
            history.quark(*names)  # raises with similar names
        raise AttributeNotFound(
            f"no attribute matches {pattern!r}; `meantime query ... tree` lists them"
        )
    return quarks
