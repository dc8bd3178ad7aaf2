"""Why a thread took its time: its critical path over a range, for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import UsageError
from meantime.model.attribute_paths import STATUS, THREADS
from meantime.query.critical_path import critical_path

if TYPE_CHECKING:
    from meantime.server.lanes import LaneTree

__all__ = ["why"]

_MOST_SHARES = 1_000
_MOST_PARTS = 2_000


def why(
    tree: LaneTree, lane: int | None, thread: str, start_ns: int | None, end_ns: int | None
) -> dict[str, Any]:
    """Return the critical path of a thread: what `meantime why --json` prints, in columns.

    Args:
        tree: The lanes of the history.
        lane: A lane of the thread: its states, or its calls.
        thread: Without a lane, its id or name, as `meantime why --thread` takes it.
        start_ns: Where the range begins; None is where the thread's states do.
        end_ns: Where it ends.

    Raises:
        UsageError: If the lane is not one of a thread, or neither lane nor thread is given.
        MeantimeError: As `critical_path`.
    """
    if lane is None and not thread:
        raise UsageError("a lane or a thread is missing")
    asked = thread if lane is None else _status_of(tree, lane)
    path = critical_path(tree.history, asked, start=start_ns, end=end_ns)
    quarks = [*path.titles]
    index = {quark: number for number, quark in enumerate(quarks)}
    places = tree.places(np.array(quarks, np.int32))
    shares = path.shares()
    parts = np.sort(path.longest(_MOST_PARTS))
    return {
        "thread": index[path.quark],
        "range_ns": list(path.range_ns),
        "threads": [
            {
                "title": title,
                "tid": tree.history.attributes.path(quark)[-2],
                "lane": places[quark][0] if quark in places else None,
            }
            for quark, title in path.titles.items()
        ],
        "shares": [
            {
                "thread": index[row.quark],
                "state": row.state,
                "because": row.because,
                "parts": row.parts,
                "total_ns": row.total_ns,
                "share": row.share,
                "max_ns": row.max_ns,
            }
            for row in shares[:_MOST_SHARES]
        ],
        "rest": max(0, len(shares) - _MOST_SHARES),
        "path": {
            "start_ns": path.start_ns[parts].tolist(),
            "end_ns": path.end_ns[parts].tolist(),
            "thread": [index[quark] for quark in path.thread[parts].tolist()],
            "states": path.state.names,
            "state": path.state.codes[parts].tolist(),
            "reasons": path.because.names,
            "because": path.because.codes[parts].tolist(),
        },
        "parts": len(path),
    }


def _status_of(tree: LaneTree, lane: int) -> int:
    """Return the attribute that has the states of a lane's thread.

    Raises:
        LookupError: If there is no such lane.
        UsageError: If it is not one of a thread with states.
    """
    if not 0 <= lane < len(tree.lanes):
        raise LookupError(f"there is no lane {lane}")
    quark = tree.lanes[lane].quark
    path = tree.history.attributes.path(quark) if quark >= 0 else ()
    if THREADS in path[:-1]:
        thread = path[: path.index(THREADS) + 2]
        found = tree.history.find(*thread, STATUS)
        if found is not None:
            return found
    raise UsageError("this lane is not one of a thread with states")
