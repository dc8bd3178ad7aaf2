from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meantime.cli import main
from meantime.history import HistoryBuilder

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "program"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
    {"ph": "X", "name": "work", "cat": "a", "ts": 0, "dur": 10, "pid": 1, "tid": 2},
    {
        "ph": "X",
        "name": "read",
        "cat": "b",
        "ts": 2,
        "dur": 3,
        "pid": 1,
        "tid": 2,
        "args": {"n": 1},
    },
    {"ph": "B", "name": "wait", "ts": 4, "pid": "GPU", "tid": "q"},
    {"ph": "i", "name": "now", "ts": 9, "pid": "GPU", "tid": "q"},
    {"ph": "C", "name": "mem", "ts": 1, "pid": 1, "args": {"free": 7}},
    {"ph": "b", "name": "get", "cat": "net", "id": 5, "ts": 1, "pid": 1},
    {"ph": "e", "name": "get", "cat": "net", "id": 5, "ts": 3, "pid": 1, "args": {"status": 500}},
]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(EVENTS))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    out, err = capsys.readouterr()
    assert (stopped.value.code, err) == (0, "")
    return out


def dumped(capsys: pytest.CaptureFixture[str], trace: str, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(capsys, "dump", trace, "--kind", kind).splitlines()]


def test_spans_are_dumped_by_thread_with_their_arguments(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    lines = dumped(capsys, trace, "spans")

    assert lines == [
        {"span": 2, "name": "wait", "category": None, "pid": "GPU", "tid": "q", "start_ns": 4000,
         "end_ns": 9000, "depth": 0, "lane": 0, "self_ns": 5000, "unfinished": True,
         "args": None},
        {"span": 0, "name": "work", "category": "a", "pid": 1, "tid": 2, "start_ns": 0,
         "end_ns": 10_000, "depth": 0, "lane": 0, "self_ns": 7000, "unfinished": False,
         "args": None},
        {"span": 1, "name": "read", "category": "b", "pid": 1, "tid": 2, "start_ns": 2000,
         "end_ns": 5000, "depth": 1, "lane": 0, "self_ns": 3000, "unfinished": False,
         "args": {"n": 1}},
        {"span": 3, "name": "get", "category": "net", "pid": 1, "tid": None,
         "path": "Processes/1/Async/net/5", "start_ns": 1000, "end_ns": 3000, "depth": 0,
         "lane": 0, "self_ns": 2000, "unfinished": False, "args": {"status": 500}},
    ]  # fmt: skip


def test_statistics_are_of_asynchronous_operations_if_threads_have_no_spans(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "async.json").write_text(json.dumps(EVENTS[-2:]))

    found = json.loads(run(capsys, "stats", str(tmp_path / "async.json"), "--json"))

    assert [(row["key"], row["count"], row["total_ns"]) for row in found["rows"]] == [
        ("get", 1, 2000)
    ]
    assert "async_spans" not in found


def test_statistics_report_the_async_spans_they_leave_out(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    printed = run(capsys, "stats", trace)
    chosen = json.loads(run(capsys, "stats", trace, "--filter", "main", "--json"))

    assert printed.splitlines()[-1] == (
        "1 spans of async operations are not counted; meantime dump --kind spans prints them"
    )
    assert "async_spans" not in chosen
    assert json.loads(run(capsys, "stats", trace, "--tree", "--json"))["async_spans"] == 1
    with pytest.raises(SystemExit):
        main(["stats", trace, "--longest", "get"])
    assert capsys.readouterr().err == (
        "meantime: 'get' does not occur in this part of the trace;"
        " 1 spans of async operations are not counted: meantime dump --kind spans prints them\n"
    )
    with pytest.raises(SystemExit):
        main(["stats", trace, "--filter", "^(load|parse|work)"])
    said = capsys.readouterr().err
    assert "matches no thread with spans or samples, but names of spans: " in said
    assert "--longest" in said


def test_the_share_of_a_recursive_function_counts_its_time_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = [
        {"ph": "X", "name": "sort", "ts": ts, "dur": dur, "pid": 1, "tid": tid}
        for tid, ts, dur in [(1, 0, 8), (1, 1, 6), (1, 2, 2), (2, 6, 4)]
    ]
    (tmp_path / "sort.json").write_text(json.dumps(events))
    path = str(tmp_path / "sort.json")

    (row,) = json.loads(run(capsys, "stats", path, "--json"))["rows"]
    whole = run(capsys, "stats", path, "--json", "--from", "2us", "--to", "6us", "--whole")

    assert (row["total_ns"], row["self_ns"], row["share"]) == (20_000, 12_000, 0.6)
    (row,) = json.loads(whole)["rows"]
    assert (row["total_ns"], row["share"]) == (16_000, 0.5)


@pytest.mark.parametrize(
    ("trace", "options", "message"),
    [
        ("a;b 3\n", ["--whole"],
         "--whole applies to spans of threads; this trace has samples only"),
        ("a;b 3\n", ["--by", "thread"],
         "--by thread applies to spans of threads; this trace has samples only"),
        (json.dumps(EVENTS), ["--by", "state", "--whole"],
         "--whole applies to spans; these are states"),
    ],
)  # fmt: skip
def test_options_of_statistics_that_do_not_apply_are_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    trace: str,
    options: list[str],
    message: str,
) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(trace)

    with pytest.raises(SystemExit) as stopped:
        main(["stats", str(path), *options])

    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_statistics_of_names_need_spans_or_samples(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("start_ns,end_ns,path,value\n0,5,a,x\n")

    with pytest.raises(SystemExit) as stopped:
        main(["stats", str(path), "--by", "name"])

    assert stopped.value.code == 1
    assert capsys.readouterr().err == (
        f"meantime: {path}: there are no spans and no samples for --by name\n"
    )


def test_counters_are_dumped_with_their_series(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    assert dumped(capsys, trace, "counters") == [
        {"time_ns": 1000, "path": "Processes/1/Counters/mem/free", "pid": 1, "name": "mem",
         "series": "free", "value": 7}
    ]  # fmt: skip


def test_operations_are_dumped_as_intervals(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    paths = {line["path"] for line in dumped(capsys, trace, "intervals")}

    assert {"Processes/1/Async/net/5/0", "Processes/1/Threads/2/Stack/1"} <= paths


def test_samples_are_dumped_with_their_stacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.folded"
    path.write_text("main;read 3\n")

    assert dumped(capsys, str(path), "samples") == [
        {"time_ns": 0, "pid": 0, "tid": 0, "weight": 3, "event": "samples",
         "stack": ["main", "read"]}
    ]  # fmt: skip


def test_statistics_are_by_name_where_there_are_spans(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    found = json.loads(run(capsys, "stats", trace, "--from", "3us", "--to", "7us", "--json"))

    assert (found["by"], found["range_ns"]) == ("name", [3000, 7000])
    assert [(row["key"], row["total_ns"], row["self_ns"]) for row in found["rows"]] == [
        ("wait", 3000, 3000),
        ("read", 2000, 2000),
        ("work", 4000, 2000),
    ]
    assert found["rows"][2]["share"] == 0.5


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("category", ["a", None, "b"]),
        ("thread", ["Processes/1/Threads/2", "Processes/GPU/Threads/q"]),
    ],
)
def test_statistics_by_category_and_thread(
    capsys: pytest.CaptureFixture[str], trace: str, by: str, keys: list[str]
) -> None:
    found = json.loads(run(capsys, "stats", trace, "--by", by, "--json"))

    assert [row["key"] for row in found["rows"]] == keys


def test_info_lists_processes_and_threads(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    found = json.loads(run(capsys, "info", trace, "--json"))

    assert (found["format"], found["spans"], found["async_spans"], found["depth"]) == (
        "chrome",
        3,
        1,
        2,
    )
    assert found["processes"][1] == {
        "pid": 1,
        "name": "program",
        "threads": [{"tid": 2, "name": "main", "spans": 2, "depth": 2, "lanes": 1, "samples": 0}],
    }
    assert found["anomalies"] == {"unfinished_span": 1}


@pytest.fixture
def unfinished(tmp_path: Path) -> str:
    path = tmp_path / "open.json"
    begins = [("B", 0), ("E", 50), ("B", 60)]
    events = [{"ph": ph, "name": "work", "ts": ts, "pid": 1, "tid": 1} for ph, ts in begins]
    inside = {"ph": "X", "name": "inner", "ts": 70, "dur": 30, "pid": 1, "tid": 1}
    path.write_text(json.dumps([*events, inside]))
    return str(path)


def test_statistics_tell_unfinished_spans_from_finished_ones(
    capsys: pytest.CaptureFixture[str], unfinished: str
) -> None:
    found = json.loads(run(capsys, "stats", unfinished, "--json"))
    [whole] = json.loads(run(capsys, "stats", unfinished, "--by", "thread", "--json"))["rows"]
    # in a range that ends before, it is known to the end
    before = json.loads(run(capsys, "stats", unfinished, "--to", "90us", "--json"))
    text = run(capsys, "stats", unfinished)
    with pytest.raises(SystemExit):
        main(["stats", unfinished, "--longest", "work"])
    longest = capsys.readouterr().out

    assert [
        (row["key"], row["total_ns"], row["unfinished"], row["unfinished_ns"])
        for row in found["rows"]
    ] == [("work", 90_000, 1, 40_000), ("inner", 30_000, 0, 0)]
    assert found["unfinished"] == 1
    assert (whole["unfinished"], whole["unfinished_ns"]) == (1, 40_000)
    assert "unfinished" not in before
    assert {row["unfinished"] for row in before["rows"]} == {0}
    assert "unfinished  at least" in text
    assert longest.count("not in the trace") == 1


def test_other_answers_about_spans_say_how_many_are_unfinished(
    capsys: pytest.CaptureFixture[str], unfinished: str, tmp_path: Path
) -> None:
    for words in (("stats", "--tree"), ("stats", "--callees", "work"), ("flame", "--json")):
        with pytest.raises(SystemExit):
            main([words[0], unfinished, *words[1:]])
        said = capsys.readouterr()
        assert "1 span has no end in the trace" in said.err, words
    with pytest.raises(SystemExit):
        main(["flame", unfinished, "-o", str(tmp_path / "flame.svg")])
    assert "1 span has no end in the trace" in (tmp_path / "flame.svg").read_text()


def test_tables_for_people_name_what_was_found(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    assert "3 of threads, 1 of operations" in run(capsys, "info", trace)
    assert "Time in spans over" in run(capsys, "stats", trace)


def test_the_depths_of_threads_are_rows_of_a_statemap(trace: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["statemap", trace, "-o", str(tmp_path / "map.json")])
    drawn, operations = json.loads((tmp_path / "map.json").read_text())["maps"]

    assert stopped.value.code == 0
    assert [(row["entity"], row["rects"][0]["states"]) for row in operations["rows"]] == [
        ("0 · program 1 / net/5", {"get": 2000})
    ]
    assert [state["name"] for state in drawn["states"]] == ["work", "wait", "read"]
    assert [
        (
            row["entity"],
            [(rect["start_ns"], rect["end_ns"], rect["states"]) for rect in row["rects"]],
        )
        for row in drawn["rows"]
    ] == [
        ("0 · GPU / q", [(4000, 9000, {"wait": 5000})]),
        ("0 · program 1 / main 2", [(0, 10_000, {"work": 10_000})]),
        ("1 · program 1 / main 2", [(2000, 5000, {"read": 3000})]),
    ]
    assert [(event["entity"], event["event"]) for event in drawn["events"]] == [
        ("0 · GPU / q", "now")
    ]


CALLS = [
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
    {"ph": "X", "name": "f", "ts": 0, "dur": 10, "pid": 1, "tid": 2},
    {"ph": "X", "name": "g", "ts": 1, "dur": 2, "pid": 1, "tid": 2},
    {"ph": "X", "name": "g", "ts": 4, "dur": 5, "pid": 1, "tid": 2, "args": {"n": 1}},
    {"ph": "X", "name": "f", "ts": 0, "dur": 3, "pid": 1, "tid": 3},
]


@pytest.fixture
def calls(tmp_path: Path) -> str:
    path = tmp_path / "calls.json"
    path.write_text(json.dumps(CALLS))
    return str(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--callers", "g"],
            {"callers": "g", "unit": "ns", "rows": [{"name": "f", "count": 2, "total_ns": 7000}]},
        ),
        (
            ["--callees", "f"],
            {"callees": "f", "unit": "ns", "rows": [{"name": "g", "count": 2, "total_ns": 7000}]},
        ),
        (
            ["--tree", "--filter", "main"],
            {
                "tree": True,
                "unit": "ns",
                "rows": [
                    {"depth": 0, "name": "f", "count": 1, "total_ns": 10_000, "self_ns": 3000},
                    {"depth": 1, "name": "g", "count": 2, "total_ns": 7000, "self_ns": 7000},
                ],
            },
        ),
        (
            ["--longest", "g", "--to", "6us"],
            {
                "longest": "g",
                "rows": [
                    {"span": span, "name": "g", "category": None, "pid": 1, "tid": 2,
                     "start_ns": start, "end_ns": start + length, "depth": 1, "lane": 0,
                     "self_ns": length, "unfinished": False, "args": args, "in_range_ns": 2000}
                    for span, start, length, args in (
                        (2, 4000, 5000, {"n": 1}), (1, 1000, 2000, None),
                    )
                ],
            },
        ),
        (
            ["--against", "0..3us", "--from", "5us", "--to", "10us", "--filter", "1/2"],
            {
                "by": "name",
                "unit": "ns",
                "against_range_ns": [0, 3000],
                "rows": [
                    {"key": "g", "before": {"count": 1, "self_ns": 2000, "total_ns": 2000},
                     "after": {"count": 1, "self_ns": 4000, "total_ns": 4000}},
                    {"key": "f", "before": {"count": 1, "self_ns": 1000, "total_ns": 3000},
                     "after": {"count": 1, "self_ns": 1000, "total_ns": 5000}},
                ],
            },
        ),
    ],
)  # fmt: skip
def test_questions_about_names_are_answered(
    capsys: pytest.CaptureFixture[str], calls: str, words: list[str], expected: dict[str, Any]
) -> None:
    found = json.loads(run(capsys, "stats", calls, *words, "--json"))

    del found["range_ns"]
    following = found.pop("next", [])
    assert found == expected
    if "longest" in found:
        span = found["rows"][0]["span"]
        assert [each["command"] for each in following] == [
            f"meantime query {calls} 'span {span}' --json"
        ]
    assert run(capsys, "stats", calls, *words)


def test_durations_are_counted_in_parts_whole_or_clipped(
    capsys: pytest.CaptureFixture[str], calls: str
) -> None:
    whole, clipped = (
        json.loads(
            run(capsys, "stats", calls, "--histogram", "g", "--from", "5us", *more, "--json")
        )
        for more in (["--whole"], [])
    )

    assert (sum(whole["counts"]), whole["edges_ns"][0]) == (1, 5000)
    assert (sum(clipped["counts"]), clipped["edges_ns"][0]) == (1, 4000)


def test_two_traces_are_compared(
    capsys: pytest.CaptureFixture[str], calls: str, trace: str, tmp_path: Path
) -> None:
    rows = json.loads(run(capsys, "stats", calls, "--against", trace, "--json"))["rows"]
    run(capsys, "flame", calls, "--against", trace, "-o", str(tmp_path / "both.txt"))

    changes = {row["key"]: row["after"]["total_ns"] - row["before"]["total_ns"] for row in rows}
    assert changes == {"f": 13_000, "g": 7000, "work": -10_000, "wait": -5000, "read": -3000}
    assert "f;g 0 7000\n" in (tmp_path / "both.txt").read_text()


def test_samples_have_statistics_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.folded"
    path.write_text("main;read;read 3\nmain 1\n")

    found = json.loads(run(capsys, "stats", str(path), "--json"))

    assert found == {
        "by": "name",
        "unit": "samples",
        "range_ns": [0, 4],
        "rows": [
            {"key": "read", "count": 1, "total": 3, "self": 3, "share": 0.75},
            {"key": "main", "count": 1, "total": 4, "self": 1, "share": 1.0},
        ],
    }
    assert "read" in run(capsys, "stats", str(path), "--callers", "read")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--callers", "f", "--tree"], 2, "--callers and --tree are mutually exclusive"),
        (["--callers", "f", "--by", "thread"], 2, "leave out --by thread"),
        (["--callers", "nothing"], 1, "'nothing' does not occur in"),
        (["--filter", "nox*"], 1, "the filter 'nox*' matches no thread"),
        (["--filter", "main", "--by", "state"], 1, "matches no entity"),
        (["--against", "x"], 2, "write two times"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(
    capsys: pytest.CaptureFixture[str], calls: str, words: list[str], status: int, message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["stats", calls, *words])

    assert stopped.value.code == status
    assert message in capsys.readouterr().err


def test_a_flame_graph_of_chosen_threads(
    capsys: pytest.CaptureFixture[str], calls: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"

    run(capsys, "flame", calls, "--filter", "3", "--from", "2us", "--to", "9us", "--whole",
        "-o", str(out))  # fmt: skip

    assert out.read_text() == "f 3000\n"


def test_a_range_is_clipped_to_the_trace_and_empty_outside(
    capsys: pytest.CaptureFixture[str], calls: str
) -> None:
    for start in ("1us", "-1us"):
        window = (f"--from={start}", "--to", "1s", "--json")
        found = json.loads(run(capsys, "stats", calls, *window))
        assert found["range_ns"] == [max(0, 1000 if start == "1us" else 0), 10_000]
    with pytest.raises(SystemExit) as stopped:
        main(["stats", calls, "--from", "10us"])

    assert not stopped.value.code
    assert "there is nothing from 10us on; the trace is from 0s to 10us" in capsys.readouterr().err


def test_overlapping_operations_and_objects_are_rows_of_a_statemap(tmp_path: Path) -> None:
    events = [
        {"ph": phase, "name": name, "cat": "net", "id": 5, "ts": ts, "pid": 1}
        for phase, name, ts in (("b", "x", 0), ("b", "y", 5), ("e", "x", 9), ("e", "y", 12))
    ] + [
        {"ph": phase, "name": "o", "id": 1, "ts": ts, "pid": 1}
        for phase, ts in (("N", 1), ("D", 3))
    ]
    (tmp_path / "x.json").write_text(json.dumps(events))

    with pytest.raises(SystemExit):
        main(["statemap", str(tmp_path / "x.json"), "-o", str(tmp_path / "map.json")])
    maps = json.loads((tmp_path / "map.json").read_text())["maps"]

    assert [[row["entity"] for row in panel["rows"]] for panel in maps] == [
        ["0 · 1 / net/5", "0 · lane 1 · 1 / net/5"],
        ["Processes/1/Objects/o/1"],
    ]


def test_a_trace_of_only_counters_is_reported_to_have_no_spans(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "counters.json"
    path.write_text(
        '{"displayTimeUnit":"ns","traceEvents":[{"ph":"C","name":"m","ts":1,"args":{"a":7}}]}'
    )

    found = json.loads(run(capsys, "info", str(path), "--json"))
    shown_facts = run(capsys, "info", str(path))

    assert {name: found[name] for name in ("spans", "depth", "processes", "facts")} == {
        "spans": 0,
        "depth": 0,
        "processes": [],
        "facts": {"displayTimeUnit": "ns"},
    }
    assert [line.split() for line in shown_facts.splitlines() if line.startswith("spans")] == [
        ["spans", "none"]
    ]


ASYNC = [
    {"ph": "b", "name": "get", "cat": "net", "id": 5, "ts": 1, "pid": 1},
    {"ph": "e", "name": "get", "cat": "net", "id": 5, "ts": 3, "pid": 1},
]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("flame", "-o", "OUT.svg"), "all spans are of async operations"),
        (("flame", "-o", "OUT.txt"), "all spans are of async operations"),
        (("convert", "OUT.folded"), "there are no spans of threads"),
    ],
)
def test_stacks_are_not_made_of_async_operations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "async.json"
    path.write_text(json.dumps(ASYNC))
    command, *rest = [word.replace("OUT", str(tmp_path / "out")) for word in words]

    with pytest.raises(SystemExit) as stopped:
        main([command, str(path), *rest])

    assert stopped.value.code == 1
    assert said in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["async.json"]


def test_samples_beside_async_operations_are_a_flame_graph_and_folded_stacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, drawn, folded = (tmp_path / name for name in ("t.json", "t.txt", "t.folded"))
    path.write_text(
        json.dumps(
            {
                "traceEvents": ASYNC,
                "stackFrames": {"1": {"name": "work"}},
                "samples": [{"tid": 2, "ts": 4, "name": "cycles", "sf": 1, "weight": 3}],
            }
        )
    )

    run(capsys, "flame", str(path), "-o", str(drawn))
    with pytest.raises(SystemExit):
        main(["convert", str(path), str(folded)])

    assert (drawn.read_text(), folded.read_text()) == ("work 3\n", "work 3\n")
    assert "not in the result: 1 async spans" in capsys.readouterr().err


def test_numbers_beyond_floats_leave_every_line_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "large.json"
    path.write_text(
        '[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1,"args":{"v":1e400,"n":-1e999,"x":2.5}},'
        '{"ph":"C","name":"c","ts":1,"pid":1,"args":{"a":1e400,"b":NaN,"c":"inf","d":1%s,"e":7}}]'
        % ("0" * 400)
    )

    def strictly(kind: str) -> list[dict[str, Any]]:
        lines = run(capsys, "dump", str(path), "--kind", kind).splitlines()
        return [json.loads(line, parse_constant=pytest.fail) for line in lines]

    assert [line["args"] for line in strictly("spans")] == [{"v": "1e400", "n": "-1e999", "x": 2.5}]
    assert [(line["series"], line["value"]) for line in strictly("counters")] == [("e", 7)]
    assert json.loads(run(capsys, "info", str(path), "--json"))["anomalies"] == {"bad_counter": 4}


def test_samples_in_chrome_json_come_with_what_shows_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folded := tmp_path / "x.folded").write_text("a;b 3\n")

    for suffix, is_said in ((".trace.json", True), (".speedscope.json", False)):
        with pytest.raises(SystemExit):
            main(["convert", str(folded), str(tmp_path / f"out{suffix}")])
        assert ("shown by chrome://tracing only" in capsys.readouterr().err) is is_said


def test_a_filter_that_nothing_passes_says_what_else_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "threads.mth"
    with HistoryBuilder(path) as builder:
        collects, works = (builder.quark("Processes", "1", "Threads", name) for name in "ab")
        builder.add_spans([collects], ["GC"], [0], [5])
        builder.add_samples([works], [["main"]], [3])
    with pytest.raises(SystemExit, match="1"):
        main(["stats", str(path), "--samples", "--filter", "a"])
    said = capsys.readouterr().err
    assert said == "meantime: --filter 'a': none of the samples passes it; --spans counts 1 span\n"


def test_a_filter_that_is_quiet_in_a_range_is_an_empty_answer(
    capsys: pytest.CaptureFixture[str], unfinished: str, tmp_path: Path
) -> None:
    events = json.loads(Path(unfinished).read_text())
    path = tmp_path / "two.json"
    path.write_text(json.dumps([*events, {**events[-1], "tid": 2, "ts": 200}]))
    for words in (("stats",), ("flame", "-o", "x.folded"), ("statemap", "-o", "x.svg")):
        out = [str(tmp_path / each) if each.startswith("x.") else each for each in words[1:]]
        with pytest.raises(SystemExit) as stopped:
            main([words[0], str(path), "--filter", "1$", "--from", "150us", *out])
        assert stopped.value.code == 0, words
        assert "there is nothing from 150us on" in capsys.readouterr().err, words
        with pytest.raises(SystemExit) as stopped:
            main([words[0], str(path), "--filter", "nobody$", "--from", "150us", *out])
        assert stopped.value.code == 1, words
        capsys.readouterr()


def test_the_longest_of_a_range_have_their_whole_length(
    capsys: pytest.CaptureFixture[str], unfinished: str
) -> None:
    words = ("stats", unfinished, "--longest", "work", "--from", "20us", "--to", "80us")
    rows = json.loads(run(capsys, *words, "--json"))["rows"]
    text = run(capsys, *words)

    assert [
        (row["start_ns"], row["end_ns"], row["in_range_ns"], row["self_ns"]) for row in rows
    ] == [(0, 50_000, 30_000, 50_000), (60_000, 100_000, 20_000, 10_000)]
    assert "in range" in text
    assert "in range" not in run(capsys, *words[:4])
