"""Events: what a tracer saw happen, with named fields in typed columns; providers take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s

__all__ = ["ABSENT", "Event", "EventFields", "Events", "FieldColumn", "NamedEvents", "column_of"]


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT = _Absent.ABSENT

FieldColumn: TypeAlias = (
    "npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.bool_] | Coded | list[Any]"
)

_TYPED = {int: np.int64, float: np.float64, bool: np.bool_}


@dataclass(slots=True)
class Event:
    """One event.

    Attributes:
        time_ns: When, from the trace's origin.
        name: What happened.
        fields: What else was said of it: ints, floats, strings, bools, None.
        cpu: Where it happened; None if that was not said.
        pid: In which process, or None.
        tid: In which thread, or None.

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
        """Return a field, or `cpu`, `pid` or `tid`; the default where the event has none."""
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
        rows: int64, which rows of the batch have the name, ascending.
        columns: By field, a value per row: an array of int64, float64 or bool; `Coded` where all
            are strings; a list where they are of several types, with `ABSENT` where there is none.
    """

    rows: Int64s
    columns: Mapping[str, FieldColumn]

    def dicts(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each row."""
        names = list(self.columns)
        lists = [as_list(column) for column in self.columns.values()]
        if not lists:
            yield from ({} for _ in self.rows)
        elif any(isinstance(column, list) for column in self.columns.values()):
            for values in zip(*lists, strict=True):
                yield {
                    name: value
                    for name, value in zip(names, values, strict=True)
                    if value is not ABSENT
                }
        else:
            for values in zip(*lists, strict=True):
                yield dict(zip(names, values, strict=True))


@dataclass(frozen=True, slots=True)
class NamedEvents:
    """The events of one name in a batch, as columns.

    Attributes:
        rows: int64, which rows of the batch these are.
        time_ns: int64.
        cpu: int64, -1 where not said; so are `pid` and `tid`.
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


@dataclass(frozen=True, slots=True)
class Events:
    """Events of any names, in order of time.

    Attributes:
        time_ns: int64, when, from the trace's origin.
        name: int32, index into `names`.
        cpu: int64, where it happened; -1 where not said.
        pid: int64, in which process; -1 where not said.
        tid: int64, in which thread; -1 where not said.
        fields: By name's index, the fields of the events of that name.
        names: The trace's table of names, `Trace.values`.
        position: Where in the input the reader goes on after these, if it can: as JSON.

    >>> read = [Event(1, "read", {"bytes": 5}), Event(3, "read", {"bytes": 7})]
    >>> events = Events.of([read[0], Event(2, "close"), read[1]])
    >>> events.of_name("read")["bytes"].tolist()
    [5, 7]
    >>> [event.name for event in events]
    ['read', 'close', 'read']
    """

    time_ns: Int64s
    name: Int32s
    cpu: Int64s
    pid: Int64s
    tid: Int64s
    fields: Mapping[int, EventFields]
    names: Sequence[str]
    position: Any = None

    @classmethod
    def of(
        cls, events: Sequence[Event], names: list[str] | None = None, position: Any = None
    ) -> Events:
        """Return the columns of these events; names that are new are added to the table."""
        table = [] if names is None else names
        codes = {name: code for code, name in enumerate(table)}
        for event in events:
            if event.name not in codes:
                codes[event.name] = len(table)
                table.append(event.name)
        name = np.array([codes[event.name] for event in events], np.int32)
        fields = {}
        for code in np.unique(name).tolist():
            rows = np.flatnonzero(name == code)
            told = [events[row].fields for row in rows.tolist()]
            fields[code] = EventFields(rows, columns_of(told))
        return cls(
            time_ns=np.array([event.time_ns for event in events], np.int64),
            name=name,
            cpu=_places([event.cpu for event in events]),
            pid=_places([event.pid for event in events]),
            tid=_places([event.tid for event in events]),
            fields=fields,
            names=table,
            position=position,
        )

    def of_name(self, name: str) -> NamedEvents:
        """Return the events of one name as columns; there may be none."""
        code = next((code for code in self.fields if self.names[code] == name), None)
        found = EventFields(np.empty(0, np.int64), {}) if code is None else self.fields[code]
        rows = found.rows
        places = (self.cpu[rows], self.pid[rows], self.tid[rows])
        return NamedEvents(rows, self.time_ns[rows], *places, found.columns)

    def __len__(self) -> int:
        return len(self.time_ns)

    def __iter__(self) -> Iterator[Event]:
        fields: list[dict[str, Any]] = [{}] * len(self)
        for found in self.fields.values():
            for row, told in zip(found.rows.tolist(), found.dicts(), strict=True):
                fields[row] = told
        places = (
            [None if number < 0 else number for number in column.tolist()]
            for column in (self.cpu, self.pid, self.tid)
        )
        names = [self.names[code] for code in self.name.tolist()]
        return map(Event, self.time_ns.tolist(), names, fields, *places)


def _places(numbers: list[int | None]) -> Int64s:
    return np.array([-1 if number is None else number for number in numbers], np.int64)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, FieldColumn]:
    """Return the fields of events of one name as columns, in order of first appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: column_of([row.get(name, ABSENT) for row in rows]) for name in names}


def column_of(values: list[Any]) -> FieldColumn:
    """Return values as a column of the type that they all have; as they are if they have several.

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


def as_list(column: FieldColumn) -> list[Any]:
    """Return a column's values as Python objects."""
    if isinstance(column, list):
        return column
    if isinstance(column, Coded):
        return list(column.to_list())
    values: list[Any] = column.tolist()
    return values
