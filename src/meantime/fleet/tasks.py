"""What is asked of each host, and how the answers are added up."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from meantime.errors import InputError, UsageError
from meantime.history.grouped_shares import added_shares
from meantime.history.host_parts import host_parts
from meantime.history.joined import placed
from meantime.model.attribute_paths import HOSTS
from meantime.model.attributes import format_path
from meantime.opening.history_from_path import open_history
from meantime.query.aligning_histories import exchanged_by
from meantime.query.durations import SpanStatistics, added_span_statistics, span_statistics
from meantime.query.host_shares import shares_of_hosts
from meantime.query.sampled_states import with_sampled_states
from meantime.query.stacks import added_trees
from meantime.query.statistics import (
    StateStatistics,
    added_statistics,
    state_quarks,
    state_statistics,
)
from meantime.query.threads import thread_quarks
from meantime.query.trees import call_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.history.grouped_shares import GroupedShares
    from meantime.history.history import History
    from meantime.model.attributes import Path, Pattern
    from meantime.model.clocks import Clock, ClockShift
    from meantime.providers.loading import ProviderLike
    from meantime.query.aligning_histories import Exchanged
    from meantime.query.duration_sums import Keep
    from meantime.query.stacks import CallTree

    Source: TypeAlias = History | str | os.PathLike[str]

__all__ = [
    "Asked",
    "Compared",
    "Counted",
    "Grouping",
    "Known",
    "Read",
    "Shared",
    "StatisticsGrouping",
    "Tree",
    "added_compared",
    "added_counted",
    "added_known",
    "added_tree",
    "label_of",
]

Grouping: TypeAlias = Literal["lane", "path", "host"]
StatisticsGrouping: TypeAlias = Literal["state", "entity", "host", "name", "category"]


def label_of(source: Source) -> str:
    """Return the name of a source in messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return source.title or "history"


@dataclass(frozen=True, slots=True)
class Asked:
    """A host that is asked something; it is sent to the process that reads it.

    Attributes:
        source: Its history or trace.
        name: Its name.
        shift: How its times become those of the first host.
        clock: Which clock these count.
        provider: Derives states from the events of a trace.
        lenient: Skip and count records that cannot be read.
        strict: Fail if the input has any anomaly.
    """

    source: Source
    name: str
    shift: ClockShift
    clock: Clock
    provider: ProviderLike
    lenient: bool
    strict: bool

    @property
    def offset_ns(self) -> int:
        """What to add to the times of the history."""
        return 0 if self.shift.drift_ppt else self.shift.offset_ns

    def history(self) -> History:
        """Return the history of the host; with the times of the first one if its clock drifts."""
        return placed(self.own_history(), self.shift, self.clock)[0]

    def own_history(self) -> History:
        """Return the history of the host, from the cache if it is that of a trace."""
        if not isinstance(self.source, str | os.PathLike):
            return self.source
        return open_history(
            self.source,
            provider=self.provider,
            cache=True,
            lenient=self.lenient,
            strict=self.strict,
        )


class Known(NamedTuple):
    """What is known of a host once it was opened.

    Attributes:
        number: The index of the input.
        clock: Its clock.
        bounds: The range that it covers, in its own times.
        parts: The same of each of its hosts, if it is a joined history; otherwise only of itself.
        exchanged: What it sent to other hosts and received.
    """

    number: int
    clock: Clock
    bounds: tuple[int, int]
    parts: tuple[tuple[int, int], ...]
    exchanged: Exchanged


class Read:
    """Opens a host, which builds its history into the cache."""

    def __call__(self, given: tuple[int, Asked]) -> list[Known]:
        """Return what is known of the host."""
        number, host = given
        history = host.history()
        parts = tuple(part.bounds for part in host_parts(history))
        return [
            Known(
                number,
                history.clock,
                history.bounds,
                parts or (history.bounds,),
                exchanged_by(history),
            )
        ]


def added_known(parts: Sequence[list[Known]]) -> list[Known]:
    """Return all that is known."""
    return [known for part in parts for known in part]


@dataclass(frozen=True, slots=True)
class Shared:
    """Asks for shares of groups of attributes.

    Attributes:
        pattern: The attributes; None for those with a state lane.
        by: `lane`, `path` or `host`.
        range_ns: The range, in the times of the first host.
        bins: The number of bins.
    """

    pattern: Pattern | None
    by: Grouping
    range_ns: tuple[int, int]
    bins: int

    def __call__(self, host: Asked) -> GroupedShares:
        """Return the shares in the times of the first host."""
        history = host.history()
        # not every host has what another one has
        matching = history.attributes.quarks
        quarks = state_quarks(history) if self.pattern is None else matching(self.pattern)

        def key(path: Path) -> str:
            if self.by == "host":
                return host.name
            return format_path(path if self.by == "path" else (HOSTS, host.name, *path))

        start_ns, end_ns = (time_ns - host.offset_ns for time_ns in self.range_ns)
        found = history.grouped_shares(quarks, start_ns, end_ns, self.bins, key)
        return found.moved(host.offset_ns)


@dataclass(frozen=True, slots=True)
class Counted:
    """Asks for statistics of states or spans.

    Attributes:
        by: How they are grouped.
        keep: Whether quantiles are exact.
        range_ns: The range, in the times of the first host; None for all that there is.
    """

    by: StatisticsGrouping
    keep: Keep
    range_ns: tuple[int, int] | None

    def __call__(self, host: Asked) -> StateStatistics | SpanStatistics:
        """Return the statistics, without the quantiles of states: those of a sum are computed."""
        history = host.history()
        start_ns, end_ns = _part(history, host, self.range_ns)
        if self.by == "name" or self.by == "category":  # noqa: PLR1714 - mypy narrows by ==
            return span_statistics(
                history,
                self.by,
                quarks=thread_quarks(history),
                start_ns=start_ns,
                end_ns=end_ns,
                keep=self.keep,
            )
        history = with_sampled_states(history)
        by: Literal["state", "entity"] = "entity" if self.by == "entity" else "state"
        found = state_statistics(
            history, by=by, start_ns=start_ns, end_ns=end_ns, keep=self.keep, quantiles=False
        )
        found = found.moved(host.offset_ns)
        return found.of_host(host.name) if self.by == "host" else found


def added_counted(
    parts: Sequence[StateStatistics | SpanStatistics],
) -> StateStatistics | SpanStatistics:
    """Return the sum of statistics, all of states or all of spans, without quantiles."""
    states = [part for part in parts if isinstance(part, StateStatistics)]
    if states:
        return added_statistics(states, quantiles=False)
    spans = [part for part in parts if isinstance(part, SpanStatistics)]
    return added_span_statistics(spans, quantiles=False)


@dataclass(frozen=True, slots=True)
class Tree:
    """Asks for a call tree.

    Attributes:
        range_ns: The range, in the times of the first host; None for all that there is.
    """

    range_ns: tuple[int, int] | None

    def __call__(self, host: Asked) -> tuple[CallTree, frozenset[str]]:
        """Return the tree, and the unit of its weights unless it is empty."""
        history = host.history()
        start_ns, end_ns = _part(history, host, self.range_ns)
        tree, unit = call_tree(history, start_ns=start_ns, end_ns=end_ns)
        return tree, frozenset([unit] if len(tree) else [])


def added_tree(
    parts: Sequence[tuple[CallTree, frozenset[str]]],
) -> tuple[CallTree, frozenset[str]]:
    """Return the sum of trees, and their units.

    Raises:
        UsageError: If units differ.
    """
    units = frozenset[str]().union(*(unit for _, unit in parts))
    if len(units) > 1:
        raise UsageError(f"weights in {' and '.join(sorted(units))} cannot be added")
    return added_trees([tree for tree, _ in parts]), units


@dataclass(frozen=True, slots=True)
class Compared:
    """Asks for the shares of each kind of entity, of which a host is a group.

    Attributes:
        range_ns: The range, in the times of the first host.
        bins: The number of bins.
    """

    range_ns: tuple[int, int]
    bins: int

    def __call__(self, host: Asked) -> dict[str, GroupedShares]:
        """Return the shares in the times of the first host, by kind."""
        start_ns, end_ns = (time_ns - host.offset_ns for time_ns in self.range_ns)
        found = shares_of_hosts(host.history(), host.name, (start_ns, end_ns), self.bins)
        if not found:
            raise InputError(
                label_of(host.source), "has no states and no spans that could be compared"
            )
        return {kind: each.moved(host.offset_ns) for kind, each in found.items()}


def added_compared(
    parts: Sequence[Mapping[str, GroupedShares]],
) -> Mapping[str, GroupedShares]:
    """Return the sums of shares by kind."""
    kinds = sorted({kind for part in parts for kind in part})
    return {kind: added_shares([part[kind] for part in parts if kind in part]) for kind in kinds}


def _part(
    history: History, host: Asked, range_ns: tuple[int, int] | None
) -> tuple[int | None, int | None]:
    """Return the part of a range that a history covers, in its own times.

    Raises:
        InputError: If it covers none of it.
    """
    if range_ns is None:
        return None, None
    low, high = history.start_ns, history.end_ns
    start_ns = max(low, range_ns[0] - host.offset_ns)
    end_ns = min(high, range_ns[1] - host.offset_ns)
    if start_ns >= end_ns:
        raise InputError(label_of(host.source), "covers nothing of the range")
    return start_ns, end_ns
