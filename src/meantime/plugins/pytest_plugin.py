"""pytest plugin: records each test, and checks the behaviour of its event loops.

Every pytest in an environment with meantime loads this module, so it imports nothing of meantime
until a test is recorded.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from meantime.plugins.segment import Limit, Segment

_segment = pytest.StashKey["Segment"]()
_taken = pytest.StashKey[set[Path]]()
_MAX_NAME = 150


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--meantime`."""
    parser.getgroup("meantime").addoption(
        "--meantime",
        metavar="DIR",
        help="Record the tasks and event loops of each test into DIR/TEST.mtr.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Create the folder of the recordings."""
    folder = config.getoption("meantime")
    config.stash[_taken] = set()
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--meantime {folder}: {error.strerror}") from error


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report the folder of the recordings."""
    folder = config.getoption("meantime")
    return f"meantime: recording each test into {folder}" if folder else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record a test, including its fixtures."""
    folder = item.config.getoption("meantime")
    if folder:
        _begin(item, _path_of(item, Path(folder)))
    try:
        return (yield)
    finally:
        if _segment in item.stash:
            item.stash[_segment].close()
            del item.stash[_segment]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the limits that a test has set, after it has run."""
    segment = item.stash.get(_segment, None)
    if segment is None or segment.pending is None:
        result = yield
    else:
        segment.pending.watch()
        try:
            result = yield
        finally:
            segment.pending.stop_watching()
    if segment is not None:
        segment.check()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the path of the recording to the report of a failure."""
    report = yield
    segment = item.stash.get(_segment, None)
    if report.failed and segment is not None and segment.kept:
        see = f"see meantime statemap {segment.path} -o {segment.path.stem}.svg"
        report.sections.append(("meantime", f"recorded; {see}"))
    return report


@pytest.fixture
def max_blocked(request: pytest.FixtureRequest) -> Callable[..., Limit]:
    """A function that limits how long one step may block an event loop: `max_blocked("50ms")`.

    The limit applies until the end of the test, or in the block of `with max_blocked("50ms"):`. The
    time in which the thread waited for a processor does not count, unless with `of="wall"`.
    """
    from meantime.plugins.segment import Limit  # noqa: PLC0415 - loads the recorder

    segment = _begin(request.node, None)
    return lambda limit, *, of="own": Limit(segment, limit, of=of)


@pytest.fixture
def no_pending_tasks(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Fails a test that leaves asyncio tasks pending; a call checks immediately.

    The task that calls it, and tasks from before the test, do not count.
    """
    from meantime.plugins.segment import PendingTasks  # noqa: PLC0415 - loads the recorder

    segment = _begin(request.node, None)
    segment.pending = PendingTasks(segment)
    yield segment.pending.check
    segment.pending = None


def _begin(item: pytest.Item, path: Path | None) -> Segment:
    if _segment not in item.stash:
        from meantime.errors import MeantimeError  # noqa: PLC0415 - only when a test is recorded
        from meantime.plugins.segment import Segment  # noqa: PLC0415 - as above

        try:
            item.stash[_segment] = Segment(path)
        except MeantimeError as error:
            if path is None:
                pytest.skip(f"meantime: {error}")
            pytest.exit(f"meantime: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
    return item.stash[_segment]


def _path_of(item: pytest.Item, folder: Path) -> Path:
    """Return the path of a test's recording; repetitions of a test in this run are numbered."""
    name = re.sub(r"[^\w.\[\]-]+", "-", item.nodeid.replace("::", "-"))
    if len(name) > _MAX_NAME:
        name = f"{name[:_MAX_NAME]}-{hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]}"
    # a file of an earlier run is replaced, but one of this run is another repetition of the test
    taken = item.config.stash[_taken]
    path, number = folder / f"{name}.mtr", 2
    while path in taken:
        path, number = folder / f"{name}-{number}.mtr", number + 1
    taken.add(path)
    return path
