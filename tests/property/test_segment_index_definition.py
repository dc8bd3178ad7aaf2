"""The packed index of a segment: what is read is what was written, and damage is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.history.changes import TypedChanges
from meantime.history.directory.segment_index import PackedIndex, unpacked
from meantime.history.extremes import Extremes
from meantime.history.segment import Carry, seal
from meantime.history.validation import index_fault
from meantime.kernels.tail import FLOAT, INT, STR, Tail
from meantime.kernels.varints import decoded, encoded

if TYPE_CHECKING:
    from meantime.history.segment import Segment

QUARKS = 40
KINDS = np.array([STR, INT, FLOAT, INT] * 10, np.uint8)
changes = st.lists(
    st.tuples(
        st.integers(0, QUARKS - 1),
        st.integers(0, 5) | st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
    ),
    min_size=2,
    max_size=60,
)


def segments_of(rows: list[tuple[int, int, bool]], cut: int, *, full: bool) -> list[Segment]:
    """Return two segments of changes at successive times."""
    tail = Tail(1000, 1000, True)
    tail.reserve(QUARKS)
    quark = np.array([row[0] for row in rows], np.int32)
    null = np.array([row[2] for row in rows], np.uint32)
    word = np.array([row[1] for row in rows], np.int64)
    text = KINDS[quark] == STR
    word[text] &= 0xFF
    time_ns = np.arange(-7, len(rows) - 7)
    tail.put_words(*TypedChanges(time_ns, quark, word, null, KINDS[quark]), 0)
    carry, extremes = Carry.empty(), Extremes()
    first = seal(tail, cut, carry, extremes, full=True)
    tail.drop(cut, int(time_ns[cut]))
    return [first, seal(tail, len(rows) - cut, carry, extremes, full=full)]


@given(rows=changes, data=st.data(), full=st.booleans())
def test_an_index_is_read_as_it_was_written(
    *, rows: list[tuple[int, int, bool]], data: st.DataObject, full: bool
) -> None:
    cut = data.draw(st.integers(1, len(rows) - 1))
    for segment in segments_of(rows, cut, full=full):
        packed = PackedIndex.of(segment)
        read = unpacked(segment.head, np.frombuffer(packed.data(), np.uint8), packed.sizes())

        for section in segment.head.index_sections():
            written = segment.sections[section.name]
            assert read[section.name].dtype == section.dtype
            # A run of codes has no origin, and one that is stored apart has its place.
            assert read[section.name].tolist() == written.tolist(), section.name
        assert index_fault(segment.head, read) is None


@given(rows=changes, data=st.data(), full=st.booleans())
def test_a_damaged_index_is_rejected_or_safe(
    *, rows: list[tuple[int, int, bool]], data: st.DataObject, full: bool
) -> None:
    cut = data.draw(st.integers(1, len(rows) - 1))
    segment = segments_of(rows, cut, full=full)[1]
    packed = PackedIndex.of(segment)
    damaged = bytearray(packed.data())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(b"".join(packed)) - 1)))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        read = unpacked(segment.head, np.frombuffer(damaged, np.uint8), packed.sizes())
    except ValueError:
        return

    if index_fault(segment.head, read) is None:
        for section in segment.head.index_sections():
            assert len(read[section.name]) == section.length
            assert read[section.name].dtype == section.dtype
        assert int(read["offsets"][-1]) == segment.head.changes
        assert (np.diff(read["quarks"]) > 0).all()


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_numbers_are_read_as_they_were_written(numbers: list[int]) -> None:
    data = encoded(np.array(numbers, np.uint64))

    assert decoded(np.frombuffer(data, np.uint8), len(numbers)).tolist() == numbers
