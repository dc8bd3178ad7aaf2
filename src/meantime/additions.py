"""Readers and export formats that installed packages add by entry points.

Entry points are loaded only when no built-in reader or format matches, so that they cost nothing
otherwise. Unusable ones are skipped with one warning that names their package.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["READERS", "VIEWS", "Addition", "additions", "warn_about"]

READERS = "meantime.readers"
VIEWS = "meantime.views"


class Addition(NamedTuple):
    """A loaded entry point.

    Attributes:
        name: The entry point's name.
        package: The distribution that declares it.
        value: The object.
    """

    name: str
    package: str
    value: Any


@cache
def additions(group: str, usable: Callable[[Any], bool]) -> tuple[Addition, ...]:
    """Load the entry points of a group, in order of their names; once per process.

    Args:
        group: `READERS` or `VIEWS`.
        usable: Returns whether a loaded object fits the group.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    found = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        package = "an unknown package" if point.dist is None else point.dist.name
        try:
            value = point.load()
        except Exception as error:  # noqa: BLE001 - the import may run any code
            warn_about(Addition(point.name, package, None), group, f"cannot be loaded ({error!r})")
            continue
        addition = Addition(point.name, package, value)
        if usable(value):
            found.append(addition)
        else:
            warn_about(addition, group, f"is not one ({point.value})")
    return tuple(found)


@cache
def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def warn_about(addition: Addition, group: str, reason: str) -> None:
    """Warn that an entry point is skipped; once for each reason."""
    text = (
        f"{addition.package}: its entry point {addition.name!r} in {group} {reason}; it is skipped"
    )
    # the text of an exception may have several lines
    _warn(" ".join(text.split()))
