"""What time was spent on: rows by class and label that add up to the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels.gather import add_times
from meantime.query.explain.lanes import TimeClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.explain.lanes import Meanings

__all__ = ["Budget", "BudgetRow", "percentages"]

OTHER = "other"
_LEAST_SHARE = 0.01


class BudgetRow(NamedTuple):
    """Time in one class, for one thing.

    Attributes:
        kind: The class.
        label: What it was: the name of the work, the resource that it was ready for, what was
            waited for; `other` for several small rows.
        total_ns: How long.
        share: Of the whole.
    """

    kind: TimeClass
    label: str
    total_ns: int
    share: float


class Budget(NamedTuple):
    """What the time of activities was spent on, most first; the rows add up to `total_ns`."""

    total_ns: int
    rows: tuple[BudgetRow, ...]

    @classmethod
    def of(cls, meanings: Meanings, duration_ns: Int64s) -> Budget:
        """Return the budget of parts of these classes, labels and durations."""
        names = ["", *meanings.label.names]
        total_ns = np.zeros((len(TimeClass), len(names)), np.int64)
        add_times(meanings.kind, meanings.label.codes, duration_ns, total_ns)
        kinds, labels = np.nonzero(total_ns)
        columns = kinds.tolist(), labels.tolist(), total_ns[kinds, labels].tolist()
        return cls.of_rows(
            (TimeClass(kind), names[label], total)
            for kind, label, total in zip(*columns, strict=True)
        )

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[TimeClass, str, int]]) -> Budget:
        """Return the budget of these times; those of one class and label are added up."""
        sums: dict[tuple[TimeClass, str], int] = {}
        for kind, label, total_ns in rows:
            sums[kind, label] = sums.get((kind, label), 0) + total_ns
        whole = sum(sums.values())
        ordered = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
        return cls(
            whole,
            tuple(
                BudgetRow(*key, total_ns, total_ns / whole) for key, total_ns in ordered if total_ns
            ),
        )

    def of_class(self, *kinds: TimeClass) -> int:
        """Return the time in these classes, in ns."""
        return sum(row.total_ns for row in self.rows if row.kind in kinds)

    def without(self, *kinds: TimeClass) -> Budget:
        """Return the budget of the time in all other classes."""
        return Budget.of_rows(row[:3] for row in self.rows if row.kind not in kinds)

    def shown(self, limit: int | None = None) -> tuple[BudgetRow, ...]:
        """Return the rows to print: those below 1 % as one row, but what is unknown by itself."""
        large = [
            row for row in self.rows if row.share >= _LEAST_SHARE or row.kind is TimeClass.UNKNOWN
        ][:limit]
        small = [row for row in self.rows if row not in large]
        if len(small) < 2:
            return (*large, *small)
        total_ns = sum(row.total_ns for row in small)
        kinds = {row.kind for row in small}
        kind = kinds.pop() if len(kinds) == 1 else TimeClass.WORK
        return (*large, BudgetRow(kind, OTHER, total_ns, total_ns / self.total_ns))

    def as_json(self) -> list[dict[str, Any]]:
        """Return all rows as values that JSON can represent."""
        return [
            {"class": row.kind.text, "label": row.label, "total": row.total_ns, "share": row.share}
            for row in self.rows
        ]


def percentages(parts: Sequence[int], digits: int = 1) -> list[float]:
    """Return shares in percent that add up to 100 as they are printed.

    The largest remainders are rounded up.

    >>> percentages([1, 1, 1])
    [33.4, 33.3, 33.3]
    """
    whole = sum(parts)
    if not whole:
        return [0.0] * len(parts)
    units = 100 * 10**digits
    floors = [part * units // whole for part in parts]
    rest = units - sum(floors)
    order = sorted(range(len(parts)), key=lambda row: -(parts[row] * units % whole))
    for row in order[:rest]:
        floors[row] += 1
    return [floor / 10**digits for floor in floors]
