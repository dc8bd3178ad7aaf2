"""What the kernels of shares work on: bins, the segments in which their edges are, and sums."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from meantime.kernels.search cimport Segment, State, entry_of, load_row, published_count

cdef extern from "numbers.h":
    ctypedef struct numbers_of:
        int some

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    #define prefetch(at) __builtin_prefetch(at)
    """
    int lowest_bit(uint64_t) noexcept nogil
    void prefetch(const void*) noexcept nogil

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
    # Up to this many slots are the bits of one word, and values of a run have durations.
    FEW = 64
    # Runs with longer codes have no durations: see `CODE_BITS` in pyramid.pyx.
    CODES = 1 << 22
    # The blocks of runs with at most so many are listed by when they begin.
    LISTED = 127
    # For so many edges of bins it is decided ahead how they are computed; a power of two.
    PLANS = 16
    # For so many edges ahead the sums are fetched.
    SUMS_AHEAD = 8
    # The index of the value before the first row.
    NO_VALUE = 255
    # The cells that a query of an overview needs at least.
    OVERVIEWED = 4
    # The initial capacity for different numbers; a power of two, as the table's mask requires.
    WORDS = 64


cdef struct Words:
    # The different words of listed numbers, by slot; slot 0 is null. `table` is a hash table of
    # slots with linear probing. It has twice as many buckets as `room`, so a probe always finds an
    # empty one.
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
    # the value since then, or NO_VALUE before the first row, and `changes` how many there were.
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


cdef struct Sums:
    # Up to a time: how long each value of a run had lasted since the run's first row, the code of
    # the state at that time, and the first row that does not begin before it.
    uint64_t[64] ns
    uint32_t code
    Py_ssize_t row


cdef struct Plan:
    # From which block on the sums at a time are computed, and whether it is the one before. Or from
    # which cell of an overview on, unless `cell` is -1, which begins before row `block`.
    Py_ssize_t block
    bint before
    Py_ssize_t cell


cdef inline Py_ssize_t timed_entry(const Segment* s, Py_ssize_t run) noexcept nogil:
    """The index of a run among those whose values have durations; -1 if it is not one of them."""
    cdef Py_ssize_t timed = published_count(&s.timed)
    if not timed or s.code_mask >= CODES:
        return -1
    return entry_of(s.timed_run, timed, run)


cdef inline uint64_t relative_time(const Segment* s, Py_ssize_t row) noexcept nogil:
    return load_row(s.rows, row, s.width, s.row_mask) >> s.payload_bits


cdef inline uint64_t row_field(const Segment* s, Py_ssize_t row, uint64_t packed) noexcept nogil:
    """The code of a value in a row."""
    if s.payload != NULL:
        return s.payload[row] & s.code_mask
    return packed & s.code_mask
