"""What recording costs a program, and how fast a recording is read.

    python benchmarks/collect.py [PART OF A WORKLOAD'S NAME]

Each workload runs unrecorded, recorded, and under VizTracer and py-spy if they are installed, in
turn, each time in a process of its own, and the mean CPU time of the faster half of each counts;
that of py-spy's own process is included. In one process, each start and stop of a recording makes
the interpreter specialise its bytecode again, which can cost more than recording does.

Servers are asked by this process, on another CPU, one request at a time on one connection: with
several, slower steps make larger batches of events, and a recorded server can come out faster than
an unrecorded one. Only the CPU time of the server's process counts.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import best_cpu_s, header

import meantime
from meantime.collect import _recorder
from meantime.readers import recording
from meantime.readers.recording.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 16
# of a server: how many blocks of how many requests
BLOCKS, BLOCK = 40, 100
CPUS = sorted(os.sched_getaffinity(0))
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


async def trio_steps(count: int) -> None:
    """Take steps that only yield, in trio."""
    import trio  # noqa: PLC0415 - not needed to run the rest

    for _ in range(count):
        await trio.lowlevel.checkpoint()


async def serve_uvicorn(listening: socket.socket) -> None:
    """Serve requests by uvicorn until the process is ended."""
    uvicorn = import_module("uvicorn")

    async def app(_scope: object, _receive: object, send: Callable[[object], Any]) -> None:
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    config = uvicorn.Config(app, lifespan="off", log_level="warning", access_log=False)
    # serve() would handle signals
    await uvicorn.Server(config)._serve([listening])  # noqa: SLF001


async def serve_aiohttp(listening: socket.socket) -> None:
    """Serve requests by aiohttp until the process is ended."""
    # by name, as it need be installed neither to run the rest nor to check types
    web = import_module("aiohttp.web")

    async def answer(_: object) -> object:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    await asyncio.Event().wait()


def on_asyncio(run: Callable[[Any], Any]) -> Callable[[Any], object]:
    """Return what runs a workload on a loop of asyncio."""
    return lambda given: asyncio.run(run(given))


def on_uvloop(run: Callable[[Any], Any]) -> Callable[[Any], object]:
    """Return what runs a workload on a loop of uvloop."""

    def runs(given: Any) -> None:
        new: Any = import_module("uvloop").new_event_loop
        with asyncio.Runner(loop_factory=new) as runner:
            runner.run(run(given))

    return runs


def on_trio(run: Callable[[int], Any]) -> Callable[[int], object]:
    """Return what runs a workload in trio."""
    return lambda count: import_module("trio").run(run, count)


class Workload(NamedTuple):
    """Something to measure: what it counts, what runs that many, and what must be installed."""

    unit: str
    run: Callable[[int], object]
    size: int
    needs: tuple[str, ...] = ()


WORKLOADS = {
    "asyncio, sleep(0)": Workload("step", on_asyncio(steps), 100_000),
    "10,000 tasks with queues": Workload("task", on_asyncio(many_tasks), 10_000),
    "gather of 10,000": Workload("task", on_asyncio(gathered), 10_000),
    "streams echo": Workload("request", on_asyncio(echo), 8_000),
    "uvloop, sleep(0)": Workload("step", on_uvloop(steps), 200_000, ("uvloop",)),
    "trio, checkpoint()": Workload("step", on_trio(trio_steps), 60_000, ("trio",)),
}


# Each runs a server of a listening socket.
SERVERS: dict[str, tuple[Callable[[socket.socket], object], tuple[str, ...]]] = {
    "aiohttp": (on_asyncio(serve_aiohttp), ("aiohttp",)),
    "aiohttp on uvloop": (on_uvloop(serve_aiohttp), ("aiohttp", "uvloop")),
    "uvicorn": (on_asyncio(serve_uvicorn), ("uvicorn",)),
    "uvicorn on uvloop": (on_uvloop(serve_uvicorn), ("uvicorn", "uvloop")),
}


def process_cpu_ns(pid: int) -> int:
    """Return the CPU time of another process."""
    # the kernel's name for the clock of a process
    return time.clock_gettime_ns(~pid << 3 | 2)


def start_observer(observer: str, folder: Path) -> Any:
    """Observe this process, unless another process has to do that; return what stops it."""
    if observer == "meantime":
        meantime.start(folder / "cost.mtr")
        return meantime.stop
    if observer == "viztracer":
        tracer: Any = import_module("viztracer").VizTracer(verbose=0)
        tracer.start()
        return lambda: (tracer.stop(), tracer.clear())
    return lambda: None


def start_sampler(observer: str, pid: int, folder: Path) -> subprocess.Popen[str] | None:
    """Return the process that observes another one, if that needs one."""
    if observer != "py-spy":
        return None
    output = ["--format", "raw", "--output", str(folder / "samples")]
    command = ["py-spy", "record", "--pid", str(pid), "--rate", "100", *output]
    sampler = subprocess.Popen([*command, "--duration", "3600"], stdout=subprocess.PIPE, text=True)
    assert sampler.stdout is not None
    # it has read the interpreter's symbols when it says that it samples
    while "Sampling" not in (line := sampler.stdout.readline()):
        if not line:
            raise SystemExit("py-spy cannot sample this process")
    return sampler


def stop_sampler(sampler: subprocess.Popen[str] | None) -> None:
    """End the process that observes another one."""
    if sampler:
        sampler.send_signal(signal.SIGINT)
        sampler.wait()


def cost_ns(name: str, observer: str) -> float:
    """Return what one unit of a workload costs, in this process and in its observer's."""
    run, count = WORKLOADS[name].run, WORKLOADS[name].size
    folder = Path(tempfile.mkdtemp())
    stop = start_observer(observer, folder)
    sampler = start_sampler(observer, os.getpid(), folder)
    # the interpreter specialises bytecode that has run for a while
    run(max(1, count // 20))
    gc.collect()
    sampler_ns = process_cpu_ns(sampler.pid) if sampler else 0
    begin_ns = time.process_time_ns()
    run(count)
    end_ns = time.process_time_ns()
    if sampler:
        end_ns += process_cpu_ns(sampler.pid) - sampler_ns
    stop_sampler(sampler)
    stop()
    shutil.rmtree(folder)
    return (end_ns - begin_ns) / count


def observers() -> list[str]:
    """Return what can observe a workload here, after nothing and ourselves."""
    peers = ["viztracer"] if find_spec("viztracer") else []
    return ["nothing", "meantime", *peers, *(["py-spy"] if shutil.which("py-spy") else [])]


def compare(name: str) -> None:
    """Print what one unit of a workload costs, unrecorded, recorded and under our peers."""
    cost: dict[str, list[float]] = {observer: [] for observer in observers()}
    for number in range(ROUNDS):
        # the same order of sets and dictionaries in all
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        # none always runs first, on caches that another has left
        for observer in list(cost) if number % 2 else reversed(cost):
            command = [sys.executable, __file__, "--cost", name, observer]
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            cost[observer].append(float(done.stdout))
    # the mean of the faster half: the least of all is luck on a machine that others use
    means = {each: sum(sorted(costs)[: ROUNDS // 2]) * 2 / ROUNDS for each, costs in cost.items()}
    without = means.pop("nothing")
    print(f"{name:28} {without:10,.0f} ns a {WORKLOADS[name].unit}")
    for observer, mean in means.items():
        added = mean - without
        print(f"  {observer:26} {added:+10,.0f} ns {added / without:+7.1%}")


def serve(name: str, observer: str, folder: Path) -> None:
    """Print the port of a server, and serve until the process is ended."""
    start_observer(observer, folder)
    # asyncio sends small packets at once only where the socket says that it is of TCP
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    SERVERS[name][0](listening)


class Served(NamedTuple):
    """A server that is asked: its process, what observes that, and the connection to it."""

    process: subprocess.Popen[str]
    sampler: subprocess.Popen[str] | None
    connection: socket.socket
    folder: Path

    @classmethod
    def of(cls, name: str, observer: str, seed: int) -> Served:
        """Start a server."""
        folder = Path(tempfile.mkdtemp())
        command = [sys.executable, __file__, "--serve", name, observer, str(folder)]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        # on another CPU than this process, if there is one; what threads it starts inherit that
        os.sched_setaffinity(process.pid, {CPUS[0]})
        assert process.stdout is not None
        connection = socket.create_connection(("127.0.0.1", int(process.stdout.readline())))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(process, start_sampler(observer, process.pid, folder), connection, folder)

    def cost_ns(self, count: int) -> float:
        """Return the CPU time of a request, of that many."""
        pids = [each.pid for each in (self.process, self.sampler) if each]
        begin_ns = sum(map(process_cpu_ns, pids))
        for _ in range(count):
            self.connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += self.connection.recv(65536)
        return (sum(map(process_cpu_ns, pids)) - begin_ns) / count

    def end(self) -> None:
        """End the server."""
        self.connection.close()
        stop_sampler(self.sampler)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


def compare_servers(name: str) -> None:
    """Print what a request costs a server.

    Servers that differ in their observer only are asked in turn, a block of requests each, so what
    else the machine does affects all alike. The addresses of its memory change a process's speed by
    some per cent, so this is repeated with new processes. The figure is their median; the interval
    contains the true one in 98 of 100 cases.
    """
    names = observers()
    costs: list[float] = []
    ratios: dict[str, list[float]] = {observer: [] for observer in names[1:]}
    for seed in range(ROUNDS):
        # one that began later has other memory
        servers = {
            each: Served.of(name, each, seed) for each in (names if seed % 2 else reversed(names))
        }
        blocks: dict[str, list[float]] = {each: [] for each in names}
        for server in servers.values():
            server.cost_ns(BLOCKS * BLOCK // 4)
        for _ in range(BLOCKS):
            for each in names:
                blocks[each].append(servers[each].cost_ns(BLOCK))
        for server in servers.values():
            server.end()
        costs.append(median(blocks["nothing"]))
        for each, found in ratios.items():
            pairs = zip(blocks[each], blocks["nothing"], strict=True)
            found.append(median(cost / without for cost, without in pairs) - 1)
    print(f"{name:28} {median(costs):10,.0f} ns a request")
    for each, found in ratios.items():
        added, ordered = median(found), sorted(found)
        interval = f"{ordered[ROUNDS // 4 - 1]:+.1%} to {ordered[-ROUNDS // 4]:+.1%}"
        print(f"  {each:26} {added * median(costs):+10,.0f} ns {added:+7.1%} ({interval})")


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
    """Print everything, or what the workloads whose name contains the argument cost."""
    if sys.argv[1:2] == ["--cost"]:
        print(cost_ns(sys.argv[2], sys.argv[3]))
        return
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
        return
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    print(header("collect"))
    if not part:
        events_and_reading()
        sampler()
    for name, workload in WORKLOADS.items():
        if part in name and all(find_spec(module) for module in workload.needs):
            compare(name)
    os.sched_setaffinity(0, {CPUS[-1]})
    for name, (_, needs) in SERVERS.items():
        if part in name and all(find_spec(module) for module in needs):
            compare_servers(name)


if __name__ == "__main__":
    main()
