"""Async events: spans of an operation rather than of a thread, on a track per id.

An end closes the latest begin of its name on its track. Ids are local to the process unless they
are `global`. Steps and async instants are points on the track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels import gather, nest
from meantime.model.attribute_paths import ASYNC, ASYNC_PATTERN, PROCESSES
from meantime.model.columns import Interner, distinct
from meantime.model.trace import LaneDeclaration, Points, Spans
from meantime.readers.chrome.spans import add_end_arguments
from meantime.readers.matching import Begins, Ends, close_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch
    from meantime.readers.chrome.records import Records, Rows

__all__ = ["read_async"]

_MOST_KNOWN = 2**12


def read_async(records: Records) -> Iterator[Batch]:
    """Yield the async spans and the points on their tracks."""
    records = records.of("bneSTpF")
    if not len(records.time_ns):
        return
    records.trace.lanes.append(
        LaneDeclaration(ASYNC_PATTERN, kind="async", label="Async", entity_kind="Id")
    )
    # threads of one process share its tracks
    process = gather.looked_up(records.entities.pid, records.thread)
    number, first = gather.numbered_rows(
        process, records.category, records.id, records.scope, records.name
    )
    track_of = _tracks(records, process[first], first)
    track = gather.looked_up(track_of, number)
    points = np.flatnonzero(~records.is_phase("bSeF"))
    if len(points) < len(track):
        # records are in order of time, so what is written last is the latest
        last_ns = np.empty(len(records.trace.paths), np.int64)
        last_ns[track] = records.time_ns
        # the same track may have been named in several ways
        key_of, named = gather.numbered_rows(track_of, records.name[first])
        key = gather.looked_up(key_of, number)
        yield from _spans(records, track, key, last_ns[track_of[named]])
    if len(points):
        yield Points(
            time_ns=records.time_ns[points],
            entity=track[points],
            name=_point_names(records, points),
            target=np.full(len(points), -1, np.int32),
            arguments=records.arguments_at(points),
        )


def _tracks(records: Records, process: Int32s, rows: Rows) -> Int32s:
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
    braced = distinct(id_[texts.beginning_with("{")[id_]])
    found = [texts[code] for code in braced.tolist()]
    is_global, inner = np.zeros(len(texts), np.bool_), np.arange(len(texts), dtype=np.int32)
    is_global[braced] = ['"global"' in text for text in found]
    inner[braced] = np.arange(len(texts), len(texts) + len(found))
    texts.extend(text.rstrip("} ").rpartition(":")[2].strip(' "') for text in found)
    process = np.where(is_global[id_], np.int32(everything), process)
    return records.trace.paths.codes_in_columns(
        texts, (PROCESSES, process, ASYNC, group, inner[id_])
    )


def _spans(records: Records, track: Int32s, key: Int32s, last_ns: Int64s) -> Iterator[Batch]:
    """Yield the spans: begins and ends match within their key, one for each track and name.

    Args:
        records: All records of tracks.
        track: The track of each.
        key: The key of each, which replaces the thread, per which the matcher closes the latest
            begin.
        last_ns: The latest time of each key's track.
    """
    begins = records.is_phase("bS")
    begun, ending = np.flatnonzero(begins), np.flatnonzero(records.is_phase("eF"))
    start_ns = records.time_ns[begun]
    end_ns = start_ns.copy()
    flags = np.full(len(begun), nest.OPEN, np.uint8)
    closed = close_spans(
        Begins(start_ns, end_ns, key[begun], records.name[begun], flags),
        np.zeros(len(begun), np.int32),
        Ends(
            records.time_ns[ending],
            key[ending],
            records.name[ending],
            np.cumsum(begins, dtype=np.int32)[ending],
        ),
        last_ns=last_ns,
        # unlike spans of threads, records are sorted by time already
        backwards=np.zeros(len(last_ns), np.bool_),
        anomalies=records.trace.anomalies,
    )
    if len(begun):
        arguments = records.arguments_at(begun)
        add_end_arguments(arguments, records.arguments_at(ending), closed, records.trace.text)
        yield Spans(
            start_ns=start_ns,
            end_ns=end_ns,
            thread=track[begun],
            name=records.name[begun],
            category=records.category[begun],
            level=np.zeros(len(begun), np.int32),
            # operations on one track may overlap, so they are not STRUCTURED
            flags=flags,
            arguments=arguments,
        )


def _point_names(records: Records, rows: Rows) -> Int32s:
    """Return the name of each point: its step if it has one, otherwise its event's name."""
    names = records.name[rows]
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
