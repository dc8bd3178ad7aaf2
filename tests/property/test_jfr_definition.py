"""The kernel of flight recordings against plain definitions."""

from __future__ import annotations

import json
import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.jfr import PROBLEMS, Op, StackRows, columns, elements, objects, times
from meantime.model.stacks import StackTableBuilder
from meantime.readers import jfr
from meantime.readers.jfr import chunks

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)
FLOATS = st.floats(allow_nan=False)


def nine_bytes(value: int) -> bytes:
    """Return an integer in at most 9 bytes, of which the last has 8 bits."""
    found: list[int] = []
    value &= 2**64 - 1
    while value > 127 and len(found) < 8:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


@given(st.lists(INTEGERS), st.integers(0, 3), st.integers(0, 2))
def test_integers_are_read_as_one_by_one(values: list[int], cut: int, more: int) -> None:
    data = b"\0" + b"".join(map(nine_bytes, values))
    data = data[: max(1, len(data) - cut)]
    width = len(values) + more
    ops = np.array([(Op.INTEGER, each, 0) for each in range(width)], np.int32).reshape(-1, 3)
    expected, at = [], 1
    try:
        for _ in range(width):
            value, at = chunks._compressed(data, at)
            expected.append(value)
    except IndexError:
        expected = []
    found, [problem] = columns(data, np.ones(1, np.int64), ops, width, True, False)
    if len(expected) == width:
        assert (found[:, 0].tolist(), problem) == (expected, 0)
    else:
        assert PROBLEMS[problem] == "it ends too early"


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(INTEGERS, FLOATS, st.lists(INTEGERS, max_size=4), st.text(), st.booleans())
    ),
    is_compressed=st.booleans(),
)
def test_columns_have_what_was_written(
    *, rows: list[tuple[int, float, list[int], str, bool]], is_compressed: bool
) -> None:
    def integer(value: int) -> bytes:
        return nine_bytes(value) if is_compressed else struct.pack(">q", value)

    data, offsets, arrays = b"", [], []
    for number, real, many, text, flag in rows:
        offsets.append(len(data))
        data += integer(number) + struct.pack(">d", real)
        arrays.append(len(data))
        data += integer(len(many)) + b"".join(map(integer, many))
        encoded = text.encode()
        data += b"\3" + integer(len(encoded)) + encoded + bytes([flag])
    ops = np.array(
        [
            (Op.INTEGER, 0, 0), (Op.DOUBLE, 1, 0), (Op.ARRAY, 2, 1), (Op.INTEGER, -1, 0),
            (Op.TEXT, -1, 0), (Op.BOOLEAN, 3, 0),
        ],
        np.int32,
    )  # fmt: skip
    found, problems = columns(data, np.array(offsets, np.int64), ops, 4, is_compressed, False)
    assert not problems.any()
    assert found[0].tolist() == [row[0] for row in rows]
    assert found[1].view(np.float64).tolist() == [row[1] for row in rows]
    assert found[2].tolist() == arrays
    assert found[3].tolist() == [row[4] for row in rows]
    of_array = np.array([(Op.INTEGER, 0, 0)], np.int32)
    counts, values = elements(data, found[2].copy(), of_array, is_compressed)
    assert counts.tolist() == [len(row[2]) for row in rows]
    assert values.tolist() == [value for row in rows for value in row[2]]


@given(
    st.lists(st.tuples(INTEGERS, INTEGERS)), INTEGERS, st.integers(1, 2**40), st.integers(0, 2**62)
)
def test_ticks_are_floored_to_nanoseconds(
    rows: list[tuple[int, int]], start: int, per_second: int, start_ns: int
) -> None:
    ticks, lengths = np.array(rows, np.int64).reshape(-1, 2).T.copy()
    found = times(ticks, lengths, start, per_second, start_ns, 2**62)
    for (tick, length), begin, long, outside in zip(rows, *found, strict=True):
        expected = start_ns + (tick - start) * 10**9 // per_second
        lasted = max(0, length * 10**9 // per_second)
        is_inside = -(2**62) < expected < 2**62 - lasted and lasted <= 2**62
        assert bool(outside) is not is_inside
        assert (begin, long) == ((expected, lasted) if is_inside else (0, 0))


@given(st.lists(st.tuples(INTEGERS, st.floats(), st.none() | st.text(), st.booleans())))
def test_objects_are_those_of_the_json_module(
    rows: list[tuple[int, float, str | None, bool]],
) -> None:
    table = [b"" if row[2] is None else json.dumps(row[2]).encode() for row in rows]
    text, offset, length = objects(
        len(rows),
        [b'"number"', b'"real"', b'"text"', b'"flag"'],
        [Op.INTEGER, Op.DOUBLE, Op.TEXT, Op.BOOLEAN],
        [
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.float64).view(np.int64),
            np.arange(len(rows)),
            np.array([row[3] for row in rows], np.int64),
        ],
        [None, None, table, None],
    )
    for (number, real, name, flag), at, size in zip(rows, offset, length, strict=True):
        shown = real if np.isfinite(real) else str(real)
        members = {"number": number, "real": shown, "text": name, "flag": flag}
        expected = {key: value for key, value in members.items() if value is not None}
        assert text[at : at + size].decode() == json.dumps(expected)


@given(st.lists(st.lists(st.integers(0, 3), max_size=5)))
def test_stacks_share_the_rows_of_their_callers(stacks: list[list[int]]) -> None:
    rows, builder = StackRows(), StackTableBuilder()
    names = ["a", "b", "c", "d"]
    for name in names:
        builder.frame(name)
    frames = np.array([frame for stack in stacks for frame in stack], np.int32)
    found = rows.add(np.array([len(stack) for stack in stacks], np.int64), frames)
    expected = [builder.add(names[frame] for frame in reversed(stack)) for stack in stacks]
    assert found.tolist() == expected
    parent, frame = rows.build()
    table = builder.build()
    assert (parent.tolist(), frame.tolist()) == (table.parent.tolist(), table.frame.tolist())


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 9), st.integers(0, 2), st.integers(-1, 1)),
        min_size=1,
    )
)
def test_states_that_do_not_overlap_are_found_as_all_others(
    rows: list[tuple[int, int, int, int]],
) -> None:
    ordered = sorted((start, start + length, state, tag) for start, length, state, tag in rows)
    found = jfr._changes(np.array(ordered, np.int64).T.copy())
    assert [*map(tuple, found.T.tolist())] == jfr._nested_changes([*ordered])
