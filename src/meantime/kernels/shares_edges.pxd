"""The sums at the edges of bins; see `shares_edges.pyx`."""

from libc.stdint cimport int32_t, int64_t

from meantime.kernels.search cimport Segment, Segments, State
from meantime.kernels.shares_state cimport LaneTotals, Overview, Spot, Work


cdef class Bins:
    cdef Work w
    cdef const int64_t[::1] _edges
    cdef readonly object edges  #: Int64s

    cdef set_edges(self, edges)
    cdef void _forget_segments(self) noexcept nogil
    cdef void _align(self) noexcept nogil
    cdef make_index(self, Segments segments, Py_ssize_t first, Py_ssize_t last)
    cdef find_segments(self, Segments segments)


cdef void describe(
    const LaneTotals* totals, const Segment* s, int32_t quark, Py_ssize_t near, Spot* spot
) noexcept nogil
cdef bint open_stops(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first,
    Py_ssize_t low_edge, Py_ssize_t high_edge,
) noexcept nogil
cdef bint by_sums(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil
cdef void begin_sums(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, int32_t* slots,
    State* state,
) noexcept nogil
cdef bint sum_edges(
    Work* w, Segments segments, const LaneTotals* totals, const int32_t* slots,
    const State* state, Py_ssize_t low_edge, Py_ssize_t high_edge, int64_t* counted, int64_t most,
    const Overview* near, Overview* overview,
) noexcept nogil
cdef int64_t changes_before(
    const Work* w, const LaneTotals* totals, Py_ssize_t edge
) noexcept nogil
