"""Checks of numbers from files, before other kernels rely on them without bounds checks."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

cdef extern from "rows.h":
    uint64_t load_row(const uint8_t*, int64_t, int, uint64_t) noexcept nogil


cdef struct Limit:
    uint64_t row_mask
    uint64_t payload_mask
    uint64_t code_mask
    uint64_t most_tag
    int width
    int code_bits
    int shift


cdef inline bint right(
    const Limit* limit, const uint8_t* rows, const uint64_t* payload, Py_ssize_t count,
    uint64_t most_code, uint64_t lasts_ns, bint wide, bint tagged, bint long_times,
) noexcept nogil:
    """Whether all rows of a run can be right; the hot path, so faults are only accumulated.

    `wide`, `tagged` and `long_times` are constants in each call, so the compiler makes a loop for
    each combination. Codes, tags and times below 2^63 are compared by a difference, which is
    negative if one is too large or a time is earlier than the one before it.
    """
    cdef Py_ssize_t row
    cdef uint64_t packed, field, time, before = 0, bad = 0
    cdef uint64_t row_mask = limit.row_mask, payload_mask = limit.payload_mask
    cdef uint64_t code_mask = limit.code_mask, most_tag = limit.most_tag
    cdef int width = limit.width, code_bits = limit.code_bits, shift = limit.shift
    for row in range(count):
        packed = load_row(rows, 0, 0, row_mask)
        rows += width
        time = packed >> shift
        if wide:
            field = payload[row]
            bad |= <uint64_t>(field > payload_mask) << 63
        else:
            field = packed
        bad |= most_code - (field & code_mask)
        if tagged:
            bad |= most_tag - ((field & payload_mask) >> code_bits)
        if long_times:
            bad |= <uint64_t>(time < before) << 63
        else:
            bad |= time - before
        before = time
    # Times do not descend, so only the last one can be beyond the end of the segment.
    return not bad >> 63 and before <= lasts_ns


def segment_rows(
    uint64_t lasts_ns,
    int width,
    int code_bits,
    int payload_bits,
    const uint32_t[::1] offsets,
    const uint8_t[::1] rows,
    const uint64_t[::1] payload,
    const uint64_t[::1] most_code,
    uint64_t most_tag,
):
    """Return the first run whose rows cannot be right, or -1.

    The times of a run do not descend and are at most `lasts_ns` after the segment's base; codes are
    at most `most_code` of the run, tags plus one at most `most_tag`. `rows` has 8 bytes more than
    the rows; `payload` is empty where payloads are in the rows. The index was checked before.
    """
    cdef Py_ssize_t run, first, count, runs = most_code.shape[0], bad = -1
    cdef bint wide = payload.shape[0] > 0, tagged = payload_bits > code_bits, good
    cdef bint long_times = wide or 8 * width - payload_bits > 63
    cdef Limit limit
    limit.row_mask = (~<uint64_t>0) >> (64 - 8 * width)
    limit.payload_mask = ((<uint64_t>1) << payload_bits) - 1
    limit.code_mask = ((<uint64_t>1) << code_bits) - 1
    limit.most_tag = most_tag
    limit.width = width
    limit.code_bits = code_bits
    limit.shift = 0 if wide else payload_bits
    with nogil:
        for run in range(runs):
            first = offsets[run]
            count = offsets[run + 1] - first
            # The combinations that occur; a check that is not needed is harmless, so four suffice.
            if wide:
                good = right(
                    &limit, &rows[first * width], &payload[first], count, most_code[run], lasts_ns,
                    True, True, True,
                )
            elif long_times:
                good = right(
                    &limit, &rows[first * width], NULL, count, most_code[run], lasts_ns,
                    False, True, True,
                )
            elif tagged:
                good = right(
                    &limit, &rows[first * width], NULL, count, most_code[run], lasts_ns,
                    False, True, False,
                )
            else:
                good = right(
                    &limit, &rows[first * width], NULL, count, most_code[run], lasts_ns,
                    False, False, False,
                )
            if not good:
                bad = run
                break
    return bad


def sums_descend(
    const uint32_t[::1] value_offset, const uint32_t[::1] time_offset, times, uint64_t most
):
    """Return whether a sum of a pyramid is less than that of its value one block before, or beyond
    `most`. The offsets were checked before; `times` is uint32 or uint64.
    """
    cdef Py_ssize_t run, i, values, first, last, runs = value_offset.shape[0] - 1
    cdef const uint32_t[::1] times32
    cdef const uint64_t[::1] times64
    cdef const uint32_t* short_times = NULL
    cdef const uint64_t* long_times = NULL
    cdef uint64_t time, highest = 0
    # Faults are only accumulated, as in `right`.
    cdef bint bad = False
    if not len(times):
        return False
    if times.dtype == np.uint32:
        times32 = times
        short_times = &times32[0]
    else:
        times64 = times
        long_times = &times64[0]
    with nogil:
        for run in range(runs):
            values = value_offset[run + 1] - value_offset[run]
            first, last = time_offset[run], time_offset[run + 1]
            for i in range(first, last):
                time = short_times[i] if short_times != NULL else long_times[i]
                highest = max(highest, time)
                if i >= first + values:
                    bad |= time < (
                        short_times[i - values] if short_times != NULL else long_times[i - values]
                    )
    return bad or highest > most


def nested(
    const int64_t[::1] offsets,
    const int64_t[::1] start_ns,
    const int64_t[::1] end_ns,
    const int32_t[::1] depth,
    const int32_t[::1] lane,
    const int32_t[::1] parent,
):
    """Return the first row of a table of spans that cannot be right, or -1.

    Rows of a thread are in order of their start and end no earlier; a span lies in its parent,
    which comes before it and is one level up. The open spans of a lane are inside each other, so
    that those of one lane and depth never overlap. Offsets were checked before.
    """
    cdef Py_ssize_t thread, row, first, last, threads = offsets.shape[0] - 1, longest = 0
    cdef int32_t up, top, above
    cdef int64_t bad = -1
    for thread in range(threads):
        longest = max(longest, offsets[thread + 1] - offsets[thread])
    # By lane, the latest begun span that is still open, or -1. Every lane has a span, so there are
    # at most as many as the thread has spans, which bounds this array and is checked below.
    cdef int32_t[::1] tops = np.empty(longest + 1, np.int32)
    with nogil:
        for thread in range(threads):
            first, last = offsets[thread], offsets[thread + 1]
            for row in range(last - first):
                tops[row] = -1
            for row in range(first, last):
                up = parent[row]
                if (
                    start_ns[row] > end_ns[row]
                    or (row > first and start_ns[row] < start_ns[row - 1])
                    or lane[row] < 0 or lane[row] >= last - first
                    or up < -1 or up >= row or 0 <= up < first
                    or depth[row] != (depth[up] + 1 if up >= 0 else 0)
                    or (up >= 0 and (start_ns[row] < start_ns[up] or end_ns[row] > end_ns[up]))
                ):
                    bad = row
                    break
                top = tops[lane[row]]
                while top >= 0 and top != up and end_ns[top] <= start_ns[row]:
                    above = parent[top]
                    top = above if above >= 0 and lane[above] == lane[row] else -1
                if top != (up if up >= 0 and lane[up] == lane[row] else -1):
                    bad = row
                    break
                tops[lane[row]] = <int32_t>row
            if bad >= 0:
                break
    return bad
