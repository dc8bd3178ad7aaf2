from typing import Any

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s, Value

UNTYPED: int
STR: int
INT: int
FLOAT: int
DONE: int
FULL: int
BACKWARDS: int
OTHER_TYPE: int
NO_QUARK: int
NO_CODE: int
NO_TIME: int

class Tail:
    time_ns: Int64s
    quark: Int32s
    word: Int64s
    meta: npt.NDArray[np.uint32]
    before: Int32s
    late_time_ns: Int64s
    late_quark: Int32s
    late_word: Int64s
    late_meta: npt.NDArray[np.uint32]
    kind: npt.NDArray[np.uint8]
    start_ns: Int64s
    now_word: Int64s
    now_meta: npt.NDArray[np.uint32]
    rows: int
    late_rows: int
    redo: Int32s
    redo_rows: int
    logged_rows: int
    capacity: int
    quarks: int
    boundary_ns: int
    replaced: int
    first_ns: int
    latest_ns: int
    ordered: bool
    verbatim: bool
    counting: bool
    forgetful: bool

    def __init__(
        self,
        capacity: int,
        late_capacity: int,
        verbatim: bool = False,
    ) -> None: ...
    def grow(self, capacity: int) -> None: ...
    def reserve(self, quarks: int) -> None: ...
    def copy(self) -> Tail: ...
    def resume(
        self,
        kind: npt.NDArray[np.uint8],
        start_ns: Int64s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
    ) -> None: ...
    def recall(
        self,
        time_ns: Int64s,
        quarks: Int32s,
        words: Int64s,
        metas: npt.NDArray[np.uint32],
    ) -> None: ...
    def now(self, quark: int) -> tuple[int, int, int]: ...
    def find(self, quark: int, time: int) -> tuple[int | None, int, int, int]: ...
    def find_all(
        self,
        quarks: Int32s,
        times: Int64s,
        starts: Int64s,
        ends: Int64s,
        words: Int64s,
        metas: npt.NDArray[np.uint32],
        founds: npt.NDArray[np.uint8],
    ) -> None: ...
    def put_one(self, time: int, quark: int, word: int, meta: int, kind: int) -> int: ...
    def amend(self, quark: int, word: int, meta: int, kind: int) -> int: ...
    def put_codes(
        self,
        times: Int64s,
        quarks: Int32s,
        codes: Int32s,
        codes_of: Int32s,
        tags: Int32s | None,
        first: int,
    ) -> tuple[int, int]: ...
    def put_words(
        self,
        times: Int64s,
        quarks: Int32s,
        words: Int64s,
        metas: npt.NDArray[np.uint32],
        kinds: npt.NDArray[np.uint8],
        first: int,
    ) -> tuple[int, int]: ...
    def sort(self) -> None: ...
    def drop(self, rows: int, boundary_ns: int) -> None: ...

class Direct:
    def __init__(
        self,
        tail: Tail,
        codes: dict[str, int],
        names: list[str],
        most_rows: int,
        *,
        counts: bool = False,
    ) -> None: ...
    def allow(self, ns: int) -> None: ...
    def stop(self) -> int: ...
    def now(self, quark: int) -> Value: ...
    def put(self, time: int, quark: int, value: Any) -> bool: ...
    def add(self, time: int, quark: int, amount: Any) -> bool: ...
