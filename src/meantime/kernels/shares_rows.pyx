"""Time per value and bin from rows, or from the sums that the pyramid of a run has of them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from meantime.kernels.search cimport (
    Cursor,
    Segment,
    Segments,
    State,
    find_run,
    first_after,
    load_row,
    published_count,
    row_state,
    row_time,
    set_value,
)
from meantime.kernels.shares_cells cimport add, advance, emit_sums, flush, slot_of
from meantime.kernels.shares_state cimport (
    BITS,
    INTEGERS,
    LIST,
    LISTED,
    PLANS,
    SUMS_AHEAD,
    WORD,
    Plan,
    Sums,
    Used,
    Work,
    prefetch,
    relative_time,
    row_field,
    timed_entry,
)

cdef enum:
    # How far ahead rows are fetched. A prefetch beyond the rows does not fault.
    _AHEAD_BYTES = 1024
    # So many rows are read faster than the sums at the two edges of a bin.
    _NEAR = 16


cdef inline bint has_codes(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Whether the rows of a run have the codes of strings, or of integers from an origin on."""
    return s.payload == NULL and (s.form == NULL or s.form[run] <= INTEGERS)


cdef inline int32_t code_shift(const Work* w, const Segment* s, Py_ssize_t run) noexcept nogil:
    """What to add to the code of a row to get its slot, unless it is null."""
    if s.form == NULL or s.form[run] == 0:
        return 0
    return <int32_t>(<uint64_t>s.origin[run] - <uint64_t>w.low)


cdef inline void walk(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t low, Py_ssize_t high,
    Used used, bint inline_codes,
) noexcept nogil:
    """Add the changes of rows [low, high) of a run.

    `used` and `inline_codes` are constants in each call, so the compiler makes a loop for each
    combination. Fields of `w` are locals within it, for the reason in `emit_few`, and are written
    back before `advance`, which uses and changes them.
    """
    cdef Py_ssize_t row
    cdef uint64_t packed, base = <uint64_t>s.base_ns, row_mask = s.row_mask
    cdef uint64_t code_mask = s.code_mask, few = w.few
    cdef int width = s.width, payload_bits = s.payload_bits
    cdef const uint8_t* rows = s.rows + low * width
    cdef int64_t time, at = w.at, stop = w.stop
    cdef int64_t* tally = w.ns
    cdef int32_t slot = w.slot, next_slot, changes = w.changes
    # A code in a row is the distance to its run's origin, plus one; that of a slot, to the lowest.
    cdef int32_t shift = code_shift(w, s, run) if inline_codes else 0
    cdef State state
    for row in range(low, high):
        if inline_codes:
            prefetch(rows + _AHEAD_BYTES)
            packed = load_row(rows, 0, 0, row_mask)
            rows += width
            time = <int64_t>(base + (packed >> payload_bits))
            next_slot = <int32_t>(packed & code_mask)
            next_slot = next_slot + shift if next_slot else 0
        else:
            row_state(s, run, row, &state)
            time = state.start
            next_slot = slot_of(w, &state)
            tally = w.ns
        if time >= stop:
            w.at = at
            w.slot = slot
            w.changes = changes
            w.few = few
            advance(w, time, used)
            at = w.at
            stop = w.stop
            if time > at:
                add(w, slot, time - at, used)
            few = w.few
            changes = 1
            at = time
            slot = next_slot
            continue
        # If no time has passed, this replaces the change before, which had no length. For one word
        # the bit is set all the same, since a branch here costs more than skipping it later.
        if used == WORD:
            few |= <uint64_t>1 << slot
            tally[slot] += time - at
        elif time > at:
            add(w, slot, time - at, used)
        changes += time != at
        at = time
        slot = next_slot
    w.at = at
    w.slot = slot
    w.changes = changes
    w.few = few


cdef void walk_any(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t low, Py_ssize_t high, Used used
) noexcept nogil:
    if used == LIST:
        walk(w, s, run, low, high, LIST, False)
    elif not has_codes(s, run):
        walk(w, s, run, low, high, used, False)
    elif used == WORD:
        walk(w, s, run, low, high, WORD, True)
    else:
        walk(w, s, run, low, high, BITS, True)


cdef inline uint64_t block_time(
    const Segment* s, Py_ssize_t entry, Py_ssize_t block
) noexcept nogil:
    """When a block begins, since the first row of its run: that is the sum of all durations."""
    cdef Py_ssize_t values = s.value_offset[entry + 1] - s.value_offset[entry], i
    cdef Py_ssize_t first = s.time_offset[entry] + (block - 1) * values
    cdef uint64_t time = 0
    if block == 0:
        return 0
    if s.times32 != NULL:
        for i in range(first, first + values):
            time += s.times32[i]
    else:
        for i in range(first, first + values):
            time += s.times64[i]
    return time


cdef Py_ssize_t block_at(
    const Segment* s, Py_ssize_t entry, Py_ssize_t blocks, uint64_t since, uint64_t length
) noexcept nogil:
    """The last block that begins before a time since the first row, or the first block.

    Only the sums are read, not the rows, which are further apart. `length` is how long the run
    lasts; most changes are about evenly distributed, so the guess is often right.
    """
    cdef Py_ssize_t low, high, jump = 1, middle
    low = <Py_ssize_t>(<double>since / (<double>length + 1) * <double>(blocks + 1))
    if low > blocks:
        low = blocks
    # `low` begins before the time, and `high` does not.
    if low and block_time(s, entry, low) >= since:
        high = low
        low -= 1
        while low > 0 and block_time(s, entry, low) >= since:
            high = low
            low = max(0, low - jump)
            jump *= 2
    else:
        high = low + 1
        while high <= blocks and block_time(s, entry, high) < since:
            low = high
            high += jump
            jump *= 2
        high = min(high, blocks + 1)
    while high - low > 1:
        middle = low + (high - low) // 2
        if block_time(s, entry, middle) < since:
            low = middle
        else:
            high = middle
    return low


cdef inline void plan_sums(
    const Segment* s, Py_ssize_t run, Py_ssize_t entry, uint64_t since, uint64_t length, Plan* plan
) noexcept nogil:
    """Find the block that begins nearest to a time since the first row, and fetch its rows."""
    cdef Py_ssize_t blocks = (s.offsets[run + 1] - s.offsets[run] - 1) >> s.step[entry]
    plan.block = block_at(s, entry, blocks, since, length)
    plan.before = plan.block == blocks or (
        block_time(s, entry, plan.block + 1) - since >= since - block_time(s, entry, plan.block)
    )
    finish_plan(s, run, entry, plan)


cdef inline Py_ssize_t plan_next(
    const Segment* s, Py_ssize_t run, Py_ssize_t entry, uint64_t since, const uint64_t* times,
    Py_ssize_t blocks, Py_ssize_t block, Plan* plan,
) noexcept nogil:
    """Do the same for a time that is not before `block`; return the last block that begins before.

    `times` is when each of the blocks begins.
    """
    while block < blocks and times[block + 1] < since:
        block += 1
    plan.block = block
    plan.before = block == blocks or times[block + 1] - since >= since - times[block]
    finish_plan(s, run, entry, plan)
    return block


cdef inline void finish_plan(
    const Segment* s, Py_ssize_t run, Py_ssize_t entry, Plan* plan
) noexcept nogil:
    cdef const uint8_t* rows
    # Otherwise `sums_at` waits for memory most of the time.
    if plan.before:
        rows = s.rows + (s.offsets[run] + (plan.block << s.step[entry])) * s.width
        prefetch(rows)
        prefetch(rows + 64)
        prefetch(rows + 128)
    else:
        plan.block += 1
        rows = s.rows + (s.offsets[run] + (plan.block << s.step[entry])) * s.width
        prefetch(rows)
        prefetch(rows - 64)
        prefetch(rows - 128)


cdef void sums_at(
    const Segment* s, const uint8_t* index_of, Py_ssize_t run, Py_ssize_t entry, uint64_t relative,
    const Plan* plan, Sums* sums,
) noexcept nogil:
    """Sum up a run to a time that is not before its first row, and counts from the segment's base.

    Block j begins at row j << step of the run. For the start of each block but the first, the
    pyramid has how long each value had lasted since the first row. What is between the time and the
    planned start is added or subtracted, row by row.
    """
    cdef Py_ssize_t begin = s.offsets[run], end = s.offsets[run + 1], row
    cdef int step = s.step[entry]
    cdef int values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    cdef uint64_t packed, at, after
    cdef uint32_t code
    row = begin + (plan.block << step)
    if not plan.before:
        fill_sums(s, entry, plan.block, values, sums)
        after = relative_time(s, row)
        # Sums that do not match the rows give wrong times, but no row outside the run.
        while after >= relative and row > begin:
            row -= 1
            packed = load_row(s.rows, row, s.width, s.row_mask)
            at = packed >> s.payload_bits
            code = <uint32_t>(row_field(s, row, packed))
            sums.ns[index_of[code]] -= after - (at if at > relative else relative)
            after = at
            if at < relative:
                sums.code = code
                sums.row = row + 1
                return
    fill_sums(s, entry, (row - begin) >> step, values, sums)
    row = begin + (((row - begin) >> step) << step)
    packed = load_row(s.rows, row, s.width, s.row_mask)
    at = packed >> s.payload_bits
    code = <uint32_t>(row_field(s, row, packed))
    row += 1
    while row < end:
        packed = load_row(s.rows, row, s.width, s.row_mask)
        after = packed >> s.payload_bits
        if after >= relative:
            break
        sums.ns[index_of[code]] += after - at
        at = after
        code = <uint32_t>(row_field(s, row, packed))
        row += 1
    sums.ns[index_of[code]] += relative - at
    sums.code = code
    sums.row = row


cdef inline void prefetch_run(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Fetch what `by_rows` reads first of a run that a segment probably has."""
    cdef Py_ssize_t entry
    if run >= s.runs:
        return
    prefetch(s.rows + s.offsets[run] * s.width)
    prefetch(s.rows + s.offsets[run + 1] * s.width - 64)
    if run < published_count(&s.timed):
        prefetch(&s.values[s.value_offset[run]])
        entry = s.time_offset[run + 1]
        if s.times32 != NULL:
            prefetch(&s.times32[entry] - 16)
        else:
            prefetch(&s.times64[entry] - 8)


cdef inline void prefetch_index(const Segment* s, Py_ssize_t run) noexcept nogil:
    """Fetch what `prefetch_run` reads."""
    if run >= s.runs:
        return
    prefetch(&s.offsets[run])
    prefetch(&s.quarks[run])
    if run < published_count(&s.timed):
        prefetch(&s.timed_run[run])
        prefetch(&s.value_offset[run])
        prefetch(&s.time_offset[run])
        prefetch(&s.step[run])


cdef inline void fill_sums(
    const Segment* s, Py_ssize_t entry, Py_ssize_t block, int values, Sums* sums
) noexcept nogil:
    cdef Py_ssize_t first = s.time_offset[entry] + (block - 1) * values
    cdef int i
    if block == 0:
        memset(sums.ns, 0, values * sizeof(uint64_t))
    elif s.times32 != NULL:
        for i in range(values):
            sums.ns[i] = s.times32[first + i]
    else:
        for i in range(values):
            sums.ns[i] = s.times64[first + i]


cdef inline int run_values(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t entry, int32_t* slots
) noexcept nogil:
    """Number the values of a run that have durations, and find their slots."""
    cdef const uint32_t* fields = s.values + s.value_offset[entry]
    cdef int i, values = <int>(s.value_offset[entry + 1] - s.value_offset[entry])
    cdef State state
    for i in range(values):
        state.meta = 0
        # The row is only used for stored numbers, and their runs have no times (`pyramid_fault`).
        set_value(s, run, 0, fields[i], &state)
        slots[i] = slot_of(w, &state)
        # Codes above the mask are in no row.
        if fields[i] <= s.code_mask:
            w.index_of[fields[i]] = <uint8_t>i
    return values


cdef inline double bins_per_ns(const Work* w) noexcept nogil:
    return <double>w.bins / <double>(<uint64_t>w.edges[w.bins] - <uint64_t>w.edges[0])


cdef void differ(
    Work* w, const Segment* s, Py_ssize_t run, Py_ssize_t entry, Py_ssize_t low, Py_ssize_t high,
    Used used,
) noexcept nogil:
    """Do as `walk`, but take each bin with many rows as the difference of the sums at its edges."""
    cdef Py_ssize_t row = low, end, rows
    cdef int32_t[64] slots
    cdef Sums[2] both
    cdef Sums* since = &both[0]
    cdef Sums* until = &both[1]
    cdef int64_t last_time = row_time(s, high - 1)
    cdef uint64_t first = relative_time(s, s.offsets[run])
    cdef uint64_t last = relative_time(s, s.offsets[run + 1] - 1)
    cdef uint64_t base = <uint64_t>s.base_ns, since_time
    cdef Plan plan
    cdef Plan[PLANS] plans
    cdef Py_ssize_t planned = 0, block = 0, j
    cdef Py_ssize_t blocks = (s.offsets[run + 1] - s.offsets[run] - 1) >> s.step[entry]
    cdef uint64_t[LISTED + 1] times
    cdef bint listed = False
    cdef bint known = False, beyond
    cdef int values, i
    cdef State state
    # Also those of codes that a damaged pyramid lacks.
    memset(slots, 0, sizeof(slots))
    values = run_values(w, s, run, entry, slots)
    if blocks <= LISTED and (last_time - w.at) * bins_per_ns(w) * 4.0 > blocks:
        # Enough bins for a list of when blocks begin.
        listed = True
        for j in range(blocks + 1):
            times[j] = block_time(s, entry, j)
    if row == s.offsets[run]:
        walk_any(w, s, run, row, row + 1, used)
        row += 1
    while row < high and not w.failed:
        if row + _NEAR >= high or row_time(s, row + _NEAR) >= w.stop:
            end = min(row + _NEAR, high)
            # To `walk` a row at the time up to which it has added replaces the change before.
            w.changes += known and row_time(s, row) == w.at
            walk_any(w, s, run, row, end, used)
            row = end
            known = False
            continue
        if not known:
            since_time = <uint64_t>w.at - base
            plan_sums(s, run, entry, since_time - first, last - first, &plan)
            sums_at(s, w.index_of, run, entry, since_time, &plan, since)
            known = True
        # The last bin ends after all rows.
        beyond = last_time < w.stop or w.bin + 1 >= w.bins
        if beyond:
            plan_sums(s, run, entry, <uint64_t>last_time - base - first, last - first, &plan)
            sums_at(s, w.index_of, run, entry, <uint64_t>last_time - base, &plan, until)
        else:
            # Several ahead, since memory answers many requests in the time of one.
            planned = max(planned, w.bin)
            while (
                planned < w.bins - 1 and planned < w.bin + SUMS_AHEAD
                and w.edges[planned + 1] <= last_time
            ):
                since_time = <uint64_t>w.edges[planned + 1] - base - first
                if listed:
                    block = plan_next(
                        s, run, entry, since_time, times, blocks, block,
                        &plans[planned & (PLANS - 1)],
                    )
                else:
                    plan_sums(
                        s, run, entry, since_time, last - first, &plans[planned & (PLANS - 1)]
                    )
                planned += 1
            sums_at(
                s, w.index_of, run, entry, <uint64_t>w.stop - base, &plans[w.bin & (PLANS - 1)],
                until,
            )
        # Within the run, whatever a damaged pyramid says.
        rows = high - row if beyond else min(max(until.row, row), high) - row
        w.changes += <int32_t>rows
        row += rows
        if beyond or w.at != w.edges[w.bin]:
            for i in range(values):
                if until.ns[i] != since.ns[i]:
                    add(w, slots[i], <int64_t>(until.ns[i] - since.ns[i]), used)
            if beyond:
                # The value of the run's last row need not have a duration.
                row_state(s, run, high - 1, &state)
                w.at = last_time
                w.slot = slot_of(w, &state)
                return
            flush(w, used)
        else:
            # Nothing was added to the bin before.
            end = w.rows
            emit_sums(w, slots, since.ns, until.ns, values)
            w.cell_rows[w.bin] = <int32_t>(w.rows - end)
            w.cell_changes[w.bin] = w.changes
            w.changes = 0
        w.at = w.stop
        w.bin += 1
        w.stop = w.edges[w.bin + 1]
        w.slot = slots[w.index_of[until.code] & 63]
        since, until = until, since


cdef inline bint worth(
    const Work* w, const Segment* s, Py_ssize_t low, Py_ssize_t high
) noexcept nogil:
    """Whether a bin has so many of these rows that their sums are found faster than they add up."""
    # Doubles are exact enough: either way the answer is the same, only the time it takes differs.
    cdef double bins, rows = <double>(high - low)
    if high - low <= 2 * _NEAR:
        return False
    bins = <double>(<uint64_t>row_time(s, high - 1) - <uint64_t>row_time(s, low))
    bins *= bins_per_ns(w)
    return rows > 1.0 * _NEAR * (bins if bins > 1.0 else 1.0)


cdef void by_rows(
    Work* w, Segments segments, int32_t quark, Py_ssize_t first, Py_ssize_t last, Used used,
) noexcept nogil:
    """Write all cells of one attribute."""
    cdef State state
    cdef Cursor cursor
    cdef Segment* s
    cdef Py_ssize_t k, run, low, high, entry, near = 0, end_segment = last
    cdef int64_t start = w.edges[0], end = w.edges[w.bins]
    segments.locate(quark, start, &state, &cursor)
    w.slot = slot_of(w, &state)
    w.at = start
    w.bin = 0
    w.stop = w.edges[1]
    # A change at the very start counts, but no state since the history began is not a change.
    w.changes = state.start == start and not (state.meta & 1 and start == segments.start_ns)
    if quark < segments._first.shape[0] and segments._first[quark] >= 0:
        first = max(first, segments._first[quark])
        last = min(last, segments._last[quark])
    else:
        last = first - 1
    for k in range(first, last + 1):
        s = &segments._segments[k]
        run = find_run(s, quark, near)
        if run < 0:
            continue
        near = run
        if k + 2 <= last:
            prefetch_run(&segments._segments[k + 1], run)
            prefetch_index(&segments._segments[k + 2], run)
        low = s.offsets[run]
        high = s.offsets[run + 1]
        if low == high:
            continue
        if start >= s.base_ns:
            low = first_after(s, low, high, start)
        if k == end_segment:
            high = first_after(s, low, high, end - 1)
        entry = timed_entry(s, run)
        if entry >= 0 and high > low and worth(w, s, low, high):
            differ(w, s, run, entry, low, high, used)
            if w.failed:
                return
            continue
        walk_any(w, s, run, low, high, used)
        if w.failed:
            return
    advance(w, end, used)
