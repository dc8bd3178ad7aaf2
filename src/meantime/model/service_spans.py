"""What spans of services have in common wherever they are read: their kinds and their parents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s

__all__ = [
    "ENTERING",
    "LEAVING",
    "MESSAGES",
    "NO_ID",
    "OWN_FIELDS",
    "SERVICE",
    "SpanId",
    "parents",
    "rows_by_id",
]

# The trace id and the span id.
SpanId: TypeAlias = "tuple[str, str]"

# What entities of this kind are called in the declarations of lanes.
SERVICE: Final = "Service"
NO_ID: Final = ""
# Kinds of spans that are requests to a service, and that are calls by one.
ENTERING: Final = ("server", "consumer")
LEAVING: Final = ("client", "producer")
# Kinds of spans of messages, for which nobody need wait.
MESSAGES: Final = ("producer", "consumer")
# The arguments of a span that are not attributes which the program gave it.
OWN_FIELDS: Final = frozenset({"trace_id", "span_id", "parent_id", "kind", "status"})
# Ids are repeated by the sides of a call, or by programs that are broken.
_MOST_OF_AN_ID = 4


def rows_by_id(ids: Sequence[SpanId]) -> dict[SpanId, list[int]]:
    """Return the first few rows that have each id.

    >>> rows_by_id([("a", "1"), ("a", "2"), ("a", "1")])
    {('a', '1'): [0, 2], ('a', '2'): [1]}
    """
    rows_of_id: dict[SpanId, list[int]] = {}
    for row, id_ in enumerate(ids):
        rows = rows_of_id.setdefault(id_, [])
        if len(rows) < _MOST_OF_AN_ID:
            rows.append(row)
    return rows_of_id


def parents(
    ids: Sequence[SpanId],
    parent_ids: Sequence[str],
    service: Sequence[int],
    rows_of_id: dict[SpanId, list[int]],
) -> tuple[Int64s, int]:
    """Return the row of each span's parent, -1 for none, and how many parents are in no row.

    Of several spans with the id, it is one of the same service, or else the first.

    >>> ids = [("a", "1"), ("a", "2"), ("b", "3")]
    >>> parents(ids, ["", "1", "1"], [0, 0, 0], rows_by_id(ids))
    (array([-1,  0, -1]), 1)
    """
    parent = np.full(len(ids), -1, np.int64)
    missing = 0
    for row, (parent_id, (trace_id, _)) in enumerate(zip(parent_ids, ids, strict=True)):
        if parent_id == NO_ID:
            continue
        candidates = [each for each in rows_of_id.get((trace_id, parent_id), ()) if each != row]
        if not candidates:
            missing += 1
            continue
        own = service[row]
        parent[row] = next((each for each in candidates if service[each] == own), candidates[0])
    return parent, missing
