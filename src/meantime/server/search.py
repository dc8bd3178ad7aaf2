"""Searching names, tags and arguments for a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.columns import named
from meantime.errors import InputError
from meantime.history.argument_texts import joined_texts
from meantime.query.lifetimes import intervals_between
from meantime.server.places import hit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.spans import SpanTable
    from meantime.server.lanes import LaneTree

__all__ = ["search"]

_BINS = 512
# Arguments of larger tables are not searched: that reads all of them.
_MOST_TEXT = 1 << 30
_MOST_NAMES = 200


class _Found:
    """Hits: counted, and the first of them described.

    Args:
        range_ns: The range that is searched.
        limit: How many hits are described.

    Attributes:
        count: How many hits there are.
        names: How often each name was hit, by kind and name.
    """

    def __init__(self, range_ns: tuple[int, int], limit: int) -> None:
        self.count = 0
        self.names: dict[tuple[str, str], int] = {}
        self._range_ns = range_ns
        self._limit = limit
        self._bins = np.zeros(_BINS, np.int64)
        self._first: list[tuple[int, int, dict[str, Any]]] = []

    def add(self, start_ns: Int64s, describe: Callable[[int], dict[str, Any]]) -> None:
        """Add hits that begin at these times; `describe` returns what one of them is."""
        if not len(start_ns):
            return
        low_ns, high_ns = self._range_ns
        inside = start_ns[(start_ns >= low_ns) & (start_ns < high_ns)]
        step = -(-max(1, high_ns - low_ns) // _BINS)
        # a distance may not fit 63 bits
        into = inside.astype(np.uint64) - np.uint64(low_ns % 2**64)
        bins = (into // np.uint64(step)).astype(np.int64)
        self._bins += np.bincount(bins, minlength=_BINS)[:_BINS]
        rows = np.arange(len(start_ns))
        if len(self._first) == self._limit:
            # of hits at one time, those that were added first are kept
            rows = rows[start_ns < (self._first[-1][0] if self._first else low_ns)]
        rows = rows[np.argsort(start_ns[rows], kind="stable")[: self._limit]]
        self._first += [
            (int(start_ns[row]), self.count + row, describe(row)) for row in rows.tolist()
        ]
        self._first.sort(key=lambda each: each[:2])
        del self._first[self._limit :]
        self.count += len(start_ns)

    def count_names(self, kind: str, codes: Int32s, names: Sequence[str]) -> None:
        """Count hits by name."""
        used, counts = np.unique(codes, return_counts=True)
        for code, count in zip(used.tolist(), counts.tolist(), strict=True):
            key = kind, names[code]
            self.names[key] = self.names.get(key, 0) + count

    def document(self) -> dict[str, Any]:
        """Return the hits as JSON values."""
        names = sorted(self.names.items(), key=lambda each: (-each[1], each[0]))
        hits = [described for _, _, described in self._first]
        return {
            "count": self.count,
            "names": [
                {"kind": kind, "name": name, "count": count}
                for (kind, name), count in names[:_MOST_NAMES]
            ],
            "hits": hits,
            "rest": self.count - len(hits),
            "bins": self._bins.tolist(),
        }


def search(
    tree: LaneTree, text: str, start_ns: int | None, end_ns: int | None, limit: int
) -> dict[str, Any]:
    """Return what contains a text, whatever its case: how much, and the first hits by time."""
    begin_ns, finish_ns = tree.history.bounds
    start_ns = begin_ns if start_ns is None else start_ns
    end_ns = finish_ns if end_ns is None else end_ns
    needle = text.casefold()
    found = _Found((start_ns, end_ns), limit)
    has_arguments = _search_spans(tree, needle, start_ns, end_ns, found)
    _search_sampled(tree, needle, start_ns, end_ns, found)
    _search_states(tree, needle, start_ns, end_ns, found)
    _search_entities(tree, needle, start_ns, end_ns, found)
    _search_points(tree, needle, start_ns, end_ns, found)
    return {**found.document(), "searched": {"arguments": has_arguments}}


def _matching(names: Sequence[str], needle: str) -> npt.NDArray[np.bool_]:
    return np.array([needle in name.casefold() for name in names], np.bool_)


def _search_spans(tree: LaneTree, needle: str, start_ns: int, end_ns: int, found: _Found) -> bool:
    """Add spans by name and arguments; return whether arguments were searched."""
    spans = tree.spans
    if spans is None:
        return True
    table = spans.table.select(start_ns=start_ns, end_ns=end_ns)
    is_hit = _matching(table.name.names, needle)[table.name.codes]
    found.count_names("span", table.name.codes[is_hit], table.name.names)
    length = table.arguments_length
    searched = int(length.sum(dtype=np.int64)) <= _MOST_TEXT
    if searched and length.any():
        try:
            is_hit |= _in_arguments(table, needle)
        except (InputError, OSError):
            searched = False
    rows = np.flatnonzero(is_hit)

    def describe(index: int) -> dict[str, Any]:
        row = int(rows[index])
        place = int(table.rows[row])
        lane, own = tree.place_of_span(table.thread_at(row), place)
        return hit(
            "span",
            lane,
            own,
            table.name[row],
            int(table.start_ns[row]),
            int(table.end_ns[row]),
            None if spans.numbers is None else int(spans.numbers[place]),
        )

    found.add(table.start_ns[rows], describe)
    return searched


def _in_arguments(table: SpanTable, needle: str) -> npt.NDArray[np.bool_]:
    """Return which spans have the text in their arguments."""
    length = table.arguments_length
    begins, parts = joined_texts(table.text, table.arguments_offset, length)
    rows = np.flatnonzero(length)
    rows = rows[np.argsort(begins[rows], kind="stable")]
    starts, ends = begins[rows], begins[rows] + length[rows]
    is_hit = np.zeros(len(table), np.bool_)
    # bytes without case: what is not ASCII is compared as it is
    wanted = needle.encode(errors="surrogatepass").lower()
    base = 0
    for part in parts:
        # a part has whole texts
        low = part.tobytes().lower()
        at = low.find(wanted)
        while at >= 0:
            index = int(np.searchsorted(starts, base + at, side="right")) - 1
            is_inside = base + at + len(wanted) <= ends[index]
            is_hit[rows[index]] |= is_inside
            at = low.find(wanted, int(ends[index]) - base if is_inside else at + 1)
        base += len(low)
    return is_hit


def _search_sampled(tree: LaneTree, needle: str, start_ns: int, end_ns: int, found: _Found) -> None:
    """Add the stacks that samples show, by function."""
    for block in tree.blocks.get("stack", []):
        if block.spans.samples is None:
            continue
        table = block.spans.table.select(block.threads, start_ns=start_ns, end_ns=end_ns)
        hits = np.flatnonzero(_matching(table.name.names, needle)[table.name.codes])
        found.count_names("function", table.name.codes[hits], table.name.names)

        def describe(
            index: int, hits: Any = hits, table: Any = table, block: Any = block
        ) -> dict[str, Any]:
            row = int(hits[index])
            lane, own = block.place(int(block.spans.row[table.rows[row]]))
            return hit(
                "function",
                lane,
                own,
                table.name[row],
                int(table.start_ns[row]),
                int(table.end_ns[row]),
            )

        found.add(table.start_ns[hits], describe)


def _search_states(tree: LaneTree, needle: str, start_ns: int, end_ns: int, found: _Found) -> None:
    """Add states of lanes and of entities by name and tags."""
    history = tree.history
    tags = np.array(
        [any(needle in f"{value}".casefold() for value in tag.values()) for tag in history.tags],
        np.bool_,
    )
    places: dict[int, tuple[int, int]] = {
        lane.quark: (number, 0) for number, lane in enumerate(tree.lanes) if lane.kind == "state"
    }
    for block in tree.blocks.get("packed", []):
        rows = zip(block.quarks.tolist(), block.row.tolist(), strict=True)
        places |= {quark: block.place(row) for quark, row in rows}
    quarks = np.array(sorted(places), np.int32)
    for batch in intervals_between(history, quarks, start_ns, end_ns):
        value = named(batch.value)
        is_hit = np.append(_matching(value.names, needle), False)[value.codes]
        if tags.any():
            is_hit |= np.append(tags, False)[batch.tag] & (value.codes >= 0)
        hits = np.flatnonzero(is_hit)
        found.count_names("state", value.codes[hits], value.names)

        def describe(
            index: int, hits: Any = hits, batch: Any = batch, value: Any = value
        ) -> dict[str, Any]:
            row = int(hits[index])
            lane, own = places[int(batch.quark[row])]
            return hit(
                "state", lane, own, value[row], int(batch.start_ns[row]), int(batch.end_ns[row])
            )

        found.add(batch.start_ns[hits], describe)


def _search_entities(
    tree: LaneTree, needle: str, start_ns: int, end_ns: int, found: _Found
) -> None:
    """Add lanes, and entities in shared rows, by name."""
    begin_ns, finish_ns = tree.history.bounds
    lanes = [
        number
        for number, lane in enumerate(tree.lanes)
        if lane.kind != "group" and needle in f"{lane.name} {lane.detail}".casefold()
    ]
    for number in lanes:
        key = "entity", tree.lanes[number].name
        found.names[key] = found.names.get(key, 0) + 1

    def describe_lane(index: int) -> dict[str, Any]:
        return hit("lane", lanes[index], 0, tree.lanes[lanes[index]].name, begin_ns, finish_ns)

    found.add(np.full(len(lanes), begin_ns, np.int64), describe_lane)
    for block in tree.blocks.get("packed", []):
        lives = (block.start_ns < end_ns) & (block.end_ns > start_ns)
        hits = np.flatnonzero(_matching(block.names, needle) & lives)
        found.count_names("entity", hits.astype(np.int32), block.names)

        def describe(index: int, hits: Any = hits, block: Any = block) -> dict[str, Any]:
            each = int(hits[index])
            lane, own = block.place(int(block.row[each]))
            return hit(
                "entity",
                lane,
                own,
                block.names[each],
                int(block.start_ns[each]),
                int(block.end_ns[each]),
            )

        found.add(block.start_ns[hits], describe)


def _search_points(tree: LaneTree, needle: str, start_ns: int, end_ns: int, found: _Found) -> None:
    """Add instants by name."""
    points = tree.history.points(start_ns=start_ns, end_ns=end_ns)
    hits = np.flatnonzero(_matching(points.name.names, needle)[points.name.codes])
    found.count_names("point", points.name.codes[hits], points.name.names)
    lane_of = {lane.quark: at for at, lane in enumerate(tree.lanes) if lane.kind == "points"}

    def describe(index: int) -> dict[str, Any]:
        row = int(hits[index])
        time_ns = int(points.time_ns[row])
        return hit(
            "point", lane_of.get(int(points.quark[row])), 0, points.name[row], time_ns, time_ns
        )

    found.add(points.time_ns[hits], describe)
