"""What a question costs in SQL and in Python, in CPU time.

python benchmarks/questions.py: 10 million changes of 1,000 attributes, in memory
python benchmarks/questions.py --changes 100000000

A database is opened once, and a question is asked several times; the least counts, so what is kept
from one to the next, as sums of statistics are, is there. Statistics are also asked for the first
time, and of the same history on disk, opened again. The questions about spans are to 15,126 spans
of 20 threads with 140,000 states.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING

import measure
import numpy as np
from history import batches

import meantime
from meantime.history import HistoryBuilder
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history import History
    from meantime.query.sql import Database

NAMES = [f"state {number}" for number in range(8)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=10_000_000)
    parser.add_argument("--attributes", type=int, default=1_000)
    arguments = parser.parse_args()
    print(measure.header("questions"))
    states = _built(HistoryBuilder(), arguments.changes, arguments.attributes)
    _first_statistics(states, "in memory")
    with TemporaryDirectory() as folder:
        path = Path(folder, "states.mth")
        _built(HistoryBuilder(path), arguments.changes, arguments.attributes).close()
        for which in ("on disk, first", "on disk, again"):
            _first_statistics(meantime.open(path), which)
    opening = measure.best_cpu_s(lambda: meantime.database(states).close())
    print(f"open and close a database: {opening * 1e3:.2f} ms")
    for history, questions in ((states, _of_states), (_threads(), _of_spans)):
        with meantime.database(history) as db:
            for name, ask in questions(history, db).items():
                print(f"{name}: {measure.best_cpu_s(ask) * 1e3:.2f} ms")


def _first_statistics(history: History, which: str) -> None:
    """Print what statistics take that were not computed by this process before."""
    for by in ("state", "entity"):
        begin_s = process_time()
        meantime.stats(history, by)
        print(f"statistics by {by}, {which}: {(process_time() - begin_s) * 1e3:.2f} ms")


def _threads() -> History:
    random = np.random.default_rng(1)
    builder = HistoryBuilder()
    threads = [builder.quark("Processes", "1", "Threads", str(tid)) for tid in range(20)]
    for tid in range(20):
        time_ns = np.unique(random.integers(0, 10**9, 7_000))
        codes = (np.arange(len(time_ns)) % 3).astype(np.int32)
        status = builder.quark("Threads", str(tid), "Status")
        quarks = np.full(len(time_ns), status, np.int32)
        builder.modify_many(time_ns, quarks, Coded(codes, ["running", "runnable", "sleeping"]))
    rows = 15_126
    start_ns = random.integers(0, 999_000_000, rows)
    builder.add_spans(
        [threads[row % 20] for row in range(rows)],
        [f"f{row % 50}" for row in range(rows)],
        start_ns,
        start_ns + random.integers(1_000, 1_000_000, rows),
    )
    return builder.close(10**9)


def _built(builder: HistoryBuilder, changes: int, attributes: int) -> History:
    builder.attributes.add_many(map(str, range(attributes)))
    for time_ns, quark, code in batches(changes, attributes, len(NAMES), zipf=False):
        builder.modify_many(time_ns, quark, Coded(code, NAMES))
    return builder.close()


def _of_states(history: History, db: Database) -> dict[str, Callable[[], object]]:
    middle_ns = (history.start_ns + history.end_ns) // 2
    short = (middle_ns, middle_ns + 40_000_000)
    asked: dict[str, tuple[str, list[object]]] = {
        "select 1": ("select 1", []),
        "one attribute, a short range": (
            "from intervals where attribute = '7' and start_ns < ? and end_ns > ?",
            [short[1], short[0]],
        ),
        "one attribute by its number, a short range": (
            "from intervals where quark = 7 and start_ns < ? and end_ns > ?",
            [short[1], short[0]],
        ),
        "all states at a time": (
            "select quark, value from intervals where start_ns < ? and end_ns > ?",
            [middle_ns + 1, middle_ns],
        ),
        "time in each state": (
            "select value, sum(duration_ns) from intervals group by value",
            [],
        ),
        "time in each state, by shares()": (
            "select value, sum(duration_ns) from shares() group by value",
            [],
        ),
        "one state of one attribute": (
            "select count(*) from intervals where value = 'state 3' and quark = 7",
            [],
        ),
    }
    python: dict[str, Callable[[], object]] = {
        "one attribute, a short range, Python": lambda: history.intervals("7", *short),
        "all states at a time, Python": lambda: history.at(middle_ns),
        "time in each state, Python": lambda: history.shares("*").named_sums(),
        "statistics, Python": lambda: meantime.stats(history),
        "statistics, exact, Python": lambda: meantime.stats(history, exact=True),
        "statistics by entity, Python": lambda: meantime.stats(history, "entity"),
        "findings, Python": lambda: meantime.findings(history),
    }
    return {
        **{f"{name}, SQL": partial(db.sql, *each) for name, each in asked.items()},
        **python,
    }


def _of_spans(_: History, db: Database) -> dict[str, Callable[[], object]]:
    asked = {
        "states of threads by span": (
            "select name, state, sum(duration_ns) from span_states() group by all"
        ),
        "the longest spans": "select name, duration_ns from spans order by 2 desc limit 10",
        "spans by name": "select name, count(*), sum(self_ns) from spans group by name",
        "what a span is in": "from ancestors(7)",
    }
    return {f"{name}, SQL": partial(db.sql, statement) for name, statement in asked.items()}


if __name__ == "__main__":
    main()
