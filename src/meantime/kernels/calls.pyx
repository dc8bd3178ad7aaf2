"""Aggregates of spans: stacks from parents and names; durations by group."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np


def stacks(const int32_t[::1] parent, const int32_t[::1] name) -> tuple[Int32s, Int32s, Int32s]:
    """Return each span's stack, and the stacks' table: parent and name, parents first, as int32.

    Spans are of one stack if their names are equal and so are those of the spans they are in.
    Every span comes after its parent.

    Raises:
        MemoryError: If there is not enough memory.
    """
    cdef int64_t n = parent.shape[0], i, count = 0
    cdef uint64_t mask = 1023, slot, wanted
    cdef int32_t code
    cdef int32_t* slots
    cdef int32_t* moved
    cdef bint failed = False
    stack_array = np.empty(n, np.int32)
    above_array = np.empty(n, np.int32)
    frame_array = np.empty(n, np.int32)
    cdef int32_t[::1] stack = stack_array, above = above_array, frame = frame_array
    slots = <int32_t*>malloc((mask + 1) * sizeof(int32_t))
    if slots == NULL:
        raise MemoryError
    with nogil:
        for i in range(<int64_t>mask + 1):
            slots[i] = -1
        for i in range(n):
            code = stack[parent[i]] if parent[i] >= 0 else -1
            slot = hashed(code, name[i]) & mask
            while slots[slot] >= 0 and (above[slots[slot]] != code
                                        or frame[slots[slot]] != name[i]):
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = <int32_t>count
                above[count] = code
                frame[count] = name[i]
                count += 1
                if <uint64_t>count * 2 > mask:
                    wanted = mask * 2 + 1
                    moved = <int32_t*>malloc((wanted + 1) * sizeof(int32_t))
                    if moved == NULL:
                        failed = True
                        break
                    free(slots)
                    slots = moved
                    mask = wanted
                    rehash(slots, mask, &above[0], &frame[0], count)
                stack[i] = <int32_t>(count - 1)
            else:
                stack[i] = slots[slot]
        free(slots)
    if failed:
        raise MemoryError
    return stack_array, above_array[:count].copy(), frame_array[:count].copy()


cdef inline uint64_t hashed(int32_t above, int32_t frame) noexcept nogil:
    cdef uint64_t key = (<uint64_t><unsigned int>above << 32) | <unsigned int>frame
    key = (key ^ (key >> 31)) * <uint64_t>0x9E3779B97F4A7C15
    key = (key ^ (key >> 29)) * <uint64_t>0xBF58476D1CE4E5B9
    return key ^ (key >> 32)


cdef void rehash(int32_t* slots, uint64_t mask, const int32_t* above, const int32_t* frame,
                 int64_t count) noexcept nogil:
    cdef int64_t i
    cdef uint64_t slot
    for i in range(<int64_t>mask + 1):
        slots[i] = -1
    for i in range(count):
        slot = hashed(above[i], frame[i]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = <int32_t>i


def spread(const int32_t[::1] parent, int64_t[::1] weight):
    """Add every stack's weight to its callers': weights of their own become totals, in place."""
    cdef int64_t i
    with nogil:
        for i in range(parent.shape[0] - 1, -1, -1):
            if parent[i] >= 0:
                weight[parent[i]] += weight[i]


def descend(const int32_t[::1] parent, int64_t[::1] value):
    """Add every caller's value to those of the stacks that it called, in place."""
    cdef int64_t i
    with nogil:
        for i in range(parent.shape[0]):
            if parent[i] >= 0:
                value[i] += value[parent[i]]


cdef int64_t select(int64_t* values, int64_t low, int64_t high, int64_t rank,
                    uint64_t* seed) noexcept nogil:
    """Partition values[low:high + 1] so that the value of this rank is at its sorted index."""
    cdef int64_t i, j, pivot, swapped
    while high - low > 16:
        seed[0] = seed[0] * <uint64_t>6364136223846793005 + <uint64_t>1442695040888963407
        pivot = values[low + <int64_t>((seed[0] >> 33) % <uint64_t>(high - low + 1))]
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                swapped = values[i]
                values[i] = values[j]
                values[j] = swapped
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            return values[rank]
    for i in range(low + 1, high + 1):
        pivot = values[i]
        j = i
        while j > low and values[j - 1] > pivot:
            values[j] = values[j - 1]
            j -= 1
        values[j] = pivot
    return values[rank]


def durations(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] parent,
    const int64_t[::1] offsets, const int32_t[::1] group, int64_t groups, int64_t from_ns,
    int64_t to_ns, const int64_t[:, ::1] quantiles: Int64s
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Return count, total, self, covered time, min and max per group of spans, and quantiles.

    A group covers the time within [from_ns, to_ns) in which any of its spans is open, on each
    thread for itself.
    Self is the time of a span that is in none of the spans directly inside it, of whichever group.
    Spans inside one are in order of start.
    A quantile is a pair (p, q), for p / q; it is the nearest rank: the ceil(n * p / q)-th smallest
    of n. Groups below 0 are left out. Groups without rows have zeros.

    Returns:
        Six int64 columns, then an array of groups x quantiles, whose columns are in ascending
        order of the quantiles given.

    Raises:
        OverflowError: If the sum of a group's durations exceeds 64 bits.
    """
    cdef int64_t n = start_ns.shape[0], i, k, a, b, t, rank, low, lasted, begin, end
    cdef int32_t g, above
    cdef bint overflows = False
    cdef uint64_t seed = 88172645463325252
    count_array = np.zeros(groups, np.int64)
    total_array = np.zeros(groups, np.int64)
    self_array = np.zeros(groups, np.int64)
    covered_array = np.zeros(groups, np.int64)
    least_array = np.zeros(groups, np.int64)
    most_array = np.zeros(groups, np.int64)
    quantile_array = np.zeros((groups, quantiles.shape[0]), np.int64)
    cdef int64_t[::1] count = count_array, total = total_array, own = self_array
    cdef int64_t[::1] covered = covered_array, least = least_array, most = most_array
    # per group: the last thread it was seen on, and up to when it covers the time there
    cdef int32_t[::1] seen_on = np.full(groups, -1, np.int32)
    cdef int64_t[::1] until = np.empty(groups, np.int64)
    cdef int64_t[:, ::1] quantile = quantile_array
    cdef int64_t[::1] first = np.zeros(groups + 1, np.int64)
    cdef int64_t[::1] next_index
    cdef int64_t[::1] bucket = np.empty(n, np.int64)
    with nogil:
        t = 0
        for i in range(n):
            while i >= offsets[t + 1]:
                t += 1
            g = group[i]
            lasted = end_ns[i] - start_ns[i]
            above = parent[i]
            # until its durations are put here, up to when each span is covered by those inside it
            bucket[i] = start_ns[i]
            if above >= 0 and end_ns[i] > bucket[above]:
                if group[above] >= 0:
                    own[group[above]] -= end_ns[i] - max(start_ns[i], bucket[above])
                bucket[above] = end_ns[i]
            if g < 0:
                continue
            if count[g] == 0 or lasted < least[g]:
                least[g] = lasted
            if count[g] == 0 or lasted > most[g]:
                most[g] = lasted
            count[g] += 1
            if total[g] > <int64_t>0x7FFFFFFFFFFFFFFF - lasted:
                overflows = True
            total[g] += lasted
            own[g] += lasted
            begin = max(start_ns[i], from_ns)
            end = min(end_ns[i], to_ns)
            if seen_on[g] == t:
                begin = max(begin, until[g])
            if end > begin:
                covered[g] += end - begin
                until[g] = end
                seen_on[g] = <int32_t>t
        for k in range(groups):
            first[k + 1] = first[k] + count[k]
    if overflows:
        raise OverflowError
    next_index = np.asarray(first).copy()
    with nogil:
        for i in range(n):
            g = group[i]
            if g >= 0:
                bucket[next_index[g]] = end_ns[i] - start_ns[i]
                next_index[g] += 1
        for k in range(groups):
            a = first[k]
            b = first[k + 1]
            if a == b:
                continue
            low = a
            for i in range(quantiles.shape[0]):
                rank = a + ((b - a) * quantiles[i, 0] + quantiles[i, 1] - 1) // quantiles[i, 1] - 1
                if rank < low:
                    rank = low
                quantile[k, i] = select(&bucket[0], low, b - 1, rank, &seed)
                low = rank
    return (count_array, total_array, self_array, covered_array, least_array, most_array,
            quantile_array)


def outermost(
    const int32_t[::1] parent, const int32_t[::1] frame, int64_t frames
) -> npt.NDArray[np.uint8]:
    """Return which stacks have none of the same frame among their callers, as uint8.

    The total of a function is that of its outermost stacks, however deep it calls itself. Parents
    are before their children.
    """
    cdef int64_t rows = parent.shape[0], row, below
    cdef int64_t top = -1
    found = np.zeros(rows, np.uint8)
    cdef uint8_t[::1] is_outermost = found
    # the children of each row as a linked list, and how often each frame is open
    cdef int32_t[::1] child = np.full(rows + 1, -1, np.int32)
    cdef int32_t[::1] sibling = np.full(rows, -1, np.int32)
    cdef int64_t[::1] open_count = np.zeros(frames, np.int64)
    if frame.shape[0] != rows:
        raise ValueError("each stack has a frame")
    for row in range(rows):
        if not (-1 <= parent[row] < row and 0 <= frame[row] < frames):
            raise ValueError("a stack comes after its caller")
    with nogil:
        for row in range(rows - 1, -1, -1):
            below = parent[row] if parent[row] >= 0 else rows
            sibling[row] = child[below]
            child[below] = <int32_t>row
        row = child[rows]
        while row >= 0 or top >= 0:
            if row >= 0:
                is_outermost[row] = open_count[frame[row]] == 0
                open_count[frame[row]] += 1
                top = row
                row = child[row]
            else:
                open_count[frame[top]] -= 1
                row = sibling[top]
                top = parent[top]
    return found
