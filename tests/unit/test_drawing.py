"""`meantime.heatmap` and `meantime.flame`: what the commands draw, from Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, UsageError
from meantime.testing import history_from_picture, history_from_samples, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9


def run(*arguments: object) -> None:
    with pytest.raises(SystemExit) as left:
        main([*map(str, arguments)])
    assert left.value.code == 0


@pytest.mark.parametrize("suffix", ["svg", "html", "png", "json"])
def test_a_heat_map_is_the_commands(tmp_path: Path, root: Path, suffix: str) -> None:
    path, ours, theirs = (
        root / "examples" / "jobs.perf.gz",
        *(tmp_path / f"{name}.{suffix}" for name in ("ours", "theirs")),
    )

    view = meantime.heatmap(path, highlight=["tick1s", "tick2s"], start="92s", title="t")
    view.save(ours)

    # .json has neither a title nor colours
    drawing = () if suffix == "json" else ("--highlight", "tick1s,tick2s", "--title", "t")
    run("heatmap", path, "--from", "92s", *drawing, "-o", theirs)
    assert ours.read_bytes() == theirs.read_bytes()
    assert view.data.fold.period_ns == S


def test_a_history_and_a_file_of_it_make_the_same_map(root: Path) -> None:
    path = root / "examples" / "jobs.perf.gz"

    streamed, held = meantime.heatmap(path), meantime.heatmap(meantime.open(path))

    assert b"".join(streamed.render("json")) == b"".join(held.render("json"))


def test_times_are_coloured_in_proportion_and_counts_by_rank(root: Path) -> None:
    states = root / "examples" / "postgres.statemap.gz"
    samples = root / "examples" / "jobs.perf.gz"

    def picture(path: Path, color: Literal["rank", "linear"] | None = None) -> bytes:
        return b"".join(meantime.heatmap(path, color=color).render("svg"))

    assert b"in proportion" in picture(states)
    assert b"by rank" in picture(states, "rank")
    assert b"by rank" in picture(samples)


def test_histories_are_added_up_under_names_and_offsets() -> None:
    one, other = history_from_picture("d  aabb"), history_from_picture("d  abbb")

    view = meantime.heatmap(
        [one, other],
        period=4,
        by="host",
        states="a",
        names=["left", "right"],
        offsets={1: 4},
    )

    found = json.loads(b"".join(view.render("json")))
    assert found["by"] == {"left": [[0, 0, 1], [0, 1, 1]], "right": [[1, 0, 1]]}
    assert repr(view) == "<Heat map 'history and 1 more': 2 columns of 4ns in 4 rows, 2 names>"


def test_a_notebook_shows_both() -> None:
    spans = history_from_spans({"main": [("f", 0, 9)]})

    frame = '<iframe src="data:image/svg+xml;base64,'
    assert meantime.heatmap(spans, period=4)._repr_html_().startswith(frame)
    assert meantime.flame(spans)._repr_html_().startswith(frame)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["a", "b"]}, "there are 1 inputs and 2 names for them"),
        ({"offsets": {1: 5}}, "the keys of offsets are indices of inputs: 0 to 0"),
        ({"isolate": "a", "exclude": "b"}, "isolate and exclude are mutually exclusive"),
        ({"event": "e", "states": "s"}, "event applies to samples and spans"),
        ({"scale": 0}, "unknown scale 0; choose auto, lock, or the largest value"),
        ({"period": "fast"}, "'fast' is not a time"),
    ],
)
def test_a_heat_map_refuses_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        meantime.heatmap(history_from_picture("d  ab"), **arguments)  # type: ignore[arg-type] # as a table


def test_a_float_is_not_a_time() -> None:
    with pytest.raises(TypeError, match="a time is an integer of nanoseconds or a text"):
        meantime.heatmap(history_from_picture("d  ab"), period=1.5)  # type: ignore[arg-type] # the mistake under test


def test_a_name_that_is_not_in_the_map_is_an_error_of_the_input() -> None:
    with pytest.raises(
        InputError, match=r"^history: unknown name 'c'; the most frequent names are: 'a'"
    ):
        meantime.heatmap(history_from_picture("d  aab"), period=4, isolate="c")


@pytest.mark.parametrize("suffix", ["svg", "json", "txt", "folded", "html"])
def test_a_flame_graph_is_the_commands(tmp_path: Path, root: Path, suffix: str) -> None:
    path, ours, theirs = (
        root / "examples" / "jobs.perf.gz",
        *(tmp_path / f"{name}.{suffix}" for name in ("ours", "theirs")),
    )

    meantime.flame(path, start="92s", band=("0.25s", "0.29s"), title="jobs.perf.gz").save(ours)

    run("flame", path, "--from", "92s", "--band", "0.25s..0.29s", "-o", theirs)
    assert ours.read_bytes() == theirs.read_bytes()


def test_ranges_and_histories_are_compared() -> None:
    one = history_from_samples([(0, "t", ["a"], 1), (5, "t", ["b"], 3)])
    other = history_from_samples([(0, "t", ["a"], 2)])

    within = meantime.flame(one, start=5, against=(0, 5))
    between = meantime.flame(one, against=other)

    assert b"".join(within.render("txt")) == b"a 1 0\nb 0 3\n"
    assert b"".join(between.render("txt")) == b"a 2 1\nb 0 3\n"
    assert repr(between) == "<Flame graph 'history': 2 stacks compared, in samples>"


def test_an_unknown_suffix_is_rejected_with_the_possible_ones(tmp_path: Path) -> None:
    spans = history_from_spans({"main": [("f", 0, 9)]})

    with pytest.raises(UsageError, match=r"a heat map is written as .svg, .html, .png or .json"):
        meantime.heatmap(spans).save(tmp_path / "x.jpg")
    with pytest.raises(UsageError, match=r"a flame chart is written as .svg or .html"):
        meantime.flame(spans, chart=True).save(tmp_path / "x.json")
    with pytest.raises(UsageError, match=r"a comparison is written as .svg, .html, .txt"):
        meantime.flame(spans, against=spans).save(tmp_path / "x.json")
    assert not list(tmp_path.iterdir())
