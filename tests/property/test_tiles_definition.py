"""Shares and tiles against their definition: sums over the states that were put in."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history
from meantime.history.sealed import SealedSegments
from meantime.history.store import Store
from meantime.model.columns import Coded
from meantime.model.units import bin_edge
from meantime.testing import history_from_picture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from meantime.history import CounterTile, History, StateTile
    from meantime.model.columns import Value

NAMES = [f"name {index}" for index in range(100)]
SHAPES = ("text", "text of many", "small", "negative", "wide", "drifting", "float", "half", "none")


class States(NamedTuple):
    """The states of one attribute: the first is that since the history began."""

    time_ns: list[int]
    value: list[Value]


def generated(seed: int, shape: str, changes: int) -> tuple[list[int], list[Value]]:
    """Return times, some of which are equal or far apart, and values, some of which are None."""
    random = np.random.default_rng(seed)
    steps = random.choice([0, 1, 3, 50, 5000], changes, p=[0.01, 0.3, 0.3, 0.38, 0.01])
    if random.random() < 0.3:
        steps[random.integers(0, changes)] = 2**34
    time_ns = (np.cumsum(steps) + random.integers(0, 3)).tolist()
    number = random.integers(0, int(random.choice([2, 9, 60])), changes)
    null = random.random(changes) < random.choice([0.0, 0.2])
    made: Sequence[Value]
    if shape == "text":
        made = [NAMES[each] for each in number.tolist()]
    elif shape == "text of many":
        made = [NAMES[each] for each in random.integers(0, 100, changes).tolist()]
    elif shape == "negative":
        made = (number + np.int64(-(2**63))).tolist()
    elif shape == "wide":
        made = (number * 2**50).tolist()
    elif shape == "drifting":
        made = (np.arange(changes) // 10).tolist()
    elif shape == "float":
        made = (number * 0.5).tolist()
    elif shape == "half":
        made = [float(each) for each in number.tolist()]
    elif shape == "none":
        made = [None] * changes
    else:
        made = number.tolist()
    return time_ns, [None if gone else value for value, gone in zip(made, null, strict=True)]


def put(builder: HistoryBuilder, quark: int, time_ns: list[int], value: list[Value]) -> None:
    texts = {each: code for code, each in enumerate(NAMES)}
    if any(isinstance(each, str) for each in value):
        codes = [-1 if each is None else texts[str(each)] for each in value]
        builder.modify_many(
            time_ns, [quark] * len(time_ns), Coded(np.array(codes, np.int32), NAMES)
        )
    else:
        for time, each in zip(time_ns, value, strict=True):
            builder.modify(time, quark, each)


def states_of(time_ns: list[int], value: list[Value], start_ns: int) -> States:
    """Return what remains of changes: neither those that are replaced, nor those to the same."""
    states = States([start_ns], [None])
    for time, each in zip(time_ns, value, strict=True):
        if each == states.value[-1]:
            continue
        if time == states.time_ns[-1]:
            states.value[-1] = each
        else:
            states.time_ns.append(time)
            states.value.append(each)
    return states


def times_in(states: States, begin_ns: int, end_ns: int) -> dict[Value, int]:
    """Return how long each value lasted in a range."""
    times: dict[Value, int] = {}
    row = bisect_right(states.time_ns, begin_ns) - 1
    while begin_ns < end_ns:
        last = row + 1 == len(states.time_ns)
        until_ns = end_ns if last else min(end_ns, states.time_ns[row + 1])
        if until_ns > begin_ns:
            times[states.value[row]] = times.get(states.value[row], 0) + until_ns - begin_ns
        begin_ns = until_ns
        row += 1
    return times


def changes_in(states: States, begin_ns: int, end_ns: int) -> int:
    """Return how many states began in a range; no state since the history began is none."""
    since = int(states.value[0] is None)
    return bisect_left(states.time_ns, end_ns, since) - bisect_left(states.time_ns, begin_ns, since)


def order_of(value: Value, names: list[str]) -> tuple[int, float]:
    """Return a key for the order of rows: None, texts as they first came, numbers."""
    if value is None:
        return (0, 0)
    return (1, names.index(value) if isinstance(value, str) else value)


def forced(history: History) -> History:
    """Return a history that uses pyramids and totals from its first answer on."""
    sealed = history._now().segments
    assert isinstance(sealed, SealedSegments)
    if sealed.pyramids is not None:
        sealed.pyramids.use()
        sealed.pyramids.read(2**60)
    return history


@pytest.mark.parametrize("kept", ["memory", "growing", "disk", "growing on disk"])
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
    st.sampled_from([3, 300, 2500]),
    st.sampled_from([50, 400, 2000]),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_shares_and_tiles_are_what_the_states_say(  # noqa: PLR0917 - drawn
    kept: str,
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    shapes: list[str],
    changes: int,
    segment_changes: int,
    data: st.DataObject,
) -> None:
    path: Path | None = None
    if "disk" in kept:
        path = tmp_path_factory.mktemp("tiles") / "x.mth"
    default = Store.__init__.__defaults__
    Store.__init__.__defaults__ = (segment_changes,)
    try:
        builder = HistoryBuilder(path)
        expected = []
        for number, shape in enumerate(shapes):
            time_ns, value = generated(seed + number, shape, changes)
            put(builder, builder.quark(str(number)), time_ns, value)
            expected.append(states_of(time_ns, value, 0))
        # so that the history is not empty
        put(builder, builder.quark("last"), [10], [7])
        expected.append(states_of([10], [7], 0))
        if "growing" in kept:
            history = builder.history
            assert history.shares([0]).quark.tolist()[:1] == [0]
        elif path is not None:
            builder.close()
            history = open_history(path)
        else:
            history = builder.close()
        check(forced(history) if "growing" not in kept else history, expected, data)
        if "growing" in kept:
            builder.close()
    finally:
        Store.__init__.__defaults__ = default


def check(history: History, expected: list[States], data: st.DataObject) -> None:
    quarks = list(range(len(expected)))
    names = list(history._now().strings)
    start_ns = data.draw(st.integers(history.start_ns, history.end_ns - 1))
    end_ns = data.draw(st.integers(start_ns + 1, history.end_ns))
    few = st.sampled_from([1, 2, 7, 60])
    ranges = [
        (history.start_ns, history.end_ns, data.draw(few)),
        (start_ns, end_ns, data.draw(few)),
        aligned(history, data),
        aligned(history, data),
    ]
    # What a part leaves in memory, such as totals of its segments, must not be taken for the whole.
    for begin_ns, stop_ns, bins in data.draw(st.permutations(ranges)):
        shares = history.shares(quarks, begin_ns, stop_ns, bins)
        found: dict[tuple[int, int], list[tuple[Value, int]]] = {}
        for quark, part, value, ns in zip(
            shares.quark.tolist(),
            shares.bin.tolist(),
            shares.value.to_list(),
            shares.ns.tolist(),
            strict=True,
        ):
            found.setdefault((quark, part), []).append((value, ns))
        changes = dict(
            zip(
                zip(shares.changes_quark.tolist(), shares.changes_bin.tolist(), strict=True),
                shares.changes.tolist(),
                strict=True,
            )
        )
        longest = history.dominant(quarks, begin_ns, stop_ns, bins)
        most = dict(
            zip(
                zip(longest.quark.tolist(), longest.bin.tolist(), strict=True),
                zip(longest.value.to_list(), longest.ns.tolist(), strict=True),
                strict=True,
            )
        )
        for quark in quarks:
            for part in range(bins):
                edges = (bin_edge(begin_ns, stop_ns, bins, part + i) for i in range(2))
                begin_bin_ns, end_bin_ns = edges
                times = times_in(expected[quark], begin_bin_ns, end_bin_ns)
                changed = changes_in(expected[quark], begin_bin_ns, end_bin_ns)
                assert changes.get((quark, part), 0) == changed
                rows = sorted(times.items(), key=lambda row: order_of(row[0], names))
                assert found.get((quark, part), []) == rows
                if rows:
                    rows.sort(key=lambda row: (-row[1], row[0] is None))
                    assert most[quark, part] == rows[0]
    check_tiles(history, expected, data)


def aligned(history: History, data: st.DataObject) -> tuple[int, int, int]:
    """Return a range and bins that begin at multiples of a power of 2, of about all of it."""
    length_ns = history.end_ns - history.start_ns
    width_ns = 2 ** max(0, length_ns.bit_length() - data.draw(st.integers(0, 7)))
    begin_ns = -(-history.start_ns // width_ns) * width_ns
    bins = (history.end_ns - begin_ns) // width_ns
    if bins < 1:
        return history.start_ns, history.end_ns, 1
    return begin_ns, begin_ns + bins * width_ns, bins


def check_tiles(history: History, expected: list[States], data: st.DataObject) -> None:
    names = list(history._now().strings)
    quarks = list(range(len(expected)))
    bin_ns = 2 ** data.draw(st.integers(0, 40)) + data.draw(st.sampled_from([0, 0, 1]))
    bins = data.draw(st.sampled_from([1, 5, 40]))
    aligned_ns = data.draw(st.integers(-3 * bin_ns, history.end_ns)) // bin_ns * bin_ns
    tile = history.state_tile(quarks, aligned_ns, bin_ns, bins)
    counters = history.counter_tile(quarks, aligned_ns, bin_ns, bins)
    for quark in quarks:
        for part in range(bins):
            begin_ns = max(aligned_ns + part * bin_ns, history.start_ns)
            end_ns = min(aligned_ns + (part + 1) * bin_ns, history.end_ns)
            times = times_in(expected[quark], begin_ns, end_ns)
            times.pop(None, None)
            rows = sorted(times.items(), key=lambda row: (-row[1], order_of(row[0], names)))
            check_state_cell(tile, quark, part, rows)
            check_counter_cell(counters, quark, part, rows, end_ns - begin_ns)


def part_of(ns: int, width_ns: int) -> int:
    return max(1, ns * 255 // width_ns) if ns else 0


def check_state_cell(tile: StateTile, quark: int, part: int, rows: list[tuple[Value, int]]) -> None:
    width_ns = tile.bin_ns
    top = [ns for _, ns in rows[:3]] + [0] * (3 - len(rows[:3]))
    none = width_ns - sum(ns for _, ns in rows)
    assert tile.shares[quark, part].tolist() == [
        part_of(ns, width_ns) for ns in (none, *top, sum(ns for _, ns in rows[3:]))
    ]
    states = tile.states.to_list()
    shown = [states[code] for code in tile.codes[quark, part].tolist()[: len(rows[:3])]]
    assert shown == [value for value, _ in rows[:3]]


def check_counter_cell(
    tile: CounterTile, quark: int, part: int, rows: list[tuple[Value, int]], width_ns: int
) -> None:
    numbers = [(value, ns) for value, ns in rows if isinstance(value, int | float)]
    found = [float(column[quark, part]) for column in (tile.least, tile.greatest, tile.mean)]
    if not numbers:
        assert all(map(math.isnan, found))
        return
    values = [float(value) for value, _ in numbers]
    assert found[:2] == [min(values), max(values)]
    mean = sum(value * ns for value, ns in numbers) / width_ns
    assert found[2] == pytest.approx(mean, rel=2**-40, abs=0)


def test_sums_of_narrow_bins_are_not_used_for_a_bin_of_more_than_32_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store.__init__, "__defaults__", (50,))
    builder = HistoryBuilder(tmp_path / "x.mth")
    expected = []
    for number in range(3):
        time_ns, value = generated(number, "text", 2500)
        put(builder, builder.quark(str(number)), time_ns, value)
        expected.append(states_of(time_ns, value, 0))
    builder.close()
    history = forced(open_history(tmp_path / "x.mth"))
    start_ns, end_ns = history.bounds
    # these bins have 29 bits, and leave sums in memory that are modulo 2^32
    history.shares([0, 1, 2], start_ns, end_ns, 60)
    history.dominant([0, 1, 2], start_ns, end_ns, 60)

    shares = history.shares([0, 1, 2], start_ns, end_ns, 1)

    assert end_ns - start_ns > 2**32
    assert shares.ns.tolist() == [
        ns
        for states in expected
        for _, ns in sorted(
            times_in(states, start_ns, end_ns).items(),
            key=lambda row: order_of(row[0], list(history._now().strings)),
        )
    ]


def test_totals_of_a_part_are_not_taken_for_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With few attributes, so that all segments have pyramids and nothing has to read all of them.
    monkeypatch.setattr(Store.__init__, "__defaults__", (8000,))
    builder = HistoryBuilder(tmp_path / "x.mth")
    builder.attributes.add_many(["0", "1"])
    random = np.random.default_rng(1)
    changes = 60_000
    time_ns = np.cumsum(random.integers(1, 9, changes))
    code = random.integers(0, 4, changes, dtype=np.int32)
    quark = random.integers(0, 2, changes, dtype=np.int32)
    builder.modify_many(time_ns, quark, Coded(code, NAMES))
    end_ns = builder.close().end_ns
    expected = open_history(tmp_path / "x.mth").shares([0, 1], 0).ns.tolist()

    history = open_history(tmp_path / "x.mth")
    history.shares([0, 1], end_ns // 4, end_ns * 3 // 4, bins=1)

    assert sum(expected) == 2 * (end_ns - history.start_ns)
    assert history.shares([0, 1], history.start_ns).ns.tolist() == expected


@pytest.mark.parametrize("step_ns", [9, 2**21, 2**26])
@pytest.mark.parametrize("shape", ["text", "number"])
def test_cells_of_many_changes_are_what_the_states_say(
    step_ns: int, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Segments of less than 2^32 ns, and longer ones, whose sums take 64 bits.
    monkeypatch.setattr(Store.__init__, "__defaults__", (4000,))
    builder = HistoryBuilder()
    random = np.random.default_rng(2)
    time_ns = np.cumsum(random.integers(1, step_ns, 20_000)) - 2**30
    code = random.integers(0, 5, len(time_ns), dtype=np.int32)
    numbers = shape == "number"
    values = code.astype(np.int64) - 2 if numbers else Coded(code, NAMES)
    builder.modify_many(time_ns, [builder.quark("a")] * len(time_ns), values)
    history = forced(builder.close())
    states = states_of(
        time_ns.tolist(),
        (code - 2).tolist() if numbers else [NAMES[each] for each in code.tolist()],
        history.start_ns,
    )

    for bins in (1, 9, 50):
        shares = history.shares([0], bins=bins)
        assert shares.changes.sum() == changes_in(states, history.start_ns, history.end_ns)
        for part in range(0, bins, 7):
            edges = [bin_edge(history.start_ns, history.end_ns, bins, part + i) for i in range(2)]
            assert shares.cell(0, part) == times_in(states, edges[0], edges[1])

    # From sums at multiples of a power of 2.
    size_bytes = history.size_bytes
    for exponent in (6, 8, 7):
        width_ns = 2 ** ((history.end_ns - history.start_ns).bit_length() - exponent)
        begin_ns = -(-history.start_ns // width_ns) * width_ns
        bins = (history.end_ns - begin_ns) // width_ns
        range_ns = begin_ns, begin_ns + bins * width_ns
        shares = history.shares([0], *range_ns, bins)
        longest = history.dominant([0], *range_ns, bins)
        assert longest.ns.tolist() == shares.dominant.ns.tolist()
        assert longest.value.to_list() == shares.dominant.value.to_list()
        assert shares.changes.sum() == changes_in(states, *range_ns)
        for part in range(0, bins, 7):
            edges = [begin_ns + (part + i) * width_ns for i in range(2)]
            assert shares.cell(0, part) == times_in(states, edges[0], edges[1])
    assert history.size_bytes > size_bytes

    # These sums serve other bins too.
    for bins in (50, 300, 77):
        shares = history.shares([0], bins=bins)
        assert shares.changes.sum() == changes_in(states, history.start_ns, history.end_ns)
        for part in range(0, bins, 3):
            edges = [bin_edge(history.start_ns, history.end_ns, bins, part + i) for i in range(2)]
            assert shares.cell(0, part) == times_in(states, edges[0], edges[1])


def test_a_tile_of_what_is_outside_has_no_state() -> None:
    history = history_from_picture("a  xy")

    for start_ns in (-(2**63), -10, 2, 2**63 - 1):
        tile = history.state_tile([0], start_ns, 2, 4)
        assert tile.shares[0].tolist() == [[255, 0, 0, 0, 0]] * 4
        assert len(tile.states) == 0


def test_more_states_than_a_byte_counts_have_wider_codes() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    for number, many in enumerate((256, 257, 2**16 + 1)):
        each = builder.quark(str(number))
        builder.modify_many(range(many), [each] * many, list(range(many)))
    history = builder.close()
    assert quark == 0

    for each, width in ((1, 1), (2, 2), (3, 4)):
        tile = history.state_tile([each], 0, 1, history.end_ns)
        assert tile.codes.itemsize == width
        assert [tile.states[code] for code in tile.codes[0, :256, 0].tolist()] == list(range(256))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 0, 1), "bin_ns is 0"), ((0, 2**63, 1), "bin_ns is"), ((0, 1, 0), "bins is 0")],
)
def test_a_tile_without_bins_is_rejected(arguments: tuple[int, int, int], message: str) -> None:
    history = history_from_picture("a  xy")

    with pytest.raises(ValueError, match=message):
        history.state_tile([0], *arguments)
    with pytest.raises(ValueError, match=message):
        history.counter_tile([0], *arguments)
