"""Where within equal periods one row has more or less: cells of both sides, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import UsageError
from meantime.kernels.shares import bin_edges
from meantime.model.names import without_addresses
from meantime.model.units import format_ns
from meantime.query.compare.timelines import anchor_ns, is_over_time, most_changed
from meantime.query.named_time import covered_ns, state_ns
from meantime.query.sampled_states import with_sampled_states
from meantime.query.statistics import state_quarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.compare.comparison import Comparison
    from meantime.query.compare.grouping import Key
    from meantime.query.parts import Part

    Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = ["ROWS", "Folds", "folds"]

ROWS = 50
_MOST_COLUMNS = 500


class Folds(NamedTuple):
    """The means of both sides by cell: a column for each period, a row for each part of it.

    Attributes:
        period_ns: How long a column is.
        lead_columns: How many columns are before the one with time 0.
        row: The state or name of spans that is counted.
        before: float64, columns x rows: how many there were at once, the mean of the runs that
            reach there; NaN where none does.
        after: The same after.
    """

    period_ns: int
    lead_columns: int
    row: str
    before: Float64s
    after: Float64s

    @property
    def change(self) -> Float64s:
        """Those after less those before; NaN where a side has none."""
        return self.after - self.before


def folds(
    before: Sequence[Part],
    after: Sequence[Part],
    found: Comparison,
    period_ns: int,
    align: str = "start",
) -> Folds | None:
    """Return the cells of both sides for the row that changed most, as `timelines` chooses it.

    None if rows are neither by state nor by name of spans, or if there is none. All runs of a side
    are in it, each aligned as `timelines` aligns them: the common place is where a column begins.

    >>> from meantime.query.compare import compared
    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> old, new = ([part_of(history_from_picture(f"disk0  {line}"), None, None)]
    ...             for line in ("aabbaabb", "abbbabbb"))
    >>> folds(old, new, compared(old, new), 4).change.tolist()
    [[0.0, -1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0]]

    Args:
        before: The runs before.
        after: The runs after.
        found: Their comparison.
        period_ns: How long a column is.
        align: As `timelines` takes it.

    Raises:
        MeantimeError: If a run has nothing of the name that runs are aligned by.
        UsageError: If there would be too many columns.
    """
    if found.by not in {"state", "name"} or not is_over_time(found):
        return None
    key = most_changed(found).key
    sides = [[(part, anchor_ns(part, align)) for part in side] for side in (before, after)]
    every = [*sides[0], *sides[1]]
    lead = max(-((part.start_ns - anchor) // period_ns) for part, anchor in every)
    last = max(-((anchor - part.end_ns) // period_ns) for part, anchor in every)
    columns = max(1, lead + last)
    if columns > _MOST_COLUMNS:
        raise UsageError(
            f"a period of {format_ns(period_ns)} makes {columns:,} columns; choose one of at least"
            f" {format_ns(-(-columns * period_ns // _MOST_COLUMNS))}"
        )
    rows = min(ROWS, period_ns)
    means = []
    for side in sides:
        total, known = np.zeros(columns * rows), np.zeros(columns * rows)
        for part, anchor in side:
            first_ns = anchor - lead * period_ns
            edges_ns = bin_edges(first_ns, first_ns + columns * period_ns, columns * rows)
            width_ns = np.diff(edges_ns)
            # what of each cell the run has
            inside = covered_ns(np.array([part.start_ns]), np.array([part.end_ns]), edges_ns)
            ns = _named_ns(part, key, edges_ns)
            total += ns / width_ns
            known += inside / width_ns
        with np.errstate(invalid="ignore"):
            mean = np.where(known > 0, total / known, np.nan)
        means.append(mean.reshape(columns, rows))
    return Folds(period_ns, lead, key[-1], means[0], means[1])


def _named_ns(part: Part, key: Key, edges_ns: Int64s) -> Float64s:
    """Return by cell how long a state of a kind, or spans of a name, lasted in a run, added up."""
    name = key[-1]
    if len(key) > 1:
        history = with_sampled_states(part.history)
        quarks = state_quarks(history, key[0]) if part.threads is None else part.threads
        return state_ns(history, quarks, name, np.clip(edges_ns, part.start_ns, part.end_ns))
    spans = part.history.spans(start_ns=part.start_ns, end_ns=part.end_ns)
    codes = [code for code, each in enumerate(spans.name.names) if without_addresses(each) == name]
    chosen = np.isin(spans.name.codes, codes)
    start_ns = np.clip(spans.start_ns[chosen], part.start_ns, part.end_ns)
    end_ns = np.clip(spans.end_ns[chosen], part.start_ns, part.end_ns)
    return covered_ns(start_ns, end_ns, edges_ns)
