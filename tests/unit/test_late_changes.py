from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.history import HistoryBuilder, late
from meantime.history.changes import Changes
from meantime.history.directory.open import open_history
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from meantime.history import History


def changes(times_ns: list[int], quarks: list[int] | None = None) -> Changes:
    rows = len(times_ns)
    return Changes(
        np.array(times_ns, np.int64),
        np.array(quarks or [0] * rows, np.int32),
        np.arange(rows, dtype=np.int64),
        np.zeros(rows, np.uint32),
    )


TIMES = st.lists(st.integers(-(2**63), 2**63 - 2) | st.integers(0, 40), max_size=60)


@given(st.lists(TIMES, min_size=1, max_size=3), st.integers(1, 7))
def test_pieces_tile_the_range_and_are_small_unless_it_is_one_instant(
    parts: list[list[int]], most: int
) -> None:
    every = [time_ns for part in parts for time_ns in part]
    first_ns, last_ns = min(every, default=0), max(every, default=0)

    pieces = [
        [time_ns for part in piece for time_ns in part.time_ns.tolist()]
        for piece in late.pieces([*map(changes, parts)], first_ns, last_ns + 1, most, None)
    ]

    assert sorted(every) == [time_ns for piece in pieces for time_ns in sorted(piece)]
    assert all(len(piece) <= most or len(set(piece)) == 1 for piece in pieces)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60))
def test_grouped_changes_are_by_quark_then_time_then_as_they_came(
    rows: list[tuple[int, int]],
) -> None:
    part = changes([time_ns for time_ns, _ in rows], [quark for _, quark in rows] or None)

    grouped = late.grouped([part], 4)

    order = sorted(range(len(rows)), key=lambda row: (rows[row][1], rows[row][0], row))
    assert grouped.word.tolist() == order


def built(path: Path | None, attributes: int) -> History:
    """Build attribute by attribute, so that nearly all changes come late."""
    builder = HistoryBuilder(path)
    builder.attributes.add_many(map(str, range(attributes)))
    random = np.random.default_rng(1)
    for quark in range(attributes):
        times_ns = np.sort(random.integers(0, 10**6, 5_000))
        codes = random.integers(0, 5, len(times_ns), dtype=np.int32)
        quarks = np.full(len(times_ns), quark, np.int32)
        builder.modify_many(times_ns, quarks, Coded(codes, list("abcde")))
        if path is not None and quark % 100 == 99:
            builder.flush()
    return builder.close()


def test_late_changes_beyond_the_memory_limit_wait_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spills = []
    spill = late.LateChanges.spill

    def counted(self: late.LateChanges, folder: Path) -> None:
        before = self._spilled
        spill(self, folder)
        if self._spilled != before:
            spills.append(self._spilled)

    monkeypatch.setattr(late, "SPILL_ROWS", 2**16)
    monkeypatch.setattr(late.LateChanges, "spill", counted)

    on_disk, in_memory = built(tmp_path / "x.mth", 400), built(None, 400)

    assert len(spills) > 1
    quarks = np.arange(400, dtype=np.int32)
    expected = in_memory.intervals(quarks)
    for history in (on_disk, open_history(tmp_path / "x.mth")):
        intervals = history.intervals(quarks)
        assert np.array_equal(intervals.quark, expected.quark)
        assert np.array_equal(intervals.start_ns, expected.start_ns)
        assert intervals.value.to_list() == expected.value.to_list()
    assert [path.name for path in (tmp_path / "x.mth").iterdir() if "log" in path.name] == []
