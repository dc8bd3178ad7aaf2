"""What reading tables costs: intervals and events as CSV, and as Parquet if pyarrow is installed.

python benchmarks/tables.py --rows 1000000

The tables are made here: intervals of 100 paths in order of time, with 8 values. Each is read in a
process of its own; what its start takes is subtracted from the time but not from the memory.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import measure

PARQUET = """
import sys
from pyarrow import parquet
if sys.argv[1:]:
    parquet.read_table(sys.argv[1], use_threads=False, read_dictionary=["path", "value"])
"""
READ = "import sys; from meantime.readers import open_trace; [*open_trace(sys.argv[1]).batches]"


def main() -> None:
    """Print the figures for one number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    count = parser.parse_args().rows
    print(measure.header("tables"))
    with tempfile.TemporaryDirectory() as folder:
        columns = intervals(count)
        events = {"time_ns": columns["start_ns"], "name": columns["value"]}
        for name, table in (("intervals", columns), ("events", events)):
            path = Path(folder) / f"{name}.csv"
            rows = zip(*table.values(), strict=True)
            with path.open("w") as file:
                file.write(",".join(table) + "\n")
                file.writelines(",".join(map(str, row)) + "\n" for row in rows)
            report(f"{name} as CSV", path, count)
        try:
            pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            return
        path = Path(folder) / "intervals.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        report("intervals as Parquet", path, count)
        # no reader that uses pyarrow can be below that
        start = measure.run([sys.executable, "-c", PARQUET])
        run = measure.run([sys.executable, "-c", PARQUET, str(path)])
        print(
            f"  the limit: pyarrow starts in {start.cpu_s:.2f} s and {start.peak_bytes / 1e6:.0f}"
            f" MB, and reads into its own columns in {run.cpu_s - start.cpu_s:.2f} s and"
            f" {run.peak_bytes / 1e6:.0f} MB"
        )


def report(name: str, path: Path, count: int) -> None:
    """Print what reading a table takes."""
    start_s = measure.run([sys.executable, "-c", "import meantime.readers.table"]).cpu_s
    run = measure.run([sys.executable, "-c", READ, str(path)])
    seconds = run.cpu_s - start_s
    print(
        f"{name}: {seconds:.2f} s, {count / seconds / 1e6:.1f} M rows a second,"
        f" {run.peak_bytes / 1e6:.0f} MB"
    )


def intervals(count: int) -> dict[str, list[int] | list[str]]:
    """Return columns of intervals."""
    dice = random.Random(1)  # noqa: S311 - nothing is secret here
    starts = [row * 50 + dice.randrange(50) for row in range(count)]
    return {
        "start_ns": starts,
        "end_ns": [start + dice.randrange(1, 4900) for start in starts],
        "path": [f"host/cpu{row % 100}" for row in range(count)],
        "value": [f"state{dice.randrange(8)}" for _ in range(count)],
    }


if __name__ == "__main__":
    main()
