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
        TRACE_CALL
        TRACE_IRQ
        TRACE_SOFTIRQ
        TRACE_CALL_END
        TRACE_IRQ_END
        TRACE_SOFTIRQ_END
        TRACE_OTHER
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
