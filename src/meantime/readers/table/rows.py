"""Rows of a table as states, changes of state, or samples.

Intervals of one entity that overlap are in lanes below it: the first that is free. An interval
without an end lasts until the last time of the table.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.kernels.csv_rows import TimeKind, appearing, changes, first_fit
from meantime.model.attribute_paths import COUNTER_PATTERN, counter_path
from meantime.model.attributes import parse_pattern
from meantime.model.clocks import UTC
from meantime.model.columns import Coded, Interner
from meantime.model.input_path import GUESSED
from meantime.model.trace import Counters, LaneDeclaration, Samples, StateChanges
from meantime.readers.line_order import count_order_of
from meantime.readers.table.number_units import (
    Unit,
    date_or_uptime,
    duration_unit,
    has_numbers,
    start_unit,
)
from meantime.readers.table.times import (
    MISSING,
    Resolved,
    TimeColumn,
    joined,
    number_kinds,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.attributes import Path
    from meantime.model.column_mapping import ColumnMapping
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions

__all__ = ["Part", "batches_of"]

# Some rows: columns by name.
Part = dict[str, "TimeColumn | Coded"]

_LIMIT = 2**63 - 1
# What `changes` numbers with 32 bits.
_MOST_ROWS = 2**31 - 1
# Larger overlaps than this are not taken for rounding, however coarse times are.
_MOST_ROUNDED_NS = 1_000_000
_NO_TEXT = "(none)"
_ALL = "all"
_ACTIVE = "active"
# Kinds of entities that do one thing at a time.
_SEQUENTIAL = re.compile(r"thread|tid|worker|lane|executor|slot|cpu|core")
_PERFETTO = Unit("ns", "as in Perfetto's ts and dur")
_Item = TypeVar("_Item", bound=np.generic)


def batches_of(
    parts: Iterable[Part],
    mapping: ColumnMapping,
    counters: Sequence[str],
    trace: Trace,
    options: ReadOptions,
) -> Iterator[Batch]:
    """Yield the rows of a table as a single batch, and one of each counter of events.

    Args:
        parts: The rows.
        mapping: Which column is what.
        counters: The columns of numbers that are counters.
        trace: What the rows are read into.
        options: How they are read.

    Raises:
        InputError: If a row has no time or ends before it starts, unless `lenient`.
    """
    table = _Table(mapping, trace, options)
    for part in parts:
        table.add(part)
    if "start" in mapping.columns or "end" in mapping.columns:
        yield table.intervals()
    elif "state" in mapping.columns:
        yield table.changes()
    else:
        yield from table.events(counters)


class _Texts:
    """A column of texts that grows, coded."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._known = Interner(self._names)
        self._parts: list[Int32s] = []

    def add(self, column: Coded) -> None:
        codes = self._known.codes([*column.names])
        if np.array_equal(codes, np.arange(len(codes))):
            self._parts.append(column.codes)
            return
        # null is -1, the last one
        of = np.append(codes, np.int32(-1))
        self._parts.append(of[column.codes])

    def column(self) -> Coded:
        if len(self._parts) != 1:
            self._parts = [np.concatenate([np.empty(0, np.int32), *self._parts])]
        [codes] = self._parts
        missing = codes < 0
        if missing.any():
            codes = np.where(missing, self._known.code(_NO_TEXT), codes).astype(np.int32)
        self._parts = [codes]
        return Coded(codes, self._names)


class _Table:
    """Collects the columns of a table that have a role."""

    def __init__(self, mapping: ColumnMapping, trace: Trace, options: ReadOptions) -> None:
        self._mapping = mapping
        self._named = mapping.units
        self._trace = trace
        self._lenient = options.lenient
        self._until_ns = _LIMIT if options.until_ns is None else options.until_ns
        self._keep = options.keep
        self._values = Interner(trace.values)
        self._paths = trace.paths
        self._rows = 0
        self._ends_are_sums = False
        self._times: dict[str, list[TimeColumn]] = {}
        self._texts: dict[str, _Texts] = {}

    def add(self, part: Mapping[str, TimeColumn | Coded]) -> None:
        rows = 0
        for name, column in part.items():
            if isinstance(column, TimeColumn):
                self._times.setdefault(name, []).append(column)
                rows = len(column.values)
            else:
                self._texts.setdefault(name, _Texts()).add(column)
                rows = len(column.codes)
        self._rows += rows
        self._trace.records += rows

    def events(self, counters: Sequence[str]) -> Iterator[Batch]:
        """Yield events, each a sample without a stack, and their numbers as counters."""
        [times] = self._times_of("time")
        if "weight" in self._mapping.columns:
            weights = self._durations_of("weight", "ns!")
        else:
            ones, no = np.ones(len(times.time_ns), np.int64), np.zeros(len(times.bad), np.bool_)
            weights = Resolved(ones, no, no, "")
        rows = self._good(
            (times.bad | times.missing | _outside(times), self._not_a_time("time")),
            (weights.bad, "its weight is not an integer that fits into 64 bits"),
        )
        time_ns, weight = times.time_ns, weights.time_ns
        names = self._text("name")
        self._count_order(rows, names, time_ns, are_threads=False)
        self._trace.anomalies.add("repeated_row", self._repeated(rows, time_ns))
        rows = self._kept(rows, time_ns, names)
        used, _, which = _appearing(_taken(names.codes, rows), names.names)
        texts = [names.names[code] for code in used]
        name, thread = (
            codes.take(which)
            for codes in (
                self._values.codes(texts),
                self._paths.codes((text,) for text in texts),
            )
        )
        if len(rows):
            kept = time_ns[rows]
            self._trace.bounds = (int(kept.min()), int(kept.max()) + 1)
        yield Samples(
            time_ns=time_ns[rows],
            thread=thread,
            stack=np.full(len(rows), -1, np.int32),
            weight=weight[rows],
            event=np.full(len(rows), self._values.code("event"), np.int32),
            name=name,
        )
        if counters and len(rows):
            lane = LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters")
            self._trace.lanes.append(lane)
            rows = rows[np.argsort(time_ns[rows], kind="stable")]
            for column in counters:
                yield from self._counter(column, rows, time_ns, names)

    def _counter(
        self, column: str, rows: Int64s, time_ns: Int64s, names: Coded
    ) -> Iterator[Counters]:
        """Yield the values of a column of numbers, each a counter of its event.

        Args:
            column: The column.
            rows: The rows of events, in order of time.
            time_ns: The times of all rows.
            names: The names of all rows.
        """
        found = self._column(column)
        values, kinds = found.values[rows], found.kinds[rows]
        number = np.full(len(rows), np.nan)
        for kind, digits in number_kinds().items():
            number[kinds == kind] = values[kinds == kind] / 10.0**digits
        known = ~np.isnan(number)
        self._trace.anomalies.add("bad_counter", int((~known & (kinds != MISSING)).sum()))
        is_whole = bool((kinds[known] == TimeKind.INTEGER).all())
        if known.any():
            used, _, which = _appearing(names.codes[rows][known], names.names)
            paths = [counter_path(0, names.names[code], column) for code in used]
            yield Counters(
                time_ns=time_ns[rows][known],
                entity=self._paths.codes(paths).take(which),
                value=values[known] if is_whole else number[known],
            )

    def changes(self) -> StateChanges:
        """Return the changes of entities that stay in a state until their next row."""
        [times] = self._times_of("time")
        bad = times.bad | times.missing | _outside(times)
        rows = self._good((bad, self._not_a_time("time")))
        entity = self._entities()
        self._count_order(rows, entity, times.time_ns)
        self._trace.anomalies.add("repeated_row", self._repeated(rows, times.time_ns))
        rows = self._kept(rows, times.time_ns, entity)
        states = self._text("state")
        order = np.argsort(times.time_ns[rows], kind="stable")
        rows = rows[order]
        time_ns = times.time_ns[rows]
        path = self._path_codes(entity.codes[rows], entity.names, rows)
        state = self._codes(states.codes[rows], states.names)
        state[state == self._nothing()] = -1
        if len(rows):
            self._trace.bounds = (int(time_ns[0]), int(time_ns[-1]) + 1)
        self._trace.lanes.append(LaneDeclaration("**", entity_kind=self._mapping.column("entity")))
        return StateChanges(time_ns, path, state, np.full(len(rows), -1, np.int32))

    def intervals(self) -> StateChanges:
        """Return the changes of intervals, in order of time."""
        entity = self._entities()
        starts, ends, rows = self._ranges(entity.codes)
        self._count_order(rows, entity, starts, ends)
        # a history cannot contain intervals of length 0
        some = _taken(starts, rows) != _taken(ends, rows)
        self._trace.anomalies.add("zero_length_state", len(rows) - int(np.count_nonzero(some)))
        rows = self._kept(_where(rows, some), starts, entity)
        path = self._path_codes(_taken(entity.codes, rows), entity.names, rows)
        state = self._text("state")
        value = self._codes(_taken(state.codes, rows), state.names)
        del some, entity, state
        # this is where a table takes the most memory
        self._texts.clear()
        if len(rows) < len(starts):
            starts, ends = starts[rows], ends[rows]
        del rows
        batch = self._changes(starts, ends, path, value)
        if len(batch.time_ns):
            self._trace.bounds = (int(batch.time_ns[0]), int(batch.time_ns[-1]))
        self._trace.lanes.append(LaneDeclaration("**", entity_kind=self._mapping.column("entity")))
        return batch

    def _ranges(self, entity: Int32s) -> tuple[Int64s, Int64s, Int64s]:
        """Return when each interval starts and ends, and the rows that are good.

        Args:
            entity: The entity of each row.
        """
        columns = self._mapping.columns
        roles = [role for role in ("start", "end") if role in columns]
        found = dict(zip(roles, self._times_of(*roles, entity=entity), strict=True))
        lasted = None
        if "duration" in columns:
            lasted = self._durations(found, entity)
        self._ends_are_sums = "end" not in found
        if "start" in found and "end" in found:
            start, end = found["start"], found["end"]
        elif lasted is not None:
            # the sum of two times of 62 bits fits
            known = next(iter(found.values()))
            wide = (np.abs(known.time_ns) | np.abs(lasted.time_ns)) >= 2**62
            step = np.where(wide, 0, lasted.time_ns)
            missing, bad = known.missing | lasted.missing, known.bad | lasted.bad | wide
            if "start" in found:
                start, end = known, Resolved(known.time_ns + step, missing, bad, "")
            else:
                start, end = Resolved(known.time_ns - step, missing, bad, ""), known
        else:
            raise InputError(self._trace.source, "intervals need start and end, or a duration")
        bad_start, bad_end = start.bad | _outside(start), end.bad | _outside(end)
        # what was read comes before what was computed from it
        faults = []
        for role, wrong in (("start", bad_start), ("end", bad_end)):
            if role in found:
                if self._is_own(role):
                    np.logical_or(wrong, found[role].missing, out=wrong)
                faults.append((wrong, self._not_a_time(role)))
        self._trace.anomalies.add("interval_without_start", int((start.missing & ~bad_start).sum()))
        ends = end.time_ns
        is_open = end.missing & ~start.missing & ~bad_start & ~bad_end
        if is_open.any():
            self._trace.anomalies.add("interval_without_end", int(is_open.sum()))
            sound = ~(bad_start | bad_end)
            known_ns = [start.time_ns[sound & ~start.missing], ends[sound & ~end.missing]]
            last_ns = max(int(each.max()) for each in known_ns if len(each))
            ends = np.where(is_open, last_ns, ends)
        order = (ends < start.time_ns) & ~start.missing & ~end.missing
        rows = self._good(
            *faults,
            (bad_start | bad_end, self._not_a_time("duration" if lasted is not None else "start")),
            (order, self._wrong_order()),
        )
        used = _where(rows, ~_taken(start.missing, rows))
        self._trace.records -= len(rows) - len(used)
        return start.time_ns, ends, used

    def _durations(self, found: Mapping[str, Resolved], entity: Int32s) -> Resolved:
        """Return the lengths of intervals, in a unit that something decides.

        Args:
            found: The starts, or the ends.
            entity: The entity of each row.

        Raises:
            InputError: If nothing decides the unit.
        """
        columns, units = self._mapping.columns, self._mapping.units
        [(role, known), *others] = found.items()
        durations = self._column(columns["duration"][0])
        if others or "duration" in units or not has_numbers(durations):
            return self._durations_of("duration", units.get("duration", "s"))
        if role in self._named:
            decided = Unit(self._named[role], f"as {columns[role][0]}")
        elif self._is_perfetto():
            decided = _PERFETTO
        else:
            decided = duration_unit(
                durations,
                known,
                entity,
                known.number_unit or None,
                is_end=role == "end",
                is_sequential=self._is_sequential(),
            )
        if decided.unit is None:
            raise self._unknown_unit(("duration",), decided)
        self._decide({"duration": decided.unit})
        lasted = self._durations_of("duration", decided.unit)
        self._trace.facts["durations"] = f"{lasted.unit} ({decided.reason})"
        return lasted

    def _unit_of(self, roles: Sequence[str], entity: Int32s | None) -> Unit:
        """Return the unit of times that are numbers, in which something decides.

        Args:
            roles: The roles of all times of a row.
            entity: The entity of each row, if rows are intervals.
        """
        columns, units = self._mapping.columns, self._mapping.units
        named = next((role for role in roles if role in units), None)
        if named is not None:
            return Unit(units[named], f"as {columns[named][0]}")
        if self._is_perfetto():
            return _PERFETTO
        times = [self._column(columns[role][0]) for role in roles]
        date = date_or_uptime(times, [columns[role][0] for role in roles])
        if date.unit is not None or entity is None or "duration" not in columns or len(roles) > 1:
            return date
        durations = self._column(columns["duration"][0])
        is_number = has_numbers(durations)
        if is_number and "duration" not in units:
            return date
        return start_unit(
            times[0],
            self._durations_of("duration", units.get("duration", "s")),
            entity,
            units["duration"] if is_number else None,
            is_end=roles == ("end",),
            is_sequential=self._is_sequential(),
            undecided=date if date.is_either else None,
        )

    def _unknown_unit(self, roles: Sequence[str], decided: Unit) -> InputError:
        """Return the error about numbers whose unit nothing decides."""
        import shlex  # noqa: PLC0415 - only for this message

        columns, units = self._mapping.columns, self._mapping.units
        copied = replace(
            self._mapping, units={**units, **dict.fromkeys(roles, decided.possible[0])}
        ).text
        names = " and ".join(columns[role][0] for role in roles)
        return InputError(
            self._trace.source,
            f"the unit of {names} is not known ({decided.reason}): choose {decided.choices}, as in"
            f" --columns {shlex.quote(copied)}",
        )

    def _is_sequential(self) -> bool:
        """Whether an entity is of a kind that does one thing at a time."""
        return any(
            _SEQUENTIAL.search(name.lower()) for name in self._mapping.columns.get("entity", ())
        )

    def _is_perfetto(self) -> bool:
        """Whether times and durations are Perfetto's, by their names, and whole numbers."""
        mapping = self._mapping
        return (
            [mapping.column("start"), mapping.column("duration")] == ["ts", "dur"]
            and mapping.units.get("start", "ns") == "ns"
            and all(
                bool(np.isin(self._column(name).kinds, (TimeKind.INTEGER, MISSING)).all())
                for name in ("ts", "dur")
            )
        )

    def _column(self, name: str) -> TimeColumn:
        """Return a column of times."""
        parts = self._times.get(name)
        column = joined(parts or [TimeColumn(np.empty(0, np.int64), np.empty(0, np.uint8))])
        # a column may have two roles
        self._times[name] = [column]
        return column

    def _wrong_order(self) -> str:
        columns = self._mapping.columns
        if "start" in columns and "end" in columns:
            return f"its {columns['end'][0]} is before its {columns['start'][0]}"
        return f"its {columns['duration'][0]} is negative"

    def _is_own(self, role: str) -> bool:
        return self._mapping.units.get(role) == "ns!"

    def _not_a_time(self, role: str) -> str:
        name = self._mapping.columns[role][0]
        if self._is_own(role):
            return f"its {name} is not an integer of nanoseconds that fits into 64 bits"
        if role == "duration":
            return f"its {name} is not a length of time, such as 90, 1.5s or 1-02:00:00"
        return f"its {name} is not a time between 1678 and 2262: a number, or a date as in ISO 8601"

    def _durations_of(self, role: str, unit: str) -> Resolved:
        """Return a column of durations; `unit` is that of its numbers."""
        column = self._column(self._mapping.columns[role][0])
        [found] = resolve([column], [unit], self._mapping.zone, is_duration=True)
        return found

    def _times_of(self, *roles: str, entity: Int32s | None = None) -> list[Resolved]:
        """Return columns of times.

        Args:
            roles: Their roles: all that a row has.
            entity: The entity of each row, if rows are intervals.

        Raises:
            InputError: If nothing decides the unit of numbers.
        """
        columns = [self._column(self._mapping.columns[role][0]) for role in roles]
        unknown = [
            role
            for role, column in zip(roles, columns, strict=True)
            if role not in self._mapping.units and has_numbers(column)
        ]
        reason = ""
        if unknown:
            decided = self._unit_of(roles, entity)
            if decided.unit is None:
                raise self._unknown_unit(unknown, decided)
            self._decide(dict.fromkeys(unknown, decided.unit))
            reason = f" ({decided.reason})" if decided.reason else ""
        mapping = self._mapping
        # the unit of a column without numbers makes no difference
        found = resolve(columns, [mapping.units.get(role, "s") for role in roles], mapping.zone)
        is_date = any(
            bool(((each.kinds == TimeKind.ZONED) | (each.kinds == TimeKind.NAIVE)).any())
            for each in columns
        )
        if is_date:
            self._trace.clock = UTC
        if not self._is_own(roles[0]):
            texts = [
                each.unit + (reason if role in unknown else "")
                for role, each in zip(roles, found, strict=True)
                if each.unit
            ]
            self._trace.facts["times"] = "; ".join(dict.fromkeys(texts))
        return found

    def _decide(self, units: Mapping[str, str]) -> None:
        """Set the units of roles that have none yet."""
        self._mapping = replace(self._mapping, units={**units, **self._mapping.units})
        if self._mapping.is_guess:
            self._trace.facts[GUESSED] = self._mapping.text

    def _text(self, role: str) -> Coded:
        name = self._mapping.column(role)
        if name is None:
            return Coded(np.zeros(self._rows, np.int32), [_ACTIVE])
        texts = self._texts.get(name)
        return Coded(np.empty(0, np.int32), []) if texts is None else texts.column()

    def _entities(self) -> Coded:
        """Return what has the states; several columns are joined by a line feed."""
        columns = self._mapping.columns
        if "path" in columns:
            return self._text("path")
        names = columns.get("entity", ())
        if not names:
            return Coded(np.zeros(self._rows, np.int32), [_ALL])
        if len(names) == 1:
            return self._text("entity")
        joint: Coded | None = None
        for name in names:
            texts = self._texts.get(name)
            column = texts.column() if texts else Coded(np.empty(0, np.int32), [])
            self._texts.pop(name, None)
            if joint is None:
                joint = column
                continue
            both = joint.codes.astype(np.int64) * max(len(column.names), 1) + column.codes
            used, codes = np.unique(both, return_inverse=True)
            pairs = [divmod(each, max(len(column.names), 1)) for each in used.tolist()]
            joint = Coded(
                codes.astype(np.int32),
                [f"{joint.names[a]}\n{column.names[b]}" for a, b in pairs],
            )
        assert joint is not None
        return joint

    def _path_codes(self, codes: Int32s, names: Sequence[str], rows: Int64s) -> Int32s:
        """Return the paths of entities, each in one of these rows."""
        used, first, which = _appearing(codes, names)
        is_path = "path" in self._mapping.columns
        several = len(self._mapping.columns.get("entity", ())) > 1
        paths: list[Path] = []
        for code, row in zip(used, rows[first].tolist(), strict=True):
            text = names[code]
            if is_path:
                paths.append(self._parsed(text, row))
            else:
                elements = text.split("\n") if several else [text]
                paths.append(tuple(each or _NO_TEXT for each in elements))
        return self._paths.codes(paths).take(which)

    def _codes(self, codes: Int32s, names: Sequence[str]) -> Int32s:
        """Return values by their codes in another table."""
        used, _, which = _appearing(codes, names)
        codes = self._values.codes([names[code] for code in used])
        return codes.take(which) if len(used) else np.empty(0, np.int32)

    def _nothing(self) -> int:
        values = self._trace.values
        return values.index(_NO_TEXT) if _NO_TEXT in values else -1

    def _changes(self, starts: Int64s, ends: Int64s, path: Int32s, value: Int32s) -> StateChanges:
        """Return the changes of intervals, in order of time.

        Raises:
            InputError: If there are too many.
        """
        if len(starts) > _MOST_ROWS:
            raise InputError(
                self._trace.source, f"the table has more than {_MOST_ROWS:,} intervals: split it"
            )
        found = changes(starts, ends, path, value, len(self._trace.paths))
        if found == -1:
            order = np.lexsort((ends, starts, path))
            starts, ends, path, value = starts[order], ends[order], path[order], value[order]
            del order
            found = changes(starts, ends, path, value, len(self._trace.paths))
        if isinstance(found, int) and self._ends_are_sums:
            ends, rounded = _without_rounding(starts, ends, path, len(self._trace.paths))
            self._trace.anomalies.add("rounded_overlap", rounded)
            found = changes(starts, ends, path, value, len(self._trace.paths))
        if isinstance(found, int):
            self._trace.anomalies.add("repeated_row", _repeated(starts, ends, path, value))
            path = self._in_lanes(path, *first_fit(starts, ends, path, len(self._trace.paths)))
            found = changes(starts, ends, path, value, len(self._trace.paths))
        assert not isinstance(found, int)
        time_ns, entity, state = found
        tag = np.full(len(time_ns), -1, np.int32)
        return StateChanges(time_ns, entity, state, tag)

    def _in_lanes(self, path: Int32s, lane: Int32s, lanes: Int32s) -> Int32s:
        """Return the path of each interval in its lane; an entity with one lane keeps its own.

        Args:
            path: The path of each interval.
            lane: The lane of each interval.
            lanes: By path, how many lanes there are.
        """
        several = np.flatnonzero(lanes > 1)
        first = np.arange(len(lanes), dtype=np.int32)
        code = len(self._trace.paths)
        taken = set(self._trace.paths)
        for entity in several.tolist():
            own, count = self._trace.paths[entity], int(lanes[entity])
            digits = len(str(count))
            label = "lane"
            while (*own, f"{label} {1:0{digits}}") in taken:
                label += " "
            paths = [(*own, f"{label} {number:0{digits}}") for number in range(1, count + 1)]
            first[entity] = code
            code += count
            self._trace.paths += paths
        self._trace.facts["lanes"] = (
            f"{len(several):,} entities have intervals that overlap, in up to"
            f" {int(lanes.max()):,} lanes"
        )
        # the only lane of an entity is 0
        return first.take(path) + lane

    def _good(self, *faults: tuple[npt.NDArray[np.bool_], str]) -> Int64s:
        """Return the rows without faults; each fault is a mask of rows and its reason.

        Raises:
            InputError: If a row has a fault, unless reading is lenient.
        """
        bad = np.logical_or.reduce([rows for rows, _ in faults])
        wrong = np.flatnonzero(bad)
        if len(wrong) and not self._lenient:
            row = int(wrong[0])
            reason = next(reason for rows, reason in faults if rows[row])
            raise InputError(self._trace.source, f"row {row + 1}: {reason}")
        # a row is used or counted, not both
        self._trace.records -= len(wrong)
        self._trace.anomalies.add("bad_record", len(wrong))
        return np.flatnonzero(~bad) if len(wrong) else np.arange(len(bad))

    def _kept(self, rows: Int64s, times: Int64s, names: Coded) -> Int64s:
        """Return the rows that are not after the last wanted time, and whose names are wanted."""
        rows = _where(rows, _taken(times, rows) <= self._until_ns)
        if self._keep is None:
            return rows
        used, _, which = _appearing(_taken(names.codes, rows), names.names)
        kept = np.array([self._keep(names.names[code]) for code in used], np.bool_)
        return rows[kept[which]]

    def _count_order(
        self, rows: Int64s, names: Coded, *times: Int64s, are_threads: bool = True
    ) -> None:
        """Count rows that are in the wrong place."""
        own = [_taken(each, rows) for each in times]
        group = _taken(names.codes, rows)
        count_order_of(self._trace, own, group, len(names.names), are_threads=are_threads)

    def _repeated(self, rows: Int64s, time_ns: Int64s) -> int:
        """Return how many rows are equal to the one before.

        Of those at a whole millisecond some may well be equal: they do not count.
        """
        times = _taken(time_ns, rows)
        later = np.flatnonzero(times[1:] == times[:-1]) + 1
        later = later[times[later] % 10**6 != 0]
        for name in self._times:
            values = self._column(name).values
            later = later[values[rows[later]] == values[rows[later - 1]]]
        for texts in self._texts.values():
            codes = texts.column().codes
            later = later[codes[rows[later]] == codes[rows[later - 1]]]
        return len(later)

    def _parsed(self, text: str, row: int) -> tuple[str, ...]:
        try:
            elements = parse_pattern(text)
        except UsageError as error:
            raise InputError(self._trace.source, f"row {row + 1}: {error}") from None
        if not elements or not all(isinstance(element, str) for element in elements):
            raise InputError(self._trace.source, f"row {row + 1}: {text!r} is not a path")
        return tuple(str(element) for element in elements)


def _outside(times: Resolved) -> npt.NDArray[np.bool_]:
    """Return the rows whose time a history cannot contain."""
    values = times.time_ns
    if not len(values) or (int(values.min()) > -_LIMIT - 1 and int(values.max()) < _LIMIT - 1):
        return np.zeros(len(values), np.bool_)
    return (values <= -_LIMIT - 1) | (values >= _LIMIT - 1)


def _taken(column: npt.NDArray[_Item], rows: Int64s) -> npt.NDArray[_Item]:
    """Return what a column has in these ascending rows: the column itself if they are all."""
    return column if len(rows) == len(column) else column.take(rows)


def _where(rows: Int64s, kept: npt.NDArray[np.bool_]) -> Int64s:
    return rows if kept.all() else rows[kept]


def _appearing(codes: Int32s, names: Sequence[str]) -> tuple[list[int], Int64s, Int32s]:
    """Return which codes occur, in order of first appearance.

    Returns:
        These codes; the first row of each; and for each row which of them it has.
    """
    used, first, which = appearing(codes, len(names))
    return used.tolist(), first, which


def _without_rounding(
    starts: Int64s, ends: Int64s, path: Int32s, path_count: int
) -> tuple[Int64s, int]:
    """Return ends that rounding does not move past the next start, and how many were moved back.

    A start and a duration that were rounded add up to an end that may be as far past the next start
    as the last digits of both. Entities with any other overlap are left as they are.

    Args:
        starts: When each interval starts, in order for each path.
        ends: Each start plus a duration.
        path: The path of each.
        path_count: How many paths there are.
    """
    order = np.argsort(path, kind="stable")
    start, end, own = starts[order], ends[order], path[order]
    past = end[:-1] - start[1:]
    overlaps = (own[1:] == own[:-1]) & (past > 0)
    rounding_ns = _last_digit(start) + _last_digit(end - start) // 2
    rounded = overlaps & (past <= rounding_ns) & (start[1:] > start[:-1]) & (end[1:] >= end[:-1])
    is_other = np.zeros(path_count, np.bool_)
    is_other[own[1:][overlaps & ~rounded]] = True
    row = np.flatnonzero(rounded & ~is_other[own[1:]])
    moved = ends.copy()
    moved[order[row]] = start[row + 1]
    return moved, len(row)


def _last_digit(times_ns: Int64s) -> int:
    """Return the largest power of ten that divides all times, up to a millisecond."""
    step = 1
    while step < _MOST_ROUNDED_NS and not (times_ns % (step * 10)).any():
        step *= 10
    return step


def _repeated(starts: Int64s, ends: Int64s, path: Int32s, value: Int32s) -> int:
    """Return how many intervals are equal to another one before them."""
    same = starts[1:] == starts[:-1]
    if not (starts[1:] < starts[:-1]).any():
        # most tables are in order of their starts, of which few are equal
        rows = np.flatnonzero(np.append(same, False) | np.append(False, same))
    else:
        rows = np.arange(len(starts))
    if not len(rows):
        return 0
    found = [column[rows] for column in (value, ends, starts, path)]
    order = np.lexsort(found)
    same = np.ones(len(order) - 1, np.bool_)
    for column in found:
        same &= column[order][1:] == column[order][:-1]
    return int(np.count_nonzero(same))
