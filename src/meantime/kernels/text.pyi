from typing import Self

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

UNITS_PER_PX: int

def base64(data: bytes) -> bytes: ...
def strokes(
    row_offsets: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    state_index: Int32s,
    colors: npt.NDArray[np.uint32],
    window_start_ns: int,
    window_end_ns: int,
    units: int,
    most_paths: int,
) -> list[bytes] | None: ...

class Records:
    def __init__(
        self,
        row_offsets: Int64s,
        start_ns: Int64s,
        end_ns: Int64s,
        state_offsets: Int64s | None,
        state_index: Int32s,
        state_ns: Int64s | None,
        tag_offsets: Int64s | None,
        tag_index: Int32s | None,
        tag_ns: Int64s | None,
        window_start_ns: int,
        piece_bytes: int,
    ) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
