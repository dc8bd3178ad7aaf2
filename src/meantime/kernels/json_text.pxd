"""JSON as bytes, for the scanners: see `json_text.h`."""

from libc.stdint cimport uint32_t, uint64_t


cdef extern from "json_text.h" nogil:
    enum:
        JSON_AHEAD
        JSON_CUT
        JSON_WANTS_RECORD
        JSON_WANTS_KEY
        JSON_WANTS_KEY_OR_END
        JSON_WANTS_COLON
        JSON_WANTS_COMMA_IN_OBJECT
        JSON_WANTS_COMMA_IN_ARRAY
    ctypedef struct json_fault:
        const char *at
        int kind
    bint LIKELY(bint condition)
    bint UNLIKELY(bint condition)
    const char *json_fault_text(int kind)
    uint64_t json_load8(const char *at)
    uint64_t json_bytes_equal(uint64_t word, unsigned char byte)
    int json_lowest_byte(uint64_t mask)
    bint json_is_digit(char c)
    const char *json_skip_blanks(const char *at, const char *end)
    const char *json_fail(json_fault *fault, int kind, const char *at)
    const char *json_string(const char *at, const char *end, bint *escaped, json_fault *fault)
    size_t json_unescape(const char *at, size_t size, char *out)
    const char *json_value(const char *at, const char *end, int depth, json_fault *fault)
    const char *json_number(const char *at, const char *end, json_fault *fault)
    int json_digit_count(uint64_t word)
    uint64_t json_eight_digits(uint64_t word)
    int json_digits_ahead(const char *at, uint64_t *number)
    const char *json_time_ahead(const char *at, bint zeros, uint64_t *number)
    const char *json_small_ahead(const char *at, uint32_t *number)
    bint json_unsigned(const char *at, const char *end, uint64_t *number)
    bint json_exact_double(const char *at, const char *end, double *number)
    uint64_t json_count_lines(const char *at, const char *end)
