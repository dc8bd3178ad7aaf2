"""Event loops as queues: those that are full, and tasks that repeat later than they mean to.

A loop is full where it was never parked for `_PARKED_NS` or more, for `_STRETCH_NS` at least, and
tasks were ready meanwhile: `_READY` of the time of those that ran, and more than one on average.
Only such stretches are looked at, so it makes no difference how long the loop was parked before and
after. Where one step takes much of a stretch, that is a block.

A task that sleeps for the same time again and again repeats at its own pace. If what it does in
between takes `_WORK` of that time, it repeats later than its pauses say.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.steps import culprit, own_files
from meantime.query.findings.threads import is_on, thread_name
from meantime.query.scope import chosen
from meantime.query.sentences import FILE, counted, percent, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.ranges import Range
    from meantime.query.scope import Scope, StateRows

__all__ = ["drifting_timers", "full_loops"]

_PARKED_NS, _STRETCH_NS, _LEAST_NS = 5 * 10**6, 250 * 10**6, 500 * 10**6
_BUSY, _READY, _WAITING, _LONGEST_STEP = 0.9, 0.2, 1.0, 0.25
_RUNNING, _PARKED, _STOPPED, _SLEEP = "running", "parked", "stopped", "waiting:sleep"
_READY_STATES = {"runnable", "spawned", "possibly-runnable"}
_MOST_STRETCHES, _MOST_READ, _MOST_STEPS = 20, 5, 60
_GROWS = 2
_WORK, _PAUSES, _PAUSE_NS, _STEADY = 2 / 3, 20, 5 * 10**6, 0.1
_DRIFT_NS = 10**8


def full_loops(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each event loop that had more to do than it could."""
    loops, tasks = scope.kind("Loop"), scope.kind("Task")
    rows = None if loops is None else scope.rows(loops)
    states = None if tasks is None else scope.rows(tasks)
    if loops is None or rows is None or states is None:
        return
    if len(loops.quarks) == 1:
        yield from _full_loop(scope, int(loops.quarks[0]), rows, states, 1)
        return
    tasks_of = distinct(states.quark).tolist()
    on = {
        loop: [quark for quark in tasks_of if is_on(scope, quark, loop)]
        for loop in loops.quarks.tolist()
    }
    for loop, own in on.items():
        # which of several loops of a process a task is on, is not recorded
        if sum(own == other for other in on.values()) == 1:
            yield from _full_loop(
                scope,
                loop,
                chosen(rows, rows.quark == loop),
                chosen(states, np.isin(states.quark, own)),
                len(loops.quarks),
            )


def _full_loop(
    scope: Scope, loop: int, rows: StateRows, tasks: StateRows, number: int
) -> Iterator[Finding]:
    full = [_Stretch(rows, tasks, each) for each in _stretches(rows)]
    full = [each for each in full if each.is_full]
    length_ns = sum(each.length_ns for each in full)
    if length_ns < _LEAST_NS:
        return
    parked = sum(each.parked_ns for each in full) / length_ns
    ready = sum(each.ready_ns for each in full) / sum(each.existed_ns for each in full)
    used: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for each in full:
        for name, ns, count in each.by_site(scope):
            used[name] += ns
            steps[name] += count
    site, used_ns = used.most_common(1)[0]
    longest = max(full, key=lambda each: each.length_ns)
    first, last = longest.queue(0), longest.queue(1)
    grew = (
        f"; the tasks that were ready grew from {first:.1f} to {last:.1f} on average"
        if last >= _GROWS * first and last - first >= 1
        else ""
    )
    code = _code(scope, loop, tasks, site, full)
    whose = f" of {thread_name(scope, loop)}" if number > 1 else ""
    text = (
        f"the event loop{whose} was full for {rounded_ns(length_ns)}: parked {percent(parked)},"
        f" tasks were ready for {percent(ready)} of their time; {code or site} used"
        f" {percent(used_ns / sum(used.values()))} of it in {counted(steps[site], 'step')} of"
        f" {rounded_ns(used_ns // steps[site])}{f', tasks of {site}' if code else ''}{grew}"
    )
    full.sort(key=lambda each: -each.length_ns)
    yield Finding(
        "contention",
        text,
        length_ns,
        tuple(each.range_ns for each in full),
        len(full),
        (scope.path(loop),),
        arguments=("stats", FILE, "--by", "site", *scope.options(longest.range_ns, margin=0)),
    )


def _stretches(rows: StateRows) -> list[Range]:
    """Return the longest ranges in which a loop was never parked for long."""
    rests = np.isin(rows.state, rows.codes({_PARKED, _STOPPED})) & (
        (rows.duration_ns >= _PARKED_NS) | np.isin(rows.state, rows.codes({_STOPPED}))
    )
    start_ns = np.append(rows.start_ns[:1], rows.end_ns[rests])
    end_ns = np.append(rows.start_ns[rests], rows.end_ns[-1:])
    long = np.flatnonzero(end_ns - start_ns >= _STRETCH_NS)
    long = long[np.argsort(start_ns[long] - end_ns[long], kind="stable")][:_MOST_STRETCHES]
    return list(zip(start_ns[long].tolist(), end_ns[long].tolist(), strict=True))


def _cut(rows: StateRows, range_ns: Range) -> StateRows:
    """Return the rows of a range, cut to it."""
    found = chosen(rows, (rows.end_ns > range_ns[0]) & (rows.start_ns < range_ns[1]))
    return found._replace(
        start_ns=np.maximum(found.start_ns, range_ns[0]),
        end_ns=np.minimum(found.end_ns, range_ns[1]),
    )


class _Stretch:
    """A range of a loop, and the tasks that ran in it."""

    def __init__(self, loop: StateRows, tasks: StateRows, range_ns: Range) -> None:
        self.range_ns = range_ns
        self.length_ns = range_ns[1] - range_ns[0]
        of_loop = _cut(loop, range_ns)
        self._loop = of_loop
        parked = np.isin(of_loop.state, of_loop.codes({_PARKED}))
        self.parked_ns = int(of_loop.duration_ns[parked].sum())
        found = _cut(tasks, range_ns)
        runs = np.isin(found.state, found.codes({_RUNNING}))
        self.steps = chosen(found, runs)
        found = chosen(found, np.isin(found.quark, distinct(found.quark[runs])))
        self._ready = chosen(found, np.isin(found.state, found.codes(_READY_STATES)))
        self.ready_ns = int(self._ready.duration_ns.sum())
        self.existed_ns = max(1, int(found.duration_ns.sum()))

    @property
    def is_full(self) -> bool:
        """Whether tasks wait in it for each other, and no single step is to blame."""
        return (
            len(self.steps.quark) > 0
            and self.parked_ns <= (1 - _BUSY) * self.length_ns
            and self.ready_ns >= max(_READY * self.existed_ns, _WAITING * self.length_ns)
            and int(self.steps.duration_ns.max()) < _LONGEST_STEP * self.length_ns
        )

    def by_site(self, scope: Scope) -> Iterator[tuple[str, int, int]]:
        """Yield where tasks were created, how long these ran, and in how many steps."""
        sites = scope.sites(self.steps.quark)
        ran_ns = np.zeros(len(sites.names), np.int64)
        np.add.at(ran_ns, sites.codes, self.steps.duration_ns)
        counts = np.bincount(sites.codes, minlength=len(sites.names))
        yield from zip(sites.names, ran_ns.tolist(), counts.tolist(), strict=True)

    def looked_at(self, scope: Scope) -> list[int]:
        """Return the steps during which a stack was taken."""
        stacks = [number for number, tag in enumerate(scope.history.tags) if "stack" in tag]
        at_ns = self._loop.start_ns[np.isin(self._loop.tag, stacks)][:_MOST_STEPS]
        order = np.argsort(self.steps.start_ns, kind="stable")
        found = np.searchsorted(self.steps.start_ns[order], at_ns, "right") - 1
        rows = order[found[found >= 0]]
        seen: list[int] = rows[self.steps.end_ns[rows] > at_ns[found >= 0]].tolist()
        return seen

    def queue(self, half: int) -> float:
        """Return how many tasks were ready on average in the first or the second half."""
        middle = self.range_ns[0] + self.length_ns // 2
        part = (self.range_ns[0], middle) if half == 0 else (middle, self.range_ns[1])
        return int(_cut(self._ready, part).duration_ns.sum()) / max(1, part[1] - part[0])


def _code(scope: Scope, loop: int, tasks: StateRows, site: str, full: list[_Stretch]) -> str:
    """Return the code that most steps of tasks of a kind ran, as far as is known."""
    own = own_files(scope.history)
    seen: Counter[str] = Counter()
    concluded: Counter[str] = Counter()
    for each in full[:_MOST_READ]:
        steps = each.steps
        longest = np.argsort(-steps.duration_ns, kind="stable")[:_MOST_STEPS].tolist()
        for row in dict.fromkeys([*each.looked_at(scope), *longest]):
            task = int(steps.quark[row])
            if scope.site(task) == site:
                range_ns = int(steps.start_ns[row]), int(steps.end_ns[row])
                code = culprit(scope, loop, task, range_ns, tasks, own)
                (seen if code.is_seen else concluded)[code.code if code.is_seen else code.text] += 1
    # what some steps were seen to run, those between the same waits ran as well
    return next((name for name, _ in (*seen.most_common(1), *concluded.most_common(1))), "")


def drifting_timers(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each line at which tasks pause for a time that their work delays."""
    kind = scope.kind("Task")
    rows = None if kind is None else scope.rows(kind)
    if rows is None:
        return
    sleeps = np.flatnonzero(np.isin(rows.state, rows.codes({_SLEEP})) & (rows.tag >= 0))
    running = np.isin(rows.state, rows.codes({_RUNNING}))
    ran_ns = np.append(0, np.cumsum(np.where(running, rows.duration_ns, 0)))
    # from one pause to the next of the same task at the same line
    same = (rows.quark[sleeps[1:]] == rows.quark[sleeps[:-1]]) & (
        rows.tag[sleeps[1:]] == rows.tag[sleeps[:-1]]
    )
    pause, following = sleeps[:-1][same], sleeps[1:][same]
    worked_ns = ran_ns[following] - ran_ns[pause]
    turn_ns = rows.start_ns[following] - rows.start_ns[pause]
    for tag in distinct(rows.tag[pause]).tolist():
        own = rows.tag[pause] == tag
        paused_ns, work_ns = rows.duration_ns[pause[own]], worked_ns[own]
        # a busy machine makes pauses longer, and none shorter
        least, usual = np.percentile(paused_ns, [2, 25]).tolist()
        total_ns = int(work_ns.sum())
        if (
            len(paused_ns) < _PAUSES
            or usual < _PAUSE_NS
            or usual - least > _STEADY * usual + 10**6
            or total_ns < max(_DRIFT_NS, _WORK * usual * len(paused_ns))
        ):
            continue
        whose = distinct(rows.quark[pause[own]]).tolist()
        first = int(pause[own][0])
        pace, turn = rounded_ns(round(usual)), rounded_ns(int(np.median(turn_ns[own])))
        yield Finding(
            "contention",
            f"{counted(len(whose), 'task')} of {scope.site(whose[0])} paused for {pace} at"
            f" {scope.place(tag)}, {times(len(paused_ns))}, and worked for"
            f" {rounded_ns(total_ns // len(paused_ns))} in between: what should repeat each {pace}"
            f" repeats each {turn}",
            total_ns,
            ((int(rows.start_ns[first]), int(rows.end_ns[pause[own][-1]])),),
            len(paused_ns),
            tuple(map(scope.path, whose[:100])),
            arguments=("stats", FILE, "--by", "site", *scope.options()),
        )
