"""Two runs on one page: their lanes in pairs, and what one has more of."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.errors import UsageError
from meantime.history import HistoryBuilder
from meantime.model.units import bin_edge
from meantime.server.lane_shares import MOST_BINS, lane_shares
from meantime.server.lanes import LaneTree
from meantime.server.onefile import page
from meantime.server.side_by_side import lane_pairs
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history import History

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=8)


def session_of(*sides: Any, **options: Any) -> Any:
    session = meantime.view(meantime.diff(*sides, **options))._session
    session.start()
    assert session.wait(600)
    return session


def document(*sides: Any, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = session_of(*sides, **options).document()
    return found


def lane_called(tree: LaneTree, name: str) -> int:
    return next(number for number, lane in enumerate(tree.lanes) if lane.name == name)


def covered(ranges: Sequence[tuple[int, int]], bins: int, start: int, end: int) -> list[float]:
    """Return the share of each bin by its definition: one nanosecond after the other."""
    edges = [bin_edge(start, end, bins, each) for each in range(bins + 1)]
    return [
        sum(low <= ns < high for low, high in ranges for ns in range(first, last)) / (last - first)
        for first, last in pairwise(edges)
    ]


@given(RANGES, st.integers(1, 9), st.integers(-9, 30), st.integers(9, 50))
def test_shares_of_spans_are_those_of_each_nanosecond(
    given_ranges: list[tuple[int, int]], bins: int, start: int, length: int
) -> None:
    time, ranges = 0, []
    for gap, wide in given_ranges:
        ranges.append((time + gap, time + gap + wide))
        time = ranges[-1][1]
    spans = [("a", *each) for each in ranges] + [("b", 0, time + 1)]
    tree = LaneTree.of(history_from_spans({"main": spans}))
    found = lane_shares(tree, [lane_called(tree, "main")], "a", (start, start + length), bins)

    assert found["shares"][0] == pytest.approx(
        covered(ranges, bins, start, start + length), abs=1e-5
    )


@given(st.lists(st.sampled_from("ab."), min_size=2, max_size=20), st.integers(1, 9))
def test_shares_of_states_are_those_of_each_nanosecond(states: list[str], bins: int) -> None:
    rows = "".join(states)
    history = history_from_picture(f"disk0  {rows}a\ndisk1  a{rows}")
    tree = LaneTree.of(history)
    ranges = [
        [(at, at + 1) for at, state in enumerate(line) if state == "a"]
        for line in (f"{rows}a", f"a{rows}")
    ]
    asked = -3, len(rows) + 7
    numbers = [lane_called(tree, name) for name in ("disk0", "disk1")]
    found = lane_shares(tree, numbers, "a", asked, bins)
    together = lane_shares(tree, [tree.lanes[numbers[0]].parent], "a", asked, bins)

    each = [covered(own, bins, *asked) for own in ranges]
    assert found["shares"] == [pytest.approx(own, abs=1e-5) for own in each]
    assert together["shares"][0] == pytest.approx(np.sum(each, axis=0), abs=2e-5)


def test_spans_that_contain_each_other_count_once() -> None:
    tree = LaneTree.of(history_from_spans({"main": [("a", 0, 10), ("a", 2, 8)]}))

    found = lane_shares(tree, [lane_called(tree, "main")], "a", (0, 20), 2)

    assert found["shares"] == [[1.0, 0.0]]


@pytest.mark.parametrize(("bins", "length"), [(0, 100), (MOST_BINS + 1, 10**6), (20, 10)])
def test_shares_of_too_many_or_too_narrow_bins_are_refused(bins: int, length: int) -> None:
    tree = LaneTree.of(history_from_picture("disk0  ab"))

    with pytest.raises(UsageError, match=r"at most 500 lanes|at least 1 ns"):
        lane_shares(tree, [1], "a", (0, length), bins)


def test_lanes_are_paired_as_a_comparison_matches_entities() -> None:
    before, after = (
        LaneTree.of(history_from_spans({name: [("a", 0, 5)] for name in names}))
        for names in (("main", "pool-7", "gone"), ("main", "pool-9", "new"))
    )

    pairs = lane_pairs(before, after)

    named = [(before.lanes[one].name, after.lanes[other].name) for one, other in pairs]
    assert ("main", "main") in named
    assert ("pool-7", "pool-9") in named
    assert not {"gone", "new"} & {name for pair in named for name in pair}
    others = lane_pairs(before, after, "gone|new")
    assert ("gone", "new") in [
        (before.lanes[one].name, after.lanes[other].name) for one, other in others
    ]


def test_the_page_has_the_comparison_and_the_runs_nearest_to_the_means() -> None:
    old = [history_from_picture(f"disk0  {line}") for line in ("aab", "aaaab", "aaab")]
    new = [history_from_picture("disk0  abb")]
    found = document(old, new)
    compared = meantime.compare(old, new)

    assert found["comparison"]["shown"] == [2, 0]
    assert found["comparison"]["runs"] == [3, 1]
    assert found["comparison"]["lanes_of"] == "state"
    assert [row["key"] for row in found["comparison"]["rows"]] == [
        list(row.key) for row in compared.rows
    ]
    assert [row["change"] for row in found["comparison"]["rows"]] == [
        row.change for row in compared.rows
    ]
    assert found["comparison"]["sentences"] == list(compared.sentences)
    assert len(found["files"]) == 2
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(("align", "offset_ns"), [("start", 5), ("end", 3), ("b", 4)])
def test_runs_are_aligned_as_the_picture_aligns_them(align: str, offset_ns: int) -> None:
    def run(start: int, states: str) -> History:
        builder = HistoryBuilder()
        builder.lanes("*", entity_kind="Disk")
        quark = builder.quark("disk0")
        for at, state in enumerate(states):
            builder.modify(start + at, quark, state)
        return builder.close(start + len(states))

    found = document(run(10, "aab"), run(5, "aaabb"), align=align)

    assert found["files"][1]["offset_ns"] == offset_ns
    assert found["files"][1]["aligned"] == "given"


def test_ranges_of_runs_are_what_the_page_is_about_first() -> None:
    history = history_from_picture("disk0  aabbabab")

    found = document([(history, 0, 3)], [(history, 4, 8)])

    assert found["comparison"]["range_ns"] == [0, 4]
    assert found["files"][1]["offset_ns"] == -4


def test_what_has_no_times_or_is_to_be_moved_is_refused() -> None:
    old, new = (history_from_picture(f"disk0  {line}") for line in ("aab", "abb"))

    with pytest.raises(UsageError, match="a summary has no times to show"):
        meantime.view(meantime.diff(meantime.summarize(old), new))
    with pytest.raises(UsageError, match="not for runs that are compared"):
        meantime.view(meantime.diff(old, new), follow=True)


def test_a_page_of_several_runs_knows_the_command_that_compares_them(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.json") for name in "abcd"]
    for number, file in enumerate(files):
        events = [{"ph": "X", "name": "a", "ts": 0, "dur": 9 + number, "pid": 1, "tid": 1}]
        Path(file).write_text(json.dumps(events), "utf-8")
    session = session_of(files[:2], files[2:], by="name", figure="median", align="end")

    inputs = session.document()["comparison"]["inputs"]
    options = ["--by", "name", "--figure", "median"]
    assert inputs == [[[files[0]], [files[1]]], [[files[2]], [files[3]]], options]
    # a page is handed on, and does not say where the files were
    text = b"".join(page(session, most_bytes=10**8)).decode()
    assert '"inputs":[[["a.json"],["b.json"]],[["c.json"],["d.json"]],' in text
    assert str(tmp_path) not in text
    history = history_from_picture("disk0  aab")
    assert document(history, files[0])["comparison"]["inputs"] is None
    assert document([(files[0], 0, 3)], files[1])["comparison"]["inputs"] is None


def test_the_page_in_one_file_has_the_comparison() -> None:
    sides = (history_from_spans({"main": [("a", 0, end)]}) for end in (10, 12))
    text = b"".join(page(session_of(*sides), most_bytes=10**8)).decode()

    head = text.partition('id="meantime-session">')[2].partition("</script>")[0]
    assert json.loads(head)["comparison"]["rows"][0]["key"] == ["a"]


def test_the_command_writes_a_page_of_two_sides(root: Path, tmp_path: Path) -> None:
    path = str(root / "examples" / "postgres.statemap.gz")
    output = tmp_path / "page.html"

    with pytest.raises(SystemExit, match=r"^0$"):
        main(["view", path, "--", path, "--by", "entity", "-o", str(output)])

    assert '"by":"entity"' in output.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.json", "--by", "state"], "--by does not apply to files that are not compared"),
        (["a.json", "--", "b.json", "--follow"], "--follow does not apply to runs"),
        (["a.json", "--"], "there is no run after the --"),
        (["--demo", "a.json", "--", "b.json"], "--demo does not apply to runs"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["view", *arguments])

    assert message in capsys.readouterr().err
