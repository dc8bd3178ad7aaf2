"""Tiles: what a page draws of attributes at one zoom, a few bytes for each bin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.numbers import time_of
from meantime.history.shares import Slots, shares
from meantime.kernels.shares import Tally
from meantime.kernels.tail import INT, STR
from meantime.model.columns import Coded, Mixed

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.snapshot import Snapshot
    from meantime.model.columns import Int32s, Int64s, Values

__all__ = ["CounterTile", "StateTile", "counter_tile", "has_sums", "state_load", "state_tile"]

_LONGEST_NS = 2**63 - 1
_SHARES, _TOP = 5, 3


@dataclass(frozen=True, slots=True, eq=False)
class StateTile:
    """How the time of each bin divides between states, in 255ths of the bin's width.

    A share is the time times 255 divided by `bin_ns`, rounded down, but at least 1 if there was any
    time. So 0 means never, 255 the whole bin, and any other share is less than 1/255 of the width
    away from the time. The arrays are contiguous.

    Attributes:
        quarks: Int32, the attributes.
        start_ns: Where the first bin begins.
        bin_ns: How wide each bin is.
        shares: Uint8 by attribute, bin and part. Part 0 is the time without state, including what
            is outside the history; parts 1 to 3 are the states that lasted longest, the longest
            first, of equals the first in the order of `Shares`; part 4 is all other states.
        codes: By attribute, bin and 0 to 2: which of `states` those of parts 1 to 3 are; 0 where
            the part is 0. Uint8, or uint16 or int32 if there are more states.
        states: The states of the tile.
    """

    quarks: Int32s
    start_ns: int
    bin_ns: int
    shares: npt.NDArray[np.uint8]
    codes: npt.NDArray[Any]
    states: Values


@dataclass(frozen=True, slots=True, eq=False)
class CounterTile:
    """The least, the greatest and the mean number of each bin.

    Attributes:
        quarks: Int32, the attributes.
        start_ns: Where the first bin begins.
        bin_ns: How wide each bin is.
        least: Float64 by attribute and bin; NaN where the attribute has no number.
        greatest: The same.
        mean: The mean over the time of the bin that is in the history, no state counting as 0, as
            `History.average` defines it; within 2^-40 of that, unless a sum exceeds the doubles.
    """

    quarks: Int32s
    start_ns: int
    bin_ns: int
    least: npt.NDArray[np.float64]
    greatest: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]


def _edges(
    snapshot: Snapshot, start_ns: int, bin_ns: int, bins: int
) -> tuple[int, int, int, int, Int64s]:
    """Return start, width and number of a tile's bins; and of those in the history first and edges.

    Raises:
        TimeRangeError: If the start does not fit into 64 bits.
        ValueError: If there is not at least one bin, or its width is not from 1 to 2^63 - 1.
    """
    start_ns, bin_ns, bins = time_of(start_ns), index(bin_ns), index(bins)
    if bins < 1:
        raise ValueError(f"bins is {bins}: at least one is needed")
    if not 1 <= bin_ns <= _LONGEST_NS:
        raise ValueError(f"bin_ns is {bin_ns}: a bin is from 1 to 2^63 - 1 ns wide")
    segments = snapshot.segments
    first = min(bins, max(0, (segments.start_ns - start_ns) // bin_ns))
    last = max(first, min(bins, -(-(segments.end_ns - start_ns) // bin_ns)))
    # Products may exceed 64 bits, but the edges within the history do not: the rest cancels out.
    inner = np.arange(first, last + 1, dtype=np.int64)
    with np.errstate(over="ignore"):
        edges_ns = inner * np.int64(bin_ns) + np.int64(start_ns)
    if last > first:
        edges_ns[0] = max(start_ns + first * bin_ns, segments.start_ns)
        edges_ns[-1] = min(start_ns + last * bin_ns, segments.end_ns)
    return start_ns, bin_ns, bins, first, edges_ns


def state_tile(
    snapshot: Snapshot, quarks: Int32s, start_ns: int, bin_ns: int, bins: int
) -> StateTile:
    """Return how long the states of attributes lasted in each bin; raises as `_edges` does."""
    start_ns, bin_ns, bins, first, edges_ns = _edges(snapshot, start_ns, bin_ns, bins)
    parts = np.zeros((len(quarks), bins, _SHARES), np.uint8)
    parts[:, :, 0] = 255
    codes: npt.NDArray[Any] = np.zeros((len(quarks), bins, _TOP), np.int32)
    words, kinds = np.empty(0, np.int64), np.empty(0, np.uint8)
    if len(edges_ns) > 1 and len(quarks):
        range_ns = int(edges_ns[0]), int(edges_ns[-1])
        snapshot.check_known(quarks, range_ns[0])
        snapshot = _for_times(snapshot, quarks, edges_ns)
        question = snapshot.question(quarks, range_ns)
        slots = Slots.of(snapshot, question)
        tally = _tally_without_rows(edges_ns, slots.low, slots.counts)
        tally.to_tile(parts, codes, first, bin_ns)
        snapshot.segments.tally(question, tally)
        words, kinds = tally.states
    if len(words) <= 2**16:
        codes = codes.astype(np.uint8 if len(words) <= 2**8 else np.uint16)
    states: Values
    if int(kinds.max(initial=0)) <= STR:
        states = Coded(words.astype(np.int32), snapshot.strings)
    else:
        states = Mixed(kinds, words, snapshot.strings)
    return StateTile(quarks, start_ns, bin_ns, parts, codes, states)


def _for_times(snapshot: Snapshot, quarks: Int32s, edges_ns: Int64s) -> Snapshot:
    """Return a snapshot with the same times of states in these bins."""
    question = snapshot.question(quarks, (int(edges_ns[0]), int(edges_ns[-1])))
    source = snapshot.segments.for_times(question, edges_ns)
    return replace(snapshot, segments=source)


def has_sums(snapshot: Snapshot, quarks: Int32s, start_ns: int, bin_ns: int, bins: int) -> bool:
    """Return whether how long states lasted in these bins is known without reading segments."""
    *_, edges_ns = _edges(snapshot, start_ns, bin_ns, bins)
    if len(edges_ns) < 2:
        return True
    return _for_times(snapshot, quarks, edges_ns).segments is not snapshot.segments


def state_load(
    snapshot: Snapshot, quarks: Int32s, start_ns: int, bin_ns: int, bins: int
) -> tuple[list[str], Int64s]:
    """Return the names of states, and by state and bin how long all attributes had it.

    Raises as `_edges` does.
    """
    start_ns, bin_ns, bins, first, edges_ns = _edges(snapshot, start_ns, bin_ns, bins)
    inner = len(edges_ns) - 1
    if not inner or not len(quarks):
        return [], np.zeros((0, bins), np.int64)
    range_ns = int(edges_ns[0]), int(edges_ns[-1])
    snapshot.check_known(quarks, range_ns[0])
    coarse = _for_times(snapshot, quarks, edges_ns)
    found = shares(coarse, quarks, range_ns, inner, longest=False, edges_ns=edges_ns)
    names, ns = found.named_sums()
    sums = np.zeros((len(names), bins), np.int64)
    sums[:, first : first + inner] = ns
    return names, sums


def counter_tile(
    snapshot: Snapshot, quarks: Int32s, start_ns: int, bin_ns: int, bins: int
) -> CounterTile:
    """Return extremes and means of the numbers of attributes; raises as `_edges` does."""
    start_ns, bin_ns, bins, first, edges_ns = _edges(snapshot, start_ns, bin_ns, bins)
    columns = np.full((3, len(quarks), bins), np.nan)
    if len(edges_ns) > 1 and len(quarks):
        snapshot.check_known(quarks, int(edges_ns[0]))
        columns[:, :, first : first + len(edges_ns) - 1] = _numbers(snapshot, quarks, edges_ns)
    return CounterTile(quarks, start_ns, bin_ns, *columns)


def _numbers(snapshot: Snapshot, quarks: Int32s, edges_ns: Int64s) -> npt.NDArray[np.float64]:
    """Return the least, the greatest and the mean numbers by attribute and bin; NaN is none."""
    found = np.full((3, len(quarks), len(edges_ns) - 1), np.nan)
    question = snapshot.question(quarks, (int(edges_ns[0]), int(edges_ns[-1])))
    slots = Slots.of(snapshot, question)
    # Where few integers are possible, those of a bin follow from how long each of them lasted.
    coded = (question.kinds == INT) & (slots.counts > 0)
    if coded.any():
        part = np.ascontiguousarray(found[:, coded])
        tally = _tally_without_rows(edges_ns, slots.low[coded], slots.counts[coded])
        tally.to_counters(*part)
        snapshot.segments.tally(question.part(np.flatnonzero(coded), quarks[coded]), tally)
        found[:, coded] = part
    if not coded.all():
        rest = question.part(np.flatnonzero(~coded), quarks[~coded])
        found[:, ~coded] = snapshot.segments.measure_bins(rest, edges_ns)
    return found


def _tally_without_rows(edges_ns: Int64s, low: Int64s, counts: Int32s) -> Tally:
    """Return a tally that has no room for rows, for other kinds of cells."""
    cells = np.empty((2, len(low), len(edges_ns) - 1), np.int32)
    none = np.empty(0, np.uint8), np.empty(0, np.uint32)
    return Tally(edges_ns, low, counts, False, *none, cells[0], cells[1])
