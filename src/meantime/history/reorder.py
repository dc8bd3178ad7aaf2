"""Sorting changes that come late, by no more than a given time, into order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.changes import TypedChanges
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL, fits
from meantime.kernels.tail import BACKWARDS, DONE, NO_QUARK, NO_TIME, OTHER_TYPE, UNTYPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s

__all__ = ["Reorder"]

_HELD_ROWS = 2**16
_NEVER = int(np.iinfo(np.int64).min)


class Reorder:
    """Delays changes until none that belongs before them can come.

    Attributes:
        latest: Of each attribute the change of the latest time so far; the least integer is before
            any. Its kind is the type of the attribute's values.
    """

    def __init__(self, late_by_ns: int) -> None:
        self._late_by_ns = late_by_ns
        self._held: list[TypedChanges] = []
        self._single: list[tuple[int, int, int, int, int]] = []
        self._rows = 0
        self._enough_rows = _HELD_ROWS
        self._quarks = 0
        self.latest = TypedChanges.none()

    def reserve(self, quarks: int) -> None:
        """Grow the per-attribute arrays to `quarks`."""
        self._quarks = max(quarks, self._quarks)
        room = len(self.latest.quark)
        if quarks <= room:
            return
        more = max(quarks, 2 * room) - room
        new = TypedChanges(
            np.full(more, _NEVER, np.int64),
            np.zeros(more, np.int32),
            np.zeros(more, np.int64),
            np.ones(more, np.uint32),
            np.full(more, UNTYPED, np.uint8),
        )
        self.latest = _joined([self.latest, new])

    def add(self, changes: TypedChanges) -> tuple[int, int]:
        """Add changes in any order; return how many, and the status of the next one."""
        taken, status = len(changes.time_ns), DONE
        if taken and not self._note_all(changes):
            for row, change in enumerate(zip(*(c.tolist() for c in changes), strict=True)):
                status = self._note(*change)
                if status != DONE:
                    taken = row
                    break
        if taken:
            self._collect()
            self._held.append(changes.rows(np.arange(taken)))
            self._rows += taken
        return taken, status

    def add_one(self, time_ns: int, quark: int, word: int, meta: int, kind: int) -> int:
        """Take one change; return what is wrong with it."""
        status = self._note(time_ns, quark, word, meta, kind)
        if status == DONE:
            self._single.append((time_ns, quark, word, meta, kind))
            self._rows += 1
        return status

    def _note(self, time_ns: int, quark: int, word: int, meta: int, kind: int) -> int:
        """Know a change as the latest if it is; return what is wrong with it."""
        status = self.status_of(time_ns, quark, kind)
        if status != DONE:
            return status
        latest = self.latest
        if kind != UNTYPED:
            latest.kind[quark] = kind
        if time_ns >= int(latest.time_ns[quark]):
            latest.time_ns[quark], latest.word[quark], latest.meta[quark] = time_ns, word, meta
        return DONE

    def status_of(self, time_ns: int, quark: int, kind: int) -> int:
        """Return what is wrong with a change."""
        if not 0 <= quark < self._quarks:
            return NO_QUARK
        if not BEFORE_ALL < time_ns < AFTER_ALL:
            return NO_TIME
        latest = self.latest
        known = latest.kind[quark]
        if kind != UNTYPED and known not in (UNTYPED, kind):
            return OTHER_TYPE
        before_ns = int(latest.time_ns[quark])
        if before_ns != _NEVER and time_ns < before_ns - self._late_by_ns:
            return BACKWARDS
        return DONE

    def _note_all(self, changes: TypedChanges) -> bool:
        """Do as `_note` for all rows if nothing is wrong with any; return whether that is so."""
        quarks = changes.quark
        if int(quarks.min()) < 0 or int(quarks.max()) >= self._quarks or not fits(changes.time_ns):
            return False
        time_ns, quark, word, meta, kind = changes.rows(np.argsort(changes.quark, kind="stable"))
        latest = self.latest
        times, rank = np.unique(time_ns, return_inverse=True)
        group = np.cumsum(_first_of_each(quark))
        # The latest time so far in each group: that of the highest rank.
        highest = np.maximum.accumulate(group * len(times) + rank) % len(times)
        reached_ns = np.maximum(times[highest], latest.time_ns[quark])
        if (time_ns < np.maximum(reached_ns, _NEVER + self._late_by_ns) - self._late_by_ns).any():
            return False
        typed = kind != UNTYPED
        typed_quark, typed_kind = quark[typed], kind[typed]
        known = latest.kind[typed_quark]
        if ((known != UNTYPED) & (known != typed_kind)).any():
            return False
        first = _first_of_each(typed_quark)
        if (typed_kind != typed_kind[first][np.cumsum(first) - 1]).any():
            return False
        latest.kind[typed_quark] = typed_kind
        ahead = time_ns == reached_ns
        # Of several rows of one attribute, the last is what stays.
        latest.time_ns[quark[ahead]] = time_ns[ahead]
        latest.word[quark[ahead]] = word[ahead]
        latest.meta[quark[ahead]] = meta[ahead]
        return True

    def start_ns(self, quark: int, start_ns: int, word: int, meta: int) -> int:
        """Return since when an attribute has what it has now.

        Args:
            quark: The attribute.
            start_ns: Since when it had a value when the last change of it was released.
            word: That value.
            meta: Its tag, and whether it is none.
        """
        self._collect()
        mine = [held.rows(held.quark == quark) for held in self._held]
        if not mine:
            return start_ns
        rows = _joined(mine)
        rows = rows.rows(np.argsort(rows.time_ns, kind="stable"))
        for time_ns, new_word, new_meta in zip(
            *(c.tolist() for c in (rows.time_ns, rows.word, rows.meta)), strict=True
        ):
            if (new_word, new_meta) != (word, meta):
                start_ns, word, meta = time_ns, new_word, new_meta
        return start_ns

    def amend(self, quark: int, start_ns: int, word: int, meta: int, kind: int) -> int:
        """Replace what an attribute has now, and has since `start_ns`; return what is wrong."""
        status = self._note(int(self.latest.time_ns[quark]), quark, word, meta, kind)
        if status == DONE:
            self._collect()
            for held in self._held:
                rows = (held.quark == quark) & (held.time_ns >= start_ns)
                held.word[rows], held.meta[rows], held.kind[rows] = word, meta, kind
        return status

    def _collect(self) -> None:
        if self._single:
            time_ns, quark, word, meta, kind = zip(*self._single, strict=True)
            self._held.append(
                TypedChanges(
                    np.array(time_ns, np.int64),
                    np.array(quark, np.int32),
                    np.array(word, np.int64),
                    np.array(meta, np.uint32),
                    np.array(kind, np.uint8),
                )
            )
            self._single = []

    def release(self, *, everything: bool = False) -> TypedChanges | None:
        """Return, in order of time, the changes that are safe; None while there are few."""
        if not self._rows or (self._rows < self._enough_rows and not everything):
            return None
        self._collect()
        held = _joined(self._held)
        held = held.rows(np.argsort(held.time_ns, kind="stable"))
        if everything:
            safe = np.ones(self._rows, np.bool_)
        else:
            # Others may be far ahead of an attribute: how late it is, is seen by its own changes.
            latest_ns = self.latest.time_ns[held.quark]
            safe = (
                held.time_ns <= np.maximum(latest_ns, _NEVER + self._late_by_ns) - self._late_by_ns
            )
        kept = held.rows(~safe)
        self._held = [kept]
        self._rows = len(kept.time_ns)
        # What cannot go yet is not sorted again for each row that comes.
        self._enough_rows = max(_HELD_ROWS, 2 * self._rows)
        return held.rows(safe)


def _joined(parts: Sequence[TypedChanges]) -> TypedChanges:
    """Return the rows of all of these."""
    return TypedChanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _first_of_each(quark: Int32s) -> npt.NDArray[np.bool_]:
    """Return which rows are the first of their attribute, where those of each are adjacent."""
    first = np.ones(len(quark), np.bool_)
    first[1:] = quark[1:] != quark[:-1]
    return first
