"""Histories written for Perfetto, OpenTelemetry and Firefox, and read again by the own readers."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.views.export import TARGETS, export, nothing_for

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History

CHROME = [
    "async_begin_end.json",
    "big_trace.json.gz",
    "flow.json.gz",
    "instance_counters.json",
    "nestable_async.json",
    "simple_trace.json",
    "zero-duration-events.json",
]


def again(history: History, target: str, folder: Path) -> tuple[History, dict[str, int]]:
    lost: Counter[str] = Counter()
    path = folder / f"again{TARGETS[target].suffix}"
    path.write_bytes(b"".join(export(history, target, lost)))
    return meantime.open(path), {what: count for what, count in lost.items() if count}


def spans_of(history: History, shift_ns: int = 0) -> Counter[tuple[str, int, int]]:
    spans = history.without_derived().spans()
    starts, ends = (spans.start_ns - shift_ns).tolist(), (spans.end_ns - shift_ns).tolist()
    return Counter((spans.name[row] or "", starts[row], ends[row]) for row in range(len(spans)))


def flows_of(history: History, shift_ns: int = 0) -> list[tuple[int, int]]:
    flows = history.flows()
    times = ((flows.from_ns - shift_ns).tolist(), (flows.to_ns - shift_ns).tolist())
    return sorted(zip(*times, strict=True))


def counters_of(history: History, shift_ns: int = 0) -> dict[tuple[str, ...], list[Any]]:
    return {
        history.attributes.path(quark): [
            (start_ns - shift_ns, value)
            for batch in history.interval_batches([quark], history.start_ns, history.end_ns)
            for _, start_ns, _, value, _, _ in batch
            if value is not None
        ]
        for quark in history.quarks("Processes/*/Counters/*/*").tolist()
    }


def points_of(history: History) -> Counter[tuple[str, int]]:
    points = history.points()
    times = points.time_ns.tolist()
    return Counter((points.name[row] or "", times[row]) for row in range(len(points)))


@pytest.mark.parametrize("name", CHROME)
def test_perfetto_has_spans_points_flows_and_counters(
    samples: Path, tmp_path: Path, name: str
) -> None:
    history = meantime.open(samples / "chrome" / name)
    found, lost = again(history, "perfetto", tmp_path)

    before, after = spans_of(history), spans_of(found)
    # the assumed end of unfinished spans may be another
    unfinished = int(history.spans().unfinished.sum())
    assert (before - after).total() <= unfinished
    assert before.total() == after.total()
    assert flows_of(found) == flows_of(history)
    assert counters_of(found) == counters_of(history)
    added = points_of(found) - points_of(history)
    assert added.total() == lost.get("ends of flows at no event, which got one", 0)
    assert not points_of(history) - points_of(found)


def test_perfetto_keeps_threads_names_categories_and_arguments(tmp_path: Path) -> None:
    arguments = {"n": 7, "f": 1.5, "s": "é", "b": True, "deep": {"list": [1, "x"]}}
    (tmp_path / "t.json").write_text(
        json.dumps(
            [
                {"ph": "M", "name": "process_name", "pid": 5, "tid": 6, "args": {"name": "app"}},
                {"ph": "M", "name": "thread_name", "pid": 5, "tid": 6, "args": {"name": "main"}},
                {
                    "ph": "B",
                    "name": "f",
                    "cat": "c",
                    "pid": 5,
                    "tid": 6,
                    "ts": 1,
                    "args": arguments,
                },
                {"ph": "X", "name": "g", "pid": 5, "tid": 6, "ts": 2, "dur": 3},
                {"ph": "X", "name": "g", "pid": 5, "tid": 6, "ts": 4, "dur": 3},
                {"ph": "E", "pid": 5, "tid": 6, "ts": 9},
                {"ph": "X", "name": "k", "pid": "GPU", "tid": "stream", "ts": 2, "dur": 3},
            ]
        )
    )
    found, _ = again(meantime.open(tmp_path / "t.json"), "perfetto", tmp_path)
    spans = found.spans()

    rows = {
        (found.attributes.path(quark), spans.name[row]): row
        for row, quark in enumerate(spans.thread.tolist())
    }
    thread = ("Processes", "5", "Threads", "6")
    assert found.names[found.quark(*thread)] == "main"
    assert found.names[found.quark("Processes", "5")] == "app"
    row = rows[thread, "f"]
    assert spans.category[row] == "c"
    assert json.loads(spans.arguments(row) or "") == arguments
    # one of the two that overlap is on a track below that of the thread
    assert Counter(name for _, name in rows) == {"f": 1, "g": 2, "k": 1}
    groups = {path[3] for path, name in rows if path[2] == "Async"}
    assert groups == {"lane 2 (main 6)", "GPU / stream"}


def test_states_become_slices_of_perfetto(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "start_ns,end_ns,path,value\n0,5,disk/a,busy\n5,9,disk/a,idle\n"
    )
    history = meantime.open(tmp_path / "t.csv")

    found, lost = again(history, "perfetto", tmp_path)

    assert spans_of(found) == {("busy", 0, 5): 1, ("idle", 5, 9): 1}
    assert lost == {"states, which became spans": 2}


def test_spans_of_services_are_equal_after_opentelemetry(samples: Path, tmp_path: Path) -> None:
    history = meantime.open(samples / "services" / "example.otlp.json")
    found, lost = again(history, "otlp", tmp_path)

    assert spans_of(found) == spans_of(history)
    assert points_of(found) == points_of(history)
    assert flows_of(found) == flows_of(history)
    spans, before = found.spans(), history.spans()
    assert [spans.arguments(row) for row in range(len(spans))] == [
        before.arguments(row) for row in range(len(before))
    ]
    assert "entities with states" not in lost


@pytest.mark.parametrize("target", ["perfetto", "firefox"])
def test_times_of_services_stay_in_utc(samples: Path, tmp_path: Path, target: str) -> None:
    history = meantime.open(samples / "services" / "example.otlp.json")
    found, lost = again(history, target, tmp_path)

    def utc(of: History) -> set[tuple[str, int]]:
        origin_ns = of.clock.utc_at_origin_ns or 0
        return {(name, start_ns + origin_ns) for name, start_ns, _ in spans_of(of)}

    assert utc(history) <= utc(found)
    assert "times in UTC" not in lost


@pytest.mark.parametrize("name", ["big_trace.json.gz", "instance_counters.json"])
def test_any_spans_are_equal_after_opentelemetry(samples: Path, tmp_path: Path, name: str) -> None:
    history = meantime.open(samples / "chrome" / name)
    found, lost = again(history, "otlp", tmp_path)

    assert spans_of(found) == spans_of(history)
    spans, before = found.spans(), history.spans()
    assert Counter(spans.depth.tolist()) == Counter(before.depth.tolist())
    assert lost["times in UTC, so times count from 1970"] == 1
    assert lost.get("counter series", 0) == len(counters_of(history))


@pytest.mark.parametrize("name", [*CHROME, "multi-thread-with-samples.json"])
def test_firefox_has_spans_points_and_counters(samples: Path, tmp_path: Path, name: str) -> None:
    history = meantime.open(samples / "chrome" / name)
    found, _ = again(history, "firefox", tmp_path)

    start_ns, _ = history.bounds
    assert spans_of(found) == spans_of(history, start_ns)
    assert counters_of(found) == counters_of(history, start_ns)
    samples_before, samples_after = history.samples(), found.samples()
    assert samples_after.weight.tolist() == samples_before.weight.tolist()
    assert (samples_after.time_ns + start_ns).tolist() == samples_before.time_ns.tolist()
    assert [samples_after.stacks.frames_of(row) for row in samples_after.stack.tolist()] == [
        samples_before.stacks.frames_of(row) for row in samples_before.stack.tolist()
    ]


@pytest.mark.parametrize(
    "name",
    ["chrome/nestable_async.json", "profiles/go-heap.pb.gz", "builds/structlog.jsonl.gz",
     "chrome/multi-thread-with-samples.json"],
)  # fmt: skip
def test_what_is_written_can_be_read_or_there_is_a_reason(
    samples: Path, tmp_path: Path, name: str
) -> None:
    history = meantime.open(samples / name)
    for target in TARGETS.keys() - {"tasks", "workers"}:
        if nothing_for(history, target) is None:
            found, _ = again(history, target, tmp_path)
            stored = found.without_derived()
            held = (stored.spans(), stored.samples(), stored.points(), stored.lanes)
            assert any(len(each) for each in held), target


def test_nothing_is_written_of_a_history_without_spans(tmp_path: Path) -> None:
    (tmp_path / "a.folded").write_text("a;b 3\n")
    history = meantime.open(tmp_path / "a.folded")

    assert "only those" in str(nothing_for(history, "otlp"))
    assert "no spans of threads" in str(nothing_for(history, "spall"))
    assert nothing_for(history, "firefox") is None
