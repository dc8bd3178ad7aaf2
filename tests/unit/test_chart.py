"""What a flame chart has: every span, instants, counters, flows and arguments."""

from __future__ import annotations

import json
import zlib
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.cli import main
from meantime.errors import InputError, UsageError
from meantime.history.ingest import build
from meantime.readers import open_trace
from meantime.testing import history_from_samples, history_from_spans
from meantime.view_functions.flame import flame
from meantime.views.flame.arguments import ArgumentCollector
from meantime.views.flame.chart_page import page, render
from meantime.views.flame.merging import MERGED_NAME, MOST_SPANS
from meantime.views.flame.sample_chart import sample_chart
from meantime.views.flame.span_chart import chart

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.views.flame.chart import Chart
    from meantime.views.page import Page


def decoded(block: bytes) -> list[int]:
    values, value, shift = [], 0, 0
    for byte in zlib.decompress(block):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


def block(drawn: Page, name: str) -> bytes:
    found = drawn.blocks[name]
    assert isinstance(found, bytes)
    return found


def read_back(drawn: Page) -> dict[str, list[int]]:
    """Return the columns of a page as its script decodes them."""
    head = drawn.head
    assert isinstance(head, dict)
    columns = {name: decoded(block(drawn, name)) for name in ("gap", "length", "name", "parent")}
    start: list[int] = []
    box = 0
    for count in head["rows"]:
        end = 0
        for _ in range(count):
            start.append(end + columns["gap"][box])
            end = start[-1] + columns["length"][box]
            box += 1
    parents = np.cumsum([(step >> 1) ^ -(step & 1) for step in columns["parent"]]) - 1
    return {**columns, "start": start, "parent": parents.tolist()}


def history_of(events: list[dict[str, object]], tmp_path: Path) -> History:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    return build(open_trace(path))


def whole(history: History, most: int = MOST_SPANS) -> Chart:
    start_ns, end_ns = history.bounds
    return chart(history, title="t", start_ns=start_ns, end_ns=end_ns, most=most)


spans = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 200), st.integers(0, 60)).map(
        lambda span: (span[0], span[1], span[1] + span[2])
    ),
    min_size=1,
    max_size=40,
)


@given(st.dictionaries(st.sampled_from(["main", "pool"]), spans, min_size=1))
def test_a_page_has_every_span_with_its_caller(given_spans: dict[str, list[object]]) -> None:
    history = history_from_spans(given_spans)  # type: ignore[arg-type]  # hypothesis hides them
    drawn = whole(history)

    columns = read_back(page(drawn))

    table = history.spans()
    origin = history.bounds[0]
    expected = [
        (int(s) - origin, int(e) - int(s), -1 if p < 0 else (int(table.start_ns[p]) - origin))
        for s, e, p in zip(table.start_ns, table.end_ns, table.parent, strict=True)
    ]
    found = [
        (start, length, -1 if parent < 0 else columns["start"][parent])
        for start, length, parent in zip(
            columns["start"], columns["length"], columns["parent"], strict=True
        )
    ]
    assert sorted(found) == sorted(expected)
    assert drawn.start.tolist() == columns["start"]


@given(st.dictionaries(st.sampled_from(["main", "pool"]), spans, min_size=1))
def test_boxes_of_a_row_ascend_and_never_overlap(given_spans: dict[str, list[object]]) -> None:
    drawn = whole(history_from_spans(given_spans))  # type: ignore[arg-type]  # as above

    edges = drawn.row_start.tolist()
    for first, last in pairwise(edges):
        ends = (drawn.start + drawn.length)[first:last]
        assert (drawn.start[first + 1 : last] >= ends[:-1]).all()


def test_too_many_spans_are_merged_and_the_page_says_how_many() -> None:
    short = [("tick", 10 * i, 10 * i + 4) for i in range(1000)]
    history = history_from_spans({"main": [("all", 0, 100_000), *short]})

    drawn = whole(history, most=100)

    assert len(drawn) <= 100
    assert drawn.represented("spans") == 1001
    assert drawn.frames[drawn.frame[1]] == MERGED_NAME
    # the busy time of each row stays the same
    assert drawn.length[drawn.row == 1].sum() == 4000
    assert drawn.own.sum() == 100_000
    assert b"999 of 1,001 spans, each shorter than 8ns, are merged" in render(drawn)


EVENTS: list[dict[str, object]] = [
    {"ph": "X", "name": "load", "ts": 0, "dur": 10, "pid": 1, "tid": 1, "args": {"url": "/a"}},
    {"ph": "X", "name": "load", "ts": 20, "dur": 10, "pid": 1, "tid": 1, "args": {"url": "/b"}},
    {"ph": "X", "name": "load", "ts": 40, "dur": 10, "pid": 1, "tid": 2, "args": {"url": "/a"}},
    {"ph": "i", "name": "click", "ts": 5, "pid": 1, "tid": 1, "s": "t", "args": {"x": 3}},
    {"ph": "C", "name": "memory", "ts": 0, "pid": 1, "args": {"used": 7}},
    {"ph": "C", "name": "memory", "ts": 30, "pid": 1, "args": {"used": 2.5}},
    {"ph": "s", "name": "sent", "id": 1, "ts": 5, "pid": 1, "tid": 1},
    {"ph": "f", "name": "sent", "id": 1, "ts": 41, "pid": 1, "tid": 2, "bp": "e"},
    {"ph": "b", "name": "get", "cat": "net", "id": 1, "ts": 1, "pid": 1, "tid": 1},
    {"ph": "b", "name": "get", "cat": "net", "id": 2, "ts": 2, "pid": 1, "tid": 1},
    {"ph": "e", "name": "get", "cat": "net", "id": 1, "ts": 8, "pid": 1, "tid": 1},
    {"ph": "e", "name": "get", "cat": "net", "id": 2, "ts": 9, "pid": 1, "tid": 1},
]


def test_instants_counters_flows_and_operations_are_in_a_chart(tmp_path: Path) -> None:
    drawn = whole(history_of(EVENTS, tmp_path))

    assert [(panel.title, panel.kind, panel.rows) for panel in drawn.panels] == [
        ("1 / 1", "spans", 1),
        ("1 / 2", "spans", 1),
        ("1 / net", "async", 2),
        ("1 / 1: instants", "instants", 1),
    ]
    [counter] = drawn.counters
    assert (counter.title, counter.process) == ("memory/used", "1")
    assert (counter.time.tolist(), counter.value.tolist()) == ([0, 30_000], [7, 2.5])
    assert drawn.flows is not None
    assert (drawn.flows.from_time.tolist(), drawn.flows.to_time.tolist()) == ([5000], [41_000])
    assert (drawn.flows.from_panel.tolist(), drawn.flows.to_panel.tolist()) == ([0], [1])
    assert b"5 spans, 1 instants, 1 counters, 1 flows on 2 threads" in render(drawn)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 30)), min_size=1, max_size=20))
def test_operations_of_a_row_ascend_and_never_overlap(times: list[tuple[int, int]]) -> None:
    events = [
        {"ph": ph, "name": "get", "cat": "net", "id": id_, "ts": ts, "pid": 1, "tid": 1}
        for id_, (start, length) in enumerate(times)
        for ph, ts in (("b", start), ("e", start + length))
    ]
    with TemporaryDirectory() as folder:
        drawn = whole(history_of(events, Path(folder)))

    columns = read_back(page(drawn))
    assert sorted(zip(columns["start"], columns["length"], strict=True)) == sorted(
        ((start - min(times)[0]) * 1000, length * 1000) for start, length in times
    )
    assert drawn.start.tolist() == columns["start"]


def test_equal_arguments_are_in_a_page_once(tmp_path: Path) -> None:
    drawn = page(whole(history_of(EVENTS, tmp_path)))

    texts = json.loads(zlib.decompress(block(drawn, "texts")))
    assert [json.loads(text) for text in texts] == [{"url": "/a"}, {"url": "/b"}, {"x": 3}]
    assert decoded(block(drawn, "argument")) == [1, 2, 1, 0, 0, 3]


def test_arguments_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    table = history_of(EVENTS, tmp_path).spans()
    length = table.arguments_length.astype(np.int64)
    collector = ArgumentCollector(most_bytes=int(length.max()))

    collector.add(table.text, table.arguments_offset, length, length)

    assert collector.result().left_out == 1


def test_labels_have_the_value_of_an_argument(tmp_path: Path) -> None:
    drawn = flame(history_of(EVENTS, tmp_path), chart=True, label_arg="url", title="t")

    text = b"".join(drawn.render("svg")).decode()

    assert ">load · /a</text>" in text
    assert '"label":"url"' in text


def test_a_label_of_arguments_needs_a_chart() -> None:
    history = history_from_spans({"main": [("a", 0, 9)]})

    with pytest.raises(UsageError, match="label_arg applies to charts"):
        flame(history, label_arg="url")


def test_the_command_line_writes_labels(tmp_path: Path) -> None:
    history_of(EVENTS, tmp_path)
    out = tmp_path / "out.svg"

    with pytest.raises(SystemExit) as stopped:
        main(
            ["flame", str(tmp_path / "trace.json"), "--chart", "--label-arg", "url", "-o", str(out)]
        )

    assert stopped.value.code == 0
    assert "load · /b" in out.read_text()


def boxes_of(drawn: Chart) -> list[tuple[str, int, int, int, int]]:
    assert drawn.count is not None
    return [
        (drawn.frames[frame], *numbers)
        for frame, *numbers in zip(
            drawn.frame.tolist(),
            drawn.row.tolist(),
            drawn.start.tolist(),
            drawn.length.tolist(),
            drawn.count.tolist(),
            strict=True,
        )
    ]


def test_equal_frames_of_samples_in_a_row_are_one_box() -> None:
    rows = [
        (0, "t", ["main", "read"], 1),
        (10, "t", ["main", "read"], 1),
        (20, "t", ["main", "write"], 1),
        (30, "t", ["other", "write"], 1),
    ]

    drawn = sample_chart(history_from_samples(rows), title="t", start_ns=0, end_ns=35)

    assert boxes_of(drawn) == [
        ("main", 0, 0, 30, 3),
        ("other", 0, 30, 5, 1),
        ("read", 1, 0, 20, 2),
        ("write", 1, 20, 10, 1),
        ("write", 1, 30, 5, 1),
    ]
    assert drawn.parent.tolist() == [-1, -1, 0, 0, 1]
    assert drawn.own.tolist() == [0, 0, 20, 10, 5]


def test_gaps_of_more_than_three_intervals_stay_gaps() -> None:
    times = [0, 10, 20, 60, 70, 200, 210]
    history = history_from_samples([(time, "t", ["main"], 1) for time in times])

    drawn = sample_chart(history, title="t", start_ns=0, end_ns=220)

    assert boxes_of(drawn) == [("main", 0, 0, 80, 5), ("main", 0, 200, 20, 2)]


def test_samples_of_several_threads_are_lanes_of_their_own() -> None:
    rows = [(0, "t", ["a", "b"], 1), (5, "u", ["a", "b"], 1), (10, "t", ["a"], 1)]

    drawn = sample_chart(history_from_samples(rows), title="t", start_ns=0, end_ns=20)

    assert [(panel.title, panel.kind, panel.rows) for panel in drawn.panels] == [
        ("1 / t", "samples", 2),
        ("1 / u", "samples", 2),
    ]
    assert drawn.parent.tolist() == [-1, 0, -1, 2]
    assert b"2 threads" in render(drawn)
    assert b"3 samples" in render(drawn)


def test_a_chart_of_samples_is_drawn_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out.svg"
    (tmp_path / "perf.txt").write_text(
        "".join(f"work 7 [000] {i}.000000: 1000000 cpu-clock: \n\t1 main (app)\n\n" for i in (1, 2))
    )

    with pytest.raises(SystemExit) as stopped:
        main(["flame", str(tmp_path / "perf.txt"), "--chart", "-o", str(out)])

    assert stopped.value.code == 0
    assert "2 samples" in out.read_text()


def test_samples_without_stacks_are_no_chart() -> None:
    history = history_from_samples([(0, "t", [], 1), (10, "t", [], 1)])

    with pytest.raises(InputError, match="no sample has a stack"):
        flame(history, chart=True)


def test_instants_of_a_trace_that_counts_from_boot_are_inside_the_chart(tmp_path: Path) -> None:
    boot_us = 4_393_840_505_045
    events = [
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": boot_us, "dur": 10},
        {"ph": "i", "name": "now", "pid": 1, "tid": 1, "ts": boot_us + 5},
    ]
    path = tmp_path / "boot.json"
    path.write_text(json.dumps(events))
    history = build(open_trace(path))

    drawn = chart(history, title="t", start_ns=boot_us * 1000, end_ns=boot_us * 1000 + 10_000)

    assert drawn.start.tolist() == [0, 5000]
    head = page(drawn).head
    assert isinstance(head, dict)
    assert head["origin"] == "0"
