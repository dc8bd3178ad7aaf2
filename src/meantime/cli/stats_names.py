"""`meantime stats` by name: call trees, comparisons, longest spans and histograms."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.cli.answers import most_rows
from meantime.cli.dump_spans import span_fields
from meantime.query.durations import duration_histogram, longest_spans
from meantime.query.stacks import callees, callers
from meantime.query.threads import thread_of, thread_title
from meantime.query.trees import amount, call_tree, tree_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.cli.stats_options import StatsOptions
    from meantime.history.spans import SpanTable
    from meantime.query.parts import Part
    from meantime.query.stacks import CallTree

__all__ = [
    "Table",
    "all_calls",
    "compared",
    "histogram",
    "longest",
    "neighbours",
    "tree_of",
]

_BINS = 20
_BAR = 24
_MOST_INDENT = 40
_MOST_TEXT = 100
# Left out in this order on a terminal that is too narrow.
_DROP_COMPARED = ("count before", "count", "change total", "before self")


class Table(NamedTuple):
    """A table to print: columns by name; names of times end in `_ns`.

    `drop` lists columns that a narrow terminal leaves out, by their headings, which lack the unit.
    `more` is the number of rows that are left out at the end.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    drop: Sequence[str] = ()
    more: int = 0


def tree_of(part: Part, options: StatsOptions) -> tuple[CallTree, str]:
    """Return the call tree of a part, and its unit; with an event, that of its samples."""
    return call_tree(
        part.history,
        part.threads,
        start_ns=part.start_ns,
        end_ns=part.end_ns,
        whole=options.whole,
        event=options.event,
        of=options.of,
        idle=options.idle,
    )


def compared(part: Part, other: Part, options: StatsOptions) -> tuple[dict[str, Any], Table]:
    """Return each name's weights in both parts, ordered by the change of its own weight.

    Raises:
        UsageError: If the units differ.
    """
    from meantime.query.compare import compared_measures  # noqa: PLC0415 - only to compare
    from meantime.query.compare.grouping import grouping  # noqa: PLC0415 - as above

    parts = other, part
    runs = [tree_of(each, options) for each in parts]
    lengths_ns = [each.end_ns - each.start_ns for each in parts]
    functions = grouping("name", "samples")
    found = compared_measures(functions, runs, lengths_ns, 1, by="name")
    unit = found.unit if found.rows else runs[1][1]
    own, total = (amount(name, unit) for name in ("self", "total"))
    names = {"count": "count", own: "self_ns", total: "total_ns"}
    rows: list[dict[str, Any]] = [
        {
            "key": row.key[0],
            **{
                side: {name: int((figures or {}).get(figure, 0)) for name, figure in names.items()}
                for side, figures in zip(("before", "after"), row.sides, strict=True)
            },
        }
        for row in found.rows
    ]
    against = {"against_range_ns": [other.start_ns, other.end_ns]}
    return {"by": "name", "unit": unit, **against, "rows": rows}, Table(
        "What changed",
        ["name", "count before", "count", f"before {own}", own, f"change {own}", f"change {total}"],
        [
            [
                row["key"],
                row["before"]["count"],
                row["after"]["count"],
                row["before"][own],
                row["after"][own],
                row["after"][own] - row["before"][own],
                row["after"][total] - row["before"][total],
            ]
            for row in rows
        ],
        _DROP_COMPARED,
    )


def longest(
    part: Part, spans: SpanTable, name: str, *, as_json: bool
) -> tuple[dict[str, Any], Table]:
    """Return the longest spans of a name in a range, in full, and how long each is in the range."""
    begin_ns, end_ns = part.start_ns, part.end_ns
    if (begin_ns, end_ns) != part.history.bounds:
        # with all that is inside of them: times in the span itself do not depend on the range
        here, spans = spans.rows, part.history.spans(spans.threads)
        every = longest_spans(spans, name, len(spans))
        every = every[np.isin(spans.rows[every], here)]
    else:
        every = longest_spans(spans, name, len(spans))
    rows = every[: most_rows(as_json=as_json)].tolist()
    threads = spans.thread
    spans_found = [span_fields(part.history, spans, row) for row in rows]
    for fields in spans_found:
        last_ns = min(fields["end_ns"], end_ns)
        fields["in_range_ns"] = max(0, last_ns - max(fields["start_ns"], begin_ns))
    is_partial = any(
        fields["in_range_ns"] < fields["end_ns"] - fields["start_ns"] for fields in spans_found
    )
    # without an end in the trace, a span took at least as long as it is known
    some = any(fields["unfinished"] for fields in spans_found)
    return {"longest": name, "rows": spans_found}, Table(
        f"The longest of {name}",
        [
            *("thread", "start_ns", "duration_ns"),
            *(["in range_ns"] if is_partial else []),
            *(["end"] if some else []),
            "arguments",
        ],
        [
            [
                thread_title(thread_of(part.history, int(threads[row]))),
                fields["start_ns"],
                fields["end_ns"] - fields["start_ns"],
                *([fields["in_range_ns"]] if is_partial else []),
                *(["not in the trace" if fields["unfinished"] else ""] if some else []),
                "" if fields["args"] is None else json.dumps(fields["args"])[:_MOST_TEXT],
            ]
            for row, fields in zip(rows, spans_found, strict=True)
        ],
        more=len(every) - len(rows),
    )


def histogram(spans: SpanTable, name: str) -> tuple[dict[str, Any], Table]:
    """Return a histogram of the durations of the spans with a name."""
    edges, counts = (column.tolist() for column in duration_histogram(spans, name, bins=_BINS))
    most = max(1, *counts)
    return {"histogram": name, "edges_ns": edges, "counts": counts}, Table(
        f"How long {name} lasted",
        ["from_ns", "to_ns", "count", ""],
        [
            [low, high, count, "#" * -(-count * _BAR // most)]
            for (low, high), count in zip(pairwise(edges), counts, strict=True)
            if high > low
        ],
    )


def all_calls(tree: CallTree, unit: str) -> tuple[dict[str, Any], Table]:
    """Return the stacks in left-heavy order."""
    own, total = amount("self", unit), amount("total", unit)
    rows = tree_rows(tree, unit)
    return {"tree": True, "unit": unit, "rows": rows}, Table(
        "Who called whom",
        ["name", total, own, "count"],
        [
            [
                "  " * min(row["depth"], _MOST_INDENT) + row["name"],
                row[total],
                row[own],
                row["count"],
            ]
            for row in rows
        ],
    )


def neighbours(tree: CallTree, unit: str, what: str, name: str) -> tuple[dict[str, Any], Table]:
    """Return the callers or the callees of a function."""
    found = (callers if what == "callers" else callees)(tree, name)
    total = amount("total", unit)
    rows = [{"name": row.name, "count": row.calls, total: row.total} for row in found]
    heading = f"Who called {name}" if what == "callers" else f"Whom {name} called"
    return {what: name, "unit": unit, "rows": rows}, Table(
        heading,
        ["name", "count", total],
        [[row["name"] or "(nobody)", row["count"], row[total]] for row in rows],
    )
