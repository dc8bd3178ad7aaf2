"""Spans as the begins and ends of a stack, and these as the records of a .spall file."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

cdef enum:
    BEGIN = 3
    END = 4
    MOST_BYTES = 255
    # without name and arguments: that of a begin in version 1
    LARGEST_RECORD = 20


def walk(const int32_t[::1] rows, const int32_t[::1] parent):
    """Return the begins and ends of the spans of one lane, in order, as int32.

    A begin is the index of a span among the rows, its end the complement of that. A span whose
    parent is not among the open ones ends all of them.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count = 0, depth = 0
    steps_array = np.empty(2 * n, np.int32)
    cdef int32_t[::1] steps = steps_array
    cdef int32_t[::1] begun = np.empty(n, np.int32)
    with nogil:
        for i in range(n):
            while depth and rows[begun[depth - 1]] != parent[rows[i]]:
                depth -= 1
                steps[count] = ~begun[depth]
                count += 1
            begun[depth] = <int32_t>i
            depth += 1
            steps[count] = <int32_t>i
            count += 1
        while depth:
            depth -= 1
            steps[count] = ~begun[depth]
            count += 1
    return steps_array


cdef inline uint8_t* put(uint8_t* out, const void* field, Py_ssize_t size) noexcept nogil:
    memcpy(out, field, size)
    return out + size


def spall(int version, uint32_t pid, uint32_t tid, const uint8_t[::1] begins,
          const int64_t[::1] time_ns, const int32_t[::1] name, const uint8_t[::1] names,
          const int64_t[::1] name_offset, const uint8_t[::1] arguments,
          const int64_t[::1] argument_offset, const int32_t[::1] argument_length):
    """Return the records of steps, as bytes.

    Args:
        version: 1 or 3.
        pid: The process, which records of version 1 have.
        tid: The thread.
        begins: By step, whether a span begins.
        time_ns: By step, when.
        name: By step, the code of the span's name; of an end it is not used.
        names: All names.
        name_offset: By code, where its name begins; the next one's is its end.
        arguments: The arguments of all steps.
        argument_offset: By step, where its arguments begin.
        argument_length: By step, their length. Of longer ones the first 255 bytes are written.

    Raises:
        IndexError: If a name or arguments are not in their text.
    """
    cdef Py_ssize_t n = begins.shape[0], i, codes = name_offset.shape[0] - 1, size = 0
    cdef int64_t first, length
    cdef uint8_t kind, name_length, argument_bytes, category = 0
    cdef uint64_t ticks
    cdef double microseconds
    cdef uint8_t* out
    for i in range(n):
        size += LARGEST_RECORD
        if not begins[i]:
            continue
        if name[i] < 0 or name[i] >= codes:
            raise IndexError
        first = name_offset[name[i]]
        length = name_offset[name[i] + 1] - first
        if first < 0 or not 0 <= length <= MOST_BYTES or first + length > names.shape[0]:
            raise IndexError
        size += length
        first = argument_offset[i]
        length = argument_length[i]
        if first < 0 or length < 0 or first > arguments.shape[0] - length:
            raise IndexError
        size += min(length, <int64_t>MOST_BYTES)
    buffer_array = np.empty(max(size, 1), np.uint8)
    cdef uint8_t[::1] buffer = buffer_array
    out = &buffer[0]
    with nogil:
        for i in range(n):
            kind = BEGIN if begins[i] else END
            out = put(out, &kind, 1)
            if version == 1:
                if begins[i]:
                    out = put(out, &category, 1)
                out = put(out, &pid, 4)
                out = put(out, &tid, 4)
                microseconds = <double>time_ns[i]
                out = put(out, &microseconds, 8)
            else:
                ticks = <uint64_t>time_ns[i]
                out = put(out, &ticks, 8)
            if not begins[i]:
                continue
            first = name_offset[name[i]]
            name_length = <uint8_t>(name_offset[name[i] + 1] - first)
            argument_bytes = <uint8_t>min(argument_length[i], MOST_BYTES)
            out = put(out, &name_length, 1)
            out = put(out, &argument_bytes, 1)
            if name_length:
                out = put(out, &names[first], name_length)
            if argument_bytes:
                out = put(out, &arguments[argument_offset[i]], argument_bytes)
        size = out - &buffer[0]
    return buffer_array[:size].tobytes()
