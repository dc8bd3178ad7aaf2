"""What it costs to add up many hosts: statistics, shares, heat maps, and a cluster of dask.

python benchmarks/fleet_sums.py [HOSTS]

The CPU time of a cluster is that of the client, which is in this process; the scheduler and the
workers have others.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import best_cpu_s, header

from meantime.clocks import Clock
from meantime.columns import Coded
from meantime.fleet import Fleet
from meantime.history import HistoryBuilder
from meantime.shards import client_of, total

S = 10**9
LANES, CHANGES, SHARDS = 8, 100_000, 1_000
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
STATES = ("idle", "user", "system", "irq", "wait")


def build_hosts(folder: Path, hosts: int) -> list[Path]:
    """Build a history for each host."""
    paths = [folder / f"host{number:03}.mth" for number in range(hosts)]
    for number, path in enumerate(paths):
        random = np.random.default_rng(number)
        builder = HistoryBuilder(path, clock=Clock("realtime", utc_at_origin_ns=number * 1000))
        builder.lanes("CPUs/*/Status", label="CPU")
        quarks = [builder.quark("CPUs", str(lane), "Status") for lane in range(LANES)]
        times = np.sort(random.integers(0, 20 * S, CHANGES))
        codes = random.integers(0, len(STATES), CHANGES).astype(np.int32)
        names = np.roll(STATES, number).tolist()
        lanes = np.array(quarks, np.int32)[random.integers(0, LANES, CHANGES)]
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
    """Print what 1,000 results of workers cost the client and the scheduler."""
    if importlib.util.find_spec("distributed") is None:
        print("cluster: skipped, the extra [fleet] is not installed")
        return
    shards: Any = total
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        client = client_of(process.stdout.readline().strip())
        shards(abs, range(10), sum, client=client)
        for _ in range(3):
            began = time.process_time(), time.perf_counter()
            assert shards(abs, range(SHARDS), sum, client=client).value == sum(range(SHARDS))
            cpu_s, wall_s = time.process_time() - began[0], time.perf_counter() - began[1]
            print(f"{SHARDS:,} shards on a cluster: {cpu_s:.2f} s of CPU here, {wall_s:.1f} s")
        client.close()


if __name__ == "__main__":
    main()
