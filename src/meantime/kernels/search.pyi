from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.history.source import Question

UInt8s: TypeAlias = npt.NDArray[np.uint8]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt64s: TypeAlias = npt.NDArray[np.uint64]

class Segments:
    start_ns: int
    end_ns: int

    def __init__(self, *, searchable: bool = True) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def append(
        self,
        base_ns: int,
        width: int,
        code_bits: int,
        payload_bits: int,
        full: bool,
        quarks: Int32s,
        offsets: UInt32s,
        carry_start: Int64s,
        carry_word: Int64s,
        carry_meta: UInt32s,
        form: UInt8s,
        origin: Int64s,
        rows: UInt8s,
        payload: UInt64s,
        numbers: Int64s,
    ) -> None: ...
    def attach(
        self,
        segment: int,
        timed_run: Int32s,
        step: UInt8s,
        value_offset: UInt32s,
        values: UInt32s,
        time_offset: UInt32s,
        times: UInt32s | UInt64s,
        celled_run: Int32s,
        cell_offset: UInt32s,
        some: UInt8s,
        low: Int64s,
        high: Int64s,
        sums: Int64s,
        magnitude: npt.NDArray[np.float64],
    ) -> None: ...
    def sources(self, quarks: Int32s, start_ns: int, end_ns: int, used: UInt8s) -> None: ...
    def point(self, quark: int, time: int) -> tuple[int, int, int, int]: ...
    def at(self, quarks: Int32s, times: Int64s) -> tuple[Int64s, Int64s, Int64s, UInt32s]: ...
    def sample(self, quarks: Int32s, times: Int64s) -> tuple[Int64s, UInt8s]: ...
    def count(self, question: Question) -> Int64s: ...
    def bounds(self, quarks: Int32s) -> tuple[Int64s, Int64s, Int64s]: ...
    def ends(self, segment: int, start: Int64s, word: Int64s, meta: UInt32s) -> None: ...
    def extremes(self, segment: int, low: Int64s, high: Int64s) -> None: ...
    def unseal(
        self, segment: int, time: Int64s, quark: Int32s, word: Int64s, meta: UInt32s
    ) -> None: ...
    def gather(self, question: Question, rows: IntervalRows) -> None: ...

class IntervalRows:
    rows: int

    def __init__(self, room: int, *, text: bool) -> None: ...
    @property
    def is_text(self) -> bool: ...
    @property
    def quark(self) -> Int32s: ...
    @property
    def start_ns(self) -> Int64s: ...
    @property
    def end_ns(self) -> Int64s: ...
    @property
    def code(self) -> Int32s: ...
    @property
    def tag(self) -> Int32s: ...
    @property
    def word(self) -> Int64s: ...
    @property
    def meta(self) -> UInt32s: ...
