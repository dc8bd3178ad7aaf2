"""Sums over the harmonics of frequencies: of a spectrum, and of positions on a line."""

from libc.math cimport M_PI, atan2, cos, sin
from libc.stdint cimport int64_t

import numpy as np

# The number of phases, a power of two.
cdef enum:
    PHASES = 256


def squared(const double complex[::1] values, double scale):
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


def middle(const double[::1] positions, double period):
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


def strengths(const double[::1] positions, const double[::1] periods, int harmonics):
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
