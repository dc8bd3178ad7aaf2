"""The raw data of tracepoints as fields of text, from which all else follows: see tracepoint_raw.h."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free


cdef class RawText(PerfText):
    """Writes the fields of events by their formats, for the kernels that read binary traces."""

    def __cinit__(self, int layout, bint with_stacks, bint with_records):
        self.field_names = b""
        self.names_of_fields = self.field_names
        if not raw_room(&self.text, 1):
            raise MemoryError

    def __dealloc__(self):
        free(self.formats)
        free(self.fields)
        free(self.text.data)

    def begin_reading(self, bint is_swapped, bint keeps_text) -> None:
        """Set whether numbers have the other order of bytes, and whether the text of fields is kept."""
        self.is_swapped = is_swapped
        self.keeps_text = keeps_text

    def set_formats(
        self, list formats: list[tuple[int, tuple[int, ...], bytes, list[tuple[bytes, int, int, int, int]]]]
    ) -> None:
        """Set the formats of tracepoints, once.

        Each has its spelling, the indices of the fields which that needs, the letters of states,
        and its fields: a name, an offset, a size, a kind, and the size of an item.
        """
        cdef int64_t count = len(formats), fields = sum(len(each[3]) for each in formats)
        cdef int64_t i, at = 0
        cdef int32_t which
        if self.formats != NULL:
            raise ValueError("there are formats already")
        self.formats = <raw_format*>calloc(<size_t>count + 1, sizeof(raw_format))
        self.fields = <raw_field*>calloc(<size_t>fields + 1, sizeof(raw_field))
        if self.formats == NULL or self.fields == NULL:
            raise MemoryError
        names = bytearray()
        for i in range(count):
            spelling, named, letters, own = formats[i]
            self.formats[i].first, self.formats[i].count = at, len(own)
            self.formats[i].spelling = spelling
            for which in range(8):
                self.formats[i].named[which] = named[which] if which < len(named) else -1
                if self.formats[i].named[which] >= len(own):
                    raise ValueError("a format has no such field")
            self.formats[i].letter_count = min(len(letters), 16)
            for which in range(self.formats[i].letter_count):
                self.formats[i].letters[which] = <char><unsigned char>letters[which]
            for name, offset, size, kind, item in own:
                self.fields[at] = raw_field(offset, size, len(names), len(name), kind, item)
                names += name
                at += 1
        self.field_names = bytes(names)
        self.names_of_fields = self.field_names
        self.format_count = count

    def fields_text(self) -> bytes:
        """Return the text of the fields of the rows, which `tail` is about."""
        return self.text.data[:self.text.used] if self.text.used else b""

    cdef size_t begin_text(self) noexcept nogil:
        """Return where the text of the next event begins."""
        if not self.keeps_text:
            self.text.used = 0
        return self.text.used

    cdef bint write_fields(self, int32_t format_, const uint8_t *data, uint32_t size) noexcept nogil:
        """Write the fields of an event; False without memory."""
        cdef raw_event event
        event.data, event.size, event.is_swapped = data, size, self.is_swapped
        raw_event_text(
            &self.text, &event, &self.formats[format_], self.fields, self.names_of_fields
        )
        return not self.text.no_memory

    cdef char context_of(self, const uint8_t *data, uint32_t size) noexcept nogil:
        """Return the letter of the context in which an event happened, by its flags."""
        if size <= 2:
            return 0
        return b"h" if data[2] & 8 else b"s" if data[2] & 16 else 0
