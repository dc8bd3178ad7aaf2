"""The page of a heat map, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meantime.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page


def at_rest(page: Page) -> None:
    """Wait until the page has drawn all that was changed."""
    page.wait_for_function("atRest()", polling=10)


@pytest.fixture(scope="module", params=["svg", "html"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    lines = [
        f"{'tick 8' if i % 50 == 10 else 'work 7'} [000] {i // 50}.{i % 50 * 20000:06}: x: \n\n"
        for i in range(1000)
    ]
    (folder / "perf.txt").write_text("".join(lines))
    out: Path = folder / f"page.{request.param}"
    with pytest.raises(SystemExit) as left:
        main(["heatmap", str(folder / "perf.txt"), "-o", str(out)])
    assert left.value.code == 0
    return out


@pytest.fixture
def page(context: BrowserContext, file: Path) -> Iterator[Page]:
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: errors.append(request.url))
    opened.goto(file.as_uri())
    opened.wait_for_selector("canvas.map")
    at_rest(opened)
    yield opened
    assert errors == [file.as_uri()]
    opened.close()


def test_the_legend_lists_the_names_and_selects_them(page: Page) -> None:
    page.click("text=tick")
    page.click("text=work", modifiers=["Shift"])

    assert page.locator('.name[aria-selected="true"]').count() == 2
    assert page.locator(".name .what").all_inner_texts() == ["work", "tick"]
    page.keyboard.press("Escape")
    assert page.locator('.name[aria-selected="true"]').count() == 0


def test_a_click_shows_the_content_of_the_cell(page: Page) -> None:
    box = page.locator("canvas.map").bounding_box()
    assert box
    plot = (box["width"] - 76, box["height"] - 38)
    # column 3 of 20, row 10 of 50
    page.mouse.click(box["x"] + 64 + plot[0] * 3.5 / 20, box["y"] + 8 + plot[1] * (1 - 10.5 / 50))

    page.wait_for_selector(".details h2")
    details = page.locator(".details").inner_text()
    assert "3 s" in details
    assert "200 ms to 220 ms" in details
    assert "tick" in details
    assert "work" not in details


def test_a_band_adds_up_the_same_offsets_of_every_column(page: Page) -> None:
    box = page.locator("canvas.map").bounding_box()
    assert box
    plot = (box["width"] - 76, box["height"] - 38)
    across = box["x"] + 64 + plot[0] / 2
    page.keyboard.down("Alt")
    page.mouse.move(across, box["y"] + 8 + plot[1] * (1 - 10.2 / 50))
    page.mouse.down()
    page.mouse.move(across + 9, box["y"] + 8 + plot[1] * (1 - 10.8 / 50), steps=3)
    page.mouse.up()
    page.keyboard.up("Alt")

    page.wait_for_selector(".details h2")
    assert page.locator(".details td").all_inner_texts() == ["tick", "20", "100.0 %"]


def test_keys_change_how_it_is_drawn(page: Page) -> None:
    before = page.locator("canvas.map").screenshot()
    page.keyboard.press("o")
    at_rest(page)

    assert page.locator('button[aria-pressed="true"]').all_inner_texts() == ["Rainbow"]
    assert page.locator("canvas.map").screenshot() != before
    page.keyboard.press("r")
    assert page.locator("button", has_text="Linear").count() == 1


def test_time_is_folded_by_another_period(page: Page) -> None:
    page.fill('input[aria-label^="Period"]', "2s")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=each column 2 s, each of its 50 rows 40 ms")
    box = page.locator("canvas.map").bounding_box()
    assert box
    plot = (box["width"] - 76, box["height"] - 38)
    # column 3 of 10, row 30 of 50, which is at 1.2 s of 2 s
    page.mouse.click(box["x"] + 64 + plot[0] * 3.5 / 10, box["y"] + 8 + plot[1] * (1 - 30.5 / 50))

    page.wait_for_selector(".command code")
    assert "6 s" in page.locator(".details").inner_text()
    assert "1.2 s to 1.24 s" in page.locator(".details").inner_text()
    assert page.locator(".details td").all_inner_texts() == [
        *("tick", "1", "50.0 %"),
        *("work", "1", "50.0 %"),
    ]


def test_a_period_that_the_cells_do_not_make_is_refused_in_words(page: Page) -> None:
    page.fill('input[aria-label^="Period"]', "1.01s")
    page.keyboard.press("Enter")

    assert page.locator(".wrong").inner_text() == "the period must be a multiple of the cell, 20ms"


def test_a_selection_offers_the_command_that_draws_its_stacks(page: Page) -> None:
    box = page.locator("canvas.map").bounding_box()
    assert box
    plot = (box["width"] - 76, box["height"] - 38)
    left, bottom = box["x"] + 64, box["y"] + 8 + plot[1]
    page.mouse.move(left + plot[0] * 3.2 / 20, bottom - plot[1] * 10.3 / 50)
    page.mouse.down()
    page.mouse.move(left + plot[0] * 5.8 / 20, bottom - plot[1] * 12.7 / 50, steps=3)
    page.mouse.up()

    page.wait_for_selector(".command code")
    # rows 10 of three columns have a tick each, rows 11 and 12 work: the mean is in the second
    details = page.locator(".details").inner_text()
    assert "mean offset 230.0\u202fms, median 230.0\u202fms" in details
    command = page.locator(".command code").inner_text()
    assert command.startswith("meantime flame ")
    assert command.endswith("--from abs:3s --to abs:6s --band 200ms..260ms -o flame.svg")


def test_a_colour_is_explained(page: Page) -> None:
    page.wait_for_selector(".key .swatch")

    assert page.locator(".key").inner_text().split() == ["1"]


def test_columns_finer_than_the_screen_are_drawn_as_one(
    context: BrowserContext, tmp_path: Path
) -> None:
    lines = [f"tick 8 [000] {second}.500000: x: \n\n" for second in range(8000)]
    (tmp_path / "perf.txt").write_text("".join(lines))
    out = tmp_path / "page.svg"
    with pytest.raises(SystemExit):
        main(["heatmap", str(tmp_path / "perf.txt"), "-o", str(out)])
    page = context.new_page()
    page.set_viewport_size({"width": 1000, "height": 600})
    page.goto(out.as_uri())
    page.wait_for_selector(".key .swatch")
    at_rest(page)

    assert "16 columns are drawn as one" in page.locator("header").inner_text()
    assert page.locator(".key").inner_text().split() == ["16"]
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.wait_for_function("document.querySelector('header').innerText.includes('8 columns are')")
    page.close()
