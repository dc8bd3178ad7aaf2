"""What tracepoints of the Linux kernel cost: perf script, ftrace and CTF, with all that follows.

python benchmarks/linux.py [PERF_TEXT [FTRACE_TEXT [CTF_DIRECTORY]]]

Without arguments all are made: 2 million events of two CPUs, and 500,000 as CTF, a sixth of them
switches. The text of ftrace is read with a declared provider, too. CTF is compared with
babeltrace2, which converts it to its default text; both are left out if it is not installed.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from measure import best_cpu_s, header

import meantime
from meantime.history import HistoryBuilder
from meantime.model.columns import Coded
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable

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
_CTF_EVENTS = 500_000
# As LTTng describes the events of a kernel; names of fields have an underscore in front.
_CTF_HEAD = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace {
  major = 1; minor = 8; byte_order = le;
  packet.header := struct { uint32_t magic; uint32_t stream_id; uint64_t stream_instance_id; };
};
env { hostname = "host"; domain = "kernel"; kernel_release = "6.1.0"; };
clock { name = "monotonic"; freq = 1000000000; offset = 1457111225177515989; };
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; map = clock.monotonic.value; } := uint32_clock_t;
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := uint64_clock_t;
stream {
  id = 0;
  event.header := struct {
    enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
    variant <id> {
      struct { uint32_clock_t timestamp; } compact;
      struct { uint32_t id; uint64_clock_t timestamp; } extended;
    } v;
  } align(8);
  packet.context := struct {
    uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end;
    uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num;
    uint64_t events_discarded; uint32_t cpu_id;
  };
};
"""
_CTF_FIELDS = {
    "syscall_entry_futex": "Quaddr iop Ival Qutime Quaddr2 Ival3",
    "sched_switch": "sprev_comm iprev_tid iprev_prio qprev_state snext_comm inext_tid inext_prio",
    "syscall_exit_futex": "qret Quaddr Quaddr2",
    "sched_waking": "scomm itid iprio itarget_cpu",
    "irq_softirq_entry": "Ivec",
    "irq_softirq_exit": "Ivec",
}
_PACKET_EVENTS = 5000


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


def made_ctf(folder: Path) -> Path:
    """Write the events of `made` as LTTng does, a stream for each CPU; return the directory."""
    trace = folder / "ctf"
    trace.mkdir()
    kinds, layouts = {"s": "16s"}, []
    with (trace / "metadata").open("w") as metadata:
        metadata.write(_CTF_HEAD)
        for number, (name, fields) in enumerate(_CTF_FIELDS.items()):
            lines = []
            for kind, field in ((each[0], each[1:]) for each in fields.split()):
                size = 8 if kind == "s" else 8 * struct.calcsize(kind)
                signed = str(kind.islower() and kind != "s").lower()
                text = " encoding = UTF8;" if kind == "s" else ""
                array = "[16]" if kind == "s" else ""
                lines.append(
                    f"    integer {{ size = {size}; align = 8; signed = {signed};{text} }}"
                    f" _{field}{array};\n"
                )
            metadata.write(
                f'event {{ name = "{name}"; id = {number}; stream_id = 0;\n'
                f"  fields := struct {{\n{''.join(lines)}  }};\n}};\n"
            )
            kind_codes = (kinds.get(each[0], each[0]) for each in fields.split())
            layouts.append(struct.Struct("<HI" + "".join(kind_codes)))
    for cpu in range(2):
        with (trace / f"channel0_{cpu}").open("wb") as file:
            events: list[bytes] = []
            first_ns = packets = 0
            for turn in range(cpu, _CTF_EVENTS // 6, 2):
                thread, coming = (1000 + (turn // 2 + each) % 50 + 100 * cpu for each in (0, 1))
                leaves, comes = b"app%d" % thread, b"app%d" % coming
                values: tuple[tuple[int | bytes, ...], ...] = (
                    (0x7F0012345678, 128, 0, 0, 0, 0),
                    (leaves, thread, 20, 1, comes, coming, 20),
                    (0, 0x7F0012345678, 0),
                    (comes, coming, 20, 1),
                    (1,),
                    (1,),
                )
                for number, layout in enumerate(layouts):
                    time_ns = (6 * turn + number) * 1000
                    first_ns = first_ns if events else time_ns
                    events.append(layout.pack(number, time_ns & 0xFFFFFFFF, *values[number]))
                if len(events) >= _PACKET_EVENTS or turn + 2 >= _CTF_EVENTS // 6:
                    content = b"".join(events)
                    bits = 8 * (len(content) + 68)
                    times = first_ns, time_ns
                    file.write(struct.pack("<IIQ", 0xC1FC1FC1, 0, cpu))
                    file.write(struct.pack("<QQQQQQI", *times, bits, bits, packets, 0, cpu))
                    file.write(content)
                    events.clear()
                    packets += 1
    return trace


def ctf_cost(path: Path) -> None:
    """Print what the history of a CTF trace costs, and babeltrace2 alone, by turns."""
    records = meantime.open(path).metadata.records

    def with_children_s(work: Callable[[], object]) -> float:
        before = os.times()
        work()
        return sum(os.times()[:4]) - sum(before[:4])

    def alone() -> None:
        command = ["babeltrace2", str(path)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    took = [
        (with_children_s(alone), with_children_s(lambda: meantime.open(path))) for _ in range(5)
    ]
    alone_s, ours_s = (min(each) for each in zip(*took, strict=True))
    print(
        f"CTF, {records:,} events, to a history: {ours_s:.2f} s;"
        f" babeltrace2 alone: {alone_s:.2f} s, {ours_s / alone_s:.2f} times as long"
    )


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
    """Measure all kinds, and the critical path."""
    print(header("text of tracepoints"))
    given = [Path(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        perf = given[0] if given else made(Path(folder, "perf.txt"), is_perf=True)
        cost("perf script", perf)
        ftrace = given[1] if len(given) > 1 else made(Path(folder, "trace.txt"), is_perf=False)
        cost("ftrace", ftrace)
        declared_cost(ftrace, Path(folder, "scheduler.toml"))
        if shutil.which("babeltrace2"):
            ctf_cost(given[2] if len(given) > 2 else made_ctf(Path(folder)))
    critical_path_cost()


if __name__ == "__main__":
    main()
