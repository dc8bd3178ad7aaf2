"""How long a step waits for a processor or sleeps, in the states of its thread and its block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import CALLBACK, LOOP, TASK, THREAD
from meantime.providers.tasks import STATES, task_states

MS = 10**6
# the threads of the records
MAIN, HOG = 7, 8
Row = tuple[int, int, str, int, int]


class Replayed(NamedTuple):
    """What follows from records.

    Attributes:
        states: By kind of entity and thread, in order of time: when it began, in ms, and the state.
        blocks: Begin, end and wait of each, in ms.
    """

    states: dict[tuple[int, int], list[tuple[float, str | None]]]
    blocks: list[tuple[float, float, float]]


def replayed(*rows: Row) -> Replayed:
    """Return what follows from records: a time in ms, a thread, a kind, and two numbers."""
    states = task_states()
    threads = [MAIN, HOG]
    nothing = np.empty(0, np.int32)
    states.extend(
        np.zeros(2, np.int32),
        np.array([-1], np.int32),
        nothing.astype(np.int8),
        nothing,
        nothing.astype(np.uint32),
    )
    states.watch_blocks(MS)
    first = [(0, tid, "THREAD", tid, 0) for tid in threads]
    time_ms, tid, kind, ident, aux = zip(*first, *rows, strict=True)
    states.feed(
        np.array(time_ms, np.int64) * MS,
        np.array([threads.index(each) for each in tid], np.int32),
        np.array([KINDS[each] for each in kind], np.uint8),
        np.array(ident, np.uint32),
        np.array(aux, np.uint32),
        np.arange(len(time_ms)),
    )
    what, stream, *_ = states.entities_since(0).tolist()
    found: dict[tuple[int, int], list[tuple[float, str | None]]] = {}
    for at, entity, state in zip(
        *(each.tolist() for each in states.take_changes()[:3]), strict=True
    ):
        of_task = what[entity] in (TASK, CALLBACK)
        key = what[entity], 0 if of_task else threads[stream[entity]]
        found.setdefault(key, []).append((at / MS, STATES[state] if state >= 0 else None))
    begin_ns, end_ns, waited_ns, *_ = states.take_blocks()
    columns = (each.tolist() for each in (begin_ns / MS, end_ns / MS, waited_ns / MS))
    return Replayed(found, list(zip(*columns, strict=True)))


def cpu_wait(time_ms: int, tid: int, waited_ms: int) -> Row:
    return (time_ms, tid, "CPU_WAIT", waited_ms * MS, 0)


def asleep(time_ms: int, tid: int, kind: str, asleep_ms: int) -> Row:
    return (time_ms, tid, kind, asleep_ms * MS, 0)


def test_what_a_step_slept_precedes_its_wait_for_a_processor() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (10, MAIN, "START", 1, 0),
        asleep(80, MAIN, "ASLEEP", 40),
        cpu_wait(80, MAIN, 20),
        (80, MAIN, "WAIT", 1, 0),
    )
    assert found.states[LOOP, MAIN] == [
        *((1, "running"), (20, "sleeping"), (60, "cpu-wait"), (80, "running"))
    ]
    assert found.states[TASK, 0][0] == (10, "running")
    # it is the step's own, as nothing else kept it from running
    assert found.blocks[-1] == (10, 80, 20)


@pytest.mark.parametrize("kind", ["OFF_CPU", "ASLEEP_OR_LATE"])
def test_a_step_slept_for_an_unknown_reason_where_waits_are_not_recorded(kind: str) -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (10, MAIN, "START", 1, 0),
        asleep(80, MAIN, kind, 40),
        (80, MAIN, "WAIT", 1, 0),
    )
    assert found.states[LOOP, MAIN] == [(1, "running"), (40, "unrecorded-wait"), (80, "running")]


def test_what_short_steps_slept_is_drawn_across_them_but_not_before_the_loop_ran() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (10, MAIN, "PARK", 0, 0),
        (20, MAIN, "UNPARK", 0, 0),
        (21, MAIN, "START", 1, 0),
        (30, MAIN, "WAIT", 1, 0),
        (31, MAIN, "START", 1, 0),
        asleep(40, MAIN, "ASLEEP", 15),
        (40, MAIN, "WAIT", 1, 0),
        asleep(50, MAIN, "ASLEEP", 4000),
        (50, MAIN, "TURN", 0, 0),
    )
    nanosecond = 1 / MS
    assert found.states[LOOP, MAIN] == [
        *((1, "running"), (10, "parked"), (20, "running")),
        *((25, "sleeping"), (40, "running")),
        *((40 + nanosecond, "sleeping"), (50, "running")),
    ]


def test_a_callback_slept_and_not_what_the_loop_did_before_it() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (2, MAIN, "TURN", 0, 0),
        asleep(90, MAIN, "ASLEEP", 60),
        (90, MAIN, "CALLBACK", 0, 70 * MS),
    )
    assert found.states[LOOP, MAIN] == [(1, "running"), (30, "sleeping"), (90, "running")]


def test_a_thread_without_a_loop_sleeps_too() -> None:
    found = replayed(
        (1, HOG, "THREAD_BEGIN", 0, 0),
        asleep(80, HOG, "ASLEEP", 40),
        (90, HOG, "LOCK_WAIT", 0, 0),
    )
    assert found.states[THREAD, HOG] == [
        *((1, "running"), (40, "sleeping"), (80, "running"), (90, "lock-wait"))
    ]


def test_what_a_step_waited_before_another_wait_is_drawn_before_it() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (10, MAIN, "START", 1, 0),
        cpu_wait(80, MAIN, 60),
        (80, MAIN, "GIL_HANDOFF", 0, 0),
        (90, MAIN, "RESUMED", 0, 0),
        cpu_wait(100, MAIN, 5),
        (100, MAIN, "WAIT", 1, 0),
    )
    in_step = [
        *((20, "cpu-wait"), (80, "gil-handoff"), (90, "running")),
        *((95, "cpu-wait"), (100, "running")),
    ]
    assert found.states[LOOP, MAIN] == [(1, "running"), *in_step]
    assert found.states[THREAD, MAIN] == in_step[1:]
    # the thread that is to receive the GIL waits for nothing but a processor
    assert found.blocks[-1] == (10, 100, 75)


def test_what_a_step_waited_is_drawn_before_the_states_of_its_thread_begin() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (10, MAIN, "START", 1, 0),
        cpu_wait(80, MAIN, 60),
        (80, MAIN, "RESUMED", 0, 0),
        (100, MAIN, "WAIT", 1, 0),
    )
    assert found.states[LOOP, MAIN] == [(1, "running"), (20, "cpu-wait"), (80, "running")]


def test_a_step_waits_for_a_processor_where_the_thread_that_has_the_gil_does() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (2, HOG, "THREAD_BEGIN", 0, 0),
        cpu_wait(3, HOG, 1),
        (10, MAIN, "START", 1, 0),
        (20, MAIN, "GIL_WAIT", HOG, 0),
        cpu_wait(99, HOG, 70),
        (99, HOG, "GIL_HANDOFF", 0, 0),
        (100, MAIN, "RESUMED", 0, 0),
        (101, HOG, "RESUMED", 0, 0),
        (110, MAIN, "WAIT", 1, 0),
    )
    assert found.states[THREAD, HOG][-3:] == [
        (29, "cpu-wait"),
        (99, "gil-handoff"),
        (101, "running"),
    ]
    assert found.blocks[-1] == (10, 110, 70)


def test_a_thread_that_begins_has_waited_since_it_was_created() -> None:
    found = replayed(cpu_wait(50, HOG, 30), (50, HOG, "THREAD_BEGIN", 0, 0))
    assert found.states[THREAD, HOG] == [(20, "cpu-wait"), (50, "running")]
    # longer than the recording, which any number in a file can be
    found = replayed(cpu_wait(50, HOG, 4000), (50, HOG, "THREAD_BEGIN", 0, 0))
    assert found.states[THREAD, HOG] == [(0, "cpu-wait"), (50, "running")]
    # where threads are not recorded, that one waited begins none
    found = replayed(cpu_wait(50, HOG, 30), (50, HOG, "SPAWN", 1, 0))
    assert (THREAD, HOG) not in found.states


def test_a_callback_waited_for_what_was_noted_after_its_begin() -> None:
    found = replayed(
        (1, MAIN, "LOOP_BEGIN", 1, 0),
        (2, MAIN, "TURN", 0, 0),
        cpu_wait(50, MAIN, 40),
        cpu_wait(70, MAIN, 7),
        (70, MAIN, "CALLBACK", 0, 20 * MS),
        (80, MAIN, "TURN", 0, 0),
    )
    assert found.blocks[1:] == [(2, 50, 40), (50, 70, 7), (70, 80, 0)]
    assert found.states[CALLBACK, 0] == [(50, "running"), (70, None)]


def test_a_thread_of_a_pool_changes_once_at_a_time() -> None:
    found = replayed(
        (10, HOG, "ITEM_BEGIN", 1, 0),
        cpu_wait(60, HOG, 30),
        (60, HOG, "LOCK_WAIT", 0, 0),
        (70, HOG, "RESUMED", 0, 0),
    )
    for rows in found.states.values():
        times = [time for time, _ in rows]
        assert times == sorted(set(times))


def test_the_code_of_a_step_is_known_after_its_states_were_taken() -> None:
    states = task_states()
    states.extend(
        np.zeros(1, np.int32),
        np.array([-1], np.int32),
        np.zeros(1, np.int8),
        np.zeros(1, np.int32),
        np.array([1 << 31 | 5], np.uint32),
    )
    taken: list[tuple[int, int]] = []
    for kind, time_ms, ident, aux in [
        ("THREAD", 0, MAIN, 0),
        ("LOOP_BEGIN", 1, 0, 0),
        ("TURN", 2, 0, 0),
        ("SLEEP", 2, 0, 0),
        ("BLOCKED", 60, MAIN, 5),
    ]:
        states.feed(
            np.array([time_ms * MS]),
            np.zeros(1, np.int32),
            np.array([KINDS[kind]], np.uint8),
            np.array([ident], np.uint32),
            np.array([aux], np.uint32),
            np.zeros(1, np.int64),
        )
        at_ns, entity, _, tag = states.take_changes()
        is_loop = entity == 0
        taken += zip(at_ns[is_loop].tolist(), tag[is_loop].tolist(), strict=True)
    # two changes at one time would be an oddity of the recording
    assert taken[-2:] == [(2 * MS, -1), (2 * MS + 1, 0)]
