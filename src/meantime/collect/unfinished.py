"""The asyncio tasks that have not ended, of all loops and threads."""

from __future__ import annotations

import asyncio.tasks
from typing import Any

from meantime.collect import _recorder

__all__ = ["unfinished_tasks"]

_TASKS = (asyncio.Task, asyncio.tasks._PyTask)  # type: ignore[attr-defined] # noqa: SLF001 - the one written in Python


def unfinished_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks that have not ended.

    `asyncio.all_tasks` returns those of a single loop only.
    """
    # `_all_tasks` up to 3.11; since 3.12 eager tasks are in a set of their own, and since 3.14
    # these sets have only the tasks that are written in Python
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
        break
    found.update(_recorder.listed_tasks(_task_that_never_runs))
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - get_running_loop raises instead
        # eager tasks in their first step are in no list
        found.update(asyncio.all_tasks())
    # libraries may register objects of other types, without the methods of a task
    return {task for task in found if isinstance(task, _TASKS) and not task.done()}


class _NoLoop:
    """A loop that runs nothing."""

    def get_debug(self) -> bool:
        return False

    def call_soon(self, *_: object, **__: object) -> None:
        return


async def _nothing() -> None:
    return


def _task_that_never_runs() -> object:
    coroutine, loop = _nothing(), _NoLoop()
    # with a name, since a default name has a number that the program may see; and not by calling
    # the type, which is hooked
    task: Any = asyncio.Task.__new__(asyncio.Task)
    asyncio.Task.__init__(task, coroutine, loop=loop, name="")  # type: ignore[arg-type] # it needs no more of a loop
    # it is freed without having run, of which nobody is to be warned
    task._log_destroy_pending = False  # noqa: SLF001 - there is no public way
    coroutine.close()
    return task
