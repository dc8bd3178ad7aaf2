"""Time per value and part of a range, read from the rows of segments; exact."""

from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

import numpy as np

from meantime.kernels.search cimport (
    Cursor,
    Segment,
    Segments,
    State,
    entry_of,
    find_run,
    first_after,
    load_row,
    published_count,
    row_state,
    row_time,
    set_value,
)

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    #define prefetch(at) __builtin_prefetch(at)
    #define hash_factor 0x9E3779B97F4A7C15u
    """
    int lowest_bit(uint64_t) noexcept nogil
    void prefetch(const void*) noexcept nogil
    uint64_t hash_factor

# How the slots with time in a bin are recorded. WORD: as the bits of one word, some of which may be
# set without time. BITS: as a bitmap with two levels of summaries, each with a bit per word that is
# not zero below, so that a bin costs no more than its slots, however many strings there are. LIST:
# as a list that is sorted in the end, since slots of listed numbers are in order of appearance.
cdef enum Used:
    WORD = 0
    BITS = 1
    LIST = 2

cdef enum:
    STR = 1
    FLOAT = 3
    # The form of a run whose values are integers, counted from an origin.
    INTEGERS = 1
    # How far ahead rows are fetched. A prefetch beyond the rows does not fault.
    _AHEAD_BYTES = 1024
    # Up to this many slots are the bits of one word.
    _FEW = 64
    # The initial capacity for different numbers; a power of two, as the table's mask requires.
    _WORDS = 64


cdef struct Words:
    # The different words of listed numbers, by slot; slot 0 is null. `table` is a hash table of slots with
    # linear probing. It has twice as many buckets as `room`, so a probe always finds an empty one.
    int64_t* of
    int32_t* table
    uint64_t mask
    int32_t count
    int32_t room


cdef struct Work:
    # A bin's time per slot, which slots have some, and the columns that receive it at the bin's
    # end. `at` is up to when time was added, `slot` the value since then, `stop` where the bin
    # ends. `ns` is that of the attribute's slots: `coded` or `listed_ns`.
    int64_t* ns
    int64_t* coded
    int64_t* listed_ns
    Used used
    # The word of slot 1; slots are listed instead if it does not apply.
    int64_t low
    uint64_t few
    uint64_t* bits
    uint64_t* words_used
    uint64_t* tops_used
    int32_t tops
    int32_t* touched
    int32_t touched_count
    int32_t slot
    bint floats
    bint longest
    bint failed
    int64_t at
    int64_t stop
    int32_t changes
    Py_ssize_t bin
    Py_ssize_t bins
    const int64_t* edges
    uint8_t* slot8
    int32_t* slot32
    uint32_t* ns32
    int64_t* ns64
    Py_ssize_t rows
    int32_t* cell_rows
    int32_t* cell_changes
    Words words


cdef inline int64_t ordered(const Work* w, int32_t slot) noexcept nogil:
    """The key by which the slots of numbers are sorted."""
    cdef int64_t word
    word = w.words.of[slot]
    if w.floats and word < 0:
        # The bits of a negative double, as an integer, ascend while the double descends.
        word ^= INT64_MAX
    return word


cdef inline bint before(const Work* w, int32_t one, int32_t other) noexcept nogil:
    if one == 0 or other == 0:
        return one == 0
    return ordered(w, one) < ordered(w, other)


cdef void sift(
    const Work* w, int32_t* heap, Py_ssize_t root, Py_ssize_t count
) noexcept nogil:
    cdef int32_t slot = heap[root]
    cdef Py_ssize_t child
    while 2 * root + 1 < count:
        child = 2 * root + 1
        if child + 1 < count and before(w, heap[child], heap[child + 1]):
            child += 1
        if not before(w, slot, heap[child]):
            break
        heap[root] = heap[child]
        root = child
    heap[root] = slot


cdef void sort_touched(Work* w) noexcept nogil:
    cdef Py_ssize_t i, j, count = w.touched_count
    cdef int32_t slot
    # Insertion for the usual few values, otherwise a heap: `qsort` could not pass `w` on to
    # `before`.
    if count <= 24:
        for i in range(1, count):
            slot = w.touched[i]
            j = i
            while j > 0 and before(w, slot, w.touched[j - 1]):
                w.touched[j] = w.touched[j - 1]
                j -= 1
            w.touched[j] = slot
        return
    for i in range(count // 2 - 1, -1, -1):
        sift(w, w.touched, i, count)
    for i in range(count - 1, 0, -1):
        slot = w.touched[0]
        w.touched[0] = w.touched[i]
        w.touched[i] = slot
        sift(w, w.touched, 0, i)


cdef inline void mark(Work* w, int32_t slot) noexcept nogil:
    w.bits[slot >> 6] |= <uint64_t>1 << (slot & 63)
    w.words_used[slot >> 12] |= <uint64_t>1 << ((slot >> 6) & 63)
    w.tops_used[slot >> 18] |= <uint64_t>1 << ((slot >> 12) & 63)


cdef inline void add(Work* w, int32_t slot, int64_t ns, Used used) noexcept nogil:
    if used == WORD:
        w.few |= <uint64_t>1 << slot
    elif used == BITS:
        mark(w, slot)
    elif w.ns[slot] == 0:
        w.touched[w.touched_count] = slot
        w.touched_count += 1
    w.ns[slot] += ns


cdef inline void emit(Work* w, int32_t slot, int64_t ns) noexcept nogil:
    if w.slot8 != NULL:
        w.slot8[w.rows] = <uint8_t>slot
    else:
        w.slot32[w.rows] = slot
    if w.ns32 != NULL:
        w.ns32[w.rows] = <uint32_t>ns
    else:
        w.ns64[w.rows] = ns
    w.rows += 1


cdef struct Longest:
    int32_t slot
    int64_t ns


cdef inline void take(
    Work* w, int32_t slot, Used used, Longest* longest
) noexcept nogil:
    """Write a slot and its time, or compare it with the longest; `flush` handles null itself."""
    cdef int64_t ns = w.ns[slot]
    w.ns[slot] = 0
    if longest == NULL:
        emit(w, slot, ns)
    else:
        # Of equals the first value wins. Only slots of a list, unsorted here, come out of order.
        if used == LIST and ns == longest.ns and ns and before(w, slot, longest.slot):
            longest.slot = slot
        longest.slot = slot if ns > longest.ns else longest.slot
        longest.ns = ns if ns > longest.ns else longest.ns


cdef inline void emit_few(Work* w, uint64_t bits) noexcept nogil:
    """Write the slots of these bits that have time.

    This is the hot path. All fields are copied to locals, which the compiler can keep in registers:
    for all it can prove, a store through one of the pointers changes the fields of `w`.
    """
    cdef int64_t* tally = w.ns
    cdef uint8_t* slot8 = w.slot8
    cdef int32_t* slot32 = w.slot32
    cdef uint32_t* ns32 = w.ns32
    cdef int64_t* ns64 = w.ns64
    cdef Py_ssize_t rows = w.rows
    cdef int slot
    cdef int64_t ns
    while bits:
        slot = lowest_bit(bits)
        bits &= bits - 1
        ns = tally[slot]
        tally[slot] = 0
        # A slot without time is written too, then overwritten: that costs less than a branch. So
        # the columns have room for one row more than there can be.
        if slot8 != NULL:
            slot8[rows] = <uint8_t>slot
        else:
            slot32[rows] = slot
        if ns32 != NULL:
            ns32[rows] = <uint32_t>ns
        else:
            ns64[rows] = ns
        rows += ns != 0
    w.rows = rows


cdef inline void take_all(Work* w, Used used, Longest* longest) noexcept nogil:
    """Process the slots with time, in order unless only the longest is needed."""
    cdef Py_ssize_t i
    cdef uint64_t bits = w.few, words, tops
    cdef int32_t word, top
    if used == WORD:
        w.few = 0
        if longest == NULL:
            emit_few(w, bits)
            return
        while bits:
            take(w, lowest_bit(bits), used, longest)
            bits &= bits - 1
    elif used == BITS:
        for i in range(w.tops):
            tops = w.tops_used[i]
            w.tops_used[i] = 0
            while tops:
                top = <int32_t>(64 * i) + lowest_bit(tops)
                tops &= tops - 1
                words = w.words_used[top]
                w.words_used[top] = 0
                while words:
                    word = 64 * top + lowest_bit(words)
                    words &= words - 1
                    bits = w.bits[word]
                    w.bits[word] = 0
                    while bits:
                        take(w, 64 * word + lowest_bit(bits), used, longest)
                        bits &= bits - 1
    else:
        if longest == NULL:
            sort_touched(w)
        for i in range(w.touched_count):
            take(w, w.touched[i], used, longest)
        w.touched_count = 0


cdef inline void flush(Work* w, Used used) noexcept nogil:
    """Write the cell of the current bin."""
    cdef Py_ssize_t rows = w.rows
    cdef Longest longest
    cdef int64_t null = w.ns[0]
    if w.longest:
        # Null comes first, but loses against any value that lasted as long.
        w.ns[0] = 0
        longest.slot = 0
        longest.ns = 0
        take_all(w, used, &longest)
        if null > longest.ns:
            emit(w, 0, null)
        elif longest.ns:
            emit(w, longest.slot, longest.ns)
    else:
        take_all(w, used, NULL)
    w.cell_rows[w.bin] = <int32_t>(w.rows - rows)
    w.cell_changes[w.bin] = w.changes
    w.changes = 0


cdef void advance(Work* w, int64_t time, Used used) noexcept nogil:
    """Write the cells of all bins that end at `time` or before; there is at least one."""
    cdef int64_t edge
    if w.stop > w.at:
        add(w, w.slot, w.stop - w.at, used)
    flush(w, used)
    w.bin += 1
    w.at = w.stop
    # In all bins but the first there was one value and no change: their cells need no tally.
    while w.bin < w.bins:
        edge = w.edges[w.bin + 1]
        if edge > time:
            w.stop = edge
            return
        w.cell_changes[w.bin] = 0
        w.cell_rows[w.bin] = edge > w.at
        if edge > w.at:
            emit(w, w.slot, edge - w.at)
        w.at = edge
        w.bin += 1


cdef inline uint64_t hashed(int64_t word) noexcept nogil:
    cdef uint64_t h = <uint64_t>word * hash_factor
    return h ^ (h >> 29)


cdef bint grow(Work* w) noexcept nogil:
    """Make room for twice as many words."""
    # Each pointer is replaced as soon as it has moved: if a later call fails, `__dealloc__` must
    # not free what `realloc` already has.
    cdef Words* words = &w.words
    cdef int32_t room = 2 * words.room, slot
    cdef uint64_t bucket, mask = 2 * <uint64_t>room - 1
    cdef int64_t* of = <int64_t*>realloc(words.of, room * sizeof(int64_t))
    if of != NULL:
        words.of = of
    cdef int64_t* ns = <int64_t*>realloc(w.listed_ns, room * sizeof(int64_t))
    if ns != NULL:
        w.ns = w.listed_ns = ns
    cdef int32_t* touched = <int32_t*>realloc(w.touched, room * sizeof(int32_t))
    if touched != NULL:
        w.touched = touched
    cdef int32_t* table = <int32_t*>calloc(mask + 1, sizeof(int32_t))
    if of == NULL or ns == NULL or touched == NULL or table == NULL:
        free(table)
        return False
    for slot in range(words.room, room):
        w.ns[slot] = 0
    for slot in range(1, words.count):
        bucket = hashed(words.of[slot]) & mask
        while table[bucket]:
            bucket = (bucket + 1) & mask
        table[bucket] = slot
    free(words.table)
    words.table = table
    words.mask = mask
    words.room = room
    return True


cdef inline int32_t slot_of(Work* w, const State* state) noexcept nogil:
    """The slot of a state's value: 0 if null, by its distance to the least, or of a listed word."""
    cdef Words* words = &w.words
    cdef uint64_t bucket
    if state.meta & 1:
        return 0
    # `rows_fault` limits the codes of files to the strings that the history has, and integers are
    # within what `Segments.bounds` returned.
    if w.used != LIST:
        return <int32_t>(<uint64_t>state.word - <uint64_t>w.low) + 1
    bucket = hashed(state.word) & words.mask
    while words.table[bucket]:
        if words.of[words.table[bucket]] == state.word:
            return words.table[bucket]
        bucket = (bucket + 1) & words.mask
    if words.count == words.room:
        if not grow(w):
            w.failed = True
            return 0
        return slot_of(w, state)
    words.of[words.count] = state.word
    words.table[bucket] = words.count
    words.count += 1
    return words.count - 1


cdef inline bint has_codes(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Whether the rows of a run have the codes of strings, or of integers from an origin on."""
    return s.payload == NULL and (s.form == NULL or s.form[run] <= INTEGERS)


cdef inline int32_t code_shift(const Work* w, const Segment* s, Py_ssize_t run) noexcept nogil:
    """What to add to the code of a row to get its slot, unless it is null."""
    if s.form == NULL or s.form[run] == 0:
        return 0
    return <int32_t>(<uint64_t>s.origin[run] - <uint64_t>w.low)


cdef inline void walk(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t low, Py_ssize_t high,
    Used used, bint inline_codes,
) noexcept nogil:
    """Add the changes of rows [low, high) of a run.

    `used` and `inline_codes` are constants in each call, so the compiler makes a loop for each
    combination. Fields of `w` are locals within it, for the reason in `emit_few`, and are written
    back before `advance`, which uses and changes them.
    """
    cdef Py_ssize_t row
    cdef uint64_t packed, base = <uint64_t>s.base_ns, row_mask = s.row_mask
    cdef uint64_t code_mask = s.code_mask, few = w.few
    cdef int width = s.width, payload_bits = s.payload_bits
    cdef const uint8_t* rows = s.rows + low * width
    cdef int64_t time, at = w.at, stop = w.stop
    cdef int64_t* tally = w.ns
    cdef int32_t slot = w.slot, next_slot, changes = w.changes
    # A code in a row is the distance to its run's origin, plus one; that of a slot, to the lowest.
    cdef int32_t shift = code_shift(w, s, run) if inline_codes else 0
    cdef State state
    for row in range(low, high):
        if inline_codes:
            prefetch(rows + _AHEAD_BYTES)
            packed = load_row(rows, 0, 0, row_mask)
            rows += width
            time = <int64_t>(base + (packed >> payload_bits))
            next_slot = <int32_t>(packed & code_mask)
            next_slot = next_slot + shift if next_slot else 0
        else:
            row_state(s, run, row, &state)
            time = state.start
            next_slot = slot_of(w, &state)
            tally = w.ns
        if time >= stop:
            w.at = at
            w.slot = slot
            w.changes = changes
            w.few = few
            advance(w, time, used)
            at = w.at
            stop = w.stop
            if time > at:
                add(w, slot, time - at, used)
            few = w.few
            changes = 1
            at = time
            slot = next_slot
            continue
        # If no time has passed, this replaces the change before, which had no length. For one word
        # the bit is set all the same, since a branch here costs more than skipping it later.
        if used == WORD:
            few |= <uint64_t>1 << slot
            tally[slot] += time - at
        elif time > at:
            add(w, slot, time - at, used)
        changes += time != at
        at = time
        slot = next_slot
    w.at = at
    w.slot = slot
    w.changes = changes
    w.few = few


cdef void walk_any(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t low, Py_ssize_t high, Used used
) noexcept nogil:
    if used == LIST:
        walk(w, s, run, low, high, LIST, False)
    elif not has_codes(s, run):
        walk(w, s, run, low, high, used, False)
    elif used == WORD:
        walk(w, s, run, low, high, WORD, True)
    else:
        walk(w, s, run, low, high, BITS, True)


cdef inline int64_t since_first(const Segment* s, Py_ssize_t index) noexcept nogil:
    if s.times32 != NULL:
        return s.times32[index]
    return <int64_t>s.times64[index]


cdef void leap(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t entry, Py_ssize_t low, Py_ssize_t high,
    Used used,
) noexcept nogil:
    """Do as `walk`, but add whole blocks of rows at once where they are within a bin.

    Block j begins at row j << step of the run. For the start of each block but the first, the
    pyramid has how long each value had lasted since the run's first row. So any number of adjacent
    blocks is one subtraction per value.
    """
    cdef Py_ssize_t begin = s.offsets[run], block, first, last, middle, end, row = low, index
    cdef int step = s.step[entry], i, values
    cdef const uint32_t* fields = s.values + s.value_offset[entry]
    cdef int32_t[64] slots
    cdef int64_t ns
    cdef State state
    values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    for i in range(values):
        state.meta = 0
        # The row is only used for stored numbers, and their runs have no times (`pyramid_fault`).
        set_value(s, run, 0, fields[i], &state)
        slots[i] = slot_of(w, &state)
    # The last block whose first row is before `high`.
    end = (high - 1 - begin) >> step
    while row < high and not w.failed:
        first = (row - begin + (<Py_ssize_t>1 << step) - 1) >> step
        if first >= end:
            walk_any(w, s, run, row, high, used)
            return
        # Up to and with the first row of a block: `w.at` is then the time its sums count from.
        walk_any(w, s, run, row, begin + (first << step) + 1, used)
        row = begin + (first << step) + 1
        last = first
        block = end
        # The last block that begins before the bin ends; often it is the run's last.
        if row_time(s, begin + (end << step)) < w.stop:
            last = end
        while last < block:
            middle = last + (block - last + 1) // 2
            if row_time(s, begin + (middle << step)) < w.stop:
                last = middle
            else:
                block = middle - 1
        if last == first:
            continue
        for i in range(values):
            index = s.time_offset[entry] + (last - 1) * values + i
            ns = since_first(s, index)
            if first:
                ns -= since_first(s, index - (last - first) * values)
            if ns:
                add(w, slots[i], ns, used)
        # Each row is a change, since runs in which one replaces another have no times.
        w.changes += <int32_t>((last - first) << step)
        row_state(s, run, begin + (last << step), &state)
        w.at = state.start
        w.slot = slot_of(w, &state)
        row = begin + (last << step) + 1


cdef inline bint worth(
    const Work* w, const Segment* s, Py_ssize_t low, Py_ssize_t high, int step
) noexcept nogil:
    """Whether a bin has several blocks of these rows."""
    # Doubles are exact enough: either way the answer is the same, only the time it takes differs.
    cdef double bins, rows = <double>(high - low)
    if high - low <= <Py_ssize_t>2 << step:
        return False
    bins = <double>(<uint64_t>row_time(s, high - 1) - <uint64_t>row_time(s, low))
    bins *= <double>w.bins / <double>(<uint64_t>w.edges[w.bins] - <uint64_t>w.edges[0])
    return rows > 3.0 * <double>(<Py_ssize_t>1 << step) * (bins if bins > 1.0 else 1.0)


cdef void lane(
    Work* w, Segments segments, int32_t quark, Py_ssize_t first, Py_ssize_t last, Used used
) noexcept nogil:
    """Write all cells of one attribute."""
    cdef State state
    cdef Cursor cursor
    cdef Segment* s
    cdef Py_ssize_t k, run, low, high, entry, timed, near = 0, end_segment = last
    cdef int64_t start = w.edges[0], end = w.edges[w.bins]
    segments.locate(quark, start, &state, &cursor)
    w.slot = slot_of(w, &state)
    w.at = start
    w.bin = 0
    w.stop = w.edges[1]
    # A change at the very start counts, but no state since the history began is not a change.
    w.changes = state.start == start and not (state.meta & 1 and start == segments.start_ns)
    if quark < segments._first.shape[0] and segments._first[quark] >= 0:
        first = max(first, segments._first[quark])
        last = min(last, segments._last[quark])
    else:
        last = first - 1
    for k in range(first, last + 1):
        s = &segments._segments[k]
        run = find_run(s, quark, near)
        if run < 0:
            continue
        near = run
        low = s.offsets[run]
        high = s.offsets[run + 1]
        if low == high:
            continue
        if start >= s.base_ns:
            low = first_after(s, low, high, start)
        if k == end_segment:
            high = first_after(s, low, high, end - 1)
        timed = published_count(&s.timed)
        if timed:
            entry = entry_of(s.timed_run, timed, run)
            if entry >= 0 and high > low and worth(w, s, low, high, s.step[entry]):
                leap(w, s, run, entry, low, high, used)
                if w.failed:
                    return
                continue
        walk_any(w, s, run, low, high, used)
        if w.failed:
            return
    advance(w, end, used)


@final
cdef class Tally:
    """Sums the time per value within each bin of each attribute, attribute after attribute.

    Rows go to `slot` (uint8 or int32) and `ns` (uint32 or int64), cell by cell; how many each cell
    has, to `cell_rows`, and how many changes, to `cell_changes`. The caller provides room for one
    row per interval, one per cell, and one more. Those of a cell are in order of their values, null
    first. With `longest` there is only the one with the most time; if several have it, the first of
    them that is not null.

    Slot 0 is null. An attribute with `slots` above 0 has that many, of which slot i is the value
    whose word is `low` + i - 1: the codes of strings, or the integers of a small range. One with
    none has its numbers listed: slot i is word i - 1 of `words`.

    Attributes:
        rows: How many rows were written.
    """

    cdef Work w
    cdef const int64_t[::1] _edges, _low
    cdef const int32_t[::1] _slots
    cdef object _slot, _ns
    cdef int32_t[:, ::1] _cell_rows, _cell_changes
    cdef Py_ssize_t _lanes

    def __cinit__(self):
        memset(&self.w, 0, sizeof(Work))

    def __init__(
        self,
        const int64_t[::1] edges,
        const int64_t[::1] low,
        const int32_t[::1] slots,
        bint longest,
        slot,
        ns,
        int32_t[:, ::1] cell_rows,
        int32_t[:, ::1] cell_changes,
    ):
        cdef Work* w = &self.w
        cdef uint8_t[::1] slot8
        cdef int32_t[::1] slot32
        cdef uint32_t[::1] ns32
        cdef int64_t[::1] ns64
        # `w` has pointers into these arrays, which therefore must live as long as it does.
        self._edges = edges
        self._low, self._slots = low, slots
        self._slot = slot
        self._ns = ns
        self._cell_rows = cell_rows
        self._cell_changes = cell_changes
        self._lanes = 0
        if len(slot) and slot.dtype == np.uint8:
            slot8 = slot
            w.slot8 = &slot8[0]
        elif len(slot):
            slot32 = slot
            w.slot32 = &slot32[0]
        if len(ns) and ns.dtype == np.uint32:
            ns32 = ns
            w.ns32 = &ns32[0]
        elif len(ns):
            ns64 = ns
            w.ns64 = &ns64[0]
        w.longest = longest
        w.bins = edges.shape[0] - 1
        w.edges = &edges[0]
        self._allocate(np.max(slots, initial=1), np.min(slots, initial=1) == 0)

    cdef _allocate(self, int32_t slots, bint listed):
        """Make room for so many slots, and for listed numbers if there may be some."""
        cdef Work* w = &self.w
        w.tops = (slots >> 18) + 1
        w.coded = <int64_t*>calloc(max(slots, _FEW), sizeof(int64_t))
        w.tops_used = <uint64_t*>calloc(w.tops, sizeof(uint64_t))
        w.words_used = <uint64_t*>calloc(64 * w.tops, sizeof(uint64_t))
        w.bits = <uint64_t*>calloc((slots >> 6) + 1, sizeof(uint64_t))
        if listed:
            w.listed_ns = <int64_t*>calloc(_WORDS, sizeof(int64_t))
            w.touched = <int32_t*>malloc(_WORDS * sizeof(int32_t))
            w.words.room = _WORDS
            w.words.count = 1
            w.words.mask = 2 * _WORDS - 1
            w.words.of = <int64_t*>malloc(_WORDS * sizeof(int64_t))
            w.words.table = <int32_t*>calloc(2 * _WORDS, sizeof(int32_t))
        if (
            w.coded == NULL or w.tops_used == NULL or w.words_used == NULL or w.bits == NULL
            or (listed and (
                w.listed_ns == NULL or w.touched == NULL
                or w.words.of == NULL or w.words.table == NULL
            ))
        ):
            raise MemoryError

    def __dealloc__(self):
        free(self.w.words.of)
        free(self.w.words.table)
        free(self.w.coded)
        free(self.w.listed_ns)
        free(self.w.touched)
        free(self.w.tops_used)
        free(self.w.words_used)
        free(self.w.bits)

    @property
    def rows(self):
        return self.w.rows

    @property
    def words(self):
        """The words of listed numbers, in order of first appearance."""
        words = np.empty(max(0, self.w.words.count - 1), np.int64)
        if len(words):
            words[:] = <int64_t[:len(words)]>(self.w.words.of + 1)
        return words

    cdef void begin(self, uint8_t kind) noexcept nogil:
        """Start the next attribute."""
        cdef Work* w = &self.w
        cdef int32_t slots = self._slots[self._lanes]
        w.floats = kind == FLOAT
        w.low = self._low[self._lanes]
        w.used = LIST if slots == 0 else WORD if slots <= _FEW else BITS
        w.ns = w.listed_ns if slots == 0 else w.coded
        w.cell_rows = &self._cell_rows[self._lanes, 0]
        w.cell_changes = &self._cell_changes[self._lanes, 0]
        self._lanes += 1

    def take_segments(
        self, Segments segments, const int32_t[::1] quarks, const uint8_t[::1] kinds
    ):
        """Add the next attributes, whose values are of these types, from segments."""
        cdef Py_ssize_t i, first, last
        with nogil:
            first = segments.segment_at(self.w.edges[0])
            last = segments.segment_at(self.w.edges[self.w.bins] - 1)
            if first < 0:
                first = 0
            for i in range(quarks.shape[0]):
                self.begin(kinds[i])
                lane(&self.w, segments, quarks[i], first, last, self.w.used)
                if self.w.failed:
                    break
        if self.w.failed:
            raise MemoryError

    def take_intervals(
        self,
        int64_t birth,
        const int32_t[::1] quark,
        const int64_t[::1] start,
        const int64_t[::1] end,
        const int32_t[::1] code,
    ):
        """Add the next attributes, of strings, from their intervals.

        They are attribute by attribute, in order of time, without holes. A code of -1 is null; a
        null interval from `birth` on, where the history begins, is not a change.
        """
        cdef Py_ssize_t i, n = quark.shape[0]
        cdef int64_t begin = self.w.edges[0], stop = self.w.edges[self.w.bins]
        cdef State state
        cdef Work* w = &self.w
        with nogil:
            for i in range(n):
                if i == 0 or quark[i] != quark[i - 1] or start[i] != end[i - 1]:
                    if i:
                        advance(w, stop, w.used)
                    self.begin(STR)
                    w.at = begin
                    w.bin = 0
                    w.stop = w.edges[1]
                    w.changes = start[i] == begin and not (code[i] < 0 and begin == birth)
                else:
                    if start[i] >= w.stop:
                        advance(w, start[i], w.used)
                    if start[i] > w.at:
                        add(w, w.slot, start[i] - w.at, w.used)
                    w.at = start[i]
                    w.changes += 1
                state.word = code[i]
                state.meta = code[i] < 0
                w.slot = slot_of(w, &state)
                if w.failed:
                    break
            if n and not w.failed:
                advance(w, stop, w.used)
        if w.failed:
            raise MemoryError
