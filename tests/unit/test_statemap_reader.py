from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.model.trace import Points, StateChanges
from meantime.readers import open_trace, recognise, statemap
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source

if TYPE_CHECKING:
    from meantime.model.trace import Trace

META = (
    '{"start": [3, 7], "title": "T", "host": "h", "entityKind": "CPU", "states": '
    '{"off": {"value": 0, "color": "#010203"}, "on": {"value": 1}}}\n'
)

Row = tuple[Any, ...]


def changes(trace: Trace, batches: list[Any]) -> list[Row]:
    """The data as rows of Python values: time, entity, state, tag's text, value if there is one."""
    rows: list[Row] = []
    for batch in batches:
        if isinstance(batch, StateChanges):
            values = batch.magnitude
            for i in range(len(batch.time_ns)):
                tag = trace.tags[batch.tag[i]]["tag"] if batch.tag[i] >= 0 else None
                row: Row = (
                    int(batch.time_ns[i]),
                    trace.paths[batch.entity[i]][0],
                    trace.values[batch.state[i]],
                    tag,
                )
                if values is not None and not np.isnan(values[i]):
                    row += (float(values[i]),)
                rows.append(row)
    return rows


def read(text: str | bytes, **options: Any) -> tuple[Trace, list[Row]]:
    data = text.encode() if isinstance(text, str) else text
    trace = statemap.read(Source("x", io.BytesIO(data)), ReadOptions(**options))
    batches = list(trace.batches)
    return trace, changes(trace, batches)


def refusal(text: str | bytes, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(text, **options)
    return str(caught.value)


def test_data_become_columns_and_tables() -> None:
    trace, rows = read(
        META
        + '{"time": "5", "entity": "a", "state": 1, "tag": "t"}\n'
        + '{"time": "6", "entity": "b", "state": 0}\n'
        + '{"time": "9", "entity": "a", "state": 0, "tag": "t"}\n'
    )

    assert rows == [(5, "a", "on", "t"), (6, "b", "off", None), (9, "a", "off", "t")]
    assert [*trace.paths] == [("a",), ("b",)]
    assert trace.tags == [{"state": 1, "tag": "t"}, {"state": 0, "tag": "t"}]
    assert trace.bounds == (0, 9)
    assert trace.records == 3
    assert (trace.title, trace.clock.host, trace.clock.utc_at_origin_ns) == (
        "T",
        "h",
        3_000_000_007,
    )
    (lane,) = trace.lanes
    assert (lane.pattern, lane.kind, lane.entity_kind) == ("*", "state", "CPU")
    assert [(s.name, s.value, s.color) for s in lane.states] == [
        ("off", 0, "#010203"),
        ("on", 1, None),
    ]
    assert not trace.anomalies


@pytest.mark.parametrize(
    "datum",
    [
        '{"time":"5","entity":"a","state":1}',
        '{"time":5,"entity":"a","state":1}',
        '{"time":"+005","entity":"a","state":1}',
        '{"time":"5","entity":"a","state":"on"}',
        '{"state":1,"tag":null,"time":"5","entity":"a"}',
        '\r\n{\n\t"time" :\n"5" ,\t"entity": "a", "state": 1\n}\n\n',
        '{"\\u0074ime":"\\u0035","entity":"\\u0061","st\\u0061te":"o\\u006e"}',
        '["5","a",1,null]',
        '[5, "a", 1, null]',
        '{"time":"5","entity":"a","state":1,"value":null}',
    ],
)
def test_a_datum_may_be_written_in_many_ways(datum: str) -> None:
    _, rows = read(META + datum)

    assert rows == [(5, "a", "on", None)]


def test_payloads_need_no_space_between_them() -> None:
    _, rows = read(META.strip() + '{"time":"1","entity":"a","state":1}["2","a",0,"t"]')

    assert rows == [(1, "a", "on", None), (2, "a", "off", "t")]


def test_names_are_equal_when_what_they_mean_is_equal() -> None:
    trace, rows = read(
        META
        + '{"time":"1","entity":"a\\u0062","state":1,"tag":"\\ud83d\\ude00"}'
        + '{"time":"2","entity":"ab","state":1,"tag":"\N{GRINNING FACE}"}'
        + '{"time":"3","entity":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000","state":1}'
        + '{"time":"4","entity":"","state":1}'
    )

    assert [row[1] for row in rows] == ["ab", "ab", '"\\/\b\f\n\r\t\0', ""]
    assert trace.tags == [{"state": 1, "tag": "\N{GRINNING FACE}"}]


@pytest.mark.parametrize("size", [7, 8, 9, 15, 16, 17, 23, 24, 25, 40])
def test_names_of_any_length_are_distinguished(size: int) -> None:
    names = ["x" * size, "x" * (size - 1) + "y", "y" + "x" * (size - 1), "x" * (size + 1)]
    lines = [
        f'{{"time": "{i}", "entity": "{names[i % 4]}", "state": 1, "tag": "{names[-i % 4]}"}}\n'
        for i in range(40)
    ]

    trace, rows = read(META + "".join(lines))

    assert [row[1] for row in rows] == [names[i % 4] for i in range(40)]
    assert [row[3] for row in rows] == [names[-i % 4] for i in range(40)]
    assert [*trace.paths] == [(name,) for name in names]


def test_escapes_anywhere_in_a_name_are_read() -> None:
    # a layout that occurred before is read without parsing, so each line comes again
    texts = ["x" * size for size in range(36)]
    texts += ["x" * size + escape + "y" * 20 for size in range(36) for escape in ('\\"', "\\\\")]
    lines = [
        f'{{"time": "{i}", "entity": "{text}", "state": 1, "tag": "{texts[-i % len(texts)]}"}}\n'
        for i, text in enumerate(texts * 2)
    ]

    _, rows = read(META + "".join(lines))

    expected = [json.loads(line) for line in lines]
    assert [(row[1], row[3]) for row in rows] == [(one["entity"], one["tag"]) for one in expected]


def test_a_value_may_come_with_a_datum() -> None:
    numbers = [
        "0",
        "-0.0",
        "1.5",
        "1e3",
        "0.1",
        "1E-7",
        "0.30000000000000004",
        "1e308",
        "123456789012345678",
    ]
    lines = [
        f'{{"time": "{i}", "entity": "a", "state": 1, "value": {number}}}\n'
        for i, number in enumerate(numbers)
    ]

    trace, rows = read(
        META + '{"time": "0", "entity": "a", "state": 0}' + "".join(lines) + lines[-1]
    )

    assert [row[4:] for row in rows] == [
        (),
        *((float(number),) for number in numbers),
        (float(numbers[-1]),),
    ]
    assert [lane.pattern for lane in trace.lanes] == ["*", "*/value"]
    assert trace.lanes[1].kind == "counter"


def test_events_become_points_and_descriptions_are_kept() -> None:
    data = (
        META
        + '{"time": "5", "entity": "a", "event": "wake", "target": "b"}\n'
        + '{"time": "6", "entity": "c", "event": "on", "target": null}\n'
        + '{"time": 7, "entity": "c", "event": "wake"}\n'
        + '{"time": "soon", "entity": "z", "event": "wake"}\n'
        + '{"time": "9223372036854775808", "entity": "z", "event": "wake"}\n'
        + '{"entity": "d", "description": "one"}{"entity": "d", "description": "t\\u0077o"}\n'
        + '["8", "a", "wake", "b"]["e", "three"]'
    )

    trace = statemap.read(Source("x", io.BytesIO(data.encode())), ReadOptions())
    batches = list(trace.batches)

    points = [
        (int(t), trace.paths[e][0], trace.values[n], trace.paths[g][0] if g >= 0 else None)
        for batch in batches
        if isinstance(batch, Points)
        for t, e, n, g in zip(batch.time_ns, batch.entity, batch.name, batch.target, strict=True)
    ]
    assert points == [
        (5, "a", "wake", "b"),
        (6, "c", "on", None),
        (7, "c", "wake", None),
        (8, "a", "wake", "b"),
    ]
    assert trace.values == ["off", "on", "wake"]
    assert {trace.paths[code][0]: text for code, text in trace.descriptions.items()} == {
        "d": "two",
        "e": "three",
    }
    assert dict(trace.anomalies) == {"event_without_time": 2}
    assert trace.records == 9
    assert trace.bounds is None


def test_tag_definitions_may_come_before_after_again_or_never() -> None:
    trace, rows = read(
        META
        + '{"state": 1, "tag": "early", "n": 1}'
        + '{"time": "1", "entity": "a", "state": 1, "tag": "early"}'
        + '{"time": "2", "entity": "a", "state": 1, "tag": "late"}'
        + '{"time": "3", "entity": "a", "state": 1, "tag": "never"}'
        + '{"state": 1, "tag": "late", "deep": {"x": [1, {"y": null}]}, "n": 1, "n": 2}'
        + '{"state": 1, "tag": "early", "m": 2}'
        + '{"state": 4294967295, "tag": "early"}'
    )

    assert [row[3] for row in rows] == ["early", "late", "never"]
    assert trace.tags == [
        {"state": 1, "tag": "early", "m": 2},
        {"state": 1, "tag": "late", "deep": {"x": [1, {"y": None}]}, "n": 2},
        {"state": 1, "tag": "never"},
        {"state": 4294967295, "tag": "early"},
    ]


def test_a_datum_with_a_stray_key_and_a_tag_is_a_definition_and_counted() -> None:
    trace, rows = read(META + '{"time": "1", "entity": "a", "state": 1, "tag": "t", "pid": 7}')

    assert rows == []
    assert trace.tags == [{"time": "1", "entity": "a", "state": 1, "tag": "t", "pid": 7}]
    assert dict(trace.anomalies) == {"definition_with_time": 1}


@pytest.mark.parametrize(
    ("data", "replaced"),
    [
        (["a 10 0", "a 10 1", "a 20 0"], 1),
        (["a 10 0", "a 10 1", "a 10 0", "a 20 0"], 2),
        (["a 10 0", "a 10 1", "b 10 0", "a 10 0", "a 10 1", "a 20 0"], 3),
        (["a 10 0 1.5", "a 10 1 2.5", "a 20 0"], 1),
        (["a 10 0 1.5", "a 10 1", "b 10 1 7", "a 20 0"], 1),
        (["a 10 0 1.5", "a 10 1 2.5", "b 10 0 3", "a 10 0 4", "a 20 1"], 2),
        # the same state once more changes nothing
        (["a 10 0", "a 10 0", "a 20 0"], 0),
    ],
)
def test_each_state_that_is_replaced_at_once_is_counted_once(
    data: list[str], replaced: int
) -> None:
    text = META
    for each in data:
        entity, time, state, *value = each.split()
        text += f'{{"time": "{time}", "entity": "{entity}", "state": {state}'
        text += f', "value": {value[0]}}}' if value else "}"

    history = build(statemap.read(Source("x", io.BytesIO(text.encode())), ReadOptions()))

    assert dict(history.anomalies) == ({"zero_length_state": replaced} if replaced else {})


def test_values_of_one_time_in_two_batches_count_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [(10, 0, 1.5), (10, 1, 2.5), (10, 0, 1.5), (20, 1, 3), (20, 1, 4), (30, 0, 4)]
    text = META + "".join(
        f'{{"time": "{time}", "entity": "a", "state": {state}, "value": {value}}}\n'
        for time, state, value in data
    )

    def found(rows: int) -> object:
        monkeypatch.setattr("meantime.readers.statemap.reader.BATCH_ROWS", rows)
        history = build(statemap.read(Source("x", io.BytesIO(text.encode())), ReadOptions()))
        values = history.intervals([history.quark("a", "value")])
        intervals = [values.start_ns.tolist(), values.end_ns.tolist(), values.value.to_list()]
        return dict(history.anomalies), intervals

    whole = found(1 << 18)
    assert whole == ({"zero_length_state": 2}, [[0, 10, 20], [10, 20, 31], [None, 1.5, 4.0]])
    assert all(found(rows) == whole for rows in range(1, len(data)))


def test_the_value_of_the_last_datum_of_a_time_counts() -> None:
    text = META
    for time, state, value in ((10, 0, 1.5), (10, 1, 2.5), (20, 0, 3.0)):
        text += f'{{"time": "{time}", "entity": "a", "state": {state}, "value": {value}}}'

    history = build(statemap.read(Source("x", io.BytesIO(text.encode())), ReadOptions()))

    assert history.state(history.quark("a", "value"), 15).value == 2.5


def test_metadata_may_come_last_and_in_parts() -> None:
    data = (
        '{"time": "1", "entity": "a", "state": "on", "tag": "t"}\n'
        '{"host": "h"}\n'
        '{"time": "2", "entity": "a", "state": 0}\n'
        '{"states": {"on": {"value": 1}, "off": {"value": 0}}, "title": "T"}\n'
        '{"time": "3", "entity": "a", "state": 1, "tag": "t"}\n'
        '{"start": [1, 0], "entityKind": null}'
    )

    trace, rows = read(data)

    assert rows == [(1, "a", "on", "t"), (2, "a", "off", None), (3, "a", "on", "t")]
    assert trace.tags == [{"state": 1, "tag": "t"}]
    assert (trace.title, trace.clock.utc_at_origin_ns, trace.records) == ("T", 10**9, 3)


def test_metadata_that_come_last_are_found_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "late.statemap.gz"
    lines = [f'{{"time": "{i}", "entity": "e{i % 9}", "state": "on"}}\n' for i in range(100_000)]
    path.write_bytes(gzip.compress("".join([*lines, META]).encode(), 1))

    trace = open_trace(path)

    assert (
        sum(len(batch.time_ns) for batch in trace.batches if isinstance(batch, StateChanges))
        == 100_000
    )
    assert trace.values == ["off", "on"]


def test_a_byte_order_mark_is_passed_over() -> None:
    _, rows = read(b"\xef\xbb\xbf" + META.encode() + b'["5","a",1,null]')

    assert rows == [(5, "a", "on", None)]


def refusals(golden: str) -> list[tuple[str, str]]:
    """The pairs of a golden file: what is read, and the message below it, indented."""
    text = (Path(__file__).parents[1] / "golden" / golden).read_text()
    blocks = text.split("\n\n")[1:]
    return [(payload, reason.strip()) for payload, reason in (b.split("\n    ") for b in blocks)]


@pytest.mark.parametrize(("payload", "reason"), refusals("statemap-bad-payloads.txt"))
def test_the_first_bad_payload_is_refused_with_its_line_and_cause(
    payload: str, reason: str
) -> None:
    text = META + '{"time": "4", "entity": "b", "state": 1}\n\n' + payload + "\n{bad"

    assert refusal(text) == f"x:4: illegal datum: {reason}"


def test_broken_json_is_reported_with_line_and_column() -> None:
    start = "x:2: illegal datum: invalid JSON: "

    assert refusal(META + '{"time": "5",\n "\u00e9": x}') == (
        f"{start}expected a value, found 'x' (line 3, column 7)"
    )
    assert refusal(META + '{"entity": "a\tb"}') == (
        f"{start}a control character must be escaped inside a string, found '\\t'"
        " (line 2, column 14)"
    )
    assert refusal(META + '{"x": ' + "[" * 200) == (
        f"{start}arrays and objects are nested more than 128 deep, found '[' (line 2, column 134)"
    )


def test_a_byte_that_is_not_utf8_is_named() -> None:
    text = META.encode() + b'{"time": "5", "entity": "\xff", "state": 1}'

    assert refusal(text) == (
        "x:2: illegal datum: invalid JSON: this is not UTF-8, found byte 0xff (line 2, column 26)"
    )


@pytest.mark.parametrize(("text", "message"), refusals("statemap-bad-metadata.txt"))
def test_metadata_that_are_wrong_or_missing_are_refused(text: str, message: str) -> None:
    assert refusal(text) == message


def test_metadata_are_refused_with_their_line() -> None:
    assert refusal('\n{"title":1}') == 'x:2: "title" is 1, not a string'
    assert refusal('{"title":"a"}\n{"title":"b"}') == 'x:2: metadata key "title" occurs twice'


def test_a_blank_file_has_no_metadata() -> None:
    for text in ("", " \n"):
        assert refusal(text) == 'x: missing metadata payload: "states" is not given'


def test_of_states_with_one_name_the_last_counts() -> None:
    trace, _ = read('{"start":[0,0],"states":{"a":{"value":7},"b":{"value":1},"a":{"value":0}}}')

    assert trace.values == ["a", "b"]


def test_a_truncated_last_payload_is_counted() -> None:
    whole = META + '["1","a",1,null]{"time": "2", "entity": "a", "state": 0}'

    for end in range(len(META) + 17, len(whole)):
        trace, rows = read(whole[:end])
        assert rows == [(1, "a", "on", None)]
        assert dict(trace.anomalies) == {"truncated": 1}


def test_lenient_reading_counts_bad_records_and_continues() -> None:
    trace, rows = read(
        META
        + '{"time": "5", "entity": "a", "state": 9}\n'
        + '{"time": "6", "entity": "a", "state": 1}\n'
        + '{"time": "7", "entity": "a" "state": 1}\n'
        + '  {"time": "8", "entity": "a", "state": 0}\n'
        + '{"time": "3", "entity": "a", "state": 0}\n'
        + '{"title": "again"}\n'
        + '{"time": "9", "entity": "a\n'
        + '{"time": "10", "entity": "a", "state": 1} x\n'
        + '{"time": "11", "entity": "a", "state": 0}\n',
        lenient=True,
    )

    assert [row[0] for row in rows] == [3, 6, 8, 10, 11]
    # the third line, the seventh with the eighth, and what is left of that: " x"
    assert dict(trace.anomalies) == {
        "bad_record": 5,
        "skipped_bytes": 40 + 3 + 27 + 1,
        "sorted_record": 1,
    }


@pytest.mark.parametrize("lenient", [False, True])
def test_what_comes_late_is_sorted_in(lenient: bool) -> None:  # noqa: FBT001 - a parameter
    data = [
        '{"time": "30", "entity": "a", "state": 0, "value": 2.5}\n',
        '{"time": "10", "entity": "a", "state": 1}\n',
        '{"time": "20", "entity": "b", "state": 1}\n',
        '{"time": "25", "entity": "a", "state": 1}\n',
        '{"time": "10", "entity": "a", "state": 0}\n',
        '{"time": "40", "entity": "a", "state": 1}\n',
    ]
    trace, rows = read(META + "".join(data), lenient=lenient)

    # those of one time are in the order of the file, as the last of them counts
    assert [row[:3] for row in rows] == [
        (10, "a", "on"),
        (10, "a", "off"),
        (20, "b", "on"),
        (25, "a", "on"),
        (30, "a", "off"),
        (40, "a", "on"),
    ]
    assert dict(trace.anomalies) == {"sorted_record": 3}
    assert trace.facts["latest record"] == "20ns late"


def test_what_comes_late_behind_a_batch_or_with_a_range_names_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = META + "".join(
        f'{{"time": "{time}", "entity": "a", "state": {time % 2}}}\n' for time in (1, 2, 3, 4, 2)
    )
    refused = "time 2 is out of order with respect to prior time 4 .*--lenient sorts all"
    with pytest.raises(InputError, match=refused):
        read(data, start=0, end=2)
    monkeypatch.setattr("meantime.readers.statemap.reader.BATCH_ROWS", 3)
    with pytest.raises(InputError, match=refused):
        read(data)
    assert len(read(data, lenient=True)[1]) == 5


def test_lenient_reading_ignores_what_it_does_not_know_of_metadata() -> None:
    states = (
        '{"on": {"value": 0, "color": "#F00", "x": 1}, "off": {"value": 1, "color": "rgb(1,2,3)"}}'
    )
    metadata = f'{{"start": [1, 2], "title": null, "version": 1, "states": {states}}}\n'
    trace, rows = read(metadata + '{"time": "1", "entity": "a", "state": 0}\n', lenient=True)

    assert len(rows) == 1
    (lane,) = trace.lanes
    assert [state.color for state in lane.states] == ["#F00", None]
    assert dict(trace.anomalies) == {"ignored_metadata": 4}
    assert trace.facts["ignored"] == (
        '"title" of null, metadata key "version", x 1 of state "on",'
        ' color "rgb(1,2,3)" of state "off"'
    )
    with pytest.raises(InputError, match='"title" is null, not a string'):
        read(metadata)


def test_lenient_reading_continues_within_a_line() -> None:
    data = [f'{{"time": "{time}", "entity": "a", "state": {time % 2}}}' for time in range(1000)]
    data[10] = data[10].replace("entity", "entity\x01")
    data[500] = data[500].replace('"entity"', "entity")
    data[700] = "x" * 5_000
    data[-1] = data[-1].replace(": ", " ")

    trace, rows = read(META + "".join(data), lenient=True)

    assert [row[0] for row in rows] == [t for t in range(1000) if t not in (10, 500, 700, 999)]
    skipped = sum(len(data[bad].encode()) for bad in (10, 500, 700, 999))
    assert dict(trace.anomalies) == {"bad_record": 4, "skipped_bytes": skipped}


def test_events_at_the_end_and_after_it_are_counted() -> None:
    events = "".join(f'{{"time": "{t}", "entity": "a", "event": "e"}}' for t in (9, 300, 8, 5))
    data = "".join(f'["{time}","a",{time % 2},null]' for time in range(1, 10))

    assert dict(read(META + events + data)[0].anomalies) == {"event_after_end": 2}
    assert dict(read(META + data + events)[0].anomalies) == {"event_after_end": 2}


def test_entities_with_states_after_the_end_are_counted() -> None:
    data = '["900","a",0,null]["950","b",0,null]["600","c",1,null]'
    last_of_b = '["960","b",1,null]'

    assert dict(read(META + data)[0].anomalies) == {"state_after_end": 2}
    assert dict(read(META + data + last_of_b)[0].anomalies) == {}


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_events_after_an_end_that_goes_back_are_counted_in_any_batches(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr("meantime.readers.statemap.reader.BATCH_ROWS", rows)
    event = '{"time": "5", "entity": "a", "event": "e"}'
    high, low = '["300","a",0,null]', '["3","b",0,null]'

    assert read(META + high + 4 * event + low)[0].anomalies["event_after_end"] == 4


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (
            '{"start": [1, 2], "host": 1}\n{"states": {"on": {"value": 0}}}',
            (
                'missing metadata payload: "start" is not given; --lenient skipped line 1:'
                ' "host" is 1, not a string'
            ),
        ),
        (
            '{"start": [1.5, 2]}\n{"states": {"on": {"value": 1}}}',
            (
                'missing metadata payload: "states" is not given; --lenient skipped line 1:'
                ' "start" is [1.5, 2], not a number of seconds and one of nanoseconds'
            ),
        ),
        (
            '{"start": [1, 2]}\n{"states": {"on": {"val',
            'missing metadata payload: "states" is not given; the input is truncated',
        ),
    ],
)
def test_missing_metadata_are_reported_with_their_cause(metadata: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read(metadata, lenient=True)

    assert caught.value.reason == reason


def test_an_input_cut_inside_its_metadata_is_reported_as_truncated() -> None:
    with pytest.raises(InputError) as caught:
        read('["1","a",0,null]{"start": [1, 2]}{"states": {"on": {"val')

    assert caught.value.reason == (
        'missing metadata payload: "states" is not given; the input is truncated'
    )


def test_data_after_the_window_are_skipped_unchecked_but_set_the_end() -> None:
    trace, rows = read(
        META
        + '["5","a",1,"t"]["11","b",9,"u"]["10","a",0,null]["12","a",1,null]'
        + '["11","c","wake","d"]',
        until_ns=10,
    )

    assert rows == [(5, "a", "on", "t"), (10, "a", "off", None)]
    assert [*trace.paths] == [("a",)]
    assert [tag["tag"] for tag in trace.tags] == ["t"]
    assert trace.bounds == (0, 12)


@pytest.mark.parametrize("field", ["entity", "state", "tag"])
def test_skipped_data_are_still_checked_to_be_json(field: str) -> None:
    datum = '{"time": "%d", "entity": "a", "state": "on", "tag": "t"}\n'
    bad = json.loads(datum % 50) | {field: "a?b"}
    text = META + datum % 1 * 9 + json.dumps(bad).replace("?", "\x01") + "\n" + datum % 60 * 9

    assert "x:11: illegal datum: invalid JSON: a control" in refusal(text, until_ns=10)
    if field != "entity":
        assert "x:11: illegal datum: invalid JSON" in refusal(text, keep=lambda _: False)


def test_an_entity_is_kept_or_left_out_by_name() -> None:
    asked: list[str] = []

    def keep(name: str) -> bool:
        asked.append(name)
        return name in {"b", "d"}

    lines = ['["1","a",1,null]', '["2","b",1,null]', '["1","a",9,null]', '["0","c",9,null]'] * 2
    trace, rows = read(
        META
        + "".join(lines)
        + '{"entity": "d", "description": "D"}{"entity": "e", "description": "E"}'
        + '["7","d","wake","a"]["8","a","wake","b"]["9","a",1,null]',
        keep=keep,
    )

    assert rows == [(2, "b", "on", None)] * 2
    assert [*trace.paths] == [("b",), ("d",)]
    assert trace.descriptions == {1: "D"}
    assert trace.bounds == (0, 9)
    assert sorted(asked) == ["a", "b", "c", "d", "e"]


def test_progress_reports_bytes_read_and_total(tmp_path: Path) -> None:
    path = tmp_path / "x.statemap"
    path.write_text(META + '["1","a",1,null]\n' * 200_000)
    seen: list[tuple[int, int]] = []

    list(open_trace(path, progress=lambda done, total: seen.append((done, total))).batches)

    size = path.stat().st_size
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 3


def test_batches_are_bounded_and_lose_nothing() -> None:
    lines = [f'{{"time":"{i}","entity":"e{i % 7}","state":{i % 2}}}\n' for i in range(600_000)]
    trace = statemap.read(Source("x", io.BytesIO((META + "".join(lines)).encode())), ReadOptions())

    batches = [batch for batch in trace.batches if isinstance(batch, StateChanges)]

    assert max(len(batch.time_ns) for batch in batches) <= 2**20
    assert np.concatenate([batch.time_ns for batch in batches]).tolist() == list(range(600_000))
    assert np.concatenate([batch.state for batch in batches]).tolist() == [0, 1] * 300_000
    assert (np.concatenate([batch.entity for batch in batches]) == np.arange(600_000) % 7).all()


def test_a_million_entities_are_read() -> None:
    lines = [b'{"time":"%d","entity":"entity %d","state":1}\n' % (i, i) for i in range(1_000_000)]

    trace, _ = read_columns(META.encode() + b"".join(lines))

    assert len(trace.paths) == 1_000_000
    assert trace.paths[999_999] == ("entity 999999",)


def read_columns(data: bytes) -> tuple[Trace, list[Any]]:
    trace = statemap.read(Source("x", io.BytesIO(data)), ReadOptions())
    return trace, list(trace.batches)


def test_names_and_definitions_larger_than_a_block_are_read() -> None:
    name = "n" * 3_000_000
    trace, rows = read(
        META
        + json.dumps({"time": "1", "entity": name, "state": 1, "tag": name})
        + json.dumps({"state": 1, "tag": name, "more": name * 2})
        + json.dumps({"time": "2", "entity": name, "state": 0})
    )

    assert [row[:3] for row in rows] == [(1, name, "on"), (2, name, "off")]
    assert trace.tags[0]["more"] == name * 2


@pytest.mark.parametrize("name", ["basic", "newline", "whitespace"])
def test_bad_lines_are_named_as_the_first_statemap_program_names_them(
    name: str, samples: Path
) -> None:
    expected = (samples / "statemap" / f"tst.bad_line_{name}.err").read_text()
    line = int(expected.split("line ")[1].split(":")[0])

    with pytest.raises(InputError) as caught:
        list(open_trace(samples / "statemap" / f"tst.bad_line_{name}.in").batches)

    assert caught.value.line == line
    assert caught.value.reason == 'illegal datum: unknown key "badrecord" in a datum'


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("tst.io.in", (83, 8, 0, 953_633)),
        ("tst.tag_basic.in", (883, 56, 93, 3_352_954)),
        ("tst.tag_redefined.in", (883, 56, 93, 3_352_954)),
    ],
)
def test_the_first_statemap_programs_own_files_are_read(
    name: str, facts: tuple[int, ...], samples: Path
) -> None:
    trace = open_trace(samples / "statemap" / name)
    rows = changes(trace, list(trace.batches))

    assert trace.bounds
    assert (len(rows), len(trace.paths), len(trace.tags), trace.bounds[1]) == facts
    assert not trace.anomalies


@pytest.mark.parametrize(
    ("head", "name", "known"),
    [
        (META, "x", True),
        (META[:40], "x", False),
        (META[:40], "x.statemap.gz", True),
        ('{"title": "t", "states', "x", False),
        ('{"states": {', "x", True),
        ('{"time": "5", "entity": "a"', "x", True),
        ('{"time": 5, "entity": "a", "state": 0}', "x", True),
        ('{"entity": "a", "description": "first"}', "x", True),
        ('{"state": 0, "tag": "a", "pid": 7}', "x", True),
        # logs of states
        ('{"ts": "2026-01-01T00:00:00Z", "host": "a", "state": "up"}', "x", False),
        ('{"time": "2026-01-01T00:00:00Z", "entity": "a", "state": "up"}', "x", False),
        ('{"states": ["up", "down"], "machine": "a"}', "x", False),
        ('{"traceEvents": [{"state": 1}]}', "x", False),
        ('[{"name": "x", "ph": "X", "args": {"state": 1}}]', "x", False),
        ('["5", "a", 0, null]', "x.statemap", True),
        ("swapper 0 [000] 1.5: sched:sched_switch:", "x.statemap", False),
        ("", "x.statemap", False),
    ],
)
def test_a_statemap_is_recognised_by_its_keys(head: str, name: str, known: bool) -> None:  # noqa: FBT001 - a column of the table
    assert statemap.recognises(head.encode(), name) is known


def test_an_unknown_format_is_rejected_with_where_the_known_ones_are() -> None:
    with pytest.raises(
        InputError, match=r"^x: unknown format, .* 7f 45 4c 46: `meantime formats` li"
    ):
        recognise(Source("x", io.BytesIO(b"\x7fELF")))
    with pytest.raises(InputError, match=r"^x: the input is empty$"):
        recognise(Source("x", io.BytesIO()))


def test_a_trace_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress((META + '["1","a",1,null]').encode())))
    monkeypatch.setattr(sys, "stdin", stdin)

    trace = open_trace("-")

    assert changes(trace, list(trace.batches)) == [(1, "a", "on", None)]


@pytest.mark.parametrize(
    ("datum", "key"),
    [
        ('{"time": -0, "entity": "a", "state": 0}', "time"),
        ('{"time": 0, "entity": "a", "state": -0}', "state"),
    ],
)
def test_minus_0_is_not_a_whole_number(datum: str, key: str) -> None:
    wanted = {"time": "not a whole number of nanoseconds", "state": "not the number of a state"}

    assert refusal(META + datum).endswith(f'illegal datum: "{key}" is -0.0, {wanted[key]}')


def test_lenient_reading_names_the_first_skipped_record() -> None:
    bad = json.dumps({"time": "2", "entity": "a", "state": 99})
    good = json.dumps({"time": "1", "entity": "a", "state": 1})
    trace, _ = read(META + good + "\n" + bad, lenient=True)

    assert trace.anomalies["bad_record"] == 1
    assert "99" in trace.facts["first skipped record"]


def test_lenient_reading_fails_if_no_record_is_left() -> None:
    bad = json.dumps({"time": "2", "entity": "a", "state": 99})

    reason = refusal(META + bad + "\n" + bad, lenient=True)
    assert "all of its records were skipped; the first is line" in reason
