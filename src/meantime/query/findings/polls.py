"""Polls of a runtime with several workers, such as tokio: tasks that run long without an await.

A poll is a step of a task. Its worker does nothing else meanwhile, and the tasks that wait in its
queue are not taken by others at once: so a task that is `spawned` waits for a worker. A poll of
`LONG_NS` is a finding, and so are several of `_SHORT_NS` that took `LONG_NS` together and are usual
where their tasks were created. A few of that length are what a busy machine does to any program.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.steps import WATCHED_NS
from meantime.query.scope import chosen
from meantime.query.sentences import FILE, counted, listed, times
from meantime.query.sites import SPAWNED, TASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.query.scope import Scope, StateRows

__all__ = ["LONG_NS", "long_polls", "with_workers"]

LONG_NS = WATCHED_NS
_SHORT_NS, _USUAL = 10**7, 0.1
_RUNNING = "running"
_MOST_RANGES = 100


def long_polls(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each place whose tasks run long without reaching an await."""
    kind = scope.kind(TASK)
    if kind is None or scope.kind("Loop") is not None:
        return
    rows = scope.rows(kind)
    if rows is None or SPAWNED not in rows.names:
        return
    polls = chosen(rows, np.isin(rows.state, rows.codes({_RUNNING})))
    spawned = chosen(rows, np.isin(rows.state, rows.codes({SPAWNED})))
    long = np.flatnonzero(polls.duration_ns >= _SHORT_NS)
    sites = np.array([scope.site(quark) for quark in polls.quark[long].tolist()], object)
    for site in dict.fromkeys(sites.tolist()):
        own = long[sites == site]
        own = own[np.argsort(-polls.duration_ns[own], kind="stable")]
        total_ns, most_ns = int(polls.duration_ns[own].sum()), int(polls.duration_ns[own[0]])
        all_of = np.isin(polls.quark, distinct(polls.quark[own]))
        is_usual = len(own) >= _USUAL * np.count_nonzero(all_of) and len(own) > 1
        if most_ns < LONG_NS and not (is_usual and total_ns >= 2 * LONG_NS):
            continue
        often = f", {times(len(own))} ({rounded_ns(total_ns)} in all)" if len(own) > 1 else ""
        shown = own[:_MOST_RANGES]
        ranges = tuple(
            zip(polls.start_ns[shown].tolist(), polls.end_ns[shown].tolist(), strict=True)
        )
        yield Finding(
            "block",
            f"a task of {site} ran for {'up to ' * (len(own) > 1)}{rounded_ns(most_ns)} without"
            f" reaching an await{often}{_waiting(spawned, ranges)}",
            total_ns,
            ranges,
            len(own),
            tuple(scope.path(quark) for quark in dict.fromkeys(polls.quark[shown].tolist())),
            arguments=("statemap", FILE, *scope.options(ranges[0]), "-o", "poll.svg"),
        )


def with_workers(findings: Iterable[Finding], scope: Scope) -> list[Finding]:
    """Return findings, those about polls with the workers that ran them.

    Which worker polls which task is not recorded. Where tasks and workers are joined, it is the
    worker that ran throughout a poll, if no other did.

    Args:
        findings: The findings, in the times of a joined history.
        scope: That history.
    """
    findings = list(findings)
    workers = [kind.quarks for kind in scope.kinds if kind.entity_kind == "Worker"]
    tasks = [kind.quarks for kind in scope.kinds if kind.entity_kind == TASK]
    if not workers or not tasks:
        return findings
    rows = scope.between(distinct(np.concatenate(workers)), (scope.start_ns, scope.end_ns))
    runs = chosen(rows, np.isin(rows.state, rows.codes({_RUNNING}))).merged()
    polled = {scope.path(quark) for quark in np.concatenate(tasks).tolist()}
    return [
        _on_workers(each, scope, runs)
        if each.kind == "block" and each.rows and each.rows[0] in polled
        else each
        for each in findings
    ]


def _on_workers(finding: Finding, scope: Scope, runs: StateRows) -> Finding:
    known: Counter[int] = Counter()
    for start_ns, end_ns in finding.ranges:
        throughout = runs.quark[(runs.start_ns <= start_ns) & (runs.end_ns >= end_ns)]
        if len(distinct(throughout)) == 1:
            known[int(throughout[0])] += 1
    if not known:
        return finding
    attributes = scope.history.attributes
    of = len(finding.ranges)
    ran = [
        f"{attributes.path(quark)[-1]} alone ran throughout {f'{count} of them' * (of > 1)}".strip()
        for quark, count in known.most_common()
    ]
    text = f"{finding.sentence}; {listed(ran)}"
    rows = (*finding.rows, *map(scope.path, known))
    return replace(finding, sentence=text, rows=rows)


def _waiting(spawned: StateRows, ranges: tuple[tuple[int, int], ...]) -> str:
    """Return how many tasks waited for a worker during polls, as the end of a sentence."""
    most, waited_ns = 0, 0
    for start_ns, end_ns in ranges:
        during = (spawned.start_ns < end_ns) & (spawned.end_ns > start_ns)
        begin_ns = np.maximum(spawned.start_ns[during], start_ns)
        ns = np.minimum(spawned.end_ns[during], end_ns) - begin_ns
        # what is taken at once did not wait
        late = 2 * ns >= np.minimum(end_ns - begin_ns, _SHORT_NS)
        most = max(most, int(np.count_nonzero(late)))
        waited_ns += int(ns[late].sum())
    if not most:
        return ""
    tasks = counted(most, "task")
    return f"; up to {tasks} waited for a worker meanwhile, {rounded_ns(waited_ns)} in all"
