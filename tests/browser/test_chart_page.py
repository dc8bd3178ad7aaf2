"""The page of a flame chart, driven as a person would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from meantime.history.ingest import build
from meantime.readers import open_trace
from meantime.testing import history_from_spans
from meantime.views.flame.chart_page import render
from meantime.views.flame.span_chart import chart

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Open = Callable[..., Page]

SPANS = {
    "main": [("serve", 0, 1000), ("read", 100, 400), ("write", 500, 900)],
    "pool-1": [("work", 200, 800)],
}
ROW_PX = 17
GROUP_PX = 25


def opened(open_page: Open, spans: dict[str, list[tuple[str, int, int]]], **more: object) -> Page:
    history = history_from_spans(spans)
    drawn = chart(history, title="a&b", start_ns=history.bounds[0], end_ns=history.bounds[1])
    page = open_page(render(drawn), **more)
    page.wait_for_selector(".lane-tree")
    return page


def point(page: Page, time: float, row: int) -> tuple[float, float]:
    """Return a point at a fraction of the time, in a row below the first group."""
    area = page.locator(".lane-tree canvas").bounding_box()
    assert area is not None
    return area["x"] + area["width"] * time, area["y"] + GROUP_PX + ROW_PX * row + 8


def pixels(page: Page, y: float) -> list[str]:
    """Return the colours along a line of the lanes, from left to right."""
    found: list[str] = page.evaluate(
        """(y) => {
            const canvas = document.querySelector(".lane-tree canvas");
            const { data } = canvas.getContext("2d").getImageData(0, y, canvas.width, 1);
            const color = (_, x) => data.slice(4 * x, 4 * x + 3).join(" ");
            return Array.from({ length: canvas.width }, color);
        }""",
        y,
    )
    return found


def facts(page: Page) -> list[str]:
    page.wait_for_function("document.querySelectorAll('.facts .fact').length > 0")
    return page.locator(".facts .fact").all_text_contents()


def test_lanes_are_threads_below_their_process(open_page: Open) -> None:
    page = opened(open_page, SPANS)

    assert page.locator("h1").text_content() == "a&b"
    assert page.locator(".top p").text_content() == "flame chart · 1us · 4 spans on 2 threads"
    assert page.locator(".lane-name .title").all_text_contents() == ["1", "main", "pool-1"]


def test_a_click_selects_a_span_and_a_double_click_fits_it(open_page: Open) -> None:
    page = opened(open_page, SPANS)

    page.mouse.click(*point(page, 0.25, 1))
    page.wait_for_selector(".facts .named >> text=read")
    selected = facts(page)
    page.mouse.dblclick(*point(page, 0.25, 1))

    assert selected[:3] == ["duration300 ns", "itself300\u202fns (100.0\u202f%)", "start100 ns"]
    assert "thread1 / main" in selected
    page.wait_for_selector(".place >> text=330\u202fns of 1.00\u202fμs")


def test_a_range_has_its_own_statistics(open_page: Open) -> None:
    page = opened(open_page, SPANS)
    page.wait_for_selector(".function-table td")

    page.mouse.move(*point(page, 0.1, 0))
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(*point(page, 0.3, 0))
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_selector(".facts .named >> text=Selected range")

    rows = [
        (row.locator(".name").text_content(), row.locator(".own").text_content())
        for row in page.locator(".function-table tbody tr").all()
    ]
    assert [name for name, _ in rows] == ["read", "work", "serve"]
    assert [str(own).split()[0] for _, own in rows] == ["200", "100", "0"]


def test_next_match_goes_in_order_of_time_and_into_view(open_page: Open) -> None:
    page = opened(open_page, SPANS)
    page.locator(".search input").fill("r")

    ranks = []
    for key in ("Enter", "Enter", "Enter", "Shift+Enter"):
        page.keyboard.press(key)
        ranks.append(page.locator(".found").text_content())

    assert ranks == [f"{rank} of 4 found" for rank in (1, 2, 3, 2)]
    page.wait_for_selector(".facts .named >> text=read")


def test_every_span_is_drawn_however_many_there_are(open_page: Open) -> None:
    # a long one, and below it a row of as many as a pixel has hundreds of
    many = [("tick", 10 * i, 10 * i + 5) for i in range(200_000)]
    page = opened(open_page, {"main": [("all", 0, 2_000_000), *many]})

    row = pixels(page, GROUP_PX + ROW_PX + 8)

    assert "255 255 255" not in row
    assert page.locator(".top p").text_content() == "flame chart · 2ms · 200,001 spans"


@pytest.mark.parametrize("boxes", [5000, 25_000])
def test_coverage_of_a_pixel_is_exact(open_page: Open, boxes: int) -> None:
    # the left half is busy a quarter of the time, the right half all the time
    left = [("a", 40 * i, 40 * i + 10) for i in range(boxes)]
    middle = 40 * boxes
    right = [("a", middle + 10 * i, middle + 10 * i + 10) for i in range(4 * boxes)]
    page = opened(open_page, {"main": [*left, *right]})

    row = pixels(page, GROUP_PX + 8)
    faint, full = row[len(row) // 4], row[3 * len(row) // 4]

    # opacity is the square root of the coverage
    ink = [int(part) for part in full.split()]
    expected = [255 + (part - 255) * 0.5 for part in ink]
    assert all(
        abs(int(part) - value) <= 2 for part, value in zip(faint.split(), expected, strict=True)
    )


def test_a_lane_is_as_high_as_what_is_in_view_needs(open_page: Open) -> None:
    spans = {"main": [("a", 0, 1000), ("b", 0, 10), ("c", 0, 5)], "pool": [("d", 0, 1000)]}
    page = opened(open_page, spans)
    page.wait_for_selector(".facts .named")
    names = page.locator(".lane-name.level2")

    heights = [name.bounding_box() for name in names.all()]
    again = opened(open_page, spans, fragment="#t=500..900")
    again.wait_for_function("document.querySelector('.lane-name.level2').clientHeight < 30")

    assert [box and box["height"] for box in heights] == [3 * ROW_PX + 3, ROW_PX + 3]


def test_a_drag_does_not_leave_the_whole(open_page: Open) -> None:
    page = opened(open_page, SPANS)
    page.keyboard.press("w")

    page.mouse.move(*point(page, 0.2, 0))
    page.mouse.down()
    page.mouse.move(*point(page, 0.95, 0))
    page.mouse.up()

    page.wait_for_function("decodeURIComponent(location.hash).includes('t=0..800')")


def test_the_address_has_what_is_shown(open_page: Open) -> None:
    page = opened(open_page, SPANS)
    page.locator(".filter").fill("pool")
    page.mouse.click(*point(page, 0.5, 0))
    page.locator("role=tab >> text=Left heavy").click()
    page.wait_for_function("location.hash.includes('tab') && location.hash.includes('span')")

    again = opened(open_page, SPANS, fragment=page.evaluate("location.hash"))

    again.wait_for_selector(".facts .named >> text=work")
    assert again.locator(".lane-name .title").all_text_contents() == ["1", "pool-1"]
    assert again.locator("role=tab[selected] >> text=Left heavy").count() == 1


def test_overlapping_spans_take_their_time_once(open_page: Open) -> None:
    spans = {"main": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45)]}
    page = opened(open_page, spans)
    page.wait_for_selector(".function-table td")

    rows = {
        row.locator(".name").text_content(): str(row.locator(".own").text_content()).split()[0]
        for row in page.locator(".function-table tbody tr").all()
    }

    assert rows == {"P": "60", "a": "20", "b": "10", "b1": "20"}


def test_left_heavy_counts_every_instant_once_as_the_flame_graph_does(open_page: Open) -> None:
    spans = {"main": [("P", 0, 100), ("a", 10, 30), ("b", 20, 50), ("b1", 25, 45)]}
    page = opened(open_page, spans, fragment="#tab=heavy")
    page.wait_for_selector(".facts .named")

    said = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight"):
        page.locator("#tab-heavy canvas").press(key)
        said.append(str(page.locator("#tab-heavy .spoken").text_content()))

    assert [text.replace("\u202f", " ").split(" (")[0] for text in said] == [
        "P, 100 ns",
        "b, 30 ns",
        "b1, 20 ns",
        "b, 30 ns",
        "a, 10 ns",
    ]


def test_arguments_are_searched_and_shown_and_become_labels(
    open_page: Open, tmp_path: Path
) -> None:
    page = open_page(traced(tmp_path))
    page.locator(".search input").fill("cats")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts .fact >> text=/cats")

    page.get_by_title("Show url in labels").click()

    assert page.locator(".found").text_content() == "1 of 1 found"
    page.wait_for_selector(".facts >> text=no label")


def test_a_selected_span_shows_its_flows(open_page: Open, tmp_path: Path) -> None:
    page = open_page(traced(tmp_path))
    page.locator(".search input").fill("dogs")
    page.keyboard.press("Enter")
    flow = page.locator(".facts button", has_text="→ sent, 2, 40 μs")

    flow.click()

    page.wait_for_selector(".facts .fact >> text=/cats")


def test_counters_and_instants_have_lanes(open_page: Open, tmp_path: Path) -> None:
    page = open_page(traced(tmp_path))
    page.wait_for_selector(".lane-name")

    lanes = page.locator(".lane-name").all_text_contents()

    assert [" ".join(text.split()) for text in lanes] == [
        "1 4 lanes",
        "1 1 spans",
        "1: instants 1 instants",
        "2 1 spans",
        "memory/used 2.5 to 7",
    ]


def traced(tmp_path: Path) -> bytes:
    """Return the chart of a small trace with everything that a chart has."""
    at = {"pid": 1, "tid": 1}
    events = [
        {"ph": "X", "name": "load", "ts": 0, "dur": 10, "args": {"url": "/dogs"}, **at},
        {
            "ph": "X",
            "name": "get",
            "ts": 35,
            "dur": 10,
            "pid": 1,
            "tid": 2,
            "args": {"url": "/cats"},
        },
        {"ph": "i", "name": "click", "ts": 5, "s": "t", **at},
        {"ph": "C", "name": "memory", "ts": 0, "pid": 1, "args": {"used": 7}},
        {"ph": "C", "name": "memory", "ts": 30, "pid": 1, "args": {"used": 2.5}},
        {"ph": "s", "name": "sent", "id": 1, "ts": 5, **at},
        {"ph": "f", "name": "sent", "id": 1, "ts": 40, "pid": 1, "tid": 2, "bp": "e"},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    history = build(open_trace(path))
    start_ns, end_ns = history.bounds
    return render(chart(history, title="t", start_ns=start_ns, end_ns=end_ns))


def test_question_mark_lists_the_keys(open_page: Open) -> None:
    page = opened(open_page, SPANS)

    page.keyboard.press("?")

    assert page.locator("dialog.help").is_visible()
    assert "next match" in str(page.locator("dialog.help").text_content())


MANY = {f"t{number}": [("f", 0, 100 + 10 * number), ("g", 10, 20)] for number in range(12)}


def titles(page: Page) -> list[str]:
    found: list[str] = page.locator(".lane-name.level2 .title").all_text_contents()
    return found


def pressed(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_function("atRest()", polling=10)


def test_a_pinned_lane_stays_in_view(open_page: Open) -> None:
    page = opened(open_page, {name: MANY[name] for name in sorted(MANY)})

    pressed(page, "j", "j", ".")
    area = page.locator(".lane-tree canvas").bounding_box()
    assert area
    first = page.screenshot(clip={**area, "height": 17})
    page.evaluate("document.querySelector('.lane-tree').scrollTop = 10_000")
    page.wait_for_function("atRest()", polling=10)
    scrolled = page.screenshot(clip={**area, "height": 17})

    assert titles(page)[0] == "t1"
    assert scrolled == first
    assert page.locator(".lane-name.sticky .title").all_text_contents() == ["t1"]
    page.mouse.click(area["x"] + 20, area["y"] + 8)
    page.wait_for_selector(".facts .fact >> text=thread")
    assert "thread1 / t1" in facts(page)
    pressed(page, "k", "k", "k", ".")
    assert page.locator(".lane-name.sticky").count() == 0


def test_hidden_lanes_are_in_no_figure_and_come_back(open_page: Open) -> None:
    page = opened(open_page, SPANS)
    page.wait_for_selector(".function-table td")

    pressed(page, "j", "h")
    page.wait_for_function("document.querySelectorAll('.function-table tbody tr').length === 1")
    assert titles(page) == ["pool-1"]
    assert page.locator(".top .small").text_content() == "Show 1 hidden"
    pressed(page, "u")
    page.wait_for_function("document.querySelectorAll('.function-table tbody tr').length === 4")
    assert titles(page) == ["main", "pool-1"]
    assert page.locator(".top .small").is_hidden()


def test_lanes_are_ordered_by_name_and_by_time(open_page: Open) -> None:
    page = opened(open_page, {"b": [("f", 0, 50)], "a10": [("f", 0, 20)], "a9": [("f", 0, 90)]})

    assert titles(page) == ["a10", "a9", "b"]
    pressed(page, "o")
    assert titles(page) == ["a9", "a10", "b"]
    pressed(page, "o")
    assert titles(page) == ["a9", "b", "a10"]
    page.locator(".order").evaluate(
        "(e) => (e.value = 'trace', e.dispatchEvent(new Event('change')))"
    )
    page.wait_for_function("atRest()", polling=10)
    assert titles(page) == ["a10", "a9", "b"]


def test_the_address_has_pins_hidden_lanes_and_the_order(open_page: Open) -> None:
    spans = {"b": [("f", 0, 50)], "a10": [("f", 0, 20)], "a9": [("f", 0, 90)], "c": [("f", 0, 5)]}
    page = opened(open_page, spans)
    pressed(page, "o", "j", "h", "j", ".")
    page.wait_for_function("location.hash.includes('pins=') && location.hash.includes('order=')")

    again = opened(open_page, spans, fragment=page.evaluate("location.hash"))

    assert titles(page) == titles(again) == ["b", "a10", "c"]
    assert again.locator(".order").evaluate("(e) => e.value") == "name"
    assert again.locator(".lane-name.sticky .title").all_text_contents() == ["b"]


@pytest.mark.parametrize("fragment", ["#pins=99,0&hidden=1e9", "#hidden=,&pins=-1&order=x"])
def test_an_address_of_another_trace_does_no_harm(open_page: Open, fragment: str) -> None:
    page = opened(open_page, SPANS, fragment=fragment)

    assert titles(page) == ["main", "pool-1"]


def test_the_statistics_are_saved_as_csv(open_page: Open) -> None:
    page = opened(open_page, {**SPANS, "t": [('a "b", c', 950, 1000)]})
    page.wait_for_selector(".function-table td")

    with page.expect_download() as saved:
        page.keyboard.press("e")

    assert saved.value.suggested_filename == "statistics.csv"
    assert saved.value.path().read_text().splitlines() == [
        "name,count,self_ns,total_ns,longest_ns",
        '"work",1,600,600,600',
        '"write",1,400,400,400',
        '"read",1,300,300,300',
        '"serve",1,300,1000,1000',
        '"a ""b"", c",1,50,50,50',
    ]


def test_a_match_in_a_hidden_lane_shows_it_again(open_page: Open) -> None:
    page = opened(open_page, SPANS)

    pressed(page, "j", "h")
    page.locator(".search input").fill("read")
    page.locator(".search input").press("Enter")
    page.wait_for_selector(".facts .named >> text=read")

    assert titles(page) == ["main", "pool-1"]
