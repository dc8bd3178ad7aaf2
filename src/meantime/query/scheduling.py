"""How threads got the CPU: run and wait times, wake-up latencies, migrations, switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import Coded, named
from meantime.model.durations import Durations, figures_of
from meantime.model.tabular import Tabular
from meantime.query.critical_path import READY, RUNNING, scheduled_threads
from meantime.query.threads import choose_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.tabular import Column

__all__ = ["ScheduledThread", "ThreadScheduling", "thread_scheduling"]

# The names of the figures of latencies, whose sum says nothing.
_LATENCIES = {
    each.key: "wakeups" if each.key == "count" else each.key.replace("_ns", "_latency_ns")
    for each in figures_of(Durations)
    if each.key != "total_ns"
}


class ScheduledThread(NamedTuple):
    """How one thread got the CPU.

    Attributes:
        thread: `name (id)`.
        run_ns: How long it ran.
        wait_ns: How long it was ready and did not run: after a wake-up, or preempted.
        latency: How long it took from wake-ups until it ran, of those after which it has run.
        migrations: How often it ran on another CPU than before.
        involuntary: How often it stopped running while it could have gone on.
        switches: How often it began to run.
    """

    thread: str
    run_ns: int
    wait_ns: int
    latency: Durations[int, float]
    migrations: int
    involuntary: int
    switches: int

    def numbers(self) -> dict[str, int]:
        """Return all but the name; how often it was woken is `wakeups`, a mean is rounded."""
        return {
            "run_ns": self.run_ns,
            "wait_ns": self.wait_ns,
            **{name: round(getattr(self.latency, key)) for key, name in _LATENCIES.items()},
            "migrations": self.migrations,
            "involuntary": self.involuntary,
            "switches": self.switches,
        }


@dataclass(frozen=True, slots=True)
class ThreadScheduling(Tabular):
    """How the threads of a history got the CPU over a range; as a table, its rows.

    Attributes:
        range_ns: [start, end): times are clipped to it; wake-ups and switches are counted if they
            happened in it, and a latency counts in full.
        rows: The threads, the longest run time first.
    """

    range_ns: tuple[int, int]
    rows: list[ScheduledThread]

    def columns(self) -> dict[str, Column]:
        """Return a column for each field of a row."""
        rows = [row.numbers() for row in self.rows]
        names = ScheduledThread("", 0, 0, Durations.of(np.empty(0, np.int64)), 0, 0, 0).numbers()
        columns: dict[str, Column] = {"thread": Coded.of([row.thread for row in self.rows])}
        return columns | {name: np.array([row[name] for row in rows], np.int64) for name in names}


def thread_scheduling(
    history: History,
    *,
    pattern: str | None = None,
    quarks: Int32s | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> ThreadScheduling:
    """Return how threads got the CPU; without states of threads, no rows.

    >>> from meantime.history import HistoryBuilder
    >>> builder = HistoryBuilder()
    >>> app = builder.quark("Threads", "1", "Status")
    >>> for time_ns, state, tag in [
    ...     (0, "running", {"cpu": 0}), (10, "sleeping", None),
    ...     (20, "runnable", {"cpu": 1, "waker": "db (2)"}), (25, "running", {"cpu": 1}),
    ... ]:
    ...     builder.modify(time_ns, app, state, builder.tag(tag) if tag else None)
    >>> (row,) = thread_scheduling(builder.close(50)).rows
    >>> row.run_ns, row.wait_ns, row.latency.count, row.latency.max_ns, row.migrations
    (35, 5, 1, 5, 1)

    Args:
        history: The history.
        pattern: Only threads that this filter matches.
        quarks: Only these attributes, of those that have states of threads.
        start_ns: Where the range begins; None is where the first of these states begins.
        end_ns: Where it ends; None is where the last of them ends.
    """
    titles = scheduled_threads(history)
    chosen = np.sort(np.array(list(titles), np.int32))
    if quarks is not None:
        chosen = np.intersect1d(chosen, quarks)
    if pattern is not None:
        chosen = np.sort(choose_rows(history, chosen, pattern))
    rows = history.intervals(chosen, start_ns=start_ns, end_ns=end_ns)
    states = named(rows.value)
    low_ns, high_ns = rows.range_ns
    met = _is_state(states)
    # a trace may begin long after 0, which is where the history does
    if start_ns is None and met.any():
        low_ns = max(low_ns, int(rows.start_ns[met].min()))
    if end_ns is None and met.any():
        high_ns = min(high_ns, int(rows.end_ns[met].max()))
    is_running = _is_one_of(states, {RUNNING})
    is_ready = _is_one_of(states, READY)
    length = np.minimum(rows.end_ns, high_ns) - np.maximum(rows.start_ns, low_ns)
    begins = rows.start_ns >= low_ns
    follows = np.append(rows.quark[1:] == rows.quark[:-1], False)
    # a thread that is ready has the CPU and the waker in its tag, if it was woken
    runs_next = np.append(is_running[1:], False) & follows
    woken = np.flatnonzero(is_ready & (rows.tag >= 0) & runs_next & begins)
    stopped = np.flatnonzero(is_running[:-1] & follows[:-1] & is_ready[1:]) + 1
    involuntary = stopped[(rows.tag[stopped] < 0) & begins[stopped]]
    moved = _migrations(history, rows.quark, rows.tag, np.flatnonzero(is_running))
    which = np.searchsorted(chosen, rows.quark)
    counts = {
        "run_ns": _sums(which[is_running], length[is_running], len(chosen)),
        "wait_ns": _sums(which[is_ready], length[is_ready], len(chosen)),
        "migrations": np.bincount(which[moved[begins[moved]]], minlength=len(chosen)),
        "involuntary": np.bincount(which[involuntary], minlength=len(chosen)),
        "switches": np.bincount(which[is_running & begins], minlength=len(chosen)),
    }
    latency = rows.end_ns[woken] - rows.start_ns[woken]
    edges = np.searchsorted(which[woken], np.arange(len(chosen) + 1))
    found = []
    for at, quark in enumerate(chosen.tolist()):
        own: Durations[int, float] = Durations.of(latency[edges[at] : edges[at + 1]])
        sums = {name: int(column[at]) for name, column in counts.items()}
        found.append(ScheduledThread(titles[quark], latency=own, **sums))
    has_states = np.isin(chosen, rows.quark[met]).tolist()
    kept = [row for row, is_kept in zip(found, has_states, strict=True) if is_kept]
    kept.sort(key=lambda row: (-row.run_ns, row.thread))
    return ThreadScheduling((low_ns, high_ns), kept)


def _is_one_of(states: Coded, wanted: set[str] | frozenset[str]) -> npt.NDArray[np.bool_]:
    codes = [code for code, name in enumerate(states.names) if name in wanted]
    found: npt.NDArray[np.bool_] = np.isin(states.codes, codes)
    return found


def _is_state(states: Coded) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = states.codes >= 0
    return found


def _sums(which: Int64s, length: Int64s, size: int) -> Int64s:
    total = np.zeros(size, np.int64)
    np.add.at(total, which, length)
    return total


def _migrations(history: History, quark: Int32s, tag: Int32s, running: Int64s) -> Int64s:
    """Return the rows that run on another CPU than the row that ran before."""
    numbers = [each.get("cpu", -1) for each in history.tags]
    cpus = np.array([each if isinstance(each, int) else -1 for each in numbers] + [-1], np.int64)
    # a tag of -1 is the last
    cpu = cpus[tag[running]]
    same = quark[running[1:]] == quark[running[:-1]]
    moved = same & (cpu[1:] != cpu[:-1]) & (cpu[1:] >= 0) & (cpu[:-1] >= 0)
    found: Int64s = running[1:][moved]
    return found
