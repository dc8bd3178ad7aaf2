"""From older versions of the format to this one, a step at a time, while a history is read.

Nothing on the disk is changed. A new version of the format needs one function here: it takes a
record (a line of the manifest, or the text of a log's block) of the version before and returns what
the record is in the new one. The layout of a segment is in its own header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from meantime.history.directory.manifest import items_in
from meantime.history.directory.packed import (
    pack_ascending,
    pack_bytes,
    pack_numbers,
)
from meantime.model.attributes import unicode_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_First = TypeVar("_First")
_Second = TypeVar("_Second")

__all__ = ["UPGRADERS", "missing_step", "upgraded"]

Record: TypeAlias = dict[str, Any]


def _into_columns(record: Record) -> Record:
    """From version 1, in which attributes and their types are lists of JSON.

    Raises:
        ValueError: If the record is malformed.
    """
    upgraded = dict(record)
    if "attributes" in record:
        parents, names = _pair(record, "attributes", int, str)
        texts = [unicode_of(name).encode() for name in names]
        upgraded["attributes"] = {
            "count": len(texts),
            "parents": pack_numbers(_shifted(parents)),
            "codes": pack_numbers(np.zeros(len(texts), np.uint64)),
            "different": len(texts),
            "sizes": pack_numbers(np.array(list(map(len, texts)), np.uint64)),
            "names": pack_bytes(b"".join(texts)),
        }
    if "kinds" in record:
        quarks, kinds = _pair(record, "kinds", int, int)
        if kinds and not (0 <= min(kinds) <= max(kinds) < 256):
            raise ValueError("a type is unknown")
        upgraded["kinds"] = {
            "count": len(quarks),
            "quarks": pack_ascending(np.array(quarks, np.int32)),
            "kinds": pack_bytes(bytes(kinds)),
        }
    return upgraded


def _shifted(parents: list[int]) -> npt.NDArray[np.uint64]:
    if parents and not -1 <= min(parents) <= max(parents) < 2**31:
        raise ValueError("an attribute comes before its parent")
    return np.array(parents, np.int64).view(np.uint64) + np.uint64(2)


def _pair(
    record: Record, name: str, first: type[_First], second: type[_Second]
) -> tuple[list[_First], list[_Second]]:
    """Return two lists of the same length from a record."""
    pair = items_in(record, name, list)
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise ValueError(f"{name} are not two lists of one length")
    return items_in({name: pair[0]}, name, first), items_in({name: pair[1]}, name, second)


def _unchanged(record: Record) -> Record:
    """From version 2, whose records have the same meaning; logs of it have no events."""
    return record


# By version, what makes a record of it one of the next version.
UPGRADERS: dict[int, Callable[[Record], Record]] = {1: _into_columns, 2: _unchanged}


def missing_step(version: int, current: int) -> int | None:
    """Return the first version on the way that nothing upgrades; None if there is none."""
    return next((step for step in range(version, current) if step not in UPGRADERS), None)


def upgraded(record: Record, version: int, current: int) -> Record:
    """Return a record of an older version as it is now."""
    for step in range(version, current):
        record = UPGRADERS[step](record)
    return record
