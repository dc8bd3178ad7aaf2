"""Times and intervals into the cells of a fold, and sums over the harmonics of frequencies.

The cells of a fold are integers only, floor everywhere.

A fold cuts time into columns of `period` and each column into `rows`; cell number n is row n % rows
of column n // rows. Row r of a column is [ceil(r * period / rows), ceil((r + 1) * period / rows))
from the column's start, which is what `offset * rows // period` asks for.

Every function of cells takes times from `base`, a column's start at or before all of them, so that nothing
is negative, and less than 2**62 ns away. The callers see to both.
"""

from libc.math cimport M_PI, atan2, cos, sin
from libc.stdint cimport int64_t, uint64_t

import numpy as np

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


def bounds(const int64_t[::1] times) -> tuple[int, int]:
    """Return the smallest and the largest of at least one time."""
    cdef int64_t low = times[0], high = times[0]
    cdef Py_ssize_t i
    with nogil:
        for i in range(times.shape[0]):
            low = times[i] if times[i] < low else low
            high = times[i] if times[i] > high else high
    return low, high


def cells(
    const int64_t[::1] times, int64_t base, int64_t period, const int64_t[::1] edges
) -> tuple[Int64s, Int64s]:
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
    int64_t[::1] totals
) -> int:
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
    const int64_t[::1] edges, int64_t[:, ::1] changes: Int64s
) -> int:
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


def settle(const int64_t[:, ::1] changes: Int64s, const int64_t[::1] edges, int64_t[::1] totals):
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
    int64_t[::1] slot_keys, int64_t[::1] slot_cells, int64_t[::1] slot_totals
) -> int:
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


# The number of phases, a power of two.
cdef enum:
    PHASES = 256


def squared(
    const double complex[::1] values: npt.NDArray[np.complex128], double scale
) -> npt.NDArray[np.float64]:
    """Return the squared length of each value, multiplied by `scale`."""
    cdef Py_ssize_t i
    found_array = np.empty(values.shape[0])
    cdef double[::1] found = found_array
    with nogil:
        for i in range(values.shape[0]):
            found[i] = (values[i].real * values[i].real + values[i].imag * values[i].imag) * scale
    return found_array


def add_harmonics(
    const double[::1] power,
    const double[::1] frequency,
    Py_ssize_t length,
    int first,
    int last,
    double least,
    double[::1] summed,
):
    """Add the power of harmonics `first` to `last` of each frequency to `summed`, in place.

    Harmonics above 0.5 and frequencies whose sum is less than `least` are left out.

    Args:
        power: The power of frequency n / length, for n up to length / 2.
        frequency: Frequencies, ascending, in (0, 0.5].
        length: The length of the transform.
        first: The first harmonic.
        last: The last one.
        least: The least sum to add to.
        summed: The sums so far.
    """
    cdef Py_ssize_t i, at, most = power.shape[0] - 1
    cdef int harmonic
    cdef double place
    if frequency.shape[0] != summed.shape[0] or most < 0:
        raise ValueError("a sum for each frequency, and a power")
    with nogil:
        for i in range(frequency.shape[0]):
            if summed[i] < least:
                continue
            for harmonic in range(first, last + 1):
                place = frequency[i] * harmonic
                if not 0 < place <= 0.5:
                    break
                at = <Py_ssize_t>(place * length + 0.5)
                summed[i] += power[at if at < most else most]


cdef void fold_into(const double[::1] positions, double period, double* weight) noexcept nogil:
    """Count positions by their phase; one between two phases counts in part for each.

    So the error of sums over phases is of second order.
    """
    cdef Py_ssize_t n
    cdef int64_t at
    cdef double turn = PHASES / period, x
    for n in range(PHASES):
        weight[n] = 0
    for n in range(positions.shape[0]):
        x = positions[n] * turn
        at = <int64_t>x
        x -= at
        weight[at & (PHASES - 1)] += 1 - x
        weight[(at + 1) & (PHASES - 1)] += x


cdef int check(const double[::1] positions) except -1:
    cdef Py_ssize_t n
    for n in range(positions.shape[0]):
        if not 0 <= positions[n] < 2147483648.0:
            raise ValueError("a position is outside [0, 2**31)")
    return 0


def middle(const double[::1] positions, double period) -> float:
    """Return the circular mean of positions within a period, in (-period / 2, period / 2].

    Args:
        positions: In [0, 2**31).
        period: At least 1.
    """
    cdef double[PHASES] weight
    cdef double x = 0, y = 0
    cdef int bin
    if not period >= 1:
        raise ValueError("the period is less than 1")
    check(positions)
    with nogil:
        fold_into(positions, period, weight)
        for bin in range(PHASES):
            x += weight[bin] * cos(2 * M_PI * bin / PHASES)
            y += weight[bin] * sin(2 * M_PI * bin / PHASES)
    return atan2(y, x) / (2 * M_PI) * period


def strengths(
    const double[::1] positions, const double[::1] periods, int harmonics
) -> npt.NDArray[np.float64]:
    """Return for each period how strongly positions repeat with it.

    That is the sum, over at most `harmonics` harmonics of at least two units, of the squared length
    of the sum of the positions' phases as unit vectors.

    Args:
        positions: In [0, 2**31).
        periods: At least 1.
        harmonics: At most half of the number of phases, 128.
    """
    cdef Py_ssize_t i
    cdef int bin, harmonic, most
    cdef double x, y, total
    cdef double[PHASES] cosine, sine, weight
    found_array = np.zeros(periods.shape[0])
    cdef double[::1] found = found_array
    for bin in range(PHASES):
        cosine[bin] = cos(2 * M_PI * bin / PHASES)
        sine[bin] = sin(2 * M_PI * bin / PHASES)
    check(positions)
    with nogil:
        for i in range(periods.shape[0]):
            if not periods[i] >= 1:
                continue
            fold_into(positions, periods[i], weight)
            most = harmonics if periods[i] >= 2 * harmonics else <int>(periods[i] / 2)
            total = 0
            for harmonic in range(1, most + 1):
                x = y = 0
                for bin in range(PHASES):
                    x += weight[bin] * cosine[harmonic * bin & (PHASES - 1)]
                    y += weight[bin] * sine[harmonic * bin & (PHASES - 1)]
                total += x * x + y * y
            found[i] = total
    return found_array
