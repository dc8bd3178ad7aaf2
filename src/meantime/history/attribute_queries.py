"""Queries about one attribute: neighbours, extremes, averages, the top of a stack."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import numpy as np

from meantime.errors import StateTypeError
from meantime.history.numeric_stats import integrate
from meantime.kernels.tail import INT, STR
from meantime.model.columns import Mixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.results import Interval
    from meantime.history.snapshot import Snapshot

__all__ = ["average", "extreme", "iterate", "stack_top"]


class StateQueries(Protocol):
    """The queries of a `History` that `iterate` calls: the history may grow meanwhile."""

    @property
    def start_ns(self) -> int:
        """Where the history begins."""

    @property
    def end_ns(self) -> int:
        """Where it ends."""

    def state(self, quark: int, time_ns: int) -> Interval:
        """Return the interval of an attribute that contains a time."""


def iterate(
    history: StateQueries, quark: int, from_ns: int, *, backwards: bool
) -> Iterator[Interval]:
    """Yield the interval that contains a time, and those after or before it."""
    interval = history.state(quark, from_ns)
    while True:
        yield interval
        if backwards:
            if interval.start_ns == history.start_ns:
                return
            interval = history.state(quark, interval.start_ns - 1)
        else:
            if interval.end_ns == history.end_ns:
                return
            interval = history.state(quark, interval.end_ns)


def _numbers(
    snapshot: Snapshot, quark: int, start_ns: int, end_ns: int
) -> tuple[list[int] | list[float], npt.NDArray[np.uint64]]:
    """Return the numbers that an attribute had in a range, and how long in it each lasted."""
    asked, range_ns = snapshot.query([quark], start_ns, end_ns)
    if int(snapshot.kinds[quark]) == STR:
        name = snapshot.attributes.text(quark)
        raise StateTypeError(f"{name} has strings: only numbers can be compared and averaged")
    intervals = snapshot.gather(asked, range_ns)
    from_ns = np.maximum(intervals.start_ns, start_ns)
    # The difference of two times needs 64 bits without a sign.
    lasted_ns = np.minimum(intervals.end_ns, end_ns).view(np.uint64) - from_ns.view(np.uint64)
    if not isinstance(intervals.value, Mixed):
        return [], lasted_ns[:0]  # it never had a value
    there = intervals.value.kinds > 0
    words = intervals.value.words[there]
    if (intervals.value.kinds[there] == INT).all():
        return words.tolist(), lasted_ns[there]
    return words.view(np.float64).tolist(), lasted_ns[there]


def extreme(
    snapshot: Snapshot, quark: int, range_ns: tuple[int, int], *, greatest: bool
) -> int | float | None:
    """Return the greatest or least number in a range; None if there is none."""
    integral = integrate(snapshot, quark, *range_ns)
    number = (integral.greatest if greatest else integral.least) if integral else None
    if isinstance(number, int | float):
        return number
    values, _ = _numbers(snapshot, quark, *range_ns)
    # NaN is neither greater nor less: it counts only where there is nothing else.
    compared = [value for value in values if value == value] or values  # noqa: PLR0124 - as above
    if not compared:
        return None
    return max(compared) if greatest else min(compared)


def average(snapshot: Snapshot, quark: int, range_ns: tuple[int, int]) -> float:
    """Return the mean over the time of a range, no state counting as 0."""
    start_ns, end_ns = range_ns
    integral = integrate(snapshot, quark, start_ns, end_ns)
    if integral and integral.total is not None:
        # A quotient of ints is the double nearest to it.
        return integral.total / (end_ns - start_ns)
    values, lasted_ns = _numbers(snapshot, quark, start_ns, end_ns)
    weighted = list(zip(values, lasted_ns.tolist(), strict=True))
    unbounded = [value for value in values if not math.isfinite(value)]
    if unbounded:
        # alone, as a product that is too large for a double is infinite as well
        return float(sum(unbounded))
    products = [value * ns for value, ns in weighted]
    if all(map(math.isfinite, products)):
        with suppress(OverflowError):
            return math.fsum(products) / (end_ns - start_ns)
    from fractions import Fraction  # noqa: PLC0415 - 2 ms, hardly ever needed

    # Products or their sum are too large for a double; the mean never is.
    exact = sum((Fraction(value) * ns for value, ns in weighted), Fraction(0))
    return float(exact / (end_ns - start_ns))


def stack_top(snapshot: Snapshot, quark: int, time_ns: int) -> Interval | None:
    """Return the interval of the value on top of a stack; None if it is empty."""
    depth = snapshot.state(quark, time_ns).value
    if depth is not None and not isinstance(depth, int):
        name = snapshot.attributes.text(quark)
        raise StateTypeError(f"{name} is {depth!r}: the attribute of a stack is its depth, an int")
    child = snapshot.attributes.find(str(depth), parent=quark) if depth else None
    return None if child is None else snapshot.state(child, time_ns)
