"""Matches begins with ends per thread: an end closes the latest open begin.

Events are matched in the order of the file. Where a thread's times go backwards, they are matched
in order of time too, and the result with fewer oddities is used, the file's order if both have as
many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.kernels import nest
from meantime.model.trace import SpanFlag
from meantime.structs import struct

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.anomalies import Anomalies
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Begins", "Ends", "close_ended", "close_spans"]

_ODDITIES = ("end_without_begin", "unfinished_span", "negative_duration", "end_of_another_name")


@struct
class Begins:
    """Spans in the order of the file, some of which are still open.

    Attributes:
        start_ns: The start of each.
        end_ns: The end of each; written for those that are open.
        thread: The thread of each.
        name: The name of each.
        flags: `SpanFlag`, and `nest.OPEN` for those without an end; UNFINISHED is added.
    """

    start_ns: Int64s
    end_ns: Int64s
    thread: Int32s
    name: Int32s
    flags: npt.NDArray[np.uint8]


@struct
class Ends:
    """The ends of open spans, in the order of the file.

    Attributes:
        time_ns: The time of each.
        thread: The thread of each.
        name: The name of each; -1 matches any.
        position: The number of spans, open or complete, before each.
    """

    time_ns: Int64s
    thread: Int32s
    name: Int32s
    position: Int32s


def close_ended(
    spans: Begins, level: Int32s, ends: Ends, *, threads: int, anomalies: Anomalies
) -> Int32s:
    """Write ends and levels of the spans that have ended, and return the span each end closed.

    The others stay open. The spans of each thread are those that are still open after earlier
    calls, and all since then.

    Args:
        spans: Open and complete spans.
        level: The level of each.
        ends: The ends of open ones.
        threads: The number of threads.
        anomalies: Counts what does not match.
    """
    closed = np.full(len(ends.time_ns), -1, np.int32)
    counts = _match(spans, level, ends, closed, np.zeros(threads, np.int64), finish=False)
    for oddity, count in zip(_ODDITIES, counts, strict=True):
        anomalies.add(oddity, int(count.sum()))
    return closed


def close_spans(
    spans: Begins,
    level: Int32s,
    ends: Ends,
    *,
    last_ns: Int64s,
    backwards: npt.NDArray[np.bool_],
    anomalies: Anomalies,
) -> Int32s:
    """Write ends and levels of the open spans, and return the span each end closed.

    Those of threads that could not be matched by time are STRUCTURED no longer.

    Args:
        spans: Open and complete spans.
        level: The level of each.
        ends: The ends of the open ones.
        last_ns: The latest time of each thread, at which unfinished spans end.
        backwards: Whether a thread's begins and ends go backwards in time.
        anomalies: Counts what does not match.
    """
    closed = np.full(len(ends.time_ns), -1, np.int32)
    begun = (spans.flags & nest.OPEN) != 0 if backwards.any() else None
    counts = _match(spans, level, ends, closed, last_ns, finish=True)
    # A tracer may write its buffers in any order; then only the times are right.
    if begun is not None:
        rows = np.flatnonzero(backwards[spans.thread] & begun)
        backwards = _match_by_time(spans, rows, ends, level, closed, counts, last_ns, backwards)
    for oddity, count in zip(_ODDITIES, counts, strict=True):
        anomalies.add(oddity, int(count.sum()))
    anomalies.add("matched_by_time", int(np.count_nonzero(backwards)))
    return closed


_Counts: TypeAlias = "tuple[Int64s, Int64s, Int64s, Int64s]"


def _match(
    spans: Begins, level: Int32s, ends: Ends, closed: Int32s, last_ns: Int64s, *, finish: bool
) -> _Counts:
    counts: _Counts = nest.match(
        spans.start_ns,
        spans.end_ns,
        spans.thread,
        spans.name,
        level,
        spans.flags,
        ends.time_ns,
        ends.thread,
        ends.name,
        ends.position,
        closed,
        last_ns,
        finish=finish,
    )
    return counts


def _match_by_time(  # noqa: PLR0917 - the arguments and first results of `close_spans`
    spans: Begins,
    begun: npt.NDArray[np.intp],
    ends: Ends,
    level: Int32s,
    closed: Int32s,
    counts: _Counts,
    last_ns: Int64s,
    backwards: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Match these threads in order of time too; return the threads for which that is better."""
    start_ns, end_ns, thread, flags = spans.start_ns, spans.end_ns, spans.thread, spans.flags
    ending = np.flatnonzero(backwards[ends.thread])
    # both sequences merged in the order of the file: begins have even ranks
    time_ns = np.concatenate([start_ns[begun], ends.time_ns[ending]])
    rank = np.concatenate([begun * 2, ends.position[ending].astype(np.int64) * 2 - 1])
    which = np.concatenate([np.zeros(len(begun), np.int8), np.ones(len(ending), np.int8)])
    rows = np.concatenate([begun, ending])
    in_time = np.lexsort((np.arange(len(rank)), rank, time_ns))
    which, rows = which[in_time], rows[in_time]
    begun, ending = rows[which == 0], rows[which == 1]
    again = Begins(
        start_ns[begun],
        end_ns[begun],
        thread[begun],
        spans.name[begun],
        (flags[begun] & ~np.uint8(SpanFlag.UNFINISHED)) | np.uint8(nest.OPEN),
    )
    new_level = np.zeros(len(begun), np.int32)
    new_closed = np.full(len(ending), -1, np.int32)
    position = np.cumsum(which == 0, dtype=np.int32)[which == 1]
    new_ends = Ends(ends.time_ns[ending], ends.thread[ending], ends.name[ending], position)
    new_counts = _match(again, new_level, new_ends, new_closed, last_ns, finish=True)
    better: npt.NDArray[np.bool_] = backwards & (sum(new_counts) < sum(counts))
    for old, new in zip(counts, new_counts, strict=True):
        old[better] = new[better]
    chosen = better[thread[begun]]
    end_ns[begun[chosen]] = again.end_ns[chosen]
    level[begun[chosen]] = new_level[chosen]
    flags[begun[chosen]] = again.flags[chosen]
    flags[begun[~chosen]] &= ~np.uint8(SpanFlag.STRUCTURED)
    level[begun[~chosen]] = 0
    chosen = better[ends.thread[ending]]
    rows = np.where(new_closed < 0, -1, begun[new_closed]) if len(begun) else new_closed
    closed[ending[chosen]] = rows[chosen]
    return better
