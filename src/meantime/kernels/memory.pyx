"""C memory as NumPy arrays: columns that a kernel grew, without a copy, and mapped files."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from libc.stdlib cimport free, realloc
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, mmap, munmap

import numpy as np


cdef class Memory:
    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


cdef class Mapping:
    """The first bytes of an open file, mapped for reading, and no longer than this object lives.

    The file can be closed at once, whereas `mmap.mmap` keeps a descriptor of its own.
    """

    cdef void* data
    cdef Py_ssize_t size

    def __cinit__(self, int descriptor, Py_ssize_t size):
        cdef void* data = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0)
        if data == MAP_FAILED:
            PyErr_SetFromErrno(OSError)
        self.data = data
        self.size = size

    def __dealloc__(self):
        if self.data != NULL:
            munmap(self.data, self.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)


cdef object column(void** data, Py_ssize_t rows, object dtype):
    """Return an array that owns `data[0]`, shrunk to this many rows; `data[0]` becomes NULL."""
    cdef Memory memory
    cdef void* cut
    width = np.dtype(dtype)
    if rows == 0:
        return np.empty(0, width)
    memory = Memory()
    memory.size = rows * <Py_ssize_t>width.itemsize
    cut = realloc(data[0], memory.size)
    # If shrinking fails, the larger block is still valid.
    memory.data = cut if cut != NULL else data[0]
    # The scanner frees what it still refers to, and this no longer belongs to it.
    data[0] = NULL
    return np.frombuffer(memory, width)
