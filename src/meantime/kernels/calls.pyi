import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

def stacks(parent: Int32s, name: Int32s) -> tuple[Int32s, Int32s, Int32s]: ...
def spread(parent: Int32s, weight: Int64s) -> None: ...
def descend(parent: Int32s, value: Int64s) -> None: ...
def durations(
    start_ns: Int64s,
    end_ns: Int64s,
    parent: Int32s,
    offsets: Int64s,
    group: Int32s,
    groups: int,
    from_ns: int,
    to_ns: int,
    quantiles: Int64s,
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s]: ...
def count_states(
    quark: Int32s,
    start_ns: Int64s,
    end_ns: Int64s,
    code: Int32s,
    table: Int32s,
    from_ns: int,
    to_ns: int,
    bits: int,
    figures: npt.NDArray[np.uint64],
    buckets: Int64s,
    pairs: Int64s,
    lived: Int64s,
) -> None: ...
def narrow_states(
    start_ns: Int64s,
    end_ns: Int64s,
    code: Int32s,
    table: Int32s,
    from_ns: int,
    to_ns: int,
    first: Int32s,
    targets: Int64s,
    out: Int64s,
    *,
    collect: bool,
) -> None: ...
def outermost(parent: Int32s, frame: Int32s, frames: int) -> npt.NDArray[np.uint8]: ...
