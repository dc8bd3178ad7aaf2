"""Perfetto traces in protobuf into tables; see `perfetto_scan.h`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

from meantime.kernels.intern cimport intern_table
from meantime.kernels.memory cimport column

cdef extern from "arrays.h":
    void *UINT8_ITEMS(object array, Py_ssize_t *count) except NULL

cdef extern from "perfetto_scan.h" nogil:
    enum:
        PF_MORE
        PF_STOP
        PF_TRUNCATED
        PF_BAD
        PF_NO_MEMORY
        PF_FULL
        PF_ODDITIES
        PF_KINDS
    ctypedef struct pf_table:
        void *rows
        int64_t count, room
    ctypedef struct pf_clock:
        int64_t unit_ns, last_ns
        int32_t parent, is_incremental
    ctypedef struct pf_cpu:
        int64_t first_ns
        int32_t cpu
    ctypedef struct pf_scan:
        pf_table events, counts, flows, legacy, others, records, kernel_counts, kernel_points
        pf_table sequences, tracks, clocks, cpus, tids
        intern_table names, texts
        const uint8_t *wanted
        int64_t kinds[1024]
        int64_t fields[1024]
        int64_t odd[1]
        int64_t packets, bad, position, stop_offset, stop_length, fault_offset
        int32_t stop_number, stop_sequence, root_clock, no_memory, lenient
    int pf_init(pf_scan *s, uint64_t seed)
    void pf_free(pf_scan *s)
    int pf_scan_block(pf_scan *s, const uint8_t *block, int64_t size, int is_last)
    int32_t pf_clock_of(pf_scan *s, int32_t sequence, uint64_t id)
    int pf_clock_segment(pf_scan *s, int32_t clock, int64_t from_ns, int64_t offset_ns)
    int pf_to_root(const pf_scan *s, int32_t clock, int64_t *time_ns)

# What ended a scan.
MORE = PF_MORE
STOP = PF_STOP
TRUNCATED = PF_TRUNCATED
BAD = PF_BAD
FULL = PF_FULL

# The rows of the tables; the header explains them.
_I4 = np.int32
_I8 = np.int64
EVENT = np.dtype([("time_ns", _I8), ("end_ns", _I8)] + [(name, _I4) for name in
                 ("track", "name", "category", "args", "clock", "kind", "level", "partner")])
COUNT = np.dtype([("time_ns", _I8), ("value", _I8)] + [(name, _I4) for name in
                 ("track", "group", "clock", "is_double")])
FLOW = np.dtype([("event", _I8), ("id", np.uint64), ("is_last", _I4), ("unused", _I4)])
LEGACY = np.dtype([("event", _I8), ("duration_ns", _I8), ("id", np.uint64), ("bind_id", np.uint64)]
                  + [(name, _I4) for name in ("phase", "id_kind", "scope", "direction",
                     "bind_enclosing", "instant_scope", "pid", "unused")])
OTHER = np.dtype([("time_ns", _I8), ("offset", _I8), ("length", _I8)] + [(name, _I4) for name in
                 ("number", "sequence", "generation", "clock")])
KERNEL_COUNT = np.dtype([("time_ns", _I8), ("value", _I8), ("kind", _I4), ("cpu", _I4)])
KERNEL_POINT = np.dtype([("time_ns", _I8), ("tid", _I4), ("kind", _I4)])
TRACK = np.dtype([("key", np.uint64), ("last_ns", _I8)] + [(name, _I4) for name in
                 ("kind", "is_odd", "top", "depth", "unmatched", "first")])


cdef object taken(pf_table *table, object dtype):
    rows = column(&table.rows, <Py_ssize_t>table.count, dtype)
    table.count = table.room = 0
    return rows


cdef list texts_from(const intern_table *table, int32_t first):
    cdef int32_t i
    return [table.bytes[table.offsets[i]:table.offsets[i + 1]] for i in range(first, table.count)]


cdef class PerfettoScanner:
    """Scans the packets of a trace, block by block.

    `wanted` has 1 for each number of a packet's field whose message is listed for Python.
    """

    cdef pf_scan scan
    cdef object wanted
    cdef bint ready

    def __cinit__(self, wanted, bint lenient):
        cdef Py_ssize_t count = 0
        cdef uint8_t *items = <uint8_t*>UINT8_ITEMS(wanted, &count)
        if count != PF_KINDS:
            raise ValueError("a byte for each number of a field is needed")
        self.ready = True
        if not pf_init(&self.scan, <uint64_t>int.from_bytes(os.urandom(8), "little")):
            raise MemoryError
        self.wanted = wanted
        self.scan.wanted = items
        self.scan.lenient = lenient

    def __dealloc__(self):
        if self.ready:
            pf_free(&self.scan)

    def scan_block(self, block, Py_ssize_t start, Py_ssize_t end, bint last):
        """Scan the packets at [start, end) of a block until it is used up or one has to be read.

        Returns:
            What ended the scan. Then `position` is where to go on, and after STOP `stopped` is the
            packet to read first; after BAD, `fault_offset` is where.
        """
        cdef Py_ssize_t count = 0
        cdef const uint8_t *items = <const uint8_t*>UINT8_ITEMS(block, &count)
        cdef int result
        if not 0 <= start <= end <= count:
            raise ValueError("the block is shorter")
        self.scan.position = start
        with nogil:
            result = pf_scan_block(&self.scan, items, end, last)
        if result == PF_NO_MEMORY:
            raise MemoryError
        return result

    @property
    def position(self):
        """Where in the block to go on."""
        return self.scan.position

    @property
    def fault_offset(self):
        """Where in the block something is malformed."""
        return self.scan.fault_offset

    @property
    def stopped(self):
        """The number of the field that stopped the scan, its offset and length, and the sequence."""
        return (self.scan.stop_number, self.scan.stop_offset, self.scan.stop_length,
                self.scan.stop_sequence)

    @property
    def packets(self):
        """How many packets there were."""
        return self.scan.packets

    @property
    def bad_packets(self):
        """How many packets were skipped since they are malformed."""
        return self.scan.bad

    @property
    def root_clock(self):
        """The code of the clock that the trace counts."""
        return self.scan.root_clock

    @root_clock.setter
    def root_clock(self, int32_t clock):
        if not 0 <= clock < self.scan.clocks.count:
            raise ValueError("there is no such clock")
        self.scan.root_clock = clock

    def clock(self, int32_t sequence, uint64_t number):
        """Return the code of a clock; those of 64 to 127 belong to their sequence."""
        cdef int32_t code = pf_clock_of(&self.scan, sequence, number)
        if code < 0:
            raise MemoryError
        return code

    def set_clock(self, int32_t clock, int64_t unit_ns, bint is_incremental, int64_t last_ns):
        """Set what a clock counts, and for one that counts from the packet before, its time."""
        if not 0 <= clock < self.scan.clocks.count:
            raise ValueError("there is no such clock")
        cdef pf_clock *row = self.row(clock)
        row.unit_ns = unit_ns
        row.is_incremental = is_incremental
        row.last_ns = last_ns

    cdef pf_clock *row(self, int32_t clock):
        return clock_at(&self.scan, clock)

    def add_segment(self, int32_t clock, int32_t parent, int64_t from_ns, int64_t offset_ns):
        """Add what is to be added to a clock's times from one on to get those of its parent."""
        if not (0 <= clock < self.scan.clocks.count and 0 <= parent < self.scan.clocks.count):
            raise ValueError("there is no such clock")
        self.row(clock).parent = parent
        pf_clock_segment(&self.scan, clock, from_ns, offset_ns)
        if self.scan.no_memory:
            raise MemoryError

    def converted(self, int32_t clock, int64_t time_ns):
        """Return a time of a clock by the trace's clock; None if they are not related."""
        if not 0 <= clock < self.scan.clocks.count:
            raise ValueError("there is no such clock")
        return time_ns if pf_to_root(&self.scan, clock, &time_ns) > 0 else None

    def take_others(self):
        """Return the packets to be read since the last call; their offsets are of the last block."""
        return taken(&self.scan.others, OTHER)

    def tables(self, record_type):
        """Return all other rows, once: `record_type` is that of the scheduler's records."""
        cdef pf_scan *s = &self.scan
        return {
            "events": taken(&s.events, EVENT),
            "counts": taken(&s.counts, COUNT),
            "flows": taken(&s.flows, FLOW),
            "legacy": taken(&s.legacy, LEGACY),
            "records": taken(&s.records, record_type),
            "kernel_counts": taken(&s.kernel_counts, KERNEL_COUNT),
            "kernel_points": taken(&s.kernel_points, KERNEL_POINT),
            "tracks": taken(&s.tracks, TRACK),
            "tids": taken(&s.tids, np.int64),
        }

    def cpus(self):
        """Return the number of each CPU, and the time at which its first bundle begins, or -1."""
        cdef int64_t i
        cdef pf_cpu *rows
        found = []
        for i in range(self.scan.cpus.count):
            rows = cpu_at(&self.scan, i)
            found.append((rows.cpu, rows.first_ns))
        return found

    def names(self):
        """Return all names as bytes, by code."""
        return texts_from(&self.scan.names, 0)

    def texts(self):
        """Return the texts of arguments one after the other, and where each begins and ends."""
        cdef intern_table *table = &self.scan.texts
        cdef int64_t i
        offsets = np.frombuffer(
            (<char*>table.offsets)[:(table.count + 1) * sizeof(uint64_t)], np.int64
        )
        size = int(offsets[len(offsets) - 1])
        return (table.bytes[:size] if size else b""), offsets

    def kinds(self):
        """Return how many packets had a field of each number, of those that are messages."""
        return {i: self.scan.kinds[i] for i in range(PF_KINDS) if self.scan.kinds[i]}

    def fields(self):
        """Return how many track events had a field of each number that is not read."""
        return {i: self.scan.fields[i] for i in range(PF_KINDS) if self.scan.fields[i]}

    def oddities(self):
        """Return the counts of oddities, in the order of the header's constants."""
        return [self.scan.odd[i] for i in range(PF_ODDITIES)]


cdef extern from *:
    """
    #define clock_at(s, i) PF_AT(&(s)->clocks, pf_clock, i)
    #define cpu_at(s, i) PF_AT(&(s)->cpus, pf_cpu, i)
    """
    pf_clock *clock_at(pf_scan *s, int64_t i)
    pf_cpu *cpu_at(pf_scan *s, int64_t i)
