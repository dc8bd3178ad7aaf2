"""What a statemap's payload is: see `statemap_payload.pyx`."""

from libc.stdint cimport uint32_t, uint64_t

from meantime.kernels.intern cimport intern_text
from meantime.kernels.json_text cimport json_fault
from meantime.kernels.shapes cimport shape_trie


cdef enum:
    TIME
    ENTITY
    STATE
    TAG
    VALUE
    DESCRIPTION
    EVENT
    TARGET
    FIELDS

cdef enum:
    SHAPE_OTHER
    SHAPE_CHANGE
    SHAPE_POINT
    SHAPE_DESCRIPTION
    SHAPE_DEFINITION

# How the value after a literal is to be read.
cdef enum:
    READ_QUOTED_TIME
    READ_TIME
    READ_ENTITY
    READ_STATE
    READ_STATE_NAME
    READ_TAG
    READ_VALUE
    READ_EVENT
    READ_TARGET
    READ_NOTHING
    READ_END

cdef struct Token:
    const char *at  # inside the quotes of a string
    const char *end
    char kind  # the first byte of the value
    bint escaped
    int count


cdef struct Record:
    int shape
    bint named  # whether the state was given by name
    bint tagged
    bint weighed
    bint targeted
    bint timed
    bint late  # whether the time is beyond 63 bits
    bint twofold
    uint64_t time_ns
    uint32_t state
    double value
    intern_text entity
    intern_text state_name
    intern_text tag
    intern_text event
    intern_text target


cdef struct Parser:
    json_fault fault
    Token tokens[FIELDS]  # of the keys that mean something
    int strangers  # how many keys do not
    shape_trie shapes
    char *scratch  # for strings that had escapes
    size_t scratch_room
    size_t scratch_used


cdef const char *parse(Parser *parser, const char *at, const char *end) noexcept nogil
cdef bint make_room(Parser *parser, size_t size) noexcept nogil
cdef void classify(Parser *parser, Record *record) noexcept nogil
