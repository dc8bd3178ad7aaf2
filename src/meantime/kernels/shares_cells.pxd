"""The time per value in a bin, and the cell that is written of it; see `shares_cells.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from meantime.kernels.search cimport State
from meantime.kernels.shares_state cimport BITS, LIST, WORD, States, Used, Words, Work

cdef extern from *:
    """
    #define hash_factor 0x9E3779B97F4A7C15u
    """
    uint64_t hash_factor


cdef bint grow(Work* w) noexcept nogil
cdef bint grow_states(States* states) noexcept nogil
cdef void emit_one(Work* w, int32_t slot, int64_t ns) noexcept nogil
cdef void emit_sums(
    Work* w, const int32_t* slots, const uint64_t* since, const uint64_t* until, int values
) noexcept nogil
cdef void flush(Work* w, Used used) noexcept nogil
cdef void advance(Work* w, int64_t time, Used used) noexcept nogil


cdef inline uint64_t hashed(int64_t word) noexcept nogil:
    cdef uint64_t h = <uint64_t>word * hash_factor
    return h ^ (h >> 29)


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
