from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.history.samples import ALL_EVENTS
from meantime.query.stacks import sample_tree
from meantime.readers import open_trace, recognise
from meantime.readers.source import open_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history.history import History

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., History]:
    def read_text(text: str, *, lenient: bool = False) -> History:
        path = tmp_path / "profile"
        path.write_text(text)
        return build(open_trace(path, lenient=lenient))

    return read_text


def speedscope(*profiles: dict[str, object]) -> str:
    frames = [{"name": "main"}, {"name": "work"}]
    return json.dumps({"$schema": SCHEMA, "shared": {"frames": frames}, "profiles": profiles})


def evented(*events: tuple[str, int, object], unit: str = "microseconds") -> dict[str, object]:
    listed = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {
        "type": "evented", "name": "t", "unit": unit, "startValue": 0, "endValue": 9,
        "events": listed,
    }  # fmt: skip


def test_an_evented_profile_is_spans(read: Callable[..., History]) -> None:
    history = read(speedscope(evented(("O", 0, 0), ("O", 1, 1.5), ("C", 1, 2.001), ("C", 0, 9))))

    spans = history.spans()
    assert spans.name.to_list() == ["main", "work"]
    assert (spans.start_ns.tolist(), spans.end_ns.tolist()) == ([0, 1500], [9000, 2001])
    assert list(history.names.values()) == ["t"]


def test_a_sampled_profile_is_samples_one_after_the_other(read: Callable[..., History]) -> None:
    history = read(
        speedscope(
            {
                "type": "sampled",
                "name": "t",
                "unit": "milliseconds",
                "startValue": 5,
                "endValue": 9,
                "samples": [[0], [0, 1], []],
                "weights": [1, 2.5, 0.5],
            }
        )
    )

    samples = history.samples()
    assert samples.time_ns.tolist() == [5_000_000, 6_000_000, 8_500_000]
    assert samples.weight.tolist() == [1_000_000, 2_500_000, 500_000]
    # what has no stack is a row of its own
    assert sample_tree(samples).total.tolist() == [3_500_000, 2_500_000, 500_000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            speedscope(evented(("O", 7, 0))),
            r"profiles\[0\] is malformed, or neither evented nor sampled",
        ),
        (speedscope(evented(("O", 0, "x"))), r"profiles\[0\]"),
        (speedscope({"type": "else"}), r"profiles\[0\]"),
        (json.dumps({"$schema": SCHEMA}), "shared.frames or profiles are missing"),
        (f'{{"$schema":"{SCHEMA}",', "profile:1: Expecting property name"),
        ('{"nodes":[{"callFrame":{}}]}', "head or nodes, samples or their times are missing"),
        (
            '{"nodes":[{"id":1,"callFrame":{}}],"samples":[1]}',
            "there are 1 samples but 0 times",
        ),
        ("main;a 5\n", None),
        ("main;a 5\nmain;b five\n", "unknown format"),
    ],
)
def test_a_file_that_is_not_a_profile_is_rejected(
    read: Callable[..., History], text: str, message: str | None
) -> None:
    if message is None:
        read(text)
        return
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("name", "text", "oddities"),
    [
        ("x.folded", "a;b 1.5\nc 2.0\n", {"weight_rounded": 1}),
        ("x.folded", "a;b -1\nc 2\n", {"bad_record": 1}),
        ("x.folded", f"{';'.join(['f'] * 50_000)} 5\n", {}),
    ],
)
def test_odd_lines_of_folded_stacks_are_counted(
    tmp_path: Path, name: str, text: str, oddities: dict[str, int]
) -> None:
    (tmp_path / name).write_text(text)

    history = build(open_trace(tmp_path / name, lenient=True))

    assert len(history.samples()) >= 1
    assert dict(history.anomalies) == oddities


def test_of_a_profile_that_breaks_off_nothing_is_kept(tmp_path: Path) -> None:
    profile = {"type": "sampled", "unit": "seconds", "samples": [[0], [0]], "weights": [1]}
    whole = {**profile, "weights": [1, 2]}
    frames = {"frames": [{"name": "f"}]}
    (tmp_path / "x.json").write_text(json.dumps({"shared": frames, "profiles": [profile, whole]}))

    history = build(open_trace(tmp_path / "x.json", lenient=True))

    assert len(history.samples()) == 2
    assert dict(history.anomalies) == {"bad_profile": 1}


def test_lenient_reading_leaves_bad_profiles_out(read: Callable[..., History]) -> None:
    history = read(speedscope({"type": "else"}, evented(("O", 0, 0), ("C", 0, 1))), lenient=True)

    assert len(history.spans()) == 1
    assert dict(history.anomalies) == {"bad_profile": 1}


def test_a_v8_profile_is_samples(read: Callable[..., History]) -> None:
    nodes = [
        {"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2]},
        {"id": 2, "callFrame": {"functionName": "f"}, "children": [3]},
        {"id": 3, "callFrame": {"functionName": ""}},
    ]

    history = read(
        json.dumps(
            {
                "nodes": nodes,
                "startTime": 10,
                "endTime": 20,
                "samples": [3, 2, 1],
                "timeDeltas": [1, 2, 3],
            }
        )
    )

    samples = history.samples()
    assert samples.time_ns.tolist() == [11_000, 13_000, 16_000]
    assert samples.weight.tolist() == [2000, 3000, 0]
    assert samples.stacks.frames_of(int(samples.stack[0])) == ["f", "(anonymous)"]


OLD_HEAD = {
    "functionName": "(root)", "id": 1, "hitCount": 0,
    "children": [
        {"functionName": "a", "id": 2, "hitCount": 3, "children": [
            {"functionName": "b", "id": 3, "hitCount": 2, "children": []}
        ]},
        {"functionName": "c", "id": 4, "hitCount": 0},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ["x.json", "x.cpuprofile"])
def test_a_v8_profile_may_have_its_nodes_in_each_other(tmp_path: Path, name: str) -> None:
    profile = {"typeId": "CPU", "head": OLD_HEAD, "startTime": 10.0, "samples": [2, 3, 4]}
    times = {"timestamps": [10_000_000, 10_001_000, 10_003_000]}
    (tmp_path / name).write_text(json.dumps(profile | times))

    samples = meantime.open(tmp_path / name).samples()

    assert samples.time_ns.tolist() == [10_000_000_000, 10_001_000_000, 10_003_000_000]
    assert samples.weight.tolist() == [1_000_000, 2_000_000, 0]
    stacks = [samples.stacks.frames_of(row) for row in samples.stack.tolist()]
    assert stacks == [["a"], ["a", "b"], ["c"]]


@pytest.mark.parametrize(
    "profile",
    [
        {"head": OLD_HEAD},
        {
            "nodes": [
                {"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2]},
                {"id": 2, "callFrame": {"functionName": "a"}, "hitCount": 3, "children": [3]},
                {"id": 3, "callFrame": {"functionName": "b"}, "hitCount": 2},
            ]
        },
    ],
)
def test_a_v8_profile_without_times_has_the_samples_of_each_node(
    read: Callable[..., History], profile: dict[str, object]
) -> None:
    samples = read(json.dumps(profile)).samples()

    found = zip(samples.stack.tolist(), samples.weight.tolist(), strict=True)
    assert [(samples.stacks.frames_of(row), weight) for row, weight in found] == [
        (["a"], 3), (["a", "b"], 2),
    ]  # fmt: skip


AUSTIN = """\
# austin: 3.4.1
# interval: 100
# mode: {mode}

P7;T7;w.py:main:12;w.py:leaf:3 {first}
P7;T0:8;w.py:wait:8 {second}
P7;T7 {third}
P9;T1:MainThread;w.py:main:2 {first}
# duration: 5000
"""


@pytest.mark.parametrize(
    ("mode", "weights", "found"),
    [
        ("wall", ("1200", "400", "3"), {"wall": [1_200_000, 400_000, 1_200_000, 3000]}),
        ("cpu", ("1200", "400", "3"), {"on-cpu": [1_200_000, 400_000, 1_200_000, 3000]}),
        ("memory", ("1200", "-400", "3"), {"memory": [1200, -400, 1200, 3]}),
        (
            "full",
            ("5,0,12", "4,1,-3", "3,1,0"),
            {
                "wall": [5000, 4000, 5000, 3000],
                "on-cpu": [5000, 5000],
                "memory": [12, -3, 12],
            },
        ),
    ],
)
def test_stacks_of_austin_have_threads_and_what_their_mode_counts(
    tmp_path: Path, mode: str, weights: tuple[str, ...], found: dict[str, list[int]]
) -> None:
    text = AUSTIN.format(mode=mode, first=weights[0], second=weights[1], third=weights[2])
    (tmp_path / "x.txt").write_text(text)

    history = meantime.open(tmp_path / "x.txt")

    for event, expected in found.items():
        assert history.samples(event=event).weight.tolist() == expected
    found_in = history.samples(event=ALL_EVENTS).thread.tolist()
    assert {"/".join(history.attributes.path(thread)) for thread in found_in} == {
        "Processes/7/Threads/7", "Processes/7/Threads/8", "Processes/9/Threads/1:MainThread",
    }  # fmt: skip
    assert history.metadata.facts["interval"] == "100"
    assert history.metadata.facts["duration"] == "5000"
    assert not history.anomalies


def test_a_thread_of_austin_has_a_time_axis_of_its_own(tmp_path: Path) -> None:
    text = AUSTIN.format(mode="wall", first=5, second=4, third=3)
    (tmp_path / "x.txt").write_text(text)

    history = meantime.open(tmp_path / "x.txt")

    assert history.samples().time_ns.tolist() == [0, 0, 0, 5000]
    assert (history.start_ns, history.end_ns) == (0, 8000)


def test_a_function_may_begin_with_the_sign_of_a_fact(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("# made by hand\n# of: 3\n#private;f 3\n#private 4\n")

    history = meantime.open(tmp_path / "x")

    assert history.samples().weight.tolist() == [3, 4]
    assert history.metadata.facts["of"] == "3"


def test_folded_stacks_with_a_bad_line_are_recognised_and_can_be_read_without_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_text("main;a 5\nmain;b five\nmain;c 2\nmain;d 1\n")

    with pytest.raises(InputError, match=r"x:2: expected functions .*; --lenient leaves such"):
        meantime.open(tmp_path / "x")

    history = meantime.open(tmp_path / "x", lenient=True)
    assert history.samples().weight.tolist() == [5, 2, 1]
    assert dict(history.anomalies) == {"bad_record": 1}


def test_folded_stacks_are_samples(read: Callable[..., History]) -> None:
    history = read("main;read file 3\nmain 2\n\nmain;write;flush 1\n")

    tree = sample_tree(history.samples())

    own = {";".join(tree.stacks.frames_of(row)): int(tree.own[row]) for row in range(len(tree))}
    assert own == {
        "main": 2, "main;read file": 3, "main;write": 0, "main;write;flush": 1,
    }  # fmt: skip
    assert history.samples().time_ns.tolist() == [0, 3, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"shared": {"frames": []}, "profiles": [], "x": 1e9999999999999999999}',
            "a number cannot be read: its exponent is too large",
        ),
        (
            speedscope(evented(("O", 0, 0))).replace('"at": 0', '"at": 1e999999'),
            "a number cannot be read: its exponent is too large",
        ),
    ],
)
def test_exponents_beyond_all_measure_are_refused(
    read: Callable[..., History], text: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(text)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[unknown];a 3\nmain;b 4\n",
        "[root] 4000\n[root];f 3\n",
        "{main};a 3\n",
        "{closure:/x.php:3-9} 1\n{main};a 3\n",
        "[12];a 3\n",
        "[[vdso]];a 3\n",
    ],
)
@pytest.mark.parametrize("name", ["x", "x.folded"])
def test_folded_stacks_may_begin_with_a_bracket(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)

    trace = open_trace(path)

    assert trace.format == "folded"
    samples = build(trace).samples()
    stacks = [";".join(samples.stacks.frames_of(int(stack))) for stack in samples.stack]
    weights = samples.weight.tolist()
    found = [f"{stack} {weight}" for stack, weight in zip(stacks, weights, strict=True)]
    assert found == text.splitlines()


@pytest.mark.parametrize(
    ("text", "reader"),
    [
        ('[{"name": "a", "ph": "X", "pid": 1, "tid": 1, "dur": 3, "ts": 12', "chrome"),
        ('{"traceEvents": [{"name": "a;b", "ph": "X", "ts": 12', "chrome"),
        ('[\n{"name": "a", "ph": "X", "pid": 1, "tid": 1, "dur": 3, "ts": 12', "chrome"),
        ('{\n"traceEvents": [\n{"name": "a;b", "ph": "X", "ts": 12', "chrome"),
        ('{"name": "a;b", "time_ns": 1, "x": 12}\n', "jsonl"),
    ],
)
def test_json_that_ends_in_a_number_is_not_folded(tmp_path: Path, text: str, reader: str) -> None:
    for name in ("x", "x.json"):
        path = tmp_path / name
        path.write_text(text)
        with open_source(path) as source:
            assert reader == recognise(source).reader.FORMAT


def test_folded_stacks_of_many_blocks_are_numbered_by_line(tmp_path: Path) -> None:
    path = tmp_path / "x.folded"
    line = "main;" + "f" * 1000 + " 1"
    path.write_text("\n\n".join([line] * 5000) + "\nno weight\n")

    with pytest.raises(InputError) as caught:
        build(open_trace(path))

    assert caught.value.line == 10_000


def test_folded_stacks_in_a_file_that_is_cut_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.folded.gz"
    path.write_bytes(gzip.compress(b"main;a 1\nmain;b 2\n")[:-4])

    assert dict(build(open_trace(path)).anomalies)["truncated"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes": [], "samples": [1], "timeDeltas": [1E+999999999], "callFrame": 0}',
        '{"nodes": [], "samples": [1e4300], "timeDeltas": [1], "callFrame": 0}',
        '{"nodes": [], "startTime": -1e4300, "callFrame": 0}',
        f'{{"nodes": [], "startTime": {"1" * 4301}.5, "callFrame": 0}}',
        speedscope(evented(("O", 0, 0))).replace('"frame": 0', '"frame": 1E+999999999'),
    ],
)
def test_a_number_with_too_many_digits_is_rejected_at_once(
    text: str, read: Callable[..., History]
) -> None:
    with pytest.raises(
        InputError, match=r"profile: a number cannot be read: its exponent is too large$"
    ):
        read(text)


def test_a_number_near_nothing_is_read(read: Callable[..., History]) -> None:
    history = read('{"nodes": [{"id": 1, "callFrame": {}}], "samples": [1, 1],'
                   ' "timeDeltas": [1E-999999999, 2]}')  # fmt: skip

    assert history.samples().time_ns.tolist() == [0, 2000]
