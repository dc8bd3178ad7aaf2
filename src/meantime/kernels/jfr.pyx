"""Java flight recordings: events and constants of a chunk as columns, their fields as JSON.

How the values of a type are written is a program: rows of an operation, the column that the value
goes to (-1 for none), and for an array how many of the rows that follow are its elements'.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from cpython.mem cimport PyMem_Free
from libc.stdint cimport (
    INT32_MAX,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset, strlen

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
)
from meantime.kernels.memory cimport column

cdef extern from "decimal.h" nogil:
    char* signed_decimal_before(char* end, int64_t number)

cdef extern from *:
    """
    #include <math.h>
    typedef __int128 jfr_wide;
    """
    ctypedef long long jfr_wide
    bint isfinite(double value) nogil

cdef extern from "Python.h":
    char *PyOS_double_to_string(double, char, int, int, int*) except NULL
    int Py_DTSF_ADD_DOT_0
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    object PyUnicode_DecodeLatin1(const char*, Py_ssize_t, const char*)

cdef enum:
    OP_INTEGER
    OP_BOOLEAN
    OP_BYTE
    OP_SHORT
    OP_CHAR
    OP_INT
    OP_LONG
    OP_FLOAT
    OP_DOUBLE
    OP_TEXT
    OP_ARRAY
    OP_MARK

# How a value is written: OP_INTEGER as integers of the chunk are, OP_MARK not at all. In a column,
# texts, arrays and marks are offsets, and floats the bits of a double.
Op = IntEnum("Op", {
    "INTEGER": OP_INTEGER, "BOOLEAN": OP_BOOLEAN, "BYTE": OP_BYTE, "SHORT": OP_SHORT,
    "CHAR": OP_CHAR, "INT": OP_INT, "LONG": OP_LONG, "FLOAT": OP_FLOAT, "DOUBLE": OP_DOUBLE,
    "TEXT": OP_TEXT, "ARRAY": OP_ARRAY, "MARK": OP_MARK,
})

cdef enum:
    FINE
    CUT
    BAD_COUNT
    NO_BYTES
    BAD_TEXT

# What is wrong with bytes, by code.
PROBLEMS: tuple[str, ...] = (
    "",
    "it ends too early",
    "a count is larger than what follows",
    "an array has values without bytes",
    "a string is longer than what follows",
)

cdef enum:
    NULL_TEXT = 0
    EMPTY_TEXT = 1
    POOLED_TEXT = 2
    UTF8_TEXT = 3
    CHARACTERS_TEXT = 4
    LAST_TEXT = 5
    DEEPEST_ELEMENT = 12


cdef struct Growing:
    int64_t *items
    int64_t count
    int64_t room


cdef bint push(Growing *into, int64_t value) noexcept nogil:
    cdef int64_t room
    cdef void *grown
    if into.count == into.room:
        room = 2 * into.room + 64
        grown = realloc(into.items, <size_t>room * 8)
        if grown == NULL:
            return False
        into.items = <int64_t*>grown
        into.room = room
    into.items[into.count] = value
    into.count += 1
    return True


cdef inline const uint8_t *get_integer(
    const uint8_t *at, const uint8_t *end, bint compressed, int64_t *value
) noexcept nogil:
    """Read an integer of up to 9 bytes, or one of 8; NULL if it is cut."""
    cdef uint64_t number = 0
    cdef int shift = 0
    if not compressed:
        if end - at < 8:
            return NULL
        for shift in range(8):
            number = number << 8 | at[shift]
        value[0] = <int64_t>number
        return at + 8
    if at < end and at[0] < 128:
        value[0] = at[0]
        return at + 1
    while at < end and shift < 56 and at[0] > 127:
        number |= <uint64_t>(at[0] & 127) << shift
        shift += 7
        at += 1
    if at >= end:
        return NULL
    value[0] = <int64_t>(number | <uint64_t>at[0] << shift)
    return at + 1


cdef const uint8_t *text_end(
    const uint8_t *at, const uint8_t *end, bint compressed, int *problem
) noexcept nogil:
    """Return the end of a text."""
    cdef int how
    cdef int64_t count = 0, letter = 0, i
    if at >= end:
        problem[0] = CUT
        return NULL
    how = at[0]
    at += 1
    if how == NULL_TEXT or how == EMPTY_TEXT:
        return at
    at = get_integer(at, end, compressed, &count)
    if at == NULL:
        problem[0] = CUT
        return NULL
    if how == POOLED_TEXT:
        return at
    if not 0 <= count <= end - at or how > LAST_TEXT:
        problem[0] = BAD_TEXT
        return NULL
    if how != CHARACTERS_TEXT:
        return at + count
    for i in range(count):
        at = get_integer(at, end, compressed, &letter)
        if at == NULL:
            problem[0] = CUT
            return NULL
    return at


cdef inline uint64_t big_endian(const uint8_t *at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int i
    for i in range(size):
        number = number << 8 | at[i]
    return number


cdef int64_t bits_of(double value) noexcept nogil:
    cdef int64_t bits
    memcpy(&bits, &value, 8)
    return bits


cdef const uint8_t *pick(
    const uint8_t *at, const uint8_t *end, int64_t count, Py_ssize_t width, Py_ssize_t wanted,
    int64_t *into
) noexcept nogil:
    """Read rows of so many compressed integers, and keep one of each if wanted; NULL if it is cut."""
    cdef int64_t row, value
    cdef Py_ssize_t i
    for row in range(count):
        for i in range(width):
            value = 0
            at = get_integer(at, end, True, &value)
            if at == NULL:
                return NULL
            if i == wanted:
                into[row] = value
    return at


cdef bint has_only_integers(const int32_t *ops, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if ops[3 * i] != OP_INTEGER:
            return False
    return count > 0


cdef const uint8_t *run(
    const uint8_t *at, const uint8_t *end, const uint8_t *data, const int32_t *ops, Py_ssize_t count,
    bint compressed, int64_t *row, Py_ssize_t stride, int *problem
) noexcept nogil:
    """Read a value, and put what has a column into a row; return its end, or NULL with a problem."""
    cdef Py_ssize_t i = 0, size
    cdef int op
    cdef int32_t into, bits32
    cdef int64_t value, length, item
    cdef float single
    cdef double wide
    cdef uint64_t bits
    cdef const uint8_t *first
    while i < count:
        op = ops[3 * i]
        into = ops[3 * i + 1]
        value = at - data
        if op == OP_INTEGER:
            at = get_integer(at, end, compressed, &value)
            if at == NULL:
                problem[0] = CUT
                return NULL
        elif op == OP_TEXT:
            at = text_end(at, end, compressed, problem)
            if at == NULL:
                return NULL
        elif op == OP_ARRAY:
            length = 0
            at = get_integer(at, end, compressed, &length)
            if at == NULL:
                problem[0] = CUT
                return NULL
            if not 0 <= length <= end - at:
                problem[0] = BAD_COUNT
                return NULL
            size = ops[3 * i + 2]
            if compressed and has_only_integers(ops + 3 * (i + 1), size):
                at = pick(at, end, length, size, -1, NULL)
                length = 0
                if at == NULL:
                    problem[0] = CUT
                    return NULL
            for item in range(length):
                first = at
                at = run(at, end, data, ops + 3 * (i + 1), size, compressed, NULL, 0, problem)
                if at == NULL:
                    return NULL
                if at == first:
                    problem[0] = NO_BYTES
                    return NULL
            i += size
        elif op != OP_MARK:
            size = 8
            if op == OP_BOOLEAN or op == OP_BYTE:
                size = 1
            elif op == OP_SHORT or op == OP_CHAR:
                size = 2
            elif op == OP_INT or op == OP_FLOAT:
                size = 4
            if end - at < size:
                problem[0] = CUT
                return NULL
            bits = big_endian(at, <int>size)
            at += size
            if op == OP_BOOLEAN:
                value = bits != 0
            elif op == OP_BYTE:
                value = <int8_t>bits
            elif op == OP_SHORT:
                value = <int16_t>bits
            elif op == OP_CHAR:
                value = <uint16_t>bits
            elif op == OP_INT:
                value = <int32_t>bits
            elif op == OP_FLOAT:
                bits32 = <int32_t>bits
                memcpy(&single, &bits32, 4)
                value = bits_of(single)
            else:
                value = <int64_t>bits
        if row != NULL and into >= 0:
            row[into * stride] = value
        i += 1
    return at


def walk(
    const uint8_t[::1] data: bytes, Py_ssize_t start, bint compressed
) -> tuple[Int64s, Int64s, bool]:
    """Find all events of a chunk by their sizes.

    Returns:
        int64, the numbers of their types; int64, where each begins; whether the last one is cut, or
        followed by something else.
    """
    cdef Growing numbers, offsets
    cdef const uint8_t *first
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef const uint8_t *behind
    cdef int64_t size = 0, number = 0
    cdef bint is_cut = False, no_memory = False
    if not 0 <= start <= data.shape[0]:
        raise ValueError("the events must be in the chunk")
    memset(&numbers, 0, sizeof(numbers))
    memset(&offsets, 0, sizeof(offsets))
    if start == data.shape[0]:
        return np.empty(0, np.int64), np.empty(0, np.int64), False
    first = &data[0]
    end = first + data.shape[0]
    at = first + start
    try:
        with nogil:
            while at < end:
                behind = get_integer(at, end, compressed, &size)
                # zeros are what a crash leaves behind the last event
                if (
                    behind == NULL or get_integer(behind, end, compressed, &number) == NULL
                    or size <= behind - at or size > end - at
                ):
                    is_cut = True
                    break
                if not push(&numbers, number) or not push(&offsets, at - first):
                    no_memory = True
                    break
                at += size
        if no_memory:
            raise MemoryError
        return (
            column(<void**>&numbers.items, numbers.count, np.int64),
            column(<void**>&offsets.items, offsets.count, np.int64),
            is_cut,
        )
    finally:
        free(numbers.items)
        free(offsets.items)


cdef Py_ssize_t checked(const int32_t[:, ::1] ops, Py_ssize_t width) except -1:
    """Return the length of a program whose columns and arrays are in range."""
    cdef Py_ssize_t i, n = ops.shape[0]
    if ops.shape[1] != 3:
        raise ValueError("a program has three columns")
    for i in range(n):
        if not OP_INTEGER <= ops[i, 0] <= OP_MARK or not -1 <= ops[i, 1] < width:
            raise ValueError("an operation is not known, or its column is missing")
        if ops[i, 0] == OP_ARRAY and not 0 <= ops[i, 2] < n - i:
            raise ValueError("an array is longer than its program")
    return n


def columns(
    const uint8_t[::1] data: bytes, const int64_t[::1] offsets, const int32_t[:, ::1] ops: Int32s,
    Py_ssize_t width, bint compressed, bint of_events
) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    """Return the columns of values that begin at offsets.

    Args:
        data: The chunk.
        offsets: Where each value begins; with `of_events`, its event, which it does not leave.
        ops: The program.
        width: The number of columns.
        compressed: Whether integers are.
        of_events: Whether the size and the type of an event come first.

    Returns:
        int64 by column and value; uint8 by value, an index of `PROBLEMS`: 0 if it was read.
    """
    cdef Py_ssize_t rows = offsets.shape[0], row, count = checked(ops, width)
    cdef const uint8_t *first = &data[0] if data.shape[0] else NULL
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t size = 0, number = 0
    cdef int problem
    cdef const int32_t *program = &ops[0, 0] if count else NULL
    values_array, problems_array = np.zeros((width, rows), np.int64), np.zeros(rows, np.uint8)
    cdef int64_t[:, ::1] values = values_array
    cdef uint8_t[::1] problems = problems_array
    cdef int64_t *into = &values[0, 0] if width and rows else NULL
    with nogil:
        for row in range(rows):
            problem = CUT
            end = first + data.shape[0]
            if 0 <= offsets[row] <= data.shape[0]:
                at = first + offsets[row]
                if of_events:
                    at = get_integer(at, end, compressed, &size)
                    if at != NULL and 0 <= size <= data.shape[0] - offsets[row]:
                        end = first + offsets[row] + size
                        at = get_integer(at, end, compressed, &number)
                    else:
                        at = NULL
                if at != NULL:
                    problem = FINE
                    run(
                        at, end, first, program, count, compressed,
                        into + row if into != NULL else NULL, rows, &problem
                    )
            problems[row] = <uint8_t>problem
    return values_array, problems_array


def constants(
    const uint8_t[::1] data: bytes, Py_ssize_t start, Py_ssize_t stop, int64_t count,
    const int32_t[:, ::1] ops: Int32s, bint compressed
) -> tuple[Int64s, Int64s, int, int]:
    """Find so many constants: each is a key and a value.

    Returns:
        int64, the keys, and where the values begin; where the last one ends; an index of
        `PROBLEMS`, 0 if all were read.
    """
    cdef Growing keys, offsets
    cdef const uint8_t *first
    cdef const uint8_t *at
    cdef const uint8_t *value
    cdef const uint8_t *end
    cdef int64_t key = 0, done = 0
    cdef int problem = FINE
    cdef bint no_memory = False
    cdef Py_ssize_t length = checked(ops, 0)
    cdef const int32_t *program = &ops[0, 0] if length else NULL
    if not 0 <= start <= stop <= data.shape[0]:
        raise ValueError("the constants must be in the chunk")
    if not data.shape[0]:
        return np.empty(0, np.int64), np.empty(0, np.int64), 0, CUT if count > 0 else FINE
    memset(&keys, 0, sizeof(keys))
    memset(&offsets, 0, sizeof(offsets))
    first = &data[0]
    at = first + start
    end = first + stop
    try:
        with nogil:
            while done < count:
                value = get_integer(at, end, compressed, &key)
                if value == NULL:
                    problem = CUT
                    break
                at = run(value, end, first, program, length, compressed, NULL, 0, &problem)
                if at == NULL:
                    break
                if not push(&keys, key) or not push(&offsets, value - first):
                    no_memory = True
                    break
                done += 1
        if no_memory:
            raise MemoryError
        return (
            column(<void**>&keys.items, keys.count, np.int64),
            column(<void**>&offsets.items, offsets.count, np.int64),
            0 if problem != FINE else at - first,
            problem,
        )
    finally:
        free(keys.items)
        free(offsets.items)


def elements(
    const uint8_t[::1] data: bytes, const int64_t[::1] offsets, const int32_t[:, ::1] ops: Int32s,
    bint compressed
) -> tuple[Int64s, Int64s]:
    """Return one column of the elements of arrays.

    Args:
        data: The chunk.
        offsets: Where each array begins.
        ops: The program of an element; one operation has column 0.
        compressed: Whether integers are.

    Returns:
        int64, how many elements each array has; int64, their values.

    Raises:
        ValueError: If an array is malformed.
    """
    cdef Py_ssize_t rows = offsets.shape[0], row, length = checked(ops, 1), wanted = -1, i
    cdef const uint8_t *first = &data[0] if data.shape[0] else NULL
    cdef const uint8_t *at
    cdef const uint8_t *before
    cdef const uint8_t *end = first + data.shape[0]
    cdef int64_t count = 0, item, total = 0
    cdef int problem = FINE
    cdef int64_t *into
    cdef const int32_t *program = &ops[0, 0] if length else NULL
    cdef bint is_plain = compressed and has_only_integers(program, length)
    counts_array = np.zeros(rows, np.int64)
    cdef int64_t[::1] counts = counts_array
    for i in range(length):
        wanted = i if ops[i, 1] == 0 else wanted
    for row in range(rows):
        if not 0 <= offsets[row] < data.shape[0]:
            raise ValueError(PROBLEMS[CUT])
        at = get_integer(first + offsets[row], end, compressed, &count)
        if at == NULL or not 0 <= count <= end - at:
            raise ValueError(PROBLEMS[BAD_COUNT])
        counts[row] = count
        total += count
        # arrays do not overlap, and an element has a byte at least
        if total > data.shape[0]:
            raise ValueError(PROBLEMS[BAD_COUNT])
    values_array = np.zeros(total, np.int64)
    cdef int64_t[::1] values = values_array
    into = &values[0] if total else NULL
    with nogil:
        for row in range(rows):
            at = get_integer(first + offsets[row], end, compressed, &count)
            if is_plain:
                at = pick(at, end, count, length, wanted, into)
                if at == NULL:
                    problem = CUT
                    break
            else:
                for item in range(count):
                    before = at
                    at = run(at, end, first, program, length, compressed, into + item, 1, &problem)
                    if at == NULL or at == before:
                        problem = problem or NO_BYTES
                        break
            if problem != FINE:
                break
            into += count
    if problem != FINE:
        raise ValueError(PROBLEMS[problem])
    return counts_array, values_array


cdef object text_at(const uint8_t *at, const uint8_t *end, bint compressed):
    """Return a text that was checked: None, a string, or the number of one that is in a pool."""
    cdef int how = at[0]
    cdef int64_t count = 0, letter = 0, i
    if how == NULL_TEXT:
        return None
    if how == EMPTY_TEXT:
        return ""
    at = get_integer(at + 1, end, compressed, &count)
    if how == POOLED_TEXT:
        return count
    if how == UTF8_TEXT:
        return PyUnicode_DecodeUTF8(<const char*>at, <Py_ssize_t>count, "replace")
    if how != CHARACTERS_TEXT:
        return PyUnicode_DecodeLatin1(<const char*>at, <Py_ssize_t>count, NULL)
    if end - at == count and compressed:
        # a byte for each character, so all are ASCII
        return PyUnicode_DecodeLatin1(<const char*>at, <Py_ssize_t>count, NULL)
    letters = []
    for i in range(count):
        at = get_integer(at, end, compressed, &letter)
        letters.append(chr(letter & 0xFFFF))
    return "".join(letters).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_of(
    const uint8_t[::1] data: bytes, Py_ssize_t at, bint compressed
) -> tuple[str | int | None, int]:
    """Return the text at an offset, as `different_texts` does, and where it ends.

    Raises:
        ValueError: If it is malformed.
    """
    cdef int problem = FINE
    cdef const uint8_t *first
    cdef const uint8_t *end
    if not 0 <= at < data.shape[0]:
        raise ValueError(PROBLEMS[CUT])
    first = &data[0]
    end = text_end(first + at, first + data.shape[0], compressed, &problem)
    if end == NULL:
        raise ValueError(PROBLEMS[problem])
    return text_at(first + at, end, compressed), end - first


def different_texts(
    const uint8_t[::1] data: bytes, const int64_t[::1] offsets, bint compressed
) -> tuple[list[str | int | None], Int32s]:
    """Return the different ones of the texts at these offsets, and int32 by text: its index.

    A text is None, a string, or the number of one that is in a pool.

    Raises:
        ValueError: If a text is malformed.
    """
    cdef Py_ssize_t rows = offsets.shape[0], row
    cdef const uint8_t *first = &data[0] if data.shape[0] else NULL
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int problem = FINE
    cdef int32_t code
    cdef bint no_memory
    cdef intern_table table
    cdef intern_text text
    cdef list found = []
    code_array = np.empty(rows, np.int32)
    cdef int32_t[::1] codes = code_array
    memset(&table, 0, sizeof(table))
    table.seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
    no_memory = not intern_grow(&table)
    try:
        for row in range(0 if no_memory else rows):
            if not 0 <= offsets[row] < data.shape[0]:
                problem = CUT
                break
            at = first + offsets[row]
            end = text_end(at, first + data.shape[0], compressed, &problem)
            if end == NULL:
                break
            if end - at > INT32_MAX:
                problem = BAD_TEXT
                break
            text = intern_text_of(<const char*>at, <size_t>(end - at))
            code = intern_find(&table, &text, 0)
            if code < 0:
                code = intern_add(&table, &text, 0)
                if code < 0:
                    no_memory = True
                    break
                found.append(text_at(at, end, compressed))
            codes[row] = code
    finally:
        intern_free(&table)
    if no_memory:
        raise MemoryError
    if problem != FINE:
        raise ValueError(PROBLEMS[problem])
    return found, code_array


cdef int64_t next_integer(const uint8_t **at, const uint8_t *end, bint compressed) except? -1:
    cdef int64_t value = 0
    at[0] = get_integer(at[0], end, compressed, &value)
    if at[0] == NULL:
        raise ValueError(PROBLEMS[CUT])
    return value


cdef int64_t next_count(const uint8_t **at, const uint8_t *end, bint compressed) except -1:
    cdef int64_t count = next_integer(at, end, compressed)
    # what is counted takes a byte each at least
    if not 0 <= count <= end - at[0]:
        raise ValueError(PROBLEMS[BAD_COUNT])
    return count


cdef tuple element(
    const uint8_t **at, const uint8_t *end, bint compressed, list texts, list classes, int depth
):
    cdef int64_t name, key, value, i
    cdef int64_t known = len(texts)
    cdef dict attributes = {}
    cdef list children = []
    if depth > DEEPEST_ELEMENT:
        raise ValueError("its descriptions are nested too deep")
    name = next_integer(at, end, compressed)
    for i in range(next_count(at, end, compressed)):
        key = next_integer(at, end, compressed)
        value = next_integer(at, end, compressed)
        if not (0 <= key < known and 0 <= value < known):
            raise ValueError("a name of a description is missing")
        attributes[texts[key]] = texts[value]
    for i in range(next_count(at, end, compressed)):
        children.append(element(at, end, compressed, texts, classes, depth + 1))
    if not 0 <= name < known:
        raise ValueError("a name of a description is missing")
    if texts[name] == "class":
        classes.append((attributes, children))
    return texts[name], attributes


def classes_at(
    const uint8_t[::1] data: bytes, Py_ssize_t at, bint compressed
) -> list[tuple[dict[str, str], list[tuple[str, dict[str, str]]]]]:
    """Return the classes of a description of types, from its texts on.

    Returns:
        Of each the attributes, and the names and attributes of the elements in it.

    Raises:
        ValueError: If it is malformed.
    """
    cdef list texts = [], classes = []
    cdef const uint8_t *first
    cdef const uint8_t *here
    cdef const uint8_t *end
    cdef const uint8_t *behind
    cdef int64_t i
    cdef int problem = FINE
    if not 0 <= at < data.shape[0]:
        raise ValueError(PROBLEMS[CUT])
    first = &data[0]
    end = first + data.shape[0]
    here = first + at
    for i in range(next_count(&here, end, compressed)):
        behind = text_end(here, end, compressed, &problem)
        if behind == NULL:
            raise ValueError(PROBLEMS[problem])
        text = text_at(here, behind, compressed)
        texts.append(text if isinstance(text, str) else "")
        here = behind
    element(&here, end, compressed, texts, classes, 0)
    return classes


cdef inline jfr_wide floor_divide(jfr_wide a, jfr_wide b) noexcept nogil:
    """Divide by a positive number, towards the smaller integer."""
    cdef jfr_wide quotient = a // b
    # as in C, towards 0
    return quotient - 1 if a < 0 and quotient * b != a else quotient


def times(
    const int64_t[::1] ticks, const int64_t[::1] lengths, int64_t start_ticks, int64_t per_second,
    int64_t start_ns, int64_t limit_ns
) -> tuple[Int64s, Int64s, npt.NDArray[np.uint8]]:
    """Return when events began and how long they lasted, and which are outside of the limit.

    Args:
        ticks: When they began.
        lengths: How long they lasted; negative ones last 0.
        start_ticks: The ticks at `start_ns`.
        per_second: Ticks of a second, at least 1.
        start_ns: Nanoseconds since 1970.
        limit_ns: Their start is above the negative limit, and their end below the limit.

    Returns:
        int64 nanoseconds, both 0 outside of the limit; uint8.
    """
    cdef Py_ssize_t rows = ticks.shape[0], row
    cdef jfr_wide start, length, second = 1_000_000_000
    if per_second < 1 or lengths.shape[0] != rows:
        raise ValueError("a second has at least one tick, and each event a length")
    start_array, length_array = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    outside_array = np.zeros(rows, np.uint8)
    cdef int64_t[::1] starts = start_array, long = length_array
    cdef uint8_t[::1] outside = outside_array
    with nogil:
        for row in range(rows):
            start = <jfr_wide>ticks[row] - start_ticks
            start = start_ns + floor_divide(start * second, per_second)
            length = floor_divide(<jfr_wide>lengths[row] * second, per_second)
            if length < 0:
                length = 0
            if -<jfr_wide>limit_ns < start < <jfr_wide>limit_ns - length and length <= limit_ns:
                starts[row] = <int64_t>start
                long[row] = <int64_t>length
            else:
                outside[row] = 1
    return start_array, length_array, outside_array


cdef struct Output:
    char *items
    Py_ssize_t size
    Py_ssize_t room


cdef int put(Output *out, const char *text, Py_ssize_t size) except -1:
    cdef Py_ssize_t room
    cdef char *grown
    if out.size + size > out.room:
        room = 2 * (out.size + size) + 4096
        grown = <char*>realloc(out.items, <size_t>room)
        if grown == NULL:
            raise MemoryError
        out.items = grown
        out.room = room
    memcpy(out.items + out.size, text, <size_t>size)
    out.size += size
    return 0


cdef int put_integer(Output *out, int64_t value) except -1:
    cdef char[24] digits
    cdef char *begin = signed_decimal_before(digits + 24, value)
    return put(out, begin, digits + 24 - begin)


cdef int put_float(Output *out, int64_t bits) except -1:
    cdef double value
    cdef char *text
    memcpy(&value, &bits, 8)
    text = PyOS_double_to_string(value, b"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    try:
        if not isfinite(value):
            put(out, b'"', 1)
        put(out, text, <Py_ssize_t>strlen(text))
        if not isfinite(value):
            put(out, b'"', 1)
    finally:
        PyMem_Free(text)
    return 0


def objects(
    Py_ssize_t rows, list names: list[bytes], list kinds: list[int], list values: list[Int64s],
    list tables: list[list[bytes] | None]
) -> tuple[bytes, Int64s, Int32s]:
    """Return objects of JSON, one after the other, and where each is.

    Args:
        rows: The number of objects.
        names: The members' names, as JSON.
        kinds: What they are: an `Op`; all integers are written alike.
        values: int64, their values; of texts, indices of a table.
        tables: Of texts, the table: JSON by index; those without bytes are left out. Else None.

    Returns:
        The bytes; int64 offsets and int32 lengths by object. One without members has no bytes.
    """
    cdef Output out
    cdef Py_ssize_t row, begin, i, count = len(names)
    cdef int kind
    cdef int64_t value
    cdef list table
    cdef bytes text
    cdef bint is_first
    cdef const int64_t[::1] numbers
    cdef list prefixes = [bytes(name) + b": " for name in names]
    cdef list parts = []
    offset_array, length_array = np.zeros(rows, np.int64), np.zeros(rows, np.int32)
    cdef int64_t[::1] offsets = offset_array
    cdef int32_t[::1] lengths = length_array
    cdef int64_t[:, ::1] all_values = np.zeros((count, rows), np.int64)
    if not count == len(kinds) == len(values) == len(tables):
        raise ValueError("each member has a name, a kind, values and a table")
    for i in range(count):
        numbers = values[i]
        if numbers.shape[0] != rows:
            raise ValueError("each object has a value of each member")
        all_values[i, :] = numbers
    memset(&out, 0, sizeof(out))
    try:
        for row in range(rows):
            begin = out.size
            is_first = True
            for i in range(count):
                value = all_values[i, row]
                kind = kinds[i]
                if kind == OP_TEXT:
                    table = tables[i]
                    if not 0 <= value < len(table):
                        raise ValueError("a text is not in its table")
                    text = table[value]
                    if not PyBytes_Size(text):
                        continue
                put(&out, b"{" if is_first else b", ", 1 if is_first else 2)
                is_first = False
                put(&out, PyBytes_AsString(<bytes>prefixes[i]), PyBytes_Size(prefixes[i]))
                if kind == OP_TEXT:
                    put(&out, PyBytes_AsString(text), PyBytes_Size(text))
                elif kind == OP_BOOLEAN:
                    put(&out, b"true" if value else b"false", 4 if value else 5)
                elif kind == OP_FLOAT or kind == OP_DOUBLE:
                    put_float(&out, value)
                else:
                    put_integer(&out, value)
            if is_first:
                continue
            put(&out, b"}", 1)
            if out.size - begin > INT32_MAX:
                raise ValueError("an object is longer than 2 GiB")
            offsets[row] = begin
            lengths[row] = <int32_t>(out.size - begin)
        return PyBytes_FromStringAndSize(out.items, out.size), offset_array, length_array
    finally:
        free(out.items)


cdef class StackRows:
    """Stacks of frames as rows (parent, frame): stacks with the same callers share their rows."""

    cdef intern_table table

    def __cinit__(self):
        memset(&self.table, 0, sizeof(self.table))
        self.table.seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
        if not intern_grow(&self.table):
            raise MemoryError

    def __dealloc__(self):
        intern_free(&self.table)

    def add(self, const int64_t[::1] counts, const int32_t[::1] frames) -> Int32s:
        """Return the row of each stack as int32; -1 of an empty one.

        Args:
            counts: How many frames each has.
            frames: The frames of one after the other, the innermost first.
        """
        cdef Py_ssize_t i, j, n = counts.shape[0]
        cdef int64_t end = 0
        cdef int32_t row
        cdef int32_t[2] pair
        cdef intern_text text
        cdef bint no_memory = False
        rows_array = np.empty(n, np.int32)
        cdef int32_t[::1] rows = rows_array
        for i in range(n):
            if not 0 <= counts[i] <= frames.shape[0] - end:
                raise ValueError("a stack has more frames than there are")
            end += counts[i]
        end = 0
        with nogil:
            for i in range(n):
                row = -1
                end += counts[i]
                for j in range(counts[i]):
                    pair[0] = row
                    pair[1] = frames[end - 1 - j]
                    text = intern_text_of(<const char*>pair, sizeof(pair))
                    row = intern_find(&self.table, &text, 0)
                    if row < 0:
                        row = intern_add(&self.table, &text, 0)
                        if row < 0:
                            no_memory = True
                            break
                if no_memory:
                    break
                rows[i] = row
        if no_memory:
            raise MemoryError
        return rows_array

    def build(self) -> tuple[Int32s, Int32s]:
        """Return the parents and the frames of all rows, as int32."""
        cdef bytes pairs = self.table.bytes[: self.table.count * 8] if self.table.count else b""
        found = np.frombuffer(pairs, np.int32).reshape(-1, 2)
        return found[:, 0].copy(), found[:, 1].copy()
