"""The requests of services, for a page: what each depended on, and the calls of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from meantime.model.durations import nearest_rank, values_at
from meantime.query.explain.comparison import FEWEST, compare_slow
from meantime.query.explain.service_paths import ServicePaths
from meantime.server.places import hit

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.model.columns import Int64s
    from meantime.query.explain.service_paths import Requests
    from meantime.server.lanes import LaneTree

__all__ = ["request", "requests"]

_MOST_REQUESTS = 1_000
_MOST_CALLS = 1_000
# As parents may form a circle, their chains are followed up to 2^this many steps.
_DOUBLINGS = 32


class _Found:
    """The requests of all kinds of a history, with columns of one entry for each."""

    def __init__(self, history: History) -> None:
        self.paths = ServicePaths(history, *history.bounds)
        self.calls = self.paths.calls
        self.kinds = [self.paths.requests(*kind) for kind in self.paths.kinds()]
        sizes = [len(kind.call) for kind in self.kinds]
        self.kind = np.repeat(np.arange(len(sizes)), sizes)
        # its place in its kind
        self.place = np.concatenate([np.empty(0, np.int64), *map(np.arange, sizes)])
        empty = np.empty(0, np.int32)
        self.call = np.concatenate([empty, *(kind.call for kind in self.kinds)])
        self.root = self._outermost()
        worst = [_most(kind) for kind in self.kinds]
        # what most of its time depended on, and how long
        self.critical = [name for names, _ in worst for name in names]
        self.critical_ns = [own_ns for _, times in worst for own_ns in times]
        services = max(1, len(self.calls.services))
        size = len(self.calls.rows)
        self.spans = np.bincount(self.root, minlength=size)
        self.failed = np.bincount(self.root[self.calls.failed], minlength=size)
        pairs = np.unique(self.root * services + self.calls.service)
        self.services = np.bincount(pairs // services, minlength=size)

    def _outermost(self) -> Int64s:
        """Return the outermost call above each call, also above one that nobody waits for."""
        above = np.where(
            self.calls.parent < 0, np.arange(len(self.calls.parent)), self.calls.parent
        )
        for _ in range(_DOUBLINGS):
            higher = above[above]
            if np.array_equal(higher, above):
                break
            above = higher
        return above


def _most(kind: Requests) -> tuple[list[str], list[int]]:
    """Return, by request, on which call most of its time depended, and for how long."""
    label = kind.meanings.label
    pair, place = np.unique(kind.activity * len(label.names) + label.codes, return_inverse=True)
    total_ns = np.zeros(len(pair), np.int64)
    np.add.at(total_ns, place, kind.part_ns)
    of = pair // len(label.names)
    # the last of each request has the most
    order = np.lexsort((total_ns, of))
    last = order[np.searchsorted(of[order], np.arange(len(kind.call)), side="right") - 1]
    codes = (pair[last] % len(label.names)).tolist()
    return [label.names[code] or "" for code in codes], total_ns[last].tolist()


# By history: the table is asked for once, the calls of a request with each click.
_KNOWN: WeakKeyDictionary[History, _Found] = WeakKeyDictionary()


def _found(history: History) -> _Found:
    found = _KNOWN.get(history)
    if found is None:
        found = _KNOWN[history] = _Found(history)
    return found


def requests(tree: LaneTree, start_ns: int | None, end_ns: int | None) -> dict[str, Any]:
    """Return the requests that are open in a range, the longest first, and their kinds.

    Durations are from begin to end, also outside of the range.

    Args:
        tree: The lanes.
        start_ns: Where the range begins; None is where the file does.
        end_ns: Where it ends.
    """
    found = _found(tree.history)
    spans = found.paths.spans
    rows = found.calls.rows[found.call]
    begin, end = spans.start_ns[rows], spans.end_ns[rows]
    low, high = tree.history.bounds
    is_open = (begin < (high if end_ns is None else end_ns)) & (
        end > (low if start_ns is None else start_ns)
    )
    chosen = np.flatnonzero(is_open)
    listed = chosen[np.argsort(begin[chosen] - end[chosen], kind="stable")][:_MOST_REQUESTS]
    hits = _hits(tree, found, found.call[listed])
    medians = [
        values_at(kind.duration_ns, [nearest_rank(len(kind.call), 50)])[0] for kind in found.kinds
    ]
    return {
        "count": len(chosen),
        "rest": len(chosen) - len(listed),
        "kinds": [
            {"name": kind.name, "count": len(kind.call), "median_ns": median}
            for kind, median in zip(found.kinds, medians, strict=True)
        ],
        "requests": [
            {
                **own,
                "of": int(found.kind[each]),
                "service": found.calls.services[int(found.calls.service[call])],
                "trace_id": found.calls.trace_ids[call],
                "critical": found.critical[each],
                "critical_ns": found.critical_ns[each],
                "spans": int(found.spans[call]),
                "services": int(found.services[call]),
                "failed": int(found.failed[call]),
            }
            for each, call, own in zip(
                listed.tolist(), found.call[listed].tolist(), hits, strict=True
            )
        ],
    }


def request(tree: LaneTree, span: int) -> dict[str, Any]:
    """Return the calls of the request that a span is of, outermost first, and its path.

    Raises:
        LookupError: If the span is of no request.
    """
    found = _found(tree.history)
    paths, calls = found.paths, found.calls
    (at,) = np.nonzero(paths.spans.rows[calls.rows] == span)
    root = int(found.root[at[0]]) if len(at) else -1
    (index,) = np.nonzero(found.call == root)
    if not len(index):
        raise LookupError(f"span {span} is of no request")
    one = int(index[0])
    kind, place = found.kinds[int(found.kind[one])], int(found.place[one])
    order, depth = _in_order(found, root)
    listed = order[:_MOST_CALLS]
    own_ns = np.zeros(len(calls.rows), np.int64)
    parts = np.flatnonzero(kind.activity == place)
    np.add.at(own_ns, kind.call_of_part[parts], kind.part_ns[parts])
    ends = int(paths.start_ns[root]) + np.cumsum(kind.part_ns[parts])
    number = {call: position for position, call in enumerate(listed)}
    return {
        "trace_id": calls.trace_ids[root],
        "name": kind.name,
        "sentence": _sentence(kind, place),
        "calls": [
            {
                **own,
                "depth": depth[call],
                "service": calls.services[int(calls.service[call])],
                "failed": bool(calls.failed[call]),
                "waits": bool(calls.is_leaving[call]),
                "own_ns": int(own_ns[call]),
            }
            for call, own in zip(listed, _hits(tree, found, np.array(listed)), strict=True)
        ],
        "rest": len(order) - len(listed),
        "path": {
            "start_ns": (ends - kind.part_ns[parts]).tolist(),
            "end_ns": ends.tolist(),
            "call": [number.get(call, -1) for call in kind.call_of_part[parts].tolist()],
        },
    }


def _in_order(found: _Found, root: int) -> tuple[list[int], dict[int, int]]:
    """Return the calls of a request, each before those in it, by their begins; and their depths."""
    start_ns = found.paths.spans.start_ns[found.calls.rows]
    inside: dict[int, list[int]] = {}
    members = np.flatnonzero(found.root == root)
    for call in members[np.argsort(-start_ns[members], kind="stable")].tolist():
        if call != root:
            inside.setdefault(int(found.calls.parent[call]), []).append(call)
    order: list[int] = []
    depth = {root: 0}
    waiting = [root]
    while waiting:
        call = waiting.pop()
        order.append(call)
        for below in inside.get(call, ()):
            depth[below] = depth[call] + 1
            waiting.append(below)
    return order, depth


def _hits(tree: LaneTree, found: _Found, calls: Int64s) -> list[dict[str, Any]]:
    """Return calls as hits, which say where they are drawn."""
    table, own = tree.spans, found.paths.spans
    rows = found.calls.rows[calls]
    numbers = own.rows[rows]
    if table is None or table.numbers is None:
        raise LookupError("the spans of services are in no lane")
    order = np.argsort(table.numbers, kind="stable")
    at = order[np.searchsorted(table.numbers, numbers, sorter=order)]
    return [
        hit(
            "span",
            *tree.place_of_span(table.table.thread_at(index), index),
            own.name[row],
            int(own.start_ns[row]),
            int(own.end_ns[row]),
            int(number),
        )
        for index, row, number in zip(at.tolist(), rows.tolist(), numbers.tolist(), strict=True)
    ]


def _sentence(kind: Requests, place: int) -> str | None:
    """Return what a slow request spent more time on than usual; None of one that is not slow."""
    if len(kind.call) < FEWEST:
        return None
    found = compare_slow(kind.duration_ns, kind.activity, kind.meanings, kind.part_ns)
    if found is None or place not in found.slow:
        return None
    return kind.more_than_usual(found, place)
