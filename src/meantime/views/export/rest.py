"""Counts of what a format cannot represent of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.model.attribute_paths import OBJECT_PATTERN

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from meantime.history.history import History

__all__ = ["count_rest"]


def _counters(history: History) -> int:
    lanes = [lane.quarks for lane in history.lanes if lane.declaration.kind == "counter"]
    return len({quark for quarks in lanes for quark in quarks.tolist()})


_COUNTS: dict[str, Callable[[History], int]] = {
    "categories": lambda history: int((history.spans().category.codes >= 0).sum()),
    "arguments": lambda history: int((history.spans().arguments_length > 0).sum()),
    "unfinished spans, which became finished": lambda history: int(
        history.spans().unfinished.sum()
    ),
    "samples": lambda history: len(history.samples()),
    "points": lambda history: len(history.points()),
    "arguments of points": lambda history: int((history.points().arguments_length > 0).sum()),
    "flows": lambda history: len(history.flows()),
    "counter series": _counters,
    "objects": lambda history: len(history.quarks(OBJECT_PATTERN)),
    "names of processes and threads": lambda history: len(history.names),
    "descriptions": lambda history: len(history.descriptions),
}


def count_rest(history: History, lost: Counter[str], *what: str) -> None:
    """Add the counts with these descriptions to `lost`."""
    for name in what:
        lost[name] += _COUNTS[name](history)
