"""The asyncio tasks that have not ended, of all loops and threads."""

from __future__ import annotations

import asyncio.tasks
from typing import Any

__all__ = ["unfinished_tasks"]

_TASKS = (asyncio.Task, asyncio.tasks._PyTask)  # type: ignore[attr-defined] # noqa: SLF001 - the one written in Python


def unfinished_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks that have not ended.

    `asyncio.all_tasks` returns those of a single loop only.
    """
    # `_all_tasks` up to 3.11; since 3.12 eager tasks are in a set of their own
    sets = [
        getattr(asyncio.tasks, name, ())
        for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks")
    ]
    while True:
        try:
            found = {task for tasks in sets for task in list(tasks)}
        except RuntimeError:
            # another thread created a task meanwhile, which changed a set
            continue
        # libraries may register objects of other types, without the methods of a task
        return {task for task in found if isinstance(task, _TASKS) and not task.done()}
