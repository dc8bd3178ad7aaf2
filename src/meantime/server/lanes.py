"""The lanes of a history as a tree, with what tiles and answers need of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import UsageError
from meantime.model.attribute_paths import CPUS, REQUESTS, TASKS
from meantime.model.attributes import ANY, format_path, parse_pattern
from meantime.model.columns import distinct
from meantime.model.service_spans import SERVICE
from meantime.server.lane_blocks import SpanBlock
from meantime.server.lane_layout import LaneLayout
from meantime.server.lane_names import handles
from meantime.server.span_overview import Outermost, SpanOverview

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.model.columns import Int32s

__all__ = ["LaneTree"]

# Of more lanes, a page asks for the names of those in a part of a large group once it opens it.
_MOST_NAMED = 20_000
_ON_CPU = (CPUS, ANY, "Thread")


@dataclass(slots=True)
class LaneTree(LaneLayout):
    """The lanes of one moment of a history, and the tiles and answers that need them."""

    _lane_of: dict[int, int] | None = None
    _overviews: dict[int, SpanOverview | None] = field(default_factory=dict)
    _outermost: dict[int, Outermost] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def groupings(self) -> list[str]:
        """By what statistics can be, besides those of states and spans."""
        found = []
        attributes = self.history.attributes
        if attributes.find(REQUESTS) is not None:
            found.append("request")
        if attributes.find(TASKS) is not None:
            found += ["function", "site"]
        if any(lane.declaration.entity_kind == SERVICE for lane in self.history.lanes):
            found += ["service", "operation"]
        return found

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

    def prepare(self) -> None:
        """Make the sums that the first tiles of a page need, so that they need not wait for them.

        Raises:
            InputError: If spans are damaged.
        """
        for block in self.blocks.get("stack", [])[:1]:
            self.overview(block)

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
        paths = iter(handles(self.history, [row.quark for row in rows if row.quark >= 0]))
        return {
            "name": [row.name for row in rows],
            "detail": [row.detail for row in rows],
            "handle": [next(paths) if row.quark >= 0 else "" for row in rows],
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
        return [found[0] for lanes in self.parts.values() if (found := self.called(text, lanes))]

    def called(self, text: str, lanes: Sequence[int]) -> list[int]:
        """Return which of some lanes have a text in their name or path.

        A page calls lanes that are numbers by what they are, such as `CPU 3`, and so does this.
        """
        needle = text.lower()
        names = self.names(lanes)
        found = []
        for number, name, path in zip(lanes, names["name"], names["handle"], strict=True):
            called = f"{name}\n{path}"
            if path.endswith(f"/Threads/{name}"):
                called += f"\nthread {name}"
            elif f"{path}/".startswith(f"CPUs/{name}/"):
                called += f"\nCPU {name}"
            if needle in called.lower():
                found.append(number)
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

    def with_threads(self, lanes: Sequence[int]) -> list[int]:
        """Return lanes with all of the threads whose spans are in one: those that overlap."""
        chosen, stacks = set(lanes), ("stack", "async")
        quarks = {self.lanes[lane].quark for lane in chosen if self.lanes[lane].kind in stacks}
        quarks.discard(-1)
        return [
            number
            for number, lane in enumerate(self.lanes)
            if number in chosen or (lane.kind in stacks and lane.quark in quarks)
        ]

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
        return distinct(np.concatenate([np.array(own, np.int32), *found]))

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

    def handle(self, quark: int) -> str:
        """Return the path of an attribute, as commands take it."""
        return format_path(self.history.attributes.path(quark))
