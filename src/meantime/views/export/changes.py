"""The changes of states in a history as columns, for formats that are lists of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import named
from meantime.model.trace import State
from meantime.views.statemap.panel_source import StateTable

if TYPE_CHECKING:
    from collections import Counter

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Changes"]


class Changes(NamedTuple):
    """Columns in order of time: which attribute changed to which state.

    Attributes:
        time_ns: int64.
        quark: int32.
        state: int32, index into `states`.
        tag: int32, -1 for none.
        states: Those that lanes declare, then others in order of appearance, last one for none.
    """

    time_ns: Int64s
    quark: Int32s
    state: Int32s
    tag: Int32s
    states: list[State]

    @classmethod
    def of(cls, history: History, quarks: Int32s, lost: Counter[str]) -> Changes:
        """Return the changes of these attributes within the history's bounds."""
        begin_ns, finish_ns = history.bounds
        table = StateTable(_declared(history))
        parts: list[tuple[Int64s, Int32s, Int32s, Int32s]] = []
        for batch in (
            history.interval_batches(quarks, history.start_ns, history.end_ns)
            if len(quarks)
            else ()
        ):
            column = named(batch.value)
            table.add(column)
            state = np.append(table.of_code(column.names), np.int32(-1))[column.codes]
            kept = (batch.start_ns <= finish_ns) & (batch.end_ns > begin_ns)
            # an attribute without a state has nothing to end before its first one
            first = np.concatenate([[True], batch.quark[1:] != batch.quark[:-1]])
            kept &= ~(first & (state < 0))
            columns = (np.maximum(batch.start_ns, begin_ns), batch.quark, state, batch.tag)
            parts.append(tuple(each[kept] for each in columns))  # type: ignore[arg-type]  # four
        empty = (np.empty(0, np.int64), *(np.empty(0, np.int32) for _ in range(3)))
        time_ns, quark, state, tag = (
            np.concatenate(columns) for columns in zip(empty, *parts, strict=True)
        )
        states = table.states
        if gaps := int(np.count_nonzero(state < 0)):
            states = [*states, State(_unused({each.name for each in states}), len(states))]
            lost[f"times without a state, which became the state {states[-1].name!r}"] += gaps
            state = np.where(state < 0, np.int32(len(states) - 1), state)
        order = np.argsort(time_ns, kind="stable")
        return cls(time_ns[order], quark[order], state[order], tag[order], states)


def _declared(history: History) -> list[State]:
    """Return the states that lanes declare, each name once."""
    states: dict[str, State] = {}
    for lane in history.lanes:
        if lane.declaration.kind == "state":
            for state in lane.declaration.states:
                states.setdefault(state.name, state)
    return list(states.values())


def _unused(taken: set[str]) -> str:
    name = "none"
    while name in taken:
        name += "_"
    return name
