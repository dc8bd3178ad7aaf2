"""The arguments of a chart's spans: each distinct text once, within a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Int64s
    from meantime.history.spans import SpanTable

__all__ = ["SpanArguments", "span_arguments"]

# Texts up to this sum are read, those of the longest spans first; and this much of distinct ones
# is kept for a page.
MOST_READ_BYTES = 1 << 26
MOST_KEPT_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class SpanArguments:
    """Arguments by code.

    Attributes:
        code: int32, per box, index into `texts`; -1 without arguments. None if no box has any.
        texts: The distinct arguments, mostly JSON.
        left_out: How many spans have arguments that are beyond the limit.
    """

    code: Int32s | None = None
    texts: Sequence[str] = field(default_factory=list)
    left_out: int = 0


def span_arguments(spans: SpanTable, order: Int64s) -> SpanArguments:
    """Return the arguments of spans, which are reordered."""
    length = spans.arguments_length[order].astype(np.int64)
    having = np.flatnonzero(length)
    if not len(having):
        return SpanArguments()
    chosen = having
    if int(length[having].sum()) > MOST_READ_BYTES:
        duration = (spans.end_ns - spans.start_ns)[order][having]
        longest = having[np.argsort(-duration, kind="stable")]
        fits = np.cumsum(length[longest]) <= MOST_READ_BYTES
        chosen = longest[fits]
    code = np.full(len(order), -1, np.int32)
    codes: dict[bytes, int] = {}
    kept = left_out = 0
    offset = spans.arguments_offset[order]
    read = spans.text.read
    for row, at, size in zip(
        chosen.tolist(), offset[chosen].tolist(), length[chosen].tolist(), strict=True
    ):
        text = read(at, size)
        found = codes.get(text)
        if found is None:
            if kept + size > MOST_KEPT_BYTES:
                left_out += 1
                continue
            kept += size
            found = codes[text] = len(codes)
        code[row] = found
    texts = [text.decode("utf-8", "replace") for text in codes]
    return SpanArguments(code, texts, left_out + len(having) - len(chosen))
