"""`perf script` text to columns."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

import os

import numpy as np

cdef extern from "intern.h" nogil:
    ctypedef struct intern_text:
        pass
    ctypedef struct intern_table:
        int32_t count
        uint64_t seed
        uint64_t *offsets
        uint32_t *contexts
        char *bytes
    intern_text intern_text_of(const char *at, size_t size)
    int32_t intern_find(const intern_table *table, const intern_text *text, uint32_t context)
    int32_t intern_add(intern_table *table, const intern_text *text, uint32_t context)
    bint intern_grow(intern_table *table)
    void intern_free(intern_table *table)

cdef extern from "perf_text.h" nogil:
    enum:
        PERF_IDS
        PERF_CPU
        PERF_MISC
        PERF_DATE
        PERF_UNPADDED
        PERF_NANOS
    ctypedef struct perf_header:
        const char *begin
        uint32_t comm_bytes
        uint32_t bytes
        int64_t time_ns
        int32_t cpu
        const char *rest
    enum:
        PERF_HEADER
        PERF_OTHER_FIELDS
    ctypedef struct perf_counted:
        int64_t period
        const char *event
        uint32_t event_bytes
    ctypedef struct perf_frame:
        const char *name
        uint32_t bytes
        bint is_file
    ctypedef struct perf_switch:
        int64_t prev
        int64_t next
        const char *next_comm
        uint32_t next_bytes
        char state
    int perf_read_switch(const char *at, const char *end, perf_switch *found)
    int perf_read_header(
        const char *line, const char *end, int layout, int64_t last_ns, perf_header *header
    )
    perf_counted perf_read_counted(const char *rest, const char *end)
    int perf_read_frame(const char *line, const char *end, perf_frame *frame)
    const char *perf_skip(const char *at, const char *end)
    bint perf_digit(char c)

IDS = PERF_IDS
CPU = PERF_CPU
MISC = PERF_MISC
DATE = PERF_DATE
UNPADDED = PERF_UNPADDED
NANOS = PERF_NANOS

cdef enum:
    NOTHING
    SAMPLE
    RECORD

cdef enum:
    THREADS
    EVENTS
    FRAMES
    STACKS
    NAMES
    TABLES


# Of each switch: time, CPU, the thread that leaves, its state, the thread that comes, its name.
cdef enum:
    SWITCH_FIELDS = 6


# perf sorts what it prints, except for what it flushes in rounds, which are shorter than this.
cdef enum:
    FAR_NS = 1_000_000_000


cdef struct Columns:
    int64_t *time_ns
    int64_t *period
    int32_t *thread
    int32_t *cpu
    int32_t *event
    int32_t *stack
    int64_t *tail
    const char *text
    Py_ssize_t rows
    Py_ssize_t room


cdef int32_t intern(intern_table *table, const char *at, size_t size, uint32_t context) noexcept nogil:
    cdef intern_text text = intern_text_of(at, size)
    cdef int32_t code = intern_find(table, &text, context)
    return code if code >= 0 else intern_add(table, &text, context)


cdef class PerfText:
    """Reads blocks of text one after the other, and remembers the names and stacks in them."""

    cdef intern_table tables[TABLES]
    cdef int32_t *open_frames
    cdef Py_ssize_t open_count, open_room
    cdef int layout
    cdef bint with_stacks, with_switches, after_frames
    cdef int64_t *switches
    cdef Py_ssize_t switch_count, switch_room, open_switch
    cdef bint in_record
    cdef int64_t last_ns, open_unknown, open_unread
    cdef readonly int64_t records, unknown_lines, unread_headers, times_beyond
    cdef readonly int64_t steps_back, far_steps_back
    cdef readonly list lost

    def __cinit__(self, int layout, bint with_stacks, bint with_switches):
        self.layout = layout
        self.with_stacks = with_stacks
        self.with_switches = with_switches
        self.last_ns = -1
        self.lost = []
        cdef uint64_t seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
        cdef int table
        for table in range(TABLES):
            self.tables[table].seed = seed
            if not intern_grow(&self.tables[table]):
                raise MemoryError

    def __dealloc__(self):
        cdef int table
        for table in range(TABLES):
            intern_free(&self.tables[table])
        free(self.open_frames)
        free(self.switches)

    def scan(
        self, const unsigned char[::1] text, bint last, int64_t[::1] time_ns, int64_t[::1] period,
        int32_t[::1] thread, int32_t[::1] cpu, int32_t[::1] event, int32_t[::1] stack,
        int64_t[:, ::1] tail,
    ):
        """Return how many bytes were read, how many rows they filled, and whether the rows ran out.

        All columns have the same length, at least 1. If they fill up, reading stops before the
        first sample that has no row, and the next call continues there. `tail`, unless it is None,
        gets where in the text that begins and ends which follows an event's name. Unless this is
        the last block, a sample that is open at its end is left for the next call.
        """
        cdef Py_ssize_t room = time_ns.shape[0]
        if room < 1 or not (
            room == period.shape[0] == thread.shape[0] == cpu.shape[0] == event.shape[0]
            == stack.shape[0]
        ):
            raise ValueError("the columns must have one length, at least 1")
        cdef Columns out = Columns(
            &time_ns[0], &period[0], &thread[0], &cpu[0], &event[0], &stack[0], NULL, NULL, 0, room
        )
        if tail is not None:
            if tail.shape[0] != room or tail.shape[1] != 2:
                raise ValueError("the tail must have a row of two for each row of the columns")
            out.tail = &tail[0, 0]
            out.text = <const char*>&text[0] if text.shape[0] else NULL
        cdef Py_ssize_t done = 0
        cdef bint full = False
        if text.shape[0]:
            with nogil:
                done = self.read(
                    <const char*>&text[0], <const char*>&text[0] + text.shape[0], last, &out, &full
                )
        if done < 0:
            raise MemoryError
        return done, out.rows, full

    cdef Py_ssize_t read(
        self, const char *begin, const char *end, bint last, Columns *out, bint *full
    ) noexcept nogil:
        """Read the lines of a block; return how many bytes need not be read again, -1 without memory."""
        cdef const char *line = begin
        cdef const char *done = begin
        cdef const char *line_end
        cdef const char *next_line
        cdef int open = RECORD if self.in_record else NOTHING
        cdef int kind
        cdef perf_header header
        while line < end:
            line_end = <const char*>memchr(line, b"\n", <size_t>(end - line))
            if line_end == NULL:
                if not last:
                    break
                line_end = end
                next_line = end
            else:
                next_line = line_end + 1
            if line_end > line and (line_end - 1)[0] == b"\r":
                line_end -= 1
            kind = 0
            if line_end > line and line[0] != b"\t":
                kind = perf_read_header(line, line_end, self.layout, self.last_ns, &header)
            if line_end == line:
                if open == SAMPLE and not self.close(out):
                    return -1
                open = NOTHING
            elif kind == PERF_HEADER:
                if open == SAMPLE and not self.close(out):
                    return -1
                done = line
                open = NOTHING
                if out.rows == out.room:
                    full[0] = True
                    break
                header.rest = perf_skip(header.rest, line_end)
                if line_end - header.rest > 12 and memcmp(header.rest, b"PERF_RECORD_", 12) == 0:
                    open = RECORD
                    self.records += 1
                    if line_end - header.rest >= 16 and memcmp(header.rest + 12, b"LOST", 4) == 0:
                        self.add_lost(&header, line_end)
                elif header.time_ns < 0:
                    open = RECORD
                    self.times_beyond += 1
                else:
                    open = SAMPLE
                    if not self.begin(&header, line_end, out):
                        return -1
            elif kind == PERF_OTHER_FIELDS and line[0] != b"#":
                if open == SAMPLE:
                    self.open_unread += 1
                else:
                    self.unread_headers += 1
            elif open == SAMPLE:
                if not self.add_frame(line, line_end):
                    return -1
            elif open == NOTHING and line[0] != b"#":
                self.unknown_lines += 1
            line = next_line
            if open != SAMPLE:
                done = line
        if open == SAMPLE and last:
            if not self.close(out):
                return -1
            done = end
        elif open == SAMPLE:
            # It is read again by the next call, with its switch.
            self.switch_count = self.open_switch
        self.in_record = open == RECORD
        return done - begin

    cdef bint begin(self, const perf_header *header, const char *end, Columns *out) noexcept nogil:
        cdef perf_counted counted = perf_read_counted(header.rest, end)
        cdef int32_t thread = intern(
            &self.tables[THREADS], header.begin, header.bytes,
            header.comm_bytes * 2 + (header.bytes > header.comm_bytes),
        )
        cdef int32_t event = -1
        cdef const char *at
        if counted.event != NULL:
            event = intern(&self.tables[EVENTS], counted.event, counted.event_bytes, 0)
        if header.time_ns < self.last_ns:
            self.steps_back += 1
            self.far_steps_back += self.last_ns - header.time_ns > FAR_NS
        out.time_ns[out.rows] = self.last_ns = header.time_ns
        out.period[out.rows] = counted.period
        out.thread[out.rows] = thread
        out.cpu[out.rows] = header.cpu
        out.event[out.rows] = event
        if out.tail != NULL:
            at = header.rest if counted.event == NULL else counted.event + counted.event_bytes + 1
            out.tail[2 * out.rows] = min(at, end) - out.text
            out.tail[2 * out.rows + 1] = end - out.text
        self.open_count = self.open_unknown = self.open_unread = 0
        self.after_frames = False
        self.open_switch = self.switch_count
        if (
            self.with_switches and counted.event_bytes == 18 and header.cpu >= 0
            and memcmp(counted.event, b"sched:sched_switch", 18) == 0
            and not self.add_switch(header, counted.event + 19, end)
        ):
            return False
        return thread >= 0 and (counted.event == NULL or event >= 0)

    cdef bint add_switch(self, const perf_header *header, const char *at, const char *end) noexcept nogil:
        """Add the fields of a switch, if they can be read."""
        cdef perf_switch found
        cdef Py_ssize_t room
        cdef int64_t *grown
        cdef int64_t *row
        if at >= end or not perf_read_switch(at, end, &found):
            return True
        if self.switch_count == self.switch_room:
            room = 2 * self.switch_room + 1024
            grown = <int64_t*>realloc(self.switches, <size_t>(room * SWITCH_FIELDS) * sizeof(int64_t))
            if grown == NULL:
                return False
            self.switches = grown
            self.switch_room = room
        row = self.switches + self.switch_count * SWITCH_FIELDS
        row[0] = header.time_ns
        row[1] = header.cpu
        row[2] = found.prev
        row[3] = <unsigned char>found.state
        row[4] = found.next
        row[5] = intern(&self.tables[NAMES], found.next_comm, found.next_bytes, 0)
        self.switch_count += 1
        return row[5] >= 0

    cdef bint add_frame(self, const char *line, const char *end) noexcept nogil:
        """Add a line that belongs to the open sample."""
        cdef perf_frame frame
        cdef int32_t *grown
        cdef Py_ssize_t room
        cdef bint indented = line[0] == b"\t" or line[0] == b" "
        if indented and not self.with_stacks:
            self.after_frames = True
            return True
        if not perf_read_frame(line, end, &frame):
            # Other lines among frames belong to them: source lines, registers.
            self.open_unknown += not (indented or self.after_frames)
            return True
        self.after_frames = True
        if not self.with_stacks:
            return True
        if self.open_count == self.open_room:
            room = 2 * self.open_room + 64
            grown = <int32_t*>realloc(self.open_frames, <size_t>room * sizeof(int32_t))
            if grown == NULL:
                return False
            self.open_frames = grown
            self.open_room = room
        self.open_frames[self.open_count] = intern(
            &self.tables[FRAMES], frame.name, frame.bytes, frame.is_file
        )
        self.open_count += 1
        return self.open_frames[self.open_count - 1] >= 0

    cdef bint close(self, Columns *out) noexcept nogil:
        """Give the open sample its stack: frames come innermost first, stacks are built from main."""
        cdef int32_t stack = -1
        cdef Py_ssize_t i
        for i in range(self.open_count - 1, -1, -1):
            stack = intern(
                &self.tables[STACKS], <const char*>&self.open_frames[i], sizeof(int32_t),
                <uint32_t>(stack + 1),
            )
            if stack < 0:
                return False
        out.stack[out.rows] = stack
        out.rows += 1
        self.unknown_lines += self.open_unknown
        self.unread_headers += self.open_unread
        return True

    cdef void add_lost(self, const perf_header *header, const char *end) noexcept nogil:
        cdef const char *at = header.rest
        cdef int64_t count = 0, limit = <int64_t>1 << 50
        while at < end and not perf_digit(at[0]):
            at += 1
        while at < end and perf_digit(at[0]) and count < limit:
            count = count * 10 + (at[0] - 48)
            at += 1
        with gil:
            self.lost.append((self.last_ns, header.time_ns, count or 1))

    def threads_from(self, int32_t first):
        """Return, of each thread from this code on, its comm and its ids, None if it has none."""
        found = []
        cdef int32_t code
        cdef uint32_t comm_bytes
        for code in range(first, self.tables[THREADS].count):
            text = self.text_of(&self.tables[THREADS], code)
            comm_bytes = self.tables[THREADS].contexts[code] >> 1
            ids = text[comm_bytes:].strip() if self.tables[THREADS].contexts[code] & 1 else None
            found.append((text[:comm_bytes], ids))
        return found

    def switches_so_far(self):
        """Return the switches as rows: time, CPU, leaving thread, its state, coming one, its name.

        The state is a letter, the name one of `names_so_far`.
        """
        rows = np.empty((self.switch_count, SWITCH_FIELDS), np.int64)
        cdef int64_t[:, ::1] out = rows
        cdef Py_ssize_t i
        cdef int field
        for i in range(self.switch_count):
            for field in range(SWITCH_FIELDS):
                out[i, field] = self.switches[i * SWITCH_FIELDS + field]
        return rows

    def names_so_far(self):
        """Return the names of the threads that came by a switch."""
        return [self.text_of(&self.tables[NAMES], code) for code in range(self.tables[NAMES].count)]

    def events_from(self, int32_t first):
        """Return the names of the events from this code on."""
        return [self.text_of(&self.tables[EVENTS], code) for code in range(first, self.tables[EVENTS].count)]

    def frames_so_far(self):
        """Return each frame's name, and whether it is that of a file as the function is unknown."""
        return [
            (self.text_of(&self.tables[FRAMES], code), bool(self.tables[FRAMES].contexts[code]))
            for code in range(self.tables[FRAMES].count)
        ]

    def stacks_so_far(self):
        """Return the parent and the frame of each stack."""
        cdef Py_ssize_t count = self.tables[STACKS].count
        parent = np.empty(count, np.int32)
        frame = np.empty(count, np.int32)
        cdef int32_t[::1] parents = parent, frames = frame
        cdef Py_ssize_t i
        for i in range(count):
            parents[i] = <int32_t>self.tables[STACKS].contexts[i] - 1
            frames[i] = (<int32_t*>self.tables[STACKS].bytes)[i]
        return parent, frame

    cdef bytes text_of(self, const intern_table *table, int32_t code):
        return table.bytes[table.offsets[code]:table.offsets[code + 1]]
