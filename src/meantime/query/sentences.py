"""How sentences about a trace write durations, numbers and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["FILE", "counted", "listed", "percent", "plural", "times"]

# The place of the trace in the arguments of a command.
FILE = "FILE"


def plural(noun: str) -> str:
    """Return the plural of a noun.

    >>> plural("thread"), plural("process"), plural("entity")
    ('threads', 'processes', 'entities')
    """
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy", "uy")):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def counted(count: int, noun: str) -> str:
    """Return a count and a noun.

    >>> counted(1, "process"), counted(1200, "process")
    ('1 process', '1,200 processes')
    """
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def percent(share: float) -> str:
    """Return a share in percent, with a decimal where it is small.

    >>> percent(0.333), percent(0.0123), percent(0.0002), percent(0.9999), percent(1.0)
    ('33 %', '1.2 %', 'less than 0.1 %', '99.99 %', '100 %')
    """
    amount = 100 * share
    if 0 < amount < 0.1:
        return "less than 0.1 %"
    if 99.5 <= amount < 100:
        return f"{min(amount, 99.99):.4g} %"
    return f"{amount:.1f} %" if 0 < amount < 9.95 else f"{amount:.0f} %"


def times(count: int) -> str:
    """Return how often, in words.

    >>> times(1), times(2), times(30)
    ('once', 'twice', '30 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def listed(names: Sequence[str] | Iterable[str], most: int = 3) -> str:
    """Return a few names as a list in words.

    >>> listed(["a", "b"]), listed("abcde")
    ('a and b', 'a, b and 3 more')
    """
    names = list(names)
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
