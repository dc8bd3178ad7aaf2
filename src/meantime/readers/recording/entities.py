"""The paths and names of a recording's tasks, loops and threads in the trace."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import CALLBACK, COUNTER, PROCESS, REQUEST, SAMPLED, TASK, TEST
from meantime.model.attribute_paths import (
    CALLBACKS,
    TASKS,
    counter_path,
    process_path,
    recorded_paths,
    task_names,
    thread_path,
)
from meantime.model.columns import distinct
from meantime.providers.tasks import GROUPS, lane_of
from meantime.readers.recording.processes import without_arguments
from meantime.readers.recording.replay import thread_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.attributes import Path
    from meantime.model.columns import Int64s
    from meantime.model.trace import Samples, Trace
    from meantime.readers.recording.listing import RecordingFiles
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.replay import Replay
    from meantime.readers.recording.samples import Sampling

__all__ = ["Entities"]

_NAME, _THREAD, _CALLED = KINDS["NAME"], KINDS["THREAD"], KINDS["CALLED"]
_HAS_PATH = np.array([REQUEST, TEST])


class Entities:
    """Names the entities of a replay, and adds a path to the trace for each new one.

    Args:
        trace: The trace whose paths, names and lanes are extended.
        files: The recording.
        replay: The replay with the entities.
        roles: By process, what it is among others, or nothing.
    """

    def __init__(
        self, trace: Trace, files: RecordingFiles, replay: Replay, roles: Sequence[str]
    ) -> None:
        self._roles = roles
        self._trace = trace
        self._processes = files.processes
        self._process_labels = [files.label(process) for process in files.processes]
        self._replay = replay
        self._described = 0
        self._lanes: set[str] = set()
        self._paths: Counter[tuple[str, ...]] = Counter()
        # the threads of entities whose names have not been recorded so far
        self._unnamed: dict[int, tuple[int, int]] = {}
        self._has_new_names = False
        # processes, numbers and names of tasks
        self._task_names: list[tuple[Int64s, Int64s, list[str]]] = []
        self._called: dict[tuple[int, int], str] = {}
        self._sampled: dict[tuple[int, int], int] = {}
        self._counters: list[tuple[str, str]] = []

    def note_names(self, item: Records) -> None:
        """Collect the names of tasks and threads from records."""
        names, found = item.columns(_NAME)
        if names.size:
            texts = [data.decode("utf-8", "replace") for data in found]
            self._task_names.append((self._replay.owners(names[1]), names[2], texts))
        for payload in item.payloads(_CALLED, _THREAD):
            self._has_new_names = True
            if payload.kind == _CALLED or payload.data:
                process, tid = self._replay.streams[payload.stream].process, payload.ident
                name = thread_name(payload.data, tid, self._processes[process].pid)
                self._called[process, tid] = name

    def describe(self) -> None:
        """Add paths and lanes for the entities that are new since the last call."""
        trace, states = self._trace, self._replay.states
        found = states.entities_since(self._described)
        if found.size:
            self._add_lanes(found[0])
            # the paths of requests and tests were added with them
            new = np.flatnonzero(~np.isin(found[0], _HAS_PATH))
            trace.paths.extend(self._paths_of(new + self._described, *found[:, new]))
        self._described = states.entity_count()
        if self._has_new_names:
            self._has_new_names = False
            self._name_threads()
        for processes, numbers, texts in self._task_names:
            entities = states.task_entities(processes, numbers).tolist()
            trace.names.update(zip(entities, texts, strict=True))
        if self._task_names:
            # those of tasks that are not among the records
            trace.names.pop(-1, None)
            self._task_names.clear()

    def _add_lanes(self, what: Int64s) -> None:
        new = {GROUPS[kind] for kind in distinct(what).tolist() if kind in GROUPS} - self._lanes
        if new:
            self._lanes |= new
            groups = [lane_of(each) for each in GROUPS.values() if each in self._lanes]
            others = [lane for lane in self._trace.lanes if lane not in groups]
            self._trace.lanes[:] = [*groups, *others]

    def _paths_of(
        self, entity: Int64s, what: Int64s, owner: Int64s, number: Int64s, tag: Int64s
    ) -> list[Path]:
        paths = np.empty(len(what), np.object_)
        for kind, site_of, top in (
            (TASK, self._site, TASKS),
            (CALLBACK, self._code, CALLBACKS),
        ):
            rows = np.flatnonzero(what == kind)
            if len(rows):
                tags, which = np.unique(tag[rows], return_inverse=True)
                sites = np.array([site_of(each) for each in tags.tolist()], np.object_)
                names = self.names_of(owner[rows], number[rows])
                made = recorded_paths(top, sites[which].tolist(), names)
                paths[rows] = np.fromiter(made, np.object_, len(made))
        for row in np.flatnonzero(~np.isin(what, (TASK, CALLBACK))).tolist():
            columns = (what, owner, number, entity)
            paths[row] = self._path(*(int(column[row]) for column in columns))
        return list(paths)

    def _path(self, kind: int, owner: int, number: int, entity: int) -> Path:
        if kind == COUNTER:
            return counter_path(self._process_labels[owner], *self._counters[number])
        if kind in (PROCESS, SAMPLED):
            pid = self._process_labels[owner]
            return process_path(pid) if kind == PROCESS else thread_path(number, pid)
        if not self._is_named(owner, number):
            self._unnamed[entity] = owner, number
        path = GROUPS[kind], self._thread(owner, number)
        self._paths[path] += 1
        # another thread can have the same number and name, since numbers are reused
        again = self._paths[path]
        return path if again == 1 else (path[0], f"{path[1]} #{again}")

    def add_counter(self, process: int, name: str, series: str) -> int:
        """Return a new entity for one series of a process's counter."""
        self._counters.append((name, series))
        return int(self._replay.states.add_derived(COUNTER, process, len(self._counters) - 1))

    def take_samples(self, sampling: Sampling) -> Iterator[Samples]:
        """Yield the samples since the last call; their threads have paths of their own."""
        states = self._replay.states
        for process, tid in sorted(sampling.threads() - self._sampled.keys()):
            if (process, 0) not in self._sampled:
                self._sampled[process, 0] = states.add_process(process)
                self._trace.names[self._sampled[process, 0]] = self._command(process)
            self._sampled[process, tid] = states.add_sampled_thread(process, tid)
        self.describe()
        for process, tid in self._sampled:
            if name := self._called.get((process, tid)):
                self._trace.names[self._sampled[process, tid]] = name
        yield from sampling.take(self._sampled, self._sampled_name)

    def _sampled_name(self, process: int, tid: int, task: int) -> str:
        entity = self._replay.states.task_entity(process, task) if task else -1
        if entity >= 0:
            return str(self._trace.paths[entity][1])
        return self._called.get((process, tid), f"thread {tid}")

    def _command(self, process: int) -> str:
        words = self._processes[process].facts.get("argv")
        if not isinstance(words, list) or not words:
            words = ["python"]
        program = without_arguments([str(word) for word in words])
        return " ".join(PurePath(word).name for word in program[:2])

    def _site(self, tag: int) -> str:
        fields = self._trace.tags[tag] if tag >= 0 else {}
        name = str(fields.get("coroutine", "unknown"))
        return f"{name} ({fields['location']})" if "location" in fields else name

    def _code(self, tag: int) -> str:
        return (self._replay.locations.all[tag].code if tag >= 0 else "") or "unknown"

    def names_of(self, processes: Int64s, numbers: Int64s) -> list[str]:
        """Return the last parts of the paths of tasks, callbacks or requests."""
        if len(self._processes) == 1:
            return task_names(numbers.tolist(), None)
        labels = self._process_labels
        return task_names(numbers.tolist(), [labels[each] for each in processes.tolist()])

    def _name_threads(self) -> None:
        """Name the threads whose names were recorded after their first states.

        A thread whose first state is a wait for the GIL cannot read its name before the wait ends.
        """
        for entity, (stream, tid) in list(self._unnamed.items()):
            if self._is_named(stream, tid):
                self._trace.names[entity] = self._thread(stream, tid)
                del self._unnamed[entity]

    def _is_named(self, stream: int, tid: int) -> bool:
        process = self._replay.streams[stream].process
        return not self._replay.is_unnamed(stream, tid) or (process, tid) in self._called

    def _thread(self, stream: int, tid: int) -> str:
        name, process = self._replay.thread_of(stream, tid), self._replay.streams[stream].process
        if self._replay.is_unnamed(stream, tid) and (called := self._called.get((process, tid))):
            name = f"{called} {tid}"
        if len(self._processes) == 1:
            return name
        role = f"{self._roles[process]}, " if self._roles[process] else ""
        return f"{self._process_labels[process]} {role}{name}"
