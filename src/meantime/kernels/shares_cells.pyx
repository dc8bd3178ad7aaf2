"""The time per value in a bin, and what is written of it when the bin ends: a cell."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from meantime.kernels.shares_state cimport (
    BITS,
    FEW,
    LIST,
    STR,
    WORD,
    WORDS,
    States,
    Used,
    Words,
    Work,
    lowest_bit,
    numbers_of,
)

cdef extern from "numbers.h":
    void numbers_item(numbers_of*, int64_t, uint64_t) noexcept nogil
    void numbers_clear(numbers_of*, int) noexcept nogil
    double numbers_least(const numbers_of*) noexcept nogil
    double numbers_greatest(const numbers_of*) noexcept nogil
    double numbers_total(const numbers_of*) noexcept nogil

cdef extern from *:
    """
    #define LONGEST_SHARED (UINT64_MAX / 255)
    #define LONGEST_RANKED (UINT64_MAX >> 6)
    static inline uint64_t wide_share(uint64_t ns, uint64_t width) {
        return (uint64_t)((unsigned __int128)ns * 255 / width);
    }
    """
    uint64_t LONGEST_SHARED
    uint64_t LONGEST_RANKED
    uint64_t wide_share(uint64_t, uint64_t) noexcept nogil

cdef enum:
    # A tile has so many states of each cell, and the sum of all others.
    _TOP = 3
    _SHARES = 5
    _FULL = 255


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
    cdef int32_t room = 2 * states.room if states.room else WORDS, code
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
            if slot >= FEW:
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


cdef void emit_one(Work* w, int32_t slot, int64_t ns) noexcept nogil:
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


cdef void flush(Work* w, Used used) noexcept nogil:
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


cdef void emit_sums(
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
