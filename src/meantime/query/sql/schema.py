"""The tables that a statement can read: their columns, types, units and meaning.

They are the same for every trace. A type is that of `pushed.schema_of`. Functions are macros
over tables of their own, whose columns `asked_...` are their arguments: filters of these reach what
reads the table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "FUNCTIONS",
    "HANDLE_COLUMNS",
    "TABLES",
    "VERSION",
    "SqlColumn",
    "columns_of",
    "macros",
    "table_names",
]

# Increase when a table, a column or a function goes or changes its meaning: views that were saved
# before may not fit then.
VERSION = 1

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
            "arguments": ("string", "its arguments as in the trace, mostly JSON; null is none"),
        },
    ),
    "points": (
        "Instants.",
        {
            "time_ns": ("int64", "when, ns"),
            "quark": ("int32", "where, a row of `attributes`"),
            "name": ("text", "what happened"),
            "arguments": ("string", "its arguments as in the trace, mostly JSON; null is none"),
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


_FROM = ("int64", "")
_STATE_COLUMNS = ("value", "value_int", "value_float")
_INTERVALS = TABLES["intervals"][1]
_SPANS = TABLES["spans"][1]
# What functions read: with columns that filters have to give, which begin with `asked_`.
_RELATIONS: Final[dict[str, dict[str, SqlColumn]]] = {
    "meantime_shares": {
        "asked_bins": _FROM,
        "asked_from_ns": _FROM,
        "asked_to_ns": _FROM,
        "bin": ("int64", ""),
        "start_ns": _START,
        "end_ns": _END,
        "quark": _QUARK,
        "attribute": _INTERVALS["attribute"],
        **{name: _INTERVALS[name] for name in _STATE_COLUMNS},
        "duration_ns": _DURATION,
    },
    "meantime_durations": {
        "asked_by": ("string", ""),
        "asked_from_ns": _FROM,
        "asked_to_ns": _FROM,
        "kind": ("text", ""),
        "entity": ("text", ""),
        "name": ("text", ""),
        "count": ("int64", ""),
        "total_ns": ("int64", ""),
        "self_ns": ("int64", ""),
        "share": ("double", ""),
        "mean_ns": ("double", ""),
        **dict.fromkeys(("median_ns", "p90_ns", "p99_ns", "min_ns", "max_ns"), ("int64", "")),
    },
    "meantime_span_states": {
        **{name: _SPANS[name] for name in ("span", "thread", "name", "category", "depth")},
        "quark": _QUARK,
        "state": ("text", ""),
        "start_ns": _START,
        "end_ns": _END,
        "duration_ns": _DURATION,
    },
    "meantime_ancestors": {"asked_span": ("int32", ""), "distance": ("int32", ""), **_SPANS},
    "meantime_descendants": {"asked_span": ("int32", ""), "distance": ("int32", ""), **_SPANS},
    "meantime_critical_path": {
        "asked_thread": ("string", ""),
        "asked_from_ns": _FROM,
        "asked_to_ns": _FROM,
        "start_ns": _START,
        "end_ns": _END,
        "duration_ns": _DURATION,
        "quark": _QUARK,
        "thread_name": ("text", ""),
        "state": ("text", ""),
        "because": ("text", ""),
        "depth": ("int32", ""),
    },
}

_RANGE = "from_ns := null, to_ns := null"
_IN_RANGE = (
    f"r.asked_from_ns = coalesce(from_ns, {-(2**63) + 1})"
    f" and r.asked_to_ns = coalesce(to_ns, {2**63 - 1})"
)


class SqlFunction(NamedTuple):
    """A function of tables.

    Attributes:
        parameters: Its parameters, as a macro declares them.
        returns: What its rows are.
        statement: What it stands for; `$range` is the condition of a range.
    """

    parameters: str
    returns: str
    statement: str


FUNCTIONS: Final[dict[str, SqlFunction]] = {
    "states_at": SqlFunction(
        parameters="time_ns",
        returns="The rows of `intervals` at a time: a state of each attribute.",
        statement="select i.* from intervals i where i.start_ns <= time_ns and i.end_ns > time_ns",
    ),
    "shares": SqlFunction(
        parameters=f"bins := 1, {_RANGE}",
        returns=(
            "How long each value of each attribute lasted in each of equal bins of a range, by"
            " default of the bounds: `bin`, its `start_ns` and `end_ns`, `quark`, `attribute`,"
            " `value`, `value_int`, `value_float`, `duration_ns`. It comes from sums, and reads no"
            " intervals where bins are wide."
        ),
        statement=(
            "select r.* exclude (asked_from_ns, asked_to_ns, asked_bins) from meantime_shares r"
            " where r.asked_bins = bins and $range"
        ),
    ),
    "durations": SqlFunction(
        parameters=f"per := 'state', {_RANGE}",
        returns=(
            "How long states or spans lasted in a range, as `meantime stats --by` has it: by"
            " `state`, `entity`, `name`, `category` or `thread`. The columns are `kind` and"
            " `entity` (null for spans), `name`, `count`, `total_ns`, `self_ns` (null for states),"
            " `share`, `mean_ns`, `median_ns`, `p90_ns`, `p99_ns`, `min_ns`, `max_ns`."
        ),
        statement=(
            "select r.* exclude (asked_from_ns, asked_to_ns, asked_by) from meantime_durations r"
            " where r.asked_by = per and $range"
        ),
    ),
    "span_states": SqlFunction(
        parameters="",
        returns=(
            "The states of its thread during each span: `span`, `thread`, `name`, `category`,"
            " `depth`, the `quark` of the states, `state`, and `start_ns`, `end_ns` and"
            " `duration_ns` of the state within the span. Nested spans have the same states each."
        ),
        statement="select * from meantime_span_states",
    ),
    "ancestors": SqlFunction(
        parameters="span",
        returns=(
            "The spans that contain a span: `distance`, 1 for the innermost, and the columns of"
            " `spans`."
        ),
        statement=(
            "select r.* exclude (asked_span) from meantime_ancestors r where r.asked_span = span"
        ),
    ),
    "descendants": SqlFunction(
        parameters="span",
        returns=(
            "The spans inside a span: `distance`, 1 for those directly inside, and the columns of"
            " `spans`."
        ),
        statement=(
            "select r.* exclude (asked_span) from meantime_descendants r where r.asked_span = span"
        ),
    ),
    "callers": SqlFunction(
        parameters="name",
        returns=(
            "What spans of a name are directly inside of, by name: `caller` (null at the top),"
            " `count`, `total_ns`, `self_ns`."
        ),
        statement=(
            "select p.name caller, count(*) count, sum(s.duration_ns)::bigint total_ns,"
            " sum(s.self_ns)::bigint self_ns from spans s left join spans p on p.span = s.parent"
            " where s.name = name group by all order by total_ns desc"
        ),
    ),
    "callees": SqlFunction(
        parameters="name",
        returns=(
            "What is directly inside spans of a name, by name: `callee`, `count`, `total_ns`,"
            " `self_ns`."
        ),
        statement=(
            "select c.name callee, count(*) count, sum(c.duration_ns)::bigint total_ns,"
            " sum(c.self_ns)::bigint self_ns from spans c join spans s on c.parent = s.span where"
            " s.name = name group by all order by total_ns desc"
        ),
    ),
    "wakers": SqlFunction(
        parameters="thread",
        returns=(
            "What woke a thread, given as the attribute where its wake-ups end: `quark`, `path`,"
            " `count`."
        ),
        statement=(
            "select f.from_quark quark, a.path, count(*) count from flows f join attributes a on"
            " a.quark = f.from_quark where f.name = 'wakes' and f.to_quark = thread group by all"
            " order by count desc"
        ),
    ),
    "flow_next": SqlFunction(
        parameters="span",
        returns="The arrows that begin in a span: the columns of `flows`.",
        statement="select f.* from flows f where f.from_span = span",
    ),
    "critical_path": SqlFunction(
        parameters=f"thread, {_RANGE}",
        returns=(
            "What a thread, given by its id or name, waited for, as `meantime why` has"
            " it: `start_ns`, `end_ns`, `duration_ns`, `quark`, `thread_name`, `state`, `because`,"
            " `depth`."
        ),
        statement=(
            "select r.* exclude (asked_from_ns, asked_to_ns, asked_thread) from"
            " meantime_critical_path r where r.asked_thread = thread and $range"
        ),
    ),
    "intersection": SqlFunction(
        parameters="one, other",
        returns=(
            "Where the rows of two tables or views, given by their names, overlap: `start_ns`,"
            " `end_ns`, `duration_ns`, and both rows as `first` and `second`."
        ),
        statement=(
            "select greatest(a.start_ns, b.start_ns) start_ns, least(a.end_ns, b.end_ns) end_ns,"
            ' least(a.end_ns, b.end_ns) - greatest(a.start_ns, b.start_ns) duration_ns, a "first",'
            ' b "second" from query_table(one) a join query_table(other) b on a.start_ns <'
            " b.end_ns and b.start_ns < a.end_ns"
        ),
    ),
}


def macros() -> dict[str, str]:
    """Return by function the statement that creates it; they are not saved with a database."""
    return {
        name: f"create temp macro {name}({each.parameters}) as table "
        + each.statement.replace("$range", _IN_RANGE)
        for name, each in FUNCTIONS.items()
    }


def table_names(*, handle: bool) -> list[str]:
    """Return the names of all tables, with those that functions read."""
    return [*TABLES, *_RELATIONS, *(["handle"] if handle else [])]


def columns_of(name: str) -> dict[str, str]:
    """Return the types of the columns of a table, by their names."""
    if name in _RELATIONS:
        columns = _RELATIONS[name]
    else:
        columns = HANDLE_COLUMNS if name == "handle" else TABLES[name][1]
    return {column: kind for column, (kind, _) in columns.items()}
