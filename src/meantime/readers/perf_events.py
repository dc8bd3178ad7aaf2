"""Parses the fields that tracepoints print after their names.

Most print `name=value` separated by spaces, syscalls `name: value` separated by commas. Decimal and
hexadecimal numbers become integers, everything else text. Output without names becomes the field
`text`, and a syscall's return value `ret`. `fields_of` defines this; `EventRows` does it for text
that is ASCII and names no field twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.event_rows import EventRows
from meantime.model.attribute_paths import process_id
from meantime.model.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.model.attributes import Path
    from meantime.model.columns import Int64s
    from meantime.model.trace import Samples, Trace

__all__ = ["events_of", "fields_of", "is_tracepoint"]

# A value may contain spaces, such as a comm: it ends before the next `name=`. sched_switch has an
# arrow between the two threads' fields.
_EQUALS = re.compile(r"(?:(?<=\s)|^)([A-Za-z_]\w*)=(.*?)(?:\s+==>)?(?=\s+[A-Za-z_]\w*=|\s*$)")
_COLON = re.compile(r"(?:(?<=, )|^)([A-Za-z_]\w*): (.*?)(?=, [A-Za-z_]\w*: |$)")
# at most 18 digits, or 15 in hexadecimal, so that the number fits into 64 bits
_INTEGER = re.compile(r"(-?\d{1,18})(?: \[\w+\])?")
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,15}")
# How trace-cmd and old versions of perf print events of the scheduler.
_TASK = r"(.*):(-?\d+) \[(-?\d+)\]"
_SPELLINGS = (
    (
        (
            *("prev_comm", "prev_pid", "prev_prio", "prev_state"),
            *("next_comm", "next_pid", "next_prio"),
        ),
        {"sched_switch"},
        re.compile(rf"{_TASK} (\S+) ==> {_TASK}"),
    ),
    (
        ("comm", "pid", "prio", "target_cpu"),
        {"sched_wakeup", "sched_wakeup_new", "sched_waking"},
        re.compile(rf"{_TASK}(?: success=\d)? CPU:(\d+)"),
    ),
)
_ID = re.compile(r"-?[0-9]{1,18}")
_SHORTEST = 4


def is_tracepoint(event: str) -> bool:
    """Return whether an event is a tracepoint; counters have only short modifiers after a colon.

    >>> is_tracepoint("sched:sched_switch"), is_tracepoint("cpu-clock:ppp")
    (True, False)
    """
    group, colon, name = event.partition(":")
    return bool(colon and group and len(name) >= _SHORTEST)


def fields_of(event: str, tail: str) -> dict[str, Any]:
    """Return the fields in the output of a tracepoint.

    >>> fields_of("sched:sched_waking", "comm=tab x=1 pid=18 target_cpu=000")
    {'comm': 'tab', 'x': 1, 'pid': 18, 'target_cpu': 0}
    >>> fields_of("syscalls:sys_enter_openat", "dfd: 0xffffff9c, filename: 0x7f01")
    {'dfd': 4294967196, 'filename': 32513}
    >>> fields_of("sched_wakeup", "wrk:7 [120] CPU:001")
    {'comm': 'wrk', 'pid': 7, 'prio': 120, 'target_cpu': 1}
    >>> fields_of("syscalls:sys_exit_read", "0x1b"), fields_of("block:x", "254,0 WS 4096")
    ({'ret': 27}, {'text': '254,0 WS 4096'})
    """
    tail = tail.strip()
    if not tail:
        return {}
    for pattern in (_EQUALS, _COLON):
        found = {match[1]: _value(match[2]) for match in pattern.finditer(tail)}
        if found:
            return found
    bare = event.rpartition(":")[2]
    for names, of_events, spelling in _SPELLINGS:
        if bare in of_events and (match := spelling.fullmatch(tail)):
            return dict(zip(names, map(_value, match.groups()), strict=True))
    name = "ret" if bare.startswith("sys_exit_") else "text"
    return {name: _value(tail)}


def _value(text: str) -> int | str:
    if match := _INTEGER.fullmatch(text):
        return int(match[1])
    return int(text, 16) if _HEXADECIMAL.fullmatch(text) else text


def events_of(
    trace: Trace,
    batch: Samples,
    block: memoryview,
    tail: Int64s,
    is_tracepoint: Callable[[str], bool] = is_tracepoint,
) -> Events | None:
    """Return the tracepoints among samples as events, in order of time; None if there are none.

    Args:
        trace: Has the names and paths of the samples.
        batch: The samples.
        block: The text that they were read from.
        tail: By sample, where in it the fields begin and end.
        is_tracepoint: Whether the samples of a name are events.
    """
    assert batch.cpu is not None
    codes, which = np.unique(batch.event, return_inverse=True)
    names = [trace.values[code] for code in codes.tolist()]
    is_event = np.array([is_tracepoint(name) for name in names], np.bool_)
    order = np.argsort(batch.time_ns, kind="stable")
    rows = order[is_event[which[order]]]
    if not len(rows):
        return None
    threads, thread = np.unique(batch.thread, return_inverse=True)
    ids = np.array([_ids(trace.paths[each]) for each in threads.tolist()], np.int64)
    cpu, (pid, tid) = batch.cpu.astype(np.int64), ids[thread].T.copy()
    found = EventRows(len(rows))
    name_of, texts = which.astype(np.int32), [name.encode() for name in names]
    done = 0
    while True:
        done = found.put_tracepoints(
            block,
            tail,
            rows,
            time_ns=batch.time_ns,
            name=name_of,
            names=texts,
            cpu=cpu,
            pid=pid,
            tid=tid,
            first=done,
        )
        if done == len(rows):
            break
        row = int(rows[done])
        name = names[int(which[row])]
        fields = fields_of(
            name, bytes(block[tail[row, 0] : tail[row, 1]]).decode("utf-8", "backslashreplace")
        )
        found.put(int(batch.time_ns[row]), name, fields, cpu[row], pid[row], tid[row], 0, 0)
        done += 1
    columns, _, _ = found.take(len(rows), codes.astype(np.int32))
    return Events.of_columns(columns, trace.values, None)


def _ids(path: Path) -> tuple[int, int]:
    """Return the process and thread ids in a path; -1 where it has none."""
    return _id(process_id(path) or ""), _id(path[-1])


def _id(text: str) -> int:
    """Return an id; -1 if the text is not a number that fits into 64 bits."""
    return int(text) if _ID.fullmatch(text) else -1
