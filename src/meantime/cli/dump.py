"""`meantime dump`: the content of a trace, one JSON object per line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import import_numpy, load
from meantime.cli.options import (
    file_argument,
    lenient_option,
    once,
    provider_option,
    range_options,
    reject,
)
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.columns import Int64s
    from meantime.events import Event
    from meantime.history.history import History
    from meantime.trace import StateChanges, Trace

__all__ = ["command"]

_LINES_AT_ONCE = 2**14
# Kinds that only a trace has: a history does not store them.
_OF_TRACE = {"changes", "events"}


@click.command("dump", epilog="Example:  meantime dump pg.statemap.gz --kind intervals | head")
@file_argument("file", "FILE")
@once(
    "--kind",
    type=click.Choice(
        [
            "changes",
            "intervals",
            "events",
            "spans",
            "samples",
            "points",
            "counters",
            "flows",
            "tags",
        ]
    ),
    default="changes",
    help="Kind of records to print.  [changes]",
)
@range_options
@provider_option
@lenient_option
def command(
    *,
    file: str,
    kind: str,
    from_: str | None,
    to: str | None,
    provider: str | None,
    lenient: bool,
) -> None:
    """Print the content of a trace, one JSON object per line."""
    if kind in _OF_TRACE | {"tags"}:
        reject(("from_", "to"), f"--kind {kind}")
    if provider and kind in _OF_TRACE:
        raise UsageError(f"--provider does not apply to --kind {kind}")
    if kind in _OF_TRACE:
        lines = _of_trace(file, kind, lenient=lenient)
    else:
        history = load(file, lenient=lenient, provider=provider)
        from meantime.query.parts import given_range  # noqa: PLC0415 - NumPy is not for --help

        lines = _of_history(history, kind, given_range(history, from_, to))
    waiting: list[str] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) == _LINES_AT_ONCE:
            sys.stdout.write("".join(waiting))
            waiting.clear()
    sys.stdout.write("".join(waiting))


def _of_trace(file: str, kind: str, *, lenient: bool) -> Iterator[str]:
    """Yield the lines of a trace's own records, without building a history."""
    import_numpy()
    from meantime.history.directory import is_history  # noqa: PLC0415 - as below
    from meantime.readers import open_trace  # noqa: PLC0415 - NumPy and the core, not for --help
    from meantime.trace import Events, StateChanges  # noqa: PLC0415 - as above

    if is_history(file):
        raise InputError(file, "a history does not store changes and events; use --kind intervals")
    trace = open_trace(file, lenient=lenient, events=kind == "events")
    quoted = _Quoted(trace)
    for batch in trace.batches:
        if kind == "changes" and isinstance(batch, StateChanges):
            yield from quoted.lines(batch)
        elif kind == "events" and isinstance(batch, Events):
            yield from map(_event, batch)


def _event(event: Event) -> str:
    """Return an event as the line that it may have been read from."""
    ids = {"cpu": event.cpu, "pid": event.pid, "tid": event.tid}
    known = {name: number for name, number in ids.items() if number is not None}
    members = {"time_ns": event.time_ns, "name": event.name} | known | event.fields
    return json.dumps(members) + "\n"


class _Quoted:
    """The texts of a trace as JSON, encoded once each; its tables grow while it is read."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.entities: list[str] = []
        self.states: list[str] = []
        self.tags: list[str] = []

    def lines(self, batch: StateChanges) -> Iterator[str]:
        from meantime.attributes import entity_name  # noqa: PLC0415 - NumPy is not for --help

        trace = self.trace
        self.entities += [
            json.dumps(entity_name(path)) for path in trace.paths[len(self.entities) :]
        ]
        self.states += [json.dumps(name) for name in trace.values[len(self.states) :]]
        self.tags += [
            json.dumps(fields.get("tag", index))
            for index, fields in enumerate(trace.tags[len(self.tags) :], len(self.tags))
        ]
        # code -1 is null: the last of each list
        entities, states, tags = self.entities, [*self.states, "null"], [*self.tags, "null"]
        columns = (batch.time_ns, batch.entity, batch.state, batch.tag)
        for time_ns, entity, state, tag in zip(*(c.tolist() for c in columns), strict=True):
            yield (
                f'{{"time_ns": {time_ns}, "entity": {entities[entity]},'
                f' "state": {states[state]}, "tag": {tags[tag]}}}\n'
            )


def _of_history(
    history: History, kind: str, range_ns: tuple[int | None, int | None]
) -> Iterator[str]:
    if kind in {"spans", "samples", "counters"}:
        from meantime.cli import dump_spans  # noqa: PLC0415 - NumPy is not for --help

        lines: Iterator[str] = getattr(dump_spans, kind)(history, *range_ns)
        return lines
    if kind == "tags":
        return (json.dumps(fields) + "\n" for fields in _tags(history))
    made = {"intervals": _intervals, "points": _points, "flows": _flows}[kind]
    return (json.dumps(fields) + "\n" for fields in made(history, *range_ns))


def _intervals(
    history: History, start_ns: int | None, end_ns: int | None
) -> Iterator[dict[str, Any]]:
    if history.start_ns == history.end_ns:
        return  # an empty history has no range to query
    from meantime.attributes import format_path  # noqa: PLC0415 - NumPy is not for --help

    for batch in history.interval_batches(range(len(history.attributes)), start_ns, end_ns):
        for quark, since_ns, until_ns, value, tag, _ in batch:
            yield {
                "path": format_path(history.attributes.path(quark)),
                "start_ns": since_ns,
                "end_ns": until_ns,
                "value": value,
                "tag": tag,
            }


def _points(history: History, start_ns: int | None, end_ns: int | None) -> Iterator[dict[str, Any]]:
    from meantime.attributes import entity_name  # noqa: PLC0415 - NumPy is not for --help
    from meantime.cli.dump_spans import parsed  # noqa: PLC0415 - as above

    points = history.points()
    for row in _rows_within(points.time_ns, start_ns, end_ns):
        fields = {
            "time_ns": int(points.time_ns[row]),
            "entity": entity_name(history.attributes.path(int(points.quark[row]))),
            "event": points.name[row],
        }
        if (arguments := points.arguments(row)) is not None:
            fields["args"] = parsed(arguments)
        yield fields


def _flows(history: History, start_ns: int | None, end_ns: int | None) -> Iterator[dict[str, Any]]:
    from meantime.attributes import entity_name  # noqa: PLC0415 - NumPy is not for --help

    flows = history.flows()
    for row in _rows_within(flows.from_ns, start_ns, end_ns):
        yield {
            "time_ns": int(flows.from_ns[row]),
            "entity": entity_name(history.attributes.path(int(flows.from_quark[row]))),
            "event": flows.name[row],
            "target": entity_name(history.attributes.path(int(flows.to_quark[row]))),
        }


def _rows_within(times_ns: Int64s, start_ns: int | None, end_ns: int | None) -> range:
    """Return the rows of a column in order of time that are in a range."""
    first = 0 if start_ns is None else int(times_ns.searchsorted(start_ns))
    last = len(times_ns) if end_ns is None else int(times_ns.searchsorted(end_ns))
    return range(first, last)


def _tags(history: History) -> Iterator[dict[str, Any]]:
    for index, fields in enumerate(history.tags):
        yield {"tag": index, "fields": fields}
