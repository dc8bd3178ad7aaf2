"""Event tables on disk of which damaged ones are left out."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from meantime.errors import InputError
from meantime.history.damage import Damage
from meantime.history.directory.stored_tables import StoredTables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history.catalogue import Catalogue
    from meantime.history.damage import DamageLog
    from meantime.history.results import Flows, Points
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable

__all__ = ["IntactTables"]

_TableT = TypeVar("_TableT")
# Without these there are no spans.
_SPANS = ("start_ns", "name")


class IntactTables:
    """The event tables in a file; those of which a column is damaged are empty.

    Spans are without categories, arguments or flags if only these are damaged, and numbered by
    their rows if their numbers are.

    Args:
        path: The file.
        closed: The last line of the manifest, which describes it.
        catalogue: Names of the history.
        damage: Receives what is damaged.
    """

    def __init__(
        self, path: Path, closed: dict[str, Any], catalogue: Catalogue, damage: DamageLog
    ) -> None:
        self._range_ns = closed["start_ns"], closed["end_ns"]
        self._damage = damage
        self._none = StoredTables(path, [], catalogue)
        self._stored = self._none
        try:
            self._stored = StoredTables(path, closed["tables"], catalogue, self._found)
        except InputError as error:
            self._found(error)

    def _found(self, error: InputError) -> None:
        self._damage.add(Damage(error.source, *self._range_ns, str(error), "table_damaged"))

    def _intact(self, read: Callable[[StoredTables], _TableT]) -> _TableT:
        try:
            return read(self._stored)
        except InputError as error:
            self._found(error)
            return read(self._none)

    @cached_property
    def points(self) -> Points:
        """The instants."""
        return self._intact(lambda tables: tables.points)

    @cached_property
    def flows(self) -> Flows:
        """The arrows."""
        return self._intact(lambda tables: tables.flows)

    @cached_property
    def samples(self) -> SampleTable:
        """The samples, and all their stacks."""
        return self._intact(lambda tables: tables.samples)

    @cached_property
    def spans(self) -> SpanTable:
        """The spans, whose times, places and names are read at once."""
        return self._intact(_spans)

    def within(self, start_ns: int | None, end_ns: int | None) -> IntactTables:
        """Return these tables."""
        del start_ns, end_ns
        return self


def _spans(tables: StoredTables) -> SpanTable:
    spans = tables.spans
    for name in _SPANS:
        getattr(spans, name)
    return spans
