"""The table of samples: the stacks of threads at some times, and their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meantime.model.columns import Coded
from meantime.model.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable
    from meantime.model.tabular import Column

__all__ = ["ALL_EVENTS", "SampleTable", "sample_table"]

# Selects samples of all events, also where the history counts one at a time.
ALL_EVENTS: Final = "*"

_NO_UNITS: Mapping[str, str] = {}


class SampleTable(Tabular):
    """Samples as columns, in order of time, those of one time in order of arrival.

    Attributes:
        time_ns: int64.
        thread: int32, the quark of the thread.
        stack: int32, row of `stacks`; -1 if there is none.
        weight: int64, for example the nanoseconds or bytes that the sample represents.
        event: What was counted.
        name: The name of the thread at that time; None if unknown.
        cpu: int32, where it ran; -1 where unknown.
        stacks: The stacks, shared by all samples.
        units: By event, the unit of its weights, where the trace gives one.
    """

    def __init__(
        self,
        *,
        time_ns: Int64s,
        thread: Int32s,
        stack: Int32s,
        weight: Int64s,
        event: Coded,
        name: Coded,
        cpu: Int32s,
        stacks: StackTable,
        units: Mapping[str, str] = _NO_UNITS,
    ) -> None:
        self.time_ns = time_ns
        self.thread = thread
        self.stack = stack
        self.weight = weight
        self.event = event
        self.name = name
        self.cpu = cpu
        self.stacks = stacks
        self.units = units

    def columns(self) -> dict[str, Column]:
        """Return the columns by name; an unknown stack or processor is null."""
        return {
            "time_ns": self.time_ns,
            "thread": self.thread,
            "stack": np.ma.masked_less(self.stack, 0),
            "weight": self.weight,
            "event": self.event,
            "name": self.name,
            "cpu": np.ma.masked_less(self.cpu, 0),
        }

    def __len__(self) -> int:
        return len(self.time_ns)

    def select(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SampleTable:
        """Return the samples of these threads in [start_ns, end_ns), by default of all threads."""
        first = 0 if start_ns is None else int(np.searchsorted(self.time_ns, start_ns))
        last = len(self) if end_ns is None else int(np.searchsorted(self.time_ns, end_ns))
        rows: slice | Int64s = slice(first, max(first, last))
        if quarks is not None:
            wanted = np.isin(self.thread[rows], np.asarray(quarks, np.int32))
            rows = np.flatnonzero(wanted) + first
        return self.rows(rows)

    def of_event(self, event: str) -> SampleTable:
        """Return the samples of one event."""
        codes = [code for code, name in enumerate(self.event.names) if name == event]
        return self.rows(np.flatnonzero(np.isin(self.event.codes, codes)))

    def rows(self, rows: slice | Int64s) -> SampleTable:
        """Return these samples."""
        return SampleTable(
            time_ns=self.time_ns[rows],
            thread=self.thread[rows],
            stack=self.stack[rows],
            weight=self.weight[rows],
            event=Coded(self.event.codes[rows], self.event.names),
            name=Coded(self.name.codes[rows], self.name.names),
            cpu=self.cpu[rows],
            stacks=self.stacks,
            units=self.units,
        )

    def __repr__(self) -> str:
        return f"SampleTable({len(self):,} samples of {len(self.stacks):,} stacks)"


def sample_table(
    columns: dict[str, npt.NDArray[Any]], strings: Sequence[str], stacks: StackTable
) -> SampleTable:
    """Return the table of samples with the columns of `event_rows`, in order of time.

    While a history grows, stacks may come after the samples that have them: these have none yet.
    """
    stack = columns["stack"]
    if len(stack) and int(stack.max()) >= len(stacks):
        stack = np.where(stack < len(stacks), stack, np.int32(-1))
    return SampleTable(
        time_ns=columns["time_ns"],
        thread=columns["thread"],
        stack=stack,
        weight=columns["weight"],
        event=Coded(columns["event"], strings),
        name=Coded(columns["name"], strings),
        cpu=columns["cpu"],
        stacks=stacks,
    )
