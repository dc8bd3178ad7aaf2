"""Spans that a reader collects: one at a time where there are few, or columns of many."""

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

    import numpy.typing as npt

    from meantime.model.attributes import Path, PathTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace

    _Columns = tuple[npt.NDArray[Any], ...]

__all__ = ["SpanColumns", "SpanRows", "lanes"]

_MOST_NS = MAX_NS - 2
_BATCH_ROWS = 1 << 20
# `json.dumps` would make an encoder for each.
_encode = json.JSONEncoder(ensure_ascii=False).encode


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
        text = _encode(fields).encode("utf-8", "replace")
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


class SpanColumns:
    """Many spans and points of a trace, as columns; spans of a path that overlap are in lanes.

    Args:
        trace: What they are added to.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.paths: PathTable = trace.paths
        self._spans: list[_Columns] = []
        self._points: list[_Columns] = []

    def add(
        self,
        times_ns: tuple[Int64s, Int64s],
        paths: Int32s,
        names: Int32s,
        categories: Int32s,
        texts: list[bytes],
    ) -> None:
        """Add spans.

        Those with times that a history cannot hold are counted.

        Args:
            times_ns: Their starts and their ends.
            paths: The codes of their paths.
            names: The codes of their names.
            categories: The codes of their categories.
            texts: Their arguments as JSON.
        """
        start_ns, end_ns = times_ns
        offset, length = self._placed(texts)
        columns = (start_ns, end_ns, paths, names, categories, offset, length)
        self._spans.append(self._kept(columns, _outside(start_ns) | _outside(end_ns)))

    def add_points(self, time_ns: Int64s, paths: Int32s, names: Int32s, texts: list[bytes]) -> None:
        """Add what happened at times, as `add` does."""
        columns = (time_ns, paths, names, *self._placed(texts))
        self._points.append(self._kept(columns, _outside(time_ns)))

    def _kept(self, columns: _Columns, bad: npt.NDArray[np.bool_]) -> _Columns:
        if not bad.any():
            return columns
        self._trace.anomalies.add("time_out_of_range", int(bad.sum()))
        return tuple(column[~bad] for column in columns)

    def _placed(self, texts: list[bytes]) -> tuple[Int64s, Int32s]:
        length = np.fromiter(map(len, texts), np.int32, len(texts))
        first = self._trace.text.add(b"".join(texts))
        return first + np.cumsum(length, dtype=np.int64) - length, length

    def batches(self) -> Iterator[Batch]:
        """Yield all that was added, and set the trace's bounds; call it once."""
        spans = [np.concatenate(columns) for columns in zip(*self._spans, strict=True)]
        points = [np.concatenate(columns) for columns in zip(*self._points, strict=True)]
        self._spans, self._points = [], []
        times = [*spans[:2], *[points[0] + 1 for _ in points[:1]], *points[:1]]
        if self._trace.bounds is None and any(map(len, times)):
            first = min(int(column.min()) for column in times if len(column))
            last = max(int(column.max()) for column in times if len(column))
            self._trace.bounds = first, max(first + 1, last)
        if spans:
            order = np.argsort(spans[0], kind="stable")
            spans = [column[order] for column in spans]
            spans[2] = self._in_lanes(*spans[:3])
        for begin in range(0, len(spans[0]) if spans else 0, _BATCH_ROWS):
            part = [column[begin : begin + _BATCH_ROWS] for column in spans]
            start, end, thread, name, category, offset, length = part
            yield Spans(
                start_ns=start,
                end_ns=end,
                thread=thread,
                name=name,
                category=category,
                level=np.zeros(len(start), np.int32),
                flags=np.zeros(len(start), np.uint8),
                arguments=Arguments(offset, length),
            )
        for begin in range(0, len(points[0]) if points else 0, _BATCH_ROWS):
            part = [column[begin : begin + _BATCH_ROWS] for column in points]
            time_ns, entity, name, offset, length = part
            yield Points(
                time_ns=time_ns,
                entity=entity,
                name=name,
                target=np.full(len(time_ns), -1, np.int32),
                arguments=Arguments(offset, length),
            )

    def _in_lanes(self, start_ns: Int64s, end_ns: Int64s, paths: Int32s) -> Int32s:
        """Return the path of each span's lane; the first lane of a path is the path itself."""
        lane, _ = first_fit(start_ns, end_ns, paths, len(self.paths))
        rows = np.flatnonzero(lane)
        pairs, which = np.unique(
            np.stack((paths[rows], lane[rows]), axis=1), axis=0, return_inverse=True
        )
        codes = []
        for path, number in pairs.tolist():
            *above, own = self.paths[path]
            codes.append(self.paths.code((*above, f"{own} ({number + 1})")))
        paths[rows] = np.array(codes, np.int32)[which.reshape(-1)] if codes else 0
        return paths


def _outside(times_ns: Int64s) -> npt.NDArray[np.bool_]:
    return (times_ns <= -_MOST_NS) | (times_ns >= _MOST_NS)


def lanes(times_ns: list[tuple[int, int]]) -> Int32s:
    """Return the lane of each range, of which those of one lane do not overlap.

    Args:
        times_ns: The ranges, in order of their starts.
    """
    starts, ends = np.array(times_ns, np.int64).reshape(-1, 2).T
    return first_fit(starts.copy(), ends.copy(), np.zeros(len(starts), np.int32), 1)[0]
