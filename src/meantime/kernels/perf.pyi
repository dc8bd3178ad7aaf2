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
    def are_others(self) -> list[bool]: ...
    def frames_so_far(self) -> list[tuple[bytes, bool]]: ...
    def stacks_so_far(self) -> tuple[Int32s, Int32s]: ...
    def records_so_far(self) -> npt.NDArray[np.void]: ...
    def first_times(self) -> Int64s: ...
    def ids_so_far(self) -> tuple[Int64s, Int32s]: ...
    def names_so_far(self) -> list[bytes]: ...
