from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.kernels.rectangles import Columns

UInt8s: TypeAlias = npt.NDArray[np.uint8]

NEVER: int
BEYOND: int

def worth(
    begin: int,
    until: int,
    columns: Columns,
    window_start: int,
    window_end: int,
    limit: int = ...,
) -> Int64s: ...
def merge_shortest(
    row: Int32s,
    start: Int64s,
    end: Int64s,
    still_open: UInt8s,
    order: Int64s,
    last_of_row: Int32s,
    target: int,
) -> UInt8s: ...
