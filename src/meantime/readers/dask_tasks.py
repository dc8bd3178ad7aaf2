"""Task streams of dask: what `Client.get_task_stream` or `get_task_stream` returned, as JSON.

Each task ran on a thread of a worker, with actions in between: transfers, disk, deserialisation.
The pickled types of results are never read.
Definition: distributed/diagnostics/task_stream.py.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC
from meantime.readers.contract import lazy_trace
from meantime.readers.services.text import documents
from meantime.readers.span_rows import SpanRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "dask"
TEXT = True

_MALFORMED = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)
_HASH = re.compile(r"-(?:[0-9a-f]{8,}|[0-9a-f]{8}-[0-9a-f-]{27})$")
_TUPLE = re.compile(r"^\(?['\"]?")


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.clock = UTC
    spans = SpanRows(trace)
    for document in documents(source, trace, options):
        tasks = document.value if isinstance(document.value, list) else [document.value]
        for number, task in enumerate(tasks):
            try:
                _add(task, spans)
            except _MALFORMED:
                if not options.lenient:
                    raise InputError(
                        source.name,
                        f"task {number} is malformed: it needs worker, thread, key and startstops",
                        line=document.line,
                    ) from None
                trace.anomalies.add("bad_record")
            else:
                trace.records += 1
    trace.anomalies.add("truncated", int(source.truncated))
    yield from spans.batches()


def _add(task: dict[str, Any], spans: SpanRows) -> None:
    path = thread_path(str(task["thread"]), str(task["worker"]))
    key = task["key"]
    prefix = _prefix(key)
    status = str(task.get("status", ""))
    actions = [
        (str(each["action"]), (_ns(each["start"]), _ns(each["stop"])))
        for each in task["startstops"]
    ]
    fields = {"key": key if isinstance(key, str) else str(key), "status": status}
    if isinstance(task.get("nbytes"), int):
        fields["nbytes"] = task["nbytes"]
    for action, times_ns in actions:
        name = prefix if action == "compute" else f"{action} {prefix}"
        spans.add(path, times_ns, name, action, fields)
        if action == "compute" and status == "error":
            spans.point(path, times_ns[1], "error", fields)


def _ns(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    # the shortest decimal of a float is what was measured
    exact = Decimal(repr(value)) * 10**9
    if not abs(exact) < 2**62:
        raise ValueError(value)
    return int(exact)


def _prefix(key: Any) -> str:
    """Return what a task is called without its hash: `load` of `load-95c78caa131001ac`.

    >>> _prefix("load-95c78caa131001ac8f0aedf2db7e1c08"), _prefix(["sum-5ad1c0de", 0])
    ('load', 'sum')
    """
    while isinstance(key, list) and key:
        key = key[0]
    text = _TUPLE.sub("", str(key)).split("'", 1)[0].split('"', 1)[0]
    return _HASH.sub("", text) or str(key)
