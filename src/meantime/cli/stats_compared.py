"""`meantime stats --against` of states: how their totals and shares changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.tables import Column, print_table
from meantime.query.state_comparison import compared_states
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.query.state_comparison import ComparedState
    from meantime.query.statistics import StateStatistics, StatisticsRow

__all__ = ["show"]

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


def show(before: StateStatistics, after: StateStatistics, by: str, *, as_json: bool) -> None:
    """Print what changed, the largest change of share first."""
    compared = compared_states(before, after)
    if as_json:
        document = {
            "by": by,
            "range_ns": list(compared.after_ns),
            "against_range_ns": list(compared.before_ns),
            "rows": [_fields(row) for row in compared.rows],
        }
        click.echo(json.dumps(document))
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


def _fields(row: ComparedState) -> dict[str, Any]:
    named = {"kind": row.kind, "key": row.key}
    if row.entity is not None:
        named["entity"] = row.entity
    changes = {"total_change_ns": row.total_change_ns, "share_change": row.share_change}
    return named | {"before": _side(row.before), "after": _side(row.after)} | changes


def _side(row: StatisticsRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        name: value for name, value in asdict(row).items() if name not in {"kind", "key", "entity"}
    }
