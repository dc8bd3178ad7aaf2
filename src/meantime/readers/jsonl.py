"""JSON Lines: an event per line with `time_ns` or `ts`, `name`, and any other fields.

Times are whole nanoseconds. `cpu`, `pid` and `tid` locate the event; all other members are fields.
Other logs have the time and the name in other fields: `log_fields` decides in which. Lines that
have a start and an end are a table.
Fields keep their types; nested values, and integers beyond 64 bits, become text. Events out of
order are sorted, unless they are more than 2^15 events late. Well-formed lines are read by
`EventRows`, all others one at a time by `json`, which is lenient in the same way on every line, and
says what is wrong.
"""

from __future__ import annotations

import json
from dataclasses import replace
from json.scanner import make_scanner
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.errors import InputError
from meantime.kernels.event_rows import EventRows, Stop
from meantime.model.clocks import naive_dates
from meantime.model.column_mapping import UNITS_NS, ColumnMapping, halves
from meantime.model.columns import Interner
from meantime.model.events import Events
from meantime.model.input_path import GUESSED
from meantime.readers.contract import lazy_trace
from meantime.readers.evidence import Head
from meantime.readers.known_logs import known_log
from meantime.readers.line_order import Steps, ThreadOrder, count_order
from meantime.readers.log_fields import LogFields, is_event, log_fields, time_ns_of, value_of
from meantime.readers.log_pairs import paired
from meantime.readers.table import batches_of_records
from meantime.readers.table.guess import example_of, guess
from meantime.readers.table.records import flattened, nested
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "batches_of", "read", "recognises"]

FORMAT = "jsonl"
TEXT = True

_BATCH_EVENTS = 2**15
# An event may come after so many later ones.
_LATE_EVENTS = 2**15
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_SNIFFED_LINES = 8
_LONGEST_SHOWN = 60
_NESTED = {dict, list}

# The C part of `JSONDecoder.raw_decode`: called directly, it saves a Python call per line.
_Fields: TypeAlias = tuple[int, str, dict[str, Any], "int | None", "int | None", "int | None"]
_scan = make_scanner(json.JSONDecoder(strict=False))  # type: ignore[arg-type] # typeshed's stub


class _BadLineError(ValueError):
    """What is wrong with a line."""


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with one event per line; the name is a hint."""
    named = Head(head, name).is_named(".jsonl", ".ndjson")
    if named and head.lstrip().startswith(b"{"):
        return True
    lines = [line for line in head.split(b"\n") if line.strip()][:_SNIFFED_LINES]
    if len(lines) > 1 and all(_is_object(line) for line in lines[:2]):
        return True
    for line in lines:
        try:
            members = json.loads(line)
        except (ValueError, RecursionError):
            continue
        # an event with a phase is Chrome's, one per line
        if not isinstance(members, dict) or "ph" in members or "traceEvents" in members:
            return False
        # a single object with nested values is a document, not a log
        is_flat = len(lines) > 1 or not any(type(value) in _NESTED for value in members.values())
        return is_flat and (is_event(members) or _is_interval(members))
    return False


def _is_object(line: bytes) -> bool:
    """Return whether a line is an object other than an event of Chrome."""
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(members, dict) and not {"ph", "traceEvents"} & members.keys()


def _is_interval(members: dict[str, Any]) -> bool:
    mapping = guess([*members]).mapping
    return mapping is not None and bool({"start", "end"} & mapping.columns.keys())


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches are `Events` in order of time. `keep` is ignored.

    Raises:
        InputError: From the batches, if a line is not an event, or too late to be sorted.
    """
    return lazy_trace(source, FORMAT, batches_of, options)


def batches_of(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    """Return the batches of lines of JSON, for other readers that make such lines, too."""
    first = _first(source.head())
    given = options.columns
    if given is None and (found := known_log(source.head())) is not None:
        known, given = found
        options = replace(options, columns=given)
        trace.facts[GUESSED] = given.text
        trace.facts["log"] = known.called
        if known.needs:
            return batches_of_records(source, trace, options, known.needs)
    fields = log_fields(first, given)
    is_table = given is not None and bool({"start", "end", "duration"} & given.columns.keys())
    if is_table or (fields is None and first and _is_interval(first)):
        if given is not None and given.pairs:
            source.close()
            raise InputError(
                source.name, "pairs are of events; columns with a start or an end are not"
            )
        return batches_of_records(source, trace, options)
    if given is not None or (fields is None and first and not options.lenient):
        _check(given or ColumnMapping(), fields, first, source)
    if fields is not None and fields.unit is None:
        source.close()
        raise _unknown_unit(source.name, fields, given)
    reading = _Reading(trace, Window(source, progress=options.progress), options, fields)
    if given is not None and given.pairs:
        return paired(reading.batches(), given, trace, options)
    return reading.batches()


def _first(head: bytes) -> dict[str, Any]:
    """Return the first object of an input; an empty one if there is none near its beginning."""
    for line in head.split(b"\n")[:_SNIFFED_LINES]:
        try:
            members = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(members, dict):
            return flattened(members)
    return {}


def _check(
    given: ColumnMapping, fields: LogFields | None, first: dict[str, Any], source: Source
) -> None:
    """Check that the columns can be those of a log of events.

    Raises:
        InputError: If not.
    """
    named = [given.column(role) for role in ("time", "name")]
    missing = next(
        (
            name
            for name in named
            if name is not None and name not in first and halves(name, first) is None
        ),
        None,
    )
    listed = ", ".join(first)
    if missing is not None and not (given.pairs and missing == named[1]):
        source.close()
        raise InputError(source.name, f"there is no field {missing!r}; the first line has {listed}")
    if fields is None:
        source.close()
        raise InputError(
            source.name,
            f"no field is known to be a time and another one a name; the first line has {listed}:"
            f" name them, as in {example_of([*first])}, or start=NAME,end=NAME,state=NAME",
        )
    unused = given.columns.keys() - {"time", "name", "entity"}
    if not given.pairs:
        unused |= given.columns.keys() & {"entity"}
    if unused:
        source.close()
        raise InputError(
            source.name,
            f"{min(unused)} does not apply to a log of events; a provider makes states of events",
        )


def _unknown_unit(name: str, fields: LogFields, given: ColumnMapping | None) -> InputError:
    """Return the error about times that are numbers of a unit that nothing shows."""
    import shlex  # noqa: PLC0415 - only for this message

    known = given or ColumnMapping()
    columns = {"time": (fields.time,), **known.columns}
    if not known.pairs:
        columns.setdefault("name", (fields.name,))
    decided = fields.decided
    copied = replace(known, columns=columns, units={**known.units, "time": decided.possible[0]})
    return InputError(
        name,
        f"the unit of {fields.time} is not known ({decided.reason}): choose {decided.choices},"
        f" as in {shlex.join(copied.options)}",
    )


class _Reading:
    """Reads one input into a trace."""

    def __init__(
        self, trace: Trace, window: Window, options: ReadOptions, fields: LogFields | None
    ) -> None:
        self._trace = trace
        self._window = window
        self._options = options
        self._line = 0
        self._read_to = 0
        # When resuming: the last event delivered, and the last line read before.
        self._after = (_INT64_MIN, 0)
        self._known_to = 0
        self._range: tuple[int, int] | None = None
        self._fields = fields = fields or LogFields()
        self._rows = EventRows(
            _BATCH_EVENTS + _LATE_EVENTS,
            fields.time.encode(),
            fields.name.encode(),
            UNITS_NS[fields.unit or "ns"],
            naive=fields.zone in {"", "UTC"},
        )
        if fields.is_guess:
            guessed = {"time": (fields.time,), "name": (fields.name,)}
            units = {"time": fields.unit} if fields.is_number and fields.unit else {}
            trace.facts[GUESSED] = ColumnMapping(guessed, units, fields.zone).text
        if fields.is_naive:
            trace.facts["times"] = naive_dates(fields.zone)
        self._threads: ThreadOrder | None = ThreadOrder()
        self._in_line = 0
        self._names = Interner(trace.values)
        self._name_of = np.empty(0, np.int32)

    def batches(self) -> Iterator[Events]:
        """Yield the events in order of time."""
        rows = self._rows
        try:
            if self._options.position is not None:
                self._go_to(self._options.position)
            for _ in self._full():
                yield self._batch()
            while len(rows):
                yield self._batch()
        finally:
            self._window.source.close()
        trace = self._trace
        trace.anomalies.add("truncated", int(self._window.source.truncated))
        _, back, forward, most_ns, repeated = self._rows.order
        steps = Steps(back, forward, most_ns, self._in_line)
        count_order(trace, steps, None if self._threads is None else self._threads.steps)
        trace.anomalies.add("repeated_line", repeated)
        if self._range is not None:
            trace.bounds = (self._range[0], self._range[1] + 1)

    def _go_to(self, position: Any) -> None:
        """Skip what was read before."""
        window = self._window
        while window.offset(window.end) < position["offset"]:
            window.start = window.end
            if not window.more():
                break
        window.start += position["offset"] - window.offset(window.start)
        self._line = position["line"]
        self._known_to = position["known_to"]
        self._rows.order = tuple(position["order"])
        self._threads = None
        self._after = tuple(position["after"])
        self._range = tuple(position["range_ns"])
        self._trace.records = position["records"]
        for name, count in position["anomalies"].items():
            self._trace.anomalies.add(name, count)

    def _batch(self) -> Events:
        rows = self._rows
        new = [name.decode() for name in rows.names_from(len(self._name_of))]
        self._name_of = np.append(self._name_of, self._names.codes(new))
        columns, self._after, waiting = rows.take(_BATCH_EVENTS, self._name_of)
        times = columns[0]
        first_ns = int(times[0]) if self._range is None else min(self._range[0], int(times[0]))
        self._range = (first_ns, int(times[-1]))
        self._trace.records += len(times)
        if rows.has_naive:
            self._trace.facts["times"] = naive_dates()
        events = Events.of_columns(columns, self._trace.values, self._position(*waiting))
        # while no time went back from one line to the next, none did for a thread
        if self._threads is not None and rows.order[1]:
            self._threads.add(events, rows.lines_taken)
            self._in_line += len(times)
        return events

    def _position(self, line: int, offset: int) -> dict[str, Any]:
        # lines from the earliest that is not delivered yet are read again when resuming
        if not line:
            line, offset = self._line + 1, self._read_to
        return {
            "offset": offset,
            "line": line - 1,
            "known_to": self._line,
            "order": self._rows.order,
            "after": self._after,
            "range_ns": self._range,
            "records": self._trace.records,
            "anomalies": dict(self._trace.anomalies),
        }

    def _full(self) -> Iterator[None]:
        """Read the lines, and yield whenever as many events wait as may."""
        window = self._window
        more = True
        while more:
            more = window.more()
            end = window.end
            if more:
                # only whole lines
                end = window.block.rfind(b"\n", window.start, window.end) + 1 or window.start
            yield from self._scanned(end)

    def _scanned(self, end: int) -> Iterator[None]:
        """Read the lines of the block up to an index."""
        window, rows, options = self._window, self._rows, self._options
        until_ns = _INT64_MAX if options.until_ns is None else options.until_ns
        while window.start < end:
            start = window.start
            stop, window.start = rows.scan(
                window.block,
                start,
                end,
                line=self._line,
                offset=window.offset(start),
                until_ns=until_ns,
                after=self._after,
                known_to=self._known_to,
            )
            self._line, self._read_to = rows.line, window.offset(window.start)
            if stop == Stop.ODD:
                begin = rows.odd_offset - window.offset(0)
                self._put_odd(bytes(memoryview(window.block)[begin : window.start]), until_ns)
            elif stop == Stop.LATE:
                self._refuse_late(rows.late_ns, self._line)
            if len(rows) >= _BATCH_EVENTS + _LATE_EVENTS:
                yield

    def _put_odd(self, stored: bytes, until_ns: int) -> None:
        """Put the event of a line that the scanner leaves to Python, if it is one."""
        line = self._line
        event = self._careful_event(stored, line)
        if event is not None and line > self._known_to:
            self._rows.follow(event[0])
        if event is None or event[0] > until_ns:
            return
        if (event[0], line) > self._after:
            self._rows.put(*event, line, self._rows.odd_offset)
        elif line > self._known_to:
            self._refuse_late(event[0], line)

    def _careful_event(self, stored: bytes, line: int) -> _Fields | None:
        """Return the event of a line; None if it is empty or malformed."""
        text = stored.strip()
        if not text:
            return None
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            decoded = text.decode("utf-8", "replace")
            self._trace.anomalies.add("undecodable_text", int(line > self._known_to))
        try:
            return _event(decoded, self._fields)
        except _BadLineError as error:
            self._refuse(error, line, whole=stored.endswith(b"\n"))
            return None

    def _refuse(self, error: _BadLineError, line: int, *, whole: bool) -> None:
        if line <= self._known_to:
            return
        if not whole:
            self._trace.anomalies.add("truncated")
        elif self._options.lenient:
            self._trace.anomalies.add("bad_record")
        else:
            raise InputError(self._window.source.name, str(error), line=line)

    def _refuse_late(self, time_ns: int, line: int) -> None:
        if not self._options.lenient:
            raise InputError(
                self._window.source.name,
                f"the event at {time_ns} ns is more than {_LATE_EVENTS:,} events late:"
                " sort the lines by time, or skip late events with --lenient",
                line=line,
            )
        self._trace.anomalies.add("late_event")


def _event(line: str, fields: LogFields) -> _Fields:
    """Return the event of a line."""
    members = _members(line)
    if fields.time:
        time_ns, name = _mapped(members, fields)
        return _completed(line, members, time_ns, name)
    key = "time_ns" if "time_ns" in members else "ts"
    time_ns = members.pop(key, None)
    if type(time_ns) is not int or not _INT64_MIN < time_ns < _INT64_MAX - 1:
        time_ns = _time_ns(key, time_ns)
    name = members.pop("name", None)
    if type(name) is not str:
        raise _BadLineError('an event needs "name", a string')
    return _completed(line, members, time_ns, name)


def _mapped(members: dict[str, Any], fields: LogFields) -> tuple[int, str]:
    """Remove and return the time and the name of an event in other fields."""
    value = value_of(members, fields.time)
    for name in halves(fields.time, members) or (fields.time,):
        members.pop(name, None)
    time_ns = time_ns_of(value, fields)
    if time_ns is None or not _INT64_MIN < time_ns < _INT64_MAX - 1:
        raise _BadLineError(f'"{fields.time}" is {_short(value)}: it must be a date or a number')
    name = nested(members, fields.name)
    members.pop(fields.name, None)
    if type(name) is not str:
        raise _BadLineError(f'"{fields.name}" is {_short(name)}: the name of an event is a string')
    return time_ns, name


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _completed(line: str, members: dict[str, Any], time_ns: int, name: str) -> _Fields:
    """Return an event whose time and name were taken out of the members."""
    cpu = _take_id(members, "cpu") if "cpu" in members else None
    pid = _take_id(members, "pid") if "pid" in members else None
    tid = _take_id(members, "tid") if "tid" in members else None
    for field, value in members.items():
        kind = type(value)
        if kind is int:
            if not _INT64_MIN <= value <= _INT64_MAX:
                members[field] = str(value)
        elif kind in _NESTED:
            members[field] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u" in line:
        name, members = _whole(name), {_whole(f): _whole(v) for f, v in members.items()}
    return time_ns, name, members, cpu, pid, tid


def _whole(value: Any) -> Any:
    """Replace lone surrogates by U+FFFD."""
    if type(value) is not str:
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _take_id(members: dict[str, Any], key: str) -> int | None:
    """Remove and return the id in a member; any other value stays a field."""
    number = members.get(key)
    if type(number) is int and 0 <= number <= _INT64_MAX:
        del members[key]
        return number
    return None


def _members(line: str) -> dict[str, Any]:
    try:
        members, end = _scan(line, 0)
    except json.JSONDecodeError as error:
        raise _BadLineError(
            f"the line is not a JSON object: {error.msg} (column {error.pos + 1})"
        ) from None
    except StopIteration as error:
        raise _BadLineError(
            f"the line is not a JSON object: a value is expected (column {error.value + 1})"
        ) from None
    except RecursionError:
        raise _BadLineError("the line is nested too deeply to be an event") from None
    except ValueError as error:
        raise _BadLineError(f"a number has too many digits: {error}") from None
    if not isinstance(members, dict):
        raise _BadLineError("the line is not a JSON object")
    if rest := line[end:].lstrip():
        column = len(line) - len(rest) + 1
        raise _BadLineError(f"unexpected text after the JSON object (column {column})")
    return members


def _time_ns(key: str, time: Any) -> int:
    if time is None and key == "ts":
        raise _BadLineError('an event needs "time_ns" (or "ts"), its time in nanoseconds')
    if type(time) is str and time.removeprefix("-").isdecimal() and len(time) <= 20:
        time = int(time)
    if type(time) is float and time.is_integer() and abs(time) <= 2**53:
        time = int(time)
    if type(time) is not int:
        raise _BadLineError(f'"{key}" is {time!r}: a time is a whole number of nanoseconds')
    if not _INT64_MIN < time < _INT64_MAX - 1:
        raise _BadLineError(f'"{key}" is {time}: it does not fit into 64 bits')
    return time
