"""Pyramids over the rows of segments: the totals of whole blocks of rows, and sums made of them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from meantime.kernels.search cimport (
    Cursor,
    Segment,
    Segments,
    State,
    entry_of,
    find_run,
    first_after,
    published_count,
    row_payload,
    row_state,
    row_time,
    set_value,
)

cdef extern from "numbers.h":
    ctypedef struct numbers_of:
        int floats
        int some
        int64_t low
        int64_t high
        double sum
        double rest
        double magnitude
    void numbers_item(numbers_of*, int64_t, uint64_t) noexcept nogil
    void numbers_cell(
        numbers_of*, int, int64_t, int64_t, const int64_t*, double
    ) noexcept nogil
    void numbers_sums(const numbers_of*, int64_t*) noexcept nogil
    void numbers_clear(numbers_of*, int) noexcept nogil
    double numbers_least(const numbers_of*) noexcept nogil
    double numbers_greatest(const numbers_of*) noexcept nogil
    double numbers_total(const numbers_of*) noexcept nogil

cdef enum:
    INT = 2
    FLOAT = 3
    STORED = 3
    # A block has at least 64 rows, and a cell sums up 64 rows, or 64 cells of the level below.
    SHIFT = 6
    VALUES = 64
    # Segments with longer codes get no times: the table by code would not fit into the cache.
    CODE_BITS = 22
    # The sums of a run take at most a sixth of its rows' bytes. `build` allocates by this bound.
    SHARE = 6
    # Numbers have no cells where blocks of times have at most 2^9 rows.
    CELLS_STEP = 9
    LAST_STEP = 20
    # More than a run's entries in the index; those of a cell: some, low, high, sums, magnitude.
    RUN_BYTES = 24
    CELL_BYTES = 41


cdef inline bint numeric(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Whether the values of a run are numbers; of an attribute without values, not yet known."""
    return s.form != NULL and s.form[run] != 0


cdef Py_ssize_t count_cells(Py_ssize_t rows) noexcept nogil:
    """How many cells a run has; only whole cells count, on every level."""
    # The last row lasts beyond the run, so it is in no cell. `_cells_fault` counts the same way.
    cdef Py_ssize_t level = (rows - 1) >> SHIFT, cells = 0
    while level > 0:
        cells += level
        level >>= SHIFT
    return cells


cdef Py_ssize_t time_blocks(
    const Segment* s, Py_ssize_t run, uint8_t* index_of, uint64_t* sums, uint8_t* known,
    uint32_t* fields, uint8_t* order,
) noexcept nogil:
    """Sum the time per value up to where each block of 64 rows begins; return how many values.

    Returns 0 if there are too many values, or if a row replaces the one before it. `index_of` has
    by field its index in `fields`, plus one, and is all zeros before and after. Each block has
    `VALUES` sums, of which the first `known[block]` are used. `order` has the indices of the values
    in ascending order of their fields.
    """
    cdef Py_ssize_t row, begin = s.offsets[run], end = s.offsets[run + 1], values = 0, block = 0, i
    cdef uint64_t[64] ns
    cdef int64_t time, after = row_time(s, begin)
    cdef uint32_t field
    cdef int index
    cdef bint whole = True
    memset(ns, 0, sizeof(ns))
    for row in range(begin, end - 1):
        if row > begin and (row - begin) & 63 == 0:
            known[block] = <uint8_t>values
            for i in range(values):
                sums[block * VALUES + i] = ns[i]
            block += 1
        time = after
        after = row_time(s, row + 1)
        field = <uint32_t>(row_payload(s, row) & s.code_mask)
        index = index_of[field]
        if index == 0:
            if values == VALUES:
                whole = False
                break
            fields[values] = field
            values += 1
            index_of[field] = index = <uint8_t>values
        if after == time:
            # `differ` in shares_rows.pyx counts each row of a block as a change, but this one is not.
            whole = False
            break
        ns[index - 1] += <uint64_t>after - <uint64_t>time
    # The loop ends before the last row, at which another block may begin.
    row = end - 1 - begin
    if whole and row & 63 == 0:
        known[block] = <uint8_t>values
        for i in range(values):
            sums[block * VALUES + i] = ns[i]
        block += 1
    # The table can have 4 million entries: clear those that were used, not all for each run.
    for i in range(values):
        index_of[fields[i]] = 0
        row = i
        while row > 0 and fields[order[row - 1]] > fields[i]:
            order[row] = order[row - 1]
            row -= 1
        order[row] = <uint8_t>i
    return values if whole else 0


cdef inline int step_within(
    Py_ssize_t rows, Py_ssize_t values, int time_bytes, Py_ssize_t budget
) noexcept nogil:
    """The binary logarithm of the rows of a block, so that the sums take at most so many bytes."""
    cdef int step = SHIFT
    # Take fewer, longer blocks until the sums fit.
    while step < LAST_STEP and (
        ((rows - 1) >> step) * values * time_bytes + 4 * values + RUN_BYTES > budget
    ):
        step += 1
    return step


def build(
    Segments segments, Py_ssize_t index, const uint8_t[::1] kinds, int64_t last_ns
) -> dict[str, npt.NDArray[Any]]:
    """Return a segment's pyramid, as the arguments of `Segments.attach`.

    `kinds` has by quark the type of its values; `last_ns` is when the segment's last change was.
    """
    cdef Segment* s = &segments._segments[index]
    cdef Py_ssize_t run, rows, values, i, j, cells, level, below, first, block, blocks, begin
    cdef Py_ssize_t timed = 0, celled = 0, value_count = 0, time_count = 0, cell_count = 0
    cdef Py_ssize_t longest = 0, budget, changes = s.offsets[s.runs]
    cdef int step
    # No value lasts longer than the segment, so its length decides the width of all sums.
    cdef bint short = <uint64_t>last_ns - <uint64_t>s.base_ns < <uint64_t>1 << 32
    cdef int time_bytes = 4 if short else 8
    cdef int row_bytes = s.width + (8 if s.payload != NULL else 0)
    cdef numbers_of numbers
    cdef State state
    cdef int64_t after
    cdef Py_ssize_t room = 0
    for run in range(s.runs):
        longest = max(longest, <Py_ssize_t>(s.offsets[run + 1] - s.offsets[run]))
    timed_run_array, celled_run_array = np.empty(s.runs, np.int32), np.empty(s.runs, np.int32)
    step_array = np.empty(s.runs, np.uint8)
    value_offset_array, time_offset_array, cell_offset_array = [
        np.zeros(s.runs + 1, np.uint32) for _ in range(3)
    ]
    # Each run stays within its budget below, so all of them together fit into these arrays.
    most = changes * row_bytes // SHARE + 1
    values_array = np.empty(most // 4, np.uint32)
    times_array = np.empty(most // time_bytes, np.uint32 if short else np.uint64)
    for run in range(s.runs):
        if numeric(s, run) and s.offsets[run + 1] > s.offsets[run]:
            room += count_cells(s.offsets[run + 1] - s.offsets[run])
    some_array = np.empty(room, np.uint8)
    low_array, high_array = np.empty(room, np.int64), np.empty(room, np.int64)
    sums_array, magnitude_array = np.empty(2 * room, np.int64), np.empty(room)
    cdef int32_t[::1] timed_run = timed_run_array, celled_run = celled_run_array
    cdef uint8_t[::1] steps = step_array, some = some_array
    cdef uint32_t[::1] value_offset = value_offset_array, time_offset = time_offset_array
    cdef uint32_t[::1] cell_offset = cell_offset_array, value = values_array, times32
    cdef uint64_t[::1] times64
    cdef int64_t[::1] low = low_array, high = high_array, sums_of = sums_array
    cdef double[::1] magnitude = magnitude_array
    if short:
        times32 = times_array
    else:
        times64 = times_array
    cdef uint8_t* index_of = NULL
    if s.code_bits <= CODE_BITS:
        index_of = <uint8_t*>calloc(<size_t>1 << s.code_bits, 1)
    cdef uint64_t* sums = <uint64_t*>malloc(((longest >> SHIFT) + 1) * VALUES * sizeof(uint64_t))
    cdef uint8_t* known = <uint8_t*>malloc((longest >> SHIFT) + 1)
    cdef uint32_t[64] fields
    cdef uint8_t[64] order
    if sums == NULL or known == NULL or (index_of == NULL and s.code_bits <= CODE_BITS):
        free(index_of)
        free(sums)
        free(known)
        raise MemoryError
    with nogil:
        for run in range(s.runs):
            begin = s.offsets[run]
            rows = s.offsets[run + 1] - begin
            if rows <= 64:
                continue
            budget = rows * row_bytes // SHARE
            # The code of a stored number is always 1, so its values cannot be distinguished.
            values = 0
            if index_of != NULL and not (s.form != NULL and s.form[run] == STORED):
                values = time_blocks(s, run, index_of, sums, known, fields, order)
            step = step_within(rows, values, time_bytes, budget) if values else LAST_STEP
            # The extremes and the sum of numbers follow from how long each value lasted, unless the
            # blocks would be too long.
            if (
                step > CELLS_STEP and numeric(s, run)
                and count_cells(rows) * CELL_BYTES + RUN_BYTES <= budget
            ):
                cells = count_cells(rows)
                celled_run[celled] = <int32_t>run
                # The lowest level sums up rows, each of which lasts until the next one.
                after = row_time(s, begin)
                for block in range((rows - 1) >> SHIFT):
                    numbers_clear(&numbers, kinds[s.quarks[run]] == FLOAT)
                    for i in range(begin + 64 * block, begin + 64 * block + 64):
                        row_state(s, run, i, &state)
                        after = row_time(s, i + 1)
                        if after > state.start and not state.meta & 1:
                            numbers_item(
                                &numbers, state.word, <uint64_t>after - <uint64_t>state.start
                            )
                    j = cell_count + block
                    some[j] = numbers.some
                    low[j] = numbers.low
                    high[j] = numbers.high
                    numbers_sums(&numbers, &sums_of[2 * j])
                    magnitude[j] = numbers.magnitude
                level = (rows - 1) >> SHIFT
                below = cell_count
                while level >> SHIFT > 0:
                    for block in range(level >> SHIFT):
                        numbers_clear(&numbers, kinds[s.quarks[run]] == FLOAT)
                        for i in range(below + 64 * block, below + 64 * block + 64):
                            numbers_cell(
                                &numbers, some[i], low[i], high[i], &sums_of[2 * i], magnitude[i]
                            )
                        j = below + level + block
                        some[j] = numbers.some
                        low[j] = numbers.low
                        high[j] = numbers.high
                        numbers_sums(&numbers, &sums_of[2 * j])
                        magnitude[j] = numbers.magnitude
                    below += level
                    level >>= SHIFT
                cell_count += cells
                celled += 1
                cell_offset[celled] = <uint32_t>cell_count
                budget -= cells * CELL_BYTES + RUN_BYTES
                if values:
                    step = step_within(rows, values, time_bytes, budget)
            blocks = (rows - 1) >> step
            if values == 0 or blocks == 0:
                continue
            timed_run[timed] = <int32_t>run
            steps[timed] = step
            for i in range(values):
                value[value_count + i] = fields[order[i]]
            value_count += values
            for block in range(1, blocks + 1):
                # No sums were made for block 0, so those of block b of 64 rows are at b - 1.
                first = (block << (step - SHIFT)) - 1
                for i in range(values):
                    j = order[i]
                    if short:
                        times32[time_count] = (
                            <uint32_t>sums[first * VALUES + j] if j < known[first] else 0
                        )
                    else:
                        times64[time_count] = sums[first * VALUES + j] if j < known[first] else 0
                    time_count += 1
            timed += 1
            value_offset[timed] = <uint32_t>value_count
            time_offset[timed] = <uint32_t>time_count
    free(index_of)
    free(sums)
    free(known)
    return {
        "timed_run": timed_run_array[:timed],
        "step": step_array[:timed],
        "value_offset": value_offset_array[:timed + 1],
        "values": values_array[:value_count],
        "time_offset": time_offset_array[:timed + 1],
        "times": times_array[:time_count],
        "celled_run": celled_run_array[:celled],
        "cell_offset": cell_offset_array[:celled + 1],
        "some": some_array[:cell_count],
        "low": low_array[:cell_count],
        "high": high_array[:cell_count],
        "sums": sums_array[:2 * cell_count],
        "magnitude": magnitude_array[:cell_count],
    }


cdef void take_times(
    numbers_of* numbers, const Segment* s, Py_ssize_t run, Py_ssize_t entry, Py_ssize_t first,
    Py_ssize_t last,
) noexcept nogil:
    """Add the states that begin in blocks [first, last) of a run, each value as one."""
    cdef int i, values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    cdef Py_ssize_t index
    cdef uint64_t ns
    cdef State state
    for i in range(values):
        index = s.time_offset[entry] + (last - 1) * values + i
        ns = s.times32[index] if s.times32 != NULL else s.times64[index]
        if first:
            index -= (last - first) * values
            ns -= s.times32[index] if s.times32 != NULL else s.times64[index]
        state.meta = 0
        # The row is only used for stored numbers, and their runs have no times (`pyramid_fault`).
        set_value(s, run, 0, s.values[s.value_offset[entry] + i], &state)
        if ns and not state.meta & 1:
            numbers_item(numbers, state.word, ns)


cdef void take_rows(
    numbers_of* numbers, const Segment* s, Py_ssize_t run, Py_ssize_t low, Py_ssize_t high,
    int64_t* read,
) noexcept nogil:
    """Add the states that begin at rows [low, high) of a run, none of which is its last row."""
    cdef Py_ssize_t begin = s.offsets[run], row = low - begin, end = high - begin, entry = -1
    cdef Py_ssize_t first, level, rows = s.offsets[run + 1] - begin, cell
    cdef Py_ssize_t celled = published_count(&s.celled)
    cdef Py_ssize_t timed = published_count(&s.timed)
    cdef int shift
    cdef State state
    cdef int64_t after
    if celled and end - row >= 64:
        entry = entry_of(s.celled_run, celled, run)
    if entry < 0 and timed and end - row >= 64:
        cell = entry_of(s.timed_run, timed, run)
        if cell >= 0:
            first = (row + (<Py_ssize_t>1 << s.step[cell]) - 1) >> s.step[cell]
            level = end >> s.step[cell]
            if level > first:
                take_rows(numbers, s, run, low, begin + (first << s.step[cell]), read)
                take_times(numbers, s, run, cell, first, level)
                row = level << s.step[cell]
    while row < end:
        if entry >= 0 and row & 63 == 0 and row + 64 <= end:
            # The highest level that has a cell that begins here and does not end after `end`.
            shift = SHIFT
            first = s.cell_offset[entry]
            level = (rows - 1) >> SHIFT
            while (
                row & ((<Py_ssize_t>1 << (shift + SHIFT)) - 1) == 0
                and row + (<Py_ssize_t>1 << (shift + SHIFT)) <= end
            ):
                first += level
                level >>= SHIFT
                shift += SHIFT
            cell = first + (row >> shift)
            numbers_cell(
                numbers, s.some[cell], s.low[cell], s.high[cell], &s.sums[2 * cell],
                s.magnitude[cell],
            )
            row += <Py_ssize_t>1 << shift
            continue
        row_state(s, run, begin + row, &state)
        after = row_time(s, begin + row + 1)
        if after > state.start and not state.meta & 1:
            numbers_item(numbers, state.word, <uint64_t>after - <uint64_t>state.start)
        row += 1
        read[0] += 1


cdef void take_state(
    numbers_of* numbers, const State* state, int64_t start, int64_t end
) noexcept nogil:
    if end > start and not state.meta & 1:
        numbers_item(numbers, state.word, <uint64_t>end - <uint64_t>start)


cdef void measure_range(
    Segments segments, int32_t quark, int64_t start, int64_t end, numbers_of* numbers, int64_t* read
) noexcept nogil:
    """Add the numbers that an attribute had in [start, end), which meets no gap."""
    cdef State state
    cdef Cursor cursor
    cdef Segment* s
    cdef Py_ssize_t k, run, low, high, first, last, end_segment, near = 0
    cdef int64_t at = start
    # `state` is always the one that still lasts: it is added once its end is found.
    segments.locate(quark, start, &state, &cursor)
    first = max(0, segments.segment_at(start))
    end_segment = segments.segment_at(end - 1)
    last = -1
    if quark < segments._first.shape[0] and segments._first[quark] >= 0:
        first = max(first, segments._first[quark])
        last = min(end_segment, segments._last[quark])
    for k in range(first, last + 1):
        s = &segments._segments[k]
        run = find_run(s, quark, near)
        if run < 0:
            continue
        near = run
        low = s.offsets[run]
        high = s.offsets[run + 1]
        if low == high:
            continue
        if start >= s.base_ns:
            low = first_after(s, low, high, start)
        if k == end_segment:
            high = first_after(s, low, high, end - 1)
        if low == high:
            continue
        take_state(numbers, &state, at, row_time(s, low))
        take_rows(numbers, s, run, low, high - 1, read)
        row_state(s, run, high - 1, &state)
        at = state.start
    take_state(numbers, &state, at, end)


def measure(
    Segments segments, int32_t quark, int kind, int64_t start, int64_t end
) -> tuple[bool, int, int, tuple[int, int], float, int]:
    """Measure the numbers that an attribute had in [start, end), which meets no gap.

    Returns:
        Whether there is one that is not NaN; the words of the least and of the greatest; the sum of
        each times its time as two words, the halves of an integer or doubles to be added; the sum
        of doubles without their signs; and how many rows were read one by one.
    """
    cdef numbers_of numbers
    cdef int64_t read = 0
    cdef int64_t[2] sums
    numbers_clear(&numbers, kind == FLOAT)
    with nogil:
        measure_range(segments, quark, start, end, &numbers, &read)
    numbers_sums(&numbers, sums)
    return (
        bool(numbers.some), numbers.low, numbers.high, (sums[0], sums[1]), numbers.magnitude, read
    )


def measure_bins(
    Segments segments, const int32_t[::1] quarks, const uint8_t[::1] kinds,
    const int64_t[::1] edges, double[:, ::1] least, double[:, ::1] greatest, double[:, ::1] mean
) -> int:
    """Measure the numbers of attributes of these types in each bin; return how many rows were read.

    Bins without numbers are not written.
    """
    cdef numbers_of numbers
    cdef int64_t read = 0
    cdef Py_ssize_t i, j
    cdef double width
    with nogil:
        for i in range(quarks.shape[0]):
            if kinds[i] != INT and kinds[i] != FLOAT:
                continue
            for j in range(edges.shape[0] - 1):
                if edges[j + 1] <= edges[j]:
                    continue
                numbers_clear(&numbers, kinds[i] == FLOAT)
                measure_range(segments, quarks[i], edges[j], edges[j + 1], &numbers, &read)
                if not numbers.some:
                    continue
                least[i, j] = numbers_least(&numbers)
                greatest[i, j] = numbers_greatest(&numbers)
                width = <double>(<uint64_t>edges[j + 1] - <uint64_t>edges[j])
                mean[i, j] = numbers_total(&numbers) / width
    return read
