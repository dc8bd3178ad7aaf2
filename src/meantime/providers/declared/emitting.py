"""Spans and points of a declaration, as the lines of a Python function."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from meantime.errors import ProviderError
from meantime.model.events import ABSENT

if TYPE_CHECKING:
    from meantime.history import HistoryBuilder
    from meantime.providers.declared.nodes import Node
    from meantime.providers.declared.values import Expression, Values

__all__ = ["INCOMPLETE", "emit", "emitted", "whole"]

INCOMPLETE = "incomplete += 1"
_BEGINS = ("since", "start_ns", "duration_ns")


def emitted(node: Node, kind: str, values: Values) -> list[str]:
    """Return the lines that add a span which ends now, or a point."""
    begins = _BEGINS if kind == "span" else ()
    node.table("path", kind, *begins, "arguments", "if")
    place = values.path(node.needed("path", "the attribute that it is on"))
    name = values.value(node[kind])
    fields = _arguments(node.get("arguments"), values)
    add = f"{kind}s.append((at, text, time_ns, {fields}))"
    lines = [add]
    if kind == "span":
        lines = [
            f"if (began := {_began(node, values)}) is None:",
            f" {INCOMPLETE}",
            "elif began > time_ns:",
            " past += 1",
            "else:",
            f" spans.append((at, text, began, time_ns, {fields}))",
        ]
    return [
        f"if (text := {name.text}) is None or (at := {values.quark_of(place)}) is None:",
        f" {INCOMPLETE}",
        "else:",
        *(f" {line}" for line in lines),
    ]


def _began(node: Node, values: Values) -> str:
    """Return the code of when a span began; None if that is not known."""
    given = [key for key in _BEGINS if key in node]
    if len(given) > 1:
        node.fail(f"a span has one beginning; this has {', '.join(given)}")
    bound = values.bound

    def since(quark: int | None) -> int | None:
        assert bound.state is not None
        if quark is None or bound.state.ongoing(quark) is None:
            return None
        return bound.state.ongoing_start(quark)

    if not given:
        return f"{values.name('since', since)}(at)"
    [key] = given
    if key == "since":
        place = values.path(node[key], find=True)
        return f"{values.name('since', since)}({values.quark_of(place)})"

    def began(found: Any, name: str, time_ns: int) -> int | None:
        if found is ABSENT or found is None:
            return None
        number = whole(node, key, found, name, time_ns)
        return time_ns - number if key == "duration_ns" else number

    return f"{values.name('began', began)}({values.value(node[key]).code}, name, time_ns)"


def _arguments(node: Node | None, values: Values) -> str:
    """Return the code of the arguments: a tuple of names and values."""
    if node is None:
        return "()"
    if not isinstance(node.value, dict):
        node.fail(f'{node.value!r} must be a table, such as {{ bytes = "{{bytes}}" }}')
    pairs: list[tuple[str, Expression]] = [(key, values.value(node[key])) for key in node]
    return f"({''.join(f'({key!r}, {value.code}), ' for key, value in pairs)})"


def whole(node: Node, key: str, given: Any, name: str, time_ns: int) -> int:
    """Return nanoseconds, which a field of text may have as digits.

    Raises:
        ProviderError: If they are not a whole number.
    """
    number = given
    # a field of text, such as one of perf's, may have the number as its digits
    if isinstance(given, str):
        with suppress(ValueError):
            number = int(given)
    if not isinstance(number, int) or isinstance(number, bool):
        raise ProviderError(
            f"{node.where}: {key} is {given!r}: a time is a whole number of nanoseconds"
            f" (at the event {name!r}, {time_ns} ns)"
        )
    return number


def emit(state: HistoryBuilder, spans: list[Any], points: list[Any]) -> None:
    """Add the spans and points of a batch."""
    if spans:
        quarks, names, starts_ns, ends_ns, fields = zip(*spans, strict=True)
        arguments = [*map(_as_json, fields)]
        state.add_spans(quarks, names, starts_ns, ends_ns, arguments=arguments)
    if points:
        quarks, names, times_ns, fields = zip(*points, strict=True)
        state.add_points(quarks, names, times_ns, arguments=[*map(_as_json, fields)])


def _as_json(fields: tuple[tuple[str, Any], ...]) -> str | None:
    """Return arguments as JSON; None if there are none."""
    given = {key: _plain(value) for key, value in fields if value is not ABSENT}
    return json.dumps(given, ensure_ascii=False, default=str) if given else None


def _plain(value: Any) -> Any:
    # JSON has no infinity
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
