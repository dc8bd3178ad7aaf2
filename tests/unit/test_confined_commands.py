"""Commands with --confined: the same answers, and nothing that the content of a file could do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from meantime.cli import cli, confined
from meantime.confinement import means
from meantime.opening.joined_file import files_of

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux refuses files and networks"
)

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "samples" / "statemap" / "tst.io.in"
# Code that runs while a file is read, as it would if a file could make a reader run it.
PROVIDER = """
import fcntl, meantime, os, platform, resource, signal, socket, threading

(tgkill, tkill, shmget, shmctl, clone, vm_readv) = (
    (234, 200, 29, 31, 56, 310)
    if platform.machine() == "x86_64"
    else (131, 130, 194, 195, 220, 270)
)

class Files(meantime.StateProvider):
    version = 1

    def handle(self, state, event):
        pass

def called(number, *arguments):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def tried(work):
    try:
        work()
    except OSError as error:
        return type(error).__name__
    return "allowed"

for work in (
    lambda: open("/etc/hostname"), lambda: open({folder!r} + "/other.txt"),
    lambda: open({folder!r} + "/new.txt", "w"), lambda: os.listdir({folder!r}),
    lambda: os.unlink({folder!r} + "/other.txt"), lambda: socket.socket(),
    lambda: os.kill(os.getppid(), 0), lambda: os.execv("/bin/true", ["x"]), os.fork,
    lambda: os.chmod({folder!r} + "/other.txt", 0o666),
    lambda: os.truncate({folder!r} + "/other.txt", 0),
    lambda: os.setxattr({folder!r} + "/other.txt", "user.x", b"1"),
    # an end of the process that waits, by another call, or by its limit of time
    lambda: called(tgkill, os.getppid(), os.getppid(), 15),
    lambda: called(tkill, os.getppid(), 15),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0)),
    # a word that is typed into the terminal
    lambda: fcntl.ioctl(0, 0x5412, b"x"), lambda: called(shmget, 0, 4096, 0o1600),
    # a signal that a file sends, and one by the end of a child
    lambda: fcntl.fcntl(0, 8, os.getppid()), lambda: fcntl.ioctl(0, 0x8901, b"1234"),
    lambda: fcntl.fcntl(0, 10, 9), lambda: called(clone, 17, 0, 0, 0, 0),
    # what a file that may be read becomes for others, and what is known of one that may not
    lambda: os.fchmod(os.open(__file__, os.O_RDONLY), 0o666), lambda: os.utime(__file__),
    lambda: os.getxattr({folder!r} + "/other.txt", "user.x"),
    lambda: called(shmctl, 0, 0, 0), lambda: os.memfd_create("x"),
    lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    lambda: open("/proc/self/root/etc/hostname"), lambda: open(f"/proc/{{os.getppid()}}/environ"),
    lambda: called(vm_readv, os.getppid(), 0, 0, 0, 0, 0), lambda: called(425, 8, 0),
    lambda: os.pidfd_open(os.getppid()), lambda: os.posix_spawn("/bin/true", ["x"], {{}}),
    lambda: called(0x40000000 + 59, 0, 0, 0),
):
    print(tried(work), flush=True)
# what is not there: calls of later systems, a terminal, and a right to have more
for number in (452, 463, 512 + 8):
    assert tried(lambda: called(number, 0, 0, 0)) == "OSError", number
assert os.read(0, 1) == b""
try:
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)
except ValueError:
    print("kept")
# what a library may do
for work in (
    threading.Thread(target=print).start, lambda: signal.raise_signal(signal.SIGWINCH),
    lambda: resource.getrlimit(resource.RLIMIT_AS), lambda: fcntl.ioctl(0, 0x5413, b"x"),
):
    try:
        work()
    except OSError as error:
        assert error.errno == 25, error  # not a terminal
"""


def meantime(*words: object, program: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, which forks."""
    start = f"{program}\nfrom meantime.__main__ import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", start, *map(str, words)],
        capture_output=True,
        text=True,
        stdin=subprocess.PIPE,
        check=False,
    )


def test_what_a_command_answers_and_writes_is_the_same(tmp_path: Path) -> None:
    for options in ([], ["--confined"]):
        done = meantime("statemap", SAMPLE, "-o", tmp_path / f"{len(options)}.json", *options)
        assert not done.returncode, done.stderr
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    free, bound = (meantime("info", SAMPLE, *options) for options in ([], ["--confined"]))
    assert bound.stdout == free.stdout
    by_pattern = meantime("statemap", "--confined", SAMPLE.parent / "tst.i*", "-o", "-")
    assert by_pattern.stdout.startswith("<svg")


def test_a_history_is_built_and_read(tmp_path: Path) -> None:
    built = meantime("build", "--confined", SAMPLE, "-o", tmp_path / "a.mth")
    assert not built.returncode, built.stderr

    free = meantime("stats", tmp_path / "a.mth")
    bound = meantime("stats", "--confined", tmp_path / "a.mth")

    assert (bound.stdout, bound.returncode) == (free.stdout, 0)


def test_code_in_the_process_gets_no_files_no_network_and_no_other_process(tmp_path: Path) -> None:
    if not all(means().values()):
        pytest.skip("this kernel has no Landlock or seccomp")
    for name, content in (("p.py", PROVIDER.format(folder=str(tmp_path))), ("other.txt", "x")):
        (tmp_path / name).write_text(content)
    events = ROOT / "examples" / "files.jsonl"

    done = meantime("info", "--confined", "--provider", tmp_path / "p.py", events)

    assert done.stdout.split()[:35] == [*["PermissionError"] * 34, "kept"], (
        done.stdout + done.stderr
    )
    assert "records" in done.stdout, done.stderr
    assert (tmp_path / "other.txt").exists()


WRITER = """
import meantime
class Files(meantime.StateProvider):
    version = 1
    def handle(self, state, event):
        pass
for name in ("other.txt", "new.txt"):
    try:
        open({folder!r} + "/" + name, "w")
    except PermissionError:
        pass
"""


def test_what_builds_a_history_can_write_nothing_beside_it(tmp_path: Path) -> None:
    if not means()["files"]:
        pytest.skip("this kernel has no Landlock")
    for name, content in (("p.py", WRITER.format(folder=str(tmp_path))), ("other.txt", "x")):
        (tmp_path / name).write_text(content)
    events = ROOT / "examples" / "files.jsonl"
    command = ["build", events, "--provider", tmp_path / "p.py", "-o", tmp_path / "a.mth"]

    done = [meantime(*command, "--confined", *more) for more in ([], [], ["--force"])]

    assert [each.returncode for each in done] == [0, 1, 0], done
    assert "already exists; choose another name, or use --force" in done[1].stderr
    assert (tmp_path / "other.txt").read_text() == "x"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.mth", "other.txt", "p.py"]
    (tmp_path / "p.py").write_text("import os; os.abort()")
    assert meantime(*command, "--confined", "--force").returncode == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.mth", "other.txt", "p.py"]


def test_of_a_joined_file_only_its_parts_are_read(tmp_path: Path) -> None:
    if not means()["files"]:
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "sent").mkdir()
    for name in ("a.in", "b.in"):
        (tmp_path / "sent" / name).write_bytes(SAMPLE.read_bytes())
    joined = tmp_path / "sent" / "j.mtj"
    done = meantime("join", tmp_path / "sent" / "a.in", tmp_path / "sent" / "b.in", "-o", joined)
    assert not done.returncode, done.stderr
    free, bound = (meantime("info", joined, *options) for options in ([], ["--confined"]))
    assert bound.stdout == free.stdout
    assert files_of(joined) == [str(tmp_path / "sent" / name) for name in ("a.in", "b.in")]

    (tmp_path / "other.in").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "sent" / "b.in").unlink()
    (tmp_path / "sent" / "b.in").symlink_to(tmp_path / "other.in")

    done = meantime("info", joined, "--confined")
    assert (done.returncode, done.stdout) == (1, "")
    assert "refers to histories outside of its folder" in done.stderr


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("x = bytearray(3 << 30)", "MemoryError"),
        ("while True: pass", "this takes more than 1 s of the processor"),
        ("import os; os.abort()", "the process ended by SIGABRT: it may need more than"),
    ],
)
def test_the_system_ends_what_takes_too_much_and_nothing_is_left(
    tmp_path: Path, work: str, reason: str
) -> None:
    (tmp_path / "p.py").write_text(work)
    program = "import meantime.cli.confined as c; c._MOST_S = 1"
    command = ["statemap", ROOT / "examples" / "files.jsonl", "--confined"]

    done = meantime(
        *command, "--provider", tmp_path / "p.py", "-o", tmp_path / "out.svg", program=program
    )

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert reason in done.stderr
    assert [*tmp_path.glob("*.svg*")] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["view", str(SAMPLE)], "--confined applies to a page in a file: name it with -o"),
        (["info", "https://example.org/x.json"], "has no network"),
        (["heatmap", str(SAMPLE), "-o", "x.svg", "-j", "2"], "-j and --confined are"),
        (["info", str(SAMPLE), "--allow-paths"], "--allow-paths and --confined are mutually"),
    ],
)
def test_what_cannot_be_confined_is_said(words: list[str], reason: str) -> None:
    done = meantime(*words, "--confined")

    assert done.returncode == 2
    assert reason in done.stderr


def test_the_version_says_what_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meantime.confinement.means", lambda: {"files": False, "time": True})

    printed = CliRunner().invoke(cli, ["--version", "--verbose"]).output

    assert "--confined: files: NOT bounded here\n--confined: time: bounded\n" in printed
    assert "confined" not in CliRunner().invoke(cli, ["--version"]).output
    assert CliRunner().invoke(cli, ["--verbose", "formats"]).exit_code


def test_larger_inputs_have_more_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(3000))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(bytes(500))

    assert confined._size(str(tmp_path / "a")) == 3000
    assert confined._size(str(tmp_path / "b")) >= 500
    assert confined._size("no such file") == 0
