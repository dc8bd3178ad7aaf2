"""Selecting cells on a heat map's page: by mouse, keys and touch, by findings, and by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meantime.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

ROWS, COLUMNS = 50, 20


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three threads that always run, apart from a stop of 400 ms; one sample a cell each."""
    folder = tmp_path_factory.mktemp("page")
    lines = []
    for i in range(ROWS * COLUMNS):
        if 510 <= i < 530:
            continue
        for number, name in enumerate(("steady", "other", "third")):
            lines.append(
                f"{name} {number + 7} [000] {i / 50 + 0.001 * number:.6f}: 1 x: \n"
                f"\t1 leaf{i % 3} (/a)\n\t2 main (/a)\n\n"
            )
    (folder / "perf.txt").write_text("".join(lines))
    out = folder / "page.html"
    with pytest.raises(SystemExit) as left:
        main(["heatmap", str(folder / "perf.txt"), "-o", str(out)])
    assert left.value.code == 0
    return out


@pytest.fixture
def page(context: BrowserContext, file: Path) -> Iterator[Page]:
    yield from _opened(context, file)


def _opened(context: BrowserContext, file: Path, fragment: str = "") -> Iterator[Page]:
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri() + fragment)
    page.wait_for_selector("canvas.map")
    at_rest(page)
    yield page
    assert not errors
    page.close()


def at_rest(page: Page) -> None:
    page.wait_for_function("atRest()", polling=10)


def point(page: Page, column: int, row: int) -> tuple[float, float]:
    """Return the middle of a cell."""
    box = page.locator("canvas.map").bounding_box()
    assert box
    x = box["x"] + 64 + (box["width"] - 76) * (column + 0.5) / COLUMNS
    y = box["y"] + 8 + (box["height"] - 38) * (1 - (row + 0.5) / ROWS)
    return x, y


def samples(page: Page) -> int:
    """Return the samples of the flame graph."""
    page.wait_for_function("document.querySelector('.selection-flame .empty').hidden && atRest()")
    return int(page.evaluate("document.querySelector('.flame-graph').dataset.total"))


def facts(page: Page) -> str:
    at_rest(page)
    return page.locator(".details").inner_text()


def test_a_range_in_order_of_time_goes_up_the_columns(page: Page) -> None:
    page.mouse.click(*point(page, 3, 45))
    page.keyboard.down("Shift")
    page.mouse.click(*point(page, 4, 4))
    page.keyboard.up("Shift")

    # five rows of column 3 and five of column 4, of three names
    assert samples(page) == 30
    assert "time 3.9 s to 4.1 s" in facts(page)
    command = page.locator(".command").inner_text().replace("abs:", "")
    assert "--from 3.9s --to 4.1s -o flame.svg" in command


def test_two_clicks_select_a_range_where_time_is_selected(page: Page) -> None:
    page.click("button.shape")
    page.mouse.click(*point(page, 3, 45))
    page.mouse.click(*point(page, 5, 4))

    assert samples(page) == 3 * 60
    page.mouse.click(*point(page, 1, 1))
    assert samples(page) == 3


def test_cells_are_selected_by_keys(page: Page) -> None:
    page.keyboard.press("m")
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    assert samples(page) == 3
    assert "offset 20 ms to 40 ms of the column at 2 s" in facts(page)
    for key in ("Shift+ArrowRight", "Shift+ArrowUp", "Shift+ArrowUp"):
        page.keyboard.press(key)

    # a band of two columns and three rows
    assert samples(page) == 18
    page.keyboard.press("Escape")
    assert "Select cells" in facts(page)


def test_names_are_searched_and_selected_by_keys(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("oth")
    page.keyboard.press("Enter")

    assert page.locator('.name[aria-selected="true"]').all_inner_texts()[0].startswith("other")
    page.keyboard.press("Escape")
    page.mouse.click(*point(page, 3, 10))
    assert samples(page) == 1
    assert "--isolate other" in page.locator(".command").inner_text()


def test_a_finding_selects_what_it_is_about(page: Page) -> None:
    page.click("text=nothing happened for 400ms from 10.2s")

    assert "time 10.2 s to 10.6 s" in facts(page)
    assert page.locator(".empty").inner_text() == "There are no samples in the selected cells."


def test_functions_of_a_selection_are_searched(page: Page) -> None:
    page.mouse.click(*point(page, 3, 45))
    assert samples(page) == 3
    page.keyboard.press("f")
    page.keyboard.type("main")
    at_rest(page)

    assert page.locator(".selection-flame .found").inner_text().split()[:2] == ["3", "found,"]


def test_the_address_restores_the_page(context: BrowserContext, file: Path) -> None:
    for page in _opened(context, file):
        page.fill('input[aria-label^="Period"]', "2s")
        page.keyboard.press("Enter")
        page.click("text=other")
        page.keyboard.press("i")
        x, y = point(page, 4, 10)
        page.mouse.click(x, y)
        page.keyboard.press("c")
        page.mouse.click(x + 200, y)
        compared, shown = samples(page), facts(page)
        fragment = page.evaluate("location.hash")
    for page in _opened(context, file, fragment):
        assert facts(page) == shown
        assert samples(page) == compared
        assert page.input_value('input[aria-label^="Period"]') == "2s"
        assert page.locator('.name[aria-selected="true"]').count() == 1
        assert page.locator('button[aria-pressed="true"]', has_text="Isolate").count() == 1


def test_fingers_scroll_move_and_select(browser: Browser, file: Path) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("canvas.map")
    # the page is as wide as the screen, and the map lets the page scroll
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    style = "getComputedStyle(document.querySelector('canvas.map')).touchAction"
    assert page.evaluate(style) == "pan-y"
    page.touchscreen.tap(*point(page, 3, 10))
    page.wait_for_function("document.querySelector('.selection-flame .empty').hidden")
    assert "offset 200 ms to 220 ms" in page.locator(".details").inner_text()
    context.close()


def test_the_map_and_the_selection_are_saved(page: Page) -> None:
    page.mouse.click(*point(page, 3, 10))
    at_rest(page)
    with page.expect_download() as picture:
        page.keyboard.press("e")
    with page.expect_download() as table:
        page.click("text=Save CSV")

    assert picture.value.path().read_bytes().startswith(b"\x89PNG")
    assert table.value.path().read_text().splitlines() == [
        "from_ns,to_ns,from_offset_ns,to_offset_ns,name,value",
        '3200000000,3220000000,200000000,220000000,"other",1',
        '3200000000,3220000000,200000000,220000000,"steady",1',
        '3200000000,3220000000,200000000,220000000,"third",1',
    ]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty CPUs for two seconds, of which one is busy nearly all the time."""
    folder = tmp_path_factory.mktemp("busy")
    rows = ["start,end,entity,state"]
    for cpu in range(40):
        share = 98 if cpu == 7 else 20
        for at in range(0, 2000, 100):
            rows.append(f"{at},{at + share},cpu{cpu},busy")
            rows.append(f"{at + share},{at + 100},cpu{cpu},idle")
    (folder / "cpus.csv").write_text("\n".join(rows) + "\n")
    out = folder / "page.html"
    columns = "start=start:ms,end=end:ms,entity=entity,state=state"
    words = ["--y", "utilisation", "--state", "busy", "--period", "100ms", "--columns", columns]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["heatmap", str(folder / "cpus.csv"), *words, "-o", str(out)])
    return out


def test_what_is_selected_is_compared_with_the_rest(context: BrowserContext, busy: Path) -> None:
    for page in _opened(context, busy):
        # the busiest entity stands first
        assert page.locator(".name .what").first.text_content() == "cpu7"
        page.click(".finding")
        row = page.locator(".traits-table tbody tr").first
        row.wait_for()
        assert "entity cpu7" in str(row.text_content())
        assert "100.0" in str(row.text_content())
        command = str(page.locator(".command").text_content())
        assert "--between 98%..100%" in command
        assert page.locator(".fold").count() == 0
