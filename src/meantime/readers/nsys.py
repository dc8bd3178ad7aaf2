"""Exports of Nsight Systems as SQLite databases.

Host threads with their calls of CUDA and of the system and their NVTX ranges, streams of GPUs with
kernels and copies, what launched these, thread states and samples. Every table may be missing, and
its columns differ from version to version, so the database is asked for both. Tables are read in
parts. Environment variables and command lines, which an export has too, are copied only if that is
wanted.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from meantime.attribute_paths import (
    ASYNC_PATTERN,
    STATUS,
    async_path,
    is_async,
    process_path,
    thread_path,
)
from meantime.clocks import Clock
from meantime.columns import Interner, ranked
from meantime.errors import InputError
from meantime.readers.contract import MOST_BATCH_ROWS, lazy_trace
from meantime.stacks import NO_STACK, StackTableBuilder
from meantime.trace import (
    Arguments,
    Flows,
    LaneDeclaration,
    Points,
    Samples,
    SpanFlag,
    Spans,
    State,
    StateChanges,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.attributes import Path as AttributePath
    from meantime.columns import Int32s, Int64s
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "nsys"

_MAGIC = b"SQLite format 3\0"
# Names of tables, which are in the first pages of a database.
_TABLES = (
    b"META_DATA_EXPORT", b"CUPTI_ACTIVITY_KIND_", b"NVTX_EVENTS", b"TARGET_INFO_SESSION_START",
    b"ENUM_NSYS_EVENT", b"OSRT_API",
)  # fmt: skip
_PART_ROWS = 1 << 15
_MISSING = -(2**63)
_LAST_NS = 2**61
_LONGEST_VALUE = 1 << 20
_PIECE_BYTES = 1 << 20
_EXPANDED_FREELY, _MOST_EXPANDED = 1 << 30, 300
# The fewest bytes of a row: a database of which more are read has a cycle.
_ROW_BYTES = 3

_PUSH_POP, _START_END, _MARK, _DOMAIN = 59, 60, 34, 75
_VERSION = re.compile(r"_v\d+\Z")
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
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
_FILLS = "CUPTI_ACTIVITY_KIND_MEMSET"
_SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_ALL_STREAMS = 2**32 - 1
# From the one that is drawn if several are open at once.
_DEVICE_STATES = (("kernel", "#1d8759"), ("memcpy", "#659cd3"), ("memset", "#f6b324"))
_IDLE = ("idle", "#ebedf1")
_PRIVATE = re.compile(r":(?:COMMAND|ARGUMENT_|ENV)")
_COPY_KINDS = (
    "", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array",
    "Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer",
    "Unified Host-to-Device", "Unified Device-to-Host", "Unified Device-to-Device",
)  # fmt: skip
_SYNC_KINDS = ("", "event", "stream wait", "stream", "context")


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like a database of Nsight Systems."""
    del name
    return head.startswith(_MAGIC) and any(table in head for table in _TABLES)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches are read while they are consumed.

    A compressed database is first written to a temporary file, since SQLite reads from anywhere.
    `lenient`, `keep` and `until_ns` change nothing.

    Raises:
        InputError: From the batches, if the database is damaged or has none of the tables.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source, _database(source, options) as (path, size):
        try:
            with closing(_connect(path)) as connection:
                reading = _Reading(trace, connection, size, options)
                yield from reading.batches()
        # the message of an error may not be UTF-8 itself
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise InputError(
                source.name, f"the database is damaged ({error}): export it again"
            ) from None
        if source.path is not None and source.can_repeat:
            options.report_progress(size, size)
    if not trace.records:
        raise InputError(source.name, "this database of Nsight Systems has no events")


@contextmanager
def _database(source: Source, options: ReadOptions) -> Iterator[tuple[str, int]]:
    """Yield the path of the database and its size; a temporary one if it is not a plain file."""
    if source.path is not None and source.can_repeat:
        size = source.stored_bytes or 0
        options.report_progress(0, size)
        yield source.path, size
        return
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        piece = memoryview(bytearray(_PIECE_BYTES))
        size = 0
        while count := source.readinto(piece):
            size += count
            if size > max(_EXPANDED_FREELY, _MOST_EXPANDED * source.read_bytes):
                raise InputError(
                    source.name, f"it expands to more than {_MOST_EXPANDED} times its size"
                )
            try:
                file.write(piece[:count])
                file.flush()
            except OSError as error:
                raise InputError(
                    source.name,
                    f"it cannot be written to {tempfile.gettempdir()} ({error.strerror}):"
                    " decompress it first, or set TMPDIR to another directory",
                ) from None
            options.report_progress(source.read_bytes, 0)
        if source.truncated:
            raise InputError(source.name, "the compressed database is cut: copy it again")
        yield file.name, size


def _connect(path: str) -> sqlite3.Connection:
    """Open a database that nothing is written to, and whose schema is not trusted."""
    uri = f"file:{quote(os.fspath(Path(path).absolute()))}?mode=ro&immutable=1"
    # batches may be consumed by another thread than the one that opened the trace
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


class _Device(NamedTuple):
    """What ran on streams: kept until launches and states are known."""

    start_ns: Int64s
    end_ns: Int64s
    entity: Int32s
    key: Int64s
    kind: int


class _Reading:
    """Reads one database into a trace."""

    def __init__(
        self, trace: Trace, connection: sqlite3.Connection, size: int, options: ReadOptions
    ) -> None:
        self._trace = trace
        self._with_private = options.private
        self._connection = connection
        self._rows_left = size // _ROW_BYTES + 1
        self._columns = {
            str(name): {
                str(row[1]) for row in connection.execute(f"PRAGMA table_info({_name(name)})")
            }
            for name, sql in connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            # not one that computes its rows
            if str(sql).upper().startswith("CREATE TABLE")
        }  # fmt: skip
        self._paths, self._values = Interner(trace.paths), Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._strings: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._statuses: dict[int, int] = {}
        self._streams: dict[tuple[int, int, int, int, bool], int] = {}
        self._stream_paths: set[AttributePath] = set()
        self._domains: dict[tuple[int, int], str] = {}
        self._devices: list[_Device] = []
        self._launches: list[tuple[Int64s, Int64s, Int32s]] = []
        self._unfinished: list[tuple[int, int, int, int]] = []
        self._last_ns = 0

    def batches(self) -> Iterator[Batch]:
        """Yield all that is read; sets the names of entities last."""
        self._facts()
        yield from self._nvtx()
        for table, category in _CALLS.items():
            yield from self._calls(table, category)
        for table, category in _OVERHEADS.items():
            yield from self._calls(table, category, below="Profiler overhead")
        yield from self._kernels()
        yield from self._copies()
        yield from self._syncs()
        yield from self._schedule()
        yield from self._samples()
        yield from self._open_ranges()
        yield from self._stream_states()
        yield from self._flows()
        self._name_entities()
        self._declare()

    def _rows(
        self, table: str, wanted: Sequence[str], *, order: str = ""
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in parts, if it has all these columns."""
        if not set(wanted) <= self._columns.get(table, set()):
            return
        query = f"SELECT {', '.join(map(_name, wanted))} FROM {_name(table)}{order}"  # noqa: S608 - own names
        with closing(self._connection.cursor()) as cursor:
            cursor.arraysize = _PART_ROWS
            cursor.execute(query)
            while rows := cursor.fetchmany():
                self._rows_left -= len(rows)
                if self._rows_left < 0:
                    raise sqlite3.DatabaseError("it has more rows than fit into it")
                yield rows

    def _numbers(
        self, table: str, wanted: Sequence[str], *, text: str = ""
    ) -> Iterator[tuple[list[Int64s], tuple[Any, ...]]]:
        """Yield the columns of a table with a time first, as arrays, and one of texts."""
        have = self._columns.get(table, set())
        present = [column for column in wanted if column in have]
        if wanted[0] not in present:
            return
        with_text = text in have
        asked = [*present, text] if with_text else present
        for rows in self._rows(table, asked):
            texts: tuple[Any, ...] = ()
            if with_text:
                *columns, texts = zip(*rows, strict=True)
                found = [_integers(column) for column in columns]
            else:
                found = _columns_of(rows, len(present))
            missing = np.full(len(rows), _MISSING)
            by_name = dict(zip(present, found, strict=True))
            numbers = [by_name.get(column, missing) for column in wanted]
            usual = (numbers[0] > -_LAST_NS) & (numbers[0] < _LAST_NS)
            if wanted[1:2] == ["end"]:
                ends = numbers[1]
                usual &= (ends == _MISSING) | ((ends > -_LAST_NS) & (ends < _LAST_NS))
            if not usual.all():
                self._trace.anomalies.add("time_out_of_range", int((~usual).sum()))
                numbers = [column[usual] for column in numbers]
                texts = tuple(
                    value for value, kept in zip(texts, usual.tolist(), strict=False) if kept
                )
            if len(numbers[0]):
                self._trace.records += len(numbers[0])
                self._last_ns = max(self._last_ns, int(numbers[0].max()))
                yield numbers, texts

    def _commands(self) -> None:
        """Count the command lines and environments of what was profiled, or add them as facts."""
        for name, value in chain.from_iterable(self._rows("META_DATA_CAPTURE", ["name", "value"])):
            if not _PRIVATE.search(str(name)):
                continue
            if self._with_private:
                self._trace.facts[str(name)] = str(value)
            else:
                self._trace.anomalies.add("private_field")

    def _facts(self) -> None:
        """Add the versions and the clock, and which tables with times are not read."""
        trace = self._trace
        if {"name", "value"} <= self._columns.get("META_DATA_EXPORT", set()):
            wanted = {"EXPORT_PRODUCT_VERSION": "version", "EXPORT_SCHEMA_VERSION": "schema"}
            for name, value in self._connection.execute("SELECT name, value FROM META_DATA_EXPORT"):
                if name in wanted:
                    trace.facts[wanted[name]] = str(value)[:80]
        utc_ns = None
        for rows in self._rows("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"]):
            if isinstance(rows[0][0], int) and 0 < rows[0][0] < _LAST_NS * 2:
                utc_ns = rows[0][0]
        trace.clock = Clock(utc_at_origin_ns=utc_ns)
        self._commands()
        known = {
            *_CALLS, *_OVERHEADS, _KERNELS, _COPIES, _FILLS, _SYNCS, "NVTX_EVENTS", "SCHED_EVENTS",
            "COMPOSITE_EVENTS",
        }  # fmt: skip
        unread = [
            table
            for table, columns in self._columns.items()
            if table not in known
            and columns & {"start", "timestamp", "rawTimestamp"}
            and self._connection.execute(f"SELECT 1 FROM {_name(table)} LIMIT 1").fetchone()  # noqa: S608 - a name of the database, quoted
        ]
        if unread:
            trace.facts["tables not read"] = ", ".join(sorted(unread))[:1000]
        missing = [
            table for table in ("NVTX_EVENTS", *_LAUNCHERS[:1], _KERNELS) if not self._has(table)
        ]
        if missing:
            trace.facts["tables not in the export"] = ", ".join(missing)

    def _has(self, table: str) -> bool:
        return table in self._columns

    def _string(self, id_: int) -> int:
        """Return the code of a string's value."""
        code = self._strings.get(id_, -1)
        if code < 0:
            found = None
            if {"id", "value"} <= self._columns.get("StringIds", set()):
                found = self._connection.execute(
                    "SELECT value FROM StringIds WHERE id = ?", (id_,)
                ).fetchone()
            text = f"string {id_}" if found is None else str(found[0])
            code = self._strings[id_] = self._values.code(_VERSION.sub("", text))
        return code

    def _names(self, ids: Int64s) -> Int32s:
        distinct, which = _distinct(ids)
        codes = [
            self._values.code("unnamed") if id_ == _MISSING else self._string(id_)
            for id_ in distinct.tolist()
        ]
        return np.array(codes, np.int32)[which]

    def _thread_codes(self, global_tids: Int64s, below: str = "") -> Int32s:
        distinct, which = _distinct(global_tids)
        codes = []
        for each in distinct.tolist():
            code = self._threads.get(each, -1)
            if code < 0:
                code = self._threads[each] = self._paths.code(_path_of(each))
            if below:
                code = self._paths.code((*self._trace.paths[code], below))
                self._trace.names[code] = below.lower()
            codes.append(code)
        return np.array(codes, np.int32)[which]

    def _spans(  # noqa: PLR0917 - columns of one table, in its order
        self,
        start: Int64s,
        end: Int64s,
        entity: Int32s,
        name: Int32s,
        category: str,
        arguments: Arguments | None = None,
    ) -> Spans:
        backwards = end < start
        self._trace.anomalies.add("negative_duration", int(backwards.sum()))
        end = np.where(backwards, start, end)
        if len(end):
            self._last_ns = max(self._last_ns, int(end.max()))
        rows = len(start)
        return Spans(
            start_ns=start,
            end_ns=end,
            thread=entity,
            name=name,
            category=np.full(rows, self._categories.code(category), np.int32),
            level=np.zeros(rows, np.int32),
            flags=np.zeros(rows, np.uint8),
            arguments=arguments,
        )

    def _calls(self, table: str, category: str, below: str = "") -> Iterator[Batch]:
        wanted = ["start", "end", "globalTid", "nameId", "correlationId"]
        if "nameId" not in self._columns.get(table, ()):
            wanted[3] = "textId"
        for (start, end, tid, name, correlation), _ in self._numbers(table, wanted):
            entity = self._thread_codes(tid, below)
            never = end == _MISSING
            self._trace.anomalies.add("span_without_end", int(never.sum()))
            yield self._spans(
                start, np.where(never, start, end), entity, self._names(name), category
            )
            if table in _LAUNCHERS:
                self._launches.append((_key(tid >> 24, correlation), start, entity))

    def _nvtx(self) -> Iterator[Batch]:
        columns = self._columns.get("NVTX_EVENTS", set())
        self._find_domains(columns)
        wanted = ["start", "end", "globalTid", "eventType", "textId", "domainId"]
        for (start, end, tid, kind, text_id, domain), texts in self._numbers(
            "NVTX_EVENTS", wanted, text="text"
        ):
            name = self._names(text_id)
            own = [row for row, each in enumerate(texts) if isinstance(each, str)]
            if own:
                name[own] = self._values.codes([texts[row] for row in own])
            entity = self._thread_codes(tid)
            nested, ranges, marks = kind == _PUSH_POP, kind == _START_END, kind == _MARK
            self._trace.anomalies.add(
                "record_skipped", int((~(nested | ranges | marks | (kind == _DOMAIN))).sum())
            )
            entity[ranges] = [
                self._paths.code(async_path(each >> 24 & 0xFFFFFF, "NVTX", self._domain(each, of)))
                for each, of in zip(tid[ranges].tolist(), domain[ranges].tolist(), strict=True)
            ]
            never = (end == _MISSING) & (nested | ranges)
            self._unfinished += zip(
                start[never].tolist(), entity[never].tolist(), name[never].tolist(),
                domain[never].tolist(), strict=True,
            )  # fmt: skip
            whole = (nested | ranges) & ~never
            if whole.any():
                yield self._spans(start[whole], end[whole], entity[whole], name[whole], "NVTX")
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
        for domain, tid, name, id_ in self._connection.execute(
            f"SELECT domainId, globalTid, {text}, {text_id} FROM NVTX_EVENTS WHERE eventType = ?",  # noqa: S608 - own names
            (_DOMAIN,),
        ):
            if isinstance(domain, int) and isinstance(tid, int):
                if not isinstance(name, str) and isinstance(id_, int):
                    name = self._trace.values[self._string(id_)]  # noqa: PLW2901 - either has it
                self._domains[tid >> 24, domain] = str(name)

    def _domain(self, tid: int, domain: int) -> str:
        if domain in {_MISSING, 0}:
            return "ranges"
        return self._domains.get((tid >> 24, domain), f"domain {domain}")

    def _open_ranges(self) -> Iterator[Batch]:
        """Yield the ranges that were never closed, until the end."""
        if not self._unfinished:
            return
        self._trace.anomalies.add("unfinished_span", len(self._unfinished))
        start, entity, name, _ = np.array(self._unfinished, np.int64).T
        spans = self._spans(
            start.copy(),
            np.maximum(start, self._last_ns),
            entity.astype(np.int32),
            name.astype(np.int32),
            "NVTX",
        )
        spans.flags[:] = SpanFlag.UNFINISHED
        yield spans

    def _stream_codes(
        self, device: Int64s, context: Int64s, stream: Int64s, pid: Int64s, *, is_sync: bool = False
    ) -> Int32s:
        columns = (device, pid, context, stream)
        first, which = _combinations(columns)
        codes = []
        for key in zip(*(column[first].tolist() for column in columns), strict=True):
            known = (*key, is_sync)
            if known not in self._streams:
                number, process, of, id_ = (0 if each == _MISSING else each for each in key)
                group = "Synchronization" if is_sync else "Streams"
                called = "all" if id_ == _ALL_STREAMS else str(id_)
                path: AttributePath = ("GPUs", str(number), group, called)
                # ids are those of a context of a process
                if path in self._stream_paths:
                    path = (*path[:3], f"{called} of {process >> 24 & 0xFFFFFF}")
                if path in self._stream_paths:
                    path = (*path[:3], f"{path[3]} context {of}")
                self._stream_paths.add(path)
                self._streams[known] = self._paths.code(path)
            codes.append(self._streams[known])
        return np.array(codes, np.int32)[which]

    def _on_device(
        self, table: str, kind: int, extra: Sequence[str]
    ) -> Iterator[tuple[list[Int64s], Int32s]]:
        """Yield begin, end and the extra columns of what ran on streams, and its streams."""
        wanted = ["start", "end", "deviceId", "contextId", "streamId", "globalPid", "correlationId"]
        for numbers, _ in self._numbers(table, [*wanted, *extra]):
            start, end, device, context, stream, pid, correlation = numbers[:7]
            end = np.where(end == _MISSING, start, end)
            entity = self._stream_codes(device, context, stream, pid)
            key = _key(pid >> 24, correlation)
            if "globalPid" not in self._columns[table]:
                key = _key(np.full(len(pid), _MISSING), correlation)
            self._devices.append(_Device(start, np.maximum(start, end), entity, key, kind))
            yield [start, end, *numbers[7:]], entity

    def _kernels(self) -> Iterator[Batch]:
        have = self._columns.get(_KERNELS, set())
        sizes = [f"{part}{axis}" for part in ("grid", "block") for axis in "XYZ"]
        extra = ["shortName" if "shortName" in have else "demangledName", *sizes]
        with_sizes = set(sizes) <= have
        for (start, end, name, *size), entity in self._on_device(_KERNELS, 0, extra):
            arguments = (
                self._arguments(size, '{"grid":"%dx%dx%d","block":"%dx%dx%d"}')
                if with_sizes
                else None
            )
            yield self._spans(start, end, entity, self._names(name), "kernel", arguments)

    def _copies(self) -> Iterator[Batch]:
        for table, kind, extra in ((_COPIES, 1, "copyKind"), (_FILLS, 2, "value")):
            category = _DEVICE_STATES[kind][0]
            with_bytes = "bytes" in self._columns.get(table, ())
            for (start, end, how, size), entity in self._on_device(table, kind, [extra, "bytes"]):
                name = (
                    self._kinds(how, category, _COPY_KINDS)
                    if table == _COPIES
                    else np.full(len(entity), self._values.code(category), np.int32)
                )
                arguments = self._arguments([size], '{"bytes":%d}') if with_bytes else None
                yield self._spans(start, end, entity, name, category, arguments)

    def _arguments(self, columns: Sequence[Int64s], form: str) -> Arguments:
        """Return arguments of rows: each combination of values is one text."""
        first, which = _combinations(columns)
        offsets, lengths = [], []
        for values in zip(*(column[first].tolist() for column in columns), strict=True):
            text = (form % values).encode()
            offsets.append(self._trace.text.add(text))
            lengths.append(len(text))
        return Arguments(np.array(offsets, np.int64)[which], np.array(lengths, np.int32)[which])

    def _kinds(self, kinds: Int64s, called: str, names: Sequence[str]) -> Int32s:
        distinct, which = _distinct(kinds)
        codes = [
            self._values.code(
                f"{called} {names[kind]}".strip() if 0 <= kind < len(names) else called
            )
            for kind in distinct.tolist()
        ]
        return np.array(codes, np.int32)[which]

    def _syncs(self) -> Iterator[Batch]:
        wanted = ["start", "end", "deviceId", "contextId", "streamId", "globalPid", "syncType"]
        for (start, end, device, context, stream, pid, kind), _ in self._numbers(_SYNCS, wanted):
            entity = self._stream_codes(device, context, stream, pid, is_sync=True)
            name = self._kinds(kind, "synchronize", _SYNC_KINDS)
            end = np.where(end == _MISSING, start, end)  # noqa: PLW2901 - the same column
            yield self._spans(start, end, entity, name, "synchronization")

    def _stream_states(self) -> Iterator[Batch]:
        """Yield what each stream did: the first kind of those that were open."""
        if not self._devices:
            return
        start = np.concatenate([each.start_ns for each in self._devices])
        end = np.concatenate([each.end_ns for each in self._devices])
        entity = np.concatenate([each.entity for each in self._devices])
        kind = np.concatenate([np.full(len(each.start_ns), each.kind) for each in self._devices])
        kept = end > start
        start, end, entity, kind = (each[kept] for each in (start, end, entity, kind))
        if not len(start):
            return
        time_ns = np.concatenate([start, end])
        step = np.concatenate([np.ones(len(start), np.int64), np.full(len(end), -1)])
        of, kinds = np.tile(entity, 2), np.tile(kind, 2)
        order = np.lexsort((time_ns, of))
        time_ns, step, of, kinds = (each[order] for each in (time_ns, step, of, kinds))
        state = np.full(len(time_ns), len(_DEVICE_STATES))
        for number in reversed(range(len(_DEVICE_STATES))):
            # each stream has as many ends as begins, so the sum starts at 0 again
            state[np.cumsum(np.where(kinds == number, step, 0)) > 0] = number
        is_last = np.append((of[1:] != of[:-1]) | (time_ns[1:] != time_ns[:-1]), True)
        time_ns, of, state = time_ns[is_last], of[is_last], state[is_last]
        ends = np.append(of[1:] != of[:-1], True)
        state[ends] = -1
        changed = np.append(True, (of[1:] != of[:-1]) | (state[1:] != state[:-1]))
        time_ns, of, state = time_ns[changed], of[changed], state[changed]
        names = [name for name, _ in (*_DEVICE_STATES, _IDLE)]
        codes = np.array([*map(self._values.code, names), -1], np.int32)
        statuses = np.zeros(len(self._trace.paths), np.int32)
        for each in np.unique(of).tolist():
            statuses[each] = self._paths.code((*self._trace.paths[each], STATUS))
        for first in range(0, len(time_ns), MOST_BATCH_ROWS):
            part = slice(first, first + MOST_BATCH_ROWS)
            yield StateChanges(
                time_ns[part],
                statuses[of[part]],
                codes[state[part]],
                np.full(len(time_ns[part]), -1, np.int32),
            )

    def _flows(self) -> Iterator[Batch]:
        """Yield which call launched what ran on a device: of the same process, with its id."""
        if not self._devices:
            return
        key = np.concatenate([each.key for each in self._devices])
        to_ns = np.concatenate([each.start_ns for each in self._devices])
        to = np.concatenate([each.entity for each in self._devices])
        # without a process, the ids of calls are all there is
        alone = (key >> 32) == 0
        found = np.full(len(key), -1)
        begun = np.zeros(0, np.int64)
        of = np.zeros(0, np.int32)
        if self._launches:
            own = np.concatenate([each[0] for each in self._launches])
            begun = np.concatenate([each[1] for each in self._launches])
            of = np.concatenate([each[2] for each in self._launches])
            for rows, keys in ((~alone, own), (alone, own & 0xFFFFFFFF)):
                order = np.argsort(keys, kind="stable")
                at = np.searchsorted(keys[order], key[rows])
                at = order[np.minimum(at, len(order) - 1)]
                found[rows] = np.where((keys[at] == key[rows]) & (key[rows] != 0), at, -1)
        is_known = found >= 0
        is_known[is_known] &= begun[found[is_known]] <= to_ns[is_known]
        self._trace.anomalies.add("flow_without_begin", int((~is_known).sum()))
        rows = np.flatnonzero(is_known)
        name = self._values.code("launch")
        for first in range(0, len(rows), MOST_BATCH_ROWS):
            part = rows[first : first + MOST_BATCH_ROWS]
            yield Flows(
                of[found[part]],
                begun[found[part]],
                to[part],
                to_ns[part],
                np.full(len(part), name, np.int32),
            )

    def _schedule(self) -> Iterator[Batch]:
        """Yield when threads ran: states of threads, tagged with the CPU."""
        running, off = self._values.code("running"), self._values.code("off-CPU")
        tags: dict[int, int] = {}
        for (time_ns, tid, cpu, is_in), _ in self._numbers(
            "SCHED_EVENTS", ["start", "globalTid", "cpu", "isSchedIn"]
        ):
            entity = self._status_codes(tid)
            for each in np.unique(cpu[is_in > 0]).tolist():
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
        codes = self._thread_codes(tids)
        for each in np.unique(codes).tolist():
            if each not in self._statuses:
                self._statuses[each] = self._paths.code((*self._trace.paths[each], STATUS))
        return np.array([self._statuses[each] for each in codes.tolist()], np.int32)

    def _samples(self) -> Iterator[Batch]:
        if not self._has("COMPOSITE_EVENTS"):
            return
        stacks = StackTableBuilder()
        stack_of = self._stacks(stacks)
        self._trace.stacks = stacks.build()
        event = self._values.code("cpu-cycles")
        wanted = ["start", "globalTid", "cpu", "cpuCycles", "id"]
        for (time_ns, tid, cpu, weight, id_), _ in self._numbers("COMPOSITE_EVENTS", wanted):
            yield Samples(
                time_ns=time_ns,
                thread=self._thread_codes(tid),
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
        have = self._columns.get("SAMPLING_CALLCHAINS", set())
        if not {"id", "symbol", "module", "stackDepth"} <= have:
            return found

        def end(id_: int) -> None:
            key = tuple(chain)
            if key not in known:
                known[key] = stacks.add(map(self._frame, reversed(key)))
            found[id_] = known[key]
            chain.clear()

        for rows in self._rows(
            "SAMPLING_CALLCHAINS", ["id", "symbol", "module"], order=" ORDER BY id, stackDepth"
        ):
            ids, symbols, modules = (column.tolist() for column in _columns_of(rows, 3))
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
            "" if id_ == _MISSING else self._trace.values[self._string(id_)] for id_ in frame
        )
        if symbol and not symbol.startswith("0x"):
            return symbol
        return f"[{module.rsplit('/', 1)[-1] or 'unknown'}]"

    def _name_entities(self) -> None:
        """Name the processes, threads and GPUs that have events."""
        trace = self._trace
        of_process = {each >> 24: each for each in self._threads}
        for rows in self._rows("PROCESSES", ["globalPid", "name"]):
            for pid, name in rows:
                if isinstance(pid, int) and pid >> 24 in of_process and isinstance(name, str):
                    path = process_path(pid >> 24 & 0xFFFFFF)
                    trace.names[self._paths.code(path)] = name
        gpus = {path[1] for path in trace.paths if path[0] == "GPUs"}
        for rows in self._rows("TARGET_INFO_GPU", ["id", "name"]):
            for id_, name in rows:
                if str(id_) in gpus and isinstance(name, str):
                    trace.names[self._paths.code(("GPUs", str(id_)))] = name
        self._name_threads()

    def _name_threads(self) -> None:
        """Name threads as they did last: by the name of the highest priority."""
        trace = self._trace
        best: dict[int, int] = {}
        for rows in self._rows("ThreadNames", ["globalTid", "nameId", "priority"]):
            tids, ids, priorities = (column.tolist() for column in _columns_of(rows, 3))
            for tid, id_, priority in zip(tids, ids, priorities, strict=True):
                code = self._threads.get(tid)
                if code is not None and id_ != _MISSING and priority >= best.get(tid, priority):
                    best[tid] = priority
                    name = trace.values[self._string(id_)]
                    trace.names[code] = name
                    if code in self._statuses:
                        trace.names[self._statuses[code]] = name

    def _declare(self) -> None:
        """Declare the lanes of what was read."""
        lanes = self._trace.lanes
        legend = [
            State(name, value, color)
            for value, (name, color) in enumerate((*_DEVICE_STATES, _IDLE))
        ]
        groups = {path[2] for path in self._trace.paths if path[0] == "GPUs" and len(path) > 3}
        if "Streams" in groups:
            lanes.append(
                LaneDeclaration(
                    "GPUs/*/Streams/*/Status", entity_kind="Stream", states=tuple(legend)
                )
            )
            lanes.append(
                LaneDeclaration(
                    "GPUs/*/Streams/*/Stack", kind="stack", entity_kind="Depth", label="Streams"
                )
            )
        if "Synchronization" in groups:
            lanes.append(
                LaneDeclaration(
                    "GPUs/*/Synchronization/*/Stack",
                    kind="stack",
                    entity_kind="Depth",
                    label="Synchronization",
                )
            )
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


def _name(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + str(name).replace('"', '""') + '"'


def _columns_of(rows: Sequence[tuple[Any, ...]], columns: int) -> list[Int64s]:
    """Return the columns of rows of integers, in which any value may be of any type."""
    try:
        flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * columns)
    except (TypeError, ValueError, OverflowError):
        return [_integers(column) for column in zip(*rows, strict=True)]
    return [*np.ascontiguousarray(flat.reshape(len(rows), columns).T)]


def _integers(column: Sequence[Any]) -> Int64s:
    """Return a column as integers, `_MISSING` for any other value."""
    last = 2**63
    whole = [
        each if isinstance(each, int) and -last <= each < last else _MISSING for each in column
    ]
    return np.array(whole, np.int64)


def _distinct(column: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different values of a column, and the index of each row's."""
    if len(column) and (column == column[0]).all():
        return column[:1], np.zeros(len(column), np.int64)
    if len(column) and int(column.min()) > -_LAST_NS and int(column.max()) < _LAST_NS:
        return ranked(column)
    different, which = np.unique(column, return_inverse=True)
    return different, which.reshape(-1)


def _combinations(columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Return a row of each combination of values, and the index of each row's combination."""
    which = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, own = _distinct(column)
        # fewer than 2**15 of each, as a part has no more rows
        which = _distinct(which * len(values) + own)[1]
    first = np.zeros(int(which.max()) + 1, np.int64)
    first[which] = np.arange(len(which))
    return first, which


def _path_of(global_tid: int) -> AttributePath:
    """Return the path of a thread: 24 bits of its process, and 24 of itself."""
    if global_tid == _MISSING:
        return thread_path("unknown")
    # an event of a process as a whole has no thread
    return thread_path(global_tid & 0xFFFFFF or "process", global_tid >> 24 & 0xFFFFFF)


def _key(process: Int64s, correlation: Int64s) -> Int64s:
    """Return what launches are found by: a process and an id, 0 for no id."""
    # a process that is not recorded is 0
    own = np.where(process == _MISSING >> 24, 0, process & 0xFFFFFF)
    own = np.where(process == _MISSING, 0, own)
    usable = (correlation > 0) & (correlation < 2**32)
    key: Int64s = np.where(usable, own << 32 | correlation & 0xFFFFFFFF, 0)
    return key
