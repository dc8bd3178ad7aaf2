from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Int32s: TypeAlias = npt.NDArray[np.int32]
_Int64s: TypeAlias = npt.NDArray[np.int64]

TASK: int
LOOP: int
WORKER: int
THREAD: int
PROCESS: int
SAMPLED: int
REQUEST: int
LAG: int
TEST: int
COUNTER: int
CALLBACK: int
NO_LOCATION: int
BLOCKED_AFTER_NS: int
_Counted: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]

class TaskStates:
    undefined_locations: int

    def __init__(
        self,
        state_of: npt.NDArray[np.int8],
        is_event_wait: npt.NDArray[np.int8],
        is_task_wait: npt.NDArray[np.int8],
        *,
        outcome_ns: int,
        result_lead_ns: int,
    ) -> None: ...
    def extend(
        self,
        stream_process: _Int32s,
        parents: _Int32s,
        waits: npt.NDArray[np.int8],
        location_process: _Int32s,
        location_number: npt.NDArray[np.uint32],
    ) -> None: ...
    def feed(
        self,
        time_ns: _Int64s,
        stream: _Int32s,
        kind: npt.NDArray[np.uint8],
        ident: npt.NDArray[np.uint32],
        aux: npt.NDArray[np.uint32],
        order: _Int64s,
    ) -> None: ...
    def lost(self, stream: int, from_ns: int) -> None: ...
    def finish(self, process: int, time_ns: int) -> None: ...
    def task_entity(self, process: int, ident: int) -> int: ...
    def task_entities(self, process: _Int64s, ident: _Int64s) -> _Int64s: ...
    def add_process(self, process: int) -> int: ...
    def add_sampled_thread(self, process: int, tid: int) -> int: ...
    def add_derived(self, what: int, process: int, number: int) -> int: ...
    def add_requests(self, process: _Int64s, number: _Int64s) -> int: ...
    def entity_count(self) -> int: ...
    def entities_since(self, first: int) -> _Int64s: ...
    def watch_blocks(self, at_least_ns: int, known: int = ...) -> None: ...
    def end_blocks(self, process: int, time_ns: int) -> None: ...
    def take_blocks(
        self,
    ) -> tuple[
        _Int64s,
        _Int64s,
        _Int64s,
        _Int64s,
        _Int64s,
        _Int64s,
        _Int32s,
        _Int32s,
        _Int32s,
        _Int32s,
        _Int32s,
        _Int32s,
    ]: ...
    def take_lags(self) -> tuple[_Int64s, _Int32s, _Int64s]: ...
    def lags_counted(self) -> list[tuple[int, _Counted, _Counted]]: ...
    def take_labels(self) -> _Int32s | None: ...
    def forget_ended(self) -> npt.NDArray[np.int64]: ...
    def take_changes(self) -> tuple[_Int64s, _Int32s, _Int32s, _Int32s]: ...
    def take_flows(self) -> tuple[_Int32s, _Int64s, _Int32s, _Int64s, _Int32s]: ...
