"""`meantime.compare` and `meantime diff`: what changed from some runs to others."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.query.compare import compared
from meantime.query.compare.certainty import adjusted, changes, divisions, most_rows
from meantime.query.compare.grouping import Entity
from meantime.query.compare.matching import matched
from meantime.query.compare.timelines import timelines
from meantime.query.parts import part_of
from meantime.testing import history_from_picture, history_from_samples, history_from_spans
from meantime.views.comparison.colors import LESS, MORE
from meantime.views.palette import RGB, parse

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History
    from meantime.query.compare import Comparison
    from meantime.query.compared_by import By

PARTS = {"parse": 100, "wait": 300, "query": 500, "render": 200}


def run(seed: int, slower: dict[str, float] | None = None) -> History:
    """Return a run of 40 requests of four parts, which vary by 15 % and all by 2 % in a run."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(1, 0.02)
    spans, time_ns = [], 0
    for _ in range(40):
        begin_ns = time_ns
        for name, usual in PARTS.items():
            length = usual * generator.normal(1, 0.15) * noise * (slower or {}).get(name, 1)
            spans.append((name, time_ns, time_ns + max(1, round(length * 1000))))
            time_ns = spans[-1][2]
        spans.append(("request", begin_ns, time_ns))
    return history_from_spans({"main": spans})


def runs(first: int, count: int, **slower: float) -> list[meantime.History | Any]:
    return [run(seed, slower) for seed in range(first, first + count)]


def values(found: Comparison) -> dict[str, float | None]:
    return {" ".join(row.key): row.relative for row in found.rows}


def tails(before: list[int], after: list[int]) -> float:
    """Return the probability by its definition: twice the smaller tail of all divisions."""
    every = [*before, *after]

    def change(chosen: tuple[int, ...]) -> int:
        own = sum(every[at] for at in chosen)
        return own * len(before) - (sum(every) - own) * len(after)

    ways = [change(each) for each in combinations(range(len(every)), len(after))]
    given = change(tuple(range(len(before), len(every))))
    least = min(sum(each >= given for each in ways), sum(each <= given for each in ways))
    return min(1.0, 2 * least / len(ways))


SIDE = st.lists(st.integers(-1000, 1000), min_size=1, max_size=5)


@given(SIDE, SIDE)
def test_probabilities_are_those_of_all_divisions(before: list[int], after: list[int]) -> None:
    found = changes(np.array([before], np.float64), np.array([after], np.float64))

    assert found.probability[0] == pytest.approx(tails(before, after))


@given(
    st.lists(st.integers(-1000, 1000), min_size=4, max_size=5),
    st.lists(st.integers(-1000, 1000), min_size=4, max_size=5),
)
def test_an_interval_has_the_sizes_that_a_test_does_not_rule_out(
    before: list[int], after: list[int]
) -> None:
    found = changes(np.array([before], np.float64), np.array([after], np.float64))
    low, high = found.low[0], found.high[0]

    def probability(size: float) -> float:
        less = np.array([after], np.float64) - size
        return float(changes(np.array([before], np.float64), less).probability[0])

    middle = (low + high) / 2
    beyond = 1e-3 + 1e-9 * (abs(low) + abs(high))
    assert low <= high
    if high - low > 2 * beyond:
        assert probability(middle) > 0.05
    assert probability(low - beyond) <= 0.05
    assert probability(high + beyond) <= 0.05


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8))
def test_corrected_probabilities_are_those_of_benjamini_and_hochberg(given: list[float]) -> None:
    found = adjusted(np.array(given))

    for own, corrected in zip(given, found.tolist(), strict=True):
        # the least level at which the procedure keeps this one
        expected = min(
            1.0,
            *(each * len(given) / sum(x <= each for x in given) for each in given if each >= own),
        )
        assert corrected == pytest.approx(expected)


def test_many_runs_are_divided_at_random_and_always_alike() -> None:
    found = divisions(10, 10)

    assert found.shape == (10_000, 20)
    assert found[0].tolist() == [False] * 10 + [True] * 10
    assert (found.sum(axis=1) == 10).all()
    assert (found == divisions(10, 10)).all()


def test_a_planted_change_is_found_in_its_row_alone() -> None:
    found = meantime.compare(runs(0, 10), runs(100, 10, wait=1.1))

    assert {row.key for row in found.changed} == {("wait",), ()}
    wait = next(row for row in found.rows if row.key == ("wait",))
    assert wait.interval is not None
    assert wait.interval.low < 0.1 < wait.interval.high
    (whole,) = found.wholes
    assert whole.is_noticeable == (abs(whole.relative or 0) >= 0.02)
    assert found.is_worse
    assert found.sentences[0].startswith("`request` takes ")
    assert "are `wait`" in found.sentences[0]


def test_unchanged_runs_differ_in_one_of_twenty_comparisons_at_most() -> None:
    generator = np.random.default_rng(5)
    every = runs(1000, 40)
    noticeable = 0
    for _ in range(40):
        chosen = generator.permutation(40)[:10].tolist()
        sides = [[every[at] for at in chosen[half]] for half in (slice(5), slice(5, 10))]
        noticeable += bool(meantime.compare(sides[0], sides[1]).changed)

    assert noticeable <= 2


def test_rows_add_up_to_the_whole_and_sides_exchanged_give_the_opposite() -> None:
    before, after = runs(0, 4), runs(50, 5, query=1.3)
    there, back = meantime.compare(before, after), meantime.compare(after, before)

    (whole,) = there.wholes
    assert whole.change == pytest.approx(sum(row.change or 0 for row in there.rows))
    assert whole.part == pytest.approx(sum(row.part or 0 for row in there.rows))
    opposite = {row.key: row for row in back.rows}
    for row in there.rows:
        assert opposite[row.key].change == pytest.approx(-(row.change or 0))
        assert opposite[row.key].probability == row.probability
        assert opposite[row.key].runs_before == row.runs_after
    assert there.is_worse
    assert not back.is_worse


def test_one_run_a_side_has_sizes_and_no_certainty() -> None:
    found = meantime.compare(run(1), run(2, {"query": 2}))

    assert not found.is_certain
    assert not found.changed
    assert all(row.probability is None and row.interval is None for row in found.rows)
    assert found.rows[0].key == ("query",)
    assert "One run each cannot distinguish a change from noise" in found.sentences[-1]


def test_what_so_many_runs_cannot_tell_is_said() -> None:
    def line(seed: int) -> str:
        lengths = np.random.default_rng(seed).integers(1, 9, 8).tolist()
        return "".join(name * length for name, length in zip("abcdefgh", lengths, strict=True))

    old, new = (
        [history_from_picture(f"d  {line(seed + side)}") for seed in range(5)] for side in (0, 5)
    )
    found = meantime.compare(old, new)

    assert found.tested == most_rows(5, 5) == 6
    # eight states, the whole and the length, which are equal
    assert "5 runs a side are enough to test 6 rows: of 10, those that vary most." in found.notes
    assert sum(row.probability is not None for row in found.rows) in {5, 6}


def test_what_other_work_hides_is_seen_in_the_shortest() -> None:
    def disturbed(seed: int, factor: float = 1.0) -> History:
        generator = np.random.default_rng(seed)
        late = generator.exponential(1_000 * generator.uniform(1, 9), 40)
        spans, time_ns = [], 0
        for row, name in enumerate(["query", "wait"] * 20):
            usual = 20_000 * (factor if name == "query" else 1)
            spans.append((name, time_ns, time_ns + round(usual + late[row])))
            time_ns = spans[-1][2]
        return history_from_spans({"main": spans})

    old = [disturbed(seed) for seed in range(8)]
    new = [disturbed(seed, 1.05) for seed in range(8, 16)]
    found = meantime.compare(old, new)
    assert not found.changed
    assert "the shortest of `query` is " in found.notes[-1]
    assert "; and " not in found.notes[-1]
    # it is told, and decides nothing
    assert not found.is_worse
    assert [row.key for row in meantime.compare(old, new, figure="shortest").changed] == [
        ("query",)
    ]

    unchanged = meantime.compare(old, [disturbed(seed) for seed in range(16, 24)])
    assert not any("shortest" in note for note in unchanged.notes)
    assert not any("shortest" in note for note in meantime.compare(old[:3], new[:3]).notes)


def test_figures_of_a_side_are_of_all_its_runs() -> None:
    old = [history_from_picture("d  aab"), history_from_picture("d  aaaabb")]
    new = [history_from_picture("d  ab")]
    rows = {row.key[1]: row for row in meantime.compare(old, new).rows}

    before = rows["a"].before
    assert before is not None
    assert (before["total_ns"], before["count"], before["median_ns"], before["max_ns"]) == (
        *(3, 1, 2),
        4,
    )
    assert before["mean_ns"] == 3
    assert rows["a"].runs_before == (2, 4)
    assert rows["b"].relative == pytest.approx(1 / 1.5 - 1)


def test_other_figures() -> None:
    old, new = history_from_picture("d  aab"), history_from_picture("d  aaaab")

    assert values(meantime.compare(old, new, figure="longest")) == {" a": 1.0, " b": 0.0}
    assert values(meantime.compare(old, new, figure="max_ns")) == {" a": 1.0, " b": 0.0}
    assert values(meantime.compare(old, new, figure="median")) == {" a": 1.0, " b": 0.0}
    share = meantime.compare(old, new, figure="share")
    assert values(share) == {" a": pytest.approx(0.2), " b": pytest.approx(-0.4)}
    assert not share.wholes
    with pytest.raises(meantime.MeantimeError, match="no figure 'weight'; choose one of total,"):
        meantime.compare(old, new, figure="weight")


def test_what_is_new_or_gone_is_a_row() -> None:
    found = meantime.compare(history_from_picture("d  aac"), history_from_picture("d  aab"))
    rows = {row.key[1]: row for row in found.rows}

    assert (rows["b"].before, rows["b"].relative, rows["b"].change) == (None, None, 1)
    assert (rows["c"].after, rows["c"].relative, rows["c"].change) == (None, -1, -1)
    assert "`b` is new (+33 points)" in found.sentences[0]
    # a duration of what did not occur is no number
    longest = meantime.compare(
        history_from_picture("d  aac"), history_from_picture("d  aab"), figure="longest"
    )
    rows = {row.key[1]: row for row in longest.rows}
    assert (rows["b"].change, rows["b"].relative) == (None, None)
    assert "NaN" not in json.dumps(longest.as_json())


def test_samples_are_compared_by_their_functions() -> None:
    old = history_from_samples([(0, "t", ["f", "g"], 1), (1, "t", ["f"], 2)])
    new = history_from_samples([(0, "t", ["f", "g"], 4), (1, "t", ["f"], 2)])
    found = meantime.compare(old, new)

    assert (found.by, found.of) == ("name", "samples")
    assert values(found) == {"g": 3.0, "f": 0.0}
    (whole,) = found.wholes
    assert whole.relative == 1.0
    with pytest.raises(meantime.MeantimeError, match="compared by thread"):
        meantime.compare(old, new, by="thread")


def test_budgets_and_conclusions_are_compared() -> None:
    old, new = runs(0, 4), runs(10, 4, query=1.5)
    budget = meantime.compare(old, new, by="budget")

    assert budget.names == ("class", "what")
    assert budget.rows[0].key == ("work", "query")
    (whole,) = budget.wholes
    assert whole.part == pytest.approx(sum(row.part or 0 for row in budget.rows))
    old_states = history_from_picture("cpu0  aab.\ncpu1  aaa.")
    new_states = history_from_picture("cpu0  aab.\ncpu1  ....")
    states = meantime.compare(old_states, new_states, by="conclusion")
    assert states.names == ("conclusion",)
    assert not states.wholes


def test_entities_are_matched_by_name_and_by_order() -> None:
    first = [Entity("1", "main"), Entity("2", "pool-7"), Entity("3", "pool-8")]
    second = [Entity("1", "pool-9"), Entity("4", "main"), Entity("7", "main")]
    found = matched([first, second])

    assert found.names == [
        {"1": "main", "2": "pool-N", "3": "pool-N #2"},
        {"1": "pool-N", "4": "main", "7": "main #2"},
    ]
    assert found.rule == (
        "by name, without their numbers where a run lacks one (3 entities); entities with one name"
        " in order of appearance"
    )
    found = matched([first, second], r"-\d$")
    assert found.names[0] == {"1": "main", "2": "pool", "3": "pool #2"}
    with pytest.raises(meantime.MeantimeError, match="not a regular expression"):
        matched([first], "(")


def test_entities_of_several_runs_are_one_row() -> None:
    old, new = history_from_picture("w-1  aab\nx  aaa"), history_from_picture("w-2  aaab\nx  aaaa")
    found = meantime.compare(old, new, by="entity")

    rows = {row.key[1:]: row.relative for row in found.rows}
    assert rows == {("w-N", "a"): 0.5, ("w-N", "b"): 0.0, ("x", "a"): pytest.approx(1 / 3)}
    assert any("matched by name, without their numbers" in each for each in found.notes)
    assert {row.key[1] for row in meantime.compare(old, new, by="entity", match="-.").rows} == {
        *("w", "x"),
    }
    with pytest.raises(meantime.MeantimeError, match="by entity or thread, not by state"):
        meantime.compare(old, new, match="-.")


def test_ranges_of_one_history_are_runs() -> None:
    history = history_from_picture("d  aabbbaab")
    found = meantime.compare((history, 0, 4), (history, 4, 8))

    assert values(found) == {" a": 0.0, " b": 0.0}
    ranges = [(history, *each) for each in pairwise(range(0, 9, 2))]
    assert meantime.compare(list(ranges[:2]), list(ranges[2:])).runs == (2, 2)


def test_a_filter_selects_rows() -> None:
    old, new = run(1), run(2)

    assert {row.key for row in meantime.compare(old, new, filter="^(parse|wait)$").rows} == {
        *(("parse",), ("wait",)),
    }
    with pytest.raises(meantime.MeantimeError, match="'nothing' matches no row"):
        meantime.compare(old, new, filter="nothing")
    with pytest.raises(meantime.MeantimeError, match="no run after"):
        meantime.compare(old, [])


def test_a_comparison_is_a_table() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = meantime.compare(history_from_picture("d  aac"), history_from_picture("d  aab"))

    table = pyarrow.table(found).to_pydict()
    assert dict(zip(table["state"], table["change"], strict=True)) == {"a": 0, "b": 1, "c": -1}
    assert dict(zip(table["state"], table["relative"], strict=True)) == {"a": 0, "b": None, "c": -1}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[str]]:
    """Return the files of ten runs as they were, and of as many with more waits, as Chrome JSON."""
    found: dict[str, list[str]] = {"before": [], "after": []}
    for side, first, slower in (("before", 0, 1.0), ("after", 50, 1.5)):
        for seed in range(first, first + 5):
            spans = run(seed, {"wait": slower}).spans()
            rows = zip(
                spans.name.to_list(), spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True
            )
            events = [
                {
                    "name": name,
                    "ph": "X",
                    "pid": 1,
                    "tid": 1,
                    "ts": start / 1000,
                    "dur": (end - start) / 1000,
                }
                for name, start, end in rows
            ]
            path = tmp_path / f"{side}-{seed}.json"
            path.write_text(json.dumps({"traceEvents": events}))
            found[side].append(str(path))
    return found


def status(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return int(stopped.value.code or 0)


def test_the_command_says_what_changed(
    files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [*files["before"], "--", *files["after"]]
    assert status("diff", *sides) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].startswith("`request` takes ")
    assert "What changed: self time by name, 5 runs before and 5 after" in text
    assert "%*" in next(line for line in text.splitlines() if line.startswith("  wait"))

    assert status("diff", *sides, "--fail-on", "worse") == 3
    assert status("diff", *files["after"], "--", *files["before"], "--fail-on", "worse") == 0
    assert status("diff", *files["after"], "--", *files["before"], "--fail-on", "any") == 3
    capsys.readouterr()
    # options may stand on either side, and patterns are expanded
    folder = files["before"][0].rsplit("/", 1)[0]
    patterns = [f"{folder}/before-*.json", "--", f"{folder}/after-*.json"]
    assert status("diff", *patterns, "--json", "--figure", "p99") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["figure"], document["runs"]) == ("p99_ns", [5, 5])
    assert all(len(row["runs_before"]) == 5 for row in document["rows"])


def test_a_short_table_for_a_pull_request(
    files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [*files["before"], "--", *files["after"]]
    assert status("diff", *sides, "--markdown", "-n", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| name | before | after | change | 95 % | p | points |"
    assert lines[3] == "|---|---:|---:|---:|---:|---:|---:|"
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["A", "B", "B"], "write -- between the runs before and after"),
        (["--", "B"], "there is no run before the --"),
        (["A", "--"], "there is no run after the --"),
        (["A", "--", "B", "--", "B"], "-- stands once"),
        (["A", "B", "--ranges", "0s..1us,1us..2us"], "--ranges compares two ranges of one FILE"),
        (["A", "--ranges", "0s..1us"], "write two ranges"),
        (["A", "--ranges", "0s..1us,1us..2us", "--from", "1us"], "--from does not apply"),
        (["A", "B", "--fail-on", "any"], "--fail-on needs at least 4 runs a side"),
        (["A", "B", "--noticeable", "much"], "write a share such as 2% or 0.02"),
        (["A", "B", "--noticeable", "-1"], "noticeable is a share"),
        (["A", "B", "--json", "--markdown"], "mutually exclusive"),
        (["A", "B", "--title", "Change"], "--title does not apply to figures"),
        (["A", "B", "--period", "1us"], "--period does not apply to figures"),
        (["A", "B", "-o", "c.svg", "--period", "0s"], "the period is at least 1 ns"),
        (["A", "B", "-o", "c.svg", "--period", "1ns"], "columns; choose one of at least"),
        (["A", "B", "-o", "c.svg", "--by", "stack", "--period", "1us"], "period is for rows by"),
        (["A", "B", "-o", "change.png"], "must end in .svg or .html"),
        (["A", "B", "-o", "-", "--json"], "--json does not apply to -o -"),
    ],
)
def test_command_lines_that_are_wrong(
    files: dict[str, list[str]],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    error: str,
) -> None:
    names = {"A": files["before"][0], "B": files["after"][0]}
    assert status("diff", *(names.get(word, word) for word in words)) == 2
    captured = capsys.readouterr()
    assert error in captured.err
    assert not captured.out


def test_two_ranges_of_one_file(
    files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("diff", files["before"][0], "--ranges", "0s..20ms,20ms..40ms", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["length"]["runs_before"] == [20_000_000]


def test_different_units_are_not_compared() -> None:
    samples = history_from_samples([(0, "t", ["f"], 1)])
    with pytest.raises(meantime.MeantimeError, match="cannot compare"):
        meantime.compare(samples, run(1), by="budget")


def strips(history: History) -> list[list[tuple[str, float]]]:
    """Return the lanes of a history beside itself, in bins of 1 ns."""
    part = part_of(history, None, None)
    drawn = timelines([part], [part], compared([part], [part]), bins=100)
    assert drawn is not None
    return [
        [
            (name, share)
            for strip in lane.before
            for name, share in zip(strip.name, strip.share.tolist(), strict=True)
        ]
        for lane in drawn.lanes
    ]


def test_lanes_have_states_and_the_outermost_spans() -> None:
    assert strips(history_from_picture("d  ab.")) == [[("a", 1.0), ("b", 1.0)]]
    nested = history_from_spans({"main": [("a", 0, 3), ("b", 1, 2)]})
    assert strips(nested) == [[("a", 1.0), ("a", 1.0), ("a", 1.0), ("b", 1.0)]]


@pytest.mark.parametrize(
    ("align", "ranges", "lead", "change"),
    [
        ("start", ((0, 4), (0, 6)), 0, [0, 0, -1, -1, 1, 1]),
        ("end", ((2, 6), (0, 6)), 6, [0, 0, 0, 0, 0, 0]),
        ("b", ((2, 6), (0, 6)), 4, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_runs_are_aligned_by_start_by_end_or_by_what_begins(
    align: str, ranges: tuple[Any, ...], lead: int, change: list[int]
) -> None:
    old, new = (
        part_of(history_from_picture(f"d  {line}"), None, None) for line in ("aabb", "aaaabb")
    )
    found = compared([old], [new], pattern="^b$")
    drawn = timelines([old], [new], found, bins=100, align=align)

    assert drawn is not None
    assert (drawn.row, drawn.ranges_ns, drawn.lead_ns, drawn.bins) == ("b", ranges, lead, 6)
    assert drawn.lanes[0].change.tolist() == change
    with pytest.raises(meantime.MeantimeError, match="no state or span of a run is called 'c'"):
        timelines([old], [new], found, bins=100, align="c")


def test_the_lanes_that_changed_most_come_first() -> None:
    old = history_from_picture("\n".join(f"w{row}  aaaaaaaaaa" for row in range(10)))
    new = history_from_picture(
        "\n".join(f"w{row}  {'b' * row}{'a' * (10 - row)}" for row in range(10))
    )
    drawn = timelines(
        [part_of(old, None, None)], [part_of(new, None, None)],
        meantime.compare(old, new), bins=10,
    )  # fmt: skip

    assert drawn is not None
    assert [lane.name for lane in drawn.lanes] == [f"w{row}" for row in range(9, 1, -1)]
    assert drawn.left_out == 2


def test_the_picture_has_each_run_and_the_colours_of_its_legend(
    files: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "change.svg"
    sides = [*files["before"], "--", *files["after"]]
    assert status("diff", *sides, "-o", str(drawn), "--title", "Waits <longer>") == 0
    assert "`request` takes" in capsys.readouterr().out
    text = drawn.read_text()
    root = ET.fromstring(text)  # noqa: S314 - our own file

    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Waits <longer>" in texts
    assert "more wait" in texts
    # a mark for each run on both sides of each row
    marks = [each.get("d") or "" for each in root.iter() if each.get("stroke-width") == "1.4"]
    assert {mark.count("M") for mark in marks} == {5}
    legend = {each.get("fill") for each in root.iter() if each.get("class") == "swatch"}
    filled = {each.get("fill") for each in root.iter() if each.get("shape-rendering")}
    assert filled <= legend
    assert "<script" not in text

    page = meantime.diff(files["before"][0], files["after"][0]).render("html")
    assert b"One run each" in b"".join(page)


def test_a_heat_map_of_differences_has_the_colours_of_its_legend(
    files: dict[str, list[str]], tmp_path: Path
) -> None:
    drawn = tmp_path / "change.svg"
    sides = [*files["before"], "--", *files["after"]]
    assert status("diff", *sides, "-o", str(drawn), "--period", "1ms") == 0
    svg = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(drawn.read_text())  # noqa: S314 - our own file

    def looks(tag: str) -> set[tuple[str | None, str]]:
        return {
            (each.get("fill"), each.get("fill-opacity", ""))
            for each in root.iter(f"{svg}{tag}")
            if each.get("fill-opacity")
        }

    assert {"Within each 1ms"} <= {each.text for each in root.iter(f"{svg}text")}
    assert looks("path")
    assert looks("path") <= looks("rect")
    assert {fill for fill, _ in looks("rect")} == {MORE, LESS}
    assert any(each.get("fill") == "url(#unknown)" for each in root.iter(f"{svg}path"))


def test_the_colours_of_more_and_less_differ_for_all_kinds_of_colour_vision() -> None:
    # Machado, Oliveira and Fernandes (2009), severity 1, on linear light
    blind = {
        "protan": [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        "deutan": [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        "tritan": [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    }

    def seen(text: str, matrix: list[list[float]]) -> RGB:
        color = parse(text)
        assert color is not None
        part = np.array(color) / 255
        linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        light = np.clip(np.array(matrix) @ linear, 0, 1)
        encoded = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
        return RGB(*(round(255 * each) for each in encoded.tolist()))

    for matrix in blind.values():
        assert seen(LESS, matrix).distance(seen(MORE, matrix)) > 20


def test_stacks_are_compared_at_the_least_common_ancestor_of_what_differs() -> None:
    old = history_from_samples([(0, "t", ["f", "g", "h"], 3), (1, "t", ["f", "k"], 2)])
    new = history_from_samples([(0, "t", ["f", "g2", "h"], 4), (1, "t", ["f", "k"], 2)])
    found = meantime.compare(old, new, by="stack")

    rows = {row.key: (row.runs_before, row.runs_after) for row in found.rows}
    assert rows == {
        ("f",): ((0,), (0,)),
        ("f;k",): ((2,), (2,)),
        ("f;(not on both sides)",): ((3,), (4,)),
    }
    (whole,) = found.wholes
    assert (whole.runs_before, whole.runs_after) == ((5,), (6,))
    of_spans = meantime.compare(run(1), run(2), by="stack")
    assert {row.key[0] for row in of_spans.rows} == {"request"} | {
        f"request;{name}" for name in PARTS
    }


def test_a_stack_is_called_by_its_function_and_what_called_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for slower in (1, 2):
        spans = [("app.api.handle", 0, 900)]
        spans += [("app.pool.Pool.take", 0, 100 * slower), ("app.rows.Rows.all", 400, 800)]
        spans += [("db.Cursor.run", 10, 90 * slower), ("db.Cursor.run", 410, 700)]
        events = [
            {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": start, "dur": end - start}
            for name, start, end in spans
        ]
        paths.append(tmp_path / f"{slower}.json")
        paths[-1].write_text(json.dumps(events))
    asked = ["diff", *map(str, paths), "--by", "stack"]

    assert status(*asked) == 0
    whole = capsys.readouterr().out
    assert "`db.Cursor.run` called by `app.pool.Pool.take`" in whole
    assert "app.pool.Pool.take < app.api.handle" in whole
    assert "95 %" not in whole
    # on a terminal, where there is room for little, the same function has different callers
    monkeypatch.setattr("meantime.cli.diff.width_of", lambda _: 80)
    assert status(*asked) == 0
    brief = capsys.readouterr().out
    assert "Cursor.run  Pool.take < …" in brief
    assert "Cursor.run  Rows.all < …" in brief


def test_spans_are_compared_by_lane_and_name() -> None:
    old, new = (
        history_from_spans({"main": [("f", 0, 9), ("g", 1, end)], "other": [("g", 0, 2)]})
        for end in (3, 5)
    )
    rows = {
        row.key: (row.runs_before, row.runs_after)
        for row in meantime.compare(old, new, by="lane").rows
    }

    assert rows == {
        ("Processes/1/Threads/main", "f"): ((7,), (5,)),
        ("Processes/1/Threads/main", "g"): ((2,), (4,)),
        ("Processes/1/Threads/other", "g"): ((2,), (2,)),
    }


def tagged(*changes: tuple[int, str, str | None]) -> History:
    builder = meantime.HistoryBuilder()
    disk = builder.quark("disk")
    for time_ns, state, file in changes:
        tag = None if file is None else builder.tag({"n": 1, "file": file})
        builder.modify(time_ns, disk, state, tag)
    builder.lanes("disk")
    return builder.close(10)


def test_states_are_compared_by_their_tags() -> None:
    old = tagged((0, "read", "a"), (3, "read", "b"), (5, "idle", None))
    new = tagged((0, "read", "a"), (4, "read", "b"), (5, "idle", None))
    rows = {
        row.key: (row.runs_before, row.runs_after)
        for row in meantime.compare(old, new, by="tag").rows
    }

    assert rows == {
        ("disk", "file=a, n=1", "read"): ((3,), (4,)),
        ("disk", "file=b, n=1", "read"): ((2,), (1,)),
    }


def served(*lengths_ns: int) -> History:
    """Return a history of requests that took so long, one after the other."""
    builder = meantime.HistoryBuilder()
    time_ns = 0
    for number, length_ns in enumerate(lengths_ns):
        request = builder.quark("Requests", "GET /x", str(number))
        builder.modify(time_ns, request, "running")
        time_ns += length_ns
        builder.modify(time_ns, request, None)
    builder.lanes("Requests/*/*")
    return builder.close(100)


def test_requests_are_compared_by_what_they_have_in_common() -> None:
    groups: tuple[tuple[By, str], ...] = ("request", "GET /x"), ("route", "/x")
    for by, key in groups:
        (row,) = meantime.compare(served(2, 4), served(2, 4, 6), by=by).rows
        assert (row.key, row.change, row.relative) == (("Requests", key), 6, 1.0)
        assert row.after is not None
        assert (row.after["count"], row.after["median_ns"], row.after["max_ns"]) == (3, 4, 6)
