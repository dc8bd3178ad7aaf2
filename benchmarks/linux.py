"""What text of the Linux kernel's tracepoints costs: perf script and ftrace, with all that follows.

python benchmarks/linux.py [PERF_TEXT [FTRACE_TEXT]]

Without arguments both are made: 2 million events of two CPUs, a third of them switches. The text of
ftrace is read with a declared provider, too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import best_cpu_s, header

import meantime
from meantime.columns import Coded
from meantime.history import HistoryBuilder
from meantime.readers import open_trace

EVENTS = 2_000_000
_FIELDS = {
    "sched_switch": "prev_comm=app{0} prev_pid={0} prev_prio=120 prev_state=S ==>"
    " next_comm=app{1} next_pid={1} next_prio=120",
    "sched_waking": "comm=app{1} pid={1} prio=120 target_cpu=001",
    "sys_enter_futex": "uaddr: 0x7f0012345678, op: 0x00000080, val: 0x00000000",
    "sys_exit_futex": "0x0",
    "softirq_entry": "vec=1 [action=TIMER]",
    "softirq_exit": "vec=1 [action=TIMER]",
}
# Which thread each CPU runs, and how often each one was woken.
_PROVIDER = """
[[on]]
event = "sched_switch"
change = [
  { path = "CPUs/{cpu}/Thread", set = "{next_comm}" },
  { path = "Threads/{prev_pid}/Status", set = "{prev_state}" },
  { path = "Threads/{next_pid}/Status", set = "running" },
]

[[on]]
event = "sched_waking"
change = [{ path = "Threads/{pid}/Status", set = "woken" }]
"""
_GROUPS = {"sched": "sched:", "sys": "syscalls:", "softirq": "irq:"}
_ORDER = (
    "sys_enter_futex", "sched_switch", "sys_exit_futex", "sched_waking", "softirq_entry",
    "softirq_exit",
)  # fmt: skip


def made(path: Path, *, is_perf: bool) -> Path:
    """Write a text of events, in which each thread of a CPU runs after the other."""
    with path.open("w") as file:
        for first in range(0, EVENTS, 6000):
            lines = []
            for event in range(first, first + 6000):
                name, turn = _ORDER[event % 6], event // 6
                cpu, thread = turn % 2, 1000 + turn // 2 % 50 + 100 * (turn % 2)
                # the first two events of a turn are of the thread that leaves
                coming = 1000 + (turn // 2 + 1) % 50 + 100 * (turn % 2)
                now = thread if event % 6 < 2 else coming
                fields = _FIELDS[name].format(thread, coming)
                time = f"{event // 10**6}.{event % 10**6:06}"
                group = _GROUPS[name.split("_")[0]]
                lines.append(
                    f"app{now} {now} [{cpu:03}] {time}: {group}{name}: {fields}\n"
                    if is_perf
                    else f"  app{now}-{now} [{cpu:03}] d..2. {time}: {name}: {fields}\n"
                )
            file.writelines(lines)
    return path


def cost(kind: str, path: Path) -> None:
    """Print what the history of a text costs, and the events of it alone."""

    def read_events() -> None:
        for _ in open_trace(path, events=True).batches:
            pass

    records = meantime.open(path).metadata.records
    megabytes = path.stat().st_size / 1e6
    took_s = best_cpu_s(lambda: meantime.open(path), times=3)
    print(
        f"{kind}, {records:,} events, {megabytes:.0f} MB to a history: {took_s:.2f} s,"
        f" {records / took_s / 1e6:.2f} M events/s"
    )
    took_s = best_cpu_s(read_events, times=3)
    print(f"{kind}, as events with fields: {took_s:.2f} s, {records / took_s / 1e6:.2f} M events/s")


def declared_cost(path: Path, provider: Path) -> None:
    """Print what a declared provider makes of ftrace text."""
    provider.write_text(_PROVIDER)
    records = meantime.open(path, provider=provider).metadata.records
    took_s = best_cpu_s(lambda: meantime.open(path, provider=provider), times=3)
    print(f"ftrace, declared provider: {took_s:.2f} s, {records / took_s / 1e6:.2f} M events/s")


def critical_path_cost() -> None:
    """Print what the critical path of a thread costs in a history of 10 million changes."""
    threads, cycles, cycle_ns = 1000, 3333, 1_000_000
    chance = np.random.default_rng(1)
    builder = HistoryBuilder()
    quarks = np.array(
        [builder.quark("Threads", str(tid), "Status") for tid in range(threads)], np.int32
    )
    begins = np.arange(cycles, dtype=np.int64)[:, None] * cycle_ns
    # woken, running and asleep, once in a cycle, by any thread
    woken = begins + chance.integers(0, cycle_ns // 3, (cycles, threads))
    runs = woken + chance.integers(1, cycle_ns // 3, (cycles, threads))
    sleeps = runs + chance.integers(1, cycle_ns // 3, (cycles, threads))
    times = np.stack([woken, runs, sleeps]).reshape(-1)
    order = np.argsort(times, kind="stable")
    who = np.broadcast_to(quarks, (3 * cycles, threads)).reshape(-1)
    state = np.repeat(np.arange(3, dtype=np.int32), cycles * threads)
    builder.modify_many(
        times[order], who[order], Coded(state[order], ["runnable", "running", "sleeping"])
    )
    at = np.sort(woken.reshape(-1))
    wakers = chance.permutation(who[: len(at)])
    woken_of = who[: len(at)][np.argsort(woken.reshape(-1), kind="stable")]
    builder.add_flows(wakers, at, woken_of, at, ["wakes"] * len(at))
    history = builder.close(cycles * cycle_ns)
    for range_ns in (100 * cycle_ns, 1000 * cycle_ns):
        start = cycles // 2 * cycle_ns

        def find(start: int = start, end: int = start + range_ns) -> int:
            return len(meantime.critical_path(history, int(quarks[5]), start=start, end=end))

        print(
            f"critical path in {len(times):,} changes, {range_ns / 1e9:g} s, {find():,} parts:"
            f" {best_cpu_s(find, times=3) * 1e3:.0f} ms"
        )


def main() -> None:
    """Measure both kinds, and the critical path."""
    print(header("text of tracepoints"))
    given = [Path(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        perf = given[0] if given else made(Path(folder, "perf.txt"), is_perf=True)
        cost("perf script", perf)
        ftrace = given[1] if len(given) > 1 else made(Path(folder, "trace.txt"), is_perf=False)
        cost("ftrace", ftrace)
        declared_cost(ftrace, Path(folder, "scheduler.toml"))
    critical_path_cost()


if __name__ == "__main__":
    main()
