"""A history that stores only checkpoints, and rebuilds the range of a query from one of them.

A checkpoint has the state of every attribute and of the provider, and the position in the input. A
query of a range is answered from segments of that range: they begin with the states of a
checkpoint, continue with the changes that the provider derives from the events after it, and end
when each of the last states ended.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.history.builder import HistoryBuilder
from meantime.history.changes import TypedChanges
from meantime.history.history import History
from meantime.history.ingest import ingest
from meantime.history.provider_runner import ProviderRunner
from meantime.trace import Events

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.extremes import Extremes
    from meantime.history.journal import ScheduledChange
    from meantime.history.provider_runner import Provider
    from meantime.history.segment_source import Measured, SegmentSource
    from meantime.kernels.shares import Tally
    from meantime.trace import Trace

__all__ = ["build_checkpoints"]

_INT64 = np.iinfo(np.int64)
# The segments of so many ranges are kept.
_REMEMBERED = 4


class _Checkpoint(NamedTuple):
    """The state of a build between two batches of events.

    `first_ns` is when each attribute first changed between it and the next checkpoint, the largest
    integer for those that did not; `earliest_ns` is the least of them.
    """

    position: Any
    later: list[ScheduledChange]
    states: TypedChanges
    latest_ns: int
    batches: int
    first_ns: Int64s
    earliest_ns: int


class _Recorder:
    """Records the checkpoints of a build."""

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
        builder.contents.store.sealer.watcher = self._see

    def _see(self, time_ns: Int64s, quark: Int32s) -> None:
        """Note which attributes change, and when first."""
        self._changes += len(time_ns)
        more = int(quark.max(initial=-1)) + 1 - len(self._first_ns)
        if more > 0:
            self._first_ns = np.append(self._first_ns, np.full(2 * more, _INT64.max))
        np.minimum.at(self._first_ns, quark, time_ns)

    def after(self, runner: ProviderRunner) -> None:
        """Record a checkpoint after a batch, unless it would cost more than it saves."""
        builder = self._builder
        store = builder.contents.store
        self._batches += 1
        store.sealer.forget()
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
        """Record the last checkpoint, at the end of the build."""
        self._builder.contents.store.sealer.forget()
        self._seal()


def build_checkpoints(reopen: Callable[[Any], Trace], provider: Provider) -> History:
    """Return the history of a trace's events, which stores only checkpoints.

    `reopen` returns the trace from a position of its `Events` on; None is the beginning.

    Raises:
        InputError: If the trace cannot be read, or has no events.
        ProviderError: If the provider fails.
        UsageError: If the provider does not save its state.
    """
    builder = HistoryBuilder(keep="ongoing")
    recorder = _Recorder(builder, provider)
    ingest(builder, reopen(None), provider, after=recorder.after)
    recorder.finish()
    whole = builder.snapshot()
    source = _CheckpointSegments(builder, recorder.checkpoints, provider, reopen)
    snapshot = replace(whole, segments=source, known_from_ns=None)
    return History(lambda: snapshot)


class _CheckpointSegments:
    """Answers queries about a range from segments that are made again for it.

    See `SegmentSource` for the methods.
    """

    def __init__(
        self,
        builder: HistoryBuilder,
        checkpoints: list[_Checkpoint],
        provider: Provider,
        reopen: Callable[[Any], Trace],
    ) -> None:
        self._builder = builder
        self._present = builder.snapshot().segments
        self._checkpoints = checkpoints
        self._provider = provider
        self._reopen = reopen
        self._made: OrderedDict[tuple[int, int], SegmentSource] = OrderedDict()
        self._ends_ns = self._ends(len(builder.attributes))
        # The range of a longer history, and the types of the attributes.
        self._longer: tuple[int, int, npt.NDArray[np.uint8]] | None = None

    @property
    def start_ns(self) -> int:
        """Where the history begins."""
        return self._present.start_ns if self._longer is None else self._longer[0]

    @property
    def end_ns(self) -> int:
        """Where it ends."""
        return self._present.end_ns if self._longer is None else self._longer[1]

    @property
    def size_bytes(self) -> int:
        """How much memory the states at its end take."""
        return self._present.size_bytes

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

    def within(
        self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]
    ) -> _CheckpointSegments:
        """See `SegmentSource.within`."""
        longer = copy.copy(self)
        longer._longer = start_ns, end_ns, kinds  # noqa: SLF001 - of the same class
        return longer

    def _of(self, start_ns: int, end_ns: int) -> SegmentSource:
        """Return segments that answer for a range."""
        if self._longer is None:
            return self._stored(start_ns, end_ns)
        last_ns = self._present.end_ns - 1
        start_ns = min(max(start_ns, self._present.start_ns), last_ns)
        made = self._stored(start_ns, max(start_ns + 1, min(end_ns, last_ns + 1)))
        return made.within(*self._longer)

    def _stored(self, start_ns: int, end_ns: int) -> SegmentSource:
        """Return segments that answer for a range of what was built."""
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

    def _of_times(self, times_ns: Int64s) -> SegmentSource:
        if not len(times_ns):
            return self._present
        return self._of(int(times_ns.min()), int(times_ns.max()) + 1)

    def _make(self, first: int, last: int) -> SegmentSource:
        """Return the segments from one checkpoint to the end of what follows another."""
        checkpoint = self._checkpoints[first]
        catalogue = self._builder.contents.catalogue
        builder = HistoryBuilder(start_ns=catalogue.start_ns)
        builder.contents.catalogue.share_names(catalogue)
        builder.contents.put_verbatim(checkpoint.states)
        for change in checkpoint.later:
            builder.journal.schedule(*change)
        self._replay(builder, checkpoint, last)
        builder.contents.put_verbatim(_ending(self._ends_ns[last + 1]))
        return builder.contents.store.finish(self._present.start_ns, self._present.end_ns)

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

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """See `SegmentSource.point`."""
        return self._of(time_ns, time_ns + 1).point(quark, time_ns)

    def at(self, quarks: Int32s, times_ns: Int64s, *columns: Any) -> None:
        """See `SegmentSource.at`."""
        self._of_times(times_ns).at(quarks, times_ns, *columns)

    def sample(self, quarks: Int32s, times_ns: Int64s, *columns: Any) -> None:
        """See `SegmentSource.sample`."""
        self._of_times(times_ns).sample(quarks, times_ns, *columns)

    def load(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        """See `SegmentSource.load`."""
        self._of(start_ns, end_ns).load(quarks, start_ns, end_ns)

    def count(self, quarks: Int32s, start_ns: int, end_ns: int, counts: Int64s) -> None:
        """See `SegmentSource.count`."""
        self._of(start_ns, end_ns).count(quarks, start_ns, end_ns, counts)

    def gather(self, quarks: Int32s, start_ns: int, end_ns: int, *columns: Any) -> int:
        """See `SegmentSource.gather`."""
        return self._of(start_ns, end_ns).gather(quarks, start_ns, end_ns, *columns)

    def count_matching(
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        *rest: Any,
    ) -> None:
        """See `SegmentSource.count_matching`."""
        made = self._of(start_ns, end_ns)
        made.count_matching(quarks, kinds, start_ns, end_ns, *rest)

    def nearest_matching(
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        *rest: Any,
    ) -> tuple[int, int] | None:
        """See `SegmentSource.nearest_matching`."""
        made = self._of(start_ns, end_ns)
        return made.nearest_matching(quarks, kinds, start_ns, end_ns, *rest)

    def bounds(self, quarks: Int32s, start_ns: int, end_ns: int, *columns: Any) -> None:
        """See `SegmentSource.bounds`."""
        self._of(start_ns, end_ns).bounds(quarks, start_ns, end_ns, *columns)

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """See `SegmentSource.integers`."""
        return self._of(self.start_ns, self.end_ns).integers(kinds)

    def expect_rows(self, rows: int, quarks: Int32s) -> None:
        """Do nothing: what is made for a range has no pyramids."""

    def for_times(
        self,
        quarks: Int32s,  # noqa: ARG002 - of any
        kinds: npt.NDArray[np.uint8],  # noqa: ARG002 - of any
        edges_ns: Int64s,  # noqa: ARG002 - of any
    ) -> SegmentSource:
        """Return this."""
        return self

    def tally(
        self,
        tally: Tally,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
    ) -> None:
        """See `SegmentSource.tally`."""
        self._of(start_ns, end_ns).tally(tally, quarks, kinds, start_ns, end_ns)

    def measure_bins(
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        edges_ns: Int64s,
        *columns: npt.NDArray[np.float64],
    ) -> None:
        """See `SegmentSource.measure_bins`."""
        made = self._of(int(edges_ns[0]), int(edges_ns[-1]))
        made.measure_bins(quarks, kinds, edges_ns, *columns)

    def measure(self, quark: int, kind: int, start_ns: int, end_ns: int) -> Measured:
        """See `SegmentSource.measure`."""
        return self._of(start_ns, end_ns).measure(quark, kind, start_ns, end_ns)


def _ending(ends_ns: Int64s) -> TypedChanges:
    """Return the changes to null that end each attribute's last state; the largest time is none."""
    quark = np.flatnonzero(ends_ns != _INT64.max).astype(np.int32)
    quark = quark[np.argsort(ends_ns[quark], kind="stable")]
    null, kind = np.ones(len(quark), np.uint32), np.zeros(len(quark), np.uint8)
    return TypedChanges(ends_ns[quark], quark, np.zeros(len(quark), np.int64), null, kind)
