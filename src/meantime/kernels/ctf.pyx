"""Text of babeltrace2, rewritten as ftrace text."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, malloc


cdef extern from "ctf_text.h" nogil:
    struct ctf_state:
        long long unread_lines
        long long dropped_fields
    void ctf_begin(ctf_state *state, int is_old)
    size_t ctf_rewrite(
        const char *text, size_t size, char *output, size_t room, size_t *written, ctf_state *state
    )


cdef class CtfText:
    """Rewrites lines; remembers which thread each CPU runs.

    Args:
        is_old: Whether the kernel is older than 4.14, whose masks of states differ.
    """

    cdef ctf_state *state

    def __cinit__(self, bint is_old):
        self.state = <ctf_state *>malloc(sizeof(ctf_state))
        if self.state == NULL:
            raise MemoryError
        ctf_begin(self.state, is_old)

    def __dealloc__(self):
        free(self.state)

    @property
    def unread_lines(self) -> int:
        return self.state.unread_lines

    @property
    def dropped_fields(self) -> int:
        return self.state.dropped_fields

    def rewrite(
        self, text: bytes | bytearray | memoryview, output: bytearray | memoryview
    ) -> tuple[int, int]:
        """Rewrite the complete lines that fit; return the bytes used and those written."""
        cdef Py_buffer source, target
        cdef size_t used, written = 0
        PyObject_GetBuffer(text, &source, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(output, &target, PyBUF_WRITABLE)
            try:
                with nogil:
                    used = ctf_rewrite(
                        <const char *>source.buf, <size_t>source.len,
                        <char *>target.buf, <size_t>target.len, &written, self.state,
                    )
            finally:
                PyBuffer_Release(&target)
        finally:
            PyBuffer_Release(&source)
        return used, written
