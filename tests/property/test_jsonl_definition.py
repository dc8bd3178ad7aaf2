"""The reader of events reads what a plain definition reads."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from meantime.events import Event, Events
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
        members = json.loads(line)
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
    fields = {field: kept(value) for field, value in members.items()}
    return time, row, Event(time, name, fields, **places)


def kept(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if type(value) is int and not -(2**63) <= value < 2**63:
        return str(value)
    return value


@given(
    st.lists(st.one_of(SOUND, MEMBERS, VALUES), max_size=12),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
)
@example([{"ts": "-5", "name": "a"}, {"ts": 1.0, "name": "b"}], False, "\n")
def test_events_are_those_of_the_definition(lines: list[Any], ascii_only: bool, end: str) -> None:  # noqa: FBT001 - a case
    texts = [json.dumps(line, ensure_ascii=ascii_only) for line in lines]
    told = [event for row, text in enumerate(texts) if (event := defined(text, row))]

    trace = jsonl.read(
        Source("x", io.BytesIO("".join(text + end for text in texts).encode())),
        ReadOptions(lenient=True),
    )
    read = []
    for batch in trace.batches:
        assert isinstance(batch, Events)
        read += list(batch)

    assert read == [event for _, _, event in sorted(told, key=lambda row: row[:2])]
    assert trace.anomalies["bad_record"] == len(lines) - len(told)
