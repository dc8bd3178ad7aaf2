"""Times and quarks in arguments: integers, never floats, that fit into 64 bits.

A float is rejected since it is not exact (doubles are 256 ns apart at today's time since 1970), and
a `datetime64` since its origin differs from the history's.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import HistoryError, QuarkError, TimeRangeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "AFTER_ALL",
    "BEFORE_ALL",
    "OUTSIDE",
    "checked_time",
    "fits",
    "quark_of",
    "quarks_of",
    "time_of",
    "times_of",
]

# The times of changes are between these two: the least integer means "never changed", and the
# greatest has no time after it at which a history could end.
BEFORE_ALL, AFTER_ALL = -(2**63), 2**63 - 1
OUTSIDE = "a history's times are from -2^63 + 1 to 2^63 - 2"

_TIME, _QUARK = ("a time", TimeRangeError), ("a quark", QuarkError)
_Sort = tuple[str, type[HistoryError]]


def fits(times_ns: Int64s) -> bool:
    """Return whether all of these times fit into a history."""
    return not len(times_ns) or (
        int(times_ns.min()) > BEFORE_ALL and int(times_ns.max()) < AFTER_ALL
    )


def time_of(time_ns: int) -> int:
    """Return a time as an int.

    Raises:
        TimeRangeError: If it does not fit into 64 bits.
        TypeError: If it is a float or no number.
    """
    return _whole(time_ns, _TIME)


def checked_time(time_ns: int) -> int:
    """Return the time of a change as an int; raises as `time_of` does.

    Raises:
        TimeRangeError: If it does not fit into a history.
    """
    time_ns = time_of(time_ns)
    if not BEFORE_ALL < time_ns < AFTER_ALL:
        raise TimeRangeError(f"{time_ns} ns: {OUTSIDE}")
    return time_ns


def times_of(times_ns: Sequence[int] | Int64s) -> Int64s:
    """Return a column of times as contiguous int64; raises as `time_of` does."""
    return _wholes(times_ns, _TIME)


def quark_of(quark: int) -> int:
    """Return a quark as an int; the attribute may not exist.

    Raises:
        QuarkError: If it does not fit into 64 bits.
        TypeError: If it is a float or no number.
    """
    return _whole(quark, _QUARK)


def quarks_of(quarks: Sequence[int] | Int32s) -> Int64s:
    """Return a column of quarks as contiguous int64; raises as `quark_of` does."""
    return _wholes(quarks, _QUARK)


def _whole(number: int, sort: _Sort) -> int:
    what, error = sort
    if type(number) is not int:
        kind = getattr(getattr(number, "dtype", None), "kind", "i")
        if kind not in "iu" or not hasattr(number, "__index__"):
            name = getattr(number, "dtype", type(number).__name__)
            raise TypeError(f"{what} is an integer, and this is {name}: {number!r}")
        number = index(number)
    if not BEFORE_ALL <= number <= AFTER_ALL:
        raise error(f"{what} is {number}: it does not fit into 64 bits")
    return number


def _wholes(column: Sequence[int] | npt.NDArray[Any], sort: _Sort) -> Int64s:
    what, error = sort
    numbers = np.asarray(column)
    if numbers.ndim != 1:
        raise TypeError(f"{what[2:]}s are a sequence of integers, and this is {column!r}")
    if not len(numbers):
        return np.empty(0, np.int64)
    kind = numbers.dtype.kind
    # Of integers some of which are beyond 64 bits NumPy makes objects, or even doubles.
    if kind == "O" or (kind == "f" and isinstance(column, list | tuple) and _all_ints(column)):
        return np.array([_whole(number, sort) for number in list(column)], np.int64)
    if kind not in "iu":
        raise TypeError(f"{what} is an integer, and these are {numbers.dtype}")
    if numbers.dtype == np.uint64 and int(numbers.max()) > AFTER_ALL:
        raise error(f"{what} is {int(numbers.max())}: it does not fit into 64 bits")
    return np.ascontiguousarray(numbers, np.int64)


def _all_ints(column: Sequence[object]) -> bool:
    return all(isinstance(number, int) for number in column)
