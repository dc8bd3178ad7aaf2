"""A recorded command gets the descriptors, signals and job control that it would get by itself."""

from __future__ import annotations

import copy
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module, reload
from importlib.machinery import BuiltinImporter, SourceFileLoader
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect.imports import ImportWatch
from meantime.collect.launch import environment
from meantime.collect.session import Options, create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# in a process in which a test before has left threads of uvloop
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

# counts what comes, and says how often it came when SIGUSR1 comes
COUNTING = """
import os, signal, sys
counts = {}
def count(number, _):
    counts[number] = counts.get(number, 0) + 1
    os.write(1, b"got %d\\n" % number)
for number in map(int, sys.argv[1:]):
    signal.signal(number, count)
def tell(*_):
    os.write(1, f"counts {counts}\\n".encode())
    os._exit(7)
signal.signal(signal.SIGUSR1, tell)
os.write(1, b"ready %d\\n" % os.getpid())
while True:
    signal.pause()
"""
RECORD = [sys.executable, "-m", "meantime", "record", "-q", "-o", "run.mtr", "--"]
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
IGNORING = '"$@" /bin/sh -c "trap \'\' PIPE XFSZ; exec grep SigIgn /proc/self/status"'
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


@pytest.fixture(autouse=True)
def _same_meantime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(meantime.__file__).parents[1]))


def _run(
    tmp_path: Path, *words: str
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """Run a command by itself, then recorded."""

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run([*words]), run([*RECORD, *words])


@contextmanager
def _counting(tmp_path: Path, *numbers: int) -> Iterator[subprocess.Popen[str]]:
    """Start a recorded program that counts signals, in a process group of its own."""
    words = [*RECORD, sys.executable, "-c", COUNTING, *(str(int(number)) for number in numbers)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=tmp_path, process_group=0
    ) as process:
        try:
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_us_alone_reaches_it_once(tmp_path: Path, number: signal.Signals) -> None:
    with _counting(tmp_path, number) as process:
        _line(process)
        process.send_signal(number)
        got = _line(process)
        # passed on after whatever came before it
        process.send_signal(signal.SIGUSR1)

        assert got == f"got {int(number)}"
        assert _line(process) == f"counts {{{int(number)}: 1}}"
        assert process.wait() == 7


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_the_whole_group_reaches_it_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    with _counting(tmp_path, number) as process:
        _line(process)
        os.killpg(process.pid, number)
        got = _line(process)
        process.send_signal(signal.SIGUSR1)

        assert got == f"got {int(number)}"
        assert _line(process) == f"counts {{{int(number)}: 1}}"


def test_a_signal_to_us_and_to_the_group_as_timeout_sends_it_reaches_it_once(
    tmp_path: Path,
) -> None:
    with _counting(tmp_path, signal.SIGINT, signal.SIGCONT) as process:
        _line(process)
        # both come before we have looked at the first
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        process.send_signal(signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
        got = _line(process)
        process.send_signal(signal.SIGCONT)
        continued = _line(process)
        # only now: of signals that wait together, the one with the lower number comes first
        process.send_signal(signal.SIGUSR1)

        assert (got, continued) == ("got 2", "got 18")
        assert _line(process) == "counts {2: 1, 18: 1}"


def test_signals_are_forwarded_after_one_that_the_group_had(tmp_path: Path) -> None:
    with _counting(tmp_path, signal.SIGINT, signal.SIGUSR2) as process:
        _line(process)
        for send in (os.killpg, os.kill, os.killpg, os.kill, os.kill):
            send(process.pid, signal.SIGINT)
            assert _line(process) == "got 2"
            # passed on when the one before it is done with
            process.send_signal(signal.SIGUSR2)
            assert _line(process) == "got 12"
        process.send_signal(signal.SIGUSR1)

        assert _line(process) == "counts {2: 5, 12: 5}"


class _Terminal:
    """A command on a terminal of its own, as its session's leader."""

    def __init__(self, tmp_path: Path, words: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(tmp_path)
            os.execvp(words[0], words)  # noqa: S606 - on the terminal
        self._text = b""

    def until(self, wanted: str) -> str:
        while wanted.encode() not in self._text:
            ready, _, _ = select.select([self.fd], [], [], 60)
            assert ready, self._text
            self._text += os.read(self.fd, 4096)
        return self._text.decode()

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)


@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_of_the_terminal_reaches_it_once(
    tmp_path: Path, key: bytes, number: signal.Signals
) -> None:
    words = [*RECORD, sys.executable, "-c", COUNTING, str(int(number))]
    terminal = _Terminal(tmp_path, words)
    terminal.until("ready")
    terminal.type(key)
    terminal.until(f"got {int(number)}")
    os.kill(terminal.pid, signal.SIGUSR1)

    assert f"counts {{{int(number)}: 1}}" in terminal.until("counts")
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 7


def test_the_program_receives_the_terminals_hangup(tmp_path: Path) -> None:
    # the system tells the session's leader alone, and that is us
    code = (
        "import os, signal\n"
        "def end(*_):\n"
        "    open('hung-up', 'w').close(); os._exit(9)\n"
        "signal.signal(signal.SIGHUP, end)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    terminal = _Terminal(tmp_path, [*RECORD, sys.executable, "-c", code])
    # to the end of the line, so that the program is not in the middle of writing it
    terminal.until("ready\r\n")
    os.close(terminal.fd)

    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 9
    assert (tmp_path / "hung-up").exists()


def test_an_interrupt_that_it_does_not_handle_ends_both_alike(tmp_path: Path) -> None:
    code = "import signal; print('ready', flush=True); signal.pause()"
    with subprocess.Popen(
        [*RECORD, sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        _line(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()

    assert process.returncode == -signal.SIGINT
    assert errors.count("KeyboardInterrupt") == 1


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP, signal.SIGTTIN])
def test_we_stop_and_continue_with_the_program(tmp_path: Path, number: signal.Signals) -> None:
    with _counting(tmp_path, signal.SIGCONT) as process:
        program = int(_line(process).split()[1])
        os.kill(program, number)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        # to us alone, as `kill -CONT` sends it
        process.send_signal(signal.SIGCONT)
        told = _line(process)
        process.send_signal(signal.SIGUSR1)

        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == number
        assert told == "got 18"
        assert _line(process) == "counts {18: 1}"


def test_a_job_is_stopped_and_continued_as_a_whole(tmp_path: Path) -> None:
    with _counting(tmp_path, signal.SIGCONT) as process:
        _line(process)
        for _ in range(2):
            os.killpg(process.pid, signal.SIGTSTP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert os.WSTOPSIG(status) == signal.SIGTSTP
            os.killpg(process.pid, signal.SIGCONT)
            assert _line(process) == "got 18"
        process.send_signal(signal.SIGUSR1)

        assert _line(process) == "counts {18: 2}"


def test_a_stop_counts_more_than_the_continuation_before_it(tmp_path: Path) -> None:
    with _counting(tmp_path, signal.SIGCONT) as process:
        _line(process)
        for _ in range(3):
            # it takes a moment to find out that the first is for us alone; then it is obsolete
            process.send_signal(signal.SIGCONT)
            os.killpg(process.pid, signal.SIGTSTP)
            until_s = time.monotonic() + 60
            stopped, status = 0, 0
            while not stopped and time.monotonic() < until_s:
                stopped, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
                time.sleep(0.001)
            os.killpg(process.pid, signal.SIGCONT)

            assert stopped
            assert os.WSTOPSIG(status) == signal.SIGTSTP
            assert _line(process) == "got 18"
        process.send_signal(signal.SIGUSR1)


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    code = (
        "import signal\n"
        "print([n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN])\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    trapped = "trap '' HUP INT QUIT TERM USR1 TSTP; exec \"$@\""
    words = (sys.executable, "-c", code)
    by_itself = subprocess.run(
        ["/bin/sh", "-c", trapped, "sh", *words], capture_output=True, text=True, check=True
    )

    recorded = subprocess.run(
        ["/bin/sh", "-c", trapped, "sh", *RECORD, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert recorded.stdout == by_itself.stdout
    assert "<Signals.SIGHUP: 1>" in recorded.stdout
    assert recorded.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("trapped", "ignored"),
    # whether we were started with them ignored cannot be found out: Python ignores both by then
    [('exec "$@" grep SigIgn /proc/self/status', False), (IGNORING, True)],
    ids=["by the caller", "by the command"],
)
def test_signals_that_python_ignores_are_not_ignored_in_other_programs(
    tmp_path: Path, trapped: str, *, ignored: bool
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"trap '' PIPE XFSZ; {trapped}", "sh", *RECORD],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    mask = int(done.stdout.split()[1], 16)
    numbers = (signal.SIGPIPE, signal.SIGXFSZ)
    assert [bool(mask >> number - 1 & 1) for number in numbers] == [ignored, ignored]


def test_nothing_else_differs_for_the_program(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "print({n: str(signal.getsignal(n)) for n in signal.valid_signals()})\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpgid(0) == os.getppid())\n"
        "print(os.getsid(0))\n"
    )

    by_itself, recorded = _run(tmp_path, sys.executable, "-c", code)

    assert recorded.stdout == by_itself.stdout
    assert recorded.stderr == ""


def test_descriptors_are_inherited(tmp_path: Path) -> None:
    code = "import os; os.write(7, b'seven'); print(os.read(8, 9))"
    script = f'"$@" -c "{code}" 7>written 8<given'
    (tmp_path / "given").write_text("eight")

    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *RECORD, sys.executable],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert (done.stdout, done.stderr) == ("b'eight'\n", "")
    assert (tmp_path / "written").read_text() == "seven"


def test_a_pipe_it_was_given_ends_when_it_closes_it(tmp_path: Path) -> None:
    # neither we nor a process of ours may hold the other end
    code = (
        "import os, sys\n"
        "os.close(int(sys.argv[1]))\n"
        "print(os.read(int(sys.argv[2]), 1), flush=True)\n"
    )
    reader, writer = os.pipe()
    with subprocess.Popen(
        [*RECORD, sys.executable, "-c", code, str(writer), str(reader)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        pass_fds=(reader, writer),
    ) as process:
        os.close(writer)

        assert process.communicate(timeout=600)[0] == "b''\n"
    os.close(reader)


@pytest.mark.skipif(shutil.which("bash") is None, reason="process substitution is bash's")
def test_process_substitution_works(tmp_path: Path) -> None:
    code = "import sys; print(open(sys.argv[1]).read())"

    done = subprocess.run(
        [
            str(shutil.which("bash")),
            "-c",
            '"$@" <(echo hi)',
            "bash",
            *RECORD,
            sys.executable,
            "-c",
            code,
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert done.stdout == "hi\n\n"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.kill(os.getpid(), 11)",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os._exit(41)",
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN)",
        "raise SystemExit('bye')",
        "1 / 0",
    ],
)
def test_it_ends_for_us_as_it_ended(tmp_path: Path, code: str) -> None:
    by_itself, recorded = _run(tmp_path, sys.executable, "-c", code)

    assert recorded.returncode == by_itself.returncode
    assert recorded.stderr == by_itself.stderr


# -- other Pythons --


def _foreign() -> list[tuple[str, str]]:
    """Return the interpreters of other versions that this machine has, with their versions."""
    names = ["python2.7", *(f"python3.{minor}" for minor in range(6, 16))]
    homes = Path("~/.pyenv/versions").expanduser().glob("*/bin/python")
    found = [path for name in names if (path := shutil.which(name))] + [str(home) for home in homes]
    versions = {}
    for path in found:
        asked = subprocess.run(
            [path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
            capture_output=True,
            text=True,
            check=False,
        )
        version = asked.stdout.strip()
        if asked.returncode == 0 and version.split(".")[:2] != [*map(str, sys.version_info[:2])]:
            versions[version] = path
    return sorted(versions.items())


def test_another_python_runs_as_by_itself_and_is_noted(tmp_path: Path) -> None:
    foreign = _foreign()
    if not foreign:
        pytest.skip("no Python of another version is here")
    code = "import sys; print(sorted(sys.path)); print(sys.argv); sys.exit(3)"

    for version, path in foreign:
        shutil.rmtree(tmp_path / "run.mtr", ignore_errors=True)
        by_itself, recorded = _run(tmp_path, path, "-c", code)

        assert recorded.stdout == by_itself.stdout
        noted = recorded.stderr.removeprefix(by_itself.stderr).splitlines()
        assert noted[0] == "meantime: run.mtr: nothing was recorded"
        assert noted[1].endswith(f" it is Python {version}; meantime is installed for Python {OWN}")
        assert len(noted) == 2
        assert recorded.returncode == 3
        (line,) = (tmp_path / "run.mtr" / "unrecorded").read_text().splitlines()
        assert line.split("\t")[1:] == [
            version,
            f"meantime is installed for Python {OWN}",
        ]


def _bootstrapped(
    tmp_path: Path, change: Callable[[str], str], code: str = "print('ran')"
) -> subprocess.CompletedProcess[str]:
    create(str(tmp_path / "run.mtr"))
    changed = environment(str(tmp_path / "run.mtr"), Options(), follow=True, base=os.environ)
    changed["MEANTIME_RECORDING"] = change(changed["MEANTIME_RECORDING"])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=changed
    )


def test_a_python_of_another_kind_is_noted_in_the_recording(tmp_path: Path) -> None:
    done = _bootstrapped(tmp_path, lambda text: text.replace("cpython-", "cpython-other-"))

    assert (done.stdout, done.stderr) == ("ran\n", "")
    assert (
        (tmp_path / "run.mtr" / "unrecorded")
        .read_text()
        .endswith(f"\tmeantime is installed for Python {OWN}\n")
    )


def test_one_line_reports_that_nothing_can_be_written(tmp_path: Path) -> None:
    done = _bootstrapped(tmp_path, lambda text: text.replace("run.mtr", "gone.mtr"))

    assert done.stdout == "ran\n"
    assert len(done.stderr.splitlines()) == 1
    assert "gone.mtr: No such file or directory" in done.stderr


def test_a_paths_odd_characters_arrive(tmp_path: Path) -> None:
    odd = tmp_path / "a%n b\n%p=c"
    odd.mkdir()

    done = _bootstrapped(odd, lambda text: text)

    assert (done.stdout, done.stderr) == ("ran\n", "")
    assert len(list((odd / "run.mtr").glob("*.facts"))) == 1


def test_a_recorded_program_imports_little_for_it(tmp_path: Path) -> None:
    code = "import sys; print(*sorted(sys.modules))"
    by_itself, recorded = _run(tmp_path, sys.executable, "-c", code)

    extra = set(recorded.stdout.split()) - set(by_itself.stdout.split())
    public = {name for name in extra if not name.startswith(("_", "meantime", "cython"))}
    # `types` and `gc` are built in or nothing but names; some interpreters have a `sitecustomize`
    assert public | {"sitecustomize"} == {"atexit", "gc", "sitecustomize", "types"}
    assert len(extra) <= 20


def test_a_loader_of_many_modules_is_left_alone() -> None:
    # as that of `select` and `_socket` is, where these are built in
    before = set(sys.modules)
    seen: list[ModuleType] = []
    names = [name for name in sys.builtin_module_names if name not in before][:2]
    watch = ImportWatch({names[0]: seen.append})
    try:
        modules = [import_module(name) for name in names]
    finally:
        watch.remove()
        for name in set(sys.modules) - before:
            del sys.modules[name]
    assert seen == modules[:1]
    for module in modules:
        spec: Any = module.__spec__
        assert [module.__loader__, spec.loader] == [BuiltinImporter] * 2


def test_a_module_is_watched_until_it_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_module.py").write_text("import absent_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[ModuleType] = []
    watch = ImportWatch({"watched_module": seen.append})
    try:
        asked: Any = find_spec("watched_module")
        assert type(copy.copy(asked.loader)) is SourceFileLoader
        with pytest.raises(ModuleNotFoundError, match="absent_module"):
            import_module("watched_module")
        assert seen == []
        monkeypatch.setitem(sys.modules, "absent_module", ModuleType("absent_module"))
        module = import_module("watched_module")
        assert seen == [module]
        assert type(module.__loader__) is SourceFileLoader
        reload(module)
        asked.loader.exec_module(module_from_spec(asked))
        assert seen == [module]
    finally:
        watch.remove()
        sys.modules.pop("watched_module", None)


def test_a_module_that_is_executed_after_the_recording_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[ModuleType] = []
    watch = ImportWatch({"watched_module": seen.append})
    asked: Any = find_spec("watched_module")
    watch.remove()
    asked.loader.exec_module(module_from_spec(asked))
    assert seen == []
