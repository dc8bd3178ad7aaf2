"""The processes of a recorded program as a tree, and what belongs to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.attribute_paths import process_id
from meantime.model.process_roles import described_processes, process_in

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.model.columns import Int32s, Int64s

__all__ = ["ProcessTree", "RecordedProcess"]


class RecordedProcess(NamedTuple):
    """A process of a recorded program.

    Attributes:
        label: Its id, as in the paths of what belongs to it.
        parent: The index of the process that started it, which is less than its own; -1 if that is
            unknown.
        role: `worker 1 of 2`; empty if it is alone of its kind.
        command: Its command line; empty if it is that of its parent.
    """

    label: str
    parent: int
    role: str
    command: str

    @property
    def title(self) -> str:
        """What it is called beside its id."""
        return self.role or self.command or "process"

    @property
    def prefix(self) -> str:
        """What the names of its threads begin with."""
        return f"{self.label} {self.role}, " if self.role else f"{self.label} "


class ProcessTree:
    """The processes of a history, each before those that it started.

    Args:
        history: A history; it has such processes if it is a recording of several.

    Attributes:
        processes: The processes.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        facts = history.facts
        described = {label: process_in(facts, label) for label, _ in described_processes(facts)}
        below: dict[str, list[str]] = {label: [] for label in described}
        for label, each in described.items():
            if each.parent in below and each.parent != label:
                below[each.parent].append(label)
        starts = [label for label, each in described.items() if each.parent not in below]
        self.processes: list[RecordedProcess] = []
        self._index: dict[str, int] = {}
        # in a damaged recording, processes may be each the parent of another
        for label in [*starts, *described]:
            waiting = [(label, -1)]
            while waiting:
                name, parent = waiting.pop()
                if name in self._index:
                    continue
                index = self._index[name] = len(self.processes)
                role, _, command = described[name]
                self.processes.append(RecordedProcess(name, parent, role, command))
                waiting += [(child, index) for child in reversed(below[name])]

    def __len__(self) -> int:
        return len(self.processes)

    def owners(self, quarks: Int32s) -> Int64s:
        """Return the index of the process that each attribute belongs to, or -1."""
        if not self.processes:
            return np.full(len(quarks), -1, np.int64)
        names = self._history.attributes.names(quarks)
        found = [self._owner(name) for name in names]
        for index in [index for index, owner in enumerate(found) if owner < 0]:
            pid = process_id(self._history.attributes.path(int(quarks[index])))
            found[index] = -1 if pid is None else self._index.get(str(pid), -1)
        return np.array(found, np.int64)

    def _owner(self, name: str) -> int:
        """Return the process in the last part of a path: `1203.7`, or `1203 MainThread 1203`."""
        owner = self._index.get(name.rpartition(".")[0], -1)
        return self._index.get(name.partition(" ")[0], -1) if owner < 0 else owner
