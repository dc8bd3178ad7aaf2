"""Which columns of a table are read, once those that there are are known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.model.column_mapping import ColumnMapping, halves
from meantime.model.columns import Coded
from meantime.model.input_path import GUESSED
from meantime.readers.table.guess import guess
from meantime.readers.table.times import TimeColumn, times_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.trace import Trace
    from meantime.readers.table.guess import Guess
    from meantime.readers.table.rows import Part

__all__ = ["Chooser"]

_TEXTS = ("entity", "path", "state", "name")
# Facts that are longer are not among the lines of `meantime info`.
_LONGEST_LISTING = 60
_IDENTIFIER = re.compile(
    r"(?i:(?:.*[ _.-])?(?:id|ids|pid|tid|uid|gid|ppid|cpu|line|lineno|row|index|port)"
    r"|year|month|day|#|no|nr)|.*[a-z]I[Dd]"
)


class Chooser:
    """Decides which columns are read, once those that there are are known.

    Attributes:
        counters: The columns of numbers that events have besides.
    """

    def __init__(self, trace: Trace, given: ColumnMapping | None) -> None:
        self._trace = trace
        self._given = given or ColumnMapping()
        self._chosen: ColumnMapping | None = None
        self._halves: dict[str, tuple[str, str]] = {}
        self.counters: list[str] = []

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

    def __call__(
        self, names: Sequence[str], instants: Sequence[str] = (), numbers: Sequence[str] = ()
    ) -> dict[str, bool]:
        """Return the columns that are read, and whether each is a time or a number.

        Args:
            names: The names of all columns.
            instants: Those whose type is a time.
            numbers: Those that have numbers only.

        Raises:
            InputError: If that cannot be decided.
        """
        missing = [
            name for name in self._given.names if name not in names and halves(name, names) is None
        ]
        if missing:
            raise InputError(
                self._trace.source,
                f"there is no column {missing[0]!r}; the columns are {', '.join(names)}",
            )
        guessed = self.guess(names, instants)
        if guessed.mapping is None:
            raise InputError(self._trace.source, guessed.problem)
        return self.choose(guessed.mapping, names, numbers)

    def has_all(self, names: Sequence[str]) -> bool:
        """Return whether a table has the columns that are asked for."""
        return all(name in names or halves(name, names) is not None for name in self._given.names)

    def choose(
        self, mapping: ColumnMapping, names: Sequence[str], numbers: Sequence[str] = ()
    ) -> dict[str, bool]:
        """Return the columns of a mapping, and whether each is a time or a number.

        Numbers of events are counters; the facts say which columns are not read.
        """
        self._chosen = mapping
        if mapping.is_guess:
            self._trace.facts[GUESSED] = mapping.text
        self._halves = {
            name: pair for name in mapping.names if (pair := halves(name, names)) is not None
        }
        joined = [half for pair in self._halves.values() for half in pair]
        texts = {name for role in _TEXTS for name in mapping.columns.get(role, ())} | {*joined}
        whole = [name for name in mapping.names if name not in self._halves]
        wanted = {name: name not in texts for name in dict.fromkeys(whole + joined)}
        self.counters = [
            name
            for name in numbers
            if name not in wanted and _is_of_events(mapping) and not _is_number_of(name)
        ]
        wanted |= dict.fromkeys(self.counters, True)
        for name in wanted:
            if list(names).count(name) > 1:
                raise InputError(self._trace.source, f"the column {name} occurs twice")
        if unread := [name for name in names if name not in wanted]:
            self._trace.facts["columns not read"] = _listed(unread)
        return wanted

    def joined(self, part: Part) -> Part:
        """Return some rows in which dates and times of two columns are one column."""
        if not self._halves:
            return part
        found = dict(part)
        for name, (date, time) in self._halves.items():
            days, clocks = part[date], part[time]
            assert isinstance(days, Coded)
            assert isinstance(clocks, Coded)
            found[name] = _joined(days, clocks)
        rest = {half for pair in self._halves.values() for half in pair} - {*self.mapping.names}
        return {name: column for name, column in found.items() if name not in rest}


def _listed(names: Sequence[str]) -> str:
    """Return as many of these names as fit into a line, and how many more there are.

    >>> _listed(["a", "b"]), _listed(["a" * 40, "b" * 30, "c"])
    ('a, b', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa and 2 more')
    """
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > _LONGEST_LISTING:
            break
        shown.append((name or "(empty)")[:_LONGEST_LISTING])
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _joined(days: Coded, clocks: Coded) -> TimeColumn:
    """Return the times of dates and times of the day, each pair parsed once."""
    size = len(clocks.names) + 1
    # null is -1
    both = (days.codes.astype(np.int64) + 1) * size + clocks.codes + 1
    used, which = np.unique(both, return_inverse=True)
    pairs = (divmod(each, size) for each in used.tolist())
    texts = [
        f"{days.names[day - 1] if day else ''} {clocks.names[clock - 1] if clock else ''}".strip()
        for day, clock in pairs
    ]
    column = times_of(texts)
    return TimeColumn(column.values[which], column.kinds[which])


def _is_of_events(mapping: ColumnMapping) -> bool:
    """Whether rows are events of a table that is not meantime's own."""
    return (
        "time" in mapping.columns
        and not mapping.columns.keys() & {"state", "start", "end"}
        and mapping.units.get("time") != "ns!"
    )


def _is_number_of(name: str) -> bool:
    """Whether the numbers of a column only distinguish things."""
    return _IDENTIFIER.fullmatch(name.strip()) is not None
