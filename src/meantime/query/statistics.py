"""How long states lasted: totals, shares, quantiles, and which state followed which.

Figures are of one kind of entity, which is a lane of the history: the time of an event loop and
that of the tasks it ran are the same time, so a sum over both would have no meaning.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import MeantimeError, TimeRangeError, UsageError
from meantime.model.attributes import entity_name
from meantime.model.columns import Coded, Interner, distinct, exact_sum, named, ranked
from meantime.model.durations import PERCENTS, Durations, figure_columns
from meantime.model.tabular import Tabular
from meantime.model.units import MAX_NS
from meantime.query.duration_sums import BITS, DurationsBuilder, DurationSums
from meantime.query.lifetimes import has_state, lifetimes
from meantime.query.threads import choose_rows, host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.results import Intervals
    from meantime.history.state_lengths import StatePart
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.tabular import Column
    from meantime.query.duration_sums import Keep
    from meantime.query.kept_statistics import KeptStatistics
    from meantime.query.state_durations import Apart, StateDurations

    # the kind, the state and the entity, which is None for all of them
    _Group: TypeAlias = tuple[str, str, str | None]
    _Times: TypeAlias = npt.NDArray[np.uint64]

__all__ = [
    "StateStatistics",
    "StatisticsRow",
    "Transition",
    "added_statistics",
    "grouped_statistics",
    "host_statistics",
    "state_quarks",
    "state_statistics",
    "state_totals",
    "tag_statistics",
]


# Up to so many intervals of a kind of entity, quantiles are exact whether that matters or not.
_EXACT_ROWS = 1 << 22


@dataclass(frozen=True, slots=True)
class StatisticsRow(Durations[int, float]):
    """The durations of one state, of all entities of a kind or of one.

    Attributes:
        kind: The kind of entity: the name of its lane.
        key: The state.
        entity: The name of the entity, from `entity_name`; None for all of them.
        share: `total_ns` over the time in the range in which the entities of the row existed.
    """

    kind: str
    key: str
    entity: str | None
    share: float


class Transition(NamedTuple):
    """How often one state followed another of the same entity, without a gap.

    Attributes:
        before: The state that ended.
        after: The state that began.
        times: How often.
        kind: The kind of entity.
    """

    before: str
    after: str
    times: int
    kind: str


@dataclass(frozen=True, slots=True)
class StateStatistics(Tabular):
    """Statistics over a range; as a table, its rows.

    Attributes:
        by: Whether there is a row per state, or per entity and state.
        range_ns: [start, end): what the intervals were clipped to.
        rows: Kind by kind, most time first.
        transitions: Kind by kind, most often first.
        histograms: By kind and state, how many intervals lasted [2^i, 2^(i+1)) ns, by i.
        existed_ns: By kind and entity, how long it existed: what shares are of. The entity is None
            if rows are by state. Empty unless it was kept, as `durations`.
        durations: By kind, state and entity, what the quantiles of a sum follow from; None if it
            was not kept, and these statistics cannot be added to others.
        has_estimates: Whether quantiles are estimates although durations are not kept.
    """

    by: Literal["state", "entity"]
    range_ns: tuple[int, int]
    rows: list[StatisticsRow]
    transitions: list[Transition]
    histograms: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    existed_ns: dict[tuple[str, str | None], int] = field(default_factory=dict, repr=False)
    durations: DurationSums[_Group] | None = field(default=None, repr=False, compare=False)
    has_estimates: bool = False

    @property
    def is_sketch(self) -> bool:
        """Whether quantiles are from a sketch, and only within 2^-8 of a duration of that rank."""
        is_kept = self.durations is not None and self.durations.keep == "sketch"
        return is_kept or self.has_estimates

    def with_quantiles(self) -> StateStatistics:
        """Return the same statistics with the quantiles of its rows.

        Raises:
            UsageError: If durations were not kept.
        """
        return added_statistics([self])

    def __add__(self, other: StateStatistics) -> StateStatistics:
        """Return the statistics of both: see `added_statistics`."""
        return added_statistics([self, other])

    def moved(self, offset_ns: int) -> StateStatistics:
        """Return the same statistics with this added to the times of the range."""
        start_ns, end_ns = self.range_ns
        return replace(self, range_ns=(start_ns + offset_ns, end_ns + offset_ns))

    def of_host(self, name: str) -> StateStatistics:
        """Return statistics by state as those of one entity, a host with this name.

        Raises:
            UsageError: If these are by entity.
        """
        if self.by != "state":
            raise UsageError("statistics by entity cannot be those of one host")
        durations = self.durations
        if durations is not None:
            durations = durations.renamed([(kind, key, name) for kind, key, _ in durations.keys])
        return replace(
            self,
            by="entity",
            rows=[replace(row, entity=name) for row in self.rows],
            existed_ns={(kind, name): ns for (kind, _), ns in self.existed_ns.items()},
            durations=durations,
        )

    @property
    def kinds(self) -> list[str]:
        """The kinds of entities that have rows, in their order."""
        return list(dict.fromkeys(row.kind for row in self.rows))

    def columns(self) -> dict[str, Column]:
        """Return a column for each field of a row, without `entity` where the rows have none."""
        columns: dict[str, Column] = {"kind": Coded.of([row.kind for row in self.rows])}
        if self.by == "entity":
            columns["entity"] = Coded.of([row.entity for row in self.rows])
        columns["state"] = Coded.of([row.key for row in self.rows])
        return columns | figure_columns(StatisticsRow, self.rows)


def added_statistics(
    parts: Sequence[StateStatistics], *, quantiles: bool = True
) -> StateStatistics:
    """Return the statistics of all intervals of some statistics, as of one history with all.

    The order of the parts makes no difference, and parts may be sums. Entities of the same name are
    one entity, which existed as long as they did together. Kinds are in order of their names, and
    the range is from the earliest to the latest time in any.

    >>> from meantime.testing import history_from_picture
    >>> hosts = [history_from_picture(f"cpu0  {line}") for line in ("aabba.", "cab.")]
    >>> both = added_statistics([state_statistics(host, keep="exact") for host in hosts])
    >>> [(row.key, row.count, row.total_ns, row.median_ns) for row in both.rows]
    [('a', 3, 4, 1), ('b', 2, 3, 1), ('c', 1, 1, 1)]

    Args:
        parts: At least one; each was made with `keep`.
        quantiles: Whether to compute those of the rows; otherwise they are 0. They take the most
            time, and a sum does not follow from those of its parts.

    Raises:
        UsageError: If some are by state and others by entity, or what is needed was not kept.
    """
    if len({part.by for part in parts}) != 1:
        raise UsageError("only statistics by state, or only those by entity, can be added")
    kept = [part.durations for part in parts if part.durations is not None]
    if len(kept) < len(parts):
        raise UsageError("statistics can be added if made with keep='exact' or keep='sketch'")
    durations = DurationSums.added(kept)
    computed = durations.quantiles() if quantiles else {}
    none = [0] * len(PERCENTS)
    existed_ns: Counter[tuple[str, str | None]] = Counter()
    transitions: Counter[tuple[str, str, str]] = Counter()
    totals: dict[_Group, tuple[int, int, int, int]] = {}
    for part in parts:
        existed_ns.update(part.existed_ns)
        transitions.update({_move(each): each.times for each in part.transitions})
        for row in part.rows:
            count, total_ns, least, most = totals.get(_key(row), (0, 0, row.min_ns, row.max_ns))
            totals[_key(row)] = (
                count + row.count,
                total_ns + row.total_ns,
                min(least, row.min_ns),
                max(most, row.max_ns),
            )
    kinds: dict[str, list[StatisticsRow]] = {}
    for (kind, key, entity), figures in totals.items():
        own = computed.get((kind, key, entity), none)
        if quantiles:
            # the middle of a cell may be outside of what occurred
            own = [min(max(each, figures[2]), figures[3]) for each in own]
        row = _row(kind, key, entity, figures, own, existed_ns[kind, entity])
        kinds.setdefault(kind, []).append(row)
    moves = [
        Transition(before, after, times, kind)
        for (kind, before, after), times in transitions.items()
    ]
    return StateStatistics(
        parts[0].by,
        (min(part.range_ns[0] for part in parts), max(part.range_ns[1] for part in parts)),
        [row for kind in sorted(kinds) for row in _most_first(kinds[kind])],
        sorted(moves, key=lambda row: (row.kind, -row.times, row.before, row.after)),
        dict(sorted(_added_histograms(parts).items())),
        dict(sorted(existed_ns.items(), key=repr)),
        durations,
    )


def _move(row: Transition) -> tuple[str, str, str]:
    return row.kind, row.before, row.after


def _key(row: StatisticsRow) -> _Group:
    return row.kind, row.key, row.entity


def state_quarks(history: History, kind: str | None = None) -> Int32s:
    """Return the attributes of state lanes, or of those of a kind, each once, in order of quark."""
    kinds = _kinds(history)
    return _joined([each.quarks for each in kinds if kind is None or each.name == kind])


def _joined(quarks: list[Int32s]) -> Int32s:
    return distinct(np.concatenate([np.empty(0, np.int32), *quarks]))


class _Kind(NamedTuple):
    name: str
    short_lived: bool
    quarks: Int32s


def _kinds(history: History) -> list[_Kind]:
    """Return the kinds of entities in order of lanes; lanes of one name are one kind."""
    found: dict[tuple[str, bool], list[Int32s]] = {}
    for declaration, quarks in history.lanes:
        if declaration.kind == "state":
            found.setdefault((declaration.name, declaration.short_lived), []).append(quarks)
    return [_Kind(*key, _joined(quarks)) for key, quarks in found.items()]


def state_statistics(
    history: History,
    *,
    by: Literal["state", "entity"] = "state",
    pattern: str | None = None,
    quarks: Int32s | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    keep: Keep | None = None,
    quantiles: bool = True,
    exact: bool = True,
    progress: Callable[[float], None] | None = None,
) -> StateStatistics:
    """Return how long the states of the history's state lanes lasted.

    Intervals are clipped to the range, which is the history's bounds if not given. A change of the
    tag alone starts a new interval, so a state may follow itself. Time without a state is in no
    row. An entity exists from its first state to the end of its last one, also where these are
    outside the range; one of a short-lived lane exists while it has a state.

    >>> from meantime.testing import history_from_picture
    >>> statistics = state_statistics(history_from_picture("disk0  aabba."))
    >>> [(row.key, row.count, row.total_ns, row.share) for row in statistics.rows]
    [('a', 2, 3, 0.6), ('b', 1, 2, 0.4)]
    >>> [(before, after, count) for before, after, count, _ in statistics.transitions]
    [('a', 'b', 1), ('b', 'a', 1)]

    Args:
        history: The history.
        by: Add up by state, or by state and entity.
        pattern: Only entities with this name, or whose name contains a match of this regular
            expression.
        quarks: Only these entities.
        start_ns: Where the range begins.
        end_ns: Where it ends.
        keep: Keep what a sum with other statistics needs: `exact` keeps all durations, 8 bytes
            each; `sketch` keeps how many are in cells whose width is at most 2^-7 of a duration,
            and quantiles are the middle of a cell.
        quantiles: False if only the quantiles of a sum are needed: with `keep` they are 0.
        exact: Whether quantiles are exact; otherwise those of a kind of entity with more than
            2^22 intervals are from a sketch, and `is_sketch` says so.
        progress: Called now and then with the share that is done; what it raises ends the work.

    Raises:
        MeantimeError: If the pattern matches no entity.
        TimeRangeError: If the range is empty, or if a state lasts 2^63 ns or more in it.
    """
    kinds = _kinds(history)
    if pattern is not None:
        kinds = _matching(history, kinds, pattern)
    if quarks is not None:
        kinds = [kind._replace(quarks=np.intersect1d(kind.quarks, quarks)) for kind in kinds]
    begin_ns, finish_ns = history.bounds
    if begin_ns >= finish_ns and start_ns is None and end_ns is None:
        return _together([], by, (begin_ns, finish_ns), keep, quantiles=quantiles)
    # checks the range, and clips it to the history
    range_ns = history.intervals(np.empty(0, np.int32), start_ns, end_ns).range_ns
    parts = [
        _of_kind(
            *(history, kind, by, range_ns, keep, progress),
            (number / len(kinds), 1 / len(kinds)),
            exact=exact,
        )
        for number, kind in enumerate(kinds)
    ]
    return _together(parts, by, range_ns, keep, quantiles=quantiles)


def state_totals(history: History) -> dict[tuple[str, str], tuple[int, float]]:
    """Return by kind and state the time and the share that `state_statistics` has in its rows.

    Where sums are stored with a history, no interval is read.

    >>> from meantime.testing import history_from_picture
    >>> state_totals(history_from_picture("disk0  aabba."))
    {('', 'a'): (3, 0.6), ('', 'b'): (2, 0.4)}
    """
    begin_ns, finish_ns = history.bounds
    if begin_ns >= finish_ns:
        return {}
    range_ns = history.intervals(np.empty(0, np.int32), begin_ns, finish_ns).range_ns
    span_ns = range_ns[1] - range_ns[0]
    # so wide bins of so many attributes have a sum below 2^63
    bins = 1 + (span_ns >> 61)
    at_once = max(1, (1 << 62) // -(-span_ns // bins))
    found = {}
    for kind in _kinds(history):
        spent: Counter[str] = Counter()
        for first in range(0, len(kind.quarks), at_once):
            part = kind.quarks[first : first + at_once]
            names, ns = history.shares(part, *range_ns, bins=bins).named_sums()
            spent.update(dict(zip(names, map(sum, ns.tolist()), strict=True)))
        whole_ns = spent.total()
        if not kind.short_lived:
            lived = lifetimes(history, kind.quarks).within(*range_ns)
            whole_ns = exact_sum(lived.lasted_ns)
        found.update({(kind.name, name): (ns, ns / whole_ns) for name, ns in spent.items()})
    return found


def host_statistics(
    history: History,
    *,
    pattern: str | None = None,
    quarks: Int32s | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    keep: Keep | None = None,
) -> StateStatistics:
    r"""Return how long states lasted on each host of a joined history: hosts are the entities.

    A history that is not joined is one host.

    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("Hosts/a/cpu0  aab.\nHosts/a/cpu1  aaa.\nHosts/b/cpu0  .bb.")
    >>> [(row.entity, row.key, row.total_ns) for row in host_statistics(history).rows]
    [('a', 'a', 5), ('b', 'b', 2), ('a', 'b', 1)]

    Args:
        history: The history.
        pattern: As `state_statistics` takes it, and all others.
        quarks: Only these entities.
        start_ns: Where the range begins.
        end_ns: Where it ends.
        keep: How durations are kept.

    Raises:
        MeantimeError: If the pattern matches no entity.
        TimeRangeError: If the range is empty.
    """
    of_host: dict[str, list[int]] = {}
    for quark in (state_quarks(history) if quarks is None else quarks).tolist():
        of_host.setdefault(host_of(history, quark), []).append(quark)
    parts = [
        state_statistics(
            history,
            pattern=pattern,
            quarks=np.array(own, np.int32),
            start_ns=start_ns,
            end_ns=end_ns,
            keep=keep or "exact",
            quantiles=False,
        ).of_host(host)
        for host, own in (of_host or {"": []}).items()
    ]
    return added_statistics(parts)


def tag_statistics(
    history: History,
    *,
    quarks: Int32s | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    keep: Keep = "exact",
) -> StateStatistics:
    """Return how long states with each tag lasted: tags are the entities.

    A tag is written as its fields in order of their names. States without one are in no row.

    >>> from meantime import HistoryBuilder
    >>> builder = HistoryBuilder()
    >>> disk = builder.quark("disk")
    >>> for time_ns, file in [(0, "a"), (2, "b"), (5, "a")]:
    ...     builder.modify(time_ns, disk, "read", builder.tag({"file": file}))
    >>> builder.lanes("disk")
    >>> [(row.key, row.entity, row.total_ns) for row in tag_statistics(builder.close(9)).rows]
    [('read', 'file=a', 6), ('read', 'file=b', 3)]

    Args:
        history: The history.
        quarks: Only these entities.
        start_ns: Where the range begins.
        end_ns: Where it ends.
        keep: How durations are kept.

    Raises:
        MeantimeError: If a sum exceeds 64 bits.
        TimeRangeError: If the range is empty.
    """
    begin_ns, finish_ns = history.bounds
    range_ns = begin_ns, finish_ns
    if begin_ns < finish_ns or start_ns is not None or end_ns is not None:
        range_ns = history.intervals(np.empty(0, np.int32), start_ns, end_ns).range_ns
    keys: list[_Group] = []
    number: dict[_Group, int] = {}
    texts: dict[int, str] = {}
    groups, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    existed_ns: dict[tuple[str, str | None], int] = {}
    for name, _, entities in _kinds(history):
        chosen = entities if quarks is None else np.intersect1d(entities, quarks)
        if not len(chosen) or range_ns[0] >= range_ns[1]:
            continue
        whole_ns = exact_sum(lifetimes(history, chosen).within(*range_ns).lasted_ns)
        for batch in history.interval_batches(chosen, *range_ns):
            column = named(batch.value)
            rows = np.flatnonzero((column.codes >= 0) & (batch.tag >= 0))
            packed = batch.tag[rows].astype(np.int64) * len(column.names) + column.codes[rows]
            different, index = ranked(packed)
            own = []
            for each in different.tolist():
                tag, code = divmod(each, len(column.names))
                text = texts.setdefault(tag, _tag_text(history.tags[tag]))
                key = name, column.names[code], text
                if (at := number.setdefault(key, len(keys))) == len(keys):
                    keys.append(key)
                    existed_ns[name, text] = whole_ns
                own.append(at)
            groups.append(np.array(own, np.int32)[index])
            lengths.append(
                np.minimum(batch.end_ns[rows], range_ns[1])
                - np.maximum(batch.start_ns[rows], range_ns[0])
            )
    grouped = keys, np.concatenate(groups), np.concatenate(lengths)
    return grouped_statistics("entity", range_ns, *grouped, existed_ns, keep)


def _tag_text(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={fields[name]}" for name in sorted(fields))


def grouped_statistics(  # noqa: PLR0917 - what statistics consist of
    by: Literal["state", "entity"],
    range_ns: tuple[int, int],
    keys: list[_Group],
    group: Int32s,
    lengths_ns: Int64s,
    existed_ns: dict[tuple[str, str | None], int],
    keep: Keep,
    total_ns: Sequence[int] | None = None,
) -> StateStatistics:
    """Return statistics of durations in groups, which can be added to others.

    Args:
        by: Whether there is a row per state, or per entity and state.
        range_ns: The range.
        keys: The kind, the state and the entity of each group; each has a duration.
        group: The group of each duration.
        lengths_ns: The durations.
        existed_ns: By kind and entity, what shares are of.
        keep: How durations are kept.
        total_ns: The time of each group in the range; by default the sum of its durations.

    Raises:
        MeantimeError: If a sum exceeds 64 bits.
    """
    if lengths_ns.sum(dtype=np.float64) > MAX_NS:
        raise MeantimeError("durations add up to more than 2^63 ns; a time is probably wrong")
    builder = DurationsBuilder(keep)
    builder.add(group, lengths_ns)
    sums, least, most = (np.full(len(keys), each, np.int64) for each in (0, MAX_NS, 0))
    np.add.at(sums, group, lengths_ns)
    np.minimum.at(least, group, lengths_ns)
    np.maximum.at(most, group, lengths_ns)
    counts = np.bincount(group, minlength=len(keys)).tolist()
    totals = sums.tolist() if total_ns is None else total_ns
    none = [0] * len(PERCENTS)
    rows = [
        _row(*key, figures, none, max(1, existed_ns[key[0], key[2]]))
        for key, *figures in zip(keys, counts, totals, least.tolist(), most.tolist(), strict=True)
    ]
    found = StateStatistics(
        by, range_ns, rows, [], existed_ns=existed_ns, durations=builder.build(keys)
    )
    return added_statistics([found])


def _of_kind(  # noqa: PLR0917 - the arguments of `state_statistics`
    history: History,
    kind: _Kind,
    by: Literal["state", "entity"],
    range_ns: tuple[int, int],
    keep: Keep | None,
    progress: Callable[[float], None] | None,
    part: tuple[float, float],
    *,
    exact: bool,
) -> StateStatistics:
    """Return the statistics of a kind of entity, of which `part` says which part of all it is."""
    earlier = None
    if keep is None and not exact and range_ns == history.bounds:
        from meantime.query.kept_statistics import KeptStatistics  # noqa: PLC0415 - for few

        short = kind.short_lived
        earlier = KeptStatistics.of(history, by, kind.quarks, range_ns, short_lived=short)
        known = None if earlier is None else earlier.found()
        if known is not None:
            return _of_counted(history, kind, by, range_ns, *known)
    return _of_intervals(*(history, kind, by, range_ns, keep, progress, part, earlier), exact=exact)


def _of_intervals(  # noqa: PLR0917 - as above
    history: History,
    kind: _Kind,
    by: Literal["state", "entity"],
    range_ns: tuple[int, int],
    keep: Keep | None,
    progress: Callable[[float], None] | None,
    part: tuple[float, float],
    earlier: KeptStatistics | None,
    *,
    exact: bool,
) -> StateStatistics:
    """Return the same from the intervals, and keep it for the next question."""
    from meantime.history.state_lengths import string_states  # noqa: PLC0415 - totals need it not
    from meantime.query.state_durations import StateDurations  # noqa: PLC0415 - as above

    name, entities = kind.name, kind.quarks
    # which intervals are refused follows from themselves, and all durations are those of intervals
    states = None
    if range_ns[1] - range_ns[0] <= MAX_NS and keep != "exact":
        states = string_states(history, entities, range_ns)
    intervals = history.interval_batches(entities, *range_ns)
    batches = _Batches(intervals if states is None else states, entities, progress, part)
    is_sketched = states is not None and keep == "sketch"
    estimated = not exact and states is not None and int(states.counts.sum()) > _EXACT_ROWS
    counted = StateDurations(
        range_ns,
        len(history.attributes) if kind.short_lived else 0,
        # quantiles are those of what is kept, if anything is
        bits=BITS if by == "state" and (keep is None or is_sketched) else 0,
        is_apart=by == "entity",
        is_sketched=is_sketched,
        exact=not (estimated or is_sketched),
    )
    kept = None if keep is None else _Kept(history, name, by, keep, range_ns)
    _count(history, batches(), counted, kept, range_ns)
    if kind.short_lived:
        existed = counted.lived_ns[entities].view(np.uint64)
    else:
        existed = lifetimes(history, entities).within(*range_ns).lasted_ns
    if estimated and (by == "entity" or counted.has_sketch):
        if earlier is not None:
            earlier.keep(counted, existed)
        if keep is None:
            return _of_counted(history, kind, by, range_ns, counted, existed)
    apart = counted.of_attributes() if by == "entity" else None
    if apart is not None:
        rows = _of_entities(history, apart, name, entities, existed)
    else:
        quantiles = None if keep is not None else counted.quantiles(batches)
        rows = _of_states(counted, name, quantiles, existed)
    durations = None
    if is_sketched and (apart is not None or counted.has_sketch):
        durations = _sketch(history, name, counted, apart)
    elif kept is not None:
        if states is not None:
            # too many states for narrow buckets of each
            _count(history, intervals, None, kept, range_ns)
        durations = kept.durations()
    existed_ns = {} if kept is None else kept.existed_ns(entities, existed)
    return _statistics(name, by, range_ns, counted, rows, existed_ns, durations)


def _statistics(  # noqa: PLR0917 - what statistics consist of
    kind: str,
    by: Literal["state", "entity"],
    range_ns: tuple[int, int],
    counted: StateDurations,
    rows: list[StatisticsRow],
    existed_ns: dict[tuple[str, str | None], int],
    durations: DurationSums[_Group] | None,
    *,
    has_estimates: bool = False,
) -> StateStatistics:
    histograms = zip(counted.names, counted.histograms(), strict=True)
    return StateStatistics(
        by,
        range_ns,
        rows,
        _transitions(counted, kind),
        {(kind, key): histogram for key, histogram in histograms},
        existed_ns,
        durations,
        has_estimates,
    )


def _of_counted(  # noqa: PLR0917 - what statistics are of
    history: History,
    kind: _Kind,
    by: Literal["state", "entity"],
    range_ns: tuple[int, int],
    counted: StateDurations,
    existed: _Times,
) -> StateStatistics:
    """Return statistics whose quantiles are the middles of buckets."""
    if by == "entity":
        apart = counted.of_attributes()
        rows = _of_entities(history, apart, kind.name, kind.quarks, existed)
        is_estimated = not counted.is_exact
    else:
        rows = _of_states(counted, kind.name, counted.estimates(), existed)
        is_estimated = True
    return _statistics(kind.name, by, range_ns, counted, rows, {}, None, has_estimates=is_estimated)


def _count(
    history: History,
    batches: Iterable[Intervals | StatePart],
    counted: StateDurations | None,
    kept: _Kept | None,
    range_ns: tuple[int, int],
) -> None:
    """Count states, and keep those that are intervals."""
    from meantime.history.results import Intervals  # noqa: PLC0415 - totals need it not

    for batch in batches:
        if isinstance(batch, Intervals):
            if range_ns[1] - range_ns[0] > MAX_NS:
                _check_lengths(history, batch, range_ns)
            if kept is not None:
                kept.add(batch)
        if counted is not None:
            counted.add(batch)


def _sketch(
    history: History, kind: str, counted: StateDurations, apart: Apart | None
) -> DurationSums[_Group]:
    """Return the durations of states, or of those of each entity, as a sum needs them."""
    if apart is None:
        names, *sketch = counted.sketch()
        return DurationSums.of_cells([(kind, name, None) for name in names], *sketch)
    entities = _names_of(history, apart.quark)
    keys: list[_Group] = [
        (kind, state, entities[quark])
        for quark, state in zip(apart.quark.tolist(), apart.state, strict=True)
    ]
    if len(set(keys)) == len(keys):
        return DurationSums.of_cells(keys, apart.sizes, apart.buckets, apart.counts)
    # entities of the same name are one
    whole = DurationSums.of_cells([*range(len(keys))], apart.sizes, apart.buckets, apart.counts)
    parts = [whole.of_group(at, key) for at, key in enumerate(keys)]
    return DurationSums.added(parts)


def _names_of(history: History, quarks: Int64s) -> dict[int, str]:
    """Return the names of entities by quark."""
    attributes = history.attributes
    return {quark: entity_name(attributes.path(quark)) for quark in distinct(quarks).tolist()}


def _check_lengths(history: History, batch: Intervals, range_ns: tuple[int, int]) -> None:
    """Refuse states whose duration has no place in a column."""
    start_ns = np.maximum(batch.start_ns, range_ns[0])
    end_ns = np.minimum(batch.end_ns, range_ns[1])
    too_long = np.flatnonzero(has_state(batch) & ((end_ns - start_ns).view(np.uint64) > MAX_NS))
    if len(too_long):
        row = too_long[0]
        name = entity_name(history.attributes.path(int(batch.quark[row])))
        raise TimeRangeError(
            f"a state of {name} lasts from {start_ns[row]} to {end_ns[row]} ns: durations of 2^63"
            " ns and more cannot be added up; ask for a shorter range"
        )


def _together(
    parts: Sequence[StateStatistics],
    by: Literal["state", "entity"],
    range_ns: tuple[int, int],
    keep: Keep | None,
    *,
    quantiles: bool,
) -> StateStatistics:
    """Return the statistics of several kinds."""
    if keep is not None and len(parts) == 1 and not quantiles:
        return parts[0]
    if keep is not None:
        nothing: DurationSums[_Group] = DurationsBuilder(keep).build([])
        # in the order, and with the quantiles, that sums have
        bounds = StateStatistics(by, range_ns, [], [], durations=nothing)
        return added_statistics([*parts, bounds], quantiles=quantiles)
    return StateStatistics(
        by,
        range_ns,
        [row for part in parts for row in part.rows],
        [row for part in parts for row in part.transitions],
        _added_histograms(parts),
        has_estimates=any(part.has_estimates for part in parts),
    )


def _added_histograms(parts: Iterable[StateStatistics]) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for part in parts:
        for state, counts in part.histograms.items():
            both = zip_longest(found.get(state, []), counts, fillvalue=0)
            found[state] = [one + other for one, other in both]
    return found


def _matching(history: History, kinds: list[_Kind], pattern: str) -> list[_Kind]:
    meant = choose_rows(history, _joined([kind.quarks for kind in kinds]), pattern)
    chosen = [kind._replace(quarks=kind.quarks[np.isin(kind.quarks, meant)]) for kind in kinds]
    if not len(meant):
        raise MeantimeError(f"the filter {pattern!r} matches no entity")
    return chosen


@dataclass(slots=True, eq=False, repr=False)
class _Batches:
    """The intervals of a kind of entity, in batches that report how far they are.

    Args:
        batches: The batches.
        entities: Whose they are, ascending.
        progress: Called with the share that is done.
        part: The share that is done before them, and the share that they are.
    """

    batches: Iterable[Intervals | StatePart]
    entities: Int32s
    progress: Callable[[float], None] | None
    part: tuple[float, float]
    _passes: int = 0

    def __call__(self) -> Iterator[Intervals | StatePart]:
        """Yield the batches; most kinds need two passes."""
        self._passes += 1
        for batch in self.batches:
            yield batch
            if self.progress is not None and len(batch):
                at = np.searchsorted(self.entities, batch.quark[-1], side="right")
                share = min(1.0, (self._passes - 1 + at / len(self.entities)) / 2)
                self.progress(self.part[0] + self.part[1] * share)


def _of_entities(
    history: History, found: Apart, kind: str, quarks: Int32s, existed_ns: _Times
) -> list[StatisticsRow]:
    """Return a row for each state of each entity, most time first."""
    all_ns = existed_ns[np.searchsorted(quarks, found.quark)].tolist()
    names = _names_of(history, found.quark)
    # of a column of its own, as a sum has 64 bits without a sign
    total_ns = found.figures[:, 1].view(np.uint64).tolist()
    columns = found.quark.tolist(), found.state, found.figures.tolist(), total_ns
    made = [
        _row(kind, state, names[quark], (count, total_ns, *ends), quantiles, whole_ns)
        for quark, state, (count, _, *ends), total_ns, quantiles, whole_ns in zip(
            *columns, found.quantiles.tolist(), all_ns, strict=True
        )
    ]
    return _most_first(made)


class _Kept:
    """What a sum needs of the states of a kind of entity."""

    def __init__(
        self,
        history: History,
        kind: str,
        by: Literal["state", "entity"],
        keep: Keep,
        range_ns: tuple[int, int],
    ) -> None:
        self._history, self._kind, self._by, self._range_ns = history, kind, by, range_ns
        self._keys: list[_Group] = []
        self._codes = Interner(self._keys)
        self._builder = DurationsBuilder(keep)

    def add(self, batch: Intervals) -> None:
        """Add a batch, which has all intervals of its attributes."""
        column = named(batch.value)
        lasted = np.minimum(batch.end_ns, self._range_ns[1])
        lasted -= np.maximum(batch.start_ns, self._range_ns[0])
        codes, quark = column.codes, batch.quark
        has_state = codes >= 0
        if not has_state.all():
            codes, quark, lasted = codes[has_state], quark[has_state], lasted[has_state]
        if self._by == "state":
            different = np.flatnonzero(np.bincount(codes, minlength=1))
            index: Int32s | Int64s = codes
        else:
            different, index = ranked(quark.astype(np.int64) * len(column.names) + codes)
        keys = [self._key(column.names, each) for each in different.tolist()]
        own = self._codes.codes(keys)
        if self._by == "state":
            table = np.zeros(len(column.names), np.int32)
            table[different] = own
            own = table
        self._builder.add(own[index], lasted)

    def _key(self, names: Sequence[str], packed: int) -> _Group:
        if self._by == "state":
            return self._kind, names[packed], None
        quark, code = divmod(packed, len(names))
        return self._kind, names[code], entity_name(self._history.attributes.path(quark))

    def durations(self) -> DurationSums[_Group]:
        """Return the durations by kind, state and entity."""
        return self._builder.build(self._keys)

    def existed_ns(self, quarks: Int32s, existed: _Times) -> dict[tuple[str, str | None], int]:
        """Return how long the entities existed, or all of them together."""
        if self._by == "state":
            return {(self._kind, None): exact_sum(existed)}
        names = [entity_name(self._history.attributes.path(each)) for each in quarks.tolist()]
        return {
            (self._kind, name): ns for name, ns in zip(names, existed.tolist(), strict=True) if ns
        }


def _of_states(
    found: StateDurations, kind: str, quantiles: list[list[int]] | None, existed_ns: _Times
) -> list[StatisticsRow]:
    """Return a row for each state, most time first; quantiles are 0 if there are none."""
    all_ns = exact_sum(existed_ns)
    if quantiles is None:
        quantiles = [[0] * len(PERCENTS)] * len(found.names)
    columns = found.names, found.totals(), quantiles
    made = [
        _row(kind, state, None, totals, quantiles, all_ns)
        for state, totals, quantiles in zip(*columns, strict=True)
    ]
    return _most_first(made)


def _most_first(rows: list[StatisticsRow]) -> list[StatisticsRow]:
    return sorted(rows, key=lambda row: (-row.total_ns, row.entity or "", row.key))


def _transitions(found: StateDurations, kind: str) -> list[Transition]:
    """Return the transitions, most often first."""
    names = found.names
    made = [Transition(names[a], names[b], n, kind) for (a, b), n in found.pairs().items()]
    made.sort(key=lambda row: (-row.times, row.before, row.after))
    return made


def _row(  # noqa: PLR0917 - figures
    kind: str,
    key: str,
    entity: str | None,
    totals: Sequence[int],
    quantiles: Iterable[int],
    whole_ns: int,
) -> StatisticsRow:
    count, total_ns, least, most = totals
    return StatisticsRow.computed(
        count,
        total_ns,
        least,
        most,
        quantiles,
        kind=kind,
        key=key,
        entity=entity,
        share=total_ns / whole_ns,
    )
