"""Text of pictures: rectangles as strokes of a path, and as the records that a page decodes; base64.

A row is drawn as horizontal strokes, one path for each fill: `M12 0h3m4 0h1` covers [12, 15) and
[19, 20). Coordinates are whole units of the strip (a thousand to a pixel), so nothing here is a
float. The paths are drawn in order: the fill that covers most of the row is at the bottom, and each
extends up to a pixel below its neighbours that are drawn later, so that no background shines
through an edge in the middle of a pixel.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove, memset

cdef extern from "decimal.h" nogil:
    char* put_decimal(char* out, uint64_t number)

cdef extern from "varint.h" nogil:
    char* put_varint(char*, uint64_t)

UNITS_PER_PX = 1000

cdef enum:
    PIXEL = 1000
    PATH_BYTES = 64  # <path stroke="#rrggbb" d="M1234567 0h1234567"/>

cdef const char* _DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

cdef struct Fill:
    uint32_t color
    int32_t first
    int32_t last
    int32_t layer
    int64_t total


cdef char[4096][2] _PAIRS  # of base64: two digits for twelve bits
cdef int _first, _second
for _first in range(64):
    for _second in range(64):
        _PAIRS[64 * _first + _second][0] = _DIGITS[_first]
        _PAIRS[64 * _first + _second][1] = _DIGITS[_second]


def base64(const uint8_t[::1] data: bytes) -> bytes:
    """Return bytes in base64, with padding, in a fifth of the time of the standard library."""
    cdef Py_ssize_t size = data.shape[0], rest = size % 3, i = 0
    text = PyBytes_FromStringAndSize(NULL, (size + 2) // 3 * 4)
    cdef char* out = PyBytes_AsString(text)
    cdef uint32_t bits
    with nogil:
        while i < size - rest:
            bits = <uint32_t> data[i] << 16 | <uint32_t> data[i + 1] << 8 | data[i + 2]
            memcpy(out, _PAIRS[bits >> 12], 2)
            memcpy(out + 2, _PAIRS[bits & 4095], 2)
            out += 4
            i += 3
        if rest:
            bits = <uint32_t> data[i] << 16
            if rest == 2:
                bits |= <uint32_t> data[i + 1] << 8
            memcpy(out, _PAIRS[bits >> 12], 2)
            memcpy(out + 2, _PAIRS[bits & 4095], 2)
            memset(out + 1 + rest, c"=", 3 - rest)
    return text


cdef int heavier(const void* left, const void* right) noexcept nogil:
    cdef const Fill* a = <const Fill*> left
    cdef const Fill* b = <const Fill*> right
    if a.total != b.total:
        return -1 if a.total > b.total else 1
    return -1 if a.first < b.first else 1


cdef inline char* put_number(char* out, int64_t value) noexcept nogil:
    if value < 0:
        out[0] = c"-"
        return put_decimal(out + 1, 0 - <uint64_t>value)
    return put_decimal(out, <uint64_t>value)


cdef inline char* put_text(char* out, const char* text, int length) noexcept nogil:
    memcpy(out, text, length)
    return out + length


cdef inline char* put_hex(char* out, uint32_t color) noexcept nogil:
    cdef const char* digits = b"0123456789abcdef"
    cdef int i
    for i in range(6):
        out[i] = digits[(color >> (20 - 4 * i)) & 15]
    return out + 6


cdef void place(
    const int64_t* start, const int64_t* end, int64_t count, int64_t start_ns, int64_t width_ns,
    int64_t units, int64_t* left, int64_t* right,
) noexcept nogil:
    """Turn times to units."""
    cdef int64_t i, width
    cdef int shift = 0
    while (width_ns >> shift) >> 42:
        shift += 1
    width = width_ns >> shift
    for i in range(count):
        left[i] = (((start[i] - start_ns) >> shift) * units + width // 2) // width
        right[i] = (((end[i] - start_ns) >> shift) * units + width // 2) // width


cdef inline char* put_run(
    char* out, uint32_t color, int64_t pen, int64_t left, int64_t right
) noexcept nogil:
    """Write a stroke; the first of a path, when there is no pen yet, opens it."""
    if pen < 0:
        out = put_text(out, b'<path stroke="#', 15)
        out = put_hex(out, color)
        out = put_text(out, b'" d="M', 6)
        out = put_number(out, left)
    else:
        out = put_text(out, b"m", 1)
        out = put_number(out, left - pen)
    out = put_text(out, b" 0h", 3)
    return put_number(out, right - left)


cdef char* draw(
    const uint32_t* colors, int64_t count, const int64_t* left, const int64_t* right,
    Fill* fills, int32_t* layer_of, int32_t* group_of, int32_t* following, int32_t* table,
    int64_t slots, int64_t* paths, char* out,
) noexcept nogil:
    """Write the paths of one row; `table` has `slots` (a power of two above twice `count`)."""
    cdef int64_t i, g, groups = 0, slot, a, b, run_left, run_right, pen
    cdef uint32_t color
    memset(table, 255, slots * sizeof(int32_t))
    for i in range(count):
        color = colors[i]
        slot = (color * <uint32_t> 2654435761) & <uint32_t> (slots - 1)
        while table[slot] >= 0 and fills[table[slot]].color != color:
            slot = (slot + 1) & (slots - 1)
        g = table[slot]
        if g < 0:
            g = groups
            groups += 1
            table[slot] = <int32_t> g
            fills[g].color = color
            fills[g].first = <int32_t> i
            fills[g].layer = <int32_t> g
            fills[g].total = 0
        else:
            following[fills[g].last] = <int32_t> i
        fills[g].last = <int32_t> i
        fills[g].total += right[i] - left[i]
        following[i] = -1
        group_of[i] = <int32_t> g
    paths[0] += groups
    qsort(fills, groups, sizeof(Fill), heavier)
    for g in range(groups):
        layer_of[fills[g].layer] = <int32_t> g
    for g in range(groups):
        pen = -1
        run_left = 0
        run_right = -1
        i = fills[g].first
        while i >= 0:
            a = left[i]
            b = right[i]
            if a < b:
                if i and right[i - 1] == a and layer_of[group_of[i - 1]] > g:
                    a -= min(a - left[i - 1], <int64_t> PIXEL)
                if i + 1 < count and left[i + 1] == b and layer_of[group_of[i + 1]] > g:
                    b += min(right[i + 1] - b, <int64_t> PIXEL)
                if a <= run_right:
                    run_right = max(run_right, b)
                else:
                    if run_right >= 0:
                        out = put_run(out, fills[g].color, pen, run_left, run_right)
                        pen = run_right
                    run_left = a
                    run_right = b
            i = following[i]
        if run_right >= 0:
            out = put_run(out, fills[g].color, pen, run_left, run_right)
            out = put_text(out, b'"/>', 3)
    return out


def strokes(
    const int64_t[::1] row_offsets, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
    const int32_t[::1] state_index, const uint32_t[::1] colors, int64_t window_start_ns,
    int64_t window_end_ns, int64_t units, int64_t most_paths
) -> list[bytes] | None:
    """Return the paths of each row, as `list[bytes]`, in a strip that is `units` wide.

    Each rectangle has the colour, 0xrrggbb, of its state. None if there are more paths than
    `most_paths`.
    """
    cdef int64_t rows = row_offsets.shape[0] - 1
    cdef int64_t row, first, count, i, longest = 0, slots = 4, paths = 0
    cdef char* text
    cdef char* end
    for row in range(rows):
        longest = max(longest, row_offsets[row + 1] - row_offsets[row])
    while slots < 2 * longest:
        slots *= 2
    text = <char*> malloc((longest + 1) * PATH_BYTES)
    cdef int64_t* left = <int64_t*> malloc((2 * longest + 1) * sizeof(int64_t))
    cdef int64_t* right = left + longest
    cdef Fill* fills = <Fill*> malloc((longest + 1) * sizeof(Fill))
    cdef int32_t* groups = <int32_t*> malloc((3 * longest + slots) * sizeof(int32_t))
    cdef uint32_t* color = <uint32_t*> malloc((longest + 1) * sizeof(uint32_t))
    result = []
    try:
        if not (text and left and fills and groups and color):
            raise MemoryError
        for row in range(rows):
            first = row_offsets[row]
            count = row_offsets[row + 1] - first
            if not count:
                result.append(b"")
                continue
            with nogil:
                place(
                    &start_ns[first], &end_ns[first], count, window_start_ns,
                    window_end_ns - window_start_ns, units, left, right,
                )
                for i in range(count):
                    color[i] = colors[state_index[first + i]]
                slots = 4
                while slots < 2 * count:
                    slots *= 2
                end = draw(
                    color, count, left, right, fills, groups, groups + longest,
                    groups + 2 * longest, groups + 3 * longest, slots, &paths, text,
                )
            if paths > most_paths:
                return None
            result.append(text[:end - text])
    finally:
        free(text)
        free(left)
        free(fills)
        free(groups)
        free(color)
    return result


cdef class Records:
    """Iterates over rectangles as the records that the page decodes, in pieces of bytes.

    All pieces but the last have `piece_bytes`. Numbers are LEB128 varints.

    Each row is its number of rectangles, then the rectangles. A rectangle is the gap since the one
    before it (or the window's start); its length; its states; its tags. States are `2 * state`
    if it has one state, otherwise `2 * count + 1`, then a state and a time for each. Tags are 0 for
    none, 1 and a tag if one fills it, otherwise `count + 1`, then a tag and a time for each.

    Without `state_offsets`, `state_ns`, `tag_offsets` and `tag_ns` (all None), rectangle i is in one
    state, `state_index[i]`, and has the tag `tag_index[i]`; -1 is none, and so is None for all.
    """

    cdef const int64_t[::1] row_offsets
    cdef const int64_t[::1] start_ns
    cdef const int64_t[::1] end_ns
    cdef const int64_t[::1] state_offsets
    cdef const int32_t[::1] state_index
    cdef const int64_t[::1] state_ns
    cdef const int64_t[::1] tag_offsets
    cdef const int32_t[::1] tag_index
    cdef const int64_t[::1] tag_ns
    cdef int64_t window_start_ns, before, row, next
    cdef Py_ssize_t piece_bytes, used, room
    cdef char* text

    def __init__(
        self, const int64_t[::1] row_offsets, const int64_t[::1] start_ns,
        const int64_t[::1] end_ns, const int64_t[::1] state_offsets: Int64s | None,
        const int32_t[::1] state_index, const int64_t[::1] state_ns: Int64s | None,
        const int64_t[::1] tag_offsets: Int64s | None, const int32_t[::1] tag_index: Int32s | None,
        const int64_t[::1] tag_ns: Int64s | None, int64_t window_start_ns, Py_ssize_t piece_bytes
    ):
        self.row_offsets = row_offsets
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.state_offsets = state_offsets
        self.state_index = state_index
        self.state_ns = state_ns
        self.tag_offsets = tag_offsets
        self.tag_index = tag_index
        self.tag_ns = tag_ns
        self.window_start_ns = window_start_ns
        self.piece_bytes = piece_bytes
        self.row = -1  # rows begun, less one
        self.next = row_offsets[0]

    def __dealloc__(self):
        free(self.text)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        cdef Py_ssize_t size
        cdef bint has_room
        with nogil:
            has_room = self._write()
        if not has_room:
            raise MemoryError
        if self.used == 0:
            raise StopIteration
        size = min(self.used, self.piece_bytes)
        piece = self.text[:size]
        self.used -= size
        memmove(self.text, self.text + size, self.used)
        return piece

    cdef bint _write(self) noexcept nogil:
        """Write records until there are enough for a piece; return False without memory."""
        cdef const int64_t[::1] row_offsets = self.row_offsets
        cdef const int64_t[::1] start_ns = self.start_ns
        cdef const int64_t[::1] end_ns = self.end_ns
        cdef const int64_t[::1] state_offsets = self.state_offsets
        cdef const int32_t[::1] state_index = self.state_index
        cdef const int64_t[::1] state_ns = self.state_ns
        cdef const int64_t[::1] tag_offsets = self.tag_offsets
        cdef const int32_t[::1] tag_index = self.tag_index
        cdef const int64_t[::1] tag_ns = self.tag_ns
        cdef int64_t row = self.row, rows = row_offsets.shape[0] - 1
        cdef int64_t i = self.next, j, count, length, before = self.before
        cdef Py_ssize_t need, used = self.used
        cdef char* grown
        cdef char* out
        cdef bint single = state_offsets is None
        cdef bint tagged = tag_index is not None
        while used < self.piece_bytes:
            # A row begins once all rectangles before it are written.
            if i == row_offsets[row + 1]:
                if row + 1 == rows:
                    break
                need = 10
            elif single:
                need = 64
            else:
                need = 64 + 15 * (
                    state_offsets[i + 1] - state_offsets[i]
                    + tag_offsets[i + 1] - tag_offsets[i]
                )
            if used + need > self.room:
                self.room = 2 * (used + need)
                grown = <char*> realloc(self.text, self.room)
                if not grown:
                    return False
                self.text = grown
            out = self.text + used
            if i == row_offsets[row + 1]:
                row += 1
                before = self.window_start_ns
                out = put_varint(out, row_offsets[row + 1] - row_offsets[row])
                used = out - self.text
                continue
            length = end_ns[i] - start_ns[i]
            out = put_varint(out, start_ns[i] - before)
            out = put_varint(out, length)
            before = end_ns[i]
            if single:
                out = put_varint(out, 2 * <uint64_t> state_index[i])
                if tagged and tag_index[i] >= 0:
                    out = put_varint(out, 1)
                    out = put_varint(out, tag_index[i])
                else:
                    out = put_varint(out, 0)
                used = out - self.text
                i += 1
                continue
            j = state_offsets[i]
            count = state_offsets[i + 1] - j
            if count == 1 and state_ns[j] == length:
                out = put_varint(out, 2 * <uint64_t> state_index[j])
            else:
                out = put_varint(out, 2 * count + 1)
                for j in range(j, j + count):
                    out = put_varint(out, state_index[j])
                    out = put_varint(out, state_ns[j])
            j = tag_offsets[i]
            count = tag_offsets[i + 1] - j
            if count == 1 and tag_ns[j] == length:
                out = put_varint(out, 1)
                out = put_varint(out, tag_index[j])
            else:
                out = put_varint(out, count + 1 if count else 0)
                for j in range(j, j + count):
                    out = put_varint(out, tag_index[j])
                    out = put_varint(out, tag_ns[j])
            used = out - self.text
            i += 1
        self.row, self.next, self.before, self.used = row, i, before, used
        return True
