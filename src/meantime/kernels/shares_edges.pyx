"""Time per value and bin as differences of the sums at the edges of bins."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from meantime.kernels.search cimport (
    Cursor,
    Segment,
    Segments,
    State,
    find_run,
    first_after,
    load_row,
    row_state,
    row_time,
    set_value,
)
from meantime.kernels.shares_cells cimport add, emit_one, emit_sums, flush, slot_of
from meantime.kernels.shares_state cimport (
    CODES,
    EMPTY,
    FEW,
    INTEGERS,
    LISTED,
    NO_VALUE,
    OTHER,
    OVERVIEWED,
    PLANS,
    SUMS_AHEAD,
    WHOLE,
    LaneTotals,
    Overview,
    Plan,
    Spot,
    Stop,
    Work,
    lowest_bit,
    prefetch,
    row_field,
    timed_entry,
)

cdef enum:
    # Runs without durations are read from their beginning if they have at most so many rows.
    _SHORT_RUN = 256
    # For so many edges ahead rows are fetched. With SUMS_AHEAD it is at most PLANS.
    _ROWS_AHEAD = 4
    # The block of an edge is mostly so near to where even changes would have it.
    _NEARBY = 6
    # Of so many runs it is seen whether they have durations.
    _SEEN = 4
    # So many rows of a cell of an overview are read faster than a block is found.
    _NEAR_CELL = 64


cdef class Bins:
    """The edges of bins, and the segments in which they are.

    Attributes:
        bins: How many there are.
        edges: Their edges.
    """

    def __cinit__(self):
        memset(&self.w, 0, sizeof(Work))

    def __init__(self, edges: Int64s):
        self.set_edges(edges)

    def __dealloc__(self):
        free(self.w.index_of)
        self._forget_segments()

    @property
    def bins(self) -> int:
        return self.w.bins

    cdef set_edges(self, edges):
        cdef Work* w = &self.w
        # `w` has a pointer into this array, which therefore must live as long as it does.
        self._edges = self.edges = edges
        w.bins = self._edges.shape[0] - 1
        w.edges = &self._edges[0]
        self._align()
        self._forget_segments()

    cdef void _forget_segments(self) noexcept nogil:
        cdef Work* w = &self.w
        free(w.stops)
        free(w.stop_of)
        free(w.stop_segment)
        free(w.bases)
        w.stops, w.stop_of, w.stop_segment, w.bases = NULL, NULL, NULL, NULL
        w.stop_count = 0

    cdef void _align(self) noexcept nogil:
        """Find which power of two all inner edges are multiples of, and how wide bins are."""
        cdef Work* w = &self.w
        cdef uint64_t bits = 0
        cdef Py_ssize_t i
        w.shift = -1
        w.wide = False
        for i in range(w.bins):
            w.wide |= (<uint64_t>w.edges[i + 1] - <uint64_t>w.edges[i]) >> 32 != 0
        if w.bins < OVERVIEWED:
            return
        for i in range(1, w.bins):
            bits |= <uint64_t>w.edges[i]
        if bits:
            w.shift = lowest_bit(bits)

    cdef make_index(self, Segments segments, Py_ssize_t first, Py_ssize_t last):
        """Make room for the index of each code of these segments."""
        cdef uint64_t codes = 0
        cdef Py_ssize_t i
        for i in range(first, last + 1):
            if segments._segments[i].code_mask < CODES:
                codes = max(codes, segments._segments[i].code_mask + 1)
        free(self.w.index_of)
        self.w.index_of = <uint8_t*>calloc(codes + 1, 1)
        if self.w.index_of == NULL:
            raise MemoryError

    cdef find_segments(self, Segments segments):
        """Find the segments in which the edges of bins are."""
        cdef Work* w = &self.w
        cdef Py_ssize_t i
        cdef int32_t here, before = -1
        if w.stops != NULL:
            return
        w.stop_of = <int32_t*>malloc((w.bins + 1) * sizeof(int32_t))
        w.stop_segment = <int32_t*>malloc((w.bins + 1) * sizeof(int32_t))
        if w.stop_of == NULL or w.stop_segment == NULL:
            raise MemoryError
        for i in range(w.bins + 1):
            here = <int32_t>max(0, segments.segment_at(w.edges[i] - (i == w.bins)))
            if here != before:
                w.stop_segment[w.stop_count] = before = here
                w.stop_count += 1
            w.stop_of[i] = w.stop_count - 1
        w.stops = <Stop*>malloc(w.stop_count * sizeof(Stop))
        w.bases = <uint64_t*>malloc(w.stop_count * FEW * sizeof(uint64_t))
        if w.stops == NULL or w.bases == NULL:
            raise MemoryError


cdef inline int place_of(const LaneTotals* totals, const State* state, int first) noexcept nogil:
    """The index of a value among those of an attribute, from `first` on; -1 if it is not there."""
    cdef int i
    for i in range(first, totals.values):
        if totals.value[i].word == state.word and totals.value[i].meta == (state.meta & 1):
            return i
    return -1


cdef bint read_rows(
    const LaneTotals* totals, const Stop* stop, Py_ssize_t row, int64_t until, uint64_t* ns,
    int64_t* at, int* last, int64_t* changes,
) noexcept nogil:
    """Add the states from a row on until a time, or to the last row; False for unknown values.

    `at`, `last` and `changes` are those before the row, and then those after the last one.
    """
    cdef State state
    while row < stop.end:
        row_state(stop.s, stop.run, row, &state)
        if state.start >= until:
            return True
        if last[0] == NO_VALUE:
            changes[0] += 1
        elif state.start != at[0]:
            ns[last[0]] += <uint64_t>state.start - <uint64_t>at[0]
            changes[0] += 1
        at[0] = state.start
        last[0] = place_of(totals, &state, 0)
        if last[0] < 0:
            return False
        row += 1
    return True


cdef bint open_stop(
    const LaneTotals* totals, const Segment* s, int32_t quark, Py_ssize_t near, Stop* stop
) noexcept nogil:
    """Find the rows that an attribute has in a segment; False if it has values not in `totals`."""
    cdef int i, place = 0
    cdef Py_ssize_t entry
    cdef State state
    stop.s = s
    stop.timed = stop.whole = False
    stop.run = find_run(s, quark, near)
    if stop.run < 0:
        return True
    stop.begin = s.offsets[stop.run]
    stop.end = s.offsets[stop.run + 1]
    if stop.begin == stop.end:
        stop.run = -1
        return True
    entry = timed_entry(s, stop.run)
    if entry < 0:
        return True
    stop.timed = True
    stop.fields = s.values + s.value_offset[entry]
    stop.values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    stop.step = s.step[entry]
    stop.sums = s.time_offset[entry]
    stop.blocks = (stop.end - stop.begin - 1) >> stop.step
    # Both are in the same order.
    for i in range(stop.values):
        state.meta = 0
        set_value(s, stop.run, 0, stop.fields[i], &state)
        place = place_of(totals, &state, place)
        if place < 0:
            return False
        stop.place[i] = <uint8_t>place
        place += 1
    stop.same = stop.values == totals.values
    return True


cdef inline void open_spot(
    const LaneTotals* totals, const Segment* s, const Spot* spot, Stop* stop
) noexcept nogil:
    """Do the same from the description of the rows."""
    stop.s = s
    stop.timed = stop.whole = stop.same = spot.kind == WHOLE
    stop.run = -1 if spot.kind == EMPTY else 0
    stop.begin = spot.begin
    stop.end = spot.end
    stop.before = spot.before
    stop.values = totals.values
    stop.step = spot.step
    stop.sums = spot.sums
    stop.blocks = (stop.end - stop.begin - 1) >> stop.step


cdef void describe(
    const LaneTotals* totals, const Segment* s, int32_t quark, Py_ssize_t near, Spot* spot
) noexcept nogil:
    """Describe where the rows of a quark in a segment are."""
    cdef Stop stop
    cdef int i
    memset(spot, 0, sizeof(Spot))
    if not open_stop(totals, s, quark, near, &stop):
        return
    if stop.run < 0:
        spot.kind = EMPTY
        return
    spot.time = row_time(s, stop.begin)
    if not stop.timed or not stop.same or (s.form != NULL and s.form[stop.run] > INTEGERS):
        return
    spot.before = -1
    if s.form != NULL and s.form[stop.run] == INTEGERS:
        spot.before = <int64_t>(<uint64_t>s.origin[stop.run] - 1)
    for i in range(stop.values):
        # Codes above the mask are in no row, but index a table.
        if stop.fields[i] > s.code_mask:
            return
    spot.kind = WHOLE
    spot.begin, spot.end = <uint32_t>stop.begin, <uint32_t>stop.end
    spot.step, spot.sums = <uint8_t>stop.step, <uint32_t>stop.sums


cdef bint add_run(
    const LaneTotals* totals, const Stop* stop, uint64_t* ns, int64_t* at, int* last,
    int64_t* changes,
) noexcept nogil:
    """Add a whole run to the sums before it, up to its last row; False for unknown values."""
    cdef const Segment* s = stop.s
    cdef Py_ssize_t row = stop.begin
    cdef int64_t time = row_time(s, row)
    cdef State state
    cdef int i
    if last[0] != NO_VALUE:
        ns[last[0]] += <uint64_t>time - <uint64_t>at[0]
    at[0] = time
    if stop.timed and stop.blocks > 0:
        row = stop.sums + (stop.blocks - 1) * stop.values
        for i in range(stop.values):
            ns[stop.place[i]] += s.times32[row + i] if s.times32 != NULL else s.times64[row + i]
        row = stop.begin + (stop.blocks << stop.step)
        at[0] = row_time(s, row)
        changes[0] += row - stop.begin
    row_state(s, stop.run, row, &state)
    last[0] = place_of(totals, &state, 0)
    changes[0] += 1
    return last[0] >= 0 and read_rows(totals, stop, row + 1, INT64_MAX, ns, at, last, changes)


cdef bint open_stops(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first,
    Py_ssize_t low_edge, Py_ssize_t high_edge,
) noexcept nogil:
    """Find where edges [low_edge, high_edge] of bins are; False if sums do not help there."""
    cdef Py_ssize_t i, j, k, group, near = 0
    cdef Stop* stop
    cdef Stop between
    cdef Segment* s
    cdef const Spot* spot
    cdef uint64_t* base
    cdef int64_t time
    cdef int v
    for i in range(w.stop_of[low_edge], w.stop_of[high_edge] + 1):
        stop = &w.stops[i]
        k = w.stop_segment[i]
        group = (k - first) >> totals.shift
        base = w.bases + i * totals.values
        for v in range(totals.values):
            base[v] = <uint64_t>totals.ns[group * totals.values + v]
        stop.time = totals.at[group]
        stop.last = totals.last[group]
        stop.changes = totals.changes[group]
        for j in range(first + (group << totals.shift), k):
            s = &segments._segments[j]
            if not open_stop(totals, s, quark, near, &between):
                return False
            if between.run < 0:
                continue
            near = between.run
            if not add_run(totals, &between, base, &stop.time, &stop.last, &stop.changes):
                return False
        s = &segments._segments[k]
        time = segments.end_ns
        if k + 1 < segments._count:
            time = segments._segments[k + 1].base_ns
        spot = NULL
        if totals.shift == 0 and totals.spots[group].kind != OTHER:
            spot = &totals.spots[group]
            open_spot(totals, s, spot, stop)
        elif not open_stop(totals, s, quark, near, stop):
            return False
        if stop.run < 0:
            continue
        if spot == NULL:
            near = stop.run
        if not stop.timed and stop.end - stop.begin > _SHORT_RUN:
            return False
        stop.blocks_per_ns = <double>(stop.blocks + 1) / (
            <double>(<uint64_t>time - <uint64_t>s.base_ns) + 1
        )
        stop.listed = (
            stop.timed and stop.blocks <= LISTED and 3 * w.bins >= stop.blocks * w.stop_count
        )
        # Up to the first row.
        time = row_time(s, stop.begin) if spot == NULL else spot.time
        if stop.last != NO_VALUE:
            base[stop.last] += <uint64_t>time - <uint64_t>stop.time
        stop.time = time
    return True


cdef bint worth_sums(
    const Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil:
    """Whether sums at the edges of bins are found faster than the rows are read."""
    # In ns, about: either way the answer is the same, only the time it takes differs.
    cdef Py_ssize_t low = w.stop_segment[0] - first, high = w.stop_segment[w.stop_count - 1] - first
    cdef double count = <double>(high - low + 1), edge = 45.0, rows
    cdef const Segment* s
    cdef Py_ssize_t run, i
    cdef int untimed = 0
    low >>= totals.shift
    high = min((high >> totals.shift) + 1, totals.groups)
    if high <= low:
        return False
    rows = <double>(totals.changes[high] - totals.changes[low])
    rows /= <double>((high - low) << totals.shift)
    # Edges in runs without durations read the rows before them: of some it is seen how many have any.
    for i in range(_SEEN):
        s = &segments._segments[w.stop_segment[(2 * i + 1) * w.stop_count // (2 * _SEEN)]]
        run = find_run(s, quark, 0)
        untimed += run < 0 or timed_entry(s, run) < 0
    edge += 3.0 * rows * untimed / _SEEN
    if totals.shift:
        edge += (100.0 + rows) * <double>(<Py_ssize_t>1 << (totals.shift - 1))
    return count * (rows + 150.0) > edge * w.bins


cdef inline uint64_t stop_time(const Stop* stop, Py_ssize_t block) noexcept nogil:
    """When a block begins, since the first row of its run; as `block_time`."""
    cdef Py_ssize_t first = stop.sums + (block - 1) * stop.values, i
    cdef uint64_t time = 0
    if block == 0:
        return 0
    if stop.s.times32 != NULL:
        for i in range(first, first + stop.values):
            time += stop.s.times32[i]
    else:
        for i in range(first, first + stop.values):
            time += stop.s.times64[i]
    return time


cdef inline void fetch_sums(const Stop* stop, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Fetch the sums of blocks, of which the first has none."""
    cdef Py_ssize_t size = 4 if stop.s.times32 != NULL else 8, at
    cdef const uint8_t* sums = <const uint8_t*>stop.s.times64
    if stop.s.times32 != NULL:
        sums = <const uint8_t*>stop.s.times32
    sums += (stop.sums - stop.values) * size
    size *= stop.values
    for at in range(max(first, 1) * size, (last + 1) * size, 64):
        prefetch(sums + at)


cdef inline void fetch_rows(const Stop* stop, Plan* plan) noexcept nogil:
    """Fetch the rows next to a planned block, for which `edge_sums` would wait."""
    cdef Py_ssize_t line = 64 if plan.before else -64
    cdef const uint8_t* rows
    if not plan.before:
        plan.block += 1
    rows = stop.s.rows + (stop.begin + (plan.block << stop.step)) * stop.s.width
    prefetch(rows)
    prefetch(rows + line)
    prefetch(rows + 2 * line)


cdef inline void place_edge(const Stop* stop, uint64_t since, Plan* plan) noexcept nogil:
    """Find the block that begins nearest to a time since the first row, and fetch its rows.

    `plan.block` is the guess.
    """
    cdef Py_ssize_t block = plan.block, low, high, tries = 0
    cdef uint64_t time = stop_time(stop, block), after = 0
    if block and time >= since:
        while block and time >= since and tries < _NEARBY:
            after = time
            block -= 1
            tries += 1
            time = stop_time(stop, block)
        low = block if time < since else 0
        high = max(block, low + 1)
    else:
        while block < stop.blocks and tries < _NEARBY:
            after = stop_time(stop, block + 1)
            if after >= since:
                break
            time = after
            block += 1
            tries += 1
        low, high = block, stop.blocks + 1
    if tries == _NEARBY:
        # `low` begins before the time, or is the first; `high` does not.
        while high - low > 1:
            block = low + (high - low) // 2
            if stop_time(stop, block) < since:
                low = block
            else:
                high = block
        block = low
        time = stop_time(stop, block)
        if block < stop.blocks:
            after = stop_time(stop, block + 1)
    plan.block = block
    plan.before = block == stop.blocks or after - since >= since - time
    fetch_rows(stop, plan)


cdef inline Py_ssize_t sum_rows_after(
    const Stop* stop, const uint8_t* index_of, Py_ssize_t row, uint64_t packed, uint64_t at,
    uint64_t relative, uint64_t* ns,
) noexcept nogil:
    """Extend sums up to `at`, which is in the row before `row`, to a later time.

    `packed` is the row before. Returns the first row that does not begin before the time.
    """
    cdef const Segment* s = stop.s
    cdef int shift = s.payload_bits, width = s.width
    cdef uint64_t after, row_mask = s.row_mask
    cdef const uint8_t* rows = s.rows
    while row < stop.end:
        after = load_row(rows, row, width, row_mask)
        if after >> shift >= relative:
            break
        ns[index_of[row_field(s, row - 1, packed)]] += (after >> shift) - at
        packed = after
        at = after >> shift
        row += 1
    ns[index_of[row_field(s, row - 1, packed)]] += relative - at
    return row


cdef inline Py_ssize_t sum_rows_before(
    const Stop* stop, const uint8_t* index_of, Py_ssize_t row, uint64_t at, uint64_t relative,
    uint64_t* ns,
) noexcept nogil:
    """Reduce sums up to `at`, before which rows before `row` begin, to an earlier time.

    Returns the same as `sum_rows_after`.
    """
    cdef const Segment* s = stop.s
    cdef int shift = s.payload_bits, width = s.width
    cdef uint64_t packed, after = at, row_mask = s.row_mask
    cdef const uint8_t* rows = s.rows
    while after >= relative and row > stop.begin:
        row -= 1
        packed = load_row(rows, row, width, row_mask)
        at = packed >> shift
        ns[index_of[row_field(s, row, packed)]] -= after - (at if at > relative else relative)
        after = at
    return row + 1 if after < relative else row


cdef inline Py_ssize_t edge_sums(
    const Stop* stop, const uint8_t* index_of, const uint64_t* base, int values, uint64_t relative,
    const Plan* plan, uint64_t* ns,
) noexcept nogil:
    """Sum up to a time after the first row; return the first row that does not begin before it.

    As `sums_at`, but by the values of the attribute.
    """
    cdef const Segment* s = stop.s
    cdef Py_ssize_t row = plan.block, first = stop.sums + (plan.block - 1) * stop.values
    cdef int i, shift = s.payload_bits
    cdef uint64_t packed
    if row == 0:
        for i in range(values):
            ns[i] = base[i]
    elif stop.same and s.times32 != NULL:
        for i in range(values):
            ns[i] = base[i] + s.times32[first + i]
    elif stop.same:
        for i in range(values):
            ns[i] = base[i] + s.times64[first + i]
    else:
        for i in range(values):
            ns[i] = base[i]
        for i in range(stop.values):
            ns[stop.place[i]] += (
                s.times32[first + i] if s.times32 != NULL else s.times64[first + i]
            )
    row = stop.begin + (row << stop.step)
    packed = load_row(s.rows, row, s.width, s.row_mask)
    if plan.before:
        return sum_rows_after(stop, index_of, row + 1, packed, packed >> shift, relative, ns)
    # Sums that do not match the rows give wrong times, but no row outside the run.
    return sum_rows_before(stop, index_of, row, packed >> shift, relative, ns)


cdef inline void number_codes(Work* w, const LaneTotals* totals, const Stop* stop) noexcept nogil:
    """Number the values of a run for `edge_sums`."""
    cdef int i
    if stop.whole:
        for i in range(totals.values):
            w.index_of[
                0 if totals.value[i].meta & 1
                else <uint64_t>totals.value[i].word - <uint64_t>stop.before
            ] = <uint8_t>i
        return
    for i in range(stop.values):
        # Codes above the mask are in no row.
        if stop.fields[i] <= stop.s.code_mask:
            w.index_of[stop.fields[i]] = stop.place[i]


cdef bint by_sums(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil:
    """Write all cells of one attribute as differences of the sums at the edges of bins.

    False if that is not possible, or not faster; then nothing was written.
    """
    cdef State state
    cdef int32_t[64] slots
    cdef int64_t counted, most
    if not worth_sums(w, segments, totals, quark, first):
        return False
    if not open_stops(w, segments, totals, quark, first, 0, w.bins):
        return False
    begin_sums(w, segments, totals, quark, slots, &state)
    if w.failed:
        return True
    # How many changes there are in all: sums of a damaged pyramid do not add any.
    most = changes_before(w, totals, w.bins)
    counted = changes_before(w, totals, 0)
    sum_edges(
        w, segments, totals, slots, &state, 0, w.bins, &counted, most, near_overview(w, totals),
        NULL,
    )
    return True


cdef void begin_sums(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, int32_t* slots,
    State* state,
) noexcept nogil:
    """Find the state where the first bin begins, and the slots of all values."""
    cdef Cursor cursor
    cdef int i
    segments.locate(quark, w.edges[0], state, &cursor)
    w.slot = slot_of(w, state)
    for i in range(totals.values):
        slots[i] = slot_of(w, &totals.value[i])


cdef inline bint plan_cell(
    const Stop* stop, const Overview* near, int64_t edge, Plan* plan
) noexcept nogil:
    """Find the cell that begins nearest to an edge, after the first row, and fetch its sums."""
    cdef int64_t half = near.first << near.shift, time
    # Relative to the first cell, which is not after the edge by much: no sum overflows.
    cdef int64_t cell = ((edge - half) + (<int64_t>1 << near.shift >> 1)) >> near.shift
    if cell < near.known or cell >= near.count:
        return False
    time = (near.first + cell) << near.shift
    if time <= stop.time:
        return False
    plan.cell = cell
    plan.block = 0
    prefetch(near.ns32 + cell * near.stride)
    prefetch(near.changes + cell)
    return True


cdef inline bint plan_row(
    const Stop* stop, const Overview* near, int64_t edge, Plan* plan
) noexcept nogil:
    """Find the row where a planned cell begins, and fetch the rows next to it.

    False if it is not one of this run; then the plan is the first block.
    """
    cdef Py_ssize_t row = <uint32_t>(near.changes[plan.cell] - <uint32_t>stop.changes), line
    cdef const uint8_t* rows
    plan.before = edge >= (near.first + plan.cell) << near.shift
    if row < 1 or row > stop.end - stop.begin:
        plan.cell = -1
        return False
    plan.block = stop.begin + row
    rows = stop.s.rows + (plan.block - 1) * stop.s.width
    line = 64 if plan.before else -64
    prefetch(rows)
    prefetch(rows + line)
    return True


cdef inline Py_ssize_t near_sums(
    const Stop* stop, const Overview* near, const uint8_t* index_of, int values, uint64_t relative,
    const Plan* plan, uint64_t* ns,
) noexcept nogil:
    """Do as `edge_sums`, modulo 2^32, from where a cell of an overview begins."""
    cdef const Segment* s = stop.s
    cdef Py_ssize_t row = plan.block
    cdef int i
    cdef uint64_t packed, at
    cdef const uint32_t* sums = near.ns32 + plan.cell * near.stride
    at = <uint64_t>((near.first + plan.cell) << near.shift) - <uint64_t>s.base_ns
    for i in range(values):
        ns[i] = sums[i]
    if plan.before:
        packed = load_row(s.rows, row - 1, s.width, s.row_mask)
        return sum_rows_after(stop, index_of, row, packed, at, relative, ns)
    return sum_rows_before(stop, index_of, row, at, relative, ns)


cdef bint sum_edges(
    Work* w, Segments segments, const LaneTotals* totals, const int32_t* slots,
    const State* state, Py_ssize_t low_edge, Py_ssize_t high_edge, int64_t* counted, int64_t most,
    const Overview* near, Overview* overview,
) noexcept nogil:
    """Write the cells between edges [low_edge, high_edge]; or an overview, which has each edge.

    Sums are computed from those of `near`, unless it is NULL; its bins are shorter than 2^32 ns.
    `counted` is how many changes there were before the first edge, and then before the last.
    False if an overview is not possible.
    """
    cdef uint64_t[2][64] both
    cdef uint64_t* since = both[0]
    cdef uint64_t* until = both[1]
    cdef Plan[PLANS] plans
    cdef Stop* stop
    cdef Stop* current = NULL
    cdef Stop* fetched = NULL
    cdef Stop* listed = NULL
    cdef uint64_t[LISTED + 1] times
    cdef int values = totals.values, last, i
    cdef int64_t edge, at, changed
    cdef uint64_t relative
    cdef double guess
    cdef Py_ssize_t row, j, planned = low_edge, placed = low_edge, block = 0, rows
    cdef Py_ssize_t edges = high_edge + 1
    for j in range(low_edge, edges):
        while planned < edges and planned <= j + SUMS_AHEAD + _ROWS_AHEAD:
            stop = &w.stops[w.stop_of[planned]]
            edge = w.edges[planned]
            plans[planned & (PLANS - 1)].cell = -1
            if not stop.timed or edge <= stop.time:
                pass
            elif near != NULL and plan_cell(stop, near, edge, &plans[planned & (PLANS - 1)]):
                pass
            elif not stop.listed:
                guess = <double>(<uint64_t>edge - <uint64_t>stop.time) * stop.blocks_per_ns
                row = <Py_ssize_t>guess if guess < <double>stop.blocks else stop.blocks
                plans[planned & (PLANS - 1)].block = row
                fetch_sums(stop, max(row - 1, 0), min(row + 1, stop.blocks))
            elif stop != fetched:
                fetched = stop
                fetch_sums(stop, 0, stop.blocks)
            planned += 1
        while placed < edges and placed <= j + _ROWS_AHEAD:
            stop = &w.stops[w.stop_of[placed]]
            edge = w.edges[placed]
            relative = <uint64_t>edge - <uint64_t>stop.time
            if not stop.timed or edge <= stop.time:
                pass
            elif plans[placed & (PLANS - 1)].cell >= 0 and plan_row(
                stop, near, edge, &plans[placed & (PLANS - 1)]
            ):
                pass
            elif not stop.listed:
                place_edge(stop, relative, &plans[placed & (PLANS - 1)])
            else:
                if stop != listed:
                    listed = stop
                    block = 0
                    for row in range(stop.blocks + 1):
                        times[row] = stop_time(stop, row)
                while block < stop.blocks and times[block + 1] < relative:
                    block += 1
                plans[placed & (PLANS - 1)].block = block
                plans[placed & (PLANS - 1)].before = block == stop.blocks or (
                    times[block + 1] - relative >= relative - times[block]
                )
                fetch_rows(stop, &plans[placed & (PLANS - 1)])
            placed += 1
        stop = &w.stops[w.stop_of[j]]
        edge = w.edges[j]
        if edge < totals.origin:
            # Until its first row it has one value, which may be one that no row has.
            if overview == NULL and j > low_edge:
                w.bin = j - 1
                w.cell_changes[w.bin] = 0
                emit_one(w, w.slot, edge - w.edges[j - 1])
            continue
        if stop.run < 0 or edge <= stop.time:
            for i in range(values):
                until[i] = w.bases[w.stop_of[j] * values + i]
            if stop.last != NO_VALUE:
                until[stop.last] += <uint64_t>edge - <uint64_t>stop.time
            changed = stop.changes
        elif stop.timed:
            if stop != current:
                current = stop
                number_codes(w, totals, stop)
            relative = <uint64_t>edge - <uint64_t>stop.s.base_ns
            if plans[j & (PLANS - 1)].cell >= 0:
                row = near_sums(
                    stop, near, w.index_of, values, relative, &plans[j & (PLANS - 1)], until
                )
            else:
                row = edge_sums(
                    stop, w.index_of, w.bases + w.stop_of[j] * values, values, relative,
                    &plans[j & (PLANS - 1)], until,
                )
            changed = stop.changes + row - stop.begin
            # Queries rely on the changes of an overview, and a damaged pyramid may mislead.
            if overview != NULL and (
                (row > stop.begin and row_time(stop.s, row - 1) >= edge)
                or (row < stop.end and row_time(stop.s, row) < edge)
            ):
                return False
        else:
            for i in range(values):
                until[i] = w.bases[w.stop_of[j] * values + i]
            at = stop.time
            last = NO_VALUE
            changed = stop.changes
            read_rows(totals, stop, stop.begin, edge, until, &at, &last, &changed)
            if 0 <= last < values:
                until[last] += <uint64_t>edge - <uint64_t>at
        if near != NULL:
            # Those of an overview are sums modulo 2^32.
            if j == low_edge or w.edges[j - 1] < totals.origin:
                for i in range(values):
                    until[i] = <uint32_t>until[i]
            else:
                for i in range(values):
                    until[i] = since[i] + <uint32_t>(until[i] - since[i])
        if overview != NULL:
            store_edge(overview, j, until, values, changed)
        elif j == 0:
            # No state since the history began is not a change.
            if (
                state.meta & 1 and edge == segments.start_ns and stop.run >= 0
                and edge == stop.time
            ):
                counted[0] += 1
        elif j > low_edge:
            w.bin = j - 1
            changed = most if j == w.bins else max(counted[0], min(changed, most))
            w.changes = <int32_t>max(changed - counted[0], 0)
            counted[0] = max(changed, counted[0])
            if w.edges[j - 1] < totals.origin:
                add(w, w.slot, totals.origin - w.edges[j - 1], w.used)
                for i in range(values):
                    if until[i]:
                        add(w, slots[i], <int64_t>until[i], w.used)
                flush(w, w.used)
            else:
                rows = w.rows
                emit_sums(w, slots, since, until, values)
                w.cell_rows[w.bin] = <int32_t>(w.rows - rows)
                w.cell_changes[w.bin] = w.changes
        since, until = until, since
    w.changes = 0
    return True


cdef inline void store_edge(
    Overview* overview, Py_ssize_t edge, const uint64_t* ns, int values, int64_t changes
) noexcept nogil:
    cdef int i
    cdef Py_ssize_t first = edge * overview.stride
    overview.changes[edge] = <uint32_t>changes
    if overview.wide:
        for i in range(values):
            overview.ns64[first + i] = ns[i]
    else:
        for i in range(values):
            overview.ns32[first + i] = <uint32_t>ns[i]


cdef inline const Overview* near_overview(const Work* w, const LaneTotals* totals) noexcept nogil:
    """The finest overview, if its cells have few rows; NULL if there is none."""
    cdef const Overview* overview = totals.overview
    cdef const Overview* found = NULL
    while overview != NULL and not w.wide:
        if (
            not overview.wide and overview.count * _NEAR_CELL >= totals.rows
            and (found == NULL or overview.shift < found.shift)
        ):
            found = overview
        overview = overview.next
    return found


cdef int64_t changes_before(
    const Work* w, const LaneTotals* totals, Py_ssize_t edge
) noexcept nogil:
    """How many changes there were before an edge, by the rows themselves."""
    cdef const Stop* stop = &w.stops[w.stop_of[edge]]
    cdef int64_t time = w.edges[edge], at = 0, changes = stop.changes
    cdef int last = NO_VALUE
    cdef uint64_t[64] ns
    if stop.run < 0 or time <= stop.time:
        return changes
    if stop.timed:
        return changes + first_after(stop.s, stop.begin, stop.end, time - 1) - stop.begin
    memset(ns, 0, sizeof(ns))
    read_rows(totals, stop, stop.begin, time, ns, &at, &last, &changes)
    return changes
