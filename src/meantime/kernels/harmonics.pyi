import numpy as np
import numpy.typing as npt

def add_harmonics(
    power: npt.NDArray[np.float64],
    frequency: npt.NDArray[np.float64],
    length: int,
    first: int,
    last: int,
    least: float,
    summed: npt.NDArray[np.float64],
) -> None: ...
def middle(positions: npt.NDArray[np.float64], period: float) -> float: ...
def squared(values: npt.NDArray[np.complex128], scale: float) -> npt.NDArray[np.float64]: ...
def strengths(
    positions: npt.NDArray[np.float64], periods: npt.NDArray[np.float64], harmonics: int
) -> npt.NDArray[np.float64]: ...
