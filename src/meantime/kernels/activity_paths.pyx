"""Paths of activities: backwards from their end, through what ended each wait; and shorter ones.

Lanes consist of parts that follow each other without gap: part i of a lane ends where part i + 1
begins, the last one at the end of its lane. A wait may have ends: what another lane did at a time
allowed it to end.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free

import numpy as np

from meantime.kernels.memory cimport column

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "growing.h":
    int column_grow(void** data, int64_t capacity, size_t width) nogil
    int64_t capacity_ahead(int64_t capacity, size_t width) nogil


cdef class Lanes:
    """The lanes, the ends of their waits, and the arrays that walks of them need.

    Args:
        offsets: int64, lanes + 1: lane i has the parts [offsets[i], offsets[i + 1]).
        start_ns: int64, by part: where it begins, ascending in each lane.
        end_ns: int64, by lane: where its last part ends.
    """

    cdef object held, ends_held
    cdef Py_ssize_t lanes, parts
    cdef const int64_t *offsets
    cdef const int64_t *start_ns
    cdef const int64_t *end_ns
    cdef const int64_t *first_end
    cdef const int32_t *source_lane
    cdef const int64_t *source_ns
    # by lane: whether it is on the stack; by depth: the lane, and how far back it is followed
    cdef uint8_t *is_open
    cdef int32_t *stack_lane
    cdef int64_t *stack_low

    def __cinit__(self, offsets: Int64s, start_ns: Int64s, end_ns: Int64s):
        cdef Py_ssize_t count, lane, part
        is_open = np.zeros(len(end_ns) + 1, np.uint8)
        stack_lane = np.empty(len(end_ns) + 1, np.int32)
        stack_low = np.empty(len(end_ns) + 1, np.int64)
        self.held = (offsets, start_ns, end_ns, is_open, stack_lane, stack_low)
        self.offsets = <const int64_t*>INT64_ITEMS(offsets, &count)
        self.end_ns = <const int64_t*>INT64_ITEMS(end_ns, &self.lanes)
        self.start_ns = <const int64_t*>INT64_ITEMS(start_ns, &self.parts)
        if count != self.lanes + 1 or self.offsets[0] != 0 or self.offsets[count - 1] != self.parts:
            raise ValueError("offsets do not fit the parts")
        for lane in range(self.lanes):
            if self.offsets[lane] > self.offsets[lane + 1]:
                raise ValueError("offsets do not ascend")
        for lane in range(self.lanes):
            for part in range(self.offsets[lane], self.offsets[lane + 1]):
                if self.start_ns[part] >= self.next_ns(<int32_t>lane, part):
                    raise ValueError("a part is empty")
        self.is_open = <uint8_t*>UINT8_ITEMS(is_open, NULL)
        self.stack_lane = <int32_t*>INT32_ITEMS(stack_lane, NULL)
        self.stack_low = <int64_t*>INT64_ITEMS(stack_low, NULL)
        self.connect(np.zeros(self.parts + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

    def connect(self, first_end: Int64s, source_lane: Int32s, source_ns: Int64s):
        """Say what ended waits.

        Args:
            first_end: int64, parts + 1: the ends of the wait of part i are [first_end[i],
                first_end[i + 1]), in order of `source_ns`.
            source_lane: int32, by end: the lane that allowed it.
            source_ns: int64, by end: when.
        """
        cdef Py_ssize_t edges, ends, times, i
        cdef const int64_t *first = <const int64_t*>INT64_ITEMS(first_end, &edges)
        cdef const int32_t *lane = <const int32_t*>INT32_ITEMS(source_lane, &ends)
        cdef const int64_t *time_ns = <const int64_t*>INT64_ITEMS(source_ns, &times)
        if edges != self.parts + 1 or first[0] != 0 or first[self.parts] != ends or times != ends:
            raise ValueError("ends do not fit the parts")
        for i in range(self.parts):
            if first[i] > first[i + 1]:
                raise ValueError("ends do not ascend")
        for i in range(ends):
            if not 0 <= lane[i] < self.lanes:
                raise ValueError("no such lane")
        self.ends_held = first_end, source_lane, source_ns
        self.first_end, self.source_lane, self.source_ns = first, lane, time_ns

    def parts_before(self, lane: Int32s, time_ns: Int64s) -> Int64s:
        """Return the part of each lane that contains the moment before a time; -1 if none does.

        Args:
            lane: int32.
            time_ns: int64, a time for each lane.
        """
        cdef Py_ssize_t count, times, i
        cdef const int32_t *of_lane = <const int32_t*>INT32_ITEMS(lane, &count)
        cdef const int64_t *of_time = <const int64_t*>INT64_ITEMS(time_ns, &times)
        found = np.empty(count, np.int64)
        cdef int64_t *part = <int64_t*>INT64_ITEMS(found, NULL)
        if times != count:
            raise ValueError("each lane has a time")
        for i in range(count):
            if not 0 <= of_lane[i] < self.lanes:
                raise ValueError("no such lane")
            part[i] = self.before(of_lane[i], of_time[i])
        return found

    cdef int64_t before(self, int32_t lane, int64_t time_ns) noexcept nogil:
        """Return the part of a lane that contains the moment before a time; -1 if there is none."""
        cdef int64_t low = self.offsets[lane], high = self.offsets[lane + 1], middle
        if low == high or time_ns > self.end_ns[lane] or time_ns <= self.start_ns[low]:
            return -1
        while high - low > 1:
            middle = (low + high) >> 1
            if self.start_ns[middle] < time_ns:
                low = middle
            else:
                high = middle
        return low

    cdef int64_t end_of(self, int64_t part, int64_t after_ns, int64_t until_ns) noexcept nogil:
        """Return the latest end of the wait of a part in (after_ns, until_ns], or -1."""
        cdef int64_t low = self.first_end[part], high = self.first_end[part + 1], middle
        cdef int64_t first = low
        while low < high:
            middle = (low + high) >> 1
            if self.source_ns[middle] <= until_ns:
                low = middle + 1
            else:
                high = middle
        low -= 1
        return low if low >= first and self.source_ns[low] > after_ns else -1

    def walk(
        self, lane: Int32s, begin_ns: Int64s, end_ns: Int64s
    ) -> tuple[Int64s, Int64s, Int32s, Int64s, Int64s, Int32s]:
        """Return the paths of activities: the parts of each, in order of time, which tile it.

        Args:
            lane: int32, by activity: its lane.
            begin_ns: int64, where each begins.
            end_ns: int64, where each ends, after `begin_ns`.

        Returns:
            offsets: int64, activities + 1: activity i has the rows [offsets[i], offsets[i + 1]).
            start_ns: int64, where each row begins; it ends where the next one does, or with the
                activity.
            lane: int32, the lane that it is on.
            part: int64, the part of the lane; -1 where the lane has none; -2 for the time between
                what ended a wait and the next part.
            end: int64, the end that was followed to or, of a row of -2, from here; -1 if none.
            depth: int32: 0 is the activity's lane, 1 what it waits for, and so on.
        """
        cdef Py_ssize_t activities, count
        cdef const int32_t *of_lane = <const int32_t*>INT32_ITEMS(lane, &activities)
        cdef const int64_t *of_begin = <const int64_t*>INT64_ITEMS(begin_ns, &count)
        cdef const int64_t *of_end = <const int64_t*>INT64_ITEMS(end_ns, NULL)
        cdef Py_ssize_t i
        cdef Rows rows = Rows()
        offsets = np.zeros(activities + 1, np.int64)
        cdef int64_t *edges = <int64_t*>INT64_ITEMS(offsets, NULL)
        if count != activities or len(end_ns) != activities:
            raise ValueError("each activity has a lane, a begin and an end")
        for i in range(activities):
            if not 0 <= of_lane[i] < self.lanes or of_begin[i] >= of_end[i]:
                raise ValueError("an activity is empty, or on no lane")
        with nogil:
            for i in range(activities):
                if not self.follow(of_lane[i], of_begin[i], of_end[i], rows):
                    with gil:
                        raise MemoryError
                edges[i + 1] = rows.count
        return (offsets, *rows.take())

    cdef bint follow(self, int32_t lane, int64_t begin_ns, int64_t end_ns, Rows rows) noexcept nogil:
        cdef int64_t time_ns = end_ns, low_ns, from_ns, part, end, first = rows.count
        cdef int32_t depth = 0
        self.stack_lane[0] = lane
        self.stack_low[0] = begin_ns
        self.is_open[lane] = 1
        while depth >= 0:
            lane, low_ns = self.stack_lane[depth], self.stack_low[depth]
            if time_ns <= low_ns:
                self.is_open[lane] = 0
                depth -= 1
                continue
            part = self.before(lane, time_ns)
            if part < 0:
                # before the lane, after it, or both
                from_ns = low_ns
                if (self.offsets[lane] < self.offsets[lane + 1] and time_ns > self.end_ns[lane]
                        and self.end_ns[lane] > low_ns):
                    from_ns = self.end_ns[lane]
                if not rows.add(from_ns, lane, -1, -1, depth):
                    return False
                time_ns = from_ns
                continue
            from_ns = max(self.start_ns[part], low_ns)
            end = self.end_of(part, from_ns, time_ns)
            if end >= 0 and not self.is_open[self.source_lane[end]]:
                if self.source_ns[end] < time_ns:
                    if not rows.add(self.source_ns[end], lane, -2, end, depth):
                        return False
                    time_ns = self.source_ns[end]
                depth += 1
                self.stack_lane[depth] = self.source_lane[end]
                self.stack_low[depth] = from_ns
                self.is_open[self.source_lane[end]] = 1
                continue
            if not rows.add(from_ns, lane, part, -1, depth):
                return False
            time_ns = from_ns
        rows.reverse(first)
        return True

    def shortest(
        self, lane: Int32s, begin_ns: Int64s, end_ns: Int64s, is_free: npt.NDArray[np.uint8], *,
        bint free_hand_off=False
    ) -> Int64s:
        """Return how long each activity would take if some parts took no time.

        A lane goes on as soon as it and what ends its waits allow. What began before the activity
        is as it was.

        Args:
            lane: int32, by activity: its lane.
            begin_ns: int64, where each begins.
            end_ns: int64, where each ends.
            is_free: uint8, by part: whether it would take no time.
            free_hand_off: Whether what follows a wait would follow at once.

        Returns:
            int64, by activity: at most its length.
        """
        cdef Py_ssize_t activities, count, i
        cdef const int32_t *of_lane = <const int32_t*>INT32_ITEMS(lane, &activities)
        cdef const int64_t *of_begin = <const int64_t*>INT64_ITEMS(begin_ns, &count)
        cdef const int64_t *of_end = <const int64_t*>INT64_ITEMS(end_ns, NULL)
        cdef const uint8_t *free_part = <const uint8_t*>UINT8_ITEMS(is_free, NULL)
        if count != activities or len(end_ns) != activities or len(is_free) != self.parts:
            raise ValueError("each activity has a lane, a begin and an end, each part a number")
        found = np.zeros(activities, np.int64)
        cdef int64_t *length = <int64_t*>INT64_ITEMS(found, NULL)
        # by part: when it would begin, after the begin of the activity for which that is known
        begins = np.empty(self.parts, np.int64)
        known = np.full(self.parts, -1, np.int32)
        waiting = np.empty(self.parts + 1, np.int64)
        cdef int64_t *begin = <int64_t*>INT64_ITEMS(begins, NULL)
        cdef int32_t *whose = <int32_t*>INT32_ITEMS(known, NULL)
        cdef int64_t *stack = <int64_t*>INT64_ITEMS(waiting, NULL)
        for i in range(activities):
            if not 0 <= of_lane[i] < self.lanes or of_begin[i] >= of_end[i]:
                raise ValueError("an activity is empty, or on no lane")
        with nogil:
            for i in range(activities):
                length[i] = self.shorten(of_lane[i], of_begin[i], of_end[i], free_part,
                                         free_hand_off, <int32_t>i, begin, whose, stack)
        return found

    cdef int64_t shorten(self, int32_t lane, int64_t begin_ns, int64_t end_ns,
                         const uint8_t *free_part, bint free_hand_off, int32_t number,
                         int64_t *begin, int32_t *whose, int64_t *stack) noexcept nogil:
        """Return how long an activity would take."""
        cdef int64_t last, source, end, length_ns, finish_ns
        last = self.last_before(lane, end_ns)
        if last < 0 or self.next_ns(lane, last) <= begin_ns:
            return end_ns - begin_ns
        finish_ns = min(end_ns, self.next_ns(lane, last))
        self.resolve(last, begin_ns, free_part, free_hand_off, number, begin, whose, stack)
        end = self.end_of(last, max(self.start_ns[last], begin_ns), finish_ns)
        if end < 0:
            length_ns = self.at(last, finish_ns, begin_ns, free_part, begin)
        else:
            length_ns = self.source_ns[end] - begin_ns
            source = self.before(self.source_lane[end], self.source_ns[end])
            if source >= 0:
                self.resolve(source, begin_ns, free_part, free_hand_off, number, begin, whose, stack)
                length_ns = self.at(source, self.source_ns[end], begin_ns, free_part, begin)
            if not free_hand_off:
                length_ns += finish_ns - self.source_ns[end]
            length_ns = max(length_ns, begin[last])
        # after the end of the lane
        return length_ns + end_ns - finish_ns

    cdef void resolve(self, int64_t part, int64_t begin_ns, const uint8_t *free_part,
                      bint free_hand_off, int32_t number, int64_t *begin, int32_t *whose,
                      int64_t *stack) noexcept nogil:
        """Find when a part would begin.

        Parts wait on a stack until those that they depend on are known: the one before them in
        their lane, and that at the end of the wait there. Both begin earlier, so they never form a
        circle, and each part is on the stack at most once.
        """
        cdef int64_t before, source, end, after_ns, length_ns
        cdef int64_t height = 1
        stack[0] = part
        while height:
            part = stack[height - 1]
            if whose[part] == number:
                height -= 1
                continue
            if self.start_ns[part] <= begin_ns:
                begin[part] = 0
                whose[part] = number
                continue
            if part == self.offsets[self.lane_of(part)]:
                # the lane begins here: nothing is known of what it waited for
                begin[part] = self.start_ns[part] - begin_ns
                whose[part] = number
                continue
            before = part - 1
            if whose[before] != number:
                stack[height] = before
                height += 1
                continue
            after_ns = max(self.start_ns[before], begin_ns)
            end = self.end_of(before, after_ns, self.start_ns[part])
            if end < 0:
                length_ns = 0 if free_part[before] else self.start_ns[part] - after_ns
                begin[part] = begin[before] + length_ns
                whose[part] = number
                continue
            source = self.before(self.source_lane[end], self.source_ns[end])
            if source >= 0 and whose[source] != number:
                stack[height] = source
                height += 1
                continue
            length_ns = self.source_ns[end] - begin_ns
            if source >= 0:
                length_ns = self.at(source, self.source_ns[end], begin_ns, free_part, begin)
            if not free_hand_off:
                length_ns += self.start_ns[part] - self.source_ns[end]
            begin[part] = max(begin[before], length_ns)
            whose[part] = number

    cdef int64_t at(self, int64_t part, int64_t time_ns, int64_t begin_ns,
                    const uint8_t *free_part, const int64_t *begin) noexcept nogil:
        """Return when a lane would be where it is at a time in a part, after the activity's begin."""
        if free_part[part]:
            return begin[part]
        return begin[part] + max(0, time_ns - max(self.start_ns[part], begin_ns))

    cdef int64_t next_ns(self, int32_t lane, int64_t part) noexcept nogil:
        return self.start_ns[part + 1] if part + 1 < self.offsets[lane + 1] else self.end_ns[lane]

    cdef int64_t last_before(self, int32_t lane, int64_t time_ns) noexcept nogil:
        """Return the last part of a lane that begins before a time; -1 if there is none."""
        if self.offsets[lane] < self.offsets[lane + 1] and time_ns > self.end_ns[lane]:
            time_ns = self.end_ns[lane]
        return self.before(lane, time_ns)

    cdef int32_t lane_of(self, int64_t part) noexcept nogil:
        cdef Py_ssize_t low = 0, high = self.lanes, middle
        while high - low > 1:
            middle = (low + high) >> 1
            if self.offsets[middle] <= part:
                low = middle
            else:
                high = middle
        return <int32_t>low


cdef class Rows:
    """The rows of paths, which grow."""

    cdef int64_t count, capacity
    cdef int64_t *start_ns
    cdef int32_t *lane
    cdef int64_t *part
    cdef int64_t *end
    cdef int32_t *depth

    def __dealloc__(self):
        free(self.start_ns)
        free(self.lane)
        free(self.part)
        free(self.end)
        free(self.depth)

    cdef bint add(self, int64_t start_ns, int32_t lane, int64_t part, int64_t end,
                  int32_t depth) noexcept nogil:
        cdef int64_t capacity
        if self.count == self.capacity:
            capacity = capacity_ahead(self.capacity, 8)
            if not (column_grow(<void**>&self.start_ns, capacity, 8)
                    and column_grow(<void**>&self.lane, capacity, 4)
                    and column_grow(<void**>&self.part, capacity, 8)
                    and column_grow(<void**>&self.end, capacity, 8)
                    and column_grow(<void**>&self.depth, capacity, 4)):
                return False
            self.capacity = capacity
        self.start_ns[self.count] = start_ns
        self.lane[self.count] = lane
        self.part[self.count] = part
        self.end[self.count] = end
        self.depth[self.count] = depth
        self.count += 1
        return True

    cdef void reverse(self, int64_t first) noexcept nogil:
        """Reverse the rows from `first` on, which were found from the last to the first."""
        cdef int64_t last = self.count - 1
        while first < last:
            self.start_ns[first], self.start_ns[last] = self.start_ns[last], self.start_ns[first]
            self.lane[first], self.lane[last] = self.lane[last], self.lane[first]
            self.part[first], self.part[last] = self.part[last], self.part[first]
            self.end[first], self.end[last] = self.end[last], self.end[first]
            self.depth[first], self.depth[last] = self.depth[last], self.depth[first]
            first += 1
            last -= 1

    cdef tuple take(self):
        rows = self.count
        return (
            column(<void**>&self.start_ns, rows, np.int64),
            column(<void**>&self.lane, rows, np.int32),
            column(<void**>&self.part, rows, np.int64),
            column(<void**>&self.end, rows, np.int64),
            column(<void**>&self.depth, rows, np.int32),
        )


def walk_trees(
    root: Int32s, start_ns: Int64s, end_ns: Int64s, first_child: Int64s, child: Int32s
) -> tuple[Int64s, Int64s, Int32s, Int32s]:
    """Return the paths of calls that contain others: the parts of each, which tile it.

    A path goes back from the end of a call to the latest end of a child before it, through that
    child, and on where it began. A child that is open where a later one on the path begins is not
    on the path.

    Args:
        root: int32, by activity: its outermost call.
        start_ns: int64, by call: where it begins; not before its parent.
        end_ns: int64, by call: where it ends; not after its parent.
        first_child: int64, calls + 1: the children of call i are `child[first_child[i]:
            first_child[i + 1]]`, in order of their ends.
        child: int32, calls.

    Returns:
        offsets: int64, activities + 1: activity i has the rows [offsets[i], offsets[i + 1]).
        start_ns: int64, where each row begins; it ends where the next one does, or with the call.
        call: int32, the call whose own time it is.
        depth: int32, how many calls it is inside.
    """
    cdef Py_ssize_t activities, calls, count, i
    cdef const int32_t *of_root = <const int32_t*>INT32_ITEMS(root, &activities)
    cdef const int64_t *start = <const int64_t*>INT64_ITEMS(start_ns, &calls)
    cdef const int64_t *end = <const int64_t*>INT64_ITEMS(end_ns, &count)
    cdef const int64_t *first = <const int64_t*>INT64_ITEMS(first_child, NULL)
    cdef const int32_t *children = <const int32_t*>INT32_ITEMS(child, NULL)
    cdef Rows rows = Rows()
    cdef int64_t time_ns, low, at
    cdef int32_t call, below
    cdef int32_t depth
    if count != calls or len(first_child) != calls + 1 or len(child) != first[calls] or first[0] != 0:
        raise ValueError("each call has a begin, an end and children")
    for i in range(calls):
        if first[i] > first[i + 1] or start[i] > end[i]:
            raise ValueError("a call ends before it begins")
    for i in range(first[calls]):
        # so that no call contains itself
        if not 0 <= children[i] < calls:
            raise ValueError("no such call")
    for i in range(activities):
        if not 0 <= of_root[i] < calls or start[of_root[i]] >= end[of_root[i]]:
            raise ValueError("no such call, or an empty one")
    offsets = np.zeros(activities + 1, np.int64)
    stacks, cursors = np.empty(calls + 1, np.int32), np.empty(calls + 1, np.int64)
    visited = np.zeros(calls, np.uint8)
    cdef int64_t *edges = <int64_t*>INT64_ITEMS(offsets, NULL)
    cdef int32_t *stack = <int32_t*>INT32_ITEMS(stacks, NULL)
    cdef int64_t *cursor = <int64_t*>INT64_ITEMS(cursors, NULL)
    cdef uint8_t *is_open = <uint8_t*>UINT8_ITEMS(visited, NULL)
    for i in range(activities):
        low = rows.count
        depth = 0
        call = of_root[i]
        time_ns = end[call]
        stack[0], cursor[0] = call, first[call + 1]
        is_open[call] = 1
        while depth >= 0:
            call = stack[depth]
            below = -1
            while cursor[depth] > first[call]:
                cursor[depth] -= 1
                at = cursor[depth]
                below = children[at]
                if end[below] <= time_ns and start[below] < end[below] and not is_open[below]:
                    break
                below = -1
            if below >= 0:
                if end[below] < time_ns and not rows.add(end[below], 0, call, -1, depth):
                    raise MemoryError
                time_ns = end[below]
                depth += 1
                stack[depth], cursor[depth] = below, first[below + 1]
                is_open[below] = 1
                continue
            if start[call] < time_ns:
                if not rows.add(start[call], 0, call, -1, depth):
                    raise MemoryError
                time_ns = start[call]
            is_open[call] = 0
            depth -= 1
        rows.reverse(low)
        edges[i + 1] = rows.count
    begins, _, of_call, _, depths = rows.take()
    return offsets, begins, of_call.astype(np.int32), depths


def at_once(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, int64_t from_ns, int64_t to_ns
) -> Int64s:
    """Return for how long how many ranges were open at once in [from_ns, to_ns), from 0 on.

    Args:
        start_ns: Where the ranges begin, ascending.
        end_ns: Where they end, ascending: not in the order of `start_ns`.
        from_ns: Where the range of the answer begins.
        to_ns: Where it ends.
    """
    cdef Py_ssize_t begun = 0, ended = 0, count = start_ns.shape[0], most = 0
    cdef int64_t time_ns = from_ns, next_ns
    if end_ns.shape[0] != count:
        raise ValueError("each range has a begin and an end")
    # the most at once, to make room
    with nogil:
        for begun in range(count):
            while ended < count and end_ns[ended] <= start_ns[begun]:
                ended += 1
            most = max(most, begun + 1 - ended)
    found = np.zeros(most + 1, np.int64)
    cdef int64_t[::1] total = found
    begun = ended = 0
    with nogil:
        while time_ns < to_ns:
            while begun < count and start_ns[begun] <= time_ns:
                begun += 1
            while ended < count and end_ns[ended] <= time_ns:
                ended += 1
            next_ns = to_ns
            if begun < count:
                next_ns = min(next_ns, start_ns[begun])
            if ended < count:
                next_ns = min(next_ns, end_ns[ended])
            total[begun - ended if begun > ended else 0] += next_ns - time_ns
            time_ns = next_ns
    return found


def stretches(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, Py_ssize_t least
) -> tuple[Int64s, Int64s]:
    """Return where at least so many ranges are open at once: begins and ends, in order.

    Args:
        start_ns: Where the ranges begin, ascending.
        end_ns: Where they end, ascending.
        least: How many, at least 1.
    """
    cdef Py_ssize_t begun = 0, ended = 0, count = start_ns.shape[0], rows = 0
    if end_ns.shape[0] != count or least < 1:
        raise ValueError("each range has a begin and an end, and at least 1 is counted")
    begins, finishes = np.empty(count, np.int64), np.empty(count, np.int64)
    cdef int64_t[::1] begin = begins, finish = finishes
    cdef bint is_open = False
    with nogil:
        while ended < count:
            # what ends where another one begins leaves no gap
            if begun < count and start_ns[begun] <= end_ns[ended]:
                begun += 1
                if not is_open and begun - ended == least:
                    is_open = True
                    if rows and finish[rows - 1] == start_ns[begun - 1]:
                        rows -= 1
                    else:
                        begin[rows] = start_ns[begun - 1]
            else:
                ended += 1
                if is_open and begun - ended == least - 1:
                    is_open = False
                    finish[rows] = end_ns[ended - 1]
                    if finish[rows] > begin[rows]:
                        rows += 1
    return begins[:rows].copy(), finishes[:rows].copy()
