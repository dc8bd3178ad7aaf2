"""The requests of a recorded web server, with the states of the tasks that served them.

A request is in the states of its task from its begin to its end, so that its time adds up. Its path
has its route, which is known when it is answered: until then its states wait here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.attribute_paths import request_path
from meantime.kernels.record_kinds import KINDS
from meantime.kernels.records import request_rows
from meantime.kernels.tasks import REQUEST
from meantime.providers.tasks import OUTCOME_NS, STATES
from meantime.readers.recording.merge import texts_of
from meantime.trace import StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.columns import Int64s
    from meantime.readers.recording.entities import Entities
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.replay import Replay
    from meantime.trace import Trace

__all__ = ["Requests"]

_REQUEST, _RESPONSE, _REQUEST_END = (KINDS[name] for name in ("REQUEST", "RESPONSE", "REQUEST_END"))
_OUTCOMES = {"completed", "failed", "cancelled", "dropped"}
# by state + 1: whether a task in it has ended, as one without a state has
_ENDS = bytes([1, *(state in _OUTCOMES for state in STATES)])
_COMPLETED, _FAILED = STATES.index("completed"), STATES.index("failed")
# what the kernel says of requests that ended by themselves, and that have not ended
_BY_ITSELF, _NOT_ENDED = -2, -3
_NONE = -1
_UNKNOWN_NS = 2**63 - 1
_NOT_FOUND, _FAILURE = 404, 500
_MAX_DIGITS = 9
# Paths of requests are all different, but memory must be bounded: further ones have no path.
_MAX_TAGS = 1 << 17
_MAX_KINDS = 10_000
_MAX_ANSWERS = 10_000
# what a request's tag has of the request, before what it has of the answer
_ASKED = ("method", "path")
_NUMBERS = re.compile(
    r"(?<=/)(?:\d+|[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12})(?=/|$)"
)


class _Answer(NamedTuple):
    """How requests were answered.

    Attributes:
        number: Its number among the answers of the recording.
        status: The status; 0 if they were not.
        route: The path with the names of parameters; empty if unknown.
        fields: What their tags have of it.
    """

    number: int
    status: int
    route: str
    fields: dict[str, str | int]


_UNANSWERED = _Answer(0, 0, "", dict.fromkeys(_ASKED, ""))


@dataclass(slots=True)
class _Open:
    """The requests that have not ended, as columns.

    Attributes:
        key: Index of the process, and the number there.
        task: The entity of the task that serves it.
        begin_ns: When it began; once states of it were returned, when the latest of them did.
        whole: Whether it begins when its task was spawned.
        next_number: The number of the first change of its task that was not returned; -1 before.
        end_ns: When it ended, as far as that is known.
        entity: Its own entity; -1 as long as it has none.
        tag: The tag of its first state and of its outcome; -1 as long as it has no entity.
        asked: The bytes of its record after the task: whether it is whole, its method and path.
        answer: How it was answered.
    """

    key: list[tuple[int, int]] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    begin_ns: list[int] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    next_number: list[int] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)
    entity: list[int] = field(default_factory=list)
    tag: list[int] = field(default_factory=list)
    asked: list[bytes] = field(default_factory=list)
    answer: list[_Answer] = field(default_factory=list)

    def add(
        self,
        key: Sequence[tuple[int, int]],
        task: Sequence[int],
        begin_ns: Sequence[int],
        asked: Sequence[bytes],
    ) -> None:
        """Add requests that begin."""
        unknown = [-1] * len(key)
        self.key += key
        self.task += task
        self.begin_ns += begin_ns
        self.whole += [each.startswith(b"1\0") for each in asked]
        self.next_number += unknown
        self.end_ns += [_UNKNOWN_NS] * len(key)
        self.entity += unknown
        self.tag += unknown
        self.asked += asked
        self.answer += [_UNANSWERED] * len(key)

    def keep(self, kept: list[bool]) -> None:
        """Remove the other requests."""
        for column in fields_of(self):
            setattr(self, column.name, list(compress(getattr(self, column.name), kept)))


class _Rows(NamedTuple):
    """Changes of tasks, by entity; their numbers count all changes of the recording."""

    entity: Int64s
    number: Int64s
    time_ns: Int64s
    state: Int64s
    tag: Int64s

    @classmethod
    def of(cls, changes: StateChanges, first: int, tasks: npt.NDArray[np.bool_]) -> _Rows:
        """Return the changes of some tasks, in their order; the first of all is number `first`."""
        rows = np.flatnonzero(tasks[changes.entity])
        found = (changes.entity, changes.time_ns, changes.state, changes.tag)
        entity, *others = (column[rows].astype(np.int64) for column in found)
        return cls(entity, rows + first, *others)


class Requests:
    """The requests so far, and their states.

    Args:
        trace: The trace whose paths, names and tags are extended.
        replay: The replay with the tasks.
        entities: What names the entities of the trace.
    """

    def __init__(self, trace: Trace, replay: Replay, entities: Entities) -> None:
        self._trace = trace
        self._replay = replay
        self._entities = entities
        self._open = _Open()
        self._by_key: dict[tuple[int, int], int] = {}
        # the changes that requests which have not ended may still need, and of which tasks
        self._rows = _Rows(*(np.empty(0, np.int64) for _ in _Rows._fields))
        self._tasks = np.empty(0, np.int64)
        self._before: StateChanges | None = None
        self._changes_before = 0
        self._answers: dict[bytes, _Answer] = {}
        self._answer_count = 0
        # by the answer's number and what was asked: kind, name and tag
        self._described: dict[int, dict[bytes, tuple[str, str, int]]] = {}
        self._tag_count = 0
        # by the answer's number and the method
        self._nameless: dict[tuple[int, str], int] = {}
        self._kinds: set[str] = set()

    def note(self, item: Records) -> None:
        """Read the records of requests."""
        open_, by_key, streams = self._open, self._by_key, self._replay.streams
        task_entity, answers = self._replay.states.task_entity, self._answers
        count = len(open_.key)
        keys: list[tuple[int, int]] = []
        tasks: list[int] = []
        rows: list[int] = []
        asked: list[bytes] = []
        for row, stream, _, ident, data in item.payloads(_REQUEST):
            process = streams[stream].process
            digits, _, rest = data.partition(b"\0")
            task = task_entity(process, _number(digits))
            key = process, ident
            if task < 0 or key in by_key:
                self._trace.anomalies.add("request_without_task")
                continue
            by_key[key] = count + len(keys)
            keys.append(key)
            tasks.append(task)
            rows.append(row)
            asked.append(rest)
        if keys:
            times_ns = item.time_ns[rows] - self._replay.origin_ns
            open_.add(keys, tasks, times_ns.tolist(), asked)
        for _, stream, _, ident, data in item.payloads(_RESPONSE):
            index = by_key.get((streams[stream].process, ident))
            if index is not None:
                open_.answer[index] = answers.get(data) or self._answer(data)
        ends = np.flatnonzero(item.kind == _REQUEST_END)
        columns = (item.stream, item.ident, item.time_ns)
        for stream, ident, time_ns in zip(*(each[ends].tolist() for each in columns), strict=True):
            index = by_key.get((streams[stream].process, ident))
            if index is not None:
                open_.end_ns[index] = time_ns - self._replay.origin_ns

    def _answer(self, data: bytes) -> _Answer:
        text, route, function, file, line = texts_of(data, 5)
        status = _number(text)
        found: dict[str, str | int] = {
            **_UNANSWERED.fields,
            "route": route,
            "status": status,
            "function": function,
            "location": f"{file.rpartition('/')[2]}:{line}" if file else "",
            "file": file,
            "line": _number(line),
        }
        kept = {name: value for name, value in found.items() if value or name in _ASKED}
        self._answer_count += 1
        answer = _Answer(self._answer_count, status, route, kept)
        if len(self._answers) < _MAX_ANSWERS:
            self._answers[data] = answer
        return answer

    def states(self, changes: StateChanges) -> Iterator[StateChanges]:
        """Yield the states of requests that follow from the next states of tasks."""
        before, self._before = self._before, changes
        first, self._changes_before = (
            self._changes_before,
            self._changes_before + len(changes.time_ns),
        )
        if not self._open.key:
            return
        tasks = np.unique(np.array(self._open.task, np.int64))
        is_task = np.zeros(self._replay.states.entity_count(), np.bool_)
        parts = [self._rows]
        if before is not None:
            # a task that serves a new request may have been spawned among the changes before these
            is_task[np.setdiff1d(tasks, self._tasks)] = True
            parts.append(_Rows.of(before, first - len(before.time_ns), is_task))
        is_task[tasks] = True
        parts.append(_Rows.of(changes, first, is_task))
        self._tasks = tasks
        # from here on all entities have their paths, and each new request adds its own
        self._entities.describe()
        yield from self._advance(_by_entity(parts))

    def unanswered(self) -> Iterator[StateChanges]:
        """Yield the states of requests that were not answered when the recording ended."""
        self._entities.describe()
        yield from self._advance(self._rows, final=True)

    def _advance(self, rows: _Rows, *, final: bool = False) -> Iterator[StateChanges]:
        """Yield the states that follow from these rows, and keep the rows that may be needed."""
        open_ = self._open
        found = np.empty((4, len(open_.key)), np.int64)
        columns = (open_.task, open_.begin_ns, open_.whole, open_.next_number, open_.end_ns)
        requests = np.array(columns, np.int64)
        request_rows(np.stack(rows[:4]), requests, _ENDS, found)
        goes_on = found[3] == _NOT_ENDED
        is_named = np.array(open_.entity, np.int64) >= 0
        is_answered = np.array([each.status for each in open_.answer], np.int64) > 0
        advanced = np.flatnonzero(is_named | is_answered | ~goes_on | final)
        for index in advanced[~is_named[advanced]].tolist():
            self._name(index)
        if len(advanced):
            changes, latest_ns = self._changes(rows, requests, found, advanced)
            # the lane of requests is added with the first of them
            self._entities.describe()
            if len(changes.time_ns):
                yield changes
            moved = goes_on[advanced] & (found[1, advanced] > found[0, advanced])
            last = found[1, advanced[moved]] - 1
            next_number = (rows.number[last] + 1).tolist()
            for index, number, begin_ns in zip(
                advanced[moved].tolist(), next_number, latest_ns[moved].tolist(), strict=True
            ):
                open_.next_number[index] = number
                open_.begin_ns[index] = begin_ns
                open_.whole[index] = False
        # Other requests may begin in the latest state of a task.
        needed = found[0]
        needed[advanced] = found[1, advanced] - 1
        tasks, task = np.unique(requests[0], return_inverse=True)
        first = np.full(len(tasks), len(rows.entity), np.int64)
        np.minimum.at(first, task[goes_on], needed[goes_on])
        kept = np.arange(len(rows.entity)) >= first[np.searchsorted(tasks, rows.entity)]
        self._rows = _Rows(*(column[kept] for column in rows))
        open_.keep(goes_on.tolist())
        self._tasks = np.unique(np.array(open_.task, np.int64))
        self._by_key = {key: index for index, key in enumerate(open_.key)}

    def _changes(
        self, rows: _Rows, requests: Int64s, found: Int64s, advanced: Int64s
    ) -> tuple[StateChanges, Int64s]:
        """Return the states of some requests, and when the latest state of each begins."""
        open_ = self._open
        indexes = advanced.tolist()
        entity = np.array([open_.entity[index] for index in indexes], np.int32)
        tag = np.array([open_.tag[index] for index in indexes], np.int32)
        failed = np.array([open_.answer[index].status >= _FAILURE for index in indexes])
        first, last, end_ns, state = found[:, advanced]
        begin_ns, whole, next_number = requests[1:4, advanced]
        state = np.where(state == _BY_ITSELF, _COMPLETED, state)
        state[(state == _COMPLETED) & failed] = _FAILED
        floor_ns = np.where(whole, 0, begin_ns)
        counts = last - first
        moved = counts > 0
        latest_ns = begin_ns.copy()
        latest_ns[moved] = np.maximum(rows.time_ns[last[moved] - 1], floor_ns[moved])
        end_ns = np.maximum(end_ns, latest_ns)

        # each has its rows, then its outcome, if there is one, and no state once it has ended
        has_ended, has_outcome = state != _NOT_ENDED, state >= 0
        totals = counts + has_ended + has_outcome
        begins = np.cumsum(totals) - totals
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        source, target = (np.repeat(each, counts) + within for each in (first, begins))
        made = StateChanges(
            np.empty(totals.sum(), np.int64),
            np.repeat(entity, totals),
            np.full(totals.sum(), _NONE, np.int32),
            np.full(totals.sum(), -1, np.int32),
        )
        made.time_ns[target] = rows.time_ns[source]
        made.state[target] = rows.state[source]
        made.tag[target] = rows.tag[source]
        made.time_ns[begins[moved]] = np.maximum(made.time_ns[begins[moved]], floor_ns[moved])
        starts = moved & (next_number < 0)
        made.tag[begins[starts]] = tag[starts]
        outcome = (begins + counts)[has_outcome]
        made.time_ns[outcome] = end_ns[has_outcome]
        made.state[outcome] = state[has_outcome]
        made.tag[outcome] = tag[has_outcome]
        end = (begins + totals - 1)[has_ended]
        made.time_ns[end] = (end_ns + OUTCOME_NS * has_outcome)[has_ended]
        return made, latest_ns

    def _name(self, index: int) -> None:
        """Give a request an entity, with its path and name, and a tag."""
        open_, trace = self._open, self._trace
        asked, answer = open_.asked[index], open_.answer[index]
        known = self._described.setdefault(answer.number, {})
        kind, name, open_.tag[index] = known.get(asked) or self._describe(asked, answer, known)
        process, number = open_.key[index]
        entity = open_.entity[index] = self._replay.states.add_derived(REQUEST, process, number)
        trace.paths.append(request_path(kind, number, self._entities.process_of(process)))
        trace.names[entity] = name

    def _describe(
        self, asked: bytes, answer: _Answer, known: dict[bytes, tuple[str, str, int]]
    ) -> tuple[str, str, int]:
        """Return the kind, name and tag of a request; add it to those known, if there is room."""
        _, method, path = texts_of(asked, 3)
        route = answer.route
        if not route:
            route = "not found" if answer.status == _NOT_FOUND else _NUMBERS.sub("*", path)
        kind = f"{method} {route}"
        if kind not in self._kinds:
            if len(self._kinds) == _MAX_KINDS:
                kind = "others"
            self._kinds.add(kind)
        name = f"{method} {path} {answer.status or ''}".rstrip()
        if self._tag_count < _MAX_TAGS:
            self._tag_count += 1
            tag = self._add_tag(answer, method, path)
            known[asked] = kind, name, tag
            return kind, name, tag
        key = answer.number, method
        if key not in self._nameless:
            self._nameless[key] = self._add_tag(answer, method, "")
        return kind, name, self._nameless[key]

    def _add_tag(self, answer: _Answer, method: str, path: str) -> int:
        fields = answer.fields.copy()
        fields["method"], fields["path"] = method, path
        if not (method and path):
            fields = {name: value for name, value in fields.items() if value}
        self._trace.tags.append(fields)
        return len(self._trace.tags) - 1


def _by_entity(parts: list[_Rows]) -> _Rows:
    """Join rows, whose numbers ascend from part to part."""
    rows = _Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(rows.entity, kind="stable")
    return _Rows(*(column[order] for column in rows))


def _number(text: str | bytes) -> int:
    return int(text) if text.isdigit() and text.isascii() and len(text) <= _MAX_DIGITS else 0
