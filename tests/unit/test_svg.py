from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ET
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.views.axis import exact, ticks
from meantime.views.svg import cut_to, element, escape, json_text, shown, width_px, without_prefix

HOSTILE = (
    "Vec<u8>",
    'a"b',
    "x & y's",
    "</script><script>alert(1)</script>",
    "]]>",
    "two\nlines\tand\r",
    "nul\0 esc\x1b del\x7f c1\x85",
    "\U0001f600",
    "שלום",
    "lone \ud800 and \udfff",
    "\ufffe\uffff\ufdd0",
    "\u202eevil\u2069",
    "",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_in_an_element_and_in_an_attribute(name: str) -> None:
    markup = f"<a b=\"{escape(name)}\" c='{escape(name)}'>{escape(name)}</a>"

    read = ET.fromstring(markup)  # noqa: S314 - made in the line above

    assert (read.text or "") == shown(name)
    assert read.attrib == {"b": shown(name), "c": shown(name)}
    assert len(read) == 0


@given(st.text(st.characters(codec=None, categories=None)))
def test_any_text_is_well_formed(name: str) -> None:
    read = ET.fromstring(element("a", {"b": name}, text=name))  # noqa: S314 - made here

    assert read.attrib["b"] == shown(name)


@given(st.text(st.characters(codec=None, categories=None)))
def test_json_can_have_any_text_but_no_markup(name: str) -> None:
    text = json_text([name])

    assert json.loads(text) == [name]
    assert not set(text) & set("<>&")
    assert text.isascii()


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([], []),
        (["only/one"], ["only/one"]),
        (["env#main#read", "env#main#run"], ["…read", "…run"]),
        (["worker-1", "worker-12"], ["…1", "…12"]),
        (["same/name", "same/name"], ["…name", "…name"]),
        (["a/b", "c/b"], ["a/b", "c/b"]),
        (["0 · x/y", "lane 2 · 1 · x/z"], ["0 · …y", "lane 2 · 1 · …z"]),
    ],
)
def test_a_common_prefix_ends_with_a_separator(names: list[str], short: list[str]) -> None:
    assert without_prefix(names) == short


def test_a_name_that_is_too_long_keeps_both_ends() -> None:
    cut = cut_to("begin" + "x" * 1000 + "end42", 100, 10)

    assert cut.startswith("begin")
    assert cut.endswith("end42")
    assert width_px(cut, 10) <= 100


@pytest.mark.parametrize(
    ("start_ns", "end_ns"),
    [(0, 1), (0, 9), (-5, 5), (10**9, 10**9 + 7), (0, 4_002_498_534), (3, 10**13), (0, 2**63 - 1)],
)
def test_ticks_are_round_inside_and_few(start_ns: int, end_ns: int) -> None:
    _, marks = ticks(start_ns, end_ns, 10)

    times = [mark.time_ns for mark in marks]
    steps = {b - a for a, b in itertools.pairwise(times)}
    assert 1 <= len(times) <= 11
    assert len(steps) <= 1
    assert all(start_ns <= time <= end_ns and time % min(steps or {1}) == 0 for time in times)
    assert len({mark.label for mark in marks}) == len(marks)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_exact_time_keeps_every_nanosecond(time_ns: int) -> None:
    text = exact(time_ns)

    scales = {"d": 86_400 * 10**9, "h": 3600 * 10**9, "min": 60 * 10**9, "s": 10**9}
    scales |= {"ms": 10**6, "μs": 10**3, "ns": 1}
    parts = text.removeprefix("-").replace(",", "").split()
    size = sum(
        Fraction(number) * scales[unit]
        for number, unit in zip(parts[::2], parts[1::2], strict=True)
    )
    assert (-size if text.startswith("-") else size) == time_ns
