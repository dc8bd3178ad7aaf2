"""Events as rows of typed cells: lines of JSON and fields of tracepoints into columns.

A row is an event; a cell is one of its fields: a key, a kind and a word. The word of a text is its
code in a table. Rows wait here, in any order, until `take` returns the earliest of them as columns.

A line or a field that the scanners cannot read is left to the caller, who reads it with Python and
passes the result to `put`: both are either exact or do not answer.
"""

from cpython.float cimport PyFloat_AsDouble
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

import os
from enum import IntEnum

import numpy as np

from meantime.kernels.event_cells cimport FALSE, FLOAT, INT, JSON, NONE, OBJECT, TEXT, TRUE
from meantime.kernels.intern cimport (
    intern_add,
    intern_find,
    intern_free,
    intern_grow,
    intern_table,
    intern_text,
    intern_text_of,
)
from meantime.kernels.json_text cimport (
    LIKELY,
    UNLIKELY,
    json_digits_ahead,
    json_exact_double,
    json_fault,
    json_is_digit,
    json_number,
    json_skip_blanks,
    json_string,
    json_unescape,
    json_value,
)

from meantime.kernels.time_text cimport (
    TIME_DECIMAL_9,
    TIME_INTEGER,
    TIME_NAIVE,
    TIME_ZONED,
    time_parse,
)

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *s, char **endptr, object overflow) except? -1.0


# Why `EventRows.scan` returned.
cdef enum:
    DRAINED = 0
    FULL  # as many rows wait as may
    ODD  # a line that needs `put`
    LATE  # an event that is later than those that were taken

# The same in Python. Cython's own way, `cpdef enum`, is a tenth of the time to compile this.
Stop = IntEnum("Stop", {"DRAINED": DRAINED, "FULL": FULL, "ODD": ODD, "LATE": LATE})

# the members with a meaning of their own, which have the first codes of keys
cdef enum:
    TIME_NS = 0
    TS
    NAME
    CPU
    PID
    TID
    MEMBERS
_MEMBERS = (b"time_ns", b"ts", b"name", b"cpu", b"pid", b"tid")

cdef enum:
    UNREAD = 0
    READ = 1
    NO_MEMORY = -1
    LONGEST_NUMBER = 64
    MOST_TEXT_BYTES = 1 << 23  # texts of earlier events are dropped when they are more than this
    MOST_KEYS = 1 << 16


cdef struct Row:
    int64_t time_ns
    int64_t line
    int64_t offset
    int64_t cpu
    int64_t pid
    int64_t tid
    int64_t first  # its cells, from here on
    int32_t cells
    int32_t name


cdef struct Cell:
    int64_t word
    int32_t key
    uint8_t kind


cdef object empty(int64_t count, str kind):
    return np.empty(count, kind)


cdef inline int32_t code_of(intern_table *table, const char *at, size_t size) noexcept nogil:
    cdef intern_text text = intern_text_of(at, size)
    cdef int32_t code = intern_find(table, &text, 0)
    return code if LIKELY(code >= 0) else intern_add(table, &text, 0)


cdef inline const char *blanks(const char *at, const char *end) noexcept nogil:
    return at if LIKELY(at < end and at[0] > b" ") else json_skip_blanks(at, end)


cdef inline bint is_letter(char c) noexcept nogil:
    return b"a" <= (c | 0x20) <= b"z" or c == b"_"


cdef inline bint is_word(char c) noexcept nogil:
    return is_letter(c) or json_is_digit(c)


cdef inline const char *word_end(const char *at, const char *end) noexcept nogil:
    """Return the end of an identifier; its beginning if there is none."""
    if at == end or not is_letter(at[0]):
        return at
    while at < end and is_word(at[0]):
        at += 1
    return at


cdef const char *equals_value_end(const char *at, const char *end, const char **next) noexcept nogil:
    """Return the end of the value of `name=value`, and in `next` where the search goes on.

    It ends before the next `name=`, or before an arrow that is followed by one, or at the end.
    """
    cdef const char *after
    cdef const char *name
    cdef int tried
    while True:
        while at < end and at[0] != b" " and at[0] != b"\t":
            at += 1
        after = json_skip_blanks(at, end)
        next[0] = at
        if after == end:
            return at
        for tried in range(2):
            name = after
            if tried == 0:
                if end - after < 3 or memcmp(after, b"==>", 3) != 0:
                    continue
                name = json_skip_blanks(after + 3, end)
                if name == end:
                    next[0] = after + 3
                    return at
                if name == after + 3:
                    continue
            if name < end and word_end(name, end) > name and word_end(name, end) < end:
                if word_end(name, end)[0] == b"=":
                    next[0] = after + 3 if tried == 0 else at
                    return at
        at = after


cdef inline bint is_named(const char *at, const char *end) noexcept nogil:
    """Return whether the fields of an event of the scheduler have names."""
    at = json_skip_blanks(at, end)
    return end - at > 5 and (memcmp(at, b"comm=", 5) == 0 or memcmp(at, b"prev_", 5) == 0)


cdef inline const char *colon_name_end(const char *at, const char *end) noexcept nogil:
    """Return the end of the name of `name: value` at its colon; NULL if there is none."""
    cdef const char *name = word_end(at, end)
    if name == at or end - name < 2 or name[0] != b":" or name[1] != b" ":
        return NULL
    return name


cdef class EventRows:
    """Events that wait to be taken; at most `room` of them.

    Args:
        room: How many.
        time_key: The member with the time of an event, a number or a date; empty for `time_ns` or
            `ts` in whole nanoseconds.
        name_key: The member with its name.
        unit_ns: The unit of times that are numbers: 1, 1000, 10^6 or 10^9. Those of seconds may
            have decimals.
        naive: Whether dates without a zone are UTC; otherwise they are left to `put`.
    """

    cdef Row *rows
    cdef Cell *cells
    cdef char *scratch
    cdef int32_t *following  # by key: the one that followed it last
    cdef int64_t *seen  # by key: the event that had it last, and where its cell is
    cdef int64_t *cell_of
    cdef intern_table names, keys, texts
    cdef int64_t room, count, cell_count, cell_room, scratch_room, key_room
    cdef int64_t last_ns, events
    cdef int32_t first_key
    cdef bint ordered, is_mapped, naive
    cdef readonly bint has_naive  # whether a date without a zone was taken for UTC
    cdef int64_t unit_ns
    cdef tuple members
    cdef readonly int64_t line, offset, odd_offset, late_ns
    cdef int64_t before_ns, back, forward, most_ns, repeated  # see `order`
    cdef list key_list, text_list, objects
    cdef readonly object lines_taken  # by event that `take` returned last, its line, if times went back

    def __cinit__(
        self, int64_t room, bytes time_key=b"", bytes name_key=b"name", int64_t unit_ns=1,
        bint naive=True,
    ):
        self.naive = naive
        self.room = room
        self.unit_ns = unit_ns
        self.is_mapped = bool(time_key)
        self.members = _MEMBERS
        if self.is_mapped:
            # no member is called as what is in place of `ts`
            self.members = (time_key, b"\0", name_key, *_MEMBERS[CPU:])
        self.ordered = True
        self.last_ns = self.before_ns = INT64_MIN
        seed = int.from_bytes(os.urandom(8), "little")
        self.names.seed = self.keys.seed = self.texts.seed = seed
        self.rows = <Row*>malloc(<size_t>room * sizeof(Row))
        if self.rows == NULL or not intern_grow(&self.names):
            raise MemoryError
        self._clear_tables()

    def __dealloc__(self):
        for table in range(3):
            intern_free(&self.names if table == 0 else &self.keys if table == 1 else &self.texts)
        free(self.rows)
        free(self.cells)
        free(self.scratch)
        free(self.following)
        free(self.seen)
        free(self.cell_of)

    def __len__(self) -> int:
        return self.count

    cdef _clear_tables(self):
        cdef uint64_t seed = self.keys.seed
        intern_free(&self.keys)
        intern_free(&self.texts)
        self.keys.seed = self.texts.seed = seed
        self.key_list, self.text_list, self.objects = [], [], []
        self.first_key = 0
        if not (intern_grow(&self.keys) and intern_grow(&self.texts)):
            raise MemoryError
        for member in self.members:
            code_of(&self.keys, member, len(member))
        if self._reserve_keys() < 0:
            raise MemoryError

    cdef int _reserve_keys(self) noexcept nogil:
        """Make room for what is kept by key; `NO_MEMORY` if there is none."""
        cdef int64_t room, key
        cdef void *grown
        if self.keys.count <= self.key_room:
            return READ
        room = 2 * self.keys.count + 64
        grown = realloc(self.following, <size_t>room * sizeof(int32_t))
        if grown == NULL:
            return NO_MEMORY
        self.following = <int32_t*>grown
        grown = realloc(self.seen, <size_t>room * sizeof(int64_t))
        if grown == NULL:
            return NO_MEMORY
        self.seen = <int64_t*>grown
        grown = realloc(self.cell_of, <size_t>room * sizeof(int64_t))
        if grown == NULL:
            return NO_MEMORY
        self.cell_of = <int64_t*>grown
        for key in range(self.key_room, room):
            self.following[key] = 0
            self.seen[key] = -1
        self.key_room = room
        return READ

    cdef inline Cell *_cell(self) noexcept nogil:
        """Return the next cell; NULL if there is no memory."""
        cdef int64_t room
        cdef void *grown
        if UNLIKELY(self.cell_count == self.cell_room):
            room = 2 * self.cell_room + 4096
            grown = realloc(self.cells, <size_t>room * sizeof(Cell))
            if grown == NULL:
                return NULL
            self.cells = <Cell*>grown
            self.cell_room = room
        self.cell_count += 1
        return &self.cells[self.cell_count - 1]

    cdef inline void _add(self, int64_t time_ns, int32_t name, int64_t cpu, int64_t pid,
                          int64_t tid, int64_t first, int64_t line, int64_t offset) noexcept nogil:
        cdef Row *row = &self.rows[self.count]
        row.time_ns, row.name = time_ns, name
        row.cpu, row.pid, row.tid = cpu, pid, tid
        row.first, row.cells = first, <int32_t>(self.cell_count - first)
        row.line, row.offset = line, offset
        self.count += 1
        self.ordered = self.ordered and time_ns >= self.last_ns
        self.last_ns = time_ns

    # Lines of JSON

    @property
    def order(self) -> tuple[int, int, int, int, int]:
        """The time of the last line, how often times go back from one line to the next and how often
        forward, the longest way back, and how many lines are equal to the one before.

        Of lines whose time is a whole millisecond, some may well be equal: they do not count.
        """
        return self.before_ns, self.back, self.forward, self.most_ns, self.repeated

    @order.setter
    def order(self, known: tuple[int, int, int, int, int]):
        self.before_ns, self.back, self.forward, self.most_ns, self.repeated = known

    def follow(self, int64_t time_ns):
        """Note the time of a line that `put` adds, in its place among the others."""
        self._follow(time_ns)

    cdef inline void _follow(self, int64_t time_ns) noexcept nogil:
        cdef uint64_t back_ns
        if LIKELY(time_ns > self.before_ns):
            self.forward += self.before_ns != INT64_MIN
        elif time_ns < self.before_ns:
            self.back += 1
            back_ns = <uint64_t>self.before_ns - <uint64_t>time_ns
            if back_ns > <uint64_t>self.most_ns:
                self.most_ns = <int64_t>back_ns if back_ns < <uint64_t>INT64_MAX else INT64_MAX
        self.before_ns = time_ns

    def scan(
        self, const uint8_t[::1] block: bytes | bytearray, Py_ssize_t start, Py_ssize_t end, *,
        int64_t line, int64_t offset, int64_t until_ns, tuple after: tuple[int, int],
        int64_t known_to
    ) -> tuple[int, int]:
        """Read the lines in [start, end) of a block.

        Args:
            line: The number of the line before.
            offset: Where in the input `start` is.
            until_ns: Events after this are skipped.
            after: The time and the line of the last event that was taken.
            known_to: Events before `after` on lines up to this one are skipped.

        Returns:
            Why it stopped (`Stop`), and where in the block: at the beginning of a line. `line` and
            `offset` are those of the last line that was read, and behind it. After `ODD` that is
            the odd line; after `LATE` the one of the late event.
        """
        cdef const char *begin = <const char*>&block[0] if block.shape[0] else NULL
        cdef const char *last = begin + end
        cdef const char *limit = begin + block.shape[0]
        cdef const char *at = begin + start
        cdef const char *line_end
        cdef const char *next_line
        cdef const char *before = NULL  # the line before, if it is in the block
        cdef size_t before_size = 0
        cdef int64_t after_ns = after[0], after_line = after[1], time_ns
        cdef int64_t shift = offset - start
        cdef int stop = DRAINED, found
        cdef Row *row
        cdef json_fault fault
        if not 0 <= start <= end <= block.shape[0]:
            raise ValueError("the lines must be in the block")
        self.line = line
        with nogil:
            while at < last:
                if self.count == self.room:
                    stop = FULL
                    break
                line_end = <const char*>memchr(at, b"\n", <size_t>(last - at))
                next_line = last if line_end == NULL else line_end + 1
                line_end = last if line_end == NULL else line_end
                self.line += 1
                found = self._event(at, line_end, limit, at - begin + shift)
                if UNLIKELY(found != READ):
                    if found == NO_MEMORY:
                        stop = NO_MEMORY
                        break
                    if json_skip_blanks(at, line_end) < line_end:
                        self.odd_offset = at - begin + shift
                        at = next_line
                        stop = ODD
                        break
                else:
                    row = &self.rows[self.count - 1]
                    time_ns = row.time_ns
                    if self.line > known_to:
                        if UNLIKELY(
                            time_ns == self.before_ns and before != NULL and time_ns % 1000000 != 0
                            and before_size == <size_t>(line_end - at)
                            and memcmp(before, at, before_size) == 0
                        ):
                            self.repeated += 1
                        self._follow(time_ns)
                        before, before_size = at, <size_t>(line_end - at)
                    if time_ns > until_ns or not (
                        time_ns > after_ns or (time_ns == after_ns and self.line > after_line)
                    ):
                        self._drop()
                        if time_ns <= until_ns and self.line > known_to:
                            self.late_ns = time_ns
                            at = next_line
                            stop = LATE
                            break
                at = next_line
        self.offset = at - begin + shift
        if stop == NO_MEMORY:
            raise MemoryError
        return stop, at - begin

    cdef inline void _drop(self) noexcept nogil:
        """Drop the row that was added last."""
        self.count -= 1
        self.cell_count = self.rows[self.count].first
        # The rows before it are as ordered as they were, or count as not ordered.

    cdef int _event(self, const char *at, const char *end, const char *limit,
                    int64_t offset) noexcept nogil:
        """Add the event of a line; UNREAD if it cannot be read."""
        cdef json_fault fault
        cdef int64_t first = self.cell_count
        cdef int64_t time_ns = 0, cpu = -1, pid = -1, tid = -1, place
        cdef int32_t key = -1, before, name = -1
        cdef bint timed = False, is_ts = False
        cdef int read = UNREAD
        cdef Cell cell
        cdef Cell *kept
        cdef const char *text
        cdef size_t size
        cdef bint escaped
        self.events += 1
        at = blanks(at, end)
        if at == end or at[0] != b"{":
            return UNREAD
        at = blanks(at + 1, end)
        while True:
            if UNLIKELY(at >= end or at[0] != b'"'):
                break
            # most events have the keys of the one before, in the same order
            before = key
            key = self.first_key if before < 0 else self.following[before]
            size = self.keys.offsets[key + 1] - self.keys.offsets[key]
            at += 1
            if LIKELY(
                <size_t>(end - at) > size and at[size] == b'"'
                and memcmp(at, self.keys.bytes + self.keys.offsets[key], size) == 0
            ):
                at += size + 1
            else:
                text = at
                at = json_string(at, end, &escaped, &fault)
                if at == NULL or escaped:
                    break
                key = code_of(&self.keys, text, at - text)
                if key < 0 or self._reserve_keys() < 0:
                    read = NO_MEMORY
                    break
                if before < 0:
                    self.first_key = key
                else:
                    self.following[before] = key
                at += 1
            at = blanks(at, end)
            if UNLIKELY(at >= end or at[0] != b":"):
                break
            at = blanks(at + 1, end)
            if UNLIKELY(at >= end or self.seen[key] == self.events):
                break  # the last of equal keys counts
            self.seen[key] = self.events
            if key == NAME:
                if at[0] != b'"':
                    break
                text = at + 1
                at = json_string(text, end, &escaped, &fault)
                if at == NULL or escaped:
                    break
                name = code_of(&self.names, text, at - text)
                if name < 0:
                    read = NO_MEMORY
                    break
                at += 1
            elif self.is_mapped and key == TIME_NS:
                at = self._time(at, end, &time_ns)
                if at == NULL:
                    break
                timed = True
            else:
                at = self._value(at, end, limit, &cell, &read)
                if UNLIKELY(at == NULL):
                    break
                if key == TIME_NS:
                    if cell.kind != INT:
                        break
                    time_ns, timed = cell.word, True
                elif key >= CPU and key <= TID and cell.kind == INT and cell.word >= 0:
                    if key == CPU:
                        cpu = cell.word
                    elif key == PID:
                        pid = cell.word
                    else:
                        tid = cell.word
                else:
                    is_ts |= key == TS
                    kept = self._cell()
                    if kept == NULL:
                        read = NO_MEMORY
                        break
                    kept.key, kept.kind, kept.word = key, cell.kind, cell.word
            at = blanks(at, end)
            if at < end and at[0] == b",":
                at = blanks(at + 1, end)
                continue
            if at >= end or at[0] != b"}" or json_skip_blanks(at + 1, end) != end or name < 0:
                break
            if not timed:
                if not is_ts:
                    break
                place = first
                while self.cells[place].key != TS:
                    place += 1
                if self.cells[place].kind != INT:
                    break
                time_ns = self.cells[place].word
                self.cell_count -= 1
                while place < self.cell_count:
                    self.cells[place] = self.cells[place + 1]
                    place += 1
            if time_ns <= INT64_MIN or time_ns >= INT64_MAX - 1:
                break
            self._add(time_ns, name, cpu, pid, tid, first, self.line, offset)
            return READ
        self.cell_count = first
        return read

    cdef const char *_time(self, const char *at, const char *end, int64_t *time_ns) noexcept nogil:
        """Read a number or a date and return its end; NULL if Python has to."""
        cdef json_fault fault
        cdef const char *start = at
        cdef bint escaped
        cdef int kind
        if at[0] == b'"':
            start = at + 1
            at = json_string(start, end, &escaped, &fault)
            if at == NULL or escaped:
                return NULL
            kind = time_parse(start, at, time_ns)
            if kind == TIME_NAIVE and self.naive:
                self.has_naive = True
                return at + 1
            return at + 1 if kind == TIME_ZONED else NULL
        at = json_number(at, end, &fault)
        if at == NULL:
            return NULL
        kind = time_parse(start, at, time_ns)
        if kind == TIME_DECIMAL_9 and self.unit_ns == 1000000000:
            return at
        if kind != TIME_INTEGER or not (
            -INT64_MAX // self.unit_ns < time_ns[0] < INT64_MAX // self.unit_ns
        ):
            return NULL
        time_ns[0] *= self.unit_ns
        return at

    cdef const char *_value(self, const char *at, const char *end, const char *limit, Cell *cell,
                            int *read) noexcept nogil:
        """Read a value and return its end; NULL if it cannot be read."""
        cdef json_fault fault
        cdef const char *start = at
        cdef uint64_t digits
        cdef double number
        cdef bint escaped
        cdef bint minus = False
        cdef size_t size
        cdef int count
        cdef int32_t code
        if at[0] == b'"':
            start = at + 1
            at = json_string(start, end, &escaped, &fault)
            if at == NULL:
                return NULL
            size = at - start
            if UNLIKELY(escaped):
                if self._reserve_scratch(size) < 0:
                    read[0] = NO_MEMORY
                    return NULL
                size = json_unescape(start, size, self.scratch)
                start = self.scratch
            if size > INT64_MAX >> 32:
                return NULL
            code = code_of(&self.texts, start, size)
            if code < 0:
                read[0] = NO_MEMORY
                return NULL
            cell.kind, cell.word = TEXT, code
            return at + 1
        if json_is_digit(at[0]) or at[0] == b"-":
            minus = at[0] == b"-"
            at += minus
            if LIKELY(limit - at >= LONGEST_NUMBER):
                count = json_digits_ahead(at, &digits)
                if LIKELY(
                    0 < count < 19 and at + count < end and at[count] != b"."
                    and (at[count] | 0x20) != b"e" and (at[0] != b"0" or count == 1)
                ):
                    cell.kind = INT
                    cell.word = -<int64_t>digits if minus else <int64_t>digits
                    return at + count
            at = json_number(start, end, &fault)
            if at == NULL:
                return NULL
            return self._number(start, at, cell)
        if at[0] == b"{" or at[0] == b"[":
            at = json_value(start, end, 1, &fault)
            if at == NULL or at - start > INT64_MAX >> 32:
                return NULL
            code = code_of(&self.texts, start, at - start)
            if code < 0:
                read[0] = NO_MEMORY
                return NULL
            cell.kind, cell.word = JSON, code
            return at
        if end - at >= 4 and memcmp(at, b"true", 4) == 0:
            cell.kind, cell.word = TRUE, 1
            return at + 4
        if end - at >= 5 and memcmp(at, b"false", 5) == 0:
            cell.kind, cell.word = FALSE, 0
            return at + 5
        if end - at >= 4 and memcmp(at, b"null", 4) == 0:
            cell.kind, cell.word = NONE, 0
            return at + 4
        return NULL

    cdef const char *_number(self, const char *at, const char *end, Cell *cell) noexcept nogil:
        """Read a checked number; NULL if it is an integer beyond 64 bits, or too long."""
        cdef char text[LONGEST_NUMBER + 1]
        cdef double number
        cdef const char *digit = at
        cdef bint whole = True
        cdef uint64_t digits = 0
        cdef size_t size = end - at
        cdef bint minus = at[0] == b"-"
        while digit < end:
            if not json_is_digit(digit[0]) and digit[0] != b"-":
                whole = False
            digit += 1
        if whole:
            if size > 20:
                return NULL
            digit = at + minus
            if end - digit > 19:
                return NULL
            while digit < end:
                digits = digits * 10 + <uint64_t>(digit[0] - 48)
                digit += 1
            if digits > <uint64_t>INT64_MAX + minus:
                return NULL
            cell.kind, cell.word = INT, <int64_t>(0 - digits if minus else digits)
            return end
        if not json_exact_double(at, end, &number):
            if size > LONGEST_NUMBER:
                return NULL
            memcpy(text, at, size)
            text[size] = 0
            with gil:
                number = PyOS_string_to_double(text, NULL, None)
        cell.kind = FLOAT
        memcpy(&cell.word, &number, 8)
        return end

    cdef int _reserve_scratch(self, size_t size) noexcept nogil:
        cdef void *grown
        if <int64_t>size > self.scratch_room:
            grown = realloc(self.scratch, 2 * size)
            if grown == NULL:
                return NO_MEMORY
            self.scratch = <char*>grown
            self.scratch_room = 2 * <int64_t>size
        return READ

    # Fields of tracepoints

    def put_tracepoints(
        self, const uint8_t[::1] text: memoryview, tail: Int64s, rows: Int64s, *, time_ns: Int64s,
        name: Int32s, list names: list[bytes], cpu: Int64s, pid: Int64s, tid: Int64s,
        Py_ssize_t first
    ) -> int:
        """Add the tracepoints in some rows of a batch of samples, from `rows[first]` on.

        Args:
            text: The block that has their fields.
            tail: By row, where in it the fields begin and end.
            rows: The rows, in the order in which they are added.
            time_ns, cpu, pid, tid: By row; ids are -1 if unknown.
            name: By row, index into `names`.

        Returns:
            The index in `rows` of the first one whose fields are odd: they need `put`.
        """
        cdef Py_ssize_t i, n, size = text.shape[0]
        cdef int64_t row, begin, end, cells
        cdef int found = READ
        bounds = tail.reshape(-1)
        cdef const int64_t* bound = <const int64_t*>INT64_ITEMS(bounds, NULL)
        cdef const int64_t* at_row = <const int64_t*>INT64_ITEMS(rows, &n)
        cdef const int64_t* time = <const int64_t*>INT64_ITEMS(time_ns, NULL)
        cdef const int32_t* named = <const int32_t*>INT32_ITEMS(name, NULL)
        cdef const int64_t* on_cpu = <const int64_t*>INT64_ITEMS(cpu, NULL)
        cdef const int64_t* of_pid = <const int64_t*>INT64_ITEMS(pid, NULL)
        cdef const int64_t* of_tid = <const int64_t*>INT64_ITEMS(tid, NULL)
        cdef const char *block = <const char*>&text[0] if size else NULL
        codes = empty(len(names), "i4")
        exits = empty(len(names), "u1")
        cdef int32_t* code = <int32_t*>INT32_ITEMS(codes, NULL)
        cdef uint8_t* is_exit = <uint8_t*>UINT8_ITEMS(exits, NULL)
        if n - first > self.room - self.count:
            raise ValueError("as many events wait as may")
        for i, each in enumerate(names):
            code[i] = code_of(&self.names, each, len(each))
            bare = each.rpartition(b":")[2]
            is_exit[i] = bare.startswith(b"sys_exit_")
            # which other programs print without the names of fields
            if bare == b"sched_switch" or bare.startswith(b"sched_wak"):
                is_exit[i] = 2
            if code[i] < 0:
                raise MemoryError
        i = first
        with nogil:
            while i < n:
                row = at_row[i]
                begin, end, cells = bound[2 * row], bound[2 * row + 1], self.cell_count
                if not 0 <= begin <= end <= size:
                    break
                self.events += 1
                if is_exit[named[row]] == 2 and not is_named(block + begin, block + end):
                    break
                found = self._fields(
                    block + begin, block + end, b"ret" if is_exit[named[row]] == 1 else b"text",
                    3 if is_exit[named[row]] == 1 else 4,
                )
                if found != READ:
                    self.cell_count = cells
                    break
                self._add(
                    time[row], code[named[row]], on_cpu[row], of_pid[row], of_tid[row], cells, 0, 0
                )
                i += 1
        if found == NO_MEMORY:
            raise MemoryError
        return i

    cdef int _fields(self, const char *at, const char *end, const char *rest,
                     size_t rest_size) noexcept nogil:
        """Add the fields of a tracepoint; UNREAD if its text needs the definition in Python."""
        cdef const char *next = at
        cdef const char *name
        cdef const char *value
        cdef const char *start
        cdef bint found = False
        cdef int read
        while next < end:
            # other blanks and letters exist beyond ASCII, and among the control characters
            if (<unsigned char>next[0] < 32 and next[0] != b"\t") or <unsigned char>next[0] > 126:
                return UNREAD
            next += 1
        at = json_skip_blanks(at, end)
        while end > at and ((end - 1)[0] == b" " or (end - 1)[0] == b"\t"):
            end -= 1
        if at == end:
            return READ
        start = at
        while at < end:
            name = word_end(at, end)
            if name > at and name < end and name[0] == b"=":
                value = equals_value_end(name + 1, end, &next)
                read = self._field(at, name - at, name + 1, value)
                if read != READ:
                    return read
                found = True
                at = next
            # only what follows a blank is a name
            while at < end and at[0] != b" " and at[0] != b"\t":
                at += 1
            at = json_skip_blanks(at, end)
        if found:
            return READ
        at = start
        while at < end:
            name = colon_name_end(at, end)
            if name != NULL:
                value = name + 2
                while value < end and not (
                    end - value > 2 and value[0] == b"," and value[1] == b" "
                    and colon_name_end(value + 2, end) != NULL
                ):
                    value += 1
                read = self._field(at, name - at, name + 2, value)
                if read != READ:
                    return read
                found = True
                at = value
            while at < end and not (end - at > 1 and at[0] == b"," and at[1] == b" "):
                at += 1
            at += 2
        return READ if found else self._field(rest, rest_size, start, end)

    cdef int _field(self, const char *name, size_t size, const char *at,
                    const char *end) noexcept nogil:
        """Add a field with its text as a number, if it is one."""
        cdef int32_t key = code_of(&self.keys, name, size)
        cdef Cell *cell
        cdef int64_t number = 0
        cdef const char *digit = at
        cdef const char *close
        cdef bint minus = at < end and at[0] == b"-"
        if key < 0 or self._reserve_keys() < 0:
            return NO_MEMORY
        if self.seen[key] == self.events:
            return UNREAD  # the last of equal names counts
        self.seen[key] = self.events
        cell = self._cell()
        if cell == NULL:
            return NO_MEMORY
        cell.key, cell.kind = key, INT
        digit += minus
        while digit < end and json_is_digit(digit[0]) and digit - at - minus < 18:
            number = number * 10 + (digit[0] - 48)
            digit += 1
        if digit - at > minus:
            # a number may be explained: `3 [name]`
            close = digit
            if end - close > 3 and close[0] == b" " and close[1] == b"[" and (end - 1)[0] == b"]":
                close += 2
                while close < end - 1 and is_word(close[0]):
                    close += 1
                close += close == end - 1
            if close == end:
                cell.word = -number if minus else number
                return READ
        if 2 < end - at <= 17 and at[0] == b"0" and at[1] == b"x":
            number = 0
            digit = at + 2
            while digit < end and (json_is_digit(digit[0]) or b"a" <= digit[0] <= b"f"):
                number = number * 16 + (digit[0] - 48 if digit[0] <= b"9" else digit[0] - 87)
                digit += 1
            if digit == end:
                cell.word = number
                return READ
        cell.kind = TEXT
        cell.word = code_of(&self.texts, at, end - at)
        return NO_MEMORY if cell.word < 0 else READ

    # Events of Python

    def put(
        self, int64_t time_ns, str name, dict fields: dict[str, Any], cpu: int | None,
        pid: int | None, tid: int | None, int64_t line, int64_t offset
    ):
        """Add an event; `cpu`, `pid` and `tid` may be None."""
        cdef int64_t first = self.cell_count
        cdef bytes text = name.encode("utf-8", "surrogatepass")
        cdef int64_t on_cpu = -1 if cpu is None else cpu
        cdef int64_t of_pid = -1 if pid is None else pid
        cdef int64_t of_tid = -1 if tid is None else tid
        cdef int32_t code = code_of(&self.names, text, len(text))
        cdef Cell *cell
        cdef double number
        if self.count == self.room:
            raise ValueError("as many events wait as may")
        if code < 0:
            raise MemoryError
        for field, value in fields.items():
            cell = self._cell()
            if cell == NULL:
                raise MemoryError
            cell.word = 0
            text = field.encode("utf-8", "surrogatepass")
            cell.key = code_of(&self.keys, text, len(text))
            if cell.key < 0 or self._reserve_keys() < 0:
                raise MemoryError
            kind = type(value)
            if kind is str:
                text = value.encode("utf-8", "surrogatepass")
                cell.kind, cell.word = TEXT, code_of(&self.texts, text, len(text))
                if cell.word < 0:
                    raise MemoryError
            elif value is None:
                cell.kind = NONE
            elif kind is bool:
                cell.kind = TRUE if value else FALSE
            elif kind is int and INT64_MIN <= value <= INT64_MAX:
                cell.kind, cell.word = INT, value
            elif kind is float:
                number = PyFloat_AsDouble(value)
                cell.kind = FLOAT
                memcpy(&cell.word, &number, 8)
            else:
                cell.kind, cell.word = OBJECT, len(self.objects)
                self.objects.append(value)
        self._add(time_ns, code, on_cpu, of_pid, of_tid, first, line, offset)

    # Columns

    def names_from(self, int32_t first) -> list[bytes]:
        """Return the names of events from this code on."""
        return [
            self.names.bytes[self.names.offsets[i]:self.names.offsets[i + 1]]
            for i in range(first, self.names.count)
        ]

    def take(
        self, int64_t count, codes: Int32s
    ) -> tuple[tuple[Any, ...], tuple[int, int], tuple[int, int]]:
        """Return the earliest `count` events as columns; events of one time are in order of arrival.

        `codes` has one, int32, for each of the names. The tables of keys and texts, and the objects,
        are lists that later batches share, to which they only append.

        Returns:
            The columns in the order of `EventColumns`; the time and the line of the last event;
            the line and the offset of the first line of those that wait, 0 and 0 if none do.
        """
        cdef int64_t i, j, k, cell, cells = 0, rest_cells = 0, left
        cdef Row *row
        cdef Row *rest = NULL
        cdef Cell *rest_of = NULL
        cdef int64_t first_line = 0, first_offset = 0
        cdef const int64_t* order
        cdef int64_t* all_ns
        cdef int32_t code
        cdef Py_ssize_t known
        cdef const int32_t* name_of = <const int32_t*>INT32_ITEMS(codes, &known)
        count = max(0, min(count, self.count))
        left = self.count - count
        if known < self.names.count:
            raise ValueError("each name needs a code")
        if self.ordered:
            ordered = np.arange(self.count)
        else:
            times = empty(self.count, "i8")
            all_ns = <int64_t*>INT64_ITEMS(times, NULL)
            for i in range(self.count):
                all_ns[i] = self.rows[i].time_ns
            ordered = np.argsort(times, kind="stable")
        order = <const int64_t*>INT64_ITEMS(ordered, NULL)
        for i in range(self.count):
            if i < count:
                cells += self.rows[order[i]].cells
            else:
                rest_cells += self.rows[order[i]].cells
        columns = [empty(count, "i8") for _ in range(4)]
        lines = empty(count if self.back else 0, "i8")
        cdef int64_t* line = <int64_t*>INT64_ITEMS(lines, NULL)
        cdef int64_t* time_ns = <int64_t*>INT64_ITEMS(columns[0], NULL)
        cdef int64_t* cpu = <int64_t*>INT64_ITEMS(columns[1], NULL)
        cdef int64_t* pid = <int64_t*>INT64_ITEMS(columns[2], NULL)
        cdef int64_t* tid = <int64_t*>INT64_ITEMS(columns[3], NULL)
        names = empty(count, "i4")
        firsts = empty(count + 1, "i8")
        keys = empty(cells, "i4")
        kinds = empty(cells, "u1")
        words = empty(cells, "i8")
        cdef int32_t* name = <int32_t*>INT32_ITEMS(names, NULL)
        cdef int32_t* key = <int32_t*>INT32_ITEMS(keys, NULL)
        cdef int64_t* first = <int64_t*>INT64_ITEMS(firsts, NULL)
        cdef int64_t* word = <int64_t*>INT64_ITEMS(words, NULL)
        cdef uint8_t* kind = <uint8_t*>UINT8_ITEMS(kinds, NULL)
        rest = <Row*>malloc(<size_t>self.room * sizeof(Row))
        rest_of = <Cell*>malloc(<size_t>(rest_cells + 1) * sizeof(Cell))
        if rest == NULL or rest_of == NULL:
            free(rest)
            free(rest_of)
            raise MemoryError
        last = (0, 0)
        if count:
            row = &self.rows[order[count - 1]]
            last = (row.time_ns, row.line)
        with nogil:
            k = 0
            for i in range(count):
                row = &self.rows[order[i]]
                time_ns[i], name[i] = row.time_ns, name_of[row.name]
                cpu[i], pid[i], tid[i] = row.cpu, row.pid, row.tid
                if self.back:
                    line[i] = row.line
                first[i] = k
                for cell in range(row.first, row.first + row.cells):
                    key[k] = self.cells[cell].key
                    kind[k] = self.cells[cell].kind
                    word[k] = self.cells[cell].word
                    k += 1
            first[count] = k
            k = 0
            for i in range(left):
                row = &self.rows[order[count + i]]
                if first_line == 0 or row.line < first_line:
                    first_line, first_offset = row.line, row.offset
                rest[i] = row[0]
                rest[i].first = k
                if row.cells:
                    memcpy(&rest_of[k], &self.cells[row.first], <size_t>row.cells * sizeof(Cell))
                k += row.cells
            free(self.rows)
            free(self.cells)
            self.rows, self.cells = rest, rest_of
            self.count, self.cell_count, self.cell_room = left, rest_cells, rest_cells + 1
            self.ordered = True
            self.last_ns = rest[left - 1].time_ns if left else INT64_MIN
        for code in range(<int32_t>len(self.key_list), self.keys.count):
            self.key_list.append(text_at(&self.keys, code))
        for code in range(<int32_t>len(self.text_list), self.texts.count):
            self.text_list.append(text_at(&self.texts, code))
        self.lines_taken = lines
        taken = (
            columns[0], names, *columns[1:], firsts, keys, kinds, words,
            self.key_list, self.text_list, self.objects,
        )
        if (
            self.texts.offsets[self.texts.count] > MOST_TEXT_BYTES or self.keys.count > MOST_KEYS
            or len(self.objects) > MOST_KEYS
        ):
            self._renew_tables()
        return taken, last, (first_line, first_offset)

    cdef _renew_tables(self):
        """Keep only the keys, texts and objects of the events that wait."""
        cdef intern_table keys = self.keys
        cdef intern_table texts = self.texts
        cdef list objects = self.objects
        cdef Cell *cell
        cdef int64_t i
        cdef int32_t key
        memset(&self.keys, 0, sizeof(intern_table))
        memset(&self.texts, 0, sizeof(intern_table))
        self.keys.seed = keys.seed
        try:
            for key in range(<int32_t>self.key_room):
                self.following[key] = 0
                self.seen[key] = -1
            self._clear_tables()
            for i in range(self.cell_count):
                cell = &self.cells[i]
                cell.key = moved(&keys, cell.key, &self.keys)
                if cell.kind == TEXT or cell.kind == JSON:
                    cell.word = moved(&texts, <int32_t>cell.word, &self.texts)
                elif cell.kind == OBJECT:
                    self.objects.append(objects[cell.word])
                    cell.word = len(self.objects) - 1
                if cell.key < 0 or cell.word < 0 and cell.kind in (TEXT, JSON):
                    raise MemoryError
            if self._reserve_keys() < 0:
                raise MemoryError
        finally:
            intern_free(&keys)
            intern_free(&texts)


cdef inline int32_t moved(const intern_table *of, int32_t code, intern_table *to) noexcept:
    return code_of(to, of.bytes + of.offsets[code], of.offsets[code + 1] - of.offsets[code])


cdef inline str text_at(const intern_table *table, int32_t code):
    text = table.bytes[table.offsets[code]:table.offsets[code + 1]]
    try:
        return (<bytes>text).decode("utf-8")
    except UnicodeDecodeError:  # lone surrogates, of events that are Python objects
        return (<bytes>text).decode("utf-8", "surrogatepass")
