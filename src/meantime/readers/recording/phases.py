"""The tests of a recorded pytest: their setup, call, teardown and outcome."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import TEST
from meantime.model.trace import StateChanges
from meantime.providers.tests import TESTS
from meantime.readers.recording.merge import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Trace
    from meantime.readers.recording.entities import Entities
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.replay import Replay

__all__ = ["Phases"]

_PHASE = KINDS["PHASE"]
_STATES = {state.name for state in TESTS.states}


class Phases:
    """The tests so far, and their states.

    Args:
        trace: The trace whose paths and values are extended.
        replay: The replay with the processes.
        entities: What names the entities of the trace.
    """

    def __init__(self, trace: Trace, replay: Replay, entities: Entities) -> None:
        self._trace = trace
        self._replay = replay
        self._entities = entities
        self._open: dict[tuple[int, int], int] = {}
        self._last_ns: dict[int, int] = {}
        self._paths: Counter[tuple[str, str]] = Counter()
        self._codes: dict[str, int] = {}

    def states(self, item: Records) -> Iterator[StateChanges]:
        """Yield the states of tests that follow from the next records."""
        made: list[tuple[int, int, int]] = []
        for payload in item.payloads(_PHASE):
            key = self._replay.streams[payload.stream].process, payload.ident
            file, test, state = texts_of(payload.data, 3)
            if state and state not in _STATES:
                continue
            if key not in self._open:
                self._open[key] = self._added(key, file, test)
            entity = self._open[key]
            # threads of a process may record in any order
            time_ns = int(item.time_ns[payload.row]) - self._replay.origin_ns
            time_ns = self._last_ns[entity] = max(time_ns, self._last_ns.get(entity, time_ns))
            made.append((time_ns, entity, self._code(state)))
            if not state:
                del self._open[key], self._last_ns[entity]
        if made:
            # the lane of tests is added with the first of them
            self._entities.describe()
            columns = np.ascontiguousarray(np.array(made, np.int64).T)
            yield StateChanges(
                columns[0],
                columns[1].astype(np.int32),
                columns[2].astype(np.int32),
                np.full(len(made), -1, np.int32),
            )

    def _added(self, key: tuple[int, int], file: str, test: str) -> int:
        self._entities.describe()
        entity = self._replay.states.add_derived(TEST, *key)
        self._paths[file, test] += 1
        again = self._paths[file, test]
        self._trace.paths.append(("Tests", file, test if again == 1 else f"{test} #{again}"))
        return int(entity)

    def _code(self, state: str) -> int:
        if not state:
            return -1
        if state not in self._codes:
            self._codes[state] = len(self._trace.values)
            self._trace.values.append(state)
        return self._codes[state]
