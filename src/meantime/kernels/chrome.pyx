"""Chrome Trace Event JSON into columns; see `chrome_scan.h`."""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

from meantime.kernels.intern cimport intern_table
from meantime.kernels.memory cimport column

cdef extern from "chrome_scan.h":
    ctypedef struct ChromeThread:
        int32_t pid
        int32_t tid
        int64_t last_ns
        uint8_t backwards
    ctypedef struct TopValue:
        int64_t offset
        int64_t length
        int64_t key_offset
        int64_t key_length
    enum:
        KIND_UNKNOWN
        KIND_COMPLETE
        KIND_BEGIN
        KIND_END
        KIND_RECORD
        KIND_THREAD_RECORD
        KIND_TIMELESS
        RECORD_FLOW_IN
        RECORD_FLOW_OUT
        ODD_COUNT
        SCAN_MORE
        SCAN_DONE
        SCAN_ERROR
    ctypedef struct Chrome:
        int64_t position
        int lenient
        int64_t* start_ns
        int64_t* end_ns
        int64_t* args_offset
        int32_t* thread
        int32_t* name
        int32_t* category
        int32_t* args_length
        uint8_t* flags
        int64_t spans
        int64_t spans_taken
        int64_t spans_capacity
        int64_t* mark_ns
        int64_t* mark_args_offset
        int32_t* mark_thread
        int32_t* mark_name
        int32_t* mark_position
        int32_t* mark_args_length
        int64_t marks
        int64_t marks_taken
        int64_t marks_capacity
        int64_t* record_ns
        int64_t* record_args_offset
        int32_t* record_thread
        int32_t* record_name
        int32_t* record_category
        int32_t* record_id
        int32_t* record_scope
        int32_t* record_args_length
        uint8_t* record_phase
        uint8_t* record_flags
        uint8_t* record_reach
        int64_t records
        int64_t records_taken
        int64_t records_capacity
        intern_table names
        intern_table categories
        intern_table ids
        ChromeThread* threads
        int64_t thread_count
        TopValue* top
        int64_t top_count
        int64_t odd[1]
        int64_t events
        int saw_events
        const char* private_names
        uint8_t private_shortest[26]
        uint32_t private_last[26]
        int64_t fault_offset
        int fault
    int chrome_init(Chrome*, int64_t, uint64_t, const uint8_t*, const char*, uint32_t) noexcept nogil
    void chrome_free(Chrome*) noexcept nogil
    int chrome_scan(Chrome*, const char*, int64_t, int64_t) noexcept nogil

# The kinds of phases, for `ChromeScanner`; `chrome_scan.h` explains them.
UNKNOWN = KIND_UNKNOWN
COMPLETE = KIND_COMPLETE
BEGIN = KIND_BEGIN
END = KIND_END
RECORD = KIND_RECORD
THREAD_RECORD = KIND_THREAD_RECORD
TIMELESS = KIND_TIMELESS

# The flags of records.
FLOW_IN = RECORD_FLOW_IN
FLOW_OUT = RECORD_FLOW_OUT


cdef uint64_t seed():
    """A random seed for hashes: the strings are untrusted."""
    return <uint64_t>int.from_bytes(os.urandom(8), "little")


cdef class ChromeScanner:
    """Scans a text of `total` bytes block by block; offsets are those in the text.

    The columns are in the order of the text; what was taken once is not returned again. `names` and `categories` are the
    JSON strings, decoded if none has an escape, otherwise the bytes of each; `ids` are their bytes. `kinds` has a kind for each of the 256 possible
    phases; `default_id` is the pid or tid of events that have none. `private` are names of
    arguments, as in `private_names.h`: the length of arguments in which one occurs, at any depth,
    is negative.
    """

    cdef Chrome scan
    cdef bint ready
    cdef bytes private

    def __cinit__(
        self, int64_t total, *, const uint8_t[::1] kinds: bytes, bytes default_id, bint lenient,
        private: Iterable[str] = ()
    ):
        if kinds.shape[0] != 256:
            raise ValueError("a kind for each of the 256 phases is needed")
        if not chrome_init(&self.scan, total, seed(), &kinds[0], default_id,
                           <uint32_t>len(default_id)):
            raise MemoryError
        self.ready = True
        self.scan.lenient = lenient
        if private:
            self.private = "\n".join(["", *private, ""]).encode("ascii")
            self.scan.private_names = self.private
            for name in private:
                first = ord(name[0]) - ord("a")
                self.scan.private_last[first] |= <uint32_t>1 << (ord(name[-1]) - ord("a"))
                shortest = self.scan.private_shortest[first] or len(name)
                self.scan.private_shortest[first] = min(shortest, len(name))

    def __dealloc__(self):
        if self.ready:
            chrome_free(&self.scan)

    def scan_block(self, const uint8_t[::1] block: memoryview | bytes, int64_t offset) -> bool:
        """Scan what is at an offset of the text; return whether more is needed, from `position` on.

        If that is still the same offset, a larger block is needed.

        Raises:
            ValueError: If the text is not a trace: the FAULT_ constant, and at which byte.
        """
        cdef int result
        cdef int64_t size = block.shape[0]
        cdef const char* begin = b""
        if size:
            begin = <const char*>&block[0]
        with nogil:
            result = chrome_scan(&self.scan, begin, offset, size)
        if result == SCAN_ERROR:
            raise ValueError(self.scan.fault, self.scan.fault_offset)
        if result != SCAN_DONE and result != SCAN_MORE:
            raise MemoryError
        return result == SCAN_MORE

    @property
    def position(self) -> int:
        """The offset of the next block."""
        return self.scan.position

    @property
    def rows(self) -> int:
        """How many rows there are to be taken."""
        return self.scan.spans + self.scan.marks + self.scan.records

    @property
    def saw_events(self) -> bool:
        """Whether there was an array of events."""
        return bool(self.scan.saw_events)

    @property
    def events(self) -> int:
        """How many events were read, of any phase."""
        return self.scan.events

    def oddities(self) -> list[int]:
        """Return the counts of oddities, in the order of the header's ODD_ constants."""
        cdef int i
        return [self.scan.odd[i] for i in range(ODD_COUNT)]

    def top(self) -> list[tuple[int, int, int, int]]:
        """Return offset and length of each key beside the events, then those of its value."""
        cdef int64_t i
        return [
            (self.scan.top[i].key_offset, self.scan.top[i].key_length,
             self.scan.top[i].offset, self.scan.top[i].length)
            for i in range(self.scan.top_count)
        ]

    def spans(self) -> dict[str, Any]:
        """Return the complete and begun spans; the latter are flagged OPEN, and end as they begin."""
        cdef Chrome* s = &self.scan
        found = {
            "start_ns": column(<void**>&s.start_ns, s.spans, np.int64),
            "end_ns": column(<void**>&s.end_ns, s.spans, np.int64),
            "thread": column(<void**>&s.thread, s.spans, np.int32),
            "name": column(<void**>&s.name, s.spans, np.int32),
            "category": column(<void**>&s.category, s.spans, np.int32),
            "flags": column(<void**>&s.flags, s.spans, np.uint8),
            "args_offset": column(<void**>&s.args_offset, s.spans, np.int64),
            "args_length": column(<void**>&s.args_length, s.spans, np.int32),
        }
        s.spans_taken = s.spans
        s.spans = s.spans_capacity = 0
        return found

    def marks(self) -> dict[str, Any]:
        """Return the ends of begun spans; `position` is the number of spans before each.

        Spans that were taken before are not counted.
        """
        cdef Chrome* s = &self.scan
        found = {
            "time_ns": column(<void**>&s.mark_ns, s.marks, np.int64),
            "thread": column(<void**>&s.mark_thread, s.marks, np.int32),
            "name": column(<void**>&s.mark_name, s.marks, np.int32),
            "position": column(<void**>&s.mark_position, s.marks, np.int32),
            "args_offset": column(<void**>&s.mark_args_offset, s.marks, np.int64),
            "args_length": column(<void**>&s.mark_args_length, s.marks, np.int32),
        }
        s.marks_taken = s.marks
        s.marks = s.marks_capacity = 0
        return found

    def records(self) -> dict[str, Any]:
        """Return all other events; `flags` has FLOW_IN and FLOW_OUT."""
        cdef Chrome* s = &self.scan
        found = {
            "time_ns": column(<void**>&s.record_ns, s.records, np.int64),
            "args_offset": column(<void**>&s.record_args_offset, s.records, np.int64),
            "args_length": column(<void**>&s.record_args_length, s.records, np.int32),
            "thread": column(<void**>&s.record_thread, s.records, np.int32),
            "name": column(<void**>&s.record_name, s.records, np.int32),
            "category": column(<void**>&s.record_category, s.records, np.int32),
            "id": column(<void**>&s.record_id, s.records, np.int32),
            "scope": column(<void**>&s.record_scope, s.records, np.int32),
            "phase": column(<void**>&s.record_phase, s.records, np.uint8),
            "flags": column(<void**>&s.record_flags, s.records, np.uint8),
            "reach": column(<void**>&s.record_reach, s.records, np.uint8),
        }
        s.records_taken = s.records
        s.records = s.records_capacity = 0
        return found

    def threads(self) -> dict[str, Any]:
        """Return pid and tid (codes of `ids`), latest time, and whether begins and ends go backwards."""
        cdef int64_t i, n = self.scan.thread_count
        cdef int32_t[::1] pid = np.empty(n, np.int32)
        cdef int32_t[::1] tid = np.empty(n, np.int32)
        cdef int64_t[::1] last = np.empty(n, np.int64)
        cdef uint8_t[::1] backwards = np.empty(n, np.uint8)
        for i in range(n):
            pid[i] = self.scan.threads[i].pid
            tid[i] = self.scan.threads[i].tid
            last[i] = self.scan.threads[i].last_ns
            backwards[i] = self.scan.threads[i].backwards
        return {
            "pid": np.asarray(pid),
            "tid": np.asarray(tid),
            "last_ns": np.asarray(last),
            "backwards": np.asarray(backwards).view(np.bool_),
        }

    def names(self, int32_t first) -> list[bytes] | list[str]:
        """Return the names from a code on."""
        return texts(&self.scan.names, first)

    def categories(self, int32_t first) -> list[bytes] | list[str]:
        """Return the categories from a code on."""
        return texts(&self.scan.categories, first)

    def ids(self, int32_t first) -> tuple[bytes, Int64s]:
        """Return the texts of pid, tid, id and scope from a code on: joined, and the end of each."""
        cdef const intern_table* table = &self.scan.ids
        cdef int32_t i
        cdef int64_t[::1] ends = np.empty(table.count - first, np.int64)
        for i in range(first, table.count):
            ends[i - first] = <int64_t>(table.offsets[i + 1] - table.offsets[first])
        return table.bytes[table.offsets[first]:table.offsets[table.count]], np.asarray(ends)


cdef list texts(const intern_table* table, int32_t first):
    """The strings from a code on: decoded if none has an escape, otherwise the bytes of each.

    They are bytes too if one is not UTF-8 or may have the character that stands for what is not.
    """
    cdef int32_t i
    cdef uint64_t at
    cdef bint is_plain = True
    with nogil:
        for at in range(table.offsets[first], table.offsets[table.count]):
            is_plain &= table.bytes[at] != c"\\" and <uint8_t>table.bytes[at] != 0xEF
    if is_plain:
        try:
            return [
                PyUnicode_DecodeUTF8(
                    table.bytes + table.offsets[i],
                    <Py_ssize_t>(table.offsets[i + 1] - table.offsets[i]),
                    NULL,
                )
                for i in range(first, table.count)
            ]
        except UnicodeDecodeError:
            pass
    return [table.bytes[table.offsets[i]:table.offsets[i + 1]] for i in range(first, table.count)]
