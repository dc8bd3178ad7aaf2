"""Values and paths of a declaration, as Python expressions of an event and the state.

A declaration is compiled to one Python function, which is called with the columns of a batch. Its
text has names of our own, numbers, and strings written by `repr`; nothing of the file becomes code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import ProviderError
from meantime.history import AttributePool
from meantime.model.events import ABSENT

if TYPE_CHECKING:
    from meantime.history import HistoryBuilder
    from meantime.providers.declared.nodes import Node

__all__ = ["Expression", "Incomplete", "Place", "Quarks", "Values", "text_of"]

# an escaped brace, a field in braces, other text, or a lone brace
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[^{}]+|[{}]")
_ELEMENT = re.compile(r"(?:[^/\\]|\\.)*", re.DOTALL)


# Definitions are written out where they are used.
_LONGEST_CODE = 20_000


class Incomplete(Exception):  # noqa: N818 - not an error: a change is left out
    """A change needs a value that is missing."""


class Expression(NamedTuple):
    """A value of a declaration.

    Attributes:
        code: Evaluates to the value; `ABSENT` where there is none.
        text: Evaluates to its text; None where there is no value.
        constant: What it always is; `ABSENT` if it varies.
    """

    code: str
    text: str
    constant: Any = ABSENT


class Place(NamedTuple):
    """The attribute at a path.

    Attributes:
        key: Evaluates to the key of the attribute in `quarks`.
        quarks: The name of the `Quarks` of the path in the compiled function.
    """

    key: str
    quarks: str


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


class Bound:
    """The builder that a declaration is applied to now; None before the first.

    What refers to this refers to no provider, so there is no cycle that would keep the builder.
    """

    def __init__(self) -> None:
        self.state: HistoryBuilder | None = None


class Quarks:
    """The quarks of one path, by the texts of those of its elements that vary.

    Args:
        elements: The elements; None for one that varies.
        find: Whether a missing attribute is left missing, instead of created.
        bound: The builder that has them.

    Attributes:
        known: By the text that varies, or the tuple of texts, the quark.
    """

    def __init__(self, elements: list[str | None], *, find: bool, bound: Bound) -> None:
        self._elements = elements
        self._bound = bound
        self._find = find
        self._varying = elements.count(None)
        self.known: dict[Any, int] = {}

    def quark(self, key: Any) -> int | None:
        """Return the quark of a key that is not known yet; None if it is incomplete or missing."""
        texts = [key] if self._varying == 1 else key
        if texts is None or None in texts:
            return None
        given = iter(texts)
        path = [next(given) if element is None else element for element in self._elements]
        state = self._bound.state
        assert state is not None
        if not self._find:
            quark = self.known[key] = state.quark(*path)
            return quark
        found = state.attributes.find(*path)
        if found is not None:
            self.known[key] = found
        return found


class Values:
    """Compiles values and paths, with the tables they refer to.

    Attributes:
        names: By name in the compiled function, what it is.
        fields: By name of a field whose values are used, the variable that has them.
        texts: By name of a field whose texts are used, the variable that has them.
        quarks: The attributes of all paths.
        bound: The builder.
    """

    def __init__(self) -> None:
        self.mappings: dict[str, dict[str, Any]] = {}
        self.definitions: dict[str, Expression] = {}
        self.undefined: set[str] = set()
        self.pools: dict[str, Pool] = {}
        self.names: dict[str, Any] = {
            "ABSENT": ABSENT,
            "text_of": text_or_none,
            "joined": joined,
            "joined_or_absent": joined_or_absent,
        }
        self.fields: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.quarks: list[Quarks] = []
        self.bound: Bound = Bound()
        self._count = 0

    def bind(self, state: HistoryBuilder) -> None:
        """Forget the attributes of another builder."""
        if self.bound.state is not state:
            self.bound.state = state
            for quarks in self.quarks:
                quarks.known.clear()

    def name(self, what: str, value: Any = None) -> str:
        """Return a new name, in the compiled function that of a value."""
        self._count += 1
        name = f"{what}{self._count}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """Return the name of a new variable."""
        self._count += 1
        return f"v{self._count}"

    def value(self, node: Node) -> Expression:
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
        made = self._composite(node)
        if len(made.code) > _LONGEST_CODE:
            node.fail("is nested too deeply")
        return made

    def constant(self, value: Any) -> Expression:
        """Return a value that is always the same."""
        # infinity and NaN have no literals
        code = repr(value) if isinstance(value, str | int) else self.name("number", value)
        return Expression(code, repr(text_of(value)), value)

    def _of_code(self, code: str) -> Expression:
        # Most values are texts, which need no call.
        found = self.variable()
        return Expression(
            code, f"({found} if type({found} := {code}) is str else text_of({found}))"
        )

    def _composite(self, node: Node) -> Expression:
        kind = node.one_of(("field", "query", "top", "map", "text"), "a value that is a table")
        if kind == "map":
            return self._mapped(node.table("map", "of", "default", "as"))
        node.table(kind, "default", "as")
        if kind == "field":
            value = self._named(node["field"], node["field"].text())
        elif kind == "text":
            value = self.template(node["text"], node["text"].text())
        else:
            value = self._asked(self.path(node[kind], find=True), is_stack=kind == "top")
        return self._typed(node, self._defaulted(node, value))

    def _defaulted(self, node: Node, value: Expression) -> Expression:
        default = node.get("default")
        if default is None:
            return value
        other, found = self.value(default), self.variable()
        is_some = f"({found} := {value.code}) is not ABSENT and {found} is not None"
        return self._of_code(f"({found} if {is_some} else {other.code})")

    def _typed(self, node: Node, value: Expression) -> Expression:
        forced = node.get("as")
        return value if forced is None else self.forced(forced, value)

    def forced(self, node: Node, value: Expression) -> Expression:
        """Return a value converted to a type."""
        kind = node.choice("int", "float", "str")
        convert = {"int": _to_int, "float": _to_float, "str": text_of}[kind]

        def forced(found: Any, name: str, time_ns: int) -> Any:
            if found is ABSENT or found is None:
                return found
            try:
                return convert(found)
            except (ValueError, OverflowError):
                raise ProviderError(
                    f"{node.where}: {found!r} cannot become {kind} (at the event {name!r},"
                    f" {time_ns} ns)"
                ) from None

        return self._of_code(f"{self.name('forced', forced)}({value.code}, name, time_ns)")

    def _mapped(self, node: Node) -> Expression:
        name = node["map"].text()
        if name not in self.mappings:
            node["map"].fail(f"there is no table [mappings.{name}]")
        mapping = self.mappings[name]
        of = self.value(node.needed("of", "what is looked up in the mapping"))

        def mapped(found: Any) -> Any:
            if found is ABSENT or found is None:
                return found
            return mapping.get(text_of(found), ABSENT)

        value = self._of_code(f"{self.name('mapped', mapped)}({of.code})")
        return self._typed(node, self._defaulted(node, value))

    def _asked(self, place: Place, *, is_stack: bool) -> Expression:
        quark = self.quark_of(place)
        found = self.variable()
        ask = "top" if is_stack else "now"
        return self._of_code(f"({ask}({found}) if ({found} := {quark}) is not None else None)")

    def quark_of(self, place: Place) -> str:
        """Return the code of the quark of a place; None if it is incomplete or missing."""
        key, quark, quarks = self.variable(), self.variable(), place.quarks
        known = f"({quark} := {quarks}_known({key} := {place.key}))"
        return f"({quark} if {known} is not None else {quarks}({key}))"

    def template(self, node: Node, text: str) -> Expression:
        """Return a text with the values of fields in it; a lone field keeps its type."""
        pieces: list[str | Expression] = []
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
            return self.constant("")
        if len(pieces) == 1:
            [piece] = pieces
            return self.constant(piece) if isinstance(piece, str) else piece
        texts = ", ".join(repr(piece) if isinstance(piece, str) else piece.text for piece in pieces)
        if len(texts) > _LONGEST_CODE:
            node.fail("is nested too deeply")
        return Expression(f"joined_or_absent({texts})", f"joined({texts})")

    def _named(self, node: Node, name: str) -> Expression:
        if not name:
            node.fail("{} is empty: write the name of a field in it")
        if name in self.definitions:
            return self.definitions[name]
        if name in self.undefined:
            node.fail(f"{{{name}}} is defined here or further down: define it before it is used")
        if name == "name":
            return Expression("name", "name")
        if name == "time_ns":
            return Expression("time_ns", "str(time_ns)")
        # which of the two is used is known from the text of the function
        value = self.fields.setdefault(name, f"field{len(self.fields)}_")
        return Expression(value, self.texts.setdefault(name, f"text{len(self.texts)}_"))

    def path(self, node: Node, *, find: bool = False) -> Place:
        """Return a path: a text of elements between slashes, or an array of elements."""
        if isinstance(node.value, str):
            return self._path(
                [self._text_element(node, text) for text in _elements(node.text())], find=find
            )
        nodes = list(node.items())
        if not nodes:
            node.fail("a path needs at least one name")
        if not _is_pool(nodes[0]):
            return self._path([self._element(element) for element in nodes], find=find)
        pool, key = self.pool(nodes[0])
        bound = self.bound

        def slot(key: str | None) -> str | None:
            assert bound.state is not None
            return None if key is None else pool.slot(key, bound.state)

        taken = f"{self.name('slot', slot)}({key.text})"
        elements = [*map(self.constant, pool.names), Expression(taken, taken)]
        return self._path([*elements, *(self._element(each) for each in nodes[1:])], find=find)

    def _text_element(self, node: Node, text: str) -> Expression:
        plain = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        if "{" not in plain and "}" not in plain:
            return self.constant(plain)
        return self.template(node, plain)

    def _element(self, node: Node) -> Expression:
        if _is_pool(node):
            node.fail(
                "an attribute of a pool is a path's first element: the pool has a path itself"
            )
        return self.template(node, node.value) if isinstance(node.value, str) else self.value(node)

    def _path(self, elements: list[Expression], *, find: bool) -> Place:
        quarks = Quarks(
            [None if each.constant is ABSENT else text_of(each.constant) for each in elements],
            find=find,
            bound=self.bound,
        )
        self.quarks.append(quarks)
        name = self.name("quark", quarks.quark)
        self.names[f"{name}_known"] = quarks.known.get
        texts = [each.text for each in elements if each.constant is ABSENT]
        if len(texts) == 1:
            return Place(texts[0], name)
        if all(text.isidentifier() for text in texts):
            return Place(f"({''.join(f'{text}, ' for text in texts)})", name)
        # an element after one that is missing is not evaluated, as it may be an error
        parts = [(self.variable(), text) for text in texts]
        missing = " or ".join(f"({part} := {text}) is None" for part, text in parts)
        return Place(f"(None if {missing} else ({', '.join(part for part, _ in parts)}))", name)

    def pool(self, node: Node) -> tuple[Pool, Expression]:
        """Return the pool of a reference, and the key in it."""
        node.table("pool", "key")
        name = node.needed("pool", "the name of a table [pools.NAME]").text()
        if name not in self.pools:
            node["pool"].fail(f"there is no table [pools.{name}]")
        return self.pools[name], self.value(
            node.needed("key", "what an attribute of the pool is assigned to")
        )


def text_or_none(value: Any) -> str | None:
    """Return the text of a value; None if there is none."""
    return None if value is ABSENT or value is None else text_of(value)


def joined(*texts: str | None) -> str | None:
    """Return texts as one; None if one is missing."""
    return None if None in texts else "".join(texts)  # type: ignore[arg-type] # no None is among them


def joined_or_absent(*texts: str | None) -> Any:
    """Return texts as one; `ABSENT` if one is missing."""
    return ABSENT if None in texts else "".join(texts)  # type: ignore[arg-type] # as above


def _is_pool(node: Node) -> bool:
    return isinstance(node.value, dict) and "pool" in node


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


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        return int(value, 0)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _to_float(value: Any) -> float:
    return float(value)
