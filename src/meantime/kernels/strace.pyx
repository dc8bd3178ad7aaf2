"""Text of strace into columns; see `strace_scan.h`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import os

import numpy as np

from meantime.kernels.intern cimport intern_table, texts_of
from meantime.kernels.memory cimport column

cdef extern from "strace_scan.h":
    enum:
        STRACE_NO_TIME
        STRACE_EPOCH
        STRACE_OF_DAY
        STRACE_RELATIVE
        STRACE_UNFINISHED
        STRACE_NO_END
        STRACE_SIGNAL
        STRACE_EXIT
        STRACE_NAME
        STRACE_CHILD
        STRACE_WAITED
        STRACE_KILL
    ctypedef struct StraceCall:
        pass
    ctypedef struct StraceEvent:
        pass
    ctypedef struct StraceThread:
        int64_t tid, parent, pid, first_ns, last_ns, exit_ns, cloned_ns
        uint8_t shares_process, seen, leads
    ctypedef struct Strace:
        int mode, decimals, with_commands
        int64_t first_ns, last_ns
        StraceCall* calls
        int64_t call_count, call_room
        StraceEvent* events
        int64_t event_count, event_room
        char* text
        int64_t text_bytes, text_base
        StraceThread* threads
        int64_t thread_count
        intern_table names
        int64_t records, unknown, timeless, stacks, summary, private_fields, out_of_range
        int64_t without_end, resumed_alone, unfinished, truncated
    int strace_init(Strace*, uint64_t) noexcept nogil
    void strace_free(Strace*) noexcept nogil
    int64_t strace_scan(Strace*, const char*, int64_t, int) noexcept nogil
    int strace_end(Strace*) noexcept nogil

NO_TIME, EPOCH, OF_DAY, RELATIVE = STRACE_NO_TIME, STRACE_EPOCH, STRACE_OF_DAY, STRACE_RELATIVE
UNFINISHED, NO_END = STRACE_UNFINISHED, STRACE_NO_END
SIGNAL, EXIT, NAME, CHILD = STRACE_SIGNAL, STRACE_EXIT, STRACE_NAME, STRACE_CHILD
WAITED, KILL = STRACE_WAITED, STRACE_KILL

CALL_TYPE = np.dtype(
    [("begin_ns", "i8"), ("end_ns", "i8"), ("offset", "i8"), ("thread", "i4"), ("name", "i4"),
     ("error", "i4"), ("length", "i4"), ("flags", "i4")], align=True)
EVENT_TYPE = np.dtype(
    [("time_ns", "i8"), ("number", "i8"), ("offset", "i8"), ("kind", "i4"), ("thread", "i4"),
     ("name", "i4"), ("length", "i4")], align=True)
assert sizeof(StraceCall) == CALL_TYPE.itemsize and sizeof(StraceEvent) == EVENT_TYPE.itemsize


cdef class StraceText:
    """Reads blocks of text one after the other.

    Args:
        with_commands: Keep what programs were given: arguments and environments.
    """

    cdef Strace found

    def __cinit__(self, bint with_commands=False):
        if not strace_init(&self.found, <uint64_t>int.from_bytes(os.urandom(8), "little")):
            raise MemoryError
        self.found.with_commands = with_commands

    def __dealloc__(self):
        strace_free(&self.found)

    def scan(self, const uint8_t[::1] block: memoryview | bytes, bint last) -> int:
        """Scan the complete lines of a block, of the last one all; return the bytes that are done.

        Raises:
            MemoryError: If there is not enough memory.
        """
        cdef int64_t done
        cdef int64_t size = block.shape[0]
        cdef const char* begin = b""
        if size:
            begin = <const char*>&block[0]
        with nogil:
            done = strace_scan(&self.found, begin, size, last)
            if done >= 0 and last and not strace_end(&self.found):
                done = -1
        if done < 0:
            raise MemoryError
        return done

    def text(self) -> bytes:
        """Return the arguments that were added since the last call."""
        cdef bytes added = self.found.text[:self.found.text_bytes] if self.found.text_bytes else b""
        self.found.text_base += self.found.text_bytes
        self.found.text_bytes = 0
        return added

    def calls(self) -> npt.NDArray[np.void]:
        """Return all calls, an array of `CALL_TYPE`, in the order of their ends; moved out."""
        rows = column(<void**>&self.found.calls, self.found.call_count, CALL_TYPE)
        self.found.call_count = self.found.call_room = 0
        return rows

    def events(self) -> npt.NDArray[np.void]:
        """Return all other events, an array of `EVENT_TYPE`; moved out."""
        rows = column(<void**>&self.found.events, self.found.event_count, EVENT_TYPE)
        self.found.event_count = self.found.event_room = 0
        return rows

    def names(self) -> list[bytes]:
        """Return the names of calls, errors, signals and programs, by code."""
        return texts_of(&self.found.names)

    def threads(self) -> Int64s:
        """Return what is known of each thread.

        An array of int64 with a row for each: its id, its parent's index, the process that it
        called itself, and when it was first and last seen, exited, and was cloned, -1 for unknown;
        whether it shares its parent's process, has a line, and has become a program.
        """
        cdef int64_t i
        cdef StraceThread* t
        rows = np.empty((self.found.thread_count, 10), np.int64)
        cdef int64_t[:, ::1] to = rows
        for i in range(self.found.thread_count):
            t = &self.found.threads[i]
            to[i, 0], to[i, 1], to[i, 2] = t.tid, t.parent, t.pid
            to[i, 3], to[i, 4], to[i, 5], to[i, 6] = t.first_ns, t.last_ns, t.exit_ns, t.cloned_ns
            to[i, 7], to[i, 8], to[i, 9] = t.shares_process, t.seen, t.leads
        return rows

    @property
    def mode(self) -> int:
        """What the times are: NO_TIME, EPOCH, OF_DAY or RELATIVE."""
        return self.found.mode

    @property
    def decimals(self) -> int:
        """How many decimals the seconds have."""
        return self.found.decimals

    @property
    def bounds(self) -> tuple[int, int]:
        """The first time and the last; -1 for none."""
        return self.found.first_ns, self.found.last_ns

    def counts(self) -> dict[str, int]:
        """Return the counts of lines and oddities; `readers/strace.py` names them."""
        cdef Strace* s = &self.found
        return {
            "records": s.records, "unknown": s.unknown, "timeless": s.timeless,
            "stacks": s.stacks, "summary": s.summary, "private": s.private_fields,
            "out_of_range": s.out_of_range, "without_end": s.without_end,
            "resumed_alone": s.resumed_alone, "unfinished": s.unfinished,
            "truncated": s.truncated,
        }
