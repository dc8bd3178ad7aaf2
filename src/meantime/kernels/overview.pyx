"""The states of segments in bins of 2^k ns, put together by value: as long in each bin, but fewer."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort

from meantime.kernels.search cimport Segment, Segments, load_row, row_payload, row_time

cdef extern from "rows.h":
    void store_row(uint8_t*, int64_t, int, uint64_t) noexcept nogil

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    """
    int lowest_bit(uint64_t) noexcept nogil

cdef enum:
    STR = 1
    # Codes of so many bits are marked in one word, others listed; so many are sorted by insertion.
    _FEW_BITS = 6
    _SHORT = 32


cdef struct Lane:
    # What an attribute's rows since `begin`, in the bin that ends at `stop`, add up to: by code the
    # time up to `at`, the codes that have some (as bits, or listed), and the code since then. `last`
    # is the code of the last row that was written, -1 before the first.
    int64_t begin
    int64_t stop
    int64_t at
    int64_t code
    int64_t last
    uint64_t* ns
    uint64_t few
    uint32_t* used
    Py_ssize_t count
    # Where rows go.
    uint8_t* rows
    Py_ssize_t written
    uint64_t base
    int width
    int code_bits


cdef inline int64_t end_of_bin(int64_t time, int shift) noexcept nogil:
    cdef int64_t end = <int64_t>(<uint64_t>((time >> shift) + 1) << shift)
    return end if end > time else INT64_MAX


cdef inline void write(Lane* lane, int64_t time, int64_t code) noexcept nogil:
    cdef uint64_t row = (<uint64_t>time - lane.base) << lane.code_bits | <uint64_t>code
    store_row(lane.rows, lane.written, lane.width, row)
    lane.written += 1
    lane.last = code


cdef inline void add(Lane* lane, int64_t until, bint few) noexcept nogil:
    if few:
        lane.few |= <uint64_t>1 << lane.code
    elif lane.ns[lane.code] == 0:
        lane.used[lane.count] = <uint32_t>lane.code
        lane.count += 1
    lane.ns[lane.code] += <uint64_t>until - <uint64_t>lane.at


cdef int compare_codes(const void* one, const void* other) noexcept nogil:
    cdef uint32_t a = (<const uint32_t*>one)[0], b = (<const uint32_t*>other)[0]
    return (a > b) - (a < b)


cdef inline void sort_codes(uint32_t* codes, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef uint32_t code
    if count > _SHORT:
        qsort(codes, count, sizeof(uint32_t), compare_codes)
        return
    for i in range(1, count):
        code = codes[i]
        j = i
        while j > 0 and codes[j - 1] > code:
            codes[j] = codes[j - 1]
            j -= 1
        codes[j] = code


cdef void end_bin(Lane* lane) noexcept nogil:
    """Write what was added: each code once, in an order that follows from the sums.

    The first is that before, which needs no row, and the last is the current one, so that the state
    where the bin ends is the true one. There are at most as many rows as there were.
    """
    cdef int64_t time = lane.begin, before = lane.last
    cdef uint32_t code
    cdef Py_ssize_t i
    while lane.few:
        lane.used[lane.count] = <uint32_t>lowest_bit(lane.few)
        lane.few &= lane.few - 1
        lane.count += 1
    if lane.code_bits > _FEW_BITS:
        sort_codes(lane.used, lane.count)
    if before >= 0 and before != lane.code:
        time += lane.ns[before]
    for i in range(lane.count):
        code = lane.used[i]
        if code != lane.code and code != before and lane.ns[code]:
            write(lane, time, code)
            time += lane.ns[code]
        lane.ns[code] = 0
    if lane.last != lane.code:
        write(lane, time, lane.code)
    lane.count = 0


cdef inline void walk(
    Lane* lane, const Segment* s, Py_ssize_t first, Py_ssize_t last, int shift, bint few
) noexcept nogil:
    """Add rows after the first of an attribute.

    `few` is a constant in each call, so the compiler makes a loop for either. Fields of `lane` are
    locals, as the compiler must expect that sums overwrite them.
    """
    cdef Py_ssize_t row
    cdef uint64_t packed, base = <uint64_t>s.base_ns, row_mask = s.row_mask
    cdef uint64_t code_mask = s.code_mask, used = lane.few
    cdef int width = s.width, payload_bits = s.payload_bits
    cdef const uint8_t* rows = s.rows + first * width
    cdef const uint64_t* payload = s.payload
    cdef int64_t time, at = lane.at, stop = lane.stop, code = lane.code
    cdef uint64_t* ns = lane.ns
    for row in range(first, last):
        packed = load_row(rows, 0, 0, row_mask)
        rows += width
        time = <int64_t>(base + (packed >> payload_bits))
        if time >= stop:
            lane.at, lane.code, lane.few = at, code, used
            add(lane, stop, few)
            end_bin(lane)
            # no row is needed in the bins between
            lane.begin = at = (time >> shift) << shift
            lane.stop = stop = end_of_bin(time, shift)
            used = 0
        if few:
            # without a branch: a code without time is skipped later
            used |= <uint64_t>1 << code
            ns[code] += <uint64_t>time - <uint64_t>at
        elif time > at:
            lane.at, lane.code = at, code
            add(lane, time, few)
        at = time
        code = (packed if payload == NULL else payload[row]) & code_mask
    lane.at, lane.code, lane.few = at, code, used


cdef void add_run(
    Lane* lane, const Segment* s, Py_ssize_t run, int shift, bint started
) noexcept nogil:
    """Add the rows of an attribute in a segment; `started` if it had some in an earlier one."""
    cdef Py_ssize_t first = s.offsets[run], last = s.offsets[run + 1]
    if not started:
        lane.begin = lane.at = row_time(s, first)
        lane.stop = end_of_bin(lane.at, shift)
        lane.code = row_payload(s, first) & s.code_mask
        first += 1
    if lane.code_bits <= _FEW_BITS:
        walk(lane, s, first, last, shift, True)
    else:
        walk(lane, s, first, last, shift, False)


def coarsen(
    Segments segments, const uint8_t[::1] kinds, int shift, int64_t base_ns, int width,
    int code_bits, int32_t[::1] quarks, uint32_t[::1] offsets, uint8_t[::1] rows
) -> tuple[int, int]:
    """Write the rows of attributes without numbers, in which each bin has each of its values once.

    In a bin of 2^shift ns, at a multiple of its width, the values of an attribute last as long as
    in the segments, and at its ends they are the same. A row has its time since `base_ns` above the
    code of its value, which is that of a string plus one, or 0.

    Args:
        segments: Segments that follow each other.
        kinds: By quark, the type of its values; those with numbers are left out.
        shift: At most 62.
        base_ns: When the first segment begins.
        width: The bytes of a row that is written.
        code_bits: The bits of a code, as many as any segment has, at most 32.
        quarks: Receives the attributes, with room for all runs of the segments.
        offsets: Receives where the rows of each begin and end; one longer.
        rows: Receives the rows, with room for all those of the segments.

    Returns:
        How many attributes there are, and how many rows.
    """
    cdef Py_ssize_t i, run, runs = 0, count = segments._count
    cdef Py_ssize_t* next_run = <Py_ssize_t*>calloc(count + 1, sizeof(Py_ssize_t))
    cdef const Segment* s
    cdef int32_t quark
    cdef bint started
    cdef Lane lane
    lane.ns = <uint64_t*>calloc(<size_t>1 << code_bits, sizeof(uint64_t))
    lane.used = <uint32_t*>malloc(sizeof(uint32_t) << code_bits)
    lane.rows = &rows[0]
    lane.written = lane.count = 0
    lane.few = 0
    lane.base = <uint64_t>base_ns
    lane.width, lane.code_bits = width, code_bits
    if next_run == NULL or lane.ns == NULL or lane.used == NULL:
        free(next_run)
        free(lane.ns)
        free(lane.used)
        raise MemoryError
    offsets[0] = 0
    with nogil:
        while True:
            quark = -1
            for i in range(count):
                s = &segments._segments[i]
                if next_run[i] < s.runs and (quark < 0 or s.quarks[next_run[i]] < quark):
                    quark = s.quarks[next_run[i]]
            if quark < 0:
                break
            started = False
            lane.last = -1
            for i in range(count):
                s = &segments._segments[i]
                run = next_run[i]
                if run >= s.runs or s.quarks[run] != quark:
                    continue
                next_run[i] += 1
                if kinds[quark] <= STR and s.offsets[run] < s.offsets[run + 1]:
                    add_run(&lane, s, run, shift, started)
                    started = True
            if started:
                end_bin(&lane)
                quarks[runs] = quark
                runs += 1
                offsets[runs] = <uint32_t>lane.written
    free(next_run)
    free(lane.ns)
    free(lane.used)
    return runs, lane.written
