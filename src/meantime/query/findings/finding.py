"""What a finding is, and how its durations and names are written."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["FILE", "Finding", "Kind", "Range", "listed", "several", "text_of_ns", "times"]

Range: TypeAlias = "tuple[int, int]"
Kind: TypeAlias = Literal[
    "block", "contention", "slow", "wait", "stop", "repeat", "unlike", "lost", "care"
]

# The place of the trace in the arguments of a command.
FILE = "FILE"
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands out in a history, and where to look at it.

    Attributes:
        kind: `block` (a step that blocks an event loop), `contention` (many wait for one thing),
            `slow` (calls, tasks or requests), `wait` (a state that lasts too long), `stop`
            (nothing happens), `repeat` (it stops periodically), `unlike` (an entity unlike the
            others of its kind), `lost` (ranges without data), or `care` (an anomaly of the input).
        sentence: The finding in words, with its figures.
        lost_ns: The time lost, by which findings are ranked; of `repeat`, the time that the work or
            the stops took.
        ranges: Where it is, [start_ns, end_ns), the worst first, up to 100. The first is the place
            to go to.
        count: How often it happened, which may be more than there are ranges.
        rows: The paths of the attributes that it is about, the first one the most.
        spans: The numbers of the spans that it is about, one for each range; empty if it is not
            about spans.
        arguments: The arguments of the command of meantime that shows it, with `FILE` in place of
            the trace.
    """

    kind: Kind
    sentence: str
    lost_ns: int
    ranges: tuple[Range, ...]
    count: int
    rows: tuple[str, ...] = ()
    spans: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def start_ns(self) -> int:
        """Where the worst occurrence begins."""
        return self.ranges[0][0]

    @property
    def end_ns(self) -> int:
        """Where the worst occurrence ends."""
        return self.ranges[0][1]

    def command(self, file: str) -> str:
        """Return the command line that shows it, for a shell.

        >>> Finding("stop", "", 0, ((0, 5),), 1, arguments=("stats", "FILE")).command("a b.json")
        "meantime stats 'a b.json'"
        """
        words = [file if word == FILE else word for word in self.arguments]
        return shlex.join(["meantime", *words])

    def as_json(self) -> dict[str, Any]:
        """Return its fields as values that JSON can represent, with exact times."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "lost_ns": self.lost_ns,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "count": self.count,
            "ranges": [list(each) for each in self.ranges],
            "rows": list(self.rows),
            "spans": list(self.spans),
        }


def text_of_ns(duration_ns: float) -> str:
    """Return a duration with three significant digits.

    >>> text_of_ns(212_345_678), text_of_ns(17), text_of_ns(1_500), text_of_ns(61_000_000_000)
    ('212 ms', '17 ns', '1.5 us', '61 s')
    """
    for unit, scale in _UNITS:
        # what would be rounded to 1000 of a unit is 1 of the next
        if duration_ns >= 0.9995 * scale or scale == 1:
            amount = duration_ns / scale
            digits = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
            text = f"{amount:,.{digits}f}"
            return (text.rstrip("0").rstrip(".") if "." in text else text) + f" {unit}"
    raise AssertionError


def several(count: int, noun: str) -> str:
    """Return a count and a noun.

    >>> several(1, "task"), several(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
