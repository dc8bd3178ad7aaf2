import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

SWITCH: int
WAKE: int
NEW: int
LOST: int
MARK: int
BEGIN: int
END: int
LEAF: int
ISSUE: int
COMPLETE: int
SENT: int
RECEIVED: int
CALL: int
IRQ: int
SOFTIRQ: int
RAN: int
UNKNOWN_PRIORITY: int

RECORD_TYPE: np.dtype[np.void]

def names_of_threads(
    records: npt.NDArray[np.void], has_name: npt.NDArray[np.uint8], threads: int
) -> tuple[Int32s, npt.NDArray[np.uint8], bool]: ...
def ids_used_again(records: npt.NDArray[np.void], threads: int) -> npt.NDArray[np.uint8]: ...
def columns_of_records(
    records: npt.NDArray[np.void], first: int, last: int
) -> tuple[Int64s, Int64s, Int32s, Int32s, Int32s]: ...
def thread_states_of_records(
    records: npt.NDArray[np.void],
    order: Int64s | None,
    role: npt.NDArray[np.uint8],
    cpus: int,
    trace_range: tuple[int, int],
    read_range: tuple[int | None, int | None],
) -> tuple[
    npt.NDArray[np.void],
    npt.NDArray[np.void],
    npt.NDArray[np.void],
    Int32s,
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
]: ...
def met_in(
    changes: npt.NDArray[np.void], kept: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...
def merged_changes(
    threads: npt.NDArray[np.void],
    cpus: npt.NDArray[np.void],
    codes: tuple[Int32s, Int32s, Int32s, Int32s, Int32s, Int32s],
    first_tag: int,
) -> tuple[Int64s, Int32s, Int32s, Int32s]: ...
