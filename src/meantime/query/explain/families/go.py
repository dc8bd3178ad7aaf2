"""Execution traces of Go: whether its processors are short, and what collecting garbage costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Explanation, importance
from meantime.query.explain.lanes import Meaning, Meanings, TimeClass, lanes_of_states
from meantime.query.explain.resources import resource_use
from meantime.query.explain.span_rows import covered_ns, rows_in, total_of, union_of
from meantime.query.sentences import FILE, counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.query.explain.lanes import Lanes
    from meantime.query.explain.resources import Resource
    from meantime.query.explain.subject import Subject

__all__ = ["explain_go"]

GOROUTINE = "Goroutine"
_PROCESSOR = "processor"
_STATES = {
    "running": Meaning(TimeClass.WORK, "running"),
    "syscall": Meaning(TimeClass.WORK, "system call"),
    "runnable": Meaning(TimeClass.READY, _PROCESSOR),
    "lock": Meaning(TimeClass.WAIT, "lock"),
    "blocked": Meaning(TimeClass.IDLE, "blocked"),
    "condition": Meaning(TimeClass.IDLE, "condition"),
    "network": Meaning(TimeClass.IDLE, "network"),
    "select": Meaning(TimeClass.IDLE, "select"),
    "sleep": Meaning(TimeClass.IDLE, "sleep"),
    "receive from channel": Meaning(TimeClass.IDLE, "receive from channel"),
    "send to channel": Meaning(TimeClass.WAIT, "send to channel"),
}
_READY_SAID, _ASSIST_SAID, _STOP_NS, _STOP_SAID = 0.2, 0.05, 10**6, 0.01


def explain_go(subject: Subject) -> Explanation | None:
    """Return what limited the goroutines of a program; None for other traces."""
    kind = subject.kind(GOROUTINE)
    if kind is None:
        return None
    history = subject.history
    spans = subject.spans

    def meaning(name: str) -> Meaning:
        return subject.roles.states.get(name) or _STATES.get(name) or subject.roles.meaning(name)

    lanes = lanes_of_states(history, kind.quarks, subject.range_ns, meaning)
    running = lanes.chosen(TimeClass.WORK, label="running")
    ready = lanes.chosen(TimeClass.READY, label=_PROCESSOR)
    processor = resource_use(
        _PROCESSOR,
        subject.range_ns,
        busy=(lanes.start_ns[running], lanes.end_ns[running]),
        ready=(lanes.start_ns[ready], lanes.end_ns[ready]),
    )
    running_ns = int(lanes.duration_ns[running].sum())
    ready_ns = int(lanes.duration_ns[ready].sum())
    measures = [
        _saturation(subject, lanes, processor, running_ns, ready_ns),
        *_collections(subject, spans, running_ns),
    ]
    return Explanation(
        "go",
        "goroutine",
        len(lanes),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of(Meanings(lanes.kind, lanes.label), lanes.duration_ns),
        (processor,),
    )


def _saturation(
    subject: Subject, lanes: Lanes, processor: Resource, running_ns: int, ready_ns: int
) -> Conclusion:
    share = ready_ns / max(1, running_ns + ready_ns)
    number = counted(processor.capacity, "processor")
    return Conclusion(
        "processor.full",
        f"Goroutines ran for {rounded_ns(running_ns)} and were ready for {rounded_ns(ready_ns)}:"
        f" all {number} were used {percent(processor.full_share)} of the time, and"
        f" {processor.queue_mean:.3g} of {len(lanes):,} goroutines waited on average.",
        ready_ns,
        share,
        evidence=(subject.command("stats", FILE, "--by", "state"),),
        parts={
            "processors": processor.capacity,
            "running_ns": running_ns,
            "runnable_ns": ready_ns,
            "full_share": processor.full_share,
        },
        is_notable=share > _READY_SAID,
    )


def _collections(subject: Subject, spans: SpanTable, running_ns: int) -> Iterator[Conclusion]:
    assist_ns = total_of(spans, rows_in(spans, "assist"))
    share = assist_ns / max(1, running_ns)
    yield Conclusion(
        "gc.assist",
        f"Goroutines helped to collect garbage for {rounded_ns(assist_ns)}, {percent(share)} of the"
        " time that they ran: they allocate faster than it is collected.",
        assist_ns,
        share,
        assist_ns,
        "bound",
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        is_notable=share > _ASSIST_SAID,
    )
    stops = union_of(spans, rows_in(spans, "stop the world"))
    if len(stops[0]):
        total_ns = covered_ns(stops)
        longest_ns = int((stops[1] - stops[0]).max())
        yield Conclusion(
            "gc.stops",
            f"The world was stopped {counted(len(stops[0]), 'time')} for {rounded_ns(total_ns)}, at"
            f" most {rounded_ns(longest_ns)} at once.",
            total_ns,
            total_ns / subject.length_ns,
            total_ns,
            "bound",
            ranges=tuple(zip(stops[0][:100].tolist(), stops[1][:100].tolist(), strict=True)),
            is_notable=longest_ns > _STOP_NS or total_ns > _STOP_SAID * subject.length_ns,
        )
