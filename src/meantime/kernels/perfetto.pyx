"""Perfetto traces in protobuf into tables; see `perfetto_scan.h`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

from meantime.kernels.intern cimport intern_table
from meantime.kernels.memory cimport column

cdef extern from "arrays.h":
    void *UINT8_ITEMS(object array, Py_ssize_t *count) except NULL
    void *INT64_ITEMS(object array, Py_ssize_t *count) except NULL
    void *INT32_ITEMS(object array, Py_ssize_t *count) except NULL

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
    ctypedef struct pf_event:
        pass
    ctypedef struct pf_counts:
        int64_t *time_ns
        int64_t *value
        int32_t *track
        int32_t *group
        uint8_t *is_double
        int64_t count, room
    ctypedef struct pf_clock:
        int64_t unit_ns, last_ns
        int32_t parent, is_incremental
    ctypedef struct pf_cpu:
        int64_t first_ns
        int32_t cpu
    ctypedef struct pf_scan:
        pf_table events, ends, waiting, flows, legacy, others, records, kernel_counts, kernel_points
        pf_table sequences, tracks, clocks, cpus, tids
        pf_counts counts
        intern_table names, texts
        const uint8_t *wanted
        int64_t kinds[1024]
        int64_t fields[1024]
        int64_t odd[1]
        int64_t packets, bad, position, stop_offset, stop_length, fault_offset, first_ns, last_ns
        int32_t stop_number, stop_sequence, root_clock, no_memory, lenient
    int pf_init(pf_scan *s, uint64_t seed)
    void pf_free(pf_scan *s)
    void pf_end_cpus(pf_scan *s)
    int pf_scan_block(pf_scan *s, const uint8_t *block, int64_t size, int is_last)
    int32_t pf_clock_of(pf_scan *s, int32_t sequence, uint64_t id)
    int pf_clock_segment(pf_scan *s, int32_t clock, int64_t from_ns, int64_t offset_ns)
    int pf_to_root(const pf_scan *s, int32_t clock, int64_t *time_ns)
    int pf_matched(const pf_event *events, int64_t count, const int32_t *entities,
                   const uint8_t *is_odd, const int64_t *last_ns, int64_t tracks,
                   uint8_t structured, uint8_t unfinished, int32_t *entity, int64_t *rows,
                   int64_t *end_ns, int32_t *level, uint8_t *flags, int64_t *spans, int64_t *open,
                   int64_t *kinds)
    int pf_used(const pf_event *events, int64_t count, const int64_t *rows, int64_t chosen,
                int64_t names, uint8_t *name, uint8_t *category)
    int pf_named(const pf_event *events, int64_t count, const int64_t *rows, int64_t chosen,
                 const int32_t *names, const int32_t *categories, int64_t codes, int64_t *time_ns,
                 int32_t *name, int32_t *category)
    int pf_arguments(const pf_event *events, int64_t count, const int64_t *rows, int64_t chosen,
                     const int64_t *offsets, int64_t texts, int64_t *offset, int32_t *length)

# What ended a scan.
MORE = PF_MORE
STOP = PF_STOP
TRUNCATED = PF_TRUNCATED
BAD = PF_BAD
FULL = PF_FULL

# The rows of the tables; the header explains them.
_I4 = np.int32
_I8 = np.int64
EVENT = np.dtype([("time_ns", _I8), ("end", _I8)] + [(name, _I4) for name in
                 ("track", "name", "category", "args", "level", "kind")])
END = np.dtype([("begin", _I4), ("before", _I4)])
WAITING = np.dtype([("row", _I8), ("clock", _I4), ("is_count", _I4)])
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
assert sizeof(pf_event) == EVENT.itemsize


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

    def __cinit__(self, wanted: bytes, bint lenient):
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

    def scan_block(
        self, block: bytes | bytearray, Py_ssize_t start, Py_ssize_t end, bint last
    ) -> int:
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
    def position(self) -> int:
        """Where in the block to go on."""
        return self.scan.position

    @property
    def fault_offset(self) -> int:
        """Where in the block something is malformed."""
        return self.scan.fault_offset

    @property
    def stopped(self) -> tuple[int, int, int, int]:
        """The number of the field that stopped the scan, its offset and length, and the sequence."""
        return (self.scan.stop_number, self.scan.stop_offset, self.scan.stop_length,
                self.scan.stop_sequence)

    @property
    def packets(self) -> int:
        """How many packets there were."""
        return self.scan.packets

    @property
    def bad_packets(self) -> int:
        """How many packets were skipped since they are malformed."""
        return self.scan.bad

    @property
    def root_clock(self) -> int:
        """The code of the clock that the trace counts."""
        return self.scan.root_clock

    @root_clock.setter
    def root_clock(self, int32_t clock) -> int:
        if not 0 <= clock < self.scan.clocks.count:
            raise ValueError("there is no such clock")
        self.scan.root_clock = clock

    def clock(self, int32_t sequence, uint64_t number) -> int:
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

    def converted(self, int32_t clock, int64_t time_ns) -> int | None:
        """Return a time of a clock by the trace's clock; None if they are not related."""
        if not 0 <= clock < self.scan.clocks.count:
            raise ValueError("there is no such clock")
        return time_ns if pf_to_root(&self.scan, clock, &time_ns) > 0 else None

    def take_others(self) -> npt.NDArray[np.void]:
        """Return the packets to be read since the last call; their offsets are of the last block."""
        return taken(&self.scan.others, OTHER)

    def tables(self, record_type: np.dtype[np.void]) -> dict[str, npt.NDArray[Any]]:
        """Return all other rows, once: `record_type` is that of the scheduler's records."""
        cdef pf_scan *s = &self.scan
        pf_end_cpus(s)
        if s.no_memory:
            raise MemoryError
        return {
            "events": taken(&s.events, EVENT),
            "ends": taken(&s.ends, END),
            "waiting": taken(&s.waiting, WAITING),
            "flows": taken(&s.flows, FLOW),
            "legacy": taken(&s.legacy, LEGACY),
            "records": taken(&s.records, record_type),
            "kernel_counts": taken(&s.kernel_counts, KERNEL_COUNT),
            "kernel_points": taken(&s.kernel_points, KERNEL_POINT),
            "tracks": taken(&s.tracks, TRACK),
            "tids": taken(&s.tids, np.int64),
        }

    def counts(self) -> dict[str, npt.NDArray[Any]]:
        """Return the values of counters by the names of their columns, once."""
        cdef pf_counts *counts = &self.scan.counts
        cdef Py_ssize_t count = counts.count
        found = {
            "time_ns": column(<void**>&counts.time_ns, count, np.int64),
            "value": column(<void**>&counts.value, count, np.int64),
            "track": column(<void**>&counts.track, count, np.int32),
            "group": column(<void**>&counts.group, count, np.int32),
            "is_double": column(<void**>&counts.is_double, count, np.bool_),
        }
        counts.count = counts.room = 0
        return found

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The first and the last time of events and counters, but for those that wait; or None."""
        return (self.scan.first_ns, self.scan.last_ns) if self.scan.last_ns >= 0 else None

    def cpus(self) -> list[tuple[int, int]]:
        """Return the number of each CPU, and the time at which its first bundle begins, or -1."""
        cdef int64_t i
        cdef pf_cpu *rows
        found = []
        for i in range(self.scan.cpus.count):
            rows = cpu_at(&self.scan, i)
            found.append((rows.cpu, rows.first_ns))
        return found

    def names(self) -> list[bytes]:
        """Return all names as bytes, by code."""
        return texts_from(&self.scan.names, 0)

    def texts(self) -> tuple[bytes, Int64s]:
        """Return the texts of arguments one after the other, and where each begins and ends."""
        cdef intern_table *table = &self.scan.texts
        cdef int64_t i
        offsets = np.frombuffer(
            (<char*>table.offsets)[:(table.count + 1) * sizeof(uint64_t)], np.int64
        )
        size = int(offsets[len(offsets) - 1])
        return (table.bytes[:size] if size else b""), offsets

    def kinds(self) -> dict[int, int]:
        """Return how many packets had a field of each number, of those that are messages."""
        return {i: self.scan.kinds[i] for i in range(PF_KINDS) if self.scan.kinds[i]}

    def fields(self) -> dict[int, int]:
        """Return how many track events had a field of each number that is not read."""
        return {i: self.scan.fields[i] for i in range(PF_KINDS) if self.scan.fields[i]}

    def oddities(self) -> list[int]:
        """Return the counts of oddities, in the order of the header's constants."""
        return [self.scan.odd[i] for i in range(PF_ODDITIES)]


cdef pf_event *event_items(object events, Py_ssize_t *count) except NULL:
    if events.dtype != EVENT:
        raise TypeError("the rows must be of events")
    cdef void *items = UINT8_ITEMS(events.view(np.uint8), count)
    count[0] = len(events)
    return <pf_event*>items


cdef int check(int done) except -1:
    if not done:
        raise ValueError("an event refers to what is not there")
    return done


def matched(
    events: npt.NDArray[np.void], is_odd: npt.NDArray[np.uint8], last_ns: Int64s, entities: Int32s,
    int structured, int unfinished
) -> tuple[Int32s, Int64s, Int64s, Int32s, npt.NDArray[np.uint8], int, list[int]]:
    """Find the spans of the tracks whose begins and ends the scanner has matched.

    Returns:
        The entity of each event; the rows of the begins of spans, and their ends, levels and flags;
        how many of them did not end; and how many events there are by kind.

    Args:
        events: An array of `EVENT`.
        is_odd: uint8 by track, 1 for those to leave out.
        last_ns: int64, the time of the last event of each track.
        entities: int32, the entity of each track.
        structured: The flag of all spans.
        unfinished: The flag of those that did not end.
    """
    cdef Py_ssize_t count = 0, odd = 0, last = 0, tracks = 0
    cdef int64_t found = 0, open_ = 0
    cdef int64_t[4] kinds
    cdef int done, i
    cdef pf_event *items = event_items(events, &count)
    cdef uint8_t *odds = <uint8_t*>UINT8_ITEMS(is_odd, &odd)
    cdef int64_t *lasts = <int64_t*>INT64_ITEMS(last_ns, &last)
    cdef int32_t *codes = <int32_t*>INT32_ITEMS(entities, &tracks)
    if not tracks == odd == last:
        raise ValueError("the columns of tracks must be of the same length")
    entity, rows, end_ns = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
    level, flags = np.empty(count, np.int32), np.empty(count, np.uint8)
    cdef int32_t *to_entity = <int32_t*>INT32_ITEMS(entity, NULL)
    cdef int64_t *to_rows = <int64_t*>INT64_ITEMS(rows, NULL)
    cdef int64_t *to_end = <int64_t*>INT64_ITEMS(end_ns, NULL)
    cdef int32_t *to_level = <int32_t*>INT32_ITEMS(level, NULL)
    cdef uint8_t *to_flags = <uint8_t*>UINT8_ITEMS(flags, NULL)
    cdef uint8_t all_of = <uint8_t>structured, some = <uint8_t>unfinished
    for i in range(4):
        kinds[i] = 0
    with nogil:
        done = pf_matched(items, count, codes, odds, lasts, tracks, all_of, some, to_entity,
                          to_rows, to_end, to_level, to_flags, &found, &open_, kinds)
    check(done)
    by_kind = [kinds[i] for i in range(4)]
    return entity, rows[:found], end_ns[:found], level[:found], flags[:found], open_, by_kind


def used(
    events: npt.NDArray[np.void], rows: Int64s, Py_ssize_t names
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which names and categories some events have, of so many; the last one is none."""
    cdef Py_ssize_t count = 0, chosen = 0
    cdef int done
    cdef pf_event *items = event_items(events, &count)
    cdef int64_t *row_items = <int64_t*>INT64_ITEMS(rows, &chosen)
    name, category = np.zeros(names + 1, np.uint8), np.zeros(names + 1, np.uint8)
    cdef uint8_t *to_name = <uint8_t*>UINT8_ITEMS(name, NULL)
    cdef uint8_t *to_category = <uint8_t*>UINT8_ITEMS(category, NULL)
    with nogil:
        done = pf_used(items, count, row_items, chosen, names, to_name, to_category)
    check(done)
    return name.view(np.bool_), category.view(np.bool_)


def named(
    events: npt.NDArray[np.void], rows: Int64s, names: Int32s, categories: Int32s
) -> tuple[Int64s, Int32s, Int32s]:
    """Return the times of some events, and the codes of their names and categories.

    Args:
        events: An array of `EVENT`.
        rows: int64, the rows of these events.
        names: int32, the code of each name; the last one is that of none.
        categories: int32, the code of each category; the last one is that of none.
    """
    cdef Py_ssize_t count = 0, chosen = 0, codes = 0, of_categories = 0
    cdef int done
    cdef pf_event *items = event_items(events, &count)
    cdef int64_t *row_items = <int64_t*>INT64_ITEMS(rows, &chosen)
    cdef int32_t *name_codes = <int32_t*>INT32_ITEMS(names, &codes)
    cdef int32_t *category_codes = <int32_t*>INT32_ITEMS(categories, &of_categories)
    if not 0 < codes == of_categories:
        raise ValueError("each name and category needs a code")
    time_ns, name, category = (
        np.empty(chosen, np.int64), np.empty(chosen, np.int32), np.empty(chosen, np.int32))
    cdef int64_t *to_time = <int64_t*>INT64_ITEMS(time_ns, NULL)
    cdef int32_t *to_name = <int32_t*>INT32_ITEMS(name, NULL)
    cdef int32_t *to_category = <int32_t*>INT32_ITEMS(category, NULL)
    with nogil:
        done = pf_named(items, count, row_items, chosen, name_codes, category_codes, codes, to_time,
                        to_name, to_category)
    check(done)
    return time_ns, name, category


def arguments(events: npt.NDArray[np.void], rows: Int64s, offsets: Int64s) -> tuple[Int64s, Int32s]:
    """Return the offset and length of the arguments of some events; a length of 0 for none.

    Args:
        events: An array of `EVENT`.
        rows: int64, the rows of these events.
        offsets: int64, where each text begins, and where the last one ends.
    """
    cdef Py_ssize_t count = 0, chosen = 0, texts = 0
    cdef int done
    cdef pf_event *items = event_items(events, &count)
    cdef int64_t *row_items = <int64_t*>INT64_ITEMS(rows, &chosen)
    cdef int64_t *begins = <int64_t*>INT64_ITEMS(offsets, &texts)
    offset, length = np.empty(chosen, np.int64), np.empty(chosen, np.int32)
    cdef int64_t *to_offset = <int64_t*>INT64_ITEMS(offset, NULL)
    cdef int32_t *to_length = <int32_t*>INT32_ITEMS(length, NULL)
    with nogil:
        done = pf_arguments(items, count, row_items, chosen, begins, texts - 1, to_offset, to_length)
    check(done)
    return offset, length


cdef extern from *:
    """
    #define clock_at(s, i) PF_AT(&(s)->clocks, pf_clock, i)
    #define cpu_at(s, i) PF_AT(&(s)->cpus, pf_cpu, i)
    """
    pf_clock *clock_at(pf_scan *s, int64_t i)
    pf_cpu *cpu_at(pf_scan *s, int64_t i)
