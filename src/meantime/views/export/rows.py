"""Rows of tables in the pieces and texts that the kernels write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.kernels import export_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import ArgumentText

__all__ = ["Parts", "Texts", "converted", "given", "numbered_pairs", "pieces"]

_ROWS_AT_ONCE = 1 << 15
_BYTES_AT_ONCE = 1 << 24
# A kernel checks all texts that it gets.
_FEW_TEXTS = 1 << 12


class Texts:
    """Texts by code, for a kernel as one.

    Attributes:
        joined: All of them.
        offset: By code, where its text begins; the next one's is its end.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        listed = [*texts]
        self.joined: bytes = b"".join(listed)
        self.offset: Int64s = np.cumsum([0, *map(len, listed)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.offset) - 1

    def of(self, code: Int32s) -> tuple[Int32s, bytes, Int64s]:
        """Return the code of each row and the texts for a kernel; only those of rows if many."""
        if len(self) <= 4 * len(code) + _FEW_TEXTS:
            return code, self.joined, self.offset
        used, own = np.unique(code, return_inverse=True)
        offset = self.offset.tolist()
        part = Texts([self.joined[offset[each] : offset[each + 1]] for each in used.tolist()])
        return own.reshape(-1).astype(np.int32), part.joined, part.offset


class Parts(NamedTuple):
    """Parts of a text, one of each row.

    Attributes:
        text: The text.
        offset: By row, where its part begins.
        length: By row, how long it is.
    """

    text: npt.NDArray[np.uint8]
    offset: Int64s
    length: Int64s

    @classmethod
    def of(cls, rows: int, found: dict[int, bytes]) -> Parts:
        """Return the parts of these rows; those of the others are empty."""
        length = np.zeros(rows, np.int64)
        length[list(found)] = [len(text) for text in found.values()]
        listed = np.fromiter(found, np.int64, len(found))
        offset = np.zeros(rows, np.int64)
        offset[listed] = np.cumsum(length[listed]) - length[listed]
        return cls(np.frombuffer(b"".join(found.values()), np.uint8), offset, length)

    @classmethod
    def either(cls, is_second: npt.NDArray[np.bool_], first: Parts, second: Parts) -> Parts:
        """Return the parts of rows, each of which is the next one of one of the two."""
        offset, length = (np.zeros(len(is_second), np.int64) for _ in range(2))
        for chosen, parts, moved in ((~is_second, first, 0), (is_second, second, len(first.text))):
            offset[chosen], length[chosen] = parts.offset + moved, parts.length
        return cls(np.append(first.text, second.text), offset, length)

    def followed_by(self, others: dict[int, bytes]) -> Parts:
        """Return each row's part followed by that of others, which few rows have."""
        if not others:
            return self
        more = [self.of_row(row) + other for row, other in others.items()]
        return self.with_parts(np.fromiter(others, np.intp, len(others)), more)

    def of_row(self, row: int) -> bytes:
        """Return the part of a row."""
        first = int(self.offset[row])
        return self.text[first : first + int(self.length[row])].tobytes()

    def with_parts(self, rows: npt.NDArray[np.intp], parts: list[bytes]) -> Parts:
        """Return the same parts but for these rows, which get others."""
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        offset, length = self.offset.copy(), self.length.copy()
        offset[rows] = len(self.text) + np.cumsum(sizes) - sizes
        length[rows] = sizes
        return Parts(np.append(self.text, np.frombuffer(b"".join(parts), np.uint8)), offset, length)


class _HasArguments(Protocol):
    @property
    def text(self) -> ArgumentText: ...

    @property
    def arguments_offset(self) -> Int64s: ...

    @property
    def arguments_length(self) -> Int32s: ...


def pieces(length: Int32s) -> Iterator[slice]:
    """Yield slices of rows with arguments of these lengths: few rows, and few bytes of these."""
    for first in range(0, len(length), _ROWS_AT_ONCE):
        ends = np.cumsum(length[first : first + _ROWS_AT_ONCE], dtype=np.int64)
        begin = 0
        while begin < len(ends):
            most = _BYTES_AT_ONCE + (int(ends[begin - 1]) if begin else 0)
            end = max(int(np.searchsorted(ends, most, "right")), begin + 1)
            yield slice(first + begin, first + end)
            begin = end


def given(
    table: _HasArguments, rows: npt.NDArray[np.integer], has: npt.NDArray[np.bool_] | None = None
) -> Parts:
    """Return the arguments of some rows of a table as they are there.

    Args:
        table: Spans or points.
        rows: The rows.
        has: Those of the rows whose arguments are wanted; None for all.
    """
    length = table.arguments_length[rows]
    if has is not None:
        length = np.where(has, length, np.int32(0))
    offset, parts = joined_texts(table.text, table.arguments_offset[rows], length)
    text = np.concatenate([np.empty(0, np.uint8), *parts])
    return Parts(text, offset, length.astype(np.int64))


def converted(form: int, arguments: Parts, convert: Callable[[str], bytes]) -> Parts:
    """Return arguments in another form of the kernel.

    Args:
        form: Which; see `kernels.export_rows.arguments`.
        arguments: The arguments.
        convert: Converts those that the kernel does not.
    """
    text, ends, done, _, _ = export_rows.arguments(form, *arguments)
    found = Parts(text, ends[:-1], np.diff(ends))
    others = np.flatnonzero(done == 0)
    if not len(others):
        return found
    return found.with_parts(
        others,
        [convert(arguments.of_row(row).decode("utf-8", "replace")) for row in others.tolist()],
    )


def numbered_pairs(pair: Int64s, pairs: int) -> tuple[Int64s, Int32s]:
    """Return the different ones of some numbers below `pairs`, and which of these each row has."""
    if pairs > 4 * len(pair) + _ROWS_AT_ONCE:
        listed, code = np.unique(pair, return_inverse=True)
        return listed, code.reshape(-1).astype(np.int32)
    is_used = np.zeros(pairs, np.bool_)
    is_used[pair] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[pair]
