"""Spans of services, against what was computed of the files without meantime."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zstd_frames
from click.testing import CliRunner

import meantime
from meantime.cli import cli
from meantime.errors import InputError, MeantimeError, UsageError
from meantime.query.services import service_statistics
from meantime.readers.services.clock_repair import shifts

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History
    from meantime.model.columns import Coded
    from meantime.query.services import ServiceGroup, ServiceGrouping

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


@pytest.mark.parametrize("kind", ["jsonl", "delimited.bin"])
def test_messages_may_be_compressed_one_by_one(samples: Path, tmp_path: Path, kind: str) -> None:
    data = gzip.decompress((samples / "services" / f"orders.otlp.{kind}.gz").read_bytes())
    messages = data.splitlines()
    if kind != "jsonl":
        messages = []
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            messages.append(data[4:end])
            data = data[end:]
    packed = [zstd_frames.compress(message) for message in messages]
    path = tmp_path / "spans.bin"
    path.write_bytes(b"".join(len(each).to_bytes(4, "big") + each for each in packed))
    spans = meantime.open(path).spans()
    expected = meantime.open(samples / "services" / "orders.otlp.jsonl.gz").spans()
    assert spans.start_ns.tolist() == expected.start_ns.tolist()

    path.write_bytes(path.read_bytes()[:-3])
    assert meantime.open(path).anomalies["truncated"] == 1
    path.write_bytes(len(packed[0]).to_bytes(4, "big") + packed[0][:-40] + bytes(40))
    with pytest.raises(InputError):
        meantime.open(path)


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


def test_attributes_do_not_replace_what_the_span_says(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    tags = [{"key": "status", "value": "error"}, {"key": "trace_id", "value": "7"}]
    span = {"traceID": "1", "spanID": "2", "startTime": 10**15, "duration": 1, "tags": tags}
    path.write_text(json.dumps([span | {"operationName": "x"}]))
    fields = json.loads(meantime.open(path).spans().arguments(0) or "")
    assert fields == {
        "trace_id": "1",
        "span_id": "2",
        "attributes.status": "error",
        "attributes.trace_id": "7",
    }


START_US = 1_700_000_000_000_000


def call(
    service: str, ids: str, name: str, times: tuple[int, int], kind: str = "", **more: Any
) -> dict[str, Any]:
    """Return a span of Zipkin; `ids` is `TRACE SPAN` or `TRACE SPAN PARENT`."""
    trace, own, *parent = ids.split()
    return {
        "traceId": trace,
        "id": own,
        "name": name,
        "timestamp": START_US + times[0],
        "duration": times[1] - times[0],
        "localEndpoint": {"serviceName": service},
        **({"parentId": parent[0]} if parent else {}),
        **({"kind": kind} if kind else {}),
        **more,
    }


def shop(folder: Path) -> Path:
    path = folder / "shop.json"
    failed = {"tags": {"error": "1"}}
    spans = [
        call("web", "a1 1", "buy", (0, 100), "SERVER"),
        call("web", "a1 2 1", "ask", (10, 60), "CLIENT"),
        call("web", "a1 3 1", "render", (50, 90)),
        call("stock", "a1 4 2", "take", (15, 55), "SERVER", **failed),
        call("stock", "a1 5 4", "log", (50, 70)),
        call("web", "b2 6", "buy", (200, 210), "SERVER"),
        call("stock", "b2 7 6", "take", (190, 205), "SERVER"),
        # without servers and consumers, requests are the first spans in the service
        call("batch", "c3 8", "run", (300, 320)),
        call("batch", "c3 9 8", "step", (305, 305)),
    ]
    path.write_text(json.dumps(spans))
    return path


def rows_of(
    history: History, by: ServiceGrouping, **more: Any
) -> dict[tuple[str, str | None], ServiceGroup]:
    rows = service_statistics(history, by=by, **more).rows
    return {(row.service, row.operation): row for row in rows}


def test_requests_and_own_time_of_services(tmp_path: Path) -> None:
    history = meantime.open(shop(tmp_path))
    rows = rows_of(history, "service")
    found = {
        service: (row.spans, row.count, row.failed, row.median_ns, row.total_ns, row.own_ns)
        for (service, _), row in rows.items()
    }
    # buy 100 - [10, 90), ask 50 - [15, 55), render 40, buy 10 - [200, 205)
    assert found["web"] == (4, 2, 0, 10_000, 110_000, 75_000)
    # take 40 - [50, 55), log 20 beyond its parent, take 15
    assert found["stock"] == (3, 2, 1, 15_000, 55_000, 70_000)
    assert found["batch"] == (2, 1, 0, 20_000, 20_000, 20_000)
    assert sum(row.share for row in rows.values()) == pytest.approx(1)


def test_operations_in_a_range_and_of_a_trace(tmp_path: Path) -> None:
    history = meantime.open(shop(tmp_path))
    rows = rows_of(history, "operation")
    assert rows["web", "buy"].count == 2
    assert (rows["web", "buy"].p99_ns, rows["web", "buy"].own_ns) == (100_000, 25_000)
    assert (rows["batch", "step"].count, rows["batch", "step"].max_ns) == (1, 0)

    begin = START_US * 1000
    part = rows_of(history, "operation", start_ns=begin + 52_000, end_ns=begin + 95_000)
    assert {name: row.own_ns for (_, name), row in part.items()} == {
        "buy": 5_000,
        "ask": 5_000,
        "render": 38_000,
        "take": 0,
        "log": 18_000,
    }
    assert part["web", "buy"].max_ns == 100_000

    of_trace = service_statistics(history, by="operation", pattern="B2")
    assert of_trace.trace_id == "b2"
    assert {(row.service, row.count) for row in of_trace.rows} == {("web", 1), ("stock", 1)}
    assert list(rows_of(history, "operation", pattern="stock t")) == [("stock", "take")]
    with pytest.raises(MeantimeError, match="no service, operation or trace id"):
        rows_of(history, "operation", pattern="absent")


def test_commands_print_services_and_traces(tmp_path: Path) -> None:
    path = shop(tmp_path)

    def printed(*words: str) -> str:
        done = CliRunner().invoke(cli, [words[0], str(path), *words[1:]], env={"COLUMNS": "200"})
        assert not done.exit_code, done.output
        return done.output

    table = printed("stats", "--by", "service").splitlines()
    assert table[0] == "Requests by service over 320us"
    row = dict(zip(table[2].split(), table[4].split(), strict=True))
    assert [row[name] for name in ("service", "spans", "requests", "failed")] == [
        "web",
        "4",
        "2",
        "0",
    ]
    found = json.loads(printed("stats", "--by", "operation", "-f", "B2", "--json"))
    assert (found["by"], found["trace_id"]) == ("operation", "b2")
    assert [row["operation"] for row in found["rows"]] == ["take", "buy"]
    lines = printed("dump", "--kind", "spans", "-f", "b2").splitlines()
    assert sorted(json.loads(line)["args"]["span_id"] for line in lines) == ["6", "7"]

    done = CliRunner().invoke(cli, ["stats", str(path), "--by", "service", "--tree"])
    assert isinstance(done.exception, UsageError)
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}')
    done = CliRunner().invoke(cli, ["stats", str(path), "--by", "service"])
    assert "there are no services for --by service" in str(done.exception)


# the sides of calls share ids in the last one
@pytest.mark.parametrize("name", NAMES[:-1])
def test_own_time_is_what_no_child_covers(samples: Path, name: str) -> None:
    history = meantime.open(samples / "services" / name)
    spans = history.spans()
    fields = [json.loads(spans.arguments(row) or "") for row in range(len(spans))]
    times = list(zip(spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True))
    children: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for each, time in zip(fields, times, strict=True):
        if "parent_id" in each and each["parent_id"] != each["span_id"]:
            children.setdefault((each["trace_id"], each["parent_id"]), []).append(time)
    own = 0
    for each, (start, end) in zip(fields, times, strict=True):
        at = start
        for low, high in sorted(children.get((each["trace_id"], each["span_id"]), [])):
            own += max(0, min(low, end) - at)
            at = max(at, min(high, end))
        own += end - at
    rows = service_statistics(history, by="operation").rows
    assert sum(row.own_ns for row in rows) == own
    assert sum(row.count for row in rows) == len(spans)


def test_clocks_that_differ_are_counted_with_the_amount(tmp_path: Path) -> None:
    path = tmp_path / "clocks.json"
    spans = [
        call("a", "1 1", "ask", (100, 200), "CLIENT"),
        call("b", "1 2 1", "answer", (90, 180), "SERVER"),
        call("a", "1 3", "ask", (300, 400), "CLIENT"),
        call("b", "1 4 3", "answer", (270, 450), "SERVER"),
        # it does not wait for what it sent, and its own clock is the same
        call("a", "1 5", "send", (500, 510), "PRODUCER"),
        call("b", "1 6 5", "receive", (505, 900), "CONSUMER"),
        call("a", "1 7 5", "send", (490, 900)),
    ]
    path.write_text(json.dumps(spans))
    history = meantime.open(path)
    assert history.anomalies["child_before_parent"] == 2
    assert history.anomalies["child_after_parent"] == 1
    expected = "b, called by a, begins up to 30us before it and ends up to 50us after it"
    assert history.facts["clocks differ"] == expected
    # one within its own service
    assert history.anomalies["span_before_parent"] == 1


def test_clocks_are_repaired_on_request(tmp_path: Path) -> None:
    """The clock of b is 1 ms ahead, and that of c, which only b calls, 2 ms behind."""
    path = tmp_path / "clocks.json"
    spans = [
        call("a", "1 1", "ask", (10_000, 10_100), "CLIENT"),
        call("b", "1 2 1", "answer", (11_010, 11_090), "SERVER"),
        call("b", "1 3 2", "ask", (11_020, 11_080), "CLIENT"),
        call("c", "1 4 3", "answer", (8_030, 8_070), "SERVER"),
        call("a", "2 5", "ask", (20_000, 20_100), "CLIENT"),
        call("b", "2 6 5", "answer", (21_040, 21_060), "SERVER"),
    ]
    path.write_text(json.dumps(spans))
    assert meantime.open(path).anomalies["child_before_parent"] == 1
    history = meantime.open(path, repair_clocks=True)
    assert not history.anomalies
    assert history.facts["clocks shifted"] == "c +2ms; b -1ms"
    assert (history.spans().start_ns // 1000 - START_US).tolist() == [
        *(10_000, 20_000),
        *(10_010, 10_020, 20_040),
        10_030,
    ]
    built = tmp_path / "built.mth"
    meantime.build(path, path=built)
    with pytest.raises(InputError, match="--repair-clocks applies to traces of services"):
        meantime.open(built, repair_clocks=True)
    (tmp_path / "chrome.json").write_text('[{"ph":"X","name":"a","ts":1,"dur":1}]')
    with pytest.raises(InputError, match="to traces of services; this is chrome"):
        meantime.open(tmp_path / "chrome.json", repair_clocks=True)


def test_clocks_that_fit_or_drift_are_judged_by_all_calls() -> None:
    zeros, ones = np.zeros(4, np.int64), np.ones(4, np.int64)
    low, high = np.array([-5, -9, 1, 2]), np.array([5, 9, 8, 9])
    # one shift fits all
    assert shifts(zeros, ones, low, high) == {1: 3}
    # none does: half of the calls fit without one
    assert shifts(zeros, ones, low, np.array([-1, 9, 8, 1])) == {1: 1}
    assert not shifts(zeros, ones, low, np.array([5, 0, 8, -1]))
    assert not shifts(*(np.empty(0, np.int64) for _ in range(4)))
    # calls in the other direction limit the same clocks
    assert shifts(np.array([0, 1]), np.array([1, 0]), np.array([3, -8]), np.array([9, -4])) == {
        1: 6
    }


def test_reports_of_one_span_each_have_a_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    own = {"traceId": "1", "id": "2", "kind": "CLIENT", "localEndpoint": {"serviceName": "a"}}
    path.write_text(json.dumps([own | {"duration": 7}, own | {"timestamp": 5}]))
    history = meantime.open(path)
    spans = history.spans()
    assert (spans.start_ns.tolist(), spans.end_ns.tolist()) == ([5000], [12_000])
    assert dict(history.anomalies) == {"reports_merged": 1}


def test_services_of_equal_names_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    groups = []
    for number, (name, instance) in enumerate((("a", "b"), ("a", "c"), ("a b", ""))):
        keys = {"service.name": name, "service.instance.id": instance}
        attributes = [{"key": k, "value": {"stringValue": v}} for k, v in keys.items()]
        span = {"traceId": "1" * 32, "spanId": f"{number + 1:016}", "startTimeUnixNano": "5"}
        scopes = [{"spans": [span | {"endTimeUnixNano": "9"}]}]
        groups.append({"resource": {"attributes": attributes}, "scopeSpans": scopes})
    # a document of one line, which ends
    path.write_text(json.dumps({"resourceSpans": groups}) + "\n\n")
    history = meantime.open(path)
    processes = {history.attributes.path(quark)[1] for quark in history.spans().threads.tolist()}
    assert processes == {"a b", "a c", "a b (2)"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"resourceSpans": [7]}', "line 1 is not an export"),
        (
            '[{"traceID": "1", "spanID": "2", "startTime": 1, "duration": "long"}]',
            "its duration is not an integer",
        ),
        ('[{"traceId": "1", "id": 2, "annotations": []}]', "an id is not text"),
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
