"""Jobs of GitHub Actions, as its API and its webhooks describe them.

Read are `{"jobs": [...]}` of a run, `{"workflow_job": {...}}` of a webhook, a list of jobs, or one
of these a line. A job is a thread: it is queued from its creation to its start, then runs, with its
steps in it. What still runs lasts until the last time of the input.
Definition: https://docs.github.com/en/rest/actions/workflow-jobs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError, UsageError
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC
from meantime.model.units import parse_instant
from meantime.readers.contract import lazy_trace
from meantime.readers.services.text import documents
from meantime.readers.span_rows import SpanRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "github-actions"
TEXT = True


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.clock = UTC
    jobs = []
    for document in documents(source, trace, options):
        found = _jobs(document.value)
        for job in found:
            problem = _problem(job)
            if problem is None:
                jobs.append(job)
            elif options.lenient:
                trace.anomalies.add("bad_record")
            else:
                raise InputError(source.name, f"a job is malformed: {problem}", line=document.line)
    trace.anomalies.add("truncated", int(source.truncated))
    last_ns = max((time_ns for job in jobs for time_ns in _times(job)), default=0)
    spans = SpanRows(trace)
    for job in jobs:
        trace.records += 1
        _add(job, spans, last_ns, trace)
    yield from spans.batches()


def _jobs(value: Any) -> list[Any]:
    if isinstance(value, dict):
        if "workflow_job" in value:
            return [value["workflow_job"]]
        if isinstance(value.get("jobs"), list):
            return list(value["jobs"])
        return [value]
    if isinstance(value, list):
        return [job for each in value for job in _jobs(each)] if _depth(value) else [value]
    return [value]


def _depth(value: list[Any]) -> bool:
    """Whether a list has objects, not further lists."""
    return all(isinstance(each, dict) for each in value)


def _steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return job.get("steps") or []


def _problem(job: Any) -> str | None:
    """Return what is wrong with a job; None if nothing is."""
    if not isinstance(job, dict) or not isinstance(job.get("name"), str):
        return "it is not an object with a name"
    steps = job.get("steps")
    if not (steps is None or isinstance(steps, list)):
        return "its steps are not a list"
    for each in [job, *_steps(job)]:
        if not isinstance(each, dict):
            return "a step is not an object"
        for key in ("created_at", "started_at", "completed_at"):
            value = each.get(key)
            if value is not None and _ns(value) is None:
                return f"{key} is {str(value)[:40]!r}, not a date"
    return None


def _ns(value: Any) -> int | None:
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\dT", value):
        return None
    try:
        return parse_instant(value).ns
    except UsageError:
        return None


def _times(job: dict[str, Any]) -> Iterator[int]:
    for each in [job, *_steps(job)]:
        for key in ("created_at", "started_at", "completed_at"):
            if (time_ns := _ns(each.get(key))) is not None:
                yield time_ns


def _add(job: dict[str, Any], spans: SpanRows, last_ns: int, trace: Trace) -> None:
    run = job.get("workflow_name") or job.get("head_branch") or "run"
    path = thread_path(job["name"], str(run))
    created, started = _ns(job.get("created_at")), _ns(job.get("started_at"))
    completed = _ns(job.get("completed_at"))
    if created is not None:
        # a job that never started was queued until it was cancelled, or still is
        until = started if started is not None else completed
        if until is None or until > created:
            end = last_ns if until is None else until
            spans.add(path, (created, end), "queued", "queued", unfinished=until is None)
    if started is None:
        trace.anomalies.add("span_without_start")
        return
    fields = {
        key: job[key]
        for key in ("id", "run_id", "status", "conclusion", "runner_name", "head_sha")
        if isinstance(job.get(key), str | int)
    }
    end = last_ns if completed is None else completed
    state = str(job.get("conclusion") or job.get("status") or "")
    spans.add(path, (started, end), job["name"], state, fields, unfinished=completed is None)
    if state == "failure":
        spans.point(path, end, "failure")
    for step in _steps(job):
        began, ended = _ns(step.get("started_at")), _ns(step.get("completed_at"))
        if began is None:
            # it waits for the steps before it, or never ran
            trace.anomalies.add("span_without_start")
            continue
        state = str(step.get("conclusion") or step.get("status") or "")
        step_fields = {"number": step["number"]} if isinstance(step.get("number"), int) else {}
        times = (began, last_ns if ended is None else ended)
        name = str(step.get("name") or "step")
        spans.add(path, times, name, state, step_fields, unfinished=ended is None)
