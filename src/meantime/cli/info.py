"""`meantime info`: what a trace is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import load
from meantime.cli.tables import Column, print_facts, print_table
from meantime.units import format_ns, format_utc

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.trace import Trace

__all__ = ["command"]


@click.command("info", epilog="Example:  meantime info pg.statemap.gz")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(*, file: str, as_json: bool, lenient: bool) -> None:
    """Tell what a trace is: its format, span, entities, states and anomalies."""
    trace, history = load(file, lenient=lenient)
    facts = _facts(trace, history)
    if as_json:
        click.echo(json.dumps(facts))
    else:
        _print(facts, history)


def _facts(trace: Trace, history: History) -> dict[str, Any]:
    from meantime.query.statistics import (  # noqa: PLC0415 - NumPy is not for --help
        state_quarks,
        state_statistics,
    )

    statistics = state_statistics(history)
    spent = {row.key: row for row in statistics.rows}
    lanes = [lane.declaration for lane in history.lanes]
    return {
        "source": trace.source,
        "format": trace.format,
        "title": history.title,
        "host": history.clock.host,
        "clock": history.clock.kind,
        "origin_ns": history.clock.utc_at_origin_ns,
        "start_ns": history.bounds[0],
        "end_ns": history.bounds[1],
        "records": trace.records,
        "entities": len(state_quarks(history)),
        "entity_kinds": sorted({lane.entity_kind for lane in lanes if lane.entity_kind}),
        "states": [
            {
                "name": state.name,
                "value": state.value,
                "color": state.color,
                "total_ns": spent[state.name].total_ns if state.name in spent else 0,
                "share": spent[state.name].share if state.name in spent else 0.0,
            }
            for lane in lanes
            for state in lane.states
        ],
        "tags": len(history.tags),
        "events": len(history.points()) + len(history.flows()),
        "anomalies": dict(history.anomalies),
    }


def _print(facts: dict[str, Any], history: History) -> None:
    origin_ns = facts["origin_ns"]
    kinds = ", ".join(facts["entity_kinds"])
    print_facts(
        [
            (name, value)
            for name, value in [
                ("file", facts["source"]),
                ("format", facts["format"]),
                ("title", facts["title"]),
                ("host", facts["host"]),
                ("begins", None if origin_ns is None else format_utc(origin_ns)),
                ("span", format_ns(facts["end_ns"] - facts["start_ns"])),
                ("records", f"{facts['records']:,}"),
                ("entities", f"{facts['entities']:,}" + (f" ({kinds})" if kinds else "")),
                ("tags", f"{facts['tags']:,}"),
                ("events", f"{facts['events']:,}"),
                ("anomalies", "\n".join(history.anomalies.lines()) or "none"),
            ]
            if value is not None
        ]
    )
    if facts["states"]:
        print_table(
            "Time in states",
            [
                Column("state"),
                Column("value", numeric=True),
                Column("color"),
                Column("total", numeric=True),
                Column("share", numeric=True),
            ],
            [
                [
                    state["name"],
                    str(state["value"]),
                    state["color"] or "",
                    format_ns(state["total_ns"]),
                    f"{state['share']:.2%}",
                ]
                for state in facts["states"]
            ],
        )
