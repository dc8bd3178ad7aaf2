from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s
from meantime.events import Event

class Kind(IntEnum):
    ABSENT = ...
    NONE = ...
    TEXT = ...
    INT = ...
    FLOAT = ...
    FALSE = ...
    TRUE = ...
    JSON = ...
    OBJECT = ...

class Cells:
    keys: list[str]
    texts: list[str]
    objects: list[Any]

    def __init__(
        self,
        plain: Callable[[str], str],
        first: Int64s,
        key: Int32s,
        kind: npt.NDArray[np.uint8],
        word: Int64s,
        keys: list[str],
        texts: list[str],
        objects: list[Any],
    ) -> None: ...
    def __len__(self) -> int: ...
    def events(
        self,
        begin: int,
        end: int,
        made_as: type[Event],
        times_ns: Int64s,
        name_codes: Int32s,
        names: list[str],
        cpus: Int64s,
        pids: Int64s,
        tids: Int64s,
    ) -> list[Event]: ...
    def keys_of(self, of_rows: Int64s) -> dict[str, int]: ...
    def column(self, of_rows: Int64s, key: int) -> tuple[npt.NDArray[np.uint8], Int64s]: ...
    def values(self, kinds: npt.NDArray[np.uint8], words: Int64s, absent: Any) -> list[Any]: ...
    def used_texts(
        self, kinds: npt.NDArray[np.uint8], words: Int64s
    ) -> tuple[Int32s, list[str]]: ...
    def field(self, name: str, absent: Any, id_column: Int64s | None) -> list[Any]: ...
    def field_texts(
        self,
        name: str,
        id_column: Int64s | None,
        known: dict[int, str],
        text_of: Callable[[Any], str],
    ) -> list[str | None]: ...
    def merged_json(
        self,
        firsts: Int64s,
        seconds: Int64s,
        extras: Int32s,
        extra_fields: list[tuple[str, str]],
        private: npt.NDArray[np.uint8],
        encode: Callable[[Any], str],
    ) -> tuple[bytes, Int64s, Int32s, int]: ...
