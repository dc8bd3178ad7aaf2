"""Which spans of a table overlap a range of time, and spans as intervals of attributes.

An attribute is a depth of a thread's lane. Its spans do not overlap, and those without a length are
left out, so that with the time between them they tile the history. In lane 0 of a thread, all
depths from 0 to the deepest are attributes. In other lanes, which have few spans, only the depths
with spans are; the rows of these spans are given with them.

The spans of a thread are adjacent and in order of their start, so 64 rows cover a short time.
There is the earliest start and the latest end of each such block, and of 16 blocks each at the
next levels: a query descends only into blocks that overlap its range, whatever the nesting. It was
chosen over a binary search in each thread, which needs the open spans of every thread at the
range's start, and a pass over a million threads.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import numpy as np

from meantime.kernels.sampled cimport sampled
from meantime.kernels.search cimport Columns, IntervalRows, write_row

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

    def all_overlap(self, int64_t from_ns, int64_t to_ns) -> bool:
        """Return whether it is clear that all spans overlap a range: they begin in it."""
        return (self.start.shape[0] == 0 or self.least[self.first[self.levels] - 1] >= from_ns
                and self.last_start < to_ns)

    cdef inline bint misses(self, int level, int64_t block, int64_t from_ns,
                            int64_t to_ns) noexcept nogil:
        block += self.first[level]
        return self.least[block] >= to_ns or self.most[block] < from_ns

    def overlapping(
        self, const int64_t[::1] first, const int64_t[::1] last, int64_t from_ns, int64_t to_ns
    ) -> Int32s:
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


def parents_among(const int32_t[::1] rows, const int32_t[::1] parent) -> Int32s:
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


def extents(
    const int64_t[::1] offsets, const int64_t[::1] elsewhere, const int32_t[::1] depth,
    const int64_t[::1] start_ns, const int64_t[::1] end_ns
) -> tuple[Int32s, Int32s]:
    """Return how many depths lane 0 of each thread has, and how many ever have a state, as int32.

    `elsewhere` are the rows of other lanes, in ascending order.
    """
    cdef int64_t t, i, k = 0, threads = offsets.shape[0] - 1
    cdef int32_t deep, deepest, lasting
    depths_array = np.zeros(threads, np.int32)
    held_array = np.zeros(threads, np.int32)
    cdef int32_t[::1] depths = depths_array, held = held_array
    with nogil:
        for t in range(threads):
            deepest = lasting = -1
            for i in range(offsets[t], offsets[t + 1]):
                if k < elsewhere.shape[0] and elsewhere[k] == i:
                    k += 1
                    continue
                deep = depth[i]
                # what is around a span that lasts, lasts
                if deep > lasting:
                    deepest = max(deepest, deep)
                    if end_ns[i] > start_ns[i]:
                        lasting = deep
            depths[t] = deepest + 1
            held[t] = lasting + 1
    return depths_array, held_array


cdef class StackIntervals:
    """The intervals of attributes 0 to `attributes` - 1 over [`from_ns`, `to_ns`).

    Attribute -1 is any that never has a state.
    """

    cdef const int64_t[::1] start, end
    cdef const int32_t[::1] name
    cdef int32_t[::1] rows
    cdef int64_t[::1] first
    cdef int64_t from_ns, to_ns

    def __init__(self, const int64_t[::1] offsets, const int64_t[::1] zero,
                 const int64_t[::1] elsewhere, const int64_t[::1] attribute_elsewhere,
                 const int32_t[::1] depth, const int64_t[::1] start_ns,
                 const int64_t[::1] end_ns, const int32_t[::1] name, int64_t attributes,
                 int64_t from_ns, int64_t to_ns):
        """Put the rows in order.

        Depth 0 of lane 0 of thread t is attribute `zero[t]`; those of other lanes are given.
        """
        cdef int64_t t, i, a, k, n = 0
        cdef int64_t[::1] next_row
        self.start = start_ns
        self.end = end_ns
        self.name = name
        self.from_ns = from_ns
        self.to_ns = to_ns
        self.first = np.zeros(attributes + 1, np.int64)
        with nogil:
            k = 0
            for t in range(zero.shape[0]):
                for i in range(offsets[t], offsets[t + 1]):
                    a = zero[t] + depth[i]
                    if k < elsewhere.shape[0] and elsewhere[k] == i:
                        a = attribute_elsewhere[k]
                        k += 1
                    if end_ns[i] > start_ns[i]:
                        self.first[a + 1] += 1
            for a in range(attributes):
                self.first[a + 1] += self.first[a]
            n = self.first[attributes]
        self.rows = np.empty(n, np.int32)
        next_row = np.asarray(self.first).copy()
        with nogil:
            k = 0
            for t in range(zero.shape[0]):
                for i in range(offsets[t], offsets[t + 1]):
                    a = zero[t] + depth[i]
                    if k < elsewhere.shape[0] and elsewhere[k] == i:
                        a = attribute_elsewhere[k]
                        k += 1
                    if end_ns[i] > start_ns[i]:
                        self.rows[next_row[a]] = <int32_t>i
                        next_row[a] += 1

    @property
    def size_bytes(self) -> int:
        """The memory of the order."""
        return 4 * self.rows.shape[0] + 8 * self.first.shape[0]

    cdef int64_t ends_after(self, int32_t attribute, int64_t time_ns) noexcept nogil:
        """The index of the first span that ends after a time, or behind the last."""
        cdef int64_t low, high, middle
        if attribute < 0:
            return 0
        low = self.first[attribute]
        high = self.first[attribute + 1]
        while low < high:
            middle = (low + high) >> 1
            if self.end[self.rows[middle]] > time_ns:
                high = middle
            else:
                low = middle + 1
        return low

    cdef int32_t around(self, int32_t attribute, int64_t time_ns, int64_t* start,
                        int64_t* end) noexcept nogil:
        """The name at a time, -1 for none, and its interval."""
        cdef int64_t index = self.ends_after(attribute, time_ns), begin
        start[0] = self.from_ns
        end[0] = self.to_ns
        if attribute < 0:
            return -1
        if index > self.first[attribute]:
            start[0] = self.end[self.rows[index - 1]]
        if index == self.first[attribute + 1]:
            return -1
        begin = self.start[self.rows[index]]
        if begin > time_ns:
            end[0] = begin
            return -1
        start[0] = begin
        end[0] = self.end[self.rows[index]]
        return self.name[self.rows[index]]

    def at(
        self, const int32_t[::1] attributes, const int64_t[::1] times_ns
    ) -> tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint32]]:
        """Return the interval of each row's attribute that contains its time, as `Segments.at`."""
        cdef Py_ssize_t i, count = attributes.shape[0]
        found = (*(np.empty(count, np.int64) for _ in range(3)), np.empty(count, np.uint32))
        cdef int64_t[::1] start = found[0], end = found[1], word = found[2]
        cdef uint32_t[::1] meta = found[3]
        with nogil:
            for i in range(count):
                word[i] = self.around(attributes[i], times_ns[i], &start[i], &end[i])
                meta[i] = word[i] < 0
        return found

    def sample(
        self, const int32_t[::1] attributes, const int64_t[::1] times_ns
    ) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """Return the value of each attribute at each time, as `Segments.sample` does."""
        cdef Py_ssize_t i, j, n = 0
        cdef int64_t start, end
        word_array = np.empty(attributes.shape[0] * times_ns.shape[0], np.int64)
        null_array = np.empty(len(word_array), np.uint8)
        cdef int64_t[::1] word = word_array
        cdef uint8_t[::1] null = null_array
        with nogil:
            for i in range(attributes.shape[0]):
                for j in range(times_ns.shape[0]):
                    word[n] = self.around(attributes[i], times_ns[j], &start, &end)
                    null[n] = word[n] < 0
                    if null[n]:
                        word[n] = 0
                    n += 1
        return word_array, null_array

    def count(self, question: Question) -> Int64s:
        """Return how many intervals of each attribute meet the range of a question, at most."""
        cdef Py_ssize_t i
        cdef int64_t low, high
        cdef const int32_t[::1] attributes = question.quarks
        cdef int64_t start_ns = question.start_ns, end_ns = question.end_ns
        found = np.empty(attributes.shape[0], np.int64)
        cdef int64_t[::1] counts = found
        with nogil:
            for i in range(attributes.shape[0]):
                low = self.ends_after(attributes[i], start_ns)
                high = self.ends_after(attributes[i], end_ns - 1)
                if attributes[i] >= 0 and high < self.first[attributes[i] + 1]:
                    high += 1
                counts[i] = 2 * (high - low) + 1
        return found

    def gather(self, question: Question, IntervalRows rows):
        """Add the intervals that meet the range of a question, as `Segments.gather` does."""
        cdef Py_ssize_t i, n = rows.rows
        cdef const int32_t[::1] attributes = question.quarks, labels = question.labels
        cdef int64_t start_ns = question.start_ns, end_ns = question.end_ns
        cdef int64_t resolution_ns = question.resolution_ns
        cdef int64_t index, last, time, begin, finish
        cdef int32_t name
        cdef Columns to = rows.columns
        cdef bint text = rows.text
        with nogil:
            for i in range(attributes.shape[0]):
                index = self.ends_after(attributes[i], start_ns)
                last = self.first[attributes[i] + 1] if attributes[i] >= 0 else 0
                time = self.from_ns
                if attributes[i] >= 0 and index > self.first[attributes[i]]:
                    time = self.end[self.rows[index - 1]]
                while time < end_ns:
                    begin = time
                    if index == last:
                        finish = self.to_ns
                        name = -1
                    elif self.start[self.rows[index]] > time:
                        finish = self.start[self.rows[index]]
                        name = -1
                    else:
                        begin = self.start[self.rows[index]]
                        finish = self.end[self.rows[index]]
                        name = self.name[self.rows[index]]
                        index += 1
                    time = finish
                    if finish <= start_ns:
                        continue
                    if begin >= finish:
                        break
                    if resolution_ns and not sampled(begin, finish, start_ns, end_ns,
                                                     resolution_ns):
                        continue
                    if n == to.room:
                        rows.rows = n
                        rows.reserve(1)
                        to = rows.columns
                    write_row(&to, n, text, labels[i], begin, finish, name, name < 0)
                    n += 1
        rows.rows = n
