"""The natural order of names: numbers in them sort as numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["natural_key", "natural_order"]

# White space as Unicode defines it; Python's own also includes the separators \x1c to \x1f.
_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Python refuses to read numbers of thousands of digits.
_LONG = 1_000
# How names begin that are not to be compared as numbers, unless they are 0.
_ZERO = ("0", "")
_PARTS = re.compile(f"0[0-9]*|[1-9][0-9]*|[{_SPACE}]+")


def natural_key(name: str) -> str:
    """Return a text that sorts as a name does in natural order.

    Case matters, white space does not. Runs of digits sort as numbers however long; one that begins
    with 0 sorts digit by digit, like the digits after a decimal point.

    >>> sorted(["t10", "t9", "t1", "t01", "t 2"], key=natural_key)
    ['t01', 't1', 't 2', 't9', 't10']
    """
    if name.isdecimal() and name.isascii() and name[0] != "0":
        return f"1{chr(len(name))}{name}"
    return _PARTS.sub(_part_key, name)


def _part_key(match: re.Match[str]) -> str:
    part = match[0]
    if part[0] == "0":
        return part + "\0"  # below any digit: a shorter number comes first
    if part[0] in "123456789":
        return f"1{chr(len(part))}{part}"  # longer is larger; the 1 sorts it among other characters
    return ""


def natural_order(names: Sequence[str]) -> list[int]:
    """Return the indices of names in natural order; equal names are ordered by characters."""
    if _are_numbers(names):
        numbers = list(map(int, names))
        return sorted(range(len(names)), key=numbers.__getitem__)
    keys = list(map(natural_key, names))
    return sorted(range(len(names)), key=lambda index: (keys[index], names[index]))


def _are_numbers(names: Sequence[str]) -> bool:
    """Return whether all names are numbers, without needless zeros in front."""
    # there may be a million: without a step of the interpreter for each
    text = "".join(names)
    if not (text.isdecimal() and text.isascii() and max(map(len, names)) < _LONG):
        return False
    return all(name == "0" for name in names if name[:1] in _ZERO)
