"""The attribute tree as columns: names in one blob, children as linked lists, paths by hashing.

Quarks are the indices of the columns; `ROOT` is -1. Links and hashes are made when they are first
needed, so that a tree from a file costs only its columns until it is asked. Nothing here releases
the interpreter's lock: another thread may be adding attributes, which moves the columns.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from cython cimport final
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from "rows.h" nogil:
    void prefetch(const void*)

from meantime.kernels.intern cimport intern_fold, intern_text, intern_text_of

import os

import numpy as np

# Up to so many children are compared one after another, which is faster than hashing: they are
# near each other in memory.
cdef enum:
    FEW_CHILDREN = 4
    LEAST_SLOTS = 64
    RECENT_NAMES = 4096
    # How many names of a path are compared with those of the path before.
    SAME_NAMES = 8
    # A name that is longer than this many bytes is written each time, so that a small file cannot
    # ask for much memory.
    LONGEST_REPEATED = 64
    # A number with more digits may not fit into 64 bits.
    MOST_DIGITS = 18
    # How many rows before it is looked up a slot is fetched.
    AHEAD = 16


cdef struct SortKey:
    int64_t given
    int64_t number
    # The first bytes of the name as a number: most names differ in them, and reading others of
    # a million names waits for memory.
    uint64_t beginning
    const char* name
    int64_t size
    int32_t row
    bint last


cdef int compared(const void* left, const void* right) noexcept nogil:
    cdef const SortKey* a = <const SortKey*>left
    cdef const SortKey* b = <const SortKey*>right
    cdef int order
    if a.given != b.given:
        return -1 if a.given < b.given else 1
    if a.last != b.last:
        return -1 if b.last else 1
    if a.number != b.number:
        return -1 if a.number < b.number else 1
    if a.beginning != b.beginning:
        return -1 if a.beginning < b.beginning else 1
    # The order of UTF-8 as bytes is that of its characters.
    order = memcmp(a.name, b.name, min(a.size, b.size))
    if order:
        return order
    return (a.size > b.size) - (a.size < b.size)


cdef int32_t* grown(int32_t* column, Py_ssize_t rows) except NULL:
    cdef int32_t* larger = <int32_t*>realloc(column, rows * sizeof(int32_t))
    if larger == NULL:
        raise MemoryError
    return larger


@final
cdef class AttributeTree:
    """Attributes, each with a name and a parent that comes before it."""

    cdef Py_ssize_t count, room, linked, hashed
    cdef int32_t* parents
    cdef int64_t* offsets
    cdef char* text
    cdef int64_t text_room
    # By quark + 1, since the root is -1: the first and the last child, and the next sibling.
    cdef int32_t* first
    cdef int32_t* last
    cdef int32_t* sibling
    cdef Py_ssize_t link_room
    # Open addressing; half of the slots at least are -1, so that probing ends.
    cdef int32_t* slots
    cdef uint64_t slot_mask
    # The names are untrusted.
    cdef uint64_t seed

    def __cinit__(self):
        self.seed = <uint64_t>int.from_bytes(os.urandom(8), "little")
        self.reserve(16, 256)
        self.offsets[0] = 0

    def __dealloc__(self):
        free(self.parents)
        free(self.offsets)
        free(self.text)
        free(self.first)
        free(self.last)
        free(self.sibling)
        free(self.slots)

    def __len__(self) -> int:
        return self.count

    cdef int reserve(self, Py_ssize_t rows, int64_t text_bytes) except -1:
        """Make room for so many attributes and bytes of names in all."""
        cdef int64_t* offsets
        cdef char* text
        if rows > self.room:
            rows = max(rows, 2 * self.room)
            self.parents = grown(self.parents, rows)
            offsets = <int64_t*>realloc(self.offsets, (rows + 1) * sizeof(int64_t))
            if offsets == NULL:
                raise MemoryError
            self.offsets = offsets
            self.room = rows
        if text_bytes > self.text_room:
            text_bytes = max(text_bytes, 2 * self.text_room)
            text = <char*>realloc(self.text, text_bytes)
            if text == NULL:
                raise MemoryError
            self.text = text
            self.text_room = text_bytes
        return 0

    cdef uint64_t slot_of(self, int32_t parent, const char* name, Py_ssize_t size) noexcept nogil:
        cdef intern_text text = intern_text_of(name, size)
        cdef uint64_t more = <uint64_t>size | (<uint64_t><uint32_t>parent) << 32
        return intern_fold(
            text.first ^ self.seed,
            text.second ^ more * <uint64_t>0xD6E8FEB86659FD93 ^ <uint64_t>0xA0761D6478BD642F,
        ) & self.slot_mask

    cdef bint has_name(self, int32_t quark, const char* name, Py_ssize_t size) noexcept nogil:
        return (
            self.offsets[quark + 1] - self.offsets[quark] == size
            and memcmp(self.text + self.offsets[quark], name, size) == 0
        )

    cdef uint64_t place(self, int32_t parent, const char* name, Py_ssize_t size) noexcept nogil:
        """The slot of the child of a name among those that were hashed, or where it would be."""
        cdef uint64_t slot = self.slot_of(parent, name, size)
        cdef int32_t quark = self.slots[slot]
        while quark >= 0:
            if self.parents[quark] == parent and self.has_name(quark, name, size):
                break
            slot = (slot + 1) & self.slot_mask
            quark = self.slots[slot]
        return slot

    cdef int32_t lookup(self, int32_t parent, const char* name, Py_ssize_t size) noexcept nogil:
        """The child of a name among those that were hashed, or -1."""
        return self.slots[self.place(parent, name, size)]

    cdef Py_ssize_t hash_all(self, Py_ssize_t more=0) except -2:
        """Hash all attributes; return the first that another one equals, or -1.

        So many `more` can be added without hashing all again.
        """
        cdef uint64_t slots = self.slot_mask + 1 if self.slots != NULL else LEAST_SLOTS, slot
        cdef int32_t quark
        cdef Py_ssize_t twice = -1
        cdef uint64_t needed = 2 * <uint64_t>(self.count + more) + 2
        if self.hashed == self.count and self.slots != NULL and (not more or slots >= needed):
            return -1
        while slots < needed:
            slots *= 2
        if self.slots == NULL or slots != self.slot_mask + 1:
            free(self.slots)
            self.slots = NULL
            self.hashed = 0
            self.slots = <int32_t*>malloc(slots * sizeof(int32_t))
            if self.slots == NULL:
                raise MemoryError
            memset(self.slots, 255, slots * sizeof(int32_t))
            self.slot_mask = slots - 1
        for quark in range(<int32_t>self.hashed, <int32_t>self.count):
            slot = self.place(
                self.parents[quark], self.text + self.offsets[quark],
                self.offsets[quark + 1] - self.offsets[quark],
            )
            if self.slots[slot] < 0:
                self.slots[slot] = quark
            elif twice < 0:
                twice = quark
        self.hashed = self.count
        return twice

    cdef int link_all(self) except -1:
        """Append all attributes to the lists of their parents' children."""
        cdef Py_ssize_t room = self.link_room, row
        cdef int32_t quark, parent
        if self.linked == self.count and self.first != NULL:
            return 0
        if room < self.count + 1:
            room = max(2 * room, self.count + 1)
            self.first = grown(self.first, room)
            self.last = grown(self.last, room)
            self.sibling = grown(self.sibling, room)
            for row in range(self.link_room, room):
                self.first[row] = -1
            self.link_room = room
        for quark in range(<int32_t>self.linked, <int32_t>self.count):
            parent = self.parents[quark] + 1
            self.sibling[quark + 1] = -1
            if self.first[parent] < 0:
                self.first[parent] = quark
            else:
                self.sibling[self.last[parent] + 1] = quark
            self.last[parent] = quark
        self.linked = self.count
        return 0

    def child(self, int32_t parent, object name: str) -> int:
        """Return the child of an attribute by its name, or -1; the parent must exist."""
        cdef Py_ssize_t size
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &size)
        self.hash_all()
        return self.lookup(parent, text, size)

    def add(self, int32_t parent, object name: str) -> int:
        """Return the child of an attribute by its name, a new one if there is none.

        Raises:
            UnicodeEncodeError: If the name cannot be encoded as UTF-8.
        """
        cdef Py_ssize_t size
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &size)
        self.hash_all()
        return self.child_or_new(parent, text, size)

    def add_path(self, Py_ssize_t parent, tuple names: tuple[str, ...]) -> int:
        """Return the quark of a path below an attribute, creating what is missing of it.

        -1 if there is no such attribute, or a name is not a string; some may have been created.

        Raises:
            UnicodeEncodeError: If a name cannot be encoded as UTF-8.
        """
        cdef Py_ssize_t size
        cdef const char* text
        cdef Py_ssize_t quark = parent
        if not -1 <= parent < self.count:
            return -1
        for name in names:
            if not isinstance(name, str):
                return -1
            text = PyUnicode_AsUTF8AndSize(name, &size)
            self.hash_all()
            quark = self.child_or_new(<int32_t>quark, text, size)
        return quark

    cdef int32_t child_or_new(self, int32_t parent, const char* name, Py_ssize_t size) except -1:
        cdef uint64_t slot = self.place(parent, name, size)
        cdef int32_t quark = self.slots[slot]
        if quark >= 0:
            return quark
        if self.count == INT32_MAX - 1:
            raise OverflowError("a history has at most 2^31 - 2 attributes")
        self.reserve(self.count + 1, self.offsets[self.count] + size)
        quark = <int32_t>self.count
        self.parents[quark] = parent
        memcpy(self.text + self.offsets[quark], name, size)
        self.offsets[quark + 1] = self.offsets[quark] + size
        self.count += 1
        if 2 * <uint64_t>self.count > self.slot_mask:
            self.hash_all()
            return quark
        self.slots[slot] = quark
        self.hashed = self.count
        return quark

    def add_paths(self, object paths: Sequence[Sequence[str]]) -> Int32s:
        """Return the attribute of each of these paths from the root on, new ones where needed.

        Raises:
            TypeError: If a path is not a tuple, or a name not a string.
            UnicodeEncodeError: If a name cannot be encoded as UTF-8.
        """
        cdef Py_ssize_t size, level, i = 0
        cdef const char* text
        cdef int32_t quark
        cdef int32_t above[SAME_NAMES]
        cdef tuple path, before = ()
        cdef bint same
        found_array = np.empty(len(paths), np.int32)
        cdef int32_t[::1] found = found_array
        self.hash_all(len(paths))
        for path in paths:
            quark = -1
            same = True
            for level in range(len(path)):
                name = path[level]
                # paths that are made together share the names of what they are in
                same = same and level < min(len(before), SAME_NAMES) and name is before[level]
                if same:
                    quark = above[level]
                    continue
                text = PyUnicode_AsUTF8AndSize(name, &size)
                quark = self.child_or_new(quark, text, size)
                if level < SAME_NAMES:
                    above[level] = quark
            before = path
            found[i] = quark
            i += 1
        return found_array

    def add_columns(
        self, const uint8_t[::1] text, const int64_t[::1] offsets,
        tuple levels: tuple[str | Int32s, ...]
    ) -> Int32s:
        """Return the attribute of the path of each row, new ones where needed.

        A level is a name, or a column of int32: the code of each row's name in the texts, which
        `offsets` separate. At least one is a column.

        Raises:
            ValueError: If there are more than 8 levels.
            IndexError: If a column has another length than the others, or a code is not in the
                texts.
        """
        cdef Py_ssize_t depth = len(levels), rows = -1, level, row
        cdef const char* begin = b""
        cdef const int32_t* columns[SAME_NAMES]
        cdef const char* names[SAME_NAMES]
        cdef Py_ssize_t sizes[SAME_NAMES]
        cdef int32_t above[SAME_NAMES]
        cdef const int32_t[::1] codes
        cdef int32_t quark, code
        cdef bint same
        if depth > SAME_NAMES:
            raise ValueError("a path has too many names")
        if text.shape[0]:
            begin = <const char*>&text[0]
        for level in range(depth):
            if isinstance(levels[level], str):
                columns[level] = NULL
                names[level] = PyUnicode_AsUTF8AndSize(levels[level], &sizes[level])
                continue
            codes = levels[level]
            if rows >= 0 and codes.shape[0] != rows:
                raise IndexError
            rows = codes.shape[0]
            for row in range(rows):
                if not 0 <= codes[row] < offsets.shape[0] - 1:
                    raise IndexError
            columns[level] = &codes[0] if rows else NULL
        found_array = np.empty(max(rows, 0), np.int32)
        cdef int32_t[::1] found = found_array
        self.hash_all(found.shape[0])
        for row in range(found.shape[0]):
            quark = -1
            # what is the same as in the row before is not looked up
            same = row > 0
            if row and row + AHEAD < found.shape[0] and columns[depth - 1] != NULL:
                # in most rows only the last name is another one
                code = columns[depth - 1][row + AHEAD]
                prefetch(&self.slots[self.slot_of(
                    above[depth - 2] if depth > 1 else -1,
                    begin + offsets[code], offsets[code + 1] - offsets[code],
                )])
            for level in range(depth):
                if columns[level] != NULL:
                    code = columns[level][row]
                    same = same and code == columns[level][row - 1]
                    if not same:
                        names[level] = begin + offsets[code]
                        sizes[level] = offsets[code + 1] - offsets[code]
                if not same:
                    above[level] = self.child_or_new(quark, names[level], sizes[level])
                quark = above[level]
            found[row] = quark
        return found_array

    def add_tree(self, AttributeTree other, const int32_t[::1] known) -> Int32s:
        """Return the attribute of each one of another tree, new ones where needed.

        Of its first attributes `known` has what earlier calls returned; the result has the others.
        """
        cdef Py_ssize_t first = known.shape[0], row
        cdef int32_t before = <int32_t>self.count, parent, quark
        cdef int64_t begin, size
        found_array = np.empty(other.count - first, np.int32)
        cdef int32_t[::1] found = found_array
        if other.count - first > INT32_MAX - 1 - self.count:
            raise OverflowError("a history has at most 2^31 - 2 attributes")
        # All that is here may be from the other tree, where names below one are different: then
        # nothing is looked up, and hashing waits until something is.
        if before > first:
            self.hash_all()
        self.reserve(
            self.count + found.shape[0],
            self.offsets[self.count] + other.offsets[other.count] - other.offsets[first],
        )
        for row in range(found.shape[0]):
            parent = other.parents[first + row]
            if parent >= 0:
                parent = known[parent] if parent < first else found[parent - first]
            begin = other.offsets[first + row]
            size = other.offsets[first + row + 1] - begin
            quark = -1
            # Below a new one there is nothing else either.
            if before > first and parent < before:
                quark = self.lookup(parent, other.text + begin, size)
            if quark < 0:
                quark = <int32_t>self.count
                self.parents[quark] = parent
                memcpy(self.text + self.offsets[quark], other.text + begin, size)
                self.offsets[quark + 1] = self.offsets[quark] + size
                self.count += 1
            found[row] = quark
        return found_array

    def add_numbered(
        self, const int32_t[::1] parents, const uint8_t[::1] named, object name: str,
        const int64_t[::1] counts
    ) -> Int32s:
        """Return the children 0, 1, ... of each of these attributes, new ones where needed.

        Where `named` is set, they are the children of its child of this name.
        """
        cdef Py_ssize_t i, size, n = 0
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &size)
        cdef int64_t number
        cdef int32_t parent
        cdef char digits[24]
        found_array = np.empty(np.sum(counts), np.int32)
        cdef int32_t[::1] found = found_array
        self.hash_all()
        for i in range(parents.shape[0]):
            parent = parents[i]
            if named[i]:
                parent = self.child_or_new(parent, text, size)
            for number in range(counts[i]):
                found[n] = self.child_or_new(
                    parent, digits, snprintf(digits, sizeof(digits), "%lld", <long long>number)
                )
                n += 1
        return found_array

    def add_lanes(
        self, const int32_t[::1] above, const int64_t[::1] lanes, const uint8_t[::1] named,
        object name: str, const int64_t[::1] owners, const int64_t[::1] depths
    ) -> Int32s:
        """Return the attribute of each depth, a child of the lane `owners` of its row.

        Lane i is `Lane/<lanes[i]>` below `above[i]`; where `named` is set, its depths are the
        children of its child of this name. All lanes come before all depths.
        """
        cdef Py_ssize_t i, size
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &size)
        cdef int32_t parent
        cdef char digits[24]
        cdef int32_t[::1] below = np.empty(lanes.shape[0], np.int32)
        found_array = np.empty(depths.shape[0], np.int32)
        cdef int32_t[::1] found = found_array
        self.hash_all()
        for i in range(lanes.shape[0]):
            parent = self.child_or_new(
                self.child_or_new(above[i], b"Lane", 4), digits,
                snprintf(digits, sizeof(digits), "%lld", <long long>lanes[i]),
            )
            below[i] = self.child_or_new(parent, text, size) if named[i] else parent
        for i in range(depths.shape[0]):
            found[i] = self.child_or_new(
                below[owners[i]], digits,
                snprintf(digits, sizeof(digits), "%lld", <long long>depths[i]),
            )
        return found_array

    def ranks(
        self, const int32_t[::1] quarks, const int64_t[::1] given, object first: str
    ) -> Int32s | None:
        """Return the ranks of attributes by a given key, then their number, then their name.

        The name `first` comes before all others of the same key. Of other names than numbers, the
        number is 0. Returns None if one is a number that this does not read, because it has too
        many digits, or because they are not those of ASCII.
        """
        cdef Py_ssize_t n = quarks.shape[0], i, k, begin, first_size
        cdef const char* first_name = PyUnicode_AsUTF8AndSize(first, &first_size)
        cdef int32_t rank = -1
        cdef bint reads = True
        cdef SortKey* keys = <SortKey*>malloc(max(n, 1) * sizeof(SortKey))
        cdef SortKey* key
        ranks_array = np.empty(n, np.int32)
        cdef int32_t[::1] ranks = ranks_array
        if keys == NULL:
            raise MemoryError
        for i in range(n):
            key = &keys[i]
            key.given = given[i]
            key.row = <int32_t>i
            key.name = self.text + self.offsets[quarks[i]]
            key.size = self.offsets[quarks[i] + 1] - self.offsets[quarks[i]]
            key.last = not (
                key.size == first_size and memcmp(key.name, first_name, first_size) == 0
            )
            key.number = 0
            key.beginning = 0
            for k in range(8):
                key.beginning = key.beginning << 8 | (
                    <uint8_t>key.name[k] if k < key.size else 0
                )
            begin = key.size and key.name[0] == c"-"
            for k in range(begin, key.size):
                if <uint8_t>key.name[k] >= 128:
                    reads = False
                if not c"0" <= key.name[k] <= c"9" or k - begin == MOST_DIGITS:
                    reads = reads and not c"0" <= key.name[k] <= c"9"
                    key.number = 0
                    break
                key.number = key.number * 10 + key.name[k] - c"0"
            if begin:
                key.number = -key.number
        if reads:
            # Ids mostly come in order, and sorting needs as much memory again.
            for i in range(1, n):
                if compared(&keys[i - 1], &keys[i]) > 0:
                    qsort(keys, n, sizeof(SortKey), compared)
                    break
            for i in range(n):
                # Equal ones get the same rank: attributes of one name below different parents.
                if i == 0 or compared(&keys[i - 1], &keys[i]):
                    rank += 1
                ranks[keys[i].row] = rank
        free(keys)
        return ranks_array if reads else None

    def first_twice(self) -> int:
        """Return the first attribute with the path of an earlier one, or -1.

        Only a tree from a file can have one; `child` finds the earlier one.
        """
        self.hashed = 0
        free(self.slots)
        self.slots = NULL
        return self.hash_all()

    def name(self, Py_ssize_t quark) -> str:
        """Return the name of an attribute, which must exist."""
        cdef int64_t first = self.offsets[quark]
        return PyUnicode_DecodeUTF8(self.text + first, self.offsets[quark + 1] - first, NULL)

    def path(self, Py_ssize_t quark) -> tuple[str, ...]:
        """Return the names from the top down to an attribute, which must exist."""
        cdef list names = []
        while quark >= 0:
            names.append(self.name(quark))
            quark = self.parents[quark]
        names.reverse()
        return tuple(names)

    def texts(
        self, const int32_t[::1] quarks, *, bint whole
    ) -> tuple[bytes, Int32s]:
        """Return the names of attributes, which must exist, or the text forms of their paths.

        In a path `/`, `*` and the backslash of a name are escaped. Returned are all texts joined,
        as UTF-8, and where each begins and the last one ends.

        Raises:
            OverflowError: If they have 2 GiB or more.
        """
        cdef Py_ssize_t n = quarks.shape[0], i
        cdef int64_t end = 0, k
        cdef int32_t quark
        cdef char letter
        offsets_array = np.empty(n + 1, np.int32)
        cdef int32_t[::1] offsets = offsets_array
        offsets[0] = 0
        for i in range(n):
            quark = quarks[i]
            while quark >= 0:
                end += self.offsets[quark + 1] - self.offsets[quark]
                if not whole:
                    break
                for k in range(self.offsets[quark], self.offsets[quark + 1]):
                    letter = self.text[k]
                    end += letter == c"/" or letter == c"*" or letter == c"\\"
                quark = self.parents[quark]
                end += quark >= 0
            if end > INT32_MAX:
                raise OverflowError("the texts have 2 GiB or more")
            offsets[i + 1] = <int32_t>end
        cdef bytes text = PyBytes_FromStringAndSize(NULL, end)
        cdef char* written = PyBytes_AsString(text)
        for i in range(n):
            quark = quarks[i]
            end = offsets[i + 1]
            while quark >= 0:
                for k in range(self.offsets[quark + 1] - 1, self.offsets[quark] - 1, -1):
                    letter = self.text[k]
                    end -= 1
                    written[end] = letter
                    if whole and (letter == c"/" or letter == c"*" or letter == c"\\"):
                        end -= 1
                        written[end] = c"\\"
                if not whole:
                    break
                quark = self.parents[quark]
                if quark >= 0:
                    end -= 1
                    written[end] = c"/"
        return text, offsets_array

    def parent(self, Py_ssize_t quark) -> int:
        """Return the parent of an attribute, which must exist."""
        return self.parents[quark]

    def columns(
        self, Py_ssize_t first, Py_ssize_t end
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64], bytes]:
        """Return the attributes from one on to before another as columns, for `extend`.

        Returns:
            How to get from an attribute to its parent: 0 for the attribute before it, otherwise the
            parent plus 2; how to get its name: 0 for the next name, otherwise a name's index plus
            1; the sizes of the names in bytes; the names.
        """
        cdef Py_ssize_t rows = end - first, row, count = 0
        cdef int32_t same
        parents_array, codes_array = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
        sizes_array = np.empty(rows, np.uint64)
        cdef uint64_t[::1] parents = parents_array, codes = codes_array, sizes = sizes_array
        # A small table of recent names: those that many attributes share come again soon.
        cdef int32_t recent[RECENT_NAMES]
        cdef int64_t indices[RECENT_NAMES]
        cdef const char* name
        cdef Py_ssize_t size
        cdef uint64_t slot
        # No names are longer than all of them.
        cdef bytearray names = bytearray(self.offsets[end] - self.offsets[first])
        cdef char* to = names
        cdef Py_ssize_t written = 0
        memset(recent, 255, sizeof(recent))
        for row in range(rows):
            parents[row] = (
                0 if self.parents[first + row] == first + row - 1 and first + row
                else self.parents[first + row] + 2
            )
            name = self.text + self.offsets[first + row]
            size = self.offsets[first + row + 1] - self.offsets[first + row]
            slot = intern_fold(intern_text_of(name, size).first, 0xD6E8FEB86659FD93) >> 52
            same = recent[slot]
            if same >= 0 and size <= LONGEST_REPEATED and self.has_name(same, name, size):
                codes[row] = indices[slot] + 1
                continue
            codes[row] = 0
            sizes[count] = size
            recent[slot] = <int32_t>(first + row)
            indices[slot] = count
            count += 1
            memcpy(to + written, name, size)
            written += size
        return parents_array, codes_array, sizes_array[:count], bytes(names[:written])

    def extend(
        self,
        const uint64_t[::1] parents,
        const uint64_t[::1] codes,
        const uint64_t[::1] sizes,
        const uint8_t[::1] names,
    ):
        """Add what `columns` of another tree returned, checked.

        Raises:
            ValueError: If it is malformed; nothing is added then.
        """
        cdef Py_ssize_t rows = parents.shape[0], row, known = 0
        cdef int64_t end = self.offsets[self.count], left = names.shape[0], index
        cdef uint64_t parent
        if codes.shape[0] != rows:
            raise ValueError("attributes have parents and names of different numbers")
        if rows > INT32_MAX - 1 - self.count:
            raise ValueError("there are more attributes than 2^31")
        starts_array = np.zeros(sizes.shape[0] + 1, np.int64)
        cdef int64_t[::1] starts = starts_array
        for row in range(sizes.shape[0]):
            if sizes[row] > <uint64_t>left:
                raise ValueError("the names of attributes are cut")
            # A name begins with a character, so that each is UTF-8 if all are.
            if sizes[row] and names[names.shape[0] - left] & 0xC0 == 0x80:
                raise ValueError("a name of an attribute is not UTF-8")
            left -= <int64_t>sizes[row]
            starts[row + 1] = starts[row] + <int64_t>sizes[row]
        if left:
            raise ValueError("there are more names than attributes")
        for row in range(rows):
            parent = parents[row]
            # One that is not the attribute before it is an earlier one; the first has none.
            if parent > <uint64_t>(self.count + row) + 1 or (not parent and not self.count + row):
                raise ValueError("an attribute comes before its parent")
            if codes[row] > <uint64_t>known or (not codes[row] and known == sizes.shape[0]):
                raise ValueError("an attribute has no name")
            index = known if not codes[row] else <int64_t>codes[row] - 1
            known += not codes[row]
            end += starts[index + 1] - starts[index]
            if codes[row] and starts[index + 1] - starts[index] > LONGEST_REPEATED:
                raise ValueError("a long name of an attribute is repeated")
        if known != sizes.shape[0]:
            raise ValueError("there are more names than attributes")
        self.reserve(self.count + rows, end)
        end = self.offsets[self.count]
        known = 0
        for row in range(rows):
            parent = parents[row]
            self.parents[self.count + row] = (
                <int32_t>(self.count + row - 1) if not parent
                else <int32_t>(<int64_t>parent - 2)
            )
            index = known if not codes[row] else <int64_t>codes[row] - 1
            known += not codes[row]
            if starts[index + 1] > starts[index]:
                memcpy(
                    self.text + end, &names[starts[index]], starts[index + 1] - starts[index]
                )
            end += starts[index + 1] - starts[index]
            self.offsets[self.count + row + 1] = end
        self.count += rows

    def copy(self, Py_ssize_t count) -> AttributeTree:
        """Return a tree of the first attributes."""
        cdef AttributeTree other = AttributeTree()
        other.reserve(count, self.offsets[count])
        memcpy(other.parents, self.parents, count * sizeof(int32_t))
        memcpy(other.offsets, self.offsets, (count + 1) * sizeof(int64_t))
        memcpy(other.text, self.text, self.offsets[count])
        other.count = count
        return other

    def children(self, const int32_t[::1] quarks) -> Int32s:
        """Return the children of each of these attributes, those of one in order of creation."""
        cdef Py_ssize_t i, n = 0
        cdef int32_t child
        self.link_all()
        for i in range(quarks.shape[0]):
            child = self.first[quarks[i] + 1]
            while child >= 0:
                n += 1
                child = self.sibling[child + 1]
        found_array = np.empty(n, np.int32)
        cdef int32_t[::1] found = found_array
        n = 0
        for i in range(quarks.shape[0]):
            child = self.first[quarks[i] + 1]
            while child >= 0:
                found[n] = child
                n += 1
                child = self.sibling[child + 1]
        return found_array

    def children_named(self, const int32_t[::1] quarks, object name: str) -> Int32s:
        """Return those children of these attributes that have a name."""
        cdef Py_ssize_t i, n = 0, size, few
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &size)
        cdef int32_t child
        self.link_all()
        found_array = np.empty(quarks.shape[0], np.int32)
        cdef int32_t[::1] found = found_array
        for i in range(quarks.shape[0]):
            child = self.first[quarks[i] + 1]
            few = 0
            while child >= 0 and few < FEW_CHILDREN and not self.has_name(child, text, size):
                child = self.sibling[child + 1]
                few += 1
            if child >= 0 and few == FEW_CHILDREN:
                self.hash_all()
                child = self.lookup(quarks[i], text, size)
            if child >= 0:
                found[n] = child
                n += 1
        return found_array[:n].copy()

    def parents_of(self, const int32_t[::1] quarks) -> Int32s:
        """Return the parent of each of these attributes; that of the root is the root."""
        cdef Py_ssize_t i
        found_array = np.empty(quarks.shape[0], np.int32)
        cdef int32_t[::1] found = found_array
        for i in range(quarks.shape[0]):
            found[i] = self.parents[quarks[i]] if quarks[i] >= 0 else -1
        return found_array

    def below(self, const int32_t[::1] quarks, *, bint itself) -> Int32s:
        """Return all attributes below each of these, in pre-order, each once.

        Args:
            quarks: The attributes, or the root.
            itself: Whether each of them comes before those below it.
        """
        cdef Py_ssize_t i, n = 0
        cdef int32_t top, quark
        cdef uint8_t* seen
        self.link_all()
        found_array = np.empty(self.count + 1, np.int32)
        cdef int32_t[::1] found = found_array
        seen = <uint8_t*>calloc(self.count + 1, 1)
        if seen == NULL:
            raise MemoryError
        for i in range(quarks.shape[0]):
            top = quarks[i]
            if itself:
                # All below it was found with it.
                if seen[top + 1]:
                    continue
                seen[top + 1] = 1
                found[n] = top
                n += 1
            quark = self.first[top + 1]
            while quark >= 0:
                if not seen[quark + 1]:
                    seen[quark + 1] = 1
                    found[n] = quark
                    n += 1
                # Down, else to the next sibling, else up until there is one.
                if self.first[quark + 1] >= 0:
                    quark = self.first[quark + 1]
                    continue
                while quark != top and self.sibling[quark + 1] < 0:
                    quark = self.parents[quark]
                quark = self.sibling[quark + 1] if quark != top else -1
        free(seen)
        return found_array[:n].copy()


@final
cdef class PathCodes:
    """Codes for some attributes of a tree, in order of first use."""

    cdef Py_ssize_t count, room, known
    # The attribute of each code; of each attribute its first code, or -1.
    cdef int32_t* attributes
    cdef int32_t* codes

    def __dealloc__(self):
        free(self.attributes)
        free(self.codes)

    def __len__(self) -> int:
        return self.count

    cdef int reserve(self, Py_ssize_t more, Py_ssize_t attributes) except -1:
        """Make room for so many more codes, and for so many attributes in all."""
        cdef Py_ssize_t row
        if self.count + more > INT32_MAX - 1:
            raise OverflowError("a trace has at most 2^31 - 2 paths")
        if self.count + more > self.room:
            more = max(self.count + more, 2 * self.room)
            self.attributes = grown(self.attributes, more)
            self.room = more
        if attributes > self.known:
            attributes = max(attributes, 2 * self.known)
            self.codes = grown(self.codes, attributes)
            for row in range(self.known, attributes):
                self.codes[row] = -1
            self.known = attributes
        return 0

    cdef int32_t next_code(self, int32_t attribute) noexcept nogil:
        cdef int32_t code = <int32_t>self.count
        self.attributes[code] = attribute
        if self.codes[attribute] < 0:
            self.codes[attribute] = code
        self.count += 1
        return code

    def code(self, int32_t attribute) -> int:
        """Return the code of an attribute, the next one if it has none."""
        self.reserve(1, attribute + 1)
        return self.codes[attribute] if self.codes[attribute] >= 0 else self.next_code(attribute)

    def codes_of(self, const int32_t[::1] attributes) -> Int32s:
        """Return the codes of many attributes, the next ones for those that have none."""
        cdef Py_ssize_t row
        cdef int32_t last = -1
        found_array = np.empty(attributes.shape[0], np.int32)
        cdef int32_t[::1] found = found_array
        for row in range(attributes.shape[0]):
            last = max(last, attributes[row])
        self.reserve(attributes.shape[0], last + 1)
        for row in range(attributes.shape[0]):
            found[row] = self.codes[attributes[row]]
            if found[row] < 0:
                found[row] = self.next_code(attributes[row])
        return found_array

    def append(self, const int32_t[::1] attributes):
        """Give attributes the next codes, also those that have one."""
        cdef Py_ssize_t row
        cdef int32_t last = -1
        for row in range(attributes.shape[0]):
            last = max(last, attributes[row])
        self.reserve(attributes.shape[0], last + 1)
        for row in range(attributes.shape[0]):
            self.next_code(attributes[row])

    def attribute(self, Py_ssize_t code) -> int:
        """Return the attribute of a code, which must exist."""
        return self.attributes[code]

    def attributes_from(self, Py_ssize_t first) -> Int32s:
        """Return the attributes of the codes from one on."""
        found_array = np.empty(self.count - first, np.int32)
        cdef int32_t[::1] found = found_array
        if found.shape[0]:
            memcpy(&found[0], self.attributes + first, found.shape[0] * sizeof(int32_t))
        return found_array
