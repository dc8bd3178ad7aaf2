"""The events of ftrace: the scheduler, marks of programs, frequencies; others are points."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from meantime.kernels import linux_records
from meantime.model.attribute_paths import COUNTER_PATTERN, counter_path
from meantime.model.trace import Counters, LaneDeclaration, Points
from meantime.readers.marks import ClockSync, marks_of
from meantime.readers.perfetto.names import KERNEL_EVENTS, name_of
from meantime.readers.switches import Records, batches_of, separated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.model.columns import Int64s, Interner
    from meantime.model.trace import Batch, Trace
    from meantime.readers.perfetto.scanned import Scanned
    from meantime.readers.perfetto.tracks import Tracks

__all__ = ["KernelEvents"]

_LETTERS = "SDTtXZPI"
_OLD_LETTERS = "SDTtXZxKWPN"
_PREEMPTED = 0x100
_OLD_PREEMPTED = 0x800
# Since 4.14 the kernel reports states by other bits.
_SINCE = (4, 14)
_IDLE, _FREQUENCY, _GPU = 13, 11, 332
_COUNTERS: Final = {_FREQUENCY: "cpufreq", _IDLE: "cpuidle", _GPU: "gpufreq"}
_SAME_PROCESS = 0x10000
_MARK = re.compile(r"[BESFCIGHN]\|(\d{1,9})(?:\||$)")


class KernelEvents:
    """The events of ftrace in a trace."""

    def __init__(
        self,
        trace: Trace,
        scanned: Scanned,
        tracks: Tracks,
        release: str,
        *,
        with_scheduling: bool,
    ) -> None:
        tables, cpus = scanned.tables, scanned.cpus
        self._trace = trace
        self._with_scheduling = with_scheduling
        # by id of a thread, from when on it is that of another one; known when all is yielded
        self.begins_ns: Mapping[int, Int64s] = {}
        self._names = scanned.names
        self._tracks = tracks
        self._cpus = np.array([cpu for cpu, _ in cpus], np.int32)
        # before this the buffer of some CPU had been overwritten
        from_ns = max([first_ns for _, first_ns in cpus], default=-1)
        for name in ("records", "kernel_counts", "kernel_points"):
            rows = tables[name]
            kept = rows["time_ns"] >= from_ns
            if not kept.all():
                trace.anomalies.add("overwritten_events", int(np.count_nonzero(~kept)))
                tables[name] = rows[kept]
        # bundles are in order by CPU, but a thread may move from one to another; who wakes a thread
        # at the very time when it leaves another CPU wakes it after that
        records = tables["records"]
        self._records = records[
            np.lexsort((records["kind"] != linux_records.SWITCH, records["time_ns"]))
        ]
        self._counts = tables["kernel_counts"]
        self._points = tables["kernel_points"]
        self._tids = tables["tids"]
        self._set_states(release)
        self._find_processes()

    def _set_states(self, release: str) -> None:
        """Turn the bits of the states in which threads left into letters."""
        records = self._records
        rows = np.flatnonzero(records["kind"] == linux_records.SWITCH)
        found = re.match(r"(\d+)\.(\d+)", release)
        is_old = found is not None and (int(found[1]), int(found[2])) < _SINCE
        bits = records["number"][rows]
        values, which = np.unique(bits, return_inverse=True)
        letters = np.array([_letter(int(value), is_old=is_old) for value in values], np.int32)
        if len(rows):
            records["number"][rows] = letters[which]
            # the names of threads that never came to a CPU here
            before = records["value"][rows]
            for name, thread in np.unique(
                np.stack([before, records["thread"][rows].astype(np.int64)]), axis=1
            ).T.tolist():
                if name >= 0 and thread >= 0 and self._names[name]:
                    self._tracks.called.setdefault(int(self._tids[thread]), self._names[name])
            records["value"][rows] = -1

    def _find_processes(self) -> None:
        """Find the processes of threads in what they wrote, and in which thread began which."""
        records, process_of = self._records, self._tracks.process_of
        new = records[(records["kind"] == linux_records.NEW) & (records["value"] >= 0)]
        for parent, child, flags in zip(
            new["thread"].tolist(), new["other"].tolist(), new["value"].tolist(), strict=True
        ):
            tid, parent_tid = int(self._tids[child]), int(self._tids[parent])
            pid = process_of.get(parent_tid) if flags & _SAME_PROCESS else tid
            if pid is not None:
                process_of.setdefault(tid, pid)
        marks = records[records["kind"] == linux_records.MARK]
        if not len(marks):
            return
        thread, at = np.unique(marks["thread"], return_index=True)
        unknown = [
            (code, row)
            for code, row in zip(thread.tolist(), at.tolist(), strict=True)
            if int(self._tids[code]) not in process_of
        ]
        wanted = {code for code, _ in unknown}
        if not wanted:
            return
        rows = marks[np.isin(marks["thread"], [*wanted])]
        for code, name in zip(rows["thread"].tolist(), rows["name"].tolist(), strict=True):
            tid = int(self._tids[code])
            if tid in process_of:
                continue
            text = self._names[name]
            if text[:1] in "BE" and (found := _MARK.match(text)):
                process_of[tid] = int(found[1])
                process_of.setdefault(int(found[1]), int(found[1]))

    def batches(self, values: Interner[str]) -> Iterator[Batch]:
        """Yield the states of threads and CPUs, marks, counters and points."""
        trace, tracks = self._trace, self._tracks
        if len(self._records):
            for tid in self._tids.tolist():
                trace.paths.code(tracks.thread_path(tid))
            end_ns = trace.bounds[1] if trace.bounds else 0
            found = separated(
                Records(
                    self._records,
                    self._tids,
                    self._cpus,
                    self._names,
                    tracks.called,
                    values,
                    end_ns,
                    # the buffers of all CPUs are read to their end before a trace ends
                    (None, end_ns),
                )
            )
            self.begins_ns = found.begins_ns or {}
            if self._with_scheduling:
                yield from batches_of(trace, found, None)
            yield from marks_of(trace, found, ClockSync(), None)
        if len(self._counts):
            yield self._counters()
        if len(self._points):
            yield self._other(values)

    def _counters(self) -> Counters:
        counts = self._counts[np.argsort(self._counts["time_ns"], kind="stable")]
        key = counts["kind"].astype(np.int64) << 32 | counts["cpu"].astype(np.int64) & 0xFFFFFFFF
        used, which = np.unique(key, return_inverse=True)
        codes = self._trace.paths.codes(_path(each) for each in used.tolist())
        lane = LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters")
        if lane not in self._trace.lanes:
            self._trace.lanes.append(lane)
        return Counters(counts["time_ns"].copy(), codes[which], counts["value"].copy())

    def _other(self, values: Interner[str]) -> Points:
        points = self._points
        names = name_of(KERNEL_EVENTS)
        tids, which = np.unique(points["tid"], return_inverse=True)
        entity = self._trace.paths.codes(map(self._tracks.thread_path, tids.tolist()))
        kinds, kind = np.unique(points["kind"], return_inverse=True)
        name = np.array(
            [values.code(names.get(each, f"ftrace {each}")) for each in kinds.tolist()], np.int32
        )
        return Points(
            points["time_ns"].copy(),
            entity[which],
            name[kind],
            np.full(len(points), -1, np.int32),
        )


def _path(key: int) -> tuple[str, ...]:
    kind, cpu = key >> 32, key & 0xFFFFFFFF
    return counter_path("kernel", _COUNTERS[kind], f"{'GPU' if kind == _GPU else 'CPU'} {cpu}")


def _letter(bits: int, *, is_old: bool) -> int:
    """Return the letter of the state that a thread is in after a switch.

    >>> [chr(_letter(bits, is_old=False)) for bits in (0, 1, 2, 0x80, 0x100)]
    ['R', 'S', 'D', 'I', '+']
    """
    bits &= 0xFFFF
    letters = _OLD_LETTERS if is_old else _LETTERS
    for place, letter in enumerate(letters):
        if bits & (1 << place):
            return ord(letter)
    return ord("+") if bits & (_OLD_PREEMPTED * 3 if is_old else _PREEMPTED) else ord("R")
