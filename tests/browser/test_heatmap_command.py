"""The command that a heat map's page offers: copied, run, and compared with the page."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from meantime.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

WEIGHT = 10_101_010
# (x, y) of where a drag begins and ends, as parts of the map, and the keys that are held
BAND = ((0.2, 0.11, 0.6, 0.51), ())
TIME = ((0.3, 0.7, 0.5, 0.2), ("Shift",))
OFFSETS = ((0.4, 0.2, 0.41, 0.6), ("Alt",))
CELL = ((0.25, 0.31, 0.25, 0.31), ())


def recording(folder: Path) -> Path:
    """Write 20 s of two events and of names that a shell would change."""
    path = folder / "a file's.txt"
    names = {"tick": 8, "it's $x, b": 9, "work": 7}
    lines = []
    for i in range(2000):
        name = "tick" if i % 50 < 6 else "it's $x, b" if i % 3 == 0 else "work"
        lines.append(
            f"{name} {names[name]} [000] {i / 100 + 0.003:.6f}: {WEIGHT} cpu-clock: \n"
            f"\t1 f{i % 7} (/a)\n\t2 main (/a)\n\n"
        )
        if i % 4 == 0:
            lines.append(
                f"{name} {names[name]} [000] {i / 100 + 0.004:.6f}: {WEIGHT} page-faults: \n"
                f"\t1 fault (/a)\n\n"
            )
    path.write_text("".join(lines))
    return path


def folded(command: str, out: Path) -> int:
    """Run a command that was copied, and return the samples in its output."""
    words = shlex.split(command)
    assert (words[0], words[-2:]) == ("meantime", ["-o", "flame.svg"])
    with pytest.raises(SystemExit) as left:
        main([*words[1:-1], str(out)])
    assert left.value.code == 0
    weights = [int(line.rpartition(" ")[2]) for line in out.read_text().splitlines()]
    samples, rest = divmod(sum(weights), WEIGHT)
    assert rest == 0
    return samples


def opened(context: BrowserContext, path: Path, folder: Path, options: list[str]) -> Page:
    out = folder / "map.html"
    with pytest.raises(SystemExit) as left:
        main(["heatmap", str(path), *options, "-o", str(out)])
    assert left.value.code == 0
    page = context.new_page()
    page.goto(out.as_uri())
    page.wait_for_selector("canvas.map")
    page.wait_for_function("atRest()", polling=10)
    return page


def drag(page: Page, where: tuple[float, float, float, float], keys: tuple[str, ...]) -> None:
    box = page.locator("canvas.map").bounding_box()
    assert box
    x0, y0, x1, y1 = where
    left, width = box["x"] + 64, box["width"] - 76
    bottom, height = box["y"] + box["height"] - 30, box["height"] - 38
    for key in keys:
        page.keyboard.down(key)
    page.mouse.move(left + width * x0, bottom - height * y0)
    page.mouse.down()
    page.mouse.move(left + width * x1, bottom - height * y1, steps=4)
    page.mouse.up()
    for key in keys:
        page.keyboard.up(key)
    page.wait_for_selector(".command code:visible")
    page.wait_for_function("atRest()", polling=10)


def copied(page: Page) -> str:
    """Copy the command by its button, and paste it where it can be read."""
    page.click(".command button")
    page.wait_for_function("atRest()", polling=10)
    page.click(".legend .search")
    page.keyboard.press("Control+V")
    page.wait_for_function("document.querySelector('.legend .search').value")
    text = page.input_value(".legend .search")
    page.fill(".legend .search", "")
    page.keyboard.press("Escape")
    return text


def total(page: Page) -> int:
    """Return the samples of the selection in the page's flame graph."""
    page.wait_for_function("document.querySelector('.flame-graph').dataset.total && atRest()")
    return int(page.evaluate("document.querySelector('.flame-graph').dataset.total"))


@pytest.mark.parametrize(
    "options",
    [
        ["--event", "cpu-clock", "--isolate", "it's $x\\, b"],
        ["--event", "cpu-clock", "--exclude", "work"],
        ["--event", "page-faults"],
        ["--event", "cpu-clock", "--filter", "^it's"],
        ["--by", "event", "--isolate", "page-faults"],
        ["--event", "cpu-clock", "--by", "thread", "--isolate", "tick 8"],
        ["--event", "cpu-clock", "--from", "1.2s", "--to", "12.5s"],
        ["--event", "cpu-clock", "--period", "7s", "--rows", "49"],
        ["--event", "cpu-clock", "--origin", "first"],
        ["--event", "cpu-clock", "--offset"],
    ],
    ids=" ".join,
)
def test_the_copied_command_counts_what_the_page_shows(
    context: BrowserContext, tmp_path: Path, options: list[str]
) -> None:
    path = recording(tmp_path)
    if options[-1] == "--offset":
        options = [*options, f"{path}=100.25s"]
    page = opened(context, path, tmp_path, options)

    for where, keys in (BAND, TIME, OFFSETS, CELL):
        drag(page, where, keys)
        shown = total(page)
        if not shown and where == CELL[0]:
            # a single cell may have nothing of a selected name
            continue
        assert shown > 0
        assert folded(copied(page), tmp_path / "out.folded") == shown
    page.close()


def test_two_selections_are_compared_by_page_and_command(
    context: BrowserContext, tmp_path: Path
) -> None:
    page = opened(context, recording(tmp_path), tmp_path, ["--event", "cpu-clock"])
    drag(page, (0.1, 0.11, 0.3, 0.51), ())
    before = total(page)
    page.keyboard.press("c")
    drag(page, (0.6, 0.11, 0.9, 0.51), ())
    both = total(page)
    words = shlex.split(copied(page))
    out = tmp_path / "out.folded"
    with pytest.raises(SystemExit):
        main([*words[1:-1], str(out)])
    sums = [0, 0]
    for line in out.read_text().splitlines():
        *_, earlier, later = line.split(" ")
        sums = [sums[0] + int(earlier), sums[1] + int(later)]

    assert [each // WEIGHT for each in sums] == [before, both - before]
    assert page.locator(".details h2").all_inner_texts() == ["Selection A", "Selection B"]
    page.close()


def test_no_command_is_offered_where_none_draws_the_same(
    context: BrowserContext, tmp_path: Path
) -> None:
    path = recording(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text(path.read_text())
    page = opened(context, path, tmp_path, [str(other), "--assume-aligned", "--event", "cpu-clock"])
    box = page.locator("canvas.map").bounding_box()
    assert box
    page.mouse.click(box["x"] + 300, box["y"] + 100)

    # the flame graph is in the page all the same
    assert total(page) > 0
    assert not page.locator(".command code").is_visible()
    page.close()


def spans(folder: Path) -> Path:
    """Write two threads with calls that are neither aligned with cells nor with each other."""
    path = folder / "calls.json"
    events = []
    for i in range(400):
        ts = 50_000 * i + 137 * (i % 7)
        events += [
            {"ph": "X", "name": f"work{i % 3}", "pid": 1, "tid": 1, "ts": ts, "dur": 41_777},
            {"ph": "X", "name": "read", "pid": 1, "tid": 1, "ts": ts + 901, "dur": 17_003},
            {"ph": "X", "name": "poll", "pid": 1, "tid": 2, "ts": ts + 11_111, "dur": 20_123},
        ]
    path.write_text(json.dumps(events))
    return path


def states(folder: Path) -> Path:
    """Write three entities whose states change at odd times."""
    path = folder / "states.csv"
    rows = ["start_ns,end_ns,path,value"]
    for entity, step in (("disk0", 93_000_111), ("disk1", 71_000_333), ("spare", 400_000_777)):
        rows += [
            f"{at * step},{(at + 1) * step},{entity},{('idle', 'busy', 'wait')[at % 3]}"
            for at in range(20_000_000_000 // step)
        ]
    path.write_text("\n".join(rows) + "\n")
    return path


def result(command: str) -> Any:
    """Run a command that was copied, and return what it prints as JSON."""
    words = shlex.split(command)
    if words[1] == "flame":
        words = words[:-2]
    with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as left:
        main([*words[1:], "--json"])
    assert left.value.code == 0
    return json.loads(printed.getvalue())


@pytest.mark.parametrize("options", [[], ["--period", "700ms"], ["--filter", "1/1"]], ids=" ".join)
def test_the_flame_graph_of_spans_is_that_of_the_copied_command(
    context: BrowserContext, tmp_path: Path, options: list[str]
) -> None:
    page = opened(context, spans(tmp_path), tmp_path, options)

    drag(page, *TIME)
    shown = total(page)
    rows = result(copied(page))["rows"]

    assert shown == sum(row["self_ns"] for row in rows) > 0
    page.close()


def test_the_command_of_a_map_of_states_draws_the_same_map(
    context: BrowserContext, tmp_path: Path
) -> None:
    page = opened(context, states(tmp_path), tmp_path, ["--state", "busy", "--period", "1.3s"])
    again = tmp_path / "again.html"
    words = shlex.split(copied(page))
    page.close()
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*words[1:-1], str(again)])

    assert again.read_text() == (tmp_path / "map.html").read_text()


def test_the_command_of_a_map_has_the_names_and_colours_that_were_chosen(
    context: BrowserContext, tmp_path: Path
) -> None:
    options = ["--event", "cpu-clock", "--by", "thread", "--highlight", "tick 8"]
    colours = ["--palette", "flamescope", "--scale", "3", "--title", "it's mine"]
    page = opened(context, recording(tmp_path), tmp_path, [*options, *colours])
    assert page.locator(".key").inner_text().split()[-1] == "3"
    first = shlex.split(copied(page))
    page.keyboard.press("r")
    page.wait_for_function("atRest()", polling=10)
    ranked = shlex.split(copied(page))
    page.close()
    again = tmp_path / "again.html"
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*first[1:-1], str(again)])

    assert again.read_text() == (tmp_path / "map.html").read_text()
    assert first[-4:-2] == ["--scale", "3"]
    assert ranked == [*first[:-4], *first[-2:]]


@pytest.mark.parametrize("options", [[], ["--filter", "disk", "--period", "1.3s"]], ids=" ".join)
def test_the_table_of_states_is_that_of_the_copied_command(
    context: BrowserContext, tmp_path: Path, options: list[str]
) -> None:
    page = opened(context, states(tmp_path), tmp_path, options)

    drag(page, *TIME)
    page.wait_for_function("document.querySelector('.states-table').dataset.total && atRest()")
    shown = int(page.evaluate("document.querySelector('.states-table').dataset.total"))
    heads = page.locator(".states-table thead th").all_inner_texts()
    entities = page.locator(".states-table tbody th").all_inner_texts()
    rows = result(copied(page))["rows"]

    assert shown == sum(row["total_ns"] for row in rows) > 0
    assert set(heads) == {"Entity", "Total", *(row["key"] for row in rows)}
    assert set(entities) == {"All", *(row["entity"] for row in rows)}
    page.keyboard.press("f")
    page.keyboard.type("disk1")
    assert page.locator(".states-table tbody th").all_inner_texts() == ["All", "disk1"]
    page.wait_for_function("location.hash.includes('q=disk1')")
    page.close()
