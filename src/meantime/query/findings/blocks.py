"""Steps that block an event loop: who ran, for how long, and who waited.

A block is a step of a task, or of callbacks, during which an event loop runs nothing else for at
least `BLOCK_NS`: the limit from which asyncio's debug mode reports a slow callback
(`loop.slow_callback_duration`, 0.1 s). A shorter one, down to `_SHORT_NS`, counts if it is an
outlier among the steps of all tasks, and a task was waiting.

A task waited if it was `spawned` or `runnable` when the block ended, or if its wait ended before
the loop was parked again: what it waited for had happened during the block, as the loop could not
see it earlier.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.query.findings.finding import FILE, Finding, several, text_of_ns, times
from meantime.query.findings.outliers import Usual
from meantime.query.findings.scope import chosen
from meantime.query.findings.steps import culprit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.findings.finding import Range
    from meantime.query.findings.scope import Kind, Scope, StateRows

__all__ = ["BLOCK_NS", "blocking_steps"]

BLOCK_NS = 10**8
_SHORT_NS = 10**7
# Short blocks are a finding if they take up this part of the range together, or `BLOCK_NS`.
_SHORT_SHARE = 100
_RUNNING, _PARKED = "running", "parked"
_READY = {"spawned", "runnable"}
# How long after a block a wait may end that the loop could not end earlier, if it does not park.
_AFTER_NS = 10**6
# The longest blocks, which are examined; recordings have far fewer.
_MOST_BLOCKS = 500
_MOST_RANGES = 100


class _Step(NamedTuple):
    """A block: its loop, and the task that ran, or -1 for callbacks."""

    loop: int
    task: int
    range_ns: Range

    @property
    def duration_ns(self) -> int:
        return self.range_ns[1] - self.range_ns[0]


def blocking_steps(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each place in the code that blocked an event loop."""
    loops, tasks = scope.kind("Loop"), scope.kind("Task")
    if loops is None:
        return
    found = scope.long_rows(loops, _SHORT_NS)
    if found is None:
        return
    busy = found[0]
    busy = chosen(busy, np.isin(busy.state, busy.codes({_RUNNING})))
    if not len(busy.quark):
        return
    longest = np.argsort(-busy.duration_ns, kind="stable")[:_MOST_BLOCKS]
    busy = chosen(busy, np.sort(longest))
    states = _task_states(scope, tasks, busy)
    steps = [
        step
        for row in range(len(busy.quark))
        for step in _steps(scope, busy, row, states)
        if step.duration_ns >= _SHORT_NS
    ]
    usual_ns = _usual_ns(states)
    groups: dict[tuple[int, str], list[tuple[_Step, int]]] = defaultdict(list)
    for step in steps:
        waiting = _waiting(scope, loops, tasks, step, states)
        if step.duration_ns < BLOCK_NS and (not waiting or step.duration_ns < usual_ns):
            continue
        name = culprit(scope, step.loop, step.task, step.range_ns, states)
        groups[step.loop, name].append((step, waiting))
    for (loop, name), blocks in groups.items():
        total_ns = sum(step.duration_ns for step, _ in blocks)
        # one that is short and alone is what the operating system does to any program
        if total_ns >= min(BLOCK_NS, scope.length_ns // _SHORT_SHARE):
            yield _finding(scope, loop, name, blocks, several_loops=len(loops.quarks) > 1)


def _task_states(scope: Scope, tasks: Kind | None, busy: StateRows) -> StateRows | None:
    """Return the states of tasks, at least around what the loops were busy with."""
    if tasks is None:
        return None
    rows = scope.rows(tasks)
    if rows is not None:
        return rows
    start_ns, end_ns = int(busy.start_ns.min()), int(busy.end_ns.max())
    longest = int(np.argmax(busy.duration_ns))
    if end_ns - start_ns > scope.length_ns // 50:
        # too many tasks for the whole range: only the longest one is examined
        start_ns, end_ns = int(busy.start_ns[longest]), int(busy.end_ns[longest])
    return scope.between(tasks.quarks, (start_ns, min(end_ns + _AFTER_NS, scope.end_ns)))


def _usual_ns(states: StateRows | None) -> float:
    """Return how long a step may take that is like the others."""
    if states is None:
        return float(BLOCK_NS)
    steps = states.duration_ns[np.isin(states.state, states.codes({_RUNNING}))]
    if not len(steps):
        return float(BLOCK_NS)
    return Usual.of(steps).limit_ns()


def _steps(scope: Scope, busy: StateRows, row: int, states: StateRows | None) -> Iterator[_Step]:
    """Yield the steps of tasks, and what lies between, while a loop was busy."""
    loop = int(busy.quark[row])
    start_ns, end_ns = int(busy.start_ns[row]), int(busy.end_ns[row])
    reached = start_ns
    if states is not None:
        inside = (
            (states.start_ns < end_ns)
            & (states.end_ns > start_ns)
            & np.isin(states.state, states.codes({_RUNNING}))
        )
        rows = np.flatnonzero(inside)
        for index in rows[np.argsort(states.start_ns[rows], kind="stable")].tolist():
            task = int(states.quark[index])
            if not _is_on(scope, task, loop):
                continue
            begin_ns = max(int(states.start_ns[index]), reached)
            finish_ns = min(int(states.end_ns[index]), end_ns)
            # a task that another thread's loop runs begins before this loop was busy, or ends after
            if int(states.start_ns[index]) < start_ns or int(states.end_ns[index]) > end_ns:
                continue
            if begin_ns > reached:
                yield _Step(loop, -1, (reached, begin_ns))
            if finish_ns > begin_ns:
                yield _Step(loop, task, (begin_ns, finish_ns))
                reached = finish_ns
    if end_ns > reached:
        yield _Step(loop, -1, (reached, end_ns))


def _is_on(scope: Scope, task: int, loop: int) -> bool:
    """Return whether a task and a loop are in one process, as far as their names say."""
    process, dot, _ = scope.history.attributes.path(task)[-1].rpartition(".")
    names = scope.history.attributes.path(loop)[-1].split(" ")
    return not dot or process in names


def _waiting(
    scope: Scope, loops: Kind, tasks: Kind | None, step: _Step, states: StateRows | None
) -> int:
    """Return how many tasks of the loop waited for a block to end."""
    if tasks is None or states is None:
        return 0
    end_ns = step.range_ns[1]
    until_ns = min(_parked_ns(scope, step.loop, end_ns), scope.end_ns)
    at_end = (states.start_ns < end_ns) & (states.end_ns >= end_ns)
    ready = at_end & np.isin(states.state, states.codes(_READY))
    waits = [code for code, name in enumerate(states.names) if name.startswith("waiting")]
    woken = at_end & np.isin(states.state, waits) & (states.end_ns <= until_ns)
    waiting = set(states.quark[ready | woken].tolist()) - {step.task}
    if len(loops.quarks) > 1:
        waiting = {task for task in waiting if _is_on(scope, task, step.loop)}
    return len(waiting)


def _parked_ns(scope: Scope, loop: int, after_ns: int) -> int:
    """Return when a loop was parked again, or a time soon after a block."""
    latest_ns = after_ns + _AFTER_NS
    if after_ns >= scope.history.end_ns:
        return latest_ns
    parked = scope.history.following([loop], after_ns - 1, value=_PARKED)
    return latest_ns if parked is None else max(after_ns, min(parked.start_ns, latest_ns))


def _finding(
    scope: Scope, loop: int, name: str, blocks: list[tuple[_Step, int]], *, several_loops: bool
) -> Finding:
    blocks.sort(key=lambda block: -block[0].duration_ns)
    durations = [step.duration_ns for step, _ in blocks]
    where = "the event loop"
    if several_loops:
        where += f" of thread {scope.history.attributes.path(loop)[-1]}"
    text = f"{name} blocked {where} for {text_of_ns(durations[0])}"
    if len(blocks) > 1:
        text += f", {times(len(blocks))} ({text_of_ns(sum(durations))} in all)"
    waiting = max(count for _, count in blocks)
    upto = "up to " if len({count for _, count in blocks}) > 1 else ""
    if waiting:
        text += f"; {upto}{several(waiting, 'task')} {'was' if waiting == 1 else 'were'} waiting"
    worst = blocks[0][0]
    rows = [scope.path(loop)]
    rows += [
        scope.path(task) for task in dict.fromkeys(step.task for step, _ in blocks) if task >= 0
    ]
    return Finding(
        "block",
        text,
        sum(durations),
        tuple(step.range_ns for step, _ in blocks[:_MOST_RANGES]),
        len(blocks),
        tuple(rows[: _MOST_RANGES + 1]),
        arguments=("statemap", FILE, *scope.options(worst.range_ns), "-o", "block.svg"),
    )
