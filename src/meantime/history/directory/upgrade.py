"""From older versions of the format to this one, a step at a time, while a history is read.

Nothing on the disk is changed. A new version of the format needs one function here: it takes a
record (a line of the manifest, or the text of a log's block) of the version before and returns what
the record is in the new one. The layout of a segment is in its own header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UPGRADERS", "missing_step", "upgraded"]

Record: TypeAlias = dict[str, Any]

# By version, what makes a record of it one of the next version.
UPGRADERS: dict[int, Callable[[Record], Record]] = {}


def missing_step(version: int, current: int) -> int | None:
    """Return the first version on the way that nothing upgrades; None if there is none."""
    return next((step for step in range(version, current) if step not in UPGRADERS), None)


def upgraded(record: Record, version: int, current: int) -> Record:
    """Return a record of an older version as it is now."""
    for step in range(version, current):
        record = UPGRADERS[step](record)
    return record
