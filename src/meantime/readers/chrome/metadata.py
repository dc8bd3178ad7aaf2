"""Metadata events: names, labels and display order of processes and threads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meantime.readers.chrome.records import Records

__all__ = ["read_metadata"]


def read_metadata(records: Records) -> None:
    """Store names, labels and sort indices in the trace, and everything else as facts."""
    for row in records.rows("M").tolist():
        name = records.name_of(row)
        arguments = records.arguments_of(row)
        if not isinstance(arguments, dict) or not _keep(records, row, name, arguments):
            records.trace.anomalies.add("bad_metadata")


def _keep(records: Records, row: int, name: str, arguments: dict[str, Any]) -> bool:
    trace, thread = records.trace, int(records.thread[row])
    about_thread = name.startswith("thread_")
    entity = records.entities.thread if about_thread else records.entities.process
    if name in {"thread_name", "process_name"}:
        if not isinstance(called := arguments.get("name"), str):
            return False
        trace.names[entity(thread)] = called
    elif name in {"thread_sort_index", "process_sort_index"}:
        if (index := _integer(arguments.get("sort_index"))) is None:
            return False
        trace.sort_keys[entity(thread)] = index
    elif name == "process_labels":
        trace.descriptions[entity(thread)] = str(arguments.get("labels", ""))
    else:
        _keep_fact(records, thread, name, arguments)
    return True


def _keep_fact(records: Records, thread: int, name: str, arguments: dict[str, Any]) -> None:
    """Store a fact under its name, with the process added if another value has that name."""
    value = next(iter(arguments.values())) if len(arguments) == 1 else arguments
    text = str(value) if isinstance(value, str | int | float) else json.dumps(value)
    if records.trace.facts.setdefault(name, text) != text:
        records.trace.facts[f"{name} of {records.entities.process_id(thread)}"] = text


def _integer(value: object) -> int | None:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]  # any JSON value is possible
    except (TypeError, ValueError, OverflowError):
        return None
