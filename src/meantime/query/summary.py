"""The content of a history in numbers: the document of `meantime info --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.span_attributes import are_in_threads
from meantime.model.attribute_paths import PROCESSES
from meantime.query.statistics import state_quarks, state_totals
from meantime.query.threads import threads_of

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.columns import Int32s

__all__ = ["summary"]


def summary(
    history: History,
    *,
    spans: bool = False,
    event_names: bool = False,
    most_threads: int | None = None,
) -> dict[str, Any]:
    """Return the range, states, events, spans and anomalies of a history, as JSON values.

    >>> from meantime.testing import history_from_picture
    >>> content = summary(history_from_picture("disk0  aab."))
    >>> content["end_ns"], content["entities"]
    (4, 1)

    Args:
        history: The history.
        spans: Include spans and samples, by process and thread, even if there are none.
        event_names: Include how often each event occurred.
        most_threads: List only so many threads, and count the others in `more_threads`. All are
            listed if some were sampled, or are in no process.
    """
    # no number is of them
    history = history.without_derived()
    lanes = [lane.declaration for lane in history.lanes]
    totals = state_totals(history) if any(lane.states for lane in lanes) else {}
    spans = spans or len(history.spans()) > 0 or len(history.samples()) > 0
    return {
        "title": history.title,
        "host": history.clock.host,
        "clock": history.clock.kind,
        "origin_ns": history.clock.utc_at_origin_ns,
        "start_ns": history.bounds[0],
        "end_ns": history.bounds[1],
        "entities": len(state_quarks(history)),
        "entity_kinds": sorted(
            {lane.entity_kind for lane in lanes if lane.entity_kind and lane.kind == "state"}
        ),
        "states": [
            {
                "kind": kind,
                "name": state.name,
                "value": state.value,
                "color": state.color,
                "total_ns": total_ns,
                "share": share,
            }
            # threads with and without a process are one kind, in two lanes
            for kind, state in dict.fromkeys(
                (lane.name, state) for lane in lanes for state in lane.states
            )
            for total_ns, share in [totals.get((kind, state.name), (0, 0.0))]
        ],
        "tags": len(history.tags),
        "events": len(history.points()) + len(history.flows()),
        **(_event_facts(history) if event_names else {}),
        "anomalies": dict(history.anomalies),
        **(_span_facts(history, most_threads) if spans else {}),
    }


def _event_facts(history: History) -> dict[str, Any]:
    """Return how often each event occurred, the most frequent first."""
    name = history.points().name
    codes, counts = np.unique(name.codes, return_counts=True)
    counted = [
        (name.names[code], count) for code, count in zip(codes, counts.tolist(), strict=True)
    ]
    counted.sort(key=lambda pair: (-pair[1], pair[0]))
    return {"event_names": dict(counted)}


def _span_facts(history: History, most_threads: int | None) -> dict[str, Any]:
    """Return the numbers of spans and samples, by process and thread."""
    spans, samples = history.spans(), history.samples()
    processes: dict[int | str, dict[str, Any]] = {}
    sampled, counts = np.unique(samples.thread, return_counts=True)
    counted = dict(zip(sampled.tolist(), counts.tolist(), strict=True))
    # by thread: spans, depth, lanes; a thread of the table has at least one span
    first = spans.offsets[:-1]
    sizes = [np.diff(spans.offsets)]
    sizes += [
        np.maximum.reduceat(column, first).astype(np.int64) + 1 if len(first) else first
        for column in (spans.depth, spans.lane)
    ]
    without_spans = sampled[~np.isin(sampled, spans.threads)]
    quarks = np.concatenate([spans.threads, without_spans]).astype(np.int32)
    are_threads = are_in_threads(history.attributes, quarks)
    of_spans = are_threads[: len(first)]
    threads = np.flatnonzero(are_threads)
    more_threads = 0
    if most_threads is not None and not counted and _are_in_processes(history, quarks[threads]):
        more_threads = max(0, len(threads) - most_threads)
        threads = threads[:most_threads]
    listed = quarks[threads].tolist()
    columns = [
        np.append(column, np.zeros(len(without_spans), np.int64))[threads].tolist()
        for column in sizes
    ]
    for quark, whose, count, depth, lanes in zip(
        listed, threads_of(history, listed), *columns, strict=True
    ):
        process = processes.get(whose.pid)
        if process is None:
            process = {"pid": whose.pid, "name": whose.process, "threads": []}
            processes[whose.pid] = process
        process["threads"].append(
            {
                "tid": whose.tid,
                "name": whose.name,
                "spans": count,
                "depth": depth,
                "lanes": lanes,
                "samples": counted.get(quark, 0),
            }
        )
    return {
        "spans": int(sizes[0][of_spans].sum()),
        "async_spans": int(sizes[0][~of_spans].sum()),
        "samples": len(samples),
        "depth": int(sizes[1][of_spans].max(initial=0)),
        "unfinished": int(spans.unfinished.sum()),
        "processes": list(processes.values()),
        **({"more_threads": more_threads} if more_threads else {}),
        "facts": history.facts,
    }


def _are_in_processes(history: History, threads: Int32s) -> bool:
    """Return whether all threads of a table are in processes, where its order keeps them."""
    ends = {int(quark) for quark in threads[[0, -1]]} if len(threads) else ()
    return all(history.attributes.path(quark)[0] == PROCESSES for quark in ends)
