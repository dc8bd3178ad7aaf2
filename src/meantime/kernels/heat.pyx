"""Times and intervals into the cells of a fold: integers only, floor everywhere.

A fold cuts time into columns of `period` and each column into `rows`; cell number n is row n % rows
of column n // rows. Row r of a column is [ceil(r * period / rows), ceil((r + 1) * period / rows))
from the column's start, which is what `offset * rows // period` asks for.

Every function takes times from `base`, a column's start at or before all of them, so that nothing
is negative, and less than 2**62 ns away. The callers see to both.
"""

import numpy as np

from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    typedef struct { uint64_t multiplier; int shift; } meantime_divisor;

    /* x // d by a multiplication, for x below 2**62. Both are doubled so that d = 1 needs no case
       of its own: with d' = 2d and 2**shift < d' <= 2**(shift + 1), multiplier =
       ceil(2**(64 + shift) / d') fits 64 bits, and its error stays below one part of 2x. */
    static inline meantime_divisor meantime_divisor_of(uint64_t d) {
        unsigned __int128 doubled = (unsigned __int128)d << 1;
        meantime_divisor out = { 0, 0 };
        while (((unsigned __int128)2 << out.shift) < doubled) out.shift++;
        out.multiplier = (uint64_t)(((((unsigned __int128)1 << (64 + out.shift)) - 1) / doubled) + 1);
        return out;
    }
    static inline uint64_t meantime_divide(uint64_t x, meantime_divisor by) {
        return (uint64_t)(((unsigned __int128)(x << 1) * by.multiplier) >> 64) >> by.shift;
    }
    static inline uint64_t meantime_wide(uint64_t offset, uint64_t rows, uint64_t period) {
        return (uint64_t)((unsigned __int128)offset * rows / period);
    }
    static inline uint64_t meantime_mix(uint64_t cell, uint64_t key) {
        uint64_t x = (cell ^ (key * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
        return x ^ (x >> 32);
    }
    """
    ctypedef struct divisor "meantime_divisor":
        pass
    divisor divisor_of "meantime_divisor_of"(uint64_t d) noexcept nogil
    uint64_t divide "meantime_divide"(uint64_t x, divisor by) noexcept nogil
    uint64_t wide "meantime_wide"(uint64_t offset, uint64_t rows, uint64_t period) noexcept nogil
    uint64_t mix "meantime_mix"(uint64_t cell, uint64_t key) noexcept nogil


cdef struct Fold:
    uint64_t period
    uint64_t rows
    uint64_t width  # of every cell, where rows divides period; otherwise 0
    bint narrow  # offset * rows fits the fast division
    divisor by_period
    divisor by_width
    const int64_t* edges


cdef Fold fold_of(int64_t period, const int64_t[::1] edges) noexcept nogil:
    cdef Fold fold
    fold.period = <uint64_t>period
    fold.rows = <uint64_t>(edges.shape[0] - 1)
    fold.width = fold.period // fold.rows if fold.period % fold.rows == 0 else 0
    fold.narrow = fold.period < ((<uint64_t>1) << 62) // fold.rows
    fold.by_period = divisor_of(fold.period)
    fold.by_width = divisor_of(fold.width if fold.width else 1)
    fold.edges = &edges[0]
    return fold


cdef struct Place:
    int64_t cell
    uint64_t begin
    uint64_t end


cdef inline void find(const Fold* fold, uint64_t time, Place* found) noexcept nogil:
    """Find the cell of a time."""
    cdef uint64_t column, offset, row
    if fold.width:
        row = divide(time, fold.by_width)
        found.cell = <int64_t>row
        found.begin = row * fold.width
        found.end = found.begin + fold.width
        return
    column = divide(time, fold.by_period)
    offset = time - column * fold.period
    if fold.narrow:
        row = divide(offset * fold.rows, fold.by_period)
    else:
        row = wide(offset, fold.rows, fold.period)
    found.cell = <int64_t>(column * fold.rows + row)
    found.begin = time - offset + <uint64_t>fold.edges[row]
    found.end = time - offset + <uint64_t>fold.edges[row + 1]


def bounds(const int64_t[::1] times):
    """Return the smallest and the largest of at least one time."""
    cdef int64_t low = times[0], high = times[0]
    cdef Py_ssize_t i
    with nogil:
        for i in range(times.shape[0]):
            low = times[i] if times[i] < low else low
            high = times[i] if times[i] > high else high
    return low, high


def cells(const int64_t[::1] times, int64_t base, int64_t period, const int64_t[::1] edges):
    """Return the cell of each time, and what remains of that cell from the time on."""
    cdef Py_ssize_t i
    cdef uint64_t time
    cdef Place here
    cdef Fold fold = fold_of(period, edges)
    number_array = np.empty(times.shape[0], np.int64)
    left_array = np.empty(times.shape[0], np.int64)
    cdef int64_t[::1] numbers = number_array, left = left_array
    with nogil:
        for i in range(times.shape[0]):
            time = <uint64_t>times[i] - <uint64_t>base
            find(&fold, time, &here)
            numbers[i] = here.cell
            left[i] = <int64_t>(here.end - time)
    return number_array, left_array


def count(
    const int64_t[::1] times, int64_t base, int64_t period, const int64_t[::1] edges,
    int64_t[::1] totals,
):
    """Add 1 to the total of each time's cell, up to the first time that `totals` has no cell for.

    `totals` has whole columns from `base` on. Returns how many times were counted.
    """
    cdef Py_ssize_t i = 0, n = times.shape[0]
    cdef uint64_t time, span
    cdef int64_t run = 0
    cdef Place here
    cdef Fold fold = fold_of(period, edges)
    here.cell, here.begin, here.end = 0, 0, 0
    with nogil:
        span = <uint64_t>totals.shape[0] // fold.rows * fold.period
        while i < n:
            time = <uint64_t>times[i] - <uint64_t>base
            # Times mostly come in order, so the cell is mostly the last one again.
            if time - here.begin < here.end - here.begin:
                run += 1
                i += 1
                continue
            if time >= span:
                break
            if run:
                totals[here.cell] += run
            find(&fold, time, &here)
            run = 0
        if run:
            totals[here.cell] += run
    return i


def cover(
    const int64_t[::1] starts, const int64_t[::1] ends, int64_t base, int64_t period,
    const int64_t[::1] edges, int64_t[:, ::1] changes,
):
    """Add intervals to `changes`, of which `settle` makes the time per cell.

    Column 0 is by how much the number of intervals that cover whole cells changes at this cell,
    column 1 the ns by which this cell differs from that. `changes` has whole columns from `base`
    on; the last must not be reached. Returns how many intervals were added: up to the first that
    there are no cells for, or that ends before it starts.
    """
    cdef Py_ssize_t i = 0, n = starts.shape[0]
    cdef int64_t run = 0
    cdef uint64_t start, end, span
    cdef Place here
    cdef Fold fold = fold_of(period, edges)
    cdef int64_t* out = &changes[0, 0]
    here.cell, here.begin, here.end = 0, 0, 0
    with nogil:
        span = (<uint64_t>changes.shape[0] // fold.rows - 1) * fold.period
        while i < n:
            start = <uint64_t>starts[i] - <uint64_t>base
            end = <uint64_t>ends[i] - <uint64_t>base
            if end >= span or start > end:
                break
            if start - here.begin >= here.end - here.begin:
                out[2 * here.cell + 1] += run
                run = 0
                find(&fold, start, &here)
            if end < here.end:
                run += <int64_t>(end - start)
            else:
                out[2 * here.cell + 1] += run + <int64_t>(here.end - start)
                out[2 * here.cell + 2] += 1
                find(&fold, end, &here)
                run = -<int64_t>(here.end - end)
                out[2 * here.cell + 2] -= 1
            i += 1
        out[2 * here.cell + 1] += run
    return i


def settle(const int64_t[:, ::1] changes, const int64_t[::1] edges, int64_t[::1] totals):
    """Make of the changes that `cover` gathered the ns that each cell, from cell 0 on, was covered."""
    cdef Py_ssize_t i, row = 0, rows = edges.shape[0] - 1
    cdef int64_t whole = 0
    with nogil:
        for i in range(totals.shape[0]):
            whole += changes[i, 0]
            totals[i] = whole * (edges[row + 1] - edges[row]) + changes[i, 1]
            row = row + 1 if row + 1 < rows else 0


def tally(
    const int64_t[::1] cells, const int64_t[::1] keys, const int64_t[::1] amounts,
    int64_t[::1] slot_keys, int64_t[::1] slot_cells, int64_t[::1] slot_totals,
):
    """Add each amount to the slot of its (key, cell), and return how many slots were taken.

    The slots are an open-addressing table: a power of two of them, more than will be taken, with -1
    as the key of those that are free. Keys are not negative.
    """
    cdef Py_ssize_t i, taken = 0
    cdef uint64_t mask = <uint64_t>(slot_keys.shape[0] - 1), slot
    with nogil:
        for i in range(cells.shape[0]):
            slot = mix(<uint64_t>cells[i], <uint64_t>keys[i]) & mask
            while slot_keys[slot] != -1 and (
                slot_cells[slot] != cells[i] or slot_keys[slot] != keys[i]
            ):
                slot = (slot + 1) & mask
            if slot_keys[slot] == -1:
                slot_keys[slot] = keys[i]
                slot_cells[slot] = cells[i]
                taken += 1
            slot_totals[slot] += amounts[i]
    return taken
