"""Building a history: changes go in, in any order across attributes; segments come out."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from meantime.anomalies import Anomalies
from meantime.attributes import ROOT, Attributes, format_pattern
from meantime.clocks import Clock
from meantime.columns import Coded
from meantime.errors import (
    HistoryClosedError,
    QuarkError,
    StateTypeError,
    TimeOrderError,
    TimeRangeError,
)
from meantime.history.events import EventTables
from meantime.history.history import Facts, History
from meantime.history.samples import SampleCollector
from meantime.history.spans import SpanCollector
from meantime.history.store import Store
from meantime.kernels.tail import BACKWARDS, FLOAT, INT, NO_QUARK, STR, UNTYPED
from meantime.trace import LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    import numpy.typing as npt

    from meantime.attributes import Pattern
    from meantime.columns import Int32s, Int64s, Value
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.trace import LaneKind, State

__all__ = ["HistoryBuilder"]

_INT64 = np.iinfo(np.int64)
_WORD = Struct("<q")
_FLOAT = Struct("<d")
_FIRST = {"Threads"}
_NAN_WORD = _WORD.unpack(_FLOAT.pack(float("nan")))[0]
_KIND_NAMES = {UNTYPED: "no value yet", STR: "str", INT: "int", FLOAT: "float"}


class HistoryBuilder:
    """Takes changes and makes a `History` of them.

    A change says that from a time on an attribute has a value. The changes of one attribute must
    come in order of time; across attributes any order will do. An attribute has no state (None)
    until its first change. Its type is that of its first value.

    >>> builder = HistoryBuilder()
    >>> disk = builder.quark("disk0")
    >>> builder.modify(0, disk, "idle")
    >>> builder.modify(5, disk, "writing")
    >>> builder.close(8).state(disk, 6)
    Interval(quark=0, start_ns=5, end_ns=8, value='writing', tag=None, ongoing=False)

    Args:
        start_ns: Where the history begins, if no change is earlier.
        clock: Which clock its times count.
    """

    def __init__(self, *, start_ns: int = 0, clock: Clock | None = None) -> None:
        self.attributes = Attributes()
        self.title: str | None = None
        self.bounds: tuple[int, int] | None = None
        self.clock = clock or Clock()
        self.descriptions: dict[int, str] = {}
        self.anomalies = Anomalies()
        self.names: dict[int, str] = {}
        self.sort_keys: dict[int, int] = {}
        self.facts: dict[str, str] = {}
        self.events = EventTables()
        self.spans = SpanCollector()
        self.samples = SampleCollector()
        self._start_ns = start_ns
        self._store = Store(self._refuse)
        self._strings: dict[str, int] = {}
        self._names: list[str] = []
        self._tags: list[dict[str, Any]] = []
        self._tag_keys: dict[object, int] = {}
        self._declarations: list[LaneDeclaration] = []
        self._history: History | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and self._history is None:
            self.close()

    def quark(self, *path: str, parent: int = ROOT) -> int:
        """Return the quark of a path, creating what is missing of it.

        Raises:
            QuarkError: If the path is empty, or there is no such parent.
        """
        return self.attributes.add(path, parent)

    def modify(self, time_ns: int, quark: int, value: Value, tag: int | None = None) -> None:
        """Say that from `time_ns` on, an attribute has a value.

        The value and tag that it has already change nothing. A change at the time when its present
        state began replaces that state.

        Raises:
            QuarkError: If there is no such attribute.
            StateTypeError: If the value is not of the attribute's type.
            TimeOrderError: If the time is before the attribute's last change.
            TimeRangeError: If the time does not fit.
        """
        word, null, kind = self._word(value)
        if not _INT64.min < time_ns < _INT64.max:
            raise TimeRangeError(f"{time_ns} ns does not fit a history")
        meta = (0 if tag is None else self._checked_tag(tag) + 1) << 1 | null
        self._open_store().put_one(time_ns, quark, word, meta, kind)

    def modify_many(
        self,
        times_ns: Sequence[int] | Int64s,
        quarks: Sequence[int] | Int32s,
        values: Coded | Sequence[Value] | Int64s | npt.NDArray[np.float64],
        tags: Sequence[int] | Int32s | None = None,
    ) -> None:
        """Do as `modify` for each row, much faster.

        Args:
            times_ns: When; in order for each attribute.
            quarks: Which attribute.
            values: A column of strings, an array of int64 or float64, or any sequence of values.
            tags: A tag per row, -1 for none.

        Raises:
            HistoryError: As `modify` does; the rows before the one at fault were taken.
        """
        times = np.ascontiguousarray(times_ns, np.int64)
        where = np.ascontiguousarray(quarks, np.int32)
        tag = None if tags is None else np.ascontiguousarray(tags, np.int32)
        columns = (times, where, values) if tag is None else (times, where, values, tag)
        if len({len(column) for column in columns}) != 1:
            raise ValueError(
                "the columns differ in length: " + ", ".join(str(len(column)) for column in columns)
            )
        if not len(times):
            return
        if int(times.min()) == _INT64.min or int(times.max()) == _INT64.max:
            raise TimeRangeError("a time does not fit a history")
        if tag is not None and (int(tag.min()) < -1 or int(tag.max()) >= len(self._tags)):
            raise QuarkError(f"a tag is not one of the {len(self._tags):,} defined")
        if isinstance(values, Coded):
            self.put_codes(times, where, values.codes, self.codes(values.names), tag)
            return
        word, null, kind = self._words(values)
        meta = null if tag is None else (tag + 1).astype(np.uint32) << np.uint32(1) | null
        self._open_store().put_words(times, where, word, meta, kind)

    def codes(self, names: Sequence[str]) -> Int32s:
        """Return this history's codes of strings, for `put_codes`."""
        codes = np.empty(len(names), np.int32)
        for index, name in enumerate(names):
            codes[index] = self._code(name)
        return codes

    def put_codes(
        self,
        times_ns: Int64s,
        quarks: Int32s,
        codes: Int32s,
        code_of: Int32s,
        tags: Int32s | None,
    ) -> None:
        """Do as `modify_many` for strings whose codes, translated by `code_of`, are known."""
        self._open_store().put_codes(times_ns, quarks, codes, code_of, tags)

    def tag(self, fields: Mapping[str, Any], key: object = None) -> int:
        """Return the tag that stands for a set of named fields; a key gives one tag always.

        Equal fields without a key are one tag.
        """
        key = ("fields", repr(sorted(fields.items()))) if key is None else ("key", key)
        tag = self._tag_keys.setdefault(key, len(self._tags))
        if tag == len(self._tags):
            self._tags.append(dict(fields))
        return tag

    def define_tag(self, tag: int, fields: Mapping[str, Any]) -> None:
        """Say what a tag stands for, for all its uses; a new one may be defined ahead."""
        while tag >= len(self._tags):
            self._tags.append({})
        self._tags[tag] = dict(fields)

    def lanes(
        self,
        pattern: Pattern,
        *,
        kind: LaneKind = "state",
        entity_kind: str | None = None,
        label: str | None = None,
        states: Sequence[State] = (),
        unit: str | None = None,
    ) -> None:
        """Declare that the attributes of a pattern can be drawn; see `LaneDeclaration`."""
        text = pattern if isinstance(pattern, str) else format_pattern(pattern)
        self._declarations.append(
            LaneDeclaration(text, kind, entity_kind, label, tuple(states), unit)
        )

    def close(self, end_ns: int | None = None) -> History:
        """Return the finished history.

        It ends at `end_ns`, or just after the last change if that is later: no state is lost.

        Raises:
            HistoryClosedError: If it was closed before.
        """
        store = self._open_store()
        spans = self.spans.table(self._names, self._rank)
        samples = self.samples.table(self._names)
        if self.bounds is None:
            self.bounds = _range(spans, samples)
        start_ns = self._start_ns
        if self.bounds is not None:
            start_ns = min(start_ns, self.bounds[0])
            end_ns = max(self.bounds[1], self.bounds[1] if end_ns is None else end_ns)
        segments = store.finish(len(self.attributes), start_ns, end_ns)
        self.anomalies.add("zero_length_state", self._store.replaced)
        self.anomalies.add("overlapping_span", self._overlapping(spans))
        points, flows = self.events.tables(self._names)
        facts = Facts(
            strings=self._names,
            kinds=self._store.kinds(len(self.attributes)),
            points=points,
            flows=flows,
            spans=spans,
            samples=samples,
            names=self.names,
            sort_keys=self.sort_keys,
            trace_facts=self.facts,
            tags=self._tags,
            declarations=self._declarations,
            clock=self.clock,
            bounds=self.bounds,
            title=self.title,
            descriptions=self.descriptions,
            anomalies=self.anomalies,
        )
        self._history = History(segments, self.attributes, facts)
        return self._history

    def _rank(self, quarks: Int32s) -> Int32s:
        """Return the places of threads: by process, each as the trace sorts them, then by id."""
        keys = [self._place_of(quark) for quark in quarks.tolist()]
        places = np.empty(len(keys), np.int32)
        places[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return places

    def _place_of(self, quark: int) -> list[tuple[int, bool, int, str]]:
        place = []
        while quark != ROOT:
            name = self.attributes.name(quark)
            number = int(name) if name.removeprefix("-").isdecimal() else 0
            place.append((self.sort_keys.get(quark, 0), name not in _FIRST, number, name))
            quark = self.attributes.parent(quark)
        return place[::-1]

    def _overlapping(self, spans: SpanTable) -> int:
        """Return how many spans of threads stand in lanes of their own; operations may overlap."""
        rows = np.flatnonzero(spans.lane)
        threads = np.searchsorted(spans.offsets, rows, side="right") - 1
        return sum(
            count
            for thread, count in zip(
                *(part.tolist() for part in np.unique(threads, return_counts=True)), strict=True
            )
            if "Async" not in self.attributes.path(int(spans.threads[thread]))
        )

    def _open_store(self) -> Store:
        if self._history is not None:
            raise HistoryClosedError("this history was closed: it takes no more changes")
        self._store.reserve(len(self.attributes))
        return self._store

    def _code(self, name: str) -> int:
        code = self._strings.get(name)
        if code is None:
            code = self._strings[name] = len(self._names)
            self._names.append(name)
        return code

    def _checked_tag(self, tag: int) -> int:
        if not 0 <= tag < len(self._tags):
            raise QuarkError(f"{tag} is not a tag: {len(self._tags):,} are defined")
        return tag

    def _word(self, value: Value) -> tuple[int, int, int]:
        """Return a value's word, whether it is null, and its kind."""
        if value is None:
            return 0, 1, UNTYPED
        kind = type(value)
        if kind is str:
            return self._code(value), 0, STR  # type: ignore[arg-type] # its type is known by now
        if kind is float:
            return _float_word(value), 0, FLOAT  # type: ignore[arg-type] # as above
        if isinstance(value, bool) or not isinstance(value, int | float | str | np.number):
            raise StateTypeError(
                f"{value!r} is a {kind.__name__}: a value is None, an int, a float or a str"
            )
        if isinstance(value, str):
            return self._code(str(value)), 0, STR
        if isinstance(value, float | np.floating):
            return _float_word(float(value)), 0, FLOAT
        word = int(value)
        if not _INT64.min <= word <= _INT64.max:
            raise StateTypeError(f"{word} does not fit into 64 bits")
        return word, 0, INT

    def _words(
        self, values: Sequence[Value] | npt.NDArray[Any]
    ) -> tuple[Int64s, npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
        if isinstance(values, np.ndarray) and values.dtype.kind in "if":
            rows = len(values)
            if values.dtype.kind == "i":
                words, kind = values.astype(np.int64), INT
            else:
                doubles = values.astype(np.float64)
                words, kind = doubles.view(np.int64).copy(), FLOAT
                words[np.isnan(doubles)] = _NAN_WORD
            return words, np.zeros(rows, np.uint32), np.full(rows, kind, np.uint8)
        coded = [self._word(value) for value in values]
        word, null, kinds = zip(*coded, strict=True)
        return np.array(word, np.int64), np.array(null, np.uint32), np.array(kinds, np.uint8)

    def _refuse(self, status: int, time_ns: int, quark: int, kind: int) -> None:
        """Raise what is wrong with a change."""
        if status == NO_QUARK:
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has"
                f" {len(self.attributes):,}"
            )
        name = self.attributes.text(quark)
        if status == BACKWARDS:
            raise TimeOrderError(
                f"{name}: a change at {time_ns} ns comes after one at"
                f" {self._store.last_change_ns(quark)} ns; give the changes of an attribute in"
                " order of time"
            )
        has = _KIND_NAMES[self._store.kind(quark)]
        raise StateTypeError(f"{name} holds {has}: it cannot be set to {_KIND_NAMES[kind]}")


def _range(spans: SpanTable, samples: SampleTable) -> tuple[int, int] | None:
    """Return the range that spans and samples are in; None if there are none."""
    starts, ends = [], []
    if len(spans):
        starts.append(int(spans.start_ns.min()))
        ends += [int(spans.end_ns.max()), int(spans.start_ns.max()) + 1]
    if len(samples):
        starts.append(int(samples.time_ns[0]))
        ends.append(int(samples.time_ns[-1]) + 1)
    return (min(starts), max(ends)) if starts else None


def _float_word(value: float) -> int:
    word: int = _WORD.unpack(_FLOAT.pack(value))[0]
    return word if value == value else _NAN_WORD  # noqa: PLR0124 - NaN alone differs from itself
