from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

UInt8s: TypeAlias = npt.NDArray[np.uint8]

LEVELS: int
MERGED: int
OPEN: int

class Visible(NamedTuple):
    row: Int32s
    start: Int64s
    end: Int64s
    state: Int32s
    tag: Int32s | None
    marks: UInt8s

class Columns(NamedTuple):
    row: Int32s
    start: Int64s
    end: Int64s
    marks: UInt8s
    state_offsets: Int64s
    state_index: Int32s
    state_ns: Int64s
    tag_offsets: Int64s
    tag_index: Int32s
    tag_ns: Int64s

class Tallies(NamedTuple):
    state_ns: Int64s
    state_held: Int32s
    tag_ns: Int64s
    tag_held: Int32s

def clip(
    quark: Int32s,
    from_ns: Int64s,
    until_ns: Int64s,
    code: Int32s,
    tag: Int32s,
    row_of_quark: Int32s,
    state_of_code: Int32s,
    tagged: bool,
    begin_ns: int,
    cut_ns: int,
    last_ns: int,
    into: Visible,
) -> int: ...
def pack(
    visible: Visible,
    window_start: int,
    window_end: int,
    level: int,
    tallies: Tallies,
    count: int,
    columns: Columns,
) -> int: ...
def levels(
    count: int, columns: Columns | Visible, window_start: int, window_end: int, pairs: Int64s
) -> None: ...
def cells(
    count: int, columns: Columns, window_start: int, window_end: int, level: int, first: Int64s
) -> int: ...
def gather(first: Int64s, tallies: Tallies, count: int, columns: Columns) -> int: ...
def pixel_error(
    start: Int64s,
    end: Int64s,
    row: Int32s,
    state: Int32s,
    first: Int64s,
    states: int,
    window_start: int,
    window_end: int,
    pixels: int,
) -> float: ...
