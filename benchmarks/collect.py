"""What recording costs a program, and how fast a recording is read.

    python benchmarks/collect.py [PART OF A WORKLOAD'S NAME]

Each workload runs unrecorded, recorded, and under VizTracer and py-spy if they are installed, each
in a process of its own. In one process, each start and stop of a recording makes the interpreter
specialise its bytecode again, which can cost more than recording does. The processes take turns, a
block of work each, so what else the machine does affects all alike. The addresses of its memory
change a process's speed by some per cent, so this is repeated with new processes. A figure is the
median of these; the interval contains the true one in 98 of 100 cases. The CPU time of the process
counts, and that of py-spy's own.

Servers are asked by this process, on another CPU, one request at a time on one connection: with
several, slower steps make larger batches of events, and a recorded server can come out faster than
an unrecorded one.
"""

from __future__ import annotations

import asyncio
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
BLOCKS = 20
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
    """Something to measure.

    Attributes:
        unit: What it counts.
        run: Runs a number of them; of a server, serves requests of a listening socket.
        size: How many a block has.
        needs: What must be installed.
        serves: Whether it is a server.
    """

    unit: str
    run: Callable[[Any], object]
    size: int
    needs: tuple[str, ...] = ()
    serves: bool = False


def server(run: Callable[[Any], object], *needs: str) -> Workload:
    """Return the workload of a server."""
    return Workload("request", run, 200, needs, serves=True)


WORKLOADS = {
    "asyncio, sleep(0)": Workload("step", on_asyncio(steps), 4_000),
    "10,000 tasks with queues": Workload("task", on_asyncio(many_tasks), 10_000),
    "gather of 10,000": Workload("task", on_asyncio(gathered), 10_000),
    "streams echo": Workload("request", on_asyncio(echo), 400),
    "uvloop, sleep(0)": Workload("step", on_uvloop(steps), 8_000, ("uvloop",)),
    "trio, checkpoint()": Workload("step", on_trio(trio_steps), 2_500, ("trio",)),
    "aiohttp": server(on_asyncio(serve_aiohttp), "aiohttp"),
    "aiohttp on uvloop": server(on_uvloop(serve_aiohttp), "aiohttp", "uvloop"),
    "uvicorn": server(on_asyncio(serve_uvicorn), "uvicorn"),
    "uvicorn on uvloop": server(on_uvloop(serve_uvicorn), "uvicorn", "uvloop"),
}


def process_cpu_ns(pid: int) -> int:
    """Return the CPU time of a process."""
    # the kernel's name for the clock of a process
    return time.clock_gettime_ns(~pid << 3 | 2)


def observers() -> list[str]:
    """Return what can observe a workload here, after nothing and ourselves."""
    peers = ["viztracer"] if find_spec("viztracer") else []
    return ["nothing", "meantime", *peers, *(["py-spy"] if shutil.which("py-spy") else [])]


def run(name: str, observer: str, folder: Path) -> None:
    """Run a workload under an observer, as often as lines with a number are read, or serve."""
    workload = WORKLOADS[name]
    if observer == "meantime":
        meantime.start(folder / "cost.mtr")
    elif observer == "viztracer":
        import_module("viztracer").VizTracer(verbose=0).start()
    if workload.serves:
        # asyncio sends small packets at once only where the socket says that it is of TCP
        listening = socket.socket(proto=socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        workload.run(listening)
    print("ready", flush=True)
    for line in sys.stdin:
        workload.run(int(line))
        print("done", flush=True)


def sampler_of(pid: int, folder: Path) -> subprocess.Popen[str]:
    """Return a process of py-spy that observes another process."""
    output = ["--format", "raw", "--output", str(folder / "samples")]
    command = ["py-spy", "record", "--pid", str(pid), "--rate", "100", *output]
    sampler = subprocess.Popen([*command, "--duration", "3600"], stdout=subprocess.PIPE, text=True)
    assert sampler.stdout is not None
    # it has read the interpreter's symbols when it says that it samples
    while "Sampling" not in (line := sampler.stdout.readline()):
        if not line:
            raise SystemExit("py-spy cannot sample this process")
    return sampler


class Subject:
    """A process that runs a workload under an observer when it is asked."""

    def __init__(self, name: str, observer: str, seed: int) -> None:
        self._folder = Path(tempfile.mkdtemp())
        # the same order of sets and dictionaries in all
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, __file__, "--run", name, observer, str(self._folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, text=True
        )
        # on another CPU than this process, if there is one; what threads it starts inherit that
        os.sched_setaffinity(self._process.pid, {CPUS[0]})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._given, self._said = self._process.stdin, self._process.stdout
        answer = self._said.readline()
        self._connection = None
        if WORKLOADS[name].serves:
            self._connection = socket.create_connection(("127.0.0.1", int(answer)))
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pids = [self._process.pid]
        self._sampler = None
        if observer == "py-spy":
            self._sampler = sampler_of(self._process.pid, self._folder)
            self._pids.append(self._sampler.pid)

    def cost_ns(self, count: int) -> float:
        """Return the CPU time of a unit, of that many, with that of the observer's process."""
        begin_ns = sum(map(process_cpu_ns, self._pids))
        if self._connection is None:
            print(count, file=self._given, flush=True)
            self._said.readline()
        else:
            self._request(self._connection, count)
        return (sum(map(process_cpu_ns, self._pids)) - begin_ns) / count

    @staticmethod
    def _request(connection: socket.socket, count: int) -> None:
        for _ in range(count):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += connection.recv(65536)

    def end(self) -> None:
        """End the process."""
        if self._connection:
            self._connection.close()
        if self._sampler:
            self._sampler.send_signal(signal.SIGINT)
            self._sampler.wait()
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._folder)


def compare(name: str) -> None:
    """Print what one unit of a workload costs, unrecorded, recorded and under our peers."""
    names, size = observers(), WORKLOADS[name].size
    costs: list[float] = []
    ratios: dict[str, list[float]] = {observer: [] for observer in names[1:]}
    for seed in range(ROUNDS):
        # one that begins later gets other memory
        order = names if seed % 2 else names[::-1]
        subjects = {each: Subject(name, each, seed) for each in order}
        blocks: dict[str, list[float]] = {each: [] for each in names}
        # the interpreter specialises bytecode that has run for a while
        for subject in subjects.values():
            subject.cost_ns(size * BLOCKS // 4)
        for _ in range(BLOCKS):
            for each in names:
                blocks[each].append(subjects[each].cost_ns(size))
        for subject in subjects.values():
            subject.end()
        costs.append(median(blocks["nothing"]))
        for each, found in ratios.items():
            pairs = zip(blocks[each], blocks["nothing"], strict=True)
            found.append(median(cost / without for cost, without in pairs) - 1)
    print(f"{name:28} {median(costs):10,.0f} ns a {WORKLOADS[name].unit}")
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
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
        return
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    print(header("collect"))
    if not part:
        events_and_reading()
        sampler()
    os.sched_setaffinity(0, {CPUS[-1]})
    for name, workload in WORKLOADS.items():
        if part in name and all(find_spec(module) for module in workload.needs):
            compare(name)


if __name__ == "__main__":
    main()
