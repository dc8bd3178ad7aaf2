"""What is written and read again is equal, as far as the format can hold it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.cli import main
from meantime.history.ingest import build
from meantime.opening.history_from_path import open_history
from meantime.query.stacks import sample_tree, span_tree
from meantime.query.threads import thread_of
from meantime.readers import open_trace
from meantime.testing import history_from_samples, history_from_spans
from meantime.views.export import TARGETS, export

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


def again(history: History, target: str, folder: Path) -> tuple[History, dict[str, int]]:
    lost: Counter[str] = Counter()
    path = folder / f"again{TARGETS[target].suffix}"
    path.write_bytes(b"".join(export(history, target, lost)))
    return build(open_trace(path)), {what: count for what, count in lost.items() if count}


def arguments(text: str | None) -> object:
    if text is None:
        return None
    try:
        return json.loads(text, strict=False)
    except ValueError:
        return text


def spans_of(history: History, *, everything: bool = True) -> list[tuple[Any, ...]]:
    spans = history.spans()
    path = history.attributes.path
    threads = spans.thread.tolist()
    return [
        (
            path(threads[row]),
            spans.name[row],
            int(spans.start_ns[row]),
            int(spans.end_ns[row]),
            int(spans.depth[row]),
            bool(spans.unfinished[row]),
            arguments(spans.arguments(row)),
            spans.category[row] if everything else None,
        )
        for row in range(len(spans))
        if everything or thread_of(history, threads[row]).tid is not None
    ]


def rest_of(history: History) -> list[list[Any]]:
    points, flows, samples = history.points(), history.flows(), history.samples()
    path = history.attributes.path
    return [
        sorted(
            (int(points.time_ns[row]), path(int(points.quark[row])), points.name[row] or "", told)
            for row in range(len(points))
            for told in [json.dumps(arguments(points.arguments(row)))]
        ),
        sorted(
            (int(flows.from_ns[row]), int(flows.to_ns[row]), path(int(flows.to_quark[row])))
            for row in range(len(flows))
        ),
        [
            (
                int(samples.time_ns[row]),
                path(int(samples.thread[row])),
                int(samples.weight[row]),
                samples.stacks.frames_of(int(samples.stack[row])),
            )
            for row in range(len(samples))
        ],
        sorted((path(quark), name) for quark, name in history.names.items()),
        [
            (path(quark), start, value)
            for quark in history.quarks("Processes/*/Counters/*/*").tolist()
            for batch in history.interval_batches([quark])
            for _, start, _, value, _, _ in batch
            if value is not None
        ],
    ]


RECORDED = [
    "async_begin_end.json",
    "benchmark_result_493459_1694039959_trace.json.gz",
    "big_trace.json.gz",
    "bing-truncated.json.gz",
    "chromium-devtools.json.gz",
    "flow.json.gz",
    "instance_counters.json",
    "logging_integration.json.gz",
    "main_thread_has_unclosed_slices.json.gz",
    "multi-thread-with-samples.json",
    "nestable_async.json",
    "simple_trace.json",
    "simultaneous-anonymous-calls.json",
    "../../../examples/training.json.gz",
    "x_event_trace.json.gz",
    "zero-duration-events.json",
]


@pytest.mark.parametrize("name", RECORDED)
def test_chrome_json_has_all_of_a_recorded_trace(samples: Path, tmp_path: Path, name: str) -> None:
    history = build(open_trace(samples / "chrome" / name))

    copy, lost = again(history, "chrome", tmp_path)

    assert spans_of(copy) == spans_of(history)
    assert rest_of(copy) == rest_of(history)
    assert lost == {}


@pytest.mark.parametrize("target", ["spall", "spall1"])
@pytest.mark.parametrize(
    "name",
    ["big_trace.json.gz", "simultaneous-anonymous-calls.json",
     "main_thread_has_unclosed_slices.json.gz"],
)  # fmt: skip
def test_spall_has_the_spans_of_threads(
    samples: Path, tmp_path: Path, name: str, target: str
) -> None:
    history = build(open_trace(samples / "chrome" / name))

    copy, lost = again(history, target, tmp_path)

    kept = spans_of(copy, everything=False)
    cut = "arguments over 255 bytes, which were cut" in lost
    original = spans_of(history, everything=False)
    if cut:
        kept, original = ([(*row[:6], None) for row in rows] for rows in (kept, original))
    assert [row[:7] for row in kept] == [row[:7] for row in original]


def test_a_recorded_spall_trace_goes_through_every_format(samples: Path, tmp_path: Path) -> None:
    history = build(open_trace(samples / "spall" / "threads-v3-begin.spall.gz"))

    for target in ("spall", "spall1", "chrome"):
        copy, lost = again(history, target, tmp_path)
        assert spans_of(copy) == spans_of(history)
        assert lost == {}
    copy, lost = again(history, "speedscope", tmp_path)
    assert [row[1:5] for row in spans_of(copy)] == [row[1:5] for row in spans_of(history)]
    assert set(lost) == {"arguments", "unfinished spans, which became finished"}


SPANS = st.lists(
    st.tuples(st.sampled_from(["a", "b;\n", 'é"\\']), st.integers(-5, 30), st.integers(0, 9)).map(
        lambda span: (span[0], span[1], span[1] + span[2])
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=20, deadline=None)
@given(threads=st.dictionaries(st.sampled_from(["1", "2", "x y"]), SPANS, min_size=1))
def test_any_spans_are_equal_after_chrome_json(
    tmp_path_factory: pytest.TempPathFactory,
    threads: dict[str, list[tuple[str, int, int]]],
) -> None:
    history = history_from_spans(threads)

    copy, _ = again(history, "chrome", tmp_path_factory.mktemp("convert"))

    assert spans_of(copy) == spans_of(history)


@settings(max_examples=20, deadline=None)
@given(threads=st.dictionaries(st.sampled_from(["1", "2"]), SPANS, min_size=1))
def test_no_span_is_lost_in_spall_and_speedscope(
    tmp_path_factory: pytest.TempPathFactory,
    threads: dict[str, list[tuple[str, int, int]]],
) -> None:
    history = history_from_spans(threads)
    folder = tmp_path_factory.mktemp("convert")
    expected = Counter(row[1:4] for row in spans_of(history))

    for target in ("spall1", "speedscope"):
        copy, _ = again(history, target, folder)
        assert Counter(row[1:4] for row in spans_of(copy)) == expected
    copy, lost = again(history, "spall", folder)
    early = sum(count for row, count in expected.items() if row[1] < 0)
    assert lost.get("spans that begin before time 0", 0) == early
    assert sum(1 for _ in spans_of(copy)) == expected.total() - early


def test_what_overlaps_keeps_its_times_in_formats_that_nest(tmp_path: Path) -> None:
    history = history_from_spans(
        {"1": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45), ("c", 40, 60)]}
    )
    expected = sorted(row[1:4] for row in spans_of(history))

    for target in ("spall", "spall1", "speedscope"):
        copy, lost = again(history, target, tmp_path)
        assert sorted(row[1:4] for row in spans_of(copy)) == expected
        assert sum(count for what, count in lost.items() if "lanes" in what) == 1
        assert not copy.anomalies
    copy, lost = again(history, "chrome", tmp_path)
    assert spans_of(copy) == spans_of(history)
    assert lost == {}


def test_more_lanes_than_are_written_together_keep_their_spans(tmp_path: Path) -> None:
    # every a crosses all others, and has a span in it
    spans = [(f"a{row}", 2 * row, 20_000 + 2 * row) for row in range(5000)]
    spans += [("b", 2 * row + 1, 2 * row + 2) for row in range(5000)]
    history = history_from_spans({"1": spans, "2": [("c", 5, 9), ("d", 6, 12)]})
    expected = sorted(row[1:4] for row in spans_of(history))

    for target in ("spall", "spall1"):
        copy, lost = again(history, target, tmp_path)
        assert sorted(row[1:4] for row in spans_of(copy)) == expected
        assert lost == {"lanes of overlapping spans, which became threads": 5000}
        assert len(copy.spans().threads) == 5002


@pytest.mark.parametrize("target", ["spall", "spall1"])
def test_spall_keeps_the_ends_of_unfinished_spans(tmp_path: Path, target: str) -> None:
    events = [
        {"ph": "B", "name": "a", "ts": 1, "pid": 1, "tid": 1},
        {"ph": "B", "name": "b", "ts": 2, "pid": 1, "tid": 1},
        {"ph": "i", "name": "i", "ts": 100, "pid": 1, "tid": 1},
        {"ph": "B", "name": "c", "ts": 3, "pid": 1, "tid": 2},
        {"ph": "X", "name": "d", "ts": 4, "dur": 5, "pid": 1, "tid": 2},
        {"ph": "X", "name": "e", "ts": 6, "dur": 9, "pid": 1, "tid": 2},
    ]
    (tmp_path / "unfinished.json").write_text(json.dumps(events))
    history = build(open_trace(tmp_path / "unfinished.json"))

    copy, lost = again(history, target, tmp_path)

    assert sorted(row[1:4] for row in spans_of(copy)) == [
        ("a", 1000, 100_000),
        ("b", 2000, 100_000),
        ("c", 3000, 15_000),
        ("d", 4000, 9000),
        ("e", 6000, 15_000),
    ]
    # the end of b is written, and a ends with it; that of c is on another thread than e there
    assert [row[1] for row in spans_of(copy) if row[5]] == ["a"]
    assert lost == {
        "points": 1,
        "unfinished spans, which became finished": 2,
        "lanes of overlapping spans, which became threads": 1,
    }


MIXED = """[
{"ph":"B","name":"layer 63","ts":0,"pid":1,"tid":1},
{"ph":"B","name":"paint 63","ts":10,"pid":1,"tid":1},
{"ph":"E","ts":10,"pid":1,"tid":1},
{"ph":"E","ts":10,"pid":1,"tid":1},
{"ph":"B","name":"layer 62","ts":10,"pid":1,"tid":1},
{"ph":"X","name":"empty","ts":20,"dur":0,"pid":1,"tid":1},
{"ph":"X","name":"complete","ts":12,"dur":4,"pid":1,"tid":1},
{"ph":"B","name":"paint 62","ts":20,"pid":1,"tid":1},
{"ph":"E","ts":20,"pid":1,"tid":1},
{"ph":"E","ts":30,"pid":1,"tid":1}
]"""


def test_begins_and_ends_decide_what_empty_spans_are_in_beside_complete_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "mixed.json").write_text(MIXED)
    history = build(open_trace(tmp_path / "mixed.json"))

    spans = history.spans()
    copy, lost = again(history, "chrome", tmp_path)

    above = [None if row < 0 else spans.name[row] for row in spans.parent.tolist()]
    assert dict(zip(spans.name.to_list(), above, strict=True)) == {
        "layer 63": None,
        "paint 63": "layer 63",
        "layer 62": None,
        "complete": "layer 62",
        "paint 62": "layer 62",
        "empty": "layer 62",
    }
    assert spans_of(copy) == spans_of(history)
    assert lost == {}


def test_folded_stacks_keep_what_every_stack_weighs(tmp_path: Path) -> None:
    for history, tree in (
        (h := history_from_spans({"t": [("a", 0, 9), ("b c", 2, 4)]}), span_tree(h.spans())),
        (h := history_from_samples([(0, "t", ["a", "b"], 3)]), sample_tree(h.samples())),
    ):
        copy, _ = again(history, "folded", tmp_path)
        found = sample_tree(copy.samples())
        assert {
            tuple(found.stacks.frames_of(row)): int(found.total[row]) for row in range(len(found))
        } == {tuple(tree.stacks.frames_of(row)): int(tree.total[row]) for row in range(len(tree))}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return stopped.value.code, capsys.readouterr().err


def test_the_command_chooses_by_suffix_and_reports_losses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source, out = tmp_path / "x.json", tmp_path / "x.folded"
    source.write_text('[{"ph":"X","name":"a;b","ts":0,"dur":2,"pid":1,"tid":1}]')

    status, said = run(capsys, "convert", str(source), str(out))

    assert status == 0
    assert out.read_text() == "a:b 2000\n"
    assert said.splitlines() == [
        "not in the result: 1 times of spans",
        "not in the result: 1 names with ; or line breaks, which were replaced",
    ]


def test_a_history_on_disk_has_the_whole_trace(
    capsys: pytest.CaptureFixture[str], samples: Path, tmp_path: Path
) -> None:
    for name in ("nestable_async.json", "multi-thread-with-samples.json", "triton_example.json.gz"):
        source, kept = samples / "chrome" / name, tmp_path / f"{name}.mth"
        status, said = run(capsys, "convert", str(source), str(kept))
        assert (status, said) == (0, "")
        history, again_ = build(open_trace(source)), open_history(kept)
        assert spans_of(again_) == spans_of(history)
        assert rest_of(again_) == rest_of(history)

    status, said = run(capsys, "convert", str(source), str(kept))
    assert (status, "already exists" in said) == (1, True)


def test_a_history_that_fails_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "x.json"
    source.write_text('[{"ph":"X"},{bad}]')

    status, _ = run(capsys, "convert", str(source), str(tmp_path / "x.mth"))

    assert status == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["x.json", "out.json"], 2, "cannot infer the format"),
        (["x.json", "out.bin", "--to-format", "png"], 2, "unknown format 'png'"),
        (["empty.json", "out.spall"], 1, "there are no spans of threads and no states"),
        (["empty.json", "out.statemap"], 1, "there are no states and no spans"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    status: int,
    message: str,
) -> None:
    (tmp_path / "empty.json").write_text("[]")
    places = [str(tmp_path / word) for word in words[:2]]

    found, said = run(capsys, "convert", *places, *words[2:])

    assert found == status
    assert message in said
    assert not (tmp_path / words[1]).exists()


def states_of(history: History) -> list[Any]:
    path, tags = history.attributes.path, history.tags
    points, flows = history.points(), history.flows()
    states = [
        (path(quark), start_ns, end_ns, value, None if tag is None else tags[tag])
        for quark, start_ns, end_ns, value, tag, _ in history.intervals(list(history.attributes))
        if value is not None
    ]
    return [
        states,
        [
            (int(points.time_ns[row]), path(int(points.quark[row])), points.name[row])
            for row in range(len(points))
        ],
        [
            (int(flows.from_ns[row]), path(int(flows.from_quark[row])),
             path(int(flows.to_quark[row])), flows.name[row])
            for row in range(len(flows))
        ],
        {path(quark): text for quark, text in history.descriptions.items()},
        (history.title, history.clock, history.bounds, history.start_ns, history.end_ns),
        [lane.declaration for lane in history.lanes],
    ]  # fmt: skip


STATES = """
{"start":[3,5],"title":"t","host":"h","entityKind":"Disk",
 "states":{"a":{"value":0},"b":{"value":1,"color":"red"}}}
{"time":"5","entity":"x/y","state":1,"value":3}
{"time":"5","entity":"z","state":1,"value":2.5,"tag":"t"}
{"state":1,"tag":"t","text":"said","n":[1,null]}
{"time":"7","entity":"x/y","state":1,"value":4}
{"time":"9","entity":"x/y","state":0}
{"time":"9","entity":"z","state":0,"tag":"t"}
{"time":"12","entity":"z","state":0,"tag":"t","value":1.5}
{"time":"19","entity":"z","event":"e","target":"x/y"}
{"time":"11","entity":"z","event":"f"}
{"entity":"w","description":"nobody"}
"""


@pytest.mark.parametrize("name", ["", "tst.io.in", "tst.tag_basic.in", "tst.tag_redefined.in"])
def test_statemap_data_are_equal_after_being_written(
    samples: Path, tmp_path: Path, name: str
) -> None:
    source = samples / "statemap" / name
    if not name:
        source = tmp_path / "x.statemap"
        source.write_text(STATES)
    history = build(open_trace(source))

    copy, lost = again(history, "statemap", tmp_path)

    assert states_of(copy) == states_of(history)
    assert lost == {}


def test_states_become_spans_where_there_are_no_states(tmp_path: Path) -> None:
    (tmp_path / "x.statemap").write_text(STATES)
    history = build(open_trace(tmp_path / "x.statemap"))

    for target in ("chrome", "spall", "spall1", "speedscope"):
        copy, lost = again(history, target, tmp_path)
        assert Counter(row[1:4] for row in spans_of(copy)) == {
            ("b", 5, 9): 2, ("a", 9, 12): 2,
        }  # fmt: skip
        assert lost["states, which became spans"] == 4
    copy, _ = again(history, "chrome", tmp_path)
    assert [(row[0][3], row[6]) for row in spans_of(copy) if row[1] == "b"] == [
        ("x/y", None),
        ("z", {"state": 1, "tag": "t", "text": "said", "n": [1, None]}),
    ]


def test_the_depths_of_threads_become_entities(tmp_path: Path) -> None:
    history = history_from_spans(
        {"1": [("a", 5, 9), ("b", 6, 7), ("c", 7, 7)], "2": [("a", 8, 10)]}
    )

    copy, lost = again(history, "statemap", tmp_path)

    stack = "Processes/1/Threads/1/Stack"
    assert [row[:4] for row in states_of(copy)[0]] == [
        ((f"{stack}/0",), 0, 4, "a"),
        ((f"{stack}/0",), 4, 5, "none"),
        ((f"{stack}/1",), 1, 2, "b"),
        ((f"{stack}/1",), 2, 5, "none"),
        (("Processes/1/Threads/2/Stack/0",), 3, 5, "a"),
    ]
    assert copy.bounds == (0, 5)
    assert lost == {
        "spans without a length": 1,
        "times without a state, which became the state 'none'": 2,
        "date, as the trace does not say when it began: it became 1970": 1,
        "ns before the first event: times begin there": 5,
    }


def test_begun_spans_stay_in_order_among_complete_ones(tmp_path: Path) -> None:
    events = [
        {"ph": phase, "name": name, "ts": ts, "dur": 0, "pid": 1, "tid": 1}
        for phase, name, ts in (
            ("B", "a", 0), ("B", "b", 5), ("B", "c", 5), ("E", "c", 5), ("E", "b", 5),
            ("X", "x", 7), ("E", "a", 9),
        )
    ]  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps(events))
    history = build(open_trace(tmp_path / "x.json"))

    copy, lost = again(history, "chrome", tmp_path)

    assert [row[1:5] for row in spans_of(copy)] == [
        ("a", 0, 9000, 0), ("b", 5000, 5000, 1), ("c", 5000, 5000, 2), ("x", 7000, 7000, 1),
    ]  # fmt: skip
    assert spans_of(copy) == spans_of(history)
    assert lost == {}


def test_the_assumed_end_of_an_unfinished_span_is_reported(tmp_path: Path) -> None:
    marks = (("E", "a", 12), ("B", "b", 10), ("E", "b", 2), ("B", "a", 8), ("B", "b", 3))
    events = [{"ph": phase, "name": name, "ts": ts} for phase, name, ts in marks]
    (tmp_path / "x.json").write_text(json.dumps(events))

    _, lost = again(build(open_trace(tmp_path / "x.json")), "chrome", tmp_path)

    assert lost == {"ends of unfinished spans": 2}
