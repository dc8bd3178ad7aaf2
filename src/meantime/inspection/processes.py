"""What a running Python process is doing at one moment, read from outside."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from meantime.errors import MeantimeError
from meantime.inspection.layout import FIRST_MINOR, Layout
from meantime.inspection.memory import ProcessMemory, TornReadError
from meantime.inspection.objects import CodeLine, Objects
from meantime.inspection.symbols import symbol_addresses
from meantime.kernels.record_kinds import LEAVES
from meantime.providers.waits import wait_reason

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "InspectedProcess",
    "InspectedTask",
    "InspectedThread",
    "inspect_process",
    "python_version",
]

_ATTEMPTS = 10
_MOST_THREADS, _MOST_FRAMES, _MOST_TASKS, _MOST_AWAITED = 10_000, 512, 200_000, 200
_OWNED_BY_GENERATOR, _OWNED_BY_INTERPRETER = 1, 3
_TASK_BYTES = 512
# The state of a thread is smaller.
_STATE_BYTES = 4096
# what a coroutine may await, and where that has what it awaits itself
_WRAPPERS = {
    "coroutine_wrapper": 16,
    "async_generator_asend": 16,
    "async_generator_athrow": 16,
    "async_generator_anext_awaitable": 16,
    # of a program that is being recorded
    "meantime.collect.RecordedCoroutine": 16,
}
_GENERATORS = {"coroutine", "generator", "async_generator"}
_FUTURE_ITERATOR = "_asyncio.FutureIter"
_ASYNCIO_TASK = "_asyncio.Task"
_TASK_LEAVES = {_ASYNCIO_TASK, "_GatheringFuture"}
_KERNEL_STATES = {
    "R": "running",
    "D": "disk",
    "T": "stopped",
    "t": "stopped",
    "Z": "ended",
    "X": "ended",
}

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class InspectedThread:
    """A thread.

    Attributes:
        tid: Its id in the kernel.
        name: Its name.
        state: What the kernel says of it: `running` (on a CPU, or ready for one), `waiting`,
            `disk`, `stopped` or `ended`.
        has_gil: Whether it had the interpreter's lock.
        frames: Its Python stack, the innermost first.
        is_changing: Whether the stack changed whenever it was read, so that it may be of no moment.
    """

    tid: int
    name: str
    state: str
    has_gil: bool
    frames: tuple[CodeLine, ...]
    is_changing: bool


@dataclass(frozen=True, slots=True)
class InspectedTask:
    """A task of asyncio.

    Attributes:
        name: Its name.
        tid: The thread that runs its loop; 0 if none does, or it is not known.
        state: `running`, `spawned` (not begun), `runnable` (it waits for its loop only) or
            `waiting`.
        reason: For what it waits, as `lock` or `io-read`; empty if it does not, or for what is
            not known.
        awaits: The name of the task for which it waits; empty if it is something else.
        frames: The coroutines that await each other, the task's own first.
    """

    name: str
    tid: int
    state: str
    reason: str
    awaits: str
    frames: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class InspectedProcess:
    """What a process was doing.

    Attributes:
        pid: Its id.
        python: The version of its interpreter.
        command: Its command line.
        threads: Its threads that run Python.
        tasks: Its tasks that have not ended.
        unreadable: The number of tasks that changed while they were read, and are not among these.
    """

    pid: int
    python: str
    command: tuple[str, ...]
    threads: tuple[InspectedThread, ...]
    tasks: tuple[InspectedTask, ...]
    unreadable: int


def inspect_process(pid: int) -> InspectedProcess:
    """Return what a process of CPython 3.11 or later is doing, without stopping or changing it.

    Its memory is read from outside, so it may be stuck. Reading it needs the right to trace it.

    Raises:
        MeantimeError: If there is no such process, it may not be read, or it is of another kind:
            with what to do.
    """
    with ProcessMemory(pid) as memory:
        version, runtime = _interpreter_of(memory)
        try:
            return _Inspection(memory, version, runtime).result()
        except TornReadError as error:
            raise MeantimeError(
                f"process {pid} cannot be read: its interpreter is beginning or ending, or of a"
                " build that is not known"
            ) from error


def python_version(pid: int) -> tuple[int, int]:
    """Return the major and minor version of a process's interpreter.

    Raises:
        MeantimeError: If there is no such process, or it may not be read, or is not CPython 3.11 or
            later.
    """
    with ProcessMemory(pid) as memory:
        version = _interpreter_of(memory)[0]
    return version >> 24, version >> 16 & 255


def _interpreter_of(memory: ProcessMemory) -> tuple[int, int]:
    """Return the version of a process's interpreter, and the address of its runtime."""
    is_python = False
    mappings = memory.mappings()
    try:
        program = str(Path(f"/proc/{memory.pid}/exe").readlink())
    except OSError:
        program = ""
    for mapping in mappings:
        name = mapping.path.rpartition("/")[2]
        if mapping.offset or not (mapping.path == program or "python" in name):
            continue
        with suppress(TornReadError):
            found = symbol_addresses(memory, mapping.start, ["Py_Version", "_PyRuntime"])
            is_python = is_python or "_PyRuntime" in found
            if len(found) == 2:
                return memory.word(found["Py_Version"]) & 0xFFFFFFFF, found["_PyRuntime"]
    if is_python:
        raise MeantimeError(
            f"process {memory.pid} runs a Python before 3.{FIRST_MINOR}: this cannot look into it"
        )
    raise MeantimeError(f"process {memory.pid} is not a program of CPython")


class _Inspection:
    """Reads one process.

    Args:
        memory: The process.
        version: The version of its interpreter.
        runtime: The address of its runtime.
    """

    def __init__(self, memory: ProcessMemory, version: int, runtime: int) -> None:
        self._memory = memory
        self._version = version
        self._layout = layout = Layout(memory, version, runtime)
        self._objects = Objects(memory, layout)
        self._runtime = runtime
        # the list's head, and the main interpreter
        _, self._interpreter = memory.words(runtime + layout["runtime_interpreters"], 2)
        self._unreadable = 0
        self._node_offset = 0

    def result(self) -> InspectedProcess:
        """Return what was found."""
        states = self._attempted(self._thread_states)
        if not states:
            raise TornReadError
        modules = self._attempted(lambda: self._objects.modules(self._interpreter)) or {}
        names = self._attempted(lambda: self._names(modules.get("threading", 0))) or {}
        threads = [self._thread(state, names) for state in states]
        loops: dict[int, int] = {}
        module = modules.get("asyncio.tasks", 0)
        addresses = self._attempted(lambda: self._tasks(module, states)) or []
        tasks = [self._task(address, states, loops) for address in addresses[:_MOST_TASKS]]
        return InspectedProcess(
            self._memory.pid,
            ".".join(str(self._version >> shift & 255) for shift in (24, 16, 8)),
            _command(self._memory.pid),
            tuple(sorted(threads, key=lambda thread: thread.tid)),
            tuple(task for task in tasks if task is not None),
            self._unreadable + max(0, len(addresses) - _MOST_TASKS),
        )

    @staticmethod
    def _attempted(read: Callable[[], _R]) -> _R | None:
        """Return what a function reads as soon as it makes sense; None if it never does."""
        for _ in range(_ATTEMPTS):
            with suppress(TornReadError):
                return read()
        return None

    def _thread_states(self) -> list[int]:
        """Return the addresses of the states of the threads that run Python."""
        at = self._memory.word(self._interpreter + self._layout["interpreter_threads"])
        found: list[int] = []
        while at and len(found) < _MOST_THREADS:
            if at in found[-1:]:
                raise TornReadError
            found.append(at)
            at = self._memory.word(at + self._layout["thread_next"])
        return found

    def _names(self, threading: int) -> dict[int, str]:
        """Return the names of threads by their idents, as `threading` has them."""
        objects, found = self._objects, {}
        for ident, thread in objects.items(objects.entry(threading, "_active")):
            name = objects.attribute(thread, "_name")
            if name:
                found[objects.integer(ident)] = objects.text(name)
        return found

    def _thread(self, state: int, names: dict[int, str]) -> InspectedThread:
        tid, ident = (
            self._memory.word(state + self._layout[name])
            for name in ("thread_native_id", "thread_ident")
        )
        frames: tuple[CodeLine, ...] = ()
        is_changing = True
        for _ in range(_ATTEMPTS):
            with suppress(TornReadError):
                before = self._positions(state)
                frames = self._lines(before)
                is_changing = self._positions(state) != before
                if not is_changing:
                    break
        folder = Path(f"/proc/{self._memory.pid}/task/{tid}")
        return InspectedThread(
            tid,
            names.get(ident) or _kernel_name(folder),
            _kernel_state(folder),
            self._has_gil(state),
            frames,
            is_changing,
        )

    def _positions(self, state: int) -> list[tuple[int, int, int]]:
        """Return a thread's frames, the innermost first, each with its code and instruction.

        Raises:
            TornReadError: If they end in a coroutine, which something must have resumed: it was
                suspended since, and may be resumed again before they are compared. Or if there are
                none where the thread was in Python: what points to them is on its own stack, and
                was overwritten since.
        """
        at = state
        if self._layout["thread_cframe"] >= 0:
            at = self._memory.word(state + self._layout["thread_cframe"])
        frame = self._memory.word(at + self._layout["thread_frame"])
        if not frame and not 0 <= at - state < _STATE_BYTES:
            raise TornReadError
        found: list[tuple[int, int, int]] = []
        while frame and len(found) < 2 * _MOST_FRAMES:
            instruction = self._memory.word(frame + self._layout["frame_instruction"])
            found.append((frame, self._objects.frame_code(frame), instruction))
            frame = self._memory.word(frame + self._layout["frame_previous"])
        if found and not frame and self._owner(found[-1][0]) == _OWNED_BY_GENERATOR:
            raise TornReadError
        return found

    def _owner(self, frame: int) -> int:
        return self._memory.signed(frame + self._layout["frame_owner"], 1)

    def _lines(self, positions: list[tuple[int, int, int]]) -> tuple[CodeLine, ...]:
        found = []
        for frame, _, _ in positions:
            is_line = self._owner(frame) < _OWNED_BY_INTERPRETER
            line = self._objects.frame_line(frame) if is_line else None
            if line is not None:
                found.append(line)
        return tuple(found[:_MOST_FRAMES])

    def _has_gil(self, state: int) -> bool:
        if self._layout["runtime_gil_holder"] >= 0:
            gil = self._runtime + self._layout["runtime_gil_holder"]
        else:
            gil = self._memory.word(self._interpreter + self._layout["interpreter_gil"])
        holder = self._memory.word(gil + self._layout["gil_holder"])
        return holder == state and self._memory.signed(gil + self._layout["gil_locked"], 4) == 1

    def _tasks(self, module: int, states: list[int]) -> list[int]:
        """Return the addresses of all tasks; some of them may have ended."""
        objects = self._objects
        found: dict[int, None] = {}
        # up to 3.11, from 3.12 on, and eager ones; since 3.14 only those written in Python
        for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"):
            tasks = objects.entry(module, name) if module else 0
            if tasks:
                is_weak = objects.type_name(tasks) != "set"
                members = objects.weakly_referred(tasks) if is_weak else objects.members(tasks)
                found.update(dict.fromkeys(members))
        if self._layout["thread_tasks"] >= 0:
            heads = [state + self._layout["thread_tasks"] for state in states]
            heads.append(self._interpreter + self._layout["interpreter_tasks"])
            nodes = [node for head in heads for node in self._nodes(head)]
            if nodes:
                offset = self._offset_of_nodes(nodes)
                found.update(dict.fromkeys(node - offset for node in nodes))
        return list(found)

    def _nodes(self, head: int) -> list[int]:
        """Return the addresses of the nodes of a list of tasks."""
        found: list[int] = []
        node, before = self._memory.word(head), head
        while node != head:
            following, previous = self._memory.words(node, 2)
            if previous != before or len(found) > _MOST_TASKS:
                raise TornReadError
            found.append(node)
            node, before = following, node
        return found

    def _offset_of_nodes(self, nodes: list[int]) -> int:
        """Return where the node is in a task: it depends on how _asyncio was compiled."""
        for node in nodes[:_MOST_AWAITED]:
            for offset in range(16, _TASK_BYTES, 8):
                with suppress(TornReadError):
                    if self._objects.type_name(node - offset) == _ASYNCIO_TASK:
                        return offset
        raise TornReadError

    def _task(self, address: int, states: list[int], loops: dict[int, int]) -> InspectedTask | None:
        """Return a task that has not ended; None if it has, or could not be read."""
        for _ in range(_ATTEMPTS):
            with suppress(TornReadError):
                loop, coroutine, name = self._members(address)
                found = self._waiting(coroutine)
                if found is None:
                    return None
                if loop not in loops:
                    loops[loop] = self._thread_of(loop, states)
                return replace(found, name=name, tid=loops[loop])
        self._unreadable += 1
        return None

    def _members(self, task: int) -> tuple[int, int, str]:
        """Return the loop and the coroutine of a task, and its name."""
        objects = self._objects
        size = self._memory.word(self._memory.word(task + 8) + self._layout["type_size"])
        if not 16 <= size <= _TASK_BYTES:
            raise TornReadError
        words = self._memory.words(task, size // 8)
        kinds = [self._kind(word) for word in words]
        for index in range(3, len(words)):
            # a compiled task: where its members are differs from version to version
            if kinds[index] in _GENERATORS or kinds[index] in _WRAPPERS:
                named = words[index + 1] if index + 1 < len(words) else 0
                return words[2], words[index], self._name(named)
        coroutine, loop = objects.attribute(task, "_coro"), objects.attribute(task, "_loop")
        if not coroutine:
            raise TornReadError
        return loop, coroutine, self._name(objects.attribute(task, "_name"))

    def _kind(self, address: int) -> str:
        """Return the name of the type of what may be an object; empty if it is none."""
        if address & 7 or not address:
            return ""
        try:
            return self._objects.type_name(address)
        except TornReadError:
            return ""

    def _name(self, address: int) -> str:
        kind = self._kind(address)
        if kind == "int":
            # the number of a default name whose text was not needed so far
            return f"Task-{self._objects.integer(address)}"
        return self._objects.text(address) if kind == "str" else ""

    def _waiting(self, coroutine: int) -> InspectedTask | None:
        """Return for what a coroutine waits, without its task's name; None if it has ended."""
        frames: list[CodeLine] = []
        at, state, leaf, awaits = coroutine, "", LEAVES["NONE"], ""
        for _ in range(_MOST_AWAITED):
            kind = self._objects.type_name(at)
            if kind in _WRAPPERS:
                at = self._memory.word(at + _WRAPPERS[kind])
                continue
            if kind not in _GENERATORS:
                leaf, awaits, state = self._awaited(at, kind)
                break
            number = self._memory.signed(at + self._layout["generator_state"], 1)
            if not frames and number > self._layout.executing:
                return None
            frame = at + self._layout["generator_frame"]
            line = self._objects.frame_line(frame)
            if line is not None:
                frames.append(line)
            if not self._layout.is_suspended(number):
                state = "spawned" if number == self._layout.created else "running"
                break
            at = self._objects.stack_top(frame) if self._layout.may_await(number) else 0
            if not at:
                # it only lets others run
                state = "runnable"
                break
        innermost = frames[-1] if frames else CodeLine("", "", 0)
        is_waiting = state == "waiting"
        reason = wait_reason(innermost.function, innermost.file, leaf) if is_waiting else ""
        return InspectedTask("", 0, state, reason, awaits if is_waiting else "", tuple(frames))

    def _awaited(self, address: int, kind: str) -> tuple[int, str, str]:
        """Return the leaf of what is awaited, the name of the task that it is, and the state."""
        if kind != _FUTURE_ITERATOR:
            return LEAVES["OTHER"], "", "waiting"
        future = self._memory.word(address + 16)
        kind = self._objects.type_name(future)
        _, _, _, callback, _, callbacks = self._memory.words(future, 6)
        # they are removed once it is done: the task waits for its loop to run it
        state = "waiting" if callback or callbacks else "runnable"
        if kind not in _TASK_LEAVES:
            return LEAVES["FUTURE"], "", state
        name = self._members(future)[2] if kind == _ASYNCIO_TASK else ""
        return LEAVES["TASK"], name, state

    def _thread_of(self, loop: int, states: list[int]) -> int:
        """Return the id of the thread that runs a loop; 0 if it is not known."""
        ident = 0
        if self._layout["thread_running_loop"] < 0:
            with suppress(TornReadError):
                # a loop that is not of asyncio has no such attribute
                number = self._objects.attribute(loop, "_thread_id")
                ident = self._objects.integer(number) if self._kind(number) == "int" else 0
        for state in states:
            if self._layout["thread_running_loop"] >= 0:
                running = self._memory.word(state + self._layout["thread_running_loop"])
                is_its = running == loop
            else:
                is_its = self._memory.word(state + self._layout["thread_ident"]) == ident
            if is_its:
                return self._memory.word(state + self._layout["thread_native_id"])
        return 0


def _command(pid: int) -> tuple[str, ...]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in words)


def _kernel_name(task: Path) -> str:
    try:
        return (task / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _kernel_state(task: Path) -> str:
    try:
        letter = (task / "stat").read_bytes().rpartition(b")")[2].split()[0].decode("ascii")
    except (OSError, IndexError, UnicodeDecodeError):
        return "ended"
    return _KERNEL_STATES.get(letter, "waiting")
