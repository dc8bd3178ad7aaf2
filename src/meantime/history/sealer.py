"""From the open tail to segments: when to seal them, and merging changes that come too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from meantime.history.chain import SegmentChain
from meantime.history.changes import Changes, TypedChanges
from meantime.history.extremes import Extremes
from meantime.history.late import LateChanges, grouped, pieces, with_late
from meantime.history.live import LiveStates
from meantime.history.overview import OverviewBuilder
from meantime.history.sealed import SealedSegments
from meantime.kernels.tail import DONE, FULL, Tail
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.segment import Segment
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Sealer", "Sink", "chunks"]

_CHUNK_ROWS = 2**16
_INT64 = np.iinfo(np.int64)
# Changes that wait before a segment is sealed: this much disorder across quarks costs nothing.
_SLACK_CHANGES = 2**17
# With a sink, what waits is written to the log each time.
_SLACK_CHANGES_LOGGED = 2**14
# In a sealer without segments, changes wait only until the watcher has seen them.
_FORGOTTEN_CHANGES = 2**12


class Sink(Protocol):
    """Stores a sealer's segments, and the changes that are in none."""

    path: Path

    def seal(self, segment: Segment, sealer: Sealer) -> Segment:
        """Store the next segment, and return the one to be used instead."""

    def log(self, sealer: Sealer, *, new_log: bool) -> None:
        """Store the changes that are in no segment; all of them, or those since the last time."""

    def rewind(self, segments: int) -> None:
        """Forget the segments from this one on: they are sealed again."""


class Sealer:
    """The changes that wait in the tail, and the segments made of those before.

    Segments contain the changes in order of time, `segment_changes` each; an instant is never split
    between two. A change before the end of the last segment is late: late changes wait, and
    `finish` seals again all segments from the first they belong to. With `forget` there are no
    segments: changes are dropped, and the tail keeps only the current state of each attribute.

    Attributes:
        tail: The changes that wait.
        sink: Where segments are stored, and what waits is logged; None in memory.
        batch_rows: How many rows of the batch that is being put are in the tail.
        whole_steps: Whether nothing may be stored in the middle of a batch.
        needs_new_log: Whether the next log has to repeat all that waits.
        overview: The overview of the segments in a sink; None if there is none.
        watcher: Called with times and attributes of changes that are dropped.
    """

    def __init__(self, segment_changes: int, *, forget: bool) -> None:
        self.forgets = forget
        self._segment_changes = _FORGOTTEN_CHANGES if forget else segment_changes
        self.sink: Sink | None = None
        self.tail: Tail = self._new_tail()
        self._chain = SegmentChain()
        self._late = LateChanges()
        self._replaced = 0
        self.batch_rows: int = 0
        self.whole_steps = False
        self.needs_new_log: bool = False
        self.overview: OverviewBuilder | None = None
        self._searched: tuple[SegmentChain, SealedSegments] | None = None
        self.watcher: Callable[[Int64s, Int32s], None] | None = None

    def _new_tail(self, *, verbatim: bool = False) -> Tail:
        tail = Tail(self.full_rows, _CHUNK_ROWS, verbatim)
        tail.forgetful = self.forgets
        return tail

    @property
    def full_rows(self) -> int:
        """How many changes wait before a segment is sealed."""
        slack = _SLACK_CHANGES if self.sink is None else _SLACK_CHANGES_LOGGED
        # Small segments do not wait for many times the changes that they contain.
        return self._segment_changes + min(slack, self._segment_changes)

    @property
    def segments(self) -> list[Segment]:
        """The segments so far."""
        return self._chain.segments

    @property
    def extremes(self) -> Extremes:
        """The least and the greatest integer of each attribute in the segments."""
        return self._chain.extremes

    @property
    def replaced(self) -> int:
        """How many states of no length were replaced by a later change of the same time."""
        return self._replaced + self.tail.replaced

    @property
    def capacity(self) -> int:
        """How many changes there is room for before a segment has to be sealed."""
        return self.tail.capacity

    @property
    def boundary_ns(self) -> int:
        """Where the sealed part ends: earlier changes are late."""
        return self.tail.boundary_ns

    def copy(self) -> Sealer:
        """Return a sealer of the same changes, which can be finished while this one continues."""
        self._late.collect(self.tail)
        sealer = Sealer(self._segment_changes, forget=self.forgets)
        sealer.tail = self.tail.copy()
        sealer._chain = self._chain.copy()
        sealer._late.parts = list(self._late.parts)
        sealer.overview = None if self.overview is None else self.overview.copy()
        return sealer

    def keep_in(self, sink: Sink) -> None:
        """Store segments, and log what waits, in a sink from now on."""
        self.sink = sink
        # The slack, and with it the tail's capacity, depends on the sink.
        self.tail = self._new_tail()
        self.overview = OverviewBuilder()

    def restore(self, loaded: LoadedHistory) -> None:
        """Continue after the segments that another sealer stored; the caller puts the rest next."""
        quarks = len(loaded.kinds)
        self._chain = SegmentChain(loaded.segments, quarks, Extremes(loaded.segments))
        carry, tail = self._chain.carry, self.tail
        tail.resume(loaded.kinds, carry.start_ns, carry.word, carry.meta)
        if self.segments:
            tail.boundary_ns = loaded.boundary_ns
            tail.first_ns = self.segments[0].head.base_ns
            tail.latest_ns = max(segment.head.last_ns for segment in self.segments)
        if len(loaded.late.time_ns):
            self._late.parts = [loaded.late]
            tail.recall(*loaded.late)
        # Putting them must not seal a segment: the sink is detached meanwhile (`Store.resume`), so
        # that the segment would not be stored.
        waiting = sum(len(entry.changes.time_ns) for entry in loaded.entries)
        if waiting >= tail.capacity:
            tail.grow(waiting + 1)

    def restore_limits(self, loaded: LoadedHistory) -> None:
        """Log and seal from now on when the other sealer would have."""
        tail = self.tail
        tail.logged_rows, self._late.logged = tail.rows, len(self._late.parts)
        if loaded.capacity:
            # The next segment must be sealed when it would have been without the interruption:
            # that decides which changes are late.
            if loaded.capacity > len(tail.time_ns):
                tail.grow(loaded.capacity)
            tail.capacity = loaded.capacity
        self._replaced = loaded.replaced - tail.replaced

    def put_words(self, changes: TypedChanges) -> tuple[int, int]:
        """Put changes into the tail; return how many, and the status of the next one or DONE."""
        self.batch_rows = 0
        time_ns, quark, word, meta, kind = changes
        for chunk in chunks(len(time_ns)):
            columns = (time_ns[chunk], quark[chunk], word[chunk], meta[chunk], kind[chunk])
            row, status = 0, FULL
            while status == FULL:
                row, status = self.tail.put_words(*columns, row)
                if status == FULL:
                    self.batch_rows = chunk.start + row
                    self.make_room(whole=not self.whole_steps)
            if status != DONE:
                return chunk.start + row, status
        return len(time_ns), DONE

    def seal_full(self) -> None:
        """Seal full segments; call only between operations."""
        while self.tail.rows >= self.full_rows and (self.forgets or self._can_be_cut()):
            self._seal(last=False)

    def _can_be_cut(self) -> bool:
        """Whether the changes that wait are not all of one instant, which is in one segment."""
        tail = self.tail
        return not tail.ordered or bool(tail.time_ns[0] != tail.time_ns[tail.rows - 1])

    def make_room(self, *, whole: bool) -> None:
        """Make room for changes.

        Args:
            whole: Whether a build could be resumed from what is stored now.
        """
        # `FULL` means that one of three columns is: the late changes, those to be logged again, or
        # the waiting ones.
        self._late.collect(self.tail)
        tail = self.tail
        if self.sink and not whole:
            # A new log has all changes, so those that were replaced need not be tracked.
            if tail.redo_rows == len(tail.redo):
                tail.logged_rows = tail.redo_rows = 0
                self.needs_new_log = True
            if tail.rows >= tail.capacity:
                tail.grow(2 * max(tail.rows, tail.capacity))
            return
        if self.sink and tail.redo_rows == len(tail.redo):
            self.sink.log(self, new_log=False)
        if tail.rows >= tail.capacity:
            self._seal(last=False)

    def waiting(self, *, new_log: bool) -> tuple[Changes, Changes]:
        """Return the changes in no segment, in order of arrival, and those that came late.

        With `new_log` all of them, otherwise those since the last call; of the late ones always
        those since. Changes that replaced one that was returned before come first.
        """
        tail, late = self.tail, self._late
        late.collect(tail)
        self.needs_new_log = False
        rows = np.arange(0 if new_log else tail.logged_rows, tail.rows)
        if not new_log:
            rows = np.append(distinct(tail.redo[: tail.redo_rows]), rows)
        tail.logged_rows, tail.redo_rows = tail.rows, 0
        new = late.since_logged()
        if self.sink:
            late.spill(self.sink.path)
        waiting = Changes(tail.time_ns[rows], tail.quark[rows], tail.word[rows], tail.meta[rows])
        return waiting, new

    def forget(self) -> None:
        """Drop the changes that wait, once the watcher has seen them."""
        tail = self.tail
        if self.watcher is not None:
            self.watcher(tail.time_ns[: tail.rows], tail.quark[: tail.rows])
        tail.drop(tail.rows, tail.boundary_ns)

    def live(self, start_ns: int) -> LiveStates | None:
        """Return the states now, valid until the next change; None if only a copy has them."""
        if self.forgets or self._late.parts or self.tail.late_rows:
            return None
        searched = self._searched
        if (
            searched is None
            or searched[0] is not self._chain
            or len(searched[1].segments) != len(self.segments)
        ):
            sealed = SealedSegments(self.segments, _INT64.min, _INT64.max)
            searched = self._searched = (self._chain, sealed)
        return LiveStates(self.tail, searched[1], *self._range(start_ns))

    def _range(self, start_ns: int) -> tuple[int, int]:
        """Return where the history begins and ends with the changes so far."""
        tail = self.tail
        end_ns = tail.latest_ns + 1 if tail.latest_ns != _INT64.min else start_ns
        return min(start_ns, tail.first_ns), end_ns

    def finish(self, start_ns: int, end_ns: int | None) -> SealedSegments:
        """Seal what is left and return the segments of [start_ns, end_ns), or of all changes."""
        self._late.collect(self.tail)
        if self._late.parts:
            self._merge_late()
        while self.tail.rows:
            self._seal(last=True)
        start_ns, latest_end_ns = self._range(start_ns)
        end_ns = latest_end_ns if end_ns is None else max(end_ns, latest_end_ns)
        sealed = SealedSegments(self.segments, start_ns, end_ns)
        sealed.extremes = self.extremes
        if self.overview is not None:
            sealed.overview = self.overview.overview(self.segments)
        return sealed

    def _seal(self, *, last: bool) -> None:
        tail = self.tail
        if self.forgets:
            self.forget()
            return
        tail.sort()
        # Rows have moved, so the log's numbers of them are wrong; a new log follows in any case.
        tail.logged_rows = tail.redo_rows = 0
        rows = self._cut()
        if rows == tail.rows and not last:
            # All at one instant, and more of it may come.
            self.needs_new_log = True
            tail.grow(2 * max(tail.rows, tail.capacity))
            return
        self._seal_rows(rows)

    def _cut(self) -> int:
        """Return how many of the tail's ordered changes are in the next segment."""
        # A cut between two instants: all that is sealed is before the boundary, so the tail still
        # has each change that a later one of the same time may replace.
        rows = self._segment_changes
        if self.tail.rows <= rows:
            return self.tail.rows
        time_ns = self.tail.time_ns[: self.tail.rows]
        cut = int(np.searchsorted(time_ns, time_ns[rows]))
        return cut or int(np.searchsorted(time_ns, time_ns[rows], side="right"))

    def _seal_rows(self, rows: int) -> None:
        """Seal the first changes of the tail, of which those of each quark are in order of time."""
        tail = self.tail
        tail.logged_rows = tail.redo_rows = 0
        # A sink returns a segment that reads its file, so the next one may use the same memory.
        segment = self._chain.seal(tail, rows, reuse=self.sink is not None)
        # A tail that had to grow is not to wait for more changes than others from now on.
        tail.capacity = min(len(tail.time_ns), self.full_rows)
        left = rows < tail.rows
        tail.drop(rows, int(tail.time_ns[rows]) if left else segment.head.last_ns + 1)
        if self.sink:
            if self.overview is not None:
                self.overview.add(self.segments, segment, tail.kind)
            segment = self.sink.seal(segment, self)
        self.segments.append(segment)

    def _merge_late(self) -> None:
        """Seal again all segments from the one that the earliest late change belongs to."""
        late = self._late.take()
        bases_ns = [segment.head.base_ns for segment in self.segments]
        earliest_ns = min(int(part.time_ns.min()) for part in late)
        # Segments that end before the earliest late change stay as they are.
        kept = max(0, int(np.searchsorted(bases_ns, earliest_ns, side="right")) - 1)
        old, replaced = self.tail, self.replaced
        self._replaced = replaced
        again = self.segments[kept:]
        if self.overview is not None:
            self.overview.rewind(kept)
        if self.sink:
            self.sink.rewind(kept)
        # The extremes stay: what was sealed is sealed again.
        self._chain = SegmentChain(self.segments[:kept], old.quarks, self.extremes)
        carry = self._chain.carry
        # Verbatim: changes to the same state were dropped when they first came. One that is still
        # there replaced another one of its time, and is kept.
        self.tail = self._new_tail(verbatim=True)
        self.tail.resume(old.kind, carry.start_ns, carry.word, carry.meta)
        folder = self.sink.path if self.sink else None
        for parts, from_ns, to_ns in with_late(again, old, late, earliest_ns, folder):
            for piece in pieces(parts, from_ns, to_ns, self.tail.capacity, folder):
                # By attribute is enough: sealing needs no order across attributes, and so
                # `_seal_rows` is called without `sort`.
                changes = grouped(piece, old.quarks)
                self.put_words(TypedChanges(*changes, old.kind[changes.quark]))
                self._replaced = replaced - self.tail.replaced  # each was counted when it came
                if self.tail.rows:
                    self._seal_rows(self.tail.rows)
        self.tail.first_ns = min(self.tail.first_ns, old.first_ns)
        self.tail.verbatim = False


def chunks(rows: int) -> Iterator[slice]:
    """Yield the rows of a batch in the order and the parts in which they are put."""
    for first in range(0, rows, _CHUNK_ROWS):
        yield slice(first, first + _CHUNK_ROWS)
