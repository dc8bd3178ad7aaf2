"""Comparing summaries gives what comparing the traces gives: quantiles within 0.4 %."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.query.compare.summary_file import encoded, read_summary
from meantime.query.duration_sums import SKETCH_ERROR
from meantime.testing import history_from_samples, history_from_spans

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.query.compare import Summary
    from meantime.query.compared_by import By

NAMES = st.sampled_from(["a", "b", "c"])
LENGTHS = st.integers(1, 10**7) | st.sampled_from([1, 2, 127, 128, 129, 2**40])
SKETCHED = ("median", "p90", "p99")
EXACT = ("total", "share", "count", "rate", "mean", "shortest", "longest")


@st.composite
def states(draw: st.DrawFn) -> History:
    """Return a history of some entities that go from state to state, some of them tagged."""
    builder = meantime.HistoryBuilder()
    for entity in range(draw(st.integers(1, 3))):
        quark = builder.quark("Disks", f"disk-{entity}")
        time_ns = 0
        for name, length in draw(st.lists(st.tuples(NAMES, LENGTHS), min_size=1, max_size=8)):
            tag = builder.tag({"file": name}) if length % 2 else None
            builder.modify(time_ns, quark, name, tag)
            time_ns += length
        builder.modify(time_ns, quark, None)
    builder.lanes("Disks/*")
    return builder.close(2**44)


@st.composite
def spans(draw: st.DrawFn) -> History:
    """Return a history of spans, some in others, of two threads."""
    threads: dict[str, Any] = {}
    for thread in ("main", "pool-1"):
        time_ns, rows = 0, []
        for name, length in draw(st.lists(st.tuples(NAMES, LENGTHS), min_size=1, max_size=8)):
            rows.append((name, time_ns, time_ns + length))
            if length > 4:
                rows.append(("inner", time_ns + 1, time_ns + 1 + length // 2))
            time_ns += length
        threads[thread] = rows
    return history_from_spans(threads)


@st.composite
def samples(draw: st.DrawFn) -> History:
    """Return a history of samples."""
    rows = draw(
        st.lists(
            st.tuples(st.lists(NAMES, min_size=1, max_size=4), st.integers(0, 10**6)), min_size=1
        )
    )
    return history_from_samples(
        [(at, "t", stack, weight) for at, (stack, weight) in enumerate(rows)]
    )


def stored(history: History, path: Any) -> Summary:
    path.write_bytes(encoded(meantime.summarize(history)))
    return read_summary(path)


def check(histories: list[History], path: Any, by: By, figures: tuple[str, ...]) -> None:
    summaries = [stored(each, path) for each in histories]
    for figure in figures:
        expected = meantime.compare(histories[:2], histories[2:], by=by, figure=figure)
        found = meantime.compare(summaries[:2], summaries[2:], by=by, figure=figure)
        mixed = meantime.compare(summaries[:2], histories[2:], by=by, figure=figure)
        rows = {row.key: row for row in expected.rows}
        error = SKETCH_ERROR if figure in SKETCHED else 1e-12
        for each in (found, mixed):
            assert each.figure == expected.figure
            assert {row.key for row in each.rows} == rows.keys()
            for row in each.rows:
                for side in ("runs_before", "runs_after"):
                    own, other = getattr(row, side), getattr(rows[row.key], side)
                    assert own == pytest.approx(other, rel=error, abs=0.5, nan_ok=True)
                assert (row.before is None, row.after is None) == (
                    rows[row.key].before is None,
                    rows[row.key].after is None,
                )
        if figure not in SKETCHED:
            assert [row.change for row in found.wholes] == pytest.approx(
                [row.change for row in expected.wholes]
            )


@pytest.mark.parametrize("by", ["state", "entity", "tag"])
@settings(max_examples=6, deadline=None)
@given(histories=st.lists(states(), min_size=4, max_size=4))
def test_of_states(
    tmp_path_factory: pytest.TempPathFactory, by: By, histories: list[History]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{by}.mts"
    check(histories, path, by, (*EXACT, *SKETCHED))


@pytest.mark.parametrize("by", ["name", "category", "thread", "lane"])
@settings(max_examples=6, deadline=None)
@given(histories=st.lists(spans(), min_size=4, max_size=4))
def test_of_spans(
    tmp_path_factory: pytest.TempPathFactory, by: By, histories: list[History]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{by}.mts"
    check(histories, path, by, ("self", *EXACT, *SKETCHED))


@pytest.mark.parametrize("by", ["name", "stack"])
@settings(max_examples=6, deadline=None)
@given(histories=st.lists(samples(), min_size=4, max_size=4))
def test_of_samples(
    tmp_path_factory: pytest.TempPathFactory, by: By, histories: list[History]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"samples-{by}.mts"
    check(histories, path, by, ("self", "total", "count", "share", "rate"))


@settings(max_examples=6, deadline=None)
@given(histories=st.lists(spans(), min_size=4, max_size=4))
def test_of_what_is_explained(
    tmp_path_factory: pytest.TempPathFactory, histories: list[History]
) -> None:
    path = tmp_path_factory.getbasetemp() / "explained.mts"
    check(histories, path, "budget", ("total", "share"))
    check(histories, path, "conclusion", ("share",))
