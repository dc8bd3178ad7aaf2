"""Maps of recordings whose periodic jobs logged when they ran."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.query.offsets import Choice, Fold, find, offset_map

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9


def test_the_map_is_the_one_that_another_program_made(recordings: Path) -> None:
    folder = recordings / "heatmap" / "recorded"
    history = meantime.open(folder / "beat-99hz-jobs-only.txt.gz")
    matrix = folder / "beat-99hz-jobs-only.flamescope-matrix.json.gz"
    theirs = json.loads(gzip.decompress(matrix.read_bytes()))
    # Its columns of 50 rows begin with the last one.
    expected = np.array(theirs["values"] if isinstance(theirs, dict) else theirs)[:, ::-1]

    found = offset_map(history, Fold(1609 * S, S, 50), Choice(), source="x")

    mine = found.grid(found.total)
    assert mine.sum() == expected.sum() == 15_078
    # FlameScope's times are in floating point: a sample on an edge may lie one row lower there.
    assert np.abs(np.cumsum(mine - expected, axis=1)).max() <= 2
    assert (mine != expected).mean() < 0.02


@pytest.mark.parametrize(
    ("file", "job", "period_s"),
    [
        ("beat-99hz-jobs-only.txt.gz", "tick1s", 1.0),
        ("beat-99hz-jobs-only.txt.gz", "tick2s", 2.0),
        ("beat-99hz-jobs-only.txt.gz", "batch5s", 5.0),
        ("beat-99hz-jobs-only.txt.gz", "drift1.1s", 1.1),
        ("beat3-99hz.txt.gz", "tick1s", 1.0),
        ("beat3-99hz.txt.gz", "drift1.1s", 1.1),
    ],
)
def test_the_periods_of_the_jobs_are_found(
    recordings: Path, file: str, job: str, period_s: float
) -> None:
    history = meantime.open(recordings / "heatmap" / "recorded" / file)
    fold = Fold(history.bounds[0] // S * S, S, 50)

    found = find(offset_map(history, fold, Choice(by="name"), source="x"))

    periods = [each.period_ns for each in found if each.kind == "period" and each.name == job]
    assert periods == [pytest.approx(period_s * S, rel=0.002)]
