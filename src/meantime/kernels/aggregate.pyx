"""The parts of a range."""

from libc.stdint cimport int64_t, uint64_t

import numpy as np

cdef extern from *:
    """
    typedef __int128 int128;
    static inline int64_t bin_edge(int64_t start, uint64_t length, int64_t bins, int64_t index) {
        unsigned __int128 scaled = (unsigned __int128)length * (uint64_t)index;
        uint64_t edge = (uint64_t)((scaled + (uint64_t)bins - 1) / (uint64_t)bins);
        return (int64_t)((uint64_t)start + edge);
    }
    """
    int64_t bin_edge(int64_t, uint64_t, int64_t, int64_t) noexcept nogil


def bin_edges(int64_t start_ns, int64_t end_ns, int64_t bins):
    """Return the bins + 1 edges of the parts of a range, as `units.bin_edge` defines them."""
    cdef int64_t i
    edges_array = np.empty(bins + 1, np.int64)
    cdef int64_t[::1] edges = edges_array
    cdef uint64_t length = <uint64_t>end_ns - <uint64_t>start_ns
    with nogil:
        for i in range(bins + 1):
            edges[i] = bin_edge(start_ns, length, bins, i)
    return edges_array
