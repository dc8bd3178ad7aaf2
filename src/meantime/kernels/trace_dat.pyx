"""The ring buffers of trace-cmd's files to columns; see ring_buffer.h.

Each CPU has pages of its own, in order of time. Its next event waits for those of the others, so
events are taken in order of time from a heap of CPUs.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

import os

import numpy as np

from meantime.kernels.intern cimport (
    intern_add,
    intern_find,
    intern_free,
    intern_grow,
    intern_table,
    intern_text,
    intern_text_of,
)
from meantime.kernels.perf cimport Columns, perf_counted, perf_header
from meantime.kernels.tracepoints cimport (
    RAW_FIELDS,
    RAW_FUNCTION,
    RAW_GRAPH,
    RAW_SWITCH,
    RawText,
    raw_characters,
    raw_event,
    raw_field,
    raw_format,
    raw_of,
    raw_put,
    raw_text,
    raw_u16,
    raw_u32,
)

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "ring_buffer.h" nogil:
    ctypedef struct ring_cursor:
        uint8_t *pages
        int64_t used, room, page
        uint64_t time_ns
        const uint8_t *event
        uint32_t event_bytes
        int64_t missed
        int32_t cpu
        int is_last
    ctypedef struct ring_form:
        int64_t page_bytes, commit_bytes
        int is_swapped, is_big
    int ring_next(ring_cursor *cursor, const ring_form *form)

# Why a scan stops, beside the number of a CPU that needs pages.
FULL, ENDED, WANTS_FUNCTIONS = -1, -2, -3

cdef enum:
    STOP_FULL = -1
    STOP_ENDED = -2
    STOP_FUNCTIONS = -3
    STOP_MEMORY = -4
    MOST_COMM = 64
    COMMON_BYTES = 8


# Half of the range, so that the sum of two times fits.
cdef int64_t MOST_NS = <int64_t>1 << 62


cdef struct thread_text:
    uint32_t comm_bytes, bytes
    int is_named
    char text[96]


cdef class TraceDat(RawText):
    """Takes the events of all CPUs in order of time."""

    cdef ring_cursor *cursors
    cdef int32_t cursor_count, ready
    cdef int32_t *heap
    cdef int32_t heap_count
    cdef bint top_is_taken
    cdef ring_form form
    cdef int64_t shift_ns
    cdef int32_t *format_of  # by the number of an event
    cdef int64_t most_number
    cdef bytes event_names
    cdef const char *names_of_events
    cdef object event_ends
    cdef const int32_t *ends_of_events
    cdef intern_table by_id
    cdef thread_text *threads
    cdef int64_t threads_room
    cdef object starts, stops, function_names
    cdef const int64_t *function_start
    cdef const int64_t *function_stop
    cdef const char *functions_text
    cdef int64_t function_count
    cdef bint has_functions
    cdef readonly int64_t malformed_pages, undefined, untimed, missed

    def __cinit__(self, int layout, bint with_stacks, bint with_records):
        self.by_id.seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
        if not intern_grow(&self.by_id):
            raise MemoryError

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.cursor_count):
            free(self.cursors[i].pages)
        free(self.cursors)
        free(self.heap)
        free(self.format_of)
        free(self.threads)
        intern_free(&self.by_id)

    def begin_buffers(
        self, list cpus: list[int], int64_t page_bytes, int64_t commit_bytes, int64_t shift_ns,
        bint is_big
    ) -> None:
        """Set the CPU of each buffer, the size of pages and of a long in their headers, and what is
        added to times.
        """
        cdef int32_t i, count = len(cpus)
        if self.cursors != NULL or page_bytes < 64 or commit_bytes not in (4, 8):
            raise ValueError("there are buffers already, or their form is unknown")
        self.cursors = <ring_cursor*>calloc(<size_t>count + 1, sizeof(ring_cursor))
        self.heap = <int32_t*>calloc(<size_t>count + 1, sizeof(int32_t))
        if self.cursors == NULL or self.heap == NULL:
            raise MemoryError
        self.form = ring_form(page_bytes, commit_bytes, self.is_swapped, is_big)
        for i in range(count):
            self.cursors[i].cpu = cpus[i]
            self.cursors[i].page = -1
        self.cursor_count = count
        self.shift_ns = shift_ns

    def name_events(self, list events: list[tuple[int, bytes]]) -> None:
        """Set the number and the name of the event of each format."""
        cdef int64_t number
        cdef int32_t place
        if len(events) != self.format_count or self.format_of != NULL:
            raise ValueError("each format must have its event, once")
        self.most_number = max((each for each, _ in events), default=0)
        if not 0 <= self.most_number < 1 << 24:
            raise ValueError("the number of an event is too large")
        self.format_of = <int32_t*>calloc(<size_t>self.most_number + 1, sizeof(int32_t))
        if self.format_of == NULL:
            raise MemoryError
        ends, names = [0], bytearray()
        for place, (number, name) in enumerate(events):
            if number >= 0:
                # 0 stands for none
                self.format_of[number] = place + 1
            names += name
            ends.append(len(names))
        self.event_names = bytes(names)
        self.names_of_events = self.event_names
        self.event_ends = np.array(ends, np.int32)
        self.ends_of_events = <const int32_t*>INT32_ITEMS(self.event_ends, NULL)

    def name_threads(self, list threads: list[tuple[int, bytes]]) -> None:
        """Set the names of threads that are known before."""
        cdef thread_text *thread
        for tid, name in threads:
            thread = self.thread_of_id(<int32_t>tid)
            if thread == NULL:
                raise MemoryError
            self.name_thread(thread, <int32_t>tid, name, <uint32_t>min(len(name), MOST_COMM))

    def set_functions(self, starts: Int64s, stops: Int64s, bytes names) -> None:
        """Set where functions begin, ascending, and where the name of each ends in all names."""
        cdef Py_ssize_t count, others
        self.function_start = <const int64_t*>INT64_ITEMS(starts, &count)
        self.function_stop = <const int64_t*>INT64_ITEMS(stops, &others)
        if count != others:
            raise ValueError("each function must have its name")
        if count and not (0 <= stops.min() and stops.max() <= len(names)
                          and (np.diff(stops, prepend=0) >= 0).all()):
            raise ValueError("the names of functions must be in order")
        self.starts, self.stops, self.function_names = starts, stops, names
        self.functions_text = names
        self.function_count = count
        self.has_functions = True

    def feed(self, int32_t which, const unsigned char[::1] pages: memoryview, bint is_last) -> None:
        """Add whole pages to those of a buffer that needs them; after the last ones come no more."""
        cdef ring_cursor *cursor
        cdef int64_t kept, size = pages.shape[0]
        cdef void *grown
        if not 0 <= which < self.cursor_count:
            raise ValueError("there is no such buffer")
        cursor = &self.cursors[which]
        if cursor.event != NULL or size % self.form.page_bytes:
            raise ValueError("a buffer that needs none was fed, or with less than pages")
        # the pages before are read
        cursor.used = 0
        cursor.page = -1
        if size > cursor.room:
            grown = realloc(cursor.pages, <size_t>size)
            if grown == NULL:
                raise MemoryError
            cursor.pages = <uint8_t*>grown
            cursor.room = size
        if size:
            memcpy(cursor.pages, &pages[0], <size_t>size)
        cursor.used = size
        cursor.is_last = is_last

    def scan_buffers(
        self, int64_t[::1] time_ns, int64_t[::1] period, int32_t[::1] thread, int32_t[::1] cpu,
        int32_t[::1] event, int32_t[::1] stack, int64_t[:, ::1] tail: Int64s | None,
        Py_ssize_t first
    ) -> tuple[int, int]:
        """Fill rows from one on, and return how many are filled, and why not more.

        That is the number of a buffer that needs pages, `FULL`, `ENDED`, or `WANTS_FUNCTIONS`.
        """
        cdef Py_ssize_t room = time_ns.shape[0]
        if room < 1 or not (
            room == period.shape[0] == thread.shape[0] == cpu.shape[0] == event.shape[0]
            == stack.shape[0]
        ):
            raise ValueError("the columns must have one length, at least 1")
        if self.format_of == NULL or not 0 <= first <= room:
            raise ValueError("there are no events, or no such row")
        cdef Columns out = Columns(
            &time_ns[0], &period[0], &thread[0], &cpu[0], &event[0], &stack[0], NULL, NULL, first, room
        )
        if tail is not None:
            if tail.shape[0] != room or tail.shape[1] != 2:
                raise ValueError("the tail must have a row of two for each row of the columns")
            out.tail = &tail[0, 0]
        cdef int why
        if not first:
            self.text.used = 0
        with nogil:
            why = self.scan_all(&out)
        if why == STOP_MEMORY:
            raise MemoryError
        return out.rows, why

    cdef int scan_all(self, Columns *out) noexcept nogil:
        cdef ring_cursor *cursor
        cdef int why
        while self.ready < self.cursor_count:
            why = self.advance(self.ready)
            if why >= 0:
                return why
            if why == STOP_MEMORY:
                return why
            if self.cursors[self.ready].event != NULL:
                self.heap[self.heap_count] = self.ready
                self.heap_count += 1
                self.sift_up()
            self.ready += 1
        while True:
            if self.top_is_taken:
                why = self.advance(self.heap[0])
                if why >= 0 or why == STOP_MEMORY:
                    return why
                if self.cursors[self.heap[0]].event == NULL:
                    self.heap_count -= 1
                    self.heap[0] = self.heap[self.heap_count]
                self.sift_down()
                self.top_is_taken = False
            if not self.heap_count:
                return STOP_ENDED if not self.with_records or self.end_cpus() else STOP_MEMORY
            if out.rows == out.room:
                return STOP_FULL
            cursor = &self.cursors[self.heap[0]]
            why = self.take(cursor, out)
            if why:
                return why
            self.top_is_taken = True

    cdef int advance(self, int32_t which) noexcept nogil:
        """Find the next event of a buffer; return its number if it needs pages, else below 0."""
        cdef ring_cursor *cursor = &self.cursors[which]
        cdef int got = -1
        while got < 0:
            got = ring_next(cursor, &self.form)
            self.malformed_pages += got < 0
        if got == 0 and not cursor.is_last:
            return which
        return STOP_ENDED

    cdef bint is_before(self, int32_t one, int32_t other) noexcept nogil:
        cdef uint64_t a = self.cursors[one].time_ns, b = self.cursors[other].time_ns
        return a < b or (a == b and one < other)

    cdef void sift_up(self) noexcept nogil:
        cdef int32_t at = self.heap_count - 1, above, moved
        while at:
            above = (at - 1) // 2
            if not self.is_before(self.heap[at], self.heap[above]):
                break
            moved = self.heap[at]
            self.heap[at] = self.heap[above]
            self.heap[above] = moved
            at = above

    cdef void sift_down(self) noexcept nogil:
        cdef int32_t at = 0, least, moved
        while True:
            least = 2 * at + 1
            if least >= self.heap_count:
                break
            if least + 1 < self.heap_count and self.is_before(self.heap[least + 1], self.heap[least]):
                least += 1
            if not self.is_before(self.heap[least], self.heap[at]):
                break
            moved = self.heap[at]
            self.heap[at] = self.heap[least]
            self.heap[least] = moved
            at = least

    cdef thread_text *thread_of_id(self, int32_t tid) noexcept nogil:
        """Return the text of a thread, without a name if it is new; NULL without memory."""
        cdef intern_text key = intern_text_of(<const char*>&tid, 4)
        cdef int32_t code = intern_find(&self.by_id, &key, 0)
        cdef int64_t room
        cdef void *grown
        if code >= 0:
            return &self.threads[code]
        code = intern_add(&self.by_id, &key, 0)
        if code < 0:
            return NULL
        if code >= self.threads_room:
            room = 2 * <int64_t>code + 64
            grown = realloc(self.threads, <size_t>room * sizeof(thread_text))
            if grown == NULL:
                return NULL
            self.threads = <thread_text*>grown
            self.threads_room = room
        if tid:
            self.name_thread(&self.threads[code], tid, b"<...>", 5)
        else:
            self.name_thread(&self.threads[code], tid, b"<idle>", 6)
        self.threads[code].is_named = tid == 0
        return &self.threads[code]

    cdef void name_thread(
        self, thread_text *thread, int32_t tid, const char *name, uint32_t size
    ) noexcept nogil:
        """Write `NAME-TID`."""
        cdef uint32_t value = <uint32_t>tid if tid >= 0 else 0
        cdef char digits[12]
        cdef int at = 12
        size = min(size, <uint32_t>MOST_COMM)
        memcpy(thread.text, name, size)
        thread.comm_bytes = size
        thread.text[size] = b"-"
        while True:
            at -= 1
            digits[at] = <char>(48 + value % 10)
            value //= 10
            if not value:
                break
        memcpy(thread.text + size + 1, digits + at, <size_t>(12 - at))
        thread.bytes = size + 1 + <uint32_t>(12 - at)
        thread.is_named = True

    cdef bint learn(self, const raw_event *event, const raw_field *fields, int32_t comm, int32_t tid) noexcept nogil:
        """Name a thread by the fields of an event, if it has no name."""
        cdef int32_t id_ = <int32_t>raw_of(event, fields, tid)
        cdef thread_text *thread = self.thread_of_id(id_)
        cdef size_t before = self.text.used
        if thread == NULL:
            return False
        if thread.is_named:
            return True
        raw_characters(&self.text, event, &fields[comm])
        if self.text.no_memory:
            return False
        if self.text.used > before:
            self.name_thread(
                thread, id_, self.text.data + before, <uint32_t>(self.text.used - before)
            )
        self.text.used = before
        return True

    cdef int take(self, ring_cursor *cursor, Columns *out) noexcept nogil:
        """Add the event of a buffer to the columns; 0, or why not."""
        cdef const uint8_t *data = cursor.event
        cdef uint32_t size = cursor.event_bytes
        cdef int64_t number = raw_u16(data, self.is_swapped) if size >= COMMON_BYTES else 0
        cdef int32_t place = self.format_of[number] - 1 if number <= self.most_number else -1
        cdef const raw_format *format_
        cdef const raw_field *fields
        cdef raw_event event
        cdef thread_text *thread
        cdef perf_header header
        cdef perf_counted counted
        cdef size_t before
        cdef const char *tail
        cdef int32_t code
        cdef int64_t time_ns
        if place < 0:
            self.undefined += 1
            return 0
        time_ns = <int64_t>cursor.time_ns + self.shift_ns
        if cursor.time_ns > <uint64_t>MOST_NS or time_ns < 0:
            self.untimed += 1
            return 0
        format_ = &self.formats[place]
        fields = &self.fields[format_.first]
        if format_.spelling in (RAW_FUNCTION, RAW_GRAPH) and not self.has_functions:
            return STOP_FUNCTIONS
        if cursor.missed:
            if not self.add_missed(cursor):
                return STOP_MEMORY
        event.data, event.size, event.is_swapped = data, size, self.is_swapped
        thread = self.thread_of_id(<int32_t>raw_u32(data + 4, self.is_swapped))
        if thread == NULL:
            return STOP_MEMORY
        memset(&header, 0, sizeof(header))
        header.begin = thread.text
        header.comm_bytes, header.bytes = thread.comm_bytes, thread.bytes
        header.time_ns = time_ns
        header.cpu = cursor.cpu
        header.tid = <int32_t>raw_u32(data + 4, self.is_swapped)
        header.context = self.context_of(data, size)
        counted.event = self.names_of_events + self.ends_of_events[place]
        counted.event_bytes = <uint32_t>(self.ends_of_events[place + 1] - self.ends_of_events[place])
        counted.period = 1
        before = self.begin_text()
        if format_.spelling == RAW_GRAPH:
            raw_put(&self.text, b"func=", 5)
            self.put_function(<uint64_t>raw_of(&event, fields, format_.named[0]))
        elif not self.write_fields(place, data, size):
            return STOP_MEMORY
        if self.text.no_memory:
            return STOP_MEMORY
        tail = self.text.data + before
        out.text = self.text.data
        if not self.begin(&header, &counted, tail, tail + (self.text.used - before), out):
            return STOP_MEMORY
        if format_.spelling == RAW_FUNCTION and self.with_stacks:
            for code in range(2):
                before = self.text.used
                self.put_function(<uint64_t>raw_of(&event, fields, format_.named[code]))
                if self.text.no_memory or not self.push_frame(
                    self.text.data + before, self.text.used - before, False
                ):
                    return STOP_MEMORY
                self.text.used = before
            # the text may have moved
            self.open_tail = self.open_end = self.text.data + self.text.used
        if not self.close(out):
            return STOP_MEMORY
        if format_.spelling == RAW_SWITCH:
            if not (
                self.learn(&event, fields, format_.named[0], format_.named[1])
                and self.learn(&event, fields, format_.named[4], format_.named[5])
            ):
                return STOP_MEMORY
        elif format_.spelling == RAW_FIELDS and format_.named[0] >= 0 and format_.named[1] >= 0:
            if not self.learn(&event, fields, format_.named[0], format_.named[1]):
                return STOP_MEMORY
        return 0

    cdef bint add_missed(self, ring_cursor *cursor) noexcept nogil:
        """Add that events of a CPU were lost before its next one."""
        cdef int64_t count = cursor.missed
        cdef int32_t code
        cursor.missed = 0
        if not self.with_records:
            with gil:
                self.lost.append((self.last_ns, self.last_ns + 1, count))
            return True
        code = self.cpu_code(cursor.cpu)
        if code < 0:
            return False
        self.places[code].lost += count
        self.places[code].lost_from_ns = self.places[code].last_ns
        return True

    cdef void put_function(self, uint64_t address) noexcept nogil:
        """Write the name of the function of an address, or the address."""
        cdef int64_t low = 0, high = self.function_count, middle, begin
        cdef int64_t shifted = <int64_t>(address ^ (<uint64_t>1 << 63))
        cdef char digits[18]
        cdef int at = 18
        # addresses are compared as numbers with a sign, so their upper bit is turned round
        while low < high:
            middle = low + (high - low) // 2
            if self.function_start[middle] <= shifted:
                low = middle + 1
            else:
                high = middle
        if low:
            begin = self.function_stop[low - 2] if low > 1 else 0
            raw_put(
                &self.text, self.functions_text + begin,
                <size_t>(self.function_stop[low - 1] - begin),
            )
            return
        while True:
            at -= 1
            digits[at] = b"0123456789abcdef"[address & 15]
            address >>= 4
            if not address:
                break
        raw_put(&self.text, b"0x", 2)
        raw_put(&self.text, digits + at, <size_t>(18 - at))
