"""Reports of Android's simpleperf in protobuf: `simpleperf report-sample --protobuf`.

Each sample has a time, a thread and a stack; with `--trace-offcpu` it is known when a thread was on
a CPU, too. Definition: `cmd_report_sample.proto` of simpleperf,
https://android.googlesource.com/platform/system/extras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meantime.errors import InputError
from meantime.kernels import varints
from meantime.model.attribute_paths import STATUS, thread_path
from meantime.model.columns import Interner, distinct
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.model.trace import LaneDeclaration, Samples, State, StateChanges
from meantime.readers.contract import lazy_trace
from meantime.readers.perfetto.messages import BYTES, VARINT, fields, signed, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "simpleperf"
OBJECTS = True

_MAGIC: Final = b"SIMPLEPERF"
_VERSION, _VERSION_BYTES, _LENGTH_BYTES = 1, 2, 4
_SAMPLE, _LOST, _FILE, _THREAD, _META, _SWITCH = range(1, 7)
_CHAIN = 3
_LIMIT = 2**62
_NS_EVENTS = ("task-clock", "cpu-clock")
_RETRIES = 100
_STATES = (("running", "#1d8759"), ("not running", "#ebedf1"))


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file. Of the options, `lenient` is used.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    trace = lazy_trace(source, FORMAT, _batches, options)
    trace.samples_first = True
    return trace


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        data = source.whole()
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    at = len(_MAGIC) + _VERSION_BYTES
    if int.from_bytes(data[len(_MAGIC) : at], "little") != _VERSION:
        raise InputError(source.name, "the report of simpleperf is of an unknown version")
    records = []
    while True:
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "little")
        begin = at + _LENGTH_BYTES
        if begin > len(data) or begin + length > len(data):
            if not options.lenient:
                raise InputError(source.name, "the report of simpleperf is cut", offset=at)
            trace.anomalies.add("truncated")
            break
        if not length:
            trace.anomalies.add("trailing_bytes", len(data) - begin)
            break
        records.append((begin, begin + length))
        at = begin + length
    trace.records = len(records)
    reading = _Reading(source, trace, np.frombuffer(data, np.uint8), lenient=options.lenient)
    yield from reading.batches(np.array(records, np.int64).reshape(-1, 2))


class _Reading:
    """Reads the records of a report, of which files and threads are described after the samples."""

    def __init__(
        self, source: Source, trace: Trace, data: npt.NDArray[np.uint8], *, lenient: bool
    ) -> None:
        self._source = source
        self._trace = trace
        self._data = data
        self._lenient = lenient
        self._events: list[str] = []
        self._files: dict[int, tuple[str, list[str]]] = {}
        self._threads: dict[int, tuple[int, str]] = {}
        self._codes: dict[int, int] = {}

    def batches(self, records: Int64s) -> Iterator[Batch]:
        """Yield what is in records.

        Raises:
            InputError: If one is malformed, unless reading is lenient.
        """
        _, tag, part = self._fields(records)
        number = tag >> 3
        for low, high, kind in zip(*part.T.tolist(), number.tolist(), strict=True):
            if kind in {_FILE, _THREAD, _META, _LOST}:
                try:
                    self._describe(kind, bytes(self._data[low:high]))
                except ValueError as error:
                    self._refuse(low, str(error))
            elif kind not in {_SAMPLE, _SWITCH}:
                self._trace.anomalies.add("record_skipped")
        yield from self._samples(part[number == _SAMPLE])
        yield from self._switches(part[number == _SWITCH])

    def _fields(self, messages: Int64s) -> tuple[Int32s, npt.NDArray[np.uint32], Int64s]:
        """Return the fields of messages; malformed ones are errors or, leniently, left out."""
        for _ in range(_RETRIES):
            try:
                return varints.fields(self._data, np.ascontiguousarray(messages))
            except ValueError as error:
                at = int(error.args[0])
            self._refuse(at, "a field ends behind its message")
            # an empty message keeps the numbers of the others
            messages = messages.copy()
            messages[(messages[:, 0] <= at) & (at < messages[:, 1]), 1] = at
        raise InputError(self._source.name, f"more than {_RETRIES} records are malformed")

    def _refuse(self, offset: int, reason: str) -> None:
        if not self._lenient:
            raise InputError(self._source.name, f"a record is malformed ({reason})", offset=offset)
        self._trace.anomalies.add("bad_record")

    def _describe(self, kind: int, message: bytes) -> None:
        """Read a record that is about others.

        Raises:
            ValueError: If it is malformed.
        """
        numbers: dict[int, int] = {}
        texts: dict[int, list[str]] = {}
        for number, wire, value, content in fields(message):
            if wire == VARINT:
                numbers[number] = value
            elif wire == BYTES:
                texts.setdefault(number, []).append(text_of(content))
        if kind == _FILE:
            path = texts.get(2, [""])[0].rpartition("/")[2]
            self._files[numbers.get(1, 0)] = path, texts.get(3, [])
        elif kind == _THREAD:
            name = texts.get(3, [""])[0]
            self._threads[signed(numbers.get(1, 0))] = signed(numbers.get(2, 0)), name
        elif kind == _LOST:
            self._trace.anomalies.add("lost_events", min(numbers.get(2, 0), _LIMIT))
        else:
            self._events = texts.get(1, [])
            called = {2: "package", 3: "type", 4: "SDK", 5: "build"}
            for number, name in called.items():
                for text in texts.get(number, ()):
                    self._trace.facts[name] = text[:200]

    def _numbers(
        self, messages: Int64s, wanted: tuple[int, ...]
    ) -> tuple[list[Int64s], Int64s, Int32s]:
        """Return numbers of messages by field, 0 where there is none, and where stacks are."""
        message, tag, part = self._fields(messages)
        found = []
        for number in wanted:
            rows = np.flatnonzero(tag == number << 3)
            column = np.zeros(len(messages), np.int64)
            try:
                values, _ = varints.numbers_of(self._data, np.ascontiguousarray(part[rows]))
            except ValueError as error:
                raise InputError(
                    self._source.name, "a number is malformed", offset=int(error.args[0])
                ) from None
            column[message[rows]] = values.view(np.int64)
            found.append(column)
        chains = tag == _CHAIN << 3 | BYTES
        return found, part[chains], message[chains]

    def _thread_codes(self, tids: Int64s) -> Int32s:
        trace = self._trace
        for tid in distinct(tids).tolist():
            if tid in self._codes:
                continue
            pid, name = self._threads.get(tid, (None, ""))
            self._codes[tid] = len(trace.paths)
            if name:
                trace.names[len(trace.paths)] = name
            trace.paths.append(thread_path(tid, pid))
        return np.array([self._codes[tid] for tid in tids.tolist()], np.int32)

    def _samples(self, messages: Int64s) -> Iterator[Batch]:
        (time_ns, tid, weight, event), chains, sample = self._numbers(messages, (1, 2, 4, 5))
        kept = self._kept(time_ns, weight)
        if not kept.any():
            return
        stack = self._stacks(chains, sample, len(messages))
        events, code = np.unique(event, return_inverse=True)
        names = [
            self._events[each] if 0 <= each < len(self._events) else f"event {each}"
            for each in events.tolist()
        ]
        for name in names:
            unit = "ns" if name.partition(":")[0] in _NS_EVENTS else "count"
            self._trace.sample_units[name] = unit
        codes = Interner(self._trace.values).codes(names)
        thread = self._thread_codes(tid)
        order = np.argsort(time_ns, kind="stable")
        order = order[kept[order]]
        yield Samples(
            time_ns=time_ns[order],
            thread=thread[order],
            stack=stack[order],
            weight=weight[order],
            event=codes[code[order]].astype(np.int32),
        )

    def _kept(self, *columns: Int64s) -> npt.NDArray[np.bool_]:
        """Return which rows have numbers of a sensible size; the others are counted."""
        kept = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            kept &= (column >= 0) & (column < _LIMIT)
        self._trace.anomalies.add("time_out_of_range", int((~kept).sum()))
        return kept

    def _stacks(self, chains: Int64s, sample: Int32s, samples: int) -> Int32s:
        """Set the table of stacks, and return the stack of each sample."""
        (address, file, symbol), _, _ = self._numbers(chains, (1, 2, 3))
        # the address is needed only where the function is unknown
        address = np.where(symbol < 0, address, 0)
        entries = np.stack([file, symbol, address], axis=1)
        unique, entry = np.unique(entries, axis=0, return_inverse=True)
        table = StackTableBuilder()
        frames = [table.frame(self._frame(*each)) for each in unique.tolist()]
        found = np.full(samples, NO_STACK, np.int32)
        # the innermost function is the first of each sample
        listed = entry.ravel().tolist()
        for row, owner in zip(range(len(listed) - 1, -1, -1), sample[::-1].tolist(), strict=True):
            found[owner] = table.push(int(found[owner]), frames[listed[row]])
        self._trace.stacks = table.build()
        return found

    def _frame(self, file: int, symbol: int, address: int) -> str:
        path, symbols = self._files.get(file, ("", []))
        if 0 <= symbol < len(symbols):
            return symbols[symbol]
        return f"{path or f'file {file}'}+{address & (2**64 - 1):#x}"

    def _switches(self, messages: Int64s) -> Iterator[Batch]:
        """Yield when threads were on a CPU."""
        (is_on, time_ns, tid), _, _ = self._numbers(messages, (1, 2, 3))
        kept = self._kept(time_ns)
        if not kept.any():
            return
        trace = self._trace
        values = Interner(trace.values)
        states = values.codes([name for name, _ in _STATES])
        paths = trace.paths
        thread = self._thread_codes(tid)
        entity = {
            code: paths.code((*trace.paths[code], STATUS)) for code in distinct(thread).tolist()
        }
        lane_states = tuple(State(name, row, color) for row, (name, color) in enumerate(_STATES))
        trace.lanes.append(
            LaneDeclaration(
                "Processes/*/Threads/*/Status", entity_kind="Thread", states=lane_states
            )
        )
        order = np.argsort(time_ns, kind="stable")
        order = order[kept[order]]
        yield StateChanges(
            time_ns=time_ns[order],
            entity=np.array([entity[code] for code in thread[order].tolist()], np.int32),
            state=np.where(is_on[order] != 0, states[0], states[1]).astype(np.int32),
            tag=np.full(len(order), -1, np.int32),
        )
