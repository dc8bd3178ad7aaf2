"""What the page of a day costs in a browser: until it is drawn, for a selection, for a step.

python benchmarks/heatmap_page.py

Needs Chromium (`chromium` or `google-chrome` on the path) and playwright. Times are on the clock,
as a person waits: until the frame after the next one has begun, which alone takes two frames.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import measure
import numpy as np

from meantime.query.offsets import CellsBuilder, Fold, OffsetMap, Source
from meantime.views.heatmap.figure import draw
from meantime.views.heatmap.look import Look
from meantime.views.heatmap.selection import Selection
from meantime.views.heatmap.svg import figure_page

S = 10**9
NAMES = 40
SAMPLES = 8_000_000
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PRESS = f"""async (key) => {{
  const began = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", {{key, bubbles: true}}));
  await {DRAWN};
  return performance.now() - began;
}}"""


def main() -> None:
    """Print the figures for a day of one-second columns in 50 rows."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - without a browser, no import

    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium on this machine")
    print(measure.header("page of a day"))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.svg"
        path.write_bytes(page_of_a_day())
        print(f"{SAMPLES:,} samples of {NAMES} names: {path.stat().st_size / 1e6:.0f} MB")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened_s = []
        for _ in range(3):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            began = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("canvas.map")
            page.evaluate(f"() => {DRAWN}")
            opened_s.append(time.perf_counter() - began)
        print(f"opened in {min(opened_s):.2f} s")
        for what, keys in {
            "selection of a name": ["j"] * 5,
            "every name in its colour": ["d"],
            "zoom": ["+"] * 7,
            "pan": ["ArrowRight"] * 7,
        }.items():
            ms = [page.evaluate(PRESS, key) for key in keys]
            print(f"{what}: {np.median(ms):.0f} ms, at worst {max(ms):.0f}")
        browser.close()


def page_of_a_day() -> bytes:
    """Return the page of samples at random in a day."""
    random = np.random.default_rng(7)
    builder = CellsBuilder(Fold(0, S, 50))
    name = np.minimum(random.geometric(0.15, SAMPLES) - 1, NAMES - 1)
    builder.add_times(np.sort(random.integers(0, 86_400 * S, SAMPLES)), keys=name)
    source = Source("x", ((0, 86_400 * S),))
    names = [f"thread-{number}" for number in range(NAMES)]
    found = OffsetMap.of(builder, "count", names=names, sources=[source])
    figure = draw(found, Selection(), Look(), title="a day")
    return figure_page(figure, found, Selection(), Look()).document()


if __name__ == "__main__":
    main()
