"""How long spans took: statistics per name, category, thread or host, histograms, the longest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from meantime.errors import MeantimeError, TimeRangeError, UsageError
from meantime.kernels import calls
from meantime.model.columns import Coded, ranked
from meantime.model.durations import (
    PERCENTS,
    QUANTILE_NAMES,
    QUANTILE_PAIRS,
    DurationColumns,
    figure_values,
)
from meantime.model.names import merged_names, without_addresses
from meantime.model.tabular import Tabular
from meantime.model.units import bin_edge
from meantime.query.duration_sums import DurationsBuilder, DurationSums, check_sum
from meantime.query.threads import host_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.tabular import Column
    from meantime.query.duration_sums import Keep

__all__ = [
    "BETWEEN",
    "Grouping",
    "SpanStatistics",
    "added_span_statistics",
    "clipped",
    "count_unfinished",
    "duration_histogram",
    "longest_spans",
    "span_statistics",
    "unfinished_text",
]

Grouping: TypeAlias = Literal["name", "category", "thread", "host", "lane"]
# Between the path of a thread and a name, by lane: in no path.
BETWEEN = "\0"

_INT64 = np.iinfo(np.int64)
# Statistics of more spans than these are kept with a history on disk, if they are of all of it.
_KEPT_SPANS = 1 << 20
_BASIC = "count", "total_ns", "min_ns", "max_ns"
_COLUMNS = (
    *_BASIC,
    *QUANTILE_NAMES,
    *("self_ns", "covered_ns", "unfinished", "unfinished_ns"),
)


@dataclass(frozen=True, slots=True, eq=False)
class SpanStatistics(DurationColumns, Tabular):
    """Statistics per group in columns, the group with the largest self time first; ties by key.

    Of a recursive function `total_ns` counts every call with its whole duration, so it can exceed
    the time that passed; `covered_ns` counts that time once.

    Attributes:
        keys: The names, categories (None for none) or threads' paths; by lane a path, `BETWEEN`
            and a name.
        self_ns: int64, the sum of their times outside the spans directly inside them.
        covered_ns: int64, the time within the range in which any of them was open, summed over the
            threads.
        unfinished: int64, how many of them have no end in the trace, and none in the range: they
            count up to the last event of their thread.
        unfinished_ns: int64, the part of `total_ns` that is of these.
        durations: What the quantiles of a sum follow from; None if it was not kept, and these
            statistics cannot be added to others.
    """

    keys: Sequence[str | None]
    self_ns: Int64s
    covered_ns: Int64s
    unfinished: Int64s
    unfinished_ns: Int64s
    durations: DurationSums[str | None] | None = field(default=None, repr=False, compare=False)

    @property
    def is_sketch(self) -> bool:
        """Whether quantiles are from a sketch, and only within 2^-8 of a duration of that rank."""
        return self.durations is not None and self.durations.keep == "sketch"

    def with_quantiles(self) -> SpanStatistics:
        """Return the same statistics with the quantiles of its rows.

        Raises:
            UsageError: If durations were not kept.
        """
        return added_span_statistics([self])

    def __add__(self, other: SpanStatistics) -> SpanStatistics:
        """Return the statistics of both: see `added_span_statistics`."""
        return added_span_statistics([self, other])

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self) -> dict[str, Column]:
        """Return the columns; the names, categories or threads are in `key`."""
        names: dict[str, Column] = {"key": Coded.of(self.keys), "covered_ns": self.covered_ns}
        return names | figure_values(self)


def span_statistics(
    history: History,
    by: Grouping = "name",
    *,
    quarks: Sequence[int] | Int32s | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    whole: bool = False,
    keep: Keep | None = None,
) -> SpanStatistics:
    """Return statistics of the spans that overlap [start_ns, end_ns).

    Durations are clipped to the range, unless `whole`. A history that is not joined is one host.
    With `keep` the statistics can be added to others: as in `state_statistics`.

    >>> from meantime.testing import history_from_spans
    >>> history = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5), ("b", 6, 7)]})
    >>> statistics = span_statistics(history)
    >>> statistics.keys, statistics.self_ns.tolist(), statistics.median_ns.tolist()
    (['a', 'b'], [6, 4], [10, 1])

    Raises:
        TimeRangeError: If the range is empty.
        MeantimeError: If a sum of durations exceeds 64 bits.
    """
    if start_ns is not None and end_ns is not None and start_ns >= end_ns:
        raise TimeRangeError(f"the range from {start_ns} ns to {end_ns} ns is empty")
    asked = quarks, start_ns, end_ns
    if keep is None and len(history.spans()) > _KEPT_SPANS:
        from meantime.query.kept_statistics import KeptSpans  # noqa: PLC0415 - for few

        earlier = KeptSpans.of(history, by, *asked, whole=whole)
        if earlier is not None:
            if (known := earlier.found(_COLUMNS)) is not None:
                return _of_columns(*known)
            counted = _span_statistics(history, by, *asked, whole=whole, keep=None)
            earlier.keep(counted.keys, {name: getattr(counted, name) for name in _COLUMNS})
            return counted
    return _span_statistics(history, by, *asked, whole=whole, keep=keep)


def _of_columns(keys: list[str | None], columns: dict[str, Int64s]) -> SpanStatistics:
    quantiles = [columns.pop(name) for name in QUANTILE_NAMES]
    count, total_ns, least, most = (columns.pop(name) for name in _BASIC)
    return SpanStatistics.computed(count, total_ns, least, most, quantiles, keys=keys, **columns)


def _span_statistics(
    history: History,
    by: Grouping,
    quarks: Sequence[int] | Int32s | None,
    start_ns: int | None,
    end_ns: int | None,
    *,
    whole: bool,
    keep: Keep | None,
) -> SpanStatistics:
    spans = history.spans(quarks, start_ns=start_ns, end_ns=end_ns)
    starts, ends = spans.start_ns, spans.end_ns
    if not whole:
        starts, ends = clipped(spans, start_ns, end_ns)
    group, keys = _groups(history, spans, by)
    try:
        columns = calls.durations(
            starts,
            ends,
            spans.parent,
            spans.offsets,
            group,
            len(keys),
            _INT64.min if start_ns is None else start_ns,
            _INT64.max if end_ns is None else end_ns,
            QUANTILE_PAIRS,
        )
    except OverflowError:
        raise MeantimeError(
            "the durations of these spans add up to more than 2^63 ns; a time is probably wrong"
        ) from None
    unfinished = _unfinished(spans, None if whole else end_ns)
    open_count = np.bincount(group[unfinished], minlength=len(keys))
    open_ns = np.zeros(len(keys), np.int64)
    np.add.at(open_ns, group[unfinished], ends[unfinished] - starts[unfinished])
    order = _ordered(np.flatnonzero(columns[0]), columns[2], keys)
    count, total_ns, self_ns, covered_ns, min_ns, max_ns, quantiles = (
        column[order] for column in columns
    )
    durations = None
    if keep is not None:
        builder = DurationsBuilder(keep)
        builder.add(group, ends - starts)
        durations = builder.build(keys)
    found = SpanStatistics.computed(
        count,
        total_ns,
        min_ns,
        max_ns,
        quantiles.T,
        keys=[keys[row] for row in order],
        self_ns=self_ns,
        covered_ns=covered_ns,
        unfinished=open_count[order],
        unfinished_ns=open_ns[order],
        durations=durations,
    )
    # with the quantiles that sums have
    return found if keep != "sketch" else added_span_statistics([found])


def added_span_statistics(
    parts: Sequence[SpanStatistics], *, quantiles: bool = True
) -> SpanStatistics:
    """Return the statistics of all spans of some statistics, as of one history with all of them.

    The order of the parts makes no difference, and parts may be sums.

    >>> from meantime.testing import history_from_spans
    >>> one = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]})
    >>> two = history_from_spans({"main": [("b", 0, 7)]})
    >>> both = added_span_statistics([span_statistics(each, keep="exact") for each in (one, two)])
    >>> both.keys, both.count.tolist(), both.self_ns.tolist(), both.median_ns.tolist()
    (['b', 'a'], [2, 1], [10, 7], [3, 10])

    Args:
        parts: At least one; each was made with `keep`.
        quantiles: Whether to compute those of the rows; otherwise they are 0. They take the most
            time, and a sum does not follow from those of its parts.

    Raises:
        MeantimeError: If a sum may exceed 64 bits.
        UsageError: If what is needed was not kept.
    """
    kept = [part.durations for part in parts if part.durations is not None]
    if len(kept) < len(parts):
        raise UsageError("statistics can be added if made with keep='exact' or keep='sketch'")
    durations = DurationSums.added(kept)
    keys = durations.keys
    row_of = {key: row for row, key in enumerate(keys)}
    rows = [np.array([row_of[key] for key in part.keys], np.intp) for part in parts]
    sums = []
    for name in ("count", "total_ns", "self_ns", "covered_ns", "unfinished", "unfinished_ns"):
        columns = [getattr(part, name) for part in parts]
        check_sum(columns, "the durations of these spans")
        total = np.zeros(len(keys), np.int64)
        for row, column in zip(rows, columns, strict=True):
            total[row] += column
        sums.append(total)
    least, most = np.full(len(keys), _INT64.max), np.full(len(keys), _INT64.min)
    for row, part in zip(rows, parts, strict=True):
        least[row] = np.minimum(least[row], part.min_ns)
        most[row] = np.maximum(most[row], part.max_ns)
    listed = np.zeros((len(keys), len(PERCENTS)), np.int64)
    if quantiles and keys:
        computed = durations.quantiles()
        # the middle of a cell may be outside of what occurred
        listed = np.clip([computed[key] for key in keys], least[:, None], most[:, None])
    order = _ordered(np.arange(len(keys)), sums[2], keys)
    count, total_ns, self_ns, covered_ns, unfinished, unfinished_ns = (
        column[order] for column in sums
    )
    return SpanStatistics.computed(
        count,
        total_ns,
        least[order],
        most[order],
        listed[order].T,
        keys=[keys[row] for row in order],
        self_ns=self_ns,
        covered_ns=covered_ns,
        unfinished=unfinished,
        unfinished_ns=unfinished_ns,
        durations=durations,
    )


def _unfinished(spans: SpanTable, end_ns: int | None) -> Int64s:
    """Return the rows of spans without an end; one that a range clips is known to its end."""
    rows = np.flatnonzero(spans.unfinished)
    return rows if end_ns is None else rows[spans.end_ns[rows] <= end_ns]


def count_unfinished(
    history: History,
    quarks: Sequence[int] | Int32s | None,
    start_ns: int,
    end_ns: int,
    *,
    whole: bool = False,
) -> int:
    """Return how many spans in a range are without an end, as statistics count them."""
    spans = history.spans(quarks, start_ns=start_ns, end_ns=end_ns)
    return len(_unfinished(spans, None if whole else end_ns))


def unfinished_text(count: int) -> str:
    """Return how spans without an end count, in words.

    >>> unfinished_text(1)
    '1 span has no end in the trace: it counts up to the last event of its thread'
    """
    if count == 1:
        return "1 span has no end in the trace: it counts up to the last event of its thread"
    return (
        f"{count:,} spans have no end in the trace: each counts up to the last event of its thread"
    )


def _ordered(rows: Int64s, self_ns: Int64s, keys: Sequence[str | None]) -> list[int]:
    """Return rows with the largest self time first, those of the same time by key."""
    ordered = rows[np.argsort(-self_ns[rows], kind="stable")]
    # only equal times compare keys, of which there can be a million
    edges = np.flatnonzero(np.diff(self_ns[ordered])) + 1
    edges = np.concatenate([[0], edges, [len(ordered)]])
    result: list[int] = ordered.tolist()
    texts = [key or "" for key in keys]
    for i in np.flatnonzero(np.diff(edges) > 1).tolist():
        part = slice(int(edges[i]), int(edges[i + 1]))
        result[part] = sorted(result[part], key=texts.__getitem__)
    return result


def clipped(spans: SpanTable, start_ns: int | None, end_ns: int | None) -> tuple[Int64s, Int64s]:
    """Return the starts and ends of spans in a range, which are copied only if any is outside."""
    starts, ends = spans.start_ns, spans.end_ns
    if not len(spans):
        return starts, ends
    if start_ns is not None and int(starts.min()) < start_ns:
        starts, ends = np.maximum(starts, start_ns), np.maximum(ends, start_ns)
    if end_ns is not None and int(ends.max()) > end_ns:
        starts, ends = np.minimum(starts, end_ns), np.minimum(ends, end_ns)
    return starts, ends


def _groups(history: History, spans: SpanTable, by: Grouping) -> tuple[Int32s, list[str | None]]:
    if by == "lane":
        thread, paths = _groups(history, spans, "thread")
        code, names = _groups(history, spans, "name")
        different, group = ranked(thread.astype(np.int64) * len(names) + code)
        pairs = (divmod(each, len(names)) for each in different.tolist())
        return group.astype(np.int32), [f"{paths[at]}{BETWEEN}{names[name]}" for at, name in pairs]
    if by == "thread":
        codes = np.arange(len(spans.threads), dtype=np.int32)
        texts: list[str | None] = [history.attributes.text(quark) for quark in spans.threads]
        return np.repeat(codes, np.diff(spans.offsets)), texts
    if by == "host":
        hosts: dict[str, int] = {}
        numbers = [
            hosts.setdefault(host_of(history, quark), len(hosts))
            for quark in spans.threads.tolist()
        ]
        return np.repeat(np.array(numbers, np.int32), np.diff(spans.offsets)), [*hosts]
    if by == "name":
        merged, codes = merged_names(spans.name.names, spans.name.codes)
        return codes, list(merged)
    # spans without a category are a group too: the last one
    names = [*spans.category.names, None]
    codes = spans.category.codes
    return np.where(codes < 0, np.int32(len(names) - 1), codes), names


def longest_spans(spans: SpanTable, name: str, limit: int = 10) -> Int64s:
    """Return the rows of the longest spans of a name, the longest first, the earlier of equals.

    >>> from meantime.testing import history_from_spans
    >>> spans = history_from_spans({"main": [("a", 0, 2), ("a", 3, 9), ("b", 9, 20)]}).spans()
    >>> longest_spans(spans, "a").tolist()
    [1, 0]
    """
    rows = _rows_named(spans, name)
    duration_ns = spans.end_ns[rows] - spans.start_ns[rows]
    order = np.lexsort((spans.start_ns[rows], -duration_ns))
    return rows[order[:limit]]


def duration_histogram(spans: SpanTable, name: str, *, bins: int = 100) -> tuple[Int64s, Int64s]:
    """Return bin edges, and how many spans of a name have a duration in each bin.

    Bin i counts durations in [edges[i], edges[i + 1]); the last edge is 1 ns above the longest.

    >>> from meantime.testing import history_from_spans
    >>> spans = history_from_spans({"main": [("a", 0, 2), ("a", 3, 4), ("a", 5, 9)]}).spans()
    >>> [column.tolist() for column in duration_histogram(spans, "a", bins=2)]
    [[1, 3, 5], [2, 1]]
    """
    rows = _rows_named(spans, name)
    duration_ns = spans.end_ns[rows] - spans.start_ns[rows]
    least = int(duration_ns.min(initial=2**62)) if len(rows) else 0
    most = int(duration_ns.max(initial=0)) + 1
    edges = np.array([bin_edge(least, most, bins, index) for index in range(bins + 1)], np.int64)
    bin_index = np.searchsorted(edges, duration_ns, side="right") - 1
    return edges, np.bincount(bin_index, minlength=bins)[:bins]


def _rows_named(spans: SpanTable, name: str) -> Int64s:
    codes = [
        code
        for code, text in enumerate(spans.name.names)
        if name in {text, without_addresses(text)}
    ]
    return np.flatnonzero(np.isin(spans.name.codes, codes)).astype(np.int64)
