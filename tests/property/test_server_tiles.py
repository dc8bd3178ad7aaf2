"""What is in a tile of short-lived entities or of a group equals the exact times, rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.history import HistoryBuilder
from meantime.history.ingest import build
from meantime.model.attribute_paths import thread_path
from meantime.model.trace import Spans, Trace
from meantime.server import tiles
from meantime.server.lanes import LaneTree
from meantime.server.tiles import BINS, Place, tile

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history import History

STATES = ("running", "runnable", "waiting", "spawned", "done")


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return a history of tasks, each of which lives once, below two sites, and of a loop."""
    builder = HistoryBuilder()
    builder.lanes("Tasks/*/*", label="Tasks", short_lived=True)
    builder.lanes("Loops/*", label="Tasks")
    changes: list[tuple[int, int, str | None]] = []
    for number in range(draw(st.integers(1, 6))):
        site = draw(st.sampled_from(["a (x.py:1)", "b"]))
        quark = builder.quark("Tasks", site, str(number))
        time_ns = draw(st.integers(0, 900))
        for state in draw(st.lists(st.sampled_from(STATES), min_size=1, max_size=5)):
            changes.append((time_ns, quark, state))
            time_ns += draw(st.integers(1, 200))
        changes.append((time_ns, quark, None))
    loop = builder.quark("Loops", "1")
    changes += [(time_ns, loop, draw(st.sampled_from(STATES))) for time_ns in range(0, 900, 300)]
    for time_ns, quark, value in sorted(changes, key=lambda each: each[0]):
        builder.modify(time_ns, quark, value)
    return builder.close(2048)


@settings(max_examples=15)
@given(histories(), st.integers(0, 5), st.integers(0, 2), st.sampled_from([4, -1]))
def test_tiles_are_the_exact_times_rounded(
    history: History, level: int, index: int, intervals: int
) -> None:
    tree = LaneTree.of(history)
    place = Place(level, index)
    width = place.bin_ns
    exact = np.zeros((len(history.attributes), BINS, len(STATES)))
    start_ns, end_ns = place.start_ns, min(place.end_ns, history.end_ns)
    if start_ns < end_ns:
        # the end of the history is the edge of a bin at all levels
        shares = history.shares(range(len(exact)), start_ns, end_ns, (end_ns - start_ns) // width)
        columns = (shares.quark.tolist(), shares.bin.tolist(), shares.value.to_list())
        for quark, bin_, value, ns in zip(*columns, shares.ns.tolist(), strict=True):
            if value is not None:
                exact[quark, bin_, STATES.index(str(value))] = ns

    (block,) = tree.blocks["packed"]
    found = tile(tree, "packed", 0, place)
    rows = np.zeros((block.row_offsets[-1], BINS, len(STATES)))
    known = np.array([STATES.index(name) for name in found.members["states"]], np.int64)
    row, bin_of = found.arrays["cell_row"], found.arrays["cell_bin"]
    for part in range(3):
        share = found.arrays["cell_shares"][:, part + 1]
        here = np.flatnonzero(share)
        state = known[found.arrays["cell_codes"][here, part]] if len(here) else []
        rows[row[here], bin_of[here], state] = share[here].astype(float) * width / 255
    expected = np.zeros_like(rows)
    np.add.at(expected, block.row, exact[block.quarks])
    # the three longest states of a cell have shares of their own
    top = expected >= np.sort(expected, axis=2)[:, :, -3:-2]
    assert (np.abs(rows - expected)[top & (rows > 0)] <= width / 255).all()
    assert ((rows > 0).sum(axis=2) == np.minimum((expected > 0).sum(axis=2), 3)).all()

    group = next(number for number, lane in enumerate(tree.lanes) if lane.kind == "group")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_INTERVALS_OF_A_BIN", intervals)
        load = tile(tree, "group", group, place)
    quarks = tree.quarks([group])
    of_group = dict(zip(load.members["states"], load.arrays["load"] * width, strict=True))
    for code, state in enumerate(STATES):
        times = exact[quarks, :, code].sum(axis=0)
        assert np.allclose(of_group.pop(state, 0), times, atol=width / 10_000)
    assert not of_group


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 9),
            st.sampled_from(["text", "other", "number"]),
            st.none() | st.integers(-2, 2),
        ),
        min_size=1,
    ),
    st.integers(1, 6),
    st.booleans(),
    st.booleans(),
)
def test_named_sums_are_those_of_the_rows(
    changes: list[tuple[int, str, int | None]],
    bins: int,
    has_many_names: bool,  # noqa: FBT001 - drawn
    has_numbers: bool,  # noqa: FBT001 - drawn
) -> None:
    builder = HistoryBuilder()
    for number in range(300 * has_many_names):
        builder.modify(0, builder.quark("names"), f"name {number}")
    quarks = [builder.quark(name) for name in ("text", "other", "number")[: 2 + has_numbers]]
    now_ns = 0
    for gap_ns, name, value in changes:
        now_ns += gap_ns
        is_text = name != "number" and value is not None
        builder.modify(now_ns, builder.quark(name), f"state{value}" if is_text else value)
    shares = builder.close(now_ns + 5).shares(quarks, bins=bins)

    names, ns = shares.named_sums()
    expected: dict[tuple[str, int], int] = {}
    for state, bin_, time_ns in zip(shares.value.to_list(), shares.bin, shares.ns, strict=True):
        if state is not None:
            expected[str(state), bin_] = expected.get((str(state), bin_), 0) + time_ns
    found = {(names[row], bin_): ns[row, bin_] for row, bin_ in zip(*np.nonzero(ns), strict=True)}
    assert found == expected
    assert len(names) == len(set(names)) == len({name for name, _ in found})


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 900), st.integers(0, 200), st.integers(0, 39)),
        min_size=1,
        max_size=60,
    ),
    st.integers(0, 4),
    st.integers(0, 1),
)
def test_a_group_of_spans_is_the_exact_time_of_the_outermost_ones(
    drawn: list[tuple[int, int, int, int]], level: int, index: int
) -> None:
    # one after the other in each thread, of which two are in a process
    rows = []
    ends: dict[int, int] = {}
    for thread, start_ns, length_ns, name in sorted(drawn, key=lambda row: row[1]):
        begin_ns = max(start_ns, ends.get(thread, 0))
        ends[thread] = begin_ns + length_ns
        rows.append((begin_ns, ends[thread], thread, name))
        if length_ns > 2:
            # inside of another, so it is not counted
            rows.append((begin_ns + 1, ends[thread] - 1, thread, name))
    columns = np.array(rows).T.copy()
    trace = Trace("spans", "list", iter(()))
    trace.paths.extend(thread_path(thread, thread // 2) for thread in range(4))
    trace.values = [f"name{name}" for name in range(40)]
    none = np.full(len(rows), -1, np.int32)
    trace.batches = iter(
        [
            Spans(
                columns[0],
                columns[1],
                columns[2].astype(np.int32),
                columns[3].astype(np.int32),
                none,
                none + 1,
                np.zeros(len(rows), np.uint8),
            )
        ]
    )
    tree = LaneTree.of(build(trace))
    place = Place(level, index)
    edges_ns = place.start_ns + np.arange(BINS + 1) * place.bin_ns

    for group in (number for number, lane in enumerate(tree.lanes) if lane.kind == "group"):
        found = tile(tree, "group", group, place)
        threads = {tree.lanes[lane].quark for lane in tree.below([group])}
        expected: dict[str, npt.NDArray[np.float64]] = {}
        spans = tree.history.spans()
        for row in np.flatnonzero(spans.parent < 0):
            if int(spans.thread[row]) not in threads:
                continue
            covered = np.minimum(spans.end_ns[row], edges_ns[1:])
            covered = np.maximum(covered - np.maximum(spans.start_ns[row], edges_ns[:-1]), 0)
            name = spans.name.names[spans.name.codes[row]]
            expected[name] = expected.get(name, np.zeros(BINS)) + covered
        load = dict(zip(found.members["states"], found.arrays["load"] * place.bin_ns, strict=True))
        rest = load.pop("", np.zeros(BINS))
        for name, covered in load.items():
            assert np.allclose(covered, expected.pop(name), rtol=1e-6)
        assert np.allclose(rest, sum(expected.values()), rtol=1e-6)
