"""Call trees of Apple's Instruments as text: what Edit > Deep Copy puts on the clipboard.

The format has no times, and its weights are rounded by Instruments: the stacks follow one another,
each for its own weight. Allocations, and versions before 9, have only the weight of a symbol with
all that it calls: its own is what those do not explain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import exact
from meantime.readers.sample_rows import SampleRows
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "instruments"
TEXT = True
OBJECTS = True

_SELF = "Self Weight"
_TOTALS = ("Running Time", "Bytes Used")
_AMOUNT = re.compile(r"\s*([\d.]+)\s*([A-Za-z\u00b5\u03bc]*)")
# The own weight of what only calls.
_NOTHING = "-"
_TIMES = {
    "ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9,
    "min": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_CYCLES = {"c": 1, "cycles": 1, "Kc": 10**3, "Mc": 10**6, "Gc": 10**9, "Tc": 10**12}
_BYTES = {
    "Bytes": 1, "bytes": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
# Of each kind of weight, what samples are called.
_UNITS = (("wall", _TIMES), ("cycles", _CYCLES), ("bytes", _BYTES), ("samples", {"": 1}))
_ROUNDED = "rounded by Instruments to the digits that it shows"


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch is read when it is requested.

    Raises:
        InputError: From the batches, if a line is not one of a call tree.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Columns(NamedTuple):
    """Where the columns are that are read.

    Attributes:
        weight: Where the weight is.
        symbol: Where the symbol is.
        is_total: Whether the weight is that of a symbol with all that it calls.
    """

    weight: int
    symbol: int
    is_total: bool


class _Row(NamedTuple):
    """A symbol of the tree.

    Attributes:
        depth: The number of blanks before it.
        stack: Its stack.
        event: What its weight counts; empty if it has none.
        weight: Its weight.
    """

    depth: int
    stack: int
    event: str
    weight: int


class _Tree:
    """Makes samples of the symbols of a tree, each once the tree goes on beside it."""

    def __init__(self, trace: Trace, columns: _Columns) -> None:
        self._columns = columns
        self._stacks = StackTableBuilder()
        self._samples = SampleRows(trace.values)
        # those that the next line may be below
        self._open: list[_Row] = []
        self._at = 0

    def add(self, cells: list[str]) -> bool:
        """Add a line and return True; False if it has no weight or no symbol.

        Raises:
            ValueError: If the weights so far add up to more than 2^62.
        """
        columns = self._columns
        amount = _amount(cells[columns.weight]) if len(cells) > columns.symbol else None
        if amount is None:
            return False
        # a symbol may contain tabs
        symbol = "\t".join(cells[columns.symbol :])
        depth = len(symbol) - len(symbol.lstrip())
        self._close(depth)
        event, weight = amount
        if columns.is_total and self._open:
            above = self._open[-1]
            self._open[-1] = above._replace(weight=above.weight - weight)
        below = self._open[-1].stack if self._open else NO_STACK
        stack = self._stacks.push(below, self._stacks.frame(symbol.strip() or "(unknown)"))
        self._open.append(_Row(depth, stack, event, weight))
        return True

    def _close(self, depth: int) -> None:
        """Make samples of the open symbols at this depth and below it."""
        while self._open and self._open[-1].depth >= depth:
            row = self._open.pop()
            # weights are rounded, so those below may add up to more than the total
            if row.weight > 0:
                self._samples.add(0, self._at, row.stack, row.weight, row.event)
                self._at += row.weight

    def batches(self, trace: Trace) -> Iterator[Batch]:
        """Yield the samples, if there are any.

        Raises:
            ValueError: If the weights add up to more than 2^62.
        """
        self._close(0)
        if self._samples:
            trace.stacks = self._stacks.build()
            yield self._samples.batch()


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.paths.append(thread_path(0, 0))
    tree = None
    number = 0
    try:
        for number, line in enumerate(lines(source, options), 1):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            cells = text.split("\t")
            if tree is None:
                tree = _Tree(trace, _columns(source, cells))
            elif not text.strip():
                continue
            elif tree.add(cells):
                trace.records += 1
            elif options.lenient:
                trace.anomalies.add("bad_record")
            else:
                raise InputError(source.name, "expected a weight and a symbol", line=number)
        trace.facts["weights"] = _ROUNDED
        trace.anomalies.add("truncated", int(source.truncated))
        if tree is not None:
            yield from tree.batches(trace)
    except ValueError:
        raise InputError(
            source.name, "the weights so far add up to more than 2^62", line=number
        ) from None


def _columns(source: Source, cells: list[str]) -> _Columns:
    names = [cell.strip() for cell in cells]
    symbol = next((n for n, name in enumerate(names) if name.startswith("Symbol Name")), len(names))
    for name in (_SELF, *_TOTALS):
        if name in names[:symbol] and symbol < len(names):
            return _Columns(names.index(name), symbol, name != _SELF)
    raise InputError(
        source.name,
        f"the header has no {', '.join((_SELF, *_TOTALS))} before Symbol Name",
        line=1,
    )


def _amount(text: str) -> tuple[str, int] | None:
    """Return what a weight counts, and the weight; None if it is none.

    >>> _amount("1.50 ms"), _amount("2.13 Gc  10.0%"), _amount("x")
    (('wall', 1500000), ('cycles', 2130000000), None)
    """
    if text.strip() == _NOTHING:
        return "", 0
    match = _AMOUNT.match(text)
    if match is None:
        return None
    for event, units in _UNITS:
        if (scale := units.get(match[2])) is not None:
            try:
                weight = int((exact(match[1]) * scale).to_integral_value())
            except ArithmeticError:
                return None
            return (event, weight) if weight < 2**61 else None
    return None
