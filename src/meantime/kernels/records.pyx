"""Records of a recording as columns: one stream decoded, several streams merged by time."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, INT64_MAX

import numpy as np

from meantime.kernels.record_kinds cimport RECORD_FIRST_PAYLOAD

cdef uint64_t MAX_PAYLOAD_BYTES = 1 << 16  # more than any writer's


def count(const uint64_t[::1] words, Py_ssize_t limit) -> tuple[int, int, int]:
    """Return (records, records with a payload, their length in words), of at most `limit` records.

    A record whose payload is cut off, or larger than payloads can be, ends the count, as does a
    word of 0.
    """
    cdef Py_ssize_t at = 0, end = words.shape[0] - 1, rows = 0, payloads = 0, size
    with nogil:
        while at < end and rows < limit and words[at]:
            size = 2
            if (words[at] & 255) >= RECORD_FIRST_PAYLOAD:
                # Payloads are padded to whole records of 16 bytes.
                size += 2 * (((words[at + 1] >> 32) + 15) // 16)
                if at + size > end + 1 or words[at + 1] >> 32 > MAX_PAYLOAD_BYTES:
                    break
                payloads += 1
            at += size
            rows += 1
    return rows, payloads, at


def decode(
    const uint64_t[::1] words, int64_t base_ns, int64_t latest_ns, int64_t[::1] time_ns,
    uint8_t[::1] kind, uint32_t[::1] ident, uint32_t[::1] aux, int64_t[::1] payload_row,
    int64_t[::1] payload_word
) -> int:
    """Fill columns with as many records as they have rows, which `count` returned.

    If the words were overwritten since, what no longer fits is read as records of kind 0.

    `aux` of a record with a payload is the payload's bytes; `payload_row` and `payload_word` are
    the rows of the records that have one, and the words at which it begins. A time before
    `latest_ns`, or before that of the record above it, becomes that time.

    Returns:
        How many times were changed.
    """
    cdef Py_ssize_t at = 0, row, rows = time_ns.shape[0], payload = 0, backwards = 0
    cdef Py_ssize_t last = words.shape[0] - 1, payloads = payload_row.shape[0]
    cdef int64_t now_ns
    cdef uint64_t first, second
    with nogil:
        for row in range(rows):
            # The words may have changed since `count`, so each index is checked again.
            first = second = 0
            if at < last:
                first = words[at]
                second = words[at + 1]
                if (first & 255) >= RECORD_FIRST_PAYLOAD and payload == payloads:
                    first = second = 0
            now_ns = <int64_t>(first >> 8) + base_ns
            if now_ns < latest_ns:
                now_ns = latest_ns
                backwards += 1
            latest_ns = now_ns
            time_ns[row] = now_ns
            kind[row] = <uint8_t>(first & 255)
            ident[row] = <uint32_t>second
            aux[row] = <uint32_t>(second >> 32)
            at += 2
            if (first & 255) >= RECORD_FIRST_PAYLOAD:
                payload_row[payload] = row
                payload_word[payload] = at
                payload += 1
                at += 2 * (((second >> 32) + 15) // 16)
        while payload < payloads:
            payload_row[payload] = rows - 1
            payload_word[payload] = words.shape[0]
            payload += 1
    return backwards


def merge(int64_t[::1] time_ns, const int64_t[::1] offsets, int64_t[::1] order):
    """Fill `order` with the rows of several sorted runs in order of time; earlier runs win ties.

    Run r is rows [offsets[r], offsets[r + 1]). A run that goes backwards keeps its order.
    """
    cdef Py_ssize_t runs = offsets.shape[0] - 1, out = 0, best, run
    cdef int64_t[::1] head = np.array(offsets[:runs], np.int64)
    cdef int64_t next_ns, value
    with nogil:
        while True:
            best = -1
            next_ns = 0x7FFFFFFFFFFFFFFF
            # The run that comes first, and until when it stays first. This needs no heap: a whole
            # stretch of that run is copied before the runs are compared again.
            for run in range(runs):
                if head[run] == offsets[run + 1]:
                    continue
                value = time_ns[head[run]]
                if best < 0 or value < time_ns[head[best]]:
                    if best >= 0:
                        next_ns = time_ns[head[best]]
                    best = run
                elif value < next_ns:
                    next_ns = value
            if best < 0:
                break
            order[out] = head[best]
            head[best] += 1
            out += 1
            while head[best] < offsets[best + 1] and time_ns[head[best]] < next_ns:
                order[out] = head[best]
                head[best] += 1
                out += 1


def leading_numbers(
    const uint8_t[::1] text: bytes, const int64_t[::1] begin, const int64_t[::1] end,
    int64_t[::1] number, int64_t[::1] after
):
    """Read the decimal number before the first NUL of each range of `text`.

    Args:
        text: The bytes.
        begin: Where each range begins.
        end: Where each range ends.
        number: Filled with the numbers; 0 for other texts and for more than nine digits.
        after: Filled with where the rest begins, after the NUL.
    """
    cdef Py_ssize_t i, at, first, last
    cdef int64_t value
    cdef bint is_number
    with nogil:
        for i in range(number.shape[0]):
            first = min(max(begin[i], 0), text.shape[0])
            last = min(max(end[i], first), text.shape[0])
            value = 0
            is_number = True
            at = first
            while at < last and text[at]:
                is_number = is_number and 48 <= text[at] <= 57 and at - first < 9
                if is_number:
                    value = value * 10 + (text[at] - 48)
                at += 1
            number[i] = value if is_number else 0
            after[i] = min(at + 1, last)


cdef Py_ssize_t bisect(
    const int64_t[:, ::1] rows, Py_ssize_t column, Py_ssize_t low, Py_ssize_t high, int64_t value
) noexcept nogil:
    # the first row in [low, high) whose value in an ascending column is at least this
    cdef Py_ssize_t middle
    while low < high:
        middle = low + (high - low) // 2
        if rows[column, middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def request_rows(
    const int64_t[:, ::1] rows: Int64s, const int64_t[:, ::1] requests: Int64s, bytes ends,
    int64_t[:, ::1] out: Int64s
):
    """Find the rows of tasks that are the states of the requests which they serve.

    Args:
        rows: Columns (entity, number, time, state) of changes, by entity and number.
        requests: Columns (task, begin, whole, next number, end) of requests: a request has the rows
            of its task from the number on or, if that is -1, from all or from the state at `begin`
            on, until before `end`, which is the largest int64 if unknown.
        ends: By state + 1, whether a task that is in it has ended.
        out: Columns (first, last, end, state) that are filled: the rows are [first, last), and the
            request ended at `end` with a state of its task, or with -2 if it ended by itself, or
            with -3 if it has not ended.
    """
    cdef Py_ssize_t i, low, high, first, last, row
    cdef int64_t end_ns, state
    cdef Py_ssize_t states = len(ends)
    cdef const char *ended = ends
    with nogil:
        for i in range(requests.shape[1]):
            low = bisect(rows, 0, 0, rows.shape[1], requests[0, i])
            high = bisect(rows, 0, low, rows.shape[1], requests[0, i] + 1)
            first = low
            if requests[3, i] >= 0:
                first = bisect(rows, 1, low, high, requests[3, i])
            elif not requests[2, i]:
                first = max(low, bisect(rows, 2, low, high, requests[1, i] + 1) - 1)
            last = high
            end_ns = requests[4, i]
            state = -3
            # a task ends with two rows: its outcome, and no state
            for row in range(max(first, high - 2), high):
                if 0 <= rows[3, row] + 1 < states and ended[rows[3, row] + 1]:
                    last = row
                    state = rows[3, row]
                    break
            if end_ns != INT64_MAX and (state == -3 or end_ns < rows[2, last]):
                last = max(first, bisect(rows, 2, low, last, end_ns))
                state = -2
            elif state != -3:
                end_ns = rows[2, last]
            out[0, i] = first
            out[1, i] = last
            out[2, i] = end_ns
            out[3, i] = state
