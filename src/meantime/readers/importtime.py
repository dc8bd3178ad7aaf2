"""What `python -X importtime` prints: which modules were imported, by which, and for how long.

A module is printed once its import ends, below the modules that it imported, with its own time and
the time with these, in microseconds. When it began is not printed: imports are drawn one after the
other, and those of a module from its beginning on. Lines of the program itself are counted.
Definition: https://docs.python.org/3/using/cmdline.html#cmdoption-X.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from meantime.model.attribute_paths import thread_path
from meantime.readers.contract import lazy_trace
from meantime.readers.span_rows import SpanRows
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "importtime"
TEXT = True
OBJECTS = True

_LINE = re.compile(rb"import time:\s+(\d{1,15}) \|\s+(\d{1,15}) \| ( *)(\S.*)")
_HEADER = re.compile(rb"import time: self \[us\] \|")
_US = 1000
_DEEPEST = 1000
_LAYOUT = (
    "imports have no start: they follow each other, and those of a module are at its beginning"
)


class _Import(NamedTuple):
    name: str
    self_ns: int
    total_ns: int
    imported: list[_Import]


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input. Ranges and `keep` are ignored."""
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    # by how deep they are, the modules whose importing one is not printed yet
    waiting: list[list[_Import]] = [[], []]
    for line in lines(source, options):
        match = _LINE.match(line)
        depth = 0 if match is None else len(match[3]) // 2
        if match is None or depth > _DEEPEST:
            is_counted = bool(line.strip()) and not _HEADER.match(line)
            trace.anomalies.add("unknown_line", int(is_counted))
            continue
        while len(waiting) < depth + 2:
            waiting.append([])
        trace.records += 1
        name = match[4].rstrip().decode("utf-8", "replace")
        waiting[depth].append(
            _Import(name, int(match[1]) * _US, int(match[2]) * _US, waiting[depth + 1])
        )
        waiting[depth + 1 :] = [[]]
    trace.anomalies.add("truncated", int(source.truncated))
    # what a module imports that did not end, as it failed or the program ended
    left = [each for deeper in waiting[1:] for each in deeper]
    trace.anomalies.add("parent_not_in_input", len(left))
    trace.facts["layout"] = _LAYOUT
    spans = SpanRows(trace)
    _place(waiting[0] + left, spans)
    yield from spans.batches()


def _place(roots: list[_Import], spans: SpanRows) -> None:
    """Add the modules, one after the other."""
    path = thread_path("imports", "python")
    lengths = _lengths_ns(roots)
    # modules with the time at which they begin, the next one last
    ahead: list[tuple[_Import, int]] = []

    def follow(modules: list[_Import], start_ns: int) -> None:
        placed = []
        for module in modules:
            placed.append((module, start_ns))
            start_ns += lengths[id(module)]
        ahead.extend(reversed(placed))

    follow(roots, 0)
    while ahead:
        module, start_ns = ahead.pop()
        fields = {"self_us": module.self_ns // _US}
        spans.add(path, (start_ns, start_ns + lengths[id(module)]), module.name, "import", fields)
        follow(module.imported, start_ns)


def _lengths_ns(roots: list[_Import]) -> dict[int, int]:
    """Return how long each module took; not less than what it imported, as each is rounded up."""
    ordered: list[_Import] = []
    ahead = [*roots]
    while ahead:
        module = ahead.pop()
        ordered.append(module)
        ahead += module.imported
    lengths: dict[int, int] = {}
    for module in reversed(ordered):
        inside = sum(lengths[id(each)] for each in module.imported)
        lengths[id(module)] = max(module.total_ns, inside)
    return lengths
