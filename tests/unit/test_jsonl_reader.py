from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.errors import InputError
from meantime.model.attribute_paths import location_path
from meantime.model.attributes import format_path
from meantime.model.column_mapping import mapping_of
from meantime.model.columns import Coded
from meantime.model.events import ABSENT, Event, Events
from meantime.model.input_path import InputPath, input_path
from meantime.readers import jsonl, open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.model.trace import Trace


def opened(path: Path, text: str | bytes, **options: Any) -> tuple[Trace, list[Event]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    trace = open_trace(path, **options)
    assert trace.format == "jsonl"
    return trace, [event for batch in trace.batches for event in events_of(batch)]


def events_of(batch: object) -> Events:
    assert isinstance(batch, Events)
    return batch


_ROWS = 100_000


def line(time_ns: int, name: str = "a") -> str:
    return f'{{"ts": {time_ns}, "name": "{name}"}}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def test_members_are_time_name_ids_and_fields(file: Path) -> None:
    _, events = opened(
        file,
        '{"name": "read", "time_ns": -5, "cpu": 1, "pid": 2, "tid": 3, "bytes": 7, "ok": true,'
        ' "none": null, "part": 0.5, "args": {"a": ["\u00fc"]}, "big": 18446744073709551615}',
    )

    fields = {"bytes": 7, "ok": True, "none": None, "part": 0.5}
    texts = {"args": '{"a":["ü"]}', "big": "18446744073709551615"}
    assert events == [Event(-5, "read", fields | texts, 1, 2, 3)]


def test_ts_is_a_time_too_and_a_field_beside_time_ns(file: Path) -> None:
    _, events = opened(file, '{"ts": "7", "name": "a"}\n{"time_ns": 8.0, "ts": 1, "name": "b"}')

    assert events == [Event(7, "a"), Event(8, "b", {"ts": 1})]


def test_ids_that_are_not_numbers_are_fields(file: Path) -> None:
    _, [event] = opened(file, '{"ts": 1, "name": "a", "cpu": "x", "pid": -1, "tid": true}')

    assert (event.cpu, event.pid, event.tid) == (None, None, None)
    assert event.fields == {"cpu": "x", "pid": -1, "tid": True}
    assert event["pid"] == -1


def test_events_are_put_in_order_and_those_of_one_time_stay_in_theirs(file: Path) -> None:
    times = [5, 3, 5, 1, 3]
    text = "".join(line(time, str(row)) for row, time in enumerate(times))

    _, events = opened(file, text)

    assert [(event.time_ns, event.name) for event in events] == [
        (1, "3"), (3, "1"), (3, "4"), (5, "0"), (5, "2"),
    ]  # fmt: skip


def test_a_mark_empty_lines_and_a_last_line_without_an_end_are_read(file: Path) -> None:
    trace, events = opened(file, b'\xef\xbb\xbf{"ts": 1, "name": "a"}\r\n\n {"ts": 2, "name": "b"}')

    assert [event.name for event in events] == ["a", "b"]
    assert (trace.records, trace.bounds, dict(trace.anomalies)) == (2, (1, 3), {})


@pytest.mark.parametrize("given", [None, "time=date+time,name=message"])
def test_a_date_and_a_time_may_be_two_fields(file: Path, given: str | None) -> None:
    file.write_text(
        '{"date": "2026-03-02", "time": "08:00:00.5", "message": "a", "n": 1}\n'
        '{"date": "2026-03-02", "time": "08:00:02", "message": "b", "n": 2}\n'
    )
    trace = open_trace(input_path(file, mapping_of(given)))

    [events] = [[*events_of(batch)] for batch in trace.batches]

    begin_ns = 1_772_438_400 * 10**9
    assert [(event.time_ns - begin_ns, event.name, event.fields) for event in events] == [
        (500_000_000, "a", {"n": 1}), (2_000_000_000, "b", {"n": 2}),
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_lines_in_utf_16_are_refused_as_such(file: Path, encoding: str) -> None:
    with pytest.raises(InputError, match="UTF-16 or UTF-32: save it in UTF-8"):
        opened(file, '{"ts": 1, "name": "a"}\n'.encode(encoding))


def test_a_last_line_that_is_cut_off_is_counted(file: Path) -> None:
    trace, events = opened(file, '{"ts": 1, "name": "a"}\n{"ts": 2, "na')

    assert len(events) == 1
    assert dict(trace.anomalies) == {"truncated": 1}


def test_cut_off_compressed_events_are_counted(file: Path) -> None:
    text = gzip.compress("".join(map(line, range(9999))).encode())

    trace, events = opened(file, text[:-20])

    assert events
    assert trace.anomalies["truncated"]


BAD = {
    "{": "not a JSON object",
    "7": "the line is not a JSON object",
    "": None,
    '{"name": "a"}': 'needs "time_ns"',
    '{"ts": 1}': 'needs "name"',
    '{"ts": 1, "name": 1}': 'needs "name"',
    '{"ts": 1.5, "name": "a"}': "whole number",
    '{"ts": null, "name": "a"}': 'needs "time_ns"',
    '{"ts": true, "name": "a"}': "whole number",
    '{"ts": 9223372036854775808, "name": "a"}': "64 bits",
    '{"ts": 1, "name": "a"} x': "after the JSON object \\(column 24\\)",
    "nonsense": "a value is expected",
    '{"ts": 1, "name": "a", "x": ' + 5000 * "9" + "}": "too many digits",
    '{"ts": 1, "name": ' + 10**5 * "[": "nested too deeply",
}


@pytest.mark.parametrize(("bad", "reason"), BAD.items())
def test_a_bad_line_is_an_error_with_its_number_or_is_counted(
    file: Path, bad: str, reason: str | None
) -> None:
    text = '{"ts": 0, "name": "good"}\n' + bad + '\n{"ts": 1, "name": "good"}\n'

    if reason:
        with pytest.raises(InputError, match=f"a.jsonl:2: .*{reason}"):
            opened(file, text)
    trace, events = opened(file, text, lenient=True)
    assert [event.name for event in events] == ["good", "good"]
    assert dict(trace.anomalies) == ({"bad_record": 1} if reason else {})


def test_text_that_is_not_utf8_is_replaced_and_counted(file: Path) -> None:
    trace, [event] = opened(file, b'{"ts": 1, "name": "a\xff"}\n')

    assert event.name == "a\ufffd"
    assert dict(trace.anomalies) == {"undecodable_text": 1}


def test_halves_of_surrogate_pairs_are_replaced(file: Path) -> None:
    _, [event] = opened(file, r'{"ts": 1, "name": "\ud800x", "f\u00fc": "\ud83d\ude00\udc00"}')

    assert (event.name, event.fields) == ("\ufffdx", {"fü": "\U0001f600\ufffd"})


def test_line_ends_of_all_kinds_are_read_and_counted_by_line_feeds(file: Path) -> None:
    text = '{"ts": 1, "name": "a"}\r\n{"ts": 2, "name": "ü"}\r\n\r\nbad\r\n'

    with pytest.raises(InputError, match=r"a\.jsonl:4"):
        opened(file, text)
    _, events = opened(file, text, lenient=True)
    assert [event.name for event in events] == ["a", "ü"]


def test_an_event_far_too_late_is_an_error_or_is_counted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "_BATCH_EVENTS", 2)
    monkeypatch.setattr(jsonl, "_LATE_EVENTS", 2)
    text = "".join(map(line, (3, 4, 5, 6, 1, 7)))

    with pytest.raises(InputError, match=r"a\.jsonl:5: .* sort the lines"):
        opened(file, text)
    trace, events = opened(file, text, lenient=True)
    assert [event.time_ns for event in events] == [3, 4, 5, 6, 7]
    assert dict(trace.anomalies) == {"late_event": 1, "line_went_back": 1}


@given(
    times=st.lists(st.integers(0, 8), min_size=1, max_size=40),
    sizes=st.tuples(st.integers(1, 5), st.integers(0, 40)),
    bad=st.sets(st.integers(1, 40)),
    data=st.data(),
)
def test_a_reading_continues_where_another_stopped(
    tmp_path_factory: pytest.TempPathFactory,
    times: list[int],
    sizes: tuple[int, int],
    bad: set[int],
    data: st.DataObject,
) -> None:
    file = tmp_path_factory.mktemp("resume") / "a.jsonl"
    lines = [line(time, str(row)) for row, time in enumerate(times)]
    file.write_text("".join("bad\n" if row in bad else text for row, text in enumerate(lines)))
    path = InputPath(str(file), format="jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_BATCH_EVENTS", sizes[0])
        patch.setattr(jsonl, "_LATE_EVENTS", sizes[1])
        whole = open_trace(path, lenient=True)
        batches = [events_of(batch) for batch in whole.batches]
        stop = data.draw(st.integers(0, len(batches)))
        position = json.loads(json.dumps(batches[stop - 1].position)) if stop else None

        again = open_trace(path, lenient=True, position=position)
        rest = [events_of(batch) for batch in again.batches]

    assert [list(batch) for batch in rest] == [list(batch) for batch in batches[stop:]]
    assert dict(again.anomalies) == dict(whole.anomalies)
    assert (again.records, again.bounds) == (whole.records, whole.bounds)


def test_texts_of_earlier_events_are_dropped_but_not_those_of_kept_batches(file: Path) -> None:
    # more texts and more keys than the tables hold
    long = "x" * 200
    fields_of_rows: list[dict[str, Any]] = [
        {f"k{row}": f"{row}{long}", "same": "é"} for row in range(_ROWS)
    ]
    file.write_text(
        "".join(
            json.dumps({"ts": row, "name": "a"} | fields) + "\n"
            for row, fields in enumerate(fields_of_rows)
        )
    )

    batches = [events_of(batch) for batch in open_trace(file).batches]

    assert [event.fields for batch in batches for event in batch] == fields_of_rows
    assert max(len(batch.of_name("a").columns) for batch in batches[:1]) == 2**15 + 1
    assert batches[0]._cells.texts is not batches[-1]._cells.texts


def test_fields_are_typed_columns_by_event_name() -> None:
    events = Events(
        [
            Event(1, "a", {"int": 1, "text": "x", "mixed": 1}),
            Event(2, "b", {"part": 0.5, "flag": True}),
            Event(3, "a", {"int": 2, "text": None}),
        ]
    )

    a, b = events.of_name("a"), events.of_name("b")
    assert (a.rows.tolist(), a.time_ns.tolist()) == ([0, 2], [1, 3])
    assert isinstance(a["int"], np.ndarray)
    assert a["int"].tolist() == [1, 2]
    assert isinstance(a["text"], Coded)
    assert a["text"].to_list() == ["x", None]
    assert a["mixed"] == [1, ABSENT]
    assert {name: getattr(column, "dtype", None) for name, column in b.columns.items()} == {
        "part": np.float64,
        "flag": np.bool_,
    }
    assert len(events.of_name("c")) == 0


@pytest.mark.parametrize(
    ("head", "name", "is_events"),
    [
        (b'{"ts": 1, "name": "a", "ph": "X"}', "a.json", False),
        (b'bad\n{"ts": 1, "name": "a"}\n', "a", True),
        (b'{"traceEvents": []}', "a.json", False),
        (b'{"broken', "a.jsonl.gz", True),
        (b"", "a.jsonl", False),
    ],
)
def test_events_are_recognised_by_what_they_are(head: bytes, name: str, is_events: bool) -> None:  # noqa: FBT001 - a case
    assert jsonl.recognises(head, name) is is_events


def test_events_without_a_provider_are_points_of_where_they_happened(file: Path) -> None:
    places = ['"pid": 1, "tid": 2', '"tid": 2', '"pid": 1', '"cpu": 0', '"x": 0']
    file.write_text("".join(f'{{"ts": 5, "name": "a", {place}}}\n' for place in places))

    history = meantime.open(file)

    points = history.points()
    assert [history.attributes.text(quark) for quark in points.quark.tolist()] == [
        "Processes/1/Threads/2", "Threads/2", "Processes/1", "CPUs/0", "Events",
    ]  # fmt: skip
    assert (points.time_ns.tolist(), history.bounds) == ([5] * 5, (5, 6))


_IDS = st.none() | st.integers(0, 3) | st.sampled_from([10**6, 10**12, 2**62])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(_IDS, _IDS, _IDS), min_size=1, max_size=20))
def test_each_event_is_where_its_ids_say(ids: list[tuple[int | None, ...]]) -> None:
    events = [
        Event(time_ns, "e", cpu=cpu, pid=pid, tid=tid)
        for time_ns, (cpu, pid, tid) in enumerate(ids)
    ]

    points = meantime.build(events).points()

    unknown = [tuple(-1 if each is None else each for each in row) for row in ids]
    paths = [format_path(location_path(*row)) for row in unknown]
    assert [points.with_paths()["path"][row] for row in range(len(ids))] == paths


def test_events_are_printed_as_they_were_read(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"time_ns": 1, "name": "a", "cpu": 0, "x": 1},
        {"time_ns": 2, "name": "b", "y": None},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with pytest.raises(SystemExit):
        main(["dump", "--kind", "events", str(file)])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines
    with pytest.raises(SystemExit):
        main(["info", "--json", str(file)])
    assert json.loads(capsys.readouterr().out)["event_names"] == {"a": 1, "b": 1}
