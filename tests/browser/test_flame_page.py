"""The page of a flame graph, driven as a person would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from meantime.query.stacks import span_tree
from meantime.testing import history_from_spans
from meantime.views.flame.data import graph
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
    assert page.locator(".found").text_content() == "2 found, 100.0\u202f%"


def box(page: Page, x: float, row: int) -> tuple[float, float]:
    """Return a point in a row of three, at a fraction of the width."""
    area = page.locator(".flame-graph").bounding_box()
    assert area is not None
    return area["x"] + area["width"] * x, area["y"] + 25 * row + 9


def test_a_double_click_zooms_to_a_box_and_escape_resets(open_page: Open) -> None:
    page = open_page(flame())

    page.mouse.dblclick(*box(page, 0.9, 1))
    zoomed = page.locator(".place").text_content()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")

    assert zoomed == "25.0\u202f% in view"
    assert page.locator(".place").text_content() == ""
    assert page.locator(".reset").is_disabled()


def test_a_click_selects_a_box_and_shows_what_it_took(open_page: Open) -> None:
    page = open_page(flame())

    page.mouse.click(*box(page, 0.9, 1))

    assert page.locator(".facts p").all_text_contents() == [
        "write",
        "25\u202fns (25.0\u202f%)",
        "itself 25\u202fns",
        "1 times",
    ]
    assert page.locator(".place").text_content() == ""


def test_a_box_under_the_pointer_shows_its_whole_name(open_page: Open) -> None:
    page = open_page(flame())

    page.mouse.move(*box(page, 0.02, 0))

    assert page.locator(".tooltip strong").text_content() == "serve <all>"
    assert page.locator(".tooltip p").all_text_contents()[:2] == [
        "100\u202fns (100.0\u202f%)",
        "itself 0\u202fns",
    ]


def test_enter_goes_from_match_to_match_the_widest_first(open_page: Open) -> None:
    page = open_page(flame())
    page.locator("input").fill("re|wr")

    selected = []
    for key in ("Enter", "Enter", "Enter", "Shift+Enter"):
        page.keyboard.press(key)
        selected.append(page.locator(".facts strong").text_content())

    assert selected == ["read", "write", "read", "write"]
    assert page.locator(".found").text_content() == "2 of 2 found, 100.0\u202f%"


def test_frames_of_libraries_fold_into_the_first_with_the_same_sums(open_page: Open) -> None:
    own, other = "order (/srv/shop.py:4)", "retry (/srv/shop.py:9)"
    route, call = (f"{name} (site-packages/web.py:1)" for name in ("route", "call"))
    spans = {"t": [(own, 0, 100), (route, 0, 90), (call, 10, 60), (other, 20, 50), (call, 60, 70)]}
    tree = span_tree(history_from_spans(spans).spans())
    page = open_page(render(graph(tree, title="", unit="ns")))
    page.keyboard.press("v")
    page.locator("input").fill("call")
    page.keyboard.press("Enter")

    assert page.locator(".facts p").all_text_contents() == [
        "route ⋯ (site-packages/web.py:1)",
        "90\u202fns (90.0\u202f%)",
        "in it and a function of libraries 60\u202fns",
        "3 times",
    ]
    page.locator(".both").click()
    assert page.locator(".function-table td.own").all_text_contents() == [
        "60\u202fns 60.0\u202f%",
        "30\u202fns 30.0\u202f%",
        "10\u202fns 10.0\u202f%",
    ]
    page.reload()
    assert page.locator(".fold").get_attribute("aria-pressed") == "true"


def test_callers_and_callees_of_a_function(open_page: Open) -> None:
    page = open_page(flame())

    page.locator(".both").click()
    page.get_by_role("row").filter(has_text="serve").click()

    names = page.locator(".function-table td:last-child")
    assert names.all_text_contents() == ["read", "write", "serve <all>"]
    assert page.locator(".halves h2").all_text_contents() == [
        "Callers of serve <all>, the direct ones below it",
        "What serve <all> calls",
    ]


def test_the_address_has_what_is_shown(open_page: Open) -> None:
    page = open_page(flame())
    page.locator("input").fill("write")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash.includes('box')")
    address = page.evaluate("location.hash")

    again = open_page(flame(), address)

    assert again.locator("input").evaluate("input => input.value") == "write"
    assert again.locator(".facts strong").text_content() == "write"


@pytest.mark.parametrize(
    "names",
    [
        ["serve", "Grüße 🙂", "py::f:/srv/app.py", "g (/usr/lib/python3.11/json.py:9)"],
        [
            "f (app.py:1)",
            "run (python3.11/asyncio/runners.py:86)",
            "EpollSelector.select (python3.11/selectors.py:452)",
            "g (site-packages/b.py:2)",
        ],
    ],
)
def test_a_name_has_the_colour_of_the_static_picture(open_page: Open, names: list[str]) -> None:
    history = history_from_spans(
        {"t": [(name, 10 * i, 10 * i + 10) for i, name in enumerate(names)]}
    )
    file = render(graph(span_tree(history.spans()), title="t", unit="ns"))
    static = re.findall(r'fill="(#[0-9a-f]{6})"', file.decode())
    page = open_page(file)

    drawn = page.evaluate("""() => {
        const canvas = document.querySelector(".flame-graph canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 3, canvas.width, 1);
        return [0, 1, 2, 3].map((box) => {
            const at = 4 * Math.round((canvas.width * (box + 0.9)) / 4);
            const hex = (part) => part.toString(16).padStart(2, "0");
            return "#" + [...data.slice(at, at + 3)].map(hex).join("");
        });
    }""")

    assert len(set(static) & set(drawn)) == 4
