"""What all lanes do at one time, and when each is active."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.model.columns import named
from meantime.model.state_classes import class_of
from meantime.model.units import MAX_NS
from meantime.query.lifetimes import lifetimes
from meantime.server.places import clip, hit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.model.columns import Int32s
    from meantime.server.answers import Asked
    from meantime.server.lane_blocks import SpanBlock
    from meantime.server.lanes import LaneTree

    # when a lane is first active, and for how long it is in a state
    _Active: TypeAlias = "tuple[int | None, int]"
    # Which of some states count.
    _Counts: TypeAlias = "Callable[[Sequence[str]], list[bool]]"

__all__ = ["activity", "moment"]

# Of a group, the longest ones are named; the others are counted.
_MOST_NAMED = 100


def moment(tree: LaneTree, time_ns: int) -> dict[str, Any]:
    """Return what every lane does at a time: equal ones together, with how many there are.

    Of a thread or an operation that is the innermost span, of other lanes the state. Groups are in
    the order of the outermost lanes, and in each of them the most frequent first.
    """
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    root = _roots(tree)
    for who, thing in (*_states_at(tree, time_ns), *_spans_at(tree, time_ns)):
        key = root[thing["lane"]], str(thing["name"])
        found.setdefault(key, []).append({**thing, "who": who})
    groups = []
    for (lane, name), things in found.items():
        things.sort(key=lambda thing: thing["start_ns"])
        groups.append(
            {
                "lane": lane,
                "name": name,
                "kind": things[0]["kind"],
                "count": len(things),
                "things": things[:_MOST_NAMED],
            }
        )
    groups.sort(key=lambda group: (group["lane"], -group["count"], group["name"]))
    return {"time_ns": time_ns, "groups": groups}


def _roots(tree: LaneTree) -> list[int]:
    """Return the outermost lane that each is in."""
    found: list[int] = []
    for number, lane in enumerate(tree.lanes):
        found.append(number if lane.parent < 0 else found[lane.parent])
    return found


def _states_at(tree: LaneTree, time_ns: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
    history = tree.history
    part = clip(history, time_ns, time_ns + 1)
    if part is None:
        return
    blocks = tree.blocks.get("state", [])
    if blocks:
        quarks = np.concatenate([block.quarks for block in blocks])
        lanes = (lane for block in blocks for lane in block.lanes)
        lane_of = dict(zip(quarks.tolist(), lanes, strict=True))
        for quark, name, start_ns, end_ns in _intervals(history, quarks, part):
            yield None, hit("state", lane_of[quark], 0, name, start_ns, end_ns)
    for block in tree.blocks.get("packed", []):
        here = np.flatnonzero((block.start_ns <= time_ns) & (block.end_ns > time_ns))
        place_of = {
            int(block.quarks[each]): (block.names[each], *block.place(int(block.row[each])))
            for each in here.tolist()
        }
        for quark, name, start_ns, end_ns in _intervals(history, block.quarks[here], part):
            who, lane, row = place_of[quark]
            yield who, hit("packed", lane, row, name, start_ns, end_ns)


def _intervals(
    history: History, quarks: Int32s, part: tuple[int, int]
) -> Iterator[tuple[int, str, int, int]]:
    """Yield the attribute, the state and its times of those that have one."""
    found = history.intervals(quarks, *part)
    value = named(found.value)
    rows = np.flatnonzero(value.codes >= 0)
    columns = found.quark, value.codes, found.start_ns, found.end_ns
    for quark, code, start_ns, end_ns in zip(
        *(column[rows].tolist() for column in columns), strict=True
    ):
        yield quark, value.names[code], start_ns, end_ns


def _spans_at(tree: LaneTree, time_ns: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
    for kind in ("stack", "async"):
        for block in tree.blocks.get(kind, []):
            spans = block.spans
            part = spans.table.select(block.threads, start_ns=time_ns, end_ns=time_ns + 1)
            sizes = np.diff(part.offsets)
            # the one that began last
            for row in part.rows[part.offsets[1:][sizes > 0] - 1].tolist():
                lane, own = block.place(int(spans.row[row]))
                number = None if spans.numbers is None else int(spans.numbers[row])
                start_ns, end_ns = int(spans.table.start_ns[row]), int(spans.table.end_ns[row])
                yield None, hit(kind, lane, own, spans.table.name[row], start_ns, end_ns, number)


def activity(
    tree: LaneTree, asked: Asked, state: str | None, *, work: bool = False
) -> dict[str, Any]:
    """Return when each lane is first active, and for how long in a range it is in a state.

    Without a state, the time in any of them counts, and of threads that in spans. Groups have
    neither. With `work`, only the states count in which something runs; where a history has none,
    all but those in which nothing is wanted.
    """
    counts: _Counts | None = _working if work else None
    if state is not None:
        counts = partial(_same, state)
    history = tree.history
    begin_ns, finish_ns = history.bounds
    start_ns = begin_ns if asked.start_ns is None else asked.start_ns
    end_ns = finish_ns if asked.end_ns is None else asked.end_ns
    found = _of_states(tree, (start_ns, end_ns), counts)
    for kind in ("stack", "async"):
        for block in tree.blocks.get(kind, []):
            found |= _of_spans(block, (start_ns, end_ns), state)
    found |= _of_instants(tree)
    columns = [found.get(lane, (None, 0)) for lane in range(len(tree.lanes))]
    return {"first_ns": [first for first, _ in columns], "time_ns": [ns for _, ns in columns]}


def _same(state: str, names: Sequence[str]) -> list[bool]:
    return [name == state for name in names]


def _working(names: Sequence[str]) -> list[bool]:
    """Return which states run something or, if none does, which are neither idle nor sleeping."""
    classes = [of and of.name for of in map(class_of, names)]
    if "running" in classes:
        return [of == "running" for of in classes]
    return [of not in {"sleep", "idle"} for of in classes]


def _of_states(
    tree: LaneTree, range_ns: tuple[int, int], counts: _Counts | None
) -> dict[int, _Active]:
    """Return when the lanes of states and numbers are active."""
    history = tree.history
    quarks, lanes = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for kind in ("state", "counter", "packed"):
        for block in tree.blocks.get(kind, []):
            quarks.append(block.quarks)
            if kind == "packed":
                of_row = np.searchsorted(block.row_offsets, block.row, side="right") - 1
                lanes.append(np.array(block.lanes)[of_row])
            else:
                lanes.append(np.array(block.lanes))
    # all at once: a query has its price, and there may be thousands of blocks
    entities, lane = np.concatenate(quarks), np.concatenate(lanes)
    lived = lifetimes(history, entities)
    exists = np.flatnonzero(lived.start_ns < lived.end_ns)
    first_ns = np.full(len(tree.lanes), MAX_NS)
    np.minimum.at(first_ns, lane[exists], lived.start_ns[exists])
    time_ns = np.zeros(len(tree.lanes), np.int64)
    np.add.at(time_ns, lane, _times(history, entities, range_ns, counts))
    return {
        number: (None if first == MAX_NS else first, ns)
        for number, first, ns in zip(
            lane.tolist(), first_ns[lane].tolist(), time_ns[lane].tolist(), strict=True
        )
    }


def _times(
    history: History,
    quarks: Int32s,
    range_ns: tuple[int, int],
    counts: _Counts | None,
) -> npt.NDArray[np.int64]:
    """Return how long each attribute is in one of the states that count, or in any."""
    times = np.zeros(len(quarks), np.int64)
    part = clip(history, *range_ns)
    if part is None or not len(quarks):
        return times
    found = history.shares(quarks, *part)
    value = named(found.value)
    rows = np.flatnonzero(value.codes >= 0)
    if counts is not None:
        rows = rows[np.array(counts(value.names), np.bool_)[value.codes[rows]]]
    order = np.argsort(quarks, kind="stable")
    np.add.at(times, order[np.searchsorted(quarks[order], found.quark[rows])], found.ns[rows])
    return times


def _of_spans(
    block: SpanBlock, range_ns: tuple[int, int], state: str | None
) -> Iterator[tuple[int, _Active]]:
    table = block.spans.table
    rows = table.select(block.threads).rows
    own, start_ns = block.spans.row[rows], table.start_ns[rows]
    inside_ns = np.minimum(table.end_ns[rows], range_ns[1]) - np.maximum(start_ns, range_ns[0])
    for index, lane in enumerate(block.lanes):
        low, high = block.row_offsets[index : index + 2]
        here = (own >= low) & (own < high)
        outermost_ns = 0 if state else int(np.maximum(inside_ns[own == low], 0).sum())
        yield lane, (int(start_ns[here].min()) if here.any() else None, outermost_ns)


def _of_instants(tree: LaneTree) -> Iterator[tuple[int, _Active]]:
    """Yield the lanes of samples and of points."""
    samples, points = tree.history.samples(), tree.history.points()
    columns = {
        "density": (samples.thread, samples.time_ns),
        "points": (points.quark, points.time_ns),
    }
    for kind, (quark, time_ns) in columns.items():
        quarks, index = np.unique(quark, return_index=True)
        first = dict(zip(quarks.tolist(), time_ns[index].tolist(), strict=True))
        for block in tree.blocks.get(kind, []):
            for lane, each in zip(block.lanes, block.quarks.tolist(), strict=True):
                yield lane, (first.get(each), 0)
