"""What is explained: a range of a history, with the roles of its lanes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from meantime.model.extent import format_handle
from meantime.query.explain.conclusion import Evidence
from meantime.query.scope import Scope
from meantime.query.sentences import FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.query.explain.roles import Roles
    from meantime.query.ranges import Range

__all__ = ["Subject"]


class Subject(Scope):
    """A range of a history that is explained.

    Args:
        history: The history.
        range_ns: The range, in the history.
        roles: What its states mean.
        activity: The activity that is explained, as the user named it; None for all of the trace.
        progress: Called now and then with the share that is done; what it raises ends the search.
    """

    def __init__(
        self,
        history: History,
        range_ns: Range,
        roles: Roles,
        activity: str | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(history, range_ns)
        self.roles = roles
        self.activity = activity
        self.progress = progress

    @property
    def range_ns(self) -> Range:
        """The range."""
        return self.start_ns, self.end_ns

    @cached_property
    def spans(self) -> SpanTable:
        """The spans of the range, cut to it, so that only time in the range counts."""
        found = self.history.spans(start_ns=self.start_ns, end_ns=self.end_ns)
        return found.clipped(self.start_ns, self.end_ns)

    def at(self, quark: int, time_ns: int) -> str:
        """Return the handle of what is at a time of an attribute."""
        return format_handle(self.path(quark), time_ns)

    def statemap(self, around: Range | None = None) -> Evidence:
        """Return the command that draws the states of a range."""
        options = self.options(around)
        return Evidence("", ("statemap", FILE, *options, "-o", "states.svg"))

    def command(self, *arguments: str, around: Range | None = None, handle: str = "") -> Evidence:
        """Return a command for a range of the trace."""
        return Evidence(handle, (*arguments, *self.options(around)))
