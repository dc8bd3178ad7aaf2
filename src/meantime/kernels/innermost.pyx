"""The latest begun open span of a thread at every moment."""

from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef enum:
    # after the last span of a thread; times are less than 2**62
    NEVER = 0x7FFFFFFFFFFFFFFF


def innermost_segments(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int64_t[::1] offsets
):
    """Return where each span is the latest begun open one of its thread: span, start and end.

    The segments of a thread are in order of time, and cover every moment in which a span is open
    once. Their lengths sum to `nest.innermost_time`.

    Args:
        start_ns: The start of each span, by thread, ascending in each.
        end_ns: Its end.
        offsets: Where the spans of each thread begin, and those of the last one end.
    """
    cdef int64_t n = start_ns.shape[0], t, i, now, until, count = 0
    cdef int32_t top
    if end_ns.shape[0] != n or n >= 2**31 - 1:
        raise ValueError("an end for each start")
    for t in range(offsets.shape[0]):
        if not (offsets[t - 1] if t else 0) <= offsets[t] <= n:
            raise ValueError("offsets that are not ascending")
    # each span closes a segment where it begins, and one where it ends
    span_array = np.empty(2 * n, np.int32)
    from_array = np.empty(2 * n, np.int64)
    to_array = np.empty(2 * n, np.int64)
    cdef int32_t[::1] span = span_array, below = np.empty(n, np.int32)
    cdef int64_t[::1] from_ns = from_array, to_ns = to_array
    with nogil:
        for t in range(offsets.shape[0] - 1):
            top = -1
            now = -NEVER
            for i in range(offsets[t], offsets[t + 1] + 1):
                until = start_ns[i] if i < offsets[t + 1] else NEVER
                while top >= 0:
                    if end_ns[top] > until:
                        if until > now:
                            span[count] = top
                            from_ns[count] = now
                            to_ns[count] = until
                            count += 1
                        break
                    if end_ns[top] > now:
                        span[count] = top
                        from_ns[count] = now
                        to_ns[count] = end_ns[top]
                        count += 1
                        now = end_ns[top]
                    top = below[top]
                now = until
                if i < offsets[t + 1]:
                    below[i] = top
                    top = <int32_t>i
    return span_array[:count], from_array[:count], to_array[:count]
