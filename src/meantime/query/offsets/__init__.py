"""Time folded by a period: what happens at which offset of each second, minute or day."""

from __future__ import annotations

from meantime.query.offsets.band import samples_in_band, samples_of_event
from meantime.query.offsets.cells import Cells, CellsBuilder, merge_cells
from meantime.query.offsets.finder import find
from meantime.query.offsets.finding import Finding
from meantime.query.offsets.fold import Fold
from meantime.query.offsets.gather import BY, Choice, events, kind_of, of_event, offset_map
from meantime.query.offsets.map import Kind, OffsetMap, Source, Value
from meantime.query.offsets.stack_cells import StackCells
from meantime.query.offsets.streaming import SampleStream
from meantime.query.ranges import Range, union

__all__ = [
    "BY",
    "Cells",
    "CellsBuilder",
    "Choice",
    "Finding",
    "Fold",
    "Kind",
    "OffsetMap",
    "Range",
    "SampleStream",
    "Source",
    "StackCells",
    "Value",
    "events",
    "find",
    "kind_of",
    "merge_cells",
    "of_event",
    "offset_map",
    "samples_in_band",
    "samples_of_event",
    "union",
]
