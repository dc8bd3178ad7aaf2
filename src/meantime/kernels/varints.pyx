"""Columns of numbers as LEB128, for files; see `varint.h`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, uint8_t, uint32_t, uint64_t

import numpy as np

cdef extern from "varint.h" nogil:
    char* put_varint(char*, uint64_t)
    int varint_bytes(uint64_t)
    const uint8_t* get_varint(const uint8_t*, const uint8_t*, uint64_t*)


def encoded(column):
    """Return numbers of 64 bits as bytes; a negative one is taken as one without a sign."""
    cdef const uint64_t[::1] numbers = column.view(np.uint64)
    cdef Py_ssize_t i, count = numbers.shape[0], size = 0
    for i in range(count):
        size += varint_bytes(numbers[i])
    cdef bytes written = PyBytes_FromStringAndSize(NULL, size)
    cdef char* out = PyBytes_AS_STRING(written)
    with nogil:
        for i in range(count):
            out = put_varint(out, numbers[i])
    return written


def running(const uint8_t[::1] data, Py_ssize_t count, uint32_t least, uint32_t step):
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


def decoded(const uint8_t[::1] data, Py_ssize_t count):
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
