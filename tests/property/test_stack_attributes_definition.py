"""Depths of stacks as attributes: what the table of spans says, plainly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.opening.history_from_path import open_history
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

TIMES = st.integers(-3, 20)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from("XXBE"),
            "name": st.sampled_from("ab"),
            "ts": TIMES.map(lambda ns: ns / 1000),
            "dur": st.integers(0, 9).map(lambda ns: ns / 1000),
            "tid": st.sampled_from([1, 2]),
        }
    )
    | st.fixed_dictionaries(
        {
            "ph": st.sampled_from("be"),
            "name": st.sampled_from("ab"),
            "ts": TIMES.map(lambda ns: ns / 1000),
            "id": st.just("7"),
            "cat": st.just("c"),
        }
    )
    | st.fixed_dictionaries(
        {"ph": st.just("C"), "name": st.just("n"), "ts": st.just(0), "args": st.just({"x": 1})}
    ),
    max_size=25,
)


def plain(history: History) -> dict[str, list[tuple[int, int, str | None]]]:
    """Return the tiles of each depth: its spans that last, and None between them."""
    spans = history.spans()
    path = history.attributes.text
    lasting: dict[str, list[tuple[int, int, str]]] = {}
    for row, thread in enumerate(spans.thread.tolist()):
        whose, lane = path(thread), int(spans.lane[row])
        name = f"{whose}/Lane/{lane}" if lane else whose
        if "/Async/" not in whose:
            name += "/Stack"
        found = lasting.setdefault(f"{name}/{int(spans.depth[row])}", [])
        if spans.end_ns[row] > spans.start_ns[row]:
            found.append((int(spans.start_ns[row]), int(spans.end_ns[row]), str(spans.name[row])))
    return {name: tiles(history, found) for name, found in lasting.items()}


def tiles(history: History, found: list[tuple[int, int, str]]) -> list[tuple[int, int, str | None]]:
    tiled: list[tuple[int, int, str | None]] = []
    time_ns = history.start_ns
    for start_ns, end_ns, name in sorted(found):
        assert start_ns >= time_ns
        if start_ns > time_ns:
            tiled.append((time_ns, start_ns, None))
        tiled.append((start_ns, end_ns, name))
        time_ns = end_ns
    if time_ns < history.end_ns:
        tiled.append((time_ns, history.end_ns, None))
    return tiled


def asked(history: History, name: str) -> list[Any]:
    intervals = history.intervals(history.quarks(name), history.start_ns, history.end_ns)
    return [(start_ns, end_ns, value) for _, start_ns, end_ns, value, _, _ in intervals]


def stack_names(history: History) -> set[str]:
    names = map(history.attributes.text, history.attributes)
    return {name for name in names if "/Stack/" in name or "/Async/c/7/" in name} - {
        name for name in map(history.attributes.text, history.attributes) if name.endswith("/Stack")
    }


@settings(max_examples=40, deadline=None)
@given(events=EVENTS, data=st.data())
def test_every_question_is_answered_as_from_the_table(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("stacks")
    (folder / "x.json").write_text(json.dumps(events))
    if all(event["ph"] in "Ee" for event in events) and events:
        with pytest.raises(InputError, match="nothing in it can be shown"):
            build(open_trace(folder / "x.json"))
        return
    made = build(open_trace(folder / "x.json"))
    if made.start_ns == made.end_ns:
        return
    expected = plain(made)
    numbers = [made.quark(*name.split("/")) for name in expected]
    on_disk = build(open_trace(folder / "x.json"), folder / "x.mth")
    for history in (made, on_disk, open_history(folder / "x.mth")):
        assert {
            name for name in stack_names(history) if not name.endswith(("/Lane", "/Lane/1"))
        } >= set(expected)
        assert {name: asked(history, name) for name in expected} == expected
        check_times(history, expected, data)
        check_ranges(history, expected, data)
    mixed = [0, *numbers, 1, *numbers[::-1]]
    together = made.intervals(mixed)
    assert [tuple(interval) for interval in together] == [
        tuple(interval) for quark in mixed for interval in made.intervals([quark])
    ]


def check_times(history: History, expected: dict[str, list[Any]], data: st.DataObject) -> None:
    time_ns = data.draw(st.integers(history.start_ns, history.end_ns - 1))
    at = list(history.at(time_ns))
    for name, tiled in expected.items():
        quark = history.quark(*name.split("/"))
        [tile] = [tile for tile in tiled if tile[0] <= time_ns < tile[1]]
        state = history.state(quark, time_ns)
        assert (state.start_ns, state.end_ns, state.value) == tile
        assert at[quark][:4] == (quark, *tile)
        [[value], [other]] = history.sample([quark, 0], [time_ns]).rows()
        assert (value, other) == (tile[2], None)


def check_ranges(history: History, expected: dict[str, list[Any]], data: st.DataObject) -> None:
    start_ns = data.draw(st.integers(history.start_ns, history.end_ns - 1))
    end_ns = data.draw(st.integers(start_ns + 1, history.end_ns))
    step_ns = data.draw(st.integers(1, 5))
    wanted = {*range(start_ns, end_ns, step_ns), end_ns - 1}
    for name, tiled in expected.items():
        quark = history.quark(*name.split("/"))
        meeting = [tile for tile in tiled if tile[0] < end_ns and tile[1] > start_ns]
        intervals = history.intervals([quark], start_ns, end_ns)
        assert [tuple(found[1:4]) for found in intervals] == meeting
        some = history.intervals([quark], start_ns, end_ns, step_ns)
        assert [tuple(found[1:4]) for found in some] == [
            tile for tile in meeting if wanted & set(range(tile[0], tile[1]))
        ]
        shares = history.shares([quark], start_ns, end_ns, bins=2)
        assert int(shares.ns.sum()) == end_ns - start_ns
        lasted: dict[Any, int] = {}
        for first, last, value in meeting:
            inside = min(last, end_ns) - max(first, start_ns)
            lasted[value] = lasted.get(value, 0) + inside
        counted: dict[Any, int] = {}
        for value, ns in zip(shares.value.to_list(), shares.ns.tolist(), strict=True):
            counted[value] = counted.get(value, 0) + ns
        assert counted == lasted


def test_nothing_is_computed_before_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"ph":"X","name":"a","ts":0,"dur":1,"tid":1}]')
    history = build(open_trace(tmp_path / "x.json"))
    before = history.size_bytes

    history.intervals(history.quarks("**/Stack/0"))

    assert history.size_bytes > before
    assert np.array_equal(history.lanes[0].quarks, history.quarks("**/Stack"))
