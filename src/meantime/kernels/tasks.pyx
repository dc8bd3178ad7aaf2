"""A state machine over columns of records: tasks, loops, workers and threads."""

from libc.stdint cimport (
    int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, INT64_MAX, INT64_MIN,
)
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

import numpy as np

from meantime.kernels.record_kinds cimport (
    KIND_ASLEEP, KIND_ASLEEP_OR_LATE, KIND_BLOCKED, KIND_CALLBACK, KIND_CANCELLING, KIND_CHILD_WAIT,
    KIND_CPU_WAIT, KIND_DUE, KIND_FLUSH, KIND_GIL_HANDOFF, KIND_GIL_WAIT, KIND_ITEM_AWAITED,
    KIND_ITEM_BEGIN, KIND_ITEM_END, KIND_KNOWN, KIND_LABEL, KIND_LOCK_WAIT, KIND_LOOP_BEGIN,
    KIND_LOOP_END, KIND_LOOP_KNOWN, KIND_LOST, KIND_OFF_CPU, KIND_PARK, KIND_POLL, KIND_RESUMED,
    KIND_SLEEP, KIND_SPAWN, KIND_START, KIND_SUBMIT, KIND_THREAD, KIND_THREAD_BEGIN,
    KIND_THREAD_END, KIND_THROW, KIND_TIMER, KIND_TURN, KIND_UNPARK, KIND_WAIT, KIND_WAKE,
)

# No state; all other states are numbers from the `state_of` of a `TaskStates`.
cdef enum:
    S_NONE = -1

# what an entity is
cdef enum:
    E_TASK = 0, E_LOOP = 1, E_WORKER = 2, E_THREAD = 3, E_PROCESS = 4, E_SAMPLED = 5
    E_LAG = 6, E_COUNTER = 9, E_REQUEST = 10, E_TEST = 11, E_CALLBACK = 12

TASK, LOOP, WORKER, THREAD, PROCESS, SAMPLED, REQUEST, TEST, LAG, COUNTER, CALLBACK = (
    E_TASK, E_LOOP, E_WORKER, E_THREAD, E_PROCESS, E_SAMPLED, E_REQUEST, E_TEST, E_LAG, E_COUNTER,
    E_CALLBACK,
)
# The wait of a location's number that stands for no location.
NO_LOCATION = -1

# A poll that is shorter found what was ready when it began. A time in which an event may have been
# ready, or a turn of a loop, counts as late from the next two on.
cdef enum:
    SHORT_POLL_NS = 20_000, LEAST_POSSIBLE_NS = 100_000, LEAST_LAG_NS = 1_000_000
# A stack is recorded after the limit for steps, which is at least this: an earlier one is of the
# step before.
cdef enum:
    LEAST_BLOCKED_NS = 900_000
BLOCKED_AFTER_NS = LEAST_BLOCKED_NS
# The location numbers of stacks; the recorder counts both from 1.
cdef enum:
    STACK_BIT = 0x80000000
# How many waits for a processor are remembered for the callback that may follow.
cdef enum:
    LATE_WAITS = 8
# Durations by size, 16 counts for each power of two.
cdef enum:
    LAG_BUCKETS = 61 * 16

ctypedef struct Task:
    int32_t entity, outer
    int8_t state
    uint8_t alive
    int32_t stream
    int32_t result_entity
    int32_t label
    int32_t waited
    int32_t awaits
    int32_t awaited  # the item that its last wait was for; -1 if none, or if it was cancelled
    int64_t result_ns, woken_ns, due_ns, ended_ns
    uint32_t parent  # the number of the task that spawned it; 0 if none did
    # Of the tasks that it spawned and waits for, the last that ended: its entity or -1, when it
    # ended, and how often the loop had looked for events.
    int32_t child
    int64_t child_ns
    uint64_t child_turn

ctypedef struct Item:
    int32_t submitter, awaiter
    uint8_t begun
    int64_t submitted_ns, begun_ns

ctypedef struct Stream:
    int32_t process
    uint32_t tid
    int32_t task
    int32_t item
    int32_t entity[4]
    int8_t state[4]
    int32_t tag[4]
    int64_t latest_ns
    int64_t free_ns, run_ns
    int64_t poll_ns, polled_ns, polled_before_ns
    int64_t due_ns, timer_ns
    # For how long the thread waited for a processor: in the present step, in its part since it last
    # waited for something else, and in all; and the latest of these waits, by when they were noted.
    int64_t waited_ns, undrawn_ns, waited_ever_ns
    # For how long it was neither on a processor nor in a wait that is recorded: in the part of the
    # step since it last was, and of the whole step that of which the reason is not known.
    int64_t asleep_ns, off_cpu_ns
    int8_t asleep_as
    int64_t late_ns[LATE_WAITS], late_at_ns[LATE_WAITS]
    int64_t gil_since_ns, gil_ns, gil_longest_ns
    int64_t holder_waited_ns, handoff_since_ns
    int64_t unbegun_ns  # since when the thread waited for a processor before it did anything
    int32_t code, lag
    int64_t code_ns  # when the stack that gave the code was recorded
    uint32_t gil_tid, gil_holder
    uint64_t turn  # how often it has looked for events

ctypedef struct Rows:
    char *data
    Py_ssize_t used, room, size

ctypedef struct Change:
    int64_t time_ns
    int32_t entity, state, tag, label

ctypedef struct Flow:
    int64_t from_ns, to_ns
    int32_t from_entity, to_entity, kind

ctypedef struct Block:
    int64_t begin_ns, end_ns, waited_ns, gil_ns, code_ns, off_cpu_ns
    int32_t loop, entity, resumed, paused, code
    uint32_t gil_holder

ctypedef struct Lag:
    int64_t time_ns, value
    int32_t entity

ctypedef struct LagCounts:
    int64_t ended_ns
    int32_t entity
    int64_t most[2]
    int64_t counts[2][LAG_BUCKETS]

ctypedef struct Entity:
    int32_t what, process, ident, location
    int64_t latest_ns
    Py_ssize_t latest

ctypedef struct TableRow:
    uint32_t key
    int32_t value

# From numbers in a file, which are arbitrary, to indexes of the tasks, items or locations that have
# them.
ctypedef struct Table:
    TableRow *rows
    Py_ssize_t used, mask

# Values of a table: no entry, or a location that no ancestor defines either. The second is kept, so
# that the ancestors are searched, and the location counted, once.
cdef enum:
    NOWHERE = -1, MISSING = -2

cdef int ensure(Rows *rows, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t room = rows.room
    cdef char *data
    if rows.used + more <= room:
        return 0
    while room < rows.used + more:
        room = room * 2 if room else 4096
    data = <char *>realloc(rows.data, room * rows.size)
    if data == NULL:
        return -1
    rows.data = data
    rows.room = room
    return 0


cdef inline TableRow *row_of(const Table *table, uint32_t key) noexcept nogil:
    # Writers count up, so the low bits are the hash: consecutive numbers are adjacent in memory and
    # do not collide. Numbers that do probe with different steps; an odd step visits all of a power
    # of two.
    cdef uint32_t step = ((key * <uint32_t>0x9E3779B1) >> 7) | 1
    cdef Py_ssize_t at = key & table.mask
    while table.rows[at].value != NOWHERE and table.rows[at].key != key:
        at = (at + step) & table.mask
    return &table.rows[at]


cdef inline int32_t find(const Table *table, uint32_t key) noexcept nogil:
    return row_of(table, key).value if table.rows else <int32_t>NOWHERE


cdef int put(Table *table, uint32_t key, int32_t value) noexcept nogil:
    cdef Py_ssize_t i, capacity = table.mask + 1
    cdef Table larger
    cdef TableRow *row
    if not table.rows or table.used * 2 >= capacity:
        larger.mask = capacity * 2 - 1 if table.rows else 63
        larger.used = table.used
        larger.rows = <TableRow *>malloc((larger.mask + 1) * sizeof(TableRow))
        if not larger.rows:
            return -1
        # All bits set make each value NOWHERE, -1.
        memset(larger.rows, 255, (larger.mask + 1) * sizeof(TableRow))
        if table.rows:
            for i in range(capacity):
                if table.rows[i].value != NOWHERE:
                    row_of(&larger, table.rows[i].key)[0] = table.rows[i]
        free(table.rows)
        table[0] = larger
    row = row_of(table, key)
    table.used += row.value == NOWHERE
    row.key = key
    row.value = value
    return 0


cdef inline Py_ssize_t bucket_of(uint64_t value) noexcept nogil:
    cdef int shift = 0
    while value >= 32:
        value >>= 1
        shift += 1
    return shift * 16 + <Py_ssize_t>value


cdef int64_t middle_of(Py_ssize_t bucket):
    cdef Py_ssize_t shift = max(0, (bucket - 16) // 16)
    return ((<int64_t>(bucket - shift * 16)) << shift) + ((<int64_t>1 << shift) >> 1)


cdef class TaskStates:
    """Turns records, in order of time, into state changes and flows.

    The caller defines the state that follows each kind of record; this class determines the task,
    loop or thread that a record is about, and what it changes. Running is one state for all.

    Args:
        state_of: By kind of record, the state that it begins; for `DUE`, that of a task that may be
            ready, and for `CPU_WAIT` that of a loop.
        is_event_wait: By state, whether a task in it waits for events that the loop polls.
        is_task_wait: By state, whether a task in it waits for others to end.
        outcome_ns: How long a task or a thread that has ended is in the state of its end.
        result_lead_ns: How long before the end of an item its result can wake a task.
    """

    cdef Stream *streams
    cdef Py_ssize_t stream_count, process_count
    cdef int32_t callback_count
    cdef Table *task_tables
    cdef Table *item_tables
    cdef Table *location_tables
    cdef Rows tasks, items, changes, flows, entities, blocks, lags, lag_counts
    cdef bint labelled
    cdef int8_t state_of[256]
    cdef int8_t is_event_wait[128]
    cdef int8_t is_task_wait[128]
    cdef int8_t running, stopped, lost_state
    cdef int64_t outcome_ns, result_lead_ns
    cdef int64_t block_ns
    cdef int32_t block_known
    cdef const int8_t[::1] waits
    cdef const int32_t[::1] parents
    cdef Py_ssize_t location_count
    cdef readonly Py_ssize_t undefined_locations

    def __cinit__(
        self, const int8_t[::1] state_of, const int8_t[::1] is_event_wait,
        const int8_t[::1] is_task_wait, *, int64_t outcome_ns, int64_t result_lead_ns
    ):
        cdef Py_ssize_t kind
        if state_of.shape[0] != 256 or is_event_wait.shape[0] != 128 \
                or is_task_wait.shape[0] != 128:
            raise ValueError("there must be a state for each of 256 kinds, and of 128 a kind")
        for kind in range(128):
            self.is_event_wait[kind] = is_event_wait[kind]
            self.is_task_wait[kind] = is_task_wait[kind]
        for kind in range(256):
            self.state_of[kind] = state_of[kind]
        self.running = state_of[KIND_START]
        self.stopped = state_of[KIND_THREAD_END]
        self.lost_state = state_of[KIND_LOST]
        self.outcome_ns = outcome_ns
        self.result_lead_ns = result_lead_ns
        self.tasks.size = sizeof(Task)
        self.items.size = sizeof(Item)
        self.changes.size = sizeof(Change)
        self.flows.size = sizeof(Flow)
        self.entities.size = sizeof(Entity)
        self.blocks.size = sizeof(Block)
        self.lags.size = sizeof(Lag)
        self.lag_counts.size = sizeof(LagCounts)
        self.block_ns = INT64_MAX

    def extend(
        self,
        const int32_t[::1] stream_process,
        const int32_t[::1] parents,
        const int8_t[::1] waits,
        const int32_t[::1] location_process,
        const uint32_t[::1] location_number,
    ):
        """Add streams, processes and locations; the columns begin with those added before.

        Args:
            stream_process: By stream, the process it belongs to.
            parents: By process, the one it was forked from, whose locations it uses too; or -1.
            waits: By location, the state of a task that waits there, or `NO_LOCATION`. A location's
                index is its tag.
            location_process: By location, the process that defined it.
            location_number: The number that it has there.
        """
        cdef int32_t value
        cdef Py_ssize_t i, processes = parents.shape[0]
        cdef Stream *streams = <Stream *>realloc(
            self.streams, (stream_process.shape[0] + 1) * sizeof(Stream)
        )
        if not streams:
            raise MemoryError
        self.streams = streams
        for i in range(self.stream_count, stream_process.shape[0]):
            memset(&streams[i], 0, sizeof(Stream))
            streams[i].process = stream_process[i]
            self.forget_thread(&streams[i])
        self.stream_count = stream_process.shape[0]
        self.more_tables(&self.task_tables, processes)
        self.more_tables(&self.item_tables, processes)
        self.more_tables(&self.location_tables, processes)
        self.process_count = processes
        self.waits = waits
        self.parents = parents
        for i in range(self.location_count, waits.shape[0]):
            value = <int32_t>i if waits[i] >= 0 else <int32_t>MISSING
            if put(&self.location_tables[location_process[i]], location_number[i], value) < 0:
                raise MemoryError
        self.location_count = waits.shape[0]

    cdef more_tables(self, Table **tables, Py_ssize_t processes):
        cdef Table *more = <Table *>realloc(tables[0], (processes + 1) * sizeof(Table))
        if not more:
            raise MemoryError
        tables[0] = more
        memset(more + self.process_count, 0, (processes - self.process_count) * sizeof(Table))

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.process_count):
            free(self.task_tables[i].rows)
            free(self.item_tables[i].rows)
            free(self.location_tables[i].rows)
        free(self.streams)
        free(self.task_tables)
        free(self.item_tables)
        free(self.location_tables)
        free(self.tasks.data)
        free(self.items.data)
        free(self.changes.data)
        free(self.flows.data)
        free(self.entities.data)
        free(self.blocks.data)
        free(self.lags.data)
        free(self.lag_counts.data)

    cdef void forget_thread(self, Stream *s) noexcept nogil:
        cdef int i
        s.tid = 0
        s.task = -1
        s.item = -1
        s.free_ns = -1
        s.code = -1
        s.lag = -1
        s.gil_since_ns = -1
        s.handoff_since_ns = -1
        s.unbegun_ns = -1
        self.forget_step(s)
        self.forget_polls(s)
        for i in range(4):
            s.entity[i] = -1
            s.state[i] = S_NONE
            s.tag[i] = -1

    cdef inline void forget_step(self, Stream *s) noexcept nogil:
        s.waited_ns = 0
        s.undrawn_ns = 0
        s.asleep_ns = 0
        s.off_cpu_ns = 0
        memset(s.late_ns, 0, sizeof(s.late_ns))
        s.gil_ns = 0
        s.gil_longest_ns = 0
        s.gil_holder = 0

    cdef void forget_polls(self, Stream *s) noexcept nogil:
        s.poll_ns = -1
        s.polled_ns = -1
        s.polled_before_ns = -1
        s.due_ns = -1
        s.timer_ns = -1

    cdef int32_t new_entity(self, int32_t what, int32_t process, int32_t ident, int32_t location) \
            noexcept nogil:
        cdef Entity *e
        if ensure(&self.entities, 1) < 0:
            return -1
        e = <Entity *>self.entities.data + self.entities.used
        e.what = what
        e.process = process
        e.ident = ident
        e.location = location
        e.latest_ns = INT64_MIN
        e.latest = 0
        self.entities.used += 1
        return <int32_t>(self.entities.used - 1)

    cdef int change(self, int64_t time_ns, int32_t entity, int32_t state, int32_t tag) \
            noexcept nogil:
        cdef Change *c
        cdef Entity *e = <Entity *>self.entities.data + entity
        if ensure(&self.changes, 1) < 0:
            return -1
        # A loss or a stall is recorded at its end, and then begins in the past, where another
        # thread may have changed the entity. A history requires ascending times per attribute.
        if time_ns < e.latest_ns:
            time_ns = e.latest_ns
        e.latest_ns = time_ns
        # A loop and its thread run on after each step, also where the step ends because the loop
        # does or waits; and a thread of a pool after it has waited for a processor.
        c = <Change *>self.changes.data + e.latest
        if not E_LOOP <= e.what <= E_THREAD or e.latest >= self.changes.used \
                or c.entity != entity or c.time_ns != time_ns:
            e.latest = self.changes.used
            c = <Change *>self.changes.data + e.latest
            self.changes.used += 1
        c.time_ns = time_ns
        c.entity = entity
        c.state = state
        c.tag = tag
        c.label = -1
        return 0

    cdef int task_change(self, int64_t time_ns, Task *t, int32_t state, int32_t tag) \
            noexcept nogil:
        if self.change(time_ns, t.entity, state, tag) < 0:
            return -1
        (<Change *>self.changes.data)[self.changes.used - 1].label = t.label
        return 0

    cdef int flow(
        self, int32_t from_entity, int64_t from_ns, int32_t to_entity, int64_t to_ns, int32_t kind
    ) noexcept nogil:
        cdef Flow *f
        if from_entity < 0:
            return 0
        if ensure(&self.flows, 1) < 0:
            return -1
        f = <Flow *>self.flows.data + self.flows.used
        f.from_entity = from_entity
        f.from_ns = from_ns
        f.to_entity = to_entity
        f.to_ns = to_ns
        f.kind = kind
        self.flows.used += 1
        return 0

    cdef int block(
        self, Stream *s, int64_t begin_ns, int64_t end_ns, Task *t, int32_t paused,
        int64_t waited_ns, int32_t code,
    ) noexcept nogil:
        cdef Block *b
        if end_ns - begin_ns < self.block_ns and s.entity[E_LOOP] < self.block_known:
            return 0
        if ensure(&self.blocks, 1) < 0:
            return -1
        b = <Block *>self.blocks.data + self.blocks.used
        b.begin_ns = begin_ns
        b.end_ns = end_ns
        b.waited_ns = waited_ns
        b.loop = s.entity[E_LOOP]
        b.entity = t.entity if t else -1
        b.resumed = t.waited if t else -1
        b.paused = paused
        b.code = code
        b.code_ns = s.code_ns if s.code >= 0 else -1
        b.gil_ns = min(s.gil_ns, end_ns - begin_ns)
        b.gil_holder = s.gil_holder
        b.off_cpu_ns = min(s.off_cpu_ns, end_ns - begin_ns)
        self.blocks.used += 1
        return 0

    cdef int end_step(
        self, Stream *s, int64_t begin_ns, int64_t end_ns, Task *t, int32_t paused, int32_t code
    ) noexcept nogil:
        # A step has ended. On its loop's lane it has the code that ran, and at its end the time in
        # which the thread slept, or waited for a processor: when that was is not known.
        cdef int failed = 0
        cdef int64_t waited_ns = min(s.waited_ns, end_ns - begin_ns)
        cdef int64_t undrawn_ns
        cdef int32_t loop = s.entity[E_LOOP] if s.state[E_LOOP] == self.running else -1
        if loop >= 0 and s.code < 0 and code >= 0:
            failed |= self.loop_code(begin_ns, s, code)
        if s.code >= 0:
            code = s.code
        undrawn_ns = s.asleep_ns + s.undrawn_ns
        s.undrawn_ns = min(s.undrawn_ns, end_ns - begin_ns)
        failed |= self.draw_waits(s, end_ns, code)
        if loop >= 0 and (undrawn_ns > 0 or code >= 0):
            failed |= self.change(end_ns, loop, self.running, s.tag[E_LOOP])
        s.code = -1
        failed |= self.block(s, begin_ns, end_ns, t, paused, waited_ns, code)
        self.forget_step(s)
        return failed

    cdef void note_waited(self, int64_t time_ns, Stream *s, int64_t waited_ns) noexcept nogil:
        # Until now the thread could not run in its step, because another one had the processor.
        cdef int i
        if waited_ns <= 0 or (s.task < 0 and s.free_ns < 0):
            return
        s.waited_ns = min(s.waited_ns + waited_ns, <int64_t>1 << 60)
        for i in range(LATE_WAITS - 1, 0, -1):
            s.late_ns[i] = s.late_ns[i - 1]
            s.late_at_ns[i] = s.late_at_ns[i - 1]
        s.late_ns[0] = waited_ns
        s.late_at_ns[0] = time_ns

    cdef int cpu_wait_record(
        self, int64_t time_ns, int32_t stream, int64_t waited_ns
    ) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        # Any number can be in a file.
        if not 0 < waited_ns < <int64_t>1 << 60:
            return 0
        s.waited_ever_ns = min(s.waited_ever_ns + waited_ns, <int64_t>1 << 60)
        if s.task >= 0 or s.free_ns >= 0:
            # drawn with the code that runs, which may be known later
            self.note_waited(time_ns, s, waited_ns)
            s.undrawn_ns = min(s.undrawn_ns + waited_ns, <int64_t>1 << 60)
            return 0
        s.unbegun_ns = max(time_ns - waited_ns, 0)
        return self.draw(s, time_ns - waited_ns, time_ns - waited_ns, time_ns, S_NONE, -1)

    cdef int sleep_record(
        self, int64_t time_ns, int32_t stream, int kind, int64_t asleep_ns
    ) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        # Any number can be in a file.
        if not 0 < asleep_ns < <int64_t>1 << 60:
            return 0
        if s.task < 0 and s.free_ns < 0:
            return self.draw(s, time_ns - asleep_ns, time_ns, time_ns, self.state_of[kind], -1)
        s.asleep_ns = min(s.asleep_ns + asleep_ns, <int64_t>1 << 60)
        s.asleep_as = self.state_of[kind]
        if kind == KIND_OFF_CPU:
            s.off_cpu_ns = min(s.off_cpu_ns + asleep_ns, <int64_t>1 << 60)
        return 0

    cdef int draw_waits(self, Stream *s, int64_t until_ns, int32_t code) noexcept nogil:
        # What a thread that sleeps waits for next is a processor.
        cdef int64_t wait_ns = until_ns - s.undrawn_ns
        cdef int64_t sleep_ns = wait_ns - s.asleep_ns
        s.asleep_ns = 0
        s.undrawn_ns = 0
        return self.draw(s, sleep_ns, wait_ns, until_ns, s.asleep_as, code)

    cdef int draw(
        self, Stream *s, int64_t sleep_ns, int64_t wait_ns, int64_t until_ns, int8_t asleep_as,
        int32_t code,
    ) noexcept nogil:
        # The thread of a loop slept, then waited for a processor: on the lanes of both.
        cdef int what, failed = 0
        if sleep_ns >= until_ns:
            return 0
        for what in range(E_LOOP, E_THREAD + 1):
            if s.entity[what] >= 0 and s.state[what] == self.running:
                # the latest change lasts for a while, at the same time on both lanes
                sleep_ns = max(
                    sleep_ns, (<Entity *>self.entities.data)[s.entity[what]].latest_ns + 1
                )
        wait_ns = max(wait_ns, sleep_ns)
        for what in range(E_LOOP, E_THREAD + 1):
            if sleep_ns < until_ns and s.entity[what] >= 0 and s.state[what] == self.running:
                if sleep_ns < wait_ns:
                    failed |= self.change(
                        sleep_ns, s.entity[what], asleep_as, code if what == E_LOOP else s.tag[what]
                    )
                if wait_ns < until_ns:
                    failed |= self.change(
                        wait_ns, s.entity[what], self.state_of[KIND_CPU_WAIT],
                        code if what == E_LOOP else s.tag[what],
                    )
                failed |= self.change(until_ns, s.entity[what], self.running, s.tag[what])
        return failed

    cdef int loop_code(self, int64_t begin_ns, Stream *s, int32_t code) noexcept nogil:
        # The code of a step is known after its begin. If the thread has waited in it, it is that of
        # the present part: when the thread began to wait, or went on.
        cdef int32_t loop = s.entity[E_LOOP]
        cdef Entity *e = <Entity *>self.entities.data + loop
        cdef Change *c = <Change *>self.changes.data + e.latest
        if e.latest_ns >= begin_ns and e.latest < self.changes.used and c.entity == loop \
                and c.time_ns == e.latest_ns:
            c.tag = code
            return 0
        # the latest change may have been taken; a second one at its time would replace it
        return self.change(max(begin_ns, e.latest_ns + 1), loop, s.state[E_LOOP], code)

    cdef void gil_record(
        self, int64_t time_ns, Stream *s, int kind, uint32_t holder
    ) noexcept nogil:
        # How long a step waits for the GIL, and who has it in the longest of its waits. What that
        # thread waits for a processor meanwhile, the step waits too; and one that is to receive the
        # GIL needs nothing else.
        cdef int64_t wait_ns, late_ns
        if kind == KIND_GIL_WAIT:
            s.gil_since_ns = time_ns
            s.gil_tid = holder
            s.holder_waited_ns = self.waited_ever(s.process, holder)
            return
        if kind == KIND_GIL_HANDOFF:
            s.handoff_since_ns = time_ns
            return
        if s.gil_since_ns >= 0 and (s.task >= 0 or s.free_ns >= 0):
            wait_ns = time_ns - s.gil_since_ns
            late_ns = self.waited_ever(s.process, s.gil_tid) - s.holder_waited_ns
            late_ns = min(max(late_ns, 0), wait_ns)
            self.note_waited(time_ns, s, late_ns)
            wait_ns -= late_ns
            s.gil_ns += wait_ns
            if wait_ns > s.gil_longest_ns:
                s.gil_longest_ns = wait_ns
                s.gil_holder = s.gil_tid
        if s.handoff_since_ns >= 0:
            self.note_waited(time_ns, s, time_ns - s.handoff_since_ns)
        s.gil_since_ns = -1
        s.handoff_since_ns = -1

    cdef int64_t waited_ever(self, int32_t process, uint32_t tid) noexcept nogil:
        # For how long a thread has waited for a processor, as far as that was recorded.
        cdef Py_ssize_t i
        for i in range(self.stream_count if tid else 0):
            if self.streams[i].process == process and self.streams[i].tid == tid:
                return self.streams[i].waited_ever_ns
        return 0

    cdef int loop_is_free(self, Stream *s, int64_t time_ns, bint free) noexcept nogil:
        # what a loop does between its tasks' steps are callbacks, and its own work
        cdef int64_t since_ns = s.free_ns
        s.free_ns = time_ns if free else -1
        return 0 if since_ns < 0 else self.end_step(s, since_ns, time_ns, NULL, -1, -1)

    cdef int callback_record(
        self, int64_t time_ns, Stream *s, uint32_t ident, uint32_t aux
    ) noexcept nogil:
        cdef int64_t duration_ns = aux, begin_ns, own_ns = 0
        cdef int32_t code, entity
        cdef Stream before
        cdef int i, failed = 0
        if s.task >= 0 or s.free_ns < 0:
            return 0
        if aux & <uint32_t>0x80000000:
            duration_ns = <int64_t>(aux & <uint32_t>0x7FFFFFFF) * 1000
        begin_ns = max(time_ns - duration_ns, s.free_ns)
        if begin_ns > s.free_ns:
            # what precedes it is other work of the loop, shorter than what is asked about
            for i in range(LATE_WAITS):
                if s.late_at_ns[i] > begin_ns:
                    own_ns = min(own_ns + s.late_ns[i], s.waited_ns)
            before = s[0]
            s.asleep_ns = 0
            s.off_cpu_ns = 0
            s.waited_ns -= own_ns
            s.undrawn_ns -= min(s.undrawn_ns, own_ns)
            s.code = -1
            s.gil_ns = 0
            s.gil_longest_ns = 0
            s.gil_holder = 0
            failed = self.end_step(s, s.free_ns, begin_ns, NULL, -1, -1)
            s[0] = before
            s.undrawn_ns -= min(s.undrawn_ns, s.waited_ns - own_ns)
            s.waited_ns = own_ns
        s.free_ns = time_ns
        code = self.tag(s.process, ident)
        self.callback_count += 1
        entity = self.new_entity(E_CALLBACK, s.process, self.callback_count, code)
        if entity < 0:
            return -1
        failed |= self.change(begin_ns, entity, self.running, code)
        failed |= self.change(time_ns, entity, S_NONE, -1)
        return failed | self.end_step(s, begin_ns, time_ns, NULL, -1, code)

    cdef int blocked_record(
        self, int64_t time_ns, int32_t process, uint32_t tid, uint32_t stack
    ) noexcept nogil:
        # A thread of the recorder has recorded the stack of another thread.
        cdef Py_ssize_t i
        cdef Stream *s
        cdef int64_t begin_ns
        cdef int32_t code
        for i in range(self.stream_count):
            s = &self.streams[i]
            if s.process != process or s.tid != tid:
                continue
            begin_ns = s.run_ns if s.task >= 0 else s.free_ns
            if begin_ns < 0 or time_ns - begin_ns < LEAST_BLOCKED_NS:
                return 0
            # of several, the last is of the longest part
            code = self.tag(process, stack | <uint32_t>STACK_BIT)
            if code < 0:
                return 0
            s.code = code
            s.code_ns = time_ns
            if s.entity[E_LOOP] < 0 or s.state[E_LOOP] == self.stopped \
                    or s.state[E_LOOP] == self.lost_state or s.state[E_LOOP] == S_NONE:
                return 0
            return self.loop_code(begin_ns, s, code)
        return 0

    cdef LagCounts *lag_counts_of(self, int32_t stream) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        cdef LagCounts *counts
        if s.lag < 0:
            if ensure(&self.lag_counts, 1) < 0:
                return NULL
            counts = <LagCounts *>self.lag_counts.data + self.lag_counts.used
            memset(counts, 0, sizeof(LagCounts))
            counts.entity = self.new_entity(E_LAG, stream, <int32_t>s.tid, -1)
            if counts.entity < 0:
                return NULL
            s.lag = <int32_t>self.lag_counts.used
            self.lag_counts.used += 1
        return <LagCounts *>self.lag_counts.data + s.lag

    cdef int count_lag(self, int32_t stream, int which, int64_t value) noexcept nogil:
        cdef LagCounts *counts = self.lag_counts_of(stream)
        if counts == NULL:
            return -1
        counts.counts[which][bucket_of(<uint64_t>value)] += 1
        counts.most[which] = max(counts.most[which], value)
        return 0

    cdef int begin_poll(self, int64_t time_ns, int32_t stream) noexcept nogil:
        # A loop looks for events: all that was ready since the last time has waited for this.
        cdef Stream *s = &self.streams[stream]
        cdef int64_t since_ns = s.polled_ns
        cdef LagCounts *counts
        cdef Lag *row
        s.poll_ns = time_ns
        s.turn += 1
        if since_ns < 0 or time_ns < since_ns:
            return 0
        if self.count_lag(stream, 1, time_ns - since_ns) < 0:
            return -1
        if time_ns - since_ns < LEAST_LAG_NS:
            return 0
        if ensure(&self.lags, 2) < 0:
            return -1
        counts = <LagCounts *>self.lag_counts.data + s.lag
        row = <Lag *>self.lags.data + self.lags.used
        if self.lags.used and row[-1].entity == counts.entity and row[-1].time_ns == since_ns:
            # the time before this one ends when this one begins
            row -= 1
            self.lags.used -= 1
            row[0].time_ns = since_ns
        else:
            # A poll that does not wait ends when it begins, and two values cannot begin at one time.
            row[0].time_ns = since_ns + (since_ns == counts.ended_ns)
        row[0].value = time_ns - since_ns
        row[0].entity = counts.entity
        row[1].time_ns = counts.ended_ns = time_ns
        row[1].value = 0
        row[1].entity = counts.entity
        self.lags.used += 2
        return 0

    cdef inline void end_poll(self, int64_t time_ns, Stream *s) noexcept nogil:
        s.polled_before_ns = s.polled_ns
        s.polled_ns = time_ns

    cdef int64_t ready_ns(self, int64_t time_ns, int32_t stream, Task *t) noexcept nogil:
        # When a task that no task has woken became ready: the loop may have been busy then. INT64_MIN
        # means that memory is exhausted.
        cdef Stream *s = &self.streams[stream]
        cdef int64_t due_ns = s.due_ns, began_ns = (<Entity *>self.entities.data)[t.entity].latest_ns
        cdef int64_t since_ns
        if due_ns < 0:
            due_ns = t.due_ns
        if due_ns >= 0 and due_ns <= time_ns:
            if self.count_lag(stream, 0, time_ns - due_ns) < 0:
                return INT64_MIN
        elif t.result_entity >= 0:
            due_ns = t.result_ns
        elif t.state >= 0 and self.is_event_wait[t.state] and s.polled_ns > began_ns:
            since_ns = max(s.polled_before_ns, began_ns + 1)
            if s.polled_before_ns >= 0 and s.poll_ns - since_ns >= LEAST_POSSIBLE_NS \
                    and s.polled_ns - s.poll_ns < SHORT_POLL_NS:
                if self.task_change(since_ns, t, self.state_of[KIND_DUE], -1) < 0:
                    return INT64_MIN
            return s.polled_ns
        else:
            return time_ns
        # the loop was waiting at that time: what is late is the timer, or the system
        if s.poll_ns >= 0 and s.poll_ns <= due_ns < s.polled_ns:
            due_ns = s.polled_ns
        return due_ns if began_ns < due_ns < time_ns else time_ns

    cdef inline int32_t tag(self, int32_t process, uint32_t location) noexcept nogil:
        cdef int32_t found
        if location == 0:
            return -1
        found = find(&self.location_tables[process], location)
        if found == NOWHERE:
            found = self.inherited_tag(process, location)
        return found if found >= 0 else -1

    cdef int32_t inherited_tag(self, int32_t process, uint32_t location) noexcept nogil:
        cdef int32_t at = process, found = NOWHERE
        # Bounded, since a damaged recording can make processes their own ancestors.
        cdef Py_ssize_t steps
        for steps in range(self.process_count):
            at = self.parents[at]
            if at < 0 or found >= 0:
                break
            found = find(&self.location_tables[at], location)
        if found < 0:
            found = MISSING
            self.undefined_locations += 1
        # Added to the process's own table, so that it is found at once from now on.
        put(&self.location_tables[process], location, found)
        return found

    cdef inline int32_t known_task(self, int32_t process, uint32_t ident) noexcept nogil:
        return find(&self.task_tables[process], ident)

    cdef int32_t task_of(self, int32_t stream, uint32_t ident, uint32_t location) noexcept nogil:
        cdef int32_t process = self.streams[stream].process
        cdef int32_t number = self.known_task(process, ident)
        cdef Task *t
        if number >= 0:
            return number
        number = <int32_t>self.tasks.used
        if ensure(&self.tasks, 1) < 0:
            return -2
        t = <Task *>self.tasks.data + self.tasks.used
        memset(t, 0, sizeof(Task))
        t.outer = -1
        t.state = S_NONE
        t.alive = 1
        t.stream = stream
        t.result_entity = -1
        t.label = -1
        t.waited = -1
        t.awaits = -1
        t.awaited = -1
        t.woken_ns = -1
        t.due_ns = -1
        t.child = -1
        t.entity = self.new_entity(E_TASK, process, <int32_t>ident, self.tag(process, location))
        if t.entity < 0:
            return -2
        if put(&self.task_tables[process], ident, number) < 0:
            return -2
        self.tasks.used += 1
        return number

    cdef int32_t thread_entity(self, int32_t stream, int what) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        if s.entity[what] < 0:
            s.entity[what] = self.new_entity(what, stream, <int32_t>s.tid, -1)
        return s.entity[what]

    cdef int thread_change(
        self, int32_t stream, int what, int64_t time_ns, int8_t state, int32_t tag
    ) noexcept nogil:
        cdef int32_t entity = self.thread_entity(stream, what)
        self.streams[stream].state[what] = state
        self.streams[stream].tag[what] = tag
        if entity < 0:
            return -1
        return self.change(time_ns, entity, state, tag)

    cdef int stall(self, int64_t time_ns, int32_t stream, int64_t duration_ns) noexcept nogil:
        # The thread wrote its records: time that the recorder took, not the program.
        cdef Stream *s = &self.streams[stream]
        cdef int64_t since_ns = s.latest_ns
        cdef int what, failed = 0
        # A damaged record may have any duration, so it begins no earlier than the latest record.
        if duration_ns >= 0 and time_ns >= INT64_MIN + duration_ns:
            since_ns = max(time_ns - duration_ns, since_ns)
        for what in range(E_LOOP, E_THREAD + 1):
            if s.entity[what] >= 0 and s.state[what] == self.running and since_ns < time_ns:
                failed |= self.change(since_ns, s.entity[what], self.state_of[KIND_FLUSH], -1)
                failed |= self.change(time_ns, s.entity[what], self.running, s.tag[what])
        return failed

    cdef int end_thread(self, int32_t stream, int64_t time_ns) noexcept nogil:
        cdef int what, failed = 0
        cdef Stream *s = &self.streams[stream]
        for what in range(E_LOOP, E_THREAD + 1):
            if s.entity[what] < 0:
                continue
            if s.state[what] != self.stopped:
                failed |= self.change(time_ns, s.entity[what], self.stopped, -1)
            # like a task, a thread that has ended is there no more
            failed |= self.change(time_ns + self.outcome_ns, s.entity[what], S_NONE, -1)
        self.forget_thread(s)
        return failed

    cdef int lose(self, int32_t stream, int64_t from_ns) noexcept nogil:
        cdef Py_ssize_t i
        cdef int failed = 0
        cdef Stream *s = &self.streams[stream]
        cdef Task *t
        for i in range(self.tasks.used):
            t = <Task *>self.tasks.data + i
            if t.alive and t.stream == stream and t.state != self.lost_state:
                t.state = self.lost_state
                failed |= self.change(from_ns, t.entity, self.lost_state, -1)
        for i in range(E_LOOP, E_THREAD + 1):
            if s.entity[i] >= 0 and s.state[i] != self.stopped and s.state[i] != self.lost_state:
                s.state[i] = self.lost_state
                failed |= self.change(from_ns, s.entity[i], self.lost_state, -1)
        s.task = -1
        s.free_ns = -1
        s.code = -1
        self.forget_step(s)
        self.forget_polls(s)
        return failed

    cdef int leave(self, int64_t time_ns, int32_t stream, Task *t, int32_t paused) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        cdef int failed = 0
        if s.task >= 0 and <Task *>self.tasks.data + s.task == t:
            s.task = t.outer
            if s.task < 0:
                failed = self.end_step(s, s.run_ns, time_ns, t, paused, -1)
                if s.state[E_LOOP] == self.running:
                    s.free_ns = time_ns
        t.outer = -1
        return failed

    cdef int task_record(
        self, int64_t time_ns, int32_t stream, int kind, uint32_t ident, uint32_t aux
    ) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        cdef int32_t number, waker, child
        # a wake names a task where the others name a location
        cdef int32_t tag = self.tag(s.process, aux) if kind != KIND_WAKE else -1
        cdef int64_t ready_ns, woke_ns, timer_ns = s.timer_ns
        cdef Task *t
        cdef Task *other
        cdef Item *item
        if kind == KIND_WAIT or kind == KIND_CANCELLING or kind == KIND_WAKE:
            # These do not define a task: one whose beginning is lost appears with its next step.
            number = self.known_task(s.process, ident)
            if number < 0:
                return 0
        else:
            number = self.task_of(stream, ident, aux)
            if number < 0:
                return -1
        t = <Task *>self.tasks.data + number
        if kind == KIND_SPAWN:
            t.state = self.state_of[KIND_SPAWN]
            if s.task >= 0:
                waker = (<Task *>self.tasks.data + s.task).entity
                if self.flow(waker, time_ns, t.entity, time_ns, KIND_SPAWN) < 0:
                    return -1
                t.parent = <uint32_t>(<Entity *>self.entities.data)[waker].ident
            return self.task_change(time_ns, t, t.state, tag)
        if kind == KIND_KNOWN:
            return 0
        if kind == KIND_START or kind == KIND_THROW:
            if t.state != self.running:
                if s.task < 0:
                    s.run_ns = time_ns
                    if self.loop_is_free(s, time_ns, False) < 0:
                        return -1
                if s.task != number:
                    t.outer = s.task
                s.task = number
            t.alive = 1
            t.stream = stream
            t.due_ns = -1
            s.timer_ns = -1
            t.state = self.running
            if kind == KIND_THROW:
                t.awaited = -1
            return self.task_change(time_ns, t, self.running, tag)
        if kind == KIND_WAIT or kind == KIND_CANCELLING:
            if self.leave(time_ns, stream, t, tag) < 0:
                return -1
            t.waited = tag
            t.child = -1
            # a timer that a step starts is that of the wait in which the step ends
            t.due_ns = timer_ns
            s.timer_ns = -1
            t.state = self.state_of[kind]
            if kind == KIND_WAIT and tag >= 0:
                t.state = self.waits[tag]
            t.awaited = t.awaits
            if t.awaits >= 0:
                # a task that waits for an item waits for a thread to begin it first
                item = <Item *>self.items.data + t.awaits
                t.awaits = -1
                if kind == KIND_WAIT and not item.begun:
                    item.awaiter = number
                    t.state = self.state_of[KIND_SUBMIT]
            return self.task_change(time_ns, t, t.state, tag)
        if kind == KIND_WAKE:
            if not t.alive or t.state == self.running or t.state == self.state_of[KIND_WAKE] \
                    or t.state == self.state_of[KIND_SPAWN]:
                s.due_ns = -1
                return 0
            ready_ns = time_ns
            # `gather` and its like are called back in the turn of the loop after a task's end
            child = t.child if s.turn <= t.child_turn + 1 else -1
            if not aux:
                ready_ns = self.ready_ns(time_ns, stream, t)
                if ready_ns == INT64_MIN:
                    return -1
            s.due_ns = -1
            t.due_ns = -1
            t.state = self.state_of[KIND_WAKE]
            if aux:
                number = self.known_task(s.process, aux)
                if number >= 0:
                    other = <Task *>self.tasks.data + number
                    woke_ns = time_ns if other.alive else other.ended_ns
                    if self.flow(other.entity, woke_ns, t.entity, time_ns, KIND_WAKE) < 0:
                        return -1
            elif t.result_entity >= 0:
                if self.flow(t.result_entity, t.result_ns, t.entity, time_ns, KIND_ITEM_END) < 0:
                    return -1
                t.result_entity = -1
            elif child >= 0 and ready_ns == time_ns:
                if self.flow(child, t.child_ns, t.entity, time_ns, KIND_WAKE) < 0:
                    return -1
            else:
                t.woken_ns = time_ns
            return self.task_change(ready_ns, t, t.state, -1)
        # one of the ends
        if self.leave(time_ns, stream, t, -1) < 0:
            return -1
        t.alive = 0
        t.ended_ns = time_ns
        self.note_child(s.process, stream, t)
        t.state = self.state_of[kind]
        if self.task_change(time_ns, t, t.state, tag) < 0:
            return -1
        return self.change(time_ns + self.outcome_ns, t.entity, S_NONE, -1)

    cdef void note_child(self, int32_t process, int32_t stream, Task *child) noexcept nogil:
        # The task that spawned one which has ended may wait for it.
        cdef int32_t number = self.known_task(process, child.parent) if child.parent else -1
        cdef Task *t
        if number < 0:
            return
        t = <Task *>self.tasks.data + number
        if t.alive and t.stream == stream and t.state >= 0 and self.is_task_wait[t.state]:
            t.child = child.entity
            t.child_ns = child.ended_ns
            t.child_turn = self.streams[stream].turn

    cdef int item_begins(self, int64_t time_ns, Item *item) noexcept nogil:
        cdef Task *t
        if item.awaiter < 0:
            return 0
        t = <Task *>self.tasks.data + item.awaiter
        item.awaiter = -1
        if not t.alive or t.state != self.state_of[KIND_SUBMIT]:
            return 0
        t.state = self.state_of[KIND_ITEM_AWAITED]
        return self.task_change(time_ns, t, t.state, t.waited)

    cdef int wait_record(self, int64_t time_ns, int32_t stream, int kind) noexcept nogil:
        # What a thread waits for is also the state of its loop, or of the item that it runs.
        cdef Stream *s = &self.streams[stream]
        cdef int8_t state = self.state_of[kind], at
        cdef int what, failed = 0
        cdef int32_t tag
        cdef bint is_idle = s.state[E_WORKER] == self.state_of[KIND_ITEM_END]
        # until now it ran, slept, or waited for a processor
        failed |= self.draw_waits(s, time_ns, s.code)
        if s.state[E_LOOP] == self.state_of[KIND_PARK]:
            # the call in which a loop waits for events, which PARK and UNPARK enclose
            if kind == KIND_POLL or kind == KIND_RESUMED:
                return 0
        for what in range(E_LOOP, E_WORKER + 1):
            at = s.state[what]
            if at == S_NONE or at == self.stopped or at == self.lost_state or at == state \
                    or (what == E_WORKER and is_idle):
                continue
            s.state[what] = state
            # a step whose code is known has it also while the thread waits
            tag = s.code if what == E_LOOP and s.code >= 0 else s.tag[what]
            failed |= self.change(time_ns, s.entity[what], state, tag)
        if is_idle and kind == KIND_LOCK_WAIT:
            # a pool's thread waits for its next item by a lock
            state = self.state_of[KIND_ITEM_END]
        return failed | self.thread_change(stream, E_THREAD, time_ns, state, s.tag[E_THREAD])

    cdef int loop_change(
        self, int64_t time_ns, int32_t stream, int8_t state, int32_t tag
    ) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        cdef int failed = self.thread_change(stream, E_LOOP, time_ns, state, tag)
        if s.entity[E_THREAD] >= 0:
            # a thread goes on after its loop has ended
            state = self.running if state == self.stopped else state
            failed |= self.thread_change(stream, E_THREAD, time_ns, state, s.tag[E_THREAD])
        return failed

    cdef int item_record(
        self, int64_t time_ns, int32_t stream, int kind, uint32_t ident, uint32_t aux
    ) noexcept nogil:
        cdef Stream *s = &self.streams[stream]
        cdef int32_t number = find(&self.item_tables[s.process], ident)
        cdef Item *item
        cdef Task *t
        cdef int32_t worker
        if kind == KIND_SUBMIT:
            if ensure(&self.items, 1) < 0:
                return -1
            if put(&self.item_tables[s.process], ident, <int32_t>self.items.used) < 0:
                return -1
            item = <Item *>self.items.data + self.items.used
            item.submitter = s.task
            item.awaiter = -1
            item.begun = False
            item.submitted_ns = time_ns
            item.begun_ns = time_ns
            self.items.used += 1
            return 0
        worker = self.thread_entity(stream, E_WORKER)
        if worker < 0:
            return -1
        if kind == KIND_ITEM_BEGIN:
            if number >= 0:
                item = <Item *>self.items.data + number
                item.begun_ns = time_ns
                item.begun = True
                if self.item_begins(time_ns, item) < 0:
                    return -1
                if item.submitter >= 0:
                    t = <Task *>self.tasks.data + item.submitter
                    if self.flow(t.entity, item.submitted_ns, worker, time_ns, KIND_SUBMIT) < 0:
                        return -1
            return self.thread_change(
                stream, E_WORKER, time_ns, self.running, self.tag(s.process, aux)
            )
        if number >= 0:
            item = <Item *>self.items.data + number
            if item.submitter >= 0:
                t = <Task *>self.tasks.data + item.submitter
                # the thread may have lost the processor in between
                if t.woken_ns >= item.begun_ns and (
                    t.awaited == number or time_ns - t.woken_ns < self.result_lead_ns
                ):
                    if self.flow(worker, t.woken_ns, t.entity, t.woken_ns, KIND_ITEM_END) < 0:
                        return -1
                elif t.alive:
                    t.result_entity = worker
                    t.result_ns = time_ns
        return self.thread_change(stream, E_WORKER, time_ns, self.state_of[kind], -1)

    cdef int label_record(self, int64_t time_ns, int32_t process, uint32_t ident, int32_t label) \
            noexcept nogil:
        cdef int32_t number = self.known_task(process, ident)
        cdef int32_t location
        cdef Task *t
        cdef Change *last
        if number < 0 or (label < 0 and not self.labelled):
            return 0
        t = <Task *>self.tasks.data + number
        t.label = label
        self.labelled = True
        if t.state == self.running:
            location = (<Entity *>self.entities.data)[t.entity].location
            return self.task_change(time_ns, t, self.running, location)
        if self.changes.used:
            # what is labelled when it is spawned has no change after that yet
            last = <Change *>self.changes.data + self.changes.used - 1
            if last.entity == t.entity and last.time_ns == time_ns:
                last.label = label
        return 0

    cdef int record(
        self, int64_t time_ns, int32_t stream, int kind, uint32_t ident, uint32_t aux
    ) noexcept nogil:
        cdef int failed = 0
        cdef int32_t tag, task
        cdef int64_t number = <int64_t>(ident | <uint64_t>aux << 32)
        cdef Stream *s = &self.streams[stream]
        if kind <= KIND_WAKE:
            return self.task_record(time_ns, stream, kind, ident, aux)
        if kind == KIND_DUE or kind == KIND_TIMER:
            # Any number can be in a file; times are less than 2^56 there.
            if 0 <= number < <int64_t>1 << 60:
                if kind == KIND_DUE:
                    s.due_ns = time_ns - number
                else:
                    s.timer_ns = time_ns + number
            return 0
        if kind == KIND_CALLBACK:
            return self.callback_record(time_ns, s, ident, aux)
        if kind == KIND_CPU_WAIT:
            return self.cpu_wait_record(time_ns, stream, number)
        if kind == KIND_ASLEEP or kind == KIND_ASLEEP_OR_LATE or kind == KIND_OFF_CPU:
            return self.sleep_record(time_ns, stream, kind, number)
        if kind == KIND_BLOCKED:
            return self.blocked_record(time_ns, s.process, ident, aux)
        if kind == KIND_PARK or kind == KIND_TURN:
            if self.begin_poll(time_ns, stream) < 0:
                return -1
        if kind == KIND_UNPARK or kind == KIND_TURN:
            self.end_poll(time_ns, s)
        elif kind == KIND_LOOP_BEGIN or kind == KIND_LOOP_END:
            self.forget_polls(s)
        if (KIND_LOOP_BEGIN <= kind <= KIND_UNPARK or kind == KIND_TURN) and s.task < 0:
            if self.loop_is_free(s, time_ns, kind != KIND_LOOP_END and kind != KIND_PARK) < 0:
                return -1
        if kind == KIND_TURN:
            return 0
        if kind == KIND_PARK or kind == KIND_UNPARK or kind == KIND_LOOP_END:
            return self.loop_change(time_ns, stream, self.state_of[kind], -1)
        if kind == KIND_LOOP_KNOWN:
            # A repetition, which matters only after a loss, or if the beginning is missing.
            if s.entity[E_LOOP] >= 0 and s.state[E_LOOP] != self.lost_state:
                return 0
            tag = self.tag(s.process, ident)
            if aux:
                return self.loop_change(time_ns, stream, self.state_of[KIND_PARK], -1)
            return self.loop_change(time_ns, stream, self.running, tag)
        if KIND_SUBMIT <= kind <= KIND_ITEM_END:
            return self.item_record(time_ns, stream, kind, ident, aux)
        if kind == KIND_LOOP_BEGIN:
            tag = self.tag(s.process, ident)
            return self.loop_change(time_ns, stream, self.running, tag)
        if KIND_GIL_WAIT <= kind <= KIND_POLL or kind == KIND_RESUMED \
                or KIND_SLEEP <= kind <= KIND_CHILD_WAIT:
            if kind == KIND_GIL_WAIT or kind == KIND_GIL_HANDOFF or kind == KIND_RESUMED:
                self.gil_record(time_ns, s, kind, ident)
            return self.wait_record(time_ns, stream, kind)
        if kind == KIND_THREAD_BEGIN:
            tag = self.tag(s.process, aux)
            if s.unbegun_ns >= 0 and s.entity[E_THREAD] < 0:
                # it has waited for a processor since it was created
                failed = self.thread_change(
                    stream, E_THREAD, s.unbegun_ns, self.state_of[KIND_CPU_WAIT], -1
                )
            return failed | self.thread_change(stream, E_THREAD, time_ns, self.running, tag)
        if kind == KIND_ITEM_AWAITED:
            task = self.known_task(s.process, aux)
            if task >= 0:
                (<Task *>self.tasks.data)[task].awaits = find(
                    &self.item_tables[s.process], ident
                )
            return 0
        if kind == KIND_FLUSH:
            return self.stall(time_ns, stream, <int64_t>ident | <int64_t>aux << 32)
        if kind == KIND_LABEL:
            return self.label_record(time_ns, s.process, ident, <int32_t>aux)
        if kind == KIND_THREAD_END:
            return self.end_thread(stream, time_ns)
        if kind == KIND_THREAD:
            # repeated now and then by a thread that continues
            if self.streams[stream].tid != ident:
                self.forget_thread(&self.streams[stream])
                self.streams[stream].tid = ident
        return 0

    def feed(
        self,
        const int64_t[::1] time_ns,
        const int32_t[::1] stream,
        const uint8_t[::1] kind,
        const uint32_t[::1] ident,
        const uint32_t[::1] aux,
        const int64_t[::1] order,
    ):
        """Process records in the order given; the `take_` methods return the results."""
        cdef Py_ssize_t i, row, rows = order.shape[0]
        cdef int failed = 0
        with nogil:
            for i in range(rows):
                row = order[i]
                if kind[row]:
                    failed |= self.record(
                        time_ns[row], stream[row], kind[row], ident[row], aux[row]
                    )
                    self.streams[stream[row]].latest_ns = time_ns[row]
        if failed:
            raise MemoryError

    def lost(self, Py_ssize_t stream, int64_t from_ns):
        """Mark what a stream recorded as lost from `from_ns` until its next records."""
        if self.lose(<int32_t>stream, from_ns) < 0:
            raise MemoryError

    def finish(self, Py_ssize_t process, int64_t time_ns):
        """End all states of a process, because it ended or its recording does."""
        cdef Py_ssize_t i
        cdef int failed = 0
        cdef Task *t
        for i in range(self.tasks.used):
            t = <Task *>self.tasks.data + i
            if t.alive and self.streams[t.stream].process == process:
                t.alive = 0
                failed |= self.change(time_ns, t.entity, S_NONE, -1)
        for i in range(self.stream_count):
            if self.streams[i].process == process:
                for what in range(E_LOOP, E_THREAD + 1):
                    if self.streams[i].entity[what] >= 0:
                        failed |= self.change(
                            time_ns, self.streams[i].entity[what], S_NONE, -1
                        )
                self.forget_thread(&self.streams[i])
        if failed:
            raise MemoryError

    def task_entity(self, Py_ssize_t process, uint32_t ident) -> int:
        """Return the entity of a task, or -1 if none of that number was met."""
        number = self.known_task(<int32_t>process, ident)
        return -1 if number < 0 else (<Task *>self.tasks.data)[number].entity

    def task_entities(self, const int64_t[::1] process, const int64_t[::1] ident) -> Int64s:
        """Return the entities of tasks; -1 for each number that was not met in its process."""
        cdef Py_ssize_t i, rows = process.shape[0]
        cdef int32_t number
        entities = np.empty(rows, np.int64)
        cdef int64_t[::1] out = entities
        for i in range(rows):
            if not 0 <= process[i] < self.process_count:
                raise IndexError(f"there is no process {process[i]}")
            number = self.known_task(<int32_t>process[i], <uint32_t>ident[i])
            out[i] = -1 if number < 0 else (<Task *>self.tasks.data)[number].entity
        return entities

    def add_process(self, Py_ssize_t process) -> int:
        """Return a new entity for a process itself."""
        return self._added(E_PROCESS, process, 0)

    def add_sampled_thread(self, Py_ssize_t process, uint32_t tid) -> int:
        """Return a new entity for a sampled thread."""
        return self._added(E_SAMPLED, process, <int32_t>tid)

    def add_derived(self, int32_t what, Py_ssize_t process, uint32_t number) -> int:
        """Return a new entity for a test or a counter, which the caller derives."""
        return self._added(what, process, <int32_t>number)

    def add_requests(self, const int64_t[::1] process, const int64_t[::1] number) -> int:
        """Add an entity for each of these requests; return the first of them."""
        cdef Py_ssize_t i, first = self.entities.used
        for i in range(process.shape[0]):
            self._added(E_REQUEST, process[i], <int32_t>number[i])
        return first

    cdef _added(self, int32_t what, Py_ssize_t process, int32_t ident):
        cdef int32_t entity = self.new_entity(what, <int32_t>process, ident, -1)
        if entity < 0:
            raise MemoryError
        return entity

    def entity_count(self) -> int:
        """Return how many entities there are by now."""
        return self.entities.used

    def entities_since(self, Py_ssize_t first) -> Int64s:
        """Return the columns (what, process or stream, number, location) of entities from `first`."""
        cdef Py_ssize_t i, rows = self.entities.used - first
        columns = np.empty((4, rows), np.int64)
        cdef int64_t[:, ::1] out = columns
        cdef Entity *e = <Entity *>self.entities.data + first
        for i in range(rows):
            out[0, i] = e[i].what
            out[1, i] = e[i].process
            out[2, i] = <uint32_t>e[i].ident
            out[3, i] = e[i].location
        return columns

    def watch_blocks(self, int64_t at_least_ns, int32_t known=2**31 - 1):
        """Collect from now on each time in which a loop did one thing for at least this long.

        Of a loop that is an entity from `known` on, all of them are collected.
        """
        self.block_ns = at_least_ns
        self.block_known = known

    def end_blocks(self, Py_ssize_t process, int64_t time_ns):
        """Collect what the loops of a process are doing at `time_ns`, as if it ended there."""
        cdef Stream *s
        cdef Task *t
        cdef Py_ssize_t steps
        for i in range(self.stream_count):
            s = &self.streams[i]
            if s.process == process and s.task >= 0:
                t = <Task *>self.tasks.data + s.task
                for steps in range(self.tasks.used):
                    # in a damaged recording, tasks can run inside each other
                    if t.outer < 0:
                        break
                    t = <Task *>self.tasks.data + t.outer
                self.block(s, s.run_ns, time_ns, t, -1, s.waited_ns, s.code)
            elif s.process == process and s.free_ns >= 0:
                self.block(s, s.free_ns, time_ns, NULL, -1, s.waited_ns, s.code)

    def take_blocks(
        self
    ) -> tuple[
        Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int32s, Int32s, Int32s, Int32s, Int32s,
        Int32s
    ]:
        """Return columns of those, and forget them.

        They are begin_ns, end_ns, waited_ns, gil_ns, code_ns, off_cpu_ns, loop, task, resumed,
        paused, code, holder.

        Loops and tasks are entities; -1 is a loop that is not recorded, or time outside of tasks.
        `waited_ns` is how long the thread waited for a processor. `resumed` and `paused` are the
        tags of the locations where the task had waited, and waited next, or -1. `code` is the tag
        of what ran, if that is known: the stack at `code_ns`, or if that is -1 what the loop called.
        `gil_ns` is how long the thread waited for the GIL, if that is recorded, and `holder` the id
        of the thread that had it in the longest wait, or 0. `off_cpu_ns` is how long the thread did
        not run for a reason that is not recorded.
        """
        cdef Py_ssize_t i, rows = self.blocks.used
        times = np.empty((6, rows), np.int64)
        codes = np.empty((6, rows), np.int32)
        cdef int64_t[:, ::1] time_ns = times
        cdef int32_t[:, ::1] code = codes
        cdef Block *b = <Block *>self.blocks.data
        for i in range(rows):
            time_ns[0, i] = b[i].begin_ns
            time_ns[1, i] = b[i].end_ns
            time_ns[2, i] = b[i].waited_ns
            code[0, i] = b[i].loop
            code[1, i] = b[i].entity
            code[2, i] = b[i].resumed
            code[3, i] = b[i].paused
            code[4, i] = b[i].code
            time_ns[3, i] = b[i].gil_ns
            time_ns[4, i] = b[i].code_ns
            time_ns[5, i] = b[i].off_cpu_ns
            code[5, i] = <int32_t>b[i].gil_holder
        self.blocks.used = 0
        return (*times, *codes)

    def take_lags(self) -> tuple[Int64s, Int32s, Int64s]:
        """Return (time_ns, entity, value): the times between two polls of a loop, and forget them.

        Each value that is at least a millisecond begins with the poll and is followed by 0.
        """
        cdef Py_ssize_t i, rows = self.lags.used
        times = np.empty((2, rows), np.int64)
        entities = np.empty(rows, np.int32)
        cdef int64_t[:, ::1] time_ns = times
        cdef int32_t[::1] entity = entities
        cdef Lag *row = <Lag *>self.lags.data
        for i in range(rows):
            time_ns[0, i] = row[i].time_ns
            time_ns[1, i] = row[i].value
            entity[i] = row[i].entity
        self.lags.used = 0
        return times[0], entities, times[1]

    def lags_counted(
        self
    ) -> list[tuple[int, tuple[Int64s, Int64s, int], tuple[Int64s, Int64s, int]]]:
        """Return (entity, late, turns) of each loop: the times since timers were due, and of turns.

        Each is (durations, counts, most): nanoseconds within 4 %, ascending, how many there are of
        each, and the longest.
        """
        cdef Py_ssize_t i
        cdef LagCounts *counts = <LagCounts *>self.lag_counts.data
        return [
            (counts[i].entity, self.counted(&counts[i], 0), self.counted(&counts[i], 1))
            for i in range(self.lag_counts.used)
        ]

    cdef counted(self, LagCounts *counts, int which):
        cdef Py_ssize_t bucket
        used = [
            (min(middle_of(bucket), counts.most[which]), counts.counts[which][bucket])
            for bucket in range(LAG_BUCKETS)
            if counts.counts[which][bucket]
        ]
        columns = np.array(used, np.int64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1], counts.most[which]

    def take_labels(self) -> Int32s | None:
        """Return the label of each change so far, or None if there never was one."""
        cdef Py_ssize_t i, rows = self.changes.used
        if not self.labelled:
            return None
        labels = np.empty(rows, np.int32)
        cdef int32_t[::1] out = labels
        for i in range(rows):
            out[i] = (<Change *>self.changes.data)[i].label
        return labels

    def forget_ended(self) -> Int64s:
        """Forget the tasks and threads that have ended, and renumber the entities that are left.

        All results must have been taken before, since they refer to entities by their old numbers.
        Returns the old numbers of the entities that stay, in the order of the new ones.
        """
        cdef Py_ssize_t i, j, kept = 0, entities = 0
        cdef Task *tasks = <Task *>self.tasks.data
        cdef Entity *entity = <Entity *>self.entities.data
        task_map = np.full(self.tasks.used + 1, -1, np.int32)
        entity_map = np.zeros(self.entities.used + 1, np.int32)
        cdef int32_t[::1] new_task = task_map, new_entity = entity_map
        assert not (self.changes.used or self.flows.used or self.blocks.used or self.lags.used)
        for i in range(self.tasks.used):
            if tasks[i].alive:
                new_task[i] = <int32_t>kept
                tasks[kept] = tasks[i]
                kept += 1
            else:
                new_entity[tasks[i].entity] = -1
        self.tasks.used = kept
        for i in range(self.entities.used):
            if E_LOOP <= entity[i].what <= E_THREAD or entity[i].what == E_CALLBACK:
                new_entity[i] = -1
        for i in range(self.stream_count):
            for j in range(4):
                if self.streams[i].entity[j] >= 0:
                    new_entity[self.streams[i].entity[j]] = 0
        staying = np.flatnonzero(entity_map[: self.entities.used] == 0)
        for i in range(self.entities.used):
            if new_entity[i] == 0:
                new_entity[i] = <int32_t>entities
                entity[entities] = entity[i]
                entities += 1
        self.entities.used = entities
        for i in range(kept):
            tasks[i].entity = new_entity[tasks[i].entity]
            if tasks[i].outer >= 0:
                tasks[i].outer = new_task[tasks[i].outer]
            if tasks[i].result_entity >= 0:
                tasks[i].result_entity = new_entity[tasks[i].result_entity]
            if tasks[i].child >= 0:
                tasks[i].child = new_entity[tasks[i].child]
        for i in range(self.stream_count):
            if self.streams[i].task >= 0:
                self.streams[i].task = new_task[self.streams[i].task]
            for j in range(4):
                if self.streams[i].entity[j] >= 0:
                    self.streams[i].entity[j] = new_entity[self.streams[i].entity[j]]
        for i in range(self.lag_counts.used):
            j = (<LagCounts *>self.lag_counts.data)[i].entity
            (<LagCounts *>self.lag_counts.data)[i].entity = new_entity[j]
        for i in range(self.process_count):
            self.renumber(&self.task_tables[i], new_task)
        for i in range(self.items.used):
            if (<Item *>self.items.data)[i].submitter >= 0:
                j = (<Item *>self.items.data)[i].submitter
                (<Item *>self.items.data)[i].submitter = new_task[j]
            if (<Item *>self.items.data)[i].awaiter >= 0:
                j = (<Item *>self.items.data)[i].awaiter
                (<Item *>self.items.data)[i].awaiter = new_task[j]
        return staying

    cdef renumber(self, Table *table, const int32_t[::1] new_number):
        # Rebuilt from the remaining entries: probing allows no removal, and the table shrinks.
        cdef Table kept
        cdef Py_ssize_t i
        memset(&kept, 0, sizeof(Table))
        if table.rows:
            for i in range(table.mask + 1):
                if table.rows[i].value >= 0 and new_number[table.rows[i].value] >= 0:
                    if put(&kept, table.rows[i].key, new_number[table.rows[i].value]) < 0:
                        raise MemoryError
        free(table.rows)
        table[0] = kept

    def take_changes(self) -> tuple[Int64s, Int32s, Int32s, Int32s]:
        """Return (time_ns, entity, state, tag) of the changes so far, and forget them."""
        cdef Py_ssize_t i, rows = self.changes.used
        times = np.empty(rows, np.int64)
        entities = np.empty(rows, np.int32)
        states = np.empty(rows, np.int32)
        tags = np.empty(rows, np.int32)
        cdef int64_t[::1] time_ns = times
        cdef int32_t[::1] entity = entities, state = states, tag = tags
        cdef Change *c = <Change *>self.changes.data
        with nogil:
            for i in range(rows):
                time_ns[i] = c[i].time_ns
                entity[i] = c[i].entity
                state[i] = c[i].state
                tag[i] = c[i].tag
        self.changes.used = 0
        return times, entities, states, tags

    def take_flows(self) -> tuple[Int32s, Int64s, Int32s, Int64s, Int32s]:
        """Return (from_entity, from_ns, to_entity, to_ns, kind) of the flows, and forget them.

        The kind is that of the record that caused it: spawn, wake, submit, or the end of an item,
        whose result goes to the task that submitted it.
        """
        cdef Py_ssize_t i, rows = self.flows.used
        froms = np.empty(rows, np.int32)
        from_times = np.empty(rows, np.int64)
        tos = np.empty(rows, np.int32)
        to_times = np.empty(rows, np.int64)
        kinds = np.empty(rows, np.int32)
        cdef int32_t[::1] from_entity = froms, to_entity = tos, kind = kinds
        cdef int64_t[::1] from_ns = from_times, to_ns = to_times
        cdef Flow *f = <Flow *>self.flows.data
        with nogil:
            for i in range(rows):
                from_entity[i] = f[i].from_entity
                from_ns[i] = f[i].from_ns
                to_entity[i] = f[i].to_entity
                to_ns[i] = f[i].to_ns
                kind[i] = f[i].kind
        self.flows.used = 0
        return froms, from_times, tos, to_times, kinds
