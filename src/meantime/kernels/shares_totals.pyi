from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s
from meantime.kernels.search import Segments
from meantime.kernels.shares_edges import Bins

UInt8s: TypeAlias = npt.NDArray[np.uint8]

class Totals:
    first: int
    last: int
    size_bytes: int

    def __init__(self, segments: Segments, first: int, last: int) -> None: ...
    def prepare(self, quarks: Int32s, kinds: UInt8s, bins: Bins) -> None: ...
