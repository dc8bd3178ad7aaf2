"""The paths of requests to services: on which calls their time depended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.activity_paths import walk_trees
from meantime.model.columns import Coded
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.lanes import Meanings, TimeClass
from meantime.query.services import service_calls

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.query.explain.comparison import Comparison
    from meantime.query.services import ServiceCalls

__all__ = ["AFTER", "BEFORE", "Requests", "ServicePaths"]

# What the time of a client's call outside of the server's is.
BEFORE, AFTER = " (connecting or queueing)", " (answer on its way)"


class Requests(NamedTuple):
    """The requests of a kind, and their paths.

    Attributes:
        name: What they ask for.
        call: int32, by request: its outermost call.
        duration_ns: int64.
        activity: int64, by part of their paths: the request.
        part_ns: int64, its length.
        call_of_part: int32, the call whose own time it is.
        meanings: Its class and label.
    """

    name: str
    call: Int32s
    duration_ns: Int64s
    activity: Int64s
    part_ns: Int64s
    call_of_part: Int32s
    meanings: Meanings

    def more_than_usual(self, found: Comparison, request: int) -> str:
        """Return what a request spent more time on than the usual ones do."""
        parts = self.activity == request
        budget = Budget.of(
            Meanings(
                self.meanings.kind[parts],
                Coded(self.meanings.label.codes[parts], self.meanings.label.names),
            ),
            self.part_ns[parts],
        )
        is_usual = np.zeros(len(self.call), np.bool_)
        is_usual[found.usual] = True
        chosen = is_usual[self.activity]
        usual = Budget.of(
            Meanings(
                self.meanings.kind[chosen],
                Coded(self.meanings.label.codes[chosen], self.meanings.label.names),
            ),
            self.part_ns[chosen],
        )
        usually = {row[:2]: row.total_ns / len(found.usual) for row in usual.rows}
        more = {row[:2]: row.total_ns - usually.get(row[:2], 0) for row in budget.rows}
        (kind, label), most_ns = max(more.items(), key=lambda each: each[1])
        verb = "in" if kind is TimeClass.WORK else "waiting for"
        return f"{rounded_ns(most_ns)} more {verb} {label}"


class ServicePaths:
    """The calls between services, clipped to those that they are in.

    Args:
        history: The history.
        start_ns: Where the range begins that calls are cut to.
        end_ns: Where it ends.
    """

    def __init__(self, history: History, start_ns: int, end_ns: int) -> None:
        self.calls: ServiceCalls = service_calls(history)
        self.spans = history.spans()
        rows = self.calls.rows
        self.start_ns = np.maximum(self.spans.start_ns[rows], start_ns)
        self.end_ns = np.minimum(self.spans.end_ns[rows], end_ns)
        self.end_ns = np.maximum(self.end_ns, self.start_ns)
        self.code = self.spans.name.codes[rows]
        self.parent = self.calls.parent.copy()
        self.cut_ns = 0
        self._clip()

    def operation(self, call: int) -> str:
        """Return what a call asks for."""
        code = int(self.code[call])
        return self.spans.name.names[code] if code >= 0 else ""

    def title(self, call: int) -> str:
        """Return the service and the operation of a call."""
        return f"{self.calls.services[int(self.calls.service[call])]} {self.operation(call)}"

    def _clip(self) -> None:
        """Cut each call to its parent, level by level, and leave out what no parent waits for."""
        parent = self.parent
        known = parent < 0
        level = np.flatnonzero(known)
        waiting = np.flatnonzero(~known)
        while len(level):
            is_next = known[parent[waiting]]
            level, waiting = waiting[is_next], waiting[~is_next]
            above = parent[level]
            outlives = self.end_ns[level] > self.end_ns[above]
            # nobody waits for a message unless its sender goes on after it
            apart = self.calls.is_message[level] & outlives
            parent[level[apart]] = -2
            level, above = level[~apart], above[~apart]
            start_ns = np.clip(self.start_ns[level], self.start_ns[above], self.end_ns[above])
            end_ns = np.clip(self.end_ns[level], start_ns, self.end_ns[above])
            self.cut_ns += int(
                (self.end_ns[level] - self.start_ns[level] - (end_ns - start_ns)).sum()
            )
            self.start_ns[level], self.end_ns[level] = start_ns, end_ns
            known[level] = True
        # calls that are in a circle of parents are on no path
        parent[waiting] = -2

    def kinds(self) -> list[tuple[str, Int32s]]:
        """Return the outermost calls by what they ask for, the most time first."""
        roots = np.flatnonzero((self.parent == -1) & (self.end_ns > self.start_ns))
        by_name: dict[str, list[int]] = {}
        for call in roots.tolist():
            by_name.setdefault(self.operation(call), []).append(call)
        found = [(name, np.array(calls, np.int32)) for name, calls in by_name.items()]
        length = self.end_ns - self.start_ns
        return sorted(found, key=lambda kind: (-int(length[kind[1]].sum()), kind[0]))

    def requests(self, name: str, roots: Int32s) -> Requests:
        """Return the paths of requests."""
        child = np.flatnonzero(self.parent >= 0)
        child = child[np.lexsort((self.end_ns[child], self.parent[child]))]
        first = np.searchsorted(self.parent[child], np.arange(len(self.parent) + 1))
        offsets, start_ns, call, _ = walk_trees(
            roots, self.start_ns, self.end_ns, first.astype(np.int64), child.astype(np.int32)
        )
        end_ns = np.append(start_ns[1:], 0)
        end_ns[offsets[1:] - 1] = self.end_ns[roots]
        return Requests(
            name,
            roots,
            self.end_ns[roots] - self.start_ns[roots],
            np.repeat(np.arange(len(roots)), np.diff(offsets)),
            end_ns - start_ns,
            call,
            self._meanings(call, start_ns, end_ns),
        )

    def _meanings(self, call: Int32s, start_ns: Int64s, end_ns: Int64s) -> Meanings:
        """Return what the own times of calls are: of a client's, before or after the server's."""
        calls = self.calls
        other = np.flatnonzero(
            calls.is_entering & (self.parent >= 0) & (calls.service != calls.service[self.parent])
        )
        serving = np.full(len(self.parent), -1, np.int64)
        serving[self.parent[other]] = other
        is_wait = calls.is_leaving[call]
        served = np.where(is_wait, serving[call], -1)
        is_before = (served >= 0) & (end_ns <= self.start_ns[served])
        is_after = (served >= 0) & (start_ns >= self.end_ns[served]) & ~is_before
        table: dict[str, int] = {}
        titles = {each: self.title(each) for each in np.unique(call).tolist()}
        labels = [
            titles[each] + (BEFORE if before else AFTER if after else "")
            for each, before, after in zip(
                call.tolist(), is_before.tolist(), is_after.tolist(), strict=True
            )
        ]
        codes = np.array([table.setdefault(label, len(table)) for label in labels], np.int32)
        kind = np.where(is_wait, TimeClass.WAIT, TimeClass.WORK).astype(np.int8)
        return Meanings(kind, Coded(codes, list(table)))
