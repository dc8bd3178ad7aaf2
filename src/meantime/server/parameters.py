"""What requests of pages ask for, as numbers and lanes; nothing of it is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import UsageError
from meantime.model.units import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meantime.server.lanes import LaneTree

__all__ = [
    "MOST_NAME",
    "MOST_TEXT",
    "lanes_of",
    "limit",
    "optional",
    "part_of",
    "range_of",
    "whole",
]

# The longest text that is searched for.
MOST_TEXT = 1_000
# The longest name whose occurrences are searched for.
MOST_NAME = 20_000
_MOST_LIMIT = 10_000


def whole(parameters: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return an integer that a page sent.

    Raises:
        UsageError: If it is not one of 64 bits, or missing without a default.
    """
    text = parameters.get(name)
    if text is None or not text:
        if default is None:
            raise UsageError(f"{name} is missing")
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
        raise UsageError(f"{name} is {text[:40]!r}: it is an integer")
    if abs(int(text)) > MAX_NS:
        raise UsageError(f"{name} is {text}: it is beyond 64 bits")
    return int(text)


def optional(parameters: Mapping[str, str], name: str) -> int | None:
    """Return an integer that a page sent, or None.

    Raises:
        UsageError: If it is not one of 64 bits.
    """
    return whole(parameters, name) if parameters.get(name) else None


def lanes_of(parameters: Mapping[str, str], tree: LaneTree) -> list[int] | None:
    """Return the lanes that a page names; None if it names none.

    Raises:
        LookupError: If there is no such lane.
    """
    text = parameters.get("lanes")
    if not text:
        return None
    lanes = [whole({"lanes": each}, "lanes") for each in text.split(",")]
    for lane in lanes:
        if not 0 <= lane < len(tree.lanes):
            raise LookupError(f"there is no lane {lane}")
    return lanes


def part_of(parameters: Mapping[str, str], tree: LaneTree) -> range:
    """Return the lanes in a part of a large group that a page names.

    Raises:
        LookupError: If it is none.
    """
    group = whole(parameters, "within")
    if group not in tree.parts:
        raise LookupError(f"lane {group} is not a part of a large group")
    return tree.parts[group]


def limit(parameters: Mapping[str, str], default: int, name: str = "limit") -> int:
    """Return how many a page asks for at most.

    Raises:
        UsageError: If it is not an integer.
    """
    return max(0, min(whole(parameters, name, default), _MOST_LIMIT))


def range_of(parameters: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the range that a page asks about; None where it has no end.

    Raises:
        UsageError: If it is empty.
    """
    start_ns, end_ns = optional(parameters, "from"), optional(parameters, "to")
    if start_ns is not None and end_ns is not None and end_ns <= start_ns:
        raise UsageError("the range is empty: from must be before to")
    return start_ns, end_ns
