import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

IDS: int
CPU: int
MISC: int
DATE: int
UNPADDED: int
NANOS: int
FTRACE: int

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
CALL: int
IRQ: int
SOFTIRQ: int

RECORD_TYPE: np.dtype[np.void]

class PerfText:
    records: int
    unknown_lines: int
    unread_headers: int
    unread_fields: int
    unmatched_ends: int
    times_beyond: int
    steps_back: int
    far_steps_back: int
    cpu_steps_back: int
    lost: list[tuple[int, int, int]]

    def __init__(self, layout: int, with_stacks: bool, with_records: bool) -> None: ...
    def scan(
        self,
        text: memoryview,
        last: bool,
        time_ns: Int64s,
        period: Int64s,
        thread: Int32s,
        cpu: Int32s,
        event: Int32s,
        stack: Int32s,
        tail: npt.NDArray[np.int64] | None,
    ) -> tuple[int, int, bool]: ...
    def threads_from(self, first: int) -> list[tuple[bytes, bytes | None]]: ...
    def events_from(self, first: int) -> list[bytes]: ...
    def frames_so_far(self) -> list[tuple[bytes, bool]]: ...
    def stacks_so_far(self) -> tuple[Int32s, Int32s]: ...
    def records_so_far(self) -> npt.NDArray[np.void]: ...
    def first_times(self) -> Int64s: ...
    def ids_so_far(self) -> tuple[Int64s, Int32s]: ...
    def names_so_far(self) -> list[bytes]: ...

def names_of_threads(
    records: npt.NDArray[np.void], has_name: npt.NDArray[np.uint8], threads: int
) -> tuple[Int32s, npt.NDArray[np.uint8], bool]: ...
def columns_of_records(
    records: npt.NDArray[np.void], first: int, last: int
) -> tuple[Int64s, Int64s, Int32s, Int32s, Int32s]: ...
def thread_states_of_records(
    records: npt.NDArray[np.void],
    order: Int64s | None,
    role: npt.NDArray[np.uint8],
    cpus: int,
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
