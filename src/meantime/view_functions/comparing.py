"""`meantime.compare` and `meantime.diff`: what changed from some runs to others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from meantime.errors import UsageError
from meantime.files import mode_of
from meantime.model.summary_sign import is_summary
from meantime.model.units import duration_ns
from meantime.options import keywords_of, keywords_of_pair
from meantime.query.compare import Summary, compared, summary_of
from meantime.query.compare.summary_file import read_summary
from meantime.query.parts import part_of
from meantime.view_functions.compare_options import CompareOptions, DiffOptions
from meantime.view_functions.sources import Reading, history_of, title_of
from meantime.views.comparison.view import ComparisonView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.model.units import Time
    from meantime.query.compare import Comparison
    from meantime.query.parts import Part
    from meantime.view_functions.sources import Source

    # A history or a path, also of a summary; or a history and where a range of it begins and ends.
    Run: TypeAlias = Source | Summary | tuple[Source, Time | None, Time | None]
    _Sides: TypeAlias = tuple[list[Part | Summary], list[Part | Summary]]

__all__ = ["compare", "diff", "run_of", "summarize"]

# The options that decide which figures are compared.
_COMPARED = ("by", "of", "figure", "filter", "match", "noticeable")


@keywords_of(Reading)
def summarize(source: Source, **given: Any) -> Summary:
    """Return what `compare` and `check_rules` need of a trace, in place of the trace.

    Counts, sums, the shortest and the longest are exact, and quantiles within 0.4 % of a duration
    of that rank. It has the durations of states, spans, requests and tags, the call trees of spans
    and samples, and the budget and conclusions of `explain`. `save` writes it to a file of a few
    megabytes at most.

    >>> from meantime.testing import history_from_picture
    >>> old, new = (history_from_picture(f"disk0  {line}") for line in ("aab", "aaab"))
    >>> compare(summarize(old), new).rows[0].relative
    0.5

    Args:
        source: A history or a path.
        **given: How a path is read: see `Reading`.

    Raises:
        InputError: If a file cannot be read.
    """
    history = history_of(source, Reading(**given)).snapshot()
    return summary_of(part_of(history, None, None), title_of(source), mode_of([source]))


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
        before: The runs before: a history or a path, a range of one as `(source, start, end)`, a
            summary, or a list of these.
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


@keywords_of_pair(DiffOptions)
def diff(before: Run | Sequence[Run], after: Run | Sequence[Run], **given: Any) -> ComparisonView:
    """Return a picture of what changed from some runs to others.

    It has the rows that explain most of the change, with the runs of both sides and the interval of
    each change. Below, a run of each side is drawn over time, from its beginning: what each lane
    did, and where it has more or less of the row that changed most. `view` shows it as a page on
    which both runs are looked at.

    >>> from meantime.testing import history_from_picture
    >>> diff(history_from_picture("disk0  aab"), history_from_picture("disk0  aabb"))
    <Comparison 'history → history': 1 and 1 runs, 2 rows>

    Args:
        before: As `compare` takes it.
        after: As `compare` takes it.
        **given: What is compared, and how paths are read: see `DiffOptions`.

    Raises:
        InputError: If a file cannot be read.
        MeantimeError: If the filter matches no row.
        TimeRangeError: If a range is empty or outside the history.
        UsageError: If an argument is wrong, or the sides cannot be compared.
    """
    options = DiffOptions(**given)
    sides = _sides(before, after, options)
    title = options.title or " → ".join(_title(_listed(each)) for each in (before, after))
    view = ComparisonView(
        _compared(sides, options),
        sides,
        title=title,
        align=options.align,
        left_out=options.match,
        period_ns=None if options.period is None else duration_ns(options.period),
        words=options.words(only=_COMPARED),
    )
    return view.made_of([_source(run) for side in (before, after) for run in _listed(side)])


def _compared(sides: _Sides, options: CompareOptions) -> Comparison:
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
) -> _Sides:
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


def _source(run: Run) -> Source | Summary:
    return run[0] if isinstance(run, tuple) else run


def _title(runs: list[Run]) -> str:
    """Return what a side is called: as its first run, and how many others there are."""
    first, *others = runs
    source = _source(first)
    name = source.title if isinstance(source, Summary) else title_of(source)
    if isinstance(first, tuple):
        name = f"{name} {'..'.join(str(each) for each in first[1:])}"
    return f"{name} and {len(others)} more" if others else name


def _parts(runs: list[Run], options: CompareOptions) -> list[Part | Summary]:
    """Return the ranges of histories of a side, and summaries; a path is read once."""
    found: list[Part | Summary] = []
    opened: dict[str | int, History | Summary] = {}
    for run in runs:
        source, start, end = run if isinstance(run, tuple) else (run, options.start, options.end)
        key = source if isinstance(source, str) else id(source)
        if key not in opened:
            opened[key] = run_of(source, options)
        own = opened[key]
        if isinstance(own, Summary):
            if start is not None or end is not None:
                raise UsageError(
                    f"{own.title}: a summary is of all of its trace; compare ranges of the trace"
                )
            found.append(own)
        else:
            found.append(part_of(own, start, end))
    return found


def run_of(source: Source | Summary, reading: Reading) -> History | Summary:
    """Return the history or the summary that a source is, or that is read from its path.

    Raises:
        InputError: If the file cannot be read.
        UsageError: If a provider is given for what is read already.
    """
    if isinstance(source, str | os.PathLike) and is_summary(source):
        if reading.provider is not None:
            raise UsageError("provider applies to the path of a trace; this is a summary")
        return read_summary(source)
    return source if isinstance(source, Summary) else history_of(source, reading)
