"""Checksums of what files contain, as fast as memory is read."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

import zlib

cdef extern from "crc.h" nogil:
    bint crc_folds()
    void crc_fold(const uint8_t* bytes, size_t count, uint32_t crc, uint8_t* folded)

# Of fewer bytes, zlib's is as fast.
cdef enum:
    _FEWEST = 1024
    _STEP = 64

cdef bint _folds = crc_folds()
_NO_REGISTER = 0xFFFFFFFF


def crc32(data: Buffer, uint32_t value=0) -> int:
    """Return what `zlib.crc32` does: the CRC-32 of contiguous bytes after those of `value`."""
    cdef Py_buffer view
    cdef uint8_t[16] folded
    cdef Py_ssize_t count = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if _folds and view.len >= _FEWEST:
            count = view.len - view.len % _STEP
            with nogil:
                crc_fold(<const uint8_t*>view.buf, count, value, folded)
    finally:
        PyBuffer_Release(&view)
    if not count:
        return zlib.crc32(data, value)
    # a register of 0 is that of the inverted checksum
    value = zlib.crc32(folded[:16], _NO_REGISTER)
    return zlib.crc32(memoryview(data).cast("B")[count:], value)
