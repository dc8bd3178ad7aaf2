"""The open end of a history: changes not yet sealed, and the current state of every attribute.

A change is (time, quark, word, meta): `word` is a string's code, an integer, or the bits of a
double; bit 0 of `meta` is set if the value is null, the bits above are the tag plus one.
"""

from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "rows.h":
    void prefetch(const void*) noexcept nogil

cdef extern from *:
    """
    #include <time.h>
    /* In steps of some milliseconds where that is cheaper: it is read for each change. */
    static inline int64_t coarse_ns(void) {
        struct timespec now;
    #ifdef CLOCK_MONOTONIC_COARSE
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    #else
        clock_gettime(CLOCK_MONOTONIC, &now);
    #endif
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    """
    int64_t coarse_ns() noexcept nogil

UNTYPED = 0
STR = 1
INT = 2
FLOAT = 3

DONE = 0
FULL = 1
BACKWARDS = 2
OTHER_TYPE = 3
NO_QUARK = 4
NO_CODE = 5
NO_TIME = 6

cdef enum Status:
    S_DONE = 0
    S_FULL = 1
    S_BACKWARDS = 2
    S_OTHER_TYPE = 3
    S_NO_QUARK = 4
    S_NO_CODE = 5
    S_NO_TIME = 6


# Rows that were replaced after they were logged, before they are logged again: `put` returns `FULL`
# when there are as many, so that it never allocates.
cdef enum:
    _REDO_ROWS = 4096


cdef struct Now:
    # A quark's current state, and the row of its change. All of it is in one struct, since with
    # many quarks each further array is another cache miss.
    int64_t start
    int64_t word
    uint32_t meta
    int32_t row


_NOW = np.dtype([("start", "i8"), ("word", "i8"), ("meta", "u4"), ("row", "i4")])


cdef struct Open:
    # A copy of the fields of `Tail` that `put` uses, which the compiler can keep in registers
    # throughout a loop; `open` makes it and `keep` writes it back.
    int64_t* time
    int32_t* quark
    int64_t* word
    uint32_t* meta
    int32_t* before
    int64_t* late_time
    int32_t* late_quark
    int64_t* late_word
    uint32_t* late_meta
    uint8_t* kind
    Now* now
    Py_ssize_t quarks
    Py_ssize_t rows
    Py_ssize_t capacity
    Py_ssize_t late_rows
    Py_ssize_t late_capacity
    int32_t* redo
    Py_ssize_t redo_rows
    Py_ssize_t redo_capacity
    Py_ssize_t logged_rows
    int64_t boundary
    int64_t newest
    int64_t first
    int64_t latest
    int64_t replaced
    bint ordered
    bint verbatim
    bint counting
    bint forgetful


# With a million quarks each state is a cache miss, which takes as long as some 16 changes.
cdef enum:
    AHEAD = 16
    FEW_QUARKS = 1 << 14  # their states are in the cache


cdef inline void fetch_state(const Open* o, int32_t quark) noexcept nogil:
    if <uint32_t>quark < <uint32_t>o.quarks:
        prefetch(&o.now[quark])
        prefetch(&o.kind[quark])


cdef inline Status put(
    Open* o, int64_t time, int32_t quark, int64_t word, uint32_t meta, uint8_t kind
) noexcept nogil:
    cdef int64_t start
    cdef Now* now
    cdef Py_ssize_t row
    # First, and for all columns, so that a change that did not fit can be put again as it is.
    if (
        o.rows >= o.capacity or o.late_rows == o.late_capacity
        or o.redo_rows == o.redo_capacity
    ):
        return S_FULL
    # Unsigned, so that negative quarks are too large.
    if <uint32_t>quark >= <uint32_t>o.quarks:
        return S_NO_QUARK
    if not meta & 1 and o.kind[quark] != kind and o.kind[quark] != 0:
        return S_OTHER_TYPE
    # INT64_MIN is the start of an attribute that never changed, and INT64_MAX has no time after it.
    # The addition moves both behind all other times, so one comparison finds them.
    if <uint64_t>time + (<uint64_t>1 << 63) - 1 > <uint64_t>INT64_MAX * 2 - 1:
        return S_NO_TIME
    now = &o.now[quark]
    start = now.start
    if time < start:
        return S_BACKWARDS
    if meta == now.meta and not o.verbatim and (
        word == now.word
        # 0.0 and -0.0 are equal and differ in the sign bit alone.
        or (kind == 3 and ((word | now.word) << 1) == 0)
    ):
        return S_DONE
    if not meta & 1:
        o.kind[quark] = kind
    if time < o.boundary:
        row = o.late_rows
        o.late_time[row] = time
        o.late_quark[row] = quark
        o.late_word[row] = word
        o.late_meta[row] = meta
        o.late_rows = row + 1
        o.replaced += o.counting and time == start
    elif time == start and not o.forgetful:
        # The change it replaces is still here: what is sealed ends at the boundary, between two
        # instants. A forgetful tail drops changes without moving the boundary, so `row` is invalid.
        row = now.row
        o.word[row] = word
        o.meta[row] = meta
        o.replaced += o.counting
        if row < o.logged_rows:
            o.redo[o.redo_rows] = <int32_t>row
            o.redo_rows += 1
    else:
        o.replaced += o.counting and time == start
        row = o.rows
        o.time[row] = time
        o.quark[row] = quark
        o.word[row] = word
        o.meta[row] = meta
        # A quark that last changed before the boundary has no row here, whatever `now` says.
        o.before[row] = now.row if start >= o.boundary else -1
        now.row = <int32_t>row
        if time < o.newest:
            o.ordered = False
        o.newest = time
        o.rows = row + 1
    now.start = time
    now.word = word
    now.meta = meta
    if time > o.latest:
        o.latest = time
    if time < o.first:
        o.first = time
    return S_DONE


cdef object grown(old, Py_ssize_t rows, Py_ssize_t capacity, kind):
    new = np.empty(capacity, kind)
    if rows:
        new[:rows] = old[:rows]
    return new


cdef class Tail:
    """Changes in order of arrival, and the current state of each quark.

    Attributes:
        rows: How many changes there are.
        before: By row, that of the change before of the same quark; -1 if it is not here. It is
            invalid in a forgetful tail.
        ordered: Whether they are in order of time.
        boundary_ns: Where the sealed part ends: earlier changes are late.
        logged_rows: How many of them the log has; the first `redo_rows` items of `redo` are those
            of them that were replaced since.
        late_rows: How many late changes wait in the `late_*` columns.
        replaced: How many states of no length were replaced by a later change of the same time.
        first_ns: The earliest change so far; INT64_MAX before any.
        latest_ns: The latest change so far; INT64_MIN before any.
        forgetful: Whether waiting changes may be dropped at any time: one that replaces
            another is then added, and does not overwrite it.
        verbatim: Whether a change to the state that the quark is in already is kept.
        counting: Whether changes that replace another one are added to `replaced`.
    """

    cdef public object time_ns, word, late_time_ns, late_word, start_ns, now_word  #: Int64s
    cdef public object quark, before, late_quark, redo  #: Int32s
    cdef public object meta, late_meta, now_meta  #: npt.NDArray[np.uint32]
    cdef public object kind  #: npt.NDArray[np.uint8]
    # Where the items of these arrays are.
    cdef int64_t *_time, *_word, *_late_time, *_late_word
    cdef int32_t *_quark, *_before, *_late_quark, *_redo
    cdef uint32_t *_meta, *_late_meta
    cdef object _now_array
    cdef Now* _now
    cdef uint8_t* _kind
    cdef Py_ssize_t late_capacity
    cdef public Py_ssize_t rows, late_rows, capacity, quarks, logged_rows, redo_rows
    cdef public int64_t boundary_ns, replaced, first_ns, latest_ns
    cdef public bint ordered, verbatim, counting, forgetful

    def __init__(self, Py_ssize_t capacity, Py_ssize_t late_capacity, bint verbatim=False):
        self.capacity = 0
        self.rows = self.late_rows = self.logged_rows = self.redo_rows = 0
        self.redo = np.empty(_REDO_ROWS, np.int32)
        self._redo = <int32_t*>INT32_ITEMS(self.redo, NULL)
        self.quarks = 0
        self.boundary_ns = INT64_MIN
        self.first_ns = INT64_MAX
        self.latest_ns = INT64_MIN
        self.replaced = 0
        self.ordered = True
        self.verbatim = verbatim
        self.counting = True
        self.forgetful = False
        self.time_ns = self.quark = self.word = self.meta = self.before = None
        self.grow(capacity)
        self.late_time_ns = np.empty(late_capacity, np.int64)
        self.late_quark = np.empty(late_capacity, np.int32)
        self.late_word = np.empty(late_capacity, np.int64)
        self.late_meta = np.empty(late_capacity, np.uint32)
        self._late_time = <int64_t*>INT64_ITEMS(self.late_time_ns, NULL)
        self._late_quark = <int32_t*>INT32_ITEMS(self.late_quark, NULL)
        self._late_word = <int64_t*>INT64_ITEMS(self.late_word, NULL)
        self._late_meta = <uint32_t*>UINT32_ITEMS(self.late_meta, NULL)
        self.late_capacity = late_capacity
        self.kind = np.zeros(0, np.uint8)
        self._now_array = np.zeros(0, np.uint8)
        self.reserve(64)
        self.quarks = 0

    def grow(self, Py_ssize_t capacity):
        """Make room for more changes."""
        self.time_ns = grown(self.time_ns, self.rows, capacity, np.int64)
        self.quark = grown(self.quark, self.rows, capacity, np.int32)
        self.word = grown(self.word, self.rows, capacity, np.int64)
        self.meta = grown(self.meta, self.rows, capacity, np.uint32)
        self.before = grown(self.before, self.rows, capacity, np.int32)
        self._time = <int64_t*>INT64_ITEMS(self.time_ns, NULL)
        self._quark = <int32_t*>INT32_ITEMS(self.quark, NULL)
        self._word = <int64_t*>INT64_ITEMS(self.word, NULL)
        self._meta = <uint32_t*>UINT32_ITEMS(self.meta, NULL)
        self._before = <int32_t*>INT32_ITEMS(self.before, NULL)
        self.capacity = capacity

    def reserve(self, Py_ssize_t quarks):
        """Grow the per-quark arrays to `quarks`; new quarks are null and never changed."""
        cdef Py_ssize_t i, before, room
        if quarks > len(self.kind):
            before = len(self.kind)
            room = max(quarks, 2 * before)
            kind = np.zeros(room, np.uint8)
            now = np.empty(room * sizeof(Now), np.uint8)
            kind[:before] = self.kind
            now[:before * sizeof(Now)] = self._now_array
            self.kind, self._now_array = kind, now
            self._kind = <uint8_t*>UINT8_ITEMS(kind, NULL)
            self._now = <Now*>UINT8_ITEMS(now, NULL)
            for i in range(before, room):
                self._now[i].start = INT64_MIN
                self._now[i].word = 0
                self._now[i].meta = 1
                self._now[i].row = -1
            states = now.view(_NOW)
            self.start_ns, self.now_word = states["start"], states["word"]
            self.now_meta = states["meta"]
        self.quarks = max(self.quarks, quarks)

    def copy(self) -> Tail:
        """Return a tail of the same changes and states, with room for no more."""
        other = Tail(max(self.rows, 1), len(self.late_time_ns))
        other.resume(
            self.kind, self.start_ns[:self.quarks], self.now_word[:self.quarks],
            self.now_meta[:self.quarks],
        )
        for mine, its in (
            (self.time_ns, other.time_ns),
            (self.quark, other.quark),
            (self.word, other.word),
            (self.meta, other.meta),
            (self.before, other.before),
        ):
            its[:self.rows] = mine[:self.rows]
        other.rows = self.rows
        other.ordered = self.ordered
        other.boundary_ns = self.boundary_ns
        other.first_ns = self.first_ns
        other.latest_ns = self.latest_ns
        return other

    def resume(
        self, kind: npt.NDArray[np.uint8], start_ns: Int64s, word: Int64s,
        meta: npt.NDArray[np.uint32]
    ):
        """Set the types and the current states of the first quarks."""
        quarks = len(start_ns)
        self.reserve(quarks)
        self.kind[:quarks] = kind[:quarks]
        self.start_ns[:quarks] = start_ns
        self.now_word[:quarks] = word
        self.now_meta[:quarks] = meta

    cdef Open open(self) noexcept nogil:
        cdef Open o
        o.time = self._time
        o.quark = self._quark
        o.word = self._word
        o.meta = self._meta
        o.before = self._before
        o.late_time = self._late_time
        o.late_quark = self._late_quark
        o.late_word = self._late_word
        o.late_meta = self._late_meta
        o.kind = self._kind
        o.now = self._now
        o.redo = self._redo
        o.redo_rows = self.redo_rows
        o.redo_capacity = _REDO_ROWS
        o.logged_rows = self.logged_rows
        o.quarks = self.quarks
        o.rows = self.rows
        o.capacity = self.capacity
        o.late_rows = self.late_rows
        o.late_capacity = self.late_capacity
        o.boundary = self.boundary_ns
        o.newest = self._time[self.rows - 1] if self.rows else INT64_MIN
        o.first = self.first_ns
        o.latest = self.latest_ns
        o.replaced = self.replaced
        o.ordered = self.ordered
        o.verbatim = self.verbatim
        o.counting = self.counting
        o.forgetful = self.forgetful
        return o

    cdef void keep(self, Open o) noexcept nogil:
        # `newest` is missing: `open` reads it from the last row, which `sort` and `drop` may
        # change.
        self.rows = o.rows
        self.late_rows = o.late_rows
        self.redo_rows = o.redo_rows
        self.first_ns = o.first
        self.latest_ns = o.latest
        self.replaced = o.replaced
        self.ordered = o.ordered

    def recall(self, time_ns: Int64s, quarks: Int32s, words: Int64s, metas: npt.NDArray[np.uint32]):
        """Set the state of each quark to that after these late changes, unless it is newer."""
        cdef Py_ssize_t i, n
        cdef int32_t q
        cdef const int64_t* time = <const int64_t*>INT64_ITEMS(time_ns, &n)
        cdef const int32_t* quark = <const int32_t*>INT32_ITEMS(quarks, NULL)
        cdef const int64_t* word = <const int64_t*>INT64_ITEMS(words, NULL)
        cdef const uint32_t* meta = <const uint32_t*>UINT32_ITEMS(metas, NULL)
        with nogil:
            for i in range(n):
                q = quark[i]
                if time[i] >= self._now[q].start:
                    self._now[q].start = time[i]
                    self._now[q].word = word[i]
                    self._now[q].meta = meta[i]
                if time[i] < self.first_ns:
                    self.first_ns = time[i]
                if time[i] > self.latest_ns:
                    self.latest_ns = time[i]

    def now(self, Py_ssize_t quark) -> tuple[int, int, int]:
        """Return the word, the meta and the kind of the state that a quark is in."""
        return self._now[quark].word, self._now[quark].meta, self._kind[quark]

    cdef bint _find(
        self, Py_ssize_t quark, int64_t time,
        int64_t* start, int64_t* end, int64_t* word, uint32_t* meta,
    ) noexcept nogil:
        cdef const Now* now = &self._now[quark]
        cdef int32_t row = now.row if now.start >= self.boundary_ns else -1
        end[0] = INT64_MAX
        while row >= 0 and self._time[row] > time:
            end[0] = self._time[row]
            row = self._before[row]
        if row < 0:
            return False
        start[0] = self._time[row]
        word[0] = self._word[row]
        meta[0] = self._meta[row]
        return True

    def find(self, Py_ssize_t quark, int64_t time) -> tuple[int | None, int, int, int]:
        """Return start, end, word and meta of the state of a quark at a time.

        The end is that of the next change here; INT64_MAX if there is none. The start is None if
        there is no change here until the time.
        """
        cdef int64_t start, end, word = 0
        cdef uint32_t meta = 1
        if self._find(quark, time, &start, &end, &word, &meta):
            return start, end, word, meta
        return None, end, word, meta

    def find_all(
        self, quarks: Int32s, times: Int64s, starts: Int64s, ends: Int64s, words: Int64s,
        metas: npt.NDArray[np.uint32], founds: npt.NDArray[np.uint8]
    ):
        """Write the results of `find` of each quark and time, and whether there was a state.

        The quarks are below `quarks`.
        """
        cdef Py_ssize_t i, n
        cdef const int32_t* quark = <const int32_t*>INT32_ITEMS(quarks, &n)
        cdef const int64_t* time = <const int64_t*>INT64_ITEMS(times, NULL)
        cdef int64_t* start = <int64_t*>INT64_ITEMS(starts, NULL)
        cdef int64_t* end = <int64_t*>INT64_ITEMS(ends, NULL)
        cdef int64_t* word = <int64_t*>INT64_ITEMS(words, NULL)
        cdef uint32_t* meta = <uint32_t*>UINT32_ITEMS(metas, NULL)
        cdef uint8_t* found = <uint8_t*>UINT8_ITEMS(founds, NULL)
        with nogil:
            for i in range(n):
                found[i] = self._find(quark[i], time[i], &start[i], &end[i], &word[i], &meta[i])

    def put_one(
        self, int64_t time, int32_t quark, int64_t word, uint32_t meta, uint8_t kind
    ) -> int:
        """Put one change; return its status."""
        cdef Open o = self.open()
        cdef Status status = put(&o, time, quark, word, meta, kind)
        self.keep(o)
        return <int>status

    def amend(self, int32_t quark, int64_t word, uint32_t meta, uint8_t kind) -> int:
        """Replace the current state of a quark that has changed before; return the status."""
        cdef Open o = self.open()
        # Asking for a replacement is not the oddity that is counted.
        cdef int64_t replaced = o.replaced
        cdef Status status
        if <uint32_t>quark >= <uint32_t>o.quarks:
            return <int>S_NO_QUARK
        status = put(&o, o.now[quark].start, quark, word, meta, kind)
        o.replaced = replaced
        self.keep(o)
        return <int>status

    def put_codes(
        self, times: Int64s, quarks: Int32s, codes: Int32s, codes_of: Int32s, tags: Int32s | None,
        Py_ssize_t first
    ) -> tuple[int, int]:
        """Put changes to strings from row `first` on; -1 is null, or no tag (None: no tags).

        `codes_of` translates the codes of the column to those of the history.

        Returns:
            The row it stopped at, and why: `DONE` at the end, `FULL`, or what is wrong with it.
        """
        cdef Py_ssize_t i = first, n, known
        cdef bint tagged = tags is not None
        cdef const int64_t* time = <const int64_t*>INT64_ITEMS(times, &n)
        cdef const int32_t* quark = <const int32_t*>INT32_ITEMS(quarks, NULL)
        cdef const int32_t* code = <const int32_t*>INT32_ITEMS(codes, NULL)
        cdef const int32_t* code_of = <const int32_t*>INT32_ITEMS(codes_of, &known)
        cdef const int32_t* tag = NULL
        cdef uint32_t meta
        cdef int32_t c
        cdef Status status = S_DONE
        cdef Open o
        if tagged:
            tag = <const int32_t*>INT32_ITEMS(tags, NULL)
        with nogil:
            o = self.open()
            while i < n:
                if o.quarks > FEW_QUARKS and i + AHEAD < n:
                    fetch_state(&o, quark[i + AHEAD])
                c = code[i]
                if c >= known:
                    status = S_NO_CODE
                    break
                c = code_of[c] if c >= 0 else -1
                meta = (<uint32_t>(tag[i] + 1)) << 1 if tagged else 0
                status = put(&o, time[i], quark[i], c if c >= 0 else 0, meta | (c < 0), 1)
                if status != S_DONE:
                    break
                i += 1
            self.keep(o)
        return i, <int>status

    def put_words(
        self, times: Int64s, quarks: Int32s, words: Int64s, metas: npt.NDArray[np.uint32],
        kinds: npt.NDArray[np.uint8], Py_ssize_t first
    ) -> tuple[int, int]:
        """Put changes given as words; returns the same as `put_codes`."""
        cdef Py_ssize_t i = first, n
        cdef const int64_t* time = <const int64_t*>INT64_ITEMS(times, &n)
        cdef const int32_t* quark = <const int32_t*>INT32_ITEMS(quarks, NULL)
        cdef const int64_t* word = <const int64_t*>INT64_ITEMS(words, NULL)
        cdef const uint32_t* meta = <const uint32_t*>UINT32_ITEMS(metas, NULL)
        cdef const uint8_t* kind = <const uint8_t*>UINT8_ITEMS(kinds, NULL)
        cdef Status status = S_DONE
        cdef Open o
        with nogil:
            o = self.open()
            while i < n:
                if o.quarks > FEW_QUARKS and i + AHEAD < n:
                    fetch_state(&o, quark[i + AHEAD])
                status = put(&o, time[i], quark[i], word[i], meta[i], kind[i])
                if status != S_DONE:
                    break
                i += 1
            self.keep(o)
        return i, <int>status

    def sort(self):
        """Put the changes in order of time, those of one time in order of arrival."""
        if self.ordered:
            return
        order = np.argsort(self.time_ns[:self.rows], kind="stable")
        for column in (self.time_ns, self.quark, self.word, self.meta):
            column[:self.rows] = column[:self.rows][order]
        self.ordered = True
        self._link()

    def drop(self, Py_ssize_t rows, int64_t boundary_ns):
        """Drop the first `rows` changes, which are sealed: those before `boundary_ns`."""
        cdef Py_ssize_t left = self.rows - rows
        for column in (self.time_ns, self.quark, self.word, self.meta):
            # The two parts of the column can overlap.
            column[:left] = column[rows:self.rows].copy()
        self.rows = left
        self.boundary_ns = boundary_ns
        self._link()

    cdef _link(self):
        # After rows have moved, those of quarks without any are wrong, but never used: such a quark
        # last changed before the boundary, so that a change at the same time is late.
        cdef Py_ssize_t i
        cdef Now* now
        with nogil:
            for i in range(self.rows):
                self._now[self._quark[i]].row = -1
            for i in range(self.rows):
                now = &self._now[self._quark[i]]
                self._before[i] = now.row
                now.row = <int32_t>i


cdef inline bint whole(value, int64_t* number) noexcept:
    """Whether a value is an int of 64 bits, which is written to `number`."""
    cdef int overflow
    if not PyLong_CheckExact(value):
        return False
    number[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0


cdef class Direct:
    """Puts values into a tail, one at a time, where that needs nothing else of the builder.

    Args:
        tail: The tail.
        codes: The codes of strings.
        names: The strings by code.
        most_rows: Puts nothing once more changes than this wait.
        counts: Whether each change is an operation that has to be counted. Then it puts changes
            only for as long as `allow` said.
    """

    cdef Tail tail
    cdef dict codes
    cdef list names
    cdef Py_ssize_t most_rows
    cdef bint counts
    cdef int64_t until_ns, operations

    def __init__(
        self, Tail tail, dict codes: dict[str, int], list names: list[str], Py_ssize_t most_rows, *,
        bint counts=False
    ):
        self.tail, self.codes, self.names, self.most_rows = tail, codes, names, most_rows
        self.counts = counts
        self.until_ns = INT64_MIN
        self.operations = 0

    def allow(self, int64_t ns):
        """Put and count changes for so many nanoseconds."""
        self.until_ns = coarse_ns() + ns

    def stop(self) -> int:
        """Put none until `allow`, if they are counted; return how many were since the last call."""
        operations = self.operations
        self.operations = 0
        self.until_ns = INT64_MIN
        return operations

    def now(self, Py_ssize_t quark) -> Value:
        """Return the value of the state that a quark is in."""
        cdef const Now* now
        cdef double number
        if not 0 <= quark < self.tail.quarks:
            return None
        now = &self.tail._now[quark]
        if now.meta & 1:
            return None
        if self.tail._kind[quark] == 1:
            return self.names[now.word]
        if self.tail._kind[quark] == 2:
            return now.word
        memcpy(&number, &now.word, 8)
        return number

    def put(self, time: int, quark: int, value) -> bool:
        """Put one change; return False, and change nothing, if that needs the builder.

        That is the case for a new string, a number of a rare type, and whatever is wrong.
        """
        cdef int64_t word = 0
        cdef uint32_t meta = 0
        cdef uint8_t kind = 1
        cdef double number
        if type(value) is str:
            code = self.codes.get(value)
            if code is None:
                return False
            word = code
        elif value is None:
            meta, kind = 1, 0
        elif whole(value, &word):
            kind = 2
        elif type(value) is float:
            # equal numbers are one value, and so are all NaNs, which the builder sees to
            number = <double>value + 0.0
            if number != number:
                return False
            memcpy(&word, &number, 8)
            kind = 3
        else:
            return False
        return self.put_word(time, quark, word, meta, kind)

    def add(self, time: int, quark: int, amount) -> bool:
        """Add to the number of a quark; return False as `put` does."""
        cdef const Now* now
        cdef int64_t more = 0, word, where = 0
        cdef double number
        cdef uint8_t kind
        if not whole(quark, &where) or not 0 <= where < self.tail.quarks:
            return False
        now = &self.tail._now[where]
        word = 0 if now.meta & 1 else now.word
        kind = self.tail._kind[where]
        if (kind == 0 or kind == 2) and whole(amount, &more):
            if (more > 0 and word > INT64_MAX - more) or (more < 0 and word < INT64_MIN - more):
                return False
            return self.put_word(time, quark, word + more, 0, 2)
        if type(amount) is float and kind == 3:
            memcpy(&number, &word, 8)
            number = number + <double>amount + 0.0
            if number != number:
                return False
            memcpy(&word, &number, 8)
            return self.put_word(time, quark, word, 0, 3)
        return False

    cdef bint put_word(self, time, quark, int64_t word, uint32_t meta, uint8_t kind) noexcept:
        cdef Open o
        cdef Status status
        cdef int64_t at = 0, where = 0
        if (
            not whole(time, &at) or not whole(quark, &where)
            or not 0 <= where < self.tail.quarks or self.tail.rows > self.most_rows
            or (self.counts and coarse_ns() >= self.until_ns)
        ):
            return False
        o = self.tail.open()
        status = put(&o, at, <int32_t>where, word, meta, kind)
        self.tail.keep(o)
        self.operations += status == S_DONE
        return status == S_DONE
