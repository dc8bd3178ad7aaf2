"""What kernels write of arguments and numbers, compared with what Python writes of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.kernels import export_rows
from meantime.model.service_spans import OWN_FIELDS
from meantime.views.export import export

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.history import History

KEYS = st.sampled_from([*sorted(OWN_FIELDS), "type", "thread.id", "", "é", '"']) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=3
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["error", "server", "0" * 16, "0123456789abcdef", "5" * 32, "\U0001f600"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(KEYS, VALUES, max_size=5)
ARGUMENTS = st.tuples(FIELDS, st.booleans()).map(
    lambda given: json.dumps(given[0], ensure_ascii=given[1])
)
# What Python's parser reads in its own way, or the kernel leaves to it.
AWKWARD = [
    '{"a":1,"a":2,"b":{"c":1,"c":[]}}',
    '{"\\u0061":1,"a":2}',
    '{{"trace_id":"\\u0035{}","span_id":"{}"}}'.format("5" * 31, "6" * 16),
    '{{"trace_id":"{}","span_id":"{}","parent_id":"{}"}}'.format("5" * 32, "6" * 16, "A" * 16),
    '{"status":"err\\u006fr","kind":"s\\u0065rver"}',
    '{"n":-0,"m":-0.0,"x":1e5,"y":1.50,"z":123456789012345678901234567890,"t":1E-7}',
    '{"d":' + "[" * 19 + "1" + "]" * 19 + ',"deeper":' + "[" * 40 + "]" * 40 + "}",
    '{{"many":{{{}}}}}'.format(",".join(f'"k{n}":{n}' for n in range(60))),
    '{"long":{"text":"%s"}}' % ("x" * 300),
    '{ "blanks" : [ 1 , { } , [ ] ] , "thread.name" : "own" }',
    '{"s":"\\ud83d\\ude00\\u007f\\n\\/\\\\\\""}',
]


def check_texts(texts: list[str]) -> None:
    events = [
        f'{{"ph":"X","name":"f","pid":1,"tid":2,"ts":{10 * row},"dur":5,"args":{text}}},'
        f'{{"ph":"i","s":"t","name":"p","pid":1,"tid":2,"ts":{10 * row + 1},"args":{text}}}'
        for row, text in enumerate(texts)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.json")
        path.write_text(f"[{','.join(events)}]", encoding="utf-8")
        history = meantime.open(path, include="env")
        # arguments are read from the file when they are used
        assert len(history.spans()) == len(texts)
        check(history)


def check(history: History) -> None:
    for target in ("perfetto", "otlp", "firefox"):
        written = b"".join(export(history, target, Counter()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(export_rows, "arguments", nothing_converted)
            patch.setattr(export_rows, "service_ids", nothing_read)
            expected = b"".join(export(history, target, Counter()))
        if target == "perfetto":
            assert written == expected
        else:
            assert json.loads(written) == json.loads(expected)


def nothing_converted(form: int, text: Any, offset: Any, length: Any) -> tuple[Any, ...]:
    del form, text, offset
    left = (length == 0).astype(np.uint8)
    none = np.zeros(len(length) + 1, np.int64)
    return np.empty(0, np.uint8), none, left, np.zeros_like(left), np.zeros_like(left)


def nothing_read(text: Any, offset: Any, length: Any) -> tuple[Any, ...]:
    del text, offset
    left = (length == 0).astype(np.uint8)
    return np.zeros((4, len(length)), np.uint64), left, np.zeros_like(left)


@given(st.lists(ARGUMENTS, min_size=1, max_size=6))
@settings(max_examples=40)
def test_arguments_are_written_as_python_writes_them(texts: list[str]) -> None:
    check_texts(texts)


def test_awkward_arguments_are_written_as_python_writes_them() -> None:
    check_texts(AWKWARD)


def test_what_json_does_not_allow_is_left_to_python() -> None:
    texts = [b"{", b'{"a":NaN}', b'{"a":1}x', b'{"a":"\xff"}', b"7", b'{"a":"\n"}', b'{"a":1}']
    length = np.array([*map(len, texts)], np.int64)
    for form in (export_rows.MARKER, export_rows.ANNOTATIONS, export_rows.ATTRIBUTES):
        text, ends, done, _, _ = export_rows.arguments(
            form, np.frombuffer(b"".join(texts), np.uint8), np.cumsum(length) - length, length
        )
        assert done.tolist() == [0, 0, 0, 0, 0, 0, 1]
        assert ends.tolist() == [0] * 7 + [len(text)]


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=5),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 9),
)
def test_numbers_are_exact_decimals(
    rows: list[tuple[int, bool]], origin: int, decimals: int
) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    nulls = np.array([null for _, null in rows], np.uint8)

    found = export_rows.decimals(values, origin, decimals, nulls).decode()

    texts = []
    for value, null in rows:
        sign = "-" if value < origin else ""
        whole, rest = divmod(abs(value - origin), 10**decimals)
        text = f"{sign}{whole}." + f"{rest:0{decimals}}" * (decimals > 0)
        texts.append("null" if null else text.rstrip("0").rstrip(".") if rest else f"{sign}{whole}")
    assert found == ", ".join(texts)


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)),
        max_size=5,
    )
)
def test_frame_events_are_as_json_writes_them(rows: list[tuple[bool, int, int]]) -> None:
    begins = np.array([begins for begins, _, _ in rows], np.uint8)
    frame = np.array([frame for _, frame, _ in rows], np.int32)
    time_ns = np.array([time_ns for _, _, time_ns in rows], np.int64)

    found = export_rows.frame_events(begins, frame, time_ns).decode()

    events = [
        {"type": "O" if begins else "C", "frame": frame, "at": time_ns}
        for begins, frame, time_ns in rows
    ]
    assert f"[{found}]" == json.dumps(events)


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(0, 1),
            st.integers(0, 2**31 - 1),
            st.integers(0, 1),
        ),
        max_size=5,
    )
)
def test_lines_of_states_are_as_json_writes_them(rows: list[tuple[int, int, int, int]]) -> None:
    origin = min([time_ns for time_ns, *_ in rows], default=0)
    entities, tails = ["", 'd"é'], [{}, {"tag": "x", "value": 1.5}]

    found = export_rows.state_lines(
        np.array([time_ns for time_ns, *_ in rows], np.int64),
        origin,
        np.array([entity for _, entity, *_ in rows], np.int32),
        *_coded([json.dumps(entity) for entity in entities]),
        np.array([state for _, _, state, _ in rows], np.int32),
        np.array([tail for *_, tail in rows], np.int32),
        *_coded([f", {json.dumps(tail)[1:-1]}" if tail else "" for tail in tails]),
    )

    assert found.decode() == "".join(
        json.dumps(
            {"time": str(time_ns - origin), "entity": entities[entity], "state": state}
            | tails[tail]
        )
        + "\n"
        for time_ns, entity, state, tail in rows
    )


def _coded(texts: list[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
    listed = [text.encode() for text in texts]
    return b"".join(listed), np.cumsum([0, *map(len, listed)], dtype=np.int64)


def test_what_is_not_in_its_text_is_rejected() -> None:
    text, none = np.zeros(4, np.uint8), np.zeros(1, np.int32)
    for first, size in ((0, 5), (-1, 2), (2, 3), (0, -1), (2**62, 2**62)):
        part = np.array([first], np.int64), np.array([size], np.int64)
        with pytest.raises(IndexError):
            export_rows.arguments(export_rows.MARKER, text, *part)
        with pytest.raises(IndexError):
            export_rows.joined(text, *part, b"null")
    one = np.array([0, 1], np.int64)
    for code in (-1, 1):
        given = np.array([code], np.int32)
        for entity, tail in ((given, none), (none, given)):
            with pytest.raises(IndexError):
                export_rows.state_lines(
                    np.zeros(1, np.int64), 0, entity, b"x", one, none, tail, b"x", one
                )
        with pytest.raises(IndexError):
            export_rows.stack_samples(
                none, np.ones(1, np.uint64), np.zeros(1, np.int64), np.ones((1, 1), np.int64),
                0, 0, np.array([code], np.int32), b"x", one,
            )  # fmt: skip
    with pytest.raises(IndexError):
        export_rows.stack_samples(
            none, np.ones(1, np.uint64), np.zeros(1, np.int64), np.ones((1, 1), np.int64),
            0, 0, none, b"x", one,
        )  # fmt: skip
