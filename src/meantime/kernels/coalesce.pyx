"""Which rectangles to merge until few enough are left.

`worth` is what the picture loses with each edge; `merge_shortest` merges as the original statemap
does while it reads. Rectangles are neighbours if they are of one row and touch.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

cdef extern from "grid.h":
    ctypedef struct Grid:
        pass
    Grid grid_of(int64_t, int64_t, int64_t) noexcept nogil
    uint64_t grid_cell(const Grid*, int64_t) noexcept nogil

cdef extern from "rows.h":
    void prefetch(const void*) noexcept nogil

cdef enum:
    PIXELS = 8620

cdef int64_t _NEVER = INT64_MAX, _BEYOND = INT64_MAX - 1

# What an edge is worth that is never merged, and one beyond the limit: both more than any other.
NEVER = _NEVER
BEYOND = _BEYOND

# How much of a difference of shares counts as it is, and the rest by its square. The square is the
# exact loss where states alternate faster than can be seen, the other where they do not.
cdef double LINEAR = 0.15

# What no pixel shows is merged first, in the order in which it would be seen least when zoomed. So
# the factor is small, but not 0.
cdef double UNSEEN = 1e-9


cdef struct Entry:
    int64_t key
    int32_t id
    uint32_t version


cdef struct Heap:
    Entry* entries
    Py_ssize_t count


cdef inline bint _before(const Entry* a, const Entry* b) noexcept nogil:
    return a.key < b.key or (a.key == b.key and a.id < b.id)


cdef inline void _sink(Heap* heap, Py_ssize_t at, Entry entry) noexcept nogil:
    cdef Py_ssize_t below = 2 * at + 1
    while below < heap.count:
        if below + 1 < heap.count and _before(&heap.entries[below + 1], &heap.entries[below]):
            below += 1
        if not _before(&heap.entries[below], &entry):
            break
        heap.entries[at] = heap.entries[below]
        at = below
        below = 2 * at + 1
    heap.entries[at] = entry


cdef inline void _push(Heap* heap, Entry entry) noexcept nogil:
    cdef Py_ssize_t at = heap.count, above
    heap.count += 1
    while at:
        above = (at - 1) >> 1
        if not _before(&entry, &heap.entries[above]):
            break
        heap.entries[at] = heap.entries[above]
        at = above
    heap.entries[at] = entry


cdef inline void _pop(Heap* heap) noexcept nogil:
    heap.count -= 1
    if heap.count:
        _sink(heap, 0, heap.entries[heap.count])


cdef struct Time:
    double ns
    int32_t state
    int32_t next


cdef struct Node:
    int64_t start
    int64_t end
    int64_t key
    int64_t loss
    int32_t left
    int32_t right
    int32_t times
    uint32_t version


cdef inline double _loss(
    const Node* a, const Node* b, const Time* times, const Grid* grid, double pixel_ns
) noexcept nogil:
    """About how much more of the picture is wrong when two neighbours become one."""
    cdef double a_ns = a.end - a.start, b_ns = b.end - b.start, both_ns = a_ns + b_ns
    cdef double a_scale = 1 / a_ns, b_scale = 1 / b_ns
    cdef double difference, linear = 0, square = 0, loss
    cdef int32_t i = a.times, j = b.times
    while i >= 0 or j >= 0:
        if j < 0 or (i >= 0 and times[i].state < times[j].state):
            difference = times[i].ns * a_scale
            i = times[i].next
        elif i < 0 or times[j].state < times[i].state:
            difference = times[j].ns * b_scale
            j = times[j].next
        else:
            difference = times[i].ns * a_scale - times[j].ns * b_scale
            if difference < 0:
                difference = -difference
            i = times[i].next
            j = times[j].next
        linear += difference
        square += difference * difference
    loss = a_ns * b_ns / both_ns * (LINEAR * linear + (1 - LINEAR) * square)
    if both_ns <= pixel_ns + 1 and grid_cell(grid, a.start) == grid_cell(grid, b.end - 1):
        return loss * UNSEEN
    # A pixel shows its average: what happens in a part of one is seen about as much as the part is
    # large. This weighs a wide picture's pixels and those of one a tenth as wide.
    return loss * (both_ns / (both_ns + 2 * pixel_ns) + both_ns / (both_ns + 20 * pixel_ns))


cdef inline int64_t _key(double loss) noexcept nogil:
    """An integer that orders as the number does, which is not negative."""
    # As integers, the bits of doubles that are not negative ascend with them; so one kind of heap
    # serves both functions here.
    cdef int64_t key
    memcpy(&key, &loss, sizeof(key))
    return key


cdef inline void _join(Node* a, const Node* b, Time* times) noexcept nogil:
    """Let `a` end with `b` and contain the times of both."""
    # Both lists ascend by state, so one pass merges them, without memory: links are moved.
    cdef int32_t* link = &a.times
    cdef int32_t j = b.times, after
    while j >= 0:
        while link[0] >= 0 and times[link[0]].state < times[j].state:
            link = &times[link[0]].next
        after = times[j].next
        if link[0] >= 0 and times[link[0]].state == times[j].state:
            times[link[0]].ns += times[j].ns
        else:
            times[j].next = link[0]
            link[0] = j
        j = after
    a.end = b.end


cdef void _merge(
    Node* nodes, Time* times, Heap* heap, int32_t first, int32_t after, const Grid* grid,
    double pixel_ns, int64_t limit, int64_t* worth
) noexcept nogil:
    """Merge the nodes from `first` up to `after`, each the next one's neighbour, up to `limit`."""
    cdef Entry entry
    cdef Node* node
    cdef Node* gone
    cdef int64_t dearest = 0
    cdef int32_t i
    heap.count = 0
    for i in range(first, after):
        node = &nodes[i - first]
        node.left = i - first - 1
        node.right = i - first + 1
        node.version = 0
        if i > first:
            node = &nodes[i - first - 1]
            node.loss = node.key = _key(_loss(node, node + 1, times, grid, pixel_ns))
            heap.entries[heap.count] = Entry(node.key, i - first - 1, 0)
            heap.count += 1
    nodes[after - first - 1].right = -1
    for i in range(<int32_t>(heap.count // 2) - 1, -1, -1):
        _sink(heap, i, heap.entries[i])
    while heap.count:
        entry = heap.entries[0]
        node = &nodes[entry.id]
        # The next node is most likely one of these; a row's nodes are more than the nearest cache
        # has. The heap has room for three entries more than it needs.
        prefetch(&nodes[heap.entries[1].id])
        prefetch(&nodes[heap.entries[2].id])
        if entry.version != node.version:
            _pop(heap)
            continue
        if node.loss > node.key:
            # It grew since it was pushed, as most do. An entry that is too small surfaces too
            # early, never too late, so it can stay until then, and moves once however often it
            # grew.
            node.key = entry.key = node.loss
            _sink(heap, 0, entry)
            continue
        if node.loss > limit:
            # the rest would lose as much
            while node.left >= 0:
                node = &nodes[node.left]
            while node.right >= 0:
                worth[first + node.right] = _BEYOND
                node = &nodes[node.right]
            return
        gone = &nodes[node.right]
        # A merge can make the next one cheaper, but edges must go in the order of merging: so an
        # edge is worth the most that any merge so far has cost.
        if node.loss > dearest:
            dearest = node.loss
        worth[first + node.right] = dearest
        _join(node, gone, times)
        gone.version = <uint32_t>-1
        node.right = gone.right
        if node.right >= 0:
            nodes[node.right].left = entry.id
            _update(nodes, entry.id, times, heap, grid, pixel_ns)
        else:
            node.version += 1
            _pop(heap)
        if node.left >= 0:
            _update(nodes, node.left, times, heap, grid, pixel_ns)


cdef inline void _update(
    Node* nodes, int32_t at, const Time* times, Heap* heap, const Grid* grid, double pixel_ns
) noexcept nogil:
    cdef Node* node = &nodes[at]
    node.loss = _key(_loss(node, &nodes[node.right], times, grid, pixel_ns))
    if node.loss < node.key:
        node.key = node.loss
        node.version += 1
        _push(heap, Entry(node.key, at, node.version))


def worth(
    Py_ssize_t begin, Py_ssize_t until, columns: Columns, int64_t window_start, int64_t window_end,
    int64_t limit=_NEVER
) -> Int64s:
    """Return what the edge between each rectangle and the one before it is worth, int64.

    The rectangles are those from `begin` up to `until` of `rectangles.Columns`. Those worth more than
    `limit` are worth BEYOND instead, which takes less time.

    Neighbours are merged, always those two whose merging loses least, of equal ones the first,
    until none is left; an edge is worth the most that was lost at once until it went. To keep the
    edges worth most is to merge the same way over all rows until that many are left. An edge
    between rectangles that are not neighbours is worth NEVER.
    """
    cdef const int32_t[::1] row = columns.row
    cdef const int64_t[::1] start = columns.start
    cdef const int64_t[::1] end = columns.end
    cdef const int64_t[::1] state_offsets = columns.state_offsets
    cdef const int32_t[::1] state_index = columns.state_index
    cdef const int64_t[::1] state_ns = columns.state_ns
    cdef Py_ssize_t i, j, k, first = begin, longest = 0, times_longest = 0
    cdef Grid grid = grid_of(window_start, window_end, PIXELS)
    cdef double pixel_ns = (<double>window_end - <double>window_start) / PIXELS
    cdef Heap heap
    found = np.full(until - begin, NEVER)
    cdef int64_t[::1] edges = found
    with nogil:
        for i in range(begin + 1, until + 1):
            if i == until or row[i] != row[i - 1] or start[i] != end[i - 1]:
                longest = max(longest, i - first)
                times_longest = max(times_longest, state_offsets[i] - state_offsets[first])
                first = i
    cdef Node* nodes = <Node*>malloc((longest + 1) * sizeof(Node))
    cdef Time* times = <Time*>malloc((times_longest + 1) * sizeof(Time))
    # The most entries there can be: one for each edge at first, and two more for each merge.
    heap.entries = <Entry*>malloc((3 * longest + 1) * sizeof(Entry))
    heap.count = 0
    if not nodes or not times or not heap.entries:
        free(nodes)
        free(times)
        free(heap.entries)
        raise MemoryError
    first = begin
    with nogil:
        for i in range(begin + 1, until + 1):
            if i < until and row[i] == row[i - 1] and start[i] == end[i - 1]:
                continue
            if i - first > 1:
                for j in range(first, i):
                    nodes[j - first].start = start[j]
                    nodes[j - first].end = end[j]
                    nodes[j - first].times = <int32_t>(state_offsets[j] - state_offsets[first])
                    for k in range(state_offsets[j], state_offsets[j + 1]):
                        times[k - state_offsets[first]] = Time(
                            <double>state_ns[k],
                            state_index[k],
                            <int32_t>(k - state_offsets[first]) + 1,
                        )
                    times[state_offsets[j + 1] - state_offsets[first] - 1].next = -1
                _merge(
                    nodes, times, &heap, <int32_t>(first - begin), <int32_t>(i - begin), &grid,
                    pixel_ns, limit, &edges[0],
                )
            first = i
    free(nodes)
    free(times)
    free(heap.entries)
    return found


cdef struct Rectangle:
    int64_t start
    int64_t end
    int64_t weight
    int32_t left
    int32_t right
    uint32_t version
    bint waiting


cdef void _weigh(Rectangle* held, Heap* heap, Py_ssize_t* waiting, int32_t at) noexcept nogil:
    cdef Rectangle* it = &held[at]
    it.weight = it.end - it.start
    if it.left >= 0:
        it.weight += held[it.left].end - held[it.left].start
    if it.right >= 0:
        it.weight += held[it.right].end - held[it.right].start
    # Entries of older versions stay in the heap, and are skipped when they surface.
    it.version += 1
    if not it.waiting:
        it.waiting = True
        waiting[0] += 1
    _push(heap, Entry(it.weight, at, it.version))


def merge_shortest(
    const int32_t[::1] row, const int64_t[::1] start, const int64_t[::1] end,
    const uint8_t[::1] still_open, const int64_t[::1] order, int32_t[::1] last_of_row,
    Py_ssize_t target
) -> npt.NDArray[np.uint8]:
    """Merge as the original statemap does: while reading, that which is short among short ones.

    Rectangles come in the order of `order`, that of their ends. After each one, while `target` or
    more wait, the one that weighs least, with its neighbours, is merged with the shorter of these;
    one without neighbours stops waiting until it has one. Rectangles are given in order of start,
    those of one start in the order of their rows' first appearance, which decides between equal
    weights. Those `still_open` at the end are never merged. `last_of_row` is all -1.

    Returns:
        Whether each rectangle is the first of a group, uint8.
    """
    cdef Py_ssize_t i, waiting = 0, count = row.shape[0]
    cdef int32_t at, left, right
    cdef Entry entry
    cdef Heap heap
    cdef Rectangle* held = <Rectangle*>malloc((count + 1) * sizeof(Rectangle))
    # The most entries there can be: a rectangle that arrives pushes itself and its left neighbour,
    # each merge three, and there are fewer merges than rectangles.
    heap.entries = <Entry*>malloc((5 * count + 1) * sizeof(Entry))
    heap.count = 0
    if not held or not heap.entries:
        free(held)
        free(heap.entries)
        raise MemoryError
    found = np.ones(count, np.uint8)
    cdef uint8_t[::1] first = found
    with nogil:
        for i in range(count):
            at = <int32_t>order[i]
            if still_open[at]:
                continue
            left = last_of_row[row[at]]
            held[at] = Rectangle(start[at], end[at], 0, left, -1, 0, False)
            last_of_row[row[at]] = at
            if left >= 0:
                held[left].right = at
                _weigh(held, &heap, &waiting, left)
            _weigh(held, &heap, &waiting, at)
            while waiting >= target:
                entry = heap.entries[0]
                _pop(&heap)
                at = entry.id
                if not held[at].waiting or held[at].version != entry.version:
                    continue
                left = held[at].left
                right = held[at].right
                if left < 0 and right < 0:
                    held[at].waiting = False
                    waiting -= 1
                    continue
                if right < 0 or (
                    left >= 0
                    and held[left].end - held[left].start < held[right].end - held[right].start
                ):
                    at, right = left, at
                # now `right` becomes a part of `at`, its left neighbour
                first[right] = 0
                held[at].end = held[right].end
                held[at].right = held[right].right
                if held[right].waiting:
                    held[right].waiting = False
                    waiting -= 1
                held[right].version += 1
                if held[at].right >= 0:
                    held[held[at].right].left = at
                if last_of_row[row[at]] == right:
                    last_of_row[row[at]] = at
                _weigh(held, &heap, &waiting, at)
                if held[at].left >= 0:
                    _weigh(held, &heap, &waiting, held[at].left)
                if held[at].right >= 0:
                    _weigh(held, &heap, &waiting, held[at].right)
    free(held)
    free(heap.entries)
    return found
