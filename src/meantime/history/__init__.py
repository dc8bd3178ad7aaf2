"""The history: the intervals of all attributes, how it is built, kept and queried."""

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
