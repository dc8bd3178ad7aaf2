"""Roles: what the states of a trace mean, which lanes are resources, and what ends waits.

Most follow from the names of states, which are the same words everywhere. A trace of one's own
words says so in a file:

```toml
[states]                      # a name, or a regular expression between slashes
rendering = "work"
"waiting for a slot" = "ready:slot"
"/^rpc/" = "wait:network"
parked = "idle"

[resources.slot]
lanes = "Slots/*"             # what has the resource: states that are not idle use it
capacity = 4                  # by default as many as ever used it at once

[dependencies]
flows = ["wakes"]             # by default all flows
```
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError, UsageError
from meantime.model.state_classes import class_of
from meantime.query.explain.lanes import Meaning, TimeClass

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ResourceRole", "Roles", "read_roles"]

_CLASSES = {each.text: each for each in TimeClass if each is not TimeClass.HAND_OFF}
# What the classes of states by their names are.
_BY_CLASS = {
    "running": Meaning(TimeClass.WORK, "running"),
    "runnable": Meaning(TimeClass.READY, "CPU"),
    "blocked": Meaning(TimeClass.WAIT, "disk"),
    "lock": Meaning(TimeClass.WAIT, "lock"),
    "i/o": Meaning(TimeClass.WAIT, "I/O"),
    "thread": Meaning(TimeClass.WAIT, "thread"),
    "tasks": Meaning(TimeClass.WAIT, "tasks"),
    "queue": Meaning(TimeClass.WAIT, "queue"),
    "sleep": Meaning(TimeClass.WAIT, "sleep"),
    "idle": Meaning(TimeClass.IDLE, "idle"),
}
# Words in longer names, the first that occurs.
_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in [
        (r"\bgil\b", Meaning(TimeClass.READY, "GIL")),
        (
            r"\bidle\b|not running|park|\bclient|\boff\b|inactive|\bstopped\b|main.?loop",
            Meaning(TimeClass.IDLE, "idle"),
        ),
        (r"\block|mutex|futex|semaphore|latch|monitor", Meaning(TimeClass.WAIT, "lock")),
        (r"disk|fsync|page.?fault|swap|\bdata ?file", Meaning(TimeClass.WAIT, "disk")),
        (r"\bnet|socket|\brecv|\bsend", Meaning(TimeClass.WAIT, "network")),
        (r"\bi/?o\b|\bio[-_ ]?wait|\bread|\bwrit", Meaning(TimeClass.WAIT, "I/O")),
        (r"queue", Meaning(TimeClass.WAIT, "queue")),
        (r"sleep|timer|time.?out|\bdelay", Meaning(TimeClass.WAIT, "sleep")),
        (r"exit|dead|zombie|complete|finish|\bdone\b|closed", Meaning(TimeClass.IDLE, "ended")),
        (r"unknown|\blost\b", Meaning(TimeClass.UNKNOWN, "")),
    ]
)
_WAITS = re.compile(
    r"^wait(?:ing)?\b[-: ]*(?:for )?(?P<what>.*)$|^(?P<before>.*)[-_ ]wait$", re.IGNORECASE
)


class ResourceRole(NamedTuple):
    """A resource.

    Attributes:
        name: What it is called, as in `ready:NAME`.
        lanes: The pattern of the attributes that have it.
        capacity: How many can use it at once; None for as many as ever did.
    """

    name: str
    lanes: str
    capacity: int | None


class Roles(NamedTuple):
    """What states mean, which lanes are resources, and which flows end waits.

    Attributes:
        states: By name of a state, what it means.
        patterns: What names that match mean, in order.
        resources: The resources.
        flows: Names of flows that end waits; None for all.
    """

    states: dict[str, Meaning]
    patterns: tuple[tuple[re.Pattern[str], Meaning], ...] = ()
    resources: tuple[ResourceRole, ...] = ()
    flows: frozenset[str] | None = None

    def meaning(self, name: str) -> Meaning:
        """Return what a state means.

        >>> Roles({}).meaning("runnable"), Roles({}).meaning("waiting:lock").label
        (Meaning(kind=<TimeClass.READY: 1>, label='CPU'), 'lock')
        >>> Roles({}).meaning("rendering")
        Meaning(kind=<TimeClass.WORK: 0>, label='rendering')
        """
        if (given := self.states.get(name)) is not None:
            return given
        for pattern, meaning in self.patterns:
            if pattern.search(name):
                return meaning
        return _by_words(name)


@lru_cache(maxsize=4096)
def _by_words(name: str) -> Meaning:
    found = class_of(name)
    if found is not None and found.name in _BY_CLASS:
        meaning = _BY_CLASS[found.name]
        # `poll` and `idle` are both idle, and differ
        return Meaning(meaning.kind, name) if meaning.kind is TimeClass.IDLE else meaning
    for pattern, meaning in _WORDS:
        if pattern.search(name):
            return meaning
    waits = _WAITS.match(name)
    if waits:
        what = waits["what"] if waits["what"] is not None else waits["before"]
        return Meaning(TimeClass.WAIT, what or "something")
    return Meaning(TimeClass.WORK, name)


def read_roles(path: Path) -> Roles:
    """Return the roles that a file declares.

    Raises:
        InputError: If the file cannot be read, or declares something else; the message has the
            key.
    """
    import tomllib  # noqa: PLC0415 - only where a file of roles is given

    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise InputError(str(path), str(error.strerror)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(str(path), str(error)) from error
    try:
        return _roles(document)
    except UsageError as error:
        raise InputError(str(path), str(error)) from error


def _roles(document: dict[str, Any]) -> Roles:
    _check_keys("the file", document, {"states", "resources", "dependencies"})
    states: dict[str, Meaning] = {}
    patterns = []
    for name, text in _table(document, "states").items():
        meaning = _meaning(name, text)
        if len(name) > 2 and name[0] == name[-1] == "/":
            try:
                patterns.append((re.compile(name[1:-1]), meaning))
            except re.error as error:
                raise UsageError(f"states: {name} is not a regular expression: {error}") from error
        else:
            states[name] = meaning
    resources = []
    for name, table in _table(document, "resources").items():
        if not isinstance(table, dict):
            raise UsageError(f"resources.{name} is {table!r}; write [resources.{name}]")
        _check_keys(f"resources.{name}", table, {"lanes", "capacity"})
        lanes, capacity = table.get("lanes"), table.get("capacity")
        if not isinstance(lanes, str):
            raise UsageError(f"resources.{name}.lanes is {lanes!r}; give a pattern of paths")
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise UsageError(f"resources.{name}.capacity is {capacity!r}; give a number from 1 on")
        resources.append(ResourceRole(name, lanes, capacity))
    dependencies = _table(document, "dependencies")
    _check_keys("dependencies", dependencies, {"flows"})
    flows = dependencies.get("flows")
    if flows is not None and not (
        isinstance(flows, list) and all(isinstance(each, str) for each in flows)
    ):
        raise UsageError(f"dependencies.flows is {flows!r}; give a list of names")
    return Roles(
        states, tuple(patterns), tuple(resources), None if flows is None else frozenset(flows)
    )


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{key} is {table!r}; write [{key}]")
    return table


def _check_keys(where: str, table: dict[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise UsageError(
                f"{where} has the key {key!r}; the keys are {', '.join(sorted(known))}"
            )


def _meaning(name: str, text: object) -> Meaning:
    kind, _, label = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind not in _CLASSES:
        raise UsageError(
            f"states.{name} is {text!r}; write work, ready:RESOURCE, wait:WHAT, idle or unknown"
        )
    return Meaning(_CLASSES[kind], label or name)
