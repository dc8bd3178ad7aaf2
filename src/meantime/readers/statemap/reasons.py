"""Explains why a payload of a statemap is invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.readers.statemap.metadata import Pairs, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.trace import State

__all__ = ["fields_of", "why_no_record", "why_order", "why_state", "why_time"]

LAST_NS = 2**63 - 2  # a history ends behind its last change
_NAMES_SHOWN = 8

_WANTED: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "a datum": (("time", "entity", "state"), ("tag", "value")),
    "an event": (("time", "entity", "event"), ("target",)),
    "a description": (("entity", "description"), ()),
    "a tag definition": (("state", "tag"), None),
}


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a datum, which may be an object or an array."""
    if isinstance(record, Pairs):
        return dict(record)
    return dict(zip(("time", "entity", "state", "tag"), record, strict=True))


def why_no_record(record: Any) -> str:
    """Return why a JSON value is not a payload of any kind."""
    if not isinstance(record, Pairs):
        return "an array must be [time, entity, state, tag]"
    fields = dict(record)
    kind = _meant(fields)
    required, optional = _WANTED[kind]
    if len(fields) < len(record):
        keys = [key for key, _ in record]
        return f"{quoted(max(keys, key=keys.count))} is given twice in {kind}"
    unknown = [key for key in fields if optional is not None and key not in required + optional]
    if unknown:
        return f"unknown key {quoted(unknown[0])} in {kind}"
    missing = [key for key in required if key not in fields]
    if missing:
        return f'"{missing[0]}" is missing in {kind}'
    for key in (*required, *(optional or ())):
        if key in fields and (reason := _CHECKS[key](kind, fields[key])):
            return f'"{key}" is {quoted(fields[key])}, {reason}'
    raise AssertionError(f"nothing is wrong with {record}")


def _meant(fields: dict[str, Any]) -> str:
    if "event" in fields or "target" in fields:
        return "an event"
    if "description" in fields:
        return "a description"
    if "tag" in fields and "state" in fields and "time" not in fields:
        return "a tag definition"
    return "a datum"


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def time_of(given: str | int) -> int:
    """Return a time given as text or number; from 10^20 on, only its magnitude is right."""
    if isinstance(given, int):
        return given
    # int() is slow for very many digits, and Python rejects more than 4300
    digits = given.removeprefix("+").lstrip("0")
    return int(digits[:21] or "0")


def _why_time(kind: str, value: Any) -> str | None:
    if kind == "an event" and isinstance(value, str):
        return None
    digits = value.removeprefix("+") if isinstance(value, str) else ""
    if not (_whole(value) or (digits.isascii() and digits.isdigit())):
        return "not a whole number of nanoseconds"
    if digits:
        value = time_of(value)
    return "which exceeds 64 bits" if value >= 2**64 else None


def _why_state(kind: str, value: Any) -> str | None:
    named = isinstance(value, str) and kind == "a datum"
    return None if named or (_whole(value) and value < 2**32) else "not the number of a state"


def _why_text(_: str, value: Any) -> str | None:
    return None if isinstance(value, str) else "not a string"


def _why_text_or_null(kind: str, value: Any) -> str | None:
    return None if value is None and kind != "a tag definition" else _why_text(kind, value)


def _why_number(_: str, value: Any) -> str | None:
    return None if value is None or type(value) in (int, float) else "not a number"


_CHECKS = {
    "time": _why_time,
    "entity": _why_text,
    "state": _why_state,
    "tag": _why_text_or_null,
    "value": _why_number,
    "event": _why_text,
    "target": _why_text_or_null,
    "description": _why_text,
}


def why_state(record: Any, states: Sequence[State]) -> str:
    """Return why a datum's state is not one of these."""
    given = fields_of(record)["state"]
    if isinstance(given, str):
        names = [quoted(state.name) for state in states[:_NAMES_SHOWN]]
        if len(states) > _NAMES_SHOWN:
            names.append(f"{len(states) - _NAMES_SHOWN} more")
        defined = ", ".join(names)
    else:
        defined = f"0..{len(states) - 1}" if len(states) > 1 else "0 only"
    return f'"state" is {quoted(given)}, but this trace defines {defined}'


def why_order(record: Any, prior_ns: int) -> str:
    """Return why a datum's time is too early."""
    fields = fields_of(record)
    return (
        f"time {time_of(fields['time'])} is out of order with respect to prior time {prior_ns} "
        f"of entity {quoted(fields['entity'])}; --lenient sorts all that are late"
    )


def why_time(record: Any) -> str:
    """Return why a datum's time is too late."""
    given = fields_of(record)["time"]
    return f'"time" is {quoted(given)}, which exceeds the largest possible time {LAST_NS}'
