"""Maps: the values of the cells of a fold, in total and by name; adding and refolding them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from meantime.errors import UsageError
from meantime.model.anomalies import Anomalies
from meantime.model.columns import distinct
from meantime.query.offsets.cells import Cells, CellsBuilder, merge_cells
from meantime.query.offsets.fold import edges_ns, of_week
from meantime.query.ranges import union
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.offsets.axis import Axis
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.stack_cells import StackCells
    from meantime.query.ranges import Range

__all__ = ["Kind", "OffsetMap", "Source", "Value"]

Kind: TypeAlias = Literal["samples", "spans", "states"]
Value: TypeAlias = Literal["count", "ns", "weight", "starts", "ends"]


@dataclass(frozen=True, slots=True)
class Source:
    """One recording in a map: its name, and when it was recording.

    Attributes:
        name: The name of the file, or of the host.
        recorded: The ranges it covers, in order; there are no data outside them.
        lost: The ranges in which it lost some of what happened.
        entities: The number of entities it measures: attributes with states, threads with spans.
        interval_ns: The sampling interval, if a clock triggered the samples.
        kind: What of it was mapped.
        idle: The names of what idle CPUs had.
        is_cut: Whether its cells have too many parts for their stacks to be kept.
        repeated: The ranges of local times in which it was recording twice, since the clock was set
            back.
        uncompared: What of it has too many different values to say what distinguishes cells.
        unbounded: How many of the intervals whose durations are mapped began before it, or were
            going on when it ended.
    """

    name: str
    recorded: tuple[Range, ...]
    lost: tuple[Range, ...] = ()
    entities: int = 1
    interval_ns: int | None = None
    kind: Kind = "samples"
    idle: tuple[str, ...] = ()
    is_cut: bool = False
    repeated: tuple[Range, ...] = ()
    unbounded: int = 0
    uncompared: tuple[str, ...] = ()


@struct
class OffsetMap:
    """The values of the cells of a fold. Maps of one fold add up, cell by cell.

    Attributes:
        fold: The cells.
        value: What is counted: things (`count`), nanoseconds (`ns`), weights, or the starts or
            ends of intervals.
        total: The cells of all names together.
        by: The cells by name, if the map is grouped; they sum to `total`.
        sources: The recordings in it.
        anomalies: The anomalies of the input.
        utc_at_zero_ns: UTC at the map's time 0, in ns since 1970, if known.
        begin_ns: The time from which printed times count: where the first source begins.
        stacks: What is in the cells, if it was kept: the stacks of samples; those of spans, whose
            values are nanoseconds; or states, each with an entity below it, in nanoseconds.
        traits: What distinguishes cells, if it was kept: how much of each cell has which value of
            an attribute, as stacks of an attribute with the value below it.
    """

    fold: Fold
    value: Value
    total: Cells
    by: Mapping[str, Cells] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    anomalies: Anomalies = field(default_factory=Anomalies)
    utc_at_zero_ns: int | None = None
    begin_ns: int = 0
    stacks: StackCells | None = None
    traits: StackCells | None = None

    @classmethod
    def of(
        cls,
        builder: CellsBuilder,
        value: Value,
        *,
        names: Sequence[str] | None = None,
        sources: Sequence[Source] = (),
        anomalies: Anomalies | None = None,
    ) -> OffsetMap:
        """Return the map of what a builder gathered; `names` are the names of its keys."""
        cells = builder.build()
        by: dict[str, list[Cells]] = {}
        for key in cells if names is not None else ():
            assert names is not None
            by.setdefault(names[key], []).append(cells[key])
        return cls(
            builder.fold,
            value,
            merge_cells(list(cells.values())),
            {name: merge_cells(by[name]) for name in sorted(by)},
            tuple(sources),
            anomalies or Anomalies(),
        )

    @property
    def recorded(self) -> tuple[Range, ...]:
        """When at least one source was recording."""
        return union(span for source in self.sources for span in source.recorded)

    @property
    def lost(self) -> tuple[Range, ...]:
        """When at least one source lost some of what happened."""
        return union(span for source in self.sources for span in source.lost)

    @property
    def repeated(self) -> tuple[Range, ...]:
        """When at least one source was recording twice, since its clock was set back."""
        return union(span for source in self.sources for span in source.repeated)

    def in_map(self, start_ns: int, end_ns: int) -> list[Range]:
        """Return the ranges of the map's times that are a range of its fold, in order.

        Without a calendar that is the range itself. With one, there are two of a range that occurs
        twice, and none of one that is skipped.
        """
        if self.fold.calendar is None:
            return [(start_ns, end_ns)]
        return self.fold.calendar.offsets(start_ns, end_ns).utc(start_ns, end_ns)

    def durations_ns(self, number: Int64s) -> Int64s:
        """Return how long cells are, those that occur twice as long as both together."""
        column, row = np.divmod(number, self.fold.rows)
        edges = edges_ns(self.fold.period_ns, self.fold.rows)
        begin = self.fold.origin_ns + column * self.fold.period_ns + edges[row]
        end = begin + (edges[row + 1] - edges[row])
        more = np.zeros(len(number), np.int64)
        for start_ns, end_ns in self.repeated:
            more += np.maximum(0, np.minimum(end, end_ns) - np.maximum(begin, start_ns))
        lengths: Int64s = end - begin + more
        return lengths

    def cells_of(self, ranges: Sequence[Range]) -> list[Range]:
        """Return the cells of ranges of the fold's times, as the first and the last of each run."""
        fold = self.fold
        if fold.axis is None:
            return [(fold.number(start), fold.number(end - 1)) for start, end in ranges]
        runs = [(fold.column(start), fold.column(end - 1) + 1) for start, end in ranges]
        if fold.axis.kind == "weekday":
            # the columns are hours since a Monday, folded to a week
            hours = np.zeros(168, np.bool_)
            for first, end in runs:
                hours[np.arange(first, min(end, first + 168)) % 168] = True
            cells = union((cell, cell + 1) for cell in of_week(np.flatnonzero(hours)).tolist())
            return [(first, end - 1) for first, end in cells]
        return [(first * fold.rows, end * fold.rows - 1) for first, end in union(runs)]

    @property
    def columns(self) -> tuple[int, int]:
        """The first and the last column that were recorded or are not empty; column 0 if none."""
        if self.fold.axis is not None and self.fold.axis.kind == "weekday":
            return (0, 23)
        numbers = self.total.number
        found = [int(edge) // self.fold.rows for edge in (*numbers[:1], *numbers[-1:])]
        for start_ns, end_ns in self.recorded:
            found += [self.fold.column(start_ns), self.fold.column(end_ns - 1)]
        return (min(found), max(found)) if found else (0, 0)

    def recorded_columns(self) -> list[tuple[int, int]]:
        """Return the runs of columns in which something was recorded, each as first and last."""
        rows = self.fold.rows
        runs = union(
            (first // rows, last // rows + 1) for first, last in self.cells_of(self.recorded)
        )
        return [(first, end - 1) for first, end in runs]

    def reporting(self, column: int) -> int:
        """Return how many sources were recording in some part of a column."""
        begin_ns, finish_ns = self.fold.edge_ns(column), self.fold.edge_ns(column + 1)
        return sum(
            any(start_ns < finish_ns and end_ns > begin_ns for start_ns, end_ns in source.recorded)
            for source in self.sources
        )

    def reporting_runs(self) -> list[tuple[int, int, int]]:
        """Return runs of columns, each as first, last, and how many sources were recording then."""
        first, last = self.columns
        steps: dict[int, int] = {first: 0, last + 1: 0}
        for source in self.sources:
            runs = union(
                (self.fold.column(start_ns), self.fold.column(end_ns - 1) + 1)
                for start_ns, end_ns in source.recorded
            )
            for begin, end in runs:
                steps[begin] = steps.get(begin, 0) + 1
                steps[end] = steps.get(end, 0) - 1
        found: list[tuple[int, int, int]] = []
        count = 0
        edges = sorted(steps)
        for begin, end in itertools.pairwise(edges):
            count += steps[begin]
            if found and found[-1][2] == count:
                found[-1] = (found[-1][0], end - 1, count)
            else:
                found.append((begin, end - 1, count))
        return found

    def grid(self, cells: Cells) -> Int64s:
        """Return cells as an array of all the map's columns x rows, also those that are empty."""
        first, last = self.columns
        grid = np.zeros((last - first + 1) * self.fold.rows, np.int64)
        grid[cells.number - first * self.fold.rows] = cells.value
        return grid.reshape(-1, self.fold.rows)

    def __add__(self, other: OffsetMap) -> OffsetMap:
        """Return the map of both together.

        Raises:
            UsageError: If the two have different cell boundaries, or count different things.
        """
        if self.fold.axis is not None and other.fold.axis is not None:
            axis, own_row, its_row = self.fold.axis.merged(other.fold.axis)
            if not (axis.is_as(self.fold.axis) and axis.is_as(other.fold.axis)):
                return self.on_axis(axis, own_row) + other.on_axis(axis, its_row)
        shift = self.fold.shift(other.fold) * self.fold.rows
        if self.value != other.value:
            raise UsageError(f"a map of {self.value} and one of {other.value} cannot be added")
        names = {*self.by, *other.by}
        if bool(self.by) != bool(other.by) and len(self.total.number) and len(other.total.number):
            raise UsageError("a map grouped by name and one without names cannot be added")
        by = {
            name: merge_cells([self.by.get(name), _shifted(other.by.get(name), shift)])
            for name in sorted(names)
        }
        anomalies = Anomalies()
        anomalies.update(self.anomalies)
        anomalies.update(other.anomalies)
        return OffsetMap(
            self.fold,
            self.value,
            merge_cells([self.total, _shifted(other.total, shift)]),
            by,
            self.sources + other.sources,
            anomalies,
            self.utc_at_zero_ns,
            self.begin_ns,
            _added(self.stacks, other.stacks and other.stacks.shifted(shift)),
            _added(self.traits, other.traits and other.traits.shifted(shift)),
        )

    @property
    def idle(self) -> tuple[str, ...]:
        """The names of what idle CPUs had, of all sources."""
        said = {name for source in self.sources for name in source.idle}
        return tuple(sorted(said))

    def from_first_column(self) -> OffsetMap:
        """Return this map with its first column as column 0."""
        return self.from_column(self.columns[0])

    def from_column(self, first: int) -> OffsetMap:
        """Return this map with the columns counted from this one."""
        fold = replace(self.fold, origin_ns=self.fold.edge_ns(first))
        shift = -first * self.fold.rows
        total = Cells(self.total.number + shift, self.total.value)
        by = {name: Cells(cells.number + shift, cells.value) for name, cells in self.by.items()}
        stacks = self.stacks and self.stacks.shifted(shift)
        traits = self.traits and self.traits.shifted(shift)
        return replace(self, fold=fold, total=total, by=by, stacks=stacks, traits=traits)

    def on_axis(self, axis: Axis, row: Int64s) -> OffsetMap:
        """Return this map with other rows: for each of its rows, the one that this becomes."""

        def moved(cells: Cells) -> Cells:
            column, own = np.divmod(cells.number, self.fold.rows)
            builder = CellsBuilder(fold)
            builder.add_cells(column * axis.rows + row[own], np.zeros_like(own), cells.value)
            return builder.build().get(0, merge_cells([]))

        fold = self.fold.on(axis)
        by = {name: moved(cells) for name, cells in self.by.items()}
        traits = self.traits
        if traits is not None:
            column, own = np.divmod(traits.number, self.fold.rows)
            traits = traits.numbered(column * axis.rows + row[own])
        return replace(self, fold=fold, total=moved(self.total), by=by, traits=traits)

    def fitted(self) -> OffsetMap:
        """Return this map without the rows of durations that are longer or shorter than all."""
        axis, numbers = self.fold.axis, self.total.number
        if axis is None or axis.kind != "duration" or not len(numbers):
            return self
        rows = distinct(numbers % self.fold.rows)
        # a row above shows that there are no longer ones
        first, end = int(rows[0]), min(axis.rows, int(rows[-1]) + 2)
        if axis.spacing == "linear":
            first, end = 0, int(rows[-1]) + 1
        kept = np.clip(np.arange(axis.rows) - first, 0, end - first - 1)
        return self.on_axis(axis.fitted(first, end), kept)

    def relabelled(self, fold: Fold) -> OffsetMap:
        """Return this map for a fold of the same shape at another origin, as if all times moved."""
        return replace(self, fold=fold)

    def refold(self, fold: Fold) -> OffsetMap:
        """Return this map in other, larger cells: exact, although the times are not kept.

        Stacks are not refolded.

        Raises:
            UsageError: If an edge of the new cells lies inside one of the old.
        """
        bin_ns, uneven = divmod(self.fold.period_ns, self.fold.rows)
        # Edges are whole nanoseconds, so cells of one nanosecond fit into any rows.
        aligned = (
            not uneven
            and (fold.origin_ns - self.fold.origin_ns) % bin_ns == 0
            and fold.period_ns % bin_ns == 0
            and (bin_ns == 1 or fold.period_ns // bin_ns % fold.rows == 0)
        )
        if not aligned:
            raise UsageError(
                f"{fold.rows} rows of {fold.period_ns} ns cannot be built from cells of "
                f"{self.fold.period_ns}/{self.fold.rows} ns: every row must be whole cells"
            )

        def refolded(cells: Cells) -> Cells:
            builder = CellsBuilder(fold)
            builder.add_times(self.fold.origin_ns + cells.number * bin_ns, weights=cells.value)
            return builder.build().get(0, merge_cells([]))

        return replace(
            self,
            fold=fold,
            total=refolded(self.total),
            by={name: refolded(cells) for name, cells in self.by.items()},
            stacks=None,
            traits=None,
        )


def _added(one: StackCells | None, other: StackCells | None) -> StackCells | None:
    if one is None or other is None:
        return one or other
    return one + other


def _shifted(cells: Cells | None, shift: int) -> Cells | None:
    return cells and Cells(cells.number + shift, cells.value)
