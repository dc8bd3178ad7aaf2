"""Time per value and part of a range, read from the rows of segments; exact.

`shares_state` has what the parts share. Cells, of one attribute and bin each, are written by
`shares_cells`. `shares_rows` computes them from rows, `shares_edges` from the sums at the edges of
bins, and `shares_totals` keeps what makes these fast: sums where segments begin, and overviews.
"""

from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from meantime.kernels.search cimport IntervalRows, Segments, State
from meantime.kernels.shares_cells cimport add, advance, grow_states, slot_of
from meantime.kernels.shares_edges cimport Bins
from meantime.kernels.shares_rows cimport by_rows
from meantime.kernels.shares_state cimport (
    BITS,
    FEW,
    FLOAT,
    LIST,
    STR,
    WORD,
    WORDS,
    Work,
    numbers_of,
)
from meantime.kernels.shares_totals cimport Totals

cdef extern from "numbers.h":
    void numbers_clear(numbers_of*, int) noexcept nogil

cdef extern from *:
    """
    static inline int64_t bin_edge(int64_t start, uint64_t length, int64_t bins, int64_t index) {
        unsigned __int128 scaled = (unsigned __int128)length * (uint64_t)index;
        uint64_t edge = (uint64_t)((scaled + (uint64_t)bins - 1) / (uint64_t)bins);
        return (int64_t)((uint64_t)start + edge);
    }
    """
    int64_t bin_edge(int64_t, uint64_t, int64_t, int64_t) noexcept nogil


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


@final
cdef class Tally(Bins):
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
        codes: By code of a string of the attributes that are added, that of it in the slots; None
            if they are the same.
        rows: How many rows were written.
    """

    cdef const int64_t[::1] _low
    cdef const int32_t[::1] _slots, _codes_asked
    cdef object _slot, _ns
    cdef readonly object codes  #: Int32s | None
    cdef int32_t[:, ::1] _cell_rows, _cell_changes
    cdef uint8_t[:, :, ::1] _shares
    cdef int32_t[:, :, ::1] _codes
    cdef double[:, ::1] _least, _greatest, _mean
    cdef Py_ssize_t _lanes, _first

    def __init__(
        self, edges: Int64s, const int64_t[::1] low, const int32_t[::1] slots, bint longest,
        slot: npt.NDArray[np.uint8] | Int32s, ns: npt.NDArray[np.uint32] | Int64s,
        int32_t[:, ::1] cell_rows: Int32s, int32_t[:, ::1] cell_changes: Int32s
    ):
        cdef Work* w = &self.w
        cdef uint8_t[::1] slot8
        cdef int32_t[::1] slot32
        cdef uint32_t[::1] ns32
        cdef int64_t[::1] ns64
        Bins.__init__(self, edges)
        # `w` has pointers into these arrays, which therefore must live as long as it does.
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
        self._allocate(np.max(slots, initial=1), np.min(slots, initial=1) == 0)

    cdef _allocate(self, int32_t slots, bint listed):
        """Make room for so many slots, and for listed numbers if there may be some."""
        cdef Work* w = &self.w
        w.tops = (slots >> 18) + 1
        w.coded = <int64_t*>calloc(max(slots, FEW), sizeof(int64_t))
        w.tops_used = <uint64_t*>calloc(w.tops, sizeof(uint64_t))
        w.words_used = <uint64_t*>calloc(64 * w.tops, sizeof(uint64_t))
        w.bits = <uint64_t*>calloc((slots >> 6) + 1, sizeof(uint64_t))
        if listed:
            w.listed_ns = <int64_t*>calloc(WORDS, sizeof(int64_t))
            w.touched = <int32_t*>malloc(WORDS * sizeof(int32_t))
            w.words.room = WORDS
            w.words.count = 1
            w.words.mask = 2 * WORDS - 1
            w.words.of = <int64_t*>malloc(WORDS * sizeof(int64_t))
            w.words.table = <int32_t*>calloc(2 * WORDS, sizeof(int32_t))
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
        free(self.w.coded)
        free(self.w.listed_ns)
        free(self.w.touched)
        free(self.w.tops_used)
        free(self.w.words_used)
        free(self.w.bits)

    def turn_to(self, edges: Int64s, codes: Int32s | None):
        """Take the next attributes from another history, in whose times these are the edges.

        `codes` has by code of a string there the code of it here; None if they are the same.
        """
        cdef Work* w = &self.w
        if len(edges) != w.bins + 1:
            raise ValueError("the edges are not those of as many bins")
        self.set_edges(edges)
        self.codes = codes
        w.codes_asked = NULL
        if codes is not None and len(codes):
            self._codes_asked = codes
            w.codes_asked = &self._codes_asked[0]

    def to_tile(
        self, uint8_t[:, :, ::1] shares, int32_t[:, :, ::1] codes: Int32s, Py_ssize_t first,
        uint64_t width
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
    def states(self) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """The words and types of the states of a tile, by code."""
        count = self.w.states.count
        words, kinds = np.empty(count, np.int64), np.empty(count, np.uint8)
        if count:
            words[:] = <int64_t[:count]>self.w.states.word
            kinds[:] = <uint8_t[:count]>self.w.states.kind
        return words, kinds

    @property
    def rows(self) -> int:
        return self.w.rows

    @property
    def words(self) -> Int64s:
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
        w.used = LIST if slots == 0 else WORD if slots <= FEW else BITS
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
        self, Segments segments, const int32_t[::1] quarks, const uint8_t[::1] kinds,
        Totals totals: Totals | None = None
    ):
        """Add the next attributes, whose values are of these types, from segments.

        Totals are of all segments that begin in the range, and that in which it begins.
        """
        cdef Py_ssize_t i, first, last, row
        first = segments.segment_at(self.w.edges[0])
        last = segments.segment_at(self.w.edges[self.w.bins] - 1)
        if first < 0:
            first = 0
        self.make_index(segments, first, last)
        if totals is not None:
            self.find_segments(segments)
        with nogil:
            for i in range(quarks.shape[0]):
                self.begin(kinds[i])
                row = self.w.rows
                if totals is None or not totals.write_cells(&self.w, segments, quarks[i]):
                    by_rows(&self.w, segments, quarks[i], first, last, self.w.used)
                if self.w.failed:
                    break
                if self.w.codes_asked != NULL and kinds[i] == STR:
                    translate(&self.w, row)
        if self.w.failed:
            raise MemoryError

    def take_intervals(self, int64_t birth, IntervalRows rows):
        """Add the next attributes, of strings, from their intervals.

        There are no holes between them. A null interval from `birth` on, where the history begins,
        is not a change.
        """
        cdef Py_ssize_t i, n = rows.rows, row = self.w.rows
        cdef const int32_t* quark = rows.columns.quark
        cdef const int32_t* code = rows.columns.code
        cdef const int64_t* start = rows.columns.start
        cdef const int64_t* end = rows.columns.end
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


def bin_edges(int64_t start_ns, int64_t end_ns, int64_t bins) -> Int64s:
    """Return the bins + 1 edges of the parts of a range, as `units.bin_edge` defines them."""
    cdef int64_t i
    edges_array = np.empty(bins + 1, np.int64)
    cdef int64_t[::1] edges = edges_array
    cdef uint64_t length = <uint64_t>end_ns - <uint64_t>start_ns
    with nogil:
        for i in range(bins + 1):
            edges[i] = bin_edge(start_ns, length, bins, i)
    return edges_array
