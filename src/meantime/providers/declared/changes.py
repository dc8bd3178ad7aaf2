"""Changes of a declaration, as the lines of a Python function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from meantime.providers.declared.conditions import condition
from meantime.providers.declared.emitting import INCOMPLETE, emitted, whole
from meantime.providers.declared.values import Expression, Incomplete

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.providers.declared.nodes import Node
    from meantime.providers.declared.values import Place, Values

__all__ = ["Lines", "changes", "indented"]

Action: TypeAlias = Literal["modify", "push", "pop", "increment", "remove"]
Lines: TypeAlias = list[str]

_VALUED = ("set", "push", "increment", "update")
_BARE = ("clear", "remove", "pop", "pop_all")
_WHEN = ("at_ns", "after_ns")
# The changes that can be scheduled for later, and the action that is scheduled.
_SCHEDULED: dict[str, Action] = {
    "set": "modify",
    "clear": "modify",
    "push": "push",
    "pop": "pop",
    "increment": "increment",
    "remove": "remove",
}
# By change of a quark `at` to a value `new`, the lines that make it. `put` and `add` are fast, and
# return False where they leave a change to the builder.
_MADE: dict[str, Lines] = {
    "set": ["if not put(time_ns, at, new):", " state.modify(time_ns, at, new)"],
    "clear": ["if not put(time_ns, at, None):", " state.modify(time_ns, at, None)"],
    "increment": ["if not add(time_ns, at, new):", " state.increment(time_ns, at, new)"],
    "update": ["state.update_ongoing(at, new)"],
    "push": ["state.push(time_ns, at, new)"],
    "pop": ["state.pop(time_ns, at)"],
    "pop_all": ["while state.ongoing(at):", " state.pop(time_ns, at)"],
    "remove": ["state.remove(time_ns, at)"],
}
# What an event adds beside states.
_EMITTED = ("span", "point")
_NESTED = 30


def indented(lines: Iterable[str]) -> Lines:
    """Return lines one level further to the right."""
    return [f" {line}" for line in lines]


def changes(node: Node, values: Values, depth: int = 0) -> Lines:
    """Return the lines of all changes of an array."""
    if depth > _NESTED:
        node.fail("is nested too deeply")
    lines = [line for part in node.items() for line in _change(part, values, depth)]
    if not lines:
        node.fail("it has no changes")
    return lines


def _change(node: Node, values: Values, depth: int) -> Lines:
    if not isinstance(node.value, dict):
        node.fail(
            f'{node.value!r} is not a change: write a table such as {{ path = "a", set = "x" }}'
        )
    if "then" in node or "else" in node:
        return _branch(node, values, depth)
    if "recycle" in node:
        lines = _recycle(node.table("recycle", "if"), values)
    else:
        lines = _of_attribute(node, values)
    when = node.get("if")
    return lines if when is None else [f"if {condition(when, values)}:", *indented(lines)]


def _branch(node: Node, values: Values, depth: int) -> Lines:
    node.table("if", "then", "else")
    holds = condition(node.needed("if", "the condition of then and else"), values)
    then, other = (
        changes(node[word], values, depth + 1) if word in node else ["pass"]
        for word in ("then", "else")
    )
    return [f"if {holds}:", *indented(then), "else:", *indented(other)]


def _recycle(node: Node, values: Values) -> Lines:
    pool, key = values.pool(node["recycle"])
    bound = values.bound

    def recycle(key: str | None, time_ns: int) -> bool:
        assert bound.state is not None
        if key is None:
            return False
        try:
            pool.recycle(key, time_ns, bound.state)
        except Incomplete:
            return False
        return True

    return [f"if not {values.name('recycle', recycle)}({key.text}, time_ns):", f" {INCOMPLETE}"]


def _of_attribute(node: Node, values: Values) -> Lines:
    for kind in _EMITTED:
        if kind in node:
            return emitted(node, kind, values)
    node.table("path", *_VALUED, *_BARE, *_EMITTED, *_WHEN, "as", "if")
    place = values.path(node.needed("path", "which attribute it changes"))
    kind = node.one_of((*_VALUED, *_BARE, *_EMITTED), "a change")
    value = _value(node, kind, values)
    when = [word for word in _WHEN if word in node]
    if not when:
        return _valued(kind, value, _placed(place, values, _MADE[kind]))
    if len(when) > 1:
        node.fail("a change has a time (at_ns) or a delay (after_ns), not both")
    if kind not in _SCHEDULED:
        node.fail(f"{kind!r} cannot be scheduled for later; these can: {', '.join(_SCHEDULED)}")
    return _later(node, kind, place, value, values)


def _value(node: Node, kind: str, values: Values) -> Expression:
    if kind in _BARE:
        node[kind].true()
        if "as" in node:
            node["as"].fail(f"{kind!r} has no value that could have a type")
        return Expression("None", "None", None)
    value = values.value(node[kind])
    forced = node.get("as")
    return value if forced is None else values.forced(forced, value)


def _valued(kind: str, value: Expression, lines: Lines) -> Lines:
    """Return lines that compute a value, and then, if there is one, are these lines.

    The value is computed first: a change that lacks one must not create the attribute.
    """
    if kind in _BARE:
        return lines
    missing = "new is ABSENT or new is None" if kind == "increment" else "new is ABSENT"
    # states have no booleans; only a number can be added
    converted = (
        [] if kind == "increment" else ["if new is True or new is False:", " new = text_of(new)"]
    )
    if isinstance(value.constant, str | int | float):
        return [f"new = {value.code}", *lines]
    lines = [*converted, *lines]
    return [f"new = {value.code}", f"if {missing}:", f" {INCOMPLETE}", "else:", *indented(lines)]


def _placed(place: Place, values: Values, lines: Lines) -> Lines:
    """Return lines that find or create the attribute at a place, and then are these lines."""
    quark = values.quark_of(place)
    return [f"if (at := {quark}) is None:", f" {INCOMPLETE}", "else:", *indented(lines)]


def _later(node: Node, kind: str, place: Place, value: Expression, values: Values) -> Lines:
    word = next(word for word in _WHEN if word in node)
    time, is_delay = values.value(node[word]), word == "after_ns"

    def due(given: Any, name: str, time_ns: int) -> int | None:
        number = whole(node, word, given, name, time_ns)
        due_ns = time_ns + number if is_delay else number
        return None if due_ns < time_ns else due_ns

    new = "new" if kind in _VALUED else "None"
    scheduled = [f"state.later(due_ns, at, {new}, action={_SCHEDULED[kind]!r})"]
    # an amount that is null is an error of its type, as in any scheduled change
    changed = _valued("set" if kind in _VALUED else kind, value, _placed(place, values, scheduled))
    return [
        f"if (given := {time.code}) is ABSENT or given is None:",
        f" {INCOMPLETE}",
        f"elif (due_ns := {values.name('due', due)}(given, name, time_ns)) is None:",
        " past += 1",
        "else:",
        *indented(changed),
    ]
