"""Blocks: times in which an event loop ran one step, and nothing else could run."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NEVER_NS", "Block"]

NEVER_NS = 2**63 - 1


class Block(NamedTuple):
    """A time in which a loop ran one step of a task, or callbacks.

    Attributes:
        begin_ns: Its begin, from the recording's origin.
        end_ns: Its end.
        loop: The path of the loop; None if loops were not recorded.
        task: The path of the task; None for callbacks.
        resumed: The line where the task waited before, as `app.py:12`; empty if it began.
        paused: The line where it waited next; empty if it ended.
        tasks: Whether tasks were recorded, so that a step without a task was callbacks.
    """

    begin_ns: int
    end_ns: int
    loop: tuple[str, ...] | None
    task: tuple[str, ...] | None
    resumed: str
    paused: str
    tasks: bool = True

    @property
    def duration_ns(self) -> int:
        """Its duration."""
        return self.end_ns - self.begin_ns

    def where(self) -> str:
        """Return the task or callbacks, and the lines before and after, as one phrase."""
        if self.task is None:
            return "callbacks of the loop" if self.tasks else "a task, or callbacks of the loop"
        between = [line for line in (self.resumed, self.paused) if line]
        if len(between) == 2:
            return f"{self.task[1]}, between {between[0]} and {between[1]}"
        if self.resumed:
            return f"{self.task[1]}, after {self.resumed}"
        return f"{self.task[1]}, before {self.paused}" if self.paused else self.task[1]
