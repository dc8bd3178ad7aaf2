"""What a trace says about itself, from the reader to the history on disk."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import meantime
from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history
from meantime.history.ingest import build
from meantime.model.attributes import PathTable
from meantime.model.clocks import Clock
from meantime.model.metadata import LaneDeclaration, TraceMetadata
from meantime.model.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

FACTS: dict[str, Any] = {
    "recognised": "has lines with a date and a level",
    "clock": Clock("monotonic", "host", "boot", 5, ((0, 5),)),
    "title": "a title",
    "bounds": (0, 9),
    "lanes": [LaneDeclaration("*", entity_kind="CPU")],
    "descriptions": {1: "described"},
    "names": {1: "named"},
    "sort_keys": {0: 3, 1: 4},
    "facts": {"program": "x"},
    "sample_units": {"alloc": "bytes"},
    "samples_first": True,
    "lost": [(1, 2)],
    "records": 7,
}


def trace() -> Trace:
    made = Trace("x.log", "log", iter(()), paths=PathTable([("b", "c"), ("a",)]), **FACTS)
    made.anomalies.add("truncated", 2)
    return made


def by_name(metadata: TraceMetadata) -> dict[str, Any]:
    return {each.name: getattr(metadata, each.name) for each in fields(TraceMetadata)} | {
        "anomalies": dict(metadata.anomalies)
    }


def test_a_history_has_the_metadata_of_its_trace_with_entities_by_quark() -> None:
    history = build(trace())

    b_c, a = history.quark("b", "c"), history.quark("a")
    assert (b_c, a) != (0, 1)
    assert by_name(history.metadata) == {
        **FACTS,
        "source": "x.log",
        "format": "log",
        "descriptions": {a: "described"},
        "names": {a: "named"},
        "sort_keys": {b_c: 3, a: 4},
        "anomalies": {"truncated": 2},
        "provenance": {},
        "range_ns": None,
        "left_out": {},
    }


def test_all_metadata_but_the_input_s_name_and_format_are_kept_on_disk(tmp_path: Path) -> None:
    built = by_name(build(trace(), tmp_path / "x.mth").metadata)
    there = by_name(open_history(tmp_path / "x.mth").metadata)

    # the number of records is kept as a part of the provenance, which this trace has none of
    of_input = {"source": str(tmp_path / "x.mth"), "format": "history", "records": 0}
    of_input["recognised"] = ""
    assert there == built | of_input
    # a new field is to be tested too
    empty = by_name(TraceMetadata())
    of_a_part = ["range_ns", "left_out"]  # which is not stored
    assert [name for name in built if built[name] == empty[name]] == ["provenance", *of_a_part]


def test_the_number_of_records_is_known_of_a_history_built_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"ts": 1, "name": "a"}\n{"ts": 3, "name": "b"}\n')

    histories = [
        meantime.open(file),
        meantime.build(file),
        meantime.build(file, path=tmp_path / "x.mth"),
        meantime.open(tmp_path / "x.mth"),
    ]

    assert [history.metadata.records for history in histories] == [2, 2, 2, 2]
    assert [history.metadata.format for history in histories] == ["jsonl"] * 3 + ["history"]


def test_a_number_of_records_that_is_none_is_unreadable(tmp_path: Path) -> None:
    for number, records in enumerate(("many", "-1")):
        builder = HistoryBuilder(tmp_path / f"{number}.mth")
        builder.contents.catalogue.set_metadata("provenance", {"records": records})
        builder.close()

        history = open_history(tmp_path / f"{number}.mth")

        assert (history.provenance, history.metadata.records) == ({}, 0)
        assert dict(history.anomalies) == {"unreadable_fact": 1}
