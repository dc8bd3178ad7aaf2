"""What type checkers know of a kernel is written from its signatures."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = '''"""Counts (rows."""

from enum import IntEnum

cdef enum:
    _FULL = 1

FULL, CUT = _FULL, 2
UNTYPED = <int> _FULL
ROW = np.dtype([
    ("time", "i8"),  # when
])
NAMES: dict[int, str] = {1: "one"}
SPLIT = ","

Stop = IntEnum("Stop", {
    "FULL": _FULL, "CUT": 2,
})


cpdef enum Kind:
    NONE = 0  # of no type
    SOME


class Columns(NamedTuple):
    """Some."""

    row: Int32s
    tag: Int32s | None


cdef class Rows(Base):
    """Rows (not in order."""

    cdef int _own
    cdef readonly Py_ssize_t count, room
    cdef public object word, late_word  #: Int64s

    def __cinit__(self, *, bint text=True):
        self._own = 1

    def __dealloc__(self):
        pass

    @property
    def size_bytes(self) -> int:
        def inner(a):
            return a

    def take(
        self, const int32_t[::1] quarks, double[:, ::1] sums, rows: list[int],  # as they come
        int64_t first=_FULL, str mark="(,",
    ) -> tuple[Int64s, dict[str, int]]:
        pass

    cdef int put(self, int64_t row) noexcept nogil:
        return 0


cdef class _Own:
    def hidden(self):
        pass


def put(Rows rows not None, *names: str):
    pass


def _private():
    pass
'''
STUB = """import numpy as np
import numpy.typing as npt
from enum import IntEnum
from meantime.kernels.bases import Base
from meantime.model.columns import Int32s
from meantime.model.columns import Int64s
from typing import NamedTuple

FULL: int
CUT: int
UNTYPED: int
ROW: np.dtype[np.void]
NAMES: dict[int, str]
def put(rows: Rows, *names: str) -> None: ...
class Stop(IntEnum):
    FULL = ...
    CUT = ...
class Kind(IntEnum):
    NONE = ...
    SOME = ...
class Columns(NamedTuple):
    row: Int32s
    tag: Int32s | None
class Rows(Base):
    count: int
    room: int
    word: Int64s
    late_word: Int64s
    def __init__(self, *, text: bool = True) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    def take(self, quarks: Int32s, sums: npt.NDArray[np.float64], rows: list[int],\
 first: int = ..., mark: str = "(,") -> tuple[Int64s, dict[str, int]]: ...
"""


def test_a_stub_has_what_is_public_of_a_kernel(root: Path, tmp_path: Path) -> None:
    write_stubs: Any = runpy.run_path(str(root / "stubs.py"))["write_stubs"]
    (tmp_path / "rows.pyx").write_text(KERNEL)
    (tmp_path / "bases.pyx").write_text("cdef class Base:\n    pass\n")
    (tmp_path / "bases.pxd").write_text(
        "cdef class Base:\n    cdef readonly object edges  #: Int64s\n"
    )
    (tmp_path / "removed.pyi").write_text("")

    write_stubs(tmp_path)

    assert sorted(path.name for path in tmp_path.glob("*.pyi")) == ["bases.pyi", "rows.pyi"]
    assert (tmp_path / "rows.pyi").read_text() == STUB
    assert (tmp_path / "bases.pyi").read_text().splitlines()[-2:] == [
        "class Base:",
        "    edges: Int64s",
    ]
