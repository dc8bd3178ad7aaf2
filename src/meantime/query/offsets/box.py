"""A box of a map's cells that is chosen in words: some columns, some rows, and what is in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.model.units import duration_ns
from meantime.query.offsets.traits import differences

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.extent import Extent
    from meantime.query.offsets.axis import Axis
    from meantime.query.offsets.map import OffsetMap
    from meantime.query.offsets.traits import Difference

__all__ = ["Against", "against_rest"]


class Against(NamedTuple):
    """Selected cells against the rest of a map.

    Attributes:
        columns: The first and the last column that are selected.
        rows: The first and the last row, from the bottom.
        rows_in_words: What these rows are.
        inside: How much the selected cells have together.
        outside: How much all others have.
        differences: What the selected cells have more or less often than the rest.
    """

    columns: tuple[int, int]
    rows: tuple[int, int]
    rows_in_words: str
    inside: int
    outside: int
    differences: tuple[Difference, ...]


def against_rest(
    found: OffsetMap, extent: Extent, *, during: str | None = None, between: str | None = None
) -> Against:
    """Return what distinguishes the cells of some columns and rows from all others.

    Args:
        found: The map; it must have its traits.
        extent: In which times are texts.
        during: Times `FROM..TO`, or hours such as `08:00..18:00`: columns that have some of them.
        between: Rows `LOW..HIGH` that have some of these values: `10ms..1s`, `95%..100%`,
            `cpu3..cpu8` or one name.

    Raises:
        UsageError: If they are not in the map, nothing was kept to compare, or its rows are
            offsets.
    """
    axis = found.fold.axis
    if axis is None:
        raise UsageError("--during and --between apply to other rows than offsets; give --y")
    if found.traits is None:
        raise UsageError("there are too many parts to compare; choose a shorter range, or --filter")
    first, last = found.columns
    columns = (first, last) if during is None else _columns(found, extent, during)
    rows = (0, axis.rows - 1) if between is None else _rows(axis, between)

    def chosen(number: Int64s) -> npt.NDArray[np.bool_]:
        column, row = np.divmod(number, axis.rows)
        inside: npt.NDArray[np.bool_] = (
            (columns[0] <= column) & (column <= columns[1]) & (rows[0] <= row) & (row <= rows[1])
        )
        return inside

    is_in = chosen(found.total.number)
    inside, outside = (int(found.total.value[each].sum()) for each in (is_in, ~is_in))
    if not inside:
        raise UsageError("there is nothing in the selected cells")
    if not outside:
        raise UsageError(
            "all there is lies in the selected cells: there is no rest to compare with"
        )
    return Against(
        (columns[0] - first, columns[1] - first),
        rows,
        axis.words(rows[0], rows[1] + 1),
        inside,
        outside,
        tuple(differences(found.traits, chosen(found.traits.number))),
    )


def _ends(flag: str, text: str, example: str) -> tuple[str, str]:
    low, dots, high = text.partition("..")
    if not (dots and low and high):
        raise UsageError(f"{flag} {text!r}: write two values, such as {example}")
    return low, high


def _columns(found: OffsetMap, extent: Extent, text: str) -> tuple[int, int]:
    fold = found.fold
    if fold.y.kind == "weekday":
        low, high = (_hour(each, text) for each in _ends("--during", text, "08:00..18:00"))
        if low >= high:
            raise UsageError(f"--during {text!r} ends before it begins")
        return low, high - 1
    begin, end = (extent.time_ns(each) for each in _ends("--during", text, "10s..20s"))
    extent.check_order(begin, end)
    if fold.calendar is not None:
        begin, end = fold.calendar.local(begin), fold.calendar.local(end)
    first, last = found.columns
    chosen = (max(first, fold.column(begin)), min(last, fold.column(max(begin, end - 1))))
    if chosen[0] > chosen[1]:
        raise UsageError(f"--during {text!r} is outside of the map")
    return chosen


def _hour(clock: str, text: str) -> int:
    match = re.fullmatch(r"(\d{1,2}):00", clock)
    if match is None or int(match[1]) > 24:
        raise UsageError(f"--during {text!r}: write hours, such as 08:00..18:00")
    return int(match[1])


def _rows(axis: Axis, text: str) -> tuple[int, int]:
    if axis.unit == "name":
        labels = axis.labels
        low, dots, high = text.partition("..")
        if text in labels or not dots:
            low = high = text
        unknown = [each for each in (low, high) if each not in labels]
        if unknown:
            raise UsageError(f"--between {text!r}: there is no row {unknown[0]!r}")
        one, other = labels.index(low), labels.index(high)
        return min(one, other), max(one, other)
    example, parse = ("10ms..1s", duration_ns) if axis.unit == "ns" else ("95%..100%", _share)
    message = f"--between {text!r}: write values such as {example}"
    low_value, high_value = (
        _parsed(parse, each, message) for each in _ends("--between", text, example)
    )
    if low_value >= high_value:
        raise UsageError(f"--between {text!r} ends before it begins")
    edges = np.array(axis.edges, np.float64)
    first = int(np.searchsorted(edges[1:], low_value, side="right"))
    last = int(np.searchsorted(edges[:-1], high_value, side="left")) - 1
    if first > min(last, axis.rows - 1):
        raise UsageError(f"--between {text!r} is outside of the map")
    return first, last


def _parsed(parse: Callable[[str], float], text: str, message: str) -> float:
    try:
        return parse(text)
    except (UsageError, ValueError):
        raise UsageError(message) from None


def _share(text: str) -> float:
    share = float(text.strip().removesuffix("%")) / 100
    if not 0 <= share <= 1:
        raise ValueError
    return share
