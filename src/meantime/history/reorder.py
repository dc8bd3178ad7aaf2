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

    from meantime.model.columns import Int32s

__all__ = ["Reorder"]

# Releasing sorts all delayed changes, so it waits until there are this many.
_HELD_ROWS = 2**16
_NEVER = int(np.iinfo(np.int64).min)


class Reorder:
    """Delays changes until none that belongs before them can come.

    Attributes:
        latest: By attribute, the change of the latest time so far; its time is the least integer
            before any change. Its kind is the type of the attribute's values.
    """

    def __init__(self, late_by_ns: int) -> None:
        self._late_by_ns = late_by_ns
        self._held: list[TypedChanges] = []
        self._single: list[tuple[int, int, int, int, int]] = []
        self._rows = 0
        self._enough_rows = _HELD_ROWS
        self._quarks = 0
        self.latest: TypedChanges = TypedChanges.none()

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
        # All at once if no row is wrong, otherwise one by one up to the first that is.
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
        """Add one change; return its status, `DONE` if nothing is wrong with it."""
        status = self._note(time_ns, quark, word, meta, kind)
        if status == DONE:
            self._single.append((time_ns, quark, word, meta, kind))
            self._rows += 1
        return status

    def _note(self, time_ns: int, quark: int, word: int, meta: int, kind: int) -> int:
        """Record a change as the latest if it is; return its status."""
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
        """Return the status of a change: `DONE`, or the fault in it."""
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
        """Do as `_note` for all rows if none is faulty; return whether none is."""
        quarks = changes.quark
        if int(quarks.min()) < 0 or int(quarks.max()) >= self._quarks or not fits(changes.time_ns):
            return False
        time_ns, quark, word, meta, kind = changes.rows(np.argsort(changes.quark, kind="stable"))
        latest = self.latest
        times, rank = np.unique(time_ns, return_inverse=True)
        group = np.cumsum(_first_of_each(quark))
        # A running maximum of times per group, in one pass over all groups: ranks are below
        # len(times), so no group reaches into the next one's range of numbers.
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
        """Return since when an attribute has been in its current state.

        Args:
            quark: The attribute.
            start_ns: Since when it was in its state when its last change was released.
            word: The value of that state.
            meta: Its tag, and whether it is null.
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
        """Replace the state that an attribute is in since `start_ns`; return the status."""
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
            # Each attribute is judged by its own latest change: others may be far ahead of it.
            latest_ns = self.latest.time_ns[held.quark]
            safe = (
                held.time_ns <= np.maximum(latest_ns, _NEVER + self._late_by_ns) - self._late_by_ns
            )
        kept = held.rows(~safe)
        self._held = [kept]
        self._rows = len(kept.time_ns)
        # Twice what is left, so that these rows are not sorted again for each row that comes.
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
