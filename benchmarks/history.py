"""What building and asking a history costs.

python benchmarks/history.py --changes 10000000 --attributes 1000
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import measure
import numpy as np

from meantime.columns import Coded
from meantime.history import HistoryBuilder
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s
    from meantime.history import History

BATCH_ROWS = 2**18
ASKED = 10_000


def main() -> None:
    """Print the figures for one shape of history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=10_000_000)
    parser.add_argument("--attributes", type=int, default=1_000)
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--zipf", action="store_true", help="few attributes have most changes")
    arguments = parser.parse_args()
    print(measure.header("history"))
    changes, attributes = arguments.changes, arguments.attributes
    random = np.random.default_rng(1)
    time_ns = np.cumsum(random.integers(1, 4_000, changes))
    quark = (
        _zipf(random, changes, attributes)
        if arguments.zipf
        else random.integers(0, attributes, changes, dtype=np.int32)
    )
    code = random.integers(0, arguments.states, changes, dtype=np.int32)
    names = [f"state{index}" for index in range(arguments.states)]
    history = _build(time_ns, quark, Coded(code, names), attributes)
    _ask(history, random)


def _zipf(random: np.random.Generator, changes: int, attributes: int) -> Int32s:
    weights = 1 / np.arange(1, attributes + 1)
    return random.choice(attributes, changes, p=weights / weights.sum()).astype(np.int32)


def _build(time_ns: Int64s, quark: Int32s, value: Coded, attributes: int) -> History:
    made = []

    def add() -> None:
        builder = HistoryBuilder()
        builder.attributes.add_many([str(index) for index in range(attributes)])
        made.append(builder)

    seconds = measure.best_cpu_s(add, times=2)
    print(f"{attributes:,} attributes: {seconds * 1e3:.1f} ms")

    def build() -> None:
        builder = made.pop()
        for first in range(0, len(time_ns), BATCH_ROWS):
            part = slice(first, first + BATCH_ROWS)
            builder.modify_many(time_ns[part], quark[part], Coded(value.codes[part], value.names))
        made.insert(0, builder.close())

    seconds = measure.best_cpu_s(build, times=2)
    print(f"{len(quark):,} changes to history: {len(quark) / seconds / 1e6:.1f} M/s")
    history = made[0]
    print(f"size: {history.size_bytes / len(quark):.2f} bytes a change")
    return history


def _ask(history: History, random: np.random.Generator) -> None:
    attributes = len(history.attributes)
    quarks = np.arange(attributes, dtype=np.int32)
    total = 0

    def gather() -> None:
        nonlocal total
        total = sum(len(batch) for batch in history.interval_batches(quarks))

    seconds = measure.best_cpu_s(gather, times=3)
    print(f"{total:,} intervals gathered: {total / seconds / 1e6:.1f} M/s")
    times_ns = random.integers(0, history.end_ns, ASKED).tolist()
    where = random.integers(0, attributes, ASKED).tolist()

    def states() -> None:
        for quark, time_ns in zip(where, times_ns, strict=True):
            history.state(quark, time_ns)

    def full() -> None:
        for time_ns in times_ns[:20]:
            history.at(time_ns)

    spread_ns = np.linspace(history.start_ns, history.end_ns - 1, 1000).astype(np.int64)

    def batch() -> None:
        history.states(where, times_ns)

    def sample() -> None:
        history.sample(quarks[:1000], spread_ns)

    def shares() -> None:
        history.shares(quarks[:1000], bins=2000)

    def dominant() -> None:
        history.dominant(quarks[:1000], bins=2000)

    print(f"one state: {format_ns(int(measure.best_cpu_s(states) / ASKED * 1e9))}")
    print(f"all states at a time: {format_ns(int(measure.best_cpu_s(full) / 20 * 1e9))}")
    print(f"one of a batch: {format_ns(int(measure.best_cpu_s(batch) / ASKED * 1e9))}")
    asked = f"{min(attributes, 1000):,} attributes"
    print(f"{asked} at 1,000 times: {measure.best_cpu_s(sample) * 1e3:.0f} ms")
    print(f"shares of {asked} in 2,000 bins: {measure.best_cpu_s(shares) * 1e3:.0f} ms")
    print(f"their longest alone: {measure.best_cpu_s(dominant) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
