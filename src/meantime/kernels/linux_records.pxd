"""Records of what a Linux kernel did; see `linux_records.pyx` and tracepoint_text.h."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "tracepoint_text.h" nogil:
    enum:
        TRACE_SWITCH
        TRACE_WAKE
        TRACE_NEW
        TRACE_LOST
        TRACE_MARK
        TRACE_BEGIN
        TRACE_END
        TRACE_LEAF
        TRACE_ISSUE
        TRACE_COMPLETE
        TRACE_SENT
        TRACE_RECEIVED
        TRACE_CALL
        TRACE_IRQ
        TRACE_SOFTIRQ
        TRACE_CALL_END
        TRACE_IRQ_END
        TRACE_SOFTIRQ_END
        TRACE_OTHER
        TRACE_RAN
    ctypedef struct trace_record:
        int64_t time_ns
        int64_t value
        int32_t thread
        int32_t other
        int32_t name
        int32_t cpu
        int32_t number
        int32_t prio
        int32_t other_prio
        int32_t kind
    ctypedef struct trace_presence:
        int64_t last_ns
        int32_t thread
        int64_t switch_ns
    trace_presence trace_nobody
    bint trace_proves(const trace_presence *here)
    trace_record trace_ran(const trace_presence *here, int32_t cpu)
    bint trace_named(
        trace_presence *here, int32_t cpu, int32_t thread, int64_t time_ns, trace_record *ran
    )
    bint trace_switched(
        trace_presence *here, int32_t cpu, int32_t leaving, int32_t coming, int64_t time_ns,
        trace_record *ran,
    )
