"""A compiled declaration changes what a plain reading of it changes, event by event."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import meantime
from meantime.errors import MeantimeError, ProviderError
from meantime.history import AttributePool
from meantime.model.events import ABSENT, Event
from meantime.providers.declared import declare

if TYPE_CHECKING:
    from meantime.history import History, HistoryBuilder

MAPPINGS = {"m": {"1": "one", "true": 2.5, "a": "x"}}


class Incomplete(Exception):  # noqa: N818 - not an error
    """A value is missing."""


def text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def some(value: Any) -> Any:
    if value is ABSENT or value is None:
        raise Incomplete
    return value


class Plain(meantime.StateProvider):
    """Reads a declaration again for each event."""

    def __init__(self, declaration: dict[str, Any]) -> None:
        self.declaration = declaration
        self.slots: dict[str, int] = {}
        self.pool: AttributePool | None = None
        self.met: set[str] = set()

    def events_not_found(self) -> tuple[str, bool]:
        events = {on["event"] for on in self.declaration["on"]}
        is_none = bool(self.met and "*" not in events and not events & self.met)
        return str(events) if is_none else "", is_none

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        self.event, self.state = event, state
        self.met.add(event.name)
        for on in self.declaration["on"]:
            if on["event"] in ("*", event.name) and self.holds(on.get("if")):
                self.all_of(on["change"])

    def all_of(self, changes: list[dict[str, Any]]) -> None:
        for change in changes:
            if "then" in change or "else" in change:
                self.all_of(change.get("then" if self.holds(change["if"]) else "else", []))
            elif self.holds(change.get("if")):
                try:
                    self.change(change)
                except Incomplete:
                    self.state.anomalies.add("incomplete_change")

    def change(self, declaration: dict[str, Any]) -> None:
        if "recycle" in declaration:
            self.recycle(declaration["recycle"]["key"])
            return
        [kind] = {*VALUED, "clear", "pop", "pop_all", "remove"} & {*declaration}
        state, time_ns, is_later = self.state, self.event.time_ns, "after_ns" in declaration
        if is_later:
            after = self.delay(declaration["after_ns"])
            if after < 0:
                state.anomalies.add("past_change")
                return
            time_ns += after
        value = self.forced(self.value(declaration[kind]), declaration) if kind in VALUED else None
        if value is ABSENT or (kind == "increment" and value is None and not is_later):
            raise Incomplete
        if isinstance(value, bool) and (kind != "increment" or is_later):
            value = text_of(value)
        quark = state.quark(*self.path(declaration["path"]))
        if is_later:
            action: Any = {"set": "modify", "clear": "modify"}.get(kind, kind)
            state.later(time_ns, quark, value, action=action)
        else:
            self.change_now(kind, quark, value)

    def change_now(self, kind: str, quark: int, value: Any) -> None:
        state, time_ns = self.state, self.event.time_ns
        if kind == "update":
            state.update_ongoing(quark, value)
        elif kind == "pop_all":
            while state.ongoing(quark):
                state.pop(time_ns, quark)
        elif kind in ("pop", "remove"):
            getattr(state, kind)(time_ns, quark)
        else:
            action = {"set": "modify", "clear": "modify"}.get(kind, kind)
            getattr(state, action)(time_ns, quark, value)

    def delay(self, declaration: Any) -> int:
        after = some(self.value(declaration))
        if isinstance(after, str) and re.fullmatch(r"-?\d+", after):
            after = int(after)
        if type(after) is not int:
            raise ProviderError("not a time")
        return after

    def recycle(self, declaration: Any) -> None:
        key = text_of(some(self.value(declaration)))
        if key not in self.slots:
            raise Incomplete
        assert self.pool is not None
        self.pool.recycle(self.event.time_ns, self.slots.pop(key))

    def path(self, declaration: Any) -> list[str]:
        elements = declaration.split("/") if isinstance(declaration, str) else declaration
        first, names = elements[0], []
        if isinstance(first, dict) and "pool" in first:
            key = text_of(some(self.value(first["key"])))
            if self.pool is None:
                self.pool = AttributePool(self.state, self.state.quark("pool"))
            if key not in self.slots:
                self.slots[key] = self.pool.available()
            names = ["pool", self.state.attributes.name(self.slots[key])]
            elements = elements[1:]
        return names + [text_of(some(self.value(element))) for element in elements]

    def value(self, declaration: Any) -> Any:
        if isinstance(declaration, str):
            return self.template(declaration)
        if not isinstance(declaration, dict):
            return declaration
        if "field" in declaration:
            found = self.event.get(declaration["field"], ABSENT)
        elif "map" in declaration:
            found = self.value(declaration["of"])
            if found is not ABSENT and found is not None:
                found = MAPPINGS[declaration["map"]].get(text_of(found), ABSENT)
        else:
            found = self.asked(
                declaration["query" if "query" in declaration else "top"],
                is_top="top" in declaration,
            )
        if (found is ABSENT or found is None) and "default" in declaration:
            found = self.value(declaration["default"])
        return self.forced(found, declaration)

    def asked(self, path: Any, *, is_top: bool) -> Any:
        state = self.state
        try:
            quark = state.attributes.find(*self.path(path))
        except Incomplete:
            return None
        found = None if quark is None else state.ongoing(quark)
        if not is_top or found is None:
            return found
        child = state.attributes.find(text_of(found), parent=quark)
        return None if child is None else state.ongoing(child)

    def forced(self, value: Any, declaration: dict[str, Any]) -> Any:
        if "as" not in declaration or value is ABSENT or value is None:
            return value
        if isinstance(value, float) and declaration["as"] == "int" and not value.is_integer():
            raise ProviderError("cannot become")
        try:
            return CONVERTED[declaration["as"]](value)
        except (ValueError, OverflowError):
            raise ProviderError("cannot become") from None

    def template(self, text: str) -> Any:
        event = self.event
        known = {"name": event.name, "time_ns": event.time_ns}

        def get(name: str) -> Any:
            return known.get(name, event.get(name, ABSENT))

        if lone := re.fullmatch(r"\{(\w+)\}", text):
            return get(lone[1])
        try:
            return re.sub(r"\{(\w+)\}", lambda match: text_of(some(get(match[1]))), text)
        except Incomplete:
            return ABSENT

    def holds(self, declaration: Any) -> bool:
        if declaration is None:
            return True
        if "not" in declaration:
            return not self.holds(declaration["not"])
        for word, join in (("and", all), ("or", any)):
            if word in declaration:
                return join(self.holds(part) for part in declaration[word])
        [test] = {"eq", "ne", "gt", "le", "in", "present"} & {*declaration}
        mine = self.value(declaration)
        if test == "present":
            return (mine is not ABSENT and mine is not None) is declaration[test]
        if test == "in":
            return any(equal(mine, choice) for choice in declaration[test])
        return compared(test, mine, self.value(declaration[test]))


def compared(test: str, mine: Any, other: Any) -> bool:
    if test in ("eq", "ne"):
        return equal(mine, other) is (test == "eq")
    if {id(mine), id(other)} & {id(ABSENT), id(None)}:
        return False
    if isinstance(mine, str) is not isinstance(other, str):
        raise ProviderError("cannot be compared")
    return bool(mine > other if test == "gt" else mine <= other)


def equal(mine: Any, other: Any) -> bool:
    if isinstance(mine, bool) is not isinstance(other, bool):
        return False
    return mine is not ABSENT and mine is not None and other is not ABSENT and bool(mine == other)


CONVERTED: dict[str, Any] = {
    "str": text_of,
    "float": float,
    "int": lambda value: int(value, 0) if isinstance(value, str) else int(value),
}
VALUED = ("set", "push", "increment", "update")
FIELDS = ("f", "g", "pid", "cpu")
TEXTS = st.sampled_from(["a", "{f}", "{g}", "{pid}", "{f}-{g}", "{name}", "x{time_ns}"])
ELEMENTS = st.sampled_from(["a", "b", "{f}", "{pid}", "{name}", "a{g}"])
FORCED = st.sampled_from([{}, {}, {"as": "str"}, {"as": "int"}, {"as": "float"}])
PLAIN_PATHS = st.lists(ELEMENTS, min_size=1, max_size=3).map("/".join)


def composite(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    paths = PLAIN_PATHS | st.lists(ELEMENTS | values, min_size=1, max_size=2)
    return st.builds(
        lambda value, default, forced: value | default | forced,
        st.one_of(
            st.fixed_dictionaries({"field": st.sampled_from(FIELDS)}),
            st.fixed_dictionaries({"query": paths}),
            st.fixed_dictionaries({"top": PLAIN_PATHS}),
            st.fixed_dictionaries({"map": st.just("m"), "of": values}),
        ),
        st.one_of(st.just({}), st.fixed_dictionaries({"default": values})),
        FORCED,
    )


VALUES = st.recursive(TEXTS | st.sampled_from([0, 1, 2.5, -1]), composite, max_leaves=3)
OPERANDS = composite(VALUES)
TESTS = st.one_of(
    st.builds(
        lambda operand, test, value: operand | {test: value},
        OPERANDS,
        st.sampled_from(["eq", "ne", "gt", "le"]),
        VALUES,
    ),
    OPERANDS.map(lambda operand: operand | {"in": [1, "a", True]}),
    st.builds(lambda operand, is_there: operand | {"present": is_there}, OPERANDS, st.booleans()),
)
CONDITIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        inner.map(lambda part: {"not": part}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"and": parts}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"or": parts}),
    ),
    max_leaves=3,
)
PATHS = st.one_of(
    PLAIN_PATHS,
    st.lists(ELEMENTS | VALUES, min_size=1, max_size=2),
    st.builds(lambda key: [{"pool": "p", "key": key}, "x"], VALUES),
)
ONE = st.one_of(
    st.builds(
        lambda path, kind, value, forced: {"path": path, kind: value} | forced,
        PATHS, st.sampled_from([*VALUED, "set", "set"]), VALUES, FORCED,
    ),
    st.builds(
        lambda path, kind: {"path": path, kind: True},
        PATHS, st.sampled_from(["clear", "remove", "pop", "pop_all"]),
    ),
    st.builds(
        lambda path, kind, value, after: {"path": path, kind: value, "after_ns": after},
        PATHS, st.sampled_from(["set", "push", "increment"]), VALUES,
        st.sampled_from([0, 1, 3, "{f}"]),
    ),
    st.builds(lambda key: {"recycle": {"pool": "p", "key": key}}, VALUES),
)  # fmt: skip
CHANGES = st.recursive(
    ONE | st.builds(lambda change, when: change | {"if": when}, ONE, CONDITIONS),
    lambda inner: st.builds(
        lambda when, then, other: {"if": when, "then": [then], "else": [other]},
        CONDITIONS, inner, inner,
    ),
    max_leaves=3,
)  # fmt: skip
DECLARATIONS = st.lists(
    st.builds(
        lambda event, changes, when: {"event": event, "change": changes} | when,
        st.sampled_from(["e", "d", "*"]),
        st.lists(CHANGES, min_size=1, max_size=3),
        st.one_of(st.just({}), CONDITIONS.map(lambda when: {"if": when})),
    ),
    min_size=1,
    max_size=3,
)
FIELD_VALUES = st.sampled_from([0, 1, 2, "a", "1", "0x2", True, None, 1.0, 2.5, -1, 2**63 - 1])
EVENTS = st.lists(
    st.builds(
        lambda gap, name, fields, pid: (gap, name, fields, pid),
        st.integers(0, 2),
        st.sampled_from(["e", "e", "d", "c"]),
        st.dictionaries(st.sampled_from(FIELDS), FIELD_VALUES, max_size=3),
        st.sampled_from([None, 1, 2]),
    ),
    min_size=1,
    max_size=10,
)


def toml(value: Any) -> str:
    if isinstance(value, dict):
        members = ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items())
        return f"{{ {members} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def rows(history: History) -> Any:
    return [
        (
            history.attributes.path(quark),
            [tuple(row)[1:] for row in history.iterate(quark, history.start_ns)],
        )
        for quark in range(len(history.attributes))
    ], dict(history.anomalies)


def built(events: list[Event], provider: meantime.StateProvider) -> Any:
    try:
        return repr(rows(meantime.build(events, provider)))
    except MeantimeError:
        return "an error"


@settings(max_examples=100)
@given(DECLARATIONS, EVENTS)
@example(
    [{"event": "e", "change": [{"path": "{f}", "increment": "{g}"}]}],
    [(0, "e", {"f": 1, "g": 2.5}, None), (1, "e", {"f": 1.0, "g": 2.5}, None)],
)
@example(
    [
        {"event": "e", "change": [{"path": [{"pool": "p", "key": "{f}"}, "x"], "set": 1}]},
        {"event": "d", "change": [{"recycle": {"pool": "p", "key": "{f}"}}]},
    ],
    [(0, "e", {"f": 1}, None), (1, "d", {"f": 1}, None), (1, "e", {"f": "a"}, None)],
)
def test_a_compiled_declaration_does_what_it_says(
    declaration: list[dict[str, Any]], drawn: list[tuple[int, str, dict[str, Any], int | None]]
) -> None:
    text = '[mappings.m]\n1 = "one"\ntrue = 2.5\na = "x"\n[pools.p]\npath = "pool"\n'
    for on in declaration:
        text += "[[on]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in on.items())
    time_ns, events = 0, []
    for gap, name, fields, pid in drawn:
        time_ns += gap
        events.append(Event(time_ns, name, fields, pid=pid))

    assert built(events, declare(text.encode(), "x.toml")) == built(
        events, Plain({"on": declaration})
    )
