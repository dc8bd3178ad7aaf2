"""Time folded by a period: what happens at which offset of each second, minute or day.

Each submodule is imported when a name of it is first used: a map needs nothing that finds periods.

A heat map of `perf script` text does not build a history: `open_without_stacks` leaves out the
stacks, and `streaming` folds the samples while they are read. Through a history, 262 MB take 1.25
s and 264 MB of memory instead of 0.82 s and 56 MB.

What a cell holds (`stack_cells`) has one form for samples, spans and states: an amount for each
name and stack. `interval_stacks` adds up the moments in which each span was the innermost one, or
each state with its entity as a stack of two.
"""

from typing import TYPE_CHECKING

from meantime.lazy_names import imported_on_use

if TYPE_CHECKING:
    from meantime.query.offsets.band import samples_in_band
    from meantime.query.offsets.cells import Cells, CellsBuilder, merge_cells
    from meantime.query.offsets.finder import find
    from meantime.query.offsets.finding import Finding
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.gather import Choice, offset_map
    from meantime.query.offsets.map import OffsetMap, Source, Value
    from meantime.query.offsets.stack_cells import StackCells
    from meantime.query.offsets.streaming import SampleStream

__all__ = [
    "Cells",
    "CellsBuilder",
    "Choice",
    "Finding",
    "Fold",
    "OffsetMap",
    "SampleStream",
    "Source",
    "StackCells",
    "Value",
    "find",
    "merge_cells",
    "offset_map",
    "samples_in_band",
]

_HOMES = {
    "Cells": "cells",
    "CellsBuilder": "cells",
    "Choice": "gather",
    "Finding": "finding",
    "Fold": "fold",
    "OffsetMap": "map",
    "SampleStream": "streaming",
    "Source": "map",
    "StackCells": "stack_cells",
    "Value": "map",
    "find": "finder",
    "merge_cells": "cells",
    "offset_map": "gather",
    "samples_in_band": "band",
}


if not TYPE_CHECKING:
    # Hidden from type checkers: they would accept any name as an attribute of this module.
    __getattr__ = imported_on_use(__name__, _HOMES)
