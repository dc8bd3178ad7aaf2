"""The requests of a recorded web server, with the states of the tasks that served them.

A request is in the states of its task from its begin to its end, so that its time adds up. Its path
has its route, which is known when it is answered: until then its states wait here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.kernels.records import leading_numbers, request_rows
from meantime.model.attribute_paths import REQUESTS, recorded_paths
from meantime.model.columns import distinct
from meantime.model.trace import StateChanges
from meantime.providers.tasks import OUTCOME_NS, STATES
from meantime.readers.recording.children import Children, Rows
from meantime.readers.recording.merge import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Trace
    from meantime.readers.recording.entities import Entities
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.replay import Replay

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
_NUMBER = (1 << 32) - 1
# Paths of requests are all different, but memory must be bounded: further ones have no path.
_MAX_TAGS = 1 << 17
_MAX_KINDS = 10_000
_MAX_ANSWERS = 10_000
# what a request's tag has of the request, before what it has of the answer
_ASKED = ("method", "path")
_NUMBERS = re.compile(
    r"(?<=/)(?:\d+|[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12})(?=/|$)"
)


@dataclass(slots=True, eq=False)
class _Answer:
    """How requests were answered.

    Attributes:
        status: The status; 0 if they were not.
        route: The path with the names of parameters; empty if unknown.
        fields: What their tags have of it.
        described: The kind, name and tag of requests, by what was asked.
        nameless: The tags of further requests, which have no path, by method.
    """

    status: int
    route: str
    fields: dict[str, str | int]
    described: dict[bytes, tuple[str, str, int]] = field(default_factory=dict)
    nameless: dict[str, int] = field(default_factory=dict)


class _Open(NamedTuple):
    """The requests that have not ended, as columns.

    Attributes:
        key: Index of the process in the high 32 bits, and the number there.
        task: The entity of the task that serves it.
        begin_ns: When it began; once states of it were returned, when the latest of them did.
        whole: Whether it begins when its task was spawned.
        next_number: The number of the first change of its task that was not returned; -1 before.
        end_ns: When it ended, as far as that is known.
        entity: Its own entity; -1 as long as it has none.
        tag: The tag of its first state and of its outcome; -1 as long as it has no entity.
        status: The status that answered it; 0 before.
        asked: The bytes of its record after the task: whether it is whole, its method and path.
        answer: How it was answered.
    """

    key: Int64s
    task: Int64s
    begin_ns: Int64s
    whole: Int64s
    next_number: Int64s
    end_ns: Int64s
    entity: Int64s
    tag: Int64s
    status: Int64s
    asked: npt.NDArray[Any]
    answer: npt.NDArray[Any]

    @classmethod
    def of(
        cls, key: Int64s, task: Int64s, begin_ns: Int64s, asked: list[bytes], unanswered: _Answer
    ) -> _Open:
        """Return requests that begin."""
        count = len(key)
        whole = np.array([each.startswith(b"1\0") for each in asked], np.int64)
        unknown, none = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        return cls(
            *(key, task, begin_ns, whole, unknown, np.full(count, _UNKNOWN_NS, np.int64)),
            *(unknown.copy(), unknown.copy(), none),
            np.fromiter(asked, np.object_, count),
            np.full(count, unanswered, np.object_),
        )

    def index_of(self, keys: Int64s) -> Int64s:
        """Return the index of each of these keys; -1 if it is of no such request."""
        if not len(self.key) or not len(keys):
            return np.full(len(keys), -1, np.int64)
        order = np.argsort(self.key, kind="stable")
        at = order[np.minimum(np.searchsorted(self.key, keys, sorter=order), len(order) - 1)]
        return np.where(self.key[at] == keys, at, -1)


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
        self._unanswered = _Answer(0, "", dict.fromkeys(_ASKED, ""))
        nothing = np.empty(0, np.int64)
        self._open = _Open.of(nothing, nothing, nothing, [], self._unanswered)
        # the changes that requests which have not ended may still need, and of which tasks
        self._rows = Rows(*(np.empty(0, np.int64) for _ in Rows._fields))
        self._tasks = np.empty(0, np.int64)
        self._children = Children()
        self._before: StateChanges | None = None
        self._changes_before = 0
        self._answers: dict[bytes, _Answer] = {}
        self._tag_count = 0
        self._kinds: set[str] = set()

    def note(self, item: Records) -> None:
        """Read the records of requests."""
        self._begin(item)
        columns, found = item.columns(_RESPONSE)
        index = self._open.index_of(self._keys(*columns[1:]))
        known = np.flatnonzero(index >= 0)
        if len(known):
            answers = [self._answers.get(found[row]) or self._answer(found[row]) for row in known]
            # of several answers of a request, the last is kept
            self._open.answer[index[known]] = np.fromiter(answers, np.object_, len(answers))
            self._open.status[index[known]] = [each.status for each in answers]
        rows = np.flatnonzero(item.kind == _REQUEST_END)
        index = self._open.index_of(self._keys(item.stream[rows], item.ident[rows]))
        ended = np.flatnonzero(index >= 0)
        self._open.end_ns[index[ended]] = item.time_ns[rows[ended]] - self._replay.origin_ns

    def _begin(self, item: Records) -> None:
        """Add the requests that begin."""
        (row, stream, ident), begin, end = item.ranges(_REQUEST)
        if not len(row):
            return
        number, after = np.empty((2, len(row)), np.int64)
        leading_numbers(item.text, begin, end, number, after)
        task = self._replay.states.task_entities(self._replay.owners(stream), number)
        keys = self._keys(stream, ident)
        # the first that has a task is the request, if there is none of that number
        is_new = np.flatnonzero((task >= 0) & (self._open.index_of(keys) < 0))
        _, first = np.unique(keys[is_new], return_index=True)
        new = is_new[np.sort(first)]
        self._trace.anomalies.add("request_without_task", len(row) - len(new))
        begin_ns = item.time_ns[row[new]] - self._replay.origin_ns
        asked = item.texts(after[new], end[new])
        opened = _Open.of(keys[new], task[new], begin_ns, asked, self._unanswered)
        self._open = _Open(*map(np.concatenate, zip(self._open, opened, strict=True)))

    def _keys(self, stream: Int32s | Int64s, ident: npt.NDArray[np.uint32] | Int64s) -> Int64s:
        return self._replay.owners(stream) << 32 | ident.astype(np.int64)

    def _answer(self, data: bytes) -> _Answer:
        text, route, function, file, line = texts_of(data, 5)
        status = _number(text)
        found: dict[str, str | int] = {
            **self._unanswered.fields,
            "route": route,
            "status": status,
            "function": function,
            "location": f"{file.rpartition('/')[2]}:{line}" if file else "",
            "file": file,
            "line": _number(line),
        }
        kept = {name: value for name, value in found.items() if value or name in _ASKED}
        answer = _Answer(status, route, kept)
        if len(self._answers) < _MAX_ANSWERS:
            self._answers[data] = answer
        return answer

    def states(
        self, changes: StateChanges, flows: tuple[Int32s, Int64s, Int32s, Int64s, Int32s]
    ) -> Iterator[StateChanges]:
        """Yield the states of requests that follow from the next states and flows of tasks."""
        before, self._before = self._before, changes
        first, self._changes_before = (
            self._changes_before,
            self._changes_before + len(changes.time_ns),
        )
        if not len(self._open.key):
            return
        tasks = distinct(self._open.task)
        is_task = np.zeros(self._replay.states.entity_count(), np.bool_)
        parts = [self._rows]
        if before is not None:
            # a task that serves a new request may have been spawned among the changes before these
            is_task[np.setdiff1d(tasks, self._tasks, assume_unique=True)] = True
            parts.append(Rows.of(before, first - len(before.time_ns), is_task))
        self._children.note(flows, tasks)
        is_task[tasks] = True
        is_task[self._children.entities()] = True
        parts.append(Rows.of(changes, first, is_task))
        self._tasks = tasks
        # from here on all entities have their paths, and each new request adds its own
        self._entities.describe()
        yield from self._advance(_by_entity(parts))

    def unanswered(self) -> Iterator[StateChanges]:
        """Yield the states of requests that were not answered when the recording ended."""
        self._entities.describe()
        yield from self._advance(self._rows, final=True)

    def _advance(self, rows: Rows, *, final: bool = False) -> Iterator[StateChanges]:
        """Yield the states that follow from these rows, and keep the rows that may be needed."""
        open_ = self._open
        rows = self._children.replace_waits(rows, final=final)
        found = np.empty((4, len(open_.key)), np.int64)
        requests = np.stack(open_[1:6])
        request_rows(np.stack(rows[:4]), requests, _ENDS, found)
        goes_on = found[3] == _NOT_ENDED
        if not final:
            last = found[1, goes_on]
            self._children.hold_back(rows, requests[0, goes_on], found[0, goes_on], last)
            found[1, goes_on] = last
        is_named = open_.entity >= 0
        advanced = np.flatnonzero(is_named | (open_.status > 0) | ~goes_on | final)
        self._name(advanced[~is_named[advanced]])
        if len(advanced):
            changes, latest_ns = self._changes(rows, requests, found, advanced)
            # the lane of requests is added with the first of them
            self._entities.describe()
            if len(changes.time_ns):
                yield changes
            moved = goes_on[advanced] & (found[1, advanced] > found[0, advanced])
            last = found[1, advanced[moved]] - 1
            open_.next_number[advanced[moved]] = rows.number[last] + 1
            open_.begin_ns[advanced[moved]] = latest_ns[moved]
            open_.whole[advanced[moved]] = 0
        # Other requests may begin in the latest state of a task.
        needed = found[0]
        needed[advanced] = found[1, advanced] - 1
        tasks, task = np.unique(requests[0], return_inverse=True)
        first = np.full(len(tasks), len(rows.entity), np.int64)
        np.minimum.at(first, task[goes_on], needed[goes_on])
        at = np.minimum(np.searchsorted(tasks, rows.entity), len(tasks) - 1)
        kept = (np.arange(len(rows.entity)) >= first[at]) & (tasks[at] == rows.entity)
        needs = np.flatnonzero(first < len(rows.entity))
        first = np.maximum(first[needs], np.searchsorted(rows.entity, tasks[needs]))
        since = dict(zip(tasks[needs].tolist(), rows.number[first].tolist(), strict=True))
        kept |= self._children.kept(rows, since)
        self._rows = rows.taken(kept)
        self._open = _Open(*(column[goes_on] for column in open_))
        self._tasks = distinct(self._open.task)

    def _changes(
        self, rows: Rows, requests: Int64s, found: Int64s, advanced: Int64s
    ) -> tuple[StateChanges, Int64s]:
        """Return the states of some requests, and when the latest state of each begins."""
        open_ = self._open
        entity, tag = (column[advanced].astype(np.int32) for column in (open_.entity, open_.tag))
        failed = open_.status[advanced] >= _FAILURE
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

    def _name(self, indexes: Int64s) -> None:
        """Give requests an entity each, with its path and name, and a tag."""
        if not len(indexes):
            return
        open_, trace = self._open, self._trace
        asked, answers = open_.asked[indexes].tolist(), open_.answer[indexes].tolist()
        described = [
            answer.described.get(each) or self._describe(each, answer)
            for each, answer in zip(asked, answers, strict=True)
        ]
        kinds, names, tags = zip(*described, strict=True)
        process, number = open_.key[indexes] >> 32, open_.key[indexes] & _NUMBER
        first = self._replay.states.add_requests(process, number)
        open_.entity[indexes] = np.arange(first, first + len(indexes))
        open_.tag[indexes] = tags
        own = self._entities.names_of(process, number)
        trace.paths.extend(recorded_paths(REQUESTS, kinds, own))
        trace.names.update(enumerate(names, first))

    def _describe(self, asked: bytes, answer: _Answer) -> tuple[str, str, int]:
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
            answer.described[asked] = kind, name, tag
            return kind, name, tag
        if method not in answer.nameless:
            answer.nameless[method] = self._add_tag(answer, method, "")
        return kind, name, answer.nameless[method]

    def _add_tag(self, answer: _Answer, method: str, path: str) -> int:
        fields = answer.fields.copy()
        fields["method"], fields["path"] = method, path
        if not (method and path):
            fields = {name: value for name, value in fields.items() if value}
        self._trace.tags.append(fields)
        return len(self._trace.tags) - 1


def _by_entity(parts: list[Rows]) -> Rows:
    """Join rows, whose numbers ascend from part to part."""
    rows = Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(rows.entity, kind="stable")
    return Rows(*(column[order] for column in rows))


def _number(text: str) -> int:
    return int(text) if text.isdigit() and text.isascii() and len(text) <= _MAX_DIGITS else 0
