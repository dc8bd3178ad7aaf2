"""Labels of tasks, such as the request they served, joined with the tags of their locations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.model.columns import Int32s
    from meantime.model.trace import Trace

__all__ = ["NO_LABEL", "Labels"]

NO_LABEL = 2**32 - 1
_MAX_TAGS = 1 << 18  # labels with a request's id are all different, but memory must be bounded


class Labels:
    """The labels so far; each pair of a code location and a label becomes a tag of the trace.

    Args:
        trace: The trace whose tags are extended.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._number: dict[bytes, int] = {}
        self._texts: list[bytes] = []
        self._tag: dict[tuple[int, int], int] = {}

    def number(self, data: bytes) -> int:
        """Return the number of a label; `NO_LABEL` if it is empty."""
        if not data:
            return NO_LABEL
        known = self._number.get(data)
        if known is None:
            known = self._number[data] = len(self._texts)
            self._texts.append(data)
        return known

    def tags(self, tag: Int32s, label: Int32s) -> Int32s:
        """Return the tags of state changes, from the tags of their locations and their labels."""
        rows = np.flatnonzero(label >= 0)
        pairs, which = np.unique(
            tag[rows].astype(np.int64) << 32 | label[rows], return_inverse=True
        )
        numbers = zip((pairs >> 32).tolist(), (pairs & NO_LABEL).tolist(), strict=True)
        joined = [self._joined(*pair) for pair in numbers]
        result = tag.copy()
        result[rows] = np.array(joined, np.int32)[which.reshape(-1)]
        missing = np.count_nonzero(result[rows] == tag[rows])
        self._trace.anomalies.add("labels_left_out", int(missing))
        return result

    def _joined(self, tag: int, label: int) -> int:
        known = self._tag.get((tag, label))
        if known is None:
            if len(self._tag) == _MAX_TAGS:
                return tag
            location = self._trace.tags[tag] if tag >= 0 else {}
            known = self._tag[tag, label] = len(self._trace.tags)
            parts = self._texts[label].decode("utf-8", "replace").split("\0")
            fields = dict(zip(parts[::2], parts[1::2], strict=False))
            self._trace.tags.append({**location, **fields})
        return known
