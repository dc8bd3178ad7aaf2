"""Which spans of a table overlap a range of time, found without reading all of them."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import numpy as np

cdef enum:
    # Rows of a block of the lowest level, and blocks of one of the next.
    LEAF = 64
    FAN = 16
    # 2^31 rows have 2^25 blocks, and 16^7 is more.
    MOST_LEVELS = 8


cdef class TimeIndex:
    """The earliest start and the latest end of blocks of spans, at several levels.

    Spans of a thread are adjacent and in order of their start, so a block covers a short time, and
    those that do not overlap a range are skipped. Nothing depends on how the spans are nested.
    """

    cdef const int64_t[::1] start, end
    cdef object _least_array, _most_array
    cdef int64_t[::1] least, most
    # by level, the index of its first block, and the rows of a block
    cdef int64_t first[MOST_LEVELS + 1]
    cdef int64_t rows[MOST_LEVELS]
    cdef int levels
    cdef int64_t last_start

    def __init__(self, const int64_t[::1] start_ns, const int64_t[::1] end_ns):
        cdef int64_t n = start_ns.shape[0], blocks = (n + LEAF - 1) // LEAF, rows = LEAF
        cdef int64_t i, block, a, b
        cdef int level
        if end_ns.shape[0] != n:
            raise ValueError("the columns differ in length")
        self.start = start_ns
        self.end = end_ns
        self.levels = 0
        self.last_start = np.iinfo(np.int64).min
        self.first[0] = 0
        while True:
            self.rows[self.levels] = rows
            self.first[self.levels + 1] = self.first[self.levels] + blocks
            self.levels += 1
            if blocks <= 1 or self.levels == MOST_LEVELS:
                break
            blocks = (blocks + FAN - 1) // FAN
            rows *= FAN
        self._least_array = np.full(self.first[self.levels], np.iinfo(np.int64).max)
        self._most_array = np.full(self.first[self.levels], np.iinfo(np.int64).min)
        self.least = self._least_array
        self.most = self._most_array
        with nogil:
            for i in range(n):
                block = i // LEAF
                if start_ns[i] < self.least[block]:
                    self.least[block] = start_ns[i]
                if start_ns[i] > self.last_start:
                    self.last_start = start_ns[i]
                if end_ns[i] > self.most[block]:
                    self.most[block] = end_ns[i]
            for level in range(1, self.levels):
                a, b = self.first[level - 1], self.first[level]
                for i in range(a, b):
                    block = b + (i - a) // FAN
                    if self.least[i] < self.least[block]:
                        self.least[block] = self.least[i]
                    if self.most[i] > self.most[block]:
                        self.most[block] = self.most[i]

    def all_overlap(self, int64_t from_ns, int64_t to_ns):
        """Return whether it is clear that all spans overlap a range: they begin in it."""
        return (self.start.shape[0] == 0 or self.least[self.first[self.levels] - 1] >= from_ns
                and self.last_start < to_ns)

    cdef inline bint misses(self, int level, int64_t block, int64_t from_ns,
                            int64_t to_ns) noexcept nogil:
        block += self.first[level]
        return self.least[block] >= to_ns or self.most[block] < from_ns

    def overlapping(self, const int64_t[::1] first, const int64_t[::1] last, int64_t from_ns,
                    int64_t to_ns):
        """Return the rows in the ranges [first, last) that overlap [from_ns, to_ns), as int32.

        Ranges are in ascending order. A span without a length overlaps if its time is in the range.

        Raises:
            MemoryError: If there is not enough memory for the rows.
        """
        cdef int64_t n = self.start.shape[0], k, row, end, count = 0, room = 0, block
        cdef int level
        cdef int32_t* found = NULL
        cdef void* grown
        cdef bint failed = False
        with nogil:
            for k in range(first.shape[0]):
                row = max(first[k], 0)
                end = min(last[k], n)
                while row < end:
                    if row % LEAF == 0:
                        level = 0
                        block = row // LEAF
                        if self.misses(0, block, from_ns, to_ns):
                            while (level + 1 < self.levels and block % FAN == 0
                                   and self.misses(level + 1, block // FAN, from_ns, to_ns)):
                                level += 1
                                block //= FAN
                            row += self.rows[level]
                            continue
                        if count + LEAF > room:
                            room = 2 * room + 16 * LEAF
                            grown = realloc(found, room * sizeof(int32_t))
                            if grown == NULL:
                                failed = True
                                break
                            found = <int32_t*>grown
                    elif count == room:
                        room = 2 * room + 16 * LEAF
                        grown = realloc(found, room * sizeof(int32_t))
                        if grown == NULL:
                            failed = True
                            break
                        found = <int32_t*>grown
                    if self.start[row] < to_ns and (
                        self.end[row] > from_ns or self.start[row] >= from_ns
                    ):
                        found[count] = <int32_t>row
                        count += 1
                    row += 1
                if failed:
                    break
        if failed:
            free(found)
            raise MemoryError
        rows_array = np.empty(count, np.int32)
        cdef int32_t[::1] rows = rows_array
        if count:
            memcpy(&rows[0], found, count * sizeof(int32_t))
        free(found)
        return rows_array


def parents_among(const int32_t[::1] rows, const int32_t[::1] parent):
    """Return the parent of each row by its index among the rows, which ascend, as int32.

    It is the nearest span above the row that is among them, -1 if there is none. Every span comes
    after its parent.
    """
    cdef int64_t n = rows.shape[0], i, low, high, middle
    cdef int32_t above, near
    cdef int steps
    cdef bint left_out = False
    found_array = np.empty(n, np.int32)
    cdef int32_t[::1] found = found_array
    with nogil:
        for i in range(n):
            above = parent[rows[i]]
            if above < 0:
                found[i] = -1
                continue
            # Mostly it is the row before, or above that; otherwise it is searched for.
            near = <int32_t>(i - 1)
            steps = 0
            while near >= 0 and rows[near] > above and steps < 16:
                near = found[near]
                steps += 1
            if near >= 0 and rows[near] == above:
                found[i] = near
                continue
            low = 0
            high = i
            while low < high:
                middle = (low + high) >> 1
                if rows[middle] < above:
                    low = middle + 1
                else:
                    high = middle
            if low < i and rows[low] == above:
                found[i] = <int32_t>low
            else:
                found[i] = -2
                left_out = True
    if left_out:
        nearest_above(rows, parent, found_array)
    return found_array


cdef nearest_above(const int32_t[::1] rows, const int32_t[::1] parent, found_array):
    """Replace each -2 by the nearest row above that is among the rows."""
    cdef int32_t[::1] found = found_array
    cdef int64_t i
    cdef int32_t above
    # Spans above that are left out, and the nearest row above each: every one is visited once.
    known = {}
    ascending = np.asarray(rows)
    for i in range(rows.shape[0]):
        if found[i] != -2:
            continue
        passed = []
        above = parent[rows[i]]
        nearest = -1
        while above >= 0:
            if above in known:
                nearest = known[above]
                break
            index = int(np.searchsorted(ascending, above))
            if index < len(ascending) and ascending[index] == above:
                nearest = index
                break
            passed.append(above)
            above = parent[above]
        for above in passed:
            known[above] = nearest
        found[i] = nearest
    return None
