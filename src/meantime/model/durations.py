"""What durations are like: how many, their sum, their mean, quantiles, the shortest, the longest.

The fields of `Durations` are the only place where a figure is declared: a new quantile is one more
field there. What the kernels compute, the fields of all statistics, the columns of tables, the
members of JSON and the columns of the page follow from it.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from meantime.model.columns import exact_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.tabular import Column

    Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = [
    "FIGURES",
    "PERCENTS",
    "QUANTILE_NAMES",
    "QUANTILE_PAIRS",
    "DurationColumns",
    "Durations",
    "Figure",
    "as_json",
    "dropped",
    "figure_columns",
    "figure_values",
    "figures_of",
    "nearest_rank",
    "values_at",
]

_N = TypeVar("_N")
_F = TypeVar("_F")
_Of = TypeVar("_Of", bound="Durations[int, float]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations(Generic[_N, _F]):
    """Figures of the durations of one group as numbers, or of many groups as columns.

    Quantiles are nearest rank: the ceil(q n)-th shortest.

    Attributes:
        count: How many durations.
        total_ns: Their sum; of what is counted in full, its time in the range.
        mean_ns: The sum of the durations over `count`, 0 without any.
        median_ns: The ceil(n / 2)-th shortest.
        p90_ns: The ceil(0.9 n)-th shortest.
        p99_ns: The ceil(0.99 n)-th shortest.
        min_ns: The shortest.
        max_ns: The longest.
    """

    count: _N
    total_ns: _N
    mean_ns: _F
    median_ns: _N
    p90_ns: _N
    p99_ns: _N
    min_ns: _N
    max_ns: _N

    @classmethod
    def of(cls, lengths_ns: Int64s, **own: Any) -> Self:
        """Return the figures of one group; all are 0 without durations.

        >>> found = Durations.of(np.array([30, 10, 20]))
        >>> found.count, found.total_ns, found.mean_ns, found.median_ns, found.max_ns
        (3, 60, 20.0, 20, 30)

        Args:
            lengths_ns: The durations.
            own: Fields that a subclass adds, and figures that replace the computed ones.
        """
        count = len(lengths_ns)
        if not count:
            return cls.computed(0, 0, 0, 0, [0] * len(PERCENTS), **own)
        quantiles = values_at(lengths_ns, [nearest_rank(count, each) for each in PERCENTS])
        least, most = int(lengths_ns.min()), int(lengths_ns.max())
        return cls.computed(count, exact_sum(lengths_ns), least, most, quantiles, **own)

    @classmethod
    def counted(cls, lengths_ns: Int64s, counts: Int64s, max_ns: int) -> Self:
        """Return the figures of durations of which there are several each.

        Args:
            lengths_ns: The different durations, ascending.
            counts: How many there are of each, at least one.
            max_ns: The longest.
        """
        if not len(counts):
            return cls.of(lengths_ns)
        ends = np.cumsum(counts)
        count = int(ends[-1])
        ranks = [nearest_rank(count, each) for each in PERCENTS]
        quantiles = lengths_ns[np.searchsorted(ends, ranks, side="right")].tolist()
        total_ns = sum(map(operator.mul, lengths_ns.tolist(), counts.tolist()))
        return cls.computed(count, total_ns, int(lengths_ns[0]), max_ns, quantiles)

    @classmethod
    def computed(
        cls,
        count: Any,
        total_ns: Any,
        min_ns: Any,
        max_ns: Any,
        quantiles: Iterable[Any],
        /,
        **own: Any,
    ) -> Self:
        """Return figures that are computed already; `quantiles` are by `PERCENTS`."""
        many = isinstance(count, np.ndarray)
        number = np.maximum(count, 1) if many else max(count, 1)
        given = {
            "count": count,
            "total_ns": total_ns,
            "mean_ns": total_ns / number,
            "min_ns": min_ns,
            "max_ns": max_ns,
            **dict(zip(_QUANTILES, quantiles, strict=True)),
        }
        return cls(**(given | own))


class DurationColumns(Durations["Int64s", "Float64s"]):
    """Figures of many groups: a column of int64, or of float64 for means, for each figure."""

    __slots__ = ()

    def each(self, kind: type[_Of]) -> Iterator[_Of]:
        """Yield the figures of each group of columns, as numbers."""
        names = [each.name for each in fields(Durations)]
        for row in zip(*(getattr(self, name).tolist() for name in names), strict=True):
            yield kind(**dict(zip(names, row, strict=True)))


class Figure(NamedTuple):
    """One figure of a row of statistics, wherever it is shown.

    Attributes:
        key: Its name in JSON, in CSV and in Arrow tables, and as an attribute.
        title: Its heading in tables.
        form: How it is written: a duration, a number or a percentage.
        sentence: What it is.
        rank: Which figures a narrow terminal leaves out first: the lowest; None is in no table.
        percent: Of a quantile, which one.
        if_any: Whether a table has it only if it is not 0 in all rows.
    """

    key: str
    title: str
    form: Literal["time", "count", "share"]
    sentence: str
    rank: int | None = None
    percent: int | None = None
    if_any: bool = False


def _percent(name: str) -> int | None:
    """Return which quantile a field of `Durations` is."""
    if name == "median_ns":
        return 50
    digits = name.removeprefix("p").removesuffix("_ns")
    return int(digits) if digits.isdecimal() else None


def _quantile(name: str, percent: int) -> Figure:
    sentence = f"the ceil({percent / 100:g} n)-th shortest duration"
    return Figure(name, name.removesuffix("_ns"), "time", sentence, percent, percent)


_QUANTILES: dict[str, int] = {
    each.name: percent for each in fields(Durations) if (percent := _percent(each.name)) is not None
}
QUANTILE_NAMES = tuple(_QUANTILES)
PERCENTS = tuple(_QUANTILES.values())
# as the kernels take them, so that ranks are exact
QUANTILE_PAIRS = np.array([(percent, 100) for percent in PERCENTS], np.int64)

# All figures in the order of tables; a row of statistics has some of them.
FIGURES: dict[str, Figure] = {
    each.key: each
    for each in (
        Figure("total_ns", "total", "time", "the time in the range, added up", 300),
        Figure("self_ns", "self", "time", "the part of it in no span directly inside", 400),
        Figure("own_ns", "own", "time", "the part of it in no call of the span, anywhere", 400),
        Figure("share", "share", "share", "the part of the time that the row could have", 500),
        Figure("spans", "spans", "count", "how many spans were open in the range", 101),
        Figure("count", "count", "count", "how many durations", 201),
        Figure(
            "unfinished",
            "unfinished",
            "count",
            "how many of them have no end in the trace: they count up to where their thread ends",
            301,
            if_any=True,
        ),
        Figure(
            "unfinished_ns",
            "at least",
            "time",
            "the part of the total that is of unfinished ones, each of which took at least that",
            300,
            if_any=True,
        ),
        Figure("failed", "failed", "count", "how many of them failed", 102),
        Figure("mean_ns", "mean", "time", "the sum of the durations over their number", 0),
        *(_quantile(name, percent) for name, percent in _QUANTILES.items()),
        Figure("min_ns", "shortest", "time", "the shortest duration"),
        Figure("max_ns", "longest", "time", "the longest duration", 202),
    )
}


def nearest_rank(count: int, percent: int) -> int:
    """Return the rank of the nearest-rank quantile: the ceil(q n)-th smallest, from 0."""
    return max(0, -(-count * percent // 100) - 1)


def values_at(lengths_ns: Int64s, ranks: Sequence[int]) -> list[int]:
    """Return the durations with these ranks, from 0 and ascending.

    >>> values_at(np.array([30, 10, 20]), [0, 2, 2])
    [10, 30, 30]
    """
    found = []
    # one after the other: NumPy looks for several at once with an algorithm that takes longer
    first = 0
    for rank in ranks:
        lengths_ns = np.partition(lengths_ns, rank - first)[rank - first :]
        first = rank
        found.append(int(lengths_ns[0]))
    return found


def figures_of(kind: type) -> list[Figure]:
    """Return the figures that rows of a class of statistics have, in the order of tables.

    >>> [figure.title for figure in figures_of(Durations)][:3]
    ['total', 'count', 'mean']
    """
    names = {each.name for each in fields(kind)}
    return [figure for figure in FIGURES.values() if figure.key in names]


def dropped(figures: Iterable[Figure]) -> list[Figure]:
    """Return the figures of a table in the order in which a narrow terminal leaves them out."""
    return sorted(figures, key=lambda each: each.rank or 0)


def figure_values(row: Any) -> dict[str, Any]:
    """Return the figures of a row by name."""
    return {figure.key: getattr(row, figure.key) for figure in figures_of(type(row))}


def as_json(row: Any) -> dict[str, Any]:
    """Return the fields of a row by name: names first, then figures, then what is by name."""
    own = {each.name: getattr(row, each.name) for each in fields(row) if each.name not in FIGURES}
    parts = {name: value for name, value in own.items() if isinstance(value, dict)}
    names = {name: value for name, value in own.items() if name not in parts}
    return names | figure_values(row) | parts


def figure_columns(kind: type, rows: Sequence[Any]) -> dict[str, Column]:
    """Return a column for each figure of rows of a class of statistics."""
    return {
        figure.key: np.array(
            [getattr(row, figure.key) for row in rows],
            np.float64 if figure.key in {"share", "mean_ns"} else np.int64,
        )
        for figure in figures_of(kind)
    }
