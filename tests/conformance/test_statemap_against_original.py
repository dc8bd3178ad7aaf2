from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import original_statemap as original
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.views.statemap import StatemapOptions, build, document

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

NAMES = ["a", "a1", "a01", "a10", "A", "é", "a 1b", ""]
STATES = ["idle", "busy", "entity"]
Payload = dict[str, Any]


@st.composite
def payloads(draw: st.DrawFn, *, repeats: bool = True) -> list[Payload]:
    """Valid payloads: each entity in order of time, entities in any order, odd ones between."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    queues: list[list[Payload]] = []
    for name in names:
        steps = draw(st.lists(st.integers(1, 12), max_size=12))
        time_ns = draw(st.integers(0, 20))
        queue: list[Payload] = []
        for step in steps:
            state = draw(st.integers(0, len(STATES) - 1))
            if not repeats and queue and queue[-1]["state"] == state:
                state = (state + 1) % len(STATES)
            datum: Payload = {"time": str(time_ns), "entity": name, "state": state}
            tag = draw(st.sampled_from([None, None, "x", "y"]))
            if tag is not None:
                datum["tag"] = tag
            queue.append(datum)
            time_ns += step
        queues.append(queue)
    if draw(st.booleans()):
        merged = sorted((datum for queue in queues for datum in queue), key=_time_ns)
    else:
        merged = []
        while queues := [queue for queue in queues if queue]:
            merged.append(queues[draw(st.integers(0, len(queues) - 1))].pop(0))
    for _ in range(draw(st.integers(0, 3))):
        merged.insert(draw(st.integers(0, len(merged))), draw(_odds()))
    return merged


def _time_ns(datum: Payload) -> int:
    return int(datum["time"])


def _odds() -> st.SearchStrategy[Payload]:
    name, state = st.sampled_from(NAMES), st.integers(0, len(STATES) - 1)
    return st.one_of(
        st.fixed_dictionaries({"entity": name, "description": st.sampled_from(["d", "e"])}),
        st.fixed_dictionaries({"time": st.just("5"), "entity": name, "event": st.just("woke")}),
        st.fixed_dictionaries(
            {"state": state, "tag": st.sampled_from("xyz"), "pid": st.integers(0, 9)}
        ),
    )


def opened(folder: Path, held: list[Payload], start_ns: int = 0, name: str = "f") -> History:
    file = folder / f"{name}.statemap"
    head = {
        "start": [start_ns // 10**9, start_ns % 10**9],
        "title": "t",
        "states": {state: {"value": value} for value, state in enumerate(STATES)},
    }
    file.write_text("\n".join(map(json.dumps, [head, *held])))
    return meantime.open(file)


def drawn(histories: list[History], options: StatemapOptions) -> list[dict[str, Any]]:
    maps: list[dict[str, Any]] = json.loads(document.render(build(histories, options)))["maps"]
    return maps


def expected_rows(shown: original.Map, order: list[str]) -> list[tuple[str, list[Any]]]:
    return [
        (
            name,
            [
                (
                    one.start_ns,
                    one.end_ns,
                    {STATES[state]: length_ns for state, length_ns in one.states.items()},
                    [(shown.tags[tag], length_ns) for tag, length_ns in one.tags.items()],
                )
                for one in shown.joined(name)
            ],
        )
        for name in order
    ]


def found_rows(shown: dict[str, Any], known: original.Map) -> list[tuple[str, list[Any]]]:
    return [
        (
            row["entity"],
            [
                (
                    one["start_ns"],
                    one["end_ns"],
                    one["states"],
                    [(shown["tags"][int(tag)], length) for tag, length in one["tags"].items()],
                )
                for one in row["rects"]
            ],
        )
        for row in shown["rows"]
        if row["entity"] in known.entities or row["rects"]
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("statemaps")


@settings(max_examples=250, deadline=None)
@given(payloads())
def test_all_of_a_file_is_drawn_as_by_the_original(folder: Path, held: list[Payload]) -> None:
    history = opened(folder, held)
    law = original.ingest(held)

    (shown,) = drawn([history], StatemapOptions())

    assert (shown["start_ns"], shown["end_ns"]) == (law.begin_ns, law.end_ns)
    assert [row["entity"] for row in shown["rows"]] == law.rows()
    assert found_rows(shown, law) == expected_rows(law, law.rows())
    assert [row["description"] for row in shown["rows"]] == [
        law.entities[name].description for name in law.rows()
    ]


@settings(max_examples=250, deadline=None)
@given(
    payloads(repeats=False),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from([True, False]),
)
def test_a_window_shows_what_it_does_in_the_original(
    folder: Path,
    held: list[Payload],
    begin_ns: int,
    length_ns: int,
    ignore_tags: bool,  # noqa: FBT001 - hypothesis passes it by name
) -> None:
    history = opened(folder, held)
    end_ns = begin_ns + length_ns
    options = StatemapOptions(begin_ns=begin_ns, end_ns=end_ns, ignore_tags=ignore_tags)
    law = original.ingest(held, begin_ns=begin_ns, end_ns=end_ns, ignore_tags=ignore_tags)

    (shown,) = drawn([history], options)

    if end_ns:
        assert (shown["start_ns"], shown["end_ns"]) == (begin_ns, end_ns)
    assert found_rows(shown, law) == expected_rows(law, law.rows())


@settings(max_examples=120, deadline=None)
@given(payloads(), st.sampled_from(STATES))
def test_rows_are_sorted_by_a_state_as_in_the_original(
    folder: Path, held: list[Payload], state: str
) -> None:
    history = opened(folder, held)
    law = original.ingest(held)

    (shown,) = drawn([history], StatemapOptions(sort_by=state))

    order = law.rows_by_state(STATES.index(state))
    assert [row["entity"] for row in shown["rows"]] == order
    assert found_rows(shown, law) == expected_rows(law, order)


@settings(max_examples=120, deadline=None)
@given(payloads(), st.sampled_from(NAMES))
def test_a_filter_that_is_a_name_shows_what_it_does_in_the_original(
    folder: Path, held: list[Payload], name: str
) -> None:
    data = [payload for payload in held if "description" not in payload]
    history = opened(folder, data)
    law = original.ingest(data, pattern=name)
    if name not in law.entities:
        return

    (shown,) = drawn([history], StatemapOptions(filter=name))

    assert found_rows(shown, law) == expected_rows(law, law.rows())
    ends = [one.end_ns for one in law.entities[name].rectangles]
    assert shown["end_ns"] >= max([law.end_ns, *ends])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(10**9, 10**9 + 60), payloads(repeats=False)), min_size=2, max_size=3
    ),
    st.integers(0, 30),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_stacked_files_show_the_first_ones_window(
    folder: Path,
    files: list[tuple[int, list[Payload]]],
    begin_ns: int,
    length_ns: int | None,
) -> None:
    histories = [opened(folder, held, start, f"f{n}") for n, (start, held) in enumerate(files)]
    end_ns = 0 if length_ns is None else begin_ns + length_ns
    laws = original.stack(files, begin_ns=begin_ns, end_ns=end_ns)
    if not end_ns and begin_ns > laws[0].end_ns:
        return

    maps = drawn(histories, StatemapOptions(begin_ns=begin_ns, end_ns=end_ns))

    first_start_ns = files[0][0]
    for (start_ns, _), law, shown in zip(files, laws, maps, strict=True):
        assert shown["start_ns"] == law.begin_ns
        assert shown["end_ns"] == maps[0]["end_ns"] + first_start_ns - start_ns
        assert found_rows(shown, law) == expected_rows(law, law.rows())
