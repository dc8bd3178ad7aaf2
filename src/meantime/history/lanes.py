"""Lanes: their declarations, checked when they are given, and the attributes they apply to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

import numpy as np

from meantime.errors import UsageError
from meantime.kernels.tail import FLOAT, INT, STR, UNTYPED
from meantime.model.attributes import ANY_DEPTH, format_pattern, parse_pattern
from meantime.model.trace import LaneDeclaration, LaneKind, State

if TYPE_CHECKING:
    from meantime.history.snapshot import Snapshot
    from meantime.model.attributes import Pattern
    from meantime.model.columns import Int32s

__all__ = ["Lane", "StateLike", "drawable_lanes", "lane_of"]

# A state of a lane: a State, its name, or a mapping with its name and other fields.
StateLike: TypeAlias = "State | str | Mapping[str, Any]"

# Lanes of other kinds consist of the attributes below theirs.
_FLAT = {"state", "counter"}
_SMALL_INT = 255


class Lane(NamedTuple):
    """A lane declaration, and the attributes of this history that it means."""

    declaration: LaneDeclaration
    quarks: Int32s


def lane_of(  # noqa: PLR0917 - the fields of a declaration, in their order
    pattern: Pattern,
    kind: LaneKind = "state",
    entity_kind: str | None = None,
    label: str | None = None,
    states: Iterable[StateLike] = (),
    unit: str | None = None,
    short_lived: bool = False,  # noqa: FBT001, FBT002 - as above
) -> LaneDeclaration:
    """Return a lane declaration.

    Raises:
        UsageError: If a field of it is invalid.
    """
    if isinstance(pattern, str):
        parse_pattern(pattern)
        text = pattern
    else:
        text = format_pattern(pattern)
    if kind not in get_args(LaneKind):
        raise UsageError(f"a lane's kind is {kind!r}: it is one of {', '.join(get_args(LaneKind))}")
    for name, value in (("entity_kind", entity_kind), ("label", label), ("unit", unit)):
        if value is not None and not isinstance(value, str):
            raise UsageError(f"a lane's {name} is {value!r}: it is a text, or None")
    if not isinstance(short_lived, bool):
        raise UsageError(f"a lane's short_lived is {short_lived!r}: it is True or False")
    if isinstance(states, str | Mapping) or not isinstance(states, Iterable):
        raise UsageError(f"a lane's states are {states!r}: they are a sequence of states")
    table = tuple(_state_of(state, row) for row, state in enumerate(states))
    return LaneDeclaration(text, kind, entity_kind, label, table, unit, short_lived)


def _state_of(state: object, row: int) -> State:
    if isinstance(state, str):
        return State(state, row)
    if isinstance(state, Mapping):
        known: dict[str, Any] = {"name": None, "value": row, "color": None}
        if state.keys() <= known.keys():
            state = State(**{**known, **state})
    good = isinstance(state, State) and (
        type(state.name) is str
        and type(state.value) is int
        and type(state.color) in {str, NoneType}
    )
    if not isinstance(state, State) or not good:
        raise UsageError(
            f"a lane's state is {state!r}: it is a name, a State, or a mapping with a name"
            " and maybe a value (an int) and a color (a text)"
        )
    return state


def drawable_lanes(snapshot: Snapshot) -> list[Lane]:
    """Return the declared lanes, and those of attributes with values that none applies to."""
    attributes = snapshot.attributes
    declared = [
        Lane(declaration, attributes.quarks(declaration.pattern))
        for declaration in snapshot.metadata.lanes
    ]
    kinds = snapshot.kinds.copy()
    for lane in declared:
        kinds[lane.quarks] = UNTYPED
        if lane.declaration.kind not in _FLAT and len(lane.quarks):
            below = (*parse_pattern(lane.declaration.pattern), ANY_DEPTH)
            kinds[attributes.quarks(below)] = UNTYPED
    small = kinds == INT
    if small.any():
        integers = snapshot.segments.integers(snapshot.kinds)
        quarks = np.flatnonzero(small)
        # An attribute that has no integer in the end is one of states.
        small[quarks] = (integers.low[quarks] >= 0) & (integers.high[quarks] <= _SMALL_INT)
    state, counter = LaneDeclaration(""), LaneDeclaration("", kind="counter")
    others = (
        (state, kinds == STR),
        (state, small),
        (counter, (kinds == FLOAT) | ((kinds == INT) & ~small)),
    )
    return declared + [
        Lane(declaration, np.flatnonzero(which).astype(np.int32))
        for declaration, which in others
        if which.any()
    ]
