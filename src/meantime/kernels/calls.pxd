"""What other kernels need of `calls.pyx`."""

from libc.stdint cimport int64_t, uint64_t

cdef int64_t select(
    int64_t* values, int64_t low, int64_t high, int64_t rank, uint64_t* seed
) noexcept nogil
