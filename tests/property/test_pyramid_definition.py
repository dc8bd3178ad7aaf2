"""Pyramids against histories that have none: the answers are the same in every digit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.history import HistoryBuilder
from meantime.history.directory.pyramids import pack_pyramid
from meantime.history.pyramid import Pyramids, build_pyramid
from meantime.history.sealed import SealedSegments
from meantime.history.store import Store
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.history.shares import Shares

NAMES = [f"name {index}" for index in range(200)]


def built(seed: int, shape: str, changes: int, *, values: int) -> HistoryBuilder:
    """Return a builder with strings, integers and floats on two attributes each."""
    random = np.random.default_rng(seed)
    builder = HistoryBuilder()
    builder.contents.store = Store(builder.contents.refuse, 1500)
    step = {"near": 50_000, "far": 2**33}[shape]
    for kind in range(3):
        for _ in range(2):
            quark = np.full(changes, builder.quark(f"{len(builder.attributes)}"), np.int32)
            time_ns = np.cumsum(random.integers(1, step, changes))
            number = random.integers(-3, values, changes)
            if kind == 0:
                code = np.maximum(number, -1).astype(np.int32)
                builder.modify_many(time_ns, quark, Coded(code, NAMES))
            elif kind == 1:
                scale = random.choice([1, 2**40])
                builder.modify_many(time_ns, quark, number * scale)
                builder.modify(int(time_ns[-1]) + 1, int(quark[0]), None)
            else:
                odd = random.choice([0.5, 0.1, 1e280])
                builder.modify_many(time_ns, quark, number * odd)
    return builder


def sealed_of(history: History) -> SealedSegments:
    segments = history._now().segments
    assert isinstance(segments, SealedSegments)
    return segments


def pair(builder: HistoryBuilder) -> tuple[History, History]:
    """Return the same history with and without pyramids."""
    store = builder.contents.store.copy()
    bare = HistoryBuilder()
    bare.contents.catalogue = builder.contents.catalogue
    bare.contents.store = store
    plain, fast = bare.close(), builder.close()
    sealed_of(plain).pyramids = None
    pyramids = sealed_of(fast).pyramids
    assert pyramids is not None
    pyramids.read(2**60)
    return plain, fast


def rows(shares: Shares) -> list[object]:
    columns = (shares.quark, shares.bin, shares.ns, shares.changes_bin, shares.changes)
    return [*(column.tolist() for column in columns), list(map(repr, shares.value.to_list()))]


@given(
    st.integers(0, 2**32),
    st.sampled_from(["near", "far"]),
    st.sampled_from([1, 200, 2000, 6000]),
    st.sampled_from([2, 12, 60, 190]),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_a_pyramid_changes_no_answer(
    seed: int, shape: str, changes: int, values: int, data: st.DataObject
) -> None:
    plain, fast = pair(built(seed, shape, changes, values=values))
    quarks = list(plain.attributes)
    start_ns = data.draw(st.integers(plain.start_ns, plain.end_ns - 1))
    end_ns = data.draw(st.integers(start_ns + 1, plain.end_ns))
    bins = data.draw(st.sampled_from([1, 2, 7, 100]))

    for asked in (quarks, quarks[:2]):
        for range_ns in ((plain.start_ns, plain.end_ns), (start_ns, end_ns)):
            assert rows(fast.shares(asked, *range_ns, bins)) == rows(
                plain.shares(asked, *range_ns, bins)
            )
            assert rows(fast.dominant(asked, *range_ns, bins)) == rows(
                plain.dominant(asked, *range_ns, bins)
            )
    for quark in quarks[2:]:
        numbers = [i for i in plain.intervals([quark], start_ns, end_ns) if i.value is not None]
        values_met = [i.value for i in numbers if isinstance(i.value, int | float)]
        products = [
            i.value * (min(i.end_ns, end_ns) - max(i.start_ns, start_ns))
            for i in numbers
            if isinstance(i.value, int | float)
        ]
        assert repr(fast.maximum(quark, start_ns, end_ns)) == repr(max(values_met, default=None))
        assert repr(fast.minimum(quark, start_ns, end_ns)) == repr(min(values_met, default=None))
        average = fast.average(quark, start_ns, end_ns)
        if all(isinstance(product, int) for product in products):
            assert average == sum(products) / (end_ns - start_ns)
        else:
            exact = math.fsum(products) / (end_ns - start_ns)
            assert abs(average - exact) <= abs(exact) * 2.0**-40


@pytest.mark.parametrize("of_floats", [False, True])
def test_every_level_agrees_with_its_rows(of_floats: bool) -> None:  # noqa: FBT001 - a parameter
    random = np.random.default_rng(5)
    builder = HistoryBuilder()
    quark = builder.quark("a")
    integers = random.integers(-1000, 1000, 300_000)
    numbers = integers * 0.1 if of_floats else integers
    where = np.full(len(numbers), quark, np.int32)
    builder.modify_many(
        np.arange(len(numbers)), where, numbers.astype("f8") if of_floats else integers
    )
    _, fast = pair(builder)
    ranges = [sorted(random.choice(len(numbers), 2, replace=False).tolist()) for _ in range(30)]

    for start_ns, end_ns in [(0, len(numbers)), (64, 64 + 4096), *ranges]:
        part = numbers[start_ns:end_ns]
        assert fast.maximum(quark, start_ns, end_ns) == part.max()
        assert fast.minimum(quark, start_ns, end_ns) == part.min()
        mean = math.fsum(part.tolist()) / len(part)
        assert fast.average(quark, start_ns, end_ns) == pytest.approx(mean, rel=2**-40, abs=0)


@pytest.mark.parametrize("values", [4, 60, 190])
@pytest.mark.parametrize("shape", ["near", "far"])
def test_a_pyramid_takes_at_most_a_fifth_of_its_segment(shape: str, values: int) -> None:
    builder = built(1, shape, 5000, values=values)
    builder.close()
    kinds = builder.contents.kinds()

    sizes = [
        (sum(map(len, pack_pyramid(pyramid, 0))), segment.head.size_bytes())
        for segment in builder.contents.store.sealer.segments
        if (pyramid := build_pyramid(segment, kinds)) is not None
    ]

    assert sizes
    assert all(5 * size <= of for size, of in sizes)


def test_what_cancels_out_is_added_exactly() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    values = [1e300, 1.0, -1e300] * 300
    builder.modify_many(range(len(values)), [quark] * len(values), values)
    plain, fast = pair(builder)

    assert fast.average(quark, 0, len(values)) == 300 / len(values)
    assert plain.average(quark, 0, len(values)) == 300 / len(values)


def test_an_average_exists_although_the_sum_is_not_a_double() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.modify(0, quark, 1.5e308)
    builder.modify(1, quark, 1.0e308)
    history = builder.close(2)

    assert history.average(quark, 0, 2) == 1.25e308


def test_without_a_number_but_nan_the_greatest_is_nan() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    values = [math.nan, None] * 200
    builder.modify_many(range(400), [quark] * 400, values)
    builder.modify(400, quark, 7.5)
    _, fast = pair(builder)

    assert math.isnan(fast.maximum(quark, 0, 400) or 0)
    assert fast.maximum(quark, 0, 401) == 7.5
    assert math.isnan(fast.average(quark, 0, 401))


def test_pyramids_are_built_after_as_many_rows_were_read_as_building_costs() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.modify_many(range(5000), [quark] * 5000, list(range(5000)))
    history = builder.close()
    pyramids = sealed_of(history).pyramids
    assert isinstance(pyramids, Pyramids)
    before = history.size_bytes

    averages = {history.average(quark, 0, 5000) for _ in range(9)}

    assert averages == {4999 / 2}
    assert history.size_bytes > before


def test_a_pyramid_that_other_threads_may_be_reading_is_not_replaced() -> None:
    builder = built(1, "near", 2000, values=12)
    history = builder.close()
    sealed = sealed_of(history)
    assert sealed.pyramids is not None
    sealed.pyramids.read(2**60)
    size_bytes = sealed.searched.size_bytes
    kinds = np.array([1, 1, 2, 2, 3, 3], np.uint8)

    for index, segment in enumerate(sealed.segments):
        arrays = build_pyramid(segment, kinds)
        if arrays is not None:
            sealed.searched.attach(index, **arrays)

    assert sealed.searched.size_bytes == size_bytes


def test_sums_of_a_range_of_years_at_edges_of_a_nanosecond() -> None:
    builder = HistoryBuilder()
    builder.contents.store = Store(builder.contents.refuse, 1000)
    quark = builder.quark("a")
    times = np.linspace(1, 2**62, 5000).astype(np.int64)
    builder.modify_many(times, [quark] * 5000, np.arange(5000) % 3)
    plain, fast = pair(builder)

    # so many edges are possible that an overview with all would not fit into 64 bits
    for _ in range(3):
        for bins in (3, 63):
            assert rows(fast.shares([quark], 7, 2**62 - 12, bins)) == rows(
                plain.shares([quark], 7, 2**62 - 12, bins)
            )
