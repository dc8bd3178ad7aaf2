"""The names of what collect/record_kinds.h defines, for kernels that compare kinds of records."""

cdef extern from "../collect/record_kinds.h" nogil:
    enum:
        KIND_SPAWN, KIND_KNOWN, KIND_START, KIND_THROW, KIND_WAIT, KIND_CANCELLING
        KIND_WAKE, KIND_DUE, KIND_TIMER
        KIND_LOOP_BEGIN, KIND_LOOP_END, KIND_PARK, KIND_UNPARK, KIND_LOOP_KNOWN
        KIND_TURN, KIND_CALLBACK
        KIND_SUBMIT, KIND_ITEM_BEGIN, KIND_ITEM_END
        KIND_GIL_WAIT, KIND_GIL_HANDOFF, KIND_LOCK_WAIT, KIND_POLL, KIND_RESUMED, KIND_CPU_WAIT, KIND_BLOCKED
        KIND_ASLEEP, KIND_ASLEEP_OR_LATE, KIND_OFF_CPU
        KIND_THREAD_BEGIN, KIND_SLEEP, KIND_IO_WAIT, KIND_CHILD_WAIT
        KIND_ITEM_AWAITED, KIND_ITEM_POOL, KIND_ITEM_DROPPED
        KIND_THREAD_END, KIND_FLUSH, KIND_LABEL, KIND_THREAD, KIND_LOST
        RECORD_FIRST_PAYLOAD
    ctypedef struct record_number:
        const char *name
        int number
    const record_number *record_kinds
    const record_number *location_leaves
    const record_number *record_policies
    const record_number *record_sizes
