"""Tasks as a population: which never end, which end badly, and which wait again and again.

Tasks are counted by the place where they were created. None of this is about time alone, so none of
it depends on how long a program had nothing to do: where an order in time matters, the steps of all
tasks are the clock.

asyncio does not keep tasks: one to which nothing refers may be destroyed while it waits.

Tasks leak where `_MANY` or more live to the end and new ones came all the time. A program that ends
cancels what is left, so a task that waited when its loop stopped lived to the end as well.

A deadline cancels tasks after the same time each, and the others of their kind end before. Tasks
that are cancelled since another one was faster are cancelled after different times.

A task that waits `_REPEATS` times in a row at one line, for code that it called, asks for one thing
after the other. Where all tasks of a kind live as long as the program, as clients of a load test
do, that is what they are for.

Pauses that grow each time are those between attempts.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import distinct
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.ranges import ranges_of
from meantime.query.sentences import FILE, counted, percent, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.scope import Kind, Scope, StateRows

__all__ = [
    "attempts",
    "cancelled_tasks",
    "destroyed_tasks",
    "failing_tasks",
    "leaking_tasks",
    "repeated_waits",
]

_MOST_RANGES = 100
_MANY, _FEWEST = 20, 5
# What a kind of task has to lose of its number.
_SHARE_LEFT, _SHARE_ENDED = 0.2, 0.1
_PARTS, _PART_SHARE = 4, 0.1
_TASK, _REQUEST = "Task", "Request"
_RUNNING, _STOPPED, _WAITING, _SLEEP = "running", "stopped", "waiting", "waiting:sleep"
_FAILED, _CANCELLED, _DROPPED = "failed", "cancelled", "dropped"
_ENDS = {"completed", _FAILED, _CANCELLED, _DROPPED}
# By how much the times of tasks that one deadline cancels differ, and for how many of them.
_EXACT, _EXACT_NS, _MOSTLY = 0.1, 10**6, 0.8
_REPEATS, _SEVERAL, _MUCH, _BRIEF = 16, 3, 0.5, 0.25
# Reading what comes, one piece after the other, is not asking for one thing after the other.
# What asyncio.run creates at the end.
_SHUTDOWN, _AT_END_NS = "BaseEventLoop.shutdown_", 10**8
_STREAMS = ("StreamReader.", "Queue.get")
_NEXT = "__anext__"
# By how much a pause between attempts grows, and as how long another one counts.
_GROWS, _ALIKE, _FEWEST_GROWN = (1.4, 4.5), 0.15, 3


class _Population:
    """The tasks, or the requests, of a range.

    Args:
        scope: The range.
        kind: The kind of entity.
        rows: Its states.
    """

    def __init__(self, scope: Scope, kind: Kind, rows: StateRows) -> None:
        self.scope = scope
        self.noun = kind.entity_kind.lower()
        self.rows = rows
        is_first = np.diff(rows.quark, prepend=-1) != 0
        self.first = np.flatnonzero(is_first)
        """int64, by task: its first row."""
        self.last = np.append(self.first[1:], len(rows.quark)) - 1
        """int64, by task: its last row, which is how it ended."""
        self.task = np.cumsum(is_first) - 1
        """int64, by row: its task."""
        sites = scope.sites(rows.quark[self.first])
        self.site = sites.codes
        """int32, by task: the index of where it was created in `sites`."""
        self.sites = sites.names
        self.begin_ns = rows.start_ns[self.first]
        """int64, by task."""
        self.end_ns = np.where(self.ended(_ENDS), rows.start_ns[self.last], rows.end_ns[self.last])
        """int64, by task: when it ended, or the end of the range."""
        is_wait = np.array([name.startswith(_WAITING) for name in rows.names], np.bool_)
        self.waits = np.flatnonzero(is_wait[rows.state])
        """int64: the rows that are waits."""

    def ended(self, names: set[str]) -> npt.NDArray[np.bool_]:
        """Return by task whether its last state is one of these."""
        return np.isin(self.rows.state[self.last], self.rows.codes(names))

    @cached_property
    def last_wait(self) -> Int64s:
        """int64, by task: the row of its last wait, or -1."""
        found = np.full(len(self.first), -1, np.int64)
        found[self.task[self.waits]] = self.waits
        return found

    @cached_property
    def left(self) -> npt.NDArray[np.bool_]:
        """By task, whether it lived until its loop, or the recording, ended."""
        left = ~self.ended(_ENDS)
        cancelled = np.flatnonzero(self.ended({_CANCELLED}) & (self.last_wait >= 0))
        loops = self.scope.kind("Loop")
        rows = None if loops is None else self.scope.rows(loops)
        if rows is None:
            return left
        stops = np.sort(rows.start_ns[np.isin(rows.state, rows.codes({_STOPPED}))])
        since_ns = self.rows.start_ns[self.last_wait[cancelled]]
        until = np.searchsorted(stops, self.end_ns[cancelled], "right")
        left[cancelled] |= until > np.searchsorted(stops, since_ns)
        return left

    @cached_property
    def stayed(self) -> npt.NDArray[np.bool_]:
        """By task, whether it lived until the program cancelled what was left, right at its end."""
        own = [code for code, site in enumerate(self.sites) if not site.startswith(_SHUTDOWN)]
        last_ns = int(self.end_ns[np.isin(self.site, own)].max(initial=0))
        found: npt.NDArray[np.bool_] = self.left | (
            self.ended({_CANCELLED}) & (self.end_ns >= last_ns - _AT_END_NS)
        )
        return found

    def by_site(self) -> Iterator[tuple[str, Int64s]]:
        """Yield the places where `_FEWEST` tasks or more were created, and which."""
        order = np.argsort(self.site, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(self.site[order])) + 1):
            if len(own) >= _FEWEST:
                yield self.sites[self.site[own[0]]], own

    @cached_property
    def places(self) -> list[str]:
        """By tag, the function and line that it names; the last is of no tag."""
        return [*map(self.scope.place, range(len(self.scope.history.tags))), ""]

    @cached_property
    def place(self) -> Int64s:
        """int64, by tag: a number of its place; the last one is of no tag."""
        table: dict[str, int] = {}
        return np.array([table.setdefault(name, len(table)) for name in self.places], np.int64)

    def waited_at(self, tasks: Int64s) -> str:
        """Return where most of these tasks waited last, as the end of a sentence."""
        rows = self.last_wait[tasks]
        at = Counter(
            (int(self.rows.state[row]), self.places[self.rows.tag[row]]) for row in rows if row >= 0
        )
        if not at:
            return ""
        (state, place), count = at.most_common(1)[0]
        name = self.rows.names[state]
        number = "all" if count == len(tasks) else f"{count:,}"
        return f"{number} in {name}{f' at {place}' if place else ''}"

    def finding(
        self, text: str, lost_ns: int, tasks: Int64s, count: int, *, by: str = "site"
    ) -> Finding:
        """Return a finding about some tasks, the longest first."""
        order = np.argsort(self.begin_ns[tasks] - self.end_ns[tasks], kind="stable")
        shown = tasks[order][:_MOST_RANGES]
        return Finding(
            "tasks",
            text,
            max(1, lost_ns),
            ranges_of(self.begin_ns[shown], self.end_ns[shown]),
            count,
            tuple(map(self.scope.path, self.rows.quark[self.first[shown]].tolist())),
            arguments=("stats", FILE, "--by", by, *self.scope.options()),
        )


def _population(scope: Scope, entity_kind: str) -> _Population | None:
    """Return the tasks, or the requests, of a range; None if there are none, or too many."""
    kind = scope.kind(entity_kind)
    rows = None if kind is None else scope.rows(kind)
    if kind is None or rows is None or not len(rows.quark):
        return None
    return scope.once(f"population of {kind.name}", lambda: _Population(scope, kind, rows))


def leaking_tasks(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each kind of task that lives to the end while new ones come."""
    if (tasks := _population(scope, _TASK)) is not None:
        for site, own in tasks.by_site():
            yield from _leaking(tasks, site, own)


def cancelled_tasks(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each kind of task that a deadline cancels."""
    if (tasks := _population(scope, _TASK)) is not None:
        for site, own in tasks.by_site():
            yield from _cut_short(tasks, site, own[~tasks.left[own]])


def failing_tasks(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each kind of task of which many fail."""
    if (tasks := _population(scope, _TASK)) is not None:
        for site, own in tasks.by_site():
            yield from _failing(tasks, site, own)


def destroyed_tasks(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each kind of task of which many are destroyed before they end."""
    if (tasks := _population(scope, _TASK)) is not None:
        for site, own in tasks.by_site():
            yield from _destroyed(tasks, site, own)


def repeated_waits(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each line at which requests, or tasks, wait many times in a row."""
    activities = _population(scope, _REQUEST) or _population(scope, _TASK)
    if activities is not None:
        yield from _repeated(activities)


def attempts(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each line at which tasks pause for longer each time."""
    if (tasks := _population(scope, _TASK)) is not None:
        yield from _attempts(tasks)


def _leaking(tasks: _Population, site: str, own: Int64s) -> Iterator[Finding]:
    """Yield a finding if tasks of a kind live to the end, and new ones came all the time."""
    stay = own[tasks.stayed[own]]
    if len(stay) < max(_MANY, _SHARE_LEFT * len(own)):
        return
    rows = tasks.rows
    steps_ns = np.sort(rows.start_ns[np.isin(rows.state, rows.codes({_RUNNING}))])
    first, last = np.searchsorted(
        steps_ns, [tasks.begin_ns[own].min(), tasks.end_ns[stay].min()]
    ).tolist()
    came = np.searchsorted(steps_ns, tasks.begin_ns[stay]) - first
    part = np.clip(came * _PARTS // max(1, last - first), 0, _PARTS - 1)
    if np.bincount(part, minlength=_PARTS).min() < _PART_SHARE * len(stay):
        return
    text = (
        f"{counted(len(stay), 'task')} of {site} were alive at the end, of"
        f" {len(own):,} that were created, and new ones came all the time: {tasks.waited_at(stay)}"
    )
    lived_ns = tasks.end_ns[stay] - tasks.begin_ns[stay]
    yield tasks.finding(text, int(lived_ns.mean()), stay, len(stay))


def _cut_short(tasks: _Population, site: str, own: Int64s) -> Iterator[Finding]:
    """Yield a finding if a deadline cancels tasks of a kind."""
    cancelled = own[tasks.ended({_CANCELLED})[own]]
    if len(cancelled) < max(_FEWEST, _SHARE_ENDED * len(own)):
        return
    lived_ns = tasks.end_ns - tasks.begin_ns
    deadline_ns = int(np.median(lived_ns[cancelled]))
    slack_ns = _EXACT * deadline_ns + _EXACT_NS
    is_exact = np.abs(lived_ns[cancelled] - deadline_ns) <= slack_ns
    rest = own[~np.isin(own, cancelled)]
    is_before = lived_ns[rest] <= deadline_ns + slack_ns
    if is_exact.mean() < _MOSTLY or (len(rest) and is_before.mean() < _MOSTLY):
        return
    # those that began together may have been cancelled together, by whoever began them
    began_ns = np.sort(tasks.begin_ns[cancelled])
    if np.count_nonzero(np.diff(began_ns) > slack_ns) < _SEVERAL - 1:
        return
    text = (
        f"{len(cancelled):,} of {counted(len(own), 'task')} of {site} were cancelled, by a deadline"
        f" of {rounded_ns(deadline_ns)} as it seems: {tasks.waited_at(cancelled)}"
    )
    yield tasks.finding(text, int(lived_ns[cancelled].sum()), cancelled, len(cancelled))


def _failing(tasks: _Population, site: str, own: Int64s) -> Iterator[Finding]:
    """Yield a finding if many tasks of a kind fail."""
    failed = own[tasks.ended({_FAILED})[own]]
    if len(failed) < max(_FEWEST, _SHARE_ENDED * len(own)):
        return
    after = tasks.waited_at(failed[tasks.last_wait[failed] >= 0])
    text = (
        f"{len(failed):,} of {counted(len(own), 'task')} of {site} failed"
        f" ({percent(len(failed) / len(own))}){f'; their last waits: {after}' if after else ''}"
    )
    lived_ns = tasks.end_ns[failed] - tasks.begin_ns[failed]
    yield tasks.finding(text, int(lived_ns.sum()), failed, len(failed))


def _destroyed(tasks: _Population, site: str, own: Int64s) -> Iterator[Finding]:
    """Yield a finding if many tasks of a kind are destroyed, since nothing refers to them."""
    dropped = own[tasks.ended({_DROPPED})[own]]
    if len(dropped) < max(_FEWEST, _SHARE_ENDED * len(own)):
        return
    text = (
        f"{len(dropped):,} of {counted(len(own), 'task')} of {site} were destroyed before they"
        f" ended, as nothing refers to them: {tasks.waited_at(dropped)}"
    )
    lived_ns = tasks.end_ns[dropped] - tasks.begin_ns[dropped]
    yield tasks.finding(text, int(lived_ns.sum()), dropped, len(dropped))


class _Runs(NamedTuple):
    """Waits of a task at one place, one after the other.

    Attributes:
        task: int64, by run.
        tag: int32, by run: the tag of its first wait.
        place: int64, by run: the number of that place.
        waits: int64, by run: how many.
        waited_ns: int64, by run: how long they took together.
    """

    task: Int64s
    tag: npt.NDArray[np.int32]
    place: Int64s
    waits: Int64s
    waited_ns: Int64s


def _runs(tasks: _Population) -> _Runs:
    rows, waits = tasks.rows, tasks.waits
    task, place = tasks.task[waits], tasks.place[rows.tag[waits]]
    begins = np.ones(len(waits), np.bool_)
    begins[1:] = (task[1:] != task[:-1]) | (place[1:] != place[:-1])
    first = np.flatnonzero(begins)
    count = np.diff(np.append(first, len(waits)))
    waited_ns = np.add.reduceat(rows.duration_ns[waits], first) if len(first) else first
    return _Runs(task[first], rows.tag[waits[first]], place[first], count, waited_ns)


def _is_asking(tasks: _Population, site: str, tag: int) -> bool:
    """Return whether a wait is for an answer: not a pause of its own, nor for what comes."""
    fields = tasks.scope.history.tags[tag]
    function, inside = str(fields.get("function", "")), str(fields.get("in", ""))
    is_pause = fields.get("reason") == "sleep" and function == site.partition(" (")[0]
    return not (is_pause or inside.startswith(_STREAMS) or inside.endswith(_NEXT))


def _repeated(tasks: _Population) -> Iterator[Finding]:
    """Yield a finding for each line at which tasks of a kind wait many times in a row."""
    runs = _runs(tasks)
    lived_ns = tasks.end_ns - tasks.begin_ns
    long = np.flatnonzero(
        (runs.waits >= _REPEATS) & (runs.waited_ns >= _MUCH * lived_ns[runs.task]) & (runs.tag >= 0)
    )
    kinds = np.stack([tasks.site[runs.task[long]], runs.place[long]], axis=1)
    for site, place in _pairs(kinds):
        own = long[(kinds[:, 0] == site) & (kinds[:, 1] == place)]
        whose = distinct(runs.task[own])
        tag = int(runs.tag[own[0]])
        name, where = tasks.sites[site], tasks.places[tag]
        if len(whose) < _SEVERAL or not where or not _is_asking(tasks, name, tag):
            continue
        existed_ns = int(tasks.end_ns[tasks.site == site].max()) - int(
            tasks.begin_ns[tasks.site == site].min()
        )
        if tasks.noun == "task" and np.median(lived_ns[whose]) > _BRIEF * existed_ns:
            continue
        count, waited_ns = int(runs.waits[own].sum()), int(runs.waited_ns[own].sum())
        text = (
            f"{counted(len(whose), tasks.noun)} of {name} waited at {where}"
            f" {times(round(count / len(whose)))} each, one after the other:"
            f" {percent(waited_ns / int(lived_ns[whose].sum()))} of their time,"
            f" {rounded_ns(waited_ns / count)} a wait"
        )
        by = "request" if tasks.noun == "request" else "site"
        yield tasks.finding(text, waited_ns, whose, count, by=by)


def _pairs(pairs: Int64s) -> list[tuple[int, int]]:
    """Return the pairs that occur, each once, in order."""
    return sorted({(first, second) for first, second in pairs.tolist()})


def _attempts(tasks: _Population) -> Iterator[Finding]:
    """Yield a finding for each line at which tasks of a kind pause for longer each time."""
    rows = tasks.rows
    sleeps = tasks.waits[np.isin(rows.state[tasks.waits], rows.codes({_SLEEP}))]
    place = tasks.place[rows.tag[sleeps]]
    sleeps = sleeps[np.lexsort((sleeps, place, tasks.task[sleeps]))]
    place, task = tasks.place[rows.tag[sleeps]], tasks.task[sleeps]
    slept_ns = rows.duration_ns[sleeps]
    begins = np.ones(len(sleeps), np.bool_)
    begins[1:] = (task[1:] != task[:-1]) | (place[1:] != place[:-1])
    group = np.cumsum(begins) - 1
    is_next = ~begins[1:]
    with np.errstate(divide="ignore"):
        ratio = slept_ns[1:] / np.maximum(slept_ns[:-1], 1)
    grows = is_next & (ratio >= _GROWS[0]) & (ratio <= _GROWS[1])
    first_ns = slept_ns[begins]
    again = is_next & (np.abs(slept_ns[1:] / first_ns[group[1:]] - 1) <= _ALIKE)
    most_ns = np.maximum.reduceat(slept_ns, np.flatnonzero(begins)) if len(sleeps) else first_ns
    at_most = is_next & (slept_ns[1:] >= (1 - _ALIKE) * most_ns[group[1:]])
    number = len(first_ns)
    grown = np.bincount(group[1:][grows], minlength=number)
    other = np.bincount(group[1:][is_next & ~grows & ~again & ~at_most], minlength=number)
    pairs = np.bincount(group, minlength=number) - 1
    is_attempts = (grown >= 2) & (other == 0) & (2 * grown >= pairs)
    heads = np.flatnonzero(begins)
    kinds = np.stack([tasks.site[task[heads]], place[heads]], axis=1)
    for site, where in _pairs(kinds[is_attempts]):
        of_kind = (kinds[:, 0] == site) & (kinds[:, 1] == where)
        own = np.flatnonzero(of_kind & is_attempts)
        several = np.count_nonzero(of_kind & (pairs >= _SEVERAL - 1))
        if 2 * len(own) < several or grown[own].sum() < _FEWEST_GROWN:
            continue
        first_sleep = int(sleeps[heads[own[0]]])
        at = tasks.places[rows.tag[first_sleep]]
        pauses = np.isin(group, own)
        whose = distinct(task[heads[own]])
        paused_ns, count = int(slept_ns[pauses].sum()), int(np.count_nonzero(pauses))
        text = (
            f"{counted(len(whose), 'task')} of {tasks.sites[site]} paused at {at} for longer each"
            f" time, as between attempts: {counted(count, 'pause')}, {rounded_ns(paused_ns)} in"
            f" all, up to {rounded_ns(int(slept_ns[pauses].max()))}"
        )
        yield tasks.finding(text, paused_ns, whose, count)
