"""Changes as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = ["Changes", "TypedChanges"]


class Changes(NamedTuple):
    """Changes as columns, as in a `Tail`."""

    time_ns: Int64s
    quark: Int32s
    word: Int64s
    meta: npt.NDArray[np.uint32]

    @classmethod
    def room(cls, rows: int) -> Changes:
        """Return columns with uninitialised rows."""
        return cls(
            np.empty(rows, np.int64),
            np.empty(rows, np.int32),
            np.empty(rows, np.int64),
            np.empty(rows, np.uint32),
        )

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """Return all of these, one after the other."""
        return cls(
            np.concatenate([part.time_ns for part in parts]),
            np.concatenate([part.quark for part in parts]),
            np.concatenate([part.word for part in parts]),
            np.concatenate([part.meta for part in parts]),
        )

    def part(self, first: int, last: int) -> Changes:
        """Return rows [first, last) as views."""
        rows = slice(first, last)
        return Changes(self.time_ns[rows], self.quark[rows], self.word[rows], self.meta[rows])

    def copy(self) -> Changes:
        """Return columns that do not change with these."""
        return Changes(self.time_ns.copy(), self.quark.copy(), self.word.copy(), self.meta.copy())

    def taken(self, rows: npt.NDArray[np.int32] | npt.NDArray[np.intp]) -> Changes:
        """Return these rows, in this order."""
        indices = rows.astype(np.intp, copy=False)
        # `take` is several times faster than indexing, and copies rows of a file into memory.
        return Changes(
            np.asarray(self.time_ns).take(indices),
            np.asarray(self.quark).take(indices),
            np.asarray(self.word).take(indices),
            np.asarray(self.meta).take(indices),
        )

    def in_order(self) -> Changes:
        """Return these in order of time, those of one time in the order they were in."""
        return self.taken(np.argsort(self.time_ns, kind="stable"))


class TypedChanges(NamedTuple):
    """Changes as columns, with the kind of each value."""

    time_ns: Int64s
    quark: Int32s
    word: Int64s
    meta: npt.NDArray[np.uint32]
    kind: npt.NDArray[np.uint8]

    def rows(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> TypedChanges:
        """Return some of the rows."""
        return TypedChanges(
            self.time_ns[which],
            self.quark[which],
            self.word[which],
            self.meta[which],
            self.kind[which],
        )

    @classmethod
    def none(cls) -> TypedChanges:
        """Return columns of no changes."""
        return cls(*Changes.room(0), np.empty(0, np.uint8))
