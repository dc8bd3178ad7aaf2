"""`meantime stats --by thread` of a trace of the scheduler: how threads got the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.cli.figures import print_figures
from meantime.cli.tables import Column
from meantime.model.durations import Durations, figures_of
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from meantime.query.scheduling import ThreadScheduling

__all__ = ["document", "show"]


def document(found: ThreadScheduling) -> dict[str, Any]:
    """Return the rows as JSON."""
    return {
        "range_ns": list(found.range_ns),
        "scheduling": [{"thread": row.thread, **row.numbers()} for row in found.rows],
    }


def show(found: ThreadScheduling) -> None:
    """Print a table of the threads; latencies are from a wake-up until the thread ran."""
    length_ns = found.range_ns[1] - found.range_ns[0]
    rows = found.rows
    print_figures(
        f"How threads got the CPU in {format_ns(length_ns)}; latencies are of wake-ups",
        {
            Column("thread"): [row.thread for row in rows],
            Column("run", numeric=True): [format_ns(row.run_ns) for row in rows],
            Column("share", numeric=True): [f"{row.run_ns / length_ns:.1%}" for row in rows],
            Column("wait", numeric=True): [format_ns(row.wait_ns) for row in rows],
        },
        [figure for figure in figures_of(Durations) if figure.key != "total_ns"],
        [row.latency for row in rows],
        more={
            Column(name, numeric=True): [f"{getattr(row, name):,}" for row in rows]
            for name in ("migrations", "involuntary", "switches")
        },
        titles={"count": "wake-ups"},
    )
