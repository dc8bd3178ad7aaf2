"""Times in text, for the scanners: see `time_text.h`."""

from libc.stdint cimport int64_t


cdef extern from "time_text.h" nogil:
    enum:
        TIME_ODD
        TIME_INTEGER
        TIME_DECIMAL_9
        TIME_DECIMAL_6
        TIME_DECIMAL_3
        TIME_ZONED
        TIME_NAIVE
    int time_parse(const char *at, const char *end, int64_t *value)
    ctypedef struct time_minute:
        pass
    int time_parse_next(const char *at, const char *end, time_minute *last, int64_t *value)
