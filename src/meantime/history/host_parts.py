"""The hosts of a joined history, for questions that are asked of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.model.attribute_paths import HOSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.history.joined import JoinedPart
    from meantime.model.attributes import Path

__all__ = ["HostPart", "host_parts"]


class HostPart(NamedTuple):
    """A host of a joined history, and of those that are joined in it.

    Attributes:
        above: The path that its attributes stand under.
        history: Its own history.
        offset_ns: What to add to its times to get those of the whole.
        first_span: What to add to the numbers of its spans.
    """

    above: Path
    history: History
    offset_ns: int
    first_span: int

    @property
    def name(self) -> str:
        """Its name, after those of the hosts that it is part of."""
        return "/".join(self.above[1::2])

    @property
    def bounds(self) -> tuple[int, int]:
        """The range that it covers, in the times of the whole."""
        start_ns, end_ns = self.history.bounds
        return start_ns + self.offset_ns, end_ns + self.offset_ns

    def within(self, start_ns: int | None, end_ns: int | None) -> tuple[int, int] | None:
        """Return what it covers of a range of the whole, in its own times; None for nothing."""
        low, high = self.bounds
        low = low if start_ns is None else max(low, start_ns)
        high = high if end_ns is None else min(high, end_ns)
        return (low - self.offset_ns, high - self.offset_ns) if low < high else None


def host_parts(history: History) -> list[HostPart]:
    """Return the hosts of a joined history; none of one that is not joined."""
    # only joined ones have parts; to import their class takes longer than most questions
    parts: Sequence[JoinedPart] = getattr(history, "parts", ())
    found: list[HostPart] = []
    first_span = 0
    for part in parts:
        above = (HOSTS, part.name)
        own = [
            HostPart(
                (*above, *each.above),
                each.history,
                part.offset_ns + each.offset_ns,
                first_span + each.first_span,
            )
            for each in host_parts(part.history)
        ]
        found += own or [HostPart(above, part.history, part.offset_ns, first_span)]
        first_span += len(part.history.spans())
    return found
