"""The argument of all queries and views: the intervals of all attributes."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from meantime.errors import AttributeNotFound, HistoryClosedError, HistoryError, UsageError
from meantime.history import attribute_queries
from meantime.history.lanes import drawable_lanes
from meantime.history.numbers import quarks_of, time_of
from meantime.history.results import IntervalBatches, TextPaths
from meantime.history.samples import ALL_EVENTS
from meantime.history.selecting import chosen, many, one
from meantime.history.span_attributes import with_span_attributes
from meantime.model.attributes import format_path, parse_pattern
from meantime.model.extent import Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import EllipsisType

    import numpy.typing as npt

    from meantime.history.damage import Damage
    from meantime.history.grouped_shares import GroupedShares
    from meantime.history.lanes import Lane
    from meantime.history.results import Flows, Interval, Intervals, Points, Sample
    from meantime.history.samples import SampleTable
    from meantime.history.selecting import Many, One
    from meantime.history.shares import Shares
    from meantime.history.snapshot import Present, Snapshot
    from meantime.history.spans import SpanTable
    from meantime.history.tiles import CounterTile, StateTile
    from meantime.model.anomalies import Anomalies
    from meantime.model.attributes import Attributes, Pattern
    from meantime.model.attributes import Path as AttributePath
    from meantime.model.clocks import Clock
    from meantime.model.columns import Int32s, Int64s, Value
    from meantime.model.metadata import TraceMetadata
    from meantime.model.units import Time

__all__ = ["History", "moment"]

TableT = TypeVar("TableT", "Intervals", "Sample", "Points", "Flows")

_BATCH_ROWS = 2**19
# Once methods, now functions of the package: they need modules that need this one.
_FUNCTIONS = ("sql", "stats", "view")
_LOOK_EVERY_S = 0.02


class History:
    """The intervals of all attributes over [start_ns, end_ns), and the event tables beside them.

    Made by `meantime.open` or a `HistoryBuilder`; once it is `built` it does not change. Times are
    nanoseconds from its origin, ranges are half-open, and the intervals of each attribute cover the
    whole range without gaps: the value of no state is None.

    Times are integers of ns, of Python or NumPy, or what `time` takes: a `datetime` with a zone, or
    a text such as `1.5s`. Floats, which are not exact, and `datetime64`, which counts from 1970,
    are a `TypeError` in every query. A `with` block closes the history. One in a directory is
    pickled as its path, and opened there again; one in memory cannot be pickled.
    """

    def __init__(
        self, source: Callable[[], Snapshot], present: Callable[[], Present] | None = None
    ) -> None:
        self._source = source
        # as the source, but valid only until the next change: it need not copy any
        self._present_source = present
        self._snapshot: Snapshot | None = None
        self._with_spans: Snapshot | None = None
        self._lanes: list[Lane] | None = None
        self._now()

    def close(self) -> None:
        """Release files and memory; every query afterwards raises `HistoryClosedError`."""
        self._source, self._present_source = _closed, None
        self._snapshot = self._with_spans = self._lanes = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[Path], History], tuple[Path]]:
        kept = self._now().kept
        if kept is None:
            raise HistoryError(
                "a history in memory cannot be pickled; one in a directory is pickled as its path"
            )
        open_again, path = kept
        return open_again, (path.absolute(),)

    def _now(self) -> Snapshot:
        """The current snapshot, which is the last one once the history is built."""
        if self._snapshot is None or not self._snapshot.built:
            snapshot = self._snapshot = self._source()
            if snapshot.built:
                # so that the builder, whose buffers are larger than most histories, is freed
                self._source, self._present_source = lambda: snapshot, None
        return self._snapshot

    def _asked(self) -> Snapshot:
        """The current snapshot; once it is built, with the attributes derived from spans."""
        now = self._now()
        if not now.built:
            return now
        if self._with_spans is None:
            self._with_spans = with_span_attributes(now)
        return self._with_spans

    def _present(self, *, derived: bool = True) -> Present:
        """What a question about states at a time is answered from at once."""
        if self._present_source is not None:
            now = self._present_source()
            if not now.built:
                return now
        return self._asked() if derived else self._now()

    def snapshot(self) -> History:
        """Return the history as it is now, which stays as it is while this one grows.

        All answers from it are of the same moment. Its `built` stays False; a history that is built
        is returned itself.

        >>> from meantime import HistoryBuilder
        >>> builder = HistoryBuilder()
        >>> builder.modify(0, builder.quark("disk0"), "idle")
        >>> then = builder.history.snapshot()
        >>> builder.modify(5, builder.quark("disk0"), "busy")
        >>> then.end_ns, builder.history.end_ns
        (1, 6)
        """
        now = self._now()
        if now.built:
            return self
        then = replace(now, tags=[*now.tags])  # to the list itself, more are added
        return History(lambda: then)

    def without_derived(self) -> History:
        """Return the same history without the attributes derived from spans, `Stack/<depth>`.

        Deriving them takes time for each thread, at the first query that needs the attributes.

        >>> from meantime.testing import history_from_spans
        >>> history = history_from_spans({"main": [("a", 0, 10)]})
        >>> len(history.without_derived().attributes), len(history.attributes)
        (4, 6)
        """
        now = self._now()
        if not now.built:
            return self
        stored = History(lambda: now)
        stored._with_spans = now
        return stored

    @property
    def attributes(self) -> Attributes:
        """The attribute tree."""
        return self._present().attributes

    def wait_built(self, timeout: float | None = None) -> bool:
        """Wait until the history is built by another thread or process; return whether it is.

        Args:
            timeout: How many seconds to wait; 0 only checks, None waits for ever.
        """
        until_s = None if timeout is None else time.monotonic() + timeout
        while not self.built:
            if until_s is not None and time.monotonic() >= until_s:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    @property
    def built(self) -> bool:
        """Whether the history is finished and no longer changes."""
        return self._now().built

    @property
    def tags(self) -> Sequence[dict[str, Any]]:
        """By tag, its fields."""
        return self._now().tags

    @property
    def metadata(self) -> TraceMetadata:
        """The metadata of the trace and of its attributes, which are numbered by quark."""
        return self._now().known_metadata()

    @property
    def clock(self) -> Clock:
        """Which clock the times count."""
        return self._now().known_metadata().clock

    @property
    def title(self) -> str | None:
        """The title of the trace, if it has one."""
        return self._now().known_metadata().title

    @property
    def descriptions(self) -> dict[int, str]:
        """By quark, the description of that attribute in the trace."""
        return self._now().known_metadata().descriptions

    @property
    def names(self) -> dict[int, str]:
        """By quark, the name of that process, thread or task in the trace."""
        return self._now().known_metadata().names

    @property
    def sort_keys(self) -> dict[int, int]:
        """By quark, the sort key of that process, thread or task in the trace."""
        return self._now().known_metadata().sort_keys

    @property
    def facts(self) -> dict[str, str]:
        """Further metadata of the trace, by the trace's own names."""
        return self._now().known_metadata().facts

    @property
    def lost(self) -> Sequence[tuple[int, int]]:
        """Ranges [from_ns, to_ns) in which the tracer lost events, or whose segment is damaged."""
        return self._now().known_metadata().lost

    @property
    def damage(self) -> list[Damage]:
        """What of the history on disk was found damaged so far; see `meantime.open`.

        The rows of a segment are read when a query first depends on them.
        """
        found = self._now().damage
        return [] if found is None else [*found.found]

    @property
    def anomalies(self) -> Anomalies:
        """The oddities of the input, counted."""
        return self._now().known_metadata().anomalies

    @property
    def provenance(self) -> dict[str, str]:
        """What it was built from: `source`, `provider`, and on disk a `fingerprint`, if known."""
        return self._now().known_metadata().provenance

    @property
    def start_ns(self) -> int:
        """The first time of the history."""
        return self._present(derived=False).segments.start_ns

    @property
    def end_ns(self) -> int:
        """The end of the history: the first time after it."""
        return self._present(derived=False).segments.end_ns

    @property
    def size_bytes(self) -> int:
        """How much memory the intervals take."""
        return (self._with_spans or self._now()).segments.size_bytes

    @property
    def bounds(self) -> tuple[int, int]:
        """The window [begin_ns, finish_ns) of views and statistics, by default all of it."""
        now = self._now()
        return now.metadata.bounds or (now.segments.start_ns, now.segments.end_ns)

    def time(self, time: Time) -> int:
        """Return a time of this history's clock in ns, as its queries take it.

        A text is as on the command line: `1.5s` counts from where `bounds` begin, `abs:1.5s` from
        time 0 of the clock, and `2026-07-01T09:00:00Z` is a date, as a `datetime` is.

        >>> from datetime import datetime, timezone
        >>> from meantime import Clock, HistoryBuilder
        >>> history = HistoryBuilder(clock=Clock(utc_at_origin_ns=10**18)).close(5 * 10**9)
        >>> history.time("1.5s"), history.time(datetime(2001, 9, 9, 1, 46, 42, tzinfo=timezone.utc))
        (1500000000, 2000000000)
        >>> print(history.utc(1_500_000_001))
        2001-09-09T01:46:41.500000001

        Raises:
            TypeError: If it is none of these.
            UsageError: If the text is not a time, a datetime has no zone, or it is a date and the
                clock's date is unknown.
        """
        return Extent(*self.bounds, self.clock).time_ns(time)

    def _ns(self, time: Time | None) -> Any:
        """Return the number of a text or a datetime; queries check what is a number."""
        is_number = not isinstance(time, str) and not hasattr(time, "utcoffset")
        return time if is_number else self.time(time)  # type: ignore[arg-type] # not None

    def _between(self, start: Time | None, end: Time | None) -> tuple[Any, Any]:
        return self._ns(start), self._ns(end)

    def _each_ns(self, times: Sequence[Time] | Int64s) -> Any:
        return [*map(self._ns, times)] if isinstance(times, list | tuple) else times

    def utc(self, time_ns: int) -> np.datetime64:
        """Return the date of a time in UTC, exact to the nanosecond.

        Raises:
            UsageError: If the clock's date is unknown.
        """
        origin_ns = self.clock.utc_at_origin_ns
        if origin_ns is None:
            raise UsageError("the dates of this history are unknown: its clock has no UTC time")
        return np.datetime64(origin_ns + time_of(time_ns), "ns")

    @property
    def lanes(self) -> list[Lane]:
        """What can be drawn: the declarations, in order, and the attributes that each applies to.

        Last come attributes with values that no declaration applies to: strings as states, integers
        from 0 to 255 as states, other numbers as counters; their declarations have the empty
        pattern.
        """
        now = self._asked()
        if not now.built:
            return drawable_lanes(now)
        if self._lanes is None:
            self._lanes = drawable_lanes(now)
        return [*self._lanes]

    def has_values(self, quarks: Many) -> npt.NDArray[np.bool_]:
        """Return for each attribute whether it ever had a value."""
        now = self._asked()
        return now.kinds[now.checked_quarks(many(now.attributes, quarks))] > 0

    def quark(self, *path: One, parent: int | None = None) -> int:
        """Return the quark of a path, below an attribute or from the top.

        The path is given as its names, a tuple of them, or one text: `"Threads/15"`.

        Raises:
            AttributeNotFound: If it does not exist; the message lists the nearest names.
        """
        if len(path) != 1 or parent is not None:
            return self.attributes.quark(*path, parent=parent)  # type: ignore[arg-type] # names
        found = one(self.attributes, path[0])
        self._present().check_quark(found)
        return found

    def find(self, *path: One, parent: int | None = None) -> int | None:
        """Return the quark of a path, given as to `quark`, or None if it does not exist."""
        if all(isinstance(name, str) for name in path):
            found = self.attributes.find(*path, parent=parent)  # type: ignore[arg-type] # names
            if found is not None:
                return found
        try:
            return self.quark(*path, parent=parent)
        except AttributeNotFound:
            return None

    def quarks(self, pattern: Pattern, parent: int | None = None) -> Int32s:
        """Return the attributes that match a pattern; see `Attributes.quarks`.

        A pattern may match none; it is what a question of states refuses then.

        Raises:
            AttributeNotFound: If it is a text without wildcards, and that attribute does not exist.
        """
        attributes = self.attributes
        found = attributes.quarks(pattern, parent)
        if not len(found) and isinstance(pattern, str):
            names = [each for each in parse_pattern(pattern) if isinstance(each, str)]
            if names and format_path(names) == pattern:
                attributes.quark(*names, parent=parent)
        return found

    def state(self, quark: One, time_ns: Time) -> Interval:
        """Return the interval of an attribute that contains a time.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aab.")
        >>> history.state(0, 1)
        Interval(quark=0, start_ns=0, end_ns=2, value='a', tag=None, ongoing=False)

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the time lies outside the history.
        """
        now = self._present()
        if type(quark) is not int:
            quark = one(now.attributes, quark)
        return now.state(quark, time_ns if type(time_ns) is int else self._ns(time_ns))

    def at(self, time_ns: Time) -> Intervals:
        """Return the interval of every attribute that contains a time; row i is quark i.

        Raises:
            TimeRangeError: If the time lies outside the history.
        """
        now = self._present()
        found = now.at(np.arange(len(now.kinds), dtype=np.int32), self._ns(time_ns))
        return _with_paths(found, now.attributes)

    def states(self, quarks: Many, times_ns: Sequence[Time] | Int64s) -> Intervals:
        r"""Return the results of many calls of `state`: row i is attribute i at time i.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("a  xy.\nb  .zz").states([1, 0], [2, 1])
        Intervals: 2 in [1, 3)
          1: [1, 3) 'z'
          0: [1, 2) 'y'

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If a time lies outside the history.
            ValueError: If the numbers of times and attributes differ.
        """
        now = self._present()
        attributes = now.attributes
        return _with_paths(
            now.states(many(attributes, quarks), self._each_ns(times_ns)), attributes
        )

    def intervals(
        self,
        quarks: Many,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        resolution_ns: int | None = None,
        *,
        clip: bool = False,
        states_only: bool = False,
    ) -> Intervals:
        """Return the intervals that overlap [start_ns, end_ns), each in full unless it is clipped.

        The range is clipped to the history; outside of it there are none. Without a time, it begins
        or ends where `bounds` does. Quark by quark in the given order, in order of time; those
        without state are included unless `states_only`, their value is None. With a resolution,
        only those that contain start_ns, start_ns + resolution_ns, and so on, or the range's last
        instant.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("disk0  aab.").intervals([0], 1, 3)
        Intervals: 2 in [1, 3)
          0: [0, 2) 'a'
          0: [2, 3) 'b'

        With `clip` they begin and end within the range, so their lengths add up to it:

        >>> history_from_picture("disk0  aab.").intervals([0], 1, 3, clip=True).start_ns.tolist()
        [1, 2]

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the range is empty.
        """
        now = self._asked()
        attributes = now.attributes
        asked = now.query(chosen(now, quarks), *self._between(start_ns, end_ns))
        found = _with_paths(now.gather(*asked, resolution_ns=resolution_ns), attributes)
        found = found.states() if states_only else found
        return found.clipped() if clip else found

    def interval_batches(
        self,
        quarks: Many,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        resolution_ns: int | None = None,
        *,
        rows: int = _BATCH_ROWS,
        clip: bool = False,
    ) -> IntervalBatches:
        """Return what `intervals` does, lazily, in parts of about `rows` rows.

        A part has all intervals of its quarks: it is longer only if one quark has more. The
        arguments are checked at once, and each iteration starts from the beginning.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aab.")
        >>> [len(part) for part in history.interval_batches([0, 0], rows=3)]
        [3, 3]
        """
        now = self._asked()
        attributes = now.attributes
        asked, range_ns = now.query(chosen(now, quarks), *self._between(start_ns, end_ns))

        def parts() -> Iterator[Intervals]:
            groups = now.groups(asked, range_ns, rows) if len(asked) else [(0, 0, None)]
            for first, last, counts in groups:
                part = now.gather(
                    asked[first:last], range_ns, resolution_ns=resolution_ns, counts=counts
                )
                yield _with_paths(part.clipped() if clip else part, attributes)

        # np.unique would import masked arrays: see `columns.distinct`
        kinds = np.flatnonzero(np.bincount(now.kinds[asked])).tolist()
        return IntervalBatches(parts, kinds, TextPaths(attributes, asked))

    def shares(
        self,
        quarks: Many,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        bins: int = 1,
    ) -> Shares:
        """Return how long each value lasted in each of `bins` parts of a range, or of `bounds`.

        Part i is [start + ceil(i * length / bins), start + ceil((i + 1) * length / bins)), so the
        parts tile the range; no state counts as None, so each part's times sum to its width. Only
        values that occur have a row. The range is clipped to the history; outside of it there are
        none.

        >>> from meantime.testing import history_from_picture
        >>> shares = history_from_picture("disk0  aab.").shares([0], bins=2)
        >>> shares.cell(0, 0), shares.cell(0, 1)
        ({'a': 2}, {'b': 1, None: 1})

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the range is empty, or if a bin is 2^63 ns or wider.
            ValueError: If there is not at least one bin.
        """
        from meantime.history.shares import shares  # noqa: PLC0415 - for few questions

        now = self._asked()
        asked, range_ns = now.query(chosen(now, quarks), *self._between(start_ns, end_ns))
        return shares(now, asked, range_ns, bins, longest=False)

    def grouped_shares(
        self,
        quarks: Many,
        start_ns: Time,
        end_ns: Time,
        bins: int = 1,
        key: Callable[[AttributePath], str | None] = format_path,
    ) -> GroupedShares:
        """Return the shares of groups of attributes in a range that may be partly outside.

        Bins are as of `shares` and groups as of `Shares.grouped`, but the range is not clipped: no
        state is known before the history begins and after it ends. So the shares of several
        histories in one range have the same bins, and can be added.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("disk0  aab.").grouped_shares([0], -2, 6, 2).cell("disk0", 0)
        {None: 2, 'a': 2}

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the range is empty, or a bin is too wide for 64 bits.
            ValueError: If there is not at least one bin.
        """
        from meantime.history.shares import grouped_in_range  # noqa: PLC0415 - for few questions

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        range_ns = time_of(self._ns(start_ns)), time_of(self._ns(end_ns))
        return grouped_in_range(now, asked, range_ns, bins, key)

    def dominant(
        self,
        quarks: Many,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        bins: int = 1,
    ) -> Shares:
        """Return what `shares` does, but for each part only the value that lasted longest.

        If several did, the first of them that is not None, in the order of the rows of `shares`.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("disk0  aab.").dominant([0], bins=2).value.to_list()
        ['a', 'b']

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the range is empty.
            ValueError: If there is not at least one bin.
        """
        from meantime.history.shares import shares  # noqa: PLC0415 - for few questions

        now = self._asked()
        asked, range_ns = now.query(chosen(now, quarks), *self._between(start_ns, end_ns))
        return shares(now, asked, range_ns, bins, longest=True)

    def state_tile(self, quarks: Many, start_ns: Time, bin_ns: int, bins: int) -> StateTile:
        """Return what a page needs to draw states: for each bin its longest states, rounded.

        Bin i is [start_ns + i * bin_ns, start_ns + (i + 1) * bin_ns). It may reach beyond the
        history, where there is no state. `shares` of the same bin has the exact times.

        >>> from meantime.testing import history_from_picture
        >>> tile = history_from_picture("disk0  aab.").state_tile([0], 0, 2, 3)
        >>> tile.shares[0].tolist()
        [[0, 255, 0, 0, 0], [127, 127, 0, 0, 0], [255, 0, 0, 0, 0]]
        >>> tile.states.to_list(), tile.codes[0, :2, 0].tolist()
        (['a', 'b'], [0, 1])

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the start does not fit into 64 bits.
            ValueError: If there is not at least one bin, or a bin is not from 1 to 2^63 - 1 ns
                wide.
        """
        from meantime.history.tiles import state_tile  # noqa: PLC0415 - 2 ms, for pages only

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        return state_tile(now, asked, self._ns(start_ns), bin_ns, bins)

    def state_load(
        self, quarks: Many, start_ns: Time, bin_ns: int, bins: int
    ) -> tuple[list[str], Int64s]:
        r"""Return the names of states, and by state and bin how long all attributes had it.

        Bins are those of `state_tile`, and it raises the same errors. Numbers are named as text.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aab.\ndisk1  bbbb")
        >>> names, ns = history.state_load([0, 1], 0, 2, 2)
        >>> names, ns.tolist()
        (['a', 'b'], [[2, 0], [2, 3]])
        """
        from meantime.history.tiles import state_load  # noqa: PLC0415 - 2 ms, for pages only

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        return state_load(now, asked, self._ns(start_ns), bin_ns, bins)

    def has_sums(self, quarks: Many, start_ns: Time, bin_ns: int, bins: int) -> bool:
        """Return whether `state_load` and `state_tile` of these bins read no intervals.

        A stored history has sums of wide bins that begin at multiples of a power of 2.
        """
        from meantime.history.tiles import has_sums  # noqa: PLC0415 - 2 ms, for pages only

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        return has_sums(now, asked, self._ns(start_ns), bin_ns, bins)

    def counter_tile(self, quarks: Many, start_ns: Time, bin_ns: int, bins: int) -> CounterTile:
        """Return what a page needs to draw counters: least, greatest and mean of each bin.

        Bins are those of `state_tile`; what is outside the history is NaN.

        >>> from meantime.history import HistoryBuilder
        >>> builder = HistoryBuilder()
        >>> builder.modify_many([0, 2, 3], [builder.quark("load")] * 3, [4, 10, 7])
        >>> tile = builder.close(8).counter_tile([0], 0, 4, 3)
        >>> tile.least.tolist(), tile.greatest.tolist(), tile.mean.tolist()
        ([[4.0, 7.0, nan]], [[10.0, 7.0, nan]], [[6.25, 7.0, nan]])

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the start does not fit into 64 bits.
            ValueError: If there is not at least one bin, or a bin is not from 1 to 2^63 - 1 ns
                wide.
        """
        from meantime.history.tiles import counter_tile  # noqa: PLC0415 - 2 ms, for pages only

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        return counter_tile(now, asked, self._ns(start_ns), bin_ns, bins)

    def sample(self, quarks: Many, times_ns: Sequence[Time] | Int64s) -> Sample:
        r"""Return the value of each attribute at each time.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("a  xy.\nb  .zz").sample([0, 1], [2, 0]).rows()
        [[None, 'x'], ['z', None]]

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If a time lies outside the history.
        """
        now = self._asked()
        attributes = now.attributes
        return _with_paths(now.sample(chosen(now, quarks), self._each_ns(times_ns)), attributes)

    def iterate(self, quark: One, from_ns: Time, *, backwards: bool = False) -> Iterator[Interval]:
        """Yield the interval of an attribute that contains a time, and those after it, or before.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aab.")
        >>> [interval.value for interval in history.iterate(0, 2, backwards=True)]
        ['b', 'a']

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the time lies outside the history.
        """
        return attribute_queries.iterate(
            self, one(self.attributes, quark), self._ns(from_ns), backwards=backwards
        )

    def following(
        self,
        quarks: Many,
        time_ns: Time,
        *,
        value: Value | EllipsisType = ...,
        tag: int | None = None,
    ) -> Interval | None:
        r"""Return the first interval of any of these attributes that begins after a time.

        With a value or a tag, the first that has it, which may be without a state if it has the
        tag; otherwise the first that has a state. Of several that begin at one time, that of the
        first attribute; None if there is none.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("a  xxyx\nb  xyyy")
        >>> history.following("*", 0, value="y").start_ns
        1

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the time lies outside the history.
        """
        from meantime.history import searching  # noqa: PLC0415 - for few questions

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        return searching.nearest(
            now, asked, time_of(self._ns(time_ns)), value, tag, backwards=False
        )

    def preceding(
        self,
        quarks: Many,
        time_ns: Time,
        *,
        value: Value | EllipsisType = ...,
        tag: int | None = None,
    ) -> Interval | None:
        r"""Return the last interval of any of these attributes that began before a time.

        With a value or a tag, the last that has it; see `following`.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("a  xxyx\nb  xyyy")
        >>> history.preceding("*", 3, value="x")
        Interval(quark=0, start_ns=0, end_ns=2, value='x', tag=None, ongoing=False)
        """
        from meantime.history import searching  # noqa: PLC0415 - for few questions

        now = self._asked()
        asked = now.checked_quarks(chosen(now, quarks))
        from_ns = time_of(self._ns(time_ns))
        return searching.nearest(now, asked, from_ns, value, tag, backwards=True)

    def count(
        self,
        quarks: Many,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        *,
        value: Value | EllipsisType = ...,
        tag: int | None = None,
    ) -> Int64s:
        """Return for each attribute how many of its intervals overlap [start_ns, end_ns), as int64.

        Without a time, the range begins or ends where `bounds` does. With a value or a tag, those
        that have it, without a state too if they have the tag; otherwise those that have a state.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("disk0  aab.a").count([0], value="a").tolist()
        [2]

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the range is empty.
        """
        from meantime.history import searching  # noqa: PLC0415 - for few questions

        now = self._asked()
        given = chosen(now, quarks)
        asked, range_ns = now.query(given, *self._between(start_ns, end_ns))
        if not len(asked):
            return np.zeros(len(given), np.int64)
        return searching.counts(now, asked, range_ns, value, tag)

    def estimate_count(
        self, quarks: Many, start_ns: Time | None = None, end_ns: Time | None = None
    ) -> int:
        """Return about how many intervals of attributes overlap [start_ns, end_ns).

        Without a time, the range begins or ends where `bounds` does. No interval is read: it is as
        if changes were spread evenly over the history.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("disk0  aab.").estimate_count("*", end_ns=2)
        2

        Raises:
            QuarkError: If the attribute does not exist.
            TimeRangeError: If the range is empty.
        """
        now = self._asked()
        asked, range_ns = now.query(chosen(now, quarks), *self._between(start_ns, end_ns))
        return len(asked) + now.segments.estimate(now.question(asked, range_ns))

    def maximum(self, quark: One, start_ns: Time, end_ns: Time) -> int | float | None:
        """Return the greatest number an attribute had in [start_ns, end_ns); None if none.

        The range is clipped to the history. If the two times are equal, it is the number at that
        time.

        Raises:
            QuarkError: If the attribute does not exist.
            StateTypeError: If its values are strings.
            TimeRangeError: If the range is reversed, or an instant outside the history.
        """
        now = self._asked()
        range_ns = _range(now, *self._between(start_ns, end_ns))
        return attribute_queries.extreme(now, one(now.attributes, quark), range_ns, greatest=True)

    def minimum(self, quark: One, start_ns: Time, end_ns: Time) -> int | float | None:
        """Return the least number an attribute had in [start_ns, end_ns); see `maximum`."""
        now = self._asked()
        range_ns = _range(now, *self._between(start_ns, end_ns))
        return attribute_queries.extreme(now, one(now.attributes, quark), range_ns, greatest=False)

    def average(self, quark: One, start_ns: Time, end_ns: Time) -> float:
        """Return an attribute's mean over the time in [start_ns, end_ns), exact for integers.

        No state counts as 0, also beyond the history's end. If the two times are equal, it is the
        number at that time. Raises as `maximum` does.

        >>> from meantime import HistoryBuilder
        >>> builder = HistoryBuilder()
        >>> queue = builder.quark("queue")
        >>> builder.modify(0, queue, 6)
        >>> builder.modify(2, queue, 3)
        >>> builder.close(4).average(queue, 1, 5)
        3.0
        """
        now = self._asked()
        range_ns = _range(now, *self._between(start_ns, end_ns))
        return attribute_queries.average(now, one(now.attributes, quark), range_ns)

    def stack_top(self, quark: One, time_ns: Time) -> Interval | None:
        """Return the interval of the value on top of a stack at a time; None if it is empty.

        Raises:
            QuarkError: If the attribute does not exist.
            StateTypeError: If its value is not a depth.
            TimeRangeError: If the time lies outside the history.
        """
        now = self._asked()
        return attribute_queries.stack_top(now, one(now.attributes, quark), self._ns(time_ns))

    def spans(
        self,
        quarks: Many | None = None,
        *,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
    ) -> SpanTable:
        """Return the spans of these threads that overlap [start_ns, end_ns), in full.

        An empty span overlaps the range if its time is in it. Without quarks, of all threads. Of a
        growing history, those that were added so far: what contains them may come later.
        """
        now = self._now()
        table = now.tables.spans.select(**self._selected(quarks, start_ns, end_ns))
        # those derived from spans have no spans themselves, and take time to make
        table.attributes = now.attributes
        return table

    def samples(
        self,
        quarks: Many | None = None,
        *,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        event: str | None = None,
    ) -> SampleTable:
        """Return the samples of these threads in [start_ns, end_ns), by default of all threads.

        Args:
            quarks: The threads.
            start_ns: The beginning of the range.
            end_ns: The end of the range.
            event: Only samples of this event; `*` is all events. By default these are all events,
                or the first of `metadata.sample_units`, as the units of these cannot be added up.
        """
        now = self._now()
        tables = now.tables.within(*self._between(start_ns, end_ns))
        table = tables.samples.select(**self._selected(quarks, start_ns, end_ns))
        table.units = now.metadata.sample_units
        if event is None:
            event = next(iter(table.units), None)
        if event is not None and event != ALL_EVENTS:
            table = table.of_event(event)
        table.attributes = now.attributes
        return table

    def _selected(
        self, quarks: Many | None, start_ns: Time | None, end_ns: Time | None
    ) -> dict[str, Any]:
        """Return the arguments that select rows of an event table, checked."""
        return {
            "quarks": None if quarks is None else quarks_of(many(self.attributes, quarks)),
            "start_ns": None if start_ns is None else time_of(self._ns(start_ns)),
            "end_ns": None if end_ns is None else time_of(self._ns(end_ns)),
        }

    def points(
        self,
        quarks: Many | None = None,
        *,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
    ) -> Points:
        """Return the instants on these attributes in [start_ns, end_ns), in order of time.

        Without quarks, on all attributes.
        """
        now = self._now()
        table = now.tables.within(*self._between(start_ns, end_ns)).points
        if quarks is not None or start_ns is not None or end_ns is not None:
            table = table.select(**self._selected(quarks, start_ns, end_ns))
        return _with_paths(table, now.attributes)

    def flows(
        self,
        quarks: Many | None = None,
        *,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
    ) -> Flows:
        """Return the arrows to or from these attributes, in order of where they begin.

        With a range, those that are under way in [start_ns, end_ns): from the earlier of their
        times to the later, both included. Without quarks, between all attributes.
        """
        now = self._now()
        table = now.tables.within(*self._between(start_ns, end_ns)).flows
        if quarks is not None or start_ns is not None or end_ns is not None:
            table = table.select(**self._selected(quarks, start_ns, end_ns))
        return _with_paths(table, now.attributes)

    if not TYPE_CHECKING:
        # Hidden from type checkers: they would accept any name as an attribute of a history.

        def __getattr__(self, name: str) -> Any:
            if name not in _FUNCTIONS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(
                f"History.{name} is deprecated; call meantime.{name}(history) instead",
                DeprecationWarning,
                stacklevel=2,
            )
            return partial(getattr(sys.modules["meantime"], name), self)

    def __repr__(self) -> str:
        if self._source is _closed:
            return "<History, closed>"
        title = f" {self.title!r}" if self.title else ""
        return (
            f"<History{title}: {len(self.attributes):,} attributes"
            f" over [{self.start_ns}, {self.end_ns}) ns>"
        )


def moment(history: History, *, derived: bool) -> Snapshot:
    """Return what a history consists of now; once built, maybe with what is derived from spans."""
    return history._asked() if derived else history._now()  # noqa: SLF001 - only joining needs it


def _with_paths(result: TableT, attributes: Attributes) -> TableT:
    """Return a new result, with the attributes from which its tables have paths."""
    # a result is frozen, and `dataclasses.replace` would cost a fifth of a small query
    object.__setattr__(result, "attributes", attributes)
    return result


def _closed() -> Snapshot:
    raise HistoryClosedError("this history was closed")


def _range(now: Snapshot, start_ns: int, end_ns: int) -> tuple[int, int]:
    """Return the range between two times: one instant if they are equal.

    Raises:
        TimeRangeError: If that instant is outside the history.
    """
    start_ns, end_ns = time_of(start_ns), time_of(end_ns)
    if start_ns == end_ns:
        now.check_time(start_ns)
        end_ns += 1
    return start_ns, end_ns
