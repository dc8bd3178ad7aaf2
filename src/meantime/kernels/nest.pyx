"""Begins and ends into spans, and spans into stacks: matching, order, depth, lane, parent, self.

An end closes the latest begun span of its thread. The spans of a thread are ordered by start, then
longest first, then as in the file. A span's parent is the latest begun open one that contains it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

import numpy as np

cdef extern from "span_flags.h":
    enum:
        SPAN_UNFINISHED
        SPAN_STRUCTURED
        SPAN_OPEN


# The flag of spans whose end has not been read.
OPEN = SPAN_OPEN


def match(
    const int64_t[::1] start_ns, int64_t[::1] end_ns, const int32_t[::1] thread,
    const int32_t[::1] name, int32_t[::1] level, uint8_t[::1] flags, const int64_t[::1] mark_ns,
    const int32_t[::1] mark_thread, const int32_t[::1] mark_name, const int32_t[::1] mark_position,
    int32_t[::1] mark_span, const int64_t[::1] last_ns, *, bint finish=True
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Close begun spans (those flagged OPEN) by the marks, in the order given.

    Writes `end_ns` and `level` of those spans, removes their flag, and writes to `mark_span` the
    span that each mark closed, -1 for none. Mark i comes after span `mark_position[i] - 1`. A
    mark's name of -1 matches any. Spans that no mark closed stay open; with `finish` they end with
    their thread, UNFINISHED.

    Returns:
        Four counts per thread, as int64: marks that closed nothing, spans left open, spans whose
        end came before their begin (they become empty), marks of another name than their span's.
    """
    cdef int64_t threads = last_ns.shape[0], spans = start_ns.shape[0], marks = mark_ns.shape[0]
    cdef int64_t i = 0, m, stop
    cdef int32_t t, top
    # The open spans of each thread are a linked list from the innermost on, so that all threads
    # together need one array, however deep each is.
    cdef int32_t[::1] tops = np.full(threads, -1, np.int32)
    cdef int32_t[::1] below = np.empty(spans if marks else 0, np.int32)
    stray_array = np.zeros(threads, np.int64)
    open_array = np.zeros(threads, np.int64)
    negative_array = np.zeros(threads, np.int64)
    renamed_array = np.zeros(threads, np.int64)
    cdef int64_t[::1] stray = stray_array, left = open_array
    cdef int64_t[::1] negative = negative_array, renamed = renamed_array
    if not marks:
        below = np.empty(spans if np.any(np.asarray(flags) & SPAN_OPEN) else 0, np.int32)
        if not below.shape[0]:
            return stray_array, open_array, negative_array, renamed_array
    with nogil:
        for m in range(marks + 1):
            stop = mark_position[m] if m < marks else spans
            while i < stop:
                if flags[i] & SPAN_OPEN:
                    t = thread[i]
                    top = tops[t]
                    below[i] = top
                    level[i] = 0 if top < 0 else level[top] + 1
                    tops[t] = <int32_t>i
                i += 1
            if m == marks:
                break
            t = mark_thread[m]
            top = tops[t]
            mark_span[m] = top
            if top < 0:
                stray[t] += 1
                continue
            tops[t] = below[top]
            flags[top] &= ~SPAN_OPEN
            if mark_ns[m] < start_ns[top]:
                negative[t] += 1
                end_ns[top] = start_ns[top]
            else:
                end_ns[top] = mark_ns[m]
            if mark_name[m] >= 0 and mark_name[m] != name[top]:
                renamed[t] += 1
        for t in range(<int32_t>threads if finish else 0):
            top = tops[t]
            while top >= 0:
                left[t] += 1
                end_ns[top] = last_ns[t] if last_ns[t] > start_ns[top] else start_ns[top]
                flags[top] = (flags[top] | SPAN_UNFINISHED) & ~SPAN_OPEN
                top = below[top]
    return stray_array, open_array, negative_array, renamed_array


def unordered(const int64_t[::1] start_ns, const int32_t[::1] thread, const uint8_t[::1] flags,
              uint8_t[::1] kept, int64_t threads):
    """Mark the spans that are open, and those that began before or when one did that is still open.

    The order of spans that begin at one time is that in which they came, so the latter cannot be
    delivered before the former.
    """
    cdef int64_t i
    cdef int32_t t
    cdef int64_t[::1] latest_ns = np.full(threads, np.iinfo(np.int64).min, np.int64)
    with nogil:
        for i in range(start_ns.shape[0]):
            t = thread[i]
            if flags[i] & SPAN_OPEN:
                latest_ns[t] = max(latest_ns[t], start_ns[i])
                kept[i] = 1
            elif start_ns[i] <= latest_ns[t]:
                kept[i] = 1


cdef bint grow(void** data, int64_t size) noexcept nogil:
    cdef void* grown = realloc(data[0], size)
    if grown == NULL:
        return False
    data[0] = grown
    return True


cdef struct Key:
    int64_t start_ns
    int64_t end_ns
    int32_t row


cdef inline bint after(const Key* a, const Key* b) noexcept nogil:
    """Whether a comes strictly after b."""
    if a.start_ns != b.start_ns:
        return a.start_ns > b.start_ns
    return a.end_ns < b.end_ns


cdef void merge_sort(Key* keys, Key* spare, int64_t n) noexcept nogil:
    """Stable; runs that are in order stay where they are, so nearly sorted input costs little."""
    # Not `qsort`: it is not stable, and spans that are equal must stay as they came.
    cdef int64_t i, j, k, middle, end, width
    cdef Key key
    cdef int64_t block = 16
    i = 0
    while i < n:
        end = i + block if i + block < n else n
        for j in range(i + 1, end):
            if after(&keys[j - 1], &keys[j]):
                key = keys[j]
                k = j
                while k > i and after(&keys[k - 1], &key):
                    keys[k] = keys[k - 1]
                    k -= 1
                keys[k] = key
        i = end
    width = block
    while width < n:
        i = 0
        while i + width < n:
            middle = i + width
            end = middle + width if middle + width < n else n
            if after(&keys[middle - 1], &keys[middle]):
                for j in range(i, middle):
                    spare[j - i] = keys[j]
                j = 0
                k = i
                while j < width and middle < end:
                    if after(&spare[j], &keys[middle]):
                        keys[k] = keys[middle]
                        middle += 1
                    else:
                        keys[k] = spare[j]
                        j += 1
                    k += 1
                while j < width:
                    keys[k] = spare[j]
                    j += 1
                    k += 1
            i += 2 * width
        width *= 2


cdef inline bint row_after(int32_t row, int32_t other, const int64_t* start_ns,
                           const int64_t* end_ns, bint by_length) noexcept nogil:
    """Whether a row comes strictly after another one."""
    if start_ns[row] != start_ns[other]:
        return start_ns[row] > start_ns[other]
    return by_length and end_ns[row] < end_ns[other]


cdef inline Key key_of(int32_t row, const int64_t* start_ns, const int64_t* end_ns,
                       bint by_length) noexcept nogil:
    cdef Key key
    key.start_ns = start_ns[row]
    key.end_ns = end_ns[row] if by_length else 0
    key.row = row
    return key


cdef int sort_rows(int32_t* rows, int64_t n, const int64_t* start_ns, const int64_t* end_ns,
                   bint by_length, Key** keys, Key** spare, int64_t* size) noexcept nogil:
    """Sort ascending rows by start, and longest first if `by_length`. Return 0 if out of memory."""
    cdef int64_t i, first, kept, late = 0
    cdef int32_t row, last
    # Most writers emit spans in order, but for those that were open when others were delivered:
    # only these few are sorted, and keys of the others need no memory.
    last = rows[0]
    first = n
    for i in range(1, n):
        if row_after(last, rows[i], start_ns, end_ns, by_length):
            late += 1
            first = min(first, i)
        else:
            last = rows[i]
    if not late:
        return 1
    if late > n >> 4:
        first = 0
        late = n
    if late > size[0]:
        if not (grow(<void**>keys, late * sizeof(Key)) and grow(<void**>spare, late * sizeof(Key))):
            return 0
        size[0] = late
    late = 0
    kept = first
    for i in range(first, n):
        row = rows[i]
        if not first or row_after(rows[kept - 1], row, start_ns, end_ns, by_length):
            keys[0][late] = key_of(row, start_ns, end_ns, by_length)
            late += 1
        else:
            rows[kept] = row
            kept += 1
    merge_sort(keys[0], spare[0], late)
    for i in range(n - 1, -1, -1):
        if not late:
            break
        row = keys[0][late - 1].row
        if kept and (row_after(rows[kept - 1], row, start_ns, end_ns, by_length) or (
            rows[kept - 1] > row
            and not row_after(row, rows[kept - 1], start_ns, end_ns, by_length)
        )):
            kept -= 1
            rows[i] = rows[kept]
        else:
            late -= 1
            rows[i] = row
    return 1


cdef void interleave(const int32_t* begun, int64_t n, const int32_t* complete, int64_t m,
                     const int64_t* start_ns, const int64_t* end_ns,
                     int32_t* rows) noexcept nogil:
    """Merge the begun and the complete rows of a thread, each in order."""
    cdef int64_t i = 0, j = 0, k
    cdef int32_t a, b
    cdef bint takes_begun
    for k in range(n + m):
        if i == n:
            takes_begun = False
        elif j == m:
            takes_begun = True
        else:
            a = begun[i]
            b = complete[j]
            if start_ns[a] != start_ns[b]:
                takes_begun = start_ns[a] < start_ns[b]
            # Of equal starts the longer one is outside. An empty begun one goes first in any case:
            # the next begun one may come after it, and contain the complete ones.
            elif end_ns[a] == start_ns[a] or end_ns[a] > end_ns[b]:
                takes_begun = True
            else:
                takes_begun = end_ns[a] == end_ns[b] and a < b
        if takes_begun:
            rows[k] = begun[i]
            i += 1
        else:
            rows[k] = complete[j]
            j += 1


def order(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] thread,
    const uint8_t[::1] flags, const int32_t[::1] rank, threads: int | None = None
) -> tuple[Int32s, Int64s]:
    """Return the order of the table, and where each thread begins in it.

    `rank` gives each thread's index in the result; `threads` is how many of them have spans, if
    not all do. Spans of a thread are ordered by start, longest
    first, as they came. Structured ones of one start stay as they came among themselves: an empty
    one may have ended before the next was begun.

    Returns:
        int32 rows; int64 offsets by rank, threads + 1.

    Raises:
        MemoryError: If there is not enough memory to sort.
    """
    cdef int64_t n = start_ns.shape[0], i, a, b, size = 0
    cdef int64_t count = rank.shape[0] if threads is None else threads
    cdef int64_t begun, complete
    cdef int32_t t, row
    rows_array = np.empty(n, np.int32)
    offsets_array = np.zeros(count + 1, np.int64)
    if not n:
        return rows_array, offsets_array
    cdef int32_t[::1] rows = rows_array
    cdef int64_t[::1] offsets = offsets_array
    cdef int64_t[::1] structured = np.zeros(count, np.int64)
    cdef int64_t[::1] next_row = np.zeros(count + 1, np.int64)
    cdef const int64_t* starts = &start_ns[0]
    cdef const int64_t* ends = &end_ns[0]
    cdef int32_t* apart = NULL
    cdef Key* keys = NULL
    cdef Key* spare = NULL
    cdef bint failed = False
    with nogil:
        for i in range(n):
            t = rank[thread[i]]
            next_row[t + 1] += 1
            if flags[i] & SPAN_STRUCTURED:
                structured[t] += 1
        for i in range(count):
            next_row[i + 1] += next_row[i]
        for i in range(count + 1):
            offsets[i] = next_row[i]
        for i in range(n):
            t = rank[thread[i]]
            rows[next_row[t]] = <int32_t>i
            next_row[t] += 1
        for t in range(<int32_t>count):
            a = offsets[t]
            b = offsets[t + 1]
            if structured[t] == 0 or structured[t] == b - a:
                if b - a > 1 and not sort_rows(&rows[a], b - a, starts, ends, structured[t] == 0,
                                               &keys, &spare, &size):
                    failed = True
                    break
                continue
            begun = 0
            complete = structured[t]
            if not grow(<void**>&apart, (b - a) * sizeof(int32_t)):
                failed = True
                break
            for i in range(a, b):
                row = rows[i]
                if flags[row] & SPAN_STRUCTURED:
                    apart[begun] = row
                    begun += 1
                else:
                    apart[complete] = row
                    complete += 1
            if not (sort_rows(apart, begun, starts, ends, False, &keys, &spare, &size)
                    and sort_rows(apart + begun, complete - begun, starts, ends, True,
                                  &keys, &spare, &size)):
                failed = True
                break
            interleave(apart, begun, apart + begun, complete - begun, starts, ends, &rows[a])
        free(apart)
        free(keys)
        free(spare)
    if failed:
        raise MemoryError
    return rows_array, offsets_array


cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF


# Any number of spans can overlap, so the first free lane is found by a tree and not by a search:
# node i is the least of nodes 2i and 2i + 1, the root is 1, the leaves begin at `width`.
cdef struct Lanes:
    int32_t* top       # by lane, the latest begun span, -1 if none
    int64_t* free_at   # the tree: when the outermost span of each lane ends
    int64_t width      # leaves, a power of two
    int32_t count


cdef bint lane_add(Lanes* lanes) noexcept nogil:
    cdef int64_t i, width = lanes.width
    if lanes.count == width:
        width = width * 2 if width else 8
        if not (grow(<void**>&lanes.top, width * sizeof(int32_t))
                and grow(<void**>&lanes.free_at, 2 * width * sizeof(int64_t))):
            return False
        # Lane 0 and lanes that do not exist are never free. The old and the new leaves do not
        # overlap, since the new ones begin at twice the index.
        for i in range(width):
            lanes.free_at[width + i] = lanes.free_at[lanes.width + i] if i < lanes.count else NEVER
        for i in range(width - 1, 0, -1):
            lanes.free_at[i] = min(lanes.free_at[2 * i], lanes.free_at[2 * i + 1])
        lanes.width = width
    lanes.top[lanes.count] = -1
    lanes.count += 1
    return True


cdef int64_t lane_free(Lanes* lanes, int64_t time_ns) noexcept nogil:
    """Return the first lane after lane 0 that is free at a time, adding one if necessary.

    Lane 0 is never free here. Returns -1 if there is not enough memory.
    """
    cdef int64_t node = 1
    if lanes.free_at[1] > time_ns:
        return lanes.count - 1 if lane_add(lanes) else -1
    while node < lanes.width:
        node *= 2
        if lanes.free_at[node] > time_ns:
            node += 1
    return node - lanes.width


cdef void lane_take(Lanes* lanes, int64_t lane, int64_t until_ns) noexcept nogil:
    cdef int64_t i = lanes.width + lane
    lanes.free_at[i] = until_ns
    i >>= 1
    while i:
        lanes.free_at[i] = min(lanes.free_at[2 * i], lanes.free_at[2 * i + 1])
        i >>= 1


cdef class Nesting:
    """Nests the spans of a thread in the order of the table, some at a time.

    A parent is the latest begun open span that ends no earlier, -1 if there is none; a depth is the
    parent's plus one. Times do not show whether an empty span is inside one that ends at its time:
    it is if both are structured and its level is higher.

    A span's lane is that of its parent, unless that lane has an open span that began after the
    parent, which the new one then partly overlaps; then it is the first lane after lane 0 without
    an open span.
    """

    cdef Lanes lanes
    cdef int32_t last

    def __cinit__(self):
        self.lanes.top = NULL
        self.lanes.free_at = NULL
        self.begin()

    def __dealloc__(self):
        free(self.lanes.top)
        free(self.lanes.free_at)

    cdef void begin(self) noexcept nogil:
        """Begin with the first span of a thread."""
        self.last = -1
        self.lanes.count = 0
        self.lanes.width = 0

    cdef bint add(self, int64_t first, int64_t stop, const int64_t* start_ns, const int64_t* end_ns,
                  const int32_t* level, const uint8_t* flags, int32_t* depth, int32_t* lane_of,
                  int32_t* parent_of) noexcept nogil:
        """Nest the rows [first, stop); False if there is not enough memory for the lanes."""
        cdef int64_t i, lane, start, end, other_end
        cdef int32_t parent, top, before
        cdef bint overlaps
        cdef Lanes* lanes = &self.lanes
        parent = self.last
        for i in range(first, stop):
            start = start_ns[i]
            end = end_ns[i]
            overlaps = False
            before = parent
            # Skipped spans never return: one that ends before this one contains no later span
            # that this one does not contain. So the walk takes linear time in all.
            while parent >= 0:
                other_end = end_ns[parent]
                if other_end > start:
                    if other_end >= end:
                        break
                    overlaps = True
                elif (other_end == end and flags[parent] & flags[i] & SPAN_STRUCTURED
                        and level[parent] < level[i]):
                    break
                parent = parent_of[parent]
            parent_of[i] = parent
            depth[i] = 0 if parent < 0 else depth[parent] + 1
            # Until something overlaps, which most threads never have, all spans are in lane 0
            # and `lane_of` is right as it is.
            if overlaps and lanes.count == 0:
                if not lane_add(lanes):
                    return False
                lanes.top[0] = before
            if lanes.count:
                lane = 0 if parent < 0 else lane_of[parent]
                # Close what has ended in the parent's lane; what is then on top, if it is not
                # the parent itself, overlaps the new span.
                top = lanes.top[lane]
                while top >= 0 and top != parent and end_ns[top] <= start:
                    top = (parent_of[top] if parent_of[top] >= 0
                           and lane_of[parent_of[top]] == lane else -1)
                lanes.top[lane] = top
                if top != parent:
                    lane = lane_free(lanes, start)
                    if lane < 0:
                        return False
                    lane_take(lanes, lane, end)
                lanes.top[lane] = <int32_t>i
                lane_of[i] = <int32_t>lane
            parent = <int32_t>i
        self.last = parent
        return True

    def extend(self, int64_t first, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
               const int32_t[::1] level, const uint8_t[::1] flags, int32_t[::1] depth,
               int32_t[::1] lane, int32_t[::1] parent):
        """Write depth, lane and parent of the rows from `first` on, where `lane` is 0.

        The rows before it are those that `keep` returned, which have theirs.

        Raises:
            MemoryError: If there is not enough memory for the lanes.
        """
        cdef int64_t n = start_ns.shape[0]
        cdef bint done = True
        if n <= first:
            return
        with nogil:
            done = self.add(first, n, &start_ns[0], &end_ns[0], &level[0], &flags[0], &depth[0],
                            &lane[0], &parent[0])
        if not done:
            raise MemoryError

    def keep(self, const int32_t[::1] parent) -> Int32s:
        """Return the rows that later ones may depend on, as int32; they get new numbers from 0.

        `parent` is that of all rows so far, and that of the returned rows has to get new numbers
        too.
        """
        cdef int64_t n = parent.shape[0], i
        cdef int32_t row
        kept_array = np.zeros(n + 1, np.uint8)
        cdef uint8_t[::1] kept = kept_array
        for i in range(-1, self.lanes.count):
            row = self.last if i < 0 else self.lanes.top[i]
            while row >= 0 and not kept[row]:
                kept[row] = True
                row = parent[row]
        rows = np.flatnonzero(kept_array).astype(np.int32)
        index_array = np.full(n + 1, -1, np.int32)
        index_array[rows] = np.arange(len(rows))
        cdef int32_t[::1] index = index_array
        self.last = index[self.last] if self.last >= 0 else -1
        for i in range(self.lanes.count):
            if self.lanes.top[i] >= 0:
                self.lanes.top[i] = index[self.lanes.top[i]]
        return rows


def nest(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] level,
    const uint8_t[::1] flags, const int64_t[::1] offsets
) -> tuple[Int32s, npt.NDArray[Any], Int32s]:
    """Return depth, lane and parent of each span of a table in order; see `Nesting`.

    They are int32, but lanes uint8 if all are 0: then nothing of their memory is used.

    Raises:
        MemoryError: If there is not enough memory for the lanes.
    """
    cdef int64_t n = start_ns.shape[0], t
    cdef bint failed = False, has_lanes = False
    cdef Nesting nesting = Nesting()
    depth_array = np.empty(n, np.int32)
    lane_array = np.zeros(n, np.int32)
    parent_array = np.empty(n, np.int32)
    if not n:
        return depth_array, lane_array, parent_array
    cdef int32_t[::1] depth = depth_array, lane_of = lane_array, parent_of = parent_array
    with nogil:
        for t in range(offsets.shape[0] - 1):
            nesting.begin()
            if not nesting.add(offsets[t], offsets[t + 1], &start_ns[0], &end_ns[0], &level[0],
                               &flags[0], &depth[0], &lane_of[0], &parent_of[0]):
                failed = True
                break
            has_lanes |= nesting.lanes.count > 0
    if failed:
        raise MemoryError
    return depth_array, lane_array if has_lanes else np.zeros(n, np.uint8), parent_array


def self_time(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] parent
) -> Int64s:
    """Return each span's time that is in none of the spans directly inside it, as int64.

    Spans inside one are in order of start.
    """
    cdef int64_t n = start_ns.shape[0], i, begin
    cdef int32_t above
    self_array = np.empty(n, np.int64)
    cdef int64_t[::1] self_ns = self_array
    cdef int64_t[::1] covered_ns = np.empty(n, np.int64)
    with nogil:
        for i in range(n):
            self_ns[i] = end_ns[i] - start_ns[i]
            covered_ns[i] = start_ns[i]
            above = parent[i]
            if above >= 0 and end_ns[i] > covered_ns[above]:
                begin = max(start_ns[i], covered_ns[above])
                self_ns[above] -= end_ns[i] - begin
                covered_ns[above] = end_ns[i]
    return self_array


cdef struct Innermost:
    # Where to add up the time of each span, or else where to list its segments.
    int64_t* time
    int32_t* span
    int64_t* start
    int64_t* end
    int64_t count


cdef inline void innermost_in(
    Innermost* out, int32_t span, int64_t start, int64_t end
) noexcept nogil:
    if out.time != NULL:
        out.time[span] += end - start
    elif end > start:
        out.span[out.count] = span
        out.start[out.count] = start
        out.end[out.count] = end
        out.count += 1


cdef int find_innermost(
    const int64_t[::1] start_ns,
    const int64_t[::1] end_ns,
    const int64_t[::1] offsets,
    Innermost* out,
) except -1:
    """Pass each segment in which a span is the latest begun open one of its thread."""
    cdef int64_t n = start_ns.shape[0], t, i, now, until
    cdef int32_t top
    if end_ns.shape[0] != n or n >= 2**31 - 1:
        raise ValueError("an end for each start")
    for t in range(offsets.shape[0]):
        if not (offsets[t - 1] if t else 0) <= offsets[t] <= n:
            raise ValueError("offsets that are not ascending")
    cdef int32_t[::1] below = np.empty(n, np.int32)
    with nogil:
        for t in range(offsets.shape[0] - 1):
            top = -1
            now = -NEVER
            for i in range(offsets[t], offsets[t + 1] + 1):
                until = start_ns[i] if i < offsets[t + 1] else NEVER
                while top >= 0:
                    if end_ns[top] > until:
                        innermost_in(out, top, now, until)
                        break
                    if end_ns[top] > now:
                        innermost_in(out, top, now, end_ns[top])
                        now = end_ns[top]
                    top = below[top]
                now = until
                if i < offsets[t + 1]:
                    below[i] = top
                    top = <int32_t>i
    return 0


def innermost_time(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int64_t[::1] offsets
) -> Int64s:
    """Return for how long each span was the latest begun open one of its thread, as int64.

    Every instant in which anything is open on a thread is counted once.
    """
    time_array = np.zeros(start_ns.shape[0] + 1, np.int64)
    cdef int64_t[::1] time_ns = time_array
    cdef Innermost out
    out.time = &time_ns[0]
    find_innermost(start_ns, end_ns, offsets, &out)
    return time_array[:-1]


def innermost_segments(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int64_t[::1] offsets
) -> tuple[Int32s, Int64s, Int64s]:
    """Return where each span is the latest begun open one of its thread: span, start and end.

    The segments of a thread are in order of time, and cover every moment in which a span is open
    once. Their lengths sum to `innermost_time`.
    """
    # Each span closes a segment where it begins, and one where it ends.
    cdef int64_t most = 2 * start_ns.shape[0] + 1
    span_array = np.empty(most, np.int32)
    from_array, to_array = np.empty(most, np.int64), np.empty(most, np.int64)
    cdef int32_t[::1] span = span_array
    cdef int64_t[::1] from_ns = from_array, to_ns = to_array
    cdef Innermost out
    out.time = NULL
    out.span, out.start, out.end, out.count = &span[0], &from_ns[0], &to_ns[0], 0
    find_innermost(start_ns, end_ns, offsets, &out)
    return span_array[:out.count], from_array[:out.count], to_array[:out.count]


def first_free(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int64_t[::1] offsets
) -> Int32s:
    """Return the lane of each range: the first that is free when it starts, as int32.

    Group g has the ranges [offsets[g], offsets[g + 1]), in order of their starts, and lanes of its
    own, from 0. A lane is free from the end of the last range in it.
    """
    cdef int64_t n = start_ns.shape[0], width = 1, group, i, node, first, last, lanes
    found = np.zeros(n, np.int32)
    cdef int32_t[::1] lane = found
    for group in range(offsets.shape[0] - 1):
        while width < offsets[group + 1] - offsets[group]:
            width *= 2
    # Leaf `lanes + i` is when lane i is free, a node above the earliest of its two.
    earliest = np.empty(2 * width, np.int64)
    cdef int64_t[::1] free_at = earliest
    with nogil:
        for group in range(offsets.shape[0] - 1):
            first = offsets[group]
            last = offsets[group + 1]
            lanes = 1
            while lanes < last - first:
                lanes *= 2
            for i in range(1, 2 * lanes):
                free_at[i] = -(<int64_t> 1 << 62) * 2
            for i in range(first, last):
                node = 1
                while node < lanes:
                    node = 2 * node if free_at[2 * node] <= start_ns[i] else 2 * node + 1
                lane[i] = <int32_t> (node - lanes)
                free_at[node] = end_ns[i]
                while node > 1:
                    node >>= 1
                    free_at[node] = min(free_at[2 * node], free_at[2 * node + 1])
    return found
