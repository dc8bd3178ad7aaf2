"""Records of what a Linux kernel did: their type, their columns, and the states they show.

The scanners of all formats of its traces make the records; see tracepoint_text.h.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

import os

import numpy as np

from meantime.kernels.intern cimport intern_free, intern_grow, intern_table

cdef extern from "thread_states.h" nogil:
    ctypedef struct thread_change:
        int64_t time_ns
        int32_t thread
        int32_t state
        int32_t tag
        int32_t unused
    ctypedef struct cpu_change:
        int64_t time_ns
        int32_t cpu
        int32_t state
        int32_t thread
        int32_t pair
        int64_t before
    ctypedef struct lost_stretch:
        int64_t from_ns
        int64_t to_ns
        int32_t cpu
        int32_t was_told
    ctypedef struct thread_states:
        thread_change *threads
        cpu_change *cpus
        lost_stretch *lost
        int32_t *wakes
        int64_t thread_count
        int64_t cpu_count
        int64_t lost_count
        int64_t wake_count
        intern_table *tags
        intern_table *pairs
    ctypedef struct states_codes:
        const int32_t *thread
        const int32_t *cpu
        const int32_t *cpu_thread
        const int32_t *pair
        const int32_t *thread_state
        const int32_t *cpu_state
        int64_t threads
        int64_t cpus
        int64_t pairs
        int32_t first_tag
    bint states_prepare(
        const trace_record *records, int64_t count, const uint8_t *has_name, int64_t names,
        int64_t threads, int32_t *name, uint8_t *calls,
    )
    ctypedef struct states_range:
        int64_t begin_ns
        int64_t end_ns
        int64_t read_from_ns
        int64_t read_to_ns
        int32_t before
    enum:
        STATE_NONE
        CPU_UNKNOWN
        NO_PRIORITY
    int thread_states_of(
        const trace_record *records, const int64_t *order, int64_t count,
        const uint8_t *role, int64_t threads, int64_t cpus, const states_range *range,
        int64_t ran_count, thread_states *out,
    )
    int64_t states_merge(
        const thread_change *threads, int64_t thread_count, const cpu_change *cpus,
        int64_t cpu_count, const states_codes *codes, int64_t *time_ns, int32_t *entity,
        int32_t *state, int32_t *tag,
    )

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

# What a record is.
SWITCH, WAKE, NEW, LOST = TRACE_SWITCH, TRACE_WAKE, TRACE_NEW, TRACE_LOST
MARK, BEGIN, END, LEAF = TRACE_MARK, TRACE_BEGIN, TRACE_END, TRACE_LEAF
ISSUE, COMPLETE, CALL = TRACE_ISSUE, TRACE_COMPLETE, TRACE_CALL
SENT, RECEIVED = TRACE_SENT, TRACE_RECEIVED
IRQ, SOFTIRQ, RAN = TRACE_IRQ, TRACE_SOFTIRQ, TRACE_RAN
# The priority in the tag of a thread that no switch brought to its CPU.
UNKNOWN_PRIORITY = NO_PRIORITY

# A thread, a name and a CPU are codes; see tracepoint_text.h.
RECORD_TYPE = np.dtype([
    ("time_ns", np.int64), ("value", np.int64), ("thread", np.int32), ("other", np.int32),
    ("name", np.int32), ("cpu", np.int32), ("number", np.int32), ("prio", np.int32),
    ("other_prio", np.int32), ("kind", np.int32),
])
CHANGE_TYPE = np.dtype([
    ("time_ns", np.int64), ("thread", np.int32), ("state", np.int32), ("tag", np.int32),
    ("unused", np.int32),
])
CPU_TYPE = np.dtype([
    ("time_ns", np.int64), ("cpu", np.int32), ("state", np.int32), ("thread", np.int32),
    ("pair", np.int32), ("before", np.int64),
])
LOST_TYPE = np.dtype([
    ("from_ns", np.int64), ("to_ns", np.int64), ("cpu", np.int32), ("was_told", np.int32),
])


cdef const trace_record *records_in(records, Py_ssize_t *count) except NULL:
    if records.dtype != RECORD_TYPE:
        raise ValueError("the records must be of RECORD_TYPE")
    count[0] = len(records)
    return <const trace_record*>UINT8_ITEMS(records.view(np.uint8), NULL)


cdef object copy_of(const intern_table *table, Py_ssize_t width):
    """Return the strings of a table, which are numbers, as rows of so many."""
    size = table.offsets[table.count] if table.count else 0
    return np.frombuffer(table.bytes[:size] if size else b"", np.int32).reshape(-1, width)


def names_of_threads(
    records: npt.NDArray[np.void], has_name: npt.NDArray[np.uint8], Py_ssize_t threads
) -> tuple[Int32s, npt.NDArray[np.uint8], bool]:
    """Return the last name of each thread, which call the system, and whether times ascend.

    Args:
        records: An array of RECORD_TYPE.
        has_name: uint8, whether each of the names counts.
        threads: How many threads there are.

    Returns:
        int32, by thread the code of its name or -1; uint8, by thread whether it makes system calls;
        whether the records are in order of time.
    """
    cdef Py_ssize_t count, names
    cdef const trace_record *rows = records_in(records, &count)
    cdef const uint8_t *counts = <const uint8_t*>UINT8_ITEMS(has_name, &names)
    name, calls = np.full(threads, -1, np.int32), np.zeros(threads, np.uint8)
    cdef int32_t *name_of = <int32_t*>INT32_ITEMS(name, NULL)
    cdef uint8_t *calls_of = <uint8_t*>UINT8_ITEMS(calls, NULL)
    cdef bint in_order
    with nogil:
        in_order = states_prepare(rows, count, counts, names, threads, name_of, calls_of)
    return name, calls, in_order


def ids_used_again(records: npt.NDArray[np.void], Py_ssize_t threads) -> npt.NDArray[np.uint8]:
    """Return which threads come to a CPU, or are new, after they have exited: uint8, by thread."""
    cdef Py_ssize_t count, i
    cdef const trace_record *rows = records_in(records, &count)
    cdef int32_t letter
    found, gone = np.zeros(threads, np.uint8), np.zeros(threads, np.uint8)
    cdef uint8_t *again = <uint8_t*>UINT8_ITEMS(found, NULL)
    cdef uint8_t *has_exited = <uint8_t*>UINT8_ITEMS(gone, NULL)
    with nogil:
        for i in range(count):
            if rows[i].kind != TRACE_SWITCH and rows[i].kind != TRACE_NEW:
                continue
            if 0 <= rows[i].other < threads and has_exited[rows[i].other]:
                again[rows[i].other] = 1
            letter = rows[i].number
            if rows[i].kind == TRACE_SWITCH and 0 <= rows[i].thread < threads and (
                letter == c"X" or letter == c"Z" or letter == c"x"
            ):
                has_exited[rows[i].thread] = 1
    return found


def columns_of_records(
    records: npt.NDArray[np.void], int first, int last
) -> tuple[Int64s, Int64s, Int32s, Int32s, Int32s]:
    """Return the times, values, threads, CPUs and names of the records of these kinds, in order."""
    cdef Py_ssize_t count, i, n = 0
    cdef const trace_record *rows = records_in(records, &count)
    with nogil:
        for i in range(count):
            n += first <= rows[i].kind <= last
    columns = [np.empty(n, np.int64 if each < 2 else np.int32) for each in range(5)]
    cdef int64_t *time_ns = <int64_t*>INT64_ITEMS(columns[0], NULL)
    cdef int64_t *value = <int64_t*>INT64_ITEMS(columns[1], NULL)
    cdef int32_t *thread = <int32_t*>INT32_ITEMS(columns[2], NULL)
    cdef int32_t *cpu = <int32_t*>INT32_ITEMS(columns[3], NULL)
    cdef int32_t *name = <int32_t*>INT32_ITEMS(columns[4], NULL)
    n = 0
    with nogil:
        for i in range(count):
            if first <= rows[i].kind <= last:
                time_ns[n], value[n] = rows[i].time_ns, rows[i].value
                thread[n], cpu[n], name[n] = rows[i].thread, rows[i].cpu, rows[i].name
                n += 1
    return tuple(columns)


def thread_states_of_records(
    records: npt.NDArray[np.void], order: Int64s | None, role: npt.NDArray[np.uint8],
    Py_ssize_t cpus, trace_range: tuple[int, int], read_range: tuple[int | None, int | None]
) -> tuple[
    npt.NDArray[np.void], npt.NDArray[np.void], npt.NDArray[np.void], Int32s, Int32s, Int32s
]:
    """Return the states of threads and CPUs, as the arrays of `Scheduling`.

    Args:
        records: An array of RECORD_TYPE.
        order: int64, the rows in order of time; None if they are.
        role: uint8, by thread: 0 for an idle task, 1 for a thread of a program, 2 of the kernel.
        cpus: How many CPUs there are.
        trace_range: [begin, end) of the trace, in ns.
        read_range: From when and until when the records have all that happened on each CPU; None
            for what is not known.

    Returns:
        Changes of threads, changes of CPUs, lost stretches, the rows of the wake-ups that count,
        the tags: by tag the CPU, the priority, the name and the thread that woke it; -1 is none;
        a name of -2 or less is -2 less the code of a thread whose name is meant;
        and the pairs of a thread and its name that changes of CPUs refer to.
    """
    cdef Py_ssize_t n, ordered, threads
    cdef const trace_record *rows = records_in(records, &n)
    cdef const uint8_t *roles = <const uint8_t*>UINT8_ITEMS(role, &threads)
    cdef const int64_t *row_order = NULL
    cdef thread_states out
    cdef intern_table[2] tables
    cdef int failed = 0, table
    if order is not None:
        row_order = <const int64_t*>INT64_ITEMS(order, &ordered)
        if ordered != n:
            raise ValueError("the order must have a row for each record")
        if n and (order.min() < 0 or order.max() >= n):
            raise ValueError("a row of the order does not exist")
    cdef states_range given
    given.begin_ns, given.end_ns = trace_range
    given.read_from_ns = INT64_MAX if read_range[0] is None else read_range[0]
    given.read_to_ns = -1 if read_range[1] is None else read_range[1]
    kinds = np.bincount(records["kind"], minlength=TRACE_RAN + 1)
    cdef int64_t switches = kinds[TRACE_SWITCH], wakes = kinds[TRACE_WAKE] + kinds[TRACE_NEW]
    cdef int64_t lost = kinds[TRACE_LOST], irqs = kinds[TRACE_IRQ] + kinds[TRACE_SOFTIRQ]
    # without switches nothing is known of what a CPU does between two lines of it
    cdef int64_t ran = kinds[TRACE_RAN] if switches else 0
    given.before = CPU_UNKNOWN if switches else STATE_NONE
    # the most that one record of a kind adds
    thread_rows = np.empty((9 * switches + wakes + 2 * lost + 5 * ran + 2 * cpus + 1) * 24, np.uint8)
    cpu_rows = np.empty((6 * switches + 2 * irqs + 2 * lost + 3 * ran + 2 * cpus + 1) * 32, np.uint8)
    lost_rows = np.empty((switches + lost + ran + cpus + 1) * 24, np.uint8)
    wake_rows = np.empty(wakes + 1, np.int32)
    out.threads = <thread_change*>UINT8_ITEMS(thread_rows, NULL)
    out.cpus = <cpu_change*>UINT8_ITEMS(cpu_rows, NULL)
    out.lost = <lost_stretch*>UINT8_ITEMS(lost_rows, NULL)
    out.wakes = <int32_t*>INT32_ITEMS(wake_rows, NULL)
    out.thread_count = out.cpu_count = out.lost_count = out.wake_count = 0
    memset(tables, 0, sizeof(tables))
    out.tags, out.pairs = &tables[0], &tables[1]
    try:
        for table in range(2):
            tables[table].seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
            if not intern_grow(&tables[table]):
                raise MemoryError
        if n:
            with nogil:
                failed = thread_states_of(
                    rows, row_order, n, roles, threads, cpus, &given, ran, &out
                )
        if failed:
            raise MemoryError
        tags, pairs = copy_of(&tables[0], 4), copy_of(&tables[1], 2)
    finally:
        for table in range(2):
            intern_free(&tables[table])
    return (
        thread_rows[:out.thread_count * 24].view(CHANGE_TYPE),
        cpu_rows[:out.cpu_count * 32].view(CPU_TYPE),
        lost_rows[:out.lost_count * 24].view(LOST_TYPE),
        wake_rows[:out.wake_count],
        tags,
        pairs,
    )


def met_in(
    changes: npt.NDArray[np.void], kept: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return which entities have changes, and to which states, of those that are kept.

    Args:
        changes: An array of CHANGE_TYPE or CPU_TYPE.
        kept: uint8, by thread or CPU.

    Returns:
        uint8, by thread or CPU; uint8, by state plus one, up to that of `running`.
    """
    cdef Py_ssize_t entities, i, n = len(changes), step = changes.dtype.itemsize
    cdef const uint8_t *at = <const uint8_t*>UINT8_ITEMS(changes.view(np.uint8), NULL)
    cdef const uint8_t *keeps = <const uint8_t*>UINT8_ITEMS(kept, &entities)
    cdef const int32_t *fields
    if changes.dtype != CHANGE_TYPE and changes.dtype != CPU_TYPE:
        raise ValueError("the changes must be of CHANGE_TYPE or CPU_TYPE")
    entity, state = np.zeros(entities, np.uint8), np.zeros(258, np.uint8)
    cdef uint8_t *has_changes = <uint8_t*>UINT8_ITEMS(entity, NULL)
    cdef uint8_t *is_met = <uint8_t*>UINT8_ITEMS(state, NULL)
    with nogil:
        for i in range(n):
            # both have the time first, then the entity and the state
            fields = <const int32_t*>(at + i * step + 8)
            if 0 <= fields[0] < entities and keeps[fields[0]]:
                has_changes[fields[0]] = 1
                if -1 <= fields[1] < 257:
                    is_met[fields[1] + 1] = 1
    return entity, state


def merged_changes(
    threads: npt.NDArray[np.void], cpus: npt.NDArray[np.void],
    codes: tuple[Int32s, Int32s, Int32s, Int32s, Int32s, Int32s], int32_t first_tag
) -> tuple[Int64s, Int32s, Int32s, Int32s]:
    """Return changes of threads and CPUs in order of time: times, entities, states and tags.

    Args:
        threads: An array of CHANGE_TYPE.
        cpus: An array of CPU_TYPE.
        codes: int32, what codes are in the trace: the entity of each thread, of each CPU's state
            and of its thread, -1 for those left out; the value of each pair, of the 257 states of
            threads, and of the 5 of CPUs.
        first_tag: The index of the first tag in the trace.
    """
    cdef states_codes given
    cdef Py_ssize_t known_threads, known_cpus, cpu_threads, pairs
    cdef Py_ssize_t states_of_threads, states_of_cpus
    cdef Py_ssize_t thread_count = len(threads), cpu_count = len(cpus)
    cdef int64_t count
    if threads.dtype != CHANGE_TYPE or cpus.dtype != CPU_TYPE:
        raise ValueError("the changes must be of CHANGE_TYPE and CPU_TYPE")
    cdef const thread_change *thread_rows = <const thread_change*>UINT8_ITEMS(
        threads.view(np.uint8), NULL)
    cdef const cpu_change *cpu_rows = <const cpu_change*>UINT8_ITEMS(cpus.view(np.uint8), NULL)
    of_threads, of_cpus, of_cpu_threads, of_pairs, of_thread_states, of_cpu_states = codes
    given.thread = <const int32_t*>INT32_ITEMS(of_threads, &known_threads)
    given.cpu = <const int32_t*>INT32_ITEMS(of_cpus, &known_cpus)
    given.cpu_thread = <const int32_t*>INT32_ITEMS(of_cpu_threads, &cpu_threads)
    given.pair = <const int32_t*>INT32_ITEMS(of_pairs, &pairs)
    given.thread_state = <const int32_t*>INT32_ITEMS(of_thread_states, &states_of_threads)
    given.cpu_state = <const int32_t*>INT32_ITEMS(of_cpu_states, &states_of_cpus)
    given.threads, given.cpus, given.pairs = known_threads, known_cpus, pairs
    given.first_tag = first_tag
    if cpu_threads != known_cpus or states_of_threads != 257 or states_of_cpus != 6:
        raise ValueError("there must be codes of 257 states of threads and of 6 of CPUs")
    most = thread_count + 2 * cpu_count
    time_ns, entity, state, tag = (
        np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.int32),
        np.empty(most, np.int32),
    )
    cdef int64_t *times = <int64_t*>INT64_ITEMS(time_ns, NULL)
    cdef int32_t *entities = <int32_t*>INT32_ITEMS(entity, NULL)
    cdef int32_t *states = <int32_t*>INT32_ITEMS(state, NULL)
    cdef int32_t *tags = <int32_t*>INT32_ITEMS(tag, NULL)
    with nogil:
        count = states_merge(
            thread_rows, thread_count, cpu_rows, cpu_count, &given, times, entities, states, tags
        )
    if count < 0:
        raise MemoryError
    return time_ns[:count], entity[:count], state[:count], tag[:count]
