"""Requests and tasks that took much longer than others of the same kind.

Requests are entities of a recording, and their kind is their method and route. In older recordings,
a request is what states with the same `request` in their tags belong to, and its kind is its method
and path, of which numbers are left out. Any other task is compared with the tasks that were created
at the same place. How long one took is from its first state to the end of its last one; what is
much longer is decided by `outliers.Usual`, and is at least `_LEAST_NS`, which is how long a step of
another may take. What the loop's thread waited for a processor meanwhile does not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.attributes import ROOT
from meantime.model.columns import distinct, first_rows, named
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.outliers import FEWEST, Usual
from meantime.query.findings.threads import LATE, is_on
from meantime.query.ranges import ranges_of
from meantime.query.sentences import FILE, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int64s
    from meantime.query.scope import Scope, StateRows

__all__ = ["slow_activities"]

_MOST_RANGES = 100
_LEAST_NS = 10**7
_NUMBERS = r"(?<=/)(?:\d+|[0-9a-f]{8}-[0-9a-f-]{27})(?=/|$)"


class _Activities(NamedTuple):
    """Requests or tasks: by number its kind, and when it was."""

    kinds: list[str]
    kind: Int64s
    start_ns: Int64s
    end_ns: Int64s
    quark: Int64s
    noun: str


def slow_activities(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each kind of request or task of which some took much longer."""
    kind = scope.kind("Task")
    rows = None if kind is None else scope.rows(kind)
    if rows is None or not len(rows.quark):
        return
    served = scope.kind("Request")
    entities = None if served is None else scope.rows(served)
    requests, rest = _requests(scope, rows)
    tasks = _tasks(scope, rows, rest)
    if entities is not None and len(entities.quark):
        order = np.arange(len(entities.quark))
        requests = _entities(scope, entities, order, "request")
        tasks = None if tasks is None else _without(tasks, requests)
    for found, states in ((requests, rows if entities is None else entities), (tasks, rows)):
        if found is None:
            continue
        duration_ns = found.end_ns - found.start_ns
        for code, name in enumerate(found.kinds):
            of_kind = np.flatnonzero(found.kind == code)
            if len(of_kind) < FEWEST:
                continue
            usual = Usual.of(duration_ns[of_kind])
            least_ns = max(usual.limit_ns(), usual.median_ns + _LEAST_NS)
            late = of_kind[duration_ns[of_kind] > least_ns]
            late = _by_themselves(scope, found, late, least_ns)
            lost_ns = int(duration_ns[late].sum()) - usual.median_ns * len(late)
            if len(late) and lost_ns >= scope.least_ns:
                late = late[np.argsort(-duration_ns[late], kind="stable")]
                yield _finding(scope, states, found, name, late, usual, lost_ns)


def _by_themselves(scope: Scope, found: _Activities, late: Int64s, least_ns: float) -> Int64s:
    """Return those that took at least so long without what their loops waited for a processor.

    Of many, only the longest are looked at.
    """
    loops = scope.kind("Loop")
    if loops is None:
        return late
    duration_ns = found.end_ns - found.start_ns
    late = late[np.argsort(-duration_ns[late], kind="stable")]
    kept = np.ones(len(late), np.bool_)
    for index, row in enumerate(late[:_MOST_RANGES].tolist()):
        quark, range_ns = int(found.quark[row]), (int(found.start_ns[row]), int(found.end_ns[row]))
        own = [loop for loop in loops.quarks.tolist() if is_on(scope, quark, loop)]
        shares = scope.history.shares(own, *range_ns) if own else None
        if shares is None:
            continue
        states = named(shares.value)
        is_late = np.array([*(name in LATE for name in states.names), False], np.bool_)
        is_late = is_late[states.codes]
        most_ns = max(int(shares.ns[is_late & (shares.quark == loop)].sum()) for loop in own)
        kept[index] = duration_ns[row] - most_ns > least_ns
    return late[kept]


def _requests(scope: Scope, rows: StateRows) -> tuple[_Activities | None, Int64s]:
    """Return the requests, and the rows that belong to none."""
    tags = scope.history.tags
    known: dict[tuple[str, str], int] = {}
    kinds: dict[str, int] = {}
    kind_of: list[int] = []
    number = np.full(len(tags) + 1, -1, np.int64)
    for tag in distinct(rows.tag[rows.tag >= 0]).tolist():
        fields = tags[tag]
        if "request" not in fields or "path" not in fields:
            continue
        path = re.sub(_NUMBERS, "*", str(fields["path"]))
        key = str(fields["request"]), str(fields["path"])
        if key not in known:
            known[key] = len(known)
            name = f"{fields.get('method', '')} {path}".strip()
            kind_of.append(kinds.setdefault(name, len(kinds)))
        number[tag] = known[key]
    activity = number[rows.tag]
    rest = np.flatnonzero(activity < 0)
    if not known:
        return None, rest
    found = np.flatnonzero(activity >= 0)
    order = found[np.argsort(activity[found], kind="stable")]
    return _activities(
        rows, order, activity[order], list(kinds), np.array(kind_of), "request"
    ), rest


def _tasks(scope: Scope, rows: StateRows, rest: Int64s) -> _Activities | None:
    """Return the tasks none of whose states belong to requests."""
    in_requests = np.ones(len(rows.quark), np.bool_)
    in_requests[rest] = False
    order = rest[~np.isin(rows.quark[rest], distinct(rows.quark[in_requests]))]
    return _entities(scope, rows, order, "task") if len(order) else None


def _without(tasks: _Activities, requests: _Activities) -> _Activities:
    """Return the tasks but those that did nothing but serve one of these requests."""
    ends = set(zip(requests.start_ns.tolist(), requests.end_ns.tolist(), strict=True))
    extents = zip(tasks.start_ns.tolist(), tasks.end_ns.tolist(), strict=True)
    kept = np.array([extent not in ends for extent in extents], np.bool_)
    return tasks._replace(
        kind=tasks.kind[kept],
        start_ns=tasks.start_ns[kept],
        end_ns=tasks.end_ns[kept],
        quark=tasks.quark[kept],
    )


def _entities(scope: Scope, rows: StateRows, order: Int64s, noun: str) -> _Activities:
    """Return entities as activities, of the kinds that their paths name; some name none."""
    quarks, activity = np.unique(rows.quark[order], return_inverse=True)
    sites = scope.sites(quarks)
    is_named = scope.history.attributes.parents(quarks) != ROOT
    kind = np.where(is_named, sites.codes, -1).astype(np.int64)
    by_quark = np.argsort(activity, kind="stable")
    return _activities(rows, order[by_quark], activity[by_quark], list(sites.names), kind, noun)


def _activities(  # noqa: PLR0917 - columns
    rows: StateRows, order: Int64s, activity: Int64s, kinds: list[str], kind: Int64s, noun: str
) -> _Activities:
    """Return the extent of each activity, given its rows, which are adjacent."""
    first = np.flatnonzero(np.diff(activity, prepend=-1))
    start_ns = np.minimum.reduceat(rows.start_ns[order], first)
    end_ns = np.maximum.reduceat(rows.end_ns[order], first)
    return _Activities(
        kinds, kind, start_ns, end_ns, rows.quark[order][first].astype(np.int64), noun
    )


def _finding(  # noqa: PLR0917 - what is known of the activities of a kind
    scope: Scope,
    rows: StateRows,
    found: _Activities,
    name: str,
    late: Int64s,
    usual: Usual,
    lost_ns: int,
) -> Finding:
    first = int(late[0])
    worst = int(found.start_ns[first]), int(found.end_ns[first])
    state, ns, tag = _most(rows, int(found.quark[first]), worst)
    place = scope.place(tag)
    what = name if found.noun == "request" else f"a task of {name}"
    if place and state.startswith("waiting"):
        state += f" at {place}"
    text = (
        f"{what} took {rounded_ns(worst[1] - worst[0])}, {rounded_ns(ns)} of it {state};"
        f" usually {rounded_ns(usual.median_ns)}"
    )
    if len(late) > 1:
        text += f"; {times(len(late))} of {usual.count:,} much longer than usual"
    else:
        text += f" ({usual.count:,} {found.noun}s)"
    shown = late[:_MOST_RANGES]
    return Finding(
        "slow",
        text,
        lost_ns,
        ranges_of(found.start_ns[shown], found.end_ns[shown]),
        len(late),
        tuple(scope.path(quark) for quark in dict.fromkeys(found.quark[shown].tolist())),
        arguments=("statemap", FILE, *scope.options(worst), "-o", f"{found.noun}.svg"),
    )


def _most(rows: StateRows, quark: int, range_ns: tuple[int, int]) -> tuple[str, int, int]:
    """Return the state that an entity was in for most of a range, how long, and its longest tag."""
    own = np.arange(*first_rows(rows.quark, [quark, quark + 1]).tolist())
    ns = np.minimum(rows.end_ns[own], range_ns[1]) - np.maximum(rows.start_ns[own], range_ns[0])
    total = np.bincount(rows.state[own], np.maximum(ns, 0), minlength=len(rows.names))
    most = int(np.argmax(total))
    of_state = np.flatnonzero(rows.state[own] == most)
    longest = own[of_state[np.argmax(ns[of_state])]]
    return rows.names[most], int(total[most]), int(rows.tag[longest])
