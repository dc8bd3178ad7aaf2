"""Finding and gathering the intervals of sealed segments, and the columns of answers."""

from cython cimport final
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

import numpy as np

from meantime.kernels.sampled cimport next_sampled, sampled

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT32_ITEMS(object, Py_ssize_t*) except NULL

cdef enum:
    # After so many intervals that a resolution leaves out, the next one is searched for.
    _LEFT_OUT = 8

_TEXT = np.int32, np.int64, np.int64, np.int32, np.int32
_WORDS = np.int32, np.int64, np.int64, np.int64, np.uint32


@final
cdef class Segments:
    """The segments of a history in order of time, to be searched.

    A quark that never changed has been null since `start_ns`; the last interval of every quark
    ends at `end_ns`.

    Args:
        searchable: Whether segments are searched, or only read one by one: then nothing is computed
            for each quark.
    """

    def __cinit__(self, *, bint searchable=True):
        self._searchable = searchable
        self._segments = NULL
        self._count = self._room = 0

    def __init__(self, *, bint searchable=True):
        self._kept = []
        self.start_ns = self.end_ns = 0
        self._first_array = np.zeros(0, np.int32)
        self._last_array = np.zeros(0, np.int32)
        self._first, self._last = self._first_array, self._last_array
        self._bounds = (np.zeros(0, np.uint8), *[np.zeros(0, np.int64) for _ in range(3)])

    def __dealloc__(self):
        free(self._segments)

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """The bytes of all sections."""
        return sum([section.nbytes for sections in self._kept for section in sections])

    def append(
        self,
        int64_t base_ns,
        int width,
        int code_bits,
        int payload_bits,
        bint full,
        const int32_t[::1] quarks,
        const uint32_t[::1] offsets,
        const int64_t[::1] carry_start,
        const int64_t[::1] carry_word,
        const uint32_t[::1] carry_meta,
        const uint8_t[::1] form,
        const int64_t[::1] origin,
        const uint8_t[::1] rows,
        const uint64_t[::1] payload,
        const int64_t[::1] numbers,
    ):
        """Add the segment after the last; the arrays are kept, not copied.

        `rows` has 8 bytes more than the rows; the arrays of the carry, `form`, `origin`, `payload`
        and `numbers` are empty where the segment has none.
        """
        cdef Segment* s
        cdef Py_ssize_t room, run, runs = quarks.shape[0]
        cdef int32_t quark, here = <int32_t>self._count
        # This may move the structs, so all segments are added before the first search.
        if self._count == self._room:
            room = 2 * self._room + 16
            s = <Segment*>realloc(self._segments, room * sizeof(Segment))
            if s == NULL:
                raise MemoryError
            self._segments = s
            self._room = room
        s = &self._segments[self._count]
        if self._count:
            s[-1].span_ns = <uint64_t>base_ns - <uint64_t>s[-1].base_ns
        s.base_ns = base_ns
        s.span_ns = 0
        s.runs = runs
        s.width = width
        s.code_bits = code_bits
        s.payload_bits = 0 if payload.shape[0] else payload_bits
        s.full = full
        s.dense = runs > 0 and quarks[0] == 0 and quarks[runs - 1] == runs - 1
        s.row_mask = (~<uint64_t>0) >> (64 - 8 * width)
        s.payload_mask = ((<uint64_t>1) << s.payload_bits) - 1
        s.code_mask = ((<uint64_t>1) << code_bits) - 1
        s.quarks = &quarks[0] if runs else NULL
        s.offsets = &offsets[0]
        s.carry_start = &carry_start[0] if carry_start.shape[0] else NULL
        s.carry_word = &carry_word[0] if carry_word.shape[0] else NULL
        s.carry_meta = &carry_meta[0] if carry_meta.shape[0] else NULL
        s.form = &form[0] if form.shape[0] else NULL
        s.origin = &origin[0] if origin.shape[0] else NULL
        s.rows = &rows[0]
        s.payload = &payload[0] if payload.shape[0] else NULL
        s.numbers = &numbers[0] if numbers.shape[0] else NULL
        s.timed = s.celled = 0
        self._kept.append((
            quarks, offsets, carry_start, carry_word, carry_meta, form, origin, rows, payload,
            numbers,
        ))
        self._count += 1
        if not self._searchable:
            return
        if runs and quarks[runs - 1] >= self._first.shape[0]:
            self._grow(quarks[runs - 1] + 1)
        with nogil:
            for run in range(runs):
                quark = s.quarks[run]
                if s.offsets[run + 1] > s.offsets[run]:
                    if self._first[quark] < 0:
                        self._first[quark] = here
                    self._last[quark] = here
                # Without the segments before, the state there is only carried in.
                elif self._first[quark] < 0 and s.carry_start != NULL:
                    if s.carry_start[run] != INT64_MIN:
                        self._first[quark] = self._last[quark] = here

    def attach(
        self, Py_ssize_t segment, const int32_t[::1] timed_run, const uint8_t[::1] step,
        const uint32_t[::1] value_offset, const uint32_t[::1] values,
        const uint32_t[::1] time_offset, times: npt.NDArray[np.uint32] | npt.NDArray[np.uint64],
        const int32_t[::1] celled_run, const uint32_t[::1] cell_offset, const uint8_t[::1] some,
        const int64_t[::1] low, const int64_t[::1] high, const int64_t[::1] sums,
        const double[::1] magnitude
    ):
        """Use a segment's pyramid from now on; the arrays are kept, not copied.

        A segment that has a pyramid keeps it: other threads may be reading it.
        """
        cdef Segment* s = &self._segments[segment]
        cdef const uint32_t[::1] times32
        cdef const uint64_t[::1] times64
        if s.timed or s.celled:
            return
        self._kept.append((
            timed_run, step, value_offset, values, time_offset, times, celled_run, cell_offset,
            some, low, high, sums, magnitude,
        ))
        # The counts are published last: another thread may be searching without the interpreter's
        # lock, and reads none of the rest while they are 0.
        s.times32 = NULL
        s.times64 = NULL
        if timed_run.shape[0]:
            s.timed_run = &timed_run[0]
            s.step = &step[0]
            s.value_offset = &value_offset[0]
            s.values = &values[0]
            s.time_offset = &time_offset[0]
            if times.dtype == np.uint32:
                times32 = times
                s.times32 = &times32[0]
            else:
                times64 = times
                s.times64 = &times64[0]
        if celled_run.shape[0]:
            s.celled_run = &celled_run[0]
            s.cell_offset = &cell_offset[0]
            s.some = &some[0]
            s.low = &low[0]
            s.high = &high[0]
            s.sums = &sums[0]
            s.magnitude = &magnitude[0]
        publish_count(&s.timed, timed_run.shape[0])
        publish_count(&s.celled, celled_run.shape[0])

    cdef _grow(self, Py_ssize_t quarks):
        before = len(self._first_array)
        first, last = np.empty((2, max(quarks, 2 * before)), np.int32)
        first[:before], last[:before] = self._first_array, self._last_array
        first[before:] = last[before:] = -1
        self._first_array, self._last_array = first, last
        self._first, self._last = self._first_array, self._last_array

    cdef Py_ssize_t segment_at(self, int64_t time) noexcept nogil:
        """The last segment that begins at or before a time; -1 before the first."""
        cdef Py_ssize_t low = 0, length = self._count, half
        while length > 0:
            half = length >> 1
            if self._segments[low + half].base_ns <= time:
                low += half + 1
                length -= half + 1
            else:
                length = half
        return low - 1

    cdef void locate(
        self, int32_t quark, int64_t time, State* state, Cursor* cursor
    ) noexcept nogil:
        """The state of a quark at a time, and the cursor after it."""
        self.locate_near(quark, time, state, cursor, NULL)

    cdef void locate_near(
        self, int32_t quark, int64_t time, State* state, Cursor* cursor, Py_ssize_t* near
    ) noexcept nogil:
        """The same; `near` has by segment the run that was found last, unless it is NULL.

        With ascending quarks that saves the search in each segment.
        """
        self.locate_in(self.segment_at(time), quark, time, state, cursor, near)

    cdef void locate_in(
        self, Py_ssize_t here, int32_t quark, int64_t time, State* state, Cursor* cursor,
        Py_ssize_t* near,
    ) noexcept nogil:
        """The same for a time that is in a segment."""
        cdef Py_ssize_t back, run, row
        cdef Segment* s
        state.start = self.start_ns
        state.word = 0
        state.meta = 1
        cursor.segment = here
        cursor.run = -1
        cursor.row = 0
        if quark >= self._first.shape[0] or self._first[quark] < 0:
            cursor.segment = self._count
            return
        if here < self._first[quark]:
            cursor.segment = self._first[quark] - 1
            return
        # After the quark's last change no segment has to be searched, however many follow.
        back = here if here < self._last[quark] else self._last[quark]
        if back < here:
            cursor.segment = self._count
        # Go back to the nearest segment with a change of the quark before the time. Full segments,
        # which have a run of every quark, and the state before it, keep this short.
        while back >= self._first[quark]:
            s = &self._segments[back]
            run = find_run(s, quark, 0 if near == NULL else near[back])
            if run >= 0:
                if near != NULL:
                    near[back] = run
                row = first_after_interpolated(s, s.offsets[run], s.offsets[run + 1], time)
                if back == here:
                    cursor.run = run
                    cursor.row = row
                if row > s.offsets[run]:
                    row_state(s, run, row - 1, state)
                    return
                if s.carry_start != NULL:
                    if s.carry_start[run] != INT64_MIN:
                        state.start = s.carry_start[run]
                        state.word = s.carry_word[run]
                        state.meta = s.carry_meta[run]
                    return
            back -= 1

    cdef bint next_change(self, int32_t quark, Cursor* cursor, int64_t* time) noexcept nogil:
        """Move to the next change and write its time; return False if there is none."""
        return self.next_near(quark, cursor, time, NULL)

    cdef bint next_near(
        self, int32_t quark, Cursor* cursor, int64_t* time, Py_ssize_t* near
    ) noexcept nogil:
        """The same; `near` as for `locate_near`."""
        cdef Segment* s
        cdef Py_ssize_t run
        if cursor.segment >= self._count:
            return False
        if cursor.run >= 0:
            s = &self._segments[cursor.segment]
            if cursor.row < s.offsets[cursor.run + 1]:
                time[0] = row_time(s, cursor.row)
                return True
        cursor.segment += 1
        while cursor.segment <= self._last[quark]:
            s = &self._segments[cursor.segment]
            if near != NULL:
                run = find_run(s, quark, near[cursor.segment])
                near[cursor.segment] = run if run >= 0 else near[cursor.segment]
            else:
                run = find_run(s, quark, cursor.run if cursor.run >= 0 else 0)
            if run >= 0 and s.offsets[run + 1] > s.offsets[run]:
                cursor.run = run
                cursor.row = s.offsets[run]
                time[0] = row_time(s, cursor.row)
                return True
            cursor.segment += 1
        cursor.segment = self._count
        return False

    def sources(
        self, const int32_t[::1] quarks, int64_t start_ns, int64_t end_ns, uint8_t[::1] used
    ):
        """Mark the segments outside [start_ns, end_ns) that answers about the range depend on.

        These are those with the state that a quark is in at the start, and with its first change
        after the range. Only the index of segments is read.
        """
        cdef Py_ssize_t i, here, after, back, run
        cdef int32_t quark
        # As for `locate_near`: most quarks are ascending.
        cdef Py_ssize_t[::1] near = np.zeros(self._count, np.intp)
        with nogil:
            here = self.segment_at(start_ns)
            after = self.segment_at(end_ns - 1) + 1
            for i in range(quarks.shape[0]):
                quark = quarks[i]
                if quark >= self._first.shape[0] or self._first[quark] < 0:
                    continue
                if here >= self._first[quark]:
                    back = here if here < self._last[quark] else self._last[quark]
                    while back >= self._first[quark]:
                        run = find_run(&self._segments[back], quark, near[back])
                        if run >= 0:
                            near[back] = run
                            used[back] = 1
                            # A change in the segment of the start may come after it.
                            if back < here or self._segments[back].carry_start != NULL:
                                break
                        back -= 1
                back = after if after > self._first[quark] else self._first[quark]
                while back <= self._last[quark]:
                    run = find_run(&self._segments[back], quark, near[back])
                    near[back] = run if run >= 0 else near[back]
                    if run >= 0 and (
                        self._segments[back].offsets[run + 1] > self._segments[back].offsets[run]
                    ):
                        used[back] = 1
                        break
                    back += 1

    def point(self, int32_t quark, int64_t time) -> tuple[int, int, int, int]:
        """Return (start_ns, end_ns, word, meta) of the interval that contains a time."""
        cdef State state
        cdef Cursor cursor
        cdef int64_t end
        with nogil:
            self.locate(quark, time, &state, &cursor)
            if not self.next_change(quark, &cursor, &end):
                end = self.end_ns
        return state.start, end, state.word, state.meta

    def at(
        self, const int32_t[::1] quarks, const int64_t[::1] times
    ) -> tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint32]]:
        """Return the interval of each row's quark that contains the row's time.

        Returns:
            The columns start_ns, end_ns, word and meta.
        """
        cdef Py_ssize_t i, count = quarks.shape[0]
        cdef State state
        cdef Cursor cursor
        start_array, end_array, word_array = (
            np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        )
        meta_array = np.empty(count, np.uint32)
        cdef int64_t* start = <int64_t*>INT64_ITEMS(start_array, NULL)
        cdef int64_t* end = <int64_t*>INT64_ITEMS(end_array, NULL)
        cdef int64_t* word = <int64_t*>INT64_ITEMS(word_array, NULL)
        cdef uint32_t* meta = <uint32_t*>UINT32_ITEMS(meta_array, NULL)
        cdef Py_ssize_t* near = <Py_ssize_t*>calloc(self._count + 1, sizeof(Py_ssize_t))
        if near == NULL:
            raise MemoryError
        with nogil:
            for i in range(count):
                self.locate_near(quarks[i], times[i], &state, &cursor, near)
                start[i] = state.start
                word[i] = state.word
                meta[i] = state.meta
                if not self.next_near(quarks[i], &cursor, &end[i], near):
                    end[i] = self.end_ns
        free(near)
        return start_array, end_array, word_array, meta_array

    def sample(
        self, const int32_t[::1] quarks, const int64_t[::1] times
    ) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """Return the value of each quark at each of the times, which ascend, quark after quark.

        Returns:
            The word, which is 0 for null, and whether it is null.
        """
        cdef Py_ssize_t i, j, last, count = times.shape[0], run, row, low, high, step
        cdef Py_ssize_t group, groups = 0
        cdef int64_t following, value
        cdef uint8_t none
        cdef int64_t* to_word
        cdef uint8_t* to_null
        cdef State state
        cdef Cursor cursor
        cdef Segment* s
        word_array = np.empty(quarks.shape[0] * count, np.int64)
        null_array = np.empty(quarks.shape[0] * count, np.uint8)
        cdef int64_t[::1] word = word_array
        cdef uint8_t[::1] null = null_array
        if not count:
            return word_array, null_array
        # The first times in each segment, and one behind the last; and these segments.
        cdef Py_ssize_t[::1] first = np.empty(count + 1, np.intp)
        cdef Py_ssize_t[::1] segment = np.empty(count, np.intp)
        with nogil:
            j = 0
            while j < count:
                first[groups] = j
                segment[groups] = self.segment_at(times[j])
                j += 1
                if segment[groups] + 1 < self._count:
                    following = self._segments[segment[groups] + 1].base_ns
                    while j < count and times[j] < following:
                        j += 1
                else:
                    j = count
                groups += 1
            first[groups] = count
            for i in range(quarks.shape[0]):
                to_word = &word[i * count]
                to_null = &null[i * count]
                for group in range(groups):
                    j = first[group]
                    last = first[group + 1]
                    self.locate_in(segment[group], quarks[i], times[j], &state, &cursor, NULL)
                    run = cursor.run
                    row = cursor.row
                    s = &self._segments[cursor.segment]
                    # a run of -1: nothing changes in this segment
                    high = s.offsets[run + 1] if run >= 0 else row
                    following = row_time(s, row) if row < high else INT64_MAX
                    while True:
                        none = state.meta & 1
                        value = 0 if none else state.word
                        while j < last and times[j] < following:
                            to_word[j] = value
                            to_null[j] = none
                            j += 1
                        if j == last:
                            break
                        # Times ascend, so the row of the next is near: double the step until it is
                        # passed, then bisect. That is fast for times close together and far apart.
                        low = row
                        step = 8
                        while low + step < high and row_time(s, low + step) <= times[j]:
                            low += step
                            step *= 2
                        row = first_after(
                            s, low, high if low + step >= high else low + step, times[j]
                        )
                        row_state(s, run, row - 1, &state)
                        following = row_time(s, row) if row < high else INT64_MAX
        return word_array, null_array

    def count(self, question: Question) -> Int64s:
        """Return how many intervals of each quark meet the range of a question.

        Rows that last no time count too, so this is an upper bound of what `gather` writes.
        """
        cdef Py_ssize_t i, k, run, first, last, low, high, near
        cdef int32_t quark
        cdef int64_t n
        cdef Segment* s
        cdef const int32_t[::1] quarks = question.quarks
        cdef int64_t start_ns = question.start_ns, end_ns = question.end_ns
        # one for the state at the start, then one per change
        found = np.ones(quarks.shape[0], np.int64)
        cdef int64_t[::1] counts = found
        with nogil:
            first = self.segment_at(start_ns)
            last = self.segment_at(end_ns - 1)
            if first < 0:
                first = 0
            for k in range(first, last + 1):
                s = &self._segments[k]
                near = 0
                for i in range(quarks.shape[0]):
                    quark = quarks[i]
                    run = find_run(s, quark, near)
                    if run < 0:
                        continue
                    near = run
                    low = s.offsets[run]
                    high = s.offsets[run + 1]
                    n = high - low
                    if n and start_ns >= s.base_ns:
                        low = first_after(s, low, high, start_ns)
                    if n and k == last:
                        high = first_after(s, low, high, end_ns - 1)
                    counts[i] += high - low
        return found

    def bounds(self, const int32_t[::1] quarks) -> tuple[Int64s, Int64s, Int64s]:
        """Return limits of the integers that each quark had, and how often it changed.

        The limits are those that the index of segments allows, so they may be wider; they are those
        of int64 if some are not in rows. A quark without integers has a greatest below its least.

        Returns:
            The columns of the least, of the greatest, and of how many changes there are.
        """
        cdef Py_ssize_t i
        cdef uint8_t[::1] known
        found = tuple(np.empty(quarks.shape[0], np.int64) for _ in range(3))
        cdef int64_t[::1] low = found[0], high = found[1], changes = found[2]
        cdef int64_t[::1] lows, highs, counts
        quark_count = int(np.max(quarks, initial=-1)) + 1
        # Replaced as one: other threads may be using the arrays.
        if len(self._bounds[0]) < quark_count:
            self._bounds = (
                np.zeros(quark_count, np.uint8),
                *[np.empty(quark_count, np.int64) for _ in range(3)],
            )
        known, lows, highs, counts = self._bounds
        with nogil:
            for i in range(quarks.shape[0]):
                # Each thread that gets here writes the same.
                if not known[quarks[i]]:
                    self.bound(
                        quarks[i], &lows[quarks[i]], &highs[quarks[i]], &counts[quarks[i]]
                    )
                    known[quarks[i]] = 1
                low[i] = lows[quarks[i]]
                high[i] = highs[quarks[i]]
                changes[i] = counts[quarks[i]]
        return found

    cdef void bound(
        self, int32_t quark, int64_t* low, int64_t* high, int64_t* changes
    ) noexcept nogil:
        cdef Py_ssize_t k, run, near = 0
        cdef Segment* s
        cdef int64_t most, rows
        low[0] = INT64_MAX
        high[0] = INT64_MIN
        changes[0] = 0
        if quark >= self._first.shape[0] or self._first[quark] < 0:
            return
        for k in range(self._first[quark], self._count):
            s = &self._segments[k]
            run = find_run(s, quark, near)
            if run < 0:
                continue
            near = run
            # What a run carries in was in an earlier one, unless a file is wrong about it.
            if (
                s.carry_start != NULL
                and s.carry_start[run] != INT64_MIN
                and not s.carry_meta[run] & 1
            ):
                low[0] = min(low[0], s.carry_word[run])
                high[0] = max(high[0], s.carry_word[run])
            rows = s.offsets[run + 1] - s.offsets[run]
            changes[0] += rows
            if rows and s.form != NULL and s.form[run]:
                most = (<int64_t>1 << s.code_bits) - 2
                if s.form[run] != 1 or s.origin[run] > INT64_MAX - max(most, 0):
                    low[0] = INT64_MIN
                    high[0] = INT64_MAX
                elif most >= 0:
                    low[0] = min(low[0], s.origin[run])
                    high[0] = max(high[0], s.origin[run] + most)

    def ends(
        self, Py_ssize_t segment, int64_t[::1] start, int64_t[::1] word, uint32_t[::1] meta
    ):
        """Update the state of each quark, by quark, to the one after a segment."""
        cdef Segment* s = &self._segments[segment]
        cdef Py_ssize_t run
        cdef int32_t quark
        cdef State state
        with nogil:
            for run in range(s.runs):
                if s.offsets[run + 1] > s.offsets[run]:
                    quark = s.quarks[run]
                    row_state(s, run, s.offsets[run + 1] - 1, &state)
                    start[quark] = state.start
                    word[quark] = state.word
                    meta[quark] = state.meta

    def extremes(self, Py_ssize_t segment, int64_t[::1] low, int64_t[::1] high):
        """Lower and raise by run the extremes to those of the words of a segment's values."""
        cdef Segment* s = &self._segments[segment]
        cdef Py_ssize_t run, row
        cdef State state
        with nogil:
            for run in range(s.runs):
                for row in range(s.offsets[run], s.offsets[run + 1]):
                    row_state(s, run, row, &state)
                    if state.meta & 1:
                        continue
                    if state.word < low[run]:
                        low[run] = state.word
                    if state.word > high[run]:
                        high[run] = state.word

    def unseal(
        self,
        Py_ssize_t segment,
        int64_t[::1] time,
        int32_t[::1] quark,
        int64_t[::1] word,
        uint32_t[::1] meta,
    ):
        """Write the changes of a segment as columns, quark by quark."""
        cdef Segment* s = &self._segments[segment]
        cdef Py_ssize_t run, row
        cdef State state
        with nogil:
            for run in range(s.runs):
                for row in range(s.offsets[run], s.offsets[run + 1]):
                    row_state(s, run, row, &state)
                    time[row] = state.start
                    quark[row] = s.quarks[run]
                    word[row] = state.word
                    meta[row] = state.meta

    def gather(self, question: Question, IntervalRows rows):
        """Add the intervals that meet the range of a question, quark by quark, in order of time.

        With a resolution above 0, only the intervals that contain the start plus a multiple of it,
        or the last instant.
        """
        cdef Py_ssize_t i, n = rows.rows, row, last
        cdef const int32_t[::1] quarks = question.quarks, labels = question.labels
        cdef int64_t start_ns = question.start_ns, end_ns = question.end_ns
        cdef int64_t resolution_ns = question.resolution_ns
        cdef int32_t quark, label
        cdef int left_out
        cdef int64_t time
        cdef uint64_t packed, payload, field
        cdef State state
        cdef Cursor cursor
        cdef Segment* s
        cdef Columns to = rows.columns
        cdef bint text = rows.text
        cdef bint found
        with nogil:
            for i in range(quarks.shape[0]):
                quark = quarks[i]
                label = labels[i]
                self.locate(quark, start_ns, &state, &cursor)
                left_out = 0
                while True:
                    found = self.next_change(quark, &cursor, &time)
                    if (
                        found and text and resolution_ns == 0
                        and self._segments[cursor.segment].payload == NULL
                    ):
                        # All that is left of a run of strings at once. This is the hot path: the
                        # code below does the same for one change, with a call and more branches.
                        s = &self._segments[cursor.segment]
                        row = cursor.row
                        last = s.offsets[cursor.run + 1]
                        while row < last:
                            packed = load_row(s.rows, row, s.width, s.row_mask)
                            time = <int64_t>(
                                <uint64_t>s.base_ns + (packed >> s.payload_bits)
                            )
                            if state.start < time:
                                if n == to.room:
                                    rows.rows = n
                                    rows.reserve(1)
                                    to = rows.columns
                                write_row(
                                    &to, n, True, label, state.start, time, state.word, state.meta
                                )
                                n += 1
                                if time >= end_ns:
                                    break
                            # An interval is written when the next change ends it; one that is
                            # replaced at once has no length, and is not written.
                            payload = packed & s.payload_mask
                            field = payload & s.code_mask
                            state.start = time
                            state.word = <int64_t>field - 1
                            state.meta = <uint32_t>(
                                ((payload >> s.code_bits) << 1) | (field == 0)
                            )
                            row += 1
                        if row < last:
                            break
                        cursor.row = row
                        continue
                    if not found:
                        time = self.end_ns
                    if state.start < time:
                        if resolution_ns == 0 or sampled(
                            state.start, time, start_ns, end_ns, resolution_ns
                        ):
                            if n == to.room:
                                rows.rows = n
                                rows.reserve(1)
                                to = rows.columns
                            write_row(
                                &to, n, text, label, state.start, time, state.word, state.meta
                            )
                            n += 1
                            left_out = 0
                        else:
                            left_out += 1
                    if not found or time >= end_ns:
                        break
                    if left_out == _LEFT_OUT:
                        left_out = 0
                        time = next_sampled(time, start_ns, end_ns, resolution_ns)
                        self.locate(quark, time, &state, &cursor)
                        continue
                    row_state(
                        &self._segments[cursor.segment], cursor.run, cursor.row, &state
                    )
                    cursor.row += 1
        rows.rows = n


@final
cdef class IntervalRows:
    """Intervals, attribute after attribute, each in order of time.

    Those of attributes with strings alone have a `code`, -1 for null, and a `tag`, -1 for none;
    others have a `word` and a `meta`, as changes in a `Tail` do.

    Args:
        room: How many rows there is room for before the columns have to grow.
        text: Whether the attributes have strings alone.

    Attributes:
        rows: How many there are.
    """

    def __init__(self, Py_ssize_t room, *, bint text):
        self.rows = 0
        self.text = text
        self._arrays = []
        self.columns.room = -1
        self.reserve(room)

    cdef int reserve(self, Py_ssize_t rows) except -1 with gil:
        """Make room for so many rows more; what is not in `rows` is lost."""
        cdef Py_ssize_t room = self.rows + rows
        cdef Columns* columns = &self.columns
        if room <= columns.room:
            return 0
        if self.rows:
            room = max(room, 2 * columns.room)
        arrays = [np.empty(room, dtype) for dtype in (_TEXT if self.text else _WORDS)]
        if self.rows:
            for larger, array in zip(arrays, self._arrays):
                larger[:self.rows] = array[:self.rows]
        self._arrays = arrays
        columns.quark = <int32_t*>INT32_ITEMS(self._arrays[0], NULL)
        columns.start = <int64_t*>INT64_ITEMS(self._arrays[1], NULL)
        columns.end = <int64_t*>INT64_ITEMS(self._arrays[2], NULL)
        columns.code = columns.tag = NULL
        columns.word = NULL
        columns.meta = NULL
        if self.text:
            columns.code = <int32_t*>INT32_ITEMS(self._arrays[3], NULL)
            columns.tag = <int32_t*>INT32_ITEMS(self._arrays[4], NULL)
        else:
            columns.word = <int64_t*>INT64_ITEMS(self._arrays[3], NULL)
            columns.meta = <uint32_t*>UINT32_ITEMS(self._arrays[4], NULL)
        columns.room = room
        return 0

    @property
    def is_text(self) -> bool:
        """Whether the attributes have strings alone."""
        return self.text

    @property
    def quark(self) -> Int32s:
        """What the question calls the attribute."""
        return self._arrays[0][: self.rows]

    @property
    def start_ns(self) -> Int64s:
        """When it begins."""
        return self._arrays[1][: self.rows]

    @property
    def end_ns(self) -> Int64s:
        """When it ends."""
        return self._arrays[2][: self.rows]

    @property
    def code(self) -> Int32s:
        """The code of its string."""
        return self._arrays[3][: self.rows]

    @property
    def tag(self) -> Int32s:
        """Its tag."""
        return self._arrays[4][: self.rows]

    @property
    def word(self) -> Int64s:
        """The word of its value."""
        return self._arrays[3][: self.rows]

    @property
    def meta(self) -> npt.NDArray[np.uint32]:
        """Whether it is null, and the tag plus one."""
        return self._arrays[4][: self.rows]
