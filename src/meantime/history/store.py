"""The changes of a history that is being built, and the current state of its attributes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.history.changes import TypedChanges
from meantime.history.reorder import Reorder
from meantime.history.sealer import Sealer, chunks
from meantime.history.segment import SEGMENT_CHANGES
from meantime.history.values import value_of
from meantime.kernels.tail import BACKWARDS, DONE, FULL, OTHER_TYPE, STR, UNTYPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.sealed import SealedSegments
    from meantime.history.sealer import Sink
    from meantime.model.columns import Int32s, Int64s, Value

__all__ = ["Store"]

_INT64 = np.iinfo(np.int64)

Refuse: TypeAlias = "Callable[[int, int, int, int], None]"


class Store:
    """Accepts changes, and answers what state each attribute is in now.

    Args:
        refuse: Called with the status, time, quark and type of a change that is impossible; raises
            the error that says why.
        segment_changes: How many changes make a segment.
        reorder_ns: How late the changes of an attribute may come.
        forget: Keep only the current state of each attribute.

    Attributes:
        sealer: Where the changes go.
    """

    def __init__(
        self,
        refuse: Refuse,
        segment_changes: int = SEGMENT_CHANGES,
        *,
        reorder_ns: int = 0,
        forget: bool = False,
    ) -> None:
        self._refuse = refuse
        self._reorder = Reorder(reorder_ns) if reorder_ns else None
        self.sealer: Sealer = Sealer(segment_changes, forget=forget)
        # This one runs a million times a second.
        self._tail = self.sealer.tail

    def keep_in(self, sink: Sink) -> None:
        """Store segments, and log what waits for one, in a directory from now on."""
        self.sealer.keep_in(sink)
        self._tail = self.sealer.tail

    def reserve(self, quarks: int) -> None:
        """Grow the per-attribute arrays to `quarks`; new attributes start null."""
        if quarks > self._tail.quarks:
            self._tail.reserve(quarks)
        if self._reorder:
            self._reorder.reserve(quarks)

    @property
    def reorders(self) -> bool:
        """Whether changes may come late."""
        return self._reorder is not None

    def kind(self, quark: int) -> int:
        """Return the type of an attribute's values."""
        return int((self._reorder.latest if self._reorder else self._tail).kind[quark])

    def kinds(self, quarks: int) -> npt.NDArray[np.uint8]:
        """Return the type of each attribute's values, by quark."""
        return self._tail.kind[:quarks].copy()

    def start_ns(self, start_ns: int) -> int:
        """Return `start_ns`, or the time of the first change if that is earlier."""
        return min(start_ns, self._tail.first_ns)

    def last_change_ns(self, quark: int) -> int | None:
        """Return the time of an attribute's last change; None before any."""
        time_ns = int(self._tail.start_ns[quark])
        if self._reorder:
            word, meta, _ = self._tail.now(quark)
            time_ns = self._reorder.start_ns(quark, time_ns, word, meta)
        return None if time_ns == _INT64.min else time_ns

    def ongoing(self, quark: int, names: Sequence[str]) -> Value:
        """Return the current value of an attribute."""
        if self._reorder:
            latest = self._reorder.latest
            word, meta, kind = (int(column[quark]) for column in latest[2:])
        else:
            word, meta, kind = self._tail.now(quark)
        return None if meta & 1 else value_of(word, kind, names)

    def copy(self) -> Store:
        """Return a store of the same changes, which can be finished while this one continues."""
        store = Store(self._refuse)
        store.sealer = self.sealer.copy()
        store._tail = store.sealer.tail
        return store

    def status_of(self, time_ns: int, quark: int, kind: int) -> int:
        """Return the status that a change would have, without putting it."""
        if self._reorder:
            return self._reorder.status_of(time_ns, quark, kind)
        if kind not in (UNTYPED, self.kind(quark)) and self.kind(quark) != UNTYPED:
            return OTHER_TYPE
        return BACKWARDS if time_ns < int(self._tail.start_ns[quark]) else DONE

    def put_one(self, time_ns: int, quark: int, word: int, meta: int, kind: int) -> None:
        """Put one change."""
        if self._reorder:
            status = self._reorder.add_one(time_ns, quark, word, meta, kind)
            if status != DONE:
                self._refuse(status, time_ns, quark, kind)
            self._release()
            return
        status = self._tail.put_one(time_ns, quark, word, meta, kind)
        while status == FULL:
            self.sealer.make_room(whole=False)
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
        """Put changes to strings; `code_of` translates their codes, -1 is null."""
        self.sealer.batch_rows = 0
        code, code_of = (np.ascontiguousarray(codes, np.int32) for codes in (code, code_of))
        if self._reorder:
            # One more at the end, which a code of -1 selects.
            word = np.append(code_of, np.int32(-1))[code].astype(np.int64)
            null = word < 0
            meta = null.astype(np.uint32)
            if tag is not None:
                meta |= (tag + 1).astype(np.uint32) << np.uint32(1)
            kind = np.where(null, np.uint8(UNTYPED), np.uint8(STR))
            self.put_words(time_ns, quark, np.where(null, 0, word), meta, kind)
            return
        for chunk in chunks(len(time_ns)):
            times, quarks, codes = time_ns[chunk], quark[chunk], code[chunk]
            tags = None if tag is None else tag[chunk]
            row, status = 0, FULL
            while status == FULL:
                row, status = self._tail.put_codes(times, quarks, codes, code_of, tags, row)
                if status == FULL:
                    self.sealer.batch_rows = chunk.start + row
                    self.sealer.make_room(whole=not self.sealer.whole_steps)
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
        """Put changes given as words."""
        if self._reorder:
            row, status = self._reorder.add(TypedChanges(time_ns, quark, word, meta, kind))
            if status != DONE:
                self._refuse(status, int(time_ns[row]), int(quark[row]), int(kind[row]))
            self._release()
        else:
            self._put_words(TypedChanges(time_ns, quark, word, meta, kind))

    def amend(self, quark: int, word: int, null: int, kind: int, start_ns: int) -> None:
        """Replace the current value of an attribute; one without changes has it from the start."""
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
            self.sealer.make_room(whole=False)
            status = self._tail.amend(quark, word, meta, kind)
        if status != DONE:
            self._refuse(status, int(self._tail.start_ns[quark]), quark, kind)

    def _release(self, *, everything: bool = False) -> None:
        if self._reorder:
            changes = self._reorder.release(everything=everything)
            if changes is not None:
                self._put_words(changes)

    @contextmanager
    def not_counting(self) -> Iterator[None]:
        """Put changes of which those that another one of their time replaces are not counted."""
        self._tail.counting = False
        try:
            yield
        finally:
            self._tail.counting = True

    def put_verbatim(self, changes: TypedChanges) -> None:
        """Put changes as they are, including those that change nothing."""
        self._tail.verbatim = True
        self._put_words(changes)
        self._tail.verbatim = False

    def _put_words(self, changes: TypedChanges) -> None:
        row, status = self.sealer.put_words(changes)
        if status != DONE:
            time_ns, quark, _, _, kind = changes
            self._refuse(status, int(time_ns[row]), int(quark[row]), int(kind[row]))

    def resume(self, loaded: LoadedHistory) -> None:
        """Continue from what another store wrote: its segments, and the changes in none."""
        sealer = self.sealer
        sink, sealer.sink = sealer.sink, None
        sealer.restore(loaded)
        for entry in loaded.entries:
            self.put_verbatim(TypedChanges(*entry.changes, loaded.kinds[entry.changes.quark]))
        sealer.sink = sink
        sealer.restore_limits(loaded)

    def finish(self, start_ns: int, end_ns: int | None) -> SealedSegments:
        """Seal what is left and return the segments, to be searched."""
        self._release(everything=True)
        if self.sealer.forgets:
            return self._ongoing_only().finish(start_ns, end_ns)
        segments = self.sealer.finish(start_ns, end_ns)
        self._tail = self.sealer.tail
        return segments

    def known_from_ns(self, quarks: int) -> Int64s | None:
        """Return from when on the state of each attribute is kept; None if all are."""
        return self._tail.start_ns[:quarks].copy() if self.sealer.forgets else None

    def states(self) -> TypedChanges:
        """Return, in order of time, the changes to the current states of attributes."""
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
        """Return a store of nothing but the current states of attributes."""
        store = Store(self._refuse)
        store.reserve(self._tail.quarks)
        store.put_verbatim(self.states())
        store._tail.first_ns, store._tail.latest_ns = self._tail.first_ns, self._tail.latest_ns
        return store
