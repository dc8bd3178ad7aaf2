"""How long lanes of spans were idle: no span is open, between the first and the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.host_parts import host_parts
from meantime.model.attribute_paths import host_and_path
from meantime.model.columns import distinct
from meantime.query.lifetimes import has_state, intervals_between, lifetimes

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history.history import History
    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s, Int64s

__all__ = ["IDLE", "idle_ns"]

IDLE = "idle"


def idle_ns(
    history: History, quarks: Int32s, edges_ns: Int64s, key: Callable[[Path], str]
) -> dict[str, Int64s]:
    """Return how long lanes of spans were idle, by group, as int64 by bin.

    A lane is idle while none of its spans is open, between the begin of its first and the end of
    its last one, which may be outside the bins. Where events were lost it is not known to be idle.

    >>> from meantime.testing import history_from_spans
    >>> history = history_from_spans({"t": [("a", 2, 4), ("b", 5, 6), ("a", 9, 10)]})
    >>> outermost = history.quarks("Processes/1/Threads/t/Stack/0")
    >>> idle = idle_ns(history, outermost, np.array([-5, 5, 8, 20]), lambda path: path[3])
    >>> idle["t"].tolist()
    [1, 2, 1]

    Args:
        history: The history.
        quarks: The attributes of the lanes' outermost spans.
        edges_ns: Bin i is [edges_ns[i], edges_ns[i + 1]); the bins may be outside the history.
        key: Returns the group of an attribute.
    """
    members: dict[str, dict[str, list[int]]] = {}
    for quark in sorted(quarks.tolist()):
        path = history.attributes.path(quark)
        members.setdefault(key(path), {}).setdefault(host_and_path(path)[0], []).append(quark)
    lost = {
        part.name: np.array(part.history.lost, np.int64).reshape(-1, 2) + part.offset_ns
        for part in host_parts(history)
    }
    whole = np.array(history.lost, np.int64).reshape(-1, 2)
    found = {}
    for group, hosts in members.items():
        found[group] = np.zeros(len(edges_ns) - 1, np.int64)
        for host, own in hosts.items():
            found[group] += _idle_ns(
                history, np.array(own, np.int32), edges_ns, lost.get(host, whole)
            )
    return found


def _idle_ns(history: History, quarks: Int32s, edges_ns: Int64s, lost: Int64s) -> Int64s:
    """Return how long ascending attributes were idle in each bin, outside of the lost ranges."""
    low, high = int(edges_ns[0]), int(edges_ns[-1])
    cuts = distinct(np.concatenate([edges_ns, np.clip(lost.ravel(), low, high)]))
    before = np.zeros(len(cuts), np.int64)
    lived = lifetimes(history, quarks).within(low, high)
    for batch in intervals_between(history, quarks, low, high):
        rows = np.flatnonzero(~has_state(batch))
        lane = np.searchsorted(quarks, batch.quark[rows])
        start_ns = np.maximum(batch.start_ns[rows], lived.start_ns[lane])
        end_ns = np.minimum(batch.end_ns[rows], lived.end_ns[lane])
        is_idle = start_ns < end_ns
        before += _until(start_ns[is_idle], cuts) - _until(end_ns[is_idle], cuts)
    is_lost = np.searchsorted(np.sort(lost[:, 0]), cuts[:-1], side="right") > np.searchsorted(
        np.sort(lost[:, 1]), cuts[:-1], side="right"
    )
    ns = np.zeros(len(edges_ns) - 1, np.int64)
    pieces = np.where(is_lost, 0, np.diff(before))
    np.add.at(ns, np.searchsorted(edges_ns, cuts[:-1], side="right") - 1, pieces)
    return ns


def _until(times_ns: Int64s, cuts: Int64s) -> Int64s:
    """Return the time from each of some times to a cut, if it is before the cut, in all, by cut.

    Sums may exceed 64 bits: they are modulo 2^64, and so are differences, which do not.
    """
    ordered = np.sort(times_ns) - cuts[0]
    sums = np.concatenate([[0], np.cumsum(ordered)])
    count = np.searchsorted(ordered, cuts - cuts[0])
    until: Int64s = count * (cuts - cuts[0]) - sums[count]
    return until
