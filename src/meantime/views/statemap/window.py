"""The range of a map, and where its open states end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import UsageError
from meantime.model.units import MAX_NS

if TYPE_CHECKING:
    from meantime.history import History

__all__ = ["Window"]


class Window(NamedTuple):
    """A window, in its history's own time.

    Attributes:
        start_ns: Where the map begins.
        end_ns: Where it ends.
        cut_ns: A state that continues after this time is open: no change in the map ends it.
        last_ns: Where open states end, at the latest.
        until_ns: The end of the data that maps below this one show.
    """

    start_ns: int
    end_ns: int
    cut_ns: int
    last_ns: int
    until_ns: int

    @classmethod
    def of(cls, history: History, begin_ns: int | None, end_ns: int | None) -> Window:
        """Return the window between two times, or over the whole history.

        As in the original, an end of 0 means no end. States that are open at the end of the data
        end with the trace's last datum; if later data of other entities come before that one in the
        trace, the map extends to the last of these.

        Raises:
            UsageError: If the end is before the beginning, or more than 292 years after it.
        """
        first_ns, last_ns = history.bounds
        start_ns = first_ns if begin_ns is None else begin_ns
        changed_ns = max(history.end_ns - 1, history.start_ns)
        if end_ns:
            if end_ns < start_ns:
                raise UsageError("begin offset must be less than end offset")
            if end_ns - start_ns > MAX_NS:
                raise UsageError("the window is longer than 292 years, the limit of 64 bits")
            last_ns = min(end_ns, last_ns)
            return cls(start_ns, end_ns, min(end_ns, changed_ns), last_ns, end_ns)
        shown_ns = max(last_ns, changed_ns, start_ns)
        return cls(start_ns, shown_ns, changed_ns, last_ns, last_ns)

    def below(self, history: History, offset_ns: int) -> Window:
        """Return the same window in the times of a history from which it has this offset."""
        start_ns, end_ns, until_ns = (
            max(-MAX_NS, min(MAX_NS, time_ns - offset_ns))
            for time_ns in (self.start_ns, self.end_ns, self.until_ns)
        )
        return Window(
            start_ns,
            end_ns,
            min(until_ns, max(history.end_ns - 1, history.start_ns)),
            min(until_ns, history.bounds[1]),
            until_ns,
        )
