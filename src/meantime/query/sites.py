"""Where tasks were created: in the path of a recording's own, in the first tag of tokio's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.query.lifetimes import lifetimes

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.columns import Int32s

__all__ = ["SPAWNED", "TASK", "sites_of", "tasks_by_tag"]

TASK, SPAWNED = "Task", "spawned"


def sites_of(history: History, quarks: Int32s) -> list[str]:
    """Return where tasks were created, or the routes of requests; empty if that is not known."""
    paths = [history.attributes.path(quark) for quark in quarks.tolist()]
    found = [path[-2] if len(path) > 1 else "" for path in paths]
    alone = np.flatnonzero(np.array([len(path) == 1 for path in paths], np.bool_))
    if len(alone):
        begins_ns = lifetimes(history, quarks[alone]).start_ns
        tags = history.states(quarks[alone], begins_ns).tag.tolist()
        for row, tag in zip(alone.tolist(), tags, strict=True):
            found[row] = str(history.tags[tag].get("location", "")) if tag >= 0 else ""
    return found


def tasks_by_tag(history: History) -> Int32s:
    """Return the tasks of a statemap of tokio, whose first states say where they were created."""
    parts = [
        quarks
        for declaration, quarks in history.lanes
        if declaration.entity_kind == TASK
        and any(state.name == SPAWNED for state in declaration.states)
    ]
    found = np.concatenate([np.empty(0, np.int32), *parts]).astype(np.int32)
    alone = [len(history.attributes.path(quark)) == 1 for quark in found.tolist()]
    return found[np.array(alone, np.bool_)]
