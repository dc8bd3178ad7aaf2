"""What a program did on the host: calls, NVTX ranges, thread states, samples; and all names."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import ASYNC_PATTERN, STATUS, async_path, is_async, process_path
from meantime.model.clocks import Clock
from meantime.model.columns import distinct
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.model.trace import LaneDeclaration, Points, Samples, SpanFlag, State, StateChanges
from meantime.readers.nsys.codes import Codes, launch_key
from meantime.readers.nsys.database import LAST_NS, MISSING, Tables, columns_of
from meantime.readers.nsys.streams import KERNELS, TABLES, Streams
from meantime.readers.sqlite_access import quoted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.memory_limit import MemoryLimit

__all__ = ["Reading"]

_PUSH_POP, _START_END, _MARK, _DOMAIN = 59, 60, 34, 75
# Which of the calls of a thread are spans of it, in the order in which they are read: what contains
# others comes first.
_CALLS = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA API",
    "CUPTI_ACTIVITY_KIND_DRIVER": "CUDA API",
    "OSRT_API": "OS runtime",
    "CUBLAS_EVENTS": "cuBLAS",
    "CUDNN_EVENTS": "cuDNN",
    "MPI_P2P_EVENTS": "MPI",
    "MPI_COLLECTIVES_EVENTS": "MPI",
    "MPI_START_WAIT_EVENTS": "MPI",
    "MPI_OTHER_EVENTS": "MPI",
}
_OVERHEADS = {
    "PROFILER_OVERHEAD": "profiler overhead",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "profiler overhead",
}
_LAUNCHERS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_PRIVATE = re.compile(r":(?:COMMAND|ARGUMENT_|ENV)")


class Reading:
    """Reads one database into a trace."""

    def __init__(
        self,
        trace: Trace,
        connection: sqlite3.Connection,
        path: str,
        size: int,
        options: ReadOptions,
        *,
        limit: MemoryLimit,
    ) -> None:
        self._trace = trace
        self._with_private = options.private
        self._tables = Tables(trace, connection, path, size, limit)
        self._codes = Codes(trace, self._tables)
        self._streams = Streams(self._codes)
        self._statuses: dict[int, int] = {}
        self._domains: dict[tuple[int, int], str] = {}
        self._launches: list[tuple[Int64s, Int64s, Int32s]] = []
        self._unfinished: list[tuple[int, int, int, int]] = []

    def batches(self) -> Iterator[Batch]:
        """Yield all that is read; sets the names of entities last."""
        self._facts()
        yield from self._nvtx()
        for table, category in _CALLS.items():
            yield from self._calls(table, category)
        for table, category in _OVERHEADS.items():
            yield from self._calls(table, category, below="Profiler overhead")
        yield from self._streams.batches()
        yield from self._schedule()
        yield from self._samples()
        yield from self._open_ranges()
        yield from self._streams.states()
        yield from self._streams.flows(self._launches)
        self._name_entities()
        self._declare()

    def _commands(self) -> None:
        """Count the command lines and environments of what was profiled, or add them as facts."""
        for name, value in chain.from_iterable(
            self._tables.rows("META_DATA_CAPTURE", ["name", "value"])
        ):
            if not _PRIVATE.search(str(name)):
                continue
            if self._with_private:
                self._trace.facts[str(name)] = str(value)
            else:
                self._trace.anomalies.add("private_field")

    def _facts(self) -> None:
        """Add the versions and the clock, and which tables with times are not read."""
        trace = self._trace
        if {"name", "value"} <= self._tables.columns.get("META_DATA_EXPORT", set()):
            wanted = {"EXPORT_PRODUCT_VERSION": "version", "EXPORT_SCHEMA_VERSION": "schema"}
            for name, value in self._tables.connection.execute(
                "SELECT name, value FROM META_DATA_EXPORT"
            ):
                if name in wanted:
                    trace.facts[wanted[name]] = str(value)[:80]
        utc_ns = None
        for rows in self._tables.rows("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"]):
            if isinstance(rows[0][0], int) and 0 < rows[0][0] < LAST_NS * 2:
                utc_ns = rows[0][0]
        trace.clock = Clock(utc_at_origin_ns=utc_ns)
        self._commands()
        known = {
            *_CALLS, *_OVERHEADS, *TABLES, "NVTX_EVENTS", "SCHED_EVENTS",
            "COMPOSITE_EVENTS",
        }  # fmt: skip
        unread = [
            table
            for table, columns in self._tables.columns.items()
            if table not in known
            and columns & {"start", "timestamp", "rawTimestamp"}
            and self._tables.connection.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 1").fetchone()  # noqa: S608 - a name of the database, quoted
        ]
        if unread:
            trace.facts["tables not read"] = ", ".join(sorted(unread))[:1000]
        missing = [
            table
            for table in ("NVTX_EVENTS", *_LAUNCHERS[:1], KERNELS)
            if table not in self._tables
        ]
        if missing:
            trace.facts["tables not in the export"] = ", ".join(missing)

    def _calls(self, table: str, category: str, below: str = "") -> Iterator[Batch]:
        wanted = ["start", "end", "globalTid", "nameId", "correlationId"]
        if "nameId" not in self._tables.columns.get(table, ()):
            wanted[3] = "textId"
        for (start, end, tid, name, correlation), _ in self._tables.numbers(table, wanted):
            entity = self._codes.thread_codes(tid, below)
            never = end == MISSING
            self._trace.anomalies.add("span_without_end", int(never.sum()))
            yield self._codes.spans(
                start, np.where(never, start, end), entity, self._codes.names(name), category
            )
            if table in _LAUNCHERS:
                self._launches.append((launch_key(tid >> 24, correlation), start, entity))

    def _nvtx(self) -> Iterator[Batch]:
        columns = self._tables.columns.get("NVTX_EVENTS", set())
        self._find_domains(columns)
        wanted = ["start", "end", "globalTid", "eventType", "textId", "domainId"]
        for (start, end, tid, kind, text_id, domain), texts in self._tables.numbers(
            "NVTX_EVENTS", wanted, text="text"
        ):
            name = self._codes.names(text_id)
            if texts is not None and texts.names:
                own = np.append(self._codes.values.codes([*texts.names]), np.int32(0))
                name = np.where(texts.codes >= 0, own[texts.codes], name)
            entity = self._codes.thread_codes(tid)
            nested, ranges, marks = kind == _PUSH_POP, kind == _START_END, kind == _MARK
            self._trace.anomalies.add(
                "record_skipped", int((~(nested | ranges | marks | (kind == _DOMAIN))).sum())
            )
            entity[ranges] = [
                self._codes.paths.code(
                    async_path(each >> 24 & 0xFFFFFF, "NVTX", self._domain(each, of))
                )
                for each, of in zip(tid[ranges].tolist(), domain[ranges].tolist(), strict=True)
            ]
            never = (end == MISSING) & (nested | ranges)
            self._unfinished += zip(
                start[never].tolist(), entity[never].tolist(), name[never].tolist(),
                domain[never].tolist(), strict=True,
            )  # fmt: skip
            whole = (nested | ranges) & ~never
            if whole.any():
                yield self._codes.spans(
                    start[whole], end[whole], entity[whole], name[whole], "NVTX"
                )
            if marks.any():
                yield Points(
                    time_ns=start[marks],
                    entity=entity[marks],
                    name=name[marks],
                    target=np.full(int(marks.sum()), -1, np.int32),
                )

    def _find_domains(self, columns: set[str]) -> None:
        """Find the names of NVTX's domains."""
        if not {"eventType", "domainId", "globalTid"} <= columns:
            return
        text = "text" if "text" in columns else "NULL"
        text_id = "textId" if "textId" in columns else "NULL"
        for domain, tid, name, id_ in self._tables.connection.execute(
            f"SELECT domainId, globalTid, {text}, {text_id} FROM NVTX_EVENTS WHERE eventType = ?",  # noqa: S608 - own names
            (_DOMAIN,),
        ):
            if isinstance(domain, int) and isinstance(tid, int):
                if not isinstance(name, str) and isinstance(id_, int):
                    name = self._trace.values[self._codes.string(id_)]  # noqa: PLW2901 - either has it
                self._domains[tid >> 24, domain] = str(name)

    def _domain(self, tid: int, domain: int) -> str:
        if domain in {MISSING, 0}:
            return "ranges"
        return self._domains.get((tid >> 24, domain), f"domain {domain}")

    def _open_ranges(self) -> Iterator[Batch]:
        """Yield the ranges that were never closed, until the end."""
        if not self._unfinished:
            return
        self._trace.anomalies.add("unfinished_span", len(self._unfinished))
        start, entity, name, _ = np.array(self._unfinished, np.int64).T
        spans = self._codes.spans(
            start.copy(),
            np.maximum(start, self._tables.last_ns),
            entity.astype(np.int32),
            name.astype(np.int32),
            "NVTX",
        )
        spans.flags[:] = SpanFlag.UNFINISHED
        yield spans

    def _schedule(self) -> Iterator[Batch]:
        """Yield when threads ran: states of threads, tagged with the CPU."""
        running, off = self._codes.values.code("running"), self._codes.values.code("off-CPU")
        tags: dict[int, int] = {}
        for (time_ns, tid, cpu, is_in), _ in self._tables.numbers(
            "SCHED_EVENTS", ["start", "globalTid", "cpu", "isSchedIn"]
        ):
            entity = self._status_codes(tid)
            for each in distinct(cpu[is_in > 0]).tolist():
                if each not in tags:
                    tags[each] = len(self._trace.tags)
                    self._trace.tags.append({"cpu": each})
            tag = [
                tags[each] if ran > 0 else -1
                for each, ran in zip(cpu.tolist(), is_in.tolist(), strict=True)
            ]
            # those of a thread are in order of time
            order = np.argsort(time_ns, kind="stable")
            yield StateChanges(
                time_ns[order],
                entity[order],
                np.where(is_in > 0, running, off).astype(np.int32)[order],
                np.array(tag, np.int32)[order],
            )

    def _status_codes(self, tids: Int64s) -> Int32s:
        codes = self._codes.thread_codes(tids)
        for each in distinct(codes).tolist():
            if each not in self._statuses:
                self._statuses[each] = self._codes.paths.code((*self._trace.paths[each], STATUS))
        return np.array([self._statuses[each] for each in codes.tolist()], np.int32)

    def _samples(self) -> Iterator[Batch]:
        if "COMPOSITE_EVENTS" not in self._tables:
            return
        stacks = StackTableBuilder()
        stack_of = self._stacks(stacks)
        self._trace.stacks = stacks.build()
        event = self._codes.values.code("cpu-cycles")
        wanted = ["start", "globalTid", "cpu", "cpuCycles", "id"]
        for (time_ns, tid, cpu, weight, id_), _ in self._tables.numbers("COMPOSITE_EVENTS", wanted):
            yield Samples(
                time_ns=time_ns,
                thread=self._codes.thread_codes(tid),
                stack=np.array([stack_of.get(each, NO_STACK) for each in id_.tolist()], np.int32),
                weight=np.clip(weight, 1, 2**40),
                event=np.full(len(time_ns), event, np.int32),
                cpu=np.where((cpu >= 0) & (cpu < 2**20), cpu, -1).astype(np.int32),
            )

    def _stacks(self, stacks: StackTableBuilder) -> dict[int, int]:
        """Return the stack of each sample by its id."""
        found: dict[int, int] = {}
        known: dict[tuple[tuple[int, int], ...], int] = {}
        chain: list[tuple[int, int]] = []
        current = None
        have = self._tables.columns.get("SAMPLING_CALLCHAINS", set())
        if not {"id", "symbol", "module", "stackDepth"} <= have:
            return found

        def end(id_: int) -> None:
            key = tuple(chain)
            if key not in known:
                known[key] = stacks.add(map(self._frame, reversed(key)))
            found[id_] = known[key]
            chain.clear()

        for rows in self._tables.rows(
            "SAMPLING_CALLCHAINS", ["id", "symbol", "module"], order=" ORDER BY id, stackDepth"
        ):
            ids, symbols, modules = (column.tolist() for column in columns_of(rows, 3))
            for id_, symbol, module in zip(ids, symbols, modules, strict=True):
                if id_ != current:
                    if current is not None:
                        end(current)
                    current = id_
                chain.append((symbol, module))
        if current is not None:
            end(current)
        return found

    def _frame(self, frame: tuple[int, int]) -> str:
        symbol, module = (
            "" if id_ == MISSING else self._trace.values[self._codes.string(id_)] for id_ in frame
        )
        if symbol and not symbol.startswith("0x"):
            return symbol
        return f"[{module.rsplit('/', 1)[-1] or 'unknown'}]"

    def _name_entities(self) -> None:
        """Name the processes, threads and GPUs that have events."""
        trace = self._trace
        of_process = {each >> 24: each for each in self._codes.threads}
        for rows in self._tables.rows("PROCESSES", ["globalPid", "name"]):
            for pid, name in rows:
                if isinstance(pid, int) and pid >> 24 in of_process and isinstance(name, str):
                    path = process_path(pid >> 24 & 0xFFFFFF)
                    trace.names[self._codes.paths.code(path)] = name
        gpus = {path[1] for path in trace.paths if path[0] == "GPUs"}
        for rows in self._tables.rows("TARGET_INFO_GPU", ["id", "name"]):
            for id_, name in rows:
                if str(id_) in gpus and isinstance(name, str):
                    trace.names[self._codes.paths.code(("GPUs", str(id_)))] = name
        self._name_threads()

    def _name_threads(self) -> None:
        """Name threads as they did last: by the name of the highest priority."""
        trace = self._trace
        best: dict[int, int] = {}
        for rows in self._tables.rows("ThreadNames", ["globalTid", "nameId", "priority"]):
            tids, ids, priorities = (column.tolist() for column in columns_of(rows, 3))
            for tid, id_, priority in zip(tids, ids, priorities, strict=True):
                code = self._codes.threads.get(tid)
                if code is not None and id_ != MISSING and priority >= best.get(tid, priority):
                    best[tid] = priority
                    name = trace.values[self._codes.string(id_)]
                    trace.names[code] = name
                    if code in self._statuses:
                        trace.names[self._statuses[code]] = name

    def _declare(self) -> None:
        """Declare the lanes of what was read."""
        self._streams.declare()
        lanes = self._trace.lanes
        if any(is_async(path) for path in self._trace.paths):
            lanes.append(
                LaneDeclaration(
                    ASYNC_PATTERN, kind="async", label="NVTX ranges", entity_kind="Domain"
                )
            )
        if self._statuses:
            states = (State("running", 0), State("off-CPU", 1))
            lanes.append(
                LaneDeclaration("Processes/*/Threads/*/Status", entity_kind="Thread", states=states)
            )
