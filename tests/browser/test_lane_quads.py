"""The lanes drawn by WebGL2: the same pixels as without it, whatever happens to the context."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.history import HistoryBuilder
from meantime.history.store import Store
from meantime.model.columns import Coded
from meantime.server.demo import demo_session
from meantime.server.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy.typing as npt
    from playwright.sync_api import Browser, Page, ViewportSize

    Served = Callable[[Session], AbstractContextManager[str]]

# WebGL2 without a GPU, which the page refuses unless it takes it for one.
EMULATED = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
BELIEVE = """
  {
    const { getParameter } = WebGL2RenderingContext.prototype;
    WebGL2RenderingContext.prototype.getParameter = function (name) {
      const value = getParameter.call(this, name);
      return typeof value === "string" ? "a GPU" : value;
    };
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = function (kind, options) {
      const more = kind === "webgl2" ? { failIfMajorPerformanceCaveat: false } : {};
      const context = getContext.call(this, kind, { ...options, ...more });
      if (kind === "webgl2") window.gl = context;
      return context;
    };
  }
"""
# The pixels of the lanes when they were given to the browser last, from the top.
WATCH = """
  {
    window.drawn = { by: null, read: null };
    const { putImageData } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.putImageData = function (image, ...at) {
      putImageData.call(this, image, ...at);
      if (this.canvas.closest("main")) window.drawn = { by: "image", read: () => image };
    };
    const { drawArraysInstanced } = WebGL2RenderingContext.prototype;
    WebGL2RenderingContext.prototype.drawArraysInstanced = function (...values) {
      const draw = () => drawArraysInstanced.apply(this, values);
      const read = () => {
        // what is shown is not kept
        draw();
        const { width, height } = this.canvas;
        const upwards = new Uint8Array(4 * width * height);
        this.readPixels(0, 0, width, height, this.RGBA, this.UNSIGNED_BYTE, upwards);
        if (this.getError()) throw new Error("WebGL2 complains");
        const data = new Uint8Array(upwards.length);
        for (let y = 0; y < height; y++) {
          const row = upwards.subarray(4 * width * y, 4 * width * (y + 1));
          data.set(row, 4 * width * (height - 1 - y));
        }
        return { width, height, data };
      };
      draw();
      window.drawn = { by: "quads", read };
    };
  }
"""
DRAWN = """async () => {
  const { by, read } = window.drawn;
  const { width, height, data } = read();
  const reader = new FileReader();
  const read64 = new Promise((resolve) => (reader.onload = resolve));
  reader.readAsDataURL(new Blob([data]));
  await read64;
  return [by, width, height, reader.result.split(",")[1]];
}"""
DECODED = """async (href) => {
  const image = new Image();
  image.src = href;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  return [width, height, [...pen.getImageData(0, 0, width, height).data]];
}"""


@pytest.fixture(scope="module")
def emulated(start_browser: Callable[..., Browser]) -> Browser:
    return start_browser(*EMULATED)


@pytest.fixture(scope="module")
def recorded(served: Served) -> Iterator[str]:
    """Where stacks, tasks, requests, samples, points and states are served."""
    with served(Session([file.path for file in demo_session().files])) as address:
        yield address


@pytest.fixture(scope="module")
def made(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where numbers and many states are served, some of them damaged."""
    folder = tmp_path_factory.mktemp("quads")
    sources = [numbers(folder / "numbers.mth"), damaged(folder / "damaged.mth")]
    with served(Session(sources)) as address:
        yield address


def numbers(path: Path) -> Path:
    builder = HistoryBuilder(path)
    quark = builder.quark("load", "1")
    for step in range(300):
        builder.modify(step * 10_000, quark, step * step % 97)
    builder.close(3_000_000)
    return path


def damaged(path: Path) -> Path:
    """Write a history of random states, one of whose segments is damaged."""
    random = np.random.default_rng(1)
    rows = 8_000
    states = ["running", "idle", "io-read", "lock", *map("state{}".format, range(9))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store.__init__, "__defaults__", (1_000,))
        builder = HistoryBuilder(path)
        quarks = [builder.quark("CPUs", str(number)) for number in range(12)]
        builder.modify_many(
            np.sort(random.integers(0, 3_000_000, rows)),
            np.array(quarks, np.int32)[random.integers(0, len(quarks), rows)],
            Coded(random.integers(0, len(states), rows, dtype=np.int32), states),
        )
        builder.close(3_000_000)
    segment = sorted((path / "segments").glob("*.seg"))[3]
    data = bytearray(segment.read_bytes())
    data[-40] ^= 0xFF
    segment.write_bytes(data)
    return path


def opened(browser: Browser, address: str, *, believes: bool, ratio: float = 1) -> Page:
    """Open a page that is drawn by WebGL2, if it believes in a GPU."""
    viewport: ViewportSize = {"width": 740, "height": 520}
    page = browser.new_context(viewport=viewport, device_scale_factor=ratio).new_page()
    page.add_init_script(WATCH)
    if believes:
        page.add_init_script(BELIEVE)
    page.goto(address)
    if believes:
        # the first frames are drawn without
        page.wait_for_function("() => drawn.by === 'quads'")
    return page


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def drawn(page: Page) -> tuple[str, npt.NDArray[np.uint8]]:
    """Return what draws the lanes, and their pixels."""
    by, width, height, data = page.evaluate(DRAWN)
    pixels = np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)
    assert len(np.unique(pixels.reshape(-1, 4), axis=0)) > 3
    return by, pixels


@pytest.mark.parametrize(("traces", "ratio"), [("recorded", 1), ("made", 1.5)])
def test_webgl2_draws_the_same_pixels(
    request: pytest.FixtureRequest, emulated: Browser, traces: str, ratio: float
) -> None:
    address = request.getfixturevalue(traces)
    steps: list[Callable[[Page], object]] = [
        lambda page: press(page, "0"),
        lambda page: page.select_option("select.lane-menu", "open"),
        # a lane that stays over those that are scrolled
        lambda page: press(page, *3 * ["ArrowDown"], "."),
        lambda page: page.evaluate("document.querySelector('.lane-tree').scrollTop = 90"),
        lambda page: press(page, *"wwdww"),
        # what is lit is drawn above what is not
        lambda page: press(page, "/", "s"),
    ]

    pictures = []
    for believes in (True, False):
        page = opened(emulated, address, believes=believes, ratio=ratio)
        for step in steps:
            step(page)
            pictures.append(drawn(page))
        page.context.close()

    for (by, one), (other, another) in zip(
        pictures[: len(steps)], pictures[len(steps) :], strict=True
    ):
        assert (by, other) == ("quads", "image")
        assert np.array_equal(one, another)


def test_nothing_is_missing_without_the_context(emulated: Browser, made: str) -> None:
    page = opened(emulated, made, believes=True)
    page.keyboard.press("w")
    by, before = drawn(page)
    assert by == "quads"
    page.evaluate("window.losing = gl.getExtension('WEBGL_lose_context'); losing.loseContext()")
    page.wait_for_function("() => drawn.by === 'image'")
    assert np.array_equal(drawn(page)[1], before)
    page.keyboard.press("d")
    _, moved = drawn(page)
    assert not np.array_equal(moved, before)

    page.evaluate("losing.restoreContext()")
    page.wait_for_function("() => drawn.by === 'quads'")
    assert np.array_equal(drawn(page)[1], moved)
    # a size that the context before did not have
    page.set_viewport_size({"width": 780, "height": 460})
    by, larger = drawn(page)
    assert by == "quads"
    assert larger.shape != moved.shape
    page.context.close()


def test_a_saved_picture_has_the_lanes(emulated: Browser, made: str) -> None:
    pictures = []
    for believes in (True, False):
        page = opened(emulated, made, believes=believes)
        page.keyboard.press("w")
        drawn(page)
        with page.expect_download() as download:
            page.keyboard.press("e")
        (href,) = re.findall(r'href="([^"]+)"', download.value.path().read_text())
        by, lanes = drawn(page)
        assert by == ("quads" if believes else "image")
        width, height, data = page.evaluate(DECODED, href)
        pictures.append(np.array(data, np.uint8).reshape(height, width, 4))
        # labels and lines are above the lanes
        assert (pictures[-1] == lanes).all(axis=2).mean() > 0.9
        page.context.close()

    assert pictures[0].shape == pictures[1].shape


def test_a_program_that_draws_is_not_taken_for_a_gpu(emulated: Browser, made: str) -> None:
    page = opened(emulated, made, believes=False)

    page.select_option("select.lane-menu", "open")
    press(page, *3 * ["ArrowDown"])
    by, lanes = drawn(page)
    assert by == "image"
    assert page.locator("main canvas[aria-hidden]").count() == 0
    # a browser that draws so applied a clip of the hatches to the lanes, too
    seen = base64.b64encode(page.locator("main canvas").screenshot()).decode()
    width, height, data = page.evaluate(DECODED, f"data:image/png;base64,{seen}")
    shown = np.array(data, np.uint8).reshape(height, width, 4)
    assert (shown == lanes).all(axis=2).mean() > 0.9
    page.context.close()
