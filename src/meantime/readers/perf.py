"""`perf script` text: samples and events with their stacks, in every layout it prints.

The fields before the time depend on how perf was called. The layout is determined from the first
lines with a time; later lines with a time and other fields are counted as anomalies. A thread's
name (the comm) may contain any bytes; those that are not UTF-8 become escapes. Frames are named by
their function, or by `[file]` where it is unknown; addresses and offsets are left out.
`sched:sched_switch` determines the states of threads; with the option `events` the fields of all
tracepoints are read.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.kernels import perf
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import Clock
from meantime.model.columns import Interner, distinct
from meantime.model.stacks import StackTable
from meantime.model.trace import Samples, Trace
from meantime.providers.sched import NO_NAME
from meantime.readers.perf_events import events_of, is_tracepoint
from meantime.readers.switches import Records, batches_of, numbered, separated
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    import numpy.typing as npt

    from meantime.model.attributes import Path
    from meantime.model.clocks import Kind
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.events import Events
    from meantime.model.trace import Batch
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "Reading", "has_ids", "read", "recognises", "text_of"]

FORMAT = "perf"
TEXT = True

BATCH_ROWS = 1 << 15
# Relative times are detected from this number of samples on: fewer may be out of order by chance.
_ENOUGH = 8
_CAPTURED = re.compile(rb"^# captured on", re.MULTILINE)
_SNIFFED_LINES = 50
_LINE_END = ord("\n")
# Of the lines that are looked at, without frames, those that must be samples.
_LEAST = 0.25
# Longer ids do not fit into 64 bits.
_ID_DIGITS = 19

_HEADER = re.compile(
    rb"[ ]*(?:(?P<comm>\S(?:.{0,62}?\S)??)[ \t]+)??"
    rb"(?:(?P<ids>-?\d+(?:/-?\d+)?)[ \t]+)?"
    rb"(?:(?P<cpu>\[\d{3,9}\])[ \t]+)?"
    rb"(?:(?P<misc>[KUHGgMESPp?]+)[ \t]+)?"
    rb"(?:(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+)[ \t]+)?"
    rb"\d{1,10}\.\d{6}(?P<nanos>\d{3})?:(?P<rest>[ \t].*)?",
    re.DOTALL,
)
# printed with --fields that lack `time`; a comm has at most 15 bytes
_TIMELESS = re.compile(rb"\S.{0,14}?[ \t]+-?\d+(?:/-?\d+)?(?:[ \t]+\[\d{3,}\])?[ \t]+\S+:[ \t]*")
_FRAME = re.compile(rb"[ \t]*[0-9a-f]+[ \t]+\S.*")
# no other text has many lines like these
_CLEAR_FRAME = re.compile(rb"(?:[ \t]+[0-9a-f]+|[0-9a-f]{8,16})[ \t]+\S.*")
_FLAGS = {
    "ids": perf.IDS,
    "cpu": perf.CPU,
    "misc": perf.MISC,
    "date": perf.DATE,
    "nanos": perf.NANOS,
}
_CLOCKS: dict[bytes, Kind] = {
    b"realtime": "realtime",
    b"monotonic": "monotonic",
    b"boottime": "boottime",
}


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like `perf script` text.

    Text without times is recognised too, to be rejected with a reason.
    """
    del name
    # perf.data itself is binary
    if b"\0" in head[:4096]:
        return False
    lines = _lines(head, _SNIFFED_LINES)
    # JSON and XML, unless it is a comm such as `[x]`.
    first = lines[0] if lines else b""
    if first.lstrip().startswith((b"{", b"[", b"<")) and not (
        _HEADER.fullmatch(first) or _TIMELESS.fullmatch(first)
    ):
        return False
    return _CAPTURED.search(head, 0, 4096) is not None or _is_mostly_samples(lines)


def read(
    source: Source, options: ReadOptions, *, stacks: bool = True, switches: bool = True
) -> Trace:
    """Return the samples of a `perf script` text, each with the name that its thread had then.

    Times count from the clock's own zero. A thread is `Processes/PID/Threads/TID`, or `Threads/TID`
    where the text has no process ids; `keep` is called with its name. The weight of a sample is its
    period, 1 where there is none. Without `stacks` they are skipped, which is three times as fast.
    With `switches` context switches become states of threads, if the text has CPUs. A line without
    a time belongs to the sample before it, so `lenient` changes nothing.

    Raises:
        InputError: From the batches, if it has no time stamps, relative ones, or no samples.
    """
    trace = Trace(source.name, FORMAT, iter(()))
    window = Window(source, progress=options.progress)
    reading = Reading(trace, window, options)
    trace.batches = reading.batches(with_stacks=stacks, with_switches=switches)
    return trace


class Reading:
    """Reads one text into a trace."""

    called = "perf script text"
    items = "samples"

    def __init__(self, trace: Trace, window: Window, options: ReadOptions) -> None:
        self.trace = trace
        self.source: Source = window.source
        self.window = window
        self._until_ns = options.until_ns
        self.kept: Callable[[str], bool] | None = options.keep
        self._with_events = options.events
        self._with_scheduling = options.scheduling
        self._first_ns = -1
        self._events: Events | None = None
        self.values: Interner[str] = Interner(trace.values)
        # By the kernel's code of a thread: its path, its name, and whether it is kept.
        self._path_of = np.zeros(0, np.int32)
        self._name_of = np.zeros(0, np.int32)
        self._is_kept = np.zeros(0, np.bool_)
        self._event_of = np.zeros(0, np.int32)
        self._called: dict[int, str] = {}
        # by path, the name of each of several threads with one id
        self._names_again: dict[int, str] = {}

    @property
    def is_cut(self) -> bool:
        """Whether the last line has no end: the program that prints it writes whole lines."""
        window = self.window
        return window.end > 0 and window.block[window.end - 1] != _LINE_END

    def batches(self, *, with_stacks: bool, with_switches: bool) -> Iterator[Batch]:
        """Yield a batch for each block of text, then what the events of the scheduler say."""
        trace = self.trace
        try:
            # with events, a provider makes the states of the same sched_switch
            with_switches &= not self._with_events
            # nor do events have stacks
            with_stacks &= not self._with_events
            text = self.scanner(with_stacks=with_stacks, with_switches=with_switches)
            first_ns, last_ns = 2**63 - 1, -1
            for batch in self.samples(text):
                if len(batch.time_ns):
                    first_ns = min(first_ns, int(batch.time_ns.min()))
                    last_ns = max(last_ns, int(batch.time_ns.max()))
                    if not self._with_events:
                        yield batch
                    elif self._events is not None:
                        yield self._events
        finally:
            self.source.close()
        if not trace.records:
            raise InputError(self.source.name, f"this {self.called} has no {self.items}")
        if last_ns >= 0:
            trace.bounds = (first_ns, last_ns + 1)
        if with_switches:
            yield from self._derived(text, last_ns)
        if self._with_events:
            # The provider that makes states of the events creates the threads.
            trace.names.clear()
        parent, frame = text.stacks_so_far()
        frames = [_frame(text_of(name), is_file=is_file) for name, is_file in text.frames_so_far()]
        trace.stacks = StackTable(parent, frame, frames)
        self.ended(text)
        trace.anomalies.add("unknown_line", text.unknown_lines)
        trace.anomalies.add("unread_event", text.unread_headers)
        trace.anomalies.add("event_without_time", text.times_beyond)
        trace.anomalies.add("time_went_back", text.far_steps_back)
        trace.anomalies.add("cpu_time_went_back", text.cpu_steps_back)
        trace.anomalies.add("unread_fields", text.unread_fields)
        trace.anomalies.add("end_without_begin", text.unmatched_ends)
        trace.anomalies.add("lost_events", sum(count for _, _, count in text.lost))
        trace.anomalies.add("truncated", int(self.source.truncated or self.is_cut))
        begin_ns = trace.bounds[0] if trace.bounds is not None else 0
        # up to the next switch these are unknown, and there already
        known = {from_ns for from_ns, _ in trace.lost}
        trace.lost.extend(
            (max(from_ns, begin_ns), to_ns)
            for from_ns, to_ns, _ in text.lost
            if from_ns not in known
        )

    def scanner(self, *, with_stacks: bool, with_switches: bool) -> perf.PerfText:
        """Return what reads the input, of which this reads the beginning."""
        return perf.PerfText(self.layout(), with_stacks, with_switches)

    def samples(self, text: perf.PerfText) -> Iterator[Samples]:
        """Yield all samples, in batches."""
        last = full = False
        while full or not last:
            last = last or (not full and not self.window.more())
            batch, full = self._scan(text, last=last)
            self._check_times(text)
            yield batch

    def layout(self) -> int:
        """Return the fields before the time that most of the first headers have.

        Raises:
            InputError: If no line has a time.
        """
        window = self.window
        while window.more():
            lines = _lines(bytes(window.block[window.start : window.end]))
            matches = (_HEADER.fullmatch(line) for line in lines)
            headers = list(itertools.islice(filter(None, matches), 500))
            if headers or _is_timeless(lines):
                break
        else:
            lines, headers = [], []
        self.trace.clock = _clock(bytes(window.block[: window.end]))
        if not headers:
            raise InputError(
                window.source.name,
                "this perf script text has no time stamps: print it with the field `time`",
            )
        return Counter(map(_layout_of, headers)).most_common(1)[0][0]

    def _check_times(self, text: perf.PerfText) -> None:
        """Reject times relative to the previous event, about half of which go backwards."""
        steps, records = text.steps_back, self.trace.records
        if self._first_ns == 0 and records >= _ENOUGH and steps * 8 > records:
            raise InputError(
                self.window.source.name,
                "the times are relative to the previous event: print the text without --deltatime",
            )

    def _scan(self, text: perf.PerfText, *, last: bool) -> tuple[Samples, bool]:
        """Return the samples of the block that fit into a batch, and whether the batch is full."""
        window = self.window
        room = BATCH_ROWS
        time_ns, period = np.empty(room, np.int64), np.empty(room, np.int64)
        thread, cpu, event, stack = (np.empty(room, np.int32) for _ in range(4))
        with memoryview(window.block) as view:
            block = view[window.start : window.end]
            tail = np.empty((room, 2), np.int64) if self._with_events else None
            done, rows, full = text.scan(
                block, last, time_ns, period, thread, cpu, event, stack, tail
            )
            window.start += done
            if rows and not self.trace.records:
                self._first_ns = int(time_ns[0])
            columns = (time_ns, period, thread, cpu, event, stack)
            batch = self.batch_of(text, [each[:rows] for each in columns], block, tail)
        return batch, full

    def batch_of(
        self,
        text: perf.PerfText,
        columns: Sequence[npt.NDArray[Any]],
        block: memoryview,
        tail: Int64s | None,
    ) -> Samples:
        """Return a batch of the columns of a scan: times, periods, threads, CPUs, events, stacks.

        With events their fields are read, too: `tail` says where in the block they are.
        """
        time_ns, period, thread, cpu, event, stack = columns
        self.trace.records += len(time_ns)
        self._learn(text)
        kept = self._kept_rows(thread, time_ns)
        # negative: the line has no period
        period[period < 0] = 1
        thread = thread[kept]
        # `take`: indexing by a column of 32 bits takes fifteen times as long
        path = self._path_of.take(thread)
        if text.used_again:
            path = self._separated(text.used_again, thread, time_ns[kept])
        batch = Samples(
            time_ns=time_ns[kept],
            thread=path,
            stack=stack[kept],
            weight=period[kept],
            event=self._event_of.take(event[kept]),
            name=self._name_of.take(thread),
            cpu=cpu[kept],
        )
        if tail is not None:
            # now, as the block is used again
            self._events = events_of(self.trace, batch, block, tail[kept], self.is_event)
        return batch

    def _separated(
        self, used_again: list[tuple[int, int]], thread: Int32s, time_ns: Int64s
    ) -> Int32s:
        """Return the paths of rows, of which those of an id that is used again have paths each.

        These are as the scheduler's states name them: `77#2` is the second thread with the id 77.
        """
        path: Int32s = self._path_of.take(thread)
        paths = self.trace.paths
        begins_ns: dict[str, list[int]] = {}
        for tid, from_ns in used_again:
            begins_ns.setdefault(str(tid), []).append(from_ns)
        for code in distinct(thread).tolist():
            own = int(self._path_of[code])
            if (from_ns_of := begins_ns.get(paths[own][-1])) is None:
                continue
            rows = np.flatnonzero(thread == code)
            before = np.searchsorted(np.sort(from_ns_of), time_ns[rows], side="right")
            name = self.trace.values[self._name_of[code]]
            for number in distinct(before).tolist():
                entity = own
                if number:
                    entity = paths.code(numbered(paths[own], number))
                    path[rows[before == number]] = entity
                self._names_again[entity] = name
        # the names belong to whoever has an id last
        self.trace.names.update(self._names_again)
        return path

    def _kept_rows(self, thread: Int32s, time_ns: Int64s) -> slice | Int64s:
        """Return the rows of samples that are kept."""
        if self._until_ns is None and self._is_kept.all():
            return slice(len(thread))
        kept = self._is_kept[thread]
        if self._until_ns is not None:
            kept &= time_ns <= self._until_ns
        return np.flatnonzero(kept)

    def _derived(self, text: perf.PerfText, last_ns: int) -> Iterator[Batch]:
        """Yield the states and spans that follow from the events of the kernel."""
        rows = text.records_so_far()
        if self._until_ns is not None:
            rows = rows[rows["time_ns"] <= self._until_ns]
        tids, cpus = text.ids_so_far()
        found = Records(
            rows,
            tids,
            cpus,
            [text_of(name) for name in text.names_so_far()],
            self._called,
            self.values,
            last_ns + 1,
            self.read_range(text),
        )
        yield from self.derived(separated(found))

    def read_range(self, text: perf.PerfText) -> tuple[int | None, int | None]:  # noqa: ARG002
        """Return from when and until when the text has all events of each CPU, if that is known."""
        return None, None

    def path_of(self, name: str, ids: bytes | None) -> Path:
        """Return a thread's path from the ids that the text has."""
        if ids is None:
            return thread_path(name)
        pid, _, tid = ids.decode().rpartition("/")
        return thread_path(tid, pid or None)

    def event_name(self, text: bytes) -> str:
        """Return the name of an event from what the text has."""
        return text_of(text)

    def is_event(self, name: str) -> bool:
        """Return whether an event is a tracepoint, which has fields."""
        return is_tracepoint(name)

    def ended(self, text: perf.PerfText) -> None:
        """Add what is known when all has been read."""

    def derived(self, found: Records) -> Iterator[Batch]:
        """Yield what follows from the events of the kernel."""
        if self._with_scheduling:
            yield from batches_of(self.trace, found, self.kept)

    def _learn(self, text: perf.PerfText) -> None:
        """Add the threads and events that are new in this block to the trace."""
        paths, names, kept = [], [], []
        for comm, ids in text.threads_from(len(self._path_of)):
            name = text_of(comm)
            full_path = self.path_of(name, ids)
            if full_path[-1].isdecimal() and len(full_path[-1]) < _ID_DIGITS and name != NO_NAME:
                self._called[int(full_path[-1])] = name
            path = self.trace.paths.code(full_path)
            if text.used_again:
                self._names_again.setdefault(path, name)
            else:
                self._names_again[path] = name
            self.trace.names[path] = name
            paths.append(path)
            names.append(self.values.code(name))
            kept.append(self.kept is None or self.kept(name))
        self._path_of = np.append(self._path_of, np.array(paths, np.int32))
        self._name_of = np.append(self._name_of, np.array(names, np.int32))
        self._is_kept = np.append(self._is_kept, np.array(kept, np.bool_))
        # The last one is event -1: samples without an event.
        known = self._event_of[:-1]
        events = [self.values.code(self.event_name(name)) for name in text.events_from(len(known))]
        if events or not len(self._event_of):
            unnamed = self.values.code("sample") if not len(self._event_of) else self._event_of[-1]
            self._event_of = np.append(known, np.array([*events, unnamed], np.int32))


def _layout_of(header: re.Match[bytes]) -> int:
    layout = sum(flag for field, flag in _FLAGS.items() if header[field])
    # Android's simpleperf writes the same layout, but two tabs after the time
    is_simpleperf = (header["rest"] or b"").startswith(b"\t\t")
    return layout | (perf.UNPADDED if is_simpleperf else 0)


def _frame(name: str, *, is_file: bool) -> str:
    """Return a frame's name; files such as `[vdso]` are in brackets already."""
    return f"[{name}]" if is_file and not (name[:1] == "[" and name[-1:] == "]") else name


def has_ids(line: bytes) -> bool:
    """Return whether a line begins with the fields of perf, with the id of its thread."""
    found = _HEADER.fullmatch(line)
    return found is not None and found["ids"] is not None


def text_of(name: bytes) -> str:
    """Return text that may not be UTF-8."""
    return name.decode("utf-8", errors="backslashreplace")


def _lines(text: bytes, most: int | None = None) -> list[bytes]:
    """Return the first lines, or all, that may be headers: neither comments nor frames."""
    lines = (
        line.rstrip(b"\r")
        for line in text.split(b"\n")
        if line.strip() and not line.startswith((b"\t", b"#"))
    )
    return [*itertools.islice(lines, most)]


def _is_mostly_samples(lines: list[bytes]) -> bool:
    """Return whether lines are samples with their frames, rather than a text with one among it."""
    if any(map(_is_header, lines[:1])):
        return True
    headers = sum(map(_is_header, lines))
    if not headers and _is_timeless(lines):
        headers = sum(_TIMELESS.fullmatch(line) is not None for line in lines)
    frames = sum(_CLEAR_FRAME.fullmatch(line) is not None for line in lines)
    return headers > 0 and _LEAST * (len(lines) - frames) <= headers


def _is_header(line: bytes) -> bool:
    """Return whether a line is the header of a sample, rather than JSON or a row with one in it."""
    found = _HEADER.fullmatch(line)
    return found is not None and b'"' not in (found["comm"] or b"")


def _is_timeless(lines: list[bytes]) -> bool:
    """Return whether these are samples without times: a header, then frames."""
    return any(
        _TIMELESS.fullmatch(line) and _FRAME.fullmatch(after)
        for line, after in itertools.pairwise(lines)
    ) or any(_TIMELESS.fullmatch(line) for line in lines[:1])


def _clock(head: bytes) -> Clock:
    """Return the clock described by the comments at the head of a text."""
    host = re.search(rb"^# hostname *: *(\S+)", head, re.MULTILINE)
    kind = re.search(rb"^# clockid: *(\w+)", head, re.MULTILINE)
    # written by `perf record -k`; the pair of times relates the clock to the wall clock
    wall = re.search(
        rb"^# reference time: .*?= (\d+)\.(\d{6,9}) \(TOD\) = (\d+)\.(\d{6,9})", head, re.MULTILINE
    )
    named = _CLOCKS.get(kind[1], "unknown") if kind else "unknown"
    utc_at_origin_ns = 0 if named == "realtime" else None
    if wall:
        utc_ns, clock_ns = (
            int(wall[part]) * 10**9 + int(wall[part + 1].ljust(9, b"0")) for part in (1, 3)
        )
        utc_at_origin_ns = utc_ns - clock_ns
    return Clock(named, host=text_of(host[1]) if host else None, utc_at_origin_ns=utc_at_origin_ns)
