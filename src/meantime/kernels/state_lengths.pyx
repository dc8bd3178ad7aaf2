"""How long states lasted, read from the rows of segments or from intervals: counted in buckets, and
collected where quantiles are.
"""

from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

import numpy as np

from meantime.kernels.calls cimport select
from meantime.kernels.search cimport (
    Cursor,
    IntervalRows,
    Segment,
    Segments,
    State,
    find_run,
    load_row,
    row_payload,
    row_time,
)

cdef extern from *:
    """
    static inline int highest_bit(unsigned long long word) { return 63 - __builtin_clzll(word); }
    #define rarely(condition) __builtin_expect(!!(condition), 0)
    """
    int highest_bit(unsigned long long) noexcept nogil
    bint rarely(bint) noexcept nogil

cdef enum:
    # So many durations are read at once, which stay in the processor's first cache.
    CHUNK = 1024
    # An attribute by itself has the buckets of at most so many states.
    SLOTS = 64
    # The buckets of an attribute by itself: a power of two in 2^7 parts.
    BITS = 7
    BUCKETS = (64 - BITS) << BITS
    # Of a state whose code was not met before, and of a state that is none.
    UNKNOWN = -2
    NONE = -1
    QUANTILES = 8
    # Label, state, count, sum, least and greatest duration, whether quantiles are exact, and how
    # many buckets it has; quantiles follow.
    COLUMNS = 8

BUCKET_BITS = BITS
BUCKET_COUNT = BUCKETS
ROW_COLUMNS = COLUMNS
cdef uint64_t MOST = 0x7FFFFFFFFFFFFFFF


cdef struct Own:
    # The durations of a state: a row of `figures`. The sum has 128 bits.
    uint64_t total
    uint64_t total_high
    uint64_t least
    uint64_t most


cdef struct Counts:
    # Where durations are counted: by code + 1 the row, NONE of no state, UNKNOWN if the caller has
    # to be asked; by row the figures, the buckets, and how often each row followed it.
    const int32_t* table
    Own* own
    int64_t* cells
    Py_ssize_t size
    int bits
    int64_t* pairs
    Py_ssize_t stride


cdef struct Target:
    # The bucket of a quantile of one attribute: where it begins, the power of two of its length,
    # how many durations are in it, the rank among these, and where they are collected.
    uint64_t low
    int shift
    Py_ssize_t count
    Py_ssize_t rank
    Py_ssize_t begin
    Py_ssize_t end


cdef struct Walk:
    # Where the durations of an attribute come from: segments, if there are any, or columns.
    int32_t quark
    int64_t from_ns
    int64_t to_ns
    # The state that has begun, as code + 1, and when; and the cursor behind it.
    int32_t field
    int64_t start
    Cursor cursor
    bint done
    # The row of the state before, NONE if there was none; and how long all states lasted.
    int32_t before
    uint64_t lived
    # By segment, whether what is between the changes of an attribute in it was added; NULL if in
    # none. The walk stops where it enters one.
    const uint8_t* added
    bint enters
    const int64_t* starts
    const int64_t* ends
    const int32_t* codes
    Py_ssize_t row
    Py_ssize_t last


cdef inline Py_ssize_t bucket_of(uint64_t lasted, int bits) noexcept nogil:
    """The bucket of a duration: each power of two has 2^bits, the first ones of a duration each."""
    # of those below 2^bits, the bit above counts as the highest: so there is no branch
    cdef int high = highest_bit(lasted | (<uint64_t>1 << bits)) - bits
    # the highest bit of the shifted duration counts as one more power
    return (<Py_ssize_t>high << bits) + <Py_ssize_t>(lasted >> high)


cdef inline uint64_t bucket_low(Py_ssize_t bucket) noexcept nogil:
    cdef Py_ssize_t power = bucket >> BITS
    if power == 0:
        return <uint64_t>bucket
    return ((<uint64_t>bucket & ((1 << BITS) - 1)) + (1 << BITS)) << (power - 1)


cdef inline int bucket_shift(Py_ssize_t bucket) noexcept nogil:
    return <int>max((bucket >> BITS) - 1, 0)


@final
cdef class StateLengths:
    """Counts the durations of states, or collects those in some ranges, attribute by attribute.

    The caller numbers the states: `learn` is called with each code of a string that was not met
    before, returns the number of its state, and passes arrays that are large enough to `use`.

    With `quantiles` the attributes are also counted by themselves, in `rows`.

    Args:
        quantiles: Pairs (p, q) for p / q in ascending order; nearest ranks. Empty if attributes are
            not counted by themselves.
        exact: Whether quantiles of attributes are exact if they have more than 1,024 intervals;
            otherwise they are the middle of a bucket then.
        sketched: Whether the buckets of attributes are kept.

    Attributes:
        codes: By code of a string of the attributes that are added, that of it for `learn`; None if
            they are the same.
        learn: Returns the state of a code.
        strings: How many strings there are.
        is_exact: Whether all quantiles of attributes so far are.
    """

    cdef public object learn  #: Callable[[int], int] | None
    cdef readonly object codes  #: Int32s | None
    cdef readonly bint is_exact
    cdef readonly Py_ssize_t strings
    cdef uint64_t[:, ::1] _figures
    cdef int64_t[:, ::1] _buckets, _pairs
    cdef int64_t[::1] _lived
    cdef int _bits
    cdef int32_t[::1] _table
    # what a second pass looks for; see `narrow`
    cdef bint _narrows, _collects
    cdef const int32_t[::1] _first
    cdef int64_t[:, ::1] _targets
    cdef int64_t[::1] _out
    # of attributes by themselves
    cdef bint _apart, _exact, _sketched
    cdef const int64_t[:, ::1] _quantiles
    cdef int32_t* _slot_of
    cdef Py_ssize_t _slot_room
    # by code + 1 the slot, and those that are set
    cdef int32_t[::1] _slots
    cdef int32_t[SLOTS] _field_of
    cdef int64_t[SLOTS * SLOTS] _slot_pairs
    cdef int32_t[SLOTS] _state_of
    cdef Own[SLOTS] _own
    cdef Target[SLOTS * QUANTILES] _target
    cdef int64_t* _cells
    cdef int64_t* _rows
    cdef Py_ssize_t _row_count, _row_room
    cdef int64_t* _kept
    cdef Py_ssize_t _kept_count, _kept_room
    # pairs of states that are too many for a table
    cdef int64_t* _moves
    cdef Py_ssize_t _move_count, _move_room
    # the durations that are read at once, and as many as an attribute has
    cdef int32_t* _field
    cdef int32_t* _state
    cdef int64_t* _lasted
    cdef int64_t* _sorted
    cdef Py_ssize_t _room, _sorted_room

    def __cinit__(self, *_, **__):
        self._slot_of = NULL
        self._cells = self._rows = self._kept = self._moves = self._lasted = self._sorted = NULL
        self._field = self._state = NULL
        self._slot_room = self._row_count = self._row_room = self._kept_count = 0
        self._kept_room = self._move_count = self._move_room = self._room = self._sorted_room = 0

    def __init__(
        self, const int64_t[:, ::1] quantiles: Int64s, *, bint exact=True, bint sketched=False
    ):
        self.learn = self.codes = None
        self.is_exact = True
        self.strings = 0
        if quantiles.shape[0] > QUANTILES:
            raise ValueError("there are too many quantiles")
        self._quantiles = quantiles
        self._apart = quantiles.shape[0] > 0
        self._exact = exact
        self._sketched = sketched
        self._narrows = self._collects = False
        self._table = np.zeros(1, np.int32)
        self._slots = self._table
        memset(self._slot_pairs, 0, sizeof(self._slot_pairs))
        if self._apart:
            self._cells = <int64_t*>calloc(SLOTS * BUCKETS, sizeof(int64_t))
            if self._cells == NULL:
                raise MemoryError
        self._reserve(CHUNK)

    def __dealloc__(self):
        free(self._slot_of)
        free(self._cells)
        free(self._rows)
        free(self._kept)
        free(self._moves)
        free(self._lasted)
        free(self._sorted)
        free(self._field)
        free(self._state)

    cdef int _reserve(self, Py_ssize_t room) except -1 with gil:
        """Make room for so many durations of an attribute at once."""
        if room <= self._room:
            return 0
        field = realloc(self._field, room * sizeof(int32_t))
        if field != NULL:
            self._field = <int32_t*>field
        state = realloc(self._state, room * sizeof(int32_t))
        if state != NULL:
            self._state = <int32_t*>state
        lasted = realloc(self._lasted, room * sizeof(int64_t))
        if lasted != NULL:
            self._lasted = <int64_t*>lasted
        if field == NULL or state == NULL or lasted == NULL:
            raise MemoryError
        self._room = room
        return 0

    def use(
        self, uint64_t[:, ::1] figures, int64_t[:, ::1] buckets: Int64s,
        int64_t[:, ::1] pairs: Int64s, int64_t[::1] lived, int bits
    ):
        """Count in these arrays from now on.

        `figures` has by state the sum of durations (the low 64 bits, then the high ones), the least
        and the greatest, which begin as 2^63 - 1 and 0. `buckets` has by state how many durations
        are in each bucket: the powers of two, each in 2^bits parts. `pairs` has how often a state
        directly followed another of the same attribute; if it is empty, `moves` has these. `lived`
        has by attribute the sum of its durations; it may be empty.
        """
        cdef Py_ssize_t room = figures.shape[0], i
        self._figures, self._buckets, self._pairs = figures, buckets, pairs
        self._lived, self._bits = lived, bits
        if room > self._slot_room:
            slots = realloc(self._slot_of, room * sizeof(int32_t))
            if slots == NULL:
                raise MemoryError
            self._slot_of = <int32_t*>slots
            for i in range(self._slot_room, room):
                self._slot_of[i] = -1
            self._slot_room = room

    def begin(self, Py_ssize_t strings):
        """Meet the codes of so many strings for the first time."""
        self.strings = strings
        self.turn_to(None)

    def turn_to(self, codes: Int32s | None):
        """Translate the codes of what is added next to those that `learn` is called with."""
        self.codes = codes
        count = self.strings if codes is None else len(codes)
        table = np.full(count + 1, UNKNOWN, np.int32)
        table[0] = NONE
        self._table = table
        if self._apart:
            self._slots = table.copy()

    def narrow(
        self, const int32_t[::1] first, int64_t[:, ::1] targets: Int64s, int64_t[::1] out, *,
        bint collect
    ):
        """Collect the durations in targets from now on, or count them in parts of these.

        State s has the targets [first[s], first[s + 1]). A target consists of where it begins, the
        power of two of its length, that of the length of its parts, and an index into `out`: the
        part of a duration is counted there, or the duration is written there and the index
        increased.
        """
        self._first, self._targets, self._out = first, targets, out
        self._narrows, self._collects = True, collect

    @property
    def takes_sums(self) -> bool:
        """Whether the sums of several attributes can be added."""
        return not (self._apart or self._narrows or self._lived.shape[0])

    def take_segments(
        self, Segments segments, question: Question, added: npt.NDArray[np.uint8] | None = None
    ):
        """Add the states of attributes with strings in the range of a question, from segments.

        `added` has by segment whether `add_sums` added what `take_between` takes of it.
        """
        cdef const uint8_t[::1] is_added
        cdef const int32_t[::1] quarks = question.quarks, labels = question.labels
        cdef Py_ssize_t i
        cdef Walk walk
        cdef int64_t from_ns = question.start_ns, to_ns = question.end_ns
        walk.added = NULL
        if added is not None and len(added):
            is_added = added
            walk.added = &is_added[0]
        with nogil:
            walk.row = 0
            walk.from_ns = from_ns
            walk.to_ns = min(to_ns, segments.end_ns)
            for i in range(quarks.shape[0]):
                walk.quark = quarks[i]
                self._take(segments, &walk, labels[i])

    def take_between(self, Segments segments, Py_ssize_t index, const int32_t[::1] quarks):
        """Add the states that attributes with strings have between their changes in a segment."""
        cdef const Segment* s = &segments._segments[index]
        cdef Py_ssize_t i, run, last, near = 0
        cdef Walk walk
        cdef Counts counts
        with nogil:
            walk.to_ns = INT64_MAX
            for i in range(quarks.shape[0]):
                run = find_run(s, quarks[i], near)
                if run < 0:
                    continue
                near = run
                walk.cursor.row = s.offsets[run]
                last = s.offsets[run + 1]
                if walk.cursor.row == last:
                    continue
                go_behind(s, &walk, walk.cursor.row)
                walk.before = NONE
                while True:
                    self._meet(walk.field)
                    # the arrays may be others now
                    self._point(&counts)
                    if walk.cursor.row == last:
                        break
                    count_rows(s, last, &walk, &counts)
                # what the last row begins is counted elsewhere, but not that it followed
                count_pair(&counts, walk.before, counts.table[walk.field])

    def add_sums(
        self, const int32_t[::1] codes, const uint64_t[:, ::1] figures, const int32_t[::1] state,
        const int32_t[::1] bucket, const int64_t[::1] count, const int64_t[:, ::1] pairs: Int64s
    ):
        """Add what was counted elsewhere, of states that are numbered by their own codes.

        `figures` and `pairs` are as for `use`, and `count` is how many durations there are in a
        bucket of 2^-7 of a power of two.
        """
        cdef Py_ssize_t i, j, states = figures.shape[0]
        cdef int32_t[::1] own = np.empty(states, np.int32)
        cdef int32_t to
        self._reserve(states)
        for i in range(states):
            self._field[i] = codes[i] + 1
            self._state[i] = self._table[codes[i] + 1]
        self._learn(0, states)
        for i in range(states):
            to = own[i] = self._state[i]
            self._add(to, figures[i, 0], figures[i, 2], figures[i, 3])
            self._figures[to, 1] += figures[i, 1]
        with nogil:
            for i in range(bucket.shape[0]):
                to = own[state[i]]
                self._buckets[to, bucket_of(bucket_low(bucket[i]), self._bits)] += count[i]
        for i in range(states):
            for j in range(states):
                if pairs[i, j] and self._pairs.shape[0]:
                    self._pairs[own[i], own[j]] += pairs[i, j]
                elif pairs[i, j]:
                    self._move(own[i], own[j], pairs[i, j])

    def take_rows(self, IntervalRows rows, int64_t from_ns, int64_t to_ns):
        """Add intervals with strings, those of an attribute together, clipped to a range."""
        self.take_columns(
            rows.quark, rows.start_ns, rows.end_ns, rows.code, from_ns, to_ns
        )

    def take_columns(
        self, const int32_t[::1] quark, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
        const int32_t[::1] code, int64_t from_ns, int64_t to_ns
    ):
        """Add intervals in columns, those of an attribute together, clipped to a range."""
        cdef Walk walk
        cdef Segments none = None
        cdef Py_ssize_t count = quark.shape[0], first = 0, last
        if not count:
            return
        walk.from_ns, walk.to_ns = from_ns, to_ns
        walk.starts, walk.ends, walk.codes = &start_ns[0], &end_ns[0], &code[0]
        walk.added = NULL
        with nogil:
            while first < count:
                last = first + 1
                while last < count and quark[last] == quark[first]:
                    last += 1
                walk.row = first
                walk.last = last
                self._take(none, &walk, quark[first])
                first = last

    cdef int _take(self, Segments segments, Walk* walk, int32_t label) except -1 nogil:
        """Add the durations of an attribute."""
        cdef Py_ssize_t first = walk.row
        begin(segments, walk, first)
        if self._narrows:
            while not walk.done:
                self._narrow_chunk(self._fill(segments, walk, 0))
            return 0
        if self._apart:
            self._take_apart(segments, walk, first, label)
        elif segments is None or not self._pairs.shape[0]:
            self._take_chunks(segments, walk)
        else:
            self._take_rows(segments, walk)
        if self._lived.shape[0]:
            self._lived[label] += <int64_t>walk.lived
        return 0

    cdef int _take_chunks(self, Segments segments, Walk* walk) except -1 nogil:
        """Add the durations of an attribute that are left, some at a time."""
        cdef Py_ssize_t n
        while not walk.done:
            n = self._fill(segments, walk, 0)
            walk.lived += self._lived_in(n)
            walk.before = self._pair(n, walk.before)
            self._count(n)
            if walk.enters:
                walk.before = self._cross(segments, walk, walk.before)
        return 0

    cdef int _take_rows(self, Segments segments, Walk* walk) except -1 nogil:
        """Add the durations of an attribute, which are read and counted at once."""
        cdef Counts counts
        while not walk.done:
            self._meet(walk.field)
            # states may have been added: there is a limit to those with a table of pairs
            if not self._pairs.shape[0]:
                return self._take_chunks(segments, walk)
            self._point(&counts)
            count(segments, walk, &counts)
            if walk.enters:
                walk.before = self._cross(segments, walk, walk.before)
        return 0

    cdef int _take_apart(
        self, Segments segments, Walk* walk, Py_ssize_t first, int32_t label
    ) except -1 nogil:
        """Add the durations of an attribute by itself."""
        cdef Py_ssize_t n
        cdef int32_t slots = 0
        cdef Counts counts
        n = self._fill(segments, walk, 0)
        if walk.done:
            walk.lived = self._lived_in(n)
            self._pair(n, NONE)
            return self._apart_few(n, label)
        self._slot_counts(&counts)
        begin(segments, walk, first)
        while not walk.done and slots <= SLOTS:
            if segments is None:
                slots = self._apart_many(self._fill(segments, walk, 0), slots, walk, &counts)
                continue
            slots = self._slot_of_field(walk.field, slots)
            if slots <= SLOTS:
                count(segments, walk, &counts)
        if slots <= SLOTS:
            return self._flush(segments, walk, first, label, slots)
        # too many states: all durations at once
        begin(segments, walk, first)
        n = 0
        while not walk.done:
            if n + CHUNK > self._room:
                self._reserve(2 * self._room)
            n = self._fill(segments, walk, n)
        walk.lived = self._lived_in(n)
        self._pair(n, NONE)
        return self._apart_few(n, label)

    cdef void _point(self, Counts* counts) noexcept nogil:
        """Count by state."""
        counts.table = &self._table[0]
        counts.own = <Own*>&self._figures[0, 0] if self._figures.shape[0] else NULL
        counts.cells = &self._buckets[0, 0] if self._figures.shape[0] else NULL
        counts.size = self._buckets.shape[1]
        counts.bits = self._bits
        counts.pairs = &self._pairs[0, 0] if self._pairs.shape[0] else NULL
        counts.stride = self._pairs.shape[0]

    cdef void _slot_counts(self, Counts* counts) noexcept nogil:
        """Count by slot."""
        counts.table = &self._slots[0]
        counts.own = self._own
        counts.cells = self._cells
        counts.size = BUCKETS
        counts.bits = BITS
        counts.pairs = self._slot_pairs
        counts.stride = SLOTS

    cdef int _meet(self, int32_t field) except -1 nogil:
        """Let the caller number the state of a code if it was not met before."""
        if self._table[field] == UNKNOWN:
            self._field[0] = field
            self._state[0] = UNKNOWN
            self._learn(0, 1)
        return 0

    cdef int32_t _slot_of_field(self, int32_t field, int32_t slots) except -1 nogil:
        """Give a code a slot if it has none; return how many there are, too many if there are more.
        """
        if self._slots[field] != UNKNOWN:
            return slots
        if slots == SLOTS:
            self._clear(slots)
            return SLOTS + 1
        self._meet(field)
        self._slots[field] = slots
        self._field_of[slots] = field
        self._state_of[slots] = self._table[field]
        self._slot_of[self._table[field]] = slots
        self._own[slots].total = self._own[slots].total_high = self._own[slots].most = 0
        self._own[slots].least = MOST
        return slots + 1

    cdef Py_ssize_t _fill(self, Segments segments, Walk* walk, Py_ssize_t n) except -1 nogil:
        """Read the next durations of an attribute behind the first n; return how many there are."""
        cdef Py_ssize_t end = n
        end += fill(
            segments, walk, &self._table[0], self._field + n, self._state + n, self._lasted + n,
            min(CHUNK, self._room - n),
        )
        self._learn(n, end)
        return end

    cdef int _learn(self, Py_ssize_t first, Py_ssize_t end) except -1 nogil:
        """Let the caller number the states that were not met before."""
        cdef Py_ssize_t i
        cdef int32_t least = 0, code
        cdef const int32_t* state = self._state
        for i in range(first, end):
            least = min(least, state[i])
        if least == UNKNOWN:
            with gil:
                for i in range(first, end):
                    if self._table[self._field[i]] == UNKNOWN:
                        code = self._field[i] - 1
                        if self.codes is None:
                            self._table[code + 1] = self.learn(code)
                        else:
                            self._table[code + 1] = self.learn(int(self.codes[code]))
                    self._state[i] = self._table[self._field[i]]
        return 0

    cdef int32_t _pair(self, Py_ssize_t n, int32_t before) except? -9 nogil:
        """Count which state followed which; return the last one."""
        cdef Py_ssize_t i, size = self._pairs.shape[0]
        cdef int32_t state
        cdef const int32_t* states = self._state
        cdef int64_t* pairs
        if size:
            pairs = &self._pairs[0, 0]
            for i in range(n):
                state = states[i]
                if before >= 0 and state >= 0:
                    pairs[before * size + state] += 1
                before = state
            return before
        for i in range(n):
            state = states[i]
            if before >= 0 and state >= 0:
                self._move(before, state, 1)
            before = state
        return before

    cdef int _move(self, int32_t before, int32_t after, int64_t count) except -1 nogil:
        """Note that a state followed another so often."""
        if self._move_count == self._move_room:
            with gil:
                room = 2 * self._move_room + 64
                moves = realloc(self._moves, 2 * room * sizeof(int64_t))
                if moves == NULL:
                    raise MemoryError
                self._moves = <int64_t*>moves
                self._move_room = room
        self._moves[2 * self._move_count] = <int64_t>before << 32 | after
        self._moves[2 * self._move_count + 1] = count
        self._move_count += 1
        return 0

    cdef int64_t _lived_in(self, Py_ssize_t n) noexcept nogil:
        """How long the states that were read lasted together."""
        cdef Py_ssize_t i
        cdef uint64_t sum = 0
        cdef const int32_t* state = self._state
        cdef const int64_t* lasted = self._lasted
        for i in range(n):
            sum += <uint64_t>lasted[i] if state[i] >= 0 else 0
        return <int64_t>sum

    cdef int32_t _cross(self, Segments segments, Walk* walk, int32_t before) except? -9 nogil:
        """Go through a segment of which all is added that is between changes of the attribute.

        Returns the state before the one that has begun, if that it followed is not counted.
        """
        cdef const Segment* s = &segments._segments[walk.cursor.segment]
        cdef Py_ssize_t row = walk.cursor.row, last = s.offsets[walk.cursor.run + 1] - 1
        cdef int64_t time = row_time(s, row)
        if walk.start < time:
            self._field[0] = walk.field
            self._state[0] = self._table[walk.field]
            self._lasted[0] = time - walk.start
            self._learn(0, 1)
            before = self._pair(1, before)
            self._count(1)
        # those that are replaced at once
        while row < last and row_time(s, row + 1) == time:
            row += 1
        if row < last:
            self._field[0] = row_field(s, row)
            self._state[0] = self._table[self._field[0]]
            self._learn(0, 1)
            self._pair(1, before)
            before = NONE
        go_behind(s, walk, last)
        return before

    cdef void _add(
        self, int32_t state, uint64_t total, uint64_t least, uint64_t most
    ) noexcept nogil:
        """Add durations to the figures of their state."""
        cdef uint64_t* figures = &self._figures[state, 0]
        figures[0] += total
        figures[1] += figures[0] < total
        figures[2] = min(figures[2], least)
        figures[3] = max(figures[3], most)

    cdef void _count(self, Py_ssize_t n) noexcept nogil:
        """Add durations to the figures and the buckets of their states."""
        cdef Py_ssize_t i
        cdef Counts counts
        if not self._figures.shape[0]:
            return
        self._point(&counts)
        for i in range(n):
            if self._state[i] >= 0:
                count_one(&counts, self._state[i], <uint64_t>self._lasted[i])

    cdef void _narrow_chunk(self, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i, room = self._out.shape[0]
        cdef int32_t state, t, end
        cdef uint64_t lasted, into
        cdef const int32_t* states = self._state
        cdef const int64_t* lengths = self._lasted
        cdef const int32_t* first = &self._first[0]
        cdef int64_t* targets
        cdef int64_t* target
        if not self._targets.shape[0]:
            return
        targets = &self._targets[0, 0]
        for i in range(n):
            state = states[i]
            if state < 0:
                continue
            lasted = <uint64_t>lengths[i]
            t = first[state]
            end = first[state + 1]
            while t < end:
                target = targets + 4 * t
                into = lasted - <uint64_t>target[0]
                t += 1
                if into >> target[1]:
                    continue
                if not self._collects:
                    self._out[target[3] + <int64_t>(into >> target[2])] += 1
                elif target[3] < room:
                    self._out[target[3]] = <int64_t>lasted
                    target[3] += 1
                break

    cdef int _apart_few(self, Py_ssize_t n, int32_t label) except -1 nogil:
        """Add a row for each state of an attribute, all of whose durations were read."""
        cdef Py_ssize_t i, slot, slots = 0, a, b, low, rank, q, bucket
        cdef int32_t state
        cdef uint64_t seed = 88172645463325252, total
        cdef int64_t least, most
        cdef int64_t* to
        # behind the sorted durations: where each slot begins, and its state
        if 3 * n + 2 > self._sorted_room:
            with gil:
                sorted_array = realloc(self._sorted, (3 * n + 2) * sizeof(int64_t))
                if sorted_array == NULL:
                    raise MemoryError
                self._sorted = <int64_t*>sorted_array
                self._sorted_room = 3 * n + 2
        cdef int64_t* first = self._sorted + n
        cdef int64_t* state_of = first + n + 2
        memset(first, 0, (n + 2) * sizeof(int64_t))
        for i in range(n):
            state = self._state[i]
            if state < 0:
                continue
            slot = self._slot_of[state]
            if slot < 0:
                self._slot_of[state] = <int32_t>slots
                slot = slots
                state_of[slot] = state
                slots += 1
            first[slot + 1] += 1
            # the caller's buckets: as many as there are powers of two
            self._buckets[state, bucket_of(<uint64_t>self._lasted[i], self._bits)] += 1
        for slot in range(slots):
            first[slot + 1] += first[slot]
        for i in range(n):
            state = self._state[i]
            if state >= 0:
                slot = self._slot_of[state]
                self._sorted[first[slot]] = self._lasted[i]
                first[slot] += 1
        for slot in range(slots):
            a = first[slot - 1] if slot else 0
            b = first[slot]
            state = <int32_t>state_of[slot]
            self._slot_of[state] = -1
            total = 0
            least = INT64_MAX
            most = 0
            for i in range(a, b):
                total += <uint64_t>self._sorted[i]
                least = min(least, self._sorted[i])
                most = max(most, self._sorted[i])
            to = self._row(label, state, b - a, total, least, most)
            if self._sketched:
                for i in range(a, b):
                    self._cells[bucket_of(<uint64_t>self._sorted[i], BITS)] += 1
                to[7] = self._keep(0, least, most)
            low = a
            for q in range(self._quantiles.shape[0]):
                rank = max(low, a + self._rank(b - a, q))
                to[COLUMNS + q] = select(self._sorted, low, b - 1, rank, &seed)
                low = rank
        return 0

    cdef inline Py_ssize_t _rank(self, Py_ssize_t count, Py_ssize_t q) noexcept nogil:
        return max(0, (count * self._quantiles[q, 0] + self._quantiles[q, 1] - 1)
                   // self._quantiles[q, 1] - 1)

    cdef int64_t* _row(
        self, int32_t label, int32_t state, int64_t count, uint64_t total, int64_t least,
        int64_t most
    ) except NULL nogil:
        """Add a row of an attribute and a state, and the same to the figures of the state."""
        cdef Py_ssize_t width = COLUMNS + self._quantiles.shape[0]
        cdef int64_t* to
        if self._row_count == self._row_room:
            with gil:
                room = 2 * self._row_room + 64
                rows = realloc(self._rows, room * width * sizeof(int64_t))
                if rows == NULL:
                    raise MemoryError
                self._rows = <int64_t*>rows
                self._row_room = room
        to = self._rows + self._row_count * width
        self._row_count += 1
        to[0] = label
        to[1] = state
        to[2] = count
        to[3] = <int64_t>total
        to[4] = least
        to[5] = most
        to[6] = 1
        to[7] = 0
        self._add(state, total, <uint64_t>least, <uint64_t>most)
        return to

    cdef Py_ssize_t _keep(self, Py_ssize_t slot, int64_t least, int64_t most) except -1 nogil:
        """Keep the buckets of a slot, and clear them; return how many are not empty."""
        cdef int64_t* cells = self._cells + slot * BUCKETS
        cdef Py_ssize_t bucket, begin = self._kept_count
        cdef Py_ssize_t low = bucket_of(<uint64_t>least, BITS), high = bucket_of(<uint64_t>most, BITS)
        if self._kept_count + high - low + 1 > self._kept_room:
            with gil:
                room = 2 * self._kept_room + high - low + 1
                kept = realloc(self._kept, 2 * room * sizeof(int64_t))
                if kept == NULL:
                    raise MemoryError
                self._kept = <int64_t*>kept
                self._kept_room = room
        for bucket in range(low, high + 1):
            if cells[bucket]:
                self._kept[2 * self._kept_count] = bucket
                self._kept[2 * self._kept_count + 1] = cells[bucket]
                self._kept_count += 1
                cells[bucket] = 0
        return self._kept_count - begin

    cdef int32_t _apart_many(
        self, Py_ssize_t n, int32_t slots, Walk* walk, Counts* counts
    ) except -1 nogil:
        """Count durations by slot; return how many slots are in use, too many if there are more."""
        cdef Py_ssize_t i
        cdef int32_t slot
        for i in range(n):
            slots = self._slot_of_field(self._field[i], slots)
            if slots > SLOTS:
                return slots
            slot = self._slots[self._field[i]]
            if slot >= 0:
                count_one(counts, slot, <uint64_t>self._lasted[i])
                walk.lived += <uint64_t>self._lasted[i]
            count_pair(counts, walk.before, slot)
            walk.before = slot
        return slots

    cdef void _clear(self, int32_t slots) noexcept nogil:
        """Forget an attribute's slots."""
        cdef int32_t slot
        cdef Py_ssize_t low, high
        for slot in range(slots):
            self._slots[self._field_of[slot]] = UNKNOWN
            self._slot_of[self._state_of[slot]] = -1
            memset(self._slot_pairs + slot * SLOTS, 0, slots * sizeof(int64_t))
            if self._own[slot].least > self._own[slot].most:
                continue
            low = bucket_of(self._own[slot].least, BITS)
            high = bucket_of(self._own[slot].most, BITS)
            memset(self._cells + slot * BUCKETS + low, 0, (high - low + 1) * sizeof(int64_t))

    cdef int _add_slot_pairs(self, int32_t slots) except -1 nogil:
        """Add which state of an attribute followed which."""
        cdef int32_t slot, after
        cdef int64_t times
        for slot in range(slots):
            for after in range(slots):
                times = self._slot_pairs[slot * SLOTS + after]
                if times and self._pairs.shape[0]:
                    self._pairs[self._state_of[slot], self._state_of[after]] += times
                elif times:
                    self._move(self._state_of[slot], self._state_of[after], times)
        return 0

    cdef int _flush(
        self, Segments segments, Walk* walk, Py_ssize_t first, int32_t label, int32_t slots
    ) except -1 nogil:
        """Add a row for each state of an attribute whose durations were counted in slots."""
        cdef Py_ssize_t low, high, bucket, q, rank, quantiles = self._quantiles.shape[0]
        cdef Py_ssize_t width = COLUMNS + quantiles, begin_row = self._row_count
        cdef int32_t slot, state
        cdef int64_t count, below, middle
        cdef int64_t* to
        cdef int64_t* cells
        cdef Target* target
        self._add_slot_pairs(slots)
        for slot in range(slots):
            cells = self._cells + slot * BUCKETS
            state = self._state_of[slot]
            low = bucket_of(self._own[slot].least, BITS)
            high = bucket_of(self._own[slot].most, BITS)
            count = 0
            for bucket in range(low, high + 1):
                if cells[bucket]:
                    count += cells[bucket]
                    self._buckets[state, bucket_of(bucket_low(bucket), self._bits)] += cells[bucket]
            to = self._row(
                label, state, count, self._own[slot].total, <int64_t>self._own[slot].least,
                <int64_t>self._own[slot].most,
            )
            # the bucket of each quantile: where it begins, how many there are below and in it
            below = 0
            bucket = low - 1
            for q in range(quantiles):
                rank = self._rank(count, q)
                while below <= rank:
                    bucket += 1
                    below += cells[bucket]
                target = &self._target[slot * quantiles + q]
                target.low = bucket_low(bucket)
                target.shift = bucket_shift(bucket)
                target.count = cells[bucket]
                target.rank = rank - (below - cells[bucket])
                middle = <int64_t>(target.low + (((<uint64_t>1 << target.shift) - 1) >> 1))
                # the middle of a bucket may be outside of what occurred
                to[COLUMNS + q] = min(max(middle, to[4]), to[5])
            if self._sketched:
                to[7] = self._keep(slot, to[4], to[5])
        if self._exact:
            self._collect(segments, walk, first, slots, begin_row)
        else:
            for slot in range(slots):
                to = self._rows + (begin_row + slot) * width
                to[6] = 0
            self.is_exact = False
        self._clear(slots)
        return 0

    cdef int _collect(
        self, Segments segments, Walk* walk, Py_ssize_t first, int32_t slots, Py_ssize_t begin_row
    ) except -1 nogil:
        """Replace the quantiles of the latest rows, in their buckets, by exact ones."""
        cdef Py_ssize_t quantiles = self._quantiles.shape[0], width = COLUMNS + quantiles
        cdef Py_ssize_t q, n, i, room = 0
        cdef int32_t slot
        cdef uint64_t seed = 88172645463325252, into
        cdef Target* target
        for slot in range(slots):
            for q in range(quantiles):
                target = &self._target[slot * quantiles + q]
                target.begin = target.end = room
                # a quantile in the bucket of the one before finds its durations there
                if q and target.low == (target - 1).low:
                    target.begin = (target - 1).begin
                elif target.shift:
                    room += target.count
        if room > self._sorted_room:
            with gil:
                sorted_array = realloc(self._sorted, room * sizeof(int64_t))
                if sorted_array == NULL:
                    raise MemoryError
                self._sorted = <int64_t*>sorted_array
                self._sorted_room = room
        begin(segments, walk, first)
        while room and not walk.done:
            n = self._fill(segments, walk, 0)
            for i in range(n):
                if self._state[i] < 0:
                    continue
                slot = self._slot_of[self._state[i]]
                for q in range(quantiles):
                    target = &self._target[slot * quantiles + q]
                    into = <uint64_t>self._lasted[i] - target.low
                    if into >> target.shift:
                        continue
                    if target.shift:
                        self._sorted[target.end] = self._lasted[i]
                        target.end += 1
                    break
        for slot in range(slots):
            for q in range(quantiles):
                target = &self._target[slot * quantiles + q]
                if target.shift:
                    self._rows[(begin_row + slot) * width + COLUMNS + q] = select(
                        self._sorted, target.begin, target.begin + target.count - 1,
                        target.begin + target.rank, &seed,
                    )
        return 0

    def rows(self) -> tuple[Int64s, Int64s]:
        """Return what was found of attributes by themselves.

        Returns:
            A row for each attribute and state: the attribute's label, the state, the count, the
            sum (64 bits without a sign), the least and the greatest duration, whether quantiles are
            exact, how many buckets are kept, and the quantiles. Then each kept bucket and its
            count, row after row.
        """
        cdef Py_ssize_t width = COLUMNS + self._quantiles.shape[0]
        rows = np.empty((self._row_count, width), np.int64)
        kept = np.empty((self._kept_count, 2), np.int64)
        cdef int64_t[:, ::1] to = rows, buckets = kept
        cdef Py_ssize_t i, j
        for i in range(self._row_count):
            for j in range(width):
                to[i, j] = self._rows[i * width + j]
        for i in range(self._kept_count):
            buckets[i, 0] = self._kept[2 * i]
            buckets[i, 1] = self._kept[2 * i + 1]
        return rows, kept

    def moves(self) -> tuple[Int64s, Int64s]:
        """Return pairs of states, as before << 32 | after, and how often they followed each other.

        They are those since the last call, and may be there several times.
        """
        cdef Py_ssize_t i
        pair_array, count_array = np.empty((2, self._move_count), np.int64)
        cdef int64_t[::1] pair = pair_array, count = count_array
        for i in range(self._move_count):
            pair[i] = self._moves[2 * i]
            count[i] = self._moves[2 * i + 1]
        self._move_count = 0
        return pair_array, count_array


cdef inline int32_t row_field(const Segment* s, Py_ssize_t row) noexcept nogil:
    return <int32_t>(row_payload(s, row) & s.code_mask)


cdef inline void go_behind(const Segment* s, Walk* walk, Py_ssize_t row) noexcept nogil:
    """Let the state of a row have begun."""
    walk.start = row_time(s, row)
    walk.field = row_field(s, row)
    walk.cursor.row = row + 1


cdef void begin(Segments segments, Walk* walk, Py_ssize_t first) noexcept nogil:
    """Go to the first duration of an attribute."""
    cdef State state
    walk.done = walk.enters = False
    walk.before = NONE
    walk.lived = 0
    if segments is None:
        walk.row = first
        return
    segments.locate(walk.quark, walk.from_ns, &state, &walk.cursor)
    walk.start = max(state.start, walk.from_ns)
    walk.field = 0 if state.meta & 1 else <int32_t>(state.word + 1)


cdef Py_ssize_t fill(
    Segments segments, Walk* walk, const int32_t* table, int32_t* field, int32_t* state,
    int64_t* lasted, Py_ssize_t room
) noexcept nogil:
    """Read the next durations of an attribute; return how many, and set `done` after the last.

    What lasts is a state by its code + 1, 0 for none, and by its number in the table.
    """
    cdef Py_ssize_t n = 0, row, last
    cdef int64_t time, to_ns = walk.to_ns, low, high
    cdef const Segment* s
    walk.enters = False
    if segments is None:
        last = min(walk.last, walk.row + room)
        for row in range(walk.row, last):
            low = max(walk.starts[row], walk.from_ns)
            high = min(walk.ends[row], to_ns)
            field[n] = walk.codes[row] + 1
            state[n] = table[field[n]]
            # at most what fits 63 bits
            lasted[n] = <int64_t>min(<uint64_t>high - <uint64_t>low, MOST)
            n += 1
        walk.row = last
        walk.done = last == walk.last
        return n
    while n < room:
        if not segments.next_change(walk.quark, &walk.cursor, &time) or time >= to_ns:
            if walk.start < to_ns:
                field[n] = walk.field
                state[n] = table[walk.field]
                lasted[n] = <int64_t>min(<uint64_t>to_ns - <uint64_t>walk.start, MOST)
                n += 1
            walk.done = True
            return n
        if walk.added != NULL and walk.added[walk.cursor.segment]:
            walk.enters = True
            return n
        s = &segments._segments[walk.cursor.segment]
        n = read_rows(
            s, s.offsets[walk.cursor.run + 1], walk, table, field, state, lasted, n, room
        )
    return n


cdef inline void count_one(const Counts* counts, int32_t row, uint64_t lasted) noexcept nogil:
    """Count a duration."""
    cdef Own* own = counts.own + row
    own.total += lasted
    own.total_high += own.total < lasted
    if rarely(lasted < own.least):
        own.least = lasted
    if rarely(lasted > own.most):
        own.most = lasted
    counts.cells[row * counts.size + bucket_of(lasted, counts.bits)] += 1


cdef inline void count_pair(const Counts* counts, int32_t before, int32_t row) noexcept nogil:
    """Count that a state followed another."""
    if before >= 0 and row >= 0:
        counts.pairs[before * counts.stride + row] += 1


cdef void count(Segments segments, Walk* walk, const Counts* counts) noexcept nogil:
    """Count the durations of an attribute up to a state that is not known, and the end of all.

    The one that has begun is known.
    """
    cdef int64_t time
    cdef const Segment* s
    cdef int32_t row
    cdef uint64_t lasted
    walk.enters = False
    while counts.table[walk.field] != UNKNOWN:
        if not segments.next_change(walk.quark, &walk.cursor, &time) or time >= walk.to_ns:
            row = counts.table[walk.field]
            if walk.start < walk.to_ns:
                count_pair(counts, walk.before, row)
                if row >= 0:
                    lasted = min(<uint64_t>walk.to_ns - <uint64_t>walk.start, MOST)
                    count_one(counts, row, lasted)
                    walk.lived += lasted
            walk.done = True
            return
        if walk.added != NULL and walk.added[walk.cursor.segment]:
            walk.enters = True
            return
        s = &segments._segments[walk.cursor.segment]
        count_rows(s, s.offsets[walk.cursor.run + 1], walk, counts)


cdef void count_rows(
    const Segment* s, Py_ssize_t last, Walk* walk, const Counts* counts
) noexcept nogil:
    """Count what the rows up to the last one end, and the state that has begun before them.

    Stops at the row that ends a state that is not known.
    """
    if s.payload == NULL:
        count_rows_of(s, last, walk, counts, False)
    else:
        count_rows_of(s, last, walk, counts, True)


cdef inline void count_rows_of(
    const Segment* s, Py_ssize_t last, Walk* walk, const Counts* counts, bint is_wide
) noexcept nogil:
    # in local variables: what is written could be these for all that the compiler knows
    cdef Counts to = counts[0]
    cdef int64_t time, base = s.base_ns, start = walk.start, to_ns = walk.to_ns
    cdef const uint8_t* rows = s.rows
    cdef const uint64_t* payload = s.payload
    cdef int width = s.width, payload_bits = s.payload_bits
    cdef uint64_t packed, lived = 0, row_mask = s.row_mask
    cdef uint64_t field_mask = s.code_mask if is_wide else s.code_mask & s.payload_mask
    cdef int32_t code = walk.field, state = to.table[code], before = walk.before
    cdef Py_ssize_t row = walk.cursor.row
    while row < last:
        packed = load_row(rows, row, width, row_mask)
        time = <int64_t>(<uint64_t>base + (packed >> payload_bits))
        if rarely(time >= to_ns):
            break
        # one that is replaced at once has no length
        if start < time:
            if state >= 0:
                count_one(&to, state, <uint64_t>(time - start))
                lived += <uint64_t>(time - start)
                if before >= 0:
                    to.pairs[before * to.stride + state] += 1
            elif rarely(state == UNKNOWN):
                break
            before = state
            start = time
        if is_wide:
            packed = payload[row]
        code = <int32_t>(packed & field_mask)
        state = to.table[code]
        row += 1
    walk.cursor.row = row
    walk.start = start
    walk.field = code
    walk.before = before
    walk.lived += lived


cdef inline Py_ssize_t read_rows(
    const Segment* s, Py_ssize_t last, Walk* walk, const int32_t* table, int32_t* field,
    int32_t* state, int64_t* lasted, Py_ssize_t n, Py_ssize_t room
) noexcept nogil:
    """Read what the rows up to the last one end, behind the first n durations."""
    # in local variables: what is written could be these for all that the compiler knows
    cdef int64_t time, base = s.base_ns, start = walk.start, to_ns = walk.to_ns
    cdef const uint8_t* rows = s.rows
    cdef const uint64_t* payload = s.payload
    cdef int width = s.width, payload_bits = s.payload_bits
    cdef uint64_t packed, row_mask = s.row_mask
    cdef uint64_t field_mask = s.code_mask if payload != NULL else s.code_mask & s.payload_mask
    cdef int32_t code = walk.field
    cdef Py_ssize_t row = walk.cursor.row
    while row < last and n < room:
        packed = load_row(rows, row, width, row_mask)
        time = <int64_t>(<uint64_t>base + (packed >> payload_bits))
        if time >= to_ns:
            break
        # one that is replaced at once has no length: the next is written over it
        field[n] = code
        state[n] = table[code]
        lasted[n] = time - start
        n += start < time
        if payload != NULL:
            packed = payload[row]
        code = <int32_t>(packed & field_mask)
        start = time
        row += 1
    walk.cursor.row = row
    walk.start = start
    walk.field = code
    return n
