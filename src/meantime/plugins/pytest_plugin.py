"""pytest plugin: records each test, and checks the behaviour of its event loops.

Every pytest in an environment with meantime loads this module, so it imports nothing of meantime
until a test is recorded.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from meantime.plugins.phases import Phases
    from meantime.plugins.segment import Limit, Segment

_segment = pytest.StashKey["Segment"]()
_phases: pytest.StashKey[Phases] = pytest.StashKey()
_taken = pytest.StashKey[set[Path]]()
_MAX_NAME = 150
_RULES = "meantime_rules"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--meantime`."""
    parser.getgroup("meantime").addoption(
        "--meantime",
        metavar="DIR",
        help="Record each test, with its tasks and event loops, into DIR/TEST.mtr; with"
        " pytest-xdist, all tests of a worker into DIR/WORKER.mtr.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and create the folder of the recordings."""
    config.addinivalue_line(
        "markers",
        "meantime_rules(*rules): record the test, and check rules such as"
        """ 'no Loops/* in "blocked" for over 50 ms' at its end""",
    )
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
    if not folder:
        return None
    what = "the tests of each worker" if _is_distributing(config) else "each test"
    return f"meantime: recording {what} into {folder}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Record the tests of a worker of pytest-xdist together."""
    folder, worker = session.config.getoption("meantime"), _worker(session.config)
    if folder and worker:
        from meantime.plugins.segment import start  # noqa: PLC0415 - loads the recorder

        start(Path(folder) / f"{worker}.mtr")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the recording of a worker."""
    if session.config.getoption("meantime") and _worker(session.config):
        from meantime.collect import session as recording  # noqa: PLC0415 - as above

        recording.stop()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report where the recordings are."""
    folder = config.getoption("meantime")
    if not folder:
        return
    paths = config.stash[_taken]
    if _is_distributing(config):
        paths = set(Path(folder).glob("gw*.mtr"))
    made = sorted(path for path in paths if path.exists())
    if not made:
        return
    count = "1 recording" if len(made) == 1 else f"{len(made):,} recordings"
    name = shlex.quote(str(made[0]))
    terminalreporter.write_line(f"meantime: {count} in {folder}; see meantime view {name}")


def _worker(config: pytest.Config) -> str:
    """Return the name of this worker of pytest-xdist; empty in any other process."""
    given = getattr(config, "workerinput", None)
    return "" if given is None else str(given["workerid"])


def _is_distributing(config: pytest.Config) -> bool:
    """Return whether pytest-xdist runs the tests in other processes, or in this worker."""
    return bool(_worker(config)) or bool(config.getoption("tx", None))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record a test, including its fixtures."""
    folder = item.config.getoption("meantime")
    if folder and not _worker(item.config):
        _begin(item, _path_of(item, Path(folder)))
    if _is_recording():
        from meantime.plugins.phases import Phases  # noqa: PLC0415 - only in a recording

        file, _, name = item.nodeid.partition("::")
        item.stash[_phases] = Phases(file, name or file)
    try:
        return (yield)
    finally:
        if _phases in item.stash:
            item.stash[_phases].end()
            del item.stash[_phases]
        if _segment in item.stash:
            item.stash[_segment].close()
            del item.stash[_segment]


def _is_recording() -> bool:
    recorder = sys.modules.get("meantime.collect._recorder")
    return recorder is not None and bool(recorder.is_recording())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record that a test's setup begins, also of one with rules."""
    if next(item.iter_markers(_RULES), None) is not None:
        _begin(item, None)
    _begin_phase(item, "setup")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Record that a test's teardown begins."""
    _begin_phase(item, "teardown")


def _begin_phase(item: pytest.Item, phase: str) -> None:
    phases = item.stash.get(_phases, None)
    if phases is not None:
        phases.begin(phase)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the limits that a test has set, after it has run."""
    _begin_phase(item, "call")
    segment = item.stash.get(_segment, None)
    if segment is not None:
        for marker in item.iter_markers(_RULES):
            _add_rules(segment, marker.args)
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
    phases = item.stash.get(_phases, None)
    if phases is not None and not report.passed and phases.outcome != "failed":
        phases.outcome = report.outcome
    segment = item.stash.get(_segment, None)
    if report.failed and segment is not None and segment.kept:
        path, picture = (
            shlex.quote(str(each)) for each in (segment.path, f"{segment.path.stem}.svg")
        )
        see = f"see meantime statemap {path} -o {picture}"
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
def meantime_rules(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A function that checks rules at the end of the test: `meantime_rules('no * in "x"')`.

    They are about what is recorded from the call on. The marker of the same name checks rules about
    the call of the test.
    """
    segment = _begin(request.node, None)
    return lambda *rules: _add_rules(segment, rules)


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


def _add_rules(segment: Segment, rules: Sequence[str]) -> None:
    from meantime.errors import MeantimeError  # noqa: PLC0415 - only when a test is recorded

    if not rules:
        pytest.fail("meantime_rules needs rules, each a sentence", pytrace=False)
    try:
        segment.add_rules(rules)
    except MeantimeError as error:
        pytest.fail(str(error), pytrace=False)


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
    # no characters that mean something to a shell: a parameter's [x] would be a pattern of it
    name = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-")
    if len(name) > _MAX_NAME:
        name = f"{name[:_MAX_NAME]}-{hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]}"
    # a file of an earlier run is replaced, but one of this run is another repetition of the test
    taken = item.config.stash[_taken]
    path, number = folder / f"{name}.mtr", 2
    while path in taken:
        path, number = folder / f"{name}-{number}.mtr", number + 1
    taken.add(path)
    return path
