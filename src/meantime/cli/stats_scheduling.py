"""`meantime stats --by thread` of a trace of the scheduler: how threads got the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from meantime.cli.tables import Column, print_table
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.query.scheduling import ThreadScheduling

__all__ = ["document", "show"]

_MOST_ROWS = 60
# Left out in this order on a terminal that is too narrow.
_DROP = ("mean", "wake-ups", "p99", "switches", "share")


def document(found: ThreadScheduling) -> dict[str, Any]:
    """Return the rows as JSON."""
    return {
        "range_ns": list(found.range_ns),
        "scheduling": [row._asdict() for row in found.rows],
    }


def show(found: ThreadScheduling) -> None:
    """Print a table of the threads; latencies are from a wake-up until the thread ran."""
    length_ns = found.range_ns[1] - found.range_ns[0]
    print_table(
        f"How threads got the CPU in {format_ns(length_ns)}; latencies are of wake-ups",
        [
            Column("thread"),
            *(
                Column(name, numeric=True)
                for name in (
                    "run",
                    "share",
                    "wait",
                    "wake-ups",
                    "mean",
                    "p99",
                    "longest",
                    "migrations",
                    "involuntary",
                    "switches",
                )
            ),
        ],
        [
            [
                row.thread,
                format_ns(row.run_ns),
                f"{row.run_ns / length_ns:.1%}",
                format_ns(row.wait_ns),
                f"{row.wakeups:,}",
                *map(format_ns, (row.mean_latency_ns, row.p99_latency_ns, row.max_latency_ns)),
                f"{row.migrations:,}",
                f"{row.involuntary:,}",
                f"{row.switches:,}",
            ]
            for row in found.rows[:_MOST_ROWS]
        ],
        drop=_DROP,
    )
    if len(found.rows) > _MOST_ROWS:
        click.echo(f"{len(found.rows) - _MOST_ROWS:,} more; --json has all of them\n")
