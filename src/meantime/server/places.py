"""What is at a place of a lane: the facts that a page shows of what is under the pointer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.model.columns import distinct
from meantime.model.extent import format_handle
from meantime.model.units import MAX_NS
from meantime.query.threads import thread_of, thread_title
from meantime.server.lane_blocks import Block, PackedBlock, SpanBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.history import History
    from meantime.history.results import Interval
    from meantime.model.columns import Int32s
    from meantime.server.lanes import LaneTree

__all__ = ["arguments_of", "at", "clip", "hit", "neighbors", "points", "span"]

_MOST_FUNCTIONS = 10
_MOST_ENTITIES = 5_000
_MOST_POINTS = 100


class Spot(NamedTuple):
    """A row of a lane, and the time of a column of pixels.

    Attributes:
        row: Which row of the lane.
        start_ns: Where the column begins.
        end_ns: Where it ends.
    """

    row: int
    start_ns: int
    end_ns: int


def clip(history: History, start_ns: int, end_ns: int) -> tuple[int, int] | None:
    """Return the part of a range that is in a history; None if nothing is."""
    start_ns, end_ns = max(start_ns, history.start_ns), min(end_ns, history.end_ns)
    return (start_ns, end_ns) if start_ns < end_ns else None


def at(tree: LaneTree, lane: int, row: int | None, time_ns: int, width_ns: int) -> dict[str, Any]:
    """Return what is at a time of a row, and how [time_ns, time_ns + width_ns) divides.

    Args:
        tree: The lanes.
        lane: The lane.
        row: The row; None is all rows of a lane of entities, which then have shares together.
        time_ns: The time.
        width_ns: How long the part is.

    Raises:
        LookupError: If there is no such lane or row.
    """
    if not 0 <= lane < len(tree.lanes):
        raise LookupError(f"there is no lane {lane}")
    found = tree.lanes[lane]
    if row is not None and not 0 <= row < max(1, found.rows):
        raise LookupError(f"lane {lane} has no row {row}")
    if width_ns < 1 or time_ns + width_ns > MAX_NS:
        raise UsageError("the width is at least 1 ns, and ends within 64 bits")
    path = tree.path(lane)
    answer: dict[str, Any] = {
        "kind": found.kind,
        "lane": lane,
        "row": row or 0,
        "path": path,
        "handle": format_handle(path, time_ns) if path else "",
        "item": None,
    }
    spot = Spot(row or 0, time_ns, time_ns + width_ns)
    if found.kind == "group" or (found.kind == "packed" and row is None):
        return answer | _load_at(tree, lane, spot)
    block, index = tree.within_block(lane)
    if isinstance(block, SpanBlock):
        return answer | _spans_at(tree, block, index, spot)
    if isinstance(block, PackedBlock):
        return answer | _packed_at(tree, block, index, spot)
    assert isinstance(block, Block)
    return answer | _FLAT[found.kind](tree, int(block.quarks[index]), spot)


def _shares(history: History, quarks: Int32s, start_ns: int, end_ns: int) -> list[dict[str, Any]]:
    """Return how the time of attributes divides, the longest state first."""
    part = clip(history, start_ns, end_ns)
    total = len(quarks) * (end_ns - start_ns)
    times: dict[Any, int] = {}
    if part is not None:
        found = history.shares(quarks, *part)
        for value, ns in zip(found.value.to_list(), found.ns.tolist(), strict=True):
            times[value] = times.get(value, 0) + ns
    outside = total - sum(times.values())
    if outside:
        times[None] = times.get(None, 0) + outside
    order = sorted(times.items(), key=lambda each: (-each[1], each[0] is None))
    return [
        {
            "state": None if value is None else str(value),
            "time_ns": ns,
            "share": ns / (end_ns - start_ns),
        }
        for value, ns in order
    ]


def _interval(history: History, found: Interval) -> dict[str, Any] | None:
    if found.value is None:
        return None
    return {
        "name": str(found.value),
        "start_ns": found.start_ns,
        "end_ns": found.end_ns,
        "ongoing": found.ongoing,
        "tag": None if found.tag is None else history.tags[found.tag],
    }


def _state_at(tree: LaneTree, quark: int, spot: Spot) -> dict[str, Any]:
    history, item = tree.history, None
    if history.start_ns <= spot.start_ns < history.end_ns:
        item = _interval(history, history.state(quark, spot.start_ns))
    quarks = np.array([quark], np.int32)
    return {"item": item, "shares": _shares(history, quarks, spot.start_ns, spot.end_ns)}


def _load_at(tree: LaneTree, lane: int, spot: Spot) -> dict[str, Any]:
    """Return how many of the entities of a lane, or of a group of lanes, are in each state.

    That is the shares of their states; their sum is how many there are on average.
    """
    flat = []
    here = [np.empty(0, np.int32)]
    for number in tree.below([lane]):
        kind = tree.lanes[number].kind
        if kind == "state":
            flat.append(tree.lanes[number].quark)
        elif kind == "packed":
            block, index = tree.within_block(number)
            first, last = block.row_offsets[index : index + 2]
            is_here = (block.start_ns < spot.end_ns) & (block.end_ns > spot.start_ns)
            here.append(block.quarks[is_here & (block.row >= first) & (block.row < last)])
    quarks = np.concatenate([np.array(flat, np.int32), *here])
    if not len(quarks) or len(quarks) > _MOST_ENTITIES:
        return {"shares": []}
    found = _shares(tree.history, distinct(quarks), spot.start_ns, spot.end_ns)
    return {"shares": [each for each in found if each["state"] is not None]}


def _counter_at(tree: LaneTree, quark: int, spot: Spot) -> dict[str, Any]:
    history = tree.history
    if not history.start_ns <= spot.start_ns < history.end_ns:
        return {}
    found = history.state(quark, spot.start_ns)
    width_ns = spot.end_ns - spot.start_ns
    tile = history.counter_tile(np.array([quark], np.int32), spot.start_ns, width_ns, 1)
    item = {
        "value": found.value,
        "start_ns": found.start_ns,
        "end_ns": found.end_ns,
        "least": _number(tile.least[0, 0]),
        "greatest": _number(tile.greatest[0, 0]),
        "mean": _number(tile.mean[0, 0]),
    }
    return {"item": item}


def _number(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None


def _samples_at(tree: LaneTree, quark: int, spot: Spot) -> dict[str, Any]:
    samples = tree.history.samples([quark], start_ns=spot.start_ns, end_ns=spot.end_ns)
    stacks = samples.stack[samples.stack >= 0]
    frames, counts = np.unique(samples.stacks.frame[stacks], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_FUNCTIONS]
    lane = next(each for each in tree.lanes if each.quark == quark and each.kind == "density")
    item = {
        "samples": len(samples),
        "weight": int(samples.weight.sum()),
        "unit": lane.unit,
        "functions": [
            {"name": samples.stacks.frames[frames[each]], "count": int(counts[each])}
            for each in order.tolist()
        ],
    }
    return {"item": item}


def _points_at(tree: LaneTree, quark: int, spot: Spot) -> dict[str, Any]:
    return {"item": points(tree, [quark], spot.start_ns, spot.end_ns, _MOST_POINTS)}


def _spans_at(tree: LaneTree, block: SpanBlock, index: int, spot: Spot) -> dict[str, Any]:
    row, time_ns, end_ns = spot
    spans = block.spans
    part = spans.table.select(block.lane_threads[index], start_ns=time_ns, end_ns=end_ns)
    rows = part.rows[spans.row[part.rows] == block.row_offsets[index] + row]
    if not len(rows):
        return {"in_width": {"count": 0, "covered_ns": 0, "share": 0.0}}
    start_ns, stop_ns = spans.table.start_ns[rows], spans.table.end_ns[rows]
    covered_ns = int((np.minimum(stop_ns, end_ns) - np.maximum(start_ns, time_ns)).sum())
    longest = int(rows[np.argmax(stop_ns - start_ns)])
    item = _span_item(tree, block, longest)
    return {
        "kind": "span",
        "in_width": {
            "count": len(rows),
            "covered_ns": covered_ns,
            "share": covered_ns / (end_ns - time_ns),
        },
        "item": item,
    }


def _span_item(tree: LaneTree, block: SpanBlock, span: int) -> dict[str, Any]:
    table = block.spans.table
    start_ns, end_ns = int(table.start_ns[span]), int(table.end_ns[span])
    item: dict[str, Any] = {"name": table.name[span], "start_ns": start_ns, "end_ns": end_ns}
    numbers = block.spans.numbers
    if block.spans.samples is not None:
        return item | {"samples": int(block.spans.samples[span])}
    assert numbers is not None
    part, own = table.around(span)
    parent = int(table.parent[span])
    return item | {
        "category": table.category[span],
        "self_ns": int(part.self_ns[own]),
        "depth": int(table.depth[span]),
        "span": int(numbers[span]),
        "handle": f"span {int(numbers[span])}",
        "parent": None if parent < 0 else int(numbers[parent]),
        "children": int(np.count_nonzero(part.parent == own)),
        "unfinished": bool(table.unfinished[span : span + 1].any()),
        "thread": thread_title(thread_of(tree.history, table.thread_at(span))),
        "arguments": arguments_of(table, span),
    }


def arguments_of(table: Any, row: int) -> Any:
    """Return the arguments of a span or a point: JSON if they are, otherwise a text."""
    try:
        text = table.arguments(row)
    except (InputError, OSError) as error:
        return f"(unavailable: {error})"
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def span(tree: LaneTree, number: int) -> dict[str, Any]:
    """Return what is known of a span, and its lane.

    Raises:
        LookupError: If there is no such span.
    """
    spans = tree.spans
    found = [] if spans is None else np.flatnonzero(spans.numbers == number).tolist()
    if spans is None or not found:
        raise LookupError(f"there is no span {number}")
    (index,) = found
    quark = spans.table.thread_at(index)
    lane, row = tree.place_of_span(quark, index)
    block, _ = tree.within_block(lane)
    return {
        "kind": "span",
        "lane": lane,
        "row": row,
        "path": tree.path(lane),
        "handle": format_handle(tree.handle(quark), int(spans.table.start_ns[index])),
        "item": _span_item(tree, block, index),
    }


def _packed_at(tree: LaneTree, block: PackedBlock, index: int, spot: Spot) -> dict[str, Any]:
    row, time_ns, end_ns = spot
    history = tree.history
    here = np.flatnonzero(
        (block.row == block.row_offsets[index] + row)
        & (block.start_ns < end_ns)
        & (block.end_ns > time_ns)
    )
    quarks = block.quarks[here]
    if not len(here):
        return {"in_width": {"count": 0, "covered_ns": 0, "share": 0.0}, "shares": []}
    inside = np.minimum(block.end_ns[here], end_ns) - np.maximum(block.start_ns[here], time_ns)
    longest = int(here[np.argmax(inside)])
    quark = int(block.quarks[longest])
    start_ns, stop_ns = int(block.start_ns[longest]), int(block.end_ns[longest])
    moment_ns = min(max(time_ns, start_ns), stop_ns - 1)
    state = history.state(quark, moment_ns)
    life = history.shares(np.array([quark], np.int32), start_ns, stop_ns)
    times = sorted(
        zip(life.value.to_list(), life.ns.tolist(), strict=True), key=lambda each: -each[1]
    )
    covered_ns = int(inside.sum())
    shares: dict[str | None, int] = {}
    part = clip(history, time_ns, end_ns)
    if part is not None and len(quarks) <= _MOST_ENTITIES:
        found = history.shares(quarks, *part)
        for value, ns in zip(found.value.to_list(), found.ns.tolist(), strict=True):
            if value is not None:
                shares[str(value)] = shares.get(str(value), 0) + ns
    width_ns = end_ns - time_ns
    if width_ns > sum(shares.values()):
        shares[None] = width_ns - sum(shares.values())
    return {
        "in_width": {"count": len(here), "covered_ns": covered_ns, "share": covered_ns / width_ns},
        "shares": [
            {"state": name, "time_ns": ns, "share": ns / width_ns}
            for name, ns in sorted(shares.items(), key=lambda each: (-each[1], each[0] is None))
        ],
        "item": {
            "name": block.names[longest],
            "entity": quark,
            "path": tree.handle(quark),
            "handle": format_handle(tree.handle(quark), moment_ns),
            "start_ns": start_ns,
            "end_ns": stop_ns,
            "state": _interval(history, state),
            "tag": None if state.tag is None else history.tags[state.tag],
            "times": [
                {"state": str(value), "time_ns": ns} for value, ns in times if value is not None
            ],
        },
    }


def points(
    tree: LaneTree,
    quarks: Sequence[int] | Int32s | None,
    start_ns: int | None,
    end_ns: int | None,
    limit: int,
) -> dict[str, Any]:
    """Return the first instants of a range, and how many more there are."""
    found = tree.history.points(quarks, start_ns=start_ns, end_ns=end_ns)
    lane_of = {lane.quark: at for at, lane in enumerate(tree.lanes) if lane.kind == "points"}
    listed = []
    for row in range(min(limit, len(found))):
        quark = int(found.quark[row])
        listed.append(
            {
                "time_ns": int(found.time_ns[row]),
                "lane": lane_of.get(quark),
                "path": tree.handle(quark),
                "name": found.name[row],
                "arguments": arguments_of(found, row),
            }
        )
    return {"points": listed, "rest": len(found) - len(listed)}


def hit(  # noqa: PLR0917 - in the order of its members
    kind: str,
    lane: int | None,
    row: int,
    name: str | None,
    start_ns: int,
    end_ns: int,
    span: int | None = None,
    arguments: str | None = None,
) -> dict[str, Any]:
    """Return a thing that was found, as JSON values; `span` is the number of a span."""
    found = {
        "kind": kind,
        "lane": lane,
        "row": row,
        "name": name,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "span": span,
    }
    return found if arguments is None else {**found, "arguments": arguments}


def neighbors(
    tree: LaneTree, lane: int, row: int, time_ns: int, name: str | None
) -> dict[str, Any]:
    """Return the things before and after the one at a time in a row, or in a lane by name.

    Raises:
        LookupError: If there is no such lane.
    """
    if not 0 <= lane < len(tree.lanes):
        raise LookupError(f"there is no lane {lane}")
    found = tree.lanes[lane]
    if found.kind in {"stack", "async"}:
        return _neighboring_spans(tree, lane, row, time_ns, name)
    if found.kind == "packed":
        return _neighboring_entities(tree, lane, row, time_ns, name)
    if found.kind != "state":
        return {"previous": None, "next": None}
    history, quark = tree.history, np.array([found.quark], np.int32)
    inside_ns = min(max(time_ns, history.start_ns), history.end_ns - 1)
    value = ... if name is None else name
    here = history.state(found.quark, inside_ns)
    ways = {
        "previous": history.preceding(quark, here.start_ns, value=value),
        "next": history.following(quark, inside_ns, value=value),
    }
    return {
        way: None
        if each is None
        else hit("state", lane, 0, str(each.value), each.start_ns, each.end_ns)
        for way, each in ways.items()
    }


def _neighboring_spans(
    tree: LaneTree, lane: int, row: int, time_ns: int, name: str | None
) -> dict[str, Any]:
    block, index = tree.within_block(lane)
    table, rows = block.spans.table, block.spans.row
    first, last = block.row_offsets[index : index + 2]
    numbers = block.spans.numbers
    found = table.select(block.lane_threads[index]).rows
    own = rows[found]
    if name is None:
        found = found[own == first + row]
    else:
        codes = [code for code, each in enumerate(table.name.names) if each == name]
        is_named = np.isin(table.name.codes[found], codes)
        found = found[(own >= first) & (own < last) & is_named]
    start_ns = table.start_ns[found]
    before = found[start_ns < time_ns]
    after = found[start_ns > time_ns]
    if name is None:
        before = before[table.end_ns[before] <= time_ns]
    ends = {
        "previous": None if not len(before) else before[np.argmax(table.start_ns[before])],
        "next": None if not len(after) else after[np.argmin(table.start_ns[after])],
    }
    return {
        way: None
        if each is None
        else hit(
            "span",
            lane,
            int(rows[each]) - first,
            table.name[each],
            int(table.start_ns[each]),
            int(table.end_ns[each]),
            None if numbers is None else int(numbers[each]),
        )
        for way, each in ends.items()
    }


def _neighboring_entities(
    tree: LaneTree, lane: int, row: int, time_ns: int, name: str | None
) -> dict[str, Any]:
    block, index = tree.within_block(lane)
    first, last = block.row_offsets[index : index + 2]
    here = (block.row >= first) & (block.row < last)
    if name is None:
        here &= block.row == first + row
    rows = np.flatnonzero(here)
    if name is not None:
        rows = np.array([each for each in rows.tolist() if block.names[each] == name], np.int64)
    before = rows[block.end_ns[rows] <= time_ns]
    after = rows[block.start_ns[rows] > time_ns]
    ends = {
        "previous": None if not len(before) else before[np.argmax(block.start_ns[before])],
        "next": None if not len(after) else after[np.argmin(block.start_ns[after])],
    }
    return {
        way: None
        if each is None
        else hit(
            "entity",
            lane,
            int(block.row[each]) - first,
            block.names[each],
            int(block.start_ns[each]),
            int(block.end_ns[each]),
        )
        for way, each in ends.items()
    }


_FLAT: dict[str, Callable[[LaneTree, int, Spot], dict[str, Any]]] = {
    "state": _state_at,
    "counter": _counter_at,
    "density": _samples_at,
    "points": _points_at,
}
