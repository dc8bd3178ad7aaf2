"""Maps whose rows are not offsets: durations, shares of the time, entities, days of the week.

All are made of what `gather` reads, and counted by the same builder. Shares begin as a map of one
row for each entity, whose cells are the exact nanoseconds of a column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.model.columns import distinct, named
from meantime.query.offsets.axis import durations, entities, utilisation, weekdays
from meantime.query.offsets.cells import CellsBuilder, merge_cells
from meantime.query.offsets.fold import Fold, edges_ns, of_week
from meantime.query.offsets.gather import (
    VALUES,
    Gathering,
    Times,
    inside_of,
    kind_of,
    offset_map,
    window_of,
)
from meantime.query.offsets.map import OffsetMap, Source
from meantime.query.offsets.traits import TraitCells
from meantime.query.ranges import clipped
from meantime.query.statistics import state_quarks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.history import History
    from meantime.model.columns import Int64s
    from meantime.query.offsets.axis import Axis
    from meantime.query.offsets.cells import Cells
    from meantime.query.offsets.gather import Choice, Rows
    from meantime.query.offsets.map import Kind, Value
    from meantime.query.offsets.stack_cells import StackCells

__all__ = ["axis_map", "default_rows"]

HOUR_NS = 3600 * 10**9
_MONDAY_NS = 4 * 24 * HOUR_NS
_ENTITY = 2**32
# The most shares of entities in columns: half a gigabyte.
_MOST_SHARES = 2**26
# By kind of rows, the values of their cells; the first is the default.
_OF_AXIS: dict[str, tuple[Value, ...]] = {
    "duration": ("count", "starts", "ends"),
    "utilisation": ("count",),
    "row": ("ns", "count", "weight", "starts", "ends"),
}


def default_rows(choice: Choice) -> int:
    """Return how many rows a map of durations or shares has unless it is said."""
    if choice.y == "duration":
        return 10 if choice.spacing == "log" else 50
    return 50


class _Made(NamedTuple):
    """Cells of rows on an axis: columns of cell numbers, keys, and values."""

    axis: Axis
    number: Int64s
    key: Int64s
    value: Int64s
    unbounded: int = 0
    traits: StackCells | None = None


def axis_map(
    history: History, fold: Fold, choice: Choice, *, source: str, offset_ns: int = 0
) -> OffsetMap:
    """Return the map of a history whose rows are what `choice.y` says.

    * `duration`: a cell has how many intervals of its duration begin in the column, or end in it.
      Durations are whole, also of what reaches beyond the window; spans count at every depth.
    * `utilisation`: a cell has how many entities are in the chosen states, or threads in spans, for
      its share of the recorded time of the column. An entity without any state in a column is in
      no cell of it.
    * `row`: a cell has the time of one entity, or how much of it begins or is sampled.
    * `weekday`: the sum over all weeks of each hour of the week, with hours as columns.

    Args:
        history: What happened.
        fold: The columns, in the times of the map; its rows do not matter.
        choice: What of it.
        source: What the recording is called.
        offset_ns: What to add to the history's times to get the map's.

    Raises:
        UsageError: If this kind of thing has no such value, or cannot be taken apart so.
    """
    if choice.y == "weekday":
        return _of_week(history, fold, choice, source, offset_ns)
    kind = kind_of(history, choice)
    value = _value(history, kind, choice)
    choice = replace(choice, value=value, stacks=False, kind=kind)
    one_row = Fold(fold.origin_ns - offset_ns, fold.period_ns, 1, fold.calendar)
    reading = _Reading(history, choice, one_row, source, offset_ns)
    made, times = reading.made(), reading.times
    names = reading.gathering.names
    builder = CellsBuilder(one_row.on(made.axis))
    key = np.zeros_like(made.key) if choice.by is None else made.key
    builder.add_cells(made.number, key, made.value)
    window = window_of(history, choice)
    recorded = clipped([history.bounds], *window)
    found = OffsetMap.of(
        builder,
        value,
        names=None if choice.by is None else names,
        sources=[
            Source(
                source,
                times.of_ranges(recorded),
                times.of_ranges(clipped(history.lost, *window)),
                reading.entities,
                kind=kind,
                idle=reading.gathering.idle(),
                repeated=times.repeated(recorded),
                unbounded=made.unbounded,
                uncompared=reading.gathering.uncompared,
            )
        ],
        anomalies=history.anomalies,
    )
    return replace(found, fold=fold.on(made.axis), traits=made.traits)


def _value(history: History, kind: Kind, choice: Choice) -> Value:
    possible = [value for value in _OF_AXIS[choice.y] if value in VALUES[kind]]
    if kind == "samples" and choice.y != "row":
        raise UsageError(
            f"samples have no {choice.y}, as they are moments; --y {choice.y} needs states or spans"
        )
    if kind == "states" and not choice.states and choice.y in {"utilisation", "row"}:
        raise UsageError(f"--y {choice.y} needs the states that count: {_some_states(history)}")
    if choice.value is None:
        return possible[0]
    if choice.value not in possible:
        raise UsageError(
            f"a map by {choice.y} of {kind} has no {choice.value}; choose one of:"
            f" {', '.join(possible)}"
        )
    return choice.value


def _some_states(history: History) -> str:
    quarks = state_quarks(history)
    batches = history.interval_batches(quarks, *history.bounds) if len(quarks) else ()
    names = dict.fromkeys(name for batch in batches for name in named(batch.value).names)
    return ", ".join(f"--state {name}" for name in [*names][:8]) or "there are none"


class _Reading:
    """Reads a history for one map."""

    def __init__(
        self, history: History, choice: Choice, one_row: Fold, source: str, offset_ns: int
    ) -> None:
        self._history = history
        self._choice = choice
        self._kind = kind_of(history, choice)
        self._window = window_of(history, choice)
        self._one_row = one_row
        self._source = source
        # its fold has the times of the history
        of_map = replace(one_row, origin_ns=one_row.origin_ns + offset_ns)
        self.times = Times.of(of_map, offset_ns, self._window)
        self.gathering = Gathering(history, choice, self._window, source)
        self._of_rows = TraitCells(one_row)
        self._quarks = self._all_entities()
        self.entities = len(self._quarks)

    def _all_entities(self) -> Int64s:
        choice, history = self._choice, self._history
        if self._kind == "states":
            quarks = choice.of(history, state_quarks(history))
        elif self._kind == "spans":
            quarks = choice.of(history, history.spans().threads)
        else:
            quarks = choice.of(history, distinct(history.samples().thread))
        return np.sort(quarks.astype(np.int64))

    def made(self) -> _Made:
        of = {"duration": self._durations, "utilisation": self._shares, "row": self._rows}
        return of[self._choice.y]()

    def _intervals(self) -> Iterator[tuple[Int64s, Int64s, Rows]]:
        """Yield when intervals begin and end, and what they are; of samples both times."""
        if self._window[0] >= self._window[1]:
            return
        for rows in self.gathering.rows(self._kind):
            yield rows.start_ns, rows.start_ns if rows.end_ns is None else rows.end_ns, rows

    def _inside(self, at_ns: Int64s) -> Int64s:
        """Return which of these times are in the window, as `offset_map` counts starts and ends."""
        return np.flatnonzero(inside_of(at_ns, self._choice.window))

    def _column(self, at_ns: Int64s) -> Int64s:
        local = self.times.of_instants(at_ns)
        return (local - self._one_row.origin_ns) // self._one_row.period_ns

    def _durations(self) -> _Made:
        choice = self._choice
        count = choice.rows or default_rows(choice)
        longest_ns = 0
        if choice.spacing == "linear":
            for start_ns, end_ns, _ in self._intervals():
                at = self._inside(end_ns if choice.value == "ends" else start_ns)
                longest_ns = max(longest_ns, int((end_ns - start_ns)[at].max(initial=0)))
        axis = durations(count, choice.spacing, longest_ns)
        rows_of = self._one_row.on(axis)
        builder, traits = CellsBuilder(rows_of), TraitCells(rows_of)
        unbounded = 0
        first_ns, last_ns = self._history.bounds
        for start_ns, end_ns, rows in self._intervals():
            at = self._inside(end_ns if choice.value == "ends" else start_ns)
            begin, end = start_ns[at], end_ns[at]
            unbounded += int(((begin <= first_ns) | (end >= last_ns)).sum())
            column = self._column(end if choice.value == "ends" else begin)
            number = column * axis.rows + axis.row_of(end - begin)
            builder.add_cells(number, rows.key[at], np.ones(len(at), np.int64))
            traits.add(number, self._own_key(rows)[at], [each[at] for each in rows.traits])
        found = self.gathering.trait_cells(traits)
        return _Made(axis, *_flat(builder.build()), unbounded, found)

    def _own_key(self, rows: Rows) -> Int64s:
        return np.zeros_like(rows.key) if self._choice.by is None else rows.key

    def _entity_columns(self, *, by_key: bool) -> dict[int, Cells]:
        """Return for each entity, or entity and key, how much it has in each column."""
        builder = CellsBuilder(self._one_row)
        choice, traits = self._choice, TraitCells(self._one_row)
        if by_key:
            self._of_rows = traits
        for start_ns, end_ns, rows in self._intervals():
            entity = rows.entity.astype(np.int64)
            both = entity * _ENTITY + rows.key if by_key else entity
            if choice.value in {"count", "weight", "starts", "ends"} and choice.y == "row":
                at_ns = end_ns if choice.value == "ends" else start_ns
                at = self._inside(at_ns)
                local = self.times.of_instants(at_ns[at])
                builder.add_times(local, keys=both[at])
                columns = [column[at] for column in rows.traits]
                traits.add(self._one_row.numbers(local), entity[at], columns)
                continue
            begin = np.maximum(start_ns, self._window[0])
            end = np.maximum(begin, np.minimum(end_ns, self._window[1]))
            cut = self.times.of_intervals(begin, end, both, entity, *rows.traits)
            builder.add_intervals(*cut[:2], keys=cut[2])
            traits.add_intervals(cut[0], cut[1], cut[3], cut[4:])
        return builder.build()

    def _rows(self) -> _Made:
        quarks = self._quarks.tolist()
        named = [(self._source, self.gathering.thread_name(quark)) for quark in quarks]
        axis = entities(named)
        place = {name: row for row, name in enumerate(axis.names)}
        row_of = {quark: place[name] for quark, name in zip(quarks, named, strict=True)}
        number, both, value = _flat(self._entity_columns(by_key=True))
        entity, key = np.divmod(both, _ENTITY)
        rows = np.array([row_of[quark] for quark in quarks], np.int64)
        row = rows[np.searchsorted(self._quarks, entity)] if len(entity) else entity
        # a cell of one row for each entity becomes one in the entity's row
        found = self.gathering.trait_cells(self._of_rows)
        if found is not None:
            of_entity = rows[np.searchsorted(self._quarks, found.name.astype(np.int64))]
            found = replace(found, name=np.zeros_like(found.name), names=("",)).numbered(
                found.number * axis.rows + of_entity
            )
        return _Made(axis, number * axis.rows + row, key, value, traits=found)

    def _shares(self) -> _Made:
        axis = utilisation(self._choice.rows or default_rows(self._choice))
        columns, width = self._widths()
        busy_at, busy_of, busy_ns = _flat(self._entity_columns(by_key=False))
        number, entity, _ = self._present(columns)
        if self.entities * len(columns) > _MOST_SHARES:
            raise UsageError(
                f"{self.entities:,} entities in {len(columns):,} columns are too many shares;"
                " choose a longer --period"
            )
        # every entity that is there has a share, also of nothing
        wide = max(1, len(columns))
        first = int(columns[0]) if len(columns) else 0
        place = np.searchsorted(self._quarks, entity) * wide + number - first
        ns = np.zeros(self.entities * wide, np.int64)
        ns[np.searchsorted(self._quarks, busy_of) * wide + busy_at - first] = busy_ns
        row = np.empty(len(number), np.int64)
        widths = width[number - first]
        for each in distinct(widths).tolist():
            chosen = widths == each
            # spans that overlap in a thread can be more than the column
            shown = np.minimum(ns[place[chosen]], each)
            edges = edges_ns(each, axis.rows)
            row[chosen] = np.searchsorted(edges, shown, side="right") - 1
        row = np.minimum(row, axis.rows - 1)
        at = np.searchsorted(self._quarks, entity)
        key = self._entity_keys()[at] if len(entity) else entity
        cells, traits = number * axis.rows + row, TraitCells(self._one_row.on(axis))
        if len(entity):
            of_entity = self.gathering.entity_traits(self._quarks.astype(np.int32))
            own_key = np.zeros_like(key) if self._choice.by is None else key
            traits.add(cells, own_key, [column[at] for column in of_entity])
        found = self.gathering.trait_cells(traits)
        return _Made(axis, cells, key, np.ones(len(number), np.int64), traits=found)

    def _widths(self) -> tuple[Int64s, Int64s]:
        """Return the columns that were recorded, and how long each was."""
        builder = CellsBuilder(self._one_row)
        begin, end = (np.array([edge], np.int64) for edge in self._window)
        if self._window[0] < self._window[1]:
            builder.add_intervals(*self.times.of_intervals(begin, end))
        cells = builder.build().get(0, merge_cells([]))
        if not len(cells.number):
            return cells
        # local time may skip columns
        columns = np.arange(int(cells.number[0]), int(cells.number[-1]) + 1)
        width = np.zeros(len(columns), np.int64)
        width[cells.number - columns[0]] = cells.value
        return columns, width

    def _present(self, columns: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return the columns in which each entity has a state; threads always are there."""
        if self._kind == "states":
            every = replace(self._choice, states=(), traits=False)
            gathering, self.gathering = (
                self.gathering,
                Gathering(self._history, every, self._window, self._source),
            )
            found = _flat(self._entity_columns(by_key=False))
            self.gathering = gathering
            return found
        entity = np.repeat(self._quarks, len(columns))
        number = np.tile(columns, len(self._quarks))
        return number, entity, np.ones(len(number), np.int64)

    def _entity_keys(self) -> Int64s:
        return self.gathering.entity_keys(self._quarks)


def _flat(cells: Mapping[int, Cells]) -> tuple[Int64s, Int64s, Int64s]:
    """Return the number, the key and the value of each cell of each key."""
    empty = np.zeros(0, np.int64)
    number = np.concatenate([empty, *(each.number for each in cells.values())])
    counts = [len(each.number) for each in cells.values()]
    key = np.repeat(np.array([*cells], np.int64), counts)
    value = np.concatenate([empty, *(each.value for each in cells.values())])
    return number, key, value


def _of_week(
    history: History, fold: Fold, choice: Choice, source: str, offset_ns: int
) -> OffsetMap:
    """Return the hours of the week, of a map of all hours from a Monday on."""
    hours = offset_map(history, fold, choice, source=source, offset_ns=offset_ns)
    axis = weekdays()

    def folded(cells: Cells) -> Cells:
        builder = CellsBuilder(fold.on(axis))
        number = of_week(cells.number)
        builder.add_cells(number, np.zeros_like(number), cells.value)
        return builder.build().get(0, merge_cells([]))

    by = {name: folded(cells) for name, cells in hours.by.items()}
    stacks, traits = (
        each and each.numbered(of_week(each.number)) for each in (hours.stacks, hours.traits)
    )
    total = folded(hours.total)
    return replace(hours, fold=fold.on(axis), total=total, by=by, stacks=stacks, traits=traits)
