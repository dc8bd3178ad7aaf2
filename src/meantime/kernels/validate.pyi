import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

def segment_rows(
    lasts_ns: int,
    width: int,
    code_bits: int,
    payload_bits: int,
    offsets: npt.NDArray[np.uint32],
    rows: npt.NDArray[np.uint8],
    payload: npt.NDArray[np.uint64],
    most_code: npt.NDArray[np.uint64],
    most_tag: int,
) -> int: ...
def sums_descend(
    value_offset: npt.NDArray[np.uint32],
    time_offset: npt.NDArray[np.uint32],
    times: npt.NDArray[np.uint32] | npt.NDArray[np.uint64],
    most: int,
) -> bool: ...
def nested(
    offsets: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    depth: Int32s,
    lane: Int32s,
    parent: Int32s,
) -> int: ...
