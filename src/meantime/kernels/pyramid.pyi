from typing import Any

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.kernels.search import Segments

def build(
    segments: Segments, index: int, kinds: npt.NDArray[np.uint8], last_ns: int
) -> dict[str, npt.NDArray[Any]]: ...
def measure(
    segments: Segments, quark: int, kind: int, start: int, end: int
) -> tuple[bool, int, int, tuple[int, int], float, int]: ...
def measure_bins(
    segments: Segments,
    quarks: Int32s,
    kinds: npt.NDArray[np.uint8],
    edges: Int64s,
    least: npt.NDArray[np.float64],
    greatest: npt.NDArray[np.float64],
    mean: npt.NDArray[np.float64],
) -> int: ...
