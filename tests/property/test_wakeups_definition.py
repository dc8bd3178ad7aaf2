"""What threads do between their runs, by their wake-ups, is that of a plain model in all formats.

A thread may be woken while it is still on its CPU, just before it leaves: then it waits for a CPU
from when it leaves, if it comes to one or is put on a queue next, rather than be woken once more.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.readers import ftrace, perf, perfetto
from meantime.readers.contract import ReadOptions
from meantime.readers.ctf import read_text
from meantime.readers.ctf.babeltrace import BabeltraceText
from meantime.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history import History

CPUS, THREADS = 2, 3
NAMES = {"S": "sleeping", "D": "blocked", "R": "runnable"}
_NUMBERS = {"R": 0, "S": 1, "D": 2}
BEGIN_NS = 10**9


class Event(NamedTuple):
    """A switch (`letter` is the state of the thread that leaves), or a wake-up of `other`."""

    time_ns: int
    cpu: int
    thread: int
    kind: str
    other: int
    letter: str = ""


@st.composite
def traces(draw: st.DrawFn, kinds: tuple[str, ...]) -> list[Event]:
    """Return what a scheduler does; each CPU is idle at first and at the end."""
    current = dict.fromkeys(range(CPUS), 0)
    events: list[Event] = []
    now = BEGIN_NS

    def switch(cpu: int, coming: int, letter: str) -> None:
        events.append(Event(now, cpu, current[cpu], "switch", coming, letter))
        current[cpu] = coming

    for cpu in current:
        switch(cpu, 0, "R")
        now += 1000
    for _ in range(draw(st.integers(1, 25))):
        now += 1000 * draw(st.integers(1, 3))
        cpu = draw(st.integers(0, CPUS - 1))
        kind = draw(st.sampled_from(("switch", *kinds)))
        if kind != "switch":
            woken = draw(st.integers(1, THREADS))
            events.append(Event(now, cpu, current[cpu], kind, woken))
            continue
        free = [each for each in range(1, THREADS + 1) if each not in current.values()]
        coming = draw(st.sampled_from([0, *free]))
        if coming != current[cpu]:
            letter = draw(st.sampled_from("SSDR")) if current[cpu] else "R"
            switch(cpu, coming, letter)
    for cpu, thread in current.items():
        now += 1000
        if thread:
            switch(cpu, 0, "S")
    return events


def plain_states(events: list[Event], thread: int) -> list[tuple[int, str]]:
    """Return when the states of a thread begin, and what they are."""
    own = [
        ("in" if event.other == thread and event.kind == "switch" else "out", event)
        if event.kind == "switch"
        else (event.kind, event)
        for event in events
        if event.other == thread or (event.kind == "switch" and event.thread == thread)
    ]
    found: list[tuple[int, str]] = []
    runs = woken = False

    def put(time_ns: int, state: str) -> None:
        if not found or found[-1][1] != state:
            found.append((time_ns, state))

    for index, (what, event) in enumerate(own):
        if what == "in":
            put(event.time_ns, "running")
            runs, woken = True, False
        elif what == "out":
            runs = False
            after = own[index + 1][0] if index + 1 < len(own) else ""
            waits = woken and after in {"in", "wakeup"}
            put(event.time_ns, "runnable" if waits else NAMES[event.letter])
        elif runs:
            # a thread that is put on a queue while it runs has not slept
            woken = what == "waking"
        else:
            put(event.time_ns, "runnable")
    return found


def _name(thread: int) -> str:
    return f"t{thread}" if thread else "swapper"


def _fields(event: Event) -> str:
    if event.kind == "switch":
        return (
            f"prev_comm={_name(event.thread)} prev_pid={event.thread} prev_prio=120"
            f" prev_state={event.letter} ==> next_comm={_name(event.other)}"
            f" next_pid={event.other} next_prio=120"
        )
    return f"comm={_name(event.other)} pid={event.other} prio=120 target_cpu=000"


def _lines(events: list[Event], between: str) -> str:
    return "".join(
        f"{_name(event.thread)}{between}{event.thread} [{event.cpu:03}] {event.time_ns // 10**9}."
        f"{event.time_ns % 10**9:09}: sched{'_' if between == '-' else ':sched_'}{event.kind}:"
        f" {_fields(event)}\n"
        for event in events
    )


def _of_ftrace(events: list[Event]) -> History:
    text = "# tracer: nop\n" + _lines(events, "-")
    return meantime.build(ftrace.read(Source("x", BytesIO(text.encode())), ReadOptions()))


def _of_perf(events: list[Event]) -> History:
    source = Source("x", BytesIO(_lines(events, " ").encode()))
    return meantime.build(perf.read(source, ReadOptions()))


def _of_ctf(events: list[Event]) -> History:
    rows = []
    for event in events:
        if event.kind == "switch":
            fields = (
                f'prev_comm = "{_name(event.thread)}", prev_tid = {event.thread}, prev_prio = 20,'
                f' prev_state = {_NUMBERS[event.letter]}, next_comm = "{_name(event.other)}",'
                f" next_tid = {event.other}, next_prio = 20"
            )
        else:
            fields = (
                f'comm = "{_name(event.other)}", tid = {event.other}, prio = 20, target_cpu = 0'
            )
        time = f"{event.time_ns // 10**9}.{event.time_ns % 10**9:09}"
        rows.append(
            f"[{time}] host sched_{event.kind}: {{ cpu_id = {event.cpu} }}, {{ {fields} }}\n"
        )
    running = BabeltraceText("trace", BytesIO("".join(rows).encode()), is_old=False)
    return meantime.build(read_text(running, ReadOptions()))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _message(*fields: tuple[int, int | bytes]) -> bytes:
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += _varint(number << 3) + _varint(value)
        else:
            found += _varint(number << 3 | 2) + _varint(len(value)) + value
    return found


def _of_perfetto(events: list[Event]) -> History:
    packets = []
    for event in events:
        if event.kind == "switch":
            number, body = 4, _message(
                (1, _name(event.thread).encode()), (2, event.thread), (3, 120),
                (4, _NUMBERS[event.letter]), (5, _name(event.other).encode()), (6, event.other),
                (7, 120),
            )  # fmt: skip
        else:
            number = {"waking": 20, "wakeup": 17}[event.kind]
            body = _message((1, _name(event.other).encode()), (2, event.other), (3, 120), (5, 0))
        one = _message((1, event.time_ns), (2, event.thread), (number, body))
        bundle = _message((1, event.cpu), (2, one))
        packets.append((1, _message((1, bundle))))
    data = _message(*packets)
    return meantime.build(perfetto.read(Source("x", BytesIO(data)), ReadOptions()))


READERS: dict[str, Callable[[list[Event]], History]] = {
    "ftrace": _of_ftrace,
    "perf": _of_perf,
    "ctf": _of_ctf,
    "perfetto": _of_perfetto,
}


@pytest.mark.parametrize("format_", READERS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_threads_are_in_the_states_of_a_plain_model(format_: str, data: st.DataObject) -> None:
    kinds = data.draw(st.sampled_from([("waking",), ("waking", "wakeup"), ("wakeup",)]))
    events = data.draw(traces(kinds))
    history = READERS[format_](events)

    shift_ns = history.bounds[0] - BEGIN_NS
    for thread in range(1, THREADS + 1):
        found: list[tuple[int, str]] = []
        if history.find(f"Threads/{thread}/Status") is not None:
            for each in history.intervals(f"Threads/{thread}/Status", *history.bounds):
                if each.value is not None and (not found or found[-1][1] != each.value):
                    start_ns = max(each.start_ns, history.bounds[0])
                    found.append((start_ns - shift_ns, str(each.value)))
        assert found == plain_states(events, thread)
