"""Intervals with a value or a tag, counted and found in the rows of sealed segments."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from meantime.kernels.search cimport (
    Cursor,
    Segment,
    Segments,
    State,
    bits_double,
    double_bits,
    entry_of,
    find_run,
    first_after,
    load_row,
    published_count,
    row_payload,
    row_time,
)

NEVER, SOME, NONE, EQUAL, ANY = range(5)

cdef enum:
    # Which values match: none, any but null, null, one that is equal to a word, or any.
    _NEVER
    _SOME
    _NONE
    _EQUAL
    _ANY
    # The forms of a run whose codes are not words; see `set_value`.
    _INTEGERS = 1
    _DOUBLES = 2
    _STORED = 3

# All integers of 64 bits are from minus this to below it.
cdef double _INTEGERS_END = 9223372036854775808.0


# How the rows of a run are stored whose states match.
cdef struct RowFilter:
    const Segment* s
    bint never
    # whether any code matches but 0, and 0 too
    bint some
    bint any
    # these bits of a payload are these
    uint64_t mask
    uint64_t bits
    # the number of each row, and which one it is; NULL where codes say what a state is
    const int64_t* numbers
    int64_t word


cdef inline bint matches_state(
    const State* state, uint8_t mode, int64_t word, int64_t tag
) noexcept nogil:
    cdef bint null = state.meta & 1
    if mode == _NEVER or (tag >= 0 and <int64_t>(state.meta >> 1) != tag + 1):
        return False
    if mode == _EQUAL:
        return not null and state.word == word
    return mode == _ANY or null == (mode == _NONE)


cdef void compile_filter(
    const Segment* s, Py_ssize_t run, uint8_t mode, int64_t word, int64_t tag, RowFilter* filter
) noexcept nogil:
    """Make the filter of the rows of a run."""
    cdef uint64_t tag_bits
    cdef uint8_t form = 0 if s.form == NULL else s.form[run]
    cdef uint64_t field = 0
    cdef double value
    filter.s = s
    filter.never = mode == _NEVER
    filter.some = mode == _SOME
    filter.any = mode == _ANY
    filter.mask = 0 if filter.some or filter.any else s.code_mask
    filter.bits = 0
    filter.numbers = NULL
    filter.word = word
    if mode == _EQUAL:
        if form == _STORED:
            filter.some = True
            filter.mask = 0
            filter.numbers = s.numbers + s.origin[run]
        else:
            if form == 0:
                field = <uint64_t>word + 1
            elif form == _INTEGERS:
                field = <uint64_t>word - <uint64_t>s.origin[run] + 1
            else:
                value = bits_double(word)
                if not -_INTEGERS_END <= value < _INTEGERS_END:
                    filter.never = True
                    return
                field = <uint64_t><int64_t>value - <uint64_t>s.origin[run] + 1
                if double_bits(<double><int64_t>value) != word:
                    filter.never = True
            # no code stands for null, and none is longer than the mask
            if field == 0 or field > s.code_mask:
                filter.never = True
            filter.bits = field
    if tag >= 0:
        tag_bits = (<uint64_t>tag + 1) << s.code_bits
        if tag_bits >> s.code_bits != <uint64_t>tag + 1:
            filter.never = True
        if s.payload == NULL and tag_bits & ~s.payload_mask:
            filter.never = True
        filter.mask |= ~s.code_mask
        filter.bits |= tag_bits


cdef inline bint matches_row(
    const RowFilter* filter, Py_ssize_t row, uint64_t payload
) noexcept nogil:
    if payload & filter.mask != filter.bits or (filter.some and not payload & filter.s.code_mask):
        return False
    return filter.numbers == NULL or filter.numbers[row] == filter.word


cdef inline bint has_length(const Segment* s, Py_ssize_t row, Py_ssize_t end) noexcept nogil:
    """Whether the next row of a run that ends there does not replace one at the same time."""
    return row + 1 == end or (
        load_row(s.rows, row, s.width, s.row_mask) >> s.payload_bits
        != load_row(s.rows, row + 1, s.width, s.row_mask) >> s.payload_bits
    )


cdef bint pyramid_excludes(const Segment* s, Py_ssize_t run, uint64_t field) noexcept nogil:
    """Whether the pyramid says that no row of a run but the last has this code, and all last."""
    cdef Py_ssize_t i, entry, timed = published_count(&s.timed)
    if not timed:
        return False
    entry = entry_of(s.timed_run, timed, run)
    if entry < 0:
        return False
    for i in range(s.value_offset[entry], s.value_offset[entry + 1]):
        if s.values[i] == field:
            return False
    return True


cdef inline Py_ssize_t first_candidate(
    const RowFilter* filter, Py_ssize_t run, Py_ssize_t low
) noexcept nogil:
    """The first row from `low` on that can match."""
    cdef const Segment* s = filter.s
    if filter.some or filter.any or not pyramid_excludes(s, run, filter.bits & s.code_mask):
        return low
    return max(low, <Py_ssize_t>s.offsets[run + 1] - 1)


cdef int64_t count_rows(
    const RowFilter* filter, Py_ssize_t low, Py_ssize_t high, Py_ssize_t end
) noexcept nogil:
    """How many rows in [low, high) match, of a run that ends there."""
    cdef const Segment* s = filter.s
    cdef Py_ssize_t row
    cdef int64_t found = 0
    cdef uint64_t packed, following
    if low >= high:
        return 0
    if s.payload != NULL or filter.numbers != NULL:
        for row in range(low, high):
            found += matches_row(filter, row, row_payload(s, row)) and has_length(s, row, end)
        return found
    # the same without a branch, as whether a row matches cannot be predicted
    packed = load_row(s.rows, low, s.width, s.row_mask)
    for row in range(low, min(high, end - 1)):
        following = load_row(s.rows, row + 1, s.width, s.row_mask)
        found += (
            <int64_t>((packed & s.payload_mask & filter.mask) == filter.bits)
            & <int64_t>((packed & s.code_mask) >= <uint64_t>filter.some)
            & <int64_t>(packed >> s.payload_bits != following >> s.payload_bits)
        )
        packed = following
    if high == end:
        found += matches_row(filter, end - 1, packed & s.payload_mask)
    return found


def count_matching(Segments segments, question: Question, criteria: IntervalFilter) -> Int64s:
    """Return how many intervals of each quark overlap the range of a question and match.

    The modes and words of the criteria are by type: which values match, and for EQUAL the word. A
    tag below 0 is any.
    """
    cdef const int32_t[::1] quarks = question.quarks
    cdef const uint8_t[::1] kinds = question.kinds, modes = criteria.modes
    cdef const int64_t[::1] words = criteria.words
    cdef int64_t start_ns = question.start_ns, end_ns = question.end_ns, tag = criteria.tag
    found = np.empty(quarks.shape[0], np.int64)
    cdef int64_t[::1] counts = found
    cdef Py_ssize_t i, k, last, run, near, low, high, end
    cdef uint8_t kind
    cdef State state
    cdef Cursor cursor
    cdef RowFilter filter
    cdef const Segment* s
    with nogil:
        last = segments.segment_at(end_ns - 1)
        for i in range(quarks.shape[0]):
            kind = kinds[i]
            counts[i] = 0
            if modes[kind] == _NEVER:
                continue
            segments.locate(quarks[i], start_ns, &state, &cursor)
            counts[i] = matches_state(&state, modes[kind], words[kind], tag)
            k = cursor.segment
            near = run = cursor.run
            low = cursor.row
            if run < 0:
                k += 1
            while k < segments._count and k <= last and k <= segments._last[quarks[i]]:
                s = &segments._segments[k]
                if run < 0:
                    run = find_run(s, quarks[i], max(near, 0))
                    if run >= 0:
                        low = s.offsets[run]
                if run >= 0:
                    near = run
                    high = end = s.offsets[run + 1]
                    if k == last:
                        high = first_after(s, low, high, end_ns - 1)
                    compile_filter(s, run, modes[kind], words[kind], tag, &filter)
                    if not filter.never:
                        low = first_candidate(&filter, run, low)
                        if filter.some and not filter.mask and pyramid_excludes(s, run, 0):
                            # all match: numbers beside rows have no durations
                            counts[i] += max(min(high, end - 1) - low, 0)
                            low = max(low, end - 1)
                        counts[i] += count_rows(&filter, low, high, end)
                run = -1
                k += 1
    return found


cdef Py_ssize_t nearest_row(
    const RowFilter* filter, Py_ssize_t low, Py_ssize_t high, Py_ssize_t end, bint backwards
) noexcept nogil:
    """The first row in [low, high) that matches, or the last; -1 if there is none."""
    cdef Py_ssize_t step, row
    for step in range(high - low):
        row = high - 1 - step if backwards else low + step
        if matches_row(filter, row, row_payload(filter.s, row)) and has_length(filter.s, row, end):
            return row
    return -1


def nearest_matching(
    Segments segments, question: Question, criteria: IntervalFilter, bint backwards
) -> tuple[int, int] | None:
    """Find the first matching interval that begins in the range of a question, or the last.

    The arguments are those of `count_matching`. Of several at one time, it is that of the first
    quark.

    Returns:
        The row of `quarks`, and when it begins; None if there is none.
    """
    cdef const int32_t[::1] quarks = question.quarks
    cdef const uint8_t[::1] kinds = question.kinds, modes = criteria.modes
    cdef const int64_t[::1] words = criteria.words
    cdef int64_t start_ns = question.start_ns, end_ns = question.end_ns, tag = criteria.tag
    cdef Py_ssize_t i, k, run, row, low, high, first, last, near, best = -1
    # what is nearer than the best so far begins after the one and before the other
    cdef int64_t after_ns = start_ns - 1, before_ns = end_ns
    cdef int32_t quark
    cdef uint8_t kind
    cdef State state
    cdef Cursor cursor
    cdef RowFilter filter
    cdef const Segment* s
    with nogil:
        for i in range(quarks.shape[0]):
            quark = quarks[i]
            kind = kinds[i]
            if modes[kind] == _NEVER:
                continue
            # No row begins the null that the history begins with.
            if start_ns == segments.start_ns and after_ns < start_ns < before_ns:
                segments.locate(quark, start_ns, &state, &cursor)
                if matches_state(&state, modes[kind], words[kind], tag):
                    best = i
                    if not backwards:
                        before_ns = start_ns
                        break
                    after_ns = start_ns
            if quark >= segments._first.shape[0] or segments._first[quark] < 0:
                continue
            first = max(segments.segment_at(after_ns), <Py_ssize_t>segments._first[quark])
            last = min(segments.segment_at(before_ns - 1), <Py_ssize_t>segments._last[quark])
            near = 0
            for row in range(last - first + 1):
                k = last - row if backwards else first + row
                s = &segments._segments[k]
                run = find_run(s, quark, near)
                if run < 0:
                    continue
                near = run
                low, high = s.offsets[run], s.offsets[run + 1]
                if low == high:
                    continue
                compile_filter(s, run, modes[kind], words[kind], tag, &filter)
                if filter.never:
                    continue
                if after_ns >= s.base_ns:
                    low = first_after(s, low, high, after_ns)
                if k + 1 >= segments._count or before_ns <= segments._segments[k + 1].base_ns:
                    high = first_after(s, low, high, before_ns - 1)
                low = first_candidate(&filter, run, low)
                run = nearest_row(&filter, low, high, s.offsets[run + 1], backwards)
                if run < 0:
                    continue
                best = i
                if backwards:
                    after_ns = row_time(s, run)
                else:
                    before_ns = row_time(s, run)
                break
    if best < 0:
        return None
    return best, after_ns if backwards else before_ns
