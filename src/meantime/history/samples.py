"""The table of samples: the stacks of threads at some times, and their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.columns import Coded
from meantime.stacks import StackTable
from meantime.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Int64s
    from meantime.tabular import Column
    from meantime.trace import Samples

__all__ = ["SampleCollector", "SampleTable"]


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
    ) -> None:
        self.time_ns = time_ns
        self.thread = thread
        self.stack = stack
        self.weight = weight
        self.event = event
        self.name = name
        self.cpu = cpu
        self.stacks = stacks

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
        return SampleTable(
            time_ns=self.time_ns[rows],
            thread=self.thread[rows],
            stack=self.stack[rows],
            weight=self.weight[rows],
            event=Coded(self.event.codes[rows], self.event.names),
            name=Coded(self.name.codes[rows], self.name.names),
            cpu=self.cpu[rows],
            stacks=self.stacks,
        )

    def __repr__(self) -> str:
        return f"SampleTable({len(self):,} samples of {len(self.stacks):,} stacks)"


class SampleCollector:
    """Collects batches of samples, and makes the table of them."""

    def __init__(self) -> None:
        self.stacks: StackTable | None = None
        self._parts: list[tuple[Int64s, Int32s, Int32s, Int64s, Int32s, Int32s, Int32s]] = []

    def add(self, batch: Samples, quark_of: Int32s, code_of: Int32s) -> None:
        """Add a batch; these tables translate its codes to quarks and codes of strings."""
        unknown = np.full(len(batch.time_ns), -1, np.int32)
        name = unknown if batch.name is None else np.append(code_of, np.int32(-1))[batch.name]
        self._parts.append(
            (
                batch.time_ns,
                quark_of[batch.thread],
                batch.stack,
                batch.weight,
                code_of[batch.event],
                name,
                unknown if batch.cpu is None else batch.cpu,
            )
        )

    def table(self, strings: Sequence[str]) -> SampleTable:
        """Return the table."""
        empty = np.empty(0, np.int32)
        if not self._parts:
            none = np.empty(0, np.int64)
            self._parts = [(none, empty, empty, none, empty, empty, empty)]
        columns = [
            column[0] if len(column) == 1 else np.concatenate(column)
            for column in zip(*self._parts, strict=True)
        ]
        time_ns = columns[0]
        if np.any(time_ns[1:] < time_ns[:-1]):
            order = np.argsort(time_ns, kind="stable")
            columns = [column[order] for column in columns]
        time_ns, thread, stack, weight, event, name, cpu = columns
        return SampleTable(
            time_ns=time_ns,
            thread=thread,
            stack=stack,
            weight=weight,
            event=Coded(event, strings),
            name=Coded(name, strings),
            cpu=cpu,
            stacks=self.stacks or StackTable(empty, empty, []),
        )
