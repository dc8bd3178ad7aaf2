"""Rows that a filter selects: the same language in every command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.errors import UsageError
from meantime.options import FILTER, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Filtered", "matching"]


class Filtered(Options):
    """The option that selects rows.

    Raises:
        UsageError: If it is not a regular expression.
    """

    filter: str | None = FILTER

    def _check(self) -> None:
        if self.filter is not None:
            matching(self.filter, ())


def matching(pattern: str, names: Sequence[str]) -> Callable[[str], object]:
    """Return a function that checks whether a name matches a filter.

    A filter that equals one of the names matches only that one. Any other is a regular expression,
    which matches the names that contain a match.

    >>> names = ["cpu1", "cpu10", "disk1"]
    >>> list(filter(matching("cpu1", names), names)), list(filter(matching("1$", names), names))
    (['cpu1'], ['cpu1', 'disk1'])

    Raises:
        UsageError: If it is not a regular expression.
    """
    if pattern in names:
        return pattern.__eq__
    try:
        return re.compile(pattern).search
    except re.error as error:
        raise UsageError(f"the filter {pattern!r} is not a regular expression: {error}") from None
