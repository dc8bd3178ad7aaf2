"""`meantime.compare` and `meantime.diff`: what changed from some runs to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from meantime.errors import UsageError
from meantime.options import keywords_of_pair
from meantime.query.compare import compared
from meantime.query.parts import part_of
from meantime.view_functions.compare_options import CompareOptions
from meantime.view_functions.sources import history_of, title_of
from meantime.views.comparison.view import ComparisonView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.model.units import Time
    from meantime.query.compare import Comparison
    from meantime.query.parts import Part
    from meantime.view_functions.sources import Source

    # A history or a path; or one of these, and where a range of it begins and ends.
    Run: TypeAlias = Source | tuple[Source, Time | None, Time | None]

__all__ = ["compare", "diff"]


@keywords_of_pair(CompareOptions)
def compare(before: Run | Sequence[Run], after: Run | Sequence[Run], **given: Any) -> Comparison:
    """Return what changed from some runs to others: where, by how much, and how sure that is.

    Several runs a side are the normal case: a change is certain if it is larger than what else
    differs from run to run. With one run a side there are sizes and no probabilities. A change is
    noticeable if it is certain at 5 %, corrected for the number of rows, and at least `noticeable`.

    >>> from meantime.testing import history_from_picture
    >>> def runs(*lines):
    ...     return [history_from_picture(f"disk0  {line}") for line in lines]
    >>> old = runs("aab", "aaab", "aab", "aabb", "aab")
    >>> new = runs("aabbb", "aabbbb", "abbb", "aabbb", "abbb")
    >>> found = compare(old, new)
    >>> [(row.key, row.change, row.relative) for row in found.rows if row.is_noticeable]
    [(('', 'b'), 2.0, 1.6666666666666667)]

    Args:
        before: The runs before: a history or a path, a range of one as `(source, start, end)`, or a
            list of these.
        after: The runs after.
        **given: What is compared, and how paths are read: see `CompareOptions`.

    Raises:
        InputError: If a file cannot be read.
        MeantimeError: If the filter matches no row.
        TimeRangeError: If a range is empty or outside the history.
        UsageError: If an argument is wrong, or the sides cannot be compared.
    """
    options = CompareOptions(**given)
    return _compared(_sides(before, after, options), options)


@keywords_of_pair(CompareOptions)
def diff(before: Run | Sequence[Run], after: Run | Sequence[Run], **given: Any) -> ComparisonView:
    """Return a picture of what changed from some runs to others.

    It has the rows that explain most of the change, with the runs of both sides and the interval of
    each change. Below, a run of each side is drawn over time, from its beginning: what each lane
    did, and where it has more or less of the row that changed most.

    >>> from meantime.testing import history_from_picture
    >>> diff(history_from_picture("disk0  aab"), history_from_picture("disk0  aabb"))
    <Comparison 'history → history': 1 and 1 runs, 2 rows>

    Args:
        before: As `compare` takes it.
        after: As `compare` takes it.
        **given: What is compared, and how paths are read: see `CompareOptions`.

    Raises:
        InputError: If a file cannot be read.
        MeantimeError: If the filter matches no row.
        TimeRangeError: If a range is empty or outside the history.
        UsageError: If an argument is wrong, or the sides cannot be compared.
    """
    options = CompareOptions(**given)
    sides = _sides(before, after, options)
    title = options.title or " → ".join(_title(_listed(each)) for each in (before, after))
    view = ComparisonView(_compared(sides, options), sides, title=title, align=options.align)
    return view.made_of([_source(run) for side in (before, after) for run in _listed(side)])


def _compared(sides: tuple[list[Part], list[Part]], options: CompareOptions) -> Comparison:
    return compared(
        *sides,
        by=options.by,
        of=options.of,
        figure=options.figure,
        pattern=options.filter,
        left_out=options.match,
        noticeable=options.noticeable,
    )


def _sides(
    before: Run | Sequence[Run], after: Run | Sequence[Run], options: CompareOptions
) -> tuple[list[Part], list[Part]]:
    """Return the runs of both sides.

    Raises:
        UsageError: If a side has none.
    """
    sides = _parts(_listed(before), options), _parts(_listed(after), options)
    for name, parts in zip(("before", "after"), sides, strict=True):
        if not parts:
            raise UsageError(f"there is no run {name}")
    return sides


def _listed(runs: Run | Sequence[Run]) -> list[Run]:
    """Return the runs of a side: a tuple is a range of one."""
    return [*cast("Sequence[Run]", runs)] if isinstance(runs, list) else [cast("Run", runs)]


def _source(run: Run) -> Source:
    return run[0] if isinstance(run, tuple) else run


def _title(runs: list[Run]) -> str:
    """Return what a side is called: as its first run, and how many others there are."""
    first, *others = runs
    name = title_of(_source(first))
    if isinstance(first, tuple):
        name = f"{name} {'..'.join(str(each) for each in first[1:])}"
    return f"{name} and {len(others)} more" if others else name


def _parts(runs: list[Run], options: CompareOptions) -> list[Part]:
    """Return the ranges of histories of a side; a path is read once."""
    found = []
    opened: dict[str | int, History] = {}
    for run in runs:
        source, start, end = run if isinstance(run, tuple) else (run, options.start, options.end)
        key = source if isinstance(source, str) else id(source)
        if key not in opened:
            opened[key] = history_of(source, options)
        found.append(part_of(opened[key], start, end))
    return found
