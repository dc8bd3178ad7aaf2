"""What recording costs a program, and how fast a recording is read.

    python benchmarks/collect.py

Each workload runs unrecorded and recorded in turn, in this process, and the mean CPU time of the
faster half of each counts. One connection at a time: with several, slower steps make larger
batches of events, and a recorded server can come out faster than an unrecorded one.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
import threading
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import best_cpu_s, header

import meantime
from meantime.collect import _recorder
from meantime.readers import recording
from meantime.readers.recording.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 24
WAIT = 5
done = threading.Event()


async def steps(count: int) -> None:
    """Take steps that only yield."""
    for _ in range(count):
        await asyncio.sleep(0)


async def many_tasks(count: int) -> None:
    """Run tasks that wait for a semaphore, a queue and time."""
    queue: asyncio.Queue[int] = asyncio.Queue(100)
    semaphore = asyncio.Semaphore(50)

    async def put(number: int) -> None:
        async with semaphore:
            await queue.put(number)
            await asyncio.sleep(0.0001 * (number % 3))

    async def take() -> None:
        for _ in range(count):
            await queue.get()

    async with asyncio.TaskGroup() as group:
        group.create_task(take())
        for number in range(count):
            group.create_task(put(number))


async def gathered(count: int) -> None:
    """Gather tasks that do nothing."""

    async def nothing() -> None:
        pass

    await asyncio.gather(*(nothing() for _ in range(count)))


async def echo(count: int) -> None:
    """Send lines to a server and back, one at a time."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for _ in range(count):
        writer.write(b"hello\n")
        await reader.readline()
    writer.write_eof()
    await reader.read()
    writer.close()
    server.close()


async def aiohttp_requests(count: int) -> None:
    """Ask a web server, one request at a time."""
    # by name, as it need be installed neither to run the rest nor to check types
    aiohttp, web = import_module("aiohttp"), import_module("aiohttp.web")

    async def answer(_: object) -> object:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.get(f"http://{host}:{port}/") as response:
                await response.read()
    await runner.cleanup()


async def trio_steps(count: int) -> None:
    """Take steps that only yield, in trio."""
    import trio  # noqa: PLC0415 - not needed to run the rest

    for _ in range(count):
        await trio.lowlevel.checkpoint()


def compare(name: str, unit: str, run: Callable[[], object], count: int) -> None:
    """Print what one unit of a workload costs, unrecorded and recorded."""
    cost: dict[bool, list[float]] = {False: [], True: []}
    folder = Path(tempfile.mkdtemp())
    for number in range(ROUNDS):
        # neither always runs first, on caches that the other has left
        for recorded in (False, True) if number % 2 else (True, False):
            gc.collect()
            if recorded:
                meantime.start(folder / f"{number}.mtr")
            begin_ns = time.process_time_ns()
            run()
            cost[recorded].append((time.process_time_ns() - begin_ns) / count)
            if recorded:
                meantime.stop()
    shutil.rmtree(folder)
    # the mean of the faster half: the least of all is luck on a machine that others use
    without, recorded_ns = (sum(sorted(each)[: ROUNDS // 2]) * 2 / ROUNDS for each in cost.values())
    added = recorded_ns - without
    print(f"{name:28} {without:10,.0f} ns a {unit:8} {added:+8,.0f} ns {added / without:+7.1%}")


def events_and_reading() -> None:
    """Print what an event costs, and how fast a recording of them is read."""
    folder = Path(tempfile.mkdtemp())
    meantime.start(folder / "events.mtr")
    count = 4_000_000
    event_s = best_cpu_s(lambda: _recorder.emit_many(WAIT, count), times=3)
    meantime.stop()
    print(f"{'one event, to disk':28} {event_s / count * 1e9:10.1f} ns")

    meantime.start(folder / "steps.mtr")
    asyncio.run(steps(500_000))
    meantime.stop()

    def read() -> None:
        for _ in recording.read(folder / "steps.mtr").batches:
            pass

    events = sum(entry.stat().st_size for entry in folder.glob("steps.mtr/*.ev")) / 16
    seconds = best_cpu_s(read, times=3)
    print(f"{'reading a recording':28} {events / seconds / 1e6:10.1f} M events/s")
    packed = 0

    def write_packed() -> None:
        nonlocal packed
        packed = sum(map(len, pack(folder / "steps.mtr")))

    seconds = best_cpu_s(write_packed, times=3)
    size = f"{packed / events:.1f} bytes an event"
    print(f"{'packing it':28} {events / seconds / 1e6:10.1f} M events/s, {size}")
    shutil.rmtree(folder)


def call(depth: int, target: Callable[[], None]) -> None:
    """Call a function that deep."""
    if depth:
        call(depth - 1, target)
    else:
        target()


def sampler_share(target: Callable[[], None], depth: int) -> float:
    """Return what share of a processor the sampler takes while ten threads do this."""
    folder = Path(tempfile.mkdtemp())
    done.clear()
    threads = [threading.Thread(target=call, args=(depth, target)) for _ in range(10)]
    for thread in threads:
        thread.start()
    before = set(Path("/proc/self/task").iterdir())
    meantime.start(folder / "samples.mtr", trace="none", samples=100)
    (own,) = set(Path("/proc/self/task").iterdir()) - before
    # the kernel's name for the clock of a thread
    clock = ~int(own.name) << 3 | 6
    begin_ns, begin_cpu_ns = time.monotonic_ns(), time.clock_gettime_ns(clock)
    time.sleep(3)
    cpu_ns = time.clock_gettime_ns(clock) - begin_cpu_ns
    share = cpu_ns / (time.monotonic_ns() - begin_ns)
    done.set()
    for thread in threads:
        thread.join()
    meantime.stop()
    shutil.rmtree(folder)
    return share


def compute() -> None:
    """Compute until it is done."""
    while not done.is_set():
        sum(range(200))


def wait() -> None:
    """Wake up now and then until it is done."""
    while not done.wait(0.005):
        pass


def sampler() -> None:
    """Print what taking samples costs."""
    for name, target in (("compute", compute), ("wake up now and then", wait)):
        for depth in (5, 20):
            share = sampler_share(target, depth)
            print(f"100 samples/s, ten threads that {name}, {depth} calls deep: {share:.2%}")


def main() -> None:
    """Print everything."""
    print(header("collect"))
    events_and_reading()
    sampler()
    compare("asyncio, sleep(0)", "step", lambda: asyncio.run(steps(20_000)), 20_000)
    compare("10,000 tasks with queues", "task", lambda: asyncio.run(many_tasks(10_000)), 10_000)
    compare("gather of 10,000", "task", lambda: asyncio.run(gathered(10_000)), 10_000)
    compare("streams echo", "request", lambda: asyncio.run(echo(4_000)), 4_000)
    if find_spec("uvloop"):
        import uvloop  # noqa: PLC0415 - not needed to run the rest

        new: Any = uvloop.new_event_loop

        def on_uvloop() -> None:
            with asyncio.Runner(loop_factory=new) as runner:
                runner.run(steps(20_000))

        compare("uvloop, sleep(0)", "step", on_uvloop, 20_000)
    if find_spec("trio"):
        import trio  # noqa: PLC0415 - not needed to run the rest

        compare("trio, checkpoint()", "step", lambda: trio.run(trio_steps, 20_000), 20_000)
    if find_spec("aiohttp"):
        compare("aiohttp", "request", lambda: asyncio.run(aiohttp_requests(1_000)), 1_000)


if __name__ == "__main__":
    main()
