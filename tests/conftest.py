"""Where the data for tests lies, and what the tests need of the machine."""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import os
import runpy
import shutil
import signal
import socket
import threading
import traceback
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped] # has no types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from playwright.sync_api import Browser, BrowserContext, Page
    from xdist.remote import Producer  # type: ignore[import-untyped] # has no types
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped] # has no types

    from meantime.server.session import Session

ROOT = Path(__file__).resolve().parent.parent
# machines are noisy; and everyone has the same examples, in the same order, unless others are asked
# for by --randomly-seed
settings.register_profile("same", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("other", deadline=None, print_blob=True)
settings.load_profile("same")

# Under nohup, or in the background of a script, signals are ignored, and programs inherit that:
# tests that send signals to them would wait forever.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        )

RECORDINGS = ROOT.parent / "shared" / "data"
# the tests of recordings that are too large to come with the project
collect_ignore_glob = [] if RECORDINGS.is_dir() else ["conformance/*_recordings.py"]
# They take longer than files with as many tests, the first of them longest.
_LONGEST = (
    *("test_rules.py", "test_code_blocks.py", "test_reader_contract.py", "test_site.py"),
    *("test_readers.py", "test_statemap_against_original.py", "test_pytest_plugin.py"),
    *("test_viewer_page.py", "test_heatmap_command.py"),
)
# They record programs beside a process that has neither threads nor tasks of other tests.
_RECORDING = "tests/collect/"
_RECORDED = "tests/collect/test_damage.py"  # reads what is recorded already
SEED = 1
_HANGING_S = 1140  # less than faulthandler_timeout
# The first of them takes half of the processor time of the others.
BROWSERS = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable"),
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout: for tests of what is not installed, such as the documents."""
    return ROOT


@pytest.fixture
def build_script(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, Any]]:
    """Run the setup.py of a folder, and return what it gives to `setup`."""

    def run(folder: Path) -> dict[str, Any]:
        given: dict[str, Any] = {}
        monkeypatch.setattr("setuptools.setup", given.update)
        monkeypatch.chdir(folder)
        runpy.run_path("setup.py")
        return given

    return run


@pytest.fixture(scope="session")
def samples() -> Path:
    """The small traces that come with the project; `README.md` there says where from."""
    return ROOT / "tests" / "samples"


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The large recorded traces, which do not come with the project."""
    return RECORDINGS


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # workers have the number that the first process was given or chose
    if config.getoption("randomly_seed", "default") in {"default", SEED}:
        config.option.randomly_seed = SEED
    else:
        settings.load_profile("other")
    config.addinivalue_line(
        "markers",
        "in_child_process: run the test in a fork, without the threads and tasks of other tests",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:  # noqa: ARG001 - a hook's
    # more than there are processors, since many tests wait for a browser or a program, and those
    # that record wait most of the time
    return 2 * len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that none is left when the others have ended."""
    tests = Counter(item.path for item in items)
    place = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(
        key=lambda item: (
            not _records(item.nodeid),
            place.get(item.path.name, len(place)),
            -tests[item.path],
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return _RecordingFirst(config, log)


def _records(name: str) -> bool:
    return name.startswith(_RECORDING) and not name.startswith(_RECORDED)


class _RecordingFirst(LoadFileScheduling):  # type: ignore[misc] # has no types
    """Give workers files in order, those that record to the first worker only, before others.

    So nothing that other tests leave, such as threads, is in its process.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0]:
            rest = next((scope for scope in self.workqueue if not _records(scope)), None)
            if rest is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(rest, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test in a child process; its traceback is the message of a failure."""
    if pyfuncitem.get_closest_marker("in_child_process") is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        # those of the browser's driver, whose loop is between two steps
        for name in ("_all_tasks", "_scheduled_tasks"):
            getattr(asyncio.tasks, name, set()).clear()
        faulthandler.enable(sending)
        try:
            pyfuncitem.obj(**arguments)
            status = 0
        except BaseException:  # noqa: BLE001 # the parent reports all of them
            os.write(sending, traceback.format_exc()[-60_000:].encode())
        finally:
            os._exit(status)
    os.close(sending)
    # ended before the test is, whose traceback would say only that it waits
    hanging = threading.Timer(_HANGING_S, os.kill, (child, signal.SIGABRT))
    hanging.start()
    with os.fdopen(receiving, encoding="utf-8", errors="replace") as written:
        message = written.read()
    hanging.cancel()
    _, status = os.waitpid(child, 0)
    if status:
        pytest.fail(message or f"the child ended with status {status}", pytrace=False)
    return True


def pytest_report_header() -> str:
    found = RECORDINGS.is_dir()
    return f"large recordings: {'tested' if found else 'not found, their tests are not collected'}"


@pytest.fixture(scope="session")
def start_browser() -> Iterator[Callable[..., Browser]]:
    """A function that starts a real browser without a window; its options are on a command line."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: the pages were not driven")
    running: list[Browser] = []
    with pytest.MonkeyPatch.context() as patch, sync_api.sync_playwright() as playwright:
        _read_at_rest(patch, sync_api)

        def start(*options: str) -> Browser:
            args = ["--no-sandbox", *options]
            made: Browser = playwright.chromium.launch(executable_path=program, args=args)
            running.append(made)
            return made

        yield start
        for each in running:
            each.close()


@pytest.fixture(scope="session")
def browser(start_browser: Callable[..., Browser]) -> Browser:
    """The browser of most tests."""
    return start_browser()


@contextmanager
def _served(session: Session) -> Iterator[str]:
    import uvicorn  # noqa: PLC0415 - few tests need it

    from meantime.server.app import application  # noqa: PLC0415 - as above

    session.start()
    session.wait(600)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application(session, "secret"), log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/?token=secret"
    finally:
        server.should_exit = True
        thread.join()
        session.stop()


@pytest.fixture(scope="session")
def served() -> Callable[[Session], AbstractContextManager[str]]:
    """A context in which a session is served, at the address that it returns."""
    return _served


class OpenPage(Protocol):
    """Opens a file's bytes as a page, offline; `context` is what Playwright's contexts take."""

    def __call__(self, file: bytes, fragment: str = "", **context: object) -> Page: ...


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What most pages are opened in; making one for each takes longer than most tests."""
    with _context(browser) as made:
        yield made


# Pages draw, ask, and write their address, some time after the action that changed them. `atRest`
# is true once none of that is left, so that what a test reads does not depend on the machine's
# speed. It runs timers at once, as if their time had passed; those of seconds, which take messages
# away, are left alone.
AT_REST = """
  {
    const LONG_MS = 1000;
    const [timers, frames, shown] = [new Map(), new Set(), new Map()];
    let requests = 0;

    const [start, stop] = [window.setTimeout.bind(window), window.clearTimeout.bind(window)];
    window.setTimeout = (work, ms = 0, ...values) => {
      if (ms >= LONG_MS) return start(work, ms, ...values);
      const run = () => {
        timers.delete(id);
        work(...values);
      };
      const id = start(run, ms);
      timers.set(id, { run, dueMs: performance.now() + ms });
      return id;
    };
    window.clearTimeout = (id) => {
      timers.delete(id);
      stop(id);
    };

    const frame = window.requestAnimationFrame.bind(window);
    const noFrame = window.cancelAnimationFrame.bind(window);
    window.requestAnimationFrame = (work) => {
      const id = frame((timeMs) => {
        frames.delete(id);
        work(timeMs);
      });
      frames.add(id);
      return id;
    };
    window.cancelAnimationFrame = (id) => {
      frames.delete(id);
      noFrame(id);
    };

    const counted = (ask) =>
      async function (...values) {
        requests++;
        try {
          return await ask.apply(this, values);
        } finally {
          requests--;
        }
      };
    window.fetch = counted(window.fetch);
    for (const name of ["arrayBuffer", "blob", "json", "text"]) {
      Response.prototype[name] = counted(Response.prototype[name]);
    }
    if (window.Clipboard) Clipboard.prototype.writeText = counted(Clipboard.prototype.writeText);

    window.Worker = class extends Worker {
      constructor(...values) {
        super(...values);
        // each question has one answer
        this.addEventListener("message", () => requests--);
      }
      postMessage(...values) {
        requests++;
        super.postMessage(...values);
      }
    };

    // observers get a new size in the next frame
    window.ResizeObserver = class extends ResizeObserver {
      constructor(work) {
        super((entries, observer) => {
          for (const { target, contentRect } of entries) shown.set(target, contentRect);
          work(entries, observer);
        });
      }
      observe(element, options) {
        if (!shown.has(element)) shown.set(element, new DOMRect());
        super.observe(element, options);
      }
    };
    const isShown = (element, { width, height }) => {
      if (!element.isConnected) return true;
      const style = getComputedStyle(element);
      const padding = (...sides) =>
        sides.reduce((sum, side) => sum + parseFloat(style["padding" + side]), 0);
      const across = element.clientWidth - padding("Left", "Right") - width;
      const down = element.clientHeight - padding("Top", "Bottom") - height;
      return Math.max(Math.abs(across), Math.abs(down)) < 1;
    };

    // so are events of scrolling sent
    const scrolled = new Map();
    for (const name of ["scrollTop", "scrollLeft"]) {
      const property = Object.getOwnPropertyDescriptor(Element.prototype, name);
      Object.defineProperty(Element.prototype, name, {
        ...property,
        set(value) {
          if (!scrolled.has(this)) scrolled.set(this, `${this.scrollTop} ${this.scrollLeft}`);
          property.set.call(this, value);
        },
      });
    }
    const waitForScrolling = () => {
      for (const [element, before] of scrolled) {
        const { scrollTop, scrollLeft } = element;
        if (before === `${scrollTop} ${scrollLeft}`) continue;
        scrolled.set(element, `${scrollTop} ${scrollLeft}`);
        window.requestAnimationFrame(() => {});
      }
    };

    window.atRest = () => {
      waitForScrolling();
      for (const [id, { run }] of [...timers].sort(([, a], [, b]) => a.dueMs - b.dueMs)) {
        if (!timers.has(id)) continue;
        stop(id);
        run();
      }
      return (
        timers.size + frames.size + requests === 0 &&
        !document.querySelector("[aria-busy=true]") &&
        [...shown].every(([element, size]) => isShown(element, size))
      );
    };
  }
"""
# Only a limit for pages that hang: the machine may be busy with something else.
TIMEOUT_MS = 120_000
# What reads a page: each of these waits until it is at rest.
READS = {
    "Page": ("evaluate", "inner_text", "input_value", "is_hidden", "is_visible", "screenshot"),
    "Locator": (
        *("all", "all_inner_texts", "all_text_contents", "bounding_box", "count", "evaluate"),
        *("get_attribute", "inner_text", "input_value", "is_checked", "is_disabled", "is_enabled"),
        *("is_hidden", "is_visible", "screenshot", "text_content"),
    ),
}


def _read_at_rest(patch: pytest.MonkeyPatch, sync_api: ModuleType) -> None:
    """Make pages know when they are at rest, and whatever reads a page wait for that."""
    evaluate = sync_api.Page.evaluate
    # a page without scripts has no `atRest`; some pages refuse a text that is not a function
    condition = "() => typeof atRest === 'undefined' || atRest()"

    def at_rest_first(read: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(read)
        def reading(self: Any, *values: object, **options: object) -> object:
            page = self.page if isinstance(self, sync_api.Locator) else self
            if not evaluate(page, condition):
                page.wait_for_function(condition, polling=10)
            return read(self, *values, **options)

        return reading

    for kind, names in READS.items():
        for name in names:
            read = getattr(getattr(sync_api, kind), name)
            patch.setattr(getattr(sync_api, kind), name, at_rest_first(read))

    make = sync_api.Browser.new_context

    @functools.wraps(make)
    def new_context(self: Browser, **settings: object) -> BrowserContext:
        made: BrowserContext = make(self, **settings)
        made.add_init_script(AT_REST)
        made.set_default_timeout(TIMEOUT_MS)
        return made

    patch.setattr(sync_api.Browser, "new_context", new_context)


def _context(browser: Browser, **settings: object) -> BrowserContext:
    size = {"width": 1200, "height": 800}
    return browser.new_context(**{"viewport": size, "offline": True, **settings})  # type: ignore[arg-type] # Playwright's


@pytest.fixture
def open_page(browser: Browser, context: BrowserContext, tmp_path: Path) -> Iterator[OpenPage]:
    """A function that opens a page, which then may not complain of anything."""
    complaints: list[str] = []
    opened: list[Page | BrowserContext] = []

    def open_file(file: bytes, fragment: str = "", **settings: object) -> Page:
        path = tmp_path / f"page{len(opened)}.svg"
        path.write_bytes(file)
        own = _context(browser, **settings) if settings else context
        page = own.new_page()
        opened.append(own if settings else page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(path.as_uri() + fragment)
        if b"<script" in file and settings.get("java_script_enabled", True):
            # the page takes the picture's place once its data are inflated, which may be after load
            page.wait_for_selector("html", state="attached")
        return page

    yield open_file
    for page_or_context in opened:
        page_or_context.close()
    assert complaints == []


@pytest.fixture
def no_running_loop() -> Iterator[None]:
    """Hide the loop that a browser driver leaves running, for tests that run loops themselves."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(autouse=True)
def _apart_from_the_driver(request: pytest.FixtureRequest) -> None:
    if request.path.parent.name != "browser":
        request.getfixturevalue("no_running_loop")
