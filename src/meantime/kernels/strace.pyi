import numpy as np
import numpy.typing as npt

NO_TIME: int
EPOCH: int
OF_DAY: int
RELATIVE: int
UNFINISHED: int
NO_END: int
SIGNAL: int
EXIT: int
NAME: int
CHILD: int
WAITED: int
KILL: int

CALL_TYPE: np.dtype[np.void]
EVENT_TYPE: np.dtype[np.void]

class StraceText:
    mode: int
    decimals: int
    bounds: tuple[int, int]

    def __init__(self, with_commands: bool = False) -> None: ...
    def scan(self, block: memoryview | bytes, last: bool) -> int: ...
    def text(self) -> bytes: ...
    def calls(self) -> npt.NDArray[np.void]: ...
    def events(self) -> npt.NDArray[np.void]: ...
    def names(self) -> list[bytes]: ...
    def threads(self) -> npt.NDArray[np.int64]: ...
    def counts(self) -> dict[str, int]: ...
