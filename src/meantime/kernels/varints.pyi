import numpy as np
import numpy.typing as npt

from meantime.columns import Int64s

def encoded(column: Int64s | npt.NDArray[np.uint64]) -> bytes: ...
def running(
    data: npt.NDArray[np.uint8], count: int, least: int, step: int
) -> npt.NDArray[np.uint32]: ...
def decoded(data: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.uint64]: ...
