from __future__ import annotations

import numpy as np

from meantime.history.ingest import build
from meantime.model.attributes import PathTable
from meantime.model.trace import Arguments, ArgumentText, SpanFlag, Spans, Trace
from meantime.query.durations import span_statistics
from meantime.query.stacks import span_tree
from meantime.testing import history_from_samples, history_from_spans


def test_spans_are_nested_by_their_times_whatever_their_order() -> None:
    spans = history_from_spans({"main": [("c", 3, 4), ("a", 0, 10), ("b", 2, 5)]}).spans()

    assert spans.name.to_list() == ["a", "b", "c"]
    assert spans.depth.tolist() == [0, 1, 2]
    assert spans.parent.tolist() == [-1, 0, 1]
    assert spans.self_ns.tolist() == [7, 2, 1]


def test_partly_overlapping_spans_have_their_own_lane_and_are_counted() -> None:
    history = history_from_spans({"main": [("a", 0, 10), ("b", 5, 15), ("c", 11, 12)]})

    spans = history.spans()

    assert spans.lane.tolist() == [0, 1, 1]
    assert spans.parent.tolist() == [-1, -1, 1]
    assert dict(history.anomalies) == {"overlapping_span": 1}


def test_an_overlapping_span_stays_inside_the_span_that_contains_it() -> None:
    history = history_from_spans(
        {"main": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45)]}
    )

    spans = history.spans()

    assert spans.parent.tolist() == [-1, 0, 0, 2]
    assert spans.depth.tolist() == [0, 1, 1, 2]
    assert spans.lane.tolist() == [0, 0, 1, 1]
    assert spans.self_ns.tolist() == [60, 20, 10, 20]
    assert dict(history.anomalies) == {"overlapping_span": 1}
    statistics = span_statistics(history)
    assert dict(zip(statistics.keys, statistics.self_ns.tolist(), strict=True)) == {
        "P": 60,
        "a": 20,
        "b1": 20,
        "b": 10,
    }


def test_a_call_tree_counts_the_time_of_overlapping_spans_once() -> None:
    history = history_from_spans(
        {"main": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45)]}
    )

    tree = span_tree(history.spans())

    stacks = [tree.stacks.frames_of(row) for row in range(len(tree))]
    assert stacks == [["P"], ["P", "a"], ["P", "b"], ["P", "b", "b1"]]
    assert tree.total.tolist() == [100, 10, 30, 20]
    assert tree.own.tolist() == [60, 10, 10, 20]


def test_the_states_of_other_lanes_are_those_of_their_depths() -> None:
    history = history_from_spans(
        {"main": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45), ("e", 27, 27)]}
    )

    paths = [
        "/".join(history.attributes.path(int(quark))[4:])
        for quark in history.quarks("Processes/1/Threads/main/**")
        if history.has_values(np.array([quark], np.int32))[0]
    ]

    assert sorted(paths) == ["Lane/1/Stack/1", "Lane/1/Stack/2", "Stack/0", "Stack/1"]
    quark = history.quark("Processes", "1", "Threads", "main", "Lane", "1", "Stack", "2")
    assert [
        (start, end, value)
        for batch in history.interval_batches([quark])
        for _, start, end, value, _, _ in batch
    ] == [(0, 25, None), (25, 45, "b1"), (45, 100, None)]


def test_an_empty_span_at_the_end_of_its_parent_is_selected_without_it() -> None:
    structured = np.full(3, SpanFlag.STRUCTURED, np.uint8)
    batch = Spans(
        start_ns=np.array([0, 2, 10]),
        end_ns=np.array([20, 10, 10]),
        thread=np.zeros(3, np.int32),
        name=np.arange(3, dtype=np.int32),
        category=np.full(3, -1, np.int32),
        level=np.arange(3, dtype=np.int32),
        flags=structured,
    )
    trace = Trace("x", "list", iter([batch]), paths=PathTable([("t",)]), values=["a", "b", "c"])
    history = build(trace)

    spans = history.spans(start_ns=10)

    assert history.spans().parent.tolist() == [-1, 0, 1]
    assert spans.name.to_list() == ["a", "c"]
    assert spans.parent.tolist() == [-1, 0]


def test_touching_and_empty_spans_of_one_name_stay_apart() -> None:
    spans = history_from_spans({"main": [("a", 0, 5), ("a", 5, 9), ("a", 9, 9)]}).spans()

    assert spans.start_ns.tolist() == [0, 5, 9]
    assert spans.depth.tolist() == [0, 0, 0]


def test_a_selection_keeps_enclosing_spans_and_parents() -> None:
    history = history_from_spans(
        {"one": [("a", 0, 10), ("b", 1, 2), ("c", 4, 9), ("d", 5, 6)], "two": [("e", 5, 7)]}
    )

    spans = history.spans(start_ns=5, end_ns=6)

    assert spans.name.to_list() == ["a", "c", "d", "e"]
    assert spans.parent.tolist() == [-1, 0, 1, -1]
    assert history.spans([history.quark("Processes", "1", "Threads", "two")]).name.to_list() == [
        "e"
    ]


def test_threads_are_in_the_order_of_their_numbers() -> None:
    history = history_from_spans({"10": [("a", 0, 1)], "9": [("b", 0, 1)], "z": [("c", 0, 1)]})

    names = [history.attributes.name(quark) for quark in history.spans().threads]

    assert names == ["z", "9", "10"]


def test_the_history_covers_the_range_of_its_spans() -> None:
    history = history_from_spans({"main": [("a", -5, 3), ("b", 7, 7)]})

    assert (history.start_ns, history.end_ns, history.bounds) == (-5, 8, (-5, 8))


def test_arguments_are_read_from_the_file() -> None:
    batch = Spans(
        start_ns=np.array([5, 0]),
        end_ns=np.array([6, 9]),
        thread=np.zeros(2, np.int32),
        name=np.zeros(2, np.int32),
        category=np.array([0, -1], np.int32),
        level=np.zeros(2, np.int32),
        flags=np.zeros(2, np.uint8),
        arguments=Arguments(np.array([3, 0]), np.array([7, 0], np.int32)),
    )
    paths = PathTable([("t",)])
    trace = Trace("x", "list", iter([batch]), paths=paths, values=["a"], categories=["cat"])
    trace.text = ArgumentText(b'...{"a":1}')

    spans = build(trace).spans()

    assert [spans.arguments(row) for row in range(2)] == [None, '{"a":1}']
    assert spans.category.to_list() == [None, "cat"]


def test_samples_are_in_order_of_time_and_can_be_selected() -> None:
    history = history_from_samples(
        [(7, "b", ["x"], 2), (3, "a", ["x", "y"], 1), (9, "a", [], 1), (7, "a", ["y"], 4)]
    )

    samples = history.samples(start_ns=4, end_ns=9)

    assert samples.weight.tolist() == [2, 4]
    assert [samples.stacks.frames_of(stack) for stack in samples.stack] == [["x"], ["y"]]
    assert len(history.samples([int(samples.thread[0])])) == 1
