"""Searching names, tags and arguments for a text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.history.argument_texts import joined_texts
from meantime.model.columns import named
from meantime.model.names import without_addresses
from meantime.query.lifetimes import intervals_between
from meantime.server.lane_blocks import SpanBlock
from meantime.server.places import hit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.server.lane_blocks import PackedBlock
    from meantime.server.lanes import LaneTree

__all__ = ["search"]

_BINS = 512
# Arguments of larger tables are not searched: that reads all of them.
_MOST_TEXT = 1 << 30
_MOST_NAMES = 200


class _Best:
    """The hits with the least keys, described.

    Args:
        limit: How many of them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._best: list[tuple[int, int, dict[str, Any]]] = []

    def add(self, key: Int64s, before: int, describe: Callable[[int], dict[str, Any]]) -> None:
        """Add hits with these keys, of which so many others were added before."""
        rows = np.arange(len(key))
        if len(self._best) == self._limit:
            # of hits with one key, those that were added first are kept
            rows = rows[key < self._best[-1][0]] if self._best else rows[:0]
        rows = rows[np.argsort(key[rows], kind="stable")[: self._limit]]
        self._best += [(int(key[row]), before + row, describe(row)) for row in rows.tolist()]
        self._best.sort(key=lambda each: each[:2])
        del self._best[self._limit :]

    def described(self) -> list[dict[str, Any]]:
        """Return them, the least key first."""
        return [each for _, _, each in self._best]


class _Found:
    """Hits: counted, and some of them described.

    Args:
        range_ns: The range that is searched.
        limit: How many hits are described.
        around_ns: The first of them begin at this time or later, and as many begin before it.
        longest: Describe the longest, whenever they are.

    Attributes:
        count: How many hits there are.
        names: How often each name was hit, by kind and name.
    """

    def __init__(
        self, range_ns: tuple[int, int], limit: int, around_ns: int | None, *, longest: bool
    ) -> None:
        self.count = 0
        self.names: dict[tuple[str, str], int] = {}
        self._range_ns = range_ns
        self._bins = np.zeros(_BINS, np.int64)
        self._around_ns = around_ns
        self._is_longest = longest
        self._earlier = 0
        before = 0 if around_ns is None else limit // 2
        self._before, self._after = _Best(before), _Best(limit - before)

    def add(
        self, start_ns: Int64s, end_ns: Int64s, describe: Callable[[int], dict[str, Any]]
    ) -> None:
        """Add hits from and to these times; `describe` returns what one of them is."""
        if not len(start_ns):
            return
        low_ns, high_ns = self._range_ns
        inside = start_ns[(start_ns >= low_ns) & (start_ns < high_ns)]
        step = -(-max(1, high_ns - low_ns) // _BINS)
        # a distance may not fit 63 bits
        into = inside.astype(np.uint64) - np.uint64(low_ns % 2**64)
        bins = (into // np.uint64(step)).astype(np.int64)
        self._bins += np.bincount(bins, minlength=_BINS)[:_BINS]
        if self._is_longest:
            self._after.add(start_ns - end_ns, self.count, describe)
        elif self._around_ns is None:
            self._after.add(start_ns, self.count, describe)
        else:
            is_after = start_ns >= self._around_ns
            for part, best, key in (
                (np.flatnonzero(is_after), self._after, start_ns),
                (np.flatnonzero(~is_after)[::-1], self._before, -start_ns),
            ):

                def of_part(index: int, part: npt.NDArray[np.intp] = part) -> dict[str, Any]:
                    return describe(int(part[index]))

                best.add(key[part], self.count, of_part)
            self._earlier += len(start_ns) - int(is_after.sum())
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
        before = self._before.described()
        hits = [*before[::-1], *self._after.described()]
        return {
            "count": self.count,
            "first": self._earlier - len(before),
            "names": [
                {"kind": kind, "name": name, "count": count}
                for (kind, name), count in names[:_MOST_NAMES]
            ],
            "hits": hits,
            "rest": self.count - len(hits),
            "bins": self._bins.tolist(),
        }


def search(
    tree: LaneTree,
    text: str,
    start_ns: int | None,
    end_ns: int | None,
    *,
    limit: int,
    around_ns: int | None = None,
    longest: bool = False,
    whole: bool = False,
    lanes: Sequence[int] | None = None,
    texts: int = 0,
) -> dict[str, Any]:
    """Return what contains a text, whatever its case: how much, and some of the hits.

    Args:
        tree: The lanes.
        text: The text.
        start_ns: Where the range begins.
        end_ns: Where it ends.
        limit: How many hits are described.
        around_ns: Describe the nearest before and after this time, not the first of all.
        longest: Describe the longest, whenever they are.
        whole: Find only what has the text as its whole name.
        lanes: Search only these; None searches all.
        texts: Describe hits with so many characters of their arguments or tags; 0 leaves them out.
    """
    begin_ns, finish_ns = tree.history.bounds
    start_ns = begin_ns if start_ns is None else start_ns
    end_ns = finish_ns if end_ns is None else end_ns
    needle = _Needle(text, tree, whole=whole, lanes=lanes, texts=texts)
    found = _Found((start_ns, end_ns), limit, around_ns, longest=longest)
    has_arguments = _search_spans(tree, needle, start_ns, end_ns, found)
    _search_sampled(tree, needle, start_ns, end_ns, found)
    _search_states(tree, needle, start_ns, end_ns, found)
    _search_entities(tree, needle, start_ns, end_ns, found)
    _search_points(tree, needle, start_ns, end_ns, found)
    return {**found.document(), "searched": {"arguments": has_arguments}}


class _Needle:
    """What is searched for, and where.

    Args:
        text: The text.
        tree: The lanes.
        whole: Whether it is a whole name, as statistics have it: without addresses of objects.
        lanes: The lanes that are searched; None is all of them.
        texts: How many characters of arguments and tags are returned; 0 is none of them.

    Attributes:
        text: The text, without case unless it is a whole name.
        is_whole: As given.
    """

    def __init__(
        self, text: str, tree: LaneTree, *, whole: bool, lanes: Sequence[int] | None, texts: int
    ) -> None:
        self.is_whole = whole
        self.text = text if whole else text.casefold()
        self._texts = texts
        self._lanes: npt.NDArray[np.bool_] | None = None
        if lanes is not None:
            self._lanes = np.zeros(len(tree.lanes), np.bool_)
            self._lanes[lanes] = True

    def searches(self, lane: int | None) -> bool:
        """Return whether a lane is searched; what is in none is where all lanes are."""
        return self._lanes is None or (lane is not None and bool(self._lanes[lane]))

    def in_rows(
        self, block: SpanBlock | PackedBlock, row: Int32s, thread: Int32s | None = None
    ) -> npt.NDArray[np.bool_]:
        """Return which rows of a block are in lanes that are searched.

        Args:
            block: The block.
            row: The row of each span or entity.
            thread: The thread of each span, which has to be one of its lane; None if it is.
        """
        index = np.searchsorted(block.row_offsets, row, side="right") - 1
        index = np.clip(index, 0, len(block.lanes) - 1)
        is_searched = np.ones(len(block.lanes), np.bool_)
        if self._lanes is not None:
            is_searched = self._lanes[block.lanes]
        if thread is None or not isinstance(block, SpanBlock):
            return is_searched[index]
        # a lane and a thread as one number
        wide = 1 + int(max(thread.max(initial=0), block.threads.max(initial=0)))
        own = [lane * wide + block.lane_threads[lane] for lane in np.flatnonzero(is_searched)]
        return np.isin(index * wide + thread, np.concatenate([np.empty(0, np.int64), *own]))

    def text_of(self, read: Callable[[], str | None]) -> str | None:
        """Return arguments as far as they are wanted; None without any."""
        if not self._texts:
            return None
        try:
            text = read()
        except (InputError, OSError):
            # such as a trace that has changed
            return None
        return text[: self._texts] if text else None

    def is_in(self, name: str) -> bool:
        """Return whether a name is, or contains, what is searched for."""
        return (
            without_addresses(name) == self.text if self.is_whole else self.text in name.casefold()
        )

    def matching(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of some names do."""
        return np.array([self.is_in(name) for name in names], np.bool_)


def _search_spans(
    tree: LaneTree, needle: _Needle, start_ns: int, end_ns: int, found: _Found
) -> bool:
    """Add spans by name and arguments; return whether arguments were searched."""
    spans = tree.spans
    if spans is None:
        return True
    table = spans.table.select(start_ns=start_ns, end_ns=end_ns)
    is_hit = needle.matching(table.name.names)[table.name.codes]
    length = table.arguments_length
    searched = int(length.sum(dtype=np.int64)) <= _MOST_TEXT
    if searched and length.any() and not needle.is_whole:
        try:
            is_hit |= _in_arguments(table, needle.text)
        except (InputError, OSError):
            searched = False
    rows = np.flatnonzero(is_hit)
    threads = table.threads[np.searchsorted(table.offsets, rows, side="right") - 1]
    is_in = np.zeros(len(rows), np.bool_)
    for kind in ("stack", "async"):
        for block in tree.blocks.get(kind, []):
            if block.spans.samples is None:
                is_in |= needle.in_rows(block, block.spans.row[table.rows[rows]], threads)
    rows = rows[is_in]
    found.count_names("span", table.name.codes[rows], table.name.names)
    unfinished = table.unfinished

    def describe(index: int) -> dict[str, Any]:
        row = int(rows[index])
        place = int(table.rows[row])
        lane, own = tree.place_of_span(table.thread_at(row), place)
        described = hit(
            "span",
            lane,
            own,
            table.name[row],
            int(table.start_ns[row]),
            int(table.end_ns[row]),
            None if spans.numbers is None else int(spans.numbers[place]),
            needle.text_of(lambda: table.arguments(row)),
        )
        if unfinished[row]:
            described["unfinished"] = True
        return described

    found.add(table.start_ns[rows], table.end_ns[rows], describe)
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


def _search_sampled(
    tree: LaneTree, needle: _Needle, start_ns: int, end_ns: int, found: _Found
) -> None:
    """Add the stacks that samples show, by function."""
    for block in tree.blocks.get("stack", []):
        if block.spans.samples is None:
            continue
        table = block.spans.table.select(block.threads, start_ns=start_ns, end_ns=end_ns)
        hits = np.flatnonzero(needle.matching(table.name.names)[table.name.codes])
        hits = hits[needle.in_rows(block, block.spans.row[table.rows[hits]])]
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

        found.add(table.start_ns[hits], table.end_ns[hits], describe)


def _search_states(
    tree: LaneTree, needle: _Needle, start_ns: int, end_ns: int, found: _Found
) -> None:
    """Add states of lanes and of entities by name and tags."""
    history = tree.history
    tags = np.array(
        [
            not needle.is_whole and any(needle.is_in(f"{value}") for value in tag.values())
            for tag in history.tags
        ],
        np.bool_,
    )
    places: dict[int, tuple[int, int]] = {
        lane.quark: (number, 0)
        for number, lane in enumerate(tree.lanes)
        if lane.kind == "state" and needle.searches(number)
    }
    for block in tree.blocks.get("packed", []):
        is_in = needle.in_rows(block, block.row)
        rows = zip(block.quarks[is_in].tolist(), block.row[is_in].tolist(), strict=True)
        places |= {quark: block.place(row) for quark, row in rows}
    quarks = np.array(sorted(places), np.int32)
    for batch in intervals_between(history, quarks, start_ns, end_ns):
        value = named(batch.value)
        is_hit = np.append(needle.matching(value.names), False)[value.codes]
        if tags.any():
            is_hit |= np.append(tags, False)[batch.tag] & (value.codes >= 0)
        hits = np.flatnonzero(is_hit)
        found.count_names("state", value.codes[hits], value.names)

        def describe(
            index: int, hits: Any = hits, batch: Any = batch, value: Any = value
        ) -> dict[str, Any]:
            row = int(hits[index])
            lane, own = places[int(batch.quark[row])]
            tag = int(batch.tag[row])

            def read() -> str | None:
                return json.dumps(history.tags[tag], default=str) if tag >= 0 else None

            return hit(
                "state",
                lane,
                own,
                value[row],
                int(batch.start_ns[row]),
                int(batch.end_ns[row]),
                arguments=needle.text_of(lambda: json.dumps(history.tags[tag]))
                if tag >= 0
                else None,
            )

        found.add(batch.start_ns[hits], batch.end_ns[hits], describe)


def _search_entities(
    tree: LaneTree, needle: _Needle, start_ns: int, end_ns: int, found: _Found
) -> None:
    """Add lanes, and entities in shared rows, by name."""
    begin_ns, finish_ns = tree.history.bounds
    lanes = [
        number
        for number, lane in enumerate(tree.lanes)
        if lane.kind != "group"
        and not needle.is_whole
        and needle.searches(number)
        and needle.is_in(f"{lane.name} {lane.detail}")
    ]
    for number in lanes:
        key = "entity", tree.lanes[number].name
        found.names[key] = found.names.get(key, 0) + 1

    def describe_lane(index: int) -> dict[str, Any]:
        return hit("lane", lanes[index], 0, tree.lanes[lanes[index]].name, begin_ns, finish_ns)

    whole = np.full((2, len(lanes)), [[begin_ns], [finish_ns]], np.int64)
    found.add(whole[0], whole[1], describe_lane)
    for block in tree.blocks.get("packed", []):
        lives = (block.start_ns < end_ns) & (block.end_ns > start_ns)
        is_in = needle.in_rows(block, block.row)
        hits = np.flatnonzero(needle.matching(block.names) & lives & is_in)
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

        found.add(block.start_ns[hits], block.end_ns[hits], describe)


def _search_points(
    tree: LaneTree, needle: _Needle, start_ns: int, end_ns: int, found: _Found
) -> None:
    """Add instants by name."""
    points = tree.history.points(start_ns=start_ns, end_ns=end_ns)
    hits = np.flatnonzero(needle.matching(points.name.names)[points.name.codes])
    lane_of = {lane.quark: at for at, lane in enumerate(tree.lanes) if lane.kind == "points"}
    used, own = np.unique(points.quark[hits], return_inverse=True)
    is_in = np.array([needle.searches(lane_of.get(quark)) for quark in used.tolist()], np.bool_)
    hits = hits[is_in[own]]
    found.count_names("point", points.name.codes[hits], points.name.names)

    def describe(index: int) -> dict[str, Any]:
        row = int(hits[index])
        time_ns = int(points.time_ns[row])
        return hit(
            "point",
            lane_of.get(int(points.quark[row])),
            0,
            points.name[row],
            time_ns,
            time_ns,
            arguments=needle.text_of(lambda: points.arguments(row)),
        )

    found.add(points.time_ns[hits], points.time_ns[hits], describe)
