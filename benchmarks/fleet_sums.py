"""What it costs to add up many hosts: statistics, shares, heat maps, and a cluster of dask.

python benchmarks/fleet_sums.py [HOSTS]

The CPU time of a cluster is that of the client, which is in this process; the scheduler and the
workers have others. The memory of a worker is what it has of its own: histories are mapped, and
their pages are given back when the machine needs them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import best_cpu_s, header

from meantime.fleet import Fleet
from meantime.history import HistoryBuilder
from meantime.model.clocks import Clock
from meantime.model.columns import Coded
from meantime.shards import client_of, total

if TYPE_CHECKING:
    from collections.abc import Callable

S = 10**9
LANES, CHANGES, SHARDS = 8, 100_000, 1_000
LARGE = 10_000_000
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
STATES = ("idle", "user", "system", "irq", "wait")


def build_hosts(folder: Path, hosts: int, changes: int = CHANGES) -> list[Path]:
    """Build a history for each host."""
    paths = [folder / f"host{number:03}.mth" for number in range(hosts)]
    for number, path in enumerate(paths):
        random = np.random.default_rng(number)
        builder = HistoryBuilder(path, clock=Clock("realtime", utc_at_origin_ns=number * 1000))
        builder.lanes("CPUs/*/Status", label="CPU")
        quarks = [builder.quark("CPUs", str(lane), "Status") for lane in range(LANES)]
        times = np.sort(random.integers(0, 20 * S, changes))
        codes = random.integers(0, len(STATES), changes).astype(np.int32)
        names = np.roll(STATES, number).tolist()
        lanes = np.array(quarks, np.int32)[random.integers(0, LANES, changes)]
        builder.modify_many(times, lanes, Coded(codes, names))
        builder.close(20 * S)
    return paths


def main() -> None:
    """Print the figures."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(header(f"sums of {hosts} hosts of {CHANGES:,} changes"))
    with tempfile.TemporaryDirectory() as name:
        fleet = Fleet(build_hosts(Path(name), hosts), jobs=1)
        fleet.build()
        asked: dict[str, Any] = {
            "opened": lambda: Fleet(fleet_inputs(name), jobs=1).build(),
            "statistics, exact": fleet.statistics,
            "statistics, sketch": partial(fleet.statistics, keep="sketch"),
            "shares of 240 bins by host": partial(fleet.shares, bins=240, by="host"),
            "compared": fleet.compare,
            "heat map": partial(fleet.heatmap, states="wait", stacks=False),
        }
        for what, question in asked.items():
            cpu_s = best_cpu_s(question, times=3)
            print(f"{what}: {cpu_s / hosts * 1000:.2f} ms a host")
    cluster()


def fleet_inputs(folder: str) -> list[Path]:
    """Return the histories in a folder."""
    return sorted(Path(folder).glob("*.mth"))


def cluster() -> None:
    """Print what a cluster costs: the client's time, and the memory of a worker."""
    if importlib.util.find_spec("distributed") is None:
        print("cluster: skipped, the extra [fleet] is not installed")
        return
    with (
        tempfile.TemporaryDirectory() as name,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        client = client_of(process.stdout.readline().strip())
        print_client_cost(client)
        print_worker_memory(client, Path(name))
        client.close()


def print_client_cost(client: Any) -> None:
    """Print what 1,000 results cost the client."""
    shards: Any = total
    shards(abs, range(10), sum, client=client)
    for _ in range(3):
        began = time.process_time(), time.perf_counter()
        assert shards(abs, range(SHARDS), sum, client=client).value == sum(range(SHARDS))
        cpu_s, wall_s = time.process_time() - began[0], time.perf_counter() - began[1]
        print(f"{SHARDS:,} shards on a cluster: {cpu_s:.2f} s of CPU here, {wall_s:.1f} s")


def print_worker_memory(client: Any, folder: Path) -> None:
    """Print the most memory of its own that a worker takes for a question to large hosts."""
    paths = build_hosts(folder, 4, LARGE)
    size = sum(each.stat().st_size for each in paths[0].rglob("*")) / 1e6
    fleet = Fleet(paths, client)
    warm = folder / "warm"
    warm.mkdir()
    Fleet(build_hosts(warm, 4, 1_000), client).heatmap(states="wait", stacks=False)
    workers = client.run(os.getpid).values()
    asked: dict[str, Callable[[], object]] = {
        "heat map": partial(fleet.heatmap, states="wait", stacks=False),
        "shares of 240 bins by host": partial(fleet.shares, bins=240, by="host"),
        "statistics, sketch": partial(fleet.statistics, keep="sketch"),
        "statistics, exact": fleet.statistics,
    }
    for what, question in asked.items():
        before = [own_bytes(each) for each in workers]
        most = list(before)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(question)
            while not answer.done():
                most = [max(each) for each in zip(most, map(own_bytes, workers), strict=True)]
                time.sleep(0.002)
            answer.result()
        grown = max(after - first for first, after in zip(before, most, strict=True))
        print(f"{what} of 4 hosts, {size:.0f} MB each: {grown / 1e6:.0f} MB more in a worker")


def own_bytes(pid: int) -> int:
    """Return how much memory of a process belongs to no file."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


if __name__ == "__main__":
    main()
