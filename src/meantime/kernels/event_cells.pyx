"""The fields of events in columns: what Python asks of them, as objects, columns and JSON."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from enum import IntEnum

import numpy as np

cdef extern from "decimal.h" nogil:
    char* signed_decimal_before(char* end, int64_t number)

cdef extern from "arrays.h":
    void* INT64_ITEMS(object, Py_ssize_t*) except NULL
    void* INT32_ITEMS(object, Py_ssize_t*) except NULL
    void* UINT8_ITEMS(object, Py_ssize_t*) except NULL

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

# What is in `event_cells.pxd`, in Python.
Kind = IntEnum("Kind", {
    "ABSENT": ABSENT, "NONE": NONE, "TEXT": TEXT, "INT": INT, "FLOAT": FLOAT, "FALSE": FALSE,
    "TRUE": TRUE, "JSON": JSON, "OBJECT": OBJECT,
})

cdef enum:
    LONGEST_INTEGER = 20  # as text, with its sign


cdef class Cells:
    """The fields of a batch of events, as `EventRows.take` returns them.

    Args:
        plain: Returns the text of an array or object in its usual form.
        first: int64, by event: its cells, up to those of the next.
        key: int32, by cell: which field it is.
        kind: uint8, by cell: a `Kind`.
        word: int64, by cell.
        keys: The names of fields.
        texts: The texts.
        objects: The objects.
    """

    cdef const int64_t* first
    cdef const int32_t* key
    cdef const uint8_t* kind
    cdef const int64_t* word
    cdef Py_ssize_t size
    cdef tuple columns
    cdef readonly list keys, texts  #: list[str]
    cdef readonly list objects  #: list[Any]
    cdef object plain

    def __init__(
        self, plain: Callable[[str], str], first: Int64s, key: Int32s, kind: npt.NDArray[np.uint8],
        word: Int64s, list keys: list[str], list texts: list[str], list objects: list[Any]
    ):
        cdef Py_ssize_t size, cells, kinds, words
        self.columns = (first, key, kind, word)
        self.first = <const int64_t*>INT64_ITEMS(first, &size)
        self.key = <const int32_t*>INT32_ITEMS(key, &cells)
        self.kind = <const uint8_t*>UINT8_ITEMS(kind, &kinds)
        self.word = <const int64_t*>INT64_ITEMS(word, &words)
        self.keys, self.texts, self.objects, self.plain = keys, texts, objects, plain
        if size == 0 or self.first[size - 1] > cells or cells != kinds or cells != words:
            raise ValueError("the columns of cells do not fit together")
        self.size = size - 1

    def __len__(self) -> int:
        return self.size

    cdef object value(self, int64_t cell):
        return self.value_of(self.kind[cell], self.word[cell])

    cdef object value_of(self, uint8_t kind, int64_t word):
        cdef double number
        if kind == TEXT:
            return self.texts[word]
        if kind == INT:
            return word
        if kind == FLOAT:
            memcpy(&number, &word, 8)
            return number
        if kind == NONE:
            return None
        if kind == JSON:
            return self.plain(self.texts[word])
        if kind == OBJECT:
            return self.objects[word]
        return kind == TRUE

    def events(
        self, Py_ssize_t begin, Py_ssize_t end, made_as: type[Event], times_ns: Int64s,
        name_codes: Int32s, list names: list[str], cpus: Int64s, pids: Int64s, tids: Int64s
    ) -> list[Event]:
        """Return the events of some rows as objects of the type `made_as`."""
        cdef Py_ssize_t row
        cdef const int64_t* time_ns = <const int64_t*>INT64_ITEMS(times_ns, NULL)
        cdef const int32_t* name = <const int32_t*>INT32_ITEMS(name_codes, NULL)
        cdef const int64_t* cpu = <const int64_t*>INT64_ITEMS(cpus, NULL)
        cdef const int64_t* pid = <const int64_t*>INT64_ITEMS(pids, NULL)
        cdef const int64_t* tid = <const int64_t*>INT64_ITEMS(tids, NULL)
        cdef int64_t cell
        cdef dict fields
        cdef list made = []
        cdef object new = made_as
        for row in range(begin, end):
            fields = {}
            for cell in range(self.first[row], self.first[row + 1]):
                fields[self.keys[self.key[cell]]] = self.value(cell)
            made.append(new(
                time_ns[row], names[name[row]], fields,
                None if cpu[row] < 0 else cpu[row],
                None if pid[row] < 0 else pid[row],
                None if tid[row] < 0 else tid[row],
            ))
        return made

    def keys_of(self, of_rows: Int64s) -> dict[str, int]:
        """Return the fields of some events in order of first appearance, and their keys."""
        cdef Py_ssize_t i, n
        cdef int64_t cell
        cdef const int64_t* rows = <const int64_t*>INT64_ITEMS(of_rows, &n)
        marks = np.zeros(len(self.keys), np.uint8)
        cdef uint8_t* seen = <uint8_t*>UINT8_ITEMS(marks, NULL)
        cdef dict found = {}
        for i in range(n):
            for cell in range(self.first[rows[i]], self.first[rows[i] + 1]):
                if not seen[self.key[cell]]:
                    seen[self.key[cell]] = 1
                    found[self.keys[self.key[cell]]] = self.key[cell]
        return found

    def column(self, of_rows: Int64s, int32_t key) -> tuple[npt.NDArray[np.uint8], Int64s]:
        """Return a field of some events: the kind, `ABSENT` without it, and the word of each."""
        cdef Py_ssize_t i, n
        cdef int64_t cell
        cdef const int64_t* rows = <const int64_t*>INT64_ITEMS(of_rows, &n)
        kinds = np.zeros(n, np.uint8)
        words = np.zeros(n, np.int64)
        cdef uint8_t* kind = <uint8_t*>UINT8_ITEMS(kinds, NULL)
        cdef int64_t* word = <int64_t*>INT64_ITEMS(words, NULL)
        with nogil:
            for i in range(n):
                for cell in range(self.first[rows[i]], self.first[rows[i] + 1]):
                    if self.key[cell] == key:
                        kind[i], word[i] = self.kind[cell], self.word[cell]
        return kinds, words

    def values(self, kinds: npt.NDArray[np.uint8], words: Int64s, absent) -> list[Any]:
        """Return a `column` as Python objects."""
        cdef Py_ssize_t i, n
        cdef const uint8_t* kind = <const uint8_t*>UINT8_ITEMS(kinds, &n)
        cdef const int64_t* word = <const int64_t*>INT64_ITEMS(words, NULL)
        return [
            absent if kind[i] == ABSENT else self.value_of(kind[i], word[i]) for i in range(n)
        ]

    def used_texts(self, kinds: npt.NDArray[np.uint8], words: Int64s) -> tuple[Int32s, list[str]]:
        """Return a column of texts and nulls as codes, -1 is null, and the texts by code."""
        cdef Py_ssize_t i, n
        cdef const uint8_t* kind = <const uint8_t*>UINT8_ITEMS(kinds, &n)
        cdef const int64_t* word = <const int64_t*>INT64_ITEMS(words, NULL)
        code_of = np.full(len(self.texts), -1, np.int32)
        codes = np.empty(n, "i4")
        cdef int32_t* known = <int32_t*>INT32_ITEMS(code_of, NULL)
        cdef int32_t* code = <int32_t*>INT32_ITEMS(codes, NULL)
        cdef list used = []
        for i in range(n):
            if kind[i] == NONE:
                code[i] = -1
                continue
            if known[word[i]] < 0:
                known[word[i]] = <int32_t>len(used)
                used.append(self.texts[word[i]])
            code[i] = known[word[i]]
        return codes, used

    def field(self, str name, absent, id_column: Int64s | None) -> list[Any]:
        """Return a field of all events as Python objects.

        Args:
            name: The field.
            absent: Stands for the field of events that lack it.
            id_column: By event, the field of those without such a field, unless it is negative;
                None if it is not an id.
        """
        cdef Py_ssize_t row, n = self.size
        cdef int64_t cell
        cdef const int64_t* ids = NULL
        cdef int32_t wanted = -1
        cdef list found = [absent] * n
        cdef object value
        if id_column is not None:
            ids = <const int64_t*>INT64_ITEMS(id_column, NULL)
            for row in range(n):
                if ids[row] >= 0:
                    found[row] = ids[row]
        if name in self.keys:
            wanted = self.keys.index(name)
        if wanted >= 0:
            for row in range(n):
                for cell in range(self.first[row], self.first[row + 1]):
                    if self.key[cell] == wanted:
                        found[row] = self.value(cell)
        return found

    def field_texts(
        self, str name, id_column: Int64s | None, dict known: dict[int, str],
        text_of: Callable[[Any], str]
    ) -> list[str | None]:
        """Return a field of all events as texts; None for events without it, or without a value.

        Args:
            name: The field.
            id_column: As in `field`.
            known: The texts of integers, to which new ones are added.
            text_of: Returns the text of any other value.
        """
        cdef Py_ssize_t row, n = self.size
        cdef int64_t cell
        cdef const int64_t* ids = NULL
        cdef int32_t wanted = -1
        cdef list found = [None] * n
        if id_column is not None:
            ids = <const int64_t*>INT64_ITEMS(id_column, NULL)
            for row in range(n):
                if ids[row] >= 0:
                    found[row] = number_text(ids[row], known)
        if name in self.keys:
            wanted = self.keys.index(name)
        if wanted >= 0:
            for row in range(n):
                for cell in range(self.first[row], self.first[row + 1]):
                    if self.key[cell] != wanted:
                        continue
                    if self.kind[cell] == TEXT:
                        found[row] = self.texts[self.word[cell]]
                    elif self.kind[cell] == INT:
                        found[row] = number_text(self.word[cell], known)
                    elif self.kind[cell] == NONE:
                        found[row] = None
                    else:
                        found[row] = text_of(self.value(cell))
        return found


    def merged_json(
        self, firsts: Int64s, seconds: Int64s, extras: Int32s,
        list extra_fields: list[tuple[str, str]], private: npt.NDArray[np.uint8],
        encode: Callable[[Any], str]
    ) -> tuple[bytes, Int64s, Int32s, int]:
        """Return the fields of pairs of events as JSON; those of the second replace the first's.

        Args:
            firsts: int64, by pair: the first event.
            seconds: int64, by pair: the second event; -1 for none.
            extras: int32, by pair: which of `extra_fields` replaces or follows the others; -1 for none.
            extra_fields: Names and texts.
            private: uint8, by key: whether it is left out.
            encode: Returns the JSON of a value.

        Returns:
            The texts, one after the other; int64, the offset of each; int32, its length, 0 for no
            fields; and how many fields are left out.
        """
        cdef Py_ssize_t i, n, marked, left_out = 0, keys = len(self.keys)
        cdef const int64_t* first = <const int64_t*>INT64_ITEMS(firsts, &n)
        cdef const int64_t* second = <const int64_t*>INT64_ITEMS(seconds, NULL)
        cdef const int32_t* extra = <const int32_t*>INT32_ITEMS(extras, NULL)
        cdef const uint8_t* is_private = <const uint8_t*>UINT8_ITEMS(private, &marked)
        if len(seconds) != n or len(extras) != n or marked != keys:
            raise ValueError("each pair has two events, and each key is private or not")
        if n and not -1 <= int(extras.min()) <= int(extras.max()) < len(extra_fields):
            raise ValueError("a further field of a pair is not in the table")
        offset_array, length_array = np.empty(n, "i8"), np.empty(n, "i4")
        cdef int64_t* offset = <int64_t*>INT64_ITEMS(offset_array, NULL)
        cdef int32_t* length = <int32_t*>INT32_ITEMS(length_array, NULL)
        # by key: the pair that wrote it last; the pair whose second event has it, and in which cell
        written, replaced, cells = [np.full(keys, -1, np.int64) for _ in range(3)]
        cdef int64_t* wrote = <int64_t*>INT64_ITEMS(written, NULL)
        cdef int64_t* in_second = <int64_t*>INT64_ITEMS(replaced, NULL)
        cdef int64_t* cell_of = <int64_t*>INT64_ITEMS(cells, NULL)
        cdef list names = [None] * keys
        codes = {called: code for code, called in enumerate(self.keys)}
        cdef list extra_codes = [codes.get(name, -1) for name, _ in extra_fields]
        cdef list extra_names = [json_bytes(name, encode) for name, _ in extra_fields]
        cdef list extra_texts = [json_bytes(text, encode) for _, text in extra_fields]
        cdef int64_t cell, from_cell, begin, end
        cdef int32_t key, extra_key
        cdef int part
        cdef Output out
        cdef size_t start
        memset(&out, 0, sizeof(Output))
        try:
            for i in range(n):
                if not (0 <= first[i] < self.size and -1 <= second[i] < self.size):
                    raise ValueError("an event of a pair is not among these")
                start = out.size
                extra_key = extra_codes[extra[i]] if extra[i] >= 0 else -1
                if second[i] >= 0:
                    for cell in range(self.first[second[i]], self.first[second[i] + 1]):
                        in_second[self.key[cell]] = i
                        cell_of[self.key[cell]] = cell
                for part in range(2 if second[i] >= 0 else 1):
                    begin = self.first[second[i] if part else first[i]]
                    end = self.first[(second[i] if part else first[i]) + 1]
                    for cell in range(begin, end):
                        key = self.key[cell]
                        if wrote[key] == i:
                            continue
                        wrote[key] = i
                        if is_private[key]:
                            left_out += 1
                            continue
                        if names[key] is None:
                            names[key] = json_bytes(self.keys[key], encode)
                        output(&out, b", " if out.size > start else b"{", 2 if out.size > start else 1)
                        output_bytes(&out, names[key])
                        output(&out, b": ", 2)
                        if key == extra_key:
                            output_bytes(&out, extra_texts[extra[i]])
                            continue
                        from_cell = cell_of[key] if in_second[key] == i else cell
                        self._json(&out, from_cell, encode)
                if extra[i] >= 0 and not (extra_key >= 0 and wrote[extra_key] == i):
                    output(&out, b", " if out.size > start else b"{", 2 if out.size > start else 1)
                    output_bytes(&out, extra_names[extra[i]])
                    output(&out, b": ", 2)
                    output_bytes(&out, extra_texts[extra[i]])
                if out.size > start:
                    output(&out, b"}", 1)
                if out.size - start > INT32_MAX:
                    raise OverflowError("the fields of an event are too long")
                offset[i], length[i] = <int64_t>start, <int32_t>(out.size - start)
            return (out.at[:out.size] if out.size else b""), offset_array, length_array, left_out
        finally:
            free(out.at)

    cdef int _json(self, Output *out, int64_t cell, object encode) except -1:
        """Write the JSON of a value."""
        cdef uint8_t kind = self.kind[cell]
        cdef Py_ssize_t size, at = 0
        cdef const char *text
        cdef char[LONGEST_INTEGER] digits
        cdef int64_t word = self.word[cell]
        if kind == INT:
            text = signed_decimal_before(digits + LONGEST_INTEGER, word)
            return output(out, text, digits + LONGEST_INTEGER - text)
        if kind == NONE:
            return output(out, b"null", 4)
        if kind == TRUE or kind == FALSE:
            return output(out, b"true" if kind == TRUE else b"false", 4 + (kind == FALSE))
        value = self.value_of(kind, word)
        if kind == TEXT and (<str>value).isascii():
            text = PyUnicode_AsUTF8AndSize(value, &size)
            while at < size and text[at] >= 32 and text[at] != b'"' and text[at] != b"\\":
                at += 1
            if at == size:
                output(out, b'"', 1)
                output(out, text, size)
                return output(out, b'"', 1)
        return output_bytes(out, json_bytes(value, encode))


cdef struct Output:
    char *at
    size_t size, room


cdef int output(Output *out, const char *at, size_t size) except -1:
    cdef char *grown
    if out.size + size > out.room:
        grown = <char*>realloc(out.at, 2 * (out.size + size) + 4096)
        if grown == NULL:
            raise MemoryError
        out.at = grown
        out.room = 2 * (out.size + size) + 4096
    memcpy(out.at + out.size, at, size)
    out.size += size
    return 0


cdef inline int output_bytes(Output *out, bytes text) except -1:
    return output(out, <const char*>text, len(text))


cdef inline bytes json_bytes(object value, object encode):
    return encode(value).encode("utf-8", "replace")


cdef inline object number_text(int64_t number, dict known):
    cdef object value = number
    text = known.get(value)
    if text is None:
        text = known[value] = str(value)
    return text
