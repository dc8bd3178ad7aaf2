"""Begins and ends of a log that belong together."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL


cdef class Matches:
    """The spans of some events; a span is begun at one of them, or was open before them.

    Args:
        counts: int32, by pair: how many codes its keys have.
        candidates: By pair, int32: which other pairs contain it.
        numbers: int32, by span that is open: which pair it is of. These spans are in order of their
            begins.
        codes: int32, by such a span: the code of its key, which no other one of its pair has.
        parents: int32, by such a span: which one contains it; -1 for none.
        begins: How many spans `run` may begin.

    Attributes:
        number, parent: int32, by span: as above; of those that `run` began, too.
        begin: int64, by span: the event that began it; -1 if it was open before.
        closed: int64, by span: the event at which it ended; -1 if it is open.
        end: int64, by span: its own end; -1 if it has none.
        ended_by: int64, by span: the end of what contains it, if that ended it; -1 if not.
        count: How many spans there are.
        without_end: How many ended without an end of their own.
        without_begin: How many ends no span has.
    """

    cdef readonly object number, parent  #: Int32s
    cdef readonly object begin, closed, end, ended_by  #: Int64s
    cdef readonly Py_ssize_t count, without_end, without_begin
    cdef Py_ssize_t room, pairs
    cdef object code_array, first_array, open_array, child_array, next_array, before_array, stack_array
    cdef list candidates
    cdef int32_t *number_of
    cdef int32_t *parent_of
    cdef int32_t *code_of
    cdef int64_t *begin_of
    cdef int64_t *closed_of
    cdef int64_t *end_of
    cdef int64_t *ended_by_of
    cdef int64_t *first  # by pair: where its codes are in `opened`
    cdef int32_t *opened  # by pair and code: the span that is open, or -1
    cdef int32_t *child  # by span: the latest of the open ones in it, and beside it, or -1
    cdef int32_t *next
    cdef int32_t *before
    cdef int32_t *stack

    def __cinit__(
        self, counts: Int32s, list candidates: list[Int32s], numbers: Int32s, codes: Int32s,
        parents: Int32s, Py_ssize_t begins
    ):
        cdef Py_ssize_t each, known
        cdef const int32_t *count_of = <const int32_t*>INT32_ITEMS(counts, &self.pairs)
        cdef const int32_t *numbered = <const int32_t*>INT32_ITEMS(numbers, &known)
        cdef const int32_t *coded = <const int32_t*>INT32_ITEMS(codes, NULL)
        cdef const int32_t *inside = <const int32_t*>INT32_ITEMS(parents, NULL)
        if len(codes) != known or len(parents) != known or len(candidates) != self.pairs or begins < 0:
            raise ValueError("each span has a pair, a key and a parent")
        self.room = room = known + begins
        self.candidates = candidates
        self.number, self.parent = np.empty(room, np.int32), np.full(room, -1, np.int32)
        self.begin, self.closed = np.full(room, -1, np.int64), np.full(room, -1, np.int64)
        self.end, self.ended_by = np.full(room, -1, np.int64), np.full(room, -1, np.int64)
        self.code_array, self.stack_array = np.empty(room, np.int32), np.empty(room, np.int32)
        self.child_array, self.next_array = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
        self.before_array = np.full(room, -1, np.int32)
        self.first_array = np.append(0, np.cumsum(counts, dtype=np.int64))
        self.open_array = np.full(int(np.sum(counts)), -1, np.int32)
        self.number_of = <int32_t*>INT32_ITEMS(self.number, NULL)
        self.parent_of = <int32_t*>INT32_ITEMS(self.parent, NULL)
        self.code_of = <int32_t*>INT32_ITEMS(self.code_array, NULL)
        self.begin_of = <int64_t*>INT64_ITEMS(self.begin, NULL)
        self.closed_of = <int64_t*>INT64_ITEMS(self.closed, NULL)
        self.end_of = <int64_t*>INT64_ITEMS(self.end, NULL)
        self.ended_by_of = <int64_t*>INT64_ITEMS(self.ended_by, NULL)
        self.first = <int64_t*>INT64_ITEMS(self.first_array, NULL)
        self.opened = <int32_t*>INT32_ITEMS(self.open_array, NULL)
        self.child = <int32_t*>INT32_ITEMS(self.child_array, NULL)
        self.next = <int32_t*>INT32_ITEMS(self.next_array, NULL)
        self.before = <int32_t*>INT32_ITEMS(self.before_array, NULL)
        self.stack = <int32_t*>INT32_ITEMS(self.stack_array, NULL)
        for each in range(known):
            if not (0 <= numbered[each] < self.pairs and 0 <= coded[each] < count_of[numbered[each]]):
                raise ValueError("a key has no code")
            if not -1 <= inside[each] < each:
                raise ValueError("what contains a span begins before it")
            self._open(numbered[each], coded[each], inside[each])

    cdef void _open(self, int32_t number, int32_t code, int32_t parent) noexcept nogil:
        cdef int32_t span = <int32_t>self.count
        self.number_of[span], self.code_of[span], self.parent_of[span] = number, code, parent
        self.opened[self.first[number] + code] = span
        self.count += 1
        if parent >= 0:
            self.next[span] = self.child[parent]
            if self.child[parent] >= 0:
                self.before[self.child[parent]] = span
            self.child[parent] = span

    cdef void _close(self, int32_t closed, int64_t event, int64_t end) noexcept nogil:
        """Close a span and the open ones in it, which have no end of their own."""
        cdef int32_t span, inner, parent = self.parent_of[closed]
        cdef Py_ssize_t waiting = 1
        if parent >= 0:
            if self.before[closed] >= 0:
                self.next[self.before[closed]] = self.next[closed]
            else:
                self.child[parent] = self.next[closed]
            if self.next[closed] >= 0:
                self.before[self.next[closed]] = self.before[closed]
        self.stack[0] = closed
        while waiting:
            waiting -= 1
            span = self.stack[waiting]
            self.opened[self.first[self.number_of[span]] + self.code_of[span]] = -1
            self.closed_of[span] = event
            self.without_end += self.end_of[span] < 0
            if span != closed:
                self.ended_by_of[span] = end
            inner = self.child[span]
            while inner >= 0:
                self.stack[waiting] = inner
                waiting += 1
                inner = self.next[inner]

    def run(
        self, events: Int64s, numbers: Int32s, begins: npt.NDArray[np.uint8],
        list codes: list[Int32s]
    ):
        """Begin and end spans.

        Args:
            events: int64, ascending: the event of each begin or end.
            numbers: int32, which pair it is of.
            begins: uint8, whether it is a begin.
            codes: By pair, int32, by event: the code of its key.
        """
        cdef Py_ssize_t i, n, each, size
        cdef const int64_t *event = <const int64_t*>INT64_ITEMS(events, &n)
        cdef const int32_t *number = <const int32_t*>INT32_ITEMS(numbers, NULL)
        cdef const uint8_t *is_begin = <const uint8_t*>UINT8_ITEMS(begins, NULL)
        if len(numbers) != n or len(begins) != n or len(codes) != self.pairs:
            raise ValueError("each begin or end has an event and a pair")
        cdef Py_ssize_t rows = len(codes[0]) if codes else 0
        every = np.concatenate(codes) if codes else np.empty(0, np.int32)
        cdef const int32_t *code = <const int32_t*>INT32_ITEMS(every, &size)
        cdef Py_ssize_t most = self.room
        inside = np.concatenate([np.empty(0, np.int32), *self.candidates]).astype(np.int32)
        bounds = np.cumsum([0, *map(len, self.candidates)], dtype=np.int64)
        cdef const int32_t *candidate = <const int32_t*>INT32_ITEMS(inside, NULL)
        cdef const int64_t *bound = <const int64_t*>INT64_ITEMS(bounds, NULL)
        cdef int32_t own, span, other, parent
        cdef int64_t at
        cdef bint bad = size != rows * self.pairs
        with nogil:
            for i in range(n):
                if bad or not (0 <= number[i] < self.pairs and 0 <= event[i] < rows):
                    bad = True
                    break
                own = code[number[i] * rows + event[i]]
                if own < 0 or own >= self.first[number[i] + 1] - self.first[number[i]]:
                    bad = True
                    break
                span = self.opened[self.first[number[i]] + own]
                if not is_begin[i]:
                    if span < 0:
                        self.without_begin += 1
                        continue
                    self.end_of[span] = event[i]
                    self._close(span, event[i], event[i])
                    continue
                if span >= 0:
                    # it was begun again without an end
                    self._close(span, event[i], -1)
                if self.count == most:
                    bad = True
                    break
                parent = -1
                for at in range(bound[number[i]], bound[number[i] + 1]):
                    other = candidate[at]
                    own = code[other * rows + event[i]]
                    if own < 0 or own >= self.first[other + 1] - self.first[other]:
                        continue
                    parent = max(parent, self.opened[self.first[other] + own])
                own = code[number[i] * rows + event[i]]
                self.begin_of[self.count] = event[i]
                self._open(number[i], own, parent)
        if bad:
            raise ValueError("an event, a pair or a key is not known")
