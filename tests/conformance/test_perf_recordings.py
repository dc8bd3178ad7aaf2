"""Every recorded `perf script` text against what is known of the recording it was printed from."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from plain_scheduling import Line, proven_runs

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.query.statistics import state_statistics
from meantime.readers import open_trace

ROOT = Path(__file__).resolve().parents[2].parent / "shared" / "data"
FOLDERS = ("perf-script/", "heatmap/")
# They take half a minute to read, and the other recordings have all that they have.
HUGE = {"perf-script/recorded/big-mixed.txt.zst", "perf-script/recorded/pg-sched.txt.zst"}


_LINE = re.compile(
    r".{16} +(?:-?\d+/)?(?P<tid>-?\d+) +\[(?P<cpu>\d+)\] +(?P<s>\d+)\.(?P<fraction>\d{6,9}):"
    r" +(?P<rest>.*)"
)
_SWITCH = re.compile(r"(?:\d+ +)?sched:sched_switch: .* prev_pid=(\d+) .* next_pid=(\d+) ")


def truths() -> dict[str, Any]:
    file = ROOT / "ground-truth.json"
    facts = json.loads(file.read_text())
    return {
        name: fact
        for name, fact in facts.items()
        if name.startswith(FOLDERS) and name not in HUGE and not name.endswith("json.gz")
    }


TRUTHS = truths()
NAMELESS = {"heatmap/recorded/beat-99hz.txt.zst", "heatmap/recorded/beat3-99hz.txt.gz"}
TIMELESS = [name for name, fact in TRUTHS.items() if "no time stamps" in fact.get("note", "")]


@pytest.mark.parametrize("name", [name for name in TRUTHS if name not in TIMELESS])
def test_a_recording_is_read_whole(name: str) -> None:
    truth = TRUTHS[name]
    # perf could not name one sample's thread: comm ":-1", tid -1. The truth leaves it out.
    nameless = 1 if name in NAMELESS else 0

    history = build(open_trace(ROOT / name))

    samples = history.samples()
    stats = truth.get("stats", {}).get("Aggregated", {})
    expected = truth.get("samples") or truth.get("event_lines") or stats["SAMPLE"]
    assert len(samples) == expected + nameless
    if "first_time" in truth:
        edges = [round(truth[key] * 10**9) for key in ("first_time", "last_time")]
        assert samples.time_ns[[0, -1]].tolist() == edges
    names = Counter(samples.name.to_list())
    assert truth.get("by_comm", {}).items() <= names.items()
    cpus = Counter(samples.cpu.tolist())
    for cpu, count in truth.get("by_cpu", {}).items():
        assert cpus[-1 if cpu == "null" else int(cpu)] - count in {0, nameless}
    events = Counter((event or "").split(":")[0] for event in samples.event.to_list())
    for event, count in truth.get("events", {}).items():
        assert events[event] == count + nameless
    assert history.anomalies["unknown_line"] == 0


@pytest.mark.parametrize("name", TIMELESS)
def test_a_recording_without_times_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="time stamp"):
        build(open_trace(ROOT / name))


@pytest.mark.parametrize(
    "name",
    [
        "multi.txt.gz",
        "cpu0-complete-idle.txt",
        "quiet-missing-idle-exits.txt",
    ],
)
def test_threads_run_as_long_as_their_switches_say(name: str) -> None:
    truth = TRUTHS[f"perf-script/recorded/{name}"]
    if "own" not in truth:
        truth = json.loads((ROOT / "ground-truth.json").read_text())[
            "perf-sched/recorded/multi.timehist.txt.gz"
        ]
    history = build(open_trace(ROOT / "perf-script" / "recorded" / name))

    statistics = state_statistics(history, by="entity")
    running = {
        str(row.entity).removesuffix("/Status").rpartition("/")[2]: row.total_ns
        for row in statistics.rows
        if row.key == "running" and str(row.entity).endswith("/Status")
    }
    # where switches were lost, other events of a CPU prove that a thread ran
    lines = lines_of(ROOT / "perf-script" / "recorded" / name)
    by_switches = Counter[str]()
    proven = Counter[str]()
    for run in proven_runs(lines, (lines[0].time_ns, lines[-1].time_ns + 1)):
        proven[str(run.thread)] += run.to_ns - run.from_ns
    switches = [line for line in lines if line.switch]
    for run in proven_runs([line._replace(thread=None) for line in switches]):
        by_switches[str(run.thread)] += run.to_ns - run.from_ns
    expected = {tid: fact["ns"] for tid, fact in truth["own"]["oncpu_ns_top"].items()}
    assert {tid: by_switches[tid] for tid in expected} == expected
    del proven["0"]
    assert running == {tid: ns for tid, ns in proven.items() if ns}


def lines_of(path: Path) -> list[Line]:
    """Return the lines of a text with times."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = []
    for row in text.decode(errors="replace").splitlines():
        if found := _LINE.match(row):
            switch = _SWITCH.match(found["rest"])
            lines.append(
                Line(
                    int(found["s"]) * 10**9 + int(found["fraction"].ljust(9, "0")),
                    int(found["cpu"]),
                    int(found["tid"]) if int(found["tid"]) >= 0 else None,
                    (int(switch[1]), int(switch[2])) if switch else None,
                )
            )
    return lines
