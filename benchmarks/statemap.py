"""The whole `meantime statemap` command on generated traces: events a second of CPU, and memory.

    python benchmarks/statemap.py [GENERATOR [EVENTS...]]

GENERATOR is a script that takes `--events N -o FILE`; without one, a trace is made here: entities
with log-normal dwell times among eight states, ordered by time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import header, run

MEANTIME = [sys.executable, "-m", "meantime"]
READ = "import sys; from meantime.readers import open_trace; [*open_trace(sys.argv[1]).batches]"
BUILD = "import sys, meantime; meantime.build(sys.argv[1])"
EXAMPLE = Path(__file__).parent.parent / "examples" / "postgres.statemap.gz"


def generate(path: Path, events: int, *, entities: int = 256, states: int = 8) -> None:
    """Write a trace of `events` changes in order of time."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, entities + 1) ** 0.7
    entity = rng.choice(entities, events, p=share / share.sum())
    state = rng.integers(0, states, events)
    time_ns = np.cumsum(np.exp(rng.normal(8, 1, events))).astype(np.int64)
    table = ", ".join(f'"state-{value}": {{"value": {value}}}' for value in range(states))
    with path.open("w") as file:
        file.write(f'{{"start": [1750000000, 0], "title": "generated", "states": {{{table}}}}}\n')
        for first in range(0, events, 100_000):
            rows = slice(first, first + 100_000)
            columns = (time_ns[rows].tolist(), entity[rows].tolist(), state[rows].tolist())
            file.writelines(
                f'{{ "time": "{t}", "entity": "thread-{e + 1000}", "state": {s} }}\n'
                for t, e, s in zip(*columns, strict=True)
            )


def last_time_ns(path: Path) -> int:
    """Return the time of the last change in a file."""
    with path.open("rb") as file:
        file.seek(-1000, os.SEEK_END)
        return int(re.findall(rb'"time": *"?(\d+)', file.read())[-1])


def measure(label: str, arguments: list[str], events: int = 0) -> None:
    """Print what one command of meantime costs."""
    show(label, [*MEANTIME, *arguments], events)


def show(label: str, command: list[str], events: int) -> None:
    """Print what one command costs."""
    cost = run(command)
    rate = f"{events / cost.cpu_s / 1e6:6.2f} M events/s" if events else " " * 15
    print(f"{label:40} {cost.cpu_s:6.3f} s CPU {rate}  peak {cost.peak_bytes / 1e6:.0f} MB")


def main() -> None:
    """Print the table."""
    generator = sys.argv[1] if len(sys.argv) > 1 else None
    sizes = [int(size) for size in sys.argv[2:]] or [5_000_000]
    print(header("meantime statemap"))
    measure("--help", ["--help"])
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "out.svg"))
        small = Path(folder, "small.statemap")
        generate(small, 1000)
        measure("info of 1,000 events", ["info", str(small)])
        measure("1,000 events", ["statemap", str(small), "-o", out])
        opened = run([sys.executable, "-c", f"import meantime; meantime.open({str(small)!r})"])
        print(f"{'meantime.open of 1,000 events':40} {opened.cpu_s:6.3f} s CPU")
        # With its threads for linear algebra, which spin before they sleep: commands start none,
        # but a program may need them. Sleeping at once slows small products down a lot.
        numpy = run([sys.executable, "-c", "import numpy"])
        print(f"{'  the limit: import numpy':40} {numpy.cpu_s:6.3f} s CPU")
        measure("the example", ["statemap", str(EXAMPLE), "-o", out])
        rows = Path(folder, "rows.statemap")
        for entities in (500, 20_000):
            generate(rows, 1_000_000, entities=entities)
            measure(
                f"1 M events of {entities:,} rows", ["statemap", str(rows), "-o", out], 1_000_000
            )
            by_likeness = ["statemap", str(rows), "-s", "likeness", "-o", out]
            measure(f"1 M events of {entities:,} rows by likeness", by_likeness, 1_000_000)
        for events in sizes:
            path = Path(folder, "trace.statemap")
            if generator:
                making = [sys.executable, generator, "--events", str(events), "-o", str(path)]
                subprocess.run(making, check=True)
            else:
                generate(path, events)
            drawing = ["statemap", str(path), "-o", out]
            measure(f"{events:,} events", drawing, events)
            measure(f"{events:,} events, -c 25000", [*drawing, "-c25000"], events)
            measure(f"{events:,} events, -c 250000", [*drawing, "-c250000"], events)
            # limits: nothing is drawn without being read, and nothing is read without the bytes
            for name, code in (("reading into columns", READ), ("and into a history", BUILD)):
                command = [sys.executable, "-c", code, str(path)]
                show(f"  the limit: {name}", command, events)
            show("  the limit: counting lines (wc -l)", ["wc", "-l", str(path)], events)
            last_ns = last_time_ns(path)
            window = [f"-b{last_ns // 2}", f"-d{last_ns // 100}"]
            measure(f"{events:,} events, 1 % uncoalesced", [*drawing, *window], events)
            first_ns = last_ns // 2
            part = ["--from", f"{first_ns}ns", "--to", f"{first_ns + last_ns // 100}ns"]
            for words in (["query", str(path), "count", "*"], ["stats", str(path)]):
                measure(f"{events:,} events, {words[0]} of 1 %", [*words, *part], events)
            at = ["query", str(path), "at", f"{first_ns}ns"]
            measure(f"{events:,} events, query of one time", at, events)


if __name__ == "__main__":
    main()
