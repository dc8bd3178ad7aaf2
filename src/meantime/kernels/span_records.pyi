import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

def walk(rows: Int32s, parent: Int32s) -> Int32s: ...
def spall(
    version: int,
    ids: npt.NDArray[np.uint32],
    lane: Int32s,
    begins: npt.NDArray[np.uint8],
    time_ns: Int64s,
    name: Int32s,
    names: npt.NDArray[np.uint8],
    name_offset: Int64s,
    arguments: npt.NDArray[np.uint8],
    argument_offset: Int64s,
    argument_length: Int32s,
) -> tuple[npt.NDArray[np.uint8], Int64s]: ...
def plain_json(
    text: npt.NDArray[np.uint8], offset: Int64s, length: Int32s
) -> npt.NDArray[np.uint8]: ...
def chrome(
    phase: npt.NDArray[np.uint8],
    time_ns: Int64s,
    duration_ns: Int64s,
    name: Int32s,
    names: bytes,
    name_offset: Int64s,
    tail: Int32s,
    tails: bytes,
    tail_offset: Int64s,
    arguments: npt.NDArray[np.uint8],
    argument_offset: Int64s,
    argument_length: Int32s,
) -> bytes: ...
