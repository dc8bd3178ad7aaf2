"""Folded stacks: a line per stack, functions from the outermost joined by `;`, a blank, a weight.

The format has no times: the time of a stack's sample is the sum of the weights before it. Lines
that begin with `# ` and have no stack are facts or comments.

Austin's stacks begin with their process and thread, as `P1;T2;`, which each have a time axis of
their own; their weights are microseconds, or bytes, or both, as its fact `mode` says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.sample_rows import SampleRows
from meantime.readers.source import HEAD_BYTES
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.attributes import Path
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "folded"
TEXT = True
OBJECTS = True

# py-spy writes a thread without frames as a weight alone
_LINE = re.compile(rb"(.*\S)?[ \t]+(\d{1,18})(?:\.(\d+))?[ \t]*", re.DOTALL)
_LIMIT = 2**62
# How JSON begins; `[unknown]` and `{main}` are functions.
_JSON = re.compile(rb"\s*(?:\{\s*(?:[\"}]|$)|\[\s*(?:[{\"\]]|-?\d[\d.eE+-]*\s*,|$))")
_SNIFFED_LINES = 20
# Of the lines that are looked at, those that must be stacks; the others may be damaged.
_MOST_LINES = 0.75
_AUSTIN: Final = "austin"
# The interpreter, the thread's name or number, the functions; time, whether it was idle, memory.
_AUSTIN_LINE = re.compile(
    rb"P(\d{1,18});T(?:(\d{1,18}):)?([^;]*?)(?:;(.*))?[ \t]+"
    rb"(?:(\d{1,15}),([01]),)?(-?\d{1,18})[ \t]*"
)
_NS_PER_US = 1000
# By Austin's mode, what a weight counts.
_TIMES = {"wall": "wall", "cpu": "on-cpu"}
_MEMORY = "memory"


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with folded stacks: most lines end in a number."""
    lines = head.split(b"\n")
    # the head may end inside a line, before the weight
    if len(lines) > 1 and len(head) >= HEAD_BYTES:
        lines = lines[:-1]
    lines = [line.rstrip(b"\r") for line in lines[:_SNIFFED_LINES] if line.strip()]
    lines = [line for line in lines if not _is_fact(line)]
    if not lines or b"\0" in head or _JSON.match(head):
        return False
    if name.endswith((".folded", ".collapsed")) or head.startswith(b"# austin:"):
        return True
    stacks = [line for line in lines if _LINE.fullmatch(line)]
    return len(stacks) >= _MOST_LINES * len(lines) and any(b";" in line for line in stacks)


def _is_fact(line: bytes) -> bool:
    # a private method of JavaScript begins with `#`, too
    return line.startswith(b"#") and (
        _LINE.fullmatch(line) is None or (line.startswith(b"# ") and b";" not in line)
    )


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch is read when it is requested.

    Raises:
        InputError: From the batches, if a line is not a stack with a weight.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    stacks = _Stacks(trace)
    for number, line in enumerate(lines(source, options), 1):
        text = line.rstrip(b"\r")
        if not text.strip():
            continue
        if _is_fact(text):
            name, colon, value = text[1:].decode("utf-8", "replace").partition(":")
            # others are comments
            if colon and name.strip():
                trace.facts[name.strip()] = value.strip()
        elif not stacks.add(text):
            if not options.lenient:
                raise InputError(
                    source.name,
                    f"{stacks.expected}; --lenient leaves such lines out",
                    line=number,
                )
            trace.anomalies.add("bad_record")
    trace.anomalies.add("truncated", int(source.truncated))
    yield from stacks.batches()


class _Stacks:
    """Collects the stacks of an input."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._stacks = StackTableBuilder()
        self._samples = SampleRows(trace.values)
        self._paths = trace.paths
        # stacks follow one another, each for its weight: of Austin's, those of a thread
        self._at: dict[int, int] = {}

    @property
    def expected(self) -> str:
        """What a line must be."""
        if self._is_austin:
            return "expected P, a process, ;T, a thread, functions joined by ; and a weight"
        return "expected functions joined by ; and a weight"

    @property
    def _is_austin(self) -> bool:
        return _AUSTIN in self._trace.facts

    def add(self, line: bytes) -> bool:
        """Add a line and return True; False if it is not a stack with a weight."""
        return self._add_of_austin(line) if self._is_austin else self._add(line)

    def _add(self, line: bytes) -> bool:
        match = _LINE.fullmatch(line)
        if match is None:
            return False
        weight = int(match[2])
        if match[3] and match[3].strip(b"0"):
            # rounded to nearest, as times are
            weight += match[3][:1] >= b"5"
            self._trace.anomalies.add("weight_rounded")
        return self._put(thread_path(0, 0), match[1], {"samples": weight})

    def _add_of_austin(self, line: bytes) -> bool:
        match = _AUSTIN_LINE.fullmatch(line)
        if match is None:
            return False
        thread = match[3].decode("utf-8", "replace")
        # threads of several interpreters may have one number
        tid = f"{match[2].decode()}:{thread}" if match[2] not in {None, b"0"} else thread
        mode, weight = str(self._trace.facts.get("mode", "wall")), int(match[7])
        weights = {}
        if match[5] is not None:
            time_ns = int(match[5]) * _NS_PER_US
            weights = {"wall": time_ns, "on-cpu": time_ns * (match[6] == b"0"), _MEMORY: weight}
        elif mode == _MEMORY:
            weights = {_MEMORY: weight}
        elif weight >= 0:
            weights = {_TIMES.get(mode, "wall"): weight * _NS_PER_US}
        if _MEMORY in weights:
            self._trace.sample_units |= {"wall": "ns", "on-cpu": "ns", _MEMORY: "bytes"}
        return bool(weights) and self._put(thread_path(tid, match[1].decode()), match[4], weights)

    def _put(self, path: Path, functions: bytes | None, weights: dict[str, int]) -> bool:
        """Add the samples of one line, and return whether their sum fits."""
        thread = self._paths.code(path)
        at = self._at.get(thread, 0)
        first, *_ = weights.values()
        if at > _LIMIT or abs(first) > _LIMIT:
            return False
        names = functions.decode("utf-8", "replace").split(";") if functions else []
        stack = self._stacks.add(names) if names else NO_STACK
        for event, weight in weights.items():
            if weight or len(weights) == 1:
                self._samples.add(thread, at, stack, weight, event)
        self._at[thread] = at + abs(first)
        self._trace.records += 1
        return True

    def batches(self) -> Iterator[Batch]:
        """Yield the samples, if there are any."""
        if not self._trace.paths:
            self._trace.paths.append(thread_path(0, 0))
        if self._samples:
            if self._is_austin:
                self._trace.bounds = 0, max(1, *self._at.values())
            self._trace.stacks = self._stacks.build()
            yield self._samples.batch()
