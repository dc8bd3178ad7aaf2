import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

def stack(
    row_offsets: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    state_offsets: Int64s,
    state_index: Int32s,
    state_ns: Int64s,
    layer_of: npt.NDArray[np.uint8],
    noticed: npt.NDArray[np.uint8],
    window_start_ns: int,
    window_end_ns: int,
    width: int,
    tall: int,
) -> bytes: ...
