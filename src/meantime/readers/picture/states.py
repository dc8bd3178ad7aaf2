"""Rectangles of a statemap as changes of states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.model.css_colors import color_hex
from meantime.model.metadata import State
from meantime.model.trace import StateChanges
from meantime.model.units import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Trace

__all__ = ["Rectangles", "changes", "state_table"]


def state_table(states: Sequence[Mapping[str, Any]]) -> tuple[State, ...]:
    """Return the states that a picture declares.

    Raises:
        ValueError: If the number of one is not an integer.
    """
    return tuple(
        State(str(each["name"]), int(each["value"]), color_hex(str(each["color"])))
        for each in states
    )


class Rectangles:
    """Rectangles of entities, those of an entity in order of time; each has one state.

    Args:
        trace: Where rectangles of several states are counted.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._parts: list[npt.NDArray[np.int64]] = []
        self._rows: list[tuple[int, int, int, int, int]] = []

    def add_columns(self, columns: npt.NDArray[np.int64]) -> None:
        """Add rectangles: rows of entity, start, end, state and tag."""
        self._flush()
        self._parts.append(columns)

    def add(self, entity: int, start_ns: int, end_ns: int, state: int, tag: int = -1) -> None:
        """Add a rectangle that has one state."""
        if not -MAX_NS <= start_ns <= end_ns <= MAX_NS:
            raise ValueError(f"a state from {start_ns} to {end_ns} ns")
        self._rows.append((entity, start_ns, end_ns, state, tag))

    def add_merged(
        self, entity: int, start_ns: int, end_ns: int, states: list[tuple[int, int]]
    ) -> None:
        """Add a rectangle that has several states, each with the time in it, one after another."""
        self._trace.anomalies.add("merged_states")
        for state, lasted_ns in states:
            until_ns = min(start_ns + lasted_ns, end_ns)
            self.add(entity, start_ns, until_ns, state)
            start_ns = until_ns

    def _flush(self) -> None:
        if self._rows:
            self._parts.append(np.array(self._rows, np.int64))
            self._rows = []

    def columns(self) -> npt.NDArray[np.int64]:
        """Return all rectangles, as rows of entity, start, end, state and tag."""
        self._flush()
        return np.concatenate([np.zeros((0, 5), np.int64), *self._parts])


def changes(found: npt.NDArray[np.int64], codes: Int32s) -> StateChanges:
    """Return the changes of rectangles, in order of time.

    Args:
        found: Rows of entity, start, end, state and tag.
        codes: By state, its code among the values of the trace.

    Raises:
        IndexError: If a state is not one of the table.
    """
    found = found[found[:, 2] > found[:, 1]]
    if len(found) and (found[:, 3].min() < 0 or found[:, 3].max() >= len(codes)):
        raise IndexError("a state that is not defined")
    entity, start, end, state, tag = found.T
    is_last = np.ones(len(found), np.bool_)
    is_last[:-1] = (entity[1:] != entity[:-1]) | (start[1:] > end[:-1])
    time_ns: Int64s = np.concatenate([start, end[is_last]])
    order = np.argsort(time_ns, kind="stable")
    none = np.full(int(is_last.sum()), -1, np.int64)
    entities = np.concatenate([entity, entity[is_last]])[order]
    states = np.concatenate([codes[state], none])[order]
    tags = np.concatenate([tag, none])[order]
    return StateChanges(
        time_ns[order],
        entities.astype(np.int32),
        states.astype(np.int32),
        tags.astype(np.int32),
    )
