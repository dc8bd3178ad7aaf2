"""The requests that a recording has as entities: which one a step of a task served."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import first_rows

if TYPE_CHECKING:
    from meantime.query.ranges import Range
    from meantime.query.scope import Scope

__all__ = ["Served", "request_of"]


# Where a request waits for a thread, that may be what runs the function.
_IN_THREAD = {"waiting:thread", "waiting:pool"}


class Served(NamedTuple):
    """A request: its method and route, and the function that answered it in the loop, if known."""

    name: str
    function: str


def request_of(scope: Scope, range_ns: Range) -> Served | None:
    """Return the request that a step served; None if it served none.

    Args:
        scope: The history.
        range_ns: The step, which a request has in common with the task that served it.
    """
    kind = scope.kind("Request")
    rows = None if kind is None else scope.rows(kind)
    if rows is None:
        return None
    same = np.flatnonzero((rows.start_ns <= range_ns[0]) & (rows.end_ns == range_ns[1]))
    found = same[np.isin(rows.state[same], rows.codes({"running"}))]
    if not len(found):
        return None
    quark = int(rows.quark[found[0]])
    name = scope.history.attributes.path(quark)[-2]
    own = slice(*first_rows(rows.quark, [quark, quark + 1]).tolist())
    if np.isin(rows.state[own], rows.codes(_IN_THREAD)).any():
        return Served(name, "")
    for tag in rows.tag[own].tolist():
        fields = scope.history.tags[tag] if tag >= 0 else {}
        if "status" in fields:
            place = f" ({fields['location']})" if "location" in fields else ""
            return Served(name, f"{fields.get('function', '')}{place}")
    return Served(name, "")
