"""Where the members of CPython's structures are, by its version.

They are those of 64-bit builds with the GIL. From 3.13 on, the interpreter itself has a table of
most of them for debuggers (`_Py_DebugOffsets`), which replaces what is here: a later patch release
may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import MeantimeError

if TYPE_CHECKING:
    from meantime.inspection.memory import ProcessMemory

__all__ = ["FIRST_MINOR", "LAST_MINOR", "Layout"]

FIRST_MINOR, LAST_MINOR = 11, 15

# From CPython 3.11 to 3.15. -1: there is none.
_OFFSETS = {
    "runtime_interpreters": (40, 40, 632, 808, 936),
    "interpreter_threads": (16, 72, 7344, 7344, 7336),
    "interpreter_modules": (888, 944, 7656, 7688, 7592),
    "interpreter_tasks": (-1, -1, -1, 10880, 10856),
    # of the GIL: of the runtime in 3.11, and where an interpreter refers to it after that
    "runtime_gil_holder": (368, -1, -1, -1, -1),
    "interpreter_gil": (-1, 384, 16, 16, 16),
    "gil_holder": (0, 8, 8, 8, 8),
    "gil_locked": (8, 16, 16, 16, 16),
    "thread_next": (8, 8, 8, 8, 8),
    "thread_ident": (152, 136, 152, 152, 176),
    "thread_native_id": (160, 144, 160, 160, 184),
    # up to 3.12 the current frame is in a structure of its own
    "thread_cframe": (56, 56, -1, -1, -1),
    "thread_frame": (8, 0, 72, 72, 72),
    "thread_running_loop": (-1, -1, -1, 864, 1024),
    "thread_running_task": (-1, -1, -1, 872, 1032),
    "thread_tasks": (-1, -1, -1, 880, 1048),
    "frame_code": (32, 0, 0, 0, 0),
    "frame_previous": (48, 8, 8, 8, 8),
    "frame_instruction": (56, 56, 56, 56, 56),
    # the number of variables, of 32 bits, or since 3.14 the address behind the last one
    "frame_stack_top": (64, 64, 64, 64, 64),
    "frame_owner": (69, 70, 70, 74, 74),
    "frame_variables": (72, 72, 72, 80, 80),
    "generator_state": (75, 67, 67, 67, 67),
    "generator_frame": (80, 72, 72, 72, 72),
    "code_variables": (76, 72, 72, 72, 72),
    "code_first_line": (72, 68, 68, 68, 68),
    "code_file": (112, 112, 112, 112, 112),
    "code_name": (128, 128, 128, 128, 128),
    "code_lines": (136, 136, 136, 136, 136),
    "code_instructions": (184, 192, 200, 208, 208),
    "type_name": (24, 24, 24, 24, 24),
    "type_size": (32, 32, 32, 32, 32),
    "type_flags": (168, 168, 168, 168, 168),
    "type_keys": (872, 880, 880, 880, 888),
    "text_size": (48, 40, 40, 40, 40),
    "compact_text_size": (72, 56, 56, 56, 56),
}
# Their indexes in the interpreter's own table, from 3.13 on.
_DEBUG_INDEXES = {
    "runtime_interpreters": (5, 5, 5),
    "interpreter_threads": (9, 9, 9),
    "interpreter_modules": (11, 12, 12),
    "interpreter_gil": (14, 15, 15),
    "thread_next": (21, 24, 24),
    "thread_frame": (23, 26, 26),
    "thread_ident": (24, 27, 30),
    "thread_native_id": (25, 28, 31),
    "frame_previous": (29, 32, 40),
    "frame_code": (30, 33, 41),
    "frame_instruction": (31, 34, 42),
    "frame_variables": (32, 35, 43),
    "frame_owner": (33, 36, 44),
    "code_file": (35, 40, 48),
    "code_name": (37, 42, 50),
    "code_lines": (38, 43, 51),
    "code_first_line": (39, 44, 52),
    "code_instructions": (43, 48, 56),
    "type_name": (47, 53, 61),
}
_COOKIE = b"xdebugpy"
_VERSION_INDEX, _FREE_THREADED_INDEX = 1, 2
_MAX_OFFSET = 1 << 24
# states of generators: created, suspended (from and to), and executing
_STATES = ((-2, -1, -1, 0), (-2, -1, -1, 0), (-3, -2, -1, 0), (-3, -2, -1, 0), (0, 1, 3, 4))


class Layout:
    """The layout of one version, with the interpreter's own table where it has one.

    Args:
        memory: The process.
        version: The version of its interpreter, as `sys.hexversion`.
        runtime: The address of its `_PyRuntime`.

    Attributes:
        minor: The minor version of CPython 3.

    Raises:
        MeantimeError: If the version is not known, or the interpreter is of another kind.
        TornReadError: If the table cannot be read.
    """

    def __init__(self, memory: ProcessMemory, version: int, runtime: int) -> None:
        self.minor: int = version >> 16 & 255
        if version >> 24 != 3 or not FIRST_MINOR <= self.minor <= LAST_MINOR:
            raise MeantimeError(
                f"process {memory.pid} runs Python {version >> 24}.{self.minor}; this can look into"
                f" Python 3.{FIRST_MINOR} to 3.{LAST_MINOR}"
            )
        column = self.minor - FIRST_MINOR
        self._offsets = {name: by_version[column] for name, by_version in _OFFSETS.items()}
        self.created: int
        self.executing: int
        self.created, self._suspended, self._last_suspended, self.executing = _STATES[column]
        if self.minor >= 13:
            self._take_own_table(memory, version, runtime)

    def __getitem__(self, name: str) -> int:
        return self._offsets[name]

    def is_suspended(self, state: int) -> bool:
        """Return whether this is the state of a generator that waits."""
        return self._suspended <= state <= self._last_suspended

    def may_await(self, state: int) -> bool:
        """Return whether a suspended generator may have what it awaits on its stack.

        Up to 3.12 its state is the same if it only yields.
        """
        return self.minor < 13 or state > self._suspended

    def _take_own_table(self, memory: ProcessMemory, version: int, runtime: int) -> None:
        size = 1 + max(column[-1] for column in _DEBUG_INDEXES.values())
        cookie, table = memory.read(runtime, 8), memory.words(runtime, size)
        if cookie != _COOKIE or table[_VERSION_INDEX] != version:
            raise MeantimeError(
                f"process {memory.pid} runs a build of Python 3.{self.minor} that is not known: its"
                " table of structures is missing"
            )
        if table[_FREE_THREADED_INDEX]:
            raise MeantimeError(
                f"process {memory.pid} runs a free-threaded Python, into which this cannot look yet"
            )
        for name, indexes in _DEBUG_INDEXES.items():
            offset = table[indexes[self.minor - 13]]
            if offset < _MAX_OFFSET:
                self._offsets[name] = offset
