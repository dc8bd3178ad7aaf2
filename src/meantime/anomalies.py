"""Named oddities in the input, counted. Nothing is dropped without being counted here."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CATALOGUE", "Anomalies", "Anomaly"]

Severity = Literal["note", "data_loss"]


class Anomaly(NamedTuple):
    """What an oddity is called, how bad it is, and what its reader should know or do."""

    name: str
    severity: Severity
    advice: str


CATALOGUE: dict[str, Anomaly] = {
    anomaly.name: anomaly
    for anomaly in (
        Anomaly(
            "truncated",
            "data_loss",
            "the input ends inside a record, which was left out; the tracer was probably killed",
        ),
        Anomaly(
            "bad_record",
            "data_loss",
            "records that could not be read were skipped; run without --lenient to see the first",
        ),
        Anomaly(
            "zero_length_state",
            "note",
            "an entity changed state twice at one time; the later state counts",
        ),
        Anomaly(
            "event_without_time",
            "data_loss",
            "events whose time is not a number cannot be drawn",
        ),
    )
}


class Anomalies:
    """A count per named oddity.

    >>> anomalies = Anomalies()
    >>> anomalies.add("truncated")
    >>> dict(anomalies)
    {'truncated': 1}
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        """Count an oddity of the catalogue `count` more times; 0 leaves no trace."""
        if name not in CATALOGUE:
            raise KeyError(f"{name!r} is not in the catalogue of anomalies")
        if count:
            self._counts[name] += count

    def update(self, other: Anomalies) -> None:
        """Add another count to this one."""
        self._counts.update(other._counts)

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._counts))

    def keys(self) -> list[str]:
        """Return the names counted at least once, sorted."""
        return sorted(self._counts)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __repr__(self) -> str:
        return f"Anomalies({dict(self)})"

    def lines(self) -> list[str]:
        """Return one sentence per oddity: how many, which, and what to know about it."""
        return [f"{self[name]:,} {name}: {CATALOGUE[name].advice}" for name in self]
