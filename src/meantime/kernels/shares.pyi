from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.kernels.search import IntervalRows, Segments
from meantime.kernels.shares_edges import Bins
from meantime.kernels.shares_totals import Totals

UInt8s: TypeAlias = npt.NDArray[np.uint8]

class Tally(Bins):
    codes: Int32s | None
    rows: int
    words: Int64s

    def __init__(
        self,
        edges: Int64s,
        low: Int64s,
        slots: Int32s,
        longest: bool,
        slot: UInt8s | Int32s,
        ns: npt.NDArray[np.uint32] | Int64s,
        cell_rows: Int32s,
        cell_changes: Int32s,
    ) -> None: ...
    @property
    def states(self) -> tuple[Int64s, UInt8s]: ...
    def turn_to(self, edges: Int64s, codes: Int32s | None) -> None: ...
    def to_tile(self, shares: UInt8s, codes: Int32s, first: int, width: int) -> None: ...
    def to_counters(
        self,
        least: npt.NDArray[np.float64],
        greatest: npt.NDArray[np.float64],
        mean: npt.NDArray[np.float64],
    ) -> None: ...
    def take_segments(
        self, segments: Segments, quarks: Int32s, kinds: UInt8s, totals: Totals | None = None
    ) -> None: ...
    def take_intervals(self, birth: int, rows: IntervalRows) -> None: ...

def bin_edges(start_ns: int, end_ns: int, bins: int) -> Int64s: ...
