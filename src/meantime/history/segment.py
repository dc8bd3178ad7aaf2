"""A segment: up to 2^20 changes, quark-major, in sections that begin at multiples of 64 bytes.

The changes of a quark are one run of packed rows: the time since the segment began above the
payload, which is a tag and a value's code. A full segment has a run, if an empty one, for every
quark that ever changed, and carries in the state that each was in before. In others that state is
found in the segments before, at the latest in a full one. Rows are the same in memory and on disk;
what they are found by is packed on disk (`directory/segment_index`).

Times take as few bytes as they need, and codes of values one, two or four. The end of an interval
is the start of the next one, so it is not stored. Sealing is a counting sort. What finds rows is
packed on disk, one or two bytes for a run: with a million short-lived attributes a segment has as
many runs as changes. For the same reason only full segments carry in the states that attributes
were in before. A full segment is written once the changes since the last one are 16 times the
attributes: up to 65,000 attributes, every segment is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.history.directory.container import ALIGNMENT, Section, size_of, views
from meantime.history.extremes import Extremes
from meantime.kernels import seal as kernel
from meantime.kernels.search import Segments
from meantime.kernels.tail import INT, UNTYPED, Tail

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.segment_lengths import SegmentLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "SEGMENT_CHANGES",
    "Carry",
    "Head",
    "Limits",
    "ScratchBuffer",
    "Sections",
    "Segment",
    "seal",
    "segment_of_changes",
]

Sections: TypeAlias = "dict[str, npt.NDArray[Any]]"

SEGMENT_CHANGES = 2**20

# Numbers of a range of at most this many bits are in the rows, so that one attribute with a wide
# range does not widen the rows of all others; longer codes of strings raise it at no cost.
_INLINE_BITS = 16
_ORIGIN_BYTES = 3
# Origins of doubles in rows are integers from the negative of this on.
_INLINE_FLOATS = 2**31
_INT64 = np.iinfo(np.int64)
# `load_row` reads 8 bytes for each row, the last one too.
_READ_BEYOND = 8


@dataclass(slots=True, eq=False, repr=False)
class Carry:
    """By quark, the state at the end of what is sealed; a start of -2^63 is before all changes."""

    start_ns: Int64s
    word: Int64s
    meta: npt.NDArray[np.uint32]

    @classmethod
    def empty(cls) -> Carry:
        """Return the carry of a history without quarks."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32))

    def copy(self) -> Carry:
        """Return a carry that does not change with this one."""
        return Carry(self.start_ns.copy(), self.word.copy(), self.meta.copy())

    def reserve(self, quarks: int) -> None:
        """Grow the arrays to `quarks`; new attributes have been null before all changes."""
        more = quarks - len(self.start_ns)
        if more <= 0:
            return
        self.start_ns = np.append(self.start_ns, np.full(more, _INT64.min, np.int64))
        self.word = np.append(self.word, np.zeros(more, np.int64))
        self.meta = np.append(self.meta, np.ones(more, np.uint32))


class Head(NamedTuple):
    """The numbers from which a segment's sections follow.

    Attributes:
        base_ns: The time of its first change, which its rows count from.
        last_ns: The time of its last change.
        changes: How many rows it has.
        runs: How many quarks it has a run for.
        numbers: How many values are stored beside their rows.
        width: The bytes of a row.
        code_bits: The bits of a value's code, the lowest of a payload.
        payload_bits: The bits of a payload; the time is above them.
        wide: Whether payloads do not fit into rows and have a section of their own.
        numeric: Whether some attribute has numbers, so that each run has the form of its values.
        full: Whether every quark that ever changed has a run, with the state before it.
    """

    base_ns: int
    last_ns: int
    changes: int
    runs: int
    numbers: int
    width: int
    code_bits: int
    payload_bits: int
    wide: bool
    numeric: bool
    full: bool

    def index_sections(self) -> list[Section]:
        """Return the sections by which rows are found, as they are in memory."""
        described = self.runs if self.numeric else 0
        carried = self.runs if self.full else 0
        return [
            Section("quarks", np.dtype(np.int32), self.runs),
            Section("offsets", np.dtype(np.uint32), self.runs + 1),
            Section("carry_start", np.dtype(np.int64), carried),
            Section("carry_word", np.dtype(np.int64), carried),
            Section("carry_meta", np.dtype(np.uint32), carried),
            Section("form", np.dtype(np.uint8), described),
            Section("origin", np.dtype(np.int64), described),
        ]

    def row_sections(self) -> list[Section]:
        """Return the sections behind the index, in their order."""
        return [
            Section("rows", np.dtype(np.uint8), self.changes * self.width + _READ_BEYOND),
            Section("payload", np.dtype(np.uint64), self.changes if self.wide else 0),
            Section("numbers", np.dtype(np.int64), self.numbers),
        ]

    def row_bytes(self) -> int:
        """Return the length of the sections behind the index."""
        return size_of(self.row_sections())

    def size_bytes(self) -> int:
        """Return the length of all sections in memory."""
        return size_of(self.index_sections()) + self.row_bytes()


class Limits(NamedTuple):
    """What codes in segments refer to, by the manifest.

    Attributes:
        kinds: By quark, the type of its values.
        strings: How many strings there are.
        tags: How many tags there are.
    """

    kinds: npt.NDArray[np.uint8]
    strings: int
    tags: int


class Segment:
    """The sections of one segment.

    Attributes:
        head: The numbers from which its sections follow.
        rows: The sections behind the index, in one buffer.
        kept_pyramid: The pyramid that a snapshot of a growing history used, for the next one.
        lengths: By set of attributes, how long their states last in it; None if that is not kept.
    """

    def __init__(self, head: Head, index: Sections, rows: npt.NDArray[np.uint8]) -> None:
        self.head = head
        self._index = index
        self._sections: Sections | None = None
        self.rows = rows
        self.kept_pyramid: Sections | None = None
        self.lengths: dict[bytes, SegmentLengths | None] = {}
        self._integers: tuple[Int32s, Int64s, Int64s] | None = None

    @property
    def sections(self) -> Sections:
        """The arrays by name."""
        if self._sections is None:
            self._sections = self._index | views(self.rows, self.head.row_sections())
        return self._sections

    def load(self) -> None:
        """Bring the rows into memory, where they are not, before they are used.

        Raises:
            InputError: If they are in a file that is damaged.
        """

    @property
    def loaded(self) -> bool:
        """Whether `load` has nothing left to do."""
        return True

    def reopened(self) -> Segment:
        """Return the same segment; what is read of one that is stored is released with it.

        Raises:
            InputError: If it is damaged.
        """
        return self

    def pyramid(self, limits: Limits) -> Sections | None:  # noqa: ARG002 - for stored segments
        """Return the stored pyramid; None if there is none.

        Args:
            limits: What its codes refer to.

        Raises:
            InputError: If it is damaged, or does not fit the segment.
        """
        return None

    def integers(self, kinds: npt.NDArray[np.uint8]) -> tuple[Int32s, Int64s, Int64s]:
        """Return the attributes that have integers, and the least and the greatest of each.

        Args:
            kinds: By quark, the type of its values.

        Raises:
            InputError: If the rows are in a file that is damaged.
        """
        if self._integers is None:
            self._integers = self._found_integers(kinds)
        return self._integers

    def _found_integers(self, kinds: npt.NDArray[np.uint8]) -> tuple[Int32s, Int64s, Int64s]:
        if not self.head.numeric:
            none = np.empty(0, np.int64)
            return np.empty(0, np.int32), none, none
        self.load()
        alone = Segments(searchable=False)
        self.add_to(alone)
        quarks = self.sections["quarks"]
        low, high = np.full(len(quarks), _INT64.max), np.full(len(quarks), _INT64.min)
        alone.extremes(0, low, high)
        some = (kinds[quarks] == INT) & (low <= high)
        return quarks[some], low[some], high[some]

    def add_to(self, segments: Segments) -> None:
        """Make this the last of the segments that a history searches."""
        head = self.head
        segments.append(
            head.base_ns,
            head.width,
            head.code_bits,
            head.payload_bits,
            head.full,
            **self.sections,
        )


class ScratchBuffer:
    """Memory that is reused for each segment: the system would clear new memory, page by page."""

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.uint8)

    def take(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return so many zeros, aligned; they overwrite what was returned before."""
        if len(self._bytes) < size_bytes + ALIGNMENT:
            self._bytes = np.zeros(size_bytes + ALIGNMENT, np.uint8)
        else:
            self._bytes[:] = 0
        skip = -self._bytes.ctypes.data % ALIGNMENT
        return self._bytes[skip : skip + size_bytes]


def seal(
    tail: Tail,
    rows: int,
    before: Carry,
    extremes: Extremes,
    *,
    full: bool,
    scratch: ScratchBuffer | None = None,
) -> Segment:
    """Return the segment of the first `rows` changes of a tail, those of a quark in order of time.

    `before` is the state where the segment begins; it is changed to that where the segment ends.
    `extremes` are widened by the segment's integers.
    The segment is in `scratch`, or in memory of its own.
    """
    time_ns, quark = tail.time_ns[:rows], tail.quark[:rows]
    word, meta = tail.word[:rows], tail.meta[:rows]
    before.reserve(tail.quarks)
    counts = np.zeros(tail.quarks, np.int32)
    highest_code, highest_tag, numeric = kernel.measure(quark, word, meta, tail.kind, counts)
    present = counts > 0
    if full:
        present |= before.start_ns[: tail.quarks] != _INT64.min
    quarks = np.flatnonzero(present).astype(np.int32)
    lengths = counts[quarks]
    offsets = np.zeros(len(quarks) + 1, np.uint32)
    np.cumsum(lengths, out=offsets[1:])
    code_bits = (highest_code + 1).bit_length()
    numbers = (
        _Numbers.plan(
            tail,
            rows,
            quarks,
            offsets,
            inline_bits=max(code_bits, _INLINE_BITS),
            extremes=extremes,
        )
        if numeric
        else None
    )
    if numbers is not None:
        code_bits = max(code_bits, numbers.bits)
    # Not the first and last: changes of late pieces are in order of attributes.
    base_ns, last_ns = int(time_ns.min()), int(time_ns.max())
    time_bits = (last_ns - base_ns).bit_length()
    payload_bits = code_bits + highest_tag.bit_length()
    wide = time_bits + payload_bits > 64
    row_bits = time_bits if wide else time_bits + payload_bits
    head = Head(
        base_ns=base_ns,
        last_ns=last_ns,
        changes=rows,
        runs=len(quarks),
        numbers=numbers.stored if numbers is not None else 0,
        width=max(1, (row_bits + 7) // 8),
        code_bits=code_bits,
        payload_bits=payload_bits,
        wide=wide,
        numeric=numeric,
        full=full,
    )
    buffer = (scratch or ScratchBuffer()).take(head.size_bytes())
    index = views(buffer, head.index_sections())
    segment = Segment(head, index, buffer[len(buffer) - head.row_bytes() :])
    to = segment.sections
    to["quarks"][:] = quarks
    to["offsets"][:] = offsets
    if full:
        to["carry_start"][:] = before.start_ns[quarks]
        to["carry_word"][:] = before.word[quarks]
        to["carry_meta"][:] = before.meta[quarks]
    position = np.zeros(tail.quarks, np.int32)
    position[quarks] = offsets[:-1]
    form = origin = None
    if numbers is not None:
        form, origin = numbers.form, numbers.origin
        to["form"][:] = form[quarks]
        to["origin"][:] = origin[quarks]
    kernel.fill(
        time_ns,
        quark,
        word,
        meta,
        position,
        base_ns,
        code_bits,
        0 if wide else payload_bits,
        head.width,
        to["rows"],
        to["payload"] if wide else None,
        form,
        origin,
        to["numbers"] if numbers is not None else None,
    )
    # Read back what was written, instead of finding the last change of each quark a second time.
    alone = Segments(searchable=False)
    segment.add_to(alone)
    alone.ends(0, before.start_ns, before.word, before.meta)
    return segment


def segment_of_changes(
    kinds: npt.NDArray[np.uint8],
    time_ns: Int64s,
    quark: Int32s,
    word: Int64s,
    meta: npt.NDArray[np.uint32],
) -> Segment:
    """Return a segment of changes, which are in order of time, and of attributes of these types."""
    tail = Tail(len(time_ns), 1, True)
    tail.reserve(len(kinds))
    kind = np.where(meta & 1, np.uint8(UNTYPED), kinds[quark])
    tail.put_words(time_ns, quark, word, meta, kind, 0)
    tail.kind[: len(kinds)] = kinds
    return seal(tail, len(time_ns), Carry.empty(), Extremes(), full=False)


class _Numbers(NamedTuple):
    """How the values of each quark are stored: in rows if their range is small, otherwise apart."""

    form: npt.NDArray[np.uint8]
    origin: Int64s
    bits: int
    stored: int

    @classmethod
    def plan(
        cls,
        tail: Tail,
        rows: int,
        quarks: Int32s,
        offsets: npt.NDArray[np.uint32],
        *,
        inline_bits: int,
        extremes: Extremes,
    ) -> _Numbers:
        kind = tail.kind[: tail.quarks]
        low, high, origin = (np.empty(tail.quarks, np.int64) for _ in range(3))
        fractional, form = np.empty(tail.quarks, np.uint8), np.empty(tail.quarks, np.uint8)
        columns = tail.quark[:rows], tail.word[:rows], tail.meta[:rows]
        kernel.measure_numbers(*columns, kind, quarks, low, high, fractional)
        extremes.reserve(tail.quarks)
        kernel.widen(quarks, kind, low, high, extremes.low, extremes.high)
        most_span = 2**inline_bits - 2
        apart, any_apart, span, least, greatest = kernel.choose_forms(
            quarks, offsets, kind, low, high, fractional, most_span, form, origin
        )
        # A stored number has code 1, to distinguish it from null.
        bits = 1 if any_apart else 0
        if span >= 0:
            bits = max(bits, (span + 1).bit_length())
            # An origin that all have in common takes nothing, one for each run some 3 bytes.
            common = max(bits, max(0, greatest - least + 1).bit_length())
            if (
                common <= inline_bits
                # An origin of floats is a small number, also that of a run in which all are null.
                and (
                    -_INLINE_FLOATS <= least <= _INLINE_FLOATS
                    or not (form[quarks] == kernel.FLOAT_INLINE).any()
                )
                and rows * (common - bits) <= 8 * _ORIGIN_BYTES * len(quarks)
            ):
                bits = common
                kernel.set_origin(quarks, form, least if least <= greatest else 0, origin)
        return cls(form, origin, bits, apart)
