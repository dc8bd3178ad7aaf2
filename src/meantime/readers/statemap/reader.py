"""Reads a statemap: runs the scanner, and handles what is rare."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.kernels.scan_statemap import DEFINITION, Scanner, Stop
from meantime.model.attribute_paths import VALUE
from meantime.model.clocks import Clock
from meantime.model.columns import Interner
from meantime.model.extent import Extent
from meantime.model.trace import LaneDeclaration, Points, StateChanges, Trace
from meantime.model.units import format_ns
from meantime.readers.source import open_source
from meantime.readers.statemap.metadata import (
    IllegalError,
    Metadata,
    decode,
    is_metadata,
)
from meantime.readers.statemap.reasons import (
    fields_of,
    why_no_record,
    why_order,
    why_state,
    why_time,
)
from meantime.readers.window import BLOCK_BYTES, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, State
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["Reader", "reader_for"]

BATCH_ROWS = 1 << 16
_DECODER = json.JSONDecoder()
# By the kind of entities and the states that tokio-statemap writes, the state of what has ended: it
# does not exist any more, and has none.
_ENDED = {
    ("Task", frozenset(("spawned", "running", "waiting", "completed"))): "completed",
    ("Worker", frozenset(("running", "parked", "stopped"))): "stopped",
}
# Where a payload may begin after broken JSON: an object at the beginning of a line, or a bracket
# directly after the end of an array or object, which inside JSON needs a comma. After broken text
# outside of brackets: any object or array.
_NEXT_PAYLOAD = rb"\n[ \t\r]*\{|[}\]][ \t\r\n]*[{\[]"
_ANY_PAYLOAD = rb"[{\[]"


def reader_for(source: Source, options: ReadOptions) -> Reader:
    """Return a reader for a source."""
    window = Window(source, block_bytes=BLOCK_BYTES, progress=options.progress)
    return Reader(window, options)


class Reader:
    """Reads the input of a window into one trace.

    Attributes:
        trace: The trace; it grows while its batches are consumed.

    With `forgives`, lenient reading does without what it does not know of metadata.
    """

    def __init__(
        self,
        window: Window,
        options: ReadOptions,
        *,
        ahead: bool = False,
        given: dict[str, Any] | None = None,
        forgives: bool = True,
    ) -> None:
        self.trace: Trace = Trace(window.source.name, "statemap", self._batches())
        self._window = window
        self._options = options
        self._ahead = ahead
        self._metadata = Metadata(given, lenient=options.lenient and forgives)
        self._states: tuple[State, ...] = ()
        # of what has ended; -1 if entities do not end, None before that is known
        self._ended: int | None = None
        self._ends = 0
        self._scanner = self._new_scanner(None)
        if ahead:
            self._scanner.define_states(None)
        self._weighed = False
        # The trace's codes by the scanner's; for entities only if some are left out.
        self._path_codes: list[int] = []
        self._event_codes: list[int] = []
        self._values = Interner(self.trace.values)
        # The line of the first metadata that lenient reading skipped, and the reason.
        self._skipped_metadata: tuple[int, str] | None = None
        # What the first record that lenient reading skipped was, and its line.
        self._first_skipped = ""
        # Of all events, since the last datum may be earlier than data before it.
        self._point_times: list[Int64s] = []

    def _new_scanner(self, range_ns: tuple[int, int] | None) -> Scanner:
        return Scanner(
            room=BATCH_ROWS,
            until_ns=self._options.until_ns,
            asks=self._options.keep is not None,
            late=range_ns is None,
            range_ns=range_ns,
        )

    def _batches(self) -> Iterator[Batch]:
        with self._window.source:
            yield from self._in_order()
            if reason := self._metadata.missing:
                raise InputError(self._window.source.name, reason + self._why_missing())
            if self._first_skipped and not self._scanner.records:
                raise InputError(
                    self._window.source.name,
                    f"all of its records were skipped; the first is {self._first_skipped}",
                )
            self._finish()

    def _in_order(self) -> Iterator[Batch]:
        """Yield the batches: at the end, in order of time, if some changes are late.

        Strict reading goes on as it reads when none of the first batch is; later ones are refused.
        """
        held: list[Batch] = []
        batches = self._read()
        for batch in batches:
            if not (self._options.lenient or self._scanner.late[0]):
                self._scanner.refuse_late()
                yield batch
                yield from batches
                return
            # the scanner uses its memory again
            if isinstance(batch, StateChanges):
                value = batch.magnitude
                held.append(
                    StateChanges(
                        batch.time_ns.copy(),
                        batch.entity.copy(),
                        batch.state.copy(),
                        batch.tag.copy(),
                        None if value is None else value.copy(),
                    )
                )
            elif isinstance(batch, Points):
                held.append(
                    Points(
                        batch.time_ns.copy(),
                        batch.entity.copy(),
                        batch.name,
                        batch.target.copy(),
                    )
                )
            else:
                held.append(batch)
        late, most_ns = self._scanner.late
        if not late:
            yield from held
            return
        self.trace.anomalies.add("sorted_record", late)
        self.trace.facts["latest record"] = f"{format_ns(most_ns)} late"
        yield from _sorted([each for each in held if isinstance(each, StateChanges)])
        yield from (each for each in held if not isinstance(each, StateChanges))

    def _read(self) -> Iterator[Batch]:
        """Yield the batches; a reader that looks ahead stops at the states."""
        window = self._window
        window.more()
        while not (self._ahead and self._states):
            stop = self._scan()
            self._take_names()
            match stop:
                case Stop.FULL | Stop.RANGE_BEGINS:
                    yield from self._take_batches(release=stop == Stop.RANGE_BEGINS)
                case Stop.DRAINED | Stop.CUT:
                    if not window.more():
                        if stop == Stop.CUT or window.source.truncated:
                            self.trace.anomalies.add("truncated")
                        break
                case Stop.NEW_ENTITY:
                    assert self._options.keep is not None
                    self._scanner.admit(keep=self._options.keep(self._scanner.asked))
                case Stop.NO_STATES:
                    self._take_states(self._look_ahead())
                case Stop.INVALID:
                    self._refuse(self._why_invalid)
                    self._resynchronise()
                case _:
                    self._take_odd(stop)
        yield from self._take_batches(release=True)

    def _scan(self) -> int:
        """Scan the window, advance its start, and return a `Stop`."""
        stop = self._scanner.scan(self._window.block, self._window.start, self._window.end)
        self._window.start = self._scanner.start
        return stop

    def _look_ahead(self) -> tuple[State, ...]:
        """Return the states, which are defined after the first data."""
        path = self._window.source.path
        # A file is opened a second time. A pipe cannot be, so everything up to the states stays in
        # memory and is then scanned again.
        if path is not None:
            with open_source(path) as source:
                return Reader(Window(source), self._options, ahead=True).find_states()
        self._window.mark()
        ahead = Reader(self._window, self._options, ahead=True, given=self._metadata.given)
        states = ahead.find_states()
        self._window.rewind()
        return states

    def find_states(self) -> tuple[State, ...]:
        """Return the states, for a reader that looks ahead."""
        for _ in self._read():
            pass
        if not self._states:
            reason = self._metadata.missing or "no states"
            raise InputError(self._window.source.name, reason + self._why_missing())
        return self._states

    def _why_missing(self) -> str:
        """Return a possible cause of missing metadata."""
        if self._skipped_metadata is not None:
            line, reason = self._skipped_metadata
            return f"; --lenient skipped line {line}: {reason}"
        if "truncated" in self.trace.anomalies:
            return "; the input is truncated"
        return ""

    def _take_odd(self, stop: int) -> None:
        """Handle the payload that the scanner stopped at: read metadata, refuse anything else."""
        window, scanner = self._window, self._scanner
        # data of entities that are left out are not checked: register a new one, and scan again
        if stop == Stop.BAD_STATE and self._drops(scanner.asked):
            return
        try:
            if stop == Stop.OTHER and is_metadata(self._payload()):
                self._metadata.add(self._payload())
                self._take_states(self._metadata.states)
            else:
                self._refuse(lambda: f"illegal datum: {self._why(stop)}")
        except IllegalError as error:
            reason = str(error)
            if self._options.lenient and self._skipped_metadata is None:
                self._skipped_metadata = window.line(window.start), reason
            self._refuse(lambda: reason)
        window.start = scanner.end

    def _payload(self) -> Any:
        return decode(self._window.block[self._window.start : self._scanner.end].decode())

    def _drops(self, entity: str) -> bool:
        """Return whether a new entity is left out, and if so register it."""
        keep = self._options.keep
        if keep is None or self._scanner.prior_ns(entity) is not None or keep(entity):
            return False
        self._scanner.admit(keep=False)
        return True

    def _take_states(self, states: tuple[State, ...] | None) -> None:
        if states and not self._states:
            self._states = states
            names = [state.name for state in states]
            self._begin_range()
            self._scanner.define_states(None if self._ahead else names)
            self.trace.values.extend(names)
            self._values = Interner(self.trace.values)

    def _begin_range(self) -> None:
        """Leave out what is not in the range from now on, unless something was read before."""
        if self._ahead or self._scanner.records:
            return
        clock = Clock(utc_at_origin_ns=self._metadata.start_ns)
        range_ns = self._options.range_in(Extent(0, 0, clock))
        # what comes late may be before the range
        if range_ns is not None and not self._options.lenient:
            self.trace.range_ns = range_ns
            self._scanner = self._new_scanner(range_ns)

    def _refuse(self, why: Callable[[], str]) -> None:
        """Raise for the payload at the window's start, or count it."""
        window = self._window
        if not self._options.lenient:
            raise InputError(
                window.source.name,
                why(),
                line=window.line(window.start),
                offset=window.offset(window.start),
            )
        if not self._first_skipped:
            self._first_skipped = f"line {window.line(window.start)}: {why()}"
            self.trace.facts["first skipped record"] = self._first_skipped
        self.trace.anomalies.add("bad_record")

    def _why(self, stop: int) -> str:
        record = self._payload()
        match stop:
            case Stop.BAD_STATE:
                return why_state(record, self._states)
            case Stop.BAD_ORDER:
                return why_order(record, self._scanner.prior_ns(fields_of(record)["entity"]) or 0)
            case Stop.BAD_TIME:
                return why_time(record)
        return why_no_record(record)

    def _why_invalid(self) -> str:
        window, index = self._window, self._scanner.end
        found = bytes(window.block[index : min(index + 4, window.end)]).decode(errors="replace")[0]
        what = f"byte 0x{window.block[index]:02x}" if found == "\ufffd" else repr(found)
        return (
            f"illegal datum: invalid JSON: {self._scanner.fault}, found {what} "
            f"(line {window.line(index)}, column {window.column(index)})"
        )

    def _resynchronise(self) -> None:
        """After broken JSON, skip to the next possible beginning of a payload; count the bytes."""
        window = self._window
        begin = window.offset(window.start)
        inside = window.block[window.start] in b"{["
        pattern = re.compile(_NEXT_PAYLOAD if inside else _ANY_PAYLOAD)
        window.start += 1
        while not (match := pattern.search(window.block, window.start, window.end)):
            # The pattern may begin in the last bytes: a closing bracket, and blanks after it.
            rest = window.block[window.start : window.end].rstrip(b" \t\r\n")
            window.start += max(len(rest) - 1, 0)
            if not window.more():
                window.start = window.end
                break
        else:
            window.start = match.end() - 1
        self.trace.anomalies.add("skipped_bytes", window.offset(window.start) - begin)

    # From the scanner's codes to the trace's

    def _take_names(self) -> None:
        """Add new names, tags and descriptions to the trace's tables."""
        trace, scanner = self.trace, self._scanner
        if self._options.keep is None:
            trace.paths.extend((name,) for name in scanner.entities(len(trace.paths)))
        else:
            for name in scanner.entities(len(self._path_codes)):
                kept = scanner.keeps(len(self._path_codes))
                self._path_codes.append(len(trace.paths) if kept else -1)
                if kept:
                    trace.paths.append((name,))
        for name in scanner.events(len(self._event_codes)):
            self._event_codes.append(self._values.code(name))
        for state, tag in scanner.tags(len(trace.tags)):
            trace.tags.append({"state": state, "tag": tag})
        # notes refer to the block by offset, so they are read before the window moves
        for kind, code, start, end in scanner.take_notes():
            payload, _ = _DECODER.raw_decode(self._window.block[start:end].decode())
            if kind == DEFINITION:
                trace.tags[code] = payload
            else:
                text = payload["description"] if isinstance(payload, dict) else payload[1]
                trace.descriptions[self._path_code(code)] = text

    def _take_batches(self, *, release: bool = False) -> Iterator[Batch]:
        """Yield what was read, and with `release` the changes that wait because of the range."""
        if self._scanner.rows:
            time_ns, entity, state, tag, value = self._scanner.take_changes()
            if value is not None:
                self._weighed = True
            yield self._changes(time_ns, self._paths_of(entity), state, tag, value)
        if self._scanner.points:
            time_ns, entity, event, target = self._scanner.take_points()
            names = np.array(self._event_codes, np.int32)
            self._point_times.append(time_ns.copy())
            yield Points(time_ns, self._paths_of(entity), names[event], self._paths_of(target))
        while release:
            release = not self._scanner.release()
            if self._scanner.rows:
                time_ns, entity, state, tag, _ = self._scanner.take_changes()
                rows = np.argsort(time_ns, kind="stable")  # a history sorts those that are not
                paths = self._paths_of(entity[rows])
                yield self._changes(time_ns[rows], paths, state[rows], tag[rows])

    def _changes(
        self,
        time_ns: Int64s,
        entity: Int32s,
        state: Int32s,
        tag: Int32s,
        value: npt.NDArray[np.float64] | None = None,
    ) -> StateChanges:
        """Return changes of state; what has ended has none from then on."""
        if self._ended is None:
            names = [each.name for each in self._states]
            name = _ENDED.get((self._metadata.text("entityKind") or "", frozenset(names)))
            self._ended = -1 if name is None else names.index(name)
        if self._ended >= 0:
            has_ended = state == self._ended
            self._ends += int(np.count_nonzero(has_ended))
            state, tag = (
                np.where(has_ended, np.int32(-1), codes).astype(np.int32) for codes in (state, tag)
            )
        return StateChanges(time_ns, entity, state, tag, value)

    def _path_code(self, entity: int) -> int:
        return entity if self._options.keep is None else self._path_codes[entity]

    def _paths_of(self, entity: Int32s) -> Int32s:
        if self._options.keep is None:
            return entity
        # the last item is for index -1: an event without a target
        return np.array([*self._path_codes, -1], np.int32)[entity]

    def _finish(self) -> None:
        trace, scanner, metadata = self.trace, self._scanner, self._metadata
        trace.records = scanner.records
        trace.title = metadata.text("title")
        trace.clock = Clock(host=metadata.text("host"), utc_at_origin_ns=metadata.start_ns)
        if scanner.last_ns is not None:
            trace.bounds = (0, scanner.last_ns)
            # the last datum, from which on events are too late, is only known at the end
            late = sum(np.count_nonzero(each >= scanner.last_ns) for each in self._point_times)
            trace.anomalies.add("event_after_end", int(late))
            trace.ends = {
                self._path_code(code): time_ns for code, time_ns in scanner.beyond().items()
            }
            trace.anomalies.add("state_after_end", len(trace.ends))
        if metadata.ignored:
            trace.anomalies.add("ignored_metadata", len(metadata.ignored))
            trace.facts["ignored"] = ", ".join(metadata.ignored)
        if self._ends:
            assert self._ended is not None
            trace.facts[self._states[self._ended].name] = f"{self._ends:,}"
        kind = metadata.text("entityKind")
        trace.lanes.append(LaneDeclaration("*", entity_kind=kind, states=self._states))
        if self._weighed:
            trace.lanes.append(LaneDeclaration(f"*/{VALUE}", kind="counter", entity_kind=kind))
        trace.left_out = {
            self._path_code(code): counts for code, counts in scanner.left_out().items()
        }
        trace.anomalies.add("zero_length_state", scanner.replaced)
        trace.anomalies.add("event_without_time", scanner.untimed)
        trace.anomalies.add("definition_with_time", scanner.twofold)


def _sorted(changes: Sequence[StateChanges]) -> Iterator[StateChanges]:
    """Yield changes in order of time, those of one time in the order of the file."""
    time_ns = np.concatenate([each.time_ns for each in changes])
    entity, state, tag = (
        np.concatenate([getattr(each, name) for each in changes])
        for name in ("entity", "state", "tag")
    )
    value = None
    if any(each.magnitude is not None for each in changes):
        value = np.concatenate(
            [
                np.full(len(each.time_ns), np.nan) if each.magnitude is None else each.magnitude
                for each in changes
            ]
        )
    order = np.argsort(time_ns, kind="stable")
    for first in range(0, len(order), BATCH_ROWS):
        rows = order[first : first + BATCH_ROWS]
        values = None if value is None else value[rows]
        yield StateChanges(time_ns[rows], entity[rows], state[rows], tag[rows], values)
