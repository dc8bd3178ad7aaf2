import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

class Matches:
    number: Int32s
    parent: Int32s
    begin: Int64s
    closed: Int64s
    end: Int64s
    ended_by: Int64s
    count: int
    without_end: int
    without_begin: int
    def __init__(
        self,
        counts: Int32s,
        candidates: list[Int32s],
        numbers: Int32s,
        codes: Int32s,
        parents: Int32s,
        begins: int,
    ) -> None: ...
    def run(
        self,
        events: Int64s,
        numbers: Int32s,
        begins: npt.NDArray[np.uint8],
        codes: list[Int32s],
    ) -> None: ...
