"""The records of perf.data to columns; see perf_data.h.

Records of several CPUs come one CPU after the other, in rounds; what is in one round is not later
than what is in the next but one. So they are queued, and each round puts those in order that the
last one completed.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

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
from meantime.kernels.perf cimport FRAMES, Columns, perf_counted, perf_header
from meantime.kernels.tracepoints cimport RawText, raw_u16, raw_u32, raw_u64

cdef extern from "arrays.h":
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "perf_data.h" nogil:
    ctypedef struct timed_row:
        int64_t time_ns
        int64_t row
    bint timed_rows_sort(const timed_row *rows, int64_t count, timed_row *sorted)
    enum:
        PD_MMAP
        PD_LOST
        PD_COMM
        PD_THROTTLE
        PD_FORK
        PD_EXIT
        PD_SAMPLE
        PD_MMAP2
        PD_LOST_SAMPLES
        PD_KSYMBOL
        PD_KINDS
        PD_OF_PERF
        PD_ROUND
        PD_IP
        PD_ID
        PD_IDENTIFIER
        PD_HEADER
        PD_BUILD_ID
        PD_IDENTITY
        PD_MOST_COMM
        PD_MOST_FILE
        PD_MODE
        PD_MODE_KERNEL
        PD_MODE_USER
        PD_FORK_EXEC
        PD_HAS_BUILD_ID
    const uint64_t PD_CONTEXT_MOST
    const uint64_t PD_CONTEXT_KERNEL
    const uint64_t PD_CONTEXT_USER
    ctypedef struct pd_attr:
        uint64_t sample_type, read_format, period
        int32_t event, format
        int has_ids_at_end
        int is_tracepoint
    ctypedef struct pd_sample:
        uint64_t id, ip, time, period
        int32_t pid, tid, cpu
        const uint8_t *chain
        const uint8_t *raw
        uint64_t chain_count
        uint32_t raw_bytes
        int has_time, has_tid, is_unwound_later
    ctypedef struct pd_map:
        uint64_t start, end, shift
        int32_t file
        int32_t unused
    ctypedef struct pd_maps:
        int32_t users
    ctypedef struct pd_thread:
        int32_t pid, tid
        uint32_t comm_bytes, bytes
        int is_named, has_exited
        char text[96]
    bint pd_read_end(
        const uint8_t *record, const uint8_t *end, uint64_t type, int is_swapped, pd_sample *found
    )
    bint pd_read_sample(
        const uint8_t *record, const uint8_t *end, const pd_attr *attr, int is_swapped,
        pd_sample *found,
    )
    const pd_map *pd_find_map(pd_maps *maps, uint64_t address)
    int pd_add_map(pd_maps *maps, const pd_map *added, int64_t *in_all)
    void pd_leave_maps(pd_maps *maps, int64_t *in_all)
    pd_maps *pd_own_maps(pd_maps *maps, int64_t *in_all)
    void pd_write_ids(pd_thread *thread)

# Why `push` stops, beside the type of a record that is perf's own.
MORE = 0
MALFORMED = -1
UNREADABLE = -2

OF_PERF = PD_OF_PERF

# What a file of code is: that of a process or of the kernel, the name of a function, or memory
# into which a program compiles.
USER_FILE, KERNEL_FILE, FUNCTION, COMPILED = 0, 1, 2, 3

cdef enum:
    KIND_USER
    KIND_KERNEL
    KIND_FUNCTION
    KIND_COMPILED

cdef enum:
    NO_FILE = -1
    # The place of what is not in a file; it is the first one.
    UNKNOWN_PLACE = 0

cdef enum:
    IDS
    PROCESSES
    THREADS_BY_ID
    FILES
    PLACES
    OWN_TABLES


# So few records are not worth a scan; and of so many addresses the place is remembered.
cdef enum:
    FEW = 1 << 15
    REMEMBERED = 1 << 14


cdef struct known_place:
    uint64_t address
    const pd_maps *maps
    int64_t version
    int32_t place
    int32_t mode


cdef struct place_key:
    uint64_t address
    int32_t file
    int32_t unused


cdef int32_t coded(intern_table *table, const void *at, size_t size, uint32_t context) noexcept nogil:
    cdef intern_text text = intern_text_of(<const char*>at, size)
    cdef int32_t code = intern_find(table, &text, context)
    return code if code >= 0 else intern_add(table, &text, context)


cdef bint made_room(void **data, int64_t *room, int64_t needed, size_t width) noexcept nogil:
    """Make room for so many items; False without memory."""
    cdef void *grown
    cdef int64_t more
    if needed <= room[0]:
        return True
    more = 2 * needed + 64
    grown = realloc(data[0], <size_t>more * width)
    if grown == NULL:
        return False
    data[0] = grown
    room[0] = more
    return True


cdef class PerfData(RawText):
    """Reads records one after the other, and keeps what they say of processes."""

    cdef intern_table own[OWN_TABLES]
    cdef pd_attr *attrs
    cdef int64_t attr_count, attr_room
    cdef bytes event_names
    cdef list event_ends
    cdef int32_t *attr_of
    cdef int64_t attr_of_room
    # records that wait for their turn: their bytes, and the time and place of each
    cdef uint8_t *waiting
    cdef int64_t waiting_used, waiting_room
    cdef timed_row *queue
    cdef int64_t queue_count, queue_room
    cdef timed_row *ordered
    cdef int64_t ordered_count, ordered_room, ordered_next
    cdef int64_t limit_ns, next_limit_ns, latest_ns
    cdef pd_thread *threads
    cdef int64_t thread_room_own, thread_count
    cdef pd_maps **maps
    cdef int64_t process_room, maps_in_all, maps_version
    cdef known_place *known
    # of each row the places, innermost first; of each place the codes of its frames
    cdef int32_t *row_places
    cdef int64_t row_places_room, row_places_count
    cdef int64_t *row_first
    cdef uint8_t *row_is_leaf
    cdef int64_t row_room, leaf_room, row_count
    cdef int32_t *place_frames
    cdef int64_t place_frames_room, place_frames_count
    cdef int64_t *place_first
    cdef int64_t place_first_room, named_places
    cdef int64_t skipped[PD_KINDS]
    cdef char kernel_name[32]
    cdef int kernel_symbol_bytes
    cdef uint64_t kernel_at
    cdef readonly int64_t unknown_ids, unreadable, lost_samples, throttled, unwound_later
    cdef readonly int64_t maps_left_out, untimed, fields_left_out

    def __cinit__(self, int layout, bint with_stacks, bint with_records):
        cdef uint64_t seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
        cdef int table
        cdef place_key nowhere
        self.event_names = b""
        self.event_ends = []
        for table in range(OWN_TABLES):
            self.own[table].seed = seed
            if not intern_grow(&self.own[table]):
                raise MemoryError
        self.known = <known_place*>calloc(REMEMBERED, sizeof(known_place))
        self.maps_version = 1
        if self.known == NULL:
            raise MemoryError
        memset(&nowhere, 0, sizeof(nowhere))
        nowhere.file = NO_FILE
        if coded(&self.own[PLACES], &nowhere, sizeof(nowhere), 0) != UNKNOWN_PLACE:
            raise MemoryError

    def __dealloc__(self):
        cdef int table
        cdef int64_t i
        for i in range(min(self.process_room, <int64_t>self.own[PROCESSES].count)):
            pd_leave_maps(self.maps[i], &self.maps_in_all)
        for table in range(OWN_TABLES):
            intern_free(&self.own[table])
        free(self.known)
        free(self.attrs)
        free(self.attr_of)
        free(self.waiting)
        free(self.queue)
        free(self.ordered)
        free(self.threads)
        free(self.maps)
        free(self.row_places)
        free(self.row_first)
        free(self.row_is_leaf)
        free(self.place_frames)
        free(self.place_first)

    def add_attr(
        self, uint64_t sample_type, uint64_t read_format, uint64_t period, bint has_ids_at_end,
        bint is_tracepoint, int32_t format_, bytes event, list ids: list[int]
    ) -> None:
        """Add an event: the fields of its samples, its name, and the ids in its records."""
        cdef pd_attr made
        cdef uint64_t each
        cdef int32_t code
        if format_ >= self.format_count:
            raise ValueError("there is no such format")
        if self.attr_count >= INT32_MAX or not made_room(
            <void**>&self.attrs, &self.attr_room, self.attr_count + 1, sizeof(pd_attr)
        ):
            raise MemoryError
        made = pd_attr(
            sample_type, read_format, period, <int32_t>len(self.event_ends), format_,
            has_ids_at_end, is_tracepoint,
        )
        self.event_names += event
        self.event_ends.append(len(self.event_names))
        self.attrs[self.attr_count] = made
        for each in ids:
            code = coded(&self.own[IDS], &each, 8, 0)
            if code < 0 or not made_room(
                <void**>&self.attr_of, &self.attr_of_room, code + 1, sizeof(int32_t)
            ):
                raise MemoryError
            self.attr_of[code] = <int32_t>self.attr_count
        self.attr_count += 1

    def push(self, const unsigned char[::1] data: memoryview, Py_ssize_t at) -> tuple[int, int]:
        """Return up to where records were queued, and why not further.

        That is the type of a record that is perf's own, `MORE` where the data end inside of one,
        `MALFORMED` where one has no length, `UNREADABLE` where one is too short for its fields or
        comes before any attributes.
        """
        cdef int why = MORE
        cdef const uint8_t *begin
        if at < 0 or at > data.shape[0]:
            raise ValueError("the position must be in the data")
        if at < data.shape[0]:
            begin = <const uint8_t*>&data[0]
            with nogil:
                at = self.push_all(begin, at, data.shape[0], &why)
            if at < 0:
                raise MemoryError
        return at, why

    def header_at(self, const unsigned char[::1] data: memoryview, Py_ssize_t at) -> tuple[int, int, int]:
        """Return the type, the flags and the size of a record; the size is 0 if the data end."""
        if at < 0 or data.shape[0] - at < PD_HEADER:
            return 0, 0, 0
        cdef const uint8_t *record = <const uint8_t*>&data[at]
        return (
            raw_u32(record, self.is_swapped), raw_u16(record + 4, self.is_swapped),
            raw_u16(record + 6, self.is_swapped),
        )

    cdef Py_ssize_t push_all(
        self, const uint8_t *data, Py_ssize_t at, Py_ssize_t size, int *why
    ) noexcept nogil:
        cdef uint32_t kind
        cdef uint16_t length
        cdef int got
        while size - at >= PD_HEADER:
            kind = raw_u32(data + at, self.is_swapped)
            length = raw_u16(data + at + 6, self.is_swapped)
            if length < PD_HEADER:
                why[0] = -1
                return at
            if size - at < length:
                break
            if kind == PD_ROUND and self.queue_count < FEW:
                # rounds may be so short that several are put in order at once
                self.next_limit_ns = self.latest_ns
                at += length
                continue
            if kind >= PD_OF_PERF:
                why[0] = <int>min(kind, <uint32_t>INT32_MAX)
                return at
            got = self.push_one(kind, data + at, data + at + length)
            if got == 0:
                why[0] = -2
                return at
            if got < 0:
                return -1
            at += length
        return at

    cdef int push_one(self, uint32_t kind, const uint8_t *record, const uint8_t *end) noexcept nogil:
        """Queue a record; 0 if its fields do not fit into it, -1 without memory."""
        cdef pd_sample found
        cdef const pd_attr *attr = NULL
        cdef int64_t size = end - record
        if not self.attr_count:
            return 0
        if kind >= PD_KINDS:
            self.skipped[0] += 1
            return 1
        memset(&found, 0, sizeof(found))
        if not self.read_fields(kind, record, end, &attr, &found):
            return 0
        if attr == NULL:
            self.unknown_ids += kind == PD_SAMPLE
            return 1
        if not found.has_time or found.time == 0 or found.time > <uint64_t>INT64_MAX:
            if kind == PD_SAMPLE:
                self.untimed += 1
                return 1
            return self.handle(kind, record, end, &found)
        if not (
            made_room(<void**>&self.waiting, &self.waiting_room, self.waiting_used + size, 1)
            and made_room(
                <void**>&self.queue, &self.queue_room, self.queue_count + 1, sizeof(timed_row)
            )
        ):
            return -1
        memcpy(self.waiting + self.waiting_used, record, <size_t>size)
        self.queue[self.queue_count] = timed_row(<int64_t>found.time, self.waiting_used)
        self.queue_count += 1
        self.waiting_used += size
        self.latest_ns = max(self.latest_ns, <int64_t>found.time)
        return 1

    cdef bint read_fields(
        self, uint32_t kind, const uint8_t *record, const uint8_t *end, const pd_attr **attr,
        pd_sample *found
    ) noexcept nogil:
        """Read a sample, or what a record has at its end, and find its attributes, NULL if unknown."""
        cdef uint64_t first = self.attrs[0].sample_type
        cdef uint64_t own = 0
        cdef const uint8_t *at
        cdef intern_text text
        cdef int32_t code
        attr[0] = &self.attrs[0]
        if kind == PD_SAMPLE:
            if self.attr_count > 1:
                at = record + PD_HEADER
                if not first & PD_IDENTIFIER:
                    # ip, pid and tid, time and address come before
                    at += 8 * (
                        (first & 1 != 0) + (first & 2 != 0) + (first & 4 != 0) + (first & 8 != 0)
                    )
                if first & (PD_ID | PD_IDENTIFIER):
                    if end - at < 8:
                        return False
                    own = raw_u64(at, self.is_swapped)
        elif self.attrs[0].has_ids_at_end:
            found.cpu = -1
            if not pd_read_end(record, end, first, self.is_swapped, found):
                return False
            own = found.id
            return True
        else:
            found.cpu = -1
            return True
        if own:
            text = intern_text_of(<const char*>&own, 8)
            code = intern_find(&self.own[IDS], &text, 0)
            attr[0] = NULL if code < 0 else &self.attrs[self.attr_of[code]]
            if attr[0] == NULL:
                return True
        found.cpu = -1
        found.period = attr[0].period
        return pd_read_sample(record, end, attr[0], self.is_swapped, found)

    def end_round(self, bint is_last) -> None:
        """Put the records in order of which no earlier ones can follow, or all at the end."""
        cdef bint failed = False
        self.limit_ns = INT64_MAX if is_last else self.next_limit_ns
        self.next_limit_ns = self.latest_ns
        with nogil:
            if not made_room(
                <void**>&self.ordered, &self.ordered_room, self.queue_count + 1, sizeof(timed_row)
            ) or not timed_rows_sort(self.queue, self.queue_count, self.ordered):
                failed = True
        if failed:
            raise MemoryError
        self.ordered_count = self.queue_count
        self.ordered_next = 0

    def scan_ordered(
        self, int64_t[::1] time_ns, int64_t[::1] period, int32_t[::1] thread, int32_t[::1] cpu,
        int32_t[::1] event, int64_t[:, ::1] tail: Int64s | None
    ) -> tuple[int, bool]:
        """Return how many rows the records in order filled, and whether the rows ran out.

        Their stacks are made by `stacks_of_rows`, once the new places have names.
        """
        cdef Py_ssize_t room = time_ns.shape[0]
        if room < 1 or not (
            room == period.shape[0] == thread.shape[0] == cpu.shape[0] == event.shape[0]
        ):
            raise ValueError("the columns must have one length, at least 1")
        cdef Columns out = Columns(
            &time_ns[0], &period[0], &thread[0], &cpu[0], &event[0], NULL, NULL, NULL, 0, room
        )
        if tail is not None:
            if tail.shape[0] != room or tail.shape[1] != 2:
                raise ValueError("the tail must have a row of two for each row of the columns")
            out.tail = &tail[0, 0]
        if not made_room(<void**>&self.row_first, &self.row_room, room + 1, sizeof(int64_t)) or (
            not made_room(<void**>&self.row_is_leaf, &self.leaf_room, room + 1, 1)
        ):
            raise MemoryError
        self.row_places_count = self.row_count = 0
        self.text.used = 0
        cdef bint full = False, failed = False
        cdef const char *events = self.event_names
        ends = np.array([0, *self.event_ends], np.int32)
        cdef const int32_t *event_end = <const int32_t*>INT32_ITEMS(ends, NULL)
        cdef timed_row row
        cdef uint8_t *record
        cdef uint16_t size
        with nogil:
            while self.ordered_next < self.ordered_count:
                row = self.ordered[self.ordered_next]
                if row.time_ns > self.limit_ns:
                    break
                if out.rows == room:
                    full = True
                    break
                record = self.waiting + row.row
                size = raw_u16(record + 6, self.is_swapped)
                self.ordered_next += 1
                if not self.take(record, record + size, events, event_end, &out):
                    failed = True
                    break
            if not full and not failed:
                self.drop_done()
                if self.limit_ns == INT64_MAX and self.with_records and not self.end_cpus():
                    failed = True
        if failed or self.text.no_memory:
            raise MemoryError
        self.row_count = out.rows
        self.row_first[out.rows] = self.row_places_count
        return out.rows, full

    cdef void drop_done(self) noexcept nogil:
        """Forget the records that were taken, and keep those that still wait."""
        cdef int64_t rest = self.ordered_count - self.ordered_next, first = self.waiting_used, i
        if rest:
            memmove(self.queue, self.ordered + self.ordered_next, <size_t>rest * sizeof(timed_row))
        for i in range(rest):
            first = min(first, self.queue[i].row)
        if first:
            memmove(self.waiting, self.waiting + first, <size_t>(self.waiting_used - first))
        for i in range(rest):
            self.queue[i].row -= first
        self.waiting_used -= first
        self.queue_count = rest
        self.ordered_count = self.ordered_next = 0

    cdef bint take(
        self, const uint8_t *record, const uint8_t *end, const char *events,
        const int32_t *event_end, Columns *out
    ) noexcept nogil:
        """Add a sample to the columns, or do what another record says; False without memory."""
        cdef pd_sample found
        cdef const pd_attr *attr = NULL
        cdef uint32_t kind = raw_u32(record, self.is_swapped)
        cdef uint16_t misc = raw_u16(record + 4, self.is_swapped)
        cdef perf_header header
        cdef perf_counted counted
        cdef pd_thread *thread
        cdef const char *tail
        cdef size_t before
        memset(&found, 0, sizeof(found))
        if not self.read_fields(kind, record, end, &attr, &found) or attr == NULL:
            return True
        if kind != PD_SAMPLE:
            return self.handle(kind, record, end, &found) >= 0
        thread = self.thread_of_id(found.pid if found.has_tid else -1, found.tid if found.has_tid else -1)
        if thread == NULL:
            return False
        memset(&header, 0, sizeof(header))
        header.begin = thread.text
        header.comm_bytes, header.bytes = thread.comm_bytes, thread.bytes
        header.time_ns = <int64_t>found.time
        header.cpu = found.cpu
        header.tid = thread.tid
        counted.event = events + event_end[attr.event]
        counted.event_bytes = <uint32_t>(event_end[attr.event + 1] - event_end[attr.event])
        # as perf prints it: a tracepoint counts once
        counted.period = 1 if attr.is_tracepoint else <int64_t>min(found.period, <uint64_t>INT64_MAX)
        before = self.begin_text()
        if attr.format >= 0 and found.raw != NULL:
            header.context = self.context_of(found.raw, found.raw_bytes)
            if not self.write_fields(attr.format, found.raw, found.raw_bytes):
                return False
        self.unwound_later += found.is_unwound_later
        self.row_first[out.rows] = self.row_places_count
        self.row_is_leaf[out.rows] = not self.with_stacks
        tail = self.text.data + before
        out.text = self.text.data
        if not self.begin(&header, &counted, tail, tail + (self.text.used - before), out):
            return False
        if (self.with_stacks or thread.tid == 0) and not self.add_places(
            misc, attr, &found, thread.pid
        ):
            return False
        if self.with_records and not self.add_record():
            return False
        out.rows += 1
        return True

    cdef bint add_places(
        self, uint16_t misc, const pd_attr *attr, const pd_sample *found, int32_t pid
    ) noexcept nogil:
        """Add the places of a sample's call chain, or the one place that it has."""
        cdef int mode = PD_MODE_USER
        cdef uint64_t i, address
        cdef int32_t place
        if found.chain == NULL or (not found.chain_count and found.is_unwound_later):
            # a tracepoint has an address, but it is in the kernel's own function of the event
            if not attr.sample_type & PD_IP or attr.is_tracepoint:
                return True
            return self.add_place(found.ip, misc & PD_MODE, pid)
        for i in range(found.chain_count):
            address = raw_u64(found.chain + 8 * i, self.is_swapped)
            if address >= PD_CONTEXT_MOST:
                if address == PD_CONTEXT_KERNEL:
                    mode = PD_MODE_KERNEL
                elif address == PD_CONTEXT_USER:
                    mode = PD_MODE_USER
                else:
                    mode = 0
                continue
            if not self.add_place(address, mode, pid):
                return False
        return True

    cdef bint add_place(self, uint64_t address, int mode, int32_t pid) noexcept nogil:
        cdef int32_t place
        cdef pd_maps **own
        cdef pd_maps *maps = NULL
        cdef known_place *known
        if mode == PD_MODE_USER:
            own = self.maps_of(pid)
            if own == NULL:
                return False
            maps = own[0]
        known = &self.known[(address ^ address >> 14) % REMEMBERED]
        if not (
            known.address == address and known.maps == maps and known.mode == mode
            and known.version == self.maps_version
        ):
            place = self.find_place(address, mode, maps)
            if place < 0:
                return False
            known[0] = known_place(address, maps, self.maps_version, place, mode)
        if not made_room(
            <void**>&self.row_places, &self.row_places_room, self.row_places_count + 1,
            sizeof(int32_t),
        ):
            return False
        self.row_places[self.row_places_count] = known.place
        self.row_places_count += 1
        return True

    cdef int32_t find_place(self, uint64_t address, int mode, pd_maps *maps) noexcept nogil:
        """Return the code of the place of an address; below 0 without memory."""
        cdef const pd_map *found = pd_find_map(maps, address)
        cdef place_key key
        cdef pd_maps **own
        if found == NULL and (mode == PD_MODE_KERNEL or (mode == PD_MODE_USER and address >> 63)):
            own = self.maps_of(-1)
            if own == NULL:
                return -1
            found = pd_find_map(own[0], address)
        if found == NULL:
            return UNKNOWN_PLACE
        memset(&key, 0, sizeof(key))
        key.file, key.address = found.file, address + found.shift
        return coded(&self.own[PLACES], &key, sizeof(key), 0)

    cdef pd_maps **maps_of(self, int32_t pid) noexcept nogil:
        """Return where the maps of a process are; -1 is the kernel. NULL without memory."""
        cdef int32_t code = coded(&self.own[PROCESSES], &pid, 4, 0)
        cdef int64_t before = self.process_room
        if code < 0 or not made_room(
            <void**>&self.maps, &self.process_room, code + 1, sizeof(pd_maps*)
        ):
            return NULL
        if self.process_room > before:
            memset(self.maps + before, 0, <size_t>(self.process_room - before) * sizeof(pd_maps*))
        return &self.maps[code]

    cdef pd_thread *thread_of_id(self, int32_t pid, int32_t tid) noexcept nogil:
        """Return a thread, without a name if it is new; NULL without memory."""
        cdef int32_t code = coded(&self.own[THREADS_BY_ID], &tid, 4, 0)
        cdef pd_thread *thread
        if code < 0 or not made_room(
            <void**>&self.threads, &self.thread_room_own, code + 1, sizeof(pd_thread)
        ):
            return NULL
        thread = &self.threads[code]
        if code >= self.thread_count:
            self.thread_count = code + 1
            self.name_nobody(thread, pid, tid)
        elif pid >= 0 and thread.pid != pid:
            thread.pid = pid
            pd_write_ids(thread)
        return thread

    cdef void name_nobody(self, pd_thread *thread, int32_t pid, int32_t tid) noexcept nogil:
        """Set the name that perf prints for a thread of which none is known."""
        cdef uint32_t used
        memset(thread, 0, sizeof(pd_thread))
        thread.pid, thread.tid = pid, tid
        if tid == 0:
            memcpy(thread.text, b"swapper", 7)
            thread.comm_bytes = 7
        else:
            # the ids are written behind the name, and the name has the last of them
            thread.comm_bytes = 1
            pd_write_ids(thread)
            used = thread.bytes
            while used and thread.text[used - 1] != b"/":
                used -= 1
            thread.comm_bytes = 1 + thread.bytes - used
            memmove(thread.text + 1, thread.text + used, thread.bytes - used)
            thread.text[0] = b":"
        pd_write_ids(thread)

    cdef int handle(
        self, uint32_t kind, const uint8_t *record, const uint8_t *end, const pd_sample *found
    ) noexcept nogil:
        """Do what a record says; 0 if its fields do not fit into it, -1 without memory."""
        cdef const uint8_t *content = record + PD_HEADER
        cdef uint16_t misc = raw_u16(record + 4, self.is_swapped)
        cdef int64_t size = end - content
        cdef pd_thread *thread
        cdef uint64_t count
        if kind == PD_MMAP or kind == PD_MMAP2:
            return self.add_map_of(kind, misc, content, size)
        if kind == PD_COMM:
            return self.name_thread(content, size)
        if kind == PD_FORK:
            return self.fork(misc, content, size, found)
        if kind == PD_KSYMBOL:
            return self.add_function(content, size)
        if kind == PD_LOST:
            if size < 16:
                return 0
            count = raw_u64(content + 8, self.is_swapped)
            if not self.add_loss(
                found.cpu, <int64_t>found.time if found.has_time and found.time else self.last_ns,
                <int64_t>min(count, <uint64_t>1 << 50),
            ):
                return -1
        elif kind == PD_LOST_SAMPLES:
            if size < 8:
                return 0
            self.lost_samples += <int64_t>min(
                raw_u64(content, self.is_swapped), <uint64_t>1 << 50
            )
        elif kind == PD_THROTTLE:
            self.throttled += 1
        elif kind == PD_EXIT:
            if size < 16:
                return 0
            # a thread runs on for a while, until it leaves its CPU for good
            thread = self.thread_of_id(-1, <int32_t>raw_u32(content + 8, self.is_swapped))
            if thread == NULL:
                return -1
            thread.has_exited = True
        else:
            self.skipped[kind] += 1
        return 1

    cdef bint note_birth_of(self, int32_t tid, const pd_sample *found) noexcept nogil:
        """Note that a thread has the id of one that has exited, if it is known since when."""
        if not self.with_records or not found.has_time or not found.time or tid <= 0:
            return True
        return self.note_task(True, tid, <int64_t>found.time) and self.note_task(
            False, tid, <int64_t>found.time
        )

    cdef int name_thread(self, const uint8_t *content, int64_t size) noexcept nogil:
        cdef pd_thread *thread
        cdef const void *zero
        if size < 9:
            return 0
        thread = self.thread_of_id(
            <int32_t>raw_u32(content, self.is_swapped), <int32_t>raw_u32(content + 4, self.is_swapped)
        )
        if thread == NULL:
            return -1
        content += 8
        size = min(size - 8, <int64_t>PD_MOST_COMM)
        zero = memchr(content, 0, <size_t>size)
        if zero != NULL:
            size = <const uint8_t*>zero - content
        memcpy(thread.text, content, <size_t>size)
        thread.comm_bytes = <uint32_t>size
        thread.is_named = True
        pd_write_ids(thread)
        return 1

    cdef int fork(
        self, uint16_t misc, const uint8_t *content, int64_t size, const pd_sample *found
    ) noexcept nogil:
        """Give a new thread the name of its parent, and a new process the maps of its parent."""
        cdef pd_thread *thread
        cdef pd_thread parent
        cdef pd_maps **own
        cdef pd_maps *before
        cdef int32_t pid, ppid, tid, ptid
        if size < 16:
            return 0
        pid = <int32_t>raw_u32(content, self.is_swapped)
        ppid = <int32_t>raw_u32(content + 4, self.is_swapped)
        tid = <int32_t>raw_u32(content + 8, self.is_swapped)
        ptid = <int32_t>raw_u32(content + 12, self.is_swapped)
        thread = self.thread_of_id(ppid, ptid)
        if thread == NULL:
            return -1
        parent = thread[0]
        thread = self.thread_of_id(pid, tid)
        if thread == NULL:
            return -1
        if thread.has_exited and not self.note_birth_of(tid, found):
            return -1
        if tid != ptid:
            self.name_nobody(thread, pid, tid)
            if parent.is_named:
                memcpy(thread.text, parent.text, parent.comm_bytes)
                thread.comm_bytes = parent.comm_bytes
                thread.is_named = True
                pd_write_ids(thread)
        if pid == ppid or misc & PD_FORK_EXEC or pid == -1 or ppid == -1:
            return 1
        own = self.maps_of(ppid)
        if own == NULL:
            return -1
        before = own[0]
        own = self.maps_of(pid)
        if own == NULL:
            return -1
        self.maps_version += 1
        if before != NULL:
            before.users += 1
        pd_leave_maps(own[0], &self.maps_in_all)
        own[0] = before
        return 1

    cdef int add_function(self, const uint8_t *content, int64_t size) noexcept nogil:
        """Add a function of the kernel that has its own record, such as one of BPF."""
        cdef pd_map added
        cdef char identity[PD_IDENTITY]
        cdef const void *zero
        cdef int64_t length
        if size < 17:
            return 0
        memset(&added, 0, sizeof(added))
        memset(identity, 0, PD_IDENTITY)
        added.start = raw_u64(content, self.is_swapped)
        added.end = added.start + raw_u32(content + 8, self.is_swapped)
        # one that is taken away, or has no length
        if raw_u16(content + 14, self.is_swapped) & 1 or added.end <= added.start:
            return 1
        length = size - 16
        zero = memchr(content + 16, 0, <size_t>length)
        if zero != NULL:
            length = <const uint8_t*>zero - (content + 16)
        return self.put_map(-1, &added, identity, <const char*>content + 16, length, KIND_FUNCTION)

    cdef int add_map_of(
        self, uint32_t kind, uint16_t misc, const uint8_t *content, int64_t size
    ) noexcept nogil:
        cdef int64_t before = 32 if kind == PD_MMAP else 64
        cdef int64_t length
        cdef pd_map added
        cdef int32_t pid
        cdef int mode = misc & PD_MODE
        cdef const char *name
        cdef const void *zero
        cdef char identity[PD_IDENTITY]
        cdef char own[40]
        cdef int file_kind = KIND_USER
        cdef uint64_t offset
        if size < before + 1:
            return 0
        pid = <int32_t>raw_u32(content, self.is_swapped)
        memset(&added, 0, sizeof(added))
        added.start = raw_u64(content + 8, self.is_swapped)
        added.end = added.start + raw_u64(content + 16, self.is_swapped)
        offset = raw_u64(content + 24, self.is_swapped)
        if added.end <= added.start:
            return 1
        memset(identity, 0, PD_IDENTITY)
        if kind == PD_MMAP2 and misc & PD_HAS_BUILD_ID:
            identity[0] = <char>min(content[32], <uint8_t>PD_BUILD_ID)
            memcpy(identity + 1, content + 36, PD_BUILD_ID)
        elif kind == PD_MMAP2:
            memcpy(identity + 1 + PD_BUILD_ID, content + 32, 16)
        name = <const char*>content + before
        length = size - before
        zero = memchr(name, 0, <size_t>length)
        if zero != NULL:
            length = <const char*>zero - name
        length = min(length, <int64_t>PD_MOST_FILE)
        if mode == PD_MODE_KERNEL:
            pid = -1
            file_kind = KIND_KERNEL
            # `[kernel.kallsyms]_text`, and where that function is
            if length > 17 and memcmp(name, b"[kernel.kallsyms]", 17) == 0:
                self.kernel_symbol_bytes = <int>min(length - 17, <int64_t>sizeof(self.kernel_name))
                memcpy(self.kernel_name, name + 17, <size_t>self.kernel_symbol_bytes)
                self.kernel_at = offset
        elif mode != PD_MODE_USER or pid == -1:
            # of a guest, whose addresses are not those of this machine
            return 1
        elif (length == 6 and memcmp(name, b"//anon", 6) == 0) or (
            length >= 9 and memcmp(name, b"/dev/zero", 9) == 0
        ) or (length >= 14 and memcmp(name, b"/anon_hugepage", 14) == 0):
            file_kind = KIND_COMPILED
            length = self.compiled_name(own, pid)
            name = own
        elif not (length and name[0] == b"["):
            added.shift = offset - added.start
        return self.put_map(pid, &added, identity, name, length, file_kind)

    cdef int64_t compiled_name(self, char *own, int32_t pid) noexcept nogil:
        """Write `/tmp/perf-PID.map`, in which programs list the functions that they compile."""
        cdef pd_thread thread
        memset(&thread, 0, sizeof(thread))
        thread.tid = pid
        pd_write_ids(&thread)
        # it is ` 0/PID`
        memcpy(own, b"/tmp/perf-", 10)
        memcpy(own + 10, thread.text + 3, thread.bytes - 3)
        memcpy(own + 10 + thread.bytes - 3, b".map", 4)
        return 14 + thread.bytes - 3

    cdef int put_map(
        self, int32_t pid, pd_map *added, const char *identity, const char *name, int64_t length,
        int file_kind
    ) noexcept nogil:
        cdef char key[PD_MOST_FILE + PD_IDENTITY]
        cdef pd_maps **own
        cdef pd_maps *changed
        cdef int got
        length = min(length, <int64_t>PD_MOST_FILE)
        memcpy(key, identity, PD_IDENTITY)
        memcpy(key + PD_IDENTITY, name, <size_t>length)
        added.file = coded(
            &self.own[FILES], key, <size_t>(PD_IDENTITY + length), <uint32_t>file_kind
        )
        own = self.maps_of(pid)
        if added.file < 0 or own == NULL:
            return -1
        self.maps_version += 1
        changed = pd_own_maps(own[0], &self.maps_in_all)
        if changed == NULL:
            self.maps_left_out += 1
            return 1
        own[0] = changed
        got = pd_add_map(changed, added, &self.maps_in_all)
        self.maps_left_out += got == 0
        return -1 if got < 0 else 1

    def files_from(
        self, int32_t first
    ) -> list[tuple[int, bytes, tuple[int, int, int], bytes]]:
        """Return the files of code from this code on.

        Each has its kind, its build id, the major and minor number of its device and its inode, 0
        if they are not known, and its name.
        """
        cdef intern_table *table = &self.own[FILES]
        cdef const uint8_t *place
        cdef int32_t code
        found = []
        for code in range(first, table.count):
            text = table.bytes[table.offsets[code]:table.offsets[code + 1]]
            place = <const uint8_t*>table.bytes + table.offsets[code] + 1 + PD_BUILD_ID
            inode = (
                raw_u32(place, self.is_swapped), raw_u32(place + 4, self.is_swapped),
                raw_u64(place + 8, self.is_swapped),
            )
            found.append((
                int(table.contexts[code]), text[1:1 + text[0]], inode, text[PD_IDENTITY:]
            ))
        return found

    def new_places(self) -> tuple[npt.NDArray[np.uint64], Int32s]:
        """Return the address and the file of each place without names; -1 stands for no file."""
        cdef intern_table *table = &self.own[PLACES]
        cdef int64_t count = table.count - self.named_places
        keys = np.frombuffer(
            table.bytes[
                table.offsets[self.named_places]:table.offsets[table.count]
            ] if count else b"",
            np.dtype([("address", np.uint64), ("file", np.int32), ("unused", np.int32)]),
        )
        return keys["address"].copy(), keys["file"].copy()

    def name_places(
        self, list names: list[bytes], const int32_t[::1] which, const uint8_t[::1] is_file
    ) -> None:
        """Give the new places the names of their functions, or of their files.

        `which` has for each place the index of its name, and `is_file` for each name whether it is
        that of a file.
        """
        cdef intern_table *table = &self.own[PLACES]
        cdef int64_t i, first, count = table.count - self.named_places
        cdef int32_t name, j
        cdef const char *text
        cdef Py_ssize_t size
        if which.shape[0] != count or is_file.shape[0] != len(names):
            raise ValueError("each new place must have a name")
        starts = np.zeros(len(names) + 1, np.int64)
        frames = []
        for i in range(len(names)):
            own = names[i]
            text, size = own, len(own)
            self.open_count = 0
            if not (
                self.push_inlined(text, <size_t>size, is_file[i])
                if size > 3 and text[0] == b"L" else self.push_frame(text, <size_t>size, is_file[i])
            ):
                raise MemoryError
            frames.append([self.open_frames[j] for j in range(self.open_count)])
        if not made_room(
            <void**>&self.place_first, &self.place_first_room, table.count + 1, sizeof(int64_t)
        ):
            raise MemoryError
        self.open_count = 0
        if not self.named_places:
            self.place_first[0] = 0
        for i in range(count):
            name = which[i]
            if not 0 <= name < len(frames):
                raise ValueError("there is no such name")
            own = frames[name]
            if not made_room(
                <void**>&self.place_frames, &self.place_frames_room,
                self.place_frames_count + len(own), sizeof(int32_t),
            ):
                raise MemoryError
            for code in own:
                self.place_frames[self.place_frames_count] = code
                self.place_frames_count += 1
            self.place_first[self.named_places + i + 1] = self.place_frames_count
        self.named_places = table.count

    def stacks_of_rows(self, int32_t[::1] stack) -> None:
        """Set the stack of each row of the last scan, whose places have names."""
        cdef int64_t row
        cdef bint failed = False
        if stack.shape[0] < self.row_count or self.named_places < self.own[PLACES].count:
            raise ValueError("each row must have its stack, and each place a name")
        with nogil:
            for row in range(self.row_count):
                stack[row] = self.stack_of_row(row)
                if stack[row] < -1:
                    failed = True
                    break
        if failed:
            raise MemoryError

    cdef int32_t stack_of_row(self, int64_t row) noexcept nogil:
        cdef int64_t i, j
        cdef int32_t place, frame
        cdef bint is_open = True
        self.open_count = 0
        for i in range(self.row_first[row], self.row_first[row + 1]):
            if not is_open:
                break
            place = self.row_places[i]
            for j in range(self.place_first[place], self.place_first[place + 1]):
                frame = self.place_frames[j]
                if not self.push_code(frame):
                    return -2
                # of the idle task, only up to the first function
                if self.row_is_leaf[row] and not self.tables[FRAMES].contexts[frame]:
                    is_open = (
                        self.tables[FRAMES].offsets[frame] < self.tables[FRAMES].offsets[frame + 1]
                        and self.tables[FRAMES].bytes[self.tables[FRAMES].offsets[frame]] == b"["
                    )
        return self.stack_of(self.open_frames, self.open_count)

    def kernel_symbol(self) -> tuple[bytes, int]:
        """Return the name and the address of a function of the kernel; no name if there is none."""
        return self.kernel_name[:self.kernel_symbol_bytes], self.kernel_at

    def skipped_records(self) -> dict[int, int]:
        """Return by type how many records of the kernel were skipped; 0 is an unknown type."""
        cdef int kind
        return {kind: self.skipped[kind] for kind in range(PD_KINDS) if self.skipped[kind]}
