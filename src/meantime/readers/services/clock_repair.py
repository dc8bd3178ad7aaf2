"""By how much the clocks of services differ, as their calls show it.

A server's span is within the client's span that called it. Where it is not, the two clocks differ,
and what both sides recorded of all calls limits by how much.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.model.columns import Int64s

__all__ = ["shifts"]


def shifts(caller: Int64s, called: Int64s, low_ns: Int64s, high_ns: Int64s) -> dict[int, int]:
    """Return what to add to the times of services, so that calls are within their callers.

    Two services between which all calls fit are not shifted relative to each other; if no shift
    makes all of them fit, it is enough that half of them do. Of the services that are related by
    calls, the one that is called least keeps its clock, and those of the others follow from it over
    the pairs with the most calls.

    >>> calls = np.array([0, 0]), np.array([1, 1])
    >>> shifts(*calls, np.array([90, 80]), np.array([100, 95]))
    {1: 92}

    Args:
        caller: The service that made each call.
        called: The service that was called.
        low_ns: The least that may be added to the times of the called one relative to its caller.
        high_ns: The most, not less than that.
    """
    if not len(caller):
        return {}
    # both directions of calls limit the same difference
    turned = caller > called
    first, second = np.where(turned, called, caller), np.where(turned, caller, called)
    low, high = np.where(turned, -high_ns, low_ns), np.where(turned, -low_ns, high_ns)
    order = np.lexsort((second, first))
    first, second, low, high = first[order], second[order], low[order], high[order]
    differs = np.append(True, (first[1:] != first[:-1]) | (second[1:] != second[:-1]))
    edges = np.append(np.flatnonzero(differs), len(first)).tolist()
    pairs = [
        (
            end - begin,
            int(first[begin]),
            int(second[begin]),
            _shift(low[begin:end], high[begin:end]),
        )
        for begin, end in pairwise(edges)
    ]
    found: dict[int, int] = {}
    neighbours = _tree(pairs)
    size = 1 + max(neighbours, default=0)
    made, received = (np.bincount(each, minlength=size) for each in (caller, called))
    for root in sorted(neighbours, key=lambda each: (received[each], -made[each], each)):
        if root in found:
            continue
        found[root] = 0
        open_ = deque([root])
        while open_:
            service = open_.popleft()
            for other, shift in neighbours[service]:
                if other not in found:
                    found[other] = found[service] + shift
                    open_.append(other)
    return {service: shift for service, shift in sorted(found.items()) if shift}


def _tree(pairs: list[tuple[int, int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Return for each service the others that it is shifted with, of the pairs with most calls."""
    group: dict[int, int] = {}
    neighbours: dict[int, list[tuple[int, int]]] = {}

    def top(service: int) -> int:
        group.setdefault(service, service)
        while group[service] != service:
            group[service] = group[group[service]]
            service = group[service]
        return service

    for _, one, other, shift in sorted(pairs, key=lambda pair: (-pair[0], pair[1:3])):
        above, below = top(one), top(other)
        if above != below:
            group[below] = above
            neighbours.setdefault(one, []).append((other, shift))
            neighbours.setdefault(other, []).append((one, -shift))
    return neighbours


def _shift(low: Int64s, high: Int64s) -> int:
    """Return what is to be added to the second service's times, by the limits of each call."""
    least, most = int(low.max()), int(high.min())
    if least <= most:
        return 0 if least <= 0 <= most else (least + most) // 2
    # no one shift fits all: clocks drift, or a few calls were not waited for
    if 2 * int(((low <= 0) & (high >= 0)).sum()) >= len(low):
        return 0
    middle = np.sort(low // 2 + high // 2)
    return int(middle[len(middle) // 2])
