"""Time per value and part of a range, read from the rows of segments; exact."""

from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

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

cdef extern from "numbers.h":
    ctypedef struct numbers_of:
        int some
    void numbers_item(numbers_of*, int64_t, uint64_t) noexcept nogil
    void numbers_clear(numbers_of*, int) noexcept nogil
    double numbers_least(const numbers_of*) noexcept nogil
    double numbers_greatest(const numbers_of*) noexcept nogil
    double numbers_total(const numbers_of*) noexcept nogil

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    #define prefetch(at) __builtin_prefetch(at)
    #define hash_factor 0x9E3779B97F4A7C15u
    #define LONGEST_SHARED (UINT64_MAX / 255)
    #define LONGEST_RANKED (UINT64_MAX >> 6)
    static inline uint64_t wide_share(uint64_t ns, uint64_t width) {
        return (uint64_t)((unsigned __int128)ns * 255 / width);
    }
    static inline int64_t bin_edge(int64_t start, uint64_t length, int64_t bins, int64_t index) {
        unsigned __int128 scaled = (unsigned __int128)length * (uint64_t)index;
        uint64_t edge = (uint64_t)((scaled + (uint64_t)bins - 1) / (uint64_t)bins);
        return (int64_t)((uint64_t)start + edge);
    }
    """
    int64_t bin_edge(int64_t, uint64_t, int64_t, int64_t) noexcept nogil
    int lowest_bit(uint64_t) noexcept nogil
    void prefetch(const void*) noexcept nogil
    uint64_t hash_factor
    uint64_t LONGEST_SHARED
    uint64_t LONGEST_RANKED
    uint64_t wide_share(uint64_t, uint64_t) noexcept nogil

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
    # Up to this many slots are the bits of one word, and values of a run have durations.
    _FEW = 64
    # Runs with longer codes have no durations: see `CODE_BITS` in pyramid.pyx.
    _CODES = 1 << 22
    # So many rows are read faster than the sums at the two edges of a bin.
    _NEAR = 16
    # The blocks of runs with at most so many are listed by when they begin.
    _LISTED = 127
    # For so many edges of bins it is decided ahead how they are computed; a power of two.
    _PLANS = 16
    # A tile has so many states of each cell, and the sum of all others.
    _TOP = 3
    _SHARES = 5
    _FULL = 255
    # A quark has totals from so many rows on.
    _TOTALLED = 1024
    # The index of the value before the first row.
    _NONE = 255
    # Runs without durations are read from their beginning if they have at most so many rows.
    _SHORT_RUN = 256
    # For so many edges ahead memory is fetched: first sums, then rows. The sum is at most _PLANS.
    _ROWS_AHEAD = 4
    _SUMS_AHEAD = 8
    # The block of an edge is mostly so near to where even changes would have it.
    _NEARBY = 6
    # An overview takes at most a quarter of the bytes of the rows: 5 or so each.
    _ROW_BYTES = 5
    # So many rows of a cell of an overview are read faster than a block is found.
    _NEAR_CELL = 64
    # The cells that a query of an overview needs at least, and how far ahead those are fetched.
    _OVERVIEWED = 4
    _CELLS_AHEAD = 12
    # A query computes overviews if its range is at least so large a part of that of the totals.
    _OVERVIEW_PART = 8
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


cdef struct States:
    # The states of a tile, by code: their words and types. `table` is a hash table of codes plus
    # one, with linear probing and twice as many buckets as `room`.
    int64_t* word
    uint8_t* kind
    int32_t* table
    uint64_t mask
    int32_t count
    int32_t room


cdef struct Spot:
    # Where the rows of a quark in a segment are, so that the index of the segment need not be read:
    # it is in other memory for each of its arrays. `kind` is one of the following; `sums` is where
    # the run's times begin. The code of a value is its word minus `before`.
    int64_t time
    int64_t before
    uint32_t begin
    uint32_t end
    uint32_t sums
    uint8_t kind
    uint8_t step


# Not described; no rows; or rows with the durations of all values of the quark, whose codes follow
# from their words.
cdef enum Kind:
    OTHER = 0
    EMPTY = 1
    WHOLE = 2


cdef struct Overview:
    # How long a quark had had each of its values at multiples of 2^shift ns, from `first` times
    # that on, and how many changes there were, modulo 2^32: `stride` numbers each. Those before
    # `known` are before the first row. The numbers of a `wide` one have 64 bits. It is never freed
    # before the totals are, since other threads may read it.
    Overview* next
    int shift
    int stride
    bint wide
    int64_t first
    Py_ssize_t count
    Py_ssize_t known
    uint32_t* ns32
    uint64_t* ns64
    uint32_t* changes


cdef struct LaneTotals:
    # How long a quark had had each of its values, since its first row at `origin`, where every
    # 2^shift-th segment begins, counted up to its last change before: `at`. `last` is the index of
    # the value since then, or _NONE before the first row, and `changes` how many there were.
    # Values are in the order of their slots.
    int shift
    int values
    Py_ssize_t groups
    int64_t origin
    # If `shift` is 0, by segment.
    Spot* spots
    State* value
    int64_t* ns
    int64_t* at
    int64_t* changes
    uint8_t* last
    # Of how many rows, the overviews, the latest first, and whether there can be none.
    int64_t rows
    Overview* overview
    bint without
    # How many edges of bins were asked for that no overview has.
    int64_t asked


cdef struct Stop:
    # A segment in which edges of bins are, as an attribute has it. `run` is -1 without rows, and
    # `timed` says whether their values have durations. The value `last` has lasted since the time
    # of `base` in its sums, until the first row at the latest. `same` says that its values are
    # those of the attribute; otherwise `place` has by value its index among them. With `whole`
    # they are the same, and codes follow from words as in `Spot`; otherwise codes are `fields`.
    const Segment* s
    Py_ssize_t run
    Py_ssize_t begin
    Py_ssize_t end
    Py_ssize_t sums
    Py_ssize_t blocks
    double blocks_per_ns
    int64_t time
    int64_t changes
    int64_t before
    int last
    int values
    int step
    bint timed
    bint same
    bint whole
    # Whether the times of all its blocks are listed, since they are few for so many edges.
    bint listed
    const uint32_t* fields
    uint8_t[64] place


cdef struct Work:
    # A bin's time per slot, which slots have some, and the columns that receive it at the bin's
    # end. `at` is up to when time was added, `slot` the value since then, `stop` where the bin
    # ends. `ns` is that of the attribute's slots: `coded` or `listed_ns`.
    int64_t* ns
    int64_t* coded
    int64_t* listed_ns
    Used used
    # The word of slot 1, unless slots are listed.
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
    uint8_t kind
    # By code of the run that is being read, its index among the values that have durations.
    uint8_t* index_of
    # A tile's columns instead of rows, if it is one: of the first cell of the attribute.
    uint8_t* shares
    int32_t* codes
    uint64_t width
    States states
    # By slot, the first of an attribute, the code of its state; -1 if it has not been needed yet.
    int32_t[64] slot_code
    # Or what counters need: by bin of the attribute, and the numbers of the current one.
    double* least
    double* greatest
    double* mean
    numbers_of numbers
    Py_ssize_t bin
    Py_ssize_t bins
    const int64_t* edges
    # All edges but the first and the last are multiples of 2^shift; `wide` says whether a bin
    # has 2^32 ns or more. A shift of -1 means that there are too few.
    int shift
    bint wide
    # The segments in which edges are; by edge the index among them, and by segment the sums of
    # `by_sums` where its rows begin.
    Stop* stops
    int32_t* stop_of
    int32_t* stop_segment
    uint64_t* bases
    int32_t stop_count
    uint8_t* slot8
    int32_t* slot32
    uint32_t* ns32
    int64_t* ns64
    Py_ssize_t rows
    int32_t* cell_rows
    int32_t* cell_changes
    Words words
    # By code of a string, the code of it in the history that is asked; NULL if they are the same.
    const int32_t* codes_asked


cdef inline uint64_t hashed(int64_t word) noexcept nogil:
    cdef uint64_t h = <uint64_t>word * hash_factor
    return h ^ (h >> 29)


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
    elif w.ns[slot] == 0 and w.touched_count < w.words.room:
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


cdef void translate(Work* w, Py_ssize_t first) noexcept nogil:
    """Let the rows of strings from `first` on have the codes of the history that is asked."""
    cdef const int32_t* codes = w.codes_asked
    cdef uint8_t* slot8 = w.slot8
    cdef int32_t* slot32 = w.slot32
    cdef Py_ssize_t row
    if slot8 != NULL:
        for row in range(first, w.rows):
            if slot8[row]:
                slot8[row] = <uint8_t>(codes[slot8[row] - 1] + 1)
    else:
        for row in range(first, w.rows):
            if slot32[row]:
                slot32[row] = codes[slot32[row] - 1] + 1


cdef struct Longest:
    # The slots with the most time, the longest first; `others` is the time of the rest but null.
    int32_t[3] slot
    int64_t[3] ns
    int64_t others


cdef inline void rank(Longest* longest, int32_t slot, int64_t ns) noexcept nogil:
    """Add a slot that is not null; of equals the first wins, so slots are added in order."""
    if ns <= longest.ns[2]:
        longest.others += ns
        return
    longest.others += longest.ns[2]
    if ns <= longest.ns[1]:
        longest.slot[2], longest.ns[2] = slot, ns
        return
    longest.slot[2], longest.ns[2] = longest.slot[1], longest.ns[1]
    if ns <= longest.ns[0]:
        longest.slot[1], longest.ns[1] = slot, ns
        return
    longest.slot[1], longest.ns[1] = longest.slot[0], longest.ns[0]
    longest.slot[0], longest.ns[0] = slot, ns


cdef inline uint8_t share(uint64_t ns, uint64_t width) noexcept nogil:
    """How much of a width: 255 is all, 0 nothing, and what is less than a 255th is 1."""
    cdef uint64_t part
    if ns == 0:
        return 0
    if width <= LONGEST_SHARED:
        # Most tiles have bins of a power of two: a shift instead of a division.
        part = ns * _FULL
        part = part >> lowest_bit(width) if width & (width - 1) == 0 else part // width
    else:
        part = wide_share(ns, width)
    return <uint8_t>part if part else 1


cdef bint grow_states(States* states) noexcept nogil:
    cdef int32_t room = 2 * states.room if states.room else _WORDS, code
    cdef uint64_t bucket, mask = 2 * <uint64_t>room - 1
    cdef int64_t* word = <int64_t*>realloc(states.word, room * sizeof(int64_t))
    if word != NULL:
        states.word = word
    cdef uint8_t* kind = <uint8_t*>realloc(states.kind, room)
    if kind != NULL:
        states.kind = kind
    cdef int32_t* table = <int32_t*>calloc(mask + 1, sizeof(int32_t))
    if word == NULL or kind == NULL or table == NULL:
        free(table)
        return False
    for code in range(states.count):
        bucket = (hashed(states.word[code]) + states.kind[code]) & mask
        while table[bucket]:
            bucket = (bucket + 1) & mask
        table[bucket] = code + 1
    free(states.table)
    states.table = table
    states.mask = mask
    states.room = room
    return True


cdef inline int32_t code_of(Work* w, int32_t slot) noexcept nogil:
    """The code of a tile's state, maybe new."""
    cdef States* states = &w.states
    cdef int32_t code
    cdef int64_t word
    cdef uint64_t bucket
    word = w.words.of[slot] if w.used == LIST else w.low + slot - 1
    if w.codes_asked != NULL and w.kind == STR:
        word = w.codes_asked[word]
    bucket = (hashed(word) + w.kind) & states.mask
    while states.table[bucket]:
        code = states.table[bucket] - 1
        if states.word[code] == word and states.kind[code] == w.kind:
            return code
        bucket = (bucket + 1) & states.mask
    if states.count == states.room:
        if not grow_states(states):
            w.failed = True
            return 0
        return code_of(w, slot)
    code = states.count
    states.word[code] = word
    states.kind[code] = w.kind
    states.table[bucket] = code + 1
    states.count += 1
    return code


cdef void emit_tile(Work* w, const Longest* longest) noexcept nogil:
    """Write the cell of the current bin of a tile."""
    cdef uint8_t* shares = w.shares + w.bin * _SHARES
    cdef int32_t* codes = w.codes + w.bin * _TOP
    cdef uint64_t some = <uint64_t>longest.others
    cdef int32_t slot
    cdef int i
    for i in range(_TOP):
        some += <uint64_t>longest.ns[i]
        shares[1 + i] = share(<uint64_t>longest.ns[i], w.width)
        codes[i] = 0
        if longest.ns[i]:
            slot = longest.slot[i]
            if slot >= _FEW:
                codes[i] = code_of(w, slot)
                continue
            if w.slot_code[slot] < 0:
                w.slot_code[slot] = code_of(w, slot)
            codes[i] = w.slot_code[slot]
    shares[0] = share(w.width - some, w.width)
    shares[_SHARES - 1] = share(<uint64_t>longest.others, w.width)


cdef inline void emit_longest(Work* w, const Longest* longest, int64_t null) noexcept nogil:
    if null > longest.ns[0]:
        emit(w, 0, null)
    elif longest.ns[0]:
        emit(w, longest.slot[0], longest.ns[0])


cdef inline void add_number(Work* w, int32_t slot, int64_t ns) noexcept nogil:
    if ns and slot:
        numbers_item(&w.numbers, w.low + slot - 1, <uint64_t>ns)


cdef void emit_numbers(Work* w) noexcept nogil:
    """Write the cell of the current bin of counters, unless it has no number."""
    if w.numbers.some:
        w.least[w.bin] = numbers_least(&w.numbers)
        w.greatest[w.bin] = numbers_greatest(&w.numbers)
        w.mean[w.bin] = numbers_total(&w.numbers) / (
            <double>(<uint64_t>w.edges[w.bin + 1] - <uint64_t>w.edges[w.bin])
        )
        numbers_clear(&w.numbers, False)


cdef inline void emit_one(Work* w, int32_t slot, int64_t ns) noexcept nogil:
    """Write the cell of a bin in which there is one value."""
    cdef Longest longest
    if w.least != NULL:
        add_number(w, slot, ns)
        emit_numbers(w)
        return
    if w.shares == NULL:
        w.cell_rows[w.bin] = ns > 0
        if ns > 0:
            emit(w, slot, ns)
        return
    memset(&longest, 0, sizeof(Longest))
    if slot:
        longest.slot[0] = slot
        longest.ns[0] = ns
    emit_tile(w, &longest)


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


cdef inline void take(Work* w, int32_t slot, Py_ssize_t most, Longest* longest) noexcept nogil:
    """Write a slot and its time, or compare it with the longest; `flush` handles null itself."""
    cdef int64_t ns = w.ns[slot]
    w.ns[slot] = 0
    if longest == NULL:
        if w.rows < most:
            emit(w, slot, ns)
    elif w.longest:
        longest.slot[0] = slot if ns > longest.ns[0] else longest.slot[0]
        longest.ns[0] = ns if ns > longest.ns[0] else longest.ns[0]
    elif w.least != NULL:
        add_number(w, slot, ns)
    else:
        rank(longest, slot, ns)


cdef inline void take_all(Work* w, Used used, Py_ssize_t most, Longest* longest) noexcept nogil:
    """Process the slots with time, in order."""
    cdef Py_ssize_t i
    cdef uint64_t bits = w.few, words, tops
    cdef int32_t word, top
    if used == WORD:
        w.few = 0
        if longest == NULL:
            emit_few(w, bits)
            return
        while bits:
            take(w, lowest_bit(bits), most, longest)
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
                        take(w, 64 * word + lowest_bit(bits), most, longest)
                        bits &= bits - 1
    else:
        sort_touched(w)
        for i in range(w.touched_count):
            take(w, w.touched[i], most, longest)
        w.touched_count = 0


cdef inline void flush(Work* w, Used used) noexcept nogil:
    """Write the cell of the current bin."""
    # A cell has the value at its start and one per change. Sums in a file may say otherwise: what
    # is beyond that is not written, since there is no room for it.
    cdef Py_ssize_t rows = w.rows, most = w.rows + w.changes + 1
    cdef Longest longest
    cdef int64_t null = w.ns[0]
    if w.longest or w.shares != NULL or w.least != NULL:
        # Null comes first, but loses against any value that lasted as long.
        w.ns[0] = 0
        memset(&longest, 0, sizeof(Longest))
        take_all(w, used, most, &longest)
        if w.least != NULL:
            emit_numbers(w)
        elif w.shares != NULL:
            emit_tile(w, &longest)
        else:
            emit_longest(w, &longest, null)
    else:
        take_all(w, used, most, NULL)
        w.rows = min(w.rows, most)
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
        emit_one(w, w.slot, edge - w.at)
        w.at = edge
        w.bin += 1


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


cdef struct Sums:
    # Up to a time: how long each value of a run had lasted since the run's first row, the code of
    # the state at that time, and the first row that does not begin before it.
    uint64_t[64] ns
    uint32_t code
    Py_ssize_t row


cdef inline uint64_t block_time(const Segment* s, Py_ssize_t entry, Py_ssize_t block) noexcept nogil:
    """When a block begins, since the first row of its run: that is the sum of all durations."""
    cdef Py_ssize_t values = s.value_offset[entry + 1] - s.value_offset[entry], i
    cdef Py_ssize_t first = s.time_offset[entry] + (block - 1) * values
    cdef uint64_t time = 0
    if block == 0:
        return 0
    if s.times32 != NULL:
        for i in range(first, first + values):
            time += s.times32[i]
    else:
        for i in range(first, first + values):
            time += s.times64[i]
    return time


cdef Py_ssize_t block_at(
    const Segment* s, Py_ssize_t entry, Py_ssize_t blocks, uint64_t since, uint64_t length
) noexcept nogil:
    """The last block that begins before a time since the first row, or the first block.

    Only the sums are read, not the rows, which are further apart. `length` is how long the run
    lasts; most changes are about evenly distributed, so the guess is often right.
    """
    cdef Py_ssize_t low, high, jump = 1, middle
    low = <Py_ssize_t>(<double>since / (<double>length + 1) * <double>(blocks + 1))
    if low > blocks:
        low = blocks
    # `low` begins before the time, and `high` does not.
    if low and block_time(s, entry, low) >= since:
        high = low
        low -= 1
        while low > 0 and block_time(s, entry, low) >= since:
            high = low
            low = max(0, low - jump)
            jump *= 2
    else:
        high = low + 1
        while high <= blocks and block_time(s, entry, high) < since:
            low = high
            high += jump
            jump *= 2
        high = min(high, blocks + 1)
    while high - low > 1:
        middle = low + (high - low) // 2
        if block_time(s, entry, middle) < since:
            low = middle
        else:
            high = middle
    return low


cdef struct Plan:
    # From which block on the sums at a time are computed, and whether it is the one before. Or from
    # which cell of an overview on, unless `cell` is -1, which begins before row `block`.
    Py_ssize_t block
    bint before
    Py_ssize_t cell


cdef inline void plan_sums(
    const Segment* s, Py_ssize_t run, Py_ssize_t entry, uint64_t since, uint64_t length, Plan* plan
) noexcept nogil:
    """Find the block that begins nearest to a time since the first row, and fetch its rows."""
    cdef Py_ssize_t blocks = (s.offsets[run + 1] - s.offsets[run] - 1) >> s.step[entry]
    plan.block = block_at(s, entry, blocks, since, length)
    plan.before = plan.block == blocks or (
        block_time(s, entry, plan.block + 1) - since >= since - block_time(s, entry, plan.block)
    )
    finish_plan(s, run, entry, plan)


cdef inline Py_ssize_t plan_next(
    const Segment* s, Py_ssize_t run, Py_ssize_t entry, uint64_t since, const uint64_t* times,
    Py_ssize_t blocks, Py_ssize_t block, Plan* plan,
) noexcept nogil:
    """Do the same for a time that is not before `block`; return the last block that begins before.

    `times` is when each of the blocks begins.
    """
    while block < blocks and times[block + 1] < since:
        block += 1
    plan.block = block
    plan.before = block == blocks or times[block + 1] - since >= since - times[block]
    finish_plan(s, run, entry, plan)
    return block


cdef inline void finish_plan(
    const Segment* s, Py_ssize_t run, Py_ssize_t entry, Plan* plan
) noexcept nogil:
    cdef const uint8_t* rows
    # Otherwise `sums_at` waits for memory most of the time.
    if plan.before:
        rows = s.rows + (s.offsets[run] + (plan.block << s.step[entry])) * s.width
        prefetch(rows)
        prefetch(rows + 64)
        prefetch(rows + 128)
    else:
        plan.block += 1
        rows = s.rows + (s.offsets[run] + (plan.block << s.step[entry])) * s.width
        prefetch(rows)
        prefetch(rows - 64)
        prefetch(rows - 128)


cdef void sums_at(
    const Segment* s, const uint8_t* index_of, Py_ssize_t run, Py_ssize_t entry, uint64_t relative,
    const Plan* plan, Sums* sums,
) noexcept nogil:
    """Sum up a run to a time that is not before its first row, and counts from the segment's base.

    Block j begins at row j << step of the run. For the start of each block but the first, the
    pyramid has how long each value had lasted since the first row. What is between the time and the
    planned start is added or subtracted, row by row.
    """
    cdef Py_ssize_t begin = s.offsets[run], end = s.offsets[run + 1], row
    cdef int step = s.step[entry]
    cdef int values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    cdef uint64_t packed, at, after
    cdef uint32_t code
    row = begin + (plan.block << step)
    if not plan.before:
        fill_sums(s, entry, plan.block, values, sums)
        after = relative_time(s, row)
        # Sums that do not match the rows give wrong times, but no row outside the run.
        while after >= relative and row > begin:
            row -= 1
            packed = load_row(s.rows, row, s.width, s.row_mask)
            at = packed >> s.payload_bits
            code = <uint32_t>(row_field(s, row, packed))
            sums.ns[index_of[code]] -= after - (at if at > relative else relative)
            after = at
            if at < relative:
                sums.code = code
                sums.row = row + 1
                return
    fill_sums(s, entry, (row - begin) >> step, values, sums)
    row = begin + (((row - begin) >> step) << step)
    packed = load_row(s.rows, row, s.width, s.row_mask)
    at = packed >> s.payload_bits
    code = <uint32_t>(row_field(s, row, packed))
    row += 1
    while row < end:
        packed = load_row(s.rows, row, s.width, s.row_mask)
        after = packed >> s.payload_bits
        if after >= relative:
            break
        sums.ns[index_of[code]] += after - at
        at = after
        code = <uint32_t>(row_field(s, row, packed))
        row += 1
    sums.ns[index_of[code]] += relative - at
    sums.code = code
    sums.row = row


cdef inline void prefetch_run(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Fetch what `lane` reads first of a run that a segment probably has."""
    cdef Py_ssize_t entry
    if run >= s.runs:
        return
    prefetch(s.rows + s.offsets[run] * s.width)
    prefetch(s.rows + s.offsets[run + 1] * s.width - 64)
    if run < published_count(&s.timed):
        prefetch(&s.values[s.value_offset[run]])
        entry = s.time_offset[run + 1]
        if s.times32 != NULL:
            prefetch(&s.times32[entry] - 16)
        else:
            prefetch(&s.times64[entry] - 8)


cdef inline void prefetch_index(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Fetch what `prefetch_run` reads."""
    if run >= s.runs:
        return
    prefetch(&s.offsets[run])
    prefetch(&s.quarks[run])
    if run < published_count(&s.timed):
        prefetch(&s.timed_run[run])
        prefetch(&s.value_offset[run])
        prefetch(&s.time_offset[run])
        prefetch(&s.step[run])


cdef inline uint64_t relative_time(const Segment* s, Py_ssize_t row) noexcept nogil:
    return load_row(s.rows, row, s.width, s.row_mask) >> s.payload_bits


cdef inline uint64_t row_field(const Segment* s, Py_ssize_t row, uint64_t packed) noexcept nogil:
    """The code of a value in a row."""
    if s.payload != NULL:
        return s.payload[row] & s.code_mask
    return packed & s.code_mask


cdef inline void fill_sums(
    const Segment* s, Py_ssize_t entry, Py_ssize_t block, int values, Sums* sums
) noexcept nogil:
    cdef Py_ssize_t first = s.time_offset[entry] + (block - 1) * values
    cdef int i
    if block == 0:
        memset(sums.ns, 0, values * sizeof(uint64_t))
    elif s.times32 != NULL:
        for i in range(values):
            sums.ns[i] = s.times32[first + i]
    else:
        for i in range(values):
            sums.ns[i] = s.times64[first + i]


cdef inline int run_values(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t entry, int32_t* slots
) noexcept nogil:
    """Number the values of a run that have durations, and find their slots."""
    cdef const uint32_t* fields = s.values + s.value_offset[entry]
    cdef int i, values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    cdef State state
    for i in range(values):
        state.meta = 0
        # The row is only used for stored numbers, and their runs have no times (`pyramid_fault`).
        set_value(s, run, 0, fields[i], &state)
        slots[i] = slot_of(w, &state)
        # Codes above the mask are in no row.
        if fields[i] <= s.code_mask:
            w.index_of[fields[i]] = <uint8_t>i
    return values


cdef inline void rank_sums(
    const int32_t* slots, const uint64_t* since, const uint64_t* until, int first, int values,
    Longest* longest,
) noexcept nogil:
    """Do as `rank` with all values; without branches, half of which would be mispredicted.

    A time and the index of its value are one number, which is greater for the earlier of equals.
    """
    cdef uint64_t key, less, total = 0, one = 0, two = 0, three = 0
    cdef int i
    for i in range(first, values):
        key = until[i] - since[i]
        total += key
        key = (key << 6) | <uint64_t>(63 - i)
        less = key if key < one else one
        one = key if key > one else one
        key = less if less < two else two
        two = less if less > two else two
        three = key if key > three else three
    longest.slot[0], longest.ns[0] = slots[63 - (one & 63)], <int64_t>(one >> 6)
    longest.slot[1], longest.ns[1] = slots[63 - (two & 63)], <int64_t>(two >> 6)
    longest.slot[2], longest.ns[2] = slots[63 - (three & 63)], <int64_t>(three >> 6)
    longest.others = <int64_t>(total - (one >> 6) - (two >> 6) - (three >> 6))


cdef inline void emit_sums(
    Work* w, const int32_t* slots, const uint64_t* since, const uint64_t* until, int values
) noexcept nogil:
    """Write the cell of the current bin, whose times are the differences of two sums."""
    # As in `emit_few`: locals, and a row is written before it is clear whether it counts.
    cdef uint8_t* slot8 = w.slot8
    cdef int32_t* slot32 = w.slot32
    cdef uint32_t* ns32 = w.ns32
    cdef int64_t* ns64 = w.ns64
    cdef Py_ssize_t rows = w.rows
    cdef uint64_t ns
    cdef int64_t null = 0, most = 0
    cdef Longest longest
    cdef int i, best = 0
    if w.least != NULL:
        for i in range(values):
            add_number(w, slots[i], <int64_t>(until[i] - since[i]))
        emit_numbers(w)
    elif w.longest or w.shares != NULL:
        memset(&longest, 0, sizeof(Longest))
        if slots[0] == 0:
            # Null comes first.
            null = <int64_t>(until[0] - since[0])
        if w.shares != NULL and w.width <= LONGEST_RANKED:
            rank_sums(slots, since, until, slots[0] == 0, values, &longest)
            emit_tile(w, &longest)
            return
        if w.shares != NULL:
            for i in range(slots[0] == 0, values):
                rank(&longest, slots[i], <int64_t>(until[i] - since[i]))
            emit_tile(w, &longest)
            return
        for i in range(slots[0] == 0, values):
            # Without branches, half of which would be mispredicted.
            ns = until[i] - since[i]
            best = i if <int64_t>ns > most else best
            most = <int64_t>ns if <int64_t>ns > most else most
        longest.slot[0] = slots[best]
        longest.ns[0] = most
        emit_longest(w, &longest, null)
    elif slot8 != NULL and ns32 != NULL:
        for i in range(values):
            ns = until[i] - since[i]
            slot8[rows] = <uint8_t>slots[i]
            ns32[rows] = <uint32_t>ns
            rows += ns != 0
        w.rows = min(rows, w.rows + w.changes + 1)
    else:
        for i in range(values):
            ns = until[i] - since[i]
            if slot8 != NULL:
                slot8[rows] = <uint8_t>slots[i]
            else:
                slot32[rows] = slots[i]
            if ns32 != NULL:
                ns32[rows] = <uint32_t>ns
            else:
                ns64[rows] = <int64_t>ns
            rows += ns != 0
        w.rows = min(rows, w.rows + w.changes + 1)


cdef inline double bins_per_ns(const Work* w) noexcept nogil:
    return <double>w.bins / <double>(<uint64_t>w.edges[w.bins] - <uint64_t>w.edges[0])


cdef void differ(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t entry, Py_ssize_t low, Py_ssize_t high,
    Used used,
) noexcept nogil:
    """Do as `walk`, but take each bin with many rows as the difference of the sums at its edges."""
    cdef Py_ssize_t row = low, end, rows
    cdef int32_t[64] slots
    cdef Sums[2] both
    cdef Sums* since = &both[0]
    cdef Sums* until = &both[1]
    cdef int64_t last_time = row_time(s, high - 1)
    cdef uint64_t first = relative_time(s, s.offsets[run])
    cdef uint64_t last = relative_time(s, s.offsets[run + 1] - 1)
    cdef uint64_t base = <uint64_t>s.base_ns, since_time
    cdef Plan plan
    cdef Plan[_PLANS] plans
    cdef Py_ssize_t planned = 0, block = 0, j
    cdef Py_ssize_t blocks = (s.offsets[run + 1] - s.offsets[run] - 1) >> s.step[entry]
    cdef uint64_t[_LISTED + 1] times
    cdef bint listed = False
    cdef bint known = False, beyond
    cdef int values, i
    cdef State state
    # Also those of codes that a damaged pyramid lacks.
    memset(slots, 0, sizeof(slots))
    values = run_values(w, s, run, entry, slots)
    if blocks <= _LISTED and (last_time - w.at) * bins_per_ns(w) * 4.0 > blocks:
        # Enough bins for a list of when blocks begin.
        listed = True
        for j in range(blocks + 1):
            times[j] = block_time(s, entry, j)
    if row == s.offsets[run]:
        walk_any(w, s, run, row, row + 1, used)
        row += 1
    while row < high and not w.failed:
        if row + _NEAR >= high or row_time(s, row + _NEAR) >= w.stop:
            end = min(row + _NEAR, high)
            # To `walk` a row at the time up to which it has added replaces the change before.
            w.changes += known and row_time(s, row) == w.at
            walk_any(w, s, run, row, end, used)
            row = end
            known = False
            continue
        if not known:
            since_time = <uint64_t>w.at - base
            plan_sums(s, run, entry, since_time - first, last - first, &plan)
            sums_at(s, w.index_of, run, entry, since_time, &plan, since)
            known = True
        # The last bin ends after all rows.
        beyond = last_time < w.stop or w.bin + 1 >= w.bins
        if beyond:
            plan_sums(s, run, entry, <uint64_t>last_time - base - first, last - first, &plan)
            sums_at(s, w.index_of, run, entry, <uint64_t>last_time - base, &plan, until)
        else:
            # Several ahead, since memory answers many requests in the time of one.
            planned = max(planned, w.bin)
            while (
                planned < w.bins - 1 and planned < w.bin + _SUMS_AHEAD
                and w.edges[planned + 1] <= last_time
            ):
                since_time = <uint64_t>w.edges[planned + 1] - base - first
                if listed:
                    block = plan_next(
                        s, run, entry, since_time, times, blocks, block,
                        &plans[planned & (_PLANS - 1)],
                    )
                else:
                    plan_sums(
                        s, run, entry, since_time, last - first, &plans[planned & (_PLANS - 1)]
                    )
                planned += 1
            sums_at(
                s, w.index_of, run, entry, <uint64_t>w.stop - base, &plans[w.bin & (_PLANS - 1)],
                until,
            )
        # Within the run, whatever a damaged pyramid says.
        rows = high - row if beyond else min(max(until.row, row), high) - row
        w.changes += <int32_t>rows
        row += rows
        if beyond or w.at != w.edges[w.bin]:
            for i in range(values):
                if until.ns[i] != since.ns[i]:
                    add(w, slots[i], <int64_t>(until.ns[i] - since.ns[i]), used)
            if beyond:
                # The value of the run's last row need not have a duration.
                row_state(s, run, high - 1, &state)
                w.at = last_time
                w.slot = slot_of(w, &state)
                return
            flush(w, used)
        else:
            # Nothing was added to the bin before.
            end = w.rows
            emit_sums(w, slots, since.ns, until.ns, values)
            w.cell_rows[w.bin] = <int32_t>(w.rows - end)
            w.cell_changes[w.bin] = w.changes
            w.changes = 0
        w.at = w.stop
        w.bin += 1
        w.stop = w.edges[w.bin + 1]
        w.slot = slots[w.index_of[until.code] & 63]
        since, until = until, since


cdef inline bint worth(
    const Work* w, const Segment* s, Py_ssize_t low, Py_ssize_t high
) noexcept nogil:
    """Whether a bin has so many of these rows that their sums are found faster than they add up."""
    # Doubles are exact enough: either way the answer is the same, only the time it takes differs.
    cdef double bins, rows = <double>(high - low)
    if high - low <= 2 * _NEAR:
        return False
    bins = <double>(<uint64_t>row_time(s, high - 1) - <uint64_t>row_time(s, low))
    bins *= bins_per_ns(w)
    return rows > 1.0 * _NEAR * (bins if bins > 1.0 else 1.0)


cdef inline Py_ssize_t timed_entry(const Segment* s, Py_ssize_t run) noexcept nogil:
    """The index of a run among those whose values have durations; -1 if it is not one of them."""
    cdef Py_ssize_t timed = published_count(&s.timed)
    if not timed or s.code_mask >= _CODES:
        return -1
    return entry_of(s.timed_run, timed, run)


cdef inline bint state_before(const State* one, const State* other, bint floats) noexcept nogil:
    """Whether a value comes before another one in a cell, as `before` and slots have it."""
    cdef int64_t word = one.word, other_word = other.word
    if one.meta & 1 or other.meta & 1:
        return one.meta & 1 and not other.meta & 1
    if floats and word < 0:
        word ^= INT64_MAX
    if floats and other_word < 0:
        other_word ^= INT64_MAX
    return word < other_word


cdef inline int place_of(const LaneTotals* totals, const State* state, int first) noexcept nogil:
    """The index of a value among those of an attribute, from `first` on; -1 if it is not there."""
    cdef int i
    for i in range(first, totals.values):
        if totals.value[i].word == state.word and totals.value[i].meta == (state.meta & 1):
            return i
    return -1


cdef bint read_rows(
    const LaneTotals* totals, const Stop* stop, Py_ssize_t row, int64_t until, uint64_t* ns,
    int64_t* at, int* last, int64_t* changes,
) noexcept nogil:
    """Add the states from a row on until a time, or to the last row; False for unknown values.

    `at`, `last` and `changes` are those before the row, and then those after the last one.
    """
    cdef State state
    while row < stop.end:
        row_state(stop.s, stop.run, row, &state)
        if state.start >= until:
            return True
        if last[0] == _NONE:
            changes[0] += 1
        elif state.start != at[0]:
            ns[last[0]] += <uint64_t>state.start - <uint64_t>at[0]
            changes[0] += 1
        at[0] = state.start
        last[0] = place_of(totals, &state, 0)
        if last[0] < 0:
            return False
        row += 1
    return True


cdef bint open_stop(
    const LaneTotals* totals, const Segment* s, int32_t quark, Py_ssize_t near, Stop* stop
) noexcept nogil:
    """Find the rows that an attribute has in a segment; False if it has values not in `totals`."""
    cdef int i, place = 0
    cdef Py_ssize_t entry
    cdef State state
    stop.s = s
    stop.timed = stop.whole = False
    stop.run = find_run(s, quark, near)
    if stop.run < 0:
        return True
    stop.begin = s.offsets[stop.run]
    stop.end = s.offsets[stop.run + 1]
    if stop.begin == stop.end:
        stop.run = -1
        return True
    entry = timed_entry(s, stop.run)
    if entry < 0:
        return True
    stop.timed = True
    stop.fields = s.values + s.value_offset[entry]
    stop.values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    stop.step = s.step[entry]
    stop.sums = s.time_offset[entry]
    stop.blocks = (stop.end - stop.begin - 1) >> stop.step
    # Both are in the same order.
    for i in range(stop.values):
        state.meta = 0
        set_value(s, stop.run, 0, stop.fields[i], &state)
        place = place_of(totals, &state, place)
        if place < 0:
            return False
        stop.place[i] = <uint8_t>place
        place += 1
    stop.same = stop.values == totals.values
    return True


cdef inline void open_spot(
    const LaneTotals* totals, const Segment* s, const Spot* spot, Stop* stop
) noexcept nogil:
    """Do the same from the description of the rows."""
    stop.s = s
    stop.timed = stop.whole = stop.same = spot.kind == WHOLE
    stop.run = -1 if spot.kind == EMPTY else 0
    stop.begin = spot.begin
    stop.end = spot.end
    stop.before = spot.before
    stop.values = totals.values
    stop.step = spot.step
    stop.sums = spot.sums
    stop.blocks = (stop.end - stop.begin - 1) >> stop.step


cdef void describe(
    const LaneTotals* totals, const Segment* s, int32_t quark, Py_ssize_t near, Spot* spot
) noexcept nogil:
    """Describe where the rows of a quark in a segment are."""
    cdef Stop stop
    cdef int i
    memset(spot, 0, sizeof(Spot))
    if not open_stop(totals, s, quark, near, &stop):
        return
    if stop.run < 0:
        spot.kind = EMPTY
        return
    spot.time = row_time(s, stop.begin)
    if not stop.timed or not stop.same or (s.form != NULL and s.form[stop.run] > INTEGERS):
        return
    spot.before = -1
    if s.form != NULL and s.form[stop.run] == INTEGERS:
        spot.before = <int64_t>(<uint64_t>s.origin[stop.run] - 1)
    for i in range(stop.values):
        # Codes above the mask are in no row, but index a table.
        if stop.fields[i] > s.code_mask:
            return
    spot.kind = WHOLE
    spot.begin, spot.end = <uint32_t>stop.begin, <uint32_t>stop.end
    spot.step, spot.sums = <uint8_t>stop.step, <uint32_t>stop.sums


cdef bint add_run(
    const LaneTotals* totals, const Stop* stop, uint64_t* ns, int64_t* at, int* last,
    int64_t* changes,
) noexcept nogil:
    """Add a whole run to the sums before it, up to its last row; False for unknown values."""
    cdef const Segment* s = stop.s
    cdef Py_ssize_t row = stop.begin
    cdef int64_t time = row_time(s, row)
    cdef State state
    cdef int i
    if last[0] != _NONE:
        ns[last[0]] += <uint64_t>time - <uint64_t>at[0]
    at[0] = time
    if stop.timed and stop.blocks > 0:
        row = stop.sums + (stop.blocks - 1) * stop.values
        for i in range(stop.values):
            ns[stop.place[i]] += s.times32[row + i] if s.times32 != NULL else s.times64[row + i]
        row = stop.begin + (stop.blocks << stop.step)
        at[0] = row_time(s, row)
        changes[0] += row - stop.begin
    row_state(s, stop.run, row, &state)
    last[0] = place_of(totals, &state, 0)
    changes[0] += 1
    return last[0] >= 0 and read_rows(totals, stop, row + 1, INT64_MAX, ns, at, last, changes)


cdef bint open_stops(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first,
    Py_ssize_t low_edge, Py_ssize_t high_edge,
) noexcept nogil:
    """Find where edges [low_edge, high_edge] of bins are; False if sums do not help there."""
    cdef Py_ssize_t i, j, k, group, near = 0
    cdef Stop* stop
    cdef Stop between
    cdef Segment* s
    cdef const Spot* spot
    cdef uint64_t* base
    cdef int64_t time
    cdef int v
    for i in range(w.stop_of[low_edge], w.stop_of[high_edge] + 1):
        stop = &w.stops[i]
        k = w.stop_segment[i]
        group = (k - first) >> totals.shift
        base = w.bases + i * totals.values
        for v in range(totals.values):
            base[v] = <uint64_t>totals.ns[group * totals.values + v]
        stop.time = totals.at[group]
        stop.last = totals.last[group]
        stop.changes = totals.changes[group]
        for j in range(first + (group << totals.shift), k):
            s = &segments._segments[j]
            if not open_stop(totals, s, quark, near, &between):
                return False
            if between.run < 0:
                continue
            near = between.run
            if not add_run(totals, &between, base, &stop.time, &stop.last, &stop.changes):
                return False
        s = &segments._segments[k]
        time = segments.end_ns
        if k + 1 < segments._count:
            time = segments._segments[k + 1].base_ns
        spot = NULL
        if totals.shift == 0 and totals.spots[group].kind != OTHER:
            spot = &totals.spots[group]
            open_spot(totals, s, spot, stop)
        elif not open_stop(totals, s, quark, near, stop):
            return False
        if stop.run < 0:
            continue
        if spot == NULL:
            near = stop.run
        if not stop.timed and stop.end - stop.begin > _SHORT_RUN:
            return False
        stop.blocks_per_ns = <double>(stop.blocks + 1) / (
            <double>(<uint64_t>time - <uint64_t>s.base_ns) + 1
        )
        stop.listed = (
            stop.timed and stop.blocks <= _LISTED and 3 * w.bins >= stop.blocks * w.stop_count
        )
        # Up to the first row.
        time = row_time(s, stop.begin) if spot == NULL else spot.time
        if stop.last != _NONE:
            base[stop.last] += <uint64_t>time - <uint64_t>stop.time
        stop.time = time
    return True


cdef bint worth_sums(const Work* w, const LaneTotals* totals, Py_ssize_t first) noexcept nogil:
    """Whether sums at the edges of bins are found faster than the rows are read."""
    # In ns, about: either way the answer is the same, only the time it takes differs.
    cdef Py_ssize_t low = w.stop_segment[0] - first, high = w.stop_segment[w.stop_count - 1] - first
    cdef double segments = <double>(high - low + 1), edge = 45.0, rows
    low >>= totals.shift
    high = min((high >> totals.shift) + 1, totals.groups)
    if high <= low:
        return False
    rows = <double>(totals.changes[high] - totals.changes[low])
    rows /= <double>((high - low) << totals.shift)
    if rows <= 64:
        edge += 3.0 * rows
    if totals.shift:
        edge += (100.0 + rows) * <double>(<Py_ssize_t>1 << (totals.shift - 1))
    return segments * (rows + 150.0) > edge * w.bins


cdef inline uint64_t stop_time(const Stop* stop, Py_ssize_t block) noexcept nogil:
    """When a block begins, since the first row of its run; as `block_time`."""
    cdef Py_ssize_t first = stop.sums + (block - 1) * stop.values, i
    cdef uint64_t time = 0
    if block == 0:
        return 0
    if stop.s.times32 != NULL:
        for i in range(first, first + stop.values):
            time += stop.s.times32[i]
    else:
        for i in range(first, first + stop.values):
            time += stop.s.times64[i]
    return time


cdef inline void fetch_sums(const Stop* stop, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Fetch the sums of blocks, of which the first has none."""
    cdef Py_ssize_t size = 4 if stop.s.times32 != NULL else 8, at
    cdef const uint8_t* sums = <const uint8_t*>stop.s.times64
    if stop.s.times32 != NULL:
        sums = <const uint8_t*>stop.s.times32
    sums += (stop.sums - stop.values) * size
    size *= stop.values
    for at in range(max(first, 1) * size, (last + 1) * size, 64):
        prefetch(sums + at)


cdef inline void fetch_rows(const Stop* stop, Plan* plan) noexcept nogil:
    """Fetch the rows next to a planned block, for which `edge_sums` would wait."""
    cdef Py_ssize_t line = 64 if plan.before else -64
    cdef const uint8_t* rows
    if not plan.before:
        plan.block += 1
    rows = stop.s.rows + (stop.begin + (plan.block << stop.step)) * stop.s.width
    prefetch(rows)
    prefetch(rows + line)
    prefetch(rows + 2 * line)


cdef inline void place_edge(const Stop* stop, uint64_t since, Plan* plan) noexcept nogil:
    """Find the block that begins nearest to a time since the first row, and fetch its rows.

    `plan.block` is the guess.
    """
    cdef Py_ssize_t block = plan.block, low, high, tries = 0
    cdef uint64_t time = stop_time(stop, block), after = 0
    if block and time >= since:
        while block and time >= since and tries < _NEARBY:
            after = time
            block -= 1
            tries += 1
            time = stop_time(stop, block)
        low = block if time < since else 0
        high = max(block, low + 1)
    else:
        while block < stop.blocks and tries < _NEARBY:
            after = stop_time(stop, block + 1)
            if after >= since:
                break
            time = after
            block += 1
            tries += 1
        low, high = block, stop.blocks + 1
    if tries == _NEARBY:
        # `low` begins before the time, or is the first; `high` does not.
        while high - low > 1:
            block = low + (high - low) // 2
            if stop_time(stop, block) < since:
                low = block
            else:
                high = block
        block = low
        time = stop_time(stop, block)
        if block < stop.blocks:
            after = stop_time(stop, block + 1)
    plan.block = block
    plan.before = block == stop.blocks or after - since >= since - time
    fetch_rows(stop, plan)


cdef inline Py_ssize_t sum_rows_after(
    const Stop* stop, const uint8_t* index_of, Py_ssize_t row, uint64_t packed, uint64_t at,
    uint64_t relative, uint64_t* ns,
) noexcept nogil:
    """Extend sums up to `at`, which is in the row before `row`, to a later time.

    `packed` is the row before. Returns the first row that does not begin before the time.
    """
    cdef const Segment* s = stop.s
    cdef int shift = s.payload_bits, width = s.width
    cdef uint64_t after, row_mask = s.row_mask
    cdef const uint8_t* rows = s.rows
    while row < stop.end:
        after = load_row(rows, row, width, row_mask)
        if after >> shift >= relative:
            break
        ns[index_of[row_field(s, row - 1, packed)]] += (after >> shift) - at
        packed = after
        at = after >> shift
        row += 1
    ns[index_of[row_field(s, row - 1, packed)]] += relative - at
    return row


cdef inline Py_ssize_t sum_rows_before(
    const Stop* stop, const uint8_t* index_of, Py_ssize_t row, uint64_t at, uint64_t relative,
    uint64_t* ns,
) noexcept nogil:
    """Reduce sums up to `at`, before which `row` is the first that does not begin, to a time before.

    Returns the same as `sum_rows_after`.
    """
    cdef const Segment* s = stop.s
    cdef int shift = s.payload_bits, width = s.width
    cdef uint64_t packed, after = at, row_mask = s.row_mask
    cdef const uint8_t* rows = s.rows
    while after >= relative and row > stop.begin:
        row -= 1
        packed = load_row(rows, row, width, row_mask)
        at = packed >> shift
        ns[index_of[row_field(s, row, packed)]] -= after - (at if at > relative else relative)
        after = at
    return row + 1 if after < relative else row


cdef inline Py_ssize_t edge_sums(
    const Stop* stop, const uint8_t* index_of, const uint64_t* base, int values, uint64_t relative,
    const Plan* plan, uint64_t* ns,
) noexcept nogil:
    """Sum up to a time after the first row; return the first row that does not begin before it.

    As `sums_at`, but by the values of the attribute.
    """
    cdef const Segment* s = stop.s
    cdef Py_ssize_t row = plan.block, first = stop.sums + (plan.block - 1) * stop.values
    cdef int i, shift = s.payload_bits
    cdef uint64_t packed
    if row == 0:
        for i in range(values):
            ns[i] = base[i]
    elif stop.same and s.times32 != NULL:
        for i in range(values):
            ns[i] = base[i] + s.times32[first + i]
    elif stop.same:
        for i in range(values):
            ns[i] = base[i] + s.times64[first + i]
    else:
        for i in range(values):
            ns[i] = base[i]
        for i in range(stop.values):
            ns[stop.place[i]] += (
                s.times32[first + i] if s.times32 != NULL else s.times64[first + i]
            )
    row = stop.begin + (row << stop.step)
    packed = load_row(s.rows, row, s.width, s.row_mask)
    if plan.before:
        return sum_rows_after(stop, index_of, row + 1, packed, packed >> shift, relative, ns)
    # Sums that do not match the rows give wrong times, but no row outside the run.
    return sum_rows_before(stop, index_of, row, packed >> shift, relative, ns)


cdef inline void number_codes(Work* w, const LaneTotals* totals, const Stop* stop) noexcept nogil:
    """Number the values of a run for `edge_sums`."""
    cdef int i
    if stop.whole:
        for i in range(totals.values):
            w.index_of[
                0 if totals.value[i].meta & 1
                else <uint64_t>totals.value[i].word - <uint64_t>stop.before
            ] = <uint8_t>i
        return
    for i in range(stop.values):
        # Codes above the mask are in no row.
        if stop.fields[i] <= stop.s.code_mask:
            w.index_of[stop.fields[i]] = stop.place[i]


cdef bint by_sums(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil:
    """Write all cells of one attribute as differences of the sums at the edges of bins.

    False if that is not possible, or not faster; then nothing was written.
    """
    cdef State state
    cdef int32_t[64] slots
    cdef int64_t counted, most
    if not worth_sums(w, totals, first):
        return False
    if not open_stops(w, segments, totals, quark, first, 0, w.bins):
        return False
    begin_sums(w, segments, totals, quark, slots, &state)
    if w.failed:
        return True
    # How many changes there are in all: sums of a damaged pyramid do not add any.
    most = changes_before(w, totals, w.bins)
    counted = changes_before(w, totals, 0)
    sum_edges(
        w, segments, totals, slots, &state, 0, w.bins, &counted, most, near_overview(w, totals), NULL
    )
    return True


cdef void begin_sums(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, int32_t* slots,
    State* state,
) noexcept nogil:
    """Find the state where the first bin begins, and the slots of all values."""
    cdef Cursor cursor
    cdef int i
    segments.locate(quark, w.edges[0], state, &cursor)
    w.slot = slot_of(w, state)
    for i in range(totals.values):
        slots[i] = slot_of(w, &totals.value[i])


cdef inline bint plan_cell(
    const Stop* stop, const Overview* near, int64_t edge, Plan* plan
) noexcept nogil:
    """Find the cell that begins nearest to an edge, after the first row, and fetch its sums."""
    cdef int64_t half = near.first << near.shift, time
    # Relative to the first cell, which is not after the edge by much: no sum overflows.
    cdef int64_t cell = ((edge - half) + (<int64_t>1 << near.shift >> 1)) >> near.shift
    if cell < near.known or cell >= near.count:
        return False
    time = (near.first + cell) << near.shift
    if time <= stop.time:
        return False
    plan.cell = cell
    plan.block = 0
    prefetch(near.ns32 + cell * near.stride)
    prefetch(near.changes + cell)
    return True


cdef inline bint plan_row(
    const Stop* stop, const Overview* near, int64_t edge, Plan* plan
) noexcept nogil:
    """Find the row where a planned cell begins, and fetch the rows next to it.

    False if it is not one of this run; then the plan is the first block.
    """
    cdef Py_ssize_t row = <uint32_t>(near.changes[plan.cell] - <uint32_t>stop.changes), line
    cdef const uint8_t* rows
    plan.before = edge >= (near.first + plan.cell) << near.shift
    if row < 1 or row > stop.end - stop.begin:
        plan.cell = -1
        return False
    plan.block = stop.begin + row
    rows = stop.s.rows + (plan.block - 1) * stop.s.width
    line = 64 if plan.before else -64
    prefetch(rows)
    prefetch(rows + line)
    return True


cdef inline Py_ssize_t near_sums(
    const Stop* stop, const Overview* near, const uint8_t* index_of, int values, uint64_t relative,
    const Plan* plan, uint64_t* ns,
) noexcept nogil:
    """Do as `edge_sums`, modulo 2^32, from where a cell of an overview begins."""
    cdef const Segment* s = stop.s
    cdef Py_ssize_t row = plan.block
    cdef int i
    cdef uint64_t packed, at
    cdef const uint32_t* sums = near.ns32 + plan.cell * near.stride
    at = <uint64_t>((near.first + plan.cell) << near.shift) - <uint64_t>s.base_ns
    for i in range(values):
        ns[i] = sums[i]
    if plan.before:
        packed = load_row(s.rows, row - 1, s.width, s.row_mask)
        return sum_rows_after(stop, index_of, row, packed, at, relative, ns)
    return sum_rows_before(stop, index_of, row, at, relative, ns)


cdef bint sum_edges(
    Work* w, Segments segments, const LaneTotals* totals, const int32_t* slots,
    const State* state, Py_ssize_t low_edge, Py_ssize_t high_edge, int64_t* counted, int64_t most,
    const Overview* near, Overview* overview,
) noexcept nogil:
    """Write the cells between edges [low_edge, high_edge]; or an overview, which has each edge.

    Sums are computed from those of `near`, unless it is NULL; its bins are shorter than 2^32 ns.
    `counted` is how many changes there were before the first edge, and then before the last.
    False if an overview is not possible.
    """
    cdef uint64_t[2][64] both
    cdef uint64_t* since = both[0]
    cdef uint64_t* until = both[1]
    cdef Plan[_PLANS] plans
    cdef Stop* stop
    cdef Stop* current = NULL
    cdef Stop* fetched = NULL
    cdef Stop* listed = NULL
    cdef uint64_t[_LISTED + 1] times
    cdef int values = totals.values, last, i
    cdef int64_t edge, at, changed
    cdef uint64_t relative
    cdef double guess
    cdef Py_ssize_t row, j, planned = low_edge, placed = low_edge, block = 0, rows
    cdef Py_ssize_t edges = high_edge + 1
    for j in range(low_edge, edges):
        while planned < edges and planned <= j + _SUMS_AHEAD + _ROWS_AHEAD:
            stop = &w.stops[w.stop_of[planned]]
            edge = w.edges[planned]
            plans[planned & (_PLANS - 1)].cell = -1
            if not stop.timed or edge <= stop.time:
                pass
            elif near != NULL and plan_cell(stop, near, edge, &plans[planned & (_PLANS - 1)]):
                pass
            elif not stop.listed:
                guess = <double>(<uint64_t>edge - <uint64_t>stop.time) * stop.blocks_per_ns
                row = <Py_ssize_t>guess if guess < <double>stop.blocks else stop.blocks
                plans[planned & (_PLANS - 1)].block = row
                fetch_sums(stop, max(row - 1, 0), min(row + 1, stop.blocks))
            elif stop != fetched:
                fetched = stop
                fetch_sums(stop, 0, stop.blocks)
            planned += 1
        while placed < edges and placed <= j + _ROWS_AHEAD:
            stop = &w.stops[w.stop_of[placed]]
            edge = w.edges[placed]
            relative = <uint64_t>edge - <uint64_t>stop.time
            if not stop.timed or edge <= stop.time:
                pass
            elif plans[placed & (_PLANS - 1)].cell >= 0 and plan_row(
                stop, near, edge, &plans[placed & (_PLANS - 1)]
            ):
                pass
            elif not stop.listed:
                place_edge(stop, relative, &plans[placed & (_PLANS - 1)])
            else:
                if stop != listed:
                    listed = stop
                    block = 0
                    for row in range(stop.blocks + 1):
                        times[row] = stop_time(stop, row)
                while block < stop.blocks and times[block + 1] < relative:
                    block += 1
                plans[placed & (_PLANS - 1)].block = block
                plans[placed & (_PLANS - 1)].before = block == stop.blocks or (
                    times[block + 1] - relative >= relative - times[block]
                )
                fetch_rows(stop, &plans[placed & (_PLANS - 1)])
            placed += 1
        stop = &w.stops[w.stop_of[j]]
        edge = w.edges[j]
        if edge < totals.origin:
            # Until its first row it has one value, which may be one that no row has.
            if overview == NULL and j > low_edge:
                w.bin = j - 1
                w.cell_changes[w.bin] = 0
                emit_one(w, w.slot, edge - w.edges[j - 1])
            continue
        if stop.run < 0 or edge <= stop.time:
            for i in range(values):
                until[i] = w.bases[w.stop_of[j] * values + i]
            if stop.last != _NONE:
                until[stop.last] += <uint64_t>edge - <uint64_t>stop.time
            changed = stop.changes
        elif stop.timed:
            if stop != current:
                current = stop
                number_codes(w, totals, stop)
            relative = <uint64_t>edge - <uint64_t>stop.s.base_ns
            if plans[j & (_PLANS - 1)].cell >= 0:
                row = near_sums(
                    stop, near, w.index_of, values, relative, &plans[j & (_PLANS - 1)], until
                )
            else:
                row = edge_sums(
                    stop, w.index_of, w.bases + w.stop_of[j] * values, values, relative,
                    &plans[j & (_PLANS - 1)], until,
                )
            changed = stop.changes + row - stop.begin
            # Queries rely on the changes of an overview, and a damaged pyramid may mislead.
            if overview != NULL and (
                (row > stop.begin and row_time(stop.s, row - 1) >= edge)
                or (row < stop.end and row_time(stop.s, row) < edge)
            ):
                return False
        else:
            for i in range(values):
                until[i] = w.bases[w.stop_of[j] * values + i]
            at = stop.time
            last = _NONE
            changed = stop.changes
            read_rows(totals, stop, stop.begin, edge, until, &at, &last, &changed)
            if 0 <= last < values:
                until[last] += <uint64_t>edge - <uint64_t>at
        if near != NULL:
            # Those of an overview are sums modulo 2^32.
            if j == low_edge or w.edges[j - 1] < totals.origin:
                for i in range(values):
                    until[i] = <uint32_t>until[i]
            else:
                for i in range(values):
                    until[i] = since[i] + <uint32_t>(until[i] - since[i])
        if overview != NULL:
            store_edge(overview, j, until, values, changed)
        elif j == 0:
            # No state since the history began is not a change.
            if (
                state.meta & 1 and edge == segments.start_ns and stop.run >= 0
                and edge == stop.time
            ):
                counted[0] += 1
        elif j > low_edge:
            w.bin = j - 1
            changed = most if j == w.bins else max(counted[0], min(changed, most))
            w.changes = <int32_t>max(changed - counted[0], 0)
            counted[0] = max(changed, counted[0])
            if w.edges[j - 1] < totals.origin:
                add(w, w.slot, totals.origin - w.edges[j - 1], w.used)
                for i in range(values):
                    if until[i]:
                        add(w, slots[i], <int64_t>until[i], w.used)
                flush(w, w.used)
            else:
                rows = w.rows
                emit_sums(w, slots, since, until, values)
                w.cell_rows[w.bin] = <int32_t>(w.rows - rows)
                w.cell_changes[w.bin] = w.changes
        since, until = until, since
    w.changes = 0
    return True


cdef inline void store_edge(
    Overview* overview, Py_ssize_t edge, const uint64_t* ns, int values, int64_t changes
) noexcept nogil:
    cdef int i
    cdef Py_ssize_t first = edge * overview.stride
    overview.changes[edge] = <uint32_t>changes
    if overview.wide:
        for i in range(values):
            overview.ns64[first + i] = ns[i]
    else:
        for i in range(values):
            overview.ns32[first + i] = <uint32_t>ns[i]


cdef inline const Overview* near_overview(const Work* w, const LaneTotals* totals) noexcept nogil:
    """The finest overview, if its cells have few rows; NULL if there is none."""
    cdef const Overview* overview = totals.overview
    cdef const Overview* found = NULL
    while overview != NULL and not w.wide:
        if (
            not overview.wide and overview.count * _NEAR_CELL >= totals.rows
            and (found == NULL or overview.shift < found.shift)
        ):
            found = overview
        overview = overview.next
    return found


cdef inline const Overview* overview_of(
    const LaneTotals* totals, int shift, bint wide
) noexcept nogil:
    """The overview with all multiples of 2^shift, for wide bins or not; NULL if there is none."""
    cdef const Overview* overview = NULL
    cdef const Overview* found = NULL
    if shift < 0:
        return NULL
    # The coarsest of them reads the least memory.
    overview = totals.overview
    while overview != NULL:
        if overview.shift <= shift and (overview.wide or not wide) and (
            found == NULL or found.shift < overview.shift
        ):
            found = overview
        overview = overview.next
    return found


cdef inline Py_ssize_t cell_of(const Overview* overview, int64_t edge) noexcept nogil:
    """The index of a time in an overview; -1 if it has none."""
    cdef int64_t cell = (edge >> overview.shift) - overview.first
    if cell < overview.known or cell >= overview.count:
        return -1
    return cell if (overview.first + cell) << overview.shift == edge else -1


cdef bint by_overview(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil:
    """Do as `by_sums` with the sums of an overview, without reading rows but around the first and
    the last edge."""
    cdef const Overview* overview = overview_of(totals, w.shift, w.wide)
    cdef State state
    cdef int32_t[64] slots
    cdef int64_t counted, most
    # No state at the beginning is not a change, which the first cell has to consider.
    cdef Py_ssize_t low = 1, high = w.bins
    if overview == NULL:
        return False
    while low < high and cell_of(overview, w.edges[low]) < 0:
        low += 1
    while low < high and cell_of(overview, w.edges[high]) < 0:
        high -= 1
    if high - low < _OVERVIEWED:
        return False
    if (
        not open_stops(w, segments, totals, quark, first, 0, low)
        or not open_stops(w, segments, totals, quark, first, high, w.bins)
    ):
        return False
    # Sums of a damaged pyramid may select a value that is not there.
    memset(slots, 0, sizeof(slots))
    begin_sums(w, segments, totals, quark, slots, &state)
    if w.failed:
        return True
    most = changes_before(w, totals, w.bins)
    counted = changes_before(w, totals, 0)
    sum_edges(w, segments, totals, slots, &state, 0, low, &counted, most, NULL, NULL)
    if overview.wide or w.shares != NULL or w.least != NULL or w.slot8 == NULL or w.ns32 == NULL:
        emit_cells(w, overview, slots, totals.values, low, high)
    else:
        emit_short_cells(w, overview, slots, low, high)
    if high < w.bins:
        counted = changes_before(w, totals, high)
        sum_edges(
            w, segments, totals, slots, &state, high, w.bins, &counted, most, NULL, NULL
        )
    return True


cdef bint by_totals(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil:
    """Write all cells of one attribute, if its totals help to find them faster than by its rows."""
    return totals != NULL and (
        by_overview(w, segments, totals, quark, first) or by_sums(w, segments, totals, quark, first)
    )


cdef inline void fetch_cell(
    const Work* w, const Overview* overview, Py_ssize_t edge
) noexcept nogil:
    cdef Py_ssize_t cell
    if edge <= w.bins:
        cell = (w.edges[edge] >> overview.shift) - overview.first
        prefetch(overview.changes + cell)
        cell *= overview.stride
        if overview.wide:
            prefetch(overview.ns64 + cell)
            prefetch(overview.ns64 + cell + 8)
        else:
            prefetch(overview.ns32 + cell)


cdef void emit_cells(
    Work* w, const Overview* overview, const int32_t* slots, int values, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Write the cells between edges [low, high], of any form."""
    cdef uint64_t[2][64] both
    cdef uint64_t* since = both[0]
    cdef uint64_t* until = both[1]
    cdef Py_ssize_t j, cell, rows
    cdef uint32_t before = 0
    cdef uint64_t mask = <uint64_t>-1 if overview.wide else 0xFFFFFFFF
    cdef int i
    for j in range(low, high + 1):
        fetch_cell(w, overview, j + _CELLS_AHEAD)
        cell = (w.edges[j] >> overview.shift) - overview.first
        if overview.wide:
            for i in range(values):
                until[i] = overview.ns64[cell * overview.stride + i]
        else:
            # Higher bits, so that the difference is right beyond 2^32.
            for i in range(values):
                until[i] = overview.ns32[cell * overview.stride + i]
                if j > low:
                    until[i] = since[i] + ((until[i] - since[i]) & mask)
        if j > low:
            rows = w.rows
            w.bin = j - 1
            w.changes = <int32_t>(overview.changes[cell] - before)
            emit_sums(w, slots, since, until, values)
            w.cell_rows[w.bin] = <int32_t>(w.rows - rows)
            w.cell_changes[w.bin] = w.changes
        before = overview.changes[cell]
        since, until = until, since
    w.changes = 0


cdef inline void emit_longest_cells(
    Work* w, const Overview* overview, const int32_t* slots, int stride, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Write the longest value of each cell between edges [low, high].

    `stride` is a constant in most calls, so the compiler unrolls the loop over values. Sums beyond
    the values are 0.
    """
    cdef const uint32_t* sums = overview.ns32
    cdef const uint32_t* since
    cdef const uint32_t* until
    cdef const int64_t* edges = w.edges
    cdef int shift = overview.shift, i
    # Null is first, but wins only if it lasted longer than any other value.
    cdef uint64_t others = 0 if slots[0] == 0 else <uint64_t>-1
    cdef Py_ssize_t rows = w.rows, j, first = overview.first
    cdef Py_ssize_t cell = (edges[low] >> shift) - first
    cdef uint8_t* slot8 = w.slot8
    cdef uint32_t* ns32 = w.ns32
    cdef int32_t* cell_rows = w.cell_rows
    cdef int32_t* cell_changes = w.cell_changes
    cdef uint32_t before = overview.changes[cell]
    cdef uint64_t key, most, null
    since = sums + cell * stride
    for j in range(low + 1, high + 1):
        fetch_cell(w, overview, j + _CELLS_AHEAD)
        cell = (edges[j] >> shift) - first
        until = sums + cell * stride
        # A time and the index of its value in one number, greater for the earlier of equals.
        null = <uint64_t>(until[0] - since[0]) << 6
        most = (null | 63) & others
        null = (null | 63) & ~others
        for i in range(1, stride):
            key = (<uint64_t>(until[i] - since[i]) << 6) | <uint64_t>(63 - i)
            most = key if key > most else most
        most = null if null >> 6 > most >> 6 else most
        slot8[rows] = <uint8_t>slots[63 - (most & 63)]
        ns32[rows] = <uint32_t>(most >> 6)
        rows += 1
        cell_rows[j - 1] = 1
        cell_changes[j - 1] = <int32_t>(overview.changes[cell] - before)
        before = overview.changes[cell]
        since = until
    w.rows = rows


cdef inline void emit_all_cells(
    Work* w, const Overview* overview, const int32_t* slots, int stride, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Write the rows of each cell between edges [low, high]; as `emit_longest_cells`."""
    cdef const uint32_t* sums = overview.ns32
    cdef const uint32_t* since
    cdef const uint32_t* until
    cdef const int64_t* edges = w.edges
    cdef int shift = overview.shift, i
    cdef Py_ssize_t rows = w.rows, j, first = overview.first, begin
    cdef Py_ssize_t cell = (edges[low] >> shift) - first
    cdef uint8_t* slot8 = w.slot8
    cdef uint32_t* ns32 = w.ns32
    cdef int32_t* cell_rows = w.cell_rows
    cdef int32_t* cell_changes = w.cell_changes
    cdef uint32_t before = overview.changes[cell], ns, changes
    cdef uint8_t[64] slot
    for i in range(stride):
        slot[i] = <uint8_t>slots[i]
    since = sums + cell * stride
    for j in range(low + 1, high + 1):
        fetch_cell(w, overview, j + _CELLS_AHEAD)
        cell = (edges[j] >> shift) - first
        until = sums + cell * stride
        changes = overview.changes[cell] - before
        begin = rows
        # As in `emit_few`, a row is written before it is clear whether it counts.
        for i in range(stride):
            ns = until[i] - since[i]
            slot8[rows] = slot[i]
            ns32[rows] = ns
            rows += ns != 0
        rows = min(rows, begin + changes + 1)
        cell_rows[j - 1] = <int32_t>(rows - begin)
        cell_changes[j - 1] = <int32_t>changes
        before += changes
        since = until
    w.rows = rows


cdef void emit_short_cells(
    Work* w, const Overview* overview, const int32_t* slots, Py_ssize_t low, Py_ssize_t high
) noexcept nogil:
    """Write the cells between edges [low, high] as rows of a byte and 32 bits."""
    if w.longest:
        if overview.stride == 4:
            emit_longest_cells(w, overview, slots, 4, low, high)
        elif overview.stride == 8:
            emit_longest_cells(w, overview, slots, 8, low, high)
        else:
            emit_longest_cells(w, overview, slots, overview.stride, low, high)
    elif overview.stride == 4:
        emit_all_cells(w, overview, slots, 4, low, high)
    elif overview.stride == 8:
        emit_all_cells(w, overview, slots, 8, low, high)
    else:
        emit_all_cells(w, overview, slots, overview.stride, low, high)


cdef int64_t changes_before(
    const Work* w, const LaneTotals* totals, Py_ssize_t edge
) noexcept nogil:
    """How many changes there were before an edge, by the rows themselves."""
    cdef const Stop* stop = &w.stops[w.stop_of[edge]]
    cdef int64_t time = w.edges[edge], at = 0, changes = stop.changes
    cdef int last = _NONE
    cdef uint64_t[64] ns
    if stop.run < 0 or time <= stop.time:
        return changes
    if stop.timed:
        return changes + first_after(stop.s, stop.begin, stop.end, time - 1) - stop.begin
    memset(ns, 0, sizeof(ns))
    read_rows(totals, stop, stop.begin, time, ns, &at, &last, &changes)
    return changes


cdef void lane(
    Work* w, Segments segments, int32_t quark, Py_ssize_t first, Py_ssize_t last, Used used,
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
        if k + 2 <= last:
            prefetch_run(&segments._segments[k + 1], run)
            prefetch_index(&segments._segments[k + 2], run)
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
            if (
                entry >= 0 and high > low and s.code_mask < _CODES and worth(w, s, low, high)
            ):
                differ(w, s, run, entry, low, high, used)
                if w.failed:
                    return
                continue
        walk_any(w, s, run, low, high, used)
        if w.failed:
            return
    advance(w, end, used)


cdef int value_index(State* values, int32_t* count, const State* state) noexcept nogil:
    """The index of a state's value, maybe new; -1 if there are too many."""
    cdef int i
    for i in range(count[0]):
        if values[i].word == state.word and values[i].meta == (state.meta & 1):
            return i
    if count[0] == _FEW:
        return -1
    values[count[0]].word = state.word
    values[count[0]].meta = state.meta & 1
    count[0] += 1
    return count[0] - 1


@final
cdef class Totals:
    """How long attributes had each of their values where segments begin, since their first row.

    They are those of segments `first` to `last`, whose rows are there. Sums up to any time follow
    from them and one run of rows. The totals of an attribute are computed when it is first asked
    for, and take at most a quarter of the bytes of its rows: those of one with few changes are
    taken only at every 2nd, 4th and so on segment.
    """

    cdef Segments _segments
    cdef LaneTotals** _of
    cdef uint8_t[::1] _known
    cdef Py_ssize_t _quarks
    cdef readonly Py_ssize_t first, last, size_bytes

    def __cinit__(self, Segments segments, Py_ssize_t first, Py_ssize_t last):
        self._segments = segments
        self.first, self.last = first, last
        self._quarks = segments._first.shape[0]
        self._known = np.zeros(self._quarks, np.uint8)
        self._of = <LaneTotals**>calloc(self._quarks + 1, sizeof(LaneTotals*))
        if self._of == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._of != NULL:
            for i in range(self._quarks):
                free_totals(self._of[i])
        free(self._of)

    cdef const LaneTotals* of(self, int32_t quark) noexcept nogil:
        return self._of[quark] if quark < self._quarks else NULL

    def prepare(self, const int32_t[::1] quarks, const uint8_t[::1] kinds, Tally tally):
        """Compute the totals of attributes of these types, and the overviews that a tally needs.

        The caller lets one thread do it.
        """
        self._total(quarks, kinds)
        self._overview(quarks, &tally.w)

    cdef _overview(self, const int32_t[::1] quarks, const Work* asked):
        """Compute the overviews of attributes that help to answer a query."""
        cdef int64_t begin, end
        cdef uint64_t part = <uint64_t>asked.edges[asked.bins] - <uint64_t>asked.edges[0]
        cdef Py_ssize_t i
        cdef int shift
        cdef LaneTotals* totals
        if asked.shift < 0:
            return
        begin = self._segments._segments[self.first].base_ns
        end = self._segments.end_ns
        if self.last + 1 < self._segments._count:
            end = self._segments._segments[self.last + 1].base_ns
        if part < (<uint64_t>end - <uint64_t>begin) // _OVERVIEW_PART:
            return
        self._compute(quarks, asked.shift, asked.wide, begin, end)
        if asked.wide:
            return
        # For edges that none has, the finest one, once as many have been asked for as it has.
        shifts = set()
        for i in range(quarks.shape[0]):
            totals = self._of[quarks[i]] if quarks[i] < self._quarks else NULL
            if totals == NULL or overview_of(totals, asked.shift, False) != NULL:
                continue
            shift = asked.shift
            while shift < 62 and not affords(totals, (end >> shift) - (begin >> shift), False):
                shift += 1
            totals.asked += asked.bins
            if totals.asked >= (end >> shift) - (begin >> shift):
                shifts.add(shift)
        for shift in sorted(shifts):
            self._compute(quarks, shift, False, begin, end)

    cdef _compute(
        self, const int32_t[::1] quarks, int shift, bint wide, int64_t begin, int64_t end
    ):
        """Compute the overviews of attributes with multiples of 2^shift, unless those are many."""
        cdef int64_t low = (begin >> shift) + 1
        cdef Py_ssize_t i, count = ((end - 1) >> shift) - low + 1, wanted = 0
        cdef Tally edges
        cdef bint failed = False
        if count < _OVERVIEWED:
            return
        for i in range(quarks.shape[0]):
            wanted += wants(self.of(quarks[i]), shift, wide, count)
        if not wanted:
            return
        edges = Tally(
            np.arange(low, low + count, dtype=np.int64) << shift,
            np.zeros(1, np.int64), np.ones(1, np.int32), False,
            np.empty(0, np.uint8), np.empty(0, np.uint32),
            np.empty((1, 0), np.int32), np.empty((1, 0), np.int32),
        )
        edges._number(self._segments, self.first, self.last)
        edges._stop(self._segments)
        with nogil:
            for i in range(quarks.shape[0]):
                if wants(self.of(quarks[i]), shift, wide, count):
                    failed = not self._add_overview(
                        &edges.w, self._of[quarks[i]], quarks[i], shift, wide, low
                    )
                    if failed:
                        break
        if failed:
            raise MemoryError

    cdef bint _add_overview(
        self, Work* w, LaneTotals* totals, int32_t quark, int shift, bint wide, int64_t low
    ) noexcept nogil:
        """Compute the overview of one attribute, unless its sums do not help."""
        cdef Overview* overview
        cdef int64_t counted = 0
        cdef Py_ssize_t count = w.bins + 1, size
        if not open_stops(w, self._segments, totals, quark, self.first, 0, w.bins):
            totals.without = True
            return True
        overview = <Overview*>calloc(1, sizeof(Overview))
        if overview == NULL:
            return False
        overview.shift = shift
        overview.wide = wide
        overview.stride = stride_of(totals)
        overview.first = low
        overview.count = count
        while overview.known < count and w.edges[overview.known] < totals.origin:
            overview.known += 1
        size = count * overview.stride
        overview.changes = <uint32_t*>malloc(count * sizeof(uint32_t))
        if overview.wide:
            overview.ns64 = <uint64_t*>malloc(size * sizeof(uint64_t))
        else:
            overview.ns32 = <uint32_t*>calloc(size, sizeof(uint32_t))
        if overview.changes == NULL or (overview.ns64 == NULL and overview.ns32 == NULL):
            free_overview(overview)
            return False
        if not sum_edges(
            w, self._segments, totals, NULL, NULL, 0, w.bins, &counted, 0, NULL, overview
        ):
            free_overview(overview)
            totals.without = True
            return True
        overview.next = totals.overview
        totals.overview = overview
        self.size_bytes += count * (overview.stride * (8 if overview.wide else 4) + 4)
        return True

    cdef _total(self, const int32_t[::1] quarks, const uint8_t[::1] kinds):
        cdef Py_ssize_t i, count = self.last - self.first + 1
        cdef uint8_t* index_of
        cdef int64_t* ns
        cdef bint failed = False
        wanted = False
        for i in range(quarks.shape[0]):
            if quarks[i] < self._quarks and not self._known[quarks[i]]:
                wanted = True
                break
        if not wanted:
            return
        index_of = <uint8_t*>calloc(_CODES, 1)
        ns = <int64_t*>malloc((count + 1) * (_FEW + 3) * sizeof(int64_t))
        if index_of == NULL or ns == NULL:
            free(index_of)
            free(ns)
            raise MemoryError
        with nogil:
            for i in range(quarks.shape[0]):
                if quarks[i] < self._quarks and not self._known[quarks[i]]:
                    self._known[quarks[i]] = 1
                    failed = not self._take(
                        self._segments, quarks[i], kinds[i] == FLOAT, index_of, ns
                    )
                    if failed:
                        break
        free(index_of)
        free(ns)
        if failed:
            raise MemoryError

    cdef bint _take(
        self, Segments segments, int32_t quark, bint floats, uint8_t* index_of, int64_t* ns
    ) noexcept nogil:
        """Compute the totals of one attribute, unless it has too many values or too few changes.

        `ns` has room for each segment's totals, and for three more numbers of each.
        """
        cdef Py_ssize_t count = self.last - self.first + 1, k, run, entry, row, near = 0
        cdef Py_ssize_t groups, group, blocks, first, end
        cdef int64_t* at_of = ns + count * _FEW
        cdef int64_t* changes_of = at_of + count
        cdef int64_t* last_of = changes_of + count
        cdef int64_t[64] sums
        cdef State[64] values
        cdef uint8_t[64] order, place
        cdef State state
        cdef Segment* s
        cdef Sums until
        cdef int[64] index
        cdef int32_t known = 0, i, last = _NONE, shift = 0
        cdef int64_t at = 0, changes = 0, rows = 0, time, origin = 0
        cdef const uint32_t* fields
        cdef LaneTotals* totals
        cdef Plan plan
        first = max(self.first, segments._first[quark])
        end = min(self.last, segments._last[quark]) + 1 if segments._first[quark] >= 0 else first
        for k in range(first, end):
            run = find_run(&segments._segments[k], quark, near)
            if run >= 0:
                near = run
                rows += segments._segments[k].offsets[run + 1] - segments._segments[k].offsets[run]
        if rows < _TOTALLED:
            return True
        near = 0
        memset(sums, 0, sizeof(sums))
        for k in range(count):
            memcpy(ns + k * _FEW, sums, sizeof(sums))
            at_of[k] = at
            changes_of[k] = changes
            last_of[k] = last
            if not first <= self.first + k < end:
                continue
            s = &segments._segments[self.first + k]
            run = find_run(s, quark, near)
            if run < 0 or s.offsets[run] == s.offsets[run + 1]:
                continue
            near = run
            row = s.offsets[run]
            time = row_time(s, row)
            if last == _NONE:
                origin = time
            else:
                sums[last] += time - at
            at = time
            changes += 1
            entry = timed_entry(s, run)
            if entry >= 0:
                at = row_time(s, s.offsets[run + 1] - 1)
                fields = s.values + s.value_offset[entry]
                memset(index, 0, sizeof(index))
                for i in range(<int32_t>(s.value_offset[entry + 1] - s.value_offset[entry])):
                    state.meta = 0
                    set_value(s, run, 0, fields[i], &state)
                    index[i] = value_index(values, &known, &state)
                    if index[i] < 0:
                        return True
                    if fields[i] < _CODES:
                        index_of[fields[i]] = <uint8_t>i
                blocks = (s.offsets[run + 1] - row - 1) >> s.step[entry]
                plan.block = blocks
                plan.before = True
                sums_at(
                    s, index_of, run, entry, <uint64_t>at - <uint64_t>s.base_ns, &plan, &until
                )
                for i in range(<int32_t>(s.value_offset[entry + 1] - s.value_offset[entry])):
                    sums[index[i]] += <int64_t>until.ns[i]
                # Runs in which a row replaces another have no times.
                changes += s.offsets[run + 1] - row - 1
                row = s.offsets[run + 1] - 1
            while row < s.offsets[run + 1]:
                row_state(s, run, row, &state)
                if state.start != at:
                    sums[last] += state.start - at
                    changes += 1
                at = state.start
                last = value_index(values, &known, &state)
                if last < 0:
                    return True
                row += 1
        # 8 bytes per value and group, and some 50 more, against 5 bytes or so per row.
        while (count >> shift) * (8 * known + 50) * 4 > 5 * rows:
            shift += 1
            if (count - 1) >> shift == 0:
                return True
        groups = (count - 1) >> shift
        for i in range(known):
            row = i
            while row > 0 and state_before(&values[i], &values[order[row - 1]], floats):
                order[row] = order[row - 1]
                row -= 1
            order[row] = <uint8_t>i
        for i in range(known):
            place[order[i]] = <uint8_t>i
        totals = <LaneTotals*>calloc(1, sizeof(LaneTotals))
        if totals == NULL:
            return False
        totals.shift = shift
        totals.values = known
        totals.groups = groups
        totals.origin = origin
        totals.rows = rows
        totals.value = <State*>malloc(known * sizeof(State))
        totals.ns = <int64_t*>malloc((groups + 1) * known * sizeof(int64_t))
        totals.at = <int64_t*>malloc((groups + 1) * sizeof(int64_t))
        totals.changes = <int64_t*>malloc((groups + 1) * sizeof(int64_t))
        totals.last = <uint8_t*>malloc(groups + 1)
        if shift == 0:
            totals.spots = <Spot*>malloc((groups + 1) * sizeof(Spot))
        if (
            totals.value == NULL or totals.ns == NULL or totals.at == NULL
            or totals.changes == NULL or totals.last == NULL
            or (totals.spots == NULL and shift == 0)
        ):
            free_totals(totals)
            return False
        for i in range(known):
            totals.value[i] = values[order[i]]
        for group in range(groups + 1):
            k = group << shift
            for i in range(known):
                totals.ns[group * known + i] = ns[k * _FEW + order[i]]
            totals.at[group] = at_of[k]
            totals.changes[group] = changes_of[k]
            if shift == 0:
                describe(
                    totals, &segments._segments[self.first + k], quark, quark, &totals.spots[k]
                )
            totals.last[group] = place[last_of[k]] if last_of[k] != _NONE else _NONE
        self.size_bytes += (groups + 1) * (8 * known + 17 + (sizeof(Spot) if shift == 0 else 0))
        self._of[quark] = totals
        return True


cdef inline int stride_of(const LaneTotals* totals) noexcept nogil:
    """How many numbers an edge of an overview has: few cross a cache line."""
    return (totals.values + 3) & ~3


cdef inline bint affords(const LaneTotals* totals, int64_t count, bint wide) noexcept nogil:
    """Whether an overview of so many edges takes at most a quarter of the bytes of the rows."""
    return (
        count * (stride_of(totals) * (8 if wide else 4) + 4) * 4 <= _ROW_BYTES * totals.rows
    )


cdef inline bint wants(
    const LaneTotals* totals, int shift, bint wide, Py_ssize_t count
) noexcept nogil:
    """Whether an attribute can have an overview that it does not have."""
    return (
        totals != NULL and not totals.without and overview_of(totals, shift, wide) == NULL
        and affords(totals, count, wide)
    )


cdef void free_overview(Overview* overview) noexcept nogil:
    free(overview.ns32)
    free(overview.ns64)
    free(overview.changes)
    free(overview)


cdef void free_totals(LaneTotals* totals) noexcept nogil:
    cdef Overview* overview
    if totals != NULL:
        while totals.overview != NULL:
            overview = totals.overview
            totals.overview = overview.next
            free_overview(overview)
        free(totals.value)
        free(totals.ns)
        free(totals.at)
        free(totals.spots)
        free(totals.changes)
        free(totals.last)
        free(totals)


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
        bins: How many bins each attribute has.
        edges: Their edges.
        codes: By code of a string of the attributes that are added, that of it in the slots; None
            if they are the same.
        rows: How many rows were written.
    """

    cdef Work w
    cdef const int64_t[::1] _edges, _low
    cdef const int32_t[::1] _slots, _codes_asked
    cdef object _slot, _ns
    cdef readonly object edges, codes
    cdef int32_t[:, ::1] _cell_rows, _cell_changes
    cdef uint8_t[:, :, ::1] _shares
    cdef int32_t[:, :, ::1] _codes
    cdef double[:, ::1] _least, _greatest, _mean
    cdef Py_ssize_t _lanes, _first

    def __cinit__(self):
        memset(&self.w, 0, sizeof(Work))

    def __init__(
        self,
        edges,
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
        self._edges = self.edges = edges
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
        w.bins = self._edges.shape[0] - 1
        w.edges = &self._edges[0]
        self._align()
        self._allocate(np.max(slots, initial=1), np.min(slots, initial=1) == 0)

    cdef void _align(self) noexcept nogil:
        """Find which power of two all inner edges of bins are multiples of, and how wide they are."""
        cdef Work* w = &self.w
        cdef uint64_t bits = 0
        cdef Py_ssize_t i
        w.shift = -1
        for i in range(w.bins):
            w.wide |= (<uint64_t>w.edges[i + 1] - <uint64_t>w.edges[i]) >> 32 != 0
        if w.bins < _OVERVIEWED:
            return
        for i in range(1, w.bins):
            bits |= <uint64_t>w.edges[i]
        if bits:
            w.shift = lowest_bit(bits)

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
        free(self.w.states.word)
        free(self.w.states.kind)
        free(self.w.states.table)
        free(self.w.index_of)
        free(self.w.stops)
        free(self.w.stop_of)
        free(self.w.stop_segment)
        free(self.w.bases)
        free(self.w.coded)
        free(self.w.listed_ns)
        free(self.w.touched)
        free(self.w.tops_used)
        free(self.w.words_used)
        free(self.w.bits)

    def turn_to(self, edges, codes):
        """Take the next attributes from another history, in whose times these are the edges.

        `codes` has by code of a string there the code of it here; None if they are the same.
        """
        cdef Work* w = &self.w
        if len(edges) != w.bins + 1:
            raise ValueError("the edges are not those of as many bins")
        self._edges = self.edges = edges
        self.codes = codes
        w.edges = &self._edges[0]
        w.codes_asked = NULL
        if codes is not None and len(codes):
            self._codes_asked = codes
            w.codes_asked = &self._codes_asked[0]
        self._align()
        # the segments in which edges are
        free(w.stops)
        free(w.stop_of)
        free(w.stop_segment)
        free(w.bases)
        w.stops, w.stop_of, w.stop_segment, w.bases = NULL, NULL, NULL, NULL
        w.stop_count = 0

    def to_tile(
        self, uint8_t[:, :, ::1] shares, int32_t[:, :, ::1] codes, Py_ssize_t first, uint64_t width
    ):
        """Write the cells of a tile, by attribute from bin `first` on, instead of rows.

        `shares` gets of each bin, of which all are `width` wide, the time without state, that of
        the three longest states, and that of all others, in 255ths; `codes` what states those are,
        as indices of `states`.
        """
        self._shares, self._codes, self._first = shares, codes, first
        self.w.width = width
        if not grow_states(&self.w.states):
            raise MemoryError

    def to_counters(self, double[:, ::1] least, double[:, ::1] greatest, double[:, ::1] mean):
        """Write extremes and means by attribute and bin, instead of rows.

        The attributes have integers, and none that are listed. Bins without any are not written.
        """
        self._least, self._greatest, self._mean = least, greatest, mean
        numbers_clear(&self.w.numbers, False)
        self.w.least = &least[0, 0]

    @property
    def states(self):
        """The words and types of the states of a tile, by code."""
        count = self.w.states.count
        words, kinds = np.empty(count, np.int64), np.empty(count, np.uint8)
        if count:
            words[:] = <int64_t[:count]>self.w.states.word
            kinds[:] = <uint8_t[:count]>self.w.states.kind
        return words, kinds

    @property
    def bins(self):
        return self.w.bins

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
        w.kind = kind
        w.floats = kind == FLOAT
        w.low = self._low[self._lanes]
        w.used = LIST if slots == 0 else WORD if slots <= _FEW else BITS
        w.ns = w.listed_ns if slots == 0 else w.coded
        w.cell_rows = &self._cell_rows[self._lanes, 0]
        w.cell_changes = &self._cell_changes[self._lanes, 0]
        if w.least != NULL:
            w.least = &self._least[self._lanes, 0]
            w.greatest = &self._greatest[self._lanes, 0]
            w.mean = &self._mean[self._lanes, 0]
        if w.width:
            memset(w.slot_code, 0xFF, sizeof(w.slot_code))
            w.shares = &self._shares[self._lanes, self._first, 0]
            w.codes = &self._codes[self._lanes, self._first, 0]
        self._lanes += 1

    def take_segments(
        self,
        Segments segments,
        const int32_t[::1] quarks,
        const uint8_t[::1] kinds,
        Totals totals=None,
    ):
        """Add the next attributes, whose values are of these types, from segments.

        Totals are of all segments that begin in the range, and that in which it begins.
        """
        cdef Py_ssize_t i, first, last, row
        first = segments.segment_at(self.w.edges[0])
        last = segments.segment_at(self.w.edges[self.w.bins] - 1)
        if first < 0:
            first = 0
        self._number(segments, first, last)
        if totals is not None:
            self._stop(segments)
        with nogil:
            for i in range(quarks.shape[0]):
                self.begin(kinds[i])
                row = self.w.rows
                if totals is None or not by_totals(
                    &self.w, segments, totals.of(quarks[i]), quarks[i], totals.first
                ):
                    lane(&self.w, segments, quarks[i], first, last, self.w.used)
                if self.w.failed:
                    break
                if self.w.codes_asked != NULL and kinds[i] == STR:
                    translate(&self.w, row)
        if self.w.failed:
            raise MemoryError

    cdef _number(self, Segments segments, Py_ssize_t first, Py_ssize_t last):
        """Make room for the index of each code of these segments."""
        cdef uint64_t codes = 0
        cdef Py_ssize_t i
        for i in range(first, last + 1):
            if segments._segments[i].code_mask < _CODES:
                codes = max(codes, segments._segments[i].code_mask + 1)
        free(self.w.index_of)
        self.w.index_of = <uint8_t*>calloc(codes + 1, 1)
        if self.w.index_of == NULL:
            raise MemoryError

    cdef _stop(self, Segments segments):
        """Find the segments in which the edges of bins are."""
        cdef Work* w = &self.w
        cdef Py_ssize_t i
        cdef int32_t here, before = -1
        if w.stops != NULL:
            return
        w.stop_of = <int32_t*>malloc((w.bins + 1) * sizeof(int32_t))
        w.stop_segment = <int32_t*>malloc((w.bins + 1) * sizeof(int32_t))
        if w.stop_of == NULL or w.stop_segment == NULL:
            raise MemoryError
        for i in range(w.bins + 1):
            here = <int32_t>max(0, segments.segment_at(w.edges[i] - (i == w.bins)))
            if here != before:
                w.stop_segment[w.stop_count] = before = here
                w.stop_count += 1
            w.stop_of[i] = w.stop_count - 1
        w.stops = <Stop*>malloc(w.stop_count * sizeof(Stop))
        w.bases = <uint64_t*>malloc(w.stop_count * _FEW * sizeof(uint64_t))
        if w.stops == NULL or w.bases == NULL:
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
        cdef Py_ssize_t i, n = quark.shape[0], row = self.w.rows
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
                if w.codes_asked != NULL:
                    translate(w, row)
        if w.failed:
            raise MemoryError


def bin_edges(int64_t start_ns, int64_t end_ns, int64_t bins):
    """Return the bins + 1 edges of the parts of a range, as `units.bin_edge` defines them."""
    cdef int64_t i
    edges_array = np.empty(bins + 1, np.int64)
    cdef int64_t[::1] edges = edges_array
    cdef uint64_t length = <uint64_t>end_ns - <uint64_t>start_ns
    with nogil:
        for i in range(bins + 1):
            edges[i] = bin_edge(start_ns, length, bins, i)
    return edges_array
