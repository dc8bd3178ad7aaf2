"""`meantime info`: a summary of a trace."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from meantime.cli import SUGGESTS
from meantime.cli.answers import print_answer, table_rows
from meantime.cli.inputs import load_joined
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    reading_options,
    session_option,
    zone_option,
)
from meantime.cli.tables import Column, print_facts, print_table
from meantime.model.process_roles import described_processes, fact_name
from meantime.model.units import format_exact, format_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.model.extent import Extent

__all__ = ["command"]

_MOST_FACTS = 12
_SHORT = 100
_MOST_NAMES = 6
_MOST_SEARCHED = 1_000_000


@click.command("info", epilog="Example:  meantime info pg.statemap.gz")
@input_options
@session_option
@file_argument("files", "FILE...", nargs=-1, required=True)
@limit_option()
@json_option
@reading_options
@zone_option
def command(*, files: tuple[str, ...], as_json: bool, **reading: Any) -> None:
    """Show a summary of a trace: format, time range, entities, states and anomalies."""
    history = load_joined(files, **reading)
    file = " ".join(files)
    facts = _facts(file, history, most_threads=None if as_json else table_rows())
    if as_json:
        print_answer(facts, _following(files, history))
        return
    _print(facts, history)
    if len(files) == 1 and click.get_current_context().meta.get(SUGGESTS):
        _suggest(file, history)


def _suggest(file: str, history: History) -> None:
    from meantime.cli.suggestions import suggestions  # noqa: PLC0415 - for `meantime FILE` only

    click.echo("\nnext")
    for command, purpose in suggestions(file, history):
        click.echo(f"  {purpose}\n    {command}")


def _following(files: tuple[str, ...], history: History) -> Iterator[tuple[str, str]]:
    """Yield what to ask next: commands that print answers."""
    from meantime.cli.suggestions import questions  # noqa: PLC0415 - NumPy is not for --help

    yield from questions(files[0] if len(files) == 1 else "joined.mtj", history)


def _facts(file: str, history: History, *, most_threads: int | None) -> dict[str, Any]:
    from meantime.query.summary import summary  # noqa: PLC0415 - NumPy is not for --help
    from meantime.readers.formats import FORMATS  # noqa: PLC0415 - not for --help

    metadata = history.metadata
    declared = next((each for each in FORMATS if each.format == metadata.format), None)
    about = {
        "source": metadata.source if file == "-" else file,
        "format": metadata.format,
        "recognised": metadata.recognised or None,
        "records": metadata.records,
    }
    found = summary(
        history,
        spans=declared is not None and declared.has_spans,
        event_names=declared is not None and "Events" in declared.rows,
        most_threads=most_threads,
    )
    # these say which columns were read, and how, or how late records came
    if history.facts:
        found["facts"] = history.facts
    return about | found


def _print(facts: dict[str, Any], history: History) -> None:
    from meantime.query.parts import extent_of  # noqa: PLC0415 - NumPy is not for --help

    extent = extent_of(history)
    print_facts(
        [
            (name, value)
            for name, value in [
                ("file", facts["source"]),
                ("format", facts["format"]),
                ("recognised", facts["recognised"]),
                ("title", facts["title"]),
                ("host", facts["host"]),
                ("from", _instant(extent, extent.start_ns)),
                ("to", _instant(extent, extent.end_ns)),
                ("span", format_ns(extent.end_ns - extent.start_ns)),
                ("clock", _clock(extent)),
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
                *(
                    ("" if row else "findings", line)
                    for row, line in enumerate(_findings(facts, history))
                ),
            ]
            if value is not None
        ]
    )
    if facts.get("processes") or facts["states"] or described_processes(history.facts):
        click.echo()
    if described := described_processes(history.facts):
        print_table(
            "Processes",
            [Column("process", numeric=True), Column("what it is", prose=True)],
            described,
        )
    if facts.get("processes"):
        _print_threads(facts["processes"], facts.get("more_threads", 0))
    kinds = list(dict.fromkeys(state["kind"] for state in facts["states"]))
    for kind in kinds:
        states = [state for state in facts["states"] if state["kind"] == kind]
        # those that are defined and do not occur are in the JSON object
        occurring = [state for state in states if state["total_ns"]] or states
        left_out = len(states) - len(occurring)
        title = f"{kind}: time in states" if len(kinds) > 1 else "Time in states"
        print_table(
            f"{title}; {left_out} others do not occur" if left_out else title,
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
                for state in occurring
            ],
            drop=("color", "value"),
        )


def _findings(facts: dict[str, Any], history: History) -> list[str]:
    """Return what stands out, or how to find it in a trace that takes long to search."""
    from meantime.query.statistics import state_quarks  # noqa: PLC0415 - NumPy is not for --help

    rows = max(facts["records"], facts.get("spans", 0), facts.get("samples", 0))
    # spans are counted already, and deriving their attributes takes time
    states = history.without_derived()
    if rows <= _MOST_SEARCHED and states.start_ns < states.end_ns:
        rows = states.estimate_count(state_quarks(states))
    if rows > _MOST_SEARCHED:
        return [f"meantime findings {shlex.quote(facts['source'])} searches for what stands out"]
    from meantime.cli.findings import headlines  # noqa: PLC0415 - NumPy is not for --help

    return [each.sentence for each in headlines(history)] or ["none"]


def _instant(extent: Extent, time_ns: int) -> str:
    utc = extent.utc(time_ns)
    return extent.text(time_ns) + (f"  {utc}" if utc else "")


def _clock(extent: Extent) -> str:
    """Return which clock the times are of, and its time where the trace begins."""
    return f"{extent.clock.kind}; 0s is abs:{format_exact(extent.start_ns)}"


def _named(facts: dict[str, Any]) -> str:
    names = list(facts.get("event_names", {}).items())
    listed = ", ".join(f"{name} {count:,}" for name, count in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"{facts['events']:,}" + (f" ({listed}{more})" if names else "")


def _short_facts(facts: dict[str, str]) -> list[tuple[str, str]]:
    """Return the short ones of the facts in the trace's metadata."""
    # processes have a table of their own
    of_processes = {fact_name(process) for process, _ in described_processes(facts)}
    short = [
        (name, text)
        for name, text in facts.items()
        if len(name) + len(text) <= _SHORT and name not in of_processes
    ]
    return short[:_MOST_FACTS]


def _entities(facts: dict[str, Any]) -> str | None:
    if not facts["entities"] and "spans" in facts:
        return None
    kinds = ", ".join(facts["entity_kinds"])
    return f"{facts['entities']:,}" + (f" ({kinds})" if kinds else "")


def _counted(facts: dict[str, Any]) -> str | None:
    if "spans" not in facts:
        return None
    counts = [
        f"{facts[name]:,} {label}"
        for name, label in (
            ("spans", "of threads"),
            ("async_spans", "of operations"),
            ("samples", "samples"),
        )
        if facts[name]
    ]
    deep = f"; at most {facts['depth']:,} deep" if facts["depth"] else ""
    return (", ".join(counts) or "none") + deep


def _print_threads(processes: list[dict[str, Any]], others: int) -> None:
    rows = [
        [
            process["name"] or "",
            str(process["pid"]),
            thread["name"] or "",
            str(thread["tid"]),
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
            Column("process"),
            Column("pid", numeric=True),
            Column("thread"),
            Column("tid", numeric=True),
            Column("spans", numeric=True),
            Column("samples", numeric=True),
            Column("depth", numeric=True),
        ],
        rows,
        drop=("depth", "samples", "pid"),
        total=len(rows) + others,
    )
