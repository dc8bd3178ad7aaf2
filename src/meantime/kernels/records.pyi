from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_UInt64s: TypeAlias = npt.NDArray[np.uint64]
_Int64s: TypeAlias = npt.NDArray[np.int64]

def count(words: _UInt64s, limit: int) -> tuple[int, int, int]: ...
def decode(
    words: _UInt64s,
    base_ns: int,
    latest_ns: int,
    time_ns: _Int64s,
    kind: npt.NDArray[np.uint8],
    ident: npt.NDArray[np.uint32],
    aux: npt.NDArray[np.uint32],
    payload_row: _Int64s,
    payload_word: _Int64s,
) -> int: ...
def merge(time_ns: _Int64s, offsets: _Int64s, order: _Int64s) -> None: ...
def leading_numbers(
    text: bytes, begin: _Int64s, end: _Int64s, number: _Int64s, after: _Int64s
) -> None: ...
def request_rows(rows: _Int64s, requests: _Int64s, ends: bytes, out: _Int64s) -> None: ...
