"""The source of each map: a lane of a history, its rows by name, its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import MeantimeError
from meantime.model.attribute_paths import STATUS, THREADS
from meantime.model.attributes import entity_name
from meantime.model.columns import distinct
from meantime.model.natural_order import natural_order
from meantime.model.trace import State
from meantime.query.filtering import matching
from meantime.query.threads import thread_of, thread_title
from meantime.views.statemap.shared_rows import pack_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.model.columns import Coded, Int32s
    from meantime.views.statemap.data import Existence, SharedRows
    from meantime.views.statemap.window import Window

__all__ = ["PanelSource", "StateTable", "panel_sources"]


class StateTable:
    """The states of a lane in order of value: those declared, then others in order of appearance.

    Attributes:
        states: The states, in the order of their indices in a panel.
    """

    def __init__(self, declared: Sequence[State]) -> None:
        self.states: list[State] = list(declared)
        self._index = {state.name: index for index, state in enumerate(declared)}
        self._names: Sequence[str] = ()
        self._of_code: Int32s = np.empty(0, np.int32)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def index(self, name: str) -> int:
        """Return the index of a state."""
        return self._index[name]

    def of_code(self, names: Sequence[str]) -> Int32s:
        """Return for each code the index of the state with that name; -1 if it is not there yet."""
        if names is not self._names:
            self._names = names
            self._of_code = np.array([self._index.get(name, -1) for name in names], np.int32)
        return self._of_code

    def add(self, column: Coded) -> None:
        """Add the values of a column that are not yet states."""
        of_code = self.of_code(column.names)
        met = column.codes[column.codes >= 0]
        for code in distinct(met[of_code[met] < 0]).tolist():
            name = column.names[code]
            of_code[code] = self._index[name] = len(self.states)
            self.states.append(State(name, len(self.states)))


class PanelSource(NamedTuple):
    """The rows and states that a panel is drawn from.

    Attributes:
        history: The history with its data.
        title: Its title.
        label: The name of the lane, empty if no other is drawn.
        entity_kind: The kind of its entities.
        quarks: Its attributes, row by row: states in natural order of their names, depths of stacks
            by thread.
        rows: The row of each attribute.
        names: The names of its rows.
        owners: The attribute whose events each of `quarks` shows: itself, or its thread.
        filtered: The owners of attributes that the filter left out.
        absent: Attributes that are selected, but have no state in the window and therefore no row.
        table: Its states.
        existence: When its entities exist.
        shared: The entities of its rows, if several share one.
    """

    history: History
    title: str
    label: str
    entity_kind: str
    quarks: Int32s
    rows: Int32s
    names: list[str]
    owners: Int32s
    filtered: Int32s
    absent: Int32s
    table: StateTable
    existence: Existence
    shared: SharedRows | None

    @property
    def row_of_quark(self) -> Int32s:
        """The row of each attribute of the history, -1 if it has none."""
        rows = np.full(len(self.history.attributes), -1, np.int32)
        rows[self.quarks] = self.rows
        return rows


def panel_sources(
    history: History, window: Window, *, pattern: str | None, packed: bool
) -> list[PanelSource]:
    """Return a source for each lane of a history that can be drawn: all but those of numbers.

    An attribute has a row if it ever had a state, or a description; one of a short-lived lane if it
    has a state in the window. A lane without rows has no source if another one has rows.

    Args:
        history: The history.
        window: The range that is drawn.
        pattern: Selects entities by name.
        packed: Whether short-lived entities share rows.

    Raises:
        MeantimeError: If no lane can be drawn.
        UsageError: If the pattern is not a regular expression.
    """
    lanes = [lane for lane in history.lanes if lane.declaration.kind in _ROWS_OF]
    if not lanes:
        hint = "; use a provider to turn its events into states" if len(history.points()) else ""
        raise MeantimeError(f"there are no states to draw in this trace{hint}")
    title = history.title or ""
    every = [
        (lane, _packed_rows(history, lane.quarks, window, pattern))
        if packed and lane.declaration.short_lived
        else (lane, _filtered(_ROWS_OF[lane.declaration.kind](history, lane.quarks), pattern))
        for lane in lanes
    ]
    used = [(lane, rows) for lane, rows in every if rows.names or len(rows.filtered)] or every[:1]
    made = []
    for (declaration, _), rows in used:
        existence: Existence = "row" if declaration.kind in {"state", "object"} else "always"
        made.append(
            PanelSource(
                history,
                title,
                declaration.name if len(used) > 1 else "",
                declaration.entity_kind or "Entity",
                rows.quarks,
                np.arange(len(rows.names), dtype=np.int32) if rows.rows is None else rows.rows,
                rows.names,
                rows.owners,
                rows.filtered,
                rows.absent,
                StateTable(declaration.states or rows.states),
                "state" if declaration.short_lived else existence,
                rows.shared,
            )
        )
    return made


class _Rows(NamedTuple):
    quarks: Int32s
    owners: Int32s
    names: list[str]
    states: Sequence[State] = ()
    filtered: Int32s = np.empty(0, np.int32)
    absent: Int32s = np.empty(0, np.int32)
    rows: Int32s | None = None
    shared: SharedRows | None = None


def _shown(names: list[str], pattern: str) -> npt.NDArray[np.bool_]:
    is_shown = matching(pattern, names)
    return np.array([bool(is_shown(name)) for name in names], np.bool_)


def _filtered(rows: _Rows, pattern: str | None) -> _Rows:
    if pattern is None:
        return rows
    shown = _shown(rows.names, pattern)
    return rows._replace(
        quarks=rows.quarks[shown],
        owners=rows.owners[shown],
        names=[name for name, kept in zip(rows.names, shown.tolist(), strict=True) if kept],
        filtered=rows.owners[~shown],
    )


def _packed_rows(history: History, quarks: Int32s, window: Window, pattern: str | None) -> _Rows:
    quarks = quarks[history.has_values(quarks)]
    filtered = np.empty(0, np.int32)
    if pattern is not None:
        shown = _shown(_row_names(history, quarks), pattern)
        quarks, filtered = quarks[shown], quarks[~shown]
    found = pack_rows(history, quarks, window)
    return _Rows(
        found.quarks,
        found.quarks,
        found.names,
        filtered=filtered,
        absent=np.setdiff1d(quarks, found.quarks),
        rows=found.rows,
        shared=found.shared,
    )


def _state_rows(history: History, quarks: Int32s) -> _Rows:
    described = np.array([int(quark) in history.descriptions for quark in quarks], np.bool_)
    rows = quarks[history.has_values(quarks) | described]
    names = _row_names(history, rows)
    order = natural_order(names)
    return _Rows(rows[order], rows[order], [names[index] for index in order])


def _row_names(history: History, quarks: Int32s) -> list[str]:
    """Return the names of entities; of threads that have names, these and their ids."""
    attributes = history.attributes
    # the states of a CPU or a thread are an attribute below it
    named = [
        attributes.parent(quark) if attributes.name(quark) == STATUS else quark
        for quark in quarks.tolist()
    ]
    paths = [attributes.path(quark) for quark in named]
    if all(path[-2:-1] == (THREADS,) for path in paths) and any(
        quark in history.names for quark in named
    ):
        return [thread_title(thread_of(history, quark)) for quark in named]
    return [entity_name(path) for path in paths]


def _stack_rows(history: History, quarks: Int32s) -> _Rows:
    """Return the depths of stacks, each thread's together, in the order of the threads."""
    attributes = history.attributes
    threads = set(history.spans().threads.tolist())
    holders = []
    for stack in quarks.tolist():
        above = attributes.parent(stack)
        lane = 0
        if above not in threads:
            lane = int(attributes.name(above))
            above = attributes.parent(attributes.parent(above))
        holders.append((above, lane, stack))
    return _depths(history, holders)


def _async_rows(history: History, quarks: Int32s) -> _Rows:
    """Return the depths of operations, each track's together, in the order of the tracks."""
    attributes = history.attributes
    holders = []
    for track in quarks.tolist():
        holders.append((track, 0, track))
        lanes = attributes.find("Lane", parent=track)
        holders += [
            (track, int(attributes.name(lane)), lane)
            for lane in ([] if lanes is None else attributes.children(lanes).tolist())
        ]
    return _depths(history, holders)


def _depths(history: History, holders: list[tuple[int, int, int]]) -> _Rows:
    """Return a row for each depth below holders: (thread or track, lane, parent of the depths)."""
    attributes = history.attributes
    thread_rank = {quark: rank for rank, quark in enumerate(history.spans().threads.tolist())}
    found: list[tuple[int, int, str]] = []
    for whose, lane, holder in sorted(
        holders, key=lambda row: (thread_rank.get(row[0], -1), row[1])
    ):
        title = (f"lane {lane} · " if lane else "") + thread_title(thread_of(history, whose))
        depths = attributes.children(holder)
        for quark in depths[history.has_values(depths)].tolist():
            depth = attributes.name(quark)
            # the events of a thread are drawn on its outermost row only
            owner = whose if depth == "0" and not lane else quark
            found.append((quark, owner, f"{depth} · {title}"))
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    of_row = np.array(columns[0], np.int32), np.array(columns[1], np.int32)
    return _Rows(*of_row, list(columns[2]), _longest_first(history, {row[0] for row in holders}))


def _longest_first(history: History, whose: set[int]) -> list[State]:
    """Return the names of these threads' spans as states, that with most time in it first."""
    spans = history.spans(sorted(whose))
    total_ns = np.zeros(len(spans.name.names), np.int64)
    np.add.at(total_ns, spans.name.codes, spans.end_ns - spans.start_ns)
    codes = np.argsort(-total_ns, kind="stable")[: np.count_nonzero(total_ns)]
    return [State(spans.name.names[code], value) for value, code in enumerate(codes.tolist())]


_ROWS_OF = {
    "state": _state_rows,
    "stack": _stack_rows,
    "async": _async_rows,
    "object": _state_rows,
}
