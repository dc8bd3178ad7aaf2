"""Tables: rows of CSV text as columns, and columns of intervals as changes in order of time."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memset

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
from meantime.kernels.json_text cimport LIKELY, UNLIKELY
from meantime.kernels.memory cimport column
from meantime.kernels.time_text cimport (
    TIME_DECIMAL_3,
    TIME_DECIMAL_6,
    TIME_DECIMAL_9,
    TIME_INTEGER,
    TIME_NAIVE,
    TIME_ODD,
    TIME_ZONED,
    time_parse,
)

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef enum:
    DONE = 0
    ODD = 1
    NO_MEMORY = 2
    # `csv` refuses a longer field
    LONGEST_FIELD = 131072


# What the number of a time is; see `time_text.h`.
TimeKind = IntEnum("TimeKind", {
    "ODD": TIME_ODD, "INTEGER": TIME_INTEGER, "DECIMAL_9": TIME_DECIMAL_9,
    "DECIMAL_6": TIME_DECIMAL_6, "DECIMAL_3": TIME_DECIMAL_3, "ZONED": TIME_ZONED, "NAIVE": TIME_NAIVE,
})


cdef struct Column:
    int64_t at  # which field of a row it is
    bint is_text
    int64_t *numbers
    uint8_t *kinds  # of the numbers
    int32_t *codes
    int64_t *odd_rows  # numbers that need Python: their rows, and where their texts are
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
    cdef int64_t number = 0, room
    cdef int kind
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
    kind = time_parse(at, at + size, &number)
    into.kinds[row] = <uint8_t>kind
    if LIKELY(kind != TIME_ODD):
        into.numbers[row] = number
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
              char delimiter, bint quoted, int64_t *rows) noexcept nogil:
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
                elif not (
                    widen(<void**>&columns[each].numbers, room, 8)
                    and widen(<void**>&columns[each].kinds, room, 1)
                ):
                    return NO_MEMORY
        field_at = 0
        each = 0
        is_last = False
        while not is_last:
            if quoted and at < end and at[0] == b'"':
                field = at + 1
                stop = <const char*>memchr(field, b'"', <size_t>(end - field))
                if stop == NULL:
                    return ODD
                size = stop - field
                at = stop + 1
                if at < end and at[0] != delimiter and at[0] != b"\n" and not (
                    at[0] == b"\r" and end - at > 1 and at[1] == b"\n"
                ):
                    return ODD
            else:
                field = at
                while at < end and at[0] != delimiter and at[0] != b"\n" and at[0] != b"\r":
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
            elif at[0] == delimiter:
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


def read_rows(const uint8_t[::1] text, Py_ssize_t start, list wanted, str delimiter=","):
    """Return columns of the rows from an offset of a text on.

    Args:
        text: The text.
        start: Where the first row begins.
        wanted: By column, ascending: which field of a row it is, and whether it is text. Fields
            that a row lacks are empty.
        delimiter: What is between fields, an ASCII character. Between `|` no field has quotes.

    Returns:
        None if the text has quotes or line ends that need the module `csv`; or for each column the
        codes and the bytes by code; or its numbers with the `TimeKind` of each, and those that
        need Python as row, begin and end in the text (their numbers are 0).
    """
    cdef char separator = <char>ord(delimiter)
    cdef bint quoted = delimiter != "|"
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
            status = read(
                begin, begin + (size - start), start, columns, width, separator, quoted, &rows
            )
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
            numbers = column(<void**>&columns[each].numbers, rows, np.int64)
            kinds = column(<void**>&columns[each].kinds, rows, np.uint8)
            found.append((numbers, kinds, odd))
        return found
    finally:
        for each in range(width):
            free(columns[each].numbers)
            free(columns[each].kinds)
            free(columns[each].codes)
            free(columns[each].odd_rows)
            free(columns[each].odd_begins)
            free(columns[each].odd_sizes)
            intern_free(&columns[each].table)
        free(columns)


def parse_times(list values):
    """Return the times in integers and texts, as `read_rows` does.

    Returns:
        int64, their numbers; uint8, the `TimeKind` of each: `ODD` for all that need Python.
    """
    cdef Py_ssize_t n = len(values), i, size
    cdef int overflow, kind
    cdef int64_t number
    cdef const char *text
    numbers, kinds = np.zeros(n, np.int64), np.zeros(n, np.uint8)
    cdef int64_t *number_of = <int64_t*>INT64_ITEMS(numbers, NULL)
    cdef uint8_t *kind_of = <uint8_t*>UINT8_ITEMS(kinds, NULL)
    for i in range(n):
        value = values[i]
        if type(value) is str:
            if not value.isascii():
                continue
            text = PyUnicode_AsUTF8AndSize(value, &size)
            number = 0
            kind = time_parse(text, text + size, &number)
            if kind != TIME_ODD:
                number_of[i], kind_of[i] = number, <uint8_t>kind
        elif type(value) is int:
            number = PyLong_AsLongLongAndOverflow(value, &overflow)
            if not overflow:
                number_of[i], kind_of[i] = number, TIME_INTEGER
    return numbers, kinds


cdef enum:
    DIGIT_BITS = 11
    DIGITS = 1 << DIGIT_BITS


cdef void by_path(
    const int32_t *path, Py_ssize_t rows, int64_t *ends, int32_t *order
) noexcept nogil:
    """Write the rows path by path to `order`; `ends` is zeros, one more than there are paths."""
    cdef Py_ssize_t i
    cdef int64_t sum = 0, count
    for i in range(rows):
        ends[path[i]] += 1
    i = 0
    while sum < rows:
        count = ends[i]
        ends[i] = sum
        sum += count
        i += 1
    for i in range(rows):
        order[ends[path[i]]] = <int32_t>i
        ends[path[i]] += 1


cdef void by_digit(
    const uint64_t *time, const uint32_t *what, uint64_t *sorted_time, uint32_t *sorted_what,
    Py_ssize_t rows, int shift,
) noexcept nogil:
    """Sort by one digit of the time, keeping the order of those that have the same."""
    cdef Py_ssize_t[2048] begins
    cdef Py_ssize_t i, at, sum = 0
    cdef int digit
    memset(begins, 0, sizeof(begins))
    for i in range(rows):
        begins[(time[i] >> shift) & (DIGITS - 1)] += 1
    for digit in range(DIGITS):
        at = begins[digit]
        begins[digit] = sum
        sum += at
    for i in range(rows):
        digit = (time[i] >> shift) & (DIGITS - 1)
        at = begins[digit]
        begins[digit] = at + 1
        sorted_time[at] = time[i]
        sorted_what[at] = what[i]


def changes(starts, ends, paths, values, Py_ssize_t path_count):
    """Return the changes of intervals in order of time, those of one time path by path.

    Args:
        starts: int64, when each begins; all arrays are of the same length, below 2^31.
        ends: int64, when each ends, which is later.
        paths: int32, from 0 to below `path_count`.
        values: int32.

    Returns:
        Their times, paths and values, which are -1 where an interval ends that the next one of its
        path does not touch. Or a row that overlaps the one before it of its path; or -1 if rows of
        a path are not in order of their starts, then their ends.
    """
    cdef Py_ssize_t n, k, rows = 0
    cdef const int64_t *start = <const int64_t*>INT64_ITEMS(starts, &n)
    cdef const int64_t *end = <const int64_t*>INT64_ITEMS(ends, NULL)
    cdef const int32_t *path = <const int32_t*>INT32_ITEMS(paths, NULL)
    cdef const int32_t *value = <const int32_t*>INT32_ITEMS(values, NULL)
    place_array, order_array = np.zeros(path_count + 1, np.int64), np.empty(n, np.int32)
    cdef int64_t *places = <int64_t*>INT64_ITEMS(place_array, NULL)
    cdef int32_t *order = <int32_t*>INT32_ITEMS(order_array, NULL)
    cdef uint64_t *time
    cdef uint64_t *other_time
    cdef uint32_t *what
    cdef uint32_t *other_what
    cdef int32_t *of_path
    cdef int32_t *of_value
    cdef int64_t base = 0, last = 0
    cdef int32_t i, j
    cdef int passes = 0, shift
    cdef Py_ssize_t overlap = -1
    cdef bint ordered = True
    with nogil:
        by_path(path, n, places, order)
        for k in range(n):
            i = order[k]
            if k == 0 or start[i] < base:
                base = start[i]
            if k == 0 or end[i] > last:
                last = end[i]
            rows += 2
            if k + 1 == n or path[order[k + 1]] != path[i]:
                continue
            j = order[k + 1]
            if start[j] < start[i] or (start[j] == start[i] and end[j] < end[i]):
                ordered = False
                break
            if start[j] < end[i]:
                overlap = j if overlap < 0 else overlap
            rows -= start[j] == end[i]
    if not ordered or overlap >= 0:
        return overlap if ordered else -1
    while passes * DIGIT_BITS < 64 and (<uint64_t>last - <uint64_t>base) >> (passes * DIGIT_BITS):
        passes += 1
    # What is sorted is in the columns that are returned: its row, and whether that ends there.
    times, scratch = np.empty(rows, np.int64), np.empty(rows, np.int64)
    found, ongoing = np.empty(rows, np.int32), np.empty(rows, np.int32)
    time = <uint64_t*>INT64_ITEMS(times, NULL)
    of_path = <int32_t*>INT32_ITEMS(found, NULL)
    of_value = <int32_t*>INT32_ITEMS(ongoing, NULL)
    what = <uint32_t*>of_path
    other_time = <uint64_t*>INT64_ITEMS(scratch, NULL)
    other_what = <uint32_t*>of_value
    with nogil:
        if passes & 1:
            time, other_time = other_time, time
            what, other_what = other_what, what
        rows = 0
        for k in range(n):
            i = order[k]
            time[rows] = <uint64_t>start[i] - <uint64_t>base
            what[rows] = <uint32_t>i << 1
            rows += 1
            if k + 1 < n and path[order[k + 1]] == path[i] and start[order[k + 1]] == end[i]:
                continue
            time[rows] = <uint64_t>end[i] - <uint64_t>base
            what[rows] = <uint32_t>i << 1 | 1
            rows += 1
        for shift in range(passes):
            by_digit(time, what, other_time, other_what, rows, shift * DIGIT_BITS)
            time, other_time = other_time, time
            what, other_what = other_what, what
        for k in range(rows):
            i = <int32_t>(what[k] >> 1)
            of_value[k] = -1 if what[k] & 1 else value[i]
            of_path[k] = path[i]
            time[k] += <uint64_t>base
    return times, found, ongoing


def first_fit(starts, ends, groups, Py_ssize_t group_count):
    """Return the lane of each interval: the first of its group that is free when it starts.

    Args:
        starts: int64, ascending within a group; all arrays are of the same length.
        ends: int64, not before the starts.
        groups: int32, from 0 to below `group_count`.

    Returns:
        int32, the lane within the group, from 0.
    """
    cdef Py_ssize_t n, k, i, parent, child
    cdef const int64_t *start = <const int64_t*>INT64_ITEMS(starts, &n)
    cdef const int64_t *end = <const int64_t*>INT64_ITEMS(ends, NULL)
    cdef const int32_t *group = <const int32_t*>INT32_ITEMS(groups, NULL)
    place_array, order_array = np.zeros(group_count + 1, np.int64), np.empty(n, np.int32)
    lane_array, until_array = np.empty(n, np.int32), np.empty(n + 1, np.int64)
    busy_array, free_array = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    cdef int64_t *places = <int64_t*>INT64_ITEMS(place_array, NULL)
    cdef int32_t *order = <int32_t*>INT32_ITEMS(order_array, NULL)
    cdef int32_t *lane = <int32_t*>INT32_ITEMS(lane_array, NULL)
    # of each lane of the group, when its last interval ends; heaps of busy lanes by that, and of
    # free lanes by their number
    cdef int64_t *until = <int64_t*>INT64_ITEMS(until_array, NULL)
    cdef int32_t *busy = <int32_t*>INT32_ITEMS(busy_array, NULL)
    cdef int32_t *free_lanes = <int32_t*>INT32_ITEMS(free_array, NULL)
    cdef Py_ssize_t busy_count = 0, free_count = 0
    cdef int32_t lanes = 0, chosen, moved
    with nogil:
        by_path(group, n, places, order)
        for k in range(n):
            i = order[k]
            if k and group[order[k - 1]] != group[i]:
                busy_count = free_count = 0
                lanes = 0
            while busy_count and until[busy[0]] <= start[i]:
                chosen = busy[0]
                busy_count -= 1
                moved = busy[busy_count]
                parent = 0
                while 2 * parent + 1 < busy_count:
                    child = 2 * parent + 1
                    if child + 1 < busy_count and until[busy[child + 1]] < until[busy[child]]:
                        child += 1
                    if until[moved] <= until[busy[child]]:
                        break
                    busy[parent] = busy[child]
                    parent = child
                busy[parent] = moved
                child = free_count
                free_count += 1
                while child and free_lanes[(child - 1) // 2] > chosen:
                    free_lanes[child] = free_lanes[(child - 1) // 2]
                    child = (child - 1) // 2
                free_lanes[child] = chosen
            if free_count:
                chosen = free_lanes[0]
                free_count -= 1
                moved = free_lanes[free_count]
                parent = 0
                while 2 * parent + 1 < free_count:
                    child = 2 * parent + 1
                    if child + 1 < free_count and free_lanes[child + 1] < free_lanes[child]:
                        child += 1
                    if moved <= free_lanes[child]:
                        break
                    free_lanes[parent] = free_lanes[child]
                    parent = child
                free_lanes[parent] = moved
            else:
                chosen = lanes
                lanes += 1
            lane[i] = chosen
            until[chosen] = end[i]
            child = busy_count
            busy_count += 1
            while child and until[busy[(child - 1) // 2]] > end[i]:
                busy[child] = busy[(child - 1) // 2]
                child = (child - 1) // 2
            busy[child] = chosen
    return lane_array
