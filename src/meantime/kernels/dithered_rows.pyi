import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

def dither(
    row_offsets: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    state_offsets: Int64s | None,
    state_index: Int32s,
    state_ns: Int64s | None,
    layer_of: Int32s,
    window_start_ns: int,
    window_end_ns: int,
    width: int,
    tall: int,
    rows_a_band: int,
    thresholds: npt.NDArray[np.uint16],
) -> npt.NDArray[np.int32]: ...
