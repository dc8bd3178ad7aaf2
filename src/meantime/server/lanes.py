"""The lanes of a history as a tree, and the blocks in which tiles have them."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.attribute_paths import CPUS, HOSTS, PROCESSES, STATUS, THREADS
from meantime.attributes import ANY, ANY_DEPTH, ROOT, entity_name, format_path, parse_pattern
from meantime.columns import Coded
from meantime.errors import UsageError
from meantime.history.spans import SpanTable
from meantime.kernels.nest import first_free
from meantime.query.lifetimes import lifetimes
from meantime.query.processes import ProcessTree
from meantime.query.state_durations import nearest_rank
from meantime.query.threads import Thread, thread_of, thread_quarks, thread_title, threads_of
from meantime.query.trees import sample_unit
from meantime.server.span_overview import Outermost, SpanOverview
from meantime.trace import ArgumentText
from meantime.views.flame.events import process_title
from meantime.views.flame.sample_chart import sample_chart
from meantime.views.state_classes import class_of, rank
from meantime.views.statemap.rows import natural_order
from meantime.views.statemap.shared_rows import pack_rows
from meantime.views.statemap.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history import History
    from meantime.history.lanes import Lane as Declared

__all__ = ["Block", "LaneKind", "LaneTree", "PackedBlock", "SpanBlock", "SpanRows"]

LaneKind: TypeAlias = Literal[
    "group", "state", "packed", "stack", "async", "counter", "density", "points"
]

_BLOCK_LANES = 64
_BLOCK_ROWS = 256
# Groups with more lanes have groups of so many, which a page can open one at a time.
_MOST_IN_GROUP = 2_000
_PART_OF_GROUP = 1_000
# Of more lanes, a page asks for the names of those in such a group once it opens it.
_MOST_NAMED = 20_000
# Threads with fewer spans each are not worth a call of NumPy.
_FEW_SPANS = 1_000
# The order of groups by a word in their names; the rest, and then spans and numbers, come last.
_FIRST = ("loop", "cpu", "request", "task", "worker")
_ON_CPU = (CPUS, ANY, "Thread")
_LEAST_FOR_P99 = 20
_LOCATION = re.compile(r"(?P<name>.+?) \((?P<location>[^()]*:\d+)\)")


class LaneRow(NamedTuple):
    """A lane as the page sees it; see `docs/reference/tiles.md`."""

    kind: LaneKind
    parent: int
    name: str
    detail: str = ""
    rows: int = 0
    block: int = 0
    quark: int = -1
    entities: int = 0
    unit: str = ""
    estimated: bool = False
    pattern: str = ""

    def in_block(self, block: int) -> LaneRow:
        """Return the same lane in a block."""
        # `_replace` takes five times as long, and there may be a million
        return LaneRow._make((*self[:_BLOCK], block, *self[_BLOCK + 1 :]))


_BLOCK = LaneRow._fields.index("block")


@dataclass(frozen=True, slots=True)
class Block:
    """Lanes that a tile has together.

    Attributes:
        lanes: Their numbers.
        quarks: The attribute of each.
    """

    lanes: list[int]
    quarks: Int32s


@dataclass(frozen=True, slots=True)
class SpanRows:
    """A table of spans, and the row of each in its block.

    Attributes:
        table: The spans, whose numbers are their indices in it.
        row: int32, by span.
        numbered: The same spans with their numbers in the history; None of those that samples show.
        samples: int32, how many samples each stands for; None of spans that were recorded.
    """

    table: SpanTable
    row: Int32s
    numbered: SpanTable | None = None
    samples: Int32s | None = None

    @property
    def numbers(self) -> Int32s | None:
        """int32, the number of each in the history; None of spans that samples show."""
        return None if self.numbered is None else self.numbered.rows


@dataclass(frozen=True, slots=True)
class SpanBlock:
    """Lanes of spans.

    Attributes:
        lanes: Their numbers.
        row_offsets: Lane i has the rows [row_offsets[i], row_offsets[i + 1]) of the block.
        threads: The quarks whose spans are in the block.
        spans: All spans of their kind.
        lane_threads: By lane, its quarks.
    """

    lanes: list[int]
    row_offsets: list[int]
    threads: Int32s
    spans: SpanRows
    lane_threads: list[Int32s]

    def place(self, row: int) -> tuple[int, int]:
        """Return the lane of a row of the block, and which of its rows it is."""
        index = bisect_right(self.row_offsets, row) - 1
        return self.lanes[index], row - self.row_offsets[index]


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """Lanes of entities that share rows.

    Attributes:
        lanes: Their numbers.
        row_offsets: Lane i has the rows [row_offsets[i], row_offsets[i + 1]) of the block.
        quarks: The entities, by row, and there in order of time.
        row: The row of each in the block.
        start_ns: When each began.
        end_ns: When it ended.
        names: What each is called.
    """

    lanes: list[int]
    row_offsets: list[int]
    quarks: Int32s
    row: Int32s
    start_ns: Int64s
    end_ns: Int64s
    names: Sequence[str]

    def of_lane(self, index: int) -> Int32s:
        """Return the entities of one of the lanes."""
        first, last = self.row_offsets[index : index + 2]
        return self.quarks[(self.row >= first) & (self.row < last)]

    def place(self, row: int) -> tuple[int, int]:
        """Return the lane of a row of the block, and which of its rows it is."""
        index = bisect_right(self.row_offsets, row) - 1
        return self.lanes[index], row - self.row_offsets[index]


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
        found: list[int] = np.unique(self.process).tolist()
        return found

    def of_process(self, number: int) -> _Owned:
        """Return those of a process, or those that have none."""
        is_own = self.process == number
        return _Owned(self.lane, self.quarks[is_own], self.process[is_own])


@dataclass(slots=True)
class LaneTree:
    """The lanes of one moment of a history.

    Attributes:
        history: The history, which does not change.
        lanes: All lanes; parents are before their children.
        states: The states that lanes declare.
        blocks: By kind, the blocks.
        spans: The spans that were recorded; None if there are none.
        parts: By group that is a part of a large group, the lanes in it.
        typical_ns: By packed lane, the median and the 99th percentile of how long its entities
            lived, of those whose begin and end are both known.
    """

    history: History
    lanes: list[LaneRow] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    blocks: dict[str, list[Any]] = field(default_factory=dict)
    spans: SpanRows | None = None
    parts: dict[int, range] = field(default_factory=dict)
    typical_ns: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    _lane_of: dict[int, int] | None = None
    _overviews: dict[int, SpanOverview | None] = field(default_factory=dict)
    _outermost: dict[int, Outermost] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, history: History) -> LaneTree:
        """Return the lanes of a history that does not change."""
        tree = cls(history)
        tree._add_all()
        return tree

    def overview(self, block: SpanBlock) -> SpanOverview | None:
        """Return the sums of a block's spans that wide tiles are made of, if that saves time.

        A growing history has none: its next moment would need another one.
        """
        history = self.history
        if not history.built:
            return None
        key = block.lanes[0]
        with self._lock:
            if key not in self._overviews:
                self._overviews[key] = SpanOverview.of(
                    block.spans.table,
                    block.spans.row,
                    threads=block.threads,
                    rows=block.row_offsets[-1],
                    range_ns=(history.start_ns, history.end_ns),
                )
            return self._overviews[key]

    def outermost(self, block: SpanBlock, *, nested: bool) -> Outermost:
        """Return the outermost spans of a block; see `Outermost.of`."""
        key = block.lanes[0]
        with self._lock:
            if key not in self._outermost:
                self._outermost[key] = Outermost.of(
                    block.spans.table,
                    block.spans.row,
                    threads=block.threads,
                    row_offsets=block.row_offsets,
                    nested=nested,
                )
            return self._outermost[key]

    def is_like(self, other: LaneTree) -> bool:
        """Return whether the lanes of another moment of the history are the same."""
        if self.states != other.states or self.lanes != other.lanes:
            return False
        # of a file that was read again, the same numbers may be other attributes
        every = range(len(self.lanes))
        return self.names(every) == other.names(every)

    def columns(self, *, every_name: bool = True) -> dict[str, Any]:
        """Return the lanes as JSON values: a list for each property.

        Args:
            every_name: Whether all lanes have names and paths. Otherwise, of many lanes, those in
                parts of large groups have None; `names` returns theirs.
        """
        lanes = self.lanes
        unnamed = self.parts if len(lanes) > _MOST_NAMED and not every_name else {}
        named = [number for number, lane in enumerate(lanes) if lane.parent not in unnamed]
        names = self.names(named)
        if unnamed:
            index_of = np.full(len(lanes), len(named))
            index_of[named] = np.arange(len(named))
            names = {
                name: [*map([*column, None].__getitem__, index_of.tolist())]
                for name, column in names.items()
            }
        return {
            "count": len(lanes),
            "parent": [lane.parent for lane in lanes],
            "kind": [lane.kind for lane in lanes],
            **names,
            "rows": [lane.rows for lane in lanes],
            "block": [lane.block for lane in lanes],
            "quark": [lane.quark for lane in lanes],
            "pattern": [lane.pattern or None for lane in lanes],
            "entities": [lane.entities for lane in lanes],
            "median_ns": self._typical_column(0),
            "p99_ns": self._typical_column(1),
            "unit": [lane.unit for lane in lanes],
            "states": self.states,
            "scheduled": bool(len(self.history.attributes.quarks(_ON_CPU))),
            "estimated": [int(lane.estimated) for lane in lanes],
        }

    def _typical_column(self, which: int) -> list[str | None]:
        column: list[str | None] = [None] * len(self.lanes)
        for lane, typical_ns in self.typical_ns.items():
            value = typical_ns[which]
            column[lane] = None if value is None else str(value)
        return column

    def names(self, lanes: Sequence[int]) -> dict[str, list[Any]]:
        """Return what lanes are called, and their paths, as columns."""
        rows = [self.lanes[number] for number in lanes]
        handles = iter(_handles(self.history, [row.quark for row in rows if row.quark >= 0]))
        return {
            "name": [row.name for row in rows],
            "detail": [row.detail for row in rows],
            "handle": [next(handles) if row.quark >= 0 else "" for row in rows],
        }

    def path(self, lane: int) -> str:
        """Return the path of a lane's attribute; empty if it has none."""
        quark = self.lanes[lane].quark
        return self.handle(quark) if quark >= 0 else ""

    def at_paths(self, paths: Iterable[str]) -> list[int]:
        """Return the first lane of each attribute with one of these paths that has one."""
        wanted = set()
        for path in paths:
            try:
                elements = parse_pattern(path)
            except UsageError:
                continue
            names = [element for element in elements if isinstance(element, str)]
            if names and len(names) == len(elements):
                wanted.add(self.history.attributes.find(*names))
        found: dict[int, int] = {}
        for number, lane in enumerate(self.lanes):
            if lane.quark in wanted:
                found.setdefault(lane.quark, number)
        return sorted(found.values())

    def containing(self, text: str) -> list[int]:
        """Return the first lane of each part of a large group with a text in its name or path."""
        needle = text.lower()
        found = []
        for lanes in self.parts.values():
            names = self.names(lanes)
            for number, name, path in zip(lanes, names["name"], names["handle"], strict=True):
                if needle in name.lower() or needle in path.lower():
                    found.append(number)
                    break
        return found

    def below(self, lanes: Iterable[int]) -> list[int]:
        """Return lanes that are not groups: these, and those below the groups among them."""
        chosen = set(lanes)
        if not any(self.lanes[lane].kind == "group" for lane in chosen):
            return sorted(chosen)
        for number, lane in enumerate(self.lanes):
            if lane.parent in chosen:
                chosen.add(number)
        return sorted(lane for lane in chosen if self.lanes[lane].kind != "group")

    def within_block(self, lane: int) -> tuple[Any, int]:
        """Return the block of a lane, and which of its lanes it is."""
        row = self.lanes[lane]
        block = self.blocks[row.kind][row.block]
        return block, block.lanes.index(lane)

    def quarks(self, lanes: Iterable[int]) -> Int32s:
        """Return the attributes of lanes of states, samples, points and spans."""
        found: list[Int32s] = []
        own = []
        for number in self.below(lanes):
            lane = self.lanes[number]
            if lane.kind not in {"packed", "stack", "async"}:
                own.append(lane.quark)
                continue
            block, index = self.within_block(number)
            if isinstance(block, SpanBlock):
                found.append(block.lane_threads[index])
            else:
                found.append(block.of_lane(index))
        return np.unique(np.concatenate([np.array(own, np.int32), *found]))

    def entities(self, lanes: Iterable[int]) -> tuple[Int32s, Int32s]:
        """Return the attributes of lanes of states, and those of packed lanes."""
        below = self.below(lanes)
        own = [self.lanes[lane].quark for lane in below if self.lanes[lane].kind == "state"]
        packed = [np.empty(0, np.int32)]
        for lane in below:
            if self.lanes[lane].kind == "packed":
                block, index = self.within_block(lane)
                packed.append(block.of_lane(index))
        return np.array(own, np.int32), np.concatenate(packed)

    def places(self, quarks: Int32s) -> dict[int, tuple[int, int]]:
        """Return the lane and the row there of those of some attributes that have one."""
        if self._lane_of is None:
            self._lane_of = {
                lane.quark: number
                for number, lane in reversed(list(enumerate(self.lanes)))
                if lane.kind in {"stack", "state", "points"}
            }
        asked = quarks.tolist()
        known = self._lane_of
        found = {quark: (known[quark], 0) for quark in asked if quark in known}
        for block in self.blocks.get("packed", []):
            for each in np.flatnonzero(np.isin(block.quarks, asked)).tolist():
                found[int(block.quarks[each])] = block.place(int(block.row[each]))
        return found

    def place_of_span(self, quark: int, index: int) -> tuple[int, int]:
        """Return the lane and the row there of a span of this thread, by its index in `spans`.

        Raises:
            LookupError: If it is in no lane.
        """
        for kind in ("stack", "async"):
            for block in self.blocks.get(kind, []):
                if block.spans.samples is None and quark in block.threads:
                    lane, row = block.place(int(block.spans.row[index]))
                    if quark in block.lane_threads[block.lanes.index(lane)]:
                        return lane, row
        raise LookupError(f"the span at {index} is in no lane")

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
        title = _title(lane) or ("Numbers" if kind == "counter" else "States")
        if kind == "counter":
            names = _counter_names(history, quarks, title)
        else:
            names = _names(history, quarks, lane.declaration.pattern)
        if prefix:
            names = [name.removeprefix(prefix) for name in names]
        order = natural_order(names)
        # counters have no statistics for which the group could be chosen
        pattern = "" if kind == "counter" or above >= 0 else lane.declaration.pattern
        has_namesake = any(
            _title(other) == title and other.declaration.pattern != lane.declaration.pattern
            for other in history.lanes
        )
        is_nested = has_namesake and PROCESSES in parse_pattern(lane.declaration.pattern)
        detail = "in processes" if is_nested and above < 0 else ""
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
    ) -> None:
        """Add lanes of one row."""
        if len(leaves) > _MOST_IN_GROUP:
            for rows in _parts(len(leaves)):
                within, counts = leaves[rows], entities[rows]
                title = f"{within[0][1]} … {within[-1][1]}"
                below = self._group(title, sum(counts) or len(within), above=group)
                self._add_leaves(kind, below, within, unit=unit, entities=counts)
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
                shown, detail = _location(name)
                count = entities[index] if entities else 1
                # there may be a million: arguments by name take twice as long
                self.lanes.append(
                    LaneRow(kind, group, shown, detail, 1, number, quark, count, unit)
                )
            quarks = np.array([quark for quark, _ in part], np.int32)
            lanes = [*block.lanes, *range(begin, len(self.lanes))]
            blocks.append(Block(lanes, np.concatenate([block.quarks, quarks])))
            first += len(part)

    def handle(self, quark: int) -> str:
        """Return the path of an attribute, as commands take it."""
        return format_path(self.history.attributes.path(quark))

    def _add_packed(self, owned: _Owned, above: int) -> None:
        """Add a group, and a lane for each site of short-lived entities."""
        history, lane = self.history, owned.lane
        quarks = owned.quarks[history.has_values(owned.quarks)]
        if not len(quarks) or history.start_ns == history.end_ns:
            return
        window = Window.of(history, history.start_ns, None)
        packed = pack_rows(history, quarks, window, with_process=above < 0)
        declared = lane.declaration
        pattern = declared.pattern if above < 0 else ""
        group = self._group(_title(lane) or "Tasks", len(packed.quarks), pattern, above)
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
            shown, detail = _location(packed.shared.sites[site])
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
        return f"{self.handle(parent)}/*"

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
            title = _process_title(whose) or process_title(history, quark)
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
                titles = [_short_title(owners[i]) for i in part]
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
                all_threads = np.unique(all_threads)
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
        stacks, spans = _sampled_stacks(history)
        unit = sample_unit(samples)
        for process, indices in by_process.items():
            title = f"{process}: samples" if process else "Samples"
            group = self._group(title, int(counts[indices].sum()))
            leaves = [(int(quarks[i]), _own_title(history, int(quarks[i]))) for i in indices]
            order = natural_order([name for _, name in leaves])
            self._add_leaves(
                "density",
                group,
                [leaves[index] for index in order],
                unit=unit,
                entities=[int(counts[indices[index]]) for index in order],
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
        names = _names(self.history, quarks)
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
    ordered = np.sort(lengths_ns)
    median, p99 = (int(ordered[nearest_rank(count, percent)]) for percent in (50, 99))
    return median, p99 if count >= _LEAST_FOR_P99 else None


def _title(lane: Declared) -> str:
    """Return what to call a group of lanes: as declared, otherwise by the names in its paths.

    That of hosts says least: it is the title only if nothing else is.
    """
    declaration = lane.declaration
    if declaration.label or declaration.entity_kind:
        return declaration.name
    names = [each for each in parse_pattern(declaration.pattern) if isinstance(each, str)]
    if len(names) > 1 and names[0] == HOSTS:
        del names[0]
    return "/".join(names)


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


def _handles(history: History, quarks: Sequence[int]) -> list[str]:
    """Return the paths of attributes as commands take them: most have one parent."""
    attributes = history.attributes
    names = attributes.names(quarks)
    parents = attributes.parents(np.array(quarks, np.int32)).tolist()
    above = {parent: f"{attributes.text(parent)}/" for parent in {*parents} - {ROOT}}
    above[ROOT] = ""
    return [
        above[parent] + format_path((name,)) for name, parent in zip(names, parents, strict=True)
    ]


def _parts(count: int) -> Iterator[slice]:
    """Yield the parts of a large group."""
    for first in range(0, count, _PART_OF_GROUP):
        yield slice(first, first + _PART_OF_GROUP)


def _location(name: str) -> tuple[str, str]:
    """Return a name without the code location at its end, and that.

    >>> _location("worker (shop.py:30)"), _location("main")
    (('worker', 'shop.py:30'), ('main', ''))
    """
    if not name.endswith(")"):
        return name, ""
    found = _LOCATION.fullmatch(name)
    return (found["name"], found["location"]) if found else (name, "")


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


def _process_title(whose: Thread) -> str:
    """Return the title of the process of a thread; empty if that is unknown."""
    return f"{whose.process} {whose.pid}" if whose.process else str(whose.pid)


def _own_title(history: History, quark: int) -> str:
    """Return the title of a thread below its process."""
    return _short_title(thread_of(history, quark))


def _short_title(whose: Thread) -> str:
    """Return the title of a thread below its process; its id only where the name lacks it."""
    if whose.name is not None and re.search(rf"\b{re.escape(str(whose.tid))}\b", whose.name):
        return whose.name
    return thread_title(Thread("", whose.tid, None, whose.name, whose.path))


def _full_title(history: History, quark: int) -> str:
    """Return the title of a thread with that of its process."""
    process = process_title(history, quark)
    own = _own_title(history, quark)
    return f"{process} / {own}" if process else own


def _names(history: History, quarks: Int32s, pattern: str = "") -> list[str]:
    """Return what attributes are called: what the wildcards of their pattern match.

    Without a pattern, it is what differs in their paths. Threads have their titles.
    """
    attributes, given = history.attributes, history.names
    # there may be a million, and most have one parent
    parents = attributes.parents(quarks).tolist()
    above = {parent: attributes.path(parent) for parent in {*parents} - {ROOT}}
    above[ROOT] = ()
    last_names = attributes.names(quarks.tolist())
    paths = [(*above[parent], name) for name, parent in zip(last_names, parents, strict=True)]
    elements = parse_pattern(pattern)
    is_name = [isinstance(each, str) for each in elements]
    first = last = 0
    if ANY_DEPTH in elements or False not in is_name:
        if len(paths) > 1:
            shortest = min(map(len, paths))
            same = [len({path[i] for path in paths}) == 1 for i in range(shortest)]
            first = same.index(False) if False in same else 0
    else:
        first, last = is_name.index(False), is_name[::-1].index(False)
    named = [
        path[first]
        if len(path) == first + 1 + last
        else entity_name(path[first : len(path) - last] or path)
        for path in paths
    ]
    of_threads = {
        parent
        for parent, path in above.items()
        if path[:1] == (PROCESSES,) and path[-1:] == (THREADS,)
    }
    if not (given or of_threads or STATUS in last_names):
        return named
    for index, (quark, path) in enumerate(zip(quarks.tolist(), paths, strict=True)):
        # the states of a thread are an attribute below it
        own, of = (attributes.parent(quark), path[:-1]) if path[-1] == STATUS else (quark, path)
        if of[:1] == (PROCESSES,) and of[-2:-1] == (THREADS,):
            named[index] = _full_title(history, own)
        elif own in given:
            named[index] = f"{given[own]} {named[index]}"
    return named


def _counter_names(history: History, quarks: Int32s, title: str) -> list[str]:
    """Return what counters below a title are called: the names in their paths that differ.

    The counters of processes are called by these, by their names and by their series.
    """
    attributes, given = history.attributes, history.names
    paths = [attributes.path(quark) for quark in quarks.tolist()]
    if len({len(path) for path in paths}) > 1 or len(paths[0]) == 1:
        return _names(history, quarks)
    columns: list[Sequence[str]] = [*zip(*paths, strict=True)]
    if len(columns) > 1 and set(columns[0]) == {PROCESSES}:
        numbers = dict.fromkeys(columns[1])
        for number in numbers:
            name = given.get(attributes.quark(PROCESSES, number))
            numbers[number] = f"{name} {number}" if name else number
        columns[1] = [numbers[number] or "" for number in columns[1]]
    different = [column for column in columns if len(set(column)) > 1]
    if not different:
        # one counter: the last name that is not above it already
        different = [column for column in columns if column[0] != title][-1:] or columns[-1:]
    return ["/".join(names) for names in zip(*different, strict=True)]


def _sampled_stacks(history: History) -> tuple[dict[int, tuple[int, int]], SpanRows | None]:
    """Return the stacks that samples show as spans, and the rows of each thread among them."""
    samples = history.samples()
    if len(thread_quarks(history)) or not (samples.stack >= 0).any():
        return {}, None
    end_ns = max(history.bounds[1], int(samples.time_ns[-1]) + 1)
    chart = sample_chart(
        history, title="", start_ns=min(history.bounds[0], int(samples.time_ns[0])), end_ns=end_ns
    )
    quarks = np.array([panel.quarks[0] for panel in chart.panels], np.int32)
    sizes = [panel.last - panel.first for panel in chart.panels]
    panel = np.repeat(np.arange(len(quarks)), sizes)
    order = np.lexsort((chart.row, chart.start, panel))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    place = np.empty(len(order) + 1, np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    place[-1] = -1
    start_ns = chart.start[order] + chart.origin_ns
    nothing = np.zeros(len(order), np.int64)
    table = SpanTable.of_arrays(
        threads=quarks,
        offsets=offsets,
        start_ns=start_ns,
        end_ns=start_ns + chart.length[order],
        name=Coded(chart.frame[order].astype(np.int32), chart.frames),
        category=Coded(np.full(len(order), -1, np.int32), []),
        depth=chart.row[order].astype(np.int32),
        lane=np.zeros(len(order), np.uint8),
        parent=place[chart.parent[order]],
        flags=np.zeros(len(order), np.uint8),
        arguments_offset=nothing,
        arguments_length=np.zeros(len(order), np.int32),
        text=ArgumentText(),
    )
    assert chart.count is not None
    counts = chart.count[order].astype(np.int32)
    spans = SpanRows(table, np.zeros(len(order), np.int32), samples=counts)
    ends = zip(quarks.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return {quark: (first, last) for quark, first, last in ends}, spans
