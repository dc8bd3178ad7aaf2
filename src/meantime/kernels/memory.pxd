"""C memory as NumPy arrays; see `memory.pyx`."""


cdef class Memory:
    cdef void* data
    cdef Py_ssize_t size

cdef object column(void** data, Py_ssize_t rows, object dtype)
