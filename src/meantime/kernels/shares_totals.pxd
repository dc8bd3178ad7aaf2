"""What is kept of attributes between queries; see `shares_totals.pyx`."""

from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t

from meantime.kernels.search cimport Segments
from meantime.kernels.shares_state cimport LaneTotals, Work


@final
cdef class Totals:
    cdef Segments _segments
    cdef LaneTotals** _of
    cdef uint8_t[::1] _known
    cdef Py_ssize_t _quarks
    cdef readonly Py_ssize_t first, last, size_bytes

    cdef bint write_cells(self, Work* w, Segments segments, int32_t quark) noexcept nogil
    cdef const LaneTotals* _totals_of(self, int32_t quark) noexcept nogil
    cdef _add_overviews(self, const int32_t[::1] quarks, const Work* asked)
    cdef _add_overviews_at(
        self, const int32_t[::1] quarks, int shift, bint wide, int64_t begin, int64_t end
    )
    cdef bint _add_overview(
        self, Work* w, LaneTotals* totals, int32_t quark, int shift, bint wide, int64_t low
    ) noexcept nogil
    cdef _add_totals(self, const int32_t[::1] quarks, const uint8_t[::1] kinds)
    cdef bint _add_total(
        self, Segments segments, int32_t quark, bint floats, uint8_t* index_of, int64_t* ns
    ) noexcept nogil
