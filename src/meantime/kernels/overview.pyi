import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s
from meantime.kernels.search import Segments

def coarsen(
    segments: Segments,
    kinds: npt.NDArray[np.uint8],
    shift: int,
    base_ns: int,
    width: int,
    code_bits: int,
    quarks: Int32s,
    offsets: npt.NDArray[np.uint32],
    rows: npt.NDArray[np.uint8],
) -> tuple[int, int]: ...
