"""The page of a statemap, driven as a person would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.testing.statemaps import panel, statemap
from meantime.views.statemap.svg import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Open = Callable[..., Page]


def test_the_page_takes_the_place_of_the_picture(open_page: Open) -> None:
    drawn = panel({"disk0": "aab.", "disk1": "bbbb"}, step_ns=10**9, title="I/O")

    page = open_page(render(statemap(drawn)))

    assert page.title() == "Statemap of I/O activity"
    assert page.locator("h1").text_content() == "Statemap of I/O activity"
    assert page.locator(".label").all_text_contents() == ["disk0", "disk1"]
    assert page.locator(".tick").first.text_content() == "0 s"
