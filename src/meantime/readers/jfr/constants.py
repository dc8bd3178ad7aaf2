"""Constants of a chunk of a Java flight recording: threads, stacks, and what else has a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.jfr import Op
from meantime.model.columns import distinct
from meantime.readers.jfr.chunks import INTEGERS, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.kernels.jfr import StackRows
    from meantime.model.columns import Int32s, Int64s, Interner
    from meantime.readers.jfr.chunks import Chunk

__all__ = ["LONGEST_TEXT", "Constants"]

LONGEST_TEXT, _LONGEST_NAME = 200, 2000
_MOST_FRAMES = 20
_UNKNOWN = Type(-1, "")
_NOT_KNOWN = -2


class Constants:
    """The constants of a chunk, resolved once each."""

    def __init__(
        self, chunk: Chunk, stacks: StackRows, frames: Interner[str], frame_names: list[str]
    ) -> None:
        self.chunk = chunk
        self._builder = stacks
        self._frames = frames
        self._frame_names = frame_names
        # by type, of each constant: the row of the stack, or that it is not known yet
        self._rows: dict[int, Int32s] = {}
        # by type, of each constant: the code of the frame, or that it is not known yet
        self._methods: dict[int, Int32s] = {}

    def type(self, number: int) -> Type:
        """Return a type; one without fields if it is not described."""
        return self.chunk.types.get(number, _UNKNOWN)

    def threads(self, number: int, keys: Int64s) -> list[tuple[str, str]]:
        """Return the id of each thread, empty if it has none, and its name."""
        pool = self.chunk.pool(number)
        rows = pool.rows(keys)
        found = np.flatnonzero((rows >= 0) & (keys != 0))
        threads = [("", "")] * len(keys)
        if not len(found):
            return threads
        os_ids, java_ids = (
            self._numbers(number, each, rows[found]) for each in ("osThreadId", "javaThreadId")
        )
        java, own = (self._strings(number, each, rows[found]) for each in ("javaName", "osName"))
        for at, *ids, java_name, own_name in zip(
            found.tolist(), os_ids, java_ids, java, own, strict=True
        ):
            os_id, java_id = ids
            tid = ""
            if 0 < os_id < 2**62:
                tid = str(os_id)
            elif 0 < java_id < 2**62:
                # a virtual thread, or one that ended before it was described
                tid = f"java {java_id}"
            threads[at] = tid, (java_name or own_name or "")[:LONGEST_TEXT]
        return threads

    def _numbers(self, number: int, name: str, rows: Int64s) -> list[int]:
        """Return the integers in a field of constants; 0 if it has none."""
        pool, at = self.chunk.pool(number), self.type(number).index.get(name)
        if at is None or pool.kinds[at] not in INTEGERS:
            return [0] * len(rows)
        found: list[int] = pool.values[at][rows].tolist()
        return found

    def _strings(self, number: int, name: str, rows: Int64s) -> list[str | None]:
        """Return the strings in a field of constants."""
        pool, at = self.chunk.pool(number), self.type(number).index.get(name)
        if at is None or pool.kinds[at] != Op.TEXT:
            return [None] * len(rows)
        codes, texts = self.chunk.texts(pool.values[at][rows])
        return [texts[code] for code in codes.tolist()]

    def stack_rows(self, number: int, keys: Int64s) -> Int32s:
        """Return the row of each stack; -1 of those that are empty or missing."""
        pool = self.chunk.pool(number)
        rows = pool.rows(keys)
        known = self._rows.get(number)
        if known is None:
            known = self._rows[number] = np.full(len(pool.keys) + 1, _NOT_KNOWN, np.int32)
            # of a key that is missing, or 0
            known[-1] = -1
        rows[keys == 0] = -1
        new = rows[(rows >= 0) & (known[rows] == _NOT_KNOWN)]
        if len(new):
            counts, frames = self._frames_of(number, new)
            known[new] = self._builder.add(counts, frames)
        return known[rows]

    def stack_texts(self, number: int, keys: Int64s) -> list[str | None]:
        """Return the top of each stack; None of those that are empty or missing."""
        rows = self.chunk.pool(number).rows(keys)
        rows[keys == 0] = -1
        counts, frames = self._frames_of(number, rows[rows >= 0])
        names, at = self._frame_names, 0
        sizes = iter(counts.tolist())
        texts: list[str | None] = []
        for row in rows.tolist():
            count = next(sizes) if row >= 0 else 0
            top = frames[at : at + min(count, _MOST_FRAMES)].tolist()
            at += count
            # a text of the whole is cut when it is written
            texts.append("; ".join(names[code][:LONGEST_TEXT] for code in top) if top else None)
        return texts

    def _frames_of(self, number: int, rows: Int64s) -> tuple[Int64s, Int32s]:
        """Return how many frames stacks have, and their codes, the top one first."""
        type_, pool = self.type(number), self.chunk.pool(number)
        none = np.zeros(len(rows), np.int64), np.empty(0, np.int32)
        at = type_.index.get("frames")
        if not len(rows) or at is None or pool.kinds[at] != Op.ARRAY:
            return none
        counts, keys = self.chunk.elements(type_.fields[at], pool.values[at][rows], "method")
        frame = self.type(type_.fields[at].type)
        if keys is None:
            codes = np.full(int(counts.sum()), self._frames.code("[unknown]"), np.int32)
        else:
            codes = self._method_codes(frame.fields[frame.index["method"]].type, keys)
        cut_at = type_.index.get("truncated")
        if cut_at is not None and pool.kinds[cut_at] in INTEGERS:
            is_cut = (pool.values[cut_at][rows] != 0) & (counts > 0)
            if is_cut.any():
                ends = np.cumsum(counts)[is_cut]
                codes = np.insert(codes, ends, self._frames.code("[truncated]")).astype(np.int32)
                counts += is_cut
        return counts, codes

    def _method_codes(self, number: int, keys: Int64s) -> Int32s:
        """Return the code of the frame of each method."""
        pool = self.chunk.pool(number)
        known = self._methods.get(number)
        if known is None:
            known = self._methods[number] = np.full(len(pool.keys) + 1, _NOT_KNOWN, np.int32)
        rows = pool.rows(keys)
        new = distinct(rows[known[rows] == _NOT_KNOWN])
        if len(new):
            index = self.type(number).index
            parts = []
            for each in ("type", "name"):
                at = index.get(each)
                if at is not None and len(pool.keys) and pool.kinds[at] in INTEGERS:
                    below, which = np.unique(pool.values[at][new], return_inverse=True)
                    names = self.names(self.type(number).fields[at].type, below)
                    parts.append([names[code] for code in which.tolist()])
            found = ["[unknown]"] * len(new)
            if parts:
                of_class = parts[0] if len(parts) > 1 else [""] * len(new)
                found = [
                    f"{of}.{own}" if of and own else of or own or "[unknown]"
                    for of, own in zip(of_class, parts[-1], strict=True)
                ]
            if new[0] < 0:
                found[0] = "[unknown]"
            known[new] = self._frames.codes(found)
        return known[rows]

    def names(self, number: int, keys: Int64s, depth: int = 0) -> list[str]:
        """Return what constants are called: classes, symbols, states; empty without a name."""
        names = [""] * len(keys)
        pool = self.chunk.pool(number)
        if depth > 4 or not len(pool.keys):
            return names
        type_ = self.type(number)
        rows = pool.rows(keys)
        left = np.flatnonzero(rows >= 0)
        if not type_.fields:
            if pool.kinds == (Op.TEXT,):
                self._put(names, left, *self.chunk.texts(pool.values[0][rows[left]]))
            return names
        for each in ("string", "name", "javaName", "osName", "type", "cause", "when", "origin"):
            at = type_.index.get(each)
            if at is None or not len(left):
                continue
            values, of = pool.values[at][rows[left]], type_.fields[at]
            found: Sequence[str | None]
            which: npt.NDArray[Any]
            if of.is_pooled and pool.kinds[at] in INTEGERS:
                different, which = np.unique(values, return_inverse=True)
                found = self.names(of.type, different, depth + 1)
            elif pool.kinds[at] == Op.TEXT:
                which, found = self.chunk.texts(values)
            elif pool.kinds[at] in INTEGERS:
                different, which = np.unique(values, return_inverse=True)
                found = [self.chunk.text(value) for value in different.tolist()]
            else:
                continue
            if type_.name == "java.lang.Class":
                found = [text and text.replace("/", ".") for text in found]
            self._put(names, left, which, found)
            left = np.array([row for row in left.tolist() if not names[row]], np.int64)
        return names

    @staticmethod
    def _put(
        names: list[str], rows: Int64s, which: npt.NDArray[Any], found: Sequence[str | None]
    ) -> None:
        # many constants may have the same long text in their names
        cut = [(text or "")[:_LONGEST_NAME] for text in found]
        for row, code in zip(rows.tolist(), which.tolist(), strict=True):
            names[row] = cut[code]
