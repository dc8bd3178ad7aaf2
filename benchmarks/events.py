"""What reading events and making states of them by a provider costs.

python benchmarks/events.py --events 400000

The events are made here: `open`, `read`, `write` and `close` of 47 descriptors and 100 files in 7
threads, each a line of about 90 bytes. The providers are those in `examples/`; the third one takes
columns.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import measure
import numpy as np

import meantime
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.history import HistoryBuilder
    from meantime.model.events import Event, Events

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Sizes(meantime.StateProvider):
    """Keeps the size of the last read and write, column by column."""

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        """Take a batch."""
        for name in ("read", "write"):
            calls = columns.of_name(name)
            quarks = np.full(len(calls), state.quark(name))
            state.modify_many(calls.time_ns, quarks, np.asarray(calls["bytes"], np.int64))


class Nothing(meantime.StateProvider):
    """Takes events one by one and does nothing: no provider in Python can be faster."""

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        """Take an event."""


def main() -> None:
    """Print the figures for one number of events."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    count = parser.parse_args().events
    print(measure.header("events"))
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "events.jsonl"
        with trace.open("w") as file:
            file.writelines(lines(count))
        report("read", count, lambda: sum(map(len, batches(trace))))
        report("read into a history of points", count, lambda: meantime.open(trace))
        text = Path(folder) / "events.txt"
        with text.open("w") as file:
            file.writelines(tracepoints(count))
        report("read as tracepoints of perf", count, lambda: sum(map(len, batches(text))))
        for name, provider in (
            ("a provider in Python", EXAMPLES / "files.py"),
            ("  the limit, one in Python that does nothing", Nothing),
            ("a declared provider", EXAMPLES / "files.toml"),
            ("a provider that takes columns", Sizes),
        ):
            report(name, count, partial(meantime.build, trace, provider))


def batches(trace: Path) -> Iterator[Events]:
    """Yield the events of a trace."""
    return open_trace(trace, events=True).batches  # type: ignore[return-value] # it has nothing else


def report(name: str, count: int, function: Callable[[], object]) -> None:
    """Print how many events a second a function takes."""
    print(f"{name}: {count / measure.best_cpu_s(function):,.0f} events a second")


def tracepoints(count: int) -> Iterator[str]:
    """Yield context switches as `perf script` prints them."""
    dice = random.Random(1)  # noqa: S311 - nothing is secret here
    time_us = 0
    for _ in range(count):
        time_us += dice.randrange(1, 20)
        one, other = dice.randrange(100, 140), dice.randrange(100, 140)
        yield (
            f"worker {one:6} [{one % 4:03}] {time_us // 10**6:5}.{time_us % 10**6:06}:"
            f" sched:sched_switch: prev_comm=worker prev_pid={one} prev_prio=120 prev_state=S"
            f" ==> next_comm=worker next_pid={other} next_prio=120\n"
        )


def lines(count: int) -> Iterator[str]:
    """Yield events, a line each."""
    dice = random.Random(1)  # noqa: S311 - nothing is secret here
    time_ns = 0
    for number in range(count):
        time_ns += dice.randrange(1, 2000)
        event = {
            "time_ns": time_ns,
            "name": dice.choice(["open", "read", "write", "close"]),
            "pid": 100,
            "tid": 100 + number % 7,
            "fd": dice.randrange(3, 50),
        }
        if event["name"] == "open":
            event["path"] = f"/f/{dice.randrange(100)}"
        elif event["name"] != "close":
            event["bytes"] = dice.randrange(4096)
        yield json.dumps(event) + "\n"


if __name__ == "__main__":
    main()
