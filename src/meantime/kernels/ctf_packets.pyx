"""Packets of CTF 1.8, decoded into ftrace text."""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "ctf_packets.h" nogil:
    enum:
        CTF_INTEGER
        CTF_FLOAT
        CTF_STRING
        CTF_ENUM
        CTF_STRUCT
        CTF_VARIANT
        CTF_ARRAY
        CTF_SEQUENCE
        CTF_TEXT
        CTF_TEXT_SEQUENCE
        CTF_KINDS
    enum:
        CTF_NOTHING
        CTF_MAGIC
        CTF_STREAM_ID
        CTF_INSTANCE
        CTF_PACKET_BITS
        CTF_CONTENT_BITS
        CTF_BEGIN_TIME
        CTF_END_TIME
        CTF_DISCARDED
        CTF_SEQUENCE_NUMBER
        CTF_EVENT_ID
        CTF_MEANINGS
    enum:
        CTF_IS_SIGNED
        CTF_IS_BIG
        CTF_IS_KEPT
        CTF_IS_CLOCK
        CTF_ALL_FLAGS
    enum:
        CTF_MOST_ALIGN
    enum:
        CTF_NODE_COLUMNS
        CTF_RANGE_COLUMNS
        CTF_CLASS_COLUMNS
        CTF_EVENT_COLUMNS
    enum:
        CTF_OK
        CTF_BEYOND
        CTF_NO_EVENT
        CTF_NO_OPTION
        CTF_TOO_LONG
        CTF_NO_PROGRESS
        CTF_NO_MEMORY
    enum:
        CTF_ENDED
        CTF_FULL
        CTF_NEEDS_PACKET
        CTF_IS_DAMAGED
    struct ctf_state:
        long long unread_lines
        long long dropped_fields
    struct ctf_node:
        int kind, align, bits, flags, base, meaning
        int64_t name, name_bytes
        int32_t first, count, reg, range, ranges
        uint64_t value
    struct ctf_range:
        uint64_t low, high
        int64_t at, bytes
    struct ctf_class:
        uint64_t id
        int32_t context, header, event_context, event, events
        int64_t frequency, offset_s, offset
    struct ctf_event_class:
        uint64_t id
        int32_t context, payload
        int64_t name, name_bytes
    struct ctf_program:
        ctf_node *nodes
        ctf_range *ranges
        ctf_class *classes
        ctf_event_class *events
        int64_t node_count, range_count, class_count, event_count, name_bytes, registers
        const char *names
    struct ctf_stream:
        const uint8_t *data
        uint64_t at, end, begin, body, clock, spare
        int64_t seconds
        long nanoseconds
        bint is_beyond
        int32_t class_
        uint64_t *registers
        int kept_count
    struct ctf_decoder:
        ctf_program program
        ctf_stream *streams
        int32_t *heap
        int32_t stream_count, heap_count
        ctf_state state
        uint64_t meanings[CTF_MEANINGS]
        bint has[CTF_MEANINGS]
        char *text
        size_t needed
    struct ctf_out:
        char *at
        char *end
    void ctf_begin(ctf_state *state, int is_old)
    int ctf_read_part(ctf_decoder *decoder, ctf_stream *stream, int32_t at)
    int ctf_read_header(ctf_decoder *decoder, ctf_stream *stream)
    int ctf_keep_context(ctf_decoder *decoder, ctf_stream *stream, int32_t at)
    void ctf_set_time(const ctf_class *class_, ctf_stream *stream)
    void ctf_enter(ctf_decoder *decoder, int32_t stream)
    int ctf_run(ctf_decoder *decoder, ctf_out *out, int32_t *which, int *failed)

INTEGER, FLOAT, STRING, ENUM, STRUCT, VARIANT = (
    CTF_INTEGER, CTF_FLOAT, CTF_STRING, CTF_ENUM, CTF_STRUCT, CTF_VARIANT
)
ARRAY, SEQUENCE, TEXT, TEXT_SEQUENCE = CTF_ARRAY, CTF_SEQUENCE, CTF_TEXT, CTF_TEXT_SEQUENCE
NOTHING, MAGIC, STREAM_ID, INSTANCE = CTF_NOTHING, CTF_MAGIC, CTF_STREAM_ID, CTF_INSTANCE
PACKET_BITS, CONTENT_BITS, BEGIN_TIME = CTF_PACKET_BITS, CTF_CONTENT_BITS, CTF_BEGIN_TIME
END_TIME, DISCARDED, SEQUENCE_NUMBER = CTF_END_TIME, CTF_DISCARDED, CTF_SEQUENCE_NUMBER
EVENT_ID = CTF_EVENT_ID
IS_SIGNED, IS_BIG, IS_KEPT, IS_CLOCK = CTF_IS_SIGNED, CTF_IS_BIG, CTF_IS_KEPT, CTF_IS_CLOCK
ENDED, FULL, NEEDS_PACKET, IS_DAMAGED = CTF_ENDED, CTF_FULL, CTF_NEEDS_PACKET, CTF_IS_DAMAGED
BEYOND = CTF_BEYOND
# By what went wrong.
REASONS: dict[int, str] = {
    CTF_BEYOND: "a field ends after the content of its packet",
    CTF_NO_EVENT: "the metadata have no event of this number",
    CTF_NO_OPTION: "no option of a variant has the value of its tag",
    CTF_TOO_LONG: "an event is longer than 16 MiB",
    CTF_NO_PROGRESS: "an event has no bits",
}


cdef bint within(int64_t first, int64_t count, int64_t size) noexcept:
    return 0 <= first <= size and 0 <= count <= size - first


cdef class CtfPackets:
    """Decodes packets of several streams, and writes their events in order of time.

    A program is checked when it is given, so that no packet can lead beyond it.

    Args:
        nodes: Rows of 14 numbers: `ctf_node` of `ctf_packets.h`.
        ranges: Rows of 4 numbers: `ctf_range`.
        classes: Rows of 9 numbers: `ctf_class`, for each class of streams.
        events: Rows of 5 numbers: `ctf_event_class`, ascending by their ids in each class.
        names: The texts that the numbers refer to.
        registers: How many registers the nodes use.
        is_old: Whether the kernel is older than 4.14, whose masks of states differ.

    Raises:
        ValueError: If a number is invalid.
        MemoryError: If there is no room for it.
    """

    cdef ctf_decoder decoder
    cdef list packets
    cdef bytes names

    def __cinit__(
        self, nodes: Int64s, ranges: Int64s, classes: Int64s, events: Int64s, bytes names,
        int registers, bint is_old
    ):
        memset(&self.decoder, 0, sizeof(ctf_decoder))
        ctf_begin(&self.decoder.state, is_old)
        self.packets = []
        self.names = names
        cdef ctf_program *program = &self.decoder.program
        program.names = names
        program.name_bytes = len(names)
        if not 0 <= registers < 1 << 24:
            raise ValueError("registers")
        program.registers = registers
        cdef Py_ssize_t count = 0
        cdef int64_t *row = <int64_t*>INT64_ITEMS(nodes, &count)
        program.node_count = count // CTF_NODE_COLUMNS
        program.nodes = <ctf_node*>calloc(program.node_count + 1, sizeof(ctf_node))
        cdef int64_t *range_row = <int64_t*>INT64_ITEMS(ranges, &count)
        program.range_count = count // CTF_RANGE_COLUMNS
        program.ranges = <ctf_range*>calloc(program.range_count + 1, sizeof(ctf_range))
        cdef int64_t *class_row = <int64_t*>INT64_ITEMS(classes, &count)
        program.class_count = count // CTF_CLASS_COLUMNS
        program.classes = <ctf_class*>calloc(program.class_count + 1, sizeof(ctf_class))
        cdef int64_t *event_row = <int64_t*>INT64_ITEMS(events, &count)
        program.event_count = count // CTF_EVENT_COLUMNS
        program.events = <ctf_event_class*>calloc(program.event_count + 1, sizeof(ctf_event_class))
        if not (program.nodes and program.ranges and program.classes and program.events):
            raise MemoryError
        if max(program.node_count, program.range_count, program.event_count) > INT32_MAX:
            raise ValueError("a program is too large")
        cdef int64_t at
        for at in range(program.range_count):
            self.set_range(at, range_row + at * CTF_RANGE_COLUMNS)
        for at in range(program.node_count):
            self.set_node(at, row + at * CTF_NODE_COLUMNS)
        for at in range(program.event_count):
            self.set_event(at, event_row + at * CTF_EVENT_COLUMNS)
        for at in range(program.class_count):
            self.set_class(at, class_row + at * CTF_CLASS_COLUMNS)

    def __dealloc__(self):
        cdef int32_t at
        for at in range(self.decoder.stream_count):
            free(self.decoder.streams[at].registers)
        free(self.decoder.streams)
        free(self.decoder.heap)
        free(self.decoder.text)
        free(self.decoder.program.nodes)
        free(self.decoder.program.ranges)
        free(self.decoder.program.classes)
        free(self.decoder.program.events)

    cdef int set_range(self, int64_t at, const int64_t *row) except -1:
        cdef ctf_range *found = &self.decoder.program.ranges[at]
        found.low, found.high = <uint64_t>row[0], <uint64_t>row[1]
        found.at, found.bytes = row[2], row[3]
        if not within(found.at, found.bytes, self.decoder.program.name_bytes):
            raise ValueError("a range")
        return 0

    cdef int set_node(self, int64_t at, const int64_t *row) except -1:
        cdef ctf_program *program = &self.decoder.program
        cdef ctf_node *node = &program.nodes[at]
        cdef int64_t kind = row[0], align = row[1], bits = row[2], base = row[4]
        cdef int64_t meaning = row[11], each
        cdef bint is_ok = (
            0 <= kind < CTF_KINDS and 1 <= align <= CTF_MOST_ALIGN and not align & (align - 1)
            and 1 <= bits <= 64 and not row[3] & ~<int64_t>CTF_ALL_FLAGS
            and (base == 2 or base == 8 or base == 10 or base == 16)
            and within(row[5], row[6], program.name_bytes)
            and within(row[7], row[8], program.node_count) and (not row[8] or row[7] > at)
            and -1 <= row[9] < program.registers
            and 0 <= meaning < CTF_MEANINGS
            and within(row[12], row[13], program.range_count)
        )
        if is_ok and kind == CTF_FLOAT:
            is_ok = bits == 32 or bits == 64
        if is_ok and kind in (CTF_STRING, CTF_TEXT, CTF_TEXT_SEQUENCE):
            is_ok = align >= 8
        if is_ok and kind in (CTF_VARIANT, CTF_SEQUENCE, CTF_TEXT_SEQUENCE):
            is_ok = 0 <= row[10] < program.registers
        if is_ok and kind in (CTF_ARRAY, CTF_SEQUENCE):
            is_ok = row[8] == 1
        if is_ok and kind == CTF_VARIANT:
            for each in range(row[12], row[12] + row[13]):
                is_ok = is_ok and program.ranges[each].at < row[8]
        if not is_ok:
            raise ValueError("a node")
        node.kind, node.align, node.bits, node.flags, node.base = kind, align, bits, row[3], base
        node.name, node.name_bytes, node.first, node.count = row[5], row[6], row[7], row[8]
        node.reg, node.value, node.meaning = row[9], <uint64_t>row[10], meaning
        node.range, node.ranges = row[12], row[13]
        return 0

    cdef bint is_root(self, int64_t at, bint may_lack) noexcept:
        if at == -1:
            return may_lack
        cdef ctf_program *program = &self.decoder.program
        return 0 <= at < program.node_count and program.nodes[at].kind == CTF_STRUCT

    cdef int set_event(self, int64_t at, const int64_t *row) except -1:
        cdef ctf_event_class *event = &self.decoder.program.events[at]
        if not (
            self.is_root(row[1], True) and self.is_root(row[2], True)
            and within(row[3], row[4], self.decoder.program.name_bytes)
        ):
            raise ValueError("an event")
        event.id, event.context, event.payload = <uint64_t>row[0], row[1], row[2]
        event.name, event.name_bytes = row[3], row[4]
        return 0

    cdef int set_class(self, int64_t at, const int64_t *row) except -1:
        cdef ctf_class *found = &self.decoder.program.classes[at]
        cdef int64_t frequency = row[6], offset_s = row[7], offset = row[8]
        if not (
            self.is_root(row[1], True) and self.is_root(row[2], False)
            and self.is_root(row[3], True)
            and within(row[4], row[5], self.decoder.program.event_count)
            and 1 <= frequency <= 10**10 and 0 <= offset < frequency
            and -(1 << 41) <= offset_s <= 1 << 41
        ):
            raise ValueError("a class of streams")
        found.id, found.context, found.header = <uint64_t>row[0], row[1], row[2]
        found.event_context, found.event, found.events = row[3], row[4], row[5]
        found.frequency, found.offset_s, found.offset = frequency, offset_s, offset
        return 0

    @property
    def unread_lines(self) -> int:
        return self.decoder.state.unread_lines

    @property
    def dropped_fields(self) -> int:
        return self.decoder.state.dropped_fields

    @property
    def needed(self) -> int:
        """How many bytes the next event needs, once the output was full."""
        return self.decoder.needed

    def add_stream(self) -> int:
        """Add a stream without a packet, and return its index."""
        cdef ctf_decoder *decoder = &self.decoder
        cdef int32_t count = decoder.stream_count
        if count >= 1 << 20:
            raise ValueError("too many streams")
        cdef void *grown = realloc(decoder.streams, <size_t>(count + 1) * sizeof(ctf_stream))
        if grown == NULL:
            raise MemoryError
        decoder.streams = <ctf_stream*>grown
        grown = realloc(decoder.heap, <size_t>(count + 1) * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        decoder.heap = <int32_t*>grown
        memset(&decoder.streams[count], 0, sizeof(ctf_stream))
        cdef size_t registers = <size_t>decoder.program.registers + 1
        decoder.streams[count].registers = <uint64_t*>calloc(registers, sizeof(uint64_t))
        if decoder.streams[count].registers == NULL:
            raise MemoryError
        decoder.stream_count += 1
        self.packets.append(None)
        return count

    cdef int at_packet(self, int32_t stream, bytes data, uint64_t bits) except -1:
        cdef ctf_stream *found
        if not 0 <= stream < self.decoder.stream_count or bits > 8 * <uint64_t>len(data):
            raise ValueError("a packet")
        if self.packets[stream] is not None:
            raise ValueError("the packet before has events")
        found = &self.decoder.streams[stream]
        found.data, found.at, found.end, found.body = data, 0, bits, 0
        found.spare = 2 * bits + 65536
        return 0

    def head(
        self, int32_t stream, bytes data, int32_t header, int32_t first, int32_t count
    ) -> tuple[int, int, int, dict[int, int]]:
        """Read the header and the context of a packet, or of its first bytes.

        Args:
            stream: A stream without a packet.
            data: The bytes.
            header: The node of the packet's header; -1 if there is none.
            first: The first class of streams that it may be of; `count` are.

        Returns:
            What went wrong, 0 if nothing; the class; how many bits were read; and what they mean,
            by meaning.
        """
        cdef ctf_decoder *decoder = &self.decoder
        cdef int each, failed
        cdef int32_t class_ = -1
        cdef uint64_t id_ = 0
        if not self.is_root(header, True) or not within(first, count, decoder.program.class_count):
            raise ValueError("a header")
        self.at_packet(stream, data, 8 * <uint64_t>len(data))
        cdef ctf_stream *found = &decoder.streams[stream]
        for each in range(CTF_MEANINGS):
            decoder.has[each] = False
        failed = ctf_read_part(decoder, found, header)
        if not failed:
            if decoder.has[CTF_STREAM_ID]:
                id_ = decoder.meanings[CTF_STREAM_ID]
            for each in range(first, first + count):
                if decoder.program.classes[each].id == id_:
                    class_ = each
        if not failed and class_ >= 0:
            failed = ctf_read_part(decoder, found, decoder.program.classes[class_].context)
        found.data = NULL
        means = {
            each: decoder.meanings[each] for each in range(CTF_MEANINGS) if decoder.has[each]
        }
        return failed, class_, found.at, means

    def load(
        self, int32_t stream, bytes data, uint64_t bits, int32_t header, int32_t class_
    ) -> int:
        """Give a stream its next packet: its content has `bits`. Return what went wrong, or 0.

        The other arguments are those for and from `head`. A stream without an event in the packet
        still has none: see `has_event`.
        """
        cdef ctf_decoder *decoder = &self.decoder
        if not self.is_root(header, True) or not 0 <= class_ < decoder.program.class_count:
            raise ValueError("a header")
        self.at_packet(stream, data, bits)
        cdef ctf_stream *found = &decoder.streams[stream]
        cdef int failed
        found.class_ = class_
        decoder.has[CTF_BEGIN_TIME] = False
        failed = ctf_read_part(decoder, found, header)
        if not failed:
            failed = ctf_keep_context(decoder, found, decoder.program.classes[class_].context)
        if not failed:
            if decoder.has[CTF_BEGIN_TIME]:
                found.clock = decoder.meanings[CTF_BEGIN_TIME]
            failed = ctf_read_header(decoder, found)
        if not failed and found.body:
            self.packets[stream] = data
            ctf_enter(decoder, stream)
        else:
            found.data = NULL
        return failed

    def has_event(self, int32_t stream) -> bool:
        """Whether a stream has events in its packet."""
        return self.packets[stream] is not None

    def at_bits(self, int32_t stream) -> tuple[int, int]:
        """Return where in its packet a stream's last event began, in bits, and its time."""
        if not 0 <= stream < self.decoder.stream_count:
            raise ValueError("a stream")
        cdef ctf_stream *found = &self.decoder.streams[stream]
        return found.begin, self.time_of(found)

    cdef object time_of(self, ctf_stream *stream):
        return 0 if stream.is_beyond else stream.seconds * 1000000000 + stream.nanoseconds

    def time_ns(self, int32_t class_, uint64_t cycles) -> int:
        """Return a clock's value as nanoseconds; 0 if no time has that value."""
        if not 0 <= class_ < self.decoder.program.class_count:
            raise ValueError("a class")
        cdef ctf_stream stream
        memset(&stream, 0, sizeof(stream))
        stream.clock = cycles
        ctf_set_time(&self.decoder.program.classes[class_], &stream)
        return self.time_of(&stream)

    def run(self, output: bytearray | memoryview) -> tuple[int, int, int, int]:
        """Write events until the output is full, or a stream's packet has no more.

        Returns:
            How many bytes were written, one of the constants above, the stream, and what went wrong.
        """
        cdef Py_buffer target
        cdef ctf_out out
        cdef int32_t which = -1
        cdef int failed = 0, status
        PyObject_GetBuffer(output, &target, PyBUF_WRITABLE)
        try:
            out.at = <char*>target.buf
            out.end = out.at + target.len
            with nogil:
                status = ctf_run(&self.decoder, &out, &which, &failed)
            written = out.at - <char*>target.buf
        finally:
            PyBuffer_Release(&target)
        if failed == CTF_NO_MEMORY:
            raise MemoryError
        if status == CTF_NEEDS_PACKET or status == CTF_IS_DAMAGED:
            self.packets[which] = None
        return written, status, which, failed
