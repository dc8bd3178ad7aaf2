"""Traces of states: threads of a scheduler, statemaps, and anything else that has states.

Entities are activities; CPUs are a resource, and so is whatever entities are ready for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import MeantimeError
from meantime.kernels.activity_paths import at_once, stretches
from meantime.model.attribute_paths import WAKES
from meantime.model.kernel_threads import is_kernel_thread
from meantime.model.units import rounded_ns
from meantime.query.critical_path import RUNNING, chosen_thread, scheduled_threads
from meantime.query.explain.activity import explain_path
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import (
    Dependencies,
    Meaning,
    Meanings,
    TimeClass,
    in_order,
    lanes_of_states,
)
from meantime.query.explain.resources import Latency, resource_use
from meantime.query.filtering import matching
from meantime.query.sentences import FILE, counted, listed, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.explain.lanes import Lanes
    from meantime.query.explain.resources import Resource
    from meantime.query.explain.subject import Subject

__all__ = ["StateModel", "explain_states", "state_model"]

CPU = "CPU"
_WORK, _READY, _WAIT = TimeClass.WORK, TimeClass.READY, TimeClass.WAIT
# From which share of their own time on it is said that entities wait for something.
_LIMITS = {"lock": 0.1, "disk": 0.5, "I/O": 0.5, "network": 0.5, "uninterruptible": 0.05}
# What the scheduler means by states that have other meanings elsewhere.
_SCHEDULED = {"blocked": Meaning(TimeClass.WAIT, "uninterruptible")}
# An entity waits for these as long as there is nothing to do.
_QUIET = {"sleep", "queue", "tasks", "thread"}
# Ready for more than this share of the time that entities ran: what they are ready for is short.
_SHORT = 0.5
# The disk is slow if at least one waits for it this share of the time, however they share that.
_SOMEBODY = 0.5
_LATE_NS, _LATE_TIMES, _LEAST_LATE_NS = 10**7, 10, 10**6
_MANY_WAITS = 100
_IMBALANCE = 0.05
_MIGRATIONS_PER_S = 100
_UNKNOWN_SAID, _UNKNOWN_MOST = 0.2, 0.05
_MOST_NAMED = 3
# How what is waited for is called in a sentence.
_WHAT = {
    CPU: "a CPU",
    "lock": "locks",
    "disk": "the disk",
    "network": "the network",
    "sleep": "something that is not known",
    "uninterruptible": "something in the kernel (mostly the disk)",
}


class StateModel(NamedTuple):
    """The entities of a trace, and what they compete for.

    Attributes:
        noun: What an entity is: `thread`.
        is_scheduled: Whether these are threads as a trace of the scheduler has them.
        lanes: The entities, connected by what ended their waits.
        titles: By lane, its name.
        cpus: The CPUs, if they are in the trace.
        resources: The resources, most important first.
    """

    noun: str
    is_scheduled: bool
    lanes: Lanes
    titles: Sequence[str]
    cpus: Lanes | None
    resources: tuple[Resource, ...]


def state_model(subject: Subject) -> StateModel | None:
    """Return the entities of a trace and what they compete for; None if it has no states."""
    history, roles = subject.history, subject.roles
    titles = scheduled_threads(history)
    kinds = [kind for kind in subject.kinds if kind.entity_kind != CPU]
    own = {quark for role in roles.resources for quark in history.quarks(role.lanes).tolist()}
    quarks = np.array(
        sorted(
            set(titles) - own
            or {quark for kind in kinds for quark in kind.quarks.tolist() if quark not in own}
        ),
        np.int32,
    )
    cpu_quarks = next(
        (kind.quarks for kind in subject.kinds if kind.entity_kind == CPU), np.empty(0, np.int32)
    )
    if not len(quarks) and not len(cpu_quarks):
        return None
    # other traces of threads have no CPUs
    is_scheduled = bool(titles) and (len(cpu_quarks) > 0 or WAKES in history.flows().name.names)
    if is_scheduled:
        roles = roles._replace(states={**_SCHEDULED, **roles.states})
    between = None if is_scheduled else Meaning(TimeClass.IDLE, "no state")
    lanes = lanes_of_states(history, quarks, subject.range_ns, roles.meaning, between=between)
    flows = history.flows(start_ns=subject.start_ns, end_ns=subject.end_ns + 1)
    wanted = {WAKES} if is_scheduled and roles.flows is None else roles.flows
    if len(flows):
        lanes.connect(Dependencies.of_flows(flows, lanes, wanted))
    cpus = None
    if len(cpu_quarks):
        cpus = lanes_of_states(history, cpu_quarks, subject.range_ns, roles.meaning)
    noun = next((kind.entity_kind.lower() for kind in kinds if kind.entity_kind), "entity")
    return StateModel(
        "thread" if titles else noun,
        is_scheduled,
        lanes,
        [titles.get(quark) or subject.name(quark) for quark in quarks.tolist()],
        cpus,
        tuple(_resources(subject, lanes, cpus)),
    )


def _resources(subject: Subject, lanes: Lanes, cpus: Lanes | None) -> Iterator[Resource]:
    """Yield the resources: CPUs first, then what is declared, then all that lanes are ready for."""
    range_ns = subject.range_ns
    codes = np.flatnonzero(np.bincount(lanes.label.codes[lanes.chosen(_READY)]))
    labels = [lanes.label.names[code] for code in codes.tolist()]
    known = set()
    if cpus is not None:
        known.add(CPU)
        used = cpus.chosen(_WORK, _READY, _WAIT)
        busy_ns = int(cpus.duration_ns[used].sum())
        idle_ns = int(cpus.duration_ns[cpus.chosen(TimeClass.IDLE)].sum())
        yield resource_use(
            CPU,
            range_ns,
            busy=_ranges(cpus, used),
            ready=_ranges(lanes, lanes.chosen(_READY, label=CPU)),
            capacity=len(cpus),
            unknown_ns=len(cpus) * (range_ns[1] - range_ns[0]) - busy_ns - idle_ns,
            latency=_latency(lanes, CPU),
        )
    for role in subject.roles.resources:
        known.add(role.name)
        having = lanes_of_states(
            subject.history, subject.history.quarks(role.lanes), range_ns, subject.roles.meaning
        )
        yield resource_use(
            role.name,
            range_ns,
            busy=_ranges(having, having.chosen(_WORK, _READY, _WAIT)),
            ready=_ranges(lanes, lanes.chosen(_READY, label=role.name)),
            capacity=role.capacity,
            latency=_latency(lanes, role.name),
        )
    for label in labels:
        if label not in known:
            yield resource_use(
                label,
                range_ns,
                busy=_ranges(lanes, _ran(lanes)),
                ready=_ranges(lanes, lanes.chosen(_READY, label=label)),
                latency=_latency(lanes, label),
            )


def _ran(lanes: Lanes) -> npt.NDArray[np.bool_]:
    """Return which parts ran: those that say so, and all work if none does."""
    running = lanes.chosen(_WORK, label=RUNNING)
    return running if running.any() else lanes.chosen(_WORK)


def _ranges(lanes: Lanes, which: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    return lanes.start_ns[which], lanes.end_ns[which]


def _ready_rows(lanes: Lanes, label: str) -> tuple[Int64s, Int64s]:
    """Return the first and the last part of each time that a lane was ready and then ran."""
    ready = np.flatnonzero(lanes.chosen(_READY, label=label))
    if not len(ready):
        return ready, ready
    begins = np.append(
        True, (ready[1:] > ready[:-1] + 1) | (lanes.lane[ready[1:]] != lanes.lane[ready[:-1]])
    )
    first, last = ready[begins], ready[np.append(begins[1:], True)]
    after = np.minimum(last + 1, len(lanes.kind) - 1)
    runs = (lanes.kind[after] == _WORK) & (lanes.lane[after] == lanes.lane[last]) & (after > last)
    return first[runs], last[runs]


def _latency(lanes: Lanes, label: str) -> Latency | None:
    first, last = _ready_rows(lanes, label)
    lasted_ns = lanes.end_ns[last] - lanes.start_ns[first]
    return Latency.of(lasted_ns, longest=int(np.argmax(lasted_ns))) if len(lasted_ns) else None


def explain_states(subject: Subject) -> Explanation | None:
    """Return what limited the entities of a trace; None if it has no states."""
    model = state_model(subject)
    if model is None or _are_samples_better(subject, model):
        return None
    if subject.activity is not None:
        return _explain_one(subject, model, subject.activity)
    lanes = model.lanes if len(model.lanes) or model.cpus is None else model.cpus
    measures = [
        *_saturation(subject, model),
        *_waits(subject, model),
        *_unknown(model),
    ]
    return Explanation(
        "scheduler" if model.is_scheduled else "states",
        model.noun,
        len(model.lanes),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of(Meanings(lanes.kind, lanes.label), lanes.duration_ns),
        model.resources,
        tuple(_missing(subject, model)),
    )


def _are_samples_better(subject: Subject, model: StateModel) -> bool:
    """Return whether states only repeat what samples or spans say: nothing waits for anything."""
    if model.is_scheduled or model.cpus is not None or subject.activity is not None:
        return False
    if model.lanes.chosen(_READY, _WAIT).any():
        return False
    history = subject.history
    return len(history.samples()) > 0 or len(history.spans()) > 0


def _explain_one(subject: Subject, model: StateModel, name: str) -> Explanation:
    """Return why an entity took its time.

    Raises:
        MeantimeError: If not exactly one entity has the name.
    """
    lanes = model.lanes
    lane = _chosen(subject, model, name)
    extent = lanes.extent(lane)
    if extent is None:
        raise MeantimeError(f"{model.titles[lane]} has no state in this range")
    family = "scheduler" if model.is_scheduled else "states"
    found = explain_path(subject, family, model.noun, lanes, model.titles, lane, extent, _WHAT)
    missing = tuple(_missing(subject, model))
    return replace(found, resources=model.resources, missing=missing)


def _chosen(subject: Subject, model: StateModel, name: str) -> int:
    """Return the lane of an entity with a name, an id, or a title that a filter matches."""
    if model.is_scheduled:
        quark = np.array([chosen_thread(subject.history, name)], np.int32)
        return int(model.lanes.numbers(quark)[0])
    found = [lane for lane, title in enumerate(model.titles) if title == name]
    if not found:
        is_meant = matching(name, list(model.titles))
        found = [lane for lane, title in enumerate(model.titles) if is_meant(title)]
    if len(found) == 1:
        return found[0]
    if not found:
        near = listed(model.titles, 5) or "none"
        raise MeantimeError(f"no {model.noun} is called {name!r}; there are {near}")
    several = listed([model.titles[lane] for lane in found], 5)
    raise MeantimeError(f"{name!r} is {counted(len(found), model.noun)}: {several}")


def _saturation(subject: Subject, model: StateModel) -> Iterator[Conclusion]:
    for resource in model.resources:
        verdict = resource.verdict
        worked_ns = int(model.lanes.duration_ns[_ran(model.lanes)].sum())
        is_short = (
            verdict == ""
            and resource.ready_ns > _SHORT * worked_ns
            and resource.somebody_waits > _SHORT
        )
        limits = verdict == "full" or is_short
        users = _users(subject, model, resource)
        names = _most_named(users) if limits else ""
        sentence = (_short_sentence if is_short else _full_sentence)(resource, model, names)
        parts = {
            "capacity": resource.capacity,
            "busy_ns": resource.busy_ns,
            "ready_ns": resource.ready_ns,
            "ready_mean": resource.queue_mean,
            "somebody_waits": resource.somebody_waits,
        }
        yield Conclusion(
            f"{resource.slug}.full",
            sentence,
            resource.full_ns,
            resource.full_share,
            evidence=(
                subject.command("stats", FILE, "--by", "state"),
                subject.statemap(resource.longest_full),
            ),
            ranges=() if resource.longest_full is None else (resource.longest_full,),
            parts=parts,
            is_notable=limits or verdict == "full at times",
        )
        if users is not None:
            yield users
        yield from _late(subject, model, resource, limits=limits)
    if model.cpus is not None and len(model.lanes):
        yield from _imbalance(subject, model, model.cpus)
    if model.is_scheduled:
        yield from _migrations(subject, model)


def _full_sentence(resource: Resource, model: StateModel, users: str) -> str:
    if resource.name == CPU:
        units = "One CPU was" if resource.capacity == 1 else f"The {resource.capacity} CPUs were"
        if not resource.is_declared:
            verb = "was" if resource.capacity == 1 else "were"
            units = f"At least {counted(resource.capacity, 'CPU')} {verb}"
    else:
        units = f"{resource.name} ({resource.capacity}) was"
    length = rounded_ns(resource.length_ns)
    if resource.verdict == "full at times" and resource.longest_full is not None:
        start_ns, end_ns = resource.longest_full
        when = f"full for {rounded_ns(end_ns - start_ns)} of {length}"
    elif resource.utilisation >= 0.995:
        when = f"busy all {length}"
    else:
        when = f"busy for {percent(resource.utilisation)} of {length}"
    used = f", most with {users}" if users else ""
    return f"{units} {when}{used}{_queue(resource, model)}."


def _queue(resource: Resource, model: StateModel) -> str:
    if not resource.ready_ns:
        return ""
    mean = f"{resource.queue_mean:.3g}"
    text = (
        f": on average {mean} of {counted(len(model.lanes), model.noun)}"
        f" {'was' if mean == '1' else 'were'} ready and waited"
    )
    latency = resource.latency
    return f"{text}, one of them for {rounded_ns(latency.max_ns)}" if latency else text


def _short_sentence(resource: Resource, model: StateModel, users: str) -> str:
    lanes = model.lanes
    what = "the CPU" if resource.name == CPU else resource.name
    worked_ns = int(lanes.duration_ns[_ran(lanes)].sum())
    return (
        f"{plural(model.noun).capitalize()} were ready for {rounded_ns(resource.ready_ns)} and ran"
        f" for {rounded_ns(worked_ns)}: {what} was short, and at least one of them waited for it"
        f" {percent(resource.somebody_waits)} of the time"
        f"{f'; most ran {users}' if users else ''}."
    )


def _most_named(users: Conclusion | None) -> str:
    """Return who used a resource most, in a sentence about it; empty if there is only one."""
    if users is None or not users.share or len(by := users.parts["by"]) < 2:
        return ""
    whole_ns = by[0]["ns"] / users.share
    return listed(
        [f"{each['name']} ({percent(each['ns'] / whole_ns)})" for each in by[:_MOST_NAMED]]
    )


def _users(subject: Subject, model: StateModel, resource: Resource) -> Conclusion | None:
    """Return who used a resource most; None if that is not known."""
    lanes = model.lanes
    if not len(lanes) or not resource.busy_ns:
        return None
    names = _program_names(subject, model)
    table: dict[str, int] = {}
    code = np.array([table.setdefault(name, len(table)) for name in names], np.int64)
    work = _ran(lanes)
    used_ns = np.zeros(len(table), np.int64)
    np.add.at(used_ns, code[lanes.lane[work]], lanes.duration_ns[work])
    whole_ns = int(used_ns.sum())
    order = np.argsort(-used_ns, kind="stable")
    order = order[used_ns[order] > 0]
    if not len(order):
        return None
    by = list(table)
    most, most_ns = by[int(order[0])], int(used_ns[order[0]])
    rows = [
        subject.path(int(lanes.quark[lane]))
        for lane in np.flatnonzero(code == order[0]).tolist()[:_MOST_NAMED]
    ]
    return Conclusion(
        f"{resource.slug}.users",
        f"{most} ran for {rounded_ns(most_ns)}, {percent(most_ns / whole_ns)} of what ran.",
        most_ns,
        most_ns / whole_ns,
        evidence=(subject.command("stats", FILE, "--by", "entity"),),
        rows=tuple(rows),
        parts={"by": [{"name": by[row], "ns": int(used_ns[row])} for row in order[:20].tolist()]},
        # said with what is full
        is_notable=False,
    )


def _program_names(subject: Subject, model: StateModel) -> list[str]:
    """Return by lane the name of its program, which several threads have; or its own name."""
    if not model.is_scheduled:
        return [*model.titles]
    names = subject.history.names
    own = model.lanes.quark.tolist()
    return [names.get(quark) or title for quark, title in zip(own, model.titles, strict=True)]


def _late(
    subject: Subject, model: StateModel, resource: Resource, *, limits: bool
) -> Iterator[Conclusion]:
    """Yield how long it took from being ready to running."""
    latency = resource.latency
    if latency is None:
        return
    lanes = model.lanes
    first, last = _ready_rows(lanes, resource.name)
    row = latency.longest
    lane = int(lanes.lane[first[row]])
    worst = int(lanes.start_ns[first[row]]), int(lanes.end_ns[last[row]])
    # of few waits, the p99 is the longest one
    is_late = latency.p99_ns > _LATE_NS or (
        latency.count >= _MANY_WAITS
        and latency.p99_ns > max(_LATE_TIMES * latency.median_ns, _LEAST_LATE_NS)
    )
    what = "a CPU" if resource.name == CPU else resource.name
    title = model.titles[lane]
    share = (worst[1] - worst[0]) / resource.length_ns
    yield Conclusion(
        f"{resource.slug}.latency",
        f"{plural(model.noun).capitalize()} that were ready got {what} after"
        f" {rounded_ns(latency.median_ns)} at the median and {rounded_ns(latency.p99_ns)} at p99;"
        f" {title} waited {rounded_ns(latency.max_ns)} for it.",
        latency.max_ns,
        share,
        evidence=(
            subject.command(
                *(("why", FILE, "--thread", title) if model.is_scheduled else ("stats", FILE)),
                around=worst,
                handle=subject.at(int(lanes.quark[lane]), worst[0]),
            ),
        ),
        ranges=(worst,),
        rows=(subject.path(int(lanes.quark[lane])),),
        parts={
            "longest": {"name": title, "ns": latency.max_ns, "start_ns": worst[0]},
            "p99_ns": latency.p99_ns,
            "median_ns": latency.median_ns,
            "count": latency.count,
        },
        # a resource that is full explains that others wait for it
        # and where events were lost, the longest hundredth may be those that seem longer
        is_notable=is_late
        and not limits
        and latency.max_ns >= subject.least_ns
        and 100 * _lost_ns(subject) < subject.length_ns
        and _is_known(resource),
    )


def _is_known(resource: Resource) -> bool:
    """Return whether enough is known of a resource: where switches were lost, waits seem longer."""
    return resource.unknown_ns <= _UNKNOWN_MOST * resource.capacity * resource.length_ns


def _lost_ns(subject: Subject) -> int:
    """Return in how much of the range events were lost."""
    return sum(
        max(0, min(end, subject.end_ns) - max(start, subject.start_ns))
        for start, end in subject.history.lost
    )


def _imbalance(subject: Subject, model: StateModel, cpus: Lanes) -> Iterator[Conclusion]:
    """Yield for how long a CPU was idle while a thread was ready for one."""
    lanes = model.lanes
    idle = _ranges(cpus, cpus.chosen(TimeClass.IDLE))
    # to wake up an idle CPU takes time, which is nobody's fault
    first, last = _ready_rows(lanes, CPU)
    long = lanes.end_ns[last] - lanes.start_ns[first] >= _LEAST_LATE_NS
    ready = lanes.start_ns[first[long]], lanes.end_ns[last[long]]
    idle_ranges = stretches(*in_order(*idle), 1)
    ready_ranges = stretches(*in_order(*ready), 1)
    both = stretches(
        *in_order(
            np.concatenate([idle_ranges[0], ready_ranges[0]]),
            np.concatenate([idle_ranges[1], ready_ranges[1]]),
        ),
        2,
    )
    total_ns = int((both[1] - both[0]).sum())
    share = total_ns / subject.length_ns
    longest = int(np.argmax(both[1] - both[0])) if len(both[0]) else -1
    yield Conclusion(
        "cpu.imbalance",
        f"For {rounded_ns(total_ns)} ({percent(share)}) a CPU was idle while"
        f" {'a' if len(lanes) == 1 else 'at least one'} {model.noun} was ready for one: it may be"
        " pinned, or the scheduler was late to move it.",
        total_ns,
        share,
        evidence=(subject.statemap(),),
        ranges=() if longest < 0 else ((int(both[0][longest]), int(both[1][longest])),),
        # where events were lost, threads may have run that seem to be ready
        is_notable=total_ns > _LATE_NS
        and total_ns - _lost_ns(subject) > _IMBALANCE * subject.length_ns
        and _is_known(model.resources[0]),
    )


def _migrations(subject: Subject, model: StateModel) -> Iterator[Conclusion]:
    """Yield how often threads ran on another CPU than before."""
    lanes = model.lanes
    if not len(lanes.start_ns):
        return
    numbers = [each.get("cpu", -1) for each in subject.history.tags]
    cpu_of_tag = np.array([each if isinstance(each, int) else -1 for each in numbers] + [-1])
    work = np.flatnonzero(lanes.chosen(_WORK))
    cpu = cpu_of_tag[lanes.tag[work]]
    lane = lanes.lane[work]
    moved = (lane[1:] == lane[:-1]) & (cpu[1:] != cpu[:-1]) & (cpu[1:] >= 0) & (cpu[:-1] >= 0)
    count = np.bincount(lane[1:][moved], minlength=len(lanes))
    most = int(np.argmax(count))
    extent = lanes.extent(most)
    if not count[most] or extent is None:
        return
    per_s = int(count[most]) * 10**9 / (extent[1] - extent[0])
    yield Conclusion(
        "cpu.migrations",
        f"{model.titles[most]} moved to another CPU {int(count[most]):,} times,"
        f" {per_s:,.0f} times a second.",
        evidence=(subject.command("stats", FILE, "--by", "thread"),),
        rows=(subject.path(int(lanes.quark[most])),),
        parts={"migrations": int(count.sum()), "most_per_s": per_s},
        is_notable=per_s > _MIGRATIONS_PER_S and count[most] >= 20,
    )


def _waits(subject: Subject, model: StateModel) -> Iterator[Conclusion]:
    """Yield for each thing how long entities waited for it."""
    lanes = model.lanes
    codes = np.flatnonzero(np.bincount(lanes.label.codes[lanes.chosen(_WAIT)])).tolist()
    existed_ns = lanes.existed_ns
    for label in [lanes.label.names[code] for code in codes]:
        rows = np.flatnonzero(lanes.chosen(_WAIT, label=label))
        waited_ns = np.zeros(len(lanes), np.int64)
        np.add.at(waited_ns, lanes.lane[rows], lanes.duration_ns[rows])
        start_ns, end_ns = lanes.start_ns[rows], lanes.end_ns[rows]
        at_once_ns = at_once(*in_order(start_ns, end_ns), *subject.range_ns)
        somebody = int(at_once_ns[1:].sum()) / subject.length_ns
        longest = rows[int(np.argmax(lanes.duration_ns[rows]))]
        limit = _LIMITS.get(label, _SHORT)
        # an entity that never did anything else may have nothing to do
        is_much = (waited_ns >= np.maximum(limit * existed_ns, 1)) & (np.diff(lanes.offsets) > 1)
        if label == "uninterruptible":
            # as many threads of the kernel do that have nothing to do
            is_much &= ~np.array([is_kernel_thread(_name(title)) for title in model.titles])
            # drivers have threads that do little else: waits count that were seen to begin and end
            cut = np.isin(rows, lanes.offsets[:-1]) | np.isin(rows, lanes.offsets[1:] - 1)
            whole_ns = np.bincount(
                lanes.lane[rows[~cut]], lanes.duration_ns[rows[~cut]], len(lanes)
            )
            is_much &= whole_ns >= limit * existed_ns
        is_by_much = bool(waited_ns[is_much].sum() >= limit * subject.length_ns)
        is_notable = label not in _QUIET and (
            is_by_much or (label == "disk" and somebody >= _SOMEBODY)
        )
        # those that waited most, or all that did
        many = np.flatnonzero(is_much if is_notable and is_by_much else waited_ns)
        many = many[np.argsort(-waited_ns[many], kind="stable")]
        of_many_ns = int(waited_ns[many].sum())
        of_many = of_many_ns / int(existed_ns[many].sum())
        place = int(lanes.start_ns[longest]), int(lanes.end_ns[longest])
        lane = int(lanes.lane[longest])
        who = counted(len(many), model.noun)
        if len(many) <= _MOST_NAMED:
            who = listed([model.titles[each] for each in many.tolist()])
        share = int(waited_ns.sum()) / int(existed_ns[waited_ns > 0].sum())
        yield Conclusion(
            f"{label.lower().replace(' ', '_')}.waits",
            f"{who} waited for {_WHAT.get(label, label)} for {rounded_ns(of_many_ns)},"
            f" {percent(of_many)} of {'its' if len(many) == 1 else 'their'} time; the longest wait"
            f" was {rounded_ns(place[1] - place[0])} of {model.titles[lane]}.",
            int(waited_ns.sum()),
            share,
            evidence=(
                subject.command("stats", FILE, "--by", "entity"),
                Evidence(
                    subject.at(int(lanes.quark[lane]), place[0]), subject.statemap(place).arguments
                ),
            ),
            ranges=(place,),
            rows=tuple(subject.path(int(lanes.quark[each])) for each in many[:_MOST_NAMED]),
            parts={
                "total_ns": int(waited_ns.sum()),
                "count": len(rows),
                "median_ns": _median(lanes.duration_ns[rows]),
                "longest": {"name": model.titles[lane], "ns": place[1] - place[0]},
                "somebody_waits": somebody,
                "most_at_once": int(np.flatnonzero(at_once_ns)[-1]),
                "entities": len(many),
            },
            is_notable=is_notable,
        )


def _median(durations_ns: Int64s) -> int:
    middle = (len(durations_ns) - 1) // 2
    return int(np.partition(durations_ns, middle)[middle])


def _name(title: str) -> str:
    """Return the name in the title of a thread.

    >>> _name("kworker/0:1 (17)")
    'kworker/0:1'
    """
    return title.rpartition(" (")[0] or title


def _unknown(model: StateModel) -> Iterator[Conclusion]:
    """Yield for how long it is not known what entities did."""
    lanes = model.lanes
    whole_ns = int(lanes.duration_ns.sum())
    unknown_ns = int(lanes.duration_ns[lanes.chosen(TimeClass.UNKNOWN)].sum())
    if unknown_ns:
        share = unknown_ns / whole_ns
        yield Conclusion(
            "trace.unknown",
            f"For {percent(share)} of the time it was not recorded what {plural(model.noun)} did.",
            unknown_ns,
            share,
            is_notable=share > _UNKNOWN_SAID,
        )


def _missing(subject: Subject, model: StateModel) -> Iterator[str]:
    """Yield what the trace cannot answer."""
    history = subject.history
    if model.is_scheduled and WAKES not in history.flows().name.names:
        yield "What ended waits was not recorded: record sched_waking to see it."
    if lost_ns := _lost_ns(subject):
        yield f"Events were lost for {rounded_ns(lost_ns)} of the range."
