"""One program, many runs: what is planted is found, in its name, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.testing import history_from_spans

if TYPE_CHECKING:
    from meantime.query.compare import Comparison, Summary

PARTS = {"parse": 100, "wait": 300, "query": 500, "render": 200}
RUNS, COMPARISONS = 60, 50


def run(seed: int, slower: float) -> Summary:
    """Return a run of a busy machine: its 200 calls vary by 10 %, and their mean by 1.2 % a run."""
    generator = np.random.default_rng(seed)
    spans, time_ns = [], 0
    for name, usual in PARTS.items():
        own = usual * generator.normal(1, 0.01) * (slower if name == "query" else 1)
        for length in own * generator.normal(1, 0.1, 200) * 1000:
            spans.append((name, time_ns, time_ns + max(1, round(length))))
            time_ns = spans[-1][2]
    return meantime.summarize(history_from_spans({"main": spans}))


@pytest.fixture(scope="module")
def usual() -> list[Summary]:
    return [run(seed, 1) for seed in range(RUNS)]


def compared(before: list[Summary], after: list[Summary], seed: int) -> Comparison:
    """Return the comparison of five runs of each side, which are chosen at random."""
    order = np.random.default_rng(seed).permutation(RUNS).tolist()
    sides = [before[at] for at in order[:5]], [after[at] for at in order[5:10]]
    return meantime.compare(*sides)


def test_unchanged_runs_rarely_differ_noticeably(usual: list[Summary]) -> None:
    found = [compared(usual, usual, seed) for seed in range(COMPARISONS)]

    assert sum(bool(each.changed) for each in found) <= COMPARISONS // 20


@pytest.mark.parametrize(("slower", "least"), [(1.05, 0.8), (1.2, 0.99)])
def test_what_is_planted_is_found_in_its_name(
    usual: list[Summary], slower: float, least: float
) -> None:
    planted = [run(1000 + seed, slower) for seed in range(RUNS)]
    rows = [
        {row.key for row in compared(usual, planted, seed).rows if row.is_noticeable}
        for seed in range(COMPARISONS)
    ]

    assert sum(("query",) in each for each in rows) >= least * COMPARISONS
    assert sum(bool(each - {("query",)}) for each in rows) <= COMPARISONS // 10


def test_sides_exchanged_give_the_opposite_table(usual: list[Summary]) -> None:
    planted = [run(1000 + seed, 1.2) for seed in range(5)]
    there, back = meantime.compare(usual[:5], planted), meantime.compare(planted, usual[:5])

    opposite = {row.key: row for row in back.rows}
    assert opposite.keys() == {row.key for row in there.rows}
    for row in there.rows:
        assert opposite[row.key].change == pytest.approx(-(row.change or 0))
        assert opposite[row.key].probability == row.probability
    (whole,) = there.wholes
    assert whole.change == pytest.approx(sum(row.change or 0 for row in there.rows))
