"""What each map is about: a lane of a history, its rows by name, its states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meantime.attributes import entity_name
from meantime.columns import Coded
from meantime.errors import MeantimeError
from meantime.trace import State
from meantime.views.statemap.rows import matching, natural_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Values
    from meantime.history import History

__all__ = ["StateTable", "Subject", "coded", "subjects"]


class StateTable:
    """The states of a lane in order of value: those declared, then others as they are met.

    Attributes:
        states: The states; where a state stands is its index in a panel.
    """

    def __init__(self, declared: Sequence[State]) -> None:
        self.states = list(declared)
        self._index = {state.name: index for index, state in enumerate(declared)}
        self._names: Sequence[str] = ()
        self._of_code: Int32s = np.empty(0, np.int32)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def index(self, name: str) -> int:
        """Return where a state stands."""
        return self._index[name]

    def of_code(self, names: Sequence[str]) -> Int32s:
        """Return by code the index of the state that is called so; -1 where there is none yet."""
        if names is not self._names:
            self._names = names
            self._of_code = np.array([self._index.get(name, -1) for name in names], np.int32)
        return self._of_code

    def add(self, column: Coded) -> None:
        """Add what a column holds and is no state yet."""
        of_code = self.of_code(column.names)
        met = column.codes[column.codes >= 0]
        for code in np.unique(met[of_code[met] < 0]).tolist():
            name = column.names[code]
            of_code[code] = self._index[name] = len(self.states)
            self.states.append(State(name, len(self.states)))


def coded(value: Values) -> Coded:
    """Return values as names: numbers are called as they are written."""
    if isinstance(value, Coded):
        return value
    pairs = np.stack([value.kinds.astype(np.int64), value.words], axis=1)
    _, first, code = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    names = [str(value[row]) for row in first.tolist()]
    codes = np.where(value.kinds == 0, -1, code.reshape(-1)).astype(np.int32)
    return Coded(codes, names)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a map is about.

    Attributes:
        history: Where its data are.
        title: What it is called.
        entity_kind: What a row is.
        quarks: The attributes of its rows, in natural order of their names.
        names: The names of its rows.
        filtered: The attributes that the filter left out.
        table: Its states.
    """

    history: History
    title: str
    entity_kind: str
    quarks: Int32s
    names: list[str]
    filtered: Int32s
    table: StateTable


def subjects(history: History, pattern: str | None) -> list[Subject]:
    """Return what there is to draw of a history: its lanes of states.

    An attribute has a row if it ever had a state, or a description.

    Raises:
        MeantimeError: If there is no such lane.
        UsageError: If the pattern is no regular expression.
    """
    lanes = [lane for lane in history.lanes if lane.declaration.kind == "state"]
    if not lanes:
        raise MeantimeError("there are no states to draw in this trace")
    title = history.title or ""
    made = []
    for declaration, quarks in lanes:
        label = declaration.label or declaration.entity_kind or declaration.pattern
        named = title if len(lanes) == 1 else f"{title}: {label}" if title else label
        described = np.array([int(quark) in history.descriptions for quark in quarks], np.bool_)
        rows = quarks[history.has_values(quarks) | described]
        names = [entity_name(history.attributes.path(quark)) for quark in rows.tolist()]
        order = natural_order(names)
        filtered: list[int] = []
        if pattern is not None:
            shown = matching(pattern, names)
            filtered = [place for place in order if not shown(names[place])]
            order = [place for place in order if shown(names[place])]
        made.append(
            Subject(
                history,
                named,
                declaration.entity_kind or "Entity",
                rows[order],
                [names[place] for place in order],
                rows[filtered],
                StateTable(declaration.states),
            )
        )
    return made
