"""What a page costs in a browser: until it is drawn, and for each step of a zoom.

python benchmarks/page.py --rectangles 25000 250000

Needs Chromium (`chromium` or `google-chrome` on the path) and playwright. Opening is time on the
clock, as a person waits; script, layout and painting of a step are what the browser says it spent.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import measure
import numpy as np

from meantime.model.units import format_bytes
from meantime.testing.statemaps import panel, statemap
from meantime.views.statemap.data import Rectangles
from meantime.views.statemap.svg import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from meantime.views.statemap.data import Statemap

STATES = "abcdefgh"
MIXED = 4
STEPS = 60
# Two ways to paint without a graphics processor: the second copies each frame to an emulated one.
PAINTING = {
    "painted by Chromium": ["--disable-gpu"],
    "by an emulated GPU": ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
}
OPENINGS = 5
ZOOM = """async (steps) => {
  const strip = document.querySelector(".strip");
  const {left, top, width} = strip.getBoundingClientRect();
  for (let step = 0; step < steps; step++) {
    const deltaY = step % 30 < 15 ? -120 : 120;
    const at = {clientX: left + width * 0.4, clientY: top + 50};
    strip.dispatchEvent(new WheelEvent("wheel", {deltaY, ...at, bubbles: true, cancelable: true}));
    await new Promise(requestAnimationFrame);
  }
}"""


def main() -> None:
    """Print the figures for pages of several sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rectangles", type=int, nargs="+", default=[25_000, 250_000])
    parser.add_argument("--rows", type=int, default=256)
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - --help needs no browser

    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium on this machine")
    print(measure.header("page"))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        for count in arguments.rectangles:
            drawn = generated(arguments.rows, count // arguments.rows)
            cpu_s = measure.best_cpu_s(partial(render, drawn))
            file = render(drawn)
            path = Path(folder) / f"{count}.svg"
            path.write_bytes(file)
            print(
                f"{count:>9,} rectangles  written in {cpu_s * 1e3:.0f} ms of CPU"
                f" ({count / cpu_s / 1e6:.1f} M/s), {format_bytes(len(file))}"
            )
            for painting, arguments_of_it in PAINTING.items():
                browser = playwright.chromium.launch(
                    executable_path=program, args=["--no-sandbox", *arguments_of_it]
                )
                print(f"{painting:>30}: {driven(browser, path.as_uri())}")
                browser.close()


def generated(rows: int, a_row: int) -> Statemap:
    """Return rows of rectangles that each hold several states."""
    random = np.random.default_rng(1)
    count = rows * a_row
    length = random.exponential(10**6, (rows, a_row)).astype(np.int64) + 1000
    end = length.cumsum(axis=1)
    state = np.sort(random.permuted(np.tile(np.arange(8), (count, 1)), axis=1)[:, :MIXED], axis=1)
    weight = random.random((count, MIXED))
    part = (length.reshape(-1, 1) * (weight / weight.sum(axis=1, keepdims=True))).astype(np.int64)
    part[:, 0] += length.ravel() - part.sum(axis=1)
    plain = panel({"row": STATES})
    rectangles = Rectangles(
        row_offsets=np.arange(rows + 1) * a_row,
        start_ns=(end - length).ravel(),
        end_ns=end.ravel(),
        state_offsets=np.arange(count + 1) * MIXED,
        state_index=state.ravel().astype(np.int32),
        state_ns=part.ravel(),
        tag_offsets=np.zeros(count + 1, np.int64),
        tag_index=np.empty(0, np.int32),
        tag_ns=np.empty(0, np.int64),
    )
    names = [f"thread-{row}" for row in range(rows)]
    return statemap(replace(plain, entities=names, rectangles=rectangles, end_ns=int(end.max())))


def driven(browser: Browser, address: str) -> str:
    """Return how long it takes to open a page, and what a step of a zoom costs."""
    opened_s = []
    for _ in range(OPENINGS):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(".tick")
        opened_s.append(time.perf_counter() - began)
        if len(opened_s) < OPENINGS:
            page.close()
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")

    def spent() -> dict[str, float]:
        metrics = client.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: metric["value"] for metric in metrics}

    page.evaluate(ZOOM, STEPS)
    before, began = spent(), time.perf_counter()
    page.evaluate(ZOOM, STEPS)
    after, frame_ms = spent(), (time.perf_counter() - began) / STEPS * 1e3
    step_ms = {name: (after[name] - before[name]) / STEPS * 1e3 for name in after}
    page.close()
    return (
        f"open in {min(opened_s):.2f} s (worst of {OPENINGS}: {max(opened_s):.2f});"
        f" a step of a zoom: {step_ms['ScriptDuration']:.1f} ms of script,"
        f" {step_ms['TaskDuration']:.1f} ms in all, a frame every {frame_ms:.0f} ms"
    )


if __name__ == "__main__":
    main()
