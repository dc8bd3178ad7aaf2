"""Spans of services as rows, and what they are to each other; see `service_state.h`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

from meantime.kernels.intern cimport intern_table, texts_of
from meantime.kernels.memory cimport column

cdef extern from "arrays.h":
    void *UINT8_ITEMS(object array, Py_ssize_t *count) except NULL
    void *INT64_ITEMS(object array, Py_ssize_t *count) except NULL
    void *INT32_ITEMS(object array, Py_ssize_t *count) except NULL

cdef extern from "service_state.h" nogil:
    enum:
        SV_MORE
        SV_DOCUMENT
        SV_RESOURCE
        SV_SCOPE
        SV_SPAN
        SV_REFUSED
        SV_NO_MEMORY
        SV_MOST_WORDS
    ctypedef struct sv_row:
        int64_t start_ns, end_ns, offset
        uint64_t trace_high, trace_low, span, parent
        int32_t length, resource, thread, name, category
        uint8_t kind, forms, is_error, is_unfinished
    ctypedef struct sv_point:
        int64_t row, time_ns, offset
        int32_t length, name
    ctypedef struct sv_link:
        int64_t row, forms
        uint64_t trace_high, trace_low, span
    ctypedef struct sv_table:
        void *items
        int64_t count, room
    ctypedef struct sv_text:
        char *at
        int64_t size, room
    ctypedef struct sv_string:
        const char *at
        uint32_t size
        int is_escaped
    ctypedef struct sv_mark:
        pass
    ctypedef struct sv_scan:
        sv_table rows, points, links, resource_codes, scope_codes
        intern_table names, threads, resources, scopes, keys
        sv_text text
        int64_t is_private, dropped, scanned
        sv_string private_words[1]
        sv_string own_words[1]
        int private_count, own_count
        int32_t resource, category
        int64_t position, stop_offset, stop_length
    void *sv_push(sv_table *table, size_t width)
    int sv_put(sv_scan *s, sv_text *text, const char *at, size_t size)
    int32_t sv_code(sv_scan *s, intern_table *table, sv_string string, uint32_t context)
    int sv_learn(intern_table *table, sv_table *codes, const char *at, size_t size, int32_t code)
    int sv_forget(intern_table *table, sv_table *codes)
    void sv_begin(sv_scan *s, int is_message, int64_t size)
    sv_mark sv_marked(const sv_scan *s)
    void sv_back(sv_scan *s, const sv_mark *mark)
    int strings_init(intern_table *table, uint64_t seed)
    void sv_free(sv_scan *s)

cdef extern from "service_json.h" nogil:
    int sv_json_scan(sv_scan *s, const char *block, int64_t size, int is_last)

cdef extern from "service_protobuf.h" nogil:
    int sv_pb_scan(sv_scan *s, const char *block, int64_t size)

cdef extern from "service_relations.h" nogil:
    int sv_lanes(const int64_t *start, const int64_t *end, const int64_t *parent, int64_t count,
                 int32_t *lane_of, int32_t *level_of)
    int sv_lanes_of(const int64_t *rows, int64_t count, const int64_t *start, const int64_t *end,
                    const int64_t *parent, int64_t *local, int32_t *lane_of, int32_t *level)
    int sv_grouped(const int32_t *codes, int64_t count, const int64_t *order, int64_t chosen,
                   int64_t groups, int64_t *rows, int64_t *edges)
    int64_t sv_generations(int64_t *parent, int64_t *generation, int64_t count)
    int sv_relate(const sv_row *rows, int64_t count, const sv_link *links, int64_t link_count,
                  uint64_t seed, int64_t *parent, int64_t *linked, int64_t *ids_found,
                  int64_t *missing)
    void sv_split(const sv_row *rows, int64_t count, int64_t *start_ns, int64_t *end_ns,
                  int32_t *resource, int32_t *thread, uint8_t *kind, uint8_t *is_unfinished)
    int sv_chosen(const sv_row *rows, int64_t count, const int64_t *order, int64_t chosen,
                  const int32_t *names, int64_t codes, int32_t *name, int32_t *category,
                  int64_t *offset, int32_t *length)
    int64_t sv_open_counts(const int64_t *start, const int64_t *end, int64_t count, int64_t first,
                           int64_t *time_ns, int64_t *open)

# Why a scan returned.
MORE, DOCUMENT, RESOURCE, SCOPE = SV_MORE, SV_DOCUMENT, SV_RESOURCE, SV_SCOPE
SPAN, REFUSED = SV_SPAN, SV_REFUSED

# The header explains them.
ROW = np.dtype(
    [("start_ns", "i8"), ("end_ns", "i8"), ("trace_high", "u8"), ("trace_low", "u8"),
     ("span", "u8"), ("parent", "u8"), ("offset", "i8"), ("length", "i4"), ("resource", "i4"),
     ("thread", "i4"), ("name", "i4"), ("category", "i4"), ("kind", "u1"), ("forms", "u1"),
     ("is_error", "u1"), ("is_unfinished", "u1")])
POINT = np.dtype(
    [("row", "i8"), ("time_ns", "i8"), ("offset", "i8"), ("length", "i4"), ("name", "i4")])
LINK = np.dtype(
    [("row", "i8"), ("trace_high", "u8"), ("trace_low", "u8"), ("span", "u8"), ("forms", "i8")])
assert sizeof(sv_row) == ROW.itemsize and sizeof(sv_point) == POINT.itemsize
assert sizeof(sv_link) == LINK.itemsize


cdef uint64_t _seed():
    return <uint64_t>int.from_bytes(os.urandom(8), "little")


cdef sv_string _string(bytes text) except *:
    cdef sv_string string
    if len(text) > 0x7FFFFFFF:
        raise MemoryError
    string.at, string.size, string.is_escaped = text, <uint32_t>len(text), 0
    return string


cdef class ServiceRows:
    """The spans of an input, of which documents are scanned, or single ones added.

    Args:
        private: Texts of the names of attributes that are counted and left out; see
            `private_names.h`.
        own: The names of attributes that a span of the usual form does not have.
    """

    cdef sv_scan found
    cdef sv_mark marked
    cdef tuple words

    def __cinit__(self, tuple private: tuple[bytes, ...], tuple own: tuple[bytes, ...]):
        cdef uint64_t seed = _seed()
        cdef int i
        if len(private) > SV_MOST_WORDS or len(own) > SV_MOST_WORDS:
            raise ValueError("there are too many words")
        self.words = private, own
        for i in range(len(private)):
            self.found.private_words[i] = _string(private[i])
        for i in range(len(own)):
            self.found.own_words[i] = _string(own[i])
        self.found.private_count, self.found.own_count = len(private), len(own)
        if not (strings_init(&self.found.names, seed) and strings_init(&self.found.threads, seed)
                and strings_init(&self.found.resources, seed)
                and strings_init(&self.found.scopes, seed)
                and strings_init(&self.found.keys, seed)):
            raise MemoryError

    def __dealloc__(self):
        sv_free(&self.found)

    def __len__(self) -> int:
        return self.found.rows.count

    def begin(self, int64_t message_bytes=-1):
        """Begin a document of JSON, or a message of protobuf of this size, and mark its first row."""
        self.marked = sv_marked(&self.found)
        sv_begin(&self.found, message_bytes >= 0, message_bytes)

    def take_back(self):
        """Forget the rows of this document, and the resources and scopes."""
        sv_back(&self.found, &self.marked)
        if not (sv_forget(&self.found.resources, &self.found.resource_codes)
                and sv_forget(&self.found.scopes, &self.found.scope_codes)):
            raise MemoryError

    def scan_json(self, block: bytes | memoryview, bint last) -> int:
        """Read on in a document, and return why that stopped; `position` is up to where it was read.

        Args:
            block: The document's bytes from the last `position` on.
            last: Whether these are all.
        """
        cdef Py_ssize_t size
        cdef int why
        cdef const char *at = <const char*>UINT8_ITEMS(block, &size)
        with nogil:
            why = sv_json_scan(&self.found, at, size, last)
        if why == SV_NO_MEMORY:
            raise MemoryError
        return why

    def scan_message(self, block: bytes | memoryview) -> int:
        """Read on in a message, of which a block has all bytes; return why that stopped."""
        cdef Py_ssize_t size
        cdef int why
        cdef const char *at = <const char*>UINT8_ITEMS(block, &size)
        with nogil:
            why = sv_pb_scan(&self.found, at, size)
        if why == SV_NO_MEMORY:
            raise MemoryError
        return why

    @property
    def position(self) -> int:
        """Where in the block the next scan begins."""
        return self.found.position

    @property
    def stopped(self) -> tuple[int, int]:
        """The begin and the end in the block of what the scan stopped at."""
        return self.found.stop_offset, self.found.stop_offset + self.found.stop_length

    @property
    def context(self) -> tuple[int, int]:
        """The code of the resource of the span that a scan stopped at, and its category."""
        return self.found.resource, self.found.category

    def learn_resource(self, bytes text, int32_t code):
        """Say what a resource's text means: the code of its spans."""
        if not sv_learn(&self.found.resources, &self.found.resource_codes, text, len(text), code):
            raise MemoryError

    def learn_scope(self, bytes text, int32_t category):
        """Say what a scope's text means: the category of its spans, -1 for none."""
        if not sv_learn(&self.found.scopes, &self.found.scope_codes, text, len(text), category + 1):
            raise MemoryError

    def put(
        self, tuple times: tuple[int, int], tuple ids: tuple[int, int, int, int],
        tuple codes: tuple[int, int], tuple flags: tuple[int, int, bool, bool], bytes name,
        bytes thread, bytes text
    ):
        """Add a span.

        Args:
            times: When it began and ended.
            ids: The trace's id as two words, the span's and its parent's.
            codes: Its resource and its category.
            flags: Its kind, which of the ids are other codes (1 the trace's, 2 its own, 4 its
                parent's), whether it failed, and whether it is unfinished.
            name: What it is called.
            thread: What it ran on; empty for unknown.
            text: Its arguments.
        """
        cdef sv_row row
        row.start_ns, row.end_ns = times
        row.trace_high, row.trace_low, row.span, row.parent = ids
        row.resource, row.category = codes
        row.kind, row.forms, row.is_error, row.is_unfinished = flags
        row.thread = -1
        if thread:
            row.thread = sv_code(
                &self.found, &self.found.threads, _string(thread), <uint32_t>row.resource)
        row.name = sv_code(&self.found, &self.found.names, _string(name), 0)
        row.offset, row.length = self._put_text(text)
        cdef sv_row *to = <sv_row*>sv_push(&self.found.rows, sizeof(sv_row))
        if row.name < 0 or (thread and row.thread < 0) or to == NULL:
            raise MemoryError
        to[0] = row

    def put_point(self, int64_t row, int64_t time_ns, bytes name, bytes text):
        """Add what happened during a span; a time of 0 is unknown."""
        cdef int32_t code = sv_code(&self.found, &self.found.names, _string(name), 0)
        offset, length = self._put_text(text)
        cdef sv_point *to = <sv_point*>sv_push(&self.found.points, sizeof(sv_point))
        if code < 0 or to == NULL:
            raise MemoryError
        to.row, to.time_ns, to.offset, to.length, to.name = row, time_ns, offset, length, code

    def put_link(self, int64_t row, uint64_t trace_high, uint64_t trace_low, uint64_t span,
                 int64_t forms):
        """Add the id of another span that a span is linked to."""
        cdef sv_link *to = <sv_link*>sv_push(&self.found.links, sizeof(sv_link))
        if to == NULL:
            raise MemoryError
        to.row, to.trace_high, to.trace_low, to.span, to.forms = (
            row, trace_high, trace_low, span, forms)

    cdef tuple _put_text(self, bytes text):
        if not text:
            return 0, 0
        offset = self.found.text.size
        if len(text) > 0x7FFFFFFF or not sv_put(&self.found, &self.found.text, text, len(text)):
            raise MemoryError
        return offset, len(text)

    def text(self) -> npt.NDArray[np.uint8]:
        """Return the arguments of all rows, one after the other; moved out."""
        text = column(<void**>&self.found.text.at, self.found.text.size, np.uint8)
        self.found.text.size = self.found.text.room = 0
        return text

    def rows(self) -> npt.NDArray[np.void]:
        """Return all spans, an array of `ROW`; moved out."""
        return _taken(&self.found.rows, ROW)

    def points(self) -> npt.NDArray[np.void]:
        """Return what happened during spans, an array of `POINT`; moved out."""
        return _taken(&self.found.points, POINT)

    def links(self) -> npt.NDArray[np.void]:
        """Return the links of spans, an array of `LINK`; moved out."""
        return _taken(&self.found.links, LINK)

    def names(self) -> list[bytes]:
        """Return the names of spans and points, by code."""
        return texts_of(&self.found.names)

    def threads(self) -> tuple[list[bytes], list[int]]:
        """Return the names of threads, and the resource of each, by code."""
        cdef int32_t i
        return texts_of(&self.found.threads), [
            self.found.threads.contexts[i] for i in range(self.found.threads.count)]

    def counts(self) -> tuple[int, int, int]:
        """Return how many spans were scanned, and fields left out: private ones, and by the program."""
        return self.found.scanned, self.found.is_private, self.found.dropped


cdef object _taken(sv_table *table, object dtype):
    rows = column(&table.items, table.count, dtype)
    table.count = table.room = 0
    return rows


cdef sv_row *_row_items(object rows, Py_ssize_t *count) except NULL:
    if rows.dtype != ROW:
        raise TypeError("the rows must be of spans")
    count[0] = len(rows)
    return <sv_row*>UINT8_ITEMS(rows.view(np.uint8), NULL)


def split(
    rows: npt.NDArray[np.void]
) -> tuple[Int64s, Int64s, Int32s, Int32s, npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Return the starts, ends, resources, threads, kinds and unfinished flags of spans.

    Args:
        rows: An array of `ROW`.
    """
    cdef Py_ssize_t count
    cdef sv_row *items = _row_items(rows, &count)
    start_ns, end_ns = np.empty(count, np.int64), np.empty(count, np.int64)
    resource, thread = np.empty(count, np.int32), np.empty(count, np.int32)
    kind, unfinished = np.empty(count, np.uint8), np.empty(count, np.uint8)
    cdef int64_t *starts = <int64_t*>INT64_ITEMS(start_ns, NULL)
    cdef int64_t *ends = <int64_t*>INT64_ITEMS(end_ns, NULL)
    cdef int32_t *resources = <int32_t*>INT32_ITEMS(resource, NULL)
    cdef int32_t *threads = <int32_t*>INT32_ITEMS(thread, NULL)
    cdef uint8_t *kinds = <uint8_t*>UINT8_ITEMS(kind, NULL)
    cdef uint8_t *flags = <uint8_t*>UINT8_ITEMS(unfinished, NULL)
    with nogil:
        sv_split(items, count, starts, ends, resources, threads, kinds, flags)
    return start_ns, end_ns, resource, thread, kind, unfinished != 0


def chosen(
    rows: npt.NDArray[np.void], order: Int64s, names: Int32s
) -> tuple[Int32s, Int32s, Int64s, Int32s]:
    """Return the names, the categories, and where the arguments are of some spans.

    Args:
        rows: An array of `ROW`.
        order: int64, which of these.
        names: int32, the code of each name.
    """
    cdef Py_ssize_t count, some, codes
    cdef int done
    cdef sv_row *items = _row_items(rows, &count)
    cdef int64_t *of = <int64_t*>INT64_ITEMS(order, &some)
    cdef int32_t *name_codes = <int32_t*>INT32_ITEMS(names, &codes)
    name, category = np.empty(some, np.int32), np.empty(some, np.int32)
    offset, length = np.empty(some, np.int64), np.empty(some, np.int32)
    cdef int32_t *to_name = <int32_t*>INT32_ITEMS(name, NULL)
    cdef int32_t *to_category = <int32_t*>INT32_ITEMS(category, NULL)
    cdef int64_t *to_offset = <int64_t*>INT64_ITEMS(offset, NULL)
    cdef int32_t *to_length = <int32_t*>INT32_ITEMS(length, NULL)
    with nogil:
        done = sv_chosen(items, count, of, some, name_codes, codes, to_name, to_category, to_offset,
                         to_length)
    if not done:
        raise ValueError("a span is not there")
    return name, category, offset, length


def relate(
    rows: npt.NDArray[np.void], links: npt.NDArray[np.void]
) -> tuple[Int64s, Int64s, int, int]:
    """Find the parents of spans, and what links lead to.

    Returns:
        The row of each span's parent, -1 for none; the first row of what each link leads to, -1 for
        none; how many different ids there are; and how many parents have no row.

    Args:
        rows: An array of `ROW`.
        links: An array of `LINK`.
    """
    cdef int64_t ids = 0, missing = 0, count = len(rows), link_count = len(links)
    cdef uint64_t seed = _seed()
    cdef int done
    parent, linked = np.empty(count, np.int64), np.empty(link_count, np.int64)
    row_bytes = np.ascontiguousarray(rows, ROW).view(np.uint8)
    link_bytes = np.ascontiguousarray(links, LINK).view(np.uint8)
    cdef sv_row *row_items = <sv_row*>UINT8_ITEMS(row_bytes, NULL)
    cdef sv_link *link_items = <sv_link*>UINT8_ITEMS(link_bytes, NULL)
    cdef int64_t *parents = <int64_t*>INT64_ITEMS(parent, NULL)
    cdef int64_t *linked_items = <int64_t*>INT64_ITEMS(linked, NULL)
    with nogil:
        done = sv_relate(row_items, count, link_items, link_count, seed, parents, linked_items,
                         &ids, &missing)
    if not done:
        raise MemoryError
    return parent, linked, ids, missing


def generations(parent: Int64s) -> tuple[Int64s, int]:
    """Return how many ancestors each row has, and how many cycles of parents were cut.

    A cycle is cut at one of its rows, of which the parent becomes -1.

    Args:
        parent: int64, the row of each row's parent; -1 for none.
    """
    cdef Py_ssize_t count
    cdef int64_t cycles
    cdef int64_t *parents = <int64_t*>INT64_ITEMS(parent, &count)
    _check_rows(parent)
    generation = np.empty(count, np.int64)
    cdef int64_t *to = <int64_t*>INT64_ITEMS(generation, NULL)
    with nogil:
        cycles = sv_generations(parents, to, count)
    if cycles < 0:
        raise MemoryError
    return generation, cycles


def _check_rows(parent):
    if len(parent) and not (parent.min() >= -1 and parent.max() < len(parent)):
        raise ValueError("a parent is not a row")


def lanes_of(start_ns: Int64s, end_ns: Int64s, parent: Int64s) -> tuple[Int32s, Int32s]:
    """Return the lane and the level of each span; see `readers.services.lanes`."""
    cdef Py_ssize_t count, ends, parents
    cdef int done
    cdef int64_t *start = <int64_t*>INT64_ITEMS(start_ns, &count)
    cdef int64_t *end = <int64_t*>INT64_ITEMS(end_ns, &ends)
    cdef int64_t *above = <int64_t*>INT64_ITEMS(parent, &parents)
    if not count == ends == parents <= 0x7FFFFFFF:
        raise ValueError("the columns must be of the same length")
    _check_rows(parent)
    lane, level = np.empty(count, np.int32), np.empty(count, np.int32)
    cdef int32_t *lanes = <int32_t*>INT32_ITEMS(lane, NULL)
    cdef int32_t *levels = <int32_t*>INT32_ITEMS(level, NULL)
    with nogil:
        done = sv_lanes(start, end, above, count, lanes, levels)
    if not done:
        raise MemoryError
    return lane, level


def grouped(codes: Int32s, order: Int64s, int64_t groups) -> tuple[Int64s, Int64s]:
    """Return rows sorted by their codes, in their order otherwise, and where those of each begin.

    Args:
        codes: int32, the code of each row, below `groups`.
        order: int64, the rows in an order.
    """
    cdef Py_ssize_t count, chosen
    cdef int done
    cdef int32_t *items = <int32_t*>INT32_ITEMS(codes, &count)
    cdef int64_t *of = <int64_t*>INT64_ITEMS(order, &chosen)
    if groups < 0:
        raise ValueError("there must be codes")
    rows, edges = np.empty(chosen, np.int64), np.zeros(groups + 1, np.int64)
    cdef int64_t *to_rows = <int64_t*>INT64_ITEMS(rows, NULL)
    cdef int64_t *to_edges = <int64_t*>INT64_ITEMS(edges, NULL)
    with nogil:
        done = sv_grouped(items, count, of, chosen, groups, to_rows, to_edges)
    if not done:
        raise ValueError("a row or a code is not there")
    return rows, edges


def lanes_of_groups(
    start_ns: Int64s, end_ns: Int64s, parent: Int64s, groups: Sequence[Int64s], level: Int32s
) -> list[Int32s]:
    """Lay out the spans of each group; return the lanes of each, in the order of its rows.

    A parent in another group is none. See `readers.services.lanes`.

    Args:
        start_ns: int64, when the spans of all groups began.
        end_ns: int64, when they ended.
        parent: int64, the row of each span's parent; -1 for none.
        groups: The rows of each group, each an int64 array in the order that lanes need; no row is
            in two of them.
        level: int32, of as many spans: how many spans each is nested in is written here.
    """
    cdef Py_ssize_t count, ends, parents, levels, own
    cdef int done
    cdef int64_t *start = <int64_t*>INT64_ITEMS(start_ns, &count)
    cdef int64_t *end = <int64_t*>INT64_ITEMS(end_ns, &ends)
    cdef int64_t *above = <int64_t*>INT64_ITEMS(parent, &parents)
    cdef int32_t *to_level = <int32_t*>INT32_ITEMS(level, &levels)
    cdef int32_t *lanes
    cdef int64_t *of
    if not count == ends == parents == levels <= 0x7FFFFFFF:
        raise ValueError("the columns must be of the same length")
    _check_rows(parent)
    local = np.full(count, -1, np.int64)
    cdef int64_t *locals = <int64_t*>INT64_ITEMS(local, NULL)
    found = []
    for rows in groups:
        of = <int64_t*>INT64_ITEMS(rows, &own)
        if own > count or (own and not (rows.min() >= 0 and rows.max() < count)):
            raise ValueError("a row is not there")
        lane = np.empty(own, np.int32)
        lanes = <int32_t*>INT32_ITEMS(lane, NULL)
        with nogil:
            done = sv_lanes_of(of, own, start, end, above, locals, lanes, to_level)
        if not done:
            raise MemoryError
        found.append(lane)
    return found


def open_counts(start_ns: Int64s, end_ns: Int64s, int64_t first_ns) -> tuple[Int64s, Int64s]:
    """Return how many of some spans are open, from each time on at which that changes.

    Returns:
        The times, from `first_ns` on, and the numbers.

    Args:
        start_ns: int64, when spans began, ascending.
        end_ns: int64, when they ended, ascending; as many.
        first_ns: A time before all of these.
    """
    cdef Py_ssize_t count, ends
    cdef int64_t found
    cdef int64_t *start = <int64_t*>INT64_ITEMS(start_ns, &count)
    cdef int64_t *end = <int64_t*>INT64_ITEMS(end_ns, &ends)
    if count != ends:
        raise ValueError("the columns must be of the same length")
    time_ns, number = np.empty(2 * count + 1, np.int64), np.empty(2 * count + 1, np.int64)
    cdef int64_t *times = <int64_t*>INT64_ITEMS(time_ns, NULL)
    cdef int64_t *numbers = <int64_t*>INT64_ITEMS(number, NULL)
    with nogil:
        found = sv_open_counts(start, end, count, first_ns, times, numbers)
    return time_ns[:found], number[:found]
