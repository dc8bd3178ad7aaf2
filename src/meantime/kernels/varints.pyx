"""Columns of numbers as LEB128, for files, and the fields of protobuf messages; see `varint.h`."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

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
)

cdef extern from "varint.h" nogil:
    char* put_varint(char*, uint64_t)
    int varint_bytes(uint64_t)
    const uint8_t* get_varint(const uint8_t*, const uint8_t*, uint64_t*)


def encoded(column: Int64s | npt.NDArray[np.uint64]) -> bytes:
    """Return numbers of 64 bits as bytes; a negative one is taken as one without a sign."""
    cdef const uint64_t[::1] numbers = column.view(np.uint64)
    cdef Py_ssize_t i, count = numbers.shape[0], size = 0
    for i in range(count):
        size += varint_bytes(numbers[i])
    cdef bytes written = PyBytes_FromStringAndSize(NULL, size)
    cdef char* out = PyBytes_AsString(written)
    with nogil:
        for i in range(count):
            out = put_varint(out, numbers[i])
    return written


def running(
    const uint8_t[::1] data, Py_ssize_t count, uint32_t least, uint32_t step
) -> npt.NDArray[np.uint32]:
    """Return so many running sums of numbers plus `step`, less the first step, as uint32.

    Raises:
        ValueError: If the bytes are not these numbers and nothing else, a number is below `least`,
            or a sum is 2^31 or more.
    """
    cdef Py_ssize_t i = 0
    cdef uint64_t number = 0, sum = 0 - <uint64_t>step
    cdef const uint8_t* at = NULL
    cdef const uint8_t* end = NULL
    if not 0 <= count <= data.shape[0]:
        raise ValueError(f"{data.shape[0]} bytes cannot be {count} numbers")
    sums_array = np.empty(count, np.uint32)
    cdef uint32_t[::1] sums = sums_array
    if data.shape[0]:
        at = &data[0]
        end = at + data.shape[0]
    with nogil:
        while i < count:
            # Most are small.
            if at < end and at[0] < 128:
                number = at[0]
                at += 1
            else:
                at = get_varint(at, end, &number)
            if at == NULL or number < least or number > INT32_MAX:
                break
            sum += number + step
            if sum > INT32_MAX:
                break
            sums[i] = <uint32_t>sum
            i += 1
    if i < count or at != end:
        raise ValueError(f"a column of {count} numbers is damaged")
    return sums_array


def decoded(const uint8_t[::1] data, Py_ssize_t count) -> npt.NDArray[np.uint64]:
    """Return so many numbers of up to 64 bits.

    Raises:
        ValueError: If the bytes are not these numbers and nothing else.
    """
    cdef Py_ssize_t i
    cdef const uint8_t* at
    cdef const uint8_t* end
    # A number takes a byte at least, so damage cannot ask for more memory than its file justifies.
    if not 0 <= count <= data.shape[0]:
        raise ValueError(f"{data.shape[0]} bytes cannot be {count} numbers")
    numbers_array = np.empty(count, np.uint64)
    if not count:
        if data.shape[0]:
            raise ValueError(f"{data.shape[0]} bytes cannot be {count} numbers")
        return numbers_array
    cdef uint64_t[::1] numbers = numbers_array
    at = &data[0]
    end = at + data.shape[0]
    with nogil:
        for i in range(count):
            at = get_varint(at, end, &numbers[i])
            if at == NULL:
                break
    if at != end:
        raise ValueError(f"a column of {count} numbers is damaged")
    return numbers_array


cdef const uint8_t* field_end(const uint8_t* at, const uint8_t* end, uint64_t* tag,
                              const uint8_t** begin) noexcept nogil:
    """Read a field of a message; return what follows it, or NULL if it is malformed or cut."""
    cdef uint64_t size = 0
    at = get_varint(at, end, tag)
    if at == NULL or tag[0] >> 3 == 0 or tag[0] >> 32:
        return NULL
    begin[0] = at
    if tag[0] & 7 == 0:
        return get_varint(at, end, &size)
    if tag[0] & 7 == 2:
        at = get_varint(at, end, &size)
        begin[0] = at
    elif tag[0] & 7 == 1:
        size = 8
    elif tag[0] & 7 == 5:
        size = 4
    else:
        return NULL
    if at == NULL or size > <uint64_t>(end - at):
        return NULL
    return at + size


def fields(
    const uint8_t[::1] data, const int64_t[:, ::1] messages: Int64s, int64_t most=INT64_MAX
) -> tuple[Int32s, npt.NDArray[np.uint32], Int64s]:
    """Return the fields of protobuf messages, in order: message, tag, where each begins and ends.

    Args:
        data: The bytes that the messages are in.
        messages: By message, where it begins and ends.
        most: How many fields there may be.

    Returns:
        The index of the message as int32; the tag, number << 3 | wire type, as uint32; and
        int64 [begin, end) of the content, which of a number is the bytes of the number.

    Raises:
        ValueError: If a message is malformed; the argument is the offset of that field.
        OverflowError: If there are more; the argument is how many.
    """
    cdef Py_ssize_t i, count = 0, n = messages.shape[0]
    cdef uint64_t tag = 0
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* following
    cdef const uint8_t* begin = NULL
    cdef int64_t bad = 0
    cdef bint failed = False
    with nogil:
        for i in range(n):
            if not 0 <= messages[i, 0] <= messages[i, 1] <= data.shape[0]:
                bad = messages[i, 0]
                failed = True
                break
            at = first + messages[i, 0]
            end = first + messages[i, 1]
            while at < end:
                following = field_end(at, end, &tag, &begin)
                if following == NULL:
                    bad = at - first
                    failed = True
                    break
                at = following
                count += 1
            if failed:
                break
    if failed:
        raise ValueError(bad)
    if count > most:
        raise OverflowError(count)
    message_array = np.empty(count, np.int32)
    tag_array = np.empty(count, np.uint32)
    range_array = np.empty((count, 2), np.int64)
    cdef int32_t[::1] message = message_array
    cdef uint32_t[::1] tags = tag_array
    cdef int64_t[:, ::1] ranges = range_array
    count = 0
    with nogil:
        for i in range(n):
            at = first + messages[i, 0]
            end = first + messages[i, 1]
            while at < end:
                at = field_end(at, end, &tag, &begin)
                message[count] = <int32_t>i
                tags[count] = <uint32_t>tag
                ranges[count, 0] = begin - first
                ranges[count, 1] = at - first
                count += 1
    return message_array, tag_array, range_array


def numbers_of(
    const uint8_t[::1] data, const int64_t[:, ::1] ranges: Int64s
) -> tuple[npt.NDArray[np.uint64], Int64s]:
    """Return the numbers in ranges of bytes, as uint64, and how many each range has, as int64.

    Raises:
        ValueError: If a range is not whole numbers; the argument is its offset.
    """
    cdef Py_ssize_t i, j, count = 0, n = ranges.shape[0]
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef int64_t bad = 0
    cdef uint64_t number
    cdef bint failed = False
    size_array = np.zeros(n, np.int64)
    cdef int64_t[::1] sizes = size_array
    with nogil:
        for i in range(n):
            if not 0 <= ranges[i, 0] <= ranges[i, 1] <= data.shape[0]:
                bad = ranges[i, 0]
                failed = True
                break
            for j in range(ranges[i, 0], ranges[i, 1]):
                sizes[i] += data[j] < 128
            count += sizes[i]
    if failed:
        raise ValueError(bad)
    number_array = np.empty(count, np.uint64)
    cdef uint64_t[::1] numbers = number_array
    count = 0
    with nogil:
        for i in range(n):
            if ranges[i, 0] == ranges[i, 1]:
                continue
            at = &data[ranges[i, 0]]
            end = at + (ranges[i, 1] - ranges[i, 0])
            while at < end:
                at = get_varint(at, end, &number)
                if at == NULL:
                    bad = ranges[i, 0]
                    failed = True
                    break
                numbers[count] = number
                count += 1
            if failed:
                break
    if failed:
        raise ValueError(bad)
    return number_array, size_array


def different(
    const uint8_t[::1] data, const int64_t[:, ::1] ranges: Int64s
) -> tuple[Int64s, Int32s]:
    """Return the first of the ranges that have the same bytes, and which of these each range equals.

    Returns:
        The rows of the different ranges as int64, and for each range an index of these as int32.

    Raises:
        ValueError: If a range is not in the data, or longer than 2 GiB; the argument is its offset.
    """
    cdef Py_ssize_t i, n = ranges.shape[0], failed = -1
    cdef int32_t code
    cdef bint no_memory = False
    cdef const char* begin = b""
    cdef intern_table table
    cdef intern_text text
    first_array, code_array = np.empty(n, np.int64), np.empty(n, np.int32)
    cdef int64_t[::1] first = first_array
    cdef int32_t[::1] codes = code_array
    if data.shape[0]:
        begin = <const char*>&data[0]
    memset(&table, 0, sizeof(table))
    table.seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
    with nogil:
        no_memory = not intern_grow(&table)
        for i in range(0 if no_memory else n):
            if not 0 <= ranges[i, 0] <= ranges[i, 1] <= data.shape[0] or (
                ranges[i, 1] - ranges[i, 0] > INT32_MAX
            ):
                failed = i
                break
            text = intern_text_of(begin + ranges[i, 0], <size_t>(ranges[i, 1] - ranges[i, 0]))
            code = intern_find(&table, &text, 0)
            if code < 0:
                first[table.count] = i
                code = intern_add(&table, &text, 0)
                if code < 0:
                    no_memory = True
                    break
            codes[i] = code
    count = table.count
    intern_free(&table)
    if no_memory:
        raise MemoryError
    if failed >= 0:
        raise ValueError(ranges[failed, 0])
    return first_array[:count].copy(), code_array
