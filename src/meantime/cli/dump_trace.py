"""`meantime dump --kind changes` and `events`: what a trace has and a history does not store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from meantime.cli.inputs import mapped
from meantime.errors import InputError
from meantime.history.directory import is_history, is_joined
from meantime.model.anomalies import check_strictness
from meantime.model.attributes import entity_name
from meantime.model.trace import Events, StateChanges
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.events import Event
    from meantime.model.trace import Trace

__all__ = ["lines"]


def lines(file: str, kind: str, *, lenient: bool, strict: bool) -> Iterator[str]:
    """Yield the lines of a trace's own records, without building a history.

    Raises:
        InputError: If `strict` and the trace has an anomaly, after the last line.
    """
    check_strictness(lenient=lenient, strict=strict)
    if is_history(file) or is_joined(file):
        raise InputError(file, "a history does not store changes and events; use --kind intervals")
    trace = open_trace(mapped(file), lenient=lenient, events=kind == "events")
    quoted = _Quoted(trace)
    for batch in trace.batches:
        if kind == "changes" and isinstance(batch, StateChanges):
            yield from quoted.lines(batch)
        elif kind == "events" and isinstance(batch, Events):
            yield from map(_event, batch)
    if strict:
        trace.anomalies.refuse(file)


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
