"""What a history on disk must say beside its changes: names, tags, types, facts; as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.clocks import Clock
from meantime.history.records import to_json
from meantime.trace import LaneDeclaration, State

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue

__all__ = ["Cursor", "apply", "since"]


class Cursor(NamedTuple):
    """How much of a catalogue's names and facts was written down."""

    attributes: int = 0
    strings: int = 0
    tags: int = 0
    kinds: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
    facts: bytes = b""


def since(
    catalogue: Catalogue, kinds: npt.NDArray[np.uint8], cursor: Cursor
) -> tuple[dict[str, Any], Cursor]:
    """Return what is new since a cursor as a record, and the cursor after it."""
    record: dict[str, Any] = {}
    parents, names = catalogue.attributes.rows(cursor.attributes)
    if names:
        record["attributes"] = [parents, names]
    if strings := catalogue.strings.names[cursor.strings :]:
        record["strings"] = strings
    if tags := catalogue.tag_log[cursor.tags :]:
        record["tags"] = tags
    before = np.zeros(len(kinds), np.uint8)
    before[: len(cursor.kinds)] = cursor.kinds
    if len(new := np.flatnonzero(kinds != before)):
        record["kinds"] = [new.tolist(), kinds[new].tolist()]
    facts = _facts(catalogue)
    text = to_json(facts)
    if text != cursor.facts:
        record["facts"] = facts
    return record, Cursor(
        cursor.attributes + len(names),
        len(catalogue.strings.names),
        len(catalogue.tag_log),
        kinds,
        text,
    )


def apply(
    catalogue: Catalogue, record: dict[str, Any], kinds: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    """Say to a catalogue what a record says; return the attributes' types, from those before."""
    if "attributes" in record:
        catalogue.attributes.add_rows(*record["attributes"])
    catalogue.strings.codes(record.get("strings", []))
    for tag, fields, key in record.get("tags", []):
        catalogue.recall_tag(tag, fields, key)
    known = np.zeros(len(catalogue.attributes), np.uint8)
    known[: len(kinds)] = kinds
    if "kinds" in record:
        quarks, values = record["kinds"]
        known[quarks] = values
    if "facts" in record:
        _recall_facts(catalogue, record["facts"])
    return known


def _facts(catalogue: Catalogue) -> dict[str, Any]:
    return {
        "start_ns": catalogue.start_ns,
        "title": catalogue.title,
        "bounds": catalogue.bounds,
        "clock": asdict(catalogue.clock),
        "lanes": [asdict(lane) for lane in catalogue.declarations],
        "descriptions": list(catalogue.descriptions.items()),
        "names": list(catalogue.names.items()),
        "sort_keys": list(catalogue.sort_keys.items()),
        "facts": catalogue.facts,
        "lost": catalogue.lost,
        "anomalies": dict(catalogue.anomalies),
        "found": catalogue.found,
        "provenance": catalogue.provenance,
    }


def _recall_facts(catalogue: Catalogue, facts: dict[str, Any]) -> None:
    clock = facts["clock"]
    anchors = tuple((time_ns, utc_ns) for time_ns, utc_ns in clock["anchors"])
    catalogue.clock = Clock(**{**clock, "anchors": anchors})
    catalogue.start_ns = facts["start_ns"]
    catalogue.title = facts["title"]
    catalogue.bounds = None if facts["bounds"] is None else (facts["bounds"][0], facts["bounds"][1])
    catalogue.declarations = [
        LaneDeclaration(**{**lane, "states": tuple(State(**state) for state in lane["states"])})
        for lane in facts["lanes"]
    ]
    catalogue.descriptions = dict(facts["descriptions"])
    catalogue.names = dict(facts["names"])
    catalogue.sort_keys = dict(facts["sort_keys"])
    catalogue.facts = facts["facts"]
    catalogue.provenance = facts.get("provenance", {})
    catalogue.lost = [(from_ns, to_ns) for from_ns, to_ns in facts["lost"]]
    catalogue.found = facts.get("found", {})
    for name, number in facts["anomalies"].items():
        catalogue.anomalies.add(name, number - catalogue.anomalies[name])
