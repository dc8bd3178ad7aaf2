"""Which entities of several runs are the same one."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import UsageError
from meantime.query.sentences import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.compare.grouping import Entity

__all__ = ["Matched", "matched"]


class Matched(NamedTuple):
    """The names that entities have in a comparison.

    Attributes:
        names: By run, the name of each entity by its key.
        rule: By what they were matched, in words.
    """

    names: list[dict[str, str]]
    rule: str


def matched(runs: Sequence[Sequence[Entity]], left_out: str | None = None) -> Matched:
    r"""Return names under which entities of several runs are the same one.

    Entities with one name are the same one. A name that is not in all runs is compared without its
    numbers, which `N` stands for. Several entities of a run with one name are numbered in
    order of appearance.

    >>> from meantime.query.compare.grouping import Entity
    >>> first = [Entity("1", "main"), Entity("2", "pool-7")]
    >>> matched([first, [Entity("5", "pool-9"), Entity("6", "main")]]).names
    [{'1': 'main', '2': 'pool-N'}, {'5': 'pool-N', '6': 'main'}]

    Args:
        runs: The entities of each run, in order of appearance.
        left_out: What this regular expression matches is left out of all names, in place of the
            rule for numbers.

    Raises:
        UsageError: If it is not a regular expression.
    """
    if left_out is not None:
        try:
            pattern = re.compile(left_out)
        except re.error as error:
            raise UsageError(f"{left_out!r} is not a regular expression: {error}") from None
        stems = [[pattern.sub("", entity.name) for entity in run] for run in runs]
        return Matched(*_numbered(runs, stems, f"by name without what {left_out!r} matches"))
    everywhere = set.intersection(*({entity.name for entity in run} for run in runs))
    stems = [
        [
            entity.name if entity.name in everywhere else re.sub(r"\d+", "N", entity.name)
            for entity in run
        ]
        for run in runs
    ]
    others = sum(entity.name not in everywhere for run in runs for entity in run)
    rule = "by name"
    if others:
        rule += f", without their numbers where a run lacks one ({counted(others, 'entity')})"
    return Matched(*_numbered(runs, stems, rule))


def _numbered(
    runs: Sequence[Sequence[Entity]], stems: Sequence[Sequence[str]], rule: str
) -> tuple[list[dict[str, str]], str]:
    names: list[dict[str, str]] = []
    has_numbers = False
    for run, own in zip(runs, stems, strict=True):
        seen: Counter[str] = Counter()
        found = {}
        for entity, stem in zip(run, own, strict=True):
            seen[stem] += 1
            has_numbers |= seen[stem] > 1
            found[entity.key] = stem if seen[stem] == 1 else f"{stem} #{seen[stem]}"
        names.append(found)
    order = "; entities with one name in order of appearance" if has_numbers else ""
    return names, rule + order
