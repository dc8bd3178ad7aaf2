"""The paths and names of a recording's tasks, loops and threads in the trace."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

from meantime.attribute_paths import (
    callback_path,
    counter_path,
    process_path,
    task_path,
    thread_path,
)
from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import COUNTER, PROCESS, SAMPLED
from meantime.providers.tasks import GROUPS, lane_of
from meantime.readers.recording.processes import without_arguments
from meantime.readers.recording.replay import thread_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.readers.recording.listing import RecordingFiles
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.replay import Replay
    from meantime.readers.recording.samples import Sampling
    from meantime.trace import Samples, Trace

__all__ = ["Entities"]

_NAME, _THREAD, _CALLED = KINDS["NAME"], KINDS["THREAD"], KINDS["CALLED"]


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
        self._task_names: list[tuple[int, int, str]] = []
        self._called: dict[tuple[int, int], str] = {}
        self._sampled: dict[tuple[int, int], int] = {}
        self._sites: dict[int, str] = {}
        self._counters: list[tuple[str, str]] = []

    def note_names(self, item: Records) -> None:
        """Collect the names of tasks and threads from records."""
        for payload in item.payloads(_NAME, _CALLED, _THREAD):
            kind, number = payload.kind, payload.ident
            process = self._replay.streams[payload.stream].process
            if kind == _NAME:
                text = payload.data.decode("utf-8", "replace")
                self._task_names.append((process, number, text))
            elif kind == _CALLED or (kind == _THREAD and payload.data):
                name = thread_name(payload.data, number, self._processes[process].pid)
                self._called[process, number] = name

    def describe(self) -> None:
        """Add paths and lanes for the entities that are new since the last call."""
        trace, states = self._trace, self._replay.states
        what, owner, ident, location = states.entities_since(self._described).tolist()
        self._described = states.entity_count()
        for kind, number, name, tag in zip(what, owner, ident, location, strict=True):
            if kind == COUNTER:
                trace.paths.append(
                    counter_path(self._process_labels[number], *self._counters[name])
                )
                continue
            if kind in (PROCESS, SAMPLED):
                pid = self._process_labels[number]
                trace.paths.append(process_path(pid) if kind == PROCESS else thread_path(name, pid))
                continue
            group = GROUPS[kind]
            if group not in self._lanes:
                self._lanes.add(group)
                groups = [lane_of(each) for each in GROUPS.values() if each in self._lanes]
                trace.lanes[:] = [*groups, *(lane for lane in trace.lanes if lane not in groups)]
            if group in {"Requests", "Tests"}:
                # its path was added with it
                continue
            if group == "Tasks":
                site = self._sites.get(tag) or self._site(tag)
                trace.paths.append(task_path(site, name, self.process_of(number)))
            elif group == "Callbacks":
                code = self._replay.locations.all[tag].code if tag >= 0 else ""
                site = code or "unknown"
                trace.paths.append(callback_path(site, name, self.process_of(number)))
            else:
                path = (group, self._thread(number, name))
                self._paths[path] += 1
                # another thread can have the same number and name, since numbers are reused
                again = self._paths[path]
                trace.paths.append(path if again == 1 else (group, f"{path[1]} #{again}"))
        for process, number, text in self._task_names:
            if (entity := states.task_entity(process, number)) >= 0:
                trace.names[entity] = text
        self._task_names.clear()

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
        site = f"{name} ({fields['location']})" if "location" in fields else name
        self._sites[tag] = site
        return site

    def process_of(self, process: int) -> str | None:
        """Return the process in the paths of its tasks and requests; None if there is only one."""
        return self._process_labels[process] if len(self._processes) > 1 else None

    def _thread(self, stream: int, tid: int) -> str:
        name = self._replay.thread_of(stream, tid)
        process = self._replay.streams[stream].process
        if name == f"thread {tid}" and (called := self._called.get((process, tid))):
            name = f"{called} {tid}"
        if len(self._processes) == 1:
            return name
        role = f"{self._roles[process]}, " if self._roles[process] else ""
        return f"{self._process_labels[process]} {role}{name}"
