"""Samples of stacks: those of perf, and those that programs take of their own threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.model.stacks import StackTableBuilder
from meantime.model.trace import Samples
from meantime.model.units import MAX_NS
from meantime.readers.perfetto.messages import (
    BYTES,
    VARINT,
    fields,
    integers,
    signed,
    text_of,
)
from meantime.readers.switches import numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.model.columns import Int64s, Interner
    from meantime.model.trace import Batch, Trace
    from meantime.readers.perfetto.tracks import Tracks

__all__ = ["PerfSamples"]

_State = tuple[int, int]
_COUNTERS = {
    1: "cpu-clock",
    2: "page-faults",
    3: "task-clock",
    4: "context-switches",
    5: "cpu-migrations",
    6: "minor-faults",
    7: "major-faults",
    8: "alignment-faults",
    9: "emulation-faults",
    10: "cpu-cycles",
    11: "instructions",
    12: "cache-references",
    13: "cache-misses",
    14: "branch-instructions",
    15: "branch-misses",
    16: "bus-cycles",
    17: "stalled-cycles-frontend",
    18: "stalled-cycles-backend",
    19: "ref-cycles",
    20: "dummy",
}
_FUNCTIONS, _FRAMES, _CALLSTACKS, _PATHS, _MAPPINGS = 5, 6, 7, 17, 19
_DEEPEST = 1024
_LAST_NS = 2**62


class PerfSamples:
    """The samples of a trace, and the stacks that their sequences defined."""

    def __init__(self) -> None:
        # what numbers mean until the sequence's state is cleared
        self._interned: dict[int, tuple[int, dict[tuple[int, int], Any]]] = {}
        self._event: dict[_State, str] = {}
        self._threads: dict[int, tuple[int, int, int]] = {}
        self._rows: list[tuple[int, int, int, int, int, int, str]] = []
        self._stacks = StackTableBuilder()
        self._rows_of_stacks: dict[tuple[int, int, int], int] = {}
        self._unknown = 0

    def times(self) -> list[int]:
        """Return the times of all samples."""
        return [row[0] for row in self._rows]

    def set_thread(self, state: _State, ids: tuple[int, int], message: memoryview) -> None:
        """Take the thread that a sequence belongs to, and its reference time."""
        reference_us = next(
            (value for number, wire, value, _ in fields(message) if (number, wire) == (6, VARINT)),
            0,
        )
        self._threads[state[0]] = (*ids, reference_us * 1000)

    def add_defaults(self, state: _State, message: memoryview) -> None:
        """Take the event that a sequence samples."""
        for number, wire, _, content in fields(message):
            if number != 12 or wire != BYTES:
                continue
            for inner, kind, _, timebase in fields(content):
                if inner != 1 or kind != BYTES:
                    continue
                name = ""
                for field, how, value, text in fields(timebase):
                    if field == 10 and how == BYTES:
                        name = text_of(text)
                    elif field == 4 and how == VARINT:
                        name = name or _COUNTERS.get(value, "")
                    elif field == 3 and how == BYTES:
                        names = [
                            text_of(part) for n, w, _, part in fields(text) if (n, w) == (1, BYTES)
                        ]
                        name = name or (names[0] if names else "")
                self._event[state] = name or "sample"

    def add_interned(self, state: _State, message: memoryview) -> None:
        """Take the stacks that a sequence defines."""
        known = self._known(state)
        # what they were before may have changed
        self._rows_of_stacks.clear()
        for number, wire, _, content in fields(message):
            if wire != BYTES or number not in {_FUNCTIONS, _FRAMES, _CALLSTACKS, _PATHS, _MAPPINGS}:
                continue
            found = list(fields(content))
            numbers = {inner: value for inner, wire, value, _ in found if wire == VARINT}
            iid = numbers.get(1, 0)
            repeated = 2 if number == _CALLSTACKS else 7
            parts = [part for each in found if each[0] == repeated for part in integers(each)]
            text = "".join(text_of(part) for inner, _, _, part in found if inner == 2)
            if number in {_FUNCTIONS, _PATHS}:
                known[number, iid] = text
            elif number == _FRAMES:
                known[number, iid] = (numbers.get(2, 0), numbers.get(3, 0), numbers.get(4, 0))
            else:
                known[number, iid] = parts[:_DEEPEST]

    def add(self, state: _State, time_ns: int, message: memoryview) -> None:
        """Take a sample of perf."""
        numbers = {number: value for number, wire, value, _ in fields(message) if wire == VARINT}
        # a sample that was skipped, or an event of the sampler itself
        if 18 in numbers or (3 not in numbers and 2 not in numbers and 4 not in numbers):
            return
        pid, tid = (min(numbers.get(number, 0), 2**31 - 1) for number in (2, 3))
        weight = min(numbers.get(6, 1), MAX_NS)
        event = self._event.get(state, "cpu-clock")
        stack = self._stack(state, numbers.get(4, 0))
        cpu = min(numbers.get(1, 0), 2**31 - 1)
        self._rows.append((time_ns, pid, tid, cpu, stack, weight, event))

    def add_streaming(self, state: _State, message: memoryview) -> None:
        """Take samples that a program took of its own thread."""
        found = list(fields(message))
        stacks = [iid for field in found if field[0] == 1 for iid in integers(field)]
        deltas = [signed(us) for field in found if field[0] == 2 for us in integers(field)]
        if state[0] not in self._threads:
            self._unknown += len(stacks)
            return
        pid, tid, time_ns = self._threads[state[0]]
        for iid, delta_us in zip(stacks, deltas, strict=False):
            time_ns += delta_us * 1000
            if not 0 <= time_ns <= _LAST_NS:
                self._unknown += 1
                break
            self._rows.append((time_ns, pid, tid, -1, self._stack(state, iid), 1, "sample"))
            self._threads[state[0]] = (pid, tid, time_ns)

    def _stack(self, state: _State, iid: int) -> int:
        row = self._rows_of_stacks.get((*state, iid))
        if row is None:
            known = self._known(state)
            frames = known.get((_CALLSTACKS, iid), ())
            row = self._stacks.add(self._frame(known, each) for each in frames)
            self._rows_of_stacks[*state, iid] = row
        return row

    def _known(self, state: _State) -> dict[tuple[int, int], Any]:
        """Return what a sequence has defined since its state was cleared."""
        sequence, generation = state
        found = self._interned.get(sequence)
        if found is None or found[0] != generation:
            found = self._interned[sequence] = (generation, {})
        return found[1]

    @staticmethod
    def _frame(known: dict[tuple[int, int], Any], iid: int) -> str:
        function, mapping, address = known.get((_FRAMES, iid), (0, 0, 0))
        if name := known.get((_FUNCTIONS, function)):
            return str(name)
        path = "/".join(
            known.get((_PATHS, part), "") for part in known.get((_MAPPINGS, mapping), ())
        )
        file = path.rpartition("/")[2]
        return f"[{file}]" if file else f"{address:#x}"

    def batches(
        self,
        trace: Trace,
        tracks: Tracks,
        values: Interner[str],
        begins_ns: Mapping[int, Int64s],
    ) -> Iterator[Batch]:
        """Yield the samples in order of time.

        Args:
            trace: The trace.
            tracks: Its tracks.
            values: The codes of its values.
            begins_ns: By id of a thread, from when on it is that of another one.
        """
        trace.anomalies.add("sample_without_thread", self._unknown)
        if not self._rows:
            return
        trace.stacks = self._stacks.build()
        rows = sorted(self._rows, key=lambda row: row[0])
        for _, pid, tid, *_ in rows:
            tracks.process_of.setdefault(tid, pid)
        none = np.empty(0, np.int64)
        thread = trace.paths.codes(
            [
                numbered(
                    tracks.thread_path(tid),
                    int(np.searchsorted(begins_ns.get(tid, none), time_ns, side="right")),
                )
                for time_ns, _, tid, *_ in rows
            ]
        )
        yield Samples(
            time_ns=np.array([row[0] for row in rows], np.int64),
            thread=thread,
            stack=np.array([row[4] for row in rows], np.int32),
            weight=np.array([row[5] for row in rows], np.int64),
            event=values.codes([row[6] for row in rows]),
            cpu=np.array([row[3] for row in rows], np.int32),
        )
