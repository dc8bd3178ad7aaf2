"""Async events: spans of an operation rather than of a thread, on a track per id.

An end closes the latest begin of its name on its track. Ids are local to the process unless they
are `global`. Steps and async instants are points on the track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.attribute_paths import ASYNC_PATTERN, async_path
from meantime.columns import Interner
from meantime.readers.chrome.spans import add_end_arguments
from meantime.readers.matching import Begins, Ends, close_spans
from meantime.trace import LaneDeclaration, Points, SpanFlag, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.columns import Int32s
    from meantime.readers.chrome.records import Records, Rows
    from meantime.trace import Batch

__all__ = ["read_async"]


def read_async(records: Records) -> Iterator[Batch]:
    """Yield the async spans and the points on their tracks."""
    rows = records.rows("bneSTpF")
    if not len(rows):
        return
    records.trace.lanes.append(
        LaneDeclaration(ASYNC_PATTERN, kind="async", label="Async", entity_kind="Id")
    )
    track = _tracks(records, rows)
    phase = records.phase[rows]
    begins, ends = np.isin(phase, [*b"bS"]), np.isin(phase, [*b"eF"])
    if begins.any() or ends.any():
        yield from _spans(records, rows, track, begins, ends)
    points = ~(begins | ends)
    if points.any():
        chosen = rows[points]
        yield Points(
            time_ns=records.time_ns[chosen],
            entity=track[points],
            name=_point_names(records, chosen),
            target=np.full(len(chosen), -1, np.int32),
            arguments=records.arguments_at(chosen),
        )


def _tracks(records: Records, rows: Rows) -> Int32s:
    """Return the entity of each row's track."""
    ids = records.entities.ids
    known: dict[tuple[int, int, int, int], int] = {}
    track = np.empty(len(rows), np.int32)
    keys = zip(
        records.thread[rows].tolist(),
        records.category[rows].tolist(),
        records.id[rows].tolist(),
        records.scope[rows].tolist(),
        strict=True,
    )
    for i, key in enumerate(keys):
        if (code := known.get(key)) is None:
            thread, category, id_, scope = key
            text = ids[id_] if id_ >= 0 else ""
            # a braced id is an `id2`: {"local": id} or {"global": id}
            everywhere = text.startswith("{") and '"global"' in text
            if text.startswith("{"):
                text = text.rstrip("} ").rpartition(":")[2].strip(' "')
            # the format makes ids unique within their scope or, without one, their category
            group = ids[scope] if scope >= 0 else ""
            if not group and category >= 0:
                group = records.trace.categories[category]
            process = "global" if everywhere else records.entities.pid[thread]
            code = known[key] = records.entities.code(async_path(process, group, text))
        track[i] = code
    return track


def _spans(
    records: Records,
    rows: Rows,
    track: Int32s,
    begins: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ends: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Iterator[Batch]:
    """Yield the spans: begins and ends match within their track and name."""
    # the matcher closes the latest begin per thread: a dense number per track and name replaces it
    pairs = np.stack([track, records.name[rows]]).astype(np.int64)
    _, inverse = np.unique(pairs[0] << 32 | pairs[1], return_inverse=True)
    key = inverse.astype(np.int32).reshape(-1)
    begun, ending = rows[begins], rows[ends]
    start_ns = records.time_ns[begun]
    end_ns = start_ns.copy()
    flags = np.full(len(begun), SpanFlag.STRUCTURED, np.uint8)
    last_ns = np.full(len(records.trace.paths), np.iinfo(np.int64).min)
    np.maximum.at(last_ns, track, records.time_ns[rows])
    last_of_key = np.empty(int(key.max()) + 1, np.int64)
    last_of_key[key] = last_ns[track]
    _, closed = close_spans(
        Begins(start_ns, end_ns, key[begins], records.name[begun], flags),
        Ends(
            records.time_ns[ending],
            key[ends],
            records.name[ending],
            np.cumsum(begins, dtype=np.int32)[ends],
        ),
        last_ns=last_of_key,
        # unlike spans of threads, records are sorted by time already
        backwards=np.zeros(len(last_of_key), np.bool_),
        anomalies=records.trace.anomalies,
    )
    # operations on one track may overlap, so their nesting follows from the times
    flags &= ~np.uint8(SpanFlag.STRUCTURED)
    if len(begun):
        arguments = records.arguments_at(begun)
        add_end_arguments(arguments, records.arguments_at(ending), closed, records.trace.text)
        yield Spans(
            start_ns=start_ns,
            end_ns=end_ns,
            thread=track[begins],
            name=records.name[begun],
            category=records.category[begun],
            level=np.zeros(len(begun), np.int32),
            flags=flags,
            arguments=arguments,
        )


def _point_names(records: Records, rows: Rows) -> Int32s:
    """Return the name of each point: its step if it has one, otherwise its event's name."""
    names = records.name[rows].copy()
    values = Interner(records.trace.values)
    for i, row in enumerate(rows.tolist()):
        if records.phase[row] in b"Tp":
            arguments = records.arguments_of(row)
            step = arguments.get("step") if isinstance(arguments, dict) else None
            if isinstance(step, str):
                names[i] = values.code(step)
    return names
