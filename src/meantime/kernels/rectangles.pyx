"""Rectangles out of intervals: clipped, joined, put together by cells, their times added up.

`pixel_error` is how far a picture of merged rectangles is from that of the intervals.

Two rectangles are neighbours if they are of one row and touch.

A window is cut into CELLS = 8620 * 64 cells; a cell of level n is 2^n of these, so that the cells of
all levels nest, those of level 6 are the pixels of a wide picture, and one of the last level (LEVELS - 1) is the
whole window.
"""

from libc.math cimport fabs, floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport qsort

from typing import NamedTuple

import numpy as np

cdef extern from "grid.h":
    ctypedef struct Grid:
        pass
    Grid grid_of(int64_t, int64_t, int64_t) noexcept nogil
    uint64_t grid_cell(const Grid*, int64_t) noexcept nogil
    int64_t grid_edge(const Grid*, uint64_t) noexcept nogil

cdef enum:
    _CELLS = 8620 << 6
    _LEVELS = 21
    _MERGED = 1
    _OPEN = 2

LEVELS = _LEVELS
MERGED = _MERGED
OPEN = _OPEN


class Visible(NamedTuple):
    """Intervals clipped to the window, row after row, in order of time; as `clip` writes them.

    Attributes:
        row: int32.
        start: int64.
        end: int64.
        state: int32.
        tag: int32, -1 for none; None if there are no tags.
        marks: uint8: `OPEN` if it was still open where it ends.
    """

    row: Int32s
    start: Int64s
    end: Int64s
    state: Int32s
    tag: Int32s | None
    marks: npt.NDArray[np.uint8]


class Columns(NamedTuple):
    """Rectangles, row after row, in order of time.

    The times per state and per tag of each are in two ragged columns, in ascending order of these.

    Attributes:
        row: int32.
        start: int64.
        end: int64.
        marks: uint8: `MERGED` if it combines several intervals, `OPEN` if its last one was open.
        state_offsets: int64, rectangles + 1: the times of rectangle i are those from [i] to [i + 1].
        state_index: int32.
        state_ns: int64.
        tag_offsets: int64, rectangles + 1.
        tag_index: int32.
        tag_ns: int64.
    """

    row: Int32s
    start: Int64s
    end: Int64s
    marks: npt.NDArray[np.uint8]
    state_offsets: Int64s
    state_index: Int32s
    state_ns: Int64s
    tag_offsets: Int64s
    tag_index: Int32s
    tag_ns: Int64s


class Tallies(NamedTuple):
    """Memory to add times up in: a zero for each state and tag, and a list of those with time.

    Attributes:
        state_ns: int64.
        state_held: int32.
        tag_ns: int64.
        tag_held: int32.
    """

    state_ns: Int64s
    state_held: Int32s
    tag_ns: Int64s
    tag_held: Int32s


cdef struct Tally:
    int64_t* ns
    int32_t* held
    Py_ssize_t count


cdef int _ascending(const void* a, const void* b) noexcept nogil:
    return (<int32_t*>a)[0] - (<int32_t*>b)[0]


cdef inline void _add(Tally* tally, int32_t key, int64_t ns) noexcept nogil:
    if tally.ns[key] == 0:
        tally.held[tally.count] = key
        tally.count += 1
    tally.ns[key] += ns


cdef Py_ssize_t _take(Tally* tally, int32_t* index, int64_t* ns, Py_ssize_t at) noexcept nogil:
    """Write the tally in ascending order from `at` on, empty it, and return where it ends."""
    cdef Py_ssize_t i, j
    cdef int32_t key
    if tally.count > 24:
        qsort(tally.held, tally.count, sizeof(int32_t), _ascending)
    else:
        for i in range(1, tally.count):
            key = tally.held[i]
            j = i
            while j and tally.held[j - 1] > key:
                tally.held[j] = tally.held[j - 1]
                j -= 1
            tally.held[j] = key
    for i in range(tally.count):
        key = tally.held[i]
        index[at + i] = key
        ns[at + i] = tally.ns[key]
        tally.ns[key] = 0
    at += tally.count
    tally.count = 0
    return at


def clip(
    const int32_t[::1] quark, const int64_t[::1] from_ns, const int64_t[::1] until_ns,
    const int32_t[::1] code, const int32_t[::1] tag, const int32_t[::1] row_of_quark,
    const int32_t[::1] state_of_code, bint tagged, int64_t begin_ns, int64_t cut_ns,
    int64_t last_ns, into: Visible
) -> int:
    """Write the visible parts of intervals, neighbours with the same state and tag joined.

    An interval begins at `begin_ns` at the earliest. One that ends after `cut_ns` is open there: it
    ends at `last_ns` at the latest. Code -1 means no state. `into` is `Visible` with as many rows
    as there are intervals, and with tags if `tagged`.

    Returns:
        How many rows were written; or, if a code has no state yet, -1.
    """
    cdef int32_t[::1] out_row = into.row
    cdef int64_t[::1] out_start = into.start
    cdef int64_t[::1] out_end = into.end
    cdef int32_t[::1] out_state = into.state
    cdef int32_t[::1] out_tag = into.tag  # None unless `tagged`
    cdef uint8_t[::1] out_marks = into.marks
    cdef Py_ssize_t i, n = 0
    cdef int64_t a, b
    cdef int32_t r, s, t
    cdef uint8_t marks
    with nogil:
        for i in range(quark.shape[0]):
            if code[i] < 0:
                continue
            a = from_ns[i]
            b = until_ns[i]
            marks = 0
            if a < begin_ns:
                a = begin_ns
            if b > cut_ns:
                marks = _OPEN
                if b > last_ns:
                    b = last_ns
            if b <= a:
                continue
            r = row_of_quark[quark[i]]
            s = state_of_code[code[i]]
            if s < 0:
                n = -1
                break
            t = tag[i] if tagged else -1
            if (
                n
                and out_end[n - 1] == a
                and out_row[n - 1] == r
                and out_state[n - 1] == s
                and (not tagged or out_tag[n - 1] == t)
            ):
                out_end[n - 1] = b
                out_marks[n - 1] |= marks
                continue
            out_row[n] = r
            out_start[n] = a
            out_end[n] = b
            out_state[n] = s
            if tagged:
                out_tag[n] = t
            out_marks[n] = marks
            n += 1
    return n


def pack(
    visible: Visible, int64_t window_start, int64_t window_end, int level, tallies: Tallies,
    Py_ssize_t count, columns: Columns
) -> int:
    """Append what `clip` wrote to `count` rectangles: one each, or one for neighbours in a cell.

    With level -1 each interval becomes a rectangle; otherwise neighbours in one cell of that level
    become one. The columns must have room.

    Returns:
        How many rectangles there are now.
    """
    cdef const int32_t[::1] in_row = visible.row
    cdef const int64_t[::1] in_start = visible.start
    cdef const int64_t[::1] in_end = visible.end
    cdef const int32_t[::1] in_state = visible.state
    cdef const int32_t[::1] in_tag = visible.tag
    cdef bint tagged = in_tag is not None
    cdef const uint8_t[::1] in_marks = visible.marks
    cdef int32_t[::1] row = columns.row
    cdef int64_t[::1] start = columns.start
    cdef int64_t[::1] end = columns.end
    cdef uint8_t[::1] marks = columns.marks
    cdef int64_t[::1] state_offsets = columns.state_offsets
    cdef int32_t[::1] state_index = columns.state_index
    cdef int64_t[::1] state_ns = columns.state_ns
    cdef int64_t[::1] tag_offsets = columns.tag_offsets
    cdef int32_t[::1] tag_index = columns.tag_index
    cdef int64_t[::1] tag_ns = columns.tag_ns
    cdef int64_t[::1] state_tally = tallies.state_ns
    cdef int32_t[::1] state_held = tallies.state_held
    cdef int64_t[::1] tag_tally = tallies.tag_ns
    cdef int32_t[::1] tag_held = tallies.tag_held
    cdef Py_ssize_t intervals = in_row.shape[0]
    cdef Py_ssize_t i = 0, j, state_at = state_offsets[count], tag_at = tag_offsets[count]
    cdef int64_t cell_end
    cdef uint64_t cell
    cdef Grid grid = grid_of(window_start, window_end, _CELLS)
    cdef Tally states, tags
    states.ns = &state_tally[0]
    states.held = &state_held[0]
    states.count = 0
    tags.ns = &tag_tally[0]
    tags.held = &tag_held[0]
    tags.count = 0
    cell_end = window_start
    with nogil:
        while i < intervals:
            j = i + 1
            if level >= 0:
                if i == 0 or in_row[i] != in_row[i - 1] or in_start[i] >= cell_end:
                    cell = (grid_cell(&grid, in_start[i]) >> level) + 1
                    cell_end = grid_edge(&grid, cell << level)
                if in_end[i] <= cell_end:
                    while (
                        j < intervals
                        and in_end[j] <= cell_end
                        and in_start[j] == in_end[j - 1]
                        and in_row[j] == in_row[i]
                    ):
                        j += 1
            row[count] = in_row[i]
            start[count] = in_start[i]
            end[count] = in_end[j - 1]
            if j == i + 1:
                marks[count] = in_marks[i]
                state_index[state_at] = in_state[i]
                state_ns[state_at] = in_end[i] - in_start[i]
                state_at += 1
                if tagged and in_tag[i] >= 0:
                    tag_index[tag_at] = in_tag[i]
                    tag_ns[tag_at] = in_end[i] - in_start[i]
                    tag_at += 1
                i = j
            else:
                marks[count] = _MERGED | in_marks[j - 1]
                while i < j:
                    _add(&states, in_state[i], in_end[i] - in_start[i])
                    if tagged and in_tag[i] >= 0:
                        _add(&tags, in_tag[i], in_end[i] - in_start[i])
                    i += 1
                state_at = _take(&states, &state_index[0], &state_ns[0], state_at)
                tag_at = _take(&tags, &tag_index[0], &tag_ns[0], tag_at)
            count += 1
            state_offsets[count] = state_at
            tag_offsets[count] = tag_at
    return count


def levels(
    Py_ssize_t count, columns: Columns | Visible, int64_t window_start, int64_t window_end,
    int64_t[::1] pairs
):
    """Add to `pairs[n]` how many pairs of neighbours are in one cell from level n on.

    The columns are `Columns`, or `Visible`, of which each interval is a rectangle. So the caller
    finds the level that leaves few enough rectangles without trying each.
    """
    cdef const int32_t[::1] row = columns.row
    cdef const int64_t[::1] start = columns.start
    cdef const int64_t[::1] end = columns.end
    cdef Py_ssize_t i
    cdef Grid grid = grid_of(window_start, window_end, _CELLS)
    cdef uint64_t differ
    cdef int level
    with nogil:
        for i in range(1, count):
            if row[i] == row[i - 1] and start[i] == end[i - 1]:
                # A cell of level n is 2^n small ones: two are in one once their high bits agree.
                differ = grid_cell(&grid, start[i - 1]) ^ grid_cell(&grid, end[i] - 1)
                level = 0
                while differ:
                    differ >>= 1
                    level += 1
                pairs[level] += 1


def cells(
    Py_ssize_t count, columns: Columns, int64_t window_start, int64_t window_end, int level,
    int64_t[::1] first
) -> int:
    """Write the first rectangle of each run that is in one cell, and return how many runs."""
    cdef const int32_t[::1] row = columns.row
    cdef const int64_t[::1] start = columns.start
    cdef const int64_t[::1] end = columns.end
    cdef Py_ssize_t i, n = 0
    cdef Grid grid = grid_of(window_start, window_end, _CELLS)
    cdef int64_t cell_end = window_start
    cdef bint inside = False
    with nogil:
        for i in range(count):
            if inside and end[i] <= cell_end and row[i] == row[i - 1] and start[i] == end[i - 1]:
                continue
            cell_end = grid_edge(&grid, ((grid_cell(&grid, start[i]) >> level) + 1) << level)
            inside = end[i] <= cell_end
            first[n] = i
            n += 1
    return n


def gather(const int64_t[::1] first, tallies: Tallies, Py_ssize_t count, columns: Columns) -> int:
    """Make one rectangle of those from each `first` up to the next, in place; return how many.

    Times per state and per tag are added up, exactly.
    """
    cdef int32_t[::1] row = columns.row
    cdef int64_t[::1] start = columns.start
    cdef int64_t[::1] end = columns.end
    cdef uint8_t[::1] marks = columns.marks
    cdef int64_t[::1] state_offsets = columns.state_offsets
    cdef int32_t[::1] state_index = columns.state_index
    cdef int64_t[::1] state_ns = columns.state_ns
    cdef int64_t[::1] tag_offsets = columns.tag_offsets
    cdef int32_t[::1] tag_index = columns.tag_index
    cdef int64_t[::1] tag_ns = columns.tag_ns
    cdef int64_t[::1] state_tally = tallies.state_ns
    cdef int32_t[::1] state_held = tallies.state_held
    cdef int64_t[::1] tag_tally = tallies.tag_ns
    cdef int32_t[::1] tag_held = tallies.tag_held
    cdef Py_ssize_t n, i, j, k, state_at = 0, tag_at = 0, runs = first.shape[0]
    # There may be neither states nor tags.
    cdef int32_t* state_to = &state_index[0] if state_index.shape[0] else NULL
    cdef int64_t* state_ns_to = &state_ns[0] if state_ns.shape[0] else NULL
    cdef int32_t* tag_to = &tag_index[0] if tag_index.shape[0] else NULL
    cdef int64_t* tag_ns_to = &tag_ns[0] if tag_ns.shape[0] else NULL
    cdef Tally states, tags
    states.ns = &state_tally[0]
    states.held = &state_held[0]
    states.count = 0
    tags.ns = &tag_tally[0]
    tags.held = &tag_held[0]
    tags.count = 0
    cdef int64_t state_from, state_until = 0, tag_from, tag_until = 0
    with nogil:
        for n in range(runs):
            i = first[n]
            j = first[n + 1] if n + 1 < runs else count
            # Offsets are overwritten behind the reader, never before it, since no run has more
            # times than its rectangles had: so this needs no second set of columns.
            state_from = state_until
            tag_from = tag_until
            state_until = state_offsets[j]
            tag_until = tag_offsets[j]
            for k in range(state_from, state_until):
                _add(&states, state_index[k], state_ns[k])
            for k in range(tag_from, tag_until):
                _add(&tags, tag_index[k], tag_ns[k])
            row[n] = row[i]
            start[n] = start[i]
            end[n] = end[j - 1]
            marks[n] = marks[i] if j == i + 1 else marks[j - 1] | _MERGED
            state_at = _take(&states, state_to, state_ns_to, state_at)
            tag_at = _take(&tags, tag_to, tag_ns_to, tag_at)
            state_offsets[n + 1] = state_at
            tag_offsets[n + 1] = tag_at
    return runs


def pixel_error(
    const int64_t[::1] start, const int64_t[::1] end, const int32_t[::1] row,
    const int32_t[::1] state, const int64_t[::1] first, Py_ssize_t states, int64_t window_start,
    int64_t window_end, Py_ssize_t pixels
) -> float:
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
