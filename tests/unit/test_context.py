"""What is around a selected thing, against the definitions in a few lines of Python."""

from __future__ import annotations

import pytest

from meantime.server.context import context
from meantime.server.lanes import LaneTree
from meantime.testing import history_from_picture, history_from_spans

CALLS = {
    "main": [("serve", 0, 1000), ("read", 100, 400), ("parse", 150, 300), ("read", 500, 900)],
    "pool": [("read", 200, 800), ("read", 900, 901)],
}


def test_of_every_span_callers_children_and_rank_are_those_of_the_definition() -> None:
    tree = LaneTree.of(history_from_spans(CALLS))
    lengths = sorted(
        (end - start for calls in CALLS.values() for name, start, end in calls if name == "read"),
        reverse=True,
    )
    for lane, row in enumerate(tree.lanes):
        for thread, calls in CALLS.items():
            if row.kind != "stack" or thread not in row.name:
                continue
            for name, start, end in calls:
                over = [each for each in calls if each[1] <= start and end <= each[2]]
                over.sort(key=lambda each: each[1] - each[2])
                depth = len(over) - 1
                found = context(tree, lane, depth, start)

                assert [each["name"] for each in found["callers"]] == [
                    each[0] for each in over[:-1]
                ]
                within = [each for each in calls if start <= each[1] and each[2] <= end]
                directly = [
                    each
                    for each in within
                    if sum(o[1] <= each[1] and each[2] <= o[2] for o in calls) == depth + 2
                ]
                directly.sort(key=lambda each: each[1] - each[2])
                assert [each["name"] for each in found["inside"]["hits"]] == [
                    each[0] for each in directly
                ]
                if name == "read":
                    standing = found["standing"]
                    assert standing["count"] == len(lengths)
                    assert standing["rank"] == 1 + lengths.index(end - start)
                    assert standing["total_ns"] == sum(lengths)
                    assert sum(standing["histogram"][1]) == len(lengths)


def test_a_state_stands_among_its_lane_and_knows_what_is_beside_it() -> None:
    tree = LaneTree.of(history_from_picture("a  xxyxyyyx"))
    lane = next(at for at, each in enumerate(tree.lanes) if each.kind == "state")

    found = context(tree, lane, 0, 4)

    assert (found["standing"]["of"], found["standing"]["count"]) == ("y", 2)
    assert (found["standing"]["rank"], found["standing"]["max_ns"]) == (1, 3)
    assert (found["previous"]["name"], found["next"]["name"]) == ("x", "x")
    assert found["callers"] == []


def test_where_nothing_is_there_is_an_error() -> None:
    tree = LaneTree.of(history_from_spans({"main": [("a", 0, 5), ("b", 50, 60)]}))
    lane = next(at for at, each in enumerate(tree.lanes) if each.kind == "stack")

    with pytest.raises(LookupError, match="nothing is at 20 ns"):
        context(tree, lane, 0, 20)
    with pytest.raises(LookupError, match="no lane 99"):
        context(tree, 99, 0, 0)
