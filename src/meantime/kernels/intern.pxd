"""Strings to small integers, for the scanners: see `intern.h`."""

from libc.stdint cimport int32_t, uint32_t, uint64_t


cdef extern from "intern.h" nogil:
    ctypedef struct intern_text:
        const char *at
        uint64_t first, second
        uint32_t size
    ctypedef struct intern_table:
        int32_t count
        uint64_t seed
        uint64_t *offsets
        uint32_t *contexts
        char *bytes
    uint64_t intern_fold(uint64_t a, uint64_t b)
    intern_text intern_text_of(const char *at, size_t size)
    const char *intern_text_ahead(const char *at, const char *end, intern_text *text)
    int32_t intern_find(const intern_table *table, const intern_text *text, uint32_t context)
    int32_t intern_add(intern_table *table, const intern_text *text, uint32_t context)
    bint intern_grow(intern_table *table)
    void intern_free(intern_table *table)


cdef inline list texts_of(const intern_table* table):
    """The strings of a table, by code."""
    cdef int32_t i
    return [table.bytes[table.offsets[i]:table.offsets[i + 1]] for i in range(table.count)]
