"""Track events as spans, points, flows and counters.

Events are sorted by time, as the sequences of packets of one track may be written one after the
other. An end closes the latest open begin of its track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from meantime.kernels import nest, perfetto
from meantime.model.attribute_paths import (
    ASYNC_PATTERN,
    COUNTER_PATTERN,
    async_path,
    thread_path,
)
from meantime.model.trace import (
    Arguments,
    ArgumentText,
    Counters,
    Flows,
    LaneDeclaration,
    Points,
    SpanFlag,
    Spans,
)
from meantime.readers.chrome.spans import add_end_arguments
from meantime.readers.contract import MOST_BATCH_ROWS
from meantime.readers.matching import Begins, Ends, close_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s, Interner
    from meantime.model.trace import Batch, Trace
    from meantime.readers.perfetto.scanned import Scanned
    from meantime.readers.perfetto.tracks import Tracks

__all__ = ["END", "TrackEvents"]

_BEGIN, END, _INSTANT, _NEITHER, _COMPLETE, _FLOW = 1, 2, 3, 0, 5, 6
_THREAD_TRACK = 1
# Phases of Chrome's trace events, which old writers put into track events.
_PHASES: Final = {
    **dict.fromkeys("BbS", _BEGIN),
    **dict.fromkeys("EeF", END),
    **dict.fromkeys("iIRnTp", _INSTANT),
    "X": _COMPLETE,
    **dict.fromkeys("stf", _FLOW),
}
_ASYNC = frozenset(map(ord, "bneSTpF"))
_IN, _OUT, _INOUT = 1, 2, 3
_LOCAL_ID = 2
_LONGEST_NS = 2**62 - 1
_GLOBAL_PROCESS = "global"


class _Ends(NamedTuple):
    """The events on flows: the row of each, its flow, whether that arrives there or leaves."""

    event: Int64s
    id: npt.NDArray[np.uint64]
    arrives: npt.NDArray[np.bool_]
    leaves: npt.NDArray[np.bool_]


class _Places(NamedTuple):
    """By row of the events the entity, and the beginning of its span; the codes of names."""

    entity: Int32s
    at_ns: Int64s
    names: Int32s


class _Matched(NamedTuple):
    """Spans, by the rows of their begins, and the spans that ends belong to.

    Attributes:
        rows: The row of each span's begin.
        end_ns: The end of each.
        level: How many spans were open on its track.
        flags: `SpanFlag`.
        ends: The rows of ends.
        closed: Which of the spans each of these ended, or -1.
    """

    rows: Int64s
    end_ns: Int64s
    level: Int32s
    flags: npt.NDArray[np.uint8]
    ends: Int64s
    closed: Int64s


class TrackEvents:
    """The events of all tracks of a trace."""

    def __init__(
        self,
        trace: Trace,
        scanned: Scanned,
        tracks: Tracks,
        values: Interner[str],
    ) -> None:
        tables = scanned.tables
        self._trace = trace
        self._names = scanned.names
        self._texts, self._offsets = scanned.texts, scanned.offsets
        self._tracks = tracks
        self._values = values
        self._events = tables["events"]
        self._ends = tables["ends"]
        self._counts = scanned.counts
        self._flows = tables["flows"]
        self._legacy = tables["legacy"]
        self._tracks_rows = tables["tracks"]
        # by row of the events: what it is, its track and time, how long a complete one lasts
        self._kind: Int32s = self._events["kind"]
        self._track: Int32s = self._events["track"]
        self._time_ns: Int64s = self._events["time_ns"]
        self._duration_ns: dict[int, int] = {}
        # how many events there are of each kind
        self._kinds: list[int] = []

    def batches(self) -> Iterator[Batch]:
        """Yield everything."""
        self._trace.text = ArgumentText(self._texts)
        if len(self._events):
            yield from self._event_batches()
        if len(self._counts["track"]):
            yield from self._counter_batches()

    def _event_batches(self) -> Iterator[Batch]:
        trace = self._trace
        entities = self._track_entities()
        odd = self._odd_tracks(entities)
        entity, spans = self._matched(entities, odd)
        self._read_legacy(entity)
        trace.anomalies.add("unknown_phase", self._kinds[_NEITHER])
        if odd.any():
            spans = _joined(spans, self._sorted(entities, entity, odd))
        if len(spans.rows) and trace.bounds is not None:
            trace.bounds = trace.bounds[0], max(trace.bounds[1], int(spans.end_ns.max()))
        points = self._of_kind(_INSTANT)
        has_flows = len(self._flows) or len(self._legacy)
        with_names, with_categories = perfetto.used(self._events, spans.rows, len(self._names))
        with_names |= perfetto.used(self._events, points, len(self._names))[0]
        if has_flows:
            with_names[:] = True
        names = self._codes(with_names)
        categories = self._category_codes(with_categories)
        self._declare(entity if len(self._legacy) else entities[entities >= 0])
        yield from self._spans(spans, entity, names, categories)
        if odd.any():
            points = points[np.argsort(self._time_ns[points], kind="stable")]
        for first in range(0, len(points), MOST_BATCH_ROWS):
            chosen = points[first : first + MOST_BATCH_ROWS]
            yield Points(
                self._time_ns[chosen],
                entity[chosen],
                names[self._events["name"][chosen]],
                np.full(len(chosen), -1, np.int32),
                self._arguments(chosen),
            )
        if has_flows:
            # an event is on the span that it begins or ends
            at_ns = self._time_ns.copy()
            closed = spans.closed >= 0
            at_ns[spans.ends[closed]] = self._time_ns[spans.rows[spans.closed[closed]]]
            yield from self._flow_batches(_Places(entity, at_ns, names))

    def _of_kind(self, kind: int) -> Int64s:
        """Return the rows of the events of a kind."""
        # the kinds are not next to each other: to find that there are none takes as long as a scan
        return np.flatnonzero(self._kind == kind) if self._kinds[kind] else np.zeros(0, np.int64)

    def _odd_tracks(self, entities: Int32s) -> npt.NDArray[np.bool_]:
        """Return of which tracks begins and ends are to be matched by their times."""
        shared = np.bincount(entities[entities >= 0], minlength=1) > 1
        odd: npt.NDArray[np.bool_] = (self._tracks_rows["is_odd"] != 0) | shared[entities]
        return odd

    def _matched(self, entities: Int32s, odd: npt.NDArray[np.bool_]) -> tuple[Int32s, _Matched]:
        """Return the entity of each event, and the spans that the scanner has matched."""
        events, anomalies, tracks = self._events, self._trace.anomalies, self._tracks_rows
        entity, rows, end_ns, level, flags, unfinished, self._kinds = perfetto.matched(
            events,
            odd.view(np.uint8),
            tracks["last_ns"].copy(),
            entities,
            SpanFlag.STRUCTURED,
            SpanFlag.UNFINISHED,
        )
        anomalies.add("unfinished_span", unfinished)
        # of the others nothing but the time was needed
        ends = self._of_kind(END)
        ends = ends[~odd[self._track[ends]]]
        begin = events["end"][ends]
        closed = np.where(begin < 0, -1, np.searchsorted(rows, begin))
        anomalies.add("end_without_begin", int(tracks["unmatched"][~odd & (entities >= 0)].sum()))
        return entity, _Matched(rows, end_ns, level, flags, ends, closed)

    def _sorted(self, entities: Int32s, entity: Int32s, odd: npt.NDArray[np.bool_]) -> _Matched:
        """Return the spans of other tracks, matched in order of time."""
        chosen = np.flatnonzero(odd[self._track])
        begins = self._ends["begin"]
        own = odd[self._track[begins]]
        begins, before = begins[own], self._ends["before"][own]
        # ends that were not kept as events are between these
        row = np.concatenate([np.full(len(begins), -1), chosen])
        kind = np.concatenate([np.full(len(begins), END, np.int32), self._kind[chosen]])
        time_ns = np.concatenate([self._events["end"][begins], self._time_ns[chosen]])
        of = np.concatenate([entities[self._track[begins]], entity[chosen]])
        order = np.lexsort((row >= 0, np.concatenate([before, chosen]), time_ns))
        row, kind, time_ns, of = row[order], kind[order], time_ns[order], of[order]
        begun = (kind == _BEGIN) | (kind == _COMPLETE)
        is_end = kind == END
        rows = row[begun]
        is_open = kind[begun] == _BEGIN
        start_ns = time_ns[begun]
        end_ns = start_ns.copy()
        for place in np.flatnonzero(~is_open).tolist():
            end_ns[place] += min(self._duration_ns.get(int(rows[place]), 0), _LONGEST_NS)
        # the depth of others follows from their times
        begun_flags = np.uint8(nest.OPEN | SpanFlag.STRUCTURED)
        flags = np.where(is_open, begun_flags, np.uint8(0))
        level = np.zeros(len(rows), np.int32)
        thread = of[begun]
        last_ns = np.zeros(len(self._trace.paths), np.int64)
        np.maximum.at(last_ns, of, time_ns)
        np.maximum.at(last_ns, thread, end_ns)
        closed = close_spans(
            Begins(start_ns, end_ns, thread, np.zeros(len(rows), np.int32), flags),
            level,
            Ends(
                time_ns[is_end],
                of[is_end],
                np.full(int(np.count_nonzero(is_end)), -1, np.int32),
                np.cumsum(begun, dtype=np.int32)[is_end],
            ),
            last_ns=last_ns,
            backwards=np.zeros(len(self._trace.paths), np.bool_),
            anomalies=self._trace.anomalies,
        )
        flags &= ~np.uint8(nest.OPEN)
        ends = row[is_end]
        return _Matched(
            rows, end_ns, level, flags, ends[ends >= 0], closed[ends >= 0].astype(np.int64)
        )

    def _spans(
        self, spans: _Matched, entity: Int32s, names: Int32s, categories: Int32s
    ) -> Iterator[Batch]:
        merged = None
        if len(spans.ends):
            merged, of_ends = self._arguments(spans.rows), self._arguments(spans.ends)
            add_end_arguments(merged, of_ends, spans.closed.astype(np.int32), self._trace.text)
        for first in range(0, len(spans.rows), MOST_BATCH_ROWS):
            part = slice(first, first + MOST_BATCH_ROWS)
            chosen = spans.rows[part]
            start_ns, name, category = perfetto.named(self._events, chosen, names, categories)
            if merged is None:
                arguments = self._arguments(chosen)
            else:
                arguments = Arguments(merged.offset[part], merged.length[part])
            yield Spans(
                start_ns,
                spans.end_ns[part],
                entity[chosen],
                name,
                category,
                spans.level[part],
                spans.flags[part],
                arguments,
            )

    def _arguments(self, rows: Int64s) -> Arguments:
        return Arguments(*perfetto.arguments(self._events, rows, self._offsets))

    def _declare(self, entity: Int32s) -> None:
        """Declare the lanes of the entities that have events."""
        trace = self._trace
        used = np.zeros(len(trace.paths), np.bool_)
        used[entity] = True
        if {trace.paths[each][-2] for each in np.flatnonzero(used).tolist()} - {"Threads"}:
            lane = LaneDeclaration(ASYNC_PATTERN, kind="async", label="Tracks", entity_kind="Id")
            trace.lanes.append(lane)

    def _codes(self, used: npt.NDArray[np.bool_]) -> Int32s:
        """Return the trace's code of each name that is used; the last one is of no name."""
        codes = np.full(len(used), -1, np.int32)
        for code in np.flatnonzero(used).tolist():
            codes[code] = self._values.code("" if code == len(self._names) else self._names[code])
        return codes

    def _category_codes(self, used: npt.NDArray[np.bool_]) -> Int32s:
        found = np.flatnonzero(used[:-1])
        codes = np.full(len(used), -1, np.int32)
        categories = self._trace.categories
        codes[found] = np.arange(len(categories), len(categories) + len(found))
        categories += [self._names[code] for code in found.tolist()]
        return codes

    def _track_entities(self) -> Int32s:
        """Return the entity of each track that has events, -1 of others."""
        tracks, events = self._tracks_rows, self._events
        first = tracks["first"]
        codes = np.full(len(tracks), -1, np.int32)
        for code in np.flatnonzero(first >= 0).tolist():
            key = int(tracks["key"][code])
            if tracks["kind"][code] == _THREAD_TRACK:
                path = thread_path(key & 0xFFFFFFFF, key >> 32)
            else:
                name = int(events["name"][first[code]])
                path = self._tracks.path(key, self._names[name] if name >= 0 else "")
            codes[code] = self._trace.paths.code(path)
        return codes

    def _read_legacy(self, entity: Int32s) -> None:
        """Read the phases and ids of Chrome's trace events."""
        left_out = 0
        events = self._events
        for row in self._legacy.tolist():
            event, duration_ns, id_, _, phase, id_kind, scope, *_, pid, _ = row
            if self._kind[event] != _NEITHER or not phase:
                continue
            kind = _PHASES.get(chr(phase))
            if kind is None:
                left_out += 1
                self._kind[event] = _FLOW
                continue
            self._kind[event] = kind
            if kind == _COMPLETE:
                self._duration_ns[event] = max(duration_ns, 0)
            if phase in _ASYNC:
                track = self._track[event]
                category = int(events["category"][event])
                group = self._names[scope] if scope >= 0 else ""
                group = group or (self._names[category] if category >= 0 else "async")
                process = str(pid) if id_kind == _LOCAL_ID and pid >= 0 else _GLOBAL_PROCESS
                if id_kind == _LOCAL_ID and pid < 0:
                    owner = self._tracks.owner(int(self._tracks_rows["key"][track]))[0]
                    process = str(owner) if owner >= 0 else _GLOBAL_PROCESS
                entity[event] = self._trace.paths.code(async_path(process, group, f"{id_:#x}"))
        self._trace.anomalies.add("phase_not_shown", left_out)
        if len(self._legacy):
            self._kinds = np.bincount(self._kind, minlength=_FLOW + 1).tolist()

    def _flow_batches(self, places: _Places) -> Iterator[Batch]:
        """Yield the links between events with the same id of a flow."""
        flows, legacy = self._flows, self._legacy
        every = np.ones(len(flows), np.bool_)
        yield from self._links(
            _Ends(flows["event"].copy(), flows["id"].copy(), every, flows["is_last"] == 0), places
        )
        bound = legacy[legacy["direction"] > 0]
        way = bound["direction"]
        yield from self._links(
            _Ends(
                bound["event"].copy(),
                bound["bind_id"].copy(),
                (way == _IN) | (way == _INOUT),
                (way == _OUT) | (way == _INOUT),
            ),
            places,
        )
        old = legacy[np.isin(legacy["phase"], [*b"stf"])]
        phase = old["phase"]
        yield from self._links(
            _Ends(old["event"].copy(), old["id"].copy(), phase != ord("s"), phase != ord("f")),
            places,
        )

    def _links(self, ends: _Ends, places: _Places) -> Iterator[Batch]:
        """Yield a link from the latest departure of a flow to each arrival."""
        if not len(ends.event):
            return
        rows = np.arange(len(ends.event))
        order = np.lexsort((rows, self._time_ns[ends.event], ends.id))
        event, id_, arrives, leaves = (column[order] for column in ends)
        # what only arrives ends the flow: the next event with its id begins another one
        stays = np.where(leaves | ~arrives, -1, rows)
        ended = np.concatenate([[-1], np.maximum.accumulate(stays)[:-1]])
        latest = np.maximum.accumulate(np.where(leaves, rows, -1))
        before = np.concatenate([[-1], latest[:-1]])
        linked = arrives & (before >= 0) & (before > ended)
        linked[linked] &= id_[before[linked]] == id_[linked]
        origin, target = event[before[linked]], event[linked]
        # a flow goes forward in time, whichever of its spans ended first
        swapped = places.at_ns[origin] > places.at_ns[target]
        origin, target = np.where(swapped, target, origin), np.where(swapped, origin, target)
        for first in range(0, len(origin), MOST_BATCH_ROWS):
            causes = origin[first : first + MOST_BATCH_ROWS]
            effects = target[first : first + MOST_BATCH_ROWS]
            yield Flows(
                places.entity[causes],
                places.at_ns[causes],
                places.entity[effects],
                places.at_ns[effects],
                places.names[self._events["name"][causes]],
            )

    def _counter_batches(self) -> Iterator[Batch]:
        """Yield counters: those of integers, then those of others."""
        counts = self._counts
        track = counts["track"]
        keys = self._tracks_rows["key"]
        is_used = np.zeros(len(keys), np.bool_)
        is_used[track] = True
        used = np.flatnonzero(is_used)
        described = [self._tracks.track(int(keys[code])) for code in used]
        # by track
        entities = np.full(len(keys), -1, np.int32)
        entities[used] = [
            self._trace.paths.code(self._tracks.counter_path(int(keys[code]))) for code in used
        ]
        scale, is_incremental = np.ones(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        scale[used] = [each.multiplier for each in described]
        is_incremental[used] = [each.is_incremental for each in described]
        in_double = counts["is_double"]
        value = counts["value"]
        number = np.where(in_double, value.view(np.float64), value) if in_double.any() else value
        doubled = np.zeros(len(self._trace.paths), np.bool_)
        doubled[entities[track[in_double]]] = True
        is_double = doubled[entities]
        for dtype in (np.int64, np.float64):
            chosen = is_used & (is_double == (dtype is np.float64))
            if not chosen.any():
                continue
            rows = slice(None) if chosen[used].all() else np.flatnonzero(chosen[track])
            of_track = track[rows]
            numbers = (value if dtype is np.int64 else number)[rows].astype(dtype, copy=False)
            if (scale[used] != 1).any():
                with np.errstate(over="ignore", invalid="ignore"):
                    numbers = numbers * scale[of_track]
            if is_incremental.any():
                summed = is_incremental[of_track]
                numbers = numbers.copy()
                numbers[summed] = _running(
                    of_track[summed], counts["group"][rows][summed], numbers[summed]
                )
            time_ns, of = counts["time_ns"][rows], entities[of_track]
            if dtype is np.float64:
                finite = np.isfinite(numbers)
                self._trace.anomalies.add("bad_counter", int(np.count_nonzero(~finite)))
                if not finite.all():
                    time_ns, of, numbers = time_ns[finite], of[finite], numbers[finite]
            if (time_ns[1:] < time_ns[:-1]).any():
                in_time = np.argsort(time_ns, kind="stable")
                time_ns, of, numbers = time_ns[in_time], of[in_time], numbers[in_time]
            for first in range(0, len(of), MOST_BATCH_ROWS):
                part = slice(first, first + MOST_BATCH_ROWS)
                chosen_numbers: Any = numbers[part]
                yield Counters(time_ns[part], of[part], chosen_numbers)
        self._trace.lanes.append(LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters"))


def _joined(first: _Matched, second: _Matched) -> _Matched:
    pairs: Any = zip(first, second, strict=True)
    spans = _Matched(*(np.concatenate(pair) for pair in pairs))
    # positions in the second part follow those in the first
    spans.closed[len(first.ends) :][second.closed >= 0] += len(first.rows)
    return spans


def _running(
    track: npt.NDArray[np.intp], group: Int32s, numbers: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return the running sums of differences, which begin again with each state of a sequence.

    >>> _running(np.array([0, 1, 0]), np.array([1, 1, 1]), np.array([1, 10, 2])).tolist()
    [1, 10, 3]
    """
    order = np.lexsort((np.arange(len(track)), group, track))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(track[order]) != 0) | (np.diff(group[order]) != 0)
    sums = np.cumsum(numbers[order])
    before = (sums - numbers[order])[first]
    found = np.empty_like(numbers)
    found[order] = sums - before[np.cumsum(first) - 1]
    return found
