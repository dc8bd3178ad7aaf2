"""What it costs to compare runs, and to check rules.

python benchmarks/compare.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import measure
import numpy as np
from view import store_spans

import meantime
from meantime.history import HistoryBuilder
from meantime.model.columns import Coded
from meantime.query.compare.summary_file import encoded

if TYPE_CHECKING:
    from meantime.history import History

RANGE_NS = 60 * 10**9
BATCH_ROWS = 2**18
RULES = [
    'no Threads/* in "state 1" for over 1 s',
    'no Threads/* in "state 2" for over 1 s',
    'p99 of "state 3" below 1 s',
    'p99 of "state 4" below 1 s',
    'mean of "state 5" below 1 s',
    'longest of "state 6" below 10 s',
    'share of Threads/* in "state 7" below 90 %',
    'share of Threads/* in "state 8" below 90 %',
    'at most 64 of Threads/* in "state 9" at once',
    'within 60 s of "state 0" "state 1"',
]


def history_of(seed: int, intervals: int, names: int, threads: int) -> History:
    """Return a history of threads, each of which goes through all states."""
    random = np.random.default_rng(seed)
    builder = HistoryBuilder()
    quarks = np.array([builder.quark("Threads", f"thread {n}") for n in range(threads)], np.int32)
    builder.lanes("Threads/*", entity_kind="Thread")
    time_ns = np.sort(random.integers(0, RANGE_NS, intervals))
    thread = random.integers(0, threads, intervals)
    state = np.empty(intervals, np.int32)
    for each in range(threads):
        rows = np.flatnonzero(thread == each)
        state[rows] = np.arange(len(rows)) % names
    labels = [f"state {name}" for name in range(names)]
    for first in range(0, intervals, BATCH_ROWS):
        batch = slice(first, first + BATCH_ROWS)
        column = Coded(state[batch], labels)
        builder.modify_many(time_ns[batch], quarks[thread[batch]], column)
    return builder.close(RANGE_NS)


FRAME = """
import sys, time
import meantime
import uvicorn
from meantime.query import compare
from meantime.server import app, run, session, tiles
began = time.process_time()
comparison = meantime.diff(*sys.argv[1:])
page = meantime.view(comparison)._session
page.start()
assert page.wait(60)
document = page.document()
assert document["comparison"]["rows"] and document["comparison"]["pairs"]
for file in page.files:
    tree = file.shown.tree
    start_ns, end_ns = tree.history.bounds
    level = ((end_ns - start_ns) // tiles.BINS).bit_length()
    widest = tiles.Place(level, (start_ns >> level) // tiles.BINS)
    for block in range(len(tree.blocks["stack"])):
        tiles.tile(tree, "stack", block, widest).data()
print(time.process_time() - began)
"""


def _print_first_frame() -> None:
    """Print what the server needs for the first frame of two runs, stored as histories."""
    random = np.random.default_rng(3)
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{side}.mth") for side in ("before", "after")]
        for path in paths:
            store_spans(random, 1_000_000, path)
        found = subprocess.run(
            [sys.executable, "-c", FRAME, *map(str, paths)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    print(f"first frame of two runs of 1,000,000 spans: {float(found.stdout):.2f} s")


def main() -> None:
    """Print the figures."""
    print(measure.header("compare"))
    before, after = (
        [history_of(seed + side, 500_000, 500, 16) for seed in range(10)] for side in (0, 10)
    )
    cpu_s = measure.best_cpu_s(lambda: meantime.compare(before, after), times=3)
    print(f"10 and 10 runs of 500,000 states, 500 names: {cpu_s:.2f} s")
    both = [history_of(seed, 360_000, 8, 16) for seed in range(2)]
    cpu_s = measure.best_cpu_s(lambda: meantime.compare(*both), times=3)
    print(f"two histories of 360,000 states: {cpu_s:.3f} s")
    small = [meantime.summarize(each) for each in (*before, *after)]
    cpu_s = measure.best_cpu_s(lambda: meantime.compare(small[:10], small[10:]), times=3)
    print(f"summaries of the 10 and 10 runs: {cpu_s:.2f} s")
    cpu_s = measure.best_cpu_s(lambda: meantime.compare(*small[:2]), times=3)
    print(f"two summaries: {cpu_s:.3f} s")
    _print_first_frame()
    large = history_of(1, 10_000_000, 10, 64)
    # once: the conclusions of a history are kept
    cpu_s = measure.best_cpu_s(lambda: encoded(meantime.summarize(large)), times=1)
    size = len(encoded(meantime.summarize(large)))
    print(f"a summary of 10,000,000 states: {cpu_s:.2f} s, {size / 1e6:.1f} MB")
    cpu_s = measure.best_cpu_s(lambda: meantime.check_rules(large, RULES), times=2)
    print(f"{len(RULES)} rules over 10,000,000 states: {cpu_s:.2f} s")


if __name__ == "__main__":
    main()
