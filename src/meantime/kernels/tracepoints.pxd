"""The raw data of tracepoints as fields of text; see `tracepoints.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from meantime.kernels.perf cimport PerfText

cdef extern from "tracepoint_raw.h" nogil:
    enum:
        RAW_FIELDS
        RAW_SWITCH
        RAW_FUNCTION
        RAW_GRAPH
    ctypedef struct raw_field:
        uint32_t offset, size, name, name_bytes
        int32_t kind, item
    ctypedef struct raw_format:
        int64_t first, count
        int32_t spelling
        int32_t named[8]
        char letters[16]
        int32_t letter_count
    ctypedef struct raw_text:
        char *data
        size_t used, room
        int no_memory
    ctypedef struct raw_event:
        const uint8_t *data
        uint32_t size
        int is_swapped
    bint raw_room(raw_text *text, size_t size)
    void raw_put(raw_text *text, const char *at, size_t size)
    int64_t raw_of(const raw_event *event, const raw_field *fields, int32_t which)
    void raw_characters(raw_text *text, const raw_event *event, const raw_field *field)
    void raw_event_text(
        raw_text *text, const raw_event *event, const raw_format *format, const raw_field *fields,
        const char *names,
    )
    uint16_t raw_u16(const uint8_t *at, int is_swapped)
    uint32_t raw_u32(const uint8_t *at, int is_swapped)
    uint64_t raw_u64(const uint8_t *at, int is_swapped)


cdef class RawText(PerfText):
    cdef bint is_swapped, keeps_text
    cdef raw_format *formats
    cdef raw_field *fields
    cdef bytes field_names
    cdef const char *names_of_fields
    cdef int64_t format_count
    cdef raw_text text

    cdef size_t begin_text(self) noexcept nogil
    cdef bint write_fields(self, int32_t format_, const uint8_t *data, uint32_t size) noexcept nogil
    cdef char context_of(self, const uint8_t *data, uint32_t size) noexcept nogil
