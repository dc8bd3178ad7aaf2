from enum import IntEnum
from typing import Any

from meantime.columns import Int32s, Int64s

class Stop(IntEnum):
    DRAINED = ...
    FULL = ...
    ODD = ...
    LATE = ...

class EventRows:
    line: int
    offset: int
    odd_offset: int
    late_ns: int

    def __init__(
        self,
        room: int,
        time_key: bytes = b"",
        name_key: bytes = b"name",
        unit_ns: int = 1,
        naive: bool = True,
    ) -> None: ...
    def __len__(self) -> int: ...
    def scan(
        self,
        block: bytes | bytearray,
        start: int,
        end: int,
        *,
        line: int,
        offset: int,
        until_ns: int,
        after: tuple[int, int],
        known_to: int,
    ) -> tuple[int, int]: ...
    def put_tracepoints(
        self,
        text: memoryview,
        tail: Int64s,
        rows: Int64s,
        *,
        time_ns: Int64s,
        name: Int32s,
        names: list[bytes],
        cpu: Int64s,
        pid: Int64s,
        tid: Int64s,
        first: int,
    ) -> int: ...
    def put(
        self,
        time_ns: int,
        name: str,
        fields: dict[str, Any],
        cpu: int | None,
        pid: int | None,
        tid: int | None,
        line: int,
        offset: int,
    ) -> None: ...
    def names_from(self, first: int) -> list[bytes]: ...
    def take(
        self, count: int, codes: Int32s
    ) -> tuple[tuple[Any, ...], tuple[int, int], tuple[int, int]]: ...
