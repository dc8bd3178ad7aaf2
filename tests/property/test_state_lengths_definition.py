"""The lengths of states as they are counted where they are kept, against the plain definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime import HistoryBuilder
from meantime.history import added_lengths, state_lengths
from meantime.history.sealed import SealedSegments
from meantime.history.source import Source
from meantime.history.store import Store
from meantime.model.durations import PERCENTS
from meantime.query import statistics
from meantime.query.duration_sums import SKETCH_ERROR
from meantime.query.statistics import state_quarks, state_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history import History
    from meantime.query.statistics import StatisticsRow

SIZES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "changes": st.sampled_from([0, 30, 1_500, 9_000]),
        "attributes": st.sampled_from([1, 3, 40]),
        "states": st.sampled_from([1, 5, 90]),
        "longest": st.sampled_from([2, 300, 10**6, 10**12]),
        "capacity": st.sampled_from([64, 1 << 20]),
    }
)


def history_of(  # noqa: PLR0917 - what is random of it
    seed: int,
    changes: int,
    attributes: int,
    states: int,
    longest: int,
    capacity: int,
    first: str = "state",
) -> History:
    """Return a random history; some states are none, replaced at once, or have a tag."""
    random = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store.__init__, "__defaults__", (capacity,))
        builder = HistoryBuilder()
    quarks = [builder.quark("row", str(number)) for number in range(attributes)]
    names = [first, *(f"state {number}" for number in range(states)), None]
    tags = [builder.tag({"cause": number}) for number in range(2)]
    lengths = (longest ** random.random(changes)).astype(np.int64)
    lengths[random.random(changes) < 0.1] = 0
    time_ns = np.cumsum(lengths)
    for row in range(changes):
        tag = int(random.integers(-20, 2))
        builder.modify(
            int(time_ns[row]),
            quarks[int(random.integers(attributes))],
            names[int(random.integers(len(names)))],
            **({"tag": tags[tag]} if tag >= 0 else {}),
        )
    return builder.close(int(time_ns[-1]) + 7 if changes else 1)


def lengths_of(history: History, range_ns: tuple[int, int]) -> dict[tuple[str, str], list[int]]:
    """Return by entity and state how long each of its states lasted, ascending."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in history.intervals(state_quarks(history), *range_ns, clip=True, states_only=True):
        entity = history.attributes.text(each.quark)
        found[entity, str(each.value)].append(each.end_ns - each.start_ns)
    return {key: sorted(lengths) for key, lengths in found.items()}


def figures(lengths: Sequence[int]) -> list[int]:
    quantiles = [lengths[-(-len(lengths) * percent // 100) - 1] for percent in PERCENTS]
    return [len(lengths), sum(lengths), *quantiles, lengths[0], lengths[-1]]


def figures_of(row: StatisticsRow) -> list[int]:
    return [row.count, row.total_ns, row.median_ns, row.p90_ns, row.p99_ns, row.min_ns, row.max_ns]


def by_state(lengths: dict[tuple[str, str], list[int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for (_, state), some in lengths.items():
        found[state] += some
    return {state: sorted(some) for state, some in found.items()}


def transitions(history: History, range_ns: tuple[int, int]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    before = None
    for each in history.intervals(state_quarks(history), *range_ns):
        follows = before is not None and before.quark == each.quark
        if before is not None and follows and None not in {before.value, each.value}:
            found[str(before.value), str(each.value)] += 1
        before = each
    return found


def check(history: History, range_ns: tuple[int, int]) -> None:
    lengths = lengths_of(history, range_ns)
    of_entities = state_statistics(history, by="entity", start_ns=range_ns[0], end_ns=range_ns[1])
    of_states = state_statistics(history, start_ns=range_ns[0], end_ns=range_ns[1])
    assert {(row.entity, row.key): figures_of(row) for row in of_entities.rows} == {
        key: figures(some) for key, some in lengths.items()
    }
    assert {row.key: figures_of(row) for row in of_states.rows} == {
        key: figures(some) for key, some in by_state(lengths).items()
    }
    for found in (of_entities, of_states):
        moves = {(row.before, row.after): row.times for row in found.transitions}
        assert moves == transitions(history, range_ns)
        powers = {
            state: Counter(max(each, 1).bit_length() - 1 for each in some)
            for state, some in by_state(lengths).items()
        }
        assert {
            state: {power: count for power, count in enumerate(counts) if count}
            for (_, state), counts in found.histograms.items()
        } == powers


@given(size=SIZES, part=st.tuples(st.floats(0, 1), st.floats(0, 1)), gathered=st.booleans())
@settings(max_examples=25)
def test_figures_are_those_of_the_intervals(
    size: dict[str, Any], part: tuple[float, float], *, gathered: bool
) -> None:
    history = history_of(**size)
    length = history.end_ns - history.start_ns
    low, high = sorted(history.start_ns + int(each * (length - 1)) for each in part)
    with pytest.MonkeyPatch.context() as patch:
        if gathered:
            # as of sources that have no rows of segments
            patch.setattr(SealedSegments, "lengths", Source.lengths)
        check(history, (history.start_ns, history.end_ns))
        check(history, (low, high + 1))


def near(found: list[int], expected: list[int]) -> bool:
    """Return whether quantiles are within the stated error, and all else is equal."""
    quantiles = slice(2, 2 + len(PERCENTS))
    pairs = zip(found[quantiles], expected[quantiles], strict=True)
    is_near = all(abs(one - other) <= other * SKETCH_ERROR for one, other in pairs)
    return is_near and found[:2] + found[-2:] == expected[:2] + expected[-2:]


@given(size=SIZES, parts=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=3))
@settings(max_examples=40)
def test_sums_that_segments_keep_change_no_figure(
    size: dict[str, Any], parts: list[tuple[float, float]]
) -> None:
    history = history_of(**size)
    length = history.end_ns - history.start_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(added_lengths, "_FEWEST_ROWS", 1)
        patch.setattr(added_lengths, "_RUN_ROWS", 0)
        patch.setattr(added_lengths, "_SEGMENT_BYTES", 0)
        check(history, (history.start_ns, history.end_ns))
        check(history, (history.start_ns, history.end_ns))
        for part in parts:
            low, high = sorted(history.start_ns + int(each * (length - 1)) for each in part)
            check(history, (low, high + 1))
            check(history, (low, history.end_ns))
    source = history._now().segments
    assert isinstance(source, SealedSegments)
    segments = source.segments
    if len(segments) > 3 and size["attributes"] > 1 and size["states"] < 64:
        assert any(segment.lengths for segment in segments)


@given(size=SIZES, other=SIZES)
@settings(max_examples=15)
def test_joined_histories_keep_their_sums_too(size: dict[str, Any], other: dict[str, Any]) -> None:
    # the codes of states differ
    hosts = [history_of(**size), history_of(**other, first="another state")]
    joined = meantime.join(hosts, ["a", "b"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(added_lengths, "_FEWEST_ROWS", 1)
        patch.setattr(added_lengths, "_RUN_ROWS", 0)
        patch.setattr(added_lengths, "_SEGMENT_BYTES", 0)
        for _ in range(2):
            check(joined, (joined.start_ns, joined.end_ns))


@given(size=SIZES, by=st.sampled_from(["state", "entity"]))
@settings(max_examples=25)
def test_estimates_are_within_their_error(
    size: dict[str, Any], by: Literal["state", "entity"]
) -> None:
    history = history_of(**size)
    exact = state_statistics(history, by=by)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_EXACT_ROWS", 0)
        found = meantime.stats(history, by)
        assert meantime.stats(history, by, exact=True) == exact
    expected = {(row.entity, row.key): figures_of(row) for row in exact.rows}
    assert {(row.entity, row.key) for row in found.rows} == expected.keys()
    assert all(near(figures_of(row), expected[row.entity, row.key]) for row in found.rows)
    assert found.transitions == exact.transitions
    if not found.is_sketch:
        assert found.rows == exact.rows


@given(size=SIZES, by=st.sampled_from(["state", "entity"]))
@settings(max_examples=25)
def test_what_is_kept_where_states_are_is_the_sketch_of_all_durations(
    size: dict[str, Any], by: Literal["state", "entity"]
) -> None:
    history = history_of(**size)
    kept = state_statistics(history, by=by, keep="sketch").durations
    with pytest.MonkeyPatch.context() as patch:
        # as of numbers: their intervals are gathered
        patch.setattr(state_lengths, "string_states", lambda *_: None)
        gathered = state_statistics(history, by=by, keep="sketch").durations
    assert kept is not None
    assert gathered is not None
    assert kept.keys == gathered.keys
    for name in ("offsets", "rows", "counts"):
        assert getattr(kept, name).tolist() == getattr(gathered, name).tolist()
