"""How what a recording tells is drawn: tasks, loops, pool threads, other threads."""

from __future__ import annotations

from meantime.kernels.tasks import STATES
from meantime.trace import LaneDeclaration, State

__all__ = ["lane_of"]

# a colour says what a task needs: green runs, blue waits for time or for others, red is late
_COLORS = {
    "spawned": "#b9c2cf",
    "runnable": "#e8a33d",
    "running": "#2f9e54",
    "cancelling": "#a05195",
    "completed": "#5c6b7a",
    "failed": "#c62828",
    "cancelled": "#8e5572",
    "dropped": "#6d4c41",
    "parked": "#dfe5ec",
    "stopped": "#8a94a0",
    "idle": "#dfe5ec",
    "gil-wait": "#d84a3a",
    "gil-handoff": "#f08a5d",
    "lock-wait": "#c78ad0",
    "polling": "#dfe5ec",
    "lost": "#000000",
    "collector-stall": "#37474f",
    "waiting": "#cfd8e3",
    "waiting:sleep": "#dbe4ee",
    "waiting:lock": "#d9a0c8",
    "waiting:semaphore": "#c9a7dd",
    "waiting:event": "#b8b2e0",
    "waiting:condition": "#a9bde6",
    "waiting:queue": "#9cc7e8",
    "waiting:io-read": "#8fd0df",
    "waiting:io-write": "#8fd9c8",
    "waiting:thread": "#b5dba0",
    "waiting:children": "#d3dea0",
    "waiting:tasks": "#e2d79b",
    "waiting:future": "#e6c9a0",
}


_LANES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "Tasks": (
        "Task",
        "Tasks",
        (
            "spawned",
            "runnable",
            "running",
            "cancelling",
            "completed",
            "failed",
            "cancelled",
            "dropped",
            "lost",
        ),
    ),
    "Loops": ("Loop", "Event loops", ("running", "parked", "stopped", "collector-stall", "lost")),
    "Workers": (
        "Worker",
        "Pool threads",
        ("running", "idle", "stopped", "collector-stall", "lost"),
    ),
    "Threads": (
        "Thread",
        "Threads",
        (
            "running",
            "gil-wait",
            "gil-handoff",
            "lock-wait",
            "polling",
            "stopped",
            "collector-stall",
            "lost",
        ),
    ),
}


def lane_of(group: str) -> LaneDeclaration:
    """Return the lane of `Tasks`, `Loops`, `Workers` or `Threads`."""
    kind, label, names = _LANES[group]
    states = tuple(
        State(name, number, _COLORS[name])
        for number, name in enumerate(STATES)
        if name in names or (group == "Tasks" and name.startswith("waiting"))
    )
    pattern = f"{group}/*/*" if group == "Tasks" else f"{group}/*"
    return LaneDeclaration(pattern, entity_kind=kind, label=label, states=states)
