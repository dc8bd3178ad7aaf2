from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
import zlib
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.model.anomalies import Anomalies
from meantime.model.zones import Zone
from meantime.testing.statemaps import events, panel, panel_of, statemap
from meantime.views.statemap.data import Clipped
from meantime.views.statemap.svg import render

if TYPE_CHECKING:
    from meantime.testing.statemaps import Drawn
    from meantime.views.statemap.data import Statemap

HOUR_NS = 3600 * 10**9
SVG = "{http://www.w3.org/2000/svg}"


def parsed(file: bytes) -> ET.Element:
    return ET.fromstring(file)  # noqa: S314 - made by the test


def texts(file: bytes) -> list[str]:
    return [element.text or "" for element in parsed(file).iter(f"{SVG}text")]


def blocks(file: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for element in parsed(file).iter(f"{SVG}metadata"):
        name = element.attrib["data-block"]
        found[name] = found.get(name, "") + (element.text or "")
    return found


def test_the_picture_has_title_rows_legend_axis_and_footer_without_any_script() -> None:
    drawn = panel({"disk0": "aab.", "disk1": "bbbb"}, step_ns=10**9, title="block I/O", host="db1")

    found = texts(render(statemap(drawn)))

    assert found == [
        "Statemap of block I/O activity on db1",
        "2 Entities  ·  4 s",
        *("a", "b"),
        *("0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s", "2.5 s", "3.0 s", "3.5 s", "4.0 s"),
        *("disk0", "disk1"),
        "3 rectangles of 3 intervals",
    ]


BERLIN = Zone("Europe/Berlin")
# 2025-10-26 00:00 UTC, an hour before clocks go back in Berlin
AUTUMN_NS = 1_761_436_800 * 10**9


def axis_of(drawn: Statemap) -> list[str]:
    found = texts(render(drawn))
    return found[found.index("a") + 1 : found.index("r")]


def test_a_recording_of_hours_has_a_clock_on_its_axis() -> None:
    drawn = statemap(panel({"r": "aaaa"}, step_ns=HOUR_NS, origin_ns=AUTUMN_NS))

    assert axis_of(drawn) == [
        *("2025-10-26", "00:30", "01:00", "01:30", "02:00", "02:30", "03:00", "03:30", "04:00")
    ]


def test_the_clock_of_a_zone_shows_an_hour_twice_where_it_goes_back() -> None:
    hours = statemap(panel({"r": "aaaa"}, step_ns=HOUR_NS, origin_ns=AUTUMN_NS))

    drawn = replace(hours, zone=BERLIN)

    assert axis_of(drawn) == [
        *("2025-10-26", "02:00", "02:30", "02:00", "02:30", "03:00", "03:30", "04:00", "04:30"),
        "05:00",
    ]
    assert "from 2025-10-26 02:00:00.000000000 Europe/Berlin" in " ".join(texts(render(drawn)))


def test_times_of_a_recording_of_minutes_count_from_its_start() -> None:
    drawn = statemap(panel({"r": "aaaa"}, step_ns=60 * 10**9, origin_ns=AUTUMN_NS))

    assert axis_of(drawn)[:3] == ["0 s", "30 s", "60 s"]


def test_times_of_hours_without_a_date_count_from_the_start() -> None:
    assert "2 h" in axis_of(statemap(panel({"r": "aaaa"}, step_ns=HOUR_NS)))


def test_a_legend_of_very_many_states_has_those_with_the_most_time() -> None:
    builder = meantime.HistoryBuilder()
    time_ns = 0
    for number in range(100):
        builder.modify(time_ns, builder.quark("cpu"), f"thread-{number}")
        time_ns += 1 if number < 60 else 1_000

    drawn = meantime.statemap(builder.close(time_ns)).data

    names = [each for each in texts(render(drawn)) if each.startswith(("thread", "and"))]
    assert names == [*(f"thread-{number}" for number in range(60, 100)), "and 60 others"]


def test_a_row_has_one_path_for_each_colour() -> None:
    file = render(statemap(panel({"r": "abababab"})))

    row = next(
        group for group in parsed(file).iter(f"{SVG}g") if group.find(f"{SVG}title") is not None
    )

    assert [path.attrib["stroke"] for path in row.iter(f"{SVG}path")] == ["#2e8b57", "#ffd700"]


def test_columns_that_mix_states_are_an_image_in_the_colours_of_the_legend() -> None:
    drawn = panel({"one": "abc" * 2000, "two": "a" * 6000})

    (image,) = parsed(render(statemap(drawn))).iter(f"{SVG}image")

    file = b64decode(image.attrib["href"].removeprefix("data:image/png;base64,"))
    colors = b"".join(bytes.fromhex(state.color[1:]) for state in drawn.states)
    length = int.from_bytes(file[file.index(b"PLTE") - 4 : file.index(b"PLTE")], "big")
    palette = file[file.index(b"PLTE") + 4 :][:length]
    assert palette == bytes(3) + colors
    assert image.attrib["height"] == "20"


@pytest.mark.parametrize("rows", [1, 9_000])
def test_low_rows_and_bands_have_no_colour_but_those_of_the_legend(rows: int) -> None:
    drawn = panel(dict.fromkeys(map(str, range(rows)), "abc" * 2000 if rows == 1 else "abca"))

    (image,) = parsed(render(statemap(drawn, state_height_px=5))).iter(f"{SVG}image")

    file = b64decode(image.attrib["href"].removeprefix("data:image/png;base64,"))
    length = int.from_bytes(file[file.index(b"PLTE") - 4 : file.index(b"PLTE")], "big")
    palette = file[file.index(b"PLTE") + 4 :][:length]
    assert palette == bytes(3) + b"".join(bytes.fromhex(one.color[1:]) for one in drawn.states)


def test_more_states_than_an_image_has_indices_keep_their_colours() -> None:
    states = [f"state {n}" for n in range(400)]
    row: list[Drawn] = [(n, n + 1, {n % 400: 1}, {}) for n in range(4000)]
    many = panel_of({"r": row}, states=states, end_ns=4000)
    legend = tuple(
        one._replace(color=f"#{number:06x}") for number, one in enumerate(many.states, 1)
    )

    (image,) = parsed(render(statemap(replace(many, states=legend)))).iter(f"{SVG}image")

    file = b64decode(image.attrib["href"].removeprefix("data:image/png;base64,"))
    lines = np.frombuffer(zlib.decompress(file[file.index(b"IDAT") + 4 : -16]), np.uint8)
    pixels = lines.reshape(10, -1)[:, 1:].reshape(10, -1, 4).astype(int)
    seen = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    at = np.arange(seen.shape[1]) * 4000 / seen.shape[1]
    near = np.abs((seen - 1 - at.astype(int) + 200) % 400 - 200)
    assert (near <= 20).all()  # a mark is at most four columns away
    assert len(np.unique(seen)) == 400


def test_the_same_statemap_gives_the_same_bytes() -> None:
    first, second = (
        render(statemap(panel({f"row{n}": "ab.ba" * 20 for n in range(30)}))) for _ in range(2)
    )

    assert first == second


def test_hostile_names_are_text_everywhere() -> None:
    names = ["Vec<u8>", 'a"b', "&", "</script>", "]]>", "a\nb", "\0\x1b", "\U0001f600", "\ud800"]
    rows: dict[str, list[Drawn]] = {name: [(0, 50, {0: 50}, {0: 50})] for name in names}
    drawn = panel_of(
        rows,
        states=["<s>&"],
        end_ns=100,
        title='</svg>"&]]>',
        host="<h>",
        entity_kind="</metadata>",
        tags=[{"state": 0, "tag": "<t>", "<k>": "]]></script>", "big": 2**63, "nan": float("nan")}],
        descriptions={0: "<d>"},
    )

    file = render(statemap(drawn))

    head = json.loads(blocks(file)["head"])["panels"][0]
    assert head["entities"] == names
    assert head["tags"][0] == {
        "state": 0,
        "tag": "<t>",
        "<k>": "]]></script>",
        "big": "9223372036854775808",
        "nan": "nan",
    }
    assert {"Vec<u8>", 'a"b', "&", "</script>", "]]>", "a␊b", "␀␛", "\U0001f600"} < set(texts(file))


def test_large_data_is_cut_into_pieces_that_any_parser_takes() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 10**9, 200_000).tolist()
    row: list[Drawn] = []
    time = 0
    for length in lengths:
        row.append((time, time + length, {0: length}, {}))
        time += length

    file = render(statemap(panel_of({"r": row}, states=["a"], end_ns=time)))

    sizes = [len(element.text or "") for element in parsed(file).iter(f"{SVG}metadata")]
    assert len(sizes) > 2
    assert max(sizes) <= 2**20
    assert b64decode(blocks(file)["p0"])[:3] == b"\xc0\x9a\x0c"


def test_stacked_panels_share_a_legend_and_say_when_they_are_not_aligned() -> None:
    first = panel({"a": "ab"}, title="one")
    second = panel({"b": "ba"}, title="two", aligned=False)
    third = panel({"c": "ab"}, title="three", offset_ns=-1500)

    found = texts(render(statemap(first, second, third)))

    assert found[0] == "Statemap of one, two, and three activity"
    assert found.count("a") == 1 + 1  # the state once, and the row
    assert "two  ·  not aligned: without a common clock, it begins with the first" in found
    assert "three  ·  its trace starts 1.5 μs before the first" in found


def test_a_map_outside_the_window_names_the_option_that_aligns_it() -> None:
    first = panel({"a": "ab"}, title="one")
    away = panel({"b": ".."}, title="two", offset_ns=9, clipped=Clipped(4, 0, 0), states=["a"])

    found = texts(render(statemap(first, away)))

    assert any("--offset FILE=TIME" in text for text in found)


def test_the_footer_counts_what_was_merged_clipped_filtered_and_odd() -> None:
    anomalies = Anomalies()
    anomalies.add("truncated", 2)
    drawn = replace(
        panel({"a": "ab" * 5}),
        intervals=1234,
        coalesced=5,
        clipped=Clipped(1, 2, 3),
        anomalies=anomalies,
    )

    found = texts(render(statemap(drawn)))[-4:]

    assert found[0].startswith("10 rectangles of 1,234 intervals; 5 (50.0 %) are coalesced")
    assert found[1] == "Outside the window: 1 interval before, 2 after it"
    assert found[2] == "Filtered out: 3 Entities"
    assert found[3].startswith("2 truncated: ")


def test_events_are_drawn_up_to_a_number_that_can_be_distinguished() -> None:
    happened = [(1, 0, 0, 1), (2, 1, 0, -1)]
    few = panel({"a": "aaaa", "b": "aaaa"}, events=events(happened, ["wakeup"]))
    many = replace(few, events=events(happened * 1001, ["wakeup"]))

    assert b"stroke-opacity" in render(statemap(few))
    assert b"stroke-opacity" not in render(statemap(many))


def test_an_empty_panel_and_empty_rows_are_drawn() -> None:
    nothing = panel({}, end_ns=10, states=["a"])
    empty = panel({"a": "...", "b": "."}, end_ns=10, states=["a"])
    instant = panel({"a": "."}, start_ns=5, end_ns=5, states=["a"])

    for drawn in (nothing, empty, instant):
        assert "0 rectangles of 0 intervals" in texts(render(statemap(drawn)))


@pytest.mark.parametrize("state_height_px", [0, 1, 10, 40])
def test_rows_have_the_requested_height(state_height_px: int) -> None:
    file = render(statemap(panel({"a": "ab", "b": "ba"}), state_height_px=state_height_px))

    (height,) = set(re.findall(rb'fill="none" stroke-width="([\d.]+)"', file))
    assert float(height) == 1000 * (state_height_px or 10)


def test_ten_thousand_rows_make_a_picture_of_bounded_size() -> None:
    rng = np.random.default_rng(3)
    rows = {f"task {n}": "".join(rng.choice(list("ab.c"), 12)) for n in range(10_000)}

    file = render(statemap(panel(rows)))

    assert float(parsed(file).attrib["height"]) < 4200
    assert len(parsed(file).findall(f".//{SVG}g")) < 2100


def test_a_converter_makes_an_image_of_the_files_size() -> None:
    program = shutil.which("rsvg-convert")
    if program is None:
        pytest.skip("no rsvg-convert on this machine: no converter was tried")
    file = render(statemap(panel({"Vec<u8>": "ab.ba", "\0": "b"}, title="]]>")))

    done = subprocess.run([program], input=file, capture_output=True, check=True)

    size = parsed(file).attrib
    assert struct.unpack(">II", done.stdout[16:24]) == (int(size["width"]), int(size["height"]))
    assert done.stderr == b""
