"""Which columns of a table are read, once those that there are are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.column_mapping import ColumnMapping
from meantime.errors import InputError
from meantime.input_path import GUESSED
from meantime.readers.table.guess import guess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.readers.table.guess import Guess
    from meantime.trace import Trace

__all__ = ["Chooser"]

_TEXTS = ("entity", "path", "state", "name")


class Chooser:
    """Decides which columns are read, once those that there are are known."""

    def __init__(self, trace: Trace, given: ColumnMapping | None) -> None:
        self._trace = trace
        self._given = given or ColumnMapping()
        self._chosen: ColumnMapping | None = None

    @property
    def table(self) -> str:
        """The table of a database that is asked for."""
        return self._given.table

    @property
    def mapping(self) -> ColumnMapping:
        """What was chosen."""
        assert self._chosen is not None
        return self._chosen

    def guess(self, names: Sequence[str], instants: Sequence[str] = ()) -> Guess:
        """Return which columns of a table would be read."""
        return guess(names, self._given, instants)

    def __call__(self, names: Sequence[str], instants: Sequence[str] = ()) -> dict[str, bool]:
        """Return the columns that are read, and whether each is a time.

        Raises:
            InputError: If that cannot be decided.
        """
        missing = [name for name in self._given.names if name not in names]
        if missing:
            raise InputError(
                self._trace.source,
                f"there is no column {missing[0]!r}; the columns are {', '.join(names)}",
            )
        guessed = self.guess(names, instants)
        if guessed.mapping is None:
            raise InputError(self._trace.source, guessed.problem)
        return self.choose(guessed.mapping, names)

    def has_all(self, names: Sequence[str]) -> bool:
        """Return whether a table has the columns that are asked for."""
        return set(self._given.names) <= set(names)

    def choose(self, mapping: ColumnMapping, names: Sequence[str]) -> dict[str, bool]:
        """Return the columns of a mapping, and whether each is a time."""
        self._chosen = mapping
        if mapping.is_guess:
            self._trace.facts[GUESSED] = mapping.text
        for name in mapping.names:
            if list(names).count(name) > 1:
                raise InputError(self._trace.source, f"the column {name} occurs twice")
        texts = {name for role in _TEXTS for name in mapping.columns.get(role, ())}
        return {name: name not in texts for name in mapping.names}
