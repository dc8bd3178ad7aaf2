"""Sorting changes that come late by no more than a known time into place."""

from __future__ import annotations

import numpy as np

from meantime.history.changes import TypedChanges

__all__ = ["Reorder"]

_HELD_ROWS = 2**16


class Reorder:
    """Holds changes until none that belongs before them can come."""

    def __init__(self, late_by_ns: int) -> None:
        self._late_by_ns = late_by_ns
        self._held: list[TypedChanges] = []
        self._single: list[tuple[int, int, int, int, int]] = []
        self._rows = 0
        self._latest_ns = np.iinfo(np.int64).min

    def add(self, changes: TypedChanges) -> None:
        """Take changes in any order."""
        self._collect()
        self._held.append(changes)
        self._rows += len(changes.time_ns)
        self._latest_ns = max(self._latest_ns, int(changes.time_ns.max()))

    def add_one(self, time_ns: int, quark: int, word: int, meta: int, kind: int) -> None:
        """Take one change."""
        self._single.append((time_ns, quark, word, meta, kind))
        self._rows += 1
        self._latest_ns = max(self._latest_ns, time_ns)

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
        if not self._rows or (self._rows < _HELD_ROWS and not everything):
            return None
        self._collect()
        held = TypedChanges(*(np.concatenate(columns) for columns in zip(*self._held, strict=True)))
        held = held.rows(np.argsort(held.time_ns, kind="stable"))
        safe = held.time_ns <= self._latest_ns - self._late_by_ns
        if everything:
            safe[:] = True
        kept = held.rows(~safe)
        self._held = [kept]
        self._rows = len(kept.time_ns)
        return held.rows(safe)
