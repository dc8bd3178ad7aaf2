"""Columns of numbers in a line of JSON: varints in base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.directory.manifest import number_in
from meantime.kernels.varints import decoded, encoded, running

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "ascending_in",
    "bytes_in",
    "count_in",
    "numbers_in",
    "pack_ascending",
    "pack_bytes",
    "pack_numbers",
    "pack_signed",
    "signed_in",
]

_MOST = 2**31 - 1


def pack_bytes(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode("ascii")


def pack_numbers(numbers: npt.NDArray[np.uint64]) -> str:
    """Return a column of numbers as text."""
    return pack_bytes(encoded(numbers))


def pack_signed(numbers: Int64s) -> str:
    """Return a column as text, in which small numbers are short: 0, -1, 1, -2 are 0, 1, 2, 3."""
    return pack_numbers(((numbers << 1) ^ (numbers >> 63)).view(np.uint64))


def pack_ascending(numbers: npt.NDArray[np.integer]) -> str:
    """Return a column of ascending numbers from 0 on as text: how many were skipped each time."""
    skipped = np.diff(numbers.astype(np.int64), prepend=-1) - 1
    return pack_numbers(skipped.view(np.uint64))


def count_in(record: dict[str, Any]) -> int:
    """Return how many numbers each column of a record has.

    Raises:
        ValueError: If it does not say that.
    """
    return number_in(record, "count", most=_MOST)


def bytes_in(record: dict[str, Any], name: str) -> npt.NDArray[np.uint8]:
    """Return bytes of a record.

    Raises:
        ValueError: If they are not there, or not base64.
    """
    text = record.get(name)
    if type(text) is not str:
        raise ValueError(f"{name} is not a text")
    return np.frombuffer(b64decode(text, validate=True), np.uint8)


def numbers_in(record: dict[str, Any], name: str) -> npt.NDArray[np.uint64]:
    """Return a column of numbers of a record.

    Raises:
        ValueError: If it is not there, or damaged.
    """
    return decoded(bytes_in(record, name), count_in(record))


def signed_in(record: dict[str, Any], name: str) -> Int64s:
    """Return what `pack_signed` wrote.

    Raises:
        ValueError: If it is not there, or damaged.
    """
    numbers = numbers_in(record, name)
    return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)


def ascending_in(record: dict[str, Any], name: str, below: int) -> Int32s:
    """Return what `pack_ascending` wrote: numbers below a limit.

    Raises:
        ValueError: If it is not there, damaged, or reaches the limit.
    """
    numbers = running(bytes_in(record, name), count_in(record), 0, 1).view(np.int32)
    if len(numbers) and int(numbers[-1]) >= below:
        raise ValueError(f"{name} has {numbers[-1]}, and should be below {below}")
    return numbers
