"""The cells of an attribute from its rows; see `shares_rows.pyx`."""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from meantime.kernels.search cimport Segment, Segments
from meantime.kernels.shares_state cimport Plan, Sums, Used, Work


cdef void sums_at(
    const Segment* s, const uint8_t* index_of, Py_ssize_t run, Py_ssize_t entry, uint64_t relative,
    const Plan* plan, Sums* sums,
) noexcept nogil
cdef void by_rows(
    Work* w, Segments segments, int32_t quark, Py_ssize_t first, Py_ssize_t last, Used used
) noexcept nogil
