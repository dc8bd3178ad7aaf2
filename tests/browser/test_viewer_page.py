"""The page of `meantime view`, driven as a person would, from a server and from one file."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.cli import main
from meantime.history import HistoryBuilder
from meantime.model.columns import Coded
from meantime.model.zones import Zone
from meantime.server.demo import demo_session
from meantime.server.session import Session
from meantime.testing import history_from_picture, history_from_samples, history_from_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page, Response, Route

    from meantime.history import History
    from meantime.views.comparison.view import ComparisonView

    View = Callable[..., Page]
    Served = Callable[[Session], AbstractContextManager[str]]

NARROW = "\u202f"
SPANS = {
    "main": [("serve", 0, 1000), ("read", 100, 400), ("write", 500, 900)],
    "pool-1": [("work", 200, 800)],
}
DAYS_104_NS = 104 * 86_400 * 10**9
UNIX_NS = 1_790_857_026_123_456_789


@pytest.fixture(scope="module")
def online(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1200, "height": 800}) as made:
        yield made


@pytest.fixture
def view(online: BrowserContext, served: Served) -> Iterator[View]:
    """A function that serves sources and opens their page, which may not complain of anything."""
    complaints: list[str] = []
    with ExitStack() as stack:

        def open_view(
            *sources: str | History, fragment: str = "", session: Session | None = None
        ) -> Page:
            address = stack.enter_context(served(session or Session(sources)))
            page = online.new_page()
            stack.callback(page.close)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(address + fragment)
            return at_rest(page)

        yield open_view
    assert complaints == []


def test_the_token_leaves_the_address_and_stays_in_the_cookie(view: View, browser: Browser) -> None:
    page = view(history_from_picture("a  xxyy"), fragment="#tab=stats")

    assert "token" not in page.url
    assert page.url.endswith("/#tab=stats")
    page.reload()
    at_rest(page)
    assert page.evaluate("document.cookie") == ""
    # neither are earlier addresses in the history of the tab
    assert page.evaluate("history.length") <= 2
    with browser.new_context() as other:
        reply = other.new_page().goto(page.url)
        assert reply is not None
        assert reply.status == 403


def at_rest(page: Page) -> Page:
    page.wait_for_selector("main[aria-busy=false]", state="attached")
    return page


def figures(page: Page) -> list[tuple[str, ...]]:
    """Return the statistics that the page shows: names, and exact figures."""
    page.keyboard.press("Shift+Digit2")
    page.wait_for_selector(".stat-table tbody tr")
    return [
        (
            row.locator("td.key bdi").inner_text(),
            row.locator("td.count").inner_text(),
            *(
                str(cell.get_attribute("title"))
                for name in ("total", "self", "median")
                for cell in row.locator(f"td.{name}").all()
            ),
        )
        for row in page.locator(".stat-table tbody tr").all()
    ]


def printed(capsys: pytest.CaptureFixture[str], path: Path, by: str) -> list[tuple[str, ...]]:
    """Return the same figures as the command line prints them."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["stats", str(path), "--by", by, "--json"])
    return [
        (
            row["key"],
            str(row["count"]),
            *(f"{row[name]} ns" for name in ("total_ns", "self_ns", "median_ns") if name in row),
        )
        for row in json.loads(capsys.readouterr().out)["rows"]
    ]


def facts(page: Page) -> dict[str, str]:
    page.wait_for_selector(".facts .fact >> text=handle")
    lines = page.locator(".facts .fact").all()
    return {
        line.locator("span").first.inner_text(): line.locator("span").nth(1).inner_text()
        for line in lines
    }


@pytest.fixture(scope="module")
def spans_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("viewer") / "a<b>.json"
    events = [
        {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "name": name,
            "ts": start / 1000,
            "dur": (end - start) / 1000,
        }
        for name, start, end in [
            ("</script>", 0, 900),
            ("read", 100, 400),
            ("read", 500, 620),
            # partly over the one before, and over its parent
            ("write", 550, 700),
            ("late", 800, 1000),
        ]
    ]
    path.write_text(json.dumps(events))
    return path


def test_figures_are_those_of_the_command_line(
    view: View, spans_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = view(str(spans_file))

    assert sorted(figures(page)) == sorted(printed(capsys, spans_file, "name"))
    page.wait_for_selector(".statusbar code >> text=meantime stats")
    assert (
        page.locator(".statusbar code").inner_text() == f"meantime stats '{spans_file}' --by name"
    )


def test_everything_is_reached_by_keys(view: View) -> None:
    page = view(history_from_spans(SPANS))

    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_selector(".facts .named >> text=serve")
    for key in ("/", "w", "r", "i", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".found >> text=1 found")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts .named >> text=write")
    lane = page.get_attribute("[role=tree]", "aria-activedescendant")
    assert "main" in page.inner_text(f"#{lane}")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "application"
    page.keyboard.press("f")
    page.wait_for_selector(f".place >> text=480{NARROW}ns of 1.00")
    page.go_back()
    page.wait_for_selector(".place >> text=whole trace")
    # a letter would choose the first command that begins with it
    page.focus("select.saving")
    page.keyboard.press("S")
    assert page.input_value("select.saving") == ""
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("dialog.help").is_visible()


def test_escape_goes_back_in_the_page_and_does_not_leave_it(view: View) -> None:
    page = view(history_from_spans(SPANS))
    page.keyboard.press("Escape")
    whole = page.locator(".place b").inner_text()
    for key in "500n":
        page.keyboard.press(key)
    page.wait_for_url("**#*v=*")

    page.keyboard.press("Escape")

    page.wait_for_url(re.compile(r"/$"))
    page.keyboard.press("Escape")
    assert page.evaluate("history.state") is None
    assert page.locator(".place b").inner_text() == whole


def test_the_last_click_selects_in_whatever_order_answers_come(view: View) -> None:
    page = view(history_from_picture("a  xxxxyyyy"))
    # answers about points wait, and come in reverse order
    page.evaluate(
        """() => {
            const ask = window.fetch;
            const held = [];
            let isHolding = true;
            window.fetch = async (address, options) => {
                const reply = await ask(address, options);
                const isHeld = isHolding && String(address).startsWith("at?");
                if (isHeld) await new Promise((go) => held.push(go));
                return reply;
            };
            window.isHeld = () => held.length > 0;
            window.release = async () => {
                isHolding = false;
                for (const go of held.reverse()) {
                    go();
                    await new Promise((resolve) => setTimeout(resolve));
                }
            };
        }"""
    )
    lane = page.locator(".lane-name:not(.heads) .title").bounding_box()
    assert lane
    y = lane["y"] + lane["height"] / 2

    page.mouse.click(500, y)
    page.wait_for_function("() => window.isHeld()")
    page.mouse.click(1000, y)
    page.evaluate("() => window.release()")
    page.wait_for_selector(".facts .named >> text=y")

    assert at_rest(page).locator(".facts .named").inner_text() == "y"


@pytest.mark.parametrize("start_ns", [0, DAYS_104_NS, UNIX_NS])
def test_times_are_exact_however_late(view: View, start_ns: int) -> None:
    spans = {"main": [("all", 0, start_ns + 9), ("last", start_ns + 5, start_ns + 8)]}
    page = view(history_from_spans(spans))

    page.keyboard.press("/")
    page.keyboard.type("last")
    page.wait_for_selector(".found >> text=1 found")
    page.keyboard.press("Enter")

    found = facts(page)
    assert found["duration"] == "3 ns"
    assert found["handle"].endswith(f"@abs:{start_ns + 5}")


def test_what_is_far_thinner_than_a_pixel_is_drawn(view: View) -> None:
    page = view(
        history_from_spans(
            {"main": [("a", 0, 1), ("thin", 5_000_000, 5_000_001), ("b", 9_999_999, 10**7)]}
        )
    )

    colored = page.evaluate(
        """() => {
            const canvas = document.querySelector(".lane-tree canvas");
            const middle = Math.floor(canvas.width / 2);
            const { data } = canvas.getContext("2d").getImageData(middle - 2, 0, 5, canvas.height);
            let found = 0;
            for (let at = 0; at < data.length; at += 4) {
                const part = data.slice(at, at + 3);
                if (Math.max(...part) - Math.min(...part) > 20) found++;
            }
            return found;
        }"""
    )

    # everything else here is grey: the ground, the lines of the axis, the band of the file
    assert colored >= 16


def test_of_a_trace_with_more_lanes_what_was_drawn_stays_until_there_is_more(view: View) -> None:
    builder = HistoryBuilder()
    for name in ("b", "c"):
        builder.modify(0, builder.quark(name), "x")
    builder.modify(1_000, builder.quark("b"), "y")
    session = Session([builder.history])
    session.start()
    session.wait(600)
    (file,) = session.files
    # so that the page asks for more
    file.status = "following"
    page = view(session=session)
    # tiles of the next layout do not come
    page.route("**/tile/0/2/**", lambda _: None)
    builder.modify(3_000, builder.quark("a"), "z")
    builder.modify(4_000, builder.quark("a"), "x")
    file.read(follow=False)

    # the lane `c` was where `b` is now
    page.wait_for_function(
        """() => {
            const names = [...document.querySelectorAll(".lane-name")];
            if (!names.some((each) => each.textContent.startsWith("a"))) return false;
            const last = names.findLast((each) => each.textContent.startsWith("c"));
            const canvas = document.querySelector(".lane-tree canvas");
            const ratio = canvas.width / canvas.clientWidth;
            const box = last.getBoundingClientRect();
            const top = box.top + box.height / 2 - canvas.getBoundingClientRect().top;
            const [red, green, blue] = canvas
                .getContext("2d")
                .getImageData(3, Math.round(top * ratio), 1, 1).data;
            return Math.max(red, green, blue) - Math.min(red, green, blue) > 20;
        }"""
    )


PIXELS = "document.querySelector('.lane-tree canvas[role=application]').toDataURL()"


def test_lanes_move_with_the_axis(view: View) -> None:
    page = view(history_from_spans(SPANS), fragment="#v=200_400")
    pictures = [page.evaluate(PIXELS)]

    # all tiles are there
    for key in ("d", "a", "d"):
        page.keyboard.press(key)
        pictures.append(page.evaluate(PIXELS))

    assert len(set(pictures)) == 2
    assert pictures[1] == pictures[3]
    page.reload()
    assert at_rest(page).evaluate(PIXELS) == pictures[3]


def test_colours_of_states_do_not_depend_on_what_is_answered_first(
    view: View, online: BrowserContext
) -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    for time_ns, state in enumerate(("running", "idle", "mend")):
        builder.modify(time_ns * 1_000, quark, state)
    builder.close(3_000)
    history = builder.history
    expected = view(history).evaluate(PIXELS)
    tiles: list[Route] = []
    answered: list[Response] = []

    def hold(route: Route) -> None:
        route.continue_() if answered else tiles.append(route)

    def release(response: Response) -> None:
        if "/statistics" not in response.url:
            return
        answered.append(response)
        while tiles:
            tiles.pop().continue_()

    online.route("**/tile/**", hold)
    online.on("response", release)
    try:
        assert view(history).evaluate(PIXELS) == expected
    finally:
        online.remove_listener("response", release)
        online.unroute("**/tile/**", hold)
    assert answered


def test_a_range_and_the_view_are_in_the_address(view: View) -> None:
    page = view(history_from_picture("a  xxyy\nb  .xx."), fragment="#r=1_3&tab=stats")

    assert page.locator(".facts .figure").inner_text() == f"2{NARROW}ns"
    assert figures(page) == [("x", "2", "3 ns", "1 ns"), ("y", "1", "1 ns", "1 ns")]


def test_lanes_and_the_mark_survive_a_reload(view: View) -> None:
    page = view(history_from_picture("b  xxyy\na  .xx.\nc  x.yx"), fragment="#mark=1")

    def names() -> list[str]:
        return page.locator(".lane-name:not(.heads) .title").all_inner_texts()

    assert names() == ["a", "b", "c"]
    assert [row.split() for row in at_the_mark(page)] == [
        ["States", "x", "2", "b", "1", "ns", "a", "0", "ns"],
    ]
    page.select_option(".lane-menu", "sort in y")
    page.wait_for_function("() => document.querySelector('.level3 .title').textContent === 'b'")
    for key in ("o", "ArrowDown", "ArrowDown", "Shift+ArrowDown", "ArrowDown", "h", "g"):
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('rows=roomy')")
    before = names()
    page.reload()
    at_rest(page)

    assert names() == before
    assert page.locator(".band.map button").inner_text() == "Show 1 hidden"
    page.mouse.move(600, 300)
    page.keyboard.press("k")
    page.wait_for_selector(".moment-head >> text=At 0.000")


def lane_names(page: Page) -> list[str]:
    return page.locator(".lane-name .title").all_text_contents()


def test_main_threads_and_then_the_busiest_come_first(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    # by process, thread, when and how long
    spans = [(1, 1, 0, 10), (1, 4, 0, 50), (1, 3, 0, 100), (2, 3, 0, 900), (2, 2, 0, 5)]
    # of a thread with calls that overlap, all lanes are together
    spans += [(1, 3, 50, 100)]
    path.write_text(
        json.dumps(
            [
                {"ph": "X", "pid": pid, "tid": tid, "name": "x", "ts": start, "dur": length}
                for pid, tid, start, length in spans
            ]
        )
    )
    expected = ["process 2", "thread 2", "thread 3"]
    expected += ["process 1", "thread 1", "thread 3", "lane 1", "thread 4"]
    for page in anywhere(path, ""):
        assert lane_names(page)[1:] == expected
        page.select_option(".lane-menu", "sort trace")
        page.wait_for_url("**order=trace**")
        assert lane_names(page)[1:3] == ["process 1", "thread 1"]
        page.reload()
        assert lane_names(at_rest(page))[1:3] == ["process 1", "thread 1"]


def test_what_is_far_from_the_rest_is_said_and_one_click_away(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    path = tmp_path / "far.json"
    events = [{"ph": "X", "pid": 1, "tid": 1, "name": "x", "ts": 0, "dur": 1}]
    events += [
        {"ph": "X", "pid": 1, "tid": 1, "name": "x", "ts": 70_000_000 + 1_000 * at, "dur": 900}
        for at in range(100)
    ]
    path.write_text(json.dumps(events))
    for page in anywhere(path, ""):
        said = re.sub(r"\s", " ", page.locator(".notice").inner_text())
        assert "Of 101 spans, samples and instants 1 begins up to 1 min 10 s before" in said
        assert page.locator(".place b").inner_text().replace(NARROW, " ") == "101.9 ms"
        page.click(".notice >> text=Show all")
        page.wait_for_url("**v=all**")
        # a link to the whole shows the whole
        page.reload()
        at_rest(page).wait_for_selector(".place >> text=whole trace")
        page.click(".notice >> text=Show the others")
        page.wait_for_selector(".place >> text=of 1")


def test_every_opening_is_the_same_however_much_was_read(
    online: BrowserContext, served: Served
) -> None:
    builder = HistoryBuilder()
    threads = [builder.quark("Processes", "1", "Threads", str(at)) for at in range(300)]
    for quark in threads[:5]:
        builder.modify(0, quark, "running")
        builder.modify(10, quark, "sleeping")
    session = Session([builder.history])
    session.start()
    session.wait(600)
    (file,) = session.files
    file.status = "reading"
    with served(session) as address:
        early = online.new_page()
        early.goto(address)
        early.wait_for_selector(".lane-name.level3")
        for at, quark in enumerate(threads):
            builder.modify(20, quark, "running")
            builder.modify(30 + at, quark, "sleeping")
        builder.close()
        file.read(follow=False)
        early.wait_for_selector(".lane-name >> text=300")
        early.wait_for_function("() => !document.querySelector('.notice:not([hidden])')")
        at_rest(early)
        early.mouse.move(0, 0)
        screens = {early.screenshot()}
        names = lane_names(early)
        for _ in range(9):
            page = online.new_page()
            page.goto(address)
            at_rest(page)
            screens.add(page.screenshot())
            assert lane_names(page) == names
            page.close()
        early.close()

    assert len(screens) == 1
    # the busiest first
    assert names[2:4] == ["thread 299", "thread 298"]


def test_files_that_are_apart_or_not_aligned_are_marked_at_the_top(view: View) -> None:
    page = view(history_from_picture("a  xx"), history_from_picture("b  xy"))

    assert page.locator(".file .badge").all_inner_texts() == ["not aligned"]


def grouped_by(page: Page, by: str) -> None:
    """Group statistics, by a button or a menu."""
    menu = page.locator(".tools select.menu")
    if menu.count():
        menu.select_option(label=f"by {by}")
    else:
        page.click(f".tools .segments button:text-is('{by}')")


def test_spans_without_a_category_are_one_row(view: View) -> None:
    page = view(history_from_spans(SPANS), fragment="#tab=stats")

    grouped_by(page, "category")

    page.wait_for_selector(".stat-table th.key >> text=category")
    assert page.locator(".stat-table td.key").all_inner_texts() == ["(none)"]
    # nothing would be lit
    page.click(".stat-table tbody tr")
    assert page.locator(".found").inner_text() == ""


@pytest.mark.parametrize("weight", ["ns", "cycles"])
def test_the_weights_of_samples_have_their_unit(view: View, tmp_path: Path, weight: str) -> None:
    path = tmp_path / "profile.json"
    sample = {"type": "sampled", "name": "t", "startValue": 0, "endValue": 6_000_000}
    profile = {**sample, "unit": "nanoseconds", "samples": [[0], [1]], "weights": [2e6, 4e6]}
    schema = "https://www.speedscope.app/file-format-schema.json"
    frames = {"frames": [{"name": "f"}, {"name": "g"}]}
    path.write_text(json.dumps({"$schema": schema, "shared": frames, "profiles": [profile]}))
    of_cycles = history_from_samples([(0, "t", ["f"], 2_000_000), (1, "t", ["g"], 4_000_000)])
    page = view(str(path) if weight == "ns" else of_cycles)

    # a count is exact, a time is what samples stand for
    expected = {
        "ns": [f"\u2248 4.00{NARROW}ms", f"\u2248 2.00{NARROW}ms"],
        "cycles": [f"4{NARROW}000{NARROW}000", f"2{NARROW}000{NARROW}000"],
    }[weight]
    assert page.locator(".card.sampled .finding b").all_inner_texts() == expected
    page.keyboard.press("Shift+Digit2")
    page.wait_for_selector(".stat-table tbody tr")
    assert page.locator(".stat-table td.self").all_inner_texts() == expected


def test_one_file_draws_samples_over_the_range_as_the_server_does(
    browser: Browser, view: View, tmp_path: Path
) -> None:
    rows = [(7 * at, "t", ["main", "ab"[at % 3 == 0]], 1 + at % 5) for at in range(200)]
    history = history_from_samples(rows)
    meantime.view(history).save(tmp_path / "page.html")

    def drawn(page: Page) -> list[str | None]:
        page.keyboard.press("Shift+Digit2")
        page.wait_for_selector(".stat-table td.over svg")
        lines = page.locator(".stat-table td.over path:not(.base)").all()
        return [line.get_attribute("d") for line in lines]

    with browser.new_context(offline=True, viewport={"width": 1200, "height": 800}) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        alone = drawn(at_rest(page))

    assert alone == drawn(view(history))
    assert len(set(alone)) == 3


@pytest.fixture
def anywhere(
    browser: Browser, view: View, tmp_path: Path
) -> Iterator[Callable[[Path, str], list[Page]]]:
    """Return a function that opens a file as a page of the server, and as one without it."""
    with browser.new_context(offline=True, viewport={"width": 1200, "height": 800}) as context:

        def opened(path: Path, fragment: str) -> list[Page]:
            save(path, tmp_path / "page.html")
            page = context.new_page()
            page.goto((tmp_path / "page.html").as_uri() + fragment)
            return [view(str(path), fragment=fragment), at_rest(page)]

        yield opened


def around(page: Page) -> list[str]:
    """Return what the tab of the selection says, line by line."""
    page.wait_for_selector(".selection .ranked")
    found: str = page.inner_text(".selection")
    return [line for line in found.replace(NARROW, " ").splitlines() if line.strip()]


def test_the_selection_is_explained_the_same_with_and_without_a_server(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    calls = [("main", 0, 900), ("work", 0, 300), ("read", 10, 200), ("work", 400, 100)]
    calls += [("read", 420, 10), ("parse", 440, 50), ("read", 950, 40)]
    events: list[dict[str, object]] = [
        {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": start, "dur": length}
        for name, start, length in calls
    ]
    events[3]["args"] = {"job": {"id": 7, "tags": ["a", "b"]}}
    events.append({"ph": "X", "pid": 1, "tid": 2, "name": "other", "ts": 460, "dur": 20})
    arrow = {"cat": "c", "id": 1, "name": "hand over"}
    events.append({**arrow, "ph": "s", "pid": 1, "tid": 1, "ts": 445})
    events.append({**arrow, "ph": "f", "bp": "e", "pid": 1, "tid": 2, "ts": 461})
    path.write_text(json.dumps(events))
    said = []
    for page in anywhere(path, ""):
        page.keyboard.press("/")
        page.keyboard.type("work")
        for rank in ("The longest", "2nd longest"):
            page.keyboard.press("Enter")
            page.wait_for_selector(f".selection .ranked >> text={rank} of 2 work")
        page.wait_for_selector(".selection .ranked >> text=2nd longest of 2 work")
        said.append(around(page))
        # its flame graph is of it alone
        page.get_by_role("button", name="Flame graph of this alone").click()
        page.wait_for_selector(".tools .chip >> text=work")
        page.locator("main canvas").first.focus()
        page.keyboard.press("i")
        page.locator(".selection .flow").click()
        page.wait_for_selector(".facts .named >> text=other")
        page.locator("main canvas").first.focus()
        # the search first, then the selection
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.wait_for_selector("[role=tab][aria-selected=true] >> text=What stands out")

    assert said[0] == said[1]
    text = "\n".join(said[0])
    order = ["Called by", "main", "Inside, 2, the longest first", "parse", "10.0", "Beside it"]
    places = [text.index(each) for each in order]
    assert places == sorted(places)
    assert "Arrows from it (1)" in text
    assert "tags [2]" in text


def test_the_selection_of_a_state_has_what_woke_it_and_where_it_ran(view: View, root: Path) -> None:
    page = view(str(root / "examples" / "sched.perf.gz"))
    page.fill(".filter", "9092")
    page.locator("main canvas").first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".selection .ranked >> text=28th longest of 822 running in this lane")
    text = "\n".join(around(page))
    assert "Where it ran" in text
    assert "CPU 0" in text
    assert "What it woke (4)" in text
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".selection .ranked >> text=816 sleeping in this lane")
    # the thread that woke it, and its state then
    page.wait_for_selector(".selection h3 >> text=What woke it (1)")
    page.locator(".selection .flow >> text=postgres 9096, running").click()
    page.wait_for_selector(".facts .fact >> text=postgres 9096")


def test_spans_and_samples_of_one_file_are_a_switch(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    frames = {"1": {"name": "main"}, "2": {"name": "inner", "parent": "1"}}
    call = {"ph": "X", "name": "call", "pid": 1, "tid": 1, "ts": 0, "dur": 900}
    samples = [
        {"name": "cpu", "tid": 1, "ts": 100 * at, "sf": 1 + at % 2, "weight": 1} for at in range(8)
    ]
    (path := tmp_path / "both.json").write_text(
        json.dumps({"traceEvents": [call], "samples": samples, "stackFrames": frames})
    )

    for page in anywhere(path, "#tab=stats"):
        grouped_by(page, "name")
        keys = page.locator(".stat-table td.key bdi")
        page.wait_for_selector(".stat-table td.key bdi >> text=call")
        assert keys.all_inner_texts() == ["call"]
        page.click(".tools .segments button:text-is('samples')")
        page.wait_for_selector(".stat-table td.key bdi >> text=inner")
        assert sorted(keys.all_inner_texts()) == ["inner", "main"]
        page.wait_for_selector(".statusbar code >> text=--samples")
        page.wait_for_url(re.compile("of=samples"))
        page.keyboard.press("Shift+Digit3")
        page.wait_for_selector(".statusbar code >> text=flame")
        page.wait_for_selector('.tools [aria-pressed="true"]:text-is("samples")')
        page.click(".tools .segments button:text-is('spans')")
        page.wait_for_selector(".statusbar code >> text=--spans")
        page.click(".tools .segments button:text-is('functions, callers')")
        page.wait_for_selector(".flame-tab >> text=call")
        page.wait_for_url(re.compile("of=spans"))


def test_samples_of_idle_cpus_are_left_out_and_counted(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    lines = [
        f"{name} {tid} [000] 1.{at}00000: 5 cpu-clock: \n\tff {function} (x)\n\n"
        for at, (name, tid, function) in enumerate(
            [("a", 7, "work"), ("swapper", 0, "do_idle"), ("swapper", 0, "tasklet_action")]
        )
    ]
    (path := tmp_path / "perf.txt").write_text("".join(lines))

    for page in anywhere(path, "#tab=stats&by=name"):
        page.wait_for_selector(".stat-table td.key bdi >> text=work")
        keys = page.locator(".stat-table td.key bdi").all_inner_texts()
        assert sorted(keys) == ["tasklet_action", "work"]
        assert "1 sample of idle CPUs is left out" in page.locator("#tab-stats").inner_text()


def test_the_longest_of_a_name_is_found_among_all(view: View) -> None:
    # more than a page knows at once
    short = [("a", 10 * at, 10 * at + 1) for at in range(10_050)]
    page = view(history_from_spans({"main": [*short, ("a", 200_000, 200_100)]}))
    page.keyboard.press("Shift+Digit2")
    page.click(".stat-table tbody tr")
    page.wait_for_selector(f".found >> text=10{NARROW}051 lit")

    page.keyboard.press("n")

    assert facts(page)["duration"] == "100 ns"


def test_a_search_by_time_goes_on_from_where_one_looks(view: View) -> None:
    spans = [("a", 10 * at, 10 * at + 1) for at in range(10_050)]
    page = view(history_from_spans({"main": spans}), fragment="#v=100401_100451")
    page.keyboard.press("/")
    page.keyboard.type("a")
    # the lane `main` has it in its name, too
    page.wait_for_selector(f".found >> text=10{NARROW}051 found")
    page.click(".hits th.starts button")
    page.wait_for_selector(".hits th.starts[aria-sort=ascending]")
    # its rows are those around what is in view
    page.wait_for_selector(f".hits td.starts >> text=0.000{NARROW}100{NARROW}410")
    page.locator(".search input").focus()

    page.keyboard.press("Enter")

    assert facts(page)["starts"] == f"0.000{NARROW}100{NARROW}410{NARROW}s"
    page.wait_for_selector(f".found >> text=10{NARROW}043 of 10{NARROW}051")
    for _ in range(9):
        page.keyboard.press("Enter")
        at_rest(page)
    # after the last one comes the first
    page.wait_for_selector(f".found >> text=1 of 10{NARROW}051")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(f".found >> text=10{NARROW}051 of 10{NARROW}051")


def hits(page: Page) -> list[list[str]]:
    """Return the rows of what was found: when, how long, what, in which lane, with what."""
    page.wait_for_selector(".hits tbody tr")
    return [
        [cell.replace(NARROW, " ").strip() for cell in row.locator("td").all_inner_texts()[1:]]
        for row in page.locator(".hits tbody tr").all()
    ]


def test_the_longest_spans_of_a_range_are_whole_and_say_what_is_in_it(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    events = [
        {"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": start, "dur": length}
        for tid, name, start, length in (
            *((1, "step", 0, 600), (2, "next", 550, 750)),
            # of so many none stands out, which the page would show instead
            *((3 + row, f"other {row}", 0, 500 - row) for row in range(12)),
        )
    ]
    path.write_text(json.dumps(events))
    for page in anywhere(path, "#v=0_600000"):
        page.wait_for_selector(".card >> text=Longest spans")
        card = page.locator(".card", has_text="Longest spans")
        texts = card.locator(".finding").all_inner_texts()[:2]
        rows = [each.replace(NARROW, " ") for each in texts]
        assert [re.split(r"\s*\n\s*", row) for row in rows] == [
            ["750 μs", "next", "at most 50.0 μs of one here"],
            ["600 μs", "step"],
        ]


def test_what_is_found_is_a_table_that_steps_filters_and_files_agree_with(
    anywhere: Callable[[Path, str], list[Page]], tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    events: list[dict[str, object]] = [
        {"ph": "X", "pid": 1, "tid": tid, "name": "work", "ts": start, "dur": length}
        for tid, start, length in ((1, 0, 30), (1, 100, 50), (2, 10, 90), (2, 200, 5))
    ]
    events += [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in ((1, "one"), (2, "two"))
    ]
    events[2]["args"] = {"job": 7}
    events.append({"ph": "X", "pid": 1, "tid": 1, "name": "rest", "ts": 300, "dur": 700})
    # arguments are on one line, however they are written
    path.write_text(json.dumps(events).replace('{"job"', '{\n  "job"'))
    for page in anywhere(path, ""):
        page.keyboard.press("/")
        page.keyboard.type("work")
        page.wait_for_selector(".found >> text=4 found")
        found = hits(page)
        assert [row[1] for row in found] == ["90.0 μs", "50.0 μs", "30.0 μs", "5.00 μs"]
        assert found[0][2:] == ["work", "two 2", '"job": 7']
        # a click selects and zooms, and N goes on in the table
        page.click(".hits tbody tr:nth-child(2)")
        page.wait_for_selector(".found >> text=2 of 4")
        page.wait_for_url("**v=**")
        page.locator("main canvas").first.focus()
        page.keyboard.press("n")
        page.wait_for_selector(".hits tr[aria-selected=true] >> text=30.0")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save all of them as CSV").click()
        with saved.value.path().open(newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) == 5
        times = ["10000", "100000", "90000"]
        assert rows[1][:7] == ["calls.json", "span", "work", *times, "Processes/1/Threads/2"]
        assert json.loads(rows[1][7]) == {"job": 7}
        # neither the table nor a step leaves the lanes that are shown
        page.fill(".filter", "one")
        page.wait_for_selector(".found >> text=2 found")
        assert [row[3] for row in hits(page)] == ["one 1", "one 1"]
        page.locator("main canvas").first.focus()
        for expected in ("50.0", "30.0", "50.0"):
            page.keyboard.press("n")
            page.wait_for_selector(f".hits tr[aria-selected=true] >> text={expected}")
        # in order of time, as the head says
        page.fill(".filter", "")
        page.wait_for_selector(".found >> text=4 found")
        page.click(".hits th.starts button")
        page.wait_for_selector(".hits th.starts[aria-sort=ascending]")
        assert [row[1][:2] for row in hits(page)] == ["30", "90", "50", "5."]
        page.wait_for_url("**hits=time**")


def test_steps_through_a_name_stay_in_the_lane_that_its_statistics_are_of(view: View) -> None:
    page = view(history_from_spans({"a": [("x", 0, 5), ("x", 20, 22)], "b": [("x", 0, 50)]}))
    page.click(".lane-name >> text=a")
    page.keyboard.press("Shift+Digit2")
    page.wait_for_selector(".tools .chip >> text=a")
    page.click(".stat-table tbody tr")
    page.wait_for_selector(".found >> text=2 lit in a, the longest first")
    page.locator("main canvas").first.focus()
    for length in ("5 ns", "2 ns", "5 ns"):
        page.keyboard.press("n")
        assert facts(page)["duration"] == length
        at_rest(page)


def test_the_search_field_takes_times_and_commands(view: View, tmp_path: Path) -> None:
    start = {"start": [1_528_482_355, 0], "title": "t", "states": {"on": {"value": 0}}}
    data = [
        {"time": str(at), "entity": each, "state": 0} for each in "ab" for at in (0, 10 * 10**9)
    ]
    path = tmp_path / "trace.statemap"
    path.write_text("\n".join(map(json.dumps, [start, *data])))
    page = view(str(path))

    def enter(text: str) -> None:
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    enter("2s to 3s")
    page.wait_for_selector(".about >> text=Range")
    page.wait_for_url("**r=2000000000_3000000000**")
    assert page.locator(".search input").input_value() == ""
    enter("2018-06-08T18:26:01.5Z")
    page.wait_for_url("**mark=6500000000**")
    page.wait_for_selector(".moment-head >> text=6.500")
    page.keyboard.press("/")
    page.keyboard.type(">hide b")
    page.wait_for_selector(".offer[aria-selected=true] >> text=hide b")
    page.keyboard.press("Enter")
    page.wait_for_url("**hide=**")
    # the arrows choose, and screen readers are told what
    page.keyboard.press("/")
    page.keyboard.type(">whole")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    field = page.locator(".search input")
    chosen = page.locator(f"#{field.get_attribute('aria-activedescendant')}")
    assert chosen.get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    page.wait_for_selector(".place >> text=whole trace")
    # what is neither is looked for
    enter("on")
    page.wait_for_selector(".found >> text=/1 of \\d+ found/")


def test_back_goes_to_another_view_and_keeps_the_search(view: View) -> None:
    page = view(history_from_spans(SPANS))
    page.keyboard.press("/")
    page.keyboard.type("wri")
    page.wait_for_selector(".found >> text=1 found")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    page.wait_for_url("**v=**")
    page.locator(".search input").fill("read")
    page.wait_for_selector(".found >> text=1 found")
    page.keyboard.press("Escape")

    page.go_back()

    page.wait_for_selector(".place >> text=whole trace")
    assert page.locator(".search input").input_value() == "read"


def test_counters_begin_at_zero_and_have_a_short_scale(view: View) -> None:
    builder = HistoryBuilder()
    for name, values in (
        ("below", (0.0, -10.0)),
        ("huge", (1e300, 7e300)),
        ("same", (4_200, 4_200)),
    ):
        quark = builder.quark(name)
        for at, value in enumerate(values):
            builder.modify(1000 * at, quark, value)
            builder.modify(1000 * at + 999, quark, None)
    page = view(builder.close())

    page.wait_for_function("() => document.querySelectorAll('.lane-name .sub').length === 3")
    assert page.locator(".lane-name .sub").all_inner_texts() == [
        "-10 to 0",
        "1e300 to 7e300",
        f"4{NARROW}200",
    ]
    filled = page.evaluate(
        """() => {
            const names = [...document.querySelectorAll(".lane-name")];
            const box = names.find((each) => each.textContent.startsWith("below"))
                .getBoundingClientRect();
            const canvas = document.querySelector(".lane-tree canvas");
            const area = canvas.getBoundingClientRect();
            const middle = box.top + box.height / 2 - area.top;
            return [0.23, 0.73].map((part) => {
                const { data } = canvas.getContext("2d")
                    .getImageData(part * area.width, middle, 1, 1);
                return data[0] < 240;
            });
        }"""
    )
    # nothing is between 0 and 0
    assert filled == [False, True]


def test_a_damaged_part_is_said_and_hatched_once_it_is_found(view: View, tmp_path: Path) -> None:
    path = tmp_path / "disks.mth"
    builder = HistoryBuilder(path)
    disk = builder.quark("disk0")
    for time_ns in range(5_000):
        builder.modify(time_ns, disk, "abc"[time_ns % 3])
    builder.close()
    (segment,) = (path / "segments").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[-40] ^= 0xFF
    segment.write_bytes(data)

    page = view(str(path))

    page.wait_for_selector(".notice >> text=Damaged.")
    assert segment.name in page.inner_text(".notice")
    assert "segment damaged" in page.inner_text(".card.care")
    page.keyboard.press("Shift+Digit2")
    page.wait_for_selector(".nothing >> text=Nothing in this range")


def test_on_paper_it_is_light_with_the_heads_of_tables(view: View) -> None:
    page = view(history_from_spans(SPANS), fragment="#tab=stats")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"

    corner = page.evaluate(
        """() => {
            const canvas = document.querySelector(".lane-tree canvas");
            dispatchEvent(new Event("beforeprint"));
            const { data } = canvas.getContext("2d")
                .getImageData(5, canvas.height - 5, 1, 1);
            dispatchEvent(new Event("afterprint"));
            return data[0];
        }"""
    )
    page.emulate_media(media="print")

    # at once, as paper does not wait for the next frame
    assert corner == 255
    heads = page.locator(".stat-table th.count button, .stat-table th.total button")
    assert [head.is_visible() for head in heads.all()] == [True, True]
    assert page.get_by_role("tab", name="Statistics").is_visible()
    assert not page.get_by_role("tab", name="Notes").is_visible()


def test_on_a_phone_nothing_is_too_small_or_beside_the_page(browser: Browser, view: View) -> None:
    served = view(session=demo_session())
    url = served.url.partition("#")[0]
    with browser.new_context(
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        storage_state=served.context.storage_state(),
    ) as phone:
        page = phone.new_page()
        for tab in ("over", "stats", "flame", "heat", "moment", "notes", "sql"):
            page.goto(f"{url}#tab={tab}")
            page.reload()
            at_rest(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            small = page.evaluate(
                """() => [...document.querySelectorAll("button, select, input, textarea")]
                    .filter((each) => each.offsetParent !== null && !each.closest("thead"))
                    .filter((each) => each.getBoundingClientRect().height < 35.5)
                    .map((each) => each.getAttribute("aria-label") ?? each.textContent)"""
            )
            assert small == [], tab


def test_edges_say_their_size_and_facts_are_scrolled_by_keys(view: View) -> None:
    page = view(history_from_spans(SPANS))

    edges = page.locator("[role=separator]").all()
    assert len(edges) == 2
    for edge in edges:
        values = [edge.get_attribute(f"aria-value{each}") for each in ("min", "now", "max")]
        sizes = [int(each) for each in values if each is not None]
        assert len(sizes) == 3
        assert sizes == sorted(sizes)
    before = edges[0].get_attribute("aria-valuenow")
    key = "ArrowUp" if edges[0].get_attribute("aria-orientation") == "horizontal" else "ArrowRight"
    edges[0].press(key)
    page.wait_for_function(
        "before => document.querySelector('[role=separator]').ariaValueNow !== before", arg=before
    )
    assert page.get_attribute(".facts", "tabindex") == "0"


def test_each_notice_of_two_files_is_dismissed_by_one_click(view: View, root: Path) -> None:
    page = view(*(str(root / "examples" / f"{name}.perf.gz") for name in ("sched", "jobs")))

    titles = []
    while page.locator(".notice").is_visible():
        titles.append(page.locator(".notice b").inner_text() + page.inner_text(".notice span"))
        assert len(titles) < 6
        page.locator(".notice button.bare").click()
    assert len(titles) == len(set(titles)) > 1


def test_a_lost_connection_is_said_and_what_was_missed_is_asked_for_again(view: View) -> None:
    page = view(history_from_spans(SPANS))
    complaints: list[str] = []
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    notice = page.locator(".notice:visible")

    # not by the browser, which would report it
    strange = {"Meantime-Status": "403"}
    page.route("**/*", lambda route: route.fulfill(headers=strange, json={"error": "no token"}))
    page.keyboard.press("Shift+Digit2")
    page.wait_for_selector(".notice:visible >> text=Another server answers here now")
    assert complaints == []
    page.unroute("**/*")
    page.route("**/*", lambda route: route.abort())
    notice.get_by_role("button", name="Ask now").click()
    page.wait_for_selector(".notice:visible >> text=The server has ended or does not answer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("w")
    at_rest(page)
    assert not any("/tile/" in each for each in asked)

    page.unroute("**/*")
    notice.get_by_role("button", name="Ask now").click()
    page.wait_for_selector(".notice", state="hidden")
    page.wait_for_selector(".stat-table tbody tr")
    at_rest(page)

    # a server that was started again with the same file, and one with another
    def again(route: Route, path: str) -> None:
        known = {k: v for k, v in route.request.headers.items() if k != "if-none-match"}
        found = route.fetch(headers=known).json()
        found["session"] = "another"
        found["files"][0].update(path=path, name="b.json")
        route.fulfill(json=found)

    address = page.url
    page.route("**/session.json", lambda route: again(route, "b.json"))
    page.wait_for_selector(".notice:visible >> text=The server was started again, with b.json.")
    page.unroute("**/session.json")
    page.route("**/session.json", lambda route: again(route, ""), times=1)
    with page.expect_event("load"):
        pass
    assert at_rest(page).url == address


def test_texts_can_be_read_on_what_is_behind_them(view: View) -> None:
    page = view(history_from_picture("a  xxyy\nb  .xx."), fragment="#tab=stats")
    for theme in ("light", "dark"):
        assert page.evaluate(WEAK) == [], theme
        page.keyboard.press("t")


# Texts whose contrast with their background is below 4.5, as WCAG has it.
WEAK = """() => {
    const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const parts = (color) => {
        pixel.clearRect(0, 0, 1, 1);
        pixel.fillStyle = color;
        pixel.fillRect(0, 0, 1, 1);
        return [...pixel.getImageData(0, 0, 1, 1).data];
    };
    const light = (color) => {
        const [r, g, b] = color.map((each) => each / 255)
            .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const color = parts(getComputedStyle(each).backgroundColor);
            if (color[3] === 255) return color;
        }
        return [255, 255, 255];
    };
    const weak = [];
    for (const element of document.querySelectorAll("body *")) {
        const texts = [...element.childNodes].filter((each) => each.nodeType === 3);
        const isText = texts.some((each) => each.data.trim());
        if (!isText || !element.offsetParent || element.closest(":disabled")) continue;
        const [ink, ground] = [parts(getComputedStyle(element).color), behind(element)].map(light);
        const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        if (contrast < 4.5) weak.push(`${element.textContent.trim()} ${contrast.toFixed(2)}`);
    }
    return weak;
}"""


def test_the_command_at_the_foot_draws_the_same_heat_map(view: View, tmp_path: Path) -> None:
    page = view(session=demo_session())
    page.keyboard.press("Escape")
    # tasks of one site, in rows that they share
    page.locator(".lane-name:not(.heads)", has_text="run_asgi").locator(".title").click()
    with page.expect_response("**/heat?**") as asked:
        page.keyboard.press("Shift+Digit4")
    page.wait_for_selector(".statusbar code >> text=meantime heatmap")
    command = shlex.split(page.locator(".statusbar code").inner_text())

    drawn = tmp_path / "map.json"
    at = command.index("-o")
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*command[1:at], "-o", str(drawn), *command[at + 2 :]])

    shown, printed = asked.value.json(), json.loads(drawn.read_text())
    assert "--filter" in command
    assert [shown["period_ns"], shown["cells"]] == [str(printed["period_ns"]), printed["cells"]]


def test_a_history_that_has_no_path_has_no_command(view: View) -> None:
    page = view(history_from_picture("a  xxyy"), fragment="#tab=stats")

    page.wait_for_selector(".stat-table tbody tr")
    assert page.locator(".statusbar code").inner_text() == ""
    assert page.locator(".foot .gutter").inner_text() == ""


def test_why_a_thread_took_its_time_leads_to_what_it_waited_for(view: View, root: Path) -> None:
    page = view(str(root / "examples" / "sched.perf.gz"))
    page.keyboard.press("y")
    page.fill(".why-new input", "9092")
    page.keyboard.press("Enter")
    page.wait_for_selector(".why .moment-head >> text=pgbench (9092)")

    first = page.locator(".why .stat-table tbody tr").first
    assert first.locator(".reason").inner_text() == "CPU used by node (8377)"
    # a part of another thread is selected in its lane, and the path remains that of the first one
    page.locator(".why-lane button").nth(1).click()
    page.wait_for_selector(".facts .fact >> text=postgres")
    at_rest(page)
    assert "pgbench (9092)" in page.locator(".why .moment-head").inner_text()
    command = page.locator(".statusbar code").inner_text()
    assert command.endswith("sched.perf.gz --thread 9092")
    page.fill(".why-new input", "nobody")
    page.keyboard.press("Enter")
    page.wait_for_selector(".why .nothing >> text=no thread has the id or the name 'nobody'")


def test_services_are_read_request_by_request(view: View, root: Path) -> None:
    page = view(str(root / "tests" / "samples" / "services" / "orders.otlp.jsonl.gz"))
    rows = page.locator(".request-list tbody tr")

    # the slowest, and what it did, without a click
    assert "GET /orders/2" in rows.first.inner_text()
    assert rows.first.locator("td.usual").inner_text().startswith("112")
    head = page.locator(".waterfall")
    assert "1.02 s more waiting for orders GET /reserve" in head.inner_text()
    calls = page.locator(".call")
    assert calls.first.locator(".critical").count() > 0

    page.get_by_role("button", name="errors").click()
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts .fact >> text=handle")
    at_rest(page)
    assert rows.nth(1).get_attribute("aria-selected") == "true"
    assert page.locator(".call.failed").count() > 0
    # the list is that of all, also when one is in view
    assert page.locator(".request-list .pages").inner_text() == "173 requests"
    calls.nth(1).click()
    at_rest(page)
    assert calls.nth(1).get_attribute("aria-pressed") == "true"
    assert "--filter" in page.locator(".foot").inner_text()


def test_of_many_lanes_those_in_closed_groups_are_made_when_they_are_needed(view: View) -> None:
    builder = HistoryBuilder()
    quarks = [builder.quark("CPUs", str(number)) for number in range(20_100)]
    running = Coded(np.zeros(len(quarks), np.int32), ["running"])
    builder.modify_many(np.zeros(len(quarks), np.int64), np.array(quarks, np.int32), running)
    builder.modify(1_000, quarks[20_050], "blocked")
    builder.modify(2_000, quarks[20_050], None)
    page = view(builder.close())

    def names() -> list[str]:
        return page.locator(".lane-name:not(.level1) .title").all_inner_texts()

    assert names() == ["States"]
    page.locator(".lane-name.level2").click()
    page.wait_for_selector(".lane-name.level3 >> text=1000 … 1999")
    assert names()[:3] == ["States", "0 … 999", "1000 … 1999"]
    page.fill(".filter", "20050")
    page.wait_for_function("() => document.querySelectorAll('.lane-name.level3').length === 1")
    page.locator(".lane-name.level3").click()
    page.wait_for_selector(".lane-name.level4")
    assert names() == ["States", "20000 … 20099", "CPU 20050"]
    page.fill(".filter", "")
    page.wait_for_function("() => document.querySelectorAll('.lane-name.level3').length > 3")
    page.wait_for_function("() => /open=/.test(location.hash) && !/filter=/.test(location.hash)")
    page.reload()
    at_rest(page)
    page.wait_for_selector(".lane-name.level3")
    assert names()[:2] == ["States", "0 … 999"]


def test_one_file_adds_up_the_states_of_each_kind_of_entity_alone(
    browser: Browser, view: View, tmp_path: Path
) -> None:
    code = "import asyncio, sys, meantime\n"
    code += "with meantime.record(sys.argv[1]): asyncio.run(asyncio.sleep(0.01))"
    # a program of its own, which has no thread of other tests
    subprocess.run([sys.executable, "-c", code, tmp_path / "run.mtr"], check=True)
    save(tmp_path / "run.mtr", tmp_path / "page.html")
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        at_rest(page)
        alone = figures(page)
        moment = at_the_first_thing(page)

    page = view(str(tmp_path / "run.mtr"))
    assert sorted(alone) == sorted(figures(page))
    assert moment == at_the_first_thing(page)
    # of the loop and of the task; a busy machine may make a callback long enough to be recorded
    assert [name for name, *_ in alone].count("running") >= 2


def test_one_file_is_exact_in_times_that_count_from_1970(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    path.write_text(
        "7 1790857026.123457 getpid() = 7 <0.000003>\n"
        "7 1790857026.123499 getppid() = 1 <0.000007>\n"
        "7 1790857026.123613 +++ exited with 0 +++\n"
    )
    save(path, tmp_path / "page.html")
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        alone = figures(at_rest(page))

    # doubles of nanoseconds since 1970 are multiples of 256
    assert alone == [
        ("not in a call", "2", "146 \u03bcs", "39 \u03bcs"),
        ("other call", "2", "10 \u03bcs", "3 \u03bcs"),
    ]


def at_the_first_thing(page: Page) -> list[str]:
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_selector(".facts .named")
    return at_the_mark(page)


def at_the_mark(page: Page) -> list[str]:
    """Return what everything did at the marked time, as the page shows it."""
    page.get_by_role("tab", name="At a moment").click()
    page.wait_for_selector(".moment tbody tr")
    return page.locator(".moment tbody tr").all_inner_texts()


def save(source: Path, page: Path) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["view", str(source), "-o", str(page)])


def test_one_file_shows_the_same_without_a_network(
    browser: Browser, view: View, spans_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    save(spans_file, path)
    requests: list[str] = []
    complaints: list[str] = []
    with browser.new_context(offline=True, accept_downloads=True) as context:
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(path.as_uri())
        at_rest(page)
        alone = figures(page)
        # where the file was is not for those to whom the page is given
        page.wait_for_selector(".statusbar code >> text=meantime stats")
        command = page.locator(".statusbar code").inner_text()
        assert command == f"meantime stats '{spans_file.name}' --by name"
        assert str(spans_file.parent) not in path.read_text()
        page.keyboard.press("/")
        page.keyboard.type("</script>")
        page.wait_for_selector(".found >> text=1 found")
        page.get_by_role("tab", name="Notes").click()
        page.locator(".notes textarea").fill("</script> again")
        page.keyboard.press("Control+Enter")
        with page.expect_download() as saved:
            page.click("text=Save a copy of this page")
        saved.value.save_as(tmp_path / "copy.html")
        page.goto((tmp_path / "copy.html").as_uri())
        at_rest(page)
        assert figures(page) == alone
        page.keyboard.press("m")
        assert page.locator(".notes li .what").all_inner_texts() == ["</script> again"]

    assert sorted(alone) == sorted(figures(view(str(spans_file))))
    assert [each for each in requests if not each.startswith(("file:", "blob:", "data:"))] == []
    assert complaints == []


def test_a_notebook_shows_the_page_in_a_frame(online: BrowserContext) -> None:
    shown = meantime.view(history_from_picture("disk0  aab."))._repr_html_()
    page = online.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(f"<p>Out[1]</p>{shown}")
    inside = page.frame_locator("iframe")
    inside.locator("main[aria-busy=false]").wait_for(state="attached")

    assert inside.locator(".lane-name >> text=disk0").count() == 1
    assert complaints == []
    page.close()


# 2025-10-25 22:00 UTC, when 2025-10-26 begins in Berlin: a day of 25 hours
AUTUMN_NS = 1_761_429_600 * 10**9


def hours(count: int) -> History:
    builder = HistoryBuilder(origin_ns=AUTUMN_NS)
    builder.modify(0, builder.quark("cpu"), "busy")
    return builder.close(count * 3600 * 10**9)


def test_a_recording_of_hours_has_the_clock_of_the_zone_it_was_opened_with(view: View) -> None:
    page = view(session=Session([hours(6)], zone=Zone("Europe/Berlin")))

    ticks = page.locator(".time-axis span").all_inner_texts()
    assert (
        ticks == ["2025-10-26", "01:00", "02:00", "02:00", "03:00", "04:00", "05:00"][: len(ticks)]
    )
    assert len(ticks) > 4
    assert page.locator(".clock option:checked").get_attribute("title") == "Europe/Berlin"
    fact = page.locator(".facts .fact", has_text="Europe/Berlin")
    assert fact.locator("span").nth(1).inner_text() == "00:00:00.000000"


def test_a_clock_that_is_chosen_stays(view: View) -> None:
    page = view(hours(6))

    assert page.locator(".time-axis span").first.inner_text() == "22:00"
    page.select_option(".clock", "start")
    page.wait_for_url(lambda address: "clock=start" in address)
    page.reload()

    assert at_rest(page).locator(".time-axis span").first.inner_text() == "0"


def test_a_recording_of_minutes_counts_from_its_start(view: View) -> None:
    builder = HistoryBuilder(origin_ns=AUTUMN_NS)
    builder.modify(0, builder.quark("cpu"), "busy")

    page = view(builder.close(40 * 60 * 10**9))

    assert page.locator(".clock").input_value() == "start"


def test_the_tour_of_the_demo_is_walked_by_keys(view: View) -> None:
    page = view(session=demo_session())
    page.wait_for_selector(".tour >> text=1 of 6")
    assert page.locator(".about").inner_text() == "Task"
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    assert "idle in transaction" in page.inner_text(".tour")
    page.wait_for_selector(".facts .named >> text=idle in transaction")
    page.keyboard.press("PageUp")
    page.wait_for_selector(".tour >> text=2 of 6")
    page.keyboard.press("Escape")
    assert not page.is_visible(".tour")
    page.wait_for_selector(".facts .named")
    page.click("button:text-is('Tour')")
    page.wait_for_selector(".tour >> text=1 of 6")


HOLD_SELECTIONS = """() => {
  const { fetch } = window;
  window.held = [];
  window.fetch = async (address, options) => {
    if (address.startsWith("at?")) await new Promise((answer) => held.push(answer));
    return fetch(address, options);
  };
}"""


def test_a_tour_that_ends_selects_what_it_shows_when_that_is_answered(view: View) -> None:
    page = view(session=demo_session())
    page.wait_for_selector(".tour >> text=1 of 6")
    page.evaluate(HOLD_SELECTIONS)
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.keyboard.press("Escape")
    assert not page.is_visible(".tour")
    assert not page.is_visible(".facts .named")

    assert page.evaluate("held.map((answer) => answer()).length") == 2
    page.wait_for_selector(".facts .named >> text=idle in transaction")


def compared_runs() -> ComparisonView:
    """Return two runs of two threads, of which `wait` of one takes longer after."""
    before = {
        "main": [("serve", 0, 1000), ("wait", 100, 200), ("wait", 500, 600)],
        "pool-1": [("work", 200, 800)],
    }
    after = {
        "main": [("serve", 0, 1200), ("wait", 100, 300), ("wait", 500, 900)],
        "pool-2": [("work", 200, 800)],
    }
    return meantime.diff(history_from_spans(before), history_from_spans(after), by="name")


def beside(page: Page) -> dict[str, list[str]]:
    """Return what the page says of the two runs: names of lanes, rows, evidence, a difference."""
    page.get_by_role("row", name="wait").click()
    page.wait_for_selector(".longest .finding")
    at_rest(page)
    canvas = page.locator(".lane-tree canvas[role=application]")
    area, lane = canvas.bounding_box(), page.locator(".lane-name", has_text="difference").first
    box = lane.bounding_box()
    assert area is not None
    assert box is not None
    # 700 of 1,200 ns: `wait` is there after, and not before
    page.mouse.move(area["x"] + area["width"] * 700 / 1200, box["y"] + 10)
    page.wait_for_selector(".tip-head >> text=wait")

    def lines(selector: str) -> list[str]:
        found: str = page.locator(selector).first.inner_text()
        return [" ".join(line.split()) for line in found.replace(NARROW, " ").splitlines()]

    return {
        "lanes": [" ".join(each.inner_text().split()) for each in page.locator(".lane-name").all()],
        "rows": page.locator(".compared tbody td.key bdi").all_inner_texts(),
        "longest": lines(".longest:last-of-type"),
        "tip": [line for line in lines(".tooltip") if line],
    }


def test_two_runs_are_one_above_the_other_with_and_without_a_server(
    browser: Browser, view: View, tmp_path: Path
) -> None:
    meantime.view(compared_runs()).save(tmp_path / "page.html")
    with browser.new_context(offline=True, viewport={"width": 1200, "height": 800}) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        alone = beside(at_rest(page))

    found = view(session=meantime.view(compared_runs())._session)
    served = beside(found)

    assert alone == served
    assert served["rows"][0] == "wait"
    lanes = served["lanes"]
    first = lanes.index("main before")
    assert lanes[first : first + 3] == ["main before", "difference wait", "main after"]
    assert {"pool-1 before", "pool-2 after"} <= set(lanes)
    assert served["longest"][:2] == ["Longest after", "400 ns"]
    assert served["tip"] == [
        "wait",
        "+100.0 points",
        "before",
        "0.0 %",
        "after",
        "100.0 %",
        "in this pixel",
    ]
    # another row is drawn and named in the same lanes, and a click marks the time on both sides
    found.get_by_role("row", name="serve").click()
    found.wait_for_selector(".lane-name >> text=serve")
    canvas = found.locator(".lane-tree canvas[role=application]")
    area = canvas.bounding_box()
    lane = found.locator(".lane-name", has_text="difference").first.bounding_box()
    assert area is not None
    assert lane is not None
    found.mouse.click(area["x"] + 0.5 * area["width"], lane["y"] + 10)
    found.wait_for_selector(".moment tr.of-file")
    assert found.locator(".moment tr.of-file").count() == 2
