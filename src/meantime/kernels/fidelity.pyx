"""How far a picture of merged rectangles is from that of the intervals that they replace."""

from libc.math cimport fabs, floor
from libc.stdint cimport int32_t, int64_t

import numpy as np


def pixel_error(
    const int64_t[::1] start,
    const int64_t[::1] end,
    const int32_t[::1] row,
    const int32_t[::1] state,
    const int64_t[::1] first,
    Py_ssize_t states,
    int64_t window_start,
    int64_t window_end,
    Py_ssize_t pixels,
):
    """Return how wrong the shares of states are in all pixels together, in pixels.

    The intervals from each `first` up to the next are shown as one rectangle, every part of which
    shows the shares of the whole. In each pixel of each row, the absolute difference between the
    true shares and those shown is added up over the states; 2 is a pixel that is all wrong.
    """
    cdef Py_ssize_t n, i, j, k, groups = first.shape[0], present, pending = 0
    cdef double scale = pixels / (<double>window_end - <double>window_start), total = 0
    cdef double left, right, part, pixel = -1, at
    cdef int32_t s, pixel_row = -1
    shares_array = np.zeros(states)
    wrong_array = np.zeros(states)
    held_array = np.empty(states, np.int32)
    touched_array = np.empty(states, np.int32)
    cdef double[::1] share = shares_array, wrong = wrong_array
    cdef int32_t[::1] held = held_array, touched = touched_array
    with nogil:
        for n in range(groups):
            i = first[n]
            j = first[n + 1] if n + 1 < groups else start.shape[0]
            if j == i + 1:
                continue
            present = 0
            for k in range(i, j):
                s = state[k]
                if share[s] == 0:
                    held[present] = s
                    present += 1
                share[s] += <double>(end[k] - start[k]) / <double>(end[j - 1] - start[i])
            for k in range(i, j):
                s = state[k]
                left = (start[k] - window_start) * scale
                right = (end[k] - window_start) * scale
                at = floor(left)
                while left < right:
                    if at != pixel or row[k] != pixel_row:
                        total += _settle(&wrong[0], &touched[0], pending)
                        pending = 0
                        pixel = at
                        pixel_row = row[k]
                    if left == at and right >= at + 1:
                        # the pixels that one state fills are all wrong by the same
                        part = floor(right) - at
                        total += 2 * part * (1 - share[s])
                        at += part
                        left = at
                        continue
                    part = (right if right < at + 1 else at + 1) - left
                    pending = _blame(
                        &wrong[0], &touched[0], pending, &share[0], &held[0], present, s, part
                    )
                    at += 1
                    left = at
            for k in range(present):
                share[held[k]] = 0
        total += _settle(&wrong[0], &touched[0], pending)
    return total


cdef Py_ssize_t _blame(
    double* wrong, int32_t* touched, Py_ssize_t pending, const double* share,
    const int32_t* held, Py_ssize_t present, int32_t state, double part,
) noexcept nogil:
    """Add what is wrong in a part of a pixel that one state fills."""
    cdef Py_ssize_t k, t
    cdef int32_t s
    for k in range(present):
        s = held[k]
        if wrong[s] == 0:
            for t in range(pending):
                if touched[t] == s:
                    break
            else:
                touched[pending] = s
                pending += 1
        wrong[s] -= part * share[s]
    wrong[state] += part
    return pending


cdef double _settle(double* wrong, const int32_t* touched, Py_ssize_t pending) noexcept nogil:
    cdef Py_ssize_t k
    cdef double total = 0
    for k in range(pending):
        total += fabs(wrong[touched[k]])
        wrong[touched[k]] = 0
    return total
