from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

CODE: int
INT_INLINE: int
FLOAT_INLINE: int
STORED: int

UInt8s: TypeAlias = npt.NDArray[np.uint8]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt64s: TypeAlias = npt.NDArray[np.uint64]

def by_quark(time: Int64s, quark: Int32s, ends: Int32s, order: Int32s) -> None: ...
def measure(
    quark: Int32s, word: Int64s, meta: UInt32s, kind: UInt8s, counts: Int32s
) -> tuple[int, int, bool]: ...
def measure_numbers(
    quark: Int32s,
    word: Int64s,
    meta: UInt32s,
    kind: UInt8s,
    quarks: Int32s,
    low: Int64s,
    high: Int64s,
    fractional: UInt8s,
) -> None: ...
def widen(
    quarks: Int32s,
    kind: UInt8s,
    low: Int64s,
    high: Int64s,
    least: Int64s,
    greatest: Int64s,
) -> None: ...
def choose_forms(
    quarks: Int32s,
    offsets: UInt32s,
    kind: UInt8s,
    low: Int64s,
    high: Int64s,
    fractional: UInt8s,
    most_span: int,
    form: UInt8s,
    origin: Int64s,
) -> tuple[int, bool, int, int, int]: ...
def set_origin(quarks: Int32s, form: UInt8s, common: int, origin: Int64s) -> None: ...
def fill(
    time: Int64s,
    quark: Int32s,
    word: Int64s,
    meta: UInt32s,
    position: Int32s,
    base_ns: int,
    code_bits: int,
    payload_bits: int,
    width: int,
    rows: UInt8s,
    payload: UInt64s | None,
    form: UInt8s | None,
    origin: Int64s | None,
    numbers: Int64s | None,
) -> None: ...
def segment_rows(
    lasts_ns: int,
    width: int,
    code_bits: int,
    payload_bits: int,
    offsets: npt.NDArray[np.uint32],
    rows: npt.NDArray[np.uint8],
    payload: npt.NDArray[np.uint64],
    most_code: npt.NDArray[np.uint64],
    most_tag: int,
) -> int: ...
def sums_descend(
    value_offset: npt.NDArray[np.uint32],
    time_offset: npt.NDArray[np.uint32],
    times: npt.NDArray[np.uint32] | npt.NDArray[np.uint64],
    most: int,
) -> bool: ...
def each_once(numbers: Int32s) -> bool: ...
def nested(
    offsets: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    depth: Int32s,
    lane: npt.NDArray[np.uint8 | np.uint16 | np.uint32 | np.int32],
    parent: Int32s,
) -> int: ...
