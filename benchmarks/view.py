"""What the server of `meantime view` and its one-file pages cost.

python benchmarks/view.py --spans 5000000 --changes 100000000 --disk DIRECTORY [--browser]

The histories are built here and stored: nested calls on 8 threads with 200 names, and changes of
1,000 attributes (`--lanes`) between 8 states at random. Each is then opened in a process of its
own, as the server does, whose imports are those until the first tile. The first tile is of
everything, with all that has to be read for it; the first frame is that with opening the history,
its lanes and the tile of their group. The page in one file is made from
the stored history, and the first frame from the file is of the same spans as a .spall trace. After
each figure is what it should be, where that is agreed; what a frame costs in the browser is in
`benchmarks/page.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import measure
import numpy as np
from view_page import print_page

from meantime.history import HistoryBuilder
from meantime.history.ingest import build
from meantime.model.attribute_paths import thread_path
from meantime.model.columns import Coded
from meantime.model.trace import Spans, Trace

THREADS, NAMES, ATTRIBUTES, STATES = 8, 200, 1_000, 8
BATCH_ROWS = 2**18
CHILDREN = 4

ASK = """
import json, sys, time
began = time.process_time()
from meantime.history.directory.open import open_history
from meantime.server import app, run, session
from meantime.server.lanes import LaneTree
import uvicorn
from meantime.server.tiles import BINS, Place, tile
def cpu(function, times=1):
    least = 1e9
    for _ in range(times):
        before = time.process_time()
        result = function()
        least = min(least, time.process_time() - before)
    return least, result
imported = time.process_time() - began
opened, history = cpu(lambda: open_history(sys.argv[1], lenient=True))
lanes, tree = cpu(lambda: LaneTree.of(history))
start_ns, end_ns = history.bounds
kind = "stack" if "stack" in tree.blocks else "state"
level = ((end_ns - start_ns) // BINS).bit_length()
widest = Place(level, (start_ns >> level) // BINS)
first, data = cpu(lambda: tile(tree, kind, 0, widest).data())
wide, _ = cpu(lambda: tile(tree, kind, 0, widest).data(), 3)
first_group, _ = cpu(lambda: tile(tree, "group", 0, widest).data())
group, _ = cpu(lambda: tile(tree, "group", 0, widest).data(), 3)
zoomed = {}
for part in (10, 1_000, 100_000):
    near = max(0, level - (part - 1).bit_length())
    place = Place(near, ((start_ns + end_ns) // 2 >> near) // BINS)
    zoomed[part] = cpu(lambda: tile(tree, kind, 0, place).data(), 3)[0]
from meantime.server import answers, moment
whole = answers.Asked(None, None, None)
by = "name" if kind == "stack" else "state"
asked = {
    "statistics": cpu(lambda: answers.statistics(tree, by, whole))[0],
    "findings": cpu(lambda: answers.stands_out(tree, "", whole))[0],
    "activity": cpu(lambda: moment.activity(tree, whole, None))[0],
}
frame = opened + lanes + first + first_group
print(json.dumps([imported, opened, lanes, first, len(data), wide, group, zoomed, asked, frame]))
"""
FROM_FILE = """
import sys, time
import meantime
from meantime.server.lanes import LaneTree
from meantime.server.tiles import BINS, Place, tile
before = time.process_time()
history = meantime.open(sys.argv[1])
tree = LaneTree.of(history)
start_ns, end_ns = history.bounds
level = ((end_ns - start_ns) // BINS).bit_length()
widest = Place(level, (start_ns >> level) // BINS)
for kind in ("stack", "group"):
    tile(tree, kind, 0, widest).data()
print(time.process_time() - before)
"""
# What should be reached: a first frame in s, any tile in ms, one file of spans in s and MB.
FRAME_S = {"spans": 0.3, "changes": 0.6}
WIDEST_MS, ZOOMED_MS, FILE_S, FILE_MB, FROM_FILE_S = 8, 1, 1.2, 50, 2.5


def main() -> None:
    """Print the figures of spans and of states."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--changes", type=int, default=10_000_000)
    parser.add_argument("--lanes", type=int, default=ATTRIBUTES, help="attributes that change")
    parser.add_argument("--disk", type=Path, required=True, help="where histories are kept")
    parser.add_argument("--browser", action="store_true", help="measure the pages in Chromium")
    arguments = parser.parse_args()
    print(measure.header("view"))
    random = np.random.default_rng(1)
    for what, count, store in (
        ("spans", arguments.spans, store_spans),
        ("changes", arguments.changes, partial(_store_states, lanes=arguments.lanes)),
    ):
        path = arguments.disk / f"view-{what}.mth"
        shutil.rmtree(path, ignore_errors=True)
        store(random, count, path)
        _ask(path, f"{count:,} {what}", FRAME_S[what])
        if what == "spans":
            _page(path, arguments.disk / "view.html")
            _from_file(path, arguments.disk / "view.spall")
        if arguments.browser:
            print_page(path)
        shutil.rmtree(path)


def _ask(path: Path, what: str, frame_s: float) -> None:
    # what is installed has its bytecode, which the first run writes
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", ASK, str(path)]
    for _ in range(2):
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, env=env
        ).stdout
    imported, opened, lanes, first, size, wide, group, zoomed, asked, frame = json.loads(printed)
    print(
        f"{what}: import {imported * 1e3:.0f} ms, open {opened * 1e3:.0f} ms, lanes"
        f" {lanes * 1e3:.0f} ms, first tile {first * 1e3:.0f} ms ({size / 1e3:.0f} kB)"
    )
    near = ", ".join(f"1/{part} {cpu_s * 1e3:.2f} ms" for part, cpu_s in zoomed.items())
    print(f"  first frame {frame:.2f} s, with imports {imported + frame:.2f} s (asked {frame_s})")
    print(
        f"  then the widest {wide * 1e3:.1f} ms (asked {WIDEST_MS}), zoomed in {near} (asked"
        f" {ZOOMED_MS}); a group {group * 1e3:.1f} ms"
    )
    print("  of everything: " + ", ".join(f"{name} {cpu_s:.2f} s" for name, cpu_s in asked.items()))


def _page(path: Path, page: Path) -> None:
    command = [sys.executable, "-m", "meantime", "view", str(path), "-o", str(page)]
    cost = measure.run([*command, "--max-size", "1G"], times=2)
    size = page.stat().st_size
    print(
        f"  one file: {cost.cpu_s:.2f} s (asked {FILE_S}), {size / 1e6:.1f} MB (asked {FILE_MB}),"
        f" {cost.peak_bytes / 1e6:.0f} MB of memory"
    )
    page.unlink()


def _from_file(path: Path, trace: Path) -> None:
    convert = [sys.executable, "-m", "meantime", "convert", str(path), str(trace)]
    subprocess.run(convert, check=True, capture_output=True)
    command = [sys.executable, "-c", FROM_FILE, str(trace)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    size = trace.stat().st_size
    print(
        f"  first frame from a .spall file of {size / 1e6:.0f} MB: {float(printed):.2f} s (asked"
        f" {FROM_FILE_S})"
    )
    trace.unlink()


def store_spans(random: np.random.Generator, count: int, path: Path) -> None:
    """Store nested calls: each has some that it called, one after the other."""
    trace = Trace("made", "made", iter(()))
    trace.paths.extend(thread_path(number, 1) for number in range(THREADS))
    trace.values = [f"function{number}" for number in range(NAMES)]
    trace.batches = (_nested(random, count, number) for number in range(THREADS))
    build(trace, path)


def _nested(random: np.random.Generator, count: int, thread: int) -> Spans:
    """Return the calls of a thread: each has some that it called, one after the other."""
    begin = np.sort(random.integers(0, 2_000 * count, count // (CHILDREN + 1) // THREADS + 1))
    length = np.minimum(np.diff(begin), random.integers(1_000, 100_000, len(begin) - 1))
    begin = begin[:-1]
    parts = [(begin, begin + length)]
    for child in range(CHILDREN):
        start = begin + length * child // CHILDREN
        part = (length // CHILDREN * random.random(len(start))).astype(np.int64)
        parts.append((start, start + part))
    starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = len(starts)
    return Spans(
        starts,
        ends,
        np.full(rows, thread, np.int32),
        random.integers(0, NAMES, rows, dtype=np.int32),
        np.full(rows, -1, np.int32),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.uint8),
    )


def _store_states(random: np.random.Generator, count: int, path: Path, *, lanes: int) -> None:
    """Store changes at random times between random states."""
    builder = HistoryBuilder(path)
    quarks = [builder.quark("CPUs", str(number)) for number in range(lanes)]
    names = [f"state{number}" for number in range(STATES)]
    now_ns = 0
    for first in range(0, count, BATCH_ROWS):
        rows = min(BATCH_ROWS, count - first)
        time_ns = now_ns + np.cumsum(random.integers(1, 4_000, rows))
        now_ns = int(time_ns[-1])
        quark = np.array(quarks, np.int32)[random.integers(0, lanes, rows)]
        state = Coded(random.integers(0, STATES, rows, dtype=np.int32), names)
        builder.modify_many(time_ns, quark, state)
    builder.close()


if __name__ == "__main__":
    main()
