"""`meantime info`: what a trace is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import load
from meantime.cli.options import provider_option
from meantime.cli.tables import Column, print_facts, print_table
from meantime.units import format_ns, format_utc

if TYPE_CHECKING:
    from meantime.history.history import History

__all__ = ["command"]

_SPAN_FORMATS = ("chrome", "spall")
_MOST_THREADS = 60
_MOST_FACTS = 12
_SHORT = 100
_MOST_NAMES = 6


@click.command("info", epilog="Example:  meantime info pg.statemap.gz")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@provider_option
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(*, file: str, as_json: bool, provider: str | None, lenient: bool) -> None:
    """Tell what a trace is: its format, span, entities, states and anomalies."""
    history = load(file, lenient=lenient, provider=provider)
    facts = _facts(file, history)
    if as_json:
        click.echo(json.dumps(facts))
    else:
        _print(facts, history)


def _facts(file: str, history: History) -> dict[str, Any]:
    from meantime.query.statistics import (  # noqa: PLC0415 - NumPy is not for --help
        state_quarks,
        state_statistics,
    )

    statistics = state_statistics(history)
    spent = {row.key: row for row in statistics.rows}
    lanes = [lane.declaration for lane in history.lanes]
    metadata = history.metadata
    holds_spans = (
        metadata.format in _SPAN_FORMATS or len(history.spans()) > 0 or len(history.samples()) > 0
    )
    return {
        "source": metadata.source if file == "-" else file,
        "format": metadata.format,
        "title": history.title,
        "host": history.clock.host,
        "clock": history.clock.kind,
        "origin_ns": history.clock.utc_at_origin_ns,
        "start_ns": history.bounds[0],
        "end_ns": history.bounds[1],
        "records": metadata.records,
        "entities": len(state_quarks(history)),
        "entity_kinds": sorted(
            {lane.entity_kind for lane in lanes if lane.entity_kind and lane.kind == "state"}
        ),
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
        **(_event_facts(history) if metadata.format == "jsonl" else {}),
        "anomalies": dict(history.anomalies),
        **(_span_facts(history) if holds_spans else {}),
    }


def _event_facts(history: History) -> dict[str, Any]:
    """Return how often what happened, most often first."""
    import numpy as np  # noqa: PLC0415 - as above

    name = history.points().name
    codes, counts = np.unique(name.codes, return_counts=True)
    counted = [
        (name.names[code], count) for code, count in zip(codes, counts.tolist(), strict=True)
    ]
    counted.sort(key=lambda pair: (-pair[1], pair[0]))
    return {"event_names": dict(counted)}


def _span_facts(history: History) -> dict[str, Any]:
    """Return what there is of spans and samples, by process and thread."""
    from meantime.query.threads import thread_of  # noqa: PLC0415 - as above

    spans, samples = history.spans(), history.samples()
    processes: dict[int | str, dict[str, Any]] = {}
    sampled = samples.thread.tolist()
    counted = {quark: sampled.count(quark) for quark in sorted(set(sampled))}
    rows = {quark: row for row, quark in enumerate(spans.threads.tolist())}
    asynchronous = 0
    for quark in [*rows, *(quark for quark in counted if quark not in rows)]:
        whose = thread_of(history, quark)
        first, last = (
            (int(spans.offsets[rows[quark]]), int(spans.offsets[rows[quark] + 1]))
            if quark in rows
            else (0, 0)
        )
        if whose.tid is None:
            asynchronous += last - first
            continue
        process = processes.setdefault(
            whose.pid, {"pid": whose.pid, "name": whose.process, "threads": []}
        )
        process["threads"].append(
            {
                "tid": whose.tid,
                "name": whose.name,
                "spans": last - first,
                "depth": int(spans.depth[first:last].max()) + 1 if last > first else 0,
                "lanes": int(spans.lane[first:last].max()) + 1 if last > first else 0,
                "samples": counted.get(quark, 0),
            }
        )
    threads = [thread for process in processes.values() for thread in process["threads"]]
    return {
        "spans": sum(thread["spans"] for thread in threads),
        "async_spans": asynchronous,
        "samples": len(samples),
        "depth": max((thread["depth"] for thread in threads), default=0),
        "unfinished": int(spans.unfinished.sum()),
        "processes": list(processes.values()),
        "facts": history.facts,
    }


def _print(facts: dict[str, Any], history: History) -> None:
    origin_ns = facts["origin_ns"]
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
                ("entities", _entities(facts)),
                ("tags", f"{facts['tags']:,}"),
                ("events", _named(facts)),
                ("spans", _counted(facts)),
                *_short_facts(facts.get("facts", {})),
                *(
                    ("" if row else "anomalies", line)
                    for row, line in enumerate(history.anomalies.lines() or ["none"])
                ),
            ]
            if value is not None
        ]
    )
    if facts.get("processes"):
        _print_threads(facts["processes"])
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


def _named(facts: dict[str, Any]) -> str:
    names = list(facts.get("event_names", {}).items())
    listed = ", ".join(f"{name} {count:,}" for name, count in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"{facts['events']:,}" + (f" ({listed}{more})" if names else "")


def _short_facts(facts: dict[str, str]) -> list[tuple[str, str]]:
    """Return what the trace says of itself in few words."""
    short = [(name, text) for name, text in facts.items() if len(name) + len(text) <= _SHORT]
    return short[:_MOST_FACTS]


def _entities(facts: dict[str, Any]) -> str | None:
    if not facts["entities"] and "spans" in facts:
        return None
    kinds = ", ".join(facts["entity_kinds"])
    return f"{facts['entities']:,}" + (f" ({kinds})" if kinds else "")


def _counted(facts: dict[str, Any]) -> str | None:
    if "spans" not in facts:
        return None
    told = [
        f"{facts[name]:,} {words}"
        for name, words in (
            ("spans", "of threads"),
            ("async_spans", "of operations"),
            ("samples", "samples"),
        )
        if facts[name]
    ]
    deep = f"; at most {facts['depth']:,} deep" if facts["depth"] else ""
    return (", ".join(told) or "none") + deep


def _print_threads(processes: list[dict[str, Any]]) -> None:
    rows = [
        [
            str(process["pid"]),
            process["name"] or "",
            str(thread["tid"]),
            thread["name"] or "",
            f"{thread['spans']:,}",
            f"{thread['samples']:,}",
            f"{thread['depth']:,}",
        ]
        for process in processes
        for thread in process["threads"]
    ]
    print_table(
        "Threads",
        [
            Column("pid", numeric=True),
            Column("process"),
            Column("tid", numeric=True),
            Column("thread"),
            Column("spans", numeric=True),
            Column("samples", numeric=True),
            Column("depth", numeric=True),
        ],
        rows[:_MOST_THREADS],
    )
    if len(rows) > _MOST_THREADS:
        click.echo(f"{len(rows) - _MOST_THREADS:,} more threads; --json has all of them")
