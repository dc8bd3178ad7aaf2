"""What a process that is not recorded is doing at this moment, as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from meantime.cli.tables import Column, more, sentence_lines, table_lines, visible
from meantime.model.stacks import is_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.inspection import InspectedProcess, InspectedTask, InspectedThread
    from meantime.inspection.objects import CodeLine

__all__ = ["document", "lines"]

_MOST_THREADS, _MOST_FRAMES = 20, 30


def document(process: InspectedProcess) -> dict[str, Any]:
    """Return a process as JSON has it."""
    found = asdict(process)
    for each in [*found["threads"], *found["tasks"]]:
        each["frames"] = [frame._asdict() for frame in each["frames"]]
    return found


def lines(
    process: InspectedProcess, *, rows: int | None, width: int | None, styled: bool
) -> Iterator[str]:
    """Yield the lines: the process, its threads with stacks, and its tasks by what they do."""
    command = " ".join(process.command)
    counts = f"{_several(len(process.threads), 'thread')}, {_several(len(process.tasks), 'task')}"
    about = f"process {process.pid}: {visible(command)}; Python {process.python}; {counts}"
    yield from sentence_lines(about, width)
    if process.unreadable:
        yield f"{_several(process.unreadable, 'task')} changed while being read and are left out"
    names = {thread.tid: f"{thread.name} {thread.tid}" for thread in process.threads}
    loops = Counter(task.tid for task in process.tasks)
    running = {task.tid: task for task in process.tasks if task.state == "running"}
    for thread in process.threads[:_MOST_THREADS]:
        yield ""
        described = _described(thread, loops[thread.tid], running.get(thread.tid))
        yield from sentence_lines(described, width)
        yield from (f"    {visible(frame.text)}" for frame in thread.frames[:_MOST_FRAMES])
        if len(thread.frames) > _MOST_FRAMES:
            yield f"    and {len(thread.frames) - _MOST_FRAMES} more"
    if len(process.threads) > _MOST_THREADS:
        yield ""
        yield f"and {len(process.threads) - _MOST_THREADS:,} more threads; --json has all"
    if process.tasks:
        yield ""
        yield from _tasks(process.tasks, names, rows=rows, width=width, styled=styled)


def _described(thread: InspectedThread, tasks: int, running: InspectedTask | None) -> str:
    phrases = [thread.state]
    if thread.has_gil:
        phrases.append("has the GIL")
    if tasks:
        phrases.append(f"runs the loop of {_several(tasks, 'task')}")
    if running is not None:
        function = running.frames[0].function if running.frames else ""
        phrases.append(f"in a step of {function} ({running.name})")
    if thread.is_changing:
        phrases.append("its stack changes too fast to be of one moment")
    return f"thread {visible(thread.name)} {thread.tid}: {', '.join(phrases)}"


def _tasks(
    tasks: Sequence[InspectedTask],
    names: dict[int, str],
    *,
    rows: int | None,
    width: int | None,
    styled: bool,
) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[InspectedTask]] = {}
    for task in tasks:
        function = task.frames[0].function if task.frames else ""
        line = _own_line(task.frames)
        what = f"task {task.awaits}" if task.awaits else task.reason
        key = function, names.get(task.tid, ""), task.state, what, "" if line is None else line.text
        groups.setdefault(key, []).append(task)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    has_names = any(len(group) == 1 and group[0].name for group in groups.values())
    cells = [
        [function, *([_name(group)] * has_names), f"{len(group):,}", *rest]
        for (function, *rest), group in ordered[:rows]
    ]
    yield from table_lines(
        [
            Column("task of"),
            *([Column("name")] * has_names),
            Column("now", numeric=True),
            *(Column(heading) for heading in ("thread of its loop", "state", "for", "at")),
        ],
        cells,
        width=width,
        drop=("thread of its loop", "name"),
        styled=styled,
    )
    if len(ordered) > len(cells):
        yield more(len(ordered), len(cells))


def _name(group: list[InspectedTask]) -> str:
    return group[0].name if len(group) == 1 else ""


def _own_line(frames: Sequence[CodeLine]) -> CodeLine | None:
    """Return the innermost line of the program's own code; if there is none, the outermost."""
    own = [frame for frame in frames if not is_library(frame.file)]
    return own[-1] if own else frames[0] if frames else None


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
