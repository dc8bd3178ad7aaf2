"""Rows of a table of an SQLite database, from its pages: no object is made for each value.

The file is untrusted: every number in it is checked before it is used. What this does not read, as
rows without the columns that were added to their table later, stops it with `ODD`; the caller goes on
with SQLite after the last row.
"""

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

import os
from enum import IntEnum

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
from meantime.kernels.json_text cimport UNLIKELY
from meantime.kernels.time_text cimport TIME_INTEGER, TIME_ODD, time_parse

cdef extern from "file_access.h" nogil:
    int64_t file_read_at(int descriptor, void *to, size_t size, int64_t offset)

cdef extern from "decimal.h" nogil:
    char* signed_decimal_before(char* end, int64_t number)

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef enum:
    MOST_LEVELS = 20
    LEAF = 0x0D
    INTERIOR = 0x05
    # the longest record that is put together of several pages
    LONGEST_RECORD = 1 << 20
    LONGEST_INTEGER = 20  # its digits, and a sign

# Why `TableRows.read` returned.
cdef enum:
    FULL = 0
    FINISHED
    ODD
    DAMAGED
    NO_MEMORY

Stop = IntEnum("Stop", {"FULL": FULL, "FINISHED": FINISHED, "ODD": ODD, "DAMAGED": DAMAGED})

# How the values of a column are returned.
cdef enum:
    INTEGERS  # numbers; those of another type are INT64_MIN
    TIMES  # as `csv_rows.parse_times` does
    TEXTS  # codes and texts; integers have their text, no value is -1
    ONLY_TEXTS  # the same, -1 for all that is not a text

As = IntEnum("As", {
    "INTEGERS": INTEGERS, "TIMES": TIMES, "TEXTS": TEXTS, "ONLY_TEXTS": ONLY_TEXTS,
})


cdef struct Level:
    uint8_t *page
    int32_t cell, cells


cdef struct Column:
    int kind
    bint is_row_id, is_real
    int64_t *numbers
    uint8_t *kinds
    int32_t *codes
    intern_table table


cdef inline const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *value) noexcept nogil:
    """Read a number of SQLite's form, the high bits first; NULL if it is cut."""
    cdef int i
    value[0] = 0
    for i in range(8):
        if at >= end:
            return NULL
        value[0] = value[0] << 7 | (at[0] & 127)
        at += 1
        if (at - 1)[0] < 128:
            return at
    if at >= end:
        return NULL
    value[0] = value[0] << 8 | at[0]
    return at + 1


cdef inline uint32_t big32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t big_signed(const uint8_t *at, int size) noexcept nogil:
    """Return a number of 1 to 8 bytes with a sign."""
    cdef uint64_t value = 0 if at[0] < 128 else <uint64_t>-1
    cdef int i
    for i in range(size):
        value = value << 8 | at[i]
    return <int64_t>value


cdef inline bint size_of(uint64_t kind, uint64_t *size) noexcept nogil:
    """Find the bytes of a value of a serial type; False for an unknown one."""
    if kind >= 12:
        size[0] = (kind - 12) >> 1
        return True
    if kind >= 10:
        return False
    size[0] = kind if kind < 5 else 6 if kind == 5 else 8 if kind < 8 else 0
    return True


cdef class TableRows:
    """The rows of a table, in order of their row ids.

    Args:
        descriptor: The open database; the caller keeps it open.
        page_bytes: The size of its pages, 512 to 65536.
        reserved: How many bytes at the end of each page are not used.
        pages: How many there are.
        root: The page with which the table begins.
        wanted: By column: its index in a record, an `As`, whether it is the row id, and whether
            integers in it are floats. No index occurs twice.
        missing: The kind of a time that is NULL.

    Attributes:
        last_row: The row id of the last row that was read; None if there is none.
    """

    cdef int descriptor, depth
    cdef int64_t page_bytes, usable, pages, visited, last
    cdef bint some
    cdef uint32_t root
    cdef Level[MOST_LEVELS] levels
    cdef uint8_t *record
    cdef uint8_t *overflow
    cdef int32_t *slot_of  # by index in a record: which column it is, or -1
    cdef int32_t indices, width
    cdef Column *columns
    cdef uint8_t missing
    cdef list odd

    def __cinit__(
        self, int descriptor, int64_t page_bytes, int64_t reserved, int64_t pages, uint32_t root,
        list wanted: list[tuple[int, int, bool, bool]], uint8_t missing
    ):
        cdef int32_t each
        if not (512 <= page_bytes <= 65536 and 0 <= reserved <= page_bytes - 480):
            raise ValueError("no such pages")
        self.descriptor, self.page_bytes, self.usable = descriptor, page_bytes, page_bytes - reserved
        self.pages, self.root, self.missing = pages, root, missing
        self.depth = -2
        self.indices = 1 + max([index for index, *_ in wanted], default=-1)
        self.width = <int32_t>len(wanted)
        self.slot_of = <int32_t*>malloc((<size_t>self.indices + 1) * sizeof(int32_t))
        self.columns = <Column*>calloc(<size_t>self.width + 1, sizeof(Column))
        self.record = <uint8_t*>malloc(LONGEST_RECORD)
        self.overflow = <uint8_t*>malloc(<size_t>page_bytes)
        if self.slot_of == NULL or self.columns == NULL or self.record == NULL or self.overflow == NULL:
            raise MemoryError
        for each in range(self.indices):
            self.slot_of[each] = -1
        seed = int.from_bytes(os.urandom(8), "little")
        for each, (index, kind, is_row_id, is_real) in enumerate(wanted):
            if index < 0 or self.slot_of[index] >= 0:
                raise ValueError("each column has an index of its own")
            self.slot_of[index] = each
            self.columns[each].kind = kind
            self.columns[each].is_row_id, self.columns[each].is_real = is_row_id, is_real
            self.columns[each].table.seed = seed

    def __dealloc__(self):
        for level in range(MOST_LEVELS):
            free(self.levels[level].page)
        if self.columns != NULL:
            for each in range(self.width):
                intern_free(&self.columns[each].table)
        free(self.columns)
        free(self.slot_of)
        free(self.record)
        free(self.overflow)

    @property
    def last_row(self) -> int | None:
        return self.last if self.some else None

    def read(self, int64_t most) -> tuple[int, int, list[tuple[Any, ...]]]:
        """Read up to this many rows.

        Returns:
            Why it stopped (`Stop`), how many rows were read, and the columns: numbers; or numbers,
            kinds, and row and value of those that need Python; or codes, the bytes by code, and
            row and value of those that need Python: texts as bytes, blobs in a column of texts, floats.
        """
        cdef int64_t count = 0
        cdef int32_t each
        cdef int stop
        cdef uint64_t seed
        cdef Column *column
        arrays, self.odd = [], []
        for each in range(self.width):
            column = &self.columns[each]
            self.odd.append([])
            if column.kind == INTEGERS or column.kind == TIMES:
                numbers, kinds = np.zeros(most, np.int64), np.zeros(most, np.uint8)
                column.numbers = <int64_t*>INT64_ITEMS(numbers, NULL)
                column.kinds = <uint8_t*>UINT8_ITEMS(kinds, NULL)
                arrays.append((numbers, kinds))
                continue
            seed = column.table.seed
            intern_free(&column.table)
            column.table.seed = seed
            if not intern_grow(&column.table):
                raise MemoryError
            codes = np.zeros(most, np.int32)
            column.codes = <int32_t*>INT32_ITEMS(codes, NULL)
            arrays.append((codes,))
        with nogil:
            stop = self._rows(most, &count)
        if stop == NO_MEMORY:
            raise MemoryError
        found = []
        for each, (values, *kinds) in enumerate(arrays):
            column = &self.columns[each]
            values = values[:count]
            # a row that could not be read whole is not one
            odd = [(row, value) for row, value in self.odd[each] if row < count]
            if column.kind == INTEGERS:
                found.append((values,))
            elif column.kind == TIMES:
                found.append((values, kinds[0][:count], odd))
            else:
                found.append((values, texts_of(&column.table), odd))
        self.odd = []
        return stop, count, found

    cdef int _rows(self, int64_t most, int64_t *count) noexcept nogil:
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef uint64_t size, row_id
        cdef int stop
        if self.depth == -2:
            self.depth = -1
            stop = self._enter(self.root)
            if stop != FULL:
                return stop
        while count[0] < most:
            stop = self._cell(&at, &end)
            if stop != FULL:
                return stop
            at = varint(at, end, &size)
            at = NULL if at == NULL else varint(at, end, &row_id)
            if at == NULL:
                return ODD
            if self.some and <int64_t>row_id <= self.last:
                return DAMAGED
            stop = self._put(at, end, size, <int64_t>row_id, count[0])
            if stop != FULL:
                return stop
            self.last, self.some = <int64_t>row_id, True
            count[0] += 1
        return FULL

    cdef int _load(self, uint32_t number, uint8_t *page) noexcept nogil:
        """Read a page; each is part of a table once."""
        if number < 2 or number > self.pages:
            return ODD
        self.visited += 1
        if self.visited > self.pages:
            return DAMAGED
        if file_read_at(
            self.descriptor, page, <size_t>self.page_bytes, (<int64_t>number - 1) * self.page_bytes
        ) != self.page_bytes:
            return ODD
        return FULL

    cdef int _enter(self, uint32_t number) noexcept nogil:
        """Go to the first cell of a page."""
        cdef Level *level
        cdef int stop
        if self.depth + 1 >= MOST_LEVELS:
            return ODD
        level = &self.levels[self.depth + 1]
        if level.page == NULL:
            level.page = <uint8_t*>malloc(<size_t>self.page_bytes)
            if level.page == NULL:
                return NO_MEMORY
        stop = self._load(number, level.page)
        if stop != FULL:
            return stop
        level.cell, level.cells = 0, level.page[3] << 8 | level.page[4]
        if level.page[0] != LEAF and level.page[0] != INTERIOR:
            return ODD
        if (8 if level.page[0] == LEAF else 12) + 2 * level.cells > self.usable:
            return ODD
        self.depth += 1
        return FULL

    cdef int _cell(self, const uint8_t **at, const uint8_t **end) noexcept nogil:
        """Go to the next row; `FINISHED` if there is none."""
        cdef Level *level
        cdef int64_t head, offset
        cdef int stop
        cdef bint is_leaf
        while self.depth >= 0:
            level = &self.levels[self.depth]
            is_leaf = level.page[0] == LEAF
            head = 8 if is_leaf else 12
            if level.cell == level.cells + (not is_leaf):
                self.depth -= 1
                continue
            offset = 8
            if level.cell < level.cells:
                offset = level.page[head + 2 * level.cell] << 8 | level.page[head + 2 * level.cell + 1]
                if offset < head + 2 * level.cells or offset + 4 > self.usable:
                    return ODD
            level.cell += 1
            if is_leaf:
                at[0], end[0] = level.page + offset, level.page + self.usable
                return FULL
            stop = self._enter(big32(level.page + offset))
            if stop != FULL:
                return stop
        return FINISHED

    cdef int _put(self, const uint8_t *at, const uint8_t *end, uint64_t size, int64_t row_id,
                  int64_t row) noexcept nogil:
        """Put the values of a row into the columns."""
        cdef uint64_t local = size, least
        cdef int stop
        if size > <uint64_t>self.usable - 35:
            if size > LONGEST_RECORD:
                return ODD
            least = (<uint64_t>self.usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (<uint64_t>self.usable - 4)
            if local > <uint64_t>self.usable - 35:
                local = least
            if <uint64_t>(end - at) < local + 4:
                return ODD
        elif <uint64_t>(end - at) < local:
            return ODD
        stop = self._values(at, local, row_id, row, local == size)
        if stop != FINISHED:
            return stop
        stop = self._gather(at, local, size)
        return self._values(self.record, size, row_id, row, True) if stop == FULL else stop

    cdef int _gather(self, const uint8_t *at, uint64_t local, uint64_t size) noexcept nogil:
        """Put a record together that continues on other pages."""
        cdef uint64_t part
        cdef uint32_t next = big32(at + local)
        cdef int stop
        memcpy(self.record, at, local)
        while local < size:
            stop = self._load(next, self.overflow)
            if stop != FULL:
                return stop
            part = <uint64_t>self.usable - 4
            part = part if part < size - local else size - local
            memcpy(self.record + local, self.overflow + 4, part)
            local += part
            next = big32(self.overflow)
        return FULL

    cdef int _values(self, const uint8_t *data, uint64_t size, int64_t row_id, int64_t row,
                     bint whole) noexcept nogil:
        """Put the values of a record; `FINISHED` if more of it is needed."""
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef uint64_t head, kind, bytes, offset
        cdef int32_t index, slot
        cdef int stop
        at = varint(data, data + size, &head)
        if at == NULL:
            return ODD
        if head > size:
            return ODD if whole else FINISHED
        end = data + head
        offset = head
        for index in range(self.indices):
            at = varint(at, end, &kind)
            if UNLIKELY(at == NULL):
                return ODD
            if not size_of(kind, &bytes) or bytes > LONGEST_RECORD:
                return ODD
            slot = self.slot_of[index]
            if slot >= 0:
                if offset + bytes > size:
                    return ODD if whole else FINISHED
                stop = self._value(&self.columns[slot], slot, data + offset, kind, bytes, row_id, row)
                if UNLIKELY(stop != FULL):
                    return stop
            offset += bytes
        return FULL

    cdef int _value(self, Column *column, int32_t slot, const uint8_t *at, uint64_t kind,
                    uint64_t size, int64_t row_id, int64_t row) noexcept nogil:
        cdef int64_t number = 0
        cdef int found = TIME_ODD
        cdef char[LONGEST_INTEGER] text
        cdef const char *digits
        cdef bint is_integer = 0 < kind < 7 or kind == 8 or kind == 9 or column.is_row_id
        if column.is_row_id:
            number = row_id
        elif kind == 9:
            number = 1
        elif 0 < kind < 7:
            number = big_signed(at, <int>size)
        if column.kind == INTEGERS:
            column.numbers[row] = number if is_integer and not column.is_real else INT64_MIN
            return FULL
        if column.kind == TIMES:
            if is_integer and not column.is_real:
                column.numbers[row], column.kinds[row] = number, TIME_INTEGER
                return FULL
            column.numbers[row] = 0
            column.kinds[row] = TIME_ODD
            if is_integer or kind == 7:
                return self._leave(slot, at, number, is_integer, row)
            if kind == 0:
                column.kinds[row] = self.missing
            elif kind & 1:
                found = time_parse(<const char*>at, <const char*>at + size, &number)
                if found == TIME_ODD:
                    return self._leave_bytes(slot, at, size, row)
                column.numbers[row], column.kinds[row] = number, <uint8_t>found
            return FULL
        column.codes[row] = -1
        if kind == 0 and not is_integer:
            return FULL
        if column.kind == TEXTS:
            if is_integer and not column.is_real:
                digits = signed_decimal_before(text + LONGEST_INTEGER, number)
                return self._text(column, digits, <uint64_t>(text + LONGEST_INTEGER - digits), row)
            if is_integer or kind == 7:
                return self._leave(slot, at, number, is_integer, row)
            if not kind & 1:
                return self._leave_bytes(slot, at, size, row)
        elif is_integer or kind == 7 or not kind & 1:
            return FULL
        return self._text(column, <const char*>at, size, row)

    cdef int _text(self, Column *column, const char *at, uint64_t size, int64_t row) noexcept nogil:
        cdef intern_text text = intern_text_of(at, <size_t>size)
        cdef int32_t code = intern_find(&column.table, &text, 0)
        if UNLIKELY(code < 0):
            code = intern_add(&column.table, &text, 0)
            if code < 0:
                return NO_MEMORY
        column.codes[row] = code
        return FULL

    cdef int _leave(self, int32_t slot, const uint8_t *at, int64_t number, bint is_integer,
                    int64_t row) noexcept nogil:
        """Leave a float to Python."""
        cdef double value
        cdef uint64_t bits
        if is_integer:
            value = <double>number
        else:
            bits = <uint64_t>big_signed(at, 8)
            memcpy(&value, &bits, 8)
        with gil:
            try:
                self.odd[slot].append((row, value))
            except MemoryError:
                return NO_MEMORY
        return FULL

    cdef int _leave_bytes(self, int32_t slot, const uint8_t *at, uint64_t size, int64_t row) noexcept nogil:
        """Leave a text or a blob to Python."""
        with gil:
            try:
                self.odd[slot].append((row, (<const char*>at)[:size]))
            except MemoryError:
                return NO_MEMORY
        return FULL
