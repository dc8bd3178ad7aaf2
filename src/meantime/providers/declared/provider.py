"""A provider that is declared in TOML."""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from meantime.errors import ProviderError, UsageError
from meantime.history.provider_runner import located
from meantime.kernels import gather
from meantime.model.attributes import parse_pattern
from meantime.model.css_colors import color_hex
from meantime.model.events import Events
from meantime.model.trace import LaneKind, State
from meantime.providers.base import StateProvider
from meantime.providers.declared.changes import changes, indented
from meantime.providers.declared.compiling import compiled
from meantime.providers.declared.conditions import condition
from meantime.providers.declared.nodes import Node
from meantime.providers.declared.positions import lines_of
from meantime.providers.declared.values import Pool, Values, text_of

if TYPE_CHECKING:
    from meantime.history import HistoryBuilder
    from meantime.model.events import Event
    from meantime.providers.declared.changes import Lines

__all__ = ["DeclaredProvider", "declare"]

_TOP = ("name", "version", "reorder_ns", "lanes", "mappings", "pools", "define", "on")


class _Lane(NamedTuple):
    pattern: str
    options: dict[str, Any]


# How like names are that are taken for one: where others occur, and where none does.
_LIKE = (0.75, 0.6)
_MOST_LISTED = 8


class _Handler(NamedTuple):
    names: re.Pattern[str]
    lines: Lines
    events: list[str]


class DeclaredProvider(StateProvider):
    """The provider that a TOML file declares; created by `declare`.

    Its changes are compiled to one Python function, which loops over the columns of a batch.
    """

    def __init__(self, root: Node, name: str) -> None:
        root.table(*_TOP)
        self.name: str = root["name"].text() if "name" in root else name
        self.version: int | str = _version(root.get("version"))
        self.reorder_ns: int = _reorder(root.get("reorder_ns"))
        self._values = values = Values()
        self._pools = values.pools
        _read_tables(root, values)
        self._lanes = [_lane(node) for node in _items(root, "lanes")]
        self._handlers = [
            _handler(node, values)
            for node in root.needed("on", "a table [[on]] defines what an event changes").items()
        ]
        # The programs, which are the handlers that apply to events of one name, and the program of
        # each name so far.
        self._programs: dict[tuple[int, ...], int] = {}
        self._program_of: dict[str, int] = {}
        self._run: Any = None
        try:
            compiled([handler.lines for handler in self._handlers], values)
        except (SyntaxError, RecursionError, MemoryError):
            root.fail("is nested too deeply")

    def begin(self, state: HistoryBuilder) -> None:
        """Declare the lanes."""
        for pool in self._pools.values():
            pool.forget()
        for lane in self._lanes:
            state.lanes(lane.pattern, **lane.options)

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        """Apply the changes that the declaration lists for events of this name."""
        self.handle_batch(Events([event]), state)

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        """Apply to each event the changes that the declaration lists for events of its name."""
        programs = self._programs_of(columns)
        self._values.bind(state)
        run, fields, texts = self._run
        known: dict[int, str] = {}
        # from here on, changes apply no scheduled ones: the function does so before each event
        state.advance(int(columns.time_ns[0]))
        run(
            state,
            zip(
                columns.time_ns.tolist(),
                programs,
                map(columns.names.__getitem__, columns.name.tolist()),
                *(columns.values_of(field) for field in fields),
                *(columns.texts_of(field, known, text_of) for field in texts),
                strict=True,
            ),
            partial(located, self.name),
        )

    def _programs_of(self, columns: Events) -> list[int]:
        """Return the program of each event, compiling those that are new."""
        more = False
        codes = gather.seen(columns.name)
        names = [columns.names[code] for code in codes.tolist()]
        for name in set(names).difference(self._program_of):
            applied = tuple(
                number
                for number, handler in enumerate(self._handlers)
                if handler.names.fullmatch(name)
            )
            more |= applied not in self._programs
            self._program_of[name] = self._programs.setdefault(applied, len(self._programs))
        if more:
            self._run = compiled(
                [
                    [line for number in applied for line in self._handlers[number].lines]
                    for applied in self._programs
                ],
                self._values,
            )
        program_of_code = np.zeros(int(codes.max(initial=0)) + 1, np.int32)
        program_of_code[codes] = [self._program_of[name] for name in names]
        found: list[int] = gather.looked_up(program_of_code, columns.name).tolist()
        return found

    def events_not_found(self) -> tuple[str, bool]:
        """Return which events did not occur so far, and whether no event of the declaration did.

        If some occurred, only events are named that are called nearly as one that nothing is
        declared for.
        """
        met = self._program_of
        unused = [
            name
            for name in met
            if not any(handler.names.fullmatch(name) for handler in self._handlers)
        ]
        is_none = bool(met) and len(unused) == len(met)
        missing = dict.fromkeys(
            name
            for handler in self._handlers
            for name in handler.events
            if not any(handler.names.fullmatch(each) for each in met)
        )
        notes = []
        for name in missing if unused else ():
            near = difflib.get_close_matches(name, unused, n=2, cutoff=_LIKE[is_none])
            if near:
                notes.append(f"{name} (nearest: {', '.join(near)})")
            elif is_none:
                notes.append(name)
        rest = len(notes) - _MOST_LISTED
        more = f" and {rest:,} more" if rest > 0 else ""
        return f"{', '.join(notes[:_MOST_LISTED])}{more}", is_none

    def save(self) -> Any:
        """Return the assignments of all pools."""
        return {name: pool.save() for name, pool in self._pools.items()}

    def restore(self, saved: Any) -> None:
        """Restore what `save` returned."""
        for name, pool in self._pools.items():
            pool.restore(saved[name])


def declare(text: bytes, source: str) -> DeclaredProvider:
    """Return the provider that a TOML text declares.

    Raises:
        ProviderError: If something in it is wrong; the message has the line and what to do.
    """
    try:
        decoded = text.decode("utf-8-sig").replace("\r\n", "\n")
        value = tomllib.loads(decoded)
    except UnicodeDecodeError as error:
        raise ProviderError(f"{source}: byte {error.start}: is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        reason, line = _syntax(str(error), text)
        raise ProviderError(f"{source}:{line}: is not TOML: {reason}") from None
    except RecursionError:
        raise ProviderError(f"{source}: is nested too deeply") from None
    provider = DeclaredProvider(Node(value, source, lines_of(decoded)), Path(source).stem)
    provider.definition = hashlib.blake2b(text, digest_size=8).hexdigest()
    return provider


def _syntax(message: str, text: bytes) -> tuple[str, int]:
    match = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    if match is None:
        return message.removesuffix(" (at end of document)"), text.count(b"\n") + 1
    reason = match[1]
    if "key" in reason:
        reason += "; a table in { } stands on one line, but for what is inside [ ]"
    return reason, int(match[2])


def _version(node: Node | None) -> int | str:
    if node is None:
        return 1
    if isinstance(node.value, bool) or not isinstance(node.value, int | str):
        node.fail(f"{node.value!r} is not a version: write an integer or a string")
    return node.value


def _reorder(node: Node | None) -> int:
    if node is None:
        return 0
    given = node.value
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
        node.fail(f"{given!r} is not a number of nanoseconds: write a whole number, such as 1_000")
    return given


def _items(root: Node, key: str) -> list[Node]:
    return list(root[key].items()) if key in root else []


def _tables(root: Node, key: str) -> list[tuple[str, Node]]:
    if key not in root:
        return []
    node = root[key]
    if not isinstance(node.value, dict):
        node.fail(f"{key!r} is a table: write [{key}.NAME]")
    return [(name, node[name]) for name in node]


def _read_tables(root: Node, values: Values) -> None:
    for name, node in _tables(root, "mappings"):
        if not isinstance(node.value, dict):
            node.fail(f"a mapping is a table: write [mappings.{name}]")
        for key in node:
            if not isinstance(node.value[key], str | int | float):
                node[key].fail(f"{node.value[key]!r} is not a state: write a number or a string")
            values.value(node[key])
        values.mappings[name] = dict(node.value)
    for name, node in _tables(root, "pools"):
        node.table("path", "lowest_first")
        path = node.needed("path", "the attribute that the pool's are below of")
        lowest_first = node.value.get("lowest_first", False)
        if not isinstance(lowest_first, bool):
            node["lowest_first"].fail("must be true or false")
        values.pools[name] = Pool(_constant_path(path), lowest_first=lowest_first)
    definitions = _tables(root, "define")
    values.undefined.update(name for name, _ in definitions)
    for name, node in definitions:
        values.definitions[name] = values.value(node)


def _constant_path(node: Node) -> tuple[str, ...]:
    try:
        elements = parse_pattern(node.text())
    except UsageError as error:
        node.fail(str(error))
    names = tuple(element for element in elements if isinstance(element, str))
    if len(names) != len(elements) or "{" in node.value:
        node.fail("a pool's path has names only")
    return names


def _lane(node: Node) -> _Lane:
    node.table("pattern", "kind", "entity_kind", "label", "unit", "states", "short_lived")
    pattern = node.needed("pattern", "which attributes can be drawn")
    try:
        parse_pattern(pattern.text())
    except UsageError as error:
        pattern.fail(str(error))
    options: dict[str, Any] = {
        key: node[key].text() for key in ("entity_kind", "label", "unit") if key in node
    }
    if "kind" in node:
        options["kind"] = node["kind"].choice(*get_args(LaneKind))
    if "short_lived" in node:
        node["short_lived"].true()
        options["short_lived"] = True
    if "states" in node:
        options["states"] = [_state(state, row) for row, state in enumerate(node["states"].items())]
    return _Lane(pattern.value, options)


def _state(node: Node, row: int) -> State:
    if isinstance(node.value, str):
        return State(node.text(), row)
    node.table("name", "color")
    color = node.get("color")
    if color is not None and color_hex(color.text()) is None:
        color.fail(f"{color.value!r} is not a color: write it as #rrggbb, or as a name of CSS")
    name = node.needed("name", "the name of the state")
    return State(name.text(), row, None if color is None else color.value)


def _handler(node: Node, values: Values) -> _Handler:
    node.table("event", "if", "change")
    event = node.needed(
        "event", "the name of the event, or an array of names; * is any part of one"
    )
    names = [event] if isinstance(event.value, str) else list(event.items())
    if not names:
        event.fail("there is no event in it")
    pattern = "|".join(_pattern(name.text()) for name in names)
    lines = changes(node.needed("change", "what the event changes"), values)
    if "if" in node:
        lines = [f"if {condition(node['if'], values)}:", *indented(lines)]
    return _Handler(re.compile(pattern, re.DOTALL), lines, [name.text() for name in names])


def _pattern(name: str) -> str:
    return ".*".join(map(re.escape, name.split("*")))
