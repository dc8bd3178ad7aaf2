"""What queries return: columns, with a repr that shows the first of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import numpy as np

from meantime.kernels.span_search import TimeIndex
from meantime.model.columns import Coded, Mixed, distinct, part_of
from meantime.model.tabular import ColumnBatches, Tabular
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s, Value, Values
    from meantime.model.tabular import Column, Paths
    from meantime.model.trace import ArgumentText

__all__ = [
    "Flows",
    "Interval",
    "IntervalBatches",
    "Intervals",
    "Points",
    "Sample",
    "TextPaths",
    "listed",
    "shown",
]

_INT64 = np.iinfo(np.int64)
_SHOWN_ROWS = 10
_STR = 1  # of `Mixed.kinds`: lower means no value, higher a number


class Interval(NamedTuple):
    """An attribute had a value during [start_ns, end_ns).

    Attributes:
        quark: Which attribute.
        start_ns: When it got the value, which may be before the requested range.
        end_ns: When it took the next one, or the history's end.
        value: None if it has no state.
        tag: An index into `History.tags`, or None.
        ongoing: Whether the history is still being built and the end is only its present one.
    """

    quark: int
    start_ns: int
    end_ns: int
    value: Value
    tag: int | None = None
    ongoing: bool = False

    @property
    def duration_ns(self) -> int:
        """How long it lasted."""
        return self.end_ns - self.start_ns


@struct
class Intervals(Tabular):
    """Intervals as columns: quark by quark, in order of time.

    Attributes:
        quark: int32.
        start_ns: int64; of the first interval of each quark it may be before the requested range.
        end_ns: int64; of the last interval of each quark it may be after it.
        value: `Coded` if all requested attributes have strings or nothing, otherwise `Mixed`.
        tag: int32, index into `History.tags`; -1 if there is none.
        range_ns: The requested range, clipped to the history.
        ongoing_end_ns: Where ongoing intervals end; None when the history is built.
    """

    quark: Int32s
    start_ns: Int64s
    end_ns: Int64s
    value: Values
    tag: Int32s
    range_ns: tuple[int, int]
    ongoing_end_ns: int | None = None
    attributes: Paths | None = field(default=None, compare=False)

    @property
    def ongoing(self) -> npt.NDArray[np.bool_]:
        """Which intervals have no end yet; while building, they end at the history's present."""
        if self.ongoing_end_ns is None:
            return np.zeros(len(self), np.bool_)
        ongoing: npt.NDArray[np.bool_] = self.end_ns == self.ongoing_end_ns
        return ongoing

    @property
    def duration_ns(self) -> Int64s:
        """How long each lasted."""
        duration_ns: Int64s = self.end_ns - self.start_ns
        return duration_ns

    def states(self) -> Intervals:
        """Return those that have a state."""
        has_state = self.value.codes >= 0 if isinstance(self.value, Coded) else self.value.kinds > 0
        rows = np.flatnonzero(has_state)
        return replace(
            self,
            quark=self.quark[rows],
            start_ns=self.start_ns[rows],
            end_ns=self.end_ns[rows],
            value=part_of(self.value, rows),
            tag=self.tag[rows],
        )

    def clipped(self) -> Intervals:
        """Return the same intervals from where the range begins to where it ends at most."""
        start_ns, end_ns = self.range_ns
        return replace(
            self,
            start_ns=np.maximum(self.start_ns, start_ns),
            end_ns=np.minimum(self.end_ns, end_ns),
        )

    def columns(self) -> dict[str, Column]:
        """Return quark, start_ns, end_ns, duration_ns, value and tag; no tag is null."""
        return {
            "quark": self.quark,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "duration_ns": self.duration_ns,
            "value": self.value,
            "tag": np.ma.masked_less(self.tag, 0),
        }

    def __len__(self) -> int:
        return len(self.quark)

    @overload
    def __getitem__(self, row: SupportsIndex) -> Interval: ...
    @overload
    def __getitem__(self, row: slice) -> Intervals: ...
    def __getitem__(self, row: SupportsIndex | slice) -> Interval | Intervals:
        if isinstance(row, slice):
            return replace(
                self,
                quark=self.quark[row],
                start_ns=self.start_ns[row],
                end_ns=self.end_ns[row],
                value=part_of(self.value, row),
                tag=self.tag[row],
            )
        tag = int(self.tag[row])
        end_ns = int(self.end_ns[row])
        return Interval(
            int(self.quark[row]),
            int(self.start_ns[row]),
            end_ns,
            self.value[row],
            None if tag < 0 else tag,
            end_ns == self.ongoing_end_ns,
        )

    def __iter__(self) -> Iterator[Interval]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        lines = [
            f"  {quark}: [{start_ns}, {end_ns}) {value!r}"
            + (f" tag {tag}" if tag is not None else "")
            for quark, start_ns, end_ns, value, tag, _ in (self[row] for row in shown(len(self)))
        ]
        return listed(
            f"Intervals: {len(self):,} in [{self.range_ns[0]}, {self.range_ns[1]})",
            lines,
            len(self),
        )


class TextPaths:
    """The paths of some attributes as a column's strings, the same for every batch."""

    def __init__(self, attributes: Paths, quarks: Int32s) -> None:
        self._attributes = attributes
        self._quarks = distinct(quarks)

    @cached_property
    def _texts(self) -> list[str]:
        return [self._attributes.text(quark) for quark in self._quarks.tolist()]

    def column(self, quark: Int32s) -> Coded:
        """Return the paths of a column of these attributes."""
        return Coded(np.searchsorted(self._quarks, quark).astype(np.int32), self._texts)


class IntervalBatches(Tabular):
    """Intervals in batches, which are made when they are iterated over, each time again.

    Args:
        batches: Returns the batches: at least one.
        kinds: The types of the attributes' values, as in `Mixed.kinds`.
        paths: The attributes' paths.

    Attributes:
        kinds: These types.
    """

    __slots__ = ("_batches", "_paths", "kinds")

    def __init__(
        self, batches: Callable[[], Iterator[Intervals]], kinds: Iterable[int], paths: TextPaths
    ) -> None:
        self._batches = batches
        self.kinds: frozenset[int] = frozenset(kinds)
        self._paths = paths

    def __iter__(self) -> Iterator[Intervals]:
        return self._batches()

    def columns(self) -> dict[str, Column]:
        """Return the columns of all batches, joined."""
        return self.without_paths().columns()

    def without_paths(self) -> ColumnBatches:
        """Return the same table without the column of paths."""
        return ColumnBatches(self._columns, self.kinds)

    def __repr__(self) -> str:
        return "IntervalBatches: made when they are iterated over"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>"

    def _columns(self) -> Iterator[dict[str, Column]]:
        for batch in self:
            columns = batch.columns()
            # Where others have numbers, a batch of strings alone has the type of all.
            if isinstance(batch.value, Coded) and max(self.kinds, default=0) > _STR:
                columns["value"] = Mixed.of_strings(batch.value)
            yield columns

    def _columns_and_paths(self) -> Iterator[dict[str, Column]]:
        for columns in self._columns():
            quark = columns.pop("quark")
            assert isinstance(quark, np.ndarray)
            yield {"quark": quark, "path": self._paths.column(quark), **columns}

    def _reader(self) -> Any:
        return ColumnBatches(self._columns_and_paths, self.kinds).arrow_batches()


@struct
class Sample(Tabular):
    """The values of attributes at times, attribute after attribute.

    Attributes:
        quark: int32, the requested attributes.
        time_ns: int64, the requested times.
        value: The value of attribute i at time j in row i * times + j; as in `Intervals`.
    """

    quark: Int32s
    time_ns: Int64s
    value: Values
    attributes: Paths | None = field(default=None, compare=False)

    def columns(self) -> dict[str, Column]:
        """Return quark, time_ns and value, a row for each attribute and time."""
        return {
            "quark": np.repeat(self.quark, len(self.time_ns)),
            "time_ns": np.tile(self.time_ns, len(self.quark)),
            "value": self.value,
        }

    def __repr__(self) -> str:
        return f"Sample: {len(self.quark):,} attributes at {len(self.time_ns):,} times"

    def rows(self) -> list[list[Value]]:
        """Return a list per attribute of its values at the times."""
        values: list[Value] = [*self.value.to_list()]
        times = len(self.time_ns)
        return [values[row * times : (row + 1) * times] for row in range(len(self.quark))]


@struct
class Points(Tabular):
    """Instants on attributes, in order of time.

    Attributes:
        time_ns: int64.
        quark: int32, where it happened.
        name: What happened.
        arguments_offset: int64, where its arguments begin in `text`.
        arguments_length: int32, their bytes; 0 is none.
        text: The bytes of all arguments.
    """

    time_ns: Int64s
    quark: Int32s
    name: Coded
    arguments_offset: Int64s
    arguments_length: Int32s
    text: ArgumentText
    attributes: Paths | None = field(default=None, compare=False)

    def arguments(self, row: SupportsIndex) -> str | None:
        """Return the arguments of a point as in the trace, mostly JSON."""
        return self.text.decode(int(self.arguments_offset[row]), int(self.arguments_length[row]))

    def select(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Points:
        """Return the points of these attributes in [start_ns, end_ns), by default of all."""
        first = 0 if start_ns is None else int(np.searchsorted(self.time_ns, start_ns))
        last = len(self) if end_ns is None else int(np.searchsorted(self.time_ns, end_ns))
        rows: slice | Int64s = slice(first, max(first, last))
        if quarks is not None:
            wanted = np.isin(self.quark[rows], np.asarray(quarks, np.int32))
            rows = np.flatnonzero(wanted) + first
        return Points(
            self.time_ns[rows],
            self.quark[rows],
            Coded(self.name.codes[rows], self.name.names),
            self.arguments_offset[rows],
            self.arguments_length[rows],
            self.text,
        )

    def columns(self) -> dict[str, Column]:
        """Return time_ns, quark and name."""
        return {"time_ns": self.time_ns, "quark": self.quark, "name": self.name}

    def __len__(self) -> int:
        return len(self.time_ns)

    def __repr__(self) -> str:
        lines = [
            f"  {self.time_ns[row]}: {self.quark[row]} {self.name[row]!r}"
            for row in shown(len(self))
        ]
        return listed(f"Points: {len(self):,}", lines, len(self))


# without slots, so that its index is kept
@dataclass(frozen=True, repr=False, eq=False)
class Flows(Tabular):
    """Arrows from one attribute at one time to another, in order of where they begin.

    Attributes:
        from_ns: int64.
        from_quark: int32.
        to_ns: int64.
        to_quark: int32.
        name: What flowed.
    """

    from_ns: Int64s
    from_quark: Int32s
    to_ns: Int64s
    to_quark: Int32s
    name: Coded
    attributes: Paths | None = field(default=None, compare=False)

    def select(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Flows:
        """Return the flows to or from these attributes that are under way in [start_ns, end_ns).

        One is under way from the earlier of its times to the later, both included.
        """
        low = _INT64.min if start_ns is None else max(_INT64.min, min(start_ns, _INT64.max))
        high = _INT64.max if end_ns is None else max(_INT64.min, min(end_ns, _INT64.max))
        whole = np.array([0, len(self)])
        rows = self._times.overlapping(whole[:1], whole[1:], low, high)
        if quarks is not None:
            wanted = np.asarray(quarks, np.int32)
            begins, ends = self.from_quark[rows], self.to_quark[rows]
            rows = rows[np.isin(begins, wanted) | np.isin(ends, wanted)]
        return Flows(
            self.from_ns[rows],
            self.from_quark[rows],
            self.to_ns[rows],
            self.to_quark[rows],
            Coded(self.name.codes[rows], self.name.names),
        )

    @cached_property
    def _times(self) -> TimeIndex:
        # times are below 2^63 - 1, so the end fits
        latest_ns = np.maximum(self.from_ns, self.to_ns)
        return TimeIndex(np.minimum(self.from_ns, self.to_ns), latest_ns + 1)

    def columns(self) -> dict[str, Column]:
        """Return from_ns, from_quark, to_ns, to_quark and name."""
        return {
            "from_ns": self.from_ns,
            "from_quark": self.from_quark,
            "to_ns": self.to_ns,
            "to_quark": self.to_quark,
            "name": self.name,
        }

    def __len__(self) -> int:
        return len(self.from_ns)

    def __repr__(self) -> str:
        lines = [
            f"  {self.from_quark[row]} at {self.from_ns[row]} -> {self.to_quark[row]} at"
            f" {self.to_ns[row]} {self.name[row]!r}"
            for row in shown(len(self))
        ]
        return listed(f"Flows: {len(self):,}", lines, len(self))


def shown(rows: int) -> range:
    """Return the first rows, which a repr shows."""
    return range(min(rows, _SHOWN_ROWS))


def listed(title: str, lines: list[str], rows: int) -> str:
    """Return a title and the lines of the first rows, and how many more there are."""
    if rows > _SHOWN_ROWS:
        lines.append(f"  ... {rows - _SHOWN_ROWS:,} more")
    return "\n".join([title, *lines])
