"""Histories whose clocks are unrelated, on one axis by the calls between their services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError
from meantime.history import build as build_history
from meantime.model.clocks import Clock
from meantime.model.units import format_ns
from meantime.query.aligning import Alignment
from meantime.query.aligning_histories import align_histories
from meantime.readers import open_trace
from meantime.readers.services import collect
from meantime.server.session import Session
from meantime.views.statemap.assembly import build
from meantime.views.statemap.captions import panel_title
from meantime.views.statemap.options import StatemapOptions

if TYPE_CHECKING:
    from pathlib import Path


_BASE_NS = 10**9
_SKEW_NS = 5_000_000


def _service(path: Path, name: str, spans: list[tuple[str, str, int, int, int]]) -> Path:
    """Write a trace of one service: the id, parent, call, begin and end of each span."""
    listed = [
        {
            "traceId": f"{call:032x}", "spanId": f"{call:015x}{id_}",
            "parentSpanId": above and f"{call:015x}{above}", "name": name,
            "kind": 3 if id_ == "1" else 2,
            "startTimeUnixNano": str(start), "endTimeUnixNano": str(end),
        }
        for id_, above, call, start, end in spans
    ]  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]}
    document = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": listed}]}]}
    (path / f"{name}.json").write_text(json.dumps(document))
    return path / f"{name}.json"


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return stored histories of two services of unknown clocks, and of one that calls neither."""
    monkeypatch.setattr(collect, "UTC", Clock())
    calls = [(call, _BASE_NS + call * 1000) for call in range(1, 30)]
    late = [(call, at + call + _SKEW_NS) for call, at in calls]
    traces = [
        _service(tmp_path, "web", [("1", "", call, at, at + 300) for call, at in calls]),
        _service(tmp_path, "db", [("2", "1", call, at + 20, at + 230) for call, at in late]),
        _service(tmp_path, "mail", [("2", "", call + 99, at, at + 9) for call, at in calls]),
    ]
    for trace in traces:
        build_history(open_trace(trace), trace.with_suffix(".mth"))
    return [trace.with_suffix(".mth") for trace in traces]


def test_the_same_calls_place_a_service_on_every_page(stores: list[Path]) -> None:
    web, db, mail = (meantime.open(path) for path in stores)
    _, found, other = align_histories([web, db, mail])
    said: list[str] = []

    assert (found.how, other.how) == ("messages", "start")
    assert found.error_ns is not None
    assert abs(found.offset_ns + _SKEW_NS) <= found.error_ns <= 50

    panels = build([web, db, mail]).panels
    session = Session([str(path) for path in stores])
    session.start()
    assert session.wait(600)
    files = session.document()["files"]
    heat = meantime.heatmap(stores[:2], period=10**9, by="host", notify=said.append)
    placed = meantime.heatmap(
        stores[:2], period=10**9, by="host", offsets={1: found.offset_ns}, notify=said.append
    )

    of_db = next(panel for panel in panels if panel.history == 1)
    assert of_db.offset_ns == found.offset_ns
    assert {panel.history: panel.aligned for panel in panels} == {0: True, 1: True, 2: False}
    title = panel_title(build([web, db]), of_db)
    assert title.endswith(f"by messages between hosts, within {found.error_ns}ns")
    assert [each["aligned"] for each in files] == ["first", "messages", "start"]
    assert files[1]["offset_ns"] == found.offset_ns
    assert b"".join(heat.render("json")) == b"".join(placed.render("json"))
    assert len(said) == 1
    assert said[0].endswith(f"by messages between hosts, within {found.error_ns}ns")
    facts = meantime.join([web, db, mail], ["web", "db", "mail"]).facts
    assert facts["aligned by messages"] == f"db (within {format_ns(found.error_ns or 0)})"
    assert facts["not aligned"] == "mail"


def test_an_input_without_messages_stays_unaligned_and_what_is_given_wins(
    stores: list[Path],
) -> None:
    web, db, mail = stores
    histories = [meantime.open(path) for path in (web, db)]

    with pytest.raises(InputError, match=r"mail\.mth: its clock cannot be aligned"):
        meantime.heatmap([web, db, mail])
    said: list[str] = []
    meantime.heatmap([web, db, mail], assume_aligned=True, notify=said.append)
    # messages relate the clock of one, and what is unrelated is taken as it is
    assert [each.partition(": ")[0] for each in said] == [str(db)]
    assert align_histories(histories, {1: 7})[1] == Alignment(7, "given", 0)
    panel = build(histories, StatemapOptions(offsets_ns={1: 7})).panels[-1]
    assert (panel.offset_ns, panel.alignment) == (7, "")
