"""The page of a statemap, driven as a person would.

What is in view and what is chosen is read from the address, as somebody would who shares it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

import numpy as np
import pytest

from meantime import HistoryBuilder
from meantime.kernels.dithered_rows import dither
from meantime.model.units import format_ns
from meantime.model.zones import Zone
from meantime.query.statistics import state_statistics
from meantime.testing.statemaps import events, panel, panel_of, statemap
from meantime.views.statemap import Commands, StatemapOptions, build
from meantime.views.statemap.row_images import thresholds
from meantime.views.statemap.svg import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from meantime.history import History
    from meantime.testing.statemaps import Drawn
    from meantime.views.statemap.data import Statemap, StatemapPanel

    Open = Callable[..., Page]

S, MS, US = 10**9, 10**6, 10**3


class View(NamedTuple):
    start_ns: int
    end_ns: int

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns


def chosen(page: Page) -> dict[str, str]:
    # Playwright's `page.url` follows a change later
    fragment = page.evaluate("location.hash").removeprefix("#")
    return {key: values[0] for key, values in parse_qs(fragment).items()}


def at_rest(page: Page) -> None:
    """Wait until the page has drawn, and written to its address, all that was changed."""
    page.wait_for_function("atRest()", polling=10)


def resize(page: Page, *, width: int, height: int) -> None:
    """Give the page another size."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("width => innerWidth === width", arg=width)


def after(page: Page, action: Callable[[], object]) -> dict[str, str]:
    """Return the address once an action, and nothing before it, has changed it."""
    at_rest(page)
    before = page.evaluate("location.hash")
    action()
    changed = "before => atRest() && location.hash !== before"
    page.wait_for_function(changed, arg=before, polling=10)
    return chosen(page)


def view(address: dict[str, str]) -> View:
    start, _, end = address["t"].partition("..")
    return View(int(start), int(end))


def strip(page: Page) -> dict[str, float]:
    box = page.locator(".strip").bounding_box()
    assert box
    return {side: float(box[side]) for side in ("x", "y", "width", "height")}


def spot(page: Page, ratio: float, row: int = 0, rows: int = 1) -> tuple[float, float]:
    box = strip(page)
    return box["x"] + box["width"] * ratio, box["y"] + box["height"] * (row + 0.5) / rows


def wheel(page: Page, ratio: float, delta: float) -> dict[str, str]:
    page.mouse.move(*spot(page, ratio))
    return after(page, lambda: page.mouse.wheel(0, delta))


def press(page: Page, *keys: str) -> dict[str, str]:
    def presses() -> None:
        for key in keys:
            page.keyboard.press(key)

    return after(page, presses)


def click(
    page: Page, ratio: float, row: int = 0, rows: int = 1, **options: object
) -> dict[str, str]:
    x, y = spot(page, ratio, row, rows)
    modifiers = options.get("modifiers", [])
    for key in modifiers:  # type: ignore[attr-defined] # a list of names
        page.keyboard.down(key)
    address = after(page, lambda: page.mouse.click(x, y))
    for key in modifiers:  # type: ignore[attr-defined] # a list of names
        page.keyboard.up(key)
    return address


def picture(page: Page) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return the map as it is drawn once nothing is waiting to be: rows x columns x RGBA."""
    width, height, data = page.evaluate(
        """() => {
          const drawn = document.querySelector(".strip canvas");
          const copy = new OffscreenCanvas(drawn.width, drawn.height);
          const context = copy.getContext("2d", {willReadFrequently: true});
          context.drawImage(drawn, 0, 0);
          const {data} = context.getImageData(0, 0, copy.width, copy.height);
          let text = "";
          for (let i = 0; i < data.length; i += 32768) {
            text += String.fromCharCode(...data.subarray(i, i + 32768));
          }
          return [copy.width, copy.height, btoa(text)];
        }"""
    )
    return np.frombuffer(b64decode(data), np.uint8).reshape(height, width, 4)


def pixel(page: Page, ratio: float, row: int = 0, rows: int = 1) -> str:
    """Return the colour of a place of the map; empty if nothing is drawn there."""
    *color, opacity = page.evaluate(
        """([across, down]) => {
          const drawn = document.querySelector(".strip canvas");
          const copy = new OffscreenCanvas(1, 1);
          const context = copy.getContext("2d", {willReadFrequently: true});
          const [x, y] = [Math.floor(drawn.width * across), Math.floor(drawn.height * down)];
          context.drawImage(drawn, -x, -y);
          return [...context.getImageData(0, 0, 1, 1).data];
        }""",
        [ratio, (row + 0.5) / rows],
    )
    return f"#{bytes(color).hex()}" if opacity else ""


def plain(text: str | None) -> str:
    """Return a text of the page with the spaces that a keyboard has."""
    return (text or "").replace("\u202f", " ").replace("\u00a0", " ")


def table(page: Page, selector: str) -> list[list[str]]:
    rows = page.locator(f"{selector} tbody tr, {selector} tfoot tr")
    texts = [row.locator("td").all_text_contents() for row in rows.all()]
    return [[plain(text) for text in row] for row in texts]


def simple() -> StatemapPanel:
    """Return two rows over 8 s: one in `a`, then `b`, then nothing, one in `b` all the time."""
    return panel(
        {"disk0": "aaaabb..", "disk1": "bbbbbbbb"},
        step_ns=S,
        title="I/O",
        entity_kind="Disk",
        origin_ns=1_528_482_355 * S,
        descriptions={0: "the fast one"},
    )


GREEN, YELLOW = "#2e8b57", "#ffd700"


def tagged() -> StatemapPanel:
    """Return two rows over 10 s whose state `a` has tags with values of every kind."""
    tags = [
        {"state": 0, "tag": "x", "file": "one", "instance": 0, "ok": False, "note": ""},
        {"state": 0, "tag": "y", "file": "two", "instance": 1, "ok": True, "note": "n"},
        {"state": 1, "tag": "z", "file": "one"},
    ]
    whole = 10 * S
    rows: dict[str, list[Drawn]] = {
        "p": [
            (0, 5 * S, {0: 5 * S}, {0: 5 * S}),
            (5 * S, whole, {0: 3 * S, 1: 2 * S}, {0: 1 * S, 1: 14 * MS, 2: 2 * S}),
        ],
        "q": [(0, whole, {1: whole}, {})],
    }
    return panel_of(rows, states=["a", "b", "c"], end_ns=whole, tags=tags)


# What stands there


def test_the_page_replaces_the_picture(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    assert page.title() == "Statemap of I/O activity"
    assert page.locator("h1").text_content() == "Statemap of I/O activity"
    assert page.locator(".label").all_text_contents() == ["disk0", "disk1"]
    assert page.locator(".tick").first.text_content() == "0 s"
    assert page.locator("footer").text_content() == "3 rectangles of 3 intervals"


def test_the_map_has_the_colours_of_the_states_at_their_times(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    assert [pixel(page, x, 0, 2) for x in (0.01, 0.49, 0.51, 0.74)] == [GREEN] * 2 + [YELLOW] * 2
    assert pixel(page, 0.76, 0, 2) == ""
    assert pixel(page, 0.99, 1, 2) == YELLOW


def crowded(length_ns: int) -> dict[str, list[Drawn]]:
    """Return three rows of random states with gaps: far below a pixel, near one, and far above."""
    rng = np.random.default_rng(4)
    rows: dict[str, list[Drawn]] = {}
    for row, scale in enumerate((3, 60, 3000)):
        time = 0
        drawn: list[Drawn] = []
        while time < length_ns:
            gap, length = (int(n) for n in rng.exponential([scale / 3, scale]))
            end = min(length_ns, time + gap + length + 1)
            if time + gap < end:
                drawn.append((time + gap, end, {int(rng.integers(3)): end - time - gap}, {}))
            time = end
        rows[f"{row}"] = drawn
    return rows


def test_a_column_stacks_the_share_of_each_state(open_page: Open) -> None:
    length_ns, states = 60_000, ["running", "main", "idle"]
    rows = crowded(length_ns)
    drawn = panel_of(rows, states=states, end_ns=length_ns)
    image = picture(open_page(render(statemap(drawn))))
    height, width, _ = image.shape
    tall = height // 3

    for row, rectangles in enumerate(rows.values()):
        lines = image[row * tall : row * tall + tall - 1]
        edges = np.arange(width + 1) * length_ns / width
        for state, one in enumerate(drawn.states):
            covered = np.zeros(width)
            for start, end, held, _ in rectangles:
                if state in held:
                    covered += np.diff(np.clip(edges, start, end))
            color = np.array([*bytes.fromhex(one.color[1:]), 255])
            seen = (lines == color).all(axis=2)
            # a share is rounded to a line at both ends, and a small one is seen
            least = np.where(covered > 1e-6, len(lines) / 60 + 1, 1)
            off = np.abs(seen.sum(axis=0) - covered / (length_ns / width) * len(lines))
            assert (off <= 3 * least).all()
            assert np.median(off) <= 1
            if state < 2:
                assert (seen.any(axis=0) | (covered < 1e-6)).all()


def test_low_rows_have_the_pixels_that_the_picture_has(open_page: Open) -> None:
    length_ns, states = 60_000, ["a", "b", "c"]
    rows = crowded(length_ns)
    many = {f"{row}-{copy}": rows[row] for copy in range(40) for row in rows}
    shown = panel_of(many, states=states, end_ns=length_ns)

    image = picture(open_page(render(statemap(shown))))

    height, width, _ = image.shape
    tall = height // len(many)
    assert tall < 6
    held = shown.rectangles.with_times()
    layers = dither(
        *(held.row_offsets, held.start_ns, held.end_ns),
        *(held.state_offsets, held.state_index, held.state_ns),
        np.arange(3, dtype=np.int32),
        0,
        length_ns,
        width,
        tall,
        1,
        thresholds(),
    )
    colors = np.array([[0] * 4, *([*bytes.fromhex(one.color[1:]), 255] for one in shown.states)])
    assert (image == colors[layers[:height]]).all()


HOUR = 3600 * S
# 2025-03-30 00:00 UTC, an hour before clocks go forward in Berlin
SPRING_NS = 1_743_292_800 * S


def test_a_recording_of_hours_has_a_clock_on_its_axis(open_page: Open) -> None:
    hours = panel({"a": "aaaa"}, step_ns=HOUR, origin_ns=SPRING_NS)
    page = open_page(render(statemap(hours)))
    ticks = page.locator(".axis .tick")

    in_utc = ticks.all_text_contents()
    zoomed = after(page, lambda: wheel(page, 0.5, -500)) and ticks.all_text_contents()

    assert in_utc[:4] == ["2025-03-30", "00:30", "01:00", "01:30"]
    assert len(zoomed) > 2
    assert all(re.fullmatch(r"0[0-3]:\d\d(:\d\d)?", tick) for tick in zoomed)
    assert page.locator(".base").text_content() == "2025-03-30 UTC"


def test_the_clock_of_a_zone_lacks_the_hour_that_is_skipped(open_page: Open) -> None:
    hours = panel({"a": "aaaa"}, step_ns=HOUR, origin_ns=SPRING_NS)
    page = open_page(render(replace(statemap(hours), zone=Zone("Europe/Berlin"))))

    page.mouse.move(*spot(page, 0.5))

    ticks = page.locator(".axis .tick").all_text_contents()
    assert ticks[:4] == ["01:00", "01:30", "03:00", "03:30"]
    assert ticks[-1] == "06:00"
    tip = page.locator(".tooltip").text_content() or ""
    assert "Europe/Berlin2025-03-30 01:00:00.000000000 Europe/Berlin" in tip


def test_durations_of_a_minute_or_more_are_the_same_text_as_from_python(open_page: Open) -> None:
    minute, day = 60 * S, 24 * HOUR
    lengths = [minute, minute + S // 2, minute + S // 2 - 1, HOUR - S // 2, HOUR - S, HOUR]
    lengths += [HOUR + 29 * S, HOUR + 30 * S, day - 30 * S, day - 31 * S, day, 26 * HOUR]
    lengths += [100 * minute, 4166 * day + 23 * HOUR, 2 * day + 30 * minute - 1, 99 * HOUR]
    states = [f"s{number}" for number in range(len(lengths))]
    rows: dict[str, list[Drawn]] = {
        f"r{number}": [(0, length, {number: length}, {})] for number, length in enumerate(lengths)
    }
    page = open_page(render(statemap(panel_of(rows, states=states, end_ns=max(lengths)))))

    assert {row[0]: row[2] for row in table(page, ".legend") if row[0] in states} == {
        state: format_ns(length) for state, length in zip(states, lengths, strict=True)
    }


def test_hovering_shows_entity_description_state_start_length_and_tags(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    tip = page.locator(".tooltip")

    page.mouse.move(*spot(page, 0.6, 0, 2))
    shown = tip.text_content() or ""
    page.mouse.move(*spot(page, 0.9, 0, 2))
    nothing = tip.text_content() or ""

    assert re.search(r"Disk.disk0.*the fast one.*b.*start4 s.*length2 s", shown)
    assert "UTC2018-06-08 18:25:59.000000000 UTC" in shown
    assert re.search(r"no state at 7\.\d+ s", nothing)


def test_hovering_a_merged_rectangle_shows_all_exact_shares(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())))

    page.mouse.move(*spot(page, 0.7, 0, 2))

    shown = plain(page.locator(".tooltip").text_content())
    assert "a60.00 %3.000 s" in shown
    assert "b40.00 %2.000 s" in shown
    assert "coalesced from several intervals" in shown
    assert "20.00 %  tag x, file one, instance 0, ok false, note" in shown
    assert "0.28 %  tag y, file two, instance 1, ok true, note n" in shown


# Zoom and pan


def test_the_wheel_zooms_at_the_pointer(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    near = view(wheel(page, 0.25, -300))
    nearer = view(wheel(page, 0.25, -300))

    for seen in (near, nearer):
        assert abs(seen.start_ns + 0.25 * seen.span_ns - 2 * S) < seen.span_ns / 300
    assert nearer.span_ns < near.span_ns < 8 * S
    for _ in range(4):
        page.mouse.wheel(0, 5000)
    page.wait_for_function("location.hash === ''")


def touch(page: Page, *steps: list[tuple[float, float]]) -> None:
    """Put fingers on a page at the places of the first step, move them, and lift them."""
    client = page.context.new_cdp_session(page)
    for number, places in enumerate([*steps, []]):
        kind = ("touchMove" if number else "touchStart") if places else "touchEnd"
        points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(places)]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    client.detach()


def test_a_pinch_zooms_on_a_touchpad_and_on_a_touch_screen(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), has_touch=True)
    page.mouse.move(*spot(page, 0.5))
    page.keyboard.down("Control")
    first = view(after(page, lambda: page.mouse.wheel(0, -20)))
    page.keyboard.up("Control")
    x, y = spot(page, 0.5)

    def spread() -> None:
        touch(page, *([(x - apart, y), (x + apart, y)] for apart in (40, 60, 80, 120, 160)))

    second = view(after(page, spread))

    assert abs(first.start_ns + first.span_ns / 2 - 4 * S) < S / 50
    assert abs(second.span_ns / first.span_ns - 40 / 160) < 0.02
    assert abs(second.start_ns + second.span_ns / 2 - 4 * S) < S / 20


def test_dragging_moves_in_time_and_stays_inside(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), "#t=2000000000..4000000000")
    box = strip(page)

    def drag(start: float, end: float) -> None:
        page.mouse.move(*spot(page, start))
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * end, box["y"] + 9, steps=4)
        page.mouse.up()

    moved = after(page, lambda: drag(0.5, 0.75))
    at_the_edge = after(page, lambda: drag(0.05, 0.95))

    assert abs(view(moved).start_ns - 1.5 * S) < S / 200
    assert view(moved).span_ns == pytest.approx(2 * S, abs=2)
    assert view(at_the_edge) == pytest.approx((0, 2 * S), abs=2)
    assert "at" not in at_the_edge


def test_dragging_on_the_axis_zooms_into_that_range(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    box = strip(page)

    def drag() -> None:
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] - 12)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] - 12, steps=4)
        at_rest(page)
        assert re.fullmatch(r"[12]\.\d{3} s", plain(page.locator(".flag.drawn").text_content()))
        page.mouse.up()

    seen = view(after(page, drag))

    assert seen == pytest.approx((2 * S, 4 * S), abs=8 * S / 200)


@pytest.mark.parametrize("how", ["r", "Home", "button", "axis"])
def test_everything_is_shown_again(open_page: Open, how: str) -> None:
    page = open_page(render(statemap(simple())), "#t=2000000000..3000000000")
    page.wait_for_selector(".tick")

    def reset() -> None:
        if how == "button":
            page.get_by_role("button", name="Show everything").click()
        elif how == "axis":
            page.locator(".axis").dblclick(position={"x": 5, "y": 30})
        else:
            page.keyboard.press(how)

    assert "t" not in after(page, reset)


def test_keys_and_buttons_zoom_by_a_quarter_once_about_the_middle_or_the_mark(
    open_page: Open,
) -> None:
    page = open_page(render(statemap(simple())))

    by_key = view(press(page, "+"))
    by_button = view(after(page, page.get_by_role("button", name="Zoom in").click))
    out = view(after(page, page.get_by_role("button", name="Zoom out").click))
    press(page, "-")
    click(page, 0.125)
    about_mark = view(press(page, "="))

    assert by_key == pytest.approx((0.8 * S, 7.2 * S), abs=2)
    assert by_button.span_ns == pytest.approx(8 * S / 1.25**2, abs=4)
    assert out == pytest.approx(by_key, abs=4)
    assert about_mark.span_ns == pytest.approx(6.4 * S, abs=2)
    assert about_mark.start_ns == pytest.approx(0.125 * 1.6 * S, rel=0.05)


def test_digits_and_a_unit_show_exactly_that_long(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    for keys, span_ns in (
        ("1s", S),
        ("m", MS),
        ("u", US),
        ("3s", 3 * S),
        ("250m", 250 * MS),
        ("12u", 12 * US),
        ("40n", 40),
    ):
        seen = view(press(page, *keys))

        assert seen.span_ns in {span_ns, span_ns + 1}  # the edges may be in the middle of one
        assert seen.start_ns + span_ns // 2 == pytest.approx(4 * S, abs=3)


def test_a_half_typed_number_is_shown_and_can_be_taken_back(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    typed = page.locator(".typed")

    page.keyboard.press("2")
    page.keyboard.press("5")
    assert typed.text_content() == "show 25 … s m u n"
    page.keyboard.press("Escape")
    assert not typed.is_visible()

    assert view(press(page, "m")).span_ns == MS


def test_arrows_and_buttons_move_by_50_pixels(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), "#t=2000000000..4000000000")
    step_ns = 2 * S * 50 / strip(page)["width"]

    later = view(press(page, "ArrowRight"))
    press(page, "ArrowLeft")
    earlier = view(press(page, "ArrowLeft"))
    again = view(after(page, page.get_by_role("button", name="Later").click))

    assert later.start_ns == pytest.approx(2 * S + step_ns, abs=2)
    assert earlier.start_ns == pytest.approx(2 * S - step_ns, abs=2)
    assert again.start_ns == pytest.approx(2 * S, abs=4)


def test_double_click_and_z_zoom_to_the_selection(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    by_mouse = after(page, lambda: page.mouse.dblclick(*spot(page, 0.6, 0, 2)))
    press(page, "r")
    by_key = view(press(page, "z"))

    assert view(by_mouse) == pytest.approx((3.5 * S, 6.5 * S), abs=4)
    assert by_key == pytest.approx((3.5 * S, 6.5 * S), abs=4)


@pytest.mark.parametrize("start_ns", [0, 1_528_482_355_856_625_707, 2**62])
def test_every_nanosecond_is_apart_at_the_deepest_zoom(open_page: Open, start_ns: int) -> None:
    length = 2**40 if start_ns else 2**62 - 1
    here = length - 40
    pattern = "abbabaab" * 5
    row: list[Drawn] = [(start_ns, start_ns + here, {2: here}, {})]
    for i, letter in enumerate(pattern):
        at = start_ns + here + i
        row.append((at, at + 1, {"ab".index(letter): 1}, {}))
    drawn = panel_of(
        {"r": row}, states=["a", "b", "c"], start_ns=start_ns, end_ns=start_ns + length
    )

    first = start_ns + here + 8
    page = open_page(render(statemap(drawn)), f"#t={first}..{first + 20}")
    colors = [pixel(page, (i + 0.5) / 20) for i in range(20)]
    page.mouse.move(*spot(page, 2.5 / 20))

    assert colors == [{"a": GREEN, "b": YELLOW}[letter] for letter in pattern[8:28]]
    assert "length1 ns" in (page.locator(".tooltip").text_content() or "")
    address = click(page, 2.5 / 20)
    assert int(address["at"]) == first + 2


def test_a_window_without_length_is_a_page(open_page: Open) -> None:
    page = open_page(render(statemap(panel({"a": "."}, states=["x"], start_ns=5, end_ns=5))))

    page.keyboard.press("+")
    address = click(page, 0.5)

    assert address == {"at": "5", "row": "0:a"}
    assert "no state at 5 ns" in (page.locator(".selection").text_content() or "")


# Marks and selection


def test_a_click_marks_the_time_and_selects_the_row(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    address = click(page, 0.6, 0, 2)

    assert int(address["at"]) == pytest.approx(4.8 * S, abs=S / 50)
    assert address["row"] == "0:disk0"
    flag = (page.locator(".flag.mark").text_content() or "").removesuffix(" s")
    assert round(float(flag) * S) == int(address["at"])
    selection = page.locator(".selection").text_content() or ""
    assert re.search(
        r"UTC2018-06-08 18:25:59.*Disk disk0.*the fast one.*b.*start4 s.*length2 s", selection
    )
    assert page.locator(".label.selected").text_content() == "disk0"


def test_a_click_on_the_flag_or_escape_clears_the_mark(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    click(page, 0.6)
    by_flag = after(page, page.locator(".flag.mark").click)
    click(page, 0.6)
    by_key = press(page, "Escape")

    assert by_flag == by_key == {}


def test_the_legend_counts_who_is_in_which_state_at_the_mark(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())))

    click(page, 0.7)

    counts = [row[3] for row in table(page, ".legend")]
    assert counts == ["≈ 0.60 (30 %)", "≈ 1.40 (70 %)", "\u2013"]


def test_shift_or_alt_click_measures_from_the_mark(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    click(page, 0.25)
    first = click(page, 0.75, modifiers=["Shift"])
    apart = page.locator(".flag.second").text_content()
    second = click(page, 0.125, modifiers=["Alt"])
    before = page.locator(".flag.second").text_content() or ""

    def length_ns(text: str | None) -> int:
        number, unit = (text or "")[1:].split()
        return round(float(number) * {"s": S, "ms": MS}[unit])

    assert length_ns(apart) == int(first["to"]) - int(first["at"])
    assert before.startswith("\u2212")
    assert length_ns(before) == int(second["at"]) - int(second["to"])
    assert "to" not in press(page, "Escape")


@pytest.mark.parametrize("start_ns", [0, 5 * S])
def test_shift_and_arrows_go_through_the_states_of_a_row(open_page: Open, start_ns: int) -> None:
    drawn = panel({"r": "aab.bba", "s": "bbbbbbb"}, step_ns=S, start_ns=start_ns)
    page = open_page(render(statemap(drawn)))
    click(page, 0.1, 0, 2)

    there = [int(press(page, "Shift+ArrowRight")["at"]) - start_ns for _ in range(3)]
    back = [int(press(page, "Shift+ArrowLeft")["at"]) - start_ns for _ in range(2)]

    assert there == [2 * S, 4 * S, 6 * S]
    assert back == [4 * S, 2 * S]


def test_shift_and_arrows_bring_what_they_select_into_view(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), "#t=0..1000000000&at=500000000&row=0%3Adisk0")

    address = press(page, "Shift+ArrowRight")

    assert int(address["at"]) == 4 * S
    assert view(address) == pytest.approx((3.5 * S, 4.5 * S), abs=2)


def test_shift_and_arrows_go_through_the_rows_at_the_marked_time(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    first = click(page, 0.6, 0, 2)

    down = press(page, "Shift+ArrowDown")
    up = press(page, "Shift+ArrowUp")

    assert (down["row"], up["row"]) == ("0:disk1", "0:disk0")
    assert first["at"] == down["at"] == up["at"]


def test_n_and_p_go_to_where_a_state_occurs_next(open_page: Open) -> None:
    drawn = panel({"r": "abacab..a", "s": "cccccccca"}, step_ns=S)
    page = open_page(render(statemap(drawn)))
    click(page, 0.05, 0, 2)

    in_row = [int(press(page, "n")["at"]) for _ in range(3)]
    back = int(press(page, "p")["at"])
    press(page, "Escape")
    page.get_by_role("button", name="Light up b").click()
    anywhere = [int(press(page, "n")["at"]) for _ in range(2)]

    assert in_row == [2 * S, 4 * S, 8 * S]
    assert back == 4 * S
    assert anywhere == [1 * S, 5 * S]


def test_a_name_can_be_clicked_to_select_its_row(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    address = after(page, page.locator(".label", has_text="disk1").click)

    assert address == {"row": "0:disk1"}
    assert table(page, ".legend")[1][1] == "100.00 %"


# Shares and tags


def test_shares_are_of_the_visible_range(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), "#t=3000000000..5000000000")

    assert [row[1:3] for row in table(page, ".legend")] == [
        ["25.00 %", "1.000 s"],
        ["75.00 %", "3.000 s"],
    ]
    assert "visible span 2 s" in (page.locator(".scope").text_content() or "")


def merged_history() -> History:
    """Return a history of two rows in which many short states are merged into few rectangles."""
    builder = HistoryBuilder()
    short, long = builder.quark("short"), builder.quark("long")
    time_ns = 0
    for number in range(1_000):
        builder.modify(time_ns, short, "on" if number % 2 else "off")
        time_ns += 1_000 + 37 * (number % 11)
    builder.modify(0, long, "off")
    builder.modify(500_000, long, "on")
    return builder.close(time_ns)


NS = {"ns": 1, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9}


def nanoseconds(text: str) -> float:
    number, unit = text.removeprefix("≈ ").split()
    return float(number) * NS[unit]


@pytest.mark.parametrize(("start", "end"), [(100_500, 200_500), (400_001, 400_900), (0, 600_000)])
def test_times_of_merged_rectangles_that_are_cut_are_marked_and_bounded(
    open_page: Open, start: int, end: int
) -> None:
    history = merged_history()
    drawn = build([history], StatemapOptions(coalesce=8))
    truth = {
        row.key: row.total_ns
        for row in state_statistics(history, by="state", start_ns=start, end_ns=end).rows
    }

    page = open_page(render(drawn), f"#t={start}..{end}")

    drawn_rows = table(page, ".legend")
    for row, cells in zip(drawn_rows, page.locator(".legend tbody tr").all(), strict=True):
        name = row[0].strip()
        assert row[1].startswith("≈ ")
        assert row[2].startswith("≈ ")
        tip = cells.locator("td").nth(2).get_attribute("title") or ""
        most = nanoseconds(tip.removeprefix("estimated, wrong by at most "))
        assert tip.startswith("estimated, wrong by at most ")
        # figures on the page have three decimals of their unit
        assert abs(nanoseconds(row[2]) - truth.get(name, 0)) <= most * 1.001 + 1
    assert (page.locator(".estimates").text_content() or "").startswith("≈ estimated: ")


def test_times_are_exact_where_nothing_merged_is_cut(open_page: Open) -> None:
    history = merged_history()
    truth = {row.key: row.total_ns for row in state_statistics(history, by="state").rows}

    page = open_page(render(build([history], StatemapOptions(coalesce=8))))

    for name, share, time in table(page, ".legend"):
        assert "≈" not in share + time
        assert nanoseconds(time) == pytest.approx(truth[name.strip()], rel=1e-3)
    assert page.locator(".estimates").count() == 0


def test_merged_rectangles_in_view_come_with_the_command_for_full_detail(open_page: Open) -> None:
    merged = build([merged_history()], StatemapOptions(coalesce=8))
    commands = Commands("meantime statemap -i 'a b'", "meantime stats 'a b'")

    page = open_page(render(replace(merged, commands=commands)), "#t=400001..402000")
    bar = page.locator(".statusbar")
    text = bar.text_content() or ""
    command = bar.locator("code").text_content()
    page.mouse.click(*spot(page, 0.5, 0, 2))
    at_rest(page)

    assert text.startswith("1 merged rectangle; full detail:")
    assert command == "meantime statemap -i 'a b' -b 400001ns -d 1999ns -o detail.svg"
    assert not bar.is_visible()


def test_a_page_without_merged_rectangles_names_the_command_of_its_figures(
    open_page: Open,
) -> None:
    whole = build([merged_history()])
    commands = Commands("meantime statemap x", "meantime stats x")

    page = open_page(render(replace(whole, commands=commands)), "#t=400000..402000")
    command = page.locator(".statusbar code").text_content()
    page.get_by_role("searchbox").fill("long")
    page.locator(".statusbar").wait_for(state="hidden")

    assert command == "meantime stats x --from 400us --to 402us"


def test_escape_in_the_search_keeps_the_field_and_the_rows_in_step(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    field = "document.querySelector('.search').value"

    page.keyboard.press("/")
    filtered = after(page, lambda: page.keyboard.insert_text("disk1"))
    page.keyboard.press("Escape")
    at_rest(page)
    left = page.evaluate(field), page.locator(".label").count()
    cleared = press(page, "Escape")

    assert filtered["rows"] == "disk1"
    assert left == ("disk1", 1)
    assert "rows" not in cleared
    assert page.evaluate(field) == ""
    assert page.locator(".label").count() == 2


def test_a_key_hides_the_tooltip_of_what_was_below_the_pointer(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    tip = page.locator(".tooltip")

    page.mouse.move(*spot(page, 0.6, 0, 2))
    shown = tip.is_visible()
    press(page, "+")

    assert shown
    assert not tip.is_visible()


def test_the_focus_stays_on_a_control_that_is_drawn_again(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())))
    name = "document.activeElement.getAttribute('aria-label')"

    page.get_by_role("button", name="Light up a").focus()
    press(page, "Enter")
    state = page.evaluate(name)
    page.get_by_role("button", name="By file").focus()
    press(page, "Enter")

    assert state == "Light up a"
    assert page.evaluate(name) == "By file"
    page.locator(".strip").focus()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "application"


def test_states_that_do_not_occur_are_folded_away(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())))
    states = page.locator(".legend button.state")

    folded = [state.text_content() for state in states.all() if state.is_visible()]
    page.get_by_role("button", name="Show or hide the states that do not occur").click()
    shown = [state.text_content() for state in states.all() if state.is_visible()]

    assert folded == ["a", "b"]
    assert shown == ["a", "b", "c"]


def test_a_search_without_result_has_a_message(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    page.get_by_role("searchbox").fill("nosuch")
    page.locator(".empty").wait_for()

    assert page.locator(".empty").text_content() == (
        "No row matches “nosuch”. Press Esc to show all rows."
    )


def test_the_last_occurrence_has_no_next_one_and_the_page_says_so(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    click(page, 0.6, 0, 2)

    page.keyboard.press("n")
    page.wait_for_function("document.querySelector('.note').textContent", polling=10)

    assert page.locator(".note").text_content() == "no later occurrence in this row"


def test_one_nanosecond_can_be_shown(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))

    assert view(press(page, "4", "n")).span_ns == 4


def test_a_double_click_on_the_axis_leaves_no_mark(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), "#t=1000000000..3000000000")
    box = page.locator(".axis").bounding_box()
    assert box

    address = after(page, lambda: page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + 10))
    at_rest(page)

    assert address == {} or chosen(page) == {}


def test_paper_is_light_and_has_the_axis_in_step_and_the_legend(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), color_scheme="dark")

    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    theme = page.evaluate("document.documentElement.dataset.theme")
    resize(page, width=700, height=900)
    box = strip(page)
    tick = page.locator(".tick").nth(1)
    second = float(re.sub(r"[^\d.]", "", tick.text_content() or ""))
    at = tick.bounding_box()
    assert at
    states = [state.text_content() for state in page.locator(".legend button.state").all()]

    assert theme == "light"
    assert at["x"] == pytest.approx(box["x"] + box["width"] * second / 8, abs=1)
    assert states == ["a", "b"]
    assert page.locator(".legend button.state").first.is_visible()
    assert not page.get_by_role("searchbox").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_shares_of_a_chosen_range_and_of_a_chosen_row(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    box = strip(page)

    def drag() -> None:
        page.keyboard.down("Shift")
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 9)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.625, box["y"] + 9, steps=4)
        page.mouse.up()
        page.keyboard.up("Shift")

    address = after(page, drag)
    everyone = [row[1] for row in table(page, ".legend")]
    page.locator(".label", has_text="disk0").click()
    one = [row[1] for row in table(page, ".legend")]

    start, end = int(address["at"]), int(address["to"])
    green = (4 * S - start) / (end - start)
    assert (start, end) == pytest.approx((2 * S, 5 * S), abs=S / 50)
    assert everyone == [f"{50 * green:.2f} %", f"{100 - 50 * green:.2f} %"]
    assert one == [f"{100 * green:.2f} %", f"{100 - 100 * green:.2f} %"]


def test_a_click_on_a_state_lights_up_where_it_occurs(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    state = page.get_by_role("button", name="Light up b")

    address = after(page, state.click)

    assert address == {"state": "0:b"}
    assert pixel(page, 0.6, 0, 2) == YELLOW
    assert pixel(page, 0.2, 0, 2) != GREEN
    assert "This state has no tags." in (page.locator(".tags-section").text_content() or "")
    assert after(page, state.click) == {}
    assert pixel(page, 0.2, 0, 2) == GREEN
    assert page.locator(".tags-section").text_content() == ""


def test_tags_are_listed_by_property_with_every_value_and_two_decimals(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())))
    page.get_by_role("button", name="Light up a").click()
    properties = page.locator(".chips button").all_text_contents()

    def by(name: str) -> list[list[str]]:
        page.get_by_role("button", name=f"By {name}", exact=True).click()
        return table(page, ".values")

    assert properties == ["file", "instance", "note", "ok", "tag"]
    shares = [["30.00 %", "6.000 s"], ["0.07 %", "14.00 ms"], ["30.07 %", "6.014 s"]]
    for name, values in (
        ("file", ["one", "two"]),
        ("instance", ["0", "1"]),
        ("note", ["empty", "n"]),
        ("ok", ["false", "true"]),
    ):
        assert by(name) == [[v, *s] for v, s in zip([*values, "total"], shares, strict=True)]


def test_a_tag_table_can_be_of_a_time_of_a_range_and_of_a_row(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())), "#state=0%3Aa&by=file&t=0..5000000000")
    caption = page.locator(".tags-section .scope")

    visible = (caption.text_content(), table(page, ".values")[0])
    click(page, 0.5, 0, 2)
    at_time = (caption.text_content() or "", table(page, ".values")[0])
    page.get_by_role("button", name="All rows").click()
    of_all = table(page, ".values")[0]
    click(page, 0.1, 1, 2, modifiers=["Shift"])
    of_range = caption.text_content() or ""

    assert visible == ("by file over span 5 s", ["one", "50.00 %", "5.000 s"])
    assert re.fullmatch(r"Entity p: by file at 2\.\d+ s", at_time[0])
    assert at_time[1] == ["one", "100.00 %", "1"]
    assert of_all == ["one", "50.00 %", "1"]
    assert of_range.startswith("by file over selected range")


def test_a_click_on_a_value_recolours_by_its_share_until_it_is_undone(open_page: Open) -> None:
    page = open_page(render(statemap(tagged())))
    after(page, page.get_by_role("button", name="Light up a").click)
    after(page, page.get_by_role("button", name="By file").click)
    value = page.locator(".values button", has_text="one")
    accent = "#3b50d4"

    address = after(page, value.click)
    wholly, never = pixel(page, 0.2, 0, 2), pixel(page, 0.2, 1, 2)
    image = picture(page)
    height, width, _ = image.shape
    partly = (image[: height // 2, int(width * 0.7), :3] == [0x3B, 0x50, 0xD4]).all(axis=1)
    value.click()
    undone = pixel(page, 0.2, 0, 2)
    value.click()
    page.get_by_role("button", name="Light up a").click()

    assert address == {"state": "0:a", "by": "file", "value": "one"}
    assert wholly == accent
    assert never != accent
    assert partly.mean() == pytest.approx(0.2, abs=0.01)
    assert undone == GREEN
    assert pixel(page, 0.2, 0, 2) == GREEN


# Rows


def test_rows_are_found_by_a_part_of_their_name_or_by_an_expression(open_page: Open) -> None:
    drawn = panel({f"Worker {n}": "ab" for n in range(20)} | {"main": "ba"})
    page = open_page(render(statemap(drawn)))
    labels = page.locator(".label")

    page.keyboard.press("/")
    part = after(page, lambda: page.keyboard.insert_text("worker 1"))
    by_part = labels.all_text_contents()
    found = page.locator(".found").text_content()
    page.locator(".search").fill("/^(main|.* 7)$/")
    page.wait_for_function("document.querySelectorAll('.label').length === 2")
    by_expression = labels.all_text_contents()
    page.locator(".search").fill("/(/")
    page.wait_for_function("document.querySelectorAll('.label').length === 0")
    page.keyboard.press("Escape")
    cleared = press(page, "Escape")

    assert part == {"rows": "worker 1"}
    assert by_part == [f"Worker {n}" for n in (1, *range(10, 20))]
    assert found == "11 of 21"
    assert by_expression == ["Worker 7", "main"]
    assert cleared == {}
    assert labels.count() == 21


def test_rows_can_be_sorted_by_the_time_in_any_state(open_page: Open) -> None:
    drawn = panel({"x": "aabb", "y": "abbb", "z": "aaaa", "w": "bbbb"})
    page = open_page(render(statemap(drawn)))
    labels = page.locator(".label")
    choice = page.get_by_label("Sort rows")

    by_a = after(page, lambda: choice.select_option(label="Most a first"))
    names_by_a = labels.all_text_contents()
    after(page, lambda: choice.select_option(label="Most b first"))
    names_by_b = labels.all_text_contents()
    back = after(page, lambda: choice.select_option(label="Sort by name"))

    assert by_a == {"sort": "a"}
    assert names_by_a == ["z", "x", "y", "w"]
    assert names_by_b == ["w", "y", "x", "z"]
    assert back == {}
    assert labels.all_text_contents() == ["x", "y", "z", "w"]


def test_rows_that_came_sorted_by_a_state_can_be_sorted_by_name(open_page: Open) -> None:
    drawn = panel({"t10": "aaaa", "t9": "aaab", "t01": "abbb"})
    page = open_page(render(statemap(drawn, sort_state="a")))
    labels = page.locator(".label")

    as_drawn = labels.all_text_contents()
    address = after(
        page, lambda: page.get_by_label("Sort rows").select_option(label="Sort by name")
    )

    assert as_drawn == ["t10", "t9", "t01"]
    assert labels.all_text_contents() == ["t01", "t9", "t10"]
    assert address == {"order": "name"}


def many(count: int) -> StatemapPanel:
    return panel({f"row {n}": "ab" if n % 2 else "ba" for n in range(count)})


def test_a_thousand_rows_shrink_and_scroll_and_their_names_thin_out(open_page: Open) -> None:
    page = open_page(render(statemap(many(1000))))
    labels = page.locator(".label")
    names = labels.all_text_contents()
    tops = [label.evaluate("e => e.getBoundingClientRect().top") for label in labels.all()]

    page.mouse.move(*spot(page, 0.5))
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 100_000)
    page.keyboard.up("Shift")
    page.wait_for_function(
        "[...document.querySelectorAll('.label')].some(e => e.textContent > 'row 99')"
    )

    # the middle one of as many rows as a label is high
    assert names[0] == "row 3"
    assert 15 < len(names) < 60
    assert min(b - a for a, b in pairwise(tops)) >= 11


@pytest.mark.parametrize("how", ["keys", "names", "bar", "drag"])
def test_rows_scroll_in_many_ways(open_page: Open, how: str) -> None:
    page = open_page(render(statemap(many(2000))))
    before = page.locator(".label").first.text_content()
    first = f"document.querySelector('.label').textContent !== '{before}'"
    x, y = spot(page, 0.5)

    if how == "keys":
        page.keyboard.press("PageDown")
    elif how == "names":
        page.mouse.move(strip(page)["x"] - 10, y)
        page.mouse.wheel(0, 300)
    elif how == "bar":
        page.locator(".scroller").evaluate("e => e.scrollTop = 500")
    else:
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - 200, steps=3)
        page.mouse.up()

    page.wait_for_function(first)


def test_rows_are_made_taller_and_flatter(open_page: Open) -> None:
    page = open_page(render(statemap(many(500))))
    labels = page.locator(".label")
    before = labels.count()

    for _ in range(12):
        page.keyboard.press("]")
    page.wait_for_function("n => document.querySelectorAll('.label').length < n", arg=before)
    second = labels.nth(1).text_content()
    page.get_by_role("button", name="Flatter rows").click()

    assert second == "row 1"


def test_of_ten_thousand_rows_only_those_in_view_are_drawn(open_page: Open) -> None:
    page = open_page(render(statemap(many(10_000))))

    width, height = page.evaluate(
        "(c => [c.width, c.height])(document.querySelector('.strip canvas'))"
    )
    nodes = page.evaluate("document.querySelectorAll('*').length")

    assert (page.locator(".position").text_content() or "").endswith(" of 10,000")
    assert height < 800
    assert width < 1200
    assert nodes < 600
    address = click(page, 0.25, 0, 1)
    assert address["row"].startswith("0:row ")


def test_rows_of_no_height_are_as_high_as_fits(open_page: Open) -> None:
    page = open_page(render(statemap(many(100), state_height_px=0)))

    assert strip(page)["height"] == pytest.approx(100 * 4, abs=100)


# Stacks, events


def test_stacked_maps_share_a_legend_when_their_states_are_the_same(open_page: Open) -> None:
    first, second = panel({"a1": "aabb"}, title="one"), panel({"b1": "abbb"}, title="two")
    other = panel({"c1": "xxyy"}, title="three", aligned=False)
    page = open_page(render(statemap(first, second, other)))

    titles = page.locator(".states-section h2").all_text_contents()
    headings = page.locator(".panel-title").all_text_contents()
    tables = page.locator(".legend").all()
    first_table = table(page, ".legend-of:nth-of-type(1) .legend")

    assert titles == [
        "States of one and two",
        "States of three" + headings[2].removeprefix("three"),
    ]
    assert "not aligned" in headings[2]
    assert len(tables) == 2
    assert [row[1] for row in first_table] == ["37.50 %", "62.50 %"]


def test_a_selection_in_one_map_does_not_affect_others(open_page: Open) -> None:
    tag = [{"state": 0, "tag": "t", "k": "v"}]
    rows: dict[str, list[Drawn]] = {"r": [(0, 10, {0: 10}, {0: 10})]}
    first = panel_of(rows, states=["a"], end_ns=10, tags=tag, title="one", entity_kind="A")
    shifted: dict[str, list[Drawn]] = {"r": [(5, 10, {0: 5}, {0: 5})]}
    second = panel_of(
        shifted,
        states=["a"],
        start_ns=5,
        end_ns=15,
        tags=tag,
        title="two",
        offset_ns=-5,
        existed={0: (5, 15)},
    )
    page = open_page(render(statemap(first, second)), "#state=0%3Aa&by=k")

    both = table(page, ".values")
    page.locator(".label").nth(1).click()
    of_second = table(page, ".values")

    assert both[0] == ["v", "75.00 %", "15 ns"]
    assert of_second[0] == ["v", "50.00 %", "5 ns"]


def test_events_are_ticks_and_arrows_that_can_be_hidden(open_page: Open) -> None:
    drawn = panel(
        {"a": "aaaa", "b": "aaaa", "c": "aaaa"},
        step_ns=S,
        events=events([(S, 0, 0, 2), (2 * S, 1, 1, -1)], ["wakeup", "mark"]),
    )
    page = open_page(render(statemap(drawn)))

    arrow = pixel(page, 0.25, 1, 3)
    tick = pixel(page, 0.5, 1, 3)
    page.mouse.move(*spot(page, 0.25, 2, 3))
    tip = page.locator(".tooltip").text_content() or ""
    address = press(page, "e")

    assert GREEN not in {arrow, tick}
    assert "event wakeup → c at 1 s" in tip
    assert address == {"events": "false"}
    assert pixel(page, 0.25, 1, 3) == pixel(page, 0.5, 1, 3) == GREEN


def test_of_a_crowd_of_events_only_the_selected_rows_are_shown_until_one_zooms_in(
    open_page: Open,
) -> None:
    happened = [(1 + i, 0, 0, -1) for i in range(2001)]
    crowd = panel({"a": "a", "b": "a"}, step_ns=2002, events=events(happened, ["e"]))
    file = render(statemap(crowd))
    page = open_page(file)

    toggle = page.get_by_role("button", name="Show or hide events").text_content()
    before = pixel(page, 0.5, 0, 2)
    page.mouse.move(*spot(page, 0.5, 0, 2))
    tip = page.locator(".tooltip").text_content() or ""
    after(page, page.locator(".label").nth(1).click)
    of_another_row = pixel(page, 0.5, 0, 2)
    after(page, page.locator(".label").nth(0).click)
    selected = pixel(page, 0.5, 0, 2)
    zoomed = open_page(file, "#t=1000..1010")

    assert toggle == "2,001 events"
    assert before == of_another_row == GREEN
    assert "event e" not in tip
    assert selected != GREEN
    assert pixel(zoomed, 0.5, 0, 2) != GREEN


# Address, theme, help, names


def test_an_address_brings_back_everything(open_page: Open) -> None:
    file = render(statemap(tagged()))
    page = open_page(
        file,
        "#t=1000000000..9000000000&at=6000000000&to=7000000000&row=0%3Ap"
        "&state=0%3Aa&by=file&value=two&sort=b&rows=p",
    )

    address = press(page, "+")

    assert {key: value for key, value in address.items() if key != "t"} == {
        "at": "6000000000",
        "to": "7000000000",
        "row": "0:p",
        "state": "0:a",
        "by": "file",
        "value": "two",
        "sort": "b",
        "rows": "p",
    }
    assert page.locator(".flag.second").text_content() == "+1 s"
    page.evaluate("location.hash = '#t=2000000000..3000000000'")
    shows = "text => document.querySelector('.span').textContent.startsWith(text)"
    page.wait_for_function(shows, arg="span 1.000\u202fs")
    assert page.locator(".flag").count() == 0


def test_an_address_that_means_nothing_shows_everything(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), "#t=9..1")
    span = page.locator(".span")

    for fragment in ("#t=9..1", "#t=x..y", "#t=-5..99999999999999999999", "#row=7:no", "#%%%&=&&"):
        # the browser sends its own event later, or none if this is the address already
        page.evaluate(
            """fragment => {
              location.hash = fragment;
              dispatchEvent(new HashChangeEvent("hashchange"));
            }""",
            fragment,
        )
        at_rest(page)

        assert plain(span.text_content()) == "span 8.000 s"


def test_the_theme_is_the_systems_until_it_is_changed(open_page: Open) -> None:
    page = open_page(render(statemap(simple())), color_scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"

    dark = page.evaluate(ground)
    page.keyboard.press("t")
    light = page.evaluate(ground)
    page.get_by_role("button", name="Switch between light and dark").click()

    assert dark == "rgb(15, 16, 19)"
    assert light == "rgb(255, 255, 255)"
    assert page.evaluate(ground) == dark
    assert pixel(page, 0.1, 0, 2) == GREEN


def test_long_names_lose_their_common_prefix_and_then_their_middle(open_page: Open) -> None:
    common = "0 · env#native-main#platform-runtime-manager-of-workers-and-timers#"
    names = [f"{common}{name}" for name in ("first", "second", "x" * 90 + "-last")]
    page = open_page(render(statemap(panel(dict.fromkeys(names, "aaaa")))))

    first, second, last = page.locator(".label").all_text_contents()

    assert (first, second) == ("0 · …first", "0 · …second")
    assert re.fullmatch("0 · …x+…x+-last", last)
    assert page.locator(".label").first.get_attribute("title") == f"Entity {names[0]}"


def test_a_phone_lays_the_page_out_in_its_own_width(open_page: Open) -> None:
    page = open_page(
        render(statemap(simple())),
        viewport={"width": 390, "height": 844},
        is_mobile=True,
        has_touch=True,
    )

    assert page.evaluate("innerWidth") == 390
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def requests_history() -> History:
    """Return a loop of 10 s, and requests of one site that need two rows, the last of 1 ms."""
    builder = HistoryBuilder()
    states = [{"name": "running", "color": GREEN}, {"name": "waiting", "color": YELLOW}]
    builder.lanes("Loops/*", label="Event loops", states=states)
    builder.lanes("Tasks/*/*", entity_kind="Task", label="Tasks", states=states, short_lived=True)
    loop = builder.quark("Loops", "main")
    builder.modify(0, loop, "running")
    lives = [(0, 4 * S), (1 * S, 3 * S), (6 * S, 9 * S), (9 * S + 500 * MS, 9 * S + 501 * MS)]
    for number, (start_ns, end_ns) in enumerate(lives):
        task = builder.quark("Tasks", "serve (app.py:3)", str(number))
        builder.modify(start_ns, task, "waiting")
        builder.modify((start_ns + end_ns) // 2, task, "running")
        builder.modify(end_ns, task, None)
    return builder.close(10 * S)


def rows_of(page: Page) -> list[str]:
    return [label.get_attribute("title") or "" for label in page.locator(".label").all()]


def test_tasks_that_never_overlap_share_rows_below_the_loops(open_page: Open) -> None:
    page = open_page(render(build([requests_history()])))

    assert page.locator(".panel-title").all_text_contents() == ["Event loops", "Tasks"]
    assert rows_of(page) == ["Entity Loops/main", "Task serve (app.py:3) · lane 1 of 2"]
    assert page.locator(".label").all_text_contents() == ["Loops/main", "serve (app.py:3) \u00d7 2"]


@pytest.mark.parametrize("height", [520, 600, 720, 900])
def test_names_of_low_rows_cover_neither_each_other_nor_headings(
    open_page: Open, height: int
) -> None:
    builder = HistoryBuilder()
    states = [{"name": "running", "color": GREEN}]
    builder.lanes("Loops/*", label="Event loops", states=states)
    builder.lanes("Threads/*", label="Threads", states=states)
    for label in ("Requests", "Tasks"):
        builder.lanes(f"{label}/*/*", label=label, states=states, short_lived=True)
    alive: list[tuple[str, ...]] = [("Loops", "main")]
    alive += [("Threads", f"pool-{number}") for number in range(4)]
    # sites of few rows beside those of many
    for label in ("Requests", "Tasks"):
        for site, count in enumerate((7, 1, 3, 1, 14, 12, 1)):
            alive += [(label, f"site {site}", f"{site}.{number}") for number in range(count)]
    for path in alive:
        builder.modify(0, builder.quark(*path), "running")
    history = builder.close(S)
    page = open_page(render(build([history])), viewport={"width": 1280, "height": height})

    boxes = page.evaluate(
        """() => {
            const { top, bottom } = document.querySelector(".labels").getBoundingClientRect();
            const box = (element, above) => {
                const found = element.getBoundingClientRect();
                // the text of 12 pixels, not its line
                const middle = (found.top + above + found.bottom) / 2;
                return [middle - 5, middle + 5, element.textContent];
            };
            const labels = [...document.querySelectorAll(".label")].map((each) => box(each, 0));
            const heads = [...document.querySelectorAll(".panel-title")];
            const titles = heads.map((each) => box(each, 8));
            return { labels, titles, top, bottom };
        }"""
    )

    assert len(boxes["labels"]) > 2
    assert len(boxes["titles"]) > 1
    found = sorted(boxes["labels"] + boxes["titles"])
    overlaps = [(one, two) for one, two in pairwise(found) if one[1] > two[0] + 1]
    assert overlaps == []
    assert boxes["top"] <= found[0][0]


def test_hovering_a_shared_row_names_the_task_that_is_there(open_page: Open) -> None:
    page = open_page(render(build([requests_history()])))
    box = strip(page)
    bottom = box["y"] + box["height"] - 2

    tips = []
    for ratio, y in ((0.65, bottom - 0.45 * box["height"]), (0.2, bottom), (0.5, bottom)):
        page.mouse.move(box["x"] + ratio * box["width"], y)
        at_rest(page)
        tips.append(page.locator(".tooltip").text_content() or "")

    assert tips[0].startswith("Task 2existed for 3 sserve (app.py:3) · lane 1 of 2")
    assert tips[1].startswith("Task 1existed for 2 sserve (app.py:3) · lane 2 of 2")
    assert "nothing at 5 s" in tips[2]


def test_shares_are_of_the_time_that_each_kind_of_entity_existed(open_page: Open) -> None:
    history = requests_history()
    page = open_page(render(build([history])), "#t=0..7000000000")

    shown = [row[:2] for row in table(page, ".legend")]

    rows = state_statistics(history, start_ns=0, end_ns=7 * S).rows
    order = {("Event loops", "running"): 0, ("Tasks", "running"): 1, ("Tasks", "waiting"): 2}
    rows.sort(key=lambda row: order[row.kind, row.key])
    assert [row.kind for row in rows] == ["Event loops", "Tasks", "Tasks"]
    # the loop is never waiting: such a state is folded away
    occurring = [row for row in shown if row[1] != "\u2013"]
    assert occurring == [[row.key, f"{100 * row.share:.2f} %"] for row in rows]


def test_a_search_finds_tasks_in_shared_rows_and_enter_goes_to_each(open_page: Open) -> None:
    page = open_page(render(build([requests_history()])))
    field = page.get_by_role("searchbox")

    found = after(page, lambda: field.fill("serve (app.py:3)/3"))
    text = page.locator(".found").text_content()
    titles = rows_of(page)
    gone = after(page, lambda: page.keyboard.press("Enter"))

    assert text == "1 task"
    assert titles == ["Task serve (app.py:3) · lane 1 of 2"]
    assert found["rows"] == "serve (app.py:3)/3"
    assert int(gone["at"]) == 9 * S + 500 * MS
    # a task that is too short to be seen is zoomed to
    assert view(gone).span_ns < 2 * MS
    assert "Task 3" in (page.locator(".selection").text_content() or "")


def test_a_rectangle_that_is_merged_with_gaps_is_partly_empty_and_counts_exactly(
    open_page: Open,
) -> None:
    builder = HistoryBuilder()
    builder.lanes("Tasks/*/*", entity_kind="Task", short_lived=True)
    for number in range(100):
        task = builder.quark("Tasks", "serve", str(number))
        builder.modify(number * MS, task, "running")
        builder.modify(number * MS + MS // 4, task, None)
    history = builder.close(100 * MS)
    drawn = build([history], StatemapOptions(coalesce=1, state_height_px=20))
    assert len(drawn.panels[0].rectangles) == 1

    page = open_page(render(drawn))
    box = strip(page)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = page.locator(".tooltip").text_content() or ""
    image = picture(page)

    assert [row[:3] for row in table(page, ".legend")] == [["running", "100.00 %", "25.00 ms"]]
    assert tip.startswith("100 Tasks, 0 to 99")
    assert "25.19 %" in tip
    assert "nothing there74.81 %" in tip
    column = image[:, image.shape[1] // 2, 3]
    assert 0.2 < np.count_nonzero(column) / len(column) < 0.3


def phone(open_page: Open, file: bytes) -> Page:
    return open_page(file, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)


def test_on_a_phone_nothing_is_cut_and_controls_can_be_touched(open_page: Open) -> None:
    page = phone(open_page, render(build([requests_history()])))
    at_rest(page)
    page.locator(".label").first.tap()
    page.locator(".scope button").wait_for()

    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [390, 390]
    assert page.evaluate("document.documentElement.scrollHeight") == 844
    for control in page.locator("button:visible, input:visible, select:visible").all():
        box = control.bounding_box()
        assert box
        assert (box["x"] >= 0, box["x"] + box["width"] <= 390) == (True, True)
        assert box["height"] >= 36
    assert strip(page)["width"] == 390


def test_on_a_phone_names_stand_above_rows_and_a_tap_fills_the_sheet(open_page: Open) -> None:
    page = phone(open_page, render(build([requests_history()])))
    at_rest(page)
    names = [label.bounding_box() for label in page.locator(".label").all()]
    box = strip(page)
    sheet = page.locator(".side").bounding_box()

    page.touchscreen.tap(box["x"] + 0.2 * box["width"], box["y"] + box["height"] - 3)
    page.locator(".selection .who").wait_for()

    assert page.locator(".label").all_text_contents() == ["Loops/main", "serve (app.py:3) \u00d7 2"]
    assert all(name and name["x"] < 20 for name in names)
    assert sheet
    assert sheet["y"] >= box["y"] + box["height"]
    assert sheet["y"] + sheet["height"] == 844
    assert "Task 1" in (page.locator(".selection").text_content() or "")


def test_on_a_phone_the_sheet_is_dragged_by_its_edge(open_page: Open) -> None:
    page = phone(open_page, render(build([requests_history()])))
    grip = page.locator(".side .grip").bounding_box()
    assert grip
    x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2

    touch(page, *([(x, y - dragged)] for dragged in (0, 20, 80, 150)))
    at_rest(page)

    higher = page.locator(".side .grip").bounding_box()
    assert higher
    assert 130 < grip["y"] - higher["y"] < 170
    box = strip(page)
    assert box["y"] + box["height"] <= higher["y"]


def test_the_help_lists_the_keys(open_page: Open) -> None:
    page = open_page(render(statemap(simple())))
    dialog = page.get_by_role("dialog")

    page.keyboard.press("?")
    text = dialog.text_content() or ""
    page.keyboard.press("Escape")

    assert "zoom at the pointer" in text
    assert "show that many s, ms, μs or ns" in text
    assert not dialog.is_visible()


def test_hostile_names_are_only_names(open_page: Open) -> None:
    names = ["Vec<u8>", 'a"b', "x & y", "</script><script>alert(1)</script>", "]]>", "two\nlines"]
    names += ["nul\0", "\U0001f600", "שלום", "lone \ud800", "\u202egnp.exe", ""]
    rows: dict[str, list[Drawn]] = {name: [(0, 9, {0: 9}, {0: 9})] for name in names}
    drawn = panel_of(
        rows,
        states=["<img src=x onerror=alert(1)>"],
        end_ns=10,
        title="<b>t</b>",
        entity_kind="<i>",
        tags=[{"state": 0, "tag": "<t>", "<k>": "</td><script>alert(2)</script>"}],
        descriptions={0: "<d>&amp;"},
    )
    page = open_page(render(statemap(drawn)))

    click(page, 0.5, 0, len(names))
    page.locator(".legend button.state").click()
    page.get_by_role("button", name="By <k>").click()

    shown = page.locator(".label").all_text_contents()
    assert shown == [
        *names[:5],
        *("two␊lines", "nul␀", "\U0001f600", "שלום", "lone �", "�gnp.exe", ""),
    ]
    assert "<d>&amp;" in (page.locator(".selection").text_content() or "")
    assert table(page, ".values")[0][0] == "</td><script>alert(2)</script>"
    assert page.locator("script, img").count() == 0


@pytest.mark.parametrize(("width", "height"), [(360, 640), (820, 900), (2400, 500)])
def test_the_page_fits_windows_of_any_width(open_page: Open, width: int, height: int) -> None:
    page = open_page(render(statemap(tagged())), viewport={"width": width, "height": height})

    click(page, 0.3, 0, 2)

    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert over <= 0
    assert pixel(page, 0.2, 0, 2) == GREEN


# Without script


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_script_the_picture_is_there(open_page: Open, scheme: str) -> None:
    page = open_page(render(statemap(simple())), java_script_enabled=False, color_scheme=scheme)

    assert page.locator("h1").count() == 0
    assert page.locator("text >> nth=0").text_content() == "Statemap of I/O activity"
    assert page.locator("path[stroke='#2e8b57']").count() == 1


def test_in_an_image_tag_the_picture_has_the_right_colours(open_page: Open) -> None:
    file = render(statemap(simple(), state_height_px=20))
    page = open_page(b"<svg xmlns='http://www.w3.org/2000/svg'/>")

    colors = page.evaluate(
        """async (text) => {
          const XHTML = "http://www.w3.org/1999/xhtml";
          const image = document.createElementNS(XHTML, "img");
          image.src = "data:image/svg+xml," + encodeURIComponent(text);
          await image.decode();
          const canvas = document.createElementNS(XHTML, "canvas");
          [canvas.width, canvas.height] = [image.width, image.height];
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const found = {};
          const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
          for (let i = 0; i < data.length; i += 4) {
            const color = [...data.slice(i, i + 3)].map((c) => c.toString(16).padStart(2, "0"));
            found[color.join("")] = (found[color.join("")] ?? 0) + 1;
          }
          return found;
        }""",
        file.decode(),
    )

    strip_px = colors["2e8b57"] / 20 / (4 / 8)
    assert 1100 < strip_px < 1260
    assert colors["ffd700"] == pytest.approx(strip_px * 20 * (2 / 8 + 1), rel=0.02)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_background_is_between_rows(open_page: Open, scheme: str) -> None:
    page = open_page(render(statemap(simple())), color_scheme=scheme)

    colors = page.evaluate("""() => {
        const canvas = document.querySelector(".strip canvas");
        const {data} = canvas.getContext("2d").getImageData(canvas.width - 3, 0, 1, canvas.height);
        const of = (y) => [...data.slice(4 * y, 4 * y + 3)].join();
        return [...new Array(canvas.height).keys()].map(of);
    }""")

    background = {"light": "255,255,255", "dark": "15,16,19"}[scheme]
    assert background in colors
    assert "0,15,255" not in colors  # the pixel of a minified #fff, misread


def crowd(rows: int, sort_by: str | None = None) -> Statemap:
    """Return rows that are one after the other all in the first state and in the second."""
    builder = HistoryBuilder()
    for row in range(rows):
        quark = builder.quark("thread", f"t{row:03}")
        # every third is first in the other state
        first, second = ("on", "off") if row % 3 else ("off", "on")
        builder.modify(0, quark, first)
        builder.modify(500, quark, second)
    return build([builder.close(1000)], StatemapOptions(sort_by=sort_by))


def test_all_rows_are_seen_at_once(open_page: Open) -> None:
    page = open_page(render(crowd(900)))
    page.wait_for_function("document.querySelector('.population-label .muted').textContent")

    assert page.locator(".population-label .muted").text_content() == "at most 900 at once"
    # a column of the area is divided as the states of the rows are
    columns = page.evaluate("""() => {
        const canvas = document.querySelector(".population canvas");
        const {width, height} = canvas;
        const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
        return [0.25, 0.75].map((part) => {
            const colors = {};
            for (let y = 0; y < height; y++) {
                const at = 4 * (y * width + Math.floor(width * part));
                const color = [...data.slice(at, at + 4)].join();
                colors[color] = (colors[color] ?? 0) + 1 / height;
            }
            return colors;
        });
    }""")
    assert [sorted(round(part, 1) for part in each.values()) for each in columns] == [
        [0.3, 0.7]
    ] * 2
    # and the strip beside the rows has their colours only
    strip = page.evaluate("""() => {
        const canvas = document.querySelector(".overview canvas");
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const colors = new Set();
        for (let at = 0; at < data.length; at += 4) colors.add([...data.slice(at, at + 4)].join());
        return [...colors];
    }""")
    assert sorted(strip) == sorted(columns[0])
    box = page.locator(".overview").bounding_box()
    assert box
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] - 2)
    assert str(page.locator(".label").last.text_content()) > "thread/t890"


def test_like_rows_stand_together(open_page: Open) -> None:
    page = open_page(render(crowd(60)), viewport={"width": 1280, "height": 1400})
    page.locator(".sort").select_option("likeness")

    named = [str(each.get_attribute("title")) for each in page.locator(".label").all()]
    numbers = [int(title.rpartition("t")[2]) for title in named]
    # two of three are of one kind
    kinds = [number % 3 == 0 for number in numbers]
    assert kinds == sorted(kinds)
    assert "order=likeness" in page.url
    # the command has the same order
    names = crowd(60, "likeness").panels[0].entities
    assert [title.rpartition("/")[2].rpartition(" ")[2] for title in named] == [
        name.rpartition("/")[2] for name in names
    ]
