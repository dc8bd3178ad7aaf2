"""The kernels that read recordings agree with plain definitions of what records mean."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import records
from meantime.providers.tasks import FLOWS, STATES, flow_codes, task_states

if TYPE_CHECKING:
    from meantime.kernels.tasks import TaskStates
    from meantime.model.columns import Int64s

U32 = st.integers(0, 2**32 - 1)
PAYLOAD = 128


class Record(NamedTuple):
    time_ns: int
    kind: int
    ident: int
    aux: int
    payload: list[int]


@st.composite
def any_records(draw: st.DrawFn) -> list[Record]:
    found = []
    for _ in range(draw(st.integers(0, 12))):
        time_ns, ident = draw(st.integers(0, 50)), draw(U32)
        kind = draw(st.sampled_from([1, 5, 11, 127, 128, 134, 255]))
        if kind >= PAYLOAD:
            size = draw(st.integers(0, 40))
            words = draw(
                st.lists(
                    st.integers(0, 2**64 - 1),
                    min_size=(size + 15) // 16 * 2,
                    max_size=(size + 15) // 16 * 2,
                )
            )
            found.append(Record(time_ns, kind, ident, size, words))
        else:
            found.append(Record(time_ns, kind, ident, draw(U32), []))
    return found


def words_of(found: list[Record]) -> list[int]:
    words = []
    for record in found:
        words += [record.time_ns << 8 | record.kind, record.ident | record.aux << 32]
        words += record.payload
    return words


@given(any_records(), st.integers(1, 15), st.integers(0, 6), st.integers(0, 9))
def test_records_are_counted_up_to_a_limit_a_zero_or_a_cut(
    found: list[Record], limit: int, cut: int, zeros: int
) -> None:
    words = words_of(found)
    kept = words[: len(words) - 2 * cut] if cut else words
    whole, used = [], 0
    for record in found[:limit]:
        size = 2 + len(record.payload)
        if used + size > len(kept):
            break
        whole.append(record)
        used += size

    counted = records.count(np.array(kept + [0] * 2 * zeros * (not cut), np.uint64), limit)

    with_payload = sum(record.kind >= PAYLOAD for record in whole)
    assert counted == (len(whole), with_payload, used)


@given(any_records(), st.integers(0, 100), st.integers(0, 120))
def test_records_are_decoded_and_times_never_go_back(
    found: list[Record], base_ns: int, latest_ns: int
) -> None:
    rows = len(found)
    payloads = sum(record.kind >= PAYLOAD for record in found)
    time_ns, kind = np.empty(rows, np.int64), np.empty(rows, np.uint8)
    ident, aux = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    payload_row, payload_word = np.empty(payloads, np.int64), np.empty(payloads, np.int64)
    backwards = records.decode(
        np.array(words_of(found), np.uint64),
        base_ns,
        latest_ns,
        *(time_ns, kind, ident, aux, payload_row, payload_word),
    )

    expected_ns, at, places, went_back = [], 0, [], 0
    for row, record in enumerate(found):
        went_back += record.time_ns + base_ns < latest_ns
        latest_ns = max(latest_ns, record.time_ns + base_ns)
        expected_ns.append(latest_ns)
        at += 2
        if record.kind >= PAYLOAD:
            places.append((row, at))
        at += len(record.payload)
    assert time_ns.tolist() == expected_ns
    assert backwards == went_back
    assert kind.tolist() == [record.kind for record in found]
    assert ident.tolist() == [record.ident for record in found]
    assert aux.tolist() == [record.aux for record in found]
    assert list(zip(payload_row.tolist(), payload_word.tolist(), strict=True)) == places


@given(st.lists(st.binary(max_size=12) | st.from_regex(rb"[0-9]{0,11}\x00[a\x00]*")))
def test_numbers_before_texts_are_read(texts: list[bytes]) -> None:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    begins = ends - [len(text) for text in texts]
    number, after = np.empty((2, len(texts)), np.int64)

    joined = b"".join(texts)
    records.leading_numbers(joined, begins.astype(np.int64), ends, number, after)

    parts = [text.partition(b"\0") for text in texts]
    assert number.tolist() == [
        int(first) if first.isdigit() and len(first) <= 9 else 0 for first, _, _ in parts
    ]
    rests = zip(after.tolist(), ends.tolist(), strict=True)
    assert [joined[begin:end] for begin, end in rests] == [rest for _, _, rest in parts]


@given(st.lists(st.lists(st.integers(0, 9), max_size=8).map(sorted), max_size=6))
def test_runs_are_merged_stably(runs: list[list[int]]) -> None:
    time_ns = np.array([time for run in runs for time in run], np.int64)
    offsets = np.cumsum([0, *map(len, runs)]).astype(np.int64)
    order = np.empty(len(time_ns), np.int64)

    records.merge(time_ns, offsets, order)

    assert order.tolist() == np.argsort(time_ns, kind="stable").tolist()


SPAWN, KNOWN, START, THROW, WAIT, CANCELLING, COMPLETED, WAKE = 1, 2, 3, 4, 5, 6, 7, 11
PLACES = 4
OUTCOMES = {6: "cancelling", 7: "completed", 8: "failed", 9: "cancelled", 10: "dropped"}
WAITS = ["waiting", "waiting:sleep", "waiting:lock", "waiting:future"]


class Step(NamedTuple):
    """A row that a program could have written, or that may have been lost around."""

    stream: int
    kind: int
    task: int
    aux: int


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Return what loops on three streams of two processes may write, in order of time."""
    steps: list[Step] = []
    running: dict[int, list[int]] = {0: [], 1: [], 2: []}
    known: dict[int, set[int]] = {0: set(), 1: set()}
    for _ in range(draw(st.integers(0, 30))):
        stream = draw(st.sampled_from([0, 1, 2]))
        process = PROCESS_OF[stream]
        place = draw(st.integers(0, PLACES))
        stack = running[stream]
        elsewhere = {task for other in running.values() for task in other}
        action = draw(st.sampled_from(["spawn", "start", "leave", "leave", "wake", "known"]))
        if action == "spawn":
            task = sum(step.kind == SPAWN for step in steps) + 1
            known[process].add(task)
            steps.append(Step(stream, SPAWN, task, place))
        elif action == "start" and known[process] - elsewhere:
            task = draw(st.sampled_from(sorted(known[process] - elsewhere)))
            stack.append(task)
            steps.append(Step(stream, draw(st.sampled_from([START, THROW])), task, place))
        elif action == "leave" and stack:
            task = stack.pop()
            kind = draw(st.sampled_from([WAIT, WAIT, CANCELLING, 7, 8, 9, 10]))
            if kind >= COMPLETED:
                known[process].discard(task)
            steps.append(Step(stream, kind, task, place))
        elif action == "wake":
            # of tasks that nobody has heard of, too
            waker = draw(st.integers(0, 3))
            steps.append(Step(stream, WAKE, draw(st.integers(1, 40)), waker))
        elif action == "known" and known[process]:
            steps.append(Step(stream, KNOWN, draw(st.sampled_from(sorted(known[process]))), place))
    return steps


PROCESS_OF = [0, 0, 1]

Change = tuple[int, int, "str | None", int]
Flow = tuple[str, int, int, int]


def definition(steps: list[Step]) -> tuple[dict[int, list[Change]], list[Flow]]:  # noqa: C901 - a case for each kind of record
    """Say what tasks did, each by itself, and who spawned and woke whom; task ids are unique."""
    changes: dict[int, list[Change]] = defaultdict(list)
    state: dict[int, str | None] = {}
    stacks: dict[int, list[int]] = defaultdict(list)
    flows: list[Flow] = []
    process_of: dict[int, int] = {}

    for time_ns, (stream, kind, task, aux) in enumerate(steps):
        process, stack = PROCESS_OF[stream], stacks[stream]
        if kind in (WAIT, CANCELLING, WAKE) and process_of.get(task) != process:
            continue
        process_of.setdefault(task, process)
        place = -1 if aux in (0, PLACES) else process * PLACES + aux
        if kind == SPAWN:
            now = "spawned"
            if stack:
                flows.append(("spawn", stack[-1], task, time_ns))
        elif kind in (START, THROW):
            now = "running"
            stack.append(task)
        elif kind == WAKE:
            if state.get(task) is None or state[task] in ("running", "runnable", "spawned"):
                continue
            now, place = "runnable", -1
            if process_of.get(aux) == process:
                flows.append(("wake", aux, task, time_ns))
        elif kind == KNOWN:
            continue
        else:
            stack.remove(task)
            now = OUTCOMES.get(kind, WAITS[place % PLACES if place >= 0 else 0])
        state[task] = now
        changes[task].append((time_ns * 10, task, now, place))
        if COMPLETED <= kind <= 10:
            state[task] = None
            changes[task].append((time_ns * 10 + 1, task, None, -1))
    return changes, [(name, left, right, time_ns * 10) for name, left, right, time_ns in flows]


def read(steps: list[Step], cuts: list[int]) -> tuple[list[Change], list[Flow], TaskStates]:
    states = task_states()
    states.extend(
        np.array(PROCESS_OF, np.int32),
        np.array([-1, -1], np.int32),
        np.array([STATES.index(name) for name in WAITS * 2], np.int8),
        np.repeat(np.arange(2, dtype=np.int32), PLACES),
        np.tile(np.arange(PLACES, dtype=np.uint32), 2),
    )
    columns = np.array([(n * 10, *step) for n, step in enumerate(steps)], np.int64).reshape(-1, 5)
    times: Int64s = columns[:, 0].copy()
    places = sorted({0, len(steps), *(min(cut, len(steps)) for cut in cuts)})
    for begin, end in pairwise(places):
        states.feed(
            times,
            columns[:, 1].astype(np.int32),
            columns[:, 2].astype(np.uint8),
            columns[:, 3].astype(np.uint32),
            columns[:, 4].astype(np.uint32),
            np.arange(begin, end),
        )
    task_of = states.entities_since(0)[2].tolist()
    changes = [
        (time_ns, task_of[entity], STATES[state] if state >= 0 else None, tag)
        for time_ns, entity, state, tag in zip(
            *(column.tolist() for column in states.take_changes()), strict=True
        )
    ]
    left, _, right, to_ns, kinds = states.take_flows()
    flows = [
        (FLOWS[code], task_of[by], task_of[to], time_ns)
        for code, by, to, time_ns in zip(
            *(column.tolist() for column in (flow_codes(kinds), left, right, to_ns)), strict=True
        )
    ]
    return changes, flows, states


@given(programs(), st.lists(st.integers(0, 30), max_size=3))
def test_tasks_are_in_the_states_that_their_records_say(steps: list[Step], cuts: list[int]) -> None:
    changes, flows, states = read(steps, cuts)

    expected, expected_flows = definition(steps)
    assert changes == sorted(
        (change for each in expected.values() for change in each), key=lambda change: change[0]
    )
    assert flows == expected_flows
    # when a process ends, nothing is known any more of what is alive in it
    states.finish(0, 1000)
    ended = states.take_changes()
    alive = {
        task
        for task, each in expected.items()
        if each[-1][2] is not None and PROCESS_OF[_stream_of(steps, task)] == 0
    }
    heard = {step.task for step in steps if PROCESS_OF[step.stream] == 0 and step.kind == KNOWN}
    task_of = states.entities_since(0)[2].tolist()
    named = {task_of[entity] for entity in ended[1].tolist()}
    assert alive <= named <= alive | heard
    assert set(ended[2].tolist()) <= {-1}


def _stream_of(steps: list[Step], task: int) -> int:
    return next(step.stream for step in steps if step.task == task and step.kind != WAKE)
