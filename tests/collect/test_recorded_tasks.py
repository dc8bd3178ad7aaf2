"""What stands out of the tasks and the loops of recorded programs, with and without silence."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.model.columns import named
from meantime.model.trace import Flows, StateChanges, Trace
from meantime.query.explain import explain

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

S = 10**9

PROGRAMS = {
    "full": (
        """\
import asyncio, time
def render():
    end = time.thread_time() + 0.008
    while time.thread_time() < end: pass
async def widget():
    for _ in range(12):
        render(); await asyncio.sleep(0.01)
async def main(): await asyncio.gather(*(widget() for _ in range(12)))
asyncio.run(main())
""",
        ["the event loop was full for ", "render (app.py:4) used ", "tasks of widget (app.py:8)"],
    ),
    "drift": (
        """\
import asyncio, time
async def poll():
    for _ in range(60):
        end = time.thread_time() + 0.012
        while time.thread_time() < end: pass
        await asyncio.sleep(0.01)
asyncio.run(poll())
""",
        [
            "1 task of poll (app.py:7) paused for 1",
            " at poll (app.py:6), 59 times, and worked for ",
        ],
    ),
    "leak": (
        """\
import asyncio
async def audit(never): await never.wait()
async def handle(never):
    asyncio.create_task(audit(never))
    await asyncio.sleep(0.002)
async def main():
    never = asyncio.Event()
    for _ in range(60): await handle(never)
asyncio.run(main())
""",
        [
            "60 tasks of audit (app.py:4) were alive at the end, of 60 that were created, and new",
            " all in waiting:event at audit (app.py:2)",
        ],
    ),
    "deadline": (
        """\
import asyncio
async def fetch(n): await asyncio.sleep(5 if n % 3 == 0 else 0.001)
async def main():
    for n in range(36):
        task = asyncio.create_task(fetch(n))
        _, late = await asyncio.wait([task], timeout=0.06)
        for each in late: each.cancel()
asyncio.run(main())
""",
        [
            "12 of 36 tasks of fetch (app.py:5) were cancelled, by a deadline of ",
            " all in waiting:sleep at fetch (app.py:2)",
        ],
    ),
    "failed": (
        """\
import asyncio
async def store(n):
    await asyncio.sleep(0.001)
    if n % 4 == 0: raise ValueError
async def main():
    for n in range(40): await asyncio.gather(store(n), return_exceptions=True)
asyncio.run(main())
""",
        ["10 of 40 tasks of store (app.py:6) failed (25 %)", " at store (app.py:3)"],
    ),
    "repeated": (
        """\
import asyncio
async def fetch_row(n): await asyncio.sleep(0.001)
async def page():
    for n in range(25): await fetch_row(n)
async def main():
    for _ in range(8): await asyncio.create_task(page())
asyncio.run(main())
""",
        ["8 tasks of page (app.py:6) waited at fetch_row (app.py:2) 25 times each, one after"],
    ),
    "attempts": (
        """\
import asyncio
async def send(n):
    for attempt in range(4): await asyncio.sleep(0.05 * 2 ** attempt)
async def main(): await asyncio.gather(*(send(n) for n in range(4)))
asyncio.run(main())
""",
        ["4 tasks of send (app.py:4) paused at send (app.py:3) for longer each time", "16 pauses"],
    ),
    "semaphore": (
        """\
import asyncio
async def ask(gate):
    async with gate: await asyncio.sleep(0.02)
async def main():
    gate = asyncio.Semaphore(2)
    await asyncio.gather(*(ask(gate) for _ in range(40)))
asyncio.run(main())
""",
        ["38 tasks waited for a semaphore at ask (app.py:3) "],
    ),
}

WELL = {
    "workers": """\
import asyncio
async def fetch(n): await asyncio.sleep(0.004)
async def worker(queue):
    while True:
        await fetch(await queue.get())
        queue.task_done()
async def main():
    queue = asyncio.Queue()
    workers = [asyncio.create_task(worker(queue)) for _ in range(24)]
    for n in range(200): queue.put_nowait(n)
    await queue.join()
    for each in workers: each.cancel()
asyncio.run(main())
""",
    "connections": """\
import asyncio, random
async def pump(queue):
    while True:
        await queue.get()
        await asyncio.sleep(0.001)
async def main():
    queues = [asyncio.Queue() for _ in range(40)]
    tasks = [asyncio.create_task(pump(each)) for each in queues]
    for _ in range(200):
        random.choice(queues).put_nowait(1)
        await asyncio.sleep(0.002)
asyncio.run(main())
""",
    "hedged": """\
import asyncio, random
async def get(n): await asyncio.sleep(random.uniform(0.002, 0.03))
async def main():
    for _ in range(40):
        tasks = [asyncio.create_task(get(n)) for n in range(2)]
        _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in rest: each.cancel()
asyncio.run(main())
""",
    "stream": """\
import asyncio
async def read(reader):
    while await reader.readline(): pass
async def main():
    async def serve(reader, writer):
        for _ in range(60):
            writer.write(b"x\\n"); await asyncio.sleep(0.001)
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.create_task(read(reader))
        writer.close()
    server.close()
asyncio.run(main())
""",
    "timers": """\
import asyncio
async def tick(pause):
    for _ in range(int(0.6 / pause)):
        sum(range(1000)); await asyncio.sleep(pause)
async def main(): await asyncio.gather(tick(0.01), tick(0.02), tick(0.1))
asyncio.run(main())
""",
}


def _recording(folder: Path, program: str) -> History:
    (folder / "app.py").write_text(program)
    command = [sys.executable, "-m", "meantime", "record", "-q", "-o", "run.mtr", "--"]
    subprocess.run([*command, sys.executable, "app.py"], cwd=folder, check=True, timeout=60)
    return meantime.open(folder / "run.mtr")


def _padded(history: History, before_ns: int, after_ns: int) -> History:
    """Return a recording of the same program, in which nothing happened before and after."""
    trace = Trace("run.mtr", "recording", iter(()))
    lanes = [(lane, quarks) for lane, quarks in history.lanes if lane.kind == "state"]
    quarks = np.concatenate([quarks for _, quarks in lanes])
    number = {quark: row for row, quark in enumerate(quarks.tolist())}
    trace.paths += [history.attributes.path(quark) for quark in quarks.tolist()]
    trace.lanes += [lane for lane, _ in lanes]
    trace.tags += [dict(tag) for tag in history.tags]
    begin_ns, end_ns = history.bounds
    found = history.intervals(quarks, begin_ns, end_ns)
    states = named(found.value)
    flows = history.flows(quarks)
    trace.values += [*states.names, *flows.name.names]
    entity = np.array([number[quark] for quark in found.quark.tolist()], np.int32)
    order = np.argsort(found.start_ns, kind="stable")
    known = np.isin(flows.from_quark, quarks) & np.isin(flows.to_quark, quarks)
    source, target = (
        np.array([number[quark] for quark in ends[known].tolist()], np.int32)
        for ends in (flows.from_quark, flows.to_quark)
    )
    batches: list[StateChanges | Flows] = [
        StateChanges(
            (found.start_ns + before_ns)[order],
            entity[order],
            states.codes[order],
            found.tag[order],
        ),
        Flows(
            source,
            flows.from_ns[known] + before_ns,
            target,
            flows.to_ns[known] + before_ns,
            flows.name.codes[known] + np.int32(len(states.names)),
        ),
    ]
    # what had no end until the program ended does not go on in the silence
    last_ns = end_ns + before_ns
    still = np.unique(entity[found.end_ns >= end_ns])
    if after_ns and len(still):
        nothing = np.full(len(still), -1, np.int32)
        batches.append(StateChanges(np.full(len(still), last_ns), still, nothing, nothing))
    trace.batches = iter(batches)
    trace.bounds = (begin_ns, last_ns + after_ns)
    return meantime.build(trace)


def _about_tasks(history: History) -> list[str]:
    found = meantime.findings(history)
    return sorted(each.sentence for each in found if each.kind in {"contention", "tasks", "block"})


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_planted_cause_is_named_however_long_the_silence_around_it(
    tmp_path: Path, name: str
) -> None:
    program, phrases = PROGRAMS[name]
    history = _recording(tmp_path, program)
    found = _about_tasks(history)

    assert [each for each in found if all(phrase in each for phrase in phrases)], found

    @settings(max_examples=6, deadline=None)
    @given(st.integers(0, 3600 * S), st.integers(0, 3600 * S))
    def silence_changes_nothing(before_ns: int, after_ns: int) -> None:
        padded = _padded(history, before_ns, after_ns)

        assert _about_tasks(padded) == _about_tasks(_padded(history, 0, 0))
        sentences = [each.sentence for each in explain(padded).measures if each.is_notable]
        assert [each for each in sentences if all(phrase in each for phrase in phrases)]

    silence_changes_nothing()


@pytest.mark.parametrize("name", WELL)
def test_nothing_stands_out_of_the_tasks_of_a_healthy_program(tmp_path: Path, name: str) -> None:
    history = _recording(tmp_path, WELL[name])

    assert [each for each in meantime.findings(history) if each.kind == "tasks"] == []
    assert not [each for each in _about_tasks(history) if "loop was full" in each]
