"""What the scheduler's events say, as batches: states of threads and CPUs, wake-ups, and lanes."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels import gather, linux_records
from meantime.model.attribute_paths import (
    INTERRUPT,
    STATUS,
    THREAD_STATE_PATTERNS,
    THREADS,
    WAKES,
    cpu_path,
    thread_path,
)
from meantime.model.trace import (
    Arguments,
    Flows,
    LaneDeclaration,
    Points,
    SpanFlag,
    Spans,
    State,
    StateChanges,
)
from meantime.providers.sched import (
    CPU_STATES,
    NO_NAME,
    THREAD_STATES,
    UNKNOWN,
    scheduling_of,
    state_name,
)
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s, Int64s, Interner
    from meantime.model.trace import Batch, Trace
    from meantime.providers.sched import Scheduling

__all__ = ["Records", "batches_of", "numbered", "separated", "thread_paths_of"]

_BATCH_ROWS = 1 << 16
_RUNS = -2
_LAST_CALLS = {"exit", "exit_group"}
_IRQ_GROUP, _CALL_GROUP = "interrupts", "system calls"
# of `CPU_STATES`
_CPU_COLORS = ("#ebedf1", "#659cd3", "#124a74", "#841c58", "#9952ba", "#c3bfb4")
# Between running and blocked, unlike them and unlike runnable.
_THREAD_COLORS = {"preempted": "#e58a5b", UNKNOWN: _CPU_COLORS[-1]}
_DEAD = [ord(letter) for letter in "XZx"]
# Records whose `other` is a thread.
_OF_OTHERS = [linux_records.SWITCH, linux_records.WAKE, linux_records.NEW]
# From this share on, unknown time of a CPU is an anomaly.
_MOST_UNKNOWN = 0.01
_MOST_LISTED = 8
_PACKETS = (linux_records.SENT, linux_records.RECEIVED)
_UINT32 = 0xFFFFFFFF
_REQUESTS = {"R": "read", "W": "write", "D": "discard"}


@struct
class Records:
    """The records of a text, and what their codes are.

    Attributes:
        rows: An array of `RECORD_TYPE`.
        tids: The ids of threads.
        cpus: The numbers of CPUs.
        names: All names.
        called: By id of a thread, its name in the lines themselves.
        values: The codes of values in the trace.
        end_ns: The end of the trace.
        read_ns: From when and until when the rows have all that happened on each CPU; None for what
            is not known.
        before: By code of a thread, how many others had its id before; empty if none did.
        begins_ns: By id, from when on it is that of the next thread; None if none is used again.
    """

    rows: npt.NDArray[np.void]
    tids: Int64s
    cpus: Int32s
    names: Sequence[str]
    called: dict[int, str]
    values: Interner[str]
    end_ns: int
    read_ns: tuple[int | None, int | None] = (None, None)
    before: Sequence[int] = ()
    begins_ns: Mapping[int, Int64s] | None = None

    def path_of(self, path: Path, thread: int) -> Path:
        """Return the path of a thread, from that of the first one with its id: `77#2`."""
        before = self.before[thread] if 0 <= thread < len(self.before) else 0
        return numbered(path, before)


def batches_of(trace: Trace, found: Records, keep: Callable[[str], bool] | None) -> Iterator[Batch]:
    """Yield what records say, and declare its lanes; threads that are not kept are left out."""
    if not len(found.rows):
        return
    made = _Making(trace, found, keep)
    yield from made.scheduling()
    yield from made.lasting()
    yield from made.requests()
    yield from made.packets()


def thread_paths_of(trace: Trace) -> dict[str, Path]:
    """Return the paths of threads that a trace has already, by the text of their id.

    Ids that several processes have are not those of the kernel.
    """
    found: dict[str, Path] = {}
    several: set[str] = set()
    for path in trace.paths:
        if path[-2:-1] == (THREADS,) and found.setdefault(path[-1], path) != path:
            several.add(path[-1])
    return {tid: path for tid, path in found.items() if tid not in several}


def numbered(path: Path, before: int) -> Path:
    """Return the path of a thread whose id so many others had before it.

    >>> numbered(("Threads", "77"), 1), numbered(("Threads", "77"), 0)
    (('Threads', '77#2'), ('Threads', '77'))
    """
    return (*path[:-1], f"{path[-1]}#{before + 1}") if before else path


def separated(found: Records) -> Records:
    """Return the records with a code for each thread of an id that is used again.

    Once a thread has exited, its id may be that of another one, which begins where it is new or
    comes to a CPU.
    """
    rows = found.rows
    before = [0] * len(found.tids)
    dead = np.append(linux_records.ids_used_again(rows, len(found.tids)) > 0, False)
    dead[:-1] &= found.tids != 0
    if not dead.any():
        return found
    is_switch = rows["kind"] == linux_records.SWITCH
    left, began, number = rows["thread"], rows["other"], rows["number"]
    deaths = rows[is_switch & np.isin(number, _DEAD) & dead[left]]
    births = rows[(is_switch | (rows["kind"] == linux_records.NEW)) & dead[began]]
    ends_ns, begins_ns = _times_of(deaths, "thread"), _times_of(births, "other")
    tids = found.tids.tolist()
    cuts: dict[int, tuple[Int64s, Int32s]] = {}
    for thread, times_ns in begins_ns.items():
        # at each birth, how many threads of the id have exited
        gone = np.searchsorted(ends_ns[thread], times_ns, side="right")
        counts, first = np.unique(gone, return_index=True)
        is_new = counts > 0
        if not is_new.any():
            continue
        codes = np.arange(len(tids), len(tids) + np.count_nonzero(is_new), dtype=np.int32)
        cuts[thread] = times_ns[first[is_new]], np.append(np.int32(thread), codes)
        tids += [tids[thread]] * len(codes)
        before += range(1, len(codes) + 1)
    if not cuts:
        return found
    rows = rows.copy()
    is_cut = np.zeros(len(found.tids) + 1, np.bool_)
    is_cut[[*cuts]] = True
    for column, concerned in (("thread", True), ("other", np.isin(rows["kind"], _OF_OTHERS))):
        which = np.flatnonzero(is_cut[rows[column]] & concerned)
        which = which[np.argsort(rows[column][which], kind="stable")]
        threads, first = np.unique(rows[column][which], return_index=True)
        for thread, own in zip(threads.tolist(), np.split(which, first[1:]), strict=True):
            from_ns, codes = cuts[thread]
            rows[column][own] = codes[np.searchsorted(from_ns, rows["time_ns"][own], side="right")]
    return Records(
        rows,
        np.array(tids, np.int64),
        found.cpus,
        found.names,
        found.called,
        found.values,
        found.end_ns,
        found.read_ns,
        before,
        {tids[thread]: times_ns for thread, (times_ns, _) in cuts.items()},
    )


def _times_of(rows: npt.NDArray[np.void], column: str) -> dict[int, Int64s]:
    """Return the times of rows by their thread, in order."""
    rows = rows[np.lexsort((rows["time_ns"], rows[column]))]
    threads, first = np.unique(rows[column], return_index=True)
    times = np.split(rows["time_ns"], first[1:])
    return dict(zip(threads.tolist(), times, strict=True))


def _next_of(entity: Int32s, row: int) -> int | None:
    """Return the next row of the entity of a row, which is mostly near; None if it is the last."""
    first, size = row + 1, 64
    while first < len(entity):
        found = np.flatnonzero(entity[first : first + size] == entity[row])
        if len(found):
            return first + int(found[0])
        first, size = first + size, 4 * size
    return None


class _Lasting(NamedTuple):
    """What lasts, by the code of its thread or CPU; an end of -1 is not known."""

    start_ns: Int64s
    end_ns: Int64s
    entity: Int32s
    name: Int32s

    def chosen(self, is_kept: npt.NDArray[np.bool_]) -> _Lasting:
        if is_kept.all():
            return self
        rows = is_kept[self.entity]
        return _Lasting(self.start_ns[rows], self.end_ns[rows], self.entity[rows], self.name[rows])


class _Making:
    """Makes batches of records."""

    def __init__(self, trace: Trace, found: Records, keep: Callable[[str], bool] | None) -> None:
        self._trace = trace
        self._found, rows = found, found.rows
        # by code of a thread, how many threads had its id before it
        self._before = found.before or [0] * len(found.tids)
        self._begin_ns = min(trace.bounds[0] if trace.bounds else 0, found.end_ns)
        self._states = scheduling_of(
            rows,
            found.tids,
            found.names,
            len(found.cpus),
            range_ns=(self._begin_ns, found.end_ns),
            read_ns=found.read_ns,
        )
        self._ids = {*zip(found.tids.tolist(), self._before, strict=True)}
        self._name = [self._name_of(code) for code in range(len(found.tids))]
        self._kept = np.array([keep is None or keep(name) for name in self._name], np.bool_)
        cpu_kept = [keep is None or keep(f"CPU {cpu}") for cpu in found.cpus.tolist()]
        self._cpu_kept = np.array(cpu_kept, np.bool_)
        self._thread = np.full(len(found.tids), -1, np.int32)
        self._status = np.full(len(found.tids), -1, np.int32)

    def _name_of(self, thread: int) -> str:
        code, tid = int(self._states.name[thread]), int(self._found.tids[thread])
        # a new thread has the name of its parent until it executes a program
        is_last = (tid, self._before[thread] + 1) not in self._ids
        if self._before[thread] and is_last and tid in self._found.called:
            return self._found.called[tid]
        if code >= 0:
            return self._found.names[code]
        if not is_last:
            # who had its id last is called so
            return self._trace.names.get(self._known_code(tid), str(tid))
        return self._found.called.get(tid, str(tid))

    def _known_code(self, tid: int) -> int:
        path = thread_paths_of(self._trace).get(str(tid))
        return -1 if path is None else self._trace.paths.code(path)

    def _title(self, thread: int) -> str:
        """Return a thread's name with its id."""
        tid = int(self._found.tids[thread])
        return f"{self._name[thread]} ({tid})" if self._name[thread] != str(tid) else str(tid)

    def _enter(self, threads: Int32s, *, status: bool) -> None:
        """Add the paths of threads, and of their states."""
        trace, paths = self._trace, self._trace.paths
        new = threads[(self._status if status else self._thread)[threads] < 0]
        known = thread_paths_of(trace) if len(new) else {}
        for thread in new.tolist():
            tid = int(self._found.tids[thread])
            path = known.get(str(tid), thread_path(tid))
            path = numbered(path, self._before[thread])
            self._thread[thread] = entity = paths.code(path)
            name = self._name[thread]
            if name not in {NO_NAME, str(tid)}:
                trace.names[entity] = name
            if status:
                self._status[thread] = own = paths.code((*path, STATUS))
                if entity in trace.names:
                    trace.names[own] = trace.names[entity]

    def scheduling(self) -> Iterator[Batch]:
        states, trace = self._states, self._trace
        has_changes, thread_states = linux_records.met_in(states.threads, self._kept.view(np.uint8))
        _, cpu_states = linux_records.met_in(states.cpus, self._cpu_kept.view(np.uint8))
        self._enter(np.flatnonzero(has_changes).astype(np.int32), status=True)
        lost_cpu = states.lost["cpu"]
        lost = states.lost[self._cpu_kept[lost_cpu]]
        stretches = zip(lost["from_ns"].tolist(), lost["to_ns"].tolist(), strict=True)
        trace.lost.extend((from_ns, to_ns) for from_ns, to_ns in stretches if from_ns < to_ns)
        trace.anomalies.add("lost_switch", int(np.count_nonzero(lost["was_told"] == 0)))
        first_tag = len(trace.tags)
        trace.tags.extend(self._tags(states))
        thread_codes = self._thread_codes(np.flatnonzero(thread_states[1:]).tolist())
        status, lane, cpu_codes, values = self._cpu_codes(np.flatnonzero(cpu_states[1:]).tolist())
        time_ns, entity, state, tag = linux_records.merged_changes(
            states.threads,
            states.cpus,
            (self._status, status, lane, values, thread_codes, cpu_codes),
            first_tag,
        )
        for first in range(0, len(time_ns), _BATCH_ROWS):
            rows = slice(first, first + _BATCH_ROWS)
            yield StateChanges(time_ns[rows], entity[rows], state[rows], tag[rows])
        self._count_unknown(time_ns, entity, state, status)
        yield from self._wakes()

    def _count_unknown(
        self, time_ns: Int64s, entity: Int32s, state: Int32s, status: Int32s
    ) -> None:
        """Count the CPUs of whose time at least 1 % is unknown, and say how much that is."""
        whole_ns = self._found.end_ns - self._begin_ns
        unknown = self._found.values.code(UNKNOWN)
        cpu_of = dict(zip(status.tolist(), self._found.cpus.tolist(), strict=True))
        total_ns: dict[int, int] = {}
        for row in np.flatnonzero(state == unknown).tolist():
            if (cpu := cpu_of.get(int(entity[row]))) is not None:
                after = _next_of(entity, row)
                until_ns = self._found.end_ns if after is None else int(time_ns[after])
                total_ns[cpu] = total_ns.get(cpu, 0) + until_ns - int(time_ns[row])
        shares = {
            cpu: unknown_ns / whole_ns
            for cpu, unknown_ns in total_ns.items()
            if unknown_ns >= _MOST_UNKNOWN * whole_ns
        }
        if not shares:
            return
        self._trace.anomalies.add("unknown_time", len(shares))
        most = sorted(shares.items(), key=lambda each: (-each[1], each[0]))
        listed = ", ".join(f"{share:.1%} of CPU {cpu}" for cpu, share in most[:_MOST_LISTED])
        more = f" and {len(most) - _MOST_LISTED:,} more" if len(most) > _MOST_LISTED else ""
        self._trace.facts["unknown time"] = f"{listed}{more}"

    def _thread_codes(self, met: Sequence[int]) -> Int32s:
        """Return the value of each state of threads, and declare the lanes of those met."""
        codes = np.full(257, -1, np.int32)
        names = [state_name(code) or "" for code in met]
        codes[met] = [self._found.values.code(name) for name in names]
        ordered = [name for name in THREAD_STATES if name in names]
        legend = tuple(
            State(name, value, _THREAD_COLORS.get(name)) for value, name in enumerate(ordered)
        )
        below = {len(self._trace.paths[each]) for each in self._thread.tolist() if each >= 0}
        for parts, pattern in zip((2, 4), THREAD_STATE_PATTERNS, strict=True):
            if parts in below:
                self._trace.lanes.append(
                    LaneDeclaration(pattern, entity_kind="Thread", states=legend)
                )
        return codes

    def _cpu_codes(self, met: Sequence[int]) -> tuple[Int32s, Int32s, Int32s, Int32s]:
        """Return the entities of each CPU, and the values of their states and threads."""
        found, lanes = self._found, self._trace.lanes
        is_kept = self._cpu_kept.tolist() if len(self._states.cpus) else [False] * len(found.cpus)
        status, lane = (
            np.array(
                [
                    self._trace.paths.code((*cpu_path(cpu), name)) if keeps else -1
                    for cpu, keeps in zip(found.cpus.tolist(), is_kept, strict=True)
                ],
                np.int32,
            )
            for name in (STATUS, "Thread")
        )
        if any(is_kept):
            legend = [
                State(name, value, _CPU_COLORS[value])
                for value, name in enumerate(CPU_STATES)
                if value in met
            ]
            lanes.insert(
                0, LaneDeclaration("CPUs/*/Status", entity_kind="CPU", states=tuple(legend))
            )
            lanes.append(
                LaneDeclaration("CPUs/*/Thread", entity_kind="CPU", label="Threads on CPUs")
            )
        codes = np.array([*map(found.values.code, CPU_STATES)], np.int32)
        values = [self._value_of(thread, name) for thread, name in self._states.pairs.tolist()]
        return status, lane, codes, np.array(values, np.int32)

    def _called(self, name: int) -> str:
        """Return the name of a code, or of the thread that it stands for."""
        return self._found.names[name] if name >= 0 else self._name[-2 - name]

    def _value_of(self, thread: int, name: int) -> int:
        """Return the code of a thread with a name."""
        tid = int(self._found.tids[thread])
        text = f"{self._called(name)} ({tid})" if tid else "idle"
        return self._found.values.code(text)

    def _tags(self, states: Scheduling) -> Iterator[dict[str, Any]]:
        cpus = self._found.cpus
        for cpu, priority, name, waker in states.tags.tolist():
            fields: dict[str, Any] = {"cpu": int(cpus[cpu]) if waker == _RUNS else cpu}
            if priority != linux_records.UNKNOWN_PRIORITY:
                fields["priority"] = priority
            fields["name"] = self._called(name)
            if waker != _RUNS:
                fields["waker"] = INTERRUPT if waker < 0 else self._title(waker)
            yield fields

    def _wakes(self) -> Iterator[Batch]:
        rows, chosen = self._found.rows, self._states.wakes
        waker, woken = rows["thread"][chosen], rows["other"][chosen]
        # none is an interrupt, and so is whatever wakes others while a CPU is idle
        wakes = np.append(self._kept & (self._found.tids != 0), False)
        kept = np.flatnonzero(wakes.take(waker) & self._kept.take(woken))
        if not len(kept):
            return
        waker, woken, time_ns = waker[kept], woken[kept], rows["time_ns"][chosen[kept]]
        self._enter(np.concatenate([waker, woken]), status=True)
        name = np.full(len(kept), self._found.values.code(WAKES), np.int32)
        status = self._status
        yield Flows(status.take(waker), time_ns, status.take(woken), time_ns, name)

    def lasting(self) -> Iterator[Batch]:
        """Yield system calls on their threads, and interrupts on their CPUs."""
        found, trace = self._found, self._trace
        start_ns, end_ns, thread, _, name = linux_records.columns_of_records(
            found.rows, linux_records.CALL, linux_records.CALL
        )
        calls = _Lasting(start_ns, end_ns, thread, name).chosen(self._kept)
        start_ns, end_ns, _, cpu, name = linux_records.columns_of_records(
            found.rows, linux_records.IRQ, linux_records.SOFTIRQ
        )
        irqs = _Lasting(start_ns, end_ns, cpu, name).chosen(self._cpu_kept)
        if len(calls.start_ns):
            self._end_with_threads(calls)
            self._enter(gather.seen(calls.entity), status=False)
            trace.lanes.append(
                LaneDeclaration("Threads/*/Stack", kind="stack", entity_kind="Depth", label="Calls")
            )
            values = [f"syscall {name}" if name.isdecimal() else name for name in found.names]
            yield self._spans(calls, self._thread, values, _CALL_GROUP)
        if len(irqs.start_ns):
            path = [self._trace.paths.code(cpu_path(cpu)) for cpu in found.cpus.tolist()]
            trace.lanes.append(
                LaneDeclaration(
                    "CPUs/*/Stack", kind="stack", entity_kind="Depth", label="Interrupts"
                )
            )
            yield self._spans(irqs, np.array(path, np.int32), found.names, _IRQ_GROUP)

    def _end_with_threads(self, calls: _Lasting) -> None:
        """End the calls that never return where their thread ends."""
        last = [code for code, name in enumerate(self._found.names) if name in _LAST_CALLS]
        which = np.flatnonzero((calls.end_ns < 0) & np.isin(calls.name, last))
        changes = self._states.threads
        if not len(which) or not len(changes):
            return
        final = np.full(len(self._found.tids), -1, np.int64)
        final[changes["thread"]] = np.arange(len(changes))
        change = changes[final[calls.entity[which]]]
        ended = (
            (final[calls.entity[which]] >= 0)
            & (change["state"] < 0)
            & (change["time_ns"] > calls.start_ns[which])
        )
        calls.end_ns[which[ended]] = change["time_ns"][ended]

    def _spans(self, rows: _Lasting, path_of: Int32s, names: Sequence[str], group: str) -> Spans:
        codes = np.full(len(names), -1, np.int32)
        for name in gather.seen(rows.name).tolist():
            codes[name] = self._found.values.code(names[name])
        categories = self._trace.categories
        if group not in categories:
            categories.append(group)
        unfinished = rows.end_ns < 0
        self._trace.anomalies.add("unfinished_span", int(np.count_nonzero(unfinished)))
        if unfinished.any():
            rows.end_ns[unfinished] = np.maximum(self._found.end_ns, rows.start_ns[unfinished])
        return Spans(
            rows.start_ns,
            rows.end_ns,
            gather.looked_up(path_of, rows.entity),
            gather.looked_up(codes, rows.name),
            np.full(len(unfinished), categories.index(group), np.int32),
            np.zeros(len(unfinished), np.int32),
            np.where(unfinished, np.uint8(SpanFlag.UNFINISHED), np.uint8(0)),
        )

    def requests(self) -> Iterator[Batch]:
        """Yield the requests of block devices, each in the first row that is free then."""
        found = self._found
        kind = found.rows["kind"]
        rows = found.rows[(kind == linux_records.ISSUE) | (kind == linux_records.COMPLETE)]
        if not len(rows):
            return
        rows = rows[np.argsort(rows["time_ns"], kind="stable")]
        is_issue = (rows["kind"] == linux_records.ISSUE).tolist()
        begun: dict[tuple[int, int], tuple[int, int]] = {}
        free: dict[int, list[int]] = {}
        used: dict[int, int] = {}
        entities: dict[tuple[int, int], int] = {}
        kinds: dict[int, int] = {}
        changes: list[tuple[int, int, int]] = []
        unmatched = 0
        # a flush has no sectors, and its end says so in another way than its begin
        sectors = np.where(rows["number"] == 0, -1, rows["value"])
        columns = (rows["time_ns"], rows["name"], sectors, rows["other"])
        for issued, time_ns, device, sector, how in zip(
            is_issue, *(column.tolist() for column in columns), strict=True
        ):
            before = begun.pop((device, sector), None)
            if before is not None:
                changes.append((time_ns, before[0], -1))
                heappush(free[device], before[1])
            if not issued:
                unmatched += before is None
                continue
            waiting = free.setdefault(device, [])
            if waiting:
                slot = heappop(waiting)
            else:
                slot = used.get(device, 0)
                used[device] = slot + 1
            entity = entities.get((device, slot), -1)
            if entity < 0:
                path = ("Disks", found.names[device], str(slot))
                entity = entities[device, slot] = self._trace.paths.code(path)
            if how not in kinds:
                letter = found.names[how].lstrip("F")[:1]
                kinds[how] = found.values.code(_REQUESTS.get(letter, "flush"))
            changes.append((time_ns, entity, kinds[how]))
            begun[device, sector] = (entity, slot)
        self._trace.anomalies.add("end_without_begin", unmatched)
        if not changes:
            return
        found_changes = np.array(changes, np.int64).T
        self._trace.lanes.append(
            LaneDeclaration("Disks/*/*", entity_kind="Request", label="Disks", short_lived=True)
        )
        yield StateChanges(
            found_changes[0].copy(),
            found_changes[1].astype(np.int32),
            found_changes[2].astype(np.int32),
            np.full(len(changes), -1, np.int32),
        )

    def packets(self) -> Iterator[Batch]:
        """Yield the packets of TCP that were sent and received, by which hosts are aligned.

        Each is on its thread; one that came while its CPU was idle is on the CPU.
        """
        found, trace = self._found, self._trace
        rows = found.rows[np.isin(found.rows["kind"], _PACKETS)]
        is_idle = np.append(found.tids == 0, True)[rows["thread"]]
        kept = np.append(self._cpu_kept, False)[rows["cpu"]]
        kept[~is_idle] = self._kept[rows["thread"][~is_idle]]
        rows, is_idle = rows[kept], is_idle[kept]
        if not len(rows):
            return
        self._enter(gather.seen(rows["thread"][~is_idle]), status=False)
        cpus = [trace.paths.code(cpu_path(cpu)) for cpu in found.cpus.tolist()]
        names = np.array([found.values.code(found.names[each]) for each in rows["name"]], np.int32)
        entity = self._thread[rows["thread"]]
        entity[is_idle] = np.array([*cpus, -1], np.int32)[rows["cpu"][is_idle]]
        seq, ack = rows["value"] >> 32 & _UINT32, rows["value"] & _UINT32
        texts = [
            b'{"seq":%d,"ack_seq":%d,"flags":%d}' % each
            for each in zip(seq.tolist(), ack.tolist(), rows["number"].tolist(), strict=True)
        ]
        length = np.array([*map(len, texts)], np.int32)
        offset = trace.text.add(b"".join(texts)) + np.cumsum(length, dtype=np.int64) - length
        yield Points(
            rows["time_ns"].copy(),
            entity,
            names,
            np.full(len(rows), -1, np.int32),
            Arguments(offset, length),
        )
