"""Sampled profiles, and traces of spans that no other family knows: what took the time itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.calls import outermost
from meantime.kernels.nest import innermost_time
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Explanation
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.span_rows import by_name
from meantime.query.idle_samples import without_idle
from meantime.query.sentences import FILE, counted, listed, percent
from meantime.query.stacks import sample_tree
from meantime.query.threads import thread_quarks
from meantime.query.waiting_calls import is_waiting_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.subject import Subject
    from meantime.query.stacks import CallTree

__all__ = ["explain_samples", "explain_spans"]

_OWN_SAID, _WITHIN_SAID, _ALONE_SAID = 0.1, 0.1, 0.3
_NEARLY_ALL, _WHOLE = 0.9, 0.95
_ITSELF = "the function itself"
_FEWEST = 100
_NAMED = 3
_MOST = 20


def explain_samples(subject: Subject) -> Explanation | None:
    """Return which functions took the time of samples; None for a trace without any."""
    history = subject.history
    everything = history.samples(start_ns=subject.start_ns, end_ns=subject.end_ns)
    if not (everything.stack >= 0).any():
        return None
    samples, idle = without_idle(history, everything, is_chosen=False)
    tree = sample_tree(samples)
    number = len(samples)
    own = _by_frame(tree, tree.own)
    is_outermost = outermost(tree.stacks.parent, tree.stacks.frame, len(tree.stacks.frames))
    within = _by_frame(tree, np.where(is_outermost, tree.total, 0))
    whole = int(tree.own.sum())
    measures = []
    if whole > 0:
        measures = [
            _functions("samples.own", _ITSELF, own, whole, number, _OWN_SAID),
            _functions(
                "samples.within",
                "a function or what it called",
                within,
                whole,
                number,
                _WITHIN_SAID,
            ),
        ]
    missing = []
    if idle:
        verb = "is" if idle == 1 else "are"
        missing.append(f"{counted(idle, 'sample')} of idle CPUs {verb} not counted.")
    if number < _FEWEST:
        missing.append(f"there are {counted(number, 'sample')}, too few for a conclusion.")
    return Explanation(
        "samples",
        "sample",
        number,
        subject.range_ns,
        tuple(measures),
        Budget.of_rows((TimeClass.WORK, name, weight) for name, weight in own),
        missing=tuple(missing),
        unit=_unit(subject),
    )


def _unit(subject: Subject) -> str:
    """Return the unit of the weights of the samples; samples are counted where there is none."""
    units = [*subject.history.metadata.sample_units.values()]
    return units[0] if units else "samples"


def _by_frame(tree: CallTree, amounts: Int64s) -> list[tuple[str, int]]:
    """Return the sum of amounts by function, most first."""
    total = np.zeros(len(tree.stacks.frames), np.int64)
    np.add.at(total, tree.stacks.frame, amounts)
    names = tree.stacks.frames
    found = [(names[code], int(total[code])) for code in np.flatnonzero(total).tolist()]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def _functions(  # noqa: PLR0917 - what functions took
    id_: str, how: str, found: list[tuple[str, int]], whole: int, number: int, limit: float
) -> Conclusion:
    shares = [(name, weight / whole) for name, weight in found]
    # what has no name, or calls nearly everything, says nothing
    telling = [
        (name, share)
        for name, share in shares
        if share >= limit and not name.startswith("[") and (share < _NEARLY_ALL or how == _ITSELF)
    ]
    shown = [f"{name} {percent(share)}" for name, share in (telling or shares[:1])[:_NAMED]]
    return Conclusion(
        id_,
        f"Of {counted(number, 'sample')}, most are in {how}: {listed(shown)}.",
        None,
        shares[0][1] if shares else 0.0,
        certainty="inferred",
        parts={"by": [{"name": name, "share": share} for name, share in shares[:_MOST]]},
        is_notable=bool(telling) and number >= _FEWEST,
    )


def explain_spans(subject: Subject) -> Explanation | None:
    """Return which spans took the time themselves; None for a trace without any."""
    history = subject.history
    threads = thread_quarks(history)
    spans = history.spans(threads, start_ns=subject.start_ns, end_ns=subject.end_ns)
    if not len(spans):
        return None
    missing = []
    if len(frames := _frames(subject, spans)):
        names = [spans.name[row] or "" for row in spans.offsets[frames].tolist()]
        missing.append(
            f"{listed(names)} took the whole range with nothing in it: that is the recording"
            " itself, and not counted."
        )
        threads = np.setdiff1d(threads, spans.threads[frames])
        spans = history.spans(threads, start_ns=subject.start_ns, end_ns=subject.end_ns)
    # each moment of a thread counts once, for the innermost span that is open
    own_ns = innermost_time(
        np.maximum(spans.start_ns, subject.start_ns),
        np.minimum(spans.end_ns, subject.end_ns),
        spans.offsets,
    )
    own = by_name(spans.name, own_ns)
    total_ns = sum(time_ns for _, time_ns in own)
    return Explanation(
        "spans",
        "span",
        len(spans),
        subject.range_ns,
        tuple(_largest(subject, own, total_ns, len(spans.threads))),
        Budget.of_rows(
            (TimeClass.IDLE if is_waiting_call(name) else TimeClass.WORK, name, time_ns)
            for name, time_ns in own
        ),
        missing=tuple(missing),
    )


def _frames(subject: Subject, spans: SpanTable) -> Int64s:
    """Return the threads of a table that only have a span as long as the range, beside others."""
    counts = np.diff(spans.offsets)
    alone = np.flatnonzero(counts == 1)
    if len(alone) == len(counts):
        return alone[:0]
    rows = spans.offsets[alone]
    length_ns = spans.end_ns[rows] - spans.start_ns[rows]
    return alone[length_ns >= _WHOLE * subject.length_ns]


def _largest(
    subject: Subject, names: list[tuple[str, int]], total_ns: int, threads: int
) -> Iterator[Conclusion]:
    names = [each for each in names if not is_waiting_call(each[0])]
    if not names:
        return
    name, time_ns = names[0]
    share = time_ns / total_ns
    shown = [
        f"{each} {percent(own_ns / total_ns)}"
        for each, own_ns in names[:_NAMED]
        if own_ns >= _OWN_SAID * total_ns
    ]
    yield Conclusion(
        "spans.own",
        f"Of {rounded_ns(total_ns)} in spans of {counted(threads, 'thread')}, most is the own time"
        f" of {listed(shown) if shown else name}.",
        time_ns,
        share,
        time_ns,
        "bound",
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        parts={"by": [{"name": each, "ns": own_ns} for each, own_ns in names[:_MOST]]},
        is_notable=share >= _ALONE_SAID and len(names) > 1,
    )
