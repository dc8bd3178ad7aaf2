from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Int32s: TypeAlias = npt.NDArray[np.int32]
_Int64s: TypeAlias = npt.NDArray[np.int64]

STATES: tuple[str, ...]
FLOWS: tuple[str, ...]
ENTITIES: tuple[str, ...]

class TaskStates:
    def __init__(
        self, stream_process: _Int32s, waits: npt.NDArray[np.int8], place_offsets: _Int64s
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
    def entity_count(self) -> int: ...
    def entities_since(self, first: int) -> _Int32s: ...
    def take_changes(self) -> tuple[_Int64s, _Int32s, _Int32s, _Int32s]: ...
    def take_flows(self) -> tuple[_Int32s, _Int64s, _Int32s, _Int64s, _Int32s]: ...
