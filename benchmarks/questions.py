"""What a question costs in SQL and in Python, in CPU time.

python benchmarks/questions.py: 10 million changes of 1,000 attributes, in memory
python benchmarks/questions.py --changes 100000000
python benchmarks/questions.py --trace FILE: the questions about spans and threads

A database is opened once, and a question is asked several times; the least counts.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import measure
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
    parser.add_argument("--trace", help="ask about this trace instead")
    arguments = parser.parse_args()
    print(measure.header("questions"))
    if arguments.trace is not None:
        history = meantime.open(arguments.trace)
    else:
        history = _built(arguments.changes, arguments.attributes)
    opening = measure.best_cpu_s(lambda: meantime.database(history).close())
    print(f"open and close a database: {opening * 1e3:.2f} ms")
    with meantime.database(history) as db:
        questions = _of_states(history, db) if arguments.trace is None else _of_trace(db)
        for name, ask in questions.items():
            print(f"{name}: {measure.best_cpu_s(ask) * 1e3:.2f} ms")


def _built(changes: int, attributes: int) -> History:
    builder = HistoryBuilder()
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
        "statistics by entity, Python": lambda: meantime.stats(history, "entity"),
    }
    return {
        **{f"{name}, SQL": partial(db.sql, *each) for name, each in asked.items()},
        **python,
    }


def _of_trace(db: Database) -> dict[str, Callable[[], object]]:
    asked = {
        "the longest spans": "select name, duration_ns from spans order by 2 desc limit 10",
        "spans by name": "select name, count(*), sum(self_ns) from spans group by name",
        "all spans with arguments": "select arguments from spans",
    }
    return {name: partial(db.sql, statement) for name, statement in asked.items()}


if __name__ == "__main__":
    main()
