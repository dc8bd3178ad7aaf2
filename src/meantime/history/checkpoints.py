"""A history of which only checkpoints are kept: what is asked for is made anew from one of them.

A checkpoint holds the state of every attribute, of the provider, and the place in the input. A
question about a range is answered by a small history of that range: it begins with the states of a
checkpoint, goes on with what the provider makes of the events after it, and ends with what is known
of when each of its last states ended.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.history.builder import HistoryBuilder
from meantime.history.changes import TypedChanges
from meantime.history.history import History
from meantime.history.ingest import ingest
from meantime.history.numbers import time_of, times_of
from meantime.history.provider_runner import ProviderRunner
from meantime.trace import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.columns import Int32s, Int64s
    from meantime.history.journal import ScheduledChange
    from meantime.history.provider_runner import Provider
    from meantime.history.results import (
        Interval,
        IntervalBatches,
        Intervals,
        Sample,
    )
    from meantime.history.selecting import Many, One
    from meantime.history.shares import Shares
    from meantime.history.snapshot import Snapshot
    from meantime.trace import Trace

__all__ = ["CheckpointHistory", "build_checkpoints"]

_INT64 = np.iinfo(np.int64)
# The histories of so many ranges are kept.
_REMEMBERED = 4


class _Checkpoint(NamedTuple):
    """What is known between two batches of events.

    `first_ns` is when each attribute changed first between it and the next; the largest integer for
    those that did not, and `earliest_ns` the least of them.
    """

    position: Any
    later: list[ScheduledChange]
    states: TypedChanges
    latest_ns: int
    batches: int
    first_ns: Int64s
    earliest_ns: int


class _Recorder:
    """Takes the checkpoints of a build."""

    def __init__(self, builder: HistoryBuilder, provider: Provider) -> None:
        self._builder = builder
        self.checkpoints: list[_Checkpoint] = []
        self._first_ns: Int64s = np.empty(0, np.int64)
        self._changes = 0
        self._batches = 0
        saved = provider.save()
        if saved is None:
            raise UsageError(f"keep='checkpoints': the provider {provider.name} has no save()")
        none = TypedChanges.none()
        self._open: tuple[Any, ...] = ({"provider": saved}, [], none, _INT64.min, 0)
        builder.contents.store.watcher = self._see

    def _see(self, time_ns: Int64s, quark: Int32s) -> None:
        """Note which attributes change, and when first."""
        self._changes += len(time_ns)
        more = int(quark.max(initial=-1)) + 1 - len(self._first_ns)
        if more > 0:
            self._first_ns = np.append(self._first_ns, np.full(2 * more, _INT64.max))
        np.minimum.at(self._first_ns, quark, time_ns)

    def after(self, runner: ProviderRunner) -> None:
        """Take a checkpoint after a batch, unless it would cost more than what it saves."""
        builder = self._builder
        store = builder.contents.store
        self._batches += 1
        store.forget()
        where = runner.position()
        if where is None or self._changes < len(builder.attributes):
            return
        self._seal()
        scheduled = builder.journal.scheduled_changes()
        self._open = (where, scheduled, store.states(), store.latest_ns, self._batches)

    def _seal(self) -> None:
        first_ns = self._first_ns
        earliest_ns = int(first_ns.min(initial=_INT64.max))
        position, later, states, latest_ns, batches = self._open
        self.checkpoints.append(
            _Checkpoint(position, later, states, latest_ns, batches, first_ns, earliest_ns)
        )
        self._first_ns = np.empty(0, np.int64)
        self._changes = 0

    def finish(self) -> None:
        """Take the last one, when the build is at its end."""
        self._builder.contents.store.forget()
        self._seal()


def build_checkpoints(reopen: Callable[[Any], Trace], provider: Provider) -> History:
    """Return the history of a trace's events, of which only checkpoints are kept.

    `reopen` returns the trace from a position on, as its `Events` say it; None is the beginning.

    Raises:
        InputError: If the trace cannot be read, or has no events.
        ProviderError: If the provider fails.
        UsageError: If the provider does not save its state.
    """
    builder = HistoryBuilder(keep="ongoing")
    recorder = _Recorder(builder, provider)
    present = ingest(builder, reopen(None), provider, after=recorder.after)
    recorder.finish()
    return CheckpointHistory(builder, present, recorder.checkpoints, provider, reopen)


class CheckpointHistory(History):
    """Answers as any history does, more slowly."""

    def __init__(
        self,
        builder: HistoryBuilder,
        present: History,
        checkpoints: list[_Checkpoint],
        provider: Provider,
        reopen: Callable[[Any], Trace],
    ) -> None:
        super().__init__(builder.snapshot)
        self._builder = builder
        self._checkpoints = checkpoints
        self._provider = provider
        self._reopen = reopen
        self._made: OrderedDict[tuple[int, int], History] = OrderedDict()
        self._ends_ns = self._ends(len(present.attributes))

    def _ends(self, quarks: int) -> list[Int64s]:
        """Return for each checkpoint when each attribute changes first after it."""
        ends = [np.full(quarks, _INT64.max)]
        for checkpoint in reversed(self._checkpoints):
            end_ns = ends[-1].copy()
            known = min(len(checkpoint.first_ns), quarks)
            changed = checkpoint.first_ns[:known] != _INT64.max
            end_ns[:known][changed] = checkpoint.first_ns[:known][changed]
            ends.append(end_ns)
        return ends[::-1]

    def _of(self, start_ns: int | None, end_ns: int | None) -> History:
        """Return a history that answers for a range."""
        start_ns = self.start_ns if start_ns is None else time_of(start_ns)
        end_ns = self.end_ns if end_ns is None else time_of(end_ns)
        if not self.start_ns <= start_ns < min(end_ns, self.end_ns):
            # it says what is wrong with the range
            return History(self._source)
        first = max(
            number
            for number, checkpoint in enumerate(self._checkpoints)
            if checkpoint.latest_ns <= start_ns
        )
        last = max(
            first,
            *(
                number
                for number, checkpoint in enumerate(self._checkpoints)
                if checkpoint.earliest_ns < end_ns
            ),
        )
        if (first, last) not in self._made:
            self._made[first, last] = self._make(first, last)
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
        self._made.move_to_end((first, last))
        return self._made[first, last]

    def _make(self, first: int, last: int) -> History:
        """Return the history from one checkpoint to the end of what follows another."""
        checkpoint = self._checkpoints[first]
        catalogue = self._builder.contents.catalogue
        builder = HistoryBuilder(start_ns=catalogue.start_ns)
        builder.contents.catalogue.share_names(catalogue)
        builder.contents.put_verbatim(checkpoint.states)
        for change in checkpoint.later:
            builder.journal.schedule(*change)
        self._replay(builder, checkpoint, last)
        builder.contents.put_verbatim(_ending(self._ends_ns[last + 1]))
        return History(self._answering(builder))

    def _answering(self, builder: HistoryBuilder) -> Callable[[], Snapshot]:
        whole = self._source()
        segments = builder.contents.store.finish(self.start_ns, self.end_ns)
        snapshot = replace(whole, segments=segments, built=True, known_from_ns=None, pyramids=None)
        return lambda: snapshot

    def _replay(self, builder: HistoryBuilder, checkpoint: _Checkpoint, last: int) -> None:
        at_end = last + 1 == len(self._checkpoints)
        batches = None if at_end else self._checkpoints[last + 1].batches - checkpoint.batches
        if "input" in checkpoint.position:
            builder.position = checkpoint.position
        else:
            self._provider.restore(checkpoint.position["provider"])
        trace = self._reopen(checkpoint.position.get("input"))
        runner = ProviderRunner(builder, self._provider)
        events = (batch for batch in trace.batches if isinstance(batch, Events))
        for number, batch in enumerate(events):
            if number == batches:
                break
            runner.run(batch)
        trace.close()
        if at_end:
            builder.advance(_INT64.max)

    def state(self, quark: One, time_ns: int) -> Interval:
        """See `History.state`."""
        return self._of(time_ns, time_ns + 1).state(quark, time_ns)

    def at(self, time_ns: int) -> Intervals:
        """See `History.at`."""
        return self._of(time_ns, time_ns + 1).at(time_ns)

    def states(self, quarks: Many, times_ns: Sequence[int] | Int64s) -> Intervals:
        """See `History.states`."""
        return self._of(*_spanned(times_ns)).states(quarks, times_ns)

    def intervals(
        self,
        quarks: Many,
        start_ns: int | None = None,
        end_ns: int | None = None,
        resolution_ns: int | None = None,
    ) -> Intervals:
        """See `History.intervals`."""
        return self._of(start_ns, end_ns).intervals(quarks, start_ns, end_ns, resolution_ns)

    def interval_batches(
        self,
        quarks: Many,
        start_ns: int | None = None,
        end_ns: int | None = None,
        resolution_ns: int | None = None,
        **rows: int,
    ) -> IntervalBatches:
        """See `History.interval_batches`."""
        return self._of(start_ns, end_ns).interval_batches(
            quarks, start_ns, end_ns, resolution_ns, **rows
        )

    def shares(
        self,
        quarks: Many,
        start_ns: int | None = None,
        end_ns: int | None = None,
        bins: int = 1,
    ) -> Shares:
        """See `History.shares`."""
        return self._of(start_ns, end_ns).shares(quarks, start_ns, end_ns, bins)

    def dominant(
        self,
        quarks: Many,
        start_ns: int | None = None,
        end_ns: int | None = None,
        bins: int = 1,
    ) -> Shares:
        """See `History.dominant`."""
        return self._of(start_ns, end_ns).dominant(quarks, start_ns, end_ns, bins)

    def sample(self, quarks: Many, times_ns: Sequence[int] | Int64s) -> Sample:
        """See `History.sample`."""
        return self._of(*_spanned(times_ns)).sample(quarks, times_ns)

    def maximum(self, quark: One, start_ns: int, end_ns: int) -> int | float | None:
        """See `History.maximum`."""
        return self._of(start_ns, max(end_ns, start_ns + 1)).maximum(quark, start_ns, end_ns)

    def minimum(self, quark: One, start_ns: int, end_ns: int) -> int | float | None:
        """See `History.minimum`."""
        return self._of(start_ns, max(end_ns, start_ns + 1)).minimum(quark, start_ns, end_ns)

    def average(self, quark: One, start_ns: int, end_ns: int) -> float:
        """See `History.average`."""
        return self._of(start_ns, max(end_ns, start_ns + 1)).average(quark, start_ns, end_ns)


def _ending(ends_ns: Int64s) -> TypedChanges:
    """Return the changes to null that end each attribute's last state; the largest time is none."""
    quark = np.flatnonzero(ends_ns != _INT64.max).astype(np.int32)
    quark = quark[np.argsort(ends_ns[quark], kind="stable")]
    null, kind = np.ones(len(quark), np.uint32), np.zeros(len(quark), np.uint8)
    return TypedChanges(ends_ns[quark], quark, np.zeros(len(quark), np.int64), null, kind)


def _spanned(times_ns: Sequence[int] | Int64s) -> tuple[int | None, int | None]:
    """Return the range that holds these times; no times need none, nor do those that are wrong."""
    times = times_of(times_ns)
    if not len(times):
        return None, None
    return int(times.min()), int(times.max()) + 1
