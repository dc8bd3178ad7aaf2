from typing import Final

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.kernels.search import Segments

NEVER: Final[int]
SOME: Final[int]
NONE: Final[int]
EQUAL: Final[int]

def count_matching(
    segments: Segments,
    quarks: Int32s,
    start_ns: int,
    end_ns: int,
    kinds: npt.NDArray[np.uint8],
    modes: npt.NDArray[np.uint8],
    words: Int64s,
    tag: int,
    counts: Int64s,
) -> None: ...
def nearest_matching(
    segments: Segments,
    quarks: Int32s,
    start_ns: int,
    end_ns: int,
    kinds: npt.NDArray[np.uint8],
    modes: npt.NDArray[np.uint8],
    words: Int64s,
    tag: int,
    backwards: bool,
) -> tuple[int, int] | None: ...
