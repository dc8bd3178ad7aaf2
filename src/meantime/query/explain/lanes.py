"""Lanes of activities: parts of time, each in one class, and what ended the waits among them."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels import activity_paths
from meantime.kernels.gather import meant, seen
from meantime.kernels.nest import innermost_segments
from meantime.model.columns import Coded, named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.results import Flows
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "Dependencies",
    "Lanes",
    "Meaning",
    "Meanings",
    "TimeClass",
    "in_order",
    "lanes_of_spans",
    "lanes_of_states",
    "meanings_of",
]


# So many runs of rows are moved one by one, which touches no new memory.
_MOST_RUNS = 2**16


class TimeClass(IntEnum):
    """What a moment of an activity is spent on."""

    WORK = 0
    """It did something itself."""
    READY = 1
    """It could have gone on, and a resource was taken."""
    WAIT = 2
    """It waited for something."""
    HAND_OFF = 3
    """What it waited for was there, and it had not gone on yet."""
    IDLE = 4
    """There was nothing to do."""
    UNKNOWN = 5
    """It was not recorded."""

    @property
    def text(self) -> str:
        """The name of the class in tables and JSON: `work`, `hand-off`."""
        return self.name.lower().replace("_", "-")


class Meaning(NamedTuple):
    """What a state or a span means.

    Attributes:
        kind: The class of its time.
        label: For what: the resource that it is ready for, or what it waits for; of work, its name.
    """

    kind: TimeClass
    label: str


class Meanings(NamedTuple):
    """What each of several states or spans means.

    Attributes:
        kind: int8, its `TimeClass`.
        label: As in `Meaning`.
    """

    kind: npt.NDArray[np.int8]
    label: Coded


class Dependencies(NamedTuple):
    """What ended waits: a lane went on at a time, or before, since another one did something.

    Attributes:
        target: int32, by dependency: the lane that waited.
        target_ns: int64, when its wait could end: in the wait, or at its end.
        source: int32: the lane that it waited for.
        source_ns: int64, when that did what was waited for.
    """

    target: Int32s
    target_ns: Int64s
    source: Int32s
    source_ns: Int64s

    @classmethod
    def of_flows(
        cls, flows: Flows, lanes: Lanes, wanted: Collection[str] | None = None
    ) -> Dependencies:
        """Return what flows between these lanes say: each waited for the other end.

        Args:
            flows: The flows.
            lanes: The lanes.
            wanted: Only flows of these names; None for all.
        """
        target, source = lanes.numbers(flows.to_quark), lanes.numbers(flows.from_quark)
        is_kept = (target >= 0) & (source >= 0) & (target != source)
        if wanted is not None:
            codes = [code for code, name in enumerate(flows.name.names) if name in wanted]
            is_kept &= np.isin(flows.name.codes, codes)
        kept = np.flatnonzero(is_kept)
        return cls(target[kept], flows.to_ns[kept], source[kept], flows.from_ns[kept])

    def at_ends(self, lanes: Lanes) -> Dependencies:
        """Return those at which a wait of the lane that waited ends."""
        target, target_ns, source, source_ns = self
        part = lanes.searched.parts_before(target, target_ns)
        kept = np.flatnonzero(part >= 0)
        part = part[kept]
        is_end = (lanes.end_ns[part] == target_ns[kept]) & (lanes.kind[part] == TimeClass.WAIT)
        kept = kept[is_end]
        return Dependencies(target[kept], target_ns[kept], source[kept], source_ns[kept])

    @classmethod
    def joined(cls, parts: Sequence[Dependencies]) -> Dependencies:
        """Return the dependencies of several sources as one."""
        target, target_ns, source, source_ns = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        return cls(target, target_ns, source, source_ns)


class Lanes:
    """Lanes over a range, each a sequence of parts without gaps, from its first part to its last.

    Attributes:
        quark: int32, by lane: its attribute.
        offsets: int64, lanes + 1: lane i has the parts [offsets[i], offsets[i + 1]).
        start_ns: int64, by part: where it begins.
        end_ns: int64, by part: where it ends, which is where the next one of its lane begins.
        kind: int8, by part: its `TimeClass`.
        label: By part, as in `Meaning`.
        tag: int32, by part: the tag of its state, or the row of its span; -1 if it has none.
    """

    def __init__(  # noqa: PLR0917 - the columns, in the order of their description
        self,
        quark: Int32s,
        offsets: Int64s,
        start_ns: Int64s,
        end_ns: Int64s,
        kind: npt.NDArray[np.int8],
        label: Coded,
        tag: Int32s,
    ) -> None:
        self.quark = quark
        self.offsets = offsets
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.kind = kind
        self.label = label
        self.tag = tag

    def __len__(self) -> int:
        return len(self.quark)

    @cached_property
    def lane(self) -> Int32s:
        """int32, by part: its lane."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def duration_ns(self) -> Int64s:
        """int64, by part."""
        return self.end_ns - self.start_ns

    @cached_property
    def existed_ns(self) -> Int64s:
        """int64, by lane: from its first part to its last; 0 without parts."""
        has_parts = np.diff(self.offsets) > 0
        found = np.zeros(len(self), np.int64)
        first, last = self.offsets[:-1][has_parts], self.offsets[1:][has_parts] - 1
        found[has_parts] = self.end_ns[last] - self.start_ns[first]
        return found

    @cached_property
    def searched(self) -> activity_paths.Lanes:
        """The lanes as the kernel has them."""
        edges = self.offsets[1:] - 1
        has_parts = np.diff(self.offsets) > 0
        ends = np.zeros(len(self), np.int64)
        ends[has_parts] = self.end_ns[edges[has_parts]]
        return activity_paths.Lanes(self.offsets, self.start_ns, ends)

    def numbers(self, quarks: Int32s) -> Int32s:
        """Return the lane of each attribute, or -1."""
        if not len(self.quark):
            return np.full(len(quarks), -1, np.int32)
        order = np.argsort(self.quark)
        at = order[np.minimum(np.searchsorted(self.quark[order], quarks), len(order) - 1)]
        return np.where(self.quark[at] == quarks, at, -1).astype(np.int32)

    def extent(self, lane: int) -> tuple[int, int] | None:
        """Return from when to when a lane has parts; None if it has none."""
        first, last = int(self.offsets[lane]), int(self.offsets[lane + 1])
        return None if first == last else (int(self.start_ns[first]), int(self.end_ns[last - 1]))

    def connect(self, dependencies: Dependencies) -> None:
        """Let the paths of `walk` follow these dependencies: each in the wait that it ended.

        A dependency whose target does something at its time, or was ready, explains nothing.
        """
        target, target_ns, source, source_ns = dependencies
        part = self.searched.parts_before(target, target_ns)
        is_wait = part >= 0
        is_wait[is_wait] = np.isin(
            self.kind[part[is_wait]], (TimeClass.WAIT, TimeClass.IDLE, TimeClass.UNKNOWN)
        )
        rows = np.flatnonzero(is_wait)
        rows = rows[np.lexsort((source_ns[rows], part[rows]))]
        edges = np.zeros(len(self.start_ns) + 1, np.int64)
        np.cumsum(np.bincount(part[rows], minlength=len(self.start_ns)), out=edges[1:])
        self.searched.connect(edges, source[rows], source_ns[rows])

    def chosen(self, *kinds: TimeClass, label: str | None = None) -> npt.NDArray[np.bool_]:
        """Return which parts are of these classes and, if given, have this label."""
        # comparing is several times as fast as looking up, and there are few of each
        found = _any_of(self.kind, kinds)
        if label is not None:
            codes = [code for code, name in enumerate(self.label.names) if name == label]
            found &= _any_of(self.label.codes, codes)
        return found


def _any_of(column: npt.NDArray[Any], values: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return which rows have one of the values."""
    if not values:
        return np.zeros(len(column), np.bool_)
    found: npt.NDArray[np.bool_] = column == values[0]
    for each in values[1:]:
        found |= column == each
    return found


def in_order(start_ns: Int64s, end_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return where ranges begin and where they end, each in order of time."""
    # those of a lane are in order already, which a stable sort makes use of
    return np.sort(start_ns, kind="stable"), np.sort(end_ns, kind="stable")


def lanes_of_states(
    history: History,
    quarks: Int32s,
    range_ns: tuple[int, int],
    meaning_of: Callable[[str], Meaning],
    *,
    between: Meaning | None = None,
) -> Lanes:
    """Return lanes of the states of attributes in a range.

    A lane begins with its first state in the range, and ends with its last one.

    Args:
        history: The history.
        quarks: The attributes, in any order.
        range_ns: The range.
        meaning_of: Returns what a state means.
        between: What no state between two states means; by default it is not known.
    """
    quarks = np.sort(quarks).astype(np.int32)
    rows = history.intervals(quarks, start_ns=range_ns[0], end_ns=range_ns[1])
    column = named(rows.value)
    # the rows of an attribute are adjacent
    edges = np.searchsorted(rows.quark, np.append(quarks, np.int32(np.iinfo(np.int32).max)))
    has_state = column.codes >= 0
    if has_state.all():
        has_any = edges[1:] > edges[:-1]
        first, last = edges[:-1][has_any], edges[1:][has_any]
    else:
        # without what comes before the first state of each lane, and after its last one
        with_state = np.flatnonzero(has_state)
        at = np.searchsorted(with_state, edges)
        has_any = at[1:] > at[:-1]
        first = with_state[at[:-1][has_any]]
        last = with_state[at[1:][has_any] - 1] + 1
    sizes = np.zeros(len(quarks), np.int64)
    sizes[has_any] = last - first
    offsets = np.append(0, np.cumsum(sizes))
    kinds, labels = meanings_of(column, meaning_of, between)
    # the rows are nobody else's; those of millions of parts are not copied
    columns = (
        np.maximum(rows.start_ns, range_ns[0], out=rows.start_ns),
        np.minimum(rows.end_ns, range_ns[1], out=rows.end_ns),
        kinds,
        labels.codes,
        rows.tag if offsets[-1] == len(rows.tag) else rows.tag.copy(),
    )
    start_ns, end_ns, kind, codes, tag = (
        _runs_of(each, first, last, offsets[:-1][has_any], int(offsets[-1])) for each in columns
    )
    return Lanes(quarks, offsets, start_ns, end_ns, kind, Coded(codes, labels.names), tag)


def _runs_of(
    column: npt.NDArray[Any], first: Int64s, last: Int64s, to: Int64s, total: int
) -> npt.NDArray[Any]:
    """Return the rows [first, last) of a column, moved in it to where they follow each other."""
    if total == len(column):
        return column
    if len(first) > _MOST_RUNS:
        return column[np.arange(total) + np.repeat(first - to, last - first)]
    for begin, end, at in zip(first.tolist(), last.tolist(), to.tolist(), strict=True):
        column[at : at + end - begin] = column[begin:end]
    return column[:total]


def meanings_of(
    column: Coded, meaning_of: Callable[[str], Meaning], none: Meaning | None = None
) -> Meanings:
    """Return what the rows of a column of names mean; no name is unknown, or what is given."""
    codes = np.ascontiguousarray(column.codes, np.int32)
    used = seen(codes).tolist()
    meanings = [
        *(meaning_of(column.names[code]) for code in used),
        none or Meaning(TimeClass.UNKNOWN, ""),
    ]
    labels = Coded.of([meaning.label for meaning in meanings])
    # by code + 1, as no name, the last meaning, is -1
    row = np.full(len(column.names) + 1, len(used), np.int32)
    row[1:][used] = np.arange(len(used))
    kinds = np.array([meaning.kind for meaning in meanings], np.int8)
    kind, label = meant(codes, kinds[row], labels.codes[row])
    return Meanings(kind, Coded(label, labels.names))


def lanes_of_spans(
    spans: SpanTable, range_ns: tuple[int, int], meanings: Meanings, *, between: Meaning
) -> Lanes:
    """Return lanes of the spans of threads: at each moment, the innermost one that is open.

    Args:
        spans: The spans. The tag of a part is the row of its span in this table.
        range_ns: The range, to which they are clipped.
        meanings: What each span means.
        between: What the time between the first and the last span of a thread means in which none
            is open.
    """
    row, start_ns, end_ns = innermost_segments(spans.start_ns, spans.end_ns, spans.offsets)
    start_ns, end_ns = np.maximum(start_ns, range_ns[0]), np.minimum(end_ns, range_ns[1])
    kept = np.flatnonzero(end_ns > start_ns)
    row, start_ns, end_ns = row[kept], start_ns[kept], end_ns[kept]
    lane = np.searchsorted(spans.offsets, row, side="right") - 1
    # a gap before each part that does not begin where the one before it in its lane ends
    follows = np.append(False, lane[1:] == lane[:-1])[: len(row)]
    is_gap = follows & (start_ns > np.append(0, end_ns[:-1])[: len(row)])
    which = np.flatnonzero(is_gap)
    # by part: the row of its span, -1 for a gap
    tag = np.insert(row, which, -1).astype(np.int32)
    label = meanings.label
    return Lanes(
        spans.threads,
        np.searchsorted(
            np.insert(lane, which, lane[which]), np.arange(len(spans.threads) + 1)
        ).astype(np.int64),
        np.insert(start_ns, which, end_ns[which - 1]),
        np.insert(end_ns, which, start_ns[which]),
        np.append(meanings.kind, np.int8(between.kind))[tag],
        Coded(
            np.append(label.codes, np.int32(len(label.names)))[tag], [*label.names, between.label]
        ),
        tag,
    )
