"""Queues: for a lock or a semaphore, for a thread of a pool, and of an event loop for the GIL.

What these have in common is that the waiting ones could go on if something were free. So work waits
for a thread of a pool only while all are busy: otherwise it is the machine that lets none begin.
Two or more wait at once, and waiting takes at least `_SHARE` of the time of the tasks that wait, or
of the work from its submission to its end. The time lost is the sum of the waits, divided by how
many wait at most at once: the time for which the queue would have had its full length. How long the
program had nothing to do before and after does not matter: `_LEAST_LOST_NS` is always a finding.

Waits to put something into a queue count, too, since what takes it out is too slow. A wait to get
something, or for a condition, counts where tasks of the same kind bring it back, as connections of
a pool: most waits are ended by such a task, and fewer than half of the tasks are cancelled, as idle
workers are. An event counts if it holds up tasks of another kind, once each, that then go on.

Who ends a wait had what was waited for, since its own wait at that line ended: what it did then is
what the others waited for. A task that waits for a lock to the end, for much longer than others at
its line, never got it: who has that waits as well, or never gives it back.

A task that looks again and again whether it can go on, as `while not done: await sleep(0)` does,
keeps an event loop busy with steps in which nothing happens: `_MANY_STEPS` or more at one line,
each of less than `_TINY_STEP_NS` on average.

An event loop that waits for the GIL for a short time, whenever it has something to do, is blocked
by no single step. It is a finding if the waits are `_SHARE` of the time that they and the steps of
the loop take together. Of a wait, only the time counts in which another thread ran: otherwise the
machine is busy with other programs.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import distinct, first_rows
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.steps import WATCHED_NS
from meantime.query.findings.threads import Threads, last_running, states_within, thread_name
from meantime.query.processes import ProcessTree
from meantime.query.ranges import ranges_of, union
from meantime.query.scope import chosen
from meantime.query.sentences import FILE, counted, listed, percent, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.results import Flows
    from meantime.model.columns import Int64s
    from meantime.query.scope import Scope, StateRows

__all__ = [
    "busy_polling",
    "contention",
    "full_pools",
    "gil_contention",
    "stuck_tasks",
    "thread_gil",
    "thread_locks",
]

_MOST_RANGES = 100
_QUEUE, _CONDITION, _EVENT = "waiting:queue", "waiting:condition", "waiting:event"


class _Thing(NamedTuple):
    """What tasks wait for that others have.

    Attributes:
        name: What it is, as a phrase.
        having: What the others do with it that end the waits.
    """

    name: str
    having: str


_LOCKS = {
    "waiting:lock": _Thing("a lock", "had it"),
    "waiting:semaphore": _Thing("a semaphore", "had it"),
}
_ROOM = _Thing("room in a queue", "take items from it")
# These count if tasks of the kind that waits end the waits of each other.
_SHARED = {
    _QUEUE: _Thing("an item of a queue that others bring back", "had one"),
    _CONDITION: _Thing("a condition that others of them meet", "met it"),
}
_SET = _Thing("an event", "set it")
_READY = "runnable"
_MANY_STEPS, _TINY_STEP_NS = 1000, 50_000
_WAKE, _CANCELLED = "wake", "cancelled"
_WAITING, _ENDED_WELL = "waiting:", {"completed", "failed"}
# The functions in which a task waits until there is room, of asyncio and of trio.
_PUT = {"Queue.put", "MemorySendChannel.send"}
_SHARE, _FEWEST_WAITING = 0.2, 2
# An event that holds up so many tasks, once each, for so much of their time.
_FEWEST_HELD_UP, _HELD_UP = 5, 0.5
# Tasks wait again and again if they do so more often, on average.
_AGAIN = 3
# So many waits, the longest, say what the others did meanwhile.
_MOST_FOLLOWED = 200
# A wait that was in vain is at least so long, and so many times as long as others at its line.
_IN_VAIN_NS, _IN_VAIN = 5 * 10**8, 5
# This time lost, or a hundredth of a shorter range, is worth a finding.
_LEAST_LOST_NS = 10**8
# The flow of a recording from where work is submitted to a pool to where a thread begins it.
_SUBMIT = "submit"
# The states of a thread that has no work; in all others it is busy with some.
_FREE = {"idle", "stopped"}
# An idle thread takes less to begin.
_LEAST_WAIT_NS = 10**6
# The counters of a recording's pools, for work that no task submitted.
_COUNTERS, _QUEUED, _RUNNING = "Processes/*/Counters/*", "queued", "running"
_POOL = re.compile(r"(.*) \((\d{1,9}) threads\)")
_GIL_WAIT, _GIL_HANDOFF, _HELD_BY_GIL = "gil-wait", "gil-handoff", 0.3
_LOCK_WAIT = "lock-wait"
# No finding is made of more: a single value of a counter can be any number.
_MOST_ITEMS = 1 << 20


def contention(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each line at which tasks of a recording queue for what others have."""
    kind = scope.kind("Task")
    rows = None if kind is None else scope.rows(kind)
    if rows is None:
        return
    names = {*_LOCKS, *_SHARED, _EVENT}
    tags = scope.history.tags
    is_put = np.array([*(tag.get("in") in _PUT for tag in tags), False], np.bool_)
    places = np.array([*map(scope.place, range(len(tags))), ""], object)
    for code in rows.codes(names):
        of_state = np.flatnonzero(rows.state == code)
        known = places[rows.tag[of_state]]
        for place in dict.fromkeys(known.tolist()):
            waits = of_state[known == place]
            puts = bool(is_put[rows.tag[waits]].all())
            yield from _queue(scope, rows, waits, place, puts=puts)


def _queue(
    scope: Scope, rows: StateRows, waits: Int64s, place: str, *, puts: bool
) -> Iterator[Finding]:
    """Yield a finding if tasks queue at a line."""
    duration_ns = rows.duration_ns
    most = _most_at_once(rows.start_ns[waits], rows.end_ns[waits])
    whose = distinct(rows.quark[waits])
    total_ns = int(duration_ns[waits].sum())
    existed_ns = int(duration_ns[np.isin(rows.quark, whose)].sum())
    lost_ns = total_ns // max(1, most)
    if most < _FEWEST_WAITING or total_ns < _SHARE * existed_ns or lost_ns < _least_lost_ns(scope):
        return
    wakers = _wakers(scope, rows, waits)
    thing = _thing(scope, rows, waits, wakers, puts=puts)
    if thing is None or (thing is _SET and total_ns < _HELD_UP * existed_ns):
        return
    order = waits[np.argsort(-duration_ns[waits], kind="stable")]
    first = int(order[0])
    worst = int(rows.start_ns[first]), int(rows.end_ns[first])
    text = (
        f"{counted(len(whose), 'task')} waited for {thing.name}"
        f"{f' at {place}' if place else ''} {total_ns / existed_ns:.0%} of their time,"
        f" up to {most:,} at once; the longest wait took {rounded_ns(worst[1] - worst[0])}"
        f"{_meanwhile(scope, rows, waits, wakers, thing)}"
    )
    shown = order[:_MOST_RANGES]
    yield Finding(
        "contention",
        text,
        lost_ns,
        ranges_of(rows.start_ns[shown], rows.end_ns[shown]),
        len(waits),
        tuple(scope.path(quark) for quark in dict.fromkeys(rows.quark[shown].tolist())),
        arguments=("stats", FILE, "--by", "state", *scope.options()),
    )


def _thing(
    scope: Scope, rows: StateRows, waits: Int64s, wakers: Int64s, *, puts: bool
) -> _Thing | None:
    """Return what tasks wait for that others have; None if they wait for something to do."""
    name = rows.names[rows.state[waits[0]]]
    if name in _LOCKS:
        return _LOCKS[name]
    if name == _QUEUE and puts:
        return _ROOM
    whose = distinct(rows.quark[waits])
    known = np.flatnonzero(wakers >= 0)
    alike = sum(
        scope.site(waker) == scope.site(waiter)
        for waker, waiter in zip(
            wakers[known].tolist(), rows.quark[waits[known]].tolist(), strict=True
        )
    )
    if name == _EVENT:
        # workers wait for one again and again, and what ends with the program does not go on
        goes_on = np.count_nonzero(_waits_again(rows, waits))
        once = len(waits) <= len(whose) + len(whose) // _FEWEST_HELD_UP
        several = len(whose) >= _FEWEST_HELD_UP and 2 * (len(known) - alike) > len(waits)
        return _SET if once and several and 2 * goes_on > len(waits) else None
    cancelled = np.isin(rows.state, rows.codes({_CANCELLED})) & np.isin(rows.quark, whose)
    comes_back = 2 * alike > len(waits)
    comes_back &= 2 * len(distinct(rows.quark[cancelled])) < len(whose)
    if comes_back and len(waits) >= _AGAIN * len(whose):
        # the stages of a pipeline wait again and again, too, each for the one before it
        comes_back = not _is_pipeline(wakers[known], rows.quark[waits[known]].astype(np.int64))
    return _SHARED[name] if comes_back else None


def _is_pipeline(wakers: Int64s, woken: Int64s) -> bool:
    """Return whether each task is woken by one other, and none by itself in the end."""
    by = dict(zip(woken.tolist(), wakers.tolist(), strict=True))
    if len(set(zip(woken.tolist(), wakers.tolist(), strict=True))) > len(by):
        return False
    for task in by:
        at, seen = task, set[int]()
        while at in by and at not in seen:
            seen.add(at)
            at = by[at]
        if at in seen:
            return False
    return True


def _waits_again(rows: StateRows, waits: Int64s) -> npt.NDArray[np.bool_]:
    """Return whether the task of each wait waits again after it."""
    is_wait = np.array([name.startswith(_WAITING) for name in rows.names], np.bool_)[rows.state]
    last = np.full(int(rows.quark.max()) + 1, -1, np.int64)
    last[rows.quark[is_wait]] = np.flatnonzero(is_wait)
    again: npt.NDArray[np.bool_] = last[rows.quark[waits]] > waits
    return again


def _wakers(scope: Scope, rows: StateRows, waits: Int64s) -> Int64s:
    """Return the task that ended each wait, or -1."""
    whose = distinct(rows.quark[waits])
    flows = scope.history.flows(whose, start_ns=scope.start_ns, end_ns=scope.end_ns)
    codes = [code for code, name in enumerate(flows.name.names) if name == _WAKE]
    wakes = np.flatnonzero(np.isin(flows.name.codes, codes))
    # a task and a time as one number, to search for both
    times, rank = np.unique(
        np.concatenate([flows.to_ns[wakes], rows.end_ns[waits]]), return_inverse=True
    )
    quarks = np.concatenate([flows.to_quark[wakes], rows.quark[waits]]).astype(np.int64)
    keys = quarks * (len(times) + 1) + rank.reshape(-1)
    woken, wanted = keys[: len(wakes)], keys[len(wakes) :]
    order = np.argsort(woken, kind="stable")
    at = np.searchsorted(woken[order], wanted)
    found = np.append(woken[order], -1)[at] == wanted
    wakers = np.append(flows.from_quark[wakes][order], -1)[at].astype(np.int64)
    return np.where(found, wakers, -1)


def _meanwhile(scope: Scope, rows: StateRows, waits: Int64s, wakers: Int64s, thing: _Thing) -> str:
    """Return what those that ended the longest waits did before, as the end of a sentence.

    Who waited at that line as well, has what was waited for since then.
    """
    known = np.flatnonzero(wakers >= 0)
    longest = known[np.argsort(-rows.duration_ns[waits[known]], kind="stable")][:_MOST_FOLLOWED]
    did: Counter[tuple[str, str, str]] = Counter()
    own_waits = np.zeros(len(rows.quark), np.bool_)
    own_waits[waits] = True
    for at in longest.tolist():
        waker, end_ns = int(wakers[at]), int(rows.end_ns[waits[at]])
        low, high = first_rows(rows.quark, [waker, waker + 1]).tolist()
        high = low + int(np.searchsorted(rows.start_ns[low:high], end_ns))
        begin_ns = int(rows.start_ns[waits[at]])
        for row in range(high - 1, low - 1, -1):
            if own_waits[row] or rows.end_ns[row] <= begin_ns:
                break
            part_ns = min(int(rows.end_ns[row]), end_ns) - max(int(rows.start_ns[row]), begin_ns)
            name = rows.names[rows.state[row]]
            place = scope.place(int(rows.tag[row])) if name.startswith(_WAITING) else ""
            did[scope.site(waker), name, place] += part_ns
    if not did:
        return ""
    (site, name, place), ns = did.most_common(1)[0]
    share = ns / did.total()
    if share < _HELD_UP:
        return ""
    return (
        f"; tasks of {site}, which {thing.having}, were in {name}{f' at {place}' if place else ''}"
        f" for {percent(share)} of that time"
    )


def stuck_tasks(scope: Scope) -> Iterator[Finding]:
    """Yield a finding if tasks waited for locks that they never got."""
    kind = scope.kind("Task")
    rows = None if kind is None else scope.rows(kind)
    if rows is None or not len(rows.quark):
        return
    lasts = np.flatnonzero(np.diff(rows.quark, append=-1))
    ended = np.isin(rows.state[lasts], rows.codes({*_ENDED_WELL}))
    is_wait = np.array([name.startswith(_WAITING) for name in rows.names], np.bool_)[rows.state]
    last_wait = np.maximum.accumulate(np.where(is_wait, np.arange(len(is_wait)), -1))[lasts]
    last_wait = last_wait[(last_wait >= 0) & ~ended]
    is_lock = np.isin(rows.state, rows.codes({*_LOCKS}))
    # a wait of another task, where this one never waited
    kept = [row for row in last_wait.tolist() if is_lock[row]]
    places = {tag: scope.place(tag) for tag in distinct(rows.tag[is_lock]).tolist()}
    others = is_lock.copy()
    others[kept] = False
    usual_ns: Counter[str] = Counter()
    for tag, place in places.items():
        at = rows.duration_ns[others & (rows.tag == tag)]
        usual_ns[place] = max(usual_ns[place], int(at.max(initial=0)))
    stuck = [
        row
        for row in kept
        if rows.duration_ns[row]
        >= max(_IN_VAIN_NS, _IN_VAIN * usual_ns[places[int(rows.tag[row])]])
    ]
    if not stuck:
        return
    stuck.sort(key=lambda row: -int(rows.duration_ns[row]))
    where = dict.fromkeys(
        f"{scope.site(int(rows.quark[row]))} at {places[int(rows.tag[row])]}" for row in stuck
    )
    each = "; each may have what the other waits for" if len(where) == _FEWEST_WAITING else ""
    locks = "a lock that it" if len(stuck) == 1 else "locks that they"
    yield Finding(
        "contention",
        f"{counted(len(stuck), 'task')} waited to the end for {locks} never got:"
        f" {listed(where, most=4)}, for {rounded_ns(int(rows.duration_ns[stuck[0]]))}{each}",
        int(rows.duration_ns[stuck[0]]),
        tuple((int(rows.start_ns[row]), int(rows.end_ns[row])) for row in stuck[:_MOST_RANGES]),
        len(stuck),
        tuple(scope.path(int(rows.quark[row])) for row in stuck[:_MOST_RANGES]),
        arguments=("stats", FILE, "--by", "state", *scope.options()),
    )


def thread_locks(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each function whose threads queue for a lock that others of them have.

    Which lock a thread waits for is not recorded. One that another of them had was released by it:
    that ran right before the wait ended. A thread that waits for work is woken by another kind.
    """
    kind = scope.kind("Thread")
    rows = None if kind is None else scope.rows(kind)
    if rows is None:
        return
    locked = np.flatnonzero(np.isin(rows.state, rows.codes({_LOCK_WAIT})) & (rows.tag >= 0))
    places = [*map(scope.place, range(len(scope.history.tags))), ""]
    known = np.array(places, object)[rows.tag[locked]]
    for place in dict.fromkeys(known.tolist()):
        waits = locked[known == place]
        most = _most_at_once(rows.start_ns[waits], rows.end_ns[waits])
        whose = distinct(rows.quark[waits])
        total_ns = int(rows.duration_ns[waits].sum())
        existed_ns = int(rows.duration_ns[np.isin(rows.quark, whose)].sum())
        lost_ns = total_ns // max(1, most)
        if (
            not place
            or len(whose) < _FEWEST_WAITING
            or total_ns < _SHARE * existed_ns
            or lost_ns < _least_lost_ns(scope)
        ):
            continue
        order = waits[np.argsort(-rows.duration_ns[waits], kind="stable")]
        followed = order[:_MOST_FOLLOWED]
        releasers = last_running(rows, followed)
        back = np.isin(releasers, whose)
        if 2 * np.count_nonzero(back) <= len(followed):
            continue
        did: Counter[str] = Counter()
        for wait, thread in zip(followed[back].tolist(), releasers[back].tolist(), strict=True):
            did.update(states_within(rows, thread, wait))
        (name, ns), whole_ns = did.most_common(1)[0], did.total()
        first = int(order[0])
        worst = int(rows.start_ns[first]), int(rows.end_ns[first])
        text = (
            f"{counted(len(whose), 'thread')} of {place} waited {total_ns / existed_ns:.0%} of"
            f" their time for a lock that others of them had, up to {most:,} at once; the longest"
            f" wait took {rounded_ns(worst[1] - worst[0])}; whoever had it was {name} for"
            f" {percent(ns / max(1, whole_ns))} of that time"
        )
        shown = order[:_MOST_RANGES]
        yield Finding(
            "contention",
            text,
            lost_ns,
            ranges_of(rows.start_ns[shown], rows.end_ns[shown]),
            len(waits),
            tuple(scope.path(quark) for quark in dict.fromkeys(rows.quark[shown].tolist())),
            arguments=("statemap", FILE, *scope.options(worst), "-o", "lock.svg"),
        )


def thread_gil(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each function whose threads wait for the GIL of each other.

    The findings about full pools say it of their threads.
    """
    kind, pools = scope.kind("Thread"), scope.kind("Worker")
    rows = None if kind is None else scope.rows(kind)
    if kind is None or rows is None:
        return
    path = scope.history.attributes.path
    pooled = set() if pools is None else {path(quark)[-1] for quark in pools.quarks.tolist()}
    own = [quark for quark in kind.quarks.tolist() if path(quark)[-1] not in pooled]
    rows = chosen(rows, np.isin(rows.quark, own) & (rows.tag >= 0))
    kept = np.isin(rows.state, rows.codes({_GIL_WAIT, _GIL_HANDOFF}))
    places = [*map(scope.place, range(len(scope.history.tags)))]
    known = np.array([*places, ""], object)[rows.tag]
    for place in dict.fromkeys(known[kept].tolist()):
        of_place = known == place
        waits = np.flatnonzero(of_place & kept)
        whose = distinct(rows.quark[waits])
        total_ns = int(rows.duration_ns[waits].sum())
        existed_ns = int(rows.duration_ns[of_place].sum())
        lost_ns = total_ns // max(1, len(whose))
        if (
            not place
            or len(whose) < _FEWEST_WAITING
            or total_ns < _HELD_BY_GIL * existed_ns
            or lost_ns < _least_lost_ns(scope)
        ):
            continue
        order = waits[np.argsort(-rows.duration_ns[waits], kind="stable")][:_MOST_RANGES]
        worst = int(rows.start_ns[order[0]]), int(rows.end_ns[order[0]])
        yield Finding(
            "contention",
            f"{counted(len(whose), 'thread')} of {place} waited for the GIL"
            f" {total_ns / existed_ns:.0%} of their time, {rounded_ns(total_ns)} in all: they"
            f" compute, so more of them would not help",
            lost_ns,
            ranges_of(rows.start_ns[order], rows.end_ns[order]),
            len(waits),
            tuple(scope.path(quark) for quark in whose[:_MOST_RANGES].tolist()),
            arguments=("statemap", FILE, *scope.options(worst), "-o", "gil.svg"),
        )


def busy_polling(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each line at which a task only looks whether it can go on."""
    kind = scope.kind("Task")
    rows = None if kind is None else scope.rows(kind)
    if rows is None:
        return
    duration_ns = rows.duration_ns
    running = np.isin(rows.state, rows.codes({_RUNNING}))
    # a task that gives way is ready at a line; one that was woken has none
    places = [scope.place(tag) for tag in range(len(scope.history.tags))]
    has_place = np.array([*map(bool, places), False], np.bool_)
    gives_way = np.isin(rows.state, rows.codes({_READY})) & has_place[rows.tag]
    whose, counts = np.unique(rows.quark[gives_way], return_counts=True)
    for quark in whose[counts >= _MANY_STEPS].tolist():
        own = np.flatnonzero(rows.quark == quark)
        turns = own[gives_way[own]]
        at, code, number = np.unique(rows.tag[turns], return_inverse=True, return_counts=True)
        most = int(np.argmax(number))
        turns = turns[code.reshape(-1) == most]
        # each step is right before its turn
        steps = turns[(turns > 0) & running[turns - 1]] - 1
        ran_ns, count = int(duration_ns[steps].sum()), len(steps)
        if count < _MANY_STEPS or ran_ns >= count * _TINY_STEP_NS:
            continue
        total_ns = ran_ns + int(duration_ns[turns].sum())
        existed_ns = int(duration_ns[own].sum())
        if total_ns < _SHARE * existed_ns or total_ns < _least_lost_ns(scope):
            continue
        range_ns = int(rows.start_ns[turns[0]]), int(rows.end_ns[turns[-1]])
        yield Finding(
            "contention",
            f"a task of {scope.site(quark)} looked"
            f" {times(count)} at {places[int(at[most])]} whether it could go on, and kept the"
            f" event loop busy for {rounded_ns(total_ns)}",
            total_ns,
            (range_ns,),
            count,
            (scope.path(quark),),
            arguments=("stats", FILE, "--by", "state", *scope.options()),
        )


def _least_lost_ns(scope: Scope) -> int:
    return min(scope.length_ns // 100, _LEAST_LOST_NS)


def full_pools(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each pool of threads whose work had to wait for one of them."""
    kind = scope.kind("Worker")
    rows = None if kind is None else scope.rows(kind)
    if kind is None or rows is None:
        return
    flows = scope.history.flows(kind.quarks, start_ns=scope.start_ns, end_ns=scope.end_ns)
    codes = [code for code, name in enumerate(flows.name.names) if name == _SUBMIT]
    submitted = np.flatnonzero(
        np.isin(flows.name.codes, codes) & (flows.to_ns > flows.from_ns)
    ).astype(np.int64)
    pools: dict[str, list[int]] = {}
    for worker in kind.quarks.tolist():
        pools.setdefault(_pool(scope, worker), []).append(worker)
    of_tasks = set()
    for pool, workers in pools.items():
        own = submitted[np.isin(flows.to_quark[submitted], workers)]
        if len(own):
            of_tasks.add(pool)
            busy = np.isin(rows.quark, workers) & ~np.isin(rows.state, rows.codes(_FREE))
            worked_ns = int(rows.duration_ns[busy].sum())
            # a thread that was idle, or had not been started, is not one that work waited for
            full = np.concatenate([_is_busy(rows, busy, flows, own, each) for each in workers])
            own = full[np.argsort(full, kind="stable")]
            waits = flows.from_ns[own], flows.to_ns[own]
            threads = f"the {counted(len(workers), 'thread')} of {_called(pool)}"
            who = Counter(map(scope.site, flows.from_quark[own].tolist()))
            did = f"{_work(scope, chosen(rows, busy))}; tasks of {listed(who, most=2)} submitted it"
            yield from _full_pool(scope, threads, waits, worked_ns, workers, did)
    processes = ProcessTree(scope.history)
    for queued in scope.history.quarks(f"{_COUNTERS}/{_QUEUED}").tolist():
        _, process, _, name, _ = scope.history.attributes.path(queued)
        pool, count = found.groups() if (found := _POOL.fullmatch(name)) else (name, "")
        running = scope.history.attributes.find("Processes", process, "Counters", name, _RUNNING)
        # of how many threads another pool can have at most, nothing is recorded
        if running is None or not count or {pool, f"{process} {pool}"} & of_tasks:
            continue
        name = _called(f"{process} {pool}") if len(processes) > 1 else pool
        threads = f"the {counted(int(count), 'thread')} of {name}"
        began_ns, ended_ns = _in_order(scope, running)
        worked_ns = int((ended_ns - began_ns).sum())
        waits = _in_order(scope, queued)
        full = _overlap_ns(*_full_times(scope, running, int(count)), *waits)
        waited = 2 * full >= waits[1] - waits[0]
        waits = waits[0][waited], waits[1][waited]
        workers = pools.get(f"{process} {pool}", pools.get(pool, []))
        busy = np.isin(rows.quark, workers) & ~np.isin(rows.state, rows.codes(_FREE))
        did = _work(scope, chosen(rows, busy)) if busy.any() else ""
        yield from _full_pool(scope, threads, waits, worked_ns, [queued], did)


def gil_contention(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each event loop that often waits for the GIL while other threads run."""
    loops, lanes = scope.kind("Loop"), scope.kind("Thread")
    rows = None if loops is None else scope.rows(loops)
    if loops is None or rows is None or lanes is None or scope.rows(lanes) is None:
        return
    threads = Threads(scope)
    for loop in loops.quarks.tolist():
        of_loop = rows.quark == loop
        runs = of_loop & np.isin(rows.state, rows.codes({_RUNNING}))
        waits = chosen(rows, of_loop & np.isin(rows.state, rows.codes({_GIL_WAIT})))
        # most loops wait so little that nothing of other threads needs to be read
        least_ns = max(_least_lost_ns(scope), WATCHED_NS)
        if waits.duration_ns.sum() < least_ns:
            continue
        ran = threads.running_beside(loop, (scope.start_ns, scope.end_ns))
        kept_ns = _in_any_ns(ran, waits)
        # a longer one is a block of its own
        short = (kept_ns > 0) & (kept_ns < WATCHED_NS)
        waits, kept_ns = chosen(waits, short), kept_ns[short]
        total_ns, ran_ns = int(kept_ns.sum()), int(rows.duration_ns[runs].sum())
        if total_ns < max(_SHARE * (total_ns + ran_ns), least_ns):
            continue
        others = distinct(ran.quark).tolist()
        by_thread = [
            int(_in_any_ns(chosen(ran, ran.quark == other), waits).sum()) for other in others
        ]
        most = int(np.argmax(by_thread))
        holder = thread_name(scope, others[most])
        had = f"; {holder} had it most" if 2 * by_thread[most] > total_ns else ""
        whose = f" of {thread_name(scope, loop)}" if len(loops.quarks) > 1 else ""
        order = np.argsort(-waits.duration_ns, kind="stable")[:_MOST_RANGES]
        worst = int(waits.start_ns[order[0]]), int(waits.end_ns[order[0]])
        yield Finding(
            "contention",
            f"the event loop{whose} waited {rounded_ns(total_ns)} for the GIL while other threads"
            f" ran, and ran for {rounded_ns(ran_ns)}; the longest of"
            f" {counted(len(waits.quark), 'wait')} took {rounded_ns(worst[1] - worst[0])}{had}",
            total_ns,
            ranges_of(waits.start_ns[order], waits.end_ns[order]),
            len(waits.quark),
            (scope.path(loop), *([scope.path(others[most])] if had else [])),
            arguments=("statemap", FILE, *scope.options(worst), "-o", "gil.svg"),
        )


def _in_any_ns(ran: StateRows, waits: StateRows) -> Int64s:
    """Return how much of each wait at least one of some threads ran."""
    ranges = union(ranges_of(ran.start_ns, ran.end_ns))
    start_ns, end_ns = np.array(ranges, np.int64).reshape(-1, 2).T
    return _overlap_ns(start_ns, end_ns, waits.start_ns, waits.end_ns)


def _is_busy(
    rows: StateRows, busy: npt.NDArray[np.bool_], flows: Flows, items: Int64s, worker: int
) -> Int64s:
    """Return those of some items for which a thread was busy for most of their wait for it."""
    own = items[flows.to_quark[items] == worker]
    of_worker = np.flatnonzero(busy & (rows.quark == worker))
    of_worker = of_worker[np.argsort(rows.start_ns[of_worker], kind="stable")]
    from_ns, to_ns = flows.from_ns[own], flows.to_ns[own]
    busy_ns = _overlap_ns(rows.start_ns[of_worker], rows.end_ns[of_worker], from_ns, to_ns)
    found: Int64s = own[2 * busy_ns >= to_ns - from_ns]
    return found


def _full_times(scope: Scope, running: int, threads: int) -> tuple[Int64s, Int64s]:
    """Return when all threads of a pool had work."""
    full = [
        (value.start_ns, min(value.end_ns, scope.end_ns))
        for value in scope.history.iterate(running, scope.start_ns)
        if value.start_ns < scope.end_ns and isinstance(value.value, int) and value.value >= threads
    ]
    start_ns, end_ns = np.array(full, np.int64).reshape(-1, 2).T
    return start_ns, end_ns


def _overlap_ns(start_ns: Int64s, end_ns: Int64s, from_ns: Int64s, to_ns: Int64s) -> Int64s:
    """Return how much of each range from `from_ns` is in intervals, which follow one another."""
    if not len(start_ns):
        return np.zeros(len(from_ns), np.int64)
    before = np.append(0, np.cumsum(end_ns - start_ns))

    def until(time_ns: Int64s) -> Int64s:
        at = np.maximum(np.searchsorted(start_ns, time_ns, "right") - 1, 0)
        inside = np.clip(time_ns - start_ns[at], 0, end_ns[at] - start_ns[at])
        return np.asarray(before[at] + inside, np.int64)

    return until(to_ns) - until(from_ns)


def _in_order(scope: Scope, counter: int) -> tuple[Int64s, Int64s]:
    """Return when a counter's items came and went, if those that came first went first.

    Nothing is returned of more than `_MOST_ITEMS`, and of a counter that is below 0.
    """
    came: list[int] = []
    went: list[int] = []
    before = 0
    for value in scope.history.iterate(counter, scope.start_ns):
        if value.start_ns >= scope.end_ns:
            break
        now = value.value if isinstance(value.value, int) else 0
        if not 0 <= now <= before + _MOST_ITEMS - len(came):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        (came if now > before else went).extend([value.start_ns] * abs(now - before))
        before = now
    went += [scope.end_ns] * (len(came) - len(went))
    return np.array(came, np.int64), np.array(went, np.int64)


def _full_pool(  # noqa: PLR0917 - what is known of a pool
    scope: Scope,
    threads: str,
    waits: tuple[Int64s, Int64s],
    worked_ns: int,
    quarks: list[int],
    did: str = "",
) -> Iterator[Finding]:
    """Yield a finding for a pool if its work waited for long.

    Args:
        scope: The history.
        threads: What the work waited for, as a phrase.
        waits: When work was submitted, and when it began.
        worked_ns: How long it ran, in all.
        quarks: The entities of the pool.
        did: What its threads did, as the end of a sentence.
    """
    waited = waits[1] - waits[0] >= _LEAST_WAIT_NS
    start_ns, end_ns = waits[0][waited], waits[1][waited]
    total_ns = int((end_ns - start_ns).sum())
    most = _most_at_once(start_ns, end_ns)
    lost_ns = total_ns // max(1, most)
    if (
        most < _FEWEST_WAITING
        or total_ns < _SHARE * (total_ns + worked_ns)
        or lost_ns < _least_lost_ns(scope)
    ):
        return
    order = np.argsort(start_ns - end_ns, kind="stable")[:_MOST_RANGES]
    text = (
        f"work for {threads} waited for a free one,"
        f" {rounded_ns(total_ns / len(start_ns))} on average and up to"
        f" {rounded_ns(int((end_ns - start_ns).max()))}, {times(len(start_ns))};"
        f" up to {most:,} at once{did}"
    )
    yield Finding(
        "contention",
        text,
        lost_ns,
        tuple(zip(start_ns[order].tolist(), end_ns[order].tolist(), strict=True)),
        len(start_ns),
        tuple(scope.path(quark) for quark in quarks[:_MOST_RANGES]),
        arguments=("statemap", FILE, *scope.options(), "-o", "pool.svg"),
    )


def _work(scope: Scope, busy: StateRows) -> str:
    """Return what filled the threads of a pool, as the end of a sentence."""
    by_tag = np.bincount(busy.tag + 1, busy.duration_ns)
    took: Counter[str] = Counter()
    for tag in np.flatnonzero(by_tag).tolist():
        took[scope.place(tag - 1)] += int(by_tag[tag])
    code, most_ns = took.most_common(1)[0]
    whole_ns = max(1, took.total())
    by_state = np.bincount(busy.state, busy.duration_ns, minlength=len(busy.names))
    kept_ns = int(by_state[busy.codes({_GIL_WAIT, _GIL_HANDOFF})].sum())
    state = busy.names[int(np.argmax(by_state))]
    text = f"; {code} took {percent(most_ns / whole_ns)} of the threads' time" if code else ""
    if text and 2 * by_state.max() > whole_ns and state != _RUNNING:
        text += f", mostly in {state}"
    if kept_ns >= _HELD_BY_GIL * whole_ns:
        text += (
            f"; more threads would not help: they waited for the GIL for"
            f" {percent(kept_ns / whole_ns)} of it"
        )
    return text


def _pool(scope: Scope, worker: int) -> str:
    """Return the name of the pool of a thread: that of the thread without its number.

    A thread is called `ThreadPoolExecutor-0_3 1234` after its pool, its index and its id, and with
    several processes begins with that of its own.
    """
    name = scope.history.attributes.path(worker)[-1]
    words = name.split(" ")
    if len(words) > 1 and words[-1].isdecimal():
        words = words[:-1]
    pool, _, index = " ".join(words).rpartition("_")
    return pool if pool and index.isdecimal() else " ".join(words)


def _called(pool: str) -> str:
    """Return the name of a pool for a sentence: `1203 worker 1 of 2, db` has its process first.

    >>> _called("1203 worker 1 of 2, db"), _called("1203 db"), _called("db")
    ('db of worker 1 of 2 in process 1203', 'db in process 1203', 'db')
    """
    process, _, rest = pool.partition(" ")
    if not (process.isdecimal() and rest):
        return pool
    role, _, name = rest.rpartition(", ")
    return f"{name}{f' of {role}' if role else ''} in process {process}"


def _most_at_once(start_ns: Int64s, end_ns: Int64s) -> int:
    """Return how many ranges overlap at most."""
    time_ns = np.concatenate([start_ns, end_ns])
    change = np.concatenate([np.ones(len(start_ns), np.int64), -np.ones(len(end_ns), np.int64)])
    # an end at the time of a start comes first
    order = np.lexsort((change, time_ns))
    return int(np.cumsum(change[order]).max(initial=0))
