"""Logs of JSON lines whose fields are known by the program that writes them.

Definitions: the Kubernetes API reference (audit.k8s.io/v1 Event), `LogEntry` of Google Cloud
Logging, k6's JSON output, systemd.journal-fields(7), and Spark's `JsonProtocol`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from meantime.model.column_mapping import ColumnMapping, mapping_of
from meantime.readers.table.records import flattened

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KNOWN", "KnownLog", "known_log"]

_SNIFFED_LINES = 30


class KnownLog(NamedTuple):
    """A log that a program writes.

    Attributes:
        called: What it is called.
        keys: The fields that a line of it has, among others; nested ones with dots.
        columns: What its fields are, as `--columns` says it. Roles of fields that the line lacks
            do not count.
        needs: The field without which a line is about something else, and is counted; empty if
            lines are read as events.
    """

    called: str
    keys: frozenset[str]
    columns: str
    needs: str = ""

    def mapping(self, keys: Sequence[str]) -> ColumnMapping:
        """Return what the fields are, given those of a line."""
        found = mapping_of(self.columns)
        assert found is not None
        there = {
            role: names
            for role, names in found.columns.items()
            if all(each in keys for each in names)
        }
        return ColumnMapping(there, found.units, is_guess=True)


KNOWN = (
    KnownLog(
        "an audit log of Kubernetes",
        frozenset(("auditID", "requestReceivedTimestamp", "stageTimestamp", "verb")),
        "start=requestReceivedTimestamp,end=stageTimestamp,entity=user.username,state=verb",
        "requestReceivedTimestamp",
    ),
    KnownLog(
        "tasks in an event log of Spark",
        frozenset(("Event", "Task Info.Launch Time", "Task Info.Finish Time")),
        "start=Task Info.Launch Time:ms,end=Task Info.Finish Time:ms"
        ",entity=Task Info.Host,entity=Task Info.Executor ID,state=Task Type",
        "Task Info.Finish Time",
    ),
    KnownLog(
        "points of k6",
        frozenset(("metric", "type", "data.time", "data.value")),
        "time=data.time,name=metric",
        "data.time",
    ),
    KnownLog(
        "a log of Google Cloud",
        frozenset(("logName", "timestamp", "textPayload")),
        "time=timestamp,name=textPayload",
    ),
    KnownLog(
        "a log of Google Cloud",
        frozenset(("logName", "timestamp", "jsonPayload.message")),
        "time=timestamp,name=jsonPayload.message",
    ),
    KnownLog(
        "a journal of systemd",
        frozenset(("__REALTIME_TIMESTAMP", "MESSAGE")),
        "time=__REALTIME_TIMESTAMP:us,name=MESSAGE",
    ),
)


def known_log(head: bytes) -> tuple[KnownLog, ColumnMapping] | None:
    """Return which log an input begins like, and what its fields are; None if it is unknown."""
    for line in head.split(b"\n")[:_SNIFFED_LINES]:
        try:
            members = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(members, dict):
            continue
        fields = flattened(members)
        for known in KNOWN:
            if known.keys <= fields.keys():
                return known, known.mapping([*fields])
    return None
