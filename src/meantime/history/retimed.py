"""A history whose clock drifts against another one, with the times of the other one.

What has an offset keeps its times and is not copied; see `joined`. With a drift, intervals have
other lengths, which sums depend on, so the states are copied once, when they are first asked for.
The rows of event tables are converted when they are used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from meantime.errors import HistoryError
from meantime.history.changes import Changes
from meantime.history.history import History, moment
from meantime.history.samples import SampleTable
from meantime.history.source import Question
from meantime.history.spans import SpanTable
from meantime.history.store import Store
from meantime.kernels.search import IntervalRows
from meantime.kernels.tail import UNTYPED
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.results import Flows, Points
    from meantime.history.sealed import SealedSegments
    from meantime.history.snapshot import Snapshot
    from meantime.history.source import Source
    from meantime.history.tables import Tables
    from meantime.model.clocks import Clock, ClockShift

__all__ = ["RetimedHistory"]

# How many intervals are copied at once.
_MOST_ROWS = 1 << 20
_NEVER = np.iinfo(np.int64).min


class RetimedHistory(History):
    """A history with times of another clock; it is pickled as the one that it is made of.

    Args:
        history: The history.
        shift: How its times are converted.
        clock: Which clock they count then.
    """

    def __init__(self, history: History, shift: ClockShift, clock: Clock) -> None:
        self._made_of = history, shift, clock
        super().__init__(_Retimed(*self._made_of))

    def snapshot(self) -> History:
        """See `History.snapshot`."""
        history, shift, clock = self._made_of
        return self if self.built else RetimedHistory(history.snapshot(), shift, clock)

    def __reduce__(self) -> tuple[Any, ...]:
        self._made_of[0].__reduce__()  # of one in memory, this says that it cannot be pickled
        return RetimedHistory, self._made_of


class _Retimed:
    """Returns the converted snapshot; a new one if the history has grown."""

    def __init__(self, history: History, shift: ClockShift, clock: Clock) -> None:
        self._history, self._shift, self._clock = history, shift, clock
        self._seen: tuple[Snapshot, Snapshot] | None = None

    def __call__(self) -> Snapshot:
        then = moment(self._history, derived=False)
        if self._seen is None or self._seen[0] is not then:
            self._seen = then, self._converted(then)
        return self._seen[1]

    def _converted(self, then: Snapshot) -> Snapshot:
        shift = self._shift
        known, since_ns = then.known_metadata(), then.known_from_ns
        if since_ns is not None:
            since_ns = np.where(since_ns > _NEVER, shift.of_all(since_ns), since_ns)
        metadata = replace(
            known,
            clock=self._clock,
            bounds=None if known.bounds is None else shift.of_range(known.bounds),
            lost=[(shift.of(from_ns), shift.of(to_ns)) for from_ns, to_ns in known.lost],
            range_ns=None if known.range_ns is None else shift.of_range(known.range_ns),
        )
        return replace(
            then,
            segments=_copied(then.segments, then.kinds, shift),
            known_from_ns=since_ns,
            tables=_RetimedTables(then.tables, shift),
            metadata=metadata,
            damage=None,
            derive=None,
        )


def _copied(source: Source, kinds: npt.NDArray[np.uint8], shift: ClockShift) -> SealedSegments:
    """Return the intervals of a source with the times of the other clock."""
    store = Store(_refuse)
    store.reserve(len(kinds))
    for changes in _changes(source, kinds):
        kind = np.where(changes.meta & 1, np.uint8(UNTYPED), kinds[changes.quark])
        store.put_words(*changes._replace(time_ns=shift.of_all(changes.time_ns)), kind)
    return store.finish(*shift.of_range((source.start_ns, source.end_ns)))


def _changes(source: Source, kinds: npt.NDArray[np.uint8]) -> Iterator[Changes]:
    """Yield where intervals begin, some at a time, in order of time."""
    asked = np.arange(len(kinds), dtype=np.int32)
    ranges = [(source.start_ns, source.end_ns)] if len(kinds) else []
    while ranges:
        start_ns, end_ns = ranges.pop()
        question = Question(asked, asked, kinds, start_ns, end_ns)
        room = int(source.count(question).sum())
        if room > _MOST_ROWS + len(kinds) and end_ns - start_ns > 1:
            middle_ns = (start_ns + end_ns) // 2
            ranges += [(middle_ns, end_ns), (start_ns, middle_ns)]
            continue
        rows = IntervalRows(room, text=False)
        source.gather(question, rows)
        found = Changes(rows.start_ns, rows.quark, rows.word, rows.meta)
        yield found.taken(np.flatnonzero(found.time_ns >= start_ns)).in_order()


def _refuse(status: int, time_ns: int, quark: int, kind: int) -> NoReturn:
    raise HistoryError(f"the copy of a history is wrong: {status}, {time_ns}, {quark}, {kind}")


class _RetimedTables:
    """Event tables with the times of another clock; see `Tables`."""

    def __init__(self, tables: Tables, shift: ClockShift) -> None:
        self._tables, self._shift = tables, shift

    def within(self, start_ns: int | None, end_ns: int | None) -> _RetimedTables:
        """Return tables that have at least the rows in [start_ns, end_ns)."""
        own = (None if each is None else self._shift.first_at(each) for each in (start_ns, end_ns))
        return _RetimedTables(self._tables.within(*own), self._shift)

    @cached_property
    def points(self) -> Points:
        """The instants."""
        own = self._tables.points
        return replace(own, time_ns=self._shift.of_all(own.time_ns))

    @cached_property
    def flows(self) -> Flows:
        """The arrows."""
        own = self._tables.flows
        times = self._shift.of_all
        return replace(own, from_ns=times(own.from_ns), to_ns=times(own.to_ns))

    @cached_property
    def samples(self) -> SampleTable:
        """The samples."""
        own = self._tables.samples
        return SampleTable(
            time_ns=self._shift.of_all(own.time_ns),
            thread=own.thread,
            stack=own.stack,
            weight=own.weight,
            event=own.event,
            name=own.name,
            cpu=own.cpu,
            stacks=own.stacks,
            units=own.units,
        )

    @cached_property
    def spans(self) -> SpanTable:
        """The spans."""
        own, shift = self._tables.spans, self._shift

        def column(name: str) -> npt.NDArray[Any]:
            whole = getattr(own, name)
            if name in {"start_ns", "end_ns"}:
                return shift.of_all(whole)
            found: npt.NDArray[Any] = whole.codes if isinstance(whole, Coded) else whole
            return found

        return SpanTable(
            places=lambda: (own.threads, own.offsets),
            column=column,
            strings=(own.name.names, own.category.names),
            text=own.text,
            rows=lambda: own.rows,
        )
