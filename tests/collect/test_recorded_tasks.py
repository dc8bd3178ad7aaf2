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
    "leak of trio": (
        """\
import trio
async def watch(): await trio.sleep_forever()
async def main():
    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(watch)
            await trio.sleep(0.002)
        nursery.cancel_scope.cancel()
trio.run(main)
""",
        ["60 tasks of watch (app.py:6) were alive at the end, of 60 that were created"],
    ),
    "channel of trio": (
        """\
import trio
async def produce(channel):
    for n in range(15): await channel.send(n)
async def consume(channel):
    async for item in channel: await trio.sleep(0.01)
async def main():
    sends, receives = trio.open_memory_channel(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume, receives)
        async with trio.open_nursery() as producers:
            for _ in range(4): producers.start_soon(produce, sends)
        await sends.aclose()
trio.run(main)
""",
        ["4 tasks waited for room in a queue at produce (app.py:3) "],
    ),
    "gil": (
        """\
import threading
def crunch():
    for _ in range(20): sum(n * n for n in range(60000))
threads = [threading.Thread(target=crunch) for _ in range(6)]
for each in threads: each.start()
for each in threads: each.join()
""",
        ["6 threads of crunch (app.py:2) waited for the GIL ", "more of them would not help"],
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
    "destroyed": (
        """\
import asyncio, gc
async def notify(): await asyncio.get_running_loop().create_future()
async def main():
    for _ in range(30):
        asyncio.create_task(notify())
        await asyncio.sleep(0.002)
        gc.collect()
asyncio.run(main())
""",
        [
            " of 30 tasks of notify (app.py:5) were destroyed before they ended, as nothing refers",
            " in waiting:future at notify (app.py:2)",
        ],
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
        [
            "38 tasks waited for a semaphore at ask (app.py:3) ",
            "ask (app.py:6), which had it, were in waiting:sleep at ask (app.py:3) for 9",
        ],
    ),
    "lock": (
        """\
import asyncio
async def refresh(lock):
    while True:
        async with lock: await asyncio.sleep(0.1)
        await asyncio.sleep(0.01)
async def read(lock):
    async with lock: pass
async def main():
    lock = asyncio.Lock()
    asyncio.create_task(refresh(lock))
    for _ in range(4):
        await asyncio.sleep(0.005)
        await asyncio.gather(*(read(lock) for _ in range(5)))
asyncio.run(main())
""",
        [
            " tasks waited for a lock at read (app.py:7) ",
            "refresh (app.py:10), which had it, were in waiting:sleep at refresh (app.py:4) for 9",
        ],
    ),
    "connections": (
        """\
import asyncio
async def query(pool):
    connection = await pool.get()
    await asyncio.sleep(0.01)
    pool.put_nowait(connection)
async def client(pool):
    for _ in range(6): await query(pool)
async def main():
    pool = asyncio.Queue()
    for number in range(2): pool.put_nowait(number)
    await asyncio.gather(*(client(pool) for _ in range(20)))
asyncio.run(main())
""",
        [
            " tasks waited for an item of a queue that others bring back at query (app.py:3) ",
            "client (app.py:11), which had one, were in waiting:sleep at query (app.py:4) for 9",
        ],
    ),
    "full queue": (
        """\
import asyncio
async def produce(queue):
    for n in range(15): await queue.put(n)
async def consume(queue):
    while True:
        await queue.get()
        await asyncio.sleep(0.01)
async def main():
    queue = asyncio.Queue(5)
    asyncio.create_task(consume(queue))
    await asyncio.gather(*(produce(queue) for _ in range(4)))
asyncio.run(main())
""",
        [
            "4 tasks waited for room in a queue at produce (app.py:3) ",
            "consume (app.py:10), which take items from it, were in waiting:sleep at consume (",
        ],
    ),
    "condition": (
        """\
import asyncio
free = 2
async def use(condition):
    global free
    async with condition:
        await condition.wait_for(lambda: free)
        free -= 1
    await asyncio.sleep(0.02)
    async with condition:
        free += 1; condition.notify()
async def main():
    condition = asyncio.Condition()
    await asyncio.gather(*(use(condition) for _ in range(30)))
asyncio.run(main())
""",
        [
            "28 tasks waited for a condition that others of them meet at use (app.py:6) ",
            "use (app.py:13), which met it, were in waiting:sleep at use (app.py:8) for 9",
        ],
    ),
    "event": (
        """\
import asyncio
async def warm(ready):
    await asyncio.sleep(0.5)
    ready.set()
async def handle(ready):
    await ready.wait()
    await asyncio.sleep(0.01)
async def main():
    ready = asyncio.Event()
    await asyncio.gather(warm(ready), *(handle(ready) for _ in range(8)))
asyncio.run(main())
""",
        [
            "8 tasks waited for an event at handle (app.py:6) 9",
            "warm (app.py:10), which set it, were in waiting:sleep at warm (app.py:3) for 9",
        ],
    ),
    "deadlock": (
        """\
import asyncio
async def debit(a, b):
    async with a:
        await asyncio.sleep(0.01)
        async with b: pass
async def credit(a, b):
    async with b:
        await asyncio.sleep(0.01)
        async with a: pass
async def main():
    a, b = asyncio.Lock(), asyncio.Lock()
    await asyncio.wait([asyncio.create_task(each(a, b)) for each in (debit, credit)], timeout=1)
asyncio.run(main())
""",
        [
            "2 tasks waited to the end for locks that they never got: ",
            "debit (app.py:12) at debit (app.py:5)",
            "credit (app.py:12) at credit (app.py:9)",
        ],
    ),
    "threads": (
        """\
import threading, time
lock = threading.Lock()
def work():
    for _ in range(20):
        with lock: time.sleep(0.01)
threads = [threading.Thread(target=work) for _ in range(6)]
for each in threads: each.start()
for each in threads: each.join()
""",
        [
            "6 threads of work (app.py:3) waited ",
            " for a lock that others of them had, up to ",
            "whoever had it was sleeping for 9",
        ],
    ),
    "lock of a thread": (
        """\
import asyncio, threading, time
lock = threading.Lock()
def refresh():
    while True:
        with lock: time.sleep(0.2)
        time.sleep(0.05)
async def lookup():
    with lock: pass
async def main():
    threading.Thread(target=refresh, daemon=True, name="refresher").start()
    for _ in range(5):
        await asyncio.sleep(0.03)
        await lookup()
asyncio.run(main())
""",
        ["lookup (app.py:8), called by main (app.py:13), blocked", " refresh (app.py:3), had the "],
    ),
    "pool": (
        """\
import asyncio, time
from concurrent.futures import ThreadPoolExecutor
POOL = ThreadPoolExecutor(2)
def resize(): time.sleep(0.05)
async def handle(): await asyncio.get_running_loop().run_in_executor(POOL, resize)
async def main(): await asyncio.gather(*(handle() for _ in range(20)))
asyncio.run(main())
""",
        [
            "work for the 2 threads of ThreadPoolExecutor-0 waited for a free one",
            "resize (app.py:4) took 100 % of the threads' time, mostly in sleeping",
            "tasks of handle (app.py:6) submitted it",
        ],
    ),
}

# What limits threads, explain says of all of them together.
WITHOUT_LOOPS = {"gil", "threads"}

WELL = {
    "pipeline": """\
import asyncio
async def stage(taken, given):
    while (item := await taken.get()) is not None:
        await asyncio.sleep(0.001)
        await given.put(item)
    await given.put(None)
async def feed(queue):
    for n in range(100):
        await queue.put(n)
        await asyncio.sleep(0.005)
    await queue.put(None)
async def main():
    queues = [asyncio.Queue(10) for _ in range(4)]
    tasks = [asyncio.create_task(stage(*pair)) for pair in zip(queues, queues[1:])]
    tasks.append(asyncio.create_task(feed(queues[0])))
    while await queues[-1].get() is not None: pass
asyncio.run(main())
""",
    "subscribers": """\
import asyncio
async def heartbeat():
    while True: await asyncio.sleep(0.05)
async def connection(queue):
    beat = asyncio.create_task(heartbeat())
    for _ in range(20): await queue.get()
    beat.cancel()
async def publish(queues):
    while True:
        for each in queues: each.put_nowait(1)
        await asyncio.sleep(0.02)
async def main():
    queues, tasks = [], []
    publisher = asyncio.create_task(publish(queues))
    for _ in range(30):
        queues.append(asyncio.Queue())
        tasks.append(asyncio.create_task(connection(queues[-1])))
        await asyncio.sleep(0.02)
    await asyncio.gather(*tasks)
    publisher.cancel()
asyncio.run(main())
""",
    "threads": """\
import queue, threading, time
work = queue.Queue()
def worker():
    while work.get() is not None: sum(range(10000)); time.sleep(0.002)
threads = [threading.Thread(target=worker) for _ in range(4)]
for each in threads: each.start()
for n in range(100): work.put(n); time.sleep(0.005)
for _ in threads: work.put(None)
for each in threads: each.join()
""",
    "start": """\
import asyncio
async def serve(started, stop):
    await started.wait()
    for _ in range(20): await asyncio.sleep(0.01)
    await stop.wait()
async def main():
    started, stop = asyncio.Event(), asyncio.Event()
    tasks = [asyncio.create_task(serve(started, stop)) for _ in range(8)]
    await asyncio.sleep(0.02)
    started.set()
    await asyncio.sleep(0.6)
    stop.set()
    await asyncio.gather(*tasks)
asyncio.run(main())
""",
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
    subprocess.run([*command, sys.executable, "app.py"], cwd=folder, check=True, timeout=600)
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
        if name in WITHOUT_LOOPS:
            return
        sentences = [each.sentence for each in explain(padded).measures if each.is_notable]
        assert [each for each in sentences if all(phrase in each for phrase in phrases)]

    silence_changes_nothing()


@pytest.mark.parametrize("name", WELL)
def test_nothing_stands_out_of_the_tasks_of_a_healthy_program(tmp_path: Path, name: str) -> None:
    history = _recording(tmp_path, WELL[name])

    assert [each.sentence for each in meantime.findings(history) if each.kind != "block"] == []
