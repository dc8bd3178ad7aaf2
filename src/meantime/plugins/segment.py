"""The recording of one test, and the checks of it."""

from __future__ import annotations

import asyncio.runners
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meantime.collect import _recorder, session
from meantime.collect.unfinished import unfinished_tasks
from meantime.errors import MeantimeError, UsageError
from meantime.model.units import format_ns, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, TracebackType

    from meantime.query.rules import Rule
    from meantime.readers.recording.blocks import Block

__all__ = ["Limit", "PendingTasks", "Segment", "start"]

# Files of plugins whose tasks run the coroutine of a test.
_RUNNERS = ("/anyio/_backends/_asyncio.py", "/pytest_asyncio/")


def start(path: Path) -> None:
    """Begin to record this process; a recording of an earlier run is replaced."""
    if session.recording_path() is None and (path / "recording.json").is_file():
        shutil.rmtree(path)
    session.start(path)


class Segment:
    """The recording of one test.

    If the program is being recorded already, the test is a part of that recording.

    Args:
        path: The path of the recording; None is a temporary folder, removed after the test.
    """

    def __init__(self, path: Path | None) -> None:
        self.begin_ns: int = time.monotonic_ns()
        self.limits: list[Limit] = []
        self.pending: PendingTasks | None = None
        self._rules: list[tuple[int, Rule]] = []
        self._folder: str | None = None
        self._ours = session.recording_path() is None
        if self._ours:
            if path is None:
                self._folder = tempfile.mkdtemp(prefix="meantime-")
                path = Path(self._folder) / "test.mtr"
            start(path)
        self.path: Path = Path(str(session.recording_path()))
        self.kept: bool = self._folder is None

    def close(self) -> None:
        """End the recording."""
        if self._ours:
            session.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def check(self) -> None:
        """Fail the test if it broke a limit that applies to its end."""
        for limit in self.limits:
            limit.check()
        if self.pending is not None:
            self.pending.check()
        if self._rules:
            self._check_rules()

    def add_rules(self, sentences: Sequence[str]) -> None:
        """Check rules at the end of the test, from now on.

        Raises:
            UsageError: If a sentence is not a rule.
        """
        from meantime.query.rules.grammar import parse_rule  # noqa: PLC0415 - not for tests without rules

        begin_ns = time.monotonic_ns()
        self._rules += [(begin_ns, parse_rule(each)) for each in sentences]

    def _check_rules(self) -> None:
        from meantime.opening.history_from_trace import build  # noqa: PLC0415 - only for rules
        from meantime.query.rules import check_rules  # noqa: PLC0415 - as above
        from meantime.readers.recording.whole import Reading  # noqa: PLC0415 - as above

        now_ns = time.monotonic_ns()
        # growing: the recording of the test has not ended yet
        reading = Reading(self.path, growing=True, now_ns=now_ns)
        history = build(reading.trace)
        lines = []
        for begin_ns, rule in self._rules:
            start_ns = max(history.start_ns, begin_ns - reading.origin_ns)
            end_ns = max(start_ns + 1, min(history.end_ns, now_ns - reading.origin_ns))
            try:
                (verdict,) = check_rules(history, [rule], start=start_ns, end=end_ns)
            except MeantimeError as error:
                lines.append(str(error))
                continue
            if not verdict.holds:
                lines.append(f"a rule is broken: {rule.text}: {verdict.measured}")
                lines += [f"  {breach.sentence}" for breach in verdict.breaches]
                lines += [f"  and {verdict.more:,} more"] if verdict.more else []
        if lines:
            self.fail(*lines)

    def blocks(self, at_least_ns: int, begin_ns: int, end_ns: int, waited_ns: int) -> list[Block]:
        """Return when a loop was blocked by one step, within a window of CLOCK_MONOTONIC.

        The times are clipped to the window; those longer than `at_least_ns` are returned, the
        longest first. A step that is clipped at the begin waited for a processor for at most
        `waited_ns`, which is how long this thread did in the window. A stack
        from outside of the window, where a check may have run, does not count.
        """
        from meantime.readers.recording.whole import Reading  # noqa: PLC0415 - not for tests that only record

        # growing: the recording of the test has not ended yet
        reading = Reading(self.path, growing=True, block_ns=at_least_ns, now_ns=end_ns)
        for _ in reading.trace.batches:
            pass
        window = begin_ns - reading.origin_ns, end_ns - reading.origin_ns
        clipped = [
            block._replace(
                begin_ns=max(block.begin_ns, window[0]),
                end_ns=min(block.end_ns, window[1]),
                waited_ns=block.waited_ns
                if block.begin_ns >= window[0]
                else min(block.waited_ns, waited_ns),
                code=block.code
                if block.code_ns < 0 or window[0] <= block.code_ns < window[1]
                else "",
            )
            for block in reading.blocks
        ]
        long = [block for block in clipped if block.duration_ns > at_least_ns]
        return sorted(long, key=lambda block: -block.duration_ns)

    def sites(self) -> dict[int, str]:
        """Return where the tasks of this process were spawned, by number."""
        from meantime.readers.recording.whole import Reading  # noqa: PLC0415 - as above

        reading = Reading(self.path, growing=True)
        for _ in reading.trace.batches:
            pass
        tasks = [path for path in reading.trace.paths if path[0] == "Tasks"]
        return {int(path[2]): path[1] for path in tasks if path[2].isdecimal()}

    def fail(self, *lines: str) -> None:
        """Fail the test; the report has the path of the recording if that is kept."""
        more = [] if self.kept else ["run with --meantime DIR to keep the recording"]
        pytest.fail("\n".join([*lines, *more]), pytrace=False)


class Limit:
    """How long one step may block a loop, until the end of the test or in a `with` block.

    Args:
        segment: The recording of the test.
        limit: A time such as `50ms`.
        of: `own`, the time without that in which the thread waited for a processor, or `wall`.
    """

    def __init__(self, segment: Segment, limit: str, *, of: str = "own") -> None:
        if of not in ("own", "wall"):
            raise UsageError(f"max_blocked limits time of {of!r}, not of 'own' or 'wall'")
        self._segment = segment
        self._is_wall = of == "wall"
        self._limit_ns = parse_duration(limit)
        self._waited_ns = _recorder.note_cpu_wait()
        self._begin_ns = time.monotonic_ns()
        segment.limits.append(self)

    def __enter__(self) -> None:
        self._waited_ns = _recorder.note_cpu_wait()
        self._begin_ns = time.monotonic_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._segment.limits.remove(self)
        if error is None:
            self.check()

    def check(self) -> None:
        """Fail the test if a loop was blocked longer."""
        now_ns = time.monotonic_ns()
        # the check itself, and what it covers, can begin and end in the middle of a step
        waited_ns = _recorder.note_cpu_wait() - self._waited_ns
        blocks = self._segment.blocks(self._limit_ns, self._begin_ns, now_ns, max(0, waited_ns))
        if not self._is_wall:
            blocks = [block for block in blocks if block.own_ns > self._limit_ns]
            blocks.sort(key=lambda block: -block.own_ns)
        if not blocks:
            return
        lines = [f"a loop was blocked for longer than {format_ns(self._limit_ns)}:"]
        lines += [f"  {_durations(block)} by {block.where()}" for block in blocks[:5]]
        if len(blocks) > 5:
            lines.append(f"  and {len(blocks) - 5} more times")
        self._segment.fail(*lines)


class PendingTasks:
    """Finds the tasks that a test creates and leaves pending, also those that asyncio cancels.

    Args:
        segment: The recording of the test.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._before = unfinished_tasks()
        self._left: dict[Any, str] = {}
        self._cancel_all: Callable[[Any], None] | None = None

    def watch(self) -> None:
        """Collect the tasks that are left when a runner closes its loop."""
        self._before = unfinished_tasks()
        runners: Any = asyncio.runners
        # asyncio.run cancels the remaining tasks before the test can be checked
        self._cancel_all = cancel_all = runners._cancel_all_tasks  # noqa: SLF001 - there is no public hook

        def note_and_cancel(loop: asyncio.AbstractEventLoop) -> None:
            self._left |= self._waits(asyncio.all_tasks(loop))
            cancel_all(loop)

        runners._cancel_all_tasks = note_and_cancel  # noqa: SLF001 - as above

    def stop_watching(self) -> None:
        """Restore what `watch` replaced."""
        if self._cancel_all is not None:
            asyncio.runners._cancel_all_tasks = self._cancel_all  # type: ignore[attr-defined] # noqa: SLF001 - as above
            self._cancel_all = None

    def check(self) -> None:
        """Fail the test if a task that it created is pending, except for the current task."""
        try:
            asking = {asyncio.current_task()}
        except RuntimeError:
            asking = set()
        pending = self._left | self._waits(unfinished_tasks() - asking)
        if not pending:
            return
        sites = self._segment.sites()
        count = len(pending)
        lines = ["a task is still pending:" if count == 1 else f"{count} tasks are still pending:"]
        for task, waits in list(pending.items())[:10]:
            coroutine = _recorder.coroutine_of(task)
            name = coroutine.__qualname__
            site = sites.get(_recorder.task_number(coroutine), name)
            lines.append(f"  {task.get_name()}, {site}{waits}")
        if count > 10:
            lines.append(f"  and {count - 10} more")
        self._segment.fail(*lines)

    def _waits(self, tasks: set[Any]) -> dict[Any, str]:
        """Return the tasks that the test created, and where each of them waits."""
        waits = {}
        for task in tasks - self._before:
            code = getattr(task.get_coro(), "cr_code", None)
            file = code.co_filename.replace("\\", "/") if code is not None else ""
            if not any(part in file for part in _RUNNERS):
                frames = task.get_stack(limit=1)
                waits[task] = f", waits at {_location(frames[0])}" if frames else ""
        return waits


def _durations(block: Block) -> str:
    waits = block.waits()
    return format_ns(block.duration_ns) + (f" ({waits})" if waits else "")


def _location(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
