"""Checks and collects the metadata of a statemap."""

from __future__ import annotations

import json
from typing import Any

from meantime.model.css_colors import color_hex
from meantime.model.trace import State

__all__ = [
    "METADATA_KEYS",
    "IllegalError",
    "Metadata",
    "Pairs",
    "decode",
    "is_metadata",
    "quoted",
]

METADATA_KEYS = ("start", "title", "host", "entityKind", "states")
MAX_U64 = 2**64 - 1
_MEMBERS = ("value", "color")
_SHOWN = 60


class IllegalError(ValueError):
    """A payload is invalid; the message is the reason."""


class Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in order, with repeated keys."""


def decode(text: str) -> Any:
    """Decode JSON that the kernel has checked, with objects as `Pairs`."""
    return json.loads(text, object_pairs_hook=Pairs, parse_int=_integer)


def _integer(digits: str) -> int | float:
    # the original statemap program reads -0 as a float too, so it is neither a time nor a state
    return int(digits) if digits != "-0" else -0.0


def quoted(value: Any) -> str:
    """Return a value as JSON, shortened for messages."""
    text = json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _plain(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: _plain(inner) for key, inner in value}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def is_metadata(record: Any) -> bool:
    """Return whether a payload has any key of metadata."""
    return isinstance(record, Pairs) and any(key in METADATA_KEYS for key, _ in record)


class Metadata:
    """The metadata so far, from any number of payloads.

    Attributes:
        states: The state table in order of value; None until it was read.
        ignored: What of it lenient reading did without.
    """

    def __init__(self, given: dict[str, Any] | None = None, *, lenient: bool = False) -> None:
        """Begin empty, or with the metadata of another reader."""
        self.given: dict[str, Any] = dict(given or {})
        self.ignored: list[str] = []
        self._lenient = lenient
        self.states: tuple[State, ...] | None = self.given.get("states")

    def add(self, payload: Pairs) -> None:
        """Add the metadata in one payload.

        Raises:
            IllegalError: If it repeats a key, or has one that is not of metadata.
        """
        given: dict[str, Any] = {}
        for key, value in self._understood(payload) if self._lenient else payload:
            if key not in METADATA_KEYS:
                raise IllegalError(
                    f"unknown metadata key {quoted(key)}: expected {', '.join(METADATA_KEYS)}"
                )
            if key in given or key in self.given:
                raise IllegalError(f'metadata key "{key}" occurs twice')
            given[key] = _CHECKS[key](value)
        self.given |= given
        self.states = self.given.get("states")

    def _understood(self, payload: Pairs) -> Pairs:
        """Return what of a payload can be understood, and note the rest."""
        kept = Pairs()
        for key, value in payload:
            if key not in METADATA_KEYS:
                self.ignored.append(f"metadata key {quoted(key)}")
            elif key == "title" and value is None:
                self.ignored.append('"title" of null')
            elif key == "states" and isinstance(value, Pairs):
                kept.append((key, Pairs((name, self._state(name, each)) for name, each in value)))
            else:
                kept.append((key, value))
        return kept

    def _state(self, name: str, members: Any) -> Any:
        """Return the members of a state that can be understood."""
        if not isinstance(members, Pairs):
            return members
        kept = Pairs()
        for key, value in members:
            is_color = isinstance(value, str) and color_hex(value) is not None
            if key not in _MEMBERS or (key == "color" and not is_color):
                self.ignored.append(f"{key} {quoted(value)} of state {quoted(name)}")
            else:
                kept.append((key, value))
        return kept

    @property
    def missing(self) -> str | None:
        """The reason why the metadata are incomplete; None if they are not."""
        for key in ("states", "start"):
            if key not in self.given:
                return f'missing metadata payload: "{key}" is not given'
        return None

    @property
    def start_ns(self) -> int | None:
        """UTC nanoseconds at time 0."""
        start: int | None = self.given.get("start")
        return start

    def text(self, key: str) -> str | None:
        """Return the title, host or entityKind, if it was given."""
        value: str | None = self.given.get(key)
        return value


def _unsigned(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_U64


def _start(value: Any) -> int:
    if type(value) is not list or len(value) != 2:
        raise IllegalError('"start" property must be a two element array')
    seconds, nanoseconds = value
    if not (_unsigned(seconds) and _unsigned(nanoseconds)):
        raise IllegalError(
            f'"start" is {quoted(value)}, not a number of seconds and one of nanoseconds'
        )
    return int(seconds) * 10**9 + int(nanoseconds)


def _title(value: Any) -> str:
    if not isinstance(value, str):
        raise IllegalError(f'"title" is {quoted(value)}, not a string')
    return value


def _optional(key: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise IllegalError(f'"{key}" is {quoted(value)}, not a string')
    return value


def _states(value: Any) -> tuple[State, ...]:
    if not isinstance(value, Pairs):
        raise IllegalError(f'"states" is {quoted(value)}, not an object')
    states = {name: _state(name, given_value) for name, given_value in value}
    if not states:
        raise IllegalError('"states" defines no state')
    by_value: dict[int, State] = {}
    for state in states.values():
        if state.value >= len(states):
            raise IllegalError(
                f"state {quoted(state.name)} has value ({state.value}) "
                f"that exceeds maximum allowed value ({len(states) - 1})"
            )
        if other := by_value.get(state.value):
            raise IllegalError(
                f"state {quoted(state.name)} has value ({state.value}) "
                f"that conflicts with state {quoted(other.name)}"
            )
        by_value[state.value] = state
    return tuple(by_value[value] for value in sorted(by_value))


def _state(name: str, given_value: Any) -> State:
    if not isinstance(given_value, Pairs):
        raise IllegalError(
            f"state {quoted(name)} is {quoted(given_value)}, not an object with a value"
        )
    given: dict[str, Any] = {}
    for key, value in given_value:
        if key not in _MEMBERS:
            raise IllegalError(
                f"state {quoted(name)} has an unknown key {quoted(key)}: expected value or color"
            )
        if key in given:
            raise IllegalError(f'state {quoted(name)} has "{key}" twice')
        given[key] = value
    if "value" not in given:
        raise IllegalError(f"state {quoted(name)} has no value")
    if not _unsigned(given["value"]):
        raise IllegalError(
            f"state {quoted(name)} has value {quoted(given['value'])}, not a whole number"
        )
    color = given.get("color")
    if color is not None and not isinstance(color, str):
        raise IllegalError(f"state {quoted(name)} has color {quoted(color)}, not a string")
    return State(name, given["value"], color)


_CHECKS = {
    "start": _start,
    "title": _title,
    "host": lambda value: _optional("host", value),
    "entityKind": lambda value: _optional("entityKind", value),
    "states": _states,
}
