"""Binary .spall records into spans; see `spall_scan.h`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

import os

import numpy as np

from meantime.kernels.intern cimport intern_table
from meantime.kernels.memory cimport column

cdef extern from "spall_scan.h":
    ctypedef struct SpallThread:
        uint32_t pid
        uint32_t tid
        int64_t name_offset
        int32_t name_length
        uint8_t backwards
    ctypedef struct SpallProcess:
        uint32_t pid
        int64_t offset
        int32_t length
    enum:
        SPALL_DONE
        SPALL_CUT
        SPALL_UNKNOWN
        SPALL_MORE
    ctypedef struct Spall:
        const char* base
        const char* p
        int64_t origin
        int64_t* start_ns
        int64_t* end_ns
        int64_t* args_offset
        int32_t* thread
        int32_t* name
        int32_t* level
        int32_t* args_length
        uint8_t* flags
        int64_t spans
        int64_t* instant_ns
        int32_t* instant_thread
        int32_t* instant_name
        int64_t* instant_args_offset
        int32_t* instant_args_length
        int64_t instants
        intern_table names
        SpallThread* threads
        int64_t thread_count
        SpallProcess* processes
        int64_t process_count
        int64_t strays
        int64_t negatives
        int64_t out_of_range
        int64_t skipped
        int64_t trailing
        int64_t bad_buffers
        int64_t stop_offset
        int type
        int lenient
    int spall_init(Spall*, int64_t, int, double, uint64_t) noexcept nogil
    void spall_free(Spall*) noexcept nogil
    int spall_scan(Spall*, const char*, int64_t, int64_t) noexcept nogil
    int64_t spall_close(Spall*) noexcept nogil
    bint spall_take(Spall*, Spall*, bint) noexcept nogil
    int64_t SPALL_TAKEN_ROWS


# How reading a block ended.
DONE = SPALL_DONE
CUT = SPALL_CUT
UNKNOWN = SPALL_UNKNOWN
MORE = SPALL_MORE


cdef uint64_t seed():
    """A random seed for hashes: the strings are untrusted."""
    return <uint64_t>int.from_bytes(os.urandom(8), "little")


cdef class SpallScanner:
    """Scans the records of a file of `total` bytes block by block; offsets are those in the file.

    `format` is 0, 1, 3, or 4 for the automatic version 3; `unit` is nanoseconds a tick.
    """

    cdef Spall records
    cdef Spall taken
    cdef bint ready
    cdef int64_t unfinished, least_rows

    def __cinit__(self, int64_t total, int format, double unit, *, bint lenient):
        if not spall_init(&self.records, total, format, unit, seed()):
            raise MemoryError
        self.ready = True
        self.records.lenient = lenient
        self.least_rows = SPALL_TAKEN_ROWS

    def __dealloc__(self):
        if self.ready:
            spall_free(&self.records)
            spall_free(&self.taken)

    def scan_block(self, const uint8_t[::1] block: memoryview | bytes, int64_t offset) -> int:
        """Scan what is at an offset of the file; return MORE if more is needed, from `position` on.

        If that is still the same offset, a larger block is needed. DONE, CUT and UNKNOWN are final.
        """
        cdef int result
        cdef int64_t size = block.shape[0]
        cdef const char* begin = b""
        if size:
            begin = <const char*>&block[0]
        with nogil:
            result = spall_scan(&self.records, begin, offset, size)
        if (result != SPALL_DONE and result != SPALL_CUT and result != SPALL_UNKNOWN
                and result != SPALL_MORE):
            raise MemoryError
        return result

    def close(self):
        """End the spans that are still open with their threads."""
        with nogil:
            self.unfinished = spall_close(&self.records)

    @property
    def position(self) -> int:
        """The offset of the next block."""
        return self.records.origin + (self.records.p - self.records.base)

    @property
    def stop_offset(self) -> int:
        """The byte where reading ended early."""
        return self.records.stop_offset

    @property
    def type(self) -> int:
        """The number of the record type there."""
        return self.records.type

    def oddities(self) -> list[int]:
        """Return the counts of oddities; `readers/spall.py` names them, in this order."""
        cdef int64_t i, backwards = 0
        for i in range(self.records.thread_count):
            backwards += self.records.threads[i].backwards
        return [
            self.records.strays,
            self.records.negatives,
            self.unfinished,
            self.records.out_of_range,
            self.records.bad_buffers,
            self.records.skipped,
            self.records.trailing,
            backwards,
        ]

    @property
    def is_full(self) -> bool:
        """Whether enough spans have ended to take them."""
        return self.records.spans >= self.least_rows

    def take(self, *, bint everything):
        """Move the instants and the spans that have ended, or all, to where the columns are.

        Raises:
            MemoryError: If there is not enough memory.
        """
        cdef bint done
        spall_free(&self.taken)
        memset(&self.taken, 0, sizeof(self.taken))
        with nogil:
            done = spall_take(&self.records, &self.taken, everything)
        if not done:
            raise MemoryError
        # what is kept is looked at again each time
        self.least_rows = 2 * self.records.spans + SPALL_TAKEN_ROWS

    def spans(self) -> dict[str, Any]:
        """Return what was taken, in the order of the begins; the columns are moved out."""
        cdef Spall* s = &self.taken
        return {
            "start_ns": column(<void**>&s.start_ns, s.spans, np.int64),
            "end_ns": column(<void**>&s.end_ns, s.spans, np.int64),
            "thread": column(<void**>&s.thread, s.spans, np.int32),
            "name": column(<void**>&s.name, s.spans, np.int32),
            "level": column(<void**>&s.level, s.spans, np.int32),
            "flags": column(<void**>&s.flags, s.spans, np.uint8),
            "args_offset": column(<void**>&s.args_offset, s.spans, np.int64),
            "args_length": column(<void**>&s.args_length, s.spans, np.int32),
        }

    def instants(self) -> dict[str, Any]:
        """Return the instants that were taken, in the order of the file."""
        cdef Spall* s = &self.taken
        return {
            "time_ns": column(<void**>&s.instant_ns, s.instants, np.int64),
            "thread": column(<void**>&s.instant_thread, s.instants, np.int32),
            "name": column(<void**>&s.instant_name, s.instants, np.int32),
            "args_offset": column(<void**>&s.instant_args_offset, s.instants, np.int64),
            "args_length": column(<void**>&s.instant_args_length, s.instants, np.int32),
        }

    def names(self, int32_t first) -> list[bytes]:
        """Return the names from a code on; an address is a byte 255 and its 8 bytes."""
        cdef const intern_table* table = &self.records.names
        cdef int32_t i
        return [table.bytes[table.offsets[i]:table.offsets[i + 1]]
                for i in range(first, table.count)]

    def threads(self, int64_t first) -> list[tuple[int, int, int, int]]:
        """Return pid and tid of each thread, and offset and length of its name, 0 if it has none."""
        cdef int64_t i
        cdef SpallThread* t
        found = []
        for i in range(first, self.records.thread_count):
            t = &self.records.threads[i]
            found.append((t.pid, t.tid, t.name_offset, t.name_length))
        return found

    def processes(self) -> list[tuple[int, int, int]]:
        """Return pid, and offset and length of the name, of each naming of a process, in order."""
        cdef int64_t i
        cdef SpallProcess* p
        found = []
        for i in range(self.records.process_count):
            p = &self.records.processes[i]
            found.append((p.pid, p.offset, p.length))
        return found
