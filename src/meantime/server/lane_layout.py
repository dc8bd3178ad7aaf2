"""Which lanes a history has, and in which blocks they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from meantime.kernels.nest import first_free
from meantime.model.attribute_paths import PROCESSES
from meantime.model.attributes import format_path, parse_pattern
from meantime.model.columns import distinct
from meantime.model.durations import Durations
from meantime.model.natural_order import natural_order
from meantime.model.state_classes import class_of, rank
from meantime.query.lifetimes import lifetimes
from meantime.query.processes import ProcessTree
from meantime.query.sample_units import sample_unit
from meantime.query.threads import process_title, thread_of, thread_quarks, threads_of
from meantime.server.lane_blocks import Block, LaneRow, PackedBlock, SpanBlock, SpanRows
from meantime.server.lane_names import (
    counter_names,
    names_of,
    own_title,
    short_title,
    split_location,
    title_of,
    title_of_process,
)
from meantime.server.sampled_stacks import sampled_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.history.lanes import Lane as Declared
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.server.lane_blocks import LaneKind

__all__ = ["LaneLayout"]

_BLOCK_LANES = 64
_BLOCK_ROWS = 256
# Groups with more lanes have groups of so many, which a page can open one at a time.
_MOST_IN_GROUP = 2_000
_PART_OF_GROUP = 1_000
# Threads with fewer spans each are not worth a call of NumPy.
_FEW_SPANS = 1_000
# Of fewer entities, the 99th percentile of how long they lived would be the longest.
_LEAST_FOR_P99 = 20
_ON_CPU, _OFF_CPU = "on-cpu", "off-cpu"
# What is between the names of a process and of a thread of it.
_IN_PROCESS = " / "
# The order of groups by a word in their names; the rest, and then spans and numbers, come last.
_FIRST = ("loop", "cpu", "request", "task", "worker")


class _Pending(NamedTuple):
    """A lane with rows of its own that waits for its block.

    Attributes:
        lane: The lane.
        unit: Lanes of one unit are in one block.
        content: What its rows consist of.
    """

    lane: LaneRow
    unit: int
    content: Any

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.lane.rows


class _Owned(NamedTuple):
    """A declaration, some of its attributes, and the process of each, -1 if it has none."""

    lane: Declared
    quarks: Int32s
    process: Int64s

    @classmethod
    def of(cls, lane: Declared, tree: ProcessTree) -> _Owned:
        return cls(lane, lane.quarks, tree.owners(lane.quarks))

    def owners(self) -> list[int]:
        """Return the processes that have some of them."""
        found: list[int] = distinct(self.process).tolist()
        return found

    def of_process(self, number: int) -> _Owned:
        """Return those of a process, or those that have none."""
        is_own = self.process == number
        return _Owned(self.lane, self.quarks[is_own], self.process[is_own])


@dataclass(slots=True)
class LaneLayout:
    """The lanes of a history that does not change.

    Attributes:
        history: The history.
        lanes: All lanes; parents are before their children.
        states: The states that lanes declare.
        blocks: By kind, the blocks.
        spans: The spans that were recorded; None if there are none.
        parts: By group that is a part of a large group, the lanes in it.
        typical_ns: By packed lane, the median and the 99th percentile of how long its entities
            lived, of those whose begin and end are both known.
        counted_event: The event whose samples are drawn over time, where those of time on a
            processor and of time off it would add up to nothing; None if all are.
    """

    history: History
    lanes: list[LaneRow] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    blocks: dict[str, list[Any]] = field(default_factory=dict)
    spans: SpanRows | None = None
    parts: dict[int, range] = field(default_factory=dict)
    typical_ns: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    counted_event: str | None = None

    @classmethod
    def of(cls, history: History) -> Self:
        """Return the lanes of a history that does not change."""
        layout = cls(history)
        layout._add_all()
        return layout

    def _add_all(self) -> None:
        history = self.history
        declared = [
            lane
            for lane in history.lanes
            if lane.declaration.kind in {"state", "object", "counter"} and len(lane.quarks)
        ]
        if not len(history.spans()):
            declared += [
                lane for lane in history.lanes if lane.declaration.kind in {"stack", "async"}
            ]
        self._add_states(declared)
        states = sorted(
            (lane for lane in declared if lane.declaration.kind != "counter"), key=_group_rank
        )
        counters = [lane for lane in declared if lane.declaration.kind == "counter"]
        tree = ProcessTree(history)
        own = [_Owned.of(lane, tree) for lane in [*states, *counters]]
        if len({owner for each in own for owner in each.owners()} - {-1}) > 1:
            self._add_processes(tree, own)
            own = [each.of_process(-1) for each in own]
        for each in own[: len(states)]:
            self._add_declared(each)
        self._add_spans()
        self._add_samples()
        for each in own[len(states) :]:
            self._add_declared(each)
        self._add_points()

    def _add_processes(self, tree: ProcessTree, own: Sequence[_Owned]) -> None:
        """Add a group for each process that has lanes, or that has started one that does."""
        shown = {index for each in own for index in each.owners()}
        for index in reversed(range(len(tree))):
            if index in shown:
                shown.add(tree.processes[index].parent)
        groups = {-1: -1}
        for index, process in enumerate(tree.processes):
            if index not in shown:
                continue
            row = LaneRow("group", groups[process.parent], process.title, process.label)
            groups[index] = self._add(row)
            for each in own:
                self._add_declared(each.of_process(index), groups[index], process.prefix)

    def _add_declared(self, owned: _Owned, above: int = -1, prefix: str = "") -> None:
        """Add the lanes of a declaration.

        Args:
            owned: The declaration, and the attributes in question.
            above: The group that contains theirs.
            prefix: What names are shown without: their process, which contains them.
        """
        if owned.lane.declaration.short_lived:
            self._add_packed(owned, above)
        else:
            kind: LaneKind = "counter" if owned.lane.declaration.kind == "counter" else "state"
            self._add_flat(owned, kind, above, prefix)

    def _add_states(self, declared: Sequence[Declared]) -> None:
        known = set()
        for lane in declared:
            for state in lane.declaration.states:
                if state.name in known:
                    continue
                known.add(state.name)
                found = class_of(state.name)
                self.states.append(
                    {
                        "name": state.name,
                        "color": state.color,
                        "class": None if found is None else found.name,
                        "rank": rank(state.name),
                    }
                )

    def _add(self, lane: LaneRow) -> int:
        self.lanes.append(lane)
        return len(self.lanes) - 1

    def _group(
        self, name: str, entities: int, pattern: str = "", above: int = -1, detail: str = ""
    ) -> int:
        return self._add(LaneRow("group", above, name, detail, entities=entities, pattern=pattern))

    def _add_flat(self, owned: _Owned, kind: LaneKind, above: int, prefix: str) -> None:
        """Add a group, and a lane for each of its attributes that ever had a value."""
        history, lane, quarks = self.history, owned.lane, owned.quarks
        if lane.declaration.kind in {"stack", "async"}:
            below = [history.attributes.children(quark) for quark in quarks.tolist()]
            quarks = np.concatenate([np.empty(0, np.int32), *below])
        quarks = quarks[history.has_values(quarks)]
        if not len(quarks):
            return
        title = title_of(lane) or ("Numbers" if kind == "counter" else "States")
        if kind == "counter":
            names = counter_names(history, quarks, title)
        else:
            names = names_of(history, quarks, lane.declaration.pattern)
        if prefix:
            names = [name.removeprefix(prefix) for name in names]
        order = natural_order(names)
        # counters have no statistics for which the group could be chosen
        pattern = "" if kind == "counter" or above >= 0 else lane.declaration.pattern
        has_namesake = any(
            title_of(other) == title and other.declaration.pattern != lane.declaration.pattern
            for other in history.lanes
        )
        is_nested = has_namesake and PROCESSES in parse_pattern(lane.declaration.pattern)
        detail = "in processes" if is_nested and above < 0 else ""
        if process := _process_of_all(names):
            # what all have in common is said once
            names = [name.removeprefix(process + _IN_PROCESS) for name in names]
            detail = " · ".join(filter(None, [detail, process]))
        group = self._group(title, len(quarks), pattern, above, detail)
        self._add_leaves(
            kind,
            group,
            [(int(quarks[index]), names[index]) for index in order],
            unit=lane.declaration.unit or "",
        )

    def _add_leaves(
        self,
        kind: LaneKind,
        group: int,
        leaves: Sequence[tuple[int, str]],
        *,
        unit: str = "",
        entities: Sequence[int] = (),
        detail: str = "",
    ) -> None:
        """Add lanes of one row.

        Args:
            kind: Their kind.
            group: The group that they are in.
            leaves: Their attributes and names.
            unit: The unit of their values.
            entities: How much is in each.
            detail: What is said of those whose names have no location.
        """
        if len(leaves) > _MOST_IN_GROUP:
            for rows in _parts(len(leaves)):
                within, counts = leaves[rows], entities[rows]
                title = f"{within[0][1]} … {within[-1][1]}"
                below = self._group(title, sum(counts) or len(within), above=group)
                self._add_leaves(kind, below, within, unit=unit, entities=counts, detail=detail)
                self.parts[below] = range(below + 1, len(self.lanes))
            return
        blocks = self.blocks.setdefault(kind, [])
        first = 0
        while first < len(leaves):
            if not blocks or len(blocks[-1].lanes) >= _BLOCK_LANES:
                blocks.append(Block([], np.empty(0, np.int32)))
            block = blocks.pop()
            part = leaves[first : first + _BLOCK_LANES - len(block.lanes)]
            begin, number = len(self.lanes), len(blocks)
            for index, (quark, name) in enumerate(part, first):
                shown, location = split_location(name)
                count = entities[index] if entities else 1
                # there may be a million: arguments by name take twice as long
                self.lanes.append(
                    LaneRow(kind, group, shown, location or detail, 1, number, quark, count, unit)
                )
            quarks = np.array([quark for quark, _ in part], np.int32)
            lanes = [*block.lanes, *range(begin, len(self.lanes))]
            blocks.append(Block(lanes, np.concatenate([block.quarks, quarks])))
            first += len(part)

    def _add_packed(self, owned: _Owned, above: int) -> None:
        """Add a group, and a lane for each site of short-lived entities."""
        from meantime.views.statemap.shared_rows import pack_rows  # noqa: PLC0415 - few histories have such
        from meantime.views.statemap.window import Window  # noqa: PLC0415 - as above

        history, lane = self.history, owned.lane
        quarks = owned.quarks[history.has_values(owned.quarks)]
        if not len(quarks) or history.start_ns == history.end_ns:
            return
        window = Window.of(history, history.start_ns, None)
        packed = pack_rows(history, quarks, window, with_process=above < 0)
        declared = lane.declaration
        pattern = declared.pattern if above < 0 else ""
        group = self._group(title_of(lane) or "Tasks", len(packed.quarks), pattern, above)
        lived = lifetimes(history, packed.quarks)
        row_of_site = np.searchsorted(packed.shared.site, np.arange(len(packed.shared.sites) + 1))
        first_of_row = packed.shared.row_offsets
        # the sites whose entities live longest are first
        begins = first_of_row[row_of_site]
        lengths = np.append(0.0, np.cumsum(lived.end_ns - lived.start_ns, dtype=np.float64))
        order = np.argsort(-np.diff(lengths[begins]), kind="stable")
        pending = []
        for site in order.tolist():
            rows = slice(*row_of_site[site : site + 2].tolist())
            part = slice(*begins[site : site + 2].tolist())
            shown, detail = split_location(packed.shared.sites[site])
            found = LaneRow(
                "packed",
                group,
                shown,
                detail,
                rows=rows.stop - rows.start,
                entities=part.stop - part.start,
                pattern=self._common_pattern(packed.quarks[part], quarks),
            )
            pending.append(_Pending(found, site, (rows, part)))
        for block in _in_blocks(pending):
            offsets = [0]
            lanes = []
            blocks = self.blocks.setdefault("packed", [])
            own_rows, parts = [], []
            for each in block:
                rows, part = each.content
                number = self._add(each.lane._replace(block=len(blocks)))
                lanes.append(number)
                begin, end = lived.start_ns[part], lived.end_ns[part]
                is_whole = (begin > history.start_ns) & (end < history.end_ns)
                if typical := _typical((end - begin)[is_whole]):
                    self.typical_ns[number] = typical
                own_rows.append(packed.rows[part] - np.int32(rows.start - offsets[-1]))
                parts.append(np.arange(part.start, part.stop))
                offsets.append(offsets[-1] + each.rows)
            chosen = np.concatenate(parts)
            blocks.append(
                PackedBlock(
                    lanes,
                    offsets,
                    packed.quarks[chosen],
                    np.concatenate(own_rows),
                    lived.start_ns[chosen],
                    lived.end_ns[chosen],
                    [packed.shared.names[each] for each in chosen.tolist()],
                )
            )

    def _common_pattern(self, chosen: Int32s, every: Int32s) -> str:
        """Return a pattern that matches only some of all entities; empty if there is none."""
        parent = self.history.attributes.parent(int(chosen[0]))
        siblings = np.intersect1d(self.history.attributes.children(parent), every)
        if parent < 0 or not np.array_equal(siblings, np.sort(chosen)):
            return ""
        return f"{format_path(self.history.attributes.path(parent))}/*"

    def _add_spans(self) -> None:
        history = self.history
        whole = history.spans()
        if not len(whole):
            return
        table = whole.by_index()
        spans = self.spans = SpanRows(table, np.zeros(len(table), np.int32), whole)
        quarks = table.threads.tolist()
        owners = threads_of(history, quarks)
        is_thread = np.isin(table.threads, thread_quarks(history)).tolist()
        begins = table.offsets[:-1]
        counts = np.diff(table.offsets)
        least, most = (
            reduce(table.depth, begins) for reduce in (np.minimum.reduceat, np.maximum.reduceat)
        )
        one_lane = np.maximum.reduceat(table.lane, begins) == 0
        rows_of = (most - least + 1).tolist()
        spans_of, flat = counts.tolist(), one_lane.tolist()
        by_process: dict[str, list[int]] = {}
        for index, (quark, whose) in enumerate(zip(quarks, owners, strict=True)):
            title = title_of_process(whose) or process_title(history, quark)
            by_process.setdefault(title, []).append(index)
        # by thread with one lane, what to add to depths for rows of the block
        shift = np.zeros(len(quarks), np.int32)
        for process, indices in by_process.items():
            # "Threads" would be taken for the group of their states
            group = self._group(process or "Calls by thread", sum(spans_of[i] for i in indices))
            threads = [i for i in indices if is_thread[i]]
            parts = [threads]
            if len(threads) > _MOST_IN_GROUP:
                parts = [threads[part] for part in _parts(len(threads))]
            for part in parts:
                titles = [short_title(owners[i]) for i in part]
                below = group
                if part is not threads:
                    title, count = f"{titles[0]} … {titles[-1]}", sum(spans_of[i] for i in part)
                    below = self._group(title, count, above=group)
                pending: list[_Pending] = []
                for i, title in zip(part, titles, strict=True):
                    if flat[i]:
                        # there may be a million: arguments by name take twice as long
                        row = LaneRow(
                            "stack",
                            below,
                            title,
                            "",
                            rows_of[i],
                            0,
                            quarks[i],
                            spans_of[i],
                        )
                        pending.append(_Pending(row, i, (quarks[i], i, None)))
                    else:
                        pending += self._thread_lanes(table, i, below, title)
                self._add_span_blocks("stack", pending, spans, shift)
                if part is not threads:
                    self.parts[below] = range(below + 1, len(self.lanes))
            others = [i for i in indices if not is_thread[i]]
            self._add_span_blocks("async", self._async_lanes(table, others, group), spans)
        _set_rows(spans, shift - least, one_lane & np.array(is_thread))

    def _thread_lanes(self, table: SpanTable, index: int, group: int, title: str) -> list[_Pending]:
        """Return the lanes of a thread of which spans partly overlap."""
        first, last = table.offsets[index : index + 2].tolist()
        quark = int(table.threads[index])
        lane, depth = table.lane[first:last], table.depth[first:last]
        found = []
        for number in np.flatnonzero(np.bincount(lane)).tolist():
            rows = np.flatnonzero(lane == number) + first
            depths = depth[rows - first]
            # a further lane may begin at any depth
            least = int(depths.min())
            count = int(depths.max()) - least + 1
            row = LaneRow(
                "stack",
                group,
                title + (f", lane {number}" if number else ""),
                rows=count,
                quark=quark,
                entities=len(depths),
            )
            found.append(_Pending(row, index, (quark, rows, depths - least)))
        return found

    def _async_lanes(self, table: SpanTable, indices: Sequence[int], group: int) -> list[_Pending]:
        """Return a lane for each kind of operation of a process."""
        operations: dict[str, list[int]] = {}
        for index in indices:
            whose = thread_of(self.history, int(table.threads[index]))
            name = (whose.path or "").rpartition("/")[0].partition("/")[2]
            operations.setdefault(name or "Async", []).append(index)
        found = []
        for name, members in operations.items():
            rows = np.concatenate([np.arange(*table.offsets[i : i + 2]) for i in members])
            rows = rows[np.lexsort((table.end_ns[rows], table.start_ns[rows]))]
            # an empty operation takes its row too, so that it is drawn
            start_ns = table.start_ns[rows]
            end_ns = np.maximum(table.end_ns[rows], start_ns + 1)
            own = first_free(start_ns, end_ns, np.array([0, len(rows)]))
            count = int(own.max()) + 1
            row = LaneRow("async", group, name, rows=count, entities=len(rows))
            found.append(_Pending(row, members[0], (table.threads[members], rows, own)))
        return found

    def _add_span_blocks(
        self,
        kind: Literal["stack", "async"],
        pending: Sequence[_Pending],
        spans: SpanRows,
        shift: Int32s | None = None,
    ) -> None:
        """Add lanes of spans.

        Args:
            kind: Their kind.
            pending: The lanes.
            spans: Receives the row of each span.
            shift: Receives the first row of lanes that are all of a thread, by its index.
        """
        if not pending:
            return
        blocks = self.blocks.setdefault(kind, [])
        for block in _in_blocks(pending):
            offsets = [0]
            lanes = []
            for each in block:
                _, rows, own = each.content
                if own is None:
                    assert shift is not None
                    shift[rows] = offsets[-1]
                else:
                    spans.row[rows] = own + offsets[-1]
                lanes.append(self._add(each.lane.in_block(len(blocks))))
                offsets.append(offsets[-1] + each.rows)
            threads = _of_lanes([each.content[0] for each in block])
            all_threads = np.concatenate(threads)
            if len(threads) > 1:
                all_threads = distinct(all_threads)
            blocks.append(SpanBlock(lanes, offsets, all_threads, spans, threads))

    def _add_samples(self) -> None:
        """Add the samples of threads over time, and their stacks as far as samples show them."""
        history = self.history
        samples = history.samples()
        if not len(samples):
            return
        quarks, counts = np.unique(samples.thread, return_counts=True)
        by_process: dict[str, list[int]] = {}
        for index, quark in enumerate(quarks.tolist()):
            by_process.setdefault(process_title(history, quark), []).append(index)
        stacks, spans = sampled_stacks(history)
        unit = sample_unit(samples)
        codes = distinct(samples.event.codes).tolist()
        if {_ON_CPU, _OFF_CPU} <= {samples.event.names[code] for code in codes if code >= 0}:
            self.counted_event = _ON_CPU
        for process, indices in by_process.items():
            title = f"{process}: samples" if process else "Samples"
            group = self._group(title, int(counts[indices].sum()))
            leaves = [(int(quarks[i]), own_title(history, int(quarks[i]))) for i in indices]
            # the busiest first: of many threads most do nothing
            order = natural_order([name for _, name in leaves])
            order = sorted(order, key=lambda index: -int(counts[indices[index]]))
            self._add_leaves(
                "density",
                group,
                [leaves[index] for index in order],
                unit=unit,
                entities=[int(counts[indices[index]]) for index in order],
                detail=self.counted_event or "",
            )
            if spans is None:
                continue
            pending = []
            for quark, name in [leaves[index] for index in order]:
                if quark not in stacks:
                    continue
                rows = slice(*stacks[quark])
                depth = spans.table.depth[rows]
                row = LaneRow(
                    "stack",
                    group,
                    name,
                    rows=int(depth.max()) + 1,
                    quark=quark,
                    entities=len(depth),
                    estimated=True,
                )
                pending.append(_Pending(row, quark, (quark, rows, depth)))
            self._add_span_blocks("stack", pending, spans)

    def _add_points(self) -> None:
        quarks, counts = np.unique(self.history.points().quark, return_counts=True)
        if not len(quarks):
            return
        names = names_of(self.history, quarks)
        order = natural_order(names)
        group = self._group("Instants", int(counts.sum()))
        self._add_leaves(
            "points",
            group,
            [(int(quarks[index]), names[index]) for index in order],
            entities=counts[order].tolist(),
        )


def _typical(lengths_ns: Int64s) -> tuple[int, int | None] | None:
    """Return the median of lengths, and of 20 and more the 99th percentile; None of none."""
    count = len(lengths_ns)
    if not count:
        return None
    found: Durations[int, float] = Durations.of(lengths_ns)
    return found.median_ns, found.p99_ns if count >= _LEAST_FOR_P99 else None


def _process_of_all(names: Sequence[str]) -> str:
    """Return the process before the names of several threads; empty if these differ in it."""
    process, separator, _ = names[0].partition(_IN_PROCESS)
    if not separator or len(names) == 1:
        return ""
    return process if all(name.startswith(process + separator) for name in names) else ""


def _group_rank(lane: Declared) -> int:
    name = lane.declaration.name.lower()
    return next((at for at, word in enumerate(_FIRST) if word in name), len(_FIRST))


def _in_blocks(pending: Sequence[_Pending]) -> Iterator[list[_Pending]]:
    """Yield lanes in blocks that are not too large; a unit with many rows is alone."""
    block: list[_Pending] = []
    rows = 0
    for _, grouped in groupby(pending, lambda each: each.unit):
        unit = list(grouped)
        unit_rows = sum(each.rows for each in unit)
        if block and (len(block) + len(unit) > _BLOCK_LANES or rows + unit_rows > _BLOCK_ROWS):
            yield block
            block, rows = [], 0
        block += unit
        rows += unit_rows
    if block:
        yield block


def _of_lanes(quarks: Sequence[int | Int32s]) -> list[Int32s]:
    """Return by lane its attributes, of which most have one."""
    if all(type(each) is int for each in quarks):
        listed = np.array(quarks, np.int32)
        return [listed[index : index + 1] for index in range(len(listed))]
    return [np.array(each, np.int32, ndmin=1) for each in quarks]


def _parts(count: int) -> Iterator[slice]:
    """Yield the parts of a large group."""
    for first in range(0, count, _PART_OF_GROUP):
        yield slice(first, first + _PART_OF_GROUP)


def _set_rows(spans: SpanRows, shift: Int32s, chosen: npt.NDArray[np.bool_]) -> None:
    """Set the rows of the spans of some threads to their depths, shifted by a number by thread."""
    offsets, depth = spans.table.offsets, spans.table.depth
    if len(depth) < _FEW_SPANS * len(shift):
        counts = np.diff(offsets)
        rows = depth + np.repeat(shift, counts)
        np.copyto(spans.row, rows, where=np.repeat(chosen, counts))
        return
    for index in np.flatnonzero(chosen).tolist():
        part = slice(*offsets[index : index + 2].tolist())
        np.add(depth[part], shift[index], out=spans.row[part])
