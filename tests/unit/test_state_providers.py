"""Which states follow from records of a recording, and for what its tasks wait."""

from __future__ import annotations

import numpy as np
import pytest

from meantime.kernels.record_kinds import KINDS, LEAVES
from meantime.model.state_classes import class_of
from meantime.providers.tasks import STATES, lane_of, task_states
from meantime.providers.waits import wait_reason, wait_state


def states_of(*kinds: str, ident: int = 1, aux: int = 0) -> list[str | None]:
    """Return the states of what one stream's records are about, 10 ns apart."""
    states = task_states()
    nothing = np.empty(0, np.int32)
    owner, no_parent = np.array([0], np.int32), np.array([-1], np.int32)
    states.extend(owner, no_parent, nothing.astype(np.int8), nothing, nothing.astype(np.uint32))
    rows = len(kinds)
    states.feed(
        np.arange(rows) * 10,
        np.zeros(rows, np.int32),
        np.array([KINDS[kind] for kind in kinds], np.uint8),
        np.full(rows, ident, np.uint32),
        np.full(rows, aux, np.uint32),
        np.arange(rows),
    )
    return [STATES[state] if state >= 0 else None for state in states.take_changes()[2].tolist()]


def test_a_task_is_in_the_state_of_its_records() -> None:
    assert states_of("SPAWN", "START", "WAIT", "WAKE", "THROW", "CANCELLING", "START") == [
        *("spawned", "running", "waiting", "runnable", "running", "cancelling", "running")
    ]


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled", "dropped"])
def test_the_end_of_a_task_is_a_state_and_then_there_is_none(outcome: str) -> None:
    assert states_of("SPAWN", outcome.upper()) == ["spawned", outcome, None]


def test_a_loop_runs_and_parks_until_it_stops() -> None:
    kinds = ("LOOP_BEGIN", "PARK", "UNPARK", "LOOP_END")
    assert states_of(*kinds) == ["running", "parked", "running", "stopped"]


def test_a_pool_thread_is_idle_between_items() -> None:
    kinds = ("ITEM_BEGIN", "ITEM_END", "ITEM_BEGIN", "THREAD_END")
    assert states_of(*kinds) == ["running", "idle", "running", "stopped", None]


def result_flows(first_step: str, ending_ms: int) -> list[int]:
    """Return when a task got the result of an item whose thread ended it so much later."""
    owners = np.array([0, 0], np.int32), np.array([-1, -1], np.int32)
    states = task_states()
    nothing = np.empty(0, np.int32)
    states.extend(*owners, nothing.astype(np.int8), nothing, nothing.astype(np.uint32))
    rows = [
        *((0, 0, "SPAWN", 1, 0), (1, 0, "START", 1, 0), (2, 0, "SUBMIT", 9, 0)),
        *((3, 0, "ITEM_AWAITED", 9, 1), (3, 0, "WAIT", 1, 0), (4, 1, "ITEM_BEGIN", 9, 0)),
        *((5, 0, "WAKE", 1, 0), (6, 0, first_step, 1, 0), (5 + ending_ms, 1, "ITEM_END", 9, 0)),
    ]
    time_ms, stream, kind, ident, aux = zip(*rows, strict=True)
    states.feed(
        np.array(time_ms) * 1_000_000,
        np.array(stream, np.int32),
        np.array([KINDS[name] for name in kind], np.uint8),
        np.array(ident, np.uint32),
        np.array(aux, np.uint32),
        np.arange(len(rows)),
    )
    _, _, _, to_ns, kinds = states.take_flows()
    return [
        ns
        for ns, way in zip(to_ns.tolist(), kinds.tolist(), strict=True)
        if way == KINDS["ITEM_END"]
    ]


def test_a_result_comes_from_the_thread_however_late_that_ends_the_item() -> None:
    assert result_flows("START", 1) == result_flows("START", 500) == [5_000_000]
    # a cancelled task was not woken by the result
    assert result_flows("THROW", 500) == []


def test_a_thread_waits_in_four_ways() -> None:
    kinds = ("GIL_WAIT", "GIL_HANDOFF", "LOCK_WAIT", "POLL", "RESUMED")
    assert states_of(*kinds) == ["gil-wait", "gil-handoff", "lock-wait", "polling", "running"]


def test_records_that_begin_no_state_change_none() -> None:
    assert states_of("CLOCK", "DUMP", "TICK", "SAMPLE") == []


def test_there_must_be_a_state_for_each_kind() -> None:
    states = task_states()
    with pytest.raises(ValueError, match="a state for each of 256 kinds"):
        type(states)(
            np.zeros(8, np.int8), *np.zeros((2, 128), np.int8), outcome_ns=1, result_lead_ns=1
        )


@pytest.mark.parametrize(
    ("coroutine", "file", "leaf", "reason"),
    [
        ("sleep", "/usr/lib/python3.11/asyncio/tasks.py", "FUTURE", "sleep"),
        ("gather", "/usr/lib/python3.11/asyncio/tasks.py", "FUTURE", "tasks"),
        ("Lock.acquire", "C:\\Python\\Lib\\asyncio\\locks.py", "FUTURE", "lock"),
        ("own", "/app.py", "TASK", "tasks"),
        ("own", "/app.py", "FUTURE", "future"),
        ("own", "/app.py", "NONE", "sleep"),
        ("own", "/app.py", "OTHER", ""),
    ],
)
def test_a_task_waits_for_what_its_innermost_coroutine_does(
    coroutine: str, file: str, leaf: str, reason: str
) -> None:
    assert wait_reason(coroutine, file, LEAVES[leaf]) == reason


def test_a_reason_that_is_not_known_is_plain_waiting() -> None:
    assert STATES[wait_state("", LEAVES["OTHER"])] == "waiting"
    assert STATES[wait_state("queue", LEAVES["FUTURE"])] == "waiting:queue"


def test_a_task_that_waits_for_nothing_is_runnable() -> None:
    assert STATES[wait_state("sleep", LEAVES["NONE"])] == "runnable"


def test_every_state_is_drawn_in_some_lane() -> None:
    lanes = [lane_of(group) for group in ("Tasks", "Loops", "Workers", "Threads")]
    drawn = {state.name for lane in lanes for state in lane.states}

    assert drawn == set(STATES)


def test_states_have_the_colours_of_their_classes() -> None:
    lanes = [lane_of(group) for group in ("Tasks", "Loops", "Workers", "Threads")]
    states = [state for lane in lanes for state in lane.states]
    classes = {state.name: class_of(state.name) for state in states}

    assert {state.name: state.color for state in states if classes[state.name]} == {
        name: found.light for name, found in classes.items() if found
    }
