"""The reader of events reads what a plain definition reads."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from meantime.model.events import Event, Events
from meantime.readers import jsonl
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**63 - 2, 2**63 + 2),
    st.integers(-(2**63) - 2, -(2**63) + 2),
    st.floats(allow_nan=False),
    st.text(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
MEMBERS = st.dictionaries(
    st.sampled_from(["time_ns", "ts", "name", "cpu", "pid", "tid", "x", "ü"]), VALUES, max_size=6
)
SOUND = st.builds(
    lambda members, time_ns, name: members | {"time_ns": time_ns, "name": name},
    MEMBERS,
    st.integers(-5, 5),
    st.text(),
)


def defined(line: str, row: int) -> tuple[int, int, Event] | None:
    """Return the time, the line and the event; None if it is none."""
    try:
        members = json.loads(line.strip(), strict=False)
    except ValueError:
        return None
    if not isinstance(members, dict):
        return None
    time = members.pop("time_ns") if "time_ns" in members else members.pop("ts", None)
    if isinstance(time, str) and time.lstrip("-").isdecimal() and time.count("-") < 2:
        time = int(time)
    if isinstance(time, float) and time.is_integer() and abs(time) <= 2**53:
        time = int(time)
    if type(time) is not int or not -(2**63) < time < 2**63 - 2:
        return None
    name = members.pop("name", None)
    if not isinstance(name, str):
        return None
    places = {}
    for place in ("cpu", "pid", "tid"):
        number = members.get(place)
        if type(number) is int and 0 <= number < 2**63:
            places[place] = members.pop(place)
    fields = {whole(field): whole(kept(value)) for field, value in members.items()}
    return time, row, Event(time, whole(name), fields, **places)


def whole(value: Any) -> Any:
    """Replace lone surrogates."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def kept(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if type(value) is int and not -(2**63) <= value < 2**63:
        return str(value)
    return value


_LITERALS = [
    *("-0", "-0.0", "00", "01", "1.", ".5", "1e", "1E+2", "1e400", "-1e-400", "0.1", "+1", "-"),
    *("t", "true", "false", "null", "tru", "nulL"),
    *("9223372036854775807", "9223372036854775808", "123456789012345678901234567890"),
    *("-9223372036854775808", "-9223372036854775809"),
    *('"\t"', '"\x00"', '"\x7f"', '"a"b', "[1,]", '{"a":1,"a":2}', "{a:1}", "'x'"),
]
# Spellings of values that JSON has, that only Python's reader accepts, and that neither does.
SPELLED = st.one_of(
    VALUES.map(lambda value: json.dumps(value, ensure_ascii=False)),
    VALUES.map(json.dumps),
    st.floats().map(json.dumps),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.integers(-(10**20), 10**20).map(lambda number: f"{number}.0"),
    st.integers(1, 10**25).map(lambda number: f"0.{number}"),
    st.text('"\\u0dD89aCcf/ntb', max_size=8).map(lambda text: f'"{text}"'),
    st.recursive(
        st.sampled_from(["1", '"a"', "null", "[]", "{}", "1e2", "NaN"]),
        lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"[ {', '.join(parts)}]"),
        max_leaves=5,
    ),
    st.sampled_from(_LITERALS),
)
_MEMBERS = ("time_ns", "ts", "name", "cpu", "pid", "tid", "x", "ü", "x y", "")
KEYS = st.sampled_from([*_MEMBERS, r"n\u0061me", r"\ud800", r"\""])
BLANKS = st.sampled_from(["", "", " ", "\t", " \r ", "\f"])


@st.composite
def spelled_lines(draw: st.DrawFn) -> str:
    """Draw an object as text, with any blanks, in which keys may occur twice."""
    members = draw(st.lists(st.tuples(KEYS, SPELLED), max_size=5))
    if draw(st.booleans()):
        members += [("time_ns", str(draw(st.integers(-5, 5)))), ("name", '"a"')]
    members = draw(st.permutations(members))
    blank = draw(BLANKS)
    inner = f",{blank}".join(f'"{key}"{blank}:{draw(BLANKS)}{value}' for key, value in members)
    return f"{blank}{{{inner}{draw(BLANKS)}}}{draw(st.sampled_from(['', '', ' ', 'x', '}']))}"


@given(
    st.lists(st.one_of(SOUND, MEMBERS, VALUES), max_size=12),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
)
@example([{"ts": "-5", "name": "a"}, {"ts": 1.0, "name": "b"}], False, "\n")
def test_events_are_those_of_the_definition(lines: list[Any], ascii_only: bool, end: str) -> None:  # noqa: FBT001 - a case
    assert_read([json.dumps(line, ensure_ascii=ascii_only) for line in lines], end)


@settings(max_examples=250)
@given(st.lists(spelled_lines(), max_size=6))
@example(['{"time_ns": 1, "name": "a", "x": 1}', '{"time_ns": 2, "name": "b", "x": 1, "x": 2}'])
@example(['{"name": "a", "ts": 3, "x": [ 1, {"a": 1, "a": "\\u00fc"}]}'])
def test_however_they_are_spelled(lines: list[str]) -> None:
    assert_read(lines, "\n")


def assert_read(texts: list[str], end: str) -> None:
    # the first object decides whether it is a log of these events, or of other fields and units
    texts = ['{"time_ns": 0, "name": "first"}', *texts]
    read_events = [event for row, text in enumerate(texts) if (event := defined(text, row))]
    data = "".join(text + end for text in texts).encode("utf-8", "surrogatepass")
    trace = jsonl.read(Source("x", io.BytesIO(data)), ReadOptions(lenient=True))
    read = []
    for batch in trace.batches:
        assert isinstance(batch, Events)
        read += list(batch)

    expected = [event for _, _, event in sorted(read_events, key=lambda row: row[:2])]
    # of floats, NaN and the sign of zero are distinguished too
    assert repr(read) == repr(expected)
    assert trace.anomalies["bad_record"] == sum(bool(text.strip()) for text in texts) - len(
        read_events
    )
