from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

Flags: TypeAlias = npt.NDArray[np.uint8]

OPEN: int

def match(
    start_ns: Int64s,
    end_ns: Int64s,
    thread: Int32s,
    name: Int32s,
    level: Int32s,
    flags: Flags,
    mark_ns: Int64s,
    mark_thread: Int32s,
    mark_name: Int32s,
    mark_position: Int32s,
    mark_span: Int32s,
    last_ns: Int64s,
    *,
    finish: bool = True,
) -> tuple[Int64s, Int64s, Int64s, Int64s]: ...
def unordered(
    start_ns: Int64s, thread: Int32s, flags: Flags, kept: npt.NDArray[np.uint8], threads: int
) -> None: ...
def order(
    start_ns: Int64s,
    end_ns: Int64s,
    thread: Int32s,
    flags: Flags,
    rank: Int32s,
    threads: int | None = None,
) -> tuple[Int32s, Int64s]: ...

class Nesting:
    def extend(
        self,
        first: int,
        start_ns: Int64s,
        end_ns: Int64s,
        level: Int32s,
        flags: Flags,
        depth: Int32s,
        lane: Int32s,
        parent: Int32s,
    ) -> None: ...
    def keep(self, parent: Int32s) -> Int32s: ...

def nest(
    start_ns: Int64s, end_ns: Int64s, level: Int32s, flags: Flags, offsets: Int64s
) -> tuple[Int32s, npt.NDArray[Any], Int32s]: ...
def self_time(start_ns: Int64s, end_ns: Int64s, parent: Int32s) -> Int64s: ...
def innermost_time(start_ns: Int64s, end_ns: Int64s, offsets: Int64s) -> Int64s: ...
def innermost_segments(
    start_ns: Int64s, end_ns: Int64s, offsets: Int64s
) -> tuple[Int32s, Int64s, Int64s]: ...
def first_free(start_ns: Int64s, end_ns: Int64s, offsets: Int64s) -> Int32s: ...
