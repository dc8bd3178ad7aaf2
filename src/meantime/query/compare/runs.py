"""Runs on two sides, measured and compared row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.model.durations import FIGURES
from meantime.query.compare.certainty import LEVEL, adjusted, changes, most_rows
from meantime.query.compare.comparison import ComparedRow, Comparison, Interval
from meantime.query.compare.grouping import default_by, grouping, one_unit
from meantime.query.compare.matching import matched
from meantime.query.compare.summary_file import Summary
from meantime.query.counting import what_counts
from meantime.query.duration_sums import SKETCH_ERROR
from meantime.query.filtering import matching
from meantime.query.ranges import clipped
from meantime.query.sentences import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.query.compare.grouping import Figures, Grouping, Key
    from meantime.query.compared_by import By
    from meantime.query.counting import Counted
    from meantime.query.duration_sums import Keep
    from meantime.query.parts import Part

    # A run: a range of a history, or what was kept of one.
    Run: TypeAlias = Part | Summary

    Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = ["compared", "compared_measures"]

# Figures that a run has none of where nothing occurred are 0 there.
_ADDED = ("count", "total_ns", "self_ns", "covered_ns", "rate", "share")
# Of these, a side has the mean over its runs; of others, that of all its durations.
_OF_RUNS = ("count", "total_ns", "self_ns", "covered_ns")


# What other work on the machine disturbs least.
_SHORTEST = "min_ns"


class _Side(NamedTuple):
    """One side: the figures of each run, and those of all together."""

    runs: list[Figures]
    pooled: Figures
    lengths_ns: Sequence[int]


_Sides: TypeAlias = tuple[_Side, _Side]
# The figures of a row on both sides.
_Figured: TypeAlias = tuple["dict[str, float] | None", "dict[str, float] | None"]


def compared(
    before: Sequence[Run],
    after: Sequence[Run],
    *,
    by: By | None = None,
    of: Counted | None = None,
    figure: str | None = None,
    pattern: str | None = None,
    left_out: str | None = None,
    noticeable: float = 0.02,
) -> Comparison:
    """Return what changed from some runs to others, each a range of a history or a summary.

    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> old, new = (part_of(history_from_picture(f"disk0  {line}"), None, None)
    ...             for line in ("aab", "aaaab"))
    >>> [(row.key[1], row.change, row.part) for row in compared([old], [new]).rows]
    [('a', 2.0, 0.6666666666666666), ('b', 0.0, 0.0)]

    Args:
        before: The runs before; at least one.
        after: The runs after; at least one.
        by: What rows are of; by default names, if the first run has spans or samples, or states.
        of: Count `spans` or `samples`, where a trace has both.
        figure: The figure that is compared, by its title or its name in JSON; by default the time
            of rows that add up.
        pattern: Only rows with this name, or whose name contains a match of this regular
            expression.
        left_out: What is left out of the names of entities: a regular expression.
        noticeable: The smallest change that counts, as a part of what was before.

    Raises:
        MeantimeError: If the pattern matches no row.
        UsageError: If rows have no such figure, or sides have different units.
    """
    every = [*before, *after]
    first, are_summaries = every[0], [isinstance(run, Summary) for run in every]
    by = by or (first.by if isinstance(first, Summary) else default_by(first.history))
    counts = of or (first.of if isinstance(first, Summary) else what_counts(first.history))
    # a sketch and exact durations do not add up
    keep: Keep = "sketch" if any(are_summaries) else "exact"
    rows_of = grouping(by, counts, quantiles=_is_quantile(figure), keep=keep)
    found = [
        run.measured(rows_of) if isinstance(run, Summary) else rows_of.measured(run)
        for run in every
    ]
    notes = _lost(before, after)
    if any(are_summaries):
        notes.append(f"Quantiles are within {SKETCH_ERROR:.1%}: {_counted(are_summaries)}.")
    entities = [
        run.entities.get(rows_of.measure) if isinstance(run, Summary) else rows_of.entities(run)
        for run in every
    ]
    named = [each for each in entities if each is not None]
    if named:
        names, rule = matched(named, left_out)
        found = [rows_of.renamed(each, own) for each, own in zip(found, names, strict=True)]
        notes.append(f"Entities are matched {rule}.")
    elif left_out is not None:
        raise UsageError(f"names of entities are matched by entity or thread, not by {by}")
    lengths_ns = [part.end_ns - part.start_ns for part in every]
    return compared_measures(
        rows_of,
        found,
        lengths_ns,
        len(before),
        by=by,
        of=counts,
        figure=figure,
        pattern=pattern,
        noticeable=noticeable,
        notes=notes,
    )


def compared_measures(
    rows_of: Grouping,
    found: Sequence[Any],
    lengths_ns: Sequence[int],
    split: int,
    *,
    by: By,
    of: Counted = "spans",
    figure: str | None = None,
    pattern: str | None = None,
    noticeable: float = 0.02,
    notes: Sequence[str] = (),
) -> Comparison:
    """Return what changed from some runs, which are measured, to others.

    Args:
        rows_of: What rows are of.
        found: What this grouping measured of each run, those before first.
        lengths_ns: How long each run took.
        split: How many runs are before; at least one, and at least one is after.
        by: As `compared` takes it, and all others.
        of: What names are of.
        figure: The figure.
        pattern: Which rows.
        noticeable: The smallest change.
        notes: What limits the comparison, a sentence each.

    Raises:
        MeantimeError: If the pattern matches no row.
        UsageError: If rows have no such figure, or sides have different units.
    """
    found = rows_of.matched(found, split)
    sides = (
        _side(rows_of, found[:split], lengths_ns[:split]),
        _side(rows_of, found[split:], lengths_ns[split:]),
    )
    unit = one_unit(side.pooled.unit for side in sides if side.pooled.keys)
    chosen = _figure(figure, rows_of, sides)
    # conclusions may be without a share
    keys = [*dict.fromkeys(key for side in sides for key in _keys_with(side.pooled, chosen))]
    if pattern is not None:
        is_meant = matching(pattern, [part for key in keys for part in key])
        if keys and not (keys := [key for key in keys if any(map(is_meant, key))]):
            raise MeantimeError(f"the filter {pattern!r} matches no row")
    empty = Comparison(
        by,
        of,
        rows_of.names,
        chosen,
        unit,
        (split, len(found) - split),
        noticeable,
        notes=tuple(notes),
    )
    return _compared(empty, rows_of, sides, keys)


def _side(rows_of: Grouping, found: Sequence[Any], lengths_ns: Sequence[int]) -> _Side:
    runs = [
        rows_of.figures(each, length_ns) for each, length_ns in zip(found, lengths_ns, strict=True)
    ]
    pooled = rows_of.figures(rows_of.pooled(found), sum(lengths_ns))
    if len(runs) > 1:
        for name in pooled.columns.keys() & set(_OF_RUNS):
            pooled.columns[name] = pooled.columns[name] / len(runs)
    return _Side(runs, pooled, lengths_ns)


def _is_quantile(figure: str | None) -> bool:
    return any(
        each.percent is not None and figure in {each.key, each.title} for each in FIGURES.values()
    )


def _figure(name: str | None, rows_of: Grouping, sides: _Sides) -> str:
    """Return the figure with a title or name.

    Raises:
        UsageError: If rows have none.
    """
    if name is None:
        return rows_of.main
    there = dict.fromkeys(key for side in sides for key in side.pooled.columns)
    titles = {FIGURES[key].title if key in FIGURES else key: key for key in there}
    if name in titles:
        return titles[name]
    if name in there:
        return name
    raise UsageError(f"rows have no figure {name!r}; choose one of {', '.join(titles)}")


class _Table:
    """What follows from the compared figure by row and run, on both sides."""

    def __init__(self, before: Float64s, after: Float64s, noticeable: float) -> None:
        self.before, self.after = before, after
        self.certain = _Certainty.of(before, after)
        self.means = before.mean(axis=1), after.mean(axis=1)
        self._noticeable = noticeable

    def row(self, at: int, key: Key, sides: _Figured, whole: float = 0.0) -> ComparedRow:
        """Return a row; its change is a part of this whole, if there is one."""
        before = float(self.means[0][at])
        change = _known(self.means[1][at] - before)
        relative = None
        if change is not None and (before or not change):
            relative = change / before if change else 0.0
        is_large = bool(change) and (relative is None or abs(relative) >= self._noticeable)
        corrected = _known(self.certain.corrected[at])
        return ComparedRow(
            key,
            *sides,
            tuple(self.before[at].tolist()),
            tuple(self.after[at].tolist()),
            change,
            relative,
            self.certain.interval(at, before),
            _known(self.certain.probability[at]),
            corrected,
            change / whole if whole and change is not None else None,
            is_large and corrected is not None and corrected <= LEVEL,
        )


def _compared(found: Comparison, rows_of: Grouping, sides: _Sides, keys: list[Key]) -> Comparison:
    """Return a comparison with its rows."""
    adds_up = found.figure == rows_of.main and rows_of.main != "share"
    kinds = [*dict.fromkeys(_kind(rows_of, key) for key in keys)] if adds_up else []
    kind_of = [kinds.index(_kind(rows_of, key)) for key in keys] if adds_up else []
    # the length, the wholes, and the rows
    values: list[Float64s] = []
    for side in sides:
        rows = _aligned(side, keys, found.figure)
        wholes = np.zeros((len(kinds), len(side.runs)))
        if adds_up:
            np.add.at(wholes, kind_of, rows)
        values.append(np.concatenate([[np.array(side.lengths_ns, np.float64)], wholes, rows]))
    table = _Table(values[0], values[1], found.noticeable)
    before, after = table.means
    first = 1 + len(kinds)
    figured = zip(*(_by_key(side.pooled, keys) for side in sides), strict=True)
    every = [
        table.row(first + at, key, both, float(before[1 + kind_of[at]]) if adds_up else 0.0)
        for at, (key, both) in enumerate(zip(keys, figured, strict=True))
    ]
    moved = np.nan_to_num(
        np.subtract(*(_aligned(side, keys, rows_of.main).mean(axis=1) for side in sides))
    )
    order = sorted(range(len(keys)), key=lambda at: (-abs(moved[at]), keys[at]))

    def sums(at: int, figure: str) -> _Figured:
        return {figure: float(before[at])}, {figure: float(after[at])}

    wholes_of = [
        table.row(
            1 + at, (kind,) if kind else (), sums(1 + at, found.figure), float(before[1 + at])
        )
        for at, kind in enumerate(kinds)
    ]
    notes = [*found.notes, *_few(found.runs, len(table.before), table.certain.tested)]
    if adds_up and found.is_certain and not any(row.is_noticeable for row in (*every, *wholes_of)):
        notes += _by_the_shortest(found, sides, keys)
    return replace(
        found,
        length=table.row(0, (), sums(0, "total_ns")),
        wholes=tuple(wholes_of),
        rows=tuple(every[at] for at in order),
        tested=table.certain.tested,
        notes=tuple(notes),
    )


def _by_the_shortest(found: Comparison, sides: _Sides, keys: list[Key]) -> list[str]:
    """Return which rows changed noticeably in their shortest duration, in words.

    Other work on the machine makes durations longer, and so the time in all differs from run to run
    by more than what changed. The shortest of many durations was not disturbed.
    """
    if _SHORTEST not in sides[0].pooled.columns or _SHORTEST not in sides[1].pooled.columns:
        return []
    before, after = (_aligned(side, keys, _SHORTEST) for side in sides)
    table = _Table(before, after, found.noticeable)
    figured = zip(*(_by_key(side.pooled, keys) for side in sides), strict=True)
    by_it = replace(found, figure=_SHORTEST)
    rows = [
        table.row(at, key, both) for at, (key, both) in enumerate(zip(keys, figured, strict=True))
    ]
    changed = sorted(
        (row for row in rows if row.is_noticeable), key=lambda row: -abs(row.relative or 0)
    )
    if not changed:
        return []
    more = f"; and {len(changed) - 1:,} more" if len(changed) > 1 else ""
    text = (
        "Other work on the machine makes the time in all differ from run to run, and disturbs the"
    )
    text += f" shortest of many durations least: {by_it.described(changed[0])}{more}"
    return [f"{text}. Compare these with --figure shortest."]


class _Certainty(NamedTuple):
    """By row, how sure its change is; NaN where that is not known."""

    low: Float64s
    high: Float64s
    probability: Float64s
    corrected: Float64s
    tested: int

    @classmethod
    def of(cls, before: Float64s, after: Float64s) -> _Certainty:
        """Return how sure the change of rows is, of which each side has a column a run.

        Where the runs cannot distinguish all rows, those are tested that differ most between all
        runs. That does not depend on the side of a run, so it makes no change likelier.
        """
        every = np.concatenate([before, after], axis=1)
        spread = np.where(np.isfinite(every).all(axis=1), every.std(axis=1), 0.0)
        most = most_rows(before.shape[1], after.shape[1])
        # what is the same in all runs has not changed, and rows that are equal are one test
        _, first, group = np.unique(every, axis=0, return_index=True, return_inverse=True)
        order = first[np.argsort(-spread[first], kind="stable")]
        chosen = order[spread[order] > 0][:most]
        low, high, probability, corrected = (np.full(len(before), np.nan) for _ in range(4))
        if len(chosen):
            found = changes(before[chosen], after[chosen])
            low[chosen], high[chosen] = found.low, found.high
            probability[chosen] = found.probability
            corrected[chosen] = adjusted(found.probability)
            same = first[group.ravel()]
            low, high, probability, corrected = (
                each[same] for each in (low, high, probability, corrected)
            )
        return cls(low, high, probability, corrected, len(chosen))

    def interval(self, at: int, before: float) -> Interval | None:
        """Return the interval of a change as parts of what was before."""
        if not before or not np.isfinite([self.low[at], self.high[at]]).all():
            return None
        # figures are not negative
        return Interval(max(-1.0, float(self.low[at] / before)), float(self.high[at] / before))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _kind(rows_of: Grouping, key: Key) -> str:
    return key[0] if rows_of.names[0] == "kind" else ""


def _aligned(side: _Side, keys: Sequence[Key], figure: str) -> Float64s:
    """Return a figure by key and run: 0, or NaN if it is not a sum, where a run has none."""
    row_of = {key: row for row, key in enumerate(keys)}
    found = np.full((len(keys), len(side.runs)), 0.0 if figure in _ADDED else np.nan)
    for column, run in enumerate(side.runs):
        if figure in run.columns:
            rows = np.array([row_of.get(key, -1) for key in run.keys], np.intp)
            found[rows[rows >= 0], column] = run.columns[figure][rows >= 0]
    return found


def _by_key(found: Figures, keys: Sequence[Key]) -> list[dict[str, float] | None]:
    """Return the figures of each key; None where it does not occur."""
    columns = {name: column.tolist() for name, column in found.columns.items()}
    row_of = {key: row for row, key in enumerate(found.keys)}
    return [
        None
        if (row := row_of.get(key)) is None
        else {name: each[row] for name, each in columns.items()}
        for key in keys
    ]


def _keys_with(found: Figures, figure: str) -> list[Key]:
    """Return the keys that have a figure."""
    has = np.isfinite(found.columns[figure]) if figure in found.columns else np.zeros(0, np.bool_)
    return [key for key, each in zip(found.keys, has.tolist(), strict=False) if each]


def _counted(are_summaries: Sequence[bool]) -> str:
    """Return how many runs are summaries, in words."""
    number, every = sum(are_summaries), len(are_summaries)
    if number == every:
        return "all runs are summaries"
    what = "is a summary" if number == 1 else "are summaries"
    return f"{counted(number, 'run')} of {every:,} {what}"


def _lost(before: Sequence[Run], after: Sequence[Run]) -> list[str]:
    """Return what was not recorded of runs, in words."""
    notes = []
    for name, parts in (("before", before), ("after", after)):
        lost_ns = [
            part.lost_ns
            if isinstance(part, Summary)
            else sum(end - start for start, end in clipped(part.history.lost, *part[1:3]))
            for part in parts
        ]
        if not any(lost_ns):
            continue
        whole_ns = sum(part.end_ns - part.start_ns for part in parts)
        runs = counted(sum(map(bool, lost_ns)), "run")
        notes.append(
            f"Events were lost in {sum(lost_ns) / max(1, whole_ns):.1%} of the time of the runs"
            f" {name} ({runs}): figures are of what was recorded."
        )
    return notes


def _few(runs: tuple[int, int], rows: int, tested: int) -> list[str]:
    """Return what so many runs cannot say, in words."""
    most = most_rows(*runs)
    if not most:
        each = "One run each cannot" if max(runs) == 1 else "So few runs cannot"
        return [f"{each} distinguish a change from noise; record at least 4 a side."]
    if tested == most and rows > most:
        each = f"{runs[0]} runs a side" if runs[0] == runs[1] else f"{runs[0]} and {runs[1]} runs"
        if most == 1:
            return [f"{each} are enough to test 1 row: of {rows:,}, the one that varies most."]
        return [f"{each} are enough to test {most:,} rows: of {rows:,}, those that vary most."]
    return []
