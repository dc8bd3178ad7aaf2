"""Changes of a declaration, as functions of an event and the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from meantime.errors import ProviderError
from meantime.events import ABSENT
from meantime.providers.declared.conditions import condition
from meantime.providers.declared.values import Incomplete, Quarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.events import Event
    from meantime.history import HistoryBuilder
    from meantime.providers.declared.nodes import Node
    from meantime.providers.declared.values import Names, Value, Values

__all__ = ["Change", "changes"]

Action: TypeAlias = Literal["modify", "push", "pop", "increment", "remove"]
Change: TypeAlias = "Callable[[Event, HistoryBuilder], None]"

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


def changes(node: Node, values: Values) -> Change:
    """Return all changes of an array as one."""
    parts = [_change(part, values) for part in node.items()]
    if not parts:
        node.fail("it has no changes")
    if len(parts) == 1:
        return parts[0]

    def all_of_them(event: Event, state: HistoryBuilder) -> None:
        for part in parts:
            part(event, state)

    return all_of_them


def _change(node: Node, values: Values) -> Change:
    if not isinstance(node.value, dict):
        node.fail(
            f'{node.value!r} is not a change: write a table such as {{ path = "a", set = "x" }}'
        )
    if "then" in node or "else" in node:
        return _branch(node, values)
    if "recycle" in node:
        change = _recycle(node.table("recycle", "if"), values)
    else:
        change = _of_attribute(node, values)
    when = node.get("if")
    if when is None:
        return _counted(change)
    holds, done = condition(when, values), _counted(change)

    def conditional(event: Event, state: HistoryBuilder) -> None:
        if holds(event, state):
            done(event, state)

    return conditional


def _branch(node: Node, values: Values) -> Change:
    node.table("if", "then", "else")
    holds = condition(node.needed("if", "the condition of then and else"), values)
    then, other = (
        changes(node[word], values) if word in node else None for word in ("then", "else")
    )

    def branch(event: Event, state: HistoryBuilder) -> None:
        done = then if holds(event, state) else other
        if done is not None:
            done(event, state)

    return branch


def _counted(change: Change) -> Change:
    """Count a change that needs a missing value, instead of failing."""

    def counted(event: Event, state: HistoryBuilder) -> None:
        try:
            change(event, state)
        except Incomplete:
            state.anomalies.add("incomplete_change")

    return counted


def _recycle(node: Node, values: Values) -> Change:
    pool, key = values.pool(node["recycle"])

    def recycle(event: Event, state: HistoryBuilder) -> None:
        pool.recycle(_needed(key(event, state)), event.time_ns, state)

    return recycle


def _needed(value: Any) -> Any:
    if value is ABSENT or value is None:
        raise Incomplete
    return value


def _of_attribute(node: Node, values: Values) -> Change:
    node.table("path", *_VALUED, *_BARE, *_WHEN, "as", "if")
    names = values.path(node.needed("path", "which attribute it changes"))
    kind = node.one_of((*_VALUED, *_BARE), "a change")
    value = _value(node, kind, values)
    quark_of = _quark_of(names)
    when = [word for word in _WHEN if word in node]
    if not when:
        return _now(kind, quark_of, value)
    if len(when) > 1:
        node.fail("a change has a time (at_ns) or a delay (after_ns), not both")
    if kind not in _SCHEDULED:
        node.fail(f"{kind!r} cannot be scheduled for later; these can: {', '.join(_SCHEDULED)}")
    return _later(node, kind, quark_of, value, values)


def _value(node: Node, kind: str, values: Values) -> Value:
    if kind in _BARE:
        node[kind].true()
        if "as" in node:
            node["as"].fail(f"{kind!r} has no value that could have a type")
        return lambda *_: None
    value = values.value(node[kind])
    forced = node.get("as")
    return value if forced is None else values.forced(forced, value)


def _quark_of(names: Names) -> Callable[[Event, HistoryBuilder], int]:
    known = Quarks()

    def quark_of(event: Event, state: HistoryBuilder) -> int:
        quark = known.quark(names(event, state), state)
        assert quark is not None
        return quark

    return quark_of


def _state(value: Any) -> Any:
    """Return a value as a state; true and false become texts, as states have no booleans."""
    if value is ABSENT:
        raise Incomplete
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _now(kind: str, quark_of: Callable[[Event, HistoryBuilder], int], value: Value) -> Change:
    # Each computes its value first: a change that lacks one must not create the attribute.
    def set_(event: Event, state: HistoryBuilder) -> None:
        changed = _state(value(event, state))
        state.modify(event.time_ns, quark_of(event, state), changed)

    def update(event: Event, state: HistoryBuilder) -> None:
        changed = _state(value(event, state))
        state.update_ongoing(quark_of(event, state), changed)

    def push(event: Event, state: HistoryBuilder) -> None:
        changed = _state(value(event, state))
        state.push(event.time_ns, quark_of(event, state), changed)

    def increment(event: Event, state: HistoryBuilder) -> None:
        amount = _needed(value(event, state))
        state.increment(event.time_ns, quark_of(event, state), amount)

    def pop(event: Event, state: HistoryBuilder) -> None:
        state.pop(event.time_ns, quark_of(event, state))

    def pop_all(event: Event, state: HistoryBuilder) -> None:
        quark = quark_of(event, state)
        while state.ongoing(quark):
            state.pop(event.time_ns, quark)

    def remove(event: Event, state: HistoryBuilder) -> None:
        state.remove(event.time_ns, quark_of(event, state))

    return {
        "set": set_,
        "clear": set_,
        "update": update,
        "push": push,
        "increment": increment,
        "pop": pop,
        "pop_all": pop_all,
        "remove": remove,
    }[kind]


def _later(
    node: Node,
    kind: str,
    quark_of: Callable[[Event, HistoryBuilder], int],
    value: Value,
    values: Values,
) -> Change:
    word = next(word for word in _WHEN if word in node)
    time, action, is_delay = values.value(node[word]), _SCHEDULED[kind], word == "after_ns"

    def later(event: Event, state: HistoryBuilder) -> None:
        given = _needed(time(event, state))
        # a field of text, such as one of perf's, may have the number as its digits
        if isinstance(given, str):
            given = _whole(given)
        if not isinstance(given, int) or isinstance(given, bool):
            raise ProviderError(
                f"{node.where}: {word} is {given!r}: a time is a whole number of nanoseconds"
                f" (at the event {event.name!r}, {event.time_ns} ns)"
            )
        time_ns = event.time_ns + given if is_delay else given
        if time_ns < event.time_ns:
            state.anomalies.add("past_change")
            return
        changed = _state(value(event, state))
        state.later(time_ns, quark_of(event, state), changed, action=action)

    return later


def _whole(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
