import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.history.source import Question
from meantime.kernels.search import IntervalRows

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
        self, attributes: Int32s, times_ns: Int64s
    ) -> tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint32]]: ...
    def sample(
        self, attributes: Int32s, times_ns: Int64s
    ) -> tuple[Int64s, npt.NDArray[np.uint8]]: ...
    def count(self, question: Question) -> Int64s: ...
    def gather(self, question: Question, rows: IntervalRows) -> None: ...
