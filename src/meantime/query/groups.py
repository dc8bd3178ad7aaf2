"""Requests, tasks and callbacks in groups: how many, how long they took, and in which states.

The time of a request is that of the task that served it. It is `running`, or `runnable`: ready, but
the event loop ran something else. The part of that in which one step of another task, or one
callback, kept the loop for at least `BLOCKED_NS` is `blocked`. All other states are those of the
recording.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from meantime.errors import MeantimeError
from meantime.history.host_parts import HostPart, host_parts
from meantime.model.attribute_paths import CALLBACKS, REQUESTS, TASKS, task_process
from meantime.model.columns import distinct, named
from meantime.model.durations import Durations
from meantime.model.names import without_addresses
from meantime.query.filtering import matching
from meantime.query.findings.blocks import blocking_code
from meantime.query.lifetimes import has_state, intervals_between, lifetimes
from meantime.query.parts import range_of
from meantime.query.processes import ProcessTree
from meantime.query.scope import Scope
from meantime.query.sites import sites_of, tasks_by_tag
from meantime.query.threads import on_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.results import Intervals
    from meantime.model.columns import Int32s, Int64s

__all__ = ["BLOCKED_NS", "Group", "GroupStatistics", "Grouping", "group_statistics"]

Grouping = Literal["request", "route", "function", "site", "process"]

BLOCKED_NS = 10**7
_RUNNING, _RUNNABLE, _BLOCKED = "running", "runnable", "blocked"
_READY = ("spawned", "runnable")
_FAILED = "failed"
_LOOPS = "Loops"
# By grouping, what is grouped, as patterns of paths; other groupings are of requests.
_KINDS = {
    "site": {TASKS: "*/*", CALLBACKS: "*/*"},
    "function": {REQUESTS: "*/*", TASKS: "*/*", CALLBACKS: "*/*"},
    "process": {_LOOPS: "*", REQUESTS: "*/*", TASKS: "*/*", CALLBACKS: "*/*"},
}
_OUTCOMES = {"completed", "failed", "cancelled", "dropped"}


@dataclass(frozen=True, slots=True)
class Group(Durations[int, float]):
    """Requests, tasks or callbacks of one kind.

    Durations are from begin to end, also outside of the range; `total_ns` is the time in it.

    Attributes:
        kind: `Requests`, `Tasks`, `Callbacks` or, by process, `Loops`.
        key: The method and route, the route, the function, the place of the spawn, or the process.
        failed: How many of them failed in it: a status of 500 or more, or an exception.
        state_ns: The part of `total_ns` in each state, most first.
        block_ns: The part of it in steps that blocked an event loop, by their code, most first:
            those that `findings` reports.
    """

    kind: str
    key: str
    failed: int
    state_ns: dict[str, int]
    block_ns: dict[str, int]


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """The groups in a range, most time first.

    Attributes:
        by: What they have in common.
        range_ns: Where [start, end).
        rows: The groups.
        lengths_ns: The durations of each, by its kind and key.
    """

    by: Grouping
    range_ns: tuple[int, int]
    rows: list[Group]
    lengths_ns: dict[tuple[str, str], Int64s] = field(repr=False, compare=False)


def group_statistics(
    history: History,
    *,
    by: Grouping,
    pattern: str | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> GroupStatistics:
    """Return how long requests, tasks, callbacks and loops took, by what they have in common.

    `request` is the method and route of requests, `route` only their route, `site` where tasks,
    also those of a statemap of tokio, were spawned and where callbacks are defined, and `function`
    what answered requests and what tasks and callbacks run. Callbacks are recorded from 0.1 ms on.
    Addresses of objects are left out of names. `process` is the process of requests, tasks and
    event loops; they have none if only one was recorded.

    >>> from meantime.testing import history_from_picture
    >>> group_statistics(history_from_picture("disk0  aabb"), by="request").rows
    []

    Args:
        history: A recording.
        by: What the entities of a group have in common.
        pattern: Only groups with this key, or whose key contains a match of this regular
            expression.
        start_ns: Where the range begins.
        end_ns: Where it ends.

    Raises:
        MeantimeError: If the pattern matches no group.
        UsageError: If it is not a regular expression.
    """
    range_ns = range_of(history, start_ns, end_ns)
    members: dict[tuple[str, str], list[_Members]] = defaultdict(list)
    for host in host_parts(history) or [HostPart((), history, 0, 0)]:
        for each in _of_host(host, by, range_ns):
            members[each.kind, each.key].append(each)
    lengths_ns = {
        key: np.concatenate([each.duration_ns for each in parts]) for key, parts in members.items()
    }
    rows = [_group(parts, lengths_ns[key]) for key, parts in members.items()]
    order = [*_KINDS.get(by, {REQUESTS: ""})]
    rows.sort(key=lambda row: (order.index(row.kind), -row.total_ns, row.key))
    if pattern is not None and rows:
        matches = matching(pattern, [row.key for row in rows])
        rows = [row for row in rows if matches(row.key)]
        if not rows and (start_ns, end_ns) == (None, None):
            raise MeantimeError(f"the filter {pattern!r} matches no {by}")
        if not rows:
            # what has nothing in a range is an error only if it has nothing in any
            group_statistics(history, by=by, pattern=pattern)
    return GroupStatistics(by, range_ns, rows, lengths_ns)


class _Members(NamedTuple):
    """The entities of a group on one host; fields as of `Group`, and the durations."""

    kind: str
    key: str
    duration_ns: Int64s
    failed: int
    state_ns: dict[str, int]
    block_ns: dict[str, int]


def _of_host(host: HostPart, by: Grouping, range_ns: tuple[int, int]) -> Iterator[_Members]:
    """Yield the groups on a host; the range is in the times of all."""
    history = host.history
    if (own_ns := host.within(*range_ns)) is None:
        return
    blocks = None
    processes = ProcessTree(history)
    for kind, below in _KINDS.get(by, {REQUESTS: "*/*"}).items():
        quarks = history.quarks(f"{kind}/{below}")
        if by == "site" and kind == TASKS and not len(quarks):
            quarks = tasks_by_tag(history)
        if by == "process":
            quarks = quarks[processes.owners(quarks) >= 0]
        if not len(quarks):
            continue
        if blocks is None:
            blocks = blocking_code(Scope(history, own_ns))
        for each in _members(history, kind, by, quarks, own_ns, blocks=blocks):
            # ids of processes are those of a host
            yield each._replace(key=on_host(host.name, each.key)) if by == "process" else each


def _group(parts: Sequence[_Members], lengths_ns: Int64s) -> Group:
    """Return a group of all hosts."""
    state_ns = _added(part.state_ns for part in parts)
    return Group.of(
        lengths_ns,
        kind=parts[0].kind,
        key=parts[0].key,
        failed=sum(part.failed for part in parts),
        total_ns=sum(state_ns.values()),
        state_ns=state_ns,
        block_ns=_added(part.block_ns for part in parts),
    )


def _added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums by name, most first."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _members(
    history: History,
    kind: str,
    by: Grouping,
    quarks: Int32s,
    range_ns: tuple[int, int],
    *,
    blocks: Mapping[tuple[int, int], tuple[int, str]],
) -> Iterator[_Members]:
    lived = lifetimes(history, quarks)
    keys = _Numbers()
    if by == "function" and kind == REQUESTS:
        names = _functions(history, quarks, lived.start_ns)
    elif by == "process":
        names = _processes(history, quarks)
    elif by == "site":
        names = [_key(site, kind, by) for site in sites_of(history, quarks)]
    else:
        paths = (history.attributes.path(quark) for quark in quarks.tolist())
        names = [_key(path[1], kind, by) for path in paths]
    group = np.array([keys.of(name) for name in names], np.int64)
    spent = _Spent(history, quarks, group, range_ns, blocks)
    duration_ns = lived.end_ns - lived.start_ns
    order = np.argsort(group, kind="stable")
    order = order[spent.exists[order]]
    edges = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1)).tolist()
    for begin, end in pairwise(edges):
        which = order[begin:end]
        number = int(group[which[0]])
        yield _Members(
            kind,
            keys.names[number],
            duration_ns[which],
            int(spent.failed[which].sum()),
            spent.of_group(number),
            spent.in_blocks(number),
        )


class _Spent:
    """How long the entities of each group were in each state.

    Args:
        history: The recording.
        quarks: The entities.
        group: The group of each.
        range_ns: The range in question.
        blocks: The loop and the code of steps that blocked one, by when they ran.

    Attributes:
        exists: Which entities have a state in it.
        failed: Which of them failed in it.
    """

    def __init__(
        self,
        history: History,
        quarks: Int32s,
        group: Int64s,
        range_ns: tuple[int, int],
        blocks: Mapping[tuple[int, int], tuple[int, str]],
    ) -> None:
        self.exists = np.zeros(len(quarks), np.bool_)
        self.failed = np.zeros(len(quarks), np.bool_)
        self._group = group
        self._states = _Numbers()
        self._total: Counter[tuple[int, int]] = Counter()
        self._in_blocks: dict[int, Counter[str]] = defaultdict(Counter)
        processes = _Numbers()
        paths = (history.attributes.path(quark) for quark in quarks.tolist())
        process = np.array([processes.of(task_process(path[-1])) for path in paths], np.int64)
        held = [_Held(history, name, range_ns) for name in processes.names]
        row_of = np.zeros(len(history.attributes), np.int64)
        row_of[quarks] = np.arange(len(quarks))
        members = set(quarks.tolist())
        for batch in intervals_between(history, quarks, *range_ns):
            kept = has_state(batch)
            row, state = row_of[batch.quark[kept]], self._codes(batch, kept)
            start_ns = np.maximum(batch.start_ns[kept], range_ns[0])
            end_ns = np.minimum(batch.end_ns[kept], range_ns[1])
            self.exists[row] = True
            self.failed[row[state == self._states.of(_FAILED)]] = True
            length_ns = end_ns - start_ns
            ready = np.flatnonzero(state == self._states.of(_RUNNABLE))
            for number, steps in enumerate(held):
                own = ready[process[row[ready]] == number]
                covered_ns = steps.covered(start_ns[own], end_ns[own])
                length_ns[own] -= covered_ns
                self._add(row[own], np.full(len(own), self._states.of(_BLOCKED)), covered_ns)
            self._add(row, state, length_ns)
            long = (state == self._states.of(_RUNNING)) & (end_ns - start_ns >= BLOCKED_NS)
            ranges = zip(start_ns[long].tolist(), end_ns[long].tolist(), strict=True)
            for number, range_ in zip(group[row[long]].tolist(), ranges, strict=True):
                if range_ in blocks and blocks[range_][0] not in members:
                    self._in_blocks[number][blocks[range_][1]] += range_[1] - range_[0]
        # a loop runs on after a step, so none of its states need begin and end with one
        for (start, end), (loop, code) in blocks.items():
            if loop in members:
                self._in_blocks[int(group[row_of[loop]])][code] += end - start

    def in_blocks(self, number: int) -> dict[str, int]:
        """Return the time of a group in steps that blocked a loop, by their code."""
        return dict(self._in_blocks[number])

    def of_group(self, number: int) -> dict[str, int]:
        """Return the time of a group by state; the outcome of a task takes none."""
        return {
            name: ns
            for code, name in enumerate(self._states.names)
            if name not in _OUTCOMES and (ns := self._total[number, code])
        }

    def _codes(self, batch: Intervals, kept: npt.NDArray[np.bool_]) -> Int64s:
        column = named(batch.value)
        code_of = np.full(len(column.names) + 1, -1, np.int64)
        for code in distinct(column.codes[kept]).tolist():
            name = column.names[code]
            code_of[code] = self._states.of(_RUNNABLE if name in _READY else name)
        return code_of[column.codes[kept]]

    def _add(self, row: Int64s, state: Int64s, length_ns: Int64s) -> None:
        pair, which = np.unique(self._group[row] << 32 | state, return_inverse=True)
        sums = np.zeros(len(pair), np.int64)
        np.add.at(sums, which, length_ns)
        for key, ns in zip(pair.tolist(), sums.tolist(), strict=True):
            self._total[key >> 32, key & 0xFFFFFFFF] += ns


def _key(name: str, kind: str, by: Grouping) -> str:
    name = without_addresses(name)
    if by == "route":
        return name.partition(" ")[2]
    return name.partition(" (")[0] if by == "function" and kind != REQUESTS else name


def _functions(history: History, quarks: Int32s, start_ns: Int64s) -> list[str]:
    """Return what answered requests, from the tags of their first states."""
    tags, which = np.unique(history.states(quarks, start_ns).tag, return_inverse=True)
    names = []
    for tag in tags.tolist():
        fields = history.tags[tag] if tag >= 0 else {}
        function, place = fields.get("function", "unknown"), fields.get("location")
        names.append(f"{function} ({place})" if place else str(function))
    return [names[each] for each in which.tolist()]


def _processes(history: History, quarks: Int32s) -> list[str]:
    tree = ProcessTree(history)
    titles = [f"{each.label} {each.role}".rstrip() for each in tree.processes]
    return [titles[owner] if owner >= 0 else "" for owner in tree.owners(quarks).tolist()]


class _Numbers:
    """Numbers of names, in order of their first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Return the number of a name."""
        number = self._number.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


class _Held:
    """When single steps of tasks, or callbacks, kept an event loop of a process for long.

    Args:
        history: The recording.
        process: The process, as in the paths of its tasks and callbacks.
        range_ns: The range in question.
    """

    def __init__(self, history: History, process: str, range_ns: tuple[int, int]) -> None:
        start_ns, end_ns = [], []
        quarks = np.concatenate([history.quarks(f"{each}/*/*") for each in (TASKS, CALLBACKS)])
        if process:
            own = [task_process(history.attributes.path(q)[-1]) == process for q in quarks.tolist()]
            quarks = quarks[np.array(own, np.bool_)]
        for batch in intervals_between(history, quarks, *range_ns):
            column = named(batch.value)
            running = [code for code, name in enumerate(column.names) if name == _RUNNING]
            is_long = batch.end_ns - batch.start_ns >= BLOCKED_NS
            long = np.isin(column.codes, running) & is_long
            start_ns.append(batch.start_ns[long])
            end_ns.append(batch.end_ns[long])
        empty = np.empty(0, np.int64)
        start, end = np.concatenate([empty, *start_ns]), np.concatenate([empty, *end_ns])
        order = np.argsort(start, kind="stable")
        # steps of two loops may overlap: each begins where those before it have ended
        end = np.maximum.accumulate(end[order]) if len(order) else end
        start = np.maximum(start[order], np.concatenate([start[order][:1], end[:-1]]))
        self._start_ns = start
        self._end_ns = np.maximum(end, start)
        self._before_ns = np.concatenate([[0], np.cumsum(self._end_ns - start)]).astype(np.int64)

    def covered(self, start_ns: Int64s, end_ns: Int64s) -> Int64s:
        """Return how much of some ranges these steps took."""
        return self._until(end_ns) - self._until(start_ns)

    def _until(self, time_ns: Int64s) -> Int64s:
        if not len(self._start_ns):
            return np.zeros(len(time_ns), np.int64)
        index = np.searchsorted(self._start_ns, time_ns, "right") - 1
        at = np.maximum(index, 0)
        inside = np.minimum(time_ns, self._end_ns[at]) - self._start_ns[at]
        return np.where(index < 0, 0, self._before_ns[at] + np.maximum(inside, 0))
