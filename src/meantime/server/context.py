"""What is around a selected thing: callers, what is inside, its rank, what it connects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.model.attribute_paths import CPUS, STATUS, THREADS
from meantime.model.attributes import ANY
from meantime.model.columns import distinct, named
from meantime.model.durations import Durations
from meantime.model.names import without_addresses
from meantime.model.units import MAX_NS
from meantime.query.lifetimes import intervals_between
from meantime.server.lane_blocks import PackedBlock, SpanBlock
from meantime.server.places import clip, hit, neighbors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.model.columns import Int32s, Int64s
    from meantime.server.lanes import LaneTree

    Describe = Callable[[int], dict[str, Any]]

__all__ = ["arrows", "context"]

_MOST_INSIDE = 100
_MOST_ARROWS = 60
_MOST_CPUS = 4_096
_ON_CPU = (CPUS, ANY, "Thread")
_POWERS = 1 << np.arange(63, dtype=np.int64)


class _Thing(NamedTuple):
    """A span, an entity, or a state: the attributes that it is of, and its times."""

    quarks: Sequence[int] | Int32s
    start_ns: int
    end_ns: int


def context(tree: LaneTree, lane: int, row: int, time_ns: int) -> dict[str, Any]:
    """Return what is around the thing that begins at a time in a row of a lane.

    Returns:
        - ``callers``: what contains it, the outermost first;
        - ``inside``: the spans directly inside it or the states of an entity, the longest first,
          with their ``count``;
        - ``standing``: how long it took among the others of its name, or entities of its lane;
        - ``states``, ``cpus``: what its thread did meanwhile, and where it ran;
        - ``flows``: the arrows that leave or reach it, with what is at both ends;
        - ``previous``, ``next``: what is beside it in its row.

    Raises:
        LookupError: If there is no such lane, or nothing at that time.
    """
    if not 0 <= lane < len(tree.lanes):
        raise LookupError(f"there is no lane {lane}")
    block, index = tree.within_block(lane)
    if isinstance(block, SpanBlock):
        thing, found = _of_span(tree, block, index, (row, time_ns))
    elif isinstance(block, PackedBlock):
        thing, found = _of_entity(tree, block, index, (row, time_ns))
    elif tree.lanes[lane].kind == "state":
        thing, found = _of_state(tree, lane, time_ns)
    else:
        raise LookupError(f"lane {lane} has neither spans nor states")
    beside = neighbors(tree, lane, row, thing.start_ns, None)
    return {
        "callers": [],
        "inside": {"count": 0, "hits": []},
        **found,
        **_of_thread(tree, lane, thing),
        "flows": arrows(tree, thing.quarks, thing.start_ns, thing.end_ns),
        **beside,
    }


def _longest(start_ns: Int64s, end_ns: Int64s, describe: Describe) -> dict[str, Any]:
    """Return the longest of some things, described, and how many there are."""
    order = np.argsort(start_ns - end_ns, kind="stable")[:_MOST_INSIDE]
    return {"count": len(start_ns), "hits": [describe(each) for each in order.tolist()]}


def _standing(
    of: str, start_ns: Int64s, end_ns: Int64s, own_ns: int, describe: Describe
) -> dict[str, Any]:
    """Return how a duration compares with others, and the longest of them."""
    lengths_ns = end_ns - start_ns
    figures: Durations[int, float] = Durations.of(lengths_ns)
    buckets = np.searchsorted(_POWERS, np.maximum(lengths_ns, 1), side="right") - 1
    counts = np.bincount(buckets)
    (first,) = np.flatnonzero(counts)[:1].tolist()
    return {
        "of": of,
        "count": figures.count,
        "rank": 1 + int(np.count_nonzero(lengths_ns > own_ns)),
        "total_ns": figures.total_ns,
        "min_ns": figures.min_ns,
        "median_ns": figures.median_ns,
        "max_ns": figures.max_ns,
        "histogram": [first, counts[first:].tolist()],
        "longest": describe(int(np.argmax(lengths_ns))),
    }


def _of_span(
    tree: LaneTree, block: SpanBlock, index: int, place: tuple[int, int]
) -> tuple[_Thing, dict[str, Any]]:
    row, time_ns = place
    spans, table = block.spans, block.spans.table
    part = table.select(block.lane_threads[index], start_ns=time_ns, end_ns=time_ns + 1)
    own_row = block.row_offsets[index] + row
    rows = [each for each in part.rows.tolist() if spans.row[each] == own_row]
    rows = [each for each in rows if table.start_ns[each] == time_ns] or rows
    if not rows:
        raise LookupError(f"nothing is at {time_ns} ns in row {row}")
    own = rows[0]
    numbers = spans.numbers

    def describe(span: int) -> dict[str, Any]:
        times = int(table.start_ns[span]), int(table.end_ns[span])
        if numbers is None:
            place = block.place(int(spans.row[span]))
            return hit("function", *place, table.name[span], *times)
        place = tree.place_of_span(table.thread_at(span), span)
        return hit("span", *place, table.name[span], *times, int(numbers[span]))

    callers = []
    above = int(table.parent[own])
    while above >= 0:
        callers.append(describe(above))
        above = int(table.parent[above])
    around, at = table.around(own)
    inside = around.rows[np.flatnonzero(around.parent == at)]
    name = without_addresses(table.name.names[table.name.codes[own]])
    alike = np.array([without_addresses(each) == name for each in table.name.names], np.bool_)
    same = np.flatnonzero(alike[table.name.codes])
    start_ns, end_ns = int(table.start_ns[own]), int(table.end_ns[own])
    standing = _standing(
        name,
        table.start_ns[same],
        table.end_ns[same],
        end_ns - start_ns,
        lambda each: describe(int(same[each])),
    )
    standing["unfinished"] = int(np.count_nonzero(table.unfinished[same]))
    found = {
        "callers": callers[::-1],
        "inside": _longest(
            table.start_ns[inside], table.end_ns[inside], lambda each: describe(int(inside[each]))
        ),
        "standing": standing,
    }
    return _Thing([table.thread_at(own)], start_ns, end_ns), found


def _of_entity(
    tree: LaneTree, block: PackedBlock, index: int, place: tuple[int, int]
) -> tuple[_Thing, dict[str, Any]]:
    row, time_ns = place
    here = np.flatnonzero(
        (block.row == block.row_offsets[index] + row)
        & (block.start_ns <= time_ns)
        & (block.end_ns > time_ns)
    )
    if not len(here):
        raise LookupError(f"nothing is at {time_ns} ns in row {row}")
    own = int(here[-1])
    quark, lane = int(block.quarks[own]), block.lanes[index]
    start_ns, end_ns = int(block.start_ns[own]), int(block.end_ns[own])
    states = tree.history.intervals([quark], start_ns, end_ns)
    value = named(states.value)
    rows = np.flatnonzero(value.codes >= 0)
    first, last = block.row_offsets[index : index + 2]
    lives = np.flatnonzero((block.row >= first) & (block.row < last))

    def state(each: int) -> dict[str, Any]:
        at = int(rows[each])
        times = int(states.start_ns[at]), int(states.end_ns[at])
        return hit("state", lane, row, value[at], *times)

    def entity(each: int) -> dict[str, Any]:
        at = int(lives[each])
        times = int(block.start_ns[at]), int(block.end_ns[at])
        return hit("entity", *block.place(int(block.row[at])), block.names[at], *times)

    standing = _standing(
        tree.lanes[lane].name,
        block.start_ns[lives],
        block.end_ns[lives],
        end_ns - start_ns,
        entity,
    )
    inside = _longest(states.start_ns[rows], states.end_ns[rows], state)
    return _Thing([quark], start_ns, end_ns), {"inside": inside, "standing": standing}


def _of_state(tree: LaneTree, lane: int, time_ns: int) -> tuple[_Thing, dict[str, Any]]:
    history, quark = tree.history, tree.lanes[lane].quark
    own = history.state(quark, min(max(time_ns, history.start_ns), history.end_ns - 1))
    if own.value is None:
        raise LookupError(f"lane {lane} has no state at {time_ns} ns")
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in intervals_between(history, np.array([quark], np.int32), *history.bounds):
        value = named(batch.value)
        codes = [code for code, each in enumerate(value.names) if each == str(own.value)]
        rows = np.flatnonzero(np.isin(value.codes, codes))
        starts.append(batch.start_ns[rows])
        ends.append(batch.end_ns[rows])
    start_ns, end_ns = np.concatenate(starts), np.concatenate(ends)
    standing = _standing(
        str(own.value),
        start_ns,
        end_ns,
        own.end_ns - own.start_ns,
        lambda each: hit("state", lane, 0, str(own.value), int(start_ns[each]), int(end_ns[each])),
    )
    return _Thing([quark], own.start_ns, own.end_ns), {"standing": standing}


def _of_thread(tree: LaneTree, lane: int, thing: _Thing) -> dict[str, Any]:
    """Return what the thread of a lane did during a thing, and on which CPUs it ran."""
    history = tree.history
    nothing: dict[str, Any] = {"states": [], "cpus": []}
    quark = tree.lanes[lane].quark
    path = history.attributes.path(quark) if quark >= 0 else ()
    part = clip(history, thing.start_ns, thing.end_ns)
    if THREADS not in path[:-1] or part is None:
        return nothing
    thread = path[: path.index(THREADS) + 2]
    status = history.find(*thread, STATUS)
    # of a state alone it is known
    if status is not None and status != quark:
        nothing["states"] = _shares(tree, np.array([status], np.int32), part)
    cpus = history.attributes.quarks(_ON_CPU)
    if len(cpus) > _MOST_CPUS:
        return nothing
    tid = f"({thread[-1]})"
    for cpu in cpus:
        on = [
            each
            for each in _shares(tree, np.array([cpu], np.int32), part)
            if each["state"].endswith(tid)
        ]
        time_ns = sum(each["time_ns"] for each in on)
        if time_ns:
            nothing["cpus"].append(
                {"cpu": str(history.attributes.path(int(cpu))[-2]), "time_ns": time_ns}
            )
    nothing["cpus"].sort(key=lambda each: -each["time_ns"])
    return nothing


def _shares(tree: LaneTree, quarks: Int32s, part: tuple[int, int]) -> list[dict[str, Any]]:
    """Return for how long attributes are in each state, the longest first."""
    found = tree.history.shares(quarks, *part)
    times = zip(found.value.to_list(), found.ns.tolist(), strict=True)
    listed = [
        {"state": str(value), "time_ns": ns, "share": ns / (part[1] - part[0])}
        for value, ns in times
        if value is not None
    ]
    return sorted(listed, key=lambda each: -each["time_ns"])


def arrows(
    tree: LaneTree, quarks: Sequence[int] | Int32s, start_ns: int, end_ns: int
) -> dict[str, Any]:
    """Return the arrows that leave or reach attributes in [start_ns, end_ns], both included.

    Each has ``from_name`` and ``to_name``: the state or the innermost span at that end, None if
    there is none.
    """
    own = distinct(np.asarray(quarks, np.int32))
    found = tree.history.flows(own, start_ns=start_ns, end_ns=min(end_ns + 1, MAX_NS))
    is_own = np.zeros(len(found), np.bool_)
    for quarks_at, times_ns in (
        (found.from_quark, found.from_ns),
        (found.to_quark, found.to_ns),
    ):
        is_own |= np.isin(quarks_at, own) & (times_ns >= start_ns) & (times_ns <= end_ns)
    rows = np.flatnonzero(is_own)
    shown = rows[:_MOST_ARROWS]
    places = tree.places(np.concatenate([found.from_quark[shown], found.to_quark[shown]]))
    listed = []
    for row in shown.tolist():
        ends: dict[str, Any] = {"name": found.name[row]}
        for end in ("from", "to"):
            quark = int(getattr(found, f"{end}_quark")[row])
            time_ns = int(getattr(found, f"{end}_ns")[row])
            lane, place = places.get(quark, (None, 0))
            ends |= {
                f"{end}_ns": time_ns,
                f"{end}_lane": lane,
                f"{end}_row": place,
                f"{end}_path": tree.handle(quark),
                f"{end}_name": _name_at(tree, quark, lane, time_ns),
            }
        listed.append(ends)
    return {"flows": listed, "rest": len(rows) - len(shown)}


def _name_at(tree: LaneTree, quark: int, lane: int | None, time_ns: int) -> str | None:
    """Return what an attribute does at a time: its state, or the innermost span."""
    history = tree.history
    if lane is not None and tree.lanes[lane].kind in {"state", "packed"}:
        if not history.start_ns <= time_ns < history.end_ns:
            return None
        value = history.state(quark, time_ns).value
        return None if value is None else str(value)
    if tree.spans is None:
        return None
    table = tree.spans.table
    rows = table.select([quark], start_ns=time_ns, end_ns=time_ns + 1).rows
    return table.name[int(rows[-1])] if len(rows) else None
