"""Recorded statemap data, against what a separate script counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.trace import StateChanges
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_recorded_files_have_their_known_content(recordings: Path) -> None:
    truth = json.loads((recordings / "ground-truth.json").read_text())
    for name in ("block.statemap", "cpu-idle.statemap.gz", "pg-threads.statemap.gz"):
        facts = truth[f"statemap/recorded/{name}"]

        trace = open_trace(recordings / "statemap" / "recorded" / name)
        batches = [batch for batch in trace.batches if isinstance(batch, StateChanges)]

        time_ns = np.concatenate([batch.time_ns for batch in batches])
        entity = np.concatenate([batch.entity for batch in batches])
        state = np.concatenate([batch.state for batch in batches])
        tag = np.concatenate([batch.tag for batch in batches])
        order = np.lexsort((np.arange(len(time_ns)), time_ns, entity))
        last = np.append(np.diff(entity[order]) != 0, [True])
        after = np.append(time_ns[order][1:], [0])
        duration = np.where(last, facts["last_ns"], after) - time_ns[order]
        in_state = np.bincount(state[order], weights=duration)
        assert {str(i): int(ns) for i, ns in enumerate(in_state) if ns} == facts["ns_in_state_all"]
        assert len(time_ns) == facts["data"]
        assert len(trace.paths) == facts["entities"]
        assert int((tag >= 0).sum()) == facts["tagged_data"]
        assert trace.records == facts["payloads"] - 1
        assert trace.bounds == (0, facts["last_ns"])
        assert trace.title == facts["title"]
        assert {name: i for i, name in enumerate(trace.values)} == facts["states"]
