from typing import Any

import numpy as np
import numpy.typing as npt

MORE: int
STOP: int
TRUNCATED: int
BAD: int
FULL: int

EVENT: np.dtype[np.void]
END: np.dtype[np.void]
WAITING: np.dtype[np.void]
FLOW: np.dtype[np.void]
LEGACY: np.dtype[np.void]
OTHER: np.dtype[np.void]
KERNEL_COUNT: np.dtype[np.void]
KERNEL_POINT: np.dtype[np.void]
TRACK: np.dtype[np.void]

class PerfettoScanner:
    position: int
    fault_offset: int
    stopped: tuple[int, int, int, int]
    packets: int
    bad_packets: int
    root_clock: int
    bounds: tuple[int, int] | None

    def __init__(self, wanted: bytes, lenient: bool) -> None: ...
    def scan_block(self, block: bytes | bytearray, start: int, end: int, last: bool) -> int: ...
    def clock(self, sequence: int, number: int) -> int: ...
    def set_clock(self, clock: int, unit_ns: int, is_incremental: bool, last_ns: int) -> None: ...
    def add_segment(self, clock: int, parent: int, from_ns: int, offset_ns: int) -> None: ...
    def converted(self, clock: int, time_ns: int) -> int | None: ...
    def take_others(self) -> npt.NDArray[np.void]: ...
    def tables(self, record_type: np.dtype[np.void]) -> dict[str, npt.NDArray[Any]]: ...
    def counts(self) -> dict[str, npt.NDArray[Any]]: ...
    def cpus(self) -> list[tuple[int, int]]: ...
    def names(self) -> list[bytes]: ...
    def texts(self) -> tuple[bytes, npt.NDArray[np.int64]]: ...
    def kinds(self) -> dict[int, int]: ...
    def fields(self) -> dict[int, int]: ...
    def oddities(self) -> list[int]: ...

def matched(
    events: npt.NDArray[np.void],
    is_odd: npt.NDArray[np.uint8],
    last_ns: npt.NDArray[np.int64],
    entities: npt.NDArray[np.int32],
    structured: int,
    unfinished: int,
) -> tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int32],
    npt.NDArray[np.uint8],
    int,
    list[int],
]: ...
def used(
    events: npt.NDArray[np.void], rows: npt.NDArray[np.int64], names: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]: ...
def named(
    events: npt.NDArray[np.void],
    rows: npt.NDArray[np.int64],
    names: npt.NDArray[np.int32],
    categories: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
def arguments(
    events: npt.NDArray[np.void], rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]: ...
