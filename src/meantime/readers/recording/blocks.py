"""Blocks: times in which an event loop ran one step, and nothing else could run."""

from __future__ import annotations

from typing import NamedTuple

from meantime.model.units import format_ns

__all__ = ["NEVER_NS", "UNRECORDED_WAIT", "Block"]

NEVER_NS = 2**63 - 1
UNRECORDED_WAIT = "a wait that is not recorded: for the GIL, for a lock, or in a call"
_NOTED_NS = 1_000_000


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
        waited_ns: For how long the thread could run, but waited for a processor.
        code: What ran, as far as that is known: `read (app.py:12)`.
        calls: What that had called, the outermost first.
        code_ns: When a stack showed that; -1 if it is what the loop called.
        gil_ns: For how long the thread waited for the GIL, if that was recorded.
        gil_holder: The thread that had it in the longest of these waits, if that is known.
        unrecorded_ns: For how long it did not run for a reason that is not recorded.
    """

    begin_ns: int
    end_ns: int
    loop: tuple[str, ...] | None
    task: tuple[str, ...] | None
    resumed: str
    paused: str
    tasks: bool = True
    waited_ns: int = 0
    code: str = ""
    calls: str = ""
    code_ns: int = -1
    gil_ns: int = 0
    gil_holder: str = ""
    unrecorded_ns: int = 0

    @property
    def duration_ns(self) -> int:
        """Its duration."""
        return self.end_ns - self.begin_ns

    @property
    def own_ns(self) -> int:
        """Its duration without the time in which the thread waited for a processor."""
        return max(0, self.duration_ns - self.waited_ns)

    def waits(self) -> str:
        """Return for what the thread waited, as one phrase; empty if for nothing of note."""
        parts = []
        if self.waited_ns >= _NOTED_NS:
            parts.append(f"{format_ns(self.waited_ns)} of it waiting for a CPU")
        if self.gil_ns >= _NOTED_NS:
            holder = f", which {self.gil_holder} had" if self.gil_holder else ""
            parts.append(f"{format_ns(self.gil_ns)} of it waiting for the GIL{holder}")
        if self.unrecorded_ns >= _NOTED_NS:
            parts.append(f"{format_ns(self.unrecorded_ns)} of it in {UNRECORDED_WAIT}")
        return " and ".join(parts)

    def where(self) -> str:
        """Return what ran, or the task and the lines before and after, as one phrase.

        What was running is not to blame if the thread waited for most of the time, and for what is
        not recorded: it may have been the GIL.
        """
        if 2 * self.unrecorded_ns > self.duration_ns:
            return UNRECORDED_WAIT
        if self.code:
            calls = f", which called {self.calls}" if self.calls else ""
            if self.task is None or self.task[1].startswith(f"{self.code.partition(' (')[0]} ("):
                return self.code + calls
            return f"{self.code}{calls}, in {self.task[1]}"
        if self.task is None:
            return "callbacks of the loop" if self.tasks else "a task, or callbacks of the loop"
        return f"{self.task[1]}{self._between()}"

    def _between(self) -> str:
        """Return the lines at which the task waited before and after, as a phrase."""
        between = [line for line in (self.resumed, self.paused) if line]
        if len(between) == 2:
            return f", between {between[0]} and {between[1]}"
        if self.resumed:
            return f", after {self.resumed}"
        return f", before {self.paused}" if self.paused else ""
