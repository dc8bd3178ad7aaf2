"""Tiles: what a page draws of a block of lanes over 512 bins of time, as bytes.

The format is described in `docs/reference/tiles.md`.

Bins are aligned powers of two, so that a tile is the same at every zoom that uses it, and the
address of a tile of a finished history identifies its content. The rows of spans are numbered
within their block once, when the lanes are made: a tile is one pass over the spans that overlap it
(`kernels/pixel_columns`), 8 ns each. Spans of at least a bin are sent exactly; others are added up
by cell, with their number and the name of the longest, so that nothing is invisible and the
covered time is exact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.kernels.gather import looked_up, seen
from meantime.kernels.pixel_columns import span_cells, state_cells, state_load
from meantime.model.columns import Coded, distinct, named
from meantime.model.state_classes import class_of, rank
from meantime.model.units import MAX_NS
from meantime.query.ranges import union
from meantime.query.sample_units import sample_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.history import History, Intervals
    from meantime.model.columns import Int32s, Int64s
    from meantime.server.lane_blocks import Block, PackedBlock, SpanBlock
    from meantime.server.lanes import LaneTree

    Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

__all__ = ["BINS", "KINDS", "MOST_LEVEL", "Place", "Tile", "tile"]

BINS = 512
MOST_LEVEL = 53
_MAGIC = b"MTT1"
_ALIGNMENT = 8
_NO_SPAN = 2**32 - 1
# Attributes whose bins are added up at once for a group.
_AT_ONCE = 512
# Beyond so many intervals, it takes longer to add them up than the bins of their attributes.
_INTERVALS_OF_A_BIN = 4
# The first tags of an entity that may say which request it handles.
_TAGS_OF_ENTITY = 8
# Kinds of tiles of which damaged segments are a part.
_OF_STATES = {"state", "counter", "packed", "group"}
# The load of a group has so many names of spans.
_MOST_NAMES = 32


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tile is in time.

    Attributes:
        level: The width of a bin is 2 to the power of this, in ns.
        index: The tile covers [index, index + 1) times the width of 512 bins.
    """

    level: int
    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.level <= MOST_LEVEL:
            raise UsageError(f"the level of a tile is {self.level}: it is from 0 to {MOST_LEVEL}")
        if not -MAX_NS <= self.start_ns <= self.end_ns <= MAX_NS:
            raise UsageError(f"the tile {self.index} of level {self.level} is beyond 64 bits")

    @property
    def bin_ns(self) -> int:
        """How wide a bin is."""
        return 1 << self.level

    @property
    def start_ns(self) -> int:
        """Where it begins, in the time of its file."""
        return self.index * BINS << self.level

    @property
    def end_ns(self) -> int:
        """Where it ends."""
        return (self.index + 1) * BINS << self.level


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile: columns, and what they refer to.

    Attributes:
        kind: The kind of its lanes.
        place: Where it is.
        lanes: Its lanes.
        arrays: The columns by name.
        members: Other members of the directory.
    """

    kind: str
    place: Place
    lanes: Sequence[int]
    arrays: Arrays
    members: dict[str, Any] = field(default_factory=dict)

    def data(self) -> bytes:
        """Return the tile as bytes."""
        directory: dict[str, Any] = {
            "kind": self.kind,
            "start_ns": str(self.place.start_ns),
            "bin_ns": str(self.place.bin_ns),
            "bins": BINS,
            "lanes": list(self.lanes),
            "damaged": None,
            **self.members,
        }
        head = b""
        while True:
            begin = 8 + _aligned(len(head))
            at = begin
            listed = {}
            for name, array in self.arrays.items():
                listed[name] = {"type": array.dtype.str[1:], "shape": list(array.shape), "at": at}
                at += _aligned(array.nbytes)
            # offsets are after the directory, whose length depends on them
            text = json.dumps({**directory, "arrays": listed}, separators=(",", ":")).encode()
            if _aligned(len(text)) == begin - 8:
                break
            head = text
        parts = [_MAGIC, (begin - 8).to_bytes(4, "little"), text.ljust(begin - 8)]
        for array in self.arrays.values():
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("little")).tobytes()
            parts += data, bytes(_aligned(len(data)) - len(data))
        return b"".join(parts)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def tile(tree: LaneTree, kind: str, block: int, place: Place) -> Tile:
    """Return a tile of a block of lanes; of a group, `block` is its lane.

    Raises:
        LookupError: If there is no such block.
    """
    content: Any
    if kind == "group":
        if not 0 <= block < len(tree.lanes) or tree.lanes[block].kind != "group":
            raise LookupError(f"lane {block} is not a group")
        content, lanes = block, [block]
    else:
        blocks = tree.blocks.get(kind, [])
        if not 0 <= block < len(blocks):
            raise LookupError(f"there is no block {block} of {kind} lanes")
        content, lanes = blocks[block], blocks[block].lanes
    try:
        found = KINDS[kind](tree, content, place)
    except InputError as error:
        return Tile(kind, place, lanes, {}, {"damaged": str(error)})
    if kind in _OF_STATES:
        found.members.update(_damage(tree.history, place))
    return found


def _damage(history: History, place: Place) -> dict[str, Any]:
    """Return what a tile says of damaged segments in it, and its bins in which they are."""
    found = [
        each
        for each in history.damage
        if each.anomaly == "segment_damaged"
        and each.start_ns < place.end_ns
        and place.start_ns < each.end_ns
    ]
    if not found:
        return {}
    bins = [
        (
            max(0, each.start_ns - place.start_ns >> place.level),
            min(BINS, -(place.start_ns - each.end_ns >> place.level)),
        )
        for each in found
    ]
    return {"damaged": "; ".join(map(str, found)), "damaged_bins": union(bins)}


def standing(tree: LaneTree, kind: str, block: int, place: Place) -> str | None:
    """Return a text that stays the same while a tile of a growing history does.

    The changes of an attribute come in their order, so those before its present state are final: a
    tile that ends before that state began stays as it is. Otherwise it depends on that state.

    Returns:
        None if that is known of the content of the tile only: at the end of the history, and of
        lanes whose rows depend on what comes later.
    """
    history = tree.history
    end_ns = place.start_ns + BINS * place.bin_ns
    if kind not in {"state", "counter", "group"} or end_ns > history.end_ns:
        return None
    if place.start_ns < history.start_ns:
        return None
    blocks = tree.blocks.get(kind, [])
    if kind == "group":
        if not 0 <= block < len(tree.lanes):
            return None
        quarks = tree.quarks([block])
    elif 0 <= block < len(blocks):
        quarks = distinct(blocks[block].quarks)
    else:
        return None
    try:
        last = history.intervals(quarks, history.end_ns - 1, history.end_ns)
    except InputError:
        return None
    inside = np.flatnonzero(last.start_ns < end_ns).tolist()
    rows = [(int(last.quark[row]), int(last.start_ns[row]), last.value[row]) for row in inside]
    return repr(sorted(rows, key=lambda row: row[0]))


def _state(tree: LaneTree, block: Block, place: Place) -> Tile:
    found = tree.history.state_tile(block.quarks, place.start_ns, place.bin_ns, BINS)
    names = [str(name) for name in named(found.states).to_list()]
    arrays: Arrays = {"shares": found.shares, "codes": found.codes}
    return Tile("state", place, block.lanes, arrays, _states(names))


def _states(names: Sequence[str]) -> dict[str, Any]:
    classes = [class_of(name) for name in names]
    return {
        "states": list(names),
        "classes": [None if each is None else each.name for each in classes],
        "ranks": [rank(name) for name in names],
    }


def _counter(tree: LaneTree, block: Block, place: Place) -> Tile:
    found = tree.history.counter_tile(block.quarks, place.start_ns, place.bin_ns, BINS)
    arrays: Arrays = {"least": found.least, "greatest": found.greatest, "mean": found.mean}
    return Tile("counter", place, block.lanes, arrays)


def _cells_of(quarks: Int32s, block: Block, time_ns: Int64s, place: Place) -> Int64s:
    """Return the number of the cell of each event of these attributes; -1 in other lanes."""
    order = np.argsort(block.quarks)
    at = np.searchsorted(block.quarks[order], quarks)
    lane = order[np.minimum(at, len(order) - 1)]
    number = lane * BINS + ((time_ns - place.start_ns) >> place.level)
    return np.where(block.quarks[lane] == quarks, number, -1)


def _density(tree: LaneTree, block: Block, place: Place) -> Tile:
    history, event = tree.history, tree.counted_event
    samples = history.samples(start_ns=place.start_ns, end_ns=place.end_ns, event=event)
    cell = _cells_of(samples.thread, block, samples.time_ns, place)
    here = cell >= 0
    size = len(block.lanes) * BINS
    shape = len(block.lanes), BINS
    count = np.bincount(cell[here], minlength=size).astype(np.uint32)
    weight = np.bincount(cell[here], samples.weight[here], size).astype(np.float64)
    arrays: Arrays = {"count": count.reshape(shape), "weight": weight.reshape(shape)}
    unit = sample_unit(history.samples())
    return Tile("density", place, block.lanes, arrays, {"unit": unit})


def _points(tree: LaneTree, block: Block, place: Place) -> Tile:
    points = tree.history.points(start_ns=place.start_ns, end_ns=place.end_ns)
    cell = _cells_of(points.quark, block, points.time_ns, place)
    here = np.flatnonzero(cell >= 0)
    size, shape = len(block.lanes) * BINS, (len(block.lanes), BINS)
    count = np.bincount(cell[here], minlength=size).astype(np.uint32)
    cells, first = np.unique(cell[here], return_index=True)
    code, names = _compact(points.name.codes[here[first]], points.name.names)
    name = np.zeros(size, np.uint32)
    name[cells] = code
    arrays: Arrays = {"count": count.reshape(shape), "name": name.reshape(shape)}
    return Tile("points", place, block.lanes, arrays, {"names": names})


def _compact(codes: Int32s, names: Sequence[str]) -> tuple[npt.NDArray[np.uint32], list[str]]:
    """Return codes into only the names that occur, and these."""
    used, code = np.unique(codes, return_inverse=True)
    return code.astype(np.uint32), [names[each] for each in used.tolist()]


def _spans(tree: LaneTree, block: SpanBlock, place: Place) -> Tile:
    kind = tree.lanes[block.lanes[0]].kind
    table = block.spans.table
    overview = tree.overview(block)
    rows = block.row_offsets[-1]
    if overview is not None and overview.level <= place.level:
        wide, sums = overview.tile(place.start_ns, place.level, BINS, rows)
        cell, covered, begun, longest = sums._replace(longest=table.name.codes[sums.longest])
    else:
        chosen = table.select(block.threads, start_ns=place.start_ns, end_ns=place.end_ns).rows
        wide, cell, covered, begun, longest = span_cells(
            table.start_ns,
            table.end_ns,
            block.spans.row,
            table.name.codes,
            chosen,
            place.start_ns,
            place.level,
            BINS,
            rows,
        )
    wide = wide[np.argsort(block.spans.row[wide], kind="stable")]
    codes = np.concatenate([table.name.codes[wide], longest])
    name, names = _compact(codes, table.name.names)
    span = np.full(len(wide), _NO_SPAN, np.uint32)
    # a column that is read when it is first used
    if len(wide) and block.spans.numbers is not None:
        span = block.spans.numbers[wide].astype(np.uint32)
    arrays: Arrays = {
        "start": _offsets(table.start_ns[wide], place),
        "end": _offsets(table.end_ns[wide], place),
        "row": block.spans.row[wide].astype(np.uint32),
        "name": name[: len(wide)],
        "span": span,
        "cell_ns": covered.astype(np.float64),
        "cell_row": (cell // BINS).astype(np.uint32),
        "cell_count": begun.astype(np.uint32),
        "cell_name": name[len(wide) :],
        "cell_bin": (cell % BINS).astype(np.uint16),
    }
    members = {"names": names, "row_offsets": block.row_offsets}
    return Tile(kind, place, block.lanes, arrays, members)


def _offsets(times_ns: Int64s, place: Place) -> npt.NDArray[np.float64]:
    """Return times as distances from where a tile begins."""
    start_ns = np.int64(place.start_ns)
    with np.errstate(over="ignore"):
        distance = times_ns - start_ns
    # beyond 63 bits the nearest double, which is far outside the tile
    wrapped = (distance < 0) != (times_ns < start_ns)
    return np.where(wrapped, times_ns.astype(np.float64) - float(start_ns), distance)


class _PackedCells(NamedTuple):
    """The entities that live in a tile, and how states divide the cells of their rows.

    Attributes:
        lives: The indices of these entities in the block.
        cell: Of each cell its row and bin, as in `state_cells`.
        shares: The shares of states in cells.
        codes: The codes of these states.
        names: The names of states.
        intervals: The intervals in the tile, entity by entity; None if there are none.
    """

    lives: npt.NDArray[np.intp]
    cell: Int64s
    shares: npt.NDArray[np.uint8]
    codes: Int32s
    names: list[str]
    intervals: Intervals | None


def _packed_cells(tree: LaneTree, block: PackedBlock, place: Place) -> _PackedCells:
    history = tree.history
    lives = np.flatnonzero((block.start_ns < place.end_ns) & (block.end_ns > place.start_ns))
    start_ns = max(place.start_ns, history.start_ns)
    end_ns = min(place.end_ns, history.end_ns)
    names: list[str] = []
    if not len(lives) or start_ns >= end_ns:
        no_shares, no_codes = np.empty((0, 5), np.uint8), np.empty((0, 3), np.int32)
        return _PackedCells(lives, np.empty(0, np.int64), no_shares, no_codes, names, None)
    found = history.intervals(block.quarks[lives], start_ns, end_ns)
    value = found.value if isinstance(found.value, Coded) else named(found.value)
    has_state = np.flatnonzero(value.codes >= 0)
    code, names = _compact(value.codes[has_state], value.names)
    # intervals are in the order of the entities, which is that of their rows
    row_of = np.empty(len(tree.history.attributes), np.int32)
    row_of[block.quarks[lives]] = block.row[lives]
    cells = state_cells(
        row_of[found.quark[has_state]],
        found.start_ns[has_state],
        found.end_ns[has_state],
        code.astype(np.int32),
        place.start_ns,
        place.level,
        BINS,
        len(names),
    )
    return _PackedCells(lives, *cells, names, found)


def _requests(history: History, entities: Int32s, found: Intervals | None) -> dict[int, str]:
    """Return the requests that entities handle as their first tags say, such as `GET /cart`."""
    if found is None or found.tag is None:
        return {}
    tagged = np.flatnonzero((found.tag >= 0) & np.isin(found.quark, entities))
    quark = found.quark[tagged]
    first = np.flatnonzero(np.diff(quark, prepend=-1))
    rank = np.arange(len(tagged)) - np.repeat(first, np.diff(first, append=len(tagged)))
    few = rank < _TAGS_OF_ENTITY
    requests: dict[int, str] = {}
    for each, code in zip(quark[few].tolist(), found.tag[tagged[few]].tolist(), strict=True):
        tag = history.tags[code]
        if each not in requests and "method" in tag and "path" in tag:
            requests[each] = f"{tag['method']} {tag['path']}"
    return requests


def _packed(tree: LaneTree, block: PackedBlock, place: Place) -> Tile:
    lives, cell, shares, codes, states, intervals = _packed_cells(tree, block, place)
    length = block.end_ns[lives] - block.start_ns[lives]
    wide, narrow = lives[length >= place.bin_ns], lives[length < place.bin_ns]
    begins = narrow[block.start_ns[narrow] >= place.start_ns]
    bin_ = (block.start_ns[begins] - place.start_ns) >> place.level
    begun = np.zeros(len(cell), np.uint32)
    number = block.row[begins].astype(np.int64) * BINS + bin_
    # an entity has a state in the bin where it begins, unless that is damaged
    np.add.at(begun, np.searchsorted(cell, number[np.isin(number, cell)]), 1)
    different = list(dict.fromkeys(block.names[index] for index in wide.tolist()))
    index_of = {name: index for index, name in enumerate(different)}
    name = np.array([index_of[block.names[index]] for index in wide.tolist()], np.uint32)
    arrays: Arrays = {
        "start": _offsets(block.start_ns[wide], place),
        "end": _offsets(block.end_ns[wide], place),
        "row": block.row[wide].astype(np.uint32),
        "name": name,
        "entity": block.quarks[wide].astype(np.uint32),
        "cell_row": (cell // BINS).astype(np.uint32),
        "cell_count": begun,
        "cell_bin": (cell % BINS).astype(np.uint16),
        "cell_codes": codes.astype(np.uint16 if len(states) <= 2**16 else np.int32),
        "cell_shares": shares,
    }
    requests = _requests(tree.history, block.quarks[wide], intervals)
    entities = block.quarks[wide].tolist()
    names = list(dict.fromkeys(requests[each] for each in entities if each in requests))
    number_of = {name: number for number, name in enumerate(names, 1)}
    request = [number_of.get(requests.get(each, ""), 0) for each in entities]
    arrays["request"] = np.array(request, np.uint32)
    members = {
        "names": different,
        "requests": names,
        "row_offsets": block.row_offsets,
        **_states(states),
    }
    return Tile("packed", place, block.lanes, arrays, members)


def _group(tree: LaneTree, group: int, place: Place) -> Tile:
    """Return how many entities below a group were in each state, on average over each bin."""
    quarks, entities = tree.entities([group])
    sampled: list[int] = []
    spans: set[str] = set()
    blocks: dict[tuple[str, int], set[int]] = {}
    for number in tree.below([group]):
        lane = tree.lanes[number]
        if lane.kind == "density":
            sampled.append(lane.quark)
        elif lane.kind in {"stack", "async"}:
            blocks.setdefault((lane.kind, lane.block), set()).add(number)
    load = _Load()
    start_ns = max(place.start_ns, tree.history.start_ns)
    end_ns = min(place.end_ns, tree.history.end_ns)
    if start_ns < end_ns:
        if _are_summed(tree.history, quarks, (start_ns, end_ns), place):
            for first in range(0, len(quarks), _AT_ONCE):
                part = quarks[first : first + _AT_ONCE]
                names, ns = tree.history.state_load(part, place.start_ns, place.bin_ns, BINS)
                load.add(names, ns / place.bin_ns)
        else:
            entities = np.concatenate([quarks, entities])
        _add_intervals(load, tree.history, entities, (start_ns, end_ns), place)
    for (kind, index), lanes in blocks.items():
        names, sums = _outermost_sums(tree, tree.blocks[kind][index], lanes, place)
        spans.update(set(names) - {"", *load.names})
        load.add(names, sums)
    members = {"entities": tree.lanes[group].entities, **_states(load.names)}
    members["classes"] = [
        each or ("span" if name in spans else None)
        for name, each in zip(load.names, members["classes"], strict=True)
    ]
    arrays: Arrays = {"load": load.columns()}
    if sampled:
        event = tree.counted_event
        samples = tree.history.samples(start_ns=place.start_ns, end_ns=place.end_ns, event=event)
        rows = np.flatnonzero(np.isin(samples.thread, sampled))
        bins = (samples.time_ns[rows] - place.start_ns) >> place.level
        arrays["count"] = np.bincount(bins, minlength=BINS).astype(np.uint32)
        arrays["weight"] = np.bincount(bins, samples.weight[rows], BINS).astype(np.float64)
        members["unit"] = sample_unit(tree.history.samples())
    return Tile("group", place, [group], arrays, members)


def _are_summed(history: History, quarks: Int32s, range_ns: tuple[int, int], place: Place) -> bool:
    """Return whether the bins of attributes are added up sooner than their intervals."""
    if not len(quarks):
        return False
    if history.has_sums(quarks, place.start_ns, place.bin_ns, BINS):
        return True
    # a bin costs about as much as some intervals
    return history.estimate_count(quarks, *range_ns) > _INTERVALS_OF_A_BIN * len(quarks) * BINS


def _add_intervals(
    load: _Load, history: History, quarks: Int32s, range_ns: tuple[int, int], place: Place
) -> None:
    """Add the states of attributes by their intervals, which is exact."""
    for batch in history.interval_batches(quarks, *range_ns):
        value = named(batch.value)
        codes = seen(value.codes)
        table = np.full(len(value.names) + 1, -1, np.int32)
        table[codes] = np.arange(len(codes), dtype=np.int32)
        spans = batch.start_ns, batch.end_ns, table[value.codes]
        sums = _sums(spans, len(codes), range_ns, place)
        load.add([value.names[code] for code in codes.tolist()], sums)


def _sums(
    spans: tuple[Int64s, Int64s, Int32s], codes: int, range_ns: tuple[int, int], place: Place
) -> npt.NDArray[np.float64]:
    """Return how many intervals with each code there are, on average over each bin.

    Args:
        spans: When each begins and ends, and its code.
        codes: How many codes there are.
        range_ns: What is counted of them, inside the tile.
        place: Where the tile is.
    """
    partly, whole = np.zeros((codes, BINS)), np.zeros((codes, BINS + 1), np.int64)
    state_load(*spans, *range_ns, place.start_ns, place.level, partly, whole)
    return partly + np.cumsum(whole, axis=1)[:, :-1]


def _outermost_sums(
    tree: LaneTree, block: SpanBlock, lanes: set[int], place: Place
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return how many outermost spans there are in lanes of a block, the most frequent by name."""
    found = tree.outermost(block, nested=tree.lanes[block.lanes[0]].kind == "stack")
    part = found.within(place.start_ns, place.end_ns)
    start_ns, end_ns, codes = found.start_ns[part], found.end_ns[part], found.name[part]
    if not lanes.issuperset(block.lanes):
        row = found.row[part]
        lane = np.array(block.lanes)[np.searchsorted(block.row_offsets, row, side="right") - 1]
        here = np.isin(lane, list(lanes))
        start_ns, end_ns, codes = start_ns[here], end_ns[here], codes[here]
    counts = np.bincount(codes, minlength=1)
    used = np.flatnonzero(counts)
    kept = used[np.argsort(-counts[used], kind="stable")[:_MOST_NAMES]]
    code_of = np.full(len(counts), len(kept), np.int32)
    code_of[kept] = np.arange(len(kept), dtype=np.int32)
    all_names = block.spans.table.name.names
    names = [*(all_names[each] for each in kept.tolist()), ""]
    spans = start_ns, end_ns, looked_up(code_of, codes)
    return names, _sums(spans, len(names), (place.start_ns, place.end_ns), place)


class _Load:
    """How many entities are in each state in each bin."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._by_name: dict[str, npt.NDArray[np.float64]] = {}

    def add(self, names: Sequence[str], sums: npt.NDArray[np.float64]) -> None:
        """Add the loads of states by bin."""
        for name, row in zip(names, sums, strict=True):
            if name not in self._by_name:
                self.names.append(name)
                self._by_name[name] = np.zeros(BINS)
            self._by_name[name] += row

    def columns(self) -> npt.NDArray[np.float32]:
        """Return the load by state and bin."""
        load = np.array([self._by_name[name] for name in self.names], np.float32)
        return load.reshape(len(self.names), BINS)


KINDS: dict[str, Callable[[LaneTree, Any, Place], Tile]] = {
    "state": _state,
    "counter": _counter,
    "density": _density,
    "points": _points,
    "stack": _spans,
    "async": _spans,
    "packed": _packed,
    "group": _group,
}
