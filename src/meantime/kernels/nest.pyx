"""Begins and ends into spans, and spans into stacks: matching, order, depth, lane, parent, self.

The rules: an end closes the latest begun span of its thread; spans of a thread stand in the order
(start, longest first, as they came); one is inside another if its range is; one that overlaps the
end of an open span goes to the first lane of its thread where it does not.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

import numpy as np

cdef enum:
    UNFINISHED = 1
    STRUCTURED = 2


def match(const int64_t[::1] start_ns, int64_t[::1] end_ns, const int32_t[::1] thread,
          const int32_t[::1] name, int32_t[::1] level, uint8_t[::1] flags,
          const int64_t[::1] mark_ns, const int32_t[::1] mark_thread,
          const int32_t[::1] mark_name, const int32_t[::1] mark_position,
          int32_t[::1] mark_span, const int64_t[::1] last_ns):
    """Close begun spans (those flagged STRUCTURED) by the marks, in the order given.

    Writes `end_ns`, `level` and the flag UNFINISHED of those spans, and into `mark_span` which span
    each mark closed, -1 for none. Mark i comes after span `mark_position[i] - 1`. A mark's name of
    -1 agrees with any.

    Returns:
        Four counts per thread, as int64: marks that closed nothing, spans left open, spans whose
        end came before their begin (they become empty), marks of another name than their span's.
    """
    cdef int64_t threads = last_ns.shape[0], spans = start_ns.shape[0], marks = mark_ns.shape[0]
    cdef int64_t i = 0, m, stop
    cdef int32_t t, top
    cdef int32_t[::1] tops = np.full(threads, -1, np.int32)
    cdef int32_t[::1] below = np.empty(spans if marks else 0, np.int32)
    stray_array = np.zeros(threads, np.int64)
    open_array = np.zeros(threads, np.int64)
    negative_array = np.zeros(threads, np.int64)
    renamed_array = np.zeros(threads, np.int64)
    cdef int64_t[::1] stray = stray_array, left = open_array
    cdef int64_t[::1] negative = negative_array, renamed = renamed_array
    if not marks:
        below = np.empty(spans if np.any(np.asarray(flags) & STRUCTURED) else 0, np.int32)
        if not below.shape[0]:
            return stray_array, open_array, negative_array, renamed_array
    with nogil:
        for m in range(marks + 1):
            stop = mark_position[m] if m < marks else spans
            while i < stop:
                if flags[i] & STRUCTURED:
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
            if mark_ns[m] < start_ns[top]:
                negative[t] += 1
                end_ns[top] = start_ns[top]
            else:
                end_ns[top] = mark_ns[m]
            if mark_name[m] >= 0 and mark_name[m] != name[top]:
                renamed[t] += 1
        for t in range(<int32_t>threads):
            top = tops[t]
            while top >= 0:
                left[t] += 1
                end_ns[top] = last_ns[t] if last_ns[t] > start_ns[top] else start_ns[top]
                flags[top] |= UNFINISHED
                top = below[top]
    return stray_array, open_array, negative_array, renamed_array


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
    """Stable; runs that are in order are kept, so nearly sorted input costs little."""
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


def order(const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] thread,
          const uint8_t[::1] flags, const int32_t[::1] rank):
    """Return the order of the table, where each thread begins in it, and which are structured.

    `rank` says which place a thread has among the threads. A thread is structured if all its spans
    are; its spans are then in order of start, as they came, which keeps what was begun first first.

    Returns:
        int32 rows; int64 offsets, threads + 1; bool per thread, both by rank.

    Raises:
        MemoryError: If there is not enough memory to sort.
    """
    cdef int64_t n = start_ns.shape[0], threads = rank.shape[0], i, a, b, longest = 0
    cdef int32_t t, row
    cdef bint sorted_
    rows_array = np.empty(n, np.int32)
    offsets_array = np.zeros(threads + 1, np.int64)
    structured_array = np.ones(threads, np.uint8)
    cdef int32_t[::1] rows = rows_array
    cdef int64_t[::1] offsets = offsets_array
    cdef uint8_t[::1] structured = structured_array
    cdef int64_t[::1] place = np.zeros(threads + 1, np.int64)
    cdef Key* keys = NULL
    cdef Key* spare = NULL
    cdef bint failed = False
    with nogil:
        for i in range(n):
            t = rank[thread[i]]
            place[t + 1] += 1
            if not flags[i] & STRUCTURED:
                structured[t] = 0
        for i in range(threads):
            place[i + 1] += place[i]
        for i in range(threads + 1):
            offsets[i] = place[i]
        for i in range(n):
            t = rank[thread[i]]
            rows[place[t]] = <int32_t>i
            place[t] += 1
        for t in range(<int32_t>threads):
            a = offsets[t]
            b = offsets[t + 1]
            sorted_ = True
            for i in range(a + 1, b):
                row = rows[i]
                if start_ns[row] < start_ns[rows[i - 1]] or (
                    start_ns[row] == start_ns[rows[i - 1]]
                    and end_ns[row] > end_ns[rows[i - 1]] and not structured[t]
                ):
                    sorted_ = False
                    break
            if sorted_:
                continue
            if b - a > longest:
                longest = b - a
                failed = not (grow(<void**>&keys, longest * sizeof(Key))
                              and grow(<void**>&spare, longest * sizeof(Key)))
                if failed:
                    break
            for i in range(a, b):
                row = rows[i]
                keys[i - a].start_ns = start_ns[row]
                keys[i - a].end_ns = 0 if structured[t] else end_ns[row]
                keys[i - a].row = row
            merge_sort(keys, spare, b - a)
            for i in range(a, b):
                rows[i] = keys[i - a].row
        free(keys)
        free(spare)
    if failed:
        raise MemoryError
    return rows_array, offsets_array, structured_array.view(np.bool_)


cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF


cdef struct Lanes:
    int32_t* top        # per lane the innermost open span, -1 if none
    int64_t* lowest     # three trees over the lanes: when the innermost ends, at the earliest
    int64_t* highest    # and at the latest; and when the latest one of them began
    int64_t* latest
    int64_t width       # leaves, a power of two
    int32_t count


cdef void lanes_free(Lanes* lanes) noexcept nogil:
    free(lanes.top)
    free(lanes.lowest)
    free(lanes.highest)
    free(lanes.latest)


cdef void lane_set(Lanes* lanes, int64_t lane, int32_t top, const int64_t* start_ns,
                   const int64_t* end_ns) noexcept nogil:
    cdef int64_t i = lanes.width + lane
    lanes.top[lane] = top
    lanes.lowest[i] = lanes.highest[i] = NEVER if top < 0 else end_ns[top]
    lanes.latest[i] = -NEVER if top < 0 else start_ns[top]
    i >>= 1
    while i:
        lanes.lowest[i] = min(lanes.lowest[2 * i], lanes.lowest[2 * i + 1])
        lanes.highest[i] = max(lanes.highest[2 * i], lanes.highest[2 * i + 1])
        lanes.latest[i] = max(lanes.latest[2 * i], lanes.latest[2 * i + 1])
        i >>= 1


cdef bint lane_add(Lanes* lanes, const int64_t* start_ns, const int64_t* end_ns) noexcept nogil:
    cdef int64_t lane, i
    cdef int64_t width = lanes.width
    if lanes.count == width:
        width = width * 2 if width else 8
        if not (grow(<void**>&lanes.top, width * 4) and grow(<void**>&lanes.lowest, width * 16)
                and grow(<void**>&lanes.highest, width * 16)
                and grow(<void**>&lanes.latest, width * 16)):
            return False
        lanes.width = width
        for i in range(2 * width):
            lanes.lowest[i] = NEVER
            lanes.highest[i] = -NEVER
            lanes.latest[i] = -NEVER
        for lane in range(lanes.count):
            lane_set(lanes, lane, lanes.top[lane], start_ns, end_ns)
    lanes.count += 1
    lane_set(lanes, lanes.count - 1, -1, start_ns, end_ns)
    return True


cdef int64_t lane_ended(Lanes* lanes, int64_t time_ns) noexcept nogil:
    """A lane whose innermost span has ended by then; there is one."""
    cdef int64_t node = 1
    while node < lanes.width:
        node *= 2
        if lanes.lowest[node] > time_ns:
            node += 1
    return node - lanes.width


cdef int64_t lane_around(Lanes* lanes, int64_t end_ns) noexcept nogil:
    """The lane whose innermost span began latest of those that end no earlier, or a free one.

    The first of equals; -1 if there is none.
    """
    cdef int64_t[64] waiting
    cdef int depth = 1
    cdef int64_t node, found = -1, best = 0
    waiting[0] = 1
    while depth:
        depth -= 1
        node = waiting[depth]
        if lanes.highest[node] < end_ns or (found >= 0 and lanes.latest[node] <= best):
            continue
        if node >= lanes.width:
            found = node - lanes.width
            best = lanes.latest[node]
        else:
            waiting[depth] = 2 * node + 1
            waiting[depth + 1] = 2 * node
            depth += 2
    return found


def nest(const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] level,
         const int64_t[::1] offsets, const uint8_t[::1] structured):
    """Return depth, lane and parent of each span of a table in order, as int32.

    A span is inside the latest begun open one that ends no earlier. If there is none in a lane
    that is free for it, it begins at the bottom of the first lane without an open span. A parent is
    a row of the same lane, or -1; depths count from 0 in each lane. What an empty span at the edge
    of others is in, times do not say: `level` decides.

    Raises:
        MemoryError: If there is not enough memory for the lanes.
    """
    cdef int64_t n = start_ns.shape[0], t, i, lane
    cdef int32_t top, single
    cdef Lanes lanes
    cdef bint failed = False, tied
    depth_array = np.empty(n, np.int32)
    lane_array = np.zeros(n, np.int32)
    parent_array = np.empty(n, np.int32)
    if not n:
        return depth_array, lane_array, parent_array
    cdef int32_t[::1] depth = depth_array, lane_of = lane_array, parent = parent_array
    cdef const int64_t* starts = &start_ns[0]
    cdef const int64_t* ends = &end_ns[0]
    lanes.top = NULL
    lanes.lowest = lanes.highest = lanes.latest = NULL
    lanes.width = 0
    with nogil:
        for t in range(offsets.shape[0] - 1):
            single = -1
            if structured[t]:
                for i in range(offsets[t], offsets[t + 1]):
                    while single >= 0 and level[single] >= level[i]:
                        single = parent[single]
                    parent[i] = single
                    depth[i] = 0 if single < 0 else depth[single] + 1
                    single = <int32_t>i
                continue
            lanes.count = 0
            for i in range(offsets[t], offsets[t + 1]):
                lane = 0
                if lanes.count == 0:
                    while single >= 0 and ends[single] <= starts[i] and not (
                        ends[single] == ends[i] and level[single] < level[i]
                    ):
                        single = parent[single]
                    if single < 0 or ends[i] <= ends[single]:
                        parent[i] = single
                        depth[i] = 0 if single < 0 else depth[single] + 1
                        single = <int32_t>i
                        continue
                    lanes.width = 0
                    if not lane_add(&lanes, starts, ends):
                        failed = True
                        break
                    lane_set(&lanes, 0, single, starts, ends)
                tied = False
                while lanes.lowest[1] <= starts[i]:
                    lane = lane_ended(&lanes, starts[i])
                    top = lanes.top[lane]
                    while top >= 0 and ends[top] <= starts[i]:
                        tied = ends[top] == ends[i] and level[top] < level[i]
                        if tied:
                            break
                        top = parent[top]
                    lane_set(&lanes, lane, top, starts, ends)
                    if tied:
                        break
                if not tied:
                    lane = lane_around(&lanes, ends[i])
                if lane < 0:
                    lane = lanes.count
                    if not lane_add(&lanes, starts, ends):
                        failed = True
                        break
                top = lanes.top[lane]
                parent[i] = top
                depth[i] = 0 if top < 0 else depth[top] + 1
                lane_of[i] = <int32_t>lane
                lane_set(&lanes, lane, <int32_t>i, starts, ends)
            if failed:
                break
        lanes_free(&lanes)
    if failed:
        raise MemoryError
    return depth_array, lane_array, parent_array


def self_time(const int64_t[::1] start_ns, const int64_t[::1] end_ns,
              const int32_t[::1] parent):
    """Return each span's time minus that of the spans directly inside it, as int64."""
    cdef int64_t n = start_ns.shape[0], i
    self_array = np.empty(n, np.int64)
    cdef int64_t[::1] self_ns = self_array
    with nogil:
        for i in range(n):
            self_ns[i] = end_ns[i] - start_ns[i]
            if parent[i] >= 0:
                self_ns[parent[i]] -= end_ns[i] - start_ns[i]
    return self_array
