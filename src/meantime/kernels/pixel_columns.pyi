import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

def stack(
    row_offsets: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    state_offsets: Int64s | None,
    state_index: Int32s,
    state_ns: Int64s | None,
    layer_of: npt.NDArray[np.uint8],
    noticed: npt.NDArray[np.uint8],
    window_start_ns: int,
    window_end_ns: int,
    width: int,
    tall: int,
) -> bytes: ...
def span_cells(
    start_ns: Int64s,
    end_ns: Int64s,
    row: Int32s,
    name: Int32s | None,
    chosen: Int32s | None,
    tile_ns: int,
    level: int,
    bins: int,
    rows: int,
) -> tuple[Int32s, Int64s, Int64s, Int32s, Int32s]: ...
def state_cells(
    row: Int32s,
    start_ns: Int64s,
    end_ns: Int64s,
    code: Int32s,
    tile_ns: int,
    level: int,
    bins: int,
    states: int,
) -> tuple[Int64s, npt.NDArray[np.uint8], Int32s]: ...
def state_load(
    start_ns: Int64s,
    end_ns: Int64s,
    code: Int32s,
    from_ns: int,
    to_ns: int,
    tile_ns: int,
    level: int,
    partly: npt.NDArray[np.float64],
    whole: Int64s,
) -> None: ...
