"""Call trees of Apple's Instruments as text: what Edit > Deep Copy puts on the clipboard.

The format has no times, and its weights are rounded by Instruments: the stacks follow one another,
each for its own weight.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from meantime.attribute_paths import thread_path
from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import exact
from meantime.readers.sample_rows import SampleRows
from meantime.readers.window import lines
from meantime.stacks import NO_STACK, StackTableBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "instruments"

_HEADER = re.compile(rb"[^\n]*\bWeight\t[^\n]*Self Weight\t[^\n]*Symbol Name")
_AMOUNT = re.compile(r"\s*([\d.]+)\s*([A-Za-z\u00b5\u03bc]*)")
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


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with the header of a call tree."""
    del name
    return _HEADER.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch is read when it is requested.

    Raises:
        InputError: From the batches, if a line is not one of a call tree.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Columns(NamedTuple):
    """Where the columns are that are read."""

    self_weight: int
    symbol: int


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.paths.append(thread_path(0, 0))
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    # the stack of each depth so far: the number of blanks before its symbol
    open_: list[tuple[int, int]] = []
    columns = None
    at = 0
    for number, line in enumerate(lines(source, options), 1):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")
        cells = text.split("\t")
        if columns is None:
            columns = _columns(source, cells)
            continue
        if not text.strip():
            continue
        amount = _amount(cells[columns.self_weight]) if len(cells) > columns.symbol else None
        if amount is None:
            if not options.lenient:
                raise InputError(
                    source.name, "expected a weight, a self weight and a symbol", line=number
                )
            trace.anomalies.add("bad_record")
            continue
        # a symbol may contain tabs
        symbol = "\t".join(cells[columns.symbol :])
        depth = len(symbol) - len(symbol.lstrip())
        while open_ and open_[-1][0] >= depth:
            open_.pop()
        below = open_[-1][1] if open_ else NO_STACK
        stack = stacks.push(below, stacks.frame(symbol.strip() or "(unknown)"))
        open_.append((depth, stack))
        event, weight = amount
        trace.records += 1
        if not weight:
            continue
        try:
            samples.add(0, at, stack, weight, event)
        except ValueError:
            raise InputError(
                source.name, "the weights so far add up to more than 2^62", line=number
            ) from None
        at += weight
    trace.facts["weights"] = _ROUNDED
    trace.anomalies.add("truncated", int(source.truncated))
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()


def _columns(source: Source, cells: list[str]) -> _Columns:
    names = [cell.strip() for cell in cells]
    symbol = next((n for n, name in enumerate(names) if name.startswith("Symbol Name")), -1)
    if symbol < 0 or "Self Weight" not in names[:symbol]:
        raise InputError(source.name, "the header has no Self Weight or Symbol Names", line=1)
    return _Columns(names.index("Self Weight"), symbol)


def _amount(text: str) -> tuple[str, int] | None:
    """Return what a weight counts, and the weight; None if it is none.

    >>> _amount("1.50 ms"), _amount("2.13 Gc  10.0%"), _amount("x")
    (('wall', 1500000), ('cycles', 2130000000), None)
    """
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
