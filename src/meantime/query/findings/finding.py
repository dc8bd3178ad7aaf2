"""What a finding is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from meantime.query.sentences import FILE

if TYPE_CHECKING:
    from meantime.query.ranges import Range

__all__ = ["KINDS", "Finding", "Kind", "KindFacts"]

Kind: TypeAlias = Literal[
    "block", "contention", "tasks", "slow", "wait", "stop", "repeat", "unlike", "lost", "care"
]


class KindFacts(NamedTuple):
    """What a kind of finding is, and how it ranks.

    Attributes:
        meaning: What it is.
        is_specific: Whether it explains other findings that lie within it.
        divisor: By how much the time lost is divided when findings are ranked. A queue that lasts,
            or an entity of its own kind, may be how a program works, so it ranks below events.
        group: Findings of the lowest group come first. Those of the others lose no time, but limit
            what the first can say.
    """

    meaning: str
    is_specific: bool = False
    divisor: int = 1
    group: int = 0


# In order: from what names its cause to what only shows its effects, which the former explains.
KINDS: dict[Kind, KindFacts] = {
    "block": KindFacts("a step that blocks an event loop", is_specific=True),
    "slow": KindFacts("calls, tasks or requests that took long", is_specific=True),
    "wait": KindFacts("a state that lasted too long", is_specific=True),
    "contention": KindFacts("many wait for one thing", is_specific=True, divisor=50),
    "tasks": KindFacts("tasks that end badly or never, or wait again and again", divisor=50),
    "stop": KindFacts("nothing happens", is_specific=True),
    "repeat": KindFacts("it works or stops periodically"),
    "unlike": KindFacts("an entity unlike the others of its kind", divisor=50),
    "lost": KindFacts("ranges without data", group=1),
    "care": KindFacts("an anomaly of the input", group=2),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands out in a history, and where to look at it.

    Attributes:
        kind: One of `KINDS`.
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
        cause: The id of the conclusion that explains it, of those of `explain`; empty if none does.
    """

    kind: Kind
    sentence: str
    lost_ns: int
    ranges: tuple[Range, ...]
    count: int
    rows: tuple[str, ...] = ()
    spans: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    cause: str = ""

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
            "cause": self.cause or None,
        }
