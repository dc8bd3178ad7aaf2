from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

UInt32s: TypeAlias = npt.NDArray[np.uint32]

class TimeIndex:
    def __init__(self, start_ns: Int64s, end_ns: Int64s) -> None: ...
    def all_overlap(self, from_ns: int, to_ns: int) -> bool: ...
    def overlapping(self, first: Int64s, last: Int64s, from_ns: int, to_ns: int) -> Int32s: ...

def parents_among(rows: Int32s, parent: Int32s) -> Int32s: ...
def extents(
    offsets: Int64s,
    elsewhere: Int64s,
    depth: Int32s,
    start_ns: Int64s,
    end_ns: Int64s,
) -> tuple[Int32s, Int32s]: ...

class StackIntervals:
    def __init__(
        self,
        offsets: Int64s,
        zero: Int64s,
        elsewhere: Int64s,
        attribute_elsewhere: Int64s,
        depth: Int32s,
        start_ns: Int64s,
        end_ns: Int64s,
        name: Int32s,
        attributes: int,
        from_ns: int,
        to_ns: int,
    ) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    def at(
        self,
        attributes: Int32s,
        times_ns: Int64s,
        start: Int64s,
        end: Int64s,
        word: Int64s,
        meta: UInt32s,
    ) -> None: ...
    def sample(
        self, attributes: Int32s, times_ns: Int64s, word: Int64s, null: npt.NDArray[np.uint8]
    ) -> None: ...
    def count(self, attributes: Int32s, start_ns: int, end_ns: int, counts: Int64s) -> None: ...
    def gather(
        self,
        attributes: Int32s,
        quarks: Int32s,
        start_ns: int,
        end_ns: int,
        resolution_ns: int,
        out_quark: Int32s,
        out_start: Int64s,
        out_end: Int64s,
        out_code: Int32s | None,
        out_word: Int64s | None,
        out_meta: UInt32s | None,
        out_tag: Int32s | None,
    ) -> int: ...
