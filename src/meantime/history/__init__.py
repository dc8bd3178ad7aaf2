"""The history: the intervals of all attributes, how it is built, kept and queried.

Each submodule is imported when a name of it is first used: a query needs nothing that builds.
"""

from typing import TYPE_CHECKING

from meantime.lazy_names import imported_on_use

if TYPE_CHECKING:
    from meantime.history.builder import HistoryBuilder
    from meantime.history.history import History
    from meantime.history.ingest import build
    from meantime.history.lanes import Lane
    from meantime.history.results import (
        Flows,
        Interval,
        IntervalBatches,
        Intervals,
        Points,
        Sample,
    )
    from meantime.history.shares import Shares
    from meantime.history.structures import AttributePool, AttributeQueue
    from meantime.history.tiles import CounterTile, StateTile

__all__ = [
    "AttributePool",
    "AttributeQueue",
    "CounterTile",
    "Flows",
    "History",
    "HistoryBuilder",
    "Interval",
    "IntervalBatches",
    "Intervals",
    "Lane",
    "Points",
    "Sample",
    "Shares",
    "StateTile",
    "build",
]

_HOMES = {
    "AttributePool": "structures",
    "AttributeQueue": "structures",
    "CounterTile": "tiles",
    "Flows": "results",
    "History": "history",
    "HistoryBuilder": "builder",
    "Interval": "results",
    "IntervalBatches": "results",
    "Intervals": "results",
    "Lane": "lanes",
    "Points": "results",
    "Sample": "results",
    "Shares": "shares",
    "StateTile": "tiles",
    "build": "ingest",
}


if not TYPE_CHECKING:
    # Hidden from type checkers: they would accept any name as an attribute of this module.
    __getattr__ = imported_on_use(__name__, _HOMES)
