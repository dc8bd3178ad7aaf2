"""Names, tags, types and metadata in the records of a history on disk, as JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

import numpy as np

from meantime.errors import UsageError
from meantime.history.directory.manifest import items_in, number_in, to_json
from meantime.history.directory.packed import (
    ascending_in,
    bytes_in,
    count_in,
    numbers_in,
    pack_ascending,
    pack_bytes,
    pack_numbers,
    pack_signed,
    signed_in,
)
from meantime.history.lanes import lane_of
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL
from meantime.kernels.tail import FLOAT
from meantime.kernels.varints import decoded
from meantime.model.anomalies import CATALOGUE
from meantime.model.clocks import Clock
from meantime.model.clocks import Kind as ClockKind

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue
    from meantime.history.extremes import Extremes
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "Cursor",
    "add_attributes",
    "apply_delta",
    "integers_in",
    "metadata_delta",
    "packed_extremes",
]


_MOST_QUARKS = 2**31 - 1
_First = TypeVar("_First")


class Cursor(NamedTuple):
    """How much of a catalogue's names and metadata was written."""

    attributes: int = 0
    strings: int = 0
    tags: int = 0
    kinds: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
    facts: bytes = b""


def metadata_delta(
    catalogue: Catalogue, kinds: npt.NDArray[np.uint8], cursor: Cursor
) -> tuple[dict[str, Any], Cursor]:
    """Return what is new since a cursor as a record, and the cursor after it."""
    record: dict[str, Any] = {}
    parents, codes, sizes, names = catalogue.attributes.columns(cursor.attributes)
    if len(parents):
        record["attributes"] = {
            "count": len(parents),
            "parents": pack_numbers(parents),
            "codes": pack_numbers(codes),
            "different": len(sizes),
            "sizes": pack_numbers(sizes),
            "names": pack_bytes(names),
        }
    if strings := catalogue.strings.names[cursor.strings :]:
        record["strings"] = strings
    if tags := catalogue.tag_log[cursor.tags :]:
        record["tags"] = tags
    before = np.zeros(len(kinds), np.uint8)
    before[: len(cursor.kinds)] = cursor.kinds
    if len(new := np.flatnonzero(kinds != before)):
        record["kinds"] = {
            "count": len(new),
            "quarks": pack_ascending(new),
            "kinds": pack_bytes(kinds[new].tobytes()),
        }
    facts = _facts(catalogue)
    text = to_json(facts)
    if text != cursor.facts:
        record["facts"] = facts
    return record, Cursor(
        cursor.attributes + len(parents),
        len(catalogue.strings.names),
        len(catalogue.tag_log),
        kinds,
        text,
    )


def apply_delta(
    catalogue: Catalogue, record: dict[str, Any], kinds: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    """Apply a record to a catalogue; return the attributes' types, updated from those before.

    Raises:
        ValueError: If the record is malformed.
    """
    if "attributes" in record:
        add_attributes(catalogue.attributes, record["attributes"])
    catalogue.strings.recall(items_in(record, "strings", str))
    for definition in items_in(record, "tags", list):
        tag, fields, key = definition
        ahead = len(catalogue.tags) + 2**20
        if type(tag) is not int or not 0 <= tag <= ahead or type(fields) is not dict:
            raise ValueError(f"a tag is {tag!r}")
        catalogue.recall_tag(tag, fields, key)
    known = kinds
    if "kinds" in record or len(kinds) < len(catalogue.attributes):
        # a copy, since a cursor has those before
        known = np.zeros(len(catalogue.attributes), np.uint8)
        known[: len(kinds)] = kinds
    if "kinds" in record:
        changed = _columns(record["kinds"], "kinds")
        values = bytes_in(changed, "kinds")
        if len(values) != count_in(changed):
            raise ValueError("the types of attributes are cut")
        if len(values) and int(values.max()) > FLOAT:
            raise ValueError("a type is unknown")
        known[ascending_in(changed, "quarks", len(known))] = values
    if "facts" in record:
        _recall_facts(catalogue, record["facts"])
    return known


def packed_extremes(extremes: Extremes) -> dict[str, Any]:
    """Return as a record the extremes of the attributes that have integers."""
    quarks = np.flatnonzero(extremes.low <= extremes.high)
    low, high = extremes.low[quarks], extremes.high[quarks]
    return {
        "count": len(quarks),
        "quarks": pack_ascending(quarks),
        "low": pack_signed(low),
        "above": pack_numbers(high.view(np.uint64) - low.view(np.uint64)),
    }


def integers_in(record: Any, quarks: int) -> tuple[Int32s, Int64s, Int64s]:
    """Return what `packed_extremes` wrote: which of so many attributes, the least, the greatest.

    Raises:
        ValueError: If they are malformed.
    """
    changed = _columns(record, "extremes")
    where, low = ascending_in(changed, "quarks", quarks), signed_in(changed, "low")
    high = (low.view(np.uint64) + numbers_in(changed, "above")).view(np.int64)
    if (high < low).any():
        raise ValueError("the greatest value of an attribute is less than its least")
    return where, low, high


def add_attributes(attributes: Attributes, record: Any) -> None:
    """Add the next attributes, as `metadata_delta` wrote them.

    Raises:
        ValueError: If they are malformed.
    """
    columns = _columns(record, "attributes")
    attributes.extend(
        numbers_in(columns, "parents"),
        numbers_in(columns, "codes"),
        decoded(bytes_in(columns, "sizes"), number_in(columns, "different", most=_MOST_QUARKS)),
        bytes_in(columns, "names").tobytes(),
    )


def _columns(columns: Any, name: str) -> dict[str, Any]:
    if not isinstance(columns, dict):
        raise ValueError(f"{name} are not columns")  # noqa: TRY004 - of a file, not an argument
    return columns


# Facts that came later than the others.
_LATER = {"found", "provenance", "sample_units", "samples_first"}


def _facts(catalogue: Catalogue) -> dict[str, Any]:
    return {name: fact.to_json(catalogue) for name, fact in _FACTS.items()}


def _recall_facts(catalogue: Catalogue, facts: Any) -> None:
    """Restore the facts that can be read; count the others, since views work without them."""
    unreadable = []
    for name, fact in _FACTS.items():
        try:
            if name in facts or name not in _LATER:
                fact.recall(catalogue, facts[name])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, UsageError):
            unreadable.append(name)
    if unreadable:
        import logging  # noqa: PLC0415 - 2 ms, for damaged files only

        logging.getLogger("meantime").warning(
            "facts of the history cannot be read: %s", ", ".join(unreadable)
        )
        if not catalogue.anomalies["unreadable_fact"]:
            catalogue.anomalies.add("unreadable_fact", len(unreadable))


def _number(number: Any, least: int = BEFORE_ALL, most: int = AFTER_ALL) -> int:
    if type(number) is not int or not least <= number <= most:
        raise ValueError(number)
    return number


def _text(text: Any) -> str:
    if type(text) is not str:
        raise ValueError(text)
    return text


def _optional(read: Callable[[Any], _First], value: Any) -> _First | None:
    return None if value is None else read(value)


def _range(pair: Any) -> tuple[int, int]:
    from_ns, to_ns = (_number(time_ns) for time_ns in pair)
    if not BEFORE_ALL < from_ns <= to_ns:
        raise ValueError(pair)
    return from_ns, to_ns


def _clock(clock: dict[str, Any]) -> Clock:
    return Clock(
        clock["kind"] if clock["kind"] in get_args(ClockKind) else "unknown",
        _optional(_text, clock["host"]),
        _optional(_text, clock["boot_id"]),
        _optional(_number, clock["utc_at_origin_ns"]),
        tuple((_number(time_ns), _number(utc_ns)) for time_ns, utc_ns in clock["anchors"]),
    )


def _by_quark(catalogue: Catalogue, pairs: Any, read: Callable[[Any], _First]) -> dict[int, _First]:
    last = len(catalogue.attributes) - 1
    return {_number(quark, 0, last): read(fact) for quark, fact in pairs}


def _counts(counts: dict[str, Any]) -> dict[str, int]:
    if not counts.keys() <= CATALOGUE.keys():
        raise ValueError(counts)
    return {name: _number(count, 0) for name, count in counts.items()}


def _texts(texts: dict[str, Any]) -> dict[str, str]:
    return {_text(name): _text(text) for name, text in texts.items()}


def _recall_anomalies(catalogue: Catalogue, counts: Any) -> None:
    for name, number in _counts(counts).items():
        catalogue.anomalies.add(name, number - catalogue.anomalies[name])


class _Fact(NamedTuple):
    """How a manifest has something of a catalogue: to JSON, and back, checked."""

    to_json: Callable[[Catalogue], Any]
    recall: Callable[[Catalogue, Any], None]


def _same(value: Any) -> Any:
    return value


def _field(
    name: str, read: Callable[[Any], Any], write: Callable[[Any], Any] = _same
) -> dict[str, _Fact]:
    """Return a field of the metadata."""
    return {
        name: _Fact(
            lambda catalogue: write(getattr(catalogue.metadata, name)),
            lambda catalogue, fact: catalogue.set_metadata(name, read(fact)),
        )
    }


def _field_by_quark(name: str, read: Callable[[Any], Any]) -> dict[str, _Fact]:
    """Return a field of the metadata that is keyed by quark: pairs, as keys are texts in JSON."""
    return {
        name: _Fact(
            lambda catalogue: list(getattr(catalogue.metadata, name).items()),
            lambda catalogue, fact: catalogue.set_metadata(name, _by_quark(catalogue, fact, read)),
        )
    }


def _recall_start(catalogue: Catalogue, time_ns: Any) -> None:
    catalogue.start_ns = _number(time_ns, BEFORE_ALL + 1, AFTER_ALL - 1)


def _recall_found(catalogue: Catalogue, counts: Any) -> None:
    catalogue.found = _counts(counts)


def _recall_provenance(catalogue: Catalogue, texts: Any) -> None:
    provenance = _texts(texts)
    records = _number(int(provenance.get("records", 0)), 0)
    catalogue.metadata = replace(catalogue.metadata, provenance=provenance, records=records)


_FACTS: dict[str, _Fact] = {
    "start_ns": _Fact(lambda catalogue: catalogue.start_ns, _recall_start),
    **_field("title", lambda fact: _optional(_text, fact)),
    **_field("bounds", lambda fact: _optional(_range, fact)),
    **_field("clock", _clock, asdict),
    **_field(
        "lanes",
        lambda lanes: [lane_of(**lane) for lane in lanes],
        lambda lanes: list(map(asdict, lanes)),
    ),
    **_field_by_quark("descriptions", _text),
    **_field_by_quark("names", _text),
    **_field_by_quark("sort_keys", _number),
    **_field("facts", _texts),
    **_field("sample_units", _texts),
    **_field("samples_first", lambda fact: fact is True),
    **_field("lost", lambda ranges: [_range(pair) for pair in ranges]),
    "anomalies": _Fact(lambda catalogue: dict(catalogue.metadata.anomalies), _recall_anomalies),
    "found": _Fact(lambda catalogue: catalogue.found, _recall_found),
    "provenance": _Fact(lambda catalogue: catalogue.metadata.provenance, _recall_provenance),
}
