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
from meantime.kernels.json_text cimport (
    LIKELY,
    UNLIKELY,
    json_bytes_equal,
    json_load8,
    json_lowest_byte,
)
from meantime.kernels.memory cimport column
from meantime.kernels.time_text cimport (
    TIME_DECIMAL_3,
    TIME_DECIMAL_6,
    TIME_DECIMAL_9,
    TIME_INTEGER,
    TIME_NAIVE,
    TIME_ODD,
    TIME_ZONED,
    time_minute,
    time_parse,
    time_parse_next,
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
    # an empty field, beside the kinds of `TimeKind`
    NO_TIME = 100


MISSING = NO_TIME


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
    int64_t *odd  # numbers that need Python: the row of each, where its text begins and ends
    int64_t odd_count
    int64_t odd_room
    time_minute minute  # of the date before
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
    cdef int64_t *odd
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
    if size == 0:
        into.kinds[row] = NO_TIME
        into.numbers[row] = 0
        return DONE
    kind = time_parse_next(at, at + size, &into.minute, &number)
    into.kinds[row] = <uint8_t>kind
    if LIKELY(kind != TIME_ODD):
        into.numbers[row] = number
        return DONE
    into.numbers[row] = 0
    if into.odd_count == into.odd_room:
        room = 2 * into.odd_room + 64
        if not widen(<void**>&into.odd, room, 3 * sizeof(int64_t)):
            return NO_MEMORY
        into.odd_room = room
    odd = into.odd + 3 * into.odd_count
    odd[0], odd[1], odd[2] = row, offset, offset + size
    into.odd_count += 1
    return DONE


cdef inline const char *field_end(const char *at, const char *end, char delimiter) noexcept nogil:
    """Return the next delimiter, line feed or carriage return, or the end."""
    cdef uint64_t word, found
    while end - at >= 8:
        word = json_load8(at)
        found = (
            json_bytes_equal(word, delimiter) | json_bytes_equal(word, b"\n")
            | json_bytes_equal(word, b"\r")
        )
        if found:
            return at + json_lowest_byte(found)
        at += 8
    while at < end and at[0] != delimiter and at[0] != b"\n" and at[0] != b"\r":
        at += 1
    return at


cdef int read(const char *begin, const char *end, int64_t offset, Column *columns, int width,
              char delimiter, bint quoted, int64_t fields, int64_t *rows, int64_t *short_rows,
              int64_t *long_rows) noexcept nogil:
    cdef const char *at = begin
    cdef const char *field
    cdef const char *stop
    cdef int64_t room = 0, size, field_at
    cdef int each, status
    cdef bint is_last, is_long
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
        is_last = is_long = False
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
                at = field_end(at, end, delimiter)
                size = at - field
            if size > LONGEST_FIELD:
                return ODD
            if each < width and columns[each].at == field_at:
                status = put(&columns[each], rows[0], field, size, field - begin + offset)
                if UNLIKELY(status != DONE):
                    return status
                each += 1
            is_long = is_long or (field_at >= fields and size > 0)
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
        short_rows[0] += field_at < fields
        long_rows[0] += is_long
    return DONE


def read_rows(
    const uint8_t[::1] text: memoryview, Py_ssize_t start, list wanted: list[tuple[int, bool]],
    str delimiter, Py_ssize_t fields,
) -> tuple[int, int, list[tuple[Any, ...]]] | None:
    """Return columns of the rows from an offset of a text on.

    Args:
        text: The text.
        start: Where the first row begins.
        wanted: By column, ascending: which field of a row it is, and whether it is text. Fields
            that a row lacks are empty.
        delimiter: What is between fields, an ASCII character. Between `|` no field has quotes.
        fields: How many fields a row should have.

    Returns:
        None if the text has quotes or line ends that need the module `csv`. Otherwise how many rows
        have fewer fields, and how many have something in more; and for each column the codes and
        the bytes by code, or its numbers with the kind of each, a `TimeKind` or `MISSING`, and
        those that need Python as int64 with three columns: row, begin and end in the text (their
        numbers are 0).
    """
    cdef char separator = <char>ord(delimiter)
    cdef bint quoted = delimiter != "|"
    cdef int width = <int>len(wanted), each = 0, status
    cdef Py_ssize_t size = text.shape[0]
    cdef int64_t rows = 0, short_rows = 0, long_rows = 0
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
                begin, begin + (size - start), start, columns, width, separator, quoted, fields,
                &rows, &short_rows, &long_rows,
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
            odd = column(<void**>&columns[each].odd, 3 * columns[each].odd_count, np.int64)
            numbers = column(<void**>&columns[each].numbers, rows, np.int64)
            kinds = column(<void**>&columns[each].kinds, rows, np.uint8)
            found.append((numbers, kinds, odd.reshape(-1, 3)))
        return short_rows, long_rows, found
    finally:
        for each in range(width):
            free(columns[each].numbers)
            free(columns[each].kinds)
            free(columns[each].codes)
            free(columns[each].odd)
            intern_free(&columns[each].table)
        free(columns)


def parse_times(list values: list[Any]) -> tuple[Int64s, npt.NDArray[np.uint8]]:
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
    const int64_t *time, const int32_t *row, int64_t *sorted_time, int32_t *sorted_row,
    Py_ssize_t rows, int64_t base, int shift,
) noexcept nogil:
    """Sort by one digit of the time since `base`, keeping the order of those that have the same."""
    cdef Py_ssize_t[2048] begins
    cdef Py_ssize_t i, at, sum = 0
    cdef int digit
    memset(begins, 0, sizeof(begins))
    for i in range(rows):
        begins[((<uint64_t>time[i] - <uint64_t>base) >> shift) & (DIGITS - 1)] += 1
    for digit in range(DIGITS):
        at = begins[digit]
        begins[digit] = sum
        sum += at
    for i in range(rows):
        digit = ((<uint64_t>time[i] - <uint64_t>base) >> shift) & (DIGITS - 1)
        at = begins[digit]
        begins[digit] = at + 1
        sorted_time[at] = time[i]
        sorted_row[at] = row[i]


cdef tuple in_order(times, rows):
    """Return times in order, and the row of each; the arrays may be overwritten."""
    cdef Py_ssize_t n, i
    cdef int shift = 0
    cdef bint sorted = True
    cdef int64_t *time = <int64_t*>INT64_ITEMS(times, &n)
    cdef int32_t *row = <int32_t*>INT32_ITEMS(rows, NULL)
    cdef int64_t *other_time
    cdef int32_t *other_row
    cdef int64_t first, last
    if n == 0:
        return times, rows
    first = last = time[0]
    with nogil:
        for i in range(1, n):
            sorted = sorted and time[i] >= time[i - 1]
            first = time[i] if time[i] < first else first
            last = time[i] if time[i] > last else last
    if sorted:
        return times, rows
    other_times, other_rows = np.empty(n, np.int64), np.empty(n, np.int32)
    while shift < 64 and (<uint64_t>last - <uint64_t>first) >> shift:
        time, row = <int64_t*>INT64_ITEMS(times, NULL), <int32_t*>INT32_ITEMS(rows, NULL)
        other_time = <int64_t*>INT64_ITEMS(other_times, NULL)
        other_row = <int32_t*>INT32_ITEMS(other_rows, NULL)
        with nogil:
            by_digit(time, row, other_time, other_row, n, first, shift)
        times, other_times, rows, other_rows = other_times, times, other_rows, rows
        shift += DIGIT_BITS
    return times, rows


def changes(
    starts: Int64s, ends: Int64s, paths: Int32s, values: Int32s, Py_ssize_t path_count
) -> tuple[Int64s, Int32s, Int32s] | int:
    """Return the changes of intervals in order of time.

    Args:
        starts: int64, when each begins; all arrays are of the same length, below 2^31.
        ends: int64, when each ends, which is later.
        paths: int32, from 0 to below `path_count`.
        values: int32.

    Returns:
        Their times, paths and values, which are -1 where an interval ends that the next one of its
        path does not touch; of one time, ends come first, then the order is that of the rows. Or a
        row that overlaps the one before it of its path; or -1 if rows of a path are not in order of
        their starts, then their ends.
    """
    cdef Py_ssize_t n, m, k, a = 0, b = 0
    cdef const int64_t *start = <const int64_t*>INT64_ITEMS(starts, &n)
    cdef const int64_t *end = <const int64_t*>INT64_ITEMS(ends, NULL)
    cdef const int32_t *path = <const int32_t*>INT32_ITEMS(paths, NULL)
    cdef const int32_t *value = <const int32_t*>INT32_ITEMS(values, NULL)
    # by path: the row before, when that began, and when it ended
    before_array = np.full(path_count, -1, np.int32)
    began_array, ended_array = np.empty(path_count, np.int64), np.empty(path_count, np.int64)
    shown_array = np.ones(n, np.uint8)
    cdef int32_t *before = <int32_t*>INT32_ITEMS(before_array, NULL)
    cdef int64_t *began = <int64_t*>INT64_ITEMS(began_array, NULL)
    cdef int64_t *ended = <int64_t*>INT64_ITEMS(ended_array, NULL)
    cdef uint8_t *shown = <uint8_t*>UINT8_ITEMS(shown_array, NULL)
    cdef int64_t *time
    cdef int32_t *of_path
    cdef int32_t *of_value
    cdef const int64_t *start_time
    cdef const int32_t *start_row
    cdef const int64_t *end_time
    cdef const int32_t *end_row
    cdef int32_t p, i
    cdef Py_ssize_t overlap = -1, touching = 0
    cdef bint ordered = True
    with nogil:
        for k in range(n):
            p = path[k]
            if before[p] >= 0:
                if start[k] < began[p] or (start[k] == began[p] and end[k] < ended[p]):
                    ordered = False
                    break
                if start[k] < ended[p]:
                    overlap = k if overlap < 0 else overlap
                elif start[k] == ended[p]:
                    shown[before[p]] = 0
                    touching += 1
            before[p] = <int32_t>k
            began[p] = start[k]
            ended[p] = end[k]
    if not ordered or overlap >= 0:
        return overlap if ordered else -1
    m = n - touching
    end_times, end_rows = np.empty(m, np.int64), np.empty(m, np.int32)
    time, of_path = <int64_t*>INT64_ITEMS(end_times, NULL), <int32_t*>INT32_ITEMS(end_rows, NULL)
    with nogil:
        for k in range(n):
            if shown[k]:
                time[b] = end[k]
                of_path[b] = <int32_t>k
                b += 1
            ordered = ordered and (k == 0 or start[k] >= start[k - 1])
    end_times, end_rows = in_order(end_times, end_rows)
    start_times, start_rows = starts, None
    if not ordered:
        start_times, start_rows = in_order(starts.copy(), np.arange(n, dtype=np.int32))
    start_time = <const int64_t*>INT64_ITEMS(start_times, NULL)
    start_row = NULL if ordered else <const int32_t*>INT32_ITEMS(start_rows, NULL)
    end_time = <const int64_t*>INT64_ITEMS(end_times, NULL)
    end_row = <const int32_t*>INT32_ITEMS(end_rows, NULL)
    times, found, ongoing = np.empty(n + m, np.int64), np.empty(n + m, np.int32), np.empty(n + m, np.int32)
    time = <int64_t*>INT64_ITEMS(times, NULL)
    of_path, of_value = <int32_t*>INT32_ITEMS(found, NULL), <int32_t*>INT32_ITEMS(ongoing, NULL)
    b = 0
    with nogil:
        for k in range(n + m):
            if b < m and (a == n or end_time[b] <= start_time[a]):
                time[k] = end_time[b]
                of_path[k] = path[end_row[b]]
                of_value[k] = -1
                b += 1
            else:
                i = <int32_t>a if start_row == NULL else start_row[a]
                time[k] = start_time[a]
                of_path[k] = path[i]
                of_value[k] = value[i]
                a += 1
    return times, found, ongoing


def appearing(codes: Int32s, Py_ssize_t count) -> tuple[Int32s, Int64s, Int32s]:
    """Return which codes occur, in order of first appearance.

    Args:
        codes: int32, from 0 to below `count`.

    Returns:
        These codes, int32; the first row of each, int64; and for each row, int32, which of them it
        has.
    """
    cdef Py_ssize_t n, i
    cdef const int32_t *code = <const int32_t*>INT32_ITEMS(codes, &n)
    rank_array, which = np.full(count, -1, np.int32), np.empty(n, np.int32)
    used, first = np.empty(min(count, n), np.int32), np.empty(min(count, n), np.int64)
    cdef int32_t *rank = <int32_t*>INT32_ITEMS(rank_array, NULL)
    cdef int32_t *rank_of = <int32_t*>INT32_ITEMS(which, NULL)
    cdef int32_t *use = <int32_t*>INT32_ITEMS(used, NULL)
    cdef int64_t *row = <int64_t*>INT64_ITEMS(first, NULL)
    cdef int32_t known = 0
    cdef bint outside = False
    with nogil:
        for i in range(n):
            if not 0 <= code[i] < count:
                outside = True
                break
            if rank[code[i]] < 0:
                rank[code[i]] = known
                use[known] = code[i]
                row[known] = i
                known += 1
            rank_of[i] = rank[code[i]]
    if outside:
        raise ValueError("a code is not in its table")
    return used[:known], first[:known], which


def first_fit(
    starts: Int64s, ends: Int64s, groups: Int32s, Py_ssize_t group_count
) -> tuple[Int32s, Int32s]:
    """Return the lane of each interval: the first of its group that is free when it starts.

    Args:
        starts: int64, ascending within a group; all arrays are of the same length.
        ends: int64, not before the starts.
        groups: int32, from 0 to below `group_count`.

    Returns:
        int32, the lane of each within its group, from 0; and int32, by group, how many lanes it has.
    """
    cdef Py_ssize_t n, k, i, parent, child
    cdef const int64_t *start = <const int64_t*>INT64_ITEMS(starts, &n)
    cdef const int64_t *end = <const int64_t*>INT64_ITEMS(ends, NULL)
    cdef const int32_t *group = <const int32_t*>INT32_ITEMS(groups, NULL)
    place_array, order_array = np.zeros(group_count + 1, np.int64), np.empty(n, np.int32)
    lane_array, until_array = np.empty(n, np.int32), np.empty(n + 1, np.int64)
    count_array = np.zeros(group_count, np.int32)
    busy_array, free_array = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    cdef int64_t *places = <int64_t*>INT64_ITEMS(place_array, NULL)
    cdef int32_t *order = <int32_t*>INT32_ITEMS(order_array, NULL)
    cdef int32_t *lane = <int32_t*>INT32_ITEMS(lane_array, NULL)
    cdef int32_t *lanes_of = <int32_t*>INT32_ITEMS(count_array, NULL)
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
                lanes_of[group[i]] = lanes
            lane[i] = chosen
            until[chosen] = end[i]
            child = busy_count
            busy_count += 1
            while child and until[busy[(child - 1) // 2]] > end[i]:
                busy[child] = busy[(child - 1) // 2]
                child = (child - 1) // 2
            busy[child] = chosen
    return lane_array, count_array
