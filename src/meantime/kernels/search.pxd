"""What other kernels need to read the rows of sealed segments; see `search.pyx`."""

from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "rows.h":
    uint64_t load_row(const uint8_t*, int64_t, int, uint64_t) noexcept nogil
    int64_t double_bits(double) noexcept nogil
    double bits_double(int64_t) noexcept nogil
    void publish_count(Py_ssize_t*, Py_ssize_t) noexcept nogil
    Py_ssize_t published_count(const Py_ssize_t*) noexcept nogil


cdef enum:
    # Not more rows than these are searched by halves alone.
    _FEW_ROWS = 64
    # The first step from where a row probably is: about a line of the cache.
    _NEAR_ROWS = 16


# The sections of a segment as pointers, which `Segments._kept` keeps valid. Nothing is checked
# here: `head_fault` and `index_fault` check a segment from a file when it is opened, `rows_fault`
# before its rows are used, and `pyramid_fault` its pyramid (history/validation.py).
cdef struct Segment:
    int64_t base_ns
    # How long until the next one begins; 0 for the last.
    uint64_t span_ns
    Py_ssize_t runs
    int width
    int code_bits
    int payload_bits
    bint full
    bint dense
    uint64_t row_mask
    uint64_t payload_mask
    uint64_t code_mask
    const int32_t* quarks
    const uint32_t* offsets
    const int64_t* carry_start
    const int64_t* carry_word
    const uint32_t* carry_meta
    const uint8_t* form
    const int64_t* origin
    const uint8_t* rows
    const uint64_t* payload
    const int64_t* numbers
    # The pyramid over the rows; none until it is attached. See `pyramid.pyx`. Read `timed` and
    # `celled` with `published_count`: another thread may be attaching it.
    Py_ssize_t timed
    const int32_t* timed_run
    const uint8_t* step
    const uint32_t* value_offset
    const uint32_t* values
    const uint32_t* time_offset
    const uint32_t* times32
    const uint64_t* times64
    Py_ssize_t celled
    const int32_t* celled_run
    const uint32_t* cell_offset
    const uint8_t* some
    const int64_t* low
    const int64_t* high
    const int64_t* sums
    const double* magnitude


cdef struct State:
    int64_t start
    int64_t word
    uint32_t meta


cdef struct Cursor:
    # The next change after a time: row `row` of run `run` of segment `segment`; a run of -1 means
    # for no row of that segment.
    Py_ssize_t segment
    Py_ssize_t run
    Py_ssize_t row


cdef inline int64_t row_time(const Segment* s, Py_ssize_t row) noexcept nogil:
    cdef uint64_t packed = load_row(s.rows, row, s.width, s.row_mask)
    # A payload of 64 bits is never inline, so the shift is defined.
    return <int64_t>(<uint64_t>s.base_ns + (packed >> s.payload_bits))


cdef inline uint64_t row_payload(const Segment* s, Py_ssize_t row) noexcept nogil:
    if s.payload != NULL:
        return s.payload[row]
    return load_row(s.rows, row, s.width, s.row_mask) & s.payload_mask


cdef inline void set_value(
    const Segment* s, Py_ssize_t run, Py_ssize_t row, uint64_t field, State* state
) noexcept nogil:
    """Set a state's word from the code of a row, whose null is 0."""
    if field == 0:
        state.word = 0
        state.meta |= 1
    elif s.form == NULL or s.form[run] == 0:
        state.word = <int64_t>(field - 1)
    elif s.form[run] == 1:
        state.word = <int64_t>(<uint64_t>s.origin[run] + (field - 1))
    elif s.form[run] == 2:
        state.word = double_bits(<double>(s.origin[run] + <int64_t>(field - 1)))
    else:
        state.word = s.numbers[row + s.origin[run]]


cdef inline void row_state(
    const Segment* s, Py_ssize_t run, Py_ssize_t row, State* state
) noexcept nogil:
    cdef uint64_t packed = load_row(s.rows, row, s.width, s.row_mask)
    cdef uint64_t payload = packed & s.payload_mask
    state.start = <int64_t>(<uint64_t>s.base_ns + (packed >> s.payload_bits))
    if s.payload != NULL:
        payload = s.payload[row]
    state.meta = (<uint32_t>(payload >> s.code_bits)) << 1
    set_value(s, run, row, payload & s.code_mask, state)


cdef inline Py_ssize_t find_run(const Segment* s, int32_t quark, Py_ssize_t near) noexcept nogil:
    """The run of a quark, or -1; `near` is the run that the caller found last."""
    cdef Py_ssize_t low, length, half
    if s.dense:
        return quark if quark < s.runs else -1
    # Callers go through ascending quarks, or through segments with about the same quarks.
    if near < s.runs and s.quarks[near] == quark:
        return near
    if near + 1 < s.runs and s.quarks[near] < quark <= s.quarks[near + 1]:
        return near + 1 if s.quarks[near + 1] == quark else -1
    low = 0
    length = s.runs
    while length > 0:
        half = length >> 1
        if s.quarks[low + half] < quark:
            low += half + 1
            length -= half + 1
        else:
            length = half
    return low if low < s.runs and s.quarks[low] == quark else -1


cdef inline Py_ssize_t first_after(
    const Segment* s, Py_ssize_t low, Py_ssize_t high, int64_t time
) noexcept nogil:
    """The first row of [low, high) whose time is after `time`, which is not before the segment."""
    # Relative times are compared as stored: no addition per step, and no signs.
    cdef uint64_t relative = <uint64_t>time - <uint64_t>s.base_ns
    cdef Py_ssize_t length = high - low, half
    while length > 0:
        half = length >> 1
        if (load_row(s.rows, low + half, s.width, s.row_mask) >> s.payload_bits) <= relative:
            low += half + 1
            length -= half + 1
        else:
            length = half
    return low


@final
cdef class Segments:
    cdef Segment* _segments
    cdef Py_ssize_t _count, _room
    cdef bint _searchable
    # The arrays that the pointers in `_segments` point into.
    cdef list _kept
    cdef public int64_t start_ns, end_ns
    # By quark, the first and the last segment in which it changes; -1 if it never does.
    cdef object _first_array, _last_array
    cdef int32_t[::1] _first, _last
    # By quark, whether `bounds` has found something, and what.
    cdef tuple _bounds

    cdef void bound(
        self, int32_t quark, int64_t* low, int64_t* high, int64_t* changes
    ) noexcept nogil
    cdef _grow(self, Py_ssize_t quarks)
    cdef Py_ssize_t segment_at(self, int64_t time) noexcept nogil
    cdef void locate(
        self, int32_t quark, int64_t time, State* state, Cursor* cursor
    ) noexcept nogil
    cdef void locate_near(
        self, int32_t quark, int64_t time, State* state, Cursor* cursor, Py_ssize_t* near
    ) noexcept nogil
    cdef void locate_in(
        self, Py_ssize_t here, int32_t quark, int64_t time, State* state, Cursor* cursor,
        Py_ssize_t* near,
    ) noexcept nogil
    cdef bint next_near(
        self, int32_t quark, Cursor* cursor, int64_t* time, Py_ssize_t* near
    ) noexcept nogil
    cdef bint next_change(self, int32_t quark, Cursor* cursor, int64_t* time) noexcept nogil


cdef inline Py_ssize_t entry_of(
    const int32_t* runs, Py_ssize_t count, Py_ssize_t run
) noexcept nogil:
    """The index of a run among ascending runs; -1 if it is not one of them."""
    cdef Py_ssize_t low = 0, length = count, half
    # If every run up to this one has an entry, the index of the entry is the run.
    if run < count and runs[run] == run:
        return run
    while length > 0:
        half = length >> 1
        if runs[low + half] < run:
            low += half + 1
            length -= half + 1
        else:
            length = half
    return low if low < count and runs[low] == run else -1


cdef inline Py_ssize_t first_after_interpolated(
    const Segment* s, Py_ssize_t low, Py_ssize_t high, int64_t time
) noexcept nogil:
    """The same by interpolation, for the rows of a run that are probably not cached.

    Each row that is read is a cache miss then, of which a search by halves takes more.
    """
    cdef uint64_t relative = <uint64_t>time - <uint64_t>s.base_ns
    cdef Py_ssize_t near, step = _NEAR_ROWS
    if high - low <= _FEW_ROWS or relative >= s.span_ns:
        return first_after(s, low, high, time)
    # where it is if changes are spread evenly
    near = low + <Py_ssize_t>(<double>relative / <double>s.span_ns * <double>(high - low))
    near = min(near, high - 1)
    if (load_row(s.rows, near, s.width, s.row_mask) >> s.payload_bits) <= relative:
        low = near + 1
        while low + step < high:
            near = low + step
            if (load_row(s.rows, near, s.width, s.row_mask) >> s.payload_bits) > relative:
                high = near
                break
            low = near + 1
            step *= 2
    else:
        high = near
        while high - step > low:
            near = high - step
            if (load_row(s.rows, near, s.width, s.row_mask) >> s.payload_bits) <= relative:
                low = near + 1
                break
            high = near
            step *= 2
    return first_after(s, low, high, time)


# Where the items of the columns are, and for how many rows there is room. A kernel copies it into
# a local variable, whose fields the compiler can keep in registers.
cdef struct Columns:
    int32_t* quark
    int64_t* start
    int64_t* end
    int32_t* code
    int32_t* tag
    int64_t* word
    uint32_t* meta
    Py_ssize_t room


@final
cdef class IntervalRows:
    cdef readonly Py_ssize_t rows
    cdef bint text
    cdef Columns columns
    cdef list _arrays
    cdef int reserve(self, Py_ssize_t rows) except -1 with gil


cdef inline void write_row(
    const Columns* to, Py_ssize_t row, bint text, int32_t quark, int64_t start, int64_t end,
    int64_t word, uint32_t meta,
) noexcept nogil:
    to.quark[row] = quark
    to.start[row] = start
    to.end[row] = end
    if text:
        to.code[row] = -1 if meta & 1 else <int32_t>word
        to.tag[row] = <int32_t>(meta >> 1) - 1
    else:
        to.word[row] = word
        to.meta[row] = meta
