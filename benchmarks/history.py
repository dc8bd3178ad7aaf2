"""What building and asking a history costs.

python benchmarks/history.py --changes 10000000 --attributes 1000
python benchmarks/history.py --changes 100000000 --attributes 10000 --zipf --disk DIRECTORY
python benchmarks/history.py --scattered: a million attributes with ten changes each, any order
python benchmarks/history.py --tasks 1000000 --disk DIRECTORY: short-lived tasks of ten changes each
python benchmarks/history.py --growth opening --disk DIRECTORY: what opening costs, at three sizes
python benchmarks/history.py --growth shares --changes 100000000: shares and tiles, the same
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import measure
import numpy as np

from meantime.columns import Coded
from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history
from meantime.units import format_bytes, format_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.columns import Int32s, Int64s
    from meantime.history import History

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
    parser.add_argument("--growth", choices=("opening", "shares"), help="the cost at several sizes")
    parser.add_argument(
        "--most", type=int, default=100_000_000, help="the changes of the largest that is opened"
    )
    arguments = parser.parse_args()
    if arguments.growth == "shares":
        print(measure.header("shares"))
        _ask_shares(arguments)
        return
    if arguments.tasks is not None:
        if arguments.disk is None:
            parser.error("--tasks needs --disk")
        print(measure.header("tasks"))
        _tasks(arguments.disk / "tasks.mth", arguments.tasks, arguments.states)
        return
    if arguments.growth == "opening":
        if arguments.disk is None:
            parser.error("--growth opening needs --disk")
        _growth(arguments.disk, arguments.most)
        return
    random = np.random.default_rng(1)
    attributes = 1_000_000 if arguments.scattered else arguments.attributes
    names = [f"state{index}" for index in range(arguments.states)]
    if arguments.scattered:
        batches = _scattered(random, attributes, arguments.states)
    else:
        batches = _batches(random, arguments)
    path = None if arguments.disk is None else arguments.disk / "history.mth"
    history = _build(batches, names, attributes, path)
    print(measure.header("history"))
    _ask(history, random)
    _ask_lanes(history)
    _single(None)
    if path is not None:
        _single(path.with_name("single.mth"))
        shutil.rmtree(path.with_name("single.mth"))
        shutil.rmtree(path)


def _growth(folder: Path, most: int) -> None:
    """Print how opening, and the first queries, grow with changes and with attributes."""
    print(measure.header("history"))
    print(
        f"{'values':8}{'changes':>12}{'attributes':>12}{'build M/s':>10}{'bytes':>7}{'open ms':>9}"
        f"{'MB':>6}{'lanes ms':>9}{'first at':>9}{'at ms':>8}{'growth of open':>16}"
    )
    for kind in ("integers", "strings"):
        for attributes in (1_000, 10_000, 1_000_000):
            before: float | None = None
            for changes in (1_000_000, 10_000_000, 100_000_000):
                if changes > most or (attributes > changes // 10):
                    continue
                before = _grown(folder / "growth.mth", kind, changes, attributes, before)


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


# In a process of its own: what it has resident is that of one history alone.
_OPEN = """
import json, sys, time
import meantime
from meantime.history.directory.open import open_history
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def cpu(function):
    before = time.process_time()
    function()
    return time.process_time() - before
path = sys.argv[1]
cpu(lambda: open_history(path).end_ns)
best = min(cpu(lambda: open_history(path).end_ns) for _ in range(3))
before = resident()
history = open_history(path)
history.end_ns
taken = resident() - before
lanes = cpu(lambda: history.lanes)
middle_ns = (history.start_ns + history.end_ns) // 2
first = cpu(lambda: history.at(middle_ns))
again = min(cpu(lambda: history.at(middle_ns)) for _ in range(3))
print(json.dumps([best, taken, lanes, first, again]))
"""


def _grown(path: Path, kind: str, changes: int, attributes: int, before: float | None) -> float:
    """Print a row of the table of growth; return how long opening takes."""
    shutil.rmtree(path, ignore_errors=True)
    random = np.random.default_rng(1)
    builder = HistoryBuilder(path)
    builder.attributes.add_many(map(str, range(attributes)))
    names = [f"state{index}" for index in range(16)]
    seconds, now_ns = 0.0, 0
    for first in range(0, changes, BATCH_ROWS):
        rows = min(BATCH_ROWS, changes - first)
        time_ns = now_ns + np.cumsum(random.integers(1, 4_000, rows))
        now_ns = int(time_ns[-1])
        quark = random.integers(0, attributes, rows, dtype=np.int32)
        code = random.integers(0, 16, rows, dtype=np.int32)
        values = code.astype(np.int64) if kind == "integers" else Coded(code, names)
        start = time.process_time()
        builder.modify_many(time_ns, quark, values)
        seconds += time.process_time() - start
    start = time.process_time()
    builder.close()
    seconds += time.process_time() - start
    del builder
    size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    command = [sys.executable, "-c", _OPEN, str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    opened, taken, lanes, first_at, at = json.loads(printed)
    growth = "" if before is None else f"{opened / before:.1f} x"
    print(
        f"{kind:8}{changes:12,}{attributes:12,}{changes / seconds / 1e6:10.1f}"
        f"{size_bytes / changes:7.2f}{opened * 1e3:9.1f}{taken / 1e6:6.0f}{lanes * 1e3:9.2f}"
        f"{first_at * 1e3:9.1f}{at * 1e3:8.2f}{growth:>16}",
        flush=True,
    )
    shutil.rmtree(path)
    return float(opened)


def _batches(random: np.random.Generator, arguments: argparse.Namespace) -> Iterator[Batch]:
    """Yield changes in order of time; they are made as they are taken, to measure memory."""
    attributes, states = arguments.attributes, arguments.states
    weights = 1 / np.arange(1, attributes + 1)
    ends = np.cumsum(weights / weights.sum())
    now_ns = 0
    for first in range(0, arguments.changes, BATCH_ROWS):
        rows = min(BATCH_ROWS, arguments.changes - first)
        time_ns = now_ns + np.cumsum(random.integers(1, 4_000, rows))
        now_ns = int(time_ns[-1])
        quark = (
            np.minimum(np.searchsorted(ends, random.random(rows)), attributes - 1).astype(np.int32)
            if arguments.zipf
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


def _build(
    batches: Iterator[Batch], names: list[str], attributes: int, path: Path | None
) -> History:
    builder = HistoryBuilder(path)
    texts = [str(index) for index in range(attributes)]
    seconds = measure.best_cpu_s(lambda: builder.attributes.add_many(texts), times=1)
    print(f"{attributes:,} attributes: {seconds * 1e3:.1f} ms")
    seconds, rows = 0.0, 0
    for time_ns, quark, code in batches:
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
    return open_history(path) if path is not None else history


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


def _ask(history: History, random: np.random.Generator) -> None:
    attributes = len(history.attributes)
    times_ns = random.integers(0, history.end_ns, ASKED).tolist()
    where = random.integers(0, attributes, ASKED).tolist()

    def states() -> None:
        for quark, time_ns in zip(where, times_ns, strict=True):
            history.state(quark, time_ns)

    def full() -> None:
        for time_ns in times_ns[:20]:
            history.at(time_ns)

    def batch() -> None:
        history.states(where, times_ns)

    print(f"one state: {format_ns(int(measure.best_cpu_s(states) / ASKED * 1e9))}")
    print(f"all states at a time: {format_ns(int(measure.best_cpu_s(full) / 20 * 1e9))}")
    print(f"one of a batch: {format_ns(int(measure.best_cpu_s(batch) / ASKED * 1e9))}")


def _ask_lanes(history: History) -> None:
    every = np.arange(len(history.attributes), dtype=np.int32)
    lanes = every[:1000]
    spread_ns = np.linspace(history.start_ns, history.end_ns - 1, 1000).astype(np.int64)
    total = 0

    def gather() -> None:
        nonlocal total
        total = sum(len(batch) for batch in history.interval_batches(every))

    seconds = measure.best_cpu_s(gather, times=2)
    print(f"{total:,} intervals gathered: {total / seconds / 1e6:.1f} M/s")
    seconds = measure.best_cpu_s(lambda: history.sample(lanes, spread_ns))
    print(f"{len(lanes):,} attributes at 1,000 times: {seconds * 1e3:.0f} ms")
    middle_ns = (history.start_ns + history.end_ns) // 2
    near_ns = middle_ns + (spread_ns - history.start_ns) // 100
    seconds = measure.best_cpu_s(lambda: history.sample(lanes, near_ns))
    print(f"{len(lanes):,} attributes at 1,000 times in 1 % of the range: {seconds * 1e3:.1f} ms")
    for bins in (1, 200, 2_000):
        seconds = measure.best_cpu_s(lambda bins=bins: history.shares(lanes, bins=bins))  # type: ignore[misc]
        longest = measure.best_cpu_s(lambda bins=bins: history.dominant(lanes, bins=bins))  # type: ignore[misc]
        print(
            f"shares of {len(lanes):,} attributes in {bins:,} bins: {seconds * 1e3:.1f} ms,"
            f" the longest alone: {longest * 1e3:.1f} ms"
        )


def _ask_shares(arguments: argparse.Namespace) -> None:
    """Print what shares and tiles cost at 1/100 and 1/10 of the changes and at all, and the growth.

    Once with integers and once with strings, 1,000 attributes or as many as asked.
    """
    names = [f"state{index}" for index in range(arguments.states)]
    changes, attributes = arguments.changes, arguments.attributes
    for kind in ("int", "str"):
        costs: dict[str, list[float]] = {}
        for arguments.changes in (changes // 100, changes // 10, changes):
            path = None if arguments.disk is None else arguments.disk / "history.mth"
            builder = HistoryBuilder(path)
            builder.attributes.add_many([str(index) for index in range(attributes)])
            spent_s = 0.0
            for time_ns, quark, code in _batches(np.random.default_rng(1), arguments):
                value = Coded(code, names) if kind == "str" else code.astype(np.int64)
                before_s = time.process_time()
                builder.modify_many(time_ns, quark, value)
                spent_s += time.process_time() - before_s
            before_s = time.process_time()
            history = builder.close()
            spent_s += time.process_time() - before_s
            history = open_history(path) if path is not None else history
            files = path.rglob("*.pyr") if path is not None else ()
            pyramid_bytes = sum(file.stat().st_size for file in files) / arguments.changes
            print(
                f"{kind}, {arguments.changes:,} changes:"
                f" {arguments.changes / spent_s / 1e6:.1f} M/s,"
                f" {pyramid_bytes:.2f} bytes of pyramids a change"
            )
            lanes = np.arange(min(attributes, 1000), dtype=np.int32)
            width_ns = 2 ** ((history.end_ns - history.start_ns) // 512).bit_length()
            deep_ns = max(1, width_ns >> 12)
            middle_ns = (history.start_ns + history.end_ns) // 2 // deep_ns * deep_ns
            asked: dict[str, Callable[[], object]] = {
                f"shares of {len(lanes):,} in {bins:,} bins": partial(
                    history.shares, lanes, bins=bins
                )
                for bins in (2_000, 200, 1)
            }
            asked["the longest alone, 2,000 bins"] = partial(history.dominant, lanes, bins=2_000)
            cell_ns = 2 ** ((history.end_ns - history.start_ns) // 2_000).bit_length() // 2
            cells = min(2_000, (history.end_ns - history.start_ns) // cell_ns)
            aligned = (lanes, 0, cells * cell_ns, cells)
            asked["shares, 2,000 bins of 2^k ns"] = partial(history.shares, *aligned)
            asked["the longest alone, 2,000 bins of 2^k ns"] = partial(history.dominant, *aligned)
            for what, start_ns, bin_ns in (
                ("the widest", 0, width_ns),
                ("zoomed in", middle_ns, deep_ns),
            ):
                tile = (lanes[:64], start_ns, bin_ns, 512)
                asked[f"tile of 64 x 512, {what}"] = partial(history.state_tile, *tile)
                if kind == "int":
                    asked[f"counters of 64 x 512, {what}"] = partial(history.counter_tile, *tile)
            asked["limit: gathering the sums and rows of 2,000 edges"] = _edges_read(
                len(lanes) * 2_000, arguments.changes
            )
            rows = len(history.shares(*aligned))
            asked["limit: writing the shares of 2,000 bins to new memory"] = partial(
                _answer_written, 5 * rows + 8 * len(lanes) * cells
            )
            for what, ask in asked.items():
                costs.setdefault(what, []).append(measure.best_cpu_s(ask, times=7) * 1e3)
            history.close()
            if path is not None:
                shutil.rmtree(path)
        for what, each in costs.items():
            print(
                f"{kind}: {what}: {', '.join(f'{cost:.2f}' for cost in each)} ms;"
                f" growth {each[1] / each[0]:.1f}, {each[2] / each[1]:.1f}"
            )


def _edges_read(edges: int, changes: int) -> Callable[[], object]:
    """Return what reads as many cache lines as the sums and the rows next to so many edges have.

    A line of sums, and one and a half of rows, in ascending order: 5 bytes a change.
    """
    lines = np.ones((max(1, changes * 5 // 64), 8), np.int64)
    at = np.sort(np.random.default_rng(1).integers(0, len(lines), edges * 5 // 2))
    return lambda: np.sum(lines[at, 0])


def _answer_written(size_bytes: int) -> None:
    np.empty(size_bytes, np.uint8).fill(1)


if __name__ == "__main__":
    main()
