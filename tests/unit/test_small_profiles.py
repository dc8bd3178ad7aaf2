"""Readers of profilers of which there is little to say: sums and counts against other programs."""

from __future__ import annotations

import json
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

CASES = {
    "stackprof-wall.json.gz": "wall",
    "stackprof-object.json": "object",
    "node-10.heapprofile.gz": "space",
    "instruments-16.txt.gz": "wall",
    "callgrind.out": "Instructions",
    "simpleperf.trace.xz": "task-clock",
}


def read(samples: Path, name: str) -> tuple[History, dict[str, Any]]:
    facts = json.loads((samples / "profiles" / "facts.json").read_text())
    return meantime.open(samples / "profiles" / name), facts[name]


@pytest.mark.parametrize("name", CASES)
def test_time_of_functions_themselves_agrees_with_independent_sums(
    samples: Path, name: str
) -> None:
    history, facts = read(samples, name)
    found = history.samples(event=CASES[name])

    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, weight in zip(found.stack.tolist(), found.weight.tolist(), strict=True):
        frames = found.stacks.frames_of(stack)
        own[frames[-1]] += weight
        total.update(dict.fromkeys(frames, weight))

    assert {function: own[function] for function in facts["self"]} == facts["self"]
    totals = facts.get("total", {})
    assert {function: total[function] for function in totals} == totals
    assert len(found) == facts.get("samples", len(found)) or name.startswith("simpleperf")
    if "sum" in facts:
        assert sum(own.values()) == facts["sum"]
    assert not history.anomalies


@pytest.mark.parametrize(
    ("text", "event", "own"),
    [
        (
            (
                "Bytes Used\tCount\t\tSymbol Name\n 10.00 KB 100.0%\t9\t \tstart\n"
                " 10.00 KB 100.0%\t9\t \t main\n  7.50 KB  75.0%\t5\t \t  f\n"
                "  1.50 KB  15.0%\t1\t \t   g\n  1.00 KB  10.0%\t4\t \t  g\n\n\n"
            ),
            "bytes",
            {"main": 1500, "f": 6000, "g": 2500},
        ),
        (
            (
                "Running Time\tSelf (ms)\t\tSymbol Name\n4.0ms  100.0%\t0\t \tmain\n"
                "3.0ms   75.0%\t3\t \t f\n"
            ),
            "wall",
            {"main": 1_000_000, "f": 3_000_000},
        ),
        (
            (
                "Weight\tSelf Weight\t\tSymbol Name\n3.00 Kc  100.0%\t-\t \tmain\n"
                "2.50 Kc   83.3%\t2.50 Kc\t \t f\n500 cycles  16.6%\t500 cycles\t \t g\n"
            ),
            "cycles",
            {"f": 2500, "g": 500},
        ),
    ],
)
def test_call_trees_of_all_instruments_are_read(
    tmp_path: Path, text: str, event: str, own: dict[str, int]
) -> None:
    (tmp_path / "x.txt").write_text(text)

    found = meantime.open(tmp_path / "x.txt").samples(event=event)

    weights: Counter[str] = Counter()
    for stack, weight in zip(found.stack.tolist(), found.weight.tolist(), strict=True):
        weights[found.stacks.frames_of(stack)[-1]] += weight
    assert weights == own


def test_times_of_stackprof_are_those_of_each_sample(samples: Path) -> None:
    history, facts = read(samples, "stackprof-wall.json.gz")

    times = history.samples().time_ns
    assert times[:3].tolist() == [1_162_000, 2_123_000, 3_117_000]
    assert times[-1] == facts["last_ns"]


def test_a_recording_of_safari(samples: Path) -> None:
    history, facts = read(samples, "safari-13.1.json.gz")
    found, spans = history.samples(), history.spans()

    leaf = Counter(found.stacks.frames_of(row)[-1] for row in found.stack.tolist())
    assert leaf == facts["count"]
    assert found.time_ns[0] == round(facts["first_s"] * 10**9)
    assert abs(int(found.weight.sum()) - facts["sum_s"] * 10**9) < len(found)
    kinds = Counter(history.attributes.path(thread)[-1] for thread in spans.thread.tolist())
    named = {f"timeline-record-type-{kind}": count for kind, count in kinds.items()}
    assert named == {kind: count for kind, count in facts["records"].items() if kind in named}
    assert len(spans) + history.anomalies["record_skipped"] == sum(facts["records"].values())


def test_a_method_trace_of_android(samples: Path) -> None:
    history, facts = read(samples, "art.trace.xz")
    spans = history.spans()
    names = [str(spans.name[row]) for row in range(len(spans))]

    total: Counter[str] = Counter()
    for name, start_ns, end_ns in zip(
        names, spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True
    ):
        total[name] += end_ns - start_ns
    counts = Counter(names)
    assert len(spans) == facts["begins"]
    assert history.anomalies["unfinished_span"] == facts["unfinished"]
    assert {name: counts[name] for name in facts["count"]} == facts["count"]
    assert {name: total[name] for name in facts["total_ns"]} == facts["total_ns"]
    assert spans.end_ns.max() == facts["last_ns"]


def test_a_streamed_method_trace_of_android_has_the_same_calls(tmp_path: Path) -> None:
    rows = [(7, 4, 0), (7, 8, 2), (9, 4, 3), (7, 9, 4), (7, 5, 6), (9, 5, 9)] * 100
    records = [struct.pack("<HII", tid, method, wall) for tid, method, wall in rows]
    methods = {b"0x4": b"a.B\tf\t()V", b"0x8": b"a.C\tg"}
    lines = [b"%s\t%s\n" % each for each in methods.items()]
    head = b"*version\n2\nclock=wall\npid=7\n*threads\n7\tmain\n9\tworker\n"
    written = head + b"*methods\n" + b"".join(lines) + b"*end\n"
    written += struct.pack("<4sHHQ16x", b"SLOW", 2, 32, 5) + b"".join(records)

    def described(kind: int, form: str, text: bytes, *number: int) -> bytes:
        return struct.pack(form, 0, kind, *number, len(text)) + text

    streamed = b"".join(
        [
            struct.pack("<4sHHQH14x", b"SLOW", 0xF2, 32, 5, 10),
            described(1, "<HBH", lines[0]),
            described(2, "<HBHH", b"main", 7),
            *records[:1],
            described(1, "<HBH", lines[1]),
            *records[1:2],
            described(2, "<HBHH", b"worker", 9),
            *records[2:],
            described(3, "<HBI", head + b"*end\n"),
        ]
    )
    found = []
    for name, data in (("written.trace", written), ("streamed.trace", streamed)):
        (tmp_path / name).write_bytes(data)
        history = meantime.open(tmp_path / name)
        spans = history.spans()
        columns = (spans.start_ns, spans.end_ns, spans.thread, spans.depth)
        found.append([column.tolist() for column in columns] + [spans.name.to_list()])
        assert sorted(map(str, history.names.values())) == ["main", "worker"]
    assert found[0] == found[1]
    assert len(found[0][0]) == 300
    (tmp_path / "cut.trace").write_bytes(streamed[:-1])
    with pytest.raises(InputError, match="no summary at its end: it is cut"):
        meantime.open(tmp_path / "cut.trace")
    cut = meantime.open(tmp_path / "cut.trace", lenient=True)
    assert len(cut.spans()) == 300
    assert cut.anomalies["truncated"] == 1


def test_states_of_threads_in_a_report_of_simpleperf(samples: Path) -> None:
    history, facts = read(samples, "simpleperf.trace.xz")
    found = [history.samples(event=event) for event in facts["sum_by_type"]]

    assert sum(map(len, found)) == facts["samples"]
    assert min(each.time_ns[0] for each in found) == facts["first_ns"]
    assert max(each.time_ns[-1] for each in found) == facts["last_ns"]
    (status,) = history.quarks("Processes/*/Threads/*/Status")
    states = [each.value for each in history.intervals(status)]
    assert {"running", "not running"} <= set(states)


def test_an_execution_trace_of_go(samples: Path) -> None:
    history, facts = read(samples, "server.go119.trace")
    by_type = facts["by_type"]
    status = history.quarks("Processes/*/Threads/*/Status")
    states = Counter(history.intervals(status).value.to_list())
    spans = history.spans()
    names = Counter(str(spans.category[row]) for row in range(len(spans)))

    assert history.end_ns == facts["last_ns"] + 1
    assert history.metadata.records == facts["events"]
    assert states["running"] == by_type["GoStart"] + by_type["GoStartLabel"]
    waits = {
        "select": "GoBlockSelect", "network": "GoBlockNet", "sleep": "GoSleep",
        "condition": "GoBlockCond", "lock": "GoBlockSync", "garbage collector": "GoBlockGC",
        "receive from channel": "GoBlockRecv",
    }  # fmt: skip
    assert {state: states[state] for state in waits} == {
        state: by_type[kind] for state, kind in waits.items()
    }
    assert len(history.points()) == by_type["GoSysCall"] + by_type["UserLog"]
    assert names["region"] * 2 == by_type["UserRegion"]
    assert names["task"] == by_type["UserTaskCreate"]
    assert names["assist"] == by_type["GCMarkAssistStart"]
    assert names["running"] == by_type["ProcStart"]
    assert not history.anomalies


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b'{"mode":"cpu","interval":1,"samples":3,"frames":{}}', "StackProf.run"),
        ("a.json", b'{"mode":"cpu","interval":1,"samples":3,"frames":{},"raw":[9]}', "malformed"),
        ("a.trace", b"*version\n3\n*end\nSLOW", "unknown version"),
        ("a.trace", b"go 1.19 trace\0\0\0\1", "the execution trace is cut"),
        ("a.trace", b"go 1.19 trace\0\0\0\1\1", "byte 16"),
        ("a.trace", b"*version\n3\n", "no line \\*end: it is cut"),
        ("a.trace", b"SIMPLEPERF\2\0", "an unknown version"),
        ("a.trace", b"SIMPLEPERF\1\0\5\0\0\0\x0a", "is cut"),
        ("a.out", b"# callgrind format\nevents: Ir\nfn=f\n1 2 3\n", "a.out:4: not a line"),
        ("a.txt", b"Weight\tSelf Weight\tSymbol Names\n1 s\tmany\tf\n", "a.txt:2: expected a w"),
        (
            "a.txt",
            b"Weight\tSelf Weight\tSymbol Names\n" + 4 * b"1 s\t2000000000 Gc\tf\n",
            "a.txt:5: the weights so far add up to more than 2",
        ),
        ("a.out", b"# callgrind format\nevents: Ir\ncalls=" + 4300 * b"9" + b" 1\n", "a.out:3: n"),
        ("a.trace", b"SLOW\xf5\0\x20\0" + bytes(30), "record newer ones with Perfetto"),
    ],
)
def test_malformed_profiles_are_refused(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(InputError, match=message):
        meantime.open(tmp_path / name)


def test_a_callgrind_profile_that_is_cut_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.out"
    text = "# callgrind format\nevents: Ir\nsummary: 30\n\nfn=main\n1 20\n\nfn=f\n2 10\n"
    for cut, anomalies in ((text, {}), (text[: text.index("fn=f")], {"costs_missing": 1})):
        path.write_text(cut)
        assert dict(meantime.open(path).anomalies) == anomalies
