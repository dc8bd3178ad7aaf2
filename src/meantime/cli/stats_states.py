"""`meantime stats` by state, entity or host: the time in states, and how it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.cli.answers import print_answer
from meantime.cli.figures import print_figures
from meantime.cli.tables import Column, print_table
from meantime.model.durations import as_json, figures_of
from meantime.model.units import format_ns
from meantime.query.duration_sums import SKETCH_ERROR
from meantime.query.statistics import StatisticsRow

if TYPE_CHECKING:
    from meantime.query.compare import ComparedRow
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
_COMPARED = ("count", "total_ns", "share")
# Left out in this order on a terminal that is too narrow.
_DROP = ("count before", "count", "before total", "total", "before share", "change total")


def document(statistics: StateStatistics, by: str) -> dict[str, Any]:
    """Return statistics as JSON."""
    return {
        "by": by,
        "range_ns": list(statistics.range_ns),
        **({"sketch": True, "quantile_error": SKETCH_ERROR} if statistics.is_sketch else {}),
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
    if statistics.has_estimates:
        about += " (--exact: exact)"
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
    from meantime.query.compare import compared_measures  # noqa: PLC0415 - only to compare
    from meantime.query.compare.grouping import grouping  # noqa: PLC0415 - as above

    lengths_ns = [end_ns - start_ns for start_ns, end_ns in (before.range_ns, after.range_ns)]
    states = grouping(after.by, "spans")
    compared = compared_measures(
        states, [before, after], lengths_ns, 1, by=after.by, figure="share"
    )
    rows = sorted(compared.rows, key=lambda row: (-abs(row.change or 0), row.key))
    if is_json:
        changes = {
            "by": by,
            "range_ns": list(after.range_ns),
            "against_range_ns": list(before.range_ns),
            "rows": [_changes(row) for row in rows],
        }
        print_answer(changes)
        return
    is_by_entity = after.by == "entity"
    has_kinds = len({row.key[0] for row in rows}) > 1
    old, new = map(format_ns, lengths_ns)
    print_table(
        f"Time in states over {new}, compared with {old}",
        [Column("kind")] * has_kinds
        + [Column(by)] * is_by_entity
        + [Column("state"), *(Column(name, numeric=True) for name in _NUMBERS)],
        [[*row.key[:1]] * has_kinds + [*row.key[1:-1]] + _cells(row) for row in rows],
        drop=_DROP,
    )


def _cells(row: ComparedRow) -> list[str]:
    figures = [[(side or {}).get(name, 0) for side in row.sides] for name in _COMPARED]
    counts, totals, shares = figures
    return [
        row.key[-1],
        *(f"{count:,}" for count in counts),
        *(format_ns(int(total)) for total in totals),
        format_ns(int(totals[1] - totals[0])),
        *(f"{share:.2%}" for share in shares),
        f"{row.change:+.2%}",
    ]


def _changes(row: ComparedRow) -> dict[str, Any]:
    kind, *entity, state = row.key
    names = [each.key for each in figures_of(StatisticsRow)]
    sides = [None if side is None else {name: side[name] for name in names} for side in row.sides]
    before_ns, after_ns = ((side or {}).get("total_ns", 0) for side in row.sides)
    return {
        "kind": kind,
        "key": state,
        **({"entity": entity[0]} if entity else {}),
        **dict(zip(("before", "after"), sides, strict=True)),
        "total_change_ns": after_ns - before_ns,
        "share_change": row.change,
    }
