"""The open end of a history: changes not yet sealed, and what every attribute is in now.

A change is (time, quark, word, meta): `word` holds a string's code, an integer, or the bits of a
double; bit 0 of `meta` says that the value is null, the bits above hold the tag plus one.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t

import numpy as np

UNTYPED = 0
STR = 1
INT = 2
FLOAT = 3

DONE = 0
FULL = 1
BACKWARDS = 2
OTHER_TYPE = 3
NO_QUARK = 4

cdef enum Status:
    S_DONE = 0
    S_FULL = 1
    S_BACKWARDS = 2
    S_OTHER_TYPE = 3
    S_NO_QUARK = 4


cdef class Tail:
    """Changes in order of arrival, and per quark the state it is in.

    Attributes:
        rows: How many changes are held.
        ordered: Whether they are in order of time.
        boundary_ns: Where the sealed part ends: earlier changes are late.
        late_rows: How many late changes wait in the `late_*` columns.
        replaced: How many states of no length were replaced by a later change of the same time.
        first_ns: The earliest change so far; INT64_MAX before any.
        latest_ns: The latest change so far; INT64_MIN before any.
    """

    cdef public object time_ns, quark, word, meta
    cdef public object late_time_ns, late_quark, late_word, late_meta
    cdef public object kind, start_ns, now_word, now_meta, now_row
    cdef int64_t[::1] _time, _word, _late_time, _late_word, _start, _now_word
    cdef int32_t[::1] _quark, _late_quark, _now_row
    cdef uint32_t[::1] _meta, _late_meta, _now_meta
    cdef uint8_t[::1] _kind
    cdef public Py_ssize_t rows, late_rows, capacity, quarks
    cdef public int64_t boundary_ns, replaced, first_ns, latest_ns
    cdef public bint ordered, verbatim

    def __init__(self, Py_ssize_t capacity, Py_ssize_t late_capacity, bint verbatim=False):
        self.capacity = 0
        self.rows = self.late_rows = 0
        self.quarks = 0
        self.boundary_ns = INT64_MIN
        self.first_ns = INT64_MAX
        self.latest_ns = INT64_MIN
        self.replaced = 0
        self.ordered = True
        self.verbatim = verbatim
        self.time_ns = self.quark = self.word = self.meta = None
        self.grow(capacity)
        self.late_time_ns = np.empty(late_capacity, np.int64)
        self.late_quark = np.empty(late_capacity, np.int32)
        self.late_word = np.empty(late_capacity, np.int64)
        self.late_meta = np.empty(late_capacity, np.uint32)
        self._late_time, self._late_quark = self.late_time_ns, self.late_quark
        self._late_word, self._late_meta = self.late_word, self.late_meta
        self.kind = np.zeros(0, np.uint8)
        self.start_ns = np.zeros(0, np.int64)
        self.now_word = np.zeros(0, np.int64)
        self.now_meta = np.zeros(0, np.uint32)
        self.now_row = np.zeros(0, np.int32)
        self.reserve(64)
        self.quarks = 0

    def grow(self, Py_ssize_t capacity):
        """Make room for more changes."""
        def grown(old, kind):
            new = np.empty(capacity, kind)
            new[:self.rows] = old[:self.rows] if old is not None else 0
            return new
        self.time_ns = grown(self.time_ns, np.int64)
        self.quark = grown(self.quark, np.int32)
        self.word = grown(self.word, np.int64)
        self.meta = grown(self.meta, np.uint32)
        self._time, self._quark, self._word, self._meta = (
            self.time_ns, self.quark, self.word, self.meta
        )
        self.capacity = capacity

    def reserve(self, Py_ssize_t quarks):
        """Make the quarks below `quarks` known; a new one has been null since ever."""
        if quarks > len(self.kind):
            more = max(quarks, 2 * len(self.kind)) - len(self.kind)
            self.kind = np.append(self.kind, np.zeros(more, np.uint8))
            self.start_ns = np.append(self.start_ns, np.full(more, INT64_MIN, np.int64))
            self.now_word = np.append(self.now_word, np.zeros(more, np.int64))
            self.now_meta = np.append(self.now_meta, np.ones(more, np.uint32))
            self.now_row = np.append(self.now_row, np.full(more, -1, np.int32))
            self._kind, self._start, self._now_word = self.kind, self.start_ns, self.now_word
            self._now_meta, self._now_row = self.now_meta, self.now_row
        self.quarks = max(self.quarks, quarks)

    def resume(self, kind, start_ns, word, meta):
        """Know the quarks of these columns, and in which state each is."""
        quarks = len(start_ns)
        self.reserve(quarks)
        self.kind[:quarks] = kind[:quarks]
        self.start_ns[:quarks] = start_ns
        self.now_word[:quarks] = word
        self.now_meta[:quarks] = meta

    cdef inline Status put(
        self, int64_t time, int32_t quark, int64_t word, uint32_t meta, uint8_t kind
    ) noexcept nogil:
        cdef int64_t start
        cdef Py_ssize_t row
        if quark < 0 or quark >= self.quarks:
            return S_NO_QUARK
        if not meta & 1 and self._kind[quark] != kind:
            if self._kind[quark] != 0:
                return S_OTHER_TYPE
        start = self._start[quark]
        if time < start:
            return S_BACKWARDS
        if meta == self._now_meta[quark] and not self.verbatim and (
            word == self._now_word[quark]
            # 0.0 and -0.0 are equal and differ in the sign bit alone.
            or (kind == 3 and ((word | self._now_word[quark]) << 1) == 0)
        ):
            return S_DONE
        if not meta & 1:
            self._kind[quark] = kind
        if time < self.boundary_ns:
            row = self.late_rows
            self._late_time[row] = time
            self._late_quark[row] = quark
            self._late_word[row] = word
            self._late_meta[row] = meta
            self.late_rows = row + 1
        elif time == start:
            row = self._now_row[quark]
            self._word[row] = word
            self._meta[row] = meta
            self.replaced += 1
        else:
            row = self.rows
            self._time[row] = time
            self._quark[row] = quark
            self._word[row] = word
            self._meta[row] = meta
            self._now_row[quark] = <int32_t>row
            if row and time < self._time[row - 1]:
                self.ordered = False
            self.rows = row + 1
        self._start[quark] = time
        self._now_word[quark] = word
        self._now_meta[quark] = meta
        if time > self.latest_ns:
            self.latest_ns = time
        if time < self.first_ns:
            self.first_ns = time
        return S_DONE

    def put_one(self, int64_t time, int32_t quark, int64_t word, uint32_t meta, uint8_t kind):
        """Take one change; return its status."""
        if self.rows == self.capacity or self.late_rows == self._late_time.shape[0]:
            return FULL
        return <int>self.put(time, quark, word, meta, kind)

    def put_codes(
        self,
        const int64_t[::1] time,
        const int32_t[::1] quark,
        const int32_t[::1] code,
        const int32_t[::1] tag,
        Py_ssize_t first,
    ):
        """Take changes to strings from row `first` on; -1 is null, or no tag (None: no tags).

        Returns:
            The row it stopped at, and why: `DONE` at the end, `FULL`, or what is wrong with it.
        """
        cdef Py_ssize_t i = first, n = time.shape[0], late = self._late_time.shape[0]
        cdef bint tagged = tag is not None
        cdef uint32_t meta
        cdef int32_t c
        cdef Status status = S_DONE
        with nogil:
            while i < n:
                if self.rows == self.capacity or self.late_rows == late:
                    status = S_FULL
                    break
                c = code[i]
                meta = (<uint32_t>(tag[i] + 1)) << 1 if tagged else 0
                if c < 0:
                    status = self.put(time[i], quark[i], 0, meta | 1, 1)
                else:
                    status = self.put(time[i], quark[i], c, meta, 1)
                if status != S_DONE:
                    break
                i += 1
        return i, <int>status

    def put_words(
        self,
        const int64_t[::1] time,
        const int32_t[::1] quark,
        const int64_t[::1] word,
        const uint32_t[::1] meta,
        const uint8_t[::1] kind,
        Py_ssize_t first,
    ):
        """Take changes given as words; returns as `put_codes` does."""
        cdef Py_ssize_t i = first, n = time.shape[0], late = self._late_time.shape[0]
        cdef Status status = S_DONE
        with nogil:
            while i < n:
                if self.rows == self.capacity or self.late_rows == late:
                    status = S_FULL
                    break
                status = self.put(time[i], quark[i], word[i], meta[i], kind[i])
                if status != S_DONE:
                    break
                i += 1
        return i, <int>status

    def sort(self):
        """Put the changes in order of time, those of one time in order of arrival."""
        if self.ordered:
            return
        order = np.argsort(self.time_ns[:self.rows], kind="stable")
        for column in (self.time_ns, self.quark, self.word, self.meta):
            column[:self.rows] = column[:self.rows][order]
        self.ordered = True
        self._refer(0)

    def drop(self, Py_ssize_t rows, int64_t boundary_ns):
        """Forget the first `rows` changes, which are sealed: what is before `boundary_ns`."""
        cdef Py_ssize_t left = self.rows - rows
        for column in (self.time_ns, self.quark, self.word, self.meta):
            column[:left] = column[rows:self.rows].copy()
        self.rows = left
        self.boundary_ns = boundary_ns
        self._refer(0)

    cdef _refer(self, Py_ssize_t first):
        cdef Py_ssize_t i
        with nogil:
            for i in range(first, self.rows):
                self._now_row[self._quark[i]] = <int32_t>i
