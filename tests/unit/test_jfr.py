"""Reading Java flight recordings."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import corpus
import pytest
from corpus import jfr_chunk

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History

ORIGIN_NS = 1_700_000_000_000_000_000


def read(tmp_path: Path, data: bytes, *, lenient: bool = False) -> History:
    path = tmp_path / "app.jfr"
    path.write_bytes(data)
    return meantime.open(path, lenient=lenient)


def test_samples_agree_with_what_the_jdk_prints(samples: Path) -> None:
    facts = json.loads((samples / "jfr" / "facts.json").read_text())
    history = meantime.open(samples / "jfr" / "kafka-cpu.jfr.gz")
    found = history.samples()
    own, total = Counter[str](), Counter[str]()
    for stack in found.stack.tolist():
        frames = found.stacks.frames_of(stack)
        own[frames[-1]] += 1
        total.update(set(frames))
    for counts, expected in ((own, facts["execution_self"]), (total, facts["execution_total"])):
        for name, count in expected.items():
            # of native code there is no class, and a library may be a path
            native = name[1:] if name.startswith(".") else name.replace("/", ".")
            assert counts[native] == count, name
    states = {
        f"ExecutionSample {state}": count
        for state, count in facts["execution_sample_states"].items()
    }
    assert Counter(found.event.to_list()) == states
    threads = Counter(history.names[quark] for quark in found.thread.tolist())
    assert {name: threads[name] for name in facts["threads"]} == facts["threads"]
    # a description of types and of constants are no records
    described = facts["by_type"]["jdk.Metadata"] + facts["by_type"]["jdk.CheckPoint"]
    assert history.metadata.records == facts["events"] - described


def test_events_become_what_they_mean(tmp_path: Path) -> None:
    history = read(tmp_path, jfr_chunk())
    worker = ("Processes", "java", "Threads", "8")
    states = history.intervals([history.quark(*worker, "Status")], *history.bounds)
    assert [
        (each.start_ns - ORIGIN_NS, each.end_ns - ORIGIN_NS, each.value)
        for each in states
        if each.value
    ] == [(100, 150, "blocked")]
    spans = history.spans()
    assert [
        (history.attributes.path(int(spans.thread[row]))[-1], str(spans.name[row]), length)
        for row, length in enumerate((spans.end_ns - spans.start_ns).tolist())
    ] == [("8", "JavaMonitorEnter", 50), ("Garbage collection", "G1New", 20)]
    arguments = json.loads(spans.arguments(0) or "")
    assert arguments == {
        "monitorClass": "app.Main",
        "previousOwner": "main",
        "stack": "app.Main.work; app.Main.run",
    }
    flows = history.flows()
    assert flows.name.to_list() == ["unlock"]
    sample = history.samples()
    assert sample.event.to_list() == ["ExecutionSample STATE_RUNNABLE"]
    assert sample.stacks.frames_of(int(sample.stack[0])) == ["app.Main.run", "app.Main.work"]
    load = history.quark("Processes", "java", "Counters", "CPU load (share)", "jvmUser")
    assert history.state(load, ORIGIN_NS + 300).value == 0.5
    points = history.points()
    assert points.name.to_list() == ["Request"]
    assert json.loads(points.arguments(0) or "") == {"path": "/x"}
    assert dict(history.anomalies) == {"private_field": 1}


def test_samples_of_threads_that_wait_are_not_added_to_those_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = jfr_chunk()
    name, fields = corpus._JFR_TYPES[40]
    monkeypatch.setitem(corpus._JFR_TYPES, 40, (name.replace("Execution", "NativeMethod"), fields))
    waiting = jfr_chunk(5000)

    history = read(tmp_path, waiting + running + waiting)

    assert history.samples().event.to_list() == ["ExecutionSample STATE_RUNNABLE"]
    native = history.samples(event="NativeMethodSample STATE_RUNNABLE")
    assert len(native) == 2


def test_chunks_have_times_and_constants_of_their_own(tmp_path: Path) -> None:
    history = read(tmp_path, jfr_chunk(1000) + jfr_chunk(777))
    assert history.facts["chunks"] == "2"
    assert history.samples().time_ns.tolist() == [ORIGIN_NS, ORIGIN_NS]
    assert not history.anomalies["truncated"]


def test_counters_of_chunks_that_overlap_in_time_are_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.readers.jfr._BATCH_ROWS", 1)
    later = jfr_chunk()
    begin_ns = int.from_bytes(later[32:40], "big")
    earlier = later[:32] + (begin_ns - 10**6).to_bytes(8, "big") + later[40:]

    history = read(tmp_path, later + earlier)

    counters = history.quarks("Processes/*/Counters/*/*")
    assert counters
    alone = read(tmp_path, jfr_chunk())
    for quark in counters:
        path = history.attributes.text(quark)
        values = [each.value for each in history.intervals(path)]
        once = [each.value for each in alone.intervals(path) if each.value is not None]
        assert [each for each in values if each is not None][: len(once)] == once


def test_a_recording_that_was_not_finished_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = jfr_chunk(is_finished=False)
    history = read(tmp_path, jfr_chunk() + whole[:-3])
    assert history.metadata.records == 6 + 5
    assert history.anomalies["truncated"] == 1
    history = read(tmp_path, whole + bytes(100))
    assert history.metadata.records == 6


def test_events_whose_type_cannot_be_read_are_left_out_leniently(tmp_path: Path) -> None:
    # a type that is not known and has no fields takes no bytes
    data = jfr_chunk().replace(b"\x03\x05float", b"\x03\x05flaot")
    with pytest.raises(InputError, match="values without bytes"):
        read(tmp_path, data)
    history = read(tmp_path, data, lenient=True)
    assert dict(history.anomalies) == {"private_field": 1, "bad_record": 1}
    assert len(history.points()) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (jfr_chunk()[:300], "before the description of its types"),
        (jfr_chunk()[:50], "header of this Java flight recording is cut"),
        (b"FLR\0\0\1" + jfr_chunk()[6:], "version 1.1"),
        (jfr_chunk()[:56] + bytes(8) + jfr_chunk()[64:], "the times"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, data)
