"""Labels of tasks, such as the request they served, joined with the tags of their locations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.columns import Int32s
    from meantime.trace import Trace

__all__ = ["Labels"]

_MAX_TAGS = 1 << 18  # labels with a request's id are all different, but memory must be bounded


class Labels:
    """The labels so far; each pair of a code location and a label becomes a tag of the trace.

    Args:
        trace: The trace whose tags are extended.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._number: dict[bytes, int] = {}
        self._fields: list[dict[str, str]] = []
        self._tag: dict[tuple[int, int], int] = {}

    def number(self, data: bytes) -> int:
        """Return the number of a label; -1 if it is empty."""
        if not data:
            return -1
        known = self._number.get(data)
        if known is None:
            known = self._number[data] = len(self._fields)
            parts = data.decode("utf-8", "replace").split("\0")
            self._fields.append(dict(zip(parts[::2], parts[1::2], strict=False)))
        return known

    def tags(self, tag: Int32s, label: Int32s) -> Int32s:
        """Return the tags of state changes, from the tags of their locations and their labels."""
        rows = np.flatnonzero(label >= 0)
        pairs, which = np.unique(np.stack([tag[rows], label[rows]]), axis=1, return_inverse=True)
        joined = [self._joined(*pair) for pair in pairs.T.tolist()]
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
            self._trace.tags.append({**location, **self._fields[label]})
        return known
