"""Columns put in another order, codes looked up, and times added up by code: NumPy would make 8-byte
indices first.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from meantime.kernels.intern cimport intern_fold

import os

import numpy as np

cdef enum:
    MOST_ENTRIES_A_ROW = 8

# Keys are the codes of a row in one integer.
cdef int64_t MOST_KEYS = <int64_t>1 << 62

ctypedef fused number:
    int64_t
    int32_t
    uint8_t

ctypedef fused code:
    int32_t
    uint8_t

ctypedef fused time:
    int64_t
    uint32_t


def take(
    const number[::1] column: npt.NDArray[_T], const int32_t[::1] rows,
    number[::1] out: npt.NDArray[_T]
):
    """Write column[rows]."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            out[i] = column[rows[i]]


def rows_with(const int32_t[::1] column, const uint8_t[::1] flags) -> Int32s:
    """Return the indices of the codes of which the flag is not 0, as int32."""
    cdef Py_ssize_t i, count = 0
    # what is not written takes no memory
    out_array = np.empty(column.shape[0], np.int32)
    cdef int32_t[::1] out = out_array
    with nogil:
        for i in range(column.shape[0]):
            out[count] = <int32_t> i
            count += flags[column[i]] != 0
    return out_array[:count].copy()


def looked_up(const int32_t[::1] table, const int32_t[::1] codes) -> Int32s:
    """Return table[codes], -1 for codes below 0; the codes themselves if they are equal."""
    cdef Py_ssize_t i, n = codes.shape[0]
    cdef int32_t least = 0, most = -1
    # Most tables of names are 0, 1, 2, and many traces have no categories: no memory is written.
    with nogil:
        for i in range(n):
            least = min(least, codes[i])
            most = max(most, codes[i])
    if least >= -1 and most < table.shape[0] and (most < 0 or is_counting(table)):
        return codes.base
    out_array = np.empty(n, np.int32)
    cdef int32_t[::1] out = out_array
    with nogil:
        for i in range(n):
            out[i] = table[codes[i]] if codes[i] >= 0 else -1
    return out_array


def seen(const int32_t[::1] codes) -> Int32s:
    """Return the different codes that are not below 0 in ascending order, as int32."""
    cdef Py_ssize_t i, n = codes.shape[0]
    cdef int32_t most = -1
    cdef uint8_t[::1] there
    with nogil:
        for i in range(n):
            if codes[i] > most:
                most = codes[i]
    there_array = np.zeros(most + 1, np.uint8)
    there = there_array
    with nogil:
        for i in range(n):
            if codes[i] >= 0:
                there[codes[i]] = 1
    return np.flatnonzero(there_array).astype(np.int32)


def add_cells(
    const code[::1] codes: npt.NDArray[Any], const time[::1] ns: npt.NDArray[Any],
    const int32_t[:, ::1] cell_rows: Int32s, int64_t[:, ::1] sums: Int64s
):
    """Add the time of each row to `sums`, by code and bin.

    Rows are cell by cell; `cell_rows` has how many each cell has, by attribute and bin.
    """
    cdef Py_ssize_t lane, cell, row = 0, end = 0
    with nogil:
        for lane in range(cell_rows.shape[0]):
            for cell in range(cell_rows.shape[1]):
                end += cell_rows[lane, cell]
                while row < end:
                    sums[codes[row], cell] += ns[row]
                    row += 1


def meant(
    const int32_t[::1] codes, const int8_t[::1] kind_of: npt.NDArray[np.int8],
    const int32_t[::1] label_of
) -> tuple[npt.NDArray[np.int8], Int32s]:
    """Return kind_of[codes + 1] and label_of[codes + 1], as int8 and int32.

    Raises:
        IndexError: If there is no such code.
    """
    cdef Py_ssize_t i, n = codes.shape[0], most = min(kind_of.shape[0], label_of.shape[0]) - 1
    cdef bint is_wrong = False
    kind_array, label_array = np.empty(n, np.int8), np.empty(n, np.int32)
    cdef int8_t[::1] kind = kind_array
    cdef int32_t[::1] label = label_array
    with nogil:
        for i in range(n):
            if not -1 <= codes[i] < most:
                is_wrong = True
                break
            kind[i] = kind_of[codes[i] + 1]
            label[i] = label_of[codes[i] + 1]
    if is_wrong:
        raise IndexError
    return kind_array, label_array


def add_times(
    const int8_t[::1] kind: npt.NDArray[np.int8], const int32_t[::1] code, const int64_t[::1] ns,
    int64_t[:, ::1] sums: Int64s
):
    """Add the time of each row to `sums`, by kind and by code + 1; codes are -1 or more.

    Raises:
        IndexError: If the columns differ in length, or there is no such sum.
    """
    cdef Py_ssize_t i, n = code.shape[0]
    cdef Py_ssize_t kinds = sums.shape[0], codes = sums.shape[1]
    cdef bint is_wrong = kind.shape[0] != n or ns.shape[0] != n
    with nogil:
        for i in range(0 if is_wrong else n):
            if not (0 <= kind[i] < kinds and -1 <= code[i] < codes - 1):
                is_wrong = True
                break
            sums[kind[i], code[i] + 1] += ns[i]
    if is_wrong:
        raise IndexError


def is_counting(const int32_t[::1] rows) -> bool:
    """Return whether these are 0, 1, 2, and so on."""
    cdef Py_ssize_t i = 0, n = rows.shape[0]
    with nogil:
        while i < n and rows[i] == i:
            i += 1
    return i == n


def in_rows(const int32_t[::1] row, Py_ssize_t rows) -> Int32s:
    """Return the indices that put rows into order, each row's in the order they have, as int32.

    Raises:
        IndexError: If a row is not one of so many.
    """
    cdef Py_ssize_t i, n = row.shape[0]
    begin_array, order_array = np.zeros(rows + 1, np.int32), np.empty(n, np.int32)
    cdef int32_t[::1] begin = begin_array, order = order_array
    cdef bint is_wrong = n > 0x7FFFFFFF
    with nogil:
        for i in range(n):
            if row[i] < 0 or row[i] >= rows:
                is_wrong = True
                break
            begin[row[i] + 1] += 1
        if not is_wrong:
            for i in range(rows):
                begin[i + 1] += begin[i]
            for i in range(n):
                order[begin[row[i]]] = <int32_t>i
                begin[row[i]] += 1
    if is_wrong:
        raise IndexError
    return order_array


def numbered(const int64_t[::1] key, int64_t bound) -> tuple[Int32s, Int64s]:
    """Number the different keys in the order in which they appear.

    Returns:
        int32 by row, the number of its key; int64, the first row of each number.

    Raises:
        IndexError: If a key is not one of 0 to `bound` - 1, or there are too many rows.
    """
    cdef Py_ssize_t i, n = key.shape[0]
    cdef int32_t count = 0, found
    # A table by key is faster than one of hashes, if it has no more than some entries a row.
    cdef bint is_hashed = bound > MOST_ENTRIES_A_ROW * n
    cdef bint is_wrong = n > 0x7FFFFFFF or bound < 0
    cdef uint64_t slot, slots = 64, seed = 0
    while is_hashed and slots < 2 * <uint64_t>n:
        slots *= 2
    number_array = np.empty(n, np.int32)
    first_array = np.empty(min(n, max(bound, 0)), np.int64)
    cdef int32_t[::1] number = number_array
    cdef int64_t[::1] first = first_array
    cdef int32_t[::1] number_of = np.full(slots if is_hashed else max(bound, 0), -1, np.int32)
    if is_hashed:
        # the keys are untrusted
        seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
    with nogil:
        for i in range(0 if is_wrong else n):
            if key[i] < 0 or key[i] >= bound:
                is_wrong = True
                break
            slot = <uint64_t>key[i]
            if is_hashed:
                slot = intern_fold(slot ^ seed, <uint64_t>0xD6E8FEB86659FD93) & (slots - 1)
                while number_of[slot] >= 0 and key[first[number_of[slot]]] != key[i]:
                    slot = (slot + 1) & (slots - 1)
            found = number_of[slot]
            if found < 0:
                number_of[slot] = found = count
                first[count] = i
                count += 1
            number[i] = found
    if is_wrong:
        raise IndexError
    return number_array, first_array[:count]


def numbered_rows(*columns: Int32s) -> tuple[Int32s, Int64s]:
    """Number the different rows of columns of codes, -1 or more, in the order in which they appear.

    Returns:
        int32, the number of each row; int64, the first row of each number.

    Raises:
        IndexError: If a code is below -1, or there are too many rows.
    """
    cdef Py_ssize_t i, n = columns[0].shape[0]
    cdef int32_t least, most
    cdef int64_t size
    cdef const int32_t[::1] codes
    key_array = np.zeros(n, np.int64)
    cdef int64_t[::1] key = key_array
    bound = 1
    for column in columns:
        codes = column
        if codes.shape[0] != n:
            raise IndexError
        least = most = -1
        with nogil:
            for i in range(n):
                least = min(least, codes[i])
                most = max(most, codes[i])
        if least < -1:
            raise IndexError
        if most < 0:
            continue
        size = <int64_t>most + 2
        if bound * size > MOST_KEYS:
            number, first = numbered(key, bound)
            # at most 2^31, as are codes
            key_array[:] = number
            bound = len(first)
        bound *= size
        with nogil:
            for i in range(n):
                key[i] = key[i] * size + codes[i] + 1
    return numbered(key, bound)


def join_parts(
    const uint8_t[::1] text, const int64_t[::1] offset, const int32_t[::1] length
) -> npt.NDArray[np.uint8]:
    """Return some parts of a text joined, as uint8.

    Raises:
        IndexError: If a part is not in the text.
    """
    cdef Py_ssize_t i, n = offset.shape[0], size = text.shape[0], count = 0
    for i in range(n):
        if length[i] < 0 or offset[i] < 0 or offset[i] > size or length[i] > size - offset[i]:
            raise IndexError
        count += length[i]
    joined_array = np.empty(count, np.uint8)
    cdef uint8_t[::1] joined = joined_array
    count = 0
    with nogil:
        for i in range(n):
            if length[i]:
                memcpy(&joined[count], &text[offset[i]], length[i])
                count += length[i]
    return joined_array
