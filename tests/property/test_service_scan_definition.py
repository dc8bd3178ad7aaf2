"""Scanned exports of OpenTelemetry, against what Python reads of the same."""

from __future__ import annotations

import base64
import json
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.kernels.service_rows import (
    LINK,
    ROW,
    generations,
    grouped,
    lanes_of_groups,
    open_counts,
    relate,
)
from meantime.model.service_spans import parents, rows_by_id
from meantime.readers import otlp
from meantime.readers.contract import ReadOptions
from meantime.readers.services.lanes import lanes_of
from meantime.readers.source import open_source

if TYPE_CHECKING:
    from pathlib import Path

START_NS = 1_700_000_000_000_000_000


def read(path: Path, *, lenient: bool = False) -> Any:
    """Return all that an input has, in the order in which it is delivered; or what is wrong."""
    trace = otlp.read(open_source(path), ReadOptions(lenient=lenient))
    found: list[Any] = []
    try:
        for batch in trace.batches:
            rows: dict[str, list[Any]] = {}
            for name in map(str, vars(type(batch))["__slots__"]):
                column = getattr(batch, name)
                if column is None or isinstance(column, np.ndarray):
                    rows[name] = [] if column is None else column.tolist()
                elif name == "arguments":
                    pairs = zip(column.offset.tolist(), column.length.tolist(), strict=True)
                    rows[name] = [trace.text.decode(*pair) for pair in pairs]
            for name, table in (
                ("thread", trace.paths),
                ("entity", trace.paths),
                ("from_entity", trace.paths),
                ("to_entity", trace.paths),
                ("name", trace.values),
                ("state", trace.values),
                ("category", trace.categories),
            ):
                if name in rows:
                    rows[name] = [None if each < 0 else table[each] for each in rows[name]]
            found.append((type(batch).__name__, rows))
    except InputError as error:
        return str(error)
    return found, dict(trace.anomalies), trace.records, trace.facts, trace.sort_keys


def defined(path: Path, **more: bool) -> Any:
    """Return the same as `read` without the scanner."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("scan_text", "scan_message"):
            patch.setattr(otlp, name, lambda _data, _collected: False)
        return read(path, **more)


@pytest.mark.parametrize(
    "name", ["example.otlp.json", "orders.otlp.delimited.bin.gz", "orders.otlp.jsonl.gz"]
)
def test_samples_are_scanned_as_python_reads_them(samples: Path, name: str) -> None:
    path = samples / "services" / name
    with pytest.MonkeyPatch.context() as patch:
        # nothing but a scanner adds spans
        patch.delattr(otlp, "add_document")
        scanned = read(path)
    assert scanned == defined(path)


texts = st.sampled_from(["", "a", "GET /", "ä✓", 'a "q"\n', "\x01\u007f\\/", "thread.id", "😀" * 3])
keys = st.sampled_from(
    ["http.route", "status", "status.message", "thread.id", "process.command_line", "a", "ä", 'k"']
)
numbers = st.sampled_from(
    [0, 1, -1, 2**63 - 1, -(2**63), 0.5, 1.0, 1e22, 1e-7, 0.1 + 0.2, -0.0, 123456789.125, 5e-324]
)
scalars: st.SearchStrategy[dict[str, Any]] = st.one_of(
    texts.map(lambda text: {"stringValue": text}),
    texts.map(lambda text: {"string_value": text}),
    st.booleans().map(lambda value: {"boolValue": value}),
    st.sampled_from(["7", "-7", "0", "007", 7, "9" * 19, 2**70]).map(lambda n: {"intValue": n}),
    st.one_of(numbers, st.just("NaN")).map(lambda value: {"doubleValue": value}),
    st.sampled_from([{}, {"bytesValue": "AAE="}, {"other": 1}, {"stringValue": "a", "x": 1}]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda found: {"arrayValue": {"values": found}}),
        st.lists(st.tuples(keys, inner), max_size=2).map(
            lambda pairs: {"kvlistValue": {"values": [{"key": k, "value": v} for k, v in pairs]}}
        ),
    ),
    max_leaves=4,
)
attributes = st.lists(
    st.tuples(keys, values).map(lambda pair: {"key": pair[0], "value": pair[1]}), max_size=4
)
span_ids = st.sampled_from(["00000000000000a1", "00000000000000B2", "0" * 16, "a1", ""])
trace_ids = st.sampled_from(["0" * 31 + "1", "AB" * 16, "0" * 32, "a1", "AAAAAAAAAAAAAAAAAAAAAQ=="])
times = st.one_of(
    st.integers(START_NS, START_NS + 9).map(str),
    st.integers(START_NS, START_NS + 9),
    st.sampled_from(["0", 0, "", str(2**63 - 1), "0" * 3 + str(START_NS)]),
)
events = st.fixed_dictionaries(
    {"timeUnixNano": times},
    optional={
        "name": st.one_of(texts, st.just("exception")),
        "attributes": attributes,
        "droppedAttributesCount": st.integers(0, 3),
    },
)
links = st.fixed_dictionaries({"traceId": trace_ids, "spanId": span_ids}, optional={"flags": texts})
usual = st.fixed_dictionaries(
    {
        "traceId": st.just("AB" * 16),
        "spanId": st.sampled_from([f"{number:016x}" for number in range(1, 9)]),
        "startTimeUnixNano": st.integers(START_NS, START_NS + 9).map(str),
        "endTimeUnixNano": st.integers(START_NS + 9, START_NS + 19).map(str),
    },
    optional={
        "parentSpanId": st.sampled_from([f"{number:016X}" for number in range(9)]),
        "name": texts,
        "kind": st.integers(0, 5),
        "attributes": attributes,
        "events": st.lists(events, max_size=2),
        "flags": st.just({"any": [1, None]}),
    },
)
odd = st.fixed_dictionaries(
    {"traceId": trace_ids, "spanId": span_ids, "startTimeUnixNano": times},
    optional={
        "endTimeUnixNano": times,
        "parentSpanId": span_ids,
        "name": texts,
        "kind": st.sampled_from([0, 3, "SPAN_KIND_SERVER", "SPAN_KIND_ODD", "2", 7]),
        "status": st.sampled_from(
            [{}, {"code": 2}, {"code": "STATUS_CODE_ERROR", "message": "ä\n"}, {"code": 1}, None]
        ),
        "attributes": attributes,
        "events": st.lists(events, max_size=2),
        "links": st.lists(links, max_size=2),
        "dropped_attributes_count": st.just(2),
        "droppedLinksCount": st.sampled_from([0, 5, "6", -1]),
    },
)
scopes = st.fixed_dictionaries(
    {"spans": st.lists(st.one_of(usual, odd), max_size=4)},
    optional={"schemaUrl": st.just("x")},
).flatmap(
    lambda scope: st.sampled_from(
        [{"scope": {"name": "lib"}, **scope}, {"scope": {}, **scope}, scope]
    )
)


def resource(name: str, pid: int) -> dict[str, Any]:
    return {
        "attributes": [
            {"key": "service.name", "value": {"stringValue": name}},
            {"key": "process.pid", "value": {"intValue": str(pid)}},
        ]
    }


groups = st.builds(
    lambda found, kind: (
        {"scopeSpans": found}
        if kind == 0
        else {"scopeSpans": found, "resource": resource("late", 1)}
        if kind == 1
        else {"resource": resource("api", kind), "scopeSpans": found}
    ),
    st.lists(scopes, max_size=2),
    st.integers(0, 5),
)
documents = st.lists(groups, max_size=2).map(lambda found: {"resourceSpans": found})


def spelled(value: Any, spelling: str) -> Any:
    """Return a document with the names of fields in snake case, or with its ids in base64."""
    if isinstance(value, list):
        return [spelled(each, spelling) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, each in value.items():
        inner = spelled(each, spelling)
        if spelling == "base64" and key in {"traceId", "spanId", "parentSpanId"}:
            if len(each) in {16, 32}:
                inner = base64.b64encode(bytes.fromhex(each)).decode()
        elif spelling == "snake":
            key = "".join(f"_{c.lower()}" if c.isupper() else c for c in key)  # noqa: PLW2901 - of the copy
        found[key] = inner
    return found


@pytest.mark.parametrize("spelling", ["snake", "base64"])
def test_other_spellings_are_scanned(tmp_path: Path, samples: Path, spelling: str) -> None:
    value = json.loads((samples / "services" / "example.otlp.json").read_text())
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(value))
    expected = read(path)
    path.write_text(json.dumps(spelled(value, spelling)))
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(otlp, "add_document")
        assert read(path) == expected


@settings(max_examples=30)
@given(
    found=st.lists(documents, min_size=1, max_size=2),
    spelling=st.sampled_from(["", "", "snake", "base64"]),
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
    lenient=st.booleans(),
    cut=st.integers(0, 400),
)
def test_json_is_scanned_as_python_reads_it(  # noqa: PLR0917 - drawn
    tmp_path_factory: pytest.TempPathFactory,
    found: list[Any],
    spelling: str,
    indent: int | None,
    is_ascii: bool,  # noqa: FBT001 - drawn
    lenient: bool,  # noqa: FBT001 - drawn
    cut: int,
) -> None:
    path = tmp_path_factory.mktemp("scanned") / "spans.json"
    text = "\n".join(
        json.dumps(spelled(each, spelling), indent=indent, ensure_ascii=is_ascii) for each in found
    )
    path.write_text(text[: -cut or None] if cut > 350 else text + "\n", errors="surrogatepass")
    assert read(path, lenient=lenient) == defined(path, lenient=lenient)


def encoded(number: int, value: int | tuple[int] | bytes) -> bytes:
    """Return a field of protobuf: bytes, a number, or a number of eight bytes as a tuple of one."""

    def varint(left: int) -> bytes:
        found = b""
        while left > 127:
            found += bytes([left & 127 | 128])
            left >>= 7
        return found + bytes([left])

    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    if isinstance(value, tuple):
        return varint(number << 3 | 1) + value[0].to_bytes(8, "little")
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(choices: dict[int, Any]) -> st.SearchStrategy[bytes]:
    """Return messages of some of these fields, in any order, some of them twice."""
    field = st.one_of(
        *(
            strategy.map(lambda value, number=number: encoded(number, value))
            for number, strategy in choices.items()
        )
    )
    return st.lists(field, max_size=5).map(b"".join)


strings = st.sampled_from([b"", b"a", 'ä\n"'.encode(), b"\xff", b"status", b"thread.id"])
any_values = fields(
    {
        1: strings,
        2: st.integers(0, 2),
        3: st.integers(-(2**63), 2**63 - 1),
        4: st.sampled_from([(0,), (0x3FE0000000000000,), (0x7FF0000000000000,), (1,)]),
        5: st.just(encoded(1, encoded(3, 7))),
        6: st.just(encoded(1, encoded(1, b"k") + encoded(2, encoded(1, b"v")))),
        7: st.just(b"\x00\xab"),
    }
)
one_value = st.one_of(any_values, strings.map(lambda text: encoded(1, text)))
pairs = st.builds(lambda key, value: encoded(1, key) + encoded(2, value), strings, one_value)
bytes_of_span = st.one_of(
    fields(
        {
            3: strings,
            4: st.sampled_from([b"", bytes(8), bytes(7) + b"\1"]),
            5: strings,
            6: st.integers(0, 7),
            9: pairs,
            10: st.integers(0, 2),
            11: fields({1: st.just((START_NS + 3,)), 2: strings, 3: pairs, 9: strings}),
            13: st.just(encoded(1, b"\xab" * 16) + encoded(2, bytes(7) + b"\1")),
            15: fields({2: strings, 3: st.integers(0, 3)}),
            16: st.integers(0, 3),
        }
    ),
).map(
    lambda more: (
        encoded(1, b"\xab" * 16)
        + encoded(2, bytes(7) + bytes([1 + len(more) % 3]))
        + encoded(7, (START_NS + len(more) % 5,))
        + encoded(8, (START_NS + 5,))
        + more
    )
)
messages = st.builds(
    lambda spans, kind: encoded(
        1,
        (
            encoded(1, encoded(1, encoded(1, b"service.name") + encoded(2, encoded(1, b"api"))))
            * kind
        )
        + encoded(
            2, encoded(1, encoded(1, b"lib")) * kind + b"".join(encoded(2, s) for s in spans)
        ),
    ),
    st.lists(bytes_of_span, min_size=1, max_size=4),
    st.sampled_from([1, 1, 0, 2]),
)


@settings(max_examples=30)
@given(
    found=st.lists(messages, min_size=1, max_size=2),
    lenient=st.booleans(),
    at=st.integers(0, 400),
    byte=st.integers(0, 255),
)
def test_protobuf_is_scanned_as_python_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[bytes],
    lenient: bool,  # noqa: FBT001 - drawn
    at: int,
    byte: int,
) -> None:
    path = tmp_path_factory.mktemp("scanned") / "spans.bin"
    data = bytearray(b"".join(len(each).to_bytes(4, "big") + each for each in found))
    if 60 < at < len(data):
        data[at] = byte
    path.write_bytes(data)
    assert read(path, lenient=lenient) == defined(path, lenient=lenient)


def lanes_defined(
    start: list[int], end: list[int], parent: list[int]
) -> tuple[list[int], list[int]]:
    """Return what `lanes_of` does, by lists of what is open in each lane."""
    lanes, levels = [0] * len(start), [0] * len(start)
    open_in: list[list[int]] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for row, above in enumerate(parent):
        while busy and busy[0][0] <= start[row]:
            lane = heappop(busy)[1]
            open_in[lane].clear()
            heappush(free, lane)
        if 0 <= above < row:
            stack = open_in[lanes[above]]
            while stack and end[stack[-1]] <= start[row]:
                stack.pop()
            if stack and stack[-1] == above and end[row] <= end[above]:
                lanes[row], levels[row] = lanes[above], len(stack)
                stack.append(row)
                continue
        if free:
            lane = heappop(free)
        else:
            lane = len(open_in)
            open_in.append([])
        open_in[lane].append(row)
        lanes[row] = lane
        heappush(busy, (end[row], lane))
    return lanes, levels


@given(
    found=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 9), st.integers(-1, 11)), max_size=12
    )
)
def test_lanes_are_as_defined(found: list[tuple[int, int, int]]) -> None:
    found = sorted(found, key=lambda each: (each[0], -each[1]))
    start = [each[0] for each in found]
    end = [each[0] + each[1] for each in found]
    parent = [each[2] if each[2] < len(found) else -1 for each in found]
    lanes, levels = lanes_of(np.array(start), np.array(end), np.array(parent))
    assert (lanes.tolist(), levels.tolist()) == lanes_defined(start, end, parent)


@given(
    found=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 9), st.integers(-1, 11), st.integers(0, 2)),
        max_size=12,
    )
)
def test_lanes_of_groups_are_those_of_each_alone(found: list[tuple[int, int, int, int]]) -> None:
    start = np.array([each[0] for each in found], np.int64)
    end = start + np.array([each[1] for each in found], np.int64)
    parent = np.array([each[2] if each[2] < len(found) else -1 for each in found], np.int64)
    codes = np.array([each[3] for each in found], np.int32)
    order = np.lexsort((-end, start))
    rows, edges = grouped(codes, order, 3)
    groups = [rows[edges[code] : edges[code + 1]] for code in range(3)]
    assert [group.tolist() for group in groups] == [
        [row for row in order.tolist() if codes[row] == code] for code in range(3)
    ]
    level = np.zeros(len(found), np.int32)
    for group, lanes in zip(
        groups, lanes_of_groups(start, end, parent, groups, level), strict=True
    ):
        places = {row: place for place, row in enumerate(group.tolist())}
        above = [places.get(row, -1) for row in parent[group].tolist()]
        expected = lanes_defined(start[group].tolist(), end[group].tolist(), above)
        assert (lanes.tolist(), level[group].tolist()) == expected


@given(
    found=st.lists(
        st.tuples(*(st.integers(0, 3) for _ in range(4)), st.integers(0, 7)), max_size=20
    )
)
def test_parents_are_as_defined(found: list[tuple[int, int, int, int, int]]) -> None:
    rows = np.zeros(len(found), ROW)
    ids, parent_ids = [], []
    for number, (trace, own, above, service, forms) in enumerate(found):
        rows[number]["trace_low"], rows[number]["span"] = trace, own
        rows[number]["parent"], rows[number]["resource"] = above, service
        rows[number]["forms"] = forms
        ids.append((f"{trace} {forms & 1}", f"{own} {forms >> 1 & 1}"))
        parent_ids.append(f"{above} {forms >> 2}" if above or forms >> 2 else "")
    links = np.zeros(len(found), LINK)
    links["trace_low"], links["span"], links["forms"] = 1, rows["parent"], rows["forms"]
    of_id = rows_by_id(ids)
    expected, missing = parents(ids, parent_ids, rows["resource"].tolist(), of_id)
    first = [
        of_id.get((f"1 {forms & 1}", f"{parent} {forms >> 1 & 1}"), [-1])[0]
        for _, _, parent, _, forms in found
    ]
    parent, linked, count, without = relate(rows, links)
    assert parent.tolist() == expected.tolist()
    assert linked.tolist() == first
    assert (count, without) == (len(of_id), missing)


@given(above=st.lists(st.integers(-1, 9), max_size=10))
def test_generations_count_ancestors(above: list[int]) -> None:
    parent = np.array([each if each < len(above) else -1 for each in above], np.int64)
    cut = parent.copy()
    generation, cycles = generations(cut)
    assert cycles == np.count_nonzero(cut != parent)
    assert np.all(cut[cut != parent] == -1)
    for row, count in enumerate(generation.tolist()):
        assert count == (generation[cut[row]] + 1 if cut[row] >= 0 else 0)
    # nothing but a cycle is cut
    for row in np.flatnonzero(cut != parent).tolist():
        at, passed = int(parent[row]), 0
        while at != row and passed <= len(above):
            at, passed = int(parent[at]), passed + 1
        assert at == row


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 10)), min_size=1, max_size=30))
def test_open_spans_are_counted_where_that_changes(spans: list[tuple[int, int]]) -> None:
    starts, ends = sorted(a for a, _ in spans), sorted(a + length for a, length in spans)
    expected: list[tuple[int, int]] = []
    for time in sorted({*starts, *ends}):
        count = sum(a <= time for a in starts) - sum(b <= time for b in ends)
        if not expected or expected[-1][1] != count:
            expected.append((time, count))
    times, counts = open_counts(np.array(starts), np.array(ends), starts[0])
    assert [*zip(times.tolist(), counts.tolist(), strict=True)] == expected
