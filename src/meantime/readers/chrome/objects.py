"""Object events: an object is alive from its creation N or first snapshot O until its D."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import OBJECT_PATTERN, object_path
from meantime.model.trace import LaneDeclaration, Points, StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch
    from meantime.readers.chrome.records import Records

__all__ = ["read_objects"]


def read_objects(records: Records) -> Iterator[Batch]:
    """Yield the objects' states, and their snapshots as points."""
    rows = records.rows("NOD")
    if not len(rows):
        return
    trace, ids = records.trace, records.entities.ids
    trace.lanes.append(LaneDeclaration(OBJECT_PATTERN, kind="object", label="Objects"))
    alive_state = len(trace.values)
    trace.values.append("alive")
    entity = np.array(
        [
            records.entities.code(
                object_path(
                    records.entities.process_id(records.thread[row]),
                    records.name_of(row),
                    ids[records.id[row]] if records.id[row] >= 0 else "",
                )
            )
            for row in rows.tolist()
        ],
        np.int32,
    )
    phase = records.phase[rows]
    trace.anomalies.add("end_without_begin", _never_alive(entity.tolist(), phase.tolist()))
    yield StateChanges(
        time_ns=records.time_ns[rows],
        entity=entity,
        state=np.where(phase == ord("D"), np.int32(-1), np.int32(alive_state)),
        tag=np.full(len(rows), -1, np.int32),
    )
    snapshots = phase == ord("O")
    if snapshots.any():
        chosen = rows[snapshots]
        yield Points(
            time_ns=records.time_ns[chosen],
            entity=entity[snapshots],
            name=records.name[chosen],
            target=np.full(len(chosen), -1, np.int32),
            arguments=records.arguments_at(chosen),
        )


def _never_alive(entities: list[int], phases: list[int]) -> int:
    """Count the deletions of objects that are not alive; both lists are in order of time."""
    alive: set[int] = set()
    strays = 0
    for entity, phase in zip(entities, phases, strict=True):
        if phase != ord("D"):
            alive.add(entity)
        elif entity in alive:
            alive.remove(entity)
        else:
            strays += 1
    return strays
