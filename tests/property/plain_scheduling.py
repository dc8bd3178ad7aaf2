"""A plain definition of what the lines of a scheduler's trace prove."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Line", "Run", "proven_runs"]


class Line(NamedTuple):
    """A line of a CPU: which thread it names (None for none), and which left and came, if any.

    Or it says that lines of the CPU since the one before are missing.
    """

    time_ns: int
    cpu: int
    thread: int | None
    switch: tuple[int, int] | None = None
    is_lost: bool = False


class Run(NamedTuple):
    cpu: int
    thread: int
    from_ns: int
    to_ns: int


class _Cpu:
    """Which thread a CPU runs, since when, until when that is proven, and who left before."""

    def __init__(self, cpu: int) -> None:
        self.cpu = cpu
        self.thread: int | None = None
        self.since_ns = self.proven_ns = -1
        self.left: int | None = None
        self.has_switched = self.names_several = False
        self.runs: list[Run] = []

    def close(self) -> None:
        if self.thread is None or self.proven_ns == self.since_ns:
            return
        run = Run(self.cpu, self.thread, self.since_ns, self.proven_ns)
        before = self.runs[-1] if self.runs else None
        if before and (before.thread, before.to_ns) == (run.thread, run.from_ns):
            run = before._replace(to_ns=run.to_ns)
            self.runs.pop()
        self.runs.append(run)

    def name(self, thread: int, time_ns: int) -> None:
        if thread == self.thread:
            self.proven_ns, self.left = time_ns, None
        # until a switch is done, its lines name the thread that leaves
        elif self.left is None or thread != self.left:
            # before the first switch only the thread that is named last counts
            if self.has_switched:
                self.close()
            self.names_several |= self.thread is not None
            self.thread, self.left = thread, None
            self.since_ns = self.proven_ns = time_ns

    def switch(self, leaving: int, coming: int, time_ns: int, begin_ns: int | None) -> None:
        self.left = None
        self.name(leaving, time_ns)
        if not (self.has_switched or self.names_several) and begin_ns is not None:
            self.since_ns = begin_ns
        self.close()
        self.has_switched = True
        self.thread, self.left = coming, leaving
        self.since_ns = self.proven_ns = time_ns

    def end(self, range_ns: tuple[int, int] | None, *, is_whole: bool) -> None:
        if not self.has_switched and self.names_several:
            return
        # the last moment of a trace is that of a line
        if range_ns is not None and (is_whole or self.proven_ns == range_ns[1] - 1):
            self.proven_ns = range_ns[1]
        if range_ns is not None and is_whole and not self.has_switched:
            self.since_ns = range_ns[0]
        self.close()


def proven_runs(
    lines: list[Line], range_ns: tuple[int, int] | None = None, *, is_whole: bool = False
) -> list[Run]:
    """Return what ran where and when, in order of CPUs and time; thread 0 is idle.

    Args:
        lines: In order of time.
        range_ns: [begin, end) of the trace.
        is_whole: Whether the lines are all that happened in that range.
    """
    runs = []
    for number in sorted({line.cpu for line in lines}):
        cpu = _Cpu(number)
        for line in lines:
            if line.cpu != number:
                continue
            if line.is_lost:
                cpu.close()
                cpu.thread = cpu.left = None
            elif line.switch is not None:
                begin_ns = range_ns[0] if range_ns is not None and is_whole else None
                cpu.switch(*line.switch, line.time_ns, begin_ns)
            elif line.thread is not None:
                cpu.name(line.thread, line.time_ns)
        cpu.end(range_ns, is_whole=is_whole)
        runs += cpu.runs
    return runs
