"""`perf script` text, and that of ftrace, to columns.

What follows from the fields of events is here, too: kernels of other forms of them extend the class.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

import os

import numpy as np

from meantime.kernels.linux_records import RECORD_TYPE

from meantime.kernels.intern cimport (
    intern_add,
    intern_find,
    intern_free,
    intern_grow,
    intern_table,
    intern_text,
    intern_text_of,
)
from meantime.kernels.linux_records cimport (
    TRACE_BEGIN,
    TRACE_CALL,
    TRACE_CALL_END,
    TRACE_COMPLETE,
    TRACE_END,
    TRACE_IRQ,
    TRACE_ISSUE,
    TRACE_LEAF,
    TRACE_LOST,
    TRACE_MARK,
    TRACE_NEW,
    TRACE_OTHER,
    TRACE_RECEIVED,
    TRACE_SENT,
    TRACE_SOFTIRQ,
    TRACE_SOFTIRQ_END,
    TRACE_SWITCH,
    TRACE_WAKE,
    trace_named,
    trace_nobody,
    trace_presence,
    trace_proves,
    trace_ran,
    trace_record,
    trace_switched,
)

cdef extern from "growing.h" nogil:
    bint column_grow(void **data, int64_t capacity, size_t width)

IDS = PERF_IDS
CPU = PERF_CPU
MISC = PERF_MISC
DATE = PERF_DATE
UNPADDED = PERF_UNPADDED
NANOS = PERF_NANOS
FTRACE = PERF_FTRACE

cdef enum:
    NOTHING
    SAMPLE
    RECORD

# perf sorts what it prints, except for what it flushes in rounds, which are shorter than this.
cdef enum:
    FAR_NS = 1_000_000_000


cdef enum:
    UNKNOWN_KIND = 255
    NOT_NEEDED = -2


cdef int32_t intern(intern_table *table, const char *at, size_t size, uint32_t context) noexcept nogil:
    cdef intern_text text = intern_text_of(at, size)
    cdef int32_t code = intern_find(table, &text, context)
    return code if code >= 0 else intern_add(table, &text, context)


cdef bint is_idle_task(const perf_header *header) noexcept nogil:
    """Return whether the thread of a line has the id 0."""
    cdef const char *last = header.begin + header.bytes - 1
    return (
        header.bytes > header.comm_bytes + 1 and last[0] == b"0" and not perf_digit((last - 1)[0])
    )


cdef class PerfText:
    """Reads blocks of text one after the other, and remembers the names and stacks in them."""

    def __cinit__(self, int layout, bint with_stacks, bint with_records):
        self.layout = layout
        self.with_stacks = with_stacks
        self.with_records = with_records
        self.last_ns = -1
        self.lost = []
        self.used_again = []
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
        free(self.records_found)
        free(self.kind_of)
        free(self.call_of)
        free(self.open_calls)
        free(self.gone)
        free(self.thread_of)
        free(self.places)

    def scan(
        self, const unsigned char[::1] text: memoryview, bint last, int64_t[::1] time_ns,
        int64_t[::1] period, int32_t[::1] thread, int32_t[::1] cpu, int32_t[::1] event,
        int32_t[::1] stack, int64_t[:, ::1] tail: Int64s | None
    ) -> tuple[int, int, bool]:
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
                if self.layout & PERF_FTRACE:
                    done = self.read_ftrace(
                        <const char*>&text[0], <const char*>&text[0] + text.shape[0], last, &out,
                        &full
                    )
                else:
                    done = self.read(
                        <const char*>&text[0], <const char*>&text[0] + text.shape[0], last, &out,
                        &full
                    )
        if last and not full and done == text.shape[0] and self.with_records:
            if done >= 0 and not self.end_cpus():
                done = -1
        if done < 0:
            raise MemoryError
        return done, out.rows, full

    cdef bint end_cpus(self) noexcept nogil:
        """Add what is known of CPUs of which nothing follows."""
        cdef int32_t code
        for code in range(self.tables[IDS_OF_CPUS].count):
            if self.places[code].lost and not self.put_lost(code, self.last_ns):
                return False
            if not self.put_ran(code):
                return False
        return True

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
        cdef perf_counted counted
        cdef const char *tail
        while line < end:
            next_line = perf_line(line, end, last, &line_end)
            if next_line == NULL:
                break
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
                        if not self.add_lost(&header, line_end):
                            return -1
                    elif not self.add_task(&header, line_end):
                        return -1
                elif header.time_ns < 0:
                    open = RECORD
                    self.times_beyond += 1
                else:
                    open = SAMPLE
                    counted = perf_read_counted(header.rest, line_end)
                    tail = header.rest
                    if counted.event != NULL:
                        tail = counted.event + counted.event_bytes + 1
                    if not self.begin(&header, &counted, tail, line_end, out):
                        return -1
                    if (self.with_stacks or self.wants_leaf) and tail < line_end:
                        tail = perf_frame_behind(counted.event, counted.event_bytes, tail, line_end)
                        if tail != NULL and not self.add_only_frame(tail, line_end):
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
        self.in_record = open == RECORD
        return done - begin

    cdef Py_ssize_t read_ftrace(
        self, const char *begin, const char *end, bint last, Columns *out, bint *full
    ) noexcept nogil:
        """Do as `read` for the lines of ftrace, each of which is a sample."""
        cdef const char *line = begin
        cdef const char *line_end
        cdef const char *next_line
        cdef int kind
        cdef perf_header header
        while line < end:
            next_line = perf_line(line, end, last, &line_end)
            if next_line == NULL:
                break
            # in a page of systrace the text may be a literal of JavaScript
            if line_end - line > 2 and memcmp(line_end - 3, b"\\n\\", 3) == 0:
                line_end -= 3
            kind = trace_read_header(line, line_end, &header)
            if kind == PERF_HEADER:
                if out.rows == out.room:
                    full[0] = True
                    break
                if header.time_ns < 0:
                    self.times_beyond += 1
                elif not self.add_line(&header, line_end, out):
                    return -1
                self.is_over = False
            elif kind == PERF_OTHER_FIELDS:
                self.unread_headers += 1
            elif not self.add_note(line, line_end):
                return -1
            line = next_line
        return line - begin

    cdef bint add_line(self, perf_header *header, const char *end, Columns *out) noexcept nogil:
        """Add a line of ftrace as a sample with a period of 1."""
        cdef perf_counted counted = trace_read_event(header.rest, end)
        cdef const char *at = perf_skip(header.rest, end)
        cdef const char *stop
        cdef const char *caller
        cdef char name[72]
        cdef size_t size
        cdef bint is_exit
        if counted.event != NULL and counted.event_bytes == 8 and memcmp(at, b"function", 8) == 0:
            at = perf_skip(at + 9, end)
            counted.event_bytes = 8
        elif counted.event == NULL:
            stop = at
            while stop < end and stop[0] != b" " and stop[0] != b"(":
                stop += 1
            is_exit = end - stop > 3 and memcmp(stop, b" -> ", 4) == 0
            size = <size_t>(stop - at)
            if size > 4 and size < 60 and memcmp(at, b"sys_", 4) == 0 and (
                is_exit or (stop < end and stop[0] == b"(")
            ):
                memcpy(name, b"sys_exit_" if is_exit else b"sys_enter_", 10)
                memcpy(name + (9 if is_exit else 10), at + 4, size - 4)
                counted.event = name
                counted.event_bytes = <uint32_t>(size + (5 if is_exit else 6))
                if not is_exit and (end - 1)[0] == b")":
                    end -= 1
                return self.begin(header, &counted, stop + (4 if is_exit else 1), end, out) and (
                    self.close(out)
                )
            if trace_after(at, end, b" <-") == NULL:
                self.unread_headers += 1
                return True
            counted.event = b"function"
            counted.event_bytes = 8
        else:
            return self.begin(
                header, &counted, counted.event + counted.event_bytes + 1, end, out
            ) and self.close(out)
        if not self.begin(header, &counted, at, end, out):
            return False
        caller = trace_after(at, end, b" <-")
        if self.with_stacks and caller != NULL:
            stop = perf_back(at, caller - 3)
            if not self.push_frame(at, <size_t>(stop - at), False):
                return False
            while caller < end and (caller[0] == b"-" or caller[0] == b" "):
                caller += 1
            if not self.push_frame(caller, <size_t>(perf_back(caller, end) - caller), False):
                return False
        return self.close(out)

    cdef bint add_note(self, const char *line, const char *end) noexcept nogil:
        """Read a line without a time: what was lost of a CPU, or something unknown."""
        cdef const char *at = perf_skip(line, end)
        cdef int64_t cpu = 0, count = 0
        cdef int32_t code
        cdef int64_t limit = <int64_t>1 << 50
        if at == end or at[0] == b"#" or (end - at > 5 and memcmp(at, b"cpus=", 5) == 0):
            return True
        if end - at > 9 and memcmp(at, b"CPU:", 4) == 0:
            at = trace_number(at + 4, end, &cpu)
            at = perf_skip(at, end)
            if at < end and at[0] == b"[":
                at += 1
                if end - at > 5 and memcmp(at, b"LOST ", 5) == 0:
                    at += 5
                while at < end and perf_digit(at[0]) and count < limit:
                    count = count * 10 + (at[0] - 48)
                    at += 1
                if (
                    trace_after(at, end, b"EVENTS DROPPED") or trace_after(at, end, b"EVENTS]")
                ) and cpu < 1_000_000_000:
                    code = self.cpu_code(<int32_t>cpu)
                    if code < 0:
                        return False
                    if not self.with_records:
                        with gil:
                            self.lost.append((self.last_ns, self.last_ns + 1, count or 1))
                        return True
                    self.places[code].lost += count or 1
                    self.places[code].lost_from_ns = self.places[code].last_ns
                    return True
        # what comes before the first event is printed by the program that recorded it, and what
        # comes after the last one belongs to a page
        if (at[0] == b"<" and end - at > 7 and memcmp(at, b"</script", 8) == 0) or (
            end - at == 2 and memcmp(at, b"\";", 2) == 0
        ) or (end - at == 4 and memcmp(at, b"\\n\";", 4) == 0):
            self.is_over = True
        self.unknown_lines += self.last_ns >= 0 and not self.is_over
        return True

    cdef int32_t cpu_code(self, int32_t cpu) noexcept nogil:
        cdef int32_t code = intern(&self.tables[IDS_OF_CPUS], <const char*>&cpu, 4, 0)
        cdef int32_t room
        cdef void *grown
        if code >= self.place_room:
            room = 2 * self.place_room + 16
            grown = realloc(self.places, <size_t>room * sizeof(cpu_place))
            if grown == NULL:
                return -1
            self.places = <cpu_place*>grown
            while self.place_room < room:
                self.places[self.place_room] = cpu_place(-1, -1, -1, -1, 0, -1, -1, trace_nobody)
                self.place_room += 1
        return code

    cdef int32_t thread_code(self, int64_t tid) noexcept nogil:
        cdef int32_t code = intern(&self.tables[IDS_OF_THREADS], <const char*>&tid, 8, 0)
        cdef int32_t room
        cdef void *grown
        if code >= self.thread_room:
            room = 2 * self.thread_room + 256
            grown = realloc(self.open_calls, <size_t>room * 8)
            if grown == NULL:
                return -1
            self.open_calls = <int64_t*>grown
            grown = realloc(self.gone, <size_t>room)
            if grown == NULL:
                return -1
            self.gone = <char*>grown
            while self.thread_room < room:
                self.open_calls[self.thread_room] = -1
                self.gone[self.thread_room] = 0
                self.thread_room += 1
        return code

    cdef void note_exit(self, int32_t thread, int64_t tid) noexcept nogil:
        # each CPU has an idle task, which none of them leaves for good
        self.gone[thread] = tid != 0

    cdef void note_birth(self, int32_t thread, int64_t tid, int64_t time_ns) noexcept nogil:
        if self.gone[thread]:
            self.gone[thread] = 0
            with gil:
                self.used_again.append((tid, time_ns))

    cdef bint add_task(self, const perf_header *header, const char *end) noexcept nogil:
        """Note that a thread exits or is new, as in `PERF_RECORD_EXIT(PID:TID):(PID:TID)`."""
        cdef const char *at = header.rest + 12
        cdef int64_t pid = -1, tid = -1
        cdef bint is_exit = end - at > 5 and memcmp(at, b"EXIT(", 5) == 0
        if not is_exit and not (end - at > 5 and memcmp(at, b"FORK(", 5) == 0):
            return True
        at = trace_number(at + 5, end, &pid)
        if at == NULL or at >= end or at[0] != b":":
            return True
        at = trace_number(at + 1, end, &tid)
        if at == NULL or at >= end or at[0] != b")" or tid < 0:
            return True
        return self.note_task(is_exit, tid, header.time_ns)

    cdef bint note_task(self, bint is_exit, int64_t tid, int64_t time_ns) noexcept nogil:
        """Note that a thread exits or is new."""
        cdef int32_t thread = self.thread_code(tid)
        if thread < 0:
            return False
        if is_exit:
            self.note_exit(thread, tid)
        else:
            self.note_birth(thread, tid, time_ns)
        return True

    cdef bint begin(
        self, const perf_header *header, const perf_counted *counted, const char *tail,
        const char *end, Columns *out,
    ) noexcept nogil:
        cdef int32_t thread = intern(
            &self.tables[THREADS], header.begin, header.bytes,
            header.comm_bytes * 2 + (header.bytes > header.comm_bytes),
        )
        cdef int32_t event = -1
        if counted.event != NULL:
            event = intern(&self.tables[EVENTS], counted.event, counted.event_bytes, 0)
            if event >= self.event_room and not self.add_event(event):
                return False
        if header.time_ns < self.last_ns:
            self.steps_back += 1
            self.far_steps_back += self.last_ns - header.time_ns > FAR_NS
        out.time_ns[out.rows] = self.last_ns = header.time_ns
        out.period[out.rows] = counted.period
        out.thread[out.rows] = thread
        out.cpu[out.rows] = header.cpu
        out.event[out.rows] = event
        if out.tail != NULL:
            out.tail[2 * out.rows] = min(tail, end) - out.text
            out.tail[2 * out.rows + 1] = end - out.text
        self.open_count = self.open_unknown = self.open_unread = 0
        self.after_frames = False
        self.wants_leaf = not self.with_stacks and is_idle_task(header)
        self.open_header = header[0]
        self.open_event = event
        self.open_thread = thread
        self.open_tail = min(tail, end)
        self.open_end = end
        return thread >= 0 and (counted.event == NULL or event >= 0)

    cdef bint add_event(self, int32_t code) noexcept nogil:
        """Find out what the events from this code on are."""
        cdef int32_t room = 2 * code + 64, each
        cdef void *grown = realloc(self.kind_of, <size_t>room * sizeof(int32_t))
        if grown == NULL:
            return False
        self.kind_of = <int32_t*>grown
        grown = realloc(self.call_of, <size_t>room * sizeof(int32_t))
        if grown == NULL:
            return False
        self.call_of = <int32_t*>grown
        for each in range(self.event_room, room):
            self.kind_of[each] = UNKNOWN_KIND
        self.event_room = room
        return True

    cdef int find_kind(self, int32_t event) noexcept nogil:
        """Return what an event is, found out when it is first needed; -1 without memory."""
        cdef intern_table *events = &self.tables[EVENTS]
        cdef const char *begin
        cdef const char *bare = NULL
        cdef uint32_t size
        cdef size_t prefix
        if self.kind_of[event] == UNKNOWN_KIND:
            begin = events.bytes + events.offsets[event]
            size = <uint32_t>(events.offsets[event + 1] - events.offsets[event])
            self.kind_of[event] = trace_kind(begin, size, self.layout & PERF_FTRACE, &bare)
            self.call_of[event] = -1
            if self.kind_of[event] == TRACE_WAKE:
                # sched_wakeup, not sched_waking
                self.call_of[event] = bare[11] == b"p"
            size -= <uint32_t>(bare - begin)
            if self.kind_of[event] in (TRACE_SENT, TRACE_RECEIVED):
                self.call_of[event] = intern(&self.tables[NAMES], bare, size, 0)
            prefix = 10 if self.kind_of[event] == TRACE_CALL else 9
            if self.kind_of[event] in (TRACE_CALL, TRACE_CALL_END) and size > prefix:
                self.call_of[event] = intern(
                    &self.tables[NAMES], bare + prefix, size - prefix, 0
                )
                if self.call_of[event] < 0:
                    return -1
        return self.kind_of[event]

    cdef trace_record *new_record(self) noexcept nogil:
        cdef int64_t room
        if self.record_count == self.record_room:
            # in few steps: what is not used takes no memory, and what is moved does
            room = 4 * self.record_room + 16384
            if not column_grow(<void**>&self.records_found, room, sizeof(trace_record)):
                return NULL
            self.record_room = room
        self.record_count += 1
        return &self.records_found[self.record_count - 1]

    cdef bint put_lost(self, int32_t cpu, int64_t to_ns) noexcept nogil:
        """Add a record of what was lost of a CPU, until a time."""
        cdef cpu_place *place = &self.places[cpu]
        cdef int64_t from_ns = min(place.lost_from_ns, to_ns)
        cdef trace_record *record
        with gil:
            self.lost.append((from_ns, to_ns, place.lost))
        # before the first event of a CPU everything is unknown
        if from_ns >= 0:
            record = self.new_record()
            if record == NULL:
                return False
            record[0] = trace_record(from_ns, to_ns, -1, -1, -1, cpu, 0, 0, 0, TRACE_LOST)
        place.lost = 0
        place.irq = place.softirq = -1
        if not self.put_ran(cpu):
            return False
        place.here = trace_nobody
        place.here.switch_ns = place.switch_ns
        return True

    cdef bint put_ran(self, int32_t cpu) noexcept nogil:
        """Add a record of the thread that the last lines of a CPU name, which nothing follows."""
        cdef trace_presence *here = &self.places[cpu].here
        cdef trace_record *record
        if not self.has_switches or not trace_proves(here):
            return True
        record = self.new_record()
        if record == NULL:
            return False
        record[0] = trace_ran(here, cpu)
        here.thread = -1
        return True

    cdef bint add_named(self, cpu_place *place, int32_t cpu) noexcept nogil:
        """Add that the open sample names the thread that its CPU runs."""
        cdef perf_header *header = &self.open_header
        cdef int32_t thread
        cdef int32_t room
        cdef void *grown
        cdef trace_record ran
        cdef trace_record *record
        if header.is_guess:
            return True
        if self.open_thread >= self.named_room:
            room = 2 * self.open_thread + 256
            grown = realloc(self.thread_of, <size_t>room * sizeof(int32_t))
            if grown == NULL:
                return False
            self.thread_of = <int32_t*>grown
            while self.named_room < room:
                self.thread_of[self.named_room] = NOT_NEEDED
                self.named_room += 1
        thread = self.thread_of[self.open_thread]
        if thread == NOT_NEEDED:
            self.find_thread()
            thread = -1
            # ftrace names the idle task, unless it is not known who ran
            if header.tid >= 0 and not (
                header.tid == 0 and header.comm_bytes == 5 and memcmp(header.begin, b"<...>", 5) == 0
            ):
                thread = self.thread_code(header.tid)
                if thread < 0:
                    return False
            self.thread_of[self.open_thread] = thread
        if thread >= 0 and trace_named(&place.here, cpu, thread, header.time_ns, &ran):
            record = self.new_record()
            if record == NULL:
                return False
            record[0] = ran
        return True

    cdef void find_thread(self) noexcept nogil:
        """Read the id of the open sample's thread, which ftrace lines have been read with."""
        cdef perf_header *header = &self.open_header
        cdef const char *last = header.begin + header.bytes
        if not self.layout & PERF_FTRACE:
            header.tid = -1
            if header.bytes > header.comm_bytes:
                trace_number(perf_back_digits(header.begin, last), last, &header.tid)

    cdef bint is_since_switch(self, int64_t row, const cpu_place *place) noexcept nogil:
        """Return whether an interrupt that is open began after the last switch of its CPU.

        CPUs do not switch in an interrupt: the end of one that began before was not recorded.
        """
        return row >= 0 and self.records_found[row].time_ns >= place.switch_ns

    cdef bint add_record(self) noexcept nogil:
        """Add what the open sample says of CPUs and threads, if its fields can be read."""
        cdef perf_header *header = &self.open_header
        cdef const char *at = self.open_tail
        cdef const char *end = self.open_end
        cdef const char *found
        cdef int kind
        cdef int32_t cpu = -1
        cdef cpu_place *place = NULL
        cdef perf_switch switched
        cdef trace_wake wake
        cdef trace_request request
        cdef trace_packet packet
        cdef trace_record made, ran
        cdef trace_record *record
        cdef int64_t *opened = NULL
        cdef int64_t number = 0
        if header.cpu >= 0:
            cpu = self.cpu_code(header.cpu)
            if cpu < 0:
                return False
            place = &self.places[cpu]
            self.cpu_steps_back += header.time_ns < place.last_ns
            if place.lost and not self.put_lost(cpu, header.time_ns):
                return False
            if place.first_ns < 0:
                place.first_ns = header.time_ns
            place.last_ns = max(place.last_ns, header.time_ns)
            if not self.add_named(place, cpu):
                return False
        kind = TRACE_OTHER if self.open_event < 0 else self.find_kind(self.open_event)
        if kind < 0:
            return False
        if kind == TRACE_OTHER:
            return True
        self.find_thread()
        made = trace_record(header.time_ns, -1, -1, -1, -1, cpu, 0, 0, 0, kind)
        at = perf_skip(at, end)
        if kind == TRACE_SWITCH:
            if cpu < 0:
                return True
            if at >= end or not perf_read_switch(at, end, &switched):
                self.unread_fields += 1
                return True
            made.thread = self.thread_code(switched.prev)
            made.other = self.thread_code(switched.next)
            made.number = <unsigned char>switched.state
            made.prio, made.other_prio = switched.prev_prio, switched.next_prio
            made.name = intern(&self.tables[NAMES], switched.next_comm, switched.next_bytes, 0)
            if made.thread < 0 or made.other < 0 or made.name < 0:
                return False
            self.note_birth(made.other, switched.next, header.time_ns)
            if switched.state == c"X" or switched.state == c"Z" or switched.state == c"x":
                self.note_exit(made.thread, switched.prev)
            place.switch_ns = header.time_ns
            self.has_switches = True
            if trace_switched(
                &place.here, cpu, made.thread, made.other, header.time_ns, &ran
            ):
                record = self.new_record()
                if record == NULL:
                    return False
                record[0] = ran
        else:
            if header.tid >= 0:
                made.thread = self.thread_code(header.tid)
                if made.thread < 0:
                    return False
            if kind == TRACE_WAKE or kind == TRACE_NEW:
                if cpu < 0:
                    return True
                if not trace_read_wake(at, end, &wake):
                    self.unread_fields += 1
                    return True
                made.other = self.thread_code(wake.tid)
                made.name = intern(&self.tables[NAMES], wake.comm, wake.bytes, 0)
                made.number, made.other_prio = <int32_t>wake.cpu, <int32_t>wake.prio
                if kind == TRACE_WAKE:
                    made.value = self.call_of[self.open_event]
                # threads do not wake others in an interrupt, which runs while they are current
                if header.context or self.is_since_switch(place.irq, place) or (
                    self.is_since_switch(place.softirq, place)
                ):
                    made.thread = -1
                if made.other < 0 or made.name < 0:
                    return False
                if kind == TRACE_NEW:
                    self.note_birth(made.other, wake.tid, header.time_ns)
            elif kind == TRACE_MARK:
                found = trace_after(at, end, b": ")
                if found != NULL and found - at == 20 and memcmp(at, b"tracing_mark_write", 18) == 0:
                    at = found
                made.name = intern(&self.tables[NAMES], at, <size_t>(end - at), 0)
                if made.name < 0:
                    return False
            elif kind == TRACE_BEGIN or kind == TRACE_END:
                if not self.read_function(&made, at, end):
                    return False
            elif kind == TRACE_ISSUE or kind == TRACE_COMPLETE:
                if not trace_read_request(at, end, &request):
                    self.unread_fields += 1
                    return True
                made.name = intern(
                    &self.tables[NAMES], request.device, request.device_bytes, 0
                )
                made.other = intern(&self.tables[NAMES], request.kind, request.kind_bytes, 0)
                made.value, made.number = request.sector, <int32_t>min(request.sectors, INT32_MAX)
                if made.name < 0 or made.other < 0:
                    return False
            elif kind == TRACE_SENT or kind == TRACE_RECEIVED:
                # only LTTng says which packet it is
                if not trace_read_packet(at, end, &packet):
                    return True
                made.value = <int64_t>(<uint64_t>packet.seq << 32 | packet.ack)
                made.number = <int32_t>packet.flags
                made.name = self.call_of[self.open_event]
                if made.name < 0:
                    return False
            else:
                if kind == TRACE_CALL or kind == TRACE_CALL_END:
                    if made.thread < 0:
                        return True
                    opened = &self.open_calls[made.thread]
                    made.name = self.call_of[self.open_event]
                    if made.name < 0:
                        if end - at > 3 and memcmp(at, b"NR ", 3) == 0:
                            at += 3
                        found = at
                        while found < end and perf_digit(found[0]):
                            found += 1
                        made.name = intern(&self.tables[NAMES], at, <size_t>(found - at), 0)
                else:
                    if cpu < 0:
                        return True
                    if kind == TRACE_SOFTIRQ or kind == TRACE_SOFTIRQ_END:
                        opened = &place.softirq
                        found = trace_after(at, end, b"action=")
                        if found != NULL and end > found and (end - 1)[0] == b"]":
                            end -= 1
                    else:
                        opened = &place.irq
                        found = trace_after(at, end, b"name=")
                        if trace_after(at, end, b"irq=") != NULL:
                            trace_number(trace_after(at, end, b"irq="), end, &number)
                            made.number = <int32_t>min(number, INT32_MAX)
                    if found == NULL:
                        found = at
                    if kind == TRACE_IRQ or kind == TRACE_SOFTIRQ:
                        made.name = intern(
                            &self.tables[NAMES], found, <size_t>(perf_back(found, end) - found), 0
                        )
                if kind > TRACE_SOFTIRQ:
                    if opened[0] < 0 or self.records_found[opened[0]].time_ns > header.time_ns or (
                        kind == TRACE_CALL_END
                        and self.records_found[opened[0]].name != made.name
                    ):
                        self.unmatched_ends += 1
                    else:
                        self.records_found[opened[0]].value = header.time_ns
                    opened[0] = -1
                    return True
                if made.name < 0:
                    return False
                opened[0] = self.record_count
        record = self.new_record()
        if record == NULL:
            return False
        record[0] = made
        return True

    cdef bint read_function(self, trace_record *made, const char *at, const char *end) noexcept nogil:
        """Read the function of a line of function_graph, and how long it took if that is all of it."""
        cdef const char *bar = trace_after(at, end, b"|")
        cdef const char *name
        cdef const char *stop
        cdef int64_t whole = 0, part = 0, scale
        if bar == NULL:
            name = trace_after(at, end, b"func=")
            if name == NULL:
                name = at
            stop = name
            while stop < end and stop[0] != b" ":
                stop += 1
        else:
            name = perf_skip(bar, end)
            stop = perf_back(name, end)
            if made.kind == TRACE_BEGIN and stop > name and (stop - 1)[0] == b";":
                made.kind = TRACE_LEAF
                while at < bar and not perf_digit(at[0]):
                    at += 1
                at = trace_number(at, bar, &whole)
                if at < bar and at[0] == b".":
                    at += 1
                    scale = 100
                    while at < bar and perf_digit(at[0]) and scale:
                        part += (at[0] - 48) * scale
                        scale //= 10
                        at += 1
                made.value = min(whole, <int64_t>1_000_000_000_000) * 1000 + part
            if made.kind != TRACE_END:
                at = trace_after(name, stop, b"()")
                if at != NULL:
                    stop = at - 2
        made.name = intern(&self.tables[NAMES], name, <size_t>(stop - name), 0)
        return made.name >= 0

    cdef bint push_frame(self, const char *at, size_t size, uint32_t is_file) noexcept nogil:
        return self.push_code(intern(&self.tables[FRAMES], at, size, is_file))

    cdef bint push_code(self, int32_t frame) noexcept nogil:
        """Add a frame to the open sample; False without memory, for which a negative code stands."""
        cdef int32_t *grown
        cdef Py_ssize_t room
        if self.open_count == self.open_room:
            room = 2 * self.open_room + 64
            grown = <int32_t*>realloc(self.open_frames, <size_t>room * sizeof(int32_t))
            if grown == NULL:
                return False
            self.open_frames = grown
            self.open_room = room
        self.open_frames[self.open_count] = frame
        self.open_count += 1
        return frame >= 0

    cdef bint add_only_frame(self, const char *at, const char *end) noexcept nogil:
        """Add the frame on the line of the event itself."""
        cdef perf_frame frame
        return not perf_read_frame(at, end, &frame) or self.push_frame(
            frame.name, frame.bytes, frame.is_file
        )

    cdef bint add_frame(self, const char *line, const char *end) noexcept nogil:
        """Add a line that belongs to the open sample."""
        cdef perf_frame frame
        cdef bint indented = line[0] == b"\t" or line[0] == b" "
        if indented and not (self.with_stacks or self.wants_leaf):
            self.after_frames = True
            return True
        if not perf_read_frame(line, end, &frame):
            # Other lines among frames belong to them: source lines, registers.
            self.open_unknown += not (indented or self.after_frames)
            return True
        if not self.after_frames:
            # the stack has the frame of the event's line, too
            self.open_count = 0
        self.after_frames = True
        if not (self.with_stacks or self.wants_leaf):
            return True
        # frames without a name show nothing
        if self.wants_leaf and frame.bytes and not frame.is_file:
            self.wants_leaf = frame.name[0] == b"["
        if frame.bytes > 3 and frame.name[0] == b"L":
            return self.push_inlined(frame.name, frame.bytes, frame.is_file)
        return self.push_frame(frame.name, frame.bytes, frame.is_file)

    cdef bint push_inlined(self, const char *name, size_t size, uint32_t is_file) noexcept nogil:
        """Add the methods of Java in a frame: `La/A;::a->Lb/B;::b` is `b`, which `a` called inline."""
        cdef size_t at = size
        while at > 3:
            at -= 1
            if name[at - 2] == b"-" and name[at - 1] == b">" and name[at] == b"L":
                if not self.push_frame(name + at, size - at, is_file):
                    return False
                size = at = at - 2
        return self.push_frame(name, size, is_file)

    cdef bint close(self, Columns *out) noexcept nogil:
        """Give the open sample its stack."""
        cdef int32_t stack = self.stack_of(self.open_frames, self.open_count)
        if stack < -1:
            return False
        # now, as a sample that is cut off by its block is read again
        if self.with_records and not self.add_record():
            return False
        out.stack[out.rows] = stack
        out.rows += 1
        self.unknown_lines += self.open_unknown
        self.unread_headers += self.open_unread
        return True

    cdef int32_t stack_of(self, const int32_t *frames, Py_ssize_t count) noexcept nogil:
        """Return the stack of frames, which come innermost first; -1 if there are none, -2 without memory."""
        cdef int32_t stack = -1
        cdef Py_ssize_t i
        for i in range(count - 1, -1, -1):
            stack = intern(
                &self.tables[STACKS], <const char*>&frames[i], sizeof(int32_t), <uint32_t>(stack + 1)
            )
            if stack < 0:
                return -2
        return stack

    cdef bint add_lost(self, const perf_header *header, const char *end) noexcept nogil:
        """Add what perf says that it lost of the ring of a CPU until a time."""
        cdef const char *at = header.rest
        cdef int64_t count = 0, limit = <int64_t>1 << 50
        while at < end and not perf_digit(at[0]):
            at += 1
        while at < end and perf_digit(at[0]) and count < limit:
            count = count * 10 + (at[0] - 48)
            at += 1
        return self.add_loss(header.cpu, header.time_ns, count or 1)

    cdef bint add_loss(self, int32_t cpu, int64_t until_ns, int64_t count) noexcept nogil:
        """Add that so many events of a CPU were lost until a time; -1 is an unknown CPU."""
        cdef int32_t code
        if cpu < 0 or not self.with_records:
            with gil:
                self.lost.append((self.last_ns, until_ns, count))
            return True
        code = self.cpu_code(cpu)
        if code < 0:
            return False
        self.places[code].lost = count
        self.places[code].lost_from_ns = self.places[code].last_ns
        return self.put_lost(code, until_ns)

    def threads_from(self, int32_t first) -> list[tuple[bytes, bytes | None]]:
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

    def records_so_far(self) -> npt.NDArray[np.void]:
        """Return what the samples say of CPUs and threads, as an array of RECORD_TYPE.

        It is of the memory of this object, which finds no more of them afterwards.
        """
        if not self.record_count:
            return np.empty(0, RECORD_TYPE)
        return np.frombuffer(self, RECORD_TYPE)

    def __getbuffer__(self, Py_buffer *view, int flags):
        self.with_records = False
        PyBuffer_FillInfo(
            view, self, self.records_found, self.record_count * sizeof(trace_record), True, flags
        )

    def ids_so_far(self) -> tuple[Int64s, Int32s]:
        """Return the ids of threads, and the numbers of CPUs, by code."""
        return (
            np.frombuffer(self.all_of(&self.tables[IDS_OF_THREADS]), np.int64),
            np.frombuffer(self.all_of(&self.tables[IDS_OF_CPUS]), np.int32),
        )

    def first_times(self) -> Int64s:
        """Return the time of the first event of each CPU that has one."""
        return np.array([
            self.places[code].first_ns for code in range(self.tables[IDS_OF_CPUS].count)
            if self.places[code].first_ns >= 0
        ], np.int64)

    cdef bytes all_of(self, const intern_table *table):
        return table.bytes[:table.offsets[table.count]] if table.count else b""

    def names_so_far(self) -> list[bytes]:
        """Return the names of records."""
        return [self.text_of(&self.tables[NAMES], code) for code in range(self.tables[NAMES].count)]

    def events_from(self, int32_t first) -> list[bytes]:
        """Return the names of the events from this code on."""
        return [self.text_of(&self.tables[EVENTS], code) for code in range(first, self.tables[EVENTS].count)]

    def are_others(self) -> list[bool]:
        """Return by code of an event whether no record is made of it."""
        return [
            self.find_kind(code) == TRACE_OTHER for code in range(self.tables[EVENTS].count)
        ]

    def frames_so_far(self) -> list[tuple[bytes, bool]]:
        """Return each frame's name, and whether it is that of a file as the function is unknown."""
        return [
            (self.text_of(&self.tables[FRAMES], code), bool(self.tables[FRAMES].contexts[code]))
            for code in range(self.tables[FRAMES].count)
        ]

    def stacks_so_far(self) -> tuple[Int32s, Int32s]:
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
