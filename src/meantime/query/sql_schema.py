"""The tables that a statement can read: their columns, types, units and meaning.

They are the same for every trace. A type is that of `pushed_tables.schema_of`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HANDLE_COLUMNS", "TABLES", "SqlColumn", "columns_of"]

# The type of a column, and what it is.
SqlColumn = tuple[str, str]

_QUARK: SqlColumn = ("int32", "the attribute, a row of `attributes`")
_START: SqlColumn = ("int64", "beginning, ns")
_END: SqlColumn = ("int64", "end, ns: the first time after it")
_DURATION: SqlColumn = ("int64", "`end_ns - start_ns`")
_THREAD: SqlColumn = ("int32", "the thread, a row of `attributes` and, if it is one, of `threads`")
_PROCESS: SqlColumn = ("int32", "its process, a row of `processes`; null if there is none")

# By name, a sentence about the table, and its columns.
TABLES: Final[dict[str, tuple[str, dict[str, SqlColumn]]]] = {
    "bounds": (
        "One row: what the trace covers.",
        {
            "start_ns": ("int64", "where the trace begins, ns"),
            "end_ns": ("int64", "where it ends, ns"),
            "duration_ns": _DURATION,
            "clock": ("text", "the clock that times count, such as `monotonic`"),
            "host": ("text", "the machine; null if unknown"),
            "utc_at_origin_ns": ("int64", "UTC since 1970 at time 0, ns; null if unknown"),
            "title": ("text", "the title of the trace; null if it has none"),
        },
    ),
    "facts": (
        "Further metadata, by the trace's own names.",
        {"name": ("text", "the name"), "value": ("text", "the value")},
    ),
    "anomalies": (
        "The oddities of the input, counted; see `meantime info`.",
        {
            "name": ("text", "which one"),
            "count": ("int64", "how often"),
            "meaning": ("text", "what it is, and what to do"),
        },
    ),
    "lost": (
        "The ranges in which events were lost or a stored segment is damaged.",
        {"start_ns": _START, "end_ns": _END, "duration_ns": _DURATION},
    ),
    "attributes": (
        "The attribute tree.",
        {
            "quark": ("int32", "the number of the attribute"),
            "parent": ("int32", "the attribute above it; null at the top"),
            "name": ("text", "the last element of its path"),
            "path": ("text", "the path: names joined by `/`, special characters escaped"),
            "has_values": ("bool", "whether it ever has a value"),
        },
    ),
    "names": (
        "Names of processes, threads and tasks in the trace.",
        {"quark": _QUARK, "name": ("text", "the name")},
    ),
    "processes": (
        "The processes.",
        {
            "process": ("int32", "the process, a row of `attributes`"),
            "pid": ("text", "its id"),
            "process_name": ("text", "its name; null if unknown"),
        },
    ),
    "threads": (
        "The threads, and what else has spans or samples.",
        {
            "thread": ("int32", "the thread, a row of `attributes`"),
            "tid": ("text", "its id; null if it is not a thread"),
            "thread_name": ("text", "its name; null if unknown"),
            "process": _PROCESS,
            "pid": ("text", "the id of its process; null if there is none"),
            "process_name": ("text", "the name of its process; null if unknown"),
        },
    ),
    "lanes": (
        "What can be drawn: a row for each attribute of each lane.",
        {
            "lane": ("int32", "the number of the lane"),
            "quark": _QUARK,
            "kind": ("text", "`state`, `stack`, `counter`, `async` or `object`"),
            "label": ("text", "the label of the lane; null if it has none"),
            "unit": ("text", "the unit of a counter; null if it has none"),
            "entity_kind": ("text", "what each attribute is, such as `disk`; null if unknown"),
        },
    ),
    "states": (
        "The state tables of the lanes.",
        {
            "pattern": ("text", "the pattern of the lane's attributes"),
            "state": ("text", "the name of the state"),
            "number": ("int64", "the number of the state"),
            "color": ("text", "its color; null if it has none"),
        },
    ),
    "intervals": (
        "States: an attribute has a value during [`start_ns`, `end_ns`). They leave no gaps.",
        {
            "quark": _QUARK,
            "attribute": ("text", "the path of the attribute"),
            "start_ns": _START,
            "end_ns": _END,
            "duration_ns": _DURATION,
            "value": ("text", "the value as text, also of a number; null without a state"),
            "value_int": ("int64", "the value if it is an integer, otherwise null"),
            "value_float": ("double", "the value if it is a float, otherwise null"),
            "tag": ("int32", "its tag, rows of `tags`; null if there is none"),
        },
    ),
    "counters": (
        "The values of counters, as doubles, in the same intervals.",
        {
            "quark": _QUARK,
            "attribute": ("text", "the path of the counter"),
            "unit": ("text", "the unit; null if unknown"),
            "start_ns": _START,
            "end_ns": _END,
            "duration_ns": _DURATION,
            "value": ("double", "the value; null if there is none"),
        },
    ),
    "tags": (
        "A row for each field of each tag.",
        {
            "tag": ("int32", "the tag"),
            "field": ("text", "the name of the field"),
            "value": ("text", "its value; JSON unless it is a text"),
        },
    ),
    "spans": (
        "What ran on each thread, nested.",
        {
            "span": ("int32", "the number of the span, which never changes"),
            "thread": _THREAD,
            "process": _PROCESS,
            "start_ns": _START,
            "end_ns": ("int64", "end, ns; equal to `start_ns` if the span is empty"),
            "duration_ns": _DURATION,
            "self_ns": ("int64", "its time in no span directly inside it, ns"),
            "name": ("text", "what ran"),
            "category": ("text", "its category; null if there is none"),
            "depth": ("int32", "how many spans it is inside; 0 at the top"),
            "lane": ("int32", "spans of one thread, lane and depth never overlap"),
            "parent": ("int32", "the span that contains it; null at the top"),
            "unfinished": ("bool", "whether its end is unknown"),
            "arguments": ("json", "its arguments as in the trace, mostly JSON; null is none"),
        },
    ),
    "points": (
        "Instants.",
        {
            "time_ns": ("int64", "when, ns"),
            "quark": ("int32", "where, a row of `attributes`"),
            "name": ("text", "what happened"),
            "arguments": ("json", "its arguments as in the trace, mostly JSON; null is none"),
        },
    ),
    "samples": (
        "Samples of stacks.",
        {
            "time_ns": ("int64", "when, ns"),
            "thread": _THREAD,
            "process": _PROCESS,
            "stack": ("int32", "the stack, a row of `stacks`; null if there is none"),
            "weight": ("int64", "what the sample represents, in `unit`"),
            "unit": ("text", "the unit of the weight; null if unknown"),
            "event": ("text", "what was counted"),
            "name": ("text", "the name of the thread at that time; null if unknown"),
            "cpu": ("int32", "where it ran; null if unknown"),
        },
    ),
    "stacks": (
        "Stacks of samples, each a function and the stack of its caller.",
        {
            "stack": ("int32", "the number of the stack"),
            "parent": ("int32", "the caller's stack; null at the bottom"),
            "frame": ("int32", "the function on top, a row of `frames`"),
            "depth": ("int32", "how many callers there are; 0 at the bottom"),
        },
    ),
    "frames": (
        "Functions of stacks.",
        {"frame": ("int32", "the number of the function"), "name": ("text", "its name")},
    ),
    "flows": (
        "Arrows from one attribute to another.",
        {
            "flow": ("int32", "the number of the arrow"),
            "name": ("text", "what flows"),
            "from_ns": ("int64", "when it begins, ns"),
            "from_quark": ("int32", "where it begins, a row of `attributes`"),
            "from_span": ("int32", "the innermost span there at that time; null if there is none"),
            "from_state": ("text", "the state there at that time; null if there is none"),
            "to_ns": ("int64", "when it ends, ns"),
            "to_quark": ("int32", "where it ends, a row of `attributes`"),
            "to_span": ("int32", "the innermost span there at that time; null if there is none"),
            "to_state": ("text", "the state there at that time; null if there is none"),
        },
    ),
    "findings": (
        "What stands out, as `meantime findings` says, the worst first.",
        {
            "finding": ("int32", "its rank, from 0"),
            "kind": ("text", "its kind"),
            "sentence": ("text", "the finding in words"),
            "lost_ns": ("int64", "the time lost, ns"),
            "start_ns": ("int64", "where the worst occurrence begins, ns"),
            "end_ns": ("int64", "where it ends, ns"),
            "count": ("int64", "how often it happened"),
            "path": ("text", "the attribute that it is about the most; null if there is none"),
        },
    ),
}
# With `--handle`: one row, what the handle names.
HANDLE_COLUMNS: Final[dict[str, SqlColumn]] = {
    "path": ("text", "the path of the attribute"),
    "quark": _QUARK,
    "span": ("int32", "the number of the span; null if it is none"),
    "time_ns": ("int64", "the time in the handle, ns; of a span its start"),
    "start_ns": _START,
    "end_ns": _END,
}


def columns_of(name: str) -> dict[str, str]:
    """Return the types of the columns of a table, by their names."""
    columns = HANDLE_COLUMNS if name == "handle" else TABLES[name][1]
    return {column: kind for column, (kind, _) in columns.items()}
