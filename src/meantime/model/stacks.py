"""Call stacks as a table of rows (parent, frame): stacks with the same callers share their rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import Interner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.model.columns import Int32s

__all__ = [
    "NO_STACK",
    "StackTable",
    "StackTableBuilder",
    "is_installed",
    "is_library",
    "short_path",
]

NO_STACK = -1
# the recorder's own files are not the program's either, wherever they are installed
_LIBRARY = (
    r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*|meantime[/\\]collect)[/\\]"
    r"|^<frozen"
)
_INSTALLED = (
    r"(?s).*[/\\]((?:site|dist)-packages[/\\].+)"
    r"|.*?[/\\](?:lib[/\\](python3.+)|(meantime[/\\]collect[/\\].+))"
)


class StackTable:
    """Stacks, each one row: the frame on top, and the row of the stack below it.

    A parent always comes before its children, so one pass from the last row to the first adds every
    stack's weight to its callers, and one pass forwards propagates from callers to callees.

    >>> table = StackTableBuilder()
    >>> both = table.add(["main", "read"])
    >>> table.add(["main", "write"]), both
    (2, 1)
    >>> stacks = table.build()
    >>> stacks.frames_of(2), stacks.parent.tolist()
    (['main', 'write'], [-1, 0, 0])

    Attributes:
        parent: int32, the row of the caller's stack; -1 at the bottom of a stack.
        frame: int32, index into `frames` of the function on top.
        frames: The functions' names.
    """

    __slots__ = ("frame", "frames", "parent")

    def __init__(self, parent: Int32s, frame: Int32s, frames: Sequence[str]) -> None:
        self.parent: Int32s = parent
        self.frame: Int32s = frame
        self.frames: Sequence[str] = frames

    def __len__(self) -> int:
        return len(self.parent)

    def frames_of(self, stack: int) -> list[str]:
        """Return a stack's functions, outermost first; an empty list for `NO_STACK`."""
        names = []
        while stack != NO_STACK:
            names.append(self.frames[self.frame[stack]])
            stack = int(self.parent[stack])
        return names[::-1]

    def __repr__(self) -> str:
        return f"StackTable({len(self):,} stacks of {len(self.frames):,} frames)"


class StackTableBuilder:
    """Builds a stack table in which equal stacks are one row."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int]] = []
        self._frames: list[str] = []
        self._row_codes = Interner(self._rows)
        self._frame_codes = Interner(self._frames)

    @classmethod
    def of(cls, table: StackTable) -> StackTableBuilder:
        """Return a builder that continues a table."""
        builder = cls()
        for name in table.frames:
            builder.frame(name)
        for stack, frame in zip(table.parent.tolist(), table.frame.tolist(), strict=True):
            builder.push(stack, frame)
        return builder

    def frame(self, name: str) -> int:
        """Return a frame's code, assigning a new one if necessary."""
        return self._frame_codes.code(name)

    def push(self, stack: int, frame: int) -> int:
        """Return the row of the stack with this frame on top of `stack`."""
        return self._row_codes.code((stack, frame))

    def add(self, names: Iterable[str]) -> int:
        """Return the row of these functions' stack, outermost first; `NO_STACK` if it is empty."""
        stack = NO_STACK
        row, frame = self._row_codes.code, self._frame_codes.code
        for name in names:
            stack = row((stack, frame(name)))
        return stack

    def build(self) -> StackTable:
        """Return the table of all stacks added so far."""
        rows = np.array(self._rows, np.int32).reshape(-1, 2)
        return StackTable(rows[:, 0].copy(), rows[:, 1].copy(), [*self._frames])


def is_library(file: str) -> bool:
    """Return whether a Python file is of the standard library or of an installed package."""
    return re.search(_LIBRARY, file) is not None


def is_installed(file: str) -> bool:
    """Return whether a Python file is of an installed package."""
    return re.search(r"[/\\](?:site|dist)-packages[/\\]", file) is not None


def short_path(file: str) -> str:
    """Return a Python file's name, with the folders that show of which library it is.

    >>> short_path("/home/me/app.py"), short_path("/usr/lib/python3.11/asyncio/runners.py")
    ('app.py', 'python3.11/asyncio/runners.py')
    >>> short_path("/srv/venv/lib/python3.11/site-packages/starlette/routing.py")
    'site-packages/starlette/routing.py'
    """
    installed = re.match(_INSTALLED, file) if is_library(file) else None
    if installed is None:
        return file.rsplit("/", 1)[-1]
    path: str = next(filter(None, installed.groups()))
    return path
