"""Recorded .spall traces, against what the traced program counted and timed itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.history.ingest import build
from meantime.query.durations import span_statistics
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name", ["threads-v1.spall.gz", "threads-v3.spall.gz", "threads-v1-long.spall.zst"]
)
def test_a_recording_agrees_with_the_programs_own_counts(recordings: Path, name: str) -> None:
    folder = recordings / "spall" / "recorded"
    truth = json.loads((folder / f"{name.partition('.')[0]}.gt.json").read_text())

    history = build(open_trace(folder / name))

    for tid, expected in truth["threads"].items():
        quark = history.quark("Processes", str(truth["pid"]), "Threads", tid)
        spans = history.spans([quark])
        statistics = span_statistics(history, quarks=[quark])
        left_open = int(np.count_nonzero(spans.unfinished))
        assert (len(spans), left_open) == (
            expected["begins"],
            expected["begins"] - expected["ends"],
        )
        assert int(spans.depth.max()) + 1 == expected["max_depth"]
        found = {
            key: {
                "calls": int(statistics.count[row]),
                "total_ns": int(statistics.total_ns[row]),
                "self_ns": int(statistics.self_ns[row]),
                "max_ns": int(statistics.max_ns[row]),
            }
            for row, key in enumerate(statistics.keys)
            if key in expected["names"]
        }
        if not left_open:
            assert found == expected["names"]
