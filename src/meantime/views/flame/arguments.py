"""The arguments of a chart's boxes: each distinct text once, within a limit."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import ArgumentText

__all__ = ["ArgumentCollector", "BoxArguments"]

# Texts up to this sum are read, those of the longest spans first; and this much of distinct ones
# is kept for a page.
MOST_READ_BYTES = 1 << 26
MOST_KEPT_BYTES = 1 << 23


@struct
class BoxArguments:
    """Arguments by code.

    Attributes:
        code: int32, per box, index into `texts`; -1 without arguments. None if no box has any.
        texts: The distinct arguments, mostly JSON.
        left_out: How many boxes have arguments that are beyond the limit.
    """

    code: Int32s | None = None
    texts: Sequence[str] = field(default_factory=list)
    left_out: int = 0


class ArgumentCollector:
    """Reads the arguments of spans and instants, and gives equal ones the same code."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._codes: dict[bytes, int] = {}
        self._parts: list[Int32s] = []
        self._kept_bytes = 0
        self._left_out = 0

    def add(self, text: ArgumentText, offset: Int64s, length: Int64s, duration: Int64s) -> None:
        """Add boxes whose arguments are at these offsets; of too many, the longest have them."""
        code = np.full(len(offset), -1, np.int32)
        self._parts.append(code)
        having = np.flatnonzero(length)
        chosen = having
        if int(length[having].sum()) > MOST_READ_BYTES:
            longest = having[np.argsort(-duration[having], kind="stable")]
            chosen = longest[np.cumsum(length[longest]) <= MOST_READ_BYTES]
        self._left_out += len(having) - len(chosen)
        # in the file's order, so that each block of it is read once
        chosen = chosen[np.argsort(offset[chosen], kind="stable")]
        for row, at, size in zip(
            chosen.tolist(), offset[chosen].tolist(), length[chosen].tolist(), strict=True
        ):
            code[row] = self._code(text.read(at, size))

    def skip(self, count: int) -> None:
        """Add so many boxes without arguments."""
        self._parts.append(np.broadcast_to(np.int32(-1), count))

    def _code(self, text: bytes) -> int:
        found = self._codes.get(text)
        if found is None:
            if self._kept_bytes + len(text) > self._most_bytes:
                self._left_out += 1
                return -1
            self._kept_bytes += len(text)
            found = self._codes[text] = len(self._codes)
        return found

    def result(self) -> BoxArguments:
        """Return the arguments of all boxes, in the order in which they were added."""
        if not self._codes:
            return BoxArguments(left_out=self._left_out)
        texts = [text.decode("utf-8", "replace") for text in self._codes]
        return BoxArguments(np.concatenate(self._parts), texts, self._left_out)
