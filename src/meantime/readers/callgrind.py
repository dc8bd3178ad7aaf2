"""Profiles of callgrind: the cost of each function itself.

The format has the costs of calls between two functions, but no stacks: a stack of more than one
function would be a guess. So each function is a stack of its own, with the cost of its own code,
and the calls are only counted. Definition: https://valgrind.org/docs/manual/cl-format.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.sample_rows import SampleRows
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "callgrind"
TEXT = True
OBJECTS = True

_NAMED = re.compile(r"\((\d+)\)\s*(.*)", re.DOTALL)
_COST = re.compile(r"(?:\+|-|\*|0x[0-9a-fA-F]|\d)")
_MOST_EVENTS = 100
_LIMIT = 2**62
# The parts of a name, which the names of calls have too.
_FUNCTION, _CALLED = "fn", "cfn"


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch is read when it is requested.

    Raises:
        InputError: From the batches, if a line is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Reading:
    """Adds up the costs of functions, line by line."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.calls = 0
        # by function, its cost in each event
        self.costs: dict[str, list[int]] = {}
        self._names: dict[str, str] = {}
        self._function = ""
        self._positions = 1
        self._is_call = False
        self.stated: dict[int, int] = {}

    def line(self, text: str) -> None:
        """Read one line.

        Raises:
            ValueError: If it is malformed.
        """
        if not text or text.startswith("#"):
            return
        if _COST.match(text):
            self._cost(text)
            return
        key, equals, value = text.partition("=")
        if equals and key.isalpha():
            self._assign(key, value.strip())
            return
        key, colon, value = text.partition(":")
        if not colon:
            raise ValueError(text)
        if key == "events":
            self.events = value.split()
            if not 0 < len(self.events) <= _MOST_EVENTS:
                raise ValueError(text)
        elif key == "positions":
            self._positions = len(value.split())
        elif key == "summary":
            # of each part of the run; `totals` at the end may be another number
            for at, each in enumerate(value.split()[:_MOST_EVENTS]):
                self.stated[at] = self.stated.get(at, 0) + int(each)

    def _assign(self, key: str, value: str) -> None:
        if key == "calls":
            calls = int(value.split(maxsplit=1)[0])
            if not 0 <= calls < _LIMIT:
                raise ValueError(value)
            self.calls += calls
            self._is_call = True
        elif key in {_FUNCTION, _CALLED}:
            name = self._named(value)
            if key == _FUNCTION:
                self._function = name

    def _named(self, value: str) -> str:
        """Return a name, which a number may stand for after its first use."""
        match = _NAMED.fullmatch(value)
        if match is None:
            return value
        if match[2]:
            self._names[match[1]] = match[2]
        return self._names.get(match[1], f"({match[1]})")

    def _cost(self, text: str) -> None:
        if self._is_call:
            # the line after `calls` has what the call cost in all
            self._is_call = False
            return
        if not self.events:
            raise ValueError(text)
        amounts = text.split()[self._positions :]
        costs = self.costs.setdefault(self._function, [0] * len(self.events))
        sums = [cost + int(amount) for cost, amount in zip(costs, amounts, strict=False)]
        if len(amounts) > len(costs) or not all(0 <= each < _LIMIT for each in sums):
            raise ValueError(text)
        costs[: len(sums)] = sums


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.paths.append(thread_path(0, 0))
    reading = _Reading()
    for number, line in enumerate(lines(source, options), 1):
        try:
            reading.line(line.decode("utf-8", "replace").strip())
        except (IndexError, ValueError):
            if not options.lenient:
                raise InputError(
                    source.name, "not a line of a callgrind profile", line=number
                ) from None
            trace.anomalies.add("bad_record")
    trace.anomalies.add("truncated", int(source.truncated))
    sums = [sum(each) for each in zip(*reading.costs.values(), strict=False)]
    is_less = any(each < reading.stated.get(at, 0) for at, each in enumerate(sums))
    trace.anomalies.add("costs_missing", int(is_less))
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    at = 0
    # the most expensive first
    for name, costs in sorted(reading.costs.items(), key=lambda item: -item[1][0]):
        stack = stacks.add([name or "(unknown)"])
        for event, cost in zip(reading.events, costs, strict=False):
            if cost:
                samples.add(0, min(at, _LIMIT), stack, cost, event)
        at += max(costs[0], 1)
    trace.records = len(reading.costs)
    trace.sample_units |= dict.fromkeys(reading.events, "count")
    trace.facts["calls"] = f"{reading.calls:,}, of which callgrind has no stacks"
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()
