"""Time per value and part of a range, exact."""

from libc.stdint cimport int32_t, int64_t, uint64_t

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


cdef inline Py_ssize_t bin_of(const int64_t[::1] edges, int64_t time, Py_ssize_t low) noexcept nogil:
    """The bin that holds a time, which is not before bin `low`; empty bins hold none."""
    cdef Py_ssize_t step = 1, length, half, bins = edges.shape[0] - 1
    if time < edges[low + 1]:
        return low
    while low + step < bins and edges[low + step] <= time:
        low += step
        step *= 2
    length = bins - low if low + step > bins else step
    # The last edge at or before the time is in [low, low + length).
    while length > 1:
        half = length >> 1
        if edges[low + half] <= time:
            low += half
            length -= half
        else:
            length = half
    return low


def shares(
    const int32_t[::1] quark,
    const int64_t[::1] start,
    const int64_t[::1] end,
    const int32_t[::1] code,
    const int64_t[::1] edges,
    const int64_t[::1] birth,
    int64_t[::1] scratch_ns,
    int32_t[::1] scratch_code,
    int32_t[::1] out_quark,
    int32_t[::1] out_bin,
    int32_t[::1] out_code,
    int64_t[::1] out_ns,
    int32_t[::1] cell_quark,
    int32_t[::1] cell_bin,
    int64_t[::1] cell_changes,
):
    """Sum the time per value within each bin, quark by quark.

    The intervals are quark-major, in order of time, without holes. `scratch_ns` holds a zero per
    value plus one for null (code -1); `scratch_code` is as long. An interval that is null and begins
    at `birth[0]` is what was before all changes: its start is no change.

    Returns:
        How many (quark, bin, value) rows and how many (quark, bin) cells with changes were written:
        at most one row per interval and one per edge and quark; at most one cell per interval.
    """
    cdef Py_ssize_t i, j, n = 0, cells = 0, touched = 0, b = 0, bins = edges.shape[0] - 1
    cdef int64_t from_ns, to_ns, stop, changes = 0, first = edges[0], final = edges[bins]
    cdef int32_t q = -1, c
    with nogil:
        for i in range(quark.shape[0]):
            if quark[i] != q:
                q = quark[i]
                b = 0
            from_ns = start[i] if start[i] > first else first
            to_ns = end[i] if end[i] < final else final
            c = code[i] + 1
            b = bin_of(edges, from_ns, b)
            if start[i] >= first and not (c == 0 and start[i] == birth[0]):
                changes += 1
            while True:
                stop = to_ns if to_ns < edges[b + 1] else edges[b + 1]
                if scratch_ns[c] == 0:
                    scratch_code[touched] = c
                    touched += 1
                scratch_ns[c] += stop - from_ns
                from_ns = stop
                # A bin is done where it ends, or where the quark does.
                if stop == edges[b + 1] or i + 1 == quark.shape[0] or quark[i + 1] != q:
                    if from_ns == to_ns or stop == edges[b + 1]:
                        for j in range(touched):
                            out_quark[n] = q
                            out_bin[n] = <int32_t>b
                            out_code[n] = scratch_code[j] - 1
                            out_ns[n] = scratch_ns[scratch_code[j]]
                            scratch_ns[scratch_code[j]] = 0
                            n += 1
                        touched = 0
                        if changes:
                            cell_quark[cells] = q
                            cell_bin[cells] = <int32_t>b
                            cell_changes[cells] = changes
                            cells += 1
                            changes = 0
                if from_ns >= to_ns:
                    break
                b = bin_of(edges, from_ns, b)
    return n, cells
