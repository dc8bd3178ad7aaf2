"""The page of a flame graph, driven as a person would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.stacks import span_tree
from meantime.testing import history_from_spans
from meantime.views.flame.data import chart, graph
from meantime.views.flame.svg import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Open = Callable[..., Page]

SPANS = {"main": [("serve <all>", 0, 100), ("read", 0, 75), ("write", 75, 100)]}


def flame() -> bytes:
    return render(graph(span_tree(history_from_spans(SPANS).spans()), title="a&b", unit="ns"))


def test_a_search_shows_the_number_of_matches_and_their_share(open_page: Open) -> None:
    page = open_page(flame())

    page.locator("input").fill("^(re|wr)")

    assert page.locator("h1").text_content() == "a&b"
    assert page.locator(".found").text_content() == "2 found, 100.00 %"


def test_a_click_zooms_to_a_box_and_escape_resets(open_page: Open) -> None:
    page = open_page(flame())
    area = page.locator("canvas").bounding_box()
    assert area is not None

    page.mouse.click(area["x"] + area["width"] * 0.9, area["y"] + 27)
    zoomed = page.locator(".place").text_content()
    page.keyboard.press("Escape")

    assert zoomed == "25 ns of 100 ns"
    assert page.locator(".place").text_content() == ""
    assert page.locator(".reset").is_disabled()


def test_a_box_under_the_pointer_shows_its_whole_name(open_page: Open) -> None:
    page = open_page(flame())
    area = page.locator("canvas").bounding_box()
    assert area is not None

    page.mouse.move(area["x"] + 40, area["y"] + 9)

    assert page.locator(".tooltip strong").text_content() == "serve <all>"
    assert page.locator(".tooltip p").first.text_content() == "100 ns (100.00 %), itself 0 ns"


def test_a_chart_has_a_time_axis_that_follows_the_zoom(open_page: Open) -> None:
    history = history_from_spans({"main": [("all", 10**9, 3 * 10**9), ("a", 10**9, 10**9 + 10)]})
    page = open_page(render(chart(history, title="t", start_ns=10**9, end_ns=3 * 10**9)))
    labels = page.locator(".axis span")

    whole = labels.all_text_contents()
    area = page.locator("canvas").bounding_box()
    assert area is not None
    page.mouse.click(area["x"] + 0.2, area["y"] + 24 + 27)
    zoomed = labels.all_text_contents()

    assert {"1.0 s", "2.0 s", "3.0 s"} <= set(whole)
    assert page.locator(".place").text_content() == "10 ns of 2 s"
    assert (zoomed[0], zoomed[-1]) == ("1 s +0 ns", "+10 ns")
