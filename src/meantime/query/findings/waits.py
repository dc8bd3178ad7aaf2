"""States that lasted much longer than usual.

Which states lose time follows from their names: a state of being idle, asleep or switched off is as
long as there is nothing to do, and running is work. The tasks, requests and loops of a recording
are left to `blocks`, `activities` and `queues`, which know more about them. How long its threads
wait for locks, files, sockets and processes says nothing: so do those that have nothing to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.model.units import rounded_ns
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.roles import Roles
from meantime.query.findings.finding import Finding
from meantime.query.findings.outliers import FEWEST, Usual
from meantime.query.findings.threads import Threads, thread_name
from meantime.query.ranges import ranges_of
from meantime.query.scope import chosen, joined
from meantime.query.sentences import FILE, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.scope import Kind, Scope, StateRows

__all__ = ["long_states"]

_MOST_RANGES = 100
_RECORDED = {"Task", "Loop", "Request"}
_LANES_OF_THREADS = {"Threads", "Workers"}
_OF_THREADS = {"Thread", "Worker"}, {"lock-wait", "io-wait", "child-wait", "gil-handoff"}
_GIL_WAIT = "gil-wait"
_ROLES = Roles({})
_LATE = ("runnable", _GIL_WAIT, "lock-wait", "collector-stall")
# Of how many entities the own durations are compared.
_MOST_ENTITIES = 500
# How many entities, and about how many of their states, show what is usual where there are many.
_MOST_SAMPLED, _SAMPLED_ROWS = 2**14, 2**16
# From how many sampled states on quantiles stand for all of them.
_FEWEST_SAMPLED = 200


def long_states(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each state with outliers: by `outliers.Usual` of its durations."""
    for kind in scope.kinds:
        if kind.entity_kind in _RECORDED:
            continue
        rows = scope.rows(kind)
        if rows is not None:
            merged = rows.merged()
            for code, name in enumerate(rows.names):
                if _is_wait(kind, name):
                    yield from _outliers(scope, kind, merged, code)
        else:
            yield from _of_many(scope, kind)


def _is_wait(kind: Kind, name: str) -> bool:
    if kind.entity_kind in _OF_THREADS[0] and name in _OF_THREADS[1]:
        return False
    if name in _LATE:
        return True
    kind_of_time, label = _ROLES.meaning(name)
    return kind_of_time in {TimeClass.READY, TimeClass.WAIT} and label != "sleep"


def _outliers(scope: Scope, kind: Kind, rows: StateRows, code: int) -> Iterator[Finding]:
    of_state = np.flatnonzero(rows.state == code)
    if not len(of_state):
        return
    duration_ns = rows.duration_ns[of_state]
    usual = Usual.of(duration_ns)
    late = of_state[duration_ns > usual.limit_ns()]
    late = late[_unlike_in_entity(rows, of_state, late)]
    if rows.names[code] == _GIL_WAIT:
        late = _kept_waiting(scope, rows, late)
    if len(late):
        yield from _finding(scope, kind, rows, late, usual, len(of_state))


def _kept_waiting(scope: Scope, rows: StateRows, late: Int64s) -> Int64s:
    """Return the waits for the GIL in which another thread ran, not only waited for a processor.

    Of many, only the longest are looked at.
    """
    threads = Threads(scope)
    late = late[np.argsort(-rows.duration_ns[late], kind="stable")]
    kept = np.ones(len(late), np.bool_)
    for index, row in enumerate(late[:_MOST_RANGES].tolist()):
        range_ns = int(rows.start_ns[row]), int(rows.end_ns[row])
        ran = threads.when_others_ran(int(rows.quark[row]), range_ns)
        kept[index] = 2 * sum(end - start for start, end in ran) > range_ns[1] - range_ns[0]
    return late[kept]


def _unlike_in_entity(rows: StateRows, of_state: Int64s, late: Int64s) -> npt.NDArray[np.bool_]:
    """Return which outliers are outliers of their own entity too, if it was often in the state.

    Entities may differ, so that the durations of all together are not log-normal.
    """
    unlike = np.ones(len(late), np.bool_)
    duration_ns = rows.duration_ns
    for quark in distinct(rows.quark[late])[:_MOST_ENTITIES].tolist():
        own = of_state[rows.quark[of_state] == quark]
        if len(own) >= FEWEST:
            of_quark = rows.quark[late] == quark
            unlike[of_quark] = duration_ns[late[of_quark]] > Usual.of(duration_ns[own]).limit_ns()
    return unlike


def _of_many(scope: Scope, kind: Kind) -> Iterator[Finding]:
    """Find outliers among more states than are looked at: those that fill bins of a tile.

    What is usual is taken from a few short ranges, evenly distributed.
    """
    sample = _sample(scope, kind)
    if sample is None:
        return
    for code, name in enumerate(sample.names):
        of_state = sample.duration_ns[sample.state == code]
        if not _is_wait(kind, name) or not len(of_state):
            continue
        usual = Usual.of(of_state)
        # the number of all is not known, but far below this
        least_ns = usual.limit_ns(among=10**9)
        if len(of_state) < _FEWEST_SAMPLED or least_ns > scope.length_ns:
            continue
        found = scope.long_rows(kind, int(least_ns))
        if found is None:
            return
        rows, _ = found
        codes = rows.codes({name})
        late = np.flatnonzero(np.isin(rows.state, codes) & (rows.duration_ns > least_ns))
        if len(late):
            yield from _finding(scope, kind, rows, late, usual, None)


def _sample(scope: Scope, kind: Kind) -> StateRows | None:
    """Return states of evenly distributed entities that begin and end in one of sixteen ranges."""
    quarks = kind.quarks[:: -(-len(kind.quarks) // _MOST_SAMPLED)]
    changes = scope.changes(kind) * len(quarks) // len(kind.quarks)
    width_ns = int(scope.length_ns * min(1.0, _SAMPLED_ROWS / max(1, changes)) / 16)
    if not width_ns:
        return None
    parts = []
    for index in range(16):
        start_ns = scope.start_ns + scope.length_ns * (2 * index + 1) // 32
        rows = scope.between(quarks, (start_ns, start_ns + width_ns)).merged()
        inside = (rows.start_ns > start_ns) & (rows.end_ns < start_ns + width_ns)
        parts.append(chosen(rows, inside))
    return joined(parts)


def _finding(  # noqa: PLR0917 - what is known of the durations of a state
    scope: Scope, kind: Kind, rows: StateRows, late: Int64s, usual: Usual, count: int | None
) -> Iterator[Finding]:
    duration_ns = rows.duration_ns[late]
    lost_ns = int(duration_ns.sum()) - usual.median_ns * len(late)
    if lost_ns < scope.least_ns:
        return
    late = late[np.argsort(-duration_ns, kind="stable")]
    first = int(late[0])
    state = rows.names[int(rows.state[first])]
    quark = int(rows.quark[first])
    worst = int(rows.start_ns[first]), int(rows.end_ns[first])
    path = scope.history.attributes.path(quark)
    is_recorded = path[0] in _LANES_OF_THREADS and " " in path[-1]
    name = thread_name(scope, quark) if is_recorded else scope.called(quark, kind)
    text = (
        f"{name} was in state {state!r} for {rounded_ns(worst[1] - worst[0])};"
        f" usually {rounded_ns(usual.median_ns)}"
    )
    if len(late) > 1:
        text += f"; {times(len(late))}{f' of {count:,}' if count else ''} much longer than usual"
    elif count:
        text += f" ({count:,} times)"
    shown = late[:_MOST_RANGES]
    quarks = dict.fromkeys(rows.quark[shown].tolist())
    yield Finding(
        "wait",
        text,
        lost_ns,
        ranges_of(rows.start_ns[shown], rows.end_ns[shown]),
        len(late),
        tuple(scope.path(each) for each in quarks),
        arguments=("statemap", FILE, *scope.options(worst), "-o", "wait.svg"),
    )
