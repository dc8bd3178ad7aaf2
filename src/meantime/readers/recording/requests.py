"""The requests of a recorded web server, with the states of the tasks that served them.

A request is in the states of its task from its begin to its end, so that its time adds up. Its path
has its route, which is known when it is answered: until then its states wait here.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from meantime.attribute_paths import request_path
from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import REQUEST
from meantime.providers.tasks import OUTCOME_NS, STATES
from meantime.trace import StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from meantime.readers.recording.entities import Entities
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.replay import Replay
    from meantime.trace import Trace

__all__ = ["Requests"]

_REQUEST, _RESPONSE, _REQUEST_END = (KINDS[name] for name in ("REQUEST", "RESPONSE", "REQUEST_END"))
_ENDS = frozenset(STATES.index(name) for name in ("completed", "failed", "cancelled", "dropped"))
_COMPLETED, _FAILED = STATES.index("completed"), STATES.index("failed")
_NONE = -1
_NOT_FOUND, _FAILURE = 404, 500
_MAX_DIGITS = 9
# Paths of requests are all different, but memory must be bounded: further ones have no path.
_MAX_TAGS = 1 << 17
_MAX_KINDS = 10_000
_NUMBERS = re.compile(
    r"(?<=/)(?:\d+|[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12})(?=/|$)"
)
# A task ends with two rows: its outcome, and no state.
_END_ROWS = 2

_Row = tuple[int, int, int]  # time, state, tag
_Made = tuple[int, int, int, int]  # the same with the entity after the time
_TIME = itemgetter(0)


@dataclass(slots=True)
class _Request:
    """A request that has not ended.

    Attributes:
        process: Index of its process.
        number: Its number there.
        task: The entity of the task that serves it.
        begin_ns: When it began; once states of it were returned, when the latest of them did.
        whole: Whether it begins when its task was spawned.
        method: Its method.
        path: Its path.
        status: The status it was answered with; 0 if it was not.
        route: Its path with the names of parameters; empty if unknown.
        answered_by: Name, file and line of the function that answered.
        end_ns: When it ended; None if it ends with its task.
        entity: Its own entity; -1 as long as it has none.
    """

    process: int
    number: int
    task: int
    begin_ns: int
    whole: bool
    method: str
    path: str
    status: int = 0
    route: str = ""
    answered_by: tuple[str, str, str] = ("", "", "")
    end_ns: int | None = None
    entity: int = -1


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
        self._open: dict[tuple[int, int], _Request] = {}
        # of tasks that serve an open request: what was not used yet, and the row before that
        self._rows: dict[int, list[_Row]] = {}
        self._before: StateChanges | None = None
        self._tags: dict[tuple[object, ...], int] = {}
        self._kinds: set[str] = set()

    def note(self, item: Records) -> None:
        """Read the records of requests."""
        origin_ns = self._replay.origin_ns
        for payload in item.payloads:
            kind = int(item.kind[payload.row])
            if kind not in {_REQUEST, _RESPONSE}:
                continue
            key = self._replay.streams[payload.stream].process, int(item.ident[payload.row])
            fields = payload.data.decode("utf-8", "replace").split("\0")
            if kind == _REQUEST:
                self._begin(key, fields, int(item.time_ns[payload.row]) - origin_ns)
            elif (request := self._open.get(key)) is not None:
                status, route, *place = [*fields, *[""] * 5][:5]
                request.status = _number(status)
                request.route = route
                request.answered_by = (place[0], place[1], place[2])
        for row in np.flatnonzero(item.kind == _REQUEST_END).tolist():
            key = self._replay.streams[int(item.stream[row])].process, int(item.ident[row])
            if (request := self._open.get(key)) is not None:
                request.end_ns = int(item.time_ns[row]) - origin_ns

    def _begin(self, key: tuple[int, int], fields: list[str], time_ns: int) -> None:
        task, whole, method, path = [*fields, *[""] * 4][:4]
        entity = self._replay.states.task_entity(key[0], _number(task))
        if entity < 0 or key in self._open:
            self._trace.anomalies.add("request_without_task")
            return
        self._open[key] = _Request(*key, entity, time_ns, whole == "1", method, path)

    def states(self, changes: StateChanges) -> Iterator[StateChanges]:
        """Yield the states of requests that follow from the next states of tasks."""
        before, self._before = self._before, changes
        if not self._open:
            return
        rows = self._rows
        # a task that serves a new request may have been spawned among the changes before these
        new = {request.task for request in self._open.values()} - rows.keys()
        if before is not None:
            _add_rows(rows, before, new)
        _add_rows(rows, changes, new | rows.keys())
        # from here on all entities have their paths, and each new request adds its own
        self._entities.describe()
        made: list[_Made] = []
        self._rows = {}
        for key, request in list(self._open.items()):
            own = rows.get(request.task, [])
            if self._advance(request, own, made):
                del self._open[key]
            else:
                self._rows[request.task] = own
        yield from self._changes(made)

    def unanswered(self) -> Iterator[StateChanges]:
        """Yield the states of requests that were not answered when the recording ended."""
        self._entities.describe()
        made: list[_Made] = []
        for request in self._open.values():
            self._advance(request, self._rows.get(request.task, []), made, final=True)
        yield from self._changes(made)

    def _advance(
        self, request: _Request, rows: list[_Row], made: list[_Made], *, final: bool = False
    ) -> bool:
        """Add the states of a request that follow from its task's rows; return whether it ended."""
        first = 0
        if request.entity >= 0:
            # the first row is the latest that was added
            first = min(1, len(rows))
        elif not request.whole:
            first = max(0, bisect_right(rows, request.begin_ns, key=_TIME) - 1)
        last, end = _end(request, rows, first)
        if request.entity < 0 and end is None and not request.status and not final:
            return False
        tag = -1
        if request.entity < 0:
            self._name(request)
            tag = self._tag(request)
        floor_ns = 0 if request.whole else request.begin_ns
        if last > first:
            time_ns, state, own = rows[first]
            entity = request.entity
            made.append((max(time_ns, floor_ns), entity, state, own if tag < 0 else tag))
            made += [(row[0], entity, row[1], row[2]) for row in rows[first + 1 : last]]
            request.begin_ns = max(rows[last - 1][0], floor_ns)
            request.whole = False
        if end is None:
            del rows[: last - 1]
            return False
        end_ns, state = max(end[0], request.begin_ns), end[1]
        if state == _COMPLETED and request.status >= _FAILURE:
            state = _FAILED
        if state != _NONE:
            made.append((end_ns, request.entity, state, self._tag(request)))
            end_ns += OUTCOME_NS
        made.append((end_ns, request.entity, _NONE, -1))
        return True

    def _name(self, request: _Request) -> None:
        """Give a request an entity, with its path and name."""
        route = request.route
        if not route:
            route = "not found" if request.status == _NOT_FOUND else _NUMBERS.sub("*", request.path)
        kind = f"{request.method} {route}"
        if kind not in self._kinds and len(self._kinds) == _MAX_KINDS:
            kind = "others"
        self._kinds.add(kind)
        trace = self._trace
        request.entity = self._replay.states.add_derived(REQUEST, request.process, request.number)
        process = self._entities.process_of(request.process)
        trace.paths.append(request_path(kind, request.number, process))
        answer = f" {request.status}" if request.status else ""
        trace.names[request.entity] = f"{request.method} {request.path}{answer}"

    def _tag(self, request: _Request) -> int:
        """Return the tag of a request's first state and of its outcome."""
        path = request.path if len(self._tags) < _MAX_TAGS else ""
        key = (request.method, path, request.route, request.status, request.answered_by)
        known = self._tags.get(key)
        if known is None:
            function, file, line = request.answered_by
            fields = {
                "method": request.method,
                "path": path,
                "route": request.route,
                "status": request.status,
                "function": function,
                "location": f"{file.rpartition('/')[2]}:{line}" if file else "",
                "file": file,
                "line": _number(line),
            }
            known = self._tags[key] = len(self._trace.tags)
            self._trace.tags.append({name: value for name, value in fields.items() if value})
        return known

    def _changes(self, made: list[_Made]) -> Iterator[StateChanges]:
        # the lane of requests is added with the first of them
        self._entities.describe()
        if made:
            time_ns, entity, state, tag = zip(*made, strict=True)
            yield StateChanges(
                np.array(time_ns, np.int64),
                np.array(entity, np.int32),
                np.array(state, np.int32),
                np.array(tag, np.int32),
            )


def _end(request: _Request, rows: list[_Row], first: int) -> tuple[int, tuple[int, int] | None]:
    """Return the number of a request's rows up to its end, and its time and state if it ended."""
    last, end = len(rows), None
    for index in range(max(first, last - _END_ROWS), last):
        if rows[index][1] in _ENDS or rows[index][1] == _NONE:
            last, end = index, (rows[index][0], rows[index][1])
            break
    if request.end_ns is not None and (end is None or request.end_ns < end[0]):
        last = max(first, bisect_left(rows, request.end_ns, hi=last, key=_TIME))
        end = request.end_ns, _COMPLETED
    return last, end


def _add_rows(rows: dict[int, list[_Row]], changes: StateChanges, tasks: AbstractSet[int]) -> None:
    """Add the rows of some tasks to those that are known of each."""
    found = np.flatnonzero(np.isin(changes.entity, np.fromiter(tasks, np.int32)))
    if not len(found):
        return
    order = found[np.argsort(changes.entity[found], kind="stable")]
    entity = changes.entity[order]
    starts = np.flatnonzero(np.diff(entity, prepend=-1)).tolist()
    columns = (changes.time_ns[order], changes.state[order], changes.tag[order])
    made = list(zip(*(column.tolist() for column in columns), strict=True))
    for begin, end in zip(starts, [*starts[1:], len(made)], strict=True):
        rows.setdefault(int(entity[begin]), []).extend(made[begin:end])


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0
