"""A recording read back in the simplest way: whole, as Python objects."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from meantime.model.trace import Flows, StateChanges
from meantime.readers import recording

if TYPE_CHECKING:
    from meantime.model.trace import Trace

# Of Linux's capabilities, as they are numbered there.
SETGID, SETUID, CHROOT, SYS_ADMIN = 6, 7, 18, 21

Change = tuple[int, "str | None", dict[str, object]]


class Recorded(NamedTuple):
    """What a recording says: changes by path, flows, and the trace they came from."""

    changes: dict[tuple[str, ...], list[Change]]
    flows: list[tuple[str, tuple[str, ...], tuple[str, ...]]]
    trace: Trace

    def states(self, *prefix: str) -> list[list[str | None]]:
        """Return, by path, the states of what begins with `prefix` as its first elements do."""
        return [
            [state for _, state, _ in changes]
            for path, changes in self.changes.items()
            if all(part.startswith(want) for part, want in zip(path, prefix, strict=False))
        ]

    def times(self, group: str) -> Counter[str]:
        """Return the nanoseconds in each state, of all attributes of a group together."""
        total: Counter[str] = Counter()
        for path, changes in self.changes.items():
            if path[0] == group:
                for (start_ns, state, _), (end_ns, _, _) in pairwise(changes):
                    if state is not None:
                        total[state] += end_ns - start_ns
        return total


def is_capable(*capabilities: int) -> bool:
    """Return whether this process has these capabilities, which root in a container may lack."""
    status = Path("/proc/self/status").read_text()
    (effective,) = (
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")
    )
    return all(effective >> number & 1 for number in capabilities)


def read(path: Path) -> Recorded:
    """Return what a recording says."""
    trace = recording.read(path)
    changes = defaultdict(list)
    flows = []
    for batch in trace.batches:
        if isinstance(batch, StateChanges):
            columns = (batch.time_ns, batch.entity, batch.state, batch.tag)
            for time_ns, entity, state, tag in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                value = trace.values[state] if state >= 0 else None
                fields = trace.tags[tag] if tag >= 0 else {}
                changes[trace.paths[entity]].append((time_ns, value, fields))
        elif isinstance(batch, Flows):
            ends = (batch.name, batch.from_entity, batch.to_entity)
            for name, left, right in zip(*(column.tolist() for column in ends), strict=True):
                flows.append((trace.values[name], trace.paths[left], trace.paths[right]))
    return Recorded(dict(changes), flows, trace)
