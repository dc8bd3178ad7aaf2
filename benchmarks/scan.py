"""What scanning a statemap file costs: bytes and events a second of CPU.

python benchmarks/scan.py FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path

import measure

from meantime.kernels.scan_statemap import Scanner, Stop
from meantime.readers import open_trace


def main() -> None:
    """Print the figures for one file, which is plain text and begins with its metadata."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    path = parser.parse_args().file
    print(measure.header("scan"))
    trace = open_trace(path)
    for _ in trace.batches:
        pass
    names = [state.name for state in trace.lanes[0].states]
    data = bytearray(path.read_bytes())

    def scan() -> None:
        scanner = Scanner(room=1 << 18)
        scanner.define_states(names)
        start = 0
        while (stop := scanner.scan(data, start, len(data))) != Stop.DRAINED:
            scanner.take_changes()
            scanner.take_points()
            start = scanner.end if stop == Stop.OTHER else scanner.start

    def read() -> None:
        for _ in open_trace(path).batches:
            pass

    for what, function in (("scanner alone", scan), ("reader", read)):
        seconds = measure.best_cpu_s(function)
        print(
            f"{what}: {len(data) / seconds / 1e9:.2f} GB/s,"
            f" {trace.records / seconds / 1e6:.1f} M payloads/s"
        )


if __name__ == "__main__":
    main()
