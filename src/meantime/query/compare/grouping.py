"""The figures of one run, and of several as one, by what the rows of a comparison are of."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.model.attributes import entity_name
from meantime.model.durations import FIGURES, figure_values, figures_of
from meantime.query.durations import BETWEEN, added_span_statistics, span_statistics
from meantime.query.explain.budget import Budget
from meantime.query.explain.by_family import explain
from meantime.query.groups import group_statistics
from meantime.query.sampled_states import with_sampled_states
from meantime.query.stacks import added_trees, on_shared_stacks
from meantime.query.statistics import (
    StatisticsRow,
    added_statistics,
    grouped_statistics,
    state_quarks,
    state_statistics,
    tag_statistics,
)
from meantime.query.threads import thread_quarks, threads_of
from meantime.query.trees import by_name, call_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.query.compared_by import By, GroupBy
    from meantime.query.counting import Counted
    from meantime.query.duration_sums import Keep
    from meantime.query.durations import Grouping as SpanGrouping
    from meantime.query.durations import SpanStatistics
    from meantime.query.explain import Explanation
    from meantime.query.parts import Part
    from meantime.query.ranges import Range
    from meantime.query.stacks import CallTree
    from meantime.query.statistics import StateStatistics

    Numbers: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64]

__all__ = [
    "OTHERS",
    "Entity",
    "Figures",
    "Grouping",
    "Key",
    "default_by",
    "entities_of",
    "grouping",
    "groupings",
]

Key: TypeAlias = "tuple[str, ...]"

_OF_SPANS = ("category", "thread", "lane")
_NONE = "(none)"
# What a stack calls that it does not call on the other side.
OTHERS = "(not on both sides)"
# The letters of all stacks of a comparison.
_MOST_LETTERS = 1 << 28
_Sum = TypeVar("_Sum", "StateStatistics", "SpanStatistics")
_Tree: TypeAlias = "tuple[CallTree, str]"


class Figures(NamedTuple):
    """The figures of groups.

    Attributes:
        keys: The groups.
        columns: By name of a figure, its values by group: integers of what is counted in them, NaN
            where a float is missing.
        unit: What times are in: `ns`, or the unit of the weights of samples.
    """

    keys: list[Key]
    columns: dict[str, Numbers]
    unit: str = "ns"


class Entity(NamedTuple):
    """An entity in the keys of statistics.

    Attributes:
        key: How the statistics name it, once in a history.
        name: What the trace calls it, which several may be called.
    """

    key: str
    name: str


class Grouping:
    """What rows are of, and how they are measured.

    Attributes:
        names: What the parts of the key of a row are. The rows of one `kind` add up to its whole.
        main: The figure that adds up.
        measure: What is measured, by which a summary has it.
    """

    names: tuple[str, ...] = ("name",)
    main = "total_ns"
    measure: str

    def measured(self, part: Part) -> Any:
        """Return the statistics of a run."""
        raise NotImplementedError

    def pooled(self, runs: Sequence[Any]) -> Any:
        """Return the statistics of several runs as those of one."""
        raise NotImplementedError

    def figures(self, found: Any, length_ns: int) -> Figures:
        """Return the figures of statistics of ranges that are this long together."""
        raise NotImplementedError

    def entities(self, part: Part) -> list[Entity] | None:  # noqa: ARG002 - of those that have some
        """Return the entities in the keys, in order of appearance; None if keys have none."""
        return None

    def matched(self, found: Sequence[Any], split: int) -> Sequence[Any]:  # noqa: ARG002 - of those that do
        """Return the statistics of runs, those before first, with the keys that both sides have."""
        return found

    def renamed(self, found: Any, names: Mapping[str, str]) -> Any:  # noqa: ARG002 - as above
        """Return the statistics with other names of entities, by their keys."""
        return found


class _States(Grouping):
    """States, of all entities of a kind or of each."""

    def __init__(self, by: Literal["state", "entity"], keep: Keep, *, quantiles: bool) -> None:
        self._by = by
        self._keep = keep
        self._quantiles = quantiles
        self.measure = by
        self.names = ("kind", "state") if by == "state" else ("kind", "entity", "state")

    def measured(self, part: Part) -> StateStatistics:
        return state_statistics(
            with_sampled_states(part.history),
            by=self._by,
            quarks=part.threads,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            keep=self._keep,
            quantiles=self._quantiles,
        )

    def pooled(self, runs: Sequence[StateStatistics]) -> StateStatistics:
        return _added(runs, added_statistics)

    def figures(self, found: StateStatistics, length_ns: int) -> Figures:
        keys, columns = _of_rows(found.rows)
        return Figures(keys, _with_rate(columns, length_ns))

    def entities(self, part: Part) -> list[Entity] | None:
        if self._by == "state":
            return None
        history = with_sampled_states(part.history)
        return entities_of(history, state_quarks(history), of_paths=True)

    def renamed(self, found: StateStatistics, names: Mapping[str, str]) -> StateStatistics:
        def new(entity: str | None) -> str:
            return names[entity or ""]

        assert found.durations is not None
        keys = [(kind, key, new(entity)) for kind, key, entity in found.durations.keys]
        return replace(
            found,
            rows=[replace(row, entity=new(row.entity)) for row in found.rows],
            existed_ns={(kind, new(entity)): ns for (kind, entity), ns in found.existed_ns.items()},
            durations=found.durations.renamed(keys),
        )


class _Spans(Grouping):
    """Spans by name, category or thread."""

    main = "self_ns"

    def __init__(self, by: SpanGrouping, keep: Keep) -> None:
        self._by = by
        self._keep = keep
        self.names = ("lane", "name") if by == "lane" else (by,)
        self.measure = by

    def measured(self, part: Part) -> SpanStatistics:
        threads = thread_quarks(part.history) if part.threads is None else part.threads
        return span_statistics(
            part.history,
            self._by,
            # without threads there are asynchronous operations
            quarks=threads if len(threads) else None,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            keep=self._keep,
        )

    def pooled(self, runs: Sequence[SpanStatistics]) -> SpanStatistics:
        return _added(runs, added_span_statistics)

    def figures(self, found: SpanStatistics, length_ns: int) -> Figures:
        columns: dict[str, Numbers] = {
            name: each for name, each in figure_values(found).items() if not FIGURES[name].if_any
        }
        columns["covered_ns"] = found.covered_ns
        columns["share"] = found.covered_ns / max(1, length_ns)
        keys: list[Key] = [(key or _NONE,) for key in found.keys]
        if self._by == "lane":
            keys = [tuple(key[0].split(BETWEEN, 1)) for key in keys]
        return Figures(keys, _with_rate(columns, length_ns))

    def entities(self, part: Part) -> list[Entity] | None:
        if self._by not in {"thread", "lane"}:
            return None
        return entities_of(part.history, part.history.spans().threads, of_paths=False)

    def renamed(self, found: SpanStatistics, names: Mapping[str, str]) -> SpanStatistics:
        def new(key: str | None) -> str:
            path, between, name = (key or "").partition(BETWEEN)
            return names[path] + between + name

        assert found.durations is not None
        return replace(
            found,
            keys=[*map(new, found.keys)],
            durations=found.durations.renamed([*map(new, found.durations.keys)]),
        )


class _Calls(Grouping):
    """Functions of the call trees of samples, or of spans."""

    main = "self_ns"

    def __init__(self, of: Counted) -> None:
        self._of = of
        self.measure = f"calls of {of}"

    def measured(self, part: Part) -> _Tree:
        history, start_ns, end_ns, threads = part
        return call_tree(history, threads, start_ns=start_ns, end_ns=end_ns, of=self._of)

    def pooled(self, runs: Sequence[_Tree]) -> _Tree:
        unit = one_unit(unit for tree, unit in runs if len(tree))
        return added_trees([tree for tree, _ in runs]), unit

    def figures(self, found: _Tree, length_ns: int) -> Figures:
        tree, unit = found
        rows = by_name(tree)
        own = _numbers([row.own for row in rows])
        total = _numbers([row.total for row in rows])
        count = _numbers([row.calls for row in rows])
        columns: dict[str, Numbers] = {"self_ns": own, "total_ns": total, "count": count}
        columns["share"] = total / max(1.0, own.sum(dtype=np.float64))
        return Figures([(row.name,) for row in rows], _with_rate(columns, length_ns), unit)


class _Stacks(_Calls):
    """Stacks of call trees, matched from the outermost function on."""

    names = ("stack",)

    def matched(self, found: Sequence[_Tree], split: int) -> list[_Tree]:
        trees = [tree for tree, _ in found]
        shared = on_shared_stacks(trees[:split], trees[split:], OTHERS)
        return [(tree, unit) for tree, (_, unit) in zip(shared, found, strict=True)]

    def figures(self, found: _Tree, length_ns: int) -> Figures:
        tree, unit = found
        columns: dict[str, Numbers] = {
            "self_ns": tree.own,
            "total_ns": tree.total,
            "count": tree.count,
        }
        columns["share"] = tree.total / max(1.0, tree.own.sum(dtype=np.float64))
        texts: list[str] = []
        letters = 0
        names = tree.stacks.frames
        for above, frame in zip(
            tree.stacks.parent.tolist(), tree.stacks.frame.tolist(), strict=True
        ):
            text = f"{texts[above]};{names[frame]}" if above >= 0 else names[frame]
            letters += len(text)
            if letters > _MOST_LETTERS:
                raise MeantimeError("these stacks are too many, or too deep; compare by name")
            texts.append(text)
        return Figures([(text,) for text in texts], _with_rate(columns, length_ns), unit)


class _Groups(Grouping):
    """Requests, tasks and callbacks of a recording, by what they have in common."""

    def __init__(self, by: GroupBy, keep: Keep) -> None:
        self._by = by
        self._keep = keep
        self.names = ("kind", by)
        self.measure = by

    def measured(self, part: Part) -> StateStatistics:
        found = group_statistics(
            part.history, by=self._by, start_ns=part.start_ns, end_ns=part.end_ns
        )
        lengths = [found.lengths_ns[row.kind, row.key] for row in found.rows]
        group = np.repeat(np.arange(len(lengths), dtype=np.int32), [*map(len, lengths)])
        return grouped_statistics(
            "state",
            found.range_ns,
            [(row.kind, row.key, None) for row in found.rows],
            group,
            np.concatenate([np.empty(0, np.int64), *lengths]),
            {(row.kind, None): part.end_ns - part.start_ns for row in found.rows},
            self._keep,
            [row.total_ns for row in found.rows],
        )

    def pooled(self, runs: Sequence[StateStatistics]) -> StateStatistics:
        return added_statistics(runs)

    def figures(self, found: StateStatistics, length_ns: int) -> Figures:
        keys, columns = _of_rows(found.rows)
        # several are under way at once
        del columns["share"]
        return Figures([key[:2] for key in keys], _with_rate(columns, length_ns))


class _Tags(Grouping):
    """States with a tag: what they were about."""

    names = ("kind", "tag", "state")
    measure = "tag"

    def __init__(self, keep: Keep) -> None:
        self._keep = keep

    def measured(self, part: Part) -> StateStatistics:
        return tag_statistics(
            part.history,
            quarks=part.threads,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            keep=self._keep,
        )

    def pooled(self, runs: Sequence[StateStatistics]) -> StateStatistics:
        return added_statistics(runs)

    def figures(self, found: StateStatistics, length_ns: int) -> Figures:
        keys, columns = _of_rows(found.rows)
        return Figures(keys, _with_rate(columns, length_ns))


class _Budgets(Grouping):
    """What time was spent on, as `explain` adds it up."""

    names = ("class", "what")
    measure = "budget"

    def measured(self, part: Part) -> tuple[Budget, str]:
        found = _explained(part)
        return found.budget, found.unit

    def pooled(self, runs: Sequence[tuple[Budget, str]]) -> tuple[Budget, str]:
        rows = chain.from_iterable(budget.rows for budget, _ in runs)
        unit = one_unit(unit for budget, unit in runs if budget.rows)
        return Budget.of_rows(row[:3] for row in rows), unit

    def figures(self, found: tuple[Budget, str], length_ns: int) -> Figures:  # noqa: ARG002 - as of others
        budget, unit = found
        return Figures(
            [(row.kind.text, row.label) for row in budget.rows],
            {
                "total_ns": _numbers([row.total_ns for row in budget.rows]),
                "share": _numbers([row.share for row in budget.rows]),
            },
            unit,
        )


class _Conclusions(Grouping):
    """What `explain` measured, by its id; a share is the mean of those of runs."""

    names = ("conclusion",)
    main = "share"
    measure = "conclusion"

    def measured(self, part: Part) -> dict[str, tuple[float, float]]:
        # of one id the most important is the first
        return {
            each.id: (
                np.nan if each.value_ns is None else float(each.value_ns),
                np.nan if each.share is None else each.share,
            )
            for each in reversed(_explained(part).measures)
        }

    def pooled(
        self, runs: Sequence[dict[str, tuple[float, float]]]
    ) -> dict[str, tuple[float, float]]:
        shares: dict[str, float] = {}
        times: dict[str, float] = {}
        for name, (time_ns, share) in chain.from_iterable(run.items() for run in runs):
            times[name] = times.get(name, 0.0) + time_ns
            shares[name] = shares.get(name, 0.0) + share
        return {name: (times[name], shares[name] / len(runs)) for name in shares}

    def figures(self, found: dict[str, tuple[float, float]], length_ns: int) -> Figures:  # noqa: ARG002 - as of others
        values = np.array([*found.values()], np.float64).reshape(-1, 2)
        columns: dict[str, Numbers] = dict(zip(("total_ns", "share"), values.T, strict=True))
        return Figures([(name,) for name in found], columns)


def grouping(by: By, of: Counted, *, quantiles: bool = True, keep: Keep = "exact") -> Grouping:
    """Return what rows are of.

    Args:
        by: What they are of.
        of: Whether names are those of spans or of samples.
        quantiles: Whether the quantiles of each run are needed.
        keep: How durations are kept: as a `sketch` where some are from a summary.

    Raises:
        UsageError: If samples are counted, and rows are of spans.
    """
    if of == "samples" and by in _OF_SPANS:
        raise UsageError(f"spans are compared by {by}; these traces have samples only")
    return groupings(of, quantiles=quantiles, keep=keep)[by]()


def groupings(
    of: Counted, *, quantiles: bool = True, keep: Keep = "exact"
) -> dict[By, Callable[[], Grouping]]:
    """Return by name what rows may be of; arguments as of `grouping`."""
    return {
        "state": lambda: _States("state", keep, quantiles=quantiles),
        "entity": lambda: _States("entity", keep, quantiles=quantiles),
        "tag": lambda: _Tags(keep),
        "name": lambda: _Calls("samples") if of == "samples" else _Spans("name", keep),
        "category": lambda: _Spans("category", keep),
        "thread": lambda: _Spans("thread", keep),
        "lane": lambda: _Spans("lane", keep),
        "stack": lambda: _Stacks(of),
        "request": lambda: _Groups("request", keep),
        "route": lambda: _Groups("route", keep),
        "function": lambda: _Groups("function", keep),
        "site": lambda: _Groups("site", keep),
        "budget": _Budgets,
        "conclusion": _Conclusions,
    }


def default_by(history: History) -> By:
    """Return what rows are of unless asked otherwise: names of spans or samples, or states."""
    if len(history.spans()) or (history.samples().stack >= 0).any():
        return "name"
    return "state"


def one_unit(units: Iterable[str]) -> str:
    """Return the unit of all runs.

    Raises:
        UsageError: If they differ.
    """
    found = sorted(set(units))
    if len(found) > 1:
        raise UsageError(f"cannot compare {found[0]} with {found[1]}")
    return found[0] if found else "ns"


def _of_rows(rows: Sequence[StatisticsRow]) -> tuple[list[Key], dict[str, Numbers]]:
    """Return the keys and the figures of rows of statistics."""
    keys: list[Key] = [
        (row.kind, row.key) if row.entity is None else (row.kind, row.entity, row.key)
        for row in rows
    ]
    return keys, {
        figure.key: _numbers([getattr(row, figure.key) for row in rows])
        for figure in figures_of(StatisticsRow)
    }


def _numbers(values: Sequence[float]) -> Numbers:
    """Return a column of numbers; integers stay exact where 64 bits are enough."""
    column = np.array(values if len(values) else np.empty(0, np.int64))
    return column if column.dtype.kind in "if" else column.astype(np.float64)


def _added(runs: Sequence[_Sum], added: Callable[[Sequence[_Sum]], _Sum]) -> _Sum:
    """Return the sum of statistics; of one that was not made to be added, itself."""
    return runs[0] if len(runs) == 1 and runs[0].durations is None else added(runs)


def _with_rate(columns: dict[str, Numbers], length_ns: int) -> dict[str, Numbers]:
    """Return the figures with how often a second something occurred."""
    rate: Numbers = columns["count"] * np.float64(10**9 / max(1, length_ns))
    return columns | {"rate": rate}


# Of a history that does not change, the latest range: its budget and its conclusions are measured
# one after the other.
_EXPLAINED: WeakKeyDictionary[History, tuple[Range, Explanation]] = WeakKeyDictionary()


def _explained(part: Part) -> Explanation:
    range_ns = part.start_ns, part.end_ns
    known = _EXPLAINED.get(part.history) if part.history.built else None
    if known is not None and known[0] == range_ns:
        return known[1]
    found = explain(part.history, start=part.start_ns, end=part.end_ns)
    if part.history.built:
        _EXPLAINED[part.history] = range_ns, found
    return found


def entities_of(history: History, quarks: Int32s, *, of_paths: bool) -> list[Entity]:
    """Return entities with the names, other than ids, that the trace has for them."""
    attributes = history.attributes
    found = []
    for quark, thread in zip(quarks.tolist(), threads_of(history, quarks.tolist()), strict=True):
        path = attributes.path(quark)
        key = entity_name(path) if of_paths else attributes.text(quark)
        name = history.names.get(quark) or thread.name or entity_name(path)
        found.append(Entity(key, name))
    return found
