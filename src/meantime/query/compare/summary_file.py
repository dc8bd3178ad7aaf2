"""What comparing a trace needs, in place of the trace, and in a file: `NAME.mts`.

A line names the format and its version. A checksum follows, and then, compressed, an object of JSON
and the columns of numbers that it refers to by their place, as varints.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from meantime.errors import InputError, MeantimeError, OutputError, UsageError
from meantime.files import ANYBODY, mode_of, open_regular, write_whole
from meantime.kernels import calls, varints
from meantime.model.durations import PERCENTS
from meantime.model.stacks import StackTable
from meantime.model.summary_sign import BEGINS
from meantime.query.compare.grouping import Entity
from meantime.query.compared_by import By
from meantime.query.counting import Counted
from meantime.query.duration_sums import DurationSums
from meantime.query.durations import SpanStatistics, added_span_statistics
from meantime.query.explain.budget import Budget
from meantime.query.explain.lanes import TimeClass
from meantime.query.sentences import counted
from meantime.query.stacks import CallTree
from meantime.query.statistics import StateStatistics, StatisticsRow, added_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.compare.grouping import Grouping

    # What groupings measure: statistics, a call tree or a budget with its unit, or conclusions.
    Measure = (
        StateStatistics
        | SpanStatistics
        | tuple[CallTree | Budget, str]
        | dict[str, tuple[float, float]]
    )

__all__ = [
    "MOST_CELLS",
    "MOST_GROUPS",
    "MOST_STACKS",
    "VERSION",
    "Measure",
    "Summary",
    "encoded",
    "read_summary",
]

VERSION = 1
_CHECKSUM_BYTES = 4
_LENGTH_BYTES = 4
# Of what is compressed, so many times its bytes are believed.
_MOST_RATIO = 200
_MOST_BYTES = 1 << 29
_SLACK_BYTES = 1 << 20
_MOST_NS = 1 << 100
_INT64 = np.iinfo(np.int64)

# What has more groups, cells of durations or stacks than this is left out.
MOST_GROUPS = 1 << 17
MOST_CELLS = 1 << 21
MOST_STACKS = 1 << 19


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What comparing a trace needs, in place of the trace.

    Attributes:
        title: What the trace is called.
        start_ns: Where it begins.
        end_ns: Where it ends.
        lost_ns: How much of it was not recorded.
        by: What rows of a comparison are of by default.
        of: Whether spans or samples count by default.
        measures: What groupings measure, by their `measure`.
        entities: The entities in the keys of these, in order of appearance.
        left_out: What is too large, by `measure`, with the reason.
        mode: Who may read a file of it: who may read the trace.
    """

    title: str
    start_ns: int
    end_ns: int
    lost_ns: int
    by: By
    of: Counted
    measures: dict[str, Measure]
    entities: dict[str, list[Entity]]
    left_out: dict[str, str]
    mode: int = ANYBODY

    def measured(self, rows_of: Grouping) -> Any:
        """Return what a grouping measures.

        Raises:
            UsageError: If that was left out, as it is too large.
        """
        if rows_of.measure in self.measures:
            return self.measures[rows_of.measure]
        reason = self.left_out.get(rows_of.measure, "it was written without")
        raise UsageError(
            f"the summary of {self.title} has no figures by {rows_of.measure}: {reason}; compare"
            " the trace itself"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which `compare` and `check_rules` take in place of the trace.

        Raises:
            OutputError: If it cannot be written.
        """
        try:
            write_whole(Path(path), [encoded(self)], self.mode)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<Summary of {self.title!r}: {counted(len(self.measures), 'measure')}>"


def read_summary(path: str | os.PathLike[str]) -> Summary:
    """Return the summary in a file.

    Raises:
        InputError: If it cannot be read, is damaged, or is of a later version.
    """
    name = os.fspath(path)
    try:
        with open_regular(path) as file:
            first = file.readline(64)
            version = first.removeprefix(BEGINS).strip()
            if not first.startswith(BEGINS) or not version.isdigit():
                raise InputError(name, "is not a summary, as `meantime summary` writes it")
            if int(version) > VERSION:
                raise InputError(
                    name,
                    f"is a summary of version {int(version)}, and this meantime reads version"
                    f" {VERSION}; read it with a later one, or write it again",
                )
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise InputError(name, error.strerror or str(error)) from None
    try:
        return replace(_decoded(_unpacked(data)), mode=mode_of([path]))
    except (ArithmeticError, LookupError, MeantimeError, RecursionError, TypeError, ValueError):
        raise InputError(name, "is damaged; write the summary again") from None
    except zlib.error:
        raise InputError(name, "is damaged; write the summary again") from None


def _unpacked(data: bytes) -> bytes:
    checksum, packed = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if zlib.crc32(packed).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        raise ValueError("the checksum is another one")
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(packed, _most_bytes(len(packed)))
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("it is too long")
    return content


def _most_bytes(packed: int) -> int:
    return min(_MOST_BYTES, _SLACK_BYTES + _MOST_RATIO * packed)


def encoded(summary: Summary) -> bytes:
    """Return the content of a file.

    >>> from meantime.query.compare.summaries import summary_of
    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> found = summary_of(part_of(history_from_picture("disk0  aab"), None, None))
    >>> encoded(found)[:18]
    b'meantime summary 1'
    """
    columns = _Columns()
    document = {
        **{name: getattr(summary, name) for name in _PLAIN},
        "entities": summary.entities,
        "measures": {name: _stored(each, columns) for name, each in summary.measures.items()},
        "left_out": summary.left_out,
        "columns": columns.sizes,
    }
    # names may have been no UTF-8
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    content = b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *columns.parts])
    packed = zlib.compress(content)
    if len(content) > _most_bytes(len(packed)):
        packed = zlib.compress(content, 0)
    checksum = zlib.crc32(packed).to_bytes(_CHECKSUM_BYTES, "little")
    return b"%s%d\n%s%s" % (BEGINS, VERSION, checksum, packed)


_PLAIN = ("title", "start_ns", "end_ns", "lost_ns", "by", "of")


class _Columns:
    """Columns of numbers, which the document refers to by their place."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.sizes: list[tuple[int, int]] = []

    def add(self, column: Int64s) -> int:
        """Return the place of a column."""
        part = varints.encoded(np.ascontiguousarray(column, np.int64))
        self.parts.append(part)
        self.sizes.append((len(part), len(column)))
        return len(self.parts) - 1


class _Stored:
    """The columns of a file."""

    def __init__(self, data: memoryview, sizes: Any) -> None:
        sizes = [(_whole(size), _whole(count)) for size, count in sizes]
        ends = np.cumsum([0, *(size for size, _ in sizes)]).tolist()
        if ends[-1] != len(data):
            raise ValueError("columns are missing")
        self._columns = [
            (data[begin:end], count)
            for (begin, end), (_, count) in zip(pairwise(ends), sizes, strict=True)
        ]

    def column(self, at: Any, most: int) -> Int64s:
        """Return the column at a place; numbers are not negative."""
        data, count = self._columns[_whole(at)]
        if count > most:
            raise ValueError("a column is too long")
        numbers = varints.decoded(np.frombuffer(data, np.uint8), count)
        if numbers.max(initial=0) > _INT64.max:
            raise ValueError("a number is too large")
        return numbers.view(np.int64)


def _stored(measure: Measure, columns: _Columns) -> dict[str, Any]:
    """Return what a grouping measured as values that JSON can represent."""
    if isinstance(measure, StateStatistics):
        rows = {(row.kind, row.key, row.entity): row for row in measure.rows}
        durations = measure.durations
        assert durations is not None
        return {
            "type": "states",
            "by": measure.by,
            "range_ns": measure.range_ns,
            "keys": durations.keys,
            "figures": [
                [rows[key].count, rows[key].total_ns, rows[key].min_ns, rows[key].max_ns]
                for key in durations.keys
            ],
            "existed_ns": [[*key, ns] for key, ns in measure.existed_ns.items()],
            "durations": _stored_durations(durations, columns),
        }
    if isinstance(measure, SpanStatistics):
        durations_of_spans = measure.durations
        assert durations_of_spans is not None
        return {
            "type": "spans",
            "keys": measure.keys,
            "figures": [columns.add(getattr(measure, name)) for name in _SPAN_FIGURES],
            "groups": durations_of_spans.keys,
            "durations": _stored_durations(durations_of_spans, columns),
        }
    if isinstance(measure, dict):
        return {
            "type": "conclusions",
            "rows": [
                [name, *(None if np.isnan(each) else each for each in values)]
                for name, values in measure.items()
            ],
        }
    first, unit = measure
    if isinstance(first, Budget):
        rows_of_budget = [[row.kind.text, row.label, row.total_ns] for row in first.rows]
        return {"type": "budget", "unit": unit, "rows": rows_of_budget}
    stacks = first.stacks
    sign = np.where(first.own < 0, 1, 0)
    return {
        "type": "calls",
        "unit": unit,
        "frames": list(stacks.frames),
        # a caller is before what it calls
        "parent": columns.add(np.arange(len(stacks)) - stacks.parent.astype(np.int64) - 1),
        "frame": columns.add(stacks.frame.astype(np.int64)),
        "own": columns.add(np.abs(first.own)),
        "is_negative": columns.add(sign),
        "count": columns.add(first.count),
    }


_SPAN_FIGURES = (
    *("count", "total_ns", "self_ns", "covered_ns", "min_ns", "max_ns"),
    *("unfinished", "unfinished_ns"),
)


def _stored_durations(durations: DurationSums[Any], columns: _Columns) -> list[int]:
    assert durations.counts is not None
    sizes = np.diff(durations.offsets)
    deltas = np.diff(durations.rows, prepend=0)
    first = durations.offsets[:-1]
    deltas[first] = durations.rows[first]
    return [columns.add(each) for each in (sizes, deltas, durations.counts)]


def _decoded(content: bytes) -> Summary:
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    document = json.loads(
        content[_LENGTH_BYTES : _LENGTH_BYTES + length], parse_constant=_not_a_number
    )
    columns = _Stored(memoryview(content)[_LENGTH_BYTES + length :], document["columns"])
    start_ns, end_ns = (
        _whole(document["start_ns"], -_MOST_NS),
        _whole(document["end_ns"], -_MOST_NS),
    )
    if not _INT64.min <= start_ns <= end_ns <= _INT64.max:
        raise ValueError("the range is none")
    return Summary(
        _text(document["title"]),
        start_ns,
        end_ns,
        _whole(document["lost_ns"]),
        _one_of(document["by"], get_args(By)),
        _one_of(document["of"], get_args(Counted)),
        {_text(name): _measure(each, columns) for name, each in document["measures"].items()},
        {
            _text(name): [Entity(_text(key), _text(called)) for key, called in rows]
            for name, rows in document["entities"].items()
        },
        {_text(name): _text(reason) for name, reason in document["left_out"].items()},
    )


def _measure(stored: Any, columns: _Stored) -> Measure:
    return _READ[stored["type"]](stored, columns)


def _states(stored: Any, columns: _Stored) -> StateStatistics:
    keys = [
        (_text(kind), _text(key), None if entity is None else _text(entity))
        for kind, key, entity in stored["keys"]
    ]
    durations = _durations(keys, stored["durations"], columns)
    existed_ns = {
        (_text(kind), None if entity is None else _text(entity)): _whole(ns, 1)
        for kind, entity, ns in stored["existed_ns"]
    }
    counts = _sums(durations)
    rows = []
    for key, figures, expected in zip(keys, stored["figures"], counts, strict=True):
        count, total_ns, least, most = (_whole(each) for each in figures)
        if count != expected or least > most or most > _INT64.max:
            raise ValueError("figures contradict each other")
        kind, state, entity = key
        rows.append(
            StatisticsRow.computed(
                *(count, total_ns, least, most),
                [0] * len(PERCENTS),
                kind=kind,
                key=state,
                entity=entity,
                share=total_ns / existed_ns[kind, entity],
            )
        )
    start_ns, end_ns = (_whole(each, -_MOST_NS) for each in stored["range_ns"])
    by = _one_of(stored["by"], ("state", "entity"))
    found = StateStatistics(
        by, (start_ns, end_ns), rows, [], existed_ns=existed_ns, durations=durations
    )
    return added_statistics([found])


def _spans(stored: Any, columns: _Stored) -> SpanStatistics:
    groups = [None if key is None else _text(key) for key in stored["groups"]]
    keys = [None if key is None else _text(key) for key in stored["keys"]]
    durations = _durations(groups, stored["durations"], columns)
    figures = [columns.column(at, MOST_GROUPS) for at in stored["figures"]]
    if {*map(len, figures)} != {len(keys)} or sorted(keys, key=repr) != sorted(groups, key=repr):
        raise ValueError("figures are missing")
    named = dict(zip(_SPAN_FIGURES, figures, strict=True))
    expected = dict(zip(groups, _sums(durations), strict=True))
    if [expected[key] for key in keys] != named["count"].tolist():
        raise ValueError("figures contradict each other")
    if (named["min_ns"] > named["max_ns"]).any():
        raise ValueError("figures contradict each other")
    none = np.zeros(len(keys), np.int64)
    found = SpanStatistics.computed(
        named.pop("count"),
        named.pop("total_ns"),
        named.pop("min_ns"),
        named.pop("max_ns"),
        [none] * len(PERCENTS),
        keys=keys,
        durations=durations,
        **named,
    )
    return added_span_statistics([found])


def _durations(keys: list[_T], stored: Any, columns: _Stored) -> DurationSums[_T]:
    if len(keys) > MOST_GROUPS:
        raise ValueError("there are too many groups")
    sizes, deltas, counts = (columns.column(at, MOST_CELLS) for at in stored)
    if deltas.max(initial=0) > MOST_CELLS or sizes.max(initial=0) > MOST_CELLS:
        raise ValueError("a sketch is damaged")
    ends = np.cumsum(sizes)
    if not len(ends) or int(ends[-1]) != len(deltas) or sizes.min() < 1:
        if len(deltas):
            raise ValueError("a sketch is damaged")
        return DurationSums.of_cells(keys, sizes, deltas, counts)
    sums = np.cumsum(deltas)
    before = sums[ends - sizes] - deltas[ends - sizes]
    return DurationSums.of_cells(keys, sizes, sums - np.repeat(before, sizes), counts)


def _sums(durations: DurationSums[Any]) -> list[int]:
    """Return how many durations each group has."""
    assert durations.counts is not None
    sums = np.concatenate([[0], np.cumsum(durations.counts)])
    found: list[int] = np.diff(sums[durations.offsets]).tolist()
    return found


def _conclusions(stored: Any, columns: _Stored) -> dict[str, tuple[float, float]]:
    del columns
    return {_text(name): (_number(value), _number(share)) for name, value, share in stored["rows"]}


def _budget(stored: Any, columns: _Stored) -> tuple[Budget, str]:
    del columns
    kinds = {kind.text: kind for kind in TimeClass}
    rows = [(kinds[kind], _text(label), _whole(ns)) for kind, label, ns in stored["rows"]]
    return Budget.of_rows(rows), _text(stored["unit"])


def _calls(stored: Any, columns: _Stored) -> tuple[CallTree, str]:
    names = ("parent", "frame", "own", "is_negative", "count")
    up, frame, own, is_negative, count = (
        columns.column(stored[name], MOST_STACKS) for name in names
    )
    frames = [_text(each) for each in stored["frames"]]
    if len({*map(len, (up, frame, own, is_negative, count))}) > 1:
        raise ValueError("a column is too short")
    parent = np.arange(len(up)) - up - 1
    if parent.min(initial=-1) < -1 or frame.max(initial=-1) >= len(frames):
        raise ValueError("a stack has no caller")
    own = np.where(is_negative > 0, -own, own)
    if np.abs(own).sum(dtype=np.float64) > _INT64.max or count.sum(dtype=np.float64) > _INT64.max:
        raise ValueError("weights are too large")
    table = StackTable(parent.astype(np.int32), frame.astype(np.int32), frames)
    total = own.copy()
    calls.spread(table.parent, total)
    return CallTree(table, own, total, count), _text(stored["unit"])


_READ: dict[str, Callable[[Any, _Stored], Measure]] = {
    "states": _states,
    "spans": _spans,
    "conclusions": _conclusions,
    "budget": _budget,
    "calls": _calls,
}


def _not_a_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return value


def _whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= _MOST_NS:
        raise ValueError("a number is none")
    return value


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if type(value) not in {int, float} or not np.isfinite(value):
        raise ValueError("a number is none")
    return float(value)


def _one_of(value: Any, words: Sequence[Any]) -> Any:
    if value not in words:
        raise ValueError(f"{value!r} is none of {words}")
    return value
