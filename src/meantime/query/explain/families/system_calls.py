"""Traces of system calls: what processes waited for in them, and which failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import Meaning, Meanings, TimeClass, lanes_of_states
from meantime.query.explain.span_rows import (
    by_name,
    covered_ns,
    matching_rows,
    total_of,
    union_of,
)
from meantime.query.sentences import FILE, counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.subject import Subject

__all__ = ["explain_system_calls"]

_OUTSIDE = "not in a call"
# Calls that last as long as what they wait for.
_WAITING = {
    *("wait4", "waitid", "wait3", "waitpid"),
    *("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
    *("futex", "futex_wait", "nanosleep", "clock_nanosleep", "pause", "rt_sigtimedwait"),
    *("rt_sigsuspend", "restart_syscall", "accept", "accept4", "msgrcv", "semop", "io_getevents"),
}
# Calls that wait for a disk, a network, a lock or a pipe. Others that last have lost the CPU.
_BLOCKING = frozenset(
    [
        *("read", "readv", "pread64", "preadv", "preadv2", "getdents64", "sendfile", "splice"),
        *("write", "writev", "pwrite64", "pwritev", "pwritev2", "copy_file_range", "fallocate"),
        *("fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "flock"),
        *("connect", "recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg"),
        *("open", "openat", "openat2", "unlink", "unlinkat", "rename", "renameat", "renameat2"),
        *("truncate", "ftruncate"),
    ]
)
_STATES = {
    _OUTSIDE: Meaning(TimeClass.WORK, "the program itself, or waiting for a CPU"),
    "wait for a process": Meaning(TimeClass.WAIT, "a process"),
    "poll": Meaning(TimeClass.WAIT, "events"),
    "futex": Meaning(TimeClass.WAIT, "lock"),
    "sleep": Meaning(TimeClass.WAIT, "sleep"),
    "sync": Meaning(TimeClass.WAIT, "the disk"),
}
_FAILED_SAID, _FEWEST_FAILED = 0.2, 20
_SLOW_SAID = 0.01
_NAMED = 3
_MISSING = (
    "Whether a thread ran or waited for a CPU, between calls and in them: a call of milliseconds"
    " may have lost the CPU."
)


def explain_system_calls(subject: Subject) -> Explanation | None:
    """Return what processes waited for in system calls; None for other traces."""
    history = subject.history
    kind = subject.kind("Thread")
    if kind is None or not _has_state(subject):
        return None
    spans = subject.spans

    def meaning(name: str) -> Meaning:
        given = subject.roles.states.get(name) or _STATES.get(name)
        return given or Meaning(TimeClass.WORK, name)

    lanes = lanes_of_states(history, kind.quarks, subject.range_ns, meaning)
    waiting = matching_rows(spans.name, _WAITING.__contains__)
    working = np.setdiff1d(np.arange(len(spans)), waiting)
    measures = [
        *_waits(spans, waiting),
        *_slow(subject, spans, working),
        *_errors(subject, spans),
    ]
    return Explanation(
        "system calls",
        "thread",
        len(lanes),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of(Meanings(lanes.kind, lanes.label), lanes.duration_ns),
        missing=(_MISSING,),
        comparable=_BLOCKING,
    )


def _has_state(subject: Subject) -> bool:
    return any(
        state.name == _OUTSIDE
        for declaration, _ in subject.history.without_derived().lanes
        for state in declaration.states
    )


def _waits(spans: SpanTable, waiting: Int64s) -> Iterator[Conclusion]:
    if not len(waiting):
        return
    names = by_name(spans.name, spans.end_ns - spans.start_ns, waiting)
    total_ns = sum(time_ns for _, time_ns in names)
    shown = [f"{name} {rounded_ns(time_ns)}" for name, time_ns in names[:_NAMED] if time_ns]
    if not shown:
        return
    worst = int(waiting[np.argmax(spans.end_ns[waiting] - spans.start_ns[waiting])])
    yield Conclusion(
        "calls.waits",
        f"Calls that wait took {rounded_ns(total_ns)} of all threads: {listed(shown)}.",
        total_ns,
        total_ns / max(1, total_of(spans, np.arange(len(spans)))),
        evidence=(Evidence(f"span {int(spans.rows[worst])}", ("stats", FILE, "--by", "name")),),
        ranges=((int(spans.start_ns[worst]), int(spans.end_ns[worst])),),
        parts={"by": [{"name": name, "ns": time_ns} for name, time_ns in names[:20]]},
    )


def _slow(subject: Subject, spans: SpanTable, working: Int64s) -> Iterator[Conclusion]:
    """Yield the calls that do something and took most time."""
    names = by_name(spans.name, spans.end_ns - spans.start_ns, working)
    if not names:
        return
    codes = spans.name.codes[working]
    shown = []
    parts = []
    for name, time_ns in names[:20]:
        own = working[codes == spans.name.names.index(name)]
        failed = _failed(spans, own)
        parts.append({"name": name, "ns": time_ns, "calls": len(own), "failed": len(failed)})
        text = f"{name} {rounded_ns(time_ns)} in {counted(len(own), 'call')}"
        shown.append(f"{text} ({len(failed):,} failed)" if len(failed) else text)
    longest = working[codes == spans.name.names.index(names[0][0])]
    # threads that are in the call at once count once, as a share of all time is at most 1
    share = covered_ns(union_of(spans, longest)) / subject.length_ns
    yield Conclusion(
        "calls.work",
        f"Of the calls that do something, these took longest: {listed(shown[:_NAMED])}.",
        names[0][1],
        share,
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        parts={"by": parts},
        is_notable=share > _SLOW_SAID,
    )


def _failed(spans: SpanTable, rows: Int64s) -> list[int]:
    return [row for row in rows.tolist() if '"error":' in (spans.arguments(row) or "")]


def _errors(subject: Subject, spans: SpanTable) -> Iterator[Conclusion]:
    """Yield how many calls failed, by name."""
    failed = np.array(_failed(spans, np.arange(len(spans))), np.int64)
    if not len(failed):
        return
    ones = np.ones(len(spans), np.int64)
    of = dict(by_name(spans.name, ones))
    by = by_name(spans.name, ones, failed)
    shown = [f"{count:,} of {of[name]:,} {name}" for name, count in by[:_NAMED]]
    share = len(failed) / len(spans)
    worst = max((count / of[name] for name, count in by if of[name] >= _FEWEST_FAILED), default=0.0)
    yield Conclusion(
        "calls.errors",
        f"{len(failed):,} of {counted(len(spans), 'call')} failed: {listed(shown)}.",
        total_of(spans, failed),
        share,
        evidence=(subject.command("dump", FILE, "--kind", "spans"),),
        parts={"failed": len(failed), "by": [{"name": name, "failed": each} for name, each in by]},
        is_notable=worst > _FAILED_SAID and percent(share) != "0 %",
    )
