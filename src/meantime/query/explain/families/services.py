"""Traces of services: on which operation the time of requests depends, and what the slow ones do.

The path of a request goes back from its end through the calls that end last, as Jaeger and CRISP
define it. The time of a client's call outside of the server's is that of the network: connecting
and queueing before, the answer on its way after.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import MeantimeError
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.comparison import compare_slow
from meantime.query.explain.conclusion import Conclusion, Explanation, importance
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.service_paths import AFTER, BEFORE, ServicePaths
from meantime.query.sentences import FILE, counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int32s
    from meantime.query.explain.budget import BudgetRow
    from meantime.query.explain.service_paths import Requests
    from meantime.query.explain.subject import Subject

__all__ = ["explain_services"]

_PATH_SAID, _NETWORK_SAID, _FAILED_SAID, _CUT_SAID = 0.1, 0.2, 0.01, 0.01
_REPEATED = 5
_SPECIFIC = {"services.slow", "services.repeated_calls", "services.network"}
_QUERY = re.compile(r"^(?:select|insert|update|delete|get|hget|set|mget|find)\b", re.IGNORECASE)
_NAMED = 3


def explain_services(subject: Subject) -> Explanation | None:
    """Return where the time of requests to services goes; None for other traces.

    Raises:
        MeantimeError: If the trace has no request of the name that was asked for.
    """
    model = ServicePaths(subject.history, *subject.range_ns)
    if not len(model.calls.rows):
        return None
    kinds = model.kinds()
    if subject.activity is not None:
        kinds = _chosen(model, kinds, subject.activity)
    if not kinds:
        return None
    paths = [model.requests(*kind) for kind in kinds]
    worst = paths[0]
    measures = [
        *_path(subject, worst, len(kinds)),
        *_slow(subject, model, worst),
        *_network(subject, worst),
        *_errors(subject, model),
        *_repeated(subject, model),
    ]
    measured = worst if len(kinds) == 1 else None
    rows = [
        (row.kind, row.label, row.total_ns)
        for each in ([measured] if measured else paths)
        for row in Budget.of(each.meanings, each.part_ns).rows
    ]
    return Explanation(
        "services",
        "request",
        sum(len(roots) for _, roots in kinds),
        subject.range_ns,
        tuple(_specific_first(sorted(measures, key=importance))),
        Budget.of_rows(rows),
        missing=tuple(_missing(model)),
    )


def _specific_first(measures: list[Conclusion]) -> list[Conclusion]:
    """Return conclusions, those before where the time went that explain half of that."""
    where = next(each for each in measures if each.id == "services.path")
    causes = [
        each
        for each in measures
        if each.id in _SPECIFIC
        and each.is_notable
        and 2 * (each.value_ns or 0) >= (where.value_ns or 0)
    ]
    return [*causes, *(each for each in measures if each not in causes)]


def _chosen(
    model: ServicePaths, kinds: list[tuple[str, Int32s]], name: str
) -> list[tuple[str, Int32s]]:
    """Return the requests of a name, or of a trace."""
    found = [kind for kind in kinds if kind[0] == name]
    if not found:
        of_trace = [
            (title, roots[[model.calls.trace_ids[root] == name.lower() for root in roots.tolist()]])
            for title, roots in kinds
        ]
        found = [kind for kind in of_trace if len(kind[1])]
    if not found:
        near = listed([title for title, _ in kinds], 5)
        raise MeantimeError(
            f"no request is called {name!r}, and no trace has this id; there are {near}"
        )
    return found


def _path(subject: Subject, requests: Requests, kinds: int) -> Iterator[Conclusion]:
    """Yield on which operation the time of requests was spent."""
    budget = Budget.of(requests.meanings, requests.part_ns)
    first = budget.rows[0]
    number = len(requests.call)
    what = f"{counted(number, 'request')} {requests.name}" if number > 1 else requests.name
    text = (
        f"{what} took {rounded_ns(budget.total_ns)}{' in all' if number > 1 else ''}:"
        f" {rounded_ns(first.total_ns)} ({percent(first.share)}) of that is {_on(first)}"
    )
    others = [row for row in budget.rows[1:_NAMED] if row.share >= _PATH_SAID]
    if others:
        rest = listed([f"{rounded_ns(row.total_ns)} {_on(row)}" for row in others])
        text += f", and {rest}"
    yield Conclusion(
        "services.path",
        f"{text}.",
        first.total_ns,
        first.share,
        first.total_ns,
        "bound",
        evidence=(subject.command("stats", FILE, "--by", "operation"),),
        parts={
            "request": requests.name,
            "requests": number,
            "kinds": kinds,
            "total_ns": budget.total_ns,
            "by": [{"name": row.label, "ns": row.total_ns} for row in budget.rows[:20]],
        },
    )


def _on(row: BudgetRow) -> str:
    verb = "in" if row.kind is TimeClass.WORK else "waiting for"
    return f"{verb} {row.label}"


def _slow(subject: Subject, model: ServicePaths, requests: Requests) -> Iterator[Conclusion]:
    """Yield what the slow requests spent more time on than the usual ones."""
    found = compare_slow(
        requests.duration_ns, requests.activity, requests.meanings, requests.part_ns
    )
    if found is None:
        return
    slowest = int(found.slow[0])
    longest_ns = int(requests.duration_ns[slowest])
    call = int(requests.call[slowest])
    range_ns = int(model.start_ns[call]), int(model.end_ns[call])
    own = requests.more_than_usual(found, slowest)
    text = (
        f"The slowest {requests.name} took {rounded_ns(longest_ns)}, usually"
        f" {rounded_ns(found.median_ns)}: {own}"
    )
    lost_ns = int(requests.duration_ns[found.slow].sum()) - found.median_ns * len(found.slow)
    trace_id = model.calls.trace_ids[call]
    yield Conclusion(
        "services.slow",
        f"{text}.",
        lost_ns,
        lost_ns / int(requests.duration_ns.sum()),
        lost_ns,
        evidence=(
            subject.command(
                "stats",
                FILE,
                "--by",
                "operation",
                "--filter",
                trace_id,
                handle=f"span {int(model.spans.rows[model.calls.rows[call]])}",
            ),
        ),
        ranges=(range_ns,),
        parts={
            "trace_id": trace_id,
            "slow": len(found.slow),
            "median_ns": found.median_ns,
            "differences": [each.as_json() for each in found.differences[:20]],
        },
    )


def _network(subject: Subject, requests: Requests) -> Iterator[Conclusion]:
    """Yield how long requests were between the two sides of calls."""
    names = requests.meanings.label.names
    codes = [code for code, name in enumerate(names) if name.endswith((BEFORE, AFTER))]
    chosen = np.isin(requests.meanings.label.codes, codes)
    total_ns = int(requests.part_ns[chosen].sum())
    share = total_ns / int(requests.part_ns.sum())
    yield Conclusion(
        "services.network",
        f"{percent(share)} of the time of {requests.name} is between the sides of calls:"
        " connecting, queueing and the network.",
        total_ns,
        share,
        total_ns,
        "inferred",
        evidence=(subject.command("stats", FILE, "--by", "operation"),),
        # the path says it already where it is most of it
        is_notable=share > _NETWORK_SAID and not _is_between(requests),
    )


def _is_between(requests: Requests) -> bool:
    first = Budget.of(requests.meanings, requests.part_ns).rows[0]
    return first.label.endswith((BEFORE, AFTER))


def _errors(subject: Subject, model: ServicePaths) -> Iterator[Conclusion]:
    """Yield how many requests failed, by service."""
    calls = model.calls
    requests = calls.is_request & (model.end_ns >= model.start_ns)
    if not requests.any():
        return
    failed = requests & calls.failed
    share = int(failed.sum()) / int(requests.sum())
    by = np.bincount(calls.service[failed], minlength=len(calls.services))
    of = np.bincount(calls.service[requests], minlength=len(calls.services))
    worst = int(np.argmax(by))
    yield Conclusion(
        "services.errors",
        f"{int(failed.sum()):,} of {int(requests.sum()):,} requests failed, most in"
        f" {calls.services[worst]}: {int(by[worst]):,} of {int(of[worst]):,}.",
        share=share,
        evidence=(subject.command("stats", FILE, "--by", "service"),),
        parts={"failed": int(failed.sum()), "requests": int(requests.sum())},
        is_notable=share > _FAILED_SAID,
    )


def _repeated(subject: Subject, model: ServicePaths) -> Iterator[Conclusion]:
    """Yield the same call that is made again and again, one after the other, in one parent."""
    child = np.flatnonzero((model.parent >= 0) & model.calls.is_leaving)
    if not len(child):
        return
    child = child[np.lexsort((model.start_ns[child], model.parent[child]))]
    parent, code = model.parent[child], model.code[child]
    # a run of equal calls, each of which begins when the one before has ended
    same = (parent[1:] == parent[:-1]) & (code[1:] == code[:-1])
    same &= model.start_ns[child[1:]] >= model.end_ns[child[:-1]]
    first = np.flatnonzero(np.append(True, ~same))
    length = np.diff(np.append(first, len(child)))
    worst = int(np.argmax(length))
    number = int(length[worst])
    run = child[first[worst] : first[worst] + number]
    call = int(run[0])
    is_many = length > _REPEATED
    runs = [
        child[begin : begin + size]
        for begin, size in zip(first[is_many], length[is_many], strict=True)
    ]
    total_ns = sum(int((model.end_ns[each] - model.start_ns[each]).sum()) for each in runs)
    took = rounded_ns(int((model.end_ns[run] - model.start_ns[run]).sum()))
    if len(runs) > 1:
        took += f", and {rounded_ns(total_ns)} in {len(runs):,} such series"
    yield Conclusion(
        "services.repeated_calls",
        f"{model.title(int(model.parent[call]))} made {number:,} calls {model.operation(call)} one"
        f" after the other, which took {took}: one call for all, or several at once, would save"
        " most of that.",
        total_ns,
        bound_ns=total_ns,
        certainty="inferred",
        evidence=(
            subject.command(
                "stats",
                FILE,
                "--by",
                "operation",
                handle=f"span {int(model.spans.rows[model.calls.rows[call]])}",
            ),
        ),
        ranges=((int(model.start_ns[run[0]]), int(model.end_ns[run[-1]])),),
        parts={"most": number, "parents": int(is_many.sum())},
        is_notable=number > _REPEATED,
    )


def _missing(model: ServicePaths) -> Iterator[str]:
    """Yield how much of calls is outside of those that they are in, as where clocks differ."""
    whole_ns = int((model.end_ns - model.start_ns).sum()) + model.cut_ns
    if model.cut_ns > _CUT_SAID * whole_ns:
        yield (
            f"{percent(model.cut_ns / whole_ns)} of the time of calls is outside of the calls that"
            " they are in, and was cut off: clocks differ, or nobody waits for them;"
            " --repair-clocks shifts services."
        )
