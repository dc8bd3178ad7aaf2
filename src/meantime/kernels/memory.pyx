"""C memory as NumPy arrays: columns that a kernel grew, without a copy, and mapped files."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

cdef extern from "file_access.h" nogil:
    void* file_map(int descriptor, size_t size, int64_t offset)
    void file_unmap(void* data, size_t size)

cdef extern from "growing.h":
    int column_grow(void** data, int64_t capacity, size_t width) nogil
    int64_t capacity_ahead(int64_t capacity, size_t width) nogil

cdef extern from *:
    """
    /* volatile, as a compiler leaves out what is not used */
    static void free_large_block(void) {
      void *volatile block = malloc(31 << 20);
      free(block);
    }
    """
    void free_large_block()


def keep_freed():
    """Let the allocator keep what is freed for what is allocated next, instead of returning it.

    A trace is read in batches of some 10 MB, and to clear the pages that the system hands out for
    each takes longer than to fill them. glibc keeps up to twice as much as the largest block that was
    ever freed, of at most 32 MB, unless its limits are set by the user.
    """
    free_large_block()


cdef class Memory:
    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


cdef class Mapping:
    """Bytes of an open file, mapped for reading, and no longer than this object lives.

    They begin at a multiple of the size of pages. The file can be closed at once, whereas
    `mmap.mmap` keeps a descriptor of its own.
    """

    cdef void* data
    cdef Py_ssize_t size

    def __cinit__(self, int descriptor, Py_ssize_t size, int64_t offset):
        cdef void* data = file_map(descriptor, size, offset)
        if data == NULL:
            PyErr_SetFromErrno(OSError)
        self.data = data
        self.size = size

    def __dealloc__(self):
        if self.data != NULL:
            file_unmap(self.data, self.size)

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


cdef class GrowingColumn:
    """A column that grows at its end. Rows are copied once, since large memory grows in place.

    While all rows are 0, as are the arguments of spans that have none, no memory is used for them.
    """

    cdef void* data
    cdef object dtype
    cdef int64_t size, capacity

    def __cinit__(self, dtype: npt.DTypeLike):
        self.dtype = np.dtype(dtype)

    def __dealloc__(self):
        free(self.data)

    def append(self, rows: npt.NDArray[Any]):
        """Append the rows of an array.

        Raises:
            MemoryError: If there is not enough memory.
        """
        cdef const uint8_t[::1] more = np.ascontiguousarray(rows, self.dtype).view(np.uint8)
        cdef int64_t added = more.shape[0], capacity = self.capacity
        if not added:
            return
        if self.data == NULL and not more[0] and not memcmp(&more[0], &more[0] + 1, added - 1):
            self.size += added
            return
        while capacity < self.size + added:
            capacity = capacity_ahead(capacity, 1)
        if capacity > self.capacity:
            if not column_grow(&self.data, capacity, 1):
                raise MemoryError
            if not self.capacity:
                memset(self.data, 0, <size_t>self.size)
            self.capacity = capacity
        with nogil:
            memcpy(<char*>self.data + self.size, &more[0], <size_t>added)
        self.size += added

    def take(self) -> npt.NDArray[Any]:
        """Return all rows as an array, and begin again with none."""
        count = self.size // <int64_t>self.dtype.itemsize
        if self.data == NULL:
            rows = np.zeros(count, self.dtype)  # which are made when they are first read
        else:
            rows = column(&self.data, count, self.dtype)
        self.size = self.capacity = 0
        return rows
