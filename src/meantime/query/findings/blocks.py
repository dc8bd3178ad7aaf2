"""Steps that block an event loop: who ran, for how long, and who waited.

A block is a step of a task, or of callbacks, during which an event loop runs nothing else for at
least `BLOCK_NS`: the limit from which asyncio's debug mode reports a slow callback
(`loop.slow_callback_duration`, 0.1 s). A shorter one counts if it took `WATCHED_NS` without what it
waited for a processor, which is also how long a step of a recording takes until its stack is taken:
what that shows is a finding even if it happened once. If a task was waiting, that time counts too,
and `_SHORT_NS` is enough for an outlier among the steps of all tasks: where one step in a hundred
is long, as those of an endpoint of a service, none is an outlier.

A task waited if it was `spawned` or `runnable` when the block ended, or if its wait ended before
the loop had nothing left to do: what it waited for had happened during the block, but the loop
could not see it earlier.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.outliers import Usual
from meantime.query.findings.steps import FRAME, WATCHED_NS, Culprit, culprit, gil_holder, own_files
from meantime.query.findings.threads import Threads, is_on, thread_name
from meantime.query.ranges import clipped
from meantime.query.scope import chosen, joined
from meantime.query.sentences import FILE, counted, listed, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.ranges import Range
    from meantime.query.scope import Kind, Scope, StateRows

__all__ = ["BLOCK_NS", "blocking_code", "blocking_steps", "long_steps"]

BLOCK_NS = 10**8
_SHORT_NS = 10**7
# Other blocks are a finding if they take up this part of the range together, or `BLOCK_NS`.
_SHORT_SHARE = 100
_RUNNING, _PARKED = "running", "parked"
# What runs when a module is imported.
_MODULE = "<module> ("
# A step goes on while its thread waits.
_WAITS = {"lock-wait", "polling", "sleeping", "io-wait", "child-wait"}
# A wait of which the recorder does not know for what it was: it may have been the GIL.
_UNRECORDED, _WAITS_FACT = "unrecorded-wait", "waits of threads"
_NOT_RUNNING = ("cpu-wait", "gil-wait", "gil-handoff", _UNRECORDED, *_WAITS)
_IN_STEP = dict.fromkeys(_NOT_RUNNING, _RUNNING)
_READY = {"spawned", "runnable"}
# How long after a block a wait may end that the loop could not end earlier, and for how long the
# loop is parked if it has caught up.
_AFTER_NS, _IDLE_NS = 2 * 10**7, 10**6
# How many of the times when a loop was busy are examined, the longest first; and how many if there
# are so many tasks that the states of each time are looked up by themselves.
_MOST_BLOCKS, _MOST_LOOKED_UP = 500, 10
_MOST_RANGES = 100
_MOST_LINES = 3


class _Step(NamedTuple):
    """A block: its loop, the task that ran, or -1 for callbacks, and the callback, if known."""

    loop: int
    task: int
    range_ns: Range
    callback: int = -1

    @property
    def duration_ns(self) -> int:
        return self.range_ns[1] - self.range_ns[0]


class _Block(NamedTuple):
    """A block, how many tasks waited for its end, the code that ran, and how long it could not."""

    step: _Step
    waiting: int
    code: Culprit
    late_ns: int

    @property
    def own_ns(self) -> int:
        """Its duration without the time in which it could not go on."""
        return self.step.duration_ns - self.late_ns


def blocking_steps(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each place in the code that blocked an event loop."""
    for where, blocks, part in _by_code(scope):
        yield _finding(scope, where, blocks, part)


def blocking_code(scope: Scope) -> dict[Range, tuple[int, str]]:
    """Return the loop and the code of each step in these findings, by when it ran."""
    return {
        block.step.range_ns: (block.step.loop, blocks[0].code.text)
        for _, blocks, _ in _by_code(scope)
        for block in blocks
    }


class _Busy(NamedTuple):
    """When loops were busy, and what ran meanwhile.

    Attributes:
        loops: The loops.
        states: The states of tasks; None if there are no tasks.
        running: The steps of tasks.
        in_order: These and callbacks, in order of time.
        called: The callbacks.
        is_part: Whether only the longest times are examined.
        most: How many of them.
        rows: These times.
    """

    loops: Kind
    states: StateRows | None
    running: StateRows | None
    in_order: StateRows | None
    called: frozenset[int]
    is_part: bool
    most: int
    rows: StateRows

    def steps(self, scope: Scope, least_ns: int) -> Iterator[_Step]:
        """Yield the steps of at least this length, and what is between them."""
        for row in range(len(self.rows.quark)):
            yield from _steps(scope, self.rows, row, self.in_order, least_ns)


def long_steps(scope: Scope, least_ns: int) -> list[tuple[int, Range]]:
    """Return the loop and the range of steps during which a loop ran nothing else for long.

    Of very many, the longest.
    """
    if (busy := _busy(scope, max(1, least_ns))) is None:
        return []
    steps = busy.steps(scope, max(1, least_ns))
    return [(each.loop, each.range_ns) for each in steps if each.duration_ns >= least_ns]


def _busy(scope: Scope, least_ns: int) -> _Busy | None:
    """Return when loops were busy for at least this long; None if they never were."""
    loops, tasks = scope.kind("Loop"), scope.kind("Task")
    found = None if loops is None else scope.long_rows(loops, least_ns, alike=_IN_STEP)
    if loops is None or found is None:
        return None
    busy = found[0]
    busy = chosen(busy, np.isin(busy.state, busy.codes({_RUNNING})))
    if not len(busy.quark):
        return None
    states = None if tasks is None else scope.rows(tasks)
    most = _MOST_BLOCKS if tasks is None or states is not None else _MOST_LOOKED_UP
    is_part = len(busy.quark) > most
    longest = np.argsort(-busy.duration_ns, kind="stable")[:most]
    busy = chosen(busy, np.sort(longest))
    if tasks is not None and states is None:
        states = _task_states(scope, tasks, busy)
    running = None if states is None else _running(scope, loops, states)
    handles = scope.kind("Callback")
    calls = None if handles is None else scope.rows(handles)
    ran = [part for part in (running, calls) if part is not None and len(part.quark)]
    in_order = _by_time(joined(ran)) if ran else None
    called = frozenset[int]() if handles is None else frozenset(handles.quarks.tolist())
    return _Busy(loops, states, running, in_order, called, is_part, most, busy)


def _by_code(scope: Scope) -> Iterator[tuple[str, list[_Block], str]]:
    """Yield, for each code that blocked loops, their name, the blocks, and a restriction."""
    tasks = scope.kind("Task")
    if (busy := _busy(scope, _SHORT_NS)) is None:
        return
    loops, states, is_part, most = busy.loops, busy.states, busy.is_part, busy.most
    limit_ns = min(_usual_ns(busy.running), WATCHED_NS)
    steps = [
        step._replace(task=-1, callback=step.task) if step.task in busy.called else step
        for step in busy.steps(scope, _SHORT_NS)
        if step.duration_ns >= limit_ns
    ]
    # workers run the same code, but of what is unknown nothing is known to be the same
    groups: dict[tuple[int, str], list[_Block]] = defaultdict(list)
    threads = Threads(scope)
    for block in _named_alike(list(_blocks(scope, threads, loops, tasks, steps, states))):
        is_late = 2 * block.late_ns > block.step.duration_ns
        if is_late and (not block.code.is_seen or block.own_ns < _SHORT_NS):
            # had it taken long by itself, its stack would have been taken, and not only by chance
            continue
        groups[-1 if block.code.key else block.step.loop, block.code.key].append(block)
    for blocks in _of_one_function(threads, groups):
        total_ns = sum(block.step.duration_ns for block in blocks)
        # one that is short and alone, or of unknown code, is what the system does to any program
        code = blocks[0].code
        is_unknown = not code.is_seen and total_ns < BLOCK_NS and not code.key
        is_chance = len(blocks) == 1 and (blocks[0].own_ns < WATCHED_NS or is_unknown)
        # one of which the stack was taken counts, however rare it is
        is_watched = code.is_seen and any(block.own_ns >= WATCHED_NS for block in blocks)
        is_much = total_ns >= min(BLOCK_NS, scope.length_ns // _SHORT_SHARE)
        if (is_much or is_watched) and not is_chance:
            blocked = {block.step.loop for block in blocks}
            where = "the event loop" if len(blocked) == 1 else f"{len(blocked):,} event loops"
            if len(blocked) == 1 < len(loops.quarks):
                where += f" of {thread_name(scope, *blocked)}"
            part = f"; of the {most:,} longest times the loop was busy" if is_part else ""
            blocks.sort(key=lambda block: -block.step.duration_ns)
            yield where, blocks, part


def _of_one_function(
    threads: Threads, groups: dict[tuple[int, str], list[_Block]]
) -> Iterator[list[_Block]]:
    """Yield the blocks of each code, those of one function that computes as one.

    The stack of a function that computes shows any of the lines that it repeats. One that waits is
    at the line that blocks, so another line is another cause.
    """
    merged: dict[tuple[int, str], list[list[_Block]]] = defaultdict(list)
    for (loop, key), blocks in groups.items():
        frame = re.fullmatch(FRAME, key)
        steps = [block.step for block in blocks]
        waited_ns = sum(threads.time_in(step.loop, _WAITS, step.range_ns) for step in steps)
        waits = 2 * waited_ns > sum(block.own_ns for block in blocks)
        computes = frame is not None and blocks[0].code.is_seen and not waits
        name = f"{frame[1]} ({frame[2]}) {blocks[0].code.between}" if frame and computes else key
        merged[loop, name].append(blocks)
    for parts in merged.values():
        parts.sort(key=lambda part: -sum(block.step.duration_ns for block in part))
        blocks = [block for part in parts for block in part]
        code = blocks[0].code
        if len(parts) > 1:
            others = sorted({_line(part[0].code) for part in parts[1:]})
            # what one line had called, another may not have
            called = {re.sub(r":\d+", "", part[0].code.detail) for part in parts}
            code = code._replace(
                code=f"{code.code.removesuffix(')')}, also {_lines(others)})",
                detail=code.detail if len(called) == 1 else "",
            )
        alike = [block.code._replace(code=code.code, detail=code.detail) for block in blocks]
        yield [block._replace(code=each) for block, each in zip(blocks, alike, strict=True)]


def _line(code: Culprit) -> int:
    return int(code.key.rpartition(":")[2].removesuffix(")"))


def _blocks(  # noqa: PLR0917 - what the steps are looked up in
    scope: Scope,
    threads: Threads,
    loops: Kind,
    tasks: Kind | None,
    steps: list[_Step],
    states: StateRows | None,
) -> Iterator[_Block]:
    """Yield the steps that count as blocks."""
    own = own_files(scope.history)
    is_unwatched = _WAITS_FACT in scope.history.metadata.facts
    for step in steps:
        waiting = _waiting(scope, loops, tasks, step, states)
        late_ns = threads.late_ns(step.loop, step.range_ns)
        is_own = step.duration_ns - late_ns >= WATCHED_NS
        if 2 * late_ns > step.duration_ns and not is_own:
            # the machine was busy with other programs
            continue
        is_long = bool(waiting) or is_own
        if step.duration_ns < BLOCK_NS and (not is_long or _is_unknown(scope, step)):
            continue
        if 2 * threads.gil_wait_ns(step.loop, step.range_ns) > step.duration_ns:
            # whatever the loop's thread was about to do, it could not
            code = _gil_holder(scope, threads, step)
        elif (
            is_unwatched
            and 2 * threads.time_in(step.loop, {_UNRECORDED}, step.range_ns) > step.duration_ns
        ):
            # the line may be innocent: whoever had the GIL is not known
            code = Culprit(
                "a wait that is not recorded",
                _UNRECORDED,
                "for the GIL, for a lock, or in a call",
                is_seen=False,
            )
        else:
            code = culprit(scope, step.loop, step.task, step.range_ns, states, own)
            if step.callback >= 0:
                code = code._replace(between=scope.history.attributes.path(step.callback)[-2])
        if not _is_loading(scope, step, code):
            yield _Block(step, waiting, code, late_ns)


def _is_loading(scope: Scope, step: _Step, code: Culprit) -> bool:
    """Return whether a loop imports a program before it first waits for events, as servers do."""
    if not any(each.startswith(_MODULE) for each in (code.key, code.caller)):
        return False
    for state in scope.history.iterate(step.loop, scope.history.start_ns):
        if state.value == _PARKED or state.start_ns >= step.range_ns[0]:
            return bool(state.value != _PARKED)
    return True


def _named_alike(blocks: list[_Block]) -> Iterator[_Block]:
    """Yield blocks, those whose code nothing saw with that of others between the same waits."""
    seen: dict[str, dict[str, Culprit]] = defaultdict(dict)
    for block in blocks:
        if block.code.is_seen:
            seen[block.code.between].setdefault(block.code.key, block.code)
    for block in blocks:
        known = list(seen[block.code.between].values())
        # of several functions it could be any
        functions = {code.key.rpartition(":")[0] or code.key for code in known}
        is_same = not block.code.is_seen and block.code.between != "" and len(functions) == 1
        code = known[0]._replace(serving=block.code.serving) if is_same else block.code
        yield block._replace(code=code)


def _task_states(scope: Scope, tasks: Kind, busy: StateRows) -> StateRows:
    """Return the states of tasks while loops were busy, and until they parked."""
    parts = [
        scope.between(tasks.quarks, (start_ns, min(end_ns + _AFTER_NS, scope.end_ns)))
        for start_ns, end_ns in zip(busy.start_ns.tolist(), busy.end_ns.tolist(), strict=True)
    ]
    return joined(parts)


def _running(scope: Scope, loops: Kind, states: StateRows) -> StateRows:
    """Return the steps of tasks in order of time."""
    states = _by_time(chosen(states, np.isin(states.state, states.codes({_RUNNING}))))
    start_ns, end_ns = states.start_ns, states.end_ns
    length_ns = end_ns - start_ns
    # The first step of an eager task is inside that of the task that creates it: that is its time.
    is_outer = (end_ns[1:] <= end_ns[:-1]) & (length_ns[1:] >= length_ns[:-1] // 10 * 9)
    is_outer &= length_ns[:-1] >= _SHORT_NS
    kept = np.ones(len(states.quark), np.bool_)
    for index in np.flatnonzero(is_outer).tolist():
        tasks = states.quark[index : index + 2].tolist()
        on = [[is_on(scope, task, loop) for loop in loops.quarks.tolist()] for task in tasks]
        # steps of two loops of a process may be at the same time
        kept[index] = on[0] != on[1] or sum(on[0]) > 1
    return chosen(states, kept)


def _by_time(rows: StateRows) -> StateRows:
    """Return rows in order of time, of those that begin together the longest first."""
    return chosen(rows, np.lexsort((-rows.end_ns, rows.start_ns)))


def _usual_ns(running: StateRows | None) -> float:
    """Return how long a step may take that is like the others."""
    if running is None or not len(running.quark):
        return float(BLOCK_NS)
    return Usual.of(running.duration_ns).limit_ns()


def _steps(
    scope: Scope, busy: StateRows, row: int, steps: StateRows | None, least_ns: int
) -> Iterator[_Step]:
    """Yield the steps of tasks, and what is between them, while a loop was busy.

    Args:
        scope: The history.
        busy: When loops were busy.
        row: The row of it in question.
        steps: The steps of all tasks, in order of time.
        least_ns: How long one takes at least.
    """
    loop = int(busy.quark[row])
    start_ns, end_ns = int(busy.start_ns[row]), int(busy.end_ns[row])
    reached = start_ns
    if steps is not None:
        # a task that runs beyond either end is on the loop of another thread
        low, high = np.searchsorted(steps.start_ns, [start_ns, end_ns]).tolist()
        for index in (low + np.flatnonzero(steps.end_ns[low:high] <= end_ns)).tolist():
            task = int(steps.quark[index])
            begin_ns, finish_ns = int(steps.start_ns[index]), int(steps.end_ns[index])
            if finish_ns - begin_ns < least_ns or begin_ns < reached:
                continue
            if is_on(scope, task, loop):
                yield from _callbacks(steps, low, high, loop, (reached, begin_ns), least_ns)
                yield _Step(loop, task, (begin_ns, finish_ns))
                reached = finish_ns
        yield from _callbacks(steps, low, high, loop, (reached, end_ns), least_ns)
    elif end_ns > reached:
        yield _Step(loop, -1, (reached, end_ns))


def _callbacks(  # noqa: PLR0917 - as of `_steps`
    steps: StateRows, low: int, high: int, loop: int, range_ns: Range, least_ns: int
) -> Iterator[_Step]:
    """Yield the long parts of a range in which no task ran: callbacks did.

    Args:
        steps: The steps of all tasks, in order of time.
        low: The first step that may be in the range.
        high: The step after the last one.
        loop: The event loop.
        range_ns: The range.
        least_ns: How long a part takes at least.
    """
    if range_ns[1] - range_ns[0] < least_ns:
        return
    begin_ns, finish_ns = steps.start_ns[low:high], steps.end_ns[low:high]
    inside = (begin_ns >= range_ns[0]) & (finish_ns <= range_ns[1])
    ends = np.append(range_ns[0], np.maximum.accumulate(finish_ns[inside]))
    begins = np.append(begin_ns[inside], range_ns[1])
    for gap in np.flatnonzero(begins - ends >= least_ns).tolist():
        yield _Step(loop, -1, (int(ends[gap]), int(begins[gap])))


def _waiting(
    scope: Scope, loops: Kind, tasks: Kind | None, step: _Step, states: StateRows | None
) -> int:
    """Return how many tasks of the loop waited for a block to end."""
    if tasks is None or states is None:
        return 0
    end_ns = step.range_ns[1]
    until_ns = _caught_up_ns(scope, step.loop, end_ns)
    states = chosen(states, (states.start_ns < end_ns) & (states.end_ns >= end_ns))
    ready = np.isin(states.state, states.codes(_READY))
    waits = [code for code, name in enumerate(states.names) if name.startswith("waiting")]
    woken = np.isin(states.state, waits) & (states.end_ns <= until_ns)
    waiting = set(states.quark[ready | woken].tolist()) - {step.task}
    if len(loops.quarks) > 1:
        waiting = {task for task in waiting if is_on(scope, task, step.loop)}
    return len(waiting)


def _gil_holder(scope: Scope, threads: Threads, step: _Step) -> Culprit:
    """Return the code that had the GIL in a step, or the thread that had it for most of it."""
    thread = threads.gil_holder(step.loop, step.range_ns)
    holder = thread_name(scope, thread) if thread >= 0 else ""
    line = gil_holder(scope, step.loop, step.range_ns)
    # of a step that is too short for a stack, only the thread is known
    between = f"GIL {holder}" if holder else ""
    if line:
        had = f"which had the GIL{f' in {holder}' if holder else ''}"
        return Culprit(line, line, had, between=between)
    had = f"which {holder} had" if holder else ""
    name = "waiting for the GIL"
    return Culprit(name, f"{name} {holder}", had, between=between, is_seen=False)


def _is_unknown(scope: Scope, step: _Step) -> bool:
    """Return whether nothing is known of half of a step: even the sampler did not run."""
    lost = clipped(scope.history.lost, *step.range_ns)
    return 2 * sum(end - start for start, end in lost) >= step.duration_ns


def _caught_up_ns(scope: Scope, loop: int, after_ns: int) -> int:
    """Return when a loop had nothing left to do after a block, or a time soon after it."""
    latest_ns = min(after_ns + _AFTER_NS, scope.history.end_ns)
    if after_ns >= latest_ns:
        return after_ns
    for state in scope.history.iterate(loop, after_ns):
        if state.start_ns >= latest_ns:
            break
        # while something is due, a loop is parked only to look what is
        if state.value == _PARKED and state.end_ns - state.start_ns >= _IDLE_NS:
            return max(after_ns, state.start_ns)
    return latest_ns


def _lock_holder(scope: Scope, steps: list[_Step]) -> str:
    """Return which thread had the lock that blocks waited for, as the end of a sentence.

    That is known of those that went on as soon as they got it.
    """
    threads = Threads(scope)
    for step in steps:
        thread, tag = threads.lock_holder(step.loop, step.range_ns)
        if thread >= 0:
            place = scope.place(tag)
            return f"; {thread_name(scope, thread)}{f', in {place},' if place else ''} had the lock"
    return ""


def _lines(lines: list[int]) -> str:
    """Return line numbers as a phrase: `line 3`, `lines 3 and 5`, `lines 3, 4 and 2 more`."""
    shown = [str(line) for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown[-1:] = [f"{len(lines) - _MOST_LINES + 1} more"]
    *first, last = shown
    return f"lines {', '.join(first)} and {last}" if first else f"line {last}"


def _phrase(word: str, names: list[str]) -> str:
    """Return a few names after a word; empty if there are none."""
    known = list(dict.fromkeys(filter(None, names)))
    return f"{word} {listed(known)}" if known else ""


def _finding(scope: Scope, where: str, blocks: list[_Block], part: str) -> Finding:
    steps = [block.step for block in blocks]
    total_ns = sum(step.duration_ns for step in steps)
    code = blocks[0].code
    phrases = [
        code.detail,
        _phrase("called by", [block.code.caller for block in blocks]),
        _phrase("serving", [block.code.serving for block in blocks]),
    ]
    name = "".join(f", {phrase}" for phrase in phrases if phrase)
    text = f"{code.code}{name}{',' * (name != '')} blocked {where}"
    text += f" for {'up to ' * (len(blocks) > 1)}{rounded_ns(steps[0].duration_ns)}"
    if len(blocks) > 1:
        text += f", {times(len(blocks))} ({rounded_ns(total_ns)} in all)"
    late_ns = sum(block.late_ns for block in blocks)
    if 10 * late_ns >= total_ns:
        text += f", {rounded_ns(late_ns)} of it waiting for a CPU"
    text += _lock_holder(scope, steps[:_MOST_LOOKED_UP])
    waiting = {block.waiting for block in blocks}
    if most := max(waiting):
        upto = "up to " if len(waiting) > 1 else ""
        text += f"; {upto}{counted(most, 'task')} {'was' if most == 1 else 'were'} waiting"
    if code.key == _UNRECORDED:
        if "--threads" in scope.history.metadata.facts.get(_WAITS_FACT, ""):
            text += "; `meantime record --threads` shows which"
    elif not code.is_seen and steps[0].duration_ns < WATCHED_NS:
        text += "; `meantime record --blocked 10ms` shows the line"
    tasks = dict.fromkeys(step.task for step in steps if step.task >= 0)
    loops = dict.fromkeys(step.loop for step in steps)
    rows = [scope.path(row) for row in [*loops, *tasks]]
    return Finding(
        "block",
        text + part,
        total_ns,
        tuple(step.range_ns for step in steps[:_MOST_RANGES]),
        len(blocks),
        tuple(rows[: _MOST_RANGES + 1]),
        arguments=("statemap", FILE, *scope.options(steps[0].range_ns), "-o", "block.svg"),
    )
