"""Rows of CSV text as columns of integers and of coded texts."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr

import os

import numpy as np

from meantime.kernels.intern cimport (
    intern_add,
    intern_find,
    intern_free,
    intern_grow,
    intern_table,
    intern_text,
    intern_text_of,
    texts_of,
)
from meantime.kernels.json_text cimport LIKELY, UNLIKELY, json_is_digit
from meantime.kernels.memory cimport column

cdef enum:
    DONE = 0
    ODD = 1
    NO_MEMORY = 2
    # `csv` refuses a longer field
    LONGEST_FIELD = 131072


cdef struct Column:
    int64_t at  # which field of a row it is
    bint is_text
    int64_t *numbers
    int32_t *codes
    int64_t *odd_rows  # integers that need Python: their rows, and where their texts are
    int64_t *odd_begins
    int64_t *odd_sizes
    int64_t odd_count
    int64_t odd_room
    intern_table table


cdef bint widen(void **data, int64_t room, size_t width) noexcept nogil:
    cdef void *grown = realloc(data[0], <size_t>room * width)
    if grown == NULL:
        return False
    data[0] = grown
    return True


cdef int put(Column *into, int64_t row, const char *at, int64_t size, int64_t offset) noexcept nogil:
    """Put a field into a column."""
    cdef const char *digit = at
    cdef const char *end = at + size
    cdef int64_t number = 0, room
    cdef bint minus
    cdef intern_text text
    cdef int32_t code
    if into.is_text:
        text = intern_text_of(at, <size_t>size)
        code = intern_find(&into.table, &text, 0)
        if UNLIKELY(code < 0):
            code = intern_add(&into.table, &text, 0)
            if code < 0:
                return NO_MEMORY
        into.codes[row] = code
        return DONE
    minus = size > 0 and at[0] == b"-"
    digit += minus
    if LIKELY(0 < end - digit <= 18):
        while digit < end and json_is_digit(digit[0]):
            number = number * 10 + (digit[0] - 48)
            digit += 1
    if LIKELY(digit == end and size > minus):
        into.numbers[row] = -number if minus else number
        return DONE
    into.numbers[row] = 0
    if into.odd_count == into.odd_room:
        room = 2 * into.odd_room + 64
        if not (
            widen(<void**>&into.odd_rows, room, 8) and widen(<void**>&into.odd_begins, room, 8)
            and widen(<void**>&into.odd_sizes, room, 8)
        ):
            return NO_MEMORY
        into.odd_room = room
    into.odd_rows[into.odd_count] = row
    into.odd_begins[into.odd_count] = offset
    into.odd_sizes[into.odd_count] = size
    into.odd_count += 1
    return DONE


cdef int read(const char *begin, const char *end, int64_t offset, Column *columns, int width,
              int64_t *rows) noexcept nogil:
    cdef const char *at = begin
    cdef const char *field
    cdef const char *stop
    cdef int64_t room = 0, size, field_at
    cdef int each, status
    cdef bint is_last
    while at < end:
        if at[0] == b"\n":
            at += 1
            continue
        if at[0] == b"\r" and end - at > 1 and at[1] == b"\n":
            at += 2
            continue
        if rows[0] == room:
            room = 2 * room + 4096
            for each in range(width):
                if columns[each].is_text:
                    if not widen(<void**>&columns[each].codes, room, 4):
                        return NO_MEMORY
                elif not widen(<void**>&columns[each].numbers, room, 8):
                    return NO_MEMORY
        field_at = 0
        each = 0
        is_last = False
        while not is_last:
            if at < end and at[0] == b'"':
                field = at + 1
                stop = <const char*>memchr(field, b'"', <size_t>(end - field))
                if stop == NULL:
                    return ODD
                size = stop - field
                at = stop + 1
                if at < end and at[0] != b"," and at[0] != b"\n" and not (
                    at[0] == b"\r" and end - at > 1 and at[1] == b"\n"
                ):
                    return ODD
            else:
                field = at
                while at < end and at[0] != b"," and at[0] != b"\n" and at[0] != b"\r":
                    at += 1
                size = at - field
            if size > LONGEST_FIELD:
                return ODD
            if each < width and columns[each].at == field_at:
                status = put(&columns[each], rows[0], field, size, field - begin + offset)
                if UNLIKELY(status != DONE):
                    return status
                each += 1
            field_at += 1
            if at == end:
                is_last = True
            elif at[0] == b",":
                at += 1
            elif at[0] == b"\n":
                at += 1
                is_last = True
            elif end - at > 1 and at[1] == b"\n":
                at += 2
                is_last = True
            else:
                return ODD
        while each < width:
            status = put(&columns[each], rows[0], begin, 0, offset)
            if status != DONE:
                return status
            each += 1
        rows[0] += 1
    return DONE


def read_rows(const uint8_t[::1] text, Py_ssize_t start, list wanted):
    """Return columns of the rows from an offset of a text on.

    Args:
        text: The text.
        start: Where the first row begins.
        wanted: By column, ascending: which field of a row it is, and whether it is text. Fields
            that a row lacks are empty.

    Returns:
        None if the text has quotes or line ends that need the module `csv`; or for each column its
        integers, and those that need Python as row, begin and end in the text (their integers are
        0); or its codes and the bytes by code.
    """
    cdef int width = <int>len(wanted), each = 0, status
    cdef Py_ssize_t size = text.shape[0]
    cdef int64_t rows = 0, i
    cdef Column *columns
    cdef const char *begin
    cdef uint64_t seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
    if not 0 <= start <= size:
        raise ValueError("the rows must be in the text")
    begin = b""
    if start < size:
        begin = <const char*>&text[0] + start
    columns = <Column*>calloc(<size_t>width + 1, sizeof(Column))
    if columns == NULL:
        raise MemoryError
    try:
        for field, is_text in wanted:
            columns[each].at, columns[each].is_text = field, is_text
            columns[each].table.seed = seed
            if is_text and not intern_grow(&columns[each].table):
                raise MemoryError
            each += 1
        with nogil:
            status = read(begin, begin + (size - start), start, columns, width, &rows)
        if status == NO_MEMORY:
            raise MemoryError
        if status == ODD:
            return None
        found = []
        for each in range(width):
            if columns[each].is_text:
                codes = column(<void**>&columns[each].codes, rows, np.int32)
                found.append((codes, texts_of(&columns[each].table)))
                continue
            odd = [
                (columns[each].odd_rows[i], columns[each].odd_begins[i],
                 columns[each].odd_begins[i] + columns[each].odd_sizes[i])
                for i in range(columns[each].odd_count)
            ]
            found.append((column(<void**>&columns[each].numbers, rows, np.int64), odd))
        return found
    finally:
        for each in range(width):
            free(columns[each].numbers)
            free(columns[each].codes)
            free(columns[each].odd_rows)
            free(columns[each].odd_begins)
            free(columns[each].odd_sizes)
            intern_free(&columns[each].table)
        free(columns)
