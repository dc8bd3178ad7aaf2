"""The figures of one run, and of several as one, by what the rows of a comparison are of."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from meantime.errors import UsageError
from meantime.model.attributes import entity_name
from meantime.model.durations import figure_values, figures_of
from meantime.query.durations import added_span_statistics, span_statistics
from meantime.query.explain.budget import Budget
from meantime.query.explain.by_family import explain
from meantime.query.sampled_states import with_sampled_states
from meantime.query.statistics import (
    StatisticsRow,
    added_statistics,
    state_quarks,
    state_statistics,
)
from meantime.query.threads import thread_quarks, threads_of
from meantime.query.trees import NameWeight, by_name, call_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.query.counting import Counted
    from meantime.query.durations import Grouping as SpanGrouping
    from meantime.query.durations import SpanStatistics
    from meantime.query.explain import Explanation
    from meantime.query.parts import Part
    from meantime.query.stacks import CallTree
    from meantime.query.statistics import StateStatistics

    Numbers: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64]

__all__ = [
    "By",
    "Entity",
    "Figures",
    "Grouping",
    "Key",
    "default_by",
    "entities_of",
    "grouping",
    "weights",
]

By: TypeAlias = Literal["state", "entity", "name", "category", "thread", "budget", "conclusion"]
Key: TypeAlias = "tuple[str, ...]"

_NONE = "(none)"
_Sum = TypeVar("_Sum", "StateStatistics", "SpanStatistics")


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
    """

    names: tuple[str, ...] = ("name",)
    main = "total_ns"

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

    def renamed(self, found: Any, names: Mapping[str, str]) -> Any:  # noqa: ARG002 - as above
        """Return the statistics with other names of entities, by their keys."""
        return found


class _States(Grouping):
    """States, of all entities of a kind or of each."""

    def __init__(self, by: Literal["state", "entity"], *, quantiles: bool = True) -> None:
        self._by = by
        self._quantiles = quantiles
        self.names = ("kind", "state") if by == "state" else ("kind", "entity", "state")

    def measured(self, part: Part) -> StateStatistics:
        return state_statistics(
            with_sampled_states(part.history),
            by=self._by,
            quarks=part.threads,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            keep="exact",
            quantiles=self._quantiles,
        )

    def pooled(self, runs: Sequence[StateStatistics]) -> StateStatistics:
        return _added(runs, added_statistics)

    def figures(self, found: StateStatistics, length_ns: int) -> Figures:
        keys: list[Key] = [
            (row.kind, row.key) if row.entity is None else (row.kind, row.entity, row.key)
            for row in found.rows
        ]
        columns = {
            figure.key: _numbers([getattr(row, figure.key) for row in found.rows])
            for figure in figures_of(StatisticsRow)
        }
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

    def __init__(self, by: SpanGrouping) -> None:
        self._by = by
        self.names = (by,)

    def measured(self, part: Part) -> SpanStatistics:
        threads = thread_quarks(part.history) if part.threads is None else part.threads
        return span_statistics(
            part.history,
            self._by,
            # without threads there are asynchronous operations
            quarks=threads if len(threads) else None,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            keep="exact",
        )

    def pooled(self, runs: Sequence[SpanStatistics]) -> SpanStatistics:
        return _added(runs, added_span_statistics)

    def figures(self, found: SpanStatistics, length_ns: int) -> Figures:
        columns: dict[str, Numbers] = {**figure_values(found), "covered_ns": found.covered_ns}
        columns["share"] = found.covered_ns / max(1, length_ns)
        return Figures([(key or _NONE,) for key in found.keys], _with_rate(columns, length_ns))

    def entities(self, part: Part) -> list[Entity] | None:
        if self._by != "thread":
            return None
        return entities_of(part.history, part.history.spans().threads, of_paths=False)

    def renamed(self, found: SpanStatistics, names: Mapping[str, str]) -> SpanStatistics:
        assert found.durations is not None
        keys = [names[key or ""] for key in found.durations.keys]
        return replace(
            found,
            keys=[names[key or ""] for key in found.keys],
            durations=found.durations.renamed(keys),
        )


class _Weights(NamedTuple):
    """The weights of functions, and their unit."""

    rows: list[NameWeight]
    unit: str


class _Calls(Grouping):
    """Functions of call trees: of samples, unless `weights` measured others."""

    main = "self_ns"

    def measured(self, part: Part) -> _Weights:
        return weights(
            *call_tree(
                part.history, part.threads, start_ns=part.start_ns, end_ns=part.end_ns, of="samples"
            )
        )

    def pooled(self, runs: Sequence[_Weights]) -> _Weights:
        if len(runs) == 1:
            return runs[0]
        sums: dict[str, NameWeight] = {}
        for row in chain.from_iterable(run.rows for run in runs):
            before = sums.get(row.name, NameWeight(row.name, 0, 0, 0))
            numbers = (old + new for old, new in zip(before[1:], row[1:], strict=True))
            sums[row.name] = NameWeight(row.name, *cast("Iterable[int]", numbers))
        return _Weights([*sums.values()], one_unit(run.unit for run in runs if run.rows))

    def figures(self, found: _Weights, length_ns: int) -> Figures:
        own = _numbers([row.own for row in found.rows])
        total = _numbers([row.total for row in found.rows])
        count = _numbers([row.calls for row in found.rows])
        columns: dict[str, Numbers] = {"self_ns": own, "total_ns": total, "count": count}
        columns["share"] = total / max(1.0, own.sum(dtype=np.float64))
        return Figures(
            [(row.name,) for row in found.rows], _with_rate(columns, length_ns), found.unit
        )


def weights(tree: CallTree, unit: str) -> _Weights:
    """Return what the grouping of samples by name measures of a run with this call tree."""
    return _Weights(by_name(tree), unit)


class _Budgets(Grouping):
    """What time was spent on, as `explain` adds it up."""

    names = ("class", "what")

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


def grouping(by: By, of: Counted, *, quantiles: bool) -> Grouping:
    """Return what rows are of.

    Args:
        by: What they are of.
        of: Whether names are those of spans or of samples.
        quantiles: Whether the quantiles of each run are needed.

    Raises:
        UsageError: If samples are counted, and not by name.
    """
    if by == "state" or by == "entity":  # noqa: PLR1714 - mypy narrows by ==
        return _States(by, quantiles=quantiles)
    if by == "budget":
        return _Budgets()
    if by == "conclusion":
        return _Conclusions()
    if of == "samples":
        if by != "name":
            raise UsageError(f"spans are compared by {by}; these traces have samples only")
        return _Calls()
    return _Spans(by)


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


def _explained(part: Part) -> Explanation:
    return explain(part.history, start=part.start_ns, end=part.end_ns)


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
