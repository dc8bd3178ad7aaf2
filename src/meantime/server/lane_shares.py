"""How much of each bin one state, or spans of one name, take in some lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.errors import UsageError
from meantime.kernels.shares import bin_edges
from meantime.model.columns import named
from meantime.model.names import without_addresses
from meantime.query.named_time import covered_ns, state_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.server.lanes import LaneTree

    Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = ["MOST_BINS", "MOST_LANES", "lane_shares"]

# A page asks for the lanes that it shows, by column of its pixels.
MOST_BINS = 1 << 13
MOST_LANES = 500
# Shares are sent with so many digits: a page draws 26 pixels of them.
_DIGITS = 5


def lane_shares(
    tree: LaneTree, lanes: Sequence[int], name: str, range_ns: tuple[int, int], bins: int
) -> dict[str, Any]:
    """Return by lane and bin how much of the bin a state or spans of a name take.

    Of a group, or entities that share rows, it is the mean number that have the state at once. Of
    spans it is the part of the time in which one is open, at most 1: spans that contain each other
    count once. The range may be partly outside the history, where nothing is known.

    Args:
        tree: The lanes.
        lanes: Their numbers.
        name: The state, or the name of spans without addresses.
        range_ns: Where the bins begin and end.
        bins: How many there are.

    Raises:
        UsageError: If the bins or lanes are too many, or the range is empty.
    """
    start_ns, end_ns = range_ns
    if not 0 < bins <= MOST_BINS or len(lanes) > MOST_LANES:
        raise UsageError(f"shares are of at most {MOST_LANES} lanes and {MOST_BINS} bins")
    if end_ns - start_ns < bins:
        raise UsageError("a bin has at least 1 ns")
    edges_ns = bin_edges(start_ns, end_ns, bins)
    found = {}
    for lane in lanes:
        kind = tree.lanes[lane].kind
        is_of_spans = kind in {"stack", "async"}
        ns = (_of_spans if is_of_spans else _of_states)(tree, lane, name, edges_ns)
        shares = ns / np.diff(edges_ns)
        found[lane] = np.minimum(shares, 1.0) if is_of_spans else shares
    return {
        "lanes": list(lanes),
        "shares": [np.round(each, _DIGITS).tolist() for each in found.values()],
    }


def _of_states(tree: LaneTree, lane: int, name: str, edges_ns: Int64s) -> Float64s:
    """Return by bin how long the entities of a lane had a state, added up."""
    history = tree.history
    own, packed = tree.entities([lane])
    if len(own) != 1 or len(packed):
        return state_ns(history, np.concatenate([own, packed]), name, edges_ns)
    # of one attribute there are sums of wide bins
    found = np.zeros(len(edges_ns) - 1)
    shares = history.grouped_shares(own, int(edges_ns[0]), int(edges_ns[-1]), len(found))
    column = named(shares.value)
    codes = [code for code, each in enumerate(column.names) if str(each) == name]
    chosen = np.isin(column.codes, codes)
    np.add.at(found, shares.bin[chosen], shares.ns[chosen])
    return found


def _of_spans(tree: LaneTree, lane: int, name: str, edges_ns: Int64s) -> Float64s:
    """Return by bin how long spans of a name lasted in a lane, added up."""
    block, index = tree.within_block(lane)
    table = block.spans.table
    codes = [code for code, each in enumerate(table.name.names) if without_addresses(each) == name]
    rows = table.select(
        block.lane_threads[index], start_ns=int(edges_ns[0]), end_ns=int(edges_ns[-1])
    ).rows
    first, last = block.row_offsets[index : index + 2]
    row = block.spans.row[rows]
    rows = rows[(row >= first) & (row < last) & np.isin(table.name.codes[rows], codes)]
    return covered_ns(table.start_ns[rows], table.end_ns[rows], edges_ns)
