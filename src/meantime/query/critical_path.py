"""Why a thread took its time: what it waited for, who woke it, and what that thread did meanwhile.

The critical path of a thread over a range says for each moment which thread had to go on for the
range to end. Where the thread runs, or is ready to run, that is the thread itself. While it waits,
it is the thread that ends the wait by waking it, with that thread's own waits followed in the same
way, but no further back than to where the wait begins: Giraldeau and Dagenais, "Wait Analysis of
Distributed Systems Using Kernel Tracing" (2016), the bounded form of Trace Compass. So the parts of
a path follow each other without gap or overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import MeantimeError
from meantime.history.builder import HistoryBuilder
from meantime.history.host_parts import host_parts
from meantime.model.attribute_paths import CPUS, INTERRUPT, THREAD_STATE_PATTERNS, WAKES
from meantime.model.columns import Coded, distinct
from meantime.model.tabular import Tabular
from meantime.query.explain.lanes import Dependencies, Meaning, TimeClass, lanes_of_states
from meantime.query.explain.paths import Activities, paths_of
from meantime.query.filtering import matching
from meantime.query.parts import extent_of, given_range, range_of
from meantime.query.threads import threads_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from meantime.history.history import History
    from meantime.history.host_parts import HostPart
    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.tabular import Column, Paths
    from meantime.model.units import Time

__all__ = ["CriticalPath", "PathShare", "chosen_thread", "critical_path", "scheduled_threads"]

RUNNING = "running"
READY = frozenset({"runnable", "preempted"})
UNKNOWN = "unknown"
_CPU_UNKNOWN = "CPU use unknown"
_MOST_LISTED = 5


class PathShare(NamedTuple):
    """What one thread did on a critical path, in one state for one reason.

    Attributes:
        quark: The thread's attribute that has its states.
        thread: What the thread is called.
        state: Its state; `unknown` where it has none.
        because: What the state was due to: for a thread that was ready, which thread used its CPU;
            for one that waited, what ended that; otherwise empty.
        parts: How many parts of the path these are.
        total_ns: Their time.
        share: Their time over the length of the range.
        max_ns: The longest.
    """

    quark: int
    thread: str
    state: str
    because: str
    parts: int
    total_ns: int
    share: float
    max_ns: int


@dataclass(frozen=True, slots=True, repr=False)
class CriticalPath(Tabular):
    """The critical path of a thread: parts that cover the range, in order of time.

    Attributes:
        quark: The attribute of the thread in question.
        range_ns: [start, end).
        start_ns: int64, where each part begins; it ends where the next one begins.
        end_ns: int64.
        thread: int32, the attribute of the thread that the path is on.
        state: Its state; `unknown` where it has none.
        because: As in `PathShare`.
        depth: int32: 0 is the thread in question, 1 what it waits for, and so on.
    """

    quark: int
    range_ns: tuple[int, int]
    start_ns: Int64s
    end_ns: Int64s
    thread: Int32s
    state: Coded
    because: Coded
    depth: Int32s
    titles: dict[int, str] = field(repr=False)
    attributes: Paths | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.start_ns)

    def __repr__(self) -> str:
        start_ns, end_ns = self.range_ns
        return (
            f"<CriticalPath of {self.titles[self.quark]}: {len(self):,} parts"
            f" in [{start_ns}, {end_ns}) ns>"
        )

    def columns(self) -> dict[str, Column]:
        """Return start_ns, end_ns, quark, title, state, because and depth."""
        codes = {quark: code for code, quark in enumerate(self.titles)}
        return {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "quark": self.thread,
            "title": Coded(
                np.array([codes[each] for each in self.thread.tolist()], np.int32),
                list(self.titles.values()),
            ),
            "state": self.state,
            "because": self.because,
            "depth": self.depth,
        }

    def as_json(self) -> dict[str, Any]:
        """Return what the command prints with `--json`: names, times in ns, shares, the parts."""
        return {
            "thread": self.titles[self.quark],
            "range_ns": list(self.range_ns),
            "shares": [
                {name: value for name, value in row._asdict().items() if name != "quark"}
                for row in self.shares()
            ],
            "path": [
                {
                    "start_ns": start_ns,
                    "end_ns": end_ns,
                    "thread": self.titles[thread],
                    "state": state,
                    "because": because,
                    "depth": depth,
                }
                for start_ns, end_ns, thread, state, because, depth in zip(
                    self.start_ns.tolist(),
                    self.end_ns.tolist(),
                    self.thread.tolist(),
                    self.state.to_list(),
                    self.because.to_list(),
                    self.depth.tolist(),
                    strict=True,
                )
            ],
        }

    def longest(self, count: int | None) -> Int64s:
        """Return the indices of the longest parts, the longest first; None is all of them."""
        return np.argsort(self.start_ns - self.end_ns, kind="stable")[:count]

    def history(self) -> History:
        """Return the path as a history, with a lane for each thread: what it did on the path."""
        builder = HistoryBuilder(start_ns=self.range_ns[0])
        quarks = {quark: builder.quark(title) for quark, title in self.titles.items()}
        builder.lanes("*", entity_kind="Thread")
        before = -1
        for start_ns, thread, state in zip(
            self.start_ns.tolist(), self.thread.tolist(), self.state.to_list(), strict=True
        ):
            if before not in {-1, thread}:
                builder.modify(start_ns, quarks[before], None)
            builder.modify(start_ns, quarks[thread], state)
            before = thread
        return builder.close(self.range_ns[1])

    def shares(self) -> list[PathShare]:
        """Return the time by thread, state and reason, most first; the sum is the range."""
        keys = np.stack([self.thread, self.state.codes, self.because.codes], axis=1)
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        which = which.reshape(-1)
        length = self.end_ns - self.start_ns
        total = np.zeros(len(distinct), np.int64)
        np.add.at(total, which, length)
        longest = np.zeros(len(distinct), np.int64)
        np.maximum.at(longest, which, length)
        count = np.bincount(which, minlength=len(distinct))
        whole_ns = self.range_ns[1] - self.range_ns[0]
        rows = [
            PathShare(
                quark,
                self.titles[quark],
                self.state.names[state],
                self.because.names[because],
                times,
                total_ns,
                total_ns / whole_ns,
                max_ns,
            )
            for (quark, state, because), times, total_ns, max_ns in zip(
                distinct.tolist(), count.tolist(), total.tolist(), longest.tolist(), strict=True
            )
        ]
        return sorted(rows, key=lambda row: (-row.total_ns, row[:4]))


def critical_path(
    history: History, thread: int | str, *, start: Time | None = None, end: Time | None = None
) -> CriticalPath:
    """Return the critical path of a thread over a range.

    A wait that goes on at the end of the range is followed to what ended it later, if the history
    has that.

    >>> from meantime.history import HistoryBuilder
    >>> builder = HistoryBuilder()
    >>> app, database = (builder.quark("Threads", tid, "Status") for tid in ("1", "2"))
    >>> for time_ns, quark, state in [
    ...     (0, app, "running"), (0, database, "sleeping"), (10, app, "sleeping"),
    ...     (10, database, "running"), (40, database, "sleeping"), (40, app, "running"),
    ... ]:
    ...     builder.modify(time_ns, quark, state)
    >>> builder.add_flows([database], [40], [app], [40], ["wakes"])
    >>> for row in critical_path(builder.close(50), "1").shares():
    ...     print(row.thread, row.state, row.total_ns)
    2 running 30
    1 running 20

    Args:
        history: A history with the states of threads and their wake-ups.
        thread: The thread: the attribute of its states, its id, its name, or a filter that matches
            one of `scheduled_threads`. Of a joined history, the path is on the thread's host.
        start: Where the range begins; None is where the thread begins to have states.
        end: Where it ends; None is where the thread has its last state.

    Raises:
        MeantimeError: If there are no states of threads, or not exactly one is meant.
        TimeRangeError: If the range is empty.
    """
    quark = thread if isinstance(thread, int) else chosen_thread(history, thread)
    path = history.attributes.path(quark)
    start_ns, end_ns = range_of(history, start, end)
    if extent_of(history).misses(start_ns, end_ns):
        return _path(history, quark, (start_ns, end_ns), [])
    for host in host_parts(history):
        if path[: len(host.above)] == host.above:
            own = path[len(host.above) :]
            return _on_host(history, host, own, *given_range(history, start, end))
    if start is None or end is None:
        known = history.intervals(quark, start_ns=start_ns, end_ns=end_ns)
        has_state = [row for row, value in enumerate(known.value.to_list()) if value is not None]
        if not has_state:
            title = _titles(history, [quark])[quark]
            raise MeantimeError(f"{title} has no state in this range")
        if start is None:
            start_ns = max(start_ns, int(known.start_ns[has_state[0]]))
        if end is None:
            end_ns = min(end_ns, int(known.end_ns[has_state[-1]]))
    return _Reading(history, quark, (start_ns, end_ns)).path()


def _path(
    history: History,
    quark: int,
    range_ns: tuple[int, int],
    parts: Sequence[tuple[int, int, int, str, str, int]],
) -> CriticalPath:
    """Return the path of a thread whose parts are rows of start, end, thread, state and so on."""
    columns = zip(*parts, strict=True) if parts else ((),) * 6
    begins_ns, ends_ns, thread, states, reasons, depths = columns
    return CriticalPath(
        quark,
        range_ns,
        np.array(begins_ns, np.int64),
        np.array(ends_ns, np.int64),
        np.array(thread, np.int32),
        Coded.of(list(states)),
        Coded.of(list(reasons)),
        np.array(depths, np.int32),
        _titles(history, dict.fromkeys([quark, *reversed(thread)])),
        history.attributes,
    )


def _on_host(
    history: History, host: HostPart, thread: Path, start_ns: int | None, end_ns: int | None
) -> CriticalPath:
    """Return the path of a thread of a host of a joined history: on that host alone.

    Raises:
        MeantimeError: If the host was not recorded in the range.
    """
    own, offset_ns = host.history, host.offset_ns
    if (covered_ns := host.within(start_ns, end_ns)) is None:
        raise MeantimeError(f"{host.name} was not recorded in this range")
    found = critical_path(
        own,
        own.quark(*thread),
        # without a bound, the path begins or ends with the thread's states
        start=None if start_ns is None else covered_ns[0],
        end=None if end_ns is None else covered_ns[1],
    )
    quark_of = {
        quark: history.quark(*host.above, *own.attributes.path(quark)) for quark in found.titles
    }
    return CriticalPath(
        quark_of[found.quark],
        (found.range_ns[0] + offset_ns, found.range_ns[1] + offset_ns),
        found.start_ns + offset_ns,
        found.end_ns + offset_ns,
        np.array([quark_of[each] for each in found.thread.tolist()], np.int32),
        found.state,
        found.because,
        found.depth,
        {quark_of[quark]: f"{host.name} {title}" for quark, title in found.titles.items()},
        history.attributes,
    )


def scheduled_threads(history: History) -> dict[int, str]:
    """Return the threads that have states, by attribute: `name (id)`, after that of a host."""
    if hosts := host_parts(history):
        return {
            history.quark(*host.above, *host.history.attributes.path(quark)): f"{host.name} {title}"
            for host in hosts
            for quark, title in scheduled_threads(host.history).items()
        }
    quarks = [
        quark for pattern in THREAD_STATE_PATTERNS for quark in history.quarks(pattern).tolist()
    ]
    return _titles(history, quarks)


def _used_by(thread: str) -> str:
    return "CPU idle" if thread == "idle" else f"CPU used by {thread}"


def _titles(history: History, quarks: Iterable[int]) -> dict[int, str]:
    """Return `name (id)` of the threads whose states these attributes have."""
    listed = [*quarks]
    titles = {}
    for quark, whose in zip(listed, threads_of(history, listed), strict=True):
        tid = str(whose.tid)
        titles[quark] = f"{whose.name} ({tid})" if whose.name and whose.name != tid else tid
    return titles


def chosen_thread(history: History, text: str) -> int:
    """Return the thread with an id or a name, or the only one that a filter matches.

    Raises:
        MeantimeError: If there are no states of threads, or not exactly one is meant.
    """
    titles = scheduled_threads(history)
    if not titles:
        raise MeantimeError("there are no states of threads, as a trace of the scheduler has them")
    threads = dict(zip(titles, threads_of(history, titles), strict=True))
    found = [quark for quark, each in threads.items() if str(each.tid) == text]
    if not found:
        found = [quark for quark, each in threads.items() if each.name == text]
    if not found:
        is_meant = matching(text, list(titles.values()))
        found = [quark for quark, title in titles.items() if is_meant(title)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise MeantimeError(f"no thread has the id or the name {text!r}")
    listed = ", ".join(titles[quark] for quark in found[:_MOST_LISTED])
    more = f" and {len(found) - _MOST_LISTED:,} more" if len(found) > _MOST_LISTED else ""
    which = "the name of a host, too" if host_parts(history) else "an id"
    raise MeantimeError(f"{text!r} is {len(found):,} threads: {listed}{more}; give {which}")


class _Interrupts:
    """What CPUs served as interrupts in a range."""

    def __init__(self, history: History, start_ns: int, end_ns: int) -> None:
        spans = history.spans(history.quarks(f"{CPUS}/*"), start_ns=start_ns, end_ns=end_ns)
        self._offsets = spans.offsets.tolist()
        self._start_ns, self._end_ns, self._name = spans.start_ns, spans.end_ns, spans.name

    def at(self, time_ns: int) -> str | None:
        """Return the only interrupt at a time, the innermost of its CPU; None if it is not one."""
        found = set()
        for first, last in pairwise(self._offsets):
            row = first + int(self._start_ns[first:last].searchsorted(time_ns, side="right")) - 1
            if row >= first and self._end_ns[row] >= time_ns:
                found.add(self._name[row])
        return found.pop() if len(found) == 1 else None


class _Reading:
    """Reads the path of a thread with the reasons of its states, over one moment of a history."""

    def __init__(self, history: History, quark: int, range_ns: tuple[int, int]) -> None:
        self._history = history = history.snapshot()
        self._tags = history.tags
        self._quark = quark
        self._range_ns = start_ns, end_ns = range_ns
        last = history.state(quark, end_ns - 1)
        # a wait that goes on is followed to what ended it
        waits = last.value is not None and _meaning(str(last.value)).kind is TimeClass.WAIT
        self._last_ns = last.end_ns if waits else end_ns
        after_ns = min(self._last_ns + 1, history.end_ns)
        flows = history.flows(start_ns=start_ns, end_ns=self._last_ns + 1)
        quarks = distinct(np.concatenate([[quark], flows.from_quark, flows.to_quark]))
        self._lanes = lanes = lanes_of_states(
            history,
            quarks.astype(np.int32),
            (start_ns, after_ns),
            _meaning,
            between=_meaning(UNKNOWN),
        )
        wakes = Dependencies.of_flows(flows, lanes, {WAKES})
        lanes.connect(wakes.at_ends(lanes))

    def path(self) -> CriticalPath:
        """Return the path."""
        lanes = self._lanes
        start_ns, end_ns = self._range_ns
        subject = Activities(
            lanes.numbers(np.array([self._quark], np.int32)),
            np.array([start_ns]),
            np.array([self._last_ns]),
            Coded.of([""]),
        )
        walked = paths_of(lanes, subject)
        found = []
        for first_ns, last_ns, lane, part, depth in zip(
            walked.start_ns.tolist(),
            np.minimum(walked.end_ns, end_ns).tolist(),
            walked.lane.tolist(),
            walked.part.tolist(),
            walked.depth.tolist(),
            strict=True,
        ):
            if first_ns >= end_ns:
                break
            quark = int(lanes.quark[lane])
            state = UNKNOWN if part < 0 else str(lanes.label[part])
            for begin_ns, until_ns, because in self._reasons(quark, part, first_ns, last_ns):
                found.append((begin_ns, until_ns, quark, state, because, depth))
        return _path(self._history, self._quark, self._range_ns, found)

    def _reasons(
        self, quark: int, part: int, start_ns: int, end_ns: int
    ) -> Sequence[tuple[int, int, str]]:
        """Return what a state was due to: while a thread is ready, who used its CPU, in turn."""
        kind = TimeClass.UNKNOWN if part < 0 else self._lanes.kind[part]
        if kind == TimeClass.READY:
            return [*self._users(self._cpu(quark, part), start_ns, end_ns)][::-1]
        because = self._end_of_wait(quark, part) if kind == TimeClass.WAIT else ""
        return [(start_ns, end_ns, because)]

    @cached_property
    def _interrupts(self) -> _Interrupts:
        return _Interrupts(self._history, self._range_ns[0], self._last_ns + 1)

    def _end_of_wait(self, quark: int, part: int) -> str:
        """Return what ended a wait that no thread ended, as far as that is known."""
        end_ns = int(self._lanes.end_ns[part])
        if end_ns >= self._history.end_ns:
            return "still waits"
        tag = self._history.state(quark, end_ns).tag
        waker = "" if tag is None else self._tags[tag].get("waker", "")
        if waker != INTERRUPT:
            return "not known what ended it"
        name = self._interrupts.at(end_ns)
        return f"interrupt {name}" if name else INTERRUPT

    def _cpu(self, quark: int, part: int) -> int | None:
        """Return the CPU on whose queue a thread that is ready is: where it was woken or ran."""
        ready = self._history.state(quark, int(self._lanes.start_ns[part]))
        tag = ready.tag
        if tag is None and ready.start_ns > self._history.start_ns:
            tag = self._history.state(quark, ready.start_ns - 1).tag
        cpu = None if tag is None else self._tags[tag].get("cpu")
        return cpu if isinstance(cpu, int) else None

    def _users(self, cpu: int | None, start_ns: int, end_ns: int) -> Iterator[tuple[int, int, str]]:
        """Yield what used a CPU in a range, as parts that cover it, the last first."""
        lane = None if cpu is None else self._history.find(CPUS, str(cpu), "Thread")
        if lane is None:
            yield start_ns, end_ns, _CPU_UNKNOWN
            return
        while end_ns > start_ns:
            used = self._history.state(lane, end_ns - 1)
            begin_ns = max(used.start_ns, start_ns)
            is_known = used.value not in {None, UNKNOWN}
            user = _used_by(str(used.value)) if is_known else _CPU_UNKNOWN
            yield begin_ns, end_ns, user
            end_ns = begin_ns


def _meaning(state: str) -> Meaning:
    """Return the class of a state of a thread; its label is the state."""
    if state == RUNNING:
        return Meaning(TimeClass.WORK, state)
    if state in READY:
        return Meaning(TimeClass.READY, state)
    return Meaning(TimeClass.UNKNOWN if state == UNKNOWN else TimeClass.WAIT, state)
