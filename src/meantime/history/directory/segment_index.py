"""The index of a segment in its file: columns of varints, a few bytes for each run.

In memory the index has arrays of fixed width, which kernels search. In a file it is packed: in a
segment of many attributes with few changes each, it would be larger than the changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.directory.container import Section, aligned, size_of, views
from meantime.history.numbers import BEFORE_ALL
from meantime.kernels.seal import CODE, FLOAT_INLINE, INT_INLINE, STORED
from meantime.kernels.varints import decoded, encoded, running

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.segment import Head, Sections, Segment
    from meantime.model.columns import Int64s

__all__ = ["PackedIndex", "size_in_version_1", "unpacked", "unpacked_version_1"]


class PackedIndex(NamedTuple):
    """The packed columns of an index.

    Attributes:
        quarks: How many quarks are skipped before that of each run.
        lengths: How many rows each run has.
        forms: For each group of runs with one form and origin: how many there are; then the forms;
            then the origins. The runs of a segment without numbers are in no group.
        starts: In a full segment, for each run the time from when its carried state began to the
            segment's base, plus 1; 0 for none.
        states: Of each carried state its meta; then of each its word.
    """

    quarks: bytes
    lengths: bytes
    forms: bytes
    starts: bytes
    states: bytes

    @classmethod
    def of(cls, segment: Segment) -> PackedIndex:
        """Return the index of a segment."""
        head, sections = segment.head, segment.sections
        skipped = np.diff(sections["quarks"].astype(np.int64), prepend=-1) - 1
        lengths = np.diff(sections["offsets"].astype(np.int64))
        carried = sections["carry_start"] != BEFORE_ALL
        lasted = np.uint64(head.base_ns % 2**64) - sections["carry_start"].view(np.uint64)
        starts = np.where(carried, lasted + np.uint64(1), np.uint64(0))
        states = np.concatenate(
            [
                sections["carry_meta"][carried].astype(np.uint64),
                _zigzag(sections["carry_word"][carried]),
            ]
        )
        return cls(
            encoded(skipped.view(np.uint64)),
            encoded(lengths.view(np.uint64)),
            _packed_forms(sections) if head.numeric else b"",
            encoded(starts),
            encoded(states),
        )

    def sizes(self) -> tuple[int, ...]:
        """Return the bytes of each column."""
        return tuple(map(len, self))

    def data(self) -> bytes:
        """Return all columns, padded to the alignment."""
        joined = b"".join(self)
        return joined.ljust(aligned(len(joined)), b"\0")


def _zigzag(numbers: Int64s) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _signed(numbers: npt.NDArray[np.uint64]) -> Int64s:
    return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)


def _packed_forms(sections: Sections) -> bytes:
    form, origin = sections["form"], sections["origin"]
    # Where stored numbers are follows from the lengths of runs.
    origin = np.where((form == INT_INLINE) | (form == FLOAT_INLINE), origin, 0)
    first = np.flatnonzero(np.append(True, (form[1:] != form[:-1]) | (origin[1:] != origin[:-1])))
    counts = np.diff(np.append(first, len(form)))
    columns = [counts.view(np.uint64), form[first].astype(np.uint64), _zigzag(origin[first])]
    return encoded(np.concatenate(columns))


def unpacked(head: Head, data: npt.NDArray[np.uint8], sizes: tuple[int, ...]) -> Sections:
    """Return the arrays of a packed index.

    Raises:
        ValueError: If it is malformed; the argument is the name of what is wrong.
    """
    ends = np.cumsum(sizes).tolist()
    columns = [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    quarks, lengths, forms, starts, states = columns
    offsets = _offsets(head, lengths)
    return {
        "quarks": _running(quarks, head.runs, "quarks", step=1).view(np.int32),
        "offsets": offsets,
        **_carry(head, starts, states),
        **_forms(head, forms, offsets),
    }


def _decoded(column: npt.NDArray[np.uint8], count: int, name: str) -> npt.NDArray[np.uint64]:
    try:
        return decoded(column, count)
    except ValueError:
        raise ValueError(name) from None


def _offsets(head: Head, column: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    offsets = np.zeros(head.runs + 1, np.uint32)
    # A run without rows is there for the state that it carries.
    offsets[1:] = _running(column, head.runs, "offsets", least=0 if head.full else 1)
    if offsets[-1] != head.changes:
        raise ValueError("offsets")
    return offsets


def _running(
    column: npt.NDArray[np.uint8], count: int, name: str, *, least: int = 0, step: int = 0
) -> npt.NDArray[np.uint32]:
    try:
        return running(column, count, least, step)
    except ValueError:
        raise ValueError(name) from None


def _carry(
    head: Head, start_column: npt.NDArray[np.uint8], state_column: npt.NDArray[np.uint8]
) -> Sections:
    starts = _decoded(start_column, head.runs if head.full else 0, "carry_start")
    carried = starts > 0
    count = int(np.count_nonzero(carried))
    states = _decoded(state_column, 2 * count, "carry")
    meta, word = np.ones(len(starts), np.uint32), np.zeros(len(starts), np.int64)
    if count and int(states[:count].max()) >= 2**32:
        raise ValueError("carry_meta")
    meta[carried] = states[:count]
    word[carried] = _signed(states[count:])
    # In wrapping arithmetic: what began before all times is later than the base.
    lasted = starts[carried] - np.uint64(1)
    if count and int(lasted.max()) >= head.base_ns - BEFORE_ALL:
        raise ValueError("carry_start")
    start = np.full(len(starts), BEFORE_ALL, np.int64)
    start[carried] = (np.uint64(head.base_ns % 2**64) - lasted).view(np.int64)
    return {"carry_start": start, "carry_word": word, "carry_meta": meta}


def _forms(head: Head, column: npt.NDArray[np.uint8], offsets: npt.NDArray[np.uint32]) -> Sections:
    if not head.numeric:
        if len(column):
            raise ValueError("form")
        return {"form": np.empty(0, np.uint8), "origin": np.empty(0, np.int64)}
    # The last byte of each number is less than 128.
    numbers = _decoded(column, int(np.count_nonzero(column < 128)), "form")
    if len(numbers) % 3:
        raise ValueError("form")
    counts, forms, origins = numbers.reshape(3, -1)
    if int(counts.max(initial=0)) > head.runs or int(counts.sum()) != head.runs:
        raise ValueError("form")
    if int(forms.max()) > STORED:
        raise ValueError("form")
    form = np.repeat(forms.astype(np.uint8), counts.view(np.int64))
    origin = np.repeat(_signed(origins), counts.view(np.int64))
    if (forms == CODE).any():
        origin[form == CODE] = 0
    stored = np.flatnonzero(form == STORED) if (forms == STORED).any() else np.empty(0, np.int64)
    first = offsets[stored].astype(np.int64)
    lengths = offsets[stored + 1] - first
    if int(lengths.sum()) != head.numbers:
        raise ValueError("form")
    # What to add to a row to get its index among the stored numbers.
    origin[stored] = np.cumsum(lengths) - lengths - first
    return {"form": form, "origin": origin}


def _sections_1(head: Head) -> list[Section]:
    """Return the sections of an index in version 1."""
    described = head.runs if head.numeric else 0
    return [
        Section("quarks", np.dtype(np.int32), head.runs),
        Section("offsets", np.dtype(np.uint32), head.runs + 1),
        Section("carry_start", np.dtype(np.int64), head.runs),
        Section("carry_word", np.dtype(np.int64), head.runs),
        Section("carry_meta", np.dtype(np.uint32), head.runs),
        Section("form", np.dtype(np.uint8), described),
        Section("origin", np.dtype(np.int64), described),
    ]


def size_in_version_1(head: Head) -> int:
    """Return the bytes of an index in version 1."""
    return size_of(_sections_1(head))


def unpacked_version_1(head: Head, data: npt.NDArray[np.uint8]) -> Sections:
    """Return the arrays of an index as version 1 stored it, unchecked.

    Every segment had the carried states of its runs then; only full ones keep them.
    """
    sections = views(data, _sections_1(head))
    if not head.full:
        for name in ("carry_start", "carry_word", "carry_meta"):
            sections[name] = sections[name][:0]
    return sections
