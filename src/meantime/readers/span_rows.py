"""Spans that are collected one at a time, for formats with few of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.csv_rows import first_fit
from meantime.model.columns import Interner
from meantime.model.trace import Arguments, Points, SpanFlag, Spans
from meantime.model.units import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s
    from meantime.model.trace import Batch, Trace

__all__ = ["SpanRows", "lanes"]

_MOST_NS = MAX_NS - 2


class SpanRows:
    """Spans and points of a trace.

    Args:
        trace: What they are added to.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._paths = trace.paths
        self._values = Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._spans: list[tuple[int, int, int, int, int, int, int, int]] = []
        self._points: list[tuple[int, int, int, int, int]] = []

    def __len__(self) -> int:
        return len(self._spans)

    def add(
        self,
        path: Path,
        times_ns: tuple[int, int],
        name: str,
        category: str = "",
        fields: Mapping[str, Any] | None = None,
        *,
        unfinished: bool = False,
    ) -> None:
        """Add a span; one that ends before it starts is empty and counted."""
        start_ns, end_ns = times_ns
        if not -_MOST_NS < start_ns < _MOST_NS or not -_MOST_NS < end_ns < _MOST_NS:
            self._trace.anomalies.add("time_out_of_range")
            return
        if end_ns < start_ns:
            self._trace.anomalies.add("negative_duration")
            end_ns = start_ns
        self._trace.anomalies.add("span_without_end", int(unfinished))
        self._spans.append(
            (
                start_ns,
                end_ns,
                self._paths.code(path),
                self._values.code(name),
                self._categories.code(category) if category else -1,
                SpanFlag.UNFINISHED if unfinished else 0,
                *self._text(fields),
            )
        )

    def name_thread(self, path: Path, name: str, rank: int) -> None:
        """Set the name of a thread, and its rank among those of its process."""
        code = self._paths.code(path)
        self._trace.names[code] = name
        self._trace.sort_keys[code] = rank

    def point(
        self, path: Path, time_ns: int, name: str, fields: Mapping[str, Any] | None = None
    ) -> None:
        """Add something that happened at a time."""
        if -_MOST_NS < time_ns < _MOST_NS:
            codes = self._paths.code(path), self._values.code(name)
            self._points.append((time_ns, *codes, *self._text(fields)))

    def _text(self, fields: Mapping[str, Any] | None) -> tuple[int, int]:
        if not fields:
            return 0, 0
        text = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        return self._trace.text.add(text), len(text)

    def batches(self) -> Iterator[Batch]:
        """Yield all that was added, and set the trace's bounds; call it once."""
        if self._spans:
            columns = np.array(self._spans, np.int64).T
            start, end, thread, name, category, flags, offset, length = columns
            if self._trace.bounds is None:
                self._trace.bounds = int(start.min()), max(int(start.max()) + 1, int(end.max()))
            yield Spans(
                start_ns=start.copy(),
                end_ns=end.copy(),
                thread=thread.astype(np.int32),
                name=name.astype(np.int32),
                category=category.astype(np.int32),
                level=np.zeros(len(start), np.int32),
                flags=flags.astype(np.uint8),
                arguments=Arguments(offset.copy(), length.astype(np.int32)),
            )
        if self._points:
            time_ns, entity, name, offset, length = np.array(self._points, np.int64).T
            yield Points(
                time_ns=time_ns.copy(),
                entity=entity.astype(np.int32),
                name=name.astype(np.int32),
                target=np.full(len(time_ns), -1, np.int32),
                arguments=Arguments(offset.copy(), length.astype(np.int32)),
            )


def lanes(times_ns: list[tuple[int, int]]) -> Int32s:
    """Return the lane of each range, of which those of one lane do not overlap.

    Args:
        times_ns: The ranges, in order of their starts.
    """
    starts, ends = np.array(times_ns, np.int64).reshape(-1, 2).T
    return first_fit(starts.copy(), ends.copy(), np.zeros(len(starts), np.int32), 1)[0]
