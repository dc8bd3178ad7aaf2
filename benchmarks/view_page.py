"""What the page of `meantime view` costs in Chromium, drawn by WebGL2 and as an image.

python benchmarks/view_page.py HISTORY...

The first frame is CPU time of the renderer until all that is in view is drawn: of its main thread,
and of the whole process with painting. A frame is what the page's own code does in it, with all
groups of lanes open: the median of many, and the tenths of them, since other programs interrupt it.
Drawing is the part of it in which pixels are given to the browser: an image, or rows and quads.
Memory is what the renderer has for itself after zooming and panning.

Here WebGL2 is emulated, which the page refuses: it is made to believe in a GPU. What the GPU, or
its emulation, then does is not in these figures.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser, CDPSession, Page, Response

EMULATED = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PAINTING = {
    "WebGL2": (EMULATED, True),
    "an image": (EMULATED, False),
    "an image, without WebGL2": (["--disable-gpu", "--disable-3d-apis"], False),
}
SCREENS = ((1920, 1080, 1), (2560, 1440, 2))
OPENINGS, STEPS = 5, 200
AT_REST = "main[aria-busy=false]"
RESTS = f"""new Promise((resolve) => {{
  const look = () => document.querySelector("{AT_REST}") ? resolve() : setTimeout(look, 10);
  look();
}})"""

BELIEVE = """
const parameter = WebGL2RenderingContext.prototype.getParameter;
WebGL2RenderingContext.prototype.getParameter = function (name) {
  return typeof parameter.call(this, name) === "string" ? "a GPU" : parameter.call(this, name);
};
const context = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
  if (kind === "webgl2") options = {...options, failIfMajorPerformanceCaveat: false};
  return context.call(this, kind, options);
};
"""
# Times of frames in which lanes are drawn, and of giving their pixels to the browser.
WATCH = """
window.watched = {frames: [], drawn: []};
let [calls, given] = [0, 0];
const frame = window.requestAnimationFrame;
window.requestAnimationFrame = (callback) => frame((now) => {
  const began = performance.now();
  [calls, given] = [0, 0];
  callback(now);
  if (!calls) return;
  watched.frames.push(performance.now() - began);
  watched.drawn.push(given);
});
const watch = ({prototype}, name) => {
  const call = prototype[name];
  prototype[name] = function (...values) {
    const began = performance.now();
    call.apply(this, values);
    if (!this.canvas.closest("main")) return;
    calls++;
    given += performance.now() - began;
  };
};
watch(CanvasRenderingContext2D, "putImageData");
if (window.WebGL2RenderingContext) {
  for (const name of ["texImage2D", "texSubImage2D", "bufferData", "drawArraysInstanced"]) {
    watch(WebGL2RenderingContext, name);
  }
}
"""
OPEN_ALL = """() => {
  const menu = document.querySelector("select.lane-menu");
  menu.value = "open";
  menu.dispatchEvent(new Event("change"));
}"""
MOVE = """async ([steps, deltaY, deltaX]) => {
  watched.frames.length = watched.drawn.length = 0;
  const canvas = document.querySelector("main canvas[role=application]");
  const {left, top, width} = canvas.getBoundingClientRect();
  const at = {clientX: left + width * 0.4, clientY: top + 50};
  const end = performance.now() + 30_000;
  for (let step = 0; step < steps && performance.now() < end; step++) {
    const sign = step % 40 < 20 ? 1 : -1;
    const by = {deltaY: -sign * deltaY, deltaX: sign * deltaX, shiftKey: deltaX > 0};
    const wheel = {...by, ...at, bubbles: true, cancelable: true};
    canvas.dispatchEvent(new WheelEvent("wheel", wheel));
    await new Promise(requestAnimationFrame);
  }
  return [watched.frames, watched.drawn];
}"""


class Opened(NamedTuple):
    """What opening a page cost, in seconds of CPU, and how many boxes came."""

    main_s: float
    renderer_s: float
    boxes: int


def main() -> None:
    """Print the figures of the pages of histories."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", type=Path, nargs="+")
    arguments = parser.parse_args()
    print(measure.header("view in a browser"))
    for path in arguments.histories:
        print(path.name)
        print_page(path)


def print_page(path: Path) -> None:
    """Serve a history, and print what its page costs.

    Raises:
        SystemExit: If there is no Chromium.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - without a browser, no import

    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium on this machine")
    command = [sys.executable, "-m", "meantime", "view", str(path), "--no-open", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            address = next(
                match[0]
                for line in server.stdout or ()
                if (match := re.search(r"http://[\d.:]+/\?token=\w+", line))
            )
            with sync_playwright() as playwright:
                for painting, (options, believes) in PAINTING.items():
                    for screen in SCREENS:
                        browser = playwright.chromium.launch(
                            executable_path=program, args=["--no-sandbox", *options]
                        )
                        _print_costs(browser, address, painting, screen, believes=believes)
                        browser.close()
        finally:
            server.terminate()


def _print_costs(
    browser: Browser,
    address: str,
    painting: str,
    screen: tuple[int, int, float],
    *,
    believes: bool,
) -> None:
    width, height, ratio = screen
    opened = []
    for _ in range(OPENINGS):
        page = browser.new_page(
            viewport={"width": width, "height": height}, device_scale_factor=ratio
        )
        # emulated, a frame of many quads takes seconds
        page.set_default_timeout(300_000)
        if believes:
            page.add_init_script(BELIEVE)
        opened.append(_opened(page, _entered(page, address)))
        if len(opened) < OPENINGS:
            page.close()
    boxes = f", {opened[0].boxes:,} boxes" if opened[0].boxes else ""
    print(
        f"  {painting}, {width} x {height} @{ratio}: first frame"
        f" {min(each.main_s for each in opened):.2f} s of the main thread,"
        f" {min(each.renderer_s for each in opened):.2f} s of the renderer{boxes}"
    )
    page.evaluate(OPEN_ALL)
    # a menu says what was chosen before that is drawn
    page.wait_for_timeout(100)
    page.wait_for_selector(AT_REST, state="attached")
    for what, move in (("zoom", (STEPS, 120, 0)), ("pan", (STEPS, 0, 60))):
        if what == "pan":
            # a view of everything stays where it is
            page.evaluate(MOVE, (10, 120, 0))
            page.wait_for_selector(AT_REST, state="attached")
        frames, drawn = page.evaluate(MOVE, move)
        page.wait_for_selector(AT_REST, state="attached")
        low, *_, high = statistics.quantiles(frames, n=10)
        print(
            f"    {what}: a frame {statistics.median(frames):.1f} ms of script (tenths {low:.1f} to"
            f" {high:.1f}); drawing {statistics.median(drawn):.1f} of it"
        )
    print(f"    then {_private_bytes(browser) / 1e6:.0f} MB of the renderer's own")
    page.close()


def _entered(page: Page, address: str) -> str:
    """Give a page the cookie for the token of an address; return the address without it."""
    plain, _, token = address.partition("?token=")
    name = f"meantime-{urlsplit(plain).port}"
    page.context.add_cookies([{"name": name, "value": token, "url": plain}])
    return plain


def _opened(page: Page, address: str) -> Opened:
    """Open the page in a renderer that runs already."""
    responses: list[Response] = []
    page.goto(f"{address}no-such-file")
    page.add_init_script(WATCH)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})

    def collect(response: Response) -> None:
        responses.append(response)

    page.on("response", collect)
    before = _renderers(page)
    page.goto(address, wait_until="commit")
    # a selector would bring scripts of the driver into the page, which take a tenth of its time
    client.send("Runtime.evaluate", {"expression": RESTS, "awaitPromise": True})
    main_s = _metrics(client)["TaskDuration"]
    after = _renderers(page)
    spent = sum(seconds - before.get(process, 0.0) for process, seconds in after.items())
    page.remove_listener("response", collect)
    return Opened(main_s, spent, sum(map(_boxes, responses)))


def _boxes(response: Response) -> int:
    if "/tile/" not in response.url or response.status != 200:
        return 0
    body = response.body()
    arrays = json.loads(body[8 : 8 + int.from_bytes(body[4:8], "little")])["arrays"]
    return sum(arrays[name]["shape"][0] for name in ("row", "cell_row") if name in arrays)


def _metrics(client: CDPSession) -> dict[str, float]:
    found = client.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in found}


def _processes(browser: Browser) -> Sequence[dict[str, Any]]:
    client = browser.new_browser_cdp_session()
    found: Sequence[dict[str, Any]] = client.send("SystemInfo.getProcessInfo")["processInfo"]
    client.detach()
    return [process for process in found if process["type"] == "renderer"]


def _renderers(page: Page) -> dict[int, float]:
    browser = page.context.browser
    assert browser is not None
    return {process["id"]: process["cpuTime"] for process in _processes(browser)}


def _private_bytes(browser: Browser) -> int:
    """Return the memory that no other process shares, of the largest renderer."""
    most = 0
    for process in _processes(browser):
        text = Path(f"/proc/{process['id']}/smaps_rollup").read_text()
        parts = re.findall(r"Private_(?:Clean|Dirty):\s+(\d+) kB", text)
        most = max(most, 1024 * sum(map(int, parts)))
    return most


if __name__ == "__main__":
    main()
