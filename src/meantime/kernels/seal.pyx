"""Sealing: changes in any order across quarks become the quark-major rows of a segment.

And checks of numbers from files, before other kernels rely on them without bounds checks.
"""

from libc.math cimport floor
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort

import numpy as np

cdef extern from "rows.h":
    uint64_t load_row(const uint8_t*, int64_t, int, uint64_t) noexcept nogil
    void store_row(uint8_t*, int64_t, int, uint64_t) noexcept nogil
    double bits_double(int64_t) noexcept nogil
    void prefetch(const void*) noexcept nogil

# What is there by quark is read in random order: with many quarks, fetched so many rows before.
cdef enum:
    AHEAD = 16
    FEW_QUARKS = 1 << 14  # what there is of them is in the cache

CODE = 0
INT_INLINE = 1
FLOAT_INLINE = 2
STORED = 3


# What is sorted has its time beside it, so comparing does not read the columns at random rows. The
# row breaks ties: `qsort` is not stable, and changes of one time must stay in order of arrival.
cdef struct Placed:
    int64_t time
    int32_t row


cdef int earlier(const void* one, const void* other) noexcept nogil:
    cdef const Placed* a = <const Placed*>one
    cdef const Placed* b = <const Placed*>other
    if a.time != b.time:
        return -1 if a.time < b.time else 1
    return -1 if a.row < b.row else 1


cdef int put_in_order(
    const int64_t* time, int32_t* rows, Py_ssize_t length
) except -1 nogil:
    cdef Py_ssize_t i = 1
    cdef Placed* placed
    # Late changes are few: most attributes have none, and need neither memory nor sorting.
    while i < length and time[rows[i - 1]] <= time[rows[i]]:
        i += 1
    if i >= length:
        return 0
    placed = <Placed*>malloc(length * sizeof(Placed))
    if placed == NULL:
        raise MemoryError
    for i in range(length):
        placed[i].time, placed[i].row = time[rows[i]], rows[i]
    qsort(placed, length, sizeof(Placed), earlier)
    for i in range(length):
        rows[i] = placed[i].row
    free(placed)
    return 0


def by_quark(
    const int64_t[::1] time, const int32_t[::1] quark, int32_t[::1] ends, int32_t[::1] order
):
    """Write the rows quark by quark, those of one in order of time, then of arrival, to `order`.

    `ends` is all zeros and has one item more than there are quarks; it receives the end of each
    quark's rows in `order`.
    """
    cdef Py_ssize_t i, q, n = quark.shape[0], quarks = ends.shape[0] - 1
    cdef int32_t first
    # A counting sort: quarks are dense, so it takes linear time. `_check_changes` or `put` has
    # compared each quark with their number, so counts are not out of bounds.
    with nogil:
        for i in range(n):
            ends[quark[i] + 1] += 1
        for q in range(quarks):
            ends[q + 1] += ends[q]
        for i in range(n):
            order[ends[quark[i]]] = <int32_t>i
            ends[quark[i]] += 1
        first = 0
        for q in range(quarks):
            if ends[q] - first > 1:
                put_in_order(&time[0], &order[first], ends[q] - first)
            first = ends[q]


def measure(
    const int32_t[::1] quark, const int64_t[::1] word, const uint32_t[::1] meta,
    const uint8_t[::1] kind, int32_t[::1] counts
) -> tuple[int, int, bool]:
    """Count the changes per quark into `counts`, which is all zeros.

    Returns:
        The highest string code (-1: none), the highest tag plus one, whether a quark has numbers.
    """
    cdef Py_ssize_t i
    cdef int64_t code = -1
    cdef uint32_t tags = 0
    cdef bint numeric = False, many = counts.shape[0] > FEW_QUARKS
    with nogil:
        for i in range(quark.shape[0]):
            if many and i + AHEAD < quark.shape[0]:
                prefetch(&counts[quark[i + AHEAD]])
                prefetch(&kind[quark[i + AHEAD]])
            counts[quark[i]] += 1
            if meta[i] > tags:
                tags = meta[i]
            if kind[quark[i]] > 1:
                numeric = True
            elif not meta[i] & 1 and word[i] > code:
                code = word[i]
    return code, tags >> 1, numeric


def measure_numbers(
    const int32_t[::1] quark,
    const int64_t[::1] word,
    const uint32_t[::1] meta,
    const uint8_t[::1] kind,
    const int32_t[::1] quarks,
    int64_t[::1] low,
    int64_t[::1] high,
    uint8_t[::1] fractional,
):
    """Find the range of the numbers of each quark; a quark with a float that no int32 equals is
    marked `fractional` instead. Only the items of `quarks`, all that are in `quark`, are written;
    a quark without numbers has a `low` of INT64_MAX and a `high` of INT64_MIN."""
    cdef Py_ssize_t i
    cdef int32_t q
    cdef int64_t value
    cdef double x
    cdef bint many = low.shape[0] > FEW_QUARKS
    with nogil:
        for i in range(quarks.shape[0]):
            low[quarks[i]] = INT64_MAX
            high[quarks[i]] = INT64_MIN
            fractional[quarks[i]] = 0
        for i in range(quark.shape[0]):
            q = quark[i]
            if many and i + AHEAD < quark.shape[0]:
                prefetch(&kind[quark[i + AHEAD]])
                prefetch(&low[quark[i + AHEAD]])
                prefetch(&high[quark[i + AHEAD]])
            if kind[q] < 2 or meta[i] & 1:
                continue
            value = word[i]
            if kind[q] == 3:
                x = bits_double(value)
                # Only -0.0 has the bits of INT64_MIN; as an integer it would lose its sign.
                if value == INT64_MIN or not -2147483648.0 <= x <= 2147483647.0 or x != floor(x):
                    fractional[q] = 1
                    continue
                value = <int64_t>x
            if value < low[q]:
                low[q] = value
            if value > high[q]:
                high[q] = value


def widen(
    const int32_t[::1] quarks,
    const uint8_t[::1] kind,
    const int64_t[::1] low,
    const int64_t[::1] high,
    int64_t[::1] least,
    int64_t[::1] greatest,
):
    """Widen the extremes of those of these quarks that have integers by `low` and `high`; all but
    `quarks` are by quark."""
    cdef Py_ssize_t i
    cdef int32_t q
    with nogil:
        for i in range(quarks.shape[0]):
            q = quarks[i]
            if kind[q] == 2:
                least[q] = min(least[q], low[q])
                greatest[q] = max(greatest[q], high[q])


def choose_forms(
    const int32_t[::1] quarks, const uint32_t[::1] offsets, const uint8_t[::1] kind,
    const int64_t[::1] low, const int64_t[::1] high, const uint8_t[::1] fractional,
    uint64_t most_span, uint8_t[::1] form, int64_t[::1] origin
) -> tuple[int, bool, int, int, int]:
    """Choose by quark how the numbers of each run are stored: in rows up to a span, or apart.

    Returns:
        How many numbers are stored apart, whether any run is, the largest span of those in rows
        (-1: none are), and their least and greatest number.
    """
    cdef Py_ssize_t i
    cdef int32_t q
    cdef int64_t apart = 0, least = INT64_MAX, greatest = INT64_MIN
    cdef uint64_t span, largest = 0
    cdef bint some = False, any_apart = False
    with nogil:
        for i in range(quarks.shape[0]):
            q = quarks[i]
            if kind[q] < 2:
                form[q] = 0
                origin[q] = 0
                continue
            # The span of 64-bit integers needs 64 bits without a sign.
            span = <uint64_t>high[q] - <uint64_t>low[q] if low[q] <= high[q] else 0
            if fractional[q] or span > most_span:
                # What to add to a row to get its index among the stored numbers; see `fill`.
                form[q] = 3
                origin[q] = apart - offsets[i]
                apart += offsets[i + 1] - offsets[i]
                any_apart = True
                continue
            form[q] = kind[q] - 1
            origin[q] = low[q] if low[q] <= high[q] else 0
            some = True
            largest = max(largest, span)
            least = min(least, low[q])
            greatest = max(greatest, high[q])
    return apart, any_apart, (largest if some else -1), least, greatest


def set_origin(
    const int32_t[::1] quarks, const uint8_t[::1] form, int64_t common, int64_t[::1] origin
):
    """Give all runs whose numbers are in rows the same origin."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(quarks.shape[0]):
            if form[quarks[i]] == 1 or form[quarks[i]] == 2:
                origin[quarks[i]] = common


def fill(
    const int64_t[::1] time, const int32_t[::1] quark, const int64_t[::1] word,
    const uint32_t[::1] meta, int32_t[::1] position, int64_t base_ns, int code_bits,
    int payload_bits, int width, uint8_t[::1] rows,
    uint64_t[::1] payload: npt.NDArray[np.uint64] | None,
    const uint8_t[::1] form: npt.NDArray[np.uint8] | None, const int64_t[::1] origin: Int64s | None,
    int64_t[::1] numbers: Int64s | None
):
    """Write each change as the next row of its quark's run, which `position` has by quark.

    Without `payload`, payloads go into the rows. `form` has by quark how its values are written
    (None: all are codes). `origin` has by quark the lowest value of an inline run, and for a
    stored run what to add to a row to get its index in `numbers`.

    Rows of a quark are written in the order in which its changes come, so these must be in order of
    time: the sealer sorts the tail before, or merges late changes with `by_quark`.
    """
    cdef Py_ssize_t i, n = time.shape[0]
    cdef int32_t j, q
    cdef uint64_t field
    cdef bint wide = payload is not None
    cdef bint mixed = form is not None, many = position.shape[0] > FEW_QUARKS
    with nogil:
        for i in range(n):
            # First where a row goes, then the row itself.
            if many and i + 2 * AHEAD < n:
                q = quark[i + 2 * AHEAD]
                prefetch(&position[q])
                if mixed:
                    prefetch(&form[q])
                    prefetch(&origin[q])
            if many and i + AHEAD < n:
                prefetch(&rows[position[quark[i + AHEAD]] * width])
            q = quark[i]
            j = position[q]
            position[q] = j + 1
            if mixed and form[q] == 3:
                numbers[j + origin[q]] = word[i]
            # Null is 0, so all other values begin at 1; `set_value` in search.pxd is the inverse.
            if meta[i] & 1:
                field = 0
            elif not mixed or form[q] == 0:
                field = <uint64_t>(word[i] + 1)
            elif form[q] == 1:
                # Unsigned, since the difference of two int64 can overflow one.
                field = <uint64_t>word[i] - <uint64_t>origin[q] + 1
            elif form[q] == 2:
                field = <uint64_t>(<int64_t>bits_double(word[i]) - origin[q] + 1)
            else:
                field = 1
            field |= (<uint64_t>(meta[i] >> 1)) << code_bits
            if wide:
                payload[j] = field
                field = 0
            store_row(
                &rows[0], j, width,
                ((<uint64_t>time[i] - <uint64_t>base_ns) << payload_bits) | field,
            )


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
    uint64_t lasts_ns, int width, int code_bits, int payload_bits, const uint32_t[::1] offsets,
    const uint8_t[::1] rows, const uint64_t[::1] payload, const uint64_t[::1] most_code,
    uint64_t most_tag
) -> int:
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
                    &limit, &rows[first * width], &payload[0] + first, count, most_code[run], lasts_ns,
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
    const uint32_t[::1] value_offset, const uint32_t[::1] time_offset,
    times: npt.NDArray[np.uint32] | npt.NDArray[np.uint64], uint64_t most
) -> bool:
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


ctypedef fused lane_number:
    uint8_t
    uint16_t
    uint32_t
    int32_t


def each_once(const int32_t[::1] numbers) -> bool:
    """Return whether every number from 0 to the count of these, without it, is among them once."""
    cdef Py_ssize_t i, count = numbers.shape[0]
    cdef uint8_t[::1] seen = np.zeros(count, np.uint8)
    cdef bint found = True
    with nogil:
        for i in range(count):
            if numbers[i] < 0 or numbers[i] >= count or seen[numbers[i]]:
                found = False
                break
            seen[numbers[i]] = 1
    return found


def nested(
    const int64_t[::1] offsets, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
    const int32_t[::1] depth,
    const lane_number[::1] lane: npt.NDArray[np.uint8 | np.uint16 | np.uint32 | np.int32],
    const int32_t[::1] parent
) -> int:
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
                    or <int64_t>lane[row] < 0 or <int64_t>lane[row] >= last - first
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
