"""What the detectors look at: a range of a history, and what several of them need of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from meantime.model.attributes import ROOT, entity_name
from meantime.model.columns import Coded, distinct, named
from meantime.query.parts import extent_of
from meantime.query.sites import sites_of, tasks_by_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.results import Intervals
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.extent import Extent
    from meantime.query.ranges import Range

T = TypeVar("T")

__all__ = ["Kind", "Scope", "StateRows", "chosen", "joined"]

# Beyond this many intervals of a kind of entity, only those that fill bins are looked at.
_MOST_INTERVALS = 2**20
# What tasks of a recording wait for, and how full its loops are, their short states say as well.
_MOST_OF_RECORDED, _RECORDED = 2**22, {"Task", "Loop"}
# How many cells, of an attribute and a bin, are computed to find them.
_MOST_CELLS = 2**20
_MOST_BINS = 2**12
# How many of the intervals that fill bins are looked up.
_MOST_LOOKED_UP = 2**12


class Kind(NamedTuple):
    """A kind of entity with states: a lane of the history.

    Attributes:
        name: The name of the lane.
        entity_kind: What its entities are, such as `Task`; empty if the trace does not say.
        short_lived: Whether its entities come and go.
        quarks: Its entities.
    """

    name: str
    entity_kind: str
    short_lived: bool
    quarks: Int32s


class StateRows(NamedTuple):
    """States of entities, clipped to the range, by entity (ascending) and in order of time.

    Attributes:
        quark: The entity of each.
        start_ns: Where it begins.
        end_ns: Where it ends.
        state: Index into `names`; no state has no row.
        tag: Index into the tags of the history, or -1.
        names: The names of the states.
    """

    quark: Int32s
    start_ns: Int64s
    end_ns: Int64s
    state: Int32s
    tag: Int32s
    names: Sequence[str]

    @property
    def duration_ns(self) -> Int64s:
        """How long each lasted."""
        return self.end_ns - self.start_ns

    def codes(self, wanted: set[str]) -> list[int]:
        """Return the codes of these states."""
        return [code for code, name in enumerate(self.names) if name in wanted]

    def named_alike(self, alike: Mapping[str, str]) -> StateRows:
        """Return the rows with some states replaced by others."""
        table = {name: code for code, name in enumerate(self.names)}
        codes = [table.setdefault(alike.get(name, name), len(table)) for name in self.names]
        state = np.array([*codes, 0], np.int32)[self.state]
        return self._replace(state=state, names=list(table))

    def merged(self) -> StateRows:
        """Return the rows, those of one state that touch as one, with the tag of the first."""
        if not len(self.quark):
            return self
        begins = np.append(
            True,
            (self.quark[1:] != self.quark[:-1])
            | (self.state[1:] != self.state[:-1])
            | (self.start_ns[1:] != self.end_ns[:-1]),
        )
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(begins)) - 1
        return StateRows(
            self.quark[first],
            self.start_ns[first],
            self.end_ns[last],
            self.state[first],
            self.tag[first],
            self.names,
        )


def joined(parts: Sequence[StateRows]) -> StateRows:
    """Return the rows of several parts, at least one, by entity and in order of time."""
    table: dict[str, int] = {}
    states = []
    for part in parts:
        codes = [table.setdefault(name, len(table)) for name in part.names]
        states.append(np.array([*codes, 0], np.int32)[part.state])
    quark = np.concatenate([part.quark for part in parts])
    start_ns = np.concatenate([part.start_ns for part in parts])
    rows = StateRows(
        quark,
        start_ns,
        np.concatenate([part.end_ns for part in parts]),
        np.concatenate(states),
        np.concatenate([part.tag for part in parts]),
        list(table),
    )
    return chosen(rows, np.lexsort((start_ns, quark)))


def chosen(rows: StateRows, which: npt.NDArray[np.bool_] | Int64s) -> StateRows:
    """Return some of the rows."""
    quark, start_ns, end_ns, state, tag, names = rows
    return StateRows(quark[which], start_ns[which], end_ns[which], state[which], tag[which], names)


class Scope:
    """A range of a history.

    Args:
        history: The history.
        range_ns: The range, in the history.
        whole: Of a host of a joined history, the extent of the whole, and what to add to times of
            the host.
    """

    def __init__(
        self, history: History, range_ns: Range, whole: tuple[Extent, int] | None = None
    ) -> None:
        self.history = history
        self.start_ns: int
        self.end_ns: int
        self.start_ns, self.end_ns = range_ns
        self._whole, self._offset_ns = whole or (extent_of(history), 0)
        self._rows: dict[tuple[str, str, bool], StateRows | None] = {}
        self._changes: dict[tuple[str, str, bool], int] = {}
        self._filling: dict[tuple[str, str, bool, int], StateRows] = {}
        self._once: dict[str, Any] = {}

    def once(self, key: str, make: Callable[[], T]) -> T:
        """Return what several detectors need, made for the first of them."""
        if key not in self._once:
            self._once[key] = make()
        found: T = self._once[key]
        return found

    @property
    def length_ns(self) -> int:
        """The length of the range."""
        return self.end_ns - self.start_ns

    @property
    def least_ns(self) -> int:
        """The shortest time that is worth a finding: a thousandth of the range, at most 10 ms."""
        return max(1, min(self.length_ns // 1000, 10**7))

    def name(self, quark: int) -> str:
        """Return the name of an entity: that in the trace, or from its path."""
        known = self.history.names.get(quark)
        return known or entity_name(self.history.attributes.path(quark))

    def called(self, quark: int, kind: Kind) -> str:
        """Return the name of an entity; a number with what it is, such as `CPU 0`."""
        name = self.name(quark)
        return f"{kind.entity_kind} {name}" if name.isdecimal() and kind.entity_kind else name

    def path(self, quark: int) -> str:
        """Return the path of an attribute as text, which commands accept."""
        return self.history.attributes.text(quark)

    def site(self, quark: int) -> str:
        """Return where a task was created, or the route of a request; its name if it has none."""
        path = self.history.attributes.path(quark)
        if len(path) > 1:
            return path[-2]
        return self._sites.get(quark, "") or path[-1]

    def sites(self, quarks: Int32s) -> Coded:
        """Return where many tasks were created, as `site` does."""
        above, code = np.unique(self.history.attributes.parents(quarks), return_inverse=True)
        codes = code.reshape(-1).astype(np.int32)
        names = self.history.attributes.names(above[above != ROOT].tolist())
        if not len(above) or above[0] != ROOT:
            return Coded(codes, names)
        top = np.flatnonzero(codes == 0)
        table = {name: number for number, name in enumerate(["", *names])}
        codes[top] = [
            table.setdefault(self.site(quark), len(table)) for quark in quarks[top].tolist()
        ]
        return Coded(codes, list(table))

    @cached_property
    def _sites(self) -> dict[int, str]:
        """Where tasks were created whose paths do not say it."""
        quarks = tasks_by_tag(self.history)
        return dict(zip(quarks.tolist(), sites_of(self.history, quarks), strict=True))

    def place(self, tag: int) -> str:
        """Return the function and the line that a tag of a recording names, if any."""
        fields = self.history.tags[tag] if tag >= 0 else {}
        if "location" not in fields:
            return ""
        return f"{fields.get('function', '')} ({fields['location']})".strip()

    def options(self, around: Range | None = None, *, margin: float = 0.5) -> tuple[str, ...]:
        """Return the options for a range of a command: with a margin, within the history."""
        start_ns, end_ns = around or (self.start_ns, self.end_ns)
        more = 0 if around is None else max(1, int((end_ns - start_ns) * margin))
        whole = self._whole
        start_ns = max(start_ns + self._offset_ns - more, whole.start_ns)
        end_ns = min(end_ns + self._offset_ns + more, max(whole.end_ns, start_ns + 1))
        if (start_ns, end_ns) == (whole.start_ns, whole.end_ns):
            return ()
        return ("--from", whole.text(start_ns), "--to", whole.text(end_ns))

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of entities with states; lanes of one name are one kind."""
        found: dict[tuple[str, str, bool], list[Int32s]] = {}
        for declaration, quarks in self.history.without_derived().lanes:
            if declaration.kind == "state" and len(quarks):
                key = declaration.name, declaration.entity_kind or "", declaration.short_lived
                found.setdefault(key, []).append(quarks)
        return [Kind(*key, distinct(np.concatenate(quarks))) for key, quarks in found.items()]

    def kind(self, entity_kind: str) -> Kind | None:
        """Return the lane of a recording's tasks (`Task`) or event loops (`Loop`), or None."""
        return next((kind for kind in self.kinds if kind.entity_kind == entity_kind), None)

    def rows(self, kind: Kind) -> StateRows | None:
        """Return all states of a kind of entity in the range; None if there are too many."""
        key = kind[:3]
        if key not in self._rows:
            self._rows[key] = self._read(kind)
        return self._rows[key]

    def _read(self, kind: Kind) -> StateRows | None:
        if self.start_ns >= self.end_ns:
            return None
        if len(kind.quarks) > _MOST_CELLS:
            return None
        most = _MOST_OF_RECORDED if kind.entity_kind in _RECORDED else _MOST_INTERVALS
        if self.changes(kind) > most:
            return None
        return self.between(kind.quarks, (self.start_ns, self.end_ns))

    def changes(self, kind: Kind) -> int:
        """Return how often entities of a kind changed in the range."""
        key = kind[:3]
        if key not in self._changes:
            shares = self.history.shares(kind.quarks, self.start_ns, self.end_ns)
            self._changes[key] = int(shares.changes.sum())
        return self._changes[key]

    def between(self, quarks: Int32s, range_ns: Range) -> StateRows:
        """Return the states of some entities in a range."""
        table: dict[str, int] = {}
        parts = [
            _states(batch, table, range_ns)
            for batch in self.history.interval_batches(quarks, *range_ns, rows=2**17)
        ]
        quark, start_ns, end_ns, state, tag = zip(*parts, strict=True)
        return StateRows(
            np.concatenate(quark),
            np.concatenate(start_ns),
            np.concatenate(end_ns),
            np.concatenate(state),
            np.concatenate(tag),
            list(table),
        )

    def long_rows(
        self, kind: Kind, least_ns: int, *, alike: Mapping[str, str] | None = None
    ) -> tuple[StateRows, int] | None:
        """Return the states that lasted at least this long, and from which duration on all of them.

        The states that are keys of `alike` count as those that are its values.

        In a kind with many intervals the second figure is larger: only a state that fills a bin is
        found. None if there are too many entities for bins.
        """
        rows = self.rows(kind)
        if rows is not None:
            rows = rows.named_alike(alike or {}).merged()
            return chosen(rows, rows.duration_ns >= least_ns), least_ns
        needed = max(1, 2 * self.length_ns // max(1, least_ns))
        # a power of two, so that searches for about the same duration share the bins
        bins = min(_MOST_BINS, _MOST_CELLS // max(1, len(kind.quarks)), 1 << needed.bit_length())
        if bins < 16:
            return None
        rows = self._filling_bins(kind, bins).named_alike(alike or {}).merged()
        return chosen(rows, rows.duration_ns >= least_ns), 2 * -(-self.length_ns // bins)

    def _filling_bins(self, kind: Kind, bins: int) -> StateRows:
        """Return the states of a kind that fill one of so many bins of the range."""
        # several detectors ask for different durations of the same kind
        key = (*kind[:3], bins)
        if key not in self._filling:
            self._filling[key] = self._filled(kind, bins)
        return self._filling[key]

    def _filled(self, kind: Kind, bins: int) -> StateRows:
        shares = self.history.shares(kind.quarks, self.start_ns, self.end_ns, bins=bins)
        value = named(shares.value)
        full = (shares.ns >= np.diff(shares.edges_ns)[shares.bin]) & (value.codes >= 0)
        index = np.flatnonzero(full)
        # a state may fill many bins: each is looked up once, those that fill the most first
        begins = np.ones(len(index), np.bool_)
        begins[1:] = (
            (np.diff(shares.quark[index]) != 0)
            | (np.diff(shares.bin[index]) != 1)
            | (np.diff(value.codes[index]) != 0)
        )
        first = np.flatnonzero(begins)
        lengths = np.diff(np.append(first, len(index)))
        longest = np.argsort(-lengths, kind="stable")[:_MOST_LOOKED_UP]
        index = index[np.sort(first[longest])]
        if not len(index):
            return self.between(kind.quarks[:0], (self.start_ns, self.end_ns))
        found = self.history.states(shares.quark[index], shares.edges_ns[shares.bin[index]])
        table: dict[str, int] = {}
        rows = StateRows(*_states(found, table, (self.start_ns, self.end_ns)), list(table))
        order = np.lexsort((rows.start_ns, rows.quark))
        rows = chosen(rows, order)
        twice = (np.diff(rows.quark, prepend=-1) == 0) & (
            np.diff(rows.start_ns, prepend=rows.start_ns[:1] - 1) == 0
        )
        return chosen(rows, ~twice)


def _states(
    batch: Intervals, table: dict[str, int], range_ns: Range
) -> tuple[Int32s, Int64s, Int64s, Int32s, Int32s]:
    """Return the columns of the intervals with a state; new states are added to the table."""
    column = named(batch.value)
    code_of = np.full(len(column.names) + 1, -1, np.int32)
    for code in distinct(column.codes[column.codes >= 0]).tolist():
        code_of[code] = table.setdefault(column.names[code], len(table))
    state = code_of[column.codes]
    kept = state >= 0
    start_ns = np.maximum(batch.start_ns, range_ns[0])
    end_ns = np.minimum(batch.end_ns, range_ns[1])
    return batch.quark[kept], start_ns[kept], end_ns[kept], state[kept], batch.tag[kept]
