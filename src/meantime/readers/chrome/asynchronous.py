"""Async events: spans of an operation rather than of a thread, on a track per id.

An end closes the latest begin of its name on its track. Ids are local to the process unless they
are `global`. Steps and async instants are points on the track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.attribute_paths import ASYNC, ASYNC_PATTERN, PROCESSES
from meantime.columns import Interner, distinct
from meantime.kernels import gather, nest
from meantime.readers.chrome.spans import add_end_arguments
from meantime.readers.matching import Begins, Ends, close_spans
from meantime.trace import LaneDeclaration, Points, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.columns import Int32s
    from meantime.readers.chrome.records import Records, Rows
    from meantime.trace import Batch

__all__ = ["read_async"]

_MOST_KNOWN = 2**12


def read_async(records: Records) -> Iterator[Batch]:
    """Yield the async spans and the points on their tracks."""
    rows = records.rows("bneSTpF")
    if not len(rows):
        return
    records.trace.lanes.append(
        LaneDeclaration(ASYNC_PATTERN, kind="async", label="Async", entity_kind="Id")
    )
    track = _tracks(records, rows)
    begins, ends = records.is_phase("bS")[rows], records.is_phase("eF")[rows]
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
    # threads of one process share its tracks
    process = records.entities.pid[records.thread[rows]]
    other = (column[rows] for column in (records.category, records.id, records.scope))
    number, first = gather.numbered_rows(process, *other)
    return gather.looked_up(_entities(records, process[first], rows[first]), number)


def _entities(records: Records, process: Int32s, rows: Rows) -> Int32s:
    """Return the entity of the track of each row, whose process is a code of `ids`."""
    texts = records.entities.ids.copy()
    none, everything = len(texts), len(texts) + 1
    texts.extend(["", "global", *records.trace.categories])
    id_, scope = records.id[rows], records.scope[rows]
    id_ = np.where(id_ < 0, none, id_)
    # the format makes ids unique within their scope or, without one, their category
    group = records.category[rows] + np.int32(everything + 1)
    group[group == everything] = none
    scoped = (scope >= 0) & (texts.lengths()[scope] > 0)
    group[scoped] = scope[scoped]
    # a braced id is an `id2`: {"local": id} or {"global": id}; in most traces there is none
    is_braced = texts.beginning_with("{")
    is_global, inner = np.zeros(len(texts), np.bool_), np.arange(len(texts), dtype=np.int32)
    for code in distinct(id_[is_braced[id_]]).tolist():
        text = texts[code]
        is_global[code], inner[code] = '"global"' in text, len(texts)
        texts.extend([text.rstrip("} ").rpartition(":")[2].strip(' "')])
    process = np.where(is_global[id_], np.int32(everything), process)
    return records.trace.paths.codes_in_columns(
        texts, (PROCESSES, process, ASYNC, group, inner[id_])
    )


def _spans(
    records: Records,
    rows: Rows,
    track: Int32s,
    begins: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ends: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Iterator[Batch]:
    """Yield the spans: begins and ends match within their track and name."""
    # the matcher closes the latest begin per thread: a dense number per track and name replaces it
    key, _ = gather.numbered_rows(track, records.name[rows])
    begun, ending = rows[begins], rows[ends]
    start_ns = records.time_ns[begun]
    end_ns = start_ns.copy()
    flags = np.full(len(begun), nest.OPEN, np.uint8)
    last_ns = np.full(len(records.trace.paths), np.iinfo(np.int64).min)
    np.maximum.at(last_ns, track, records.time_ns[rows])
    last_of_key = np.empty(int(key.max()) + 1, np.int64)
    last_of_key[key] = last_ns[track]
    closed = close_spans(
        Begins(start_ns, end_ns, key[begins], records.name[begun], flags),
        np.zeros(len(begun), np.int32),
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
            # operations on one track may overlap, so they are not STRUCTURED
            flags=flags,
            arguments=arguments,
        )


def _point_names(records: Records, rows: Rows) -> Int32s:
    """Return the name of each point: its step if it has one, otherwise its event's name."""
    names = records.name[rows].copy()
    steps = np.flatnonzero(records.is_phase("Tp")[rows])
    if not len(steps):
        return names
    values = Interner(records.trace.values)
    # most steps have few different arguments
    known: dict[bytes, int | None] = {}
    for i in steps.tolist():
        row = rows[i]
        text = records.arguments_text(row)
        if text not in known:
            arguments = records.arguments_of(row)
            step = arguments.get("step") if isinstance(arguments, dict) else None
            if len(known) == _MOST_KNOWN:
                known.clear()
            known[text] = values.code(step) if isinstance(step, str) else None
        if (code := known[text]) is not None:
            names[i] = code
    return names
