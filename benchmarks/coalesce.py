"""How fast rectangles are merged, and how near the pictures stay to the truth.

Run as `python benchmarks/coalesce.py [INTERVALS ROWS WANTED]`; without arguments, the figures that
the documents quote.
"""

from __future__ import annotations

import sys

import numpy as np
from measure import best_cpu_s, header

from meantime.kernels.rectangles import Visible
from meantime.views.statemap.merging import merge
from meantime.views.statemap.options import Budget
from meantime.views.statemap.rectangle_buffer import RectangleBuffer, part

STATES = 8
END_NS = 60 * 10**9
BATCH = 1 << 17
CASES = ((10_000_000, 256, 10_000), (5_000_000, 256, 25_000), (5_000_000, 256, 250_000))


def made(intervals: int, rows: int) -> Visible:
    """Rows as busy as different threads are, in states that last long and short."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, rows + 1) ** 0.7
    rng.shuffle(share)
    counts = np.maximum(2, (share / share.sum() * intervals).astype(np.int64))
    total = int(counts.sum())
    state = (np.cumsum(rng.integers(1, STATES, total)) % STATES).astype(np.int32)
    length = np.exp(rng.normal(rng.uniform(2, 9, STATES)[state], 1.0))
    start, end = np.empty(total, np.int64), np.empty(total, np.int64)
    first = 0
    for count in counts.tolist():
        row = slice(first, first + count)
        edges = np.cumsum(length[row]) / length[row].sum() * (END_NS - count)
        end[row] = edges.astype(np.int64) + np.arange(1, count + 1)
        start[row] = np.concatenate([[0], end[row][:-1]])
        first += count
    return Visible(
        np.repeat(np.arange(rows, dtype=np.int32), counts),
        start,
        end,
        state,
        np.full(total, -1, np.int32),
        np.zeros(total, np.uint8),
    )


def merged(visible: Visible, rows: int, wanted: int) -> RectangleBuffer:
    """Return the rectangles that are left of the intervals."""
    buffer = RectangleBuffer((0, END_NS), budget=Budget(wanted, wanted), tags=0, joins=True)
    total = len(visible.row)
    for first in range(0, total, BATCH):
        last = min(first + BATCH, total)
        done_ratio = (int(visible.row[last - 1]) + 1) / rows
        buffer.add(part(visible, first, last), states=STATES, done_ratio=done_ratio)
    merge(buffer, wanted, appearance=np.arange(rows, dtype=np.int32))
    return buffer


def main() -> None:
    """Print the figures."""
    print(header("merging"))
    given = tuple(map(int, sys.argv[1:]))
    for intervals, rows, wanted in (given,) if given else CASES:
        visible = made(intervals, rows)
        cpu_s = best_cpu_s(lambda: merged(visible, rows, wanted), times=3)  # noqa: B023 - called now
        print(
            f"  {intervals:>11,} intervals of {rows:,} rows to {wanted:,}: {cpu_s:.3f} s,"
            f" {intervals / cpu_s / 1e6:.0f} M/s"
        )


if __name__ == "__main__":
    main()
