from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from meantime.cli import main
from meantime.errors import UsageError
from meantime.history.ingest import build
from meantime.query.stacks import difference, gone, sample_tree, span_tree
from meantime.readers import open_trace
from meantime.testing import history_from_samples, history_from_spans
from meantime.view_functions.flame import flame
from meantime.views.flame import chart_page
from meantime.views.flame.data import compared, graph
from meantime.views.flame.span_chart import chart
from meantime.views.flame.svg import change_color, render

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.query.stacks import Difference

SPANS = {"main": [("a", 0, 10), ("b", 2, 5), ("c", 6, 10), ("b", 8, 9)], "other": [("d", 4, 6)]}


def test_the_boxes_of_a_graph_are_within_their_callers_and_add_up() -> None:
    tree = span_tree(history_from_spans(SPANS).spans())

    flame = graph(tree, title="t", unit="ns")

    boxes = [
        (flame.frames[frame], start, length, row)
        for frame, start, length, row in zip(
            flame.frame,
            flame.start.tolist(),
            flame.length.tolist(),
            flame.row.tolist(),
            strict=True,
        )
    ]
    assert boxes == [
        ("a", 0, 10, 0),
        ("c", 0, 4, 1),
        ("b", 0, 1, 2),
        ("b", 4, 3, 1),
        ("d", 10, 2, 0),
    ]
    assert flame.width == 12


def test_a_chart_shows_each_threads_spans_clipped_to_the_range() -> None:
    flame = chart(history_from_spans(SPANS), title="t", start_ns=3, end_ns=9)

    assert [panel.title for panel in flame.panels] == ["1 / main", "1 / other"]
    assert flame.start.tolist() == [0, 0, 3, 5, 1]
    assert flame.length.tolist() == [6, 2, 3, 1, 2]
    assert flame.own.tolist() == [1, 2, 2, 1, 2]
    assert (flame.width, flame.origin_ns) == (6, 3)


def test_lanes_of_a_chart_are_stacked_under_their_own_names() -> None:
    history = history_from_spans({"t": [("a", 0, 10), ("b", 1, 2), ("c", 5, 15), ("d", 11, 12)]})

    flame = chart(history, title="t", start_ns=0, end_ns=15)

    assert [flame.frames[frame] for frame in flame.frame] == ["a", "b", "c", "d"]
    assert flame.row.tolist() == [0, 1, 0, 1]
    assert [(panel.title, panel.first, panel.last, panel.rows) for panel in flame.panels] == [
        ("1 / t", 0, 2, 2),
        ("1 / t, lane 1", 2, 4, 2),
    ]


OVERLAPPING = {"main": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45)]}


def test_an_overlapping_callee_is_not_a_root_of_a_graph() -> None:
    flame = graph(span_tree(history_from_spans(OVERLAPPING).spans()), title="t", unit="ns")

    names = [flame.frames[frame] for frame in flame.frame]
    assert list(zip(names, flame.length.tolist(), flame.row.tolist(), strict=True)) == [
        ("P", 100, 0),
        ("b", 30, 1),
        ("b1", 20, 2),
        ("a", 10, 1),
    ]
    assert flame.width == 100


def test_another_lane_of_a_chart_begins_at_its_least_depth() -> None:
    flame = chart(history_from_spans(OVERLAPPING), title="t", start_ns=0, end_ns=100)

    assert [(panel.title, panel.rows) for panel in flame.panels] == [
        ("1 / main", 2),
        ("1 / main, lane 1", 2),
    ]
    names = [flame.frames[frame] for frame in flame.frame]
    assert list(zip(names, flame.row.tolist(), flame.own.tolist(), strict=True)) == [
        ("P", 0, 60),
        ("a", 1, 20),
        ("b", 0, 10),
        ("b1", 1, 20),
    ]


def test_a_chart_has_a_time_axis() -> None:
    history = history_from_spans({"t": [("a", 10**9, 4 * 10**9)]})

    drawn = chart(history, title="t", start_ns=2 * 10**9, end_ns=4 * 10**9)
    text = chart_page.render(drawn).decode()

    # times since the first span
    assert all(f">{label}</text>" in text for label in ("1.0 s", "1.2 s", "3.0 s"))
    assert '"origin":"1000000000"' in text.replace(" ", "")


def test_hostile_names_stay_text() -> None:
    name = "<script>alert(1)</script>]]>&\x00\ud800"
    history = history_from_samples([(0, "t", [name], 5)])

    document = render(graph(sample_tree(history.samples()), title=name, unit="samples"))

    root = ET.fromstring(document)  # noqa: S314 - our own file
    assert sum(element.tag.endswith("script") for element in root.iter()) == 1
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert any(text and "<script>alert(1)</script>]]>&" in text for text in titles)


def test_the_same_trace_gives_the_same_bytes() -> None:
    first, second = (
        render(graph(span_tree(history_from_spans(SPANS).spans()), title="t", unit="ns"))
        for _ in range(2)
    )

    assert first == second


def test_an_empty_range_of_spans_is_still_a_page() -> None:
    history = history_from_spans({"t": [("a", 0, 2), ("b", 9, 10)]})
    spans = history.spans(start_ns=4, end_ns=5)

    ET.fromstring(render(graph(span_tree(spans), title="t", unit="ns")))  # noqa: S314 - our own file


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    events = [
        {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1}
        for name, ts, dur in (("a;x", 0, 10), ("b", 2, 3))
    ]
    path.write_text(json.dumps(events))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return stopped.value.code, capsys.readouterr().err


def test_the_suffix_selects_the_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: str
) -> None:
    for name in ("out.svg", "out.json", "out.txt", "chart.svg"):
        extra = ["--chart"] if name == "chart.svg" else []
        status, _ = run(capsys, "flame", trace, "-o", str(tmp_path / name), *extra)
        assert status == 0

    assert (tmp_path / "out.txt").read_text() == "a:x 7000\na:x;b 3000\n"
    tree = sample_tree(build(open_trace(tmp_path / "out.json")).samples())
    assert tree.total.tolist() == [10_000, 3000]
    assert b"flame chart" in (tmp_path / "chart.svg").read_bytes()


def test_a_range_is_cut_out(capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: str) -> None:
    out = tmp_path / "out.txt"

    run(capsys, "flame", trace, "--from", "4us", "--to", "6us", "-o", str(out))

    assert out.read_text() == "a:x 1000\na:x;b 1000\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["-o", "x.png"], 2, "must end in one of .svg"),
        (["-o", "x.txt", "--chart"], 2, "a flame chart is written as .svg or .html"),
        (["-o", "x.svg", "--from", "9us", "--to", "3us"], 1, "is empty"),
        ([], 2, "output"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    capsys: pytest.CaptureFixture[str], trace: str, words: list[str], status: int, message: str
) -> None:
    found, said = run(capsys, "flame", trace, *words)

    assert found == status
    assert message in said


FIRST = [(0, "t", ["a", "b"], 3), (1, "t", ["a", "c"], 1)]
SECOND = [(0, "t", ["a", "b"], 1), (1, "t", ["a", "d"], 2), (2, "t", ["e"], 5)]


def trees() -> Difference:
    return difference(*(sample_tree(history_from_samples(s).samples()) for s in (FIRST, SECOND)))


def test_a_comparison_shows_each_box_in_both_ranges() -> None:
    flame = compared(trees(), title="t", unit="samples")

    assert flame.before is not None
    assert {
        flame.frames[frame]: (before, length - before)
        for frame, before, length in zip(
            flame.frame, flame.before.tolist(), flame.length.tolist(), strict=True
        )
    } == {"a": (4, 3), "b": (3, 1), "c": (1, 0), "d": (0, 2), "e": (0, 5)}
    assert (flame.before_width, flame.width) == (4, 12)


def test_growth_is_red_decline_is_blue_and_the_counts_are_shown() -> None:
    text = render(compared(trees(), title="t", unit="samples")).decode()

    assert f'fill="{change_color(5 / 8)}"' in text
    assert f'fill="{change_color(1 / 8 - 3 / 4)}"' in text
    assert "b · 1 samples, against 3 samples (-62.50 points of share)" in text
    assert "e · 5 samples, against 0 samples, new (+62.50 points of share)" in text
    assert "2 boxes are new, 1 were removed." in text


def test_the_elided_graph_is_what_only_the_first_range_has() -> None:
    left = gone(trees())

    assert {
        tuple(left.stacks.frames_of(row)): (int(left.own[row]), int(left.total[row]))
        for row in range(len(left))
        if left.total[row]
    } == {("a",): (0, 1), ("a", "c"): (1, 1)}


def test_two_ranges_are_compared_from_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: str
) -> None:
    ranges = ["--from", "6us", "--to", "10us", "--against", "1us..4us"]
    texts = {}
    for name, words in (("both.txt", []), ("gone.txt", ["--elided"]), ("both.svg", [])):
        out = tmp_path / name
        assert run(capsys, "flame", trace, *ranges, *words, "-o", str(out))[0] == 0
        texts[name] = out.read_text()

    assert texts["both.txt"] == "a:x 1000 4000\na:x;b 2000 0\n"
    assert texts["gone.txt"] == "a:x;b 2000\n"
    assert "differential flame graph" in texts["both.svg"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "x.svg", "--elided"], "elided needs against"),
        (["-o", "x.svg", "--against", "1us"], "write two times"),
        (["-o", "x.json", "--against", "1us..2us"], "--elided allows .json"),
        (["-o", "x.svg", "--against", "1us..2us", "--chart"], "leave out chart"),
        (["-o", "x.svg", "--against", "2us..1us"], "is empty"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    capsys: pytest.CaptureFixture[str], trace: str, words: list[str], message: str
) -> None:
    status, said = run(capsys, "flame", trace, *words)

    assert status in {1, 2}
    assert message in said


def test_stacks_without_end_are_not_written_one_by_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "deep.json"
    event = '{{"ph":"X","name":"a","ts":{},"dur":{},"pid":1,"tid":1}}'
    path.write_text(f"[{','.join(event.format(i, 90_000 - 2 * i) for i in range(30_000))}]")

    for name in ("deep.txt", "deep.json.json"):
        status, said = run(capsys, "flame", str(path), "-o", str(tmp_path / name))
        assert (status, "30,000 deep" in said) == (1, True)
        assert not (tmp_path / name).exists()


def test_spans_narrower_than_a_pixel_are_lines_of_a_charts_picture() -> None:
    spans = [("all", 0, 10**6), *((f"n{i}", i, i + 1) for i in (5, 6, 500_000))]
    history = history_from_spans({"t": spans})

    text = chart_page.render(chart(history, title="t", start_ns=0, end_ns=10**6)).decode()

    [line] = [part for part in text.split("<path ") if "v17" in part]
    assert line.count("v17") == 2
    assert line.startswith('d="M24.5 ')


def perf_text(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.txt"
    stacks = [("idle", 9, 0.0, ""), ("tick", 7, 1.2, "work"), ("tock", 8, 1.3, "work")]
    lines = [
        f"{name} {tid} [000] {time:.6f}: 10 cpu-clock: \n"
        + (f"\t1 {frame} (/a)\n\t2 main (/a)\n" if frame else "")
        for name, tid, time, frame in stacks
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_stacks_of_samples_begin_with_the_name_of_the_program(tmp_path: Path) -> None:
    path, out = perf_text(tmp_path), tmp_path / "out.folded"
    with pytest.raises(SystemExit):
        main(["flame", str(path), "-o", str(out)])
    named = sorted(out.read_text().splitlines())
    with pytest.raises(SystemExit):
        main(["flame", str(path), "--no-names", "-o", str(out)])

    # a sample without a stack is a box of its own
    assert named == ["idle 10", "tick;main;work 10", "tock;main;work 10"]
    assert out.read_text() == "main;work 20\n(no stack) 10\n"


def test_the_subtitle_says_what_was_selected(tmp_path: Path) -> None:
    view = flame(
        perf_text(tmp_path),
        start="1s",
        end="1.29s",
        filter="t.ck",
        band=("200ms", "400ms"),
        event="cpu-clock",
    )
    page = b"".join(view.render("svg")).decode()

    assert (
        "flame graph · 10ns · 3 boxes · 1s to 1.29s · offsets 200ms to 400ms of every 1s"
        " · threads t.ck · event cpu-clock" in page
    )


def test_the_command_of_the_page_draws_the_same_page(tmp_path: Path) -> None:
    path = perf_text(tmp_path)
    view = flame(path, start="1s", end="1.29s", band=("200ms", "400ms"), isolate=["tick"])
    page = b"".join(view.render("svg")).decode()
    found = re.search(r'"command":"((?:[^"\\]|\\.)*)"', page)
    assert found
    words = shlex.split(json.loads(f'"{found[1]}"'))
    words[words.index("-o") + 1] = str(tmp_path / "again.svg")

    with pytest.raises(SystemExit, match=r"^0$"):
        main(words[1:])

    again = (tmp_path / "again.svg").read_text()
    # the command has its defaults and nanoseconds written out
    assert again.partition('"command"')[0] == page.partition('"command"')[0]


def test_names_cannot_be_left_out_of_spans() -> None:
    history = history_from_spans({"main": [("a", 0, 9)]})

    with pytest.raises(UsageError, match="no-names applies to samples"):
        flame(history, names=False)
