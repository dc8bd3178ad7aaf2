"""What heat maps cost: text to picture, folding intervals and times, a day of columns.

python benchmarks/heatmap.py PERF_TEXT
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import best_cpu_s, header, run

from meantime.query.offsets import CellsBuilder, Fold, OffsetMap, Source, find
from meantime.readers import open_trace
from meantime.views.heatmap.figure import draw
from meantime.views.heatmap.image import figure_png
from meantime.views.heatmap.look import Look
from meantime.views.heatmap.selection import Selection

S = 10**9


def text_to_picture(text: Path, folder: Path) -> None:
    """Repeat a text to 100 MB and draw it, with stacks; then without."""
    content = text.read_bytes()
    stacks = folder / "stacks.txt"
    stacks.write_bytes(content * -(-100_000_000 // len(content)))
    plain = folder / "plain.txt"
    with plain.open("w") as file:
        for first in range(0, 2_000_000, 1000):
            lines = (
                f"java  {1000 + i % 7} [{i % 4:03}] {i // 99}.{i % 99 * 10101:06}:"
                "   10101010 cpu-clock: \n"
                for i in range(first, first + 1000)
            )
            file.writelines(lines)
    command = [sys.executable, "-m", "meantime", "heatmap", "-o", str(folder / "out.png")]
    for name, path in (("perf script -g", stacks), ("without call graphs", plain)):
        cost = run([*command, str(path)])
        size = path.stat().st_size / 1e6
        print(f"{name}, {size:.0f} MB to PNG: {cost.cpu_s:.2f} s, {cost.peak_bytes / 1e6:.0f} MB")

    def read() -> None:
        for _ in open_trace(plain).batches:
            pass

    print(f"samples without call graphs, read: {2 / best_cpu_s(read, times=3):.1f} M/s")


def folding() -> None:
    """Fold a hundred million times and ten million intervals."""
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, 1000 * S, 100_000_000))
    starts = times[::10].copy()
    ends = starts + random.integers(0, 10**5, len(starts))
    for rows in (50, 49):
        fold = Fold(0, S, rows)

        def fold_times(fold: Fold = fold) -> None:
            builder = CellsBuilder(fold)
            builder.add_times(times)
            builder.build()

        def fold_intervals(fold: Fold = fold) -> None:
            builder = CellsBuilder(fold)
            builder.add_intervals(starts, ends)
            builder.build()

        print(
            f"{rows} rows: 100 M times {best_cpu_s(fold_times, times=3) * 1e3:.0f} ms, "
            f"10 M intervals {best_cpu_s(fold_intervals) * 1e3:.0f} ms"
        )


def finding() -> None:
    """Look for periods in half an hour of 16 threads, as 100 MB of perf text have."""
    random = np.random.default_rng(7)
    builder = CellsBuilder(Fold(0, S, 50))
    length_ns = 1854 * S
    ticks = np.arange(0, length_ns, 10_101_010)
    for key in range(16):
        if key < 8:
            phase = ticks % ((key + 1) * 370_000_000)
            times = ticks[phase < 40_000_000]
        else:
            times = ticks[random.random(len(ticks)) < 0.4 / (key - 7)]
        builder.add_times(times, keys=np.full(len(times), key))
    source = Source("x", ((0, length_ns),), interval_ns=10_101_010)
    found = OffsetMap.of(builder, "count", names=[f"t{key}" for key in range(16)], sources=[source])
    print(f"findings of 16 names in 1,854 s: {best_cpu_s(lambda: find(found)) * 1e3:.0f} ms")


def a_day() -> None:
    """Draw a day of one-second columns."""
    random = np.random.default_rng(7)
    builder = CellsBuilder(Fold(0, S, 50))
    builder.add_times(np.sort(random.integers(0, 86_400 * S, 8_000_000)))
    found = OffsetMap.of(builder, "count", sources=[Source("x", ((0, 86_400 * S),))])
    cost = best_cpu_s(lambda: figure_png(draw(found, Selection(), Look(), title="a day")), times=3)
    print(f"a day of 1 s columns to PNG: {cost:.2f} s")


if __name__ == "__main__":
    print(header("heat maps"))
    with tempfile.TemporaryDirectory() as folder:
        text_to_picture(Path(sys.argv[1]), Path(folder))
    folding()
    finding()
    a_day()
