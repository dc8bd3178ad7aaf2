"""What the events of a kernel say, whatever form they are written in; see `perf.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from meantime.kernels.intern cimport intern_table
from meantime.kernels.linux_records cimport trace_presence, trace_record

cdef extern from "tracepoint_text.h" nogil:
    enum:
        PERF_IDS
        PERF_CPU
        PERF_MISC
        PERF_DATE
        PERF_UNPADDED
        PERF_NANOS
        PERF_FTRACE
    ctypedef struct perf_header:
        const char *begin
        uint32_t comm_bytes
        uint32_t bytes
        int64_t time_ns
        int32_t cpu
        int64_t tid
        char context
        char is_guess
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
        int32_t prev_prio
        int32_t next_prio
        char state
    int perf_read_switch(const char *at, const char *end, perf_switch *found)
    int perf_read_header(
        const char *line, const char *end, int layout, int64_t last_ns, perf_header *header
    )
    perf_counted perf_read_counted(const char *rest, const char *end)
    int perf_read_frame(const char *line, const char *end, perf_frame *frame)
    const char *perf_frame_behind(
        const char *event, uint32_t event_bytes, const char *tail, const char *end
    )
    const char *perf_line(const char *line, const char *end, bint last, const char **line_end)
    const char *perf_skip(const char *at, const char *end)
    const char *perf_back(const char *begin, const char *at)
    const char *perf_back_digits(const char *begin, const char *at)
    bint perf_digit(char c)
    ctypedef struct trace_wake:
        int64_t tid
        int64_t cpu
        int64_t prio
        const char *comm
        uint32_t bytes
    ctypedef struct trace_request:
        const char *device
        const char *kind
        uint32_t device_bytes
        uint32_t kind_bytes
        int64_t sector
        int64_t sectors
    ctypedef struct trace_packet:
        uint32_t seq
        uint32_t ack
        uint32_t flags
    int trace_kind(const char *at, uint32_t size, bint is_ftrace, const char **bare)
    int trace_read_header(const char *line, const char *end, perf_header *header)
    perf_counted trace_read_event(const char *rest, const char *end)
    int trace_read_wake(const char *at, const char *end, trace_wake *found)
    int trace_read_request(const char *at, const char *end, trace_request *found)
    int trace_read_packet(const char *at, const char *end, trace_packet *found)
    const char *trace_after(const char *at, const char *end, const char *before)
    const char *trace_number(const char *at, const char *end, int64_t *number)

cdef enum:
    THREADS
    EVENTS
    FRAMES
    STACKS
    NAMES
    IDS_OF_THREADS
    IDS_OF_CPUS
    TABLES


cdef struct cpu_place:
    int64_t first_ns
    int64_t last_ns
    int64_t switch_ns
    int64_t lost_from_ns
    int64_t lost
    int64_t irq
    int64_t softirq
    trace_presence here


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


cdef class PerfText:
    cdef intern_table tables[TABLES]
    cdef int32_t *open_frames
    cdef Py_ssize_t open_count, open_room
    cdef int layout
    cdef bint with_stacks, with_records, after_frames
    # whether the innermost frame of the open sample is wanted, which is of the idle task
    cdef bint wants_leaf
    cdef trace_record *records_found
    cdef int64_t record_count, record_room
    # of the sample that is open: its line, and where its fields begin and end
    cdef perf_header open_header
    cdef const char *open_tail
    cdef const char *open_end
    cdef int32_t open_event
    # by code of an event: what it is, and the name of its system call, that of the event of a
    # packet, or whether it is a wake-up that puts its thread on a queue
    cdef int32_t *kind_of
    cdef int32_t *call_of
    cdef int32_t event_room
    # by code of a thread or CPU: the index of the record that has not ended, or -1
    cdef int64_t *open_calls
    cdef int32_t thread_room
    # by code of a thread: whether it has exited, and nothing else has had its id since
    cdef char *gone
    # the ids that other threads had before, and from when on
    cdef readonly list used_again  #: list[tuple[int, int]]
    # by code of a comm with ids: the code of its thread, -1 if it has none, -2 until that is needed
    cdef int32_t *thread_of
    cdef int32_t named_room, open_thread
    cdef bint has_switches
    cdef cpu_place *places
    cdef int32_t place_room
    cdef bint in_record, is_over
    cdef int64_t last_ns, open_unknown, open_unread
    cdef readonly int64_t records, unknown_lines, unread_headers, times_beyond
    cdef readonly int64_t steps_back, far_steps_back, cpu_steps_back, unmatched_ends, unread_fields
    cdef readonly list lost  #: list[tuple[int, int, int]]

    cdef bint end_cpus(self) noexcept nogil
    cdef Py_ssize_t read(
        self, const char *begin, const char *end, bint last, Columns *out, bint *full
    ) noexcept nogil
    cdef Py_ssize_t read_ftrace(
        self, const char *begin, const char *end, bint last, Columns *out, bint *full
    ) noexcept nogil
    cdef bint add_line(self, perf_header *header, const char *end, Columns *out) noexcept nogil
    cdef bint add_note(self, const char *line, const char *end) noexcept nogil
    cdef int32_t cpu_code(self, int32_t cpu) noexcept nogil
    cdef int32_t thread_code(self, int64_t tid) noexcept nogil
    cdef void note_exit(self, int32_t thread, int64_t tid) noexcept nogil
    cdef void note_birth(self, int32_t thread, int64_t tid, int64_t time_ns) noexcept nogil
    cdef bint note_task(self, bint is_exit, int64_t tid, int64_t time_ns) noexcept nogil
    cdef bint add_task(self, const perf_header *header, const char *end) noexcept nogil
    cdef bint begin(
        self, const perf_header *header, const perf_counted *counted, const char *tail,
        const char *end, Columns *out,
    ) noexcept nogil
    cdef bint add_event(self, int32_t code) noexcept nogil
    cdef int find_kind(self, int32_t event) noexcept nogil
    cdef trace_record *new_record(self) noexcept nogil
    cdef bint put_lost(self, int32_t cpu, int64_t to_ns) noexcept nogil
    cdef bint put_ran(self, int32_t cpu) noexcept nogil
    cdef bint add_named(self, cpu_place *place, int32_t cpu) noexcept nogil
    cdef void find_thread(self) noexcept nogil
    cdef bint is_since_switch(self, int64_t row, const cpu_place *place) noexcept nogil
    cdef bint add_record(self) noexcept nogil
    cdef bint read_function(self, trace_record *made, const char *at, const char *end) noexcept nogil
    cdef bint push_frame(self, const char *at, size_t size, uint32_t is_file) noexcept nogil
    cdef bint push_code(self, int32_t frame) noexcept nogil
    cdef bint add_only_frame(self, const char *at, const char *end) noexcept nogil
    cdef bint add_frame(self, const char *line, const char *end) noexcept nogil
    cdef bint push_inlined(self, const char *name, size_t size, uint32_t is_file) noexcept nogil
    cdef bint close(self, Columns *out) noexcept nogil
    cdef int32_t stack_of(self, const int32_t *frames, Py_ssize_t count) noexcept nogil
    cdef bint add_lost(self, const perf_header *header, const char *end) noexcept nogil
    cdef bint add_loss(self, int32_t cpu, int64_t until_ns, int64_t count) noexcept nogil
    cdef bytes all_of(self, const intern_table *table)
    cdef bytes text_of(self, const intern_table *table, int32_t code)
