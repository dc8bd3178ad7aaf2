"""A recording read once, from its beginning to its end, into a trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.model.clocks import Clock
from meantime.model.process_roles import described, fact_name
from meantime.model.trace import Counters, Flows, StateChanges, Trace
from meantime.providers.tasks import FLOWS, STATES, flow_codes
from meantime.readers.recording.blocks import NEVER_NS, Block
from meantime.readers.recording.entities import Entities
from meantime.readers.recording.facts import read_facts
from meantime.readers.recording.labels import Labels
from meantime.readers.recording.lag import Lag
from meantime.readers.recording.layout import FORMAT, is_clock_time
from meantime.readers.recording.listing import open_recording
from meantime.readers.recording.locations import parents_of
from meantime.readers.recording.phases import Phases
from meantime.readers.recording.pools import PoolCounters
from meantime.readers.recording.processes import kinship_of, without_arguments
from meantime.readers.recording.replay import Replay, ReplayedProcess, ReplayedStream
from meantime.readers.recording.requests import Requests
from meantime.readers.recording.samples import SampledStacks, Sampling
from meantime.readers.recording.streams import stream_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch
    from meantime.readers.recording.facts import Facts
    from meantime.readers.recording.listing import RecordingFiles
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.pieces import Piece
    from meantime.readers.recording.processes import Kinship

__all__ = ["Reading"]

_CLOCK = KINDS["CLOCK"]
_MAX_ANCHORS = 1000
_MAX_PROCESSES = 1000


class Reading:
    """One pass over a recording: its tables, and the trace that it fills.

    Args:
        recording: The recording's directory, or an opened recording.
        growing: Whether the recorded program may still run.
        block_ns: Collect the blocks of loops that lasted at least this long.
        now_ns: The CLOCK_MONOTONIC time until which loops that are busy at the end count as busy.
    """

    def __init__(
        self,
        recording: Path | RecordingFiles,
        *,
        growing: bool = False,
        private: bool = False,
        block_ns: int = NEVER_NS,
        now_ns: int | None = None,
    ) -> None:
        self._files = files = (
            open_recording(recording) if isinstance(recording, Path) else recording
        )
        self._growing = growing
        self._with_private = private
        self._arguments_left_out = 0
        self._block_ns = block_ns
        self._now_ns = now_ns
        self.blocks: list[Block] = []
        self.trace: Trace = Trace(str(files.path), FORMAT, self._batches())
        self._facts = [read_facts(process, files.anomalies) for process in files.processes]
        known = [facts for facts in self._facts if facts]
        self.origin_ns: int = min((facts.base_ns for facts in known), default=0)
        self._labels = Labels(self.trace)
        self._replay = Replay(self._labels)
        self._replay.origin_ns = self.origin_ns
        self._replay.lost = self.trace.lost
        kinship = kinship_of(files.processes, self._facts, self._shown)
        self._describe_processes(kinship)
        roles = [each.role for each in kinship]
        self._entities = Entities(self.trace, files, self._replay, roles)
        self._phases = Phases(self.trace, self._replay, self._entities)
        self._requests = Requests(self.trace, self._replay, self._entities)
        self._describe()
        if self._arguments_left_out:
            # not an anomaly: most recordings have some
            self.trace.facts["arguments left out"] = f"{self._arguments_left_out:,} (--include env)"

    def _describe(self) -> None:
        trace, description = self.trace, self._files.description
        trace.values.extend([*STATES, *FLOWS])
        command = description.get("command") or []
        words = [str(word) for word in command]
        if not self._with_private:
            words = without_arguments(words)
        trace.facts["command"] = " ".join(words)
        locations = (each for facts in self._facts if facts for each in facts.locations.values())
        if runtimes := {each.runtime for each in locations} - {""}:
            trace.facts["runtime"] = ", ".join(sorted(runtimes))
        unrecognised = sorted(set().union(*(each.unrecognised for each in self._facts if each)))
        if unrecognised:
            trace.facts["not recognised"] = "; ".join(unrecognised)
            trace.anomalies.add("library_not_recognised", len(unrecognised))
        unwatched = [each for each in self._facts if each is not None and each.unwatched]
        if unwatched:
            reasons = sorted({each.unwatched for each in unwatched})
            trace.facts["waits of threads"] = f"not recorded: {'; '.join(reasons)}"
            missing = sum(not each.is_unwatched_by_choice for each in unwatched)
            trace.anomalies.add("thread_waits_missing", missing)
        trace.title = " ".join([PurePath(word).name for word in words[:2]] + words[2:])
        utc_ns = [
            facts.realtime_ns
            for facts in self._facts
            if facts and facts.base_ns == self.origin_ns and facts.realtime_ns is not None
        ]
        trace.clock = Clock(
            "monotonic",
            host=description.get("host"),
            boot_id=description.get("boot_id"),
            utc_at_origin_ns=utc_ns[0] if utc_ns else None,
        )

    def _shown(self, words: list[str]) -> list[str]:
        """Return the words of a command that are copied: no arguments, unless they are wanted."""
        if self._with_private:
            return words
        program = without_arguments(words)
        self._arguments_left_out += len(words) - len(program)
        return program

    def _describe_processes(self, kinship: list[Kinship]) -> None:
        labels = [self._files.label(process) for process in self._files.processes]
        if len(labels) > 1:
            for label, each in list(zip(labels, kinship, strict=True))[:_MAX_PROCESSES]:
                parent = labels[each.parent] if each.parent >= 0 else ""
                text = described(each.role, parent, each.command)
                self.trace.facts[fact_name(label)] = text

    def _batches(self) -> Iterator[Batch]:
        replay, trace = self._replay, self.trace
        pieces = self._open_streams()
        replay.define()
        replay.states.watch_blocks(self._block_ns)
        trace.tags.extend(dict(location.fields()) for location in replay.locations.all)
        sampling = self._open_samples()
        pools = self._open_pools()
        unfinished = set(range(len(replay.processes)))
        for item in replay.run(pieces):
            self._entities.note_names(item)
            self._requests.note(item)
            yield from self._phases.states(item)
            self._anchor(item)
            trace.records += len(item.order)
            sampling.feed(item, item.time_ns - self.origin_ns)
            ended = unfinished - {replay.streams[stream].process for stream in item.going_on}
            unfinished -= ended
            self._finish(ended)
            pools.feed(item, self.origin_ns)
            for number in ended:
                pools.finish(number, replay.processes[number].last_ns + 1 - self.origin_ns)
            yield from self._take()
            yield from pools.take()
            yield from self._entities.take_samples(sampling)
        sampling.finish()
        yield from self._entities.take_samples(sampling)
        self._finish(unfinished)
        if not self._growing:
            for number in unfinished:
                pools.finish(number, replay.processes[number].last_ns + 1 - self.origin_ns)
        yield from self._take()
        yield from pools.take()
        yield from self._requests.unanswered()
        for entity, *lags in replay.states.lags_counted():
            trace.facts[f"loop lag of {trace.paths[entity][1]}"] = Lag.of(*lags).text()
        trace.anomalies.update(replay.anomalies)
        trace.anomalies.add("undefined_location", replay.states.undefined_locations)
        self._count_lost()
        trace.anomalies.update(self._files.anomalies)
        if replay.streams:
            last_ns = max(process.last_ns for process in replay.processes)
            trace.bounds = (0, last_ns + 1 - self.origin_ns)
        self._add_unwritten()

    def _finish(self, processes: set[int]) -> None:
        """End the states of processes that have no more records, in order of time."""
        replay = self._replay
        for number in sorted(processes, key=lambda number: replay.processes[number].last_ns):
            if not self._growing or self._is_replaced(number):
                replay.finish(number, self._now_ns)
            else:
                replay.end_blocks(number, self._now_ns or replay.processes[number].last_ns)

    def _is_replaced(self, number: int) -> bool:
        """Return whether another process has had the process's id since."""
        processes = self._files.processes
        return number + 1 < len(processes) and processes[number + 1].pid == processes[number].pid

    def _open_streams(self) -> list[list[Piece]]:
        """Add processes and streams to the replay; return the words of each stream."""
        pieces = []
        for number, process in enumerate(self._files.processes):
            facts = self._facts[number]
            self._replay.processes.append(
                ReplayedProcess(
                    process.pid,
                    process.incarnation,
                    (0, 0) if facts is None else facts.parent,
                    {} if facts is None else facts.locations,
                    self.origin_ns,
                )
            )
            if facts is not None:
                self._add_rotated(facts)
            slots = 0
            for files in process.streams.values():
                words = stream_words(files, self._files.anomalies)
                slots += words.slots
                self.trace.anomalies.add("records_missing", words.gaps)
                self.trace.anomalies.add("file_damaged", words.damaged)
                if words.base_ns is not None and process.base_ns is not None:
                    stream = ReplayedStream(number, process.base_ns)
                    stream.lost_by_tail = words.lost_events
                    self._replay.streams.append(stream)
                    pieces.append(words.pieces)
            if facts is not None:
                # a process that ended normally has written CLOSED as its last fact
                is_cut = facts.closed is None and bool(process.streams) and not process.has_tail
                self.trace.anomalies.add("truncated", facts.truncated + is_cut)
                if facts.closed is not None and facts.closed.slots > slots:
                    self.trace.anomalies.add("records_missing", facts.closed.slots - slots)
        return pieces

    def _open_samples(self) -> Sampling:
        stacks = SampledStacks()
        for facts in self._facts:
            stacks.add({} if facts is None else facts.frames, {} if facts is None else facts.stacks)
        if len(table := stacks.table()):
            self.trace.stacks = table
        owners = [stream.process for stream in self._replay.streams]
        periods_ns = [0 if facts is None else facts.period_ns for facts in self._facts]
        return Sampling(self.trace, owners, periods_ns, stacks)

    def _open_pools(self) -> PoolCounters:
        processes = self._replay.processes
        keys = [(process.pid, process.incarnation) for process in processes]
        parents = dict(zip(keys, (process.parent for process in processes), strict=True))
        return PoolCounters(
            self.trace,
            [stream.process for stream in self._replay.streams],
            self._facts,
            parents_of(keys, parents).tolist(),
            self._entities.add_counter,
        )

    def _add_rotated(self, facts: Facts) -> None:
        since_ns = facts.base_ns - self.origin_ns
        for slots, from_ns, until_ns in facts.rotated:
            self.trace.anomalies.add("records_rotated", slots)
            self.trace.lost.append((from_ns + since_ns, until_ns + since_ns))

    def _count_lost(self) -> None:
        """Count the lost events, not all of which are in records."""
        counted: Counter[int] = Counter()
        for stream in self._replay.streams:
            # a tail also counts losses that its stream has not reported
            counted[stream.process] += max(stream.lost, stream.lost_by_tail)
        for number, facts in enumerate(self._facts):
            closed = None if facts is None else facts.closed
            lost = counted[number] if closed is None else max(counted[number], closed.lost)
            self.trace.anomalies.add("records_lost", lost)

    def _add_unwritten(self) -> None:
        """Count the records that could not be written anywhere, and add their times."""
        closed = [facts.closed for facts in self._facts if facts and facts.closed]
        closed = [each for each in closed if each.unwritten]
        shared = self._files.unwritten
        # both count the same events, but a process that was killed only in the shared page
        events = max(shared.events, sum(each.unwritten for each in closed))
        self.trace.anomalies.add("records_lost", events)
        self.trace.anomalies.add("definitions_lost", shared.facts)
        spans = [(each.from_ns, each.until_ns) for each in closed]
        if events and (shared.from_ns, shared.until_ns) not in spans:
            spans.append((shared.from_ns, shared.until_ns))
        for from_ns, until_ns in spans:
            if is_clock_time(until_ns) and self.origin_ns <= from_ns <= until_ns:
                lost = from_ns - self.origin_ns, until_ns - self.origin_ns
                self.trace.lost.append(lost)
                end_ns = 0 if self.trace.bounds is None else self.trace.bounds[1]
                self.trace.bounds = (0, max(end_ns, lost[1] + 1))

    def _anchor(self, item: Records) -> None:
        clock = self.trace.clock
        rows = np.flatnonzero(item.kind == _CLOCK)[: _MAX_ANCHORS - len(clock.anchors)]
        if len(rows):
            utc = item.ident[rows].astype(np.int64) | item.aux[rows].astype(np.int64) << 32
            pairs = zip((item.time_ns[rows] - self.origin_ns).tolist(), utc.tolist(), strict=True)
            new = [(time_ns, utc_ns) for time_ns, utc_ns in pairs if is_clock_time(utc_ns)]
            anchors = tuple(sorted([*clock.anchors, *new]))
            self.trace.clock = Clock(
                clock.kind, clock.host, clock.boot_id, clock.utc_at_origin_ns, anchors
            )

    def _take(self) -> Iterator[Batch]:
        states = self._replay.states
        self._entities.describe()
        self._take_blocks()
        labels = states.take_labels()
        time_ns, entity, state, tag = states.take_changes()
        flows = states.take_flows()
        if labels is not None:
            tag = self._labels.tags(tag, labels)
        if len(time_ns):
            changes = StateChanges(time_ns, entity, state, tag)
            yield changes
            yield from self._requests.states(changes, flows)
        lags = states.take_lags()
        if len(lags[0]):
            yield Counters(*lags)
        if len(flows[0]):
            yield Flows(*flows[:4], flow_codes(flows[4]) + np.int32(len(STATES)))

    def _take_blocks(self) -> None:
        paths, locations = self.trace.paths, self._replay.locations.all
        columns = self._replay.states.take_blocks()
        for *times_ns, off_ns, loop, task, before, after, code, holder in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            begin_ns, end_ns, waited_ns, gil_ns, code_ns = times_ns
            resumed, paused = (
                locations[tag].location if tag >= 0 else "" for tag in (before, after)
            )
            self.blocks.append(
                Block(
                    begin_ns,
                    end_ns,
                    paths[loop] if loop >= 0 else None,
                    paths[task] if task >= 0 else None,
                    resumed,
                    paused,
                    waited_ns=waited_ns,
                    code=locations[code].code if code >= 0 else "",
                    calls=locations[code].calls if code >= 0 else "",
                    code_ns=code_ns,
                    gil_ns=gil_ns,
                    gil_holder=self._replay.thread_named(holder),
                    unrecorded_ns=off_ns,
                )
            )
