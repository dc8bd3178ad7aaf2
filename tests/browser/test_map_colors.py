"""Every pixel of a map of states has a colour of its legend, at any size, in pages and pictures."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.server.session import Session
from meantime.testing import history_from_picture
from meantime.views.statemap.svg import parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy.typing as npt
    from playwright.sync_api import Browser, Page

    from meantime.history import History

    Open = Callable[..., Page]

RED, BLUE, PURPLE = 0xFF0000, 0x0000FF, 0x800080
STATES = {"running": RED, "waiting": BLUE, "deadlocked": PURPLE}
# A pixel of red and blue together would be purple.
LEGEND = [RED, BLUE]
SIZES = [(1920, 1080, 1), (1111, 640, 1.5), (1000, 700, 2)]


def write(path: Path, rows: int, steps: int) -> Path:
    """Write rows that alternate between two states; a third never occurs."""
    states = {
        name: {"value": value, "color": f"#{color:06x}"}
        for value, (name, color) in enumerate(STATES.items())
    }
    lines = [json.dumps({"start": [1_700_000_000, 0], "title": "lie", "states": states})]
    lines += (
        f'{{"time":"{step * 500_000}","entity":"t{row}","state":{(step + (row % 7 == 1)) % 2}}}'
        for step in range(steps)
        for row in range(rows)
    )
    lines.append(f'{{"time":"{steps * 500_000}","entity":"t0","state":0}}')
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module", params=[(5, 2000), (60, 1000), (300, 400), (9000, 12)])
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    return meantime.open(write(tmp_path_factory.mktemp("lie") / "lie.statemap", *request.param))


def image(page: Page, shown: bytes) -> npt.NDArray[np.int64]:
    """Return the pixels of a PNG as 0xrrggbb; the page is one in which that can be done."""
    width, text = page.evaluate(
        """async (text) => {
          const bytes = Uint8Array.from(atob(text), (digit) => digit.charCodeAt(0));
          const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
          const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
          context.drawImage(bitmap, 0, 0);
          const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
          let binary = "";
          for (let i = 0; i < data.length; i += 32768) {
            binary += String.fromCharCode(...data.subarray(i, i + 32768));
          }
          return [bitmap.width, btoa(binary)];
        }""",
        b64encode(shown).decode(),
    )
    data = np.frombuffer(b64decode(text), np.uint8).reshape(-1, width, 4).astype(np.int64)
    pixels: npt.NDArray[np.int64] = data[..., 0] << 16 | data[..., 1] << 8 | data[..., 2]
    return pixels


def part(page: Page, selector: str, most_px: int = 720) -> npt.NDArray[np.int64]:
    """Return the pixels of an element, down to a height of the page."""
    box = page.locator(selector).first.bounding_box()
    assert box
    box["height"] = min(box["height"], most_px - box["y"])
    return image(page, page.screenshot(clip={**box}, scale="device"))


def is_grey(color: int) -> bool:
    """Return whether a colour is that of the ground, or of lines and hatching on it."""
    parts = color >> 16, color >> 8 & 255, color & 255
    return max(parts) - min(parts) < 24


def check(pixels: npt.NDArray[np.int64], *, ground: set[int], error: float) -> None:
    """Check that pixels are of the legend or the ground, and that half of the former is red."""
    seen = {
        int(color): int(count)
        for color, count in zip(*np.unique(pixels, return_counts=True), strict=True)
    }
    assert seen.keys() <= {*LEGEND, *ground}
    assert abs(seen[RED] / (seen[RED] + seen[BLUE]) - 0.5) <= error


@pytest.mark.parametrize(("width", "height", "ratio"), SIZES)
def test_the_page_of_a_statemap(
    crowd: History, open_page: Open, width: int, height: int, ratio: float
) -> None:
    page = open_page(
        b"".join(parts(meantime.statemap(crowd).data)),
        viewport={"width": width, "height": height},
        device_scale_factor=ratio,
    )
    strip = page.locator(".strip")

    for _ in range(2):
        pixels = image(page, strip.screenshot(scale="device"))
        check(pixels[4:-4, 4:-4], ground={0xFFFFFF}, error=0.04)
        page.keyboard.press("w")  # zoomed in


@pytest.mark.parametrize(("height_px", "ratio"), [(2, 1), (3, 1.5), (10, 2)])
def test_the_picture_of_a_statemap(
    crowd: History, browser: Browser, tmp_path: Path, height_px: int, ratio: float
) -> None:
    shown = meantime.statemap(crowd, state_height_px=height_px)
    (tmp_path / "map.svg").write_bytes(b"".join(parts(shown.data)))
    context = browser.new_context(
        viewport={"width": 1280, "height": 1200},
        java_script_enabled=False,
        device_scale_factor=ratio,
    )
    page = context.new_page()
    page.goto((tmp_path / "map.svg").as_uri())

    pixels = part(page, "rect.frame", most_px=1200)
    context.close()

    # the frame is drawn over the edges
    check(pixels[2:-2, 2:-2], ground=set(), error=0.04)


@pytest.mark.parametrize("ratio", [1, 1.5])
@pytest.mark.parametrize("is_served", [False, True])
def test_the_lanes_of_a_view(
    browser: Browser,
    served: Callable[[Session], AbstractContextManager[str]],
    tmp_path: Path,
    ratio: float,
    is_served: bool,  # noqa: FBT001 - pytest passes it
) -> None:
    trace = write(tmp_path / "lie.statemap", 60, 1000)
    context = browser.new_context(
        viewport={"width": 1280, "height": 720}, device_scale_factor=ratio
    )
    page = context.new_page()
    with served(Session([trace])) as address:
        meantime.view(trace).save(tmp_path / "lie.html")
        page.goto(address if is_served else (tmp_path / "lie.html").as_uri())
        page.wait_for_selector(".facts >> text=waiting")
        shown = [part(page, each) for each in (".minimap canvas", ".lane-tree canvas")]
    context.close()

    for pixels in shown:
        greys = {color for color in np.unique(pixels).tolist() if is_grey(color)}
        check(pixels, ground=greys, error=0.04)


def test_the_legend_of_a_view_has_what_more_than_three_states_of_a_pixel_are_drawn_as(
    browser: Browser, tmp_path: Path
) -> None:
    letters = "abcde" * 4000
    meantime.view(history_from_picture(f"cpu  {letters}")).save(tmp_path / "five.html")
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "five.html").as_uri())

    shown = page.locator(".facts .states").inner_text().split()
    context.close()

    assert shown == [*"abcde", "other", "states"]
