"""Rows that short-lived entities share, such as the tasks of one spawn site.

Where a row has no entity it has no state. If rectangles are merged, such a gap is one more state
until they are few enough: index 0, before the states of the panel.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels.nest import first_free
from meantime.kernels.rectangles import Columns, Visible
from meantime.model.attribute_paths import task_process
from meantime.model.attributes import ROOT, entity_name
from meantime.model.columns import first_rows
from meantime.model.natural_order import natural_key
from meantime.model.process_roles import role_in
from meantime.query.lifetimes import lifetimes
from meantime.views.statemap.data import SharedRows

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.views.statemap.window import Window

__all__ = ["Packed", "fill_gaps", "pack_rows", "remove_gaps"]


class Packed(NamedTuple):
    """Entities in rows.

    Attributes:
        quarks: The entities with a state in the window: by row, and there in order of time.
        rows: The row of each.
        names: The names of the rows: site by site, the sites of a process together.
        shared: The entities of each row.
    """

    quarks: Int32s
    rows: Int32s
    names: list[str]
    shared: SharedRows


def pack_rows(
    history: History, quarks: Int32s, window: Window, *, with_process: bool = True
) -> Packed:
    """Return rows in which no two entities overlap: each is in the first that is free.

    Only entities of one process with the same parent, which is where tasks were created, share
    rows. Without `with_process`, the names of rows do not have their processes.
    """
    lived = lifetimes(history, quarks)
    seen = (lived.start_ns < lived.end_ns) & (lived.end_ns > window.start_ns)
    seen &= lived.start_ns < window.end_ns
    quarks = quarks[seen]
    start_ns, end_ns = lived.start_ns[seen], lived.end_ns[seen]
    site, sites = _sites(history, quarks, with_process=with_process)
    order = np.lexsort((quarks, start_ns, site))
    offsets = np.searchsorted(site[order], np.arange(len(sites) + 1))
    lane = np.empty(len(quarks), np.int32)
    lane[order] = first_free(start_ns[order], end_ns[order], offsets)
    lanes = np.zeros(len(sites), np.int64)
    np.maximum.at(lanes, site, lane + 1)
    row = (np.cumsum(lanes) - lanes)[site] + lane
    order = np.lexsort((start_ns, row))
    names = [
        f"{name} · lane {number} of {count}" if count > 1 else name
        for name, count in zip(sites, lanes.tolist(), strict=True)
        for number in range(1, count + 1)
    ]
    quarks, row = quarks[order], row[order].astype(np.int32)
    shared = SharedRows(
        sites,
        np.repeat(np.arange(len(sites)), lanes).astype(np.int32),
        first_rows(row, np.arange(len(names) + 1)),
        np.maximum(start_ns[order], window.start_ns),
        _names(history, quarks),
    )
    return Packed(quarks, row, names, shared)


def _sites(history: History, quarks: Int32s, *, with_process: bool) -> tuple[Int64s, list[str]]:
    """Return the site of each entity, and the names of the sites in natural order."""
    attributes = history.attributes
    known: dict[tuple[str, int], int] = {}
    names = attributes.names(quarks)
    parents = map(attributes.parent, quarks.tolist())
    keys = zip(map(task_process, names), parents, strict=True)
    found = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    named = []
    owners = _owners(history, {process for process, _ in known})
    for process, parent in known:
        path = ("/",) if parent == ROOT else attributes.path(parent)
        owner = owners[process] if with_process else ""
        named.append(f"{owner} {entity_name(path[1:] or path)}".lstrip())
    order = sorted(range(len(named)), key=lambda index: natural_key(named[index]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[found], [named[index] for index in order]


def _owners(history: History, processes: set[str]) -> dict[str, str]:
    """Return what each process is called: its role if no other one has it, or its number."""
    facts = history.facts
    roles = {process: role_in(facts, process) for process in processes}
    counted = Counter(roles.values())
    return {
        process: role if role and counted[role] == 1 else f"{process} {role}".strip()
        for process, role in roles.items()
    }


def _names(history: History, quarks: Int32s) -> list[str]:
    names, given = history.attributes.names(quarks), history.names
    if not given:
        return names
    return [
        f"{name} {given[quark]}" if quark in given else name
        for name, quark in zip(names, quarks.tolist(), strict=True)
    ]


def fill_gaps(visible: Visible, last: tuple[int, int]) -> Visible:
    """Return intervals with one of state 0 in each gap, and their own states counted from 1.

    Args:
        visible: The intervals.
        last: The row and the end of the interval before them.
    """
    row, start_ns, end_ns = visible.row, visible.start, visible.end
    row_before = np.concatenate([[last[0]], row[:-1]])
    free_ns = np.concatenate([[last[1]], end_ns[:-1]])
    gap = (row == row_before) & (start_ns > free_ns)
    place = np.arange(len(row)) + np.cumsum(gap)
    count = len(row) + int(np.count_nonzero(gap))
    before = place[gap] - 1
    filled = Visible._make(_spread(values, place, count) for values in visible)
    filled.state[place] += 1
    if filled.tag is not None:
        filled.tag[before] = -1
    filled.row[before] = row[gap]
    filled.start[before] = free_ns[gap]
    filled.end[before] = start_ns[gap]
    return filled


def _spread(values: npt.NDArray[Any] | None, place: Int64s, count: int) -> npt.NDArray[Any] | None:
    """Return this number of rows with the values at their places, and zeros between."""
    if values is None:
        return None
    into = np.zeros(count, values.dtype)
    into[place] = values
    return into


def remove_gaps(columns: Columns | Visible) -> Columns | Visible:
    """Return rectangles without those that are nothing but gaps, and states counted from 0.

    One that was merged with gaps remains: the times of its states sum to less than its length.
    """
    if isinstance(columns, Visible):
        shown = columns.state > 0
        whole = Visible._make(None if values is None else values[shown] for values in columns)
        return whole._replace(state=whole.state - 1)
    held = columns.state_index > 0
    before = np.concatenate([[0], np.cumsum(held)])
    offsets = before[columns.state_offsets]
    kept = offsets[1:] > offsets[:-1]
    return Columns(
        columns.row[kept],
        columns.start[kept],
        columns.end[kept],
        columns.marks[kept],
        np.append(offsets[:-1][kept], before[-1]),
        columns.state_index[held] - 1,
        columns.state_ns[held],
        np.append(columns.tag_offsets[:-1][kept], columns.tag_offsets[-1]),
        columns.tag_index,
        columns.tag_ns,
    )
