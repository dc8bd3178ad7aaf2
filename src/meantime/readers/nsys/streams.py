"""What ran on the streams of GPUs, what each stream did over time, and what launched it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.attribute_paths import STATUS
from meantime.model.columns import distinct
from meantime.model.trace import Flows, LaneDeclaration, State, StateChanges
from meantime.readers.contract import MOST_BATCH_ROWS
from meantime.readers.nsys.codes import combinations, launch_key
from meantime.readers.nsys.database import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.attributes import Path as AttributePath
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch
    from meantime.readers.nsys.codes import Codes

__all__ = ["KERNELS", "TABLES", "Streams"]

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
_FILLS = "CUPTI_ACTIVITY_KIND_MEMSET"
_SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
# The tables that are read here.
TABLES = (KERNELS, _COPIES, _FILLS, _SYNCS)
_ALL_STREAMS = 2**32 - 1
# From the one that is drawn if several are open at once.
_DEVICE_STATES = (("kernel", "#1d8759"), ("memcpy", "#659cd3"), ("memset", "#f6b324"))
_IDLE = ("idle", "#ebedf1")
_COPY_KINDS = (
    "", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array",
    "Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer",
    "Unified Host-to-Device", "Unified Device-to-Host", "Unified Device-to-Device",
)  # fmt: skip
_SYNC_KINDS = ("", "event", "stream wait", "stream", "context")


class _Device(NamedTuple):
    """What ran on streams: kept until launches and states are known."""

    start_ns: Int64s
    end_ns: Int64s
    entity: Int32s
    key: Int64s
    kind: int


class Streams:
    """Reads what ran on devices."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._trace = codes.trace
        self._tables = codes.tables
        self._streams: dict[tuple[int, int, int, int, bool], int] = {}
        self._stream_paths: set[AttributePath] = set()
        self._devices: list[_Device] = []

    def batches(self) -> Iterator[Batch]:
        """Yield kernels, copies and synchronizations."""
        yield from self._kernels()
        yield from self._copies()
        yield from self._syncs()

    def _stream_codes(
        self, device: Int64s, context: Int64s, stream: Int64s, pid: Int64s, *, is_sync: bool = False
    ) -> Int32s:
        columns = (device, pid, context, stream)
        first, which = combinations(columns)
        codes = []
        for key in zip(*(column[first].tolist() for column in columns), strict=True):
            known = (*key, is_sync)
            if known not in self._streams:
                number, process, of, id_ = (0 if each == MISSING else each for each in key)
                group = "Synchronization" if is_sync else "Streams"
                called = "all" if id_ == _ALL_STREAMS else str(id_)
                path: AttributePath = ("GPUs", str(number), group, called)
                # ids are those of a context of a process
                if path in self._stream_paths:
                    path = (*path[:3], f"{called} of {process >> 24 & 0xFFFFFF}")
                if path in self._stream_paths:
                    path = (*path[:3], f"{path[3]} context {of}")
                self._stream_paths.add(path)
                self._streams[known] = self._codes.paths.code(path)
            codes.append(self._streams[known])
        return np.array(codes, np.int32)[which]

    def _on_device(
        self, table: str, kind: int, extra: Sequence[str]
    ) -> Iterator[tuple[list[Int64s], Int32s]]:
        """Yield begin, end and the extra columns of what ran on streams, and its streams."""
        wanted = ["start", "end", "deviceId", "contextId", "streamId", "globalPid", "correlationId"]
        for numbers, _ in self._tables.numbers(table, [*wanted, *extra]):
            start, end, device, context, stream, pid, correlation = numbers[:7]
            end = np.where(end == MISSING, start, end)
            entity = self._stream_codes(device, context, stream, pid)
            key = launch_key(pid >> 24, correlation)
            if "globalPid" not in self._tables.columns[table]:
                key = launch_key(np.full(len(pid), MISSING), correlation)
            self._devices.append(_Device(start, np.maximum(start, end), entity, key, kind))
            yield [start, end, *numbers[7:]], entity

    def _kernels(self) -> Iterator[Batch]:
        have = self._tables.columns.get(KERNELS, set())
        sizes = [f"{part}{axis}" for part in ("grid", "block") for axis in "XYZ"]
        extra = ["shortName" if "shortName" in have else "demangledName", *sizes]
        with_sizes = set(sizes) <= have
        for (start, end, name, *size), entity in self._on_device(KERNELS, 0, extra):
            arguments = (
                self._codes.arguments(size, '{"grid":"%dx%dx%d","block":"%dx%dx%d"}')
                if with_sizes
                else None
            )
            yield self._codes.spans(
                start, end, entity, self._codes.names(name), "kernel", arguments
            )

    def _copies(self) -> Iterator[Batch]:
        for table, kind, extra in ((_COPIES, 1, "copyKind"), (_FILLS, 2, "value")):
            category = _DEVICE_STATES[kind][0]
            with_bytes = "bytes" in self._tables.columns.get(table, ())
            for (start, end, how, size), entity in self._on_device(table, kind, [extra, "bytes"]):
                name = (
                    self._codes.kinds(how, category, _COPY_KINDS)
                    if table == _COPIES
                    else np.full(len(entity), self._codes.values.code(category), np.int32)
                )
                arguments = self._codes.arguments([size], '{"bytes":%d}') if with_bytes else None
                yield self._codes.spans(start, end, entity, name, category, arguments)

    def _syncs(self) -> Iterator[Batch]:
        wanted = ["start", "end", "deviceId", "contextId", "streamId", "globalPid", "syncType"]
        for (start, end, device, context, stream, pid, kind), _ in self._tables.numbers(
            _SYNCS, wanted
        ):
            entity = self._stream_codes(device, context, stream, pid, is_sync=True)
            name = self._codes.kinds(kind, "synchronize", _SYNC_KINDS)
            end = np.where(end == MISSING, start, end)  # noqa: PLW2901 - the same column
            yield self._codes.spans(start, end, entity, name, "synchronization")

    def states(self) -> Iterator[Batch]:
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
        codes = np.array([*map(self._codes.values.code, names), -1], np.int32)
        statuses = np.zeros(len(self._trace.paths), np.int32)
        for each in distinct(of).tolist():
            statuses[each] = self._codes.paths.code((*self._trace.paths[each], STATUS))
        for first in range(0, len(time_ns), MOST_BATCH_ROWS):
            part = slice(first, first + MOST_BATCH_ROWS)
            yield StateChanges(
                time_ns[part],
                statuses[of[part]],
                codes[state[part]],
                np.full(len(time_ns[part]), -1, np.int32),
            )

    def flows(self, launches: Sequence[tuple[Int64s, Int64s, Int32s]]) -> Iterator[Batch]:
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
        if launches:
            own = np.concatenate([each[0] for each in launches])
            begun = np.concatenate([each[1] for each in launches])
            of = np.concatenate([each[2] for each in launches])
            for rows, keys in ((~alone, own), (alone, own & 0xFFFFFFFF)):
                order = np.argsort(keys, kind="stable")
                at = np.searchsorted(keys[order], key[rows])
                at = order[np.minimum(at, len(order) - 1)]
                found[rows] = np.where((keys[at] == key[rows]) & (key[rows] != 0), at, -1)
        is_known = found >= 0
        is_known[is_known] &= begun[found[is_known]] <= to_ns[is_known]
        self._trace.anomalies.add("flow_without_begin", int((~is_known).sum()))
        rows = np.flatnonzero(is_known)
        name = self._codes.values.code("launch")
        for first in range(0, len(rows), MOST_BATCH_ROWS):
            part = rows[first : first + MOST_BATCH_ROWS]
            yield Flows(
                of[found[part]],
                begun[found[part]],
                to[part],
                to_ns[part],
                np.full(len(part), name, np.int32),
            )

    def declare(self) -> None:
        """Declare the lanes of streams."""
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
