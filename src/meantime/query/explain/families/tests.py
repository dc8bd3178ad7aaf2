"""Tests and jobs of continuous integration: which failed, which took the time, what queued."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.metadata import SUITES_FACT
from meantime.model.units import parse_duration, rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.span_rows import categories_of, duration_of, rows_in, total_of
from meantime.query.sentences import FILE, counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.subject import Subject

__all__ = ["explain_jobs", "explain_tests"]

_OUTCOMES = {"passed", "failure", "error", "skipped"}
_FAILED = ("failure", "error")
_MOST_FAILED = 3
_FEW, _FEW_SAID, _OUTSIDE_SAID, _IMBALANCE = 3, 0.3, 0.3, 1.3
_QUEUED_SAID, _QUEUED_NS = 0.2, 30 * 10**9


def explain_tests(subject: Subject) -> Explanation | None:
    """Return which tests failed and which took the time; None for other traces."""
    spans = subject.spans
    categories = categories_of(spans)
    if not categories or not categories <= _OUTCOMES:
        return None
    total_ns = total_of(spans, np.arange(len(spans)))
    measures = [
        *_failed_tests(spans),
        *_slowest(spans, total_ns),
        *_outside(subject, total_ns),
        *_workers(spans, total_ns),
    ]
    rows = [
        (TimeClass.WORK, str(name), duration_of(spans, row))
        for row, name in enumerate(spans.name.to_list())
    ]
    outside_ns = max(0, _suites_ns(subject) - total_ns)
    rows.append((TimeClass.WORK, "outside of tests", outside_ns))
    return Explanation(
        "tests",
        "test",
        len(spans),
        subject.range_ns,
        (*measures[:1], *sorted(measures[1:], key=importance)),
        Budget.of_rows(rows),
        comparable=frozenset(),
    )


def _failed_tests(spans: SpanTable) -> Iterator[Conclusion]:
    count = {each: len(rows_in(spans, each)) for each in sorted(_OUTCOMES)}
    rows = rows_in(spans, *_FAILED)
    names = [_last(spans.name[row]) for row in rows.tolist()]
    text = (
        f"{count['failure']:,} of {counted(len(spans), 'test')} failed,"
        f" {count['error']:,} had errors, {count['skipped']:,} were skipped"
    )
    if names:
        text += f": {listed(names, _MOST_FAILED)}"
    yield Conclusion(
        "tests.failed",
        f"{text}.",
        share=len(rows) / len(spans),
        evidence=tuple(
            Evidence(f"span {int(spans.rows[row])}", ("dump", FILE, "--kind", "spans"))
            for row in rows.tolist()[:_MOST_FAILED]
        ),
        ranges=tuple(_range(spans, row) for row in rows.tolist()[:100]),
        parts=dict(count),
        is_notable=len(rows) > 0,
    )


def _range(spans: SpanTable, row: int) -> tuple[int, int]:
    return int(spans.start_ns[row]), int(spans.end_ns[row])


def _last(name: str | None) -> str:
    """Return the name of a test without its module.

    >>> _last("test_shop.TestGroup.test_out[1.5]"), _last("test_all")
    ('test_out[1.5]', 'test_all')
    """
    head, bracket, parameters = (name or "").partition("[")
    return f"{head.rpartition('.')[2]}{bracket}{parameters}"


def _slowest(spans: SpanTable, total_ns: int) -> Iterator[Conclusion]:
    order = np.argsort(spans.start_ns - spans.end_ns, kind="stable")[:_FEW]
    slow_ns = total_of(spans, order)
    if not total_ns:
        return
    share = slow_ns / total_ns
    first = int(order[0])
    yield Conclusion(
        "tests.slowest",
        f"{len(order):,} of {counted(len(spans), 'test')} are {percent(share)} of the time of"
        f" tests; {_last(spans.name[first])} took {rounded_ns(duration_of(spans, first))}.",
        slow_ns,
        share,
        slow_ns,
        "bound",
        evidence=(Evidence(f"span {int(spans.rows[first])}", ("stats", FILE, "--by", "name")),),
        ranges=tuple(_range(spans, row) for row in order.tolist()),
        parts={
            "slowest": [
                {"name": spans.name[row], "ns": duration_of(spans, row)} for row in order.tolist()
            ]
        },
        is_notable=share > _FEW_SAID and len(spans) > 2 * _FEW,
    )


def _suites_ns(subject: Subject) -> int:
    """Return how long the suites say they took; 0 if they do not."""
    text = subject.history.facts.get(SUITES_FACT, "0 s")
    return parse_duration(text.replace(" ", ""))


def _outside(subject: Subject, total_ns: int) -> Iterator[Conclusion]:
    whole_ns = _suites_ns(subject)
    if whole_ns <= total_ns or not whole_ns:
        return
    share = (whole_ns - total_ns) / whole_ns
    yield Conclusion(
        "tests.outside",
        f"{rounded_ns(whole_ns - total_ns)} of {rounded_ns(whole_ns)} ({percent(share)}) is not in"
        " tests: collecting, fixtures of sessions and the end.",
        whole_ns - total_ns,
        share,
        whole_ns - total_ns,
        "bound",
        is_notable=share > _OUTSIDE_SAID,
    )


def _workers(spans: SpanTable, total_ns: int) -> Iterator[Conclusion]:
    """Yield how unevenly the tests are on the threads that ran them."""
    sizes = np.diff(np.append(0, np.cumsum(spans.end_ns - spans.start_ns))[spans.offsets])
    if len(sizes) < 2 or not total_ns:
        return
    longest, mean = int(sizes.max()), total_ns / len(sizes)
    yield Conclusion(
        "tests.imbalance",
        f"One of {len(sizes):,} workers ran tests for {rounded_ns(longest)}, {longest / mean:.1f}"
        " times the mean: the others wait for it.",
        longest - int(mean),
        longest / mean - 1,
        longest - int(mean),
        "bound",
        is_notable=longest / mean > _IMBALANCE,
    )


# Jobs of GitHub Actions, with their steps.

_QUEUED, _IN_PROGRESS = "queued", "in_progress"
_CONCLUSIONS = {"success", "failure", "skipped", "cancelled", "timed_out", _QUEUED, _IN_PROGRESS}


def explain_jobs(subject: Subject) -> Explanation | None:
    """Return why jobs of continuous integration failed, and how long they queued."""
    spans = subject.spans
    categories = categories_of(spans)
    if not categories or not categories <= _CONCLUSIONS or not categories - {"skipped"}:
        return None
    fields = [_fields(spans, row) for row in range(len(spans))]
    jobs = np.flatnonzero([("run_id" in each) for each in fields])
    steps = np.flatnonzero([("number" in each) for each in fields])
    if not len(jobs) and not len(steps):
        return None
    measures = [
        *_failed_steps(spans, steps),
        *_queued(spans, jobs),
        *_slowest_step(spans, steps),
    ]
    queued = rows_in(spans, _QUEUED)
    rows = [(TimeClass.READY, "a runner", duration_of(spans, row)) for row in queued.tolist()]
    rows += [
        (TimeClass.WORK, str(spans.name[row]), duration_of(spans, row)) for row in steps.tolist()
    ]
    return Explanation(
        "ci",
        "step",
        len(steps),
        subject.range_ns,
        (*measures[:1], *sorted(measures[1:], key=importance)),
        Budget.of_rows(rows),
        missing=tuple(_apart(spans, jobs, steps)),
        comparable=frozenset(),
    )


def _fields(spans: SpanTable, row: int) -> dict[str, object]:
    try:
        found = json.loads(spans.arguments(row) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _failed_steps(spans: SpanTable, steps: Int64s) -> Iterator[Conclusion]:
    failed = np.intersect1d(rows_in(spans, "failure", "timed_out", "cancelled"), steps)
    failed = failed[np.argsort(spans.start_ns[failed], kind="stable")]
    first = [f"{spans.name[row]!r}" for row in failed.tolist()]
    text = "No step failed."
    if len(failed):
        row = int(failed[0])
        text = f"The step {first[0]} failed after {rounded_ns(duration_of(spans, row))}"
        text += f", and {listed(first[1:])} after it." if first[1:] else "."
    yield Conclusion(
        "ci.failed",
        text,
        share=len(failed) / max(1, len(steps)),
        evidence=tuple(
            Evidence(f"span {int(spans.rows[row])}", ("dump", FILE, "--kind", "spans"))
            for row in failed.tolist()[:_MOST_FAILED]
        ),
        ranges=tuple(_range(spans, row) for row in failed.tolist()[:100]),
        parts={"failed": [str(spans.name[row]) for row in failed.tolist()]},
        is_notable=len(failed) > 0,
    )


def _queued(spans: SpanTable, jobs: Int64s) -> Iterator[Conclusion]:
    queued = rows_in(spans, _QUEUED)
    queued_ns, ran_ns = total_of(spans, queued), total_of(spans, jobs)
    if not len(queued):
        return
    share = queued_ns / max(1, queued_ns + ran_ns)
    yield Conclusion(
        "ci.queued",
        f"{counted(len(queued), 'job')} queued for {rounded_ns(queued_ns)} and ran for"
        f" {rounded_ns(ran_ns)}.",
        queued_ns,
        share,
        queued_ns,
        "bound",
        ranges=tuple(_range(spans, row) for row in queued.tolist()[:100]),
        parts={"queued_ns": queued_ns, "ran_ns": ran_ns},
        is_notable=share > _QUEUED_SAID or queued_ns > _QUEUED_NS,
    )


def _slowest_step(spans: SpanTable, steps: Int64s) -> Iterator[Conclusion]:
    total_ns = total_of(spans, steps)
    if not total_ns:
        return
    worst = int(steps[np.argmax(spans.end_ns[steps] - spans.start_ns[steps])])
    length_ns = duration_of(spans, worst)
    share = length_ns / total_ns
    yield Conclusion(
        "ci.slowest",
        f"The step {spans.name[worst]!r} took {rounded_ns(length_ns)}, {percent(share)} of all.",
        length_ns,
        share,
        length_ns,
        "bound",
        ranges=(_range(spans, worst),),
        is_notable=share > 0.5,
    )


def _apart(spans: SpanTable, jobs: Int64s, steps: Int64s) -> Iterator[str]:
    """Yield that steps are not in the time of their job, so that one of the two is wrong."""
    for job in jobs.tolist():
        lane = spans.thread_at(job)
        own = np.array([row for row in steps.tolist() if spans.thread_at(row) == lane], np.int64)
        if not len(own):
            continue
        before_ns = int(spans.start_ns[job]) - int(spans.end_ns[own].max())
        after_ns = int(spans.start_ns[own].min()) - int(spans.end_ns[job])
        if before_ns > 0:
            yield (
                f"the steps of {spans.name[job]} end {rounded_ns(before_ns)} before it begins, so"
                " they cannot be parts of it."
            )
        elif after_ns > 0:
            yield f"the steps of {spans.name[job]} begin {rounded_ns(after_ns)} after it ends."
