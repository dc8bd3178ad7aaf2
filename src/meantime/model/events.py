"""Events of a tracer, with named fields in typed columns: the input of providers.

A batch of `Events` has columns of times, names, CPUs, processes and threads, and *cells*: for each
event, in the order of its fields, a key, a kind and a word (an integer, the bits of a double, or
the code of a text). A cell is 13 bytes, and no Python object. Objects are made from the cells:
`Events.of_name` returns typed columns of the events of one name, `values_of` a field of all
events, iteration `Event` objects. An array or object inside an event is a text that is parsed when
it is used.

A reader fills an `EventRows`, in which events wait until `take` returns the earliest of them in
order of time, so late ones are sorted in. It has three entrances: `scan` for lines of JSON,
`put_tracepoints` for the text fields of tracepoints in one block, and `put` for an event that
Python has read. The first two are exact or do not answer: a line or a field in an unusual form is
returned to the reader, whose Python code, the definition of the format, reads it or reports the
error. Texts and keys are coded in tables that are replaced by new ones after 8 MiB, so memory does
not depend on the length of the input; a batch keeps the tables of its time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.model.columns import Coded, Interner
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from meantime.kernels.event_cells import Cells
    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "ABSENT",
    "Event",
    "EventFields",
    "Events",
    "FieldColumn",
    "NamedEvents",
    "column_of",
]


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT = _Absent.ABSENT

FieldColumn: TypeAlias = (
    "npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.bool_] | Coded | list[Any]"
)

_TYPED = {int: np.int64, float: np.float64, bool: np.bool_}
_PLACES = ("cpu", "pid", "tid")
# Events are made of columns when they are asked for, not a whole batch at once.
_MADE_AT_ONCE = 1024


@dataclass(slots=True)
class Event:
    """One event.

    Attributes:
        time_ns: When, from the trace's origin.
        name: What happened.
        fields: Further fields: ints, floats, strings, bools, None.
        cpu: The CPU that it happened on; None if unknown.
        pid: The process, or None.
        tid: The thread, or None.

    >>> event = Event(25, "read", {"bytes": 120}, tid=7)
    >>> event["bytes"], event.get("error"), event["tid"]
    (120, None, 7)
    """

    time_ns: int
    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    cpu: int | None = None
    pid: int | None = None
    tid: int | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `cpu`, `pid` or `tid`; the default if the event has none."""
        if name in self.fields:
            return self.fields[name]
        value = getattr(self, name) if name in _PLACES else None
        return default if value is None else value

    def __getitem__(self, name: str) -> Any:
        # Providers call this several times for each event.
        fields = self.fields
        if name in fields:
            return fields[name]
        if name in _PLACES and (place := getattr(self, name)) is not None:
            return place
        raise KeyError(f"{name!r}: the event {self.name!r} at {self.time_ns} ns has no such field")

    def __contains__(self, name: str) -> bool:
        return self.get(name, ABSENT) is not ABSENT


@struct
class EventFields:
    """The fields of the events of one name in a batch.

    Attributes:
        rows: int64, the rows of the batch that have the name, ascending.
        columns: By field, a value per row: an array of int64, float64 or bool; `Coded` if all are
            strings; a list if they have several types, with `ABSENT` for events without the field.
    """

    rows: Int64s
    columns: Mapping[str, FieldColumn]


@struct
class NamedEvents:
    """The events of one name in a batch, as columns.

    Attributes:
        rows: int64, the rows of these events in the batch.
        time_ns: int64.
        cpu: int64, -1 if unknown; so are `pid` and `tid`.
        columns: By field; see `EventFields`.
    """

    rows: Int64s
    time_ns: Int64s
    cpu: Int64s
    pid: Int64s
    tid: Int64s
    columns: Mapping[str, FieldColumn]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, field: str) -> FieldColumn:
        return self.columns[field]


class Events:
    """Events of any names, in order of time; each column is built when it is first used.

    Args:
        events: The events.
        names: The trace's table of names, `Trace.values`; new names are appended to it.
        position: The position in the input, as JSON, from which a reader can continue after these
            events; None if it cannot.

    Attributes:
        names: The table of names.
        position: As above.

    >>> read = [Event(1, "read", {"bytes": 5}), Event(3, "read", {"bytes": 7})]
    >>> events = Events([read[0], Event(2, "close"), read[1]])
    >>> events.of_name("read")["bytes"].tolist()
    [5, 7]
    >>> [event.name for event in events]
    ['read', 'close', 'read']
    """

    def __init__(
        self, events: Iterable[Event], names: list[str] | None = None, position: Any = None
    ) -> None:
        self._events: list[Event] | None = list(events)
        self.names: list[str] = [] if names is None else names
        self.position = position

    @classmethod
    def of_columns(cls, columns: tuple[Any, ...], names: list[str], position: Any) -> Events:
        """Return events from the columns of `EventRows.take`, as a reader makes them."""
        from meantime.kernels.event_cells import Cells  # noqa: PLC0415 - most traces have no events

        events = cls((), names, position)
        events._events = None
        # these are what the cached properties of the same names would be
        events.time_ns, events.name, events.cpu, events.pid, events.tid, *cells = columns
        events._cells = Cells(plain_json, *cells)
        return events

    @cached_property
    def time_ns(self) -> Int64s:
        """int64, from the trace's origin."""
        return np.array([event.time_ns for event in self._objects], np.int64)

    @cached_property
    def name(self) -> Int32s:
        """int32, index into `names`."""
        return Interner(self.names).codes(event.name for event in self._objects)

    @cached_property
    def cpu(self) -> Int64s:
        """int64, the CPU; -1 if unknown."""
        return _ids([event.cpu for event in self._objects])

    @cached_property
    def pid(self) -> Int64s:
        """int64, the process; -1 if unknown."""
        return _ids([event.pid for event in self._objects])

    @cached_property
    def tid(self) -> Int64s:
        """int64, the thread; -1 if unknown."""
        return _ids([event.tid for event in self._objects])

    @property
    def _objects(self) -> list[Event]:
        assert self._events is not None
        return self._events

    @cached_property
    def _cells(self) -> Cells:
        from meantime.kernels.event_cells import Cells  # noqa: PLC0415 - as above
        from meantime.kernels.event_rows import EventRows  # noqa: PLC0415 - as above

        rows = EventRows(max(len(self), 1))
        for row, event in enumerate(self._objects):
            # by the row, as no two events of one time may change places
            rows.put(row, "", event.fields, None, None, None, 0, 0)
        columns, _, _ = rows.take(len(self), np.zeros(1, np.int32))
        return Cells(plain_json, *columns[5:])

    @cached_property
    def fields(self) -> Mapping[int, EventFields]:
        """By code of a name, the fields of the events of that name."""
        return {
            code: EventFields(rows, _Columns(self._cells, rows))
            for code, rows in self._rows_of.items()
        }

    @cached_property
    def _rows_of(self) -> dict[int, Int64s]:
        order = np.argsort(self.name, kind="stable")
        codes, first = np.unique(self.name[order], return_index=True)
        # in order of first appearance
        parts = zip(codes.tolist(), np.split(order, first[1:]), strict=False)
        return dict(sorted(parts, key=lambda part: int(part[1][0])))

    def of_name(self, name: str) -> NamedEvents:
        """Return the events of one name, maybe none, as columns."""
        code = next((code for code in self.fields if self.names[code] == name), None)
        found = EventFields(np.empty(0, np.int64), {}) if code is None else self.fields[code]
        rows = found.rows
        ids = (self.cpu[rows], self.pid[rows], self.tid[rows])
        return NamedEvents(rows, self.time_ns[rows], *ids, found.columns)

    def values_of(self, name: str) -> list[Any]:
        """Return what `Event.get` returns for a name, by event; `ABSENT` where there is nothing."""
        ids = getattr(self, name) if name in _PLACES else None
        return self._cells.field(name, ABSENT, ids)

    def texts_of(
        self, name: str, known: dict[int, str], text_of: Callable[[Any], str]
    ) -> list[str | None]:
        """Return the texts of `values_of`; None where there is nothing, or the value is None.

        Args:
            name: The field.
            known: The texts of integers, which grows: most integers repeat.
            text_of: Returns the text of any other value that is not a string.
        """
        ids = getattr(self, name) if name in _PLACES else None
        return self._cells.field_texts(name, ids, known, text_of)

    def fields_of(self, row: int) -> dict[str, Any]:
        """Return the fields of one event."""
        if self._events is not None:
            return self._events[row].fields
        columns = (self.time_ns, self.name, self.names, self.cpu, self.pid, self.tid)
        [event] = self._cells.events(row, row + 1, Event, *columns)
        return event.fields

    def merged_json(
        self,
        rows: tuple[Int64s, Int64s],
        extras: tuple[Int32s, list[tuple[str, str]]],
        is_private: Callable[[str], bool],
        encode: Callable[[Any], str],
    ) -> tuple[bytes, Int64s, Int32s, int]:
        """Return the fields of pairs of events as JSON; those of the second replace the first's.

        Args:
            rows: The first and the second event of each pair; -1 for no second one.
            extras: Which further field each pair has, -1 for none; and their names and texts. They
                replace fields of the same name.
            is_private: Whether a field is left out.
            encode: Returns the JSON of a value.

        Returns:
            The texts, one after the other; the offset and the length of each, 0 for no fields; and
            how many fields are left out.
        """
        cells = self._cells
        private = np.array([is_private(key) for key in cells.keys], np.uint8)
        return cells.merged_json(*rows, *extras, private, encode)

    def __len__(self) -> int:
        return len(self.time_ns) if self._events is None else len(self._events)

    def __iter__(self) -> Iterator[Event]:
        if self._events is not None:
            for made in self._events:
                ids = (made.cpu, made.pid, made.tid)
                yield Event(made.time_ns, made.name, made.fields, *ids)
            return
        columns = (self.time_ns, self.name, self.names, self.cpu, self.pid, self.tid)
        for begin in range(0, len(self), _MADE_AT_ONCE):
            end = min(begin + _MADE_AT_ONCE, len(self))
            yield from self._cells.events(begin, end, Event, *columns)

    def __repr__(self) -> str:
        return f"Events({len(self):,} events)"


class _Columns(Mapping[str, FieldColumn]):
    """The fields of some events, each made a column when it is first used."""

    def __init__(self, cells: Cells, rows: Int64s) -> None:
        self._cells = cells
        self._rows = rows
        self._made: dict[str, FieldColumn] = {}

    @cached_property
    def _keys(self) -> dict[str, int]:
        return self._cells.keys_of(self._rows)

    def __getitem__(self, name: str) -> FieldColumn:
        if name not in self._made:
            self._made[name] = self._column(*self._cells.column(self._rows, self._keys[name]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def _column(self, kind: npt.NDArray[np.uint8], word: Int64s) -> FieldColumn:
        from meantime.kernels.event_cells import Kind  # noqa: PLC0415 - as above

        kinds = {Kind(kind) for kind in np.flatnonzero(np.bincount(kind)).tolist()}
        if kinds == {Kind.INT}:
            return word
        if kinds == {Kind.FLOAT}:
            return word.view(np.float64)
        if kinds <= {Kind.FALSE, Kind.TRUE}:
            flags: npt.NDArray[np.bool_] = kind == Kind.TRUE
            return flags
        if kinds <= {Kind.TEXT, Kind.NONE} and Kind.TEXT in kinds:
            return Coded(*self._cells.used_texts(kind, word))
        return column_of(self._cells.values(kind, word, ABSENT))


def plain_json(text: str) -> str:
    r"""Return the text of an array or an object without blanks and escapes that it does not need.

    >>> plain_json('{"a": [1, "\u00fc"]}')
    '{"a":[1,"ü"]}'
    """
    return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def _ids(numbers: list[int | None]) -> Int64s:
    return np.array([-1 if number is None else number for number in numbers], np.int64)


def column_of(values: list[Any]) -> FieldColumn:
    """Return values as a column of their type, or as they are if they have several types.

    >>> column_of([1, 2]).dtype, column_of(["a", None]), column_of([1, "a"])
    (dtype('int64'), Coded(2 rows of 1 strings), [1, 'a'])
    """
    types = set(map(type, values))
    if len(types) == 1 and types <= _TYPED.keys():
        column: FieldColumn = np.array(values, _TYPED[types.pop()])
        return column
    if types <= {str, type(None)} and str in types:
        return Coded.of(values)
    return values
