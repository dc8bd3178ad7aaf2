"""Overviews against their definition: sums of wide bins are those of the history."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.history import HistoryBuilder, overview
from meantime.history.directory.check import check
from meantime.history.directory.open import open_history
from meantime.history.overview import Overview, RowMemory, coarse_segment
from meantime.history.sealed import SealedSegments
from meantime.history.store import Store
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history import History

NAMES = [f"name {index}" for index in range(100)]


@pytest.fixture(autouse=True)
def small_histories_have_overviews(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_most_bytes", lambda row_bytes: 100 * row_bytes)
    monkeypatch.setattr(overview, "_FEWEST_BINS", 0)
    monkeypatch.setattr(overview, "_MERGED", 3)
    monkeypatch.setattr("os.fsync", lambda _: None)


def put(
    builder: HistoryBuilder, seed: int, *, attributes: int, changes: int, states: int, late: bool
) -> None:
    """Put changes at times that may be equal or far apart, and an attribute with numbers."""
    random = np.random.default_rng(seed)
    steps = random.choice([0, 1, 7, 300, 2**20], changes, p=[0.1, 0.3, 0.3, 0.29, 0.01])
    time_ns = np.cumsum(steps) - 1000
    quark = random.integers(0, attributes, changes, dtype=np.int32)
    code = random.integers(-1, states, changes, dtype=np.int32)
    for number in range(attributes):
        builder.quark(str(number))
    tag = np.array([-1, builder.tag({"kind": 1})])[random.integers(0, 2, changes)]
    counter = builder.quark("counter")
    builder.modify_many(np.arange(50) - 2000, [counter] * 50, np.arange(50))
    # the attributes of one half come after all of the other half
    parts = [quark < attributes // 2, quark >= attributes // 2] if late else [quark >= 0]
    for part in parts:
        builder.modify_many(time_ns[part], quark[part], Coded(code[part], NAMES), tag[part])


def sealed(history: History) -> SealedSegments:
    segments = history._now().segments
    assert isinstance(segments, SealedSegments)
    return segments


def expected(history: History, quarks: list[int], edges_ns: list[int]) -> dict[str, list[int]]:
    """Return by name how long all attributes had it in each bin."""
    names: dict[str, list[int]] = {}
    inside = [min(max(edge_ns, history.start_ns), history.end_ns) for edge_ns in edges_ns]
    for part, (begin_ns, end_ns) in enumerate(pairwise(inside)):
        if begin_ns == end_ns:
            continue
        shares = history.shares(quarks, begin_ns, end_ns)
        for value, ns in zip(shares.value.to_list(), shares.ns.tolist(), strict=True):
            if value is not None:
                names.setdefault(str(value), [0] * (len(edges_ns) - 1))[part] += ns
    return names


def check_sums(history: History, level: int, quarks: list[int], data: st.DataObject) -> None:
    bin_ns = 1 << level
    start_ns = data.draw(st.integers(-(2**12), history.end_ns)) // bin_ns * bin_ns
    bins = data.draw(st.sampled_from([1, 2, 20]))
    tile = history.state_tile(quarks, start_ns, bin_ns, bins)
    names, ns = history.state_load(quarks, start_ns, bin_ns, bins)
    edges_ns = [start_ns + part * bin_ns for part in range(bins + 1)]
    segments = sealed(history)
    known, segments.overview = segments.overview, None

    without = history.state_tile(quarks, start_ns, bin_ns, bins)

    assert (tile.shares == without.shares).all()
    shown = [
        np.array([*each.states.to_list(), None], object)[each.codes] for each in (tile, without)
    ]
    has_some = tile.shares[:, :, 1:4] > 0
    assert (shown[0] == shown[1])[has_some].all()
    assert {name: row.tolist() for name, row in zip(names, ns, strict=True)} == expected(
        history, quarks, edges_ns
    )
    segments.overview = known


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.parametrize("kept", ["finished", "reopened", "growing", "resumed"])
@given(
    seed=st.integers(0, 2**32),
    attributes=st.sampled_from([2, 5, 40]),
    changes=st.sampled_from([1500, 3000]),
    states=st.sampled_from([1, 3, 100]),
    segment_changes=st.sampled_from([40, 150]),
    late=st.booleans(),
    most_bins=st.sampled_from([4, 64, 4096]),
    data=st.data(),
)
@settings(max_examples=10, deadline=None)
def test_sums_of_wide_bins_are_those_of_the_states(  # noqa: PLR0917 - drawn
    kept: str,
    seed: int,
    attributes: int,
    changes: int,
    states: int,
    segment_changes: int,
    late: bool,  # noqa: FBT001 - drawn
    most_bins: int,
    data: st.DataObject,
) -> None:
    defaults = (segment_changes,)
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(Store.__init__, "__defaults__", defaults),
        mock.patch.object(overview, "_MOST_BINS", most_bins),
    ):
        path = Path(name) / "x.mth"
        builder = HistoryBuilder(path)
        put(builder, seed, attributes=attributes, changes=changes, states=states, late=late)
        if kept == "resumed":
            builder.flush()
            builder.leave()
            builder = HistoryBuilder(path, resume=True)
        history = builder.history if kept == "growing" else builder.close()
        if kept == "reopened":
            check(path)
            history = open_history(path)
        quarks = list(range(attributes))
        known = sealed(history).overview
        if known is None:
            # late changes alter all segments before there is one again
            assert kept == "growing"
            assert late
            known = Overview(12, [])
        else:
            assert history.has_sums(quarks, 0, 1 << known.level, 4)
            assert not history.has_sums([*quarks, attributes], 0, 1 << known.level, 4)
        if kept != "growing":
            for segment in sealed(history).segments:
                segment.load()
            direct = coarse_segment(
                sealed(history).segments, history._now().kinds, known.level, RowMemory()
            )
            assert direct is not None
            # however the history grew
            assert direct.rows.tobytes() == known.segments[0].rows.tobytes()
        for wider in (0, data.draw(st.integers(0, 8))):
            check_sums(history, known.level + wider, quarks, data)
        if kept == "growing":
            builder.close()


@given(
    seed=st.integers(0, 2**32),
    states=st.sampled_from([1, 2, 9, 100]),
    level=st.integers(0, 24),
)
@settings(max_examples=40, deadline=None)
def test_an_overview_has_no_more_rows_and_the_states_at_the_edges(
    seed: int, states: int, level: int
) -> None:
    builder = HistoryBuilder()
    put(builder, seed, attributes=3, changes=400, states=states, late=False)
    history = builder.close()
    segments = sealed(history)

    made = coarse_segment(segments.segments, history._now().kinds, level, RowMemory())

    assert made is not None
    whole = segments.segments[0]
    lengths = [np.diff(each.sections["offsets"].astype(np.int64))[:3] for each in (made, whole)]
    assert (lengths[0] <= lengths[1]).all()
    coarse = SealedSegments([made], segments.start_ns, segments.end_ns)
    for edge_ns in whole_edges(segments, level):
        for quark in range(3):
            (*_, word, meta), (*_, coarse_word, coarse_meta) = (
                each.point(quark, edge_ns - 1) for each in (segments, coarse)
            )
            # without the tag
            assert (word, meta & 1) == (coarse_word, coarse_meta & 1)


def whole_edges(segments: SealedSegments, level: int) -> list[int]:
    """Return some 60 multiples of 2^level within a history."""
    first, last = segments.start_ns + 1, segments.end_ns
    step = max(1, (last - first) >> level >> 6)
    return [number << level for number in range(-(-first >> level), (last >> level) + 1, step)]


def built(path: Path) -> None:
    with mock.patch.object(Store.__init__, "__defaults__", (100,)):
        builder = HistoryBuilder(path)
        put(builder, 1, attributes=4, changes=2000, states=8, late=False)
        builder.close()


def test_a_history_without_its_overview_answers(folder: Path) -> None:
    path = folder / "x.mth"
    built(path)
    level = sealed(open_history(path)).overview
    assert level is not None
    tile = open_history(path).state_tile([0], 0, 1 << level.level, 8)
    (path / "overview").unlink()

    check(path)
    history = open_history(path)

    assert sealed(history).overview is None
    assert (history.state_tile([0], 0, 1 << level.level, 8).shares == tile.shares).all()


@pytest.mark.parametrize("offset", [3, 130, -100])
def test_a_damaged_overview_changes_no_answer_and_is_named(
    folder: Path, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "x.mth"
    built(path)
    known = sealed(open_history(path)).overview
    assert known is not None
    tile = open_history(path).state_tile([0], 0, 1 << known.level, 8)
    data = bytearray((path / "overview").read_bytes())
    data[offset] ^= 4
    (path / "overview").write_bytes(data)

    history = open_history(path)
    again = history.state_tile([0], 0, 1 << known.level, 8)

    assert (again.shares == tile.shares).all()
    assert str(path / "overview") in caplog.text
    with pytest.raises(InputError, match="overview"):
        check(path)


def test_an_overview_of_another_history_is_not_used(folder: Path) -> None:
    path, other = folder / "x.mth", folder / "y.mth"
    built(path)
    with mock.patch.object(Store.__init__, "__defaults__", (100,)):
        builder = HistoryBuilder(other)
        put(builder, 2, attributes=4, changes=2000, states=8, late=False)
        builder.close()
    (path / "overview").write_bytes((other / "overview").read_bytes())

    assert sealed(open_history(path)).overview is None
    with pytest.raises(InputError, match="overview"):
        check(path)


def test_a_lost_segment_is_not_shown_from_the_overview(folder: Path) -> None:
    path = folder / "x.mth"
    built(path)
    known = sealed(open_history(path)).overview
    assert known is not None
    lost = sorted((path / "segments").iterdir())[5]
    lost.unlink()

    history = open_history(path, lenient=True)
    (damage,) = history.damage
    bin_ns = 1 << known.level
    first_ns = -(-damage.start_ns // bin_ns) * bin_ns
    tile = history.state_tile([0, 1, 2, 3], first_ns, bin_ns, 1)

    assert first_ns + bin_ns <= damage.end_ns
    assert not history.has_sums([0], first_ns, bin_ns, 1)
    assert tile.shares[:, 0, 0].tolist() == [255] * 4
