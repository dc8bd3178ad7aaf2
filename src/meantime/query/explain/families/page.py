"""Pages in a browser: which tasks kept the main thread busy for so long that a person notices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import (
    Meaning,
    Meanings,
    TimeClass,
    lanes_of_spans,
    meanings_of,
)
from meantime.query.explain.span_rows import matching_rows
from meantime.query.sentences import FILE, counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.subject import Subject

__all__ = ["explain_page"]

# A task of more than this is a long one; the time beyond it blocks input.
LONG_NS = 50_000_000
_MAIN_THREAD = {"CrRendererMain": "the renderer", "CrBrowserMain": "the browser"}
_TASK = re.compile(
    r"^(?:RunTask|MessageLoop::RunTask|ThreadControllerImpl::(?:DoWork|RunTask)"
    r"|TaskScheduler RunTask|ThreadPool_RunTask|TaskQueueManager::ProcessTaskFromWorkQueue)$"
)
_LAYOUT = re.compile(r"^(?:Layout|UpdateLayoutTree|RecalculateStyles|ParseAuthorStyleSheet)$")
_SCRIPT = re.compile(
    r"^(?:EvaluateScript|FunctionCall|v8\.run|RunMicrotasks|TimerFire|EventDispatch)$"
)
_FORCED_NS = 30_000_000
_NAMED = 5
_GROUPS = (
    (
        re.compile(r"^(?:EvaluateScript|FunctionCall|v8\.|V8\.|RunMicrotasks|TimerFire|Event)"),
        "scripts",
    ),
    (re.compile(r"GC"), "garbage collection"),
    (re.compile(r"^(?:Layout|UpdateLayoutTree|RecalculateStyles|HitTest)"), "style and layout"),
    (
        re.compile(r"^(?:Paint|UpdateLayer|Commit|Composite|RasterTask|PrePaint|Layerize)"),
        "painting",
    ),
    (re.compile(r"^(?:ParseHTML|ParseAuthorStyleSheet|HTMLDocument)"), "parsing"),
)


def explain_page(subject: Subject) -> Explanation | None:
    """Return what kept the main threads of a browser busy; None for other traces."""
    history = subject.history
    spans = subject.spans
    mains = [
        (index, name)
        for index, quark in enumerate(spans.threads.tolist())
        if (name := history.names.get(quark, "")) in _MAIN_THREAD
    ]
    if not mains:
        return None
    measures: list[Conclusion] = []
    rows: list[tuple[TimeClass, str, int]] = []
    renderers = [index for index, name in mains if _MAIN_THREAD[name] == "the renderer"]
    for index, name in mains:
        own = _tasks(spans, index)
        if len(own):
            measures.append(_long_tasks(subject, spans, index, own, _MAIN_THREAD[name]))
    chosen = renderers or [index for index, _ in mains]
    for index in chosen:
        rows += _budget(subject, spans, index)
        measures += _forced_layout(subject, spans, index)
    measures = _merged(measures)
    return Explanation(
        "page",
        "main thread",
        len(chosen),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of_rows(rows),
        missing=("When the page was first painted and could be used is not looked at.",),
    )


def _tasks(spans: SpanTable, thread: int) -> Int64s:
    """Return the tasks of a thread: the outermost spans that are tasks, or else all of them."""
    first, last = spans.offsets[thread : thread + 2].tolist()
    rows = np.arange(first, last)
    named = matching_rows(spans.name, _TASK.match)
    named = named[(named >= first) & (named < last)]
    candidates = named if len(named) else rows
    # a task that another one runs is part of it
    order = candidates[np.argsort(spans.start_ns[candidates], kind="stable")]
    ends = np.maximum.accumulate(spans.end_ns[order])
    is_outer = np.append(True, spans.start_ns[order[1:]] >= ends[:-1])[: len(order)]
    outer: Int64s = order[is_outer]
    return outer


def _long_tasks(
    subject: Subject, spans: SpanTable, thread: int, tasks: Int64s, who: str
) -> Conclusion:
    duration_ns = spans.end_ns[tasks] - spans.start_ns[tasks]
    long = tasks[duration_ns > LONG_NS]
    blocking_ns = int(np.maximum(duration_ns - LONG_NS, 0).sum())
    worst = int(tasks[np.argmax(duration_ns)])
    longest_ns = int(duration_ns.max())
    process = subject.history.attributes.path(int(spans.threads[thread]))[1]
    name = f"{who} ({process})"
    if len(long):
        times = [rounded_ns(int(spans.end_ns[row] - spans.start_ns[row])) for row in long.tolist()]
        text = (
            f"{counted(len(long), 'task')} of {name} took more than 50 ms"
            f" ({listed(times, _NAMED)}): {rounded_ns(blocking_ns)} of them blocks input"
        )
        if inside := _inside(spans, worst):
            text += f"; the longest is mostly {inside}"
    else:
        text = f"No task of {name} took more than 50 ms; the longest took {rounded_ns(longest_ns)}"
    order = long[np.argsort(spans.start_ns[long] - spans.end_ns[long], kind="stable")]
    place = int(spans.start_ns[worst]), int(spans.end_ns[worst])
    return Conclusion(
        "page.long_tasks" if who == "the renderer" else "page.long_browser_tasks",
        f"{text}.",
        blocking_ns,
        blocking_ns / subject.length_ns,
        blocking_ns,
        "bound",
        evidence=(
            subject.command(
                *("flame", FILE, "--chart", "-o", "task.svg"),
                around=place,
                handle=f"span {int(spans.rows[worst])}",
            ),
        ),
        ranges=tuple(
            (int(spans.start_ns[row]), int(spans.end_ns[row])) for row in order[:100].tolist()
        ),
        rows=(subject.path(int(spans.threads[thread])),),
        parts={
            "process": process,
            "tasks": len(long),
            "durations_ns": [int(spans.end_ns[row] - spans.start_ns[row]) for row in long.tolist()],
            "blocking_ns": blocking_ns,
            "longest_ns": longest_ns,
            "longest_inside": _inside(spans, worst),
        },
        is_notable=len(long) > 0,
    )


def _inside(spans: SpanTable, task: int) -> str:
    """Return the name of the innermost span that takes most of a task; empty if none does."""
    part, _ = spans.around(task)
    own = np.argsort(-part.self_ns, kind="stable")
    whole = int(spans.end_ns[task] - spans.start_ns[task])
    for row in own[:2].tolist():
        name = part.name[row] or ""
        if not _TASK.match(name) and part.self_ns[row] > whole / 4:
            return name
    return ""


def _merged(measures: list[Conclusion]) -> list[Conclusion]:
    """Return the worst of each kind first; several processes have the same kind of thread."""
    found: dict[str, Conclusion] = {}
    for each in measures:
        known = found.get(each.id)
        if known is None or (each.value_ns or 0) > (known.value_ns or 0):
            found[each.id] = each
    return [*found.values()]


def _forced_layout(subject: Subject, spans: SpanTable, thread: int) -> Iterator[Conclusion]:
    """Yield how long scripts waited for layout that they asked for."""
    first, last = spans.offsets[thread : thread + 2].tolist()
    layouts = matching_rows(spans.name, _LAYOUT.match)
    layouts = layouts[(layouts >= first) & (layouts < last)]
    scripts = set(matching_rows(spans.name, _SCRIPT.match).tolist())
    forced = []
    for row in layouts.tolist():
        above = int(spans.parent[row])
        while above >= 0 and above not in scripts:
            above = int(spans.parent[above])
        if above >= 0:
            forced.append(row)
    rows = np.array(forced, np.int64)
    total_ns = int((spans.end_ns[rows] - spans.start_ns[rows]).sum()) if forced else 0
    if not forced:
        return
    worst = int(rows[np.argmax(spans.end_ns[rows] - spans.start_ns[rows])])
    yield Conclusion(
        "page.forced_layout",
        f"Scripts made the page compute its layout {len(forced):,} times while they ran:"
        f" {rounded_ns(total_ns)}.",
        total_ns,
        total_ns / subject.length_ns,
        total_ns,
        "bound",
        evidence=(Evidence(f"span {int(spans.rows[worst])}", ("stats", FILE, "--by", "name")),),
        ranges=((int(spans.start_ns[worst]), int(spans.end_ns[worst])),),
        is_notable=total_ns > _FORCED_NS,
    )


def _budget(
    subject: Subject, spans: SpanTable, thread: int
) -> Iterator[tuple[TimeClass, str, int]]:
    quark = int(spans.threads[thread])
    own = spans.select([quark])
    lanes = lanes_of_spans(
        own,
        subject.range_ns,
        meanings_of(own.name, _meaning),
        between=Meaning(TimeClass.IDLE, "no task"),
    )
    budget = Budget.of(Meanings(lanes.kind, lanes.label), lanes.duration_ns)
    for row in budget.rows:
        yield row.kind, row.label, row.total_ns
    rest_ns = subject.length_ns - budget.total_ns
    yield TimeClass.IDLE, "no task", rest_ns


def _meaning(name: str) -> Meaning:
    for pattern, label in _GROUPS:
        if pattern.search(name):
            return Meaning(TimeClass.WORK, label)
    return Meaning(TimeClass.WORK, "other tasks" if _TASK.match(name) else name)
