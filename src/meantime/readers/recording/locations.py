"""Code locations of a process, where its tasks were spawned or waited, with the wait's reason."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.record_kinds import LEAVES
from meantime.kernels.tasks import NO_LOCATION
from meantime.model.stacks import is_installed, is_library
from meantime.providers.waits import wait_reason, wait_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s

__all__ = ["CodeLocation", "DefinedLocations", "parents_of"]

_LEAF_NONE, _LEAF_SPAWN, _LEAF_NAME = LEAVES["NONE"], LEAVES["SPAWN"], LEAVES["NAME"]
_LEAF_LOOP, _LEAF_BLOCKED = LEAVES["LOOP"], LEAVES["BLOCKED"]
_MOST_CALLS = 3
# The frames of asyncio, uvloop and trio that run steps, and those outside of them.
_LOOP_FUNCTIONS = {
    *("Handle._run", "BaseEventLoop._run_once", "BaseEventLoop.run_forever"),
    *("BaseEventLoop.run_until_complete", "Runner.run", "unrolled_run"),
}
# Modules of the interpreter, such as those that import others; and what the recorder left out.
_FROZEN = "<frozen"
# Before Python 3.12 a comprehension is a function of its own, as generators are in all versions.
_COMPREHENSION = r"(?:\.<locals>\.<(?:listcomp|setcomp|dictcomp|genexpr)>)+$"
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A line of code, and the coroutine it concerns.

    Attributes:
        line: Its number, 0 if unknown.
        function: The function's qualified name.
        file: The file's path as the code object has it.
        subject: The name of the spawned coroutine, or of the innermost one that waits.
        subject_file: The file that defines the subject.
        leaf: The kind of object that the innermost coroutine awaits, as numbered by the format.
        calls: Of a long step: what the function had called, the outermost first.
        caller: Of a long step: the code outside of libraries that had called the function directly.
        holder: Of one that waited for the GIL: the code of the thread that had it.
    """

    line: int
    function: str
    file: str
    subject: str = ""
    subject_file: str = ""
    leaf: int = _LEAF_NONE
    calls: str = ""
    caller: str = ""
    holder: str = ""

    @classmethod
    def parse(cls, text: str) -> CodeLocation:
        """Return the location in a definition's text; missing parts stay empty."""
        line, function, file, subject, subject_file, _, leaf, *_ = [*text.split("\0"), *[""] * 7]
        return cls(
            _number(line),
            function,
            file,
            subject,
            subject_file,
            _number(leaf),
        )

    @classmethod
    def parse_stack(cls, text: str) -> CodeLocation:
        """Return the location of a long step: its innermost line outside of libraries, if any.

        It has no function if only the event loop was seen, because the step is a function without
        a frame or had ended. If the thread waited for the GIL, the stack of the one that had it
        follows, after a frame without a name.
        """
        words = text.split("\0")
        frames = [
            cls(_number(line), re.sub(_COMPREHENSION, "", function), file, leaf=_LEAF_BLOCKED)
            for line, function, file in zip(words[::3], words[1::3], words[2::3], strict=False)
        ]
        end = (index for index, frame in enumerate(frames) if not (frame.function or frame.file))
        at = next(end, len(frames))
        had_gil = _innermost(frames[at + 1 :])
        found = _innermost(frames[:at]) or cls(0, "", "", leaf=_LEAF_BLOCKED)
        return replace(found, holder=had_gil.code if had_gil else "")

    @property
    def runtime(self) -> str:
        """The library of an event loop; empty for all other locations."""
        return self.function if self.leaf == _LEAF_LOOP else ""

    @property
    def code(self) -> str:
        """The function and the line, as `read (app.py:12)`."""
        name = self.function or self.subject
        return f"{name} ({self.location})" if self.location else name

    @property
    def stack(self) -> str:
        """The code of a long step and what it had called; empty for all other locations."""
        if self.leaf != _LEAF_BLOCKED:
            return ""
        return ", ".join(filter(None, [self.code, self.calls]))

    @property
    def location(self) -> str:
        """The line as `app.py:12`."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}" if self.file else ""

    @property
    def site(self) -> str:
        """The name of tasks spawned there, as `handle (app.py:12)`."""
        name = self.subject or "unknown"
        return f"{name} ({self.location})" if self.location else name

    @property
    def reason(self) -> str:
        """The reason why a task waits there; empty if unknown."""
        return wait_reason(self.subject, self.subject_file, self.leaf)

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of its tag."""
        if self.leaf == _LEAF_SPAWN:
            fields = {
                "coroutine": self.subject,
                "location": self.location,
                "function": self.function,
                "file": self.file,
                "line": self.line,
            }
        elif self.leaf == _LEAF_LOOP:
            fields = {"function": self.subject, "runtime": self.runtime}
        elif self.leaf in (_LEAF_NAME, _LEAF_BLOCKED):
            fields = {
                "function": self.function or self.subject,
                "location": self.location,
                "file": self.file,
                "line": self.line,
                "stack": self.stack,
                "caller": self.caller,
                "holder": self.holder,
            }
        else:
            fields = {
                "reason": self.reason,
                "location": self.location,
                "function": self.function,
                "file": self.file,
                "line": self.line,
                "in": self.subject,
            }
        return {name: value for name, value in fields.items() if value}


class DefinedLocations:
    """The code locations of all processes; the index of each is its tag, which never changes.

    Attributes:
        all: In the order in which they were added.
    """

    def __init__(self) -> None:
        self.all: list[CodeLocation] = []
        self._waits: list[int] = []
        self._process: list[int] = []
        self._number: list[int] = []
        self._added: dict[int, int] = {}

    def add(self, process: int, locations: Mapping[int, CodeLocation]) -> None:
        """Add the locations, by number, that a process has defined since the last call."""
        # dictionaries keep the order of insertion, so the new ones are at the end
        for number, location in islice(locations.items(), self._added.get(process, 0), None):
            self.all.append(location)
            is_blocked = location.leaf == _LEAF_BLOCKED
            is_nothing = is_blocked and not location.function and not location.holder
            wait = NO_LOCATION if is_nothing else wait_state(location.reason, location.leaf)
            self._waits.append(wait)
            self._process.append(process)
            self._number.append(number)
        self._added[process] = len(locations)

    def columns(self) -> tuple[npt.NDArray[np.int8], Int32s, npt.NDArray[np.uint32]]:
        """Return columns: the state of a task that waits there, the process, and the number.

        The state is `NO_LOCATION` for a number that stands for none.
        """
        return (
            np.array(self._waits, np.int8),
            np.array(self._process, np.int32),
            np.array(self._number, np.uint32),
        )


def _innermost(frames: list[CodeLocation]) -> CodeLocation | None:
    """Return the innermost frame outside of libraries, or of all, with what it had called."""
    # what is outside of the event loop did not run in the step
    loop = (i for i, frame in enumerate(frames) if frame.function in _LOOP_FUNCTIONS)
    frames = frames[: next(loop, len(frames))]
    if not frames:
        return None
    own = [index for index, frame in enumerate(frames) if not is_library(frame.file)]
    # an installed program is like a library, and what an import executes says more than how
    seen = own or [i for i, frame in enumerate(frames) if is_installed(frame.file)]
    seen = seen or [i for i, frame in enumerate(frames) if not frame.file.startswith(_FROZEN)]
    index = seen[0] if seen else 0
    called = [frame for frame in frames[:index] if not frame.file.startswith(_FROZEN)]
    called = called[-1 : -_MOST_CALLS - 1 : -1]
    outer = [frame for frame in frames[index + 1 :] if frame.function != frames[index].function]
    caller = outer[0].code if own and outer and not is_library(outer[0].file) else ""
    return replace(frames[index], calls=", ".join(frame.code for frame in called), caller=caller)


def parents_of(
    keys: Sequence[tuple[int, int]], parents: Mapping[tuple[int, int], tuple[int, int]]
) -> Int32s:
    """Return the index of each process's parent among the keys, or -1."""
    index = {key: number for number, key in enumerate(keys)}
    return np.array([index.get(parents.get(key, (0, 0)), -1) for key in keys], np.int32)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0
