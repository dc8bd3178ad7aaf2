"""What it costs to conclude: threads of millions of states, and the example of a scheduler.

python benchmarks/explain.py --changes 10000000 --threads 64
"""

from __future__ import annotations

import argparse
import resource
import sys

import measure
import numpy as np

from meantime.history import HistoryBuilder
from meantime.model.columns import Coded
from meantime.model.units import format_bytes
from meantime.query.explain import explain

NAMES = ["on-cpu", "runnable", "disk wait", "sleeping"]
RANGE_NS = 60 * 10**9
BATCH_ROWS = 2**18


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=64)
    arguments = parser.parse_args()
    print(measure.header("explain"))
    random = np.random.default_rng(1)
    builder = HistoryBuilder()
    quarks = [builder.quark("Threads", f"thread {n}") for n in range(arguments.threads)]
    builder.lanes("Threads/*", entity_kind="Thread")
    time_ns = np.sort(random.integers(0, RANGE_NS, arguments.changes))
    thread = random.integers(0, arguments.threads, arguments.changes)
    state = np.empty(arguments.changes, np.int32)
    for each in range(arguments.threads):
        # each goes through the states in turn
        rows = np.flatnonzero(thread == each)
        state[rows] = np.arange(len(rows)) % len(NAMES)
    quark = np.array(quarks, np.int32)[thread]
    for first in range(0, arguments.changes, BATCH_ROWS):
        batch = slice(first, first + BATCH_ROWS)
        builder.modify_many(time_ns[batch], quark[batch], Coded(state[batch], NAMES))
    history = builder.close(RANGE_NS)
    del time_ns, thread, state, quark
    cpu_s = measure.best_cpu_s(lambda: explain(history), times=3)
    peak = format_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(
        f"{arguments.changes:,} states of {arguments.threads} threads: {cpu_s:.2f} s;"
        f" at most {peak} with the history and its building"
    )
    command = [sys.executable, "-m", "meantime", "explain", "examples/sched.perf.gz"]
    run = measure.run(command)
    print(f"{' '.join(command[2:])}: {run.cpu_s:.2f} s, {format_bytes(run.peak_bytes)}")


if __name__ == "__main__":
    main()
