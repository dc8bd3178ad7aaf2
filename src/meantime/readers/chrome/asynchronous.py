"""Async events: spans of an operation rather than of a thread, on a track per id.

An end closes the latest begin of its name on its track. Ids are local to the process unless they
are `global`. Steps and async instants are points on the track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.attribute_paths import ASYNC_PATTERN, async_paths
from meantime.columns import Interner
from meantime.kernels import gather, nest
from meantime.readers.chrome.spans import add_end_arguments
from meantime.readers.matching import Begins, Ends, close_spans
from meantime.trace import LaneDeclaration, Points, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.attributes import Path
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
    entities = records.entities
    # threads of one process share its tracks
    names: list[str] = []
    process = Interner(names).codes(entities.pid)[records.thread[rows]]
    other = (column[rows] for column in (records.category, records.id, records.scope))
    number, first = gather.numbered_rows(process, *other)
    processes = [*map(names.__getitem__, process[first].tolist())]
    paths, are_different = _track_paths(records, processes, rows[first])
    codes = entities.new_codes(paths) if are_different else entities.codes(paths)
    return gather.looked_up(codes, number)


def _track_paths(records: Records, processes: list[str], rows: Rows) -> tuple[list[Path], bool]:
    """Return the path of the track of each row, and whether these are known to be different."""
    category, id_, scope = records.category[rows], records.id[rows], records.scope[rows]
    # -1, for none, is the last one
    ids, categories = [*records.entities.ids, ""], [*records.trace.categories, ""]
    texts = [*map(ids.__getitem__, id_.tolist())]
    # the format makes ids unique within their scope or, without one, their category
    groups = [*map(categories.__getitem__, category.tolist())]
    scoped = np.flatnonzero(scope >= 0).tolist()
    for row in scoped:
        groups[row] = ids[scope[row]] or groups[row]
    # a braced id is an `id2`: {"local": id} or {"global": id}; in most traces there is none
    is_braced = "{" in "".join(texts)
    braced = [row for row, text in enumerate(texts) if text[:1] == "{"] if is_braced else []
    for row in braced:
        if '"global"' in texts[row]:
            processes[row] = "global"
        texts[row] = texts[row].rstrip("} ").rpartition(":")[2].strip(' "')
    # different codes are different texts, but for -1, whose text may have a code too
    are_different = bool(
        not scoped
        and not braced
        and records.entities.are_plain
        and (id_.min() >= 0 or "" not in records.entities.ids)
        and (category.min() >= 0 or "" not in records.trace.categories)
    )
    return async_paths(processes, groups, texts), are_different


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
