"""Conditions of a declaration, as functions of an event and the state."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeAlias

from meantime.errors import ProviderError
from meantime.events import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.events import Event
    from meantime.history import HistoryBuilder
    from meantime.providers.declared.nodes import Node
    from meantime.providers.declared.values import Value, Values

__all__ = ["Condition", "condition"]

Condition: TypeAlias = "Callable[[Event, HistoryBuilder], bool]"

_ORDER = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
_TESTS = ("eq", "ne", *_ORDER, "in", "present")
_JOINED = ("and", "or", "not")
_OPERANDS = ("field", "query", "top", "map", "text")


def condition(node: Node, values: Values) -> Condition:
    """Return a condition: tests joined by `and`, `or` and `not`."""
    if not isinstance(node.value, dict):
        node.fail(
            f'{node.value!r} is not a condition: write a table such as {{ field = "fd", gt = 2 }}'
        )
    joined = [word for word in _JOINED if word in node]
    if not joined:
        return _test(node, values)
    node.table(*joined)
    node.one_of(_JOINED, "a condition that joins others")
    if "not" in node:
        denied = condition(node["not"], values)
        return lambda event, state: not denied(event, state)
    parts = [condition(part, values) for part in node[joined[0]].items()]
    if not parts:
        node.fail(f"{joined[0]!r} joins no conditions")
    if "and" in node:
        return lambda event, state: all(part(event, state) for part in parts)
    return lambda event, state: any(part(event, state) for part in parts)


def _test(node: Node, values: Values) -> Condition:
    test = node.one_of(_TESTS, "a condition")
    if not any(key in node for key in _OPERANDS):
        node.fail(f"a condition tests one of {', '.join(_OPERANDS)}")
    left = values.value(node.without(*_TESTS))
    right = node[test]
    if test == "present":
        if not isinstance(right.value, bool):
            right.fail("must be true or false")
        wanted = right.value
        return lambda event, state: (left(event, state) not in (ABSENT, None)) is wanted
    if test == "in":
        choices = [_constant(choice) for choice in right.items()]
        return lambda event, state: any(_equal(left(event, state), choice) for choice in choices)
    # only here a value can be true or false: `values.value` rejects them, as states have none
    if isinstance(right.value, bool):
        if test not in ("eq", "ne"):
            right.fail("true and false are neither greater nor less")
        truth = right.value
        compared = values.constant(truth)
    else:
        compared = values.value(right)
    if test == "eq":
        return lambda event, state: _equal(left(event, state), compared(event, state))
    if test == "ne":
        return lambda event, state: not _equal(left(event, state), compared(event, state))
    return _ordered(node, test, left, compared)


def _ordered(node: Node, test: str, left: Value, right: Value) -> Condition:
    ordered = _ORDER[test]

    def holds(event: Event, state: HistoryBuilder) -> bool:
        mine, other = left(event, state), right(event, state)
        # a missing value is neither less nor greater than another
        if mine in (ABSENT, None) or other in (ABSENT, None):
            return False
        if isinstance(mine, str) is not isinstance(other, str):
            raise ProviderError(
                f"{node.where}: {mine!r} and {other!r} cannot be compared: convert one to the type"
                f' of the other with as = "int" (at the event {event.name!r}, {event.time_ns} ns)'
            )
        return bool(ordered(mine, other))

    return holds


def _constant(node: Node) -> Any:
    if not isinstance(node.value, str | int | float):
        node.fail(f"{node.value!r} must be a string, a number, true or false")
    return node.value


def _equal(mine: Any, other: Any) -> bool:
    """Whether two values are equal; true is not a number, and null equals nothing."""
    if isinstance(mine, bool) is not isinstance(other, bool):
        return False
    return mine is not ABSENT and other is not ABSENT and mine is not None and bool(mine == other)
