"""Recordings of Python programs: event loops as a queue, and what tasks or requests waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import Coded
from meantime.model.durations import nearest_rank
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.comparison import compare_slow
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import Meaning, Meanings, TimeClass, lanes_of_states
from meantime.query.explain.resources import resource_use
from meantime.query.findings.limits import (
    EVENT_LOOP,
    FULL_LOOP,
    LIMITS,
    WORKER_LIMITS,
    WORKERS,
)
from meantime.query.sentences import FILE, counted, percent
from meantime.query.sites import SPAWNED, tasks_by_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.explain.lanes import Lanes
    from meantime.query.explain.resources import Resource
    from meantime.query.explain.subject import Subject
    from meantime.query.findings.limits import Limit
    from meantime.query.scope import Kind

__all__ = ["explain_recording"]

LOOP, TASK, REQUEST, WORKER = "Loop", "Task", "Request", "Worker"
_ENDED = Meaning(TimeClass.IDLE, "ended")
_TASK_STATES = {
    "running": Meaning(TimeClass.WORK, "running"),
    "runnable": Meaning(TimeClass.READY, EVENT_LOOP),
    "spawned": Meaning(TimeClass.READY, EVENT_LOOP),
    "blocked": Meaning(TimeClass.READY, EVENT_LOOP),
    **dict.fromkeys(("completed", "failed", "cancelled", "dropped"), _ENDED),
}
_LOOP_STATES = {
    "running": Meaning(TimeClass.WORK, "running"),
    "parked": Meaning(TimeClass.IDLE, "parked"),
    "stopped": Meaning(TimeClass.IDLE, "stopped"),
    "cpu-wait": Meaning(TimeClass.READY, "CPU"),
    "gil-wait": Meaning(TimeClass.READY, "GIL"),
    "gil-handoff": Meaning(TimeClass.READY, "GIL"),
}
_FULL, _READY_SAID = 0.9, 0.2
_FOUND_SAID, _FOUND_NS, _WAITS_SAID, _SLOW_SAID = 0.02, 10**8, 0.5, 0.05
# As many of a kind may be what the program is about, and so many waits each are worth a word.
_FEWEST, _OFTEN, _MOST = 3, 5, 20
# What waits for these has nothing to do.
_QUIET = ("queue",)
_WAIT = "waiting:"


def explain_recording(subject: Subject) -> Explanation | None:
    """Return what limited the tasks of a recorded program; None for other traces."""
    loop_kind, task_kind = subject.kind(LOOP), subject.kind(TASK)
    if task_kind is None or subject.activity is not None:
        return None
    if loop_kind is None:
        return _explain_workers(subject, task_kind)
    tasks = _lanes(subject, task_kind, _task_meaning, _ENDED)
    loops = _lanes(subject, loop_kind, _loop_meaning, Meaning(TimeClass.IDLE, "stopped"))
    ready = tasks.chosen(TimeClass.READY, label=EVENT_LOOP)
    used = loops.chosen(TimeClass.WORK, TimeClass.READY, TimeClass.WAIT)
    loop = resource_use(
        EVENT_LOOP,
        subject.range_ns,
        busy=(loops.start_ns[used], loops.end_ns[used]),
        ready=(tasks.start_ns[ready], tasks.end_ns[ready]),
        capacity=len(loops),
    )
    request_kind = subject.kind(REQUEST)
    requests = (
        None if request_kind is None else _lanes(subject, request_kind, _task_meaning, _ENDED)
    )
    lanes, noun = (tasks, "task") if requests is None else (requests, "request")
    found = list(_found(subject, tasks, LIMITS))
    if not any(each.id == FULL_LOOP for each in found):
        found += _loop_use(subject, tasks, loops, loop)
    measures = [*found, *_activities(subject, lanes, noun)]
    return Explanation(
        "recording",
        noun,
        len(lanes),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of(Meanings(lanes.kind, lanes.label), lanes.duration_ns).without(TimeClass.IDLE),
        (loop,),
    )


def _explain_workers(subject: Subject, task_kind: Kind) -> Explanation | None:
    """Return what limited the tasks of a runtime such as tokio; None for other traces."""
    if not len(tasks_by_tag(subject.history)):
        return None
    tasks = _lanes(subject, task_kind, _polled_meaning, _ENDED)
    workers = subject.kind(WORKER)
    runs, ready = tasks.chosen(TimeClass.WORK), tasks.chosen(TimeClass.READY)
    worker = resource_use(
        WORKERS,
        subject.range_ns,
        busy=(tasks.start_ns[runs], tasks.end_ns[runs]),
        ready=(tasks.start_ns[ready], tasks.end_ns[ready]),
        capacity=None if workers is None else len(workers.quarks),
    )
    measures = [*_found(subject, tasks, WORKER_LIMITS), *_activities(subject, tasks, TASK.lower())]
    return Explanation(
        "recording",
        TASK.lower(),
        len(tasks),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of(Meanings(tasks.kind, tasks.label), tasks.duration_ns).without(TimeClass.IDLE),
        (worker,),
    )


def _lanes(
    subject: Subject, kind: Kind, meaning: Callable[[str], Meaning], between: Meaning
) -> Lanes:
    return lanes_of_states(subject.history, kind.quarks, subject.range_ns, meaning, between=between)


def _found(subject: Subject, tasks: Lanes, limits: Sequence[Limit]) -> Iterator[Conclusion]:
    """Yield of each kind of finding that names a limit of the program the one that lost most."""
    for id_, detect, kind, label in limits:
        findings = sorted(detect(subject), key=lambda each: -each.lost_ns)
        # what tasks could save: their own waits, or those for the loop and what it did meanwhile
        waits = tasks.chosen(*([] if kind is None else [kind]), label=label)
        waited_ns = int(tasks.duration_ns[waits].sum())
        for each in findings[:1]:
            ran_ns = each.lost_ns if kind is TimeClass.READY else 0
            yield Conclusion(
                id_,
                f"{each.sentence}.",
                each.lost_ns,
                each.lost_ns / subject.length_ns,
                None if kind is None else waited_ns + ran_ns,
                evidence=(Evidence("", each.arguments),),
                ranges=each.ranges,
                rows=each.rows,
                parts={"count": each.count},
                is_notable=kind is None
                or each.lost_ns >= min(_FOUND_SAID * subject.length_ns, _FOUND_NS),
            )


def _task_meaning(name: str) -> Meaning:
    if name.startswith(_WAIT):
        return Meaning(TimeClass.WAIT, name.removeprefix(_WAIT))
    return _TASK_STATES.get(name, Meaning(TimeClass.WORK, name))


def _polled_meaning(name: str) -> Meaning:
    """Return what a state of a task means that any of several workers can poll."""
    if name == SPAWNED:
        return Meaning(TimeClass.READY, WORKERS)
    return Meaning(TimeClass.WAIT, "something") if name == "waiting" else _task_meaning(name)


def _loop_meaning(name: str) -> Meaning:
    return _LOOP_STATES.get(name, Meaning(TimeClass.WAIT, name))


def _loop_use(subject: Subject, tasks: Lanes, loops: Lanes, loop: Resource) -> Iterator[Conclusion]:
    """Yield how full the event loops were, how long tasks were ready, and who used the loops."""
    if not len(loops.start_ns) or not len(tasks.start_ns):
        return
    ready_ns = loop.ready_ns
    existed_ns = int(tasks.duration_ns[~tasks.chosen(TimeClass.IDLE)].sum())
    ready = ready_ns / max(1, existed_ns)
    recorded_ns = int(loops.duration_ns[~loops.chosen(TimeClass.IDLE, label="stopped")].sum())
    parked_ns = int(loops.duration_ns[loops.chosen(TimeClass.IDLE, label="parked")].sum())
    busy = 1 - parked_ns / max(1, recorded_ns)
    site, used_ns, steps = _busiest_site(subject, tasks)
    ran_ns = int(tasks.duration_ns[tasks.chosen(TimeClass.WORK)].sum())
    many = "event loop was" if len(loops) == 1 else f"{len(loops):,} event loops were"
    text = (
        f"The {many} parked for {percent(1 - busy)} of {rounded_ns(recorded_ns)}, and tasks were"
        f" ready and waited for {percent(ready)} of their time"
    )
    if used_ns:
        text += (
            f": {site} used {percent(used_ns / max(1, ran_ns))} of the time that tasks ran, in"
            f" {counted(steps, 'step')} of {rounded_ns(used_ns / steps)} on average"
        )
    yield Conclusion(
        FULL_LOOP,
        f"{text}.",
        ready_ns,
        busy,
        evidence=(subject.command("stats", FILE, "--by", "site"),),
        parts={
            "parked_share": 1 - busy,
            "ready_share": ready,
            "site": site,
            "site_ns": used_ns,
            "steps": steps,
            "ran_ns": ran_ns,
        },
        is_notable=(busy >= _FULL and ready >= _READY_SAID)
        or (ready_ns > ran_ns / 2 and loop.somebody_waits > _WAITS_SAID),
    )


def _busiest_site(subject: Subject, tasks: Lanes) -> tuple[str, int, int]:
    """Return where the tasks that ran longest were created, for how long, and in how many steps."""
    work = np.flatnonzero(tasks.chosen(TimeClass.WORK))
    sites = subject.sites(tasks.quark)
    site, table = sites.codes, sites.names
    used_ns = np.zeros(len(table), np.int64)
    np.add.at(used_ns, site[tasks.lane[work]], tasks.duration_ns[work])
    first = int(np.argmax(used_ns))
    steps = int(np.count_nonzero(site[tasks.lane[work]] == first))
    return table[first], int(used_ns[first]), steps


class _Activities(NamedTuple):
    """Requests of a route, or tasks that were created at one place.

    Attributes:
        name: The route or the place.
        lane: int64, the lane of each.
        duration_ns: int64, how long each took.
        activity: int64, by part: which one it is of.
        meanings: By part, what it means; waits are named with the place of the code.
        part_ns: int64, by part.
    """

    name: str
    lane: Int64s
    duration_ns: Int64s
    activity: Int64s
    meanings: Meanings
    part_ns: Int64s


def _activities(subject: Subject, lanes: Lanes, noun: str) -> Iterator[Conclusion]:
    """Yield what the activities of the kind that took most time waited for."""
    found = _largest_kind(subject, lanes)
    if found is None:
        return
    slug = f"{noun}s"
    budget = Budget.of(found.meanings, found.part_ns)
    waits = [row for row in budget.rows if row.kind in {TimeClass.WAIT, TimeClass.READY}]
    number = len(found.lane)
    by = "request" if noun == REQUEST.lower() else "site"
    if waits:
        row = waits[0]
        names = found.meanings.label.names
        is_row = (found.meanings.kind == row.kind) & (
            found.meanings.label.codes == list(names).index(row.label)
        )
        times = int(np.count_nonzero(is_row))
        often = f", in {times / number:,.0f} waits each" if times >= _OFTEN * number else ""
        did = (
            f"waited for {row.label}"
            if row.kind is TimeClass.WAIT
            else f"were ready and waited for the {row.label}"
        )
        median_ns = int(np.sort(found.duration_ns)[nearest_rank(number, 50)])
        yield Conclusion(
            f"{slug}.waits",
            f"{_these(found, noun)} took {rounded_ns(budget.total_ns)} in all,"
            f" {rounded_ns(median_ns)} at the median: for {rounded_ns(row.total_ns)}"
            f" ({percent(row.share)}) of that they {did}{often}.",
            row.total_ns,
            row.share,
            row.total_ns,
            evidence=(subject.command("stats", FILE, "--by", by),),
            rows=tuple(subject.path(int(lanes.quark[each])) for each in found.lane[:3].tolist()),
            parts={
                noun: found.name,
                slug: number,
                "waits": times,
                "budget": budget.as_json()[:_MOST],
            },
            is_notable=row.share > _WAITS_SAID
            and number >= _FEWEST
            and not row.label.startswith(_QUIET),
        )
    yield from _slow(subject, lanes, found, noun)


def _slow(subject: Subject, lanes: Lanes, found: _Activities, noun: str) -> Iterator[Conclusion]:
    """Yield what the slow activities of a kind spent more time on than the usual ones."""
    compared = compare_slow(found.duration_ns, found.activity, found.meanings, found.part_ns)
    if compared is None or not compared.said:
        return
    slowest = int(compared.slow[0])
    more = compared.said[0]
    lost_ns = int(found.duration_ns[compared.slow].sum())
    lost_ns -= compared.median_ns * len(compared.slow)
    extent = lanes.extent(int(found.lane[slowest]))
    assert extent is not None
    verb = "waiting for" if more.kind in {TimeClass.WAIT, TimeClass.READY} else "in"
    total_ns = int(found.duration_ns.sum())
    yield Conclusion(
        f"{noun}s.slow",
        f"The slowest of {_these(found, noun)} took"
        f" {rounded_ns(int(found.duration_ns[slowest]))}, usually"
        f" {rounded_ns(compared.median_ns)}; the {counted(len(compared.slow), 'slow one')} spent"
        f" {rounded_ns(int(more.mean_ns))} more each {verb} {more.label}.",
        lost_ns,
        lost_ns / max(1, total_ns),
        lost_ns,
        evidence=(subject.statemap(extent),),
        ranges=(extent,),
        rows=(subject.path(int(lanes.quark[int(found.lane[slowest])])),),
        parts={
            noun: found.name,
            "slow": len(compared.slow),
            "median_ns": compared.median_ns,
            "differences": [each.as_json() for each in compared.differences[:_MOST]],
        },
        is_notable=lost_ns >= _SLOW_SAID * total_ns,
    )


def _these(found: _Activities, noun: str) -> str:
    """Return how many of which kind, such as `60 requests GET /order` or `1 task of main`."""
    return f"{counted(len(found.lane), noun)} {'' if noun == 'request' else 'of '}{found.name}"


def _largest_kind(subject: Subject, lanes: Lanes) -> _Activities | None:
    """Return the activities of the kind that took most time, of those that there are several of."""
    is_idle = lanes.chosen(TimeClass.IDLE)
    took_ns = np.zeros(len(lanes), np.int64)
    np.add.at(took_ns, lanes.lane[~is_idle], lanes.duration_ns[~is_idle])
    sites = subject.sites(lanes.quark)
    kinds = {
        name: np.flatnonzero((sites.codes == code) & (took_ns > 0))
        for code, name in enumerate(sites.names)
    }
    kinds = {name: own for name, own in kinds.items() if len(own)}
    several = {name: own for name, own in kinds.items() if len(own) >= _FEWEST} or kinds
    if not several:
        return None
    name, own = max(several.items(), key=lambda each: int(took_ns[each[1]].sum()))
    chosen = own.astype(np.int64)
    number = np.full(len(lanes), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    parts = np.flatnonzero((number[lanes.lane] >= 0) & ~is_idle)
    return _Activities(
        name,
        chosen,
        took_ns[chosen],
        number[lanes.lane[parts]],
        _placed(subject, lanes, parts),
        lanes.duration_ns[parts],
    )


def _placed(subject: Subject, lanes: Lanes, parts: Int64s) -> Meanings:
    """Return what parts mean, waits with the function and the line that waited."""
    places = Coded.of([*map(subject.place, range(len(subject.history.tags))), ""])
    is_wait = lanes.kind[parts] == TimeClass.WAIT
    place = np.where(is_wait, places.codes[lanes.tag[parts]], places.codes[-1])
    keys = lanes.label.codes[parts].astype(np.int64) * len(places.names) + place
    used, codes = np.unique(keys, return_inverse=True)
    names = []
    for key in used.tolist():
        label, where = divmod(key, len(places.names))
        names.append(" at ".join(filter(None, [lanes.label.names[label], places.names[where]])))
    return Meanings(lanes.kind[parts], Coded(codes.reshape(-1).astype(np.int32), names))
