"""Rows of histories as other formats have them: protobuf messages, and lines and lists of JSON."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from meantime.kernels.memory cimport column

import numpy as np


cdef extern from "decimal.h" nogil:
    char* put_decimal(char* out, uint64_t number)


cdef extern from "varint.h" nogil:
    char* put_varint(char* out, uint64_t value)
    int varint_bytes(uint64_t value)


cdef extern from "argument_json.h":
    ctypedef struct aj_text:
        char* data
        int64_t size
        int no_memory
    ctypedef struct aj_service:
        uint64_t trace[2]
        uint64_t span
        uint64_t parent
        int kind
        int is_error
    int aj_marker(aj_text* text, const char* at, const char* end)
    int aj_annotations(aj_text* text, const char* at, const char* end)
    int aj_attributes(aj_text* text, aj_service* service, const char* at, const char* end)


# What arguments are written as.
MARKER = 1
ANNOTATIONS = 2
ATTRIBUTES = 3
SPAN_ATTRIBUTES = 4
cdef enum:
    TO_MARKER = 1
    TO_ANNOTATIONS = 2
    TO_ATTRIBUTES = 3
    # the digits and the sign of 64 bits, and a point
    MOST_DIGITS = 22
    # without ids, name, attributes and what follows them
    LARGEST_SPAN = 400
    # a frame and a time with what is around them
    LARGEST_FRAME_EVENT = 80
    # a time and a state with what is around them
    LARGEST_LINE = 72


cdef int check_parts(const int64_t[::1] offset, const int64_t[::1] length, Py_ssize_t rows,
                     int64_t size) except -1:
    """Check that each row has a part of a text of this size."""
    cdef Py_ssize_t i
    if offset.shape[0] != rows or length.shape[0] != rows:
        raise IndexError
    for i in range(rows):
        if length[i] < 0 or not 0 <= offset[i] <= size - length[i]:
            raise IndexError
    return 0


cdef int check_coded(const int32_t[::1] code, const int64_t[::1] offset, Py_ssize_t rows,
                     int64_t size) except -1:
    """Check that each row has the code of one of the texts that begin at these offsets."""
    cdef Py_ssize_t i, codes = offset.shape[0] - 1
    if code.shape[0] != rows:
        raise IndexError
    for i in range(codes):
        if not 0 <= offset[i] <= offset[i + 1] <= size:
            raise IndexError
    for i in range(rows):
        if not 0 <= code[i] < codes:
            raise IndexError
    return 0


cdef const char* NOTHING = b""


cdef inline const char* bytes_of(const uint8_t[::1] text) noexcept:
    return <const char*>&text[0] if text.shape[0] else NOTHING


def arguments(
    int form, const uint8_t[::1] text, const int64_t[::1] offset, const int64_t[::1] length
) -> tuple[
    npt.NDArray[np.uint8], Int64s, npt.NDArray[np.uint8], npt.NDArray[np.uint8],
    npt.NDArray[np.uint8]
]:
    """Return arguments in another form, where each begins and the last one ends, and which are.

    Of those that are not converted, which the caller converts, nothing is in the text.

    Args:
        form: `MARKER`, the data of a marker of Firefox; `ANNOTATIONS`, the debug annotations of a
            track event; `ATTRIBUTES`, attributes of OpenTelemetry; `SPAN_ATTRIBUTES`, those of a
            span, without its ids, its kind and its status.
        text: The arguments of all rows, as JSON.
        offset: By row, where its arguments begin.
        length: By row, their length; 0 for none.

    Returns:
        The text as uint8, the offsets as int64, whether each row is converted as uint8, and of
        spans the number of the kind, 0 for none, and whether they failed, as uint8.

    Raises:
        IndexError: If arguments are not in the text.
        MemoryError: If there is no memory.
    """
    cdef Py_ssize_t n = offset.shape[0], i
    cdef const char* base = bytes_of(text)
    cdef const char* at
    cdef aj_text out
    cdef aj_service service
    cdef int done
    check_parts(offset, length, n, text.shape[0])
    ends_array = np.zeros(n + 1, np.int64)
    flags_array = np.zeros((3, n), np.uint8)
    cdef int64_t[::1] ends = ends_array
    cdef uint8_t[:, ::1] flags = flags_array
    memset(&out, 0, sizeof(out))
    memset(&service, 0, sizeof(service))
    try:
        for i in range(n):
            if length[i]:
                at = base + offset[i]
                if form == TO_MARKER:
                    done = aj_marker(&out, at, at + length[i])
                elif form == TO_ANNOTATIONS:
                    done = aj_annotations(&out, at, at + length[i])
                elif form == TO_ATTRIBUTES:
                    done = aj_attributes(&out, NULL, at, at + length[i])
                else:
                    done = aj_attributes(&out, &service, at, at + length[i])
                    if done:
                        flags[1, i] = <uint8_t>service.kind
                        flags[2, i] = <uint8_t>service.is_error
                if out.no_memory:
                    raise MemoryError
                flags[0, i] = <uint8_t>done
            else:
                flags[0, i] = 1
            ends[i + 1] = out.size
        found = column(<void**>&out.data, out.size, np.uint8)
    finally:
        free(out.data)
    return found, ends_array, flags_array[0], flags_array[1], flags_array[2]


def service_ids(
    const uint8_t[::1] text, const int64_t[::1] offset, const int64_t[::1] length
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return the ids of spans of services, which are among their arguments.

    Returns:
        uint64 by row: the two halves of the trace's id, the span's, its parent's; 0 for none. And
        uint8 by row: whether they were read, which the caller does otherwise, and whether it failed.

    Raises:
        IndexError: If arguments are not in the text.
    """
    cdef Py_ssize_t n = offset.shape[0], i
    cdef const char* base = bytes_of(text)
    cdef const char* at
    cdef aj_service service
    check_parts(offset, length, n, text.shape[0])
    ids_array = np.zeros((4, n), np.uint64)
    flags_array = np.ones((2, n), np.uint8)
    cdef uint64_t[:, ::1] ids = ids_array
    cdef uint8_t[:, ::1] flags = flags_array
    for i in range(n):
        memset(&service, 0, sizeof(service))
        if length[i]:
            at = base + offset[i]
            flags[0, i] = <uint8_t>aj_attributes(NULL, &service, at, at + length[i])
        if flags[0, i]:
            ids[0, i] = service.trace[0]
            ids[1, i] = service.trace[1]
            ids[2, i] = service.span
            ids[3, i] = service.parent
        flags[1, i] = <uint8_t>(flags[0, i] and service.is_error)
    return ids_array, flags_array[0], flags_array[1]


def inherit_ids(uint64_t[:, ::1] ids, const int32_t[::1] parent):
    """Give each span without ids that of its row, and the trace of its parent.

    Args:
        ids: As `service_ids` returns them, of all rows; changed in place.
        parent: By row, that of its parent, which has to come before it; -1 for none.

    Raises:
        IndexError: If there are not as many parents.
    """
    cdef Py_ssize_t n = parent.shape[0], i
    cdef int32_t above
    if ids.shape[0] != 4 or ids.shape[1] != n:
        raise IndexError
    for i in range(n):
        if (ids[0, i] or ids[1, i]) and ids[2, i]:
            continue
        above = parent[i]
        ids[2, i] = <uint64_t>i + 1
        if 0 <= above < i:
            ids[0, i] = ids[0, above]
            ids[1, i] = ids[1, above]
            ids[3, i] = ids[2, above]
        else:
            ids[0, i] = 0
            ids[1, i] = <uint64_t>i + 1
            ids[3, i] = 0


cdef inline char* put(char* out, const char* text, Py_ssize_t size) noexcept nogil:
    memcpy(out, text, size)
    return out + size


cdef inline char* put_bytes(char* out, int field, int64_t size) noexcept nogil:
    """Write how a field of bytes begins."""
    out[0] = <char>(field << 3 | 2)
    return put_varint(out + 1, <uint64_t>size)


def track_events(
    bytes before, bytes within, const uint64_t[::1] time, const int32_t[::1] head, bytes heads,
    const int64_t[::1] head_offset, const uint8_t[::1] text, const int64_t[::1] offset,
    const int64_t[::1] length, const int32_t[::1] tail, bytes tails, const int64_t[::1] tail_offset
) -> tuple[bytes, Int64s]:
    """Return packets of track events, and where each of them begins and the last one ends.

    Args:
        before: The fields before the time.
        within: The fields between the time and the event.
        time: By event, when.
        head: By event, the code of the fields that it begins with: its type, name and category.
        heads: All of these fields.
        head_offset: By code, where they begin; the next one's is their end.
        text: Fields that follow, of all events.
        offset: By event, where its own begin.
        length: By event, their length.
        tail: By event, the code of the fields that it ends with: its track.
        tails: All of these fields.
        tail_offset: By code, where they begin; the next one's is their end.

    Returns:
        The packets as bytes, and int64.

    Raises:
        IndexError: If something is not in its text.
    """
    cdef Py_ssize_t n = time.shape[0], i, before_size = len(before), within_size = len(within)
    cdef int64_t whole, first, size, total = 0
    cdef const char* head_text = heads
    cdef const char* tail_text = tails
    cdef const char* before_text = before
    cdef const char* within_text = within
    cdef const char* base = bytes_of(text)
    check_coded(head, head_offset, n, len(heads))
    check_coded(tail, tail_offset, n, len(tails))
    check_parts(offset, length, n, text.shape[0])
    ends_array = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] ends = ends_array
    # of the event itself, and of its packet
    sizes_array = np.empty((2, n), np.int64)
    cdef int64_t[:, ::1] sizes = sizes_array
    for i in range(n):
        size = length[i] + head_offset[head[i] + 1] - head_offset[head[i]]
        size += tail_offset[tail[i] + 1] - tail_offset[tail[i]]
        whole = before_size + within_size + 1 + varint_bytes(time[i])
        whole += 1 + varint_bytes(<uint64_t>size) + size
        sizes[0, i] = size
        sizes[1, i] = whole
        total += 1 + varint_bytes(<uint64_t>whole) + whole
        ends[i + 1] = total
    cdef bytes found = PyBytes_FromStringAndSize(NULL, total)
    cdef char* out = found
    with nogil:
        for i in range(n):
            out = put(put_bytes(out, 1, sizes[1, i]), before_text, before_size)
            out[0] = <char>(8 << 3)
            out = put(put_varint(out + 1, time[i]), within_text, within_size)
            out = put_bytes(out, 11, sizes[0, i])
            first = head_offset[head[i]]
            out = put(out, head_text + first, head_offset[head[i] + 1] - first)
            out = put(out, base + offset[i], length[i])
            first = tail_offset[tail[i]]
            out = put(out, tail_text + first, tail_offset[tail[i] + 1] - first)
    return found, ends_array


def stack_samples(
    const int32_t[::1] parent, const uint64_t[::1] location, const int64_t[::1] stack,
    const int64_t[:, ::1] weights: Int64s, int before, int after, const int32_t[::1] label,
    bytes labels, const int64_t[::1] label_offset
) -> bytes:
    """Return samples of pprof, as bytes.

    Args:
        parent: By stack, the one of its callers; -1 for none.
        location: By stack, the id of its innermost frame.
        stack: By sample, its stack; -1 for none.
        weights: By sample and kind, the weights.
        before: How many kinds of weights there are before these, which are 0.
        after: How many there are after them.
        label: By sample, the code of its labels.
        labels: The fields of all labels.
        label_offset: By code, where they begin; the next one's is their end.

    Raises:
        IndexError: If a stack, a caller or labels are not there.
    """
    cdef Py_ssize_t n = stack.shape[0], i, kinds = weights.shape[1], kind
    cdef int64_t stacks = parent.shape[0], at, first, last, total = 0, size
    cdef const char* label_text = labels
    check_coded(label, label_offset, n, len(labels))
    if location.shape[0] != stacks or weights.shape[0] != n or before < 0 or after < 0:
        raise IndexError
    for at in range(stacks):
        if not -1 <= parent[at] < at:
            raise IndexError
    sizes_array = np.empty((3, n), np.int64)
    # of the locations, the weights and the whole
    cdef int64_t[:, ::1] sizes = sizes_array
    for i in range(n):
        at = stack[i]
        if not -1 <= at < stacks:
            raise IndexError
        size = 0
        while at >= 0:
            size += varint_bytes(location[at])
            at = parent[at]
        sizes[0, i] = size
        size = before + after
        for kind in range(kinds):
            size += varint_bytes(<uint64_t>weights[i, kind])
        sizes[1, i] = size
        size = label_offset[label[i] + 1] - label_offset[label[i]]
        for kind in range(2):
            size += 1 + varint_bytes(<uint64_t>sizes[kind, i]) + sizes[kind, i]
        sizes[2, i] = size
        total += 1 + varint_bytes(<uint64_t>size) + size
    cdef bytes found = PyBytes_FromStringAndSize(NULL, total)
    cdef char* out = found
    with nogil:
        for i in range(n):
            out = put_bytes(put_bytes(out, 2, sizes[2, i]), 1, sizes[0, i])
            at = stack[i]
            while at >= 0:
                out = put_varint(out, location[at])
                at = parent[at]
            out = put_bytes(out, 2, sizes[1, i])
            memset(out, 0, before)
            out += before
            for kind in range(kinds):
                out = put_varint(out, <uint64_t>weights[i, kind])
            memset(out, 0, after)
            out += after
            first, last = label_offset[label[i]], label_offset[label[i] + 1]
            out = put(out, label_text + first, last - first)
    return found


cdef inline char* put_id(char* out, uint64_t value) noexcept nogil:
    """Write 16 hexadecimal digits."""
    cdef int i, digit
    for i in range(16):
        digit = value >> (60 - 4 * i) & 15
        out[i] = <char>(digit + (c"0" if digit < 10 else c"a" - 10))
    return out + 16


def decimals(
    const int64_t[::1] value, int64_t origin, int decimals, const uint8_t[::1] is_null
) -> bytes:
    """Return numbers as JSON, joined by a comma and a blank, as bytes.

    Args:
        value: The numbers.
        origin: What is subtracted from each.
        decimals: How many of the digits are behind the point, at most 9; zeros at their end are
            left out.
        is_null: By number, whether `null` is written instead.

    Raises:
        IndexError: If the columns are not of the same length, or there are more decimals.
    """
    cdef Py_ssize_t n = value.shape[0], i
    cdef uint64_t unit = 1, whole, rest
    cdef char* out
    cdef char* point
    cdef int digit
    if is_null.shape[0] != n or not 0 <= decimals <= 9:
        raise IndexError
    for digit in range(decimals):
        unit *= 10
    # a sign, and the comma and the blank before it
    cdef bytes found = PyBytes_FromStringAndSize(NULL, n * (MOST_DIGITS + 12) + 1)
    out = found
    cdef char* begin = out
    with nogil:
        for i in range(n):
            if i:
                out = put(out, b", ", 2)
            if is_null[i]:
                out = put(out, b"null", 4)
                continue
            # the difference may need all 64 bits
            if value[i] >= origin:
                whole = <uint64_t>value[i] - <uint64_t>origin
            else:
                whole = <uint64_t>origin - <uint64_t>value[i]
                out[0] = c"-"
                out += 1
            rest = whole % unit
            out = put_decimal(out, whole // unit)
            if rest:
                out[0] = c"."
                point = out
                for digit in range(decimals, 0, -1):
                    point[digit] = <char>(c"0" + rest % 10)
                    rest //= 10
                out += decimals
                while out[0] == c"0":
                    out -= 1
                out += 1
    return found[:out - begin]


def frame_events(
    const uint8_t[::1] begins, const int32_t[::1] frame, const int64_t[::1] time
) -> bytes:
    """Return begins and ends of frames as objects of JSON, joined by a comma and a blank, as bytes.

    Args:
        begins: By event, whether the frame opens.
        frame: By event, the number of the frame, from 0 on.
        time: By event, when.

    Raises:
        IndexError: If the columns are not of the same length.
    """
    cdef Py_ssize_t n = begins.shape[0], i
    cdef uint64_t distance
    if frame.shape[0] != n or time.shape[0] != n:
        raise IndexError
    cdef bytes found = PyBytes_FromStringAndSize(NULL, n * LARGEST_FRAME_EVENT)
    cdef char* out = found
    cdef char* begin = out
    with nogil:
        for i in range(n):
            if i:
                out = put(out, b", ", 2)
            if begins[i]:
                out = put(out, b'{"type": "O", "frame": ', 23)
            else:
                out = put(out, b'{"type": "C", "frame": ', 23)
            out = put_decimal(out, <uint32_t>frame[i])
            out = put(out, b', "at": ', 8)
            # the distance of the least number from 0 needs all 64 bits
            distance = <uint64_t>time[i]
            if time[i] < 0:
                out[0] = c"-"
                out += 1
                distance = 0 - distance
            out = put_decimal(out, distance)
            out[0] = c"}"
            out += 1
    return found[:out - begin]


def state_lines(
    const int64_t[::1] time, int64_t origin, const int32_t[::1] entity, bytes entities,
    const int64_t[::1] entity_offset, const int32_t[::1] state, const int32_t[::1] tail,
    bytes tails, const int64_t[::1] tail_offset
) -> bytes:
    """Return lines of statemap data, as bytes.

    Args:
        time: By line, when.
        origin: The time that is written as 0, which none is before.
        entity: By line, the code of its entity.
        entities: All entities, each as a JSON string.
        entity_offset: By code, where it begins; the next one's is its end.
        state: By line, the number of a state.
        tail: By line, the code of what follows the state.
        tails: All that follows states, each with a comma before it.
        tail_offset: By code, where it begins; the next one's is its end.

    Raises:
        IndexError: If an entity or a tail is not in its text.
    """
    cdef Py_ssize_t n = time.shape[0], i, total = 0
    cdef int64_t first
    cdef const char* entity_text = entities
    cdef const char* tail_text = tails
    check_coded(entity, entity_offset, n, len(entities))
    check_coded(tail, tail_offset, n, len(tails))
    if state.shape[0] != n:
        raise IndexError
    for i in range(n):
        total += LARGEST_LINE + entity_offset[entity[i] + 1] - entity_offset[entity[i]]
        total += tail_offset[tail[i] + 1] - tail_offset[tail[i]]
    cdef bytes found = PyBytes_FromStringAndSize(NULL, total)
    cdef char* out = found
    cdef char* begin = out
    with nogil:
        for i in range(n):
            out = put(out, b'{"time": "', 10)
            # of two times that are far apart, the difference may need all 64 bits
            out = put_decimal(out, <uint64_t>time[i] - <uint64_t>origin)
            out = put(out, b'", "entity": ', 13)
            first = entity_offset[entity[i]]
            out = put(out, entity_text + first, entity_offset[entity[i] + 1] - first)
            out = put_decimal(put(out, b', "state": ', 11), <uint32_t>state[i])
            first = tail_offset[tail[i]]
            out = put(out, tail_text + first, tail_offset[tail[i] + 1] - first)
            out = put(out, b"}\n", 2)
    return found[:out - begin]


def joined(
    const uint8_t[::1] text, const int64_t[::1] offset, const int64_t[::1] length, bytes other
) -> bytes:
    """Return parts of a text, or another one for those without length, joined by a comma and a blank.

    Raises:
        IndexError: If a part is not in the text.
    """
    cdef Py_ssize_t n = offset.shape[0], i, other_size = len(other), total = 0
    cdef const char* base = bytes_of(text)
    cdef const char* other_text = other
    check_parts(offset, length, n, text.shape[0])
    for i in range(n):
        total += (length[i] if length[i] else other_size) + (2 if i else 0)
    cdef bytes found = PyBytes_FromStringAndSize(NULL, total)
    cdef char* out = found
    with nogil:
        for i in range(n):
            if i:
                out = put(out, b", ", 2)
            if length[i]:
                out = put(out, base + offset[i], length[i])
            else:
                out = put(out, other_text, other_size)
    return found


def otlp_spans(
    const uint64_t[:, ::1] ids, const int32_t[::1] name, bytes names,
    const int64_t[::1] name_offset, const uint8_t[::1] kind, const uint64_t[::1] start,
    const uint64_t[::1] end, const uint8_t[::1] is_open, const uint8_t[::1] text,
    const int64_t[::1] offset, const int64_t[::1] length, const int32_t[::1] more, bytes mores,
    const int64_t[::1] more_offset, const uint8_t[::1] is_error, const uint8_t[::1] rest,
    const int64_t[::1] rest_offset, const int64_t[::1] rest_length
) -> bytes:
    """Return spans of OTLP JSON, joined by commas and line feeds, as bytes.

    Args:
        ids: By span, the two halves of the trace's id, its own, and its parent's; 0 for none.
        name: By span, the code of its name.
        names: All names, each as a JSON string.
        name_offset: By code, where it begins; the next one's is its end.
        kind: By span, its number; 0 for none.
        start: By span, when it begins.
        end: By span, when it ends.
        is_open: By span, whether it has no end.
        text: The attributes of all spans.
        offset: By span, where its own begin.
        length: By span, their length.
        more: By span, the code of the attributes that follow.
        mores: All of these.
        more_offset: By code, where they begin; the next one's is their end.
        is_error: By span, whether it failed.
        rest: Further fields of all spans, each with a comma before it.
        rest_offset: By span, where its own begin.
        rest_length: By span, their length.

    Raises:
        IndexError: If something is not in its text.
    """
    cdef Py_ssize_t n = name.shape[0], i, total = 1
    cdef int64_t first, size
    cdef const char* name_text = names
    cdef const char* more_text = mores
    cdef const char* base = bytes_of(text)
    cdef const char* rest_base = bytes_of(rest)
    check_coded(name, name_offset, n, len(names))
    check_coded(more, more_offset, n, len(mores))
    check_parts(offset, length, n, text.shape[0])
    check_parts(rest_offset, rest_length, n, rest.shape[0])
    if ids.shape[0] != 4 or ids.shape[1] != n or kind.shape[0] != n or start.shape[0] != n:
        raise IndexError
    if end.shape[0] != n or is_open.shape[0] != n or is_error.shape[0] != n:
        raise IndexError
    for i in range(n):
        total += LARGEST_SPAN + length[i] + rest_length[i]
        total += name_offset[name[i] + 1] - name_offset[name[i]]
        total += more_offset[more[i] + 1] - more_offset[more[i]]
    cdef bytes found = PyBytes_FromStringAndSize(NULL, total)
    cdef char* out = found
    cdef char* begin = out
    with nogil:
        for i in range(n):
            if i:
                out = put(out, b",\n", 2)
            out = put_id(put(out, b'{"traceId": "', 13), ids[0, i])
            out = put_id(out, ids[1, i])
            out = put_id(put(out, b'", "spanId": "', 14), ids[2, i])
            if ids[3, i]:
                out = put_id(put(out, b'", "parentSpanId": "', 20), ids[3, i])
            out = put(out, b'", "name": ', 11)
            first = name_offset[name[i]]
            out = put(out, name_text + first, name_offset[name[i] + 1] - first)
            if kind[i]:
                out = put_decimal(put(out, b', "kind": ', 10), kind[i])
            out = put_decimal(put(out, b', "startTimeUnixNano": "', 24), start[i])
            if not is_open[i]:
                out = put_decimal(put(out, b'", "endTimeUnixNano": "', 23), end[i])
            out = put(out, b'"', 1)
            first = more_offset[more[i]]
            size = more_offset[more[i] + 1] - first
            if size or length[i]:
                out = put(put(out, b', "attributes": [', 17), base + offset[i], length[i])
                if size and length[i]:
                    out = put(out, b", ", 2)
                out = put(put(out, more_text + first, size), b"]", 1)
            if is_error[i]:
                out = put(out, b', "status": {"code": 2}', 23)
            out = put(out, rest_base + rest_offset[i], rest_length[i])
            out[0] = c"}"
            out += 1
    return found[:out - begin]
