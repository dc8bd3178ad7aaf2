"""Rows for what exists for a part of the time, so that nothing in a row overlaps."""

from libc.stdint cimport int32_t, int64_t

import numpy as np


def first_free(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int64_t[::1] offsets
):
    """Return the lane of each range: the first that is free when it starts, as int32.

    Group g has the ranges [offsets[g], offsets[g + 1]), in order of their starts, and lanes of its
    own, from 0. A lane is free from the end of the last range in it.
    """
    cdef int64_t n = start_ns.shape[0], width = 1, group, i, node, first, last, lanes
    found = np.zeros(n, np.int32)
    cdef int32_t[::1] lane = found
    for group in range(offsets.shape[0] - 1):
        while width < offsets[group + 1] - offsets[group]:
            width *= 2
    # Leaf `lanes + i` is when lane i is free, a node above the earliest of its two.
    earliest = np.empty(2 * width, np.int64)
    cdef int64_t[::1] free_at = earliest
    with nogil:
        for group in range(offsets.shape[0] - 1):
            first = offsets[group]
            last = offsets[group + 1]
            lanes = 1
            while lanes < last - first:
                lanes *= 2
            for i in range(1, 2 * lanes):
                free_at[i] = -(<int64_t> 1 << 62) * 2
            for i in range(first, last):
                node = 1
                while node < lanes:
                    node = 2 * node if free_at[2 * node] <= start_ns[i] else 2 * node + 1
                lane[i] = <int32_t> (node - lanes)
                free_at[node] = end_ns[i]
                while node > 1:
                    node >>= 1
                    free_at[node] = min(free_at[2 * node], free_at[2 * node + 1])
    return found
