"""Flight recordings of a JVM: locks, collections of garbage, and what used the machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import Meaning, Meanings, TimeClass, lanes_of_states
from meantime.query.explain.span_rows import (
    categories_of,
    covered_ns,
    duration_of,
    rows_in,
    total_of,
    union_of,
)
from meantime.query.sentences import FILE, counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.subject import Subject

__all__ = ["explain_jvm"]

_MONITOR, _WAITS = "JavaMonitorEnter", ("JavaMonitorWait", "ThreadPark", "ThreadSleep")
_COLLECTION, _PAUSE = "GarbageCollection", "GCPhasePause"
_IO = ("SocketRead", "SocketWrite", "FileRead", "FileWrite", "FileForce")
_KNOWN = {
    _MONITOR,
    *_WAITS,
    _COLLECTION,
    _PAUSE,
    "SafepointBegin",
    "Compilation",
    "ExecuteVMOperation",
}
_FULL = ("G1Full", "SerialOld", "ParallelOld", "PSMarkSweep")
_PAUSES_SAID, _PAUSE_NS, _MONITORS_SAID, _IO_NS = 0.05, 10**9, 0.05, 4 * 10**9
_NO_STATES = "what threads did: nothing in this range says it."
_MINUTE_NS = 60 * 10**9
_STATES = {
    "blocked": Meaning(TimeClass.WAIT, "monitor"),
    "waiting": Meaning(TimeClass.IDLE, "waiting"),
    "sleeping": Meaning(TimeClass.IDLE, "sleeping"),
    "socket": Meaning(TimeClass.WAIT, "network"),
}


def explain_jvm(subject: Subject) -> Explanation | None:
    """Return what limited a JVM; None for other traces."""
    history = subject.history
    spans = subject.spans
    categories = categories_of(spans)
    if not categories & _KNOWN or not categories & {_MONITOR, *_WAITS, _COLLECTION}:
        return None
    kind = next((each for each in subject.kinds if each.entity_kind == "Thread"), None)
    measures = [
        *_monitors(subject, spans),
        *_pauses(subject, spans),
        *_io(subject, spans),
    ]
    noun, activities, missing = "machine", 1, [_NO_STATES]
    stopped_ns = _stopped_ns(spans)
    budget = Budget.of_rows(
        [
            (TimeClass.WAIT, "collections of garbage", stopped_ns),
            (TimeClass.UNKNOWN, "not recorded", subject.length_ns - stopped_ns),
        ]
    )
    if kind is not None:

        def meaning(name: str) -> Meaning:
            given = subject.roles.states.get(name) or _STATES.get(name)
            return given or subject.roles.meaning(name)

        lanes = lanes_of_states(history, kind.quarks, subject.range_ns, meaning)
        budget = Budget.of(Meanings(lanes.kind, lanes.label), lanes.duration_ns)
        noun, activities, missing = "thread", len(lanes), []
    return Explanation(
        "jvm",
        noun,
        activities,
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        budget,
        missing=(*missing, *_gap(subject)),
    )


def _stopped_ns(spans: SpanTable) -> int:
    """Return how long all threads were stopped to collect garbage."""
    pauses = rows_in(spans, _PAUSE)
    return covered_ns(union_of(spans, pauses if len(pauses) else rows_in(spans, _COLLECTION)))


def _fields(spans: SpanTable, row: int) -> dict[str, object]:
    try:
        found = json.loads(spans.arguments(row) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _monitors(subject: Subject, spans: SpanTable) -> Iterator[Conclusion]:
    """Yield how long threads were blocked on monitors, on which, and who had them."""
    rows = rows_in(spans, _MONITOR)
    if not len(rows):
        return
    total_ns = total_of(spans, rows)
    thread = np.searchsorted(spans.offsets, rows, side="right") - 1
    by_thread = np.zeros(len(spans.threads), np.int64)
    np.add.at(by_thread, thread, spans.end_ns[rows] - spans.start_ns[rows])
    whole_ns = subject.length_ns
    much = np.flatnonzero(by_thread > _MONITORS_SAID * whole_ns)
    classes: dict[str, int] = {}
    owners: dict[str, int] = {}
    for row in rows.tolist():
        fields = _fields(spans, row)
        time_ns = duration_of(spans, row)
        name, owner = str(fields.get("monitorClass", "")), str(fields.get("previousOwner", ""))
        classes[name] = classes.get(name, 0) + time_ns
        owners[owner] = owners.get(owner, 0) + time_ns
    first = max(classes, key=lambda name: classes[name])
    worst = int(rows[np.argmax(spans.end_ns[rows] - spans.start_ns[rows])])
    durations = np.sort(spans.end_ns[rows] - spans.start_ns[rows])
    shares = by_thread[much] / whole_ns
    who = counted(len(much) or int((by_thread > 0).sum()), "thread")
    text = f"{who} {'was' if who.startswith('1 ') else 'were'} blocked on monitors for"
    text += f" {rounded_ns(total_ns)} in {counted(len(rows), 'wait')}"
    if len(much):
        low, high = percent(float(shares.min())), percent(float(shares.max()))
        text += (
            f", {low} of the time each" if low == high else f", {low} to {high} of the time each"
        )
    if first:
        text += f"; {percent(classes[first] / total_ns)} of it on {first}"
    yield Conclusion(
        "lock.waits",
        f"{text}.",
        total_ns,
        float(by_thread.max()) / whole_ns,
        total_ns,
        "bound",
        evidence=(Evidence(f"span {int(spans.rows[worst])}", ("stats", FILE, "--by", "name")),),
        ranges=((int(spans.start_ns[worst]), int(spans.end_ns[worst])),),
        rows=tuple(subject.path(int(spans.threads[each])) for each in much.tolist()[:20]),
        parts={
            "total_ns": total_ns,
            "waits": len(rows),
            "median_ns": int(durations[(len(durations) - 1) // 2]),
            "longest_ns": int(durations[-1]),
            "threads": [
                {"name": subject.name(int(spans.threads[each])), "ns": int(by_thread[each])}
                for each in np.flatnonzero(by_thread).tolist()[:50]
            ],
            "classes": classes,
            "previous_owners": owners,
        },
        is_notable=len(much) > 0,
    )


def _pauses(subject: Subject, spans: SpanTable) -> Iterator[Conclusion]:
    """Yield how long collections stopped all threads."""
    collections = rows_in(spans, _COLLECTION)
    pauses = rows_in(spans, _PAUSE)
    if not len(collections) and not len(pauses):
        return
    begins, ends = union_of(spans, pauses if len(pauses) else collections)
    total_ns = _stopped_ns(spans)
    longest_ns = int((ends - begins).max()) if len(begins) else 0
    worst = _worst_minute(begins, ends, subject)
    yield Conclusion(
        "gc.pauses",
        f"{counted(len(begins), 'pause')} to collect garbage took {rounded_ns(total_ns)}"
        f" ({percent(total_ns / subject.length_ns)}), the longest {rounded_ns(longest_ns)}.",
        total_ns,
        total_ns / subject.length_ns,
        total_ns,
        "bound",
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        ranges=tuple(zip(begins[:100].tolist(), ends[:100].tolist(), strict=True)),
        parts={"pauses": len(begins), "longest_ns": longest_ns, "worst_minute": worst},
        is_notable=worst > _PAUSES_SAID or longest_ns > _PAUSE_NS,
    )
    full = [
        row
        for row in collections.tolist()
        if spans.name[row] in _FULL or "full" in str(spans.name[row]).lower()
    ]
    if not full:
        return
    causes = sorted({str(_fields(spans, row).get("cause", "")) for row in full} - {""})
    rows = np.array(full, np.int64)
    full_ns = total_of(spans, rows)
    yield Conclusion(
        "gc.full",
        f"{counted(len(full), 'full collection')} took {rounded_ns(full_ns)}"
        f"{f' ({listed(causes)})' if causes else ''}: the heap was too small, or asked for it.",
        full_ns,
        full_ns / subject.length_ns,
        full_ns,
        "bound",
        evidence=(subject.command("dump", FILE, "--kind", "spans"),),
        ranges=tuple((int(spans.start_ns[row]), int(spans.end_ns[row])) for row in full[:100]),
        parts={"collections": len(full), "causes": causes},
        is_notable=True,
    )


def _worst_minute(begins: Int64s, ends: Int64s, subject: Subject) -> float:
    """Return the largest share of a minute that pauses took; of a shorter range, of all of it."""
    width = min(_MINUTE_NS, subject.length_ns)
    if not len(begins):
        return 0.0
    total = np.append(0, np.cumsum(ends - begins))
    last = np.searchsorted(begins, begins + width)
    return float((total[last] - total[: len(begins)]).max()) / width


def _io(subject: Subject, spans: SpanTable) -> Iterator[Conclusion]:
    rows = rows_in(spans, *_IO)
    if not len(rows):
        return
    worst = int(rows[np.argmax(spans.end_ns[rows] - spans.start_ns[rows])])
    longest_ns = duration_of(spans, worst)
    fields = _fields(spans, worst)
    where = str(fields.get("host") or fields.get("path") or "")
    yield Conclusion(
        "io.slow",
        f"{spans.category[worst]}{f' of {where}' if where else ''} took {rounded_ns(longest_ns)}.",
        longest_ns,
        longest_ns / subject.length_ns,
        evidence=(Evidence(f"span {int(spans.rows[worst])}", ("dump", FILE, "--kind", "spans")),),
        ranges=((int(spans.start_ns[worst]), int(spans.end_ns[worst])),),
        parts={"calls": len(rows), "total_ns": total_of(spans, rows)},
        is_notable=longest_ns > _IO_NS,
    )


def _gap(subject: Subject) -> Iterator[str]:
    """Yield that a recording consists of parts with nothing between them."""
    start_ns = np.sort(subject.history.spans().start_ns)
    if len(start_ns) < 2:
        return
    gaps = np.diff(start_ns)
    widest = int(np.argmax(gaps))
    if gaps[widest] > 10 * _MINUTE_NS and gaps[widest] > subject.length_ns / 2:
        days = int(gaps[widest]) // (86400 * 10**9)
        apart = f"{days:,} days" if days > 1 else rounded_ns(int(gaps[widest]))
        yield f"what happened between two parts of the recording, which are {apart} apart."
