"""Spans of services, against what was computed of the files without meantime."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.columns import Coded
    from meantime.history.history import History

NAMES = (
    "example.otlp.json",
    "longer-children.jaeger.json",
    "messaging-kafka.zipkin.json",
    "orders.otlp.delimited.bin.gz",
    "orders.otlp.jsonl.gz",
    "overlapping-children.jaeger.json",
    "skew.zipkin.json",
)


def listed(column: Coded) -> list[str]:
    return [str(column[row]) for row in range(len(column))]


def found_in(history: History) -> dict[str, Any]:
    spans = history.spans()
    names = listed(spans.name)
    total = Counter[str]()
    for name, length in zip(names, (spans.end_ns - spans.start_ns).tolist(), strict=True):
        total[name] += length
    services = Counter(history.attributes.path(quark)[1] for quark in spans.thread.tolist())
    return {
        "spans": len(spans),
        "services": dict(services),
        "first_start_ns": int(spans.start_ns.min()),
        "last_end_ns": int(spans.end_ns.max()),
        "count_by_name": dict(Counter(names)),
        "total_ns_by_name": dict(total),
        "parent_not_in_file": history.anomalies["parent_not_in_input"],
    }


@pytest.mark.parametrize("name", NAMES)
def test_spans_agree_with_independent_counts(samples: Path, name: str) -> None:
    facts = json.loads((samples / "services" / "facts.json").read_text())[name]
    history = meantime.open(samples / "services" / name)

    found = found_in(history)
    assert found == {key: facts[key] for key in found}
    flows = Counter(listed(history.flows().name))
    # the sketch that counted them takes the sides of a call by kind, and children by id alone
    if not name.endswith(".zipkin.json"):
        assert flows["call"] == facts["child_in_other_service"]
    assert flows["link"] == facts["links"]
    points = Counter(listed(history.points().name))
    assert points.total() - points["error"] == facts["events"]


def test_each_lane_has_one_call_at_a_time(samples: Path) -> None:
    history = meantime.open(samples / "services" / "orders.otlp.jsonl.gz")
    spans = history.spans()
    assert not np.any(spans.lane)  # none partly overlaps another of its lane
    ids = [json.loads(spans.arguments(row) or "") for row in range(len(spans))]
    for row, parent in enumerate(spans.parent.tolist()):
        if parent >= 0:
            assert ids[row]["parent_id"] == ids[parent]["span_id"]


def test_json_and_protobuf_are_the_same_trace(samples: Path) -> None:
    folder = samples / "services"
    text, binary = (
        meantime.open(folder / f"orders.otlp.{kind}.gz") for kind in ("jsonl", "delimited.bin")
    )
    for column in ("start_ns", "end_ns", "depth"):
        assert np.array_equal(getattr(text.spans(), column), getattr(binary.spans(), column))
    assert listed(text.spans().name) == listed(binary.spans().name)


def test_open_requests_of_a_service_are_counted(tmp_path: Path) -> None:
    def span(number: int, start: int, length: int, **more: Any) -> dict[str, Any]:
        endpoint = {"serviceName": "api"}
        times = {"timestamp": start, "duration": length, "localEndpoint": endpoint}
        return {"traceId": "a1", "id": f"{number:x}", "kind": "SERVER", **times, **more}

    path = tmp_path / "requests.json"
    start = 1_700_000_000_000_000
    spans = [span(1, start, 10), span(2, start + 5, 10), span(3, start + 20, 1, kind="CLIENT")]
    path.write_text(json.dumps(spans))
    history = meantime.open(path)
    quark = history.quark("Processes", "api", "Counters", "Open requests", "requests")
    intervals = history.intervals([quark], *history.bounds)
    values = [intervals.value[row] for row in range(len(intervals))]
    assert values == [1, 2, 1, 0]
    state = history.quark("Processes", "api")
    begin = start * 1000
    states = [history.state(state, begin + us * 1000).value for us in (0, 7, 12, 16)]
    assert states == ["serving 1", "serving 2-3", "serving 1", "idle"]


def test_private_fields_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "private.json"
    tags = [{"key": "http.request.header.cookie", "value": "secret"}, {"key": "a", "value": 1}]
    span = {"traceID": "1", "spanID": "2", "startTime": 10**15, "duration": 1, "tags": tags}
    path.write_text(json.dumps([span | {"operationName": "x"}]))
    history = meantime.open(path)
    assert history.anomalies["private_field"] == 1
    arguments = history.spans().arguments(0)
    assert arguments is not None
    assert json.loads(arguments) == {"trace_id": "1", "span_id": "2", "a": 1}


def test_values_that_json_cannot_have_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    tags = '[{"key": "a", "value": 1e999}, {"key": "b", "value": NaN}, {"key": "c", "value": [1]}]'
    times = f'"startTime": {10**15}, "duration": 1'
    path.write_text(f'[{{"traceID": "1", "spanID": "2", {times}, "tags": {tags}}}]')
    history = meantime.open(path)
    arguments = history.spans().arguments(0)
    assert arguments is not None
    assert json.loads(arguments) == {"trace_id": "1", "span_id": "2", "b": "NaN", "c": [1]}
    assert history.anomalies["bad_metadata"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"resourceSpans": [7]}', "line 1 is not an export"),
        ('[{"traceID": "1", "spanID": "2", "duration": "long"}]', "its duration is not an integer"),
        ('[{"traceId": "1", "id": 2}]', "an id is not text"),
        ('[{"traceID": "1", "spanID": "2", "startTime": 1}]', "it has no 'duration'"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [{"kind": 1e999}]}]}]}', "infinity"),
        ('[{"traceId": "1", "id": "2", "binaryAnnotations": []}]', "version 1"),
        ('{"resourceMetrics": [{}]}', "OpenTelemetry metrics"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        meantime.open(path)
