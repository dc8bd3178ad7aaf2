"""The begins and ends of spans, and their records in a .spall file, compared with plain Python."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import span_records
from meantime.testing import history_from_spans

SPANS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.sampled_from([0, 1, 2, 5, 30])),
    max_size=30,
)
STEP = st.tuples(st.booleans(), st.integers(0, 2**62), st.integers(0, 2), st.binary(max_size=300))
NAMES = [b"", b"read", b"x" * 255]


@given(SPANS)
def test_a_walk_ends_what_does_not_contain_the_next_span(
    found: list[tuple[str, int, int]],
) -> None:
    rows = [(name, start, start + length) for name, start, length in found]
    spans = history_from_spans({"main": rows}).spans()
    for lane in range(int(spans.lane.max(initial=0)) + 1):
        of_lane = np.flatnonzero(spans.lane == lane).astype(np.int32)

        steps = span_records.walk(of_lane, spans.parent)

        expected: list[int] = []
        begun: list[int] = []
        for index, row in enumerate(of_lane.tolist()):
            while begun and of_lane[begun[-1]] != spans.parent[row]:
                expected.append(~begun.pop())
            begun.append(index)
            expected.append(index)
        expected += [~index for index in reversed(begun)]
        assert steps.tolist() == expected


@given(st.lists(STEP), st.sampled_from([1, 3]))
def test_records_are_those_of_the_format(
    steps: list[tuple[bool, int, int, bytes]], version: int
) -> None:
    arguments = b"".join(text for *_, text in steps)
    length = np.array([len(text) for *_, text in steps], np.int32)
    records = span_records.spall(
        version,
        7,
        2**32 - 1,
        np.array([begins for begins, *_ in steps], np.uint8),
        np.array([time for _, time, *_ in steps], np.int64),
        np.array([name for _, _, name, _ in steps], np.int32),
        np.frombuffer(b"".join(NAMES), np.uint8),
        np.cumsum([0, *map(len, NAMES)], dtype=np.int64),
        np.frombuffer(arguments, np.uint8),
        np.cumsum(length, dtype=np.int64) - length,
        length,
    )

    expected = b""
    for begins, time, name, text in steps:
        cut = text[:255]
        if version == 1 and begins:
            expected += struct.pack("<BBIId", 3, 0, 7, 2**32 - 1, time)
        elif version == 1:
            expected += struct.pack("<BIId", 4, 7, 2**32 - 1, time)
        else:
            expected += struct.pack("<BQ", 3 if begins else 4, time)
        if begins:
            expected += bytes([len(NAMES[name]), len(cut)]) + NAMES[name] + cut
    assert records == expected
