from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import original_statemap as original
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import meantime
from meantime.kernels import coalesce
from meantime.views.statemap import StatemapOptions, build, document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from meantime.history import History

STATES = ["a", "b", "c"]
Payload = dict[str, Any]
Part = tuple[int, int, dict[int, int]]


@st.composite
def payloads(draw: st.DrawFn) -> list[Payload]:
    """Data in order of time, in shapes that are hard to merge well."""
    scale = draw(st.sampled_from([1, 7, 1000, 10**6]))
    step = draw(
        st.sampled_from(
            [st.integers(1, 40), st.just(5), st.sampled_from([1, 50]), st.integers(1, 3)]
        )
    )
    held: list[Payload] = []
    for entity in range(draw(st.integers(1, 4))):
        steps = draw(st.lists(step, min_size=1, max_size=30))
        states = draw(st.lists(st.integers(0, 2), min_size=len(steps), max_size=len(steps)))
        time_ns = draw(st.integers(0, 30)) * scale
        for length, state in zip(steps, states, strict=True):
            datum: Payload = {"time": str(time_ns), "entity": f"e{entity}", "state": state}
            if draw(st.sampled_from([True, False, False])):
                datum["tag"] = draw(st.sampled_from("xy"))
            held.append(datum)
            time_ns += length * scale
    return sorted(held, key=lambda datum: int(datum["time"]))


def opened(folder: Path, held: list[Payload]) -> History:
    file = folder / "f.statemap"
    states = {state: {"value": value} for value, state in enumerate(STATES)}
    head = {"start": [0, 0], "title": "t", "states": states}
    file.write_text("\n".join(map(json.dumps, [head, *held])))
    return meantime.open(file)


def drawn(history: History, coalesce: int) -> dict[str, Any]:
    options = StatemapOptions(coalesce=coalesce)
    shown: dict[str, Any] = json.loads(document.render(build([history], options)))["maps"][0]
    return shown


def parts_of(shown: dict[str, Any]) -> dict[str, list[Part]]:
    return {
        row["entity"]: [
            (
                one["start_ns"],
                one["end_ns"],
                {STATES.index(state): length for state, length in one["states"].items()},
            )
            for one in row["rects"]
        ]
        for row in shown["rows"]
    }


def parts_of_original(shown: original.Map) -> dict[str, list[Part]]:
    return {
        name: [(one.start_ns, one.end_ns, one.states) for one in entity.rectangles]
        for name, entity in shown.entities.items()
    }


def picture(parts: Iterable[Part], end_ns: int, width_px: int) -> np.ndarray[Any, Any]:
    """The share of each state in each pixel."""
    edges = np.linspace(0, end_ns, width_px + 1)
    shares = np.zeros((len(STATES), width_px))
    for start_ns, stop_ns, states in parts:
        covered = np.minimum(edges[1:], stop_ns) - np.maximum(edges[:-1], start_ns)
        for state, length in states.items():
            shares[state] += np.maximum(covered, 0) * length / (stop_ns - start_ns)
    return shares * width_px / end_ns


def error(
    found: dict[str, list[Part]], truth: dict[str, list[Part]], end_ns: int, width_px: int
) -> float:
    """The mean absolute error of the shares over all pixels."""
    return float(
        np.mean(
            [
                np.abs(picture(found[name], end_ns, width_px) - picture(parts, end_ns, width_px))
                for name, parts in truth.items()
            ]
        )
    )


def repeats(held: list[Payload]) -> bool:
    """Whether an entity changes to the state that it is in."""
    last: dict[str, tuple[object, object]] = {}
    for payload in held:
        if "time" in payload and "state" in payload:
            now = (payload["state"], payload.get("tag"))
            if last.get(payload["entity"]) == now:
                return True
            last[payload["entity"]] = now
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("statemaps")


@settings(max_examples=150, deadline=None)
@given(payloads(), st.integers(1, 60))
def test_with_as_many_rectangles_neither_picture_is_worse_than_the_originals(
    folder: Path, held: list[Payload], target: int
) -> None:
    # A change to the same state is none here but a rectangle of its own in the original, whose
    # merging it steers. A history does not keep it, so that merging cannot be known.
    assume(not repeats(held))
    rival = parts_of_original(original.ingest(held, target=target))
    law = original.ingest(held)
    count = sum(map(len, rival.values()))
    if not count:
        return

    shown = drawn(opened(folder, held), count)

    truth = parts_of_original(law)
    assert shown["rectangles"] <= count
    for width_px in (862, 8620):
        ours = error(parts_of(shown), truth, law.end_ns, width_px)
        assert ours <= error(rival, truth, law.end_ns, width_px) + 1e-9


@settings(max_examples=150, deadline=None)
@given(payloads(), st.integers(1, 60))
def test_merged_rectangles_add_up_to_their_states(
    folder: Path, held: list[Payload], coalesce: int
) -> None:
    history = opened(folder, held)
    whole = {row["entity"]: row["rects"] for row in drawn(history, 10**6)["rows"]}

    shown = drawn(history, coalesce)

    rows = sum(1 for rects in whole.values() if rects)
    assert sum(len(row["rects"]) for row in shown["rows"]) <= max(coalesce, rows)
    for row in shown["rows"]:
        single = whole[row["entity"]]
        edges = {one["start_ns"] for one in single} | {one["end_ns"] for one in single}
        for one in row["rects"]:
            stands_for = [
                part for part in single if one["start_ns"] <= part["start_ns"] < one["end_ns"]
            ]
            assert {one["start_ns"], one["end_ns"]} <= edges
            assert one["states"] == dict(_total(stands_for, "states"))
            assert one["tags"] == dict(_total(stands_for, "tags"))
            assert sum(one["states"].values()) == one["end_ns"] - one["start_ns"]
        assert [one["start_ns"] for one in row["rects"][1:]] == [
            one["end_ns"] for one in row["rects"][:-1]
        ]


@settings(max_examples=150, deadline=None)
@given(payloads(), st.integers(1, 60))
def test_short_states_are_merged_like_in_the_original(held: list[Payload], target: int) -> None:
    datum_at = {(one["entity"], one["time"]): place for place, one in enumerate(held)}
    single = sorted(
        (one.start_ns, entity.number, one.end_ns, datum_at.get((name, str(one.end_ns)), len(held)))
        for name, entity in original.ingest(held).entities.items()
        for one in entity.rectangles
    )
    start, row, end, closed_by = np.array(single, np.int64).reshape(-1, 4).T.copy()

    first = coalesce.merge_shortest(
        row.astype(np.int32),
        start,
        end,
        (closed_by == len(held)).astype(np.uint8),
        np.argsort(closed_by, kind="stable"),
        np.full(4, -1, np.int32),
        target,
    )

    kept = zip(start[first == 1].tolist(), row[first == 1].tolist(), strict=True)
    assert list(kept) == sorted(
        (one.start_ns, entity.number)
        for entity in original.ingest(held, target=target).entities.values()
        for one in entity.rectangles
    )


def _total(parts: list[dict[str, Any]], what: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part[what])
    return total


def test_long_and_short_states_are_distinguished_better_than_by_the_original(folder: Path) -> None:
    rng = np.random.default_rng(1)
    held: list[Payload] = []
    for entity in range(8):
        lengths = np.exp(rng.normal(8, 2, 300)).astype(int) + 1
        states = rng.integers(0, 3, 300)
        held += [
            {"time": str(time_ns), "entity": f"e{entity}", "state": int(state)}
            for time_ns, state in zip(np.cumsum(lengths).tolist(), states, strict=True)
        ]
    held.sort(key=lambda datum: int(datum["time"]))
    law = original.ingest(held)
    rival = parts_of_original(original.ingest(held, target=300))
    count = sum(map(len, rival.values()))

    shown = drawn(opened(folder, held), count)

    for width_px in (862, 8620):
        ours = error(parts_of(shown), parts_of_original(law), law.end_ns, width_px)
        theirs = error(rival, parts_of_original(law), law.end_ns, width_px)
        assert ours < 0.8 * theirs
