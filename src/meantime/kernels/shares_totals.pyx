"""What is kept of attributes between queries: sums where segments begin, and overviews."""

from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from meantime.kernels.search cimport (
    Segment,
    Segments,
    State,
    find_run,
    row_state,
    row_time,
    set_value,
)
from meantime.kernels.shares_cells cimport emit_sums
from meantime.kernels.shares_edges cimport (
    Bins,
    begin_sums,
    by_sums,
    changes_before,
    describe,
    open_stops,
    sum_edges,
)
from meantime.kernels.shares_rows cimport sums_at
from meantime.kernels.shares_state cimport (
    CODES,
    FEW,
    FLOAT,
    NO_VALUE,
    OVERVIEWED,
    LaneTotals,
    Overview,
    Plan,
    Spot,
    Sums,
    Work,
    prefetch,
    timed_entry,
)

cdef enum:
    # A quark has totals from so many rows on.
    _TOTALLED = 1024
    # An overview takes at most a quarter of the bytes of the rows: 5 or so each.
    _ROW_BYTES = 5
    # How far ahead the cells of an overview are fetched.
    _CELLS_AHEAD = 12
    # A query computes overviews if its range is at least so large a part of that of the totals.
    _OVERVIEW_PART = 8


cdef inline const Overview* overview_of(
    const LaneTotals* totals, int shift, bint wide
) noexcept nogil:
    """The overview with all multiples of 2^shift, for wide bins or not; NULL if there is none."""
    cdef const Overview* overview = NULL
    cdef const Overview* found = NULL
    if shift < 0:
        return NULL
    # The coarsest of them reads the least memory.
    overview = totals.overview
    while overview != NULL:
        if overview.shift <= shift and (overview.wide or not wide) and (
            found == NULL or found.shift < overview.shift
        ):
            found = overview
        overview = overview.next
    return found


cdef inline Py_ssize_t cell_of(const Overview* overview, int64_t edge) noexcept nogil:
    """The index of a time in an overview; -1 if it has none."""
    cdef int64_t cell = (edge >> overview.shift) - overview.first
    if cell < overview.known or cell >= overview.count:
        return -1
    return cell if (overview.first + cell) << overview.shift == edge else -1


cdef bint by_overview(
    Work* w, Segments segments, const LaneTotals* totals, int32_t quark, Py_ssize_t first
) noexcept nogil:
    """Do as `by_sums` with the sums of an overview, without reading rows but around the first and
    the last edge."""
    cdef const Overview* overview = overview_of(totals, w.shift, w.wide)
    cdef State state
    cdef int32_t[64] slots
    cdef int64_t counted, most
    # No state at the beginning is not a change, which the first cell has to consider.
    cdef Py_ssize_t low = 1, high = w.bins
    if overview == NULL:
        return False
    while low < high and cell_of(overview, w.edges[low]) < 0:
        low += 1
    while low < high and cell_of(overview, w.edges[high]) < 0:
        high -= 1
    if high - low < OVERVIEWED:
        return False
    if (
        not open_stops(w, segments, totals, quark, first, 0, low)
        or not open_stops(w, segments, totals, quark, first, high, w.bins)
    ):
        return False
    # Sums of a damaged pyramid may select a value that is not there.
    memset(slots, 0, sizeof(slots))
    begin_sums(w, segments, totals, quark, slots, &state)
    if w.failed:
        return True
    most = changes_before(w, totals, w.bins)
    counted = changes_before(w, totals, 0)
    sum_edges(w, segments, totals, slots, &state, 0, low, &counted, most, NULL, NULL)
    if overview.wide or w.shares != NULL or w.least != NULL or w.slot8 == NULL or w.ns32 == NULL:
        emit_cells(w, overview, slots, totals.values, low, high)
    else:
        emit_short_cells(w, overview, slots, low, high)
    if high < w.bins:
        counted = changes_before(w, totals, high)
        sum_edges(
            w, segments, totals, slots, &state, high, w.bins, &counted, most, NULL, NULL
        )
    return True


cdef inline void fetch_cell(
    const Work* w, const Overview* overview, Py_ssize_t edge
) noexcept nogil:
    cdef Py_ssize_t cell
    if edge <= w.bins:
        cell = (w.edges[edge] >> overview.shift) - overview.first
        prefetch(overview.changes + cell)
        cell *= overview.stride
        if overview.wide:
            prefetch(overview.ns64 + cell)
            prefetch(overview.ns64 + cell + 8)
        else:
            prefetch(overview.ns32 + cell)


cdef void emit_cells(
    Work* w, const Overview* overview, const int32_t* slots, int values, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Write the cells between edges [low, high], of any form."""
    cdef uint64_t[2][64] both
    cdef uint64_t* since = both[0]
    cdef uint64_t* until = both[1]
    cdef Py_ssize_t j, cell, rows
    cdef uint32_t before = 0
    cdef uint64_t mask = <uint64_t>-1 if overview.wide else 0xFFFFFFFF
    cdef int i
    for j in range(low, high + 1):
        fetch_cell(w, overview, j + _CELLS_AHEAD)
        cell = (w.edges[j] >> overview.shift) - overview.first
        if overview.wide:
            for i in range(values):
                until[i] = overview.ns64[cell * overview.stride + i]
        else:
            # Higher bits, so that the difference is right beyond 2^32.
            for i in range(values):
                until[i] = overview.ns32[cell * overview.stride + i]
                if j > low:
                    until[i] = since[i] + ((until[i] - since[i]) & mask)
        if j > low:
            rows = w.rows
            w.bin = j - 1
            w.changes = <int32_t>(overview.changes[cell] - before)
            emit_sums(w, slots, since, until, values)
            w.cell_rows[w.bin] = <int32_t>(w.rows - rows)
            w.cell_changes[w.bin] = w.changes
        before = overview.changes[cell]
        since, until = until, since
    w.changes = 0


cdef inline void emit_longest_cells(
    Work* w, const Overview* overview, const int32_t* slots, int stride, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Write the longest value of each cell between edges [low, high].

    `stride` is a constant in most calls, so the compiler unrolls the loop over values. Sums beyond
    the values are 0.
    """
    cdef const uint32_t* sums = overview.ns32
    cdef const uint32_t* since
    cdef const uint32_t* until
    cdef const int64_t* edges = w.edges
    cdef int shift = overview.shift, i
    # Null is first, but wins only if it lasted longer than any other value.
    cdef uint64_t others = 0 if slots[0] == 0 else <uint64_t>-1
    cdef Py_ssize_t rows = w.rows, j, first = overview.first
    cdef Py_ssize_t cell = (edges[low] >> shift) - first
    cdef uint8_t* slot8 = w.slot8
    cdef uint32_t* ns32 = w.ns32
    cdef int32_t* cell_rows = w.cell_rows
    cdef int32_t* cell_changes = w.cell_changes
    cdef uint32_t before = overview.changes[cell]
    cdef uint64_t key, most, null
    since = sums + cell * stride
    for j in range(low + 1, high + 1):
        fetch_cell(w, overview, j + _CELLS_AHEAD)
        cell = (edges[j] >> shift) - first
        until = sums + cell * stride
        # A time and the index of its value in one number, greater for the earlier of equals.
        null = <uint64_t>(until[0] - since[0]) << 6
        most = (null | 63) & others
        null = (null | 63) & ~others
        for i in range(1, stride):
            key = (<uint64_t>(until[i] - since[i]) << 6) | <uint64_t>(63 - i)
            most = key if key > most else most
        most = null if null >> 6 > most >> 6 else most
        slot8[rows] = <uint8_t>slots[63 - (most & 63)]
        ns32[rows] = <uint32_t>(most >> 6)
        rows += 1
        cell_rows[j - 1] = 1
        cell_changes[j - 1] = <int32_t>(overview.changes[cell] - before)
        before = overview.changes[cell]
        since = until
    w.rows = rows


cdef inline void emit_all_cells(
    Work* w, const Overview* overview, const int32_t* slots, int stride, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Write the rows of each cell between edges [low, high]; as `emit_longest_cells`."""
    cdef const uint32_t* sums = overview.ns32
    cdef const uint32_t* since
    cdef const uint32_t* until
    cdef const int64_t* edges = w.edges
    cdef int shift = overview.shift, i
    cdef Py_ssize_t rows = w.rows, j, first = overview.first, begin
    cdef Py_ssize_t cell = (edges[low] >> shift) - first
    cdef uint8_t* slot8 = w.slot8
    cdef uint32_t* ns32 = w.ns32
    cdef int32_t* cell_rows = w.cell_rows
    cdef int32_t* cell_changes = w.cell_changes
    cdef uint32_t before = overview.changes[cell], ns, changes
    cdef uint8_t[64] slot
    for i in range(stride):
        slot[i] = <uint8_t>slots[i]
    since = sums + cell * stride
    for j in range(low + 1, high + 1):
        fetch_cell(w, overview, j + _CELLS_AHEAD)
        cell = (edges[j] >> shift) - first
        until = sums + cell * stride
        changes = overview.changes[cell] - before
        begin = rows
        # As in `emit_few`, a row is written before it is clear whether it counts.
        for i in range(stride):
            ns = until[i] - since[i]
            slot8[rows] = slot[i]
            ns32[rows] = ns
            rows += ns != 0
        rows = min(rows, begin + changes + 1)
        cell_rows[j - 1] = <int32_t>(rows - begin)
        cell_changes[j - 1] = <int32_t>changes
        before += changes
        since = until
    w.rows = rows


cdef void emit_short_cells(
    Work* w, const Overview* overview, const int32_t* slots, Py_ssize_t low, Py_ssize_t high
) noexcept nogil:
    """Write the cells between edges [low, high] as rows of a byte and 32 bits."""
    if w.longest:
        if overview.stride == 4:
            emit_longest_cells(w, overview, slots, 4, low, high)
        elif overview.stride == 8:
            emit_longest_cells(w, overview, slots, 8, low, high)
        else:
            emit_longest_cells(w, overview, slots, overview.stride, low, high)
    elif overview.stride == 4:
        emit_all_cells(w, overview, slots, 4, low, high)
    elif overview.stride == 8:
        emit_all_cells(w, overview, slots, 8, low, high)
    else:
        emit_all_cells(w, overview, slots, overview.stride, low, high)


cdef inline bint state_before(const State* one, const State* other, bint floats) noexcept nogil:
    """Whether a value comes before another one in a cell, as `before` and slots have it."""
    cdef int64_t word = one.word, other_word = other.word
    if one.meta & 1 or other.meta & 1:
        return one.meta & 1 and not other.meta & 1
    if floats and word < 0:
        word ^= INT64_MAX
    if floats and other_word < 0:
        other_word ^= INT64_MAX
    return word < other_word


cdef int value_index(State* values, int32_t* count, const State* state) noexcept nogil:
    """The index of a state's value, maybe new; -1 if there are too many."""
    cdef int i
    for i in range(count[0]):
        if values[i].word == state.word and values[i].meta == (state.meta & 1):
            return i
    if count[0] == FEW:
        return -1
    values[count[0]].word = state.word
    values[count[0]].meta = state.meta & 1
    count[0] += 1
    return count[0] - 1


@final
cdef class Totals:
    """How long attributes had each of their values where segments begin, since their first row.

    They are those of segments `first` to `last`, whose rows are there. Sums up to any time follow
    from them and one run of rows. The totals of an attribute are computed when it is first asked
    for, and take at most a quarter of the bytes of its rows: those of one with few changes are
    taken only at every 2nd, 4th and so on segment.
    """

    def __cinit__(self, Segments segments, Py_ssize_t first, Py_ssize_t last):
        self._segments = segments
        self.first, self.last = first, last
        self._quarks = segments._first.shape[0]
        self._known = np.zeros(self._quarks, np.uint8)
        self._of = <LaneTotals**>calloc(self._quarks + 1, sizeof(LaneTotals*))
        if self._of == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._of != NULL:
            for i in range(self._quarks):
                free_totals(self._of[i])
        free(self._of)

    cdef bint write_cells(self, Work* w, Segments segments, int32_t quark) noexcept nogil:
        """Write all cells of one attribute, if that is faster than by its rows; False otherwise."""
        cdef const LaneTotals* totals = self._totals_of(quark)
        return totals != NULL and (
            by_overview(w, segments, totals, quark, self.first)
            or by_sums(w, segments, totals, quark, self.first)
        )

    cdef const LaneTotals* _totals_of(self, int32_t quark) noexcept nogil:
        return self._of[quark] if quark < self._quarks else NULL

    def prepare(self, const int32_t[::1] quarks, const uint8_t[::1] kinds, Bins bins):
        """Compute the totals of attributes of these types, and the overviews for these bins.

        The caller lets one thread do it.
        """
        self._add_totals(quarks, kinds)
        self._add_overviews(quarks, &bins.w)

    cdef _add_overviews(self, const int32_t[::1] quarks, const Work* asked):
        """Compute the overviews of attributes that help to answer a query."""
        cdef int64_t begin, end
        cdef uint64_t part = <uint64_t>asked.edges[asked.bins] - <uint64_t>asked.edges[0]
        cdef Py_ssize_t i
        cdef int shift
        cdef LaneTotals* totals
        if asked.shift < 0:
            return
        begin = self._segments._segments[self.first].base_ns
        end = self._segments.end_ns
        if self.last + 1 < self._segments._count:
            end = self._segments._segments[self.last + 1].base_ns
        if part < (<uint64_t>end - <uint64_t>begin) // _OVERVIEW_PART:
            return
        self._add_overviews_at(quarks, asked.shift, asked.wide, begin, end)
        if asked.wide:
            return
        # For edges that none has, the finest one, once as many have been asked for as it has.
        shifts = set()
        for i in range(quarks.shape[0]):
            totals = self._of[quarks[i]] if quarks[i] < self._quarks else NULL
            if totals == NULL or overview_of(totals, asked.shift, False) != NULL:
                continue
            shift = asked.shift
            while shift < 62 and not affords(totals, (end >> shift) - (begin >> shift), False):
                shift += 1
            totals.asked += asked.bins
            if totals.asked >= (end >> shift) - (begin >> shift):
                shifts.add(shift)
        for shift in sorted(shifts):
            self._add_overviews_at(quarks, shift, False, begin, end)

    cdef _add_overviews_at(
        self, const int32_t[::1] quarks, int shift, bint wide, int64_t begin, int64_t end
    ):
        """Compute the overviews of attributes with multiples of 2^shift, unless those are many."""
        cdef int64_t low = (begin >> shift) + 1
        cdef Py_ssize_t i, count = ((end - 1) >> shift) - low + 1, wanted = 0
        cdef Bins bins
        cdef bint failed = False
        if count < OVERVIEWED:
            return
        for i in range(quarks.shape[0]):
            wanted += wants(self._totals_of(quarks[i]), shift, wide, count)
        if not wanted:
            return
        bins = Bins(np.arange(low, low + count, dtype=np.int64) << shift)
        bins.make_index(self._segments, self.first, self.last)
        bins.find_segments(self._segments)
        with nogil:
            for i in range(quarks.shape[0]):
                if wants(self._totals_of(quarks[i]), shift, wide, count):
                    failed = not self._add_overview(
                        &bins.w, self._of[quarks[i]], quarks[i], shift, wide, low
                    )
                    if failed:
                        break
        if failed:
            raise MemoryError

    cdef bint _add_overview(
        self, Work* w, LaneTotals* totals, int32_t quark, int shift, bint wide, int64_t low
    ) noexcept nogil:
        """Compute the overview of one attribute, unless its sums do not help."""
        cdef Overview* overview
        cdef int64_t counted = 0
        cdef Py_ssize_t count = w.bins + 1, size
        if not open_stops(w, self._segments, totals, quark, self.first, 0, w.bins):
            totals.without = True
            return True
        overview = <Overview*>calloc(1, sizeof(Overview))
        if overview == NULL:
            return False
        overview.shift = shift
        overview.wide = wide
        overview.stride = stride_of(totals)
        overview.first = low
        overview.count = count
        while overview.known < count and w.edges[overview.known] < totals.origin:
            overview.known += 1
        size = count * overview.stride
        overview.changes = <uint32_t*>malloc(count * sizeof(uint32_t))
        if overview.wide:
            overview.ns64 = <uint64_t*>malloc(size * sizeof(uint64_t))
        else:
            overview.ns32 = <uint32_t*>calloc(size, sizeof(uint32_t))
        if overview.changes == NULL or (overview.ns64 == NULL and overview.ns32 == NULL):
            free_overview(overview)
            return False
        if not sum_edges(
            w, self._segments, totals, NULL, NULL, 0, w.bins, &counted, 0, NULL, overview
        ):
            free_overview(overview)
            totals.without = True
            return True
        overview.next = totals.overview
        totals.overview = overview
        self.size_bytes += count * (overview.stride * (8 if overview.wide else 4) + 4)
        return True

    cdef _add_totals(self, const int32_t[::1] quarks, const uint8_t[::1] kinds):
        cdef Py_ssize_t i, count = self.last - self.first + 1
        cdef uint8_t* index_of
        cdef int64_t* ns
        cdef bint failed = False
        wanted = False
        for i in range(quarks.shape[0]):
            if quarks[i] < self._quarks and not self._known[quarks[i]]:
                wanted = True
                break
        if not wanted:
            return
        index_of = <uint8_t*>calloc(CODES, 1)
        ns = <int64_t*>malloc((count + 1) * (FEW + 3) * sizeof(int64_t))
        if index_of == NULL or ns == NULL:
            free(index_of)
            free(ns)
            raise MemoryError
        with nogil:
            for i in range(quarks.shape[0]):
                if quarks[i] < self._quarks and not self._known[quarks[i]]:
                    self._known[quarks[i]] = 1
                    failed = not self._add_total(
                        self._segments, quarks[i], kinds[i] == FLOAT, index_of, ns
                    )
                    if failed:
                        break
        free(index_of)
        free(ns)
        if failed:
            raise MemoryError

    cdef bint _add_total(
        self, Segments segments, int32_t quark, bint floats, uint8_t* index_of, int64_t* ns
    ) noexcept nogil:
        """Compute the totals of one attribute, unless it has too many values or too few changes.

        `ns` has room for each segment's totals, and for three more numbers of each.
        """
        cdef Py_ssize_t count = self.last - self.first + 1, k, run, entry, row, near = 0
        cdef Py_ssize_t groups, group, blocks, first, end
        cdef int64_t* at_of = ns + count * FEW
        cdef int64_t* changes_of = at_of + count
        cdef int64_t* last_of = changes_of + count
        cdef int64_t[64] sums
        cdef State[64] values
        cdef uint8_t[64] order, place
        cdef State state
        cdef Segment* s
        cdef Sums until
        cdef int[64] index
        cdef int32_t known = 0, i, last = NO_VALUE, shift = 0
        cdef int64_t at = 0, changes = 0, rows = 0, time, origin = 0
        cdef const uint32_t* fields
        cdef LaneTotals* totals
        cdef Plan plan
        first = max(self.first, segments._first[quark])
        end = min(self.last, segments._last[quark]) + 1 if segments._first[quark] >= 0 else first
        for k in range(first, end):
            run = find_run(&segments._segments[k], quark, near)
            if run >= 0:
                near = run
                rows += segments._segments[k].offsets[run + 1] - segments._segments[k].offsets[run]
        if rows < _TOTALLED:
            return True
        near = 0
        memset(sums, 0, sizeof(sums))
        for k in range(count):
            memcpy(ns + k * FEW, sums, sizeof(sums))
            at_of[k] = at
            changes_of[k] = changes
            last_of[k] = last
            if not first <= self.first + k < end:
                continue
            s = &segments._segments[self.first + k]
            run = find_run(s, quark, near)
            if run < 0 or s.offsets[run] == s.offsets[run + 1]:
                continue
            near = run
            row = s.offsets[run]
            time = row_time(s, row)
            if last == NO_VALUE:
                origin = time
            else:
                sums[last] += time - at
            at = time
            changes += 1
            entry = timed_entry(s, run)
            if entry >= 0:
                at = row_time(s, s.offsets[run + 1] - 1)
                fields = s.values + s.value_offset[entry]
                memset(index, 0, sizeof(index))
                for i in range(<int32_t>(s.value_offset[entry + 1] - s.value_offset[entry])):
                    state.meta = 0
                    set_value(s, run, 0, fields[i], &state)
                    index[i] = value_index(values, &known, &state)
                    if index[i] < 0:
                        return True
                    if fields[i] < CODES:
                        index_of[fields[i]] = <uint8_t>i
                blocks = (s.offsets[run + 1] - row - 1) >> s.step[entry]
                plan.block = blocks
                plan.before = True
                sums_at(
                    s, index_of, run, entry, <uint64_t>at - <uint64_t>s.base_ns, &plan, &until
                )
                for i in range(<int32_t>(s.value_offset[entry + 1] - s.value_offset[entry])):
                    sums[index[i]] += <int64_t>until.ns[i]
                # Runs in which a row replaces another have no times.
                changes += s.offsets[run + 1] - row - 1
                row = s.offsets[run + 1] - 1
            while row < s.offsets[run + 1]:
                row_state(s, run, row, &state)
                if state.start != at:
                    sums[last] += state.start - at
                    changes += 1
                at = state.start
                last = value_index(values, &known, &state)
                if last < 0:
                    return True
                row += 1
        # 8 bytes per value and group, and some 50 more, against 5 bytes or so per row.
        while (count >> shift) * (8 * known + 50) * 4 > 5 * rows:
            shift += 1
            if (count - 1) >> shift == 0:
                return True
        groups = (count - 1) >> shift
        for i in range(known):
            row = i
            while row > 0 and state_before(&values[i], &values[order[row - 1]], floats):
                order[row] = order[row - 1]
                row -= 1
            order[row] = <uint8_t>i
        for i in range(known):
            place[order[i]] = <uint8_t>i
        totals = <LaneTotals*>calloc(1, sizeof(LaneTotals))
        if totals == NULL:
            return False
        totals.shift = shift
        totals.values = known
        totals.groups = groups
        totals.origin = origin
        totals.rows = rows
        totals.value = <State*>malloc(known * sizeof(State))
        totals.ns = <int64_t*>malloc((groups + 1) * known * sizeof(int64_t))
        totals.at = <int64_t*>malloc((groups + 1) * sizeof(int64_t))
        totals.changes = <int64_t*>malloc((groups + 1) * sizeof(int64_t))
        totals.last = <uint8_t*>malloc(groups + 1)
        if shift == 0:
            totals.spots = <Spot*>malloc((groups + 1) * sizeof(Spot))
        if (
            totals.value == NULL or totals.ns == NULL or totals.at == NULL
            or totals.changes == NULL or totals.last == NULL
            or (totals.spots == NULL and shift == 0)
        ):
            free_totals(totals)
            return False
        for i in range(known):
            totals.value[i] = values[order[i]]
        for group in range(groups + 1):
            k = group << shift
            for i in range(known):
                totals.ns[group * known + i] = ns[k * FEW + order[i]]
            totals.at[group] = at_of[k]
            totals.changes[group] = changes_of[k]
            if shift == 0:
                describe(
                    totals, &segments._segments[self.first + k], quark, quark, &totals.spots[k]
                )
            totals.last[group] = place[last_of[k]] if last_of[k] != NO_VALUE else NO_VALUE
        self.size_bytes += (groups + 1) * (8 * known + 17 + (sizeof(Spot) if shift == 0 else 0))
        self._of[quark] = totals
        return True


cdef inline int stride_of(const LaneTotals* totals) noexcept nogil:
    """How many numbers an edge of an overview has: few cross a cache line."""
    return (totals.values + 3) & ~3


cdef inline bint affords(const LaneTotals* totals, int64_t count, bint wide) noexcept nogil:
    """Whether an overview of so many edges takes at most a quarter of the bytes of the rows."""
    # Divided, as the product of a number of edges may exceed 64 bits.
    return count <= _ROW_BYTES * totals.rows // (4 * (stride_of(totals) * (8 if wide else 4) + 4))


cdef inline bint wants(
    const LaneTotals* totals, int shift, bint wide, Py_ssize_t count
) noexcept nogil:
    """Whether an attribute can have an overview that it does not have."""
    return (
        totals != NULL and not totals.without and overview_of(totals, shift, wide) == NULL
        and affords(totals, count, wide)
    )


cdef void free_overview(Overview* overview) noexcept nogil:
    free(overview.ns32)
    free(overview.ns64)
    free(overview.changes)
    free(overview)


cdef void free_totals(LaneTotals* totals) noexcept nogil:
    cdef Overview* overview
    if totals != NULL:
        while totals.overview != NULL:
            overview = totals.overview
            totals.overview = overview.next
            free_overview(overview)
        free(totals.value)
        free(totals.ns)
        free(totals.at)
        free(totals.spots)
        free(totals.changes)
        free(totals.last)
        free(totals)
