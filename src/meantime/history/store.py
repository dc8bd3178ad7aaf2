"""From changes to segments: the open tail, its sealing, and what came too late for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from meantime.history.changes import Changes, TypedChanges
from meantime.history.late import SPILL_ROWS, grouped, partition, pieces, spilled
from meantime.history.reorder import Reorder
from meantime.history.sealed import SealedSegments, search_all
from meantime.history.segment import SEGMENT_CHANGES, Carry, ScratchBuffer, seal
from meantime.history.values import value_of
from meantime.kernels.tail import BACKWARDS, DONE, FULL, OTHER_TYPE, STR, UNTYPED, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s, Value
    from meantime.history.directory.read import LoadedHistory
    from meantime.history.segment import Segment

__all__ = ["Store"]

_INT64 = np.iinfo(np.int64)
# Changes that wait before a segment is sealed: this much disorder across quarks costs nothing.
_SLACK_CHANGES = 2**17
# With a sink, what waits is written to the log each time.
_SLACK_CHANGES_LOGGED = 2**14
_CHUNK_ROWS = 2**16
# Of a store without segments: what waits there is only looked at when it is thrown away.
_FORGOTTEN_CHANGES = 2**12
# A full segment costs about 24 bytes a quark; at most one in this many changes pays for that.
_CHANGES_PER_FULL_RUN = 16

Refuse: TypeAlias = "Callable[[int, int, int, int], None]"


class Sink(Protocol):
    """Where a store's segments and the changes that are in none are kept."""

    path: Path

    def seal(self, segment: Segment, store: Store) -> Segment:
        """Keep the next segment, and return the one to be used in its place."""

    def log(self, store: Store, *, anew: bool) -> None:
        """Keep the changes that are in no segment; all of them, or those since the last time."""

    def rewind(self, segments: int) -> None:
        """Forget the segments from this one on: they are sealed anew."""


class Store:
    """The segments of a history being built.

    Segments hold the changes in order of time, `segment_changes` each; one is never cut inside an
    instant. A change before what is sealed is late: late changes wait, and `finish` seals anew all
    segments from the first they belong to. With `forget` there are no segments: only the state that
    each attribute is in is kept. `refuse` is called with the status, time, quark and type
    of a change that cannot be, and raises what is wrong with it.
    """

    def __init__(
        self,
        refuse: Refuse,
        segment_changes: int = SEGMENT_CHANGES,
        *,
        reorder_ns: int = 0,
        forget: bool = False,
    ) -> None:
        self.sink: Sink | None = None
        self._refuse = refuse
        self._reorder = Reorder(reorder_ns) if reorder_ns else None
        self.segments: list[Segment] = []
        self._forget = forget
        self._segment_changes = _FORGOTTEN_CHANGES if forget else segment_changes
        self._tail = self._new_tail()
        self._carry = Carry.empty()
        self._room = ScratchBuffer()
        self._since_full = 0
        self._late: list[Changes] = []
        self._late_logged = self._late_spilled = 0
        self._replaced = 0
        self.batch_rows = 0
        self.log_anew = False
        # Called with times and attributes of what is forgotten.
        self.watcher: Callable[[Int64s, Int32s], None] | None = None
        # Whether nothing may be written down in the middle of a batch.
        self.whole_steps = False

    @property
    def _slack(self) -> int:
        most = _SLACK_CHANGES if self.sink is None else _SLACK_CHANGES_LOGGED
        return min(most, self._segment_changes)

    def _new_tail(self, *, verbatim: bool = False) -> Tail:
        tail = Tail(self._segment_changes + self._slack, _CHUNK_ROWS, verbatim)
        tail.forgetful = self._forget
        return tail

    @property
    def replaced(self) -> int:
        """How many states of no length were replaced by a later change of the same time."""
        return self._replaced + self._tail.replaced

    def reserve(self, quarks: int) -> None:
        """Grow the per-attribute arrays to `quarks`; new attributes start null."""
        if quarks > self._tail.quarks:
            self._tail.reserve(quarks)
        if self._reorder:
            self._reorder.reserve(quarks)

    def kind(self, quark: int) -> int:
        """Return the type of an attribute's values."""
        return int((self._reorder.latest if self._reorder else self._tail).kind[quark])

    def kinds(self, quarks: int) -> npt.NDArray[np.uint8]:
        """Return the type of each attribute's values, by quark."""
        return self._tail.kind[:quarks].copy()

    def start_ns(self, start_ns: int) -> int:
        """Return where a history that starts at `start_ns` unless a change is earlier starts."""
        return min(start_ns, self._tail.first_ns)

    def last_change_ns(self, quark: int) -> int | None:
        """Return the time of an attribute's last change; None before any."""
        time_ns = int(self._tail.start_ns[quark])
        if self._reorder:
            word, meta, _ = self._tail.now(quark)
            time_ns = self._reorder.start_ns(quark, time_ns, word, meta)
        return None if time_ns == _INT64.min else time_ns

    def ongoing(self, quark: int, names: Sequence[str]) -> Value:
        """Return the value that an attribute has now."""
        if self._reorder:
            latest = self._reorder.latest
            word, meta, kind = (int(column[quark]) for column in latest[2:])
        else:
            word, meta, kind = self._tail.now(quark)
        return None if meta & 1 else value_of(word, kind, names)

    def copy(self) -> Store:
        """Return a store of the same changes, which can be finished while this one goes on."""
        self._take_late()
        store = Store(self._refuse, self._segment_changes, forget=self._forget)
        store.segments = list(self.segments)
        store._tail = self._tail.copy()
        store._carry = self._carry.copy()
        store._since_full = self._since_full
        store._late = list(self._late)
        return store

    def status_of(self, time_ns: int, quark: int, kind: int) -> int:
        """Return what would be wrong with a change, without making it."""
        if self._reorder:
            return self._reorder.status_of(time_ns, quark, kind)
        if kind not in (UNTYPED, self.kind(quark)) and self.kind(quark) != UNTYPED:
            return OTHER_TYPE
        return BACKWARDS if time_ns < int(self._tail.start_ns[quark]) else DONE

    def put_one(self, time_ns: int, quark: int, word: int, meta: int, kind: int) -> None:
        """Take one change."""
        if self._reorder:
            status = self._reorder.add_one(time_ns, quark, word, meta, kind)
            if status != DONE:
                self._refuse(status, time_ns, quark, kind)
            self._release()
            return
        status = self._tail.put_one(time_ns, quark, word, meta, kind)
        while status == FULL:
            self._make_room(whole=False)
            status = self._tail.put_one(time_ns, quark, word, meta, kind)
        if status != DONE:
            self._refuse(status, time_ns, quark, kind)

    def put_codes(
        self,
        time_ns: Int64s,
        quark: Int32s,
        code: Int32s,
        code_of: Int32s,
        tag: Int32s | None,
    ) -> None:
        """Take changes to strings; `code_of` translates their codes, -1 is null."""
        self.batch_rows = 0
        code, code_of = (np.ascontiguousarray(codes, np.int32) for codes in (code, code_of))
        if self._reorder:
            # One more at the end: a code of -1 takes it.
            word = np.append(code_of, np.int32(-1))[code].astype(np.int64)
            null = word < 0
            meta = null.astype(np.uint32)
            if tag is not None:
                meta |= (tag + 1).astype(np.uint32) << np.uint32(1)
            kind = np.where(null, np.uint8(UNTYPED), np.uint8(STR))
            self.put_words(time_ns, quark, np.where(null, 0, word), meta, kind)
            return
        for chunk in _chunks(len(time_ns)):
            times, quarks, codes = time_ns[chunk], quark[chunk], code[chunk]
            tags = None if tag is None else tag[chunk]
            row, status = 0, FULL
            while status == FULL:
                row, status = self._tail.put_codes(times, quarks, codes, code_of, tags, row)
                if status == FULL:
                    self.batch_rows = chunk.start + row
                    self._make_room(whole=not self.whole_steps)
            if status != DONE:
                self._refuse(status, int(times[row]), int(quarks[row]), 1)

    def put_words(
        self,
        time_ns: Int64s,
        quark: Int32s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
        kind: npt.NDArray[np.uint8],
    ) -> None:
        """Take changes given as words."""
        if self._reorder:
            row, status = self._reorder.add(TypedChanges(time_ns, quark, word, meta, kind))
            if status != DONE:
                self._refuse(status, int(time_ns[row]), int(quark[row]), int(kind[row]))
            self._release()
        else:
            self._put_words(TypedChanges(time_ns, quark, word, meta, kind))

    def amend(self, quark: int, word: int, null: int, kind: int, start_ns: int) -> None:
        """Replace the value that an attribute has now; one without changes took it at the start."""
        began_ns = self.last_change_ns(quark) if 0 <= quark < self._tail.quarks else None
        if began_ns is None:
            self.put_one(self.start_ns(start_ns), quark, word, null, kind)
            return
        if self._reorder:
            meta = int(self._reorder.latest.meta[quark]) & ~1 | null
            status = self._reorder.amend(quark, began_ns, word, meta, kind)
            if status != DONE:
                self._refuse(status, began_ns, quark, kind)
            if began_ns != int(self._tail.start_ns[quark]):
                return
        meta = int(self._tail.now_meta[quark]) & ~1 | null
        status = self._tail.amend(quark, word, meta, kind)
        while status == FULL:
            self._make_room(whole=False)
            status = self._tail.amend(quark, word, meta, kind)
        if status != DONE:
            self._refuse(status, int(self._tail.start_ns[quark]), quark, kind)

    def _release(self, *, everything: bool = False) -> None:
        if self._reorder:
            changes = self._reorder.release(everything=everything)
            if changes is not None:
                self._put_words(changes)

    def put_verbatim(self, changes: TypedChanges) -> None:
        """Take changes as they are, also where one changes nothing."""
        self._tail.verbatim = True
        self._put_words(changes)
        self._tail.verbatim = False

    def _put_words(self, changes: TypedChanges) -> None:
        self.batch_rows = 0
        time_ns, quark, word, meta, kind = changes
        for chunk in _chunks(len(time_ns)):
            columns = (time_ns[chunk], quark[chunk], word[chunk], meta[chunk], kind[chunk])
            row, status = 0, FULL
            while status == FULL:
                row, status = self._tail.put_words(*columns, row)
                if status == FULL:
                    self.batch_rows = chunk.start + row
                    self._make_room(whole=not self.whole_steps)
            if status != DONE:
                self._refuse(
                    status, int(columns[0][row]), int(columns[1][row]), int(columns[4][row])
                )

    def finish(self, start_ns: int, end_ns: int | None) -> SealedSegments:
        """Seal what is left and return the segments, to be searched."""
        self._release(everything=True)
        if self._forget:
            return self._ongoing_only().finish(start_ns, end_ns)
        self._take_late()
        if self._late:
            self._merge_late()
        while self._tail.rows:
            self._seal(last=True)
        changed = self._tail.latest_ns != _INT64.min
        latest_end_ns = self._tail.latest_ns + 1 if changed else start_ns
        end_ns = latest_end_ns if end_ns is None else max(end_ns, latest_end_ns)
        return SealedSegments(self.segments, self.start_ns(start_ns), end_ns)

    def known_from_ns(self, quarks: int) -> Int64s | None:
        """Return since when the state of each attribute is known; None if from the beginning."""
        return self._tail.start_ns[:quarks].copy() if self._forget else None

    def forget(self) -> None:
        """Drop the changes that wait; a store without segments has no use for them."""
        tail = self._tail
        if self.watcher is not None:
            self.watcher(tail.time_ns[: tail.rows], tail.quark[: tail.rows])
        tail.drop(tail.rows, tail.boundary_ns)

    def states(self) -> TypedChanges:
        """Return, in order of time, the changes to the states that attributes are in now."""
        tail = self._tail
        quark = np.flatnonzero(tail.start_ns[: tail.quarks] != _INT64.min).astype(np.int32)
        quark = quark[np.argsort(tail.start_ns[quark], kind="stable")]
        return TypedChanges(
            tail.start_ns[quark],
            quark,
            tail.now_word[quark],
            tail.now_meta[quark],
            tail.kind[quark],
        )

    @property
    def latest_ns(self) -> int:
        """The time of the latest change; the least integer before any."""
        return self._tail.latest_ns

    def _ongoing_only(self) -> Store:
        """Return a store of nothing but the states that attributes are in now."""
        store = Store(self._refuse)
        store.reserve(self._tail.quarks)
        store.put_verbatim(self.states())
        store._tail.first_ns, store._tail.latest_ns = self._tail.first_ns, self._tail.latest_ns
        return store

    def waiting(self, *, anew: bool) -> tuple[Changes, Changes]:
        """Return the changes in no segment, in order of arrival, and those that came late.

        All of them, or those since the last call; the late ones are always those since. What
        replaced a change that was returned before comes first.
        """
        self._take_late()
        tail = self._tail
        self.log_anew = False
        rows = np.arange(0 if anew else tail.logged_rows, tail.rows)
        if not anew:
            rows = np.append(np.unique(tail.redo[: tail.redo_rows]), rows)
        tail.logged_rows, tail.redo_rows = tail.rows, 0
        late = self._late[self._late_logged :]
        self._late_logged = len(self._late)
        self._spill_late()
        waiting = Changes(tail.time_ns[rows], tail.quark[rows], tail.word[rows], tail.meta[rows])
        return waiting, Changes.joined([Changes.room(0), *late])

    def _spill_late(self) -> None:
        held = self._late[self._late_spilled :]
        if self.sink and sum(len(part.time_ns) for part in held) >= SPILL_ROWS:
            self._late[self._late_spilled :] = [spilled(Changes.joined(held), self.sink.path)]
            self._late_spilled = self._late_logged = len(self._late)

    def keep_in(self, sink: Sink) -> None:
        """Keep the segments and what waits for one in a sink too, from now on."""
        self.sink = sink
        self._tail = self._new_tail()

    @property
    def capacity(self) -> int:
        """How many changes there is room for before a segment has to be sealed."""
        return self._tail.capacity

    @property
    def boundary_ns(self) -> int:
        """Where the sealed part ends: earlier changes are late."""
        return self._tail.boundary_ns

    def resume(self, loaded: LoadedHistory) -> None:
        """Continue from what another store wrote: its segments, and the changes in none."""
        sink, self.sink = self.sink, None
        self.segments = list(loaded.segments)
        self._carry = _carry_after(self.segments, len(loaded.kinds))
        self._since_full = sum(
            segment.head.changes for segment in self.segments[_last_full(self.segments) :]
        )
        tail = self._tail
        tail.resume(loaded.kinds, self._carry.start_ns, self._carry.word, self._carry.meta)
        if self.segments:
            tail.boundary_ns = loaded.boundary_ns
            tail.first_ns = self.segments[0].head.base_ns
            tail.latest_ns = max(segment.head.last_ns for segment in self.segments)
        if len(loaded.late.time_ns):
            self._late = [loaded.late]
            tail.recall(*loaded.late)
        waiting = sum(len(entry.changes.time_ns) for entry in loaded.entries)
        if waiting >= tail.capacity:
            tail.grow(waiting + 1)
        tail.verbatim = True
        for entry in loaded.entries:
            self._put_words(TypedChanges(*entry.changes, loaded.kinds[entry.changes.quark]))
        tail.verbatim = False
        tail.logged_rows, self._late_logged = tail.rows, len(self._late)
        self.sink = sink
        if loaded.capacity:
            # When the next segment is sealed decides what is late: as it would have been.
            if loaded.capacity > len(tail.time_ns):
                tail.grow(loaded.capacity)
            tail.capacity = loaded.capacity
        self._replaced = loaded.replaced - tail.replaced

    def _limit(self, tail: Tail) -> None:
        """Let a tail that had to grow be full as early as any."""
        tail.capacity = min(len(tail.time_ns), self._segment_changes + self._slack)

    def seal_full(self) -> None:
        """Seal full segments; call only between operations."""
        full = self._segment_changes + self._slack
        while self._tail.rows >= full and (self._forget or self._can_be_cut()):
            self._seal(last=False)

    def _can_be_cut(self) -> bool:
        """Whether the changes that wait are not all of one instant, which is in one segment."""
        tail = self._tail
        return not tail.ordered or bool(tail.time_ns[0] != tail.time_ns[tail.rows - 1])

    def _make_room(self, *, whole: bool) -> None:
        """Make room for changes; `whole` says that what is written down now can be gone on from."""
        self._take_late()
        tail = self._tail
        if self.sink and not whole:
            # A log that begins anew takes all changes, so what was replaced need not be known.
            if tail.redo_rows == len(tail.redo):
                tail.logged_rows = tail.redo_rows = 0
                self.log_anew = True
            if tail.rows >= tail.capacity:
                tail.grow(2 * max(tail.rows, tail.capacity))
            return
        if self.sink and tail.redo_rows == len(tail.redo):
            self.sink.log(self, anew=False)
        if tail.rows >= tail.capacity:
            self._seal(last=False)

    def _take_late(self) -> None:
        tail = self._tail
        if tail.late_rows:
            columns = (tail.late_time_ns, tail.late_quark, tail.late_word, tail.late_meta)
            self._late.append(Changes(*columns).part(0, tail.late_rows).copy())
            tail.late_rows = 0

    def _seal(self, *, last: bool) -> None:
        tail = self._tail
        if self._forget:
            self.forget()
            return
        tail.sort()
        tail.logged_rows = tail.redo_rows = 0
        rows = self._cut()
        if rows == tail.rows and not last:
            # All at one instant, and more of it may come.
            self.log_anew = True
            tail.grow(2 * max(tail.rows, tail.capacity))
            return
        self._seal_rows(rows)

    def _seal_rows(self, rows: int) -> None:
        """Seal the first changes of the tail, of which those of each quark are in order of time."""
        tail = self._tail
        tail.logged_rows = tail.redo_rows = 0
        self._carry.reserve(tail.quarks)
        changed = int(np.count_nonzero(self._carry.start_ns != _INT64.min))
        full = not self.segments or self._since_full > _CHANGES_PER_FULL_RUN * changed
        # What a sink keeps is read from there, so the next segment may stand in the same place.
        room = self._room if self.sink else None
        segment = seal(tail, rows, self._carry, full=full, room=room)
        self._limit(tail)
        self._since_full = rows if full else self._since_full + rows
        left = rows < tail.rows
        tail.drop(rows, int(tail.time_ns[rows]) if left else segment.head.last_ns + 1)
        if self.sink:
            segment = self.sink.seal(segment, self)
        self.segments.append(segment)

    def _cut(self) -> int:
        """How many of the tail's ordered changes the next segment takes."""
        rows = self._segment_changes
        if self._tail.rows <= rows:
            return self._tail.rows
        time_ns = self._tail.time_ns[: self._tail.rows]
        cut = int(np.searchsorted(time_ns, time_ns[rows]))
        return cut or int(np.searchsorted(time_ns, time_ns[rows], side="right"))

    def _merge_late(self) -> None:
        """Seal anew from the segment on that the earliest late change belongs to."""
        late, self._late = self._late, []
        self._late_logged = self._late_spilled = 0
        bases_ns = [segment.head.base_ns for segment in self.segments]
        earliest_ns = min(int(part.time_ns.min()) for part in late)
        kept = max(0, int(np.searchsorted(bases_ns, earliest_ns, side="right")) - 1)
        old = self._tail
        replaced = self._replaced = self.replaced
        anew, self.segments = self.segments[kept:], self.segments[:kept]
        if self.sink:
            self.sink.rewind(kept)
        self._carry = _carry_after(self.segments, old.quarks)
        self._since_full = sum(
            segment.head.changes for segment in self.segments[_last_full(self.segments) :]
        )
        self._tail = self._new_tail(verbatim=True)
        self._tail.resume(old.kind, self._carry.start_ns, self._carry.word, self._carry.meta)
        for parts, from_ns, to_ns in self._with_late(anew, old, late, earliest_ns):
            for piece in pieces(parts, from_ns, to_ns, self._tail.capacity, self._folder):
                changes = grouped(piece, old.quarks)
                self._put_words(TypedChanges(*changes, old.kind[changes.quark]))
                self._replaced = replaced - self._tail.replaced  # each was counted when it came
                if self._tail.rows:
                    self._seal_rows(self._tail.rows)
        self._tail.first_ns = min(self._tail.first_ns, old.first_ns)
        self._tail.verbatim = False

    @property
    def _folder(self) -> Path | None:
        return self.sink.path if self.sink else None

    def _with_late(
        self, segments: list[Segment], tail: Tail, late: list[Changes], earliest_ns: int
    ) -> Iterator[tuple[list[Changes], int, int]]:
        """Yield what each segment, then the tail, has now, and its range [from_ns, to_ns)."""
        searched = search_all(segments)
        edges_ns = [segment.head.base_ns for segment in segments[1:]] + [tail.boundary_ns]
        partitions = []
        while late:
            part = late.pop(0)
            place = np.searchsorted(edges_ns, part.time_ns, side="right").astype(np.uint16)
            partitions.append(partition(part, place, len(edges_ns) + 1, self._folder))
            del part
        first_ns = min([earliest_ns, *(segment.head.base_ns for segment in segments[:1])])
        edges_ns = [first_ns, *edges_ns, tail.latest_ns + 1]
        for index, segment in enumerate(segments):
            segment.load()
            sealed = Changes.room(segment.head.changes)
            searched.unseal(index, *sealed)
            parts = [sealed, *(part[index] for part in partitions)]
            yield parts, edges_ns[index], edges_ns[index + 1]
        waiting = Changes(tail.time_ns, tail.quark, tail.word, tail.meta).part(0, tail.rows)
        yield [waiting, *(part[-1] for part in partitions)], edges_ns[-2], edges_ns[-1]


def _carry_after(segments: list[Segment], quarks: int) -> Carry:
    """Return the state of each quark after all these segments."""
    carry = Carry.empty()
    carry.reserve(quarks)
    if segments:
        last_ns = segments[-1].head.last_ns
        SealedSegments(segments, _INT64.min, last_ns + 1).at(
            np.arange(quarks, dtype=np.int32),
            np.full(quarks, last_ns),
            carry.start_ns,
            np.empty(quarks, np.int64),
            carry.word,
            carry.meta,
        )
    return carry


def _last_full(segments: list[Segment]) -> int:
    fulls = [index for index, segment in enumerate(segments) if segment.head.full]
    return fulls[-1] if fulls else 0


def _chunks(rows: int) -> Iterator[slice]:
    for first in range(0, rows, _CHUNK_ROWS):
        yield slice(first, first + _CHUNK_ROWS)
