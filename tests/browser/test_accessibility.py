"""Pages for everyone: what axe-core finds, keys alone, names, enlarged, without motion."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest

from meantime.cli import main
from meantime.server.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    Served = Callable[[Session], AbstractContextManager[str]]

EMOJI = "\U0001f469\u200d\U0001f680"
ARABIC = "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645"
NAMES = {1: "Chrome_ChildIOThread", 2: f"a_thread_of_emoji_{EMOJI * 12}_end", 3: f"{ARABIC} 3"}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with spans, arguments, instants, counters and names of every kind."""
    events: list[dict[str, object]] = [
        {
            "ph": "X",
            "pid": 1,
            "tid": tid,
            "name": name,
            "ts": start,
            "dur": length,
            "args": {"n": 1},
        }
        for tid, name, start, length in (
            (1, "serve", 0, 900),
            (1, "read", 100, 300),
            (2, "read", 50, 20),
            (3, "write", 10, 600),
        )
    ]
    events += [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in NAMES.items()
    ]
    events.append({"ph": "i", "pid": 1, "tid": 1, "ts": 5, "name": "mark", "s": "t"})
    events.append({"ph": "C", "pid": 1, "ts": 5, "name": "memory", "args": {"bytes": 3}})
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    path.write_text(json.dumps(events))
    return path


@pytest.fixture(scope="module")
def axe(pytestconfig: pytest.Config) -> str:
    path = pytestconfig.rootpath / "web/node_modules/axe-core/axe.min.js"
    if not path.is_file():
        pytest.skip("axe-core is not installed: npm ci in web/")
    return path.read_text()


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1200, "height": 800}) as made:
        yield made


@pytest.fixture(scope="module")
def served_page(contexts: BrowserContext, served: Served, trace: Path) -> Iterator[Page]:
    with served(Session([str(trace)])) as address:
        page = contexts.new_page()
        page.goto(address)
        at_rest(page)
        yield page
        page.close()


def at_rest(page: Page) -> None:
    page.wait_for_selector("main[aria-busy=false]", state="attached")


def complaints(page: Page, axe: str, where: str, part: str = "html") -> list[str]:
    """Return what axe-core finds in a part in light, and what of the contrast in dark."""
    found: list[str] = []
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe)
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        options = {} if scheme == "light" else {"runOnly": ["color-contrast"]}
        page.emulate_media(color_scheme=scheme)
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
        run = "([part, options]) => axe.run(part, options)"
        for rule in page.evaluate(run, [part, options])["violations"]:
            found += [
                f"{where}, {scheme}: {rule['impact']} {rule['id']}: {each['html'][:200]}"
                for each in rule["nodes"]
            ]
    page.emulate_media(color_scheme="light")
    return found


def test_axe_finds_nothing_on_the_served_page(served_page: Page, axe: str) -> None:
    page = served_page
    found = complaints(page, axe, "first screen")
    for tab in ("stats", "flame", "heat", "notes"):
        page.click(f"#tab-of-{tab}")
        at_rest(page)
        found += complaints(page, axe, tab, ".panel")
    page.click("#tab-of-over")
    page.keyboard.press("/")
    page.keyboard.type("read")
    page.wait_for_selector(".hits tbody tr")
    found += complaints(page, axe, "hits", ".panel")
    page.keyboard.press("Enter")
    page.wait_for_selector(".selection .ranked")
    found += complaints(page, axe, "selection", ".panel")
    page.locator("main canvas").first.focus()
    page.keyboard.press("k")
    page.wait_for_selector(".moment-head")
    found += complaints(page, axe, "moment", ".panel")
    page.keyboard.press("/")
    page.locator(".search input").fill(">")
    page.wait_for_selector(".offer[aria-selected=true]")
    found += complaints(page, axe, "commands", ".top")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    found += complaints(page, axe, "keys", "dialog")
    page.keyboard.press("Escape")
    assert found == []


@pytest.mark.parametrize("kind", ["view", "statemap", "heatmap", "flame", "chart"])
def test_axe_finds_nothing_on_pages_in_files(
    contexts: BrowserContext, axe: str, trace: Path, tmp_path: Path, kind: str
) -> None:
    source, command = str(trace), ["flame", "--chart"] if kind == "chart" else [kind]
    if kind == "statemap":
        source = str(tmp_path / "trace.statemap")
        lines: list[dict[str, object]] = [
            {"start": [0, 0], "title": "t", "states": {"on": {"value": 0}, "off": {"value": 1}}}
        ]
        lines += [
            {"time": str(at), "entity": each, "state": at % 2}
            for each in "abcdefghijklmno"
            for at in range(9)
        ]
        (tmp_path / "trace.statemap").write_text("\n".join(map(json.dumps, lines)))
    elif kind == "heatmap":
        command += ["--period", "100us"]
    out = tmp_path / ("page.html" if kind == "view" else "page.svg")
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*command, source, "-o", str(out)])
    page = contexts.new_page()
    page.goto(out.as_uri())
    page.wait_for_selector("html body main", state="attached")
    if kind == "view":
        at_rest(page)
    assert complaints(page, axe, kind) == []
    page.close()


def test_names_are_one_element_and_cut_between_letters(served_page: Page) -> None:
    titles = served_page.locator(".lane-name .title")
    texts = titles.all_text_contents()
    for name in NAMES.values():
        assert any(name in text for text in texts)
    assert served_page.evaluate("find('Chrome_ChildIOThread')")
    cut = str(titles.filter(has_text="a_thread_of").first.get_attribute("data-cut"))
    begin, end = cut.split("\u2026")
    whole = next(text for text in texts if "a_thread_of" in text)
    assert whole.startswith(begin)
    assert whole.endswith(end)
    # a woman astronaut is three characters
    assert not begin.endswith(("\U0001f469", "\u200d"))
    assert not end.startswith(("\u200d", "\U0001f680"))
    row = served_page.locator(".lane-name").filter(has_text="a_thread_of").first
    assert whole in str(row.get_attribute("aria-label"))


def test_keys_alone_reach_every_control(served_page: Page) -> None:
    page = served_page
    page.evaluate("document.activeElement?.blur()")
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        own = page.evaluate(
            """(() => {
                const each = document.activeElement;
                each.dataset.reached = '1';
                const box = each.getBoundingClientRect(), { outlineStyle } = getComputedStyle(each);
                const isSeen = box.width > 0 && (outlineStyle !== 'none' || each.matches('.grip'));
                return [each.tagName, each.getAttribute('aria-label') ?? each.id, isSeen].join();
            })()"""
        )
        if own in reached and own.startswith("BODY"):
            break
        reached.add(own)
    missed = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea, [tabindex="0"]')]
            .filter((each) => each.checkVisibility({ visibilityProperty: true }))
            .filter((each) => each.tabIndex >= 0 && !each.closest('.lane-tools'))
            .filter((each) => !each.dataset.reached)
            .map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert missed == []
    unseen = [each for each in reached if each.endswith("false") and not each.startswith("BODY")]
    assert unseen == []


def test_at_200_percent_nothing_is_covered_and_lanes_are_seen(
    served: Served, contexts: BrowserContext, trace: Path, tmp_path: Path
) -> None:
    # what is not alike in time has a notice
    other = tmp_path / "other.json"
    other.write_text('[{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 1, "dur": 5}]')
    page = contexts.new_page()
    page.set_viewport_size({"width": 640, "height": 400})
    with served(Session([str(trace), str(other)])) as address:
        page.goto(address)
        at_rest(page)
        boxes = page.evaluate(
            """['.top', '.notice', '.band.map', 'main', '.panel'].map((each) => {
                const { top, bottom } = document.querySelector(each).getBoundingClientRect();
                return [top, Math.max(bottom, top)];
            })"""
        )
        covered = page.evaluate(
            "(() => { const n = document.querySelector('.notice');"
            " return n.scrollHeight - n.clientHeight; })()"
        )
        assert covered <= 1
        for (_, bottom), (top, _) in pairwise(boxes):
            assert bottom <= top + 0.5
        folded = boxes[4][1] - boxes[4][0]
        assert boxes[3][1] - boxes[3][0] >= 80
        assert boxes[4][1] <= 400
        page.click("#tab-of-stats")
        assert page.locator(".panel").bounding_box()["height"] > folded + 50  # type: ignore[index] # it is there
    page.close()


def test_who_wants_no_motion_gets_none(served_page: Page) -> None:
    page = served_page
    page.emulate_media(reduced_motion="reduce")
    page.keyboard.press("Escape")
    page.locator("main canvas").first.focus()
    page.keyboard.press("0")
    page.wait_for_selector(".place >> text=whole trace")
    page.evaluate(
        """(() => {
            window.widths = new Set();
            const place = document.querySelector('.place');
            const look = () => widths.add(place.textContent);
            new MutationObserver(look).observe(place, { childList: true });
        })()"""
    )
    page.keyboard.press("/")
    page.locator(".search input").fill("0.1ms to 0.2ms")
    page.wait_for_selector(".offer[aria-selected=true]")
    page.keyboard.press("Enter")
    page.wait_for_url("**v=**")
    # one step, without any between
    assert page.evaluate("widths.size") == 1
    page.emulate_media(reduced_motion="no-preference")
