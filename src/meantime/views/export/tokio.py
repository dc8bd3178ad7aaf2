"""Tasks, or the threads that run them, as tokio-statemap writes those of a Tokio runtime.

The result is statemap data with the states, values and colours of that program: tasks `task-N` are
spawned, running, waiting or completed, workers `worker-N` running, parked or stopped. The format
cannot represent the rest of a recording. Recordings have no columns of source lines, so a tag is
`file:line`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.history.history import History

__all__ = ["write"]

_NS_PER_S = 10**9
_RUNTIMES = {"Loop": "uvloop", "uvloop.Loop": "uvloop", "uvloop": "uvloop", "trio": "trio"}


class _Kind(NamedTuple):
    title: str
    entity_kind: str
    prefix: str
    patterns: tuple[str, ...]
    colors: dict[str, str]
    meaning: dict[str, str]


_TASKS = _Kind(
    "Task Execution",
    "Task",
    "task",
    ("Tasks/*/*",),
    {
        "spawned": "#FFB000",
        "running": "#DC267F",
        "waiting": "#FE6100",
        "completed": "#648FFF",
    },
    {
        "spawned": "spawned",
        "running": "running",
        "runnable": "waiting",
        "possibly-runnable": "waiting",
        "cancelling": "waiting",
        "completed": "completed",
        "failed": "completed",
        "cancelled": "completed",
        "dropped": "completed",
    },
)
_WORKERS = _Kind(
    "Worker Threads",
    "Worker",
    "worker",
    ("Loops/*", "Workers/*"),
    {"running": "#DC267F", "parked": "#FE6100", "stopped": "#648FFF"},
    {
        "running": "running",
        "collector-stall": "running",
        "cpu-wait": "running",
        "gil-wait": "running",
        "gil-handoff": "running",
        "lock-wait": "running",
        "polling": "running",
        "sleeping": "running",
        "io-wait": "running",
        "child-wait": "running",
        "unrecorded-wait": "running",
        "parked": "parked",
        "idle": "parked",
        "stopped": "stopped",
    },
)


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file of the tasks (version 1) or the workers (version 2), in order of time."""
    kind = _WORKERS if version == 2 else _TASKS
    quarks = np.concatenate([history.quarks(pattern) for pattern in kind.patterns])
    seconds, nanoseconds = divmod(history.clock.utc_at_origin_ns or 0, _NS_PER_S)
    numbers = {state: value for value, state in enumerate(kind.colors)}
    header: dict[str, object] = {
        "start": [seconds, nanoseconds],
        "title": f"{_runtime(history)} {kind.title}",
        **({"host": history.clock.host} if history.clock.host else {}),
        "entityKind": kind.entity_kind,
        "states": {
            state: {"value": numbers[state], "color": color} for state, color in kind.colors.items()
        },
    }
    yield _line(header)
    yield from _changes(history, lost, kind, quarks.tolist(), numbers)


def _runtime(history: History) -> str:
    """Return the names of what ran the tasks; asyncio if the event loops were not recorded."""
    if known := history.facts.get("runtime"):
        return str(known)
    # older recordings have only the types of their loops
    found = dict.fromkeys(
        str(history.tags[tag].get("function", ""))
        for tag in distinct(
            history.intervals(history.quarks("Loops/*"), history.start_ns, history.end_ns).tag
        ).tolist()
        if tag >= 0
    )
    # trio is recorded by its name, others by the class of their loop
    names = dict.fromkeys(_RUNTIMES.get(name, "asyncio") for name in found)
    return " and ".join(names) or "asyncio"


def _changes(
    history: History, lost: Counter[str], kind: _Kind, quarks: list[int], numbers: dict[str, int]
) -> Iterator[bytes]:
    names = _names(history, kind, quarks)
    rows: list[tuple[int, int, int]] = []
    sites: dict[int, dict[str, str]] = {}
    found = history.intervals(quarks, history.start_ns, history.end_ns)
    before: tuple[int, str | None] = (-1, None)
    for row in np.lexsort((found.start_ns, found.quark)).tolist():
        interval = found[row]
        if interval.quark not in sites and (spawned := _site(history, interval.tag)):
            sites[interval.quark] = spawned
        if interval.value is None:
            before = (interval.quark, None)
            continue
        state = _meaning(kind, str(interval.value))
        if state is None:
            lost["states without a counterpart"] += 1
        # several states of a recording become one of the format: no change between these
        elif (interval.quark, state) != before:
            rows.append((interval.start_ns, interval.quark, numbers[state]))
        before = (interval.quark, state)
    lost["flows"] += len(history.flows())
    written: set[tuple[int, str]] = set()
    for time_ns, quark, value in sorted(rows):
        data: dict[str, object] = {"time": str(time_ns), "entity": names[quark], "state": value}
        if site := sites.get(quark):
            tag = data["tag"] = site["location"]
            if (value, tag) not in written:
                written.add((value, tag))
                yield _line({"state": value, "tag": tag, **site})
        yield _line(data)


def _names(history: History, kind: _Kind, quarks: list[int]) -> dict[int, str]:
    """Return the name of each attribute: its own number if numbers do not repeat."""
    own = {quark: history.attributes.path(quark)[-1] for quark in quarks}
    if kind is _TASKS and len(set(own.values())) == len(own):
        return {quark: f"{kind.prefix}-{number}" for quark, number in own.items()}
    return {quark: f"{kind.prefix}-{number}" for number, quark in enumerate(quarks)}


def _meaning(kind: _Kind, state: str) -> str | None:
    if kind is _TASKS and state.startswith("waiting"):
        return "waiting"
    return kind.meaning.get(state)


def _site(history: History, tag: int | None) -> dict[str, str]:
    """Return where a task was spawned, if the tag has this field."""
    fields = history.tags[tag] if tag is not None and tag >= 0 else {}
    if "coroutine" not in fields or "location" not in fields:
        return {}
    # the whole path: files with one name in several directories may have sites on equal lines
    file = str(fields["file"])
    return {"location": f"{file}:{fields.get('line', 0)}", "file": file}


def _line(content: dict[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
