"""Spans as the begins and ends of a stack, and these as records of .spall or Chrome JSON."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from meantime.kernels.json_text cimport json_fault, json_value

import numpy as np

cdef extern from "decimal.h" nogil:
    const char* decimal_pairs
    char* put_decimal(char* out, uint64_t number)

cdef enum:
    BEGIN = 3
    END = 4
    MOST_BYTES = 255
    # without name and arguments: that of a begin in version 1
    LARGEST_RECORD = 20
    # without name, arguments, ids and category
    LARGEST_EVENT = 128
    MOST_CHECKED = 900


def walk(const int32_t[::1] rows, const int32_t[::1] parent) -> Int32s:
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


def spall(
    int version, const uint32_t[:, ::1] ids, const int32_t[::1] lane, const uint8_t[::1] begins,
    const int64_t[::1] time_ns, const int32_t[::1] name, const uint8_t[::1] names,
    const int64_t[::1] name_offset, const uint8_t[::1] arguments,
    const int64_t[::1] argument_offset, const int32_t[::1] argument_length
) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """Return the records of steps, and where each of them begins and the last one ends.

    Args:
        version: 1 or 3.
        ids: By lane, its process and thread, which records of version 1 have.
        lane: By step, its lane.
        begins: By step, whether a span begins.
        time_ns: By step, when.
        name: By begin, the code of its name.
        names: All names.
        name_offset: By code, where its name begins; the next one's is its end.
        arguments: The arguments of all begins.
        argument_offset: By begin, where its arguments begin.
        argument_length: By begin, their length. Of longer ones the first 255 bytes are written.

    Returns:
        uint8, and int64.

    Raises:
        IndexError: If a lane is not there, or a name or arguments are not in their text.
    """
    cdef Py_ssize_t n = begins.shape[0], begun = name.shape[0], i, k = 0, size = 0
    cdef Py_ssize_t codes = name_offset.shape[0] - 1
    cdef int64_t first, length
    cdef uint8_t kind, name_length, argument_bytes, category = 0
    cdef uint64_t ticks
    cdef double microseconds
    cdef uint8_t* out
    if lane.shape[0] != n or time_ns.shape[0] != n or argument_offset.shape[0] != begun:
        raise IndexError
    if argument_length.shape[0] != begun or ids.shape[1] != 2:
        raise IndexError
    for i in range(n):
        size += LARGEST_RECORD
        k += begins[i] != 0
        if not 0 <= lane[i] < ids.shape[0]:
            raise IndexError
    if k != begun:
        raise IndexError
    for i in range(begun):
        if not 0 <= name[i] < codes:
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
    offset_array = np.zeros(n + 1, np.int64)
    cdef uint8_t[::1] buffer = buffer_array
    cdef int64_t[::1] offset = offset_array
    out = &buffer[0]
    k = 0
    with nogil:
        for i in range(n):
            kind = BEGIN if begins[i] else END
            out = put(out, &kind, 1)
            if version == 1:
                if begins[i]:
                    out = put(out, &category, 1)
                out = put(out, &ids[lane[i], 0], 8)
                microseconds = <double>time_ns[i]
                out = put(out, &microseconds, 8)
            else:
                ticks = <uint64_t>time_ns[i]
                out = put(out, &ticks, 8)
            if begins[i]:
                first = name_offset[name[k]]
                name_length = <uint8_t>(name_offset[name[k] + 1] - first)
                argument_bytes = <uint8_t>min(argument_length[k], MOST_BYTES)
                out = put(out, &name_length, 1)
                out = put(out, &argument_bytes, 1)
                if name_length:
                    out = put(out, &names[first], name_length)
                if argument_bytes:
                    out = put(out, &arguments[argument_offset[k]], argument_bytes)
                k += 1
            offset[i + 1] = out - &buffer[0]
    return buffer_array[:offset_array[n]], offset_array


def plain_json(
    const uint8_t[::1] text, const int64_t[::1] offset, const int32_t[::1] length
) -> npt.NDArray[np.uint8]:
    """Return whether each part of a text is one JSON value that every parser reads, as uint8.

    Parts of more than 900 bytes are not looked at: parsers limit nesting, and the digits of a
    number. A part without bytes counts as one.

    Raises:
        IndexError: If a part is not in the text.
    """
    cdef Py_ssize_t n = offset.shape[0], i, size = text.shape[0]
    cdef const char* base = b""
    cdef const char* end
    cdef json_fault fault
    plain_array = np.zeros(n, np.uint8)
    cdef uint8_t[::1] plain = plain_array
    if size:
        base = <const char*>&text[0]
    for i in range(n):
        if length[i] < 0 or offset[i] < 0 or offset[i] > size or length[i] > size - offset[i]:
            raise IndexError
        if length[i] <= MOST_CHECKED:
            end = base + offset[i] + length[i]
            plain[i] = not length[i] or json_value(base + offset[i], end, 0, &fault) == end
    return plain_array


cdef inline char* put_us(char* out, uint64_t left) noexcept nogil:
    """Write nanoseconds as microseconds, with three decimals unless they are 0."""
    cdef uint64_t rest = left % 1000
    out = put_decimal(out, left // 1000)
    if rest:
        out[0] = c"."
        out[1] = <char>(c"0" + rest // 100)
        memcpy(out + 2, decimal_pairs + 2 * (rest % 100), 2)
        out += 4
    return out


cdef inline char* put_text(char* out, const char* text, Py_ssize_t size) noexcept nogil:
    memcpy(out, text, size)
    return out + size


def chrome(
    const uint8_t[::1] phase, const int64_t[::1] time_ns, const int64_t[::1] duration_ns,
    const int32_t[::1] name, bytes names, const int64_t[::1] name_offset, const int32_t[::1] tail,
    bytes tails, const int64_t[::1] tail_offset, const uint8_t[::1] arguments,
    const int64_t[::1] argument_offset, const int32_t[::1] argument_length
) -> bytes:
    """Return events of Chrome JSON, as bytes, joined by commas and line feeds.

    Args:
        phase: By event, `X`, `B`, `E`, `b` or `e`.
        time_ns: By event, when.
        duration_ns: By event, how long; only of `X`.
        name: By event, the code of its name; not used of `E`.
        names: All names, each as a JSON string.
        name_offset: By code, where its name begins; the next one's is its end.
        tail: By event, the code of what follows the time.
        tails: All that follows the time: a comma, the ids, the category.
        tail_offset: By code, where it begins; the next one's is its end.
        arguments: The arguments of all events, as JSON.
        argument_offset: By event, where its arguments begin.
        argument_length: By event, their length.

    Raises:
        IndexError: If a name, a tail or arguments are not in their text.
    """
    cdef Py_ssize_t n = phase.shape[0], i, size = 0
    cdef const char* name_text = names
    cdef const char* tail_text = tails
    cdef int64_t first
    cdef char* out
    for i in range(n):
        if not 0 <= name[i] < name_offset.shape[0] - 1:
            raise IndexError
        if not 0 <= tail[i] < tail_offset.shape[0] - 1:
            raise IndexError
        first = argument_offset[i]
        if first < 0 or argument_length[i] < 0 or first > arguments.shape[0] - argument_length[i]:
            raise IndexError
        size += LARGEST_EVENT + argument_length[i]
        size += name_offset[name[i] + 1] - name_offset[name[i]]
        size += tail_offset[tail[i] + 1] - tail_offset[tail[i]]
    for i in range(name_offset.shape[0] - 1):
        if not 0 <= name_offset[i] <= name_offset[i + 1] <= len(names):
            raise IndexError
    for i in range(tail_offset.shape[0] - 1):
        if not 0 <= tail_offset[i] <= tail_offset[i + 1] <= len(tails):
            raise IndexError
    cdef bytearray buffer = bytearray(size)
    out = buffer
    cdef char* begin = out
    with nogil:
        for i in range(n):
            if i:
                out = put_text(out, b",\n", 2)
            out = put_text(out, b'{"ph":"', 7)
            out[0] = <char>phase[i]
            out = put_text(out + 1, b'"', 1)
            if phase[i] == c"X":
                # of two times that are far apart, the difference may need all 64 bits
                out = put_us(put_text(out, b',"dur":', 7), <uint64_t>duration_ns[i])
            if phase[i] != c"E":
                first = name_offset[name[i]]
                out = put_text(out, b',"name":', 8)
                out = put_text(out, name_text + first, name_offset[name[i] + 1] - first)
            out = put_text(out, b',"ts":', 6)
            if time_ns[i] < 0:
                out = put_us(put_text(out, b"-", 1), 0 - <uint64_t>time_ns[i])
            else:
                out = put_us(out, <uint64_t>time_ns[i])
            first = tail_offset[tail[i]]
            out = put_text(out, tail_text + first, tail_offset[tail[i] + 1] - first)
            if argument_length[i]:
                out = put_text(out, b',"args":', 8)
                out = put_text(
                    out, <const char*>&arguments[argument_offset[i]], argument_length[i]
                )
            out[0] = c"}"
            out += 1
        size = out - begin
    del buffer[size:]
    return bytes(buffer)
