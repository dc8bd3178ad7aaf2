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
from meantime.history.made_source import MadeSource
from meantime.history.provider_runner import ProviderRunner
from meantime.model.trace import Events

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meantime.history.journal import ScheduledChange
    from meantime.history.provider_runner import Provider
    from meantime.history.source import Source
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Trace

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


class _CheckpointSegments(MadeSource):
    """Answers questions from segments that are made again for their ranges."""

    def __init__(
        self,
        builder: HistoryBuilder,
        checkpoints: list[_Checkpoint],
        provider: Provider,
        reopen: Callable[[Any], Trace],
    ) -> None:
        self._builder = builder
        self._present = builder.snapshot().segments
        self.start_ns, self.end_ns = self._present.start_ns, self._present.end_ns
        self._checkpoints = checkpoints
        self._provider = provider
        self._reopen = reopen
        self._made_so_far: OrderedDict[tuple[int, int], Source] = OrderedDict()
        self._ends_ns = self._ends(len(builder.attributes))
        # The types of the attributes, in a longer history.
        self._longer: npt.NDArray[np.uint8] | None = None

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
        """See `Source.within`."""
        longer = copy.copy(self)
        longer.start_ns, longer.end_ns, longer._longer = start_ns, end_ns, kinds  # noqa: SLF001 - of the same class
        return longer

    def made(self, quarks: Int32s, start_ns: int, end_ns: int) -> Source:  # noqa: ARG002 - of all
        """See `MadeSource.made`."""
        if self._longer is None:
            return self._stored(start_ns, end_ns)
        last_ns = self._present.end_ns - 1
        start_ns = min(max(start_ns, self._present.start_ns), last_ns)
        made = self._stored(start_ns, max(start_ns + 1, min(end_ns, last_ns + 1)))
        return made.within(self.start_ns, self.end_ns, self._longer)

    def _stored(self, start_ns: int, end_ns: int) -> Source:
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
        if (first, last) not in self._made_so_far:
            self._made_so_far[first, last] = self._make(first, last)
            if len(self._made_so_far) > _REMEMBERED:
                self._made_so_far.popitem(last=False)
        self._made_so_far.move_to_end((first, last))
        return self._made_so_far[first, last]

    def _make(self, first: int, last: int) -> Source:
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


def _ending(ends_ns: Int64s) -> TypedChanges:
    """Return the changes to null that end each attribute's last state; the largest time is none."""
    quark = np.flatnonzero(ends_ns != _INT64.max).astype(np.int32)
    quark = quark[np.argsort(ends_ns[quark], kind="stable")]
    null, kind = np.ones(len(quark), np.uint32), np.zeros(len(quark), np.uint8)
    return TypedChanges(ends_ns[quark], quark, np.zeros(len(quark), np.int64), null, kind)
