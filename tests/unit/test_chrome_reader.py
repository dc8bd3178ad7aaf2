from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.query.durations import span_statistics
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history.history import History


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., History]:
    def read_text(text: str | bytes, *, lenient: bool = False) -> History:
        path = tmp_path / "trace.json"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return build(open_trace(path, lenient=lenient))

    return read_text


def rows(history: History) -> list[tuple[Any, ...]]:
    spans = history.spans()
    return [
        (spans.name[row], int(spans.start_ns[row]), int(spans.end_ns[row]), int(spans.depth[row]))
        for row in range(len(spans))
    ]


def x(name: str, ts: object, dur: object, **more: object) -> dict[str, object]:
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 2, **more}


def begin(ts: object, name: str | None = "a", **more: object) -> dict[str, object]:
    named = {} if name is None else {"name": name}
    return {"ph": "B", **named, "ts": ts, "pid": 1, "tid": 2, **more}


def end(ts: object, name: str | None = None, **more: object) -> dict[str, object]:
    return {**begin(ts, name, **more), "ph": "E"}


ONE = '{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":2}'
A = [("a", 1000, 3000, 0)]


@pytest.mark.parametrize(
    "text",
    [
        f"[{ONE}]",
        f'{{"traceEvents":[{ONE}]}}',
        f'{{"otherData":{{"version":"1.0","traceEvents":"no"}},"traceEvents":[{ONE}],"x":1}}',
        f'{{"a":"traceEvents","b":[1,{{"c":"]"}}],"traceEvents" : [ {ONE} ] }}',
        f"[{ONE}",
        f"[{ONE},",
        f"[{ONE},]",
        f"[,,{ONE} , ]",
        f"\ufeff [\r\n{ONE}\t]\n",
        ONE,
        ONE.replace(",", " ,\n ").replace(":", "\t: "),
        '[{"tid":2,"pid":1,"dur":2,"ts":1,"name":"a","ph":"X"}]',
        '[{"ph":"X","name":"b","name":"a","ts":9,"ts":"1","dur":"2.0","pid":"1","tid":"2"}]',
        '[{"ph":"X","name":"\\u0061","ts":1e0,"dur":0.2E+1,"pid":1.0,"tid":2e0}]',
        '[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":2,"args":{"p":"C:\\\\dir\\\\"}}]',
        '[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":2,"q":"}]\\"[{"}]',
        '[{"ph":"X" "name":"a" "ts":1 "dur":2 "pid":1 "tid":2}]',
    ],
)
def test_a_trace_is_read_however_sloppily_it_was_written(
    read: Callable[..., History], text: str
) -> None:
    history = read(text)

    assert rows(history) == A
    thread = history.attributes.path(int(history.spans().threads[0]))
    assert thread == ("Processes", "1", "Threads", "2")


def test_a_compressed_trace_is_read(read: Callable[..., History]) -> None:
    assert rows(read(gzip.compress(f"[{ONE}]".encode()))) == A


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [
        ("1700000000000000.123", 1_700_000_000_000_000_123),
        ("1700000000000000123e-3", 1_700_000_000_000_000_123),
        ("9007199254740993", 9_007_199_254_740_993_000),
        ("37.555999999999997", 37_556),
        ("1.0004", 1000),
        ("1.0005", 1001),
        ("0.0004999999999999999999999999999", 0),
        ("1e3", 1_000_000),
        ("1.5E-3", 2),
        ("-2.001", -2001),
        ("000123456789012345678901234567890e-20", 1_234_567_890_123),
        ('"12.5"', 12_500),
        ("0", 0),
    ],
)
def test_times_are_the_nearest_nanosecond_of_the_decimal(
    read: Callable[..., History], ts: str, start_ns: int
) -> None:
    history = read(f'[{{"ph":"X","name":"a","ts":{ts},"dur":1,"pid":1,"tid":2}}]')

    assert int(history.spans().start_ns[0]) == start_ns


def test_an_end_is_begin_plus_duration_before_either_is_rounded(
    read: Callable[..., History],
) -> None:
    history = read(json.dumps([x("a", 0.0004, 0.0004)]))

    assert rows(history) == [("a", 0, 1, 0)]


@pytest.mark.parametrize(
    ("event", "anomaly"),
    [
        (x("a", "soon", 1), "event_without_time"),
        (x("a", None, 1), "event_without_time"),
        ({"ph": "X", "name": "a", "dur": 1}, "event_without_time"),
        (x("a", 1e30, 1), "time_out_of_range"),
        ({"name": "a", "ts": 1}, "event_without_phase"),
        ({}, "event_without_phase"),
        ({"ph": "Q", "name": "a", "ts": 1}, "unknown_phase"),
        ({"ph": "XX", "name": "a", "ts": 1}, "unknown_phase"),
        ({"ph": "v", "name": "a", "ts": 1, "pid": 1}, "phase_not_shown"),
        (end(5), "end_without_begin"),
        (None, "not_an_event"),
        (17, "not_an_event"),
        ({"ph": "M", "name": "thread_name", "pid": 1, "tid": 2}, "bad_metadata"),
        ({"ph": "C", "name": "c", "ts": 1, "pid": 1, "args": {"v": "much"}}, "bad_counter"),
        ({"ph": "f", "name": "c", "ts": 1, "pid": 1, "id": 1}, "flow_without_begin"),
    ],
)
def test_what_cannot_be_shown_is_counted_and_the_rest_is_read(
    read: Callable[..., History], event: object, anomaly: str
) -> None:
    history = read(json.dumps([x("a", 1, 2), event]))

    assert rows(history) == A
    assert dict(history.anomalies) == {anomaly: 1}


@pytest.mark.parametrize(
    ("event", "anomaly"),
    [
        ({"ph": "X", "name": "a", "ts": 1, "pid": 1, "tid": 2}, "span_without_duration"),
        (x("a", 1, -5), "negative_duration"),
        (x("a", 1, 1e300), "time_out_of_range"),
    ],
)
def test_a_span_without_a_sound_length_is_empty_and_counted(
    read: Callable[..., History], event: object, anomaly: str
) -> None:
    history = read(json.dumps([event]))

    assert rows(history) == [("a", 1000, 1000, 0)]
    assert dict(history.anomalies) == {anomaly: 1}


def test_an_end_closes_the_latest_begin_whatever_its_name(read: Callable[..., History]) -> None:
    history = read(json.dumps([begin(0, "a"), begin(1, "b"), end(2, "a"), end(3)]))

    assert rows(history) == [("a", 0, 3000, 0), ("b", 1000, 2000, 1)]
    assert dict(history.anomalies) == {"end_of_another_name": 1}


def test_threads_of_equal_numbers_in_two_processes_are_two(read: Callable[..., History]) -> None:
    history = read(json.dumps([begin(0), begin(1, pid=7), end(2), end(5, pid=7)]))

    assert rows(history) == [("a", 0, 2000, 0), ("a", 1000, 5000, 0)]


def test_sums_of_a_compiler_are_no_spans(read: Callable[..., History]) -> None:
    """LLVM writes the sum of each name as a span from 0 on, on a thread of its own."""
    sums = [
        {**x("Total Source", 0, 30, tid=4), "args": {"count": 2, "avg ms": 0}},
        {**x("Total Frontend", 0, 40, tid=5), "args": {"count": 1, "avg ms": 0}},
    ]
    spans = [x("Source", 20, 10), x("Frontend", 10, 40), x("Total work", 60, 5)]
    history = read(json.dumps({"traceEvents": [*spans, *sums], "beginningOfTime": 1}))

    assert rows(history) == [
        ("Frontend", 10_000, 50_000, 0),
        ("Source", 20_000, 30_000, 1),
        ("Total work", 60_000, 65_000, 0),
    ]
    assert history.bounds == (10_000, 65_000)
    assert dict(history.anomalies) == {"sum_of_spans": 2}
    assert history.facts["sums"] == "Source 30us in 2; Frontend 40us in 1"
    assert span_statistics(history).total_ns.tolist() == [40_000, 10_000, 5_000]


def test_an_unfinished_span_lasts_until_its_threads_last_event(
    read: Callable[..., History],
) -> None:
    history = read(json.dumps([begin(0), begin(1, "b"), end(2), x("c", 3, 4), x("d", 9, 9, tid=3)]))

    spans = history.spans()
    assert rows(history)[:3] == [("a", 0, 7000, 0), ("b", 1000, 2000, 1), ("c", 3000, 7000, 1)]
    assert spans.unfinished.tolist() == [True, False, False, False]
    assert dict(history.anomalies) == {"unfinished_span": 1}


def test_begins_that_come_out_of_order_are_matched_by_time_if_that_fits_better(
    read: Callable[..., History],
) -> None:
    history = read(json.dumps([end(9, "a"), end(10, "b"), begin(0, "b"), begin(1, "a")]))

    assert rows(history) == [("b", 0, 10_000, 0), ("a", 1000, 9000, 1)]
    assert dict(history.anomalies) == {"matched_by_time": 1}


def test_an_end_before_its_begin_is_an_empty_span(read: Callable[..., History]) -> None:
    history = read(json.dumps([begin(10), end(5)]))

    assert rows(history) == [("a", 10_000, 10_000, 0)]
    assert dict(history.anomalies) == {"negative_duration": 1}


def test_empty_spans_are_in_what_was_open_when_they_began(read: Callable[..., History]) -> None:
    events = [begin(0, "a"), begin(5, "b"), begin(5, "c"), end(5), end(5), end(5)]

    history = read(json.dumps([*events, begin(5, "d"), end(9)]))

    assert rows(history) == [
        ("a", 0, 5000, 0),
        ("b", 5000, 5000, 1),
        ("c", 5000, 5000, 2),
        ("d", 5000, 9000, 0),
    ]


def test_complete_spans_nest_whatever_their_order(read: Callable[..., History]) -> None:
    history = read(json.dumps([x("c", 2, 1), x("a", 0, 9), x("b", 1, 3), x("d", 5, 4)]))

    assert rows(history) == [
        ("a", 0, 9000, 0),
        ("b", 1000, 4000, 1),
        ("c", 2000, 3000, 2),
        ("d", 5000, 9000, 1),
    ]


def test_an_overlap_keeps_both_spans(read: Callable[..., History]) -> None:
    history = read(json.dumps([x("a", 0, 10), x("b", 5, 10)]))

    assert history.spans().lane.tolist() == [0, 1]
    assert dict(history.anomalies) == {"overlapping_span": 1}


def test_names_may_be_ids_and_texts_are_decoded(read: Callable[..., History]) -> None:
    history = read(
        '[{"ph":"X","name":"caf\\u00e9 \\"x\\" \\ud83d\\ude00","ts":1,"dur":1,"pid":"GPU",'
        '"tid":"copy\\nqueue","cat":"k\\/l"}]'
    )

    spans = history.spans()
    assert spans.name[0] == 'café "x" 😀'
    assert spans.category[0] == "k/l"
    path = history.attributes.path(int(spans.threads[0]))
    assert path == ("Processes", "GPU", "Threads", "copy\nqueue")


def test_text_that_is_not_utf_8_is_read_and_counted(read: Callable[..., History]) -> None:
    history = read(b'[{"ph":"X","name":"a\xff","ts":1,"dur":1,"pid":1,"tid":1}]')

    assert history.spans().name[0] == "a\ufffd"
    assert dict(history.anomalies) == {"undecodable_text": 1}


def test_arguments_of_begin_and_end_are_both_kept(read: Callable[..., History]) -> None:
    events = [
        begin(0, args={"x": 1, "y": 2}),
        end(1, args={"y": 3}),
        begin(2),
        end(3, args={"z": 4}),
    ]

    spans = read(json.dumps(events)).spans()

    assert [json.loads(spans.arguments(row) or "") for row in range(2)] == [
        {"x": 1, "y": 3},
        {"z": 4},
    ]


def test_metadata_names_and_sorts(read: Callable[..., History]) -> None:
    def meta(about: str, tid: int, **args: object) -> dict[str, object]:
        return {"ph": "M", "name": about, "pid": 1, "tid": tid, "args": args}

    history = read(
        json.dumps(
            [
                x("a", 0, 1, tid=1),
                x("b", 0, 1, tid=2),
                meta("process_name", 0, name="program"),
                meta("thread_name", 1, name="last"),
                meta("thread_name", 2, name="first"),
                meta("thread_sort_index", 2, sort_index=-1),
                meta("process_labels", 0, labels="a tab"),
            ]
        )
    )

    threads = history.spans().threads.tolist()
    assert [history.names[quark] for quark in threads] == ["first", "last"]
    process = history.quark("Processes", "1")
    assert (history.names[process], history.descriptions[process]) == ("program", "a tab")


def test_counters_are_attributes_of_their_type(read: Callable[..., History]) -> None:
    def counter(ts: int, **args: object) -> dict[str, object]:
        return {"ph": "C", "name": "mem", "pid": 1, "ts": ts, "args": args}

    history = read(json.dumps([counter(1, a=5, b=1), counter(0, a=7, b="2.5")]))

    series = ("Processes", "1", "Counters", "mem")
    assert history.state(history.quark(*series, "a"), 0).value == 7
    assert history.state(history.quark(*series, "a"), 1000).value == 5
    assert history.state(history.quark(*series, "b"), 0).value == 2.5


def test_instants_are_points_of_what_they_reach(read: Callable[..., History]) -> None:
    def instant(scope: str | None, ph: str = "i") -> dict[str, object]:
        given = {} if scope is None else {"s": scope}
        return {"ph": ph, "name": "now", "ts": 1, "pid": 1, "tid": 2, **given}

    history = read(json.dumps([instant(None), instant("p", "I"), instant("g"), instant(None, "R")]))

    assert [history.attributes.text(quark) for quark in history.points().quark] == [
        "Processes/1/Threads/2",
        "Processes/1",
        "Global",
        "Processes/1/Threads/2",
    ]


def test_async_spans_are_tracks_of_their_own(read: Callable[..., History]) -> None:
    def step(ph: str, ts: int, name: str = "get", **more: object) -> dict[str, object]:
        return {"ph": ph, "name": name, "cat": "net", "id": "0x1", "pid": 1, "ts": ts, **more}

    history = read(
        json.dumps(
            [
                step("b", 0, args={"url": "/", "status": 0}),
                step("b", 1, "parse"),
                step("n", 2, "note"),
                step("e", 3, "parse", args={"bytes": 7}),
                step("e", 5, args={"status": 500}),
                step("S", 7, id="0x2"),
                step("T", 8, id="0x2", args={"step": "half"}),
                step("F", 9, id="0x2"),
            ]
        )
    )

    assert rows(history) == [("get", 0, 5000, 0), ("parse", 1000, 3000, 1), ("get", 7000, 9000, 0)]
    spans = history.spans()
    assert history.attributes.text(int(spans.threads[0])) == "Processes/1/Async/net/0x1"
    arguments = [json.loads(spans.arguments(row) or "null") for row in range(3)]
    assert arguments == [{"url": "/", "status": 500}, {"bytes": 7}, None]
    assert history.points().name.to_list() == ["note", "half"]


@pytest.mark.parametrize(
    "names",
    [
        {"cat": "net", "id": "1"},
        {"cat": "", "id": "1"},
        {"cat": "net", "id": ""},
        {"cat": "net", "id": "1", "scope": "dns"},
        {"cat": "net", "id2": {"local": "1"}},
        {"cat": "net", "id": "\u0031\\"},
    ],
)
def test_what_has_the_same_names_is_on_one_track(
    read: Callable[..., History], names: dict[str, Any]
) -> None:
    missing = {key: value for key, value in names.items() if value != ""}
    steps = [
        {"ph": "b", "tid": 1, "ts": 0, **names},
        {"ph": "e", "tid": 2, "ts": 1, **missing},
        {"ph": "b", "tid": 3, "ts": 2, **missing},
        {"ph": "e", "tid": 4, "ts": 3, **names},
        {"ph": "b", "tid": 1, "ts": 4, "cat": "net", "id": "other"},
        {"ph": "e", "tid": 1, "ts": 5, "cat": "net", "id": "other"},
    ]

    history = read(json.dumps([{"name": "get", "pid": 1, **step} for step in steps]))

    assert sorted(rows(history)) == [
        ("get", start_ns, start_ns + 1000, 0) for start_ns in (0, 2000, 4000)
    ]
    tracks = map(history.attributes.text, history.spans().threads.tolist())
    assert sorted(text.count("/") for text in tracks) == [4, 4]


def test_arguments_that_cannot_be_merged_are_kept_both(read: Callable[..., History]) -> None:
    history = read(
        '[{"ph":"B","name":"a","ts":0,"pid":1,"tid":1,"args":"begin"},'
        '{"ph":"E","ts":1,"pid":1,"tid":1,"args":{"end":1}}]'
    )

    assert json.loads(history.spans().arguments(0) or "") == ["begin", {"end": 1}]


def test_a_scope_goes_before_a_category(read: Callable[..., History]) -> None:
    history = read(
        '[{"ph":"b","name":"a","cat":"net","scope":"dns","id":1,"ts":0,"pid":1},'
        '{"ph":"e","name":"a","cat":"net","scope":"dns","id":1,"ts":5,"pid":1}]'
    )

    (track,) = history.spans().threads.tolist()
    assert history.attributes.text(track) == "Processes/1/Async/dns/1"
    assert history.spans().category.to_list() == ["net"]


def test_only_flows_that_arrive_nowhere_lack_an_end(read: Callable[..., History]) -> None:
    def flow(ph: str, ts: int, id_: int) -> dict[str, object]:
        return {"ph": ph, "name": "go", "cat": "c", "id": id_, "pid": 1, "tid": 1, "ts": ts}

    history = read(
        json.dumps(
            [
                # a last step arrives, so nothing is missing
                *(flow("s", 0, 1), flow("t", 1, 1)),
                # nothing follows the begin
                flow("s", 2, 2),
                # and nothing comes before this step, nor follows it
                flow("t", 3, 3),
            ]
        )
    )

    assert len(history.flows()) == 1
    assert dict(history.anomalies) == {"flow_without_begin": 1, "flow_without_end": 2}


def test_the_order_of_the_file_is_used_unless_that_of_time_is_better(
    read: Callable[..., History],
) -> None:
    history = read(
        '[{"ph":"B","name":"a","ts":0,"pid":1,"tid":1},'
        '{"ph":"B","name":"b","ts":5,"pid":1,"tid":1},'
        '{"ph":"E","ts":20,"pid":1,"tid":1},'
        '{"ph":"E","ts":10,"pid":1,"tid":1}]'
    )

    assert rows(history) == [("a", 0, 10_000, 0), ("b", 5000, 20_000, 0)]
    assert dict(history.anomalies) == {"overlapping_span": 1}


def test_ids_of_thousands_of_digits_are_names(read: Callable[..., History]) -> None:
    pid = "1" * 5000

    history = read(f'[{{"ph":"X","name":"a","ts":0,"dur":1,"pid":{pid},"tid":1}}]')

    (thread,) = history.spans().threads.tolist()
    assert history.attributes.path(thread) == ("Processes", pid, "Threads", "1")


def test_samples_with_exponents_beyond_all_measure_are_counted(
    read: Callable[..., History],
) -> None:
    sample = '{"tid":1,"ts":%s,"sf":1}'
    frames = '"stackFrames":{"1":{"name":"a"}}'
    one = sample % "1e999999"

    history = read(f'{{"traceEvents":[{ONE}],{frames},"samples":[{one}]}}')
    unreadable = read(
        f'{{"traceEvents":[{ONE}],{frames},"samples":[{sample % "1e9999999999999999999"}]}}'
    )

    assert dict(history.anomalies) == {"bad_profile": 1}
    assert dict(unreadable.anomalies) == {"bad_profile": 1}


@pytest.mark.parametrize("length", range(1, 40))
def test_a_backslash_may_be_the_last_byte(read: Callable[..., History], length: int) -> None:
    start = '[{"ph":"X","name":"a","ts":0,"dur":1},{"ph":"X","args":{"k":"'

    in_object = read(start + "x" * length + "\\")
    in_name = read('[{"ph":"X","name":"a","ts":0,"dur":1},{"name":"' + "x" * length + "\\")

    for history in (in_object, in_name):
        assert history.spans().name.to_list() == ["a"]
        assert dict(history.anomalies) == {"truncated": 1}


def test_lenient_reading_continues_after_brackets_that_never_close(
    read: Callable[..., History],
) -> None:
    good = '{"ph":"X","name":"a","ts":0,"dur":1}'
    broken = "{x\n" * 3

    history = read(f"[\n{broken}{good},\n{good}\n", lenient=True)

    assert history.spans().name.to_list() == ["a", "a"]
    assert history.anomalies["bad_record"] == 3


def test_flows_link_each_arrival_to_the_latest_departure(read: Callable[..., History]) -> None:
    def flow(ph: str, ts: int, tid: int) -> dict[str, object]:
        return {"ph": ph, "name": "go", "cat": "c", "id": 5, "pid": 1, "tid": tid, "ts": ts}

    history = read(
        json.dumps(
            [
                flow("s", 0, 1),
                flow("t", 1, 2),
                flow("f", 2, 3),
                x("out", 3, 1, bind_id="0x9", flow_out=True),
                x("in", 5, 1, tid=8, bind_id="0x9", flow_in=True),
            ]
        )
    )

    flows = history.flows()
    assert flows.from_ns.tolist() == [0, 1000, 3000]
    assert flows.to_ns.tolist() == [1000, 2000, 5000]
    assert [history.attributes.name(quark) for quark in flows.to_quark] == ["2", "3", "8"]


def test_objects_are_alive_until_they_are_deleted(read: Callable[..., History]) -> None:
    def thing(ph: str, ts: int) -> dict[str, object]:
        return {"ph": ph, "name": "Tree", "id": "0x1", "pid": 1, "ts": ts, "args": {"snapshot": 1}}

    history = read(json.dumps([thing("N", 1), thing("O", 2), thing("D", 3), x("a", 5, 1)]))

    quark = history.quark("Processes", "1", "Objects", "Tree", "0x1")
    assert [history.state(quark, ns).value for ns in (0, 1000, 2999, 3000)] == [
        None,
        "alive",
        "alive",
        None,
    ]
    assert len(history.points()) == 1


def test_deletions_of_what_was_not_created_are_counted(read: Callable[..., History]) -> None:
    def thing(ph: str, ts: int, number: str) -> dict[str, object]:
        return {"ph": ph, "name": "Tree", "id": number, "pid": 1, "ts": ts}

    history = read(
        json.dumps([thing("N", 1, "1"), thing("D", 3, "2"), thing("D", 4, "1"), thing("D", 5, "1")])
    )

    assert dict(history.anomalies) == {"end_without_begin": 2}


def test_samples_and_their_frames_are_read(read: Callable[..., History]) -> None:
    history = read(
        json.dumps(
            {
                "traceEvents": [x("a", 0, 1)],
                "stackFrames": {"1": {"name": "main"}, "2": {"name": "work", "parent": "1"}},
                "samples": [{"cpu": 0, "tid": 2, "ts": 4, "name": "cycles", "sf": 2, "weight": 3}],
            }
        )
    )

    samples = history.samples()
    assert samples.stacks.frames_of(int(samples.stack[0])) == ["main", "work"]
    assert (samples.time_ns.tolist(), samples.weight.tolist()) == ([4000], [3])
    assert history.attributes.text(int(samples.thread[0])) == "Processes/1/Threads/2"


def test_v8_profiles_in_chunks_are_samples(read: Callable[..., History]) -> None:
    def profile(name: str, **data: object) -> dict[str, object]:
        return {
            "ph": "P",
            "name": name,
            "id": "0x1",
            "pid": 1,
            "tid": 2,
            "ts": 1,
            "args": {"data": data},
        }

    nodes = [
        {"id": 1, "callFrame": {"functionName": "(root)"}},
        {"id": 2, "parent": 1, "callFrame": {"functionName": "f"}},
        {"id": 3, "parent": 2, "callFrame": {"functionName": ""}},
    ]
    history = read(
        json.dumps(
            [
                profile("Profile", startTime=100),
                profile(
                    "ProfileChunk", cpuProfile={"nodes": nodes, "samples": [2]}, timeDeltas=[5]
                ),
                profile("ProfileChunk", cpuProfile={"samples": [3, 1]}, timeDeltas=[2, 1]),
            ]
        )
    )

    samples = history.samples()
    assert samples.time_ns.tolist() == [105_000, 107_000, 108_000]
    assert samples.weight.tolist() == [2000, 1000, 0]
    assert [samples.stacks.frames_of(stack) for stack in samples.stack] == [
        ["f"],
        ["f", "(anonymous)"],
        [],
    ]


def test_the_header_is_kept(read: Callable[..., History]) -> None:
    history = read(
        '{"baseTimeNanoseconds":1000,"traceName":"t","displayTimeUnit":"ms","traceEvents":[]}'
    )

    assert history.clock.utc_at_origin_ns == 1000
    assert history.title == "t"
    assert history.facts["displayTimeUnit"] == "ms"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the input is empty"),
        ('{"a":1}', "JSON with the keys a:"),
        ('{"traceEvents":{}}', "the trace has no list of events"),
        (
            '{"type": "module", "modules": [{"name": "x"}, {"text": "' + "x" * 70_000 + '"}]}',
            "a key traceEvents; its keys are type, modules, name, text: `meantime formats`",
        ),
        ("[{ph:1}]", r"trace.json:1: an event's key is a string in double quotes \(byte 2\)"),
        (f'[{ONE},\n{{"a" 1}}]', r"trace.json:2: a colon is missing after an event's key"),
        (f"[{ONE},\n/* no */]", "an event, a comma or the closing bracket is missing"),
    ],
)
def test_a_file_that_is_not_a_trace_is_rejected_with_the_offset(
    read: Callable[..., History], text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


def test_lenient_reading_skips_and_counts_lines_that_are_not_events(
    read: Callable[..., History],
) -> None:
    history = read(f"[{{ph:1}},{ONE},\n/* no */]", lenient=True)

    assert rows(history) == A
    assert dict(history.anomalies) == {"bad_record": 2}


def test_a_file_cut_at_any_byte_is_read_or_refused_and_loses_no_whole_event(
    read: Callable[..., History],
) -> None:
    head, tail = '{"a":"b","traceEvents":[', '],"displayTimeUnit":"ns"}'
    second = ONE.replace('"a"', '"b"').replace('"ts":1', '"ts":7')
    text = f"{head}{ONE},{second}{tail}"

    for cut in range(1, len(text)):
        if cut < len(head):
            with pytest.raises(InputError):
                read(text[:cut])
            continue
        found = rows(read(text[:cut]))
        whole = (cut >= len(head) + len(ONE)) + (cut >= len(head) + len(ONE) + 1 + len(second))
        assert len(found) == whole


def test_a_very_long_name_and_a_very_deep_stack_are_read(read: Callable[..., History]) -> None:
    deep = 100_000
    events = ",".join(f'{{"ph":"B","name":"d","ts":{i},"pid":1,"tid":1}}' for i in range(deep))
    long = "n" * 1_000_000

    history = read(f'[{{"ph":"X","name":"{long}","ts":0,"dur":1,"pid":1,"tid":0}},{events}]')

    assert history.spans().name[0] == long
    assert int(history.spans().depth.max()) == deep - 1


@pytest.mark.parametrize(
    "event",
    [
        '{"p\\u0068":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":2}',
        '{"ph":"\\u0058","na\\u006de":"a","t\\u0073":1,"dur":2,"pid":1,"\\u0074id":2}',
    ],
)
def test_keys_and_phases_may_have_escapes(read: Callable[..., History], event: str) -> None:
    # a key that is not written as itself is not looked for in the beginning
    assert rows(read(f'{{"traceEvents":[{event}]}}')) == A


@pytest.mark.parametrize(
    ("more", "oddity", "count"),
    [
        ('"samples":[{"tid":1,"ts":1e99,"sf":1},{"tid":1,"ts":"NaN","sf":1}]', "bad_profile", 2),
        ('"samples":[{"tid":1,"ts":1,"sf":"1","weight":1e30}]', "bad_profile", 1),
        ('"samples":[{"tid":1,"ts":1,"sf":"1","weight":1e999999999}]', "bad_profile", 1),
        ('"samples":[{"tid":1,"ts":"1e999999999","sf":"1"}]', "bad_profile", 1),
        ('"samples":[{"tid":1,"ts":1,"sf":"0"}]', "bad_profile", 1),
    ],
)  # fmt: skip
def test_samples_beyond_measure_are_counted(
    read: Callable[..., History], more: str, oddity: str, count: int
) -> None:
    frames = '"stackFrames":{"1":{"name":"f"}}'

    history = read(f'{{"traceEvents":[{ONE}],{more},{frames}}}')

    assert rows(history) == A
    assert dict(history.anomalies) == {oddity: count}


def test_a_profile_beyond_measure_is_counted(read: Callable[..., History]) -> None:
    nodes = [{"id": 1, "callFrame": {"functionName": "f"}}]
    chunk = {"cpuProfile": {"nodes": nodes, "samples": [1]}, "timeDeltas": [1]}
    events = [
        {"ph": "P", "name": "Profile", "ts": 1, "args": {"data": {"startTime": 10**30}}},
        {"ph": "P", "name": "ProfileChunk", "ts": 1, "args": {"data": chunk}},
        json.loads(ONE),
    ]

    assert dict(read(json.dumps(events)).anomalies) == {"bad_profile": 1}


def test_long_and_deep_keys_beside_the_events_are_kept(read: Callable[..., History]) -> None:
    long, deep = json.dumps({"x": "y" * 5000}), "[" * 2000 + "]" * 2000

    history = read(f'{{"long":{long},"de\\u0065p":{deep},"traceEvents":[{ONE}]}}')

    assert history.facts == {"long": long, "deep": deep}


def test_facts_of_several_processes_are_distinguished(read: Callable[..., History]) -> None:
    events = [
        {"ph": "M", "name": "num_cpus", "pid": 1, "args": {"number": 8}},
        {"ph": "M", "name": "num_cpus", "pid": 2, "args": {"number": 8}},
        {"ph": "M", "name": "config", "pid": 1, "args": {"a": 1, "b": [2]}},
        {"ph": "M", "name": "config", "pid": 2, "args": {"a": 3}},
    ]

    assert read(json.dumps(events)).facts == {
        "num_cpus": "8",
        "config": '{"a": 1, "b": [2]}',
        "config of 2": "3",
    }


KERNEL = """# tracer: nop
#
#           TASK-PID   CPU#  ||||    TIMESTAMP  FUNCTION
#              | |       |   ||||       |         |
  bash-100   [000] d..3  1.000100: sched_switch: prev_comm=bash prev_pid=100 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  <idle>-0   [000] d..3  1.002100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=bash next_pid=100 next_prio=120
  bash-100   [000] d..3  1.003000: tracing_mark_write: B|7|draw
  bash-100   [000] d..3  1.003500: tracing_mark_write: C|7|heap|5
  bash-100   [000] d..3  1.003900: ext4_sync: dev=8
  bash-100   [000] d..3  1.004000: tracing_mark_write: E|7
"""


def with_kernel(kernel: str = KERNEL, *events: dict[str, Any], begin_us: int = 1_000_000) -> str:
    own = {"ph": "X", "name": "a", "ts": begin_us, "dur": 9000, "pid": 7, "tid": 100}
    heap = {"ph": "C", "name": "heap", "ts": begin_us, "pid": 7, "args": {"value": 0.5}}
    content = {"traceEvents": [own, heap, *events], "systemTraceEvents": kernel}
    return json.dumps(content)


def thread_states(history: History, path: str) -> list[tuple[object, int, int]]:
    rows = history.intervals(path, *history.bounds)
    found = [(row.value, row.start_ns, row.end_ns) for row in rows if row.value is not None]
    return [(value, start // 10**5, end // 10**5) for value, start, end in found]


def test_text_of_ftrace_in_a_string_is_read(read: Callable[..., History]) -> None:
    history = read(with_kernel())

    # where the text ends nothing more is known, though the trace goes on
    assert thread_states(history, "Processes/7/Threads/100/Status") == [
        ("sleeping", 10001, 10021),
        ("running", 10021, 10040),
    ]
    assert thread_states(history, "CPUs/0/Status")[0] == ("idle", 10001, 10021)
    assert {*history.spans().name.to_list()} == {"a", "draw"}
    assert (
        history.spans().thread.tolist() == [history.quark("Processes", "7", "Threads", "100")] * 2
    )
    assert history.spans().depth.tolist() == [0, 1]
    assert history.points().name.to_list() == ["ext4_sync"]
    assert history.state("Processes/7/Counters/heap/value (ftrace)", 1_003_600_000).value == 5
    assert history.state("Processes/7/Counters/heap/value", 1_003_600_000).value == 0.5
    assert history.names[history.quark("Processes", "7", "Threads", "100")] == "bash"
    assert history.bounds == (10**9, 1_009_000_000)
    assert "both cover the same time" in history.facts["system trace"]
    assert not dict(history.anomalies)
    assert not len(history.samples())


def test_a_trace_of_the_kernel_alone_is_on_its_own_clock(read: Callable[..., History]) -> None:
    history = read(json.dumps({"traceEvents": [], "systemTraceEvents": KERNEL}))

    assert thread_states(history, "Threads/100/Status")[1] == ("running", 10021, 10040)
    assert history.bounds == (1_000_100_000, 1_004_000_001)


PARENT = "  bash-100 [000] d..3 1.000200: tracing_mark_write: trace_event_clock_sync: "


@pytest.mark.parametrize(
    ("mark", "events", "moved_us", "said"),
    [
        ("parent_ts=5000.0002", [], 4999 * 10**6, "moved by 4999s, as parent_ts says"),
        (
            "name=abc",
            [
                {
                    "ph": "c",
                    "name": "clock_sync",
                    "ts": 5000 * 10**6 + 210,
                    "args": {"sync_id": "abc", "issue_ts": 5000 * 10**6 + 190},
                }
            ],
            4999 * 10**6,
            "moved by 4999s, as clock_sync says, within 10us",
        ),
    ],
)
def test_the_kernel_is_moved_to_the_clock_of_the_trace(
    read: Callable[..., History], mark: str, events: list[dict[str, Any]], moved_us: int, said: str
) -> None:
    kernel = KERNEL + PARENT + mark + "\n"
    history = read(with_kernel(kernel, *events, begin_us=5000 * 10**6))

    [_, running] = thread_states(history, "Processes/7/Threads/100/Status")
    assert running == ("running", 10021 + moved_us // 100, 10040 + moved_us // 100)
    assert history.facts["system trace"] == said


@pytest.mark.parametrize(
    ("kernel", "begin_us", "count", "reason"),
    [
        (KERNEL, 5000 * 10**6, 6, "nothing says how its clock is related"),
        ("no events\n", 10**6, 1, "has no events"),
        ("# tracer: wakeup\n a-1 [000] 1.0: x: y=1\n", 10**6, 1, "tracer wakeup is not read"),
    ],
)
def test_a_kernel_that_cannot_be_aligned_is_counted(
    read: Callable[..., History], kernel: str, begin_us: int, count: int, reason: str
) -> None:
    history = read(with_kernel(kernel, begin_us=begin_us))

    assert dict(history.anomalies) == {"system_trace_left_out": count}
    assert reason in history.facts["system trace"]
    assert "systemTraceEvents" not in history.facts
    assert history.bounds == (begin_us * 1000, (begin_us + 9000) * 1000)


def test_a_counter_without_values_is_counted(read: Callable[..., History]) -> None:
    history = read(f'[{{"ph":"C","name":"c","ts":1,"pid":1}},{ONE}]')
    assert dict(history.anomalies) == {"bad_counter": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_in_two_bytes_a_character_is_refused_as_such(
    read: Callable[..., History], encoding: str
) -> None:
    with pytest.raises(InputError, match="UTF-16 or UTF-32: save it in UTF-8"):
        read(f"[{ONE}]".encode(encoding))


def test_what_instants_carry_is_kept(read: Callable[..., History]) -> None:
    points = read(
        '[{"ph":"i","name":"a","ts":1,"args":{"n":[1]}},{"ph":"i","name":"b","ts":2}]'
    ).points()

    assert [points.arguments(row) for row in range(2)] == ['{"n":[1]}', None]


@pytest.mark.parametrize(
    ("top", "thread", "program"),
    [
        ({"viztracer_metadata": {"version": "1.0"}}, "t", "VizTracer 1.0"),
        ({"metadata": {"product-version": "Chrome/1"}}, "t", "Chrome/1"),
        ({"schemaVersion": 1, "deviceProperties": []}, "t", "PyTorch"),
        ({"beginningOfTime": 5}, "t", "clang"),
        ({"node": {"versions": {"node": "20"}}}, "t", "Node.js 20"),
        ({"node": 5}, "t", "Node.js"),
        ({}, "/host:CPU", "XLA (JAX, TensorFlow)"),
        ({"metadata": "x"}, "CrRendererMain", "Chromium"),
        ({"metadata": [1]}, "t", None),
    ],
)
def test_the_program_is_shown_where_it_is_known(
    read: Callable[..., History], top: dict[str, object], thread: str, program: str | None
) -> None:
    name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": thread}}

    history = read(json.dumps({**top, "traceEvents": [name]}))

    assert history.facts.get("program") == program


def test_when_and_where_a_trace_was_taken_is_read_from_it(
    read: Callable[..., History],
) -> None:
    clock = read('{"beginningOfTime":1700000000000001,"host_name":"h","traceEvents":[]}').clock

    assert (clock.kind, clock.host, clock.utc_at_origin_ns) == (
        "realtime", "h", 1_700_000_000_000_001_000
    )  # fmt: skip
