"""Joined histories: the ranks of a training, or other hosts, as one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.host_parts import host_parts
from meantime.model.attributes import format_path
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Explanation, importance
from meantime.query.explain.families.gpu import gpus_of
from meantime.query.explain.subject import Subject
from meantime.query.sentences import FILE, counted, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from meantime.history.host_parts import HostPart
    from meantime.model.columns import Coded, Int64s
    from meantime.query.explain.families.gpu import Gpu

__all__ = ["explain_hosts"]

_LATE_SAID, _MOST_OFTEN = 0.02, 0.5
_MORE_SAID = 0.01
_MOST_RESOURCES = 8


class _Rank(NamedTuple):
    """A host of a training, and its GPU.

    Attributes:
        name: The name of the host.
        gpu: Its GPU, in the times of its own history.
        names: The names of the work of the GPU.
        begin_ns: int64, by collective: where it begins, in order of time.
        duration_ns: int64, by collective.
    """

    name: str
    gpu: Gpu
    names: Coded
    begin_ns: Int64s
    duration_ns: Int64s


def explain_hosts(
    subject: Subject, explain_one: Callable[[Subject], Explanation]
) -> Explanation | None:
    """Return what limited the hosts of a joined history; None for another history.

    Args:
        subject: The joined history.
        explain_one: Explains the history of one host.
    """
    hosts = host_parts(subject.history)
    if not hosts:
        return None
    found: list[tuple[HostPart, Explanation]] = []
    ranks: list[_Rank] = []
    for number, host in enumerate(hosts):
        if subject.progress is not None:
            subject.progress(number / len(hosts))
        still = host._replace(history=host.history.snapshot())
        range_ns = still.within(*subject.range_ns)
        if range_ns is None:
            continue
        own = Subject(still.history, range_ns, subject.roles, subject.activity)
        found.append((still, explain_one(own)))
        if (rank := _rank(own, still.name)) is not None:
            ranks.append(rank)
    if not found:
        return None
    measures = [
        moved
        for host, explanation in found
        for each in explanation.measures
        if (moved := _moved(each, host)) is not None
    ]
    if len(ranks) > 1:
        # of ranks that do the same, the worst of each kind says as much as all
        measures = _worst_of_each(measures)
        measures = [*_late(subject, ranks), *sorted(measures, key=importance)]
    else:
        measures.sort(key=importance)
    rows = [row[:3] for _, each in found for row in each.budget.rows]
    resources = [
        resource._replace(name=f"{host.name} {resource.name}")
        for host, each in found
        for resource in each.resources
    ]
    resources.sort(key=lambda each: -each.utilisation)
    missing = dict.fromkeys(text for _, each in found for text in each.missing)
    return Explanation(
        "ranks" if len(ranks) > 1 else found[0][1].family,
        "rank" if len(ranks) > 1 else "host",
        len(found),
        subject.range_ns,
        tuple(measures),
        Budget.of_rows(rows),
        tuple(resources[:_MOST_RESOURCES]),
        tuple(missing),
        comparable=found[0][1].comparable,
    )


def _moved(conclusion: Conclusion, host: HostPart) -> Conclusion | None:
    """Return a conclusion about a host in the times and with the paths of the whole."""
    above = format_path(host.above)
    return replace(
        conclusion,
        sentence=f"{host.name}: {conclusion.sentence}",
        evidence=(),
        ranges=tuple(
            (start + host.offset_ns, end + host.offset_ns) for start, end in conclusion.ranges
        ),
        rows=tuple(f"{above}/{row}" for row in conclusion.rows),
        parts=conclusion.parts | {"host": host.name},
    )


def _worst_of_each(measures: Sequence[Conclusion]) -> list[Conclusion]:
    worst: dict[str, Conclusion] = {}
    for each in measures:
        known = worst.get(each.id)
        if known is None or (each.value_ns or 0) > (known.value_ns or 0):
            worst[each.id] = each
    return [*worst.values()]


def _rank(subject: Subject, name: str) -> _Rank | None:
    """Return a host as a rank; None if it has no GPU that communicates."""
    gpus = [gpu for gpu in gpus_of(subject) if gpu.is_communication.any()]
    if len(gpus) != 1:
        return None
    (gpu,) = gpus
    spans = subject.spans
    chosen = gpu.is_communication
    begin_ns = gpu.start_ns[chosen]
    return _Rank(name, gpu, spans.name, begin_ns, gpu.end_ns[chosen] - begin_ns)


def _late(subject: Subject, ranks: Sequence[_Rank]) -> Iterator[Conclusion]:
    """Yield which rank the others waited for.

    A collective ends on all ranks at once, so the last one to arrive is in it for the shortest
    time, and the others waited for as long as theirs took longer. No clocks are compared.
    """
    number = min(len(rank.duration_ns) for rank in ranks)
    durations = np.stack([rank.duration_ns[:number] for rank in ranks])
    shortest = durations.min(axis=0)
    waited = durations - shortest
    last = np.bincount(durations.argmin(axis=0), minlength=len(ranks))
    total_ns = waited.sum(axis=1)
    late = int(np.argmax(last))
    others = np.delete(np.arange(len(ranks)), late)
    # what the others waited in collectives in which this one was the last
    for_it = waited[:, durations.argmin(axis=0) == late]
    mean_ns = int(for_it[others].sum() / len(others))
    share = mean_ns / subject.length_ns
    name = ranks[late].name
    text = (
        f"{name} was the last of {len(ranks):,} ranks in {int(last[late]):,} of"
        f" {counted(number, 'collective')}: the others waited {rounded_ns(mean_ns)} for it on"
        f" average ({percent(share)})"
    )
    if why := _why(ranks, late):
        text += f"; {why}"
    uneven = len({len(rank.duration_ns) for rank in ranks}) > 1
    yield Conclusion(
        "ranks.late",
        f"{text}.",
        mean_ns,
        share,
        mean_ns,
        "inferred",
        evidence=(subject.command("hosts", FILE),),
        rows=(f"Hosts/{name}",),
        parts={
            "rank": name,
            "last": int(last[late]),
            "collectives": number,
            "counts_differ": uneven,
            "waited_ns": {
                rank.name: int(each) for rank, each in zip(ranks, total_ns.tolist(), strict=True)
            },
        },
        is_notable=share > _LATE_SAID and last[late] >= _MOST_OFTEN * number,
    )


def _why(ranks: Sequence[_Rank], late: int) -> str:
    """Return what the late rank did longer than the median of the others."""
    by_rank = [_computed(rank) for rank in ranks]
    names = {name for each in by_rank for name in each}
    own = by_rank[late]
    others = [each for number, each in enumerate(by_rank) if number != late]
    more = {
        name: own.get(name, 0) - float(np.median([each.get(name, 0) for each in others]))
        for name in names
    }
    if not more:
        return ""
    name, more_ns = max(more.items(), key=lambda each: each[1])
    begin_ns, end_ns = ranks[late].gpu.range_ns
    if more_ns > _MORE_SAID * (end_ns - begin_ns):
        return f"its {name} took {rounded_ns(more_ns)} more than on the others"
    idle = [_idle_ns(rank) for rank in ranks]
    more_ns = idle[late] - float(np.median(np.delete(idle, late)))
    if more_ns > _MORE_SAID * (end_ns - begin_ns):
        return f"its GPU was idle {rounded_ns(more_ns)} longer than the others'"
    return ""


def _computed(rank: _Rank) -> dict[str, int]:
    """Return the time of a rank's own work by name, without collectives."""
    gpu = rank.gpu
    own = np.flatnonzero(~gpu.is_communication)
    total = np.zeros(len(rank.names.names), np.int64)
    np.add.at(total, rank.names.codes[gpu.row[own]], gpu.end_ns[own] - gpu.start_ns[own])
    return {rank.names.names[code]: int(total[code]) for code in np.flatnonzero(total).tolist()}


def _idle_ns(rank: _Rank) -> int:
    begins, ends = rank.gpu.union()
    low, high = rank.gpu.range_ns
    return high - low - int((ends - begins).sum())
