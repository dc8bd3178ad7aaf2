"""Columns of lanes as a page receives them: a million lanes repeat most of their values."""

from __future__ import annotations

from itertools import compress, pairwise
from operator import ne, sub
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["packed_columns"]

# Columns of fewer lanes are sent as they are.
_FEWEST_LANES = 1_000


def packed_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `LaneTree.columns` in the form of `docs/reference/tiles.md`."""
    count = columns["count"]
    if count < _FEWEST_LANES:
        return dict(columns)
    packed = {name: _packed(column, count) for name, column in columns.items()}
    folders, names = _divided(columns["handle"])
    packed["handle"] = {"folder": _packed(folders, count), "name": _packed(names, count)}
    quarks = columns["quark"]
    steps = _runs(list(map(sub, quarks[1:], quarks)))
    if len(steps) < count:
        packed["quark"] = {"first": quarks[0], "steps": steps}
    return packed


def _packed(column: Any, count: int) -> Any:
    """Return a column as its runs, if that is shorter."""
    if not isinstance(column, list) or len(column) != count:
        return column
    runs = _runs(column)
    return {"runs": runs} if len(runs) < count else column


def _runs(values: Sequence[Any]) -> list[Any]:
    """Return each value that differs from the one before it, and how often it follows.

    >>> _runs(["a", "a", "b"])
    ['a', 2, 'b', 1]
    """
    # without a step of the interpreter for each of a million
    begins = compress(range(1, len(values)), map(ne, values[1:], values))
    edges = [0, *begins, len(values)]
    return [part for begin, end in pairwise(edges) for part in (values[begin], end - begin)]


def _divided(paths: Sequence[str | None]) -> tuple[list[str | None], list[str | None]]:
    """Return the part of each path up to its last slash, and the rest; None of those not given.

    >>> _divided(["CPUs/1", "main", None])
    (['CPUs/', '', None], ['1', 'main', None])
    """
    names = [path and path[path.rfind("/") + 1 :] for path in paths]
    folders = [path and path[: path.rfind("/") + 1] for path in paths]
    return folders, names
