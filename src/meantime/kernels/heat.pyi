import numpy as np
import numpy.typing as npt

from meantime.columns import Int64s

def bounds(times: Int64s) -> tuple[int, int]: ...
def cells(times: Int64s, base: int, period: int, edges: Int64s) -> tuple[Int64s, Int64s]: ...
def count(times: Int64s, base: int, period: int, edges: Int64s, totals: Int64s) -> int: ...
def cover(
    starts: Int64s, ends: Int64s, base: int, period: int, edges: Int64s, changes: Int64s
) -> int: ...
def settle(changes: Int64s, edges: Int64s, totals: Int64s) -> None: ...
def tally(
    cells: Int64s,
    keys: Int64s,
    amounts: Int64s,
    slot_keys: Int64s,
    slot_cells: Int64s,
    slot_totals: Int64s,
) -> int: ...
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
