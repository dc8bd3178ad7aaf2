"""Answers to what a page asks about a range and some lanes, as JSON values.

Members whose names end in `_ns` are integers here; `document` makes the texts of them that a page
gets, since its numbers lose nanoseconds after 104 days.
"""

from __future__ import annotations

from dataclasses import replace
from glob import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from meantime.errors import TimeRangeError, UsageError
from meantime.kernels.pixel_columns import state_load
from meantime.model.attribute_paths import REQUESTS
from meantime.model.durations import Durations, as_json, figures_of
from meantime.model.names import merged_names
from meantime.model.state_classes import class_of, is_quiet, rank
from meantime.query.counting import what_counts
from meantime.query.duration_sums import bit_lengths
from meantime.query.durations import clipped, span_statistics
from meantime.query.explain import explain_briefly
from meantime.query.findings import findings
from meantime.query.groups import group_statistics
from meantime.query.idle_samples import without_idle
from meantime.query.offsets.fold import Fold
from meantime.query.offsets.gather import Choice, kind_of, offset_map
from meantime.query.parts import extent_of
from meantime.query.sampled_states import with_sampled_states
from meantime.query.services import service_statistics
from meantime.query.stacks import left_heavy, with_no_stack
from meantime.query.statistics import state_quarks, state_statistics
from meantime.query.threads import thread_quarks
from meantime.query.trees import by_name, call_tree
from meantime.server.places import clip
from meantime.views.heatmap.document import document as heat_document
from meantime.views.heatmap.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s
    from meantime.query.counting import Counted
    from meantime.query.groups import Group, Grouping, GroupStatistics
    from meantime.query.offsets.map import Kind
    from meantime.query.ranges import Range
    from meantime.query.services import ServiceGroup, ServiceGrouping, ServiceStatistics
    from meantime.server.lanes import LaneTree

__all__ = ["Asked", "flame", "flows", "heat", "stands_out", "statistics", "summary"]

_MOST_ROWS = 1_000
_MOST_NODES = 50_000
_MOST_CELLS = 1 << 22
_MOST_FINDINGS = 100
_BUCKETS = 63
# So many rows of names have bars, and as many bars; they are sums of bins.
_MOST_BARS = 300
_BARS = 64
_BINS = 512
# What sums of parts of bins may be off by, in hundredths of the highest bar.
_ROUNDING = 1e-6
_SPAN_GROUPINGS = ("name", "category", "thread")
_OF_SERVICES = ("service", "operation")
_GROUPINGS = ("request", "function", "site", *_OF_SERVICES)
_LOOPS = "Loops"
_MAPPED = {
    "state": "states",
    "packed": "states",
    "stack": "spans",
    "async": "spans",
    "density": "samples",
}


class Asked(NamedTuple):
    """What an answer is about.

    Attributes:
        start_ns: Where the range begins; None is where the file does.
        end_ns: Where it ends.
        lanes: Which lanes, a group meaning all below it; None is all.
    """

    start_ns: int | None
    end_ns: int | None
    lanes: Sequence[int] | None


def statistics(
    tree: LaneTree,
    by: str,
    asked: Asked,
    progress: Callable[[float], None] | None = None,
    *,
    of: Counted | None = None,
) -> dict[str, Any]:
    """Return what `meantime stats --json` prints of a range and some lanes, and histograms.

    Raises:
        UsageError: If there is no such grouping.
    """
    history = tree.history
    start_ns, end_ns, lanes = asked
    begin_ns, finish_ns = history.bounds
    start_ns = begin_ns if start_ns is None else start_ns
    end_ns = finish_ns if end_ns is None else end_ns
    if end_ns <= start_ns or extent_of(history).misses(start_ns, end_ns):
        nothing: dict[str, Any] = {"by": by, "range_ns": [start_ns, end_ns]}
        return {**nothing, "rows": [], "rest": 0, "transitions": []}
    chosen = None if lanes is None else tree.quarks(lanes)
    if by in {"state", "entity"}:
        return _state_statistics(tree, by, (start_ns, end_ns), chosen, progress)
    if by in _GROUPINGS:
        if chosen is not None:
            raise UsageError(f"statistics by {by} are of all lanes")
        return _group_statistics(history, by, start_ns, end_ns)
    if by not in _SPAN_GROUPINGS:
        known = ", ".join(["state", "entity", *_SPAN_GROUPINGS, *_GROUPINGS])
        raise UsageError(f"unknown grouping {by[:40]!r}; choose {known}")
    has_only_samples = not len(thread_quarks(history)) and len(history.samples())
    if has_only_samples or (by == "name" and what_counts(history, of) == "samples"):
        return _sample_statistics(history, start_ns, end_ns, chosen)
    grouping = cast("Literal['name', 'category', 'thread']", by)
    quarks = thread_quarks(history) if chosen is None else chosen
    found = span_statistics(history, grouping, quarks=quarks, start_ns=start_ns, end_ns=end_ns)
    columns = {
        name: column.tolist()
        for name, column in found.columns().items()
        if isinstance(column, np.ndarray)
    }
    histograms: dict[str | None, Any] = {}
    bars: list[list[int]] = []
    whole: dict[str | None, dict[str, int]] = {}
    if by == "name":
        spans = history.spans(quarks, start_ns=start_ns, end_ns=end_ns)
        names, codes = merged_names(spans.name.names, spans.name.codes)
        histograms = _span_histograms(spans, names, codes, (start_ns, end_ns))
        rank = {key: row for row, key in enumerate(found.keys[:_MOST_BARS])}
        ranks = np.array([rank.get(name, -1) for name in names], np.int32)
        bars = _span_bars(spans, ranks[codes], len(rank), (start_ns, end_ns))
        whole = _longest(spans, names, codes)
    rows = []
    for row, key in enumerate(found.keys[:_MOST_ROWS]):
        values: dict[str, Any] = {"key": key}
        values |= {name: column[row] for name, column in columns.items()}
        values["histogram"] = histograms.get(key)
        if row < len(bars):
            values["bars"] = bars[row]
        values |= whole.get(key, {})
        rows.append(values)
    return {
        "by": by,
        "of": "spans",
        "range_ns": [start_ns, end_ns],
        "rows": rows,
        "rest": max(0, len(found) - _MOST_ROWS),
        "transitions": [],
    }


def _longest(spans: SpanTable, names: list[str], codes: Int32s) -> dict[str | None, dict[str, int]]:
    """Return by name how long its longest span is, with what is outside of the range."""
    longest = np.zeros(len(names), np.int64)
    np.maximum.at(longest, codes, spans.end_ns - spans.start_ns)
    return {
        name: {"whole_max_ns": each} for name, each in zip(names, longest.tolist(), strict=True)
    }


def _state_statistics(
    tree: LaneTree,
    by: str,
    range_ns: tuple[int, int],
    chosen: Int32s | None,
    progress: Callable[[float], None] | None,
) -> dict[str, Any]:
    start_ns, end_ns = range_ns
    history = with_sampled_states(tree.history)
    grouping = cast("Literal['state', 'entity']", by)
    if history is not tree.history and chosen is not None:
        # the states that samples show are of the same threads, in a history of their own
        paths = [tree.history.attributes.path(quark) for quark in chosen.tolist()]
        quarks = [history.find(*path) for path in paths]
        chosen = np.array([quark for quark in quarks if quark is not None], np.int32)
    found = state_statistics(
        history,
        by=grouping,
        quarks=chosen,
        start_ns=start_ns,
        end_ns=end_ns,
        progress=progress,
    )
    rows = [as_json(row) for row in found.rows[:_MOST_ROWS]]
    if by == "state":
        for row in rows:
            counts = np.array(found.histograms[row["kind"], row["key"]])
            row["histogram"] = _trimmed(counts)
    return {
        "by": by,
        "range_ns": list(found.range_ns),
        "rows": rows,
        "rest": max(0, len(found.rows) - _MOST_ROWS),
        "transitions": [list(each) for each in found.transitions[:_MOST_ROWS]],
        "estimated": history is not tree.history,
    }


def _group_statistics(history: History, by: str, start_ns: int, end_ns: int) -> dict[str, Any]:
    """Return statistics of requests and tasks, or of services and their operations."""
    found: GroupStatistics | ServiceStatistics
    if by in _OF_SERVICES:
        of_services = cast("ServiceGrouping", by)
        found = service_statistics(history, by=of_services, start_ns=start_ns, end_ns=end_ns)
        rows = [_service_row(row) for row in found.rows]
    else:
        grouping = cast("Grouping", by)
        found = group_statistics(history, by=grouping, start_ns=start_ns, end_ns=end_ns)
        of_kind: dict[str, int] = {}
        for row in found.rows:
            of_kind[row.kind] = of_kind.get(row.kind, 0) + row.total_ns
        rows = [_group_row(row, of_kind[row.kind]) for row in found.rows]
    return {
        "by": by,
        "range_ns": list(found.range_ns),
        "rows": rows[:_MOST_ROWS],
        "rest": max(0, len(rows) - _MOST_ROWS),
        "transitions": [],
    }


def _group_row(row: Group, kind_ns: int) -> dict[str, Any]:
    """Return requests or tasks; their share is that of the time of all of their kind."""
    content = as_json(row)
    states, blocks = content.pop("state_ns"), content.pop("block_ns")
    return {
        **content,
        "share": row.total_ns / kind_ns if kind_ns else 0.0,
        "states": [
            {
                "state": name,
                "time_ns": time_ns,
                "class": None if (found := class_of(name)) is None else found.name,
                "rank": rank(name),
            }
            for name, time_ns in states.items()
        ],
        "blocks": [{"code": code, "time_ns": time_ns} for code, time_ns in blocks.items()],
    }


def _service_row(row: ServiceGroup) -> dict[str, Any]:
    content = as_json(row)
    service, operation = content.pop("service"), content.pop("operation")
    content["self_ns"] = content.pop("own_ns")
    if not row.count:
        # no request of the service is in the range, but spans of it are
        lengths = {figure.key for figure in figures_of(Durations)} - {"count", "total_ns"}
        content |= dict.fromkeys(lengths)
    if operation is None:
        return {**content, "key": service}
    return {**content, "key": operation, "kind": service}


def _sample_statistics(
    history: History, start_ns: int, end_ns: int, chosen: Int32s | None
) -> dict[str, Any]:
    tree, unit = call_tree(history, chosen, start_ns=start_ns, end_ns=end_ns, of="samples")
    found = by_name(tree)
    rows: list[dict[str, Any]] = [
        {"key": row.name, "count": row.calls, "self": row.own, "total": row.total}
        for row in found[:_MOST_ROWS]
    ]
    samples = history.samples(chosen, start_ns=start_ns, end_ns=end_ns)
    samples, idle = without_idle(history, samples, is_chosen=chosen is not None)
    bars = _sample_bars(samples, [row["key"] for row in rows[:_MOST_BARS]], (start_ns, end_ns))
    for row, own in zip(rows, bars, strict=False):
        row["bars"] = own
    return {
        "by": "name",
        "of": "samples",
        "range_ns": [start_ns, end_ns],
        "unit": unit,
        "rows": rows,
        "rest": max(0, len(found) - _MOST_ROWS),
        "transitions": [],
        "idle": idle,
    }


def _sample_bars(
    samples: SampleTable, keys: Sequence[str], range_ns: tuple[int, int]
) -> list[list[int]]:
    """Return by function how much it has itself over a range, in bars of 0 to 100."""
    start_ns, end_ns = range_ns
    stack, table = with_no_stack(samples)
    names, codes = merged_names(table.frames, table.frame)
    rank = {key: row for row, key in enumerate(keys)}
    row_of_name = np.array([rank.get(name, -1) for name in names], np.int32)
    seen = stack >= 0
    rows = row_of_name[codes[stack[seen]]]
    bar = ((samples.time_ns[seen] - start_ns) / (end_ns - start_ns) * _BARS).astype(np.int64)
    bars = np.zeros((len(keys), _BARS))
    is_drawn = rows >= 0
    at = rows[is_drawn], np.minimum(bar[is_drawn], _BARS - 1)
    np.add.at(bars, at, samples.weight[seen][is_drawn])
    return _heights(bars)


def _heights(bars: npt.NDArray[np.float64]) -> list[list[int]]:
    """Return bars as hundredths of the highest of their row; what is not empty has one."""
    most = bars.max(axis=1, keepdims=True, initial=0)
    high = np.ceil(bars * (100 / np.where(most > 0, most, 1)) - _ROUNDING)
    found: list[list[int]] = np.maximum(high, 0).astype(np.int64).tolist()
    return found


def _trimmed(counts: npt.NDArray[np.int64]) -> list[Any] | None:
    used = np.flatnonzero(counts)
    if not len(used):
        return None
    return [int(used[0]), counts[used[0] : used[-1] + 1].tolist()]


def _span_histograms(
    spans: SpanTable, names: list[str], codes: Int32s, range_ns: tuple[int, int]
) -> dict[str | None, Any]:
    starts, ends = clipped(spans, *range_ns)
    # durations of 0 and of 1 ns are counted together
    powers = np.maximum(bit_lengths(ends - starts), 1) - 1
    size = len(names) * _BUCKETS
    counts = np.bincount(codes * np.int64(_BUCKETS) + powers, minlength=size)
    counts = counts.reshape(len(names), _BUCKETS)
    return {name: _trimmed(counts[row]) for row, name in enumerate(names)}


def _span_bars(
    spans: SpanTable, rows: Int32s, count: int, range_ns: tuple[int, int]
) -> list[list[int]]:
    """Return by row how many spans are open at once over a range, in bars of 0 to 100.

    Args:
        spans: The spans.
        rows: The row of each, or -1.
        count: How many rows there are.
        range_ns: The range, which the bars divide evenly.
    """
    start_ns, end_ns = range_ns
    width_ns = end_ns - start_ns
    level = max(0, (-(-width_ns // _BINS) - 1).bit_length())
    partly, whole = np.zeros((count, _BINS)), np.zeros((count, _BINS + 1), np.int64)
    state_load(spans.start_ns, spans.end_ns, rows, start_ns, end_ns, start_ns, level, partly, whole)
    # what ends with the last bin changes `whole` after it
    open_ = partly + np.cumsum(whole[:, :_BINS], axis=1)
    edges = np.arange(_BINS + 1) * (_BARS * (1 << level) / width_ns)
    bar = np.arange(_BARS)
    until = np.minimum(edges[1:, None], bar + 1) - np.maximum(edges[:-1, None], bar)
    return _heights(open_ @ np.maximum(until, 0))


def flame(tree: LaneTree, asked: Asked, of: Counted | None = None) -> dict[str, Any]:
    """Return the call tree of a range and some lanes, callers first."""
    start_ns, end_ns, lanes = asked
    chosen = None if lanes is None else tree.quarks(lanes)
    of = what_counts(tree.history, of)
    found, unit = call_tree(tree.history, chosen, start_ns=start_ns, end_ns=end_ns, of=of)
    idle = 0
    if of == "samples":
        samples = tree.history.samples(chosen, start_ns=start_ns, end_ns=end_ns)
        _, idle = without_idle(tree.history, samples, is_chosen=chosen is not None)
    order = [row for row in left_heavy(found) if found.total[row] or found.count[row]]
    dropped = 0
    if len(order) > _MOST_NODES:
        # a caller weighs as much as what it called, and comes before it
        ranked = sorted(order, key=lambda row: -int(found.total[row]))
        kept = set(ranked[:_MOST_NODES])
        dropped = len(order) - len(kept)
        order = [row for row in order if row in kept]
    index = {row: number for number, row in enumerate(order)}
    parents = found.stacks.parent[order].tolist()
    frames, name = np.unique(found.stacks.frame[order], return_inverse=True)
    return {
        "unit": unit,
        "of": of,
        "names": [found.stacks.frames[frame] for frame in frames.tolist()],
        "parent": [index.get(parent, -1) for parent in parents],
        "name": name.tolist(),
        "total": found.total[order].tolist(),
        "self": found.own[order].tolist(),
        "count": found.count[order].tolist(),
        "dropped": dropped,
        "idle": idle,
    }


def heat(
    tree: LaneTree, asked: Asked, period_ns: int, rows: int, state: str | None
) -> dict[str, Any]:
    """Return the heat map of a range and some lanes, which are of one kind.

    Of states, those that match the pattern are counted; without one, all in which something is
    done or waited for: neither idle nor sleeping.

    Raises:
        UsageError: If the map would have too many cells, or more rows than nanoseconds.
    """
    history = tree.history
    start_ns, end_ns, lanes = asked
    begin_ns, finish_ns = history.bounds
    start_ns = begin_ns if start_ns is None else max(start_ns, begin_ns)
    end_ns = finish_ns if end_ns is None else min(end_ns, finish_ns)
    if end_ns <= start_ns:
        raise TimeRangeError("nothing of the file is in the range")
    if not 1 <= rows <= min(period_ns, 1_000):
        raise UsageError(f"a column of {period_ns} ns cannot have {rows} rows")
    if (end_ns - start_ns) // period_ns * rows > _MOST_CELLS:
        raise UsageError("the map would have more than 4 million cells; choose a longer period")
    fold = Fold(origin_ns=start_ns, period_ns=period_ns, rows=rows)
    choice = Choice(window=(start_ns, end_ns))
    if lanes is not None:
        below = tree.below(lanes)
        kinds = {_MAPPED.get(tree.lanes[lane].kind) for lane in below} - {None}
        if len(kinds) != 1:
            raise UsageError("a heat map is of lanes of states, of spans or of samples")
        quarks = tuple(tree.quarks(below).tolist())
        choice = replace(choice, kind=cast("Kind", kinds.pop()), quarks=quarks)
    if kind_of(history, choice) == "states":
        patterns = (state,) if state else _active_states(history, choice, (start_ns, end_ns))
        choice = replace(choice, states=patterns)
    is_sampled = kind_of(history, choice) == "samples"
    if is_sampled:
        # so that samples of idle CPUs are apart
        choice = replace(choice, by="event")
    found = offset_map(history, fold, choice, source="")
    is_idle_wanted = lanes is not None and [*found.by] == [*found.idle]
    content = heat_document(found, selection=Selection(hidden=() if is_idle_wanted else found.idle))
    return {
        name: content[name]
        for name in ("origin_ns", "period_ns", "rows", "value", "columns", "cells", "recorded")
    } | {"lost_ns": content.get("lost_ns", []), "states": list(choice.states)}


def _active_states(history: History, choice: Choice, range_ns: tuple[int, int]) -> tuple[str, ...]:
    """Return patterns for the states in a range that are neither idle nor sleeping."""
    part = clip(history, *range_ns)
    quarks = choice.of(history, state_quarks(history))
    if part is None or not len(quarks):
        return ("*",)
    found = set(history.shares(quarks, *part).value.to_list()) - {None}
    active = sorted(str(name) for name in found if not is_quiet(str(name)))
    return tuple(map(escape, active)) or ("*",)


def summary(tree: LaneTree, asked: Asked) -> dict[str, Any]:
    """Return for how long event loops ran in a range, and how many requests there were.

    Each is None without such lanes.
    """
    history = tree.history
    begin_ns, finish_ns = history.bounds
    start_ns = begin_ns if asked.start_ns is None else asked.start_ns
    end_ns = finish_ns if asked.end_ns is None else asked.end_ns
    loops = history.quarks(f"{_LOOPS}/*")
    found: dict[str, Any] = {"loop_ns": None, "running_ns": None, "requests": None}
    part = clip(history, start_ns, end_ns)
    if part is None:
        return found
    if len(loops):
        shares = history.shares(loops, *part)
        found["loop_ns"] = found["running_ns"] = 0
        for state, ns in zip(shares.value.to_list(), shares.ns.tolist(), strict=True):
            if state is not None:
                found["loop_ns"] += ns
                of_class = class_of(str(state))
                found["running_ns"] += ns if of_class and of_class.name == "running" else 0
    for block in tree.blocks.get("packed", []):
        of_requests = [
            index
            for index, lane in enumerate(block.lanes)
            if history.attributes.path(int(block.of_lane(index)[0]))[0] == REQUESTS
        ]
        if of_requests:
            is_row = np.repeat(
                np.isin(np.arange(len(block.lanes)), of_requests), np.diff(block.row_offsets)
            )
            is_in = (block.start_ns < end_ns) & (block.end_ns > start_ns) & is_row[block.row]
            found["requests"] = (found["requests"] or 0) + int(np.count_nonzero(is_in))
    return found


def stands_out(
    tree: LaneTree, file: str, asked: Asked, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Return what limited a range and what stands out in it, and the lanes that it is about.

    Args:
        tree: The lanes.
        file: The path of the file, for commands.
        asked: The range.
        progress: Called now and then with the share that is done.
    """
    history = tree.history
    begin_ns, finish_ns = history.bounds
    start_ns = begin_ns if asked.start_ns is None else asked.start_ns
    end_ns = finish_ns if asked.end_ns is None else asked.end_ns
    if clip(history, start_ns, end_ns) is None:
        return {"conclusions": [], "summary": "", "findings": []}
    found = explain_briefly(history, (start_ns, end_ns), progress)
    exceptions = findings(
        history,
        start=asked.start_ns,
        end=asked.end_ns,
        limit=_MOST_FINDINGS,
        explanation=found,
        progress=progress,
    )
    return {
        "conclusions": []
        if found is None
        else [
            _placed(tree, each.as_json(file), each.rows, each.ranges) for each in found.conclusions
        ],
        "summary": "" if found is None or found.conclusions else found.no_conclusion,
        "findings": [
            _placed(tree, each.as_json(), each.rows, each.ranges) | {"command": each.command(file)}
            for each in exceptions
        ],
    }


def _placed(
    tree: LaneTree, content: dict[str, Any], rows: Sequence[str], ranges: Sequence[Range]
) -> dict[str, Any]:
    """Return what is said of some attributes, with their lanes, and with times as text."""
    quarks = [tree.history.find(path) for path in rows]
    places = tree.places(np.array([quark for quark in quarks if quark is not None], np.int32))
    found = [(None, 0) if quark is None else places.get(quark, (None, 0)) for quark in quarks]
    return content | {
        "ranges": [[str(time_ns) for time_ns in span] for span in ranges],
        "lanes": [lane for lane, _ in found],
        "lane_rows": [row for _, row in found],
    }


def flows(tree: LaneTree, asked: Asked, limit: int) -> dict[str, Any]:
    """Return the first arrows under way in a range, and how many more there are."""
    start_ns, end_ns, lanes = asked
    quarks = None if lanes is None else tree.quarks(lanes)
    found = tree.history.flows(quarks, start_ns=start_ns, end_ns=end_ns)
    rows = tree.places(np.concatenate([found.from_quark[:limit], found.to_quark[:limit]]))
    listed = []
    for row in range(min(limit, len(found))):
        ends: dict[str, Any] = {}
        for end in ("from", "to"):
            quark = int(getattr(found, f"{end}_quark")[row])
            lane, own = rows.get(quark, (None, 0))
            ends |= {
                f"{end}_ns": int(getattr(found, f"{end}_ns")[row]),
                f"{end}_lane": lane,
                f"{end}_row": own,
                f"{end}_path": tree.handle(quark),
            }
        listed.append({**ends, "name": found.name[row]})
    return {"flows": listed, "rest": len(found) - len(listed)}
