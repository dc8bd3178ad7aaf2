"""Complete events and matched begins as batches of spans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meantime.kernels import gather, nest
from meantime.model.trace import Arguments, Spans
from meantime.model.units import format_ns
from meantime.readers.contract import MOST_BATCH_ROWS
from meantime.readers.matching import Begins, Ends, close_ended, close_spans
from meantime.readers.private_fields import leave_private_arguments_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.kernels.chrome import ChromeScanner
    from meantime.model.columns import Int32s
    from meantime.model.trace import ArgumentText, Trace
    from meantime.readers.chrome.entities import Entities
    from meantime.readers.chrome.text import Strings

__all__ = ["SpanRows", "add_end_arguments"]

_Columns: TypeAlias = "dict[str, npt.NDArray[Any]]"

# LLVM's profiler of time (`-ftime-trace`) adds up its spans by name, and writes the sums as spans
# from 0 on, each on a thread that does not exist. These arguments are theirs alone.
_SUM: Final = "Total "
_ARGUMENTS_OF_SUM: Final = re.compile(
    rb'\s*\{\s*"count"\s*:\s*(\d{1,18})\s*,\s*"avg ms"\s*:[^,{}]*\}\s*'
)
_MOST_SUMS: Final = 1000


class SpanRows:
    """The spans of all threads that were read and not delivered yet, in the order of the file.

    A span waits until it has ended, and while one is open that began with it or later: the
    order of spans that begin together is that of the file. The ends of threads whose begins or ends
    go backwards in time wait until all is read, since they may have to be matched by time.

    Attributes:
        rows: How many rows wait: spans, and the ends of those that wait for all.
    """

    def __init__(
        self, trace: Trace, names: Strings, categories: Strings, entities: Entities
    ) -> None:
        self._trace = trace
        self._names = names
        self._categories = categories
        self._entities = entities
        self._spans: _Columns = {}
        self._marks: _Columns = {}
        self._names_seen = 0
        self._names_of_sums: list[int] = []
        self._sums: list[str] = []
        self.rows: int = 0

    def add(self, scanner: ChromeScanner) -> None:
        """Add what was scanned since the last call."""
        spans, marks = scanner.spans(), scanner.marks()
        for columns in (spans, marks):
            leave_private_arguments_out(
                columns["args_offset"],
                columns["args_length"],
                self._trace.text,
                self._trace.anomalies,
            )
        spans["name"] = self._names.map_or_empty(spans["name"])
        spans["category"] = self._categories.map(spans["category"])
        spans["level"] = np.zeros(len(spans["name"]), np.int32)
        # an end event need not repeat the name: -1 and the empty name match any span
        marks["name"] = self._names.map(marks["name"])
        if self._names.empty >= 0:
            marks["name"] = np.where(
                marks["name"] == self._names.empty, np.int32(-1), marks["name"]
            )
        if self.rows:
            marks["position"] += np.int32(len(self._spans["name"]))
        self._spans, self._marks = _joined(self._spans, spans), _joined(self._marks, marks)
        self.rows = len(self._spans["name"]) + len(self._marks["name"])

    def ended(self, threads: dict[str, Any]) -> Iterator[Spans]:
        """Yield the spans that need not wait; `threads` are those of the scanner."""
        spans, marks = self._spans, self._marks
        if not len(marks["name"]) and not spans["flags"].any():
            yield from self._all()
            return
        waiting = np.zeros(len(spans["name"]), np.uint8)
        backwards = threads["backwards"]
        now = marks
        if backwards.any():
            later = backwards[marks["thread"]]
            now, marks = _chosen(marks, ~later), _chosen(marks, later)
        else:
            marks = {}
        ends = Ends(now["time_ns"], now["thread"], now["name"], now["position"])
        closed = close_ended(
            _begins(spans),
            spans["level"],
            ends,
            threads=len(backwards),
            anomalies=self._trace.anomalies,
        )
        self._add_end_arguments(now, closed)
        nest.unordered(spans["start_ns"], spans["thread"], spans["flags"], waiting, len(backwards))
        if marks:
            kept = np.append(0, np.cumsum(waiting, dtype=np.int32))
            marks["position"] = kept[marks["position"]].astype(np.int32)
        self._spans = _taken(spans, np.flatnonzero(waiting).astype(np.int32))
        self._marks = marks
        self.rows = len(self._spans["name"]) + (len(marks["name"]) if marks else 0)
        yield from self._batches(_taken(spans, np.flatnonzero(waiting == 0).astype(np.int32)))

    def rest(self, threads: dict[str, Any]) -> Iterator[Spans]:
        """Yield all spans that waited; those that have no end last as long as their thread."""
        spans, marks = self._spans, self._marks
        closed = close_spans(
            _begins(spans),
            spans["level"],
            Ends(marks["time_ns"], marks["thread"], marks["name"], marks["position"]),
            last_ns=threads["last_ns"],
            backwards=threads["backwards"],
            anomalies=self._trace.anomalies,
        )
        self._add_end_arguments(marks, closed)
        yield from self._all()
        if self._sums:
            self._trace.facts["sums"] = "; ".join(self._sums)

    def _add_end_arguments(self, marks: _Columns, closed: Int32s) -> None:
        add_end_arguments(
            Arguments(self._spans["args_offset"], self._spans["args_length"]),
            Arguments(marks["args_offset"], marks["args_length"]),
            closed,
            self._trace.text,
        )

    def _all(self) -> Iterator[Spans]:
        spans = self._spans
        self._spans, self._marks, self.rows = {}, {}, 0
        yield from self._batches(spans)

    def _without_sums(self, spans: _Columns) -> _Columns:
        """Leave out, and count, rows that are the sum of the spans of a name."""
        texts, seen = self._names.texts, self._names_seen
        self._names_seen = len(texts)
        self._names_of_sums += [
            code for code, text in enumerate(texts[seen:], seen) if text.startswith(_SUM)
        ]
        if not self._names_of_sums:
            return spans
        is_kept = np.ones(len(spans["name"]), np.bool_)
        for row in np.flatnonzero(np.isin(spans["name"], self._names_of_sums)).tolist():
            data = self._trace.text.read(
                int(spans["args_offset"][row]), int(spans["args_length"][row])
            )
            if (found := _ARGUMENTS_OF_SUM.fullmatch(data)) is None:
                continue
            is_kept[row] = False
            name = texts[spans["name"][row]].removeprefix(_SUM)
            total_ns = int(spans["end_ns"][row]) - int(spans["start_ns"][row])
            said = f"{name} {format_ns(total_ns)} in {int(found[1]):,}"
            self._trace.anomalies.add("sum_of_spans")
            if len(self._sums) < _MOST_SUMS:
                self._sums.append(said)
        return spans if is_kept.all() else _chosen(spans, is_kept)

    def _batches(self, spans: _Columns) -> Iterator[Spans]:
        spans = self._without_sums(spans)
        for first in range(0, len(spans["name"]), MOST_BATCH_ROWS):
            part = {name: column[first : first + MOST_BATCH_ROWS] for name, column in spans.items()}
            yield Spans(
                start_ns=part["start_ns"],
                end_ns=part["end_ns"],
                thread=self._entities.threads(part["thread"]),
                name=part["name"],
                category=part["category"],
                level=part["level"],
                flags=part["flags"],
                arguments=Arguments(part["args_offset"], part["args_length"]),
            )


def _begins(spans: _Columns) -> Begins:
    return Begins(
        spans["start_ns"], spans["end_ns"], spans["thread"], spans["name"], spans["flags"]
    )


def _joined(first: _Columns, second: _Columns) -> _Columns:
    if not first or not len(first["name"]):
        return second
    return {name: np.concatenate([column, second[name]]) for name, column in first.items()}


def _chosen(columns: _Columns, mask: npt.NDArray[np.bool_]) -> _Columns:
    return {name: column[mask] for name, column in columns.items()}


def _taken(columns: _Columns, rows: Int32s) -> _Columns:
    if gather.is_counting(rows) and len(rows) == len(columns["name"]):
        return columns
    found = {}
    for name, column in columns.items():
        found[name] = np.empty(len(rows), column.dtype)
        gather.take(column, rows, found[name])
    return found


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
