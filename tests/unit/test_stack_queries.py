from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.errors import MeantimeError, TimeRangeError
from meantime.history.ingest import build
from meantime.query.durations import span_statistics
from meantime.query.stacks import callees, callers, difference, left_heavy, sample_tree, span_tree
from meantime.readers import open_trace
from meantime.testing import history_from_samples, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path


def test_statistics_by_category_and_by_thread_name_their_groups() -> None:
    history = history_from_spans({"one": [("a", 0, 4)], "two": [("b", 0, 2)]})

    assert span_statistics(history, "thread").keys == [
        "Processes/1/Threads/one",
        "Processes/1/Threads/two",
    ]
    assert span_statistics(history, "category").keys == [None]


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(TimeRangeError, match="is empty"):
        span_statistics(history_from_spans({"t": [("a", 0, 4)]}), start_ns=4, end_ns=4)


def test_durations_that_do_not_fit_together_are_refused() -> None:
    history = history_from_spans({"t": [("a", 0, 2**62), ("a", 1, 2**62), ("a", 2, 2**62)]})

    with pytest.raises(MeantimeError, match="add up to more than 2"):
        span_statistics(history)


def test_times_outside_the_range_are_cut_off_from_children_too() -> None:
    history = history_from_spans({"t": [("a", 0, 10), ("b", 2, 8)]})

    found = span_statistics(history, start_ns=5, end_ns=9)

    assert dict(zip(found.keys, found.self_ns.tolist(), strict=True)) == {"b": 3, "a": 1}


def test_recursive_calls_count_once_for_their_caller_and_themselves_as_callees() -> None:
    history = history_from_spans({"t": [("main", 0, 9), ("f", 1, 8), ("f", 2, 6), ("g", 3, 4)]})
    tree = span_tree(history.spans())

    assert callers(tree, "f") == [("main", 7, 1)]
    assert callees(tree, "f") == [("f", 4, 1), ("g", 1, 1)]
    assert callers(tree, "main") == [(None, 9, 1)]


def test_the_heaviest_callee_is_leftmost() -> None:
    history = history_from_spans(
        {"t": [("a", 0, 10), ("light", 1, 2), ("heavy", 3, 9), ("light", 9, 10)]}
    )
    tree = span_tree(history.spans())

    names = [tree.stacks.frames_of(row)[-1] for row in left_heavy(tree)]

    assert names == ["a", "heavy", "light"]


def test_a_difference_has_the_stacks_of_both() -> None:
    one = sample_tree(history_from_samples([(0, "t", ["a", "b"], 3)]).samples())
    two = sample_tree(history_from_samples([(0, "t", ["a", "c"], 5)]).samples())

    both = difference(one, two)

    change = both.after.total - both.before.total
    assert {
        "/".join(both.stacks.frames_of(row)): int(change[row]) for row in range(len(both.stacks))
    } == {"a": 2, "a/b": -3, "a/c": 5}


def test_annotations_that_overlap_calls_stay_inside_their_callers(root: Path) -> None:
    history = build(open_trace(root / "examples" / "training.json.gz"))

    statistics = span_statistics(history)
    tree = span_tree(history.spans())

    own = dict(zip(statistics.keys, statistics.self_ns.tolist(), strict=True))
    assert own["tp.py(12): <module>"] == 552_620
    roots = np.flatnonzero(tree.stacks.parent < 0)
    assert {tree.stacks.frames_of(row)[0]: int(tree.total[row]) for row in roots.tolist()} == {
        "tp.py(12): <module>": 5_046_029_060,
        "PyTorch Profiler (0)": 5_046_103_931,
    }
