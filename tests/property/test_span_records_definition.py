"""The begins and ends of spans, and what files have of them, compared with plain Python."""

from __future__ import annotations

import json
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
STEP = st.tuples(
    st.booleans(),
    st.integers(0, 1),
    st.integers(0, 2**62),
    st.integers(0, 2),
    st.binary(max_size=300),
)
IDS = [(7, 2**32 - 1), (8, 9)]
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
    steps: list[tuple[bool, int, int, int, bytes]], version: int
) -> None:
    begun = [step for step in steps if step[0]]
    arguments = b"".join(text for *_, text in begun)
    length = np.array([len(text) for *_, text in begun], np.int32)
    records, offset = span_records.spall(
        version,
        np.array(IDS, np.uint32),
        np.array([lane for _, lane, *_ in steps], np.int32),
        np.array([begins for begins, *_ in steps], np.uint8),
        np.array([time for _, _, time, *_ in steps], np.int64),
        np.array([name for *_, name, _ in begun], np.int32),
        np.frombuffer(b"".join(NAMES), np.uint8),
        np.cumsum([0, *map(len, NAMES)], dtype=np.int64),
        np.frombuffer(arguments, np.uint8),
        np.cumsum(length, dtype=np.int64) - length,
        length,
    )

    expected, offsets = b"", [0]
    for begins, lane, time, name, text in steps:
        cut = text[:255]
        if version == 1 and begins:
            expected += struct.pack("<BBIId", 3, 0, *IDS[lane], time)
        elif version == 1:
            expected += struct.pack("<BIId", 4, *IDS[lane], time)
        else:
            expected += struct.pack("<BQ", 3 if begins else 4, time)
        if begins:
            expected += bytes([len(NAMES[name]), len(cut)]) + NAMES[name] + cut
        offsets.append(len(expected))
    assert records.tobytes() == expected
    assert offset.tolist() == offsets


EVENT = st.tuples(
    st.sampled_from("XBE"),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from([b"", b'{"a": 1}']),
)


@given(st.lists(EVENT))
def test_events_are_those_of_chrome_json(
    events: list[tuple[str, int, int, int, int, bytes]],
) -> None:
    names, tails = [b'""', b'"read"', b'"' + b"x" * 300 + b'"'], [b',"pid":7', b',"cat":"c"']
    length = np.array([len(text) for *_, text in events], np.int32)
    lines = span_records.chrome(
        np.array([ord(phase) for phase, *_ in events], np.uint8),
        np.array([time for _, time, *_ in events], np.int64),
        np.array([lasted for _, _, lasted, *_ in events], np.uint64).view(np.int64),
        np.array([name for *_, name, _, _ in events], np.int32),
        b"".join(names),
        np.cumsum([0, *map(len, names)], dtype=np.int64),
        np.array([tail for *_, tail, _ in events], np.int32),
        b"".join(tails),
        np.cumsum([0, *map(len, tails)], dtype=np.int64),
        np.frombuffer(b"".join(text for *_, text in events), np.uint8),
        np.cumsum(length, dtype=np.int64) - length,
        length,
    )

    expected = []
    for phase, time, lasted, name, tail, text in events:
        line = b'{"ph":"%s"' % phase.encode()
        line += b',"dur":' + microseconds(lasted) if phase == "X" else b""
        line += b',"name":' + names[name] if phase != "E" else b""
        line += b',"ts":' + microseconds(time) + tails[tail]
        expected.append(line + (b',"args":' + text if text else b"") + b"}")
    assert lines == b",\n".join(expected)


def microseconds(time_ns: int) -> bytes:
    whole, rest = divmod(abs(time_ns), 1000)
    text = f"{whole}.{rest:03}" if rest else f"{whole}"
    return (f"-{text}" if time_ns < 0 else text).encode()


ARGUMENTS = st.one_of(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=2), below),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode()),
    st.text(st.sampled_from('{}[]",:1-.e\\ \n\u00e9'), max_size=8).map(str.encode),
)


@given(st.lists(ARGUMENTS, max_size=5))
def test_what_is_plain_json_can_be_parsed(texts: list[bytes]) -> None:
    length = np.array([*map(len, texts)], np.int32)
    joined = np.frombuffer(b"".join(texts), np.uint8)
    plain = span_records.plain_json(joined, np.cumsum(length, dtype=np.int64) - length, length)

    for text, is_plain in zip(texts, plain.tolist(), strict=True):
        if is_plain and text:
            json.loads(text)


def test_objects_are_plain_json_and_what_is_cut_is_not() -> None:
    texts = [b'{"a": [1, "b"]}', b'{"a": 1', b"", b'{"long": "%s"}' % (b"x" * 900)]
    length = np.array([*map(len, texts)], np.int32)
    joined = np.frombuffer(b"".join(texts), np.uint8)
    plain = span_records.plain_json(joined, np.cumsum(length, dtype=np.int64) - length, length)

    assert plain.tolist() == [1, 0, 1, 0]
