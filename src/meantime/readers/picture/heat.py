"""Heat maps of meantime: each cell has how much was in it, and mostly the stacks of that.

Samples are put where their cell begins. The time of states and of spans is put one after another
from there on: each cell, and each name, has what it had, but nothing is known within a cell. All
else is samples that have a weight.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.model.attribute_paths import IDLE_SUFFIX, is_idle_task, thread_path
from meantime.model.clocks import Clock
from meantime.model.columns import Interner, distinct
from meantime.model.metadata import LaneDeclaration
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.model.trace import Samples, Spans
from meantime.model.units import MAX_NS, bin_edge, format_ns
from meantime.readers.picture.columns import inflated, varints
from meantime.readers.picture.states import changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.attributes import Path
    from meantime.model.columns import Int64s
    from meantime.model.stacks import StackTable
    from meantime.model.trace import Batch, Trace

__all__ = ["batches"]

# Above this, one sample stands for all that a cell has of a stack.
_MOST_SAMPLES = 2**23
_MOST_ROWS = 2**20
# What samples are called, by what cells count. Of an event nobody takes the distances of samples,
# which are those of cells, for a sampling interval.
_EVENTS = {"ns": "time", "weight": "weight"}
_EVENT = "event"


class _Cells(NamedTuple):
    """How much of what is in each cell.

    Attributes:
        cell: int64, its number from the first of the map on.
        name: int64, an index into the names of the map.
        stack: int64, a row of the stacks, or -1.
        value: int64, how much.
    """

    cell: Int64s
    name: Int64s
    stack: Int64s
    value: Int64s


def batches(head: Mapping[str, Any], blocks: Mapping[str, bytes], trace: Trace) -> Iterator[Batch]:
    """Yield what is in the cells of a heat map.

    Raises:
        ValueError: If it is malformed.
    """
    times = _Times(head)
    names = [str(each) for each in head["names"]]
    plain = cells = _cells(varints(blocks["cells"]), len(names))
    stacks = StackTableBuilder()
    if head["y"] is not None:
        # rows are not times: each is what is in its cells
        rows = [stacks.push(NO_STACK, stacks.frame(label)) for label in _labels(head["y"])]
        rows_of = np.array(rows, np.int64)
        cells = cells._replace(stack=rows_of[cells.cell % times.rows])
    elif "stack-cells" in blocks:
        within = _stack_cells(blocks, len(names), _stacks(blocks, stacks))
        # the time of spans inside each other is in each of their names, and once in their stacks
        if int(within.value.sum()) == int(cells.value.sum()):
            cells = within
    if len(cells.cell) and not 0 <= cells.cell.min() <= cells.cell.max() < times.cells:
        raise ValueError("a cell outside of the map")
    if head["utc_ns"] is not None:
        trace.clock = Clock(utc_at_origin_ns=int(head["utc_ns"]))
    trace.bounds = times.bounds
    trace.lost = [times.range(int(first), int(last)) for first, last in head["lost"]]
    trace.records = len(cells.cell)
    trace.stacks = table = stacks.build()
    trace.facts["resolution"] = (
        f"cells of {format_ns(times.widest_ns)}: what is in one is put at its beginning"
    )
    is_time = head["value"] == "ns" and not head["samples"] and head["y"] is None
    if is_time and len(cells.cell):
        trace.anomalies.add("cells_of_time", len(cells.cell))
        trace.stacks = None
        found = _of_stacks(cells, names, head, table, times, trace)
        yield _of_names(plain, names, times, trace) if found is None else found
    elif len(cells.cell):
        yield _samples(cells, names, head, times, trace)


def _cells(numbers: Int64s, names: int) -> _Cells:
    """Return the cells of each name, without stacks."""
    items, at, rows = numbers.data, 0, []
    for name in range(names):
        count, cell = items[at], 0
        at += 1
        for _ in range(count):
            step, value = items[at], 1
            at += 1
            if step & 1:
                value = items[at]
                at += 1
            cell += step >> 1
            rows.append((cell, name, NO_STACK, value))
    return _checked(rows, at, items)


def _stack_cells(blocks: Mapping[str, bytes], names: int, stacks: list[int]) -> _Cells:
    """Return what the cells have of each stack."""
    items, at, rows, cell = varints(inflated(blocks["stack-cells"])).data, 0, [], 0
    while at < len(items):
        step, name, stack, value = items[at], items[at + 1], items[at + 2], 1
        at += 3
        if step & 1:
            value = items[at]
            at += 1
        cell += step >> 1
        if not (0 <= name < names and 0 <= stack <= len(stacks)):
            raise ValueError("a stack or a name that is not defined")
        rows.append((cell, name, stacks[stack - 1] if stack else NO_STACK, value))
    return _checked(rows, at, items)


def _checked(rows: list[tuple[int, int, int, int]], at: int, items: memoryview[int]) -> _Cells:
    if at != len(items):
        raise ValueError("more cells than there should be")
    found = _Cells(*np.array(rows, np.int64).reshape(-1, 4).T)
    # so that sums fit
    if sum(value for *_, value in rows) > MAX_NS or (found.value < 0).any():
        raise ValueError("values that do not fit")
    return found


def _stacks(blocks: Mapping[str, bytes], table: StackTableBuilder) -> list[int]:
    """Add the stacks of a map to a table, and return the row of each."""
    numbers = varints(inflated(blocks["stack-table"])).reshape(-1, 2).tolist()
    frames = [str(each) for each in json.loads(inflated(blocks["stack-names"]))]
    rows: list[int] = []
    for above, frame in numbers:
        if not (1 <= above <= len(rows) + 1 and 0 <= frame < len(frames)):
            raise ValueError("a caller or a function that is not defined")
        parent = rows[-above] if above <= len(rows) else NO_STACK
        rows.append(table.push(parent, table.frame(frames[frame])))
    return rows


def _labels(y: Mapping[str, Any]) -> list[str]:
    """Return what the rows of a map are called."""
    if y["unit"] == "name":
        return [str(each) for each in y["labels"]]
    edges = [
        format_ns(int(edge)) if y["unit"] == "ns" else f"{100 * float(edge):.4g} %"
        for edge in y["edges"]
    ]
    return [f"{low} to {high}" for low, high in pairwise(edges)]


class _Times:
    """When the cells of a map are.

    Attributes:
        rows: How many cells a column has.
        cells: How many cells the map has.
        widest_ns: The length of the longest cell.
        bounds: From when to when something was recorded.

    Raises:
        ValueError: If times do not fit into 64 bits.
    """

    def __init__(self, head: Mapping[str, Any]) -> None:
        self.rows, columns = int(head["rows"]), int(head["columns"])
        self._origin_ns, self._period_ns = int(head["origin_ns"]), int(head["period_ns"])
        end_ns = self._origin_ns + columns * self._period_ns
        if not (
            0 < self.rows <= _MOST_ROWS
            and columns > 0
            and self._period_ns > 0
            and -MAX_NS <= self._origin_ns < end_ns <= MAX_NS
            and columns * self.rows <= MAX_NS
        ):
            raise ValueError("times that do not fit")
        self.cells = columns * self.rows
        rows = range(self.rows + 1)
        if head["y"] is None:
            edges = [bin_edge(0, self._period_ns, self.rows, row) for row in rows]
            self._begin, self._end = np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)
        else:
            self._begin = np.zeros(self.rows, np.int64)
            self._end = np.full(self.rows, self._period_ns)
        self.widest_ns = int((self._end - self._begin).max())
        zone = head["zone"]
        self._pieces = zone and [[int(edge) for edge in piece] for piece in zone["pieces"]]
        self.bounds = self._bounds(head)

    def begin(self, cell: Int64s) -> Int64s:
        """Return when cells begin, or when the recording began within them."""
        begins: Int64s = np.maximum(self._begins(cell), self.bounds[0])
        return begins

    def width(self, cell: Int64s) -> Int64s:
        """Return how long cells are from there on, as far as they were recorded."""
        ends = np.minimum(self._begins(cell) + self._lengths(cell), self.bounds[1])
        widths: Int64s = np.maximum(ends - self.begin(cell), 1)
        return widths

    def _begins(self, cell: Int64s) -> Int64s:
        column, row = np.divmod(cell, self.rows)
        return self._own(self._origin_ns + column * self._period_ns + self._begin[row])

    def _lengths(self, cell: Int64s) -> Int64s:
        row = cell % self.rows
        lengths: Int64s = self._end[row] - self._begin[row]
        return lengths

    def range(self, first: int, last: int) -> tuple[int, int]:
        """Return from when to when a run of cells is."""
        if not 0 <= first <= last < self.cells:
            raise ValueError("a cell outside of the map")
        cells = np.array([first, last], np.int64)
        begin, end = self._begins(cells).tolist()
        return begin, end + int(self._lengths(cells)[1])

    def _bounds(self, head: Mapping[str, Any]) -> tuple[int, int]:
        whole = self.range(0, self.cells - 1)
        if "bounds" in head:
            first, last = self._own(np.array(list(map(int, head["bounds"])), np.int64)).tolist()
        else:
            ranges = [self.range(int(low), int(high)) for low, high in head["recorded"]] or [whole]
            first, last = ranges[0][0], ranges[-1][1]
        if not whole[0] <= first < last <= whole[1]:
            return whole
        return first, last

    def _own(self, local_ns: Int64s) -> Int64s:
        """Return the times of the trace that local times are, the first of two."""
        if self._pieces is None:
            return local_ns
        found, left = local_ns.copy(), np.ones(len(local_ns), np.bool_)
        for start, end, offset in self._pieces:
            here = left & (local_ns >= start + offset) & (local_ns < end + offset)
            found[here] -= offset
            left &= ~here
        return found


def _path(name: str) -> Path:
    """Return the path of what has a name in a map."""
    if not name:
        return thread_path(0, 0)
    if name.endswith(IDLE_SUFFIX):
        # a thread that has nothing to do where its stacks say so
        return thread_path(0, name.removesuffix(IDLE_SUFFIX))
    path = thread_path(name)
    return thread_path(f"thread {name}") if is_idle_task(path) else path


def _threads(names: Sequence[str], trace: Trace) -> tuple[Int64s, Int64s]:
    """Return the code of the path, and of the name, of each name in a map."""
    values = Interner(trace.values)
    paths = np.array([trace.paths.code(_path(name)) for name in names], np.int64)
    own = [name.removesuffix(IDLE_SUFFIX) for name in names]
    trace.names |= {code: name for code, name in zip(paths.tolist(), own, strict=True) if name}
    return paths, np.array([values.code(name) if name else -1 for name in own], np.int64)


def _samples(
    cells: _Cells, names: Sequence[str], head: Mapping[str, Any], times: _Times, trace: Trace
) -> Samples:
    """Return what the cells have as samples: so many as were counted, or with a weight."""
    is_counted = head["value"] in {"count", "starts", "ends"}
    cell, name, stack, weight = cells
    if is_counted and int(weight.sum()) <= _MOST_SAMPLES:
        cell, name, stack = (np.repeat(column, weight) for column in (cell, name, stack))
        weight = np.ones_like(cell)
    event = _EVENTS.get(str(head["value"]), _EVENT)
    trace.sample_units[event] = "ns" if head["value"] == "ns" else "count"
    paths, codes = _threads(names, trace)
    time_ns = times.begin(cell)
    order = np.argsort(time_ns, kind="stable")
    return Samples(
        time_ns=time_ns[order],
        thread=paths[name][order].astype(np.int32),
        stack=stack[order].astype(np.int32),
        weight=weight[order],
        event=np.full(len(order), Interner(trace.values).code(event), np.int32),
        name=codes[name][order].astype(np.int32),
    )


def _of_stacks(  # noqa: PLR0917 - what a map consists of
    cells: _Cells,
    names: Sequence[str],
    head: Mapping[str, Any],
    table: StackTable,
    times: _Times,
    trace: Trace,
) -> Batch | None:
    """Return the states or spans of stacks, one after another; None unless cells have the room."""
    if (cells.stack < 0).any():
        return None
    is_of_states = head["holds"] == "states"
    if is_of_states:
        # a state, and below it an entity
        row = table.parent[cells.stack]
        if (row < 0).any() or (table.parent[row] >= 0).any():
            return None
        who = table.frame[cells.stack].astype(np.int64)
        what = table.frame[row].astype(np.int64)
    else:
        who, what = cells.name, cells.stack
    order = np.lexsort((what, cells.cell, who))
    who, what = who[order], what[order]
    cell, value = cells.cell[order], cells.value[order]
    is_first = np.ones(len(cell), np.bool_)
    is_first[1:] = (cell[1:] != cell[:-1]) | (who[1:] != who[:-1])
    before = np.cumsum(value) - value
    within = before - before[is_first][np.cumsum(is_first) - 1]
    if (within + value > times.width(cell)).any():
        return None
    start = times.begin(cell) + within
    values, path = Interner(trace.values), trace.paths.code
    if not is_of_states:
        rows = zip(is_first.tolist(), who.tolist(), what.tolist(), start.tolist(), strict=True)
        return _nested(rows, value.tolist(), names, table, trace)
    entities = {each: path((table.frames[each],)) for each in distinct(who).tolist()}
    states = {each: row for row, each in enumerate(distinct(what).tolist())}
    codes = np.array([values.code(table.frames[each]) for each in states], np.int32)
    trace.lanes.append(LaneDeclaration("*", entity_kind="Entity"))
    columns = (
        np.array([entities[each] for each in who.tolist()], np.int64),
        start,
        start + value,
        np.array([states[each] for each in what.tolist()], np.int64),
        np.full(len(cell), -1, np.int64),
    )
    return changes(np.stack(columns, axis=1), codes)


def _nested(
    rows: Iterable[tuple[bool, int, int, int]],
    lengths: Sequence[int],
    names: Sequence[str],
    table: StackTable,
    trace: Trace,
) -> Spans:
    """Return the spans of stacks: of neighbours in a cell, the functions that both have are one."""
    parent, frame = table.parent.tolist(), table.frame.tolist()
    paths = _threads(names, trace)[0].tolist()
    found: list[list[int]] = []
    # the spans that are open: their rows in the table, and in what was found
    opened: list[tuple[int, int]] = []
    for (is_first, name, stack, start_ns), length in zip(rows, lengths, strict=True):
        frames = [stack]
        while parent[frames[-1]] >= 0:
            frames.append(parent[frames[-1]])
        frames.reverse()
        if is_first:
            opened.clear()
        while opened and opened[-1][0] not in frames:
            opened.pop()
        for depth, each in enumerate(frames):
            if depth >= len(opened):
                opened.append((each, len(found)))
                found.append([start_ns, start_ns, paths[name], frame[each]])
            found[opened[depth][1]][1] = start_ns + length
    columns = np.array(found, np.int64).reshape(-1, 4)
    values = Interner(trace.values)
    codes = np.array([values.code(each) for each in table.frames], np.int32)
    return _spans(columns[:, 0], columns[:, 1], columns[:, 2], codes[columns[:, 3]])


def _of_names(cells: _Cells, names: Sequence[str], times: _Times, trace: Trace) -> Spans:
    """Return the time of each name as spans, side by side where several were at a time."""
    width = times.width(cells.cell)
    layers = -(-cells.value // width)
    if int(layers.sum()) > _MOST_SAMPLES:
        raise ValueError("cells with more time than they have room for")
    row = np.repeat(np.arange(len(layers)), layers)
    layer = np.arange(len(row)) - np.repeat(np.cumsum(layers) - layers, layers)
    start = times.begin(cells.cell)[row]
    length = np.minimum(width[row], cells.value[row] - layer * width[row])
    pairs, at = np.unique(np.stack([cells.name[row], layer]), axis=1, return_inverse=True)
    threads = []
    for name, which in pairs.T.tolist():
        threads.append(trace.paths.code(thread_path(f"{names[name] or 'all'} {which + 1}")))
        trace.names[threads[-1]] = names[name]
    values = Interner(trace.values)
    codes = np.array([values.code(name or "all") for name in names], np.int32)
    thread = np.array(threads, np.int64)[at.reshape(-1)]
    return _spans(start, start + length, thread, codes[cells.name[row]])


def _spans(start: Int64s, end: Int64s, thread: Int64s, name: npt.NDArray[np.int32]) -> Spans:
    order = np.lexsort((-end, start))
    rows = len(order)
    return Spans(
        start_ns=start[order],
        end_ns=end[order],
        thread=thread[order].astype(np.int32),
        name=name[order],
        category=np.full(rows, -1, np.int32),
        level=np.zeros(rows, np.int32),
        flags=np.zeros(rows, np.uint8),
    )
