"""Builds: what a compiler, ninja or Bazel spent its time on, and whether more jobs would help.

A build is as long as its longest chain of steps that wait for each other. More slots help as far as
that chain is shorter than the build.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import (
    Meaning,
    Meanings,
    TimeClass,
    lanes_of_spans,
)
from meantime.query.explain.resources import resource_use
from meantime.query.explain.span_rows import (
    NO_RANGES,
    categories_of,
    duration_of,
    rows_in,
    rows_named,
    total_of,
)
from meantime.query.sentences import FILE, counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.resources import Resource
    from meantime.query.explain.subject import Subject
    from meantime.query.ranges import Range

__all__ = ["explain_bazel", "explain_compiler", "explain_ninja"]

_MOST = 20
_NAMED = 3
# What is built differs in size, so no step is usual for others of its name.
_NO_CALLS: frozenset[str] = frozenset()


# The compiler: clang with -ftime-trace.

_FRONT, _BACK, _WHOLE, _HEADER = "Frontend", "Backend", "ExecuteCompiler", "Source"
_INSTANTIATIONS = ("InstantiateFunction", "InstantiateClass", "ParseTemplate")
_OPTIMIZED = ("OptFunction", "CodeGen Function")
_DETAIL_SAID = 0.1


def explain_compiler(subject: Subject) -> Explanation | None:
    """Return what a compiler spent its time on; None for other traces."""
    spans = subject.spans
    names = set(spans.name.names)
    if _WHOLE not in names or not names & {_FRONT, _BACK}:
        return None
    rows = {name: rows_named(spans, name) for name in (_WHOLE, _FRONT, _BACK, _HEADER)}
    if not len(rows[_WHOLE]):
        return None
    total_ns = total_of(spans, rows[_WHOLE])
    front_ns, back_ns = total_of(spans, rows[_FRONT]), total_of(spans, rows[_BACK])
    other_ns = max(0, total_ns - front_ns - back_ns)
    flame = Evidence("", ("flame", FILE, "--chart", "-o", "compile.svg"))
    measures = [
        Conclusion(
            "compile.phases",
            f"The compiler took {rounded_ns(total_ns)}: {rounded_ns(front_ns)}"
            f" ({percent(front_ns / total_ns)}) for parsing and instantiating templates,"
            f" {rounded_ns(back_ns)} ({percent(back_ns / total_ns)}) for optimizing and generating"
            " code.",
            total_ns,
            1.0,
            evidence=(flame,),
            parts={"total_ns": total_ns, "frontend_ns": front_ns, "backend_ns": back_ns},
        )
    ]
    for id_, verb, wanted in (
        ("compile.header", "Reading", (_HEADER,)),
        ("compile.template", "Instantiating", _INSTANTIATIONS),
        ("compile.function", "Optimizing", _OPTIMIZED),
    ):
        found = _by_detail(spans, wanted)
        if not found:
            continue
        first = found[0]
        times = "" if first.number == 1 else f", {first.number:,} times"
        share = first.total_ns / total_ns
        measures.append(
            Conclusion(
                id_,
                f"{verb} {_last_parts(first.detail) if id_ == 'compile.header' else first.detail}"
                f" took {rounded_ns(first.total_ns)} ({percent(share)}){times}.",
                first.total_ns,
                share,
                first.total_ns,
                "bound",
                evidence=(
                    subject.command(
                        "flame", FILE, "--chart", "-o", "compile.svg", around=first.longest
                    ),
                ),
                ranges=(first.longest,),
                parts={
                    "by": [
                        {"name": each.detail, "ns": each.total_ns, "count": each.number}
                        for each in found[:_MOST]
                    ]
                },
                is_notable=share >= _DETAIL_SAID,
            )
        )
    return Explanation(
        "compiler",
        "compilation",
        len(rows[_WHOLE]),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of_rows(
            [
                (TimeClass.WORK, "front end", front_ns),
                (TimeClass.WORK, "back end", back_ns),
                (TimeClass.WORK, "other", other_ns),
            ]
        ),
        comparable=_NO_CALLS,
    )


class _Detail(NamedTuple):
    """What spans of one name and detail took."""

    detail: str
    total_ns: int
    number: int
    longest: Range


def _by_detail(spans: SpanTable, names: Sequence[str]) -> list[_Detail]:
    """Return the time by detail, most first; one inside another of its detail counts once."""
    totals: dict[str, list[int]] = {}
    found: dict[str, _Detail] = {}
    for row in np.sort(np.concatenate([rows_named(spans, name) for name in names])).tolist():
        detail = _detail(spans.arguments(row))
        if not detail:
            continue
        start_ns, end_ns = int(spans.start_ns[row]), int(spans.end_ns[row])
        last = totals.setdefault(detail, [start_ns - 1])
        known = found.get(detail, _Detail(detail, 0, 0, (start_ns, start_ns)))
        inside = start_ns < last[0]
        longest = known.longest
        if end_ns - start_ns > longest[1] - longest[0]:
            longest = start_ns, end_ns
        found[detail] = _Detail(
            detail,
            known.total_ns + (0 if inside else end_ns - start_ns),
            known.number + 1,
            longest,
        )
        last[0] = max(last[0], end_ns)
    return sorted(found.values(), key=lambda each: -each.total_ns)


def _detail(text: str | None) -> str:
    try:
        fields = json.loads(text or "{}")
    except ValueError:
        return ""
    detail = fields.get("detail", "") if isinstance(fields, dict) else ""
    return detail if isinstance(detail, str) else ""


def _last_parts(path: str) -> str:
    """Return the end of a path that says which header it is.

    >>> _last_parts("/usr/include/boost/graph/adjacency_list.hpp")
    'boost/graph/adjacency_list.hpp'
    """
    parts = path.replace("\\", "/").split("/")
    inside = next((at for at in range(len(parts) - 1, -1, -1) if parts[at] == "include"), None)
    kept = parts[-2:] if inside is None or inside == len(parts) - 1 else parts[inside + 1 :]
    return "/".join(kept)


# Ninja, whose log has when each command began and ended.

_COMMAND = "command"
_ALONE_SAID, _LONGEST_SAID = 0.2, 0.5


def explain_ninja(subject: Subject) -> Explanation | None:
    """Return how parallel the last build of a log of ninja was; None for other traces."""
    spans = subject.spans
    if categories_of(spans) != {_COMMAND}:
        return None
    builds = _builds(subject, spans)
    measures: list[Conclusion] = []
    resources: list[Resource] = []
    for number, rows in enumerate(builds):
        is_last = number == len(builds) - 1
        name = "the build" if len(builds) == 1 else f"build {number + 1} of {len(builds)}"
        found, resource = _of_build(subject, spans, rows, name)
        suffix = "" if is_last else f".{number + 1}"
        measures.append(_renamed(found, suffix, is_notable=is_last))
        if is_last:
            resources.append(resource)
            measures += _longest_command(spans, rows, resource)
    measures.sort(key=lambda each: each.id != "build.longest")
    rows = builds[-1]
    budget = Budget.of_rows(
        (TimeClass.WORK, str(spans.name[row]), int(spans.end_ns[row] - spans.start_ns[row]))
        for row in rows.tolist()
    )
    return Explanation(
        "build",
        "command",
        len(rows),
        (int(spans.start_ns[rows].min()), int(spans.end_ns[rows].max())),
        tuple(measures),
        budget,
        tuple(resources),
        comparable=_NO_CALLS,
    )


def _renamed(conclusion: Conclusion, suffix: str, *, is_notable: bool) -> Conclusion:
    from dataclasses import replace  # noqa: PLC0415 - a log has few builds

    return replace(conclusion, id=conclusion.id + suffix, is_notable=is_notable)


def _builds(subject: Subject, spans: SpanTable) -> list[Int64s]:
    """Return the rows of each build of the log, in order of time: each is a process."""
    attributes = subject.history.attributes
    process = attributes.parents(attributes.parents(spans.threads))
    of_row = np.repeat(process, np.diff(spans.offsets))
    found = [np.flatnonzero(of_row == quark) for quark in np.unique(process).tolist()]
    kept = [rows for rows in found if len(rows)]
    return sorted(kept, key=lambda rows: int(spans.start_ns[rows].min()))


def _of_build(
    subject: Subject, spans: SpanTable, rows: Int64s, name: str
) -> tuple[Conclusion, Resource]:
    start_ns, end_ns = spans.start_ns[rows], spans.end_ns[rows]
    range_ns = int(start_ns.min()), int(end_ns.max())
    whole_ns = max(1, range_ns[1] - range_ns[0])
    work_ns = int((end_ns - start_ns).sum())
    chain = _chain(spans, rows)
    slots = resource_use("slot", range_ns, busy=(start_ns, end_ns), ready=NO_RANGES)
    ends = [f"{spans.name[row]} ({rounded_ns(duration_of(spans, row))})" for row in chain[-_NAMED:]]
    text = (
        f"{name.capitalize()} took {rounded_ns(whole_ns)} for {rounded_ns(work_ns)} of work:"
        f" {work_ns / whole_ns:.2f} of at least {counted(slots.capacity, 'job')} at once. Its end"
        f" is {', then '.join(ends)}."
    )
    conclusion = Conclusion(
        "build.parallelism",
        text,
        whole_ns,
        work_ns / whole_ns / slots.capacity,
        evidence=(subject.command("flame", FILE, "--chart", "-o", "build.svg", around=range_ns),),
        ranges=(range_ns,),
        parts={
            "work_ns": work_ns,
            "wall_ns": whole_ns,
            "parallelism": work_ns / whole_ns,
            "slots": slots.capacity,
            "chain": [str(spans.name[row]) for row in chain],
            "chain_ns": sum(duration_of(spans, row) for row in chain),
        },
    )
    return conclusion, slots


def _chain(spans: SpanTable, rows: Int64s) -> list[int]:
    """Return the chain at the end of a build: what ended last, and what ended before each began.

    A command begins when what it needs has been made, or when a slot is free: either way, when
    another command ends.
    """
    order = rows[np.argsort(spans.end_ns[rows], kind="stable")]
    ends = spans.end_ns[order]
    at = len(order) - 1
    found = []
    while at >= 0:
        row = int(order[at])
        found.append(row)
        at = min(at, int(np.searchsorted(ends, spans.start_ns[row], side="right"))) - 1
    return found[::-1]


def _longest_command(spans: SpanTable, rows: Int64s, slots: Resource) -> Iterator[Conclusion]:
    """Yield the command that ran alone longest, as the link at the end does, or took longest."""
    alone_ns = _alone(spans, rows)
    length_ns = spans.end_ns[rows] - spans.start_ns[rows]
    whole_ns = max(1, slots.length_ns)
    is_alone = int(alone_ns.max()) >= _ALONE_SAID * whole_ns
    worst = int(np.argmax(alone_ns if is_alone else length_ns))
    row = int(rows[worst])
    took_ns, own_ns = int(length_ns[worst]), int(alone_ns[worst])
    text = f"{spans.name[row]} took {rounded_ns(took_ns)} ({percent(took_ns / whole_ns)})"
    if is_alone:
        text += f", and nothing else ran for {rounded_ns(own_ns)} of that"
    yield Conclusion(
        "build.longest",
        f"{text}: more jobs do not help there.",
        took_ns,
        took_ns / whole_ns,
        own_ns if is_alone else None,
        evidence=(Evidence(f"span {int(spans.rows[row])}", ("stats", FILE, "--by", "name")),),
        ranges=((int(spans.start_ns[row]), int(spans.end_ns[row])),),
        parts={"alone_ns": own_ns},
        is_notable=is_alone or took_ns >= _LONGEST_SAID * whole_ns,
    )


def _alone(spans: SpanTable, rows: Int64s) -> Int64s:
    """Return for how long each command was the only one that ran."""
    start_ns, end_ns = spans.start_ns[rows], spans.end_ns[rows]
    starts, ends = np.sort(start_ns), np.sort(end_ns)
    times = np.unique(np.concatenate([starts, ends]))
    running = np.searchsorted(starts, times, side="right") - np.searchsorted(
        ends, times, side="right"
    )
    lone_ns = np.append(0, np.cumsum(np.where(running[:-1] == 1, np.diff(times), 0)))
    found: Int64s = lone_ns[np.searchsorted(times, end_ns)]
    found -= lone_ns[np.searchsorted(times, start_ns)]
    return found


# Bazel, whose profile has its phases, its critical path and what its threads did.

_PATH_CATEGORY, _ACTION = "critical path component", "action processing"
_GC, _QUEUE, _REMOTE = "gc notification", "Remote execution queuing time", "remote action execution"
_PHASES = (
    "Launch Blaze",
    "Initialize command",
    "Evaluate target patterns",
    "Load and analyze dependencies",
    "Prepare for build",
    "Build artifacts",
    "Complete build",
)
_EXECUTION = "Build artifacts"
_PHASE_SAID, _CHAIN_SAID, _QUEUE_SAID, _GC_SAID, _LINK_SAID = 0.3, 0.75, 0.2, 0.05, 0.2
_REMOTELY = "remote execution"
_PARTS = (
    (re.compile(r"^subprocess|^waiting for response from worker|working$"), "subprocesses"),
    (re.compile(r"^stage remote inputs|prefetch", re.IGNORECASE), "fetching inputs"),
    (re.compile(r"^actuallyCompleteAction"), "completing actions"),
    (re.compile(r"^download outputs"), "downloading outputs"),
    (re.compile(r"^upload missing inputs"), "uploading inputs"),
    (re.compile(r"^check cache hit"), "checking the cache"),
    (re.compile(r"^execute remotely"), _REMOTELY),
)


def explain_bazel(subject: Subject) -> Explanation | None:
    """Return what a build by Bazel was limited by; None for other traces."""
    spans = subject.spans
    if _PATH_CATEGORY not in spans.category.names:
        return None
    path = rows_in(spans, _PATH_CATEGORY)
    path = path[np.argsort(spans.start_ns[path], kind="stable")]
    path = path[spans.end_ns[path] > spans.start_ns[path]]
    if not len(path):
        # a range before or after the critical path
        return None
    phases = _phases(subject, spans)
    execution = phases.get(_EXECUTION, subject.range_ns)
    actions = rows_in(spans, _ACTION)
    measures = [
        *_of_path(subject, spans, path, execution),
        *_of_phases(subject, phases),
        *_of_queue(subject, spans, path, execution),
        *_of_collections(subject, spans),
    ]
    resources = []
    if len(actions):
        low, high = execution
        start_ns = np.clip(spans.start_ns[actions], low, high)
        end_ns = np.clip(spans.end_ns[actions], low, high)
        kept = end_ns > start_ns
        resources.append(
            resource_use("job", execution, busy=(start_ns[kept], end_ns[kept]), ready=NO_RANGES)
        )
    rows = [
        (TimeClass.WORK, name, end - start)
        for name, (start, end) in phases.items()
        if name != _EXECUTION
    ]
    rows += _path_parts(spans, path)
    on_path_ns = total_of(spans, path)
    outside_ns = max(0, execution[1] - execution[0] - on_path_ns)
    rows.append((TimeClass.READY, "a job, beside the critical path", outside_ns))
    return Explanation(
        "bazel",
        "action",
        len(actions),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of_rows(rows),
        tuple(resources),
        comparable=_NO_CALLS,
    )


def _phases(subject: Subject, spans: SpanTable) -> dict[str, Range]:
    """Return the phases of the build: each ends where the next one begins."""
    points = subject.history.points()
    begins = {
        name: int(time_ns)
        for time_ns, name in zip(points.time_ns.tolist(), points.name.to_list(), strict=True)
        if name in _PHASES
    }
    for row in rows_named(spans, _PHASES[0]).tolist():
        begins.setdefault(_PHASES[0], int(spans.start_ns[row]))
    ordered = sorted((time_ns, name) for name, time_ns in begins.items())
    ends = [*(time_ns for time_ns, _ in ordered[1:]), subject.end_ns]
    low, high = subject.range_ns
    return {
        str(name): (max(time_ns, low), min(end_ns, high))
        for (time_ns, name), end_ns in zip(ordered, ends, strict=True)
        if min(end_ns, high) > max(time_ns, low)
    }


def _action_name(name: str | None) -> str:
    """Return the name of an action on the critical path.

    >>> _action_name("action 'Linking x'")
    'Linking x'
    """
    return (name or "").removeprefix("action '").removesuffix("'")


def _of_path(
    subject: Subject, spans: SpanTable, path: Int64s, execution: Range
) -> Iterator[Conclusion]:
    whole_ns = subject.length_ns
    execution_ns = execution[1] - execution[0]
    total_ns = total_of(spans, path)
    longest = int(path[np.argmax(spans.end_ns[path] - spans.start_ns[path])])
    longest_ns = duration_of(spans, longest)
    place = int(spans.start_ns[longest]), int(spans.end_ns[longest])
    name = _action_name(spans.name[longest])
    share = total_ns / execution_ns
    parts = [(label, time_ns) for _, label, time_ns in _path_parts(spans, path)]
    by = sorted(parts, key=lambda each: -each[1])
    chart = subject.command("flame", FILE, "--chart", "-o", "build.svg", around=execution)
    yield Conclusion(
        "build.critical_path",
        f"The critical path is {rounded_ns(total_ns)} of {rounded_ns(execution_ns)} of execution"
        f" ({percent(share)}), in {counted(len(path), 'action')}; the longest is {name},"
        f" {rounded_ns(longest_ns)}.",
        total_ns,
        share,
        longest_ns,
        "bound",
        evidence=(chart,),
        ranges=(place,),
        parts={
            "execution_ns": execution_ns,
            "actions": [
                {"name": _action_name(spans.name[row]), "ns": duration_of(spans, row)}
                for row in path.tolist()
            ],
            "by": [{"name": label, "ns": time_ns} for label, time_ns in by],
        },
        is_notable=longest_ns > _LINK_SAID * whole_ns or share >= _CHAIN_SAID,
    )
    if len(by) > 1:
        shown = [f"{rounded_ns(time_ns)} {label}" for label, time_ns in by[:4] if time_ns]
        yield Conclusion(
            "build.path_parts",
            f"The critical path is {listed(shown, 4)}.",
            by[0][1],
            by[0][1] / max(1, total_ns),
            evidence=(chart,),
            parts={"by": [{"name": label, "ns": time_ns} for label, time_ns in by]},
            is_notable=share >= _CHAIN_SAID,
        )
    bound_ns = max(0, execution_ns - total_ns)
    yield Conclusion(
        "build.jobs",
        f"With more jobs the build would be at most {rounded_ns(bound_ns)}"
        f" ({percent(bound_ns / whole_ns)}) shorter: its longest chain is {rounded_ns(total_ns)} of"
        f" {rounded_ns(execution_ns)}.",
        bound_ns,
        bound_ns / whole_ns,
        bound_ns,
        "bound",
        evidence=(chart,),
        is_notable=share < _CHAIN_SAID,
    )


def _path_parts(spans: SpanTable, path: Int64s) -> list[tuple[TimeClass, str, int]]:
    """Return what the critical path consists of: what the threads of its actions did."""
    actions = rows_in(spans, _ACTION)
    by_name: dict[str, list[int]] = {}
    for row in actions.tolist():
        by_name.setdefault(str(spans.name[row]), []).append(row)
    found: dict[tuple[TimeClass, str], int] = {}

    def add(key: tuple[TimeClass, str], time_ns: int) -> None:
        found[key] = found.get(key, 0) + time_ns

    for row in path.tolist():
        range_ns = int(spans.start_ns[row]), int(spans.end_ns[row])
        left_ns = range_ns[1] - range_ns[0]
        for action in by_name.get(_action_name(spans.name[row]), ()):
            if not (spans.start_ns[action] < range_ns[1] and spans.end_ns[action] > range_ns[0]):
                continue
            part = spans.select([spans.thread_at(action)], start_ns=range_ns[0], end_ns=range_ns[1])
            lanes = lanes_of_spans(
                part,
                range_ns,
                Meanings(np.zeros(len(part), np.int8), part.name),
                between=Meaning(TimeClass.UNKNOWN, ""),
            )
            for tag, time_ns in zip(lanes.tag.tolist(), lanes.duration_ns.tolist(), strict=True):
                if tag >= 0:
                    add((TimeClass.WORK, _part_label(part, tag)), time_ns)
                    left_ns -= time_ns
            # a remote execution is in its queue at first: both are spans of that time
            queued = rows_in(part, _QUEUE)
            start_ns = np.clip(part.start_ns[queued], *range_ns)
            queued_ns = int((np.clip(part.end_ns[queued], *range_ns) - start_ns).sum())
            queued_ns = min(queued_ns, found.get((TimeClass.WORK, _REMOTELY), 0))
            if queued_ns:
                add((TimeClass.READY, "remote executors"), queued_ns)
                add((TimeClass.WORK, _REMOTELY), -queued_ns)
            break
        if left_ns > 0:
            add((TimeClass.UNKNOWN, ""), left_ns)
    return [(*key, time_ns) for key, time_ns in found.items()]


def _part_label(spans: SpanTable, row: int) -> str:
    name = spans.name[row] or ""
    if spans.category[row] == _QUEUE:
        return _REMOTELY
    return next((label for pattern, label in _PARTS if pattern.search(name)), "other work")


def _of_phases(subject: Subject, phases: dict[str, Range]) -> Iterator[Conclusion]:
    """Yield the longest phase that is not execution."""
    others = {name: each for name, each in phases.items() if name != _EXECUTION}
    if not others:
        return
    name, range_ns = max(others.items(), key=lambda each: each[1][1] - each[1][0])
    time_ns = range_ns[1] - range_ns[0]
    share = time_ns / subject.length_ns
    yield Conclusion(
        "build.phase",
        f"{percent(share)} of the build ({rounded_ns(time_ns)}) is the phase"
        f" {name[0].lower()}{name[1:]}, before anything is built.",
        time_ns,
        share,
        time_ns,
        "bound",
        evidence=(subject.command("flame", FILE, "--chart", "-o", "phase.svg", around=range_ns),),
        ranges=(range_ns,),
        parts={"phases": {each: end - start for each, (start, end) in phases.items()}},
        is_notable=share > _PHASE_SAID,
    )


def _of_queue(
    subject: Subject, spans: SpanTable, path: Int64s, execution: Range
) -> Iterator[Conclusion]:
    """Yield how long remote executions waited for an executor."""
    queued = rows_in(spans, _QUEUE)
    if not len(queued):
        return
    queued_ns, remote_ns = total_of(spans, queued), total_of(spans, rows_in(spans, _REMOTE))
    share = queued_ns / remote_ns if remote_ns else 0.0
    on_path_ns = sum(
        time_ns for kind, _, time_ns in _path_parts(spans, path) if kind is TimeClass.READY
    )
    yield Conclusion(
        "build.queue",
        f"{counted(len(queued), 'remote execution')} queued for {rounded_ns(queued_ns)} of their"
        f" {rounded_ns(remote_ns)} ({percent(share)}); {rounded_ns(on_path_ns)} of that is on the"
        " critical path.",
        queued_ns,
        share,
        on_path_ns,
        "bound",
        evidence=(subject.command("flame", FILE, "--chart", "-o", "build.svg", around=execution),),
        parts={"on_path_ns": on_path_ns, "remote_ns": remote_ns, "executions": len(queued)},
        is_notable=share > _QUEUE_SAID,
    )


def _of_collections(subject: Subject, spans: SpanTable) -> Iterator[Conclusion]:
    rows = rows_in(spans, _GC)
    total_ns = total_of(spans, rows)
    share = total_ns / subject.length_ns
    if len(rows):
        yield Conclusion(
            "build.collections",
            f"Bazel collected garbage for {rounded_ns(total_ns)} ({percent(share)}): a larger heap"
            " collects less often.",
            total_ns,
            share,
            total_ns,
            "bound",
            evidence=(subject.command("stats", FILE, "--by", "name"),),
            is_notable=share > _GC_SAID,
        )
