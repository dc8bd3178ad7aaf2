"""Conditions of a declaration, as Python expressions of an event and the state."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from meantime.errors import ProviderError
from meantime.model.events import ABSENT

if TYPE_CHECKING:
    from meantime.providers.declared.nodes import Node
    from meantime.providers.declared.values import Expression, Values

__all__ = ["condition", "equal"]

_ORDER = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
_TESTS = ("eq", "ne", *_ORDER, "in", "present")
_JOINED = ("and", "or", "not")
_OPERANDS = ("field", "query", "top", "map", "text")


def condition(node: Node, values: Values) -> str:
    """Return the code of a condition: tests joined by `and`, `or` and `not`."""
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
        return f"(not {condition(node['not'], values)})"
    parts = [condition(part, values) for part in node[joined[0]].items()]
    if not parts:
        node.fail(f"{joined[0]!r} joins no conditions")
    return f"({f' {joined[0]} '.join(parts)})"


def _test(node: Node, values: Values) -> str:
    test = node.one_of(_TESTS, "a condition")
    if not any(key in node for key in _OPERANDS):
        node.fail(f"a condition tests one of {', '.join(_OPERANDS)}")
    left = values.value(node.without(*_TESTS))
    right = node[test]
    if test == "present":
        if not isinstance(right.value, bool):
            right.fail("must be true or false")
        found = values.variable()
        some = f"(({found} := {left.code}) is not ABSENT and {found} is not None)"
        return some if right.value else f"(not {some})"
    if test == "in":
        choices = [_constant(choice) for choice in right.items()]
        among = values.name("among", lambda mine: any(equal(mine, choice) for choice in choices))
        return f"{among}({left.code})"
    # only here a value can be true or false: `values.value` rejects them, as states have none
    if isinstance(right.value, bool):
        if test not in ("eq", "ne"):
            right.fail("true and false are neither greater nor less")
        compared = values.constant(right.value)
    else:
        compared = values.value(right)
    if test in _ORDER:
        return _ordered(node, test, left, compared, values)
    same = f"equal({left.code}, {compared.code})"
    if isinstance(compared.constant, str):
        # nothing but a text is equal to a text
        same = f"({left.code} == {compared.code})"
    return same if test == "eq" else f"(not {same})"


def _ordered(node: Node, test: str, left: Expression, right: Expression, values: Values) -> str:
    ordered = _ORDER[test]

    def holds(mine: Any, other: Any, name: str, time_ns: int) -> bool:
        # a missing value is neither less nor greater than another
        if mine is ABSENT or mine is None or other is ABSENT or other is None:
            return False
        if isinstance(mine, str) is not isinstance(other, str):
            raise ProviderError(
                f"{node.where}: {mine!r} and {other!r} cannot be compared: convert one to the type"
                f' of the other with as = "int" (at the event {name!r}, {time_ns} ns)'
            )
        return bool(ordered(mine, other))

    return f"{values.name('holds', holds)}({left.code}, {right.code}, name, time_ns)"


def _constant(node: Node) -> Any:
    if not isinstance(node.value, str | int | float):
        node.fail(f"{node.value!r} must be a string, a number, true or false")
    return node.value


def equal(mine: Any, other: Any) -> bool:
    """Whether two values are equal; true is not a number, and null equals nothing."""
    if isinstance(mine, bool) is not isinstance(other, bool):
        return False
    return mine is not ABSENT and other is not ABSENT and mine is not None and bool(mine == other)
