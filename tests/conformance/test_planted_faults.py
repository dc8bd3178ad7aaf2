"""Faults that are planted in steady programs are the first sentence, with their size.

Each program is written as the traces that programs of its kind leave, without and with a fault of
several sizes. What its first sentence says is compared with what was planted.
"""

from __future__ import annotations

import heapq
import json
import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

import meantime
from meantime.query.explain import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from meantime.query.explain import Conclusion, Explanation

MS, S = 10**6, 10**9
IDLE, NEXT_IDLE = "prev_comm=swapper prev_pid=0", "next_comm=swapper next_pid=0"
WITHIN = 0.05


class Planted(NamedTuple):
    """A fault of a size in a program.

    Attributes:
        program: Writes the trace, without the fault if the size is 0, and returns the size of the
            fault in ns as the first conclusion should have it.
        size: How large it is, in the unit of the program.
        id: The id of the conclusion.
        named: What the sentence names.
    """

    program: Callable[[Path, float], float]
    size: float
    id: str
    named: str


# A machine with two CPUs, as ftrace records its scheduler.


class Work(NamedTuple):
    """What a thread does over and over: it runs, and then sleeps."""

    name: str
    tid: int
    run_ns: int
    sleep_ns: int


class Machine:
    """Two CPUs that run threads in turn, each for 4 ms, and the events of their scheduler."""

    def __init__(self, works: list[Work]) -> None:
        self.works = works
        self.lines = ["# tracer: nop", "#"]
        self.running: list[tuple[Work, int] | None] = [None, None]
        self.ready: list[Work] = []
        self.left = {work.tid: work.run_ns for work in works}
        self.random = random.Random(1)  # noqa: S311 - a test that can be repeated
        # when, in which order, whether a thread wakes, and which one; otherwise of which CPU
        self.events: list[tuple[int, int, bool, int]] = []
        for index in range(len(works)):
            self.at(self.random.randrange(1000, 5 * MS), index, wakes=True)

    def at(self, time_ns: int, which: int, *, wakes: bool) -> None:
        heapq.heappush(self.events, (time_ns, len(self.lines) + len(self.events), wakes, which))

    def run(self, length_ns: int) -> str:
        """Return the events until a time, as ftrace prints them."""
        while self.events[0][0] < length_ns:
            time_ns, _, wakes, which = heapq.heappop(self.events)
            if wakes:
                self.wake(self.works[which], time_ns)
            else:
                self.stop(which, time_ns)
        return "\n".join(self.lines) + "\n"

    def wake(self, work: Work, time_ns: int) -> None:
        self.line(
            0, time_ns, f"sched_waking: comm={work.name} pid={work.tid} prio=120 target_cpu=000"
        )
        self.ready.append(work)
        if None in self.running:
            self.switch(self.running.index(None), time_ns, "R")

    def stop(self, cpu: int, time_ns: int) -> None:
        current = self.running[cpu]
        assert current is not None
        work, since_ns = current
        self.left[work.tid] -= time_ns - since_ns
        if self.left[work.tid] > 0:
            self.ready.append(work)
            return self.switch(cpu, time_ns, "R")
        self.left[work.tid] = work.run_ns
        sleep_ns = int(work.sleep_ns * self.random.uniform(0.9, 1.1))
        self.at(time_ns + sleep_ns, self.works.index(work), wakes=True)
        return self.switch(cpu, time_ns, "S")

    def switch(self, cpu: int, time_ns: int, state: str) -> None:
        before = self.running[cpu]
        after = self.ready.pop(0) if self.ready else None
        ends = f"prev_comm={before[0].name} prev_pid={before[0].tid}" if before else IDLE
        begins = f"next_comm={after.name} next_pid={after.tid}" if after else NEXT_IDLE
        text = f"{ends} prev_prio=120 prev_state={state if before else 'R'}"
        self.line(cpu, time_ns, f"sched_switch: {text} ==> {begins} next_prio=120")
        self.running[cpu] = None
        if after:
            self.running[cpu] = (after, time_ns)
            self.at(time_ns + min(4 * MS, self.left[after.tid]), cpu, wakes=False)

    def line(self, cpu: int, time_ns: int, text: str) -> None:
        current = self.running[cpu]
        name = f"{current[0].name}-{current[0].tid}" if current else "<idle>-0"
        at = f"{100 + time_ns // S}.{time_ns % S // 1000:06d}"
        self.lines.append(f"{name:>24} [{cpu:03d}] d..2. {at}: {text}")


def hog(path: Path, size: float) -> float:
    """Write a machine on which `size` threads of a program always run."""
    works = [Work(f"web-{each}", 100 + each, 2 * MS, 20 * MS) for each in range(6)]
    works += [Work("hog", 200 + each, 10 * S, S) for each in range(int(size))]
    (path / "trace.txt").write_text(Machine(works).run(S))
    return S


# Processes of a database, as a statemap.


def statemap(
    path: Path, states: dict[str, int], changes: Iterator[tuple[int, str, str]], end_ns: int
) -> None:
    lines = [
        json.dumps(
            {
                "start": [0, 0],
                "title": "processes",
                "entityKind": "Process",
                "states": {name: {"value": value} for name, value in states.items()},
            }
        )
    ]
    lines += [
        json.dumps({"time": str(time_ns), "entity": entity, "state": states[state]})
        for time_ns, entity, state in sorted(changes)
    ]
    lines.append(json.dumps({"time": str(end_ns), "entity": "0", "state": states["idle"]}))
    (path / "trace.txt").write_text("\n".join(lines) + "\n")


def waits(path: Path, state: str, part: float) -> float:
    """Write four processes that wait in a state for a part of their time."""
    names = {"on-cpu": 0, "idle": 1, "disk-wait": 2, "lock-wait": 3}
    period_ns, periods = 10 * MS, 100

    def changes() -> Iterator[tuple[int, str, str]]:
        for process in range(4):
            for each in range(periods):
                begin_ns = each * period_ns + process * 2_300_000 % period_ns
                wait_ns = int(period_ns * part)
                yield begin_ns, str(process), "on-cpu"
                if wait_ns:
                    yield begin_ns + MS, str(process), state
                yield begin_ns + MS + wait_ns, str(process), "idle"

    statemap(path, names, changes(), (periods + 1) * period_ns)
    return 4 * periods * int(period_ns * part)


def disk(path: Path, size: float) -> float:
    """Write processes that wait for the disk for a part of their time."""
    return waits(path, "disk-wait", size)


def lock(path: Path, size: float) -> float:
    """Write processes that wait for locks for a part of their time."""
    return waits(path, "lock-wait", size)


# Services, as Zipkin has them.


class Call(NamedTuple):
    """A call of a service by another: how long it takes itself before its calls, one by one."""

    service: str
    name: str
    own_us: int
    calls: tuple[Call, ...] = ()


def spans(
    call: Call, trace: str, start_us: int, parent: str | None, found: list[dict[str, object]]
) -> int:
    """Add the spans of a call and of those in it; return when it ends."""
    number = f"{len(found) + 1:016x}"
    span: dict[str, object] = {
        "traceId": trace,
        "id": number,
        "name": call.name,
        "kind": "SERVER" if parent is None else "CLIENT",
        "timestamp": start_us,
        "localEndpoint": {"serviceName": call.service},
    }
    if parent:
        span["parentId"] = parent
    found.append(span)
    now_us = start_us + call.own_us
    for each in call.calls:
        now_us = spans(each, trace, now_us, number, found)
    span["duration"] = now_us - start_us
    return now_us


def requests(path: Path, calls: Callable[[random.Random, int], tuple[Call, ...]]) -> None:
    """Write forty requests with these calls."""
    rng = random.Random(2)  # noqa: S311 - as above
    found: list[dict[str, object]] = []
    now_us = 1_700_000_000_000_000
    for each in range(40):
        request = Call("shop", "get /order", 2000, calls(rng, each))
        now_us = spans(request, f"{each + 1:032x}", now_us, None, found) + 10_000
    (path / "trace.txt").write_text(json.dumps(found))


def slow_dependency(path: Path, size: float) -> float:
    """Write requests with a call of `stock` that takes longer by this many milliseconds."""

    def calls(rng: random.Random, _: int) -> tuple[Call, ...]:
        return (
            Call("orders", "select orders", 1500 + rng.randrange(300)),
            Call("stock", "reserve", 1000 + rng.randrange(100) + int(size * 1000)),
            Call("mail", "send", 1200 + rng.randrange(300)),
        )

    requests(path, calls)
    return 40 * (1.05 * MS + size * MS)


def n_plus_one(path: Path, size: float) -> float:
    """Write requests that run one query per row: so many of two milliseconds."""

    def calls(rng: random.Random, _: int) -> tuple[Call, ...]:
        rows = tuple(
            Call("db", "select item", 2000 + rng.randrange(20)) for _ in range(int(size) or 1)
        )
        return (Call("db", "select order", 1500 + rng.randrange(300)), *rows)

    requests(path, calls)
    return 40 * size * 2.01 * MS


def one_slow(path: Path, size: float) -> float:
    """Write requests of which three wait this many milliseconds longer for `stock`."""

    def calls(rng: random.Random, each: int) -> tuple[Call, ...]:
        extra_us = int(size * 1000) if each in {7, 19, 31} else 0
        return (
            Call("orders", "select orders", 4000 + rng.randrange(300)),
            Call("stock", "reserve", 1000 + rng.randrange(100) + extra_us),
        )

    requests(path, calls)
    return 3 * size * MS


# A build, as ninja logs it.


def link(path: Path, size: float) -> float:
    """Write a build of forty files with four jobs and a link of this many seconds at its end."""
    rng = random.Random(3)  # noqa: S311 - as above
    lines = ["# ninja log v5"]
    free = [0] * 4
    for each in range(40):
        start = heapq.heappop(free)
        end = start + 800 + rng.randrange(400)
        heapq.heappush(free, end)
        lines.append(f"{start}\t{end}\t0\tfile{each}.o\t{each:x}")
    end = max(free)
    lines.append(f"{end}\t{end + int(size * 1000)}\t0\tapp\tff")
    (path / ".ninja_log").write_text("\n".join(lines) + "\n")
    return size * S


# Ranks of a training, as the profiler of PyTorch writes them.


def ranks(path: Path, size: float) -> float:
    """Write eight ranks of which one computes this many microseconds longer in each step."""
    rng = random.Random(4)  # noqa: S311 - as above
    steps, late = 20, 3
    events: list[list[dict[str, object]]] = [[] for _ in range(8)]

    def add(  # noqa: PLR0917 - an event
        rank: int, category: str, name: str, start_us: float, length_us: float, number: int
    ) -> None:
        on_gpu = category == "kernel"
        fields: dict[str, object] = {"correlation": number}
        events[rank].append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": 0 if on_gpu else 100,
                "tid": 7 if on_gpu else 1,
                "ts": start_us,
                "dur": length_us,
                "args": fields | ({"device": 0, "stream": 7} if on_gpu else {}),
            }
        )

    start_us = 0.0
    for step in range(steps):
        ends = []
        for rank in range(8):
            begin_us = start_us + 5 * rng.random()
            length_us = 1000 + 10 * rng.random() + (size if rank == late else 0)
            add(rank, "cuda_runtime", "cudaLaunchKernel", begin_us - 8, 5, 2 * step + 1)
            add(rank, "kernel", "gemm", begin_us, length_us, 2 * step + 1)
            add(rank, "cuda_runtime", "cudaLaunchKernel", begin_us - 2, 1.5, 2 * step + 2)
            ends.append(begin_us + length_us)
        last_us = max(ends) + 50
        for rank in range(8):
            add(
                rank,
                "kernel",
                "ncclDevKernel_AllReduce",
                ends[rank],
                last_us - ends[rank],
                2 * step + 2,
            )
        start_us = last_us + 10
    for rank in range(8):
        document = {"traceEvents": events[rank], "distributedInfo": {"rank": rank}}
        (path / f"rank{rank}.json").write_text(json.dumps(document))
    return steps * size * 1000


FAULTS = [
    *(Planted(hog, size, "cpu.full", "hog") for size in (2, 3, 5)),
    *(Planted(disk, size, "disk.waits", "disk") for size in (0.55, 0.7, 0.85)),
    *(Planted(lock, size, "lock.waits", "locks") for size in (0.2, 0.4, 0.6)),
    *(Planted(slow_dependency, size, "services.path", "reserve") for size in (10, 50, 400)),
    *(Planted(n_plus_one, size, "services.repeated_calls", "select item") for size in (8, 20, 60)),
    *(Planted(one_slow, size, "services.slow", "reserve") for size in (100, 500, 2000)),
    *(Planted(link, size, "build.longest", "app") for size in (4, 8, 20)),
    *(Planted(ranks, size, "ranks.late", "rank3") for size in (200, 400, 1000)),
]


def explained(path: Path) -> Explanation:
    files = sorted(each for each in path.iterdir())
    history = meantime.open(files[0]) if len(files) == 1 else meantime.join(files)
    return explain(history)


def size_of(conclusion: Conclusion) -> float:
    return float(conclusion.value_ns or 0)


@pytest.mark.parametrize(
    "planted", FAULTS, ids=lambda each: f"{each.program.__name__}-{each.size:g}"
)
def test_a_fault_is_the_first_sentence(planted: Planted, tmp_path: Path) -> None:
    size_ns = planted.program(tmp_path, planted.size)

    first, *_ = explained(tmp_path).conclusions

    assert first.id == planted.id, first.sentence
    assert planted.named in first.sentence
    assert size_of(first) == pytest.approx(size_ns, rel=WITHIN), first.sentence


@pytest.mark.parametrize(
    "program", dict.fromkeys(each.program for each in FAULTS), ids=lambda each: each.__name__
)
def test_without_the_fault_it_is_not_said(
    program: Callable[[Path, float], float], tmp_path: Path
) -> None:
    program(tmp_path, 0)
    ids = {each.id for each in FAULTS if each.program is program}

    for conclusion in explained(tmp_path).conclusions:
        is_planted = conclusion.id in ids and any(
            each.named in conclusion.sentence for each in FAULTS if each.program is program
        )
        assert not is_planted, conclusion.sentence
