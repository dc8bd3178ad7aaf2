"""Lane declarations as callers and files give them, checked when they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from meantime.attributes import format_pattern, parse_pattern
from meantime.errors import UsageError
from meantime.trace import LaneDeclaration, LaneKind, State

if TYPE_CHECKING:
    from meantime.attributes import Pattern

__all__ = ["StateLike", "lane_of"]

# A state of a lane: itself, its name, or its name and what else is known of it.
StateLike: TypeAlias = "State | str | Mapping[str, Any]"


def lane_of(  # noqa: PLR0917 - the fields of a declaration, in their order
    pattern: Pattern,
    kind: LaneKind = "state",
    entity_kind: str | None = None,
    label: str | None = None,
    states: Iterable[StateLike] = (),
    unit: str | None = None,
) -> LaneDeclaration:
    """Return a lane declaration.

    Raises:
        UsageError: If something of it is not what it should be.
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
    if isinstance(states, str | Mapping) or not isinstance(states, Iterable):
        raise UsageError(f"a lane's states are {states!r}: they are a sequence of states")
    table = tuple(_state_of(state, row) for row, state in enumerate(states))
    return LaneDeclaration(text, kind, entity_kind, label, table, unit)


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
