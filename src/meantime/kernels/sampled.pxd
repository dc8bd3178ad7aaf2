"""Which intervals a resolution asks for."""

from libc.stdint cimport int64_t, uint64_t


cdef inline bint sampled(
    int64_t start, int64_t end, int64_t start_ns, int64_t end_ns, int64_t resolution_ns
) noexcept nogil:
    """Whether an interval contains the last instant of a range or a multiple of a step into it."""
    cdef uint64_t into, step = <uint64_t>resolution_ns
    if end >= end_ns or start <= start_ns:
        return True
    into = <uint64_t>start - <uint64_t>start_ns
    into = (step - into % step) % step
    return into < <uint64_t>end - <uint64_t>start


cdef inline int64_t next_sampled(
    int64_t time, int64_t start_ns, int64_t end_ns, int64_t resolution_ns
) noexcept nogil:
    """The first of these instants that is not before a time in the range."""
    cdef uint64_t step = <uint64_t>resolution_ns
    cdef uint64_t ahead = (<uint64_t>time - <uint64_t>start_ns) % step
    ahead = (step - ahead) % step
    return <int64_t>(<uint64_t>time + min(ahead, <uint64_t>end_ns - 1 - <uint64_t>time))
