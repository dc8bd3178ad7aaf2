"""Events of a tracer, with named fields in typed columns: the input of providers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s

__all__ = [
    "ABSENT",
    "Event",
    "EventFields",
    "Events",
    "FieldColumn",
    "NamedEvents",
    "Row",
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

# The fields of an `Event`, in order, the number of its line, and the byte where that begins.
Row: TypeAlias = tuple[int, str, dict[str, Any], "int | None", "int | None", "int | None", int, int]

_TYPED = {int: np.int64, float: np.float64, bool: np.bool_}


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
        value = getattr(self, name) if name in ("cpu", "pid", "tid") else None
        return default if value is None else value

    def __getitem__(self, name: str) -> Any:
        value = self.get(name, ABSENT)
        if value is ABSENT:
            raise KeyError(
                f"{name!r}: the event {self.name!r} at {self.time_ns} ns has no such field"
            )
        return value

    def __contains__(self, name: str) -> bool:
        return self.get(name, ABSENT) is not ABSENT


@dataclass(frozen=True, slots=True)
class EventFields:
    """The fields of the events of one name in a batch.

    Attributes:
        rows: int64, the rows of the batch that have the name, ascending.
        columns: By field, a value per row: an array of int64, float64 or bool; `Coded` if all are
            strings; a list if they have several types, with `ABSENT` for events without the field.
    """

    rows: Int64s
    columns: Mapping[str, FieldColumn]


@dataclass(frozen=True, slots=True)
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
        # The garbage collector does not track tuples of values that refer to nothing.
        self._rows: list[Row] = [
            (event.time_ns, event.name, event.fields, event.cpu, event.pid, event.tid, 0, 0)
            for event in events
        ]
        self.names = [] if names is None else names
        self.position = position

    @classmethod
    def of_rows(cls, rows: list[Row], names: list[str], position: Any) -> Events:
        """Return events whose lines and bytes in the input are known."""
        events = cls((), names, position)
        events._rows = rows
        return events

    @cached_property
    def time_ns(self) -> Int64s:
        """int64, from the trace's origin."""
        return np.array([row[0] for row in self._rows], np.int64)

    @cached_property
    def name(self) -> Int32s:
        """int32, index into `names`."""
        codes = {name: code for code, name in enumerate(self.names)}
        for name in dict.fromkeys(row[1] for row in self._rows):
            if name not in codes:
                codes[name] = len(self.names)
                self.names.append(name)
        return np.array([codes[row[1]] for row in self._rows], np.int32)

    @cached_property
    def cpu(self) -> Int64s:
        """int64, the CPU; -1 if unknown."""
        return _ids([row[3] for row in self._rows])

    @cached_property
    def pid(self) -> Int64s:
        """int64, the process; -1 if unknown."""
        return _ids([row[4] for row in self._rows])

    @cached_property
    def tid(self) -> Int64s:
        """int64, the thread; -1 if unknown."""
        return _ids([row[5] for row in self._rows])

    @cached_property
    def fields(self) -> dict[int, EventFields]:
        """By code of a name, the fields of the events of that name."""
        rows_of: dict[int, list[int]] = {}
        for row, code in enumerate(self.name.tolist()):
            rows_of.setdefault(code, []).append(row)
        return {
            code: EventFields(
                np.array(rows, np.int64), columns_of([self._rows[row][2] for row in rows])
            )
            for code, rows in rows_of.items()
        }

    def of_name(self, name: str) -> NamedEvents:
        """Return the events of one name, maybe none, as columns."""
        code = next((code for code in self.fields if self.names[code] == name), None)
        found = EventFields(np.empty(0, np.int64), {}) if code is None else self.fields[code]
        rows = found.rows
        ids = (self.cpu[rows], self.pid[rows], self.tid[rows])
        return NamedEvents(rows, self.time_ns[rows], *ids, found.columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Event]:
        return (
            Event(time_ns, name, fields, cpu, pid, tid)
            for time_ns, name, fields, cpu, pid, tid, _, _ in self._rows
        )

    def __repr__(self) -> str:
        return f"Events({len(self):,} events)"


def _ids(numbers: list[int | None]) -> Int64s:
    return np.array([-1 if number is None else number for number in numbers], np.int64)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, FieldColumn]:
    """Return the fields of events of one name as columns, in order of first appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: column_of([row.get(name, ABSENT) for row in rows]) for name in names}


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
