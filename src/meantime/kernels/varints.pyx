"""Columns of numbers as LEB128, for files; see `varint.h`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t

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
