"""What building a history costs; see `growth.py` for questions.

python benchmarks/history.py --changes 10000000 --attributes 1000
python benchmarks/history.py --changes 100000000 --attributes 10000 --zipf --disk DIRECTORY
python benchmarks/history.py --scattered: a million attributes with ten changes each, any order
python benchmarks/history.py --tasks 1000000 --disk DIRECTORY: short-lived tasks of ten changes each
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import measure
import numpy as np

from meantime.history import HistoryBuilder
from meantime.model.columns import Coded
from meantime.model.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int32s, Int64s

Batch: TypeAlias = "tuple[Int64s, Int32s, Int32s]"

BATCH_ROWS = 2**18
ASKED = 10_000


def main() -> None:
    """Print the figures for one shape of history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=10_000_000)
    parser.add_argument("--attributes", type=int, default=1_000)
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--zipf", action="store_true", help="few attributes have most changes")
    parser.add_argument("--disk", type=Path, help="where to keep it; it is removed again")
    parser.add_argument("--scattered", action="store_true", help="a million attributes, any order")
    parser.add_argument("--tasks", type=int, help="so many short-lived tasks of ten changes each")
    arguments = parser.parse_args()
    if arguments.tasks is not None:
        if arguments.disk is None:
            parser.error("--tasks needs --disk")
        print(measure.header("tasks"))
        _tasks(arguments.disk / "tasks.mth", arguments.tasks, arguments.states)
        return
    attributes = 1_000_000 if arguments.scattered else arguments.attributes
    names = [f"state{index}" for index in range(arguments.states)]
    changes = (
        _scattered(np.random.default_rng(1), attributes, arguments.states)
        if arguments.scattered
        else batches(arguments.changes, attributes, arguments.states, zipf=arguments.zipf)
    )
    path = None if arguments.disk is None else arguments.disk / "history.mth"
    # first, as measuring the machine takes memory
    _build(changes, names, attributes, path)
    print(measure.header("history"))
    _single(None)
    if path is not None:
        _single(path.with_name("single.mth"))
        shutil.rmtree(path.with_name("single.mth"))
        shutil.rmtree(path)


_FIRST = """
import sys, time
from meantime.history.directory.open import open_history
def report(what, function):
    before = time.process_time()
    found = function()
    print(f"{what}: {(time.process_time() - before) * 1e3:.1f} ms")
    return found
history = report("opening", lambda: open_history(sys.argv[1]))
middle_ns = (history.end_ns + history.start_ns) // 2
found = report("quarks of a pattern", lambda: history.attributes.quarks("Tasks/*/Status"))
report("the same again", lambda: history.attributes.quarks("Tasks/*/Status"))
for which in ("first", "second"):
    quark = int(found[len(found) // 2 if which == "first" else len(found) // 3])
    report(f"the {which} state", lambda: history.state(quark, middle_ns))
for which in ("first", "second"):
    report(f"the {which} time all states", lambda: history.at(middle_ns))
"""


def _tasks(path: Path, tasks: int, states: int) -> None:
    """Print what many attributes cost that exist for a short time each, as tasks do."""
    random = np.random.default_rng(1)
    builder = HistoryBuilder(path)

    def name() -> list[int]:
        parents = builder.attributes.add_many(map(str, range(tasks)), builder.quark("Tasks"))
        return [builder.quark("Status", parent=parent) for parent in parents.tolist()]

    before = time.process_time()
    status = np.array(name(), np.int32)
    print(f"{2 * tasks:,} attributes: {(time.process_time() - before) * 1e3:.0f} ms")
    start_ns = np.sort(random.integers(0, 10_000 * tasks, tasks))
    time_ns = (start_ns[:, None] + np.cumsum(random.integers(1, 10**6, (tasks, 10)), 1)).ravel()
    order = np.argsort(time_ns, kind="stable")
    time_ns, quark = time_ns[order], np.repeat(status, 10)[order]
    code = random.integers(0, states, len(order), dtype=np.int32)
    names = [f"state{index}" for index in range(states)]
    before = time.process_time()
    for first in range(0, len(order), BATCH_ROWS):
        rows = slice(first, first + BATCH_ROWS)
        builder.modify_many(time_ns[rows], quark[rows], Coded(code[rows], names))
    builder.close()
    seconds = time.process_time() - before
    size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"{len(order):,} changes to disk: {len(order) / seconds / 1e6:.1f} M/s", end="")
    print(f", {size_bytes / len(order):.2f} bytes a change", flush=True)
    subprocess.run([sys.executable, "-c", _FIRST, str(path)], check=True)
    shutil.rmtree(path)


def batches(changes: int, attributes: int, states: int, *, zipf: bool) -> Iterator[Batch]:
    """Yield changes in order of time; they are made as they are taken, to measure memory."""
    random = np.random.default_rng(1)
    weights = 1 / np.arange(1, attributes + 1)
    ends = np.cumsum(weights / weights.sum())
    now_ns = 0
    for first in range(0, changes, BATCH_ROWS):
        rows = min(BATCH_ROWS, changes - first)
        time_ns = now_ns + np.cumsum(random.integers(1, 4_000, rows))
        now_ns = int(time_ns[-1])
        quark = (
            np.minimum(np.searchsorted(ends, random.random(rows)), attributes - 1).astype(np.int32)
            if zipf
            else random.integers(0, attributes, rows, dtype=np.int32)
        )
        yield time_ns, quark, random.integers(0, states, rows, dtype=np.int32)


def _scattered(random: np.random.Generator, attributes: int, states: int) -> Iterator[Batch]:
    """Yield ten changes of each attribute, attribute by attribute."""
    for first in range(0, attributes, BATCH_ROWS // 10):
        quarks = np.arange(first, min(attributes, first + BATCH_ROWS // 10), dtype=np.int32)
        time_ns = np.cumsum(random.integers(1, 1_000, (len(quarks), 10)), axis=1)
        time_ns += random.integers(0, 10**9, (len(quarks), 1))
        code = random.integers(0, states, 10 * len(quarks), dtype=np.int32)
        yield time_ns.ravel(), np.repeat(quarks, 10), code


def _build(changes: Iterator[Batch], names: list[str], attributes: int, path: Path | None) -> None:
    builder = HistoryBuilder(path)
    texts = [str(index) for index in range(attributes)]
    seconds = measure.best_cpu_s(lambda: builder.attributes.add_many(texts), times=1)
    print(f"{attributes:,} attributes: {seconds * 1e3:.1f} ms")
    seconds, rows = 0.0, 0
    for time_ns, quark, code in changes:
        before = time.process_time()
        builder.modify_many(time_ns, quark, Coded(code, names))
        seconds += time.process_time() - before
        rows += len(time_ns)
    before = time.process_time()
    history = builder.close()
    seconds += time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{rows:,} changes to history: {rows / seconds / 1e6:.1f} M/s, peak {format_bytes(peak)}")
    _print_limits(path, rows)
    print(f"size: {history.size_bytes / rows:.2f} bytes a change", end="")
    if path is not None:
        size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(f", {size_bytes / rows:.2f} on disk", end="")
    print()
    every = np.arange(attributes, dtype=np.int32)
    gathered = sum(len(batch) for batch in history.interval_batches(every))
    seconds = measure.best_cpu_s(
        lambda: sum(len(batch) for batch in history.interval_batches(every)), times=2
    )
    print(f"{gathered:,} intervals gathered: {gathered / seconds / 1e6:.1f} M/s")


def _print_limits(path: Path | None, rows: int) -> None:
    """Print how fast this machine copies the columns, and writes what is stored of them."""
    columns = np.ones(rows * 2, np.int64)
    copied = np.empty_like(columns)
    seconds = measure.best_cpu_s(lambda: np.copyto(copied, columns), times=3)
    print(f"  the limits: copying 16 bytes a change {rows / seconds / 1e6:.0f} M/s", end="")
    if path is not None:
        blob, file = bytes(6 * rows), path.with_name("limit.tmp")

        def write() -> None:
            with file.open("wb") as stream:
                stream.write(blob)
                stream.flush()
                os.fsync(stream.fileno())

        seconds = measure.best_cpu_s(write, times=3)
        file.unlink()
        print(f", writing and syncing 6 bytes a change {rows / seconds / 1e6:.0f} M/s", end="")
    print()


def _single(path: Path | None) -> None:
    builder = HistoryBuilder(path)
    quarks = [builder.quark(str(index)) for index in range(100)]

    def modify() -> None:
        for time_ns in range(200_000):
            builder.modify(time_ns, quarks[time_ns % 100], "abc"[time_ns % 3])

    seconds = measure.best_cpu_s(modify, times=1)
    where = "in memory" if path is None else "to disk"
    print(f"changes one by one, {where}: {0.2 / seconds:.2f} M/s")

    def call() -> None:
        for time_ns in range(200_000):
            _nothing(time_ns, quarks[time_ns % 100], "abc"[time_ns % 3])

    calls = measure.best_cpu_s(call)
    print(f"  calls of an empty function: {0.2 / calls:.1f} M/s")
    if path is not None:
        builder.close()
        return
    history, first_ns = builder.history, builder.history.end_ns

    def live() -> None:
        for time_ns in range(first_ns, first_ns + ASKED):
            builder.modify(time_ns, quarks[time_ns % 100], "abc"[time_ns % 3])
            history.state(quarks[0], time_ns - 1)

    seconds = measure.best_cpu_s(live, times=1)
    print(f"a change, and a state of the growing history: {seconds / ASKED * 1e6:.1f} us")


def _nothing(*arguments: object) -> None:
    del arguments


if __name__ == "__main__":
    main()
