"""`meantime stats` by state, entity or host: the time in states, and how it changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.figures import print_figures
from meantime.cli.tables import Column, print_table
from meantime.model.durations import as_json, figure_values, figures_of
from meantime.model.units import format_ns
from meantime.query.state_comparison import compared_states
from meantime.query.statistics import StatisticsRow

if TYPE_CHECKING:
    from meantime.query.state_comparison import ComparedState
    from meantime.query.statistics import StateStatistics

__all__ = ["compare", "document", "show"]

_NUMBERS = (
    "count before",
    "count",
    "before total",
    "total",
    "change total",
    "before share",
    "share",
    "change share",
)
# Left out in this order on a terminal that is too narrow.
_DROP = ("count before", "count", "before total", "total", "before share", "change total")


def document(statistics: StateStatistics, by: str) -> dict[str, Any]:
    """Return statistics as JSON."""
    return {
        "by": by,
        "range_ns": list(statistics.range_ns),
        **({"sketch": True} if statistics.is_sketch else {}),
        "rows": [_fields(row) for row in statistics.rows],
        "transitions": [list(transition) for transition in statistics.transitions],
    }


def _fields(row: StatisticsRow) -> dict[str, Any]:
    found = as_json(row)
    if row.entity is None:
        del found["entity"]
    return found


def show(statistics: StateStatistics, by: str) -> None:
    """Print a table of each kind of entity, and which state followed which."""
    start_ns, end_ns = statistics.range_ns
    about = ", quantiles within 0.4 %" if statistics.is_sketch else ""
    kinds = statistics.kinds or [""]
    for kind in kinds:
        # the share of a loop and that of its tasks cannot be added up, so each has a table
        named = f"{kind}: time" if len(kinds) > 1 else "Time"
        rows = [row for row in statistics.rows if row.kind == kind]
        entities = (
            {Column(by): [row.entity or "" for row in rows]} if statistics.by == "entity" else {}
        )
        print_figures(
            f"{named} in states over {format_ns(end_ns - start_ns)}{about}",
            entities | {Column("state"): [row.key for row in rows]},
            figures_of(StatisticsRow),
            rows,
        )
    for kind in kinds:
        followed = [row for row in statistics.transitions if row.kind == kind]
        if followed:
            print_table(
                f"{kind}: transitions" if len(kinds) > 1 else "Transitions",
                [Column("from"), Column("to"), Column("count", numeric=True)],
                [[row.before, row.after, f"{row.times:,}"] for row in followed],
            )


def compare(before: StateStatistics, after: StateStatistics, by: str, *, is_json: bool) -> None:
    """Print what changed, the largest change of share first."""
    compared = compared_states(before, after)
    if is_json:
        changes = {
            "by": by,
            "range_ns": list(compared.after_ns),
            "against_range_ns": list(compared.before_ns),
            "rows": [_changes(row) for row in compared.rows],
        }
        click.echo(json.dumps(changes))
        return
    ranges = [
        format_ns(end_ns - start_ns) for start_ns, end_ns in (after.range_ns, before.range_ns)
    ]
    is_by_entity = compared.by == "entity"
    has_kinds = len({row.kind for row in compared.rows}) > 1
    print_table(
        f"Time in states over {ranges[0]}, compared with {ranges[1]}",
        [Column("kind")] * has_kinds
        + [Column(by)] * is_by_entity
        + [Column("state"), *(Column(name, numeric=True) for name in _NUMBERS)],
        [
            [row.kind] * has_kinds + [row.entity or ""] * is_by_entity + _cells(row)
            for row in compared.rows
        ],
        drop=_DROP,
    )


def _cells(row: ComparedState) -> list[str]:
    counts, totals, shares = zip(
        *((each.count, each.total_ns, each.share) if each else (0, 0, 0.0) for each in row.sides),
        strict=True,
    )
    return [
        row.key,
        *(f"{count:,}" for count in counts),
        *map(format_ns, totals),
        format_ns(row.total_change_ns),
        *(f"{share:.2%}" for share in shares),
        f"{row.share_change:+.2%}",
    ]


def _changes(row: ComparedState) -> dict[str, Any]:
    named = {"kind": row.kind, "key": row.key}
    if row.entity is not None:
        named["entity"] = row.entity
    sides = [None if side is None else figure_values(side) for side in row.sides]
    changes = {"total_change_ns": row.total_change_ns, "share_change": row.share_change}
    return named | dict(zip(("before", "after"), sides, strict=True)) | changes
