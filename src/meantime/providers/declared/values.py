"""Values and paths of a declaration, as functions of an event and the state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from meantime.errors import ProviderError
from meantime.events import ABSENT
from meantime.history import AttributePool

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.events import Event
    from meantime.history import HistoryBuilder
    from meantime.providers.declared.nodes import Node

__all__ = ["Incomplete", "Names", "Quarks", "Value", "Values", "text_of"]

Value: TypeAlias = "Callable[[Event, HistoryBuilder], Any]"
Names: TypeAlias = "Callable[[Event, HistoryBuilder], tuple[str, ...]]"

# an escaped brace, a field in braces, other text, or a lone brace
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[^{}]+|[{}]")
_ELEMENT = re.compile(r"(?:[^/\\]|\\.)*", re.DOTALL)


class Incomplete(Exception):  # noqa: N818 - not an error: a change is left out
    """A change needs a value that is missing."""


def text_of(value: Any) -> str:
    """Return the text of a value in a path or a template."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


class Pool:
    """An attribute pool, and which key has which of its attributes."""

    def __init__(self, names: tuple[str, ...], *, lowest_first: bool) -> None:
        self.names = names
        self.lowest_first = lowest_first
        self.taken: dict[str, int] = {}
        self._saved: Any = None
        self._pool: AttributePool | None = None

    def _of(self, state: HistoryBuilder) -> AttributePool:
        if self._pool is None:
            quark = state.quark(*self.names)
            self._pool = AttributePool(state, quark, lowest_first=self.lowest_first)
            if self._saved is not None:
                # only now, as a pool cannot be restored without the builder
                self._pool.restore(self._saved)
        return self._pool

    def slot(self, key: str, state: HistoryBuilder) -> str:
        """Return the name of the attribute of a key, which is assigned if it has none."""
        if key not in self.taken:
            self.taken[key] = self._of(state).available()
        return state.attributes.name(self.taken[key])

    def recycle(self, key: str, time_ns: int, state: HistoryBuilder) -> None:
        """Return the attribute of a key to the pool."""
        if key not in self.taken:
            raise Incomplete
        self._of(state).recycle(time_ns, self.taken.pop(key))

    def forget(self) -> None:
        """Remove all assignments, for another history."""
        self.taken, self._saved, self._pool = {}, None, None

    def save(self) -> Any:
        """Return the assigned and the free attributes, as JSON."""
        return [list(self.taken.items()), None if self._pool is None else self._pool.save()]

    def restore(self, saved: Any) -> None:
        """Restore what `save` returned."""
        taken, self._saved = saved
        self.taken, self._pool = dict(taken), None


class Quarks:
    """A cache of the quarks of paths; it is cleared for another builder.

    Args:
        find: Whether to return None for a missing path, instead of creating it.
    """

    def __init__(self, *, find: bool = False) -> None:
        self._find = find
        self._known: dict[tuple[str, ...], int] = {}
        self._whose: HistoryBuilder | None = None

    def quark(self, path: tuple[str, ...], state: HistoryBuilder) -> int | None:
        """Return the quark of a path; None if it is missing and must not be created."""
        if self._whose is not state:
            self._known, self._whose = {}, state
        quark = self._known.get(path)
        if quark is None:
            quark = state.attributes.find(*path) if self._find else state.quark(*path)
            if quark is not None:
                self._known[path] = quark
        return quark


class Values:
    """Compiles values and paths, with the tables they refer to."""

    def __init__(self) -> None:
        self.mappings: dict[str, dict[str, Any]] = {}
        self.definitions: dict[str, Value] = {}
        self.undefined: set[str] = set()
        self.pools: dict[str, Pool] = {}

    def value(self, node: Node) -> Value:
        """Return a value: a constant, a text with fields in it, or the result of a table."""
        value = node.value
        if isinstance(value, bool):
            node.fail(f'{text_of(value)} is not a state: write "{text_of(value)}", or 0 or 1')
        if isinstance(value, int | float):
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                node.fail(f"{value} does not fit into 64 bits")
            return self.constant(value)
        if isinstance(value, str):
            return self.template(node, value)
        if not isinstance(value, dict):
            node.fail(f"{value!r} is not a value: write a number, a string or a table")
        return self._composite(node)

    def constant(self, value: Any) -> Value:
        """Return a value that is always the same."""
        return lambda *_: value

    def _composite(self, node: Node) -> Value:
        kind = node.one_of(("field", "query", "top", "map", "text"), "a value that is a table")
        if kind == "map":
            return self._mapped(node.table("map", "of", "default", "as"))
        node.table(kind, "default", "as")
        if kind == "field":
            value = self._named(node["field"], node["field"].text())
        elif kind == "text":
            value = self.template(node["text"], node["text"].text())
        else:
            value = self._asked(self.path(node[kind]), is_stack=kind == "top")
        return self._typed(node, self._defaulted(node, value))

    def _defaulted(self, node: Node, value: Value) -> Value:
        default = node.get("default")
        if default is None:
            return value
        other = self.value(default)

        def defaulted(event: Event, state: HistoryBuilder) -> Any:
            found = value(event, state)
            return other(event, state) if found is ABSENT or found is None else found

        return defaulted

    def _typed(self, node: Node, value: Value) -> Value:
        forced = node.get("as")
        return value if forced is None else self.forced(forced, value)

    def forced(self, node: Node, value: Value) -> Value:
        """Return a value converted to a type."""
        kind = node.choice("int", "float", "str")
        convert = {"int": _to_int, "float": _to_float, "str": text_of}[kind]

        def forced(event: Event, state: HistoryBuilder) -> Any:
            found = value(event, state)
            if found is ABSENT or found is None:
                return found
            try:
                return convert(found)
            except (ValueError, OverflowError):
                raise ProviderError(
                    f"{node.where}: {found!r} cannot become {kind} (at the event {event.name!r},"
                    f" {event.time_ns} ns)"
                ) from None

        return forced

    def _mapped(self, node: Node) -> Value:
        name = node["map"].text()
        if name not in self.mappings:
            node["map"].fail(f"there is no table [mappings.{name}]")
        mapping = self.mappings[name]
        of = self.value(node.needed("of", "what is looked up in the mapping"))

        def mapped(event: Event, state: HistoryBuilder) -> Any:
            found = of(event, state)
            if found is ABSENT or found is None:
                return found
            return mapping.get(text_of(found), ABSENT)

        return self._typed(node, self._defaulted(node, mapped))

    def _asked(self, names: Names, *, is_stack: bool) -> Value:
        known = Quarks(find=True)

        def asked(event: Event, state: HistoryBuilder) -> Any:
            try:
                quark = known.quark(names(event, state), state)
            except Incomplete:
                return None
            if quark is None:
                return None
            value = state.ongoing(quark)
            if not is_stack or value is None:
                return value
            # the value of a stack is its depth, which is also the name of its top attribute
            top = state.attributes.find(text_of(value), parent=quark)
            return None if top is None else state.ongoing(top)

        return asked

    def template(self, node: Node, text: str) -> Value:
        """Return a text with the values of fields in it; a lone field keeps its type."""
        pieces: list[str | Value] = []
        for match in _PIECE.finditer(text):
            if match[1] is not None:
                pieces.append(self._named(node, match[1]))
            elif match[0] in ("{", "}"):
                node.fail(f"{text!r} has a lone {match[0]}: write it twice for the character")
            else:
                literal = match[0][0] if match[0] in ("{{", "}}") else match[0]
                if pieces and isinstance(pieces[-1], str):
                    pieces[-1] += literal
                else:
                    pieces.append(literal)
        if not pieces:
            return lambda *_: ""
        if len(pieces) == 1:
            [piece] = pieces
            return piece if not isinstance(piece, str) else lambda *_: piece
        return lambda event, state: _joined(pieces, event, state)

    def _named(self, node: Node, name: str) -> Value:
        if not name:
            node.fail("{} is empty: write the name of a field in it")
        if name in self.definitions:
            return self.definitions[name]
        if name in self.undefined:
            node.fail(f"{{{name}}} is defined here or further down: define it before it is used")
        if name == "name":
            return lambda event, _: event.name
        if name == "time_ns":
            return lambda event, _: event.time_ns

        def field(event: Event, state: HistoryBuilder) -> Any:
            del state
            fields = event.fields
            return fields[name] if name in fields else event.get(name, ABSENT)

        return field

    def path(self, node: Node) -> Names:
        """Return a path: a text of elements between slashes, or an array of elements."""
        if isinstance(node.value, str):
            return _path([self._text_element(node, text) for text in _elements(node.text())])
        nodes = list(node.items())
        if not nodes:
            node.fail("a path needs at least one name")
        if not _is_pool(nodes[0]):
            return _path([self._element(element) for element in nodes])
        pool, key = self.pool(nodes[0])
        below = [self._element(element) for element in nodes[1:]]

        def names(event: Event, state: HistoryBuilder) -> tuple[str, ...]:
            slot = pool.slot(_name(key, event, state), state)
            return (*pool.names, slot, *[_name(element, event, state) for element in below])

        return names

    def _text_element(self, node: Node, text: str) -> str | Value:
        plain = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        return plain if "{" not in plain and "}" not in plain else self.template(node, plain)

    def _element(self, node: Node) -> Value:
        if _is_pool(node):
            node.fail(
                "an attribute of a pool is a path's first element: the pool has a path itself"
            )
        return self.template(node, node.value) if isinstance(node.value, str) else self.value(node)

    def pool(self, node: Node) -> tuple[Pool, Value]:
        """Return the pool of a reference, and the key in it."""
        node.table("pool", "key")
        name = node.needed("pool", "the name of a table [pools.NAME]").text()
        if name not in self.pools:
            node["pool"].fail(f"there is no table [pools.{name}]")
        return self.pools[name], self.value(
            node.needed("key", "what an attribute of the pool is assigned to")
        )


def _is_pool(node: Node) -> bool:
    return isinstance(node.value, dict) and "pool" in node


def _path(elements: list[str | Value]) -> Names:
    def names(event: Event, state: HistoryBuilder) -> tuple[str, ...]:
        return tuple(
            [e if type(e) is str else _name(e, event, state) for e in elements]  # type: ignore[arg-type] # mypy does not narrow by type()
        )

    return names


def _elements(text: str) -> list[str]:
    """Split a path at its slashes, but not in braces or after a backslash."""
    elements, at = [], 0
    while True:
        match = _ELEMENT.match(text, at)
        assert match is not None
        elements.append(match[0])
        at = match.end() + 1
        if match.end() == len(text):
            return elements


def _name(value: Value, event: Event, state: HistoryBuilder) -> str:
    found = value(event, state)
    if found is ABSENT or found is None:
        raise Incomplete
    return found if type(found) is str else text_of(found)


def _joined(pieces: list[str | Value], event: Event, state: HistoryBuilder) -> Any:
    texts = []
    for piece in pieces:
        found = piece if isinstance(piece, str) else piece(event, state)
        if found is ABSENT or found is None:
            return ABSENT
        texts.append(text_of(found))
    return "".join(texts)


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        return int(value, 0)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _to_float(value: Any) -> float:
    return float(value)
